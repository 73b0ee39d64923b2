"""What computers are told without being asked: which questions wait there, as they open and close.

One loop for all computers: what changes within a second goes together, and only tasks that changed are
looked at. Where something waits it is looked at again from time to time, so that who lost access hears it.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import ComputerLine
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.task import AgentTask
from orchestrator.engine.tasks import TaskService, patiently

logger = logging.getLogger(__name__)

EVERY_S: Final = 1.0
"""Between two looks at what changed."""
AGAIN_S: Final = 5.0
"""After so long it is looked whether what was told to wait still does, and for whom."""

Rows = list[dict[str, str]]


class News:
    """Tells each open line its questions. ``rows`` raises OrchestratorError where nobody may be told any more."""

    def __init__(
        self,
        service: TaskService,
        *,
        rows: Callable[[ComputerLine], Awaitable[Rows]],
        asks: Callable[[AgentTask], bool],
        tell: Callable[[ComputerLine, Rows], None],
        tell_wrong: Callable[[ComputerLine, OrchestratorError], None],
    ) -> None:
        self._service = service
        self._rows, self._asks, self._tell, self._tell_wrong = rows, asks, tell, tell_wrong
        self._told: dict[ComputerLine, Rows] = {}
        self._due: set[ComputerLine] = set()
        self._changed: set[TaskId] = set()
        self._woken = asyncio.Event()
        self._ends: list[Callable[[], object]] = []

    def opened(self, line: ComputerLine) -> None:
        """Tell this computer from now on."""
        if not self._ends:
            self._ends = [
                self._service.bus.subscribe("tasks", self._hear),
                asyncio.ensure_future(self._work()).cancel,
            ]
        self._told[line] = []
        self._due.add(line)
        self._woken.set()

    def closed(self, line: ComputerLine) -> None:
        """The computer is gone."""
        self._told.pop(line, None)
        self._due.discard(line)

    def close(self) -> None:
        """Tell nobody any more."""
        for end in self._ends:
            end()
        self._ends = []

    def _hear(self, payload: Mapping[str, Any]) -> None:
        if self._told:
            self._changed.add(TaskId(payload["task_id"]))
            self._woken.set()

    async def _work(self) -> None:
        while True:
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_S):
                        await self._woken.wait()
                await self._look(again=not self._woken.is_set())
            except Exception:
                logger.exception("the desk cannot tell what is new")
            await asyncio.sleep(EVERY_S)

    async def _look(self, *, again: bool) -> None:
        self._woken.clear()
        changed, self._changed = self._changed, set()
        due, self._due = self._due, set()
        if again:
            due |= {line for line, told in self._told.items() if told}
        for task_id in changed:
            task = await patiently(partial(self._service.if_known, task_id), for_s=math.inf)
            due |= {line for line, told in self._told.items() if task is not None and self._concerns(task, line, told)}
        for line in due:
            await self._news(line)

    def _concerns(self, task: AgentTask, line: ComputerLine, told: Rows) -> bool:
        known = any(row["task"] == task.task_id for row in told)
        return line.computer in task.computers and (known or self._asks(task))

    async def _news(self, line: ComputerLine) -> None:
        try:
            rows = await self._rows(line)
        except OrchestratorError as error:
            if self._told.get(line):
                self._told[line] = []
                self._tell_wrong(line, error)
            return
        if line in self._told and rows != self._told[line]:
            self._told[line] = rows
            self._tell(line, rows)
