"""A store that fails for a while: the workers go on once it answers, and an undo by policy is begun all the same."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, cast

import pytest

from orchestrator.adapters.bus import LocalBus
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager, SqlitePersistenceManager
from orchestrator.core.errors import Conflict, LeaseLost, StoreBusy
from orchestrator.core.ports import Store
from orchestrator.core.task.facts import TaskEnded, TaskId
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.engine import workers
from orchestrator.engine.active_policy import NodePolicy
from orchestrator.engine.actor import TaskJournal
from orchestrator.engine.tasks import TaskService
from orchestrator.engine.workers import LEASE_S, Workers
from orchestrator.testing import ManualClock
from orchestrator.testing.store import run_store_conformance
from orchestrator.tools.environment import Environment
from tests.engine.test_actor import ALICE, FARM, Anyone, rules
from tests.harness.support import Disk, FakeComputers, Listening, call, final, says
from tests.waiting import HANG_S, within

READ = call("cc_read", path="a.txt")
WRITE = call("cc_write", path="a.txt", content="new\n")


class Failing:
    """A store that another program keeps locked at the next calls of some methods."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.faults: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.waits = asyncio.Event()
        """Set when a worker has asked when the next task is due."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)

        @wraps(method)
        async def answered(*args: Any, **more: Any) -> Any:
            if self.faults[name] > 0:
                self.faults[name] -= 1
                raise StoreBusy("Another program keeps it locked.")
            self.asked[name] += 1
            answer = await method(*args, **more)
            if name == "next_due":
                self.waits.set()
            return answer

        return answered


class Node:
    """Workers on a real store, with a clock that is moved by hand."""

    def __init__(self, store: Failing, clock: ManualClock, *script: Any) -> None:
        self.store, self.clock = store, clock
        port = cast("Store", store)
        self.world = Environment(store=port, computers=FakeComputers({FARM: Disk({"a.txt": b"old\n"})}))
        active_policy = NodePolicy(lambda: rules().model_copy(update={"undo": "auto"}), self.world.context)
        self.service = TaskService(
            store=port, bus=LocalBus(), clock=clock, authorizer=Anyone(), active_policy=active_policy
        )
        model = Listening(*script)
        self.workers = Workers(self.service, self.world, lambda _: model, holder="node-1", count=1)

    async def submitted(self) -> TaskId:
        return (await self.service.submit("fix it", user=ALICE, computers=(FARM,), model="m")).task_id

    async def later(self) -> None:
        """Past every pause and every lease, once the worker has nothing to do."""
        await within(self.store.waits.wait())
        self.store.waits.clear()
        self.clock.advance(LEASE_S + 10)
        self.service.bus.publish("tasks.due", {})

    async def until(self, task_id: TaskId, status: TaskStatus) -> AgentTask:
        for _ in range(50):
            task = await self.service.load(task_id)
            if task.status is status:
                return task
            await self.later()
        raise AssertionError(f"it is still {task.status}")


@asynccontextmanager
async def working(directory: Path, *script: Any) -> AsyncIterator[Node]:
    clock = ManualClock()
    kept = SqlitePersistenceManager(directory / "store.db", clock=clock)
    node = Node(Failing(kept), clock, *script)
    working = asyncio.create_task(node.workers.work())
    try:
        yield node
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await kept.close()


async def test_it_is_a_store_as_any_other() -> None:
    await run_store_conformance(
        lambda: lambda clock: cast("Store", Failing(InMemoryPersistenceManager(clock=clock))), durable=False
    )


@pytest.mark.parametrize("method", ["lease", "next_due"])
async def test_a_worker_whose_store_fails_for_a_while_goes_on(tmp_path: Path, method: str) -> None:
    async with working(tmp_path, says(WRITE), final("cannot", success=False)) as node:
        await within(node.store.waits.wait())
        node.store.faults[method] = 2
        node.clock.advance(10)
        task_id = await node.submitted()
        assert (await node.until(task_id, TaskStatus.FAILED)).undoes_itself


@pytest.mark.parametrize(
    "faults",
    [{"create": 3}, {"create": 2, "park": 3}, {"create": 1, "load": 4, "lease": 2}, {"append": 2}, {"read": 5}],
    ids=str,
)
async def test_an_undo_by_policy_that_the_store_refuses_for_a_while_is_begun_by_itself(
    tmp_path: Path, faults: dict[str, int]
) -> None:
    """Nobody wakes the task: it looks again, once the store is as it was."""
    async with working(tmp_path, says(WRITE), final("cannot", success=False)) as node:
        task_id = await node.submitted()
        published = node.service.published

        def failing(about: AgentTask, items: Any) -> None:
            published(about, items)
            if about.task_id == task_id and items and items[-1].fact.kind == "task_ended":
                node.store.faults.update(faults)

        node.service.published = failing  # type: ignore[method-assign, assignment]
        while not (undone_by := (await _loaded(node, task_id)).undone_by):
            await node.later()
        assert len(undone_by) == 1
        rows = await node.store.store.list_tasks()
        assert {row.task_id for row in rows} == {task_id, *undone_by}


async def _loaded(node: Node, task_id: TaskId) -> AgentTask:
    """The task, past the faults."""
    task = await node.store.store.load(task_id)
    assert task is not None
    return task


MANY = 6


async def test_tasks_that_were_told_of_are_taken_without_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who submits one says that it is due, and the last look says that no other is."""
    monkeypatch.setattr(workers, "_IDLE_S", HANG_S)
    monkeypatch.setattr(workers, "_OF_A_LEASE", 1.0)
    async with working(tmp_path, *[final("no", success=False)] * MANY) as node:
        await within(node.store.waits.wait())
        node.store.asked.clear()
        for task_id in [await node.submitted() for _ in range(MANY)]:
            assert (await node.service.until_settled(task_id, HANG_S)).ended is not None
        # What becomes of the last one may still be told of.
        assert node.store.asked["next_due"] <= 1
        assert node.store.asked["lease"] <= MANY + 1


