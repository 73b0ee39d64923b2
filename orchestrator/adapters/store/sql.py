"""The journal in SQL: each operation as a transaction script that does no I/O itself.

A *script* is a generator: it yields a statement with its parameters, is sent the rows, and
returns the answer or raises the refusal. Its caller opens the transaction before and
commits after; a script that raises has its writes rolled back by the driver. So one text holds
the semantics, and a driver may be a thread (SQLite) or a coroutine (a database server).

The text keeps to what both dialects read. Parameters are ``?`` (a server's driver numbers
them). A trailing comment such as ``/* FOR UPDATE */`` is the row lock that a server takes and
SQLite, with its one writer, does not need; the driver uncomments it. Locks go first to
tasks, then to computers, to marks of blobs, to grants and last to a stream, and among equals in the
order of their names; where that cannot be, a deadlock's victim is simply run again.
``now`` is the database's clock where it has one, in microseconds since 1970.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, NamedTuple

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql_grants, sql_outbox
from orchestrator.adapters.store.objects import Entry, holds, renewed, scheduled
from orchestrator.adapters.store.schema import (
    MIGRATIONS,
    NEEDS_KEY,
    OLDEST,
    READ_META,
    SCHEMA,
    SCHEMA_KEY,
    SET_META,
    needed,
    of_old_version,
)
from orchestrator.adapters.store.script import Rows, Script
from orchestrator.core.audit.chain import read_written
from orchestrator.core.audit.retention import LISTS
from orchestrator.core.audit.tables import PROMPT_HEAD_CHARS
from orchestrator.core.errors import ComputerClaimed, InvalidRequest, JournalBroken, NewerSchema
from orchestrator.core.ports import Receipt, Schedule, Token
from orchestrator.core.task.facts import BlobRef, RequestId, TaskId
from orchestrator.core.task.fold import fold
from orchestrator.core.task.items import GENESIS_HASH, AgentTaskItem, Draft, decode_item
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.values import ComputerId, to_us
from orchestrator.core.wire.identity import NOTHING_HEARD, Heard

# -- The items of a stream as they come out of a store: each is compared with its hash and the item before it
#
# Theory. A decision counts for what its reviewer was shown, and both come from these items. So an item that
# somebody changed in the database is never shown and never acted on. The check reads the very bytes that were
# sealed: one sha256 per item, where decoding the item costs several times as much.


def linked(stream: str, rows: Iterable[Any], after_version: int = 0) -> list[AgentTaskItem]:
    """The items of a stream after a version, from their rows in order. Raises JournalBroken, NewerSchema."""
    items: list[AgentTaskItem] = []
    previous = GENESIS_HASH if after_version <= 0 else None
    for version, data in enumerate(rows, start=max(0, after_version) + 1):
        item = _item(stream, version, data)
        if previous not in (None, item.prev_hash):
            raise broken(stream, version)
        previous = item.hash
        items.append(item)
    return items


def broken(stream: str, version: int) -> JournalBroken:
    """The refusal of a stream with an item that is not as it was sealed."""
    return JournalBroken(
        f"Item {version} of {stream} is not as it was written: somebody changed the database, or it is damaged. "
        "Nothing of this task is shown, decided or run.",
        remedy="`cc-orchestrator audit verify` names all that was changed. Stop the server and put a backup of the "
        "store in its place.",
        details={"task_id": TaskId(stream), "version": version},
    )


_HASH: Final = slice(len('{"hash":"'), len('{"hash":"') + len(GENESIS_HASH))
_CONTENT: Final = len(f'{{"hash":"{GENESIS_HASH}","prev_hash":"{GENESIS_HASH}",')


def _goes_on(rows: Rows, known: AgentTask) -> bool:
    """Whether the items of a task begin with those of which ``known`` was made, each as it was sealed."""
    previous = GENESIS_HASH
    if len(rows) < known.version:
        return False
    for data, *_ in rows[: known.version]:
        text = _text(data)
        sha256 = text[_HASH]
        if not text.startswith(f'{{"hash":"{sha256}","prev_hash":"{previous}",'):
            return False
        if hashlib.sha256(f"{previous}{{{text[_CONTENT:]}".encode()).hexdigest() != sha256:
            return False
        previous = sha256
    return previous == known.head_hash


def _text(data: Any) -> str:
    return bytes(data).decode(errors="replace") if isinstance(data, bytes | bytearray | memoryview) else str(data)


def _item(stream: str, version: int, data: Any) -> AgentTaskItem:
    text = _text(data)
    try:
        item = decode_item(text)
    except InvalidRequest:
        raise broken(stream, version) from None
    if (item.version, item.task_id) != (version, stream) or not _as_sealed(item, text):
        raise broken(stream, version)
    return item


def _as_sealed(item: AgentTaskItem, text: str) -> bool:
    head = f'{{"hash":"{item.hash}","prev_hash":"{item.prev_hash}",'
    if text.startswith(head):
        return hashlib.sha256(f"{item.prev_hash}{{{text[len(head) :]}".encode()).hexdigest() == item.hash
    # The earliest releases kept the two hashes elsewhere.
    return read_written(text.encode()).sound


# -- The journal in SQL: each operation as a transaction script that does no I/O itself

ENTRY_COLUMNS: Final = "due, holder, token, lease_until, lease_for, waiting_for, woken"

_HEAD: Final = f"SELECT version, head_hash, status, {ENTRY_COLUMNS} FROM tasks WHERE task_id = ? /* FOR UPDATE */"
_IS_THERE: Final = "EXISTS (SELECT 1 FROM items WHERE items.task_id = tasks.task_id AND item_id = ?)"
_HEAD_FOR: Final = f"""SELECT task_id, {{}}, version, head_hash, status, {ENTRY_COLUMNS} FROM tasks
    WHERE task_id = ? /* FOR UPDATE */"""
# Before anything else is locked, in the order in which everybody locks tasks. Not two conditions with OR: for these
# PostgreSQL reads all tasks.
GIVING: Final = """task_id IN (/*ARRAY(*/SELECT ? UNION ALL SELECT waiting.task_id FROM computers
    JOIN tasks AS waiting ON waiting.waiting_for = computers.computer WHERE computers.task = ?/*)*/)
    ORDER BY task_id /* FOR UPDATE */"""
_HEAD_FOR_GIVING: Final = f"SELECT task_id, {{}}, version, head_hash, status, {ENTRY_COLUMNS} FROM tasks WHERE {GIVING}"
_STORED: Final = "SELECT version, data FROM items WHERE task_id = ? AND item_id = ?"
ADD_ITEMS: Final = "INSERT INTO items (task_id, version, item_id, data) VALUES {}"
ITEM_ROW: Final = "(?, ?, ?, ?)"
_ADD_TASK: Final = """INSERT INTO tasks (task_id, status, version, head_hash, user_id, session_id, prompt, computers,
    priority, created_at, updated_at, due) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
