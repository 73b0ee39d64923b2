"""What the store in memory writes, in two steps: what cannot be refused any more, and then the writing of it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store.entry import awakened
from orchestrator.adapters.store.memory_journal import Journal, KeptGrant
from orchestrator.adapters.store.memory_kept import Computer, MemoryTables
from orchestrator.core.ports import SYSTEM_STREAM
from orchestrator.core.task.facts import BlobRef, RequestId, TaskId
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.wire.identity import ComputerRecord
from orchestrator.core.wire.wire import ComputerId


@dataclass(frozen=True)
class Addition:
    """What is about to be written and can no longer be refused."""

    journal: Journal
    sealed: list[sealing.Sealed]
    requests: list[RequestId]
    grants: dict[GrantId, KeptGrant]

    @property
    def items(self) -> list[AgentTaskItem]:
        return [item for item, _ in self.sealed]


class MemoryWriting(MemoryTables):
    """The dictionaries, and what is written into them by several operations."""

    def _addition(self, journal: Journal, drafts: Sequence[Draft], now: int, number: int | None = None) -> Addition:
        """The drafts as they may be added. Raises what a store refuses them for."""
        sealed = journal.sealed(drafts, number)
        requests = sealing.requests_of(drafts)
        for place, request_id in enumerate(requests):
            if request_id in self._requests or request_id in requests[:place]:
                raise sealing.raised_before(request_id)
        return Addition(journal, sealed, requests, self._grants.planned(drafts, now))

    def _noted(self, note: Draft | None, now: int) -> Addition | None:
        """A note as it may be added to the system stream; None: there is none to add."""
        journal = self._streams.get(TaskId(SYSTEM_STREAM)) or Journal(TaskId(SYSTEM_STREAM))
        if note is None or journal.stored([note]) is not None:
            return None
        return self._addition(journal, [note], now)

    def _add(self, addition: Addition) -> None:
        addition.journal.add(addition.sealed)
        self._requests.update(dict.fromkeys(addition.requests, addition.journal.name))
        self._grants.keep(addition.grants)

    def _record(self, addition: Addition | None) -> None:
        """Add to a stream, which begins with it."""
        if addition is not None:
            self._add(addition)
            self._streams[addition.journal.name] = addition.journal

    def _keep_blob(self, content: bytes, now: int) -> BlobRef:
        sha256 = hashlib.sha256(content).hexdigest()
        self._blobs.setdefault(sha256, bytes(content))
        self._touched[sha256] = now
        return BlobRef(sha256=sha256, size=len(content))

    def _computer(self, computer: ComputerId) -> Computer:
        return self._computers.setdefault(computer, Computer(ComputerRecord(computer)))

    def _release(self, task_id: TaskId, keep: Sequence[ComputerId], now: int) -> None:
        for computer, row in self._computers.items():
            if row.task == task_id and computer not in keep:
                row.task = None
                self._wake_waiting(computer, now)

    def _wake_waiting(self, computer: ComputerId, now: int) -> int:
        parked = 0
        for task in self._tasks.values():
            if task.entry.waiting_for == computer:
                parked += task.entry.holder is None
                task.entry = awakened(task.entry, now)
        return parked
