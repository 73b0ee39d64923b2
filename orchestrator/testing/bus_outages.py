"""The contracts of a bus whose server goes away and comes back: B26 to B28."""

import asyncio
from contextlib import suppress

from orchestrator.core.errors import NobodyServes, RequestLost
from orchestrator.core.ports.bus import Answer, Bus
from orchestrator.testing.bus_hints import LONG_S, SOON_S, BusNetwork, Heard, Server

AGAIN_S = 30.0
"""Seconds by which every node has connected again."""
PAUSE_S = 0.05


async def b26_holds_again(network: BusNetwork) -> None:
    """After an outage subscriptions and servings hold again by themselves, also those begun or ended in it."""
    one, two = await network.nodes(2)
    ear, ended, late, server = Heard(), Heard(), Heard(), Server("two")
    two.subscribe("a", ear)
    end = two.subscribe("b", ended)
    two.serve("a", server)
    await two.flush()
    async with network.outage():
        two.subscribe("late", late)
        two.serve("late", Server("late"))
        end()
    for subject, hearing, name in (("a", ear, "two"), ("late", late, "late")):
        await _heard_again(one, subject, hearing)
        assert (await _asked_again(one, subject)).payload["by"] == name
    one.publish("b", {})
    one.publish("a", {"last": True})
    await ear.until({"last": True})
    assert ended.all == []


async def b27_publishing_meanwhile(network: BusNetwork) -> None:
    """In an outage publish neither raises nor waits, the node hears itself, and the others hear it in order after."""
    one, two = await network.nodes(2)
    mine, theirs = Heard(), Heard()
    one.subscribe("a", mine)
    two.subscribe("a", theirs)
    await two.flush()
    sent = [{"n": number} for number in range(1_000)]
    async with network.outage():
        began = asyncio.get_running_loop().time()
        for payload in sent:
            one.publish("a", payload)
        assert asyncio.get_running_loop().time() - began < 1
        assert mine.all == sent
    await _heard_again(one, "a", theirs)
    numbers = [payload["n"] for payload in theirs.all if "n" in payload]
    assert numbers == sorted(set(numbers))


async def b28_asking_meanwhile(network: BusNetwork) -> None:
    """A request that meets an outage is refused or lost soon, is done at most once, and one's own subjects answer."""
    one, two = await network.nodes(2)
    waiting, other = Server("two", free=False), Server("two")
    two.serve("waiting", waiting)
    two.serve("a", other)
    one.serve("mine", Server("one"))
    await two.flush()
    await one.flush()
    asked = asyncio.ensure_future(one.request("waiting", {}, within_s=LONG_S))
    await waiting.until_begun()
    refused = 0
    async with network.outage():
        async with asyncio.timeout(SOON_S):
            for number in range(3):
                try:
                    await one.request("a", {"n": number}, within_s=1)
                except (NobodyServes, RequestLost):
                    refused += 1
            assert (await one.request("mine", {}, within_s=LONG_S)).payload["by"] == "one"
    assert refused == 3
    waiting.gate.set()
    async with asyncio.timeout(SOON_S):
        with suppress(RequestLost):
            await asked
    assert (await _asked_again(one, "a")).payload["by"] == "two"
    assert [payload for payload in other.begun if "n" in payload] == []
    assert len(waiting.begun) == 1


async def _heard_again(bus: Bus, subject: str, ear: Heard) -> None:
    """Notifications come through again: one is published until one is heard."""
    async with asyncio.timeout(AGAIN_S):
        while {"again": True} not in ear.all:
            bus.publish(subject, {"again": True})
            await asyncio.sleep(PAUSE_S)


async def _asked_again(bus: Bus, subject: str) -> Answer:
    """Requests come through again."""
    async with asyncio.timeout(AGAIN_S):
        while True:
            try:
                return await bus.request(subject, {"again": True}, within_s=5)
            except (NobodyServes, RequestLost):
                await asyncio.sleep(PAUSE_S)
