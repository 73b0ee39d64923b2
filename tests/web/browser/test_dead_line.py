"""A line that is dead without a word, in a real browser: what is followed over it is followed over another soon."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from playwright.async_api import Browser, expect

from tests.story.harness import Computer, Server, final
from tests.web.browser.conftest import WITHIN_MS
from tests.web.browser.seats import Pages, Seats
from tests.web.browser.test_approving import waiting, write

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Line:
    """Connections to a server; those that are dead take what they are sent and pass nothing on."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._alive: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    def die(self) -> None:
        """All that are open now."""
        self._alive.clear()

    def accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One more, which lives."""
        self._alive.add(writer)
        self._serving.add(asyncio.create_task(self._serve(reader, writer)))

    async def close(self) -> None:
        """End all of them."""
        for one in self._serving:
            one.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target)
            with contextlib.closing(up_writer), contextlib.suppress(OSError):
                ways = ((reader, up_writer), (up_reader, writer))
                await asyncio.gather(*(self._pass(*way, of=writer) for way in ways))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, of: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if of in self._alive:
                writer.write(data)
                await writer.drain()
        if of in self._alive:
            writer.close()


@contextlib.asynccontextmanager
async def line(target: int) -> AsyncIterator[tuple[Line, int]]:
    """A line to a server, and the port at which it begins."""
    one = Line(target)
    listening = await asyncio.start_server(one.accepted, "127.0.0.1", 0)
    try:
        yield one, listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        await one.close()


@pytest.mark.deep
async def test_a_task_is_followed_over_another_line(chromium: Browser, server: Server, pc: Computer) -> None:
    """After 40 s of silence at once: the browser's own goodbye over the dead line, a minute long, is not waited for."""
    api = server.api()
    task_id = await api.submit(write("a.lua"), write("b.lua"), final(), computers=(pc.name,))
    first = await waiting(api, task_id)
    async with line(server.port) as (one, port):
        seats = Seats(Pages(chromium, WITHIN_MS), replace(server, url=f"http://127.0.0.1:{port}"), WITHIN_MS)
        seat = await seats.open(f"tasks/{task_id}", fresh=True)
        await expect(seat.request(first)).to_be_visible()
        await seat.page.clock.install()
        await seat.page.reload()
        await expect(seat.page.locator(".step")).to_have_count(1)
        one.die()
        await api.resume(first, "approve")
        await waiting(api, task_id, 2)
        for _ in range(45):
            await seat.page.clock.run_for(1_000)
        await seat.page.clock.resume()
        await expect(seat.page.locator(".step")).to_have_count(2)
        await expect(seat.page.locator(".connection.live")).to_be_visible()
        await seats.close()


@pytest.mark.deep
async def test_what_waits_is_shown_where_no_step_comes(server: Server, pc: Computer, seats: Seats) -> None:
    """A stream that is open and says nothing keeps nobody from deciding."""
    api = server.api()
    task_id = await api.submit(write(), final(), computers=(pc.name,))
    request_id = await waiting(api, task_id)
    seat = await seats.open("tasks")
    await seat.page.route_web_socket("**/events*", lambda _: None)
    await seat.go(f"tasks/{task_id}")
    await seat.request(request_id).get_by_role("button", name="Approve", exact=True).click()
    assert "approved by you" in await seat.told("done")
