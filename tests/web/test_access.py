"""Nobody sees or touches the things of somebody else: every endpoint, asked for everything of all others."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.core.wire.wire import ComputerId
from orchestrator.web.endpoint_table import ENDPOINTS, Endpoint
from tests.harness.endpoints import Writing
from tests.harness.whole_server import Installation, Server, reviewing

NOT_HERE: Final = {
    "computer_socket",
    "reviewer_socket",
    "watch",
    "page",
    "console_file",
    "sign_in",
    "session",
    "sign_out",
    "oidc",
    "oidc_callback",
    "stop",
}
"""What is looked at by the tests below, is for everybody, or is only for a browser."""


@dataclass(frozen=True)
class Student:
    """Somebody who only submits, with all that is theirs."""

    name: str
    token: str
    computer: str
    task_id: str
    request_id: str
    backup_id: str

    @property
    def marks(self) -> tuple[str, ...]:
        """Texts that stand in nobody else's things."""
        return (f"word-of-{self.name}", self.computer, self.task_id, self.request_id, self.backup_id)

    def path(self, endpoint: Endpoint) -> str:
        """An endpoint's path with the names of their things."""
        named = {
            "{task_id}": self.task_id,
            "{request_id}": self.request_id,
            "{name}": self.computer,
            "{backup_id}": self.backup_id,
            "{grant_id}": "g-none",
            "{group}": f"of-{self.name}",
            "{rule}": f"rule-of-{self.name}",
            "{kind}": "person",
        }
        path = endpoint.path
        for name, value in named.items():
            path = path.replace(name, value if name != "{name}" or "{kind}" not in path else self.name)
        return f"{path}?person={self.name}" if "{rule}" in endpoint.path else path

    def body(self, endpoint: Endpoint) -> Any:
        """A body that fits, so that nothing is refused only for its form, and that names their things."""
        if endpoint.body is None:
            return None
        person, decision = {"person": self.name}, {"request_id": self.request_id, "resume": {"action": "reject"}}
        kinds = ["waits_for_you", "failed"]
        bodies: Mapping[str, Any] = {
            "submit": {"prompt": "look", "computers": [self.computer]},
            "cancel": {"reason": "mine now"},
            "undo": {"dry_run": True},
            "answer": {"question_id": "q", "answer": "yes"},
            "extend": {"seconds": 60},
            "comment": {"text": "look"},
            "decisions": {"requests": [decision]},
            "keys": {"text": "x"},
            "resume": {"action": "approve"},
            "confirm_label": {"label": ""},
            "restore": {"backup": "latest"},
            "set_owner": {"person": "s0"},
            "add_token": {"kind": "agent", "name": "robot", "owner": self.name},
            "go_away": {**person, "to": "admin"},
            "freeze": person,
            "unfreeze": person,
            "make_pairing": {"computer": "new", "owner": person},
            "add_notification_rule": {**person, "name": "mine", "kinds": kinds, "url": "https://example.org/x"},
            "test_notification_rule": {**person, "name": f"rule-of-{self.name}"},
        }
        return bodies.get(endpoint.name, {})

    def named(self, endpoint: Endpoint) -> bool:
        """Whether the path or the body of a request names something of theirs, and has one answer for all of it."""
        if endpoint.name == "decisions":
            return False
        return "{" in endpoint.path or any(mark in json.dumps(self.body(endpoint)) for mark in (*self.marks, self.name))


@asynccontextmanager
async def class_of(count: int, directory: Path, *, grouped: bool) -> AsyncIterator[tuple[Server, list[Student]]]:
    """A server with students who each have a computer, a task that waits for a decision, and a backup."""
    installation = Installation(directory)
    async with installation.open(Writing(), computer=False) as server:
        students = []
        for number in range(count):
            name, computer = f"s{number}", f"computer-of-s{number}-x"
            token = await server.person(name, "submitter")
            await installation.connect(server, computer, files={"b.lua": f"-- word-of-{name}".encode()})
            owner = await server.ask("POST", f"/v1/computers/{computer}/owner", {"person": name})
            assert owner.status_code == 200, owner.text
            task_id = await server.submit([computer], token=token, prompt=f"word-of-{name}")
            request = await server.paused(task_id)
            backup = await server.ask("POST", f"/v1/computers/{computer}/backups", {}, token=token)
            assert backup.status_code == 201, backup.text
            rule = {"name": f"rule-of-{name}", "kinds": ["failed"], "url": f"https://word-of-{name}.example.org/hook"}
            ruled = await server.ask("POST", "/v1/notifications/rules", rule, token=token)
            assert ruled.status_code == 201, ruled.text
            made = Student(name, token, computer, task_id, request["request_id"], backup.json()["backup_id"])
            students.append(made)
        if grouped:
            body = {"add_people": [one.name for one in students]}
            assert (await server.ask("POST", "/v1/groups/class", body)).status_code == 200
        yield server, students


