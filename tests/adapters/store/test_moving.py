"""A store moves between engines without loss, whole or not at all."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest
from hypothesis import given, settings

from orchestrator.adapters.bus import installation_of
from orchestrator.adapters.store import open_store, postgres_links
from orchestrator.adapters.store.schema import SCHEMA, travelling
from orchestrator.core.errors import InvalidRequest, NotFound, OrchestratorError, StoreBusy
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import ItemId, verify_chain
from orchestrator.history.store_move import sides as moved_rows
from orchestrator.history.store_move.copy import bring_forward, copy_store
from orchestrator.history.store_move.inspection import check_store_at
from orchestrator.history.store_move.sides import pages_of, reading, shown
from orchestrator.runtime.clock import SystemClock
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import Author, append
from tests.adapters.store.moving import Drawn, exported, filled, imported, quiet, rows_of, stores, without_header
from tests.adapters.store.test_sqlite import GOLDEN, made_by
from tests.servers import PASSWORD, PostgresServer, RunServer

NOBODY = "postgresql://alice:xyzzy-plugh@127.0.0.1:1/cc"


@pytest.fixture(params=["sqlite", "postgresql"])
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where nothing is yet, of each engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'target.db'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.url(await server.new_database())


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A store as a release left it."""
    made_by(GOLDEN[-1], tmp_path / "source.db")
    return f"sqlite:///{tmp_path / 'source.db'}"


