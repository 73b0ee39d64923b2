"""The contracts of ``TaskPersistenceManager``, second part: S16 to S23 and S44, what is kept beside the journal."""

import asyncio
from dataclasses import replace

from orchestrator.core.errors import Conflict, LeaseLost, NotFound, OrchestratorError
from orchestrator.core.ports import Store, TaskRow, TokenRow
from orchestrator.core.task.facts import RequestId, TaskId
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.task.task_states import TaskStatus
from orchestrator.testing.drafts import COMPUTER, Author, ManualClock, append, refused, taken

T1 = TaskId("t1")


async def s16_read_after(store: Store, clock: ManualClock) -> None:
    """Reading answers the items after a version; of an unknown task there are none, and it loads as None."""
    author = Author(clock)
    items = await store.create(T1, [author.submitted(), author.note(), author.note()])
    assert await store.read(T1, 2) == items[2:]
    assert await store.read(T1, 3) == []
    assert await store.read(TaskId("t2")) == []
    assert await store.load(TaskId("t2")) is None


async def s17_request_ids(store: Store, clock: ManualClock) -> None:
    """A request's id leads to its task as it is now, also when the request is closed and the task over."""
    author = Author(clock)
    await store.create(T1, [author.submitted(), *author.proposed()])
    assert await store.load_by_request_id(RequestId("r1")) is None
    await append(store, T1, 4, author.review("r1"), status=TaskStatus.PAUSED)
    task = await store.load_by_request_id(RequestId("r1"))
    assert task is not None
    assert (task.task_id, task.status) == (T1, TaskStatus.PAUSED)
    await append(store, T1, 5, author.ended(), status=TaskStatus.CANCELED)
    task = await store.load_by_request_id(RequestId("r1"))
    assert task is not None
    assert task.status is TaskStatus.CANCELED


async def s18_lists(store: Store, clock: ManualClock) -> None:
    """Rows come newest first, of one status or of all, up to the limit, and say what the task says."""
    author = Author(clock)
    ids = [TaskId(task_id) for task_id in ("t9", "t1", "t5")]
    for task_id in ids:
        await store.create(task_id, [author.submitted("x" * 300)])
        clock.advance(1)
    await append(store, ids[1], 1, author.note(), status=TaskStatus.RUNNING)
    assert [row.task_id for row in await store.list_tasks()] == ids[::-1]
    assert [row.task_id for row in await store.list_tasks(limit=2)] == [ids[2], ids[1]]
    assert [row.task_id for row in await store.list_tasks(status=TaskStatus.QUEUED)] == [ids[2], ids[0]]
    task = await store.load(ids[1])
    assert task is not None
    assert task.created_at is not None
    assert task.updated_at == clock.now()
    assert await store.list_tasks(status=TaskStatus.RUNNING) == [
        TaskRow(
            task_id=ids[1],
            status=TaskStatus.RUNNING,
            version=2,
            user_id="alice",
            session_id="s1",
            prompt="x" * 200,
            created_at=task.created_at,
            updated_at=task.updated_at,
            computers=(COMPUTER,),
        )
    ]


async def s19_blobs(store: Store, clock: ManualClock) -> None:
    """Bytes are kept by their sha256, by hand or with an append, once however often they come."""
    author = Author(clock)
    content = bytes(range(256)) * 40
    ref = await store.put_blob(content)
    assert ref == await store.put_blob(content)
    assert ref.size == len(content)
    assert await store.get_blob(ref.sha256) == content
    await store.create(T1, [author.submitted()])
    await store.append(T1, 1, [author.note()], status=TaskStatus.QUEUED, blobs=[b"", content, b"large"])
    for kept in (b"", content, b"large"):
        assert await store.get_blob((await store.put_blob(kept)).sha256) == kept
    await refused(NotFound, store.get_blob("0" * 64))


async def s20_allotments(store: Store, clock: ManualClock) -> None:
    """A number is never below ``at_least`` and always above those before; a lease that is lost gets none."""
    author = Author(clock)
    assert await store.allot_number(COMPUTER) == 1
    assert await store.allot_number(COMPUTER, at_least=7) == 7
    assert await store.allot_number(COMPUTER, at_least=7) == 8
    assert await store.allot_number(COMPUTER, at_least=3) == 9
    await store.create(T1, [author.submitted()])
    lease = await taken(store)
    assert await store.allot_number(COMPUTER, lease=lease) == 10
    await store.park(lease, 1, due=None)
    await refused(LeaseLost, store.allot_number(COMPUTER, lease=lease))
    assert await store.allot_number(COMPUTER) == 11
    many = await asyncio.gather(*(store.allot_number(COMPUTER) for _ in range(20)))
    assert sorted(many) == list(range(12, 32))


