"""A hub alone on a loopback socket, over a journal that a test lays out: for the sockets of computers, and for tools.

A test that needs tasks, people or a store uses the whole server.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from orchestrator.app.serving import PortServer
from orchestrator.computers.hub import Hub, Met, Visitor
from orchestrator.core.ports import CallResult, Settlement
from orchestrator.core.task.facts import Observed
from orchestrator.core.task.system_facts import ComputerFrozen
from orchestrator.core.wire import wire
from orchestrator.core.wire.identity import NOTHING_HEARD, Heard
from orchestrator.core.wire.wire import ComputerId, RunId
from orchestrator.testing.stub_computer import StubComputer
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.tools.registry import TOOL_REGISTRY
from orchestrator.web.sockets import FrameProtocol, accepted
from tests.harness.support import StubClient, dialed, stubs_connected
from tests.waiting import within

FARM = ComputerId("farm")
RUN = RunId("c1.1")
_NUMBERS = count(1000)
ALIVE_WITHIN_S = 0.5
"""What a computer gets to show that it lives, when another comes in its name: tests do not wait for three seconds."""


@dataclass
class Journal:
    """What the hub asks of the journal, laid out by a test."""

    last: int = 0
    open_runs: set[RunId] = field(default_factory=set)
    visitors: list[Visitor] = field(default_factory=list)
    """Who was met, in order."""
    told: dict[ComputerId, int] = field(default_factory=dict)
    """What was heard from computers that have gone."""
    frozen: ComputerFrozen | None = None
    """Why a visitor is turned away; None: it is welcome."""
    failure: Exception | None = None
    """Why nothing can be asked; None: it can."""
    fails_late: Exception | None = None
    """The same, but only after the welcome."""
    fresh: bool = False
    last_heard: Heard = NOTHING_HEARD
    arrivals: "asyncio.Queue[ComputerId]" = field(default_factory=asyncio.Queue)

    async def meet(self, visitor: Visitor, *, heard: Heard) -> Met:
        self.visitors.append(visitor)
        self.last_heard = heard
        if self.failure is not None:
            raise self.failure
        if self.frozen is not None:
            return Met(frozen=self.frozen)
        self.last = max(self.last + 1, visitor.hello.highest + 1)
        return Met(number=self.last, fresh=self.fresh)

    async def copy_of(self, visitor: Visitor) -> int | None:
        del visitor
        return None

    async def copied(self, visitor: Visitor) -> ComputerFrozen:
        self.visitors.append(visitor)
        self.frozen = ComputerFrozen(computer=visitor.computer, reason="two_computers")
        return self.frozen

    async def heard(self, computer: ComputerId, heard: Heard) -> None:
        self.told[computer] = heard.journal_seq

    async def number(self, computer: ComputerId) -> int:
        del computer
        self.last += 1
        return self.last

    async def closed_runs(self, computer: ComputerId, run_ids: Sequence[RunId]) -> list[RunId]:
        del computer
        return [run_id for run_id in run_ids if run_id not in self.open_runs]

    async def labelled(self, computer: ComputerId, label: str, former_labels: tuple[str, ...]) -> None:
        """Nothing is kept."""

    async def rejudge(self) -> None:
        """Nothing waits."""

    async def arrived(self, computer: ComputerId) -> None:
        if self.fails_late is not None:
            raise self.fails_late
        self.arrivals.put_nowait(computer)

    def left(self, computer: ComputerId) -> None:
        """Nobody watches."""


class Accepted:
    """A connection of the `websockets` server as the hub takes it."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    async def receive(self) -> bytes | str | None:
        try:
            return await self._connection.recv()
        except ConnectionClosed:
            return None

    async def send(self, frame: bytes) -> None:
        try:
            await self._connection.send(frame)
        except ConnectionClosed as error:
            raise ConnectionError(str(error)) from error

    async def close(self, code: int, reason: str) -> None:
        await self._connection.close(code, reason)


