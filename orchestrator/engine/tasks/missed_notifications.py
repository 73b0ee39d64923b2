"""Notifications that were lost on their way between nodes: what nobody told of is seen by looking, and told then.

Theory. Whoever follows one task looks again by itself. Who waits for whatever comes, such as reviewers, pages and the
in-game commands, has only the notifications, and a bus that is away loses some: here, or at the node of the change,
which this node cannot know. So each node looks now and then at what such people see: the tasks that wait for a person,
and the newest. A version that was there at one look and that no notification has named until the next is announced.
A notification that is told twice costs a look.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.task_states import TaskStatus
from orchestrator.engine.tasks.stored import StoredTasks

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 2.5
"""A notification is missed for twice as long at the most."""
_NEWEST: Final = 100
"""What a list shows."""
_MOST_PAUSED: Final = 1_000

Versions = dict[TaskId, int]


class MissedHints:
    """Tells the listeners of ``tasks`` what they were not told; of a store that is shared."""

    def __init__(self, tasks: StoredTasks) -> None:
        self._tasks = tasks
        self._heard: Versions = {}
        """The newest version of each task that a notification has named."""
        self._seen: Versions | None = None
        """What the store had at the last look; None: there was none yet."""

    async def keep(self) -> None:
        """Look until canceled; a store that one process has for itself loses no notification."""
        if not self._tasks.store.shared:
            return
        end = self._tasks.bus.subscribe("tasks", self.hear)
        try:
            while True:
                try:
                    await self.look()
                except OrchestratorError as error:
                    logger.debug("it is looked for lost hints again soon: %s", error)
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            end()

    def hear(self, hint: Mapping[str, Any]) -> None:
        """A notification has come."""
        task_id, version = TaskId(str(hint["task_id"])), int(hint["version"])
        self._heard[task_id] = max(version, self._heard.get(task_id, 0))

    async def look(self) -> None:
        """Look once, and tell of what was there at the look before without a notification since. Raises StoreAway."""
        found = await self._versions()
        if self._seen is None:
            # Who came before this look was told everything as it stood.
            self._heard = {**found, **self._heard}
        for task_id, version in (self._seen or {}).items():
            if self._heard.get(task_id, 0) < version:
                self._tasks.bus.publish("tasks", {"task_id": task_id, "version": version})
                self._heard[task_id] = version
        for task_id in (self._seen or {}).keys() - found.keys():
            version = await self._present(task_id)
            if version > self._heard.get(task_id, 0):
                found[task_id] = version
        self._seen = found
        self._heard = {task_id: version for task_id, version in self._heard.items() if task_id in found}

    async def _versions(self) -> Versions:
        """Those of the tasks that people look at without following them."""
        store = self._tasks.store
        rows = await store.list_tasks(limit=_NEWEST)
        rows += await store.list_tasks(status=TaskStatus.PAUSED, limit=_MOST_PAUSED)
        return {row.task_id: row.version for row in rows}

    async def _present(self, task_id: TaskId) -> int:
        """The version of a task that is none of those any more; 0: it was pruned."""
        row = await self._tasks.store.kept_task(task_id)
        return int(str(row["version"])) if row is not None else 0
