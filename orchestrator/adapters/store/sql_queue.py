"""The queue in SQL: leases, wakes and claims as transaction scripts (see ``sql``).

A claim that is blocked, and a park, write ``waiting_for``; giving a computer back wakes by it. A holder whose claim was
blocked and that parks only then is woken all the same: the release in between has left ``woken`` on its entry.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from itertools import chain
from typing import Final, Protocol

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql
from orchestrator.adapters.store.objects import (
    Entry,
    awakened,
    given_back,
    holds,
    leased,
    near_first,
    renewed,
    renewed_until,
    scheduled,
    seconds_to_us,
)
from orchestrator.adapters.store.script import Rows, Script, text
from orchestrator.adapters.store.sql import (
    ADD_ITEMS,
    ENTRY_COLUMNS,
    GIVING,
    ITEM_ROW,
    SET_HEAD,
    SET_STATUS,
    Append,
    Head,
    head_of,
    know_computer,
    next_number,
    of_rows,
    set_entry,
)
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import ANYBODY, Lease, Token, Turns
from orchestrator.core.ports.store import Here
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.values import ComputerId, from_us, to_us
from orchestrator.core.wire.identity import Heard

# -- Many appends as one transaction script: as few statements as one of them alone would take
#
# A statement costs more than a row: a call into the database, and with a thread also a hand-over of the interpreter. So
# the appends that gather while a commit waits for the disk read their heads together and write their rows together.
#
# Only what goes smoothly is done here: the task is there, the lease is the caller's, the version is the task's.
# Anything else is left to be run by itself, before anything is written: the refusals and the answer to a retry
# have one text, ``sql.append``. Item ids are not looked up either: one that is in the journal already breaks the
# uniqueness of the table, and the driver of the script then rolls back and runs each append by itself.

_HEADS: Final = f"""SELECT task_id, version, head_hash, status, {ENTRY_COLUMNS} FROM tasks
    WHERE task_id IN ({{}}) ORDER BY task_id /* FOR UPDATE */"""
# Both dialects give the columns of VALUES these names; a value that is compared or set needs a type in one of them.
_SET_HEADS: Final = """UPDATE tasks SET version = news.column1, head_hash = news.column2, updated_at = news.column3,
    lease_until = news.column4 FROM (VALUES {}) AS news WHERE tasks.task_id = news.column5"""
_HEAD_ROW: Final = "(CAST(? AS BIGINT), ?, CAST(? AS BIGINT), CAST(? AS BIGINT), ?)"
_MOST_ROWS: Final = 128
"""Rows of one statement: with five parameters each they stay below the 999 that an old SQLite takes."""

Cell = str | int


def is_plain(wanted: Append) -> bool:
    """Whether an append may go with others, before whatever else is in their transaction.

    It changes nothing but its own task's row and items. It gives no lease back, because a renewal
    that came with it must not find the lease gone.
    """
    if wanted.number_for is not None or wanted.blobs or wanted.claim or wanted.release or wanted.receipt is not None:
        return False
    return wanted.schedule != "sleep" and sealing.only_items(wanted.drafts)


class Many(Protocol):
    """How a dialect reads and writes the rows of many tasks."""

    def heads(self, task_ids: Sequence[TaskId]) -> Script[Rows]:
        """Each task's id, version, hash, status and entry, locked in the order of the ids."""

    def write(self, items: Sequence[tuple[Cell, ...]], heads: Sequence[tuple[Cell, ...]]) -> Script[None]:
        """Add items and set the heads of their tasks; there is at least one of each.

        An item is task, version, item's id and bytes; a head is version, hash, time of the last item, end of the
        lease and task.
        """


def append_many(wanted: Sequence[Append], many: Many, *, now: int) -> Script[list[list[AgentTaskItem] | None]]:
    """What each of these plain appends, to a task of its own each, answers; None: run it by itself."""
    rows = yield from many.heads(sorted(one.task_id for one in wanted))
    heads = {row[0]: Head(row[1], row[2], row[3], Entry._make(row[4:])) for row in rows}
    answers: list[list[AgentTaskItem] | None] = []
    items: list[tuple[Cell, ...]] = []
    news: list[tuple[Cell, ...]] = []
    seldom: list[tuple[Append, str, Entry]] = []
    for one in wanted:
        task_id = one.task_id
        head = heads.get(task_id)
        sealed = None if head is None else _sealed(one, head)
        if head is None or sealed is None:
            answers.append(None)
            continue
        answers.append([item for item, _ in sealed])
        for item, data in sealed:
            items.append((task_id, item.version, item.item_id, data.decode("ascii")))
        last, _ = sealed[-1]
        lease_until = head.entry.lease_until if one.token is None else renewed_until(head.entry, now)
        news.append((last.version, last.hash, to_us(last.at), lease_until, task_id))
        if one.schedule != "keep" or one.status.value != head.status:
            seldom.append((one, head.status, head.entry._replace(lease_until=lease_until)))
    if items:
        yield from many.write(items, news)
    for one, status, entry in seldom:
        yield from _set_more(one, status, entry, now)
    return answers


