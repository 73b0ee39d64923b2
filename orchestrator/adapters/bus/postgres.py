"""The bus of several nodes that share a PostgreSQL: LISTEN and NOTIFY, and three tables of the moment beside them."""

import asyncio
from collections import deque
from typing import Final

from orchestrator.adapters.bus.letters import RETURNED, unpacked
from orchestrator.adapters.bus.postgres_notes import Note
from orchestrator.adapters.bus.postgres_session import LOSSES, Session, away
from orchestrator.adapters.bus.remote import LETTER_BYTES, RemoteBus
from orchestrator.core.errors import BusAway

# -- What a node of the PostgreSQL bus has yet to send: it outlives the connections, and never grows without end

MAX_HINTS: Final = 10_000
"""The most notifications that wait for a slow or absent database; then the oldest are dropped."""
MAX_HINT_BYTES: Final = 32 << 20
"""And so many bytes of them."""
_BATCH: Final = 500
"""Letters that go in one statement, so that no statement takes long."""


class Outbox:
    """A queue that drops its oldest notifications rather than grow."""

    def __init__(self) -> None:
        self._waiting: deque[Note] = deque()
        self._hints = self._hint_bytes = 0
        self.news = asyncio.Event()

    @property
    def urgent(self) -> bool:
        """Whether somebody waits for some of it: it is more than notifications."""
        return len(self._waiting) > self._hints

    def put(self, note: Note) -> None:
        """Send it as soon as there is a connection."""
        if not self._waiting or note.kind != "hint":
            # The other notifications go with the first that waits.
            self.news.set()
        self._waiting.append(note)
        self._count(note, 1)
        while self._hints > MAX_HINTS or self._hint_bytes > MAX_HINT_BYTES:
            self._drop_oldest_hint()

    def batch(self) -> list[Note]:
        """The next messages: so much that what comes after it does not wait long."""
        batch: list[Note] = []
        size = 0
        while self._waiting and len(batch) < _BATCH and size < LETTER_BYTES:
            note = self._waiting.popleft()
            self._count(note, -1)
            batch.append(note)
            size += len(note.letter)
        return batch

    def again(self, batch: list[Note]) -> None:
        """The connection went away while this was sent: of answers and signs of life the asker takes the first."""
        self._waiting.extendleft(note for note in reversed(batch) if note.kind == "letter")

    def take_requests(self) -> list[Note]:
        """The requests that were not sent; they are not sent any more."""
        requests = [note for note in self._waiting if note.kind == "request"]
        self._waiting = deque(note for note in self._waiting if note.kind != "request")
        return requests

    def _drop_oldest_hint(self) -> None:
        for index, note in enumerate(self._waiting):
            if note.kind == "hint":
                del self._waiting[index]
                self._count(note, -1)
                return

    def _count(self, note: Note, by: int) -> None:
        if note.kind == "hint":
            self._hints += by
            self._hint_bytes += by * len(note.letter)


# -- The bus of several nodes that share a PostgreSQL


class PostgresBus(RemoteBus[Session]):
    """A node on the bus of one database and schema, not open yet.

    ``url``: ``postgresql://…``; ``?search_path=NAME`` in it names the schema, which tells installations in one
    database apart. It needs two connections.
    """

    def __init__(self, url: str, *, node: str) -> None:
        super().__init__(node=node, network="the database of the bus")
        self._url = url
        self._outbox = Outbox()
        self._offered: set[str] = set()

    def send(self, node: str, tag: str, letter: bytes, *, answer_to: str = "") -> None:
        """Send to the channel of a node, with this connection or the next.

        Nobody knows whether a node that is gone gets it.
        """
        self._outbox.put(Note("letter", node, tag, letter))

    def offer(self, subject: str, tag: str, letter: bytes) -> None:
        """Send to one of the nodes that serve the subject by the list, and live."""
        if not self.connected:
            raise BusAway("The database of the bus cannot be reached.")
        self._outbox.put(Note("request", subject, tag, letter))

    def _tell(self, subject: str, data: bytes) -> None:
        self._outbox.put(Note("hint", subject, self.id, data))

    def _listen(self, subject: str) -> None:
        self._outbox.news.set()

    def _unlisten(self, subject: str) -> None:
        self._outbox.news.set()

    def _offer(self, subject: str) -> None:
        self._offered.add(subject)
        self._outbox.news.set()

    def _withdraw(self, subject: str) -> None:
        self._offered.discard(subject)
        self._outbox.news.set()

    def _take(self, note: Note) -> None:
        """A note came for this node; a request that comes back was for nobody."""
        match note.kind:
            case "hint" if self._heard_subjects[note.to]:
                self._hear(note.to, note.letter)
            case "request":
                self._answering.asked(note.to, note.tag, unpacked(note.letter))
            case "letter":
                self._mail.came(note.tag, unpacked(note.letter))

    def _returned(self, note: Note) -> None:
        self._mail.came(note.tag, RETURNED)

    async def _connect(self) -> None:
        self._offered = set(self._served_subjects)
        session = Session(self._url, self.id, take=self._take, returned=self._returned)
        try:
            await session.open(self._outbox, self._offered, self._heard_subjects)
        except BaseException as error:
            await session.close()
            if isinstance(error, (*LOSSES, ValueError)):
                raise away(self._url, error) from None
            raise
        self._line, self._up = session, True

    def _left(self, line: Session | None) -> None:
        for request in self._outbox.take_requests():
            self._returned(request)
