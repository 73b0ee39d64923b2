"""A dump holds a whole store, and what is not whole is refused with nothing imported."""

import gzip
import hashlib
import io
import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import IO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.adapters.store.schema import SCHEMA
from orchestrator.core.errors import InvalidRequest, NewerSchema, OrchestratorError
from orchestrator.history.store_move.copy import Header, import_store
from tests.adapters.store.moving import Drawn, exported, filled, imported, quiet, rows_of, stores, without_header
from tests.adapters.store.test_sqlite import GOLDEN, empty, made_by, opened, tables_of

HEADER = Header(SCHEMA, "0.6.0", "2026-11-22T12:00:00+00:00")


@pytest.fixture
async def dump(tmp_path: Path) -> bytes:
    """Of a store that a release left, as this version has it."""
    made_by(GOLDEN[-1], tmp_path / "source.db")
    async with opened(tmp_path / "source.db"):
        """Brought forward."""
    return await exported(f"sqlite:///{tmp_path / 'source.db'}")


@given(stores())
async def test_whatever_columns_can_hold_comes_back(drawn: Drawn) -> None:
    with tempfile.TemporaryDirectory() as directory:
        first, second = (f"sqlite:///{directory}/{name}.db" for name in ("first", "second"))
        await filled(first, drawn)
        dump = await exported(first)
        assert await rows_of(first) == {name: list(rows) for name, rows in drawn.items()}
        await imported(second, dump)
        assert await rows_of(second) == await rows_of(first)
        assert without_header(await exported(second)) == without_header(dump)


async def test_the_end_of_a_dump_says_what_is_in_it(dump: bytes) -> None:
    header, *lines, trailer = dump.splitlines(keepends=True)
    told = json.loads(trailer)
    assert told["end"]["items"] == 11
    assert sum(told["end"].values()) == sum(line.startswith(b"[") for line in lines)
    assert told["sha256"] == hashlib.sha256(b"".join(lines)).hexdigest()
    assert json.loads(header)["schema"] == told["schema"] == SCHEMA


