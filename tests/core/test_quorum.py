"""Several people approve one request: who counts, what starts the count anew, and what never counts twice."""

from typing import Any

import pytest

from orchestrator.core.approval.approval import CallState
from orchestrator.core.approval.presentation import hitl_response, progress_of
from orchestrator.core.approval.workflow import PLAIN, Step, Workflow, told_group, told_people, with_quorum
from orchestrator.core.audit.check import check
from orchestrator.core.audit.presentation import story_lines
from orchestrator.core.audit.story import who_approved
from orchestrator.core.errors import InvalidDecision, NotPending
from orchestrator.core.policy import RiskLevel
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, ToolCall
from orchestrator.core.task.states import Phase
from orchestrator.core.text.patch import unified_diff
from tests.core.audited import BOB, PROGRAM, Trail, edits, made, says
from tests.core.journal import REQUEST, Journal, person
from tests.core.persons import bound, done, each, paused, real, refused, said, shown

TWO = Workflow(steps=(Step(count=2),))
TUTOR_THEN_ADMIN = Workflow(steps=(Step(by="role:tutor"), Step(by="role:admin")))
WRITE = real("c1", path="farm", content="old")
EDIT = each(("c1", "edit"), args={"path": "farm", "content": "new"})


def of(story: Journal, call_id: str = "c1") -> Any:
    """Where a call stands."""
    return story.record(call_id).state


def view(story: Journal) -> Any:
    """The people of the request as reviewers see them."""
    return hitl_response(story.task).team


# -- counting ----------------------------------------------------------------------------


def test_D22_two_people_approve_and_then_it_runs() -> None:
    """The first approval is an item, and the task waits; the second one decides."""
    story = paused("ask", workflow=TWO)
    assert (view(story).progress, view(story).need) == ("0 of 2", 2)
    (first,) = done(story, by="ann", action="approve", idempotency_key="k1")
    assert isinstance(first, facts.ReviewNoted)
    assert (first.what, [one.action_digest for one in first.decisions]) == ("approved", ["action-c1"])
    assert (of(story), story.task.phase) == (CallState.PENDING, Phase.REVIEWING)
    assert view(story).progress == progress_of(story.task, REQUEST) == "1 of 2: ann"
    (second,) = done(story, by="bob", action="approve")
    assert isinstance(second, facts.DecisionRecorded)
    assert (of(story), story.record("c1").approved_by) == (CallState.APPROVED, "ann and bob")
    assert progress_of(story.task, REQUEST) == ""
    assert check(story.items) == []


def test_D22_one_person_twice_counts_once() -> None:
    """Whether they repeat the request with its key, without one, or call by call."""
    story = paused("ask", workflow=TWO)
    done(story, by="ann", action="approve", idempotency_key="k1")
    for body in (
        {"action": "approve", "idempotency_key": "k1"},
        {"action": "approve"},
        {"action": "approve", "idempotency_key": "k2"},
        {"decisions": each(("c1", "approve"))},
    ):
        assert said(story, by="ann", **body) == ()
    error = refused(InvalidDecision, "key was used", story, by="ann", action="reject", idempotency_key="k1")
    assert error.http_status == 409


def test_D22_each_call_has_its_own_count() -> None:
    """Of two calls one is approved by two people, the other still waits for one; then all of it is decided."""
    story = paused("ask", "ask", workflow=TWO)
    done(story, by="ann", decisions=each(("c1", "approve")))
    assert (view(story).progress, progress_of(story.task, REQUEST)) == ("0 of 2", "1 of 2: ann")
    noted, decided = done(story, by="bob", action="approve")
    assert isinstance(noted, facts.ReviewNoted)
    assert isinstance(decided, facts.DecisionRecorded)
    assert [one.call_id for one in noted.decisions] == ["c2"]
    assert (of(story), of(story, "c2")) == (CallState.APPROVED, CallState.PENDING)
    assert view(story).approved_by == ("bob",)
    done(story, by="ann", action="approve")
    assert of(story, "c2") is CallState.APPROVED
    assert check(story.items) == []


