"""What the tests of the terminal UI share: the app on a screen in memory, and what stands on it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.events import Key, Paste
from textual.pilot import Pilot

from orchestrator.client import Client
from orchestrator.core.approval.approval import HitlResponse
from orchestrator.terminal.tui.app import ConsoleApp
from orchestrator.terminal.tui.approvals import Approvals
from orchestrator.terminal.tui.batch import Together
from orchestrator.terminal.tui.typing import SETTLE_S
from tests.harness.support import Disk, Listening
from tests.harness.whole_server import Server, connected, running
from tests.waiting import HANG_S

NARROW, WIDE = (80, 24), (200, 50)


@dataclass
class Seat:
    """A person before the screen."""

    app: ConsoleApp
    pilot: Pilot[int]

    @property
    def text(self) -> str:
        """What stands on the screen, row by row."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def press(self, *keys: str) -> None:
        """Read, press keys, one after the other, and wait until each has done what it does."""
        await self.until(self.was_readable, "on the screen for long enough")
        await self.pilot.press(*keys)
        await self._handed_out()

    def was_readable(self) -> bool:
        """Whether what can be decided here was on the screen long enough."""
        decides = [one for one in (self.app.pane, self.app.screen) if isinstance(one, Approvals | Together)]
        return time.monotonic() >= max((one._since for one in decides), default=0.0) + SETTLE_S

    async def burst(self, letters: str) -> None:
        """Type letters all in one moment, whatever has just come on the screen."""
        for letter in letters:
            self.app.post_message(Key(letter, letter))
        await self.pilot.pause()
        await self._handed_out()

    async def type(self, text: str) -> None:
        """Paste a text where the keys go: key by key it would take seconds."""
        self.app.post_message(Paste(text))
        await self.pilot.pause()
        await self._handed_out()

    async def _handed_out(self) -> None:
        await self.until(lambda: self.app.typing.idle or not self.app.is_running, "all keys are handed out")

    async def asks(self, key: str, *wanted: str) -> None:
        """Press a key, and wait for what it asks."""
        await self.press(key)
        await self.sees(*wanted)

    async def agrees(self, key: str, asked: str, *said: str) -> None:
        """Press a key, agree to what it asks, and wait for what is said then."""
        await self.asks(key, asked)
        before = list(self.app._said)
        await self.press("y")
        # What a task says next takes the place of a sentence, at once where a task ends.
        await self.until(lambda: all(self._was_said(one, before) for one in said), repr(said))

    def _was_said(self, wanted: str, before: list[str]) -> bool:
        """Whether it stands on the screen, or was said on it after ``before``."""
        new = (one for one in self.app._said if not any(one is old for old in before))
        return wanted in self.text or any(wanted in one for one in new)

    async def sees(self, *wanted: str) -> str:
        """The screen once all of that stands on it."""
        await self.until(lambda: all(one in self.text for one in wanted), repr(wanted))
        return self.text

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for what has to come."""
        try:
            async with asyncio.timeout(HANG_S):
                while not holds():
                    await self.pilot.pause(0.04)
        except TimeoutError:
            raise AssertionError(f"never {what}:\n{self.text}") from None


@asynccontextmanager
async def seated(server: Server, token: str = "", size: tuple[int, int] = NARROW) -> AsyncIterator[Seat]:
    """The terminal UI of one person; the admin's without a token."""
    async with seated_at(server.url, token or server.admin, size) as seat:
        yield seat


@asynccontextmanager
async def seated_at(url: str, token: str, size: tuple[int, int] = NARROW) -> AsyncIterator[Seat]:
    """The same, of any server."""
    client = Client(url, token)
    app = ConsoleApp(client)
    try:
        async with app.run_test(size=size) as pilot:
            seat = Seat(app, pilot)
            await seat.sees("connected to")
            yield seat
    finally:
        client.close()


async def waiting(server: Server, **more: Any) -> HitlResponse:
    """A new request that waits for a person."""
    return HitlResponse.model_validate(await server.paused(await server.submit(**more)))


@dataclass
class TuiFixture:
    """A server with computer 3, and a person before the screen who looks at what waits."""

    server: Server
    model: Listening
    disk: Disk
    seat: Seat

    async def over(self, request: HitlResponse) -> None:
        """Wait until the task of a request has ended."""
        await self.server.until(request.task_id, "task_ended")


@asynccontextmanager
async def at_work(
    directory: Path, *replies: dict[str, Any], disk: Disk | None = None, size: tuple[int, int] = NARROW, **settings: Any
) -> AsyncIterator[TuiFixture]:
    """Such a server and person; the model gives these replies."""
    model, disk = Listening(*replies), Disk() if disk is None else disk
    async with (
        running(directory, model=model, **settings) as server,
        connected(server, "3", disk),
        seated(server, size=size) as seat,
    ):
        await seat.press("2")
        yield TuiFixture(server, model, disk, seat)


@asynccontextmanager
async def asked(
    directory: Path, *replies: dict[str, Any], sees: str = "+print('new')", **more: Any
) -> AsyncIterator[tuple[TuiFixture, HitlResponse]]:
    """The same, and a request that stands on the screen."""
    async with at_work(directory, *replies, **more) as fixture:
        request = await waiting(fixture.server)
        await fixture.seat.sees(sees)
        yield fixture, request
