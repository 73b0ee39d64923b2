"""One timer for every deadline of a hub: a wait costs a place in a dictionary, not a timer of its own."""

import asyncio
import math
from typing import Final, Protocol

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
