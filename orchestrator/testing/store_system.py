"""The contracts of data without a task: S46 to S50, streams that are not tasks, their notes and the heads of all."""

import asyncio
from datetime import datetime, timedelta

from orchestrator.core.errors import Conflict, InvalidRequest, NotFound, OrchestratorError
from orchestrator.core.ports import SYSTEM_STREAM, PolicyRow, Store, StreamHead, TokenRow
from orchestrator.core.task.facts import RequestId, TaskId
from orchestrator.core.task.items import AgentTaskItem, Draft, verify_chain
from orchestrator.core.task.system_facts import (
    DirectoryChanged,
    GroupValue,
    NodeStopped,
    OwnerValue,
    PolicyLoaded,
    TokenIssued,
    TokenRevoked,
)
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.testing.drafts import Author, ManualClock, append, refused, taken

# -- The contract of the directory: S94 --------------------------------------------------


def setting(author: Author, name: str, value: GroupValue | OwnerValue | None, about: str = "group") -> Draft:
    """The note that sets an entry, or removes it."""
    return author.draft(DirectoryChanged.model_validate({"about": about, "name": name, "value": value}))


async def s94_an_entry_is_set_after_the_one_before(store: Store, clock: ManualClock) -> None:
    """An entry is set or removed at the number that it has, with its note, or nothing is written at all."""
    author = Author(clock)
    assert await store.directory() == []
    await refused(InvalidRequest, store.set_entry(author.draft(NodeStopped()), expected=0))
    await refused(InvalidRequest, store.set_entry(setting(author, "class", None), expected=0))
    await refused(Conflict, store.set_entry(setting(author, "class", GroupValue()), expected=7))
    assert await store.read(SYSTEM) == []
    note = setting(author, "class", GroupValue(people=("ann",), computers=("farm",)))
    first = await store.set_entry(note, expected=0)
    assert await store.set_entry(note, expected=0) == first
    await store.set_entry(setting(author, "farm", OwnerValue(person="ann"), "owner"), expected=0)
    rows = await store.directory()
    assert [(row.fact.entry, row.number) for row in rows] == [("group class", first), ("owner farm", first + 1)]
    assert rows[0].fact == note.fact
    await refused(Conflict, store.set_entry(setting(author, "class", GroupValue()), expected=0))
    second = await store.set_entry(setting(author, "class", None), expected=first)
    assert second > first
    assert [row.fact.entry for row in await store.directory()] == ["owner farm"]
    people = [setting(author, "b", GroupValue(people=(f"p{number}",))) for number in range(8)]
    tried = await asyncio.gather(*(store.set_entry(one, expected=0) for one in people), return_exceptions=True)
    assert [type(one) for one in tried if not isinstance(one, int)] == [Conflict] * 7
    items = await store.read(SYSTEM)
    assert verify_chain(items) is None
    assert len(items) == 4
    assert {row["entry"] for row in await store.kept_rows("directory")} == {"group b", "owner farm"}


# -- The contracts of what several nodes have in common: S85 to S89 ----------------------

SYSTEM = TaskId(SYSTEM_STREAM)


def loading(author: Author, content: bytes, source: str = "policy.toml") -> Draft:
    """The note of a policy of these bytes."""
    return author.draft(PolicyLoaded(source=source, policy_version="v1", sha256=sha256_hex(content)))


async def s85_a_policy_comes_into_force_after_the_one_before(store: Store, clock: ManualClock) -> None:
    """A policy is set at the version that is in force, with its bytes and its note, or nothing is written at all."""
    author = Author(clock)
    assert await store.policy_in_force() is None
    await store.judged_policy(7)
    assert await store.policy_in_force() is None
    await refused(Conflict, store.set_policy(1, b"one", note=loading(author, b"one")))
    note = loading(author, b"one", "a.toml")
    first = await store.set_policy(0, b"one", note=note)
    assert first == PolicyRow(1, sha256_hex(b"one"), "a.toml", clock.now(), note.actor.id, first.judged)
    assert await store.policy_in_force() == first
    for expected in (0, 2):
        await refused(Conflict, store.set_policy(expected, b"two", note=loading(author, b"two")))
    for wrong in (author.draft(NodeStopped()), loading(author, b"three")):
        await refused(InvalidRequest, store.set_policy(1, b"two", note=wrong))
    assert await store.policy_in_force() == first
    assert sha256_hex(b"two") not in await store.blob_sizes([sha256_hex(b"two")])
    clock.advance(5)
    second = await store.set_policy(1, b"two", note=loading(author, b"two", "b.toml"))
    assert (second.version, second.source, second.loaded_at) == (2, "b.toml", clock.now())
    assert await store.get_blob(first.sha256) == b"one"
    assert await store.get_blob(second.sha256) == b"two"
    items = await store.read(SYSTEM)
    assert verify_chain(items) is None
    assert [item.fact.source for item in items if isinstance(item.fact, PolicyLoaded)] == ["a.toml", "b.toml"]
    (kept,) = await store.kept_rows("policies")
    assert (kept["version"], kept["sha256"], kept["source"]) == (2, second.sha256, "b.toml")


