"""The contracts of ``TaskPersistenceManager``, first part: S01 to S15, S45, S104 and S117, the journal."""

import asyncio
import hashlib

from orchestrator.core.errors import Conflict, InvalidRequest, LeaseLost, NotFound
from orchestrator.core.policy import Effect
from orchestrator.core.ports import Receipt, Store, Token
from orchestrator.core.task.facts import CallsProposed, RequestId, TaskId, ToolStarted
from orchestrator.core.task.items import item_hash, verify_chain
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.values import changed
from orchestrator.core.wire.identity import Heard
from orchestrator.core.wire.wire import ComputerId
from orchestrator.testing.drafts import COMPUTER, Author, ManualClock, append, refused, taken

T1 = TaskId("t1")
T2 = TaskId("t2")


async def s01_create_seals_and_schedules(store: Store, clock: ManualClock) -> None:
    """A created task has its items chained from version 1, folds, is Queued and due at once."""
    author = Author(clock)
    items = await store.create(T1, [author.submitted(), author.note()])
    assert [item.version for item in items] == [1, 2]
    assert verify_chain(items) is None
    assert await store.read(T1) == items
    task = await store.load(T1)
    assert task is not None
    assert (task.version, task.head_hash, task.prompt) == (2, items[-1].hash, "fix my farm")
    assert [row.status for row in await store.list_tasks()] == [TaskStatus.QUEUED]
    assert (await taken(store)).task_id == T1


async def s02_create_again(store: Store, clock: ManualClock) -> None:
    """Creating a task again from the same drafts answers its items, from others is a Conflict."""
    author = Author(clock)
    drafts = [author.submitted()]
    items = await store.create(T1, drafts)
    await append(store, T1, 1, author.note())
    assert await store.create(T1, drafts) == items
    await refused(Conflict, store.create(T1, [author.submitted()]))
    await refused(Conflict, store.create(T1, [*drafts, author.note()]))
    assert len(await store.read(T1)) == 2


async def s03_refuses_what_has_no_meaning(store: Store, clock: ManualClock) -> None:
    """A task starts with task_submitted and exists before it grows; an append has drafts, each with its own id."""
    author = Author(clock)
    await refused(InvalidRequest, store.create(T1, [author.note()]))
    await refused(InvalidRequest, store.create(T1, []))
    await refused(NotFound, append(store, T1, 0, author.note()))
    await store.create(T1, [author.submitted()])
    await refused(InvalidRequest, append(store, T1, 1))
    note = author.note()
    await refused(InvalidRequest, append(store, T1, 1, note, note))
    assert len(await store.read(T1)) == 1


async def s04_wrong_version_writes_nothing(store: Store, clock: ManualClock) -> None:
    """An append at any version but the task's is a Conflict and leaves nothing of what came with it."""
    author = Author(clock)
    await store.create(T1, [author.submitted(), *author.proposed(Effect.ALLOW)])
    await store.park(await taken(store), 4, due=None)
    for version in (0, 3, 5):
        await refused(
            Conflict,
            store.append(
                T1,
                version,
                [author.started(), author.review("r1")],
                status=TaskStatus.FAILED,
                schedule="wake",
                number_for=COMPUTER,
                blobs=[b"large"],
            ),
        )
    await _assert_untouched(store, 4)


async def s05_same_items_again(store: Store, clock: ManualClock) -> None:
    """Drafts that are there already are answered with the stored items, also when the version moved on."""
    author = Author(clock)
    await store.create(T1, [author.submitted(), *author.proposed(Effect.ALLOW)])
    drafts = [author.started()]
    first = await store.append(T1, 4, drafts, status=TaskStatus.RUNNING, number_for=COMPUTER)
    assert await store.append(T1, 4, drafts, status=TaskStatus.RUNNING, number_for=COMPUTER) == first
    await append(store, T1, 5, author.ended())
    assert await store.append(T1, 4, drafts, status=TaskStatus.RUNNING, number_for=COMPUTER) == first
    assert await store.append(T1, 6, drafts, status=TaskStatus.RUNNING, number_for=COMPUTER) == first
    assert len(await store.read(T1)) == 6
    assert await store.allot_number(COMPUTER) == 2


