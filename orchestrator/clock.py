"""The clock of this machine; everything else takes time from the port ``Clock``."""

from datetime import UTC, datetime


class SystemClock:
    """The port ``Clock``, as the operating system has it."""

    def now(self) -> datetime:
        """The present time in UTC."""
        return datetime.now(UTC)
