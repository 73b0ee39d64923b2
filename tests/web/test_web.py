"""The REST endpoints on a real uvicorn server: every refusal in one form, and what each endpoint does."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from websockets.exceptions import InvalidStatus

from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.core.wire.wire import ComputerId, SettledCall
from orchestrator.web.auth import check_approvers
from orchestrator.web.bodies import MAX_REQUEST_BYTES
from orchestrator.web.errors import error_form
from tests.harness.endpoints import Writing
from tests.harness.support import NEW, WRITE, Disk, Listening, call, dialed, final, says
from tests.harness.whole_server import Server, connected, running

NOWHERE = "x" * 24


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server without computers, whose model writes a file."""
    async with running(tmp_path, model=Writing()) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """One server for all the tests that it refuses, and that leave nothing behind."""
    async with running(tmp_path_factory.mktemp("shared"), model=Writing()) as server:
        yield server


in_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
async def disk(server: Server) -> AsyncIterator[Disk]:
    """The disk of computer 3, which is connected."""
    disk = Disk({"a.lua": b"old\n"})
    async with connected(server, "3", disk):
        yield disk


def refused(answer: httpx2.Response, status: int, code: str) -> dict[str, str]:
    """The error of an answer, which has exactly the one form of all errors."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert set(body) == {"error"}
    error: dict[str, str] = body["error"]
    assert set(error) - {"details"} == {"code", "message", "remedy"}
    assert error["code"] == code
    assert error["message"]
    assert error["remedy"]
    return error


# -- who is asking -----------------------------------------------------------------------

PROTECTED = [
    ("GET", "/v1/tasks"),
    ("POST", "/v1/tasks"),
    ("GET", "/v1/tasks/t-1"),
    ("GET", "/v1/tasks/t-1/events"),
    ("POST", "/v1/tasks/t-1/cancel"),
    ("POST", "/v1/tasks/t-1/answer"),
    ("GET", "/v1/requests"),
    ("GET", f"/v1/requests/{NOWHERE}"),
    ("POST", f"/v1/resume/{NOWHERE}"),
    ("POST", f"/v1/approve/{NOWHERE}"),
    ("POST", f"/v1/reject/{NOWHERE}"),
    ("GET", "/v1/computers"),
    ("POST", "/v1/tokens"),
    ("GET", "/v1/tokens"),
    ("DELETE", "/v1/tokens/person/bob"),
    ("POST", "/v1/stop"),
    ("POST", "/v1/pairings"),
    ("GET", "/metrics"),
]


async def test_every_endpoint_wants_a_persons_token(server: Server) -> None:
    """Without a token, with a wrong scheme, an unknown or a computer's token, every endpoint answers 401 first."""
    machine = await server.computer("9")
    wrong = ["", "Bearer", "Bearer nonsense", "Basic YTpi", f"Bearer {machine}", server.admin, f"Bearer  {NOWHERE}"]
    for method, path in PROTECTED:
        for value in wrong:
            headers = {"Authorization": value} if value else {}
            answer = await server.http.request(method, path, headers=headers, content=b"{not json")
            refused(answer, 401, "unauthenticated")
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_revoked_token_is_worth_nothing_at_once(server: Server) -> None:
    """A person's token works until the moment it is revoked; a revoked computer cannot dial, and is none to work on."""
    bob = await server.person("bob", "submitter")
    machine = await server.computer("9")
    assert (await server.ask("GET", "/v1/tasks", token=bob)).status_code == 200
    assert (await server.ask("DELETE", "/v1/tokens/person/bob")).json() == {"revoked": 1}
    assert (await server.ask("DELETE", "/v1/tokens/person/bob")).json() == {"revoked": 0}
    refused(await server.ask("GET", "/v1/tasks", token=bob), 401, "unauthenticated")
    assert (await server.ask("DELETE", "/v1/tokens/computer/9")).json() == {"revoked": 1}
    submitted = await server.ask("POST", "/v1/tasks", {**SUBMIT, "computers": ["9"]})
    assert submitted.json()["error"]["message"] == "There is no computer '9'."
    with pytest.raises(InvalidStatus) as denied:
        async with dialed(server.url, machine):
            pass
    assert denied.value.response.status_code == 401


async def test_revoking_ends_what_is_connected(server: Server) -> None:
    """A computer that is connected when its token is revoked is cut off at once, and is away."""
    machine = await server.computer("9")
    async with dialed(server.url, machine) as client:
        await client.greet()
        await server.ask("DELETE", "/v1/tokens/computer/9")
        assert await client.closed() == (1008, "the token was revoked")
    task_id = await server.submit([])
    await server.until(task_id, "task_ended")
    info = server.orchestrator.hub.info(ComputerId("9"))
    assert info is not None
    assert not info.online


@pytest.mark.parametrize("token", ["", "nonsense", "admin"])
@in_one_loop
async def test_the_endpoint_of_computers_wants_a_computers_token(shared: Server, token: str) -> None:
    """`/computer` refuses at the handshake with 401 and the one form, people's tokens included."""
    with pytest.raises(InvalidStatus) as denied:
        async with dialed(shared.url, shared.admin if token == "admin" else token):
            pass
    assert denied.value.response.status_code == 401
    error = json.loads(denied.value.response.body or b"")["error"]
    assert (error["code"], set(error)) == ("unauthenticated", {"code", "message", "remedy"})


@in_one_loop
async def test_healthz_needs_no_token_and_says_ok(shared: Server) -> None:
    """`/healthz` answers anyone."""
    answer = await shared.http.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


