"""How PostgreSQL reads what the scripts of ``sql*`` say, and how one is run on a connection.

Parameters get their numbers and row locks lose their comment marks. A text may hold no NUL here,
so one that has it is kept in another form, which goes both ways.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Final, TypeVar

from orchestrator.adapters.store.script import Rows, Script, Statement
from orchestrator.adapters.store.sql import ENTRY_COLUMNS
from orchestrator.adapters.store.sql_append import Cell
from orchestrator.core.task.facts import TaskId

T = TypeVar("T")

_HEADS: Final = f"""SELECT task_id, version, head_hash, status, {ENTRY_COLUMNS} FROM tasks
    WHERE task_id = ANY(?::text[]) ORDER BY task_id /* FOR UPDATE */"""
_WRITE: Final = """WITH added AS (INSERT INTO items (task_id, version, item_id, data)
    SELECT * FROM unnest(?::text[], ?::bigint[], ?::text[], ?::text[]))
    UPDATE tasks SET version = news.version, head_hash = news.hash, updated_at = news.at, lease_until = news.until
    FROM unnest(?::bigint[], ?::text[], ?::bigint[], ?::bigint[], ?::text[]) AS news (version, hash, at, until, id)
    WHERE tasks.task_id = news.id"""
_COLUMNS_AS_BYTES: Final = re.compile(r"\bTEXT\b")
_TABLES: Final = ("CREATE TABLE", "ALTER TABLE")
_MARK: Final = "\x01"
"""Stands for NUL with a 0 behind it and for itself with a 1: the lowest character there is, so that order is kept."""


@lru_cache(maxsize=1024)
def numbered(text: str) -> str:
    """The statement with numbered parameters and its row lock."""
    if text.startswith(_TABLES):
        # Texts are ordered by their bytes, as SQLite does, whatever language the database speaks.
        return _COLUMNS_AS_BYTES.sub('TEXT COLLATE "C"', text)
    numbers = count(1)
    unlocked = text.replace("/* FOR UPDATE", "FOR UPDATE").replace("*/", "")
    return re.sub(r"\?", lambda _: f"${next(numbers)}", unlocked)


async def drive(connection: Any, script: Script[T]) -> T:
    """Run a transaction script in the transaction that is open."""
    try:
        statement = next(script)
        while True:
            statement = script.send(await run(connection, statement))
    except StopIteration as stop:
        answer: T = stop.value
        return answer


class MoreThanOne(Exception):
    """A script asks for a second statement."""


async def drive_one(connection: Any, script: Script[T]) -> T:
    """Run a script of one statement. Raises MoreThanOne when it asks for another; what it did is of no use then."""
    try:
        script.send(await run(connection, next(script)))
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    raise MoreThanOne


async def run(connection: Any, statement: Statement) -> Rows:
    """Run one statement; its rows."""
    text, parameters = statement
    if parameters:
        records = await connection.fetch(numbered(text), *map(kept, parameters))
    else:
        records = await connection.fetch(numbered(text))
    return [_told(tuple(record)) for record in records]


def kept(value: Any) -> Any:
    if isinstance(value, str) and ("\0" in value or _MARK in value):
        return value.replace(_MARK, f"{_MARK}1").replace("\0", f"{_MARK}0")
    return value


def _told(row: tuple[Any, ...]) -> tuple[Any, ...]:
    for cell in row:
        if cell.__class__ is str and _MARK in cell:
            return tuple(_plain(cell) if isinstance(cell, str) else cell for cell in row)
    return row


def _plain(cell: str) -> str:
    return cell.replace(f"{_MARK}0", "\0").replace(f"{_MARK}1", _MARK)


class Unnested:
    """`Many` by one statement however many rows there are: each column is one parameter."""

    def heads(self, task_ids: Sequence[TaskId]) -> Script[Rows]:
        """Each task's head."""
        return (yield _HEADS, (list(task_ids),))

    def write(self, items: Sequence[tuple[Cell, ...]], heads: Sequence[tuple[Cell, ...]]) -> Script[None]:
        """Add items and set heads."""
        yield _WRITE, (*_columns(items), *_columns(heads))


def _columns(rows: Sequence[tuple[Cell, ...]]) -> tuple[list[Cell], ...]:
    return tuple(map(list, zip(*rows, strict=True)))
