"""Appends that share a transaction: few statements, and each fares as if it were alone."""

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters.store import open_store, sql, sql_queue
from orchestrator.adapters.store.script import Script
from orchestrator.adapters.store.sqlite import SqlitePersistenceManager
from orchestrator.core.errors import ComputerClaimed, Conflict, GrantVoid, InvalidRequest, LeaseLost, NotFound
from orchestrator.core.policy import Effect
from orchestrator.core.ports import Schedule, Store, Token
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, TaskId, ToolCall
from orchestrator.core.task.items import AgentTaskItem, Draft, verify_chain
from orchestrator.core.task.states import TaskStatus
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import COMPUTER, Author, append, taken
from tests.adapters.store.gate import Gate, standing
from tests.waiting import within

Wanted = Callable[[Store], Awaitable[list[AgentTaskItem]]]
Fate = type[Exception] | list[AgentTaskItem]
"""How an append is to fare: refused so, or answered with what had been there."""
NO_TASK = TaskId("nobody")


async def together(store: SqlitePersistenceManager, gate: Gate, wanted: list[Wanted]) -> list[Any]:
    """What each answers or raises, all of them having gathered while the writer stood."""
    first = await standing(store, gate)
    callers = [asyncio.ensure_future(one(store)) for one in wanted]
    await asyncio.sleep(0)  # now the store has them
    gate.open()
    await first
    return await within(asyncio.gather(*callers, return_exceptions=True))


async def created(store: Store, author: Author, count: int) -> list[TaskId]:
    ids = [TaskId(f"t{number:03}") for number in range(count)]
    for task_id in ids:
        await store.create(task_id, [author.submitted()])
    return ids


def noted(task_id: TaskId, version: int, *drafts: Draft, **more: Any) -> Wanted:
    return lambda store: append(store, task_id, version, *drafts, **more)


async def test_a_hundred_appends_take_the_statements_of_a_few(
    store: SqlitePersistenceManager, gate: Gate, clock: ManualClock
) -> None:
    """They read heads, write items and write heads together; each has its chain, its lease renewed, its status."""
    author = Author(clock)
    ids = await created(store, author, 100)
    leases = {(lease := await taken(store, lease_s=10)).task_id: lease for _ in ids}
    clock.advance(9)
    answers = await together(
        store,
        gate,
        [
            noted(task_id, 1, author.note(), author.note(), status=TaskStatus.RUNNING, token=leases[task_id].token)
            for task_id in ids
        ],
    )
    statements = [text.split()[0] for _, text in gate.statements]
    assert gate.commits() == 2
    assert statements.count("INSERT") <= 4
    assert statements.count("SELECT") <= 5
    assert "SAVEPOINT" not in statements
    for task_id, answer in zip(ids, answers, strict=True):
        items = await store.read(task_id)
        assert items[1:] == answer
        assert verify_chain(items) is None
    assert len(await store.list_tasks(status=TaskStatus.RUNNING)) == 100
    clock.advance(9)
    assert await store.lease("node-2", 10) is None, "every lease was renewed"
    again = await together(store, gate, [noted(task_id, 3, author.note()) for task_id in ids])
    assert [answer[0].version for answer in again] == [4] * 100


async def test_what_is_refused_among_many_fails_only_itself(
    store: SqlitePersistenceManager, gate: Gate, clock: ManualClock
) -> None:
    """Old versions, lost leases, unknown tasks and senseless drafts are refused; a retry is answered."""
    author = Author(clock)
    ids = await created(store, author, 30)
    retried = author.note()
    stored = await append(store, ids[0], 1, retried)
    same = author.note()
    odd: dict[int, tuple[Wanted, Fate]] = {
        0: (noted(ids[0], 1, retried), stored),
        3: (noted(ids[3], 0, author.note()), Conflict),
        4: (noted(ids[4], 9, author.note()), Conflict),
        9: (noted(ids[9], 1, author.note(), token=Token(7)), LeaseLost),
        12: (noted(NO_TASK, 1, author.note()), NotFound),
        20: (noted(ids[20], 1, same, same), InvalidRequest),
        21: (noted(ids[21], 1), InvalidRequest),
        29: (noted(ids[29], 1, author.note("half \udfff")), InvalidRequest),
    }
    wanted = [odd[n][0] if n in odd else noted(task_id, 1, author.note()) for n, task_id in enumerate(ids)]
    answers = await together(store, gate, wanted)
    assert gate.commits() == 2
    assert "ROLLBACK" not in {text for _, text in gate.statements}, "the smooth ones were written together"
    await _assert_fared(store, ids, answers, {number: expected for number, (_, expected) in odd.items()})


