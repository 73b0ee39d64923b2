"""The store of several nodes: a PostgreSQL database, which any number of processes share.

What was acknowledged was flushed by the server. Who may go on with a task is said by the token in
its row, so that nothing rests on the clocks of the nodes; leases go by the server's.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql, sql_records
from orchestrator.adapters.store.objects import check_objects, strange_on_server
from orchestrator.adapters.store.postgres_dialect import (
    GivenTime,
    MoreThanOne,
    ServerTime,
    StoreClock,
    Verdict,
    drive,
    drive_one,
    explained,
    run,
    verdict,
)
from orchestrator.adapters.store.postgres_links import AT_WORK, PATIENCE_S, PREPARING, READING, WRITING, Links
from orchestrator.adapters.store.postgres_writer import ALONE, TOGETHER, URGENTLY, PostgresWriter
from orchestrator.adapters.store.schema import READ_META, SCHEMA, SCHEMA_KEY, needed
from orchestrator.adapters.store.script import Script
from orchestrator.adapters.store.sql_records import Welcome
from orchestrator.adapters.store.sql_store import SqlStore
from orchestrator.core.errors import InvalidRequest, StoreBusy
from orchestrator.core.ports import Clock, Coming
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.values import ComputerId
from orchestrator.core.wire.identity import Heard
from orchestrator.runtime.gathering import Gathered

T = TypeVar("T")

logger = logging.getLogger(__name__)

_NOT_OF_SCHEMA: Final = frozenset({"42P07", "42701", "42P01", "42703", "42710"})
"""A table, column or index that is there already, or is not there."""
_OLDEST_SERVER: Final = 15
_READERS: Final = 4
_AT_ONCE: Final = 32
"""Computers that come or go in one transaction."""
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0
"""Between two attempts of one operation, doubling: connections that were cut are gone through soon."""
_SAME_MOMENT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_ABOUT_SERVER: Final = """SELECT current_setting('server_version_num')::int / 10000, current_setting('server_encoding'),
    current_setting('synchronous_commit')"""
# The bus may be in the same database, and opens before the store.
TABLES: Final = r"""SELECT tablename FROM pg_tables
    WHERE schemaname = current_schema() AND tablename NOT LIKE 'bus\_%'"""
_AT_WORK: Final = f"""SELECT COUNT(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = '{AT_WORK}'"""
MIGRATING: Final = 0x63632D6F726368
"""The number of the lock for migrating the tables: the letters ``cc-orch``."""
# A task's row is written again with each append: with room beside the old one no index has to hear of it.
_ROOM: Final = "ALTER TABLE tasks SET (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.02)"


class PostgresPersistenceManager(SqlStore):
    """The `Store` in the PostgreSQL database of ``url``, for the event loop that uses it first.

    ``clock`` None: the server's. It connects when it is first used, or by ``open``. ``patience_s``: how
    long an operation waits for a server that is away before StoreAway.
    """

    shared = True

    def __init__(self, url: str, *, clock: Clock | None = None, patience_s: float = PATIENCE_S) -> None:
        self._url = url
        self._writing = Links(url, WRITING, most=ALONE + TOGETHER + URGENTLY, patience_s=patience_s)
        self._reading = Links(url, READING, most=_READERS, patience_s=patience_s)
        self._time = ServerTime() if clock is None else GivenTime(clock)
        self.clock = StoreClock(self._time)
        self._writer = PostgresWriter(self._writing, self._time, self.open, patience_s=patience_s)
        self._patience_s = patience_s
        # Each welcome writes to the system stream, so each would wait for the one before it: thousands come at once.
        self._welcomes = Gathered(self._welcome, _AT_ONCE)
        self._farewells = Gathered(self._hear, _AT_ONCE)
        self._opening: asyncio.Task[None] | None = None
        self._is_open = False
        self._is_closed = False

    async def open(self) -> None:
        """Connect, and bring the tables to this version; done once for all callers.

        Raises StoreAway, NewerSchema, and InvalidRequest (what the URL names cannot be used).
        """
        while not self._is_open:
            if self._opening is None:
                self._opening = asyncio.get_running_loop().create_task(self._prepare())
                # Its result is heard, even if all askers have gone by then.
                self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
            opening = self._opening
            try:
                # One caller that is cancelled must not end it for the others.
                await asyncio.shield(opening)
            except asyncio.CancelledError:
                if opening.cancelled() and self._is_closed:
                    raise sealing.store_closed() from None
                raise
            finally:
                if opening.done() and self._opening is opening:
                    self._opening = None

    async def _read(self, script: Callable[[int], Script[T]]) -> T:
        if self._is_closed:
            raise sealing.store_closed()
        await self.open()
        return await self._again(lambda: self._read_once(script), self._reading.place)

    async def _read_once(self, script: Callable[[int], Script[T]]) -> T:
        """A script of one statement sees one moment by itself; one of several is begun again in a transaction."""
        async with self._reading.one() as connection:
            await self._time.ask_now_and_then(connection)
            try:
                return await drive_one(connection, script(self._time.now()))
            except MoreThanOne:
                await connection.execute(_SAME_MOMENT)
                try:
                    return await drive(connection, script(self._time.now()))
                finally:
                    await connection.execute("ROLLBACK")

    def _write(
        self, script: Callable[[int], Script[T]], *, key: str | None = None, urgent: bool = False, once: bool = False
    ) -> Awaitable[T]:
        return self._writer.submit(script, key=key, urgent=urgent, once=once)

    def _append(self, wanted: sql.Append) -> Awaitable[list[AgentTaskItem]]:
        return self._writer.append(wanted)

    async def welcome_computer(self, computer: ComputerId, coming: Coming, *, note: Draft | None = None) -> int | None:
        return await self._welcomes.ask(Welcome(computer, coming, note))

    async def hear_computer(self, computer: ComputerId, heard: Heard) -> None:
        await self._farewells.ask((computer, heard))

    async def _welcome(self, asked: Sequence[Welcome]) -> Sequence[int | None]:
        return await self._write(lambda now: sql_records.welcome(asked, now=now))

    async def _hear(self, asked: Sequence[tuple[ComputerId, Heard]]) -> Sequence[None]:
        await self._write(lambda _: sql_records.hear(asked))
        return [None] * len(asked)

    async def strange(self) -> list[str]:
        return [one.sentence for one in await self._read(lambda _: strange_on_server())]

    async def odd(self) -> list[str]:
        return []  # The server keeps to the types of its columns.

    async def close(self) -> None:
        self._is_closed = True
        await self._writer.close()
        if (opening := self._opening) is not None:
            # Nobody waits for a server that says nothing; the transaction there is rolled back.
            opening.cancel()
            await asyncio.wait([opening])
        await asyncio.gather(self._writing.close(), self._reading.close())

    async def _prepare(self) -> None:
        links = Links(self._url, PREPARING, most=1, patience_s=self._patience_s, doubted=True)
        try:
            await self._again(lambda: self._prepare_once(links), links.place)
        finally:
            await links.close()
        self._is_open = True

    async def _prepare_once(self, links: Links) -> None:
        async with links.one() as connection:
            version, encoding, commits = await connection.fetchrow(_ABOUT_SERVER)
            _check_server(version, encoding, links.place)
            if commits == "off":
                # Somebody's default for a whole server; here what was acknowledged is kept.
                self._writing.set("synchronous_commit", "on")
            await self._time.ask_now_and_then(connection)
            async with connection.transaction():
                await _migrate(connection, links.place)

    async def _again(self, attempt: Callable[[], Awaitable[T]], where: str) -> T:
        """What may be done again whatever became of it before, until the server has been away for too long."""
        until, pause = time.monotonic() + self._patience_s, _FIRST_PAUSE_S
        while True:
            try:
                return await attempt()
            except Exception as error:  # noqa: BLE001 - told as one that teaches
                if verdict(error) is not Verdict.AWAY or time.monotonic() > until:
                    raise explained(error, where) from None
            # A connection that is gone is waited for where it is made again; a standby answers, again and again.
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)


async def _migrate(connection: Any, where: str) -> None:
    await connection.execute(f"SELECT pg_advisory_xact_lock({MIGRATING})")
    tables = {name for (name,) in await connection.fetch(TABLES)}
    if tables and "meta" not in tables:
        raise sealing.not_a_store()
    if tables:
        await _must_be_left_by_all(connection)
    try:
        await drive(connection, sql.migrate(fresh=not tables))
    except Exception as error:
        if getattr(error, "sqlstate", "") not in _NOT_OF_SCHEMA:
            raise
        raise sealing.not_of_schema(where, error) from None
    for told in check_objects(await drive(connection, strange_on_server()), where):
        logger.warning("the store %s: %s", where, told)
    if not tables:
        await connection.execute(_ROOM)


async def _must_be_left_by_all(connection: Any) -> None:
    """Raises StoreBusy where older nodes are at work on tables that would then be none of theirs."""
    rows = await run(connection, (READ_META, (SCHEMA_KEY,)))
    others = await connection.fetchval(_AT_WORK)
    if others and rows and int(rows[0][0]) < needed(SCHEMA):
        raise StoreBusy(
            f"Older nodes are at work ({others} connections) on tables that this version has to change for good.",
            remedy="Stop all nodes, then start this version. Make a backup before: `cc-orchestrator store export`.",
        )


def _check_server(version: int, encoding: str, where: str) -> None:
    if version < _OLDEST_SERVER:
        raise InvalidRequest(
            f"The server of {where} is PostgreSQL {version}; {_OLDEST_SERVER} is the oldest that works.",
            remedy="Update the server.",
        )
    if encoding != "UTF8":
        raise InvalidRequest(
            f"The database {where} cannot hold every character: its encoding is {encoding}.",
            remedy="Make one with createdb --encoding=UTF8 --template=template0.",
        )
