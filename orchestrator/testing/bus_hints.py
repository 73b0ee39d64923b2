"""The contracts of notifications: B01 to B10."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Self

from orchestrator.core.ports.bus import Answer, Bus

# -- What the contracts of the bus stand on: the nodes of one network, and what was heard

SOON_S: Final = 10.0
"""Seconds within which the expected event has happened; nobody waits longer than it takes."""
LONG_S: Final = 60.0
"""The time given to requests that end otherwise."""

Outage = Callable[[], AbstractAsyncContextManager[None]]
"""In the block the server of the network is away for every node, and its connections are lost.

After it, the server is back.
"""


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
        """A number of nodes."""
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
        """Wait until so many requests were begun."""
        async with asyncio.timeout(SOON_S):
            while len(self.begun) < number:
                self._news.clear()
                await self._news.wait()

    async def until_ended(self, number: int = 1) -> None:
        """Wait until so many requests were answered, or given up."""
        async with asyncio.timeout(SOON_S):
            while self.ended < number:
                self._news.clear()
                await self._news.wait()


# -- The contracts of notifications: B01 to B10 --------------------------------------------------

LAST = {"last": True}
ANY_TEXT: Final[Mapping[str, Any]] = {
    "plain": "ä, 漢字, 🐢, \u0000, \x7f, \\, \", ', $1, \r\n",
    "half": "\ud83d",
    "ключ": [None, True, -1, 2**53, 0.1, "", [], {}, {"deep": [{"er": "x"}]}],
}
"""All that a JSON object may hold, also half of a surrogate pair, which Python's strings can hold."""


async def b01_own_handlers_at_once(network: BusNetwork) -> None:
    """The handlers of a bus hear a notification before publish returns, in the order in which they were subscribed."""
    bus = await network.node()
    heard: list[str] = []
    bus.subscribe("a.b", lambda payload: heard.append(f"first {payload['n']}"))
    bus.subscribe("a.b", lambda payload: heard.append(f"second {payload['n']}"))
    bus.publish("a.b", {"n": 1})
    assert heard == ["first 1", "second 1"]


async def b02_others_hear(network: BusNetwork) -> None:
    """Every other node hears each notification of a node once, in the order in which they were published."""
    one, two, three = await network.nodes(3)
    ears = [Heard(), Heard()]
    for bus, ear in zip((two, three), ears, strict=True):
        bus.subscribe("a", ear)
        await bus.flush()
    sent = [{"n": number} for number in range(300)]
    for payload in sent:
        one.publish("a", payload)
    one.publish("a", LAST)
    for ear in ears:
        assert await ear.until(LAST) == [*sent, LAST]


async def b03_nobody_hears_itself_twice(network: BusNetwork) -> None:
    """A node hears its own notification once, though it comes back from the network."""
    one, two = await network.nodes(2)
    mine, theirs = Heard(), Heard()
    one.subscribe("a", mine)
    two.subscribe("b", theirs)
    await one.flush()
    await two.flush()
    one.publish("a", {"n": 1})
    one.publish("b", {"n": 2})
    await theirs.until({"n": 2})
    two.publish("a", LAST)
    assert await mine.until(LAST) == [{"n": 1}, LAST]


async def b04_not_after_the_end(network: BusNetwork) -> None:
    """Nothing is heard after a subscription has ended, its own notification or another's; ending twice is allowed."""
    one, two = await network.nodes(2)
    ended, still = Heard(), Heard()
    end = two.subscribe("a", ended)
    two.subscribe("a", still)
    await two.flush()
    one.publish("a", {"n": 1})
    await still.until({"n": 1})
    end()
    end()
    one.publish("a", {"n": 2})
    two.publish("a", {"n": 3})
    await still.until({"n": 2})
    await still.until({"n": 3})
    assert ended.all == [{"n": 1}]


async def b05_one_handler_twice(network: BusNetwork) -> None:
    """A handler subscribed twice hears twice, and ending one of the two, even twice, leaves the other."""
    bus = await network.node()
    ear = Heard()
    end = bus.subscribe("a", ear)
    bus.subscribe("a", ear)
    bus.publish("a", {"n": 1})
    end()
    end()
    bus.publish("a", {"n": 2})
    assert ear.all == [{"n": 1}, {"n": 1}, {"n": 2}]


async def b06_a_handler_that_raises(network: BusNetwork) -> None:
    """An error of a handler reaches neither the publisher nor the next handler nor the next notification."""

    def fail(payload: Mapping[str, Any]) -> None:
        raise ValueError(payload)

    one, two = await network.nodes(2)
    mine, theirs = Heard(), Heard()
    for bus, ear in ((one, mine), (two, theirs)):
        bus.subscribe("a", fail)
        bus.subscribe("a", ear)
        await bus.flush()
    one.publish("a", {"n": 1})
    one.publish("a", {"n": 2})
    assert mine.all == [{"n": 1}, {"n": 2}]
    assert await theirs.until({"n": 2}) == [{"n": 1}, {"n": 2}]


async def b07_subjects_are_whole(network: BusNetwork) -> None:
    """Neither the beginning of a subject nor a longer one is heard, and capitals make another."""
    one, two = await network.nodes(2)
    ears = {subject: Heard() for subject in ("a", "a.b", "a.b.c", "A.B", "a_b", "a-b")}
    for subject, ear in ears.items():
        two.subscribe(subject, ear)
    await two.flush()
    for subject in ears:
        one.publish(subject, {"to": subject})
    for subject, ear in ears.items():
        assert await ear.until({"to": subject}) == [{"to": subject}]


async def b08_any_text(network: BusNetwork) -> None:
    """A notification says whatever JSON can, and 100 kB of it."""
    one, two = await network.nodes(2)
    ear = Heard()
    two.subscribe("a", ear)
    await two.flush()
    long = {"long": "ü" * 100_000}
    one.publish("a", ANY_TEXT)
    one.publish("a", long)
    one.publish("a", LAST)
    assert await ear.until(LAST) == [ANY_TEXT, long, LAST]


async def b09_before_it_is_open(network: BusNetwork) -> None:
    """A subscription before a bus was opened holds after, and it publishes to its own handlers before."""
    one, bus = await network.node(), network.new_bus()
    ear = Heard()
    try:
        bus.subscribe("a", ear)
        bus.publish("a", {"n": 1})
        await bus.open()
        assert bus.connected
        one.publish("a", {"n": 2})
        assert await ear.until({"n": 2}) == [{"n": 1}, {"n": 2}]
    finally:
        await bus.close()


async def b10_closed(network: BusNetwork) -> None:
    """Notifications that were published are sent before a bus is closed.

    It is closed twice, and publishes after without a word.
    """
    one, two = await network.nodes(2)
    ear = Heard()
    two.subscribe("a", ear)
    await two.flush()
    one.publish("a", {"n": 1})
    await one.close()
    await one.close()
    await ear.until({"n": 1})
    one.publish("a", {"n": 2})
