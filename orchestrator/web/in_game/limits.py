"""How often a computer may ask: a farm loop that types ``cc ask`` must not fill the queue."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

WITHIN_S: Final = 60.0
ASKS_A_MINUTE: Final = 6
"""New tasks: a person types no faster, and each costs minutes of a model."""
_BEGIN: Final = ("ask", "undo")
"""What begins a task."""
OTHERS_A_MINUTE: Final = 60
MAX_OPEN: Final = 4
"""Requests of one computer that are answered at once: somebody at each side of a monitor."""
_COMPUTERS: Final = 10_000
"""Computers that are remembered; the one that asked longest ago makes room."""


@dataclass
class Rate:
    """Requests of each computer within the last minute."""

    most: int
    _times: dict[str, deque[float]] = field(default_factory=dict)

    def wait_s(self, computer: str, now: float) -> float:
        """Seconds until there is room for one more; 0: there is, and it is taken."""
        times = self._times.pop(computer, deque())
        while times and now - times[0] >= WITHIN_S:
            times.popleft()
        self._times[computer] = times
        if len(self._times) > _COMPUTERS:
            del self._times[next(iter(self._times))]
        if len(times) >= self.most:
            return times[0] + WITHIN_S - now
        times.append(now)
        return 0.0


@dataclass
class Limits:
    """All computers' rates."""

    asks: Rate = field(default_factory=lambda: Rate(ASKS_A_MINUTE))
    others: Rate = field(default_factory=lambda: Rate(OTHERS_A_MINUTE))

    def wait_s(self, computer: str, verb: str, now: float) -> float:
        """Seconds that a request has to wait; 0: none."""
        return (self.asks if verb in _BEGIN else self.others).wait_s(computer, now)
