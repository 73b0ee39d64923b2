"""One stream of a store, page by page: its chain, its fold, and the blobs that its items name.

Nothing is held whole: of each item only what the chain, the fold and the books need stays, and the fold forgets its
finished steps.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from orchestrator.core.audit.chain import (
    Anchor,
    Fault,
    Named,
    StreamCheck,
    beside,
    blobs_named,
    files_listed,
    read_written,
)
from orchestrator.core.audit.computers import ComputerBook, Work, work_of
from orchestrator.core.audit.queue import queue_faults
from orchestrator.core.audit.retention import BackupBook, PruneBook
from orchestrator.core.audit.shared import AgreedBook, DirectoryBook, PolicyBook, SignInBook, Since
from orchestrator.core.audit.tables import GrantBook, TokenBook, request_faults, task_row_faults
from orchestrator.core.errors import InvalidDecision, JournalBroken, NewerSchema, OrchestratorError
from orchestrator.core.ports import Clock, KeptItem, KeptRecords, KeptRow, KeptTable
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.fold import evolve
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import CheckpointMade
from orchestrator.core.task.task import AgentTask
from orchestrator.core.values import changed, from_us, immutable, to_us
from orchestrator.history.audit.checkpoint import LAST_NAME, Journals, heads_of
from orchestrator.history.audit.heads_tree import AuditBroken
from orchestrator.history.audit.verified import Line, Says, may_be_noted, row_digest

if TYPE_CHECKING:
    # A verification needs neither: they are imported where a task is checked, and where its story is told.
    from orchestrator.core.audit.check import Finding
    from orchestrator.core.audit.story import Story

# -- One stream of a store, page by page: its chain, its fold, and whether what its items name is there

PAGE: Final = 500
"""Items that are in memory at once: a megabyte or two, and a few milliseconds of work between two turns of the loop."""


class Records(Journals, KeptRecords, Protocol):
    """The part of a store that a verification reads."""

    @property
    def shared(self) -> bool:
        """Whether several nodes may have it open at once."""

    @property
    def clock(self) -> Clock:
        """The clock of leases."""

    async def get_blob(self, sha256: str) -> bytes:
        """The content of a blob. Raises NotFound."""


@dataclass(eq=False, repr=False)
class Books:
    """What all streams together say of the tables."""

    grants: GrantBook = field(default_factory=GrantBook)
    tokens: TokenBook = field(default_factory=TokenBook)
    computers: ComputerBook = field(default_factory=ComputerBook)
    pruned: PruneBook = field(default_factory=PruneBook)
    backups: BackupBook = field(default_factory=BackupBook)
    sign_ins: SignInBook = field(default_factory=SignInBook)
    policy: PolicyBook = field(default_factory=PolicyBook)
    agreed: AgreedBook = field(default_factory=AgreedBook)
    directory: DirectoryBook = field(default_factory=DirectoryBook)
    since: Since = field(default_factory=Since)
    claimed: frozenset[str] = frozenset()
    """The tasks that have claimed computers, by the table."""
    work: dict[str, Work] = field(default_factory=dict)
    """The work on these tasks, and on those with open calls."""
    requests: int = 0
    items: int = 0
    newest: datetime | None = None
    """The latest time of an item: a clock that was put back does not make honest rows late."""
    checkpoints: dict[str, str] = field(default_factory=dict)
    """sha256 of the checkpoint that was made last with each key, by its fingerprint; the newest stands last."""

    def now(self, clock: Clock) -> int:
        """The time by which nothing that is honest is later, in microseconds."""
        now = clock.now()
        return to_us(now if self.newest is None else max(now, self.newest))

    def take_noted(self, stream: str, says: Says) -> None:
        """What was noted of a stream, in place of its items."""
        self.items += says.items
        self.requests += len(says.requests)
        self.grants.given.update({grant.grant_id: grant for grant in says.grants})
        self.grants.used.update(says.uses)
        for computer, number in says.highest.items():
            if number > self.computers.highest.get(computer, (0, ""))[0]:
                self.computers.highest[computer] = number, stream
        newest = from_us(says.newest)
        self.newest = newest if self.newest is None else max(newest, self.newest)
        if says.work is not None:
            self.take_work(stream, says.work)

    def take_work(self, stream: str, work: Work) -> None:
        """The work on a task; that of one which has nothing open and claims nothing is like that of all others."""
        if work.open or stream in self.claimed:
            self.work[stream] = work

    def take(self, item: AgentTaskItem) -> None:
        """One more item, of any stream."""
        for book in (self.grants, self.tokens, self.computers, self.pruned, self.backups, self.sign_ins):
            book.take(item)
        for one in (self.policy, self.agreed, self.directory, self.since):
            one.take(item)
        if self.newest is None or item.at > self.newest:
            self.newest = item.at
        fact = item.fact
        if isinstance(fact, CheckpointMade):
            self.checkpoints.pop(fact.key, None)
            self.checkpoints[fact.key] = fact.sha256
        elif isinstance(fact, facts.ReviewRequested):
            self.requests += 1


@dataclass(eq=False, repr=False)
class Reading:
    """What the items of one stream say, item by item."""

    name: str
    books: Books
    task: AgentTask | None = None
    """The fold so far; None: nothing was folded, or no more can be."""
    folds: bool = True
    named: dict[str, tuple[Named, int]] = field(default_factory=dict)
    """What this page's items name, and where."""
    requests: list[str] = field(default_factory=list)
    """What this page's items raised."""
    says: Says = field(default_factory=Says)
    """What its items say of the tables."""

    def take(self, page: Sequence[KeptItem], check: StreamCheck) -> None:
        """Some more of its items."""
        for kept in page:
            self.books.items += 1
            written = read_written(kept.data)
            item = written.item
            if item is None:
                self.folds, self.task = False, None
                if written.newer is None:
                    check.skip(kept.version, written.why)
                else:
                    check.pass_by(kept.version, *written.newer)
                continue
            check.take(item, sound=written.sound)
            if written.sound and not written.canonical:
                check.fault(
                    item.version, "recoded", "its bytes are not the ones that were sealed, though they read alike"
                )
            if (item.version, item.item_id) != (kept.version, kept.item_id):
                check.fault(item.version, "misfiled", f"its row has it as version {kept.version}, {kept.item_id}")
            if item.task_id == self.name:
                self._follow(item, check)

    def _follow(self, item: AgentTaskItem, check: StreamCheck) -> None:
        """What the item says of other tables, and the task as it then is."""
        self.books.take(item)
        self.says.take(item)
        for named in blobs_named(self.task, item):
            # Where two name the same lines, the one counts that requires more of them.
            if named.is_directory or named.sha256 not in self.named:
                self.named[named.sha256] = named, item.version
        if isinstance(item.fact, facts.ReviewRequested):
            self.requests.append(item.fact.request_id)
        before = self.task or AgentTask(task_id=item.task_id)
        # A gap is told by the chain, and a stream that is not a task begins with another item.
        begins = item.version != 1 or item.fact.kind == "task_submitted"
        if not self.folds or item.version != before.version + 1 or not begins:
            self.folds, self.task = False, None
            return
        try:
            task = evolve(before, item)
        except (InvalidDecision, AssertionError, LookupError) as error:
            self.folds, self.task = False, None
            check.fault(item.version, "impossible", f"it cannot have followed: {error}".rstrip("."))
            return
        # The outcome of its finished steps says nothing about later ones.
        self.task = changed(task, turns=())

    def row_faults(self, row: KeptRow, task: AgentTask, now: int) -> list[Fault]:
        """Where its row is not what its items make it, once all were taken."""
        self.says.work = work_of(task, row)
        return [*task_row_faults(row, task), *queue_faults(row, task, now)]

    def line_of(self, row: KeptRow, run: int) -> Line | None:
        """The facts to note of it, now that nothing is wrong with it; None: it is read each time."""
        if self.says.work is None or not self.says.whole or not may_be_noted(self.name):
            return None
        return Line(anchor_of(row), row_digest(row), run, self.says.encoded())


