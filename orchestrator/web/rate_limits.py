"""Wrong secrets by who sends them, in a sliding minute: guessing is bounded, and a typing error locks out nobody.

Theory. Many people may share an address: all computers of a game server do. So only wrong secrets are answered
with 429. A right one is always taken, or one player could stop all others. What bounds guesses then is the size of
the secret, and where it is short, a pause before each further look.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from orchestrator.core.errors import OrchestratorError

WRONG_WITHIN_S: Final = 60.0
WRONG_TRIES: Final = 10
"""Wrong ones that one may send in ``WRONG_WITHIN_S``."""
_KEYS: Final = 10_000
"""Those who are remembered; the one that was wrong longest ago makes room."""


class TooManyTries(OrchestratorError):
    """Too many wrong codes or tokens came from an address or a computer."""

    code = "too_many_tries"
    http_status = 429


@dataclass
class Tries:
    """The wrong ones of a kind; ``what`` came from ``whence`` (such as "this address"), and what to do ``again``."""

    what: str
    again: str
    whence: str = "this address"
    most: int = WRONG_TRIES
    times: dict[str, deque[float]] = field(default_factory=dict)

    def full(self, who: str, now: float) -> bool:
        """Whether the next wrong one is too many."""
        return len(self._of(who, now)) >= self.most

    def count(self, who: str, now: float) -> None:
        """Count a wrong one. Raises TooManyTries when it is too many."""
        times = self._of(who, now)
        self.times.pop(who, None)
        self.times[who] = times
        if len(self.times) > _KEYS:
            del self.times[next(iter(self.times))]
        if len(times) >= self.most:
            raise TooManyTries(
                f"{self.most} wrong {self.what} came from {self.whence} within a minute.",
                remedy=f"Wait a minute, then {self.again}.",
            )
        times.append(now)

    def _of(self, who: str, now: float) -> deque[float]:
        times = self.times.get(who, deque())
        while times and now - times[0] >= WRONG_WITHIN_S:
            times.popleft()
        return times
