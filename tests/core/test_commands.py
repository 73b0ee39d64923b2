"""What people may ask of a task: decided into facts, or refused with the reason."""

from typing import Any

import pytest

from orchestrator.core.approval.approval import CallDecision, CallState, request_digest
from orchestrator.core.approval.command import closed_question
from orchestrator.core.errors import InvalidDecision, NotFound, NotPending, RequestExpired, TaskEnded
from orchestrator.core.task import facts
from orchestrator.core.task.commands import Answer, Cancel, Pin, decide
from orchestrator.core.task.facts import CallId, QuestionId
from orchestrator.core.task.states import Phase, TaskStatus
from tests.core.journal import REQUEST, Journal, call, digest_of, person
from tests.core.persons import done, each, paused, refused, said, unknown

# -- approve ------------------------------------------------------------------------------


def test_D2_approve_decides_every_pending_call() -> None:
    """One verb for the whole request, bound to the digests that were stored with it."""
    story = paused("ask", "allow", "ask")
    (recorded,) = done(story, action="approve", reason="fine", idempotency_key="k1")
    assert isinstance(recorded, facts.DecisionRecorded)
    assert (recorded.request_id, recorded.key) == (REQUEST, "k1")
    assert [(one.call_id, one.action, one.action_digest, one.reason) for one in recorded.decisions] == [
        ("c1", "approve", digest_of("c1"), "fine"),
        ("c3", "approve", digest_of("c3"), "fine"),
    ]
    assert [one.state for one in story.task.calls] == [CallState.APPROVED, CallState.ALLOWED, CallState.APPROVED]
    assert story.task.request is None


def test_D5_single_calls_can_be_decided() -> None:
    """The rest of the request stays open and is decided later; `approve` then means what is still pending."""
    story = paused("ask", "ask", "ask")
    done(story, decisions=each(("c2", "approve")))
    assert story.task.request is not None
    assert (story.task.request.call_ids, story.task.status) == (("c1", "c3"), TaskStatus.PAUSED)
    (recorded,) = done(story, action="approve")
    assert isinstance(recorded, facts.DecisionRecorded)
    assert [one.call_id for one in recorded.decisions] == ["c1", "c3"]


def test_D3_a_batch_is_decided_whole_or_not_at_all() -> None:
    """One entry that does not fit refuses all of them, and names itself."""
    story = paused()
    error = refused(InvalidDecision, "'c9'", story, decisions=each(("c1", "approve"), ("c9", "approve")))
    assert error.message.startswith("Nothing was decided: c9: ")
    assert error.details == {"offenders": ["c9"]}
    error = refused(InvalidDecision, "twice", story, decisions=each(("c1", "approve"), ("c1", "reject")))
    assert error.details == {"offenders": ["c1"]}
    both = refused(InvalidDecision, "c8: ", story, decisions=each(("c9", "approve"), ("c1", "reject"), ("c8", "check")))
    assert both.details == {"offenders": ["c9", "c8"]}
    half = [*each(("c1", "approve")), *each(("c2", "approve"), expected_digest="other")]
    refused(InvalidDecision, "'c2' is not the one you saw", story, decisions=half)
    assert story.record("c1").state is CallState.PENDING


def test_a_call_that_needs_no_decision_takes_none() -> None:
    """An allowed sibling, or one decided before, is not part of what the request waits for."""
    story = paused("ask", "allow", "ask")
    refused(InvalidDecision, "does not wait for call 'c2'", story, decisions=each(("c2", "approve")))
    done(story, decisions=each(("c1", "approve")))
    refused(InvalidDecision, "does not wait for call 'c1'", story, decisions=each(("c1", "reject")), by="bob")


# -- digests ------------------------------------------------------------------------------


