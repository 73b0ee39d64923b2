"""Pages of items over the streams of a store, by stream or the newest first; each begins where the last one ended.

Theory. A page costs what it shows and not what there is: streams come from an index, a piece at a time, and of each
only the items that may be shown. The place to go on from is an item, never a count, so that pages hold still while
items are added. Times within a stream rise with its versions, except for clocks that differ by less than ``SLACK``.
"""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol

from orchestrator.core.audit.wanted import Wanted
from orchestrator.core.errors import InvalidRequest, NewerSchema, NotFound
from orchestrator.core.ports import KeptItem, StreamHead, TaskRow
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, decode_item
from orchestrator.history.audit.checkpoint import number
from orchestrator.history.audit.stream import broken

SLACK: Final = timedelta(minutes=5)
_STREAMS: Final = 100
_ITEMS: Final = 500
"""Items that are read at once where not all of them may be meant."""
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_LOOKS: Final = 3


class Streams(Protocol):
    """The part of a store that a page reads."""

    async def heads_from(
        self, name: str, limit: int = 500, *, users: Collection[str] | None = None
    ) -> list[StreamHead]:
        """The port's."""

    async def heads_since(self, at: datetime) -> list[StreamHead]:
        """The port's."""

    async def last_changed(
        self,
        limit: int = 100,
        *,
        before: tuple[datetime, TaskId] | None = None,
        begun: datetime | None = None,
        users: Collection[str] | None = None,
    ) -> list[TaskRow]:
        """The port's."""

    async def kept_items(self, stream: str, after_version: int = 0, limit: int = 500) -> list[KeptItem]:
        """The port's."""


class Reach(NamedTuple):
    """Which streams somebody asks about."""

    stream: str | None = None
    """Only this one."""
    users: frozenset[str] | None = None
    """Only tasks of these users; None: everything."""


class Place(NamedTuple):
    """An item by its row."""

    stream: str
    version: int


class _Row(NamedTuple):
    """An item, and where it is among those of all streams."""

    at: datetime
    place: Place
    item: AgentTaskItem


class Page(NamedTuple):
    """Items, and the place to go on from; None: there is no more."""

    items: list[AgentTaskItem]
    next: Place | None


def _page(rows: list[_Row], limit: int) -> Page:
    return Page([row.item for row in rows[:limit]], rows[limit - 1].place if len(rows) > limit else None)


async def names_of(store: Streams, reach: Reach, first: str = "") -> AsyncIterator[str]:
    """The streams of a reach by name, from one on."""
    if reach.stream is not None:
        yield reach.stream
        return
    while page := await store.heads_from(first, _STREAMS, users=reach.users):
        for head in page:
            yield head.stream
        # The least name that is greater.
        first = f"{page[-1].stream}\0"


async def page_of(store: Streams, reach: Reach, wanted: Wanted, after: Place | None, limit: int) -> Page:
    """The next items after a place, stream by stream, each from its first. Raises AuditBroken."""
    found: list[_Row] = []
    async for stream in names_of(store, reach, "" if after is None else after.stream):
        version = after.version if after is not None and after.stream == stream else 0
        async for rows in _onward(store, stream, version, wanted, limit):
            found += rows
            if len(found) > limit:
                return _page(found, limit)
    return _page(found, limit)


async def _onward(store: Streams, stream: str, after: int, wanted: Wanted, limit: int) -> AsyncIterator[list[_Row]]:
    """The wanted items of a stream after a version, as it is read."""
    if wanted.request_id:
        # Items about a request may be anywhere.
        rows = [row async for part in _onward(store, stream, 0, Wanted(), _ITEMS) for row in part]
        yield [row for row in _meant(wanted, rows) if row.place.version > after]
        return
    most = limit + 1 if wanted == Wanted() else _ITEMS
    while kept := await store.kept_items(stream, after, most):
        yield _meant(wanted, _read(stream, kept))
        if kept[-1].version <= after:
            return
        after = kept[-1].version


def _read(stream: str, kept: list[KeptItem]) -> list[_Row]:
    try:
        items = [(one.version, decode_item(one.data)) for one in kept]
    except (InvalidRequest, NewerSchema) as error:
        raise broken(stream, error) from None
    return [_Row(item.at, Place(stream, version), item) for version, item in items]


def _meant(wanted: Wanted, rows: list[_Row]) -> list[_Row]:
    meant = {id(item) for item in wanted.of(row.item for row in rows)}
    return [row for row in rows if id(row.item) in meant]