@pytest.mark.parametrize("refused", [False, True])
async def test_a_refused_one_among_other_operations_fails_only_itself(
    store: SqlitePersistenceManager, gate: Gate, clock: ManualClock, refused: bool
) -> None:
    """Where none is refused no savepoint is made; where one is, the others are there once."""
    author = Author(clock)
    await created(store, author, 1)
    lease = await taken(store)

    def made(task_id: str) -> Wanted:
        return lambda store: store.create(TaskId(task_id), [author.submitted()])

    async def parked(store: Store) -> Any:
        return await store.park(lease, 9 if refused else 1, due=None, waiting_for=None)

    first, park, last = await together(store, gate, [made("before"), parked, made("after")])
    assert isinstance(park, Conflict) if refused else park is False
    assert ("SAVEPOINT operation" in {text for _, text in gate.statements}) == refused
    for answer in (first, last):
        assert await store.read(answer[0].task_id) == answer
    assert len(await store.list_tasks()) == 3


async def test_a_claim_that_is_blocked_has_nothing_run_again(
    store: SqlitePersistenceManager, gate: Gate, clock: ManualClock
) -> None:
    """Tasks wait for one another's computers all the time."""
    author = Author(clock)
    await created(store, author, 2)
    first, second = [await taken(store) for _ in range(2)]
    assert await store.claim(first, [COMPUTER]) is None
    blocked = noted(second.task_id, 1, author.note(), token=second.token, claim=[COMPUTER])
    refused, made = await together(
        store, gate, [blocked, lambda store: store.create(TaskId("new"), [author.submitted()])]
    )
    assert isinstance(refused, ComputerClaimed)
    assert await store.read(TaskId("new")) == made
    assert "ROLLBACK" not in {text for _, text in gate.statements}


