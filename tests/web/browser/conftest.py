"""One Chromium for all of these tests, and a server process of its own for each."""

import os
import random
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.story.harness import Computer, Server, computer
from tests.waiting import HANG_S
from tests.web.browser.seats import Pages, Seats

WITHIN_MS = HANG_S * 1000.0


@pytest.fixture(scope="session")
def executable() -> str:
    """Chromium from PATH; playwright's own download is not used."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("chromium is not on PATH; scripts/test.py installs it, or says how")
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium(executable: str) -> AsyncIterator[Browser]:
    """One browser process; tests take ``seats``."""
    # Without a process for graphics, which these machines compute, a sixth of its CPU is saved.
    options = ["--disable-gpu", "--disable-software-rasterizer"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # Its sandbox does not work for root, which a test's container often is.
        options.append("--no-sandbox")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=options)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pages(chromium: Browser) -> Pages:
    """The pages of it."""
    return Pages(chromium, WITHIN_MS)


@pytest.fixture(scope="session")
def port() -> int:
    """Of every server of these tests: what the browser has of the one, it need not ask the next for.

    Below those that the system gives to whoever asks for any, so that it is free again for the next server.
    """
    while True:
        one = random.SystemRandom().randrange(20_000, 30_000)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", one))
            return one


@pytest.fixture
def process(tmp_path: Path, port: int) -> Iterator[Server]:
    """A server process in which every reviewer may decide."""
    one = Server(tmp_path / "home", approvers="role:reviewer", url=f"http://127.0.0.1:{port}")
    one.start()
    yield one
    one.kill()


@pytest_asyncio.fixture(loop_scope="session")
async def server(process: Server) -> AsyncIterator[Server]:
    """It, with its connections of this test."""
    yield process
    await process.close()


@pytest_asyncio.fixture(loop_scope="session")
async def pc(server: Server, tmp_path: Path) -> AsyncIterator[Computer]:
    """A simulated computer that dials the server."""
    async with computer(server, tmp_path) as one:
        one.boot()
        yield one


@pytest_asyncio.fixture(loop_scope="session")
async def seats(pages: Pages, server: Server) -> AsyncIterator[Seats]:
    """Browsers of people at this server; at the end none of them has complained or reached for another host."""
    some = Seats(pages, server, WITHIN_MS)
    yield some
    await some.close()
