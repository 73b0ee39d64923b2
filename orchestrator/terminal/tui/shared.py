"""What every part of the screen has at hand: the server, what waits, and a place to say things."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.worker import Worker

from orchestrator.client import ServerUnreachable
from orchestrator.client.live import Live
from orchestrator.core.errors import OrchestratorError
from orchestrator.terminal.tui.reviews import Reviews

# -- Work that goes on beside the keys: asking the server, following a stream, a dialog that waits


def begin(node: DOMNode, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any, in_place_of: str = "") -> None:
    """Begin it; ``in_place_of``: what this node had begun under the same name ends.

    It is given as a function: a coroutine that ends before it began would be complained about.
    """

    async def wanted() -> None:
        try:
            await work(*args)
        except NoMatches:
            if not _is_left(node):
                raise

    worker: Worker[Any] = node.run_worker(wanted, group=in_place_of or "default", exclusive=bool(in_place_of))
    del worker


def _is_left(node: DOMNode) -> bool:
    """Whether its screen was left: the parts of it go first, and its work is ended after that."""
    app = node.app
    return not app.is_running or node.screen not in app.screen_stack


# -- What every part of the screen has at hand: the server, what waits, and a place to say things


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
        return await self._said(method, self.live.ask(method, path, body, **query))

    async def ask_long(self, method: str, path: str, body: Any = None) -> Any:
        """As :meth:`ask`, of what may take minutes."""
        return await self._said(method, self.live.ask_long(method, path, body))

    async def _said(self, method: str, asking: Awaitable[Any]) -> Any:
        try:
            return await asking
        except OrchestratorError as error:
            if method == "GET" and isinstance(error, ServerUnreachable):
                # The line of the connection says so, and all is read again when it is back.
                return None
            self.tell(why_not(method, error))
            return None


def why_not(method: str, error: OrchestratorError) -> str:
    """Why a call brought nothing, as a sentence that does not say more than is known."""
    if method == "GET":
        return str(error)
    lost = isinstance(error, ServerUnreachable) and error.may_have_arrived
    return f"{'Not heard whether it was carried out' if lost else 'Not carried out'}: {error}"
