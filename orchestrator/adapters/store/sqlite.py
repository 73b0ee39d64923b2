"""The embedded store: one SQLite file of the standard library, for one process.

WAL and ``synchronous=FULL``: what was acknowledged outlives ``kill -9``, and the loss of power
where the disk honours a flush. Writes go through one thread with group commit, reads through
another that never waits for the first.
"""

import asyncio
import logging
import sqlite3
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Final, TypeVar

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql, sql_queue
from orchestrator.adapters.store.file_lock import FileLock
from orchestrator.adapters.store.objects import check_objects, odd_values, strange_in_file
from orchestrator.adapters.store.schema import SCHEMA, tables_of
from orchestrator.adapters.store.script import Script
from orchestrator.adapters.store.sql_store import SqlStore
from orchestrator.adapters.store.sqlite_thread import CACHED_STATEMENTS, SqliteThread, drive, explained
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Clock
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.values import to_us
from orchestrator.runtime.clock import SystemClock

T = TypeVar("T")
logger = logging.getLogger(__name__)
Trace = Callable[[str], None]

_BUSY_TIMEOUT_S: Final = 5.0
"""A backup or a curious ``sqlite3`` holds the file for less."""
_ASKED_S: Final = 0.05
"""A read waits no longer for the writer, which has to end its transaction first; then it reads a task whole."""
_PRAGMAS: Final = (
    # Only for a new file: the space of removed rows is given back to the disk. This has to come before any write.
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    # Only here does a Mac's disk flush its own cache too; elsewhere it says nothing.
    "PRAGMA fullfsync = ON",
    # The rollback data of one statement needs no file: it dies with the process anyway.
    "PRAGMA temp_store = MEMORY",
)
_VACUUM: Final = "PRAGMA incremental_vacuum"
_INCREMENTAL: Final = 2
_MOST_PAGES: Final = 20_000
"""Pages of 4 KiB that one sweep gives back: some 100 ms in which nobody writes."""
_SMALL: Final = tuple(one for one in tables_of(SCHEMA).values() if one.name not in ("items", "blobs"))
"""The tables that are read whole at once; the rows of the others are compared by hash."""
_TABLES: Final = "SELECT name FROM sqlite_master WHERE type = 'table'"


class SqlitePersistenceManager(SqlStore):
    """The `Store` in a SQLite file, which is made if it is not there.

    ``trace`` is called with each statement, in the thread that executes it.
    Raises StoreBusy, NewerSchema, InvalidRequest (a database of another program) and
    OrchestratorError (a file that cannot be used).
    """

    shared = False
    """One process has the file."""

    def __init__(self, path: Path, *, clock: Clock, trace: Trace | None = None) -> None:
        # Two names of one file must meet at one lock.
        path = path.resolve()
        with ExitStack() as undo:
            try:
                lock = FileLock(path)
                undo.callback(lock.release)
                path.touch(mode=0o600)
            except OSError as error:
                raise OrchestratorError(
                    f"The store {path} cannot be opened: {error.strerror}.",
                    remedy="Make its directory, or name a file that may be written.",
                ) from None
            writer = _connect(path, undo, trace)
            _prepare(writer, path)
            reader = _connect(path, undo, trace)
            reader.execute("PRAGMA query_only = ON")
            undo.pop_all()
        self.clock = clock
        self._lock = lock
        self._shutting = threading.Lock()
        self._connections = (reader, writer)  # the writer closes last and so empties the WAL
        self._writer = SqliteThread(writer, path=path, clock=clock)
        self._reader = SqliteThread(reader, path=path, clock=clock, reading=True)

    def _read(self, script: Callable[[int], Script[T]]) -> Awaitable[T]:
        return self._reader.submit(script)

    def _write(
        self, script: Callable[[int], Script[T]], *, key: str | None = None, urgent: bool = False, once: bool = False
    ) -> Awaitable[T]:
        # The result of a transaction is always known here: nothing is run again.
        return self._writer.submit(script, key=key, urgent=urgent)

    def _append(self, wanted: sql.Append) -> Awaitable[list[AgentTaskItem]]:
        return self._writer.append(wanted)

    async def _others(self) -> int | None:
        # Of the connection that writes: only there does the number not follow what the store itself writes.
        try:
            async with asyncio.timeout(_ASKED_S):
                return await self._writer.submit(_data_version, urgent=True)
        except (TimeoutError, OrchestratorError):
            # A read does not wait for a slow disk, nor for another program that keeps the file locked.
            return None

    async def strange(self) -> list[str]:
        return [one.sentence for one in await self._read(lambda _: strange_in_file())]

    async def odd(self) -> list[str]:
        return await self._read(lambda _: _odd_in_small())

    async def close(self) -> None:
        self._reader.stop()
        self._writer.stop()
        await asyncio.to_thread(self._shut)

    def _swept(self, names: Sequence[str], before: datetime) -> Script[dict[str, int]]:
        """Blobs swept, and their pages given back to the disk where the file was made so."""
        swept = yield from super()._swept(names, before)
        if (yield "PRAGMA auto_vacuum", ()) == [(_INCREMENTAL,)]:
            free = yield "PRAGMA freelist_count", ()
            for _ in range(min(free[0][0], _MOST_PAGES)):
                # One page each: of a statement without columns Python asks for no second step.
                yield _VACUUM, ()
        return swept

    def _shut(self) -> None:
        # Two may close at once: a descriptor that was closed may be another file's by then.
        with self._shutting:
            self._reader.join()
            self._writer.join()
            for connection in self._connections:
                connection.close()
            self._lock.release()


