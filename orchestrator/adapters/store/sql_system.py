"""Tables without a task, in SQL (see ``sql``): other streams, the heads of all, tokens and revocations.

A stream's row is locked last, after the rows of whatever is noted in it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, get_args

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql, sql_grants, sql_queue
from orchestrator.adapters.store.script import Script, text
from orchestrator.core.audit.chain import files_listed
from orchestrator.core.audit.retention import LISTS, referred
from orchestrator.core.ports import (
    SYSTEM_STREAM,
    BackupRow,
    BlobMark,
    KeptBlob,
    KeptItem,
    KeptJournal,
    KeptRow,
    KeptTable,
    StreamHead,
    TokenKind,
    TokenRow,
)
from orchestrator.core.task.facts import TaskId, TaskSubmitted
from orchestrator.core.task.items import GENESIS_HASH, AgentTaskItem, Draft, decode_item
from orchestrator.core.task.system_facts import ComputerBackedUp, GrantId
from orchestrator.core.values import ComputerId, from_us, to_us

# -- What belongs to no task, in SQL (see ``sql``): other streams, the heads of all, tokens and revocations

_STREAM: Final = "SELECT version, head_hash FROM streams WHERE stream = ? /* FOR UPDATE */"
_KNOW_STREAM: Final = "INSERT INTO streams (stream, version, head_hash) VALUES (?, 0, ?) ON CONFLICT DO NOTHING"
_SET_STREAM: Final = "UPDATE streams SET version = ?, head_hash = ? WHERE stream = ?"
_HEADS: Final = """SELECT task_id, version, head_hash FROM tasks
    UNION ALL SELECT stream, version, head_hash FROM streams"""
_HEADS_SINCE: Final = """SELECT task_id, version, head_hash FROM tasks WHERE updated_at >= ?
    UNION ALL SELECT stream, version, head_hash FROM streams"""
_TOKEN_KINDS: Final[Mapping[str, TokenKind]] = {kind: kind for kind in get_args(TokenKind)}
_TOKEN_COLUMNS: Final = "token_hash, kind, name, roles, created_at, revoked"
_ADD_TOKEN: Final = f"INSERT INTO tokens ({_TOKEN_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
_FIND_TOKEN: Final = f"SELECT {_TOKEN_COLUMNS} FROM tokens WHERE token_hash = ?"
_LIST_TOKENS: Final = f"SELECT {_TOKEN_COLUMNS} FROM tokens ORDER BY created_at, token_hash"
_TOKENS_OF: Final = f"SELECT {_TOKEN_COLUMNS} FROM tokens WHERE kind = ? AND name = ? ORDER BY created_at, token_hash"
# Locked, so that of two who use up one code at once the second finds nothing left.
_STANDING_TOKENS: Final = "SELECT token_hash FROM tokens WHERE kind = ? AND name = ? AND revoked = 0 /* FOR UPDATE */"
_COUNT_REVOKED: Final = "SELECT COUNT(*) FROM tokens WHERE revoked = 1"
_REVOKE_TOKENS: Final = "UPDATE tokens SET revoked = 1 WHERE kind = ? AND name = ?"


def record(drafts: Sequence[Draft], stream: str, *, now: int) -> Script[list[AgentTaskItem]]:
    """The port's ``record``."""
    sealing.check_drafts(drafts)
    name = TaskId(stream)
    if (yield from sql.head_of(name)) is not None:
        raise sealing.a_task(stream)
    rows = yield _STREAM, (stream,)
    if not rows:
        yield _KNOW_STREAM, (stream, GENESIS_HASH)
        rows = yield _STREAM, (stream,)
    stored = yield from sql.already_there(name, drafts)
    if stored is not None:
        return stored
    version, head_hash = rows[0]
    sealed = sealing.seal_drafts(drafts, task_id=name, version=version, head_hash=head_hash)
    yield from sql.add(name, sealed, drafts, now=now)
    last, _ = sealed[-1]
    yield _SET_STREAM, (last.version, last.hash, stream)
    return [item for item, _ in sealed]


def heads() -> Script[list[StreamHead]]:
    """The port's ``heads``."""
    rows = yield _HEADS, ()
    return sealing.by_stream(head_row(*row) for row in rows)


