"""The contracts of stores that outlive their process: S41, S42, S58, S70 and S84."""

from orchestrator.core.errors import GrantVoid, InvalidRequest
from orchestrator.core.ports import SYSTEM_STREAM, Coming, TokenRow
from orchestrator.core.task.facts import RequestId, TaskId
from orchestrator.core.task.items import verify_chain
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import (
    ComputerFrozen,
    ComputerReleased,
    GrantId,
    GrantRevoked,
    NodeStopped,
    SignedIn,
    SignedOut,
)
from orchestrator.core.wire.identity import Heard
from orchestrator.core.wire.wire import ComputerId
from orchestrator.testing import store_computers
from orchestrator.testing.drafts import COMPUTER, Author, ManualClock, OpenStore, append, refused, taken

T1 = TaskId("t1")


async def s41_request_after_restart(open_store: OpenStore, clock: ManualClock) -> None:
    """A paused task is found by its request's id through a fresh instance, and goes on from there."""
    author = Author(clock)
    store = open_store(clock)
    await store.create(T1, [author.submitted(), *author.proposed()])
    lease = await taken(store)
    review = author.review("r1")
    await append(store, T1, 4, review, status=TaskStatus.PAUSED, token=lease.token, schedule="sleep")
    before = await store.load(T1)
    await store.close()
    store = open_store(clock)
    assert await store.load_by_request_id(RequestId("r1")) == before
    assert await store.lease("node-1", 10) is None
    await append(store, T1, 5, author.ended(), status=TaskStatus.CANCELED, schedule="wake")
    assert (await taken(store)).token > lease.token
    await store.close()


async def s42_everything_is_kept(open_store: OpenStore, clock: ManualClock) -> None:
    """Items, rows, numbers, claims, blobs, tokens and what is scheduled are there after a restart."""
    author = Author(clock)
    store = open_store(clock)
    items = await store.create(T1, [author.submitted(), author.note()])
    lease = await taken(store)
    await store.claim(lease, [COMPUTER])
    await store.allot_number(COMPUTER, at_least=41)
    ref = await store.put_blob(b"large")
    token = TokenRow("h1", "person", "alice", ("admin",), clock.now())
    await store.add_token(token)
    due = clock.advance(60)
    await store.park(lease, 2, due=due)
    rows = await store.list_tasks()
    await store.close()
    store = open_store(clock)
    assert await store.read(T1) == items
    assert verify_chain(items) is None
    assert await store.list_tasks() == rows
    assert await store.claimant(COMPUTER) == T1
    assert await store.allot_number(COMPUTER) == 42
    assert await store.get_blob(ref.sha256) == b"large"
    assert await store.list_tokens() == [token]
    assert await store.next_due() == due
    await store.close()


async def s58_streams_and_grants_are_kept(open_store: OpenStore, clock: ManualClock) -> None:
    """Streams go on where they were, and grants are as used, as revoked and as near their end as before."""
    author = Author(clock)
    store = open_store(clock)
    items = await store.record([author.draft(NodeStopped())])
    grants = [author.grant("g1", max_uses=2), author.grant("g2"), author.grant("g3", lasts_s=60)]
    await store.create(T1, [author.submitted(), *author.proposed(), author.decided(*grants)])
    await append(store, T1, 5, author.started(grant_id="g1"))
    note = author.draft(GrantRevoked(grant_id=GrantId("g2")))
    assert await store.revoke_grant(GrantId("g2"), note=note)
    heads, listed = await store.heads(), await store.list_grants()
    await store.close()
    clock.advance(60)
    store = open_store(clock)
    assert await store.heads() == heads
    assert await store.list_grants() == listed
    items += [item for item in await store.read(TaskId(SYSTEM_STREAM)) if item.item_id == note.item_id]
    items += await store.record([author.draft(NodeStopped())])
    assert [item.version for item in items] == [1, 2, 3]
    assert verify_chain(items) is None
    await append(store, T1, 6, author.started(grant_id="g1"))
    for spent in ("g1", "g2", "g3"):
        await refused(GrantVoid, append(store, T1, 7, author.started(grant_id=spent)))
    assert not await store.revoke_grant(GrantId("g2"))
    await refused(InvalidRequest, store.create(TaskId(SYSTEM_STREAM), [author.submitted()]))
    await store.close()


async def s70_computers_are_kept(open_store: OpenStore, clock: ManualClock) -> None:
    """The last boot, the words heard, the freezes and the releases are there after a restart."""
    author = Author(clock)
    store = open_store(clock)
    coming = Coming(store_computers.side(clock), token="h1", heard=Heard(5), doubt=True)
    for name in ("3", "4", "5"):
        await store.welcome_computer(ComputerId(name), coming)
    await store.freeze_computer(store_computers.frozen(author, clock))
    await store.freeze_computer(author.draft(ComputerFrozen(computer=ComputerId("4"), reason="two_computers")))
    await store.release_computer(author.draft(ComputerReleased(computer=ComputerId("4"), by="alice")))
    before = await store.list_computers()
    assert [(one.frozen is not None, one.released) for one in before] == [(True, False), (False, True), (False, False)]
    await store.close()
    store = open_store(clock)
    assert await store.list_computers() == before
    await store.close()


async def s84_sign_ins_outlive_the_process(open_store: OpenStore, clock: ManualClock) -> None:
    """A browser that is signed in still is after a restart, and one that signed out is not."""
    author = Author(clock)
    store = open_store(clock)
    for name in ("s1", "s2"):
        row = store_computers.sign_in(name, clock.advance(1))
        await store.add_sign_in(row, most=5, note=author.draft(SignedIn(name="alice")))
    await store.use_sign_in("s2", clock.advance(1))
    await store.end_sign_in("s1", note=author.draft(SignedOut(name="alice")))
    before = await store.list_sign_ins()
    await store.close()
    store = open_store(clock)
    assert await store.list_sign_ins() == before
    assert [row.session_hash for row in before] == ["s2"]
    await store.close()
