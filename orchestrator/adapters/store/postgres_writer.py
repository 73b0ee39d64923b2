"""Writes to PostgreSQL: many appends in one transaction, everything else in one of its own.

A commit costs a flush of the disk however much is in it. So while one commit is under way plain
appends gather, and then go together in the next. Any other operation has a transaction of
its own on one of a few connections: it locks rows in the one order that the scripts keep to, which
a transaction of many would not, and nobody waits for what another one locked. Answers come after
COMMIT. Operations of one key run one after the other, in the order they came.

Operations that were certainly not committed are run again: the victim of a deadlock, and those whose COMMIT was not
sent before the server went away. Where the answer to COMMIT was lost, an append looks for its items first. Others are
run again if doing them twice has the effect of doing them once; else they are refused.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

from orchestrator.adapters.store import sql, sql_queue
from orchestrator.adapters.store.drafts import store_closed
from orchestrator.adapters.store.postgres_dialect import (
    StoreTime,
    Unnested,
    Verdict,
    drive,
    explained,
    is_taken,
    unknown,
    verdict,
)
from orchestrator.adapters.store.postgres_links import PATIENCE_S, Links
from orchestrator.adapters.store.script import Script
from orchestrator.adapters.store.sql_queue import append_many, is_plain
from orchestrator.core.errors import StoreAway
from orchestrator.core.task.items import AgentTaskItem

T = TypeVar("T")

MAX_BATCH: Final = 256
"""Appends of one transaction: about 20 ms of work, so that nobody waits long behind the others."""
WORTH_IT: Final = 32
"""Appends that are not parted: beyond them a commit of its own costs little beside the rows."""
TOGETHER: Final = 2
"""Transactions of many appends at a time: one is made ready while the other waits for the disk."""
ALONE: Final = 4
"""Transactions of one operation at a time."""
URGENTLY: Final = 1
"""And of an urgent one, so that a lease is renewed also while all others wait for what somebody has locked."""
_TRIES: Final = 5
"""Tries of an operation that finds something made that it was to make: the second time it sees it before."""
_PAUSE_S: Final = 0.004
_MOST_PAUSES: Final = 50
_MANY: Final = Unnested()


@dataclass(eq=False, slots=True)
class _Operation:
    script: Callable[[int], Script[Any]]
    key: str | None
    future: asyncio.Future[Any]
    urgent: bool = False
    once: bool = False
    plain: sql.Append | None = None
    """The append that ``script`` is, when it may be run together with others; None: it may not."""
    stored: Callable[[], Script[Any]] | None = None
    """Looks for what it has written before; None: it has no way to know."""
    in_doubt: bool = False
    """COMMIT was sent, and nobody heard what came of it."""
    since: float = field(default_factory=time.monotonic)


class PostgresWriter:
    """Runs transaction scripts on ``links``, once ``opened`` has made the database ready, until it is closed."""

    def __init__(
        self,
        links: Links,
        store_time: StoreTime,
        opened: Callable[[], Awaitable[None]],
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._links = links
        self._time = store_time
        self._opened = opened
        self._patience_s = patience_s
        self._plain: deque[_Operation] = deque()
        self._others: deque[_Operation] = deque()
        self._urgent: deque[_Operation] = deque()
        self._by_key: dict[str, deque[_Operation]] = {}
        """The operations that wait behind the one with the same key that is being worked on."""
        self._together: set[asyncio.Task[None]] = set()
        self._alone: set[asyncio.Task[None]] = set()
        self._urgently: set[asyncio.Task[None]] = set()
        self._about_to_start = False
        self._stopping = False

    def submit(
        self, script: Callable[[int], Script[T]], *, key: str | None = None, urgent: bool = False, once: bool = False
    ) -> asyncio.Future[T]:
        """Accept an operation, which is carried out also when nobody waits for it any more."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._accept(_Operation(script, key, future, urgent, once))
        return future

    def append(self, wanted: sql.Append) -> asyncio.Future[list[AgentTaskItem]]:
        """Accept the port's ``append``; plain ones are run together."""
        future: asyncio.Future[list[AgentTaskItem]] = asyncio.get_running_loop().create_future()
        self._accept(
            _Operation(
                partial(sql_queue.append, wanted),
                wanted.task_id,
                future,
                plain=wanted if is_plain(wanted) else None,
                stored=partial(sql.already_there, wanted.task_id, wanted.drafts),
            )
        )
        return future

    async def close(self) -> None:
        """Accept no more, and finish what was accepted."""
        self._stopping = True
        self._start()
        while running := self._together | self._alone | self._urgently:
            await asyncio.wait(running)

    def _accept(self, operation: _Operation) -> None:
        if self._stopping:
            raise store_closed()
        if operation.key is None:
            self._is_ready(operation)
        elif operation.key in self._by_key:
            self._by_key[operation.key].append(operation)
        else:
            self._by_key[operation.key] = deque()
            self._is_ready(operation)

    def _is_ready(self, operation: _Operation) -> None:
        if operation.urgent:
            self._urgent.append(operation)
        elif operation.plain is not None:
            self._plain.append(operation)
        else:
            self._others.append(operation)
        if not self._about_to_start:
            # After what the loop is about to run anyway: callers that go on together are to share a commit.
            self._about_to_start = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        """Let idle connections begin with what is there."""
        self._about_to_start = False
        if self._plain and len(self._together) < TOGETHER:
            self._begin(self._together, self._work_together())
        if self._urgent and len(self._urgently) < URGENTLY:
            self._begin(self._urgently, self._work_alone(self._urgent))
        for _ in range(min(len(self._others), ALONE - len(self._alone))):
            self._begin(self._alone, self._work_alone(self._others))

    def _begin(self, running: set[asyncio.Task[None]], work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        running.add(task)
        task.add_done_callback(running.discard)
        # What came between its last look and its end.
        task.add_done_callback(lambda _: self._start())

    async def _work_together(self) -> None:
        while self._plain:
            # With many, half of them: the other connection makes its half ready while this one waits for the disk.
            most = min(MAX_BATCH, max(WORTH_IT, (len(self._plain) + 1) // TOGETHER))
            batch = [self._plain.popleft() for _ in range(min(most, len(self._plain)))]
            self._start()
            for operation in await self._run_together(batch):
                # Each by itself: whom it concerns gets the refusal then.
                operation.plain = None
                self._is_ready(operation)

    async def _work_alone(self, waiting: deque[_Operation]) -> None:
        while waiting:
            operation = waiting.popleft()
            try:
                self._answer(operation, await self._run_alone(operation))
            except Exception as error:  # noqa: BLE001 - the caller gets it
                self._refuse(operation, explained(error, self._links.place))

    def _answer(self, operation: _Operation, value: Any) -> None:
        if not operation.future.done():
            operation.future.set_result(value)
        self._is_done(operation)

    def _refuse(self, operation: _Operation, error: Exception) -> None:
        if not operation.future.done():
            operation.future.set_exception(error)
        self._is_done(operation)

    def _is_done(self, operation: _Operation) -> None:
        if operation.key is None:
            return
        if waiting := self._by_key[operation.key]:
            self._is_ready(waiting.popleft())
        else:
            del self._by_key[operation.key]

    async def _run_together(self, batch: Sequence[_Operation]) -> list[_Operation]:
        """Run these appends in one transaction and answer them; those that it was not for."""
        committing = False
        try:
            await self._opened()
            async with self._links.one() as connection:
                await self._time.ask_now_and_then(connection)
                await connection.execute("BEGIN")
                wanted = [operation.plain for operation in batch if operation.plain is not None]
                try:
                    answers = await drive(connection, append_many(wanted, _MANY, now=self._time.now()))
                except Exception as error:
                    await _roll_back(connection, error)
                    raise
                committing = True
                await connection.execute("COMMIT")
        except StoreAway as error:
            for operation in batch:
                self._refuse(operation, error)
            return []
        except Exception as error:  # noqa: BLE001 - it is met again by each that is run by itself, or is over
            for operation in batch:
                operation.in_doubt = committing and verdict(error) is Verdict.AWAY
            return list(batch)
        left: list[_Operation] = []
        for operation, answer in zip(batch, answers, strict=True):
            if answer is None:
                left.append(operation)
            else:
                self._answer(operation, answer)
        return left

    async def _run_alone(self, operation: _Operation) -> Any:
        """Run one operation until it is done, refused or given up."""
        began = time.monotonic()
        for tries in count(1):
            try:
                return await self._transaction(operation)
            except Exception as error:
                found = verdict(error)
                if operation.in_doubt and operation.once:
                    raise unknown(self._links.place) from None
                # While the server is away all wait at once, however few are tried at a time.
                since = operation.since if found is Verdict.AWAY else began
                over = time.monotonic() - since > self._patience_s
                if found is Verdict.REFUSED or over or (is_taken(error) and tries >= _TRIES):
                    raise
            # Two that met are not to meet again.
            await asyncio.sleep(random.uniform(0, _PAUSE_S * min(tries, _MOST_PAUSES)))

    async def _transaction(self, operation: _Operation) -> Any:
        await self._opened()
        async with self._links.one() as connection:
            await self._time.ask_now_and_then(connection)
            if operation.in_doubt and operation.stored is not None:
                stored = await drive(connection, operation.stored())
                if stored is not None:
                    return stored
            await connection.execute("BEGIN")
            try:
                value = await drive(connection, operation.script(self._time.now()))
            except Exception as error:
                await _roll_back(connection, error)
                raise
            operation.in_doubt = True
            try:
                await connection.execute("COMMIT")
            except Exception as error:
                # The caller that gave a reason has rolled it back.
                operation.in_doubt = verdict(error) is Verdict.AWAY
                raise
            operation.in_doubt = False
            return value


async def _roll_back(connection: Any, error: Exception) -> None:
    """End the transaction that failed; a connection on which it cannot be ended is not used again."""
    if connection.is_closed() or verdict(error) is Verdict.AWAY:
        connection.terminate()
        return
    try:
        await connection.execute("ROLLBACK")
    except Exception:  # noqa: BLE001 - the server ends it with the connection
        connection.terminate()
