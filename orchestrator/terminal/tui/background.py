"""Work that goes on beside the keys: asking the server, following a stream, a dialog that waits."""

from collections.abc import Callable, Coroutine
from typing import Any

from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.worker import Worker


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