@dataclass(eq=False, repr=False)
class Stream(Reading):
    """One stream of a store, page by page."""

    store: Records = field(kw_only=True)
    head: Anchor = field(kw_only=True)
    row: KeptRow | None = None
    """The row as it was before its items were read; None: it has none."""

    async def verified(self, anchor: Anchor | None, away: Mapping[int, str] = MappingProxyType({})) -> list[Fault]:
        """The faults of it; ``away``: the hashes that left the host, by their versions."""
        check = StreamCheck(self.name, anchor, away)
        try:
            row = self.row = await self.store.kept_task(self.name)
            if row is not None:
                self.head = anchor_of(row)
            async for page in self._pages():
                await asyncio.to_thread(self.take, page, check)
                await self._look_up(check)
        except OrchestratorError as error:
            return [*check.faults, beside(self.name, "unreadable", f"{self.name} cannot be read: {error.message}")]
        found = check.end(self.head)
        if row is not None and self.task is not None and not found:
            found += self.row_faults(row, self.task, self.books.now(self.store.clock))
            self.books.take_work(self.name, work_of(self.task, row))
        return found

    def line(self, run: int) -> Line | None:
        """The facts to note of it, now that nothing is wrong with it; None: it is read each time."""
        return None if self.row is None else self.line_of(self.row, run)

    async def _pages(self) -> AsyncIterator[list[KeptItem]]:
        """Its items up to its head; a task that is at work may grow meanwhile."""
        after = 0
        while page := await self.store.kept_items(self.name, after, PAGE):
            last = page[-1].version
            if last <= after:
                yield [one for one in page if one.version > after]
                raise OrchestratorError("The version of a row is not a number.")
            after = last
            if after > self.head[0] and await self._grew():
                yield [one for one in page if one.version <= self.head[0]]
                return
            yield page

    async def _grew(self) -> bool:
        """Whether the head is newer than it was: only then are items after it no fault."""
        row = await self.store.kept_task(self.name)
        newer = self.head if row is None else anchor_of(row)
        for one in await streams_beside(self.store) if row is None else ():
            newer = anchor_of(one) if one["stream"] == self.name else newer
        return newer != self.head

    async def _look_up(self, check: StreamCheck) -> None:
        """Whether the records that this page names are there."""
        named, self.named = self.named, {}
        sizes = await self.store.blob_sizes(list(named))
        for sha256, (one, version) in named.items():
            size = sizes.get(sha256)
            if size is None:
                check.fault(version, "blob", f"{one.what} is not in the store, where it was kept as {sha256}")
            elif one.size not in (None, size):
                check.fault(version, "blob", f"{one.what}, kept as {sha256}, has {size} bytes and had {one.size}")
            elif one.is_directory:
                await self.look_into(sha256, one, version, check)
        if self.requests:
            check.faults += request_faults(self.requests, self.name, await self.store.raised_by(self.requests))
            self.requests = []

    async def look_into(self, sha256: str, directory: Named, version: int, check: StreamCheck) -> None:
        """Whether the files of a directory are there."""
        files = set(files_listed(await self.store.get_blob(sha256)))
        if directory.but and await self.store.blob_sizes([directory.but]):
            files -= set(files_listed(await self.store.get_blob(directory.but)))
        there = await self.store.blob_sizes(sorted(files))
        for one in sorted(files):
            if one not in there:
                check.fault(
                    version, "blob", f"a file of {directory.what} is not in the store, where it was kept as {one}"
                )


