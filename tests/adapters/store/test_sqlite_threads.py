"""Group commit and the cost of loads, seen through the work that each thread does."""

import asyncio
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from orchestrator.adapters.store import sql, sql_store
from orchestrator.adapters.store.sqlite import SqlitePersistenceManager
from orchestrator.core.errors import Conflict, JournalBroken
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.fold import fold
from orchestrator.core.task.items import verify_chain
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import Author, append, refused, taken
from tests.adapters.store.gate import Gate, standing


async def test_the_loop_executes_nothing(store: SqlitePersistenceManager, gate: Gate, clock: ManualClock) -> None:
    """Writes are executed by the writer's thread and reads by the reader's, never by the loop's."""
    gate.statements.clear()
    author = Author(clock)
    await store.create(TaskId("t1"), [author.submitted()])
    await append(store, TaskId("t1"), 1, author.note())
    assert {thread for thread, _ in gate.statements} == {"store-writer"}
    gate.statements.clear()
    await store.load(TaskId("t1"))
    await store.list_tasks()
    await store.next_due()
    assert {thread for thread, _ in gate.statements} == {"store-reader"}


async def test_a_writer_that_waits_stops_no_reader(
    store: SqlitePersistenceManager, gate: Gate, clock: ManualClock
) -> None:
    """While a write hangs the loop runs and reads are answered, with what was acknowledged."""
    await store.create(TaskId("t1"), [Author(clock).submitted()])
    known = await store.load(TaskId("t1"))
    first = await standing(store, gate)
    assert len(await store.read(TaskId("t1"))) == 1
    assert await store.load(TaskId("t1")) == known
    assert not first.done()
    gate.open()
    await first


async def test_what_gathers_is_one_commit(store: SqlitePersistenceManager, gate: Gate, clock: ManualClock) -> None:
    """Appends that arrive during a commit share the next one."""
    author = Author(clock)
    first = await standing(store, gate)
    ids = [TaskId(f"t{number}") for number in range(100)]
    callers = [asyncio.create_task(store.create(task_id, [author.submitted()])) for task_id in ids]
    await asyncio.sleep(0)  # now the store has them
    gate.open()
    await asyncio.gather(first, *callers)
    assert gate.commits() == 2


async def test_a_conflict_fails_only_itself(store: SqlitePersistenceManager, gate: Gate, clock: ManualClock) -> None:
    """One refused append in a batch takes nothing from the others of that batch."""
    author = Author(clock)
    ids = [TaskId(f"t{number}") for number in range(9)]
    for task_id in ids:
        await store.create(task_id, [author.submitted()])
    first = await standing(store, gate)
    versions = [9 if number == 4 else 1 for number in range(9)]
    callers = [
        asyncio.create_task(append(store, task_id, version, author.note()))
        for task_id, version in zip(ids, versions, strict=True)
    ]
    await asyncio.sleep(0)  # now the store has them
    gate.open()
    await first
    await refused(Conflict, callers.pop(4))
    await asyncio.gather(*callers)
    assert gate.commits() == 2
    for number, task_id in enumerate(ids):
        items = await store.read(task_id)
        assert len(items) == (1 if number == 4 else 2)
        assert verify_chain(items) is None


async def test_one_append_per_task_and_commit(store: SqlitePersistenceManager, gate: Gate, clock: ManualClock) -> None:
    """Two appends to one task go into two transactions, in the order they came."""
    author = Author(clock)
    await store.create(TaskId("t1"), [author.submitted()])
    first = await standing(store, gate)
    callers = [asyncio.create_task(append(store, TaskId("t1"), version, author.note())) for version in (1, 2, 3)]
    await asyncio.sleep(0)  # now the store has them
    gate.open()
    await asyncio.gather(first, *callers)
    assert gate.commits() == 4


