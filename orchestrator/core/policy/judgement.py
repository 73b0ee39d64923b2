"""The verdict on one call: every rule that matches, put together, the strictest wins.

Theory. Silence never allows: a tool outside the catalog, an argument that cannot be made canonical
and a call that no rule covers are denied, and a tool whose governance says ``requires_hitl`` asks
even when no rule covers it. Rules are put together by the strictest effect and the highest risk,
so their order means nothing and one more rule never loosens (promise P3). A rule that asks or
denies and of which it is not known yet whether it matches asks, where the call were allowed
otherwise, and leaves the risk alone: the gate judges again when the computer has told what was
missing. Plugins come last
and only make it stricter. In plan mode every tool that changes something is denied, whatever else
was said (promise P18); of a tool that may read or change, the rule that allows a call says which (``reads``).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Final, NamedTuple

from orchestrator.core.errors import UnsafePath
from orchestrator.core.policy.catalog import ToolCatalog, ToolSpec, tools_of_models
from orchestrator.core.policy.document import Policy
from orchestrator.core.policy.match import MAYBE, NO, AnyCall, FunctionCall, ReadyRule, Subject
from orchestrator.core.policy.rules import CUSTOM_PREFIX, PolicyRule
from orchestrator.core.policy.verdicts import (
    Effect,
    PolicyContext,
    PolicyDecision,
    RiskLevel,
    digest_of,
    severity,
    strictness,
)
from orchestrator.core.text.paths import canonical_path
from orchestrator.core.values import Value, immutable

# -- Verdicts of plugins: Python functions that may make the gate stricter, never looser

logger = logging.getLogger(__name__)


class CustomVerdict(Value):
    """What a plugin says of a call; ``allow`` changes nothing, since only a rule of the file can allow."""

    effect: Effect | None = None
    """None: it only has something to say of the risk."""
    risk: RiskLevel | None = None
    """Raises the risk; never lowers it."""
    reason: str = ""


CustomJudge = Callable[[FunctionCall, PolicyContext], CustomVerdict | None]
"""Judges one call; None: nothing to say. It has to be quick, and to say the same of the same call."""

_FAILED: Final = CustomVerdict(effect=Effect.ASK, risk=RiskLevel.HIGH)


@immutable
class CustomPolicy:
    """A plugin by the name under which a policy asks for it."""

    name: str
    judge: CustomJudge

    @property
    def id(self) -> str:
        """Its name among the matched rules."""
        return f"{CUSTOM_PREFIX}{self.name}"


@immutable
class Heard:
    """What one plugin said."""

    id: str
    verdict: CustomVerdict


def hear(
    custom: Sequence[CustomPolicy], named: Sequence[str], call: AnyCall, context: PolicyContext
) -> tuple[Heard, ...]:
    """What the plugins say, those that a policy named but that are not there included (promise P12)."""
    given = {rule.name for rule in custom}
    missing = [
        Heard(f"{CUSTOM_PREFIX}{name}", _FAILED.model_copy(update={"reason": f"The plugin {name} is not loaded."}))
        for name in named
        if name not in given
    ]
    said = ((rule, _said(rule, call, context)) for rule in custom)
    return (*(Heard(rule.id, verdict) for rule, verdict in said if verdict is not None), *missing)


def _said(rule: CustomPolicy, call: AnyCall, context: PolicyContext) -> CustomVerdict | None:
    why = "failed"
    try:
        verdict: object = rule.judge(FunctionCall(tool=call.tool, args=deepcopy(dict(call.args))), context)
        if verdict is None or isinstance(verdict, CustomVerdict):
            return verdict
        why = "gave no verdict"
    except Exception:
        logger.exception("The plugin %s failed on a call of %s", rule.name, call.tool)
    return _FAILED.model_copy(update={"reason": f"The plugin {rule.name} {why}, so a person decides."})


# -- The verdict on one call: every rule that matches, put together, the strictest wins

PLAN_MODE: Final = "plan_mode"
"""The reason of what plan mode denies."""
_DOES_AS: Final = {("cc_restore", "absent"): "cc_delete", ("cc_restore", "directory"): "cc_mkdir"}
"""The tool that does the same for a model, by the state that a place is to have; else it is the usual one."""
_REMOVES_AS: Final = "cc_delete"
"""The tool of a model that removes the file that a directory replaces, or the directory that a file replaces."""

_TOO_MANY_LABELS: Final = (
    "The computer had more labels than are kept, so no rule allows by label here, and each that asks or denies by "
    "label matches. An admin confirms the label of now: `cc-orchestrator computers confirm-label NAME`."
)


class _Said(NamedTuple):
    """What the rules said of a call."""

    effect: Effect
    risk: RiskLevel
    reason: str
    matched: tuple[PolicyRule, ...] = ()
    raised: str = ""
    """What the model said of the risk, where it alone put it that high: ends the reason."""
    guards: tuple[PolicyRule, ...] = ()
    """The rules that ask or deny by a path of the call and match, or may."""


def judge(
    call: AnyCall,
    *,
    policy: Policy,
    context: PolicyContext,
    catalog: ToolCatalog,
    custom: Sequence[CustomPolicy] = (),
) -> PolicyDecision:
    """The verdict on a call: a pure function of what it is given, as far as the plugins are."""
    heard = hear(custom, policy.custom, call, context) if custom or policy.custom else ()
    return judge_heard(call, policy=policy, context=context, catalog=catalog, heard=heard)


def judge_heard(
    call: AnyCall, *, policy: Policy, context: PolicyContext, catalog: ToolCatalog, heard: Sequence[Heard]
) -> PolicyDecision:
    """The verdict on a call of which the plugins have said what they say."""
    spec = catalog.get(call.tool)
    said = _of_stranger(call, policy, catalog) if spec is None else _of_rules(call, spec, policy, context, heard)
    if heard:
        said = _with_custom(said, heard)
    if spec is not None and context.had_too_many_labels and _names_labels(policy, spec):
        said = said._replace(reason=f"{said.reason} {_TOO_MANY_LABELS}")
    mutates = spec is None or (spec.governance.mutates and not _only_reads(said))
    if (policy.mode == "plan" or context.plan) and mutates:
        said = _Said(Effect.DENY, said.risk, PLAN_MODE, said.matched)
    guards = said.guards if said.effect in (Effect.ASK, Effect.HINT) else ()
    decision = policy.decision(said.effect, said.risk, said.reason + said.raised, said.matched, guards)
    return _with_their_names(decision, heard) if heard else decision


def _names_labels(policy: Policy, spec: ToolSpec) -> bool:
    return any(one.rule.labels is not None for one in policy.ready_rules(spec.name))


def subject_of(call: AnyCall, spec: ToolSpec, context: PolicyContext, heard: Sequence[Heard]) -> Subject:
    """A call as the rules see it. Raises UnsafePath when one of its paths cannot be made canonical."""
    said = (context.stated_risk, context.analysed_risk, *[one.verdict.risk for one in heard])
    return Subject(call, spec, _paths(call, spec), context, _raised(spec.governance.risk, said))


def no_such_tool(tool: str, catalog: ToolCatalog) -> str:
    """The reason for which a tool outside the catalog never runs: it names those that there are (promise P1)."""
    return f"No such tool: {tool!r}. The tools are: {', '.join(tools_of_models(catalog))}."


def _raised(risk: RiskLevel, others: Iterable[RiskLevel | None]) -> RiskLevel:
    for other in others:
        if other is not None and severity(other) > severity(risk):
            risk = other
    return risk


def _of_stranger(call: AnyCall, policy: Policy, catalog: ToolCatalog) -> _Said:
    return _Said(Effect(policy.unknown_tool), RiskLevel.UNKNOWN, no_such_tool(call.tool, catalog))


def _of_rules(call: AnyCall, spec: ToolSpec, policy: Policy, context: PolicyContext, heard: Sequence[Heard]) -> _Said:
    try:
        subject = subject_of(call, spec, context, heard)
    except UnsafePath as error:
        return _Said(Effect.DENY, RiskLevel.HIGH, error.message)
    said = [_of_these(rules, subject, spec, context, heard) for rules in _rules_on(call, spec, policy)]
    strictest = max(said, key=lambda one: strictness(one.effect))
    if len(said) == 1:
        return strictest
    matched = tuple(rule for one in said for rule in one.matched)
    guards = tuple(rule for one in said for rule in one.guards)
    return strictest._replace(risk=_raised(strictest.risk, [one.risk for one in said]), matched=matched, guards=guards)


def _of_these(
    rules: Sequence[ReadyRule], subject: Subject, spec: ToolSpec, context: PolicyContext, heard: Sequence[Heard]
) -> _Said:
    """What some of the rules say of a call."""
    matched: list[PolicyRule] = []
    possible: list[PolicyRule] = []
    for one in rules:
        found = one.outcome(subject)
        if found is not NO:
            (possible if found is MAYBE else matched).append(one.rule)
    raised = _raised_by_model(spec, context, heard, matched)
    # A rule that may match guards by what is known now: its paths and arguments fit, or it would not be among these.
    known = [rule for rule in possible if rule.paths is not None or rule.args is not None]
    guards = tuple(filter(_guards, (*matched, *known)))
    if not matched:
        return _uncovered(spec, subject.base_risk)._replace(raised=raised, guards=guards)
    strictest = matched[0]
    for rule in matched:
        if strictness(rule.effect) > strictness(strictest.effect):
            strictest = rule
    reason = strictest.reason or f"Rule {strictest.id}."
    risk = _raised(subject.base_risk, [rule.risk for rule in matched])
    if strictest.effect is Effect.ALLOW and possible:
        reason = f"Rule {possible[0].id} may apply; it is not known yet whether it does. {possible[0].reason}".strip()
        return _Said(Effect.ASK, risk, reason, (*matched, *possible), raised, guards)
    return _Said(strictest.effect, risk, reason, tuple(matched), raised, guards)


def _guards(rule: PolicyRule) -> bool:
    """Whether a rule asks or denies for some calls of its tools only: a grant for others is not meant for them."""
    return rule.effect is not Effect.ALLOW and any(one is not None for one in (*_conditions(rule), rule.programs))


def _conditions(rule: PolicyRule) -> tuple[object, ...]:
    """What narrows a rule to some places, people or arguments; None: it does not."""
    return (rule.paths, rule.computers, rule.families, rule.labels, rule.args, rule.roles, rule.risks)


def _rules_on(call: AnyCall, spec: ToolSpec, policy: Policy) -> Iterator[tuple[ReadyRule, ...]]:
    """The rules that speak of a call; of one that does what two tools do, those on each: both have to allow it.

    Of a tool that only plans call, they are those of the tool that does the same for a model. Where rules name it
    itself they take the place of what is said of the other one in general; where that is denied, or asked for in
    some places only, they add to it.
    """
    rules = policy.ready_rules(spec.name)
    if spec.judged_as is None:
        yield rules
        return
    does_as = [_DOES_AS.get((spec.name, str(call.args.get("to"))), spec.judged_as)]
    does_as += [_REMOVES_AS] if call.args.get("replaces") else []
    for like in map(policy.ready_rules, does_as):
        if not any(spec.name in one.rule.tools for one in rules):
            yield like
        else:
            yield (*rules, *(one for one in like if one not in rules and _stands_beside(one.rule)))


def _stands_beside(rule: PolicyRule) -> bool:
    """Whether a rule holds whatever is said elsewhere: it denies, or speaks of some places, people or arguments."""
    return rule.effect is not Effect.ALLOW and (
        rule.effect is Effect.DENY or any(one is not None for one in _conditions(rule))
    )


def _raised_by_model(
    spec: ToolSpec, context: PolicyContext, heard: Sequence[Heard], matched: Sequence[PolicyRule]
) -> str:
    """What the model says of the risk, for the reviewer, where nothing else said as much; else empty."""
    stated = context.stated_risk
    if stated is None:
        return ""
    others = (context.analysed_risk, *[one.verdict.risk for one in heard], *[rule.risk for rule in matched])
    without = _raised(spec.governance.risk, others)
    return f" The model says: {stated.value} risk." if severity(stated) > severity(without) else ""


def _uncovered(spec: ToolSpec, risk: RiskLevel) -> _Said:
    if spec.governance.requires_hitl:
        return _Said(Effect.ASK, risk, "No rule covers this call, and its governance asks for a person.")
    return _Said(Effect.DENY, risk, "No rule allows this call.")


def _only_reads(said: _Said) -> bool:
    """Whether a rule that allows says that the call changes nothing."""
    return said.effect is Effect.ALLOW and any(rule.reads for rule in said.matched)


def _with_custom(said: _Said, heard: Sequence[Heard]) -> _Said:
    effects = (said.effect, *(one.verdict.effect for one in heard if one.verdict.effect is not None))
    effect = max(effects, key=strictness)
    risk = _raised(said.risk, [one.verdict.risk for one in heard])
    reasons = [said.reason] if effect is said.effect else []
    reasons += [one.verdict.reason or f"The plugin {one.id} says so." for one in heard]
    return said._replace(effect=effect, risk=risk, reason=" ".join(reasons))


def _with_their_names(decision: PolicyDecision, heard: Sequence[Heard]) -> PolicyDecision:
    # Bound is what was said, not in which words: words may tell a time, and would make every approval stale.
    said = [(one.id, one.verdict.effect, one.verdict.risk) for one in heard]
    names = (*decision.matched_rules, *(one.id for one in heard))
    digest = digest_of([decision.rules_digest, *said])
    asking = [one.id for one in heard if one.verdict.effect is Effect.ASK] if decision.effect is Effect.ASK else []
    guards = (*decision.guards, *asking)
    return decision.model_copy(update={"matched_rules": names, "rules_digest": digest, "guards": guards})


def _paths(call: AnyCall, spec: ToolSpec) -> tuple[str, ...]:
    values = [call.args[name] for name in spec.path_args if name in call.args]
    if any(not isinstance(value, str) for value in values):
        raise UnsafePath(f"A path of {call.tool} is not text.")
    return tuple([canonical_path(value) for value in values])
