"""The queue in SQL: leases, wakes and claims as transaction scripts (see ``sql``).

A claim that is blocked, and a park, write ``waiting_for``; giving a computer back wakes by it.
A holder whose claim was blocked and who parks only then is woken all the same: the release
in between has left ``woken`` on its entry.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql
from orchestrator.adapters.store.entry import Entry, awakened, given_back, holds, leased, renewed, seconds_to_us
from orchestrator.adapters.store.script import Script
from orchestrator.adapters.store.sql import ENTRY_COLUMNS, Append, Head, head_of, know_computer, next_number, set_entry
from orchestrator.core.ports import Lease, Token
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.values import from_us, to_us
from orchestrator.core.wire.identity import Heard
from orchestrator.core.wire.wire import ComputerId

_DUE: Final = """SELECT task_id, {columns} FROM tasks
    WHERE due <= ? AND (holder IS NULL OR lease_until <= ?){but}
    ORDER BY priority DESC, due, task_id LIMIT 1 /* FOR UPDATE SKIP LOCKED */"""
_NEXT_DUE: Final = "SELECT MIN(due) FROM tasks WHERE due IS NOT NULL AND (holder IS NULL OR lease_until <= ?){but}"
_VOID_LEASES: Final = "UPDATE tasks SET holder = NULL, lease_until = 0 WHERE holder IS NOT NULL"
# Those that began to wait after _LOCK_GIVING; for one that somebody else has locked it is begun again.
_WAITING: Final = f"""SELECT task_id, {ENTRY_COLUMNS} FROM tasks WHERE waiting_for = ?
    ORDER BY task_id /* FOR UPDATE NOWAIT */"""
# Both before anything else is locked, in the order in which everybody locks tasks.
_WAKING: Final = f"""SELECT task_id, {ENTRY_COLUMNS} FROM tasks
    WHERE waiting_for = ? OR (holder IS NOT NULL AND woken = 0)
    ORDER BY task_id /* FOR UPDATE */"""
_LOCK_GIVING: Final = """SELECT task_id FROM tasks
    WHERE task_id = ? OR waiting_for IN (SELECT computer FROM computers WHERE task = ?)
    ORDER BY task_id /* FOR UPDATE */"""
# Who is leased only now, and by somebody who has not committed it, looks for the computer after that.
_NOTE_WAKE: Final = """UPDATE tasks SET woken = 1 WHERE task_id IN (SELECT task_id FROM tasks
    WHERE holder IS NOT NULL AND woken = 0 ORDER BY task_id /* FOR UPDATE SKIP LOCKED */)"""
_CLAIMANT: Final = "SELECT task FROM computers WHERE computer = ?"
_LOCK_CLAIM: Final = f"{_CLAIMANT} /* FOR UPDATE */"
_CLAIMED_BY: Final = "SELECT computer FROM computers WHERE task = ? ORDER BY computer /* FOR UPDATE */"
_SET_CLAIM: Final = "UPDATE computers SET task = ? WHERE computer = ?"


def lease(holder: str, lease_s: float, but: Collection[TaskId] = (), *, now: int) -> Script[Lease | None]:
    """The port's ``lease``."""
    term, names = _but(but)
    rows = yield _DUE.format(columns=ENTRY_COLUMNS, but=term), (now, now, *names)
    if not rows:
        return None
    task_id, *columns = rows[0]
    entry = leased(Entry._make(columns), holder, now, seconds_to_us(lease_s))
    yield from set_entry(TaskId(task_id), entry)
    return Lease(TaskId(task_id), Token(entry.token))


def renew(lease: Lease, lease_s: float, *, now: int) -> Script[None]:
    """The port's ``renew``."""
    head = yield from _held(lease)
    yield from set_entry(lease.task_id, renewed(head.entry._replace(lease_for=seconds_to_us(lease_s)), now))


