"""One watched screen of one computer: its picture, and the part that each watcher already has.

However slow a watcher is, nothing piles up: the rows that it has not taken are remembered by number, and it gets their
present text when it takes them. However fast a computer is, a watcher is told no more often than by a computer that
keeps to the protocol.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from orchestrator.core.wire import wire
from orchestrator.core.wire.picture import Shown, drawn
from orchestrator.core.wire.wire import ComputerId

MAX_BROKEN = 3
"""Frames on one connection that make no picture: more is a client that cannot do it."""
_QUIET = "The computer is connected, but sends no picture: it may be busy, or its program does not yield."
APART_S = 0.2
"""Between two sights of one watcher: a computer sends a screen four times in a second."""


@dataclass(frozen=True)
class Seen:
    """What the screen shows now."""

    shown: Shown
    rows: frozenset[int] | None
    """The rows, by number, that changed since the last look; None: nothing that was told before counts."""


@dataclass(frozen=True)
class Gone:
    """The computer is not connected; when it is back, the whole picture follows."""


@dataclass(frozen=True)
class Hidden:
    """The screen cannot be read, until a picture comes."""

    message: str


Sight = Seen | Gone | Hidden


class Watcher:
    """One who looks at a screen."""

    def __init__(self, view: "View", *, is_over: bool) -> None:
        self._view = view
        self._rows: set[int] | None = None
        """What is to be told next, as in ``Seen``."""
        self._is_new = True
        """Whether there is something to tell."""
        self._told: Gone | Hidden | None = None
        self._changed = asyncio.Event()
        self._rests_until = 0.0
        """When it may be told more, by the loop's clock."""
        self.is_over = is_over
        """Whether nothing more comes."""

    def touch(self, rows: frozenset[int] | None) -> None:
        """The rows changed, perhaps none but the cursor; None: everything did."""
        if rows is None or self._rows is None:
            self._rows = None
        else:
            self._rows |= rows
        self._is_new = True
        self._changed.set()

    def again(self) -> None:
        """Nothing that was told counts any more."""
        self._told = None
        self.touch(None)

    def end(self) -> None:
        """Nothing more comes."""
        self.is_over = True
        self._changed.set()

    async def next(self, wait_s: float) -> Sight | None:
        """What is new, ``APART_S`` after the last at the earliest; None: nothing was in ``wait_s`` s, or it is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while not self.is_over:
            now = loop.time()
            rests = now < self._rests_until
            sight = None if rests else self._look()
            if sight is not None:
                self._rests_until = now + APART_S
                return sight
            if now >= until:
                return None
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(until, self._rests_until) if rests else until):
                    await self._changed.wait()
        return None

    def _look(self) -> Sight | None:
        view = self._view
        if view.trouble is not None:
            # Whatever comes after it is told whole.
            self._rows, self._is_new = None, True
            if view.trouble == self._told:
                return None
            self._told = view.trouble
            return view.trouble
        if view.shown is None or not self._is_new:
            return None
        rows, self._rows = self._rows, set()
        self._is_new, self._told = False, None
        return Seen(view.shown, None if rows is None else frozenset(rows))


@dataclass(eq=False)
class View:
    """A screen, and all who watch it."""

    computer: ComputerId
    of: str
    """The name of a monitor; empty: the computer's own terminal."""
    number: int = 0
    """The number of the watch that is under way; 0: there is none."""
    heard: int = 0
    """The ``n`` of its last picture."""
    broken: int = 0
    """Frames on this connection that made no picture."""
    quiet: int = 0
    """How often the watch was renewed since something came of it."""
    shown: Shown | None = None
    """What the screen shows; None: not known yet."""
    trouble: Gone | Hidden | None = None
    """Why nothing is seen; None: something is, or will be."""
    watchers: set[Watcher] = field(default_factory=set)
    _coming: Shown | None = None
    """The part of the watch under way that has come."""

    def begin(self, number: int) -> wire.Watch:
        """A new watch: earlier pictures count no more. The message that asks for it, without its lease."""
        if isinstance(self.trouble, Gone):
            # The picture from before the computer went is not its present one.
            self.trouble = self.shown = None
        self.number, self.heard, self.quiet, self._coming = number, 0, 0, None
        return self.renewed(0)

    def renewed(self, lease_s: int) -> wire.Watch:
        """The message that the watch goes on for so long."""
        of = wire.to_wire(self.of) if self.of else None
        return wire.Watch(watch=self.number, of=of, lease_s=lease_s, heard=self.heard)

    def prolonged(self, lease_s: int) -> wire.Watch:
        """The same once more; a watch of which nothing comes is said to be quiet."""
        self.quiet += 1
        if self.quiet > 1 and self.shown is None and self.trouble is None:
            self.stop(Hidden(_QUIET))
        return self.renewed(lease_s)

    def take(self, message: wire.Picture, body: bytes) -> bool:
        """A frame of this watch; False: one is missing before it. Raises FrameRefused where it makes no picture."""
        if message.whole and message.n == 1:
            # The computer began again, such as when the lease was over.
            self.heard = 0
        if message.n != self.heard + 1:
            return False
        self.heard, self.quiet = message.n, 0
        before = None if message.whole else self._coming
        self._coming, rows = drawn(before, message, body)
        if self._coming.is_complete:
            was_complete = before is not None and before.is_complete
            self.shown, self.trouble = self._coming, None
            self.touch(rows if was_complete else None)
        return True

    def may_try_again(self) -> bool:
        """A frame made no picture: whether the computer may begin again."""
        self.broken += 1
        return self.broken < MAX_BROKEN

    def end(self, trouble: Gone | Hidden) -> None:
        """The watch is over on this connection, and why."""
        self.number = self.broken = 0
        self.stop(trouble)

    def stop(self, trouble: Gone | Hidden) -> None:
        """Nothing is seen, and why."""
        self.trouble, self._coming = trouble, None
        self.touch(None)

    def touch(self, rows: frozenset[int] | None) -> None:
        """Tell the watchers that something changed."""
        for watcher in self.watchers:
            watcher.touch(rows)
