"""Keeps an eye on a task while its actor is busy: what a person cancels, or runs out of time, stops at once.

The actor itself looks at the journal only between two effects. The watch reads along beside it,
woken by the bus, and never changes what the actor has folded: the actor's own next append meets
a conflict and folds anew.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from orchestrator.core.errors import Conflict
from orchestrator.core.evidence.check_results import said_failing
from orchestrator.core.task import facts
from orchestrator.core.task.fold import fold
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.task.task import AgentTask
from orchestrator.core.task.task_states import ACTIVE_PHASES, Phase
from orchestrator.engine.tasks import TaskService, patiently

_POLL_S = 5.0
"""How long the bus is trusted: a lost hint costs at most this much."""


def left_s(task: AgentTask, now: datetime) -> float:
    """Seconds until the task's time is up, if it runs on from now; infinite without a limit."""
    return task.max_wall_s - task.active_until(now) if task.max_wall_s else math.inf


def out_of_time(task: AgentTask) -> facts.LimitReached:
    """The limit that a task without time left has reached."""
    return facts.LimitReached(
        limit="max_wall_s", detail=f"The limit of {task.max_wall_s:g} s was reached{_waited(task)}."
    )


def _waited(task: AgentTask) -> str:
    """What a task that ran out of time was at, where that is not plain."""
    waiting = sorted({one.call.computer for one in task.calls if one.call.computer is not None})
    if not waiting or task.open_runs:
        return ""
    return f" while it waited for computer {', '.join(waiting)}"


def ended_by(reached: facts.LimitReached, task: AgentTask) -> tuple[facts.LimitReached, facts.TaskEnded]:
    """A limit and the end that it means, with the checks that did not hold when success was claimed last."""
    failing = said_failing(task.checking.results)
    message = f"{reached.detail} When success was claimed last: {failing}" if failing else reached.detail
    return reached, facts.TaskEnded(status="Failed", status_reason=reached.limit, message=message)


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
        self._stops: list[Callable[[], object]] = []
        self.over = False
        """Whether the task was found to have ended."""

    @contextlib.contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call ``stop`` as soon as the task is over, if that is while this is open."""
        self._stops.append(stop)
        try:
            if self.over:
                stop()
            yield
        finally:
            self._stops.remove(stop)

    async def run(self) -> None:
        """Watch until the task is over or this is canceled."""
        unsubscribe = self._service.bus.subscribe(f"task.{self._task.task_id}", self._hear)
        try:
            while self._task.phase is not Phase.ENDED:
                await self._wait()
                # What came while the store was away is read when it is back.
                await patiently(self._look, for_s=math.inf)
        finally:
            unsubscribe()
        self.over = True
        for stop in tuple(self._stops):
            stop()

    async def _look(self) -> None:
        self._task = await newest(self._service, max(self._task, self._known(), key=_version))
        if left_s(self._task, self._service.clock.now()) <= 0:
            await self._end()

    def _hear(self, hint: Mapping[str, Any]) -> None:
        if hint["version"] > self._known().version:
            self._changed.set()

    async def _wait(self) -> None:
        self._changed.clear()
        left = left_s(self._task, self._service.clock.now())
        try:
            async with asyncio.timeout(max(0.0, min(_POLL_S, left))):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _end(self) -> None:
        reached = out_of_time(self._task)
        if self._task.phase in ACTIVE_PHASES:
            drafts = [self._service.draft(fact, SYSTEM) for fact in ended_by(reached, self._task)]
            with contextlib.suppress(Conflict):
                self._task = await self._service.append(self._task, drafts)


async def newest(service: TaskService, task: AgentTask) -> AgentTask:
    """The task with what was appended since."""
    return fold(await service.store.read(task.task_id, task.version), task)


def _version(task: AgentTask) -> int:
    return task.version
