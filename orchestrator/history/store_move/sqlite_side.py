"""A SQLite file as one side of a move: read without its lock, or filled under it."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql
from orchestrator.adapters.store.file_lock import FileLock
from orchestrator.adapters.store.objects import odd_values, strange_in_file
from orchestrator.adapters.store.schema import SCHEMA, STAYS, TRAVELS, Table, tables_of
from orchestrator.adapters.store.script import Script
from orchestrator.adapters.store.sqlite import SqlitePersistenceManager
from orchestrator.adapters.store.sqlite_thread import drive, explained
from orchestrator.core.errors import NotFound, StoreBusy
from orchestrator.history.store_move.sides import SQLITE, Row, not_empty, schema_of
from orchestrator.runtime.clock import SystemClock

T = TypeVar("T")

_TABLES: Final = "SELECT name FROM sqlite_master WHERE type = 'table'"
_BUSY_TIMEOUT_S: Final = 5.0
_MOST_DAMAGE: Final = 20


class SqliteSide:
    """One connection with an open transaction. It blocks: a program that moves a store does nothing else."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._path = path

    @property
    def where(self) -> str:
        """The file."""
        return f"{SQLITE}{self._path}"

    async def run(self, script: Script[T]) -> T:
        """Run a transaction script in the transaction that is open."""
        with told(self._path):
            return drive(self._cursor, script)

    async def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """Put rows into a table."""
        places = ", ".join("?" * len(table.columns))
        with told(self._path):
            self._cursor.executemany(f"INSERT INTO {table.name} ({', '.join(table.names)}) VALUES ({places})", rows)

    async def size(self) -> int:
        """What the file takes, with what waits beside it to be put into it."""
        return sum(path.stat().st_size for path in (self._path, Path(f"{self._path}-wal")) if path.exists())

    async def damage(self) -> list[str]:
        """What SQLite finds wrong with its pages and indexes."""
        try:
            rows = self._cursor.execute(f"PRAGMA integrity_check({_MOST_DAMAGE})").fetchall()
        except sqlite3.Error as error:
            return [str(error)]
        return [str(line) for (line,) in rows if line != "ok"]

    async def strange(self) -> list[str]:
        """The objects of the file that are not of its schema."""
        return [one.sentence for one in await self.run(strange_in_file())]

    async def odd(self) -> list[str]:
        """SQLite takes any value in any column; here those are told that we never write."""
        return [one for table in tables_of(SCHEMA).values() for one in await self.run(odd_values(table))]

    async def held_by(self) -> str:
        """The process that has the file's lock."""
        try:
            FileLock(self._path).release()
        except StoreBusy as busy:
            return f"process {busy.message.rpartition(' ')[2].rstrip('.')}"
        except OSError:
            # A user who may not write there cannot look either.
            return ""
        return ""


@asynccontextmanager
async def reading_sqlite(path: Path) -> AsyncIterator[SqliteSide]:
    """The file as it is at this moment; a server that has it open goes on. Raises NotFound."""
    _must_be_there(path)
    with told(path), closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_BUSY_TIMEOUT_S)) as found:
        found.isolation_level = None
        found.execute("BEGIN")
        tables = {table for (table,) in found.execute(_TABLES)}
        if "meta" not in tables:
            raise sealing.not_a_store()
        yield SqliteSide(found, path)


@asynccontextmanager
async def filling_sqlite(path: Path, schema: int) -> AsyncIterator[SqliteSide]:
    """A new or empty file with the tables of a schema; the file is removed where the block fails."""
    undo = _taking_away(path)
    # The store itself makes the file as it wants it, and refuses what is held, or of another program.
    await SqlitePersistenceManager(path, clock=SystemClock()).close()
    lock = FileLock(path)
    try:
        with told(path), closing(sqlite3.connect(path, isolation_level=None, timeout=_BUSY_TIMEOUT_S)) as made:
            made.execute("BEGIN IMMEDIATE")
            side = SqliteSide(made, path)
            await _emptied(side, made)
            drive(made.cursor(), sql.migrate(fresh=True, upto=schema))
            yield side
            drive(made.cursor(), sql.migrate(fresh=False))
            made.execute("COMMIT")
    except BaseException:
        undo()
        raise
    finally:
        lock.release()


async def forward_sqlite(path: Path) -> int:
    """Bring a file's tables to this version's; the schema that it had. Raises NotFound, StoreBusy, NewerSchema."""
    async with reading_sqlite(path) as side:
        before = await schema_of(side)
    if before < SCHEMA:
        await SqlitePersistenceManager(path, clock=SystemClock()).close()
    return before


def _must_be_there(path: Path) -> None:
    if not path.is_file():
        raise NotFound(f"There is no store {SQLITE}{path}.", remedy="Name the one to read with --store.")


def _taking_away(path: Path) -> Callable[[], None]:
    """A function that removes a file that is not there yet; a file that is there it leaves alone."""
    was_there = path.exists()

    def undo() -> None:
        for end in () if was_there else ("", "-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)

    return undo


async def _emptied(side: SqliteSide, made: sqlite3.Connection) -> None:
    """Take away the tables, in which nothing is. Raises InvalidRequest where there is something."""
    for table in TRAVELS:
        if made.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():
            raise not_empty(side.where)
    for table in (*TRAVELS, *STAYS):
        made.execute(f"DROP TABLE {table}")


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Say what SQLite complains of in a sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(error, path) from None
