"""The contracts of what belongs to no task: S46 to S50, streams that are no tasks, their notes and the heads of all."""

import asyncio
from datetime import datetime, timedelta

from orchestrator.core.errors import Conflict, InvalidRequest, NotFound
from orchestrator.core.ports import SYSTEM_STREAM, Store, StreamHead, TokenRow
from orchestrator.core.task.facts import RequestId, TaskId
from orchestrator.core.task.items import AgentTaskItem, Draft, verify_chain
from orchestrator.core.task.system_facts import NodeStopped, TokenIssued, TokenRevoked
from orchestrator.testing.drafts import Author, ManualClock, append, refused, taken

T1 = TaskId("t1")
SYSTEM = TaskId(SYSTEM_STREAM)


async def s46_record(store: Store, clock: ManualClock) -> None:
    """What is recorded follows whatever is in the stream, sealed and chained; recorded again it is answered."""
    author = Author(clock)
    first, more = [author.draft(NodeStopped())], [author.draft(NodeStopped()), author.draft(NodeStopped())]
    items = await store.record(first)
    items += await store.record(more)
    assert [(item.task_id, item.version) for item in items] == [(SYSTEM, 1), (SYSTEM, 2), (SYSTEM, 3)]
    assert verify_chain(items) is None
    assert await store.record(first) == items[:1]
    assert await store.record(more) == items[1:]
    await refused(Conflict, store.record([*first, author.draft(NodeStopped())]))
    await refused(InvalidRequest, store.record([]))
    same = author.draft(NodeStopped())
    await refused(InvalidRequest, store.record([same, same]))
    (elsewhere,) = await store.record(first, stream="elsewhere")
    assert (elsewhere.task_id, elsewhere.version) == ("elsewhere", 1)
    assert await store.read(SYSTEM) == items
    assert await store.read(SYSTEM, 2) == items[2:]


async def s47_streams_are_no_tasks(store: Store, clock: ManualClock) -> None:
    """A stream is in no list and no queue and takes no append; no task has its name, and it has no task's."""
    author = Author(clock)
    await refused(InvalidRequest, store.create(SYSTEM, [author.submitted()]))
    assert await store.heads() == []
    await store.record([author.draft(NodeStopped())])
    await store.record([author.review("r1")], stream="elsewhere")
    for name in (SYSTEM, TaskId("elsewhere")):
        await refused(InvalidRequest, store.create(name, [author.submitted()]))
        await refused(NotFound, append(store, name, 1, author.note()))
        assert await store.load(name) is None
        assert len(await store.read(name)) == 1
    assert await store.load_by_request_id(RequestId("r1")) is None
    assert await store.list_tasks() == []
    assert await store.next_due() is None
    assert await store.lease("node-1", 10) is None
    await store.create(T1, [author.submitted()])
    await refused(InvalidRequest, store.record([author.note()], stream=T1))
    assert len(await store.read(T1)) == 1
    assert (await taken(store)).task_id == T1


async def s48_records_at_once(store: Store, clock: ManualClock) -> None:
    """Of many that record at once each is written once, and the chains hold."""
    author = Author(clock)
    drafts = {name: [author.draft(NodeStopped()) for _ in range(20)] for name in (SYSTEM_STREAM, "elsewhere")}
    await asyncio.gather(*(store.record([one], stream=name) for name, ones in drafts.items() for one in ones * 2))
    for name, ones in drafts.items():
        items = await store.read(TaskId(name))
        assert sorted(item.item_id for item in items) == sorted(one.item_id for one in ones)
        assert verify_chain(items) is None


