"""The contracts of computers: S63 to S69, S90, S93, S109, S114 to S116: heard, welcome, freezing, release, seats."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

from orchestrator.core.audit.tables import token_fingerprint
from orchestrator.core.errors import Conflict, InvalidRequest, LeaseLost
from orchestrator.core.ports import SYSTEM_STREAM, Coming, Lease, SeatRow, SignInRow, Store, Token, TokenRow
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import Draft, verify_chain
from orchestrator.core.task.system_facts import (
    ComputerFrozen,
    ComputerLabelled,
    ComputerReleased,
    ComputerSide,
    ComputerWelcomed,
    NodeStopped,
    SignedIn,
    SignedOut,
)
from orchestrator.core.values import to_us
from orchestrator.core.wire.identity import ComputerRecord, Heard
from orchestrator.core.wire.wire import ComputerId
from orchestrator.testing.drafts import COMPUTER, Author, ManualClock, refused, taken

# -- The contracts of who is signed in: S80 to S83 ---------------------------------------

SYSTEM = TaskId(SYSTEM_STREAM)


def sign_in(session_hash: str, at: datetime, name: str = "alice", token_hash: str = "h1") -> SignInRow:
    """A sign-in that was not used since it began."""
    return SignInRow(session_hash, token_hash, name, at, at)


async def s80_sign_ins(store: Store, clock: ManualClock) -> None:
    """A sign-in is found by its hash until it is ended, which happens once; a hash is kept once, and noted."""
    author = Author(clock)
    row = sign_in("s1", clock.now())
    assert await store.find_sign_in("s1") is None
    assert await store.add_sign_in(row, most=5, note=author.draft(SignedIn(name="alice", peer="::1"))) == []
    await refused(Conflict, store.add_sign_in(row, most=5, note=author.draft(SignedIn(name="alice"))))
    other = sign_in("s2", clock.advance(1), "bob", "h2")
    for note in (author.draft(NodeStopped()), author.draft(SignedIn(name="\ud800"))):
        await refused(InvalidRequest, store.add_sign_in(other, most=5, note=note))
    assert await store.find_sign_in("s2") is None
    await store.add_sign_in(other, most=5, note=author.draft(SignedIn(name="bob")))
    assert await store.find_sign_in("s1") == row
    assert await store.list_sign_ins() == [row, other]
    assert await store.end_sign_in("s1", note=author.draft(SignedOut(name="alice")))
    assert not await store.end_sign_in("s1", note=author.draft(SignedOut(name="alice")))
    assert await store.end_sign_in("s2")
    assert await store.list_sign_ins() == []
    items = await store.read(SYSTEM)
    assert verify_chain(items) is None
    first, second = token_fingerprint("s1"), token_fingerprint("s2")
    assert [item.fact for item in items] == [
        SignedIn(name="alice", peer="::1", fingerprint=first, bound_to=token_fingerprint("h1")),
        SignedIn(name="bob", fingerprint=second, bound_to=token_fingerprint("h2")),
        SignedOut(name="alice", fingerprint=first),
    ]


async def s81_the_oldest_sign_ins_make_room(store: Store, clock: ManualClock) -> None:
    """At most so many are kept of one person; those that began first go, however they were used, and are named."""
    author = Author(clock)
    rows = []
    for number in range(5):
        rows.append(sign_in(f"s{9 - number}", clock.advance(1)))
        gone = await store.add_sign_in(rows[-1], most=3, note=author.draft(SignedIn(name="alice")))
        made_room = rows[number - 3 : number - 2] if number >= 3 else []
        assert [one.session_hash for one in gone] == [one.session_hash for one in made_room]
        await store.use_sign_in("s9", clock.now())
        await store.add_sign_in(
            sign_in(f"b{number}", clock.now(), "bob"), most=9, note=author.draft(SignedIn(name="bob"))
        )
    assert [row for row in await store.list_sign_ins() if row.name == "alice"] == rows[2:]
    bobs = [row for row in await store.list_sign_ins() if row.name == "bob"]
    last = sign_in("b9", clock.advance(1), "bob")
    assert await store.add_sign_in(last, most=1, note=author.draft(SignedIn(name="bob"))) == bobs
    *_, item = await store.read(SYSTEM)
    assert isinstance(item.fact, SignedIn)
    assert item.fact.replaced == tuple(token_fingerprint(row.session_hash) for row in bobs)


async def s82_use_moves_forward(store: Store, clock: ManualClock) -> None:
    """The latest use stays, also where a clock goes back; a use does not make a record that is not there."""
    author = Author(clock)
    row = sign_in("s1", clock.now())
    await store.add_sign_in(row, most=5, note=author.draft(SignedIn(name="alice")))
    later = clock.advance(60)
    await store.use_sign_in("s1", later)
    await store.use_sign_in("s1", row.begun_at)
    await store.use_sign_in("s9", later)
    assert await store.list_sign_ins() == [replace(row, used_at=later)]


async def s83_what_is_over_is_forgotten(store: Store, clock: ManualClock) -> None:
    """Records that began or were last used at the given times or before go, and nothing else.

    Tokens do not touch it.
    """
    author = Author(clock)
    start = clock.now()
    await store.add_token(TokenRow("h1", "person", "alice"))
    for name in ("old", "used", "new"):
        await store.add_sign_in(sign_in(name, clock.now()), most=5, note=author.draft(SignedIn(name="alice")))
        clock.advance(10)
    await store.use_sign_in("used", clock.now())
    ever = start - timedelta(days=1)
    assert await store.forget_sign_ins(begun=ever, used=ever) == 0
    assert await store.forget_sign_ins(begun=start, used=ever) == 1
    assert await store.forget_sign_ins(begun=ever, used=start + timedelta(seconds=20)) == 1
    assert [row.session_hash for row in await store.list_sign_ins()] == ["used"]
    await store.revoke_tokens("person", "alice")
    assert await store.find_sign_in("used") is not None
    (kept,) = await store.kept_rows("sign_ins")
    began = to_us(start) + 10_000_000
    assert kept == {
        **{"session_hash": "used", "token_hash": "h1", "name": "alice"},
        **{"begun_at": began, "used_at": began + 20_000_000},
    }


# -- The contracts of computers: S63 to S69 and S90, S93, what is heard, who came last, freezing, release,
# revocation

T1 = TaskId("t1")


def side(clock: ManualClock, computer_id: int = 3) -> ComputerSide:
    """A computer as it introduces itself."""
    return ComputerSide(computer_id=computer_id, boot=f"boot-{computer_id}", at=clock.now(), peer="127.0.0.1")


def frozen(author: Author, at: ManualClock, *, highest: int = 0) -> Draft:
    """A note that freezes the computer of the drafts."""
    facts = {"heard": 5, "found_seq": 2, "highest": highest}
    return author.draft(ComputerFrozen(computer=COMPUTER, reason="disk_restored", facts=facts, sides=(side(at),)))


def released(author: Author) -> Draft:
    """A note that releases it."""
    return author.draft(ComputerReleased(computer=COMPUTER, by="alice"))


async def s63_what_is_heard_only_rises(store: Store, clock: ManualClock) -> None:
    """A number may come with what was heard; the highest is kept, with the number and without one."""
    del clock
    assert await store.computer(COMPUTER) == ComputerRecord(COMPUTER)
    assert await store.list_computers() == []
    assert await store.allot_number(COMPUTER, heard=Heard(7)) == 1
    assert await store.allot_number(COMPUTER, heard=Heard(3)) == 2
    assert (await store.computer(COMPUTER)).heard == 7
    await store.hear_computer(COMPUTER, Heard(9))
    await store.hear_computer(COMPUTER, Heard(8))
    assert await store.computer(COMPUTER) == ComputerRecord(COMPUTER, number=2, heard=9)
    await store.allot_number(ComputerId("12"))
    assert [one.computer for one in await store.list_computers()] == ["12", COMPUTER]


async def s64_a_welcome_keeps_who_came(store: Store, clock: ManualClock) -> None:
    """A welcome allots a number not below what was asked for, and keeps side and token; the rest as it says."""
    first = Coming(side(clock), token="h1", at_least=41)
    assert await store.welcome_computer(COMPUTER, first) == 41
    record = ComputerRecord(COMPUTER, number=41, known=first.side, token="h1")
    assert await store.computer(COMPUTER) == record
    assert await store.welcome_computer(COMPUTER, replace(first, at_least=3, heard=Heard(6, "boot-3"))) == 42
    assert await store.computer(COMPUTER) == replace(record, number=42, heard=6)
    assert await store.welcome_computer(COMPUTER, replace(first, heard=Heard(2, "boot-3"), doubt=True)) == 43
    assert await store.computer(COMPUTER) == replace(record, number=43, heard=6, doubtful_below=43)
    other = Coming(side(clock, 4), token="h2", heard=Heard(5, "boot-3"), fresh=True)
    assert await store.welcome_computer(COMPUTER, other) == 44
    after = ComputerRecord(COMPUTER, number=44, doubtful_below=43, known=other.side, token="h2")
    assert await store.computer(COMPUTER) == after


async def s65_a_frozen_computer_is_not_welcome(store: Store, clock: ManualClock) -> None:
    """It is frozen once, with a note; no welcome and nothing heard changes it, and numbers go on."""
    author = Author(clock)
    coming = Coming(side(clock), token="h1", heard=Heard(5))
    await store.welcome_computer(COMPUTER, coming)
    note = frozen(author, clock)
    assert await store.freeze_computer(note)
    assert not await store.freeze_computer(frozen(author, clock))
    before = await store.computer(COMPUTER)
    assert (before.frozen, before.frozen_at) == (note.fact, clock.now())
    clock.advance(60)
    assert await store.welcome_computer(COMPUTER, coming) is None
    await store.hear_computer(COMPUTER, Heard(99, "boot-3"))
    assert await store.computer(COMPUTER) == before
    assert await store.allot_number(COMPUTER) == 2
    (item,) = await store.read(TaskId(SYSTEM_STREAM))
    assert (item.item_id, item.fact) == (note.item_id, note.fact)


async def s66_a_release_raises_the_number(store: Store, clock: ManualClock) -> None:
    """A release allots a number above all that was seen, notes it, and puts in doubt what is below it."""
    author = Author(clock)
    assert not await store.release_computer(released(author))
    assert await store.read(TaskId(SYSTEM_STREAM)) == []
    coming = Coming(side(clock), heard=Heard(5))
    await store.welcome_computer(COMPUTER, coming)
    await store.freeze_computer(frozen(author, clock, highest=70))
    note = released(author)
    assert await store.release_computer(note)
    assert not await store.release_computer(released(author))
    record = await store.computer(COMPUTER)
    assert (record.number, record.doubtful_below, record.frozen, record.frozen_at) == (71, 71, None, None)
    assert (record.released, record.known) == (True, coming.side)
    await store.hear_computer(COMPUTER, Heard(99, "boot-3"))
    assert await store.welcome_computer(COMPUTER, Coming(side(clock, 9), heard=Heard(2), fresh=True)) == 72
    record = await store.computer(COMPUTER)
    assert (record.released, record.heard, record.doubtful_below) == (False, 0, 71)
    items = await store.read(TaskId(SYSTEM_STREAM))
    assert verify_chain(items) is None
    assert items[1].item_id == note.item_id
    assert items[1].fact == ComputerReleased(computer=COMPUTER, by="alice", number=71)


async def s93_a_label_is_kept_beside_the_former_ones(store: Store, clock: ManualClock) -> None:
    """A new label is noted with all former ones, a known one changes nothing; a confirmed one is the only one."""
    author = Author(clock)

    def labelled(label: str, *former: str, by: str = "") -> Draft:
        return author.draft(ComputerLabelled(computer=COMPUTER, label=label, former_labels=former, by=by))

    assert not await store.label_computer(labelled("farm"))
    await store.welcome_computer(COMPUTER, Coming(side(clock).model_copy(update={"label": "farm"})))
    note = labelled("house", "reactor")
    assert await store.label_computer(note)
    assert not await store.label_computer(labelled("reactor", "farm"))
    known = (await store.computer(COMPUTER)).known
    assert known is not None
    assert (known.label, known.former_labels, known.boot) == ("house", ("farm", "reactor"), "boot-3")
    await refused(InvalidRequest, store.label_computer(author.draft(NodeStopped())))
    assert await store.label_computer(labelled("house", by="alice"))
    assert not await store.label_computer(labelled("house", by="alice"))
    known = (await store.computer(COMPUTER)).known
    assert known is not None
    assert (known.label, known.former_labels) == ("house", ())
    items = await store.read(TaskId(SYSTEM_STREAM))
    assert verify_chain(items) is None
    assert [item.fact for item in items] == [
        ComputerLabelled(computer=COMPUTER, label="house", former_labels=("farm", "reactor")),
        ComputerLabelled(computer=COMPUTER, label="house", by="alice"),
    ]


async def s67_only_their_own_facts_freeze_and_release(store: Store, clock: ManualClock) -> None:
    """Another note freezes and releases nothing; a computer that nobody met can be frozen."""
    author = Author(clock)
    other = author.draft(NodeStopped())
    await refused(InvalidRequest, store.freeze_computer(other))
    await refused(InvalidRequest, store.release_computer(other))
    assert await store.list_computers() == []
    assert await store.freeze_computer(frozen(author, clock))
    assert (await store.computer(COMPUTER)).frozen is not None
    assert await store.release_computer(released(author))
    assert (await store.computer(COMPUTER)).number == 1


async def s68_a_frozen_computer_keeps_its_claim(store: Store, clock: ManualClock) -> None:
    """Claims, leases and what waits for a computer are not touched by freezing and release."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    lease = await taken(store)
    assert await store.claim(lease, [COMPUTER]) is None
    await store.freeze_computer(frozen(author, clock))
    await store.park(lease, 1, due=None, waiting_for=COMPUTER)
    await store.release_computer(released(author))
    assert await store.claimant(COMPUTER) == T1
    assert await store.lease("node-2", 10) is None
    assert await store.wake_waiting([COMPUTER]) == 1
    stale = Lease(T1, Token(lease.token))
    await refused(LeaseLost, store.allot_number(COMPUTER, lease=stale, heard=Heard(50)))
    assert (await store.computer(COMPUTER)).heard == 0


