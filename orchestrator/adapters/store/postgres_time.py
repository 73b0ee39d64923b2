"""The time of the database's server, told without asking it each time."""

import logging
import time
from datetime import datetime
from typing import Any, Final, Protocol

from orchestrator.core.ports import Clock
from orchestrator.core.timestamps import FAR_S, from_us, to_us, told_apart
from orchestrator.runtime.clock import ahead_s, steady_ns

_ASK: Final = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint"
_ASK_EVERY_NS: Final = 10_000_000_000

logger = logging.getLogger(__name__)


class ServerTime:
    """The server's clock as an offset to this machine's steady one, measured now and then.

    All nodes go by it, so that their own clocks may be wrong, which is said in the log. A
    machine that slept may for a moment be behind: it then takes over later and asks for a lease that ends
    sooner. None of that lets two go on with one task: who may is said by the token in the task's row,
    never by the time.
    """

    def __init__(self) -> None:
        self._offset_us = (time.time_ns() - steady_ns()) // 1000
        """Until it was asked, this machine's own time stands in for the server's."""
        self._asked_at: int | None = None
        self._said_s = 0.0
        """How far ahead of the server's this machine's clock was when that was logged last."""

    async def ask_now_and_then(self, connection: Any) -> None:
        """Measure the offset, when that was long ago."""
        before = steady_ns()
        if self._asked_at is not None and before - self._asked_at < _ASK_EVERY_NS:
            return
        self._asked_at = before
        told = await connection.fetchval(_ASK)
        # It was read somewhere in between; half of the way is at most some milliseconds wrong.
        self._offset_us = told - (before + steady_ns()) // 2000
        self._compare()

    def now(self) -> int:
        """Microseconds since 1970 in UTC."""
        return steady_ns() // 1000 + self._offset_us

    def _compare(self) -> None:
        """Say once in the log that this machine's clock is off, and again when it is off by something else."""
        ahead = ahead_s(from_us(self.now()))
        if abs(ahead - self._said_s) >= FAR_S:
            said = told_apart("this machine", ahead)
            logger.warning("%s", said or "The clock of this machine is right again.")
            self._said_s = ahead if said else 0.0


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


class StoreClock:
    """The port ``Clock``, by the time of a store."""

    def __init__(self, store_time: StoreTime) -> None:
        self._time = store_time

    def now(self) -> datetime:
        """The present time in UTC, by the server."""
        return from_us(self._time.now())