async def test_renewals_jump_the_queue(store: SqlitePersistenceManager, gate: Gate, clock: ManualClock) -> None:
    """A renewal that comes last is executed before what waits."""
    author = Author(clock)
    await store.create(TaskId("t1"), [author.submitted()])
    lease = await taken(store)
    first = await standing(store, gate)
    callers: list[asyncio.Task[object]] = [
        asyncio.create_task(store.create(TaskId("t2"), [author.submitted()])),
        asyncio.create_task(store.renew(lease, 60)),
    ]
    await asyncio.sleep(0)  # now the store has them
    gate.open()
    await asyncio.gather(first, *callers)
    writes = [statement[:6] for _, statement in gate.statements if statement[:6] in {"UPDATE", "INSERT"}]
    assert writes == ["UPDATE", "INSERT", "INSERT"]


async def test_closing_finishes_a_long_queue(store: SqlitePersistenceManager, gate: Gate, clock: ManualClock) -> None:
    """What was accepted before close is written by it, however many transactions that takes."""
    author = Author(clock)
    first = await standing(store, gate)
    ids = [TaskId(f"t{number}") for number in range(600)]
    callers = [asyncio.create_task(store.create(task_id, [author.submitted()])) for task_id in ids]
    await asyncio.sleep(0)  # now the store has them
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(first, closing)
    assert all(caller.done() and len(caller.result()) == 1 for caller in callers)
    assert gate.commits() == 4


class Work(Counter[str]):
    """What the threads of a store do: calls of the journal's scripts, and instructions of the reader's SQLite."""

    def called(self, frame: FrameType, event: str, _: Any) -> None:
        """As ``threading.setprofile`` tells it."""
        self["calls"] += event in ("call", "c_call") and frame.f_code.co_filename == sql.__file__

    def stepped(self) -> None:
        """One instruction of SQLite."""
        self["instructions"] += 1


async def test_a_load_costs_what_is_new(tmp_path: Path, clock: ManualClock) -> None:
    """No item of a known task is read or hashed again, unless another than the store has written to the file.

    A short one is read whole, which takes less time than the question whether another wrote.
    """
    work, author, task_id, version = Work(), Author(clock), TaskId("t1"), 1
    threading.setprofile(work.called)  # for threads that begin from now on
    store = SqlitePersistenceManager(tmp_path / "a.db", clock=clock)
    store._connections[0].set_progress_handler(work.stepped, 1)

    async def of_a_load(*, is_known: bool = False) -> Work:
        nonlocal version
        await append(store, task_id, version, author.note())
        version += 1
        known = await store.load(task_id) if is_known else None
        work.clear()
        loaded = await store.load(task_id, known)
        assert loaded is not None
        assert loaded.version == version
        return work.copy()

    await store.create(task_id, [author.submitted()])
    await store.load(task_id)
    threading.setprofile(None)
    costs = [await of_a_load() for _ in range(200)]
    assert costs[2 * sql_store._FEW] == costs[-1]
    assert min(costs[2 * sql_store._FEW].values()) > 10
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        database.execute("UPDATE tasks SET due = due")
    after = [await of_a_load() for _ in range(2)]
    assert after[0]["calls"] - costs[-1]["calls"] > 200
    assert after[1] == costs[-1]
    assert (await of_a_load(is_known=True))["calls"] < costs[-1]["calls"]
    await store.close()


async def test_a_task_that_is_known_is_not_folded_again(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer has it at hand: of the task that it asks for nothing is folded, but each item is looked at."""
    store, author, task_id = SqlitePersistenceManager(tmp_path / "a.db", clock=clock), Author(clock), TaskId("t1")
    known = fold(await store.create(task_id, [author.submitted(), *(author.note() for _ in range(5))]))
    with monkeypatch.context() as patched:
        patched.delattr(sql, "fold")
        assert await store.load(task_id, known) == known
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        database.execute("UPDATE items SET data = replace(data, 'fix my farm', 'eat my farm') WHERE version = 1")
    with pytest.raises(JournalBroken):
        await store.load(task_id, known)
    await store.close()
