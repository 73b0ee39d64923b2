"""This machine's clocks: the time of day, which all else takes from the port ``Clock``, and a steady one."""

import time
from datetime import UTC, datetime
from typing import Final

_SLEEPLESS: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)
"""The steady clock that goes on while the machine sleeps, where there is one."""


class SystemClock:
    """The port ``Clock``, as the operating system has it."""

    def now(self) -> datetime:
        """The present time in UTC."""
        return datetime.now(UTC)


def ahead_s(of: datetime) -> float:
    """Seconds by which this machine's clock is ahead of one that shows this time now."""
    return (datetime.now(UTC) - of).total_seconds()


def steady_s() -> float:
    """The present time of this machine in seconds since some moment: nobody sets this clock."""
    return time.monotonic() if _SLEEPLESS is None else time.clock_gettime(_SLEEPLESS)


def steady_ns() -> int:
    """The same in whole nanoseconds."""
    return time.monotonic_ns() if _SLEEPLESS is None else time.clock_gettime_ns(_SLEEPLESS)
