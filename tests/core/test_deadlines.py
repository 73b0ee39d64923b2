"""What time alone does: reminders, requests that expire, approvals that nobody used; and what people do about it."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from orchestrator.core.approval.approval import CallState
from orchestrator.core.approval.workflow import Workflow
from orchestrator.core.errors import InvalidDecision, InvalidRequest, NotPending, RequestExpired, TaskEnded
from orchestrator.core.task import facts
from orchestrator.core.task.commands import Cancel, Extend, Renew, Thaw, Withdraw, decide
from orchestrator.core.task.effects import AskModel, AwaitReview, Observe, next_effects
from orchestrator.core.task.facts import RequestId
from orchestrator.core.task.fold import fold
from orchestrator.core.task.limits import next_deadline, overdue
from orchestrator.core.task.states import Phase, TaskStatus
from orchestrator.core.task.task import OpenRequest
from tests.core.journal import NOW, REQUEST, Journal, call, decision
from tests.core.persons import commanded, each, paused, refused, said, unknown

END = NOW + timedelta(hours=1)
REMIND = END - timedelta(minutes=10)
TICK = timedelta(microseconds=1)
NOBODY = (
    "This call did not run: Nobody answered the request for a person's decision in time. "
    "That is not a rejection: nobody looked at it."
)


def waiting(*effects: str, **rest: Any) -> Journal:
    """A request that expires in an hour and is reminded of ten minutes before."""
    return paused(*effects, **{"expires_at": END, "remind_at": REMIND, **rest})


def until(story: Journal, now: datetime) -> list[str]:
    """All that time has done by ``now``, appended: the kinds of facts, in turn."""
    kinds: list[str] = []
    while made := overdue(story.task, now):
        story.add(*made)
        kinds += [one.kind for one in made]
        assert len(kinds) < 20, "time never comes to rest"
    return kinds


def request_of(story: Journal) -> OpenRequest:
    """The request that waits."""
    assert story.task.request is not None
    return story.task.request


def approved(**rest: Any) -> Journal:
    """c1 is approved until END, c2 still waits in a request without a deadline."""
    story = paused(**rest)
    story.decided(decision("c1"), valid_until=END)
    return story


# -- what is due, and when ----------------------------------------------------------------


def test_O4_a_reminder_fires_once_before_the_expiry() -> None:
    """At its time, not before and not twice; the deadline is what comes next."""
    story = waiting()
    assert next_deadline(story.task) == REMIND
    assert overdue(story.task, REMIND - TICK) == ()
    assert overdue(story.task, REMIND) == (facts.ReviewNoted(what="reminded", request_id=RequestId(REQUEST)),)
    assert until(story, REMIND) == ["review_noted"]
    assert (next_deadline(story.task), overdue(story.task, END - TICK)) == (END, ())
    assert story.task.request is not None
    assert story.task.request.reminded


def test_O7_exactly_at_the_deadline_it_is_expired() -> None:
    """The moment at which a decision is refused is the one at which the expiry is due, and none lies between."""
    story = waiting()
    for now, decided in ((END - TICK, True), (END, False)):
        expiry = any(isinstance(one, facts.RequestEnded) for one in overdue(story.task, now))
        assert expiry is not decided
        if decided:
            assert said(story, action="approve", now=now)
        else:
            refused(RequestExpired, "expired at", story, action="approve", now=now)


def test_O5_what_passed_while_nothing_ran_is_due_at_once() -> None:
    """Days later, from the items alone: no reminder of what is over, only the expiry."""
    story = waiting()
    again = fold(story.items)
    assert overdue(again, END + timedelta(days=9)) == overdue(story.task, END)
    assert until(story, END + timedelta(days=9)) == ["request_ended"]
    assert overdue(story.task, END + timedelta(days=99)) == ()


def test_a_request_without_a_deadline_waits_for_ever() -> None:
    """Nothing is due, not ever; nor of a task that waits for no person."""
    story = paused()
    assert (next_deadline(story.task), overdue(story.task, END + timedelta(days=9999))) == (None, ())
    assert next_deadline(Journal().task) is None
    assert next_deadline(unknown().task) is None


def test_nothing_is_due_of_a_task_that_ended() -> None:
    """Whatever was approved or open then."""
    story = approved(expires_at=END)
    assert next_deadline(story.task) == END
    story.ended()
    assert (next_deadline(story.task), overdue(story.task, END)) == (None, ())


# -- a request expires --------------------------------------------------------------------


def test_O2_expired_is_not_rejected() -> None:
    """By the system; the model hears that nobody answered, and no rejection is counted or remembered."""
    story = waiting(on_timeout="continue")
    assert until(story, END) == ["request_ended"]
    assert (story.task.phase, story.task.lapsed) == (Phase.THINKING, None)
    assert [text for _, text in story.task.turns[-1].results] == [NOBODY, NOBODY]
    assert (story.task.rejections, story.task.rejected_in_a_row) == ((), 0)
    assert next_effects(story.task) == (AskModel(1),)


def test_O3_an_expiry_may_cancel_the_task() -> None:
    """Its request closed and the task ended, in one go."""
    story = waiting(on_timeout="cancel")
    ended, over = overdue(story.task, END)
    assert isinstance(ended, facts.RequestEnded)
    assert (ended.end, ended.call_ids, ended.then) == ("expired", ("c1", "c2"), "cancel")
    assert isinstance(over, facts.TaskEnded)
    assert until(story, END) == ["request_ended", "task_ended"]
    assert (story.task.status, story.task.status_reason) == (TaskStatus.CANCELED, "expired")


def test_O3_an_expiry_may_keep_the_task_waiting() -> None:
    """Paused, with nothing to decide, until somebody asks again; then its calls are looked at anew (D9)."""
    story = waiting(on_timeout="stay_paused")
    until(story, END)
    task = story.task
    assert (task.status, task.status_reason, task.phase) == (
        TaskStatus.PAUSED,
        "nobody answered in time",
        Phase.REVIEWING,
    )
    assert (task.request, task.lapsed, next_deadline(task)) == (None, REQUEST, None)
    assert next_effects(task) == (AwaitReview(RequestId(REQUEST)),)
    assert [(one.state, one.observed) for one in task.calls] == [(CallState.STALE, None)] * 2
    assert (
        "a new request can be raised" in refused(RequestExpired, "it expired", story, action="approve", now=END).remedy
    )
    assert commanded(story, Renew(request_id=RequestId(REQUEST))) == (
        facts.ReviewNoted(what="renewed", request_id=RequestId(REQUEST)),
    )
    assert (story.task.phase, story.task.lapsed, story.task.status) == (Phase.ACTING, None, TaskStatus.RUNNING)
    assert next_effects(story.task) == (Observe(tuple(one.call_id for one in task.calls), "approval"),)
    story.reviewed("c1", "c2", request_id="q2")
    assert said(story, request="q2", action="approve")
    refused(RequestExpired, "it expired", story, action="approve")


def test_D5_what_was_decided_before_the_expiry_stays_decided() -> None:
    """Only what still waited expires; what was approved runs or waits by its own validity."""
    story = waiting(on_timeout="stay_paused")
    story.decided(decision("c1"), valid_until=END + timedelta(minutes=5))
    until(story, END)
    assert [one.state.value for one in story.task.calls] == ["approved", "stale"]
    assert next_deadline(story.task) == END + timedelta(minutes=5)
    assert until(story, END + timedelta(minutes=5)) == ["request_ended"]
    assert [one.state.value for one in story.task.calls] == ["stale", "stale"]
    assert story.task.lapsed == REQUEST
    commanded(story, Renew(request_id=RequestId(REQUEST)))
    assert next_effects(story.task) == (Observe(tuple(one.call_id for one in story.task.calls), "approval"),)


def test_a_task_that_lapsed_and_ended_is_not_renewed() -> None:
    """Over is over."""
    story = waiting(on_timeout="stay_paused")
    until(story, END)
    commanded(story, Cancel("enough"))
    assert story.task.lapsed is None
    with pytest.raises(TaskEnded, match="Canceled"):
        decide(story.task, Renew(request_id=RequestId(REQUEST)))
    refused(RequestExpired, "it expired", story, action="approve")


def test_only_what_lapsed_is_renewed() -> None:
    """An open request, one that was decided and one that is nobody's are not."""
    story = waiting()
    for name in (REQUEST, "q9"):
        with pytest.raises(NotPending, match="no longer open"):
            decide(story.task, Renew(request_id=RequestId(name)))
    story.decided(decision("c1"), decision("c2"))
    with pytest.raises(NotPending, match="approved by alice"):
        decide(story.task, Renew(request_id=RequestId(REQUEST)))


