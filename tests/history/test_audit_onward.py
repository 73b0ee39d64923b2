"""What an audit costs once there is much: checkpoints, verifications and pages read what changed, and no more."""

import asyncio
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters.bus import LocalBus
from orchestrator.adapters.store import open_store, sql_lists
from orchestrator.adapters.store.sql_system import _REFERRING
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager, SqlitePersistenceManager
from orchestrator.core.audit.wanted import Wanted
from orchestrator.core.errors import NotFound
from orchestrator.core.ports import KeptItem, KeptJournal, KeptRow, KeptTable, Store, StreamHead, TaskRow
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, canonical_json
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import NodeStopped
from orchestrator.engine.tasks import TaskService
from orchestrator.history.audit import (
    AuditBroken,
    Checkpoint,
    Checkpoints,
    Place,
    Reach,
    Verification,
    bulk,
    checkpoint,
    heads_of,
    make_checkpoint,
    newest_of,
    news_of,
    page_of,
    verification,
    verify_store,
)
from orchestrator.history.audit.bulk import AT_ONCE
from orchestrator.history.audit.heads_tree import TREE_NAME, HeadsTree
from orchestrator.history.audit.verified import Verified
from orchestrator.history.checkpoints import CheckpointKeeper
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import REPLY, Author, append
from tests.core.journal import NOW
from tests.engine.test_actor import Anyone
from tests.history.test_audit import opened, tamper

MANY = 60
"""Tasks: three times what is read again each time."""


