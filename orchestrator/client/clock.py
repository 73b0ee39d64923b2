"""What time it is at the server."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

import httpx2

_SAME_TIME: Final = timedelta(seconds=3)
"""Clocks that differ by less are one: a header tells whole seconds, and takes a moment to come."""


class ServerClock:
    """What time it is at the server, as its answers tell: what happened there is told in its time."""

    def __init__(self) -> None:
        self._ahead = timedelta(0)

    def now(self) -> datetime:
        """The time there."""
        return datetime.now(UTC) + self._ahead

    def heard(self, response: httpx2.Response) -> None:
        """An answer came."""
        try:
            there = parsedate_to_datetime(response.headers.get("date", ""))
        except ValueError:
            return
        if there.tzinfo is not None:
            ahead = there - datetime.now(UTC)
            self._ahead = ahead if abs(ahead) > _SAME_TIME else timedelta(0)
