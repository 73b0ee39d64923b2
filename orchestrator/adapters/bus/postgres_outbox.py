"""What a node of the PostgreSQL bus has yet to send: it outlives the connections, and never grows without end."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

from orchestrator.adapters.bus.postgres_frames import Frame
from orchestrator.core.errors import NobodyServes, RequestLost

MAX_HINTS: Final = 10_000
"""So many hints wait for a database that is slow or away; then the oldest are dropped."""
MAX_HINT_BYTES: Final = 32 << 20
"""And so many bytes of them."""
_BATCH: Final = 500
"""So many messages go in one statement, so that no statement takes long."""


@dataclass(eq=False)
class Outgoing:
    """A notification and where it goes: a hint to all, others to one ``node`` or to one of those who serve ``subject``.

    With neither it goes nowhere: it marks a place in the queue.
    """

    text: str = ""
    hint: bool = False
    node: str | None = None
    subject: str | None = None
    large: Frame | None = None
    """A hint that is too large to be said. It is spilled in its turn, so that hints keep their order."""
    sent: "asyncio.Future[str | None] | None" = None
    """Gets the node to which it went, or None; NobodyServes where it was not sent, RequestLost where it may be."""

    @property
    def hint_bytes(self) -> int:
        """What it takes of the room for hints."""
        return len(self.large.body if self.large else self.text) if self.hint else 0

    @property
    def wanted(self) -> bool:
        """Whether nobody waited for its being sent, or still does."""
        return self.sent is None or not self.sent.done()

    @property
    def again(self) -> bool:
        """Whether it may be sent twice: of answers and signs of life the asker takes the first."""
        return self.node is not None


class Outbox:
    """A queue that drops its oldest hints rather than grow."""

    def __init__(self) -> None:
        self._waiting: deque[Outgoing] = deque()
        self._hints = self._hint_bytes = 0
        self.news = asyncio.Event()

    def put(self, message: Outgoing) -> None:
        """Send it as soon as there is a connection."""
        self._waiting.append(message)
        self._count(message, 1)
        while self._hints > MAX_HINTS or self._hint_bytes > MAX_HINT_BYTES:
            self._drop_oldest_hint()
        self.news.set()

    def batch(self) -> list[Outgoing]:
        """What goes next, without what nobody waits for any longer."""
        batch: list[Outgoing] = []
        while self._waiting and len(batch) < _BATCH:
            message = self._waiting.popleft()
            self._count(message, -1)
            if message.wanted:
                batch.append(message)
        return batch

    def lost(self, batch: list[Outgoing]) -> None:
        """The connection went away while this was sent: what may be sent twice is."""
        self._waiting.extendleft(message for message in reversed(batch) if message.again)
        for message in batch:
            if message.sent is not None and message.wanted:
                message.sent.set_exception(RequestLost("The connection to the database went away."))

    def refuse_requests(self) -> None:
        """There is no connection: what somebody waits for is not sent, and they are told so."""
        kept = [message for message in self._waiting if message.sent is None]
        for message in self._waiting:
            if message.sent is not None and message.wanted:
                message.sent.set_exception(NobodyServes("The database of the bus cannot be reached."))
        self._waiting = deque(kept)

    def _drop_oldest_hint(self) -> None:
        for place, message in enumerate(self._waiting):
            if message.hint:
                del self._waiting[place]
                self._count(message, -1)
                return

    def _count(self, message: Outgoing, by: int) -> None:
        self._hints += by * message.hint
        self._hint_bytes += by * message.hint_bytes
