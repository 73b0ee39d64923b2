"""Tasks that slept for a computer which another node had just welcomed, or whose node died: somebody wakes them."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from orchestrator.adapters.bus import LocalBus
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.computers.hub import Hub
from orchestrator.computers.nodes import MeetingElsewhere, Presence, join
from orchestrator.computers.nodes.messages import Beat, Delta, Seat
from orchestrator.core.errors import StoreAway
from orchestrator.core.task.facts import TaskId
from orchestrator.core.wire.wire import ComputerId
from orchestrator.runtime.clock import SystemClock
from orchestrator.testing.drafts import Author, taken
from tests.computers.nodes.several import until
from tests.harness.hub_server import FARM, Journal, hub_server

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Counted(InMemoryPersistenceManager):
    """A store that counts how often it was asked to wake, and fails at the first time where a test wants that."""

    asked = 0
    looked = 0
    fails = 0

    async def wake_waiting(self, computers: Collection[ComputerId], *, claimants: bool = False) -> int:
        self.asked += 1
        if self.fails:
            self.fails -= 1
            raise StoreAway("The store cannot be reached.")
        return await super().wake_waiting(computers, claimants=claimants)

    async def waited_for(self) -> list[ComputerId]:
        self.looked += 1
        return await super().waited_for()


@dataclass
class Sleeping:
    """A node at which a task sleeps for the farm."""

    bus: LocalBus
    store: Counted
    awaited: set[ComputerId] = field(default_factory=set)

    def hears_of(self, computer: ComputerId, rev: int) -> None:
        """Another node has welcomed a computer."""
        seat = Seat(computer=computer, online=True, number=rev)
        self.bus.publish("nodes.computers", Delta(node="b-1", rev=rev, seat=seat).told())

    async def woken(self) -> None:
        """Wait until the task is due."""
        await until(lambda: self.store.asked)
        await taken(self.store)


@asynccontextmanager
async def sleeping(hub: Hub | None = None, computer: ComputerId = FARM) -> AsyncIterator[Sleeping]:
    """A node that has heard of another, and a task that it let sleep for a computer."""
    one = Sleeping(LocalBus(), Counted())
    presence = Presence(one.bus, "a-1")
    elsewhere = MeetingElsewhere(presence)
    node = join(hub or Hub(Journal()), elsewhere, presence, one.store, one.awaited)
    await one.store.create(TaskId("t-1"), [Author(SystemClock()).submitted()])
    await one.store.park(await taken(one.store), 1, due=None, waiting_for=computer)
    node.open()
    one.bus.publish("nodes.beat", Beat(node="b-1", at=NOW, started_at=NOW).told())
    await until(lambda: presence.table.knows("b-1"))
    yield one
    await node.close()


async def test_who_slept_unaware_of_a_welcome_elsewhere_is_woken_when_that_is_heard() -> None:
    """The welcome woke nobody, as nobody slept yet; a computer that nobody waited for here costs no statement."""
    async with sleeping() as one:
        one.hears_of(ComputerId("other"), 1)
        assert one.store.asked == 0
        one.awaited.add(FARM)
        one.hears_of(FARM, 2)
        await one.woken()
        assert (one.store.asked, one.awaited) == (1, set())


async def test_a_store_that_fails_is_asked_again() -> None:
    """What is to be woken is not forgotten."""
    async with sleeping() as one:
        one.store.fails = 1
        one.awaited.add(FARM)
        one.hears_of(FARM, 1)
        await until(lambda: one.store.asked == 2)
        await one.woken()


async def test_who_waits_for_a_computer_here_is_woken_when_another_node_is_gone() -> None:
    """It may have let a task sleep just before it died, and nobody keeps that in mind."""
    async with hub_server() as server, server.computer(), sleeping(server.hub) as one:
        one.bus.publish("nodes.goodbye", {"node": "b-1"})
        await one.woken()
        assert (one.store.looked, one.store.asked) == (1, 1)


async def test_a_node_that_is_gone_costs_one_look_where_nobody_waits_for_a_computer_here() -> None:
    """No transaction for each computer that is connected here, nor for those that are waited for elsewhere."""
    mill = ComputerId("mill")
    async with hub_server() as server, server.computer(), sleeping(server.hub, mill) as one:
        one.bus.publish("nodes.goodbye", {"node": "b-1"})
        await until(lambda: one.store.looked)
        one.awaited.add(mill)
        one.bus.publish("nodes.beat", Beat(node="c-1", at=NOW, started_at=NOW).told())
        one.bus.publish("nodes.computers", Delta(node="c-1", rev=0, seat=Seat(computer=mill, online=True)).told())
        await one.woken()
        assert (one.store.looked, one.store.asked) == (1, 1)
