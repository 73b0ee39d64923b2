"""One generation of the server: the real parts on a loop of its own, over storage that outlives it.

A generation that crashed is never stepped again, which is what ``kill -9`` does. One that was stopped
may be stepped later, beside its successor. Storage is the store in memory: each generation opens a
manager of its own on the same dictionaries, so that nothing else is carried over.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.adapters.bus.local import LocalBus
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.app.greeter import JournalGreeter
from orchestrator.computers.hub import Hub
from orchestrator.computers.nodes import MeetingElsewhere, Presence, join
from orchestrator.core.approval.deciders import Saying
from orchestrator.core.errors import OrchestratorError, StoreAway
from orchestrator.core.policy import default_policy
from orchestrator.core.ports import ChatMessage, Coming, Computers, Identity, Lease, ModelReply, RequestAuthorizer
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.identity import NOTHING_HEARD, Heard
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.active_policy import NodePolicy
from orchestrator.engine.tasks import TaskService
from orchestrator.engine.undo import Undoing
from orchestrator.engine.workers import Workers
from orchestrator.tools.environment import Environment
from tests.explorer.computer import Wire
from tests.explorer.loop import Spawned, SteppedLoop
from tests.explorer.manners import Manners
from tests.explorer.net import Net, NetBus

PEOPLE = tuple(Identity(kind="person", name=name, roles=("admin",)) for name in ("alice", "bob"))
POLICY = default_policy().model_copy(update={"undo": "auto"})
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
Appended = Callable[[TaskId, Sequence[AgentTaskItem]], None]


class Clock:
    """The clock of all generations: seconds since the schedule began."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.seconds)


PATIENCE_S = 58.0
"""From when on an actor may give up a store that is away: two leases, less the longest pause between two tries."""


class Trouble(StoreAway):
    """What a move did to an append; ``for_s``: how long this append has been tried by then."""

    def __init__(self, message: str, for_s: float) -> None:
        super().__init__(message)
        self.for_s = for_s


class _Opened(InMemoryPersistenceManager):
    """Storage as one generation has it open: refuses all once that is dead, and tells what was appended.

    Each answer comes one turn of the loop after its transaction, so that a crash fits in between.
    """

    def __init__(self, storage: InMemoryPersistenceManager, appended: Appended) -> None:
        vars(self).update(vars(storage))
        self.dead = False
        self.troubles: deque[str] = deque()
        """What befalls the next appends of this node's actors: ``away``, nothing is done; ``lost``, it is done and
        the answer does not come; ``late``, it comes when somebody lets it."""
        self.held: deque[asyncio.Future[None]] = deque()
        """Answers that somebody has to let come."""
        self.welcoming: Callable[[ComputerId], None] = lambda _: None
        """Is told before a computer is welcome."""
        self._since: dict[str, float] = {}
        """Item id of an append to when it was tried first."""
        self._appended = appended

    async def _turn(self) -> int:
        if self.dead:
            raise OrchestratorError("This generation of the server is dead.")
        return await super()._turn()

    async def create(self, task_id: TaskId, drafts: Sequence[Draft]) -> list[AgentTaskItem]:
        items = await super().create(task_id, drafts)
        self._appended(task_id, items)
        return items

    async def append(self, task_id: TaskId, version: int, drafts: Sequence[Draft], **more: Any) -> list[AgentTaskItem]:
        self._since.setdefault(drafts[0].item_id, asyncio.get_running_loop().time())
        trouble = self.troubles.popleft() if self.troubles and more.get("token") is not None else ""
        if trouble == "away":
            await asyncio.sleep(0)
            raise self._trouble("The store was away.", drafts)
        items = await super().append(task_id, version, drafts, **more)
        self._appended(task_id, items)
        if trouble == "late":
            self.held.append(asyncio.get_running_loop().create_future())
            await self.held[-1]
        await asyncio.sleep(0)
        if trouble == "lost":
            raise self._trouble("The store's answer was lost.", drafts)
        return items

    def _trouble(self, message: str, drafts: Sequence[Draft]) -> Trouble:
        now = asyncio.get_running_loop().time()
        return Trouble(message, now - self._since[drafts[0].item_id])

    def let_answer(self) -> None:
        """The answer that is held longest comes."""
        answer = self.held.popleft()
        if not answer.done():
            answer.set_result(None)

    async def allot_number(
        self,
        computer: ComputerId,
        *,
        at_least: int = 0,
        count: int = 1,
        lease: Lease | None = None,
        heard: Heard = NOTHING_HEARD,
    ) -> int:
        number = await super().allot_number(computer, at_least=at_least, count=count, lease=lease, heard=heard)
        await asyncio.sleep(0)
        return number

    async def welcome_computer(self, computer: ComputerId, coming: Coming, *, note: Draft | None = None) -> int | None:
        self.welcoming(computer)
        return await super().welcome_computer(computer, coming, note=note)

    async def claim(self, lease: Lease, computers: Sequence[ComputerId]) -> ComputerId | None:
        blocked = await super().claim(lease, computers)
        await asyncio.sleep(0)
        return blocked

    async def park(
        self,
        lease: Lease,
        version: int,
        *,
        due: datetime | None,
        waiting_for: ComputerId | None = None,
        keep: Collection[ComputerId] | None = None,
    ) -> bool:
        woke = await super().park(lease, version, due=due, waiting_for=waiting_for, keep=keep)
        await asyncio.sleep(0)
        return woke


