"""Several nodes on real servers behind one balancer, their computers, and people who never give up.

What a task does at a computer is append a word to that computer's ledger: a word that is missing was lost, one that is
there twice was done twice.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx2

from orchestrator.core.ports import Store
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.testing.stub_computer import StubComputer
from tests.harness.processes import Process, prompt, start_server, unwrapped
from tests.servers import free_port
from tests.story.balancer import Balancer
from tests.story.harness import Api, Computer, check_laws, ended, facts_of, final, tool, tools
from tests.waiting import HANG_S

PROGRAM: Final = (
    b"local line = ... local file = fs.open('lines', 'a') file.write(line .. '\\n') file.close() print(line)\n"
)
POLICY: Final = """schema_version = 1
[[rules]]
id = "looking"
effect = "allow"
tools = ["cc_read", "cc_list", "cc_find", "send_status", "ask_user"]
[[rules]]
id = "appending"
effect = "allow"
tools = ["cc_run_program"]
[[rules]]
id = "writing"
effect = "ask"
tools = ["cc_write"]
"""
PAUSE_S: Final = 1.5
"""Between two tasks of whoever gives them, at most: they are to be under way whenever something is killed."""
AGAIN_S: Final = 0.3
"""Between two tries of somebody whose node went away."""


# -- nodes -------------------------------------------------------------------------------


@dataclass
class Node:
    """One node: a server process with a data directory of its own, which is started again on the same port."""

    home: Path
    options: Mapping[str, Any]
    port: int = field(default_factory=free_port)
    process: Process | None = None
    wrap_store: Callable[[Store], Store] = unwrapped

    @property
    def url(self) -> str:
        """Its own address, past the balancer."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        starting = partial(start_server, self.home, self.port, wrap_store=self.wrap_store, **self.options)
        self.process, _ = await asyncio.to_thread(starting)

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self.process is not None:
            self.process.kill()

    async def stop(self) -> int | None:
        """SIGTERM; the exit code once it is gone."""
        assert self.process is not None
        return await asyncio.to_thread(self.process.stop)


# -- people ------------------------------------------------------------------------------


