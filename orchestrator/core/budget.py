"""What may be spent of something: it fills again with time."""


class Budget:
    """So much in a second, and no more than ``most`` at once. ``now`` is in seconds, of any clock that only rises."""

    def __init__(self, rate: float, most: float, now: float) -> None:
        self._rate, self._most = rate, most
        self._left, self._at = most, now

    def takes(self, size: float, now: float) -> bool:
        """Whether so many bytes more are within it; if so they are counted."""
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if size > self._left:
            return False
        self._left -= size
        return True
