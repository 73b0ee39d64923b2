"""A verification of what changed since the last one: what it costs, what it finds, and what it leaves to others."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from orchestrator.adapters.store import open_store
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.core.ports import Store
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import NodeStopped
from orchestrator.core.values import to_us
from orchestrator.history.audit import Checkpoints, Verification, verification, verify_store
from orchestrator.history.audit.verified import Position, PositionFile
from orchestrator.testing import ManualClock
from tests.history.test_audit import opened, tamper
from tests.history.test_audit_onward import MANY, Counting, filled, named, noted, stored


async def _since(store: Store, directory: Path) -> Verification:
    return await verify_store(store, Checkpoints(directory), full=False)


async def test_what_changed_since_costs_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a fixed part, in turn; no table is gone through, and no heads are asked for."""
    monkeypatch.setattr(verification, "IN_TURN", 10)
    clock = ManualClock()
    store = Counting(clock=clock)
    author = await filled(store, clock)
    await noted(store, Checkpoints(tmp_path, whole_below=0), author)
    clock.advance(3600)
    first = await _since(store, tmp_path)
    assert (first.rows, first.read, first.faults) == (True, MANY + 1, ()), "there is nothing to go on from"
    clock.advance(3600)
    read: list[set[str]] = []
    for number in range(2):
        await store.append(named(47), 4 + number, [author.note()], status=TaskStatus.RUNNING)
        await store.record([author.draft(NodeStopped())])
        at = clock.now()
        store.forget()
        found = await _since(store, tmp_path)
        assert (store.asked, store.read_of["system"], found.faults) == (Counter(), 2, ())
        assert (found.rows, found.full, found.heads_sha256, found.items) == (False, False, "", 42 + 5 * number)
        read.append(set(store.read_of))
        clock.advance(3600)
        assert (await _position(tmp_path)).at == at
    # ``system`` is one of the first ten.
    assert read == [{"system", named(47), *map(named, part)} for part in (range(9), range(9, 19))]


@asynccontextmanager
async def _opened(directory: Path, clock: ManualClock) -> AsyncIterator[Store]:
    store = open_store(f"sqlite:///{directory / 'orchestrator.db'}", clock=clock)
    try:
        yield store
    finally:
        await store.close()


async def _position(directory: Path) -> Position:
    found = PositionFile(Checkpoints(directory)).read()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("statement", "turns", "what"),
    [
        ("UPDATE tasks SET user_id = 'me', updated_at = {now} WHERE task_id = 't-055'", 1, "row"),
        ("UPDATE items SET data = replace(data, 'farm', 'barn') WHERE task_id = 't-015'", 2, "edited"),
        ("DELETE FROM items WHERE task_id = 't-015'; DELETE FROM tasks WHERE task_id = 't-015'", 2, "gone"),
        ("DELETE FROM items WHERE task_id = 'system'", 1, "rewritten"),
        ("CREATE INDEX mine ON tasks (prompt)", 1, "schema"),
    ],
    ids=["a row with its time", "an item", "a task", "the end of system", "an index"],
)  # fmt: skip
async def test_what_changed_since_is_found_and_told_until_it_is_put_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, turns: int, what: str
) -> None:
    """At once, where something says that it changed; else in its turn. The next one does not pass over it."""
    monkeypatch.setattr(verification, "IN_TURN", 10)
    clock = ManualClock()
    await stored(tmp_path, clock)
    clock.advance(86_400)
    async with _opened(tmp_path, clock) as store:
        assert (await _since(store, tmp_path)).faults == ()
    tamper(tmp_path, *statement.format(now=to_us(clock.now())).split("; "))
    async with _opened(tmp_path, clock) as store:
        found = [[one.what for one in (await _since(store, tmp_path)).faults] for _ in range(turns + 1)]
    assert [what in one for one in found] == [*[False] * (turns - 1), True, True]
    assert found[: turns - 1] == [[]] * (turns - 1)


async def test_what_changed_since_knows_which_checkpoint_was_made_last(tmp_path: Path) -> None:
    """One that was deleted or put back is told, however long ago it was made."""
    clock = ManualClock()
    store, checkpoints = InMemoryPersistenceManager(clock=clock), Checkpoints(tmp_path)
    author = await filled(store, clock, 3)
    await noted(store, checkpoints, author)
    older = checkpoints.path.read_bytes()
    for _ in range(2):
        await noted(store, checkpoints, author)
    await store.record([author.draft(NodeStopped())])
    await _since(store, tmp_path)
    newest = checkpoints.path.read_bytes()
    for text, found in ((newest, []), (older, ["forged"]), (None, ["forged"]), (newest, [])):
        checkpoints.path.unlink()
        checkpoints.path.write_bytes(text or b"")
        if text is None:
            checkpoints.path.unlink()
        assert [one.what for one in (await _since(store, tmp_path)).faults] == found
        checkpoints.path.touch()


async def test_what_changed_since_says_nothing_of_other_rows(tmp_path: Path) -> None:
    """A token that somebody put in is found by the one that compares all rows."""
    await stored(tmp_path, ManualClock())
    async with opened(tmp_path) as store:
        await _since(store, tmp_path)
    tamper(tmp_path, "INSERT INTO tokens VALUES ('x', 'user', 'mallory', '[\"admin\"]', 1, 0)")
    async with opened(tmp_path) as store:
        assert (await _since(store, tmp_path)).faults == ()
        assert {one.what for one in (await verify_store(store, Checkpoints(tmp_path))).faults} == {"token"}


async def test_a_position_that_nobody_signed_is_not_believed(tmp_path: Path) -> None:
    """Then everything is read, it is said, and a new one is made."""
    clock = ManualClock()
    store = InMemoryPersistenceManager(clock=clock)
    await noted(store, Checkpoints(tmp_path), await filled(store, clock))
    await _since(store, tmp_path)
    path = tmp_path / "audit.position"
    path.write_bytes(path.read_bytes().replace(b'"first":""', b'"first":"z"'))
    found = await _since(store, tmp_path)
    assert (found.rows, [one.what for one in found.faults]) == (True, ["forged"])
    found = await _since(store, tmp_path)
    assert (found.rows, found.faults) == (False, ())
