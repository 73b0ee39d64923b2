"""The task as its actor holds it: folded, leased, and appended to one item after the other."""

import asyncio
from dataclasses import dataclass, field

from orchestrator.core.errors import Conflict
from orchestrator.core.facts import CallId, Fact
from orchestrator.core.fold import can_follow, fold, preview
from orchestrator.core.items import SYSTEM, Actor, Draft
from orchestrator.core.task import AgentTask, CallRecord
from orchestrator.core.wire import ComputerId
from orchestrator.ports import Lease
from orchestrator.tasks import TaskService

AGENT = Actor(kind="agent", id="model")


def of_computer(computer: ComputerId | None) -> Actor:
    """The computer, or this host, as the cause of an item."""
    return Actor(kind="computer", id=computer or "host")


@dataclass
class TaskJournal:
    """One leased task and its journal. Intents stand or fall with the version; outcomes always stand."""

    lease: Lease
    service: TaskService
    task: AgentTask
    _appending: asyncio.Lock = field(default_factory=asyncio.Lock)

    def record(self, call_id: CallId) -> CallRecord:
        """A call of the present step. Raises Conflict when the task has moved on: fold and ask anew."""
        record = self.task.call(call_id)
        if record is None:
            raise Conflict(f"Call {call_id!r} is no longer of the present step.")
        return record

    async def intend(self, *intents: Fact, actor: Actor = SYSTEM, number_for: ComputerId | None = None) -> None:
        """Append at the folded version or not at all. Raises Conflict, LeaseLost."""
        async with self._appending:
            drafts = [self.service.draft(fact, actor) for fact in intents]
            await self._append(drafts, number_for=number_for)

    async def happened(self, fact: Fact, actor: Actor, *, blobs: tuple[bytes, ...] = ()) -> None:
        """Append an outcome: again at the new version after a conflict, with the same item id.

        It is dropped only where nothing waits for it any more, such as a reply to a task that has ended.
        """
        draft = self.service.draft(fact, actor)
        async with self._appending:
            while can_follow(self.task, fact):
                try:
                    await self._append([draft], blobs=blobs)
                except Conflict:
                    await self._refold()
                else:
                    return

    async def refold(self) -> None:
        """Take in what others appended."""
        async with self._appending:
            await self._refold()

    async def _refold(self) -> None:
        newer = await self.service.store.read(self.task.task_id, self.task.version)
        self.task = fold(newer, self.task)

    async def _append(
        self, drafts: list[Draft], *, number_for: ComputerId | None = None, blobs: tuple[bytes, ...] = ()
    ) -> None:
        task = self.task
        items = await self.service.store.append(
            task.task_id,
            task.version,
            drafts,
            status=preview(task, drafts).status,
            token=self.lease.token,
            number_for=number_for,
            blobs=blobs,
        )
        self.task = fold(items, task)
        self.service.published(task.task_id, items)
