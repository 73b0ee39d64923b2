"""The two sides of a move: the tables of a store at one moment, and an empty store that is being filled."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol, TypeVar

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store.schema import MIGRATIONS, READ_META, SCHEMA_KEY
from orchestrator.adapters.store.script import Script, of_a_row
from orchestrator.adapters.store.tables import Table, travelling
from orchestrator.core.errors import InvalidRequest, NewerSchema
from orchestrator.history.store_move.rows import Row, asked, count, key_of, page

T = TypeVar("T")
SQLITE: Final = "sqlite:///"
_POSTGRESQL: Final = ("postgresql://", "postgres://")


class Side(Protocol):
    """A store's tables in one transaction, without what a server does with them."""

    @property
    def where(self) -> str:
        """The store as a person is told of it: no password is in it."""

    async def run(self, script: Script[T]) -> T:
        """Run a transaction script in the transaction that is open."""

    async def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """Put rows into a table."""

    async def size(self) -> int:
        """What the store takes on its disk, in bytes."""

    async def damage(self) -> list[str]:
        """What the engine itself finds wrong with its files."""

    async def strange(self) -> list[str]:
        """Which tables, indexes, triggers and views are not those of the store's schema."""

    async def odd(self) -> list[str]:
        """Which columns of today's tables hold what no column of theirs may."""

    async def held_by(self) -> str:
        """Who serves it now, as a person is told, such as ``process 12``; empty: nobody, or nobody can say."""


async def schema_of(side: Side) -> int:
    """How many migrations the store has seen. Raises InvalidRequest where it is none, NewerSchema."""
    rows = await side.run(asked(READ_META, SCHEMA_KEY))
    if not rows:
        raise sealing.not_a_store()
    try:
        schema = int(rows[0][0])
    except (TypeError, ValueError) as error:
        raise of_a_row(error) from None
    if schema > len(MIGRATIONS):
        raise NewerSchema(
            f"The store has schema {schema}; this version knows up to {len(MIGRATIONS)}.",
            remedy="Use a newer version of cc-orchestrator for this store.",
        )
    return schema


async def counts_of(side: Side, schema: int) -> Mapping[str, int]:
    """The rows of each table that moves."""
    return {table.name: await side.run(count(table)) for table in travelling(schema)}


async def pages_of(side: Side, table: Table) -> AsyncIterator[list[Row]]:
    """All rows of a table by its key, some at a time."""
    after: Row | None = None
    while rows := await side.run(page(table, after)):
        found = [
            tuple(bytes(cell) if isinstance(cell, bytearray | memoryview) else cell for cell in row) for row in rows
        ]
        yield found
        after = key_of(table, found[-1])


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Side]:
    """A store as it is at this moment, while others go on working with it. Raises InvalidRequest, NotFound."""
    if is_postgresql(url):
        from orchestrator.history.store_move.postgres_side import reading_postgres

        async with reading_postgres(url) as side:
            yield side
        return
    from orchestrator.history.store_move.sqlite_side import reading_sqlite

    async with reading_sqlite(path_of(url)) as side:
        yield side


@asynccontextmanager
async def filling(url: str, schema: int) -> AsyncIterator[Side]:
    """An empty store with tables of this schema, in a transaction that is kept if the block ends well.

    Its tables are today's once it is kept. Raises InvalidRequest where it is not empty, StoreBusy.
    """
    if is_postgresql(url):
        from orchestrator.history.store_move.postgres_side import filling_postgres

        async with filling_postgres(url, schema) as side:
            yield side
        return
    from orchestrator.history.store_move.sqlite_side import filling_sqlite

    async with filling_sqlite(path_of(url), schema) as side:
        yield side


def is_postgresql(url: str) -> bool:
    """Whether the store is a PostgreSQL database. Raises InvalidRequest where none can be reached from here."""
    if url.startswith(_POSTGRESQL) and find_spec("asyncpg") is None:
        raise InvalidRequest(
            "A PostgreSQL store needs the package asyncpg.", remedy="pip install 'cc-orchestrator[postgresql]'"
        )
    return url.startswith(_POSTGRESQL)


def shown(url: str) -> str:
    """A store's URL without its user, its password and whatever else may be secret in it."""
    if url.startswith(SQLITE):
        return url
    if is_postgresql(url):
        from orchestrator.runtime.postgresql.sessions import place

        return f"postgresql://{place(url)}"
    return f"{url.partition(':')[0]}:…"


def not_empty(where: str) -> InvalidRequest:
    """The refusal of a target that has something in it."""
    return InvalidRequest(
        f"{where} is not empty: a store is only put where nothing is, and nothing was changed.",
        remedy="Name a new file or an empty database.",
    )


def path_of(url: str) -> Path:
    """The file of a SQLite store. Raises InvalidRequest for what cannot be moved."""
    path = url.removeprefix(SQLITE)
    if path == url or path in ("", ":memory:"):
        scheme = url.partition(":")[0]
        raise InvalidRequest(
            f"A store of scheme {scheme!r} cannot be moved.",
            remedy="Use sqlite:///relative/file.db, sqlite:////absolute/file.db or postgresql://….",
        )
    # Two names of one file must meet at one lock.
    return Path(path).resolve()
