"""One server that stories share where kills of the server are not the subject."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.story.harness import Server


@pytest.fixture(scope="package")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The process; stories take ``server``."""
    one = Server(tmp_path_factory.mktemp("shared"))
    one.start()
    yield one
    one.kill()


@pytest_asyncio.fixture
async def server(shared_server: Server) -> AsyncIterator[Server]:
    """A running server; its connections end with the test."""
    yield shared_server
    await shared_server.close()


@pytest_asyncio.fixture
async def fresh_server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server of the test's own, not yet started."""
    one = Server(tmp_path / "home")
    yield one
    await one.close()
    one.kill()