def heads_since(at: datetime) -> Script[list[StreamHead]]:
    """The port's ``heads_since``."""
    rows = yield _HEADS_SINCE, (to_us(at),)
    return sealing.by_stream(head_row(*row) for row in rows)


def head_row(stream: object, version: object, digest: object) -> StreamHead:
    """A head, also where somebody put something else than text and a number into its row: no item has such a one."""
    return StreamHead(TaskId(str(stream)), version if isinstance(version, int) else -1, str(digest))


def add_token(token: TokenRow, note: Draft | None, *, now: int) -> Script[None]:
    """The port's ``add_token``; a token without a time of creation was created now."""
    if (yield _FIND_TOKEN, (token.token_hash,)):
        raise sealing.token_exists()
    created_at = now if token.created_at is None else to_us(token.created_at)
    roles = json.dumps(token.roles)
    yield _ADD_TOKEN, (token.token_hash, token.kind, token.name, roles, created_at, int(token.revoked))
    yield from noted(sealing.fingerprinted(note, token.token_hash), now)


def find_token(token_hash: str) -> Script[TokenRow | None]:
    """The port's ``find_token``."""
    rows = yield _FIND_TOKEN, (token_hash,)
    return _token_row(*rows[0]) if rows else None


def revoke_tokens(
    kind: str, name: str, note: Draft | None, then: tuple[TokenRow, Draft] | None = None, *, now: int
) -> Script[int]:
    """The port's ``revoke_tokens``; those revoked before are not counted."""
    count = len((yield _STANDING_TOKENS, (kind, name)))
    if count:
        yield _REVOKE_TOKENS, (kind, name)
        yield from noted(sealing.counted(note, count), now)
    if then is not None:
        yield from add_token(*then, now=now)
    return count


def list_tokens() -> Script[list[TokenRow]]:
    """The port's ``list_tokens``."""
    rows = yield _LIST_TOKENS, ()
    return [_token_row(*row) for row in rows]


def tokens_of(kind: str, name: str) -> Script[list[TokenRow]]:
    """The port's ``tokens_of``."""
    rows = yield _TOKENS_OF, (kind, name)
    return [_token_row(*row) for row in rows]


def count_revoked() -> Script[int]:
    """The port's ``count_revoked``."""
    rows = yield _COUNT_REVOKED, ()
    return int(rows[0][0])


def revoke_grant(grant_id: GrantId, note: Draft | None, *, now: int) -> Script[bool]:
    """The port's ``revoke_grant``."""
    revoked = yield from sql_grants.revoke(grant_id)
    if revoked:
        yield from noted(note, now)
    return revoked


def noted(note: Draft | None, now: int) -> Script[None]:
    """Write a note into the system stream; None: there is nothing to write."""
    if note is not None:
        yield from record([note], SYSTEM_STREAM, now=now)


def _token_row(token_hash: str, kind: str, name: str, roles: str, created_at: int, revoked: int) -> TokenRow:
    return TokenRow(
        token_hash=token_hash,
        kind=_TOKEN_KINDS[kind],
        name=text(name),
        roles=tuple(map(text, json.loads(roles))),
        created_at=from_us(created_at),
        revoked=sql_grants.is_revoked(revoked),
    )


# -- What is kept, as it is kept, in SQL (see ``sql``): pages for an audit, which decodes and judges for itself

COLUMNS: Final[Mapping[KeptTable, tuple[str, ...]]] = {
    "tasks": (
        *("task_id", "status", "version", "head_hash", "user_id", "session_id", "prompt", "computers", "priority"),
        *("created_at", "updated_at", "pinned", "due", "holder", "lease_until", "lease_for", "waiting_for"),
    ),
    "grants": (*("grant_id", "task_id", "session_id", "user_id", "data", "expires_at", "max_uses", "uses", "revoked"),),
    "tokens": ("token_hash", "kind", "name", "roles", "created_at", "revoked"),
    "computers": (
        *("computer", "number", "task", "heard", "doubtful_below", "known", "token", "frozen", "frozen_at", "released"),
    ),
    "requests": ("request_id", "task_id"),
    "items": ("task_id", "items", "last"),
    "streams": ("stream", "version", "head_hash"),
    "backups": ("backup_id", "computer", "made_at", "made_by", "data"),
    "pruned": ("task_id", "pruned_at"),
    "sign_ins": ("session_hash", "token_hash", "name", "begun_at", "used_at"),
    "policies": ("name", "version", "sha256", "source", "loaded_at", "loaded_by", "judged"),
    "agreed": ("name", "value"),
    "duties": ("name", "holder", "until"),
    "blob_marks": ("sha256", "size", "lists", "touched"),
    "directory": ("entry", "number", "data"),
    "secrets": ("sha256", "value"),
    "outbox": (
        *("notice", "stream", "version", "kind", "rule", "state", "made_at", "due", "attempts", "batch", "why"),
    ),
}
"""The columns that are told of each table, the key first; of items, how many each stream has."""