@pytest.mark.deep
@settings(max_examples=6, deadline=None)
@given(drawn=stores())
async def test_the_same_content_gives_the_same_bytes_from_either_engine(
    drawn: Drawn, postgres_of_run: RunServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("drawn")
    postgres_server = postgres_of_run.get()
    there = postgres_server.url(await postgres_server.new_database())
    here, back = (f"sqlite:///{directory}/{name}.db" for name in ("here", "back"))
    await filled(here, drawn)
    dump = await exported(here)
    await imported(there, dump)
    assert await rows_of(there) == {name: list(rows) for name, rows in drawn.items()}
    again = await exported(there)
    assert without_header(again) == without_header(dump)
    await copy_store(there, back, quiet)
    assert await rows_of(back) == await rows_of(here)


@pytest.mark.deep
@pytest.mark.parametrize("released", GOLDEN, ids=lambda path: path.stem)
async def test_an_older_store_goes_on_where_it_was_moved_to(tmp_path: Path, released: Path, target: str) -> None:
    made_by(released, tmp_path / "source.db")
    moved = await copy_store(f"sqlite:///{tmp_path / 'source.db'}", target, quiet)
    assert moved.schema == int(released.stem[-1])
    store = open_store(target, clock=SystemClock())
    try:
        assert verify_chain(await store.read(TaskId("t1"))) is None
        await append(store, TaskId("t1"), 5, Author(ManualClock()).note()._replace(item_id=ItemId("new")))
        assert verify_chain(await store.read(TaskId("t1"))) is None
    finally:
        await store.close()
    assert (await check_store_at(target)).schema == SCHEMA


async def test_a_store_is_put_only_where_nothing_is(source: str, target: str) -> None:
    await copy_store(source, target, quiet)
    before = await exported(target)
    dump = await exported(source)
    with pytest.raises(InvalidRequest, match="is not empty"):
        await imported(target, dump)
    with pytest.raises(InvalidRequest, match="is not empty"):
        await copy_store(source, target, quiet)
    assert without_header(await exported(target)) == without_header(before)


@pytest.mark.deep
async def test_a_store_that_a_server_made_and_nobody_used_is_empty(source: str, target: str) -> None:
    store = open_store(target, clock=SystemClock())
    await store.heads()
    await store.close()
    await copy_store(source, target, quiet)
    assert await rows_of(target) == await rows_of(source)


@pytest.mark.deep
async def test_a_copy_is_another_installation(source: str, target: str) -> None:
    """On one bus the nodes of both keep apart; what else the nodes agreed on moves."""
    store = open_store(source, clock=SystemClock())
    was = await installation_of(store)
    await store.agree("workspace", "w-1")
    await store.close()
    await copy_store(source, target, quiet)
    copy = open_store(target, clock=SystemClock())
    try:
        assert await installation_of(copy) != was
        assert await copy.agree("workspace", "w-2") == "w-1"
    finally:
        await copy.close()


async def test_a_broken_dump_leaves_nothing(source: str, target: str) -> None:
    dump = await exported(source)
    for broken in (dump[:-1], dump[: len(dump) // 2], dump + b"x"):
        with pytest.raises(InvalidRequest, match="is not whole"):
            await imported(target, broken)
    await imported(target, dump)
    assert await rows_of(target) == await rows_of(source)


SPOILED = """CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {} END $$;
    CREATE FUNCTION spoil_tasks() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
        IF tg_tag = 'DROP TABLE' THEN
            CREATE SEQUENCE IF NOT EXISTS dropped;
        ELSIF to_regclass('dropped') IS NOT NULL AND to_regclass('tasks') IS NOT NULL
            AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'spoil') THEN
            CREATE TRIGGER spoil BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION spoil();
        END IF; END $$;
    CREATE EVENT TRIGGER spoil ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'DROP TABLE')
    EXECUTE FUNCTION spoil_tasks()"""
"""A database in which what is moved there as a task is something else when it is read."""


@pytest.mark.deep
@pytest.mark.parametrize("does", ["NEW.prompt := NEW.prompt || ' '; RETURN NEW;", "RETURN NULL;"])
async def test_what_is_not_given_back_as_it_was_is_not_kept(
    source: str, postgres_server: PostgresServer, does: str
) -> None:
    """One byte more, or a row less: nothing stays, and the sentence says so."""
    name = await postgres_server.new_database()
    connection = await asyncpg.connect(postgres_server.url(name))
    try:
        await connection.execute(SPOILED.format(does))
    finally:
        await connection.close()
    dump = await exported(source)
    target = postgres_server.url(name)
    refused = pytest.raises(OrchestratorError, match="does not give back what was put into it; nothing was kept there")
    with refused:
        await copy_store(source, target, quiet)
    with refused:
        await imported(target, dump)
    assert not any((await rows_of(target)).values())


@pytest.mark.deep
async def test_a_copy_that_is_killed_in_the_middle_is_begun_again(source: str, target: str) -> None:
    _end(_process("begun", "tests.adapters.store.moving", source, target))
    moved = await copy_store(source, target, quiet)
    assert moved.rows == sum(map(len, (await rows_of(source)).values()))
    assert await rows_of(target) == await rows_of(source)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A store that another process has open, and its pid."""
    path = tmp_path / "source.db"
    made_by(GOLDEN[-1], path)
    holding = _process("open", "tests.adapters.store.process", "hold", str(path))
    yield f"sqlite:///{path}", holding.pid
    _end(holding)


def _process(said: str, *command: str) -> subprocess.Popen[bytes]:
    """A process that has said what it says first."""
    process = _process_of(*command)
    assert process.stdout is not None
    assert process.stdout.readline().decode() == f"{said}\n"
    return process


def _process_of(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE)


def _end(process: subprocess.Popen[bytes]) -> None:
    """As by kill -9."""
    with process:
        process.kill()


@pytest.mark.deep
async def test_what_a_server_has_open_can_be_read(held: tuple[str, int], tmp_path: Path) -> None:
    url, pid = held
    found = await check_store_at(url)
    assert (found.served_by, found.schema, found.counts["items"]) == (f"process {pid}", SCHEMA, 11)
    await imported(f"sqlite:///{tmp_path / 'one.db'}", await exported(url))
    moved = await copy_store(url, f"sqlite:///{tmp_path / 'two.db'}", quiet)
    assert moved.served_by == f"process {pid}"


@pytest.mark.deep
async def test_what_a_killed_server_left_is_read_whole(tmp_path: Path) -> None:
    """What was acknowledged may be in the WAL only, and nobody has made the index of that anew."""
    path = tmp_path / "killed.db"
    writing = _process_of("tests.adapters.store.process", "write", str(path), "r")
    assert writing.stdout is not None
    acknowledged = [writing.stdout.readline().split() for _ in range(200)]
    _end(writing)
    (tmp_path / "killed.db-shm").unlink(missing_ok=True)
    dump = await exported(f"sqlite:///{path}")
    target = f"sqlite:///{tmp_path / 'target.db'}"
    await imported(target, dump)
    kept = {(row[0], row[1]) for row in (await rows_of(target))["items"]}
    assert kept >= {(task.decode(), int(version)) for task, version, _ in acknowledged}


@pytest.mark.deep
async def test_what_a_server_has_open_is_not_filled(held: tuple[str, int]) -> None:
    url, pid = held
    dump = await exported(url)
    with pytest.raises(StoreBusy, match=f"in process {pid}"):
        await imported(url, dump)


@pytest.mark.deep
async def test_what_is_read_is_of_one_moment_while_others_write(postgres_url: str, source: str) -> None:
    """What is appended after the first rows were read is not among the others."""
    await copy_store(source, postgres_url, quiet)
    store = open_store(postgres_url, clock=SystemClock())
    tables = {table.name: table for table in travelling(SCHEMA)}
    try:
        async with reading(postgres_url) as side:
            tasks = [row async for page in pages_of(side, tables["tasks"]) for row in page]
            await append(store, TaskId("t1"), 5, Author(ManualClock()).note()._replace(item_id=ItemId("new")))
            items = [row async for page in pages_of(side, tables["items"]) for row in page]
    finally:
        await store.close()
    assert (len(tasks), len(items)) == (2, 11)
    assert len((await rows_of(postgres_url))["items"]) == 12


@pytest.mark.deep
async def test_a_statement_may_take_as_long_as_it_takes(
    postgres_url: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To count the rows of a large store, or to make an index of them, is minutes: nobody here gives up before."""
    await copy_store(source, postgres_url, quiet)
    monkeypatch.setattr(postgres_links, "_BEYOND_S", 0.1)
    async with reading(postgres_url) as side:
        assert await side.run(moved_rows.asked("SELECT 1 FROM pg_sleep(0.4)")) == [(1,)]


@pytest.mark.deep
async def test_tables_are_brought_forward(source: str, postgres_url: str) -> None:
    assert await bring_forward(source) == (int(GOLDEN[-1].stem[-1]), SCHEMA)
    assert await bring_forward(source) == (SCHEMA, SCHEMA)
    await copy_store(source, postgres_url, quiet)
    assert await bring_forward(postgres_url) == (SCHEMA, SCHEMA)


async def test_a_store_of_a_version_before_0_6_is_not_read(tmp_path: Path, source: str) -> None:
    with closing(sqlite3.connect(tmp_path / "source.db")) as connection, connection:
        connection.execute("UPDATE meta SET value = '6' WHERE value = '7'")
    for asked in (check_store_at, exported, bring_forward):
        with pytest.raises(InvalidRequest, match=r"schema 6, of a version before 0\.6") as refusal:
            await asked(source)
        assert "version 0.6" in refusal.value.remedy


@pytest.mark.deep
async def test_what_is_not_there_is_told(tmp_path: Path, postgres_url: str, source: str) -> None:
    for url in (f"sqlite:///{tmp_path / 'none.db'}", postgres_url):
        for asked in (check_store_at, exported, bring_forward):
            with pytest.raises(NotFound, match="There is no store"):
                await asked(url)
    assert not (tmp_path / "none.db").exists()
    for url in ("memory:", "mysql://root:secret@db/cc"):
        with pytest.raises(InvalidRequest, match="cannot be moved") as refusal:
            await copy_store(source, url, quiet)
        assert "secret" not in str(refusal.value)


@pytest.mark.deep
async def test_databases_of_other_programs_are_left_alone(
    tmp_path: Path, source: str, postgres_server: PostgresServer
) -> None:
    with closing(sqlite3.connect(tmp_path / "photos.db")) as connection:
        connection.execute("CREATE TABLE photos (name)")
    name = await postgres_server.new_database()
    await postgres_server.execute("CREATE TABLE photos (name TEXT)", database=name)
    for url in (f"sqlite:///{tmp_path / 'photos.db'}", postgres_server.url(name)):
        with pytest.raises(InvalidRequest, match="another program"):
            await copy_store(source, url, quiet)
        with pytest.raises(InvalidRequest, match="another program"):
            await check_store_at(url)
    assert await postgres_server.execute("SELECT * FROM photos", database=name) == []


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://alice:pw@db:5432/cc?sslmode=require&password=pw", "postgresql://db:5432/cc"),
        ("postgresql:///cc?host=/run", "postgresql://a local socket/cc"),
        ("postgresql://alice:p/w@db/cc", "postgresql://this URL"),
        ("sqlite:////var/cc.db", "sqlite:////var/cc.db"),
        ("mysql://root:pw@db/cc", "mysql:…"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, told: str) -> None:
    assert shown(url) == told


async def test_errors_show_no_password(source: str, postgres_server: PostgresServer) -> None:
    assert PASSWORD in NOBODY
    wrong = postgres_server.tcp_url(password="wrong-horse")
    for url in (NOBODY, wrong, postgres_server.tcp_url("nowhere"), f"{NOBODY}[]?port=x"):
        for asked in (check_store_at(url), exported(url), copy_store(source, url, quiet)):
            with pytest.raises(Exception, match=r".") as refusal:
                await asked
            assert "xyzzy" not in str(refusal.value)
            assert "horse" not in str(refusal.value)
