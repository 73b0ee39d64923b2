"""A thread that owns one SQLite connection and commits many operations at a time.

A commit costs a flush of the disk however much is in it. So while one commit waits for the
disk, operations gather; the thread then runs all of them in the next transaction, each in a
savepoint of its own, and answers after COMMIT. A refused operation takes back its own writes
and nothing else; a failed COMMIT fails every operation of its batch, and callers try again by
item id. The event loop only ever appends to a queue.
"""

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from orchestrator.core.errors import OrchestratorError, StoreBusy
from orchestrator.ports import Clock
from orchestrator.store.entry import to_us
from orchestrator.store.sealing import store_closed
from orchestrator.store.sql import Script

T = TypeVar("T")

MAX_BATCH: Final = 256
"""Operations of one transaction: about 20 ms of work, so that nobody waits long behind the others."""
MAX_SKIPPED: Final = 1024
"""Operations looked at for one batch: with one task's long queue in front, the search has an end."""


@dataclass(eq=False, slots=True)
class _Operation:
    script: Callable[[int], Script[Any]]
    key: str | None
    future: asyncio.Future[Any]
    urgent: bool
    value: Any = None
    error: Exception | None = None


class SqliteThread:
    """Runs transaction scripts on ``connection`` until it is stopped.

    One that is ``reading`` runs each by itself: a read has no commit to share, and a long one
    must not hold back the answers of those before it.
    """

    def __init__(self, connection: sqlite3.Connection, *, path: Path, clock: Clock, reading: bool = False) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._begin = "BEGIN" if reading else "BEGIN IMMEDIATE"
        self._max_batch = 1 if reading else MAX_BATCH
        self._path = path
        self._clock = clock
        self._accepted: SimpleQueue[_Operation | None] = SimpleQueue()
        """From the callers to the thread; None is the last."""
        self._accepting = threading.Lock()
        self._stopping = False
        # The thread's own: what it has taken from the queue and not yet run.
        self._waiting: deque[_Operation] = deque()
        self._urgent: list[_Operation] = []
        self._last_taken = False
        # A daemon, because nobody can wait for what an interpreter that ends did not await.
        name = "store-reader" if reading else "store-writer"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(
        self, script: Callable[[int], Script[T]], *, key: str | None = None, urgent: bool = False
    ) -> asyncio.Future[T]:
        """Accept an operation; its answer comes to the running loop after COMMIT.

        ``script`` gets the transaction's time in microseconds. Operations of one ``key`` run in
        the order they came, one per transaction. ``urgent`` ones overtake the others.
        An accepted operation is carried out, also when nobody waits for it any more.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._accepting:
            if self._stopping:
                raise store_closed()
            self._accepted.put(_Operation(script, key, future, urgent))
        return future

    def stop(self) -> None:
        """Accept no more; what was accepted is still carried out."""
        with self._accepting:
            if not self._stopping:
                self._stopping = True
                self._accepted.put(None)

    def join(self) -> None:
        """Wait, blocking, until a stopped thread has ended."""
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            self._run_batch(batch)
            _deliver(batch)

    def _next_batch(self) -> list[_Operation]:
        """The operations of the next transaction; empty: stopped and nothing left."""
        self._take()
        batch, self._urgent = self._urgent, []
        keys: set[str] = set()
        skipped: list[_Operation] = []
        while self._waiting and len(batch) < self._max_batch and len(skipped) < MAX_SKIPPED:
            operation = self._waiting.popleft()
            if operation.key in keys:
                skipped.append(operation)
                continue
            if operation.key is not None:
                keys.add(operation.key)
            batch.append(operation)
        self._waiting.extendleft(reversed(skipped))
        return batch

    def _take(self) -> None:
        """Take what was accepted meanwhile; with nothing at hand, wait for it."""
        idle = not self._waiting
        while not self._last_taken and (idle or not self._accepted.empty()):
            operation = self._accepted.get()
            idle = False
            if operation is None:
                self._last_taken = True
            elif operation.urgent:
                self._urgent.append(operation)
            else:
                self._waiting.append(operation)

    def _run_batch(self, batch: Sequence[_Operation]) -> None:
        try:
            self._cursor.execute(self._begin)
            now = to_us(self._clock.now())
            if len(batch) == 1:
                # Alone it needs no savepoint: the transaction is its own.
                batch[0].value = drive(self._cursor, batch[0].script(now))
            else:
                for operation in batch:
                    self._run(operation, now)
            self._cursor.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the callers get it
            self._roll_back()
            for operation in batch:
                operation.error = explained(error, self._path)

    def _run(self, operation: _Operation, now: int) -> None:
        self._cursor.execute("SAVEPOINT operation")
        try:
            operation.value = drive(self._cursor, operation.script(now))
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # SQLite gave up the whole transaction, as it may when the disk is full
            self._cursor.execute("ROLLBACK TO operation")
            operation.error = explained(error, self._path)
        self._cursor.execute("RELEASE operation")

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            try:
                self._cursor.execute("ROLLBACK")
            except sqlite3.Error:
                # The next BEGIN says what is wrong, to callers who can hear it.
                return


def drive(cursor: sqlite3.Cursor, script: Script[T]) -> T:
    """Run a transaction script in the transaction that is open."""
    try:
        statement = next(script)
        while True:
            cursor.execute(*statement)
            statement = script.send(cursor.fetchall())
    except StopIteration as stop:
        answer: T = stop.value
        return answer


def explained(error: Exception, path: Path) -> Exception:
    """SQLite's error as one that teaches; any other error as it is."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = getattr(error, "sqlite_errorname", "SQLITE_ERROR")
    match code.split("_")[1]:
        case "FULL" | "IOERR":
            return OrchestratorError(
                f"The store {path} could not be written ({error}); nothing of this was kept.",
                remedy="Make room on its disk, or see what is wrong with the disk, and try again.",
            )
        case "BUSY" | "LOCKED":
            return StoreBusy(
                f"Another program keeps {path} locked.", remedy="Close what else has the file open, then try again."
            )
        case "NOTADB" | "CORRUPT":
            return OrchestratorError(
                f"{path} is damaged, or no SQLite database ({error}).",
                remedy="Name another file, or keep this one aside and put a backup in its place.",
            )
        case "CANTOPEN" | "READONLY" | "PERM":
            return OrchestratorError(
                f"{path} cannot be opened for writing ({error}).",
                remedy="Check the rights of the file and its directory.",
            )
        case _:
            return OrchestratorError(f"The store {path} failed: {error} ({code}).", remedy="Report it with the log.")


def _deliver(batch: Sequence[_Operation]) -> None:
    """Hand out the answers: one call into each loop, however many answers wait there."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Operation]] = {}
    for operation in batch:
        by_loop.setdefault(operation.future.get_loop(), []).append(operation)
    for loop, operations in by_loop.items():
        try:
            loop.call_soon_threadsafe(_answer, operations)
        except RuntimeError:
            continue  # that loop is closed: nobody waits there


def _answer(operations: Sequence[_Operation]) -> None:
    for operation in operations:
        if operation.future.done():
            continue  # its caller was cancelled; what it asked for is done all the same
        if operation.error is not None:
            operation.future.set_exception(operation.error)
        else:
            operation.future.set_result(operation.value)