# Three updates where one would do: SQLite rewrites an index whenever a column of it is named, and
# most appends change neither status nor queue.
SET_HEAD: Final = "UPDATE tasks SET version = ?, head_hash = ?, updated_at = ?, lease_until = ? WHERE task_id = ?"
SET_STATUS: Final = "UPDATE tasks SET status = ? WHERE task_id = ?"
_SET_ALL: Final = """UPDATE tasks SET version = ?, head_hash = ?, updated_at = ?, status = ?,
    due = ?, holder = ?, token = ?, lease_until = ?, lease_for = ?, waiting_for = ?, woken = ? WHERE task_id = ?"""
_SET_ENTRY: Final = """UPDATE tasks SET due = ?, holder = ?, token = ?, lease_until = ?, lease_for = ?,
    waiting_for = ?, woken = ? WHERE task_id = ?"""
_IS_KNOWN: Final = """SELECT 'task' FROM tasks WHERE task_id = ? UNION ALL SELECT 'stream' FROM streams WHERE stream = ?
    UNION ALL SELECT 'pruned' FROM pruned WHERE task_id = ?"""
_SET_PINNED: Final = "UPDATE tasks SET pinned = ? WHERE task_id = ?"
_RAISED: Final = "SELECT task_id FROM requests WHERE request_id = ?"
_ADD_REQUEST: Final = "INSERT INTO requests (request_id, task_id) VALUES (?, ?)"
_ADD_BLOB: Final = "INSERT INTO blobs (sha256, content) VALUES (?, ?) ON CONFLICT DO NOTHING"
_MARK_BLOB: Final = """INSERT INTO blob_marks (sha256, size, lists, touched) VALUES (?, ?, ?, ?)
    ON CONFLICT (sha256) DO UPDATE SET touched = excluded.touched"""
