"""The common part of the SQL stores: the transaction script behind each method of the port.

How scripts are run, by a thread or by a server's connections, is the adapter's.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from functools import cached_property
from typing import Final, TypeVar

from orchestrator.adapters.store import sql, sql_grants, sql_lists, sql_moves, sql_outbox, sql_queue, sql_system
from orchestrator.adapters.store import sql_records as sql_computers
from orchestrator.adapters.store import sql_records as sql_shared
from orchestrator.adapters.store import sql_records as sql_sign_ins
from orchestrator.adapters.store import sql_system as sql_kept
from orchestrator.adapters.store import sql_system as sql_retention
from orchestrator.adapters.store.script import Script
from orchestrator.core.approval.grants import GrantState
from orchestrator.core.ports import (
    ANYBODY,
    SYSTEM_STREAM,
    BackupRow,
    BlobMark,
    Clock,
    Coming,
    Departure,
    EntryRow,
    KeptBlob,
    KeptItem,
    KeptJournal,
    KeptRow,
    KeptTable,
    Lease,
    NoticeRow,
    PolicyRow,
    Receipt,
    Schedule,
    SeatRow,
    SignInRow,
    StreamHead,
    TaskRow,
    Token,
    TokenRow,
    Turns,
)
from orchestrator.core.ports.store import Here
from orchestrator.core.task.facts import BlobRef, RequestId, TaskId
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import ComputersArrived, GrantId
from orchestrator.core.task.task import AgentTask
from orchestrator.core.values import ComputerId
from orchestrator.core.wire.identity import NOTHING_HEARD, ComputerRecord, Heard

T = TypeVar("T")

_FEW: Final = 24
"""Items that are read and hashed in the time in which the writer is asked whether others wrote."""
_KEPT: Final = 32
"""Tasks that are kept folded."""


class SqlStore(ABC):
    """The `Store` port by the scripts of ``sql*``; an adapter says how they are run."""

    # -- what an adapter has -------------------------------------------------------------

    shared: bool
    """The port's ``shared``."""
    clock: Clock
    """The port's ``clock``."""

    @cached_property
    def _folded(self) -> OrderedDict[TaskId, sql.Checked]:
        """The tasks that were loaded last: a task that is looked at is looked at again, with a few more items."""
        return OrderedDict()

    @abstractmethod
    def _read(self, script: Callable[[int], Script[T]]) -> Awaitable[T]:
        """Run a script that writes nothing, at one moment; it gets the time in microseconds since 1970."""

    @abstractmethod
    def _write(
        self, script: Callable[[int], Script[T]], *, key: str | None = None, urgent: bool = False, once: bool = False
    ) -> Awaitable[T]:
        """Accept a script as a transaction, answered when it is durable; it gets the transaction's time.

        Those of one ``key`` run in the order they came, one per transaction. ``urgent`` ones overtake others.
        ``once``: run again after it was done it would answer something else.
        """

    @abstractmethod
    def _append(self, wanted: sql.Append) -> Awaitable[list[AgentTaskItem]]:
        """Accept the port's ``append``, as ``_write`` accepts others; plain ones are run together."""

    async def _others(self) -> int | None:
        """A number that stays until another than this store writes to its database; None: nobody can say."""
        return None

    @abstractmethod
    async def strange(self) -> list[str]:
        """The port's ``strange``."""

    @abstractmethod
    async def odd(self) -> list[str]:
        """The port's ``odd``."""

    @abstractmethod
    async def close(self) -> None:
        """The port's ``close``."""

    def _swept(self, names: Sequence[str], before: datetime) -> Script[dict[str, int]]:
        """The port's ``sweep_blobs``, and what the adapter does with the room that is free then."""
        return sql_retention.sweep_blobs(names, before)

    # -- journal -------------------------------------------------------------------------

    async def create(self, task_id: TaskId, drafts: Sequence[Draft]) -> list[AgentTaskItem]:
        return await self._write(lambda now: sql.create(task_id, drafts, now=now), key=task_id)

    async def append(  # noqa: PLR0913 - as the port has it
        self,
        task_id: TaskId,
        version: int,
        drafts: Sequence[Draft],
        *,
        status: TaskStatus,
        schedule: Schedule = "keep",
        token: Token | None = None,
        number_for: ComputerId | None = None,
        blobs: Sequence[bytes] = (),
        claim: Sequence[ComputerId] = (),
        release: bool = False,
        woke: Callable[[], object] | None = None,
        receipt: Receipt | None = None,
    ) -> list[AgentTaskItem]:
        wanted = sql.Append(
            task_id, version, drafts, status, schedule, token, number_for, blobs, claim, release, woke, receipt
        )
        return await self._append(wanted)

    async def record(self, drafts: Sequence[Draft], *, stream: str = SYSTEM_STREAM) -> list[AgentTaskItem]:
        return await self._write(lambda now: sql_system.record(drafts, stream, now=now))

    async def read(self, task_id: TaskId, after_version: int = 0) -> list[AgentTaskItem]:
        return await self._read(lambda _: sql.read(task_id, after_version))

    async def heads(self) -> list[StreamHead]:
        return await self._read(lambda _: sql_system.heads())

    async def heads_since(self, at: datetime) -> list[StreamHead]:
        return await self._read(lambda _: sql_system.heads_since(at))

    async def heads_from(
        self, name: str, limit: int = 500, *, users: Collection[str] | None = None
    ) -> list[StreamHead]:
        return await self._read(lambda _: sql_lists.heads_from(name, limit, users))

    async def last_changed(
        self,
        limit: int = 100,
        *,
        before: tuple[datetime, TaskId] | None = None,
        begun: datetime | None = None,
        users: Collection[str] | None = None,
    ) -> list[TaskRow]:
        return await self._read(lambda _: sql_lists.last_changed(limit, before, begun, users))

    async def load(self, task_id: TaskId, known: AgentTask | None = None) -> AgentTask | None:
        # Before anything of it is read: what others wrote until now counts.
        others = await self._others() if self._is_long(task_id) else None
        return self._loaded(await self._read(lambda _: sql.load(task_id, self._folded, others, known)), others)

    async def load_by_request_id(self, request_id: RequestId) -> AgentTask | None:
        others = await self._others() if self._folded else None
        script = sql.load_by_request_id
        return self._loaded(await self._read(lambda _: script(request_id, self._folded, others)), others)

    def _is_long(self, task_id: TaskId) -> bool:
        """Whether all items of a task that was loaded before are more to read than whether others wrote."""
        checked = self._folded.get(task_id)
        return checked is not None and checked.task.version > _FEW

    def _loaded(self, loaded: sql.Loaded, others: int | None) -> AgentTask | None:
        task, between = loaded
        if between is not None:
            self._folded.pop(between.task_id, None)
            self._folded[between.task_id] = sql.Checked(between, others)
            if len(self._folded) > _KEPT:
                self._folded.popitem(last=False)
        return task

    async def list_tasks(
        self,
        *,
        status: TaskStatus | None = None,
        session_id: str | None = None,
        users: Collection[str] | None = None,
        before: tuple[datetime, TaskId] | None = None,
        limit: int = 100,
    ) -> list[TaskRow]:
        return await self._read(lambda _: sql_lists.list_tasks(status, session_id, users, before, limit))

    async def put_blob(self, content: bytes) -> BlobRef:
        return await self._write(lambda now: sql.put_blob(content, now=now))

    async def get_blob(self, sha256: str) -> bytes:
        return await self._read(lambda _: sql.get_blob(sha256))

    async def allot_number(
        self,
        computer: ComputerId,
        *,
        at_least: int = 0,
        count: int = 1,
        lease: Lease | None = None,
        heard: Heard = NOTHING_HEARD,
    ) -> int:
        return await self._write(
            lambda _: sql_queue.allot_number(computer, at_least=at_least, count=count, lease=lease, heard=heard),
            key=None if lease is None else lease.task_id,
        )

    async def computer(self, computer: ComputerId) -> ComputerRecord:
        return await self._read(lambda _: sql_computers.computer(computer))

    async def list_computers(self) -> list[ComputerRecord]:
        return await self._read(lambda _: sql_computers.list_computers())

    async def welcome_computer(self, computer: ComputerId, coming: Coming, *, note: Draft | None = None) -> int | None:
        welcome = sql_computers.Welcome(computer, coming, note)
        return (await self._write(lambda now: sql_computers.welcome([welcome], now=now)))[0]

    async def seats(self, computers: Collection[ComputerId]) -> list[SeatRow]:
        return await self._read(lambda _: sql_computers.seats(computers))

    async def seats_at(self, node: str, *, after: str = "", limit: int = 500) -> list[SeatRow]:
        return await self._read(lambda _: sql_computers.seats_at(node, after, limit))

    async def keep_seats(self, rows: Sequence[SeatRow]) -> None:
        await self._write(lambda _: sql_computers.keep_seats(rows))

    async def hear_computer(self, computer: ComputerId, heard: Heard) -> None:
        await self._write(lambda _: sql_computers.hear([(computer, heard)]))

    async def freeze_computer(self, note: Draft) -> bool:
        return await self._write(lambda now: sql_computers.freeze(note, now=now), once=True)

    async def label_computer(self, note: Draft) -> bool:
        return await self._write(lambda now: sql_computers.label(note, now=now), once=True)

    async def release_computer(self, note: Draft) -> bool:
        return await self._write(lambda now: sql_computers.release(note, now=now), once=True)

    async def count_revoked(self) -> int:
        return await self._read(lambda _: sql_system.count_revoked())

    async def add_token(self, token: TokenRow, *, note: Draft | None = None) -> None:
        await self._write(lambda now: sql_system.add_token(token, note, now=now), once=True)

    async def find_token(self, token_hash: str) -> TokenRow | None:
        return await self._read(lambda _: sql_system.find_token(token_hash))

    async def revoke_tokens(
        self, kind: str, name: str, *, note: Draft | None = None, then: tuple[TokenRow, Draft] | None = None
    ) -> int:
        return await self._write(lambda now: sql_system.revoke_tokens(kind, name, note, then, now=now), once=True)

    async def list_tokens(self) -> list[TokenRow]:
        return await self._read(lambda _: sql_system.list_tokens())

    async def tokens_of(self, kind: str, name: str) -> list[TokenRow]:
        return await self._read(lambda _: sql_system.tokens_of(kind, name))

    async def list_grants(self, *, session_id: str | None = None) -> list[GrantState]:
        return await self._read(lambda _: sql_grants.list_grants(session_id))

    async def revoke_grant(self, grant_id: GrantId, *, note: Draft | None = None) -> bool:
        return await self._write(lambda now: sql_system.revoke_grant(grant_id, note, now=now), once=True)

    # -- who is signed in ----------------------------------------------------------------

    async def add_sign_in(self, row: SignInRow, *, most: int, note: Draft) -> list[SignInRow]:
        return await self._write(lambda now: sql_sign_ins.add(row, most, note, now=now), once=True)

    async def find_sign_in(self, session_hash: str) -> SignInRow | None:
        return await self._read(lambda _: sql_sign_ins.find(session_hash))

    async def use_sign_in(self, session_hash: str, at: datetime) -> None:
        await self._write(lambda _: sql_sign_ins.use(session_hash, at))

    async def end_sign_in(self, session_hash: str, *, note: Draft | None = None) -> bool:
        return await self._write(lambda now: sql_sign_ins.end(session_hash, note, now=now), once=True)

    async def forget_sign_ins(self, *, begun: datetime, used: datetime) -> int:
        return await self._write(lambda _: sql_sign_ins.forget(begun, used))

    async def list_sign_ins(self) -> list[SignInRow]:
        return await self._read(lambda _: sql_sign_ins.list_all())

    # -- what nodes have in common -------------------------------------------------------

    async def policy_in_force(self) -> PolicyRow | None:
        return await self._read(lambda _: sql_shared.policy_in_force())

    async def policy_item(self) -> AgentTaskItem | None:
        return await self._read(lambda _: sql_shared.policy_item())

    async def set_policy(self, expected_version: int, content: bytes, *, note: Draft) -> PolicyRow:
        return await self._write(lambda now: sql_shared.set_policy(expected_version, content, note, now=now), once=True)

    async def directory(self) -> list[EntryRow]:
        return await self._read(lambda _: sql_shared.directory())

    async def set_entry(self, note: Draft, *, expected: int, secret: str = "") -> int:
        return await self._write(lambda now: sql_shared.set_entry(note, expected, secret, now=now), once=True)

    async def secret_of(self, sha256: str) -> str | None:
        return await self._read(lambda _: sql_shared.secret_of(sha256))

    async def judged_policy(self, version: int) -> None:
        await self._write(lambda _: sql_shared.judged_policy(version))

    async def take_duty(self, name: str, holder: str, for_s: float) -> bool:
        return await self._write(lambda now: sql_shared.take_duty(name, holder, for_s, now=now))

    async def leave_duty(self, name: str, holder: str) -> None:
        await self._write(lambda _: sql_shared.leave_duty(name, holder))

    async def agree(self, name: str, value: str) -> str:
        return await self._write(lambda now: sql_shared.agree(name, value, now=now))

    # -- the outbox ----------------------------------------------------------------------

    async def due_notices(self, limit: int = 200) -> list[NoticeRow]:
        return await self._read(lambda now: sql_outbox.due_notices(limit, now=now))

    async def list_notices(self, limit: int = 200) -> list[NoticeRow]:
        return await self._read(lambda now: sql_outbox.list_notices(limit, now=now))

    async def replace_notices(self, before: Sequence[NoticeRow], after: Sequence[NoticeRow]) -> bool:
        return await self._write(lambda _: sql_outbox.replace_notices(before, after), once=True)

    async def forget_notices(self, *, sent: datetime, dead: datetime) -> int:
        return await self._write(lambda _: sql_outbox.forget_notices(sent, dead))

    # -- what is kept, for an audit ------------------------------------------------------

    async def kept_items(self, stream: str, after_version: int = 0, limit: int = 500) -> list[KeptItem]:
        return await self._read(lambda _: sql_kept.kept_items(stream, after_version, limit))

    async def kept_rows(self, table: KeptTable, after: str | None = None, limit: int = 500) -> list[KeptRow]:
        return await self._read(lambda _: sql_kept.kept_rows(table, after, limit))

    async def kept_blobs(self, after: str | None = None, limit: int = 64) -> list[KeptBlob]:
        return await self._read(lambda _: sql_kept.kept_blobs(after, limit))

    async def kept_task(self, task_id: str) -> KeptRow | None:
        return await self._read(lambda _: sql_kept.kept_task(task_id))

    async def kept_journals(self, names: Sequence[str], most: int = 500) -> list[KeptJournal]:
        return await self._read(lambda _: sql_kept.kept_journals(names, most))

    async def blob_sizes(self, names: Sequence[str]) -> dict[str, int]:
        return await self._read(lambda _: sql_kept.blob_sizes(names))

    async def raised_by(self, request_ids: Sequence[str]) -> dict[str, str]:
        return await self._read(lambda _: sql_kept.raised_by(request_ids))

    # -- retention -----------------------------------------------------------------------

    async def depart_computers(self, names: Sequence[ComputerId], cell: str, url: str) -> Departure:
        return await self._write(lambda now: sql_moves.depart(names, cell, url, now=now))

    async def forget_departure(self, bundle: str) -> None:
        return await self._write(lambda _: sql_moves.forget(bundle))

    async def arrive_computers(self, bundle: bytes, cell: str) -> ComputersArrived:
        return await self._write(lambda now: sql_moves.arrive(bundle, cell, now=now))

    async def touch_blobs(self, names: Sequence[str]) -> dict[str, int]:
        return await self._write(lambda now: sql_retention.touch_blobs(names, now=now))

    async def list_blobs(self, after: str | None = None, limit: int = 5000) -> list[BlobMark]:
        return await self._read(lambda _: sql_retention.list_blobs(after, limit))

    async def sweep_blobs(self, names: Sequence[str], before: datetime) -> dict[str, int]:
        return await self._write(lambda _: self._swept(names, before))

    async def prune_task(self, note: Draft) -> bool:
        return await self._write(lambda now: sql_retention.prune_task(note, now=now), once=True)

    async def pruned_at(self, task_id: TaskId) -> datetime | None:
        return await self._read(lambda _: sql_retention.pruned_at(task_id))

    async def add_backup(self, note: Draft) -> None:
        await self._write(lambda now: sql_retention.add_backup(note, now=now))

    async def remove_backup(self, note: Draft) -> bool:
        return await self._write(lambda now: sql_retention.remove_backup(note, now=now), once=True)

    async def list_backups(self, computer: ComputerId | None = None) -> list[BackupRow]:
        return await self._read(lambda _: sql_retention.list_backups(computer))

    # -- queue ---------------------------------------------------------------------------

    async def lease(
        self, holder: str, lease_s: float, *, but: Collection[TaskId] = (), turns: Turns = ANYBODY, here: Here = None
    ) -> Lease | None:
        return await self._write(lambda now: sql_queue.lease(holder, lease_s, but, turns, here, now=now))

    async def renew(self, lease: Lease, lease_s: float) -> None:
        # Urgent: the very load that makes a queue long must not cost its holders their leases.
        await self._write(lambda now: sql_queue.renew(lease, lease_s, now=now), urgent=True)

    async def park(
        self,
        lease: Lease,
        version: int,
        *,
        due: datetime | None,
        waiting_for: ComputerId | None = None,
        keep: Collection[ComputerId] | None = None,
    ) -> bool:
        return await self._write(
            lambda now: sql_queue.park(lease, version, due=due, waiting_for=waiting_for, keep=keep, now=now),
            key=lease.task_id,
        )

    async def pass_by(self, lease: Lease) -> None:
        await self._write(lambda now: sql_queue.pass_by(lease, now=now), key=lease.task_id)

    async def wake(self, task_id: TaskId) -> None:
        await self._write(lambda now: sql_queue.wake(task_id, now=now), key=task_id)

    async def wake_waiting(self, computers: Collection[ComputerId], *, claimants: bool = False) -> int:
        return await self._write(lambda now: sql_queue.wake_waiting(computers, claimants=claimants, now=now))

    async def waited_for(self) -> list[ComputerId]:
        return await self._read(lambda _: sql_queue.waited_for())

    async def claim(self, lease: Lease, computers: Sequence[ComputerId]) -> ComputerId | None:
        return await self._write(lambda _: sql_queue.claim(lease, computers), key=lease.task_id)

    async def claimant(self, computer: ComputerId) -> TaskId | None:
        return await self._read(lambda _: sql_queue.claimant(computer))

    async def next_due(self, *, but: Collection[TaskId] = (), frozen: Collection[str] = ()) -> datetime | None:
        return await self._read(lambda now: sql_queue.next_due(but, frozen, now=now))
