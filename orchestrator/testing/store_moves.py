"""Contracts of `Store`: computers leave for another cell, and come in from one, with all that is theirs."""

from orchestrator.core.errors import Conflict, LeaseLost, NotFound
from orchestrator.core.ports import SYSTEM_STREAM, Coming, Store, TokenRow
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import Draft, verify_chain
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import ComputerFrozen, ComputersArrived, ComputerSide, ComputerWelcomed
from orchestrator.core.wire.identity import Heard
from orchestrator.core.wire.wire import ComputerId
from orchestrator.testing.drafts import COMPUTER, Author, ManualClock, append, refused, taken

T1 = TaskId("t1")
URL = "wss://west.example.org/computer"
TOKEN = TokenRow("a" * 64, "computer", COMPUTER, ("id:3", "owner:alice"))


async def s110_a_computer_leaves_whole(store: Store, clock: ManualClock) -> None:
    """Its token ends, it is frozen as moved, its tasks are out with their notes; asked again, it is the same move."""
    author = Author(clock)
    await _welcome(store, author)
    items = await store.create(T1, [author.submitted(), *author.proposed(), author.review("r1")])
    lease = await taken(store)
    await refused(NotFound, store.depart_computers([ComputerId("no-one")], "west", URL))
    left = await store.depart_computers([COMPUTER], "west", URL)
    assert (left.computers, left.tasks, left.staying) == ((COMPUTER,), (T1,), ())
    again = await store.depart_computers([COMPUTER], "west", URL)
    assert (again.bundle, again.computers) == (left.bundle, left.computers)
    assert (await store.find_token(TOKEN.token_hash) or TOKEN).revoked
    frozen = (await store.computer(COMPUTER)).frozen
    assert frozen is not None
    assert (frozen.reason, frozen.cell, frozen.url, frozen.bundle) == ("moved", "west", URL, left.bundle)
    assert await store.read(T1) == []
    assert await store.raised_by(["r1"]) == {}
    assert await store.pruned_at(T1) == clock.now()
    await refused(
        LeaseLost, store.append(T1, len(items), [author.note()], status=TaskStatus.RUNNING, token=lease.token)
    )
    await refused(Conflict, store.depart_computers([COMPUTER], "north", URL))
    assert await store.welcome_computer(COMPUTER, _coming(author), note=_note(author)) is None
    assert verify_chain(await store.read(TaskId(SYSTEM_STREAM))) is None
    # No sweep takes the bundle, whose only other copy is not made yet.
    clock.advance(7200)
    assert left.bundle not in await store.sweep_blobs([left.bundle], clock.now())
    assert await store.get_blob(left.bundle)


async def s111_it_comes_in_once(store: Store, clock: ManualClock) -> None:
    """With the same chain, numbers that go on, its token and its claim; a task that was held is due at once."""
    author = Author(clock)
    number = await _welcome(store, author)
    await store.create(T1, [author.submitted(), *author.proposed(), author.review("r1")])
    lease = await taken(store)
    assert await store.claim(lease, [COMPUTER]) is None
    items = await store.read(T1)
    left = await store.depart_computers([COMPUTER], "west", URL)
    bundle = await store.get_blob(left.bundle)
    came = await store.arrive_computers(bundle, "east")
    assert (came.cell, came.bundle, came.computers) == ("east", left.bundle, (COMPUTER,))
    assert came.tasks == {T1: len(items)}
    assert await store.arrive_computers(bundle, "east") == came
    assert await store.read(T1) == items
    assert await store.raised_by(["r1"]) == {"r1": T1}
    assert await store.pruned_at(T1) is None
    record = await store.computer(COMPUTER)
    assert (record.frozen, record.token, record.heard) == (None, TOKEN.token_hash, 40)
    assert record.known == came.welcomed[0].side
    found = await store.find_token(TOKEN.token_hash)
    assert found is not None
    assert (found.revoked, found.roles, found.owner) == (False, TOKEN.roles, "alice")
    assert await store.claimant(COMPUTER) == T1
    assert await store.allot_number(COMPUTER) > number
    assert (await taken(store)).task_id == T1
    told = await store.read(TaskId(SYSTEM_STREAM))
    assert [type(item.fact) for item in told if isinstance(item.fact, ComputerFrozen | ComputersArrived)] == [
        ComputerFrozen, ComputersArrived,
    ]  # fmt: skip
    assert verify_chain(told) is None
    await store.forget_departure(left.bundle)
    await refused(NotFound, store.get_blob(left.bundle))
    await store.forget_departure(left.bundle)


async def s112_a_name_that_is_taken_is_refused(store: Store, clock: ManualClock) -> None:
    """Nothing of the bundle is kept then, and it can come in once the name is free."""
    author = Author(clock)
    await _welcome(store, author)
    left = await store.depart_computers([COMPUTER], "west", URL)
    bundle = await store.get_blob(left.bundle)
    await store.add_token(TokenRow("b" * 64, "computer", COMPUTER))
    before = await store.read(TaskId(SYSTEM_STREAM))
    await refused(Conflict, store.arrive_computers(bundle, "east"))
    assert await store.read(TaskId(SYSTEM_STREAM)) == before
    await store.revoke_tokens("computer", COMPUTER)
    assert (await store.arrive_computers(bundle, "east")).computers == (COMPUTER,)


async def s113_grants_of_a_session_end_with_a_move(store: Store, clock: ManualClock) -> None:
    """Other tasks of the session may use them where they were given; one of the task alone goes on."""
    author = Author(clock)
    await _welcome(store, author)
    await store.create(T1, [author.submitted(), *author.proposed(), author.review("r1")])
    task_only = author.grant("g2").model_copy(update={"scope": "task"})
    session = author.grant("g1").model_copy(update={"scope": "session"})
    await append(store, T1, 5, author.decided(session, task_only))
    left = await store.depart_computers([COMPUTER], "west", URL)
    assert await store.list_grants() == []
    await store.arrive_computers(await store.get_blob(left.bundle), "east")
    assert {one.grant.grant_id: one.revoked for one in await store.list_grants()} == {"g1": True, "g2": False}


async def _welcome(store: Store, author: Author) -> int:
    """The computer, which is known and has a token; the number of its welcome."""
    await store.add_token(TOKEN)
    number = await store.welcome_computer(COMPUTER, _coming(author), note=_note(author))
    assert number is not None
    await store.hear_computer(COMPUTER, Heard(40, "b1"))
    return number


def _coming(author: Author) -> Coming:
    return Coming(side=_side(author), token=TOKEN.token_hash)


def _note(author: Author) -> Draft:
    return author.draft(ComputerWelcomed(computer=COMPUTER, side=_side(author)))


def _side(author: Author) -> ComputerSide:
    return ComputerSide(computer_id=3, boot="b1", at=author.note().at)
