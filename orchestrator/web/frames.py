"""uvicorn's WebSocket protocol with a direct way for frames, past ASGI's queue and its messages.

Theory. ASGI costs a queue, a dictionary and a change of task for each frame. A endpoint that has
accepted a socket may ask for what it receives to be handed over at once, and may write at once
while the connection takes it. Bytes are cut into whole frames here; a masked binary message in one
frame is read here too, and every other frame (control, text, parts of a message, what is too large
or broken) goes through the library as it came. Handshake, close, ping and the end of the
connection, which ``receive`` tells as ever, stay uvicorn's. Reading never pauses for who listens:
a frame is dealt with before the next one is looked at.
"""

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets import frames
from websockets.protocol import OPEN

from orchestrator.web import connections
from orchestrator.web.peers import KNOWN, Peers

EXTENSION: Final = "cc-orchestrator.frames"
"""The key under which the protocol stands in the extensions of a scope."""

Hear = Callable[[bytes | str], None]

_BINARY: Final = 0x82
"""The first byte of a binary message in one frame."""
_FIN, _CONTROL, _MASKED = 0x80, 0x08, 0x80
_apply_mask: Callable[[bytes, bytes], bytes] = vars(frames)["apply_mask"]
"""In C where the library has it so."""


class FrameProtocol(WebSocketsSansIOProtocol):
    """One connection; without :meth:`listen` it is uvicorn's own. ``peers``: all connections of the server."""

    _hear: Hear | None = None
    _early = False
    """Whether bytes came before the handshake was answered: then the library reads all of them."""
    _in_parts = False
    """Whether a message in several frames has begun."""
    _tail: bytearray | None = None
    """The beginning of a frame."""
    _stuck: asyncio.TimerHandle | None = None
    """When a peer that takes nothing is let go."""
    _missing = 0
    """Bytes that the tail has to have before it is looked at again."""

    def __init__(self, *args: Any, peers: Peers | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._peers = Peers() if peers is None else peers

    def known(self, token: str) -> None:
        """Somebody with a token of this hash is behind the connection."""
        self._peers.known(self.transport, token)

    # -- in ------------------------------------------------------------------------------

    def handle_connect(self, event: Any) -> None:
        """Offer the direct way to the application, which begins in a later turn of the loop."""
        super().handle_connect(event)
        if not self.handshake_complete:
            extensions: Any = self.scope["extensions"]
            extensions[EXTENSION] = self
            extensions[KNOWN] = self.known

    def listen(self, hear: Hear) -> None:
        """Hand over each frame from now on, those first that wait for ``receive``."""
        self._hear = hear
        for event in [self.queue.get_nowait() for _ in range(self.queue.qsize())]:
            if event["type"] == "websocket.receive":
                data = event.get("bytes")
                hear(data if data is not None else event.get("text") or "")
            else:
                self.queue.put_nowait(event)
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if not self.handshake_complete or self._early:
            self._early = self.handshake_initiated
            super().data_received(data)
            return
        if self._tail is not None:
            self._tail += data
            if len(self._tail) < self._missing:
                return
            data, self._tail = bytes(self._tail), None
        at, end = 0, len(data)
        while at < end:
            head, size = _measure(data, at, end)
            if size > self.config.ws_max_size or self.conn.state is not OPEN:
                super().data_received(data[at:])
                return
            if at + head + size > end or not head:
                self._tail, self._missing = bytearray(data[at:]), head + size
                return
            self._frame(data, at, at + head, at + head + size)
            at += head + size

    def _frame(self, data: bytes, at: int, body: int, end: int) -> None:
        """A whole frame came."""
        first = data[at]
        if self._hear is not None and first == _BINARY and data[at + 1] & _MASKED and not self._in_parts:
            self._hear(_apply_mask(data[body:end], data[body - 4 : body]))
            return
        if not first & _CONTROL:
            self._in_parts = not first & _FIN
        super().data_received(data[at:end])

    def send_receive_event_to_app(self) -> None:
        """A message is complete that the library read."""
        if self._hear is None:
            super().send_receive_event_to_app()
            return
        data = b"".join(self.frames)
        self.frames = []
        if not self.close_sent:
            # Text is refused whatever it says, so it need not be good UTF-8.
            self._hear(data if self.curr_msg_data_type == "bytes" else data.decode("utf-8", "replace"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over; who listened is let go."""
        self._hear = None
        self._peers.leaves(self.transport)
        self.resume_writing()
        super().connection_lost(exc)

    # -- out -----------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """The peer takes less than it is sent: who listens looks after that by itself, another peer is let go."""
        super().pause_writing()
        if self._hear is None and self._stuck is None:
            self._stuck = self.loop.call_later(connections.TAKES_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The peer has taken what was sent."""
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        super().resume_writing()

    def write(self, messages: Sequence[bytes]) -> None:
        """Write messages at once, in order. Raises ConnectionError when the connection is over."""
        if self.disconnected or self.conn.state is not OPEN or self.transport.is_closing():
            raise ConnectionError("the connection is over")
        parts: list[bytes] = []
        for message in messages:
            parts += (_head(len(message)), message)
        self.transport.write(b"".join(parts))

    def abort(self) -> None:
        """End the connection at once, whatever was not taken yet."""
        self.transport.abort()


def _measure(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The size of a frame's head, and of its body; 0 and what is missing of the head until it is there."""
    have = end - at
    if have < 2:
        return 0, 2
    size = data[at + 1] & 0x7F
    head = 2 if size < 126 else 4 if size == 126 else 10
    masked = 4 if data[at + 1] & _MASKED else 0
    if have < head + masked:
        return 0, head + masked
    if head == 4:
        (size,) = struct.unpack_from("!H", data, at + 2)
    elif head == 10:
        (size,) = struct.unpack_from("!Q", data, at + 2)
    return head + masked, size


def _head(size: int) -> bytes:
    """The head of a binary message in one frame, as a server sends it."""
    if size < 126:
        return bytes((_BINARY, size))
    return struct.pack("!BBH", _BINARY, 126, size) if size < 65536 else struct.pack("!BBQ", _BINARY, 127, size)