def test_B1_a_decision_may_echo_the_digest_it_saw() -> None:
    """The right digest, of one call or of the whole, decides; another is refused; none binds to the stored one."""
    story = paused()
    whole = request_digest((digest_of("c1"), digest_of("c2")))
    assert said(story, action="approve", expected_digest=whole)
    assert said(story, decisions=each(("c1", "approve"), expected_digest=digest_of("c1")))
    assert said(story, action="approve")
    error = refused(InvalidDecision, "not the one you saw", story, action="approve", expected_digest=digest_of("c1"))
    assert "decide again" in error.remedy
    assert said(story, decisions=each(("c1", "approve")), expected_digest=whole)
    refused(InvalidDecision, "not the one you saw", story, decisions=each(("c1", "approve")), expected_digest="other")
    wrong = each(("c1", "approve"), expected_digest=digest_of("c2"))
    assert "decide again" in refused(InvalidDecision, "not the one you saw", story, decisions=wrong).remedy


def test_B1_after_a_partial_decision_the_whole_is_what_is_left() -> None:
    """The digest over the request is that of its pending calls, so an old echo no longer fits."""
    story = paused()
    old = request_digest((digest_of("c1"), digest_of("c2")))
    done(story, decisions=each(("c1", "approve")))
    refused(InvalidDecision, "not the one you saw", story, action="approve", expected_digest=old)
    assert said(story, action="approve", expected_digest=digest_of("c2"))


# -- reject -------------------------------------------------------------------------------


def test_D12_a_rejection_cancels_the_task() -> None:
    """Recorded, and the task ends with the reason; the model is not asked again."""
    story = paused("ask")
    recorded, ended = done(story, action="reject", reason="too risky")
    assert isinstance(recorded, facts.DecisionRecorded)
    assert isinstance(ended, facts.TaskEnded)
    assert (ended.status, ended.status_reason) == ("Canceled", "rejected")
    assert ended.message == "A person rejected a call: too risky"
    assert story.task.status is TaskStatus.CANCELED
    assert "without a reason" in str(said(paused("ask"), action="reject")[-1])


def test_D10_a_rejection_closes_the_rest_of_its_request() -> None:
    """Calls of the same request that nobody decides any more are canceled in the same transaction."""
    story = paused("ask", "allow", "ask", "ask")
    recorded, closed, ended = done(story, decisions=each(("c3", "reject"), ("c4", "approve"), reason="no"))
    assert isinstance(recorded, facts.DecisionRecorded)
    assert isinstance(closed, facts.RequestEnded)
    assert (closed.request_id, closed.end, closed.call_ids) == (REQUEST, "canceled", ("c1",))
    assert closed.reason == "A person rejected a call: no"
    assert isinstance(ended, facts.TaskEnded)
    states = [one.state.value for one in story.task.calls]
    assert states == ["canceled", "allowed", "rejected", "approved"]


def test_D13_a_rejection_may_go_on() -> None:
    """With `continue` the task lives, for one call or all, and what the request says beats what the task says."""
    story = paused("ask")
    (recorded,) = done(story, action="reject", on_reject="continue", reason="other file")
    assert isinstance(recorded, facts.DecisionRecorded)
    assert recorded.decisions[0].on_reject == "continue"
    assert story.task.phase is Phase.THINKING
    assert len(said(paused("ask", on_reject="continue"), action="reject")) == 1
    assert len(said(paused("ask", on_reject="continue"), action="reject", on_reject="cancel")) == 2
    mixed = [*each(("c1", "reject"), on_reject="continue"), *each(("c2", "reject"), on_reject="cancel", reason="stop")]
    ended = said(paused(), decisions=mixed)[-1]
    assert isinstance(ended, facts.TaskEnded)
    assert ended.message == "A person rejected a call: stop"


def test_an_approval_never_cancels() -> None:
    """`on_reject` beside an approval means nothing."""
    assert len(said(paused("ask"), action="approve", on_reject="cancel")) == 1


# -- verbs --------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["check", "mark_done", "mark_failed", "retry"])
def test_an_approval_request_takes_no_verb_for_unknown_outcomes(verb: str) -> None:
    """The refusal names the verbs that fit."""
    refused(InvalidDecision, f"takes approve, reject, edit, respond, not {verb}", paused(), action=verb)


