"""The events that a frame of a computer becomes for the owner of its link."""

import hashlib
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.core.errors import FrameRefused
from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import RunId, SettledCall

# -- The events that a frame of a computer becomes for the owner of its link -------------


@dataclass(frozen=True)
class Labelled:
    """The computer has another label; answer with ``keep_labels`` once it is kept."""

    n: int
    label: str | None
    """The label as it is on the wire."""


@dataclass(frozen=True)
class Greeted:
    """The computer said hello; answer with ``welcome`` or ``refuse``."""

    hello: wire.Hello


@dataclass(frozen=True)
class Finished:
    """A call ended."""

    run_id: RunId
    result: wire.Result
    body: bytes


@dataclass(frozen=True)
class Moved:
    """The computer took another frame of the bodies that go out in parts."""


@dataclass(frozen=True)
class Coming:
    """A part of a call's outcome came, and more has to."""

    run_id: RunId


@dataclass(frozen=True)
class Lost:
    """The outcome of a call came broken; a settle can ask for it again."""

    run_id: RunId
    reason: str


@dataclass(frozen=True)
class Output:
    """What a running program wrote; parts may be missing."""

    run_id: RunId
    offset: int
    """Bytes that the program had written before these."""
    data: bytes


@dataclass(frozen=True)
class DeskAsked:
    """A player at this computer wants something; ``body`` is what they typed, nothing more than data."""

    request: wire.Desk
    body: bytes


@dataclass(frozen=True)
class Mirrored:
    """What a computer says of its screens, or of keys that were typed from here; nothing more than data."""

    message: wire.Picture | wire.Unseen | wire.Screens | wire.Keyed
    body: bytes


@dataclass(frozen=True)
class Declined:
    """A call was refused unrun."""

    run_id: RunId
    code: str
    message: str


@dataclass(frozen=True)
class SettledAll:
    """The answer to a settle."""

    number: int
    calls: tuple[SettledCall, ...]


@dataclass(frozen=True)
class Complained:
    """The computer says that we broke the protocol."""

    code: str
    message: str
    run_id: RunId | None


@dataclass(frozen=True)
class Alive:
    """The Lua program answered the last :meth:`ComputerLink.probe`."""


@dataclass(frozen=True)
class Ticked:
    """The computer told the time of its game, in milliseconds since it started; paused, that stands still."""

    clock_ms: int


@dataclass(frozen=True)
class Stands:
    """The computer told its fuel and the place that it knew last; None: it does not know."""

    fuel: int | None
    """-1: turtles need none; as the limit."""
    fuel_limit: int | None
    place: wire.Place | None
    age_s: int
    """How long ago it knew that place."""


@dataclass(frozen=True)
class Ended:
    """The link is over; the connection should be closed."""

    reason: str


LinkEvent = (
    Greeted
    | Labelled
    | Finished
    | Moved
    | Coming
    | Lost
    | Output
    | DeskAsked
    | Mirrored
    | Declined
    | SettledAll
    | Complained
    | Alive
    | Ticked
    | Stands
    | Ended
)


# -- Bodies in parts, both ways: what is on its way out, and what has half come in -------
#
# Theory. A body over one frame goes out as its message with the first part and ``chunk`` messages with the rest,
# in order. Bodies go one after the other, and at most ``WINDOW_FRAMES`` frames of them are unacknowledged on a
# connection, so that neither a slow computer nor the game's queue of 256 events is flooded. The receiver answers
# every frame with one ``chunk_ack``, that of a part it drops too: an acknowledgement frees the oldest frame of
# its call. A transfer that is dropped sends no more frames; those already sent stay counted until they are
# acknowledged. Everything here belongs to one connection and ends with it.

MAX_PARTIAL: Final = 8
"""Bodies half received on one connection: as many as calls can be open."""


@dataclass
class _Outgoing:
    """A body on its way."""

    run_id: RunId
    first: bytes
    """The frame of the message itself."""
    body: bytes
    described: wire.Body
    seq: int | None
    offset: int = 0
    """Bytes handed out."""

    def next_frame(self) -> bytes:
        offset = self.offset
        self.offset = min(offset + wire.MAX_BODY_BYTES, len(self.body))
        if offset == 0:
            return self.first
        described = self.described.model_copy(update={"offset": offset})
        chunk = wire.Chunk(journal_seq=self.seq, call_id=self.run_id, body=described)
        return wire.encode(chunk, self.body[offset : self.offset])


