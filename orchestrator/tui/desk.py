"""What every part of the screen has at hand: the server, what waits, and a place to say things."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from orchestrator.client import ServerUnreachable
from orchestrator.core.errors import OrchestratorError
from orchestrator.live import Live
from orchestrator.tui.reviews import Reviews


def now() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


@dataclass
class Desk:
    """One person at one server."""

    live: Live
    reviews: Reviews
    tell: Callable[[str], None]
    """Says a sentence below everything."""
    go: Callable[[str, str | None], None]
    """Shows another part, and there what has this key."""

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """One call; the answer's JSON, or None, and said why: there is none."""
        try:
            return await self.live.ask(method, path, body, **query)
        except OrchestratorError as error:
            if method == "GET" and isinstance(error, ServerUnreachable):
                # The line of the connection says so, and all is read again when it is back.
                return None
            self.tell(f"Not carried out: {error}" if method != "GET" else str(error))
            return None
