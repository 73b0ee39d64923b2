"""The policy in a few lines for the model: which tools run at once, which wait for a person, which are denied.

Only tools are named, never rules, paths or reasons: where a rule looks at more than the task itself,
the lines say no more than that it depends on the call. The gate judges each call all the same.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from orchestrator.core.policy.calls import FunctionCall, PolicyContext
from orchestrator.core.policy.catalog import BUILT_IN_CATALOG
from orchestrator.core.policy.document import Policy
from orchestrator.core.policy.match import MAYBE, NO, YES, Match, ReadyRule, Subject
from orchestrator.core.policy.tool_spec import ToolSpec
from orchestrator.core.policy.verdicts import Effect, strictness

MAX_SUMMARY_CHARS: Final = 1000
"""No policy makes it longer: each tool stands once, below one of seven headings. A third of a thousand tokens."""
_BY_TASK: Final = frozenset({"computers", "roles", "risks"})
"""The predicates that the task and the tool decide; all others look at the call, or at what the computer says."""
_VERBS: Final[Mapping[Effect, str]] = {
    Effect.ALLOW: "run at once",
    Effect.ASK: "wait for a person",
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
    plan = plan or policy.mode == "plan"
    grouped: dict[tuple[Effect, ...], list[str]] = {}
    for spec in (one for one in BUILT_IN_CATALOG.values() if not one.planned):
        places = computers if spec.plugin == "cc" else (None,)
        outcomes: set[Effect] = set()
        for place in places:
            context = PolicyContext(computer=place, roles=tuple(roles))
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
