"""What happens around a request: noted, stood in for by a grant or a policy, ended in its several ways."""

from datetime import timedelta
from typing import Any

import pytest

from orchestrator.core.approval.approval import CallState
from orchestrator.core.errors import InvalidDecision, NotPending
from orchestrator.core.task import facts
from orchestrator.core.task.states import Phase, TaskStatus
from orchestrator.core.task.task import OpenRequest
from tests.core.journal import NOW, Journal, call, decision, digest_of, person, requested
from tests.core.persons import paused, refused


def request_of(story: Journal) -> OpenRequest:
    """The open request."""
    assert story.task.request is not None
    return story.task.request


# -- noted --------------------------------------------------------------------------------


def test_A1_who_was_told_and_who_looked_is_kept() -> None:
    """Told once, looked at by each in turn; none of it decides anything."""
    story = paused()
    before = story.task.calls
    assert (request_of(story).notified, request_of(story).viewed_by) == (False, ())
    story.noted("notified")
    story.noted("viewed", by=person("bob"))
    story.noted("viewed", by=person("carol"))
    story.noted("reminded")
    now = request_of(story)
    assert (now.notified, now.viewed_by, now.reminded) == (True, ("bob", "carol"), True)
    assert (story.task.calls, story.task.phase) == (before, Phase.REVIEWING)


@pytest.mark.parametrize("what", ["notified", "viewed", "reminded", "extended"])
def test_a_note_on_another_request_changes_nothing(what: str) -> None:
    """It came late: the request that it is about is over."""
    story = paused()
    before = story.task.request
    story.noted(what, of="q0", expires_at=NOW + timedelta(days=1))
    assert story.task.request == before
    story.decided(decision("c1"), decision("c2"))
    story.noted(what, expires_at=NOW + timedelta(days=1))
    assert story.task.request is None


def test_a_note_has_no_place_outside_a_step() -> None:
    """Where the model thinks there is nothing to note."""
    story = Journal()
    story.submitted()
    with pytest.raises(InvalidDecision, match="cannot follow"):
        story.noted("viewed")


# -- stood in for -------------------------------------------------------------------------


def test_G4_a_grant_stands_in_before_anybody_is_asked() -> None:
    """The call is approved with what was found, the grant and the digest; it never had a request."""
    story = Journal()
    story.proposed([call("c1", path="a"), call("c2", index=1, path="b")], "ask", "ask")
    story.noted("grant_used", "c1", of=None, grant_id="g1", valid_until=NOW)
    record = story.record("c1")
    assert (record.state, record.grant_id, record.request_id) == (CallState.APPROVED, "g1", None)
    assert (record.action_digest, record.observed) == (digest_of("c1"), requested("c1").observed)
    assert (record.valid_until, story.task.phase) == (NOW, Phase.ACTING)
    story.add(
        facts.ToolStarted(
            call_id=record.call_id, run_id=record.next_run_id, action_digest=digest_of("c1"), grant_id=record.grant_id
        )
    )
    story.settled("c1", "void")
    assert (story.record("c1").state, story.record("c1").grant_id) == (CallState.APPROVED, "g1")


def test_G6_a_grant_that_holds_no_more_leads_back_to_a_person() -> None:
    """Revoked or spent before it started: nothing of it is left, and somebody is asked."""
    story = Journal()
    story.proposed([call("c1", path="a")], "ask")
    story.noted("grant_used", "c1", of=None, grant_id="g1")
    story.request_ended("stale", "c1", of=None, code="grant_void")
    record = story.record("c1")
    assert (record.state, record.grant_id, record.action_digest) == (CallState.STALE, None, None)
    story.reviewed("c1")
    story.decided(decision("c1"))
    assert (story.record("c1").state, story.record("c1").grant_id) == (CallState.APPROVED, None)


