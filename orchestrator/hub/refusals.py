"""The connections that were turned away last, for whoever has to find out why a computer does not come in."""

from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Final

KEPT: Final = 100
"""A computer that is refused dials five times a minute: the last minutes of a few of them."""


@dataclass(frozen=True)
class Refused:
    """One connection that was turned away."""

    at: datetime
    peer: str
    """The address it came from; empty: not known."""
    path: str
    code: str
    """Such as ``unauthenticated``, ``protocol_too_old`` or ``frozen``."""
    message: str
    """Why, as a sentence."""
    computer: str = ""
    """Whose token it was; empty: nobody's that is known."""
    remedy: str = ""
    """What a person can do."""


class Refusals:
    """The last of them, in memory: they end with the process."""

    def __init__(self, kept: int = KEPT) -> None:
        self._last: deque[Refused] = deque(maxlen=kept)

    def add(self, refused: Refused) -> None:
        """Remember one; the oldest makes room."""
        self._last.append(refused)

    def last(self) -> list[Refused]:
        """Those that are remembered, the newest first."""
        return list(reversed(self._last))