# -- the one form of errors --------------------------------------------------------------


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/v1/tasks/t-1", 404, "not_found"),
        ("GET", "/v1/tasks/t-1/events", 404, "not_found"),
        ("POST", "/v1/tasks/t-1/cancel", 404, "not_found"),
        ("GET", f"/v1/requests/{NOWHERE}", 404, "not_found"),
        ("POST", f"/v1/approve/{NOWHERE}", 404, "not_found"),
        ("POST", f"/v1/reject/{NOWHERE}", 404, "not_found"),
        ("GET", f"/v1/approve/{NOWHERE}", 405, "method_not_allowed"),
        ("GET", f"/v1/reject/{NOWHERE}", 405, "method_not_allowed"),
        ("GET", f"/v1/resume/{NOWHERE}", 405, "method_not_allowed"),
        ("HEAD", f"/v1/approve/{NOWHERE}", 405, ""),
        ("PUT", "/v1/tasks", 405, "method_not_allowed"),
        ("DELETE", "/v1/tasks/t-1", 405, "method_not_allowed"),
        ("GET", "/v1/tokens/person/bob", 405, "method_not_allowed"),
        ("GET", "/v1/tasks?status=Done", 422, "invalid_request"),
        ("GET", "/v1/tasks?status=", 422, "invalid_request"),
        ("GET", "/v1/tasks?limit=0", 422, "invalid_request"),
        ("GET", "/v1/tasks?limit=1001", 422, "invalid_request"),
        ("GET", "/v1/tasks?limit=nan", 422, "invalid_request"),
        ("GET", "/v1/tasks?limit=some", 422, "invalid_request"),
        ("POST", f"/v1/approve/{NOWHERE}?wait_s=61", 422, "invalid_request"),
        ("POST", f"/v1/approve/{NOWHERE}?wait_s=-1", 422, "invalid_request"),
    ],
)
@in_one_loop
async def test_a_refusal_says_what_happened_and_what_to_do(
    shared: Server, method: str, path: str, status: int, code: str
) -> None:
    """Unknown paths, ids, methods and query values are refused in the one form with their status."""
    answer = await shared.ask(method, path)
    if method == "HEAD":
        assert answer.status_code == status
        return
    refused(answer, status, code)


SUBMIT = {"prompt": "fix it", "computers": []}


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("path", "body", "says_of"),
    [
        ("/v1/tasks", {}, "prompt"),
        ("/v1/tasks", {"prompt": ""}, "prompt"),
        ("/v1/tasks", {"prompt": 3}, "prompt"),
        ("/v1/tasks", {**SUBMIT, "user_id": "eve"}, "user_id"),
        ("/v1/tasks", {**SUBMIT, "max_steps": 0}, "max_steps"),
        ("/v1/tasks", {**SUBMIT, "max_steps": 1001}, "max_steps"),
        ("/v1/tasks", {**SUBMIT, "max_steps": "3"}, "max_steps must be a whole number"),
        ("/v1/tasks", {**SUBMIT, "max_steps": True}, "max_steps must be a whole number"),
        ("/v1/tasks", {**SUBMIT, "max_wall_s": "30"}, "max_wall_s must be a number"),
        ("/v1/tasks", {**SUBMIT, "max_tokens": "500"}, "max_tokens must be a whole number"),
        ("/v1/tasks", {**SUBMIT, "priority": "1"}, "priority must be a whole number"),
        ("/v1/tasks", {**SUBMIT, "computers": "3"}, "computers must be a list"),
        ("/v1/tasks", {**SUBMIT, "max_wall_s": -1}, "max_wall_s must be at least 0"),
        ("/v1/tasks", {**SUBMIT, "max_wall_s": 604_801}, "max_wall_s must be at most 604800"),
        ("/v1/tasks", {**SUBMIT, "max_wall_s": "long"}, "max_wall_s must be a number"),
        ("/v1/tasks", {**SUBMIT, "max_tokens": 100_000_001}, "max_tokens must be at most 100000000"),
        ("/v1/tasks", {**SUBMIT, "max_tokens": 1.5}, "max_tokens must be a whole number"),
        ("/v1/tasks", {**SUBMIT, "priority": 101}, "priority"),
        ("/v1/tasks", {**SUBMIT, "on_reject": "explode"}, "on_reject"),
        ("/v1/tasks", {**SUBMIT, "computers": ["nope"]}, "There is no computer 'nope'"),
        ("/v1/tasks", {**SUBMIT, "prompt": "x" * 100_001}, "prompt"),
        ("/v1/tasks", [1], "object"),
        ("/v1/tokens", {"kind": "robot", "name": "r2"}, "kind"),
        ("/v1/tokens", {"kind": "person", "name": "a b", "roles": ["submitter"]}, "name"),
        ("/v1/tokens", {"kind": "person", "name": "", "roles": ["submitter"]}, "name"),
        ("/v1/tokens", {"kind": "person", "name": "bob"}, "roles"),
        ("/v1/tokens", {"kind": "person", "name": "bob", "roles": ["god"]}, "roles"),
        ("/v1/tokens", {"kind": "computer", "name": "c", "roles": ["admin"]}, "roles"),
        (f"/v1/resume/{NOWHERE}", {}, "either action or decisions"),
        (f"/v1/resume/{NOWHERE}", {"action": "explode"}, "action"),
        (f"/v1/resume/{NOWHERE}", {"action": "approve", "decisions": []}, "decisions"),
        (f"/v1/resume/{NOWHERE}", {"action": "approve", "by": "eve"}, "by"),
        (f"/v1/resume/{NOWHERE}", {"decisions": [{"call_id": "c", "action": "maybe"}]}, "decisions.0.action"),
        (f"/v1/approve/{NOWHERE}", {"action": "reject"}, "action"),
        ("/v1/tasks/t-1/answer", {"answer": "x"}, "question_id is missing"),
        ("/v1/stop", {"reason": 3}, "reason must be text"),
        ("/v1/pairings", {"computer": "a b"}, "The name 'a b' does not fit"),
        ("/v1/pairings", {"computer": "farm\ufe0f"}, "does not fit"),
        ("/v1/pairings", {"computer": "fa\u0301rm"}, "does not fit"),
        ("/v1/pairings", {"label": "x" * 33}, "label must have at most 32 characters"),
        ("/v1/pair", {"computer_id": 3}, "code is missing"),
        ("/v1/pair", {"code": "x", "computer_id": "3"}, "computer_id must be a whole number"),
    ],
)
@in_one_loop
async def test_a_body_that_does_not_fit_is_422_before_anything_is_looked_up(
    shared: Server, path: str, body: Any, says_of: str
) -> None:
    """A body with a wrong, missing or unknown field is 422 and says which, even where the id is unknown (D1)."""
    message = refused(await shared.ask("POST", path, body), 422, "invalid_request")["message"]
    assert says_of in message
    assert "Value error" not in message
    assert "Input should" not in message


