"""The workers of a node go on, whatever one task of theirs comes to."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import asyncpg

from orchestrator.adapters.bus.local import LocalBus
from orchestrator.adapters.store.postgres import PostgresPersistenceManager
from orchestrator.core.errors import StoreAway
from orchestrator.core.ports import Lease
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.active_policy import NodePolicy
from orchestrator.engine.tasks import TaskService
from orchestrator.engine.workers import process_task
from orchestrator.tools.environment import Environment
from tests.computers.nodes.two_nodes import SharedStore, open_cluster
from tests.engine.test_actor import ALICE, FARM, Anyone, Replaying, rules
from tests.harness.support import Disk, FakeComputers, Listening, call, final, says
from tests.waiting import HANG_S, within


class Unfoldable(SharedStore):
    """A store with a task whose items this version takes for others than they are."""

    unfoldable: TaskId | None = None

    async def load(self, task_id: TaskId, known: AgentTask | None = None) -> AgentTask | None:
        if task_id == self.unfoldable:
            raise KeyError("a phase that is none")
        return await super().load(task_id, known)


async def test_a_task_that_cannot_even_be_given_back_costs_no_worker() -> None:
    """What cannot be loaded is left to the end of its lease, and the only worker takes the next task."""
    store = Unfoldable()
    async with open_cluster(store=store) as cluster:
        service = cluster.open("alpha", Listening(final("done")), count=1).service
        first = await service.submit("first", user=ALICE, model="m")
        store.unfoldable = first.task_id
        await cluster.ledger.held_by("alpha", first.task_id)
        second = await service.submit("second", user=ALICE, model="m")
        ended = await cluster.until(second.task_id, lambda task: task.ended is not None)
        assert ended.status is TaskStatus.COMPLETED


class Restarting(SharedStore):
    """A store that goes away just when a task was laid to sleep; then the computer comes that it waits for."""

    came = asked_again = False

    async def park(self, lease: Lease, version: int, **more: Any) -> bool:
        woke = await super().park(lease, version, **more)
        self.came = self.came or more.get("waiting_for") is not None
        return woke

    async def claimant(self, computer: ComputerId) -> TaskId | None:
        if self.came and not self.asked_again:
            self.asked_again = True
            raise StoreAway("The database restarts.")
        return await super().claimant(computer)


async def test_a_computer_that_comes_as_the_task_falls_asleep_wakes_it_although_the_store_is_away() -> None:
    """Nobody else would: whoever welcomed the computer woke those that slept then."""
    store = Restarting()
    async with open_cluster(store=store) as cluster:
        node = cluster.open("alpha", Listening(says(call("cc_list", path="")), final("done")), count=1)
        node.world.online = lambda computer: store.came  # type: ignore[method-assign]
        task = await node.service.submit("look", user=ALICE, computers=[ComputerId("farm")], model="m")
        async with asyncio.timeout(HANG_S):
            while len(cluster.ledger.leases[task.task_id]) < 2:
                cluster.ledger.leased.clear()
                await cluster.ledger.leased.wait()
    assert store.asked_again


class Deaf(SharedStore):
    """A store that does not say who has a computer, as if a look took long, until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = asyncio.Event()
        self.parked = asyncio.Event()

    async def park(self, lease: Lease, version: int, **more: Any) -> bool:
        woke = await super().park(lease, version, **more)
        self.parked.set()
        return woke

    async def claimant(self, computer: ComputerId) -> TaskId | None:
        await self.may.wait()
        return await super().claimant(computer)


