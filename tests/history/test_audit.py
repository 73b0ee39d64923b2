"""The audit over a store: tampering with the real file shows, and no checkpoint signs it away (promise A3)."""

import json
import os
import shutil
import sqlite3
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.adapters.store import open_store
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.core.audit.chain import SYSTEM_STREAM, Anchor, heads_digest
from orchestrator.core.ports import KeptItem, KeptRow, KeptTable, Store, StreamHead
from orchestrator.core.task.facts import CancelRequested, Fact, TaskId
from orchestrator.core.task.items import (
    GENESIS_HASH,
    SYSTEM,
    AgentTaskItem,
    Draft,
    ItemId,
    decode_item,
    encode_item,
    hash_holds,
    item_hash,
    seal,
)
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import AttemptRefused, GrantId, GrantRevoked, NodeStopped
from orchestrator.engine.tasks import new_item_id
from orchestrator.history.audit import (
    AuditBroken,
    Checkpoints,
    as_written,
    check_store,
    heads_of,
    make_checkpoint,
    stories_of,
    streams_of,
    verify_store,
)
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import REPLY, Author
from tests.core.audited import BYTES, Trail, granted, made
from tests.core.golden_items import GOLDEN
from tests.core.journal import NOW
from tests.core.test_audit_check import given, used

T1, T2 = TaskId("t1"), TaskId("t2")


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Store]:
    store = open_store(f"sqlite:///{directory / 'orchestrator.db'}", clock=ManualClock())
    try:
        yield store
    finally:
        await store.close()


async def two_tasks(store: Store) -> None:
    """Two tasks with five items each, as they may really be."""
    author = Author(ManualClock())
    for task_id in (T1, T2):
        await store.create(task_id, [author.submitted()])
        await store.append(task_id, 1, author.proposed(), status=TaskStatus.RUNNING, blobs=[REPLY])
        await store.append(task_id, 4, [author.review(f"q-{task_id}")], status=TaskStatus.PAUSED)


async def filled(directory: Path) -> None:
    """A store with two tasks."""
    async with opened(directory) as store:
        await two_tasks(store)


async def grown(directory: Path) -> None:
    """One item more in the first task."""
    async with opened(directory) as store:
        note = Author(ManualClock()).draft(CancelRequested(reason="later"))._replace(item_id=ItemId("later"))
        await store.append(T1, 5, [note], status=TaskStatus.PAUSED)


def tamper(directory: Path, *statements: str) -> None:
    """What somebody does who has the file."""
    with closing(sqlite3.connect(directory / "orchestrator.db")) as database, database:
        for statement in statements:
            database.execute(statement)


async def faults(directory: Path) -> list[tuple[str, int, str]]:
    """Which stream, where and what."""
    async with opened(directory) as store:
        found = await verify_store(store, Checkpoints(directory))
    return [(one.stream, one.version, one.what) for one in found.faults]


async def checkpointed(directory: Path) -> str:
    """A checkpoint of the store as it is; its sha256."""
    async with opened(directory) as store:
        return (await make_checkpoint(store, Checkpoints(directory), NOW)).sha256


# -- tampering with the file -------------------------------------------------------------