def test_every_error_says_what_to_do_next() -> None:
    """An error that brings no remedy of its own gets one by its status; one that does keeps it."""
    kinds = [OrchestratorError]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
    assert len(kinds) > 20
    for status in {kind.http_status for kind in kinds}:
        bare = type("Bare", (OrchestratorError,), {"http_status": status})
        assert error_form(bare("It went wrong."))["error"]["remedy"].endswith("."), status
        assert error_form(bare("It went wrong.", remedy="Do it."))["error"]["remedy"] == "Do it."


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"null", b"prompt=x", b'"text"'])
@in_one_loop
async def test_a_body_that_is_no_json_object_is_422(shared: Server, content: bytes) -> None:
    """Anything but a JSON object is refused, whatever its content type says."""
    headers = {"Authorization": f"Bearer {shared.admin}", "Content-Type": "application/json"}
    answer = await shared.http.post("/v1/tasks", content=content, headers=headers)
    refused(answer, 422, "invalid_request")


@in_one_loop
async def test_a_body_has_a_limit(shared: Server) -> None:
    """A body over one MiB is refused, told by its length or streamed, and the server goes on."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(MAX_REQUEST_BYTES // 65536 + 2):
            yield b" " * 65536

    headers = {"Authorization": f"Bearer {shared.admin}"}
    for content in (b" " * (MAX_REQUEST_BYTES + 1), endless()):
        answer = await shared.http.post("/v1/tasks", content=content, headers=headers)
        assert f"more than {MAX_REQUEST_BYTES} bytes" in refused(answer, 422, "invalid_request")["message"]
    assert (await shared.http.get("/healthz")).status_code == 200


async def test_an_unknown_model_is_refused_when_it_is_named(tmp_path: Path) -> None:
    """A task for a model that cannot be used is 404 and no task; the shipped script is taken."""
    async with running(tmp_path) as server:
        for name in ("scripted:nothing", "no-such-model"):
            answer = await server.ask("POST", "/v1/tasks", {**SUBMIT, "model": name})
            error = refused(answer, 404, "not_found")
            assert name.removeprefix("scripted:") in error["message"]
        assert (await server.ask("GET", "/v1/tasks")).json() == {"tasks": [], "next": None}
        answer = await server.ask("POST", "/v1/tasks", {**SUBMIT, "model": "scripted:hello"})
        assert answer.status_code == 201


async def test_a_defect_is_told_as_one_and_the_server_lives(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Where the store breaks, the endpoint answers 500 in the one form, without a trace, and the log has the trace."""
    await server.orchestrator.store.close()
    answer = await server.ask("GET", "/v1/tasks")
    assert answer.status_code >= 500
    assert set(answer.json()["error"]) == {"code", "message", "remedy"}
    assert "Traceback" not in answer.text


# -- roles -------------------------------------------------------------------------------


async def test_each_role_may_use_its_endpoints(server: Server) -> None:
    """Submitting takes the role submitter, tokens take admin; a reviewer may look and no more."""
    reviewer = await server.person("rita", "reviewer")
    submitter = await server.person("sam", "submitter")
    refused(await server.ask("POST", "/v1/tasks", SUBMIT, token=reviewer), 403, "forbidden")
    assert (await server.ask("POST", "/v1/tasks", SUBMIT, token=submitter)).status_code == 201
    for token in (reviewer, submitter):
        body = {"kind": "person", "name": "eve", "roles": ["admin"]}
        refused(await server.ask("POST", "/v1/tokens", body, token=token), 403, "forbidden")
        refused(await server.ask("GET", "/v1/tokens", token=token), 403, "forbidden")
        refused(await server.ask("DELETE", "/v1/tokens/person/admin", token=token), 403, "forbidden")
        assert (await server.ask("GET", "/v1/tasks", token=token)).status_code == 200


async def test_the_tokens_list_never_shows_a_token(server: Server) -> None:
    """Whom there are tokens for is listed, with roles and whether revoked; a token is shown once, at its making."""
    bob = await server.person("bob", "submitter", "reviewer")
    machine = await server.computer("3")
    await server.ask("DELETE", "/v1/tokens/computer/3")
    answer = await server.ask("GET", "/v1/tokens")
    assert {(one["kind"], one["name"], tuple(one["roles"]), one["revoked"]) for one in answer.json()["tokens"]} == {
        ("person", "admin", ("submitter", "reviewer", "admin"), False),
        ("person", "bob", ("submitter", "reviewer"), False),
        ("computer", "3", (), True),
    }
    for secret in (bob, machine, server.admin):
        assert secret not in answer.text
    assert bob.startswith("ccp_")
    assert machine.startswith("ccc_")


