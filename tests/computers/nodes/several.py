"""Several nodes in one process: complete sets of parts that share one bus and one store in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.adapters.bus import LocalBus
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.core.errors import NobodyServes, RequestLost
from orchestrator.core.ports import Answer, ChatModel, Store
from orchestrator.core.ports.bus import End, Hear, Serve
from orchestrator.core.wire.wire import ComputerId
from tests.harness.whole_server import Server, running
from tests.waiting import within


@dataclass
class Line:
    """The bus as one node has it; cut, it is as if the node had died: it says, hears and answers nothing more."""

    bus: LocalBus
    cut: bool = False
    disconnected: bool = False
    """Whether what this node asks reaches nobody, as where the bus is away and connects again."""
    lost: list[str] = field(default_factory=list)
    """Subjects of which nothing that this node publishes is heard."""

    async def open(self) -> None:
        """It is open."""

    async def close(self) -> None:
        """The others go on."""

    @property
    def connected(self) -> bool:
        return not self.cut

    async def flush(self) -> None:
        """What was published was heard."""

    def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        if not self.cut and subject not in self.lost:
            self.bus.publish(subject, payload)

    def subscribe(self, subject: str, handler: Hear) -> End:
        return self.bus.subscribe(subject, lambda payload: None if self.cut else handler(payload))

    async def request(self, subject: str, payload: Mapping[str, Any], body: bytes = b"", *, within_s: float) -> Answer:
        if self.cut:
            raise RequestLost("The line is cut.")
        if self.disconnected:
            raise NobodyServes("The bus is not connected.")
        return await self.bus.request(subject, payload, body, within_s=within_s)

    def serve(self, subject: str, handler: Serve) -> End:
        async def serve(payload: Mapping[str, Any], body: bytes) -> Answer:
            if not self.cut:
                answer = await handler(payload, body)
            if self.cut:
                await asyncio.Event().wait()
            return answer

        return self.bus.serve(subject, serve)


class Shared(InMemoryPersistenceManager):
    """A store that outlives the nodes that close it."""

    async def close(self) -> None:
        """The others go on."""


@dataclass
class Several:
    """The nodes, by name."""

    nodes: dict[str, Server]
    lines: dict[str, Line]
    store: Store

    def __getitem__(self, name: str) -> Server:
        return self.nodes[name]

    async def online(self, name: str, computer: str = "3") -> bool:
        """Whether a node finds that a computer is connected somewhere."""
        wanted = ComputerId(computer)
        found = (await self.nodes[name].orchestrator.node.fleet.look([wanted])).get(wanted)
        return found is not None and found.info.online

    async def offline(self, name: str, computer: str = "3") -> bool:
        """Whether a node finds that a computer is connected nowhere."""
        return not await self.online(name, computer)

    async def everywhere(self, computer: str = "3") -> bool:
        """Whether all nodes find that a computer is connected somewhere."""
        return all([await self.online(one, computer) for one in self.nodes])

    async def nowhere(self, computer: str = "3") -> bool:
        """Whether all nodes find that a computer is connected nowhere."""
        return all([await self.offline(one, computer) for one in self.nodes])

    async def node_of(self, name: str, computer: str = "3") -> str:
        """The name of the other node that has a computer, as a node finds it; empty: none has."""
        wanted = ComputerId(computer)
        found = (await self.nodes[name].orchestrator.node.fleet.look([wanted])).get(wanted)
        return "" if found is None else found.node


@asynccontextmanager
async def several(
    directory: Path, *names: str, model: ChatModel | None = None, url: str = "", **more: Any
) -> AsyncIterator[Several]:
    """So many nodes, each of which has heard of the others; ``url``: of the bus that they are on instead of a line."""
    bus, store = LocalBus(), Shared()
    lines = {name: Line(bus) for name in names}
    async with AsyncExitStack() as stack:
        nodes = {}
        for name, line in lines.items():
            parts: dict[str, Any] = {"wrap_store": _always(store)}
            settings: dict[str, Any] = {"node": name, **more}
            if url:
                settings["bus"] = url
            else:
                parts["wrap_bus"] = _always(line)
            nodes[name] = await stack.enter_async_context(running(directory, model=model, parts=parts, **settings))
        for one in nodes.values():
            await until(partial(_hears, one, len(names)))
        yield Several(nodes, lines, store)


def _always(part: Any) -> Callable[[Any], Any]:
    return lambda _: part


def _hears(one: Server, count: int) -> bool:
    return len(one.orchestrator.node.nodes()) == count


async def _awaited(said: Any) -> Any:
    return await said if isinstance(said, Awaitable) else said


async def until(condition: Callable[[], Any]) -> None:
    """Wait until something holds that comes by itself; the condition may have to be awaited."""

    async def holds() -> None:
        while not await _awaited(condition()):  # noqa: ASYNC110 - nothing tells when it holds
            await asyncio.sleep(0.01)

    await within(holds())