class Outbox:
    """Bodies on their way out, under the window."""

    def __init__(self) -> None:
        self._queue: deque[_Outgoing] = deque()
        self._unacknowledged: list[RunId] = []
        """The call of each frame that is handed out and not acknowledged, oldest first."""
        self._handed: list[RunId] = []

    def add(self, message: Any, body: bytes) -> None:
        """Queue a body in parts; ``message`` is the ``call`` or ``result`` that carries it.

        Raises FrameRefused and queues nothing when the header or the body is too large.
        """
        if len(body) > wire.MAX_WHOLE_BYTES:
            raise FrameRefused(
                f"The body has {len(body)} bytes, over {wire.MAX_WHOLE_BYTES}.",
                remedy="Work on a smaller file or in smaller parts.",
            )
        first = wire.encode(message, body[: wire.MAX_BODY_BYTES])
        seq = getattr(message, "journal_seq", None)
        self._queue.append(_Outgoing(RunId(message.call_id), first, body, message.body, seq))

    def ready(self) -> bool:
        """Whether a frame may go now."""
        return bool(self._queue) and len(self._unacknowledged) < wire.WINDOW_FRAMES

    def next_frame(self) -> bytes | None:
        """The next frame; None: there is none, or the window is full."""
        if not self.ready():
            return None
        going = self._queue[0]
        frame = going.next_frame()
        self._unacknowledged.append(going.run_id)
        if going.offset == len(going.body):
            self._queue.popleft()
            self._handed.append(going.run_id)
        return frame

    def has(self, run_id: RunId) -> bool:
        """Whether a frame of this call still has to go, or is on its way."""
        return run_id in self._unacknowledged or any(one.run_id == run_id for one in self._queue)

    def handed(self) -> list[RunId]:
        """The calls whose last frame was handed out since this was asked last."""
        handed, self._handed = self._handed, []
        return handed

    def acknowledged(self, run_id: RunId) -> bool:
        """A frame of this call arrived. False: none was on its way."""
        if run_id not in self._unacknowledged:
            return False
        self._unacknowledged.remove(run_id)
        return True

    def drop(self, run_id: RunId) -> None:
        """Send no more of this call."""
        self._queue = deque(one for one in self._queue if one.run_id != run_id)


@dataclass
class Whole:
    """A body that is complete, with the message that carried its first part."""

    message: Any
    body: bytes


@dataclass
class _Incoming:
    message: Any
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    sum: Any = field(default_factory=hashlib.sha256)

    def add(self, part: bytes) -> None:
        self.parts.append(part)
        self.size += len(part)
        self.sum.update(part)


class Inbox:
    """Bodies half received."""

    def __init__(self) -> None:
        self._partial: dict[str, _Incoming] = {}

    def begin(self, message: Any, part: bytes) -> None:
        """The first part of a body; a second beginning of the same call replaces the first. Raises FrameRefused."""
        self._partial.pop(message.call_id, None)
        if len(self._partial) >= MAX_PARTIAL:
            raise FrameRefused(f"{MAX_PARTIAL} bodies are half here already.", remedy="Send one after the other.")
        self._partial[message.call_id] = incoming = _Incoming(message)
        incoming.add(part)

    def go_on(self, chunk: wire.Chunk, part: bytes) -> Whole | None:
        """The next part. None: it belongs to nothing, or more has to come: see :meth:`has`.

        Raises FrameRefused (a gap, an overlap, another sha256) and drops what was there of this body.
        """
        incoming = self._partial.get(chunk.call_id)
        if incoming is None:
            return None
        del self._partial[chunk.call_id]
        described = incoming.message.body
        if chunk.body.offset != incoming.size:
            raise FrameRefused(f"A part begins at {chunk.body.offset}; {incoming.size} bytes are here.")
        if (chunk.body.total, chunk.body.sha256) != (described.total, described.sha256):
            raise FrameRefused("A part is of another body than the first part.")
        incoming.add(part)
        if incoming.size < described.total:
            self._partial[chunk.call_id] = incoming
            return None
        if incoming.sum.hexdigest() != described.sha256:
            raise FrameRefused("The whole body does not have the sha256 that its header names.")
        return Whole(incoming.message, b"".join(incoming.parts))

    def has(self, run_id: str) -> bool:
        """Whether a body of this call is half here."""
        return run_id in self._partial

    def drop(self, run_id: str) -> None:
        """Forget what is here of a body."""
        self._partial.pop(run_id, None)