# -- an approval lapses -------------------------------------------------------------------


def test_B5_an_approval_that_was_not_used_in_time_is_asked_again() -> None:
    """It does not run late: it is looked at and shown anew, under a new request (B7)."""
    story = paused("ask")
    story.decided(decision("c1"), valid_until=END)
    assert (next_deadline(story.task), overdue(story.task, END - TICK)) == (END, ())
    (ended,) = overdue(story.task, END)
    assert isinstance(ended, facts.RequestEnded)
    assert (ended.request_id, ended.end, ended.code) == (REQUEST, "expired", "approval_expired")
    until(story, END)
    record = story.record("c1")
    assert (record.state, record.action_digest, record.observed, record.valid_until) == (CallState.STALE, *[None] * 3)
    assert (story.task.phase, story.task.lapsed) == (Phase.ACTING, None)
    assert next_effects(story.task) == (Observe((record.call_id,), "approval"),)
    story.reviewed("c1", request_id="q2")
    assert refused(NotPending, "approved by alice", story, by="bob", action="approve").details["decided_by"] == "alice"


def test_B7_an_approval_that_lapses_beside_an_open_request_leaves_it_open() -> None:
    """Its sibling is decided as before; what lapsed is shown after."""
    story = approved()
    until(story, END)
    assert story.task.request is not None
    assert (story.task.request.call_ids, story.task.phase) == (("c2",), Phase.REVIEWING)
    assert story.record("c1").state is CallState.STALE


