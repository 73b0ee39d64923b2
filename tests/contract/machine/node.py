"""One orchestrator without endpoints, moved by hand: the real service, actor, gate, policy and store."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from orchestrator.adapters.bus import LocalBus
from orchestrator.adapters.store import open_store
from orchestrator.app.greeter import JournalGreeter
from orchestrator.core.errors import LeaseLost
from orchestrator.core.ports import ChatMessage, Identity, ModelReply, Store
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.active_policy import NodePolicy
from orchestrator.engine.tasks import TaskService
from orchestrator.engine.workers import LEASE_S, process_task
from orchestrator.testing import ManualClock
from orchestrator.tools.environment import Environment
from orchestrator.web.auth import TokenAuthorizer
from tests.contract.machine.computers import Witness, Witnesses
from tests.contract.machine.sheets import SHEETS, Sheet
from tests.harness.support import final, says
from tests.waiting import within

FARM, MINE = ComputerId("3"), ComputerId("4")
ALICE = Identity(kind="person", name="alice", roles=("submitter",))
BOB = Identity(kind="person", name="bob", roles=("reviewer",))
CAROL = Identity(kind="person", name="carol", roles=("reviewer",))
ROBOT = Identity(kind="agent", name="robot", roles=("submitter",))


class TickingClock(ManualClock):
    """A clock that no two looks find the same: what is due first does not hang on random ids."""

    def now(self) -> datetime:
        """A microsecond after the last look."""
        return self.advance(1e-6)


class Killed(BaseException):
    """The process died here: nothing after it happens."""


class Told:
    """The store as the node has it: what is appended is noted, and a meddler may come before and after."""

    def __init__(self, store: Store, node: "Node") -> None:
        self._store = store
        self._node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def create(self, task_id: TaskId, drafts: Sequence[Draft]) -> list[AgentTaskItem]:
        """As the port has it."""
        return self._noted(task_id, await self._store.create(task_id, drafts))

    async def append(self, task_id: TaskId, version: int, drafts: Sequence[Draft], **more: Any) -> list[AgentTaskItem]:
        """As the port has it."""
        kind = drafts[0].fact.kind
        await self._node.meddle(f"before {kind}")
        items = self._noted(task_id, await self._store.append(task_id, version, drafts, **more))
        await self._node.meddle(f"after {kind}")
        return items

    def _noted(self, task_id: TaskId, items: list[AgentTaskItem]) -> list[AgentTaskItem]:
        for item in items:
            self._node.sheets_at.setdefault(task_id, {})[item.version] = frozenset(self._node.in_force)
        return items


class Script:
    """A ``ChatModel`` that plays the script that stands in the prompt, from where the journal is."""

    name = "script"

    async def window(self) -> None:
        """It does not say."""

    async def reply(self, messages: Sequence[ChatMessage], **options: Any) -> ModelReply:
        """The next step of the script, or the end."""
        del options
        # What a session's earlier tasks came to stands behind the prompt.
        steps: list[list[dict[str, Any]]]
        steps, _ = json.JSONDecoder().raw_decode(messages[1].content)
        place = sum(message.role == "assistant" for message in messages)
        if place >= len(steps):
            return ModelReply(json.dumps(final()))
        return ModelReply(json.dumps(says(*steps[place])))


@dataclass
class Node:
    """The node, the endpoints of its people and the world around it. ``url``: of the store."""

    url: str
    clock: ManualClock = field(default_factory=TickingClock)
    sheet: Sheet = SHEETS[0]
    in_force: set[Sheet] = field(default_factory=lambda: {SHEETS[0]})
    """The policies in force since the present rule began."""
    sheets_at: dict[str, dict[int, frozenset[Sheet]]] = field(default_factory=dict)
    meddlers: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    """Place to what happens there, once."""
    lives: int = 0

    def __post_init__(self) -> None:
        computers = {FARM: Witness("3", "identity 3"), MINE: Witness("4", "identity 4")}
        self.computers = Witnesses(self.clock, self.meddle, computers)
        self.raw = open_store(self.url, clock=self.clock)
        self._wire()

    def _wire(self) -> None:
        self.lives += 1
        self.store = cast("Store", Told(self.raw, self))
        self.world = Environment(store=self.store, computers=self.computers)
        active_policy = NodePolicy(lambda: self.sheet.policy, self.world.context)
        self.service = TaskService(
            store=self.store,
            bus=LocalBus(),
            clock=self.clock,
            authorizer=TokenAuthorizer(self.store, approvers="role:reviewer"),
            active_policy=active_policy,
        )

    async def meddle(self, place: str) -> None:
        """What a test laid out for a place happens there."""
        meddler = self.meddlers.pop(place, None)
        if meddler is not None:
            await meddler()

    async def restart(self) -> None:
        """New objects on the same store: the file is closed and opened again, memory goes on."""
        if self.url != "memory:":
            await self.raw.close()
            self.raw = open_store(self.url, clock=self.clock)
        self._wire()
        await self.service.rejudge()

    async def reload(self, sheet: Sheet) -> None:
        """Another policy, and everything that waits is judged by it."""
        self.sheet = sheet
        self.in_force.add(sheet)
        await self.service.rejudge()

    async def act(self, holder: str = "node") -> AgentTask | None:
        """One turn for the task that is due; None: none is, or the turn ended otherwise."""
        lease = await self.store.lease(f"{holder}-{self.lives}", LEASE_S)
        if lease is None:
            return None
        try:
            turn = process_task(lease, service=self.service, world=self.world, model_for=lambda _: Script())
            return await within(turn)
        except LeaseLost:
            return None
        except Killed:
            self.clock.advance(LEASE_S + 1)
            return None

    async def take_over(self) -> None:
        """Another actor gets the task while this one stands still."""
        self.clock.advance(LEASE_S + 1)
        await self.act("other")

    async def drop(self, computer: ComputerId) -> None:
        """The computer's line is cut."""
        self.computers.all[computer].online = False

    async def reconnect(self, computer: ComputerId, identity: str = "") -> None:
        """It says hello again, or another one does in its name."""
        one = self.computers.all[computer]
        one.online, one.identity = True, identity or one.identity
        await JournalGreeter(self.service).arrived(computer)

    async def close(self) -> None:
        """The end of the story."""
        await self.raw.close()


def store_url(directory: Path | None) -> str:
    """Of a store in memory, or of a file in a directory."""
    return "memory:" if directory is None else f"sqlite:///{directory}/orchestrator.db"