_ITEMS: Final = "SELECT version, item_id, data FROM items WHERE task_id = ? AND version > ? ORDER BY version LIMIT ?"
_COUNTED: Final = """SELECT task_id, COUNT(*), MAX(version) FROM items {} GROUP BY task_id ORDER BY task_id LIMIT ?"""
_TASKS: Final = f"SELECT {', '.join(COLUMNS['tasks'])} FROM tasks WHERE task_id IN ({{}}) ORDER BY task_id"
_FIRST_ITEMS: Final = """SELECT task_id, version, item_id, data FROM items WHERE task_id IN ({}) AND version <= ?
    ORDER BY task_id, version"""
_TASK: Final = f"SELECT {', '.join(COLUMNS['tasks'])} FROM tasks WHERE task_id = ?"
_BLOBS: Final = "SELECT sha256 FROM blobs WHERE sha256 > ? ORDER BY sha256 LIMIT ?"
_BLOB: Final = "SELECT content FROM blobs WHERE sha256 = ?"
_SIZES: Final = "SELECT sha256, LENGTH(content) FROM blobs WHERE sha256 IN ({})"
_RAISED: Final = "SELECT request_id, task_id FROM requests WHERE request_id IN ({})"
_MOST_NAMES: Final = 500
"""Names in one statement: below the 999 parameters that an old SQLite takes."""


def kept_items(stream: str, after_version: int, limit: int) -> Script[list[KeptItem]]:
    """The port's ``kept_items``."""
    rows = yield _ITEMS, (stream, after_version, limit)
    # Where somebody put text for a version, it comes behind all numbers.
    return [
        KeptItem(version if isinstance(version, int) else -1, str(item_id), _bytes(data))
        for version, item_id, data in rows
    ]


def kept_rows(table: KeptTable, after: str | None, limit: int) -> Script[list[KeptRow]]:
    """The port's ``kept_rows``."""
    assert table in get_args(KeptTable), "only names of ours go into a statement"
    columns = COLUMNS[table]
    where = f"WHERE {columns[0]} > ?" if after is not None else ""
    if table == "items":
        statement = _COUNTED.format(where)
    else:
        statement = f"SELECT {', '.join(columns)} FROM {table} {where} ORDER BY {columns[0]} LIMIT ?"
    rows = yield statement, (limit,) if after is None else (after, limit)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def kept_task(task_id: str) -> Script[KeptRow | None]:
    """The port's ``kept_task``."""
    rows = yield _TASK, (task_id,)
    return dict(zip(COLUMNS["tasks"], rows[0], strict=True)) if rows else None


def kept_journals(names: Sequence[str], most: int) -> Script[list[KeptJournal]]:
    """The port's ``kept_journals``."""
    found: list[KeptJournal] = []
    for start in range(0, len(names), _MOST_NAMES):
        part = tuple(names[start : start + _MOST_NAMES])
        marks = ", ".join("?" * len(part))
        rows = yield _TASKS.format(marks), part
        items = yield _FIRST_ITEMS.format(marks), (*part, most)
        journals = {str(row[0]): KeptJournal(dict(zip(COLUMNS["tasks"], row, strict=True)), []) for row in rows}
        for task_id, version, item_id, data in items:
            if task_id in journals:
                kept = KeptItem(version if isinstance(version, int) else -1, str(item_id), _bytes(data))
                journals[task_id].items.append(kept)
        found += journals.values()
    return found


