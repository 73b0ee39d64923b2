"""Times as rows have them: microseconds since 1970 in UTC."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def to_us(moment: datetime) -> int:
    """A moment in any time zone."""
    return (moment - _EPOCH) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    """The moment, aware, in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


FAR_S: Final = 2.0
"""A clock that is off by so much should be set: what goes by the network's time is off by far less."""


def told_apart(whose: str, by_s: float) -> str:
    """That somebody's clock is so many seconds ahead of the store's, as a sentence; empty: it is near enough."""
    if abs(by_s) < FAR_S:
        return ""
    where = "ahead of" if by_s > 0 else "behind"
    return f"The clock of {whose} is {abs(by_s):.0f} s {where} the store's, by which all nodes go: set it."
