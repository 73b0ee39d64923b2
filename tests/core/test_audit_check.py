"""What ran and was not allowed, what was allowed and never ran, and who decided what they could not (promise A6)."""

from datetime import timedelta
from typing import Any

import pytest

from orchestrator.core.audit.check import Finding, Standing, check, standing_of
from orchestrator.core.audit.rights import GRACE, RightsBook
from orchestrator.core.policy import RiskLevel
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, QuestionId, RequestId
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.task.system_facts import GrantId, GrantRevoked, TaskPruned, TokenIssued, TokenRevoked
from tests.core.audited import ALICE, BOB, FOUND, PROGRAM, Trail, edits, granted, made, says, versions
from tests.core.journal import NOW, REQUEST, Journal, verdict

C1 = made("c1")
C2 = made("c2", path="barn", content="y")
LOOK = made("c3", "cc_read", path="farm")
SOON = NOW + timedelta(seconds=600)


def violations(trail: Trail, **more: Any) -> list[tuple[int, str]]:
    """What is against a promise."""
    return versions([one for one in check(trail.items, **more) if one.level == "violation"])


def notices(trail: Trail) -> list[tuple[int, str]]:
    """What somebody may want to know."""
    return versions([one for one in check(trail.items) if one.level == "notice"])


def asked(*calls: facts.ToolCall, **more: Any) -> Trail:
    """A trail up to the question to a person."""
    return Trail(*calls).requested(*calls, **more)


def only(found: list[Finding]) -> Finding:
    """The one finding."""
    (one,) = found
    return one


# -- in order ----------------------------------------------------------------------------


def test_a6_a_task_in_order_has_no_finding() -> None:
    """Approved by another, run as approved, once, and heard of."""
    assert check(asked(C1).approved(C1).started(C1).finished(C1).ended().items) == []
    assert check(Trail(LOOK, effect="allow").started(LOOK, digest="any").finished(LOOK).ended().items) == []
    assert check([]) == []


def test_a6_a_real_history_has_no_violation() -> None:
    """Items that the task's own fold took: rejected, stale and shown again, settled, and a question."""
    journal = Journal()
    journal.proposed([C1, C2.model_copy(update={"index": 1})], "ask", "ask")
    journal.reviewed("c1", "c2")
    reject = facts.Decision(call_id=CallId("c2"), action="reject", action_digest="action-c2", on_reject="continue")
    approve = facts.Decision(call_id=CallId("c1"), action="approve", action_digest="action-c1")
    journal.decided(approve, reject, by="bob")
    journal.started("c1")
    journal.settled("c1", "void")
    journal.started("c1")
    journal.finished("c1", ok=False, code="stale")
    journal.reviewed("c1", request_id="q2")
    journal.decided(approve, by="bob", of="q2")
    journal.started("c1")
    journal.settled("c1", "unknown", reason="it was switched off")
    journal.reviewed("c1", request_id="q3", reason="outcome_unknown")
    done = facts.Decision(call_id=CallId("c1"), action="mark_done", action_digest="action-c1")
    journal.decided(done, by="bob", of="q3")
    ask = made("c9", "ask_user", question="Which?")
    journal.proposed([ask], "allow")
    journal.question("c9")
    journal.answered()
    journal.ended()
    assert check(journal.items) == []


# -- executed without approval -----------------------------------------------------------


@pytest.mark.parametrize(
    ("trail", "why"),
    [
        (Trail(C1), "nothing had allowed it"),
        (Trail(C1, effect="deny"), "nothing had allowed it"),
        (asked(C1), "nothing had allowed it"),
        (asked(C1).decided(says(C1, "reject")), "nothing had allowed it"),
        (asked(C1).approved(C1).ended_request("stale", C1), "it was stale (so it is)"),
        (asked(C1).approved(C1).ended_request("expired", C1), "its approval expired unused"),
        (Trail(C1, effect="allow").ended_request("stale", C1, of=None), "it was stale (so it is)"),
        (asked(C1).approved(C1).requested(C1, of="q2"), "it was shown anew"),
        (asked(C1).approved(C1).decided(says(C1, "reject"), of="q2"), "it was decided otherwise (reject)"),
        (Trail(C2), "nobody had proposed it"),
    ],
)
def test_a6_what_ran_without_an_allowance_is_reported(trail: Trail, why: str) -> None:
    """Never asked, denied, not yet decided, rejected, stale, expired, shown again, or never proposed at all."""
    trail.started(C1).finished(C1)
    found = [one for one in check(trail.items) if one.what == "executed_unapproved"]
    assert (only(found).level, only(found).call_id) == ("violation", "c1")
    assert why in only(found).detail


