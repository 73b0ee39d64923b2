"""Moving a store: out into a dump, in from one, and straight from one engine to another."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import IO, Any, Final, NamedTuple

from orchestrator.adapters.store.schema import OLDEST, SCHEMA, Table, of_old_version, travelling
from orchestrator.core.errors import InvalidRequest, NewerSchema, OrchestratorError
from orchestrator.history.store_move.sides import (
    Digest,
    Row,
    Side,
    counts_of,
    filling,
    in_order,
    is_postgresql,
    key_of,
    pages_of,
    reading,
    schema_of,
)

# -- A dump: one file of JSON lines that holds a whole store -----------------------------
#
# A header (which alone varies: when, and by which version it was made), then each table with its rows, then a
# trailer with their counts and the sha256 over everything between header and trailer. So two dumps of the same
# content have the same trailer, whatever engine they came from, and one that was cut or changed anywhere is
# refused.

KIND: Final = "cc-orchestrator store"
FORMAT: Final = 1
_MOST_HEADER: Final = 4096
_MOST_LINE: Final = 1_500_000_000
"""More than the largest value that a database keeps."""
_PAGE_BYTES: Final = 4_000_000
_PAGE_ROWS: Final = 500
_AGAIN: Final = "Nothing was imported. Export it again, or take another copy of the file."


class Header(NamedTuple):
    """What a dump says of itself first."""

    schema: int
    program: str
    """The version that made it; empty: a checkout that nobody installed."""
    made_at: str
    """ISO 8601, UTC."""

    def line(self) -> bytes:
        """The first line, with a sum of its own."""
        said = {"dump": KIND, "format": FORMAT, **self._asdict()}
        summed = hashlib.sha256(json.dumps(said).encode()).hexdigest()
        return json.dumps({**said, "sum": summed[:16]}).encode() + b"\n"


class Page(NamedTuple):
    """Some rows of one table."""

    table: Table
    rows: list[Row]


class Dump:
    """A dump that is read: header first, then page after page; ``digest`` is what was read so far."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self._number = 0
        self.digest = Digest()
        self.header = self._header()

    def pages(self) -> Iterator[Page]:
        """All rows in order. Raises InvalidRequest at the first thing that is not as it was written.

        A reader may keep none of them before the last one: only the end tells whether all were right.
        """
        line = self._line()
        for table in travelling(self.header.schema):
            if line != self.digest.opened(table):
                raise self._refusal(f"the table {table.name} should begin here")
            last: Any = None
            rows: list[Row] = []
            size = 0
            while (line := self._line()).startswith(b"["):
                row = self._row(table, line)
                key = in_order(key_of(table, row))
                if last is not None and key <= last:
                    raise self._refusal(f"a row of {table.name} stands twice, or before its turn")
                last = key
                rows.append(row)
                size += len(line)
                if size >= _PAGE_BYTES or len(rows) >= _PAGE_ROWS:
                    yield Page(table, rows)
                    rows, size = [], 0
            if rows:
                yield Page(table, rows)
        if line != self.digest.trailer(self.header.schema):
            raise self._refusal(
                "the counts and the sha256 of the rows are not those that its end tells: it was cut, or changed"
            )
        if self._read(1):
            raise self._refusal("there is something after its end")

    def _header(self) -> Header:
        line = self._read_line(_MOST_HEADER)
        try:
            said = json.loads(line)
            kind, version = said["dump"], said["format"]
            header = Header(said["schema"], said["program"], said["made_at"])
        except (ValueError, TypeError, LookupError):
            raise InvalidRequest(
                f"{self._name} is not a dump of a store.",
                remedy="Name a file that `cc-orchestrator store export` wrote.",
            ) from None
        if kind == KIND and isinstance(version, int) and version > FORMAT:
            raise _newer(f"{self._name} has the format {version}; this version reads {FORMAT}.")
        if line != header.line() or not isinstance(header.schema, int) or header.schema < 1:
            raise self._refusal("the header is not as it was written")
        if header.schema > SCHEMA:
            raise _newer(f"{self._name} has schema {header.schema}; this version knows up to {SCHEMA}.")
        if header.schema < OLDEST:
            raise of_old_version(self._name, header.schema)
        return header

    def _row(self, table: Table, line: bytes) -> Row:
        try:
            return self.digest.read(table, line)
        except (ValueError, OrchestratorError) as error:
            raise self._refusal(str(error)) from None

    def _line(self) -> bytes:
        line = self._read_line(_MOST_LINE)
        if not line.endswith(b"\n"):
            raise self._refusal("it ends here, before its end: it was cut")
        return line

    def _read_line(self, most: int) -> bytes:
        self._number += 1
        try:
            return self._file.readline(most)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self._refusal(f"it cannot be unpacked ({error})") from None

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self._refusal(f"it cannot be unpacked ({error})") from None

    def _refusal(self, why: str) -> InvalidRequest:
        return InvalidRequest(f"{self._name} is not whole: line {self._number}: {why}.", remedy=_AGAIN)


def _newer(sentence: str) -> NewerSchema:
    return NewerSchema(sentence, remedy="Import it with the version of cc-orchestrator that made it, or a newer one.")


# -- Moving a store: out into a dump, in from one, and straight from one engine to another

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
    """The schema of the source."""
    served_by: str = ""
    """The servers that went on working on the source; the copy does not have their later rows."""

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
    return before, SCHEMA


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
