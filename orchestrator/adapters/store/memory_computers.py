"""The computers in memory: their numbers, and whether they are frozen."""

from dataclasses import replace

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store.memory_queue import MemoryQueue
from orchestrator.core.ports import Coming, Lease
from orchestrator.core.task.items import Draft
from orchestrator.core.wire.identity import NOTHING_HEARD, ComputerRecord, Heard
from orchestrator.core.wire.wire import ComputerId


class MemoryComputers(MemoryQueue):
    """What the port says of computers, over the dictionaries."""

    async def allot_number(
        self, computer: ComputerId, *, at_least: int = 0, lease: Lease | None = None, heard: Heard = NOTHING_HEARD
    ) -> int:
        await self._turn()
        if lease is not None:
            self._held(lease)
        row = self._computer(computer)
        row.number = max(row.number + 1, at_least)
        row.record = replace(row.record, heard=row.record.heard_with(heard))
        return row.number

    async def computer(self, computer: ComputerId) -> ComputerRecord:
        await self._turn()
        row = self._computers.get(computer)
        return ComputerRecord(computer) if row is None else row.known()

    async def list_computers(self) -> list[ComputerRecord]:
        await self._turn()
        return [row.known() for _, row in sorted(self._computers.items())]

    async def welcome_computer(self, computer: ComputerId, coming: Coming, *, note: Draft | None = None) -> int | None:
        now = await self._turn()
        row = self._computer(computer)
        if row.record.frozen is not None:
            return None
        after = sealing.welcomed(row.known(), coming)
        self._record(self._noted(sealing.welcoming(note, after), now))
        row.record = after
        row.number = row.record.number
        return row.number

    async def hear_computer(self, computer: ComputerId, heard: Heard) -> None:
        await self._turn()
        row = self._computers.get(computer)
        if row is not None and row.record.frozen is None and not row.record.released:
            row.record = replace(row.record, heard=row.record.heard_with(heard))

    async def freeze_computer(self, note: Draft) -> bool:
        now = await self._turn()
        fact = sealing.freezing(note)
        row = self._computer(fact.computer)
        if row.record.frozen is not None:
            return False
        self._record(self._noted(note, now))
        row.record = replace(row.record, frozen=fact, frozen_at=note.at)
        return True

    async def label_computer(self, note: Draft) -> bool:
        now = await self._turn()
        row = self._computer(sealing.labelling(note).computer)
        done = sealing.labelled(note, row.record)
        if done is None:
            return False
        self._record(self._noted(done[0], now))
        row.record = replace(row.record, known=done[1])
        return True

    async def release_computer(self, note: Draft) -> bool:
        now = await self._turn()
        fact = sealing.releasing(note)
        row = self._computer(fact.computer)
        if row.record.frozen is None:
            return False
        number = sealing.number_of_release(row.known())
        self._record(self._noted(sealing.numbered(note, number), now))
        row.number = number
        row.record = replace(row.record, doubtful_below=number, frozen=None, frozen_at=None, released=True)
        return True
