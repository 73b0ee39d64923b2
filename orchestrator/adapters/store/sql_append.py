"""Many appends as one transaction script: as few statements as one of them alone would take.

What a statement costs is more than what a row does: a call into the database, and with a thread
that executes it a hand-over of the interpreter besides. So the appends that gather while a commit
waits for the disk read their heads together and write their rows together.

Only what goes smoothly is done here: the task is there, the lease is the caller's, the version is
the task's. Anything else is left to be run by itself, before anything is written: the refusals and
the answer to a retry have one text, ``sql.append``. Item ids are not looked up either: one that
is in the journal already breaks the uniqueness of the table, and whoever drives the script then
rolls back and runs each append by itself.
"""

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Final, Protocol

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store.entry import Entry, holds, renewed_until, scheduled
from orchestrator.adapters.store.script import Rows, Script
from orchestrator.adapters.store.sql import ENTRY_COLUMNS, SET_HEAD, SET_STATUS, Append, Head, set_entry
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.values import to_us

_HEADS: Final = f"""SELECT task_id, version, head_hash, status, {ENTRY_COLUMNS} FROM tasks
    WHERE task_id IN ({{}}) ORDER BY task_id /* FOR UPDATE */"""
_ADD_ITEMS: Final = "INSERT INTO items (task_id, version, item_id, data) VALUES {}"
# Both dialects give the columns of VALUES these names; what is compared or set needs a type in one.
_SET_HEADS: Final = """UPDATE tasks SET version = news.column1, head_hash = news.column2, updated_at = news.column3,
    lease_until = news.column4 FROM (VALUES {}) AS news WHERE tasks.task_id = news.column5"""
_ITEM_ROW: Final = "(?, ?, ?, ?)"
_HEAD_ROW: Final = "(CAST(? AS BIGINT), ?, CAST(? AS BIGINT), CAST(? AS BIGINT), ?)"
_MOST_ROWS: Final = 128
"""Of one statement: with five parameters each they stay below the 999 that an old SQLite takes."""

Cell = str | int


def is_plain(wanted: Append) -> bool:
    """Whether an append may go with others, before whatever else is in their transaction.

    It changes nothing but its own task's row and items. It gives no lease back, because a renewal
    that came with it must not find the lease gone.
    """
    if wanted.number_for is not None or wanted.blobs or wanted.claim or wanted.release:
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


@cache
def _text(statement: str, row: str, count: int) -> str:
    return statement.format(", ".join([row] * count))


class InChunks:
    """`Many` by a row of parameters for each row, in parts."""

    def heads(self, task_ids: Sequence[TaskId]) -> Script[Rows]:
        """Each task's head."""
        found: Rows = []
        for part in _chunks(len(task_ids)):
            found += yield _text(_HEADS, "?", part.stop - part.start), tuple(task_ids[part])
        return found

    def write(self, items: Sequence[tuple[Cell, ...]], heads: Sequence[tuple[Cell, ...]]) -> Script[None]:
        """Add items and set heads."""
        yield from self._each(_ADD_ITEMS, _ITEM_ROW, items)
        if len(heads) == 1:
            # A join with a table of one row costs more than the row.
            yield SET_HEAD, heads[0]
        else:
            yield from self._each(_SET_HEADS, _HEAD_ROW, heads)

    def _each(self, statement: str, row: str, rows: Sequence[tuple[Cell, ...]]) -> Script[None]:
        for part in _chunks(len(rows)):
            yield _text(statement, row, part.stop - part.start), tuple(chain.from_iterable(rows[part]))