def test_B7_approvals_of_two_requests_lapse_one_after_the_other() -> None:
    """Each is ended under the request that it was decided in."""
    story = paused()
    story.request_ended("stale", "c2")
    story.decided(decision("c1"), valid_until=END)
    story.reviewed("c2", request_id="q2")
    story.decided(decision("c2"), of="q2", valid_until=END + TICK)
    first = overdue(story.task, END + TICK)
    assert [(one.request_id, one.call_ids) for one in first if isinstance(one, facts.RequestEnded)] == [("q1", ("c1",))]
    assert until(story, END + TICK) == ["request_ended", "request_ended"]
    assert {one.state for one in story.task.calls} == {CallState.STALE}


def test_B7_a_run_that_never_was_gives_back_what_is_left_of_its_time() -> None:
    """A void run does not begin the validity anew."""
    story = paused("ask")
    story.decided(decision("c1"), valid_until=END)
    story.started("c1")
    assert next_deadline(story.task) is None
    story.settled("c1", "void")
    assert next_deadline(story.task) == END
    assert until(story, END) == ["request_ended"]


def test_an_approval_without_a_limit_stands() -> None:
    """Where the policy has none."""
    story = paused("ask")
    story.decided(decision("c1"))
    assert (next_deadline(story.task), overdue(story.task, END + timedelta(days=999))) == (None, ())


# -- people ask for more time, or take it back --------------------------------------------


def test_O4_more_time_moves_the_reminder_along() -> None:
    """It fires again, as long before the new deadline; the old one passes."""
    story = waiting()
    until(story, REMIND)
    later = END + timedelta(hours=3)
    made = commanded(story, Extend(request_id=RequestId(REQUEST), expires_at=later, now=REMIND))
    assert made == (facts.ReviewNoted(what="extended", request_id=RequestId(REQUEST), expires_at=later),)
    assert story.task.request is not None
    assert (story.task.request.expires_at, story.task.request.reminded) == (later, False)
    assert next_deadline(story.task) == later - timedelta(minutes=10)
    assert overdue(story.task, END) == ()
    assert until(story, later - timedelta(minutes=10)) == ["review_noted"]
    assert until(story, later) == ["request_ended"]


def test_O4_a_freeze_moves_the_deadline_by_its_own_time() -> None:
    """Also where the deadline passed meanwhile; of a request that was asked in the freeze only what it waited."""
    frozen = timedelta(days=2)
    story = waiting()
    asked_at = request_of(story).created_at
    made = commanded(story, Thaw(since=NOW - timedelta(days=9), now=asked_at + frozen))
    assert made == (facts.ReviewNoted(what="extended", request_id=RequestId(REQUEST), expires_at=END + frozen),)
    story = waiting()
    commanded(story, Thaw(since=NOW + timedelta(seconds=30), now=NOW + frozen))
    assert request_of(story).expires_at == END + frozen - timedelta(seconds=30)
    assert decide(paused().task, Thaw(since=NOW, now=END)) == (), "it has no deadline"
    story = waiting()
    commanded(story, Cancel())
    assert decide(story.task, Thaw(since=NOW, now=END)) == (), "nothing waits"
    story = waiting(workflow=Workflow(escalate_after_s=900), escalate_at=REMIND)
    commanded(story, Thaw(since=asked_at, now=asked_at + frozen))
    assert request_of(story).team.escalate_at == REMIND + frozen


