"""A day of two computers and an orchestrator that is restarted every ten minutes, on virtual time.

The server's parts and the client in Lua are the real ones, over one SQLite file; only the network, the clock
and the model's mind are made here. A scripted person approves what is shown. In the end the files are those of
a day without a restart, nobody was asked what became of anything, and every computer came back soon.
"""

import asyncio
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from orchestrator.adapters.bus.local import LocalBus
from orchestrator.adapters.store import open_store
from orchestrator.app.greeter import JournalGreeter
from orchestrator.computers.hub import Hub
from orchestrator.core.approval.approval import ResumeRequest
from orchestrator.core.approval.deciders import Saying
from orchestrator.core.errors import NotPending
from orchestrator.core.policy import default_policy
from orchestrator.core.ports import Identity, RequestAuthorizer, Store
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.active_policy import NodePolicy
from orchestrator.engine.tasks import TaskService
from orchestrator.engine.workers import Workers
from orchestrator.tools.environment import Environment
from tests.explorer.computer import Computer, Wire
from tests.explorer.node import _End
from tests.harness.processes import PromptedModel, prompt
from tests.story.harness import final, tool
from tests.story.virtual import OutsideStore, VirtualLoop

NAMES = ("3", "4")
RESTART_S, DOWN_S = 600.0, 3.0
TASK_S = 60.0
"""Between two tasks: each takes a quarter of it, so that restarts come at every place of one."""
HOP_S = 0.2
"""How long a frame is under way."""
REVIEW_S = 4.0
BACK_WITHIN_S = 15.0
ALICE = Identity(kind="person", name="alice", roles=("admin",))
JOB = b"""\
local log = fs.open("job.lua.log", "a")
log.write("ran\\n")
log.close()
print("done")
"""
POLICY = default_policy()
BEGAN = datetime(2030, 1, 1, tzinfo=UTC)


class _Clock:
    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=self._loop.time())


class _Anyone(RequestAuthorizer):
    async def authenticate(self, authorization: str | None) -> Identity:
        del authorization
        return ALICE

    def may_decide(self, identity: Identity, task: AgentTask, action: Saying = "approve") -> bool:
        del identity, task, action
        return True

    def who_decides(self, task: AgentTask) -> str:
        del task
        return "anybody"


class _Thinking(PromptedModel):
    """The scripted model, which takes its time."""

    async def reply(self, messages: Any, **options: Any) -> Any:
        await asyncio.sleep(2.0)
        return await super().reply(messages, **options)


class _Nobody:
    """Watches no disk."""

    def wrote(self, computer: Computer, path: str, data: bytes) -> None:
        """Nothing."""

    def appended(self, computer: Computer, path: str, data: bytes) -> None:
        """The disk has it, as the disk of the explorer has it."""

    def moved(self, computer: Computer, source: str, to: str, data: bytes) -> None:
        """Nothing."""

    def wrong(self, sentence: str) -> None:
        raise AssertionError(sentence)


@dataclass
class Server:
    """The orchestrator from one start to its end."""

    store: Store
    service: TaskService
    hub: Hub
    since: float
    works: list["asyncio.Task[Any]"] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)


