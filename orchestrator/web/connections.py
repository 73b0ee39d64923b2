"""uvicorn's HTTP protocol with bounds: the size of a request before it is looked at, and the time that it may take.

Theory. Everybody who reaches the port can open a connection, with or without a token. The parser keeps the whole head
of a request, and its trailers, at any length. uvicorn waits for ever for the rest of a request, and for a peer that
does not read. Here a head and a body have a size and a time, and a peer that does not read is cut off: its stream or
its watched screen ends with it. These bounds do not hold for a connection that became a WebSocket.

uvicorn parses all requests that a peer sends at once, and keeps them until their turn. Here the parser gets no byte of
the next request before the last one is answered, and a little of the input is kept unparsed. So waiting requests are
dropped with the connection, and a peer that does not wait for answers, or asks too often, is slowed down or cut off.
"""

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from httptools import HttpParserError
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from orchestrator.web.bodies import MAX_REQUEST_BYTES
from orchestrator.web.peers import KNOWN, Peers

CHUNKS: Final = "cc-orchestrator.chunks"
"""The key in the extensions of a scope under which a stream of events finds :meth:`BoundedProtocol.write_chunk`."""
MAX_HEAD_BYTES: Final = 64 * 1024
"""Bytes of the request line and all headers; browsers send less than 8 kB."""
MAX_BODY_BYTES: Final = 4 * MAX_REQUEST_BYTES
"""Bytes of a body with all that is around its chunks; ``read_body`` says the limit that people are told of."""
MAX_PIECES: Final = 20_000
"""Chunks of a body that says no size: each costs a turn of the parser, however small it is."""
ENOUGH_BYTES: Final = 64 * 1024
"""Bytes of further requests: when so many came, nothing more is read."""
MAX_KEPT_BYTES: Final = 1024 * 1024
"""The same, whatever was read: a read of the loop is less."""
HEAD_S: Final = 20.0
"""From the first byte of a connection, or of its next request, to the end of the head."""
BODY_S: Final = 120.0
"""From there to the end of the body: 9 kB/s for the largest."""
UNKNOWN_HEAD_S: Final = 5.0
"""The same before anybody showed a token on the connection: such a head comes at once."""
UNKNOWN_BODY_S: Final = 10.0
"""The same for a body; a peer that is known by the head of this request has ``BODY_S``."""
UNKNOWN_PIECES: Final = 4_000
"""The same for pieces: enough for a body that comes in single packets."""
MAX_PIPELINED: Final = 64
"""Requests in a row that came before the one before them was answered; browsers and our clients send none."""
RATE: Final = 500.0
"""Requests a second on one connection; more of them wait."""
BURST: Final = 1000.0
"""Requests that may come at once after a pause."""
TAKES_S: Final = 30.0
"""A peer that takes nothing for so long is gone, whatever its kernel says."""
_KERNEL: Final = {
    "TCP_USER_TIMEOUT": int(TAKES_S * 1000),
    "TCP_KEEPIDLE": 60,
    "TCP_KEEPINTVL": 15,
    "TCP_KEEPCNT": 3,
    "TCP_NOTSENT_LOWAT": 64 * 1024,
}
"""Milliseconds that sent bytes may go unheard of; seconds of silence until a peer is asked after, and between two
times; how often that is; and bytes that wait in the kernel, which else takes minutes of pictures that nobody does."""


def _refusal(status: str, code: str, message: str, remedy: str, headers: str = "") -> bytes:
    """The bytes of an answer that closes the connection; ``headers`` have their line ends."""
    body = json.dumps({"error": {"code": code, "message": message, "remedy": remedy, "details": {}}})
    return (
        f"HTTP/1.1 {status}\r\n{headers}Content-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
    ).encode()


_TOO_LARGE: Final = _refusal(
    "431 Request Header Fields Too Large",
    "head_too_large",
    f"The address and the headers of the request have more than {MAX_HEAD_BYTES} bytes.",
    "Send fewer or shorter headers.",
)
_TOO_MANY: Final = _refusal(
    "429 Too Many Requests",
    "too_many_at_once",
    f"More than {MAX_PIPELINED} requests in a row came before the one before them was answered.",
    "Connect again, and send a request when the one before it is answered.",
)
_NONE: Final[Mapping[bytes, Callable[[float, bool], int]]] = MappingProxyType({})
_END: Final = b"\r\n\r\n"
"""The end of a head, and of a body in chunks; within a body it may be anywhere."""


