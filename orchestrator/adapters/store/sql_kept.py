"""What is kept, as it is kept, in SQL (see ``sql``): pages for an audit, which decodes and judges for itself."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from orchestrator.adapters.store.script import Script
from orchestrator.core.audit.retention import LISTS
from orchestrator.core.ports import KeptBlob, KeptItem, KeptRow, KeptTable

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
    "backups": ("backup_id", "computer", "made_at", "made_by", "data"),
    "pruned": ("task_id", "pruned_at"),
    "sign_ins": ("session_hash", "token_hash", "name", "begun_at", "used_at"),
    "policies": ("name", "version", "sha256", "source", "loaded_at", "loaded_by", "judged"),
    "agreed": ("name", "value"),
    "duties": ("name", "holder", "until"),
    "blob_marks": ("sha256", "size", "lists", "touched"),
}
"""The columns that are told of each table, the key first; of items, how many each stream has."""

_ITEMS: Final = "SELECT version, item_id, data FROM items WHERE task_id = ? AND version > ? ORDER BY version LIMIT ?"
_COUNTED: Final = """SELECT task_id, COUNT(*), MAX(version) FROM items {} GROUP BY task_id ORDER BY task_id LIMIT ?"""
_TASK: Final = f"SELECT {', '.join(COLUMNS['tasks'])} FROM tasks WHERE task_id = ?"
_BLOBS: Final = "SELECT sha256 FROM blobs WHERE sha256 > ? ORDER BY sha256 LIMIT ?"
_BLOB: Final = "SELECT content FROM blobs WHERE sha256 = ?"
_SIZES: Final = "SELECT sha256, LENGTH(content) FROM blobs WHERE sha256 IN ({})"
_RAISED: Final = "SELECT request_id, task_id FROM requests WHERE request_id IN ({})"
_MOST_NAMES: Final = 500
"""Of one statement: below the 999 parameters that an old SQLite takes."""


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