@dataclass
class HubServer:
    """A hub that listens."""

    hub: Hub
    journal: Journal
    url: str

    @asynccontextmanager
    async def computer(self, **changes: Any) -> AsyncIterator[StubClient]:
        """A computer that was welcomed, after the hub has noted its arrival."""
        async with dialed(self.url) as client:
            await client.greet(**changes)
            await within(self.journal.arrivals.get())
            yield client

    @asynccontextmanager
    async def stub(self, **more: Any) -> AsyncIterator[StubComputer]:
        """A stub computer that was welcomed; ``more``: as for StubComputer."""
        stub = StubComputer(self.url, "token", **more)
        async with stubs_connected(stub):
            await within(self.journal.arrivals.get())
            yield stub

    def calling(self, run_id: RunId = RUN, *, number: int = 9, **more: Any) -> "asyncio.Task[CallResult]":
        """A call under way."""
        values: dict[str, Any] = {"method": "fs_read", "params": {"path": "a"}, **more}
        return asyncio.create_task(self.hub.call(FARM, run_id=run_id, task_id="t-1", number=number, **values))

    def settling(self, *run_ids: RunId, number: int = 20) -> "asyncio.Task[dict[RunId, Settlement]]":
        """A settle under way."""
        return asyncio.create_task(self.hub.settle(FARM, run_ids=run_ids or (RUN,), number=number))

    def online(self) -> bool:
        info = self.hub.info(FARM)
        return info is not None and info.online


@asynccontextmanager
async def hub_server(*, direct: bool = False) -> AsyncIterator[HubServer]:
    """A hub that takes any connection as the farm's; ``direct``: over the server and the sockets of ``serve``."""
    journal = Journal()
    hub = Hub(journal, alive_within_s=ALIVE_WITHIN_S)
    async with (_through_uvicorn if direct else _through_websockets)(hub) as port:
        yield HubServer(hub, journal, f"http://127.0.0.1:{port}")
        await hub.close()


@asynccontextmanager
async def _through_uvicorn(hub: Hub) -> AsyncIterator[int]:
    async def handle(websocket: WebSocket) -> None:
        await websocket.accept(wire.COMPUTER_SUBPROTOCOL)
        await hub.serve(FARM, accepted(websocket))

    async with serving(WebSocketRoute("/{path:path}", handle)) as port:
        yield port


@asynccontextmanager
async def serving(*routes: BaseRoute, **more: Any) -> AsyncIterator[int]:
    """The port of a server with these routes alone that speaks as that of ``serve`` does; ``more``: of the app."""
    config = uvicorn.Config(
        Starlette(routes=routes, **more),
        ws=FrameProtocol,
        ws_max_size=131_072,
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=2,
    )
    server = PortServer(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = asyncio.create_task(server.serve([listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.stop()
            await within(running)


@asynccontextmanager
async def _through_websockets(hub: Hub) -> AsyncIterator[int]:
    async def handle(connection: ServerConnection) -> None:
        await hub.serve(FARM, Accepted(connection))

    named = [Subprotocol(wire.COMPUTER_SUBPROTOCOL)]
    async with serve(handle, "127.0.0.1", 0, compression=None, ping_interval=None, subprotocols=named) as listening:
        yield next(iter(listening.sockets)).getsockname()[1]


async def failed(task: "asyncio.Task[Any]", kind: type[Exception]) -> Exception:
    """The error that a call or a settle ends with."""
    with pytest.raises(kind) as raised:
        await within(task)
    return raised.value


# -- tools, called by hand -----------------------------------------------------------------


@dataclass
class ToolClient:
    """The way of a tool to the computer that is connected to a hub."""

    server: HubServer
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
        number = next(_NUMBERS)
        self.latest = RunId(f"d{number}")
        call: dict[str, Any] = {"number": number, "method": method, "params": params, "body": body, "wait_s": wait_s}
        calling = self.server.calling(self.latest, **call, on_output=self._told)
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
