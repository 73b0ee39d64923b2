"""The port of time."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Where time comes from: the system, the server of a store, or a test."""

    def now(self) -> datetime:
        """The present time, aware, in UTC."""