@pytest.mark.parametrize("told_of_another", [False, True])
async def test_a_task_that_nobody_told_of_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told_of_another: bool
) -> None:
    """A look counts no longer than a worker trusts the bus, whatever it took since."""
    monkeypatch.setattr(workers, "_IDLE_S", 0.3)
    async with working(tmp_path, *[final("no", success=False)] * 2) as node:
        await within(node.store.waits.wait())
        with monkeypatch.context() as silent:
            silent.setattr(node.service, "falls_due", lambda _: None)
            lost = await node.submitted()
        if told_of_another:
            await node.submitted()
        assert (await node.service.until_settled(lost, HANG_S)).ended is not None


async def test_a_task_that_was_woken_while_it_was_held_is_taken_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is due as soon as it parks, of which the last look and what was told until then say nothing."""
    monkeypatch.setattr(workers, "_IDLE_S", HANG_S)
    monkeypatch.setattr(workers, "_OF_A_LEASE", HANG_S)
    async with working(tmp_path, says(READ), final("no", success=False)) as node:
        await within(node.store.waits.wait())
        computers = cast("FakeComputers", node.world.computers)
        computers.faults["fs_read"] = deque(["hang"])
        task_id = await node.submitted()
        await within(computers.hanging.wait())
        await node.store.wake(task_id)
        node.store.waits.clear()
        computers.go.set()
        await within(node.store.waits.wait())
        assert node.store.asked["park"] == 2


async def test_the_end_of_a_task_is_told_though_its_answer_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The lease is given back with it: that it cannot be renewed meanwhile does not mean that another node has it."""
    async with working(tmp_path, final("done")) as node:
        node.workers.lease_s = 0.1
        store, told, refused = node.store.store, asyncio.Event(), asyncio.Event()
        append, renew, published = store.append, store.renew, node.service.published

        async def late(*args: Any, **more: Any) -> Any:
            items = await append(*args, **more)
            if more.get("schedule") == "sleep":
                await refused.wait()
                for _ in range(20):
                    await asyncio.sleep(0)
            return items

        async def renewed(*args: Any) -> None:
            try:
                await renew(*args)
            except LeaseLost:
                refused.set()
                raise

        def telling(task: AgentTask, items: Any) -> None:
            published(task, items)
            if task.ended is not None:
                told.set()

        monkeypatch.setattr(store, "append", late)
        monkeypatch.setattr(store, "renew", renewed)
        monkeypatch.setattr(node.service, "published", telling)
        await node.submitted()
        await within(refused.wait())
        async with asyncio.timeout(HANG_S / 10):
            await told.wait()
        assert "acted for elsewhere" not in caplog.text


async def test_an_end_that_is_refused_leaves_the_lease_to_be_given_back() -> None:
    """Somebody else wrote first: the lease did not go with it, and a park gives it back."""
    node = Node(Failing(InMemoryPersistenceManager(clock=(clock := ManualClock()))), clock)
    task_id = await node.submitted()
    lease = await node.store.store.lease("node", 30)
    assert lease is not None
    journal = TaskJournal(lease, node.service, await node.service.load(task_id))
    await node.service.pin(task_id, ALICE, pinned=True)
    with pytest.raises(Conflict):
        await journal.intend(TaskEnded(status="Completed", status_reason="final"))
    await journal.refold()
    await journal.park(None, None)
    with pytest.raises(LeaseLost):
        await node.store.store.renew(lease, 30)
