"""Time as the simulated computer sees it, in one object that a test can replace."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

TICK_S: Final = 0.05
"""The game's tick: ``os.clock`` and timers move in it."""


class Clock:
    """Real time. The one place where the simulator asks for it or waits for it."""

    def now_s(self) -> float:
        """Seconds that only go up; the start is arbitrary."""
        return time.monotonic()

    def epoch_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call back in the running loop after ``delay_s``, rounded up to a tick."""
        ticks = max(1, round(delay_s / TICK_S))
        return asyncio.get_running_loop().call_later(ticks * TICK_S, callback)