@pytest.mark.parametrize("how", ["heard", "settled"])
def test_B3_what_a_grant_stood_for_and_changed_is_looked_at_again(how: str) -> None:
    """As what a person approved: the grant may stand for it once more, or somebody is asked."""
    story = Journal()
    story.proposed([call("c1", path="a")], "ask")
    story.noted("grant_used", "c1", of=None, grant_id="g1")
    story.started("c1")
    if how == "heard":
        story.finished("c1", ok=False, code="stale")
    else:
        story.settled("c1", "finished", ok=False, code="stale")
    assert (story.record("c1").state, story.record("c1").grant_id) == (CallState.STALE, None)
    story.noted("grant_used", "c1", of=None, grant_id="g1")
    assert (story.record("c1").state, story.record("c1").next_run_id) == (CallState.APPROVED, "c1.2")


@pytest.mark.parametrize(
    ("what", "how"),
    [("released", "released by a changed policy"), ("grant_used", "approved by a grant")],
)
def test_D7_a_request_that_something_stood_in_for_says_so(what: str, how: str) -> None:
    """The last of its calls closes it; who comes later is told how."""
    story = paused()
    story.noted(what, "c1", grant_id="g1")
    assert request_of(story).call_ids == ("c2",)
    assert story.task.closed == ()
    story.noted(what, "c2", grant_id="g1")
    assert (story.task.request, story.task.phase) == (None, Phase.ACTING)
    assert [one.state for one in story.task.calls] == [CallState.APPROVED] * 2
    assert refused(NotPending, f"it was {how}", story, action="reject").details["how"] == how


@pytest.mark.parametrize("what", ["released", "grant_used"])
def test_D25_nothing_stands_in_for_what_is_decided(what: str) -> None:
    """A rejected, denied or executed call is not approved by a note."""
    story = Journal()
    story.proposed([call(f"c{n}", index=n, path=f"f{n}") for n in range(3)], "ask", "deny", "allow")
    story.reviewed("c0")
    for one in ("c1", "c2"):
        with pytest.raises(InvalidDecision, match="cannot take"):
            story.noted(what, one)


# -- ended --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "rest", "state", "text"),
    [
        ("expired", {"then": "continue"}, "expired", "This call did not run: so it is"),
        ("expired", {"then": "cancel"}, "expired", "This call did not run: so it is"),
        ("expired", {"then": "stay_paused"}, "stale", None),
        ("canceled", {"code": "withdrawn"}, "canceled", "This call did not run: so it is"),
        ("canceled", {}, "canceled", None),
        ("superseded", {"code": "policy"}, "superseded", "This call did not run: so it is"),
    ],
)
def test_O3_each_end_of_a_request(end: str, rest: dict[str, Any], state: str, text: str | None) -> None:
    """Its state, what the model is told, and whether the task waits on."""
    story = paused()
    story.request_ended(end, "c1", **rest)
    record = story.record("c1")
    assert (record.state, record.result, record.ok) == (state, text, None if text is None else False)
    assert (record.observed, record.action_digest, record.grant_id, record.valid_until) == (None,) * 4
    assert story.task.lapsed is None, "its sibling still waits in it"
    assert story.task.status is TaskStatus.PAUSED
    story.request_ended(end, "c2", **rest)
    lapsed = rest.get("then") == "stay_paused"
    assert (story.task.lapsed is not None) is lapsed
    assert (story.task.status is TaskStatus.PAUSED) is lapsed
    assert story.task.closed[-1].how == ("withdrawn" if rest.get("code") == "withdrawn" else end)


def test_D15_rejections_in_a_row_are_counted_by_decision() -> None:
    """Any that lets something through begins anew; an expiry or a withdrawal is none."""
    story = paused("ask", "ask", "ask", "ask", "ask")
    counts = []
    for one, verb in (("c1", "reject"), ("c2", "reject"), ("c3", "approve"), ("c4", "reject")):
        action: Any = verb
        story.decided(decision(one, action, on_reject="continue"))
        counts.append(story.task.rejected_in_a_row)
    assert counts == [1, 2, 0, 1]
    story.request_ended("expired", "c5")
    assert story.task.rejected_in_a_row == 1
