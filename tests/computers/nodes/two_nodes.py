"""Several nodes in one process: their own services, worlds and workers on one store, one bus and one hub."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from orchestrator.adapters.bus import LocalBus
from orchestrator.adapters.store.postgres import PostgresPersistenceManager
from orchestrator.adapters.store.sql_store import SqlStore
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.app.greeter import JournalGreeter
from orchestrator.computers.hub import Hub
from orchestrator.core.errors import Conflict
from orchestrator.core.policy import Policy
from orchestrator.core.ports import CallResult, ChatMessage, ChatModel, Lease, ModelReply
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import ComputerId, RunId
from orchestrator.engine.active_policy import NodePolicy
from orchestrator.engine.tasks import TaskService
from orchestrator.engine.workers import Workers
from orchestrator.runtime.clock import SystemClock
from orchestrator.testing.stub_computer import StubComputer
from orchestrator.tools.environment import Environment
from orchestrator.web.sockets import accepted
from tests.engine.test_actor import Anyone, rules
from tests.harness.hub_server import serving
from tests.harness.support import Listening, stubs_connected
from tests.waiting import HANG_S, within


@dataclass
class Ledger:
    """What the stores of all nodes gave and refused."""

    leases: defaultdict[TaskId, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    """Holders and tokens of each task, in order."""
    leased: asyncio.Event = field(default_factory=asyncio.Event)
    renewals: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    """One for each renewal that nobody has waited for yet."""
    conflicts: int = 0
    """That actors met."""

    async def held_by(self, holder: str, task_id: TaskId) -> None:
        """Until the newest lease of a task is this holder's."""
        while not self.leases[task_id] or self.leases[task_id][-1][0] != holder:
            self.leased.clear()
            await within(self.leased.wait())


class Recorded(SqlStore if TYPE_CHECKING else object):  # type: ignore[misc]
    """A store that writes its leases down: mixed into one."""

    ledger: Ledger

    async def renew(self, lease: Lease, lease_s: float) -> None:
        await super().renew(lease, lease_s)
        self.ledger.renewals.release()

    async def lease(self, holder: str, lease_s: float, **more: Any) -> Lease | None:
        lease: Lease | None = await super().lease(holder, lease_s, **more)
        if lease is not None:
            self.ledger.leases[lease.task_id].append((holder, lease.token))
            self.ledger.leased.set()
        return lease

    async def append(self, task_id: TaskId, version: int, drafts: Sequence[Draft], **more: Any) -> list[AgentTaskItem]:
        try:
            items: list[AgentTaskItem] = await super().append(task_id, version, drafts, **more)
        except Conflict:
            self.ledger.conflicts += more.get("token") is not None
            raise
        return items


class SharedStore(Recorded, InMemoryPersistenceManager):
    """The one store of all nodes, in memory."""

    def __init__(self) -> None:
        super().__init__(clock=SystemClock())
        self.ledger = Ledger()


class SharedPostgres(Recorded, PostgresPersistenceManager):
    """One node's store, in a database that it shares with others."""

    def __init__(self, url: str, ledger: Ledger) -> None:
        super().__init__(url)
        self.ledger = ledger


