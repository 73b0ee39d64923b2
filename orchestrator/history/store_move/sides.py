"""The two sides of a move: the tables of a store at one moment, and an empty store that is being filled."""

import base64
import binascii
import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store.schema import (
    LEFT_BEHIND,
    OLDEST,
    READ_META,
    SCHEMA,
    SCHEMA_KEY,
    STAYING_ROWS,
    Column,
    Table,
    of_old_version,
    travelling,
)
from orchestrator.adapters.store.script import Rows, Script, of_a_row
from orchestrator.core.errors import InvalidRequest, NewerSchema, Unreadable

# -- Rows as they move: read in pages in one order, written as lines, and taken together to one sha256
#
# The lines are the same whatever engine the rows came from, so that two stores, or two dumps, can be compared by
# them.

Row = tuple[Any, ...]

PAGE_ROWS: Final = 500
PAGE_BLOBS: Final = 4
"""Rows of a page of tables with bytes: each may have megabytes, and a page is in memory at once."""
_INTEGERS: Final = {"BIGINT": 2**63, "SMALLINT": 2**15}


def page(table: Table, after: Row | None) -> Script[Rows]:
    """The next rows of a table by its key, as they move; ``after`` is the key of the last one, None: from the first."""
    left = LEFT_BEHIND.get(table.name, {})
    columns = ", ".join(f"{left[name]} AS {name}" if name in left else name for name in table.names)
    keys = ", ".join(f"{table.name}.{name}" for name in table.key)
    beyond = "" if after is None else f" AND ({keys}) > ({', '.join('?' * len(table.key))})"
    limit = PAGE_BLOBS if table.has_bytes else PAGE_ROWS
    return (
        yield (
            f"SELECT {columns} FROM {table.name} WHERE {_moves(table)}{beyond} ORDER BY {keys} LIMIT ?",
            (*(after or ()), limit),
        )
    )


def _moves(table: Table) -> str:
    """Which rows of a table move, in SQL."""
    return f"NOT ({STAYING_ROWS.get(table.name, '1 = 0')})"


def asked(statement: str, *given: str | int) -> Script[Rows]:
    """The rows of one statement."""
    return (yield statement, given)


def count(table: Table) -> Script[int]:
    """How many rows a table has."""
    rows = yield f"SELECT COUNT(*) FROM {table.name} WHERE {_moves(table)}", ()
    return int(rows[0][0])


def key_of(table: Table, row: Row) -> Row:
    """The row's key."""
    return tuple(row[table.names.index(name)] for name in table.key)


def in_order(key: Row) -> tuple[Any, ...]:
    """A key as rows are sorted by it: text by its bytes, as both engines do."""
    return tuple(part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part for part in key)


@dataclass(eq=False, repr=False)
class Digest:
    """The lines of a store's rows, one after the other, and what they come to."""

    counts: dict[str, int] = field(default_factory=dict)
    _hash: Any = field(default_factory=hashlib.sha256)

    def opened(self, table: Table) -> bytes:
        """The line before a table's rows."""
        self.counts[table.name] = 0
        return self._taken(_line({"table": table.name, "columns": table.names}))

    def taken(self, table: Table, rows: Sequence[Row]) -> bytes:
        """The lines of some rows. Raises Unreadable for what does not belong into its column."""
        self.counts[table.name] += len(rows)
        return self._taken(b"".join(_line(_written(table, row)) for row in rows))

    def read(self, table: Table, line: bytes) -> Row:
        """The row of a line that somebody else wrote. Raises ValueError saying what is wrong with it."""
        row = _understood(table, line)
        self.counts[table.name] += 1
        self._hash.update(line)
        return row

    @property
    def sha256(self) -> str:
        """Over all lines so far."""
        return str(self._hash.hexdigest())

    def trailer(self, schema: int) -> bytes:
        """The line after all rows: how many there were, and what they come to."""
        return _line({"end": self.counts, "schema": schema, "sha256": self.sha256})

    def _taken(self, lines: bytes) -> bytes:
        self._hash.update(lines)
        return lines


def _line(value: Any) -> bytes:
    """One line of JSON in ASCII: the same bytes for the same value."""
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def _written(table: Table, row: Row) -> list[Any]:
    cells = []
    for column, value in zip(table.columns, row, strict=True):
        if not _fits(column, value):
            raise Unreadable(
                f"The table {table.name} has {type(value).__name__} in {column.name}, where {column.kind} belongs, "
                f"in the row of {'/'.join(str(part) for part in key_of(table, row))[:200]}.",
                remedy="`cc-orchestrator store check` tells what else is not as written; put a backup in its place.",
            )
        cells.append(base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value)
    return cells


def _fits(column: Column, value: Any) -> bool:
    if value is None:
        return column.nullable
    if column.kind == "BYTEA":
        return isinstance(value, bytes)
    if column.kind == "TEXT":
        return isinstance(value, str)
    most = _INTEGERS[column.kind]
    return type(value) is int and -most <= value < most


def _understood(table: Table, line: bytes) -> Row:
    try:
        cells = json.loads(line)
    except ValueError:
        raise ValueError("it is not a row") from None
    if not isinstance(cells, list) or len(cells) != len(table.columns):
        raise ValueError(f"a row of {table.name} has {len(table.columns)} values")
    row = tuple(_value(column, cell) for column, cell in zip(table.columns, cells, strict=True))
    if _line(_written(table, row)) != line:
        raise ValueError("it is not written as rows are")
    return row


def _value(column: Column, cell: Any) -> Any:
    try:
        value = base64.b64decode(cell, validate=True) if column.kind == "BYTEA" and isinstance(cell, str) else cell
    except binascii.Error:
        raise ValueError(f"{column.name} is not base64") from None
    if not _fits(column, value):
        raise ValueError(f"{column.name} has no {column.kind}")
    return value


# -- The two sides of a move: the tables of a store at one moment, and an empty store that is being filled

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
        """The server that serves it now, as a person is told, such as ``process 12``.

        Empty: none, or nobody can say.
        """


async def schema_of(side: Side) -> int:
    """The schema of the store.

    Raises InvalidRequest where it is not a store or is of a version before 0.6, NewerSchema.
    """
    rows = await side.run(asked(READ_META, SCHEMA_KEY))
    if not rows:
        raise sealing.not_a_store()
    try:
        schema = int(rows[0][0])
    except (TypeError, ValueError) as error:
        raise of_a_row(error) from None
    if schema > SCHEMA:
        raise NewerSchema(
            f"The store has schema {schema}; this version knows up to {SCHEMA}.",
            remedy="Use a newer version of cc-orchestrator for this store.",
        )
    if schema < OLDEST:
        raise of_old_version("The store", schema)
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