def test_a6_what_ran_with_another_digest_is_reported() -> None:
    """One byte of what was approved differs: another digest, another call."""
    trail = asked(C1).approved(C1).started(C1, digest="0" * 64).finished(C1)
    assert violations(trail) == [(5, "executed_unapproved")]
    assert "approved by bob as something else" in only(check(trail.items)).detail


def test_a6_an_edit_allows_what_it_says_and_nothing_else() -> None:
    """The digest of the edited call runs; the original's does not any more."""
    edit, after = edits(C1, path="farm", content="better")
    assert check(asked(C1).decided(edit).started(after).finished(after).ended().items) == []
    assert violations(asked(C1).decided(edit).started(C1)) == [(5, "executed_unapproved")]


def test_a6_an_edit_of_an_unseen_target_allows_nothing() -> None:
    """It is shown first, and what is approved then may run."""
    edit, after = edits(C1, seen=False, path="barn", content="better")
    assert violations(asked(C1).decided(edit).started(after)) == [(5, "executed_unapproved")]


def test_a6_a_release_by_the_policy_allows_what_it_names() -> None:
    """As a decision does, and bound as one."""
    released = facts.ReviewNoted(what="released", request_id=REQUEST, calls=(asked(C1).shown(C1),))
    assert check(asked(C1).add(released).started(C1).finished(C1).items) == []
    assert violations(asked(C1).add(released).started(C1, digest="0" * 64)) == [(5, "executed_unapproved")]


def test_a6_a_question_without_an_allowance_is_reported() -> None:
    """What speaks to people passes the gate too."""
    ask = made("c9", "ask_user", question="Which?")
    question = facts.QuestionAsked(question_id=QuestionId("u1"), call_id=CallId("c9"), question="Which?")
    assert violations(Trail(ask).add(question)) == [(3, "executed_unapproved")]
    status = facts.StatusSent(call_id=CallId("c9"), message="Half done.")
    assert check(Trail(ask, effect="allow").add(status).items) == []


def test_b5_a_run_after_its_approval_had_ended_is_reported() -> None:
    """By the times of the items, with a second's grace for the way from the clock to the item."""
    until = NOW + timedelta(seconds=60)
    in_time = asked(C1).approved(C1, valid_until=until).started(C1, at=until + GRACE)
    assert check(in_time.finished(C1).items) == []
    late = asked(C1).approved(C1, valid_until=until).started(C1, at=until + timedelta(seconds=30))
    assert violations(late) == [(5, "executed_late")]
    assert "30 s after its approval had ended" in only(check(late.items)).detail


# -- once --------------------------------------------------------------------------------


def test_a6_a_call_that_ran_twice_under_one_approval_is_reported() -> None:
    """Two runs that both ended somewhere in the world; also where one of them is unknown."""
    twice = asked(C1).approved(C1).started(C1).finished(C1).started(C1, 2).finished(C1, 2)
    assert violations(twice) == [(8, "ran_twice")]
    unknown = asked(C1).approved(C1).started(C1).settled(C1, "unknown").started(C1, 2).settled(C1, "finished", 2)
    assert violations(unknown) == [(8, "ran_twice")]
    interrupted = asked(C1).approved(C1).started(C1).settled(C1, "interrupted").started(C1, 2).finished(C1, 2)
    assert violations(interrupted) == [(8, "ran_twice")]


