"""Plain HTTP to a model server: answers of every shape, over connections that are kept or not."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx2
import pytest

from orchestrator.adapters.models import OllamaOptions
from orchestrator.adapters.models.ollama_server import OllamaApi
from orchestrator.adapters.models.plain_http import _MAX_HEAD, _MOST_UNREAD, Answer, PlainHttp
from tests.waiting import HANG_S, within

OK = b"HTTP/1.1 200 OK\r\n"
BODY = b"{}"
WHOLE = OK + b"Content-Length: 2\r\n\r\nhi"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"


class Wires:
    """A server that writes bytes as they are told; None closes the connection, an event is waited for."""

    def __init__(self, *answers: Sequence[bytes | asyncio.Event | None]) -> None:
        self.answers = list(answers)
        self.asked: list[bytes] = []
        """The heads of the requests."""
        self.connections = 0
        self.written = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until a connection ends."""
        self.connections += 1
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                self.asked.append(head)
                await reader.readexactly(len(BODY) if head.startswith(b"POST") else 0)
                for data in self.answers.pop(0):
                    if data is None:
                        return
                    if isinstance(data, asyncio.Event):
                        await data.wait()
                        continue
                    writer.write(data)
                    await writer.drain()
                    # Mostly what comes next is another packet then.
                    await asyncio.sleep(0)
                    self.written += len(data)
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def wired(wires: Wires, path: str = "", *, kept_s: float = 60.0) -> AsyncIterator[PlainHttp]:
    """A client of such a server."""
    server = await asyncio.start_server(wires.serve, "127.0.0.1", 0)
    url = httpx2.URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}")
    async with server, PlainHttp(url, {"X-Own": "1"}, connect_s=5, kept_s=kept_s, most=1) as http:
        yield http


async def body_of(answer: Answer) -> bytes:
    """The whole body; then the answer is left."""
    try:
        return b"".join([data async for data in answer.aiter_raw()])
    finally:
        await answer.aclose()


def in_bytes(answer: bytes) -> list[bytes | None]:
    """One byte after the other."""
    return [bytes([one]) for one in answer]


