"""Watches a task while its actor is busy: a cancel, a freeze or the end of its time stops it at once.

The actor itself looks at the journal only between two effects. The watch reads along beside it,
woken by the bus, and never changes what the actor has folded: the actor's own next append meets
a conflict and folds again.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

from orchestrator.core.approval.people import Freeze
from orchestrator.core.errors import Conflict, ModelFailed
from orchestrator.core.evidence.checks import said_failing
from orchestrator.core.task import facts
from orchestrator.core.task.facts import FailedBecause, WorkFailed
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.task.limits import failed, why_it_ends
from orchestrator.core.task.repeats import times
from orchestrator.core.task.rounds import reason as gone_round
from orchestrator.core.task.states import ACTIVE_PHASES, Phase
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.actor.journal import TaskJournal
from orchestrator.engine.tasks import TaskService, patiently
from orchestrator.tools.environment import settled

# -- What fails is written down and counted; what failed too often ends the task with the reason


async def note_failure(
    journal: TaskJournal,
    reason: str,
    because: FailedBecause,
    *,
    effect: str = "",
    computer: ComputerId | None = None,
) -> WorkFailed:
    """Record that what was to be done next failed; the task is over, and ``gave_up``, where that was once too often."""
    failure = failed(journal.task, reason, because, effect)
    await journal.happened(failure, SYSTEM)
    if failure.count >= failure.most:
        await _give_up(journal, why_it_ends(failure, computer))
    return failure


async def _give_up(journal: TaskJournal, why: str) -> None:
    """End a task that does not go on: calls that were begun are of unknown outcome, and nothing more is tried."""
    for record in journal.task.open_runs:
        await journal.happened(settled(record, "unknown", reason=why), SYSTEM)
    await journal.service.fail(journal.task.task_id, "stuck", why)
    await journal.refold()


# -- A node is about to stop: its actors hand their tasks over ---------------------------
#
# Theory. First it begins: each actor comes to the next boundary between two effects, gives the lease back with
# the task due at once, and another node, or the next start of this one, goes on within milliseconds. Who waits
# for a long effect has time until it is let go: then the effect is canceled and the lease given back with its
# bracket open, which the next holder settles. Nothing that has not begun by then begins.


class Leaving:
    """How far the leaving of one node is."""

    def __init__(self) -> None:
        self._begun = asyncio.Event()
        self.cuts_models = False
        """Whether nobody waits for a model's reply any more: the next actor asks again, and only tokens are lost."""
        self._over = False
        self._at_cut: list[Callable[[], object]] = []
        self._at_end: list[Callable[[], object]] = []

    @property
    def begun(self) -> bool:
        """Whether tasks are to be handed over."""
        return self._begun.is_set()

    @property
    def over(self) -> bool:
        """Whether what has not been handed over by itself is let go."""
        return self._over

    def begin(self, *, cut_models: bool) -> None:
        """Have the tasks handed over; ``cut_models``: without waiting for replies of models."""
        self._begun.set()
        if cut_models and not self.cuts_models:
            self.cuts_models = True
            _call(self._at_cut)

    def end(self) -> None:
        """Let go of what is still at work."""
        self.begin(cut_models=False)
        if not self._over:
            self._over = True
            _call(self._at_end)

    async def pause(self, seconds: float) -> None:
        """Sleep, but not into the leaving."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._begun.wait()

    def cutting(self, stop: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
        """Call ``stop`` when models are cut, if that is while this is open."""
        return _Listed(self._at_cut, stop)

    def letting_go(self, stop: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
        """Call ``stop`` when what is at work is let go, if that is while this is open."""
        return _Listed(self._at_end, stop)


class _Listed:
    """Has a function among others while this is open; a generator would cost twice as much."""

    def __init__(self, stops: list[Callable[[], object]], stop: Callable[[], object], *, now: bool = False) -> None:
        self._stops, self._stop, self._now = stops, stop, now

    def __enter__(self) -> None:
        if self._now:
            self._stop()
        self._stops.append(self._stop)

    def __exit__(self, *_: object) -> None:
        self._stops.remove(self._stop)


def _call(stops: list[Callable[[], object]]) -> None:
    for stop in tuple(stops):
        stop()


# -- What an actor that cannot go on now waits for: a computer, some time, or the server of its model
#
# Theory. While the model server cannot be reached the task is in the phase ``waiting``, and its journal says for
# which server and until when. It holds no worker, no computer and no lease: it falls due every few seconds,
# whichever node takes it asks the server for a sign of life, and asks the model again once there is one. A model
# that shows no sign of life but a reply is asked again after 1 s, then 2, 4 and so on, so that the journal does
# not fill up.

LOOK_S: Final = 1.0
"""How soon a server that went away is looked for."""
_SELDOM_S: Final = 5.0
"""How often it is looked for later: workers hear at once of what is due so soon."""
_OF_THE_WAIT: Final = 0.1
"""Each look comes after this share of the time that the task has waited."""
_ASK_AT_MOST_S: Final = 60.0
_MOST_DOUBLED: Final = 6
MAX_REFUSALS: Final = 3
"""Unreadable replies in a row that end a task: the third shows that the model cannot, not that it made a slip."""


@dataclass(frozen=True)
class Wait:
    """The actor cannot go on now: sleep until woken, or until ``seconds`` have passed."""

    computer: ComputerId | None = None
    seconds: float | None = None


def wait_for(task: AgentTask, away: ModelFailed, now: datetime, wait_s: float) -> facts.ModelAwaited | None:
    """The wait for a model server that could not be reached; None: the task has waited for all of ``wait_s``.

    The waits since the model's last reply count together: a server that comes and goes has no more time than another.
    """
    if task.wait_for_model:
        return facts.ModelAwaited(server=away.server, why=str(away))
    left_s = wait_s - task.waited_until(now)
    if left_s <= 0:
        return None
    return facts.ModelAwaited(server=away.server, why=str(away), until=now + timedelta(seconds=left_s))


def too_long(task: AgentTask, server: str, why: str, now: datetime) -> ModelFailed:
    """Why a task ends that has waited for its model server in vain."""
    waited = f"{task.waited_until(now):.0f} s"
    return ModelFailed(
        f"The model server at {server} could not be reached for {waited}, and the task ended. {why}",
        remedy="Then run the task again; with `run --wait-for-model` it waits without an end.",
        lasting=True,
    )


def is_over(task: AgentTask, now: datetime) -> bool:
    """Whether a task that waits for its model server has waited long enough."""
    return task.awaited is not None and task.awaited.until is not None and now >= task.awaited.until


def may_ask_in_s(task: AgentTask, now: datetime) -> float:
    """Seconds until a waiting task may ask its model again, even where the server answers; 0: it may now."""
    if task.awaited_at is None:
        return 0.0
    pause_s = min(_ASK_AT_MOST_S, LOOK_S * 2.0 ** min(task.waits - 1, _MOST_DOUBLED))
    return max(0.0, pause_s - (now - task.awaited_at).total_seconds())


def look_again_in_s(task: AgentTask, now: datetime) -> float:
    """Seconds until a waiting task looks for its model server again; it looks once more when its time is up."""
    seconds = min(_SELDOM_S, max(LOOK_S, _OF_THE_WAIT * task.waited_until(now)), may_ask_in_s(task, now) or _SELDOM_S)
    until = task.awaited.until if task.awaited is not None else None
    return seconds if until is None else max(0.0, min(seconds, (until - now).total_seconds()))


# -- Keeps an eye on a task while its actor is busy: what is canceled, frozen or out of time stops at once
#
# Theory. A freeze is no fact of the task, so that the task is as it was when the person is unfrozen. The actor looks
# at it before each effect, before it records a start and before it sends a call. What is under way is stopped as by a
# cancel. Then the actor gives the lease back with the task due at once: the queue leaves it to nobody until it is free.

_POLL_S = 5.0
"""How long the bus is trusted: a lost notification costs at most this much."""


def left_s(task: AgentTask, now: datetime) -> float:
    """Seconds until the task's time is up, if it runs on from now; infinite without a limit."""
    return task.max_wall_s - task.active_until(now) if task.max_wall_s else math.inf


