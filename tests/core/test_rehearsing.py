"""Rehearsal in the core: whom the gate spares a question, what a model is told, and how such a task folds."""

import pytest

from orchestrator.core.errors import InvalidDecision
from orchestrator.core.model_view.prompt import Prompt
from orchestrator.core.model_view.view import View
from orchestrator.core.policy import Effect, PolicyDecision, default_policy
from orchestrator.core.policy.explanation import summary
from orchestrator.core.task import facts
from orchestrator.core.task.commands import Fail, decide
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.rehearsal import RULE, Rehearsal, copy_name, is_copy, lenient, original_of, strict
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId
from tests.core.journal import Journal, call, verdict
from tests.core.persons import paused

FARM = ComputerId("farm")
COPY = copy_name(FARM, "0a1b2c3d")
REHEARSAL = Rehearsal(computer=FARM, base="8" * 64, family="turtle", label="digger", computer_id=7)
OVER = facts.RehearsalEnded(after="9" * 64, changed=1, applied_by=TaskId("t-2"), message="It changed 1 place.")


def test_the_name_of_a_copy_is_nobody_elses() -> None:
    assert copy_name(FARM, "0a1b2c3d") == COPY
    assert (is_copy(COPY), is_copy(FARM), is_copy("")) == (True, False, False)
    assert COPY.startswith("farm~")
    assert original_of(COPY) == original_of(FARM) == FARM


@pytest.mark.parametrize(
    ("effect", "tool", "computer", "becomes"),
    [
        ("ask", "cc_write", COPY, Effect.ALLOW),
        ("ask", "cc_run_program", COPY, Effect.ALLOW),
        ("allow", "cc_write", COPY, Effect.ALLOW),
        ("deny", "cc_write", COPY, Effect.DENY),
        ("ask", "cc_write", FARM, Effect.ASK),
        ("ask", "cc_write", None, Effect.ASK),
        ("ask", "local_write", None, Effect.ASK),
        ("ask", "cc_read", COPY, Effect.ASK),
        ("ask", "no_such_tool", COPY, Effect.ASK),
    ],
)
def test_only_a_change_of_the_copy_needs_no_question(
    effect: str, tool: str, computer: ComputerId | None, becomes: Effect
) -> None:
    """What is denied stays denied; what a model would learn, or touch elsewhere, is asked for as ever."""
    before = verdict(effect)
    after = lenient(before, tool, computer)
    assert after.effect is becomes
    assert _changed(before, after) is (becomes.value != effect)


def test_what_was_rehearsed_is_always_asked_for() -> None:
    """Else what a rule allows would be done before anybody saw the whole."""
    applies = Restoration(task_id="t-1", listing="9" * 64, base="8" * 64, computer=FARM)
    asked = strict(verdict("allow"), applies)
    assert asked.effect is Effect.ASK
    assert _changed(verdict("allow"), asked)
    for other in (None, Restoration(task_id="t-1"), Restoration(listing="9" * 64, computer=FARM)):
        assert strict(verdict("allow"), other) == verdict("allow")
    for effect in ("ask", "deny"):
        assert strict(verdict(effect), applies) == verdict(effect)


def _changed(before: PolicyDecision, after: PolicyDecision) -> bool:
    """Whether a rehearsal changed a verdict; then it says so, and is bound to it."""
    said = RULE in after.matched_rules
    assert said is (before != after)
    assert said is (before.rules_digest != after.rules_digest)
    return said


def test_the_policy_judges_as_for_the_real_computer() -> None:
    context = REHEARSAL.context
    assert (context.computer, context.family, context.label) == (FARM, "turtle", "digger")


def test_the_model_knows_the_computer_by_its_own_name() -> None:
    story = Journal()
    task = story.submitted(computers=(COPY,), rehearses=REHEARSAL)
    assert task.rehearses == REHEARSAL
    assert task.named_computers == (FARM,)
    assert Journal().submitted().named_computers == ("3",)
    view = View(task, prompt=Prompt("$tools $computers $tag $policy", "p1"))
    told = view.messages[0][1]
    assert "The computers of this task: farm." in told
    assert COPY not in told


def test_the_model_is_told_that_changes_do_not_wait() -> None:
    text = summary(default_policy(), computers=(FARM,), rehearsal=True)
    waiting = next(line for line in text.splitlines() if "wait for a person" in line and "run at once" not in line)
    assert waiting == "- local_write, local_patch: wait for a person"


def test_what_a_rehearsal_came_to_follows_its_end_and_nothing_else() -> None:
    story = Journal()
    story.submitted(computers=(COPY,), rehearses=REHEARSAL)
    with pytest.raises(InvalidDecision):
        story.add(OVER)
    story.ended()
    story.add(OVER)
    assert story.task.rehearsed == OVER
    assert story.task.status is TaskStatus.CANCELED


def test_a_task_that_cannot_go_on_fails_with_its_request() -> None:
    story = paused()
    closed, ended = decide(story.task, Fail("rehearsal_failed", "The copy is gone."))
    assert isinstance(closed, facts.RequestEnded)
    assert (closed.end, closed.reason) == ("canceled", "The copy is gone.")
    assert ended == facts.TaskEnded(status="Failed", status_reason="rehearsal_failed", message="The copy is gone.")
    story.add(closed, ended)
    assert decide(story.task, Fail("rehearsal_failed", "Again.")) == ()


def test_a_task_that_fails_without_a_request_only_ends() -> None:
    story = Journal()
    story.proposed([call("c1", path="f")], "allow")
    (ended,) = decide(story.task, Fail("rehearsal_failed", "The copy is gone."))
    assert ended.kind == "task_ended"
