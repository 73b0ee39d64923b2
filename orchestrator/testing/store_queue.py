"""The contracts of ``TaskQueue``: S24 to S40, S43 (claims), S91, S95 to S98 (turns), S118 to S120 (who is near)."""

import asyncio

from orchestrator.core.errors import ComputerClaimed, Conflict, LeaseLost
from orchestrator.core.ports import ANYBODY, Lease, Store, Token, Turns
from orchestrator.core.ports.store import FAR_S, OVERTAKEN_S
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.wire.wire import ComputerId
from orchestrator.testing.drafts import Author, ManualClock, append, refused, taken

T1 = TaskId("t1")
T2 = TaskId("t2")
C3 = ComputerId("3")
C8 = ComputerId("8")


async def s24_one_holder_each(store: Store, clock: ManualClock) -> None:
    """Many that lease at once get each due task once, and None when all are taken."""
    author = Author(clock)
    ids = {TaskId(f"t{number}") for number in range(20)}
    for task_id in ids:
        await store.create(task_id, [author.submitted()])
    leases = await asyncio.gather(*(store.lease(f"node-{number}", 10) for number in range(30)))
    won = [lease.task_id for lease in leases if lease is not None]
    assert len(won) == 20
    assert set(won) == ids


async def s25_order(store: Store, clock: ManualClock) -> None:
    """The highest priority goes first, and among equals the one that is due longest."""
    author = Author(clock)
    for name, priority in (("late-low", -1), ("z-first", 0), ("a-second", 0), ("high", 5)):
        await store.create(TaskId(name), [author.submitted(priority=priority)])
        clock.advance(1)
    await store.wake(TaskId("z-first"))
    assert [(await taken(store)).task_id for _ in range(4)] == ["high", "z-first", "a-second", "late-low"]


async def s26_takeover(store: Store, clock: ManualClock) -> None:
    """After a lease expires another holder gets the task with a higher token, and the old token is good for nothing."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    old = await taken(store, "node-1", 10)
    clock.advance(9.999)
    assert await store.lease("node-2", 10) is None
    clock.advance(0.001)
    new = await taken(store, "node-2", 10)
    assert new.token > old.token
    await refused(LeaseLost, append(store, T1, 1, author.note(), token=old.token))
    await refused(LeaseLost, store.renew(old, 10))
    await refused(LeaseLost, store.park(old, 1, due=None))
    await refused(LeaseLost, store.claim(old, [C3]))
    await refused(LeaseLost, store.allot_number(C3, lease=old))
    await append(store, T1, 1, author.note(), token=new.token)


async def s27_tokens_are_never_reused(store: Store, clock: ManualClock) -> None:
    """The token rises with each lease, also after the task was given back; an unknown lease is lost."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    first = await taken(store)
    await store.park(first, 1, due=clock.now())
    second = await taken(store)
    assert second.token > first.token
    await refused(LeaseLost, store.renew(first, 10))
    await refused(LeaseLost, store.renew(Lease(T2, first.token), 10))


