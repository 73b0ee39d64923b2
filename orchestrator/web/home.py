"""The endpoints of the first view: what the newest tasks did when, and figures over time."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final, Literal

from starlette.requests import Request

from orchestrator.core.errors import InvalidDecision, InvalidRequest, JournalBroken, NewerSchema
from orchestrator.core.ports import Store, TaskRow
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.task.timeline import Timeline
from orchestrator.engine.task_status import Proofs
from orchestrator.web.answers.tasks import SegmentAnswer, TaskTimeline, Timelines, TrendBucket, Trends
from orchestrator.web.base import Room
from orchestrator.web.bodies import read_number, task_id_of
from orchestrator.web.errors import redacted

MOST_TASKS: Final = 200
"""Tasks that the figures are of, the last that changed: the first look at them reads that many journals."""
MOST_ITEMS: Final = 5000
"""Items of a task whose journal is still read for this."""
_KEPT: Final = 2 * MOST_TASKS
_UNTIL: Final[Mapping[str, tuple[timedelta, int]]] = {
    "hour": (timedelta(hours=1), 24),
    "day": (timedelta(days=1), 30),
}
"""The length of a bucket, and how many there are."""
Outcome = Literal["completed", "unverified", "failed", "canceled"]
_OUTCOMES: Final[Mapping[TaskStatus, Outcome]] = {
    TaskStatus.COMPLETED: "completed",
    TaskStatus.FAILED: "failed",
    TaskStatus.CANCELED: "canceled",
}


@dataclass
class Times:
    """The timelines of tasks: only the items that came since the last look are read."""

    store: Store
    _known: dict[TaskId, Timeline] = field(default_factory=dict)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def of(self, task_id: TaskId, version: int) -> Timeline | None:
        """The timeline of a task up to this version; None: its journal is too long for it, or cannot be read here."""
        async with self._reading:
            known = self._known.pop(task_id, None) or Timeline(AgentTask(task_id))
            if known.ended_at is None and known.task.version < version:
                if version > MOST_ITEMS:
                    return None
                try:
                    await asyncio.to_thread(known.take, await self.store.read(task_id, known.task.version))
                except (NewerSchema, JournalBroken, InvalidDecision):
                    return None
            # The last that was looked at is the last that goes.
            self._known[task_id] = known
            if len(self._known) > _KEPT:
                del self._known[next(iter(self._known))]
            return known


class HomeEndpoints(Room):
    """``/v1/timeline``, ``/v1/tasks/{id}/timeline`` and ``/v1/trends``."""

    times: Times
    proofs: Proofs

    async def timeline(self, request: Request) -> Timelines:
        """``GET /v1/timeline``: what the tasks did that changed last."""
        users = self.authorizer.visible_users(await self.who(request, agents=True))
        limit = int(read_number(request, "limit", 20, 1, 50))
        since = timedelta(hours=read_number(request, "hours", 24.0, 0.1, 720))
        now = self.service.clock.now()
        newest = await self.service.store.last_changed(limit, users=users)
        rows = [one for one in newest if one.updated_at >= now - since]
        found = [(row, await self.times.of(row.task_id, row.version)) for row in rows]
        shown = [await self._row(row, times) for row, times in found if times is not None]
        return await redacted(Timelines(now=now, tasks=shown, left_out=len(rows) - len(shown)))

    async def task_timeline(self, request: Request) -> TaskTimeline:
        """``GET /v1/tasks/{id}/timeline``: what one task did."""
        await self.who(request, agents=True)
        task = await self.service.load(task_id_of(request))
        times = await self.times.of(task.task_id, task.version)
        if times is None:
            raise InvalidRequest(
                f"Task {task.task_id} has too many items for a timeline.", remedy="Its page shows its last steps."
            )
        return await redacted(_told(task, times, unverified=task.ended is not None and task.ended.verified is False))

    async def trends(self, request: Request) -> Trends:
        """``GET /v1/trends``: how the tasks ended, what they took, hour by hour or day by day."""
        users = self.authorizer.visible_users(await self.who(request, agents=True))
        by = request.query_params.get("by", "hour")
        if by not in _UNTIL:
            raise InvalidRequest(f"There are no figures by {by[:40]!r}.", remedy=f"One of {', '.join(_UNTIL)}.")
        each, count = _UNTIL[by]
        now = self.service.clock.now()
        begins = [_begin_of(now, by) - each * back for back in reversed(range(count))]
        newest = await self.service.store.last_changed(MOST_TASKS, users=users)
        rows = [one for one in newest if one.updated_at >= begins[0]]
        figures = Figures(begins, each)
        for row in rows:
            times = await self.times.of(row.task_id, row.version)
            if times is not None:
                figures.add(times, await self._outcome(row))
        whole = len(rows) < MOST_TASKS
        return Trends(
            now=now,
            by="hour" if by == "hour" else "day",
            tasks=len(rows),
            most=MOST_TASKS,
            since=begins[0] if whole else rows[-1].updated_at,
            buckets=figures.buckets(),
        )

    async def _row(self, row: TaskRow, times: Timeline) -> TaskTimeline:
        return _told(row, times, unverified=await self._outcome(row) == "unverified")

    async def _outcome(self, row: TaskRow) -> Outcome | None:
        """How a task ended; None: it is not over."""
        outcome = _OUTCOMES.get(row.status)
        return "unverified" if outcome == "completed" and await self.proofs.missing(row) else outcome


def _told(task: TaskRow | AgentTask, times: Timeline, *, unverified: bool) -> TaskTimeline:
    return TaskTimeline.made_from(
        task,
        status_reason="unverified" if unverified else "",
        ended_at=times.ended_at,
        doing=times.doing,
        tool=times.tool,
        segments=[SegmentAnswer.made_from(one) for one in times.segments],
    )


def _begin_of(now: datetime, by: str) -> datetime:
    """The begin of the present bucket; a day is one of UTC."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    return hour if by == "hour" else hour.replace(hour=0)


class Figures:
    """What came in each bucket; what came before the first is left out."""

    def __init__(self, begins: Sequence[datetime], each: timedelta) -> None:
        self._begins, self._each = begins, each
        self._counts: list[dict[str, int]] = [defaultdict(int) for _ in begins]
        self._replies: list[list[float]] = [[] for _ in begins]
        self._decisions: list[list[float]] = [[] for _ in begins]

    def add(self, times: Timeline, outcome: Outcome | None) -> None:
        """Count one task."""
        if times.ended_at is not None and outcome is not None and (at := self._place(times.ended_at)) is not None:
            self._counts[at][outcome] += 1
        for reply in times.replies:
            if (at := self._place(reply.at)) is not None:
                self._replies[at].append(reply.seconds)
                self._counts[at]["tokens"] += reply.tokens
        for decided in times.decisions:
            if (at := self._place(decided.at)) is not None:
                self._decisions[at].append(decided.seconds)

    def _place(self, at: datetime) -> int | None:
        place = (at - self._begins[0]) // self._each
        return place if 0 <= place < len(self._begins) else None

    def buckets(self) -> list[TrendBucket]:
        """All of them, the oldest first."""
        places: Iterable[tuple[datetime, Any, list[float], list[float]]] = zip(
            self._begins, self._counts, self._replies, self._decisions, strict=True
        )
        return [
            TrendBucket(
                at=at,
                **counts,
                replies=len(replies),
                reply_s=_middle(replies),
                reply_most_s=max(replies, default=None),
                decisions=len(decisions),
                decision_s=_middle(decisions),
            )
            for at, counts, replies, decisions in places
        ]


def _middle(seconds: list[float]) -> float | None:
    return round(median(seconds), 3) if seconds else None
