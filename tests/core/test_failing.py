"""Failures in a row: how they are counted, the pauses between them, and what people are told."""

import pytest

from orchestrator.core.task.facts import AT_ONCE, FailedBecause
from orchestrator.core.task.limits import (
    MAX_FAILED,
    MAX_UNANSWERED,
    failed,
    pause_s,
    why_it_ends,
)
from orchestrator.core.wire.wire import ComputerId
from tests.core.journal import Journal


def failing(because: FailedBecause, times: int) -> Journal:
    """A task that asked the model and then failed so often."""
    story = Journal()
    story.submitted()
    for _ in range(times):
        story.add(failed(story.task, "the disk is full", because))
    return story


@pytest.mark.parametrize(("because", "most"), [("failed", MAX_FAILED), ("unanswered", MAX_UNANSWERED)])
def test_failures_are_counted_until_the_task_gets_on(because: FailedBecause, most: int) -> None:
    """Each counts one more; an item that is no mere beginning ends the count."""
    story = failing(because, 3)
    assert [(one.count, one.most) for one in story.task.failures] == [(3, most)]
    story.asked(1)
    assert story.task.failures
    story.replied()
    assert story.task.failures == ()
    assert failed(story.task, "the disk is full", because).count == 1


def test_what_fails_and_what_does_not_answer_are_counted_apart() -> None:
    """A missed answer does not use up the tries of what failed by itself."""
    story = failing("failed", 2)
    story.add(failed(story.task, "no answer", "unanswered"))
    assert {one.because: one.count for one in story.task.failures} == {"failed": 2, "unanswered": 1}


def test_pauses_double_after_a_few_and_stay_under_a_minute() -> None:
    """A quarter of an hour in all, and never a busy loop."""
    pauses = [pause_s(count) for count in range(1, MAX_UNANSWERED + 1)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (1.0, 60.0)
    assert 600 < sum(pauses) < 1800


def test_one_missed_answer_is_no_news() -> None:
    """A failure is always told; a computer that does not answer first after a few tries, then each tenth."""
    assert failing("failed", 1).task.failures[0].is_worth_a_line
    worth = [n for n in range(1, MAX_UNANSWERED + 1) if failing("unanswered", n).task.failures[0].is_worth_a_line]
    assert worth == [AT_ONCE + 1, 10, 20]


def test_the_sentences_name_the_count_the_reason_and_the_computer() -> None:
    """What a person reads while it is tried, and as it ends."""
    own = failing("failed", 2).task.failures[0]
    missed = failing("unanswered", 4).task.failures[0]
    assert own.told == f"tried 2 of {MAX_FAILED} times: the disk is full"
    assert missed.told.startswith("waiting for a computer that does not answer, tried 4 of ")
    assert why_it_ends(own) == "It was tried 2 times and does not go on. the disk is full"
    assert why_it_ends(missed, ComputerId("3")).startswith("Computer 3 was connected but did not do ")
    assert why_it_ends(missed).startswith("The computer was connected")
