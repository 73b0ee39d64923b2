"""The queue in memory: leases, waiting and claims."""

from collections.abc import Collection, Sequence
from datetime import datetime

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store.entry import (
    awakened,
    free,
    given_back,
    holds,
    leasable,
    leased,
    renewed,
    seconds_to_us,
)
from orchestrator.adapters.store.memory_kept import Task
from orchestrator.adapters.store.memory_shared import MemoryShared
from orchestrator.core.ports import Lease, Token
from orchestrator.core.task.facts import TaskId
from orchestrator.core.timestamps import from_us, to_us
from orchestrator.core.wire.wire import ComputerId


class MemoryQueue(MemoryShared):
    """The port's ``TaskQueue`` over the dictionaries."""

    async def lease(self, holder: str, lease_s: float, *, but: Collection[TaskId] = ()) -> Lease | None:
        now = await self._turn()
        candidates = [
            (-task.priority, task.entry.due or 0, task_id)
            for task_id, task in self._tasks.items()
            if leasable(task.entry, now) and task_id not in but
        ]
        if not candidates:
            return None
        *_, task_id = min(candidates)
        task = self._tasks[task_id]
        task.entry = leased(task.entry, holder, now, seconds_to_us(lease_s))
        return Lease(task_id, Token(task.entry.token))

    async def renew(self, lease: Lease, lease_s: float) -> None:
        now = await self._turn()
        task = self._held(lease)
        task.entry = renewed(task.entry._replace(lease_for=seconds_to_us(lease_s)), now)

    async def park(
        self, lease: Lease, version: int, *, due: datetime | None, waiting_for: ComputerId | None = None
    ) -> None:
        now = await self._turn()
        task = self._held(lease)
        if task.row.version != version:
            raise sealing.moved_on(lease.task_id, task.row.version, version)
        task.entry = given_back(task.entry, now, None if due is None else to_us(due), waiting_for)

    async def pass_by(self, lease: Lease) -> None:
        now = await self._turn()
        task = self._held(lease)
        task.entry = given_back(task.entry, now, task.entry.due)

    async def wake(self, task_id: TaskId) -> None:
        now = await self._turn()
        task = self._tasks.get(task_id)
        if task is not None:
            task.entry = awakened(task.entry, now)

    async def wake_waiting(self, computer: ComputerId) -> int:
        now = await self._turn()
        parked = self._wake_waiting(computer, now)
        # A holder may just be about to park for this computer; see sql_queue.wake_waiting.
        for task in self._tasks.values():
            if task.entry.holder is not None:
                task.entry = task.entry._replace(woken=1)
        return parked

    async def claim(self, lease: Lease, computers: Sequence[ComputerId]) -> ComputerId | None:
        await self._turn()
        task = self._held(lease)
        blocked = self._blocked(lease.task_id, computers)
        if blocked is None:
            self._claim(lease.task_id, computers)
        task.entry = task.entry._replace(waiting_for=blocked)
        return blocked

    async def claimant(self, computer: ComputerId) -> TaskId | None:
        await self._turn()
        row = self._computers.get(computer)
        return None if row is None else row.task

    async def release_claims(self, lease: Lease, keep: Sequence[ComputerId] = ()) -> None:
        now = await self._turn()
        self._held(lease)
        self._release(lease.task_id, keep, now)

    async def next_due(self, *, but: Collection[TaskId] = ()) -> datetime | None:
        now = await self._turn()
        dues = [one.entry.due for task_id, one in self._tasks.items() if free(one.entry, now) and task_id not in but]
        scheduled_dues = [due for due in dues if due is not None]
        return from_us(min(scheduled_dues)) if scheduled_dues else None

    def _held(self, lease: Lease) -> Task:
        task = self._tasks.get(lease.task_id)
        if task is None or not holds(task.entry, lease.token):
            raise sealing.lease_lost(lease.task_id)
        return task

    def _blocked(self, task_id: TaskId, computers: Sequence[ComputerId]) -> ComputerId | None:
        """The first of the computers that another task has claimed."""
        others = (one for one in sorted(set(computers)) if self._computer(one).task not in {None, task_id})
        return next(others, None)

    def _claim(self, task_id: TaskId, computers: Sequence[ComputerId]) -> None:
        for computer in computers:
            self._computer(computer).task = task_id