def test_a6_a_run_that_never_was_gives_the_approval_back() -> None:
    """Void: it never ran; interrupted: a look left no trace. Two accounts of one run are no two runs."""
    assert check(asked(C1).approved(C1).started(C1).settled(C1, "void").started(C1, 2).finished(C1, 2).items) == []
    looked = Trail(LOOK, effect="allow").started(LOOK).settled(LOOK, "interrupted").started(LOOK, 2).finished(LOOK, 2)
    assert check(looked.items) == []
    assert check(asked(C1).approved(C1).started(C1).finished(C1).settled(C1, "finished").items) == []


def test_a6_a_run_id_that_was_used_before_is_reported() -> None:
    """An id names one run."""
    assert (6, "ran_twice") in violations(asked(C1).approved(C1).started(C1).started(C1))


def test_a6_a_result_for_a_run_that_never_started_is_reported() -> None:
    """Nothing was recorded before the world was touched, or the result is made up."""
    assert violations(asked(C1).approved(C1).finished(C1)) == [(5, "result_without_start")]
    assert violations(asked(C1).approved(C1).settled(C1, "finished")) == [(5, "result_without_start")]


def test_a6_a_run_nobody_heard_of_is_named_once_its_task_is_over() -> None:
    """As long as the task is open somebody is going to ask."""
    trail = asked(C1).approved(C1).started(C1)
    assert notices(trail) == []
    assert notices(trail.ended()) == [(5, "no_outcome")]


# -- approved and never executed ---------------------------------------------------------


@pytest.mark.parametrize(
    ("trail", "why"),
    [
        (asked(C1).approved(C1).ended(), "the task ended first"),
        (asked(C1).approved(C1).started(C1).settled(C1, "void").ended(), "the task ended first"),
        (asked(C1).approved(C1).ended_request("expired", C1), "its approval expired unused"),
        (asked(C1).approved(C1).ended_request("superseded", C1), "it was superseded (so it is)"),
    ],
)
def test_a6_what_was_approved_and_never_ran_is_reported_with_the_reason(trail: Trail, why: str) -> None:
    """The task was over, the approval was, the policy had changed: which, and who had approved."""
    one = only(check(trail.items))
    assert (one.version, one.level, one.what) == (4, "notice", "approved_not_executed")
    assert one.detail == f"Call c1 (cc_write) was approved by bob and never ran: {why}."


def test_a6_an_approval_that_was_given_again_is_reported_only_if_it_expired() -> None:
    """What went stale and then ran did run; what expired is told although a later approval was used."""
    again = {"of": "q2"}
    stale = asked(C1).approved(C1).ended_request("stale", C1).requested(C1, **again).approved(C1, **again)  # type: ignore[arg-type]
    assert notices(stale.started(C1).finished(C1).ended()) == []
    late = asked(C1).approved(C1).ended_request("expired", C1).requested(C1, **again).approved(C1, **again)  # type: ignore[arg-type]
    assert notices(late.started(C1).finished(C1).ended()) == [(4, "approved_not_executed")]


def test_a6_what_still_may_run_and_what_only_the_policy_allowed_is_not_reported() -> None:
    """The task goes on; and nobody approved what needs nobody's approval."""
    assert check(asked(C1).approved(C1).items) == []
    assert check(Trail(LOOK, effect="allow").ended().items) == []


# -- who decided -------------------------------------------------------------------------


def test_a6_a_decision_by_a_program_is_reported() -> None:
    """Only people decide, and no computer or agent lets a call run."""
    assert violations(asked(C1).approved(C1, by=PROGRAM)) == [(4, "decided_by_program")]
    assert violations(asked(C1).approved(C1, by=SYSTEM)) == [(4, "decided_by_program")]
    noted = facts.ReviewNoted(what="released", request_id=REQUEST, calls=(asked(C1).shown(C1),))
    assert violations(asked(C1).add(noted, PROGRAM)) == [(4, "decided_by_program")]
    viewed = facts.ReviewNoted(what="viewed", request_id=REQUEST)
    assert check(asked(C1).add(viewed, BOB).items) == []


