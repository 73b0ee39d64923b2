"""The computers in memory: their numbers, and whether they are frozen."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import grant_rules as granting
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
from orchestrator.adapters.store.memory_writes import MemoryWriting
from orchestrator.core.audit.chain import files_listed
from orchestrator.core.audit.retention import LISTS, referred
from orchestrator.core.ports import SYSTEM_STREAM, BackupRow, BlobMark, Coming, Lease, PolicyRow, SignInRow, Token
from orchestrator.core.ports.store_parts import MOST_DUTY_S
from orchestrator.core.task.facts import TaskId, TaskSubmitted
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.task.task_states import TaskStatus
from orchestrator.core.values import from_us, to_us
from orchestrator.core.wire.identity import NOTHING_HEARD, ComputerRecord, Heard
from orchestrator.core.wire.wire import ComputerId

# -- What is kept for long and what goes, in memory: marks of blobs, pruned tasks, backups

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


# -- Who is signed in, in memory ---------------------------------------------------------


class MemorySignIns(MemoryRetention):
    """The port's ``SignIns`` over the dictionaries."""

    async def add_sign_in(self, row: SignInRow, *, most: int, note: Draft) -> list[SignInRow]:
        now = await self._turn()
        sealing.check_sign_in(note)
        if row.session_hash in self._sign_ins:
            raise sealing.sign_in_exists()
        theirs = [one for one in self._signed_in() if one.name == row.name]
        gone = theirs[: max(0, len(theirs) - most + 1)]
        self._record(self._noted(sealing.signed_in(note, row, gone), now))
        for one in gone:
            del self._sign_ins[one.session_hash]
        self._sign_ins[row.session_hash] = row
        return gone

    async def find_sign_in(self, session_hash: str) -> SignInRow | None:
        await self._turn()
        return self._sign_ins.get(session_hash)

    async def use_sign_in(self, session_hash: str, at: datetime) -> None:
        await self._turn()
        row = self._sign_ins.get(session_hash)
        if row is not None:
            self._sign_ins[session_hash] = replace(row, used_at=max(row.used_at, at))

    async def end_sign_in(self, session_hash: str, *, note: Draft | None = None) -> bool:
        now = await self._turn()
        if session_hash not in self._sign_ins:
            return False
        self._record(self._noted(sealing.signed_out(note, session_hash), now))
        del self._sign_ins[session_hash]
        return True

    async def forget_sign_ins(self, *, begun: datetime, used: datetime) -> int:
        await self._turn()
        over = [name for name, row in self._sign_ins.items() if row.begun_at <= begun or row.used_at <= used]
        for name in over:
            del self._sign_ins[name]
        return len(over)

    async def list_sign_ins(self) -> list[SignInRow]:
        await self._turn()
        return self._signed_in()

    def _signed_in(self) -> list[SignInRow]:
        return sorted(self._sign_ins.values(), key=lambda row: (row.begun_at, row.session_hash))


# -- What several nodes have in common, in memory: there such nodes are the parts of one process


class MemoryShared(MemorySignIns):
    """The port's ``Common`` over the dictionaries."""

    shared = False

    async def policy_in_force(self) -> PolicyRow | None:
        await self._turn()
        return self._policy

    async def policy_item(self) -> AgentTaskItem | None:
        await self._turn()
        system = self._streams.get(TaskId(SYSTEM_STREAM))
        items = [] if system is None else system.read()
        return next((one for one in reversed(items) if one.fact.kind == "policy_loaded"), None)

    async def set_policy(self, expected_version: int, content: bytes, *, note: Draft) -> PolicyRow:
        now = await self._turn()
        fact = sealing.loading(note, content)
        before = self._policy
        present, judged = (0, 0) if before is None else (before.version, before.judged)
        if present != expected_version:
            raise sealing.another_policy(present, expected_version)
        self._record(self._noted(sealing.in_force(note, present + 1), now))
        self._keep_blob(content, now)
        self._policy = PolicyRow(present + 1, fact.sha256, fact.source, note.at, note.actor.id, judged)
        return self._policy

    async def judged_policy(self, version: int) -> None:
        await self._turn()
        if self._policy is not None:
            self._policy = replace(self._policy, judged=max(self._policy.judged, version))

    async def take_duty(self, name: str, holder: str, for_s: float) -> bool:
        now = await self._turn()
        present, until = self._duties.get(name, (holder, 0))
        if present != holder and now < until <= now + seconds_to_us(MOST_DUTY_S):
            return False
        self._duties[name] = (holder, now + seconds_to_us(for_s))
        return True

    async def leave_duty(self, name: str, holder: str) -> None:
        await self._turn()
        if self._duties.get(name, ("", 0))[0] == holder:
            del self._duties[name]

    async def agree(self, name: str, value: str) -> str:
        now = await self._turn()
        if name not in self._agreed:
            self._record(self._noted(sealing.agreeing(name, value, now), now))
        return self._agreed.setdefault(name, value)


# -- The queue in memory: leases, waiting and claims -------------------------------------


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


# -- The computers in memory: their numbers, and whether they are frozen -----------------


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