def _sealed(wanted: Append, head: Head) -> list[sealing.Sealed] | None:
    """The drafts as the task's next items; None: the append is to be refused, or was done before."""
    version, drafts, token = wanted.version, wanted.drafts, wanted.token
    if head.version != version or (token is not None and not holds(head.entry, token)):
        return None
    try:
        sealing.check_drafts(drafts)
        return sealing.seal_drafts(drafts, task_id=wanted.task_id, version=version, head_hash=head.head_hash)
    except OrchestratorError:
        return None


def _set_more(wanted: Append, status: str, entry: Entry, now: int) -> Script[None]:
    """What few appends change: the task's status, and its queue entry besides the renewed lease."""
    if wanted.status.value != status:
        yield SET_STATUS, (wanted.status.value, wanted.task_id)
    after = scheduled(entry, wanted.schedule, wanted.token, now)
    if after != entry:
        yield from set_entry(wanted.task_id, after)


def _chunks(count: int) -> list[slice]:
    """Parts of ``count`` in sizes of powers of two: few texts, so that each is prepared once and kept."""
    parts: list[slice] = []
    start = 0
    size = _MOST_ROWS
    while start < count:
        while size > count - start:
            size //= 2
        parts.append(slice(start, start + size))
        start += size
    return parts


class InChunks:
    """`Many` by a row of parameters for each row, in parts."""

    def heads(self, task_ids: Sequence[TaskId]) -> Script[Rows]:
        """Each task's head."""
        found: Rows = []
        for part in _chunks(len(task_ids)):
            found += yield of_rows(_HEADS, "?", part.stop - part.start), tuple(task_ids[part])
        return found

    def write(self, items: Sequence[tuple[Cell, ...]], heads: Sequence[tuple[Cell, ...]]) -> Script[None]:
        """Add items and set heads."""
        yield from self._each(ADD_ITEMS, ITEM_ROW, items)
        if len(heads) == 1:
            # A join with a table of one row costs more than the row.
            yield SET_HEAD, heads[0]
        else:
            yield from self._each(_SET_HEADS, _HEAD_ROW, heads)

    def _each(self, statement: str, row: str, rows: Sequence[tuple[Cell, ...]]) -> Script[None]:
        for part in _chunks(len(rows)):
            yield of_rows(statement, row, part.stop - part.start), tuple(chain.from_iterable(rows[part]))


# -- The queue in SQL: leases, wakes and claims as transaction scripts (see ``sql``) -----

_DUE: Final = """SELECT task_id, {columns} FROM tasks
    WHERE user_id = ? AND due <= ? AND (holder IS NULL OR lease_until <= ?){but}
    ORDER BY priority DESC, due, task_id LIMIT 1 /* FOR UPDATE SKIP LOCKED */"""
_FIRST_DUE: Final = """SELECT task_id, priority, due, computers FROM tasks
    WHERE user_id = ? AND due <= ? AND (holder IS NULL OR lease_until <= ?){but}
    ORDER BY priority DESC, due, task_id LIMIT 16"""
_STILL_DUE: Final = f"""SELECT task_id, {ENTRY_COLUMNS} FROM tasks
    WHERE task_id = ? AND due <= ? AND (holder IS NULL OR lease_until <= ?) /* FOR UPDATE SKIP LOCKED */"""