def test_O4_a_request_without_a_reminder_gets_none_by_more_time() -> None:
    """Only its end moves."""
    story = waiting(remind_at=None)
    commanded(story, Extend(request_id=RequestId(REQUEST), expires_at=END + TICK, now=NOW))
    assert next_deadline(story.task) == END + TICK


def test_O4_more_time_can_be_refused() -> None:
    """An earlier time, a request without an end, one that is over, and one that nobody has recorded as over."""
    story = waiting()

    def extend(expires_at: datetime, now: datetime = NOW, name: str = REQUEST) -> Extend:
        return Extend(request_id=RequestId(name), expires_at=expires_at, now=now)

    for wrong, kind, words in (
        (extend(END), InvalidRequest, "later than that already"),
        (extend(END + TICK, now=END), RequestExpired, "expired at"),
        (extend(END + TICK, name="q9"), NotPending, "the task is Paused"),
    ):
        with pytest.raises(kind, match=words):
            decide(story.task, wrong)
    with pytest.raises(NotPending, match="does not expire"):
        decide(paused().task, extend(END))
    story.add(facts.ReviewNoted(what="extended", request_id=RequestId(REQUEST)))
    assert story.task.request is not None
    assert story.task.request.expires_at == END, "a note without a time moves nothing"


def test_D24_a_request_can_be_taken_back() -> None:
    """Its calls do not run and the model hears who took it back; the task goes on, and it is no rejection."""
    story = paused()
    (made,) = commanded(story, Withdraw(request_id=RequestId(REQUEST), by="alice"))
    assert isinstance(made, facts.RequestEnded)
    assert (made.end, made.code, made.call_ids) == ("canceled", "withdrawn", ("c1", "c2"))
    assert story.task.phase is Phase.THINKING
    told = "This call did not run: alice took the request back before anybody decided."
    assert [text for _, text in story.task.turns[-1].results] == [told, told]
    assert story.task.rejections == ()
    refused(NotPending, "it was withdrawn", story, action="approve")
    with pytest.raises(NotPending):
        decide(story.task, Withdraw(request_id=RequestId(REQUEST), by="alice"))


def test_D24_what_was_decided_before_is_not_taken_back() -> None:
    """Only what still waits is."""
    story = paused()
    story.decided(decision("c1"))
    commanded(story, Withdraw(request_id=RequestId(REQUEST), by="alice"))
    assert [one.state.value for one in story.task.calls] == ["approved", "canceled"]


def test_E3_an_unknown_outcome_is_not_taken_back() -> None:
    """It happened or it did not; somebody has to say."""
    story = unknown()
    with pytest.raises(InvalidDecision, match="not known"):
        decide(story.task, Withdraw(request_id=RequestId(REQUEST), by="alice"))
    assert said(story, decisions=each(("c1", "check")))


def test_O6_waiting_for_a_person_costs_no_time() -> None:
    """Neither while a request is open nor after it lapsed."""
    story = waiting(on_timeout="stay_paused")
    before = story.task.active_s
    until(story, END)
    assert story.task.active_until(END + timedelta(days=3)) == before == story.task.active_s


def test_a_question_beside_a_lapsed_request_is_still_answered() -> None:
    """It waits for its own person."""
    story = Journal()
    calls = [call("a", "ask_user", computer=None, question="?"), call("c1", index=1, path="f")]
    story.proposed(calls, "allow", "ask")
    story.reviewed("c1", expires_at=END)
    story.question("a")
    until(story, END)
    assert story.task.phase is Phase.REVIEWING
    story.answered()
    assert (story.record("a").state, story.task.phase) == (CallState.ANSWERED, Phase.REVIEWING)


def test_a_lapsed_request_of_which_nothing_is_left_keeps_nothing_waiting() -> None:
    """Its calls ended otherwise: there is nothing to ask again, and the model goes on."""
    story = waiting("ask", on_timeout="stay_paused")
    until(story, END)
    story.request_ended("superseded", "c1")
    assert (story.task.phase, story.task.lapsed) == (Phase.THINKING, None)
    with pytest.raises(RequestExpired):
        decide(story.task, Renew(request_id=RequestId(REQUEST)))
