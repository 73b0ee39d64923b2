"""The contracts of ``TaskPersistenceManager``, second part: S16 to S23, S44 and S105, the tables beside the journal."""

import asyncio
from dataclasses import replace
from typing import Any

from orchestrator.core.approval.grants import Grant, GrantState
from orchestrator.core.errors import Conflict, GrantVoid, InvalidRequest, LeaseLost, NotFound, OrchestratorError
from orchestrator.core.policy import Effect
from orchestrator.core.ports import SYSTEM_STREAM, Store, TaskRow, Token, TokenRow
from orchestrator.core.task.facts import RequestId, TaskId
from orchestrator.core.task.items import Draft, verify_chain
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import GrantId, GrantRevoked
from orchestrator.testing.drafts import COMPUTER, Author, ManualClock, append, refused, taken

# -- The contracts of ``TaskPersistenceManager``, second part: S16 to S23, S44 and S105, what is kept beside the journal

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
    """A number is never below ``at_least`` and always above those before; a lease that is lost gets none.

    Several at once follow one another.
    """
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
    assert await store.allot_number(COMPUTER, count=3) == 32
    assert await store.allot_number(COMPUTER, at_least=40, count=2) == 40
    assert await store.allot_number(COMPUTER, at_least=42, count=2) == 42
    assert await store.allot_number(COMPUTER) == 44


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
    assert await store.tokens_of(computer.kind, computer.name) == [computer]
    assert await store.tokens_of(first.kind, first.name) == [
        replace(first, revoked=True),
        replace(second, revoked=True),
    ]
    assert await store.tokens_of(computer.kind, "nobody") == []
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


async def s105_pages_of_tasks(store: Store, clock: ManualClock) -> None:
    """Pages have each task once in every order, of some users and of many, and hold still while others come."""
    author, users = Author(clock), ("ann", "bob", "cleo")
    for number in range(12):
        submitted = author.submitted()
        fact = submitted.fact.model_copy(update={"user_id": users[number % 3], "session_id": "s-all"})
        await store.create(TaskId(f"t{number:02}"), [submitted._replace(fact=fact)])
        clock.advance(number % 2)
        if number % 4 == 1:
            await append(store, TaskId(f"t{number:02}"), 1, author.note(), status=TaskStatus.RUNNING)
    many = {"ann", "cleo", *(f"nobody {number}" for number in range(120))}
    for more in ({}, {"status": TaskStatus.RUNNING}, {"session_id": "s-all"}, {"users": ["ann"]}, {"users": many}):
        for also in ({}, {"users": ["bob", "cleo"], "status": TaskStatus.QUEUED}):
            wanted: dict[str, Any] = {**more, **also}
            whole = await store.list_tasks(**wanted)
            assert whole
            assert whole == sorted(whole, key=lambda row: (row.created_at, row.task_id), reverse=True)
            assert all(row.user_id in wanted.get("users", users) for row in whole)
            assert {row.status for row in whole} <= {wanted.get("status"), *(() if "status" in wanted else TaskStatus)}
            paged: list[TaskRow] = []
            while page := await store.list_tasks(
                **wanted, before=(paged[-1].created_at, paged[-1].task_id) if paged else None, limit=2
            ):
                paged += page
            assert paged == whole
    changed = await store.last_changed(users=many)
    assert changed == sorted(changed, key=lambda row: (row.updated_at, row.task_id), reverse=True)
    assert {row.user_id for row in changed} == {"ann", "cleo"}
    named = sorted(row.task_id for row in changed if row.task_id >= "t03")
    assert [head.stream for head in await store.heads_from("t03", users=many)] == named
    (first, *_) = await store.list_tasks(limit=1)
    await store.create(TaskId("t99"), [author.submitted()])
    (second, *_) = await store.list_tasks(before=(first.created_at, first.task_id), limit=1)
    assert second.task_id == "t10"
    for some in (None, "s-all"):
        assert await store.list_tasks(users=[], session_id=some) == []


# -- The contracts of grants: S51 to S57, given with a decision, used with a start, listed and revoked

T2 = TaskId("t2")