async def s28_renew(store: Store, clock: ManualClock) -> None:
    """Renewing holds the task for the new time from now; an expired lease that nobody took can be renewed."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    lease = await taken(store, lease_s=10)
    clock.advance(9)
    await store.renew(lease, 20)
    clock.advance(19)
    assert await store.lease("node-2", 10) is None
    clock.advance(5)
    await store.renew(lease, 10)
    clock.advance(9)
    assert await store.lease("node-2", 10) is None
    clock.advance(1)
    assert await store.lease("node-2", 10) is not None


async def s29_sleep(store: Store, clock: ManualClock) -> None:
    """An append with "sleep" gives the lease back; the task is due again only when it is woken.

    Done again, it answers the same as long as nobody took the lease since.
    """
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    lease = await taken(store)
    last = author.note()
    items = await append(store, T1, 1, last, token=lease.token, schedule="sleep")
    assert await append(store, T1, 1, last, token=lease.token, schedule="sleep") == items
    clock.advance(10**6)
    assert await store.lease("node-1", 10) is None
    await refused(LeaseLost, store.renew(lease, 10))
    await append(store, T1, 2, author.note(), schedule="keep")
    assert await store.lease("node-1", 10) is None
    await append(store, T1, 3, author.note(), schedule="wake")
    assert await append(store, T1, 1, last, token=lease.token, schedule="sleep") == items
    await refused(LeaseLost, append(store, T1, 4, author.note(), token=lease.token, schedule="sleep"))
    assert (await taken(store)).task_id == T1
    await refused(LeaseLost, append(store, T1, 1, last, token=lease.token, schedule="sleep"))


async def s30_no_lost_wake_up(store: Store, clock: ManualClock) -> None:
    """An outsider's append makes the holder's sleep and park conflict, and its wake frees nobody's lease."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    lease = await taken(store)
    await append(store, T1, 1, author.note(), schedule="wake")
    assert await store.lease("node-2", 10) is None
    await refused(Conflict, append(store, T1, 1, author.note(), token=lease.token, schedule="sleep"))
    await refused(Conflict, store.park(lease, 1, due=None))
    await append(store, T1, 2, author.note(), token=lease.token)
    await store.park(lease, 3, due=None)
    assert await store.lease("node-2", 10) is None


async def s31_bare_wake(store: Store, clock: ManualClock) -> None:
    """A wake of a held task leaves it held and makes it due, once, as its holder parks or sleeps, and both say so."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    lease = await taken(store)
    await store.wake(T1)
    assert await store.lease("node-2", 10) is None
    assert await store.park(lease, 1, due=None)
    lease = await taken(store)
    await store.wake(T1)
    told: list[int] = []
    await append(store, T1, 1, author.note(), token=lease.token, schedule="sleep", woke=lambda: told.append(1))
    assert told == [1]
    assert not await store.park(await taken(store), 2, due=None)
    assert await store.lease("node-2", 10) is None
    await store.wake(T1)
    lease = await taken(store)
    await append(store, T1, 2, author.note(), token=lease.token, schedule="sleep", woke=lambda: told.append(2))
    assert told == [1]
    await store.wake(T1)
    assert (await taken(store)).task_id == T1
    await store.wake(TaskId("unknown"))


async def s32_outsiders_sleep(store: Store, clock: ManualClock) -> None:
    """An append with "sleep" and without a token puts an idle task to sleep, but takes the lease from nobody."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    lease = await taken(store, lease_s=10)
    await append(store, T1, 1, author.note(), schedule="sleep")
    await store.renew(lease, 10)
    clock.advance(10)
    lease = await taken(store)
    await store.park(lease, 2, due=clock.now())
    await append(store, T1, 2, author.note(), schedule="sleep")
    assert await store.lease("node-1", 10) is None


async def s33_park_until(store: Store, clock: ManualClock) -> None:
    """A parked task is nobody's and falls due at its time, or before by a wake."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    lease = await taken(store)
    due = clock.advance(0.000001)
    clock.advance(-0.000001)
    await store.park(lease, 1, due=due)
    await refused(LeaseLost, store.renew(lease, 10))
    assert await store.lease("node-1", 10) is None
    assert await store.next_due() == due
    clock.advance(0.000001)
    lease = await taken(store)
    await store.park(lease, 1, due=clock.advance(100))
    clock.advance(-100)
    await store.wake(T1)
    assert (await taken(store)).task_id == T1


async def s34_wait_for_computer(store: Store, clock: ManualClock) -> None:
    """Tasks that parked for a computer are woken when it comes back, and those for another one are not."""
    author = Author(clock)
    for task_id, computer in ((T1, C3), (T2, C3), (TaskId("t3"), C8)):
        await store.create(task_id, [author.submitted()])
        await store.park(await taken(store), 1, due=None, waiting_for=computer)
    assert await store.wake_waiting([C3]) == 2
    assert {(await taken(store)).task_id, (await taken(store)).task_id} == {T1, T2}
    assert await store.lease("node-1", 10) is None
    assert await store.wake_waiting([C3]) == 0


async def s35_comes_back_before_park(store: Store, clock: ManualClock) -> None:
    """A computer that comes back after its task looked and before it parked still wakes it."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    lease = await taken(store)
    assert await store.wake_waiting([C3]) == 0
    await store.park(lease, 1, due=None, waiting_for=C3)
    lease = await taken(store)
    await store.park(lease, 1, due=None, waiting_for=C3)
    assert await store.lease("node-1", 10) is None