async def test_the_identity_comes_from_the_token(server: Server, disk: Disk) -> None:
    """A task belongs to whom the token names: another submitter does not see it, a reviewer may not cancel it."""
    del disk
    bob, eve = await server.person("bob"), await server.person("eve")
    task_id = await server.submit(token=bob)
    request = await server.paused(task_id)
    assert request["requester"] == "bob"
    for path in (f"/v1/tasks/{task_id}/cancel", f"/v1/approve/{request['request_id']}"):
        refused(await server.ask("POST", path, token=eve), 404, "not_found")
    rita = await server.person("rita", "reviewer")
    refused(await server.ask("POST", f"/v1/tasks/{task_id}/cancel", token=rita), 403, "forbidden")
    answer = await server.ask("POST", f"/v1/tasks/{task_id}/cancel", {"reason": "no"}, token=bob)
    assert answer.json() == {"task_id": task_id, "status": "Canceled"}


# -- tasks -------------------------------------------------------------------------------


async def test_a_new_task_is_201_and_can_be_looked_at(server: Server, disk: Disk) -> None:
    """Submitting answers 201 with id and status; the task then shows all that it was given, and its request."""
    del disk
    body = {"prompt": "fix it", "computers": ["3"], "session_id": "s-1", "max_steps": 7, "priority": 2}
    body |= {"max_wall_s": 60.5, "max_tokens": 9000}
    answer = await server.ask("POST", "/v1/tasks", body)
    assert answer.status_code == 201
    task_id = answer.json()["task_id"]
    assert answer.json() == {"task_id": task_id, "status": "Queued"}
    request = await server.paused(task_id)
    task = (await server.ask("GET", f"/v1/tasks/{task_id}")).json()
    assert (task["status"], task["status_reason"], task["phase"]) == ("Paused", "waiting for approval", "reviewing")
    assert (task["prompt"], task["session_id"], task["user_id"]) == ("fix it", "s-1", "admin")
    assert (task["computers"], task["max_steps"], task["steps"], task["result"]) == (["3"], 7, 1, None)
    assert (task["max_wall_s"], task["max_tokens"], task["earlier"], task["priority"]) == (60.5, 9000, [], 2)
    assert task["tokens"] == 0
    assert 0 <= task["active_s"] < 60.5
    assert task["created_at"] <= task["updated_at"]
    assert task["request"] == request
    refused(await server.ask("POST", "/v1/tasks", {**body, "computers": ["4"]}), 422, "invalid_request")


async def test_a_task_that_names_no_limits_has_those_of_the_settings(tmp_path: Path) -> None:
    """What a task leaves out is as the settings say; what it names counts, 0 (no limit) too."""
    limits: dict[str, Any] = {"max_steps": 9, "max_wall_s": 30.0, "max_tokens": 500}
    async with running(tmp_path, model=Writing(), **limits) as server:
        every: tuple[dict[str, Any], ...] = ({}, {"max_wall_s": 0, "max_tokens": 0, "max_steps": 3})
        for named in every:
            task_id = await server.submit([], **named)
            task = (await server.ask("GET", f"/v1/tasks/{task_id}")).json()
            assert {name: task[name] for name in limits} == {**limits, **named}


async def test_stop_ends_ones_own_tasks_and_an_admins_everybodys(server: Server) -> None:
    """`/v1/stop` cancels what the person may cancel and is not over, and names it."""
    bob, eve = await server.person("bob"), await server.person("eve")
    await server.computer("3")
    over = await server.submit([], token=bob)
    await server.until(over, "task_ended")
    bobs = [await server.submit(token=bob) for _ in range(2)]
    eves = await server.submit(token=eve)
    answer = await server.ask("POST", "/v1/stop", {"reason": "fire"}, token=bob)
    assert answer.status_code == 200
    assert sorted(answer.json()["stopped"]) == sorted(bobs)
    for task_id in bobs:
        task = (await server.ask("GET", f"/v1/tasks/{task_id}")).json()
        assert (task["status"], "fire" in task["result"]["message"]) == ("Canceled", True)
    assert (await server.ask("GET", f"/v1/tasks/{eves}")).json()["status"] != "Canceled"
    assert (await server.ask("POST", "/v1/stop")).json() == {"stopped": [eves]}
    assert (await server.ask("POST", "/v1/stop")).json() == {"stopped": []}


async def test_tasks_are_listed_newest_first_by_status_and_limit(server: Server) -> None:
    """The list has the newest first, filters by exact status, and gives at most `limit`."""
    ids = [await server.submit([], prompt=f"task {number}") for number in range(3)]
    for task_id in ids:
        await server.until(task_id, "task_ended")
    listed = (await server.ask("GET", "/v1/tasks")).json()["tasks"]
    assert [one["task_id"] for one in listed] == ids[::-1]
    assert {one["status"] for one in listed} == {"Completed"}
    assert [one["prompt"] for one in listed] == ["task 2", "task 1", "task 0"]
    assert len((await server.ask("GET", "/v1/tasks?limit=2")).json()["tasks"]) == 2
    assert len((await server.ask("GET", "/v1/tasks?status=Completed&limit=1")).json()["tasks"]) == 1
    assert (await server.ask("GET", "/v1/tasks?status=Paused")).json() == {"tasks": [], "next": None}


async def test_tasks_are_listed_by_session(server: Server) -> None:
    """`session_id` gives the tasks of one conversation, newest first, and nothing for one that is not known."""
    ids = [await server.submit([], session_id=name) for name in ("s-1", "s-2", "s-1")]
    listed = (await server.ask("GET", "/v1/tasks?session_id=s-1")).json()["tasks"]
    assert [one["task_id"] for one in listed] == [ids[2], ids[0]]
    assert (await server.ask("GET", "/v1/tasks?session_id=s-1&limit=1")).json()["tasks"][0]["task_id"] == ids[2]
    assert (await server.ask("GET", "/v1/tasks?session_id=nobody")).json() == {"tasks": [], "next": None}


