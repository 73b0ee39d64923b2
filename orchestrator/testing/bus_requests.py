"""The contracts of requests that are answered: B11 to B19, and B29."""

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import Any

from orchestrator.core.errors import NobodyServes, RequestLost
from orchestrator.core.ports.bus import Answer
from orchestrator.testing.bus_hints import ANY_TEXT, LONG_S, SOON_S, BusNetwork, Heard, Server
from orchestrator.testing.drafts import refused

# -- The contracts of requests that are answered: B11 to B19, and B29 --------------------

AT_ONCE_S = 0.9
SIZES = (0, 1, 100_000, 5_000_000)


async def b11_answered(network: BusNetwork) -> None:
    """A request is answered by the node that serves its subject, and by no subject beside it."""
    one, two = await network.nodes(2)
    two.serve("node.two", Server("two"))
    two.serve("node", Server("no one"))
    two.serve("node.two.more", Server("no one"))
    await two.flush()
    answer = await one.request("node.two", {"n": 1}, b"body", within_s=LONG_S)
    assert answer == Answer({"by": "two", "to": {"n": 1}}, b"body")


async def b12_by_one_of_several(network: BusNetwork) -> None:
    """Each request goes to exactly one of those who serve, on several nodes and several on one."""
    one, two, three = await network.nodes(3)
    servers = [Server("a"), Server("b"), Server("c")]
    for bus, server in zip((two, two, three), servers, strict=True):
        bus.serve("work", server)
        await bus.flush()
    asked = [{"n": number} for number in range(60)]
    answers = await asyncio.gather(*(one.request("work", payload, within_s=LONG_S) for payload in asked))
    assert [answer.payload["to"] for answer in answers] == asked
    begun = sorted(payload["n"] for server in servers for payload in server.begun)
    assert begun == list(range(60))


async def b13_nobody_serves(network: BusNetwork) -> None:
    """Where nobody serves, that is known at once, though somebody hears notifications of that name."""
    one, two = await network.nodes(2)
    two.subscribe("a", Heard())
    await two.flush()
    async with asyncio.timeout(AT_ONCE_S):
        await refused(NobodyServes, one.request("a", {}, within_s=LONG_S))
        await refused(NobodyServes, two.request("a", {}, b"x" * 5_000_000, within_s=LONG_S))


async def b14_on_the_same_node(network: BusNetwork) -> None:
    """A node's request reaches what it serves itself, with nobody else there."""
    bus = await network.node()
    bus.serve("a", Server("me"))
    answer = await bus.request("a", ANY_TEXT, b"body", within_s=LONG_S)
    assert answer == Answer({"by": "me", "to": ANY_TEXT}, b"body")


async def b15_bodies(network: BusNetwork) -> None:
    """Bodies of nothing, of one byte, of 100 kB and of 5 MB go there and back byte for byte."""
    sizes = count()

    async def other(payload: Mapping[str, Any], body: bytes) -> Answer:
        assert body == _bytes(payload["size"])
        return Answer({}, _bytes(SIZES[-1 - next(sizes)]))

    one, two = await network.nodes(2)
    two.serve("a", other)
    await two.flush()
    for number, size in enumerate(SIZES):
        answer = await one.request("a", {"size": size}, _bytes(size), within_s=LONG_S)
        assert answer.body == _bytes(SIZES[-1 - number])


async def b16_any_text(network: BusNetwork) -> None:
    """Requests and answers say whatever JSON can, and a megabyte of it."""
    one, two = await network.nodes(2)
    two.serve("a", Server())
    await two.flush()
    for payload in (ANY_TEXT, {"long": "ü" * 1_000_000}):
        assert (await one.request("a", payload, within_s=LONG_S)).payload["to"] == payload


async def b17_side_by_side(network: BusNetwork) -> None:
    """A hundred requests are answered side by side: none waits for another."""
    one, two = await network.nodes(2)
    server = Server(free=False)
    two.serve("a", server)
    await two.flush()
    asked = [asyncio.ensure_future(one.request("a", {"n": number}, within_s=LONG_S)) for number in range(100)]
    await server.until_begun(100)
    server.gate.set()
    assert [answer.payload["to"]["n"] for answer in await asyncio.gather(*asked)] == list(range(100))


async def b18_ended(network: BusNetwork) -> None:
    """Serving that has ended takes nothing new and finishes what was begun; ended twice is well."""
    one, two = await network.nodes(2)
    server = Server("two", free=False)
    end = two.serve("a", server)
    await two.flush()
    begun = asyncio.ensure_future(one.request("a", {"n": 1}, within_s=LONG_S))
    await server.until_begun()
    end()
    end()
    async with asyncio.timeout(AT_ONCE_S):
        await refused(NobodyServes, one.request("a", {"n": 2}, within_s=LONG_S))
        await refused(NobodyServes, two.request("a", {"n": 3}, within_s=LONG_S))
    server.gate.set()
    async with asyncio.timeout(SOON_S):
        assert (await begun).payload["to"] == {"n": 1}
    assert server.begun == [{"n": 1}]


async def b19_flushed(network: BusNetwork) -> None:
    """After flush what was subscribed and served before reaches every node."""
    one, two = await network.nodes(2)
    for round_ in range(10):
        subject, ear = f"round.{round_}", Heard()
        two.subscribe(subject, ear)
        two.serve(subject, Server())
        await two.flush()
        one.publish(subject, {"n": round_})
        await one.request(subject, {}, within_s=LONG_S)
        await ear.until({"n": round_})


async def b29_ended_beside_another(network: BusNetwork) -> None:
    """Where one of several has ended serving, the others get what is asked, from the moment in which it ended."""
    one, two, three = await network.nodes(3)
    still = Server("still")
    three.serve("a", still)
    await three.flush()
    for round_ in range(5):
        end = two.serve("a", Server("ended"))
        await two.flush()
        end()
        asked = (one.request("a", {"n": number}, within_s=LONG_S) for number in range(10))
        assert {answer.payload["by"] for answer in await asyncio.gather(*asked)} == {"still"}
        assert len(still.begun) == 10 * (round_ + 1)


def _bytes(size: int) -> bytes:
    return (bytes(range(256)) * (size // 256 + 1))[:size]


# -- The contracts of requests that are not answered: B20 to B25 -------------------------


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
