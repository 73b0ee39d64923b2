"""WebSockets as the mod gives them to Lua: events by URL, no close frame, one fragment."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.typing import Subprotocol

MAX_MESSAGE_BYTES: Final = 131072
"""Per message, both ways (AddressRule.WEBSOCKET_MESSAGE)."""
MAX_SOCKETS: Final = 4
MAX_UNSENT_FRAMES: Final = 512
CLOSE_WITHIN_S: Final = 1.0
"""A server that reads nothing must not hold up a reboot."""
USER_AGENT: Final = "computercraft/1.116.1"
SUBPROTOCOL_HEADER: Final = "sec-websocket-protocol"

Queue = Callable[..., None]


class SocketError(Exception):
    """A socket refuses; the text is the sentence that Lua sees."""


@dataclass
class _Socket:
    url: bytes
    outgoing: asyncio.Queue[bytes | str | None] = field(default_factory=asyncio.Queue)
    """Messages to send; None ends the connection after those before it."""
    task: asyncio.Task[None] | None = None
    is_open: bool = False


@dataclass
class Sockets:
    """The sockets of one boot.

    Args:
        queue_event: Queues an event of the computer.
        connected: Told the URL of each connection that is made.
        frame_sent: Called after each message has been written to its socket.
    """

    queue_event: Queue
    connected: Callable[[str], None]
    frame_sent: Callable[[], None]
    _sockets: dict[int, _Socket] = field(default_factory=dict)
    _last: int = 0

    def open(self, url: bytes, headers: dict[str, str], timeout_s: float) -> None:
        """Begin to connect; an event tells how it went. Raises SocketError when it cannot begin."""
        if len(self._sockets) >= MAX_SOCKETS:
            raise SocketError("Too many websockets already open")
        self._last += 1
        socket = self._sockets[self._last] = _Socket(url)
        socket.task = asyncio.create_task(self._live(self._last, socket, headers, timeout_s))

    def send(self, number: int, data: bytes, binary: bool) -> None:
        """Hand a message to the socket. Raises SocketError when it is too large or closed."""
        socket = self._sockets.get(number)
        if socket is None:
            raise SocketError("attempt to use a closed file")
        if len(data) > MAX_MESSAGE_BYTES:
            raise SocketError("Message is too large")
        if socket.outgoing.qsize() >= MAX_UNSENT_FRAMES:
            raise SocketError("Too many ongoing websocket messages")
        # Text that is not UTF-8 is silently corrupted, as in the mod.
        socket.outgoing.put_nowait(data if binary else data.decode("utf-8", "replace"))

    def close(self, number: int) -> None:
        """Close without a close frame and without an event, as the mod does."""
        socket = self._sockets.pop(number, None)
        if socket is None or socket.task is None:
            return
        if socket.is_open:
            socket.outgoing.put_nowait(None)
        else:
            socket.task.cancel()

    async def close_all(self) -> None:
        """The boot has ended: every socket goes, after what was sent on it."""
        tasks = [socket.task for socket in self._sockets.values() if socket.task is not None]
        for number in list(self._sockets):
            self.close(number)
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_WITHIN_S)

    async def _live(self, number: int, socket: _Socket, headers: dict[str, str], timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                connection = await _dial(socket.url.decode("latin-1"), headers)
        except (OSError, InvalidHandshake, InvalidURI, TimeoutError, ValueError) as error:
            self._sockets.pop(number, None)
            self.queue_event(b"websocket_failure", socket.url, str(error).encode() or b"Could not connect")
            return
        socket.is_open = True
        self.connected(socket.url.decode("latin-1").partition("?")[0])
        self.queue_event(b"websocket_success", socket.url, number)
        await self._exchange(number, socket, connection)

    async def _exchange(self, number: int, socket: _Socket, connection: ClientConnection) -> None:
        sender = asyncio.create_task(self._send_all(socket, connection))
        try:
            while True:
                data = await _first_fragment(connection)
                binary = isinstance(data, bytes)
                raw = data if isinstance(data, bytes) else data.encode()
                self.queue_event(b"websocket_message", socket.url, raw, binary)
        except ConnectionClosed as closed:
            if self._sockets.pop(number, None) is None:
                return
            reason = closed.rcvd.reason.encode() if closed.rcvd else None
            code = closed.rcvd.code if closed.rcvd else None
            self.queue_event(b"websocket_closed", socket.url, number, reason, code)
        finally:
            sender.cancel()

    async def _send_all(self, socket: _Socket, connection: ClientConnection) -> None:
        try:
            while (message := await socket.outgoing.get()) is not None:
                await connection.send(message)
                self.frame_sent()
            connection.transport.close()
        except ConnectionClosed:
            return


async def _dial(url: str, headers: dict[str, str]) -> ClientConnection:
    wanted = next((value for name, value in headers.items() if name.lower() == SUBPROTOCOL_HEADER), None)
    others = {name: value for name, value in headers.items() if name.lower() != SUBPROTOCOL_HEADER}
    connection = await connect(
        url,
        additional_headers=others,
        subprotocols=[Subprotocol(wanted)] if wanted else None,
        compression=None,
        max_size=MAX_MESSAGE_BYTES,
        ping_interval=None,
        proxy=None,
        user_agent_header=USER_AGENT,
    )
    if wanted and connection.subprotocol != wanted:
        # Netty gives up on a server that does not choose the protocol that was asked for.
        connection.transport.close()
        raise ValueError(f"Invalid subprotocol. Actual: {connection.subprotocol}. Expected one of: {wanted}")
    return connection


async def _first_fragment(connection: ClientConnection) -> Any:
    """The first fragment of the next message: the mod ignores all others."""
    first: Any = None
    async for fragment in connection.recv_streaming():
        if first is None:
            first = fragment
    return first