def test_a6_self_approval_is_told_as_information() -> None:
    """It is the default for one person; a rejection of one's own is nothing to tell."""
    one = only(check(asked(C1).approved(C1, by=ALICE).items))
    assert (one.version, one.level, one.what) == (4, "notice", "self_approved")
    assert one.detail == "alice approved what their own task wanted: c1."
    assert check(asked(C1).decided(says(C1, "reject"), by=ALICE).items) == []


def test_a6_a_decision_after_its_expiry_is_reported() -> None:
    """Unless people had been given more time."""
    late = SOON + timedelta(seconds=5)
    assert check(asked(C1, expires_at=SOON).approved(C1, at=SOON).items) == []
    assert violations(asked(C1, expires_at=SOON).approved(C1, at=late)) == [(4, "decided_late")]
    more = facts.ReviewNoted(what="extended", request_id=REQUEST, expires_at=SOON + timedelta(seconds=60))
    assert check(asked(C1, expires_at=SOON).add(more).approved(C1, at=late).items) == []


@pytest.mark.parametrize(
    ("trail", "why"),
    [
        (Trail(C1).approved(C1), "the request did not wait for it"),
        (asked(C1).approved(C1, of="q2"), "the request did not wait for it"),
        (asked(C1).approved(C1).approved(C1), "the request did not wait for it"),
        (asked(C1).ended_request("expired", C1).approved(C1), "the request did not wait for it"),
        (asked(C1).decided(says(C1, "approve", action_digest="0" * 64)), "with another digest than was shown"),
        (asked(C1).decided(says(C2, "approve")), "the request did not wait for it"),
        (asked(C1).decided(says(made("c8"), "reject")), "the request did not wait for it"),
    ],
)
def test_a6_a_decision_on_what_was_not_shown_is_reported(trail: Trail, why: str) -> None:
    """Never requested, decided before, ended, of another request, or with another digest."""
    found = [one for one in check(trail.items) if one.what == "decided_other"]
    assert why in only(found).detail


def test_a6_a_retry_needs_an_approval_of_its_own() -> None:
    """The new call is another one; the approval of the old is spent."""
    unknown = asked(C1).approved(C1).started(C1).settled(C1, "unknown")
    again = C1.model_copy(update={"call_id": CallId("c7")})
    retried = unknown.requested(C1, of="q2", reason="outcome_unknown").decided(
        says(C1, "retry", retry_as=again.call_id), of="q2"
    )
    assert check(retried.items) == []
    assert violations(retried.started(again)) == [(9, "executed_unapproved")]
    unnamed = asked(C1).approved(C1).requested(C1, of="q2").decided(says(C1, "retry"), of="q2")
    assert notices(unnamed) == [(4, "approved_not_executed")]


# -- grants ------------------------------------------------------------------


def used(call: facts.ToolCall, grant_id: str | None = "g-1", **judged: Any) -> facts.ReviewNoted:
    """A grant stands in for a decision."""
    shown = Trail(call).shown(call, FOUND, verdict(**judged))
    given = None if grant_id is None else GrantId(grant_id)
    return facts.ReviewNoted(what="grant_used", calls=(shown,), grant_id=given)


def given(*grants: Any) -> Trail:
    """A task in which a person gave grants with the approval of c1, which ran; c4 is the same call."""
    trail = asked(C1).approved(C1, grants=grants).started(C1).finished(C1)
    return trail.add(facts.CallsProposed(explanation="", calls=(made("c4"), made("c5")), evaluations=(verdict(),) * 2))


def test_g4_what_runs_under_a_standing_approval_is_in_order() -> None:
    """It was given, stands, and covers the call."""
    trail = given(granted(C1)).add(used(made("c4"))).started(made("c4")).finished(made("c4"))
    assert check(trail.items) == []


@pytest.mark.parametrize(
    ("grants", "noted", "why"),
    [
        ((granted(C1),), used(made("c4"), None), "there is no grant None"),
        ((granted(C2),), used(made("c4")), "g-1 does not cover it"),
        ((granted(C1),), used(made("c4"), risk=RiskLevel.CRITICAL), "g-1 does not cover it"),
        ((granted(C1, expires_at=NOW),), used(made("c4")), "g-1 had expired"),
    ],
)
def test_g5_what_no_standing_approval_covers_is_reported(
    grants: tuple[Any, ...], noted: facts.ReviewNoted, why: str
) -> None:
    """None at all, one of another call, a critical call, one that was over."""
    one = only(check(given(*grants).add(noted).items))
    assert (one.level, one.what, one.version) == ("violation", "grant_misused", 8)
    assert why in one.detail