@pytest.mark.parametrize("verb", ["approve", "reject", "edit", "respond"])
def test_E3_an_unknown_outcome_takes_no_approval(verb: str) -> None:
    """What may have happened is neither approved nor rejected, edited nor answered."""
    more: dict[str, dict[str, Any]] = {
        "edit": {"args": {"path": "f", "content": "x"}},
        "respond": {"answer": "done"},
    }
    words = f"takes check, mark_done, mark_failed, retry, not {verb}"
    refused(InvalidDecision, words, unknown(), decisions=each(("c1", verb), **more.get(verb, {})))


@pytest.mark.parametrize(
    ("verb", "state"),
    [("check", "outcome_unknown"), ("mark_done", "executed"), ("mark_failed", "failed")],
)
def test_E3_the_verbs_of_an_unknown_outcome(verb: str, state: str) -> None:
    """Check asks again, the two marks say what became of it; none makes a new call."""
    story = unknown()
    (recorded,) = done(story, action=verb)
    assert isinstance(recorded, facts.DecisionRecorded)
    assert recorded.decisions[0].retry_as is None
    assert story.record("c1").state == state


def test_E3_a_retry_gets_a_new_call_id() -> None:
    """The new id comes from the caller and the new call has to be approved."""
    story = unknown()
    (recorded,) = done(story, action="retry")
    assert isinstance(recorded, facts.DecisionRecorded)
    assert recorded.decisions[0].retry_as == "n1"
    assert story.record("n1").state is CallState.PROPOSED


# -- repeats and races --------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {"action": "approve"},
        {"action": "approve", "idempotency_key": "k1"},
        {"action": "reject", "on_reject": "continue"},
        {"decisions": each(("c1", "approve"), ("c2", "reject"), on_reject="continue")},
        {"decisions": each(("c2", "approve"))},
        {"action": "reject"},
    ],
)
def test_D6_the_same_decision_by_the_same_person_is_made_once(body: dict[str, Any]) -> None:
    """A double click amounts to nothing new; the same from somebody else is a conflict."""
    story = paused()
    done(story, **body)
    assert said(story, **body) == ()
    with pytest.raises((NotPending, InvalidDecision)):
        said(story, by="bob", **body)


def test_D6_a_repeat_with_another_decision_is_a_conflict() -> None:
    """Changing one's mind after the fact is told, not swallowed, and so is a key that came with another decision."""
    story = paused()
    done(story, action="reject", on_reject="continue", idempotency_key="k1")
    refused(NotPending, "rejected by alice", story, action="approve")
    refused(NotPending, "rejected by alice", story, action="reject")
    refused(NotPending, "rejected by alice", story, decisions=each(("c1", "reject"), on_reject="continue"))
    error = refused(InvalidDecision, "was used for another decision", story, action="approve", idempotency_key="k1")
    assert "new key" in error.remedy
    refused(NotPending, "rejected by alice", story, by="bob", action="approve", idempotency_key="k1")


def test_D6_the_whole_is_not_the_same_as_one_of_its_parts() -> None:
    """Who approved one call and rejected the other did not approve the request."""
    story = paused()
    done(story, decisions=each(("c1", "approve")))
    done(story, decisions=each(("c2", "reject"), on_reject="continue"))
    refused(NotPending, "rejected by alice", story, action="approve")
    assert said(story, decisions=each(("c1", "approve"))) == ()


def test_D6_a_whole_decision_on_what_was_left_is_recognised() -> None:
    """The rest approved as a whole and then again: the same decision; while it is open, the same verb is a new one."""
    story = paused("ask", "ask", "ask")
    done(story, decisions=each(("c1", "approve")), idempotency_key="k1")
    assert said(story, action="approve") != ()
    refused(InvalidDecision, "another decision", story, action="approve", idempotency_key="k1")
    done(story, action="approve")
    assert said(story, action="approve") == ()


def test_D7_the_loser_of_a_race_is_told_who_won() -> None:
    """The first decision counts; the second person hears who decided and what."""
    story = paused()
    done(story, action="approve")
    error = refused(NotPending, "it was approved by alice", story, by="bob", action="reject")
    assert error.remedy
    assert (error.http_status, error.code) == (409, "not_pending")
    assert error.details == {
        "decided_by": "alice",
        "how": "approved by alice",
        "at": story.items[-1].at.isoformat(),
        "status": "Running",
    }