def park(lease: Lease, version: int, *, due: datetime | None, waiting_for: ComputerId | None, now: int) -> Script[None]:
    """The port's ``park``."""
    head = yield from _held(lease)
    if head.version != version:
        raise sealing.moved_on(lease.task_id, head.version, version)
    due_us = None if due is None else to_us(due)
    yield from set_entry(lease.task_id, given_back(head.entry, now, due_us, waiting_for))


def pass_by(lease: Lease, *, now: int) -> Script[None]:
    """The port's ``pass_by``."""
    head = yield from _held(lease)
    yield from set_entry(lease.task_id, given_back(head.entry, now, head.entry.due))


def wake(task_id: TaskId, *, now: int) -> Script[None]:
    """The port's ``wake``; of a task that is not there, nothing."""
    head = yield from head_of(task_id)
    if head is not None:
        yield from set_entry(task_id, awakened(head.entry, now))


def wake_waiting(computer: ComputerId, *, now: int) -> Script[int]:
    """The port's ``wake_waiting``.

    A holder may just be about to park for this computer, so every held task is noted as woken
    too: it costs each at most one look in vain, and computers come back seldom.
    """
    rows = yield _WAKING, (computer,)
    waiting = [(TaskId(row[0]), Entry._make(row[1:])) for row in rows]
    parked = yield from _woken(computer, waiting, now)
    yield _NOTE_WAKE, ()
    return parked


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
    if wanted.release:
        yield from lock_giving(wanted.task_id)
    items = yield from sql.append(wanted, now=now)
    if wanted.release and wanted.token is not None:
        yield from _give_back(wanted.task_id, (), now)
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


def release_claims(lease: Lease, keep: Sequence[ComputerId], *, now: int) -> Script[None]:
    """The port's ``release_claims``."""
    yield from lock_giving(lease.task_id)
    yield from _held(lease)
    yield from _give_back(lease.task_id, keep, now)


def next_due(but: Collection[TaskId] = (), *, now: int) -> Script[datetime | None]:
    """The port's ``next_due``."""
    term, names = _but(but)
    rows = yield _NEXT_DUE.format(but=term), (now, *names)
    return None if rows[0][0] is None else from_us(rows[0][0])


def allot_number(computer: ComputerId, *, at_least: int, lease: Lease | None, heard: Heard) -> Script[int]:
    """The port's ``allot_number``."""
    if lease is not None:
        yield from _held(lease)
    return (yield from next_number(computer, at_least, heard))


def void_leases() -> Script[None]:
    """Free every held task: for a store whose holders all died with its former process."""
    yield _VOID_LEASES, ()


def _but(tasks: Collection[TaskId]) -> tuple[str, tuple[TaskId, ...]]:
    """What leaves out some tasks, and its parameters; in few lengths, so that few statements are made ready."""
    if not tasks:
        return "", ()
    names = (*tasks, *[next(iter(tasks))] * ((1 << (len(tasks) - 1).bit_length()) - len(tasks)))
    return f" AND task_id NOT IN ({', '.join('?' * len(names))})", names


def _held(lease: Lease) -> Script[Head]:
    """The head of a task whose lease this is. Raises LeaseLost."""
    head = yield from head_of(lease.task_id)
    if head is None or not holds(head.entry, lease.token):
        raise sealing.lease_lost(lease.task_id)
    return head


def _give_back(task_id: TaskId, keep: Sequence[ComputerId], now: int) -> Script[None]:
    """Free what the task has claimed, but for ``keep``, and wake who waits for it."""
    rows = yield _CLAIMED_BY, (task_id,)
    for (computer,) in rows:
        if computer not in keep:
            yield _SET_CLAIM, (None, computer)
            waiting = yield _WAITING, (computer,)
            yield from _woken(computer, [(TaskId(row[0]), Entry._make(row[1:])) for row in waiting], now)


def _woken(computer: ComputerId, entries: Sequence[tuple[TaskId, Entry]], now: int) -> Script[int]:
    """Wake those of the locked entries that wait for the computer; how many of them had parked."""
    parked = 0
    for task_id, entry in entries:
        if entry.waiting_for == computer:
            parked += entry.holder is None
            yield from set_entry(task_id, awakened(entry, now))
    return parked
