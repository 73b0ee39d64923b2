"""What is being read from computers now, at all nodes: a backup that one was asked for is looked at through any."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from orchestrator.computers.nodes.fleet import Fleet
from orchestrator.computers.nodes.messages import Ops, Said
from orchestrator.computers.nodes.presence import Presence
from orchestrator.core.errors import InvalidRequest, NobodyServes, RequestLost
from orchestrator.core.ports import Answer

_WITHIN_S: Final = 1.0
"""Who looks asks again soon, and a node that hangs is not to hide what the others do."""


class TransfersTold(Said):
    """What goes on at one node; an older one says nothing of it."""

    transfers: tuple[dict[str, Any], ...] = ()


class Readings:
    """The transfers of this node and of the others, as people see them."""

    def __init__(self, presence: Presence, fleet: Fleet, here: Callable[[], list[dict[str, Any]]]) -> None:
        self._presence = presence
        self._fleet = fleet
        self._here = here
        """Those of this node."""
        self.ops: Ops = {"transfers": self._answer}
        """What other nodes can ask about them."""

    async def everywhere(self) -> list[dict[str, Any]]:
        """Those of all nodes that answer, the oldest first."""
        others = await asyncio.gather(*(self._of(beat.node) for beat in self._presence.table.beats()))
        found = [*self._here(), *(one for rows in others for one in rows)]
        return sorted(found, key=lambda one: str(one.get("began_at", "")))

    async def _of(self, node: str) -> tuple[dict[str, Any], ...]:
        try:
            answer = await self._fleet.request(node, {"op": "transfers"}, within_s=_WITHIN_S)
            return TransfersTold.read(answer.payload).transfers
        except (NobodyServes, RequestLost, InvalidRequest):
            # What goes on there is only not shown.
            return ()

    async def _answer(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        del payload, body
        return Answer(TransfersTold(transfers=tuple(self._here())).told())