async def test_tasks_come_in_pages(server: Server) -> None:
    """`next` of a page leads to the older ones, and is null where there are none; another value is refused."""
    ids = [await server.submit([]) for _ in range(5)]
    paged: list[str] = []
    after = ""
    for more in (True, True, False):
        page = (await server.ask("GET", f"/v1/tasks?limit=2&after={after}")).json()
        paged += [one["task_id"] for one in page["tasks"]]
        after = page["next"]
        assert (after is not None) is more
    assert paged == ids[::-1]
    answer = await server.ask("GET", "/v1/tasks?after=2")
    assert (answer.status_code, answer.json()["error"]["remedy"]) == (422, "Send the last answer's next.")


async def test_a_task_that_ended_cannot_be_canceled(server: Server) -> None:
    """Canceling what is over is 409 and says how it ended."""
    task_id = await server.submit([])
    await server.until(task_id, "task_ended")
    error = refused(await server.ask("POST", f"/v1/tasks/{task_id}/cancel"), 409, "task_ended")
    assert "Completed" in error["message"]


async def test_a_question_is_answered_once(tmp_path: Path) -> None:
    """The question is shown with its id; its first answer goes to the model, a second is 409, an unknown 404."""
    async with running(tmp_path, model=Writing(call("ask_user", question="Which?"), message="the left one")) as server:
        task_id = await server.submit([], prompt="which one is it?")
        task = await server.until(task_id, "question_asked")
        assert task["question"]["question"] == "Which?"
        assert task["question"]["options"] == []
        path, body = f"/v1/tasks/{task_id}/answer", {"question_id": task["question"]["question_id"], "answer": "left"}
        refused(await server.ask("POST", path, {**body, "question_id": "q"}), 404, "not_found")
        empty = refused(await server.ask("POST", path, {**body, "answer": " \u200b"}), 422, "invalid_request")
        assert empty["remedy"] == "Answer in words, or with the number of a choice."
        assert (await server.ask("POST", path, body)).status_code == 200
        ended = await server.until(task_id, "task_ended")
        assert (ended["status"], ended["question"]) == ("Completed", None)
        assert ended["result"]["message"] == "the left one"
        refused(await server.ask("POST", path, body), 409, "not_pending")


# -- decisions ---------------------------------------------------------------------------


async def pending(server: Server) -> dict[str, Any]:
    """A fresh task's open request."""
    return await server.paused(await server.submit())


async def test_a_request_shows_exactly_what_would_run(server: Server, disk: Disk) -> None:
    """The request has the calls with arguments, diff, hash, verdict and digests, and where to decide it."""
    request = await pending(server)
    (shown,) = request["tool_calls"]
    assert (shown["tool"], shown["plugin_name"], shown["computer"], shown["state"]) == (
        "cc_write",
        "cc",
        "3",
        "pending",
    )
    assert shown["args"] == WRITE["args"]
    assert shown["observed"]["state"] == {"a.lua": disk.hash("a.lua")}
    assert "-old\n+print('new')\n" in shown["observed"]["diff"]
    assert shown["action_digest"] == request["action_digest"]
    assert (request["message"], request["risk"], request["goal"]) == (
        "Human intervention required.",
        "medium",
        "fix my farm",
    )
    assert request["approval_url"] == f"/v1/approve/{request['request_id']}"
    assert request["rejection_url"] == f"/v1/reject/{request['request_id']}"
    assert request["allowed_decisions"] == ["approve", "reject", "edit", "respond"]
    listed = (await server.ask("GET", "/v1/requests")).json()["requests"]
    assert listed == [request]
    assert (await server.ask("GET", f"/v1/requests/{request['request_id']}")).json() == request


async def test_approve_is_202_and_the_very_thing_happens(server: Server, disk: Disk) -> None:
    """Approving answers 202 at once; the file then has the bytes of the diff and the request is closed (409)."""
    request = await pending(server)
    answer = await server.ask("POST", request["approval_url"])
    assert (answer.status_code, set(answer.json())) == (202, {"task_id", "status", "progress"})
    ended = await server.until(request["task_id"], "task_ended")
    assert ended["status"] == "Completed"
    assert ended["result"]["message"] == "written"
    assert disk.files == {"a.lua": NEW}
    refused(await server.ask("GET", f"/v1/requests/{request['request_id']}"), 409, "not_pending")
    assert (await server.ask("GET", "/v1/requests")).json() == {"requests": []}


async def test_approve_and_wait_answers_with_the_result(server: Server, disk: Disk) -> None:
    """With `wait_s` approve answers 200 and the final result."""
    del disk
    request = await pending(server)
    answer = await server.ask("POST", f"{request['approval_url']}?wait_s=20")
    assert answer.status_code == 200
    assert answer.json() == {
        "task_id": request["task_id"],
        "status": "Completed",
        "kind": "final",
        "explanation": "that was it",
        "success": True,
        "message": "written",
        "details": {},
        "report": ["changed a.lua  +1 -1", "not run since it was changed: a.lua"],
        "verified": True,
    }


async def test_approve_and_wait_answers_with_the_next_request(tmp_path: Path) -> None:
    """With `wait_s` approve answers 200 and the next request when the task asks again."""
    replies = Listening(says(WRITE), says(call("cc_delete", path="a.lua")), final())
    async with running(tmp_path, model=replies) as server, connected(server, "3", Disk()):
        request = await pending(server)
        answer = await server.ask("POST", f"{request['approval_url']}?wait_s=20")
        assert answer.status_code == 200
        following = answer.json()
        assert following["request_id"] != request["request_id"]
        assert (following["status"], following["tool_calls"][0]["tool"]) == ("Paused", "cc_delete")


