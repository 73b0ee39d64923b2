"""A store, a workspace, computers and a model that fail once a test says so, and a new node for each try."""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.adapters.bus import LocalBus
from orchestrator.core.errors import CallLost, CallVoid, ComputerFailed
from orchestrator.core.policy import load_policy
from orchestrator.core.ports import Lease, ModelReply
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.task.limits import MAX_UNANSWERED
from orchestrator.core.task.transcript import Transcript
from orchestrator.engine.active_policy import NodePolicy
from orchestrator.engine.tasks import TaskService
from orchestrator.engine.workers import Workers
from orchestrator.testing import ManualClock
from orchestrator.tools.environment import Environment
from orchestrator.tools.workspace import DirectoryWorkspace
from tests.contract.parts import Playing
from tests.engine.test_actor import ALICE, FARM, Anyone, WatchedStore
from tests.harness.support import Disk, FakeComputers
from tests.waiting import within

Fault = Callable[[], Exception]
MANY = 200
LOOKS = ("fs_read", "fs_stat", "fs_list")
POLICY = """
schema_version = 1
undo = "{undo}"
[[rules]]
id = "all"
effect = "{effect}"
tools = ["*"]
"""
COMPUTER: dict[str, Fault] = {
    "busy": lambda: CallVoid("busy", "8 calls are open."),
    "full journal": lambda: CallVoid("journal_failed", "Its journal is full."),
    "silent": lambda: CallLost("Computer 3 did not answer within 60 s."),
    "broken": lambda: ComputerFailed("internal", "Its disk broke."),
    "defect": lambda: KeyError("nothing of the kind"),
}
SYSTEM: dict[str, Fault] = {
    name: partial(OSError, getattr(errno, name), os.strerror(getattr(errno, name)))
    for name in ("ENOSPC", "EACCES", "ELOOP", "ENOTDIR")
}
"""What the system of this host says, out of a port that does not put it into words."""


class Store(WatchedStore):
    """A store that cannot write some kinds of items, or a new task, once a test says so."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.parked = asyncio.Event()
        self.fault: Fault | None = None
        self.kind = ""
        self.tries = 0

    def _may_fail(self, kinds: Sequence[str]) -> None:
        if self.fault is not None and self.kind in kinds:
            self.tries += 1
            raise self.fault()

    async def append(self, task_id: TaskId, version: int, drafts: Sequence[Draft], **more: Any) -> list[AgentTaskItem]:
        self._may_fail([one.fact.kind for one in drafts])
        items = await super().append(task_id, version, drafts, **more)
        if more.get("schedule") == "sleep":
            self.parked.set()
        return items

    async def create(self, task_id: TaskId, drafts: Sequence[Draft]) -> list[AgentTaskItem]:
        self._may_fail([one.fact.kind for one in drafts])
        return await super().create(task_id, drafts)

    async def park(self, lease: Lease, *given: Any, **more: Any) -> bool:
        woke = await super().park(lease, *given, **more)
        self.parked.set()
        return woke


class Gone(Exception):
    """The node is gone."""


class Space:
    """A directory of this host whose every use fails, once a test says so."""

    def __init__(self, root: Path) -> None:
        self.inner = DirectoryWorkspace(root)
        self.fault: Fault | None = None
        self.tries = 0

    def __getattr__(self, name: str) -> Any:
        if self.fault is not None:
            self.tries += 1
            raise self.fault()
        return getattr(self.inner, name)


class Model(Playing):
    """A model before whose replies something happens, by the number of the replies before."""

    def __init__(self, *script: Any) -> None:
        super().__init__(*script)
        self.before: dict[int, Callable[[], object]] = {}

    async def reply(self, messages: Any, **more: Any) -> ModelReply:
        self.before.get(sum(message.role == "assistant" for message in messages), lambda: None)()
        return await super().reply(messages, **more)


class Bench:
    """A store and ports, at which each try is made by another node."""

    def __init__(self, root: Path, *script: Any) -> None:
        self.clock, self.root = ManualClock(), root
        self.store = Store(self.clock)
        self.computers = FakeComputers({FARM: Disk({"a.lua": b"old\n"})})
        self.space, self.model = Space(root), Model(*script)
        self.policy = load_policy(POLICY.format(effect="allow", undo="offer"))
        self.nodes = 0
        self.restart()

    def restart(self) -> None:
        """Another node: nothing of what the one before had in memory."""
        self.nodes += 1
        space: Any = self.space
        self.world = Environment(store=self.store, computers=self.computers, workspace=space)
        active_policy = NodePolicy(lambda: self.policy, self.world.context)
        self.service = TaskService(
            store=self.store, bus=LocalBus(), clock=self.clock, authorizer=Anyone(), active_policy=active_policy
        )

    async def submit(self, **more: Any) -> TaskId:
        return (await self.service.submit("do it", user=ALICE, computers=(FARM,), model="m", **more)).task_id

    async def go(self) -> None:
        """Let a new node take what is due next, until it gives it back."""
        due = await self.store.next_due()
        assert due is not None
        self.clock.advance(max(0.0, (due - self.clock.now()).total_seconds()))
        self.restart()
        self.store.parked.clear()
        workers = Workers(self.service, self.world, lambda _: self.model, holder=f"node-{self.nodes}", count=1)
        working = asyncio.create_task(workers.work())
        await within(self.store.parked.wait())
        await workers.drain(60)
        await within(working)

    async def until_nothing_is_due(self) -> None:
        before = self.nodes
        while await self.store.next_due() is not None:
            assert self.nodes - before < 3 * MAX_UNANSWERED, "it goes on for ever"
            await self.go()

    def breaks(self, port: str, fault: str) -> None:
        """From now on the port fails; ``port``: of the store, the kind of item that it cannot write."""
        if port == "computer":
            self.computers.settle_faults = deque(COMPUTER[fault]() for _ in range(MANY))
            self.computers.faults |= {one: deque(COMPUTER[fault]() for _ in range(MANY)) for one in LOOKS}
        elif port != "host":
            self.store.fault, self.store.kind = SYSTEM[fault], port
        elif fault in SYSTEM:
            self.space.fault = SYSTEM[fault]
        else:
            notes = self.root / "notes"
            notes.rename(self.root.parent / "elsewhere")
            if fault == "link":
                notes.symlink_to(self.root.parent / "elsewhere")
            else:
                notes.write_text("no directory")

    def tries(self) -> int:
        """How often a port was used that failed."""
        left: list[deque[Any]] = [*self.computers.faults.values(), self.computers.settle_faults]
        return self.space.tries + self.store.tries + sum(MANY - len(one) for one in left if one)

    async def seen(self, task_id: TaskId) -> str:
        """What a person sees of the task: its log, and all that it says of its requests."""
        log, lines = Transcript(), []
        for item in await self.store.read(task_id):
            lines += log.lines(item)
            if isinstance(item.fact, facts.ReviewRequested):
                lines += [one.observed.note for one in item.fact.calls]
        return "\n".join(lines)
