"""A value that no column of ours holds, in every column: a verification names it and never ends in a defect."""

import asyncio
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from orchestrator.adapters.store import open_store
from orchestrator.adapters.store.column_rules import DECIDES
from orchestrator.adapters.store.schema import SCHEMA, tables_of
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Store, TokenRow
from orchestrator.core.task.facts import TaskId
from orchestrator.core.wire.wire import ComputerId
from orchestrator.runtime.clock import SystemClock
from orchestrator.terminal.cli.audit import offline_verify
from tests.contract.parts import Playing
from tests.contract.test_10_hostile_edits import _begun
from tests.harness.whole_server import Installation
from tests.thinning import thinned

TABLES = tables_of(SCHEMA)
VALUES: Final = {"NULL": None, "bytes": b"\xff\x00", "text": "x", "huge": 2**62, "negative": -7, "real": 0.5}
_SCHEMA: Final = "UPDATE sqlite_master SET sql = ? WHERE name = ? AND type = 'table'"
HARMLESS: Final = {
    ("meta", "name"): "only an older version reads the first row",
    ("meta", "value"): "only an older version reads the first row",
    ("computers", "heard"): "it is heard higher with every answer; a computer below it is frozen",
}
"""Values of the right type that a verification cannot tell from true ones, and why that gives nobody anything."""


def put(path: Path, table: str, column: str, value: object) -> bool:
    """Put the value into one row, also where the column takes no NULL; whether it is another one then."""
    with closing(sqlite3.connect(path)) as database:
        (made,) = database.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    _redefine(path, table, made.replace("NOT NULL", "        "))
    first = f"rowid = (SELECT rowid FROM {table} ORDER BY {column} IS NULL, {', '.join(TABLES[table].key)} LIMIT 1)"
    with closing(sqlite3.connect(path)) as database, database:
        before = database.execute(f"SELECT {column}, typeof({column}) FROM {table} WHERE {first}").fetchone()
        database.execute(f"UPDATE {table} SET {column} = ? WHERE {first}", (value,))
        kinds = "SELECT count(*) FROM {0} WHERE {1} IS ? AND typeof({1}) = ?"
        (left,) = database.execute(kinds.format(table, column), before).fetchone()
    _redefine(path, table, made)
    return before is not None and not (value is None and before[0] is None) and left is not None


