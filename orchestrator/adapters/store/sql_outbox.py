"""The outbox in SQL, as transaction scripts (see ``sql``): what people are still to be told.

A row is written with its item, where there is any rule. What becomes of it is written with the state that it had
before, so that two nodes never begin the same attempt.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from orchestrator.adapters.store.script import Script
from orchestrator.core.approval.notices import notable
from orchestrator.core.audit.shared import odd_notice
from orchestrator.core.ports import NoticeRow
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.values import from_us, to_us

_NAMES: Final = (
    *("notice", "stream", "version", "kind", "rule", "state", "made_at", "due", "attempts", "batch", "why"),
)
_COLUMNS: Final = ", ".join(_NAMES)
_ADD: Final = f"INSERT INTO outbox ({_COLUMNS}) VALUES ({', '.join('?' * len(_NAMES))})"
_ANY_RULE: Final = "SELECT 1 FROM directory WHERE entry >= 'notify ' AND entry < 'notify!' LIMIT 1"
_DUE: Final = f"""SELECT {_COLUMNS} FROM outbox WHERE due IS NOT NULL AND due <= ?
    ORDER BY due, notice LIMIT ?"""
_LIST: Final = f"SELECT {_COLUMNS} FROM outbox ORDER BY made_at DESC, notice DESC LIMIT ?"
_LOCKED: Final = "SELECT state, attempts FROM outbox WHERE notice = ? /* FOR UPDATE */"
_REMOVE: Final = "DELETE FROM outbox WHERE notice = ?"
_OLD: Final = "(state = 'sent' AND made_at < ?) OR (state = 'dead' AND made_at < ?)"
_COUNT_OLD: Final = f"SELECT COUNT(*) FROM outbox WHERE {_OLD}"
_FORGET: Final = f"DELETE FROM outbox WHERE {_OLD}"


def noticed(items: Sequence[AgentTaskItem], *, now: int) -> Script[None]:
    """A row for each of these new items that people can be told of; none where no rule tells anybody."""
    told = [(item, kind) for item in items if (kind := notable(item.fact)) is not None]
    if told and (yield _ANY_RULE, ()):
        for item, kind in told:
            yield from _add(NoticeRow(item.task_id, item.version, kind, item.at, due=from_us(now)))


def due_notices(limit: int, *, now: int) -> Script[list[NoticeRow]]:
    """The port's ``due_notices``."""
    return _read((yield _DUE, (now, limit)), now)


def list_notices(limit: int, *, now: int) -> Script[list[NoticeRow]]:
    """The port's ``list_notices``."""
    return _read((yield _LIST, (limit,)), now)


def replace_notices(before: Sequence[NoticeRow], after: Sequence[NoticeRow]) -> Script[bool]:
    """The port's ``replace_notices``."""
    for one in sorted(before, key=lambda row: row.notice):
        rows = yield _LOCKED, (one.notice,)
        if not rows or tuple(rows[0]) != (one.state, one.attempts):
            return False
    for one in before:
        yield _REMOVE, (one.notice,)
    for one in after:
        yield from _add(one)
    return True


def forget_notices(sent: datetime, dead: datetime) -> Script[int]:
    """The port's ``forget_notices``."""
    before = to_us(sent), to_us(dead)
    rows = yield _COUNT_OLD, before
    if rows[0][0]:
        yield _FORGET, before
    return int(rows[0][0])


def _add(row: NoticeRow) -> Script[None]:
    times = to_us(row.made_at), None if row.due is None else to_us(row.due)
    about = (row.notice, row.stream, row.version, row.kind, row.rule, row.state)
    yield _ADD, (*about, *times, row.attempts, row.batch, row.why)


def _read(rows: Iterable[Sequence[Any]], now: int) -> list[NoticeRow]:
    found = [dict(zip(_NAMES, row, strict=True)) for row in rows]
    return [_row(**one) for one in found if not odd_notice(one, now)]


def _row(*, notice: str, made_at: int, due: int | None, batch: Any, why: Any, **same: Any) -> NoticeRow:
    del notice
    times = {"made_at": from_us(made_at), "due": None if due is None else from_us(due)}
    return NoticeRow(**same, **times, batch=str(batch), why=str(why))  # type: ignore[arg-type]
