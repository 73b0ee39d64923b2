"""What an approval is bound to, the states of a call, and the forms that people send."""

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from orchestrator.core.approval.approval import (
    CALL_TABLE,
    DECISIONS,
    OPEN_STATES,
    CallDecision,
    CallEvent,
    CallState,
    HitlResponse,
    ResumeRequest,
    action_digest,
    call_digest,
    move,
    request_digest,
)
from orchestrator.core.errors import InvalidDecision
from orchestrator.core.policy import Effect, PolicyDecision, RiskLevel
from orchestrator.core.task.facts import DecisionAction, Observed, RequestId
from tests.core.journal import NOW, TASK, verdict

# -- digests ------------------------------------------------------------------------------

CALL: dict[str, Any] = {"tool": "cc_write", "tool_version": 1, "args": {"path": "a", "n": [1]}, "computer": "3"}
SEEN = Observed(state={"farm": "absent"})
ACTION: dict[str, Any] = {"call": "c" * 64, "user_id": "alice", "observed": SEEN, "evaluation": verdict()}


@pytest.mark.parametrize(
    "change",
    [
        {"tool": "cc_delete"},
        {"tool_version": 2},
        {"args": {"path": "b", "n": [1]}},
        {"args": {"path": "a", "n": [2]}},
        {"args": {"path": "a"}},
        {"args": {"path": "a", "n": [1], "x": None}},
        {"computer": "4"},
        {"computer": None},
    ],
)
def test_B1_a_call_digest_changes_with_everything_that_makes_the_call(change: dict[str, Any]) -> None:
    """Tool, tool version, any argument at any depth, and the computer are in it."""
    assert call_digest(**{**CALL, **change}) != call_digest(**CALL)


def test_B1_a_call_digest_is_canonical() -> None:
    """The order in which arguments were written does not matter; the value is pinned, since journals keep it."""
    assert call_digest(**{**CALL, "args": {"n": [1], "path": "a"}}) == call_digest(**CALL)
    assert call_digest(**CALL) == "2ec6478e42873a62503df5b53d4bec8b87fe4edbed25646ba1798d34cd43bf83"


@pytest.mark.parametrize(
    ("tool", "path", "same"),
    [
        ("cc_write", "/x/..//a", True),
        ("cc_write", "A", False),
        ("cc_write", "../a", False),
        ("cc_write", 5, False),
        ("local_write", "./a", False),
        ("a_tool_of_tomorrow", "./a", False),
    ],
)
def test_D15_a_call_is_the_same_however_its_path_is_spelled(tool: str, path: Any, same: bool) -> None:
    """The game reads the spellings of a path as one file, this host may not, and what is no path is like no other."""
    spelled = call_digest(**{**CALL, "tool": tool, "args": {"path": path, "n": [1]}})
    assert (spelled == call_digest(**{**CALL, "tool": tool})) is same


@pytest.mark.parametrize(
    "change",
    [
        {"call": "d" * 64},
        {"user_id": "bob"},
        {"observed": Observed(state={"farm": "0" * 64})},
        {"observed": Observed(state={"barn": "absent"})},
        {"observed": Observed(state={"farm": "absent", "barn": "absent"})},
        {"observed": Observed(state={})},
        {"evaluation": verdict().model_copy(update={"effect": Effect.ALLOW})},
        {"evaluation": verdict().model_copy(update={"risk": RiskLevel.HIGH})},
        {"evaluation": verdict().model_copy(update={"rules_digest": "0" * 64})},
    ],
)
def test_B1_an_action_digest_changes_with_everything_that_was_decided(change: dict[str, Any]) -> None:
    """The call, for whom, what was found, effect, risk and the content of the matched rules are in it."""
    assert action_digest(**{**ACTION, **change}) != action_digest(**ACTION)


def test_B6_which_computer_it_was_is_in_the_digest() -> None:
    """Another computer under the same name has another digest; without an identity it is as it always was."""
    one, other = (SEEN.model_copy(update={"identity": name}) for name in ("one", "other"))
    digests = {action_digest(**{**ACTION, "observed": seen}) for seen in (SEEN, one, other)}
    assert len(digests) == 3


