"""Verifying a store: every stream, what its items name, and the tables beside them, a page at a time.

Theory. Nothing is held whole. A stream is read in pages; of each item only what the chain, the fold and
the books need stays, and the fold forgets its finished steps. The rows of the tables are read before
the items and after them, because a node may be at work (see :mod:`orchestrator.core.audit_tables`). The
row of a task is read before its items, and they are held against it as it was then.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from pydantic import AwareDatetime

from orchestrator.audit.checkpoint import AuditBroken, Checkpoint, Checkpoints, Journals, heads_of
from orchestrator.core import facts
from orchestrator.core.audit import SYSTEM_STREAM, Anchor, Fault, StreamCheck, beside, gone, heads_digest
from orchestrator.core.audit_kept import Named, blobs_named, files_listed, read_written
from orchestrator.core.audit_removed import BackupBook, PruneBook
from orchestrator.core.audit_sign_ins import SignInBook
from orchestrator.core.audit_tables import (
    ComputerBook,
    GrantBook,
    Rows,
    TokenBook,
    request_faults,
    task_row_faults,
)
from orchestrator.core.errors import InvalidDecision, OrchestratorError
from orchestrator.core.facts import TaskId
from orchestrator.core.fold import evolve
from orchestrator.core.items import AgentTaskItem
from orchestrator.core.system_facts import BackupRemoved, CheckpointMade, ComputerBackedUp, TaskPruned
from orchestrator.core.task import AgentTask, changed
from orchestrator.core.values import Value
from orchestrator.ports import KeptItem, KeptRecords, KeptRow, KeptTable

_TRIES: Final = 3
PAGE: Final = 500
"""Items that are in memory at once: a megabyte or two, and a few milliseconds of work between two turns of the loop."""


class Records(Journals, KeptRecords, Protocol):
    """Of a store, what a verification reads."""

    async def get_blob(self, sha256: str) -> bytes:
        """The content of a blob. Raises NotFound."""


class Verification(Value):
    """What a verification found."""

    streams: int
    items: int
    heads_sha256: str
    """Over the heads of all streams: keep it elsewhere and compare it with a later one of the same moment."""
    checkpoint_at: AwareDatetime | None = None
    """Of the checkpoint that it was compared with; None: there was none."""
    faults: tuple[Fault, ...] = ()


@dataclass
class _Books:
    """What all streams together say of the tables."""

    grants: GrantBook = field(default_factory=GrantBook)
    tokens: TokenBook = field(default_factory=TokenBook)
    computers: ComputerBook = field(default_factory=ComputerBook)
    pruned: PruneBook = field(default_factory=PruneBook)
    backups: BackupBook = field(default_factory=BackupBook)
    sign_ins: SignInBook = field(default_factory=SignInBook)
    requests: int = 0
    items: int = 0
    oldest: datetime | None = None
    """When the first task came in."""
    checkpoint: str = ""
    """sha256 of the checkpoint that was made last; empty: none is recorded."""

    def take(self, item: AgentTaskItem) -> None:
        for book in (self.grants, self.tokens, self.computers, self.pruned, self.backups, self.sign_ins):
            book.take(item)
        fact = item.fact
        if isinstance(fact, CheckpointMade):
            self.checkpoint = fact.sha256
        elif isinstance(fact, TaskPruned) and (self.oldest is None or fact.created_at < self.oldest):
            self.oldest = fact.created_at
        elif isinstance(fact, facts.TaskSubmitted) and (self.oldest is None or item.at < self.oldest):
            self.oldest = item.at
        elif isinstance(fact, facts.ReviewRequested):
            self.requests += 1


async def verify_store(store: Records, checkpoints: Checkpoints | None = None) -> Verification:
    """Every stream against its chain, its row and the checkpoint, and the tables against the items.

    ``checkpoints`` None: this store has no directory for one. Where something was pruned meanwhile, it is done again.
    """
    for _ in range(_TRIES):
        version, _ = (await heads_of(store)).get(SYSTEM_STREAM, (0, ""))
        found = await _verified(store, checkpoints)
        if not found.faults or not await _removed_since(store, version):
            break
    return found


async def _removed_since(store: Records, version: int) -> bool:
    """Whether anything was taken out on purpose after this version of the system stream."""
    try:
        told = await store.read(TaskId(SYSTEM_STREAM), version)
    except OrchestratorError:
        return False
    return any(isinstance(item.fact, TaskPruned | BackupRemoved) for item in told)


async def _verified(store: Records, checkpoints: Checkpoints | None) -> Verification:
    faults: list[Fault] = []
    checkpoint = await _last(checkpoints, faults)
    # First the rows, then the streams that there are: what a row has then, one of these streams says.
    before = await _tables(store, faults)
    known = await _requests_known(store, faults)
    heads = await heads_of(store)
    anchors = checkpoint.streams if checkpoint is not None else {}
    books = _Books()
    within: list[Fault] = []
    for stream in sorted(heads):
        within += await _Stream(store, stream, heads[stream], books).verified(anchors.get(stream))
    missing = {stream: anchor for stream, anchor in anchors.items() if stream not in heads}
    faults += [gone(stream, anchor) for stream, anchor in missing.items() if not books.pruned.explains(stream, anchor)]
    faults += within
    if checkpoints is not None:
        faults += await _unrecorded(books.checkpoint, checkpoints, checkpoint)
    faults += await _told("items", _unlisted(store, heads))
    if known > books.requests:
        detail = f"The table knows {known} requests, and the items raise {books.requests}: items were taken out."
        faults.append(beside("", "request", detail))
    faults += await _beside(store, before, books, heads)
    return Verification(
        streams=len(heads),
        items=books.items,
        heads_sha256=heads_digest(heads),
        checkpoint_at=checkpoint.at if checkpoint is not None else None,
        faults=tuple(faults),
    )


# -- one stream --------------------------------------------------------------------------


@dataclass
class _Stream:
    """One stream, page by page."""

    store: Records
    name: str
    head: Anchor
    books: _Books
    task: AgentTask | None = None
    """The fold so far; None: nothing was folded, or no more can be."""
    folds: bool = True
    named: dict[str, tuple[Named, int]] = field(default_factory=dict)
    """What this page's items name, and where."""
    requests: list[str] = field(default_factory=list)
    """What this page's items raised."""

    async def verified(self, anchor: Anchor | None) -> list[Fault]:
        """What is wrong with it."""
        check = StreamCheck(self.name, anchor)
        try:
            row = await self.store.kept_task(self.name)
            if row is not None:
                self.head = _anchor_of(row)
            async for page in self._pages():
                await asyncio.to_thread(self._take, page, check)
                await self._look_up(check)
        except OrchestratorError as error:
            return [*check.faults, beside(self.name, "unreadable", f"{self.name} cannot be read: {error.message}")]
        found = check.end(self.head)
        if row is not None and self.task is not None and not found:
            found += task_row_faults(row, self.task)
        return found

    async def _pages(self) -> AsyncIterator[list[KeptItem]]:
        """Its items up to its head; a task that is at work may grow meanwhile."""
        after = 0
        while page := await self.store.kept_items(self.name, after, PAGE):
            last = page[-1].version
            if last <= after:
                yield [one for one in page if one.version > after]
                raise OrchestratorError("The version of a row is no number.")
            after = last
            if after > self.head[0] and await self._grew():
                yield [one for one in page if one.version <= self.head[0]]
                return
            yield page

    async def _grew(self) -> bool:
        """Whether the head is newer than it was: only then are items after it no fault."""
        row = await self.store.kept_task(self.name)
        newer = _anchor_of(row) if row is not None else (await heads_of(self.store)).get(self.name, self.head)
        return newer != self.head

    def _take(self, page: Sequence[KeptItem], check: StreamCheck) -> None:
        for kept in page:
            self.books.items += 1
            written = read_written(kept.data)
            item = written.item
            if item is None:
                self.folds, self.task = False, None
                check.skip(kept.version, written.why)
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
        for named in blobs_named(self.task, item):
            # Of two that name the same lines, the one counts that says more of what has to be there.
            if named.is_directory or named.sha256 not in self.named:
                self.named[named.sha256] = named, item.version
        if isinstance(item.fact, facts.ReviewRequested):
            self.requests.append(item.fact.request_id)
        before = self.task or AgentTask(task_id=item.task_id)
        # A gap is told by the chain, and what is no task begins with something else.
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
        # What its finished steps came to says nothing of what may follow.
        self.task = changed(task, turns=())

    async def _look_up(self, check: StreamCheck) -> None:
        """Whether what this page names is there."""
        named, self.named = self.named, {}
        sizes = await self.store.blob_sizes(list(named))
        for sha256, (one, version) in named.items():
            size = sizes.get(sha256)
            if size is None:
                check.fault(version, "blob", f"{one.what} is not in the store, where it was kept as {sha256}")
            elif one.size not in (None, size):
                check.fault(version, "blob", f"{one.what}, kept as {sha256}, has {size} bytes and had {one.size}")
            elif one.is_directory:
                await self._look_into(sha256, one, version, check)
        if self.requests:
            check.faults += request_faults(self.requests, self.name, await self.store.raised_by(self.requests))
            self.requests = []

    async def _look_into(self, sha256: str, directory: Named, version: int, check: StreamCheck) -> None:
        files = set(files_listed(await self.store.get_blob(sha256)))
        if directory.but and await self.store.blob_sizes([directory.but]):
            files -= set(files_listed(await self.store.get_blob(directory.but)))
        there = await self.store.blob_sizes(sorted(files))
        for one in sorted(files):
            if one not in there:
                check.fault(
                    version, "blob", f"a file of {directory.what} is not in the store, where it was kept as {one}"
                )


