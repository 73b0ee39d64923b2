"""The contracts of grants: S51 to S57, given with a decision, used with a start, listed and revoked."""

import asyncio

from orchestrator.core.approval.grants import Grant, GrantState
from orchestrator.core.errors import Conflict, GrantVoid, InvalidRequest, LeaseLost, NotFound
from orchestrator.core.policy import Effect
from orchestrator.core.ports import SYSTEM_STREAM, Store, Token
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import Draft, verify_chain
from orchestrator.core.task.system_facts import GrantId, GrantRevoked
from orchestrator.core.task.task_states import TaskStatus
from orchestrator.testing.drafts import COMPUTER, Author, ManualClock, append, refused

T1 = TaskId("t1")
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
    """One append may give a grant and use it, each start for itself: all of it, or nothing of it."""
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