async def s49_tokens_are_noted(store: Store, clock: ManualClock) -> None:
    """A token's note is in the system stream, once, if and only if it was added or any was revoked, with the count."""
    author = Author(clock)
    issued = [author.draft(TokenIssued(holder_kind="person", name="alice")) for _ in range(3)]
    await store.add_token(TokenRow("h1", "person", "alice"), note=issued[0])
    await refused(Conflict, store.add_token(TokenRow("h1", "person", "alice"), note=issued[1]))
    half = author.draft(TokenIssued(holder_kind="person", name="\ud800"))
    await refused(InvalidRequest, store.add_token(TokenRow("h3", "person", "carol"), note=half))
    assert await store.find_token("h3") is None
    await store.add_token(TokenRow("h2", "person", "alice"), note=issued[2])
    await store.add_token(TokenRow("h4", "person", "dora"))
    await store.add_token(TokenRow("h5", "agent", "eve"), note=issued[0])

    def revoked(name: str) -> Draft:
        return author.draft(TokenRevoked(holder_kind="person", name=name, count=0))

    assert await store.revoke_tokens("person", "bob", note=revoked("bob")) == 0
    assert await store.revoke_tokens("person", "alice", note=(first := revoked("alice"))) == 2
    assert await store.revoke_tokens("person", "alice", note=revoked("alice")) == 0
    await refused(InvalidRequest, store.revoke_tokens("person", "dora", note=revoked("\ud800")))
    assert [row.revoked for row in await store.list_tokens() if row.name == "dora"] == [False]
    assert await store.revoke_tokens("person", "dora", note=author.draft(NodeStopped())) == 1
    items = await store.read(SYSTEM)
    assert verify_chain(items) is None
    assert [item.item_id for item in items[:3]] == [issued[0].item_id, issued[2].item_id, first.item_id]
    assert items[2].fact == TokenRevoked(holder_kind="person", name="alice", count=2)
    assert [item.fact.kind for item in items[3:]] == ["node_stopped"]


async def s50_heads(store: Store, clock: ManualClock) -> None:
    """The heads are of all tasks and streams, sorted by name, and each is its last item."""
    author = Author(clock)
    assert await store.heads() == []
    last: dict[str, AgentTaskItem] = {}
    for name in ("t2", "Z", "t10", "a"):
        (*_, last[name]) = await store.create(TaskId(name), [author.submitted(), author.note()])
    (last[SYSTEM_STREAM],) = await store.record([author.draft(NodeStopped())])
    (last["t2"],) = await append(store, TaskId("t2"), 2, author.note())
    ones = (append(store, TaskId(name), 2, author.note()) for name in ("Z", "a", "t10"))
    last |= {item.task_id: item for (item,) in await asyncio.gather(*ones)}
    names = ["Z", "a", "system", "t10", "t2"]
    heads = [StreamHead(name, last[name].version, last[name].hash) for name in names]
    assert await store.heads() == heads
    assert await store.heads_from("") == heads
    assert await store.heads_from("a", 3) == heads[1:4]
    assert await store.heads_from("u") == []
    assert await store.heads_from("a", user_id="alice") == [heads[1], *heads[3:]]
    assert await store.heads_from("", user_id="sam") == []


async def s92_what_changed_last(store: Store, clock: ManualClock) -> None:
    """Tasks by the time of their last item, in pages that hold still while others come; and the heads since a time."""
    author = Author(clock)
    times: dict[str, datetime] = {}
    for name in ("t1", "t2", "t3"):
        await store.create(TaskId(name), [author.submitted()])
        times[name] = clock.now()
        clock.advance(60)
    await store.record([author.draft(NodeStopped())])
    await append(store, TaskId("t1"), 1, author.note())
    assert [row.task_id for row in await store.last_changed()] == ["t1", "t3", "t2"]
    first = (await store.last_changed(1))[0]
    assert (first.created_at, first.updated_at, first.version) == (times["t1"], clock.now(), 2)
    clock.advance(60)
    await store.create(TaskId("t4"), [author.submitted()])
    place = (first.updated_at, first.task_id)
    assert [row.task_id for row in await store.last_changed(before=place)] == ["t3", "t2"]
    assert [row.task_id for row in await store.last_changed(begun=times["t2"])] == ["t1", "t2"]
    assert [row.task_id for row in await store.last_changed(1, before=place, begun=times["t2"])] == ["t2"]
    assert await store.last_changed(user_id="sam") == []
    assert len(await store.last_changed(user_id="alice")) == 4
    assert [head.stream for head in await store.heads_since(first.updated_at)] == ["system", "t1", "t4"]
    assert [head.stream for head in await store.heads_since(clock.now() + timedelta(days=1))] == ["system"]
