"""A WebSocket as the hub needs it, and what went over all of them."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

# -- A WebSocket as the hub needs it, and what went over all of them ---------------------


class Socket(Protocol):
    """One accepted WebSocket."""

    async def receive(self) -> bytes | str | None:
        """The next frame; None when the connection is over."""

    async def send(self, frame: bytes) -> None:
        """Write one frame. Raises OSError when the connection is over."""

    async def close(self, code: int, reason: str) -> None:
        """Close; closing twice is harmless."""


@runtime_checkable
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
    """What went over all connections of a hub since it was made."""

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
    """On the loop's clock; infinite: never."""

    def overdue(self, now: float) -> None:
        """The deadline has come; sets the next one. Never raises."""


class Sweeper:
    """Tells each of the things in it when its deadline has come, at most ``RESOLUTION_S`` late."""

    def __init__(self) -> None:
        self._things: dict[Timed, None] = {}
        """In the order in which they came: two that are due at once are told in the same order each time."""
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