async def s51_grants_come_with_their_decision(store: Store, clock: ManualClock) -> None:
    """Grants are kept with the decision that gives them, however it comes; a decision that is refused gives none."""
    author = Author(clock)
    late = author.grant("late")
    clock.advance(1)
    ones = [author.grant("z", max_uses=2), author.grant("b", lasts_s=60), author.grant("a", session_id="s2")]
    decided = author.decided(ones[0], ones[1])
    await _create(store, author, T1)
    await append(store, T1, 4, author.review("r1"))
    await refused(Conflict, append(store, T1, 3, decided))
    assert await store.list_grants() == []
    await append(store, T1, 5, decided)
    await append(store, T1, 5, decided)
    await store.create(T2, [author.submitted(), author.decided(ones[2])])
    await store.record([author.decided(late)])
    assert await store.list_grants() == [_state(late), _state(ones[2]), _state(ones[1]), _state(ones[0])]
    assert await store.list_grants(session_id="s2") == [_state(ones[2])]
    assert await store.list_grants(session_id="s3") == []
    again = author.grant("new")
    await refused(InvalidRequest, append(store, T1, 6, author.decided(again, author.grant("z"))))
    await refused(InvalidRequest, append(store, T1, 6, author.decided(again, again)))
    assert len(await store.read(T1)) == 6
    listed = await store.list_grants()
    assert len(listed) == 4
    listed[0].grant.args.clear()
    listed.clear()
    assert (await store.list_grants())[0] == _state(late)


async def s52_a_start_uses_its_grant(store: Store, clock: ManualClock) -> None:
    """A start under a grant counts one use; under one that does not stand nothing is written, until its last moment."""
    author = Author(clock)
    await _create(store, author, T1, author.grant("twice", max_uses=2), author.grant("timed", lasts_s=60))
    await _use(store, T1, 5, author.started(grant_id="twice"))
    clock.advance(60 - 0.000001)
    await _use(store, T1, 6, author.started(grant_id="timed"))
    clock.advance(0.000001)
    (timed,) = [one for one in await store.list_grants() if one.grant.grant_id == "timed"]
    assert (timed.uses, timed.usable(clock.now())) == (1, False)
    await _void(store, author, T1, 7, "timed")
    await _use(store, T1, 7, author.started(grant_id="twice"))
    await _void(store, author, T1, 8, "twice")
    await _void(store, author, T1, 8, "never-given")
    assert await store.allot_number(COMPUTER) == 4
    assert {one.grant.grant_id: one.uses for one in await store.list_grants()} == {"twice": 2, "timed": 1}


async def s53_a_retry_uses_nothing_again(store: Store, clock: ManualClock) -> None:
    """A start that is there already is answered, also when its grant is spent; one that is refused uses nothing."""
    author = Author(clock)
    await _create(store, author, T1, author.grant("g1", max_uses=1))
    start = author.started(grant_id="g1")
    await refused(Conflict, append(store, T1, 4, start))
    await refused(LeaseLost, append(store, T1, 5, start, token=Token(9)))
    await refused(InvalidRequest, append(store, T1, 5, start, author.note("\ud800")))
    assert [one.uses for one in await store.list_grants()] == [0]
    stored = await _use(store, T1, 5, start)
    assert await append(store, T1, 5, start) == stored
    await store.revoke_grant(GrantId("g1"))
    assert await append(store, T1, 6, start) == stored
    assert [one.uses for one in await store.list_grants()] == [1]
    await refused(Conflict, append(store, T1, 6, start, author.note()))


async def s54_given_and_used_at_once(store: Store, clock: ManualClock) -> None:
    """One append may give a grant and use it, each start alone: all of it, or nothing of it."""
    author = Author(clock)
    await _create(store, author, T1)

    def starts(count: int) -> list[Draft]:
        return [author.started(grant_id="g1") for _ in range(count)]

    await refused(GrantVoid, append(store, T1, 4, author.decided(author.grant("g1", max_uses=2)), *starts(3)))
    assert await store.list_grants() == []
    await append(store, T1, 4, author.decided(author.grant("g1", max_uses=3)), *starts(2))
    await refused(GrantVoid, append(store, T1, 7, *starts(2)))
    assert [one.uses for one in await store.list_grants()] == [2]
    await append(store, T1, 7, *starts(1))
    assert [one.uses for one in await store.list_grants()] == [3]


