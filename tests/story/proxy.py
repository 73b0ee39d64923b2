"""A proxy between a computer and the server that counts frames, holds them and cuts the line.

It works on TCP and reads WebSocket frames on the way; what it passes on is byte for byte what
came. Each side of a story's boundary is one frame here: *lost* means that the sender has written
it and nobody ever reads it, *delivered* that the receiver has it and the sender hears no more.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.core.wire import wire

Direction = Literal["up", "down"]
"""``up``: from the computer to the server."""

_BINARY = 2
_MASKED = 0x80


@dataclass(frozen=True)
class Frame:
    """One message on its way."""

    direction: Direction
    place: int
    """Counted from 1 in its direction, over all connections of this proxy."""
    connection: int
    """From 1."""
    message: Any
    size: int = 0
    """Bytes on the line, the frame of the socket included."""

    @property
    def name(self) -> str:
        """Such as ``down 3 call fs_write``."""
        method = getattr(self.message, "method", "")
        return f"{self.direction} {self.place} {self.message.type} {method}".strip()


class LineCut(Exception):
    """The connection is to be cut here."""


Hook = Callable[[Frame], Awaitable[None]]
"""Called with a frame; may wait (the frame is held), or raise LineCut."""


async def _pass(frame: Frame) -> None:
    del frame


@dataclass
class Proxy:
    """An address of the server for one computer."""

    target: int
    """The server's port."""
    before: Hook = _pass
    """Called before a frame is passed on."""
    after: Hook = _pass
    """Called after a frame was passed on."""
    port: int = 0
    frames: list[Frame] = field(default_factory=list)
    connections: int = 0
    errors: list[BaseException] = field(default_factory=list)
    """What a hook found wrong; raised when the proxy ends."""
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Where the computer dials."""
        return f"ws://127.0.0.1:{self.port}/computer"

    def cut(self) -> None:
        """Cut every connection, as if a cable were pulled."""
        for writer in self._writers:
            writer.transport.abort()

    def accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection of the computer: served until it is over or the proxy is closed."""
        self._writers.add(writer)
        serving = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def close(self) -> None:
        """End every connection; raises what a hook found wrong."""
        self.cut()
        for serving in self._serving:
            serving.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await _turns()
        if self.errors:
            raise self.errors[0]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        opened = {writer}
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
            opened.add(up_writer)
            self._writers |= opened
            pumps = (
                asyncio.ensure_future(self._pump("up", number, reader, up_writer)),
                asyncio.ensure_future(self._pump("down", number, up_reader, writer)),
            )
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
            ends = [pump.exception() for pump in pumps if not pump.cancelled()]
            self.errors += [error for error in ends if error is not None and not isinstance(error, _LOST)]
            if any(isinstance(error, LineCut) for error in ends):
                self.cut()
        except OSError:
            # The server is away: the computer is refused, as it would be by the real server.
            return
        finally:
            for one in opened:
                one.close()
            await asyncio.gather(*(one.wait_closed() for one in opened), return_exceptions=True)
            self._writers -= opened

    async def _pump(
        self, direction: Direction, connection: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(await reader.readuntil(b"\r\n\r\n"))
        while True:
            raw, payload = await _read_frame(reader)
            if payload is None:
                writer.write(raw)
                continue
            place = 1 + sum(frame.direction == direction for frame in self.frames)
            frame = Frame(direction, place, connection, wire.decode_any(payload)[0], len(raw))
            self.frames.append(frame)
            await self.before(frame)
            writer.write(raw)
            await writer.drain()
            await self.after(frame)


_LOST = (OSError, asyncio.IncompleteReadError, LineCut)


@contextlib.asynccontextmanager
async def proxy(target: int) -> AsyncIterator[Proxy]:
    """A proxy that listens on a free port."""
    one = Proxy(target)
    server = await asyncio.start_server(one.accepted, "127.0.0.1", 0)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        # What waits to be accepted first becomes ours: asyncio loses a connection that it accepts while it closes.
        await _turns()
        server.close()
        await one.close()


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def _read_frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes | None]:
    """One WebSocket frame as it came, and its payload if it is a binary message."""
    raw = await reader.readexactly(2)
    opcode, length = raw[0] & 0x0F, raw[1] & 0x7F
    if length >= 126:
        extended = await reader.readexactly(2 if length == 126 else 8)
        raw, length = raw + extended, int.from_bytes(extended, "big")
    mask = await reader.readexactly(4) if raw[1] & _MASKED else b""
    payload = await reader.readexactly(length)
    raw += mask + payload
    if opcode != _BINARY:
        return raw, None
    if mask:
        pad = mask * (length // 4 + 1)
        payload = bytes(a ^ b for a, b in zip(payload, pad, strict=False))
    return raw, payload
