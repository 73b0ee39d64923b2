"""Why a verdict is what it is, rule by rule."""

from orchestrator.core.policy import (
    CustomPolicy,
    CustomVerdict,
    Effect,
    FunctionCall,
    PolicyContext,
    RequestRules,
    default_policy,
    evaluate,
    explain,
)
from orchestrator.core.policy.approvals import ApprovalRule
from tests.core.policies import policy, rule, shell, write


def test_p19_each_rule_says_whether_it_matched_and_what_did_not() -> None:
    """In the order of the file, with the number that a person counts."""
    rules = policy(
        rule("allow", "all"),
        rule("ask", "others", tools=("cc_read",)),
        rule("deny", "reactor", labels=("reactor*",)),
        rule("deny", "kids", paths=("farm",), roles=("kid",)),
        rule("deny", "turtles", families=("turtle",)),
        rule("allow", "allowed-turtles", families=("turtle",)),
    )
    context = PolicyContext(computer="3", label="farm", roles=())
    told = explain(write(), policy=rules, context=context)
    assert [(one.number, one.id, one.effect.value, one.outcome, one.missed) for one in told.rules] == [
        (1, "all", "allow", "matched", ""),
        (2, "others", "ask", "no", "tools"),
        (3, "reactor", "deny", "no", "labels"),
        (4, "kids", "deny", "no", "roles"),
        (5, "turtles", "deny", "possible", "families"),
        (6, "allowed-turtles", "allow", "no", "families"),
    ]
    assert told.decision == evaluate(write(), policy=rules, context=context)
    assert (told.decision.effect, told.plan, told.custom) == (Effect.ASK, False, ())


def test_p19_what_no_rule_can_judge_is_said_of_every_rule() -> None:
    """A tool outside of the catalog, and a path that cannot be."""
    for call in (FunctionCall(tool="rm_rf"), write("../x")):
        told = explain(call)
        assert {(one.outcome, one.missed) for one in told.rules} == {("no", "call")}
        assert told.decision == evaluate(call)
        assert len(told.rules) == len(default_policy().rules)


def test_p19_plugins_and_plan_mode_are_told() -> None:
    """Each plugin that said something, with what it said; a plugin is asked once."""
    asked = []

    def night(call: FunctionCall, context: PolicyContext) -> CustomVerdict:
        asked.append(call)
        return CustomVerdict(effect=Effect.ASK, reason="night")

    custom = [CustomPolicy("night", night)]
    told = explain(shell("ls"), context=PolicyContext(plan=True), custom=custom)
    assert told.plan
    assert [(one.id, one.verdict.reason) for one in told.custom] == [("custom:night", "night")]
    assert len(asked) == 1
    assert told.decision == evaluate(shell("ls"), context=PolicyContext(plan=True), custom=custom)


def table(when: dict[str, object], *steps: dict[str, object], **more: object) -> ApprovalRule:
    """One table ``[[approvals]]``."""
    return ApprovalRule.model_validate({"when": when, "steps": steps, **more})


def test_p19_the_people_who_would_have_to_approve_are_told() -> None:
    """Every table that matches adds its steps, by the risk as it is shown, and the quorum makes up the number."""
    rules = policy(
        rule("ask", "others", risk="high"),
        rule("allow", "reads", tools=("cc_read",)),
        rule("deny", "keys", paths=("keys",)),
        requests=RequestRules(approvals=4),
        approvals=(
            table({"risks": ["high"]}, {"by": "role:reviewer", "count": 2}, escalate_after_s=60),
            table({"users": ["kid"]}, {"by": "person:ann"}),
            table({"paths": ["reactor/**"]}, {"by": "group:heads"}),
        ),
        unknown_tool="ask",
    )
    told = explain(write(), policy=rules).approval
    assert told is not None
    assert (told.need, [(step.by, step.count) for step in told.steps]) == (
        4, [("role:reviewer", 2), ("person:ann", 1), ("", 1)],
    )  # fmt: skip
    assert told.told == (
        "4 people have to approve it: 2 people with the role reviewer, then ann, then somebody who may decide."
        " After 60 s without a decision it goes to somebody with the role admin."
    )
    known = explain(write("reactor/a"), policy=rules, context=PolicyContext(user="bob")).approval
    assert known is not None
    assert [step.by for step in known.steps] == ["role:reviewer", "group:heads", ""]
    odd = explain(FunctionCall(tool="rm_rf"), policy=rules)
    assert (odd.decision.effect, odd.approval and odd.approval.told) == (
        Effect.ASK, "4 people have to approve it: 4 people who may decide.",
    )  # fmt: skip
    nobody = (FunctionCall(tool="cc_read", args={"path": "a"}), write("keys"), write("../x"))
    assert [explain(call, policy=rules).approval for call in nobody] == [None] * 3
    plain = explain(write(), policy=policy(rule("hint")))
    assert plain.approval is not None
    assert plain.approval.told == "One person has to approve it: somebody who may decide."