async def test_one_that_is_kept_when_all_is_run_again_is_not_told_to_be_refused(
    store: SqlitePersistenceManager, gate: Gate, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails an append that claims, and another operation is refused: all is run again, and now it is kept."""
    author = Author(clock)
    task_id, other = await created(store, author, 2)
    leases = {(lease := await taken(store)).task_id: lease for _ in range(2)}
    append_script, runs = sql_queue.append, list[int]()

    def failing(wanted: sql.Append, now: int) -> Script[list[AgentTaskItem]]:
        runs.append(now)
        if len(runs) == 1:
            broken = sqlite3.OperationalError("disk I/O error")
            broken.sqlite_errorname = "SQLITE_IOERR_READ"
            raise broken
        return (yield from append_script(wanted, now))

    async def parked(store: Store) -> Any:
        return await store.park(leases[other], 9, due=None, waiting_for=None)

    monkeypatch.setattr(sql_queue, "append", failing)
    claiming = noted(task_id, 1, author.note(), token=leases[task_id].token, claim=[COMPUTER])
    answer, park = await together(store, gate, [claiming, parked])
    assert len(runs) == 2
    assert isinstance(park, Conflict)
    assert await store.read(task_id, 1) == answer


def unwritable(author: Author) -> Draft:
    """A draft that no store can write; nothing in this project makes one."""
    call = ToolCall(call_id=CallId("c1"), index=0, tool="t", args={"x": object()}, call_digest="d")
    (*_, proposed) = author.proposed(Effect.ALLOW)
    assert isinstance(proposed.fact, facts.CallsProposed)
    return author.draft(proposed.fact.model_copy(update={"calls": (call,)}))


async def test_one_that_breaks_the_others_statement_fails_only_itself(
    store: SqlitePersistenceManager, gate: Gate, clock: ManualClock
) -> None:
    """Item ids that are there at the right version, and a fact that cannot be written: all is run one by one."""
    author = Author(clock)
    ids = await created(store, author, 30)
    old, other = author.note(), author.note()
    stored = await append(store, ids[5], 1, old)
    await append(store, ids[6], 1, other)
    odd: dict[int, tuple[Wanted, Fate]] = {
        5: (noted(ids[5], 2, old), stored),
        6: (noted(ids[6], 2, author.note(), other), Conflict),
        7: (noted(ids[7], 1, unwritable(author)), ValueError),
    }
    for chosen in ((5,), (6,), (7,), (5, 6, 7)):
        before = {task_id: len(await store.read(task_id)) for task_id in ids}
        wanted = [
            odd[n][0] if n in chosen else noted(task_id, before[task_id], author.note())
            for n, task_id in enumerate(ids)
            if n in chosen or n not in odd
        ]
        numbers = [n for n in range(len(ids)) if n in chosen or n not in odd]
        answers = await together(store, gate, wanted)
        assert gate.commits() == 2
        assert "ROLLBACK" in {text for _, text in gate.statements}
        expected = {numbers.index(n): odd[n][1] for n in chosen}
        await _assert_fared(store, [ids[n] for n in numbers], answers, expected)


async def _assert_fared(store: Store, ids: list[TaskId], answers: list[Any], odd: dict[int, Fate]) -> None:
    """Each was written, but for the ``odd``: refused so, or answered with what had been there."""
    for number, (task_id, answer) in enumerate(zip(ids, answers, strict=True)):
        expected = odd.get(number)
        items = await store.read(task_id)
        assert verify_chain(items) is None
        if isinstance(expected, type):
            assert isinstance(answer, expected)
        elif expected is not None:
            assert answer == expected
        else:
            assert answer == items[-1:]


async def test_others_in_the_same_transaction_are_run_as_ever(
    store: SqlitePersistenceManager, gate: Gate, clock: ManualClock
) -> None:
    """Renewals, wakes, creations, numbers and blobs that came with plain appends: all are carried out."""
    author = Author(clock)
    ids = await created(store, author, 10)
    lease, sleepy = await taken(store, lease_s=10), await taken(store, lease_s=10)
    assert [lease.task_id, sleepy.task_id] == ids[:2]
    started = [*author.proposed(Effect.ALLOW), author.started()]
    await append(store, ids[9], 1, *started[:-1])
    new = TaskId("t999")
    wanted: list[Callable[[Store], Awaitable[Any]]] = [noted(task_id, 1, author.note()) for task_id in ids[2:9]]
    wanted += [
        lambda store: append(store, ids[0], 1, author.note(), token=lease.token),
        lambda store: store.renew(lease, 100),
        lambda store: append(store, ids[1], 1, author.note(), token=sleepy.token, schedule="sleep"),
        lambda store: store.renew(sleepy, 100),
        lambda store: store.create(new, [author.submitted()]),
        lambda store: store.put_blob(b"large"),
        lambda store: store.append(ids[9], 4, started[-1:], status=TaskStatus.RUNNING, number_for=COMPUTER),
        lambda store: store.lease("node-2", 10),
    ]
    answers = await together(store, gate, wanted)
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    assert gate.commits() == 2
    assert answers[-2][0].fact.number == 1
    assert answers[-1].task_id == ids[2]
    clock.advance(99)
    assert {(await taken(store, "node-3")).task_id for _ in range(9)} == {*ids[2:], new}, "one held, one asleep"


async def test_a_tasks_own_appends_go_in_order_while_others_go_together(
    store: SqlitePersistenceManager, gate: Gate, clock: ManualClock
) -> None:
    """Five appends of each of fifty tasks, none waiting for another, are five commits and fifty chains."""
    author = Author(clock)
    ids = await created(store, author, 50)
    wanted = [noted(task_id, version, author.note()) for version in range(1, 6) for task_id in ids]
    answers = await together(store, gate, wanted)
    assert gate.commits() == 6
    assert [answer[0].version for answer in answers] == [version for version in range(2, 7) for _ in ids]
    kept = [await store.read(task_id) for task_id in ids]
    assert all(len(items) == 6 and verify_chain(items) is None for items in kept)


SCHEDULES: tuple[Schedule, ...] = ("keep", "keep", "keep", "wake", "sleep")
STATUSES = (TaskStatus.QUEUED, TaskStatus.RUNNING)


def random_load(author: Author, ids: list[TaskId], dice: random.Random) -> list[tuple[TaskId, Wanted]]:
    """Appends of every sort, many of them to be refused, in an order of its own for each task."""
    load: list[tuple[TaskId, Wanted]] = []
    before: dict[TaskId, list[Draft]] = {task_id: [] for task_id in ids}
    likely = dict.fromkeys(ids, 1)
    given: dict[TaskId, int] = dict.fromkeys(ids, 0)
    for _ in range(600):
        task_id = dice.choice(ids)
        drafts = [author.note("x" * dice.randrange(900)) for _ in range(dice.choice((1, 1, 1, 2, 3)))]
        fine = dice.random() < 0.7
        version = likely[task_id] if fine else dice.randrange(1, 1 + likely[task_id])
        more: dict[str, Any] = {"status": dice.choice(STATUSES), "schedule": dice.choice(SCHEDULES)}
        if fine:
            if dice.random() < 0.1:
                given[task_id] += 1
                drafts.append(author.decided(author.grant(f"{task_id}-{given[task_id]}")))
            elif given[task_id] and dice.random() < 0.3:
                drafts.append(author.started(grant_id=f"{task_id}-{dice.randint(1, given[task_id])}"))
            likely[task_id] += len(drafts)
        elif dice.random() < 0.2:
            version = likely[task_id]
            drafts.append(author.started(grant_id="never-given"))
        elif before[task_id] and dice.random() < 0.5:
            drafts[-1] = dice.choice(before[task_id])
        elif dice.random() < 0.5:
            more["token"] = Token(dice.choice((1, 1, 1, 2)))
        before[task_id] += drafts
        load.append((task_id, noted(task_id, version, *drafts, **more)))
    return load


@pytest.mark.thinned(2)
@pytest.mark.parametrize("seed", range(6))
async def test_a_random_load_fares_as_in_memory(tmp_path: Path, seed: int) -> None:
    """Whatever shares a transaction: answers, refusals, items, statuses and queue are those of one after the other."""
    dice = random.Random(seed)
    clock = ManualClock()
    author = Author(clock)
    stores = [open_store("memory:", clock=clock), open_store(f"sqlite:///{tmp_path / 'store.db'}", clock=clock)]
    ids = [TaskId(f"t{number:02}") for number in range(25)]
    submitted = [author.submitted() for _ in ids]
    load = random_load(author, ids, dice)
    told: list[list[Any]] = []
    for store in stores:
        for task_id, draft in zip(ids, submitted, strict=True):
            await store.create(task_id, [draft])
        for _ in ids[::2]:
            await taken(store)
        at_once = asyncio.gather(*(wanted(store) for _, wanted in load), return_exceptions=True)
        answers = [
            (type(answer), str(answer)) if isinstance(answer, Exception) else answer for answer in await within(at_once)
        ]
        rows = [(row.task_id, row.status, row.version) for row in await store.list_tasks()]
        items = [await store.read(task_id) for task_id in ids]
        grants = await store.list_grants()
        queue = [await store.lease("node-9", 5) for _ in range(len(ids) + 1)]
        told.append([answers, rows, items, queue, grants])
        await store.close()
    for in_memory, in_sqlite in zip(*told, strict=True):
        assert in_sqlite == in_memory
    answers = told[0][0]
    refusals = {answer[0] for answer in answers if isinstance(answer, tuple)}
    assert refusals == {Conflict, LeaseLost, GrantVoid}
    assert sum(one.uses for one in told[0][4]) > 20
    assert sum(isinstance(answer, list) for answer in answers) > 200


async def test_two_loops_use_one_store(store: SqlitePersistenceManager, clock: ManualClock) -> None:
    """Callers of two event loops, each in its own thread, all get their answers."""
    author = Author(clock)
    ids = await created(store, author, 20)

    async def write(task_ids: list[TaskId]) -> None:
        for version in range(1, 21):
            await asyncio.gather(*(append(store, task_id, version, author.note()) for task_id in task_ids))

    def elsewhere() -> None:
        asyncio.run(within(write(ids[10:])))

    other = asyncio.create_task(asyncio.to_thread(elsewhere))
    await within(write(ids[:10]))
    await other
    for task_id in ids:
        items = await store.read(task_id)
        assert len(items) == 21
        assert verify_chain(items) is None


def left_behind(store: Store, task_id: TaskId, draft: Draft) -> None:
    """An append from a loop that ends right after it was accepted."""
    loop = asyncio.new_event_loop()
    waiting = append(store, task_id, 1, draft)
    loop.call_soon(lambda: waiting.send(None))
    loop.call_soon(loop.stop)
    loop.run_forever()
    waiting.close()
    loop.close()


async def test_what_a_loop_left_behind_is_written_with_the_next(
    store: SqlitePersistenceManager, clock: ManualClock
) -> None:
    """A loop that ended before it could wake the writer keeps nobody else's append waiting, nor its own."""
    author = Author(clock)
    left, other = await created(store, author, 2)
    await asyncio.to_thread(left_behind, store, left, author.note())
    await within(append(store, other, 1, author.note()))
    assert len(await store.read(left)) == 2


async def test_what_a_loop_left_behind_is_written_at_the_end(
    store: SqlitePersistenceManager, clock: ManualClock, tmp_path: Path
) -> None:
    """With nothing after it, it is written by closing."""
    author = Author(clock)
    (task_id,) = await created(store, author, 1)
    await asyncio.to_thread(left_behind, store, task_id, author.note())
    await store.close()
    again = open_store(f"sqlite:///{tmp_path / 'store.db'}", clock=clock)
    assert len(await again.read(task_id)) == 2
    await again.close()
