"""What the tests of moving a store share: drawn stores, dumps in memory, and a process that is killed in the middle.

``python -m tests.adapters.store.moving SOURCE TARGET`` copies a store, says ``begun`` at the first page, and waits.
"""

import asyncio
import io
import os
import sys
from collections.abc import Mapping, Sequence
from threading import Event
from typing import Any

from hypothesis import strategies as st

from orchestrator.adapters.store.schema import SCHEMA, Column, Table, travelling
from orchestrator.history.store_move.copy import Moved, copy_store, export_store, import_store
from orchestrator.history.store_move.sides import Row, filling, in_order, key_of, pages_of, reading, schema_of

TODAY = SCHEMA
Drawn = Mapping[str, Sequence[Row]]


def quiet(_done: int, _total: int) -> None:
    """Nobody watches."""


async def exported(url: str) -> bytes:
    """A store's dump."""
    file = io.BytesIO()
    await export_store(url, file, quiet)
    return file.getvalue()


async def imported(url: str, dump: bytes) -> Moved:
    """A store filled from a dump."""
    return await import_store(url, io.BytesIO(dump), "The dump", quiet)


def without_header(dump: bytes) -> bytes:
    """What two dumps of the same content have in common."""
    return dump.partition(b"\n")[2]


async def filled(url: str, drawn: Drawn) -> None:
    """A store with these rows."""
    async with filling(url, TODAY) as side:
        for table in travelling(TODAY):
            if drawn[table.name]:
                await side.insert(table, drawn[table.name])


async def rows_of(url: str) -> dict[str, list[Row]]:
    """All rows that move, by their tables, those that the store's schema does not have yet too."""
    found: dict[str, list[Row]] = {table.name: [] for table in travelling(TODAY)}
    async with reading(url) as side:
        for table in travelling(await schema_of(side)):
            found[table.name] = [row async for page in pages_of(side, table) for row in page]
    return found


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_KINDS: Mapping[str, st.SearchStrategy[Any]] = {
    "TEXT": _TEXTS | st.sampled_from(["\0", "a\0b", "\x01", "\x010", "\x011\0", "\uf8ff0", "\U0001f33e", "'\"\\"]),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "BYTEA": st.binary(max_size=50),
}


def _cells(table: Table, column: Column) -> st.SearchStrategy[Any]:
    if (table.name, column.name) in _NOT_DRAWN:
        return st.just(_NOT_DRAWN[table.name, column.name])
    drawn = _KINDS[column.kind]
    return st.none() | drawn if column.nullable else drawn


_NOT_DRAWN: Mapping[tuple[str, str], Any] = {
    ("tasks", "holder"): None,
    ("tasks", "lease_until"): 0,
    ("tasks", "lease_for"): 0,
    ("tasks", "woken"): 0,
}
"""What does not move has a test of its own."""


def _rows(table: Table) -> st.SearchStrategy[list[Row]]:
    row = st.tuples(*(_cells(table, column) for column in table.columns))
    rows = st.lists(row, max_size=6, unique_by=lambda one: key_of(table, one))
    if table.name == "items":
        rows = st.lists(row, max_size=6, unique_by=(lambda one: key_of(table, one), lambda one: (one[0], one[2])))
    return rows.map(lambda found: sorted(found, key=lambda one: in_order(key_of(table, one))))


def stores() -> st.SearchStrategy[Drawn]:
    """Stores with whatever their columns can hold."""
    return st.fixed_dictionaries({table.name: _rows(table) for table in travelling(TODAY)})


def main(source: str, target: str) -> None:
    """Copy, and never come to the end."""

    def begun(_done: int, _total: int) -> None:
        os.write(sys.stdout.fileno(), b"begun\n")
        Event().wait()

    asyncio.run(copy_store(source, target, begun))


if __name__ == "__main__":
    main(*sys.argv[1:])
