"""A PostgreSQL database as one side of a move: read in one snapshot, or filled in one transaction."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql
from orchestrator.adapters.store.objects import strange_on_server
from orchestrator.adapters.store.postgres import MIGRATING, TABLES, PostgresPersistenceManager
from orchestrator.adapters.store.postgres_dialect import drive, explained, kept, not_connected
from orchestrator.adapters.store.postgres_links import connect
from orchestrator.adapters.store.schema import STAYS, TRAVELS, Table
from orchestrator.adapters.store.script import Script
from orchestrator.core.errors import NotFound
from orchestrator.history.store_move.sides import Row, asked, not_empty, schema_of
from orchestrator.runtime.postgresql.sessions import must_give_sessions, place

T = TypeVar("T")

_SETTINGS: Final = {
    # A large store may take long; a wait for other connections is told soon.
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "5000",
    "application_name": "cc-orchestrator store",
}
_PATIENCE_S: Final = 1.0
"""Somebody waits at the terminal: a server that is away is told at once."""
_OTHERS: Final = """SELECT COUNT(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""
_SIZE: Final = "SELECT pg_database_size(current_database())"


class PostgresSide:
    """One connection with an open transaction."""

    def __init__(self, connection: Any, where: str) -> None:
        self._connection = connection
        self._where = where

    @property
    def where(self) -> str:
        """Server and database."""
        return f"postgresql://{self._where}"

    async def run(self, script: Script[T]) -> T:
        """Run a transaction script in the transaction that is open."""
        with told(self._where):
            return await drive(self._connection, script)

    async def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """Put rows into a table, by COPY."""
        with told(self._where):
            await self._connection.copy_records_to_table(
                table.name, columns=table.names, records=[tuple(map(kept, row)) for row in rows]
            )

    async def size(self) -> int:
        """What the database takes."""
        rows = await self.run(asked(_SIZE))
        return int(rows[0][0])

    async def damage(self) -> list[str]:
        """The server looks after its files itself."""
        return []

    async def strange(self) -> list[str]:
        """Objects that touch the tables and are not of their schema."""
        return [one.sentence for one in await self.run(strange_on_server())]

    async def odd(self) -> list[str]:
        """The server keeps to the types of its columns; other faults are found row by row."""
        return []

    async def held_by(self) -> str:
        """How many others are connected to the database."""
        rows = await self.run(asked(_OTHERS))
        many = int(rows[0][0])
        return "" if not many else "1 other connection" if many == 1 else f"{many} other connections"


@asynccontextmanager
async def reading_postgres(url: str) -> AsyncIterator[PostgresSide]:
    """The database as it is at this moment; nodes go on. Raises NotFound where no store is in it."""
    async with _connected(url) as connection:
        with told(place(url)):
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        side = PostgresSide(connection, place(url))
        tables = {name for (name,) in await side.run(asked(TABLES))}
        if not tables:
            raise NotFound(f"There is no store in {side.where}.", remedy="Name the one to read with --store.")
        if "meta" not in tables:
            raise sealing.not_a_store()
        yield side


@asynccontextmanager
async def filling_postgres(url: str, schema: int) -> AsyncIterator[PostgresSide]:
    """An empty database with the tables of a schema, in a transaction that ends with the block."""
    # The store itself makes its tables, and refuses a server or a database that it cannot work with.
    await _opened_once(url)
    async with _connected(url) as connection:
        side = PostgresSide(connection, place(url))
        with told(place(url)):
            await connection.execute("BEGIN")
            await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATING)
        await _emptied(side)
        await side.run(sql.migrate(fresh=True, upto=schema))
        yield side
        await side.run(sql.migrate(fresh=False))
        with told(place(url)):
            await connection.execute("COMMIT")


async def forward_postgres(url: str) -> int:
    """Bring a database's tables to this version's; the schema that it had. Raises NotFound, NewerSchema."""
    async with reading_postgres(url) as side:
        before = await schema_of(side)
    await _opened_once(url)
    return before


async def _opened_once(url: str) -> None:
    store = PostgresPersistenceManager(url, patience_s=_PATIENCE_S)
    try:
        await store.open()
    finally:
        await store.close()


async def _emptied(side: PostgresSide) -> None:
    """Take away the tables, in which nothing is. Raises InvalidRequest where there is something."""
    for name in TRAVELS:
        if await side.run(asked(f"SELECT 1 FROM {name} LIMIT 1")):
            raise not_empty(side.where)
    for name in (*TRAVELS, *STAYS):
        await side.run(asked(f"DROP TABLE {name}"))


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    try:
        await must_give_sessions(url)
        connection = await connect(url, _SETTINGS)
    except Exception as error:  # noqa: BLE001 - the error of a move becomes a sentence
        raise not_connected(error, place(url)) from None
    try:
        yield connection
    finally:
        # The server rolls back a transaction that was not committed.
        connection.terminate()


@contextmanager
def told(where: str) -> Iterator[None]:
    """Say what PostgreSQL complains of in a sentence."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - an error of another kind is raised as it is
        raise explained(error, where) from None