class Counting(InMemoryPersistenceManager):
    """A store that says what was read of it."""

    def __init__(self, *, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.read_of: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()

    async def kept_items(self, stream: str, after_version: int = 0, limit: int = 500) -> list[KeptItem]:
        found = await super().kept_items(stream, after_version, limit)
        self.read_of[stream] += len(found)
        return found

    async def kept_journals(self, names: Sequence[str], most: int = 500) -> list[KeptJournal]:
        found = await super().kept_journals(names, most)
        self.read_of.update({str(one.row["task_id"]): len(one.items) for one in found})
        return found

    async def read(self, task_id: TaskId, after_version: int = 0) -> list[AgentTaskItem]:
        found = await super().read(task_id, after_version)
        self.read_of[task_id] += len(found)
        return found

    async def heads(self) -> list[StreamHead]:
        self.asked["heads"] += 1
        return await super().heads()

    async def kept_rows(self, table: KeptTable, after: str | None = None, limit: int = 500) -> list[KeptRow]:
        found = await super().kept_rows(table, after, limit)
        self.asked[f"rows of {table}"] += len(found)
        return found

    async def last_changed(self, limit: int = 100, **more: Any) -> list[TaskRow]:
        found = await super().last_changed(limit, **more)
        self.asked["tasks"] += len(found)
        return found

    def forget(self) -> None:
        """Begin to count anew."""
        self.read_of.clear()
        self.asked.clear()


def named(number: int) -> TaskId:
    return TaskId(f"t-{number:03}")


async def filled(store: Store, clock: ManualClock, tasks: int = MANY) -> Author:
    """So many tasks with four items each, one after the other."""
    author = Author(clock)
    for number in range(tasks):
        await store.create(named(number), [author.submitted()])
        await store.append(named(number), 1, author.proposed(), status=TaskStatus.RUNNING, blobs=[REPLY])
        clock.advance(60)
    await store.record([author.draft(NodeStopped())])
    return author


# -- checkpoints -------------------------------------------------------------------------


async def noted(store: Store, checkpoints: Checkpoints, author: Author, since: datetime | None = None) -> None:
    news = await news_of(store, checkpoints, since)
    await store.record([author.draft(await make_checkpoint(store, checkpoints, NOW, news=news))])


def line_of(checkpoints: Checkpoints) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(checkpoints.path.read_bytes())
    return found


class Traced(HeadsTree):
    """A tree that says what was asked of its file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.statements: list[str] = []

    def _opened(self) -> sqlite3.Connection:
        connection = super()._opened()
        connection.set_trace_callback(self.statements.append)
        return connection


async def test_a_checkpoint_signs_the_root_and_reads_only_what_changed(tmp_path: Path) -> None:
    """The next one names the one before, and has the heads of all streams."""
    clock = ManualClock()
    store, checkpoints = Counting(clock=clock), Checkpoints(tmp_path, whole_below=0)
    author = await filled(store, clock)
    await noted(store, checkpoints, author)
    first = line_of(checkpoints)
    clock.advance(600)
    since = clock.now()
    await store.append(named(7), 4, [author.note()], status=TaskStatus.RUNNING)
    store.forget()
    await noted(store, checkpoints, author, since)
    line = line_of(checkpoints)
    assert (line["schema"], line["previous"]) == (3, sha256(canonical_json(first) + b"\n").hexdigest())
    assert line["root"] != first["root"]
    assert (store.asked["heads"], set(store.read_of)) == (0, {named(7), "system"})
    assert store.read_of[named(7)] == 2, "the item that was signed before, and the new one"
    found, heads = Checkpoints(tmp_path).read(), await heads_of(store)
    known = checkpoints.known()
    assert found is not None
    assert known is not None
    signed = found.streams["system"]
    assert found.streams == dict(known.streams) == {**heads, "system": signed}
    assert signed[0] == heads["system"][0] - 1, "its own note came after it"
    assert (await verify_store(store, checkpoints)).faults == ()


@pytest.mark.parametrize("streams", [200, 3000])
def test_a_change_costs_the_way_to_the_root(tmp_path: Path, streams: int) -> None:
    """As many statements in a large tree as in a small one, and none that reads all."""
    tree = Traced(tmp_path / TREE_NAME)
    heads = {f"t-{number:06}": (1, f"{number:064x}") for number in range(streams)}
    with closing(tree.build(heads)) as grown:
        grown.keep(b"one")
    tree.statements.clear()
    with closing(tree.grow(grown.root, {"t-000007": (2, "f" * 64)}, ["t-000009"])) as again:
        again.keep(b"two")
    assert len(tree.statements) == 28
    found = tree.heads()
    found.root = again.root
    assert found["t-000007"] == (2, "f" * 64)
    read = [one for one in tree.statements if one.startswith("SELECT") and " WHERE " not in one]
    assert read == ["SELECT streams FROM signed", "SELECT line, streams FROM signed"]
    expected = {**heads, "t-000007": (2, "f" * 64)}
    del expected["t-000009"]
    with closing(HeadsTree(tmp_path / "other").build(expected)) as other:
        assert (other.root, other.streams) == (again.root, again.streams), "the same heads have the same root"


async def test_a_checkpoint_of_a_store_that_grew_goes_on(tmp_path: Path) -> None:
    """One line has all heads, as in version 0.6.0, until they are many; the next one is of a tree, and names it."""
    clock = ManualClock()
    store = InMemoryPersistenceManager(clock=clock)
    author = await filled(store, clock, 20)
    await noted(store, Checkpoints(tmp_path), author)
    before = line_of(Checkpoints(tmp_path))
    assert set(before) == {"schema", "at", "streams", "previous", "hmac"}
    assert not (tmp_path / TREE_NAME).exists()
    await noted(store, Checkpoints(tmp_path, whole_below=0), author, clock.now())
    line = line_of(Checkpoints(tmp_path))
    assert (line["schema"], line["previous"]) == (3, sha256(canonical_json(before) + b"\n").hexdigest())
    assert (await verify_store(store, Checkpoints(tmp_path))).faults == ()


def _edited(statement: str) -> Callable[[Path], None]:
    def edit(home: Path) -> None:
        with closing(sqlite3.connect(home / TREE_NAME)) as connection:
            connection.execute(statement)
            connection.commit()

    return edit


def _put_back(*names: str) -> Callable[[Path], None]:
    def put(home: Path) -> None:
        for name in names:
            shutil.copy(home / "old" / name, home / name)

    return put


_NOT_SIGNED = "audit.heads does not have the heads that audit.checkpoint signs"


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("how", "what"),
    [
        (_edited("UPDATE heads SET hash = 'mine' WHERE stream = 't-003'"), _NOT_SIGNED),
        (_edited("UPDATE heads SET version = 3 WHERE stream = 't-003'"), _NOT_SIGNED),
        (_edited("DELETE FROM heads WHERE stream = 't-003'"), _NOT_SIGNED),
        (_edited("UPDATE heads SET leaf = leaf + 1 WHERE stream = 't-003'"), _NOT_SIGNED),
        (_edited("DELETE FROM signed"), _NOT_SIGNED),
        (_edited("UPDATE signed SET line = replace(line, '2030', '2031')"), _NOT_SIGNED),
        (lambda home: (home / TREE_NAME).unlink(), _NOT_SIGNED),
        (lambda home: (home / TREE_NAME).write_bytes(b"SQLite format 3, or not" * 99), _NOT_SIGNED),
        (_put_back(TREE_NAME), _NOT_SIGNED),
        (_put_back(TREE_NAME, "audit.checkpoint"), "is not the one that was made last"),
        (lambda home: (home / "audit.checkpoint").unlink(), "audit.checkpoint is gone"),
        (_put_back("audit.checkpoint"), ""),
        (lambda _: None, ""),
    ],
    ids=[
        *("hash", "version", "stream", "leaf", "no line", "line", "no tree", "no database", "old tree", "both old"),
        *("no checkpoint", "a crash", "nothing"),
    ],
)
async def test_a_tree_that_was_touched_shows(tmp_path: Path, how: Callable[[Path], object], what: str) -> None:
    """What leads to another root than the signed one is found, and signed away by no later checkpoint."""
    clock = ManualClock()
    store, checkpoints = InMemoryPersistenceManager(clock=clock), Checkpoints(tmp_path, whole_below=0)
    author = await filled(store, clock, 20)
    await noted(store, checkpoints, author)
    await noted(store, checkpoints, author, clock.now())
    shutil.copytree(tmp_path, tmp_path / "old")
    await noted(store, Checkpoints(tmp_path, whole_below=0), author, clock.now())
    how(tmp_path)
    found = [one.detail for one in (await verify_store(store, Checkpoints(tmp_path))).faults]
    assert [what in one for one in found] == ([True] if what else []), found
    if not what:
        await noted(store, Checkpoints(tmp_path, whole_below=0), author, clock.now())
        assert (await verify_store(store, Checkpoints(tmp_path))).faults == ()
    elif what == _NOT_SIGNED:
        await store.append(named(3), 4, [author.note()], status=TaskStatus.RUNNING)
        with pytest.raises(AuditBroken):
            await noted(store, Checkpoints(tmp_path, whole_below=0), author)


async def test_a_change_behind_the_time_of_a_row_is_not_signed_away(tmp_path: Path) -> None:
    """Who hides a change from the index leaves the old head signed; the next look at all heads refuses."""
    clock, url = ManualClock(), f"sqlite:///{tmp_path / 'orchestrator.db'}"
    store, checkpoints = open_store(url, clock=clock), Checkpoints(tmp_path, whole_below=0)
    author = await filled(store, clock, 20)
    await noted(store, checkpoints, author)
    clock.advance(600)
    since = clock.now()
    await store.append(named(1), 4, [author.note()], status=TaskStatus.RUNNING)
    await store.close()
    tamper(tmp_path, "UPDATE tasks SET head_hash = 'mine' WHERE task_id = 't-003'")
    store = open_store(url, clock=clock)
    try:
        await noted(store, checkpoints, author, since)
        signed = checkpoints.known()
        assert signed is not None
        assert (signed.streams[named(1)][0], signed.streams["t-003"][1] != "mine") == (5, True)
        assert [one.stream for one in (await verify_store(store, checkpoints)).faults] == ["t-003"]
        with pytest.raises(AuditBroken, match="t-003 no longer holds version 4"):
            await noted(store, checkpoints, author)
    finally:
        await store.close()


async def test_whoever_makes_them_looks_at_what_changed_and_in_turn_at_the_others(tmp_path: Path) -> None:
    """The note of a checkpoint alone is nothing new; a start goes on from the last one."""
    clock = ManualClock()
    store = Counting(clock=clock)
    author = await filled(store, clock)
    service = TaskService(store=store, bus=LocalBus(), clock=clock, authorizer=Anyone())
    keeper = CheckpointKeeper(service, Checkpoints(tmp_path, whole_below=0))
    await keeper.make()
    first = line_of(keeper.checkpoints)
    for _ in range(3):
        clock.advance(60)
        await keeper.make()
    assert line_of(keeper.checkpoints) == first, "nothing was new"
    clock.advance(600)
    await store.append(named(7), 4, [author.note()], status=TaskStatus.RUNNING)
    again = CheckpointKeeper(service, Checkpoints(tmp_path, whole_below=0))
    store.forget()
    await again.make()
    assert line_of(again.checkpoints)["previous"] == sha256(canonical_json(first) + b"\n").hexdigest()
    known = again.checkpoints.known()
    assert known is not None
    assert known.streams[named(7)][0] == 5
    assert (store.asked["heads"], set(store.read_of)) == (0, {named(7), "system"})
    assert (await verify_store(store, Checkpoints(tmp_path))).faults == ()


@pytest.mark.parametrize(
    "edit", ["UPDATE tasks SET version = 3 WHERE task_id = ?", "DELETE FROM tasks WHERE task_id = ?"]
)
async def test_what_no_time_tells_is_found_in_its_turn(tmp_path: Path, edit: str) -> None:
    """A head that went back, or a task that was taken out, is signed by no checkpoint after all were looked at."""
    clock, url = ManualClock(), f"sqlite:///{tmp_path / 'orchestrator.db'}"
    store, checkpoints = open_store(url, clock=clock), Checkpoints(tmp_path, whole_below=0)
    author = await filled(store, clock, 20)
    await noted(store, checkpoints, author)
    clock.advance(600)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "orchestrator.db")) as connection:
        connection.execute(edit, ("t-003",))
        connection.commit()
    store = open_store(url, clock=clock)
    try:
        unseen = await news_of(store, checkpoints, clock.now())
        assert "t-003" not in {*unseen.changed, *unseen.missing}
        news = await news_of(store, checkpoints, clock.now(), "")
        assert ("t-003" in {*news.changed, *news.missing}, news.next) == (True, "")
        assert "t-003" not in {
            *(later := await news_of(store, checkpoints, clock.now(), "t-004")).changed,
            *later.missing,
        }
        with pytest.raises(AuditBroken, match="t-003 no longer holds version 4"):
            await make_checkpoint(store, checkpoints, NOW, news=news)
    finally:
        await store.close()


async def test_tasks_that_came_with_an_earlier_time_are_signed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as by an import: where the few in turn have news, all others are looked at as well."""
    monkeypatch.setattr(checkpoint, "_LOOKED_AT", 10)
    monkeypatch.setattr(checkpoint, "_AT_ONCE", 15)
    clock = ManualClock()
    store, checkpoints = Counting(clock=clock), Checkpoints(tmp_path, whole_below=0)
    author = await filled(store, clock, 5)
    await noted(store, checkpoints, author)
    for number in range(5, MANY):
        await store.create(named(number), [author.submitted()])
    clock.advance(86_400)
    news = await news_of(store, checkpoints, clock.now(), "")
    assert set(news.changed) == {"system", *(named(number) for number in range(5, MANY))}
    assert (news.next, news.missing) == ("", frozenset())
    await make_checkpoint(store, checkpoints, NOW, news=news)
    later = await news_of(store, checkpoints, clock.now(), "")
    assert (set(later.changed), later.next) == (set(), f"{named(8)}\0")


# -- verifications -----------------------------------------------------------------------


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store counts as a large one, of which not all is read unless somebody says so."""
    monkeypatch.setattr(verification, "FULL_UP_TO", 0)


async def _verified(store: Store, directory: Path, *, full: bool | None = None) -> Verification:
    return await verify_store(store, Checkpoints(directory), full=full)


@pytest.mark.usefixtures("large")
async def test_what_was_verified_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for what changed, what belongs to no task, and the few whose turn it is; the answer says how many."""
    clock = ManualClock()
    store = Counting(clock=clock)
    author = await filled(store, clock)
    await noted(store, Checkpoints(tmp_path), author)
    first = await _verified(store, tmp_path)
    assert (first.full, first.read, first.noted, first.noted_at) == (False, MANY + 1, 0, None)
    at = clock.now()
    await store.append(named(7), 4, [author.note()], status=TaskStatus.RUNNING)
    clock.advance(60)
    store.forget()
    second = await _verified(store, tmp_path)
    # Whether the changed one is among the twenty whose turn it is, chance decides.
    assert second.read in {21, 22}
    assert (second.noted, second.noted_at, second.faults) == (MANY + 1 - second.read, at, ())
    assert len(store.read_of) == second.read
    assert {named(7), "system"} <= set(store.read_of)
    assert (second.items, second.streams) == (first.items + 1, first.streams)
    assert (await _verified(store, tmp_path, full=True)).noted == 0
    monkeypatch.undo()
    assert (await _verified(store, tmp_path)).full, "so few are always read"


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("full", [True, None])
async def test_a_verification_holds_a_part_of_the_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool | None
) -> None:
    """However many there are: of heads, rows, lines of the note and heads of the checkpoint."""
    clock = ManualClock()
    store = Counting(clock=clock)
    author = await filled(store, clock, 2 * AT_ONCE + 10)
    await noted(store, Checkpoints(tmp_path, whole_below=0), author)
    await _verified(store, tmp_path)
    store.forget()
    held: Counter[str] = Counter()

    def counted(kind: Any, name: str) -> None:
        real = getattr(kind, name)

        def counting(*given: Any) -> Any:
            found = real(*given)
            held[name] = max(held[name], len(found))
            return found

        monkeypatch.setattr(kind, name, counting)

    counted(Verified, "up_to")
    counted(Checkpoint, "part")
    found = await _verified(store, tmp_path, full=full)
    assert (found.streams, found.faults) == (2 * AT_ONCE + 11, ())
    assert store.asked["heads"] == 0
    # ``system`` comes with the first hundred.
    assert held == {"up_to": AT_ONCE, "part": AT_ONCE + 1}


