"""An installation's own part of a bus: on one server there may be nodes that work with another store.

Nodes of one store must not hear the messages of another store: they would take two computers of the same name for
one, and send calls to the wrong one. So each installation sends and hears everything under a word of its own, which its
store gave it. All nodes tell each other only that they are there, so that a person can be told.
"""

import logging
import secrets
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from orchestrator.core.audit.shared import INSTALLATION
from orchestrator.core.ports import Answer, Bus, Common
from orchestrator.core.ports.bus import End, Hear, Serve
from orchestrator.core.text.visible import one_line

logger = logging.getLogger(__name__)

AGREED: Final = INSTALLATION
"""The name under which the nodes of a store agree on their word."""
THERE: Final = "installations"
"""The subject on which a node of any installation says that it is there."""
MOST_NAMED: Final = 20
"""The most nodes of other installations that are known by name."""


async def installation_of(store: Common) -> str:
    """The word of this store's installation, which no other has."""
    return await store.agree(AGREED, f"i-{secrets.token_hex(8)}")


class InstallationBus:
    """A bus as the nodes of one store see it: they hear each other, and nobody else."""

    def __init__(self, bus: Bus, installation: str, *, node: str) -> None:
        self._bus = bus
        self._installation = installation
        self._node = node
        self._others: dict[str, None] = {}
        bus.subscribe(THERE, self._heard)

    def list_others(self) -> list[str]:
        """Nodes on the same server that work with another store."""
        return sorted(self._others)

    async def open(self) -> None:
        """Connect, and say who is there. Raises BusAway."""
        await self._bus.open()
        self._say()

    async def close(self) -> None:
        """Let go of the bus."""
        await self._bus.close()

    @property
    def connected(self) -> bool:
        """Whether the other nodes can be reached now."""
        return self._bus.connected

    async def flush(self) -> None:
        """What was subscribed, served and published before holds. Raises RequestLost."""
        await self._bus.flush()

    def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        """Tell the nodes of this store."""
        self._bus.publish(self._own(subject), payload)

    def subscribe(self, subject: str, handler: Hear) -> End:
        """Hear the nodes of this store."""
        return self._bus.subscribe(self._own(subject), handler)

    def request(
        self, subject: str, payload: Mapping[str, Any], body: bytes = b"", *, within_s: float
    ) -> Coroutine[Any, Any, Answer]:
        """Ask a node of this store. Raises NobodyServes, RequestLost."""
        return self._bus.request(self._own(subject), payload, body, within_s=within_s)

    def serve(self, subject: str, handler: Serve) -> End:
        """Answer the nodes of this store."""
        return self._bus.serve(self._own(subject), handler)

    def _own(self, subject: str) -> str:
        return f"{self._installation}.{subject}"

    def _say(self) -> None:
        self._bus.publish(THERE, {"installation": self._installation, "node": self._node})

    def _heard(self, payload: Mapping[str, Any]) -> None:
        node = one_line(str(payload.get("node", "")))[:80]
        known = node in self._others or len(self._others) >= MOST_NAMED
        if payload.get("installation") == self._installation or known:
            return
        self._others[node] = None
        logger.warning(
            "node %s is on the same bus with another store: it and this node do not work together. If they should, "
            "give both the same --store; if not, nothing is wrong",
            node,
        )
        # It may have come later, and has not heard of this one.
        self._say()
