"""Open sockets: the adapter for hub and reviewers, and all sockets and streams by holder."""

import asyncio
import struct
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets import frames
from websockets.protocol import OPEN

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Identity, TokenRow
from orchestrator.web import connections
from orchestrator.web.peers import KNOWN, Peers

# -- uvicorn's WebSocket protocol with a direct way for frames, past ASGI's queue and its messages
#
# Theory. ASGI costs a queue, a dictionary and a change of task for each frame. An endpoint that has accepted a socket
# may ask for its received frames to be handed over at once, and may write at once while the connection takes it. Bytes
# are cut into whole frames here. A masked binary message in one frame is read here too; every other frame (control,
# text, parts of a message, too large or broken ones) goes through the library as it came. Handshake, close, ping and
# the end of the connection, which ``receive`` tells as always, stay uvicorn's. Reading never pauses for a listener: a
# frame is dealt with before the next one is looked at.

EXTENSION: Final = "cc-orchestrator.frames"
"""The key under which the protocol is in the extensions of a scope."""

Hear = Callable[[bytes | str], None]

_BINARY: Final = 0x82
"""The first byte of a binary message in one frame."""
_TEXT: Final = 0x81
"""The same of text."""
_FIN, _CONTROL, _MASKED = 0x80, 0x08, 0x80
_apply_mask: Callable[[bytes, bytes], bytes] = vars(frames)["apply_mask"]
"""In C where the library has it so."""


