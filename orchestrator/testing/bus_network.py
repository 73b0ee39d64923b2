"""What the contracts of the bus stand on: the nodes of one network, and what was heard."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Self

from orchestrator.core.ports.bus import Answer, Bus

SOON_S: Final = 10.0
"""What has to happen has happened by then; it is waited for no longer than it takes."""
LONG_S: Final = 60.0
"""The time given to requests that end otherwise."""

Outage = Callable[[], AbstractAsyncContextManager[None]]
"""In the block what the network stands on is away for every node, its connections are lost; after it, it is back."""


class BusNetwork:
    """One network and the nodes on it, which are closed when the block ends.

    ``new_bus``: a bus on this network, not open; each is another node's, except where one process is all there is.
    """

    def __init__(self, new_bus: Callable[[], Bus], *, outage: Outage | None = None) -> None:
        self.new_bus = new_bus
        self._outage = outage
        self._nodes: list[Bus] = []

    async def node(self) -> Bus:
        """A node, open."""
        bus = self.new_bus()
        self._nodes.append(bus)
        await bus.open()
        return bus

    async def nodes(self, number: int) -> list[Bus]:
        """So many of them."""
        return [await self.node() for _ in range(number)]

    def outage(self) -> AbstractAsyncContextManager[None]:
        """A time in which no node reaches another."""
        assert self._outage is not None, "This network knows no outage."
        return self._outage()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for bus in self._nodes:
            await bus.close()


class Heard:
    """A handler that keeps what it hears."""

    def __init__(self) -> None:
        self.all: list[Mapping[str, Any]] = []
        self._news = asyncio.Event()

    def __call__(self, payload: Mapping[str, Any]) -> None:
        self.all.append(payload)
        self._news.set()

    async def until(self, payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Everything heard, as soon as ``payload`` is among it."""
        async with asyncio.timeout(SOON_S):
            while payload not in self.all:
                self._news.clear()
                await self._news.wait()
        return list(self.all)


class Server:
    """Serves as told: each request is kept and answered with its name, once it may be."""

    def __init__(self, name: str = "", *, free: bool = True) -> None:
        self.name = name
        self.begun: list[Mapping[str, Any]] = []
        self.ended = 0
        self.gate = asyncio.Event()
        self._news = asyncio.Event()
        if free:
            self.gate.set()

    async def __call__(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        self.begun.append(payload)
        self._news.set()
        try:
            await self.gate.wait()
        finally:
            self.ended += 1
            self._news.set()
        return Answer({"by": self.name, "to": payload}, body)

    async def until_begun(self, number: int = 1) -> None:
        """So many requests were begun."""
        async with asyncio.timeout(SOON_S):
            while len(self.begun) < number:
                self._news.clear()
                await self._news.wait()

    async def until_ended(self, number: int = 1) -> None:
        """So many requests were answered, or given up."""
        async with asyncio.timeout(SOON_S):
            while self.ended < number:
                self._news.clear()
                await self._news.wait()