# From user to user along an index, however many tasks each has; with when the next task of each fell due.
_WAITING_USERS: Final = """WITH RECURSIVE users (name) AS (
    SELECT MIN(user_id) FROM tasks WHERE due IS NOT NULL
    UNION ALL
    SELECT (SELECT MIN(user_id) FROM tasks WHERE due IS NOT NULL AND user_id > users.name) FROM users
    WHERE users.name IS NOT NULL
), heads (name, due) AS (
    SELECT users.name, (SELECT due FROM tasks
        WHERE user_id = users.name AND due <= ? AND (holder IS NULL OR lease_until <= ?){but}
        ORDER BY priority DESC, due, task_id LIMIT 1)
    FROM users WHERE users.name IS NOT NULL
) SELECT heads.name, heads.due, COALESCE(turns.ends, 0), COALESCE((SELECT MAX(started) FROM turns), 0)
    FROM heads LEFT JOIN turns ON turns.user_id = heads.name WHERE heads.due IS NOT NULL"""
_KNOW_USER: Final = "INSERT INTO turns (user_id, started, ends) VALUES (?, 0, 0) ON CONFLICT DO NOTHING"
_LOCK_USER: Final = "SELECT ends FROM turns WHERE user_id = ? /* FOR UPDATE SKIP LOCKED */"
_HELD_OF: Final = """SELECT COUNT(*) FROM tasks WHERE holder IS NOT NULL AND lease_until > ? AND user_id = ?"""
_SET_TURN: Final = """INSERT INTO turns (user_id, started, ends) VALUES (?, ?, ?)
    ON CONFLICT (user_id) DO UPDATE SET started = excluded.started, ends = excluded.ends"""
_TURN: Final = 1_000_000
"""The length of a turn of a user with the weight 1."""
_LONGEST_TURN: Final = 10 * _TURN
"""The least weight is 0.1. A row that says more than this was not written here, and keeps nobody waiting longer."""
_NEXT_DUE: Final = "SELECT MIN(due) FROM tasks WHERE due IS NOT NULL AND (holder IS NULL OR lease_until <= ?){but}"
_VOID_LEASES: Final = "UPDATE tasks SET holder = NULL, lease_until = 0 WHERE holder IS NOT NULL"
# Those that began to wait after GIVING was locked; for one that somebody else has locked it is begun again.
_WAITING: Final = f"""SELECT task_id, {ENTRY_COLUMNS} FROM tasks WHERE waiting_for = ?
    ORDER BY task_id /* FOR UPDATE NOWAIT */"""
# Before anything else is locked, in the order in which everybody locks tasks. Not three conditions with OR: for these
# SQLite reads all tasks.
_WAKING: Final = f"""SELECT task_id, {ENTRY_COLUMNS} FROM tasks WHERE task_id IN (/*ARRAY(*/
    SELECT task_id FROM tasks WHERE waiting_for IN ({{computers}})
    UNION ALL SELECT task_id FROM tasks WHERE holder IS NOT NULL AND woken = 0
    UNION ALL SELECT task_id FROM tasks WHERE task_id IN ({{tasks}})
    /*)*/) ORDER BY task_id /* FOR UPDATE */"""
# A task that waits for a claim of another one is woken when that one gives it back.
_WAITED_FOR: Final = """SELECT DISTINCT waiting_for FROM tasks WHERE waiting_for IS NOT NULL AND holder IS NULL
    AND NOT EXISTS (SELECT 1 FROM computers WHERE computer = tasks.waiting_for AND task <> tasks.task_id)
    ORDER BY waiting_for"""
_LOCK_GIVING: Final = f"SELECT task_id FROM tasks WHERE {GIVING}"
# A task that is leased only now, in a transaction that is not committed, looks for the computer after that.
_NOTE_WAKE: Final = """UPDATE tasks SET woken = 1 WHERE task_id IN (SELECT task_id FROM tasks
    WHERE holder IS NOT NULL AND woken = 0 ORDER BY task_id /* FOR UPDATE SKIP LOCKED */)"""
_CLAIMANT: Final = "SELECT task FROM computers WHERE computer = ?"
_LOCK_CLAIM: Final = f"{_CLAIMANT} /* FOR UPDATE */"
_CLAIMANTS: Final = "SELECT task FROM computers WHERE task IS NOT NULL AND computer IN ({})"
_CLAIMED_BY: Final = "SELECT computer FROM computers WHERE task = ? ORDER BY computer /* FOR UPDATE */"
_SET_CLAIM: Final = "UPDATE computers SET task = ? WHERE computer = ?"


# Theory. Fair queueing by start times: a turn of a user starts when their last one ended, but never before the
# latest start of any, so that nobody saves turns up by being idle. The turn that starts first is next, and it lasts
# the longer the less weight the user has. One row for each user: two nodes that lease for two users do not meet.


