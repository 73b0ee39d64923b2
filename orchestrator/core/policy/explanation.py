"""Why a verdict is what it is: each rule, whether it matched, and what about it did not (promise P19)."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from orchestrator.core.errors import UnsafePath
from orchestrator.core.policy.calls import AnyCall, PolicyContext
from orchestrator.core.policy.catalog import BUILT_IN_CATALOG, ToolCatalog, tools_of_models
from orchestrator.core.policy.document import Policy
from orchestrator.core.policy.evaluation import NO_CONTEXT, default_policy
from orchestrator.core.policy.judgement import CustomPolicy, CustomVerdict, Heard, hear, judge_heard, subject_of
from orchestrator.core.policy.match import MAYBE, YES, ReadyRule, Subject, ready
from orchestrator.core.policy.tool_spec import ToolSpec
from orchestrator.core.policy.verdicts import Effect, PolicyDecision
from orchestrator.core.values import Value

# -- Why a verdict is what it is: each rule, whether it matched, and what about it did not (promise P19)


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


# -- What a policy says nothing of: tools that are newer than its file, and roles that nobody has

ROLES: Final = ("submitter", "reviewer", "admin")
"""The roles that a token may have."""


def tools_without_a_rule(rules: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The tools of the catalog that no rule names; ``rules``: the ``tools`` of each."""
    named = {tool for tools in rules for tool in tools}
    return () if "*" in named else tuple(sorted(set(tools_of_models(BUILT_IN_CATALOG)) - named))


def told_of_gaps(tools: Sequence[str]) -> tuple[str, ...]:
    """What becomes of the calls of these tools, and what to do about it, a sentence each."""
    denied = [tool for tool in tools if not BUILT_IN_CATALOG[tool].governance.requires_hitl]
    asked = [tool for tool in tools if tool not in denied]
    lines = [f"No rule names {', '.join(denied)}: these calls are denied."] if denied else []
    lines += [f"No rule names {', '.join(asked)}: these calls wait for a person."] if asked else []
    if lines:
        lines.append("To change that, name them in `tools` of a rule; docs/policy.md has what a new file begins with.")
    return tuple(lines)


def told_of_roles(rules: Iterable[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    """The rules that name a role which no token can have, a sentence each; ``rules``: id and ``roles`` of each."""
    odd = ((rule_id, [one for one in roles if one not in ROLES]) for rule_id, roles in rules)
    return tuple(
        f"Rule {rule_id} names {', '.join(names)}: nobody can have this role. The roles are {', '.join(ROLES)}."
        for rule_id, names in odd
        if names
    )
