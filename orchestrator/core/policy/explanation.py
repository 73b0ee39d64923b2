"""The reasons of a verdict: each rule, whether it matched, and the part that did not (promise P19)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Literal

from orchestrator.core.approval.workflow import Step, told_workflow, with_quorum
from orchestrator.core.errors import UnsafePath
from orchestrator.core.policy.approvals import workflows_of
from orchestrator.core.policy.catalog import BUILT_IN_CATALOG, ToolCatalog, ToolSpec
from orchestrator.core.policy.document import Policy
from orchestrator.core.policy.evaluation import NO_CONTEXT, default_policy
from orchestrator.core.policy.judgement import CustomPolicy, CustomVerdict, Heard, hear, judge_heard, subject_of
from orchestrator.core.policy.match import (
    MAYBE,
    NO,
    YES,
    AnyCall,
    FunctionCall,
    Match,
    ReadyRule,
    Subject,
    ready,
)
from orchestrator.core.policy.verdicts import Effect, PolicyContext, PolicyDecision, strictness
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


class ApprovalReport(Value):
    """The people who would have to approve a call."""

    need: int
    """How many different people."""
    steps: tuple[Step, ...]
    """Some of them, in their order."""
    told: str
    """All of that as sentences, with the people who get it after a time."""


class Explanation(Value):
    """A verdict and how it came about."""

    decision: PolicyDecision
    plan: bool
    """Whether plan mode was on."""
    rules: tuple[RuleReport, ...]
    """Every rule of the policy, in the order of the file."""
    custom: tuple[CustomReport, ...] = ()
    approval: ApprovalReport | None = None
    """None: nobody would be asked."""


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
    decision = judge_heard(call, policy=policy, context=context, catalog=catalog, heard=heard)
    return Explanation(
        decision=decision,
        plan=policy.mode == "plan" or context.plan,
        rules=tuple(_report(number, ready(rule), call, subject) for number, rule in enumerate(policy.rules, start=1)),
        custom=tuple(CustomReport(id=one.id, verdict=one.verdict) for one in heard),
        approval=_approval(call, policy, context, decision),
    )


def _approval(call: AnyCall, policy: Policy, context: PolicyContext, decision: PolicyDecision) -> ApprovalReport | None:
    if decision.effect not in {Effect.ASK, Effect.HINT}:
        return None
    # A tool that the catalog does not have is in no table: the gate denies it whatever `unknown_tool` says.
    tables = policy.approvals if call.tool in BUILT_IN_CATALOG else ()
    found = with_quorum(workflows_of(tables, call, context, decision.risk), policy.requests.approvals)
    return ApprovalReport(need=found.need, steps=found.steps, told=told_workflow(found))


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


# -- The policy in a few lines for the model: which tools run at once, which wait for a person, which are denied
#
# Only tools are named, never rules, paths or reasons: where a rule looks at more than the task itself, the lines
# say no more than that it depends on the call. The gate judges each call all the same.

MAX_SUMMARY_CHARS: Final = 1000
"""No policy makes it longer: each tool comes once, below one of seven headings. A third of a thousand tokens."""
_BY_TASK: Final = frozenset({"computers", "roles", "risks"})
"""The predicates that the task and the tool decide; all others look at the call, or at what the computer says."""
_VERBS: Final[Mapping[Effect, str]] = {
    Effect.ALLOW: "run at once",
    Effect.ASK: "wait for a person",
    Effect.HINT: "are explained by you until the user has tried by themselves",
    Effect.DENY: "are denied",
}


def summary(
    policy: Policy,
    *,
    computers: Sequence[str] = (),
    roles: Sequence[str] = (),
    plan: bool = False,
    rehearsal: bool = False,
) -> str:
    """What the policy says of the tools of a task; the same policy and task give the same text.

    ``plan``: the task may only look. ``rehearsal``: what changes its computer waits for nobody. Tools that need a
    computer are left out where the task has none.
    """
    key = tuple(computers), tuple(roles), plan or policy.mode == "plan", rehearsal
    return policy.summary(key, partial(_summary, policy, *key))


def _summary(policy: Policy, computers: tuple[str, ...], roles: tuple[str, ...], plan: bool, rehearsal: bool) -> str:
    grouped: dict[tuple[Effect, ...], list[str]] = {}
    for spec in (one for one in BUILT_IN_CATALOG.values() if not one.planned):
        places = computers if spec.plugin == "cc" else (None,)
        outcomes: set[Effect] = set()
        for place in places:
            context = PolicyContext(computer=place, roles=roles)
            found = _outcomes(policy, spec, context, plan=plan and spec.governance.mutates)
            at_once = rehearsal and spec.plugin == "cc" and spec.governance.mutates
            outcomes |= {Effect.ALLOW if at_once and one is Effect.ASK else one for one in found}
        if outcomes:
            grouped.setdefault(tuple(sorted(outcomes, key=strictness)), []).append(spec.name)
    lines = ["The policy says of your calls now:"]
    if plan:
        lines.append("- This is read-only: whatever changes something is denied.")
    by_strictness = sorted(grouped.items(), key=lambda one: [strictness(effect) for effect in one[0]])
    lines += [f"- {', '.join(names)}: {_said(effects)}" for effects, names in by_strictness]
    if policy.custom:
        lines.append("- Plugins may be stricter.")
    if policy.undo == "auto":
        lines.append("- If the task fails or is canceled, its changes of files are taken back.")
    return "\n".join(lines)


def _said(effects: tuple[Effect, ...]) -> str:
    verbs = " or ".join(_VERBS[effect] for effect in effects)
    return verbs if len(effects) == 1 else f"{verbs}, which depends on the call"


def _outcomes(policy: Policy, spec: ToolSpec, context: PolicyContext, *, plan: bool) -> set[Effect]:
    """Every effect that the rules may have on calls of a tool; ``plan``: only calls that read may pass."""
    if plan and not spec.mixed:
        return {Effect.DENY}
    subject = Subject(FunctionCall(tool=spec.name), spec, (), context, spec.governance.risk)
    sure: set[Effect] = set()
    possible: set[Effect] = set()
    reads = False
    for one in policy.ready_rules(spec.name):
        found = _match(one, subject)
        if found is not NO:
            (possible if found is MAYBE else sure).add(one.rule.effect)
            reads = reads or one.rule.reads is True
    silent = Effect.ASK if spec.governance.requires_hitl else Effect.DENY
    least = max(sure, key=strictness, default=silent)
    effects = {least} | {effect for effect in possible if not sure or strictness(effect) > strictness(least)}
    if plan:
        return {Effect.DENY} | (effects & {Effect.ALLOW} if reads else set())
    return effects


def _match(one: ReadyRule, subject: Subject) -> Match:
    """Whether a rule matches every call of a tool, none, or some."""
    said = [predicate(subject) if name in _BY_TASK else MAYBE for name, predicate in one.predicates]
    return min(said, default=YES)
