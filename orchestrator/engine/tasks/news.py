"""Notifications of tasks: one subject for all of them, which every node of a shared store hears anyway.

Theory. A notification says that there is something to read. The node that wrote it has it at hand, so a watcher there
takes the task as it was written and reads nothing. An append holds at one version only: a task that was written is the
whole truth up to that version, whichever node wrote the items before. Any other notification, or a gap between what
was written, is a reason to read. Nothing that is decided rests on what is at hand: the store has the last word at each
append.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from orchestrator.core.ports import Bus
from orchestrator.core.ports.bus import End, Hear
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.task import AgentTask

MOST_KEPT: Final = 256
"""Tasks that are kept: more than a node works on at once."""
MOST_ENDED: Final = 4096
"""Items of tasks that are kept for a while after their end, for those who ask what came of them."""
_MOST_AT_HAND: Final = 64
"""The writes of a task that are kept for a follower who does something else; of more, all are read."""


class Written(NamedTuple):
    """What this node has just written of a task."""

    task: AgentTask
    """The task with it."""
    items: Sequence[AgentTaskItem]


class TaskNews:
    """Hands the notifications of each task to those who wait for that one, with what this node wrote."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._handlers: dict[str, dict[object, Hear]] = {}
        self._end: End | None = None
        self._written: Written | None = None
        self._kept: dict[TaskId, AgentTask] = {}
        self._ended: dict[TaskId, AgentTask] = {}
        self._items = 0
        """Items of those that have ended."""

    def tell(self, written: Written) -> None:
        """Tell every node of items, and this one what they are."""
        task = written.task
        self._keep(task)
        before, self._written = self._written, written
        try:
            self._bus.publish("tasks", {"task_id": task.task_id, "version": task.version})
        finally:
            self._written = before

    def written(self, payload: Mapping[str, Any]) -> Written | None:
        """What this node wrote and tells by this notification at this moment; None: it has to be read."""
        found = self._written
        if found is None or (found.task.task_id, found.task.version) != (payload["task_id"], payload["version"]):
            return None
        return found

    def kept(self, task_id: TaskId, version: int) -> AgentTask | None:
        """The task as this node wrote it lately, at this version or at a later one; None: it has to be read."""
        task = self._kept.get(task_id)
        return task if task is not None and task.version >= version else None

    def last(self, task_id: TaskId) -> AgentTask | None:
        """The task as this node wrote it last, also where it has ended; None: it did not lately."""
        return self._kept.get(task_id) or self._ended.get(task_id)

    def _keep(self, task: AgentTask) -> None:
        before = self._kept.pop(task.task_id, None) or self._dropped(task.task_id)
        # Two of this node may append one after the other, and tell in the other order.
        newer = before if before is not None and before.version > task.version else task
        if newer.ended is None:
            self._kept[task.task_id] = newer
            if len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            return
        self._ended[task.task_id] = newer
        self._items += newer.version
        while self._items > MOST_ENDED:
            self._dropped(next(iter(self._ended)))

    def _dropped(self, task_id: TaskId) -> AgentTask | None:
        """A task that has ended, which is kept no more; None: it was not kept."""
        task = self._ended.pop(task_id, None)
        self._items -= task.version if task is not None else 0
        return task

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


class Follower:
    """The news of a task since a follower of it looked."""

    def __init__(self, news: TaskNews) -> None:
        self.changed = asyncio.Event()
        self._news = news
        self._written: list[Written] = []
        self._reads = True

    def hear(self, payload: Mapping[str, Any]) -> None:
        """Something is new."""
        written = self._news.written(payload)
        if written is None or len(self._written) == _MOST_AT_HAND:
            self._reads = True
        else:
            self._written.append(written)
        self.changed.set()

    def take(self, version: int) -> Written | None:
        """All that is new after a version; None: it has to be read, perhaps because nothing was heard for long."""
        written, self._written = self._written, []
        reads, self._reads = self._reads, False
        self.changed.clear()
        items = [item for one in written for item in one.items if item.version > version]
        follows = [item.version for item in items] == [*range(version + 1, version + len(items) + 1)]
        return Written(written[-1].task, items) if items and follows and not reads else None
