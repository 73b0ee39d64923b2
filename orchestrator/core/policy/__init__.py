"""The gate's rules: a catalog of tools, rules on canonical arguments, one pure evaluation.

The parts, from the ground up: ``verdicts`` (effects, risks, the verdict), ``catalog`` (the
records of the tools), ``tool_args`` (what a call of each takes),
``calls`` (what is judged), ``linear`` (regular expressions), ``command_line`` (which programs a
line runs), ``rules`` and ``requests`` (what a file says), ``args``, ``programs`` and ``matching``
(whether a rule matches), ``custom`` (plugins), ``document`` (the file), ``judging`` (the verdict),
``loading``, ``evaluation``, ``explaining`` and ``gaps`` (the endpoints), ``summary`` (what the model is
told). The theory of operation is at the top of ``judging``.

A name is imported with its part when it is first used: most of what needs a risk or a tool's record judges nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.core.policy.catalog import (
        BUILT_IN_CATALOG,
        MIXED,
        RUNNERS,
        Governance,
        Recovery,
        ToolCatalog,
        ToolSpec,
    )
    from orchestrator.core.policy.document import (
        Example,
        ExampleCall,
        PathCheck,
        Policy,
        Quota,
        Quotas,
        SecretsToModel,
    )
    from orchestrator.core.policy.evaluation import check_for_intervention, default_policy, evaluate
    from orchestrator.core.policy.explanation import (
        ApprovalReport,
        CustomReport,
        Explanation,
        RuleReport,
        explain,
        summary,
    )
    from orchestrator.core.policy.gaps import ROLES, told_of_gaps, told_of_roles, tools_without_a_rule
    from orchestrator.core.policy.judgement import PLAN_MODE, CustomJudge, CustomPolicy, CustomVerdict, no_such_tool
    from orchestrator.core.policy.load import load_policy, parse_policy
    from orchestrator.core.policy.match import AnyCall, FunctionCall
    from orchestrator.core.policy.rights import RoleRights, Undo
    from orchestrator.core.policy.rules import ArgRule, Family, PolicyRule
    from orchestrator.core.policy.verdicts import (
        MAX_FORMER_LABELS,
        Effect,
        Expiry,
        PolicyContext,
        PolicyDecision,
        RequestRules,
        RiskLevel,
        severity,
        stricter,
    )

_PARTS = {
    "catalog": (
        "BUILT_IN_CATALOG",
        "MIXED",
        "RUNNERS",
        "Governance",
        "Recovery",
        "ToolCatalog",
        "ToolSpec",
    ),
    "document": (
        "Example",
        "ExampleCall",
        "PathCheck",
        "Policy",
        "Quota",
        "Quotas",
        "SecretsToModel",
    ),
    "evaluation": (
        "check_for_intervention",
        "default_policy",
        "evaluate",
    ),
    "explanation": (
        "ApprovalReport",
        "CustomReport",
        "Explanation",
        "RuleReport",
        "explain",
        "summary",
    ),
    "gaps": (
        "ROLES",
        "told_of_gaps",
        "told_of_roles",
        "tools_without_a_rule",
    ),
    "judgement": (
        "PLAN_MODE",
        "CustomJudge",
        "CustomPolicy",
        "CustomVerdict",
        "no_such_tool",
    ),
    "load": (
        "load_policy",
        "parse_policy",
    ),
    "match": ("AnyCall", "FunctionCall"),
    "rights": ("RoleRights", "Undo"),
    "rules": (
        "ArgRule",
        "Family",
        "PolicyRule",
    ),
    "verdicts": (
        "MAX_FORMER_LABELS",
        "Effect",
        "Expiry",
        "PolicyContext",
        "PolicyDecision",
        "RequestRules",
        "RiskLevel",
        "severity",
        "stricter",
    ),
}
_HOMES = {name: f"orchestrator.core.policy.{part}" for part, names in _PARTS.items() for name in names}

__all__ = [
    "BUILT_IN_CATALOG",
    "MAX_FORMER_LABELS",
    "MIXED",
    "PLAN_MODE",
    "ROLES",
    "RUNNERS",
    "AnyCall",
    "ApprovalReport",
    "ArgRule",
    "CustomJudge",
    "CustomPolicy",
    "CustomReport",
    "CustomVerdict",
    "Effect",
    "Example",
    "ExampleCall",
    "Expiry",
    "Explanation",
    "Family",
    "FunctionCall",
    "Governance",
    "PathCheck",
    "Policy",
    "PolicyContext",
    "PolicyDecision",
    "PolicyRule",
    "Quota",
    "Quotas",
    "Recovery",
    "RequestRules",
    "RiskLevel",
    "RoleRights",
    "RuleReport",
    "SecretsToModel",
    "ToolCatalog",
    "ToolSpec",
    "Undo",
    "check_for_intervention",
    "default_policy",
    "evaluate",
    "explain",
    "load_policy",
    "no_such_tool",
    "parse_policy",
    "severity",
    "stricter",
    "summary",
    "told_of_gaps",
    "told_of_roles",
    "tools_without_a_rule",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'orchestrator.core.policy' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value
