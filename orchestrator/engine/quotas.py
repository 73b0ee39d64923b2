"""What people may use in a day, and in which turns: the policy's quotas, counted from the journal.

Theory. Nothing of it is kept in memory but what cannot change: the counts of tasks that are over. So a restart forgets
nothing, and all nodes count alike. A day is a day of UTC. A task that goes on over midnight counts on each day what it
used then. Tasks of a program count for its owner.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from orchestrator.core.approval.people import Directory
from orchestrator.core.errors import JournalBroken, NewerSchema, QuotaReached
from orchestrator.core.policy import Quota, Quotas
from orchestrator.core.ports import Clock, Store, TaskRow, Turns
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.fold import fold

_PAGE: Final = 200
_KEPT: Final = 5_000
"""Ended tasks whose counts are remembered."""


@dataclass(frozen=True)
class Used:
    """What somebody has used since the day began."""

    tasks: int = 0
    """Those that they submitted; what puts files back does not count."""
    tokens: int = 0
    minutes: float = 0.0
    """The time that counts against the limit of a task, too."""


@dataclass
class QuotaBook:
    """The quotas of an installation, and their use."""

    store: Store
    clock: Clock
    quotas: Callable[[], Quotas]
    """Those of the active policy. Raises PolicyUnusable."""
    directory: Callable[[], Directory]
    _over: dict[tuple[TaskId, datetime], Used] = field(default_factory=dict)
    """The counts of ended tasks, each of one day."""
    _submitting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _turns: tuple[Quotas, Directory, Turns] | None = None
    """The rule of turns that was made last, and what it was made of."""

    def of(self, user: str) -> Quota:
        """The quota of a person, or of a program by its owner."""
        directory = self.directory()
        return self.quotas().of(directory.groups_of(directory.person_of(user)))

    def counts_requests(self, user: str) -> bool:
        """Whether each request to the model has to be counted against a quota first."""
        # Before each request to the model; mostly there are no groups, so it is the quota of all.
        said = self.quotas()
        quota = self.of(user) if said.groups else said
        return quota.tokens is not None or quota.minutes is not None

    def turns(self, frozen: frozenset[str]) -> Turns:
        """The rule of turns for the queue. ``frozen``: the users who have none now."""
        said, directory = self.quotas(), self.directory()
        made = self._turns
        if made is None or made[0] is not said or made[1] is not directory:
            quotas = {user: self.of(user) for user in directory.people | directory.programs.keys()}
            weights = {user: one.weight for user, one in quotas.items() if one.weight is not None}
            at_once = {user: one.running for user, one in quotas.items() if one.running is not None}
            self._turns = made = said, directory, Turns(frozen, weights, at_once)
        return made[2]

    @asynccontextmanager
    async def room(self, user: str) -> AsyncIterator[None]:
        """Room for one more task, which the block writes. Raises QuotaReached.

        Of one node only one at a time counts and writes; several nodes at one moment may pass it by one each.
        """
        async with self._submitting if self.of(user).tasks is not None else nullcontext():
            await self._must_have_room(user)
            yield

    async def _must_have_room(self, user: str) -> None:
        """Raises QuotaReached where a person may submit nothing more today."""
        quota = self.of(user)
        if (quota.tasks, quota.tokens, quota.minutes) == (None, None, None):
            return
        used = await self.used(user)
        full = _full(quota, used)
        if not full and quota.tasks is not None and used.tasks >= quota.tasks:
            full = f"The quota of {quota.tasks} tasks a day is used up"
        if full:
            raise QuotaReached(f"{full}.", remedy=f"It is free again at {self._free_again()}.")

    async def why_no_request(self, user: str) -> str:
        """Why the model may not be asked for a person today, as a sentence; empty: it may."""
        if not self.counts_requests(user):
            return ""
        full = _full(self.of(user), await self.used(user))
        return f"{full}. It is free again at {self._free_again()}." if full else ""

    async def used(self, user: str) -> Used:
        """What a person and their programs have used today."""
        directory, now = self.directory(), self.clock.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        person = directory.person_of(user)
        users = {person, *(name for name, owner in directory.programs.items() if owner == person)}
        found: list[Used] = []
        before: tuple[datetime, TaskId] | None = None
        while True:
            rows = await self.store.last_changed(_PAGE, before=before, users=users)
            changed = [row for row in rows if row.updated_at >= midnight]
            found += [await self._spent(row, midnight, now) for row in changed]
            if len(changed) < _PAGE:
                break
            before = (rows[-1].updated_at, rows[-1].task_id)
        return Used(
            sum(one.tasks for one in found), sum(one.tokens for one in found), sum(one.minutes for one in found)
        )

    async def _spent(self, row: TaskRow, midnight: datetime, now: datetime) -> Used:
        """What one task has used today; nothing of one that this version cannot read."""
        known = self._over.get((row.task_id, midnight))
        if known is not None:
            return known
        try:
            items = await self.store.read(row.task_id)
        except (NewerSchema, JournalBroken):
            return Used()
        if not items:
            return Used()
        task = fold(items)
        earlier = [item for item in items if item.at < midnight]
        then = fold(earlier) if earlier else None
        tokens, seconds = task.tokens + task.uncounted, task.active_until(now)
        if then is not None:
            tokens, seconds = tokens - then.tokens - then.uncounted, seconds - then.active_until(midnight)
        used = Used(int(then is None and task.restores is None), tokens, seconds / 60)
        if task.ended is not None and not task.open_runs:
            self._over[row.task_id, midnight] = used
            if len(self._over) > _KEPT:
                del self._over[next(iter(self._over))]
        return used

    def _free_again(self) -> str:
        now = self.clock.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        hours, minutes = divmod(int((midnight - now).total_seconds()) // 60, 60)
        return f"00:00 UTC, in {hours} h {minutes} min"


def _full(quota: Quota, used: Used) -> str:
    """The quota of which nothing is left, as the begin of a sentence; empty: something is left of each."""
    if quota.tokens is not None and used.tokens >= quota.tokens:
        return f"The quota of {quota.tokens:,} tokens a day is used up: {used.tokens:,} were used"
    if quota.minutes is not None and used.minutes >= quota.minutes:
        return f"The quota of {quota.minutes} minutes a day is used up: {used.minutes:.0f} were used"
    return ""