async def s69_revoked_tokens_are_counted(store: Store, clock: ManualClock) -> None:
    """The count rises with each token that is revoked, and with nothing else."""
    del clock
    for number in range(3):
        await store.add_token(TokenRow(f"h{number}", "computer", f"pc{number % 2}"))
    assert await store.count_revoked() == 0
    assert await store.revoke_tokens("computer", "pc0") == 2
    assert await store.revoke_tokens("computer", "pc0") == 0
    assert await store.count_revoked() == 2


async def s109_many_come_at_once(store: Store, clock: ManualClock) -> None:
    """Each is told its own number, a frozen one none, and each welcome is one item; done again, it answers the same."""
    author = Author(clock)
    names = [ComputerId(f"c{number}") for number in range(40)]
    fact = ComputerFrozen(computer=names[7], reason="two_computers")
    await store.freeze_computer(author.draft(fact))
    notes = {name: author.draft(ComputerWelcomed(computer=name, side=side(clock))) for name in names}

    async def welcomed(name: ComputerId) -> int | None:
        coming = Coming(side(clock), at_least=100 + int(name[1:]))
        return await store.welcome_computer(name, coming, note=notes[name])

    wanted = [None if number == 7 else 100 + number for number in range(40)]
    assert list(await asyncio.gather(*map(welcomed, names))) == wanted
    assert list(await asyncio.gather(*map(welcomed, names))) == wanted
    await refused(InvalidRequest, store.welcome_computer(names[0], Coming(side(clock)), note=author.draft(fact)))
    await asyncio.gather(*(store.hear_computer(name, Heard(int(name[1:]), "boot-3")) for name in names))
    heard = {one.computer: one.heard for one in await store.list_computers()}
    assert heard == {name: 0 if name == names[7] else int(name[1:]) for name in names}
    facts = [item.fact for item in await store.read(TaskId(SYSTEM_STREAM))]
    told = [(one.computer, one.number) for one in facts if isinstance(one, ComputerWelcomed)]
    assert sorted(told) == sorted((name, number) for name, number in zip(names, wanted, strict=True) if number)
    assert len(facts) == 40


