"""uvicorn's HTTP protocol with bounds: what a request may weigh before anybody looks at it, and how long it may take.

Theory. Whoever reaches the port can open a connection, token or not. The parser keeps all of a request's head, and
its trailers, however long they are; uvicorn waits for ever for the rest of a request, and for a reader who takes
nothing. Here a head has a size and a time, a body has too, and a peer that takes nothing is let go, so that what is
kept for it (a stream, a watched screen) ends with it. A connection that became a WebSocket is none of this any more.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from orchestrator.web.reading import MAX_REQUEST_BYTES

MAX_HEAD_BYTES: Final = 64 * 1024
"""Of the request line and all headers; browsers send less than 8 kB."""
MAX_BODY_BYTES: Final = 4 * MAX_REQUEST_BYTES
"""Of a body with all that is around its chunks; ``read_body`` says the limit that people are told of."""
HEAD_S: Final = 20.0
"""From the first byte of a connection, or of its next request, to the end of the head."""
BODY_S: Final = 120.0
"""From there to the end of the body: 9 kB/s for the largest."""
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
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"X-Content-Type-Options: nosniff\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


class BoundedProtocol(HttpToolsProtocol):
    """One connection that speaks HTTP."""

    _due: asyncio.TimerHandle | None = None
    """When the part of a request that is under way has to be whole."""
    _stuck: asyncio.TimerHandle | None = None
    """When a peer that takes nothing is let go."""
    _in_body = False
    """Whether the head has come, and the body has not."""
    _came = 0
    """Bytes of the part that is under way."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A peer is there."""
        super().connection_made(transport)
        self._begin(HEAD_S)
        with suppress(OSError):
            _look_after(transport.get_extra_info("socket"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer is gone."""
        self._cancel()
        self.resume_writing()
        super().connection_lost(exc)

    # -- what comes ----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._due is None:
            self._begin(HEAD_S)
        self._came += len(data)
        super().data_received(data)
        if self._due is None or self.transport.is_closing():
            return
        if self._in_body:
            if self._came > MAX_BODY_BYTES:
                self.transport.abort()
        elif self._came > MAX_HEAD_BYTES:
            self._refuse_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; what follows a body is none that anybody reads."""
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._begin(BODY_S)
        self._in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._cancel()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """From here on it is another protocol's."""
        self._cancel()
        self.resume_writing()
        super().handle_websocket_upgrade()

    # -- what goes -----------------------------------------------------------------------

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
        self._due, self._in_body, self._came = None, False, 0

    def _overdue(self) -> None:
        answering: Any = self.cycle is not None and not self.cycle.response_complete
        is_late = self._in_body or not answering
        self._cancel()
        # Of the request after one that is being answered, uvicorn itself waits for the rest when that is done.
        if is_late and not self.transport.is_closing():
            self.transport.close()

    def _refuse_head(self) -> None:
        self._cancel()
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        else:
            self.transport.abort()


def _look_after(own: Any) -> None:
    """Let the kernel look after a peer that may vanish without a word, also where nothing is sent."""
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KERNEL.items():
        if hasattr(socket, name):
            own.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