@pytest.mark.parametrize("key", ["", "k1"])
def test_D6_a_decision_of_which_one_part_waits_is_made_once(key: str) -> None:
    """It became two items; sent again it does nothing, with its key or without one, and another one is another."""
    story = paused("ask", "ask", "ask", workflow=TWO)
    done(story, by="ann", decisions=each(("c1", "approve")))
    body: dict[str, Any] = {"decisions": each(("c1", "approve"), ("c2", "approve"))}
    assert len(done(story, by="bob", **body, idempotency_key=key)) == 2
    assert said(story, by="bob", **body, idempotency_key=key) == ()
    assert said(story, by="bob", decisions=each(("c2", "approve"))) == ()
    done(story, by="eve", action="approve")
    done(story, by="ann", action="approve")
    assert story.task.request is None
    assert said(story, by="bob", **body, idempotency_key=key) == ()
    refused(NotPending, "approved by ann", story, by="ann", **body)


@pytest.mark.parametrize("key", ["", "k1"])
def test_D6_an_approval_that_waited_is_made_once_after_the_request_was_closed(key: str) -> None:
    """Its answer was lost and it is sent again: it was taken, whoever closed the request; no other one was."""
    story = paused("ask", "ask", workflow=TWO)
    done(story, by="eve", decisions=each(("c1", "approve")))
    done(story, by="ann", action="approve", idempotency_key=key)
    done(story, by="bob", action="approve")
    assert story.task.request is None
    assert said(story, by="ann", action="approve", idempotency_key=key) == ()
    refused(NotPending, "approved by bob", story, by="eve", action="approve")
    refused(NotPending, "approved by bob", story, by="carol", action="approve")


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_D22_one_reject_ends_it(verb: str) -> None:
    """Whoever approved before, and also by one who had approved."""
    for by in ("ann", "bob"):
        story = paused("ask", workflow=TWO, on_reject="continue")
        done(story, by="ann", action="approve")
        done(story, by=by, action="reject")
        assert story.task.closed[-1].how == f"rejected by {by}"
        refused(NotPending, f"rejected by {by}", story, by="eve", action=verb)
        assert check(story.items) == []


def test_D22_an_edit_starts_the_count_anew_with_its_editor() -> None:
    """Who approved the old text has to approve the new one as well; the model is told of the editor."""
    story = shown(WRITE, diff="+old", workflow=TWO)
    done(story, by="ann", action="approve")
    (edit,) = done(story, by="bob", decisions=EDIT)
    assert isinstance(edit, facts.ReviewNoted)
    record = story.record("c1")
    assert (record.state, record.call.args["content"], record.edited_by) == (CallState.PENDING, "new", "bob")
    assert record.action_digest == edit.decisions[0].runs_digest
    assert view(story).approved_by == ("bob",)
    (call,) = hitl_response(story.task).tool_calls
    assert (call.args["content"], call.edited_by) == ("new", "bob")
    assert call.observed.diff is None
    assert said(story, by="bob", decisions=EDIT) == ()
    assert said(story, by="bob", action="approve") == ()
    done(story, by="ann", action="approve")
    assert (of(story), story.record("c1").approved_by) == (CallState.APPROVED, "bob and ann")
    assert check(story.items) == []
    (told,) = who_approved(story.items)
    assert [(one.how, one.by.id, one.void) for one in told.approvals] == [
        ("approved", "ann", True),
        ("edited", "bob", False),
        ("approve", "ann", False),
    ]
    assert {one.policy_version for one in told.approvals} == {"v1"}
    lines = story_lines(told.model_dump(mode="json"))
    assert [line.endswith("  void: the call was edited after it") for line in lines[1:4]] == [True, False, False]
    story.started("c1")
    (turn,) = story.finished("c1").turns
    assert "A person (bob) edited this call" in turn.results[0][1]


BEFORE = "a\n" * 9
ADDED = real("c1", tool="cc_edit", path="farm", old="a", new="b")


