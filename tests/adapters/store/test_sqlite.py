"""What only the SQLite store has: one file, one process, two threads and a disk that may fill up."""

import asyncio
import os
import sqlite3
import stat
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from orchestrator.adapters.store import open_store
from orchestrator.adapters.store.schema import OLDEST, SCHEMA
from orchestrator.core.errors import InvalidRequest, JournalBroken, LeaseLost, NewerSchema, OrchestratorError, StoreBusy
from orchestrator.core.ports import Store
from orchestrator.core.task.facts import TaskId, ToolStarted
from orchestrator.core.task.items import AgentTaskItem, ItemId, verify_chain
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import GrantRevoked, TokenRevoked
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import COMPUTER, Author, append, refused, taken
from tests import ROOT

GOLDEN = sorted((ROOT / "tests" / "golden" / "store").glob("*.sql"))
T1 = TaskId("t1")


@asynccontextmanager
async def opened(path: Path, clock: ManualClock | None = None) -> AsyncIterator[Store]:
    store = open_store(f"sqlite:///{path}", clock=clock or ManualClock())
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process of ``tests.adapters.store.process``, killed at the end by SIGKILL."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.adapters.store.process", *arguments, cwd=ROOT, stdout=pipe, stderr=pipe
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


def modes_in(directory: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}


async def line_of(child: asyncio.subprocess.Process) -> str:
    assert child.stdout is not None
    return (await child.stdout.readline()).decode().strip()


async def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with process("hold", str(path)) as child:
        assert await line_of(child) == "open"
        with pytest.raises(StoreBusy, match=rf"process {child.pid}\."):
            open_store(f"sqlite:///{path}", clock=ManualClock())
    async with opened(path):
        """The holder was killed, and with it its lock."""


async def test_a_second_name_of_the_file_is_no_way_around_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    (tmp_path / "alias.db").symlink_to(path)
    async with opened(path):
        with pytest.raises(StoreBusy, match=str(os.getpid())):
            open_store(f"sqlite:///{tmp_path}/alias.db", clock=ManualClock())
    async with opened(tmp_path / "alias.db"):
        """Closing let go of it."""


async def test_leases_of_the_former_process_are_void(tmp_path: Path) -> None:
    clock = ManualClock()
    author = Author(clock)
    async with opened(tmp_path / "store.db", clock) as store:
        await store.create(T1, [author.submitted()])
        old = await taken(store, lease_s=3600)
        await store.claim(old, [COMPUTER])
    async with opened(tmp_path / "store.db", clock) as store:
        await refused(LeaseLost, store.renew(old, 10))
        assert await store.claimant(COMPUTER) == T1
        assert (await taken(store)).token > old.token