_BLOB: Final = "SELECT content FROM blobs WHERE sha256 = ?"
_READ: Final = "SELECT data FROM items WHERE task_id = ? AND version > ? ORDER BY version"
_LOAD: Final = """SELECT items.data, tasks.version, tasks.head_hash FROM items
    LEFT JOIN tasks ON tasks.task_id = items.task_id WHERE items.task_id = ? ORDER BY items.version"""
_GROWN: Final = """SELECT items.data, tasks.version, tasks.head_hash FROM tasks
    LEFT JOIN items ON items.task_id = tasks.task_id AND items.version > ? WHERE tasks.task_id = ?
    ORDER BY items.version"""
_KNOW_COMPUTER: Final = "INSERT INTO computers (computer, number) VALUES (?, 0) ON CONFLICT DO NOTHING"
_HEARD: Final = "heard = CASE WHEN heard < ? AND (known IS NULL OR known LIKE ? ESCAPE '!') THEN ? ELSE heard END"
_NEXT_NUMBER: Final = f"""UPDATE computers SET number = CASE WHEN number + ? < ? THEN ? ELSE number + ? END,
    {_HEARD} WHERE computer = ?"""
_NUMBER: Final = "SELECT number FROM computers WHERE computer = ?"
_COMPUTER: Final = "SELECT number, task FROM computers WHERE computer = ? /* FOR UPDATE */"
_SET_COMPUTER: Final = "UPDATE computers SET number = ?, task = ? WHERE computer = ?"
_SET_HEARD: Final = f"UPDATE computers SET number = ?, task = ?, {_HEARD} WHERE computer = ?"


class Head(NamedTuple):
    """The facts of a task that an operation needs before it may change it."""

    version: int
    head_hash: str
    status: str
    entry: Entry


class Append(NamedTuple):
    """The arguments of the port's ``append``."""

    task_id: TaskId
    version: int
    drafts: Sequence[Draft]
    status: TaskStatus
    schedule: Schedule = "keep"
    token: Token | None = None
    number_for: ComputerId | None = None
    blobs: Sequence[bytes] = ()
    claim: Sequence[ComputerId] = ()
    release: bool = False
    woke: Callable[[], object] | None = None
    receipt: Receipt | None = None


class Checked(NamedTuple):
    """A task whose items were all as they were sealed."""

    task: AgentTask
    others: int | None
    """``others`` of the store before its items were read."""


Kept = Mapping[TaskId, Checked]
Loaded = tuple[AgentTask | None, AgentTask | None]


def migrate(*, fresh: bool, upto: int = SCHEMA) -> Script[None]:
    """Bring the tables, ``fresh``: there is none yet, to this version's, or to the older schema ``upto``.

    Tables of a newer version that this one may work on stay as they are.
    Raises NewerSchema when it may not, InvalidRequest when another program or a version before 0.6 made them.
    """
    rows = [(0,)] if fresh else (yield READ_META, (SCHEMA_KEY,))
    if not rows or not str(rows[0][0]).isdecimal():
        raise sealing.not_a_store()
    done = int(rows[0][0])
    if done > SCHEMA:
        needs = yield READ_META, (NEEDS_KEY,)
        if not needs or int(needs[0][0]) > SCHEMA:
            raise NewerSchema(
                f"The store has schema {done}; this version knows up to {SCHEMA}.",
                remedy="Start a newer version of cc-orchestrator on this store.",
            )
    if not fresh and done < OLDEST:
        raise of_old_version("The store", done)
    for number, step in MIGRATIONS.items():
        if not done < number <= upto:
            continue
        for statement in step:
            yield statement, ()
        yield SET_META, (SCHEMA_KEY, str(number))
        yield SET_META, (NEEDS_KEY, str(needed(number)))