def anchor_of(row: KeptRow) -> Anchor:
    """The head that a task's row has."""
    version, digest = row["version"], row["head_hash"]
    return (version if isinstance(version, int) else -1, str(digest))


async def rows_of(store: KeptRecords, table: KeptTable) -> AsyncIterator[KeptRow]:
    """The rows of a table, page by page."""
    after: str | None = None
    while page := await store.kept_rows(table, after, PAGE):
        for row in page:
            yield row
        last = str(next(iter(page[-1].values())))
        if after is not None and last <= after:
            return
        after = last


async def streams_beside(store: KeptRecords) -> list[KeptRow]:
    """The rows of the streams that are not tasks, which are few."""
    return [row async for row in rows_of(store, "streams")]


class Part(NamedTuple):
    """Some streams, by name: all that there are from one name to another."""

    first: str
    last: str
    heads: dict[str, Anchor]
    rows: dict[str, KeptRow]
    """Those of them that are tasks."""


async def parts_of(store: KeptRecords, at_once: int) -> AsyncIterator[Part]:
    """All streams, some at a time."""
    others = {str(row["stream"]): anchor_of(row) for row in await streams_beside(store)}
    first, after = "", ""
    while True:
        page = await store.kept_rows("tasks", after or None, at_once)
        rows = {str(row["task_id"]): row for row in page}
        heads = {name: anchor_of(row) for name, row in rows.items()}
        # SQLite sorts bytes behind each text: they would be on each page for ever.
        name = page[-1]["task_id"] if len(page) == at_once else None
        last = name if isinstance(name, str) and name > after else LAST_NAME
        yield Part(first, last, heads | {one: others[one] for one in others if first <= one <= last}, rows)
        if last == LAST_NAME:
            return
        first, after = f"{last}\0", last