def test_P15_the_version_of_the_policy_is_not_in_the_digest() -> None:
    """A neutral edit of the policy, or of what is only shown, costs no new review."""
    neutral = verdict().model_copy(update={"policy_version": "v2", "reason": "in other words", "matched_rules": ("x",)})
    assert action_digest(**{**ACTION, "evaluation": neutral}) == action_digest(**ACTION)
    shown = SEEN.model_copy(update={"note": "a note", "directories": ("farm",), "encoding": "latin-1"})
    assert action_digest(**{**ACTION, "observed": shown}) == action_digest(**ACTION)
    assert action_digest(**ACTION) == "ec9217ef0b91b7deb5625e14f22f4ec885992d8ccbae7340c04a884a8f96a0ad"


def test_the_digest_of_a_request() -> None:
    """One call: its own digest; several: over all of them in their order."""
    assert request_digest(("a",)) == "a"
    many = {request_digest(digests) for digests in [("a", "b"), ("b", "a"), ("a", "b", "c"), ("ab",), ()]}
    assert len(many) == 5


# -- the table of calls -------------------------------------------------------------------

TABLE = {
    "proposed": {"review": "pending", "grant": "approved", "superseded": "superseded", "canceled": "canceled"},
    "allowed": {
        "start": "executing",
        "succeed": "executed",
        "ask": "asking",
        "stale": "stale",
        "superseded": "superseded",
        "canceled": "canceled",
    },
    "pending": {
        "approve": "approved",
        "edit": "approved",
        "respond": "answered",
        "reject": "rejected",
        "stale": "stale",
        "expired": "expired",
        "superseded": "superseded",
        "canceled": "canceled",
    },
    "approved": {
        "start": "executing",
        "succeed": "executed",
        "ask": "asking",
        "stale": "stale",
        "lapse": "stale",
        "superseded": "superseded",
        "canceled": "canceled",
    },
    "stale": {"review": "pending", "grant": "approved", "superseded": "superseded", "canceled": "canceled"},
    "executing": {
        "succeed": "executed",
        "fail": "failed",
        "stale": "stale",
        "void": "approved",
        "interrupted": "approved",
        "unknown": "outcome_unknown",
    },
    "outcome_unknown": {
        "review": "outcome_unknown",
        "check": "outcome_unknown",
        "mark_done": "executed",
        "mark_failed": "failed",
        "retry": "superseded",
        "canceled": "outcome_unknown",
    },
    "asking": {"answer": "answered", "canceled": "canceled"},
}
FINAL = {"rejected", "expired", "canceled", "superseded", "executed", "failed", "denied_by_policy", "answered"}


@pytest.mark.parametrize("state", CallState)
@pytest.mark.parametrize("event", get_args(CallEvent))
def test_every_state_of_a_call_with_every_event(state: CallState, event: CallEvent) -> None:
    """What the table allows leads where it says, anything else is refused; final states take nothing."""
    target = TABLE.get(state.value, {}).get(event)
    if target is None:
        with pytest.raises(InvalidDecision, match=f"{state.value} cannot take '{event}'"):
            move(state, event)
    else:
        assert move(state, event) == target


def test_open_states_are_those_with_a_row() -> None:
    """Every state is either open or final, and nothing but a person's verbs leads out of an unknown outcome."""
    assert {state.value for state in OPEN_STATES} == set(TABLE)
    assert {state.value for state in CallState} - set(TABLE) == FINAL
    leaving = {event for event, target in CALL_TABLE[CallState.OUTCOME_UNKNOWN].items() if target != "outcome_unknown"}
    assert leaving == {"mark_done", "mark_failed", "retry"}


def test_E1_only_an_allowance_leads_to_execution() -> None:
    """Nothing but an allowed or approved call starts; people approve what is pending, a grant what waits unseen."""
    events = get_args(CallEvent)
    starting = {state for state in CallState for event in events if CALL_TABLE.get(state, {}).get(event) == "executing"}
    assert starting == {CallState.ALLOWED, CallState.APPROVED}
    for verb, states in (("approve", {"pending"}), ("edit", {"pending"}), ("grant", {"proposed", "stale"})):
        assert {state.value for state, row in CALL_TABLE.items() if verb in row} == states


def test_E3_each_reason_has_its_verbs() -> None:
    """An approval is decided, an unknown outcome is told; no verb is for both, and none is left out."""
    assert DECISIONS == {
        "approval": ("approve", "reject", "edit", "respond"),
        "outcome_unknown": ("check", "mark_done", "mark_failed", "retry"),
    }
    assert sorted(verb for verbs in DECISIONS.values() for verb in verbs) == sorted(get_args(DecisionAction))


