"""The gate's rules: a catalog of tools, rules on canonical arguments, one pure evaluation.

Theory. A call is judged by every rule that matches it, and the strictest effect wins
(``deny > ask > allow``) whatever the order of the rules (hitl.md P3). A tool outside the
catalog, an argument that cannot be made canonical and a call that no rule covers are denied:
silence never allows. A tool whose governance says ``requires_hitl`` asks even when no rule
covers it. Rules for deny and ask match paths in any letter case, since the game's containment
test does; rules for allow match exactly (P6).
"""

import hashlib
import json
import logging
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from orchestrator.core.default_policy import DEFAULT_POLICY_TOML
from orchestrator.core.errors import PolicyInvalid, UnsafePath
from orchestrator.core.paths import can_match, canonical_path, path_matches
from orchestrator.core.wording import said_of

logger = logging.getLogger(__name__)


class Effect(StrEnum):
    """What the gate does with a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class RiskLevel(StrEnum):
    """How much harm a call may do; ``unknown`` counts as at least high."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


_STRICTNESS: Final = {Effect.ALLOW: 0, Effect.ASK: 1, Effect.DENY: 2}
_SEVERITY: Final = {
    RiskLevel.LOW: 0,
    RiskLevel.MEDIUM: 1,
    RiskLevel.HIGH: 2,
    RiskLevel.UNKNOWN: 3,
    RiskLevel.CRITICAL: 4,
}

Recovery = Literal["pure", "by_state", "once"]
"""What a call whose outcome was not heard means: it may run again, its files tell, or nobody knows."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Governance(_Value):
    """What the catalog says of a tool before any rule speaks."""

    requires_hitl: bool
    """A person decides unless a rule allows."""
    mutates: bool
    """It changes something: held back while a sibling waits for a person."""
    risk: RiskLevel


class ToolSpec(_Value):
    """One tool as the gate knows it."""

    name: str
    plugin: Literal["cc", "local", "people"]
    version: int = 1
    """Part of every digest: an upgrade in a pause makes the approval stale."""
    recovery: Recovery
    governance: Governance
    path_args: tuple[str, ...] = ()
    """Arguments that are paths on the computer or, for ``local``, in the workspace."""

    @property
    def tool_id(self) -> str:
        """``{plugin}-{function}``, as catalogs of the field write it."""
        return f"{self.plugin}-{self.name}"


def _spec(name: str, recovery: Recovery, risk: RiskLevel, *path_args: str) -> ToolSpec:
    mutates = recovery != "pure"
    plugin: Any = name.split("_", maxsplit=1)[0] if name.startswith(("cc_", "local_")) else "people"
    governance = Governance(requires_hitl=mutates, mutates=mutates, risk=risk)
    return ToolSpec(name=name, plugin=plugin, recovery=recovery, governance=governance, path_args=path_args)


ToolCatalog = Mapping[str, ToolSpec]

BUILT_IN_CATALOG: Final[ToolCatalog] = {
    spec.name: spec
    for spec in (
        _spec("send_status", "pure", RiskLevel.LOW),
        _spec("ask_user", "pure", RiskLevel.LOW),
        _spec("cc_read", "pure", RiskLevel.LOW, "path"),
        _spec("cc_list", "pure", RiskLevel.LOW, "path"),
        _spec("cc_find", "pure", RiskLevel.LOW),
        _spec("cc_write", "by_state", RiskLevel.MEDIUM, "path"),
        _spec("cc_edit", "by_state", RiskLevel.MEDIUM, "path"),
        _spec("cc_move", "by_state", RiskLevel.MEDIUM, "path", "to"),
        _spec("cc_mkdir", "by_state", RiskLevel.LOW, "path"),
        _spec("cc_delete", "by_state", RiskLevel.HIGH, "path"),
        _spec("cc_run_program", "once", RiskLevel.MEDIUM, "path"),
        _spec("cc_shell", "once", RiskLevel.HIGH),
        _spec("local_read", "pure", RiskLevel.LOW, "path"),
        _spec("local_write", "by_state", RiskLevel.MEDIUM, "path"),
        _spec("local_patch", "by_state", RiskLevel.MEDIUM, "path"),
    )
}


Family = Literal["computer", "advanced", "turtle", "pocket", "command"]
OneOrMore = Annotated[tuple[str, ...], Field(min_length=1)]
"""An empty list would match nothing, and a rule that denies must never do that by mistake (hitl.md P9)."""


RUNNERS: Final = frozenset({"cc_run_program", "cc_shell"})
"""The tools that run a program."""
_MEND: Final = "Mend the rule."


class PolicyRule(_Value):
    """One rule: matches when each given predicate matches; an absent predicate matches all."""

    id: str = Field(min_length=1)
    effect: Effect
    tools: tuple[str, ...] = Field(min_length=1)
    """Exact tool names, or ``*`` alone."""
    paths: OneOrMore | None = None
    """Globs on the canonical path; matches when any path argument matches any glob."""
    programs: OneOrMore | None = None
    """Globs on the resolved path of the program that would run."""
    computers: OneOrMore | None = None
    """Globs on the computer's name."""
    families: Annotated[tuple[Family, ...], Field(min_length=1)] | None = None
    risk: RiskLevel | None = None
    """Raises the risk of the calls it matches; never lowers it."""
    reason: str = ""

    @model_validator(mode="after")
    def _can_match(self) -> Self:
        if "*" in self.tools and self.tools != ("*",):
            raise ValueError("'*' stands alone in tools; name the tools or write only '*'")
        odd = [name for name in self.tools if name != "*" and not name.replace("_", "").isalnum()]
        if odd:
            raise ValueError(f"tools are exact names, not patterns: {', '.join(odd)}")
        dead = [glob for glob in (*(self.paths or ()), *(self.programs or ())) if not can_match(glob)]
        if dead:
            raise ValueError(f"no canonical path can match: {', '.join(map(repr, dead))}")
        return self


