"""Notifications of tasks: one subject for all of them, which every node of a shared store hears anyway.

Theory. Most that a node hears of is what it has just appended itself, and folded to do so. So it keeps those tasks as
they are by then: a watcher that is told of a version finds it here and reads nothing. What another node appended is
read. Nothing that is decided rests on it: the store has the last word at each append.
"""

from collections.abc import Mapping
from typing import Any, Final

from orchestrator.core.ports import Bus
from orchestrator.core.ports.bus import End, Hear
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.task import AgentTask

MOST_KEPT: Final = 256
"""Tasks that are kept: more than a node works on at once."""


class TaskNews:
    """Hands the notifications of each task to those who wait for that one, and has the tasks as they are by then."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._handlers: dict[str, dict[object, Hear]] = {}
        self._end: End | None = None
        self._kept: dict[TaskId, AgentTask] = {}

    def hear(self, task_id: TaskId, handler: Hear) -> End:
        """Call ``handler`` with each notification of a task; the answer ends it."""
        if self._end is None:
            self._end = self._bus.subscribe("tasks", self._told)
        key = object()
        self._handlers.setdefault(task_id, {})[key] = handler

        def end() -> None:
            handlers = self._handlers.get(task_id, {})
            handlers.pop(key, None)
            if not handlers:
                self._handlers.pop(task_id, None)
            if not self._handlers and self._end is not None:
                self._end()
                self._end = None

        return end

    def _told(self, payload: Mapping[str, Any]) -> None:
        for handler in tuple(self._handlers.get(str(payload["task_id"]), {}).values()):
            handler(payload)

    def publish(self, task: AgentTask) -> None:
        """Tell of a task that this node appended to, as it is with that; one that has ended is kept no longer."""
        before = self._kept.pop(task.task_id, None)
        if task.ended is None:
            # Two of this node may append one after the other, and tell in the other order.
            self._kept[task.task_id] = before if before is not None and before.version > task.version else task
            if len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        self._bus.publish("tasks", {"task_id": task.task_id, "version": task.version})

    def kept(self, task_id: TaskId, version: int) -> AgentTask | None:
        """The task at this version, or at a later one; None: it has to be read."""
        task = self._kept.get(task_id)
        return task if task is not None and task.version >= version else None
