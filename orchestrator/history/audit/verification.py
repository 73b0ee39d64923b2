"""The verification of a store: every stream, the blobs that its items name, and the tables beside them.

Theory. The rows of the tables are read before the items and after them, because a node may be at work (see
:mod:`orchestrator.core.audit.tables`). The row of a task is read before its items, and they are compared with it as it
was then.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

from pydantic import AwareDatetime

from orchestrator.core.audit.chain import SYSTEM_STREAM, Anchor, Fault, HeadsDigest, beside, gone
from orchestrator.core.audit.tables import request_faults
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.system_facts import BackupRemoved, TaskPruned
from orchestrator.core.values import Value
from orchestrator.history.audit.bulk import Bulk
from orchestrator.history.audit.checkpoint import Checkpoint, Checkpoints, number
from orchestrator.history.audit.heads import Noted
from orchestrator.history.audit.heads_tree import AuditBroken
from orchestrator.history.audit.onward import IN_TURN, Lookable, Onward
from orchestrator.history.audit.stream import (
    PAGE,
    Books,
    Part,
    Records,
    Stream,
    anchor_of,
    parts_of,
    rows_of,
    streams_beside,
)
from orchestrator.history.audit.tables import Counted, faults_beside, looked, requests_known, rows_beside
from orchestrator.history.audit.verified import Line, Position, PositionFile, Renewal, Says, VerifiedNote, row_digest

# -- Verifying a store: every stream, what its items name, and the tables beside them

_TRIES: Final = 3
FULL_UP_TO: Final = 100_000
"""Items: they take some seconds, and so are read each time unless somebody says otherwise."""
_NO_HASHES: Final[Mapping[int, str]] = MappingProxyType({})
_NOTHING: Final[Noted] = MappingProxyType({})

Told = Callable[[int, int], None]
"""Hears how many streams are done, of how many."""


def _nobody(_done: int, _of: int) -> None:
    """Nobody waits."""


class Verification(Value):
    """What a verification found."""

    streams: int
    items: int
    heads_sha256: str
    """Over the heads of all streams: keep it elsewhere and compare it with a later one of the same moment.

    Empty: not all were read.
    """
    checkpoint_at: AwareDatetime | None = None
    """The time of the checkpoint that it was compared with; None: there was none."""
    full: bool = True
    """Whether every item and every blob was read."""
    rows: bool = True
    """Whether all rows were compared; False: only those of streams that were read."""
    read: int = 0
    """Streams that were read again."""
    noted: int = 0
    """Streams that were taken from the note of an earlier verification: an edit of their items shows only if it
    changed how many there are."""
    noted_at: AwareDatetime | None = None
    """When the last note was written."""
    faults: tuple[Fault, ...] = ()


async def verify_store(
    store: Lookable,
    checkpoints: Checkpoints | None = None,
    *,
    away: Noted = _NOTHING,
    told: Told = _nobody,
    full: bool | None = True,
    processes: int = 0,
) -> Verification:
    """Every stream against its chain, its row and the checkpoint, and the tables against the items.

    ``checkpoints`` None: this store has no directory for one. ``away``: hashes that left the host. ``told`` hears how
    many streams of how many are done. ``full`` True: every item and every blob is read. None: only if that takes
    seconds; else all rows are compared, and streams that are as they were verified last are not read. False: only what
    changed since the last verification that found nothing is looked at, if there was one. Where something was pruned
    meanwhile, it is done again. ``processes``: how many may work on a large store beside this one.
    """
    refused: list[Fault] = []
    if full is False and checkpoints is not None and not away:
        position = await asyncio.to_thread(_position, checkpoints, refused)
        if position is not None:
            return await _onward(store, checkpoints, position, told)
    for _ in range(_TRIES):
        versions = {row["stream"]: number(row["version"]) for row in await streams_beside(store)}
        if full is None:
            full = await _is_small(store, sum(versions.values()))
        began = store.clock.now()
        verifying = _Verifying(store, checkpoints, away, told, full=full or bool(away), processes=processes)
        verifying.faults += refused
        found = await verifying.done()
        if not found.faults or not await _removed_since(store, versions.get(SYSTEM_STREAM, 0)):
            break
    if checkpoints is not None and not away and set(found.faults) <= set(refused):
        position = Position(at=began, system=verifying.system, checkpoints=verifying.books.checkpoints)
        await asyncio.to_thread(PositionFile(checkpoints).write, position)
    return found


def goes_on(checkpoints: Checkpoints) -> bool:
    """Whether a verification of what changed has something to go on from. Reads a small file."""
    return _position(checkpoints, []) is not None


def _position(checkpoints: Checkpoints, faults: list[Fault]) -> Position | None:
    """Where to go on from; None: nothing says that."""
    try:
        return PositionFile(checkpoints).read()
    except AuditBroken as error:
        faults.append(Fault(stream="", version=0, what="forged", detail=error.message))
        return None


async def _onward(store: Lookable, checkpoints: Checkpoints, position: Position, told: Told) -> Verification:
    """What changed since a verification that found nothing. Where this finds something, the next one reads it again."""
    found: dict[str, Collection[Fault]] = {}
    onward = Onward(
        store, checkpoints, lambda name, faults: found.update({name: (*found.get(name, ()), *faults)}), told
    )
    strange = await store.strange()
    looked = await onward.look(position, IN_TURN)
    faults = [Fault(stream="", version=0, what="schema", detail=one) for one in strange]
    faults += [fault for one in found.values() for fault in dict.fromkeys(one)]
    again: list[Fault] = []
    checkpoint = await _last(checkpoints.known, again)
    if not again:
        recorded = await _recorded(store, onward.books, checkpoints)
        faults += await _unrecorded(recorded, checkpoints, checkpoint)
    if not faults:
        await asyncio.to_thread(PositionFile(checkpoints).write, looked.position)
    streams = looked.streams if checkpoint is None else max(looked.streams, len(checkpoint.streams))
    return Verification(
        streams=streams,
        items=onward.items,
        heads_sha256="",
        checkpoint_at=None if checkpoint is None else checkpoint.at,
        full=False,
        rows=False,
        read=looked.streams,
        noted=streams - looked.streams,
        noted_at=position.at,
        faults=tuple(faults),
    )


async def _is_small(store: Records, items: int) -> bool:
    """Whether the tasks and so many other items are read within seconds."""
    async for row in rows_of(store, "tasks"):
        items += number(row["version"])
        if items > FULL_UP_TO:
            return False
    return items <= FULL_UP_TO


async def _removed_since(store: Records, version: int) -> bool:
    """Whether anything was taken out on purpose after this version of the system stream."""
    try:
        told = await store.read(TaskId(SYSTEM_STREAM), version)
    except OrchestratorError:
        return False
    return any(isinstance(item.fact, TaskPruned | BackupRemoved) for item in told)


@dataclass(eq=False, repr=False)
class _Verifying:
    """One verification."""

    store: Records
    checkpoints: Checkpoints | None
    away: Noted
    told: Told
    full: bool
    processes: int = 0
    books: Books = field(default_factory=Books)
    faults: list[Fault] = field(default_factory=list)
    within: list[Fault] = field(default_factory=list)
    """The faults of single streams."""
    looked: list[Fault] = field(default_factory=list)
    """Those of streams that were taken for read and have more or fewer items than they should."""
    digest: HeadsDigest = field(default_factory=HeadsDigest)
    streams: int = 0
    noted: int = 0
    lost: dict[str, Anchor] = field(default_factory=dict)
    """Streams that the checkpoint has, and the store has not."""
    asked: frozenset[str] = frozenset()
    """Streams of which other tables say something."""
    system: Anchor | None = None
    """The head of the system stream up to which it was read."""
    there: set[str] = field(default_factory=set)
    """Those of them, and of those whose heads left the host, that the store has."""

    async def done(self) -> Verification:
        """What it finds."""
        renewal = await self._renewal()
        try:
            found = await self._done(renewal)
        except asyncio.CancelledError:
            asyncio.get_running_loop().run_in_executor(None, _end, renewal, self.store.clock.now(), False)
            raise
        except BaseException:
            renewal.close()
            raise
        await asyncio.to_thread(_end, renewal, self.store.clock.now(), True)
        return found

    async def _done(self, renewal: Renewal) -> Verification:
        store, books, faults = self.store, self.books, self.faults
        strange = await store.strange()
        faults += [Fault(stream="", version=0, what="schema", detail=one) for one in strange]
        # Tables of another shape cannot be asked for their columns.
        odd = [] if strange else await store.odd()
        faults += [Fault(stream="", version=0, what="damage", detail=one) for one in odd]
        checkpoint = None if self.checkpoints is None else await _last(self.checkpoints.read, faults)
        # First the rows, then the present streams: one of these streams says all that a row has then.
        before = await rows_beside(store, faults)
        known = await requests_known(store, faults)
        books.claimed = frozenset(str(row["task"]) for row in before["computers"].values() if row["task"] is not None)
        self.asked = books.claimed | before["pruned"].keys() | self.away.keys()
        beyond = await looked("items", self._streams(checkpoint, renewal))
        anchors = {} if checkpoint is None else checkpoint.streams
        away = (one for one in self.away if one not in self.there and one not in anchors)
        elsewhere = {one: max(self.away[one].items()) for one in away}
        for lost, witness in ((elsewhere, "heads that left the host have"), (self.lost, "the checkpoint has")):
            unexplained = [one for one in lost.items() if not books.pruned.explains(*one)]
            faults += [gone(stream, anchor, witness) for stream, anchor in unexplained]
        if self.checkpoints is not None:
            recorded = await _recorded(store, books, self.checkpoints)
            faults += await _unrecorded(recorded, self.checkpoints, checkpoint)
        faults += [*self.within, *self.looked, *beyond]
        if known > books.requests:
            detail = f"The table knows {known} requests, and the items raise {books.requests}: items were taken out."
            faults.append(beside("", "request", detail))
        for name in books.pruned.told.keys() - before["pruned"].keys():
            self.there |= {name} if await store.kept_task(name) is not None else set()
        faults += await faults_beside(store, before, books, self.there, blobs=self.full)
        earlier = renewal.earlier
        return Verification(
            streams=self.streams,
            items=books.items,
            heads_sha256=self.digest.value(),
            checkpoint_at=checkpoint.at if checkpoint is not None else None,
            full=self.full,
            read=self.streams - self.noted,
            noted=self.noted,
            noted_at=earlier.at if earlier is not None and self.noted else None,
            faults=tuple(faults),
        )

    async def _streams(self, checkpoint: Checkpoint | None, renewal: Renewal) -> list[Fault]:
        """Go through all streams by name, some at a time; the streams that have items and no row."""
        bulk, counted = Bulk(self.store, renewal.run, self.processes), Counted(self.store)
        of = await self._number() if checkpoint is None else len(checkpoint.streams)
        with contextlib.closing(bulk):
            async for part in parts_of(self.store, bulk.begin(of)):
                self.told(self.streams, max(of, self.streams + len(part.heads)))
                signed = {} if checkpoint is None else await asyncio.to_thread(checkpoint.part, part.first, part.last)
                lines = await self._part(part, signed, renewal, bulk, counted)
                await asyncio.to_thread(renewal.add, lines)
        self.told(self.streams, self.streams)
        return await counted.faults()

    async def _number(self) -> int:
        return sum([1 async for _ in rows_of(self.store, "tasks")])

    async def _part(
        self, part: Part, signed: Mapping[str, Anchor], renewal: Renewal, bulk: Bulk, counted: Counted
    ) -> dict[str, Line]:
        """Some streams; ``signed``: those that the checkpoint has of these. The lines to note."""
        earlier = await asyncio.to_thread(renewal.up_to, part.last)
        lines = {} if self.full or renewal.earlier is None else _unchanged(part, earlier, signed, renewal.earlier.again)
        self.digest.take(part.heads)
        self.streams += len(part.heads)
        self.noted += len(lines)
        self.lost.update({name: anchor for name, anchor in signed.items() if name not in part.heads})
        self.there |= self.asked & part.heads.keys()
        self.system = part.heads.get(SYSTEM_STREAM, self.system)
        requests = await asyncio.to_thread(self._take_noted, lines)
        table = await self.store.raised_by([one for raised in requests.values() for one in raised])
        for task_id, raised in requests.items():
            self.within += request_faults(raised, task_id, table)
        names = sorted(part.heads.keys() - lines.keys())
        small = [name for name in names if name in part.rows and part.heads[name][0] <= PAGE and name not in self.away]
        clean = await bulk.clean(small, signed, self.books.now(self.store.clock))
        # Whether these have more items than their heads say is not known yet.
        unread = {*lines, *clean}
        for name in names:
            if name in clean:
                self.books.take_noted(name, clean[name].says)
                lines[name] = clean[name].line
            elif (line := await self._stream(name, part.heads[name], signed.get(name), renewal.run)) is not None:
                lines[name] = line
        for name in await counted.differing(part.last, part.heads, unread):
            del lines[name]
            stream = Stream(name, Books(), store=self.store, head=part.heads[name])
            self.looked += await stream.verified(signed.get(name))
        return lines

    async def _stream(self, name: str, head: Anchor, anchor: Anchor | None, run: int) -> Line | None:
        """Read one stream by itself, and say what is wrong; the line to note, if it can be noted."""
        stream = Stream(name, self.books, store=self.store, head=head)
        wrong = await stream.verified(anchor, self.away.get(name, _NO_HASHES))
        self.within += wrong
        return None if wrong else stream.line(run)

    def _take_noted(self, same: Mapping[str, Line]) -> dict[str, list[str]]:
        """What was noted of streams, taken for read; the requests that they raised."""
        raised: dict[str, list[str]] = {}
        for name, line in same.items():
            says = Says.decoded(line.says)
            self.books.take_noted(name, says)
            if says.requests:
                raised[name] = says.requests
        return raised

    async def _renewal(self) -> Renewal:
        """The note of the verification before, and a new one; where it cannot be believed, all is read again."""
        if self.checkpoints is None or self.away:
            return Renewal()
        note, earlier = VerifiedNote(self.checkpoints), None
        try:
            earlier = await asyncio.to_thread(note.read)
        except AuditBroken as error:
            if not self.full:
                self.faults.append(Fault(stream="", version=0, what="forged", detail=error.message))
        return Renewal(earlier, note.write())


def _unchanged(
    part: Part, earlier: Mapping[str, Line], signed: Mapping[str, Anchor], again: Collection[str]
) -> dict[str, Line]:
    """The streams that are as they were noted, except for those whose turn it is to be read again."""
    return {
        name: line
        for name, line in earlier.items()
        if name not in again
        and (row := part.rows.get(name)) is not None
        and anchor_of(row) == line.head == part.heads[name] == signed.get(name, line.head)
        and row_digest(row) == line.row
    }


def _end(renewal: Renewal, now: datetime, whole: bool) -> None:
    """Keep the note, if anything can be signed."""
    with contextlib.closing(renewal), contextlib.suppress(AuditBroken, OSError):
        renewal.end(now, whole=whole)


# -- the checkpoint ----------------------------------------------------------------------


async def _last(read: Callable[[], Checkpoint | None], faults: list[Fault]) -> Checkpoint | None:
    try:
        return await asyncio.to_thread(read)
    except AuditBroken as error:
        faults.append(Fault(stream="", version=0, what="forged", detail=error.message))
        return None


async def _recorded(store: Records, books: Books, checkpoints: Checkpoints) -> str:
    """sha256 of the checkpoint that this directory should have; empty: none.

    Where several nodes share the store, each has its own, and one that never made any has none.
    """
    if not store.shared:
        return next(reversed(books.checkpoints.values()), "")
    try:
        key = await asyncio.to_thread(checkpoints.key_fingerprint)
    except AuditBroken:
        return ""  # Told already: nothing that it signed can be read.
    return books.checkpoints.get(key, "") if key else ""


async def _unrecorded(recorded: str, checkpoints: Checkpoints, checkpoint: Checkpoint | None) -> list[Fault]:
    """A fault where the file is not the checkpoint that the system stream says was made last.

    A crash after the file was written leaves one that follows the recorded one.
    """
    if not recorded or _follows(checkpoint, recorded):
        return []
    again: list[Fault] = []
    newer = await _last(checkpoints.known, again)
    if again or _follows(newer, recorded):
        return []  # A broken one is told already; and one was made while this was read.
    what = "is gone" if newer is None else "is not the one that was made last"
    detail = f"{checkpoints.path.name} {what}: it was deleted, or put back together with an older store."
    return [Fault(stream="", version=0, what="forged", detail=detail)]


def _follows(checkpoint: Checkpoint | None, recorded: str) -> bool:
    return checkpoint is not None and recorded in (checkpoint.sha256, checkpoint.previous)