def _anchor_of(row: KeptRow) -> Anchor:
    version, digest = row["version"], row["head_hash"]
    return (version if isinstance(version, int) else -1, str(digest))


# -- beside the items --------------------------------------------------------------------

_BEFORE_AND_AFTER: Final[tuple[KeptTable, ...]] = ("grants", "tokens", "computers", "backups", "pruned", "sign_ins")


async def _tables(store: Records, faults: list[Fault]) -> Mapping[KeptTable, Rows]:
    """The rows of the tables that follow from the items of all streams."""
    found: dict[KeptTable, Rows] = {}
    for table in _BEFORE_AND_AFTER:
        try:
            found[table] = {str(next(iter(row.values()))): row async for row in _rows(store, table)}
        except OrchestratorError as error:
            faults.append(_unreadable(table, error))
            found[table] = {}
    return found


async def _requests_known(store: Records, faults: list[Fault]) -> int:
    """How many requests the table has."""
    try:
        return sum([1 async for _ in _rows(store, "requests")])
    except OrchestratorError as error:
        faults.append(_unreadable("requests", error))
        return 0


async def _told(table: str, looking: Awaitable[list[Fault]]) -> list[Fault]:
    """What a look at a table finds, or that it cannot be read."""
    try:
        return await looking
    except OrchestratorError as error:
        return [_unreadable(table, error)]