async def s104_a_number_for_the_acknowledgement(store: Store, clock: ManualClock) -> None:
    """It is allotted with an outcome, keeps what was heard, and is below that of a call that starts with it."""
    author, numbers = Author(clock), list[int]()
    receipt = Receipt(COMPUTER, Heard(7), numbers.append)
    await store.create(T1, [author.submitted(), *author.proposed(Effect.ALLOW)])
    note = author.note()
    stored = await store.append(T1, 4, [note], status=TaskStatus.RUNNING, receipt=receipt)
    assert (numbers, (await store.computer(COMPUTER)).heard) == ([1], 7)
    for version in (4, 5):
        assert await store.append(T1, version, [note], status=TaskStatus.RUNNING, receipt=receipt) == stored
    await refused(Conflict, store.append(T1, 4, [author.note()], status=TaskStatus.RUNNING, receipt=receipt))
    assert numbers == [1]
    earlier = Receipt(COMPUTER, Heard(3), numbers.append)
    (_, start) = await store.append(
        T1, 5, [author.note(), author.started()], status=TaskStatus.RUNNING, number_for=COMPUTER, receipt=earlier
    )
    assert isinstance(start.fact, ToolStarted)
    assert (numbers, start.fact.number, await store.allot_number(COMPUTER)) == ([1, 2], 3, 4)
    assert (await store.computer(COMPUTER)).heard == 7
    other = Receipt(ComputerId("9"), Heard(0), numbers.append)
    await store.append(T1, 7, [author.note()], status=TaskStatus.RUNNING, receipt=other)
    assert (numbers[-1], await store.allot_number(other.computer)) == (1, 2)


async def s06_some_items_again(store: Store, clock: ManualClock) -> None:
    """Drafts of which only some are there already are a Conflict at every version."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    old, new = author.note(), author.note()
    await append(store, T1, 1, old)
    for version in (1, 2):
        await refused(Conflict, append(store, T1, version, old, new))
        await refused(Conflict, append(store, T1, version, new, old))
    assert len(await store.read(T1)) == 2


async def s07_item_ids_are_the_tasks_own(store: Store, clock: ManualClock) -> None:
    """The same item id in two tasks is two items."""
    author = Author(clock)
    draft, note = author.submitted(), author.note()
    await store.create(T1, [draft])
    await store.create(T2, [draft])
    (one,) = await append(store, T1, 1, note)
    (two,) = await append(store, T2, 1, note)
    assert (one.task_id, two.task_id) == (T1, T2)


async def s08_lease_before_version(store: Store, clock: ManualClock) -> None:
    """A token that is not the lease's is LeaseLost at every version, and also for items that are there."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    lease = await taken(store)
    note = author.note()
    await append(store, T1, 1, note, token=lease.token)
    await append(store, T1, 2, author.note(), token=lease.token, schedule="sleep")
    for version in (1, 2, 3, 9):
        await refused(LeaseLost, append(store, T1, version, author.note(), token=lease.token))
        await refused(LeaseLost, append(store, T1, version, note, token=lease.token))
    assert len(await store.read(T1)) == 3


