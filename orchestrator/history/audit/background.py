"""Verifies while a server works: what changed, and in turn a part of the rest.

Theory. Each look goes on from the one before (:mod:`orchestrator.history.audit.onward`). The last signed checkpoint
says where to go on after a start. One node does it for all.
"""

import asyncio
import contextlib
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pydantic import AwareDatetime

from orchestrator.core.audit.chain import Fault
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.values import Value
from orchestrator.history.audit.checkpoint import Checkpoints
from orchestrator.history.audit.onward import IN_TURN, Lookable, Onward
from orchestrator.history.audit.verified import Position

logger = logging.getLogger(__name__)

EVERY_S: Final = 300.0
DUTY: Final = "verification"
_TURNS: Final = 3
_PAUSE_S: Final = 0.05
"""After each part, which is less work than that: tasks and pages go first."""


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
    _position: Position | None = None
    """How far it is; None: it goes on from the last checkpoint."""
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
            self._position, self._faults = None, {}
            self.state = BackgroundState()
            return
        now = self.store.clock.now()
        self._say(here=True, working=True, done=0, of=0)
        if self._position is None or not self._position.first:
            # What a round found of the checkpoint holds until the next one is through.
            self._note("", ())
        onward = Onward(self.store, self.checkpoints, self._note, self._told, pause_s=_PAUSE_S)
        looked = await onward.look(self._position, self.in_turn)
        begun = self._position is None or not self._position.first
        self._position = looked.position
        self._say(
            round_began=now if begun else self.state.round_began,
            round_read=looked.in_turn + (0 if begun else self.state.round_read),
            rounds=self.state.rounds + (not looked.position.first),
            looked_at=self.store.clock.now(),
            since=looked.position.at,
        )

    def _told(self, done: int, of: int) -> None:
        self._say(done=done, of=of)

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
