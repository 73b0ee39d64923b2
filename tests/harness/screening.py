"""A computer with a screen, and somebody who looks at it over the endpoints."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from orchestrator.testing.stub_computer import StubComputer
from tests.harness.support import stubs_connected
from tests.harness.whole_server import Server
from tests.waiting import HANG_S, within

KEYS = "/v1/computers/farm/keys"
SCREEN = "/v1/computers/farm/screen"


@asynccontextmanager
async def stub(server: Server, token: str) -> AsyncIterator[StubComputer]:
    """A computer that is welcome."""
    one = StubComputer(server.url, token)
    async with stubs_connected(one):
        await within(online(server))
        yield one


async def online(server: Server) -> None:
    """Wait until the computer can be asked."""
    while (await server.ask("GET", "/v1/computers/farm/screens")).status_code != 200:
        pass


@asynccontextmanager
async def events(server: Server, token: str = "", path: str = SCREEN) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    """The events of a stream, comments too."""
    headers = {"Authorization": f"Bearer {token or server.admin}"}
    async with server.http.stream("GET", path, headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"

        async def read() -> AsyncIterator[tuple[str, Any]]:
            kind = ""
            async for line in response.aiter_lines():
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield kind, json.loads(line.removeprefix("data: "))
                elif line:
                    yield "comment", line

        yield read()


async def told(stream: AsyncIterator[tuple[str, Any]]) -> tuple[str, Any]:
    """The next event that is no comment."""
    async with asyncio.timeout(HANG_S):
        async for kind, data in stream:
            if kind != "comment":
                return kind, data
    raise AssertionError("the stream is over")
