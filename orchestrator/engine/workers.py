"""The workers of one node: each takes a due task, acts for it, and takes the next, until the node is left."""

import asyncio
import logging
import math
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from orchestrator.core.errors import Conflict, JournalBroken, LeaseLost, NewerSchema, OrchestratorError, StoreAway
from orchestrator.core.ports import ChatModel, Lease, Store
from orchestrator.core.ports.store import Here
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.task import AgentTask
from orchestrator.engine.actor import Leaving, TaskActor, TaskJournal, note_failure
from orchestrator.engine.actor.talks import Talks
from orchestrator.engine.tasks import AWAY, TaskService, patiently
from orchestrator.runtime.logs import about
from orchestrator.tools.environment import Environment

# -- One task at work: ``process_task`` acts for a leased task until it waits or is over

LEASE_S = 30.0
"""How long a dead actor's task waits for another, where nobody sets it; renewed three times in it."""
_PATIENCE_LEASES = 2.0
"""Lease times that an actor asks a store again that is away: it may well be nobody else's until then."""
GIVE_BACK_S = 2.0
"""Seconds that the return of a lease may take: if it takes longer, the lease ends by itself."""


async def process_task(
    lease: Lease,
    *,
    service: TaskService,
    world: Environment,
    model_for: Callable[[AgentTask], ChatModel],
    leaving: Leaving | None = None,
    lease_s: float = LEASE_S,
    talks: Talks | None = None,
    waiting: asyncio.Semaphore | None = None,
) -> AgentTask:
    """Act for a leased task until it waits, is over or, when the node is left, handed over.

    ``talks``: the conversations of the node; None: this one is not kept. ``waiting``: how many tasks of the node may
    wait beside one another for computers of other tasks' steps. Raises LeaseLost when another actor has it.
    A node that does not reach the store does not stop its present work. Nothing new begins without the store, and
    nobody else knows of the work under way. If another node took the lease, the first answer of the store says so.
    """
    task = await service.load(lease.task_id)
    leaving = leaving or Leaving()
    patience_s = _PATIENCE_LEASES * lease_s
    actor = TaskActor(
        lease=lease,
        service=service,
        world=world,
        model=model_for(task),
        task=task,
        leaving=leaving,
        patience_s=patience_s,
        talks=talks,
        waiting=waiting,
    )
    renewing = asyncio.create_task(_renew(service.store, lease, lease_s, patience_s))
    acting = asyncio.create_task(actor.run())
    try:
        with leaving.letting_go(acting.cancel):
            await asyncio.wait((renewing, acting), return_when=asyncio.FIRST_COMPLETED)
            if actor.gives_back:
                # That it cannot be renewed does not mean that another node has it.
                await asyncio.wait((acting,))
        if renewing.done() and not acting.done():
            await renewing
        if acting.cancelled():
            if leaving.over:
                return await give_back(service, lease)
            # Nobody canceled this wait: passed on as it is, it would end the worker.
            raise OrchestratorError("The task's work was canceled from within.")
        return await acting
    finally:
        for part in (renewing, acting):
            part.cancel()
        await asyncio.gather(renewing, acting, return_exceptions=True)


async def give_back(service: TaskService, lease: Lease, pause_s: float = 0.0) -> AgentTask:
    """The task as it stands, its lease given back and due again after a pause. Raises LeaseLost, StoreAway.

    An append that is still on its way is fenced by it, or is seen by the next look.
    """
    try:
        async with asyncio.timeout(GIVE_BACK_S):
            while True:
                task = await service.load(lease.task_id)
                try:
                    await service.store.park(lease, task.version, due=service.clock.now() + timedelta(seconds=pause_s))
                except Conflict:
                    continue
                service.falls_due(task.task_id)
                return task
    except TimeoutError:
        raise StoreAway(f"The lease on task {lease.task_id} could not be given back; it ends by itself.") from None


async def _renew(store: Store, lease: Lease, lease_s: float, patience_s: float) -> None:
    """Hold on to the lease; ends only by raising LeaseLost, or why the store was away for all of the patience."""
    while True:
        await asyncio.sleep(lease_s / 3)
        await patiently(lambda: store.renew(lease, lease_s), for_s=patience_s)