@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        ([WHOLE], 1),
        (in_bytes(WHOLE), 1),
        ([CHUNKED], 1),
        (in_bytes(CHUNKED), 1),
        ([b"HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\n" + WHOLE], 1),
        # The server wants the connection for itself no more: by its word, by its version, or by its end.
        ([OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi"], 2),
        ([b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi"], 2),
        ([OK + b"\r\n", b"hi", None], 2),
        # What nobody asked for is not read as the next answer.
        ([WHOLE + WHOLE], 2),
        ([CHUNKED + b"garbage"], 2),
        # It closed the kept connection meanwhile: the next request is sent again.
        ([WHOLE, None], 2),
    ],
)
async def test_an_answer_is_read_and_its_connection_kept_where_it_may_be(
    answer: list[bytes | None], connections: int
) -> None:
    """Two requests; the second one is answered on the same connection, or on a new one."""
    wires = Wires(answer, [WHOLE])
    async with wired(wires) as http:
        for _ in range(2):
            found = await within(http.request("POST", "/chat", BODY))
            assert (found.status_code, await within(body_of(found))) == (200, b"hi")
            assert "x-early" not in found.headers
    assert wires.connections == connections


async def test_lines_are_whole_however_they_come() -> None:
    """A line over several packets is one; the connection is kept where the end of the answer comes later."""
    said, later = ["caf\u00e9", "b"], asyncio.Event()
    body = b"\xef\xbb\xbf" + b"\r\n\n".join(json.dumps({"message": {"content": one}}).encode() for one in said)
    body += b'\n{"message": {"content": "caf\xc3\xa9"}, "done": true}\n'
    head = OK + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body)
    api = OllamaApi("http://127.0.0.1", OllamaOptions(first_token_s=HANG_S, silence_s=HANG_S))
    first = [head, *(body[at : at + 5] for at in range(0, len(body), 5)), b"\r\n"]
    wires = Wires([*first, later, b"0\r\n\r\n"], [WHOLE])
    async with wired(wires) as http:
        answer = await within(http.request("POST", "/chat", BODY))
        async with aclosing(answer), aclosing(api.lines(answer)) as lines:
            found = list[tuple[dict[str, Any], str]]()
            while not found or not found[-1][0].get("done"):
                found += [api.read(line) for line in await within(anext(lines))]
            asyncio.get_running_loop().call_soon(later.set)
            await within(api.to_end(answer, lines))
        assert [part for _, part in found] == [*said, "caf\u00e9"]
        assert await within(body_of(await within(http.request("POST", "/chat", BODY)))) == b"hi"
    assert wires.connections == 1


@pytest.mark.parametrize(
    ("answer", "raised"),
    [
        ([None], httpx2.RemoteProtocolError),
        ([b"HTTP/1.1 200", None], httpx2.RemoteProtocolError),
        ([OK + b"Content-Length: 3\r\n\r\nhi", None], httpx2.RemoteProtocolError),
        ([OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", None], httpx2.RemoteProtocolError),
        ([b"SSH-2.0-OpenSSH_9.6\r\n"], httpx2.RemoteProtocolError),
        ([OK + b"X: " + b"x" * _MAX_HEAD], httpx2.RemoteProtocolError),
        (
            [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"],
            httpx2.RemoteProtocolError,
        ),
    ],
)
async def test_an_answer_that_is_not_whole_is_an_error(
    answer: list[bytes | None], raised: type[httpx2.HTTPError]
) -> None:
    """And never a shorter answer; on a connection of its own nothing is sent twice."""
    wires = Wires(answer, [WHOLE])
    async with wired(wires) as http:
        with pytest.raises(raised):
            await within(body_of(await within(http.request("POST", "/chat", BODY))))
    assert len(wires.asked) == 1


async def test_a_connection_that_is_idle_too_long_is_not_used() -> None:
    """The server may have forgotten it without a word."""
    wires = Wires([WHOLE], [WHOLE])
    async with wired(wires, kept_s=0.0) as http:
        for _ in range(2):
            await within(body_of(await within(http.request("GET", "/facts", None))))
    assert wires.connections == 2


async def test_an_answer_that_is_left_closes_its_connection() -> None:
    """The rest of it is nobody's; the model stops."""
    wires = Wires([OK + b"Content-Length: 9\r\n\r\n", b"hi"], [WHOLE])
    async with wired(wires) as http:
        answer = await within(http.request("POST", "/chat", BODY))
        await answer.aclose()
        assert await within(body_of(await within(http.request("POST", "/chat", BODY)))) == b"hi"
    assert wires.connections == 2


async def test_a_server_waits_for_a_slow_reader() -> None:
    """The memory has an end: what is not read stays with the server."""
    size = 64 * _MOST_UNREAD
    wires = Wires([OK + b"Content-Length: %d\r\n\r\n" % size, *[bytes(_MOST_UNREAD)] * 64])
    async with wired(wires) as http:
        answer: Any = await within(http.request("POST", "/chat", BODY))
        async with asyncio.timeout(HANG_S):
            while answer._connection._transport.is_reading():  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0)
        parts = [len(data) async for data in answer.aiter_raw()]
        await answer.aclose()
    assert sum(parts) == size
    assert max(parts) < 4 * _MOST_UNREAD


async def test_the_request_is_one_of_http() -> None:
    """With the path of the address, or a whole address of the same server; a length only where there is a body."""
    wires = Wires([WHOLE], [WHOLE])
    async with wired(wires, "/v1") as http:
        await within(body_of(await within(http.request("POST", "/chat", BODY))))
        whole = f"http://{http.headers['host']}/props"
        await within(body_of(await within(http.request("GET", whole, None))))
    host = http.headers["host"].encode()
    assert wires.asked[0] == b"POST /v1/chat HTTP/1.1\r\nHost: %s\r\nX-Own: 1\r\nContent-Length: 2\r\n\r\n" % host
    assert wires.asked[1] == b"GET /props HTTP/1.1\r\nHost: %s\r\nX-Own: 1\r\n\r\n" % host


async def test_a_host_that_is_not_there_is_an_error_of_connecting() -> None:
    """By name and by number."""
    for url in ("http://127.0.0.1:1", "http://localhost:1", "http://no-such-host.invalid"):
        async with PlainHttp(httpx2.URL(url), {}, connect_s=20, kept_s=1, most=1) as http:
            with pytest.raises(httpx2.ConnectError) as raised:
                await within(http.request("GET", "/", None))
            assert isinstance(raised.value.__cause__, OSError)
