"""WebSockets as the mod gives them to Lua: events by URL, no close frame, one fragment."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from cc_client.simulator.hardware import BYTES_SINCE, SUBPROTOCOL_SINCE, Hardware, from_text, to_text
from cc_client.simulator.rules import COULD_NOT_CONNECT, NetError, friendly, read_socket_url
from cc_client.simulator.wire import Lane, Wire

MAX_MESSAGE_BYTES: Final = 131072
"""Per message, both ways (AddressRule.WEBSOCKET_MESSAGE)."""
MAX_SOCKETS: Final = 4
MAX_UNSENT_FRAMES: Final = 512
CLOSE_WITHIN_S: Final = 1.0
"""A server that reads nothing must not hold up a reboot."""
TOO_BIG: Final = 1009
"""The code with which our side closes when a message is larger than it may be."""
SUBPROTOCOL_HEADER: Final = "sec-websocket-protocol"

Queue = Callable[..., None]


class SocketError(Exception):
    """A socket refuses; the text is the sentence that Lua sees."""


@dataclass
class _Socket:
    url: bytes
    outgoing: asyncio.Queue[tuple[float, bytes | str | None]] = field(default_factory=asyncio.Queue)
    """Messages to send, and when they are through; None ends the connection after those before it."""
    task: asyncio.Task[None] | None = None
    is_open: bool = False
    connection: ClientConnection | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the computer knows of the socket no more."""