async def s107_wait_for_several_computers(store: Store, clock: ManualClock) -> None:
    """One transaction wakes all that parked for many computers and, where that is asked, those that claimed them."""
    author, c9 = Author(clock), ComputerId("9")
    for task_id, computer in ((T1, C3), (T2, C8), (TaskId("t3"), c9)):
        await store.create(task_id, [author.submitted()])
        lease = await taken(store)
        assert await store.claim(lease, [computer]) is None
        await store.park(lease, 1, due=None, waiting_for=None if computer == c9 else computer)
    assert await store.wake_waiting([]) == 0
    assert await store.lease("node-1", 10) is None
    assert await store.wake_waiting([C8, c9, C3]) == 2
    assert {(await taken(store)).task_id, (await taken(store)).task_id} == {T1, T2}
    assert await store.lease("node-1", 10) is None
    assert await store.wake_waiting([c9, C3], claimants=True) == 1, "a held task is not parked"
    assert (await taken(store)).task_id == "t3"


async def s108_computers_that_are_waited_for(store: Store, clock: ManualClock) -> None:
    """Each is told once, and not for the sake of a task that only waits until another one gives it back."""
    author = Author(clock)
    one, two, three = [await _held(store, author, name) for name in ("t1", "t2", "t3")]
    assert await store.waited_for() == []
    assert await store.claim(one, [C3]) is None
    assert await store.claim(two, [C3]) == C3
    await store.park(two, 1, due=None, waiting_for=C3)
    assert await store.waited_for() == [], "its claimant is at work"
    await store.park(three, 1, due=None, waiting_for=C8)
    await store.park(one, 1, due=None, waiting_for=C3)
    assert await store.waited_for() == [C3, C8]
    await store.wake_waiting([C3, C8])
    assert await store.waited_for() == []


async def _held(store: Store, author: Author, name: str) -> Lease:
    await store.create(TaskId(name), [author.submitted()])
    return await taken(store)


async def s36_claims(store: Store, clock: ManualClock) -> None:
    """A task claims all its computers or none, is told one that another has, and may claim again what it has."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    await store.create(T2, [author.submitted()])
    one, two = await taken(store), await taken(store)
    assert await store.claim(one, [C8, C3]) is None
    assert await store.claim(one, [C3]) is None
    assert await store.claim(two, [ComputerId("9"), C8]) == C8
    assert await store.claimant(ComputerId("9")) is None
    assert await store.claimant(C3) == one.task_id
    assert not await store.park(one, 1, due=clock.now(), keep=[C8])
    assert await store.claimant(C3) is None
    assert await store.claim(two, [C8, C3]) == C8
    assert await store.claim(two, [C3]) is None
    assert await store.claim(two, []) is None
    assert await store.claimant(C8) == one.task_id
    assert not await store.park(two, 1, due=None, keep=())
    assert await store.claimant(C8) == one.task_id
    assert (one := await taken(store)).task_id == T1
    assert not await store.park(one, 1, due=None)
    assert await store.claimant(C8) == T1


async def s37_release_wakes(store: Store, clock: ManualClock) -> None:
    """Giving a computer back with the lease wakes the tasks that parked for it, and a blocked holder about to."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    one = await taken(store)
    await store.claim(one, [C3, C8])
    await store.create(T2, [author.submitted()])
    two = await taken(store)
    assert await store.claim(two, [C3]) == C3
    await store.park(two, 1, due=None, waiting_for=C3)
    await refused(Conflict, store.park(one, 2, due=None, keep=()))
    assert await store.claimant(C8) == T1, "all of it or nothing"
    assert not await store.park(one, 1, due=None, keep=[C3])
    assert await store.lease("node-2", 10) is None
    await store.wake(T1)
    assert await store.park(await taken(store), 1, due=None, keep=())
    two = await taken(store)
    await store.wake(T1)
    one = await taken(store)
    await store.claim(one, [C3])
    assert await store.claim(two, [C3]) == C3
    assert not await store.park(one, 1, due=None, keep=()), "it is held"
    await store.park(two, 1, due=None, waiting_for=C3)
    two = await taken(store)
    assert await store.claim(two, [C3]) is None
    assert not await store.park(two, 1, due=None, waiting_for=C3, keep=())
    assert await store.lease("node-2", 10) is None, "it does not wake itself"


