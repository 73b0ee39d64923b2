"""The contracts of requests that are not answered: B20 to B25."""

import asyncio
from collections.abc import Mapping
from typing import Any

from orchestrator.core.errors import RequestLost
from orchestrator.core.ports.bus import Answer
from orchestrator.testing.bus_network import LONG_S, SOON_S, BusNetwork, Server
from orchestrator.testing.checks import refused


async def b20_out_of_time(network: BusNetwork) -> None:
    """A request that is not answered in its time is lost then, neither earlier nor much later."""
    one, two = await network.nodes(2)
    server = Server(free=False)
    two.serve("a", server)
    await two.flush()
    now = asyncio.get_running_loop().time
    began = now()
    await refused(RequestLost, one.request("a", {}, within_s=0.3))
    assert 0.29 <= now() - began < 2
    assert len(server.begun) == 1


async def b21_server_fails(network: BusNetwork) -> None:
    """A request at which the server raises is lost at once, and what it raised stays with it."""

    async def fail(payload: Mapping[str, Any], body: bytes) -> Answer:
        raise ValueError("a secret")

    one, two = await network.nodes(2)
    two.serve("a", fail)
    await two.flush()
    async with asyncio.timeout(SOON_S):
        lost = await refused(RequestLost, one.request("a", {}, within_s=LONG_S))
    assert "secret" not in lost.message


async def b22_server_closed(network: BusNetwork) -> None:
    """A request whose server is closed is lost soon, not at the end of its time, and given up there."""
    one, two = await network.nodes(2)
    server = Server(free=False)
    two.serve("a", server)
    await two.flush()
    asked = asyncio.ensure_future(one.request("a", {}, within_s=LONG_S))
    await server.until_begun()
    await two.close()
    assert server.ended == 1
    async with asyncio.timeout(SOON_S):
        await refused(RequestLost, asked)


async def b23_asker_closed(network: BusNetwork) -> None:
    """A bus that is closed loses the requests that wait on it, at once."""
    one, two = await network.nodes(2)
    server = Server(free=False)
    two.serve("a", server)
    await two.flush()
    asked = [asyncio.ensure_future(one.request("a", {}, within_s=LONG_S)) for _ in range(3)]
    await server.until_begun(3)
    await one.close()
    async with asyncio.timeout(1):
        for request in asked:
            await refused(RequestLost, request)
    await one.close()


async def b24_asker_gone(network: BusNetwork) -> None:
    """A request whose asker no longer waits harms neither the server nor the next request."""
    one, two = await network.nodes(2)
    server = Server(free=False)
    two.serve("a", server)
    await two.flush()
    asked = asyncio.ensure_future(one.request("a", {"n": 1}, b"x" * 2_000_000, within_s=LONG_S))
    await server.until_begun()
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert asked.cancelled()
    server.gate.set()
    await server.until_ended()
    assert (await one.request("a", {"n": 2}, within_s=LONG_S)).payload["to"] == {"n": 2}


async def b25_lost_beside_answered(network: BusNetwork) -> None:
    """A request that is lost takes no other with it."""
    one, two = await network.nodes(2)
    stuck, free = Server(free=False), Server()
    two.serve("stuck", stuck)
    two.serve("free", free)
    await two.flush()
    lost = asyncio.ensure_future(one.request("stuck", {}, within_s=0.5))
    await stuck.until_begun()
    while not lost.done():
        await one.request("free", {}, within_s=LONG_S)
    await refused(RequestLost, lost)
    stuck.gate.set()
    await stuck.until_ended()
    assert (await one.request("stuck", {"n": 1}, within_s=LONG_S)).payload["to"] == {"n": 1}
