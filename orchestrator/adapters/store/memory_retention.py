"""What is kept for long and what goes, in memory: marks of blobs, pruned tasks, backups."""

from collections.abc import Sequence
from datetime import datetime

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import grant_rules as granting
from orchestrator.adapters.store.memory_writes import MemoryWriting
from orchestrator.core.audit.kept import files_listed
from orchestrator.core.audit.retention import LISTS, referred
from orchestrator.core.ports import BackupRow, BlobMark
from orchestrator.core.task.facts import TaskId, TaskSubmitted
from orchestrator.core.task.items import Draft
from orchestrator.core.task.task_states import TaskStatus
from orchestrator.core.timestamps import from_us, to_us
from orchestrator.core.wire.wire import ComputerId

_OPEN = frozenset({TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.PAUSED})


class MemoryRetention(MemoryWriting):
    """The port's ``Retention`` over the dictionaries."""

    async def touch_blobs(self, names: Sequence[str]) -> dict[str, int]:
        now = await self._turn()
        return self._touch(names, now)

    async def list_blobs(self, after: str | None = None, limit: int = 5000) -> list[BlobMark]:
        await self._turn()
        names = sorted(name for name in self._blobs if after is None or name > after)[:limit]
        return [
            BlobMark(name, len(self._blobs[name]), LISTS in self._blobs[name], from_us(self._touched[name]))
            for name in names
        ]

    async def sweep_blobs(self, names: Sequence[str], before: datetime) -> dict[str, int]:
        await self._turn()
        old = [name for name in names if name in self._blobs and self._touched[name] <= to_us(before)]
        for name in old:
            del self._touched[name]
        return {name: len(self._blobs.pop(name)) for name in old}

    async def prune_task(self, note: Draft) -> bool:
        now = await self._turn()
        fact = sealing.pruning(note)
        task_id = TaskId(fact.task_id)
        task = self._tasks.get(task_id)
        if task is None or (task.row.version, task.journal.head_hash) != (fact.version, fact.head_hash):
            return False
        if not sealing.is_at_rest(task.row.status, task.entry, pinned=task.row.pinned):
            return False
        given = self._grants.given_in(task_id)
        if any(granting.outlives_its_task(one, now) for one in given) or self._is_referred_to(task_id):
            return False
        self._record(self._noted(note, now))
        self._release(task_id, (), now)
        del self._tasks[task_id]
        self._requests = {name: of for name, of in self._requests.items() if of != task_id}
        self._grants.drop([one.grant.grant_id for one in given])
        self._pruned[task_id] = now
        return True

    async def pruned_at(self, task_id: TaskId) -> datetime | None:
        await self._turn()
        at = self._pruned.get(task_id)
        return None if at is None else from_us(at)

    async def add_backup(self, note: Draft) -> None:
        now = await self._turn()
        fact = sealing.backing_up(note)
        stored = self._backups.get(fact.backup_id)
        if stored is not None:
            sealing.check_same_backup(stored.fact.model_dump_json(), fact.model_dump_json())
            return
        there = self._touch([fact.listing], now)
        needed = files_listed(self._blobs[fact.listing]) if there else []
        there |= self._touch(needed, now)
        if len(there) < len({fact.listing, *needed}):
            raise sealing.no_longer_kept()
        self._record(self._noted(note, now))
        self._backups[fact.backup_id] = BackupRow(fact, note.actor.id, note.at)

    async def remove_backup(self, note: Draft) -> bool:
        now = await self._turn()
        fact = sealing.removing_backup(note)
        if fact.backup_id not in self._backups:
            return False
        self._record(self._noted(note, now))
        del self._backups[fact.backup_id]
        return True

    async def list_backups(self, computer: ComputerId | None = None) -> list[BackupRow]:
        await self._turn()
        rows = [row for row in self._backups.values() if computer in (None, row.fact.computer)]
        return sorted(rows, key=lambda row: (row.at, row.fact.backup_id), reverse=True)

    def _touch(self, names: Sequence[str], now: int) -> dict[str, int]:
        there = {name: len(self._blobs[name]) for name in names if name in self._blobs}
        self._touched.update(dict.fromkeys(there, now))
        return there

    def _is_referred_to(self, task_id: TaskId) -> bool:
        holding = (one for one in self._tasks.values() if one.row.status in _OPEN or one.row.pinned)
        firsts = (one.journal.read()[0].fact for one in holding if one.row.task_id != task_id)
        return any(task_id in referred(one) for one in firsts if isinstance(one, TaskSubmitted))
