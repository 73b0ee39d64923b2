"""The contracts of who is signed in: S80 to S83."""

from dataclasses import replace
from datetime import datetime, timedelta

from orchestrator.core.audit.tables import token_fingerprint
from orchestrator.core.errors import Conflict, InvalidRequest
from orchestrator.core.ports import SYSTEM_STREAM, SignInRow, Store, TokenRow
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import verify_chain
from orchestrator.core.task.system_facts import NodeStopped, SignedIn, SignedOut
from orchestrator.core.values import to_us
from orchestrator.testing.drafts import Author, ManualClock, refused

SYSTEM = TaskId(SYSTEM_STREAM)


def sign_in(session_hash: str, at: datetime, name: str = "alice", token_hash: str = "h1") -> SignInRow:
    """One that was not used since it began."""
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
    """Of one person so many are kept and no more; those that began first go, however they were used, and are named."""
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
    """The latest use stays, also where a clock goes back; what is not there is not made by a use."""
    author = Author(clock)
    row = sign_in("s1", clock.now())
    await store.add_sign_in(row, most=5, note=author.draft(SignedIn(name="alice")))
    later = clock.advance(60)
    await store.use_sign_in("s1", later)
    await store.use_sign_in("s1", row.begun_at)
    await store.use_sign_in("s9", later)
    assert await store.list_sign_ins() == [replace(row, used_at=later)]


async def s83_what_is_over_is_forgotten(store: Store, clock: ManualClock) -> None:
    """What began or was last used at the given times or before goes, and nothing else; tokens do not touch it."""
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
