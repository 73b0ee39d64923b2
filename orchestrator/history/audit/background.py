"""Verifies while a server works: what changed, and in turn a part of the rest.

Theory. Each look goes on from the one before (:mod:`orchestrator.history.audit.onward`). A signed file says where to go
on after a start. One node does it for all. What it finds is an entry of the directory, with an item of the system
stream: each node knows it, a node that takes over and the next start as well.
"""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import AwareDatetime

from orchestrator.core.audit.chain import Fault
from orchestrator.core.errors import InvalidDecision, OrchestratorError
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.task.system_facts import DirectoryChanged, FindingValue, Found
from orchestrator.core.values import Value
from orchestrator.engine.tasks import TaskService
from orchestrator.history.audit.checkpoint import Checkpoints
from orchestrator.history.audit.heads_tree import AuditBroken
from orchestrator.history.audit.onward import IN_TURN, Onward
from orchestrator.history.audit.verified import BACKGROUND_NAME, Position, PositionFile

logger = logging.getLogger(__name__)

EVERY_S: Final = 300.0
DUTY: Final = "verification"
SUBJECT: Final = "verification"
"""The subject of the bus that asks the node that does it."""
CHECKPOINT: Final = "*"
"""The name of a finding that belongs to no stream."""
_TURNS: Final = 3
_MOST: Final = 100
"""Streams of which the store keeps what was found; the log has it of all."""
_EACH: Final = 5
"""Faults of one stream that are kept."""
_PAUSE_S: Final = 0.05
"""After each part, which is less work than that: tasks and pages go first."""


class BackgroundState(Value):
    """What the verification in the background does, and what it found."""

    here: bool = False
    """Whether this node does it; false: another one, or it was not begun yet."""
    node: str = ""
    """The node that does it, where that is another one; of that only what it found is known here."""
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

    service: TaskService
    checkpoints: Checkpoints
    every_s: float = EVERY_S
    in_turn: int = IN_TURN
    _state: BackgroundState = field(default_factory=BackgroundState)
    _position: Position | None = None
    """How far it is; None: it goes on from where it was before the start, or from the last checkpoint."""
    _faults: dict[str, tuple[Fault, ...]] = field(default_factory=dict)
    _look: "asyncio.Task[None] | None" = None

    @property
    def state(self) -> BackgroundState:
        """What it does; what was found is known on each node."""
        faults = self._faults if self._state.here else found_of(self.service.directory.findings)
        return self._state.model_copy(update={"faults": tuple(fault for one in faults.values() for fault in one)})

    async def keep(self) -> None:
        """Look now and then, until canceled."""
        end = self.service.bus.subscribe(SUBJECT, self._heard)
        try:
            while True:
                await asyncio.sleep(self.every_s)
                await self.look()
        finally:
            end()
            self.cancel()
            with contextlib.suppress(OrchestratorError):
                await self.service.duties.leave(DUTY)

    async def wanted(self) -> BackgroundState:
        """Have it look now, on whichever node does it."""
        if await self._is_mine():
            self.begin()
        else:
            self.service.bus.publish(SUBJECT, {"do": "look"})
        return await self.told()

    async def unwanted(self) -> BackgroundState:
        """End the present look, on whichever node does it. Raises InvalidDecision where none goes on."""
        if not self.cancel():
            if await self._is_mine():
                raise InvalidDecision("No look goes on here.", remedy="`cc-orchestrator audit background` begins one.")
            self.service.bus.publish(SUBJECT, {"do": "cancel"})
        return await self.told()

    async def told(self) -> BackgroundState:
        """The state, and which node does it."""
        if self._state.here or not self.service.store.shared:
            return self.state
        rows = await self.service.store.kept_rows("duties")
        holder = next((str(row["holder"]) for row in rows if row["name"] == DUTY), "")
        return self.state.model_copy(update={"node": holder})

    def _heard(self, told: Mapping[str, Any]) -> None:
        """What somebody asked of another node."""
        if self._state.here and told.get("do") == "look":
            self.begin()
        elif self._state.here and told.get("do") == "cancel":
            self.cancel()

    async def _is_mine(self) -> bool:
        return await self.service.duties.take(DUTY, _TURNS * self.every_s)

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
        self._state = self._state.model_copy(update=news)

    async def _looked(self) -> None:
        if not await self._is_mine():
            self._position, self._state = None, BackgroundState()
            return
        now = self.service.clock.now()
        if not self._state.here:
            # What a node found before holds until its stream is read again.
            await self.service.directory.load()
            self._faults = found_of(self.service.directory.findings)
            self._position = await asyncio.to_thread(self._read_position)
        self._say(here=True, working=True, done=0, of=0)
        if self._position is None or not self._position.first:
            # What a round found of the checkpoint holds until the next one is through.
            self._note("", ())
        onward = Onward(self.service.store, self.checkpoints, self._note, self._told, pause_s=_PAUSE_S)
        looked = await onward.look(self._position, self.in_turn, tuple(self._faults))
        begun = self._position is None or not self._position.first
        self._position = looked.position
        self._say(
            round_began=now if begun else self.state.round_began,
            round_read=looked.in_turn + (0 if begun else self.state.round_read),
            rounds=self.state.rounds + (not looked.position.first),
            looked_at=self.service.clock.now(),
            since=looked.position.at,
        )
        if await self._write_down():
            await asyncio.to_thread(self._file.write, looked.position)

    @property
    def _file(self) -> PositionFile:
        return PositionFile(self.checkpoints, BACKGROUND_NAME)

    def _read_position(self) -> Position | None:
        """Where this node came to before it was started."""
        try:
            return self._file.read()
        except AuditBroken as error:
            logger.error("the verification in the background begins anew: %s", error)  # noqa: TRY400 - it explains itself
            return None

    async def _write_down(self) -> bool:
        """Keep what is found now in the store, so that each node and the next start know it; whether that was done."""
        keeper = self.service.directory
        known = keeper.findings
        new = {name or CHECKPOINT: _finding(faults) for name, faults in self._faults.items()}
        room = _MOST - len(known)
        for name in sorted({*known, *new}):
            value = new.get(name)
            if value == known.get(name) or (name not in known and room <= 0):
                continue
            room -= name not in known
            fact = DirectoryChanged(about="finding", name=name, value=value)
            note = self.service.draft(fact, SYSTEM)
            try:
                await keeper.set(note, self.service.bus, expected=keeper.number_of(fact.entry))
            except OrchestratorError as error:
                logger.error("what the audit found is known until this node stops: %s", error)  # noqa: TRY400 - it explains itself
                return False
        return True

    def _told(self, done: int, of: int) -> None:
        self._say(done=done, of=of)

    def _note(self, name: str, found: Collection[Fault]) -> None:
        """What is wrong with a stream now; nothing takes back what was wrong before."""
        for fault in found:
            if fault not in self._faults.get(name, ()):
                logger.error("the audit found something that is not as written: %s", fault.detail)
        if found:
            self._faults[name] = tuple(found)
        else:
            self._faults.pop(name, None)


def _finding(faults: Sequence[Fault]) -> FindingValue:
    told = [Found(**one.model_dump()) for one in faults[:_EACH]]
    return FindingValue(found=tuple(told), more=len(faults) - len(told))


def found_of(findings: Mapping[str, FindingValue]) -> dict[str, tuple[Fault, ...]]:
    """The faults that were written down, by stream; empty: the checkpoint."""
    return {
        "" if name == CHECKPOINT else name: tuple(Fault.model_validate(one.model_dump()) for one in value.found)
        for name, value in findings.items()
    }
