"""The embedded store: one SQLite file of the standard library, for one process.

WAL and ``synchronous=FULL``: what was acknowledged outlives ``kill -9``, and the loss of power
where the disk honours a flush. Writes go through one thread with group commit, reads through
another that never waits for the first.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Final

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.facts import BlobRef, RequestId, TaskId
from orchestrator.core.grants import GrantState
from orchestrator.core.items import AgentTaskItem, Draft
from orchestrator.core.meeting import NOTHING_HEARD, ComputerRecord, Heard
from orchestrator.core.system_facts import GrantId
from orchestrator.core.task import AgentTask
from orchestrator.core.task_states import TaskStatus
from orchestrator.core.wire import ComputerId
from orchestrator.ports import (
    SYSTEM_STREAM,
    BackupRow,
    BlobMark,
    Clock,
    Coming,
    KeptBlob,
    KeptItem,
    KeptRow,
    KeptTable,
    Lease,
    Schedule,
    SignInRow,
    StreamHead,
    TaskRow,
    Token,
    TokenRow,
)
from orchestrator.store import (
    sealing,
    sql,
    sql_computers,
    sql_grants,
    sql_kept,
    sql_queue,
    sql_retention,
    sql_sign_ins,
    sql_system,
)
from orchestrator.store.file_lock import FileLock
from orchestrator.store.script import Script
from orchestrator.store.sqlite_thread import SqliteThread, drive, explained

Trace = Callable[[str], None]

_BUSY_TIMEOUT_S: Final = 5.0
"""A backup or a curious ``sqlite3`` holds the file for less."""
_CACHED_STATEMENTS: Final = 256
"""All texts there are; those for many rows are the dearest to prepare."""
_PRAGMAS: Final = (
    # Of a new file only: what was swept is given back to the disk. It has to come before anything is written.
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    # Only here does a Mac's disk flush its own cache too; elsewhere it says nothing.
    "PRAGMA fullfsync = ON",
    # What one statement may have to take back needs no file: it dies with the process anyway.
    "PRAGMA temp_store = MEMORY",
)
_VACUUM: Final = "PRAGMA incremental_vacuum"
_INCREMENTAL: Final = 2
_MOST_PAGES: Final = 20_000
"""Of 4 KiB that one sweep gives back: some 100 ms in which nobody writes."""
_TABLES: Final = "SELECT name FROM sqlite_master WHERE type = 'table'"


class SqlitePersistenceManager:
    """The `Store` in a SQLite file, which is made if it is not there.

    ``trace`` is called with each statement, in the thread that executes it.
    Raises StoreBusy, NewerSchema, InvalidRequest (a database of another program) and
    OrchestratorError (a file that cannot be used).
    """

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
        self._lock = lock
        self._connections = (reader, writer)  # the writer closes last and so empties the WAL
        self._writer = SqliteThread(writer, path=path, clock=clock)
        self._reader = SqliteThread(reader, path=path, clock=clock, reading=True)

    # -- journal -------------------------------------------------------------------------

    async def create(self, task_id: TaskId, drafts: Sequence[Draft]) -> list[AgentTaskItem]:
        return await self._writer.submit(lambda now: sql.create(task_id, drafts, now=now), key=task_id)

    async def append(
        self,
        task_id: TaskId,
        version: int,
        drafts: Sequence[Draft],
        *,
        status: TaskStatus,
        schedule: Schedule = "keep",
        token: Token | None = None,
        number_for: ComputerId | None = None,
        blobs: Sequence[bytes] = (),
        claim: Sequence[ComputerId] = (),
        release: bool = False,
    ) -> list[AgentTaskItem]:
        wanted = sql.Append(task_id, version, drafts, status, schedule, token, number_for, blobs, claim, release)
        return await self._writer.append(wanted)

    async def record(self, drafts: Sequence[Draft], *, stream: str = SYSTEM_STREAM) -> list[AgentTaskItem]:
        return await self._writer.submit(lambda now: sql_system.record(drafts, stream, now=now))

    async def read(self, task_id: TaskId, after_version: int = 0) -> list[AgentTaskItem]:
        return await self._reader.submit(lambda _: sql.read(task_id, after_version))

    async def heads(self) -> list[StreamHead]:
        return await self._reader.submit(lambda _: sql_system.heads())

    async def load(self, task_id: TaskId) -> AgentTask | None:
        return await self._reader.submit(lambda _: sql.load(task_id))

    async def load_by_request_id(self, request_id: RequestId) -> AgentTask | None:
        return await self._reader.submit(lambda _: sql.load_by_request_id(request_id))

    async def list_tasks(
        self, *, status: TaskStatus | None = None, session_id: str | None = None, limit: int = 100
    ) -> list[TaskRow]:
        return await self._reader.submit(lambda _: sql.list_tasks(status, session_id, limit))

    async def put_blob(self, content: bytes) -> BlobRef:
        return await self._writer.submit(lambda now: sql.put_blob(content, now=now))

    async def get_blob(self, sha256: str) -> bytes:
        return await self._reader.submit(lambda _: sql.get_blob(sha256))

    async def allot_number(
        self, computer: ComputerId, *, at_least: int = 0, lease: Lease | None = None, heard: Heard = NOTHING_HEARD
    ) -> int:
        return await self._writer.submit(
            lambda _: sql_queue.allot_number(computer, at_least=at_least, lease=lease, heard=heard),
            key=None if lease is None else lease.task_id,
        )

    async def computer(self, computer: ComputerId) -> ComputerRecord:
        return await self._reader.submit(lambda _: sql_computers.computer(computer))

    async def list_computers(self) -> list[ComputerRecord]:
        return await self._reader.submit(lambda _: sql_computers.list_computers())

    async def welcome_computer(self, computer: ComputerId, coming: Coming) -> int | None:
        return await self._writer.submit(lambda _: sql_computers.welcome(computer, coming))

    async def hear_computer(self, computer: ComputerId, heard: Heard) -> None:
        await self._writer.submit(lambda _: sql_computers.hear(computer, heard))

    async def freeze_computer(self, note: Draft) -> bool:
        return await self._writer.submit(lambda now: sql_computers.freeze(note, now=now))

    async def release_computer(self, note: Draft) -> bool:
        return await self._writer.submit(lambda now: sql_computers.release(note, now=now))

    async def count_revoked(self) -> int:
        return await self._reader.submit(lambda _: sql_system.count_revoked())

    async def add_token(self, token: TokenRow, *, note: Draft | None = None) -> None:
        await self._writer.submit(lambda now: sql_system.add_token(token, note, now=now))

    async def find_token(self, token_hash: str) -> TokenRow | None:
        return await self._reader.submit(lambda _: sql_system.find_token(token_hash))

    async def revoke_tokens(self, kind: str, name: str, *, note: Draft | None = None) -> int:
        return await self._writer.submit(lambda now: sql_system.revoke_tokens(kind, name, note, now=now))

    async def list_tokens(self) -> list[TokenRow]:
        return await self._reader.submit(lambda _: sql_system.list_tokens())

    async def list_grants(self, *, session_id: str | None = None) -> list[GrantState]:
        return await self._reader.submit(lambda _: sql_grants.list_grants(session_id))

    async def revoke_grant(self, grant_id: GrantId, *, note: Draft | None = None) -> bool:
        return await self._writer.submit(lambda now: sql_system.revoke_grant(grant_id, note, now=now))

    # -- who is signed in ----------------------------------------------------------------

    async def add_sign_in(self, row: SignInRow, *, most: int, note: Draft) -> list[SignInRow]:
        return await self._writer.submit(lambda now: sql_sign_ins.add(row, most, note, now=now))

    async def find_sign_in(self, session_hash: str) -> SignInRow | None:
        return await self._reader.submit(lambda _: sql_sign_ins.find(session_hash))

    async def use_sign_in(self, session_hash: str, at: datetime) -> None:
        await self._writer.submit(lambda _: sql_sign_ins.use(session_hash, at))

    async def end_sign_in(self, session_hash: str, *, note: Draft | None = None) -> bool:
        return await self._writer.submit(lambda now: sql_sign_ins.end(session_hash, note, now=now))

    async def forget_sign_ins(self, *, begun: datetime, used: datetime) -> int:
        return await self._writer.submit(lambda _: sql_sign_ins.forget(begun, used))

    async def list_sign_ins(self) -> list[SignInRow]:
        return await self._reader.submit(lambda _: sql_sign_ins.list_all())

    # -- what is kept, for an audit ------------------------------------------------------

    async def kept_items(self, stream: str, after_version: int = 0, limit: int = 500) -> list[KeptItem]:
        return await self._reader.submit(lambda _: sql_kept.kept_items(stream, after_version, limit))

    async def kept_rows(self, table: KeptTable, after: str | None = None, limit: int = 500) -> list[KeptRow]:
        return await self._reader.submit(lambda _: sql_kept.kept_rows(table, after, limit))

    async def kept_blobs(self, after: str | None = None, limit: int = 64) -> list[KeptBlob]:
        return await self._reader.submit(lambda _: sql_kept.kept_blobs(after, limit))

    async def kept_task(self, task_id: str) -> KeptRow | None:
        return await self._reader.submit(lambda _: sql_kept.kept_task(task_id))

    async def blob_sizes(self, names: Sequence[str]) -> dict[str, int]:
        return await self._reader.submit(lambda _: sql_kept.blob_sizes(names))

    async def raised_by(self, request_ids: Sequence[str]) -> dict[str, str]:
        return await self._reader.submit(lambda _: sql_kept.raised_by(request_ids))

    # -- retention -----------------------------------------------------------------------

    async def touch_blobs(self, names: Sequence[str]) -> dict[str, int]:
        return await self._writer.submit(lambda now: sql_retention.touch_blobs(names, now=now))

    async def list_blobs(self, after: str | None = None, limit: int = 5000) -> list[BlobMark]:
        return await self._reader.submit(lambda _: sql_retention.list_blobs(after, limit))

    async def sweep_blobs(self, names: Sequence[str], before: datetime) -> dict[str, int]:
        return await self._writer.submit(lambda _: _swept(names, before))

    async def prune_task(self, note: Draft) -> bool:
        return await self._writer.submit(lambda now: sql_retention.prune_task(note, now=now))

    async def pruned_at(self, task_id: TaskId) -> datetime | None:
        return await self._reader.submit(lambda _: sql_retention.pruned_at(task_id))

    async def add_backup(self, note: Draft) -> None:
        await self._writer.submit(lambda now: sql_retention.add_backup(note, now=now))

    async def remove_backup(self, note: Draft) -> bool:
        return await self._writer.submit(lambda now: sql_retention.remove_backup(note, now=now))

    async def list_backups(self, computer: ComputerId | None = None) -> list[BackupRow]:
        return await self._reader.submit(lambda _: sql_retention.list_backups(computer))

    async def close(self) -> None:
        self._reader.stop()
        self._writer.stop()
        await asyncio.to_thread(self._shut)

    # -- queue ---------------------------------------------------------------------------

    async def lease(self, holder: str, lease_s: float) -> Lease | None:
        return await self._writer.submit(lambda now: sql_queue.lease(holder, lease_s, now=now))

    async def renew(self, lease: Lease, lease_s: float) -> None:
        # Urgent: the very load that makes a queue long must not cost its holders their leases.
        await self._writer.submit(lambda now: sql_queue.renew(lease, lease_s, now=now), urgent=True)

    async def park(
        self, lease: Lease, version: int, *, due: datetime | None, waiting_for: ComputerId | None = None
    ) -> None:
        await self._writer.submit(
            lambda now: sql_queue.park(lease, version, due=due, waiting_for=waiting_for, now=now), key=lease.task_id
        )

    async def wake(self, task_id: TaskId) -> None:
        await self._writer.submit(lambda now: sql_queue.wake(task_id, now=now), key=task_id)

    async def wake_waiting(self, computer: ComputerId) -> int:
        return await self._writer.submit(lambda now: sql_queue.wake_waiting(computer, now=now))

    async def claim(self, lease: Lease, computers: Sequence[ComputerId]) -> ComputerId | None:
        return await self._writer.submit(lambda _: sql_queue.claim(lease, computers), key=lease.task_id)

    async def claimant(self, computer: ComputerId) -> TaskId | None:
        return await self._reader.submit(lambda _: sql_queue.claimant(computer))

    async def release_claims(self, lease: Lease, keep: Sequence[ComputerId] = ()) -> None:
        await self._writer.submit(lambda now: sql_queue.release_claims(lease, keep, now=now), key=lease.task_id)

    async def next_due(self) -> datetime | None:
        return await self._reader.submit(lambda now: sql_queue.next_due(now=now))

    # ------------------------------------------------------------------------------------

    def _shut(self) -> None:
        self._reader.join()
        self._writer.join()
        for connection in self._connections:
            connection.close()
        self._lock.release()


def _swept(names: Sequence[str], before: datetime) -> Script[dict[str, int]]:
    """Blobs swept, and their pages given back to the disk where the file was made so."""
    swept = yield from sql_retention.sweep_blobs(names, before)
    if (yield "PRAGMA auto_vacuum", ()) == [(_INCREMENTAL,)]:
        free = yield "PRAGMA freelist_count", ()
        for _ in range(min(free[0][0], _MOST_PAGES)):
            # One page each: of a statement without columns Python asks for no second step.
            yield _VACUUM, ()
    return swept


def _connect(path: Path, undo: ExitStack, trace: Trace | None) -> sqlite3.Connection:
    # Made here and used by one thread from then on; transactions are opened and ended by us.
    try:
        connection = sqlite3.connect(
            path,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_CACHED_STATEMENTS,
        )
    except sqlite3.Error as error:
        raise explained(error, path) from None
    undo.callback(connection.close)
    connection.set_trace_callback(trace)
    return connection


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
        drive(cursor, sql.migrate(fresh=not tables))
        drive(cursor, sql_queue.void_leases())
        cursor.execute("COMMIT")
    except sqlite3.Error as error:
        raise explained(error, path) from None
