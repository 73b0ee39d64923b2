"""Retention: ended tasks go by age and by size, the oldest first, and then the blobs that nobody needs any more.

What never goes: a task that is queued, running or paused (promise S14), one that is pinned, one of which
something is still to be done or heard, as of a rehearsal what it came to, one in which a grant was
given that can still be used, and one that a task of the first two kinds refers to. The store checks all of that
except for the rehearsal in the transaction that removes the task, bound to the version that was read, so nothing
that happens meanwhile is missed.

How blobs go, and why none goes that somebody needs. A blob is often put before the record that names it is
written, and who finds it there does not put it again, but touches it. A run notes the time, lists the blobs
that are there, reads every record that there is (items, grants, backups) for the hashes that are in it, and
sweeps the blobs that no record names and that were *last touched more than GRACE before the noted time*, which
is checked in the sweeping transaction. Suppose that a record names a blob and was not read: then it was
written after the noted time. Its writer either touched the blob at most GRACE before it wrote, and so after the
line that the sweep draws; or it took the name from a record that was there before and was read, since
what a task takes over from another it refers to, and what it takes over from a backup is touched first. A backup,
which takes longest to make, is moreover only registered if all of its blobs are there.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from orchestrator.core.audit.retention import (
    Weighed,
    Weights,
    is_unfinished,
    listed_in,
    named_in,
    needed_by_note,
    pruned,
    referred,
    to_prune,
)
from orchestrator.core.errors import JournalBroken, NotFound, OrchestratorError
from orchestrator.core.ports import BlobMark, KeptRow, KeptTable, Store
from orchestrator.core.task.facts import TaskId, TaskSubmitted
from orchestrator.core.task.items import SYSTEM, Actor, decode_item
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.values import from_us
from orchestrator.engine.tasks import TaskService

logger = logging.getLogger(__name__)

GRACE: Final = timedelta(hours=1)
"""Between the touch of a blob and the record that names it lie seconds, or minutes where a computer is slow."""
FIRST_S: Final = 60.0
"""Seconds after the start, so that servers that run for an hour at a time prune, too."""
EVERY_S: Final = 3600.0
_SWEEP_EVERY: Final = timedelta(days=1)
_FURTHER: Final = 50
"""Where a store has more bytes than the settings let it have, one of so many more goes, so that it may grow again."""
_SLACK: Final = timedelta(minutes=5)
"""How far the clocks of nodes may be apart."""
_LAST_ID: Final = TaskId("\U0010ffff")
DUTY: Final = "pruning"
_BATCH: Final = 64
"""Blobs of one sweeping transaction: some megabytes that are given back to the disk."""
_OPEN: Final = frozenset({TaskStatus.QUEUED.value, TaskStatus.RUNNING.value, TaskStatus.PAUSED.value})
_NAMING: Final[tuple[KeptTable, ...]] = ("grants", "backups")
"""Tables beside the items whose rows name blobs."""


@dataclass(frozen=True)
class Rule:
    """What is kept; None: no limit."""

    days: float | None = None
    """Days since the last event of a task."""
    bytes: int | None = None
    """The bytes of all items and blobs."""

    def __bool__(self) -> bool:
        """Whether there is any limit."""
        return self.days is not None or self.bytes is not None

    def says(self, why: str) -> str:
        """Why a task went by it, for the note."""
        return f"older than {self.days:g} days" if why == "age" else f"down to {self.bytes} bytes"


@dataclass(frozen=True)
class PrunedTask:
    """A task that went, or would go."""

    task_id: TaskId
    why: str
    at: datetime
    """When something happened to it last."""


@dataclass(frozen=True)
class Outcome:
    """What went, or would go."""

    tasks: tuple[PrunedTask, ...]
    blobs: int
    bytes: int
    """The bytes of the items and blobs that were removed."""
    left: int
    """Bytes of those that stay."""


@dataclass
class Pruner:
    """Prunes a store, one run at a time."""

    service: TaskService
    rule: Rule = field(default_factory=Rule)
    """The rule of the settings."""
    first_s: float = FIRST_S
    every_s: float = EVERY_S
    _swept: datetime | None = None
    """When all was weighed last, or when that was put off first; None: neither since the start."""
    _grown: "_Grown | None" = None
    """What came since all was weighed; None: it was not since the start."""
    _running: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def keep(self) -> None:
        """Prune by the settings now and then, until canceled."""
        await asyncio.sleep(self.first_s)
        while True:
            try:
                await self.by_settings()
            except OrchestratorError as error:
                logger.error("nothing is pruned: %s", error)  # noqa: TRY400 - it explains itself
            await asyncio.sleep(self.every_s)

    async def by_settings(self) -> None:
        """Prune by the settings, if they set a limit; of several nodes one does.

        What is old is found by its time. All is weighed once a day, to sweep blobs, and when so much came that there
        may be too much.
        """
        if not self.rule or not await self.service.duties.take(DUTY, 2 * self.every_s):
            return
        now, went = self.service.clock.now(), 0
        if self.rule.days is not None:
            went = await self._by_age(self.rule, now - timedelta(days=self.rule.days))
        if went:
            logger.info("pruned %d tasks", went)
        if await self._may_wait(now, went):
            self._swept = self._swept or now
            return
        done = await self.prune(self.rule, SYSTEM, further=(self.rule.bytes or 0) // _FURTHER)
        self._swept = now
        if done.tasks or done.blobs:
            logger.info("pruned %d tasks and %d blobs, %d bytes", len(done.tasks), done.blobs, done.bytes)

    async def _may_wait(self, now: datetime, went: int) -> bool:
        """Whether not all has to be weighed; ``went``: tasks that just went by age."""
        if now - (self._swept or now) >= _SWEEP_EVERY or (went and self._swept is None):
            return False
        if self.rule.bytes is None:
            return True
        return self._grown is not None and await self._grown.bytes(now) <= self.rule.bytes

    async def _by_age(self, rule: Rule, until: datetime) -> int:
        """Remove the tasks that are too old, as far as the store lets each go; how many."""
        went = 0
        async with self._running:
            before = (until, _LAST_ID)
            while rows := await self.service.store.last_changed(_BATCH, before=before):
                for row in rows:
                    if row.status not in _OPEN and not row.pinned:
                        went += await self._prune(row.task_id, rule.says("age"), SYSTEM)
                before = (rows[-1].updated_at, rows[-1].task_id)
        return went

    async def prune(self, rule: Rule, by: Actor, *, dry_run: bool = False, further: int = 0) -> Outcome:
        """Remove what a rule lets go, and what nobody needs; ``dry_run``: only say it.

        ``further``: where there are too many bytes, so many more go.
        """
        async with self._running:
            now = self.service.clock.now()
            weighing = _Weighing(self.service)
            weights = await weighing.weights()
            until = None if rule.days is None else now - timedelta(days=rule.days)
            going = to_prune(weights, until=until, down_to=rule.bytes)
            if further and rule.bytes is not None and "size" in going.values():
                rule = replace(rule, bytes=rule.bytes - further)
            if not dry_run:
                going = await self._prune_all(weights, rule, until, by)
            needed, before = weights.needed(going), now - GRACE
            spare = [one for one in weighing.marks if one.sha256 not in needed and one.touched <= before]
            swept = {one.sha256: one.size for one in spare}
            if not dry_run:
                swept = await self._sweep(list(swept), before)
            gone = [one for one in weights.tasks if one.task_id in going]
            size = sum(one.size for one in gone) + sum(swept.values())
            tasks = (PrunedTask(one.task_id, rule.says(going[one.task_id]), one.at) for one in gone)
            if not dry_run:
                self._grown = _Grown(self.service.store, now, weights.bytes - size, weighing.versions)
            return Outcome(tuple(sorted(tasks, key=lambda one: one.at)), len(swept), size, weights.bytes - size)

    async def _prune_all(self, weights: Weights, rule: Rule, until: datetime | None, by: Actor) -> dict[TaskId, str]:
        """The tasks that went, and why; where one has to stay, the next may have to go for it."""
        done: dict[TaskId, str] = {}
        stays: set[TaskId] = set()
        while True:
            going = to_prune(weights.holding(stays), until=until, down_to=rule.bytes)
            left = {one: why for one, why in going.items() if one not in done}
            if not left:
                return done
            for task_id, why in left.items():
                if await self._prune(task_id, rule.says(why), by):
                    done[task_id] = why
                else:
                    stays.add(task_id)

    async def _prune(self, task_id: TaskId, why: str, by: Actor) -> bool:
        try:
            items = await self.service.store.read(task_id)
        except JournalBroken:
            return False
        if not items or is_unfinished(items):
            return False
        return await self.service.store.prune_task(self.service.draft(pruned(items, why), by))

    async def _sweep(self, names: list[str], before: datetime) -> dict[str, int]:
        swept: dict[str, int] = {}
        for start in range(0, len(names), _BATCH):
            swept |= await self.service.store.sweep_blobs(names[start : start + _BATCH], before)
        return swept


class _Weighing:
    """Reads all that a store keeps, a page at a time."""

    def __init__(self, service: TaskService) -> None:
        self._store = service.store
        self.marks: list[BlobMark] = []
        """All blobs, by name."""
        self._sizes: dict[str, int] = {}
        self._lists: set[str] = set()
        self._inside: dict[str, frozenset[str]] = {}
        self.versions: dict[str, int] = {}
        """Of the last items that were weighed of streams that are not tasks."""

    async def weights(self) -> Weights:
        """All of it; the blobs first, so that a blob that is put while the rest is read is not among them."""
        await self._blobs()
        rows = {str(row["task_id"]): row for row in await self._rows("tasks")}
        held = {one for name, row in rows.items() if _is_held(row) for one in await self._referred(name)}
        tasks: list[Weighed] = []
        others: set[str] = set()
        other_bytes = 0
        for head in await self._store.heads():
            row = rows.get(head.stream)
            size, names = await self._stream(head.stream, needed_by_note if row is None else named_in)
            if row is None:
                others |= names
                other_bytes += size
                self.versions[head.stream] = head.version
                continue
            may_go = not _is_held(row) and head.stream not in held
            at = from_us(int(row["updated_at"] or 0))
            tasks.append(Weighed(TaskId(head.stream), at, may_go, size, names))
        for table in _NAMING:
            others |= await self._needed(named_in(str(await self._rows(table)).encode()))
        return Weights(tuple(tasks), frozenset(others), other_bytes, self._sizes)

    async def _blobs(self) -> None:
        after: str | None = None
        while page := await self._store.list_blobs(after):
            self.marks += page
            after = page[-1].sha256
        self._sizes = {one.sha256: one.size for one in self.marks}
        self._lists = {one.sha256 for one in self.marks if one.lists}

    async def _rows(self, table: KeptTable) -> list[KeptRow]:
        rows: list[KeptRow] = []
        after: str | None = None
        while page := await self._store.kept_rows(table, after):
            rows += page
            after = str(next(iter(page[-1].values())))
        return rows

    async def _referred(self, task_id: str) -> frozenset[TaskId]:
        first = await self._store.kept_items(task_id, limit=1)
        fact = decode_item(first[0].data).fact if first else None
        return referred(fact) if isinstance(fact, TaskSubmitted) else frozenset()

    async def _stream(self, name: str, needs: Callable[[bytes], frozenset[str]]) -> tuple[int, frozenset[str]]:
        """The bytes of a stream's items, and the blobs that they need."""
        size, after, named = 0, 0, set[str]()
        while page := await self._store.kept_items(name, after):
            size += sum(len(one.data) for one in page)
            named.update(*(needs(one.data) for one in page))
            if page[-1].version <= after:
                raise OrchestratorError(
                    f"The items of {name} are not as they were written.", remedy="Run `cc-orchestrator audit verify`."
                )
            after = page[-1].version
        return size, await self._needed(named)

    async def _needed(self, names: Iterable[str]) -> frozenset[str]:
        """The names that are blobs, and the blobs that these name."""
        found: set[str] = set()
        left = [name for name in names if name in self._sizes]
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += [one for one in await self._listed(name) if one in self._sizes]
        return frozenset(found)

    async def _listed(self, name: str) -> frozenset[str]:
        if name not in self._lists:
            return frozenset()
        if name not in self._inside:
            try:
                self._inside[name] = listed_in(await self._store.get_blob(name))
            except NotFound:
                # It was taken away by hand; `audit verify` says so.
                self._inside[name] = frozenset()
        return self._inside[name]