# -- the forms that people send -----------------------------------------------------------


def test_D2_a_body_has_one_of_two_forms() -> None:
    """One action for all calls, or a decision for each; neither and both are refused."""
    whole = ResumeRequest.model_validate_json('{"action": "approve"}')
    assert (whole.action, whole.decisions, whole.expected_digest, whole.idempotency_key) == ("approve", None, None, "")
    each = ResumeRequest.model_validate_json('{"decisions": [{"call_id": "c1", "action": "reject", "reason": "no"}]}')
    assert each.decisions is not None
    assert (each.decisions[0].reason, each.decisions[0].on_reject) == ("no", None)
    for body in ("{}", '{"action": "approve", "decisions": [{"call_id": "c1", "action": "approve"}]}'):
        with pytest.raises(ValidationError, match="either action or decisions"):
            ResumeRequest.model_validate_json(body)


@pytest.mark.parametrize(
    "body",
    [
        '{"action": "Approve"}',
        '{"action": "approve", "user": "bob"}',
        '{"action": "escalate"}',
        '{"action": "respond"}',
        '{"action": "edit"}',
        '{"decisions": [{"call_id": "c1", "action": "respond", "answer": "' + "x" * 20001 + '"}]}',
        '{"decisions": [{"call_id": "c1", "action": "respond"}]}',
        '{"decisions": [{"call_id": "c1", "action": "approve", "answer": "yes"}]}',
        '{"decisions": [{"call_id": "c1", "action": "edit"}]}',
        '{"decisions": [{"call_id": "c1", "action": "approve", "args": {}}]}',
        '{"decisions": [{"call_id": "c1", "action": "edit", "args": {}, "tool": "cc_delete"}]}',
        '{"decisions": [{"call_id": "c1", "action": "edit", "args": {}, "computer": "4"}]}',
        '{"decisions": [{"call_id": "c1", "action": "reject", "remember": {"scope": "call"}}]}',
        '{"decisions": [{"call_id": "c1", "action": "approve", "remember": {"scope": "forever"}}]}',
        '{"action": "reject", "on_reject": "maybe"}',
        '{"decisions": []}',
        '{"decisions": [{"call_id": "c1"}]}',
        '{"decisions": [{"call_id": "c1", "action": "approve", "by": "bob"}]}',
        '{"action": "reject", "reason": "' + "x" * 2001 + '"}',
        '{"decisions": [{"call_id": "c1", "action": "reject", "reason": "' + "x" * 2001 + '"}]}',
        '{"action": "reject", "idempotency_key": "' + "x" * 201 + '"}',
    ],
)
def test_D1_a_body_that_is_no_decision_is_refused(body: str) -> None:
    """Unknown verbs and fields, empty lists and texts over their limit are no decision (R1: nobody names themself)."""
    with pytest.raises(ValidationError):
        ResumeRequest.model_validate_json(body)


def test_the_public_view_has_the_seven_fields_of_the_seeds() -> None:
    """`HitlResponse` keeps the seeds' names and sentence, and says which verbs it takes."""
    shown = HitlResponse(
        task_id=TASK,
        session_id="s1",
        request_id=RequestId("q1"),
        approval_url="/v1/approve/q1",
        rejection_url="/v1/reject/q1",
        tool_calls=(),
        risk=RiskLevel.LOW,
        policy_version="v1",
        action_digest="d",
        requester="alice",
        goal="fix",
        explanation="",
        created_at=NOW,
    )
    seven = {"task_id", "session_id", "request_id", "message", "approval_url", "rejection_url", "tool_calls"}
    assert seven <= set(shown.model_dump())
    assert shown.message == "Human intervention required."
    assert shown.allowed_decisions == ("approve", "reject", "edit", "respond")
    assert shown.informational == ("goal", "explanation", "context")
    assert HitlResponse.model_validate_json(shown.model_dump_json()) == shown


def test_values_of_a_decision_are_frozen() -> None:
    """A decision, once read, cannot be altered on its way."""
    one = CallDecision.model_validate({"call_id": "c1", "action": "approve"})
    judged: PolicyDecision = verdict()
    for target, name in ((one, "action"), (judged, "effect")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(target, name, "allow")
