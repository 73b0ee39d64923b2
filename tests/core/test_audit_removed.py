"""Pruned tasks and backups: what was taken out on purpose is no fault, what was taken out otherwise is one."""

from collections.abc import Iterable
from typing import Any

import pytest

from orchestrator.core.audit.chain import SYSTEM_STREAM
from orchestrator.core.audit.retention import BackupBook, PruneBook
from orchestrator.core.task.facts import Fact
from orchestrator.core.task.system_facts import BackupRemoved, ComputerBackedUp, NodeStopped, TaskPruned
from orchestrator.core.wire.wire import ComputerId
from tests.core.journal import NOW
from tests.core.test_audit import stream

AT = 1_893_456_000_000_000
NOTE = TaskPruned(task_id="t-1", version=9, head_hash="h" * 64, user_id="alice", created_at=NOW, updated_at=NOW)
MADE = ComputerBackedUp(
    backup_id="b-1", computer=ComputerId("farm"), listing="a" * 64, files=1, bytes=2, new_bytes=2, note="mine"
)
GONE = BackupRemoved(backup_id="b-1", computer=ComputerId("farm"))
ROW = {
    "computer": "farm",
    "made_at": AT,
    "made_by": "orchestrator",
    "data": MADE.model_dump_json(),
}


def said(faults: Iterable[Any]) -> list[str]:
    """The sentences."""
    return [fault.detail for fault in faults]


def pruned(*news: Fact, name: str = SYSTEM_STREAM) -> PruneBook:
    """The book of a stream."""
    book = PruneBook()
    for item in stream(name, *news):
        book.take(item)
    return book


def test_a_missing_task_is_explained_by_a_note_of_its_head_or_of_a_later_one() -> None:
    book = pruned(NodeStopped(), NOTE)
    assert book.explains("t-1", (9, "h" * 64))
    assert book.explains("t-1", (8, "x"))
    assert not book.explains("t-1", (9, "x" * 64)), "another head"
    assert not book.explains("t-1", (10, "h" * 64)), "the checkpoint knows more"
    assert not book.explains("t-2", (9, "h" * 64)), "another task"
    assert not pruned(NOTE, name="t-9").explains("t-1", (9, "h" * 64)), "only the system stream tells"


def test_the_rows_of_pruned_tasks_follow_from_the_notes() -> None:
    book = pruned(NOTE)
    row = {"t-1": {"task_id": "t-1", "pruned_at": AT}}
    assert said(book.faults(row, row, {"t-2"})) == []
    assert said(book.faults({}, row, ())) == []
    assert "counts as pruned" in said(pruned().faults(row, row, ()))[0]
    assert "has no row of it" in said(book.faults({}, {}, ()))[0]
    assert "is there again" in said(book.faults(row, row, {"t-1"}))[0]
    for at in (AT + 60_000_001, "x"):
        late = {"t-1": {"task_id": "t-1", "pruned_at": at}}
        assert "at another time" in said(book.faults(late, late, ()))[0]


def backups(*news: Fact) -> BackupBook:
    """The book of the system stream."""
    book = BackupBook()
    for item in stream(SYSTEM_STREAM, *news):
        book.take(item)
    return book


def test_an_honest_backup_has_no_fault() -> None:
    """Made, kept and removed, also while a node is at work."""
    row = {"b-1": ROW}
    assert said(backups(MADE, NodeStopped()).faults(row, row)) == []
    assert said(backups(MADE).faults({}, row)) == []
    assert said(backups(MADE, GONE).faults(row, {})) == []
    assert list(backups(MADE).kept) == ["b-1"]
    assert list(backups(MADE, GONE).kept) == []


@pytest.mark.parametrize(
    ("news", "before", "after", "words"),
    [
        ((), {"b-1": ROW}, {"b-1": ROW}, "no item made it"),
        ((MADE,), {}, {}, "is not in the table"),
        ((MADE, GONE), {}, {"b-1": ROW}, "was removed, and the table has it"),
        *(((MADE,), {}, {"b-1": ROW | {name: "x"}}, "something else in the table") for name in ROW),
        ((MADE,), {}, {"b-1": ROW | {"data": "{}"}}, "something else in the table"),
    ],
)
def test_a_changed_backup_shows(news: tuple[Fact, ...], before: Any, after: Any, words: str) -> None:
    (detail,) = said(backups(*news).faults(before, after))
    assert words in detail
