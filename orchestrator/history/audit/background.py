"""Verifies while a server works: what changed, and in turn a part of the rest.

Theory. Each look goes on from the one before. It reads the tasks whose rows say that they changed since, the next tasks
by name, and what came to the system stream after the head that was verified last. So a look costs what changed and a
fixed part, however much there is, and after some looks each task was read again. The last signed checkpoint says where
to go on after a start. One node does it for all.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from pydantic import AwareDatetime

from orchestrator.core.audit.chain import SYSTEM_STREAM, Anchor, Fault, beside, fault_of, gone, verify_onward
from orchestrator.core.errors import JournalBroken, NewerSchema, OrchestratorError
from orchestrator.core.ports import StreamHead
from orchestrator.core.task.facts import TaskId
from orchestrator.core.values import Value
from orchestrator.history.audit.bulk import Bulk
from orchestrator.history.audit.checkpoint import LAST_NAME, Checkpoint, Checkpoints
from orchestrator.history.audit.heads_tree import AuditBroken
from orchestrator.history.audit.stream import PAGE, Books, Records, Stream

logger = logging.getLogger(__name__)

EVERY_S: Final = 300.0
IN_TURN: Final = 1000
"""Tasks that each look reads although nothing says that they changed."""
DUTY: Final = "verification"
_TURNS: Final = 3
_SLACK: Final = timedelta(minutes=5)
_AT_ONCE: Final = 20
_PAUSE_S: Final = 0.05
"""After each part, which is less work than that: tasks and pages go first."""
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


class Leadership(Protocol):
    """Which node does what only one is to do."""

    async def take(self, name: str, for_s: float) -> bool:
        """Whether this node does it now."""

    async def leave(self, name: str) -> None:
        """Let another node do it."""


class BackgroundState(Value):
    """What the verification in the background does, and what it found."""

    here: bool = False
    """Whether this node does it; false: another one, or it was not begun yet."""
    working: bool = False
    done: int = 0
    """Tasks that the present look has read, or the last one."""
    of: int = 0
    looked_at: AwareDatetime | None = None
    """When the last look ended that was not canceled."""
    since: AwareDatetime | None = None
    """The time from which on it looks for changes next."""
    round_began: AwareDatetime | None = None
    """When it began to read all tasks in turn, the last time."""
    round_read: int = 0
    """Tasks that were read in turn since."""
    rounds: int = 0
    """How often all were, since this node began."""
    faults: tuple[Fault, ...] = ()


@dataclass
class Background:
    """The verification of a server in the background."""

    store: Lookable
    checkpoints: Checkpoints
    duties: Leadership
    every_s: float = EVERY_S
    in_turn: int = IN_TURN
    state: BackgroundState = field(default_factory=BackgroundState)
    _first: str = ""
    """The name from which on the next tasks are read in turn."""
    _system: Anchor | None = None
    """The head of the system stream that was verified last."""
    _faults: dict[str, tuple[Fault, ...]] = field(default_factory=dict)
    _look: "asyncio.Task[None] | None" = None

    async def keep(self) -> None:
        """Look now and then, until canceled."""
        try:
            while True:
                await asyncio.sleep(self.every_s)
                await self.look()
        finally:
            self.cancel()
            with contextlib.suppress(OrchestratorError):
                await self.duties.leave(DUTY)

    async def look(self) -> BackgroundState:
        """Look once, or wait for the look that goes on; a look that is canceled is no error."""
        await asyncio.wait((self.begin(),))
        return self.state

    def begin(self) -> "asyncio.Task[None]":
        """Begin to look, unless a look goes on."""
        if self._look is None:
            self._look = asyncio.create_task(self._looked())
            self._look.add_done_callback(self._over)
        return self._look

    def cancel(self) -> bool:
        """End the present look; the next one reads the same again. False: there is none."""
        return self._look is not None and self._look.cancel()

    def alerts(self) -> list[str]:
        """What was found, for people."""
        count = len(self.state.faults)
        if not count:
            return []
        things = "1 thing is" if count == 1 else f"{count} things are"
        return [f"The audit found that {things} not as written. `audit background` names them; run `audit verify`."]

    def _over(self, look: "asyncio.Task[None]") -> None:
        self._look = None
        self._say(working=False)
        if not look.cancelled() and (error := look.exception()) is not None:
            if not isinstance(error, OrchestratorError):
                raise error
            logger.error("the verification in the background: %s", error)

    def _say(self, **news: Any) -> None:
        self.state = self.state.model_copy(update=news)

    async def _looked(self) -> None:
        if not await self.duties.take(DUTY, _TURNS * self.every_s):
            self._first, self._system, self._faults = "", None, {}
            self.state = BackgroundState()
            return
        now = self.store.clock.now()
        self._say(here=True, working=True, done=0, of=0)
        if not self._first:
            # What a round found of the checkpoint holds until the next one is through.
            self._note("", ())
        await self._signed([])
        known = None if self._faults.get("") else await asyncio.to_thread(self.checkpoints.known)
        await self._system_stream()
        since = self.state.since or (now if known is None else known.at)
        changed = await self.store.heads_since(min(since, now) - _SLACK)
        part = await self.store.heads_from(self._first, self.in_turn)
        heads = {one.stream: (one.version, one.hash) for one in (*part, *changed)}
        await self._tasks(heads)
        whole = len(part) < self.in_turn
        last = LAST_NAME if whole else part[-1].stream
        await self._missing(known, self._first, last, heads)
        self._turned(part, now, whole=whole)
        self._say(looked_at=self.store.clock.now(), since=now)

    def _turned(self, part: Sequence[StreamHead], now: datetime, *, whole: bool) -> None:
        """Go on with the next ones next time."""
        begun = not self._first
        read = len(part) + (0 if begun else self.state.round_read)
        self._first = "" if whole else f"{part[-1].stream}\0"
        began = now if begun else self.state.round_began
        self._say(round_began=began, round_read=read, rounds=self.state.rounds + whole)

    async def _system_stream(self) -> None:
        """What came to it since the head that was verified last, or that the checkpoint signed."""
        anchor = self._system or (await self._signed([SYSTEM_STREAM])).get(SYSTEM_STREAM)
        if anchor is None:
            return
        found: tuple[Fault, ...] = ()
        try:
            items = await self.store.read(TaskId(SYSTEM_STREAM), anchor[0] - 1)
            if await asyncio.to_thread(verify_onward, items, anchor):
                self._system = (items[-1].version, items[-1].hash)
            else:
                why = "it is not the item that was verified last, and what was chained to it"
                found = (fault_of(SYSTEM_STREAM, anchor[0], "rewritten", why),)
        except NewerSchema:
            return
        except JournalBroken as error:
            found = (beside(SYSTEM_STREAM, "unreadable", error.message),)
        self._note(SYSTEM_STREAM, found)

    async def _tasks(self, heads: Mapping[str, Anchor]) -> None:
        names = sorted(name for name in heads if name != SYSTEM_STREAM)
        self._say(of=len(names))
        for start in range(0, len(names), _AT_ONCE):
            part = names[start : start + _AT_ONCE]
            anchors = await self._signed(part)
            with contextlib.closing(Bulk(self.store, run=0)) as bulk:
                small = [name for name in part if heads[name][0] <= PAGE]
                clean = await bulk.clean(small, anchors, Books().now(self.store.clock))
            for name in part:
                wrong = [] if name in clean else await self._by_itself(name, heads[name], anchors.get(name))
                self._note(name, wrong)
            self._say(done=start + len(part))
            await asyncio.sleep(_PAUSE_S)

    async def _by_itself(self, name: str, head: Anchor, anchor: Anchor | None) -> list[Fault]:
        found = await Stream(name, Books(), store=self.store, head=head).verified(anchor)
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
                self._note(name, [gone(name, anchor) for anchor in (await self._signed([name])).values()])

    async def _signed(self, names: Sequence[str]) -> dict[str, Anchor]:
        """The heads of some streams in the last checkpoint; none of one that cannot be believed, which is noted."""
        try:
            return await asyncio.to_thread(_anchors, self.checkpoints, names)
        except AuditBroken as error:
            self._note("", (Fault(stream="", version=0, what="forged", detail=error.message),))
            return {}

    async def _is_pruned(self, name: str) -> bool:
        return await self.store.kept_task(name) is None and await self.store.pruned_at(TaskId(name)) is not None

    def _note(self, name: str, found: Collection[Fault]) -> None:
        """What is wrong with a stream now; nothing takes back what was wrong before."""
        for fault in found:
            if fault not in self._faults.get(name, ()):
                logger.error("the audit found something that is not as written: %s", fault.detail)
        if found:
            self._faults[name] = tuple(found)
        elif self._faults.pop(name, None) is None:
            return
        self._say(faults=tuple(fault for one in self._faults.values() for fault in one))


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
