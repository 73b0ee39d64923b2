"""The bus of one process: a dictionary of handlers."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from itertools import count
from typing import Any

from orchestrator.core.errors import NobodyServes, RequestLost
from orchestrator.core.ports.bus import Answer, End, Hear, Serve

logger = logging.getLogger(__name__)


class LocalBus:
    """Hands each payload to the subject's handlers, at once; a handler that raises is logged, not felt."""

    def __init__(self) -> None:
        self._handlers: defaultdict[str, list[Hear]] = defaultdict(list)
        self._servers: defaultdict[str, list[Serve]] = defaultdict(list)
        self._turns = count()
        self._asked: set[asyncio.Task[Answer]] = set()

    async def open(self) -> None:
        """There is nothing to connect to."""

    async def close(self) -> None:
        """Give up the requests that wait."""
        for one in tuple(self._asked):
            one.cancel()
        await asyncio.gather(*self._asked, return_exceptions=True)

    @property
    def connected(self) -> bool:
        """There are no other nodes that could be missed."""
        return True

    async def flush(self) -> None:
        """Everybody has heard all that was published."""

    def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        """Tell the subject's handlers."""
        for handler in tuple(self._handlers.get(subject, ())):
            try:
                handler(payload)
            except Exception:
                logger.exception("a handler of %s failed", subject)

    def subscribe(self, subject: str, handler: Hear) -> End:
        """Call ``handler`` with each payload until the answer is called."""
        return _added(self._handlers, subject, handler)

    async def request(self, subject: str, payload: Mapping[str, Any], body: bytes = b"", *, within_s: float) -> Answer:
        """Ask one who serves the subject, each in turn."""
        server = self.server(subject)
        if server is None:
            raise nobody(subject)
        asked = asyncio.ensure_future(server(payload, body))
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        done, _ = await asyncio.wait((asked,), timeout=within_s)
        if not done:
            raise RequestLost(f"{subject} did not answer within {within_s:g} s.")
        if asked.cancelled():
            raise RequestLost(f"{subject} was closed.")
        failed = asked.exception()
        if failed is not None:
            logger.error("%s failed at a request", subject, exc_info=failed)
            raise RequestLost(f"{subject} failed at the request.") from failed
        return asked.result()

    def server(self, subject: str) -> Serve | None:
        """One who serves the subject, each in turn; None: nobody does."""
        servers = self._servers.get(subject)
        return servers[next(self._turns) % len(servers)] if servers else None

    def serve(self, subject: str, handler: Serve) -> End:
        """Answer requests until the answer is called."""
        return _added(self._servers, subject, handler)


def nobody(subject: str) -> NobodyServes:
    """The refusal of a request that nobody serves."""
    return NobodyServes(f"Nobody serves {subject}.")


def _added(registry: "defaultdict[str, list[Any]]", subject: str, handler: Any) -> End:
    # Each time it is added is another: the same handler may be added twice, and each is ended for itself.
    once = partial(handler)
    handlers = registry[subject]
    handlers.append(once)

    def end() -> None:
        if once in handlers:
            handlers.remove(once)
        if not handlers and registry.get(subject) is handlers:
            del registry[subject]

    return end