async def s38_claims_outlive_leases(store: Store, clock: ManualClock) -> None:
    """A claim belongs to the task: it outlives the lease and the task's end, until it is given back."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    lease = await taken(store)
    await store.claim(lease, [C3])
    ended = author.ended()
    await append(store, T1, 1, ended, status=TaskStatus.CANCELED, token=lease.token, schedule="sleep")
    assert await store.claimant(C3) == T1
    await refused(LeaseLost, store.park(lease, 2, due=None, keep=()))
    assert await store.claimant(C3) == T1
    await store.wake(T1)
    await store.park(await taken(store), 2, due=None, keep=())
    assert await store.claimant(C3) is None


async def s39_ended_tasks(store: Store, clock: ManualClock) -> None:
    """A task that ended asleep is never leased, until something wakes it to settle its open calls."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    lease = await taken(store)
    ended = author.ended()
    await append(store, T1, 1, ended, status=TaskStatus.CANCELED, token=lease.token, schedule="sleep")
    clock.advance(10**6)
    assert await store.lease("node-1", 10) is None
    await append(store, T1, 2, author.note(), status=TaskStatus.CANCELED, schedule="wake")
    await store.park(await taken(store), 3, due=None)
    assert await store.lease("node-1", 10) is None
    await store.wake(T1)
    assert (await taken(store)).task_id == T1


async def s40_next_due(store: Store, clock: ManualClock) -> None:
    """The next time at which something can be leased: the past for what is due, None when nothing is scheduled."""
    author = Author(clock)
    assert await store.next_due() is None
    created = clock.now()
    await store.create(T1, [author.submitted()])
    await store.create(T2, [author.submitted()])
    clock.advance(5)
    assert await store.next_due() == created
    one, two = await taken(store, lease_s=10), await taken(store, lease_s=100)
    assert await store.next_due() is None
    clock.advance(10)
    assert await store.next_due() == created
    await store.park(one, 1, due=clock.advance(50))
    assert await store.next_due() == clock.now()
    await store.park(two, 1, due=None)
    assert await store.next_due() == clock.now()


