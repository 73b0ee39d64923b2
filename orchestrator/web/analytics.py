"""The endpoint that tells how requests are decided: figures from the journals of the tasks that changed last."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Final

from starlette.requests import Request

from orchestrator.core.audit.analytics import Figures, Settled, figures, grouped, settled
from orchestrator.core.errors import JournalBroken, NewerSchema
from orchestrator.core.ports import Store, TaskRow
from orchestrator.core.task.facts import TaskId
from orchestrator.web.answers.history import Analytics, DecisionFigures
from orchestrator.web.base import Room
from orchestrator.web.bodies import read_number
from orchestrator.web.home import MOST_ITEMS, MOST_TASKS

_KEPT: Final = 2 * MOST_TASKS
_MOST_NAMES: Final = 100
"""Rules, tools or people that one answer names."""


@dataclass
class Settlements:
    """What people decided of tasks: a journal is read again only once it has grown."""

    store: Store
    _known: dict[TaskId, tuple[int, list[Settled]]] = field(default_factory=dict)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def of(self, row: TaskRow) -> list[Settled] | None:
        """Of a task up to this version; None: its journal is too long for it, or cannot be read here."""
        async with self._reading:
            version, found = self._known.pop(row.task_id, (0, []))
            if version < row.version:
                if row.version > MOST_ITEMS:
                    return None
                try:
                    found = await asyncio.to_thread(settled, await self.store.read(row.task_id))
                except (NewerSchema, JournalBroken):
                    return None
            # The last that was looked at is the last that goes.
            self._known[row.task_id] = row.version, found
            if len(self._known) > _KEPT:
                del self._known[next(iter(self._known))]
            return found


class AnalyticsEndpoints(Room):
    """``/v1/analytics``."""

    settlements: Settlements

    async def analytics(self, request: Request) -> Analytics:
        """``GET /v1/analytics``: time to decision, and how often, by rule, tool and person."""
        identity = await self.who(request)
        self.authorizer.must(identity, "audit")
        days = read_number(request, "days", 30.0, 0.01, 366)
        now = self.service.clock.now()
        since = now - timedelta(days=days)
        users = self.authorizer.visible_users(identity)
        newest = await self.service.store.last_changed(MOST_TASKS, users=users)
        rows = [one for one in newest if one.updated_at >= since]
        read = [await self.settlements.of(row) for row in rows]
        found = [one for task in read for one in task or () if one.at >= since]
        return Analytics(
            now=now,
            since=since if len(rows) < MOST_TASKS else max(since, rows[-1].updated_at),
            tasks=len(rows),
            most=MOST_TASKS,
            left_out=read.count(None),
            all=_told("", figures(found)),
            by_rule=_named(grouped(found, "rules")),
            by_tool=_named(grouped(found, "tool")),
            by_person=_named(grouped(found, "people")),
        )


def _named(groups: Mapping[str, Figures]) -> list[DecisionFigures]:
    return [_told(name, one) for name, one in list(groups.items())[:_MOST_NAMES]]


def _told(name: str, one: Figures) -> DecisionFigures:
    return DecisionFigures(name=name, **asdict(one))