async def test_reject_is_200_and_nothing_happens(server: Server, disk: Disk) -> None:
    """Rejecting answers 200, ends the task as Canceled with the reason, and nothing was touched (D12)."""
    request = await pending(server)
    answer = await server.ask("POST", request["rejection_url"], {"reason": "not that file"})
    then = {"task_id": request["task_id"], "status": "Canceled", "progress": ""}
    assert (answer.status_code, answer.json()) == (200, then)
    task = (await server.ask("GET", f"/v1/tasks/{request['task_id']}")).json()
    assert (task["status_reason"], task["result"]["success"]) == ("rejected", False)
    assert "not that file" in task["result"]["message"]
    assert disk.done == []


async def test_reject_and_continue_goes_on_without_it(server: Server, disk: Disk) -> None:
    """With on_reject continue the task goes on and the model ends it; nothing was touched (D13)."""
    request = await pending(server)
    body = {"action": "reject", "on_reject": "continue", "reason": "no"}
    answer = await server.ask("POST", f"/v1/resume/{request['request_id']}", body)
    assert answer.json()["status"] == "Running"
    assert (await server.until(request["task_id"], "task_ended"))["status"] == "Completed"
    assert disk.done == []


async def test_resume_takes_decisions_for_each_call(tmp_path: Path) -> None:
    """`/v1/resume` with decisions decides each call by itself, bound to the digest that was shown."""
    disk = Disk()
    model = Writing(WRITE, call("cc_write", path="b", content="two"))
    async with running(tmp_path, model=model) as server, connected(server, "3", disk):
        request = await pending(server)
        first, second = request["tool_calls"]
        decisions = [
            {"call_id": first["call_id"], "action": "reject", "on_reject": "continue"},
            {"call_id": second["call_id"], "action": "approve", "expected_digest": second["action_digest"]},
        ]
        answer = await server.ask("POST", f"/v1/resume/{request['request_id']}", {"decisions": decisions})
        assert answer.status_code == 202
        await server.until(request["task_id"], "task_ended")
        assert disk.done == ["fs_write b"]


@pytest.mark.parametrize("wrong", ["digest", "unknown call", "twice", "verb", "whole digest"])
async def test_one_bad_entry_applies_nothing(tmp_path: Path, wrong: str) -> None:
    """A batch with a stale digest, an unknown or repeated call or a verb out of place is 409, all of it (D3, B1)."""
    disk = Disk()
    model = Writing(WRITE, call("cc_write", path="b", content="two"))
    async with running(tmp_path, model=model) as server, connected(server, "3", disk):
        request = await pending(server)
        ids = [one["call_id"] for one in request["tool_calls"]]
        good, other = ({"call_id": one, "action": "approve"} for one in ids)
        bodies: dict[str, Any] = {
            "digest": {"decisions": [good, {**other, "expected_digest": "0" * 64}]},
            "unknown call": {"decisions": [good, {**other, "call_id": "c0"}]},
            "twice": {"decisions": [good, {**good, "action": "reject"}]},
            "verb": {"decisions": [good, {**other, "action": "mark_done"}]},
            "whole digest": {"action": "approve", "expected_digest": "0" * 64},
        }
        path = f"/v1/resume/{request['request_id']}"
        refused(await server.ask("POST", path, bodies[wrong]), 409, "invalid_decision")
        assert (await server.ask("GET", f"/v1/requests/{request['request_id']}")).json() == request
        right = {"action": "approve", "expected_digest": request["action_digest"]}
        assert (await server.ask("POST", path, right)).status_code == 202
        await server.until(request["task_id"], "task_ended")
        assert disk.done == ["fs_write a.lua", "fs_write b"]


async def test_approving_twice_happens_once(server: Server, disk: Disk) -> None:
    """The same person approving again gets 200 and the task as it is; nothing runs a second time (D6)."""
    request = await pending(server)
    assert (await server.ask("POST", request["approval_url"])).status_code == 202
    again = await server.ask("POST", request["approval_url"])
    assert (again.status_code, again.json()["task_id"]) == (200, request["task_id"])
    await server.until(request["task_id"], "task_ended")
    late = await server.ask("POST", f"{request['approval_url']}?wait_s=5")
    assert (late.status_code, late.json()["message"]) == (200, "written")
    assert disk.done == ["fs_write a.lua"]


async def test_the_other_decision_afterwards_is_409_and_names_who_decided(server: Server, disk: Disk) -> None:
    """Rejecting what was approved is 409 and says who decided what; the approved call runs (D7, D8)."""
    request = await pending(server)
    await server.ask("POST", request["approval_url"])
    error = refused(await server.ask("POST", request["rejection_url"]), 409, "not_pending")
    assert "approved by admin" in error["message"]
    await server.until(request["task_id"], "task_ended")
    assert disk.done == ["fs_write a.lua"]


async def test_two_reviewers_race_and_one_wins(tmp_path: Path) -> None:
    """Approve and reject at once: exactly one is carried out, the other is 409, and the outcome fits the winner."""
    disk = Disk()
    async with running(tmp_path, model=Writing(), approvers="role:reviewer") as server, connected(server, "3", disk):
        rita, rob = await server.person("rita", "reviewer"), await server.person("rob", "reviewer")
        request = await pending(server)
        answers = await asyncio.gather(
            server.ask("POST", request["approval_url"], token=rita),
            server.ask("POST", request["rejection_url"], token=rob),
        )
        statuses = [answer.status_code for answer in answers]
        assert sorted(statuses) in ([200, 409], [202, 409])
        ended = await server.until(request["task_id"], "task_ended")
        if statuses[0] == 202:
            assert (ended["status"], disk.done) == ("Completed", ["fs_write a.lua"])
        else:
            assert (ended["status"], disk.done) == ("Canceled", [])