async def s55_uses_are_never_exceeded(store: Store, clock: ManualClock) -> None:
    """Of many tasks that use one grant at once as many are written as it has uses; the others are GrantVoid."""
    author = Author(clock)
    ids = [TaskId(f"t{number:02}") for number in range(24)]
    for task_id in ids:
        await _create(store, author, task_id)
    await store.record([author.decided(author.grant("g1", max_uses=7))])
    attempts = [append(store, task_id, 4, author.started(grant_id="g1")) for task_id in ids[:20]]
    plain = [append(store, task_id, 4, author.note()) for task_id in ids[20:]]
    answers = await asyncio.gather(*attempts, *plain, return_exceptions=True)
    assert sum(isinstance(answer, list) for answer in answers[:20]) == 7
    assert sum(isinstance(answer, GrantVoid) for answer in answers[:20]) == 13
    assert all(isinstance(answer, list) for answer in answers[20:])
    kept = [await store.read(task_id) for task_id in ids]
    assert sum(len(items) - 4 for items in kept) == 7 + 4
    assert all(verify_chain(items) is None for items in kept)
    assert [one.uses for one in await store.list_grants()] == [7]


async def s56_revoked_grants(store: Store, clock: ManualClock) -> None:
    """A revoked grant is used no more but listed still; its note is recorded once, and an unknown one is NotFound."""
    author = Author(clock)
    system = TaskId(SYSTEM_STREAM)
    await _create(store, author, T1, author.grant("g1"), author.grant("g2"))
    await _use(store, T1, 5, author.started(grant_id="g1"))
    half = author.draft(GrantRevoked(grant_id=GrantId("\ud800")))
    await refused(InvalidRequest, store.revoke_grant(GrantId("g1"), note=half))
    await _use(store, T1, 6, author.started(grant_id="g1"))
    notes = [author.draft(GrantRevoked(grant_id=GrantId("g1"))) for _ in range(3)]
    assert await store.revoke_grant(GrantId("g1"), note=notes[0])
    assert not await store.revoke_grant(GrantId("g1"), note=notes[1])
    assert (await refused(NotFound, store.revoke_grant(GrantId("g9"), note=notes[2]))).remedy
    assert [item.item_id for item in await store.read(system)] == [notes[0].item_id]
    await _void(store, author, T1, 7, "g1")
    assert [(one.uses, one.revoked) for one in await store.list_grants()] == [(2, True), (0, False)]
    assert await store.revoke_grant(GrantId("g2"))
    assert len(await store.read(system)) == 1


async def s57_a_race_with_a_revocation(store: Store, clock: ManualClock) -> None:
    """A grant that is revoked while tasks start under it has as many uses as there are starts, and then no more."""
    author = Author(clock)
    ids = [TaskId(f"t{number:02}") for number in range(10)]
    for task_id in ids:
        await _create(store, author, task_id)
    await store.record([author.decided(author.grant("g1"))])
    attempts = [append(store, task_id, 4, author.started(grant_id="g1")) for task_id in ids]
    answers = await asyncio.gather(
        *attempts[:5], store.revoke_grant(GrantId("g1")), *attempts[5:], return_exceptions=True
    )
    assert answers.pop(5) is True
    started = sum(isinstance(answer, list) for answer in answers)
    assert sum(isinstance(answer, GrantVoid) for answer in answers) == 10 - started
    assert [(one.uses, one.revoked) for one in await store.list_grants()] == [(started, True)]
    await _void(store, author, ids[0], len(await store.read(ids[0])), "g1")


def _state(grant: Grant) -> GrantState:
    return GrantState(grant=grant)


async def _create(store: Store, author: Author, task_id: TaskId, *grants: Grant) -> None:
    """A task at version 4 with a call proposed, at 5 with a decision that gives these grants."""
    decided = [author.decided(*grants)] if grants else []
    await store.create(task_id, [author.submitted(), *author.proposed(Effect.ASK), *decided])


async def _use(store: Store, task_id: TaskId, version: int, start: Draft) -> object:
    return await store.append(task_id, version, [start], status=TaskStatus.RUNNING, number_for=COMPUTER)


async def _void(store: Store, author: Author, task_id: TaskId, version: int, grant_id: str) -> None:
    """A use of this grant is GrantVoid, alone or with more, and nothing is written."""
    for drafts, number_for in (
        ([author.started(grant_id=grant_id)], COMPUTER),
        ([author.note(), author.started(grant_id=grant_id)], None),
    ):
        refusal = await refused(
            GrantVoid,
            store.append(task_id, version, drafts, status=TaskStatus.FAILED, number_for=number_for, blobs=[b"large"]),
        )
        assert grant_id in refusal.message
        assert refusal.remedy
    assert len(await store.read(task_id)) == version
    assert TaskStatus.FAILED not in {row.status for row in await store.list_tasks()}