@dataclass
class Day:
    """Computers, the network, people, and the server that is now."""

    loop: VirtualLoop
    path: Path
    restarts: bool
    server: Server | None = None
    computers: list[Computer] = field(default_factory=list)
    reconnects: list[float] = field(default_factory=list)
    """Seconds from each start of the server until each computer was welcome."""
    asked: list[str] = field(default_factory=list)
    """For what reasons a person was asked."""
    starts: int = 0
    _clocks: float = 0.0

    async def live(self, seconds: float) -> None:
        """Let so much time pass; then everything that was begun is brought to its end."""
        self.computers = [Computer(name, place, _Nobody(), {"job.lua": JOB}) for place, name in enumerate(NAMES)]
        for computer in self.computers:
            computer.boot()
        await self._start()
        around = [self._network(), self._person(), *([self._trouble()] if self.restarts else [])]
        running = [asyncio.create_task(one) for one in around]
        await self._work(seconds)
        while await self._open_tasks():  # noqa: ASYNC110 - a task that ends under another server tells nobody here
            await asyncio.sleep(10.0)
        await asyncio.sleep(BACK_WITHIN_S)
        for one in running:
            one.cancel()
        failures = [one for one in await asyncio.gather(*running, return_exceptions=True) if isinstance(one, Exception)]
        await self._stop()
        if failures:
            raise ExceptionGroup("the day went wrong", failures)

    # -- the server ----------------------------------------------------------------------

    async def _start(self) -> None:
        clock = _Clock(self.loop)
        store = cast("Store", OutsideStore(open_store(f"sqlite:///{self.path}", clock=clock), self.loop))
        active_policy = NodePolicy(lambda: POLICY, lambda computer: world.context(computer))  # noqa: PLW0108
        service = TaskService(
            store=store, bus=LocalBus(), clock=clock, authorizer=_Anyone(), active_policy=active_policy
        )
        hub = Hub(JournalGreeter(service))
        world = Environment(store=store, computers=hub)
        self.starts += 1
        workers = Workers(
            service=service, world=world, model_for=lambda _: _Thinking(), holder=f"node{self.starts}", count=4
        )
        server = Server(store, service, hub, self.loop.time())
        server.works.append(asyncio.create_task(workers.work()))
        server.works.append(asyncio.create_task(self._count_back(server)))
        self.server = server

    async def _stop(self) -> None:
        """The process ends: nothing of it goes on, and its host ends its connections."""
        server, self.server = self.server, None
        assert server is not None
        for work in server.works:
            work.cancel()
        await asyncio.gather(*server.works, return_exceptions=True)
        for wire in server.wires:
            wire.server_closes()
        await asyncio.gather(*server.hub.known.keeping, return_exceptions=True)
        await server.store.close()

    async def _count_back(self, server: Server) -> None:
        missing = set(NAMES)
        while missing:
            for info in server.hub.list_computers():
                if info.online and info.computer in missing:
                    missing.discard(info.computer)
                    self.reconnects.append(self.loop.time() - server.since)
            await asyncio.sleep(0.1)

    async def _trouble(self) -> None:
        while True:
            # Seven seconds later each time, so that it hits every place of a task.
            await asyncio.sleep(RESTART_S - DOWN_S + 7.0)
            await self._stop()
            await asyncio.sleep(DOWN_S)
            await self._start()

    # -- the network ---------------------------------------------------------------------

    async def _network(self) -> None:
        while True:
            passed = self.loop.time() - self._clocks
            self._clocks = self.loop.time()
            busy = False
            for computer in self.computers:
                computer.pass_time(passed)
                busy = self._move(computer) or busy
            busy = busy or any(wire.to_client or wire.to_server for one in self.computers for wire in one.wires)
            await asyncio.sleep(HOP_S if busy else 1.0)

    def _move(self, computer: Computer) -> bool:
        """What is under way to and from a computer arrives, and the computer deals with it."""
        for wire in computer.wires:
            while wire.to_client:
                computer.deliver(wire)
            while wire.to_server:
                frame = wire.to_server.popleft()
                if wire.receive is not None:
                    wire.receive(frame)
        computer.wires[:] = [one for one in computer.wires if one.client_open or one.server_open or one.to_client]
        for url in list(computer.dials):
            if self.server is None:
                computer.refused(url)
            else:
                self._accept(self.server, computer.connected(url))
        dealt = computer.waiting > 1
        while computer.waiting:
            computer.step()
        assert computer.stopped is None, computer.stopped
        return dealt

    def _accept(self, server: Server, wire: Wire) -> None:
        server.wires.append(wire)
        serving = server.hub.serve(ComputerId(wire.computer.name), _End(wire))
        server.works.append(asyncio.create_task(serving))

    # -- people --------------------------------------------------------------------------

    async def _work(self, seconds: float) -> None:
        for number in range(round(seconds / TASK_S)):
            server = await self._up()
            computer = ComputerId(NAMES[number % len(NAMES)])
            write = tool("cc_write", path=f"f{number % 5}.lua", content=f"-- written by task {number}\n")
            script = prompt(write, tool("cc_run_program", path="job.lua"), final())
            await server.service.submit(script, user=ALICE, computers=[computer], model="scripted")
            await asyncio.sleep(TASK_S)

    async def _up(self) -> Server:
        while self.server is None:  # noqa: ASYNC110 - the server has no event for its own start
            await asyncio.sleep(0.5)
        return self.server

    async def _person(self) -> None:
        while True:
            await asyncio.sleep(REVIEW_S)
            server = self.server
            if server is None:
                continue
            deciding = asyncio.create_task(self._decide(server))
            server.works.append(deciding)
            await asyncio.wait([deciding])
            server.works.remove(deciding)
            if not deciding.cancelled():
                deciding.result()

    async def _decide(self, server: Server) -> None:
        for task in await server.service.reviewing():
            request = task.request
            if request is None:
                continue
            self.asked.append(request.reason)
            resume = ResumeRequest(action="approve" if request.reason == "approval" else "check")
            try:
                await server.service.decide(request.request_id, resume, ALICE)
            except NotPending:
                continue

    async def _open_tasks(self) -> bool:
        service = (await self._up()).service
        waiting = (TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.PAUSED)
        return any([await service.list_tasks(status=one) for one in waiting])


def _files(day: Day) -> dict[str, dict[str, bytes | None]]:
    """What is on each computer in the end, without the client's own files."""
    return {
        computer.name: {path: data for path, data in computer.contents().items() if not path.startswith(".cc")}
        for computer in day.computers
    }


def _lived(path: Path, seconds: float, *, restarts: bool) -> Day:
    loop = VirtualLoop()
    try:
        day = Day(loop, path, restarts)
        loop.run_until_complete(day.live(seconds))
        return day
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _p95(values: list[float]) -> float:
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


@pytest.mark.parametrize(
    "hours",
    [
        pytest.param(0.2, id="some-restarts"),
        pytest.param(24, id="a-day", marks=[pytest.mark.deep, pytest.mark.timeout(1800)]),
    ],
)
def test_restarts_all_day_long_change_nothing(tmp_path: Path, hours: float) -> None:
    """The same files as without a restart, no hand needed, and 95 of 100 computers back within 15 s."""
    seconds = hours * 3600.0
    calm = _lived(tmp_path / "calm.db", seconds, restarts=False)
    shaken = _lived(tmp_path / "shaken.db", seconds, restarts=True)
    assert shaken.starts >= seconds // (RESTART_S + 10)
    assert calm.starts == 1
    files = _files(calm)
    assert sum((one["job.lua.log"] or b"").count(b"ran") for one in files.values()) == round(seconds / TASK_S)
    assert _files(shaken) == files
    for day in (calm, shaken):
        assert set(day.asked) == {"approval"}, "a person was asked what became of something"
    assert len(shaken.reconnects) >= len(NAMES) * (shaken.starts - 1)
    assert _p95(shaken.reconnects) <= BACK_WITHIN_S