@pytest.mark.parametrize(
    ("end", "kind", "code"),
    [
        ("expired", RequestExpired, "expired"),
        ("superseded", NotPending, "not_pending"),
        ("stale", NotPending, "not_pending"),
    ],
)
def test_D9_a_request_that_ended_takes_no_decision(end: str, kind: type[NotPending], code: str) -> None:
    """Expired, superseded or stale: refused with its own code, and not revived."""
    story = paused()
    story.request_ended(end, "c1", "c2")
    error = refused(kind, "it expired" if end == "expired" else f"it was {end}", story, action="approve")
    assert (error.http_status, error.code, error.details["how"]) == (409, code, end)
    assert ("a new request can be raised" in error.remedy) is (end == "expired")


def test_S6_an_id_of_an_earlier_pause_never_acts_on_a_later_one() -> None:
    """The old request is closed though the task waits again under a new id."""
    story = paused()
    story.request_ended("stale", "c1", "c2")
    story.reviewed("c1", "c2", request_id="q2")
    refused(NotPending, "it was stale", story, action="approve")
    assert said(story, request="q2", action="approve")


def test_D10_a_request_of_an_ended_task_takes_no_decision() -> None:
    """Closed by the cancel, or never seen: the status of the task is the answer."""
    story = paused()
    story.add(*decide(story.task, Cancel("enough")), by=person("alice"))
    refused(NotPending, "it was canceled", story, action="approve")
    error = refused(NotPending, "the task is Canceled", story, request="q9", action="approve")
    assert error.details == {"status": "Canceled"}


# -- answers ------------------------------------------------------------------------------


def asking() -> Journal:
    """A task with an open question."""
    story = Journal()
    story.proposed([call("a", "ask_user", computer=None), call("w", index=1, path="f")], "allow", "allow")
    story.question("a")
    return story


def test_D20_an_answer_is_recorded_as_it_is() -> None:
    """The person's words, for the question that is open; the first answer counts."""
    story = asking()
    made = decide(story.task, Answer(QuestionId("u1"), "yes, approved"))
    assert made == (facts.QuestionAnswered(question_id=QuestionId("u1"), answer="yes, approved"),)
    story.add(*made)
    with pytest.raises(NotPending, match="answered already"):
        decide(story.task, Answer(QuestionId("u1"), "no"))


def test_who_answered_a_question_is_said_also_when_the_task_went_on() -> None:
    """By whom and when; one that nobody answered is over with its task, and one that never was is none."""
    story = Journal()
    story.proposed([call(one, "ask_user", index=at, computer=None) for at, one in enumerate("ab")], "allow", "allow")
    story.question("a", "u1")
    story.question("b", "u2")
    story.add(facts.QuestionAnswered(question_id=QuestionId("u1"), answer="wheat"), by=person("ann"))
    at = story.items[-1].at
    first = closed_question(story.items, QuestionId("u1"))
    assert first is not None
    assert first.message == f"The question was answered already, by ann at {at:%Y-%m-%d %H:%M:%S} UTC."
    assert first.details == {"decided_by": "ann", "how": "answered", "at": at.isoformat()}
    nobody = closed_question(story.items, QuestionId("u2"))
    assert nobody is not None
    assert (nobody.message, nobody.details) == (
        "The question is no longer open: the task is over, and nobody had answered.",
        {},
    )
    assert closed_question(story.items, QuestionId("u3")) is None


def test_a_question_of_a_task_that_was_canceled_takes_no_answer() -> None:
    """It is over with its task."""
    story = asking()
    story.add(*decide(story.task, Cancel("enough")))
    with pytest.raises(NotPending, match="the task is over"):
        decide(story.task, Answer(QuestionId("u1"), "wheat"))


