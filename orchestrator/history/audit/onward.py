"""A look at a store that goes on from an earlier one, and costs what changed and a fixed part.

Theory. A row says when its task changed last, and an index has that order. So a look reads the tasks that changed
since the one before, the next tasks by name, and what came to the system stream after the head that was verified last.
However much there is, after some looks each task was read again. A change of a row that leaves its time alone is found
in its turn only; nothing that costs what changed can tell more of a database that somebody else wrote.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from orchestrator.core.audit.chain import SYSTEM_STREAM, Anchor, Fault, beside, fault_of, gone, verify_onward
from orchestrator.core.errors import JournalBroken, NewerSchema
from orchestrator.core.ports import StreamHead
from orchestrator.core.task.facts import TaskId
from orchestrator.history.audit.bulk import Bulk
from orchestrator.history.audit.checkpoint import LAST_NAME, Checkpoint, Checkpoints
from orchestrator.history.audit.heads_tree import AuditBroken
from orchestrator.history.audit.stream import PAGE, Books, Records, Stream, anchor_of
from orchestrator.history.audit.verified import Position

IN_TURN: Final = 1000
"""Tasks that each look reads although nothing says that they changed."""
_SLACK: Final = timedelta(minutes=5)
"""How far the clocks of nodes may be apart."""
_AT_ONCE: Final = 20
_TRIES: Final = 3
_BETWEEN_S: Final = 1.0


class Lookable(Records, Protocol):
    """The part of a store that a look reads."""

    async def heads_since(self, at: datetime) -> list[StreamHead]:
        """The port's."""

    async def heads_from(self, name: str, limit: int = 500) -> list[StreamHead]:
        """The port's."""

    async def pruned_at(self, task_id: TaskId) -> datetime | None:
        """The port's."""


class Looked(NamedTuple):
    """What a look read."""

    position: Position
    """Where the next one goes on."""
    in_turn: int
    """Tasks that were read although nothing says that they changed."""
    streams: int