def out_of_time(task: AgentTask) -> facts.LimitReached:
    """The limit that a task without time left has reached."""
    return facts.LimitReached(
        limit="max_wall_s", detail=f"The limit of {task.max_wall_s:g} s was reached{_waited(task)}."
    )


def _waited(task: AgentTask) -> str:
    """The effect at which a task ran out of time, where that is not plain."""
    waiting = sorted({one.call.computer for one in task.calls if one.call.computer is not None})
    if not waiting or task.open_runs:
        return ""
    return f" while it waited for computer {', '.join(waiting)}"


def limit_of(task: AgentTask, now: datetime) -> facts.LimitReached | None:
    """The limit that forbids another request to the model; None: it may be asked."""
    if task.max_steps and task.steps >= task.max_steps:
        return facts.LimitReached(
            limit="max_steps", detail=f"The limit of {task.max_steps} step{'s' * (task.max_steps != 1)} was reached."
        )
    used = task.tokens + task.uncounted
    if task.max_tokens and used >= task.max_tokens:
        detail = f"The limit of {task.max_tokens} tokens was reached: {used} were used."
        return facts.LimitReached(limit="max_tokens", detail=detail)
    if left_s(task, now) <= 0:
        return out_of_time(task)
    if (why := gone_round(task.rounds)) is not None:
        return facts.LimitReached(limit="repeats", detail=why)
    if task.refusals >= MAX_REFUSALS:
        detail = f"{task.refusals} replies in a row could not be read."
        return facts.LimitReached(limit="model_output", detail=detail)
    return None


