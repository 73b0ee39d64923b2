"""Rows as they move: read in pages in one order, written as lines, and taken together to one sha256.

The lines are the same whatever engine the rows came from, so that two stores, or two dumps, can be compared by them.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.adapters.store.script import Rows, Script
from orchestrator.adapters.store.tables import LEFT_BEHIND, STAYING_ROWS, Column, Table
from orchestrator.core.errors import Unreadable

Row = tuple[Any, ...]

PAGE_ROWS: Final = 500
PAGE_BLOBS: Final = 4
"""Of tables with bytes: each may have megabytes, and a page is in memory at once."""
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


@dataclass
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
        raise ValueError("it is no row") from None
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
