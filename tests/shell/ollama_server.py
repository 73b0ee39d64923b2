"""A server that speaks Ollama's API over real HTTP on loopback, and misbehaves in every way that was seen.

Each request for a reply is answered by the next persona of the server's list, the last one for ever.
"""

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

PARTS = 7
"""Characters of a reply in one line: small, so that every reply comes in several."""


@dataclass
class Wire:
    """The server's end of one request."""

    writer: asyncio.StreamWriter
    asked: dict[str, Any]
    """The body of the request."""
    left: asyncio.Event
    """Set when the client has closed the connection."""

    async def head(self, status: int = 200, kind: str = "application/x-ndjson", **headers: str) -> None:
        """Status and headers of an answer in parts."""
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.writer.write(
            f"HTTP/1.1 {status} Because\r\nContent-Type: {kind}\r\n{more}"
            "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
        )
        await self.writer.drain()

    async def raw(self, data: bytes) -> None:
        """One part of the answer, as it is."""
        self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self.writer.drain()

    async def line(self, chunk: Mapping[str, Any]) -> None:
        """One line of the answer."""
        await self.raw(json.dumps({"model": self.asked["model"], "created_at": "now", **chunk}).encode() + b"\n")

    async def text(self, text: str, **message: str) -> None:
        """Lines with the text of a reply."""
        for start in range(0, len(text), PARTS):
            content = text[start : start + PARTS]
            await self.line({"message": {"role": "assistant", "content": content, **message}, "done": False})

    async def done(self, reason: str = "stop", **counts: Any) -> None:
        """The last line, and the end of the answer."""
        sizes = {"prompt_eval_count": 11, "eval_count": 7, **counts}
        known = {key: value for key, value in sizes.items() if value is not None}
        last = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": reason, **known}
        await self.line(last)
        await self.end()

    async def end(self) -> None:
        """The end of the answer, in good form."""
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    def reset(self) -> None:
        """Break the connection without a goodbye."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


Persona = Callable[[Wire], Awaitable[None]]


@dataclass
class OllamaServer:
    """The server as a test sees it."""

    url: str = ""
    personas: deque[Persona] = field(default_factory=deque)
    listed: Any = None
    """What ``/api/tags`` answers."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of the requests for a reply."""
    heads: list[str] = field(default_factory=list)
    """Their request lines and headers."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has closed its connection."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection."""
        try:
            await self._answer(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if head.startswith("GET /api/tags "):
            listed = json.dumps(self.listed)
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(listed)}\r\n\r\n{listed}".encode())
        else:
            assert head.startswith("POST /api/chat ")
            length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length:"))
            self.heads.append(head)
            self.asked.append(json.loads(await reader.readexactly(int(length.partition(":")[2]))))
            watching = asyncio.create_task(self._watch(reader))
            persona = self.personas.popleft() if len(self.personas) > 1 else self.personas[0]
            try:
                await persona(Wire(writer, self.asked[-1], self.left))
            finally:
                watching.cancel()

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        try:
            while await reader.read(1):
                pass
        except ConnectionError:
            pass
        self.left.set()


@asynccontextmanager
async def ollama(*personas: Persona, models: Sequence[str] = ()) -> AsyncIterator[OllamaServer]:
    """A server on a free port."""
    server = OllamaServer(personas=deque(personas), listed={"models": [{"name": name} for name in models]})
    answering: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering[asyncio.create_task(server.answer(reader, writer))] = writer

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for task in answering:
            task.cancel()
        found = await asyncio.gather(*answering, return_exceptions=True)
        await asyncio.gather(*(writer.wait_closed() for writer in answering.values()), return_exceptions=True)
    broken = [one for one in found if isinstance(one, Exception)]
    assert not broken, broken


# -- personas ------------------------------------------------------------------------------


def says(text: str, reason: str = "stop", **counts: Any) -> Persona:
    """A whole reply as it should be; ``reason`` as the last line says it."""

    async def persona(wire: Wire) -> None:
        await wire.head()
        await wire.text(text)
        await wire.done(reason, **counts)

    return persona


def plays(*replies: Mapping[str, Any]) -> Persona:
    """The reply whose place is the number of replies in the view."""

    async def persona(wire: Wire) -> None:
        place = sum(message["role"] == "assistant" for message in wire.asked["messages"])
        await says(json.dumps(replies[place]))(wire)

    return persona


def thinks(thoughts: str, text: str) -> Persona:
    """A model that thinks before it speaks, whatever it was told."""

    async def persona(wire: Wire) -> None:
        await wire.head()
        await wire.line({"message": {"role": "assistant", "content": "", "thinking": thoughts}, "done": False})
        await says_on(wire, text)

    return persona


async def says_on(wire: Wire, text: str) -> None:
    """The rest of an answer that has begun."""
    await wire.text(text)
    await wire.done()


def stops(text: str) -> Persona:
    """The answer ends in good form, but its last line never came."""

    async def persona(wire: Wire) -> None:
        await wire.head()
        await wire.text(text)
        await wire.end()

    return persona


async def floods(wire: Wire) -> None:
    """Blanks until Ollama itself gives up: no last line, no error."""
    await wire.head()
    for _ in range(31):
        await wire.line({"message": {"role": "assistant", "content": " "}, "done": False})
    await wire.end()


def refuses(status: int, body: Any, kind: str = "application/json", **headers: str) -> Persona:
    """An answer with this status; ``body`` as JSON unless it is bytes."""

    async def persona(wire: Wire) -> None:
        await wire.head(status, kind, **headers)
        await wire.raw(body if isinstance(body, bytes) else json.dumps(body).encode())
        await wire.end()

    return persona


def gives_up(text: str, error: Any) -> Persona:
    """An error in the middle of a reply that had begun well."""

    async def persona(wire: Wire) -> None:
        await wire.head()
        await wire.text(text)
        await wire.line({"error": error})
        await wire.end()

    return persona


def garbles(*parts: bytes, after: str = "") -> Persona:
    """Bytes that are none of Ollama's lines."""

    async def persona(wire: Wire) -> None:
        await wire.head()
        await wire.text(after)
        for part in parts:
            await wire.raw(part)
        await wire.end()

    return persona


def breaks(text: str) -> Persona:
    """The connection is reset in the middle of a reply, once the client is known to read it."""

    async def persona(wire: Wire) -> None:
        await wire.head()
        await wire.text(text)
        wire.reset()

    return persona


def falls_silent(text: str | None = None) -> Persona:
    """Says this much of a reply (None: not even a status) and then nothing, until the client leaves."""

    async def persona(wire: Wire) -> None:
        if text is not None:
            await wire.head()
            await wire.text(text)
        await wire.left.wait()

    return persona


def loads(seconds: float, text: str) -> Persona:
    """Takes its time before the first line, as a model that has to be loaded does, and speaks quickly then."""

    async def persona(wire: Wire) -> None:
        await wire.head()
        await asyncio.sleep(seconds)
        await says_on(wire, text)

    return persona