async def s09_append_renews(store: Store, clock: ManualClock) -> None:
    """Every append with the lease's token renews it, also one that expired and that nobody took."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    lease = await taken(store, lease_s=10)
    clock.advance(8)
    await append(store, T1, 1, author.note(), token=lease.token)
    clock.advance(8)
    assert await store.lease("node-2", 10) is None
    clock.advance(8)
    await append(store, T1, 2, author.note(), token=lease.token)
    assert await store.lease("node-2", 10) is None
    clock.advance(8)
    await append(store, T1, 3, author.note())
    clock.advance(2)
    assert (await taken(store, "node-2")).task_id == T1


async def s10_numbers_rise(store: Store, clock: ManualClock) -> None:
    """A computer's numbers rise across tasks and allotments, and are sealed into tool_started."""
    author = Author(clock)
    numbers = []
    for task_id in (T1, T2):
        await store.create(task_id, [author.submitted(), *author.proposed(Effect.ALLOW)])
        drafts = [author.started(), author.note()]
        items = await store.append(task_id, 4, drafts, status=TaskStatus.RUNNING, number_for=COMPUTER)
        assert items == await store.read(task_id, 4)
        assert items[0].hash == item_hash(items[0])
        assert isinstance(items[0].fact, ToolStarted)
        numbers += [items[0].fact.number, await store.allot_number(COMPUTER)]
    assert numbers == [1, 2, 3, 4]
    assert await store.allot_number(ComputerId("8")) == 1


async def s11_number_needs_one_start(store: Store, clock: ManualClock) -> None:
    """A number is allotted for exactly one tool_started; a refusal uses no number up."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    for drafts in ([author.note()], [author.started(), author.started()]):
        await refused(InvalidRequest, store.append(T1, 1, drafts, status=TaskStatus.RUNNING, number_for=COMPUTER))
    assert await store.allot_number(COMPUTER) == 1


async def s12_all_or_nothing(store: Store, clock: ManualClock) -> None:
    """An append that is refused at its last step leaves no item, status, wake, number, blob or request."""
    author = Author(clock)
    await store.create(T2, [author.submitted(), *author.proposed(), author.review("r2")])
    await store.park(await taken(store), 5, due=None)
    await store.create(T1, [author.submitted(), *author.proposed(Effect.ALLOW)])
    await store.park(await taken(store), 4, due=None)
    drafts = [author.started(), author.review("r1"), author.review("r2")]
    await refused(
        InvalidRequest,
        store.append(T1, 4, drafts, status=TaskStatus.FAILED, schedule="wake", number_for=COMPUTER, blobs=[b"large"]),
    )
    await _assert_untouched(store, 4)


async def s13_one_append_wins(store: Store, clock: ManualClock) -> None:
    """Of many appends at one version exactly one is written; the others get Conflict."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    attempts = [append(store, T1, 1, author.note()) for _ in range(20)]
    answers = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(isinstance(answer, Conflict) for answer in answers) == 19
    assert sum(isinstance(answer, list) for answer in answers) == 1
    assert len(await store.read(T1)) == 2