def create(task_id: TaskId, drafts: Sequence[Draft], *, now: int) -> Script[list[AgentTaskItem]]:
    """The port's ``create``."""
    fact = sealing.submitted(drafts)
    known_as = {row[0] for row in (yield _IS_KNOWN, (task_id, task_id, task_id))}
    if "task" in known_as:
        stored = yield from already_there(task_id, drafts)
        if stored is None:
            raise sealing.already_created(task_id)
        return stored
    sealing.check_task_id(task_id, is_stream="stream" in known_as)
    if "pruned" in known_as:
        raise sealing.was_pruned(task_id)
    sealed = sealing.seal_drafts(drafts, task_id=task_id, version=0, head_hash=GENESIS_HASH)
    items = [item for item, _ in sealed]
    last = items[-1]
    yield (
        _ADD_TASK,
        (
            task_id,
            TaskStatus.QUEUED.value,
            last.version,
            last.hash,
            fact.user_id,
            fact.session_id,
            fact.prompt[:PROMPT_HEAD_CHARS],
            json.dumps(fact.computers),
            fact.priority,
            to_us(items[0].at),
            to_us(last.at),
            now,
        ),
    )
    yield from add(task_id, sealed, drafts, now=now)
    return items


def append(wanted: Append, *, now: int) -> Script[list[AgentTaskItem]]:
    """The port's ``append``; for ``release`` it locks whom that wakes, and gives nothing back yet."""
    task_id, drafts, token = wanted.task_id, wanted.drafts, wanted.token
    sealing.check_drafts(drafts, numbered=wanted.number_for is not None)
    head, is_there = yield from _head_for(wanted)
    if head is None:
        # Who held it and finds it gone has lost it: it moved to another cell.
        raise sealing.no_task(task_id) if token is None else sealing.lease_lost(task_id)
    if token is not None and not holds(head.entry, token):
        return (yield from _given_back_with(wanted, head.entry))
    claim = () if token is None else wanted.claim
    receipt = wanted.receipt
    computers = yield from _computers_for(task_id, claim, wanted.number_for, receipt)
    # What another transaction wrote while this one waited for the lock shows in the version alone.
    if is_there or head.version != wanted.version:
        stored = yield from already_there(task_id, drafts)
        if stored is not None:
            return stored
    if head.version != wanted.version:
        raise sealing.moved_on(task_id, head.version, wanted.version)
    number = None if wanted.number_for is None else computers[wanted.number_for][0]
    sealed = sealing.seal_drafts(drafts, task_id=task_id, version=head.version, head_hash=head.head_hash, number=number)
    items = [item for item, _ in sealed]
    for computer, columns in computers.items():
        if receipt is not None and computer == receipt.computer:
            heard = receipt.heard.journal_seq
            yield _SET_HEARD, (*columns, heard, of_boot(receipt.heard), heard, computer)
            receipt.told(columns[0] - (computer == wanted.number_for))
        else:
            yield _SET_COMPUTER, (*columns, computer)
    for content in sorted(wanted.blobs):
        yield from put_blob(content, now=now)
    yield from add(task_id, sealed, drafts, now=now)
    entry = renewed(head.entry, now) if token is not None else head.entry
    after = scheduled(entry._replace(waiting_for=None) if claim else entry, wanted.schedule, token, now)
    last = items[-1]
    at = to_us(last.at)
    if after == entry and wanted.status.value == head.status:
        yield SET_HEAD, (last.version, last.hash, at, entry.lease_until, task_id)
    else:
        yield _SET_ALL, (last.version, last.hash, at, wanted.status.value, *after, task_id)
    pinned = sealing.pinned_by(drafts)
    if pinned is not None:
        yield _SET_PINNED, (int(pinned), task_id)
    if wanted.schedule == "sleep" and entry.woken and wanted.woke is not None:
        wanted.woke()
    return items


def _given_back_with(wanted: Append, entry: Entry) -> Script[list[AgentTaskItem]]:
    """What an append did that gave its lease back itself and was not answered. Raises LeaseLost for any other."""
    is_its_own = wanted.schedule == "sleep" and entry.holder is None and entry.token == wanted.token
    stored = (yield from already_there(wanted.task_id, wanted.drafts)) if is_its_own else None
    if stored is None:
        raise sealing.lease_lost(wanted.task_id)
    return stored