def _redefine(path: Path, table: str, sql: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        (version,) = database.execute("PRAGMA schema_version").fetchone()
        database.execute("PRAGMA writable_schema = ON")
        database.execute(_SCHEMA, (sql, table))
        database.execute(f"PRAGMA schema_version = {version + 1}")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory in whose store each table has rows."""
    directory = tmp_path_factory.mktemp("begun")
    asyncio.run(_begun(directory))
    return directory / "data"


ODD: Final = [(table.name, name, kind) for table in TABLES.values() for name in table.names for kind in VALUES]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("odd", thinned(ODD, 7), ids=" ".join)
def test_an_odd_value_is_named(begun: Path, tmp_path: Path, odd: tuple[str, str, str]) -> None:
    """Of each column one kind of value or two; in depth every kind."""
    table, column, kind = odd
    directory = Path(shutil.copytree(begun, tmp_path / "data"))
    if not put(directory / "orchestrator.db", table, column, VALUES[kind]):
        return
    found = offline_verify(directory)
    assert found is not None
    assert found["faults"] or (table, column) in HARMLESS or DECIDES[table][column].fate == "nothing"


IN_LISTS: Final = (
    ("tokens", "roles", None),
    ("tokens", "name", b"\xff"),
    ("computers", "number", "x"),
    ("computers", "heard", 0.5),
    ("backups", "made_by", b"\xff"),
    ("tasks", "task_id", b"\xff\x00"),
    ("tasks", "prompt", None),
    ("tasks", "token", None),
    ("policies", "source", None),
    ("sign_ins", "name", b"\xff"),
)
"""Rows that a list, a lease or a start meets."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def _read_all(path: Path) -> list[str]:
    """What else than an answer or an error that teaches came of each call that reads rows, and of a start."""
    try:
        store = open_store(f"sqlite:///{path}", clock=SystemClock())
    except OrchestratorError:
        return []
    wrong: list[str] = []
    calls: list[Callable[[], Awaitable[object]]] = [
        *(getattr(store, name) for name in dir(store) if name.startswith("list_")),
        store.heads,
        store.count_revoked,
        store.next_due,
        store.policy_in_force,
        store.policy_item,
        store.kept_blobs,
        lambda: store.heads_since(_EPOCH),
        lambda: store.lease("n-2", 5),
        lambda: store.load(TaskId("t-due")),
        lambda: store.wake_waiting([ComputerId("3")]),
        lambda: store.computer(ComputerId("4")),
        lambda: store.claimant(ComputerId("3")),
        lambda: _paged(store),
    ]
    try:
        for call in calls:
            try:
                await call()
            except OrchestratorError as error:
                if not error.remedy:
                    wrong.append(str(error))
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                wrong.append(repr(error))
    finally:
        await store.close()
    return wrong


async def _paged(store: Store) -> None:
    """All heads, a page at a time; what never ends is a failure."""
    first = ""
    for _ in range(1000):
        page = await store.heads_from(first, 5)
        if not page:
            return
        first = page[-1].stream + "\0"
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize(("table", "column", "value"), IN_LISTS)
async def test_no_read_ends_in_a_defect(begun: Path, tmp_path: Path, table: str, column: str, value: object) -> None:
    directory = Path(shutil.copytree(begun, tmp_path / "data"))
    assert put(directory / "orchestrator.db", table, column, value)
    assert await _read_all(directory / "orchestrator.db") == []


@pytest.mark.parametrize(
    ("table", "column", "listed"),
    [("tasks", "prompt", "/v1/tasks"), ("tasks", "version", "/v1/tasks"), ("backups", "made_by", "/v1/backups")],
)
async def test_a_list_says_that_a_row_is_damaged(
    begun: Path, tmp_path: Path, table: str, column: str, listed: str
) -> None:
    installation = Installation(tmp_path / "data")
    assert put(Path(shutil.copytree(begun, installation.directory)) / "orchestrator.db", table, column, b"\xff\x00")
    async with installation.open(Playing(), computer=False) as server:
        answer = await server.ask("GET", listed)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "store_damaged")
        assert "audit verify" in answer.json()["error"]["remedy"]


@pytest.mark.deep
@pytest.mark.parametrize("table", TABLES)
async def test_no_read_ends_in_a_defect_whatever_a_column_holds(begun: Path, tmp_path: Path, table: str) -> None:
    for column in TABLES[table].names:
        for kind, value in {**VALUES, "a date far away": 10**16}.items():
            directory = Path(shutil.copytree(begun, tmp_path / f"{column}-{kind}"))
            put(directory / "orchestrator.db", table, column, value)
            assert await _read_all(directory / "orchestrator.db") == [], (column, kind)
            shutil.rmtree(directory)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("value", ["''", "NULL", "x''", "x'00'", "0.5", "2", "-1", "'x'"])
async def test_only_the_number_0_is_not_revoked(tmp_path: Path, value: str) -> None:
    path = tmp_path / "store.db"
    store = open_store(f"sqlite:///{path}", clock=SystemClock())
    token = TokenRow(
        token_hash="h", kind="person", name="sam", roles=("admin",), created_at=SystemClock().now(), revoked=True
    )
    try:
        await store.add_token(token)
    finally:
        await store.close()
    put(path, "tokens", "revoked", 1)
    with closing(sqlite3.connect(path)) as database:
        (made,) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'tokens'").fetchone()
    _redefine(path, "tokens", made.replace("NOT NULL", "        "))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE tokens SET revoked = {value}")
    _redefine(path, "tokens", made)
    store = open_store(f"sqlite:///{path}", clock=SystemClock())
    try:
        found = await store.find_token("h")
    finally:
        await store.close()
    assert found is not None
    assert found.revoked
