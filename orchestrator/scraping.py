"""What a scrape of ``/metrics`` reads at that moment: from the store, the hub and the log."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from orchestrator.core.rehearsing import is_copy
from orchestrator.core.task import Phase, TaskStatus
from orchestrator.hub import Hub
from orchestrator.logs import LINES
from orchestrator.metrics import Metrics, Snapshot
from orchestrator.tasks import TaskService

_COUNTED: Final = 10_000
"""Tasks of one status that are counted at most."""
_WAITING: Final = (TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.PAUSED)


@dataclass(frozen=True)
class Scraping:
    """Answers each scrape."""

    metrics: Metrics
    service: TaskService
    hub: Hub
    store_errors: "Counter[str]"

    async def scrape(self) -> bytes:
        """The figures as they stand now."""
        store, now = self.service.store, self.service.clock.now()
        rows = {one: await store.list_tasks(status=one, limit=_COUNTED) for one in _WAITING}
        paused = [await store.load(row.task_id) for row in rows[TaskStatus.PAUSED]]
        since = [task.request.created_at for task in paused if task is not None and task.request is not None]
        due = await store.next_due()
        tokens = await store.list_tokens()
        traffic = self.hub.traffic
        snapshot = Snapshot(
            computers_online=sum(info.online and not is_copy(info.computer) for info in self.hub.list_computers()),
            computers_known=len({row.name for row in tokens if row.kind == "computer" and not row.revoked}),
            tasks={one.value: len(found) for one, found in rows.items()},
            requests_open=len(since),
            oldest_request_s=(now - min(since)).total_seconds() if since else 0.0,
            questions_open=sum(task is not None and task.phase is Phase.ANSWERING for task in paused),
            queue_age_s=max(0.0, (now - due).total_seconds()) if due is not None else 0.0,
            wire_bytes={"in": traffic.bytes_in, "out": traffic.bytes_out},
            wire_frames={"in": traffic.frames_in, "out": traffic.frames_out},
            store_errors=self.store_errors,
            log_lines=LINES,
        )
        return self.metrics.render(snapshot)
