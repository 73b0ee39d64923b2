"""The database's clock, as a node knows it without asking each time."""

from typing import Final

_FRESH_S: Final = 3.0
"""What was heard longer ago says nothing any more: this process, or its machine, may have stood still."""


class DatabaseClock:
    """Bounds of the database's clock, in seconds since its epoch, by this machine's steady one.

    The database read its clock between the moment it was asked and the moment the answer was here; each answer
    narrows the bounds. Where an answer lies outside of them (somebody set a clock), it makes new ones.
    """

    def __init__(self) -> None:
        self._low = self._high = 0.0
        self._heard: float | None = None

    def heard(self, asked: float, said: float, answered: float) -> None:
        """The database said ``said`` to what was asked and answered at these moments."""
        low, high = said - answered, said - asked
        if self._heard is not None and max(low, self._low) <= min(high, self._high):
            low, high = max(low, self._low), min(high, self._high)
        self._low, self._high, self._heard = low, high, answered

    def fresh(self, now: float) -> bool:
        """Whether it was heard lately."""
        return self._heard is not None and now - self._heard < _FRESH_S

    def earliest(self, now: float) -> float:
        """It is not earlier than this by the database's clock."""
        return now + self._low

    def latest(self, now: float) -> float:
        """It is not later than this by the database's clock."""
        return now + self._high