async def test_a3_an_honest_store_has_no_fault_and_one_digest(tmp_path: Path) -> None:
    """With a checkpoint and without one, and also after it has grown."""
    await filled(tmp_path)
    assert await faults(tmp_path) == []
    await checkpointed(tmp_path)
    await grown(tmp_path)
    async with opened(tmp_path) as store:
        found = await verify_store(store, Checkpoints(tmp_path))
        again = await verify_store(store)
        heads = await heads_of(store)
    assert (found.streams, found.items, found.faults) == (2, 11, ())
    assert (found.checkpoint_at, again.checkpoint_at) == (NOW, None)
    assert found.heads_sha256 == again.heads_sha256 == heads_digest(heads)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE items SET data = replace(data, 'fix my', 'rob my') WHERE task_id = 't1'", ("t1", 1, "edited")),
        ("UPDATE items SET data = replace(data, '\"alice\"', '\"carol\"') WHERE task_id = 't1'", ("t1", 1, "edited")),
        ("DELETE FROM items WHERE task_id = 't1' AND version = 3", ("t1", 3, "missing")),
        ("DELETE FROM items WHERE task_id = 't1' AND version > 3", ("t1", 4, "cut")),
        ("DELETE FROM items WHERE task_id = 't1'", ("t1", 1, "cut")),
        ("UPDATE items SET version = CASE version WHEN 3 THEN 9 ELSE version END WHERE task_id = 't1'",
         ("t1", 3, "reordered")),
        ("UPDATE tasks SET version = 4 WHERE task_id = 't1'", ("t1", 5, "unnoted")),
        ("UPDATE tasks SET head_hash = '0' WHERE task_id = 't1'", ("t1", 5, "rewritten")),
        ("UPDATE items SET data = 'x' WHERE task_id = 't1' AND version = 2", ("t1", 2, "unreadable")),
    ],
)  # fmt: skip
async def test_a3_tampering_with_the_file_shows(tmp_path: Path, statement: str, expected: tuple[str, int, str]) -> None:
    """An edit, a deletion, a new order, a cut tail, another head, and bytes that are no item."""
    await filled(tmp_path)
    tamper(tmp_path, statement)
    assert expected in await faults(tmp_path)


async def test_a3_streams_that_changed_places_show(tmp_path: Path) -> None:
    """Each item knows its task."""
    await filled(tmp_path)
    tamper(
        tmp_path,
        "UPDATE items SET task_id = 'tx' WHERE task_id = 't1'",
        "UPDATE items SET task_id = 't1' WHERE task_id = 't2'",
        "UPDATE items SET task_id = 't2' WHERE task_id = 'tx'",
    )
    found = await faults(tmp_path)
    assert {("t1", 1, "foreign"), ("t2", 1, "foreign")} <= set(found)


async def test_a3_a_stream_that_was_sealed_anew_shows_against_the_checkpoint(tmp_path: Path) -> None:
    """Whoever rewrites every item and the row leaves a store in which all is right, but for what was signed."""
    await filled(tmp_path)
    await checkpointed(tmp_path)
    with closing(sqlite3.connect(tmp_path / "orchestrator.db")) as database, database:
        rows = database.execute("SELECT version, data FROM items WHERE task_id = 't1' ORDER BY version").fetchall()
        before = GENESIS_HASH
        for version, data in rows:
            value = json.loads(data.replace("fix my farm", "my farm fix")) | {"prev_hash": before}
            value["hash"] = before = item_hash(decode_item(json.dumps(value)))
            again = encode_item(decode_item(json.dumps(value))).decode()
            database.execute("UPDATE items SET data = ? WHERE task_id = 't1' AND version = ?", (again, version))
        database.execute("UPDATE tasks SET head_hash = ?, prompt = 'my farm fix' WHERE task_id = 't1'", (before,))
    async with opened(tmp_path) as store:
        assert (await verify_store(store)).faults == ()
    assert await faults(tmp_path) == [("t1", 5, "rewritten")]


async def test_a3_a_store_that_was_restored_from_an_older_backup_shows_as_cut(tmp_path: Path) -> None:
    """The sentence says so, and the next checkpoint is refused: nothing signs the loss away."""
    await filled(tmp_path)
    shutil.copy(tmp_path / "orchestrator.db", tmp_path / "backup.db")
    await grown(tmp_path)
    sha256 = await checkpointed(tmp_path)
    shutil.copy(tmp_path / "backup.db", tmp_path / "orchestrator.db")
    async with opened(tmp_path) as store:
        (fault,) = (await verify_store(store, Checkpoints(tmp_path))).faults
        with pytest.raises(AuditBroken, match=r"t1 no longer holds version 6 .* No new checkpoint was made"):
            await make_checkpoint(store, Checkpoints(tmp_path), NOW)
    assert (fault.stream, fault.version, fault.what) == ("t1", 6, "cut")
    assert "restored from an older backup" in fault.detail
    last = Checkpoints(tmp_path).read()
    assert last is not None
    assert last.sha256 == sha256