@dataclass(eq=False, repr=False)
class Onward:
    """One look."""

    store: Lookable
    checkpoints: Checkpoints
    note: Callable[[str, Collection[Fault]], None]
    """Hears what is wrong with each stream that was read, also that nothing is; of no stream: the checkpoint."""
    told: Callable[[int, int], None]
    """Hears how many tasks of how many are read."""
    pause_s: float = 0.0
    """After each part, so that tasks and pages go first."""
    books: Books = field(default_factory=Books)
    """What the new items of the system stream say."""
    items: int = 0

    async def look(self, position: Position | None, in_turn: int, also: Collection[str] = ()) -> Looked:
        """Look once. ``position`` None: go on from the last checkpoint.

        ``in_turn``: so many tasks are read by name, and those of ``also`` that are there.
        """
        now = self.store.clock.now()
        known = await self._known()
        self.books.checkpoints.update({} if position is None else position.checkpoints)
        system = await self._system_stream(None if position is None else position.system)
        first = "" if position is None else position.first
        since = position.at if position is not None else now if known is None else known.at
        changed = await self.store.heads_since(min(since, now) - _SLACK)
        part = await self.store.heads_from(first, in_turn)
        heads = {one.stream: (one.version, one.hash) for one in (*part, *changed)}
        for name in also:
            row = await self.store.kept_task(name)
            heads |= {} if row is None else {name: anchor_of(row)}
        await self._tasks(heads)
        last = LAST_NAME if len(part) < in_turn else part[-1].stream
        await self._missing(known, first, last, heads)
        goes_on = "" if last == LAST_NAME else f"{last}\0"
        then = Position(at=now, first=goes_on, system=system, checkpoints=self.books.checkpoints)
        return Looked(then, len(part), len(heads))

    async def _system_stream(self, verified: Anchor | None) -> Anchor | None:
        """What came to it since the head that was verified last, or that the checkpoint signed; its head."""
        signed = (await self._signed([SYSTEM_STREAM])).get(SYSTEM_STREAM)
        anchor = verified or signed
        if anchor is None:
            return None
        found: tuple[Fault, ...] = ()
        try:
            items = await self.store.read(TaskId(SYSTEM_STREAM), anchor[0] - 1)
            heads = {(item.version, item.hash) for item in items}
            holds = signed is None or signed[0] < anchor[0] or signed in heads
            if holds and await asyncio.to_thread(verify_onward, items, anchor):
                verified = (items[-1].version, items[-1].hash)
                self.items += len(items) - 1
                for item in items:
                    self.books.take(item)
            else:
                why = "it is not the item that was verified last, and what was chained to it"
                found = (fault_of(SYSTEM_STREAM, anchor[0], "rewritten", why),)
        except NewerSchema:
            return verified
        except JournalBroken as error:
            found = (beside(SYSTEM_STREAM, "unreadable", error.message),)
        self.note(SYSTEM_STREAM, found)
        return verified

    async def _tasks(self, heads: Mapping[str, Anchor]) -> None:
        names = sorted(name for name in heads if name != SYSTEM_STREAM)
        self.told(0, len(names))
        for start in range(0, len(names), _AT_ONCE):
            part = names[start : start + _AT_ONCE]
            anchors = await self._signed(part)
            with contextlib.closing(Bulk(self.store, run=0)) as bulk:
                small = [name for name in part if heads[name][0] <= PAGE]
                clean = await bulk.clean(small, anchors, Books().now(self.store.clock))
            self.items += sum(one.says.items for one in clean.values())
            for name in part:
                wrong = [] if name in clean else await self._by_itself(name, heads[name], anchors.get(name))
                self.note(name, wrong)
            self.told(start + len(part), len(names))
            await asyncio.sleep(self.pause_s)

    async def _by_itself(self, name: str, head: Anchor, anchor: Anchor | None) -> list[Fault]:
        stream = Stream(name, Books(), store=self.store, head=head)
        found = await stream.verified(anchor)
        self.items += stream.books.items
        # A newer version's items are no fault, and a task may have been pruned meanwhile.
        found = [one for one in found if one.what != "newer"]
        return [] if found and await self._is_pruned(name) else found

    async def _missing(self, known: Checkpoint | None, first: str, last: str, there: Mapping[str, Anchor]) -> None:
        """Tasks of the checkpoint that are neither in the store nor noted as pruned."""
        if known is None:
            return
        absent = set(await asyncio.to_thread(known.between, first, last)) - there.keys()
        for name in sorted(absent):
            if await self.store.kept_task(name) is None and not await self._is_pruned(name):
                self.note(name, [gone(name, anchor) for anchor in (await self._signed([name])).values()])

    async def _known(self) -> Checkpoint | None:
        """The last checkpoint; None: there is none that can be believed."""
        try:
            return await asyncio.to_thread(_known, self.checkpoints)
        except AuditBroken as error:
            self._forged(error)
            return None

    async def _signed(self, names: Sequence[str]) -> dict[str, Anchor]:
        """The heads of some streams in the last checkpoint; none of one that cannot be believed, which is noted."""
        try:
            return await asyncio.to_thread(_anchors, self.checkpoints, names)
        except AuditBroken as error:
            self._forged(error)
            return {}

    def _forged(self, error: AuditBroken) -> None:
        self.note("", (Fault(stream="", version=0, what="forged", detail=error.message),))

    async def _is_pruned(self, name: str) -> bool:
        return await self.store.kept_task(name) is None and await self.store.pruned_at(TaskId(name)) is not None


def _known(checkpoints: Checkpoints) -> Checkpoint | None:
    _anchors(checkpoints, ())
    return checkpoints.known()


def _anchors(checkpoints: Checkpoints, names: Sequence[str]) -> dict[str, Anchor]:
    """The heads of some streams in the last checkpoint. Raises AuditBroken."""
    for left in reversed(range(_TRIES)):
        try:
            known = checkpoints.known()
            found = {} if known is None else {name: known.streams.get(name) for name in names}
            return {name: anchor for name, anchor in found.items() if anchor is not None}
        except AuditBroken:
            # The next checkpoint may be made just now.
            if not left:
                raise
            time.sleep(_BETWEEN_S)
    raise AssertionError("the last try returned or raised")
