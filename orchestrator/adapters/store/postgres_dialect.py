"""The PostgreSQL dialect of the scripts in ``sql*``, and one script on one connection.

Parameters get their numbers and row locks lose their comment marks. A text may hold no NUL here,
so one that has it is kept in another form, which goes both ways.
"""

import logging
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import lru_cache
from itertools import count
from typing import Any, Final, Protocol, TypeVar

import asyncpg

from orchestrator.adapters.store.script import Rows, Script, Statement, of_a_row
from orchestrator.adapters.store.sql import ENTRY_COLUMNS
from orchestrator.adapters.store.sql_queue import Cell
from orchestrator.core.errors import InvalidRequest, OrchestratorError, StoreAway, StoreBusy
from orchestrator.core.ports import Clock
from orchestrator.core.task.facts import TaskId
from orchestrator.core.values import FAR_S, from_us, to_us, told_apart
from orchestrator.runtime.clock import ahead_s, steady_ns
from orchestrator.runtime.postgresql.problems import Kind, trouble
from orchestrator.runtime.postgresql.sessions import SharedSession, is_pooled

# -- What is to be done about an error of PostgreSQL, and how it is told to people -------

_KINDS: Final[Mapping[Kind, type[OrchestratorError]]] = {
    Kind.SETUP: InvalidRequest,
    Kind.AWAY: StoreAway,
    Kind.BUSY: StoreBusy,
    Kind.FAULT: OrchestratorError,
}


class Verdict(Enum):
    """What an error says of the transaction that it ended."""

    REFUSED = "refused"
    """It is an answer: running it again would bring the same."""
    AGAIN = "again"
    """It met another transaction and was rolled back: the same may well succeed now."""
    AWAY = "away"
    """The connection is gone or broken; whatever was not sent for commit was rolled back."""


_AGAIN: Final = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    # Two nodes made the same thing at once; the second now finds it there.
    asyncpg.UniqueViolationError,
)
_AWAY: Final = (
    OSError,  # TimeoutError is one
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    SharedSession,
    # A server that became a standby, or is about to: the next connection may find the one that writes.
    asyncpg.ReadOnlySQLTransactionError,
)


def verdict(error: Exception) -> Verdict:
    """What an error says of the transaction that it ended."""
    if isinstance(error, _AGAIN):
        return Verdict.AGAIN
    # A value that cannot be encoded or understood is also a ValueError, whatever else asyncpg calls it.
    if isinstance(error, _AWAY) and not isinstance(error, ValueError):
        return Verdict.AWAY
    return Verdict.REFUSED


def is_taken(error: Exception) -> bool:
    """Whether something that was to be made is there."""
    return isinstance(error, asyncpg.UniqueViolationError)


def is_lasting(error: Exception, where: str) -> bool:
    """Whether a connection that was refused with this will be refused again however long one waits."""
    return isinstance(not_connected(error, where), InvalidRequest)


def explained(error: Exception, where: str) -> Exception:
    """The error as one that teaches; ``where`` names server and database, never a password. Any other as it is."""
    told = _told(error, where, connecting=False)
    return of_a_row(told) if told is error else told


def not_connected(error: Exception, where: str) -> Exception:
    """Why there is no connection, as an error that teaches."""
    return _told(error, where, connecting=True)


def _told(error: Exception, where: str, *, connecting: bool) -> Exception:
    if isinstance(error, OrchestratorError):
        return error
    found = trouble(error, where, "--store", connecting=connecting)
    if found is None:
        return error
    # A pooler that is changed while nodes work is one that they wait for.
    kind = StoreAway if is_pooled(error) and not connecting else _KINDS[found.kind]
    return kind(found.message, remedy=found.remedy)


def unknown(where: str) -> StoreAway:
    """The refusal of what may or may not have been done, and must not be done twice."""
    return StoreAway(
        f"The connection to {where} broke before it said that this was done: it may have been, or not.",
        remedy="Look whether it was, then do it again if it was not.",
    )