# -- The workers of one node: each takes a due task, acts for it, and takes the next, until the node is left

logger = logging.getLogger(__name__)

_IDLE_S = 5.0
"""How long a worker trusts the bus before it looks at the queue by itself."""
_OF_A_LEASE = 1 / 4
"""With short leases it looks sooner. Tasks of a killed node are taken over within one and a half lease times."""
_ANY = ""
"""Stands for any task among those that fall due."""
_MOST_TOLD = 1_000
"""Tasks that are known to fall due by their ids; of more, only that there are some."""
_TAKEN_S = 0.02
"""About how long, where something is due and another node is just taking it: more than a transaction takes."""
_NOT_HAD_S = 0.5
"""The most seconds between two looks at a due task that cannot be had: each wait is twice as long as the one before."""
_NEWER_S = 60.0
"""Seconds for which a task is left to newer versions: this node may be the newer one by then."""
_MOST_NEWER = 128
"""Tasks that are left to newer versions; where there are more, each is looked at at this pace:"""
_NEXT_NEWER_S = 1.0
_MOST_DOUBLED = 6
"""Doubled so often, any first wait is longer than the longest."""
_HELD_S = 1.0
"""How soon a worker that may not act looks whether it may."""
_AGAIN_S = 0.5
"""Seconds until a worker asks a store again that failed; then twice as long each time."""
_AGAIN_AT_MOST_S = 5.0
_POSTPONED_S = 5.0
"""A task whose actor failed is due again after this."""


class _Look(NamedTuple):
    """A look at the queue."""

    at: float
    """By the loop's clock."""
    due: datetime | None
    """When the next task falls due; None: nothing was scheduled."""


