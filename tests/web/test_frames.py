"""The direct way for frames: whatever the bytes are cut into, messages come whole and in order, and so they leave."""

import asyncio
import contextlib
import gc
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from orchestrator.core.wire import wire
from orchestrator.web.sockets import EXTENSION, DirectSocket, FrameProtocol, accepted
from tests.harness.hub_server import serving
from tests.harness.support import hello
from tests.harness.whole_server import running
from tests.waiting import HANG_S, within

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
REQUEST = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
LIMIT = 131_072


def frame(payload: bytes, opcode: int = BINARY, *, fin: bool = True, mask: bool = True) -> bytes:
    """A frame as a client sends it."""
    size, bit = len(payload), 0x80 if mask else 0
    first = (0x80 if fin else 0) | opcode
    if size < 126:
        head = bytes((first, bit | size))
    else:
        head = (
            struct.pack("!BBH", first, bit | 126, size) if size < 65536 else struct.pack("!BBQ", first, bit | 127, size)
        )
    if not mask:
        return head + payload
    return head + b"abcd" + bytes(byte ^ b"abcd"[at % 4] for at, byte in enumerate(payload))


@dataclass
class End:
    """Both ends of one connection: the server's socket with what it heard, the client's bytes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    socket: DirectSocket
    heard: "asyncio.Queue[bytes | str | None]" = field(default_factory=asyncio.Queue)

    async def hear(self) -> bytes | str | None:
        """What the server heard next; None: that the connection is over."""
        return await within(self.heard.get())

    async def frame(self) -> tuple[int, bytes]:
        """The next frame that the client gets: opcode and payload."""
        async with asyncio.timeout(HANG_S):
            first, size = await self.reader.readexactly(2)
            if size == 126:
                (size,) = struct.unpack("!H", await self.reader.readexactly(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", await self.reader.readexactly(8))
            assert first & 0x80
            return first & 0x0F, await self.reader.readexactly(size)

    async def closed(self) -> int:
        """The code of the close frame that the client gets."""
        opcode, payload = await self.frame()
        assert opcode == CLOSE
        code: int = struct.unpack_from("!H", payload)[0]
        return code


@asynccontextmanager
async def connected(*, early: bytes = b"", waiting: int = 0) -> AsyncIterator[End]:
    """A connection that listens; ``early`` comes before the handshake is answered: ``waiting`` frames and more."""
    accepting: asyncio.Future[DirectSocket] = asyncio.get_running_loop().create_future()
    entered = asyncio.Event()
    heard: asyncio.Queue[bytes | str | None] = asyncio.Queue()

    async def handle(websocket: WebSocket) -> None:
        protocol = websocket.scope["extensions"][EXTENSION]
        assert isinstance(protocol, FrameProtocol)
        entered.set()
        async with asyncio.timeout(HANG_S):
            while protocol.queue.qsize() < 1 + waiting:  # noqa: ASYNC110 - uvicorn tells nobody
                await asyncio.sleep(0)
        await websocket.accept()
        socket = accepted(websocket)
        assert isinstance(socket, DirectSocket)
        socket.listen(heard.put_nowait)
        accepting.set_result(socket)
        heard.put_nowait(await socket.receive())

    async with serving(WebSocketRoute("/{path:path}", handle)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        writer.write(REQUEST)
        await within(entered.wait())
        writer.write(early)
        await within(reader.readuntil(b"\r\n\r\n"))
        try:
            yield End(reader, writer, await within(accepting), heard)
        finally:
            writer.close()


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 4096, 10**6])
async def test_messages_come_whole_and_in_order_however_the_bytes_are_cut(cut: int) -> None:
    """Of every size of head, and those in several frames, with a ping between them that is answered."""
    middle = [b"", b"x" * 125, b"y" * 126, b"z" * 300]
    large = [b"l" * 65_535, b"m" * 65_536, b"n" * LIMIT] if cut > 1000 else []
    said = b"".join(map(frame, middle + large))
    said += frame(b"in ", fin=False) + frame(b"ping", PING) + frame(b"three ", CONT, fin=False) + frame(b"parts", CONT)
    said += frame("grün".encode(), TEXT) + frame(b"\xff", TEXT) + frame(b"last")
    async with connected() as end:
        for at in range(0, len(said), cut):
            end.writer.write(said[at : at + cut])
            await end.writer.drain()
            await asyncio.sleep(0)
        expected = [*middle, *large, b"in three parts", "grün", "\ufffd", b"last"]
        assert [await end.hear() for _ in expected] == expected
        assert await end.frame() == (PONG, b"ping")


@pytest.mark.parametrize("waiting", [1, 2])
async def test_what_came_before_it_listened_is_heard_first(waiting: int) -> None:
    """Bytes that came too early are not lost, and those after them follow, also when a frame was cut in two."""
    early, cut = b"".join(frame(b"%d" % number) for number in range(waiting)), frame(b"the other half")
    async with connected(early=early + cut[:1], waiting=waiting) as end:
        end.writer.write(cut[1:] + frame(b"later"))
        heard = [await end.hear() for _ in range(waiting + 2)]
        assert heard == [*(b"%d" % number for number in range(waiting)), b"the other half", b"later"]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (frame(b"open", mask=False), 1002),
        (frame(b"x" * (LIMIT + 1)), 1009),
        (frame(b"begun", fin=False) + frame(b"another"), 1002),
        (frame(b"nothing begun", CONT), 1002),
        (b"\xf2" + frame(b"reserved bits")[1:], 1002),
    ],
    ids=["unmasked", "too-large", "in-the-middle-of-another", "no-beginning", "reserved-bits"],
)
async def test_a_broken_frame_ends_the_connection(said: bytes, code: int) -> None:
    """With the code that the standard has for it; nothing of it is heard."""
    async with connected() as end:
        end.writer.write(said)
        assert await end.closed() == code
        assert await end.hear() is None
        with pytest.raises(ConnectionError):
            end.socket.write([b"too late"])


async def test_messages_are_written_at_once_and_in_order() -> None:
    """Several in one go, of every size of head, and what ``send`` writes after them."""
    messages = [b"", b"a" * 125, b"b" * 126, b"c" * 65_535, b"d" * 65_536]
    async with connected() as end:
        end.socket.write(messages)
        await end.socket.send(b"last")
        assert [await end.frame() for _ in range(6)] == [(BINARY, one) for one in [*messages, b"last"]]


async def test_who_does_not_read_is_noticed_and_holds_up_only_send() -> None:
    """A connection that takes no more says so, and says when it does again; nothing is lost on the way."""
    async with connected() as end:
        written = 0
        while end.socket.takes_more():
            end.socket.write([b"%08d" % written + b"x" * 100_000])
            written += 1
            assert written < 1000
        waiting = asyncio.create_task(end.socket.send(b"%08d" % written))
        end.writer.write(frame(b"still heard"))
        assert await end.hear() == b"still heard"
        assert not waiting.done()
        assert [int((await end.frame())[1][:8]) for _ in range(written + 1)] == list(range(written + 1))
        await waiting
        assert end.socket.takes_more()


async def test_after_a_close_nothing_is_heard_or_written() -> None:
    """Either side may close; the end is told once."""
    async with connected() as end:
        await end.socket.close(1008, "enough")
        assert await end.closed() == 1008
        end.writer.write(frame(b"unheard") + frame(struct.pack("!H", 1008), CLOSE))
        assert await end.hear() is None
        with pytest.raises(ConnectionError):
            end.socket.write([b"too late"])
        assert await within(end.reader.read()) == b""
        assert end.heard.empty()


async def test_a_connection_that_breaks_off_is_over() -> None:
    """Without a close frame the end is told all the same."""
    async with connected() as end:
        end.writer.write(frame(b"half")[:5])
        end.writer.transport.abort()
        assert await end.hear() is None


def held() -> Counter[str]:
    """The objects that are there, by type, but for timers that were canceled."""
    gc.collect()
    return Counter(
        type(one).__name__ for one in gc.get_objects() if not (isinstance(one, asyncio.TimerHandle) and one.cancelled())
    )


async def dialed_raw(url: str, token: str) -> socket.socket:
    """A computer that is welcome, as a bare socket: nothing of it is among the objects that the test counts."""
    loop, place = asyncio.get_running_loop(), urlsplit(url)
    client = socket.socket()
    client.setblocking(False)
    await loop.sock_connect(client, (place.hostname, place.port))
    request = REQUEST.replace(b"GET /", b"GET /computer?n=1", 1)
    lines = request.replace(b"Host: x", b"Host: x\r\nAuthorization: Bearer " + token.encode())
    await loop.sock_sendall(client, lines)
    assert b" 101 " in await within(loop.sock_recv(client, 65536))
    await loop.sock_sendall(client, frame(wire.encode(hello())))
    assert b'"welcome"' in await within(loop.sock_recv(client, 65536))
    return client


async def test_an_idle_computer_holds_one_task_and_few_objects(tmp_path: Path) -> None:
    """Ten thousand of them wait for days: no timer and no queue of their own, nothing of the application's layers."""
    count = 20
    async with running(tmp_path) as server:
        tokens = [await server.computer(f"c{number}") for number in range(count + 1)]
        with contextlib.ExitStack() as clients:
            clients.enter_context(await dialed_raw(server.url, tokens[0]))
            before, tasks = held(), len(asyncio.all_tasks())
            for token in tokens[1:]:
                clients.enter_context(await dialed_raw(server.url, token))
            each = {kind: (number - before[kind]) / count for kind, number in held().items()}
            assert len(asyncio.all_tasks()) == tasks + count
            assert round(each["coroutine"]) <= 10
            assert max(each.get("Queue", 0), each.get("TimerHandle", 0)) < 0.5
            assert sum(each.values()) < 130, sorted(each.items(), key=lambda one: -one[1])[:20]
