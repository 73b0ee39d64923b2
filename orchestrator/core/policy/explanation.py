"""Why a verdict is what it is: each rule, whether it matched, and what about it did not (hitl.md P19)."""

from collections.abc import Sequence
from typing import Literal

from orchestrator.core.errors import UnsafePath
from orchestrator.core.policy.calls import AnyCall, PolicyContext
from orchestrator.core.policy.catalog import BUILT_IN_CATALOG, ToolCatalog, ToolSpec
from orchestrator.core.policy.custom import CustomPolicy, CustomVerdict, Heard, hear
from orchestrator.core.policy.document import Policy
from orchestrator.core.policy.evaluation import NO_CONTEXT, default_policy
from orchestrator.core.policy.judgement import judge_heard, subject_of
from orchestrator.core.policy.match import MAYBE, YES, ReadyRule, Subject, ready
from orchestrator.core.policy.verdicts import Effect, PolicyDecision
from orchestrator.core.values import Value


class RuleReport(Value):
    """What became of one rule."""

    number: int
    """Its place in the file; the first is 1."""
    id: str
    effect: Effect
    outcome: Literal["matched", "possible", "no"]
    """``possible``: it is not known yet, so it asks where the call were allowed otherwise."""
    missed: str = ""
    """The predicate that did not match, or of which it is not known; ``call``: nothing about the call can be
    judged by rules. Empty where it matched."""


class CustomReport(Value):
    """What a plugin said."""

    id: str
    verdict: CustomVerdict


class Explanation(Value):
    """A verdict and how it came about."""

    decision: PolicyDecision
    plan: bool
    """Whether plan mode was on."""
    rules: tuple[RuleReport, ...]
    """Every rule of the policy, in the order of the file."""
    custom: tuple[CustomReport, ...] = ()


def explain(
    call: AnyCall,
    *,
    policy: Policy | None = None,
    context: PolicyContext | None = None,
    catalog: ToolCatalog = BUILT_IN_CATALOG,
    custom: Sequence[CustomPolicy] = (),
) -> Explanation:
    """The very verdict of ``evaluate``, and what each rule had to do with it. Runs nothing."""
    policy, context = policy or default_policy(), context or NO_CONTEXT
    heard = hear(custom, policy.custom, call, context)
    spec = catalog.get(call.tool)
    subject = _subject(call, spec, context, heard)
    return Explanation(
        decision=judge_heard(call, policy=policy, context=context, catalog=catalog, heard=heard),
        plan=policy.mode == "plan" or context.plan,
        rules=tuple(_report(number, ready(rule), call, subject) for number, rule in enumerate(policy.rules, start=1)),
        custom=tuple(CustomReport(id=one.id, verdict=one.verdict) for one in heard),
    )


def _subject(call: AnyCall, spec: ToolSpec | None, context: PolicyContext, heard: Sequence[Heard]) -> Subject | None:
    try:
        return None if spec is None else subject_of(call, spec, context, heard)
    except UnsafePath:
        return None


def _report(number: int, one: ReadyRule, call: AnyCall, subject: Subject | None) -> RuleReport:
    rule = one.rule
    outcome: Literal["matched", "possible", "no"] = "no"
    missed = "call" if subject is None else "tools"
    if subject is not None and rule.names(call.tool):
        found = one.outcome(subject)
        outcome = "matched" if found is YES else "possible" if found is MAYBE else "no"
        missed = one.undecided(subject)
    return RuleReport(number=number, id=rule.id, effect=rule.effect, outcome=outcome, missed=missed)