async def test_one_worker_is_left_where_tasks_wait_for_a_computer() -> None:
    """Of two that find their computer with another task one waits a moment for it; the other gives its worker back."""
    store = Deaf()
    async with open_cluster("farm", store=store) as cluster:
        model = Replaying(says(call("cc_list", path="")), final("done"))
        service = cluster.open("alpha", model, count=0).service
        computers = [ComputerId("farm")]
        tasks = [await service.submit("look", user=ALICE, computers=computers, model="m") for _ in range(3)]
        lease = await store.lease("another", 60)
        assert lease is not None
        await store.claim(lease, computers)
        cluster.open("beta", model, count=2)
        await within(store.parked.wait())
        store.may.set()
        await store.park(lease, 1, due=None, keep=())
        service.falls_due()
        for one in tasks:
            if one.task_id != lease.task_id:
                ended = await cluster.until(one.task_id, lambda task: task.ended is not None)
                assert ended.status is TaskStatus.COMPLETED


HOLD = """CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER held AFTER UPDATE ON computers DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.task IS NOT NULL AND NEW.task IS NULL) EXECUTE FUNCTION hold();
    SELECT pg_advisory_lock(7)"""
"""Whoever gives a computer back waits at its commit, until this connection unlocks."""
BLOCKED = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted"


class GivesBack(PostgresPersistenceManager):
    """The store of a node: as its task parks, another node gives the computer back, and that commit takes long."""

    def __init__(self, url: str, admin: asyncpg.Connection, other: PostgresPersistenceManager) -> None:
        super().__init__(url)
        self.admin, self.other = admin, other
        self.of_other: Lease | None = None
        self.giving: asyncio.Task[bool] | None = None

    async def blocked(self, many: int) -> None:
        while await self.admin.fetchval(BLOCKED) < many:  # noqa: ASYNC110 - the server does not say it by itself
            await asyncio.sleep(0.01)

    async def unlock(self) -> None:
        await self.admin.execute("SELECT pg_advisory_unlock_all()")

    async def park(self, *given: Any, **more: Any) -> bool:
        if self.of_other is None:
            return await super().park(*given, **more)
        self.giving = asyncio.create_task(self.other.park(self.of_other, 1, due=None, keep=()))
        self.of_other = None
        await within(self.blocked(1))
        parking = asyncio.create_task(super().park(*given, **more))
        waits = asyncio.create_task(self.blocked(2))
        await within(asyncio.wait((parking, waits), return_when=asyncio.FIRST_COMPLETED))
        waits.cancel()
        if not parking.done():
            # It waits for what gives the computer back.
            await self.unlock()
        return await parking

    async def claimant(self, computer: ComputerId) -> TaskId | None:
        found = await super().claimant(computer)
        if self.giving is not None:
            await self.unlock()
            await self.giving
        return found


async def test_a_computer_that_is_given_back_as_a_task_parks_wakes_it(postgres_url: str) -> None:
    """Its look was refused, and nobody else would ever wake it."""
    async with AsyncExitStack() as stack:
        admin = await asyncpg.connect(postgres_url)
        stack.push_async_callback(admin.close)
        other = PostgresPersistenceManager(postgres_url)
        stack.push_async_callback(other.close)
        store = GivesBack(postgres_url, admin, other)
        stack.push_async_callback(store.close)
        world = Environment(store=store, computers=FakeComputers({FARM: Disk({"a.lua": b"old\n"})}))
        service = TaskService(
            store=store,
            bus=LocalBus(),
            clock=store.clock,
            authorizer=Anyone(),
            active_policy=NodePolicy(rules, world.context),
        )
        model = Replaying(says(call("cc_read", path="a.lua")), final())

        async def act() -> AgentTask:
            lease = await store.lease("mine", 60)
            assert lease is not None, "nothing is due"
            return await within(process_task(lease, service=service, world=world, model_for=lambda _: model))

        await service.submit("Read a.lua.", user=ALICE, computers=[FARM], model="m")
        of_other = await other.lease("another", 60)
        assert of_other is not None
        await other.claim(of_other, [FARM])
        waiting = await service.submit("Read a.lua.", user=ALICE, computers=[FARM], model="m")
        await admin.execute(HOLD)
        store.of_other = of_other
        assert (await act()).ended is None
        ended = await act()
        assert (ended.task_id, ended.status) == (waiting.task_id, TaskStatus.COMPLETED)