async def test_a3_a_whole_task_that_is_gone_shows(tmp_path: Path) -> None:
    """Only the checkpoint knows that it was there, and it is not signed away either."""
    await filled(tmp_path)
    await checkpointed(tmp_path)
    tamper(tmp_path, "DELETE FROM items WHERE task_id = 't2'", "DELETE FROM tasks WHERE task_id = 't2'")
    assert await faults(tmp_path) == [("t2", 0, "gone"), ("", 0, "request")]
    async with opened(tmp_path) as store:
        with pytest.raises(AuditBroken, match="t2 no longer holds version 5"):
            await make_checkpoint(store, Checkpoints(tmp_path), NOW)


async def test_a3_what_was_changed_since_the_last_checkpoint_is_not_signed(tmp_path: Path) -> None:
    """Of a stream that grew, everything from the last checkpoint on is verified first."""
    await filled(tmp_path)
    await checkpointed(tmp_path)
    await grown(tmp_path)
    tamper(tmp_path, "UPDATE items SET data = replace(data, 'later', 'after') WHERE task_id = 't1' AND version = 6")
    async with opened(tmp_path) as store:
        with pytest.raises(AuditBroken, match="t1 no longer holds version 5"):
            await make_checkpoint(store, Checkpoints(tmp_path), NOW)


async def test_a3_the_system_stream_is_verified_with_the_tasks(tmp_path: Path) -> None:
    """What belongs to no task is chained, has a head, and is in the checkpoint."""
    await filled(tmp_path)
    async with opened(tmp_path) as store:
        for number in range(3):
            fact = AttemptRefused(door="POST /v1/approve/q", code="forbidden", status=403, detail=f"no {number}")
            await store.record([Draft(ItemId(f"r{number}"), NOW, SYSTEM, fact)])
        made_now = await make_checkpoint(store, Checkpoints(tmp_path), NOW)
        await store.record([Draft(ItemId("cp"), NOW, SYSTEM, made_now)])
    assert await faults(tmp_path) == []
    tamper(tmp_path, "DELETE FROM items WHERE task_id = 'system' AND version = 2")
    assert await faults(tmp_path) == [("system", 2, "missing")]
    tamper(tmp_path, "DELETE FROM items WHERE task_id = 'system'", "DELETE FROM streams")
    assert await faults(tmp_path) == [("system", 0, "gone")]


async def test_a_stream_with_the_name_of_a_task_is_found(tmp_path: Path) -> None:
    """Such a row would keep the true head of the task out of checkpoints; it makes no item and no head wrong."""
    await filled(tmp_path)
    tamper(tmp_path, "INSERT INTO streams SELECT task_id, version, head_hash FROM tasks WHERE task_id = 't1'")
    assert await faults(tmp_path) == [("t1", 0, "row")]
    tamper(tmp_path, "UPDATE streams SET version = 9999, head_hash = '00' WHERE stream = 't1'")
    assert ("t1", 0, "row") in await faults(tmp_path)


# -- the checkpoint's file ---------------------------------------------------------------


HEADS: Mapping[str, Anchor] = {"t1": (3, "a" * 64), "system": (1, "b" * 64)}


