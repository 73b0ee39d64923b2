"""Requests between the nodes of the PostgreSQL bus: those that this node waits for, and those that it works on.

Who works on a request longer than a second says so each second; from whom nothing is heard for longer, the asker
expects nothing more. Both times are of each node's own monotonic clock. Whether a request's time is over is a matter of
the database's clock, of which the asker takes the earliest reading and the one who serves the latest.
"""

import asyncio
import json
from base64 import b64decode, b64encode
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from orchestrator.core.errors import NobodyServes, RequestLost
from orchestrator.core.ports.bus import Answer

# -- What nodes of the PostgreSQL bus say to each other: JSON with bytes beside it, said in a notification if it
# is short
#
# A notification carries less than 8000 bytes. All of it is ASCII, so that its length does not depend on the
# database's encoding, and every one has an id of its own: of two that are the same in one transaction PostgreSQL
# sends one.

LONGEST: Final = 7999
"""Bytes that a notification carries at most."""

Kind = Literal["hint", "ask", "answer", "busy"]


@dataclass(frozen=True)
class Frame:
    """One message: who sends it, which one it is (an answer has the id of its request), and what it says."""

    kind: Kind
    sender: str
    id: str
    head: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""
    by: float = 0.0
    """By the database's clock: a request that is heard later is not begun."""
    parts: int = 0
    """In so many parts the rest of it lies in the database; 0: this is all of it."""

    @property
    def place(self) -> str:
        """Where it lies if it is too large to be said."""
        return f"{self.kind}.{self.id}"


def said(frame: Frame) -> str | None:
    """The notification, or None where it is too large for one."""
    if len(frame.body) > LONGEST:
        return None
    beside = {"body": b64encode(frame.body).decode()} if frame.body else {}
    text = _notification(frame, head=frame.head, **beside)
    return text if len(text) <= LONGEST else None


def large(frame: Frame) -> bytes:
    """What is laid into the database of a frame that is too large."""
    return json.dumps(frame.head).encode() + b"\n" + frame.body


def spilled(frame: Frame, parts: int) -> str:
    """The notification of a frame that lies in the database."""
    return _notification(frame, parts=parts)


def heard(text: str) -> Frame:
    """The frame of a notification. Raises ValueError, KeyError or TypeError for one of somebody else's."""
    got = json.loads(text)
    body = b64decode(got.get("body", ""))
    return Frame(
        got["kind"], got["from"], got["id"], got.get("head", {}), body, got.get("by", 0.0), got.get("parts", 0)
    )


def fetched(frame: Frame, large: bytes) -> Frame:
    """The whole of a frame of which the rest lay in the database."""
    head, _, body = large.partition(b"\n")
    return Frame(frame.kind, frame.sender, frame.id, json.loads(head), body)


def _notification(frame: Frame, **rest: object) -> str:
    by = {"by": frame.by} if frame.by else {}
    return json.dumps({"kind": frame.kind, "from": frame.sender, "id": frame.id, **by, **rest}, separators=(",", ":"))


# -- What a node of the PostgreSQL bus has yet to send: it outlives the connections, and never grows without end

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


# -- Requests between the nodes of the PostgreSQL bus: those that this node waits for, and those that it works on

NO_SIGN_S: Final = 5.0
"""A request of which nothing was heard for so long is lost: five signs of life were missed."""
QUIET_S: Final = 1.0
"""Work that takes less than this gives no sign of life, so that quick requests cost nothing more."""
_SIGNS: Final = 100
"""Requests named in one sign of life, which has to be short enough to be said."""


class GivenBack(Exception):
    """Raised when the node that got a request serves it no longer, and has not begun it."""


Serves = Callable[[str, Mapping[str, Any], bytes], Awaitable[Answer]]
"""Answers a request of another node. Raises NobodyServes and RequestLost."""


@dataclass
class _Waiting:
    answer: "asyncio.Future[Answer]"
    heard_at: float
    sent: bool = False


class Waiting:
    """The requests of this node that were not answered yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}

    def begin(self, request: str) -> "asyncio.Future[Answer]":
        """Wait for the answer to this request."""
        loop = asyncio.get_running_loop()
        one = self._waiting[request] = _Waiting(loop.create_future(), loop.time())
        return one.answer

    def end(self, request: str) -> None:
        """Nobody waits for it any longer."""
        answer = self._waiting.pop(request).answer
        if not answer.cancel() and not answer.cancelled():
            answer.exception()  # or asyncio complains that nobody looked

    def sent(self, request: str) -> None:
        """It is with another node, or on its way there."""
        one = self._waiting[request]
        one.sent, one.heard_at = True, asyncio.get_running_loop().time()

    def answered(self, frame: Frame) -> None:
        """The answer came, or that there is none; the first of several counts."""
        one = self._waiting.get(frame.id)
        if one is None or one.answer.done():
            return
        match frame.head.get("not"):
            case None:
                one.answer.set_result(Answer(frame.head["payload"], frame.body))
            case "served":
                one.answer.set_exception(GivenBack)
            case _:
                one.answer.set_exception(RequestLost("Who serves it failed at the request."))

    def worked_on(self, requests: list[str]) -> None:
        """Signs of life of these requests."""
        now = asyncio.get_running_loop().time()
        for request in requests:
            if (one := self._waiting.get(request)) is not None:
                one.heard_at = now

    def give_up_silent(self) -> None:
        """Lose the requests of which nothing was heard for too long."""
        now = asyncio.get_running_loop().time()
        for one in self._waiting.values():
            if one.sent and now - one.heard_at > NO_SIGN_S and not one.answer.done():
                one.answer.set_exception(RequestLost(f"Nothing was heard of it for {NO_SIGN_S:g} s."))

    def lose_all(self, why: str) -> None:
        """Answers to what was sent may have been missed."""
        for one in self._waiting.values():
            if one.sent and not one.answer.done():
                one.answer.set_exception(RequestLost(why))


class Working:
    """The requests of other nodes that this node works on, side by side."""

    def __init__(self, serves: Serves) -> None:
        self._serves = serves
        self._working: dict[asyncio.Task[None], tuple[Frame, float]] = {}

    def begin(self, frame: Frame, work: Awaitable[None]) -> None:
        """Work on a request, or on fetching it."""
        task = asyncio.ensure_future(work)
        self._working[task] = (frame, asyncio.get_running_loop().time())
        task.add_done_callback(lambda done: self._working.pop(done, None))

    async def answer(self, frame: Frame, by: str) -> Frame:
        """What is answered to a whole request; what the one who serves raised stays here."""
        try:
            answer = await self._serves(frame.head["subject"], frame.head["payload"], frame.body)
        except NobodyServes:
            return Frame("answer", by, frame.id, {"not": "served"})
        except RequestLost:
            return Frame("answer", by, frame.id, {"not": "done"})
        return Frame("answer", by, frame.id, {"payload": answer.payload}, answer.body)

    def signs(self) -> Iterator[tuple[str, list[str]]]:
        """Who asked what is worked on for so long that they are to be told."""
        now = asyncio.get_running_loop().time()
        asked: defaultdict[str, list[str]] = defaultdict(list)
        for frame, began in self._working.values():
            if now - began > QUIET_S:
                asked[frame.sender].append(frame.id)
        for node, requests in asked.items():
            for start in range(0, len(requests), _SIGNS):
                yield node, requests[start : start + _SIGNS]

    async def ended(self) -> None:
        """All that is worked on has ended."""
        await asyncio.gather(*self._working, return_exceptions=True)

    async def give_up(self) -> None:
        """End what is worked on."""
        tasks = tuple(self._working)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