async def s43_claims_with_an_append(store: Store, clock: ManualClock) -> None:
    """A holder's append claims and gives back in its own transaction, or is refused whole."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    await store.create(T2, [author.submitted()])
    one, two = await taken(store), await taken(store)
    await append(store, T1, 1, author.note(), token=one.token, claim=[C8, C3])
    assert [await store.claimant(computer) for computer in (C3, C8)] == [one.task_id, one.task_id]
    await refused(ComputerClaimed, append(store, T2, 1, author.note(), token=two.token, claim=[C8]))
    assert len(await store.read(T2)) == 1
    await refused(Conflict, append(store, T2, 7, author.note(), token=two.token, claim=[ComputerId("9")]))
    assert await store.claimant(ComputerId("9")) is None
    assert await store.claim(two, [C3]) == C3
    await append(store, T1, 2, author.note(), claim=[], release=True)
    assert await store.claimant(C3) == T1, "without a token nothing is given back"
    await store.park(two, 1, due=None, waiting_for=C3)
    told: list[int] = []
    await append(store, T1, 3, author.note(), token=one.token, release=True, woke=lambda: told.append(1))
    assert told == [1]
    assert [await store.claimant(computer) for computer in (C3, C8)] == [None, None]
    assert (await taken(store)).task_id == T2, "who waited for it was woken"
    await append(store, T1, 4, author.note(), token=one.token, claim=[C3])
    await append(store, T1, 5, author.note(), token=one.token, release=True, woke=lambda: told.append(2))
    assert told == [1], "nobody waited for it"
    stale = Lease(T1, Token(one.token - 1))
    await refused(LeaseLost, append(store, T1, 6, author.note(), token=stale.token, claim=[C3]))
    assert await store.claimant(C3) is None


async def s91_left_to_others(store: Store, clock: ManualClock) -> None:
    """A task that a holder passes by is due as it was, and another takes it.

    A holder that leaves it out neither gets nor awaits it.
    """
    author = Author(clock)
    ids = [TaskId(f"t{number}") for number in range(4)]
    for task_id in ids:
        await store.create(task_id, [author.submitted()])
        clock.advance(1)
    created = await store.next_due()
    passed = await taken(store)
    assert passed.task_id == ids[0]
    await store.pass_by(passed)
    await refused(LeaseLost, store.pass_by(passed))
    await refused(LeaseLost, append(store, ids[0], 1, author.note(), token=passed.token))
    assert await store.next_due() == created, "it keeps its place"
    second = await store.lease("node-1", 10, but=[ids[0]])
    assert second is not None
    assert second.task_id == ids[1]
    assert await store.lease("node-1", 10, but=[ids[0], ids[2], ids[3]]) is None
    assert await store.next_due(but=[ids[0], ids[2], ids[3]]) is None
    assert await store.next_due(but=[ids[3]]) == created
    other = await store.lease("node-2", 10)
    assert other is not None
    assert other.task_id == ids[0]
    assert other.token > passed.token


async def _filled(store: Store, clock: ManualClock, **counts: int) -> None:
    """Due tasks of some users, each user's all at once, one user after the other."""
    author = Author(clock)
    for user, count in counts.items():
        for number in range(count):
            await store.create(TaskId(f"{user}-{number:03}"), [author.submitted(user=user)])
            clock.advance(1)


async def _served(store: Store, count: int, turns: Turns) -> list[str]:
    """The users of the next leases, in their order; each is given back, and its task is due no more."""
    users = []
    for _ in range(count):
        lease = await store.lease("node-1", 10, turns=turns)
        users.append("" if lease is None else lease.task_id.partition("-")[0])
        if lease is not None:
            await store.park(lease, 1, due=None)
    return users


async def s95_users_take_turns(store: Store, clock: ManualClock) -> None:
    """A hundred tasks of one user do not hold up the one of another, who is next; nor does their priority."""
    await _filled(store, clock, ann=100, bob=2)
    author = Author(clock)
    await store.create(TaskId("ann-urgent"), [author.submitted(user="ann", priority=9)])
    assert await _served(store, 6, ANYBODY) == ["bob", "ann", "ann", "bob", "ann", "ann"]
    await _filled(store, clock, zoe=1)
    assert await _served(store, 2, ANYBODY) == ["zoe", "ann"], "who was idle waits for one turn and saves up none"


async def s96_turns_by_weight(store: Store, clock: ManualClock) -> None:
    """A user with the weight 3 has three turns for each of another."""
    await _filled(store, clock, ann=20, bob=20)
    served = await _served(store, 16, Turns(weights={"ann": 3.0}))
    assert (served.count("ann"), served.count("bob")) == (12, 4)
    assert "bob" in served[:4]


async def s97_so_many_at_once(store: Store, clock: ManualClock) -> None:
    """No more tasks of a user are held than the rule says, on all nodes; one whose lease is over does not count."""
    await _filled(store, clock, ann=5, bob=5)
    rule = Turns(at_once={"ann": 1, "bob": 2})
    leases = await asyncio.gather(*(store.lease(f"node-{number}", 10, turns=rule) for number in range(12)))
    held = sorted(lease.task_id.partition("-")[0] for lease in leases if lease is not None)
    assert (held.count("ann") <= 1, held.count("bob") <= 2) == (True, True)
    while (lease := await store.lease("node-1", 10, turns=rule)) is not None:
        held.append(lease.task_id.partition("-")[0])
    assert sorted(held) == ["ann", "bob", "bob"]
    clock.advance(10)
    again = await store.lease("node-1", 10, turns=rule)
    assert again is not None


