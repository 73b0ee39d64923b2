"""The OpenAPI document says what the endpoints do: every route, every message and every answer."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema_rs
import pytest
import pytest_asyncio
import schemathesis
from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.core.approval import approval, grants
from orchestrator.core.task import facts
from orchestrator.core.wire import review
from orchestrator.web import openapi
from orchestrator.web.app import Endpoints
from orchestrator.web.endpoint_table import ENDPOINTS, Endpoint
from orchestrator.web.openapi import document, refusals_of
from tests.harness.golden_review import FROM_REVIEWER, GOLDEN, TO_REVIEWER
from tests.harness.whole_server import Server, running
from tests.terminal.test_review_golden import types
from tests.test_docs import names, rows, section

DOCUMENT = document()
PAGE = Path(openapi.__file__).parents[2] / "docs" / "openapi.json"
FRAMES = GOLDEN.parent / "computer"
PLAIN = [endpoint for endpoint in ENDPOINTS if endpoint.tag != "sockets"]


def operations() -> dict[str, dict[str, Any]]:
    """Every operation of the document by its id."""
    return {one["operationId"]: one for path in DOCUMENT["paths"].values() for one in path.values()}


def parts(value: Any) -> list[dict[str, Any]]:
    """Every object of the document, at any depth."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [one for part in inside for one in parts(part)]
    return [value, *found] if isinstance(value, dict) else found


def schema_of(ref: dict[str, Any]) -> jsonschema_rs.Validator:
    """What decides whether a value is what a reference into the document says."""
    return jsonschema_rs.validator_for({**ref, "components": DOCUMENT["components"]}, validate_formats=True)


def messages(path: str, way: str) -> dict[str, dict[str, Any]]:
    """The references of the messages of a socket by their types."""
    found: dict[str, dict[str, Any]] = {}
    for ref in DOCUMENT["paths"][path]["get"]["x-messages"][way]:
        name = ref["$ref"].rpartition("/")[2]
        found[DOCUMENT["components"]["schemas"][name]["properties"]["type"]["const"]] = ref
    return found


# -- the document itself -----------------------------------------------------------------