# -- How PostgreSQL reads what the scripts of ``sql*`` say, and how one is run on a connection

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
    """The statement with numbered parameters, and with what its comments say: it is for this dialect alone."""
    if text.startswith(_TABLES):
        # Texts are ordered by their bytes, as SQLite does, whatever language the database speaks.
        return _COLUMNS_AS_BYTES.sub('TEXT COLLATE "C"', text)
    numbers = count(1)
    # A row that changed while it waited for its lock is compared again: with an array, which is as it was, or with a
    # subquery, which may not find it any more.
    whole = text.replace("IN (/*ARRAY(*/", "= ANY (ARRAY(").replace("/*", "").replace("*/", "")
    return re.sub(r"\?", lambda _: f"${next(numbers)}", whole)


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
    """Run a script of one statement.

    Raises MoreThanOne when it asks for another; its first result is of no use then.
    """
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
    return [_postgres_dialect_told(tuple(record)) for record in records]


def kept(value: Any) -> Any:
    if isinstance(value, str) and ("\0" in value or _MARK in value):
        return value.replace(_MARK, f"{_MARK}1").replace("\0", f"{_MARK}0")
    return value


def _postgres_dialect_told(row: tuple[Any, ...]) -> tuple[Any, ...]:
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


# -- The time of the database's server, told without asking it each time -----------------

_ASK: Final = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint"
_ASK_EVERY_NS: Final = 10_000_000_000

logger = logging.getLogger(__name__)


class ServerTime:
    """The server's clock as an offset to this machine's steady one, measured now and then.

    All nodes go by it, so that their own clocks may be wrong, which the log says. A machine that slept may for a moment
    be behind: it then takes over later and asks for a lease that ends sooner. Two nodes still never go on with one
    task: the token in the task's row, and never the time, says which node may.
    """

    def __init__(self) -> None:
        self._offset_us = (time.time_ns() - steady_ns()) // 1000
        """Until it was asked, this machine's own time stands in for the server's."""
        self._asked_at: int | None = None
        self._said_s = 0.0
        """How far ahead of the server's this machine's clock was when that was logged last."""

    async def ask_now_and_then(self, connection: Any) -> None:
        """Measure the offset, when that was long ago."""
        before = steady_ns()
        if self._asked_at is not None and before - self._asked_at < _ASK_EVERY_NS:
            return
        self._asked_at = before
        told = await connection.fetchval(_ASK)
        # It was read somewhere in between; half of the way is at most some milliseconds wrong.
        self._offset_us = told - (before + steady_ns()) // 2000
        self._compare()

    def now(self) -> int:
        """Microseconds since 1970 in UTC."""
        return steady_ns() // 1000 + self._offset_us

    def _compare(self) -> None:
        """Say once in the log that this machine's clock is off, and again when it is off by something else."""
        ahead = ahead_s(from_us(self.now()))
        if abs(ahead - self._said_s) >= FAR_S:
            said = told_apart("this machine", ahead)
            logger.warning("%s", said or "The clock of this machine is right again.")
            self._said_s = ahead if said else 0.0


class GivenTime:
    """The time of a clock that was given, such as a test's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def ask_now_and_then(self, connection: Any) -> None:
        """There is nothing to ask."""

    def now(self) -> int:
        """Microseconds since 1970 in UTC."""
        return to_us(self._clock.now())


class StoreTime(Protocol):
    """Where the store's time comes from."""

    async def ask_now_and_then(self, connection: Any) -> None:
        """Ask it before a transaction on this connection."""

    def now(self) -> int:
        """Microseconds since 1970 in UTC."""


class StoreClock:
    """The port ``Clock``, by the time of a store."""

    def __init__(self, store_time: StoreTime) -> None:
        self._time = store_time

    def now(self) -> datetime:
        """The present time in UTC, by the server."""
        return from_us(self._time.now())
