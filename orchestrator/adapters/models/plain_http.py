"""Plain HTTP/1.1 to a model server of this host or network.

httpx2 passes each chunk of an answer through a dozen of coroutines: that costs 0.4 ms of a processor for a short
reply, and models send a chunk for each token. Here uvicorn's parser reads all that came at once, in one turn of the
loop. HTTPS and proxies are not spoken: httpx2 does that, whose errors are raised here too.
"""

import asyncio
import socket
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Final, Protocol, Self, cast

import httptools
import httpx2

_MAX_HEAD: Final = 65_536
"""Bytes of the head of an answer."""
_MOST_UNREAD: Final = 262_144
"""Bytes of an answer that wait for their reader; then the server has to wait."""


class Answer(Protocol):
    """An answer whose body is unread: httpx2's response, or that of :class:`PlainHttp`."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def aiter_raw(self) -> AsyncGenerator[bytes]:
        """The body as it comes. Raises httpx2.HTTPError."""

    async def aclose(self) -> None:
        """Leave it; the connection of a body that was not read to its end is closed."""


class PlainHttp:
    """Requests to one server, over connections of which the idle ones are kept."""

    def __init__(self, url: httpx2.URL, headers: Mapping[str, str], *, connect_s: float, kept_s: float, most: int):
        self._url, self.headers = url, httpx2.Headers({"Host": url.netloc.decode(), **headers})
        self._connect_s, self._kept_s, self._most = connect_s, kept_s, most
        self._heads: dict[tuple[str, str], bytes] = {}
        """The beginning of a request by its method and path."""
        self._idle: list[tuple[_Connection, float]] = []
        """Connections without a request, and until when each is kept, by the loop's clock; the oldest first."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def request(self, method: str, path: str, content: bytes | None) -> Answer:
        """The answer to a request; ``path`` may be a whole address of the same server.

        It is sent again where the server closed a kept connection meanwhile. Raises ConnectError, ConnectTimeout,
        ReadError and RemoteProtocolError of httpx2.
        """
        length = b"" if content is None else b"Content-Length: %d\r\n" % len(content)
        told = b"%s%s\r\n%s" % (self._head(method, path), length, content or b"")
        while True:
            kept = self._kept()
            connection = kept or await self._made()
            try:
                status, headers = await connection.ask(told)
            except (httpx2.ReadError, httpx2.RemoteProtocolError):
                connection.close()
                if kept is None:
                    raise
            except BaseException:
                connection.close()
                raise
            else:
                return PlainAnswer(self, connection, status, headers)

    async def aclose(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop()[0].close()

    def take_back(self, connection: "_Connection") -> None:
        """A connection whose answer is left: it is kept where the answer is whole."""
        if not connection.is_reusable:
            connection.close()
            return
        self._idle.append((connection, asyncio.get_running_loop().time() + self._kept_s))
        if len(self._idle) > self._most:
            self._idle.pop(0)[0].close()

    def _head(self, method: str, path: str) -> bytes:
        head = self._heads.get((method, path))
        if head is None:
            base = self._url.raw_path.rstrip(b"/")
            target = httpx2.URL(path).raw_path if "://" in path else base + path.encode()
            lines = [b"%s %s HTTP/1.1" % (method.encode(), target)]
            lines += [b"%s: %s" % header for header in self.headers.raw]
            self._heads[method, path] = head = b"".join(b"%s\r\n" % line for line in lines)
        return head

    def _kept(self) -> "_Connection | None":
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection, until = self._idle.pop()
            if now < until and connection.is_open:
                return connection
            connection.close()
        return None

    async def _made(self) -> "_Connection":
        try:
            return await self._connected(self._url.host, self._url.port or 80)
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpx2.ConnectError(str(error)) from error

    async def _connected(self, host: str, port: int) -> "_Connection":
        """A connection to the first address of a host that answers; each has an equal part of the time."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_s):
            addresses = [found[4] for found in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        for tried, address in enumerate(addresses, 1):
            try:
                async with asyncio.timeout(self._connect_s / len(addresses)):
                    return (await loop.create_connection(_Connection, str(address[0]), port))[1]
            except OSError:
                if tried == len(addresses):
                    raise
        raise OSError(f"the name {host} has no address")


class PlainAnswer:
    """An answer whose head has come."""

    def __init__(
        self, http: PlainHttp, connection: "_Connection", status: int, headers: list[tuple[bytes, bytes]]
    ) -> None:
        self._http, self._connection, self.status_code = http, connection, status
        self._headers = headers
        self._is_left = False

    @property
    def headers(self) -> Mapping[str, str]:
        return httpx2.Headers(self._headers)

    @property
    def is_whole(self) -> bool:
        """Whether all of it has come; a part may be unread."""
        return self._connection.is_whole

    async def aiter_raw(self) -> AsyncGenerator[bytes]:
        """The body as it comes. Raises httpx2.HTTPError."""
        while data := await self.read():
            yield data

    async def read(self, deadline: float | None = None) -> bytes:
        """What has come of the body; empty: it is whole. Raises TimeoutError, httpx2.HTTPError.

        ``deadline`` is a time of the loop's clock; None: there is none.
        """
        return await self._connection.read(deadline)

    async def aclose(self) -> None:
        if not self._is_left:
            self._is_left = True
            self._http.take_back(self._connection)


class _Connection(asyncio.Protocol):
    """One connection, with at most one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._changed: asyncio.Future[bool] | None = None
        """The one that waits for more of the answer; true: it waited in vain."""
        self._is_lost = False
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._status = 0
        """The status of an answer whose head is whole; 0: it is not."""
        self._head_size = 0
        self._unread: deque[bytes] = deque()
        self._size = 0
        self.is_whole, self._stays = False, False
        self._error: httpx2.TransportError | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can carry a request; a server that says something without a request is left."""
        return not (self._is_lost or self._error or self._transport.is_closing())

    @property
    def is_reusable(self) -> bool:
        """Whether its answer is whole, and the server lets the connection stay."""
        return self.is_whole and self._stays and self.is_open

    async def ask(self, request: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Send a request; the status and the headers of the answer. Raises ReadError, RemoteProtocolError."""
        self._begin()
        self._transport.write(request)
        while not self._status:
            self._check()
            await self._more()
        return self._status, self._headers

    async def read(self, deadline: float | None) -> bytes:
        """What has come of the body; empty: it is whole. Raises TimeoutError, ReadError, RemoteProtocolError."""
        while not self._unread:
            if self.is_whole:
                return b""
            self._check()
            await self._more(deadline)
        data = b"".join(self._unread) if len(self._unread) > 1 else self._unread[0]
        self._unread.clear()
        if self._size >= _MOST_UNREAD:
            self._transport.resume_reading()
        self._size = 0
        return data

    def close(self) -> None:
        """Close it at once, whatever is on its way."""
        if not self._is_lost:
            self._transport.abort()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    async def _more(self, deadline: float | None = None) -> None:
        loop = asyncio.get_running_loop()
        self._changed = loop.create_future()
        # A timeout of asyncio costs several times as much, and a model sends a packet for each token.
        timer = None if deadline is None else loop.call_at(deadline, self._late)
        try:
            if await self._changed:
                raise TimeoutError
        finally:
            self._changed = None
            if timer is not None:
                timer.cancel()

    def _late(self) -> None:
        self._tell(is_late=True)

    def _tell(self, *, is_late: bool = False) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(is_late)

    # -- what asyncio calls --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """A part of an answer."""
        if not self._status:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(httpx2.RemoteProtocolError(f"this is not an answer of HTTP/1.1 ({error})"))
        else:
            if not self._status and self._head_size > _MAX_HEAD:
                self._fail(httpx2.RemoteProtocolError("the head of the answer is too long"))
        self._tell()

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone; an answer without a length ends so."""
        self._is_lost = True
        names = {name.lower() for name, _ in self._headers}
        if error is not None:
            self._fail(httpx2.ReadError(str(error)))
        elif self._status and not names & {b"content-length", b"transfer-encoding"}:
            self.is_whole = True
        else:
            self._fail(httpx2.RemoteProtocolError("the server closed it before the answer was whole"))
        self._tell()

    def _fail(self, error: httpx2.TransportError) -> None:
        self._error = self._error or error

    # -- what the parser calls -----------------------------------------------------------

    def on_message_begin(self) -> None:
        """An answer begins. Raises RuntimeError for a second one, which nobody asked for."""
        if self.is_whole:
            raise RuntimeError("an answer to no request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        status = self._parser.get_status_code()
        if status < 200:
            # It says only that the answer will come.
            self._headers = []
            return
        self._status = status
        self._stays = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        self._unread.append(data)
        before, self._size = self._size, self._size + len(data)
        if before < _MOST_UNREAD <= self._size:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The answer is whole."""
        if self._status:
            self.is_whole = True