async def test_an_idempotency_key_makes_a_repeat_harmless(tmp_path: Path) -> None:
    """The same decision with the same key by the same person is answered with the first outcome; never run twice."""
    disk = Disk()
    async with running(tmp_path, model=Writing(), approvers="role:reviewer") as server, connected(server, "3", disk):
        rita, rob = await server.person("rita", "reviewer"), await server.person("rob", "reviewer")
        request = await pending(server)
        path, key = f"/v1/resume/{request['request_id']}", {"Idempotency-Key": "k-1"}
        assert (await server.ask("POST", path, {"action": "approve"}, token=rita, **key)).status_code == 202
        await server.until(request["task_id"], "task_ended")
        again = await server.ask("POST", path, {"action": "approve"}, token=rita, **key)
        assert (again.status_code, again.json()["status"]) == (200, "Completed")
        by_body = {"action": "approve", "idempotency_key": "k-1"}
        assert (await server.ask("POST", path, by_body, token=rita)).status_code == 200
        refused(await server.ask("POST", path, {"action": "approve"}, token=rob, **key), 409, "not_pending")
        assert disk.done == ["fs_write a.lua"]


async def test_an_idempotency_key_is_for_one_decision(tmp_path: Path) -> None:
    """The key with another verb, other arguments or another digest is 409 and says why; one that is too long is 422."""
    disk = Disk()
    async with running(tmp_path, model=Writing()) as server, connected(server, "3", disk):
        request = await pending(server)
        path, key = f"/v1/resume/{request['request_id']}", {"Idempotency-Key": "k" * 200}
        long = refused(
            await server.ask("POST", path, {"action": "approve"}, **{"Idempotency-Key": "k" * 201}),
            422,
            "invalid_request",
        )
        assert "has 201 characters, over 200" in long["message"]
        assert (await server.ask("GET", f"/v1/requests/{request['request_id']}")).json() == request
        assert (await server.ask("POST", path, {"action": "approve"}, **key)).status_code == 202
        await server.until(request["task_id"], "task_ended")
        edit = {"call_id": request["tool_calls"][0]["call_id"], "action": "edit", "args": {"path": "b", "content": "x"}}
        for other in (
            {"action": "reject"},
            {"decisions": [edit]},
            {"action": "approve", "expected_digest": "0" * 64},
        ):
            error = refused(await server.ask("POST", path, other, **key), 409, "invalid_decision")
            assert error["message"] == "This idempotency key was used for another decision."
        seen = {"action": "approve", "expected_digest": request["action_digest"]}
        assert (await server.ask("POST", path, seen, **key)).status_code == 200
        assert disk.done == ["fs_write a.lua"]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('{"action": "approve", "action": "reject"}', "action"),
        ('{"action": "reject", "\\u0061ction": "approve"}', "action"),
        (
            '{"decisions": [{"call_id": "CALL", "action": "edit", "args": {"path": "a", "content": "", "path": "b"}}]}',
            "path",
        ),
        ('{"decisions": [{"call_id": "CALL", "action": "approve", "call_id": "CALL"}]}', "call_id"),
    ],
)
async def test_a_decision_that_says_a_thing_twice_is_422(server: Server, disk: Disk, body: str, name: str) -> None:
    """Whichever of the two were taken, a reader in between may have taken the other: nothing is decided."""
    request = await pending(server)
    sent = body.replace("CALL", request["tool_calls"][0]["call_id"])
    headers = {"Authorization": f"Bearer {server.admin}"}
    answer = await server.http.post(f"/v1/resume/{request['request_id']}", content=sent, headers=headers)
    assert refused(answer, 422, "invalid_request")["message"] == f"The body has the key '{name}' twice."
    assert (await server.ask("GET", f"/v1/requests/{request['request_id']}")).json() == request
    assert disk.done == []


async def test_a_decision_after_the_cancel_is_409(server: Server, disk: Disk) -> None:
    """Canceling closes the open request in the same breath: approving it is 409 and nothing runs (D10)."""
    request = await pending(server)
    await server.ask("POST", f"/v1/tasks/{request['task_id']}/cancel")
    error = refused(await server.ask("POST", request["approval_url"]), 409, "not_pending")
    assert "canceled" in error["message"]
    assert disk.done == []
    assert (await server.ask("GET", "/v1/requests")).json() == {"requests": []}


async def test_refusals_of_a_decision_come_in_this_order(server: Server, disk: Disk) -> None:
    """401 before 422 before 404 before 403 before 409 (D1); what somebody may not see is not there."""
    del disk
    eve, sue = await server.person("eve", "viewer"), await server.person("sue", "submitter")
    request = await pending(server)
    open_, unknown = request["approval_url"], f"/v1/approve/{NOWHERE}"
    bad = {"nonsense": 1}
    refused(await server.ask("POST", unknown, bad, token="x"), 401, "unauthenticated")
    refused(await server.ask("POST", unknown, bad, token=eve), 422, "invalid_request")
    refused(await server.ask("POST", open_, bad, token=eve), 422, "invalid_request")
    refused(await server.ask("POST", unknown, token=eve), 404, "not_found")
    refused(await server.ask("POST", open_, bad, token=sue), 422, "invalid_request")
    unseen, absent = [await server.ask("POST", path, token=sue) for path in (open_, unknown)]
    assert unseen.status_code == absent.status_code == 404
    assert unseen.text.replace(request["request_id"], "") == absent.text.replace(NOWHERE, "")
    refused(await server.ask("POST", open_, token=eve), 403, "forbidden")
    await server.ask("POST", request["rejection_url"])
    refused(await server.ask("POST", open_, token=eve), 403, "forbidden")
    refused(await server.ask("POST", open_), 409, "not_pending")