async def told(server: Server, endpoint: Endpoint, other: Student, token: str) -> tuple[int, str]:
    """The status and the text of an answer; of a stream its first events."""
    path, body = other.path(endpoint), other.body(endpoint)
    async with server.http.stream(
        endpoint.method, path, json=body, headers={"Authorization": f"Bearer {token}"}
    ) as answer:
        text = ""
        if not endpoint.streams:
            text = (await answer.aread()).decode()
        elif answer.status_code == 200:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    async for part in answer.aiter_text():
                        text += part
        return answer.status_code, text


async def things_of(server: Server, students: list[Student]) -> list[Any]:
    """All that somebody else could have changed: tasks, owners, people, groups, freezes, rules, backups."""
    tasks = [(await server.ask("GET", f"/v1/tasks/{one.task_id}")).json()["version"] for one in students]
    owners = (await server.ask("GET", "/v1/computers")).json()["computers"]
    lists = ("/v1/tokens", "/v1/groups", "/v1/freezes", "/v1/notifications/rules", "/v1/grants")
    backups = [f"/v1/computers/{one.computer}/backups" for one in students]
    return [
        tasks,
        {one["computer"]: one["belongs_to"] for one in owners},
        *[(await server.ask("GET", path)).json() for path in (*lists, *backups)],
    ]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("count", [3, pytest.param(20, marks=pytest.mark.deep)])
async def test_nobody_sees_or_touches_the_things_of_others(tmp_path: Path, count: int, grouped: bool) -> None:
    """Each student asks each endpoint for the things of each other: no word of these comes, and nothing changes."""
    async with class_of(count, tmp_path, grouped=grouped) as (server, students):
        before = await things_of(server, students)
        asked = [one for one in ENDPOINTS if one.name not in NOT_HERE and one.tag != "sockets"]
        seen: list[object] = []
        done = 0
        for one in students:
            others = [other for other in students if other is not one]
            for endpoint in asked:
                names = others[0].named(endpoint)
                for other in others if names or endpoint.name == "decisions" else others[:1]:
                    said = f"{other.path(endpoint)} {json.dumps(other.body(endpoint))}"
                    status, text = await told(server, endpoint, other, one.token)
                    done += 1
                    leaks = [mark for mark in other.marks if mark in text and mark not in said]
                    if names and endpoint.tag != "browsers" and status not in (403, 404, 422):
                        seen.append((one.name, endpoint.name, other.name, status, text[:200]))
                    if leaks:
                        seen.append((one.name, endpoint.name, other.name, leaks))
        assert seen == []
        assert done > len(asked) * count
        assert await things_of(server, students) == before
        stopped = await server.ask("POST", "/v1/stop", {}, token=students[0].token)
        assert stopped.json() == {"stopped": [students[0].task_id]}


async def test_a_task_on_a_computer_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """It is as if the computer were not there; so is one whose model names it."""
    async with class_of(2, tmp_path, grouped=True) as (server, (one, other)):
        body = {"prompt": "look", "computers": [other.computer]}
        answer = await server.ask("POST", "/v1/tasks", body, token=one.token)
        assert answer.status_code == 422
        assert f"There is no computer '{other.computer}'" in answer.json()["error"]["message"]


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_player_asks_as_the_owner_of_the_computer(tmp_path: Path, grouped: bool) -> None:
    """And not as the admin who paired it, also where there are no groups; of a group's computer as who paired it."""
    async with class_of(1, tmp_path, grouped=grouped) as (server, (one,)):
        authorizer, computer = server.orchestrator.endpoints.authorizer, ComputerId(one.computer)
        assert authorizer.owner_of(computer, "admin") == one.name
        await server.ask("POST", "/v1/groups/shop", {"add_people": ["admin"]})
        await server.ask("POST", f"/v1/computers/{one.computer}/owner", {"group": "shop"})
        assert authorizer.owner_of(computer, "admin") == "admin"
        assert authorizer.owner_of(computer, one.name) == ""


async def test_what_comes_by_itself_is_one_s_own(tmp_path: Path) -> None:
    """The reviewers' socket and the notifications of a page tell of one's own things only."""
    async with class_of(2, tmp_path, grouped=True) as (server, (one, other)):
        async with reviewing(server.url, one.token) as reviewer:
            snapshot = await reviewer.hear("snapshot")
            assert (snapshot["requests"], snapshot["others"]) == ([], 1)
        headers = {"Authorization": f"Bearer {one.token}"}
        async with server.http.stream("GET", "/v1/watch", headers=headers) as events:
            lines = events.aiter_lines()
            assert await anext(lines) == "event: hello"
            await server.ask("POST", f"/v1/tasks/{other.task_id}/cancel", {})
            await server.ask("POST", f"/v1/tasks/{one.task_id}/cancel", {})
            told_of = [json.loads(line[6:]) async for line in _until(lines, one.task_id)]
        assert {item.get("task_id", one.task_id) for item in told_of} == {one.task_id}


