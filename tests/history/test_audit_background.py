"""The verification in the background: it reads what changed and a fixed part, and finds what was changed."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from orchestrator.adapters.store import open_store
from orchestrator.core.ports import KeptJournal
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import NodeStopped
from orchestrator.history.audit import Background, Checkpoints, make_checkpoint
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import Author
from tests.core.journal import NOW
from tests.history.test_audit_onward import Counting, filled, named

TASKS = 30


class Alone:
    """The one node."""

    mine = True

    async def take(self, name: str, for_s: float) -> bool:
        return self.mine

    async def leave(self, name: str) -> None:
        self.mine = False


async def _counted(tmp_path: Path) -> tuple[Counting, Author, ManualClock, Background]:
    clock = ManualClock()
    store = Counting(clock=clock)
    author = await filled(store, clock, TASKS)
    checkpoints = Checkpoints(tmp_path, whole_below=0)
    await store.record([author.draft(await make_checkpoint(store, checkpoints, NOW))])
    clock.advance(3600)
    return store, author, clock, Background(store, Checkpoints(tmp_path), Alone(), in_turn=10)


async def test_a_look_reads_what_changed_and_the_next_ones_in_turn(tmp_path: Path) -> None:
    """Each task is read again after some looks; of the system stream only what came since."""
    store, author, clock, background = await _counted(tmp_path)
    await background.look()
    read: list[set[str]] = []
    for number in range(3):
        await store.append(named(7), 4 + number, [author.note()], status=TaskStatus.RUNNING)
        await store.record([author.draft(NodeStopped())])
        store.forget()
        state = await background.look()
        assert store.read_of["system"] == 2, "the last one that was verified, and the new one"
        read.append(set(store.read_of) - {"system"})
        clock.advance(3600)
    names = [named(number) for number in range(TASKS)]
    # ``system`` is one of the first ten.
    assert read == [{named(7), *names[9:19]}, {named(7), *names[19:29]}, {named(7), names[29]}]
    assert (state.here, state.working, state.rounds, state.round_read, state.faults) == (True, False, 1, 31, ())
    assert background.alerts() == []


async def test_one_node_does_it(tmp_path: Path) -> None:
    """The others read nothing, and say that they do not do it."""
    store, _, _, background = await _counted(tmp_path)
    background.duties.mine = False  # type: ignore[attr-defined]
    store.forget()
    assert (await background.look()).here is False
    assert not store.read_of


async def test_a_look_that_is_canceled_is_made_again(tmp_path: Path) -> None:
    """What it was to read is read by the next one."""
    store, _, _, background = await _counted(tmp_path)
    reached, go = asyncio.Event(), asyncio.Event()
    real = store.kept_journals

    async def slow(names: Sequence[str], most: int = 500) -> list[KeptJournal]:
        reached.set()
        await go.wait()
        return await real(names, most)

    store.kept_journals = slow  # type: ignore[method-assign]
    assert background.cancel() is False
    looking = asyncio.create_task(background.look())
    await reached.wait()
    assert (background.state.working, background.state.of) == (True, TASKS)
    assert background.cancel() is True
    state = await looking
    assert (state.working, state.looked_at, state.round_read) == (False, None, 0)
    go.set()
    state = await background.look()
    assert (state.done, state.round_read) == (TASKS, 10)


@asynccontextmanager
async def _edited(tmp_path: Path, statement: str) -> AsyncIterator[Background]:
    clock, url = ManualClock(), f"sqlite:///{tmp_path / 'orchestrator.db'}"
    store = open_store(url, clock=clock)
    author = await filled(store, clock, TASKS)
    for _ in range(2):
        checkpoints = Checkpoints(tmp_path, whole_below=0)
        await store.record([author.draft(await make_checkpoint(store, checkpoints, NOW))])
    await store.close()
    path = tmp_path / ("audit.heads" if "heads" in statement.split()[1:3] else "orchestrator.db")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.executescript(statement)
        connection.commit()
    clock.advance(3600)
    store = open_store(url, clock=clock)
    try:
        yield Background(store, Checkpoints(tmp_path), Alone(), in_turn=10)
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE items SET data = replace(data, 'farm', 'harm') WHERE task_id = 't-003'", ("t-003", "edited")),
        ("UPDATE tasks SET user_id = 'me' WHERE task_id = 't-025'", ("t-025", "row")),
        ("DELETE FROM items WHERE task_id = 't-025' AND version = 4", ("t-025", "cut")),
        ("DELETE FROM items WHERE task_id = 't-025'; DELETE FROM tasks WHERE task_id = 't-025'", ("t-025", "gone")),
        (
            "UPDATE items SET data = replace(data, 'kind', 'kinf') WHERE task_id = 'system' AND version = 3",
            ("system", "unreadable"),
        ),
        ("UPDATE heads SET version = 1 WHERE stream = 't-025'", ("", "forged")),
        ("UPDATE tasks SET pinned = 0 WHERE task_id = 't-003'", None),
    ],
    ids=["item", "row", "end", "task", "system", "checkpoint", "nothing"],
)
async def test_what_was_changed_is_found_in_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, found: tuple[str, str] | None
) -> None:
    """It is told until the stream is read again and is as written."""
    monkeypatch.setattr("orchestrator.history.audit.onward._BETWEEN_S", 0.0)
    async with _edited(tmp_path, statement) as background:
        for _ in range(4):
            state = await background.look()
        assert {(fault.stream, fault.what) for fault in state.faults} == ({found} if found else set())
        assert len(background.alerts()) == bool(found)
