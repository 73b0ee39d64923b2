"""The actor of one task: fold, next effects, perform, append; until the task waits or is over.

A wait is never held in memory: the actor gives its lease back, and the next wake, here or on
another day, carries on from the journal. Only for a computer that another task's step has it waits a moment first.
"""

import asyncio
import logging
import math
import random
from datetime import timedelta
from functools import partial
from typing import Final

from orchestrator.core.approval.people import Freeze
from orchestrator.core.errors import (
    CallLost,
    CallVoid,
    ComputerAway,
    ComputerClaimed,
    Conflict,
    NotFound,
    OrchestratorError,
)
from orchestrator.core.ports import ChatModel, Lease
from orchestrator.core.task import effects as todo
from orchestrator.core.task import facts
from orchestrator.core.task.effects import next_effects
from orchestrator.core.task.limits import next_deadline, overdue, pause_s
from orchestrator.core.task.rehearsal import original_of
from orchestrator.core.task.states import ACTIVE_PHASES
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.actor.calls import Calls
from orchestrator.engine.actor.checks import Checker, ShownChecks
from orchestrator.engine.actor.gate import Gate
from orchestrator.engine.actor.interrupts import Leaving, Wait, Watch, ended_by, left_s, note_failure, out_of_time
from orchestrator.engine.actor.journal import Hints, TaskJournal, step_computers
from orchestrator.engine.actor.model_step import Thinking
from orchestrator.engine.actor.programs import Programs
from orchestrator.engine.actor.restoration import Restoring
from orchestrator.engine.actor.talks import Talks
from orchestrator.engine.tasks import TaskService, patiently
from orchestrator.engine.undo import Undoing
from orchestrator.runtime.logs import about
from orchestrator.tools.environment import Environment

logger = logging.getLogger(__name__)


SOON_S = 5.0
"""All workers are told of work that falls due sooner: by themselves they look at the queue no more often."""

_CLAIMED_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16)
"""Seconds between looks whether another task's step still has a computer, before this task parks for it.

A step has a computer for some milliseconds. To park, to be woken and to be taken on costs more than all these looks.
"""
_NOTHING_NOW = (todo.Rest, todo.AwaitReview, todo.AwaitAnswer, todo.AwaitRuns)
"""Effects that leave the actor nothing to do until something comes in.

A union in the test would be made at each look.
"""


def _computers_of(task: AgentTask) -> list[ComputerId]:
    """The computers that the work on a task may look at: its own, and those of which they are copies."""
    return sorted({*task.computers, *map(original_of, task.computers)})


