"""How long a server that went away is looked for, and how often."""

import random
import time
from typing import TYPE_CHECKING, Final

from orchestrator.core.errors import OrchestratorError

if TYPE_CHECKING:
    # Most commands are one call over REST: the items, and the reviewers' socket, cost them half of their start.

    pass


PATIENCE_S: Final = 90.0
"""How long a follower looks for a server that went away: a restart takes seconds, an update a minute."""
_LIVED_S = 5.0
"""A connection that lasted so long was one; what ends sooner, again and again, is none."""
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.2, 5.0


class Attempts:
    """How long a follower has been without a server, and how long it waits before the next attempt."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._began = 0.0
        self._failing_since: float | None = None
        self._delay_s = _FIRST_DELAY_S
        self._told_lost = False

    def begin(self) -> None:
        """An attempt begins."""
        self._began = time.monotonic()

    def lost(self) -> bool:
        """The connection is lost; whether nobody has been told yet."""
        told, self._told_lost = self._told_lost, True
        return not told

    def back(self) -> bool:
        """A connection stands; whether it was told to be lost."""
        told, self._told_lost = self._told_lost, False
        return told

    def heard(self) -> None:
        """Something came: the connection is one."""
        self._failing_since, self._delay_s = None, _FIRST_DELAY_S

    def delay(self, lost: OrchestratorError) -> float:
        """Seconds until the next attempt, with jitter. Raises ``lost`` when the patience is over."""
        now = time.monotonic()
        if now - self._began > _LIVED_S:
            self.heard()
        self._failing_since = now if self._failing_since is None else self._failing_since
        if now - self._failing_since >= self._patience_s:
            raise lost
        self._delay_s = min(self._delay_s * 2, _LONGEST_DELAY_S)
        return self._delay_s * random.uniform(0.5, 1.0)
