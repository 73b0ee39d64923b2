"""What is kept for long and what goes, in SQL (see ``sql``): marks of blobs, pruned tasks, backups.

A blob that has no mark was put there by nobody who goes through this: it is never swept.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import grant_rules as granting
from orchestrator.adapters.store import sql, sql_kept, sql_queue, sql_system
from orchestrator.adapters.store.script import Script, text
from orchestrator.core.audit.kept import files_listed
from orchestrator.core.audit.retention import referred
from orchestrator.core.ports import BackupRow, BlobMark
from orchestrator.core.task.facts import TaskId, TaskSubmitted
from orchestrator.core.task.items import Draft, decode_item
from orchestrator.core.task.system_facts import ComputerBackedUp
from orchestrator.core.timestamps import from_us, to_us
from orchestrator.core.wire.wire import ComputerId

_TOUCH: Final = "UPDATE blob_marks SET touched = ? WHERE sha256 = ?"
_MARKS: Final = "SELECT sha256, size, lists, touched FROM blob_marks {} ORDER BY sha256 LIMIT ?"
_OLD: Final = "SELECT size FROM blob_marks WHERE sha256 = ? AND touched <= ? /* FOR UPDATE */"
_SWEEP: Final = ("DELETE FROM blobs WHERE sha256 = ?", "DELETE FROM blob_marks WHERE sha256 = ?")
_PINNED: Final = "SELECT pinned FROM tasks WHERE task_id = ?"
_GIVEN: Final = "SELECT data, uses, revoked FROM grants WHERE task_id = ? /* FOR UPDATE */"
_REFERRING: Final = """SELECT items.data FROM items JOIN tasks ON items.task_id = tasks.task_id
    WHERE items.version = 1 AND (tasks.status IN ('Queued', 'Running', 'Paused') OR tasks.pinned = 1)
    AND tasks.task_id <> ? AND items.data LIKE ?"""
_PRUNE: Final = tuple(f"DELETE FROM {table} WHERE task_id = ?" for table in ("items", "requests", "grants", "tasks"))
_BURY: Final = "INSERT INTO pruned (task_id, pruned_at) VALUES (?, ?)"
_PRUNED: Final = "SELECT pruned_at FROM pruned WHERE task_id = ?"
_BACKUP: Final = "SELECT data FROM backups WHERE backup_id = ?"
_LOCKED_BACKUP: Final = f"{_BACKUP} /* FOR UPDATE */"
_ADD_BACKUP: Final = "INSERT INTO backups (backup_id, computer, made_at, made_by, data) VALUES (?, ?, ?, ?, ?)"
_REMOVE_BACKUP: Final = "DELETE FROM backups WHERE backup_id = ?"
_BACKUPS: Final = "SELECT data, made_by, made_at FROM backups {} ORDER BY made_at DESC, backup_id DESC"


def touch_blobs(names: Sequence[str], *, now: int) -> Script[dict[str, int]]:
    """The port's ``touch_blobs``."""
    # Touched before it is looked which are there: a sweep that had one in hand is over then.
    for name in sorted(set(names)):
        yield _TOUCH, (now, name)
    return (yield from sql_kept.blob_sizes(names))


def list_blobs(after: str | None, limit: int) -> Script[list[BlobMark]]:
    """The port's ``list_blobs``."""
    where = "" if after is None else "WHERE sha256 > ?"
    rows = yield _MARKS.format(where), (limit,) if after is None else (after, limit)
    return [BlobMark(sha256, size, bool(lists), from_us(touched)) for sha256, size, lists, touched in rows]


def sweep_blobs(names: Sequence[str], before: datetime) -> Script[dict[str, int]]:
    """The port's ``sweep_blobs``."""
    swept: dict[str, int] = {}
    for name in sorted(set(names)):
        rows = yield _OLD, (name, to_us(before))
        if rows:
            swept[name] = int(rows[0][0])
            for statement in _SWEEP:
                yield statement, (name,)
    return swept


def prune_task(note: Draft, *, now: int) -> Script[bool]:
    """The port's ``prune_task``."""
    fact = sealing.pruning(note)
    task_id = TaskId(fact.task_id)
    yield from sql_queue.lock_giving(task_id)
    head = yield from sql.head_of(task_id)
    if head is None or (head.version, head.head_hash) != (fact.version, fact.head_hash):
        return False
    pinned = bool((yield _PINNED, (task_id,))[0][0])
    if not sealing.is_at_rest(head.status, head.entry, pinned=pinned):
        return False
    given = [granting.decode_grant(*row) for row in (yield _GIVEN, (task_id,))]
    if any(granting.outlives_its_task(one, now) for one in given) or (yield from _is_referred_to(task_id)):
        return False
    yield from sql_queue.give_back_all(task_id, now=now)
    for statement in _PRUNE:
        yield statement, (task_id,)
    yield _BURY, (task_id, now)
    yield from sql_system.noted(note, now)
    return True


def _is_referred_to(task_id: TaskId) -> Script[bool]:
    rows = yield _REFERRING, (task_id, f"%{task_id}%")
    firsts = (decode_item(data).fact for (data,) in rows)
    return any(task_id in referred(one) for one in firsts if isinstance(one, TaskSubmitted))


def pruned_at(task_id: TaskId) -> Script[datetime | None]:
    """The port's ``pruned_at``."""
    rows = yield _PRUNED, (task_id,)
    return from_us(rows[0][0]) if rows else None


def add_backup(note: Draft, *, now: int) -> Script[None]:
    """The port's ``add_backup``."""
    fact = sealing.backing_up(note)
    data = fact.model_dump_json()
    stored = yield _BACKUP, (fact.backup_id,)
    if stored:
        sealing.check_same_backup(stored[0][0], data)
        return
    there = yield from touch_blobs([fact.listing], now=now)
    needed = files_listed((yield from sql.get_blob(fact.listing))) if there else []
    there |= yield from touch_blobs(needed, now=now)
    if len(there) < len({fact.listing, *needed}):
        raise sealing.no_longer_kept()
    yield _ADD_BACKUP, (fact.backup_id, fact.computer, to_us(note.at), note.actor.id, data)
    yield from sql_system.noted(note, now)


def remove_backup(note: Draft, *, now: int) -> Script[bool]:
    """The port's ``remove_backup``."""
    fact = sealing.removing_backup(note)
    if not (yield _LOCKED_BACKUP, (fact.backup_id,)):
        return False
    yield _REMOVE_BACKUP, (fact.backup_id,)
    yield from sql_system.noted(note, now)
    return True


def list_backups(computer: ComputerId | None) -> Script[list[BackupRow]]:
    """The port's ``list_backups``."""
    where = "" if computer is None else "WHERE computer = ?"
    rows = yield _BACKUPS.format(where), () if computer is None else (computer,)
    return [
        BackupRow(ComputerBackedUp.model_validate_json(data, extra="ignore"), text(by), from_us(at))
        for data, by, at in rows
    ]
