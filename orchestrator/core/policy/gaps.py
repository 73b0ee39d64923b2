"""What a policy says nothing of: a file that was written before a tool existed names no rule for it."""

from collections.abc import Iterable, Sequence

from orchestrator.core.policy.catalog import BUILT_IN_CATALOG, tools_of_models


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