@pytest.mark.parametrize(
    ("call", "args", "diff", "then"),
    [
        (WRITE, {"content": "a\n" * 9 + "b\n"}, unified_diff(BEFORE, "old", "farm"), "-7,3 +7,4"),
        (WRITE, {"content": "b\n"}, unified_diff(None, "old", "farm"), "--- /dev/null"),
        (WRITE, {"content": "new"}, "", "-old\n"),
        (WRITE, {"content": BEFORE}, unified_diff(BEFORE, "old", "farm"), ""),
        (WRITE, {"content": "new"}, unified_diff(BEFORE, f"{BEFORE}old", "farm"), None),
        (WRITE, {"content": "new"}, None, None),
        (ADDED, {"old": "a", "new": "c"}, unified_diff(BEFORE, "b\n", "farm"), None),
    ],
    ids=["changed", "made", "same as there", "back to what is there", "appended", "binary", "another tool"],
)
def test_D22_an_edit_is_shown_with_its_own_diff(
    call: ToolCall, args: dict[str, Any], diff: str | None, then: str | None
) -> None:
    """The next person sees the difference from the file to the edited text, never the one of the model's text."""
    story = shown(call, workflow=TWO, diff=diff)
    done(story, by="ann", decisions=each(("c1", "edit"), args={"path": "farm", **args}))
    (seen,) = hitl_response(story.task).tool_calls
    assert seen.edited_by == "ann"
    assert seen.observed.diff == then if not then else then in str(seen.observed.diff)
    assert "+old" not in str(seen.observed.diff)


def test_D22_the_same_edit_by_two_people_is_enough() -> None:
    """The second one changes nothing any more, so that it approves what the first one wrote."""
    story = shown(WRITE, workflow=TWO)
    done(story, by="ann", decisions=EDIT)
    (last,) = done(story, by="bob", decisions=EDIT)
    assert isinstance(last, facts.DecisionRecorded)
    assert (last.decisions[0].action, of(story)) == ("approve", CallState.APPROVED)
    assert story.record("c1").edited_by == "ann"
    assert said(story, by="bob", decisions=EDIT) == ()
    assert check(story.items) == []


def test_D22_an_edit_whose_target_nobody_saw_is_shown_first() -> None:
    """It holds at once and lets nothing run: its call is shown in a new request, to as many people."""
    story = shown(WRITE, workflow=TWO)
    (fact,) = done(story, by="ann", decisions=each(("c1", "edit"), args={"path": "barn", "content": "new"}))
    assert isinstance(fact, facts.DecisionRecorded)
    assert story.record("c1").action_digest is None
    asked, c1 = story.record("c1").request_id, (CallId("c1"),)
    story.add(facts.RequestEnded(request_id=asked, end="stale", call_ids=c1, reason="unseen", code="edited_target"))
    anew = bound(real("c1", path="barn", content="new"), diff="+new")
    q2, medium = facts.RequestId("q2"), RiskLevel.MEDIUM
    story.add(facts.ReviewRequested(request_id=q2, reason="approval", calls=(anew,), risk=medium, policy_version="v1"))
    (call,) = hitl_response(story.task).tool_calls
    assert call.observed.diff == "+new"
    assert check(story.items) == []


def test_D22_one_person_neither_answers_nor_remembers_for_several() -> None:
    """Either would decide alone."""
    story = shown(WRITE, workflow=TWO)
    refused(InvalidDecision, "an answer is one person's", story, decisions=each(("c1", "respond"), answer="done"))
    remember = {"remember": {"scope": "task"}}
    refused(InvalidDecision, "cannot remember", story, decisions=each(("c1", "approve"), **remember))
    assert hitl_response(story.task).allowed_decisions == ("approve", "reject", "edit")


def test_D22_the_steps_come_in_their_order() -> None:
    """Each approval says for which step it counts; the one whose turn it is not is refused before."""
    story = paused("ask", workflow=TUTOR_THEN_ADMIN)
    assert view(story).progress == "0 of 2; next: somebody with the role tutor"
    done(story, by="tom", action="approve")
    assert view(story).progress == "1 of 2: tom; next: somebody with the role admin"
    (last,) = done(story, by="ann", action="approve")
    assert isinstance(last, facts.DecisionRecorded)
    assert last.decisions[0].step == 1
    assert check(story.items) == []


def test_D22_who_is_away_and_their_delegate_are_one() -> None:
    """The delegate shows as ``ann for bob``; neither of the two counts again."""
    story = paused("ask", workflow=TWO)
    approved = facts.ReviewNoted(
        what="approved",
        request_id=facts.RequestId("q1"),
        decisions=(facts.Decision(call_id=CallId("c1"), action="approve", action_digest="action-c1"),),
        behalf="bob",
    )
    story.add(approved, by=person("ann"))
    assert view(story).approved_by == ("ann for bob",)
    refused(InvalidDecision, "bob and ann for bob are one approval", story, by="bob", action="approve")
    done(story, by="eve", action="approve")
    assert story.record("c1").approved_by == "ann for bob and eve"
    assert check(story.items) == []


