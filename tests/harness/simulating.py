"""Drives a simulated computer by its line protocol, and serves it HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import forked
from tests.waiting import HANG_S


@dataclass
class Player:
    """Who sits at a simulated computer and rules its world."""

    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)
    """What came on standard output besides answers."""

    async def do(self, command: str) -> Any:
        """Give a command; its answer. An error fails the test."""
        told = await self.ask(command)
        assert not told.startswith("error: "), told
        return None if told == "ok" else json.loads(told)

    async def ask(self, command: str) -> str:
        """Give a command; the line that answers it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command.encode() + b"\n")
        async with asyncio.timeout(HANG_S):
            while True:
                line = (await self.process.stdout.readline()).decode()
                assert line, f"the computer ended before it answered {command!r}"
                if line.startswith("= "):
                    return line.removeprefix("= ").strip()
                self.lines.append(line.strip())

    async def see(self, text: str) -> str:
        """Wait for a text on the screen; the whole screen, without the empty rows at its end."""
        await self.do(f"wait {text}")
        rows: list[str] = (await self.do("screen"))["rows"]
        return "\n".join(rows).rstrip()


@asynccontextmanager
async def playing(disk: Path, *options: str, bare: bool = True) -> AsyncIterator[Player]:
    """A simulated computer that is controlled; ended when the block ends."""
    process = await forked.start_simulator(
        f"--disk={disk}",
        "--control",
        *(["--bare"] if bare else []),
        *options,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield Player(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(HANG_S):
                await process.communicate()
        except TimeoutError:
            process.kill()
            await process.communicate()


_PRINTS = """\
local out = fs.open("/out", "wb")
local function print(...)
  local words = table.pack(...)
  for index = 1, words.n do words[index] = tostring(words[index]) end
  out.write(table.concat(words, " ") .. "\\n")
end
"""
"""What a program prints goes into a file, where no row is too short for it."""


async def printed(disk: Path, source: str, *options: str) -> list[str]:
    """What a program prints on a fresh computer, line by line, a blank between values."""
    (disk / "p.lua").write_text(f"{_PRINTS}{source}\nout.close()\nterm.write('THE END')\n", "latin-1")
    async with playing(disk, "--type=p", *options) as player:
        await player.see("THE END")
    return (disk / "out").read_text("latin-1").splitlines()


@dataclass(frozen=True)
class Asked:
    """A request as it came over the wire."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Handler = Callable[[Asked], Awaitable[bytes]]


@asynccontextmanager
async def web(handler: Handler, *, tls: Any = None) -> AsyncIterator[int]:
    """A server of HTTP on a port of its own; the handler's bytes are the whole answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            method, path, _ = first.split(" ")
            headers = {name: value for name, _, value in (line.partition(": ") for line in lines)}
            length = next((int(v) for k, v in headers.items() if k.lower() == "content-length"), 0)
            body = await reader.readexactly(length)
            writer.write(await handler(Asked(method, path, headers, body)))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def answer(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """An answer of a server; underscores in names of headers stand for dashes."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status}", *(f"{k}: {v}" for k, v in ({"Content-Length": str(len(body))} | given).items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