async def test_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Nor does it part a grant from its decision, a use from its start or a revocation from its note."""
    path = tmp_path / "store.db"
    acknowledged: dict[tuple[str, int], str] = {}
    for number in range(3):
        async with process("write", str(path), f"round{number}") as child:
            lines = [await line_of(child) for _ in range(200)]
            child.kill()
            assert child.stdout is not None
            lines += (await child.stdout.read()).decode().splitlines()
        for line in lines:
            task_id, version, item_hash = line.split()
            acknowledged[task_id, int(version)] = item_hash
        async with opened(path) as store:
            await _assert_kept(store, acknowledged)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def _assert_kept(store: Store, acknowledged: dict[tuple[str, int], str]) -> None:
    kept: dict[tuple[str, int], str] = {}
    everything: list[AgentTaskItem] = []
    for head in await store.heads():
        items = await store.read(TaskId(head.stream))
        assert verify_chain(items) is None
        assert (head.version, head.hash) == (len(items), items[-1].hash)
        kept.update({(item.task_id, item.version): item.hash for item in items})
        everything += items
    assert acknowledged.items() <= kept.items()
    await _assert_grants_match(store, everything)


async def _assert_grants_match(store: Store, items: list[AgentTaskItem]) -> None:
    """Each grant is there with its decision, used once for each start, and revoked with its note."""
    grants = [grant for item in items if item.fact.kind == "decision_recorded" for grant in item.fact.grants]
    starts = Counter(item.fact.grant_id for item in items if isinstance(item.fact, ToolStarted))
    revoked = {item.fact.grant_id for item in items if isinstance(item.fact, GrantRevoked)}
    listed = await store.list_grants()
    assert grants, "some were given before the process was killed"
    assert sorted(one.grant.grant_id for one in listed) == sorted(one.grant_id for one in grants)
    assert {one.grant.grant_id: one.uses for one in listed if one.uses} == starts
    assert all(one.grant.max_uses is None or one.uses <= one.grant.max_uses for one in listed)
    assert {one.grant.grant_id for one in listed if one.revoked} == revoked


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
async def test_a_full_disk_is_told_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    async with process("fill", str(tmp_path / "store.db")) as child:
        _, errors = await child.communicate()
    assert child.returncode == 0, errors.decode()


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my shopping list\n" * 100)
    with pytest.raises(OrchestratorError, match="no SQLite database") as refusal:
        open_store(f"sqlite:///{path}", clock=ManualClock())
    assert refusal.value.remedy
    assert path.read_text() == "my shopping list\n" * 100


async def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    for statement in ("CREATE TABLE photos (name)", "CREATE TABLE meta (name TEXT, value TEXT)"):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
        with pytest.raises(InvalidRequest, match="another program"):
            open_store(f"sqlite:///{path}", clock=ManualClock())


async def test_damage_inside_the_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    clock = ManualClock()
    async with opened(path, clock) as store:
        author = Author(clock)
        await store.create(T1, [author.submitted(), *(author.note("x" * 900) for _ in range(200))])
    whole = path.read_bytes()
    path.write_bytes(whole[: 70 * 4096] + b"\xa5" * (len(whole) - 70 * 4096))
    async with opened(path, clock) as store:
        refusal = await refused(OrchestratorError, store.read(T1))
        assert "damaged" in refusal.message
        assert "backup" in refusal.remedy


@pytest.mark.parametrize(("schema", "refusal"), [(99, NewerSchema), (OLDEST - 1, InvalidRequest)])
async def test_a_store_of_a_newer_or_much_older_version_is_refused(
    tmp_path: Path, schema: int, refusal: type[OrchestratorError]
) -> None:
    path = tmp_path / "store.db"
    async with opened(path):
        """Made by this version."""
    before = tables_of(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE meta SET value = '{schema}'")
    with pytest.raises(refusal, match=f"schema {schema}") as told:
        open_store(f"sqlite:///{path}", clock=ManualClock())
    assert "version" in told.value.remedy
    assert tables_of(path) == before


@pytest.mark.parametrize("released", GOLDEN, ids=lambda path: path.stem)
async def test_a_store_of_an_older_version_is_brought_forward(tmp_path: Path, released: Path) -> None:
    """A file as an older release left it, told as SQL: all is there, goes on, and has the tables of today."""
    path = tmp_path / "store.db"
    made_by(released, path)
    clock = ManualClock()
    author = Author(clock)
    async with opened(path, clock) as store:
        rows = {row.task_id: row for row in await store.list_tasks()}
        assert {task_id: (row.status, row.version) for task_id, row in rows.items()} == {
            "t1": (TaskStatus.PAUSED, 5),
            "t2": (TaskStatus.RUNNING, 5),
        }
        for task_id in rows:
            assert verify_chain(await store.read(task_id)) is None
        heads = await store.heads()
        assert [(head.stream, head.version) for head in heads] == [("system", 1), ("t1", 5), ("t2", 5)]
        assert await store.list_grants() == []
        decided = author.decided(author.grant("g1", max_uses=1))._replace(item_id=ItemId("decided"))
        await append(store, T1, 5, decided)
        started = author.started(grant_id="g1")._replace(item_id=ItemId("started"))
        await append(store, T1, 6, started)
        note = author.draft(TokenRevoked(holder_kind="person", name="alice", count=0))
        assert await store.revoke_tokens("person", "alice", note=note) == 1
    async with opened(path, clock) as store:
        assert verify_chain(await store.read(T1)) is None
        assert [head.version for head in await store.heads()] == [2, 7, 5]
        assert [one.uses for one in await store.list_grants()] == [1]
    assert tables_of(path) == tables_of(await empty(tmp_path / "new.db"))


def made_by(released: Path, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(released.read_text("utf-8"))


async def empty(path: Path) -> Path:
    """A store that this version made."""
    async with opened(path):
        return path


def tables_of(path: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


def test_every_schema_before_todays_has_a_file_that_a_release_left() -> None:
    assert {path.stem for path in GOLDEN} >= {f"schema_{number}" for number in range(OLDEST, SCHEMA)}


async def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere" / "store.db", tmp_path):
        with pytest.raises(OrchestratorError) as refusal:
            open_store(f"sqlite:///{path}", clock=ManualClock())
        assert str(path) in refusal.value.message
        assert refusal.value.remedy


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
async def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db"):
        assert modes_in(tmp_path) == {0o600}


@pytest.mark.parametrize("url", ["mysql://bob:secret@host/db", "sqlite://", "sqlite:///", "sqlite:///:memory:", ""])
def test_other_urls_are_refused_without_showing_passwords(url: str) -> None:
    with pytest.raises(InvalidRequest, match="No store") as refusal:
        open_store(url, clock=ManualClock())
    assert "sqlite:///relative/file.db" in refusal.value.remedy
    assert "secret" not in str(refusal.value)


async def test_relative_and_absolute_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url, name in (("sqlite:///here.db", "here.db"), (f"sqlite:///{tmp_path}/there.db", "there.db")):
        store = open_store(url, clock=ManualClock())
        await store.close()
        assert (tmp_path / name).exists()


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_an_item_that_is_changed_after_a_task_was_read_is_found(tmp_path: Path, version: int) -> None:
    """Also one that was interpreted before, although it keeps its hash; a task that only grew is read to its end."""
    author, path = Author(ManualClock()), tmp_path / "a.db"
    async with opened(path) as store, opened(tmp_path / "other.db") as other:
        first = [author.submitted(), author.note("one")]
        for one in (store, other):
            await one.create(T1, first)
        for _ in range(3):
            assert (await store.load(T1)) is not None
        later = author.note("two")
        for one in (store, other):
            await append(one, T1, 2, later)
        assert await store.load(T1) == await other.load(T1)
        with closing(sqlite3.connect(path)) as database, database:
            later_at = """UPDATE items SET data = REPLACE(data, '"at":"2', '"at":"3') WHERE version = ?"""
            assert database.execute(later_at, (version,)).rowcount == 1
        await refused(JournalBroken, store.load(T1))
