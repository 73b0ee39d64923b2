"""Whatever is sent to an endpoint, it answers as the OpenAPI document says, and never with 500.

schemathesis makes the requests from the document, such as fit it and such as do not; here they get ids of
tasks, requests and questions that are there, since what is made up never gets past 404. Left out are the
events of a task and of a screen, which end when the task does or never, and the two sockets, which do not speak HTTP:
test_events.py, test_screens.py, test_reviewer.py and test_hub.py hold these.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.result import Ok

from orchestrator.web.endpoint_table import ENDPOINTS, Endpoint
from orchestrator.web.openapi import document
from tests import ROOT
from tests.harness.fuzzed_server import CALLS, COMPUTER
from tests.thinning import thinned
from tests.waiting import HANG_S

FUZZED: Final = [endpoint for endpoint in ENDPOINTS if endpoint.tag != "sockets" and not endpoint.streams]
"""All but those whose answer may have no end."""
OPEN: Final = [endpoint for endpoint in FUZZED if endpoint.who == "anybody"]
HELD: Final = [endpoint for endpoint in FUZZED if endpoint.who != "anybody"]
load_all_checks()
_ANSWERS: Final = [
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
]  # fmt: skip
CHECKED: Final = {
    GenerationMode.POSITIVE: CHECKS.get_by_names(_ANSWERS),
    GenerationMode.NEGATIVE: CHECKS.get_by_names([*_ANSWERS, "negative_data_rejection"]),
}
"""What does not fit the document is refused, too."""
LONGEST_WAIT_S: Final = 0.05


@dataclass
class Target:
    """A server, and the ids of what is there."""

    http: requests.Session
    url: str
    tokens: dict[str, str]
    ids: dict[str, list[Any]] = field(
        default_factory=lambda: {"name": ["bob", "eve"], "roles": [["submitter"], ["reviewer", "submitter"], []]}
    )
    """What may stand for a parameter or a field of this name."""

    def headers(self, who: str) -> dict[str, str]:
        """Who is asking."""
        return {"Authorization": f"Bearer {self.tokens[who]}"} if who in self.tokens else {}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What the admin is answered."""
        answer = self.http.request(method, self.url + path, json=body, headers=self.headers("admin"), timeout=HANG_S)
        assert answer.ok, answer.text
        return answer.json()

    def refill(self) -> None:
        """New tasks that wait for people, so that there is something to decide; what is there is known then."""
        self._unfreeze()
        for prompt in CALLS:
            self.ask("POST", "/v1/tasks", {"prompt": prompt, "computers": [COMPUTER]})
        tasks = [one["task_id"] for one in self.ask("GET", "/v1/tasks?limit=6")["tasks"]]
        shown = self.ask("GET", "/v1/requests")["requests"][-6:]
        calls = [one for request in shown for one in request["tool_calls"]]
        asked = [self.ask("GET", f"/v1/tasks/{task_id}")["question"] for task_id in tasks]
        self._allow(shown[0] if shown else None)
        grants = [one["grant_id"] for one in self.ask("GET", "/v1/grants")["grants"] if not one["revoked"]]
        self._learn("task_id", tasks)
        self._learn("task", tasks)
        self._learn("request_id", [one["request_id"] for one in shown])
        self._learn("request", [one["request_id"] for one in shown])
        self._learn("call_id", [one["call_id"] for one in calls])
        self._learn("expected_digest", [None, *(one["action_digest"] for one in calls)])
        self._learn("question_id", [one["question_id"] for one in asked if one is not None])
        self._learn("grant_id", grants)

    def _unfreeze(self) -> None:
        """End each freeze that a request has left: the admin could not submit."""
        for frozen in [one["name"] for one in self.ask("GET", "/v1/freezes")["freezes"]]:
            kind, _, group = frozen.partition(":")
            whom = {"everybody": True} if frozen == "*" else {"group": group} if kind == "group" else {"person": frozen}
            self.ask("POST", "/v1/unfreeze", whom)

    def _allow(self, request: dict[str, Any] | None) -> None:
        """Approve a request's first call, and the like for a while; None, and one that is closed by now: nothing."""
        if request is not None and "approve" in request["allowed_decisions"]:
            call_id = request["tool_calls"][0]["call_id"]
            body = {"decisions": [{"call_id": call_id, "action": "approve", "remember": {"scope": "session"}}]}
            path = f"{self.url}/v1/resume/{request['request_id']}"
            answer = requests.post(path, json=body, headers=self.headers("admin"), timeout=HANG_S)
            assert answer.status_code in (202, 409), answer.text

    def _learn(self, name: str, values: list[Any]) -> None:
        self.ids[name] = [*self.ids.get(name, []), *values][-8:]

    def put(self, value: Any, dice: random.Random) -> Any:
        """A value whose ids are, mostly, of what is there."""
        if isinstance(value, list):
            return [self.put(one, dice) for one in value]
        if not isinstance(value, dict):
            return value
        return {
            name: dice.choice(self.ids[name]) if self.ids.get(name) and dice.random() < 0.8 else self.put(one, dice)
            for name, one in value.items()
        }


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A server that all of the requests go to: what one of them leaves behind is there for the others."""
    command = [sys.executable, "-m", "tests.harness.fuzzed_server", str(tmp_path_factory.mktemp("target"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            with requests.Session() as http:
                yield Target(http, **json.loads(server.stdout.readline()))
        finally:
            server.stdin.close()
            try:
                server.wait(HANG_S)
            finally:
                server.kill()
    assert server.returncode == 0


@pytest.fixture(scope="module")
def described() -> dict[tuple[str, str], Any]:
    """Each operation of the document, as schemathesis takes it."""
    config = schemathesis.Config()
    config.projects.default.generation.with_security_parameters = False
    schema = schemathesis.openapi.from_dict(document(), config=config)
    found = [one.ok() for one in schema.get_all_operations() if isinstance(one, Ok)]
    return {(one.method.upper(), one.path): one for one in found}


def shower(target: Target, operation: Any, who: str, mode: GenerationMode, examples: int, fresh: bool) -> None:
    """Send some requests to an endpoint, and hold each answer against the document."""
    headers = target.headers(who)
    checks = CHECKED[mode]

    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=not fresh,
        # What an endpoint answers depends on what it was sent before, so there is nothing to shrink.
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), number=st.integers(0, 2**32))
    def send(case: Any, number: int) -> None:
        if mode is GenerationMode.POSITIVE:
            dice = random.Random(number)
            case.path_parameters = target.put(case.path_parameters, dice)
            case.query, case.body = target.put(case.query, dice), target.put(case.body, dice)
        if case.query and isinstance(case.query.get("wait_s"), int | float):
            case.query["wait_s"] = min(case.query["wait_s"], LONGEST_WAIT_S)
        case.call_and_validate(target.url, headers=headers, checks=checks, timeout=HANG_S)

    send()


def takes_something(endpoint: Endpoint) -> bool:
    """Whether there is anything that could be sent wrongly."""
    return endpoint.body is not None or bool(endpoint.takes)


def fuzz(
    target: Target,
    described: dict[tuple[str, str], Any],
    endpoint: Endpoint,
    who: str,
    examples: int,
    *,
    fresh: bool = False,
) -> None:
    """Requests that fit the document, and such that do not."""
    operation = described[endpoint.method, endpoint.path]
    # Nobody is refused, and who only reads uses nothing up: what is there already is enough.
    if (who != "nobody" and endpoint.method != "GET") or "task_id" not in target.ids:
        target.refill()
    varied = takes_something(endpoint) or "{" in endpoint.path
    shower(target, operation, who, GenerationMode.POSITIVE, examples if varied else 2, fresh)
    if takes_something(endpoint):
        shower(target, operation, who, GenerationMode.NEGATIVE, examples // 2, fresh)


@pytest.mark.parametrize("who", ["admin", pytest.param("submitter", marks=pytest.mark.deep)])
@pytest.mark.parametrize("endpoint", thinned(HELD, 4), ids=lambda endpoint: endpoint.name)
def test_an_endpoint_answers_as_the_document_says(
    target: Target, described: dict[tuple[str, str], Any], endpoint: Endpoint, who: str
) -> None:
    """To somebody who may everything, each fourth endpoint; in depth each, and to somebody who may little."""
    fuzz(target, described, endpoint, who, 2)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("endpoint", FUZZED, ids=lambda endpoint: endpoint.name)
def test_an_endpoint_answers_nobody_as_the_document_says(
    target: Target, described: dict[tuple[str, str], Any], endpoint: Endpoint
) -> None:
    """Without a token."""
    fuzz(target, described, endpoint, "nobody", 4 if endpoint in OPEN else 2)


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("who", ["admin", "submitter", "nobody"])
@pytest.mark.parametrize("endpoint", FUZZED, ids=lambda endpoint: endpoint.name)
def test_an_endpoint_answers_very_many_requests_as_the_document_says(
    target: Target, described: dict[tuple[str, str], Any], endpoint: Endpoint, who: str
) -> None:
    """The same at length, with other requests each time."""
    for _ in range(3):
        fuzz(target, described, endpoint, who, 100, fresh=True)