@pytest.mark.usefixtures("large")
async def test_after_some_verifications_each_task_was_read_again(tmp_path: Path) -> None:
    """So an edit behind a head that stayed is found in the end, and by one that reads all at once."""
    clock = ManualClock()
    await stored(tmp_path, clock)
    async with opened(tmp_path) as store:
        assert (await _verified(store, tmp_path)).faults == ()
    data = "replace(data, 'fix my farm', 'fix my barn')"
    tamper(tmp_path, *(f"UPDATE items SET data = {data} WHERE task_id = 't-{one:03}'" for one in range(MANY)))
    found: set[str] = set()
    for _ in range(3):
        async with opened(tmp_path) as store:
            found |= {one.stream for one in (await _verified(store, tmp_path)).faults}
    assert found == set(map(named, range(MANY)))
    async with opened(tmp_path) as store:
        assert {one.stream for one in (await _verified(store, tmp_path, full=True)).faults} == found


async def stored(directory: Path, clock: ManualClock) -> None:
    """In a file, with a checkpoint."""
    async with opened(directory) as store:
        author = await filled(store, clock)
        await noted(store, Checkpoints(directory), author)


@pytest.mark.usefixtures("large")
@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE tasks SET prompt = 'mine' WHERE task_id = '{task}'", "row"),
        ("DELETE FROM items WHERE task_id = '{task}' AND version = 2", "missing"),
        ("DELETE FROM items WHERE task_id = '{task}'", "cut"),
        ("UPDATE items SET version = 9 WHERE task_id = '{task}' AND version = 4", "misfiled"),
        ("UPDATE tasks SET head_hash = 'mine' WHERE task_id = '{task}'", "rewritten"),
        ("INSERT INTO items SELECT task_id, 5, 'mine', data FROM items WHERE task_id = '{task}' LIMIT 1", "misfiled"),
    ],
)
async def test_what_changes_a_row_or_a_number_is_found_without_reading_all(
    tmp_path: Path, statement: str, what: str
) -> None:
    """Rows are compared, and items counted, each time."""
    await stored(tmp_path, ManualClock())
    async with opened(tmp_path) as store:
        await _verified(store, tmp_path)
        # These are not read again for two turns.
        fresh = (await _verified(store, tmp_path)).read
    assert fresh == 21
    lines = [one.split(b"\t") for one in _note(tmp_path).read_bytes().splitlines() if b"\t" in one]
    task = next(one[0].decode() for one in lines if one[4] == b"2")
    tamper(tmp_path, statement.format(task=task))
    async with opened(tmp_path) as store:
        found = await _verified(store, tmp_path)
    assert what in {one.what for one in found.faults if one.stream == task}


