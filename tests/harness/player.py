"""A player at a simulated computer: types at its prompt, reads its screen, reboots it."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import forked
from tests.harness.whole_server import Server
from tests.waiting import HANG_S


@dataclass
class Player:
    """Somebody at a computer that is on."""

    process: Process
    disk: Path

    async def do(self, command: str) -> str:
        """A line of the simulator's control protocol; its answer. Raises AssertionError when it was refused."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command.encode() + b"\n")
        async with asyncio.timeout(HANG_S):
            while line := (await self.process.stdout.readline()).decode():
                if line.startswith("= "):
                    assert not line.startswith("= error"), f"{command}: {line}"
                    return line[2:].rstrip("\n")
        raise AssertionError(f"the computer ended at: {command}")

    async def type(self, line: str) -> None:
        """Type a line as soon as the computer asks for one."""
        await self.do(f"type {line}")

    async def sees(self, text: str) -> None:
        """Return when a text is on the screen, also one that goes on in the next row."""
        try:
            async with asyncio.timeout(HANG_S):
                while True:
                    if text in await self.screen():
                        return
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{text!r} never came; the screen has:\n{await self.screen()}") from None

    async def screen(self) -> str:
        """What is on the screen now, as one line without blanks more than one."""
        return " ".join(" ".join(json.loads(await self.do("screen"))["rows"]).split())

    async def says(self, line: str, text: str) -> None:
        """Type a line again and again until the screen has a text: what it tells of takes its time."""
        async with asyncio.timeout(HANG_S):
            while True:
                await self.type("clear")
                await self.type(line)
                # The next prompt comes when the command is over.
                await self.type("echo_mark")
                await self.sees("No such program")
                if text in await self.screen():
                    return

    def files(self) -> dict[str, bytes | None]:
        """Everything on the disk; None: a directory."""
        return tree(self.disk)


def tree(root: Path) -> dict[str, bytes | None]:
    """Every file and directory below a place."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))
    }


@asynccontextmanager
async def playing(disk: Path, *options: str, number: int = 7) -> AsyncIterator[Player]:
    """A computer that is switched on as the game does it, and somebody in front of it; killed at the end."""
    command = ("--bare", "--control", "--disk", str(disk), "--id", str(number), *options)
    process = await forked.start_simulator(*command, stdin=PIPE, stdout=PIPE)
    try:
        yield Player(process, disk)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def welcomed(server: Server) -> AsyncIterator[None]:
    """What happens inside ends with a computer being welcomed, which may have been there before."""
    arrived, hub = asyncio.Event(), server.orchestrator.hub
    before = list(hub._sessions.values())

    def changed(told: Mapping[str, Any]) -> None:
        """A computer has come or has gone, or was paired while its old session goes on."""
        info, session = hub.info(told["computer"]), hub._sessions.get(told["computer"])
        if info is not None and info.online and all(session is not one for one in before):
            arrived.set()

    server.orchestrator.service.bus.subscribe("computers", changed)
    yield
    async with asyncio.timeout(HANG_S):
        await arrived.wait()


async def line_of(server: Server, **body: str) -> str:
    """The line to type on a computer that is to join."""
    answer = await server.ask("POST", "/v1/pairings", body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["line"])


async def online(server: Server) -> dict[str, bool]:
    """The computers of a server, and whether each is connected."""
    listed = (await server.ask("GET", "/v1/computers")).json()["computers"]
    return {one["computer"]: one["online"] for one in listed}
