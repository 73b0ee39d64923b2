"""The time of the database's server, told without asking it each time."""

import time
from typing import Any, Final, Protocol

from orchestrator.core.moments import to_us
from orchestrator.ports import Clock

_ASK: Final = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint"
_ASK_EVERY_NS: Final = 10_000_000_000


class ServerTime:
    """The server's clock as an offset to this machine's steady one, measured now and then.

    All nodes go by it, so that their own clocks may be wrong. A process that was stopped, or a machine
    that slept, may for a moment be behind: it then takes over later and asks for a lease that ends
    sooner. None of that lets two go on with one task: who may is said by the token in the task's row,
    never by the time.
    """

    def __init__(self) -> None:
        self._offset_us = 0
        self._asked_at: int | None = None

    async def ask_now_and_then(self, connection: Any) -> None:
        """Measure the offset, when that was long ago."""
        before = time.monotonic_ns()
        if self._asked_at is not None and before - self._asked_at < _ASK_EVERY_NS:
            return
        self._asked_at = before
        told = await connection.fetchval(_ASK)
        # It was read somewhere in between; half of the way is at most some milliseconds wrong.
        self._offset_us = told - (before + time.monotonic_ns()) // 2000

    def now(self) -> int:
        """Microseconds since 1970 in UTC."""
        return time.monotonic_ns() // 1000 + self._offset_us


class GivenTime:
    """The time of a clock that was given, such as a test's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def ask_now_and_then(self, connection: Any) -> None:
        """There is nothing to ask."""

    def now(self) -> int:
        """Microseconds since 1970 in UTC."""
        return to_us(self._clock.now())


class StoreTime(Protocol):
    """Where the store's time comes from."""

    async def ask_now_and_then(self, connection: Any) -> None:
        """Before a transaction on this connection."""

    def now(self) -> int:
        """Microseconds since 1970 in UTC."""
