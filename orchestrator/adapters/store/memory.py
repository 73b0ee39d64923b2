"""The store of tests and dry runs: plain dictionaries that end with the process.

After its turn has come no method awaits anything, so each is one transaction: it checks and
seals first, and changes the dictionaries only when nothing can be refused any more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store.entry import Entry, holds, renewed, scheduled
from orchestrator.adapters.store.memory_journal import Journal
from orchestrator.adapters.store.memory_kept import Task
from orchestrator.adapters.store.memory_tables import MemoryComputers
from orchestrator.adapters.store.memory_writes import Addition
from orchestrator.core.approval.grants import GrantState
from orchestrator.core.audit.tables import PROMPT_HEAD_CHARS
from orchestrator.core.errors import ComputerClaimed
from orchestrator.core.ports import SYSTEM_STREAM, Clock, Schedule, StreamHead, TaskRow, Token, TokenRow
from orchestrator.core.task.facts import BlobRef, RequestId, TaskId
from orchestrator.core.task.fold import fold
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.task.task import AgentTask
from orchestrator.core.task.task_states import TaskStatus
from orchestrator.core.values import from_us
from orchestrator.core.wire.wire import ComputerId
from orchestrator.runtime.clock import SystemClock


class InMemoryPersistenceManager(MemoryComputers):
    """The `Store` in this process's memory."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        super().__init__(clock or SystemClock())

    async def create(self, task_id: TaskId, drafts: Sequence[Draft]) -> list[AgentTaskItem]:
        now = await self._turn()
        fact = sealing.submitted(drafts)
        present = self._tasks.get(task_id)
        if present is not None:
            stored = present.journal.stored(drafts)
            if stored is None:
                raise sealing.already_created(task_id)
            return stored
        sealing.check_task_id(task_id, is_stream=task_id in self._streams)
        if task_id in self._pruned:
            raise sealing.was_pruned(task_id)
        addition = self._addition(Journal(task_id), drafts, now)
        items = addition.items
        row = TaskRow(
            task_id=task_id,
            status=TaskStatus.QUEUED,
            version=0,
            user_id=fact.user_id,
            session_id=fact.session_id,
            prompt=fact.prompt[:PROMPT_HEAD_CHARS],
            created_at=items[0].at,
            updated_at=items[0].at,
            computers=fact.computers,
        )
        task = Task(row, fact.priority, addition.journal, Entry(due=now))
        self._tasks[task_id] = task
        self._grow(task, addition, TaskStatus.QUEUED)
        return items

    async def append(
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
    ) -> list[AgentTaskItem]:
        now = await self._turn()
        sealing.check_drafts(drafts, numbered=number_for is not None)
        task = self._tasks.get(task_id)
        if task is None:
            raise sealing.no_task(task_id)
        if token is not None and not holds(task.entry, token):
            raise sealing.lease_lost(task_id)
        blocked = None if token is None else self._blocked(task_id, claim)
        if blocked is not None:
            raise ComputerClaimed(blocked)
        stored = task.journal.stored(drafts)
        if stored is not None:
            return stored
        if task.row.version != version:
            raise sealing.moved_on(task_id, task.row.version, version)
        number = None if number_for is None else self._computer(number_for).number + 1
        addition = self._addition(task.journal, drafts, now, number)
        if number_for is not None and number is not None:
            self._computer(number_for).number = number
        for content in blobs:
            self._keep_blob(content, now)
        self._grow(task, addition, status)
        pinned = sealing.pinned_by(drafts)
        if pinned is not None:
            task.row = replace(task.row, pinned=pinned)
        entry = renewed(task.entry, now) if token is not None else task.entry
        task.entry = scheduled(entry, schedule, token, now)
        if token is not None:
            self._claim(task_id, claim)
            if release:
                self._release(task_id, (), now)
        return addition.items

    async def record(self, drafts: Sequence[Draft], *, stream: str = SYSTEM_STREAM) -> list[AgentTaskItem]:
        now = await self._turn()
        sealing.check_drafts(drafts)
        name = TaskId(stream)
        if name in self._tasks:
            raise sealing.a_task(stream)
        journal = self._streams.get(name) or Journal(name)
        stored = journal.stored(drafts)
        if stored is not None:
            return stored
        addition = self._addition(journal, drafts, now)
        self._record(addition)
        return addition.items

    async def read(self, task_id: TaskId, after_version: int = 0) -> list[AgentTaskItem]:
        await self._turn()
        return self._items(task_id)[max(0, after_version) :]

    async def heads(self) -> list[StreamHead]:
        await self._turn()
        return self._heads(self._tasks.values(), streams=True)

    async def heads_since(self, at: datetime) -> list[StreamHead]:
        await self._turn()
        return self._heads([one for one in self._tasks.values() if one.row.updated_at >= at], streams=True)

    async def heads_from(self, name: str, limit: int = 500, *, user_id: str | None = None) -> list[StreamHead]:
        await self._turn()
        theirs = [one for one in self._tasks.values() if user_id in (None, one.row.user_id)]
        return [one for one in self._heads(theirs, streams=user_id is None) if one.stream >= name][:limit]

    async def last_changed(
        self,
        limit: int = 100,
        *,
        before: tuple[datetime, TaskId] | None = None,
        begun: datetime | None = None,
        user_id: str | None = None,
    ) -> list[TaskRow]:
        await self._turn()
        rows = [
            row
            for row in (task.row for task in self._tasks.values())
            if (before is None or (row.updated_at, row.task_id) < before)
            and (begun is None or row.created_at <= begun)
            and user_id in (None, row.user_id)
        ]
        rows.sort(key=lambda row: (row.updated_at, row.task_id), reverse=True)
        return rows[:limit]

    async def load(self, task_id: TaskId) -> AgentTask | None:
        await self._turn()
        return self._folded(task_id)

    async def load_by_request_id(self, request_id: RequestId) -> AgentTask | None:
        await self._turn()
        task_id = self._requests.get(request_id)
        return None if task_id is None else self._folded(task_id)

    async def list_tasks(
        self, *, status: TaskStatus | None = None, session_id: str | None = None, limit: int = 100
    ) -> list[TaskRow]:
        await self._turn()
        rows = [
            task.row
            for task in self._tasks.values()
            if status in (None, task.row.status) and session_id in (None, task.row.session_id)
        ]
        rows.sort(key=lambda row: (row.created_at, row.task_id), reverse=True)
        return rows[:limit]

    async def put_blob(self, content: bytes) -> BlobRef:
        return self._keep_blob(content, await self._turn())

    async def get_blob(self, sha256: str) -> bytes:
        await self._turn()
        if sha256 not in self._blobs:
            raise sealing.no_blob(sha256)
        return sealing.whole_blob(sha256, self._blobs[sha256])

    async def add_token(self, token: TokenRow, *, note: Draft | None = None) -> None:
        now = await self._turn()
        if token.token_hash in self._tokens:
            raise sealing.token_exists()
        self._record(self._noted(sealing.fingerprinted(note, token.token_hash), now))
        self._tokens[token.token_hash] = replace(token, created_at=token.created_at or from_us(now))

    async def find_token(self, token_hash: str) -> TokenRow | None:
        await self._turn()
        return self._tokens.get(token_hash)

    async def revoke_tokens(self, kind: str, name: str, *, note: Draft | None = None) -> int:
        now = await self._turn()
        theirs = [row for row in self._tokens.values() if (row.kind, row.name) == (kind, name) and not row.revoked]
        if theirs:
            self._record(self._noted(sealing.counted(note, len(theirs)), now))
        self._tokens.update({row.token_hash: replace(row, revoked=True) for row in theirs})
        return len(theirs)

    async def list_tokens(self) -> list[TokenRow]:
        await self._turn()
        return sorted(self._tokens.values(), key=lambda row: (row.created_at, row.token_hash))

    async def count_revoked(self) -> int:
        await self._turn()
        return sum(row.revoked for row in self._tokens.values())

    async def list_grants(self, *, session_id: str | None = None) -> list[GrantState]:
        await self._turn()
        return self._grants.states(session_id)

    async def revoke_grant(self, grant_id: GrantId, *, note: Draft | None = None) -> bool:
        now = await self._turn()
        changed = self._grants.revoked(grant_id)
        if changed:
            self._record(self._noted(note, now))
        self._grants.keep(changed)
        return bool(changed)

    async def close(self) -> None:
        self._closed = True

    # -- inside --------------------------------------------------------------------------

    def _items(self, task_id: TaskId) -> list[AgentTaskItem]:
        task = self._tasks.get(task_id)
        journal = self._streams.get(task_id) if task is None else task.journal
        return [] if journal is None else journal.read()

    def _heads(self, tasks: Iterable[Task], *, streams: bool) -> list[StreamHead]:
        journals = (*(task.journal for task in tasks), *(self._streams.values() if streams else ()))
        return sealing.by_stream(journal.head for journal in journals)

    def _folded(self, task_id: TaskId) -> AgentTask | None:
        task = self._tasks.get(task_id)
        return None if task is None else fold(task.journal.read())

    def _grow(self, task: Task, addition: Addition, status: TaskStatus) -> None:
        """Add to a task."""
        self._add(addition)
        last, _ = addition.sealed[-1]
        task.row = replace(task.row, version=last.version, status=status, updated_at=last.at)