@dataclass
class Workers:
    """The workers of one node."""

    service: TaskService
    world: Environment
    model_for: Callable[[AgentTask], ChatModel]
    holder: str
    count: int = 4
    lease_s: float = LEASE_S
    may_act: Callable[[], bool] = lambda: True
    """Whether tasks are taken on now."""
    here: Here = None
    """None: there is no other node."""
    _due: asyncio.Event = field(default_factory=asyncio.Event)
    _told: set[str] = field(default_factory=lambda: {_ANY})
    """The tasks of which somebody said that they fall due: one is asked for; else a look shows whether one is due."""
    _looked: _Look | None = None
    """The last look; None: it does not count any more."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """The worker whose turn it is to look at the queue: a node asks once a notification, however many are idle."""
    _leaving: Leaving = field(default_factory=Leaving)
    _working: set[asyncio.Task[None]] = field(default_factory=set)
    _newer: dict[TaskId, float] = field(default_factory=dict)
    """The tasks that are left to newer versions, and until when by the loop's clock."""
    _talks: Talks = field(default_factory=Talks)
    _not_had: int = 0
    """How often in a row something was due and not to be had."""
    at_work: int = 0
    """Tasks that are acted for now."""

    def __post_init__(self) -> None:
        # One worker is left for tasks that can go on: a program may have a computer for long, and many tasks want it.
        self._waiting = asyncio.Semaphore(max(0, self.count - 1))

    async def work(self) -> None:
        """Work until canceled, or until all is handed over."""
        unsubscribe = self.service.bus.subscribe("tasks.due", lambda hint: self._hear(str(hint.get("task_id", _ANY))))
        deaf = self.service.directory.listen(self._hear)
        try:
            async with asyncio.TaskGroup() as group:
                self._working = {group.create_task(self._worker()) for _ in range(self.count)}
        finally:
            deaf()
            unsubscribe()

    def _hear(self, task_id: str = _ANY) -> None:
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
            task_id = _ANY
        self._told.add(task_id)
        self._due.set()

    async def drain(self, within_s: float, *, cut_models: bool = False) -> None:
        """Take no more tasks, and hand over those at hand at their next boundary between two effects.

        Work that takes longer than ``within_s`` is let go with its bracket open; ``cut_models``: nobody waits for a
        reply of a model. When it is canceled, it lets go at once.
        """
        self._leaving.begin(cut_models=cut_models)
        self._due.set()
        try:
            await self._ended(within_s)
        finally:
            self._leaving.end()
        if not await self._ended(2 * GIVE_BACK_S):
            logger.warning("the work of a worker does not end; its lease ends by itself in %g s", self.lease_s)

    async def _ended(self, within_s: float) -> bool:
        """Whether all workers have ended after so many seconds, or before."""
        working = [one for one in self._working if not one.done()]
        if working and within_s > 0:
            await asyncio.wait(working, timeout=within_s)
        return all(one.done() for one in working)

    async def _worker(self) -> None:
        while (lease := await self._next()) is not None:
            self.at_work += 1
            try:
                with about(task_id=lease.task_id):
                    await self._process(lease)
            finally:
                self.at_work -= 1
            # It may have parked for a short time, and the worker that waits now does not know of that.
            self._due.set()

    async def _next(self) -> Lease | None:
        """A lease on the next due task; None: the node is left."""
        pause_s = _AGAIN_S
        async with self._turn:
            while not self._leaving.begun:
                self._due.clear()
                frozen = self.service.directory.present.frozen_users()
                if not self.may_act() or frozen is None:
                    await self._leaving.pause(_HELD_S)
                    continue
                try:
                    if (lease := await self._taken(frozen)) is not None:
                        return lease
                    pause_s = _AGAIN_S
                except Exception as error:
                    # A worker that ended would be missed until the next start of the server.
                    known = isinstance(error, OrchestratorError)
                    logger.error("the queue is looked at again in %g s: %s", pause_s, error, exc_info=not known)  # noqa: TRY400 - it explains itself
                    await self._leaving.pause(pause_s)
                    pause_s = min(2 * pause_s, _AGAIN_AT_MOST_S)
        return None

    async def _taken(self, frozen: frozenset[str]) -> Lease | None:
        """A lease on a due task; None, after a while or once somebody says that one falls due: there was none.

        Whether one is due is only read where nobody said so: taking one is a transaction that writes.
        """
        left_s = 0.0 if self._told else await self._due_in_s(frozen)
        if left_s <= 0:
            told, self._told = self._told, set()
            looked, self._looked = self._looked, None
            turns = self.service.quotas.turns(frozen)
            lease = await self.service.store.lease(
                self.holder, self.lease_s, but=self._left_to_newer(), turns=turns, here=self.here
            )
            if lease is not None:
                self._not_had = 0
                # The others of which somebody said so are still to be had. Without them, all is as the look showed it.
                self._told |= told - {lease.task_id}
                self._looked = looked if lease.task_id in told else None
                return lease
            left_s = await self._due_in_s(frozen)
        await self._idle(left_s)
        return None

    async def _due_in_s(self, frozen: Collection[str]) -> float:
        """Seconds until the next task falls due; none or fewer: one is, infinite: nothing is scheduled.

        As long as a worker would trust the bus, the last look tells: what falls due sooner is told of.
        """
        if self._trusted_s() <= 0:
            at = asyncio.get_running_loop().time()
            self._looked = _Look(at, await self.service.store.next_due(but=self._left_to_newer(), frozen=frozen))
        due = self._looked.due if self._looked is not None else None
        return math.inf if due is None else (due - self.service.clock.now()).total_seconds()

    def _trusted_s(self) -> float:
        """Seconds for which the last look still counts."""
        if self._looked is None:
            return 0.0
        return self._looked.at + min(_IDLE_S, self.lease_s * _OF_A_LEASE) - asyncio.get_running_loop().time()

    async def _idle(self, left_s: float) -> None:
        seconds = max(0.0, self._trusted_s())
        if left_s > 0:
            self._not_had = 0
        else:
            # Another node's transaction has it, or the clocks differ.
            left_s = min(_NOT_HAD_S, _TAKEN_S * 2**self._not_had) * random.uniform(0.5, 1)
            self._not_had = min(self._not_had + 1, _MOST_DOUBLED)
        if self._leaving.begun:
            return
        try:
            async with asyncio.timeout(min(seconds, left_s)):
                await self._due.wait()
        except TimeoutError:
            pass

    def _left_to_newer(self) -> list[TaskId]:
        """The tasks of which this version knows that it cannot read them."""
        now = asyncio.get_running_loop().time()
        for task_id in [one for one, until in self._newer.items() if until <= now]:
            del self._newer[task_id]
        return list(self._newer)

    async def _process(self, lease: Lease) -> None:
        try:
            await process_task(
                lease,
                service=self.service,
                world=self.world,
                model_for=self.model_for,
                leaving=self._leaving,
                lease_s=self.lease_s,
                talks=self._talks,
                waiting=self._waiting,
            )
        except LeaseLost:
            logger.warning("task %s is acted for elsewhere now", lease.task_id)
        except NewerSchema as error:
            await self._pass_by(lease, error)
        except JournalBroken as error:
            logger.error("task %s stops: %s", lease.task_id, error)  # noqa: TRY400 - it explains itself
            await self._pass_by(lease, error)
        except AWAY as error:
            # Of a node that leaves, a lease that could not be given back is not a problem: it ends by itself.
            level = logging.INFO if self._leaving.over else logging.ERROR
            logger.log(level, "task %s stops for now: %s", lease.task_id, error)
            await self._postpone(lease)
        except OrchestratorError as error:
            logger.log(logging.INFO if self._leaving.over else logging.ERROR, "task %s stops: %s", lease.task_id, error)
            await self._fail(lease, str(error))
        except Exception as error:
            logger.exception("task %s met a defect and stops for now", lease.task_id)
            await self._fail(lease, _told(error))

    async def _fail(self, lease: Lease, why: str) -> None:
        """Record why a task failed and have it looked at again soon; after so many times it ends."""
        if self._leaving.over:
            return
        try:
            journal = TaskJournal(lease, self.service, await self.service.load(lease.task_id))
            await note_failure(journal, why, "failed")
            if not journal.task.gave_up and journal.task.ended is None:
                await self._postpone(lease)
                return
            # An undo that the policy wants is begun next; one that cannot be begun waits for a person.
            due = self.service.clock.now() if journal.task.undoes_itself else None
            # Its computers too: a task that is over would have them for ever.
            await journal.park(due, None)
            self.service.falls_due()
        except Exception:
            logger.exception("the failure of task %s cannot be recorded; its lease ends by itself", lease.task_id)

    async def _pass_by(self, lease: Lease, newer: OrchestratorError) -> None:
        """Leave a task to the nodes of a newer version, at once; where there is none, it waits for one."""
        logger.info("task %s is left to others: %s", lease.task_id, newer.message)
        full = len(self._newer) >= _MOST_NEWER
        if full:
            del self._newer[next(iter(self._newer))]
        self._newer[lease.task_id] = asyncio.get_running_loop().time() + _NEWER_S
        try:
            async with asyncio.timeout(GIVE_BACK_S):
                await self.service.store.pass_by(lease)
            self.service.falls_due(lease.task_id)
        except (OrchestratorError, TimeoutError) as error:
            logger.info("task %s is left only when its lease ends: %s", lease.task_id, error)
        if full:
            await self._leaving.pause(_NEXT_NEWER_S)

    async def _postpone(self, lease: Lease) -> None:
        """Have the task looked at again soon; while the store is away that is said again, as long as a lease is."""
        if self._leaving.over:
            return
        until = asyncio.get_running_loop().time() + self.lease_s
        while True:
            try:
                await give_back(self.service, lease, _POSTPONED_S)
            except AWAY as away:
                if self._leaving.begun or asyncio.get_running_loop().time() > until:
                    logger.info("task %s: %s", lease.task_id, away)
                    return
                await self._leaving.pause(_AGAIN_S)
            except OrchestratorError as error:
                logger.info("task %s: %s", lease.task_id, error)
                return
            except Exception:
                # The error that stopped the task may stop this too, and must not end the worker and with it all others.
                logger.exception("task %s is not given back; its lease ends by itself", lease.task_id)
                return
            else:
                return


def _told(error: Exception) -> str:
    """The sentence for a person about an error that nobody foresaw: no content, and the words of the host."""
    if isinstance(error, OSError) and error.strerror:
        return f"The host of the orchestrator said: {error.strerror}. Its log says more."
    return f"The orchestrator met a defect ({type(error).__name__}); its log says more."