async def s98_frozen_users(store: Store, clock: ManualClock) -> None:
    """Nobody gets or awaits a task of a frozen user; it is due as it was when they are free."""
    await _filled(store, clock, ann=1, bob=1)
    frozen = Turns(frozen=("ann",))
    assert await _served(store, 2, frozen) == ["bob", ""]
    assert await store.next_due(frozen=("ann",)) is None
    assert await store.next_due() is not None
    assert await _served(store, 1, ANYBODY) == ["ann"]


async def _due(store: Store, clock: ManualClock, *tasks: tuple[str, int, tuple[ComputerId, ...]]) -> None:
    """Tasks with a name, a priority and computers; each falls due a moment after the one before it."""
    author = Author(clock)
    for name, priority, computers in tasks:
        await store.create(TaskId(name), [author.submitted(priority=priority, computers=computers, user=name[0])])
        clock.advance(0.001)


async def _taken_near(store: Store) -> list[str]:
    """The tasks that a node with the computer C8 takes now, in their order."""
    names = []
    while (lease := await store.lease("node-1", 60, here=C8.__eq__)) is not None:
        names.append(str(lease.task_id))
    return names


async def s118_near_tasks_first(store: Store, clock: ManualClock) -> None:
    """Tasks with a computer here, or without any, go first; the others are left to other nodes for a moment."""
    await _due(store, clock, ("a1", 0, (C3,)), ("a2", 0, ()), ("a3", 0, (C3,)), ("a4", 0, (C3, C8)))
    assert await _taken_near(store) == ["a2", "a4"]
    assert await store.next_due() is not None
    clock.advance(FAR_S - 0.004)
    assert await _taken_near(store) == ["a1"]
    clock.advance(0.002)
    assert await _taken_near(store) == ["a3"]
    await _due(store, clock, ("a5", 0, (C3,)), ("a6", 0, (C8,)))
    assert (await taken(store)).task_id == "a5", "to a node that does not say, it makes no difference"


async def s119_near_tasks_do_not_overtake_all(store: Store, clock: ManualClock) -> None:
    """None of a higher priority, and none that fell due long before; a task that many overtake has its turn."""
    await _due(store, clock, ("a1", 1, (C3,)), ("a2", 0, (C8,)))
    assert await _taken_near(store) == []
    clock.advance(FAR_S)
    assert await _taken_near(store) == ["a1", "a2"]
    await _due(store, clock, ("a3", 0, (C3,)))
    clock.advance(OVERTAKEN_S)
    await _due(store, clock, ("a4", 0, (C8,)))
    assert await _taken_near(store) == ["a3", "a4"]
    await _due(store, clock, ("a5", 0, (C3,)))
    clock.advance(OVERTAKEN_S - 0.001)
    await _due(store, clock, ("a6", 0, (C8,)))
    assert await _taken_near(store) == ["a6", "a5"]
    await _due(store, clock, ("a7", 0, (C8,)))
    clock.advance(FAR_S)
    await _due(store, clock, ("a8", 1, (C3,)))
    assert await _taken_near(store) == ["a8", "a7"], "those that come one after the other would keep a7 waiting"


async def s120_users_with_far_tasks(store: Store, clock: ManualClock) -> None:
    """A user whose tasks are left to other nodes holds up nobody, and has not had a turn by that."""
    await _due(store, clock, ("a1", 0, (C3,)), ("b1", 0, (C8,)), ("b2", 0, (C8,)))
    assert (await _taken_near(store))[0] == "b1"
    clock.advance(FAR_S)
    await _due(store, clock, ("b3", 0, (C8,)))
    assert await _taken_near(store) == ["a1", "b3"]
