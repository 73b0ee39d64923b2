"""The connections that were turned away last or given up, for whoever has to find out why no computer comes in."""

from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Final

KEPT: Final = 100
"""A computer that is refused dials five times a minute: the last minutes of a few of them."""
JOURNAL_FAILED: Final = "journal_failed"
"""What a computer complains of that cannot write its journal; after a welcome it hangs up then."""
MAKE_ROOM: Final = "Make room on its disk if that is full; it goes on by itself then."


@dataclass(frozen=True)
class Refused:
    """One connection that was turned away, or that the computer gave up."""

    at: datetime
    peer: str
    """The address it came from; empty: not known."""
    path: str
    code: str
    """Such as ``unauthenticated``, ``protocol_too_old``, ``frozen`` or JOURNAL_FAILED."""
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