# -- Checking and telling over a store: every stream read whole, one at a time -----------


@immutable
class Told:
    """A stream that was read."""

    stream: str
    items: list[AgentTaskItem]


async def streams_of(store: Journals, names: Sequence[str] | None = None) -> AsyncIterator[Told]:
    """Streams with all their items, by name; None: all. One at a time, so that a large store fits.

    Raises AuditBroken at one that cannot be read: leaving it out would be to say that nothing is there.
    """
    wanted = sorted(await heads_of(store)) if names is None else names
    for stream in wanted:
        try:
            items = await store.read(TaskId(stream))
        except (JournalBroken, NewerSchema) as error:
            raise broken(stream, error) from None
        yield Told(stream, items)


def broken(stream: str, error: OrchestratorError) -> AuditBroken:
    """The sentence about a stream that cannot be read."""
    return AuditBroken(
        f"{stream} cannot be read: {error.message}",
        remedy="`cc-orchestrator audit verify` says what is not as written; the others go by their names.",
    )


async def check_store(store: Journals, names: Sequence[str] | None = None) -> "list[Finding]":
    """The findings about streams (None: of all), with the approvals and the people of the whole store looked up.

    Where a task that nobody asked about cannot be read, its grants are not missed. Raises AuditBroken.
    """
    from orchestrator.core.audit.check import Standing, check, standing_of
    from orchestrator.core.audit.rights import RightsBook

    standing: Standing | None = Standing()
    book = RightsBook()
    rights: RightsBook | None = book
    try:
        async for told in streams_of(store):
            standing = standing_of(told.items, standing)
            for item in told.items:
                book.take(item)
    except AuditBroken:
        if names is None:
            raise
        standing = rights = None
    found: list[Finding] = []
    async for told in streams_of(store, names):
        found += await asyncio.to_thread(check, told.items, standing=standing, rights=rights)
    return found


async def stories_of(store: Journals, names: Sequence[str] | None = None, **wanted: str) -> "list[Story]":
    """As :func:`who_approved`, over streams; None: over all."""
    from orchestrator.core.audit.story import who_approved

    found: list[Story] = []
    async for told in streams_of(store, names):
        found += await asyncio.to_thread(who_approved, told.items, **wanted)
    return found


def as_written(item: AgentTaskItem) -> dict[str, Any]:
    """An item as JSON with the very fields that it was written with, so that its hash can be verified again."""
    value: dict[str, Any] = json.loads(item.model_dump_json(by_alias=True, exclude_unset=True))
    value["fact"]["kind"] = item.fact.kind
    return value
