"""Lists of tasks in SQL (see ``sql``), page by page: each begins where the last one ended, and costs what it shows.

Theory. For one user or for all an index has each list in its order. For several users it has one list each, and those
are merged row by row: no more is read than what is shown. Conditions on several users at once (``IN``) would have all
tasks of theirs read and sorted. SQLite merges by itself; PostgreSQL would read all tasks of all lists and sort them,
unless each list says itself how long it is at most.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Final

from orchestrator.adapters.store.script import Rows, Script, text, whole
from orchestrator.adapters.store.sql_system import head_row
from orchestrator.core.ports import StreamHead, TaskRow
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.values import ComputerId, from_us, to_us

_ROW: Final = """SELECT task_id, status, version, user_id, session_id, prompt, created_at, updated_at, computers,
    pinned FROM tasks"""
_CREATED, _UPDATED = 6, 7
"""Where these columns are in a row."""
_HEADS: Final = "SELECT task_id, version, head_hash FROM tasks"
_STREAM_HEADS: Final = "SELECT stream, version, head_hash FROM streams WHERE stream >= ?"
_UNION: Final = " UNION ALL "
_MERGED: Final = 50
"""Lists that are merged in one statement, below the 500 parts and the 999 parameters that an old SQLite takes."""

Wanted = Mapping[str, tuple[str | int, ...]]
"""Conditions, and the parameters of each."""


def list_tasks(
    status: TaskStatus | None,
    session_id: str | None,
    users: Collection[str] | None,
    before: tuple[datetime, TaskId] | None,
    limit: int,
) -> Script[list[TaskRow]]:
    """The port's ``list_tasks``."""
    wanted: dict[str, tuple[str | int, ...]] = {}
    # A session is short: its list is read, and not that of the status or of a user.
    than = "" if session_id is None else " || ''"
    if session_id is not None:
        wanted["session_id = ?"] = (session_id,)
    if status is not None:
        wanted[f"status{than} = ?"] = (status.value,)
    if session_id is not None and users is not None:
        # PostgreSQL takes no empty list; nothing equals NULL.
        wanted[f"user_id{than} IN ({', '.join('?' * len(users)) or 'NULL'})"] = tuple(users)
        users = None
    if before is not None:
        wanted["(created_at, task_id) < (?, ?)"] = (to_us(before[0]), before[1])
    rows = yield from _merged(_ROW, wanted, users, "created_at DESC, task_id DESC", limit)
    for row in rows:
        # The pages of the audit, which read by ``last_changed``, show a task also beside a version that is not a
        # number.
        whole(row[2])
    return [_task_row(*row) for row in _first(rows, _CREATED, users, limit)]


def last_changed(
    limit: int, before: tuple[datetime, TaskId] | None, begun: datetime | None, users: Collection[str] | None
) -> Script[list[TaskRow]]:
    """The port's ``last_changed``."""
    wanted: dict[str, tuple[str | int, ...]] = {}
    if before is not None:
        wanted["(updated_at, task_id) < (?, ?)"] = (to_us(before[0]), before[1])
    if begun is not None:
        wanted["created_at <= ?"] = (to_us(begun),)
    rows = yield from _merged(_ROW, wanted, users, "updated_at DESC, task_id DESC", limit)
    return [_task_row(*row) for row in _first(rows, _UPDATED, users, limit)]


def heads_from(name: str, limit: int, users: Collection[str] | None) -> Script[list[StreamHead]]:
    """The port's ``heads_from``."""
    wanted: Wanted = {"task_id >= ?": (name,)}
    if users is None:
        lists = [_part(f"{_HEADS} WHERE task_id >= ?", "task_id", limit), _part(_STREAM_HEADS, "stream", limit)]
        rows = yield f"{_UNION.join(lists)} ORDER BY 1 LIMIT ?", (name, name, limit)
    else:
        rows = yield from _merged(_HEADS, wanted, users, "task_id", limit)
    # SQLite sorts bytes behind each text: without a name to go on from, they would be on each page for ever.
    found = [head_row(*row) for row in rows if isinstance(row[0], str)]
    return found if users is None else sorted(found, key=lambda head: head.stream)[:limit]


def _merged(select: str, wanted: Wanted, users: Collection[str] | None, order: str, limit: int) -> Script[Rows]:
    """The first rows by an order, of these users (None: of all); for many users, of some users at a time."""
    found: Rows = []
    for some in _parts(users):
        lists = [{"user_id = ?": (user,), **wanted} for user in some] if some is not None else [wanted]
        parts = [f"{select}{_where(one)}" for one in lists]
        merged = _UNION.join(_part(one, order, limit) for one in parts) if len(parts) > 1 else parts[0]
        parameters = chain.from_iterable(chain.from_iterable(one.values()) for one in lists)
        found += yield f"{merged} ORDER BY {order} LIMIT ?", (*parameters, limit)
    return found


def _part(select: str, order: str, limit: int) -> str:
    """One list of several, for PostgreSQL with its length: a power of two, so that few statements are made ready."""
    return f"/*(*/{select} /*ORDER BY {order} LIMIT {1 << limit.bit_length()})*/"


def _parts(users: Collection[str] | None) -> list[Sequence[str] | None]:
    if users is None:
        return [None]
    names = sorted(users)
    return [names[start : start + _MERGED] for start in range(0, len(names), _MERGED)]


def _where(wanted: Wanted) -> str:
    return f" WHERE {' AND '.join(wanted)}" if wanted else ""


def _first(rows: Rows, column: int, users: Collection[str] | None, limit: int) -> Rows:
    """The first rows, the greatest value and then the greatest id first, where they were read in several parts."""
    if users is None or len(users) <= _MERGED:
        return rows
    return sorted(rows, key=lambda row: (whole(row[column]), text(row[0])), reverse=True)[:limit]


def _task_row(
    task_id: str, status: str, version: int, user_id: str, session_id: str, prompt: str, created_at: int,
    updated_at: int, computers: str, pinned: int,
) -> TaskRow:  # fmt: skip
    return TaskRow(
        task_id=TaskId(text(task_id)),
        status=TaskStatus(status),
        version=version,
        user_id=text(user_id),
        session_id=text(session_id),
        prompt=text(prompt),
        created_at=from_us(created_at),
        updated_at=from_us(updated_at),
        computers=tuple(ComputerId(text(one)) for one in json.loads(computers)),
        pinned=bool(pinned),
    )
