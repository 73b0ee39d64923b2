"""What somebody puts beside the tables: found by a verification, which changes nothing, and refused at a start."""

import asyncio
import hashlib
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from orchestrator.adapters.store import open_store
from orchestrator.core.errors import OrchestratorError, StoreDamaged
from orchestrator.core.task.facts import TaskId
from orchestrator.history.store_move.copy import copy_store
from orchestrator.history.store_move.inspection import check_store_at
from orchestrator.runtime.clock import SystemClock
from orchestrator.terminal.cli.audit import offline_verify
from orchestrator.testing.drafts import Author
from tests.adapters.store.moving import quiet
from tests.contract.parts import Playing
from tests.harness.whole_server import Installation
from tests.servers import RunServer

TRIGGER = """CREATE TRIGGER evil AFTER INSERT ON items WHEN NEW.data LIKE '%node_started%'
    BEGIN UPDATE tokens SET roles = '["admin"]'; END"""
VIEW = "ALTER TABLE tokens RENAME TO tokens0; CREATE VIEW tokens AS SELECT * FROM tokens0"
SWAPPED = """DROP INDEX tasks_held; CREATE INDEX tasks_held ON tasks (task_id) WHERE holder = 'nobody';
    PRAGMA writable_schema = ON;
    UPDATE sqlite_master SET sql = 'CREATE INDEX tasks_held ON tasks (task_id) WHERE holder IS NOT NULL'
        WHERE name = 'tasks_held'"""
OTHER = "DROP INDEX tasks_newest; CREATE INDEX tasks_newest ON tasks (task_id)"
COLUMN = "ALTER TABLE tokens ADD COLUMN mine TEXT"
TABLE = "CREATE TABLE mine (x TEXT)"
HARMLESS = "CREATE INDEX mine ON tasks (user_id)"
LYING = """CREATE INDEX mine ON tasks (lower(user_id) || 'x'); PRAGMA writable_schema = ON;
    UPDATE sqlite_master SET sql = 'CREATE INDEX mine ON tasks (user_id)' WHERE name = 'mine'"""