class _Anyone(RequestAuthorizer):
    """An authorizer for whom everybody may decide."""

    async def authenticate(self, authorization: str | None) -> Identity:
        del authorization
        return PEOPLE[0]

    def may_decide(self, identity: Identity, task: AgentTask, action: Saying = "approve") -> bool:
        del identity, task, action
        return True

    def who_decides(self, task: AgentTask) -> str:
        del task
        return "anybody"


class _Script:
    """A model that says the next reply of a script: the same one however often it is asked for it."""

    name = "script"

    def __init__(self, replies: Sequence[Mapping[str, Any]]) -> None:
        self._replies = replies

    async def window(self) -> None:
        """It does not say."""

    async def reply(self, messages: Sequence[ChatMessage], **_: object) -> ModelReply:
        await asyncio.sleep(0)
        said = sum(message.role == "assistant" for message in messages)
        return ModelReply(text=json.dumps(self._replies[min(said, len(self._replies) - 1)]))


class _End:
    """The server's end of a wire: the hub's port ``Socket``."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        wire.receive = self._inbox.put_nowait

    async def receive(self) -> bytes | None:
        return await self._inbox.get()

    async def send(self, frame: bytes) -> None:
        await asyncio.sleep(0)
        if not self._wire.send_to_client(frame):
            raise OSError("The connection is over.")
        await asyncio.sleep(0)

    async def close(self, code: int, reason: str) -> None:
        del code, reason
        self._wire.server_closes()


class Node:
    """The server from one start to its end."""

    def __init__(
        self,
        name: str,
        storage: InMemoryPersistenceManager,
        clock: Clock,
        scripts: Mapping[str, Sequence[Mapping[str, Any]]],
        appended: Appended,
        complain: Callable[[str], None],
        net: Net | None = None,
    ) -> None:
        self.name = name
        self.left = False
        """Whether it has handed everything over and stopped."""
        self.wires: list[Wire] = []
        self._works: list[Spawned] = []
        self._complain = complain
        self.loop = SteppedLoop(lambda: clock.seconds, complain)
        self.store = _Opened(storage, appended)
        active_policy = NodePolicy(lambda: POLICY, lambda computer: world.context(computer))  # noqa: PLW0108
        self._bus = None if net is None else NetBus(net, name, self.loop)
        bus = self._bus or LocalBus()
        self.service = TaskService(
            store=self.store,
            bus=bus,
            clock=clock,
            authorizer=_Anyone(),
            active_policy=active_policy,
            pinned=lambda computers: world.pinned(computers),  # noqa: PLW0108 - see above
        )
        presence = Presence(bus, name)
        elsewhere = MeetingElsewhere(presence)
        self.hub = Hub(JournalGreeter(self.service), elsewhere=elsewhere if net is not None else None)
        models = {model: _Script(replies) for model, replies in scripts.items()}
        computers: Computers = self.hub
        awaited = set[ComputerId]()
        if self._bus is not None:
            self._here = join(self.hub, elsewhere, presence, self.store, awaited)
            computers = self._here.fleet
            self._manners = Manners(presence, self._seat_of, complain, self.loop.time)
            self.store.welcoming = self._manners.welcomes
            self._bus.requested = self._manners.requested
            self.spawn(self._open())
        world = Environment(self.store, computers, awaited)
        self.undoing = Undoing(self.service, world)
        self._workers = Workers(
            service=self.service,
            world=world,
            # What takes something back has no model.
            model_for=lambda task: models.get(task.model, _Script(())),
            holder=name,
            count=2,
        )
        self.spawn(self._workers.work())

    def _seat_of(self, computer: ComputerId) -> tuple[str, int] | None:
        """The node that has a computer by the store at this moment, and the number of its welcome there."""
        asked = "SELECT node, number FROM seats WHERE computer = ? AND left_at IS NULL"
        rows = self.store._cursor.execute(asked, (computer,)).fetchall()
        return rows[0] if rows else None

    def spawn(self, work: Spawned, *expected: type[Exception]) -> None:
        """Run something on this generation; ``expected``: refusals that are no defect."""
        self._works.append(work)
        self.loop.create_task(self._watched(work, expected))

    async def _watched(self, work: Spawned, expected: tuple[type[Exception], ...]) -> None:
        try:
            await work
        except expected:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported with the schedule
            if not self.store.dead:
                self._complain(f"{self.name}: {error!r}")

    def accept(self, wire: Wire) -> None:
        """A computer connects."""
        self.wires.append(wire)
        if self._bus is not None:
            self._manners.comes(ComputerId(wire.computer.name))
        self.spawn(self.hub.serve(ComputerId(wire.computer.name), _End(wire)))

    async def _open(self) -> None:
        self._here.open()

    async def leave(self, within_s: float) -> None:
        """Hand everything over and stop, as at a signal: calls get ``within_s`` to end."""
        self._here.drain()
        await self._workers.drain(within_s)
        await self.hub.close()
        await self._here.close()
        self.left = True

    def crash(self) -> None:
        """The process dies: nothing of it runs again; its host ends its connections."""
        self.store.dead = True
        if self._bus is not None:
            self._bus.die()
        for wire in self.wires:
            wire.to_server.clear()
            wire.server_closes()

    def bury(self) -> None:
        """End what is left of it, where nobody watches any more."""
        self.store.dead = True
        if self._bus is not None:
            self._bus.die()
        self.loop.bury()
        for work in self._works:
            work.close()
