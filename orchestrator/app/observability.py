"""What an operator can watch of this node: its figures, its log, and spans where the environment asks for them."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from orchestrator.adapters.store.failure_counts import counted
from orchestrator.app.journal_log import JournalLog
from orchestrator.computers.hub import Hub
from orchestrator.core.ports import Store
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.rehearsal import is_copy
from orchestrator.core.task.task_states import Phase, TaskStatus
from orchestrator.engine.tasks import TaskService
from orchestrator.runtime.logs import LINES
from orchestrator.runtime.metrics import Metrics, Snapshot, watch_lag
from orchestrator.runtime.tracing import Tracing, open_tracing

_COUNTED: Final = 10_000
"""Tasks of one status that are counted at most."""
_WAITING: Final = (TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.PAUSED)


@dataclass
class Watching:
    """Counts and follows what this node does."""

    metrics: Metrics = field(default_factory=Metrics)
    store_errors: "Counter[str]" = field(default_factory=Counter)
    tracing: Tracing | None = None
    """None: nobody wants spans."""
    log: JournalLog = field(default_factory=JournalLog)

    def over(self, store: Store, environ: Mapping[str, str]) -> Store:
        """The store with its failures counted; from now on spans are told as OpenTelemetry's variables ask for them."""
        self.tracing = open_tracing(environ, store.read)
        return counted(store, self.store_errors)

    def observe(self, items: Sequence[AgentTaskItem]) -> None:
        """Take items that this node appended."""
        self.metrics.observe(items)
        self.log.observe(items)
        if self.tracing is not None:
            self.tracing.observe(items)

    def keep(self) -> list[asyncio.Task[None]]:
        """What goes on as long as the node does, begun."""
        parts = [watch_lag(self.metrics.lagged), *([self.tracing.keep()] if self.tracing is not None else [])]
        return [asyncio.create_task(part) for part in parts]

    async def close(self) -> None:
        """Send the last spans."""
        if self.tracing is not None:
            await self.tracing.close()

    async def scrape(self, service: TaskService, hub: Hub) -> bytes:
        """The figures as they stand now: from the store, the hub and the log."""
        store, now = service.store, service.clock.now()
        rows = {one: await store.list_tasks(status=one, limit=_COUNTED) for one in _WAITING}
        paused = await service.known(rows[TaskStatus.PAUSED])
        since = [task.request.created_at for task in paused if task.request is not None]
        due = await store.next_due()
        tokens = await store.list_tokens()
        traffic = hub.traffic
        snapshot = Snapshot(
            computers_online=sum(info.online and not is_copy(info.computer) for info in hub.list_computers()),
            computers_known=len({row.name for row in tokens if row.kind == "computer" and not row.revoked}),
            tasks={one.value: len(found) for one, found in rows.items()},
            requests_open=len(since),
            oldest_request_s=(now - min(since)).total_seconds() if since else 0.0,
            questions_open=sum(task.phase is Phase.ANSWERING for task in paused),
            queue_age_s=max(0.0, (now - due).total_seconds()) if due is not None else 0.0,
            wire_bytes={"in": traffic.bytes_in, "out": traffic.bytes_out},
            wire_frames={"in": traffic.frames_in, "out": traffic.frames_out},
            store_errors=self.store_errors,
            log_lines=LINES,
        )
        return self.metrics.render(snapshot)