def _unreadable(table: str, error: OrchestratorError) -> Fault:
    return beside("", "unreadable", f"The table {table} cannot be read: {error.message}")


async def _rows(store: Records, table: KeptTable) -> AsyncIterator[KeptRow]:
    after: str | None = None
    while page := await store.kept_rows(table, after, PAGE):
        for row in page:
            yield row
        last = str(next(iter(page[-1].values())))
        if after is not None and last <= after:
            return
        after = last


async def _beside(
    store: Records, before: Mapping[KeptTable, Rows], books: _Books, streams: Collection[str]
) -> list[Fault]:
    found: list[Fault] = []
    after = await _tables(store, [])
    found += books.grants.faults(before["grants"], after["grants"])
    found += books.tokens.faults(before["tokens"], after["tokens"], oldest=books.oldest)
    found += books.sign_ins.faults(before["sign_ins"], after["sign_ins"])
    found += books.computers.faults(after["computers"])
    found += books.pruned.faults(before["pruned"], after["pruned"], streams)
    found += books.backups.faults(before["backups"], after["backups"])
    found += await _told("blobs", _backed_up(store, books.backups))
    return [*found, *await _told("blobs", _blobs(store))]


async def _backed_up(store: Records, backups: BackupBook) -> list[Fault]:
    """Backups of which some bytes are not in the store."""
    found: list[Fault] = []
    for name, item in backups.kept.items():
        assert isinstance(item.fact, ComputerBackedUp), "the book takes no other"
        needed = [item.fact.listing]
        if await store.blob_sizes(needed):
            needed += files_listed(await store.get_blob(item.fact.listing))
        missing = len(set(needed)) - len(await store.blob_sizes(needed))
        if missing:
            found.append(beside("", "blob", f"{missing} of the blobs of the backup {name} are not in the store."))
    return found


async def _unlisted(store: Records, heads: Mapping[str, Anchor]) -> list[Fault]:
    """Streams that have items, and no row that knows of them."""
    found = [name async for row in _rows(store, "items") if (name := str(row["task_id"])) not in heads]
    if found:
        newer = await heads_of(store)
        found = [name for name in found if name not in newer]
    return [
        beside(name, "row", f"{name} has items, and no row: it is in no list, and nobody goes on with it.")
        for name in found
    ]


async def _blobs(store: Records) -> list[Fault]:
    """Blobs whose bytes are not those that they are named after."""
    found: list[Fault] = []
    after: str | None = None
    while page := await store.kept_blobs(after):
        found += [
            beside("", "blob", f"The bytes that are kept as {one.name} were changed: their sha256 is {one.sha256}.")
            for one in page
            if one.name != one.sha256
        ]
        after = page[-1].name
    return found


# -- the checkpoint ----------------------------------------------------------------------


async def _last(checkpoints: Checkpoints | None, faults: list[Fault]) -> Checkpoint | None:
    if checkpoints is None:
        return None
    try:
        return await asyncio.to_thread(checkpoints.read)
    except AuditBroken as error:
        faults.append(Fault(stream="", version=0, what="forged", detail=error.message))
        return None


async def _unrecorded(recorded: str, checkpoints: Checkpoints, checkpoint: Checkpoint | None) -> list[Fault]:
    """A fault where the file is not the checkpoint that the system stream says was made last.

    A crash after the file was written leaves one that follows the recorded one.
    """
    if not recorded or _follows(checkpoint, recorded):
        return []
    again: list[Fault] = []
    newer = await _last(checkpoints, again)
    if again or _follows(newer, recorded):
        return []  # A broken one is told already; and one was made while this was read.
    what = "is gone" if newer is None else "is not the one that was made last"
    detail = f"{checkpoints.path.name} {what}: it was deleted, or put back together with an older store."
    return [Fault(stream="", version=0, what="forged", detail=detail)]


def _follows(checkpoint: Checkpoint | None, recorded: str) -> bool:
    return checkpoint is not None and recorded in (checkpoint.sha256, checkpoint.previous)