def lease(
    holder: str, lease_s: float, but: Collection[TaskId] = (), turns: Turns = ANYBODY, here: Here = None, *, now: int
) -> Script[Lease | None]:
    """The port's ``lease``."""
    term, names = _without("task_id", but)
    rows = yield _WAITING_USERS.format(but=term), (now, now, *names)
    waiting = [(min(max(ends, latest), latest + _LONGEST_TURN), due, text(user)) for user, due, ends, latest in rows]
    for start, _, user in sorted(one for one in waiting if one[2] not in turns.frozen):
        if not (yield from _has_room(user, turns.at_once.get(user, 0), now)):
            continue
        if here is None:
            found = yield _DUE.format(columns=ENTRY_COLUMNS, but=term), (user, now, now, *names)
        else:
            found = yield from _near(here, (user, now, now, *names), term, now)
        if found:
            task_id, *columns = found[0]
            entry = leased(Entry._make(columns), holder, now, seconds_to_us(lease_s))
            yield from set_entry(TaskId(task_id), entry)
            yield _SET_TURN, (user, start, start + int(_TURN / turns.weights.get(user, 1.0)))
            return Lease(TaskId(task_id), Token(entry.token))
    return None


def _near(here: Callable[[ComputerId], bool], whose: tuple[Cell, ...], term: str, now: int) -> Script[Rows]:
    """The due task of a user that a node is to take, locked; empty: none, or other nodes take them just now."""
    for task_id in near_first((yield _FIRST_DUE.format(but=term), whose), here, now):
        if found := (yield _STILL_DUE, (task_id, now, now)):
            return found
    return []


def _has_room(user: str, at_once: int, now: int) -> Script[bool]:
    """Whether one more task of a user may be held; locked for the transaction, so that nobody else asks meanwhile."""
    if not at_once:
        return True
    yield _KNOW_USER, (user,)
    if not (yield _LOCK_USER, (user,)):
        return False
    rows = yield _HELD_OF, (now, user)
    return int(rows[0][0]) < at_once


def renew(lease: Lease, lease_s: float, *, now: int) -> Script[None]:
    """The port's ``renew``."""
    head = yield from _held(lease)
    yield from set_entry(lease.task_id, renewed(head.entry._replace(lease_for=seconds_to_us(lease_s)), now))


def park(
    lease: Lease,
    version: int,
    *,
    due: datetime | None,
    waiting_for: ComputerId | None,
    keep: Collection[ComputerId] | None,
    now: int,
) -> Script[bool]:
    """The port's ``park``."""
    if keep is not None:
        yield from lock_giving(lease.task_id)
    head = yield from _held(lease)
    if head.version != version:
        raise sealing.moved_on(lease.task_id, head.version, version)
    # Before the task itself waits for one of them: it must not wake itself.
    parked = 0 if keep is None else (yield from _give_back(lease.task_id, keep, now))
    due_us = None if due is None else to_us(due)
    yield from set_entry(lease.task_id, given_back(head.entry, now, due_us, waiting_for))
    return parked > 0 or bool(head.entry.woken)


def pass_by(lease: Lease, *, now: int) -> Script[None]:
    """The port's ``pass_by``."""
    head = yield from _held(lease)
    yield from set_entry(lease.task_id, given_back(head.entry, now, head.entry.due))


def wake(task_id: TaskId, *, now: int) -> Script[None]:
    """The port's ``wake``; of a task that is not there, nothing."""
    head = yield from head_of(task_id)
    if head is not None:
        yield from set_entry(task_id, awakened(head.entry, now))


def wake_waiting(computers: Collection[ComputerId], *, claimants: bool, now: int) -> Script[int]:
    """The port's ``wake_waiting``.

    A holder may just be about to park for one of the computers, so every held task is noted as woken
    too: it costs each at most one look in vain, and computers come back seldom.
    """
    places, names = _few_lengths(computers)
    claiming = {TaskId(row[0]) for row in (yield _CLAIMANTS.format(places), names)} if claimants else set()
    tasks, task_ids = _few_lengths(claiming)
    rows = yield _WAKING.format(computers=places, tasks=tasks), (*names, *task_ids)
    parked, awaited = 0, frozenset(computers)
    for row in rows:
        task_id, entry = TaskId(row[0]), Entry._make(row[1:])
        if task_id in claiming or entry.waiting_for in awaited:
            parked += entry.holder is None
            yield from set_entry(task_id, awakened(entry, now))
    yield _NOTE_WAKE, ()
    return parked


