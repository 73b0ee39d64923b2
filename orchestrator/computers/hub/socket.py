"""The hub's WebSocket with its traffic, and waits for a computer's events."""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from orchestrator.core.errors import CallLost
from orchestrator.core.ports.computers import OnOutput
from orchestrator.core.wire.wire import ComputerId

# -- A WebSocket as the hub needs it, and what went over all of them ---------------------


class Socket(Protocol):
    """One accepted WebSocket."""

    async def receive(self) -> bytes | str | None:
        """The next frame; None when the connection is over."""

    async def send(self, frame: bytes) -> None:
        """Write one frame. Raises OSError when the connection is over."""

    async def close(self, code: int, reason: str) -> None:
        """Close; closing twice is harmless."""


class DirectSocket(Socket, Protocol):
    """One whose frames come and go without a change of task."""

    def listen(self, hear: Callable[[bytes | str], None]) -> None:
        """Hand over each frame from now on; ``receive`` answers only when the connection is over."""

    def takes_more(self) -> bool:
        """Whether the other side keeps up; if it does not, ``send`` waits until it does."""

    def write(self, frames: Sequence[bytes]) -> None:
        """Write frames at once, in order. Raises OSError when the connection is over."""


@dataclass
class Traffic:
    """The bytes over all connections of a hub since it was made."""

    bytes_in: int = 0
    bytes_out: int = 0
    frames_in: int = 0
    frames_out: int = 0

    def came(self, frame: bytes | str) -> None:
        """A frame came; text, which nobody should send, counts by its characters."""
        self.frames_in += 1
        self.bytes_in += len(frame)

    def went(self, frames: Sequence[bytes]) -> None:
        """Frames were handed to a socket."""
        self.frames_out += len(frames)
        self.bytes_out += sum(map(len, frames))


# -- One timer for every deadline of a hub: a wait costs a place in a dictionary, not a timer of its own

RESOLUTION_S: Final = 0.25
"""Between two sweeps: deadlines here are seconds, and each sweep looks at everything that has one."""


class Timed(Protocol):
    """Something with a deadline."""

    due: float
    """A time of the loop's clock; infinite: never."""

    def overdue(self, now: float) -> None:
        """The deadline has come; sets the next one. Never raises."""


class Sweeper:
    """Tells each of the things in it when its deadline has come, at most ``RESOLUTION_S`` late."""

    def __init__(self) -> None:
        self._things: dict[Timed, None] = {}
        """The items in the order in which they came: two that are due at once are told in the same order each time."""
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def add(self, thing: Timed) -> None:
        """Watch a thing, or look again at one whose deadline came closer."""
        self._things[thing] = None
        if thing.due < self._at:
            self._schedule(thing.due)

    def discard(self, thing: Timed) -> None:
        """Watch it no more."""
        self._things.pop(thing, None)

    def _schedule(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._sweep)

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        self._timer, self._at = None, math.inf
        for thing in [one for one in self._things if one.due <= now]:
            thing.overdue(now)
        following = min((one.due for one in self._things), default=math.inf)
        if following < math.inf:
            self._schedule(max(following, now + RESOLUTION_S))


# -- Somebody who waits for something of a computer --------------------------------------

logger = logging.getLogger(__name__)

PAUSED_AFTER_S: Final = 4.0
"""A game that counted no tick for so long is paused, or as good as."""
SLOW_HINT_S: Final = 0.5
"""A listener that takes longer over a notification holds up all computers, and is told nothing more."""


@dataclass
class GameClock:
    """The time of a computer's game, as far as its answers tell it."""

    ms: int | None = None
    """None: it has not told it."""
    since: float = 0.0
    """When it told this time first, by the loop's clock."""
    paused: bool = False

    def tell(self, ms: int, now: float) -> bool:
        """The computer told the time; True: since now it is known that its game stands still."""
        if ms != self.ms:
            self.ms, self.since, self.paused = ms, now, False
            return False
        noticed = not self.paused and now - self.since >= PAUSED_AFTER_S
        self.paused = self.paused or noticed
        return noticed


class Wait:
    """Somebody waits for something of a computer until ``due``; past it a settle has to ask again."""

    __slots__ = ("began_ms", "computer", "due", "future", "game", "heard", "on_output", "span", "what", "within_s")

    def __init__(
        self,
        computer: ComputerId,
        within_s: float,
        on_output: OnOutput | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        game: GameClock | None = None,
        what: str = "did not answer",
    ) -> None:
        loop = loop or asyncio.get_running_loop()
        self.computer = computer
        self.future: asyncio.Future[Any] = loop.create_future()
        self.on_output = on_output
        self.heard = 0
        """Bytes of the output that were told."""
        self.game = game
        """By whose clock ``within_s`` counts, where that tells the time; None: by the loop's."""
        self.began_ms: int | None = None
        """The first time of the game that was told during this wait."""
        self.within_s = within_s
        """Seconds that the computer gets once it has the whole call."""
        self.due, self.span, self.what = loop.time() + within_s, within_s, what

    def bound(self, now: float, span: float, what: str) -> None:
        """Wait until ``span`` seconds from now for a computer that otherwise ``what``."""
        self.due, self.span, self.what = now + span, span, what

    def overdue(self, now: float) -> None:
        """The wait was too long, unless the game has had less time."""
        left = self._left_s()
        if left > 0:
            self.due = now + left
            return
        self.due = math.inf
        self.resolve(CallLost(f"Computer {self.computer} {self.what} within {self.span:.0f} s."))

    def ticked(self, clock_ms: int) -> None:
        """The computer told the time of its game."""
        if self.began_ms is None:
            self.began_ms = clock_ms

    def told(self, offset: int, data: bytes) -> None:
        """The program wrote something; a listener that raises or dawdles hears no more."""
        self.heard = offset + len(data)
        if self.on_output is None:
            return
        clock, extra = self.future.get_loop().time, {"computer": self.computer}
        began = clock()
        try:
            self.on_output(offset, data)
        except Exception:
            logger.exception("the listener to the output of a run failed and hears no more", extra=extra)
            self.on_output = None
        if clock() - began > SLOW_HINT_S:
            logger.warning("the listener to the output of a run is too slow and hears no more", extra=extra)
            self.on_output = None

    def _left_s(self) -> float:
        """Seconds of the game that are left of ``within_s``."""
        if self.game is None or self.game.ms is None or self.began_ms is None:
            return 0.0
        return self.within_s - (self.game.ms - self.began_ms) / 1000

    def resolve(self, outcome: Any) -> None:
        """End the wait, with an answer or an exception; it ends once."""
        if self.future.done():
            return
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
            self.future.exception()
        else:
            self.future.set_result(outcome)
