"""The bus of one process: a dictionary of handlers."""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

logger = logging.getLogger(__name__)

Handler = Callable[[Mapping[str, Any]], None]


class LocalBus:
    """Hands each payload to the subject's handlers, at once; a handler that raises is logged, not felt."""

    def __init__(self) -> None:
        self._handlers: defaultdict[str, list[Handler]] = defaultdict(list)

    def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        """Tell the subject's handlers."""
        for handler in tuple(self._handlers.get(subject, ())):
            try:
                handler(payload)
            except Exception:
                logger.exception("a handler of %s failed", subject)

    def subscribe(self, subject: str, handler: Handler) -> Callable[[], None]:
        """Call ``handler`` with each payload until the answer is called."""
        handlers = self._handlers[subject]
        handlers.append(handler)

        def unsubscribe() -> None:
            if handler in handlers:
                handlers.remove(handler)
            if not handlers:
                self._handlers.pop(subject, None)

        return unsubscribe
