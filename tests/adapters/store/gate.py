"""A gate before the writer's transactions, so that a test can let operations gather in one."""

import asyncio
import threading

from orchestrator.adapters.store.sqlite import SqlitePersistenceManager
from orchestrator.core.task.facts import TaskId
from tests.waiting import HANG_S


class Gate:
    """Records statements by thread, and stops the writer before its next transaction while it is shut."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, str]] = []
        self._may_pass = threading.Event()
        self._may_pass.set()
        self._stands = threading.Event()

    def __call__(self, statement: str) -> None:
        self.statements.append((threading.current_thread().name, statement))
        if statement == "BEGIN IMMEDIATE" and not self._may_pass.is_set():
            self._stands.set()
            self._may_pass.wait(HANG_S)

    def shut(self) -> None:
        self._stands.clear()
        self._may_pass.clear()

    async def writer_stands(self) -> None:
        assert await asyncio.to_thread(self._stands.wait, HANG_S)
        self.statements.clear()

    def open(self) -> None:
        self._may_pass.set()

    def commits(self) -> int:
        return self.statements.count(("store-writer", "COMMIT"))


async def standing(store: SqlitePersistenceManager, gate: Gate) -> "asyncio.Task[None]":
    """The writer inside its first transaction, with one operation that does nothing."""
    gate.shut()
    first = asyncio.create_task(store.wake(TaskId("nobody")))
    await gate.writer_stands()
    return first