async def s21_tokens(store: Store, clock: ManualClock) -> None:
    """Tokens are found by their hash, listed oldest first, and revoked by holder; a hash is kept once."""
    first = TokenRow("h2", "person", "alice", ("submitter", "reviewer"), clock.now())
    await store.add_token(first)
    await refused(Conflict, store.add_token(first))
    clock.advance(1)
    await store.add_token(TokenRow("h1", "person", "alice"))
    second = TokenRow("h1", "person", "alice", (), clock.now())
    computer = TokenRow("h3", "computer", "alice", (), clock.advance(1))
    await store.add_token(computer)
    assert await store.find_token("h1") == second
    assert await store.find_token("h9") is None
    assert await store.revoke_tokens("person", "alice") == 2
    assert await store.revoke_tokens("person", "alice") == 0
    assert await store.revoke_tokens("person", "bob") == 0
    assert await store.list_tokens() == [replace(first, revoked=True), replace(second, revoked=True), computer]
    assert await store.find_token("h2") == replace(first, revoked=True)


async def s22_cancellation(store: Store, clock: ManualClock) -> None:
    """A caller that is cancelled while it waits neither undoes nor breaks what it asked for."""
    author = Author(clock)
    ids = [TaskId(f"t{number}") for number in range(10)]
    drafts = {task_id: author.submitted() for task_id in ids}
    callers = [asyncio.create_task(store.create(task_id, [drafts[task_id]])) for task_id in ids]
    await asyncio.sleep(0)  # now the store has them
    for caller in callers[::2]:
        caller.cancel()
    answers = await asyncio.gather(*callers, return_exceptions=True)
    assert all(isinstance(answer, list) for answer in answers[1::2])
    for task_id in ids:
        assert len(await store.create(task_id, [drafts[task_id]])) == 1
        await append(store, task_id, 1, author.note())
        assert len(await store.read(task_id)) == 2


async def s23_close(store: Store, clock: ManualClock) -> None:
    """Closing finishes what was accepted and may be done twice; afterwards every operation says what to do."""
    author = Author(clock)
    ids = [TaskId(f"t{number}") for number in range(20)]
    callers = [asyncio.create_task(store.create(task_id, [author.submitted()])) for task_id in ids]
    await asyncio.sleep(0)  # now the store has them
    await asyncio.gather(store.close(), store.close())
    await store.close()
    assert [len(items) for items in await asyncio.gather(*callers)] == [1] * 20
    for operation in (
        store.create(T1, [author.submitted()]),
        store.read(T1),
        store.list_tasks(),
        store.lease("node-1", 10),
        store.wake(T1),
        store.get_blob("0" * 64),
        store.record([author.note()]),
        store.heads(),
        store.list_grants(),
        store.revoke_grant(GrantId("g1")),
    ):
        assert (await refused(OrchestratorError, operation)).remedy


async def s44_lists_of_a_session(store: Store, clock: ManualClock) -> None:
    """Rows of one session only, newest first, together with a status or alone."""
    author = Author(clock)
    for number, session_id in enumerate(("s-a", "s-b", "s-a", "s-a"), start=1):
        submitted = author.submitted()
        fact = submitted.fact.model_copy(update={"session_id": session_id})
        await store.create(TaskId(f"t{number}"), [submitted._replace(fact=fact)])
        clock.advance(1)
    await append(store, TaskId("t3"), 1, author.note(), status=TaskStatus.RUNNING)
    assert [row.task_id for row in await store.list_tasks(session_id="s-a")] == ["t4", "t3", "t1"]
    assert [row.task_id for row in await store.list_tasks(session_id="s-a", limit=1)] == ["t4"]
    assert [row.task_id for row in await store.list_tasks(session_id="s-a", status=TaskStatus.QUEUED)] == ["t4", "t1"]
    assert await store.list_tasks(session_id="s-c") == []