async def _made(path: Path, *, leased: bool = False) -> None:
    store, author = open_store(f"sqlite:///{path}", clock=SystemClock()), Author(SystemClock())
    try:
        await store.create(TaskId("t-one"), [author.submitted()])
        assert not leased or await store.lease("n-1", 30)
    finally:
        await store.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a store in which one task is leased."""
    asyncio.run(_made(tmp_path / "orchestrator.db", leased=True))
    return tmp_path


def change(directory: Path, script: str) -> None:
    """What somebody does who has the file."""
    with closing(sqlite3.connect(directory / "orchestrator.db")) as database:
        database.executescript(script)


def faults_of(directory: Path) -> list[str]:
    """What a verification says."""
    found = offline_verify(directory)
    assert found is not None
    return [one["detail"] for one in found["faults"]]


async def _opened(url: str) -> None:
    store = open_store(url, clock=SystemClock())
    try:
        await store.heads()
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("script", "name"),
    [
        (TRIGGER, "trigger evil of items"),
        (VIEW, "view tokens"),
        (OTHER, "index tasks_newest of tasks is not defined"),
        (COLUMN, "table tokens is not defined"),
        (TABLE, "table mine"),
    ],
)
async def test_what_is_not_of_the_schema_is_found_and_refused(data: Path, script: str, name: str) -> None:
    change(data, script)
    assert any(name in one for one in await asyncio.to_thread(faults_of, data))
    assert any(name in one for one in (await check_store_at(f"sqlite:///{data}/orchestrator.db")).faults)
    with pytest.raises(OrchestratorError, match="changed from outside") as refused:
        await _opened(f"sqlite:///{data}/orchestrator.db")
    assert name in refused.value.message
    assert "audit verify" in refused.value.remedy


@pytest.mark.parametrize(
    "change",
    ["CREATE TRIGGER evil AFTER INSERT ON items BEGIN SELECT 1; END", "DROP INDEX tasks_newest"],
)
async def test_what_is_put_there_while_it_is_served_is_found_by_the_server(tmp_path: Path, change: str) -> None:
    installation = Installation(tmp_path / "data")
    async with installation.open(Playing(), computer=False) as server:
        assert (await server.ask("GET", "/v1/audit/verify")).json()["faults"] == []
        with closing(sqlite3.connect(installation.directory / "orchestrator.db")) as database:
            database.executescript(change)
        (fault,) = (await server.ask("GET", "/v1/audit/verify")).json()["faults"]
        assert (fault["what"], change.split()[2] in fault["detail"]) == ("schema", True)


async def test_a_value_that_is_put_there_while_it_is_served_is_found_by_the_server(tmp_path: Path) -> None:
    """SQLite takes any value in any column: this one ends a token, and no item says so."""
    installation = Installation(tmp_path / "data")
    async with installation.open(Playing(), computer=False) as server:
        await server.person("amy", "submitter")
        with closing(sqlite3.connect(installation.directory / "orchestrator.db")) as database, database:
            database.execute("UPDATE tokens SET revoked = x'' WHERE name = 'amy'")
        found = (await server.ask("GET", "/v1/audit/verify")).json()["faults"]
        assert ("damage", True) in [(one["what"], "revoked of tokens" in one["detail"]) for one in found]


async def test_a_column_that_is_gone_is_no_defect(tmp_path: Path) -> None:
    """The answer says what to do, and the verification names the table."""
    installation = Installation(tmp_path / "data")
    async with installation.open(Playing(), computer=False) as server:
        with closing(sqlite3.connect(installation.directory / "orchestrator.db")) as database:
            database.executescript("ALTER TABLE computers DROP COLUMN released")
        answer = await server.ask("GET", "/v1/computers")
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "store_damaged")
        assert "audit verify --data-dir" in answer.json()["error"]["remedy"]


def test_a_schema_that_is_no_number_is_no_defect(data: Path) -> None:
    change(data, "UPDATE meta SET value = x'00' WHERE name LIKE '%schema'")
    with pytest.raises(StoreDamaged, match="does not write"):
        offline_verify(data)


async def test_an_index_more_or_less_is_told_and_stops_nothing(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    change(data, f"{HARMLESS}; DROP INDEX tasks_newest")
    assert await asyncio.to_thread(faults_of, data) == [
        "The index mine of tasks is not one of this store.",
        "The index tasks_newest of tasks is not there.",
    ]
    await _opened(f"sqlite:///{data}/orchestrator.db")
    assert "index mine of tasks" in caplog.text


async def test_an_index_that_lies_is_refused(data: Path) -> None:
    change(data, LYING)
    assert any("damaged" in one for one in await asyncio.to_thread(faults_of, data))
    with pytest.raises(OrchestratorError, match="damaged, or somebody changed it"):
        await _opened(f"sqlite:///{data}/orchestrator.db")


def test_an_index_whose_definition_was_swapped_is_found(data: Path) -> None:
    change(data, "UPDATE tasks SET holder = 'n-1'")
    change(data, SWAPPED)
    assert any("tasks_held" in one for one in faults_of(data))


def test_flipped_bytes_are_found(data: Path) -> None:
    change(data, "PRAGMA journal_mode = DELETE")
    path = data / "orchestrator.db"
    content = bytearray(path.read_bytes())
    page = int.from_bytes(content[16:18], "big")
    content[page * 2 : page * 2 + 12] = b"\xff" * 12
    path.write_bytes(content)
    assert faults_of(data) != []


@pytest.mark.parametrize(("schema", "told"), [("1", "of a version before 0.6"), ("7", "changed from outside")])
async def test_another_schema_than_the_tables_have_is_told(data: Path, schema: str, told: str) -> None:
    change(data, f"UPDATE meta SET value = '{schema}' WHERE name LIKE '%schema'")
    with pytest.raises(OrchestratorError, match=told) as refused:
        await _opened(f"sqlite:///{data}/orchestrator.db")
    assert "Report it" not in str(refused.value)


def test_a_verification_changes_no_byte(data: Path, tmp_path: Path) -> None:
    """Also where a process that was killed left its writes beside the file."""
    with closing(sqlite3.connect(data / "orchestrator.db")) as database:
        database.executescript("PRAGMA journal_mode = WAL; UPDATE agreed SET name = name")
        database.execute("UPDATE tasks SET priority = priority")
        database.commit()
        killed = Path(shutil.copytree(data, tmp_path / "killed"))
    for directory in (killed, data):
        before = _digests(directory)
        faults_of(directory)
        assert _digests(directory) == before


def _digests(directory: Path) -> dict[str, str]:
    files = [
        path
        for path in directory.iterdir()
        if path.is_file() and path.name in ("orchestrator.db", "orchestrator.db-wal")
    ]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.stat().st_size}


# -- PostgreSQL --------------------------------------------------------------------------

FUNCTION = """CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN UPDATE tokens SET roles = '["admin"]'; RETURN NEW; END $$;"""


@pytest.mark.parametrize(
    ("script", "name", "stops"),
    [
        (
            f"{FUNCTION} CREATE TRIGGER evil AFTER INSERT ON items FOR EACH ROW EXECUTE FUNCTION evil()",
            "trigger evil",
            True,
        ),
        ("ALTER TABLE tokens RENAME TO tokens0; CREATE VIEW tokens AS SELECT * FROM tokens0", "view tokens", True),
        ("CREATE RULE evil AS ON UPDATE TO tokens DO INSTEAD NOTHING", "rule evil", True),
        ("CREATE POLICY evil ON tokens USING (true)", "row policy evil", True),
        ("CREATE TABLE mine () INHERITS (tokens)", "child table mine", True),
        ("ALTER TABLE tokens ADD COLUMN mine TEXT", "column mine", True),
        ("CREATE INDEX mine ON tasks (user_id)", "index mine", False),
    ],
)
async def test_what_is_not_of_the_schema_is_found_in_a_server(
    data: Path, postgres_of_run: RunServer, script: str, name: str, *, stops: bool
) -> None:
    server = postgres_of_run.get()
    url = server.url(await server.new_database())
    await copy_store(f"sqlite:///{data}/orchestrator.db", url, quiet)
    assert (await check_store_at(url)).faults == ()
    connection = await asyncpg.connect(url)
    await connection.execute(script)
    await connection.close()
    assert any(name in one for one in (await check_store_at(url)).faults)
    if not stops:
        await _opened(url)
        return
    with pytest.raises(OrchestratorError, match="changed from outside") as refused:
        await _opened(url)
    assert name in refused.value.message