def test_every_route_is_told_and_every_told_route_is_there() -> None:
    """With exactly its methods."""
    endpoints: Any = Endpoints.__new__(Endpoints)
    there = {
        (path, method)
        for route in endpoints._routes()
        for path, methods in [(route.path.replace(":path", ""), route.methods if isinstance(route, Route) else {"GET"})]
        for method in (methods or set()) - {"HEAD"}
    }
    told = {(path, method.upper()) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert told == there
    assert len(ENDPOINTS) == len(there) == len(operations())


def test_it_is_an_openapi_document_whose_references_lead_somewhere() -> None:
    """By the schema of OpenAPI 3.1 itself."""
    schemathesis.openapi.from_dict(DOCUMENT, config=schemathesis.Config()).validate()
    names = {one["$ref"] for one in parts(DOCUMENT) if isinstance(one.get("$ref"), str)}
    places = {f"#/components/{kind}/{name}" for kind, some in DOCUMENT["components"].items() for name in some}
    assert names <= places
    for schema in DOCUMENT["components"]["schemas"]:
        schema_of({"$ref": f"#/components/schemas/{schema}"})


def test_every_operation_says_what_it_is_for_and_how_it_refuses() -> None:
    """A sentence, a known tag, a token or none, and the one form for each refusal."""
    tags = {one["name"] for one in DOCUMENT["tags"]}
    for name, one in operations().items():
        assert re.fullmatch(r"[A-Z][^\n]+\.", one["summary"]), name
        assert set(one["tags"]) <= tags
        assert ("401" in one["responses"]) == (
            one.get("security") != [] or name in ("pair", "sign_in", "oidc_callback")
        ), name
        for status, answer in one["responses"].items():
            found = DOCUMENT["components"]["responses"][status] if "$ref" in answer else answer
            assert found["description"].strip("."), (name, status)
            if int(status) >= 400:
                assert found["content"]["application/json"]["schema"]["$ref"].endswith("/Error"), (name, status)


def test_the_page_is_the_document() -> None:
    """docs/openapi.json was written by scripts/docs.py."""
    assert json.loads(PAGE.read_text("utf-8")) == DOCUMENT


# They choose between two statuses, set a header or, as ``session``, refuse without a note of it.
ANSWERS_ITSELF = {"undo", "restore", "audit_verify", "resume", "approve", "reject", "page", "sign_in", "session"}


@pytest.mark.parametrize("endpoint", PLAIN, ids=lambda endpoint: endpoint.name)
def test_a_handler_returns_what_the_table_names(endpoint: Endpoint) -> None:
    """The models of the first status; a Response where the table has none, for a stream, and where it says more."""
    returned, first = get_type_hints(getattr(Endpoints, endpoint.name))["return"], endpoint.answers[endpoint.status]
    if endpoint.name in ANSWERS_ITSELF or endpoint.streams or not first.models:
        assert issubclass(returned, Response)
    else:
        assert set(get_args(returned) or [returned]) == set(first.models)


# -- the channels ------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_a_golden_message_of_the_reviewer_channel_fits(path: Path) -> None:
    """Each as the schema of its type has it."""
    message = json.loads(path.read_text("utf-8"))
    told = messages("/reviewer", "from_server") | messages("/reviewer", "from_client")
    schema_of(told[message["type"]]).validate(message)


@pytest.mark.parametrize("path", sorted(FRAMES.glob("*.frame")), ids=lambda path: path.stem)
def test_the_header_of_a_golden_frame_of_the_computer_channel_fits(path: Path) -> None:
    """Each as a schema of its type has it, in one of the two ways."""
    header = json.loads(path.read_bytes().partition(b"\n")[0])
    told = [messages("/computer", way).get(header["type"]) for way in ("from_server", "from_client")]
    assert any(schema_of(ref).is_valid(header) for ref in told if ref is not None)


def test_both_channels_are_told_whole() -> None:
    """Every message both ways."""
    assert set(messages("/reviewer", "from_server")) == types(TO_REVIEWER)
    assert set(messages("/reviewer", "from_client")) == types(FROM_REVIEWER)
    assert set(messages("/computer", "from_server")) | set(messages("/computer", "from_client")) == {
        json.loads(path.read_bytes().partition(b"\n")[0])["type"] for path in FRAMES.glob("*.frame")
    }


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_no_refusal_is_told_twice(endpoint: Endpoint) -> None:
    """An endpoint says itself only what does not follow from what it takes, or says why."""
    assert set(refusals_of(endpoint)).isdisjoint(endpoint.answers)
    assert all(why for why in endpoint.refusals.values())


# -- the page ----------------------------------------------------------------------------

SHOWN: dict[str, type[BaseModel]] = {
    "field of a request": approval.HitlResponse,
    "field of a call": approval.RequestedCallView,
    "field of `remember`": grants.GrantSpec,
}
CHAPTERS = {
    "field of a request": "### 2.2 What is shown",
    "field of a call": "### 2.2 What is shown",
    "field of `remember`": "## 4. Decisions",
}


def test_the_page_tells_every_field_of_the_messages_of_the_reviewer_channel() -> None:
    """The two tables have every field of every message, and no other."""
    told = rows(section("## 2. The reviewer channel: `/reviewer`"))
    for model in (*TO_REVIEWER, *FROM_REVIEWER):
        assert names(told[model.model_fields["type"].default]) == set(model.model_fields) - {"type"}


@pytest.mark.parametrize("head", SHOWN)
def test_the_page_tells_every_field_of_what_is_shown_and_given(head: str) -> None:
    """Each of the tables of fields has exactly those of its model."""
    table = section(CHAPTERS[head]).partition(f"| {head} |")[2].split("\n\n")[0]
    assert set(rows(table)) == set(SHOWN[head].model_fields)


def test_the_page_tells_every_action() -> None:
    """The table of actions has exactly those that a decision may have."""
    table = section("## 4. Decisions").partition("| action |")[2].split("\n\n")[0]
    assert set(rows(table)) == set(get_args(facts.DecisionAction))


def test_the_page_tells_the_limits_of_the_reviewer_channel() -> None:
    """As they are in the code."""
    assert f"at most {review.MAX_REVIEW_FRAME_CHARS} characters" in section("### 2.1 Order, gaps, limits")
    assert f"at most {grants.MAX_SESSION_S}; null" in section("## 4. Decisions")


# -- a server ----------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """One server for all: nothing that is sent here gets through."""
    async with running(tmp_path_factory.mktemp("endpoints")) as server:
        yield server


in_one_loop = pytest.mark.asyncio(loop_scope="module")
IDS = re.compile(r"{[a-z_]+}")
LISTS = [
    one
    for one in PLAIN
    if one.method == "GET"
    and one.answers[one.status].models
    and not one.streams
    and one.who != "browser"
    and not IDS.search(one.path)
]


@in_one_loop
async def test_anybody_is_given_the_document(server: Server) -> None:
    """Whole, and without a token."""
    answer = await server.http.get("/v1/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == DOCUMENT


@in_one_loop
@pytest.mark.parametrize("endpoint", LISTS, ids=lambda endpoint: endpoint.name)
async def test_what_is_listed_fits_the_document(server: Server, endpoint: Endpoint) -> None:
    """With the names of the document, where those of the code differ."""
    schema = operations()[endpoint.name]["responses"]["200"]["content"]["application/json"]["schema"]
    schema_of(schema).validate((await server.ask("GET", endpoint.path)).json())


@in_one_loop
@pytest.mark.parametrize(
    "endpoint", [one for one in PLAIN if one.who not in ("anybody", "browser")], ids=lambda endpoint: endpoint.name
)
async def test_an_endpoint_is_open_to_exactly_those_that_the_table_names(server: Server, endpoint: Endpoint) -> None:
    """Nobody, a computer, a program and a person without the role are turned away before the body is read."""
    path = IDS.sub("none", endpoint.path)

    async def status(token: str) -> int:
        sent, body = {"Authorization": f"Bearer {token}"}, {"odd": 1} if endpoint.body else None
        async with server.http.stream(endpoint.method, path, json=body, headers=sent) as answer:
            return answer.status_code

    assert await status("ccp_unknown") == 401
    assert await status(await server.computer("3")) == 401
    program, guest = await server._token({"kind": "agent", "name": "bot"}), await server.person("eve", "submitter")
    assert (await status(program) == 403) == (endpoint.who != "program")
    worker = await server._token({"kind": "agent", "name": "worker", "roles": ["submitter"]})
    assert (await status(worker) == 403) == (endpoint.who not in ("program", "submitter"))
    assert (await status(guest) == 403) == (endpoint.who in ("viewer", "reviewer", "admin"))


@in_one_loop
@pytest.mark.parametrize("path", sorted({one.path for one in PLAIN}))
async def test_another_method_is_refused_with_those_that_are_there(server: Server, path: str) -> None:
    """405, in the one form, with Allow."""
    there = {method.upper() for method in DOCUMENT["paths"][path]}
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - there:
        answer = await server.ask(method, IDS.sub("none", path))
        assert answer.status_code == 405
        assert answer.json()["error"]["code"] == "method_not_allowed"
        assert set(answer.headers["allow"].split(", ")) - {"HEAD"} <= there


@in_one_loop
@pytest.mark.parametrize(
    "asked",
    [
        *(f"GET /v1/tasks?limit={limit}" for limit in ("2.5", "1_0", "\u0663", "+5", "1e2", "", "-1", "9" * 400)),
        *(f"POST /v1/approve/none?wait_s={wait}" for wait in ("1_0", "inf", "60.01", "-1", "0x1", "1e999", "\u0663")),
    ],
)
async def test_a_number_of_a_query_is_one_as_json_has_them(server: Server, asked: str) -> None:
    """Whole where the document says so, within its range, in plain digits."""
    method, _, path = asked.partition(" ")
    answer = await server.ask(method, path, {} if method == "POST" else None)
    assert answer.status_code == 422, answer.text
    assert "number from" in answer.json()["error"]["message"]