@dataclass
class Sockets:
    """The sockets of one boot.

    Args:
        queue_event: Queues an event of the computer.
        connected: Told the URL of each connection that is made.
        frame_sent: Called after each message has been written to its socket.
        hardware: The version that is played, and what is permitted.
        wire: What frames have to pass.
    """

    queue_event: Queue
    connected: Callable[[str], None]
    frame_sent: Callable[[], None]
    hardware: Hardware
    wire: Wire
    _sockets: dict[int, _Socket] = field(default_factory=dict)
    _last: int = 0

    def open(self, url: bytes, headers: dict[str, str], timeout_s: float) -> None:
        """Begin to connect; an event tells how it went. Raises NetError for a wrong URL, SocketError otherwise."""
        if not self.hardware.rules.websockets:
            raise SocketError("Websocket connections are disabled")
        read_socket_url(url)
        if len(self._sockets) >= MAX_SOCKETS:
            raise SocketError("Too many websockets already open")
        self._last += 1
        socket = self._sockets[self._last] = _Socket(url)
        socket.task = asyncio.create_task(self._live(self._last, socket, headers, timeout_s))

    def is_open(self, number: int) -> bool:
        """Whether a socket can be used."""
        return number in self._sockets

    def send(self, number: int, data: bytes, binary: bool) -> None:
        """Hand a message to the socket. Raises SocketError when it is too large or closed."""
        socket = self._sockets.get(number)
        if socket is None:
            raise SocketError("attempt to use a closed file")
        if len(data) > MAX_MESSAGE_BYTES:
            raise SocketError("Message is too large")
        if socket.outgoing.qsize() >= MAX_UNSENT_FRAMES:
            raise SocketError("Too many ongoing websocket messages")
        message: bytes | str = data
        if not binary and self.hardware.at_least(*BYTES_SINCE):
            # Text that is not UTF-8 is silently corrupted, as in the mod.
            message = data.decode("utf-8", "replace")
        elif not binary:
            message = to_text(data)
        socket.outgoing.put_nowait((self.wire.arrives_s(), message))

    def cut(self) -> None:
        """The network breaks: every open socket is lost, and both sides notice."""
        for socket in list(self._sockets.values()):
            if socket.connection is not None:
                socket.connection.transport.abort()

    def close(self, number: int) -> None:
        """Close without a close frame and without an event, as the mod does."""
        socket = self._sockets.pop(number, None)
        if socket is None or socket.task is None:
            return
        socket.gone.set()
        if socket.is_open:
            socket.outgoing.put_nowait((0.0, None))
        else:
            socket.task.cancel()

    async def close_all(self) -> None:
        """The boot has ended: every socket goes, after what was sent on it."""
        sockets = list(self._sockets.values())
        for number in list(self._sockets):
            self.close(number)
        tasks = [socket.task for socket in sockets if socket.task is not None]
        if not tasks:
            return
        await asyncio.wait(tasks, timeout=CLOSE_WITHIN_S)
        for socket in sockets:
            if socket.connection is not None:
                socket.connection.transport.abort()
        await asyncio.wait(tasks, timeout=CLOSE_WITHIN_S)

    async def _live(self, number: int, socket: _Socket, headers: dict[str, str], timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s or None):
                connection = await self._dial(socket.url, headers)
        except (OSError, InvalidHandshake, InvalidURI, NetError, ValueError) as error:
            self._sockets.pop(number, None)
            self.queue_event(b"websocket_failure", socket.url, _why(error).encode())
            return
        socket.is_open, socket.connection = True, connection
        self.connected(socket.url.decode("latin-1").partition("?")[0])
        self.queue_event(b"\0websocket_success", socket.url, number)
        await self._exchange(number, socket, connection)

    async def _dial(self, url: bytes, headers: dict[str, str]) -> ClientConnection:
        parts = read_socket_url(url)
        host, port = await self.hardware.rules.address(parts, 443 if parts.scheme == "wss" else 80)
        given = {name.lower(): value for name, value in headers.items()}
        agent, wanted = given.get("user-agent", self.hardware.user_agent), given.get(SUBPROTOCOL_HEADER)
        if not self.hardware.at_least(*SUBPROTOCOL_SINCE):
            wanted = None
        left_out = {SUBPROTOCOL_HEADER, "user-agent"}
        connection = await connect(
            url.decode("latin-1"),
            host=host,
            port=port,
            additional_headers={name: value for name, value in headers.items() if name.lower() not in left_out},
            subprotocols=[Subprotocol(wanted)] if wanted else None,
            compression=None,
            max_size=MAX_MESSAGE_BYTES,
            ping_interval=None,
            proxy=None,
            user_agent_header=agent,
        )
        if wanted and connection.subprotocol != wanted:
            # Netty gives up on a server that does not choose the protocol that was asked for.
            connection.transport.close()
            raise NetError(f"Invalid subprotocol. Actual: {connection.subprotocol}. Expected one of: {wanted}")
        return connection

    async def _exchange(self, number: int, socket: _Socket, connection: ClientConnection) -> None:
        sender = asyncio.create_task(self._send_all(socket, connection))
        lane = Lane(self.wire, lambda *event: self._deliver(number, event))
        try:
            while True:
                data = await _first_fragment(connection)
                binary = isinstance(data, bytes)
                raw = data if isinstance(data, bytes) else self._received(data)
                lane.put(b"websocket_message", socket.url, raw, binary)
        except ConnectionClosed as closed:
            lane.put(b"websocket_closed", socket.url, *_ending(closed))
            # What is on its way arrives before the end does.
            await socket.gone.wait()
        finally:
            lane.close()
            sender.cancel()

    def _deliver(self, number: int, event: tuple[object, ...]) -> None:
        """An event of a socket that the computer has not closed meanwhile."""
        if number in self._sockets:
            if event[0] == b"websocket_closed":
                self._sockets.pop(number).gone.set()
            self.queue_event(*event)

    def _received(self, text: str) -> bytes:
        """A text frame as Lua sees it."""
        return text.encode() if self.hardware.at_least(*BYTES_SINCE) else from_text(text)

    async def _send_all(self, socket: _Socket, connection: ClientConnection) -> None:
        try:
            while True:
                due_s, message = await socket.outgoing.get()
                await self.wire.until(due_s)
                if message is None:
                    connection.transport.close()
                    return
                await connection.send(message)
                self.frame_sent()
        except ConnectionClosed:
            return


def _why(error: Exception) -> str:
    """The sentence of a dial that failed."""
    if isinstance(error, InvalidStatus):
        response = error.response
        return f"Invalid handshake response getStatus: {response.status_code} {response.reason_phrase}"
    return friendly(error)


def _ending(closed: ConnectionClosed) -> tuple[bytes | None, int | None]:
    """Reason and code of ``websocket_closed``; the mod has words of its own where no close frame came."""
    if closed.sent is not None and closed.sent.code == TOO_BIG and not closed.rcvd_then_sent:
        return (COULD_NOT_CONNECT.encode(), None)
    if closed.rcvd is None:
        return (b"Connection closed", None)
    return (closed.rcvd.reason.encode() or None, closed.rcvd.code)


async def _first_fragment(connection: ClientConnection) -> Any:
    """The first fragment of the next message: the mod ignores all others."""
    first: Any = None
    async for fragment in connection.recv_streaming():
        if first is None:
            first = fragment
    return first
