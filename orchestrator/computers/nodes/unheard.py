"""Notices that another node works with the same store, and that this one does not hear it.

Theory. Nodes that hear each other name the same one of them: the one that started first. In its name all of them take
one duty, and renew it. Whoever cannot take it, for longer than a node that died would keep it, is on another bus than
those who have it: each with a bus of its own, or on two servers, or cut off from the one that they share.
"""

import asyncio
import logging
from typing import Final

from orchestrator.computers.nodes.presence import Presence
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Common

logger = logging.getLogger(__name__)

DUTY: Final = "bus"
LOOK_EVERY_S: Final = 4.0
FOR_S: Final = 15.0
"""How long it is taken for: three looks may fail."""
SURE_AFTER_S: Final = 20.0
"""Longer than what is left of a duty of nodes that are dead, or that named another as the first."""

UNHEARD: Final = (
    "Another node works with this store, and this one does not hear it: its computers cannot be reached from here, and "
    "what is decided there is noticed late. Give all nodes of one store the same --bus, which all of them reach."
)


class Unheard:
    """Looks again and again whether all nodes of the store are on this bus."""

    def __init__(self, store: Common, presence: Presence) -> None:
        self._store = store
        self._presence = presence
        self._since: float | None = None
        """When the duty could not be taken first."""
        self.alert = ""
        """What is wrong, as sentences; empty: nothing is known to be."""

    async def keep(self) -> None:
        """Look until canceled; of a store that only this process has open there is nothing to see."""
        while self._store.shared:
            try:
                await self.look(asyncio.get_running_loop().time())
            except OrchestratorError as error:
                logger.debug("whether all nodes are heard is looked at again: %s", error)
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, now: float) -> None:
        """Look once; ``now`` in seconds of a clock that only goes on. Raises StoreAway."""
        if await self._store.take_duty(DUTY, self._presence.first(), FOR_S):
            self._since = None
            self._say("")
            return
        self._since = now if self._since is None else self._since
        if now - self._since >= SURE_AFTER_S:
            self._say(UNHEARD)

    def _say(self, alert: str) -> None:
        if alert and not self.alert:
            logger.warning("%s", alert)
        elif self.alert and not alert:
            logger.info("all nodes of this store are heard again")
        self.alert = alert