class PolicyContext(_Value):
    """What a call is judged by beside itself."""

    computer: str | None = None
    family: str | None = None
    program: str | None = None
    """The program that a run resolves to; None while nobody has looked."""


class PolicyDecision(_Value):
    """The verdict on one call, as it is stored with the request."""

    effect: Effect
    risk: RiskLevel
    matched_rules: tuple[str, ...]
    reason: str
    policy_version: str
    rules_digest: str
    """sha256 over the content of the matched rules: a decision is bound to it, not to the version."""


class Policy(_Value):
    """A policy file, checked: rules and what to do with tools the catalog does not know."""

    schema_version: Literal[1] = 1
    unknown_tool: Literal["deny", "ask"] = "deny"
    rules: tuple[PolicyRule, ...]

    @cached_property
    def version(self) -> str:
        """A short hash of the content: the same rules have the same version everywhere."""
        return _digest(self.model_dump(mode="json"))[:16]

    def verdict(self, matched: "tuple[PolicyRule, ...]", least: RiskLevel) -> PolicyDecision:
        """What some of its rules say of a call that has at least this risk; the same few match again and again."""
        key = (matched, least)
        if key not in self._verdicts:
            self._verdicts[key] = _strictest(self, matched, least)
        return self._verdicts[key]

    def rules_on(self, tool: str) -> "tuple[PolicyRule, ...]":
        """The rules that name a tool, or all tools, in their order; asked for the tools of a catalog, which are few."""
        if tool not in self._rules_on:
            self._rules_on[tool] = tuple(rule for rule in self.rules if rule.tools == ("*",) or tool in rule.tools)
        return self._rules_on[tool]

    @cached_property
    def _verdicts(self) -> "dict[tuple[tuple[PolicyRule, ...], RiskLevel], PolicyDecision]":
        return {}

    @cached_property
    def _rules_on(self) -> "dict[str, tuple[PolicyRule, ...]]":
        return {}


class AnyCall(Protocol):
    """Whatever names a tool and its arguments."""

    @property
    def tool(self) -> str:
        """The tool's full name."""

    @property
    def args(self) -> Mapping[str, Any]:
        """Its arguments."""


class FunctionCall(_Value):
    """A call as :func:`check_for_intervention` takes it: a name and arguments."""

    tool: str
    args: dict[str, Any] = {}

    @property
    def plugin_name(self) -> str:
        """The tool's plugin; ``unknown`` for a tool outside the catalog."""
        spec = BUILT_IN_CATALOG.get(self.tool)
        return spec.plugin if spec else "unknown"

    @property
    def function_name(self) -> str:
        """The tool's full name."""
        return self.tool


