"""What takes notifications: an HTTP server on loopback that keeps what comes, and checks signatures by itself.

The check is written after the specification on standardwebhooks.com, and shares no code with the sender.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.waiting import within

PATH = "/hooks/9f31ab02-not-to-be-seen"
"""The secret part of the address."""


@dataclass(frozen=True)
class Taken:
    """One request that came."""

    path: str
    headers: Mapping[str, str]
    """With names in small letters."""
    body: bytes

    @property
    def told(self) -> dict[str, Any]:
        """The body."""
        found: dict[str, Any] = json.loads(self.body)
        return found

    def is_signed(self, key: str) -> bool:
        """Whether the headers have the signature of this body with this key."""
        signed = b".".join((self.headers["webhook-id"].encode(), self.headers["webhook-timestamp"].encode(), self.body))
        secret = base64.b64decode(key.split("_", 1)[1])
        made = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
        return f"v1,{made}" in self.headers["webhook-signature"].split(" ")


@dataclass
class Receiver:
    """The server, and what came."""

    answer: Callable[[int], str] = lambda _: "204 No Content"
    """The status line after the version, and headers; it is given how many came before. Empty: no answer at all."""
    taken: list[Taken] = field(default_factory=list)
    port: int = 0
    most_at_once: int = 0
    _now: int = 0
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        """The address for a rule."""
        return f"http://127.0.0.1:{self.port}{PATH}"

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events that came, in order."""
        return [event for one in self.taken for event in one.told["events"]]

    async def until(self, holds: Callable[["Receiver"], bool]) -> None:
        """Wait until what came is as it has to be."""
        async with self._news:
            await within(self._news.wait_for(lambda: holds(self)))

    async def got(self, count: int) -> list[Taken]:
        """The first requests, as soon as there are so many."""
        await self.until(lambda one: len(one.taken) >= count)
        return self.taken[:count]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection with one request."""
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            named = (line.partition(":") for line in head[1:] if line)
            headers = {name.lower(): value.strip() for name, _, value in named}
            body = await reader.readexactly(int(headers["content-length"]))
            answer = self.answer(len(self.taken))
            async with self._news:
                self.taken.append(Taken(head[0].split(" ")[1], headers, body))
                self._news.notify_all()
            if not answer:
                await reader.read()
            length = "" if "Content-Length" in answer else "\r\nContent-Length: 0"
            writer.write(f"HTTP/1.1 {answer}{length}\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._now -= 1
            writer.close()


@asynccontextmanager
async def receiving(
    answer: Callable[[int], str] | None = None, *, tls: tuple[Path, Path] | None = None
) -> AsyncIterator[Receiver]:
    """A receiver that listens; ``tls``: its certificate and key, None: it speaks plain HTTP."""
    receiver = Receiver() if answer is None else Receiver(answer)
    context = None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=context)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