def _note(directory: Path) -> Path:
    return directory / "audit.verified"


@pytest.mark.usefixtures("large")
@pytest.mark.thinned(2)
@pytest.mark.parametrize("how", ["edited", "cut", "of another key", "empty"])
async def test_a_note_that_nobody_signed_is_not_believed(tmp_path: Path, how: str) -> None:
    """Then everything is read anew, and it is said."""
    clock = ManualClock()
    store = InMemoryPersistenceManager(clock=clock)
    author = await filled(store, clock)
    await noted(store, Checkpoints(tmp_path), author)
    await _verified(store, tmp_path)
    text = _note(tmp_path).read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    Checkpoints(other).write(await heads_of(store), clock.now())
    await _verified(store, other)
    forged = {
        "edited": text.replace(b"\t4\t", b"\t5\t", 1),
        "cut": text[: len(text) // 2],
        "of another key": _note(other).read_bytes(),
        "empty": b"",
    }
    _note(tmp_path).write_bytes(forged[how])
    found = await _verified(store, tmp_path)
    assert (found.noted, [one.what for one in found.faults]) == (0, ["forged"])
    assert (await _verified(store, tmp_path)).faults == (), "a new one was made"


@pytest.mark.usefixtures("large")
async def test_without_a_key_nothing_isnoted(tmp_path: Path) -> None:
    """Nobody could believe it."""
    clock = ManualClock()
    store = InMemoryPersistenceManager(clock=clock)
    await filled(store, clock, 3)
    await _verified(store, tmp_path)
    assert not _note(tmp_path).exists()
    assert not Checkpoints(tmp_path).key_path.exists()


@pytest.mark.usefixtures("large")
def test_a_verification_that_was_canceled_is_gone_on_with(tmp_path: Path) -> None:
    """What it had read is noted."""

    class Slow(Counting):
        def __init__(self, *, clock: ManualClock) -> None:
            super().__init__(clock=clock)
            self.stops_at, self.reached = named(AT_ONCE + 5), asyncio.Event()

        async def kept_journals(self, names: Sequence[str], most: int = 500) -> list[KeptJournal]:
            if self.stops_at in names:
                self.reached.set()
                await asyncio.Event().wait()
            return await super().kept_journals(names, most)

    clock = ManualClock()
    store = Slow(clock=clock)

    async def canceled() -> None:
        author = await filled(store, clock, AT_ONCE + 10)
        await noted(store, Checkpoints(tmp_path), author)
        going = asyncio.create_task(_verified(store, tmp_path))
        await store.reached.wait()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going

    asyncio.run(canceled())
    store.stops_at = TaskId("")
    found = asyncio.run(_verified(store, tmp_path))
    # Twenty are read again.
    assert (found.noted, found.faults) == (AT_ONCE - 20, ())


@pytest.mark.parametrize("processes", [0, 2])
async def test_many_tasks_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    """One statement for a hundred tasks; those that are not as written are told as ever. In other processes, too."""
    monkeypatch.setattr(bulk, "_WORTH_IT", 50)
    clock, url = ManualClock(), f"sqlite:///{tmp_path / 'orchestrator.db'}"
    store = open_store(url, clock=clock)
    author = await filled(store, clock, AT_ONCE + 10)
    await noted(store, Checkpoints(tmp_path), author)
    await store.close()
    edits = (
        "UPDATE items SET data = replace(data, 'fact', 'fakt') WHERE task_id = 't-001' AND version = 2",
        "DELETE FROM items WHERE task_id = 't-002' AND version = 4",
        "INSERT INTO items SELECT task_id, 'x', 'x', data FROM items WHERE task_id = 't-003' AND version = 4",
        "INSERT INTO items SELECT task_id, 900, 'x', data FROM items WHERE task_id = 't-004' AND version = 4",
        "UPDATE tasks SET user_id = 'me' WHERE task_id = 't-005'",
        "DELETE FROM blobs",
    )
    with closing(sqlite3.connect(tmp_path / "orchestrator.db")) as connection:
        for edit in edits[:-1]:
            assert connection.execute(edit).rowcount == 1, edit
        connection.commit()
    statements: list[str] = []
    store = SqlitePersistenceManager(tmp_path / "orchestrator.db", clock=clock, trace=statements.append)
    try:
        statements.clear()
        found = await verify_store(store, Checkpoints(tmp_path), full=True, processes=processes)
        assert {one.stream for one in found.faults} == {f"t-00{number}" for number in range(1, 6)}
        assert found.streams == AT_ONCE + 11
        of_items = [one for one in statements if " FROM items WHERE task_id IN " in one]
        assert len(of_items) == 2
        alone = " FROM items WHERE task_id = "
        by_themselves = {one.partition(alone)[2][1:6] for one in statements if alone in one}
        assert by_themselves == {"syste", *(f"t-00{number}" for number in range(1, 6))}
    finally:
        await store.close()
    with closing(sqlite3.connect(tmp_path / "orchestrator.db")) as connection:
        connection.execute(edits[-1])
        connection.commit()
    store = open_store(url, clock=clock)
    try:
        found = await verify_store(store, Checkpoints(tmp_path), full=True, processes=processes)
        assert {"t-001", "t-050", f"t-{AT_ONCE + 9}"} <= {one.stream for one in found.faults if one.what == "blob"}
    finally:
        await store.close()


# -- pages -------------------------------------------------------------------------------


async def _mixed(store: Store, clock: ManualClock) -> list[tuple[str, int]]:
    """Streams whose items interleave, one of them long; all items, the newest first."""
    author = Author(clock)
    versions: Counter[str] = Counter()
    for number in range(700):
        name = named(number * 7 % 13)
        if number % 2:
            await store.record([author.draft(NodeStopped())])
        elif name not in versions:
            await store.create(name, [author.submitted()])
            versions[name] = 1
        else:
            await append(store, name, versions[name], author.note())
            versions[name] += 1
        if number % 5 == 0:
            clock.advance(1)
    found = [item for head in await store.heads() for item in await store.read(TaskId(head.stream))]
    found.sort(key=lambda item: (item.at, item.task_id, item.version), reverse=True)
    return [(item.task_id, item.version) for item in found]


async def _paged(
    read: Callable[..., Any], store: Store, between: Callable[[], Any] | None = None, limit: int = 37, **reach: Any
) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    after: Place | None = None
    while True:
        page = await read(store, Reach(**reach), Wanted(), after, limit)
        assert len(page.items) <= limit
        found += [(item.task_id, item.version) for item in page.items]
        after = page.next
        if after is None:
            return found
        if between is not None:
            await between()


@pytest.mark.thinned(2)
@pytest.mark.parametrize("limit", [1, 37, 1000])
async def test_pages_have_each_item_once_in_both_orders(limit: int) -> None:
    clock = ManualClock()
    store = InMemoryPersistenceManager(clock=clock)
    expected = await _mixed(store, clock)
    if limit > 1:
        assert await _paged(newest_of, store, limit=limit) == expected
        assert await _paged(page_of, store, limit=limit) == sorted(expected)
    theirs = [one for one in expected if one[0] == named(3)]
    assert await _paged(newest_of, store, limit=limit, stream=named(3)) == theirs
    assert await _paged(page_of, store, limit=limit, stream=named(3)) == theirs[::-1]
    assert await _paged(newest_of, store, limit=limit, users=frozenset({"sam"})) == []


async def test_pages_hold_still_while_items_come() -> None:
    """What is new stands before the first page, also where it is of a task that a later page would have had."""
    clock = ManualClock()
    store = InMemoryPersistenceManager(clock=clock)
    expected, author = await _mixed(store, clock), Author(clock)
    versions = {head.stream: head.version for head in await store.heads()}
    turn = iter(range(10**6))

    async def between() -> None:
        clock.advance(1)
        name = named(next(turn) % 13)
        await append(store, name, versions[name], author.note())
        versions[name] += 1
        await store.create(TaskId(f"new-{next(turn)}"), [author.submitted()])

    assert await _paged(newest_of, store, between) == expected


async def test_a_page_costs_what_it_shows(tmp_path: Path) -> None:
    """Of many tasks the first page and the last read a page of items and a piece of the list."""
    clock = ManualClock()
    store = Counting(clock=clock)
    await filled(store, clock, 400)
    first = await newest_of(store, Reach(), Wanted(), None, 50)
    assert sum(store.read_of.values()) <= 200
    assert store.asked["tasks"] <= 200
    assert store.asked["heads"] == 0
    assert first.next is not None
    store.forget()
    last = await newest_of(store, Reach(), Wanted(), Place(named(12), 1), 50)
    assert (len(last.items), last.next) == (48, None)
    assert sum(store.read_of.values()) <= 200
    assert store.asked["tasks"] <= 30
    store.forget()
    await page_of(store, Reach(), Wanted(), Place(named(200), 4), 50)
    assert sum(store.read_of.values()) <= 100
    assert store.asked["heads"] == 0


async def test_a_page_of_a_long_stream_reads_a_piece_of_it() -> None:
    """From its end, and from anywhere in it, whose place is found by halving."""
    clock = ManualClock()
    store, author = Counting(clock=clock), Author(clock)
    for _ in range(3000):
        await store.record([author.draft(NodeStopped())])
        clock.advance(1)
    for after in (None, Place("system", 1500), Place("system", 60)):
        store.forget()
        page = await newest_of(store, Reach("system"), Wanted(), after, 50)
        top = 3000 if after is None else after.version - 1
        assert [item.version for item in page.items] == list(range(top, top - 50, -1))
        assert store.read_of["system"] < 500
    with pytest.raises(NotFound, match="place to go on from is gone"):
        await newest_of(store, Reach(), Wanted(), Place("system", 4000), 50)


async def test_both_ends_of_a_list_come_from_an_index(tmp_path: Path) -> None:
    """SQLite says how it would read: no table is read whole, and nothing is sorted."""
    async with opened(tmp_path):
        pass
    statements = {
        "SELECT task_id, version, head_hash FROM tasks WHERE updated_at >= 5": "tasks_changed (updated_at>?)",
        "SELECT * FROM tasks WHERE (updated_at, task_id) < (5, 'x') AND created_at <= 5 "
        "ORDER BY updated_at DESC, task_id DESC LIMIT 9": "tasks_changed",
        "SELECT task_id, version, head_hash FROM tasks WHERE task_id >= 'a' UNION ALL "
        "SELECT stream, version, head_hash FROM streams WHERE stream >= 'a' ORDER BY 1 LIMIT 9": "(task_id>?)",
        _REFERRING.replace("?", "'t-1'"): "tasks_pinned",
        "SELECT task_id, COUNT(*), MAX(version) FROM items WHERE task_id > 'a' GROUP BY task_id "
        "ORDER BY task_id LIMIT 9": "COVERING INDEX",
    }
    with closing(sqlite3.connect(tmp_path / "orchestrator.db")) as database:
        for statement, index in statements.items():
            plan = "\n".join(row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}"))
            assert index in plan
            assert "TEMP B-TREE" not in plan
            assert "SCAN tasks\n" not in f"{plan}\n"


@pytest.mark.parametrize("users", [None, ["ann"], ["ann", "bob", "cleo"]])
@pytest.mark.parametrize("before", [None, (NOW, TaskId("t-5"))])
async def test_a_list_of_tasks_comes_from_an_index(
    tmp_path: Path, users: list[str] | None, before: tuple[datetime, TaskId] | None
) -> None:
    """Whatever is asked for, in every order: nothing is sorted, and no table is read from its beginning."""
    lists = {
        "newest": sql_lists.list_tasks(None, None, users, before, 9),
        "status": sql_lists.list_tasks(TaskStatus.FAILED, None, users, before, 9),
        "session": sql_lists.list_tasks(None, "s-1", users, before, 9),
        "session and status": sql_lists.list_tasks(TaskStatus.FAILED, "s-1", users, before, 9),
        "changed": sql_lists.last_changed(9, before, None, users),
        "named": sql_lists.heads_from("t-5", 9, users),
    }
    indexes = {
        "newest": "tasks_newest" if users is None else "tasks_by_user (user_id=?",
        "status": "tasks_by_status (status=?" if users is None else "tasks_by_user_and_status (user_id=? AND status=?",
        "session": "tasks_by_session (session_id=?",
        "session and status": "tasks_by_session (session_id=?",
        "changed": "tasks_changed" if users is None else "tasks_changed_by_user (user_id=?",
        "named": "(task_id>?" if users is None else "tasks_named_by_user (user_id=? AND task_id>?",
    }
    async with opened(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / "orchestrator.db")) as database:
        for name, script in lists.items():
            statement, parameters = next(script)
            plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
            reads = [line for line in plan if "tasks" in line]
            assert len(reads) == (1 if users is None or "session" in name else len(users))
            assert all(indexes[name] in line for line in reads), plan
            assert "TEMP B-TREE" not in str(plan)


async def test_a_version_that_is_no_number_is_told_and_not_stumbled_over(tmp_path: Path) -> None:
    """SQLite takes any type: the pages show the task all the same, and no checkpoint is made of it."""
    clock = ManualClock()
    async with opened(tmp_path) as store:
        await filled(store, clock, 2)
    tamper(tmp_path, "UPDATE tasks SET version = 'mine' WHERE task_id = 't-000'")
    async with opened(tmp_path) as store:
        page = await newest_of(store, Reach(), Wanted(), None, 50)
        assert {item.version for item in page.items if item.task_id == named(0)} == {1, 2, 3, 4}
        with pytest.raises(AuditBroken, match="no number for its version"):
            await make_checkpoint(store, Checkpoints(tmp_path), NOW)
        assert (await verify_store(store, full=None)).faults != ()
