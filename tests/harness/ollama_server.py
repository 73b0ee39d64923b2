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
MOST_PARTS = 1000
"""Lines of a long reply: their number costs time and proves nothing more."""


@dataclass
class Wire:
    """The server's end of one request."""

    writer: asyncio.StreamWriter
    asked: dict[str, Any]
    """The body of the request."""
    left: asyncio.Event
    """Set when the client has closed the connection."""
    keeps: bool = False
    """Whether more requests are taken on the connection."""

    async def head(self, status: int = 200, kind: str = "application/x-ndjson", **headers: str) -> None:
        """Status and headers of an answer in parts."""
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        end = "" if self.keeps else "Connection: close\r\n"
        self.writer.write(
            f"HTTP/1.1 {status} Because\r\nContent-Type: {kind}\r\n{more}"
            f"Transfer-Encoding: chunked\r\n{end}\r\n".encode()
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
        size = max(PARTS, len(text) // MOST_PARTS)
        for start in range(0, len(text), size):
            content = text[start : start + size]
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


FACTS: dict[str, Any] = {
    "capabilities": ["completion", "tools"],
    "details": {"family": "llama", "parameter_size": "1.2B", "quantization_level": "Q4_K_M"},
    "model_info": {"general.architecture": "llama", "llama.context_length": 32768},
}
"""What ``/api/show`` says of a model unless a test says otherwise."""


@dataclass
class OllamaServer:
    """The server as a test sees it."""

    url: str = ""
    personas: deque[Persona] = field(default_factory=deque)
    listed: Any = None
    """What ``/api/tags`` answers; where it names models, ``/api/show`` knows only these."""
    facts: Any = field(default_factory=lambda: dict(FACTS))
    """What ``/api/show`` answers."""
    running: Any = field(default_factory=lambda: {"models": []})
    """What ``/api/ps`` answers."""
    version: str | None = "0.33.0"
    """None: an answer without it."""
    pulls: deque[Persona] = field(default_factory=deque)
    """Who answers ``/api/pull``; the last one for ever."""
    hidden: dict[str, Persona] = field(default_factory=dict)
    """Who answers at a path instead of what is said above, such as ``/api/show``."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of the requests for a reply."""
    paths: list[str] = field(default_factory=list)
    """The paths of all requests."""
    heads: list[str] = field(default_factory=list)
    """Request lines and headers of the requests for a reply."""
    busy: int = 0
    """Requests for a reply that are being answered."""
    busiest: int = 0
    """The most of them there ever were."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has closed its connection."""
    asks_at: str = "/api/chat"
    """The path of the requests for a reply."""
    keeps: bool = False
    """Whether it takes more than one request on a connection, as Ollama does."""
    drops: int = 0
    """So many later requests of connections are read, and their connections closed without an answer."""
    connections: int = 0
    """The connections that there were."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        self.connections += 1
        try:
            await self._answer(reader, writer)
            while self.keeps:
                await self._answer(reader, writer, later=True)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, later: bool = False) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ", 2)[1]
        lengths = [line for line in head.lower().split("\r\n") if line.startswith("content-length:")]
        body = await reader.readexactly(int(lengths[0].partition(":")[2])) if lengths else b""
        asked = json.loads(body or b"{}")
        self.paths.append(path)
        if later and self.drops:
            self.drops -= 1
            raise ConnectionResetError
        wire = Wire(writer, asked, self.left, self.keeps)
        if path == self.asks_at:
            self.heads.append(head)
            self.asked.append(asked)
            await self._replies(self.personas, wire, reader)
        elif path in self.hidden:
            await self._watched(self.hidden[path], wire, reader)
        elif path == "/api/pull":
            await self._replies(self.pulls, wire, reader)
        else:
            status, said = self._fact(path, asked)
            content = json.dumps(said)
            writer.write(f"HTTP/1.1 {status} Because\r\nContent-Length: {len(content)}\r\n\r\n{content}".encode())
            await writer.drain()

    def _fact(self, path: str, asked: Mapping[str, Any]) -> tuple[int, Any]:
        match path:
            case "/api/tags":
                return 200, self.listed
            case "/api/ps":
                return 200, self.running
            case "/api/version":
                return 200, {} if self.version is None else {"version": self.version}
            case "/api/show":
                names = [one.get("name") for one in self.listed["models"]]
                if names and asked["model"] not in names:
                    return 404, {"error": f"model '{asked['model']}' not found"}
                return 200, self.facts
        return 404, {"error": "404 page not found"}

    async def _replies(self, personas: deque[Persona], wire: Wire, reader: asyncio.StreamReader) -> None:
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            await self._watched(personas.popleft() if len(personas) > 1 else personas[0], wire, reader)
        finally:
            self.busy -= 1

    async def _watched(self, persona: Persona, wire: Wire, reader: asyncio.StreamReader) -> None:
        watching = asyncio.create_task(self._watch(reader))
        try:
            await persona(wire)
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
async def ollama(*personas: Persona, models: Sequence[str] = (), port: int = 0) -> AsyncIterator[OllamaServer]:
    """A server on a port, 0: a free one; ``models``: those that it has, none: whichever is asked for."""
    server = OllamaServer(personas=deque(personas), listed={"models": [{"name": name} for name in models]})
    async with listening(server, port):
        yield server


@asynccontextmanager
async def listening(server: OllamaServer, port: int = 0) -> AsyncIterator[None]:
    """Have a server answer at a port, 0: a free one."""
    answering: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering[asyncio.create_task(server.answer(reader, writer))] = writer

    accepting = await asyncio.start_server(accept, "127.0.0.1", port)
    server.url = f"http://127.0.0.1:{accepting.sockets[0].getsockname()[1]}"
    try:
        yield
    finally:
        accepting.close()
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


def holds(gate: asyncio.Event, text: str = "{}", began: asyncio.Event | None = None) -> Persona:
    """Says nothing before the gate is open; ``began`` is set when it was asked."""

    async def persona(wire: Wire) -> None:
        if began is not None:
            began.set()
        await wire.head()
        await gate.wait()
        await says_on(wire, text)

    return persona


# -- pulling -------------------------------------------------------------------------------


def pulls(*steps: Mapping[str, Any], end: bool = True) -> Persona:
    """A model that comes in these steps; ``end``: and the word that it is there."""

    async def persona(wire: Wire) -> None:
        await wire.head()
        for step in (*steps, *([{"status": "success"}] if end else [])):
            await wire.raw(json.dumps(step).encode() + b"\n")
        await wire.end()

    return persona
