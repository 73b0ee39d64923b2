"""Work that goes on beside the keys: asking the server, following a stream, a dialog that waits."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from textual.dom import DOMNode
from textual.worker import Worker


def begin(node: DOMNode, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any, in_place_of: str = "") -> None:
    """Begin it; ``in_place_of``: what this node had begun under the same name ends.

    It is given as a function: a coroutine that ends before it began would be complained about.
    """
    wanted: Callable[[], Coroutine[None, None, Any]] = partial(work, *args)
    worker: Worker[Any] = node.run_worker(wanted, group=in_place_of or "default", exclusive=bool(in_place_of))
    del worker