def stuck(calls: tuple[facts.ToolCall, ...], task: AgentTask, count: int) -> facts.LimitReached:
    """The limit that a call reached which was asked for ``count`` times while nothing changed."""
    call = max(calls, key=lambda one: times(task.repeats, [one.call_digest]))
    detail = f"The model asked for the same call of {call.tool} {count} times, and nothing had changed in between."
    return facts.LimitReached(limit="repeats", detail=detail)


def ended_by(reached: facts.LimitReached, task: AgentTask) -> tuple[facts.LimitReached, facts.TaskEnded]:
    """A limit and the end that it means, with the checks that did not hold when success was claimed last."""
    failing = said_failing(task.checking.results)
    message = f"{reached.detail} When success was claimed last: {failing}" if failing else reached.detail
    return reached, facts.TaskEnded(status="Failed", status_reason=reached.limit, message=message)


@contextlib.contextmanager
def until_it_is_asked() -> Iterator[None]:
    """Leave out what a model raises before it is asked for a reply, as the reply then fails as well and says why.

    A model is anybody's code.
    """
    try:
        yield
    except (Exception, asyncio.CancelledError) as raised:
        if isinstance(raised, asyncio.CancelledError) and is_canceled():
            raise


def is_canceled() -> bool:
    """Whether this very task was canceled; else a cancellation comes from within what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Stopped:
    """A part of the present task that :meth:`stop` ends early and alone, as a timeout would.

    ``stop`` must be called from outside the task, while it waits.
    """

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "only a task can be stopped"
        self._task, self._cancels, self._stopped = task, task.cancelling(), False
        return self

    def stop(self) -> None:
        """End it."""
        if not self._stopped:
            self._stopped = True
            self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        # Canceled from elsewhere as well: that one goes on.
        return self._stopped and self._task.uncancel() <= self._cancels and kind is asyncio.CancelledError


class Watch:
    """Watches one task that is acted for here; ``known`` answers the task as its actor has it."""

    def __init__(self, service: TaskService, known: Callable[[], AgentTask]) -> None:
        self._service = service
        self._known = known
        self._task = known()
        self._changed = asyncio.Event()
        self._told = 0
        """The newest version that this was told of; 0: it looks by itself."""
        self._stops: list[Callable[[], object]] = []
        self.over = False
        """Whether the task was found to have ended."""

    @property
    def freeze(self) -> Freeze | None:
        """The freeze that holds for the task's person now; None: they are free."""
        return self._service.directory.present.frozen(self._task.user_id)

    @property
    def halted(self) -> bool:
        """Whether nothing of the task may begin: it is over, or its person is frozen."""
        return self.over or self.freeze is not None

    def stopping(self, stop: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
        """Call ``stop`` as soon as the task is halted, if that is while this is open."""
        return _Listed(self._stops, stop, now=self.halted)

    async def run(self) -> None:
        """Watch until the task is over or this is canceled."""
        unsubscribe = self._service.news.hear(self._task.task_id, self._hear)
        deaf = self._service.directory.listen(self._stop_if_halted)
        try:
            while self._task.phase is not Phase.ENDED:
                await self._wait()
                # Items that came while the store was away are read when it is back.
                await patiently(self._look, for_s=math.inf)
        finally:
            deaf()
            unsubscribe()
        self.over = True
        self._stop_if_halted()

    def _stop_if_halted(self) -> None:
        for stop in tuple(self._stops) if self.halted else ():
            stop()

    async def _look(self) -> None:
        self._task = await self._service.newer(max(self._task, self._known(), key=_version), self._told)
        if left_s(self._task, self._service.clock.now()) <= 0:
            await self._end()

    def _hear(self, hint: Mapping[str, Any]) -> None:
        if hint["version"] > self._known().version:
            self._told = max(self._told, hint["version"])
            self._changed.set()

    async def _wait(self) -> None:
        self._changed.clear()
        left = left_s(self._task, self._service.clock.now())
        try:
            async with asyncio.timeout(max(0.0, min(_POLL_S, left))):
                await self._changed.wait()
        except TimeoutError:
            # It may have missed a notification.
            self._told = 0

    async def _end(self) -> None:
        reached = out_of_time(self._task)
        if self._task.phase in ACTIVE_PHASES:
            drafts = [self._service.draft(fact, SYSTEM) for fact in ended_by(reached, self._task)]
            with contextlib.suppress(Conflict):
                self._task = await self._service.append(self._task, drafts)


def _version(task: AgentTask) -> int:
    return task.version