def test_a2_a_checkpoint_is_a_signed_file_with_the_heads(tmp_path: Path) -> None:
    """Plain JSON for whoever looks; both files for their owner alone; each names the one before."""
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.read() is None
    first = checkpoints.write(HEADS, NOW)
    assert checkpoints.read() == first
    plain = json.loads(checkpoints.path.read_text())
    assert (plain["schema"], plain["at"]) == (1, "2030-01-01T00:00:00Z")
    assert plain["streams"] == {"t1": [3, "a" * 64], "system": [1, "b" * 64]}
    assert (plain["previous"], len(plain["hmac"])) == ("", 64)
    key = checkpoints.key_path.read_text()
    assert len(bytes.fromhex(key)) == 32
    second = checkpoints.write({}, NOW + timedelta(seconds=60))
    assert checkpoints.read() == second
    assert second.previous == first.sha256
    assert checkpoints.key_path.read_text() == key
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.checkpoint", "audit.key"]
    if os.name != "nt":
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("[3,", "[2,"), "does not carry the signature"),
        (lambda text: text.replace('"system":', '"systen":'), "does not carry the signature"),
        (lambda text: text.replace("2030", "2031"), "does not carry the signature"),
        (lambda text: text.replace('"hmac":"', '"hmac":"\u00e9'), "does not carry the signature"),
        (lambda text: text[: len(text) // 2], "is not a checkpoint"),
        (lambda _: "", "is not a checkpoint"),
        (lambda text: text.replace('"schema":1', '"schema":2'), "is not a checkpoint"),
    ],
)
async def test_a3_a_checkpoint_that_was_forged_or_cut_is_refused(tmp_path: Path, change: object, words: str) -> None:
    """It is never read, never replaced, and a verification tells it and goes on without it."""
    await filled(tmp_path)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write(HEADS, NOW)
    text = checkpoints.path.read_text()
    forged = change(text)  # type: ignore[operator]
    assert forged != text
    checkpoints.path.write_text(forged)
    with pytest.raises(AuditBroken, match=words) as caught:
        checkpoints.read()
    assert "move audit.checkpoint away" in caught.value.remedy
    with pytest.raises(AuditBroken, match=words):
        checkpoints.write(HEADS, NOW)
    assert checkpoints.path.read_text() == forged
    assert await faults(tmp_path) == [("", 0, "forged")]


