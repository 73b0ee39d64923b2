"""The way of a tool, called by hand, to a computer that is connected to a house."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from orchestrator.computers.hub import Hub
from orchestrator.core.ports import CallResult
from orchestrator.core.task.facts import Observed
from orchestrator.core.wire.wire import COMPUTER_SUBPROTOCOL, RunId
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.tools.registry import TOOL_REGISTRY
from tests.harness.running_server import ALIVE_WITHIN_S, FARM, Accepted, House, Journal
from tests.waiting import within

NUMBERS = count(1000)


@dataclass
class Door:
    """The way of a tool to the computer that is connected to a house."""

    house: House
    methods: list[str] = field(default_factory=list)
    latest: RunId | None = None
    wrote: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a program wrote something."""
    paused: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it was told that the game is paused."""

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        self.methods.append(method)
        number = next(NUMBERS)
        self.latest = RunId(f"d{number}")
        call: dict[str, Any] = {"number": number, "method": method, "params": params, "body": body, "wait_s": wait_s}
        calling = self.house.calling(self.latest, **call, on_output=self._told)
        return await within(calling)

    def _told(self, offset: int, data: bytes) -> None:
        del offset
        (self.wrote if data else self.paused).set()


async def use(tool: str, deps: CCAgentDeps, **args: Any) -> str:
    return await TOOL_REGISTRY[tool](deps, **args)


async def observed(tool: str, deps: CCAgentDeps, **args: Any) -> Observed:
    observe = TOOL_REGISTRY[tool].observe
    assert observe is not None
    return await observe(deps, **args)


@asynccontextmanager
async def open_for_lua() -> AsyncIterator[House]:
    """A house whose door takes the real client, which insists on the subprotocol that it asks for."""
    journal = Journal()
    hub = Hub(journal, alive_within_s=ALIVE_WITHIN_S)

    async def handle(connection: ServerConnection) -> None:
        await hub.serve(FARM, Accepted(connection))

    named = [Subprotocol(COMPUTER_SUBPROTOCOL)]
    async with serve(handle, "127.0.0.1", 0, compression=None, ping_interval=None, subprotocols=named) as listening:
        port = next(iter(listening.sockets)).getsockname()[1]
        yield House(hub, journal, f"http://127.0.0.1:{port}")
        await hub.close()