class TaskActor:
    """Acts for one leased task."""

    _claimed = False
    """Whether the computers of the present step are claimed by this very actor."""

    def __init__(
        self,
        *,
        lease: Lease,
        service: TaskService,
        world: Environment,
        model: ChatModel,
        task: AgentTask,
        leaving: Leaving | None = None,
        patience_s: float = 60.0,
        talks: Talks | None = None,
        waiting: asyncio.Semaphore | None = None,
    ) -> None:
        self._service = service
        self._store = service.store
        self._leaving = leaving or Leaving()
        self._clock = service.clock
        self._world = world
        # Of a task that has only come in, no earlier actor can have claimed anything.
        self._journal = TaskJournal(lease, service, task, claimed=task.version > 1, patience_s=patience_s)
        programs = Programs(world, service.active_policy)
        gate = Gate(
            self._journal,
            world,
            service.active_policy,
            programs,
            ShownChecks(self._journal, world, service.active_policy),
        )
        self._checker = Checker(self._journal, world, service.active_policy, gate.judge_all)
        self._watch = Watch(service, lambda: self._journal.task)
        hints = Hints(service.bus, task.task_id)
        # The end of a step asks for the next one, and its begin starts a call: each of the two needs the other.
        self._calls = Calls(
            self._journal,
            gate,
            world,
            self._watch,
            hints,
            programs,
            self._leaving,
            lambda task: self._thinking.ask_next(task),  # noqa: PLW0108 - see above
        )
        self._talks = talks or Talks()
        self._thinking = Thinking(
            self._journal,
            gate,
            model,
            self._watch,
            hints,
            self._leaving,
            self._calls.begin,
            self._checker,
            self._talks.take(task.task_id),
        )
        self._undoing = Undoing(service, world)
        self._restoring = Restoring(self._journal, gate, self._undoing)
        self._gate = gate
        self._looks = iter(_CLAIMED_S)
        """What is left of the looks at a computer that another task has, since this task last went on."""
        self._waiting = waiting or asyncio.Semaphore()

    @property
    def gives_back(self) -> bool:
        """Whether the lease is given back with what is being written, so that it may be gone before this is heard."""
        return self._journal.gives_back

    async def run(self) -> AgentTask:
        """Act until the task waits or is over; the lease is given back. Raises LeaseLost."""
        watching = asyncio.create_task(self._watch.run())
        try:
            async with self._world.pinned(_computers_of(self._journal.task)):
                return await self._act()
        finally:
            if self._journal.task.ended is None:
                self._talks.keep(self._journal.task.task_id, self._thinking.talk)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _act(self) -> AgentTask:
        while True:
            try:
                # An effect that began together with the last outcome is not a boundary: its bracket is open.
                if self._leaving.begun and not self._calls.begun() and not self._journal.gives_back:
                    await self._hand_over()
                    return self._journal.task
                wait = await self._once()
                if wait is None:
                    self._looks = iter(_CLAIMED_S)
                elif (wait := await self._after_looks(wait)) is not None:
                    await self._sleep(wait)
                    return self._journal.task
            except Conflict:
                await self._journal.refold()

    async def _once(self) -> Wait | None:
        """Perform what is to do now; None: there is more."""
        task, freeze = self._journal.task, self._watch.freeze
        if task.phase in ACTIVE_PHASES and left_s(task, self._clock.now()) <= 0:
            await self._journal.intend(*ended_by(out_of_time(task), task))
        passed = overdue(self._journal.task, self._clock.now())
        if passed and freeze is None:
            await self._journal.intend(*passed)
            return None
        effects = self._calls.begun() or next_effects(self._journal.task, self._calls.mine)
        if isinstance(effects[0], _NOTHING_NOW):
            return Wait()
        if freeze is not None and not (isinstance(effects[0], todo.Settle) or self._calls.begun()):
            return await self._freeze(freeze)
        away = [self._away(effect) for effect in effects]
        if None not in away:
            # Not claimed first: giving it back would wake the others that wait for it, and theirs this one.
            return Wait(computer=away[0])
        blocked = None if self._needs_no_claim(effects) else await self._claim()
        if blocked is not None:
            return Wait(computer=blocked)
        outcomes = await self._perform_all(effects)
        if not self._journal.task.calls:
            self._claimed = False
        waits = [outcome for outcome in outcomes if isinstance(outcome, Wait)]
        return waits[0] if len(waits) == len(outcomes) else None

    async def _freeze(self, freeze: Freeze) -> Wait:
        """Let the task's time stand still; it is due at once, and the queue leaves it to nobody until it is free."""
        task = self._journal.task
        if task.phase in ACTIVE_PHASES and not task.frozen:
            frozen = facts.WorkFrozen(by=freeze.by, of=freeze.name, reason=freeze.reason)
            await self._journal.intend(frozen)
        return Wait(seconds=0.0)

    async def _perform_all(self, effects: tuple[todo.Effect, ...]) -> list[Wait | None]:
        """Perform effects beside one another; an error of one is raised when all are through."""
        if len(effects) == 1:
            return [await self._perform(effects[0])]
        outcomes = await asyncio.gather(*(self._perform(effect) for effect in effects), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]

    async def _perform(self, effect: todo.Effect) -> Wait | None:
        call_id = effect.call_id if isinstance(effect, todo.RunTool) else ""
        with about(call_id=call_id, computer=self._computer_of(effect)):
            return await self._tried(effect)

    async def _tried(self, effect: todo.Effect) -> Wait | None:
        try:
            return await self._do(effect)
        except ComputerClaimed as claimed:
            return Wait(computer=ComputerId(claimed.computer))
        except (ComputerAway, CallLost, CallVoid) as error:
            logger.info("task %s waits: %s", self._journal.task.task_id, error)
            missing = self._away(effect)
            if missing is not None and isinstance(error, ComputerAway):
                return Wait(computer=missing)
            return await self._unanswered(effect, error, missing)

    async def _unanswered(
        self, effect: todo.Effect, error: OrchestratorError, missing: ComputerId | None
    ) -> Wait | None:
        """Record that a computer was asked in vain, and when to ask again; ``missing``: it is away by now."""
        computer = self._computer_of(effect)
        failure = await note_failure(
            self._journal, str(error), "unanswered", effect=type(effect).__name__, computer=computer
        )
        if self._journal.task.gave_up or self._journal.task.ended is not None:
            return None
        if missing is not None:
            return Wait(computer=missing)
        if failure.count <= facts.AT_ONCE and not isinstance(error, CallVoid):
            return None
        return Wait(seconds=pause_s(failure.count))

    async def _do(self, effect: todo.Effect) -> Wait | None:
        seconds: float | None = None
        match effect:
            case todo.AskModel():
                seconds = await self._thinking.ask(effect.attempt)
            case todo.PlanRestoration():
                return await self._restoring.plan()
            case todo.LookFirst():
                return await self._checker.begin()
            case todo.EvaluatePolicy():
                return await self._thinking.read(effect.reply)
            case todo.Observe():
                await self._gate.request_review(effect)
            case todo.RunTool():
                seconds = await self._calls.run(effect.call_id)
            case todo.Settle():
                await self._calls.settle(effect)
            case todo.BeginUndo():
                return await self._begin_undo()
        return None if seconds is None else Wait(seconds=seconds)

    async def _begin_undo(self) -> Wait | None:
        """Begin the undo that the policy wants, where there is something to undo and it is still known."""
        try:
            begun = await self._undoing.begin(self._journal.task)
        except NotFound as gone:
            # It does not come back: a person who asks for the undo is told the same.
            logger.warning("task %s cannot be undone: %s", self._journal.task.task_id, gone)
            begun = False
        if begun:
            await self._journal.refold()
        return None if begun else Wait()

    def _away(self, effect: todo.Effect) -> ComputerId | None:
        """The computer without which the effect can do nothing and that is not connected; None: it can be tried."""
        computer = self._computer_of(effect)
        return computer if computer is not None and not self._world.online(computer) else None

    def _computer_of(self, effect: todo.Effect) -> ComputerId | None:
        match effect:
            case todo.Settle():
                return effect.computer
            case todo.RunTool():
                return self._journal.record(effect.call_id).call.computer
            case todo.Observe():
                calls = (self._journal.record(call_id).call for call_id in effect.call_ids)
                named = [call.computer for call in calls if call.computer is not None]
                # All may be back by now; waiting for one of them then wakes at once.
                return next((one for one in named if not self._world.online(one)), named[0] if named else None)
            case _:
                return None

    # -- claims and sleep ----------------------------------------------------------------

    async def _claim(self) -> ComputerId | None:
        """Claim the computers of the present step; the answer is one that another task has."""
        computers = step_computers(self._journal.task)
        if not computers or self._claimed:
            return None
        blocked = await self._journal.claim(computers)
        self._claimed = blocked is None
        return blocked

    def _needs_no_claim(self, effects: tuple[todo.Effect, ...]) -> bool:
        """Whether all there is to do touches no computer, or is looking, which claims its computer as it starts."""
        return all(
            isinstance(effect, todo.BeginUndo)
            or (isinstance(effect, todo.RunTool) and not self._journal.record(effect.call_id).mutates)
            for effect in effects
        )

    async def _after_looks(self, wait: Wait) -> Wait | None:
        """The wait that is left after the looks at a computer that another task's step has; None: the task goes on."""
        computer = wait.computer
        if computer is None or not self._world.online(computer):
            return wait
        if not self._waiting.locked():
            async with self._waiting:
                for seconds in self._looks:
                    await self._leaving.pause(seconds * random.uniform(0.5, 1))
                    holder = await patiently(partial(self._store.claimant, computer), for_s=self._journal.patience_s)
                    if holder in {None, self._journal.task.task_id}:
                        return None
                    if self._leaving.begun:
                        break
        if self._claimed or computer not in step_computers(self._journal.task):
            return wait
        # The store notes with it for what this task waits. A claim that is given back just now, in a transaction that
        # is not committed, would wake nobody who parks without such a note, or for another computer than it names.
        blocked = await self._claim()
        return None if blocked is None else Wait(computer=blocked)

    async def _hand_over(self) -> None:
        """Give the lease back with the task due at once, its claims kept for the next actor. Raises Conflict."""
        task = self._journal.task
        await self._store.park(self._journal.lease, task.version, due=self._clock.now())
        self._service.falls_due(task.task_id)

    async def _sleep(self, wait: Wait) -> None:
        """Give lease and claims back. Raises Conflict when something came in meanwhile: nothing is lost."""
        task = self._journal.task
        seconds = min(math.inf if wait.seconds is None else wait.seconds, self._left_s(), self._until_deadline_s())
        due = self._clock.now() + timedelta(seconds=max(0.0, seconds)) if seconds < math.inf else None
        if wait.computer is not None:
            # Before it sleeps: from here on each node that hears that the computer came wakes it.
            self._world.awaited.add(wait.computer)
        woke = await self._journal.park(due, wait.computer)
        # From here on nobody holds the task: what is left undone now, because the store is away, nobody makes up for.
        if await patiently(partial(self._woken, wait), for_s=self._journal.patience_s):
            seconds = 0.0
        if woke:
            self._service.falls_due()
        elif seconds < SOON_S:
            self._service.falls_due(task.task_id)
        if task.ended is not None and not task.open_runs:
            await patiently(self._wake_undos, for_s=self._journal.patience_s)

    async def _wake_undos(self) -> None:
        """Wake the tasks that take this one back: they wait until it is known of each of its calls how it ended."""
        for task_id in self._journal.task.undone_by:
            undo = await self._store.load(task_id)
            if undo is not None and undo.ended is None:
                await self._store.wake(undo.task_id)
                self._service.falls_due(undo.task_id)

    def _left_s(self) -> float:
        """How long the task may sleep before its time is up, which must be noticed."""
        task = self._journal.task
        return left_s(task, self._clock.now()) if task.phase in ACTIVE_PHASES else math.inf

    def _until_deadline_s(self) -> float:
        """How long the task may sleep before a request expires, a person is reminded, or an approval is over."""
        deadline = next_deadline(self._journal.task)
        return math.inf if deadline is None else (deadline - self._clock.now()).total_seconds()

    async def _woken(self, wait: Wait) -> bool:
        """Wake the task again where what it waits for came between the last look and the sleep; whether it did."""
        if wait.computer is None:
            return False
        # By the store: of a welcome elsewhere, which woke who slept by then, this node may not have heard yet.
        is_there = await self._world.find(wait.computer)
        task_id, holder = self._journal.task.task_id, await self._store.claimant(wait.computer)
        if not is_there or holder not in (None, task_id):
            return False
        await self._store.wake(task_id)
        return True