def waited_for() -> Script[list[ComputerId]]:
    """The port's ``waited_for``."""
    return [ComputerId(text(row[0])) for row in (yield _WAITED_FOR, ())]


def claim(lease: Lease, computers: Sequence[ComputerId]) -> Script[ComputerId | None]:
    """The port's ``claim``."""
    head = yield from _held(lease)
    wanted = sorted(set(computers))
    blocked = None
    for computer in wanted:
        yield from know_computer(computer)
        rows = yield _LOCK_CLAIM, (computer,)
        if rows[0][0] not in {None, lease.task_id}:
            blocked = computer
            break
    if blocked is None:
        for computer in wanted:
            yield _SET_CLAIM, (lease.task_id, computer)
    if head.entry.waiting_for != blocked:
        yield from set_entry(lease.task_id, head.entry._replace(waiting_for=blocked))
    return blocked


def append(wanted: Append, now: int) -> Script[list[AgentTaskItem]]:
    """The port's ``append``."""
    items = yield from sql.append(wanted, now=now)
    if wanted.release and wanted.token is not None:
        parked = yield from _give_back(wanted.task_id, (), now)
        if parked and wanted.woke is not None:
            wanted.woke()
    return items


def lock_giving(task_id: TaskId) -> Script[None]:
    """Lock a task that is about to give back its claims, and whom that wakes."""
    yield _LOCK_GIVING, (task_id, task_id)


def give_back_all(task_id: TaskId, *, now: int) -> Script[None]:
    """Free all that a task has claimed, for one that goes away."""
    yield from _give_back(task_id, (), now)


def claimant(computer: ComputerId) -> Script[TaskId | None]:
    """The port's ``claimant``."""
    rows = yield _CLAIMANT, (computer,)
    return TaskId(rows[0][0]) if rows and rows[0][0] is not None else None


def next_due(but: Collection[TaskId] = (), frozen: Collection[str] = (), *, now: int) -> Script[datetime | None]:
    """The port's ``next_due``."""
    (these, ids), (theirs, users) = _without("task_id", but), _without("user_id", frozen)
    term, names = these + theirs, ids + users
    rows = yield _NEXT_DUE.format(but=term), (now, *names)
    return None if rows[0][0] is None else from_us(rows[0][0])


def allot_number(computer: ComputerId, *, at_least: int, count: int, lease: Lease | None, heard: Heard) -> Script[int]:
    """The port's ``allot_number``."""
    if lease is not None:
        yield from _held(lease)
    return (yield from next_number(computer, at_least + count - 1, heard, count)) - count + 1


def void_leases() -> Script[None]:
    """Free every held task: for a store whose holders all died with its former process."""
    yield _VOID_LEASES, ()


def _without(column: str, values: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """What leaves out some values, and its parameters."""
    if not values:
        return "", ()
    places, names = _few_lengths(values)
    return f" AND {column} NOT IN ({places})", names


def _few_lengths(values: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """The places of a list and its parameters; of few lengths, so that few statements are made ready."""
    if not values:
        return "NULL", ()  # which nothing equals
    names = (*values, *[next(iter(values))] * ((1 << (len(values) - 1).bit_length()) - len(values)))
    return ", ".join("?" * len(names)), names


def _held(lease: Lease) -> Script[Head]:
    """The head of a task whose lease this is. Raises LeaseLost."""
    head = yield from head_of(lease.task_id)
    if head is None or not holds(head.entry, lease.token):
        raise sealing.lease_lost(lease.task_id)
    return head


def _give_back(task_id: TaskId, keep: Collection[ComputerId], now: int) -> Script[int]:
    """Free what the task has claimed, except for ``keep``, and wake who waits for it; how many of them had parked."""
    parked = 0
    rows = yield _CLAIMED_BY, (task_id,)
    for (computer,) in rows:
        if computer not in keep:
            yield _SET_CLAIM, (None, computer)
            waiting = yield _WAITING, (computer,)
            parked += yield from _woken(computer, [(TaskId(row[0]), Entry._make(row[1:])) for row in waiting], now)
    return parked


def _woken(computer: ComputerId, entries: Sequence[tuple[TaskId, Entry]], now: int) -> Script[int]:
    """Wake those of the locked entries that wait for the computer; how many of them had parked."""
    parked = 0
    for task_id, entry in entries:
        if entry.waiting_for == computer:
            parked += entry.holder is None
            yield from set_entry(task_id, awakened(entry, now))
    return parked