async def s117_a_task_that_is_known_goes_on(store: Store, clock: ManualClock) -> None:
    """A known task is folded on where the stored items begin with those of it, also in a step; else it is none."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    known = await store.load(T1)
    assert known is not None
    await append(store, T1, 1, *author.proposed(Effect.ALLOW))
    acting = await store.load(T1)
    assert acting is not None
    assert acting.calls
    await store.create(T2, [author.submitted(), author.note()])
    foreign = await store.load(T2)
    for one in (known, acting, foreign, changed(known, head_hash="0" * 64), changed(acting, version=9)):
        assert await store.load(T1, one) == acting
    await store.load(T1, acting)
    acting.calls[0].call.args["content"] = "changed by who knows it"
    unchanged = await store.load(T1)
    assert unchanged is not None
    assert unchanged.calls[0].call.args["content"] == "print()"
    await append(store, T1, 4, author.ended())
    ended = await store.load(T1)
    assert ended is not None
    for one in (None, known, unchanged, foreign, ended):
        assert await store.load(T1, one) == ended
    assert await store.load(TaskId("none"), known) is None


async def s14_chains_hold_under_load(store: Store, clock: ManualClock) -> None:
    """Concurrent writers of many tasks, each retrying its conflicts, lose and double nothing and break no chain."""
    author = Author(clock)
    task_ids = [TaskId(f"t{number}") for number in range(20)]
    for task_id in task_ids:
        await store.create(task_id, [author.submitted()])

    async def write(task_id: TaskId) -> None:
        for _ in range(5):
            draft, written = author.note(), False
            while not written:
                version = len(await store.read(task_id))
                try:
                    written = bool(await append(store, task_id, version, draft))
                except Conflict:
                    continue

    await asyncio.gather(*(write(task_id) for task_id in task_ids for _ in range(2)))
    for task_id in task_ids:
        items = await store.read(task_id)
        assert len({item.item_id for item in items}) == len(items) == 11
        assert verify_chain(items) is None


async def s15_answers_are_copies(store: Store, clock: ManualClock) -> None:
    """Changing what went in or what came out changes nothing in the store."""
    author = Author(clock)
    drafts = [author.submitted(), *author.proposed()]
    answers = [await store.create(T1, drafts), await store.read(T1)]
    task = await store.load(T1)
    assert task is not None
    task.calls[0].call.args["path"] = "changed"
    for items in answers:
        assert isinstance(items[-1].fact, CallsProposed)
        items[-1].fact.calls[0].args["path"] = "changed"
        items.clear()
    drafts.clear()
    items = await store.read(T1)
    assert verify_chain(items) is None
    assert isinstance(items[-1].fact, CallsProposed)
    assert items[-1].fact.calls[0].args["path"] == "farm"


async def s45_many_tasks_at_once(store: Store, clock: ManualClock) -> None:
    """Of appends that come together each is answered or refused as if it came alone, and none fails another."""
    author = Author(clock)
    ids = [TaskId(f"t{number}") for number in range(9)]
    for task_id in ids:
        await store.create(task_id, [author.submitted()])
    stored = await append(store, ids[0], 1, old := author.note())
    await append(store, ids[1], 1, author.note())
    await append(store, ids[2], 1, known := author.note())
    twice = author.note()
    again, good, stale, known_and_new, unleased, same_ids, half, unknown, more = await asyncio.gather(
        append(store, ids[0], 2, old),
        append(store, ids[1], 2, author.note(), author.note(), status=TaskStatus.RUNNING),
        append(store, ids[3], 7, author.note()),
        append(store, ids[2], 2, known, author.note()),
        append(store, ids[4], 1, author.note(), token=Token(99)),
        append(store, ids[5], 1, twice, twice),
        append(store, ids[6], 1, author.note("\ud800")),
        append(store, TaskId("nobody"), 1, author.note()),
        append(store, ids[7], 1, author.note(), schedule="wake"),
        return_exceptions=True,
    )
    assert again == stored
    refusals = [stale, known_and_new, unleased, same_ids, half, unknown]
    assert [type(refusal) for refusal in refusals] == [
        Conflict,
        Conflict,
        LeaseLost,
        InvalidRequest,
        InvalidRequest,
        NotFound,
    ]
    assert good == (await store.read(ids[1]))[2:]
    assert more == (await store.read(ids[7]))[1:]
    kept = [await store.read(task_id) for task_id in ids]
    assert [len(items) for items in kept] == [2, 4, 2, 1, 1, 1, 1, 2, 1]
    assert all(verify_chain(items) is None for items in kept)
    running = await store.list_tasks(status=TaskStatus.RUNNING)
    assert [row.task_id for row in running] == [ids[1]]


async def _assert_untouched(store: Store, version: int) -> None:
    """T1 sleeps at ``version``; no number was allotted, no blob kept, no request raised."""
    assert len(await store.read(T1)) == version
    assert next(row for row in await store.list_tasks() if row.task_id == T1).status is TaskStatus.QUEUED
    assert await store.lease("node-1", 10) is None
    assert await store.allot_number(COMPUTER) == 1
    assert await store.load_by_request_id(RequestId("r1")) is None
    await refused(NotFound, store.get_blob(hashlib.sha256(b"large").hexdigest()))