# -- S114 to S116: which node has a computer


async def s114_a_welcome_keeps_the_seat(store: Store, clock: ManualClock) -> None:
    """Seat and number are kept together, those of the last welcome; one without a node, or refused, leaves them."""
    author = Author(clock)
    assert await store.seats([COMPUTER]) == []
    coming = Coming(side(clock), node="a-1", said="first")
    number = await store.welcome_computer(COMPUTER, coming)
    assert number == 1
    assert await store.seats([COMPUTER, ComputerId("12")]) == [SeatRow(COMPUTER, "a-1", 1, "first", known=coming.side)]
    await store.welcome_computer(COMPUTER, replace(coming, node="b-1", said="second"))
    await store.label_computer(author.draft(ComputerLabelled(computer=COMPUTER, label="farm")))
    labelled = (await store.computer(COMPUTER)).known
    assert labelled is not None
    seat = SeatRow(COMPUTER, "b-1", 2, "second", known=labelled)
    assert await store.seats([COMPUTER]) == [seat]
    await store.welcome_computer(COMPUTER, Coming(labelled))
    assert await store.seats([COMPUTER]) == [seat]
    await store.freeze_computer(frozen(author, clock))
    assert await store.welcome_computer(COMPUTER, replace(coming, node="c-1")) is None
    assert await store.seats([COMPUTER]) == [seat]