@cache
def of_rows(statement: str, row: str, count: int, between: str = ", ") -> str:
    """A statement for so many rows: the same text each time, which a driver finds again without reading it."""
    return statement.format(between.join([row] * count))


def head_of(task_id: TaskId) -> Script[Head | None]:
    """The task's version and queue entry, locked until the transaction ends; None: no such task."""
    rows = yield _HEAD, (task_id,)
    if not rows:
        return None
    version, head_hash, status, *entry = rows[0]
    return Head(version, head_hash, status, Entry._make(entry))


def _head_for(wanted: Append) -> Script[tuple[Head | None, bool]]:
    """As ``head_of`` for an append, and whether an item of its drafts is there: one statement for what were three."""
    task_id, drafts = wanted.task_id, wanted.drafts
    statement = of_rows(_HEAD_FOR_GIVING if wanted.release else _HEAD_FOR, _IS_THERE, len(drafts), " OR ")
    names = (task_id, task_id) if wanted.release else (task_id,)
    rows = yield statement, (*[draft.item_id for draft in drafts], *names)
    for found, is_there, version, head_hash, status, *entry in rows:
        if found == task_id:
            return Head(version, head_hash, status, Entry._make(entry)), bool(is_there)
    return None, False


def set_entry(task_id: TaskId, entry: Entry) -> Script[None]:
    """Write the task's queue entry."""
    yield _SET_ENTRY, (*entry, task_id)


def know_computer(computer: ComputerId) -> Script[None]:
    """Make the computer's row, which then stays for ever."""
    yield _KNOW_COMPUTER, (computer,)


def of_boot(heard: Heard) -> str:
    """Like ``known``, where the boot of which something was heard was welcomed last.

    A pattern, because databases read JSON each in their own way. Quotes inside a text of JSON are written with a
    backslash, so that no label can look like the field.
    """
    field = f'"boot":{json.dumps(heard.boot, ensure_ascii=False)}'
    escaped = re.sub("([!%_])", r"!\1", field)
    return f"%{escaped}%"


def next_number(computer: ComputerId, at_least: int = 0, heard: Heard = NOTHING_HEARD, count: int = 1) -> Script[int]:
    """Allot the computer's next ``count`` numbers, the last not below ``at_least``: it is the answer.

    What was heard from it is kept.
    """
    yield from know_computer(computer)
    seq = heard.journal_seq
    yield _NEXT_NUMBER, (count, at_least, at_least, count, seq, of_boot(heard), seq, computer)
    rows = yield _NUMBER, (computer,)
    return int(rows[0][0])


def put_blob(content: bytes, *, now: int) -> Script[BlobRef]:
    """The port's ``put_blob``."""
    sha256 = hashlib.sha256(content).hexdigest()
    # The mark first: a sweeper locks it, and then finds it touched or has taken the blob away before.
    yield _MARK_BLOB, (sha256, len(content), int(LISTS in content), now)
    yield _ADD_BLOB, (sha256, content)
    return BlobRef(sha256=sha256, size=len(content))


def get_blob(sha256: str) -> Script[bytes]:
    """The port's ``get_blob``."""
    rows = yield _BLOB, (sha256,)
    if not rows:
        raise sealing.no_blob(sha256)
    return sealing.whole_blob(sha256, bytes(rows[0][0]))


def read(task_id: TaskId, after_version: int = 0) -> Script[list[AgentTaskItem]]:
    """The port's ``read``."""
    rows = yield _READ, (task_id, after_version)
    return linked(task_id, (data for (data,) in rows), after_version)


