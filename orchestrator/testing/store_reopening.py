"""The contracts of stores that outlive their process: S41 and S42."""

from orchestrator.core.facts import RequestId, TaskId
from orchestrator.core.items import verify_chain
from orchestrator.core.task import TaskStatus
from orchestrator.ports import TokenRow
from orchestrator.testing.checks import OpenStore, taken
from orchestrator.testing.clock import ManualClock
from orchestrator.testing.drafts import COMPUTER, Author, append

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