async def s86_of_several_policies_at_once_one_wins(store: Store, clock: ManualClock) -> None:
    """When several set a policy at one version, exactly one succeeds, and only its note is written."""
    author = Author(clock)
    contents = [f"policy {number}".encode() for number in range(8)]
    for version in range(2):
        notes = [loading(author, content) for content in contents]
        tried = (store.set_policy(version, one, note=note) for one, note in zip(contents, notes, strict=True))
        done = await asyncio.gather(*tried, return_exceptions=True)
        won = [one for one in done if isinstance(one, PolicyRow)]
        lost = [one for one in done if isinstance(one, OrchestratorError)]
        assert (len(won), len(lost)) == (1, 7)
        assert all(isinstance(one, Conflict) for one in lost)
        assert await store.policy_in_force() == won[0]
    assert len(await store.read(SYSTEM)) == 2


async def s87_what_was_judged_is_kept(store: Store, clock: ManualClock) -> None:
    """The version that everything was judged by only rises, and outlives the policy after it."""
    author = Author(clock)
    row = await store.set_policy(0, b"one", note=loading(author, b"one"))
    assert row.judged == 0
    await store.judged_policy(1)
    row = await store.set_policy(1, b"two", note=loading(author, b"two"))
    assert row.judged == 1
    for version, judged in ((2, 2), (1, 2)):
        await store.judged_policy(version)
        present = await store.policy_in_force()
        assert present is not None
        assert (present.version, present.judged) == (2, judged)


async def s88_a_duty_has_one_holder(store: Store, clock: ManualClock) -> None:
    """A singleton job is taken by one, renewed by that one alone, and free after its time or when it is given back."""
    assert await store.take_duty("d", "a", 10)
    assert not await store.take_duty("d", "b", 10)
    assert await store.take_duty("e", "b", 10)
    clock.advance(9)
    assert await store.take_duty("d", "a", 10)
    clock.advance(9.5)
    assert not await store.take_duty("d", "b", 10)
    clock.advance(0.5)
    assert await store.take_duty("d", "b", 10)
    assert not await store.take_duty("d", "a", 10)
    await store.leave_duty("d", "a")
    assert not await store.take_duty("d", "a", 10)
    await store.leave_duty("d", "b")
    await store.leave_duty("d", "b")
    assert await store.take_duty("d", "a", 10)
    await store.leave_duty("f", "a")
    names = [f"n{number}" for number in range(8)]
    assert sum(await asyncio.gather(*(store.take_duty("g", one, 10) for one in names))) == 1


async def s89_what_was_said_first_stands(store: Store, clock: ManualClock) -> None:
    """When several say something under a name at once, the first stands for all."""
    del clock
    said = await asyncio.gather(*(store.agree("a", f"v{number}") for number in range(8)))
    assert len(set(said)) == 1
    assert await store.agree("b", "x") == "x"
    assert await store.agree("a", "later") == said[0]
    assert await store.kept_rows("agreed") == [{"name": "a", "value": said[0]}, {"name": "b", "value": "x"}]


# -- The contracts of what belongs to no task: S46 to S50, streams that are not tasks, their notes and the heads of
# all

T1 = TaskId("t1")


async def s46_record(store: Store, clock: ManualClock) -> None:
    """A recorded item follows the last one of the stream, sealed and chained; recorded again it is answered."""
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
    """When many record at once, each is written once, and the chains hold."""
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


async def s103_tokens_are_replaced_in_one_write(store: Store, clock: ManualClock) -> None:
    """Others are revoked and the new one is added with both notes; where it cannot be added, nothing is revoked."""
    author = Author(clock)
    await store.add_token(TokenRow("h1", "person", "alice", ("reviewer",)))
    await store.add_token(TokenRow("h2", "person", "bob"))

    def notes() -> tuple[Draft, Draft]:
        issued = TokenIssued(holder_kind="person", name="alice")
        return author.draft(TokenRevoked(holder_kind="person", name="alice", count=0)), author.draft(issued)

    revoked, issued = notes()
    taken = (TokenRow("h2", "person", "alice"), issued)
    await refused(Conflict, store.revoke_tokens("person", "alice", note=revoked, then=taken))
    assert [row.revoked for row in await store.list_tokens()] == [False, False]
    assert await store.read(SYSTEM) == []
    revoked, issued = notes()
    free = (TokenRow("h3", "person", "alice", ("submitter",)), issued)
    assert await store.revoke_tokens("person", "alice", note=revoked, then=free) == 1
    assert {row.token_hash for row in await store.list_tokens() if not row.revoked} == {"h2", "h3"}
    items = await store.read(SYSTEM)
    assert [item.item_id for item in items] == [revoked.item_id, issued.item_id]
    assert verify_chain(items) is None


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
    assert await store.heads_from("a", users=["alice"]) == [heads[1], *heads[3:]]
    assert await store.heads_from("", users=["sam"]) == []


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
    assert await store.last_changed(users=["sam"]) == []
    assert len(await store.last_changed(users=["alice"])) == 4
    assert [head.stream for head in await store.heads_since(first.updated_at)] == ["system", "t1", "t4"]
    assert [head.stream for head in await store.heads_since(clock.now() + timedelta(days=1))] == ["system"]
