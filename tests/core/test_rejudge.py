"""A changed policy and what waits for a decision: denied, changed, allowed, or untouched (promise P15)."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.core.approval.approval import CallState
from orchestrator.core.errors import NotPending
from orchestrator.core.policy import PolicyDecision, RequestRules, RiskLevel
from orchestrator.core.task import facts
from orchestrator.core.task.commands import Rejudge, decide
from orchestrator.core.task.effects import Observe, RunTool, next_effects
from orchestrator.core.task.facts import ToolCall
from orchestrator.core.task.states import Phase
from orchestrator.core.task.task import AgentTask
from tests.core.journal import NOW, Journal, StubLaw, decision
from tests.core.persons import bound, commanded, done, judged_as, real, refused, said, shown, unknown

CALLS = [real(f"c{n}", index=n, path=f"f{n}", content="x") for n in range(4)]


@dataclass(frozen=True)
class ByCall:
    """Verdicts by call id; a call that is not named is asked about as it was."""

    verdicts: dict[str, PolicyDecision]

    def __call__(self, task: AgentTask, call: ToolCall) -> PolicyDecision:
        return self.verdicts.get(call.call_id, judged_as(policy_version="v2"))


def active_policy(rules: dict[str, Any] | None = None, **verdicts: PolicyDecision) -> StubLaw:
    """A new policy."""
    return StubLaw(rules=RequestRules.model_validate(rules or {}), says=ByCall(verdicts), version="v2")


def rejudged(story: Journal, new: StubLaw) -> tuple[facts.Fact, ...]:
    """What the new policy amounts to, appended."""
    return commanded(story, Rejudge(active_policy=new, now=NOW))


def test_P15_a_neutral_edit_costs_no_review() -> None:
    """Another version and other words for the same verdict: nothing is recorded."""
    story = shown(*CALLS)
    new = active_policy(c0=judged_as(policy_version="v9", reason="in other words", matched_rules=("renamed",)))
    assert rejudged(story, new) == ()
    assert said(story, action="approve", active_policy=new)
    assert [program for _, program in new.asked] == ["f0", "f1", "f2", "f3"], "judged with what it resolves to"


def test_P15_what_is_denied_now_is_superseded() -> None:
    """With the reason, which the model is told; its siblings wait on in the same request."""
    story = shown(*CALLS[:2])
    (ended,) = rejudged(story, active_policy(c0=judged_as("deny", reason="not on Sundays")))
    assert isinstance(ended, facts.RequestEnded)
    assert (ended.end, ended.call_ids, ended.code) == ("superseded", ("c0",), "policy")
    record = story.record("c0")
    assert record.state is CallState.SUPERSEDED
    assert record.result == "This call did not run: The policy denies it now: not on Sundays"
    assert story.task.request is not None
    assert story.task.request.call_ids == ("c1",)


def test_P15_a_request_of_which_all_is_denied_is_over() -> None:
    """It takes no decision any more, and the model goes on with what it is told."""
    story = shown(*CALLS[:2])
    no = judged_as("deny")
    rejudged(story, active_policy(c0=no, c1=no))
    assert story.task.phase is Phase.THINKING
    refused(NotPending, "it was superseded", story, action="approve")


@pytest.mark.parametrize("judged", [judged_as(risk=RiskLevel.HIGH), judged_as(rules_digest="9" * 64)])
def test_P15_what_is_judged_otherwise_now_is_shown_again(judged: PolicyDecision) -> None:
    """Another risk or other rules: a decision on what was shown would be on something else."""
    story = shown(*CALLS[:2])
    (ended,) = rejudged(story, active_policy(c0=judged, c1=judged))
    assert isinstance(ended, facts.RequestEnded)
    assert (ended.end, ended.call_ids) == ("stale", ("c0", "c1"))
    assert next_effects(story.task) == (Observe(tuple(one.call_id for one in CALLS[:2]), "approval"),)
    refused(NotPending, "it was stale", story, action="approve")


def test_P15_what_is_allowed_now_stays_pending() -> None:
    """It never runs by itself: nothing is recorded."""
    story = shown(*CALLS[:2])
    assert rejudged(story, active_policy(c0=judged_as("allow"), c1=judged_as("allow"))) == ()
    assert [one.state for one in story.task.pending_tool_calls] == [CallState.PENDING] * 2


def test_P15_what_is_allowed_now_runs_where_the_policy_says_so() -> None:
    """Released with the digest that was shown and the approval's validity; the rest waits on."""
    story = shown(*CALLS[:2])
    (noted,) = rejudged(story, active_policy({"release_on_relax": True}, c0=judged_as("allow")))
    assert isinstance(noted, facts.ReviewNoted)
    assert (noted.what, noted.valid_until) == ("released", NOW + timedelta(seconds=900))
    assert [one.call_id for one in noted.calls] == ["c0"]
    record = story.record("c0")
    assert (record.state, record.action_digest) == (CallState.APPROVED, bound(CALLS[0]).action_digest)
    assert (record.valid_until, record.grant_id) == (noted.valid_until, None)
    assert story.task.request is not None
    assert story.task.request.call_ids == ("c1",)


def test_P15_a_request_that_was_released_is_over() -> None:
    """Who decides it later is told what became of it."""
    story = shown(CALLS[0])
    rejudged(story, active_policy({"release_on_relax": True, "approval_valid_s": 0}, c0=judged_as("allow")))
    assert story.record("c0").valid_until is None
    assert next_effects(story.task) == (RunTool(CALLS[0].call_id),)
    error = refused(NotPending, "it was released by a changed policy", story, action="reject")
    assert error.details["how"] == "released by a changed policy"


def test_P15_each_call_of_a_request_is_judged_for_itself() -> None:
    """Denied, changed, allowed and untouched in one go; what is untouched is decided as before."""
    story = shown(*CALLS)
    new = active_policy(
        {"release_on_relax": True},
        c0=judged_as("deny"),
        c1=judged_as(risk=RiskLevel.HIGH),
        c2=judged_as("allow"),
    )
    assert [one.kind for one in rejudged(story, new)] == ["request_ended", "request_ended", "review_noted"]
    assert [one.state for one in story.task.calls] == [
        CallState.SUPERSEDED,
        CallState.STALE,
        CallState.APPROVED,
        CallState.PENDING,
    ]
    done(story, action="approve")
    assert story.record("c3").state is CallState.APPROVED


def test_P15_only_what_waits_for_an_approval_is_judged() -> None:
    """Not a task without a request, not what is decided already, not what nobody knows the outcome of."""
    no = StubLaw(says=lambda task, call: judged_as("deny"))
    assert decide(Journal().task, Rejudge(active_policy=no, now=NOW)) == ()
    assert decide(unknown().task, Rejudge(active_policy=no, now=NOW)) == ()
    story = shown(*CALLS[:2])
    story.decided(decision("c0"))
    (ended,) = decide(story.task, Rejudge(active_policy=no, now=NOW))
    assert isinstance(ended, facts.RequestEnded)
    assert ended.call_ids == ("c1",)