async def s115_a_late_farewell_changes_no_later_seat(store: Store, clock: ManualClock) -> None:
    """A seat is changed only under its node and number; one that was left is found, but not at its node."""
    coming = Coming(side(clock), node="a-1", said="first")
    for node in ("a-1", "a-1", "b-1"):
        await store.welcome_computer(COMPUTER, replace(coming, node=node))
    seat = SeatRow(COMPUTER, "b-1", 3, "first", known=coming.side)
    gone = clock.advance(5)
    for node, number in (("a-1", 1), ("a-1", 2), ("b-1", 2), ("a-1", 3), ("c-1", 4)):
        await store.keep_seats([SeatRow(COMPUTER, node, number, "late", gone)])
    await store.keep_seats([SeatRow(ComputerId("12"), "b-1", 3, "nobody", gone)])
    assert await store.seats([COMPUTER, ComputerId("12")]) == [seat]
    changed = replace(seat, said="changed")
    await store.keep_seats([changed])
    assert await store.seats_at("b-1") == [changed]
    left = replace(changed, left_at=gone)
    await store.keep_seats([left])
    assert await store.seats([COMPUTER]) == [left]
    assert await store.seats_at("b-1") == []
    assert await store.welcome_computer(COMPUTER, replace(coming, node="b-1")) == 4
    await store.keep_seats([left])
    assert await store.seats_at("b-1") == [replace(seat, number=4)]


