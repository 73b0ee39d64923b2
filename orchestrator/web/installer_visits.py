"""Who fetched the installer last, and whether a pairing followed: what stopped in between is seen nowhere else."""

from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Final

KEPT: Final = 100


@dataclass
class Visit:
    """A computer in the game fetched the installer."""

    at: datetime
    peer: str
    """The address it came from: that of its Minecraft server."""
    paired: bool = False
    """Whether a computer was paired from there since."""


class Visits:
    """The last of them, in memory: they end with the process."""

    def __init__(self, kept: int = KEPT) -> None:
        self._last: deque[Visit] = deque(maxlen=kept)

    def add(self, at: datetime, peer: str) -> None:
        """Remember one; the oldest makes room."""
        self._last.append(Visit(at, peer))

    def paired(self, peer: str) -> None:
        """A computer was paired from an address: what was fetched from there is explained."""
        for visit in self._last:
            visit.paired = visit.paired or visit.peer == peer

    def last(self) -> list[Visit]:
        """Those that are remembered, the newest first."""
        return list(reversed(self._last))
