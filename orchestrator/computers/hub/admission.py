"""How many computers come in each second where thousands dial at once, and when each of the others is to dial again.

Theory. After a restart or a cut line all computers dial in one moment, and each costs about a millisecond. So that the
calls under way go on meanwhile, only so many come in each second. Each of the others is told a time of its own: one
after the other, a little slower than the rate, so that there is room when it comes. Nothing is kept of those who were
told: a computer that comes at another time counts as any other. Only a computer whose token is good takes room, so
nobody else can use it up; who has no token can at most have others told a later time, while there is no room.
"""

import logging
import math
import random
from typing import Final

logger = logging.getLogger(__name__)

PER_S: Final = 250
"""Computers that come in each second: a third of a core. 5,000 are in after 23 s."""
AT_ONCE: Final = 250
"""Computers that come in without a wait after a pause: an installation with fewer never tells one to wait."""
LONGEST_S: Final = 60
"""A computer is told to come again within this time, however many others were told before."""
_CALLED_PER_S: Final = 0.9 * PER_S
"""The computers that come when they were told to come leave some room for others."""
_SAID_EVERY_S: Final = 60.0


class Admission:
    """The computers that come in at one node. ``now`` is in seconds, of any clock that only rises."""

    def __init__(self) -> None:
        self._full_until = -math.inf
        self._last = -math.inf
        """The time that was told last."""
        self._said = -math.inf

    def came(self, now: float) -> None:
        """A computer comes in. It is counted also where it is one too many: several are looked at together."""
        self._full_until = max(self._full_until, now - AT_ONCE / PER_S) + 1 / PER_S

    def wait_s(self, now: float, crowded: bool = False) -> int:
        """Whole seconds after which one that dials now is to dial again; 0: there is room.

        ``crowded``: the tokens of too many others from its address are still looked at.
        """
        if self._full_until <= now and not crowded:
            return 0
        if now - self._said >= _SAID_EVERY_S:
            self._said = now
            logger.warning("more than %d computers a second come: the others are told when to dial again", PER_S)
        self._last = max(self._last, self._full_until, now) + 1 / _CALLED_PER_S
        if self._last - now > LONGEST_S:
            self._last = now + LONGEST_S
            return random.randint(LONGEST_S // 2, LONGEST_S)
        return math.ceil(self._last - now)
