"""The store of tests and dry runs: a SQLite database in memory that ends with the process.

After its turn has come no method awaits anything, so each is one transaction without a thread.
"""

import asyncio
import sqlite3
import weakref
from collections.abc import Callable
from functools import cache, partial
from typing import TypeVar

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql, sql_queue
from orchestrator.adapters.store.script import Script
from orchestrator.adapters.store.sql_store import SqlStore
from orchestrator.adapters.store.sqlite_thread import CACHED_STATEMENTS, drive
from orchestrator.core.ports import Clock
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.values import to_us
from orchestrator.runtime.clock import SystemClock

T = TypeVar("T")


class InMemoryPersistenceManager(SqlStore):
    """The `Store` in this process's memory."""

    shared = False

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self._closed = False
        connection = _connect()
        connection.deserialize(_empty())
        # Few tests and callers close a store that leaves nothing behind.
        weakref.finalize(self, connection.close)
        self._cursor = connection.cursor()

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


def _connect() -> sqlite3.Connection:
    # Transactions are opened and ended by us; a store may be made in one thread and used in another.
    return sqlite3.connect(
        ":memory:", isolation_level=None, check_same_thread=False, cached_statements=CACHED_STATEMENTS
    )


@cache
def _empty() -> bytes:
    """An empty store: a copy costs a tenth of the statements that make its tables."""
    connection = _connect()
    _transact(connection.cursor(), sql.migrate(fresh=True))
    content = connection.serialize()
    connection.close()
    return content
