"""Two nodes on one store that do not hear each other are told so; those that do are not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from orchestrator.adapters.bus import LocalBus
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.computers.nodes import Presence
from orchestrator.computers.nodes.node import FOR_S, LOOK_EVERY_S, SURE_AFTER_S, UNHEARD, Unheard
from orchestrator.testing.drafts import ManualClock


class Fixture:
    """One store, and nodes that look by its clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = InMemoryPersistenceManager(clock=self.clock)
        self.now = 0.0
        self._numbers = count(1)

    @asynccontextmanager
    async def node(self, bus: LocalBus) -> AsyncIterator[Unheard]:
        """A node that is there until the end of the block."""
        presence = Presence(bus, f"node-{next(self._numbers)}")
        presence.open()
        try:
            yield Unheard(self.store, presence)
        finally:
            await presence.close()

    async def look(self, for_s: float, *nodes: Unheard) -> None:
        """Let them look for so long."""
        until = self.now + for_s
        while self.now < until:
            for one in nodes:
                await one.look(self.now)
            self.clock.advance(LOOK_EVERY_S)
            self.now += LOOK_EVERY_S


async def test_nodes_on_one_bus_hear_each_other() -> None:
    """Nothing is wrong, neither when a node comes nor when the one goes in whose name the lease was taken."""
    fixture, bus = Fixture(), LocalBus()
    async with fixture.node(bus) as second:
        async with fixture.node(bus) as first:
            await fixture.look(3 * SURE_AFTER_S, first, second)
            assert (first.alert, second.alert) == ("", "")
        await fixture.look(3 * SURE_AFTER_S, second)
        assert second.alert == ""


async def test_nodes_on_two_buses_are_told() -> None:
    """The second is told once it is sure, and that it is well again once the first is gone."""
    fixture = Fixture()
    async with fixture.node(LocalBus()) as first, fixture.node(LocalBus()) as second:
        await fixture.look(FOR_S, first, second)
        assert (first.alert, second.alert) == ("", "")
        await fixture.look(SURE_AFTER_S, first, second)
        assert (first.alert, second.alert) == ("", UNHEARD)
        await fixture.look(2 * FOR_S, second)
        assert second.alert == ""
