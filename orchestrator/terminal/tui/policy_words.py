"""Rules of the policy, and what it says of a call, as lines for a person."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from orchestrator.core.text.visible import one_line
from orchestrator.terminal.output import counted
from orchestrator.terminal.review.lines import Line, as_json, text_of

_CHARS: Final = 1000
_SAYS: Final = {
    "allow": "It would run without asking.",
    "ask": "A person would be asked first.",
    "deny": "It would be denied.",
}
_TESTS: Final = (
    ("eq", "is {}"),
    ("in", "is one of {}"),
    ("one_of", "is one of {}"),
    ("regex", "matches {}"),
    ("max_length", "has at most {} characters"),
    ("max_number", "is at most {}"),
    ("over_length", "has more than {} characters"),
    ("over_number", "is more than {}"),
)
_CONDITIONS: Final = (
    ("programs", "the program is"),
    ("computers", "on computers"),
    ("families", "on computers of the kind"),
    ("labels", "where the label is"),
    ("roles", "asked for by"),
    ("risks", "where the risk is"),
)
_MISSED: Final = {
    "tools": "it is about other tools",
    "paths": "its paths are others",
    "programs": "its programs are others",
    "computers": "its computers are others",
    "families": "the kind of computer is another",
    "labels": "the label is another",
    "args": "an argument is another",
    "roles": "the requester's roles are others",
    "risks": "the risk is another",
    "call": "nothing about the call can be judged",
}
_OPEN: Final = {
    "paths": "its paths",
    "programs": "its programs",
    "computers": "the computer",
    "families": "the kind of computer",
    "labels": "the computer's label",
    "args": "an argument",
    "roles": "the requester's roles",
    "risks": "the risk",
    "call": "the call itself",
}
_UNDO: Final = {"offer": "offered", "auto": "by itself, after a task that failed", "never": "never"}


def in_force_lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """What is in force, as `GET /v1/policy` tells it; what is wrong with it on this node comes first."""
    if found["alert"]:
        yield Line("ALERT: the policy needs attention on this node.", "alarm", prose=True)
        yield Line(f"  {one_line(found['alert'], limit=2000)}", "alarm", prose=True)
    policy = found["policy"]
    plan = "plan: whatever changes something is denied" if found["mode"] == "plan" else one_line(found["mode"])
    unknown = "asks" if policy.get("unknown_tool") == "ask" else "is denied, or asks if it changes something"
    yield Line("── In force", "title")
    yield Line(f"  from     {one_line(found['source'], limit=_CHARS)}, version {one_line(found['policy_version'])}")
    yield Line(f"  mode     {plan}")
    yield Line(f"  a tool that no rule covers {unknown}", prose=True)
    yield Line(f"  undo     {_UNDO.get(policy.get('undo', 'offer'), one_line(str(policy.get('undo'))))}")
    if policy.get("custom"):
        yield Line(f"  plugins  {_listed(policy['custom'])}", prose=True)
    yield Line("  The strictest rule that matches wins: deny, then ask, then allow.", prose=True)


def rule_lines(rule: Mapping[str, Any], number: int) -> Iterator[Line]:
    """One rule in words."""
    tools = "every tool" if rule["tools"][:1] == ["*"] else _listed(rule["tools"])
    raises = f", and the risk is at least {rule['risk']}" if rule.get("risk") else ""
    yield Line(f"── Rule {number}: {one_line(rule['id'])}", "title")
    yield Line(f"  {rule['effect']} {tools}{raises}", "call", prose=True)
    if rule.get("paths"):
        which = "every path is in" if rule["effect"] == "allow" else "a path is in"
        yield Line(f"  {which} {_listed(rule['paths'])}", prose=True)
    for name, says in _CONDITIONS:
        if rule.get(name):
            yield Line(f"  {says} {_listed(rule[name])}", prose=True)
    for test in rule.get("args") or ():
        yield Line(f"  where {_tested(test)}", prose=True)
    if rule.get("reads"):
        yield Line("  it counts as looking only", prose=True)
    if rule.get("reason"):
        yield Line(f"  because {one_line(rule['reason'], limit=_CHARS)}", prose=True)


def verdict_lines(told: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """What a dry run came to: the verdict, the rules that matched, and why the others did not."""
    yield Line(f"{told['effect'].upper()}: {_SAYS.get(told['effect'], '')} Risk: {one_line(told['risk'])}.", "title")
    yield Line(f"  {one_line(told['reason'], limit=2000)}", prose=True)
    if told["plan"]:
        yield Line("  Plan mode is on: whatever changes something is denied.", "warning", prose=True)
    for outcome, title in (("matched", "Rules that match"), ("possible", "Rules of which it is not known yet")):
        reports = [one for one in told["rules"] if one["outcome"] == outcome]
        if reports:
            yield Line("")
            yield Line(title, "title")
        for one in reports:
            yield from _reported(one, rules)
    for one in told["custom"]:
        says = one["verdict"]["effect"] or "nothing against it"
        reason = one_line(one["verdict"]["reason"] or "", limit=_CHARS)
        yield Line(f"plugin {one_line(one['id'])}: {one_line(says)} {reason}".rstrip(), prose=True)
    others = [one for one in told["rules"] if one["outcome"] == "no"]
    if others:
        yield Line("")
        yield Line(f"{counted(len(others), 'rule')} that did not match", "title")
    for one in others:
        missed = _MISSED.get(one["missed"], one_line(one["missed"]))
        yield Line(f"  {one['effect']:5} {one_line(one['id'])}: {missed}", prose=True)


def _reported(report: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    at = report["number"] - 1
    if at < len(rules) and rules[at]["id"] == report["id"]:
        yield from rule_lines(rules[at], report["number"])
    else:
        # The policy was loaded anew since.
        yield Line(f"── Rule {report['number']}: {one_line(report['id'])}: {report['effect']}", "title")
    if report["missed"]:
        yield Line(f"  not known yet: {_OPEN.get(report['missed'], one_line(report['missed']))}", "warning", prose=True)


def _tested(test: Mapping[str, Any]) -> str:
    for name, says in _TESTS:
        if (value := test.get(name)) is not None:
            shown = _listed(value) if isinstance(value, list) else one_line(text_of(value), limit=_CHARS)
            return f"{one_line(test['pointer'])} {says.format(shown)}"
    return one_line(as_json(test), limit=_CHARS)


def _listed(values: Sequence[Any]) -> str:
    return one_line(", ".join(text_of(one) for one in values), limit=_CHARS)