class Patient(Api):
    """Somebody who asks again wherever the answer does not come, and who keeps in mind how often that was."""

    def __init__(self, url: str, token: str, missed: list[str] | None = None) -> None:
        super().__init__(url, token)
        self.missed = [] if missed is None else missed
        """Each request that no node answered, with why."""

    async def ok(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """One request that succeeds in the end; what it does must be harmless to do twice."""
        answer = await self.tried(method, path, body, **query)
        assert answer is not None, f"{method} {path} was refused"
        return answer

    async def tried(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The same; None: it was refused, because another was first."""
        while True:
            try:
                response = await self.call(method, path, body, **query)
            except httpx2.HTTPError as error:
                self.missed.append(f"{method} {path}: {error!r}")
            else:
                if response.is_success:
                    return response.json()
                if response.status_code in (httpx2.codes.CONFLICT, httpx2.codes.NOT_FOUND):
                    return None
                assert response.status_code in (502, 503, 504), f"{method} {path}: {response.text}"
                self.missed.append(f"{method} {path}: {response.text}")
            await asyncio.sleep(AGAIN_S)

    async def seen(self, task_id: str, found: list[AgentTaskItem] | None = None) -> list[AgentTaskItem]:
        """The items of a task as they come, over streams that break, until it ends; ``found`` gets each at once."""
        found = [] if found is None else found
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                async with contextlib.aclosing(self.items(task_id, len(found))) as items:
                    async for item in items:
                        found.append(item)
            if any(one.fact.kind == "task_ended" for one in found):
                return found
            await asyncio.sleep(AGAIN_S)


# -- computers ---------------------------------------------------------------------------


@dataclass
class Stub:
    """A computer that speaks the protocol, with its ledger in memory."""

    name: str
    stub: StubComputer
    ledger: list[str]

    def lines(self) -> list[str]:
        """The words that were appended."""
        return list(self.ledger)

    def text(self, path: str) -> str | None:
        """A file; None: there is none."""
        disk = self.stub.disk
        return disk.file(path).decode() if disk.kind(path) == "file" else None


@dataclass
class Real:
    """A simulated computer that runs the Lua client in a process of its own."""

    name: str
    computer: Computer

    def lines(self) -> list[str]:
        """The words that were appended."""
        return (self.computer.read("lines") or b"").decode().splitlines()

    def text(self, path: str) -> str | None:
        """A file; None: there is none."""
        data = self.computer.read(path)
        return None if data is None else data.decode()


def stub_at(url: str, name: str, token: str, number: int) -> Stub:
    """A stub that is not connected yet."""
    ledger: list[str] = []

    def append(words: list[str]) -> str:
        ledger.append(words[0])
        return f"{words[0]}\n"

    return Stub(name, StubComputer(url, token, computer_id=number, programs={"append.lua": append}), ledger)


# -- work --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """What one task is to do, and what it has done once it has ended well."""

    script: tuple[dict[str, Any], ...]
    computers: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]
    """By computer, what its ledger gets."""
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By computer, the path and the text of a file."""


def _append(word: str, **more: Any) -> dict[str, Any]:
    return tool("cc_run_program", path="append.lua", args=[word], **more)


def plain(name: str, words: Iterator[str]) -> Work:
    """Three words at one computer, one after the other."""
    said = tuple(next(words) for _ in range(3))
    return Work((*map(_append, said), final()), (name,), {name: said})


def reviewed(name: str, words: Iterator[str]) -> Work:
    """A file that somebody has to approve, between two words."""
    before, after, text = next(words), next(words), next(words)
    path = f"{text}.txt"
    script = (_append(before), tool("cc_write", path=path, content=text), _append(after), final())
    return Work(script, (name,), {name: (before, after)}, {name: (path, text)})


def asking(name: str, words: Iterator[str]) -> Work:
    """A question that somebody has to answer, then a word."""
    word = next(words)
    return Work((tool("ask_user", question="Which one?"), _append(word), final()), (name,), {name: (word,)})


def both(names: tuple[str, str], words: Iterator[str]) -> Work:
    """A word at each of two computers in one step, and one more at the first."""
    one, other, last = next(words), next(words), next(words)
    step = tools(_append(one, computer=names[0]), _append(other, computer=names[1]))
    script = (step, _append(last, computer=names[0]), final())
    return Work(script, names, {names[0]: (one, last), names[1]: (other,)})


@dataclass
class School:
    """Nodes, computers and people."""

    nodes: list[Node]
    balancer: Balancer
    token: str
    computers: dict[str, Stub | Real]
    rng: random.Random
    words: Iterator[str] = field(default_factory=lambda: (f"w{number}" for number in count(1)))
    works: dict[str, Work] = field(default_factory=dict)
    seen: dict[str, list[AgentTaskItem]] = field(default_factory=dict)
    decided: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    """Requests of people that no node answered, with why."""

    def person(self) -> Patient:
        """An admin who goes through the balancer."""
        return Patient(self.balancer.url, self.token, self.missed)

    def some_work(self) -> Work:
        """The next task's."""
        names = list(self.computers)
        name, other = self.rng.sample(names, 2)
        kind = self.rng.choice(("plain", "plain", "reviewed", "asking", "both"))
        match kind:
            case "reviewed":
                return reviewed(name, self.words)
            case "asking":
                return asking(name, self.words)
            case "both":
                return both((name, other), self.words)
            case _:
                return plain(name, self.words)

    async def give(self, tasks: int, at_once: int, chaos: "asyncio.Task[None]") -> None:
        """Submit at least so many tasks, and until the chaos is over, and see each of them to its end."""
        api = self.person()
        numbers = count()
        reviewing = [asyncio.create_task(self._review()) for _ in range(2)]

        async def give_some() -> None:
            while not chaos.done() or len(self.works) < tasks:
                await self._see(api, self.some_work(), f"task-{next(numbers)}")
                await asyncio.sleep(self.rng.uniform(0, PAUSE_S))

        try:
            await self._while_it_goes_on(asyncio.gather(*(give_some() for _ in range(at_once))))
            for one in (chaos, *reviewing):
                if one.done():
                    one.result()
        finally:
            for one in reviewing:
                one.cancel()
            await asyncio.gather(*reviewing, return_exceptions=True)
            await api.http.aclose()

    async def _while_it_goes_on(self, giving: "asyncio.Future[list[None]]") -> None:
        """Wait for what may take long on a slow machine; TimeoutError where nothing new is seen for ``HANG_S``."""
        seen = -1
        try:
            while not giving.done():
                if self._items() == seen:
                    raise TimeoutError(self.unfinished())
                seen = self._items()
                await asyncio.wait((giving,), timeout=HANG_S)
            giving.result()
        finally:
            giving.cancel()
            await asyncio.gather(giving, return_exceptions=True)

    async def happens(self, items: int) -> None:
        """Returns when people have seen so many new items."""
        until = self._items() + items
        while self._items() < until:  # noqa: ASYNC110 - many streams, and the hang is noticed by who gives the work
            await asyncio.sleep(AGAIN_S)

    def _items(self) -> int:
        return sum(map(len, self.seen.values()))

    async def _see(self, api: Patient, work: Work, key: str) -> None:
        body = {"prompt": prompt(*work.script), "computers": work.computers, "idempotency_key": key}
        task_id = str((await api.ok("POST", "/v1/tasks", body))["task_id"])
        self.works[task_id] = work
        await api.seen(task_id, self.seen.setdefault(task_id, []))

    def unfinished(self) -> str:
        """The tasks that were not seen to end, with what was seen of each last, for a failure."""
        left = {
            task_id: items for task_id, items in self.seen.items() if not items or items[-1].fact.kind != "task_ended"
        }
        return "not seen to end:\n" + "\n".join(
            f"{task_id}: {len(items)} items, {items[-1].fact if items else 'none'}" for task_id, items in left.items()
        )

    async def _review(self) -> None:
        """Decides and answers whatever waits, beside another who does the same."""
        api = self.person()
        try:
            while True:
                for request in (await api.ok("GET", "/v1/requests"))["requests"]:
                    await self._decide(api, request)
                paused = await api.ok("GET", "/v1/tasks", status="Paused", limit=1000)
                for row in paused["tasks"]:
                    if row["status_reason"] == "waiting for an answer":
                        await self._answer(api, row["task_id"])
                await asyncio.sleep(AGAIN_S)
        finally:
            await api.http.aclose()

    async def _decide(self, api: Patient, request: dict[str, Any]) -> None:
        (call,) = request["tool_calls"]
        action = "approve"
        if request["reason"] == "outcome_unknown":
            word = call["args"]["args"][0]
            action = "mark_done" if word in self.computers[call["computer"]].lines() else "retry"
        self.decided[action] += 1
        # Under this very digest: where another has decided, or something changed, it is refused.
        body = {"action": action, "expected_digest": request["action_digest"]}
        await api.tried("POST", f"/v1/resume/{request['request_id']}", body)

    async def _answer(self, api: Patient, task_id: str) -> None:
        shown = await api.ok("GET", f"/v1/tasks/{task_id}")
        if shown["question"] is not None:
            body = {"question_id": shown["question"]["question_id"], "answer": "this one"}
            await api.tried("POST", f"/v1/tasks/{task_id}/answer", body)

    # -- what must hold in the end -------------------------------------------------------

    async def check(self) -> None:
        """Every task ended well, what was told is in its journal, and each word is there once."""
        api = self.person()
        wanted: dict[str, Counter[str]] = {name: Counter() for name in self.computers}
        for task_id, work in self.works.items():
            items = await self._journal(api, task_id)
            check_laws(items)
            told = self.seen[task_id]
            assert items[: len(told)] == told, f"what was told of {task_id} is not its journal"
            assert ended(items).status == "Completed", f"{task_id}: {ended(items)}"
            _check_said(items)
            for name, words in work.words.items():
                wanted[name].update(words)
            for name, (path, text) in work.files.items():
                assert self.computers[name].text(path) == text, f"{path} of {name} is not as it was approved"
        found = {name: Counter(one.lines()) for name, one in self.computers.items()}
        lost = {name: wanted[name] - found[name] for name in wanted if wanted[name] - found[name]}
        twice = {name: found[name] - wanted[name] for name in wanted if found[name] - wanted[name]}
        assert not lost, f"lost: {lost}"
        assert not twice, f"twice, or by nobody's task: {twice}"
        await api.http.aclose()

    async def _journal(self, api: Patient, task_id: str) -> list[AgentTaskItem]:
        async with asyncio.timeout(HANG_S):
            return await api.seen(task_id)


def _check_said(items: list[AgentTaskItem]) -> None:
    """Of every run of which nobody knows what it came to, a person was asked."""
    unknown = [one.call_id for one in facts_of(items, facts.ToolSettled) if one.state == "unknown"]
    asked = [
        call.call_id
        for one in facts_of(items, facts.ReviewRequested)
        if one.reason == "outcome_unknown"
        for call in one.calls
    ]
    assert set(unknown) <= set(asked), f"nobody was asked about {set(unknown) - set(asked)}"


@contextlib.asynccontextmanager
async def running(stubs: list[Stub]) -> AsyncIterator[None]:
    """The stubs, connected as well as the nodes let them be."""
    tasks = [asyncio.create_task(one.stub.run()) for one in stubs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