@pytest.mark.parametrize(
    ("roles", "ended", "in_order"), [("reviewer", False, True), ("reviewer", True, False), ("submitter", False, False)]
)
def test_a6_a_use_after_the_rights_of_the_giver_is_reported(roles: str, ended: bool, in_order: bool) -> None:
    """Alice gave it; her tokens ended since, or her roles never let her decide."""
    book = RightsBook()
    system = Trail().add(TokenIssued(holder_kind="person", name="alice", roles=(roles,)), at=NOW)
    if ended:
        system.add(TokenRevoked(holder_kind="person", name="alice", count=1), at=NOW + timedelta(seconds=5))
    for one in system.items:
        book.take(one)
    late = given(granted(C1)).add(used(made("c4")))
    found = [one for one in check(late.items, rights=book) if one.what == "grant_misused"]
    assert [one.version for one in found] == ([] if in_order else [8])
    assert all("alice, who gave g-1, had no role that decides at that time" in one.detail for one in found)


def test_g4_a_sibling_is_released_only_by_what_covers_it() -> None:
    """With the decision that gives a grant, siblings go only if it is for them."""
    twin = made("c2")
    both = asked(C1, twin)
    sibling = says(twin, "approve", grant_id=GrantId("g-1"))
    assert check(both.decided(says(C1, "approve"), sibling, grants=(granted(C1),)).items) == []
    other = asked(C1, C2).decided(
        says(C1, "approve"), says(C2, "approve", grant_id=GrantId("g-1")), grants=(granted(C1),)
    )
    assert violations(other) == [(4, "grant_misused")]
    unshown = Trail(C1, C2).decided(says(C2, "approve", grant_id=GrantId("g-1")), grants=(granted(C2),))
    assert (3, "grant_misused") in violations(unshown)


def test_g6_an_approval_that_another_task_gave_is_looked_up_where_all_are_known() -> None:
    """Over one task alone nothing can be said of it; over the store it exists or it does not."""
    trail = Trail(C1).add(used(C1))
    assert check(trail.items) == []
    assert violations(trail, standing=Standing()) == [(3, "grant_misused")]
    known = standing_of(given(granted(C1)).items)
    assert check(trail.items, standing=known) == []
    gone = TaskPruned(
        task_id="t9",
        version=3,
        head_hash="h",
        user_id="alice",
        created_at=NOW,
        updated_at=NOW,
        grants=(GrantId("g-1"),),
    )
    assert check(trail.items, standing=standing_of(Trail(C1).add(gone).items)) == []


def test_g6_a_run_after_its_standing_approval_was_taken_back_is_reported() -> None:
    """The system stream says when; what had started before is in order."""
    revoked = Trail(C1).add(GrantRevoked(grant_id=GrantId("g-1")), at=NOW + timedelta(seconds=30))
    known = standing_of(revoked.items, standing_of(given(granted(C1)).items))
    before = Trail(C1).add(used(C1)).started(C1).finished(C1)
    assert violations(before, standing=known) == []
    after = Trail(C1).add(used(C1)).started(C1, at=NOW + timedelta(seconds=40))
    assert violations(after, standing=known) == [(4, "grant_misused")]
    assert known.revoked == {"g-1": NOW + timedelta(seconds=30)}


def test_a6_calls_that_nobody_proposed_change_nothing() -> None:
    """Decisions, notes and ends that name an unknown call are told as such, and are no reason to fail."""
    ghost = made("c8")
    noted = facts.ReviewNoted(what="released", request_id=RequestId("q8"), calls=(Trail(C1).shown(ghost),))
    trail = Trail(C1).requested(ghost).approved(ghost).add(noted).ended_request("stale", ghost, of="q8")
    assert check(trail.items) == []