@given(st.data())
async def test_a_changed_byte_is_found_wherever_it_is(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        dump = await _some(Path(directory))
        at = data.draw(st.integers(0, len(dump) - 1))
        byte = data.draw(st.integers(0, 255).filter(lambda one: one != dump[at]))
        await _refused(Path(directory) / "target.db", dump[:at] + bytes([byte]) + dump[at + 1 :])


@given(st.data())
async def test_a_cut_dump_is_found_wherever_it_ends(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        dump = await _some(Path(directory))
        await _refused(Path(directory) / "target.db", dump[: data.draw(st.integers(0, len(dump) - 1))])


async def _some(directory: Path) -> bytes:
    made_by(GOLDEN[-1], directory / "source.db")
    return await exported(f"sqlite:///{directory / 'source.db'}")


async def _refused(target: Path, dump: bytes) -> OrchestratorError:
    """The refusal of a dump, of which nothing stays."""
    with pytest.raises((InvalidRequest, NewerSchema)) as refusal:
        await imported(f"sqlite:///{target}", dump)
    assert refusal.value.remedy
    assert not _is_there(target)
    return refusal.value


def _is_there(path: Path) -> bool:
    return path.exists()


async def test_a_refusal_says_where_and_what(tmp_path: Path, dump: bytes) -> None:
    target = tmp_path / "target.db"
    lines = dump.splitlines(keepends=True)
    row = next(number for number, line in enumerate(lines) if line.startswith(b'["t1","Paused"'))
    for broken, said in (
        (b"".join(lines[:-1]), f"line {len(lines)}: it ends here"),
        (dump + b"x", "there is something after its end"),
        (dump + dump, "there is something after its end"),
        (b"".join([*lines[: row + 1], *lines[row:]]), f"line {row + 2}: a row of tasks stands twice"),
        (b"".join([*lines[:row], *lines[row + 1 :]]), "the counts and the sha256"),
        (b"".join([*lines[:row], b'["t1"]\n', *lines[row:]]), f"line {row + 1}: a row of tasks has 19 values"),
        (b"".join([*lines[:row], b"[x]\n", *lines[row:]]), f"line {row + 1}: it is not a row"),
        (dump.replace(b'["t1","Paused",5', b'["t1","Paused","5"'), "version has no BIGINT"),
        (dump.replace(b'["t1","Paused",5', b'["t1", "Paused",5'), "it is not written as rows are"),
        (b"".join([lines[0], *lines[2:]]), "line 2: the table streams should begin here"),
        (b"my shopping list\n" * 9, "is not a dump of a store"),
        (b"", "is not a dump of a store"),
        (lines[0].replace(b'"0.', b'"1.') + b"".join(lines[1:]), "line 1: the header is not as it was written"),
    ):
        refusal = await _refused(target, broken)
        assert said in refusal.message, refusal.message


async def test_a_row_that_stands_twice_is_refused_also_where_the_end_agrees(tmp_path: Path, dump: bytes) -> None:
    header, *lines, trailer = dump.splitlines(keepends=True)
    row = next(number for number, line in enumerate(lines) if line.startswith(b'["t1","Paused"'))
    lines.insert(row, lines[row])
    told = json.loads(trailer)
    told["end"]["tasks"] += 1
    told["sha256"] = hashlib.sha256(b"".join(lines)).hexdigest()
    agreed = json.dumps(told, separators=(",", ":")).encode() + b"\n"
    assert "twice" in (await _refused(tmp_path / "target.db", b"".join([header, *lines, agreed]))).message


async def test_dumps_of_newer_versions_and_of_those_before_0_6_are_refused(tmp_path: Path, dump: bytes) -> None:
    rows = without_header(dump)
    newer = HEADER._replace(schema=99).line() + rows
    assert "schema 99" in (await _refused(tmp_path / "target.db", newer)).message
    other = dump.replace(b'"format": 1', b'"format": 2')
    older = await _refused(tmp_path / "target.db", HEADER._replace(schema=6).line() + rows)
    assert ("schema 6" in older.message, "version 0.6" in older.remedy) == (True, True)
    assert "format 2" in (await _refused(tmp_path / "target.db", other)).message


@pytest.mark.parametrize("released", GOLDEN, ids=lambda path: path.stem)
async def test_a_dump_of_an_older_schema_is_brought_forward(tmp_path: Path, released: Path) -> None:
    """It comes to the very rows and tables that the older store itself comes to when this version opens it."""
    source, target = tmp_path / "source.db", tmp_path / "target.db"
    made_by(released, source)
    dump = await exported(f"sqlite:///{source}")
    assert f'"schema": {released.stem[-1]}' in dump.partition(b"\n")[0].decode()
    await imported(f"sqlite:///{target}", dump)
    async with opened(source):
        """Brought forward by itself."""
    assert await rows_of(f"sqlite:///{target}") == await rows_of(f"sqlite:///{source}")
    assert tables_of(target) == tables_of(await empty(tmp_path / "new.db"))


async def test_leases_do_not_move(tmp_path: Path) -> None:
    """What was held is due at once; what slept, or waits for a computer, still does; tokens only rise."""
    source, target = tmp_path / "source.db", tmp_path / "target.db"
    made_by(GOLDEN[-1], source)
    with closing(sqlite3.connect(source)) as connection, connection:
        held = "UPDATE tasks SET due = 5, holder = 'n1', token = 7, lease_until = 99, lease_for = 9, woken = 1"
        connection.execute(f"{held}, waiting_for = '3' WHERE task_id = 't1'")
        connection.execute("UPDATE tasks SET due = NULL, holder = NULL, waiting_for = '3' WHERE task_id = 't2'")
    await imported(f"sqlite:///{target}", await exported(f"sqlite:///{source}"))
    columns = "task_id, due, holder, token, lease_until, lease_for, waiting_for, woken"
    with closing(sqlite3.connect(target)) as connection:
        found = connection.execute(f"SELECT {columns} FROM tasks ORDER BY task_id").fetchall()
    assert found[0] == ("t1", 5, None, 7, 0, 0, None, 0)
    assert (found[1][1], found[1][2], found[1][6]) == (None, None, "3")


async def test_a_large_blob_moves(tmp_path: Path) -> None:
    source, target = (f"sqlite:///{tmp_path / name}" for name in ("source.db", "target.db"))
    content = bytes(range(256)) * 60_000
    async with opened(tmp_path / "source.db") as store:
        kept = await store.put_blob(content)
    await imported(target, await exported(source))
    async with opened(tmp_path / "target.db") as store:
        assert await store.get_blob(kept.sha256) == content


async def test_a_packed_dump_that_is_damaged_is_refused(tmp_path: Path, dump: bytes) -> None:
    packed = gzip.compress(dump)
    for broken in (packed[:-20], packed[:100] + b"\xff\x00\xff" + packed[103:], packed + b"rubbish", dump):
        file = cast("IO[bytes]", gzip.GzipFile(fileobj=io.BytesIO(broken)))
        with pytest.raises(InvalidRequest, match=r"cannot be unpacked|is not whole|is not a dump"):
            await import_store(f"sqlite:///{tmp_path / 'target.db'}", file, "a.gz", quiet)
        assert not (tmp_path / "target.db").exists()


async def test_what_does_not_belong_into_its_column_is_told(tmp_path: Path) -> None:
    source = tmp_path / "source.db"
    made_by(GOLDEN[-1], source)
    with closing(sqlite3.connect(source)) as connection, connection:
        connection.execute("UPDATE tasks SET version = 'many' WHERE task_id = 't2'")
    with pytest.raises(OrchestratorError, match=r"tasks has str in version, where BIGINT belongs, in the row of t2"):
        await exported(f"sqlite:///{source}")
