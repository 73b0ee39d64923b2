"""Each column of the store, changed by somebody who can write the database: found, refused, or worth nothing.

The edits are made from the table that docs/audit.md shows (``adapters.store.column_rules``), in a SQLite file and in
PostgreSQL, so that a column that comes later has to say what covers it (promise A3).
"""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from orchestrator.adapters.store import open_store
from orchestrator.adapters.store.column_rules import DECIDES, GONE, HIGH, ROW, Cover, Fate
from orchestrator.adapters.store.schema import SCHEMA, Table, tables_of
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Store
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.system_facts import ComputerFrozen, ComputerReleased, DirectoryChanged, GroupValue
from orchestrator.core.wire.wire import ComputerId
from orchestrator.history.audit import Checkpoints, verification, verify_store
from orchestrator.history.audit import verified as noted
from orchestrator.history.store_move.copy import copy_store
from orchestrator.runtime.clock import SystemClock
from orchestrator.terminal.cli.audit import offline_verify
from orchestrator.testing.drafts import Author
from tests.adapters.store.moving import quiet
from tests.contract.parts import Playing
from tests.contract.test_10_tampering import _lived
from tests.harness.browsing import signed_in
from tests.harness.whole_server import Installation
from tests.servers import PostgresServer, RunServer
from tests.thinning import thinned

TABLES = tables_of(SCHEMA)
BY_KIND = {"TEXT": "'mine'", "BIGINT": "0", "BYTEA": "NULL"}


@dataclass(frozen=True)
class Edit:
    """One statement, and what becomes of it."""

    name: str
    statement: str
    fate: Fate


def edits_of(table: Table) -> Iterator[Edit]:
    """All of a table, as its row in the docs says."""
    columns = {one.name: one for one in table.columns}
    first = " AND ".join(f"{key} = (SELECT MIN({key}) FROM {table.name})" for key in table.key)
    if table.name == "items":
        first = "task_id = (SELECT MIN(task_id) FROM items) AND version = 1"
    if table.name == "meta":
        first = "name LIKE '%schema'"
    for name, cover in DECIDES[table.name].items():
        if name == GONE:
            yield Edit(f"{table.name}: {name}", f"DELETE FROM {table.name}", cover.fate)
        elif name == ROW:
            yield Edit(f"{table.name}: {name}", _put_in(table, cover, first), cover.fate)
        else:
            for value in cover.edits or _usual(columns[name].kind, name, nullable=columns[name].nullable):
                only = first if name in table.key else f"{name} IS DISTINCT FROM {value}"
                statement = f"UPDATE {table.name} SET {name} = {value} WHERE {only}"
                yield Edit(f"{table.name}.{name} = {value}", statement, cover.fate)


def _put_in(table: Table, cover: Cover, first: str) -> str:
    if cover.edits:
        return f"INSERT INTO {table.name} VALUES ({cover.edits[0]})"
    values = ", ".join("'mine'" if name == table.key[0] else name for name in table.names)
    return f"INSERT INTO {table.name} ({', '.join(table.names)}) SELECT {values} FROM {table.name} WHERE {first}"


def _usual(kind: str, name: str, *, nullable: bool) -> tuple[str, ...]:
    if kind == "SMALLINT":
        return (f"1 - {name}",)
    if kind == "BYTEA":
        return ("CAST('x' AS BYTEA)",)
    return ("'mine'",) if kind == "TEXT" and not nullable else (BY_KIND[kind], *(["NULL"] if nullable else [HIGH]))


EDITS = [edit for table in TABLES.values() for edit in edits_of(table)]
LEASED = "a lease for ever"
TOGETHER = [
    Edit(
        LEASED,
        f"UPDATE tasks SET holder = 'mine', due = 1, lease_until = {HIGH}, lease_for = 30000000",
        "found",
    ),
    Edit(
        "a policy of one's own",
        "UPDATE policies SET version = version + 1, sha256 = (SELECT MIN(sha256) FROM blobs)",
        "found",
    ),
    Edit("a computer let in again", "UPDATE computers SET frozen = NULL, frozen_at = NULL, released = 1", "found"),
    Edit(
        "a code of one's own",
        "INSERT INTO tokens VALUES ('mine', 'pairing', 'p-mine', '[\"\", \"\", \"admin\"]', 4102444800000000, 0)",
        "found",
    ),
    Edit(
        "another computer for a code",
        'UPDATE tokens SET roles = \'["", "7", "admin"]\' WHERE kind = \'pairing\'',
        "found",
    ),
]
ALL = [*EDITS, *TOGETHER]
IN_A_FILE = [one for one in ALL if one.name != LEASED]
"""A file has one process: the one that opens it takes every lease."""