class Recording(StubComputer):
    """A stub computer that writes down each call that reaches it."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(url, name, files={"a.lua": b"print(1)\n"})
        self.took: list[wire.Call] = []

    def start(self, call: wire.Call, body: bytes | None) -> None:
        self.took.append(call)
        super().start(call, body)


@dataclass
class Sending:
    """The port ``Computers`` of one node; it writes down which runs the node sent."""

    hub: Hub
    sent: Counter[RunId] = field(default_factory=Counter)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.hub, name)

    async def call(self, computer: ComputerId, *, run_id: RunId, **more: Any) -> CallResult:
        self.sent[run_id] += 1
        return await self.hub.call(computer, run_id=run_id, **more)


class Steps:
    """A model that plays the same steps for every task; ``asked`` says which node asked for which, and how often."""

    name = "steps"

    def __init__(self, node: str, task: TaskId, script: Sequence[str], asked: Counter[tuple[TaskId, int, str]]) -> None:
        self._node, self._task, self._script, self._asked = node, task, script, asked

    async def window(self) -> None:
        """It does not say."""

    async def reply(self, messages: Sequence[ChatMessage], **more: Any) -> ModelReply:
        del more
        step = sum(message.role == "assistant" for message in messages)
        self._asked[self._task, step, self._node] += 1
        # A reply takes a while, in which others append.
        await asyncio.sleep(0.002)
        return ModelReply(text=self._script[min(step, len(self._script) - 1)])


class Node:
    """One node at work."""

    def __init__(
        self,
        name: str,
        cluster: "Cluster",
        model_for: Callable[[str, AgentTask], ChatModel],
        *,
        policy: Policy,
        lease_s: float,
        count: int,
    ) -> None:
        self.name = name
        self.sending = Sending(cluster.hub)
        store = cluster.new_store()
        self.world = Environment(store=store, computers=self.sending)
        active_policy = NodePolicy(lambda: policy, self.world.context)
        self.service = TaskService(
            store=store, bus=cluster.bus, clock=SystemClock(), authorizer=Anyone(), active_policy=active_policy
        )
        self.workers = Workers(
            self.service, self.world, lambda task: model_for(name, task), holder=name, count=count, lease_s=lease_s
        )
        self.working = asyncio.create_task(self.workers.work())

    async def killed(self) -> None:
        """End at once, and give nothing back."""
        self.working.cancel()
        await asyncio.gather(self.working, return_exceptions=True)


@dataclass
class Cluster:
    """What the nodes share."""

    store: SharedStore | SharedPostgres
    bus: LocalBus
    hub: Hub
    stubs: list[Recording]
    url: str = ""
    """Of the database; empty: the store in memory is every node's."""
    nodes: list[Node] = field(default_factory=list)
    stores: list[SharedPostgres] = field(default_factory=list)

    @property
    def ledger(self) -> Ledger:
        """What the stores of all nodes gave and refused."""
        return self.store.ledger

    def new_store(self) -> SharedStore | SharedPostgres:
        """The store of one more node."""
        if not self.url:
            return self.store
        self.stores.append(SharedPostgres(self.url, self.ledger))
        return self.stores[-1]

    def open(self, name: str, model: ChatModel | Callable[[str, AgentTask], ChatModel], **more: Any) -> Node:
        """One more node."""
        model_for = model if callable(model) else lambda name, task: model
        chosen = {"policy": rules(), "lease_s": 30.0, "count": 4, **more}
        node = Node(name, self, model_for, **chosen)
        self.nodes.append(node)
        return node

    async def until(self, task_id: TaskId, holds: Callable[[AgentTask], bool]) -> AgentTask:
        """The task as soon as something holds of it."""
        changed = asyncio.Event()
        unsubscribe = self.bus.subscribe("tasks", lambda _: changed.set())
        try:
            async with asyncio.timeout(HANG_S):
                while True:
                    changed.clear()
                    task = await self.store.load(task_id)
                    if task is not None and holds(task):
                        return task
                    await changed.wait()
        finally:
            unsubscribe()


@asynccontextmanager
async def open_cluster(*computers: str, store: SharedStore | None = None, url: str = "") -> AsyncIterator[Cluster]:
    """A store, a bus, a hub that listens, and stub computers that are connected; no node yet.

    ``url``: of a database, in which each node then has a store of its own.
    """
    kept: SharedStore | SharedPostgres = SharedPostgres(url, Ledger()) if url else store or SharedStore()
    bus = LocalBus()
    hub = Hub(JournalGreeter(TaskService(store=kept, bus=bus, clock=SystemClock(), authorizer=Anyone())))

    async def handle(websocket: WebSocket) -> None:
        await websocket.accept(wire.COMPUTER_SUBPROTOCOL)
        name = websocket.headers["authorization"].removeprefix("Bearer ")
        await hub.serve(ComputerId(name), accepted(websocket))

    async with serving(WebSocketRoute("/{path:path}", handle)) as port:
        stubs = [Recording(f"http://127.0.0.1:{port}", name) for name in computers]
        cluster = Cluster(kept, bus, hub, stubs, url)
        try:
            async with stubs_connected(*stubs):
                yield cluster
        finally:
            for node in cluster.nodes:
                await node.killed()
            await hub.close()
            for one in [*cluster.stores, kept]:
                await one.close()


class Slow(Listening):
    """A model whose replies wait until they may come."""

    def __init__(self, *script: Any) -> None:
        super().__init__(*script)
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        self.cut = asyncio.Event()

    async def reply(self, messages: Sequence[ChatMessage], **more: Any) -> ModelReply:
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cut.set()
            raise
        return await super().reply(messages, **more)
