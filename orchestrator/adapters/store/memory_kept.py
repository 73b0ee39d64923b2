"""What the store in memory keeps, as it is kept: rows as the SQL stores have them, for an audit."""

import asyncio
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store.entry import Entry
from orchestrator.adapters.store.memory_journal import Grants, Journal
from orchestrator.core.audit.retention import LISTS
from orchestrator.core.audit.shared import IN_FORCE
from orchestrator.core.ports import (
    BackupRow,
    Clock,
    KeptBlob,
    KeptItem,
    KeptRow,
    KeptTable,
    PolicyRow,
    SignInRow,
    TaskRow,
    TokenRow,
)
from orchestrator.core.task.facts import RequestId, TaskId
from orchestrator.core.values import to_us
from orchestrator.core.wire.identity import ComputerRecord
from orchestrator.core.wire.wire import ComputerId


@dataclass
class Task:
    """A task's row, its queue entry and its items."""

    row: TaskRow
    priority: int
    journal: Journal
    entry: Entry

    @property
    def kept(self) -> KeptRow:
        """Its row as the port's ``kept_rows`` has it."""
        row = self.row
        return {
            "task_id": row.task_id,
            "status": row.status.value,
            "version": row.version,
            "head_hash": self.journal.head_hash,
            "user_id": row.user_id,
            "session_id": row.session_id,
            "prompt": row.prompt,
            "computers": json.dumps(row.computers),
            "priority": self.priority,
            "created_at": to_us(row.created_at),
            "updated_at": to_us(row.updated_at),
            "pinned": int(row.pinned),
            "due": self.entry.due,
            "holder": self.entry.holder,
            "lease_until": self.entry.lease_until,
            "lease_for": self.entry.lease_for,
            "waiting_for": self.entry.waiting_for,
        }


@dataclass
class Computer:
    """A computer's number and claim, and what else is known of it."""

    record: ComputerRecord
    """But for ``number``."""
    number: int = 0
    task: TaskId | None = None

    def known(self) -> ComputerRecord:
        """What the store keeps of it, its number included."""
        return replace(self.record, number=self.number)