@dataclass
class _Grown:
    """The bytes that a store may have since all of it was weighed, by what changed: never less than it has.

    A task that changed counts whole once more, and so does each blob that it names. A blob that nothing names yet does
    not count.
    """

    store: Store
    at: datetime
    """The time from which on changes are looked at."""
    left: int
    """The bytes that were left then."""
    versions: Mapping[str, int]
    """The items of streams that are not tasks up to which all was weighed."""
    _items: dict[str, int] = field(default_factory=dict)
    _blobs: dict[str, int] = field(default_factory=dict)

    async def bytes(self, now: datetime) -> int:
        """So many, at most."""
        for head in await self.store.heads_since(self.at - _SLACK):
            size, after, named = 0, self.versions.get(head.stream, 0), set[str]()
            while (page := await self.store.kept_items(head.stream, after)) and page[-1].version > after:
                size += sum(len(one.data) for one in page)
                named.update(*(named_in(one.data) for one in page))
                after = page[-1].version
            self._items[head.stream] = size
            await self._take(named)
        self.at = now
        return self.left + sum(self._items.values()) + sum(self._blobs.values())

    async def _take(self, named: Set[str]) -> None:
        while new := await self.store.blob_sizes(sorted(named - self._blobs.keys())):
            self._blobs.update(new)
            named = set[str]().union(*[listed_in(await self.store.get_blob(one)) for one in new])


def _is_held(row: Mapping[str, object]) -> bool:
    """Whether a task stays, and all that it refers to."""
    return row["status"] in _OPEN or bool(row["pinned"])
