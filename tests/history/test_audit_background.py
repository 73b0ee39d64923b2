"""The verification in the background: it reads what changed and a fixed part, and finds what was changed."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from orchestrator.adapters.bus import LocalBus
from orchestrator.adapters.store import open_store
from orchestrator.core.ports import Bus, KeptJournal, Store
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import NodeStopped
from orchestrator.engine.tasks import TaskService
from orchestrator.history.audit import Checkpoints, make_checkpoint, verify_store
from orchestrator.history.audit.background import SUBJECT, Background
from orchestrator.history.audit.verified import BACKGROUND_NAME, POSITION_NAME, Position, PositionFile
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import Author
from tests.core.journal import NOW
from tests.engine.test_actor import Anyone
from tests.history.test_audit import tamper
from tests.history.test_audit_onward import Counting, filled, named
from tests.waiting import within

TASKS = 30


class Shared(Counting):
    """A store that several nodes have open."""

    shared = True


def _node(store: Store, clock: ManualClock, directory: Path, bus: Bus | None = None, name: str = "alpha") -> Background:
    service = TaskService(store=store, bus=bus or LocalBus(), clock=clock, authorizer=Anyone(), node=name)
    return Background(service, Checkpoints(directory), in_turn=10)


async def _counted(tmp_path: Path, kind: type[Counting] = Counting) -> tuple[Counting, Author, ManualClock, Background]:
    clock = ManualClock()
    store = kind(clock=clock)
    author = await filled(store, clock, TASKS)
    checkpoints = Checkpoints(tmp_path, whole_below=0)
    await store.record([author.draft(await make_checkpoint(store, checkpoints, NOW))])
    clock.advance(3600)
    return store, author, clock, _node(store, clock, tmp_path)


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


async def test_a_start_goes_on_in_turn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A server that is started often comes to the last task, too; a place that nobody signed here is not believed."""
    store, _, clock, background = await _counted(tmp_path)
    await background.look()
    read: list[set[str]] = []
    for _ in range(2):
        store.forget()
        await _node(store, clock, tmp_path).look()
        read.append(set(store.read_of) - {"system"})
    names = [named(number) for number in range(TASKS)]
    assert read == [{*names[9:19]}, {*names[19:29]}]
    # The place of `audit verify --since-last` is another one.
    PositionFile(Checkpoints(tmp_path)).write(Position(at=clock.now(), first="t-025"))
    (tmp_path / POSITION_NAME).replace(tmp_path / BACKGROUND_NAME)
    store.forget()
    await _node(store, clock, tmp_path).look()
    assert names[0] in store.read_of
    assert "begins anew" in caplog.text


async def test_one_node_does_it_and_hears_what_is_asked_of_others(tmp_path: Path) -> None:
    """The others read nothing, say which node does it, and know what it found."""
    store, _, clock, _ = await _counted(tmp_path, Shared)
    bus = LocalBus()
    alpha, beta = _node(store, clock, tmp_path, bus), _node(store, clock, tmp_path, bus, "beta")
    keeping = asyncio.create_task(alpha.keep())
    await alpha.look()
    store.forget()
    assert (await beta.look()).here is False
    assert not store.read_of
    heard = asyncio.Event()
    bus.subscribe(SUBJECT, lambda _: heard.set())
    asked = await beta.wanted()
    assert (asked.here, asked.node) == (False, "alpha")
    await within(heard.wait())
    assert alpha.cancel() is True, "it has begun"
    looking = alpha.begin()
    heard.clear()
    assert (await beta.unwanted()).node == "alpha"
    await within(heard.wait())
    await asyncio.wait((looking,))
    assert looking.cancelled()
    keeping.cancel()
    await asyncio.wait((keeping,))
    assert (await beta.look()).here is True


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
        yield _node(store, clock, tmp_path)
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


async def test_what_was_found_outlives_the_node(tmp_path: Path) -> None:
    """The next start and each other node know it, until the stream is read again and is as written."""
    edit = "UPDATE tasks SET user_id = '{}' WHERE task_id = 't-003'"
    async with _edited(tmp_path, edit.format("me")) as background:
        before = await background.look()
        assert [fault.what for fault in before.faults] == ["row"]
        store, clock = background.service.store, background.service.clock
        assert isinstance(clock, ManualClock)
        after = _node(store, clock, tmp_path)
        await after.service.directory.load()
        assert after.state.faults == before.faults
        assert after.alerts() == background.alerts() != []
        assert (await after.look()).faults == before.faults
        found = (await verify_store(store, Checkpoints(tmp_path))).faults
        assert {fault.what for fault in found} == {"row"}, "the finding is an item and a row that follows from it"
    tamper(tmp_path, edit.format("alice"))
    store = open_store(f"sqlite:///{tmp_path / 'orchestrator.db'}", clock=clock)
    try:
        assert (await _node(store, clock, tmp_path).look()).faults == ()
        assert await store.directory() == []
        assert (await verify_store(store, Checkpoints(tmp_path))).faults == ()
    finally:
        await store.close()