async def s116_the_seats_of_a_node_come_in_pages(store: Store, clock: ManualClock) -> None:
    """By name, each once, only that node's; of hundreds that are asked for by name, all that there are."""
    names = [ComputerId(f"c{number:03}") for number in range(12)]
    for name in names:
        await store.welcome_computer(name, Coming(side(clock), node=f"n-{int(name[1:]) % 2}", said=name))
    found: list[str] = []
    while page := await store.seats_at("n-1", after=found[-1] if found else "", limit=4):
        assert len(page) <= 4
        found += [one.computer for one in page]
    assert found == names[1::2]
    many = [ComputerId(f"c{number:03}") for number in range(1100)]
    assert [one.said for one in await store.seats(many)] == names
    assert await store.seats([]) == []


async def s90_word_of_an_earlier_boot_counts_no_more(store: Store, clock: ManualClock) -> None:
    """Words of the boot that was welcomed last are kept; words of another may come late, and change nothing."""
    odd = ComputerSide(computer_id=3, boot='b_%!"\\é', label='"boot":"boot-3"', at=clock.now(), peer="127.0.0.1")
    assert await store.welcome_computer(COMPUTER, Coming(side(clock))) == 1
    await store.hear_computer(COMPUTER, Heard(50, "boot-3"))
    assert await store.welcome_computer(COMPUTER, Coming(odd, heard=Heard(60, "boot-4"), fresh=True)) == 2
    await store.hear_computer(COMPUTER, Heard(51, "boot-3"))
    await store.hear_computer(COMPUTER, Heard(51, 'bx%!"\\é'))
    assert await store.allot_number(COMPUTER, heard=Heard(52, "boot-3")) == 3
    assert (await store.computer(COMPUTER)).heard == 0
    await store.hear_computer(COMPUTER, Heard(4, odd.boot))
    assert await store.allot_number(COMPUTER, heard=Heard(5, odd.boot)) == 4
    assert (await store.computer(COMPUTER)).heard == 5
    assert await store.welcome_computer(COMPUTER, Coming(side(clock), heard=Heard(9, "boot-3"))) == 5
    assert (await store.computer(COMPUTER)).heard == 5
