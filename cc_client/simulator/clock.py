"""Time as the simulated computer sees it, in one object that a test can replace."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

TICK_S: Final = 0.05
"""The game's tick: ``os.clock`` and timers move in it."""


@dataclass(eq=False)
class Timer:
    """Something that is due at a time of the game, in seconds of ``Clock.game_s``."""

    due_s: float
    callback: Callable[[], None]
    forget: Callable[["Timer"], None]
    handle: asyncio.TimerHandle | None = None
    """The loop's own timer; None: the game is paused."""

    def cancel(self) -> None:
        """It is not called any more; also after it was."""
        if self.handle is not None:
            self.handle.cancel()
        self.forget(self)

    def start(self, now_s: float) -> None:
        """Let the loop count from now on; ``now_s`` is time of the game."""
        self.handle = asyncio.get_running_loop().call_later(max(0.0, self.due_s - now_s), self._fire)

    def hold(self) -> None:
        """The game is paused."""
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None

    def _fire(self) -> None:
        self.forget(self)
        self.callback()


@dataclass
class Clock:
    """Real time, and the time of the game, which a player can pause. The one place where the simulator asks for it."""

    _paused_at_s: float | None = None
    """None: the game goes on."""
    _lost_s: float = 0.0
    """Real time that passed while the game was paused."""
    _skipped_s: float = 0.0
    _timers: dict[Timer, None] = field(default_factory=dict)

    def now_s(self) -> float:
        """Seconds that only go up; the start is arbitrary."""
        return time.monotonic()

    def epoch_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000 + round(self._skipped_s * 1000)

    def game_s(self) -> float:
        """Seconds that the game went on; the start is arbitrary."""
        now_s = self.now_s() if self._paused_at_s is None else self._paused_at_s
        return now_s - self._lost_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call back in the running loop after ``delay_s`` of the game, rounded up to a tick."""
        ticks = max(1, round(delay_s / TICK_S))
        timer = Timer(self.game_s() + ticks * TICK_S, callback, lambda one: self._timers.pop(one, None))
        self._timers[timer] = None
        if self._paused_at_s is None:
            timer.start(self.game_s())
        return timer

    def pause(self) -> None:
        """A player pauses the game: no tick is counted and no timer fires. Sockets live on."""
        if self._paused_at_s is None:
            self._paused_at_s = self.now_s()
            for timer in self._timers:
                timer.hold()

    def go_on(self) -> None:
        """The game goes on where it was paused."""
        if self._paused_at_s is not None:
            self._lost_s += self.now_s() - self._paused_at_s
            self._paused_at_s = None
            for timer in list(self._timers):
                timer.start(self.game_s())

    def skip(self, seconds: float) -> None:
        """The clock on the wall goes ahead by so much, as if one had waited; the game does not notice."""
        self._skipped_s += seconds
