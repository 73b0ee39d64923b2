"""What every story needs: a server and its people, computers, the journal, and the laws that always hold."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from orchestrator.adapters.models.scripted import Reply
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.task import facts
from orchestrator.core.task.fold import fold
from orchestrator.core.task.items import AgentTaskItem, decode_item, verify_chain
from orchestrator.core.wire.review import REVIEWER_SUBPROTOCOL
from orchestrator.core.wire.wire import COMPUTER_SUBPROTOCOL
from tests.harness.processes import DyingStore, Kill, Process, prompt, start_computer, start_server, tail, unwrapped
from tests.servers import NO_TLS
from tests.waiting import HANG_S

AT_ONCE = 8
"""Stories that run beside one another: they mostly wait for jitter."""


# -- scripts -----------------------------------------------------------------------------


def tool(name: str, /, **args: Any) -> dict[str, Any]:
    """A reply that makes one call."""
    return {"kind": "tool", "explanation": f"I call {name}.", "tool_call": {"tool": name, "args": args}}


def tools(*calls: Mapping[str, Any]) -> dict[str, Any]:
    """A reply that makes the calls of several replies at once."""
    return {"kind": "tool", "explanation": "All at once.", "tool_calls": [call["tool_call"] for call in calls]}


def final(*, success: bool = True) -> dict[str, Any]:
    """The last reply."""
    return {"kind": "final", "explanation": "That was it.", "success": success, "message": "Done."}


# -- server and people -------------------------------------------------------------------


class Api:
    """The REST endpoints with one token."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self.token = token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = httpx2.AsyncClient(base_url=url, headers=headers, timeout=HANG_S, trust_env=False, verify=NO_TLS)

    async def call(self, method: str, path: str, body: Any = None, **query: Any) -> httpx2.Response:
        """One request, whatever it answers."""
        return await self.http.request(method, path, json=body, params=query or None)

    async def ok(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """One request that must succeed; its JSON."""
        response = await self.call(method, path, body, **query)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()

    async def refused(self, status: int, method: str, path: str, body: Any = None, **query: Any) -> dict[str, Any]:
        """One request that must be refused in the one form; the error."""
        response = await self.call(method, path, body, **query)
        assert response.status_code == status, f"{method} {path}: {response.status_code} {response.text}"
        error: dict[str, Any] = response.json()["error"]
        assert set(error) - {"details"} == {"code", "message", "remedy"}
        assert error["message"]
        return error

    async def submit(self, *script: Reply, computers: tuple[str, ...] = (), **more: Any) -> str:
        """A new task that plays a script; its id."""
        body = {"prompt": prompt(*script), "computers": computers, **more}
        return str((await self.ok("POST", "/v1/tasks", body))["task_id"])

    async def task(self, task_id: str) -> dict[str, Any]:
        """The task as its endpoint shows it."""
        shown: dict[str, Any] = await self.ok("GET", f"/v1/tasks/{task_id}")
        return shown

    async def resume(self, request_id: str, action: str, **more: Any) -> Any:
        """Decide a whole request."""
        return await self.ok("POST", f"/v1/resume/{request_id}", {"action": action, **more})

    async def items(self, task_id: str, after: int = 0) -> AsyncGenerator[AgentTaskItem, None]:
        """The task's items from the one ``after`` a version, then each as it comes, until the task has ended."""
        path, headers = f"/v1/tasks/{task_id}/events", {"Last-Event-ID": str(after)}
        async with self.http.stream("GET", path, params={"hints": "0"}, headers=headers) as response:
            response.raise_for_status()
            # Not by `aiter_lines`, which ends lines at more than line feeds.
            rest = ""
            async for text in response.aiter_text():
                *lines, rest = (rest + text).split("\n")
                for line in lines:
                    if line.startswith("data: "):
                        yield decode_item(line.removeprefix("data: "))

    async def journal(self, task_id: str) -> list[AgentTaskItem]:
        """All items, once the task has ended."""
        async with contextlib.aclosing(self.items(task_id)) as items:
            return [item async for item in items]

    async def first(self, task_id: str, kind: str, place: int = 1) -> Any:
        """The ``place``-th fact of a kind, as soon as it is there."""
        left = place
        async with contextlib.aclosing(self.items(task_id)) as items:
            async for item in items:
                left -= item.fact.kind == kind
                if not left:
                    return item.fact
        raise AssertionError(f"task {task_id} ended without {place} × {kind}")

    @contextlib.asynccontextmanager
    async def reviewer(self, speaks: str = REVIEWER_SUBPROTOCOL) -> AsyncIterator[ClientConnection]:
        """The reviewers' socket."""
        protocols = [Subprotocol(speaks)]
        async with _dial(self.url, "/reviewer", self.token, protocols) as socket:
            yield socket


def _dial(url: str, path: str, token: str | None, protocols: list[Subprotocol]) -> connect:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return connect(
        "ws" + url.removeprefix("http") + path,
        additional_headers=headers,
        subprotocols=protocols,
        compression=None,
        max_size=None,
        proxy=None,
    )


def dial_computer(url: str, token: str | None) -> connect:
    """A socket to the computers' endpoint, for a computer played by hand."""
    return _dial(url, "/computer?n=1", token, [Subprotocol(COMPUTER_SUBPROTOCOL)])


@dataclass
class Server:
    """A server process on one data directory; after a kill it is started again on the same port."""

    home: Path
    approvers: str = "requester"
    url: str = ""
    process: Process | None = None
    _apis: list[Api] = field(default_factory=list)
    _names: Iterator[int] = field(default_factory=count)

    @property
    def port(self) -> int:
        """The port; 0 before the first start."""
        return urlsplit(self.url).port or 0 if self.url else 0

    def start(self, kill: Kill | None = None) -> None:
        """Start it, again or for the first time; one that is just dying still has the port, and is waited for.

        Stories beside one another start it in a thread. Otherwise the starts hold up their loop, and a server closes a
        connection on which no request came for 5 s.
        """
        if self.process is not None:
            self.process.join()
        wrap = unwrapped if kill is None else cast("Any", partial(DyingStore, kill=kill))
        self.process, self.url = start_server(
            self.home, self.port, wrap_store=wrap, workers=16, approvers=self.approvers
        )

    def api(self, token: str | None = "admin") -> Api:
        """A client with a token; ``admin``: that of the first start."""
        known = (self.home / "admin.token").read_text("utf-8").strip() if token == "admin" else token
        one = Api(self.url, known)
        self._apis.append(one)
        return one

    async def person(self, name: str, *roles: str) -> Api:
        """A new person with a token of their own."""
        answer = await self.api().ok("POST", "/v1/tokens", {"kind": "person", "name": name, "roles": roles})
        return self.api(answer["token"])

    async def computer_token(self, name: str) -> str:
        """A token for a computer."""
        answer = await self.api().ok("POST", "/v1/tokens", {"kind": "computer", "name": name})
        return str(answer["token"])

    def new_name(self) -> str:
        """A name for a computer that no other story on this server has."""
        return f"c{next(self._names)}"

    async def close(self) -> None:
        """Let go of the connections of this event loop."""
        for one in self._apis:
            await one.http.aclose()
        self._apis.clear()

    def still(self) -> contextlib.AbstractContextManager[None]:
        """It stands still meanwhile."""
        assert self.process is not None
        return self.process.still()

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self.process is not None:
            self.process.kill()


@dataclass
class Computer:
    """A simulated computer: its disk outlives its processes."""

    name: str
    disk: Path
    token: str
    url: str
    process: Process | None = None

    def boot(self, *options: str) -> None:
        """Start its process on its disk."""
        self.process = start_computer(self.disk, self.url, self.token, *options)

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self.process is not None:
            self.process.kill()

    def read(self, path: str) -> bytes | None:
        """The bytes of a file on its disk; None: there is none."""
        file = self.disk / path
        return file.read_bytes() if file.exists() else None

    def write(self, path: str, content: bytes) -> None:
        """Edit a file as a player would, behind the server's back."""
        (self.disk / path).parent.mkdir(parents=True, exist_ok=True)
        (self.disk / path).write_bytes(content)


@contextlib.asynccontextmanager
async def computer(server: Server, tmp: Path, url: str = "") -> AsyncIterator[Computer]:
    """A computer with a token of its own, not yet booted; killed at the end."""
    name = server.new_name()
    token = await server.computer_token(name)
    one = Computer(name, tmp / name, token, url or f"ws{server.url.removeprefix('http')}/computer")
    try:
        yield one
    finally:
        one.kill()


def tree(disk: Path) -> dict[str, bytes | None]:
    """Files and directories of a computer (None), its client's own left out."""
    return {
        path.relative_to(disk).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(disk.rglob("*"))
        if not path.relative_to(disk).as_posix().startswith(".cc-orchestrator")
    }


# -- the journal and its laws ------------------------------------------------------------


def kinds(items: list[AgentTaskItem]) -> list[str]:
    """The kinds of the items, in order; that somebody was told of a request, or looked at it, is left out."""
    return [item.fact.kind for item in items if item.fact.kind != "review_noted"]


def facts_of(items: list[AgentTaskItem], kind: type[Any]) -> list[Any]:
    """The facts of one kind, in order."""
    return [item.fact for item in items if isinstance(item.fact, kind)]


def ended(items: list[AgentTaskItem]) -> facts.TaskEnded:
    """How the task ended."""
    (fact,) = facts_of(items, facts.TaskEnded)
    assert isinstance(fact, facts.TaskEnded)
    return fact


def check_laws(items: list[AgentTaskItem]) -> None:
    """What holds for every journal of an ended task, whatever was killed meanwhile."""
    assert verify_chain(items) is None, "the hash chain is broken"
    task = fold(items)
    assert task.ended is not None
    assert not task.open_runs, "a bracket was never closed"
    runs = [started.run_id for started in facts_of(items, facts.ToolStarted)]
    assert len(set(runs)) == len(runs), "a run id was used twice"
    for computer_id in task.computers:
        numbers = [one.number for one in facts_of(items, facts.ToolStarted) if one.computer == computer_id]
        assert numbers == sorted(set(numbers)), "numbers of a computer must rise"
    for started in facts_of(items, facts.ToolStarted):
        ends = [one for one in _ends(items) if one.run_id == started.run_id]
        assert len(ends) == 1, f"run {started.run_id} has {len(ends)} outcomes"
    for call_id, happened in _happened(items).items():
        assert len(happened) <= 1, f"call {call_id} happened more than once: {happened}"
    _check_decisions(items)


def _ends(items: list[AgentTaskItem]) -> list[Any]:
    return [*facts_of(items, facts.ToolFinished), *facts_of(items, facts.ToolSettled)]


def _happened(items: list[AgentTaskItem]) -> dict[str, list[str]]:
    """Call id to its runs that may have touched the world."""
    tool_of = {call.call_id: call.tool for one in facts_of(items, facts.CallsProposed) for call in one.calls}
    for one in facts_of(items, facts.DecisionRecorded):
        tool_of |= {d.retry_as: tool_of[d.call_id] for d in one.decisions if d.retry_as is not None}
    found: dict[str, list[str]] = {call_id: [] for call_id in tool_of}
    for end in _ends(items):
        pure = BUILT_IN_CATALOG[tool_of[end.call_id]].recovery == "pure"
        if isinstance(end, facts.ToolFinished):
            harmless = end.code == "stale"
        else:
            harmless = end.state == "void" or end.code == "stale" or (pure and end.state == "interrupted")
        if not harmless:
            found[end.call_id].append(end.run_id)
    return found


def _check_decisions(items: list[AgentTaskItem]) -> None:
    """Nobody is asked again what they decided: each approval is consumed before the call is shown again."""
    approved: set[str] = set()
    for item in items:
        match item.fact:
            case facts.ReviewRequested(reason="approval", calls=calls):
                again = approved & {call.call_id for call in calls}
                assert not again, f"asked again what was approved: {again}"
            case facts.DecisionRecorded(decisions=decisions):
                approved |= {one.call_id for one in decisions if one.action == "approve"}
            case facts.ToolFinished(code="stale", call_id=call_id):
                approved.discard(call_id)
            case facts.ToolSettled(code="stale", call_id=call_id):
                approved.discard(call_id)
            case facts.RequestEnded(end="stale", call_ids=call_ids):
                approved.difference_update(call_ids)
            case _:
                pass


# -- playing -----------------------------------------------------------------------------

Decider = Callable[[dict[str, Any]], Awaitable[str | dict[str, Any]]]
"""Takes an open request as its endpoint shows it, and answers an action or a whole resume body."""


async def approve(request: dict[str, Any]) -> str:
    """The reviewer who says yes to what may be approved, and knows nothing of the unknown."""
    assert request["reason"] == "approval", request
    return "approve"


async def play(api: Api, task_id: str, decide: Decider = approve) -> list[AgentTaskItem]:
    """See a task to its end, deciding each request once; all its items."""
    items: list[AgentTaskItem] = []
    async with asyncio.timeout(HANG_S), contextlib.aclosing(api.items(task_id)) as stream:
        async for item in stream:
            items.append(item)
            if isinstance(item.fact, facts.ReviewRequested):
                request = await api.ok("GET", f"/v1/requests/{item.fact.request_id}")
                wanted = await decide(request)
                body = {"action": wanted} if isinstance(wanted, str) else wanted
                await api.ok("POST", f"/v1/resume/{item.fact.request_id}", body)
    return items


async def each(cases: Mapping[str, Coroutine[Any, Any, None]], logs: Callable[[str], str] | None = None) -> None:
    """Run independent cases beside one another; every failure carries the name of its case."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(case: Coroutine[Any, Any, None]) -> None:
        async with slots, asyncio.timeout(HANG_S):
            await case

    results = await asyncio.gather(*map(one, cases.values()), return_exceptions=True)
    failures: list[Exception] = []
    for name, result in zip(cases, results, strict=True):
        if isinstance(result, Exception):
            result.add_note(f"CASE {name}" + (f"\n{logs(name)}" if logs else ""))
            failures.append(result)
        elif isinstance(result, BaseException):
            raise result
    if failures:
        names = ", ".join(name for name, result in zip(cases, results, strict=True) if result is not None)
        raise ExceptionGroup(f"{len(failures)} of {len(cases)} cases: {names}", failures)


def last_words(*logs: Path) -> str:
    """The ends of some logs, for a failure's note."""
    return "\n".join(f"--- {log}\n{tail(log)}" for log in logs)


def decoded(frame: str | bytes) -> dict[str, Any]:
    """A frame of the reviewers' socket."""
    value: dict[str, Any] = json.loads(frame)
    return value