class _End:
    """In the place of the queue of a connection whose frames are handed over: only its end comes here."""

    __slots__ = ("_event", "_waiter")

    def __init__(self) -> None:
        self._event: Any = None
        self._waiter: asyncio.Future[None] | None = None

    def put_nowait(self, event: Any) -> None:
        """The connection ended; the first reason counts."""
        if self._event is None:
            self._event = event
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> Any:
        """Wait for it."""
        if self._event is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._event


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

    serving: Awaitable[None] | None = None
    """The rest of what the application does for a connection, once its layers have returned."""

    def __init__(self, *args: Any, peers: Peers | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._peers = Peers() if peers is None else peers
        self._layers, self.app = self.app, self._serve

    def known(self, token: str) -> None:
        """Somebody with a token of this hash is behind the connection."""
        self._peers.known(self.transport, token)

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        await self._layers(scope, receive, send)
        if self.serving is not None:
            await self.serving

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
        self._slim()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def _slim(self) -> None:
        """Let go of what only a handshake needs, 8 kB: thousands of connections wait for days after theirs."""
        slim = _End()
        for _ in range(self.queue.qsize()):
            slim.put_nowait(self.queue.get_nowait())
        self.queue = slim  # type: ignore[assignment]
        # The library's parser holds the request for good.
        self.request.headers.clear()
        del self.request, self.response
        self.scope["headers"] = []

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
        if first == _BINARY and data[at + 1] & _MASKED and not self._in_parts:
            message = _apply_mask(data[body:end], data[body - 4 : body])
            if self._hear is not None:
                self._hear(message)
            else:
                self.frames, self.curr_msg_data_type = [message], "bytes"
                super().send_receive_event_to_app()
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
        """The connection is over; the listener is let go."""
        self._hear = None
        self._peers.leaves(self.transport)
        self.resume_writing()
        super().connection_lost(exc)

    # -- out -----------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """The peer takes less than it is sent: a listener looks after that by itself, another peer is let go."""
        super().pause_writing()
        if self._hear is None and self._stuck is None:
            self._stuck = self.loop.call_later(connections.TAKES_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The peer has taken what was sent."""
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        super().resume_writing()

    def write(self, messages: Sequence[bytes], first: int = _BINARY) -> None:
        """Write messages at once, in order. Raises ConnectionError when the connection is over."""
        self.write_framed(_framed(messages, first))

    def write_framed(self, frames: bytes) -> None:
        """Write whole frames at once. Raises as ``write``."""
        if self.disconnected or self.conn.state is not OPEN or self.transport.is_closing():
            raise ConnectionError("the connection is over")
        self.transport.write(frames)

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


def text_frames(texts: Iterable[bytes]) -> bytes:
    """Texts as they are sent, each in a frame: the same for all connections."""
    return _framed(texts, _TEXT)


def _framed(messages: Iterable[bytes], first: int) -> bytes:
    parts: list[bytes] = []
    for message in messages:
        parts += (_head(len(message), first), message)
    return b"".join(parts)


def _head(size: int, first: int) -> bytes:
    """The head of a message in one frame, as a server sends it."""
    if size < 126:
        return bytes((first, size))
    return struct.pack("!BBH", first, 126, size) if size < 65536 else struct.pack("!BBQ", first, 127, size)


# -- What stays open: a socket as the hub and the reviewers' endpoint take it, and all sockets and streams by
# holder

LOOK_EVERY_S: Final = 0.5
"""Half of the second within which a revoked token's socket is closed; a look is one count in the store."""
CLOSE_S: Final = 2.0
"""Seconds that a peer gets to take the frames before the close; one that takes nothing is cut off."""
MOST_OPEN: Final = 256
"""Streams and sockets of one token; a tab of the page has four."""
_REVOKED: Final = "the token was revoked"
_SIGNED_OUT: Final = "the browser was signed out"


class TooManyStreams(OrchestratorError):
    """One token has as many streams and sockets open as it may."""

    code = "too_many_streams"
    http_status = 429


class StarletteSocket:
    """A Starlette WebSocket as the hub and the reviewers' endpoint take it."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._closed = False

    async def receive(self) -> bytes | str | None:
        """The next frame; None when the connection is over."""
        message = await self._websocket.receive()
        if message["type"] != "websocket.receive":
            self._closed = True
            return None
        data: bytes | None = message.get("bytes")
        text: str | None = message.get("text")
        return data if data is not None else text

    async def send(self, frame: bytes | str) -> None:
        """Write one frame. Raises OSError when the connection is over."""
        try:
            if isinstance(frame, bytes):
                await self._websocket.send({"type": "websocket.send", "bytes": frame})
            else:
                await self._websocket.send_text(frame)
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ConnectionError(str(error) or "the connection is over") from error

    def write_at_once(self, *texts: bytes) -> bool:
        """Write text frames now. False: they have to be sent. Raises OSError when the connection is over."""
        return self.write_framed(text_frames(texts))

    def write_framed(self, frames: bytes) -> bool:
        """The same with frames of :func:`text_frames`."""
        del frames
        return False

    async def close(self, code: int, reason: str) -> None:
        """Close within ``CLOSE_S`` seconds; closing twice is harmless."""
        if not self._closed:
            self._closed = True
            with suppress(RuntimeError, WebSocketDisconnect, OSError):
                try:
                    async with asyncio.timeout(CLOSE_S):
                        await self._websocket.close(code, reason)
                except TimeoutError:
                    self._cut_off()

    def _cut_off(self) -> None:
        """End the connection without a word, as far as that is known how."""


class DirectSocket(StarletteSocket):
    """The same over :class:`FrameProtocol`, which hands frames over at once."""

    def __init__(self, websocket: WebSocket, protocol: FrameProtocol) -> None:
        super().__init__(websocket)
        self.listen: Callable[[Callable[[bytes | str], None]], None] = protocol.listen
        """Hand over each frame from now on; ``receive`` answers only when the connection is over."""
        self.takes_more: Callable[[], bool] = protocol.writable.is_set
        """Whether the other side keeps up; if it does not, ``send`` waits until it does."""
        self.write: Callable[..., None] = protocol.write
        """Write frames at once, in order. Raises OSError when the connection is over."""
        self._write_framed = protocol.write_framed
        self._abort = protocol.abort

    def write_framed(self, frames: bytes) -> bool:
        """The same; while the other side has no room they have to be sent."""
        if not self.takes_more():
            return False
        self._write_framed(frames)
        return True

    def _cut_off(self) -> None:
        self._abort()


def accepted(websocket: WebSocket) -> StarletteSocket:
    """An accepted WebSocket as a socket, by the shortest way that its server offers."""
    protocol = websocket.scope.get("extensions", {}).get(EXTENSION)
    return StarletteSocket(websocket) if protocol is None else DirectSocket(websocket, protocol)


async def serve_on(websocket: WebSocket, serving: Awaitable[None]) -> None:
    """Serve an accepted socket, outside of the application's layers where its server can.

    They are fifteen coroutines with what they hold, 6 kB, and thousands of connections wait for days.
    """
    protocol = websocket.scope.get("extensions", {}).get(EXTENSION)
    if protocol is None:
        await serving
    else:
        protocol.serving = serving


class Tokens(Protocol):
    """The part of a store that tells that tokens were revoked."""

    async def count_revoked(self) -> int:
        """How many tokens were revoked."""

    async def list_tokens(self) -> list[TokenRow]:
        """All tokens."""


class Connection(Protocol):
    """A connection that stays open, and can be ended."""

    async def close(self, code: int, reason: str) -> None:
        """Close; closing twice is harmless."""


class OpenStream:
    """A stream of events that somebody reads."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        """Set when nothing more may be told."""

    async def close(self, code: int, reason: str) -> None:
        """End it: an answer that has begun has no place for a reason."""
        del code, reason
        self.over.set()


class OpenSockets:
    """The open sockets and streams by kind and name of whom they belong to."""

    def __init__(self) -> None:
        self._open: defaultdict[tuple[str, str], set[Connection]] = defaultdict(set)
        self._count: Counter[tuple[tuple[str, str], str]] = Counter()
        """How many each token has."""
        self._tokens: dict[Connection, str] = {}
        """The hash of the token with which each was opened."""
        self._sessions: dict[Connection, str] = {}
        """The hash of the browser's secret by which each was opened."""
        self._closed = False
        self.looked_at = -1
        """How many tokens had been revoked when all of these were looked at; -1: not all were."""

    @contextmanager
    def holding(self, identity: Identity, websocket: WebSocket, looked_at: int = -1) -> Iterator[StarletteSocket]:
        """An accepted socket, known by its holder while this is open.

        ``looked_at``: as it was before the token was looked up; -1: that is not known.
        """
        socket = accepted(websocket)
        with self._known(identity, socket, looked_at):
            yield socket

    @contextmanager
    def streaming(self, identity: Identity) -> Iterator[asyncio.Event]:
        """A stream, known by its holder while this is open; it is over when the event is set."""
        stream = OpenStream()
        full = self._is_full(identity)
        with self._known(identity, stream):
            # Several may have been accepted at once.
            if self._closed or full:
                stream.over.set()
            yield stream.over

    def check_room(self, identity: Identity) -> None:
        """Raises TooManyStreams when a token has as many open as it may."""
        if self._is_full(identity):
            raise TooManyStreams(
                f"{MOST_OPEN} streams and sockets are open with this token.",
                remedy="Close some of them: tabs, `tasks watch`, programs that follow a task.",
            )

    def _is_full(self, identity: Identity) -> bool:
        holder = (identity.kind, identity.name)
        return self._count[holder, identity.token_hash] >= MOST_OPEN

    @contextmanager
    def _known(self, identity: Identity, one: Connection, looked_at: int = -1) -> Iterator[None]:
        holder = (identity.kind, identity.name)
        self._open[holder].add(one)
        self._count[holder, identity.token_hash] += 1
        if identity.auth in ("token", "session", "oidc"):
            # A connection that came in otherwise has no token that could be revoked.
            self._tokens[one] = identity.token_hash
        if identity.session_hash:
            self._sessions[one] = identity.session_hash
        if looked_at != self.looked_at:
            # Its token may have been revoked since it was looked up, and nobody looks for that any more. Without a
            # look in between, a token that was revoked since changes the count: the next look is for all.
            self.looked_at = -1
        try:
            yield
        finally:
            self._tokens.pop(one, None)
            self._sessions.pop(one, None)
            self._count[holder, identity.token_hash] -= 1
            if not self._count[holder, identity.token_hash]:
                del self._count[holder, identity.token_hash]
            self._open[holder].discard(one)
            if not self._open[holder]:
                del self._open[holder]

    async def hang_up(self, kind: str, name: str) -> None:
        """Close what a holder has open whose token was revoked."""
        await self._drop(set(self._open.get((kind, name), ())), _REVOKED)

    async def hang_up_session(self, session_hash: str) -> None:
        """Close what a browser has open that was signed out."""
        await self._drop({one for one, session in self._sessions.items() if session == session_hash}, _SIGNED_OUT)

    async def watch(
        self, tokens: Tokens, signed_in: Callable[[], Awaitable[Collection[str]]], every_s: float = LOOK_EVERY_S
    ) -> None:
        """Close what belongs to a revoked token or to a browser that is signed out, by whatever way.

        ``signed_in``: the hashes of those that are not. Goes on until it is canceled.
        """
        while True:
            await asyncio.sleep(every_s)
            with suppress(OrchestratorError):
                if self._tokens:
                    await self._drop_revoked(tokens)
                if self._sessions:
                    # Those that come while this looks are looked at the next time.
                    open_now = dict(self._sessions)
                    good = await signed_in()
                    await self._drop({one for one, session in open_now.items() if session not in good}, _SIGNED_OUT)

    async def _drop_revoked(self, tokens: Tokens) -> None:
        revoked = await tokens.count_revoked()
        if revoked == self.looked_at:
            return
        # Before the list: a client that comes while it is read wants another look.
        self.looked_at = revoked
        try:
            rows = await tokens.list_tokens()
        except OrchestratorError:
            self.looked_at = -1
            raise
        good = {row.token_hash for row in rows if not row.revoked}
        await self._drop({one for one, token in self._tokens.items() if token not in good}, _REVOKED)

    async def close_all(self) -> None:
        """Close everything, for a clean stop."""
        self._closed = True
        ones = [one for ones in self._open.values() for one in ones]
        await asyncio.gather(*(one.close(1001, "the orchestrator stops") for one in ones))

    async def _drop(self, ones: Collection[Connection], why: str) -> None:
        # At once: one whose reader is stuck keeps no other open.
        await asyncio.gather(*(one.close(1008, why) for one in ones))
