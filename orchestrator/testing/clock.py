"""Time that a test moves by hand."""

from datetime import UTC, datetime, timedelta


class ManualClock:
    """A `Clock` that stands still until it is told to advance."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        """The present time, aware, in UTC."""
        return self._now

    def advance(self, seconds: float) -> datetime:
        """Move on; the new present."""
        self._now += timedelta(seconds=seconds)
        return self._now