async def _until(lines: AsyncIterator[str], task_id: str) -> AsyncIterator[str]:
    """The data of events, up to the first that names a task."""
    async with asyncio.timeout(60):
        async for line in lines:
            if line.startswith("data: {") and "task" in line:
                yield line
            if task_id in line:
                return


async def test_a_reviewer_of_the_group_sees_and_decides(tmp_path: Path) -> None:
    """And one of another group does neither; who leaves the group does not any more."""
    async with class_of(2, tmp_path, grouped=True) as (server, (one, _)):
        inside, outside = await server.person("rita", "reviewer"), await server.person("oto", "reviewer")
        await server.ask("POST", "/v1/groups/class", {"add_people": ["rita"]})
        path = f"/v1/requests/{one.request_id}"
        assert (await server.ask("GET", path, token=inside)).status_code == 200
        assert (await server.ask("GET", path, token=outside)).status_code == 404
        assert (await server.ask("POST", f"/v1/approve/{one.request_id}", token=outside)).status_code == 404
        await server.ask("POST", "/v1/groups/class", {"remove_people": ["rita"]})
        assert (await server.ask("POST", f"/v1/approve/{one.request_id}", token=inside)).status_code == 404
        await server.ask("POST", "/v1/groups/class", {"add_people": ["rita"]})
        assert (await server.ask("POST", f"/v1/approve/{one.request_id}", token=inside)).status_code == 202
        who = (await server.ask("GET", "/v1/whoami", token=inside)).json()
        assert (who["groups"], who["rights"]) == (["class"], ["view", "decide", "audit"])
        groups = (await server.ask("GET", "/v1/groups", token=one.token)).json()["groups"]
        assert groups == [{"name": "class", "people": [one.name], "computers": []}]


async def test_who_pairs_for_a_group_takes_no_computer_away(tmp_path: Path) -> None:
    """A new one is the group's; one that is there keeps its owner, and one out of reach is a name that is taken."""
    roles = '[roles.tutor]\nmay = ["view", "pair"]\n'
    async with Installation(tmp_path).open(Writing(), policy=f"rules = []\n{roles}", computer=False) as server:
        tom = await server.person("tom", "tutor")
        for name, group in (("ann", "class"), ("bob", "class"), ("sue", "other")):
            await server.person(name)
            await server.ask("POST", f"/v1/groups/{group}", {"add_people": [name, *(["tom"] if name == "ann" else [])]})
            await server.computer(f"of-{name}")
            await server.ask("POST", f"/v1/computers/of-{name}/owner", {"person": name})

        async def pairs(computer: str, **owner: str) -> int:
            body = {"computer": computer, **({"owner": owner} if owner else {})}
            return (await server.ask("POST", "/v1/pairings", body, token=tom)).status_code

        assert [await pairs("new"), await pairs("own", person="bob"), await pairs("of-ann")] == [201] * 3
        assert await pairs("of-ann", person="ann") == 201
        assert [await pairs("of-ann", group="class"), await pairs("of-ann", person="bob")] == [403] * 2
        assert [await pairs("of-sue"), await pairs("of-sue", group="class")] == [403] * 2
        owners = server.orchestrator.endpoints.authorizer.deciders.directory.owners
        assert {str(name): str(one) for name, one in owners.items()} == {
            **{"of-ann": "ann", "of-bob": "bob", "of-sue": "sue"},
            **{"new": "group class", "own": "bob"},
        }


async def test_who_was_revoked_is_away_no_more(tmp_path: Path) -> None:
    """A new token of the same name does not bring back who decided in their place."""
    async with Installation(tmp_path).open(Writing()) as server:
        sam = await server.person("sam")
        await server.person("rex", "reviewer")
        assert (await server.ask("POST", "/v1/away", {"person": "rex", "to": "sam"})).status_code == 200
        other = await server.person("bob")
        request = await server.paused(await server.submit(["3"], token=other))
        path = f"/v1/approve/{request['request_id']}"
        assert (await server.ask("DELETE", "/v1/tokens/person/rex")).status_code == 200
        await server.person("rex", "reviewer")
        assert (await server.ask("POST", path, token=sam)).status_code in (403, 404)
        assert (await server.ask("GET", "/v1/audit/check?system=1")).json()["findings"] == []
