"""What became of a task that takes another's changes back, or carries out what it rehearsed."""

from typing import Any

import pytest

from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.undo.messages import Outcome
from orchestrator.core.undo.telling import outcome_of, that_counts
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId
from tests.core.journal import Journal

UNDO = Restoration(task_id="t0")
APPLY = Restoration(task_id="t0", listing="a" * 64, base="b" * 64, computer=ComputerId("3"))


def ended(restores: Restoration, status: str, **rest: Any) -> Outcome:
    """What became of a task that ended so."""
    story = Journal()
    story.submitted(restores=restores)
    story.ended(status, "final", **rest)
    return outcome_of(story.task)


@pytest.mark.parametrize(
    ("restores", "status", "message", "told"),
    [
        (UNDO, "Completed", "3 put back.", "taken back by t1 (Completed: 3 put back)"),
        (UNDO, "Completed", "", "taken back by t1 (Completed)"),
        (UNDO, "Failed", "2 not put back: It is full.", "t1 failed to take it back: 2 not put back: It is full"),
        (UNDO, "Failed", "", "t1 failed to take it back"),
        (UNDO, "Canceled", "stopped by alice", "t1, which was to take it back, was canceled (stopped by alice)"),
        (APPLY, "Completed", "3 applied.", "applied by t1 (Completed: 3 applied)"),
        (APPLY, "Canceled", "", "t1, which was to apply it, was canceled"),
        (
            UNDO.model_copy(update={"step": 2, "paths": ("a", "b", "c", "d")}),
            "Completed",
            "1 put back.",
            "taken back in part (step 2, a, b, c, 1 more) by t1 (Completed: 1 put back)",
        ),
        (
            UNDO.model_copy(update={"paths": ("a",)}),
            "Failed",
            "No.",
            "t1 failed to take it back in part (a): No",
        ),
    ],
)
def test_an_end_is_told_as_part_of_a_sentence(restores: Restoration, status: str, message: str, told: str) -> None:
    outcome = ended(restores, status, message=message)
    assert (outcome.told, outcome.status, outcome.open) == (told, TaskStatus(status), False)


def test_one_that_goes_on_says_what_it_waits_for() -> None:
    story = Journal()
    story.submitted(restores=UNDO)
    waits = outcome_of(story.task, waits="waiting for computer 3, which is away")
    assert waits.told == "being taken back by t1 (waiting for computer 3, which is away)"
    assert (waits.open, waits.kept) == (True, False)
    assert outcome_of(story.task).told == "being taken back by t1 (Queued)"


def test_one_that_was_taken_back_in_turn_says_by_which() -> None:
    story = Journal()
    story.submitted(restores=UNDO)
    story.ended("Completed", "final", message="1 put back.", details={"kept": {"3:a": "Somebody changed it since."}})
    outcome = outcome_of(story.task, undone_by=TaskId("t2"))
    assert outcome.told == "taken back by t1 (Completed: 1 put back), which t2 took back in turn"
    assert (outcome.kept, outcome.whole) == (True, True)
    over = ended(UNDO.model_copy(update={"on_conflict": "restore"}), "Completed", details={"kept": {"3:a": "No."}})
    assert not over.kept, "there is no more to say than that"


def test_of_several_the_one_counts_that_says_how_it_stands() -> None:
    """One that goes on before one that did all of it, that before one that did a part, that before the last."""
    did = {"put_back": ["3:a"]}
    whole = ended(UNDO, "Completed", details=did)
    part = ended(UNDO.model_copy(update={"step": 1}), "Completed", details=did)
    late = ended(UNDO, "Completed")
    failed, again = ended(UNDO, "Failed"), whole.model_copy(update={"undone_by": "t9"})
    going = whole.model_copy(update={"open": True, "status": TaskStatus.RUNNING})
    assert that_counts(()) is None
    assert that_counts((going, whole)) is going
    assert that_counts((whole, part, failed)) is whole
    assert that_counts((part, failed, again)) is part
    assert that_counts((again, failed)) is again
    assert that_counts((again, late)) is again
    assert that_counts((failed, late)) is late