class MemoryTables:
    """The dictionaries, and the port's ``KeptRecords`` over them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._closed = False
        self._tasks: dict[TaskId, Task] = {}
        self._streams: dict[TaskId, Journal] = {}
        self._grants = Grants()
        self._requests: dict[RequestId, TaskId] = {}
        self._computers: dict[ComputerId, Computer] = {}
        self._blobs: dict[str, bytes] = {}
        self._touched: dict[str, int] = {}
        self._pruned: dict[TaskId, int] = {}
        self._backups: dict[str, BackupRow] = {}
        self._tokens: dict[str, TokenRow] = {}
        self._sign_ins: dict[str, SignInRow] = {}
        self._policy: PolicyRow | None = None
        self._duties: dict[str, tuple[str, int]] = {}
        self._agreed: dict[str, str] = {}

    async def _turn(self) -> int:
        """The time of this operation, which is about to run.

        Others run first, as with every real store: a busy caller must not starve the loop.
        Raises the refusal of a closed store.
        """
        if self._closed:
            raise sealing.store_closed()
        await asyncio.sleep(0)
        return to_us(self.clock.now())

    async def kept_items(self, stream: str, after_version: int = 0, limit: int = 500) -> list[KeptItem]:
        await self._turn()
        journal = self._journals().get(TaskId(stream))
        return [] if journal is None else journal.kept(after_version, limit)

    async def kept_rows(self, table: KeptTable, after: str | None = None, limit: int = 500) -> list[KeptRow]:
        await self._turn()
        rows = {str(next(iter(row.values()))): row for row in self._rows(table)}
        names = sorted(name for name in rows if after is None or name > after)
        return [rows[name] for name in names[:limit]]

    async def kept_task(self, task_id: str) -> KeptRow | None:
        await self._turn()
        task = self._tasks.get(TaskId(task_id))
        return None if task is None else task.kept

    async def kept_blobs(self, after: str | None = None, limit: int = 64) -> list[KeptBlob]:
        await self._turn()
        names = sorted(name for name in self._blobs if after is None or name > after)[:limit]
        contents = {name: self._blobs[name] for name in names}
        return [
            KeptBlob(name, hashlib.sha256(one).hexdigest(), len(one), LISTS in one) for name, one in contents.items()
        ]

    async def blob_sizes(self, names: Sequence[str]) -> dict[str, int]:
        await self._turn()
        return {name: len(self._blobs[name]) for name in names if name in self._blobs}

    async def strange(self) -> list[str]:
        await self._turn()
        return []  # it has no database

    async def odd(self) -> list[str]:
        await self._turn()
        return []

    async def raised_by(self, request_ids: Sequence[str]) -> dict[str, str]:
        await self._turn()
        return {name: self._requests[RequestId(name)] for name in request_ids if name in self._requests}

    def _journals(self) -> dict[TaskId, Journal]:
        return {**{task_id: task.journal for task_id, task in self._tasks.items()}, **self._streams}

    def _rows(self, table: KeptTable) -> Iterable[KeptRow]:
        found: Iterable[KeptRow]
        match table:
            case "tasks":
                found = [task.kept for task in self._tasks.values()]
            case "grants":
                found = self._grants.rows()
            case "tokens":
                found = [_token(row) for row in self._tokens.values()]
            case "computers":
                found = [_computer(one) for one in self._computers.values()]
            case "requests":
                found = [{"request_id": name, "task_id": task_id} for name, task_id in self._requests.items()]
            case "items":
                found = [
                    {"task_id": name, "items": len(one.items), "last": len(one.items)}
                    for name, one in self._journals().items()
                    if one.items
                ]
            case "backups":
                found = [_backup(row) for row in self._backups.values()]
            case "pruned":
                found = [{"task_id": name, "pruned_at": at} for name, at in self._pruned.items()]
            case "sign_ins":
                found = [_sign_in(row) for row in self._sign_ins.values()]
            case "policies":
                found = [] if self._policy is None else [_policy(self._policy)]
            case "agreed":
                found = [{"name": name, "value": value} for name, value in self._agreed.items()]
            case _:
                found = self._marks_and_duties(table)
        return found

    def _marks_and_duties(self, table: Literal["blob_marks", "duties"]) -> Iterable[KeptRow]:
        if table == "duties":
            return [{"name": name, "holder": who, "until": at} for name, (who, at) in self._duties.items()]
        return [
            {"sha256": name, "size": len(one), "lists": int(LISTS in one), "touched": self._touched[name]}
            for name, one in self._blobs.items()
        ]


def _backup(row: BackupRow) -> KeptRow:
    return {
        "backup_id": row.fact.backup_id,
        "computer": row.fact.computer,
        "made_at": to_us(row.at),
        "made_by": row.by,
        "data": row.fact.model_dump_json(),
    }


def _computer(row: Computer) -> KeptRow:
    one = row.record
    return {
        "computer": one.computer,
        "number": row.number,
        "task": row.task,
        "heard": one.heard,
        "doubtful_below": one.doubtful_below,
        "known": None if one.known is None else one.known.model_dump_json(),
        "token": one.token,
        "frozen": None if one.frozen is None else one.frozen.model_dump_json(),
        "frozen_at": None if one.frozen_at is None else to_us(one.frozen_at),
        "released": int(one.released),
    }


def _token(row: TokenRow) -> KeptRow:
    return {
        "token_hash": row.token_hash,
        "kind": row.kind,
        "name": row.name,
        "roles": json.dumps(row.roles),
        "created_at": None if row.created_at is None else to_us(row.created_at),
        "revoked": int(row.revoked),
    }


def _sign_in(row: SignInRow) -> KeptRow:
    return {
        "session_hash": row.session_hash,
        "token_hash": row.token_hash,
        "name": row.name,
        "begun_at": to_us(row.begun_at),
        "used_at": to_us(row.used_at),
    }


def _policy(row: PolicyRow) -> KeptRow:
    return {
        "name": IN_FORCE,
        "version": row.version,
        "sha256": row.sha256,
        "source": row.source,
        "loaded_at": to_us(row.loaded_at),
        "loaded_by": row.by,
        "judged": row.judged,
    }
