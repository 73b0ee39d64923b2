"""What a store's tables are made of, told by the migrations themselves, and what of them moves to another store.

A table or a column that a migration adds is known here without another word; only whether a new table moves with
the store has to be said, once, in ``TRAVELS`` or ``STAYS``.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Final

from orchestrator.adapters.store.schema import MIGRATIONS

TRAVELS: Final = (
    *("streams", "tasks", "items", "requests", "computers", "blobs", "blob_marks", "pruned", "backups"),
    *("grants", "tokens", "sign_ins", "policies", "agreed"),
)
"""The tables that move with a store, in the order in which a dump has them."""
STAYS: Final = ("meta", "duties")
"""The tables that do not: they are of one place, and of nodes that work there."""
LEFT_BEHIND: Final[Mapping[str, Mapping[str, str]]] = {
    "tasks": {
        "due": "CASE WHEN holder IS NULL THEN due ELSE COALESCE(due, updated_at) END",
        "holder": "NULL",
        "lease_until": "0",
        "lease_for": "0",
        "waiting_for": "CASE WHEN holder IS NULL THEN waiting_for END",
        "woken": "0",
    }
}
"""Columns of a lease and what moves in their place: nobody holds a task there, and one that was held is due at once."""
STAYING_ROWS: Final[Mapping[str, str]] = {"agreed": "name = 'installation'"}
"""Rows that do not move, of tables that do: a copy is another installation, which shares a bus with nobody here."""


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    kind: str
    """``TEXT``, ``BIGINT``, ``SMALLINT`` or ``BYTEA``."""
    nullable: bool


@dataclass(frozen=True)
class Table:
    """One table as the migrations up to some schema leave it."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """The columns of its primary key, in their order."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns' names, in their order."""
        return tuple(column.name for column in self.columns)

    @property
    def has_bytes(self) -> bool:
        """Whether a row may be large."""
        return any(column.kind == "BYTEA" for column in self.columns)


@cache
def tables_of(schema: int) -> Mapping[str, Table]:
    """All tables of a store that has seen so many migrations."""
    with closing(sqlite3.connect(":memory:")) as made:
        for step in MIGRATIONS[:schema]:
            for statement in step:
                made.execute(statement)
        names = [name for (name,) in made.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {name: _table(made, name) for name in names}


def travelling(schema: int) -> list[Table]:
    """The tables that move with a store of this schema, in their order."""
    known = tables_of(schema)
    return [known[name] for name in TRAVELS if name in known]


def _table(made: sqlite3.Connection, name: str) -> Table:
    rows = made.execute(f"PRAGMA table_info({name})").fetchall()
    columns = tuple(
        Column(column, kind, nullable=not (not_null or place)) for _, column, kind, not_null, _, place in rows
    )
    key = tuple(column for place, column in sorted((row[5], row[1]) for row in rows if row[5]))
    return Table(name, columns, key)