async def test_looking_decides_nothing(server: Server, disk: Disk) -> None:
    """GET on every endpoint of a decision is 405 and leaves the request as it was."""
    request = await pending(server)
    for verb in ("approve", "reject", "resume"):
        answer = await server.ask("GET", f"/v1/{verb}/{request['request_id']}?action=approve")
        refused(answer, 405, "method_not_allowed")
        assert "POST" in answer.headers["allow"]
    assert (await server.ask("GET", f"/v1/requests/{request['request_id']}")).json() == request
    assert disk.done == []


@pytest.mark.parametrize(
    ("approvers", "may"),
    [
        ("requester", {"rita", "admin"}),
        ("not_requester", {"rita", "admin"}),
        ("role:reviewer", {"rita", "admin"}),
        ("role:submitter", {"sam", "sue", "admin"}),
        ("role:admin", {"admin"}),
    ],
)
async def test_who_may_decide_is_a_setting(tmp_path: Path, approvers: str, may: set[str]) -> None:
    """`approvers` says who decides a task of sam: exactly those are let through; others do not even see it."""
    async with running(tmp_path, model=Writing(), approvers=approvers) as server, connected(server, "3", Disk()):
        tokens = {
            "sam": await server.person("sam", "submitter"),
            "sue": await server.person("sue", "submitter"),
            "rita": await server.person("rita", "reviewer"),
            "admin": server.admin,
        }
        request = await server.paused(await server.submit(token=tokens["sam"]))
        wrong = {"action": "approve", "expected_digest": "0" * 64}
        answers = {
            name: (await server.ask("POST", f"/v1/resume/{request['request_id']}", wrong, token=token)).status_code
            for name, token in tokens.items()
        }
        assert {name for name, status in answers.items() if status == 409} == may
        assert set(answers.values()) <= {403, 404, 409}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("approvers", ["", "nobody", "role:god", "role:", "requester:x"])
def test_nonsense_for_approvers_is_refused(approvers: str) -> None:
    """What is none of the forms of `approvers` is refused: nobody could decide, or everybody."""
    with pytest.raises(InvalidRequest, match="approvers cannot be"):
        check_approvers(approvers)


# -- computers ---------------------------------------------------------------------------


async def test_computers_are_listed_connected_or_not(server: Server, disk: Disk) -> None:
    """All that have a token are listed: what a connected one said of itself, and that the others are away."""
    del disk
    await server.computer("4")
    await server.computer("5")
    await server.ask("DELETE", "/v1/tokens/computer/5")
    first, second = (await server.ask("GET", "/v1/computers")).json()["computers"]
    assert first == {
        "computer": "3",
        "online": True,
        "state": "online",
        "frozen": None,
        "belongs_to": None,
        "label": "farm",
        "former_labels": [],
        "host": "ComputerCraft 1.113.1 (Minecraft 1.20.1)",
        "family": "advanced",
        "computer_id": 3,
        "client": "0.1.0",
        "fuel": None,
        "fuel_limit": None,
        "position": None,
        "owner": "admin",
        "seen_at": None,
        "node": None,
    }
    away = {"online": False, "state": "away", "frozen": None, "owner": "admin", "belongs_to": None}
    assert second == {"computer": "4", **away, "seen_at": None, "node": None}


async def test_a_task_waits_for_its_computer_and_goes_on_when_it_comes(server: Server) -> None:
    """A task for a computer that is away waits; when the computer dials in, the task goes on by itself."""
    token = await server.computer("3")
    disk = Disk()
    task_id = await server.submit()
    await server.until(task_id, "calls_proposed")
    shown = (await server.ask("GET", f"/v1/tasks/{task_id}")).json()
    listed = (await server.ask("GET", "/v1/tasks")).json()["tasks"][0]
    for told in (shown, listed):
        assert told["status_reason"] == "waiting for computer 3, which is away"
    async with connected(server, "3", disk, token):
        request = await server.paused(task_id)
        await server.ask("POST", request["approval_url"])
        assert (await server.until(task_id, "task_ended"))["status"] == "Completed"
    assert disk.done == ["fs_write a.lua"]


async def test_a_drop_in_the_middle_is_settled_at_the_next_hello(server: Server) -> None:
    """A computer that drops during a call is asked by id at its return, over real sockets; nothing is resent."""
    token = await server.computer("3")
    async with dialed(server.url, token) as client:
        await client.greet()
        task_id = await server.submit()
        look, _ = await client.hear("call")
        await client.result(look.call_id, Disk({"a.lua": b"old\n"}).perform("fs_read", {"path": "a.lua"}, None))
        request = await server.paused(task_id)
        await server.ask("POST", request["approval_url"])
        while (message := (await client.hear())[0]).type != "call":
            pass
        assert message.method == "fs_write"
    async with dialed(server.url, token) as client:
        await client.greet(calls=(message.call_id,), highest=message.number)
        settle, _ = await client.hear("settle")
        assert settle.call_ids == (message.call_id,)
        assert settle.number > message.number
        await client.result(message.call_id, Disk().perform("fs_stat", {"path": "a.lua"}, None))
        await client.settled(settle.number, _finished(message.call_id))
        ack, _ = await client.hear("result_ack")
        assert (ack.call_id, ack.number > settle.number) == (message.call_id, True)
        assert (await server.until(task_id, "task_ended"))["status"] == "Completed"


def _finished(run_id: str) -> Any:
    return SettledCall(call_id=run_id, state="finished", ok=True)


async def test_an_endpoint_with_a_slash_too_many_is_not_found(server: Server) -> None:
    """A redirect would send whoever follows it to the host that the request claims."""
    answer = await server.http.get("/v1/tasks/", headers={"Host": "evil.example"}, follow_redirects=False)
    assert answer.status_code == 404
    assert "location" not in answer.headers