def load_policy(text: str, *, source: str = "policy.toml") -> Policy:
    """A policy from TOML. Raises PolicyInvalid naming the file, the rule and the reason."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyInvalid(f"{source} is not TOML: {error}.", remedy="Mend the file.") from None
    try:
        policy = Policy.model_validate(data)
    except ValidationError as error:
        raise PolicyInvalid(f"{source}: {_where(error, data)}.", remedy=_MEND) from None
    for number, rule in enumerate(policy.rules, start=1):
        never = next(filter(None, (_never_matches(rule, name) for name in rule.tools)), None)
        if never is not None:
            raise PolicyInvalid(f"{source}: rule {number} ({rule.id}): {never}.", remedy=_MEND)
    ids = [rule.id for rule in policy.rules]
    twice = sorted({one for one in ids if ids.count(one) > 1})
    if twice:
        raise PolicyInvalid(f"{source}: two rules have the id {twice[0]!r}.", remedy="Give each rule its own id.")
    return policy


def _never_matches(rule: PolicyRule, tool: str) -> str:
    """Why a rule could never match a tool that it names, or nothing: it must not pass for protection (P9)."""
    if tool == "*":
        return ""
    spec = BUILT_IN_CATALOG.get(tool)
    if spec is None:
        return f"there is no tool {tool!r}; the tools are: {', '.join(sorted(BUILT_IN_CATALOG))}"
    if rule.paths is not None and not spec.path_args:
        return f"{tool} has no path, so a rule on paths never matches it"
    if rule.programs is not None and tool not in RUNNERS:
        return f"{tool} runs no program, so a rule on programs never matches it"
    if (rule.computers is not None or rule.families is not None) and spec.plugin != "cc":
        return f"{tool} touches no computer, so a rule on computers never matches it"
    return ""


def default_policy() -> Policy:
    """The policy that is shipped: safe for a newcomer, without pestering."""
    return _DEFAULT


def evaluate(
    call: AnyCall,
    *,
    policy: Policy | None = None,
    context: PolicyContext | None = None,
    catalog: ToolCatalog = BUILT_IN_CATALOG,
) -> PolicyDecision:
    """The verdict on a call: a pure function of call, context, catalog and policy (None: the shipped one)."""
    policy = policy or _DEFAULT
    context = context or PolicyContext()
    spec = catalog.get(call.tool)
    if spec is None:
        names = ", ".join(sorted(catalog))
        effect = Effect(policy.unknown_tool)
        reason = f"There is no tool {call.tool!r}; the tools are: {names}."
        return _decision(policy, effect, RiskLevel.UNKNOWN, (), reason)
    try:
        paths = _paths(call, spec)
    except UnsafePath as error:
        return _decision(policy, Effect.DENY, RiskLevel.HIGH, (), error.message)
    matched = tuple(rule for rule in policy.rules_on(call.tool) if _matches(rule, paths, context))
    if not matched:
        if spec.governance.requires_hitl:
            reason = "No rule covers this call, and its governance asks for a person."
            return _decision(policy, Effect.ASK, spec.governance.risk, (), reason)
        return _decision(policy, Effect.DENY, spec.governance.risk, (), "No rule allows this call.")
    return policy.verdict(matched, spec.governance.risk)


def check_for_intervention(
    tool_call: AnyCall, *, policy: Policy | None = None, context: PolicyContext | None = None
) -> bool:
    """Whether a person has to decide: ``evaluate(...).effect == "ask"``. A denied call needs nobody."""
    call = FunctionCall(tool=tool_call.tool, args=dict(tool_call.args))
    logger.info("HITL Check: Intercepted call to %s.%s", call.plugin_name, call.function_name)
    return evaluate(call, policy=policy, context=context).effect is Effect.ASK


def stricter(one: PolicyDecision, other: PolicyDecision) -> PolicyDecision:
    """The stricter of an earlier verdict and a later one; of two alike the later."""
    return other if _STRICTNESS[other.effect] >= _STRICTNESS[one.effect] else one


def severity(risk: RiskLevel) -> int:
    """An order on risks: unknown stands above high."""
    return _SEVERITY[risk]


def _paths(call: AnyCall, spec: ToolSpec) -> tuple[str, ...]:
    values = [call.args[name] for name in spec.path_args if name in call.args]
    if any(not isinstance(value, str) for value in values):
        raise UnsafePath(f"A path of {call.tool} is not text.")
    return tuple(canonical_path(value) for value in values)


def _matches(rule: PolicyRule, paths: tuple[str, ...], context: PolicyContext) -> bool:
    loose = rule.effect is not Effect.ALLOW

    def any_glob(globs: tuple[str, ...], values: tuple[str, ...]) -> bool:
        return any(path_matches(glob, value, ignore_case=loose) for glob in globs for value in values)

    return (
        (rule.paths is None or any_glob(rule.paths, paths))
        and (rule.programs is None or any_glob(rule.programs, (context.program,) if context.program else ()))
        and (rule.computers is None or any_glob(rule.computers, (context.computer,) if context.computer else ()))
        and (rule.families is None or context.family in rule.families)
    )


def _strictest(policy: Policy, matched: tuple[PolicyRule, ...], least: RiskLevel) -> PolicyDecision:
    strictest = max(matched, key=lambda rule: _STRICTNESS[rule.effect])
    risk = max((least, *(rule.risk for rule in matched if rule.risk)), key=_SEVERITY.__getitem__)
    return _decision(policy, strictest.effect, risk, matched, strictest.reason or f"Rule {strictest.id}.")


def _decision(
    policy: Policy, effect: Effect, risk: RiskLevel, matched: tuple[PolicyRule, ...], reason: str
) -> PolicyDecision:
    return PolicyDecision(
        effect=effect,
        risk=risk,
        matched_rules=tuple(rule.id for rule in matched),
        reason=reason,
        policy_version=policy.version,
        rules_digest=_digest([rule.model_dump(mode="json") for rule in matched]),
    )


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _where(error: ValidationError, data: Mapping[str, Any]) -> str:
    first = error.errors(include_url=False)[0]
    loc = first["loc"]
    if len(loc) >= 2 and loc[0] == "rules" and isinstance(loc[1], int):
        rules = data.get("rules")
        rule = rules[loc[1]] if isinstance(rules, list) else {}
        name = rule.get("id") if isinstance(rule, dict) else None
        rest = ".".join(str(part) for part in loc[2:])
        return f"rule {loc[1] + 1}{f' ({name})' if name else ''}: {said_of(first, rest)}"
    return said_of(first, ".".join(str(part) for part in loc) or "the file")


_DEFAULT: Final = load_policy(DEFAULT_POLICY_TOML, source="the shipped policy")