def load(task_id: TaskId, kept: Kept, others: int | None, known: AgentTask | None = None) -> Script[Loaded]:
    """The port's ``load``, and the task as it was between its last two steps, to be ``kept`` for the next time.

    Of a known task only the new items are read as long as nobody else wrote: ``others`` is as it was. Otherwise all of
    them are read and hashed again, which costs a tenth of folding them. Only a task with no call of a present step is
    kept: nobody is to change what the next one gets.
    """
    checked = kept.get(task_id)
    if checked is not None and (known is None or known.version < checked.task.version):
        known = checked.task
    if known is not None and checked is not None and checked.others is not None and checked.others == others:
        rows = yield _GROWN, (known.version, task_id)
        if rows:
            new = [data for data, _, _ in rows if data is not None]
            # Of a task that is not as it was written, all items say which one is not.
            with contextlib.suppress(JournalBroken):
                return _folded_on(task_id, known, new, rows[0][1:])
    rows = yield _LOAD, (task_id,)
    task = known if known is not None and _goes_on(rows, known) else None
    new = [data for data, _, _ in rows[task.version if task else 0 :]]
    return _folded_on(task_id, task, new, rows[0][1:] if rows else ())


def _folded_on(task_id: TaskId, task: AgentTask | None, new: Sequence[Any], head: Sequence[Any]) -> Loaded:
    """A task with the rows of its ``new`` items, of which its own row names the last one as its ``head``."""
    version = task.version if task else 0
    items = linked(task_id, new, version)
    if task is None and (not items or items[0].fact.kind != "task_submitted"):
        return None, None
    if task is not None and items and items[0].prev_hash != task.head_hash:
        raise broken(task_id, items[0].version)
    between = task if task is not None and not task.calls else None
    for item in items:
        task = fold((item,), task)
        between = between if task.calls else task
    if task is None or (task.version, task.head_hash) != tuple(head):
        # The last item is not the one that the task's row names.
        raise broken(task_id, version + len(items))
    return task, between


def load_by_request_id(request_id: RequestId, kept: Kept, others: int | None) -> Script[Loaded]:
    """The port's ``load_by_request_id``, as ``load``."""
    rows = yield _RAISED, (request_id,)
    return (yield from load(TaskId(rows[0][0]), kept, others)) if rows else (None, None)


def _computers_for(
    task_id: TaskId, claim: Sequence[ComputerId], number_for: ComputerId | None, receipt: Receipt | None
) -> Script[dict[ComputerId, tuple[int, str | None]]]:
    """Number and claimant, as they will be, of the computers that an append changes. Raises ComputerClaimed."""
    changed: dict[ComputerId, tuple[int, str | None]] = {}
    numbered = [one for one in (number_for, None if receipt is None else receipt.computer) if one is not None]
    for computer in sorted({*claim, *numbered}):
        rows = yield _COMPUTER, (computer,)
        if not rows:
            yield from know_computer(computer)
            rows = yield _COMPUTER, (computer,)
        number, claimant = rows[0]
        if computer in claim and claimant not in {None, task_id}:
            raise ComputerClaimed(computer)
        after = (number + numbered.count(computer), task_id if computer in claim else claimant)
        if after != (number, claimant):
            changed[computer] = after
    return changed


def already_there(task_id: TaskId, drafts: Sequence[Draft]) -> Script[list[AgentTaskItem] | None]:
    """The stored items of these drafts; None: none is there. Raises Conflict when only some are."""
    # Not IN: SQLite makes a table of the list first, and with ORDER BY reads the whole task.
    union = " UNION ALL ".join([_STORED] * len(drafts))
    rows = yield union, tuple(chain.from_iterable((task_id, draft.item_id) for draft in drafts))
    if rows and len(rows) < len(drafts):
        raise sealing.partly_there(task_id)
    return [decode_item(data) for _, data in sorted(rows)] or None


def add(task_id: TaskId, sealed: Sequence[sealing.Sealed], drafts: Sequence[Draft], *, now: int) -> Script[None]:
    """The items in one statement, since a statement costs more than a row; and the other rows that the drafts write."""
    rows = [(task_id, item.version, item.item_id, data.decode("ascii")) for item, data in sealed]
    yield of_rows(ADD_ITEMS, ITEM_ROW, len(rows)), tuple(chain.from_iterable(rows))
    if sealing.only_items(drafts):
        return
    for request_id in sealing.requests_of(drafts):
        if (yield _RAISED, (request_id,)):
            raise sealing.raised_before(request_id)
        yield _ADD_REQUEST, (request_id, task_id)
    yield from sql_grants.give_and_use(drafts, now=now)
    yield from sql_outbox.noticed([item for item, _ in sealed], now=now)
