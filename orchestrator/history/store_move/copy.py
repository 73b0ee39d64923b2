"""Moving a store: out into a dump, in from one, and straight from one engine to another."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import IO, Final, NamedTuple

from orchestrator.adapters.store.schema import MIGRATIONS
from orchestrator.adapters.store.tables import travelling
from orchestrator.core.errors import OrchestratorError
from orchestrator.history.store_move.dump import Dump, Header
from orchestrator.history.store_move.rows import Digest
from orchestrator.history.store_move.sides import Side, counts_of, filling, is_postgresql, pages_of, reading, schema_of

Telling = Callable[[int, int], None]
"""Is told how many rows are through, and how many there are; 0: nobody knows."""
_SHARE: Final = 2
"""A copy is written, and read back: two passes."""


class Moved(NamedTuple):
    """What was moved."""

    counts: Mapping[str, int]
    sha256: str
    """Over all rows as they move: the same for every store and every dump of the same content."""
    schema: int
    """Of the source."""
    served_by: str = ""
    """Who went on working on the source; what they write from then on is not in the copy."""

    @property
    def rows(self) -> int:
        """How many rows there were."""
        return sum(self.counts.values())


async def export_store(url: str, file: IO[bytes], told: Telling) -> Moved:
    """Write a store as it is at this moment into a dump."""
    async with reading(url) as side:
        schema = await schema_of(side)
        file.write(_header(schema).line())
        digest = await _passed(side, schema, file.write, told)
        moved = Moved(dict(digest.counts), digest.sha256, schema, await side.held_by())
        file.write(digest.trailer(schema))
    return moved


async def import_store(url: str, file: IO[bytes], name: str, told: Telling) -> Moved:
    """Fill an empty store from a dump, whole or not at all."""
    dump = Dump(file, name)
    schema = dump.header.schema
    async with filling(url, schema) as side:
        through = 0
        for page in dump.pages():
            await side.insert(page.table, page.rows)
            through += len(page.rows)
            told(through, 0)
        await _read_back(side, schema, dump.digest, lambda _rows, _total: None)
    return Moved(dict(dump.digest.counts), dump.digest.sha256, schema)


async def copy_store(url: str, target: str, told: Telling) -> Moved:
    """Fill an empty store with everything of another, whole or not at all; the source stays as it is."""
    async with reading(url) as source:
        schema = await schema_of(source)
        total = sum((await counts_of(source, schema)).values()) * _SHARE
        async with filling(target, schema) as side:
            digest = Digest()
            through = 0
            for table in travelling(schema):
                digest.opened(table)
                async for rows in pages_of(source, table):
                    digest.taken(table, rows)
                    await side.insert(table, rows)
                    through += len(rows)
                    told(through, total)
            await _read_back(side, schema, digest, lambda rows, _total: told(through + rows, total))
        return Moved(dict(digest.counts), digest.sha256, schema, await source.held_by())


async def bring_forward(url: str) -> tuple[int, int]:
    """Bring a store's tables to this version's: the schemas before and after. Raises NotFound, StoreBusy."""
    if is_postgresql(url):
        from orchestrator.history.store_move.postgres_side import forward_postgres

        before = await forward_postgres(url)
    else:
        from orchestrator.history.store_move.sides import path_of
        from orchestrator.history.store_move.sqlite_side import forward_sqlite

        before = await forward_sqlite(path_of(url))
    return before, len(MIGRATIONS)


async def _passed(side: Side, schema: int, write: Callable[[bytes], object], told: Telling) -> Digest:
    """All rows of a side in order, each page of lines given to ``write``."""
    digest = Digest()
    total = sum((await counts_of(side, schema)).values())
    through = 0
    for table in travelling(schema):
        write(digest.opened(table))
        async for rows in pages_of(side, table):
            write(digest.taken(table, rows))
            through += len(rows)
            told(through, total)
    return digest


async def _read_back(side: Side, schema: int, wanted: Digest, told: Telling) -> None:
    """Compare what a store now has with what was put into it, before it is kept. Raises OrchestratorError."""
    found = await _passed(side, schema, lambda _line: None, told)
    if (found.counts, found.sha256) != (wanted.counts, wanted.sha256):
        raise OrchestratorError(
            f"{side.where} does not give back what was put into it; nothing was kept there.",
            remedy="Try again; if it is refused again, see what is wrong with that database or its disk.",
        )


def _header(schema: int) -> Header:
    try:
        program = metadata.version("cc-orchestrator")
    except metadata.PackageNotFoundError:
        program = ""
    return Header(schema, program, datetime.now(UTC).isoformat(timespec="seconds"))
