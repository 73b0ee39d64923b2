"""Wrong secrets by address, in a sliding minute: guessing is bounded, and who mistypes is not locked out for long."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from orchestrator.core.errors import OrchestratorError

WRONG_WITHIN_S: Final = 60.0
WRONG_TRIES: Final = 10
"""Wrong ones that one address may send in ``WRONG_WITHIN_S``."""
_PEERS: Final = 10_000
"""Addresses that are remembered; the one that was wrong longest ago makes room."""


class TooManyTries(OrchestratorError):
    """An address sent too many wrong codes or tokens."""

    code = "too_many_tries"
    http_status = 429


@dataclass
class Tries:
    """The wrong ones of a kind; ``what``: such as ``codes``, with a verb for the next try."""

    what: str
    again: str
    wrong: dict[str, deque[float]] = field(default_factory=dict)

    def take(self, peer: str, now: float) -> None:
        """Count a try as wrong until it is known better. Raises TooManyTries when there are none left."""
        times = self.wrong.pop(peer, deque())
        while times and now - times[0] >= WRONG_WITHIN_S:
            times.popleft()
        self.wrong[peer] = times
        if len(self.wrong) > _PEERS:
            del self.wrong[next(iter(self.wrong))]
        if len(times) >= WRONG_TRIES:
            raise TooManyTries(
                f"{WRONG_TRIES} wrong {self.what} came from this address within a minute.",
                remedy=f"Wait a minute, then {self.again}.",
            )
        times.append(now)

    def give_back(self, peer: str, now: float) -> None:
        """It was right."""
        if now in self.wrong.get(peer, ()):
            self.wrong[peer].remove(now)