def test_D22_quorum_and_workflows_are_put_together() -> None:
    """All steps, the larger count of the same people, the shorter time; and the quorum at the least."""
    assert with_quorum((), 1) == PLAIN
    assert with_quorum((), 2) == TWO
    one = Workflow(steps=(Step(by="role:tutor"),), escalate_after_s=60)
    two = Workflow(steps=(Step(by="role:tutor", count=2), Step(by="person:ann")), escalate_to="group:heads")
    both = with_quorum((one, two), 4)
    assert [(step.by, step.count) for step in both.steps] == [("role:tutor", 2), ("person:ann", 1), ("", 1)]
    assert (both.escalate_to, both.escalate_after_s, both.need) == ("group:heads", 60, 4)
    assert with_quorum((two,), 1) == two
    assert with_quorum((TWO,), 3).steps == (Step(count=3),)
    with pytest.raises(ValueError, match="names nobody"):
        Step(by="tutors")
    told = [told_people(by) for by in ("", "role:tutor", "person:ann", "group:heads")]
    assert told == ["somebody who may decide", "somebody with the role tutor", "ann", "somebody in the group heads"]
    told = [told_group(by) for by in ("role:admin", "role:tutor", "person:ann", "group:heads")]
    assert told == ["admins", "people with the role tutor", "ann", "the group heads"]


# -- the audit ---------------------------------------------------------------------------

C1 = made("c1")


def noted(trail: Trail, *decisions: facts.Decision, by: Any = BOB, **more: Any) -> Trail:
    """Somebody approves, and more people have to."""
    fact = facts.ReviewNoted(what="approved", request_id=facts.RequestId("q1"), decisions=decisions, **more)
    return trail.add(fact, by)


def found(trail: Trail) -> list[tuple[str, str]]:
    """What is against a promise."""
    return [(one.what, one.detail) for one in check(trail.items) if one.level == "violation"]


def test_A6_a_decision_without_its_quorum_is_found() -> None:
    """By one person alone, by one twice, by a delegate and the one who is away, for another text, of a wrong step."""
    alone = Trail(C1).requested(C1, workflow=TWO).approved(C1)
    assert found(alone) == [
        ("without_quorum", "Call c1 was approved, and it needs 2 people, and its approval is of bob only.")
    ]
    twice = noted(Trail(C1).requested(C1, workflow=TWO), says(C1, "approve")).approved(C1)
    assert [what for what, _ in found(twice)] == ["without_quorum"]
    behalf = noted(Trail(C1).requested(C1, workflow=TWO), says(C1, "approve"), by=person("ann"), behalf="bob")
    assert "of ann for bob only" in found(behalf.approved(C1))[0][1]
    edit, after = edits(C1, path="farm", content="y")
    anew = noted(Trail(C1).requested(C1, workflow=TWO), says(C1, "approve"), by=person("ann"))
    noted(anew, edit)
    assert found(anew.decided(says(after, "approve"), by=BOB)) == [
        ("without_quorum", "Call c1 was approved, and it needs 2 people, and its approval is of bob only.")
    ]
    assert found(anew.started(after)) != []
    first = Trail(C1).requested(C1, workflow=TUTOR_THEN_ADMIN)
    noted(first, says(C1, "approve"), by=person("tom")).approved(C1, by=person("tim"))
    assert "it needs somebody with the role admin, and its approval is of tom and tim" in found(first)[0][1]


def test_A6_an_approval_by_a_program_or_of_another_digest_is_found() -> None:
    """Also where it is not the last one."""
    program = noted(Trail(C1).requested(C1, workflow=TWO), says(C1, "approve"), by=PROGRAM)
    assert [what for what, _ in found(program)] == ["decided_by_program"]
    other = noted(Trail(C1).requested(C1, workflow=TWO), says(C1, "approve", action_digest="other"))
    assert [what for what, _ in found(other)] == ["decided_other"]
    stray, _ = edits(made("c9"), path="farm", content="y")
    nobody = noted(Trail(C1).requested(C1, workflow=TWO), stray)
    assert [what for what, _ in found(nobody)] == ["decided_other"]
    in_order = noted(Trail(C1).requested(C1, workflow=TWO), says(C1, "approve"), by=person("ann")).approved(C1)
    assert found(in_order.started(C1).finished(C1)) == []