# -- the newest first --------------------------------------------------------------------


@dataclass
class _Newest:
    """The newest rows so far."""

    store: Streams
    wanted: Wanted
    limit: int
    end: _Row | None
    """Only what is older; None: no such."""
    rows: list[_Row]
    seen: set[str]

    @property
    def floor(self) -> datetime | None:
        """Items that are older than this are on a later page; None: there is room."""
        return self.rows[self.limit].at if len(self.rows) > self.limit else self.wanted.since

    def is_over(self, at: datetime) -> bool:
        """Whether a stream that ended at this time has nothing for this page."""
        return self.floor is not None and at < self.floor

    async def take(self, head: StreamHead) -> None:
        """Look at one more stream."""
        self.seen.add(head.stream)
        async for rows in self._back(head):
            older = [row for row in rows if self.end is None or row[:2] < self.end[:2]]
            self.rows = sorted([*self.rows, *older], key=lambda row: row[:2], reverse=True)[: self.limit + 1]

    async def _back(self, head: StreamHead) -> AsyncIterator[list[_Row]]:
        """The wanted items of a stream, from its end on, as long as it may be for this page."""
        stream, found = head.stream, 0
        if self.wanted.request_id or number(head.version) < 0:
            async for rows in _onward(self.store, stream, 0, self.wanted, _ITEMS):
                yield rows
            return
        top = await self._top(head)
        most = self.limit + 1 if self.wanted == Wanted() else _ITEMS
        while top > 0:
            after = max(0, top - most)
            kept = await self.store.kept_items(stream, after, top - after)
            rows = _read(stream, [one for one in kept if one.version <= top])
            meant = _meant(self.wanted, rows)
            yield meant
            found += sum(self.end is None or row[:2] < self.end[:2] for row in meant)
            floor = self.floor
            if found > self.limit or (rows and floor is not None and rows[0].at < floor - SLACK):
                return
            top = after

    async def _top(self, head: StreamHead) -> int:
        """The version from which on nothing of a stream is old enough, found by halving."""
        if self.end is None or head.version <= _ITEMS:
            return head.version
        low, high, late = 0, head.version, self.end.at + SLACK
        while low < high:
            middle = (low + high) // 2
            kept = await self.store.kept_items(head.stream, middle, 1)
            if kept and _read(head.stream, kept)[0].at <= late:
                low = middle + 1
            else:
                high = middle
        return low


async def newest_of(store: Streams, reach: Reach, wanted: Wanted, after: Place | None, limit: int) -> Page:
    """The next items before a place, the newest of all streams first. Raises AuditBroken, NotFound."""
    newest = _Newest(store, wanted, limit, await _item_at(store, after), [], set())
    if reach.stream is not None:
        heads = await store.heads_from(reach.stream, 1)
        if heads and heads[0].stream == reach.stream:
            await newest.take(heads[0])
        return _page(newest.rows, limit)
    for head in await store.heads_since(_NEVER) if reach.users is None else ():
        await newest.take(head)
    until: tuple[datetime, TaskId] | None = None
    for _ in range(_LOOKS):
        # A stream that grew in between is before all others by now.
        first = await _take_tasks(newest, reach.users, until)
        if first is None or first == until:
            break
        until = first
    return _page(newest.rows, limit)


async def _take_tasks(
    newest: _Newest, users: Collection[str] | None, until: tuple[datetime, TaskId] | None
) -> tuple[datetime, TaskId] | None:
    """Look at tasks from the one that changed last on, down to ``until``; where that began."""
    begun = None if newest.end is None else newest.end.at
    first: tuple[datetime, TaskId] | None = None
    before: tuple[datetime, TaskId] | None = None
    while tasks := await newest.store.last_changed(_STREAMS, before=before, begun=begun, users=users):
        for row in tasks:
            place = (row.updated_at, row.task_id)
            first = first or place
            if newest.is_over(row.updated_at) or (until is not None and place <= until):
                return first
            if row.task_id not in newest.seen:
                await newest.take(StreamHead(row.task_id, row.version, ""))
        before = place
    return first


async def _item_at(store: Streams, place: Place | None) -> _Row | None:
    if place is None:
        return None
    kept = await store.kept_items(place.stream, place.version - 1, 1)
    if not kept or kept[0].version != place.version:
        raise NotFound("The place to go on from is gone.", remedy="Begin again, without after.")
    return _read(place.stream, kept)[0]
