"""The servers of a NATS bus: those of its URL, those that a cluster names, and who is tried when."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final

from orchestrator.adapters.bus.nats_link import Link
from orchestrator.adapters.bus.nats_url import NatsServer, discovered

BESIDE_S: Final = 0.5
"""A server that has said nothing for so long is tried no longer alone: the next is, beside it."""


class NatsServers:
    """The servers that are known; those of the URL for ever, the others as the last server named them."""

    def __init__(self, configured: Iterable[NatsServer]) -> None:
        self._configured = tuple(configured)
        self._named: tuple[NatsServer, ...] = ()
        self._left = ""

    def names(self, places: Sequence[str], by: NatsServer, *, tls: bool) -> None:
        """A server names all of its cluster; one without a cluster says nothing, and what another said holds."""
        if not places:
            return
        known = {(server.host, server.port) for server in self._configured}
        found = discovered(places, by, tls=tls)
        self._named = tuple(server for server in found if (server.host, server.port) not in known)

    def leave(self, server: NatsServer) -> None:
        """That one was lost: it is tried last."""
        self._left = server.shown

    def in_turn(self) -> list[NatsServer]:
        """All of them, as they are to be tried: by lot, those of the URL first, and the one that was lost last."""
        order = [*random.sample(self._configured, len(self._configured)), *random.sample(self._named, len(self._named))]
        return sorted(order, key=lambda server: server.shown == self._left)


async def first_that_answers(
    servers: list[NatsServer], connect: Callable[[NatsServer], Coroutine[Any, Any, Link]]
) -> Link:
    """A link to the first server that answers; those that were tried are taken from the list.

    Raises BusAway: what the last one said.
    """
    trying: set[asyncio.Task[Link]] = set()
    said: BaseException | None = None
    try:
        while servers or trying:
            if servers:
                trying.add(asyncio.ensure_future(connect(servers.pop(0))))
            patience_s = BESIDE_S if servers else None
            done, _ = await asyncio.wait(trying, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                trying.discard(task)
                if (said := task.exception()) is None:
                    return task.result()
        assert said is not None
        raise said
    finally:
        for task in trying:
            task.cancel()
        for late in await asyncio.gather(*trying, return_exceptions=True):
            if isinstance(late, Link):
                await late.close()