def kept_blobs(after: str | None, limit: int) -> Script[list[KeptBlob]]:
    """The port's ``kept_blobs``."""
    # A name that somebody made NULL is behind no other, and so on no page.
    names = yield _BLOBS, ("" if after is None else after, limit)
    found: list[KeptBlob] = []
    for (name,) in names:
        rows = yield _BLOB, (name,)
        content = _bytes(rows[0][0])
        found.append(KeptBlob(name, hashlib.sha256(content).hexdigest(), len(content), LISTS in content))
    return found


def blob_sizes(names: Sequence[str]) -> Script[dict[str, int]]:
    """The port's ``blob_sizes``."""
    return (yield from _looked_up(_SIZES, names))


def raised_by(request_ids: Sequence[str]) -> Script[dict[str, str]]:
    """The port's ``raised_by``."""
    return (yield from _looked_up(_RAISED, request_ids))


def _looked_up(statement: str, names: Sequence[str]) -> Script[dict[str, Any]]:
    found: dict[str, Any] = {}
    for start in range(0, len(names), _MOST_NAMES):
        part = tuple(names[start : start + _MOST_NAMES])
        rows = yield statement.format(", ".join("?" * len(part))), part
        found.update(dict(rows))
    return found


def _bytes(value: Any) -> bytes:
    """A column's bytes, also where somebody put something else than bytes or text into it."""
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else str(value).encode()


# -- What is kept for long and what goes, in SQL (see ``sql``): marks of blobs, pruned tasks, backups
#
# A blob that has no mark was put there by nobody who goes through this: it is never swept.

_TOUCH: Final = "UPDATE blob_marks SET touched = ? WHERE sha256 = ?"
_MARKS: Final = "SELECT sha256, size, lists, touched FROM blob_marks {} ORDER BY sha256 LIMIT ?"
_OLD: Final = "SELECT size FROM blob_marks WHERE sha256 = ? AND touched <= ? /* FOR UPDATE */"
_SWEEP: Final = ("DELETE FROM blobs WHERE sha256 = ?", "DELETE FROM blob_marks WHERE sha256 = ?")
_PINNED: Final = "SELECT pinned FROM tasks WHERE task_id = ?"
_GIVEN: Final = "SELECT data, uses, revoked FROM grants WHERE task_id = ? /* FOR UPDATE */"
_REFERRING_FROM: Final = """SELECT items.data FROM tasks JOIN items ON items.task_id = tasks.task_id
    WHERE items.version = 1 AND tasks.task_id <> ? AND items.data LIKE ? AND tasks."""
# Two parts, each from an index: with OR all tasks would be read.
_REFERRING: Final = f"{_REFERRING_FROM}status IN ('Queued', 'Running', 'Paused') UNION ALL {_REFERRING_FROM}pinned = 1"
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
    return (yield from blob_sizes(names))


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
    given = [sql_grants.decode_grant(*row) for row in (yield _GIVEN, (task_id,))]
    if any(sql_grants.outlives_its_task(one, now) for one in given) or (yield from _is_referred_to(task_id)):
        return False
    yield from sql_queue.give_back_all(task_id, now=now)
    yield from take_out(note, now=now)
    return True


def take_out(note: Draft, *, now: int) -> Script[None]:
    """Remove the task that a ``task_pruned`` names, whose claims were given back, with the note."""
    task_id = sealing.pruning(note).task_id
    for statement in _PRUNE:
        yield statement, (task_id,)
    yield _BURY, (task_id, now)
    yield from noted(note, now)


def _is_referred_to(task_id: TaskId) -> Script[bool]:
    rows = yield _REFERRING, (task_id, f"%{task_id}%") * 2
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
    yield from noted(note, now)


def remove_backup(note: Draft, *, now: int) -> Script[bool]:
    """The port's ``remove_backup``."""
    fact = sealing.removing_backup(note)
    if not (yield _LOCKED_BACKUP, (fact.backup_id,)):
        return False
    yield _REMOVE_BACKUP, (fact.backup_id,)
    yield from noted(note, now)
    return True


def list_backups(computer: ComputerId | None) -> Script[list[BackupRow]]:
    """The port's ``list_backups``."""
    where = "" if computer is None else "WHERE computer = ?"
    rows = yield _BACKUPS.format(where), () if computer is None else (computer,)
    return [
        BackupRow(ComputerBackedUp.model_validate_json(data, extra="ignore"), text(by), from_us(at))
        for data, by, at in rows
    ]