def _too_many_at_once(after_s: int) -> bytes:
    """The refusal of an upgrade of which too many come at once: with a time to come again, for each another one.

    The time is also in the first line. The mod tells a program that line, and nothing else of the refusal.
    """
    return _refusal(
        f"503 Many computers come at once, retry after {after_s} s",
        "too_many_at_once",
        "Many computers come at once.",
        f"Dial again in {after_s} s; the client does so by itself.",
        headers=f"Retry-After: {after_s}\r\n",
    )


class BoundedProtocol(HttpToolsProtocol):
    """One connection that speaks HTTP.

    ``peers``: all connections of the server. ``waits``: for some paths, the seconds after which an upgrade is to be
    asked for again at this time of the loop's clock, from an address that is crowded or is not; 0: now.
    """

    _due: asyncio.TimerHandle | None = None
    """When the part of a request that is under way has to be whole."""
    _stuck: asyncio.TimerHandle | None = None
    """When a peer that takes nothing is let go."""
    _in_body = False
    """Whether the head has come, and the body has not."""
    _came = 0
    """Bytes of the part that is under way."""
    _left = 0
    """Bytes of the body that are still to come; 0: that is not known."""
    _pieces = 0
    """In which the body came."""
    _known = False
    """Whether somebody showed a token on this connection."""
    _in_a_row = 0
    """Requests that were there before the one before them was answered."""

    def __init__(
        self,
        *args: Any,
        peers: Peers | None = None,
        waits: Mapping[bytes, Callable[[float, bool], int]] = _NONE,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._peers = Peers() if peers is None else peers
        self._waits = waits
        self._kept = b""
        """The result of further requests."""
        self._allowed, self._counted_at = BURST, self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A peer is there."""
        super().connection_made(transport)
        if not self._peers.arrives(transport):
            transport.abort()
            return
        self._begin(UNKNOWN_HEAD_S)
        with suppress(OSError):
            _look_after(transport.get_extra_info("socket"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer is gone, and what it asked for is not looked at."""
        self._peers.leaves(self.transport)
        self._kept = b""
        self.pipeline.clear()
        self._cancel()
        self.resume_writing()
        super().connection_lost(exc)

    def known(self, token: str) -> None:
        """Somebody with a token of this hash is behind the connection."""
        self._peers.known(self.transport, token)
        if not self._known:
            self._known = True
            if self._in_body:
                came, left, pieces = self._came, self._left, self._pieces
                self._begin(BODY_S)
                self._in_body, self._came, self._left, self._pieces = True, came, left, pieces

    # -- what comes ----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._kept:
            self._keep(self._kept + data)
        else:
            self._take(data)

    def _take(self, data: bytes) -> None:
        """Give the parser what belongs to one request; the rest is kept until that is answered."""
        at, end = 0, len(data)
        while at < end and not self.transport.is_closing() and self.transport.get_protocol() is self:
            if self._is_answering() or not self._in_time():
                self._keep(data[at:])
                return
            upto = self._end_of_piece(data, at)
            self._feed(data[at:upto])
            at = upto

    def _end_of_piece(self, data: bytes, at: int) -> int:
        """Where what is surely no further request ends."""
        if self._in_body and self._left:
            return min(at + self._left, len(data))
        found = data.find(_END, at)
        return len(data) if found < 0 else found + len(_END)

    def _feed(self, data: bytes) -> None:
        if self._due is None:
            self._begin(HEAD_S if self._known else UNKNOWN_HEAD_S)
        was_in_body = self._in_body
        self._came += len(data)
        super().data_received(data)
        if self._due is None or self.transport.is_closing():
            return
        if self._in_body:
            if was_in_body and not self._is_piece_left():
                self.transport.abort()
                self._left = max(self._left - len(data), 0)
            if self._came > MAX_BODY_BYTES:
                self.transport.abort()
        elif self._came > MAX_HEAD_BYTES:
            self._refuse(_TOO_LARGE)

    def _is_answering(self) -> bool:
        """Whether a request is whole and not answered."""
        cycle: Any = self.cycle
        return cycle is not None and not self._in_body and not cycle.response_complete

    def _in_time(self) -> bool:
        """Whether a request may begin now; if not, it is looked at when it may."""
        if self._due is not None:
            return True
        now = self.loop.time()
        self._allowed = min(self._allowed + (now - self._counted_at) * RATE, BURST)
        self._counted_at = now
        if self._allowed < 1:
            self.loop.call_later((1 - self._allowed) / RATE, self._go_on)
            return False
        return True

    def _keep(self, data: bytes) -> None:
        """Keep what came until the request before it is answered; reading goes on a little, and shows who waits."""
        self._kept = data
        if len(data) > MAX_KEPT_BYTES:
            self.transport.abort()
        elif len(data) > ENOUGH_BYTES:
            self.flow.pause_reading()

    def _go_on(self) -> None:
        """Look at what was kept."""
        if not self._kept or self.transport.is_closing() or self._is_answering():
            return
        data, self._kept = self._kept, b""
        self.flow.resume_reading()
        self._take(data)

    def on_response_complete(self) -> None:
        """A request is answered: the next one has its turn, after those of others."""
        super().on_response_complete()
        self._peers.rests(self.transport)
        self._in_a_row = self._in_a_row + 1 if self._kept else 0
        if self._in_a_row > MAX_PIPELINED:
            self._refuse(_TOO_MANY)
        elif self._kept:
            self.loop.call_soon(self._go_on)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._allowed -= 1
        scope: Any = self.scope
        scope["extensions"] = {KNOWN: self.known, CHUNKS: self.write_chunk}

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; nobody reads the headers that follow a body."""
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD_BYTES:
            self._refuse(_TOO_LARGE)
            # This ends the turn of the parser, which makes nothing of the request then.
            raise HttpParserError("too large")
        self._begin(BODY_S if self._known else UNKNOWN_BODY_S)
        self._in_body = True
        self._peers.asks(self.transport)
        sizes = [value for name, value in self.headers if name == b"content-length"]
        self._left = int(sizes[0]) if len(sizes) == 1 and sizes[0].isdigit() else 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if not self._is_piece_left():
            # This ends the turn of the parser, which has the other pieces too.
            raise HttpParserError("too many pieces")
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._cancel()
        self._peers.goes_on(self.transport)
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """From here on it is another protocol's."""
        self._cancel()
        wait_s = self._waits.get(self.url.partition(b"?")[0])
        if wait_s is not None and (after_s := wait_s(self.loop.time(), self._peers.is_crowded(self.transport))):
            # Before anything is made for it or looked up: each one of the others costs ten times as much.
            self.transport.write(_too_many_at_once(after_s))
            self.transport.close()
            # It makes no room for one that comes later in this turn: the refusal would not be sent.
            self._peers.leaves(self.transport)
            return
        self.resume_writing()
        super().handle_websocket_upgrade()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Answer a request, for as long as somebody is there who takes it."""
        begin = super()._start_asgi_task

        def begin_if_there() -> None:
            if not self.transport.is_closing():
                begin(cycle, _while_there(app, cycle))

        self._peers.begin(self.transport, begin_if_there)

    # -- what goes -----------------------------------------------------------------------

    def write_chunk(self, chunk: bytes) -> bool:
        """Write a part of the answer that has begun, as it is sent. False: there is no room, or nobody takes it."""
        cycle: Any = self.cycle
        if self.flow.write_paused or not cycle.chunked_encoding or cycle.response_complete or cycle.disconnected:
            return False
        if self.transport.is_closing():
            return False
        self.transport.write(chunk)
        return True

    def pause_writing(self) -> None:
        """The peer takes less than it is sent."""
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(TAKES_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The peer has taken what was sent."""
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        super().resume_writing()

    # -- inside --------------------------------------------------------------------------

    def _begin(self, within_s: float) -> None:
        """Another part of a request begins."""
        self._cancel()
        self._due = self.loop.call_later(within_s, self._overdue)

    def _cancel(self) -> None:
        """Nothing of a request is under way."""
        if self._due is not None:
            self._due.cancel()
        self._due, self._in_body, self._came, self._left, self._pieces = None, False, 0, 0, 0

    def _overdue(self) -> None:
        answering: Any = self.cycle is not None and not self.cycle.response_complete
        is_late = self._in_body or not answering
        self._cancel()
        # uvicorn itself waits for the rest of the next request when the present one is answered.
        if is_late and not self.transport.is_closing():
            self.transport.close()

    def _is_piece_left(self) -> bool:
        """Count one more piece of a body: whether it may come."""
        self._pieces += 1
        return self._pieces <= (MAX_PIECES if self._known else UNKNOWN_PIECES)

    def _refuse(self, answer: bytes) -> None:
        self._cancel()
        self._kept = b""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(answer)
            self.transport.close()
        else:
            self.transport.abort()


def _while_there(app: ASGIApp, cycle: Any) -> Any:
    """The application, whose answer goes to nobody once the connection is closed: some loops raise for that."""

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if cycle.transport.is_closing():
                cycle.disconnected = True
            await send(message)

        await app(scope, receive, sending)

    return answering


def _look_after(own: Any) -> None:
    """Let the kernel look after a peer that may vanish without a word, also where nothing is sent."""
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KERNEL.items():
        if hasattr(socket, name):
            own.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