def _data_version(_: int) -> Script[int]:
    rows = yield "PRAGMA data_version", ()
    return int(rows[0][0])


def _odd_in_small() -> Script[list[str]]:
    found: list[str] = []
    for table in _SMALL:
        found += yield from odd_values(table)
    return found


def _connect(path: Path, undo: ExitStack, trace: Trace | None) -> sqlite3.Connection:
    # Made here and used by one thread from then on; transactions are opened and ended by us.
    try:
        connection = sqlite3.connect(
            path,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=CACHED_STATEMENTS,
        )
    except sqlite3.Error as error:
        raise explained(error, path) from None
    undo.callback(connection.close)
    connection.set_trace_callback(trace)
    return connection


def _migrate(cursor: sqlite3.Cursor, path: Path, *, fresh: bool) -> None:
    try:
        drive(cursor, sql.migrate(fresh=fresh))
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", "") != "SQLITE_ERROR":
            raise
        raise sealing.not_of_schema(str(path), error) from None


def _check_pages(cursor: sqlite3.Cursor, path: Path) -> None:
    """Whether indexes say what the tables say, where somebody made one."""
    ((told,),) = cursor.execute("PRAGMA integrity_check(1)").fetchall()
    if told != "ok":
        raise OrchestratorError(
            f"The store {path} is damaged, or somebody changed it: {told}.",
            remedy="Keep this file aside and put a backup in its place.",
        )


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to this version, and void the leases of the process that had it before."""
    cursor = connection.cursor()
    try:
        for pragma in _PRAGMAS:
            cursor.execute(pragma)
        cursor.execute("BEGIN IMMEDIATE")
        tables = {name for (name,) in cursor.execute(_TABLES)}
        if tables and "meta" not in tables:
            raise sealing.not_a_store()
        _migrate(cursor, path, fresh=not tables)
        for told in check_objects(drive(cursor, strange_in_file()), str(path)):
            logger.warning("the store %s: %s", path, told)
            _check_pages(cursor, path)
        drive(cursor, sql_queue.void_leases())
        cursor.execute("COMMIT")
    except sqlite3.Error as error:
        raise explained(error, path) from None


# -- The store of tests and dry runs: a SQLite database in memory that ends with the process
#
# After its turn has come no method awaits anything, so each is one transaction without a thread.


class InMemoryPersistenceManager(SqlStore):
    """The `Store` in this process's memory."""

    shared = False

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self._closed = False
        connection = _memory_connect()
        connection.deserialize(_empty())
        # Few tests and callers close a store that leaves nothing behind.
        weakref.finalize(self, connection.close)
        self._cursor = connection.cursor()

    async def _others(self) -> int | None:
        return 0  # nobody else reaches its database

    async def strange(self) -> list[str]:
        await self._turn()
        return []  # nobody else reaches its database

    async def odd(self) -> list[str]:
        await self._turn()
        return []

    async def close(self) -> None:
        self._closed = True

    async def _turn(self) -> int:
        """The time of this operation, which is about to run.

        Others run first, as with every real store: a busy caller must not starve the loop.
        Raises the refusal of a closed store.
        """
        if self._closed:
            raise sealing.store_closed()
        await asyncio.sleep(0)
        return to_us(self.clock.now())

    async def _read(self, script: Callable[[int], Script[T]]) -> T:
        return drive(self._cursor, script(await self._turn()))

    async def _write(
        self, script: Callable[[int], Script[T]], *, key: str | None = None, urgent: bool = False, once: bool = False
    ) -> T:
        del key, urgent, once  # one at a time, in the order in which they come
        return _transact(self._cursor, script(await self._turn()))

    async def _append(self, wanted: sql.Append) -> list[AgentTaskItem]:
        return await self._write(partial(sql_queue.append, wanted))


def _transact(cursor: sqlite3.Cursor, script: Script[T]) -> T:
    cursor.execute("BEGIN")
    try:
        answer = drive(cursor, script)
    except BaseException:
        cursor.execute("ROLLBACK")
        raise
    cursor.execute("COMMIT")
    return answer


def _memory_connect() -> sqlite3.Connection:
    # Transactions are opened and ended by us; a store may be made in one thread and used in another.
    return sqlite3.connect(
        ":memory:", isolation_level=None, check_same_thread=False, cached_statements=CACHED_STATEMENTS
    )


@cache
def _empty() -> bytes:
    """An empty store: a copy costs a tenth of the statements that make its tables."""
    connection = _memory_connect()
    _transact(connection.cursor(), sql.migrate(fresh=True))
    content = connection.serialize()
    connection.close()
    return content
