"""What a policy says nothing of: tools that are newer than its file, and roles that nobody has.

These take only the catalog, so that a list of the active policy does not import what judges calls.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from orchestrator.core.approval.people import BUILT_IN_ROLES
from orchestrator.core.policy.catalog import BUILT_IN_CATALOG, tools_of_models

ROLES: Final = tuple(BUILT_IN_ROLES)
"""The roles that every installation has."""


def tools_without_a_rule(rules: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The tools of the catalog that no rule names; ``rules``: the ``tools`` of each."""
    named = {tool for tools in rules for tool in tools}
    return () if "*" in named else tuple(sorted(set(tools_of_models(BUILT_IN_CATALOG)) - named))


def told_of_gaps(tools: Sequence[str]) -> tuple[str, ...]:
    """What happens to the calls of these tools, and what to do about it, a sentence each."""
    denied = [tool for tool in tools if not BUILT_IN_CATALOG[tool].governance.requires_hitl]
    asked = [tool for tool in tools if tool not in denied]
    lines = [f"No rule names {', '.join(denied)}: these calls are denied."] if denied else []
    lines += [f"No rule names {', '.join(asked)}: these calls wait for a person."] if asked else []
    if lines:
        lines.append("To change that, name them in `tools` of a rule; docs/policy.md has what a new file begins with.")
    return tuple(lines)


def told_of_roles(rules: Iterable[tuple[str, Sequence[str]]], own: Iterable[str] = ()) -> tuple[str, ...]:
    """The rules that name a role which no token can have, a sentence each.

    ``rules``: id and ``roles`` of each; ``own``: the roles of the policy itself.
    """
    known = (*ROLES, *own)
    odd = ((rule_id, [one for one in roles if one not in known]) for rule_id, roles in rules)
    return tuple(
        f"Rule {rule_id} names {', '.join(names)}: nobody can have this role. The roles are {', '.join(known)}."
        for rule_id, names in odd
        if names
    )