def test_each_column_of_each_table_says_what_covers_it() -> None:
    """A migration that adds one has to say it, too."""
    assert {name: [*table.names, ROW, GONE] for name, table in TABLES.items()} == {
        name: list(columns) for name, columns in DECIDES.items()
    }
    assert len(ALL) > 100


# -- the stores --------------------------------------------------------------------------


async def _begun(directory: Path) -> None:
    """A store in which each table has rows: tasks at rest, one that waits, one that is due, a frozen computer."""
    await _lived(directory)
    installation = Installation(directory / "data")
    async with installation.open(Playing(), computer=False) as server:
        await signed_in(server)
        await server.ask("POST", "/v1/pairings", {"computer": "7"})
        hook = {"name": "hook", "kinds": ["frozen"], "url": "http://127.0.0.1:9/"}
        assert (await server.ask("POST", "/v1/notifications/rules", hook)).status_code == 201
        for name in ("4", "5"):
            await installation.connect(server, name)
    store, author = (
        open_store(f"sqlite:///{installation.directory}/orchestrator.db", clock=SystemClock()),
        Author(SystemClock()),
    )
    try:
        for name in ("4", "5"):
            await store.freeze_computer(author.draft(ComputerFrozen(computer=ComputerId(name), reason="disk_restored")))
        await store.release_computer(author.draft(ComputerReleased(computer=ComputerId("5"), by="admin")))
        await store.agree("workspace", "here")
        group = DirectoryChanged(about="group", name="class", value=GroupValue(people=("sam",)))
        await store.set_entry(author.draft(group), expected=0)
        assert await store.take_duty("checkpoints", "n-1", 60)
        await store.create(TaskId("t-waits"), [author.submitted()])
        lease = await store.lease("n-1", 30)
        assert lease is not None
        await store.park(lease, 1, due=None, waiting_for=ComputerId("3"))
        await store.create(TaskId("t-due"), [author.submitted()])
    finally:
        await store.close()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of that store."""
    directory = tmp_path_factory.mktemp("begun")
    asyncio.run(_begun(directory))
    return directory / "data"


@pytest.fixture
def edited(begun: Path, tmp_path: Path) -> Path:
    """A copy of it to change."""
    return Path(shutil.copytree(begun, tmp_path / "data"))


def change(directory: Path, statement: str) -> None:
    """What somebody does who has the file."""
    with closing(sqlite3.connect(directory / "orchestrator.db")) as database, database:
        assert database.execute(statement).rowcount != 0, "it changed something"


def faults_of(directory: Path) -> list[str]:
    """What a verification says."""
    found = offline_verify(directory, full=True)
    assert found is not None
    return [one["detail"] for one in found["faults"]]


def test_an_untouched_store_shows_nothing(begun: Path) -> None:
    assert faults_of(begun) == []


@pytest.mark.thinned(3)
@pytest.mark.parametrize("edit", [one for one in IN_A_FILE if one.fate == "found"], ids=lambda one: one.name)
def test_what_is_edited_in_a_file_is_found(edited: Path, edit: Edit) -> None:
    change(edited, edit.statement)
    assert faults_of(edited) != []


# -- after a verification ----------------------------------------------------------------

BEHIND = frozenset({"items.data = 'mine'", "items.item_id = item_id || 'x'"})
"""Edits of items that leave their number and the row as they are."""
BYTES = frozenset({"blobs", "blob_marks"})


@pytest.fixture(scope="module")
def verified(begun: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same store after a verification that noted what it read."""
    directory = Path(shutil.copytree(begun, tmp_path_factory.mktemp("verified") / "data"))
    found = offline_verify(directory)
    assert found is not None
    assert (found["faults"], found["noted"]) == ([], 0)
    return directory


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    "edit", thinned((one for one in IN_A_FILE if one.fate == "found"), 3), ids=lambda one: one.name
)
def test_what_is_edited_after_a_verification_is_found(
    verified: Path, tmp_path: Path, edit: Edit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the usual one, which reads all; by one that goes on from the last, all but what docs/audit.md names."""
    # None is read again only because it is its turn.
    monkeypatch.setattr(noted, "_AGAIN_AT_LEAST", 0)
    monkeypatch.setattr(verification, "FULL_UP_TO", 0)
    directory = Path(shutil.copytree(verified, tmp_path / "data"))
    change(directory, edit.statement)
    onward, full = (
        offline_verify(Path(shutil.copytree(directory, tmp_path / "onward"))),
        faults_of(directory),
    )
    assert onward is not None
    assert full != []
    table = edit.name.partition(".")[0].partition(":")[0]
    if edit.name in BEHIND or table in BYTES:
        return
    assert onward["faults"] != []


def test_going_on_reads_what_changed_alone(verified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test before means something."""
    monkeypatch.setattr(noted, "_AGAIN_AT_LEAST", 0)
    monkeypatch.setattr(verification, "FULL_UP_TO", 0)
    found = offline_verify(Path(shutil.copytree(verified, tmp_path / "data")))
    assert found is not None
    assert (found["faults"], found["read"], found["noted"] > 2) == ([], 1, True)


# -- what is refused, and what is worth nothing ------------------------------------------


@pytest.mark.thinned(2)
@pytest.mark.parametrize("edit", [one for one in ALL if one.fate == "refused"], ids=lambda one: one.name)
async def test_what_is_no_store_of_ours_is_not_opened(edited: Path, edit: Edit) -> None:
    change(edited, edit.statement)
    with pytest.raises(OrchestratorError):
        await _heads(f"sqlite:///{edited}/orchestrator.db")


async def _heads(url: str) -> None:
    store = open_store(url, clock=SystemClock())
    try:
        await store.heads()
    finally:
        await store.close()


@pytest.mark.thinned(4)
@pytest.mark.parametrize("edit", [one for one in ALL if one.fate == "nothing"], ids=lambda one: one.name)
def test_what_is_worth_nothing_changes_nothing(begun: Path, edited: Path, edit: Edit) -> None:
    """The endpoints answer the same, and the task that is due is gone on with."""
    as_it_was = asyncio.run(_answers(Path(shutil.copytree(begun, edited.parent / "as it was"))))
    change(edited, edit.statement)
    assert faults_of(edited) == []
    assert asyncio.run(_answers(edited)) == as_it_was


async def _answers(directory: Path) -> list[object]:
    installation = Installation(directory)
    async with installation.open(Playing(), computer=False) as server:
        await server.ended("t-due")
        paths = ("/v1/tasks/t-due", "/v1/grants", "/v1/tokens", "/v1/policy", "/v1/computers")
        told = [(await server.ask("GET", path)).json() for path in paths]
        told[-1]["computers"] = [
            {name: one for name, one in each.items() if name in _OF_COMPUTERS} for each in told[-1]["computers"]
        ]
        return [{name: one for name, one in each.items() if name in _STEADY} for each in told]


_STEADY = frozenset({"status", "grants", "tokens", "version", "policy_version", "alert", "computers"})
_OF_COMPUTERS = frozenset({"computer", "online", "state", "frozen", "owner", "belongs_to", "node"})
"""The rest is what a computer said last, which lists show as its seat has it (``column_rules``)."""


# -- PostgreSQL --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moved(begun: Path, postgres_of_run: RunServer) -> str:
    """The same store in a database, which is the template of each that is changed."""

    async def move() -> str:
        server = postgres_of_run.get()
        name = await server.new_database()
        await copy_store(f"sqlite:///{begun}/orchestrator.db", server.url(name), quiet)
        store = open_store(server.url(name), clock=SystemClock())
        try:
            assert await store.take_duty("checkpoints", "n-1", 60)
        finally:
            await store.close()
        # Seats stay where they were; here a computer has come and gone since.
        await server.execute("INSERT INTO seats VALUES ('3', 'n-1', 1, '{}', 1)", database=name)
        return name

    return asyncio.run(move())


@asynccontextmanager
async def _copied(server: PostgresServer, template: str, statement: str) -> AsyncIterator[Store]:
    """A copy of a database, changed, and open."""
    name = f"{template}_copy"
    admin = await asyncpg.connect(server.url("postgres"))
    try:
        await admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        other = await asyncpg.connect(server.url(name))
        try:
            done = await other.execute(statement)
            assert not done.endswith(" 0"), "it changed something"
        finally:
            await other.close()
        store = open_store(server.url(name), clock=SystemClock())
        try:
            yield store
        finally:
            await store.close()
    finally:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.close()


@pytest.mark.thinned(4)
@pytest.mark.parametrize("edit", thinned(ALL, 4), ids=lambda one: one.name)
async def test_what_is_edited_in_a_server_shows_as_in_a_file(
    begun: Path, moved: str, postgres_of_run: RunServer, edit: Edit
) -> None:
    """Each fourth edit; in depth each."""
    async with _copied(postgres_of_run.get(), moved, edit.statement) as store:
        if edit.fate == "refused":
            with pytest.raises(OrchestratorError):
                await store.heads()
            return
        found = await verify_store(store, Checkpoints(begun))
        assert (found.faults != ()) == (edit.fate == "found")
