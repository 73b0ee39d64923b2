"""A thread that owns one SQLite connection and commits many operations at a time.

A commit costs a flush of the disk however much is in it. So while one commit waits for the
disk, operations gather; the thread then runs all of them in the next transaction and answers
after COMMIT: first the plain appends, together in a few statements, then each of the others. Where
one of them is refused, all is taken back, and each is run again in a savepoint of its own: a refused
operation takes back its own writes and nothing else. A failed COMMIT fails every operation of its
batch, and callers try again by item id. The event loop only ever appends to a queue.
"""

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from orchestrator.adapters.store import sql_queue
from orchestrator.adapters.store.drafts import store_closed
from orchestrator.adapters.store.script import Script, of_a_row
from orchestrator.adapters.store.sql import Append
from orchestrator.adapters.store.sql_queue import InChunks, append_many, is_plain
from orchestrator.core.errors import OrchestratorError, StoreAway, StoreBusy, StoreDamaged
from orchestrator.core.ports import Clock
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.values import to_us

T = TypeVar("T")

CACHED_STATEMENTS: Final = 256
"""Statements that one connection keeps: all texts there are; those for many rows cost the most to prepare."""
MAX_BATCH: Final = 256
"""Operations of one transaction: about 20 ms of work, so that nobody waits long behind the others."""
MAX_SKIPPED: Final = 1024
"""Operations looked at for one batch: with one task's long queue in front, the search has an end."""


_MANY: Final = InChunks()


@dataclass(eq=False, slots=True)
class _Operation:
    script: Callable[[int], Script[Any]]
    key: str | None
    future: asyncio.Future[Any]
    urgent: bool = False
    plain: Append | None = None
    """The append that ``script`` is, when it may be run together with others; None: it may not."""
    claims: bool = False
    """Whether it claims computers, which another task often has: a refusal is a usual answer then."""
    done: bool = False
    """The operation was run with others, and ``value`` is its answer once the transaction is kept."""
    value: Any = None
    error: Exception | None = None


class SqliteThread:
    """Runs transaction scripts on ``connection`` until it is stopped.

    A thread that is ``reading`` runs each alone: a read has no commit to share, and a long one must not hold back the
    answers of those before it.
    """

    def __init__(self, connection: sqlite3.Connection, *, path: Path, clock: Clock, reading: bool = False) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._begin = "BEGIN" if reading else "BEGIN IMMEDIATE"
        self._max_batch = 1 if reading else MAX_BATCH
        self._path = path
        self._clock = clock
        self._accepted: deque[_Operation] = deque()
        """The queue from the callers to the thread."""
        self._bell: SimpleQueue[None] = SimpleQueue()
        """Rung after something was accepted, for a thread that found nothing to do and waits."""
        self._about_to_ring: asyncio.AbstractEventLoop | None = None
        self._accepting = threading.Lock()
        self._stopping = False
        # The thread's own: operations that it has taken from the queue and not yet run.
        self._waiting: deque[_Operation] = deque()
        self._urgent: list[_Operation] = []
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
        self._accept(_Operation(script, key, future, urgent))
        return future

    def append(self, wanted: Append) -> asyncio.Future[list[AgentTaskItem]]:
        """Accept the port's ``append``, as :meth:`submit` accepts others; plain ones are run together."""
        future: asyncio.Future[list[AgentTaskItem]] = asyncio.get_running_loop().create_future()
        plain = wanted if is_plain(wanted) else None
        script = partial(sql_queue.append, wanted)
        self._accept(_Operation(script, wanted.task_id, future, plain=plain, claims=bool(wanted.claim)))
        return future

    def _accept(self, operation: _Operation) -> None:
        with self._accepting:
            if self._stopping:
                raise store_closed()
            self._accepted.append(operation)
        loop = operation.future.get_loop()
        if self._about_to_ring is not loop:
            # After what this loop is about to run anyway: callers that go on together are to share
            # a commit, and a thread that wakes at the first of them would only fight for the interpreter.
            self._about_to_ring = loop
            loop.call_soon(self._ring)

    def _ring(self) -> None:
        self._about_to_ring = None
        self._bell.put(None)

    def stop(self) -> None:
        """Accept no more; operations that were accepted are still carried out."""
        with self._accepting:
            self._stopping = True
        self._bell.put(None)

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
        while True:
            # In this order: nothing is accepted any more once it is stopping.
            stopping = self._stopping
            while self._accepted:
                operation = self._accepted.popleft()
                if operation.urgent:
                    self._urgent.append(operation)
                else:
                    self._waiting.append(operation)
            if self._waiting or self._urgent or stopping:
                return
            self._bell.get()

    def _run_batch(self, batch: Sequence[_Operation]) -> None:
        try:
            if len(batch) == 1 and batch[0].plain is None:
                # A refused one is alone here, and takes nothing of others with it.
                self._run_bare(batch[0], self._begun())
            elif not self._run_smoothly(batch):
                self._run_apart(batch)
            self._cursor.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the callers get it
            self._roll_back()
            for operation in batch:
                operation.error = explained(error, self._path)

    def _run_smoothly(self, batch: Sequence[_Operation]) -> bool:
        """Run all, and those without a savepoint that few refuse; False: one was refused, and all was rolled back.

        A savepoint takes two more statements.
        """
        now = self._begun()
        try:
            appends = [operation for operation in batch if operation.plain is not None]
            if appends:
                self._run_together(appends, now)
            others = [operation for operation in batch if not operation.done]
            # An append that did not go with the others will be refused.
            is_refused = any(operation.plain is not None for operation in others)
            for operation in others:
                run = self._run if is_refused or operation.claims else self._run_bare
                run(operation, now)
        except Exception:  # noqa: BLE001 - each is run by itself, and whom it concerns gets the error then
            self._roll_back()
            return False
        return True

    def _run_together(self, appends: Sequence[_Operation], now: int) -> None:
        """Run what goes smoothly among ``appends``, before anything else."""
        answers = drive(self._cursor, append_many([one.plain for one in appends if one.plain], _MANY, now=now))
        for operation, answer in zip(appends, answers, strict=True):
            operation.value, operation.done = answer, answer is not None

    def _run_apart(self, batch: Sequence[_Operation]) -> None:
        """Run each so that a refused one takes nothing of others with it."""
        now = self._begun()
        for operation in batch:
            # What was said of its first run was taken back with it.
            operation.error = None
            self._run(operation, now)

    def _begun(self) -> int:
        """The time of the transaction that is now open."""
        self._cursor.execute(self._begin)
        return to_us(self._clock.now())

    def _run_bare(self, operation: _Operation, now: int) -> None:
        operation.value = drive(self._cursor, operation.script(now))

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
    """SQLite's error, or that of a row, as one that teaches; any other error as it is."""
    if not isinstance(error, sqlite3.Error):
        return of_a_row(error)
    code = getattr(error, "sqlite_errorname", "SQLITE_ERROR")
    match code.split("_")[1]:
        case "FULL" | "IOERR":
            # This may pass: the task waits for room, and does not fail for it.
            return StoreAway(
                f"The store {path} could not be written ({error}); nothing of this was kept.",
                remedy="Make room on its disk, or see what is wrong with the disk, and try again.",
            )
        case "BUSY" | "LOCKED":
            return StoreBusy(
                f"Another program keeps {path} locked.",
                remedy="Close other programs that have it open, then try again.",
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
        case _ if str(error).startswith("no such "):
            return StoreDamaged(
                f"The store {path} has another shape than this program made ({error}).",
                remedy="Run `cc-orchestrator audit verify --data-dir DIR`: it names what was changed. "
                "Put a backup in its place.",
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