def test_an_answer_to_no_question_is_refused() -> None:
    """A question that the task does not have, or no longer has."""
    with pytest.raises(NotFound, match="no such open question"):
        decide(asking().task, Answer(QuestionId("u2"), "yes"))


def test_D25_an_answer_decides_nothing() -> None:
    """Words like approve in an answer change no pending call."""
    story = paused()
    with pytest.raises(NotFound):
        decide(story.task, Answer(QuestionId(REQUEST), "approve"))


# -- cancel -------------------------------------------------------------------------------


def test_D10_a_cancel_ends_the_task_and_its_request_at_once() -> None:
    """Asked for, request closed, task ended: one transaction, with the reason in each."""
    story = paused()
    requested, closed, ended = decide(story.task, Cancel("changed my mind"))
    assert requested == facts.CancelRequested(reason="changed my mind")
    assert isinstance(closed, facts.RequestEnded)
    assert (closed.end, closed.call_ids, closed.reason) == ("canceled", ("c1", "c2"), "changed my mind")
    assert ended == facts.TaskEnded(status="Canceled", status_reason="canceled", message="changed my mind")
    story.add(requested, closed, ended)
    assert [one.state for one in story.task.calls] == []
    assert story.task.status is TaskStatus.CANCELED


def test_D11_a_cancel_erases_no_run() -> None:
    """A call that runs stays open until its outcome is known."""
    story = Journal()
    story.proposed([call("c1", path="f")], "allow")
    story.started("c1")
    made = decide(story.task, Cancel())
    assert [one.kind for one in made] == ["cancel_requested", "task_ended"]
    story.add(*made)
    assert story.record("c1").state is CallState.EXECUTING
    assert story.task.ended is not None
    assert story.task.ended.message == "Canceled."


def test_a_cancel_of_an_unknown_outcome_keeps_it_unknown() -> None:
    """Canceling says nothing about what happened in the world."""
    story = unknown()
    story.add(*decide(story.task, Cancel("enough")))
    assert story.record("c1").state is CallState.OUTCOME_UNKNOWN
    assert story.task.status is TaskStatus.CANCELED


@pytest.mark.parametrize("prepare", ["queued", "asked", "replied"])
def test_a_cancel_fits_every_phase_before_the_calls(prepare: str) -> None:
    """A task can be stopped while it waits for a worker or for the model."""
    story = Journal()
    story.submitted()
    if prepare != "queued":
        story.asked()
    if prepare == "replied":
        story.replied()
    story.add(*decide(story.task, Cancel()))
    assert story.task.status is TaskStatus.CANCELED


def test_an_ended_task_takes_no_cancel() -> None:
    """Over is over; the status says how it ended."""
    story = Journal()
    story.submitted()
    story.ended("Completed", "final")
    with pytest.raises(TaskEnded, match="Completed"):
        decide(story.task, Cancel())


def test_a_decision_is_bound_to_what_the_request_stored() -> None:
    """Each decision carries the digest of its own call, whichever form it came in."""
    story = paused()
    (recorded,) = said(story, decisions=each(("c2", "approve"), ("c1", "approve")))
    assert isinstance(recorded, facts.DecisionRecorded)
    assert {one.call_id: one.action_digest for one in recorded.decisions} == {
        "c1": digest_of("c1"),
        "c2": digest_of("c2"),
    }
    assert CallDecision(call_id=CallId("c1"), action="approve").expected_digest is None


# -- pin ---------------------------------------------------------------------------------


def test_a_task_is_pinned_and_unpinned_whatever_it_is_at() -> None:
    """Once each; the rest of it is as it was, also when it is over."""
    story = paused()
    story.add(*decide(story.task, Pin(pinned=True)))
    assert (story.task.pinned, story.task.status) == (True, TaskStatus.PAUSED)
    assert decide(story.task, Pin(pinned=True)) == ()
    for fact in decide(story.task, Cancel()):
        story.add(fact)
    story.add(*decide(story.task, Pin(pinned=False)))
    assert (story.task.pinned, story.task.status) == (False, TaskStatus.CANCELED)
    assert decide(story.task, Pin(pinned=False)) == ()
