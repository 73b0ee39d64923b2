"""The clock of this machine; everything else takes time from the port ``Clock``."""

from datetime import UTC, datetime


class SystemClock:
    """The port ``Clock``, as the operating system has it."""

    def now(self) -> datetime:
        """The present time in UTC."""
        return datetime.now(UTC)


def ahead_s(of: datetime) -> float:
    """By how many seconds this machine's clock is ahead of one that shows this just now."""
    return (datetime.now(UTC) - of).total_seconds()