@pytest.mark.parametrize("key", [None, "", "abcd\n", "not hex", "ab" * 33])
def test_a3_without_its_key_a_checkpoint_proves_nothing(tmp_path: Path, key: str | None) -> None:
    """A lost key is never replaced silently: that would let anybody begin anew."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write(HEADS, NOW)
    checkpoints.key_path.unlink()
    if key is not None:
        checkpoints.key_path.write_text(key)
    with pytest.raises(AuditBroken, match=r"audit\.key, which signs the checkpoint, is gone or broken"):
        checkpoints.write(HEADS, NOW)
    assert checkpoints.key_path.exists() is (key is not None)


def test_a3_another_key_signs_another_checkpoint(tmp_path: Path) -> None:
    """A checkpoint of another installation is not one of this."""
    other = tmp_path / "other"
    other.mkdir()
    Checkpoints(tmp_path).write(HEADS, NOW)
    Checkpoints(other).write(HEADS, NOW)
    shutil.copy(Checkpoints(other).path, Checkpoints(tmp_path).path)
    with pytest.raises(AuditBroken, match="does not carry the signature"):
        Checkpoints(tmp_path).read()


def test_a_checkpoint_survives_what_a_crash_left(tmp_path: Path) -> None:
    """A temporary file of a write that never ended is taken away; the last checkpoint stands until then."""
    checkpoints = Checkpoints(tmp_path)
    first = checkpoints.write(HEADS, NOW)
    (tmp_path / "audit.checkpoint.new").write_text("half a check")
    assert checkpoints.read() == first
    assert checkpoints.write(HEADS, NOW).previous == first.sha256


def test_a_directory_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    """With what to do; and one that cannot be read too."""
    nowhere = Checkpoints(tmp_path / "nowhere")
    with pytest.raises(AuditBroken, match="cannot be written: No such file") as caught:
        nowhere.write(HEADS, NOW)
    assert caught.value.remedy
    blocked = Checkpoints(tmp_path)
    blocked.path.mkdir()
    with pytest.raises(AuditBroken, match="cannot be read"):
        blocked.read()


# -- the system stream -------------------------------------------------------------------


@dataclass
class Kept:
    """Streams in memory, of items that no store has to have sealed."""

    streams: dict[str, list[AgentTaskItem]] = field(default_factory=dict)

    async def heads(self) -> list[StreamHead]:
        return [StreamHead(name, items[-1].version, items[-1].hash) for name, items in self.streams.items()]

    async def read(self, task_id: TaskId, after_version: int = 0) -> list[AgentTaskItem]:
        return self.streams.get(task_id, [])[after_version:]

    def record(self, fact: Fact, stream: str = SYSTEM_STREAM) -> None:
        """One more item of a stream."""
        items = self.streams.setdefault(stream, [])
        version = len(items) + 1
        draft = Draft(item_id=ItemId(f"s{version}"), at=NOW, actor=SYSTEM, fact=fact)
        before = items[-1].hash if items else GENESIS_HASH
        items.append(seal(draft, task_id=TaskId(stream), version=version, prev_hash=before))


async def recorded(store: Store, fact: Fact, stream: str = SYSTEM_STREAM) -> None:
    """One more item of a stream."""
    await store.record([Draft(new_item_id(), NOW, SYSTEM, fact)], stream=stream)


async def noted(store: Store, checkpoints: Checkpoints) -> None:
    """A checkpoint as a node makes one: the file, then its item."""
    await recorded(store, await make_checkpoint(store, checkpoints, NOW))


async def whats(store: Store, checkpoints: Checkpoints) -> list[str]:
    """What a verification says."""
    return [fault.detail for fault in (await verify_store(store, checkpoints)).faults]


async def test_a2_each_checkpoint_is_an_item_of_the_system_stream(tmp_path: Path) -> None:
    """Its sha256 is of the file as it lies there; a crash between the two leaves nothing to complain of."""
    store, checkpoints = InMemoryPersistenceManager(), Checkpoints(tmp_path)
    await recorded(store, NodeStopped())
    await noted(store, checkpoints)
    await noted(store, checkpoints)
    assert await whats(store, checkpoints) == []
    await make_checkpoint(store, checkpoints, NOW)
    assert await whats(store, checkpoints) == []


async def test_a3_a_checkpoint_that_was_taken_away_or_put_back_shows(tmp_path: Path) -> None:
    """The system stream says which one was made last."""
    store, checkpoints = InMemoryPersistenceManager(), Checkpoints(tmp_path)
    await recorded(store, NodeStopped())
    await noted(store, checkpoints)
    old = checkpoints.path.read_bytes()
    await noted(store, checkpoints)
    await noted(store, checkpoints)
    checkpoints.path.write_bytes(old)
    assert await whats(store, checkpoints) == [
        "audit.checkpoint is not the one that was made last: it was deleted, or put back together with an older store."
    ]
    checkpoints.path.unlink()
    (said,) = await whats(store, checkpoints)
    assert said.startswith("audit.checkpoint is gone")
    checkpoints.path.write_text("forged")
    (said,) = await whats(store, checkpoints)
    assert "is not a checkpoint" in said


async def test_a_checkpoint_that_is_made_during_a_verification_is_no_fault(tmp_path: Path) -> None:
    """The file was read before it, the system stream after."""

    class Busy(InMemoryPersistenceManager):
        made = True

        async def kept_rows(self, table: KeptTable, after: str | None = None, limit: int = 500) -> list[KeptRow]:
            if table == "tasks" and not self.made:
                self.made = True
                await noted(self, checkpoints)
                await noted(self, checkpoints)
            return await super().kept_rows(table, after, limit)

    store, checkpoints = Busy(), Checkpoints(tmp_path)
    await recorded(store, NodeStopped())
    await noted(store, checkpoints)
    store.made = False
    assert await whats(store, checkpoints) == []


async def test_a_stream_that_grows_during_a_verification_is_no_fault() -> None:
    """Items after the head are growth where the head has moved, and a fault where it has not."""

    class Growing(InMemoryPersistenceManager):
        async def kept_items(self, stream: str, after_version: int = 0, limit: int = 500) -> list[KeptItem]:
            await recorded(self, NodeStopped(), stream)
            return await super().kept_items(stream, after_version, limit)

    store = Growing()
    await recorded(store, NodeStopped(), "s1")
    found = await verify_store(store)
    assert (found.faults, found.items) == ((), 1)

    class Behind(InMemoryPersistenceManager):
        async def kept_rows(self, table: KeptTable, after: str | None = None, limit: int = 500) -> list[KeptRow]:
            (first, *_) = await self.read(TaskId("s1"))
            rows = await super().kept_rows(table, after, limit)
            return [{**row, "version": first.version, "head_hash": first.hash} for row in rows]

    behind = Behind()
    await recorded(behind, NodeStopped(), "s1")
    await recorded(behind, NodeStopped(), "s1")
    (fault,) = (await verify_store(behind)).faults
    assert (fault.version, fault.what) == (2, "unnoted")


# -- checking and telling ----------------------------------------------------------------


async def test_a6_the_check_of_a_store_knows_the_standing_approvals_of_all_tasks() -> None:
    """What one task gave another may use, until it is taken back; what nobody gave is reported."""
    giving, using = given(granted(made("c1"))), Trail(made("c1"), task_id=T2).add(used(made("c1")))
    store = Kept({"t1": giving.items, "t2": using.items})
    assert await check_store(store) == []
    alone = Kept({"t2": using.items})
    assert [one.what for one in await check_store(alone)] == ["grant_misused"]
    using.started(made("c1"), at=NOW + timedelta(seconds=90)).finished(made("c1"))
    store.record(GrantRevoked(grant_id=GrantId("g-1")))
    assert [(one.stream, one.version, one.what) for one in await check_store(store)] == [("t2", 4, "grant_misused")]
    assert await check_store(store, ["t1"]) == []


async def test_a5_bytes_are_looked_for_in_all_tasks_or_in_one() -> None:
    """By name of the stream, one at a time."""
    store = Kept({"t2": Trail(made("c1"), task_id=T2).items, "t1": Trail(made("c1")).items})
    assert [story.stream for story in await stories_of(store, sha256=BYTES)] == ["t1", "t2"]
    assert [story.stream for story in await stories_of(store, ["t2"], sha256=BYTES)] == ["t2"]
    assert await stories_of(store, ["t9"], sha256=BYTES) == []
    assert [told.stream async for told in streams_of(store)] == ["t1", "t2"]


async def test_a_stream_that_cannot_be_read_is_never_left_out(tmp_path: Path) -> None:
    """The check and the search say which it is; the others are read by their names."""
    await filled(tmp_path)
    tamper(tmp_path, "UPDATE items SET data = 'x' WHERE task_id = 't1' AND version = 2")
    async with opened(tmp_path) as store:
        with pytest.raises(AuditBroken, match="t1 cannot be read"):
            await check_store(store)
        with pytest.raises(AuditBroken, match="t1 cannot be read"):
            await stories_of(store, sha256=BYTES)
        assert await stories_of(store, ["t2"], sha256=BYTES) == []
        assert await check_store(store, ["t2"]) == []


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_a_whole_export_can_be_verified_again(path: Path) -> None:
    """Also of an item that version 0.6.0 wrote, whose kind got fields since."""
    item = decode_item(path.read_bytes())
    again = decode_item(json.dumps(as_written(item)))
    assert again == item
    assert hash_holds(again)


def test_a_whole_export_of_what_was_just_sealed_can_be_verified_again() -> None:
    """A store in memory gives out the very values that were sealed: what has its default was never set."""
    for item in Trail(made("c1")).requested(made("c1")).approved(made("c1")).items:
        again = decode_item(json.dumps(as_written(item)))
        assert (again.fact, hash_holds(again)) == (item.fact, True)
