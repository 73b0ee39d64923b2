"""A policy from its text. A file that cannot be used is refused whole, and the refusal says where and why."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from types import UnionType
from typing import Any, Final, get_args

from pydantic import ValidationError

from orchestrator.core.errors import PolicyInvalid, UnsafePath, said_of
from orchestrator.core.policy.catalog import BUILT_IN_CATALOG, MIXED, RUNNERS, ToolSpec
from orchestrator.core.policy.document import Example, Policy
from orchestrator.core.policy.judgement import CustomPolicy, judge
from orchestrator.core.policy.match import FunctionCall
from orchestrator.core.policy.rules import ArgRule, PolicyRule
from orchestrator.core.policy.tool_args import ALL_TOOL_ARGS
from orchestrator.core.text.paths import canonical_path

# -- The shipped policy, as the text that the first ``serve`` writes to ``policy.toml``

_LINE_CHARS: Final = 120
_TEMPLATE: Final = """\
# What the model may do. The strictest matching rule wins: deny, then ask, then allow.
# A tool that no rule covers is denied, or asks if it changes something.
# Paths are globs on the canonical path from the root of the computer: * within a name,
# ** across folders. Deny and ask ignore letter case, as the game does.
# What else a rule can look at, how long a request waits and how to try this file: docs/policy.md.
schema_version = 1
unknown_tool = "deny"
# Where it is known what a program changes while it runs, so that `undo` puts it back; [] where nothing shall be.
watch = ["**"]

# cc_find shows lines of any file: a policy that denies cc_read on a path should deny or ask for cc_find there, too.
[[rules]]
id = "looking"
effect = "allow"
@looking@
reason = "Looking changes nothing."

[[rules]]
id = "changing"
effect = "ask"
@changing@
reason = "A change of files is shown to a person first."

[[rules]]
id = "running"
effect = "ask"
@running@
reason = "A program may do anything; a person decides."

@own@

[[rules]]
id = "boot-files"
effect = "ask"
@changing-there@
paths = [
    "startup", "startup.lua", "startup_own*.lua", "startup/**",
    "disk*/startup", "disk*/startup.lua", "disk*/startup/**", ".settings",
]
risk = "high"
reason = "It runs at every boot of the computer."

[[rules]]
id = "rom"
effect = "deny"
@changing-there@
paths = ["rom", "rom/**"]
reason = "/rom is part of the game and read-only."

[[rules]]
id = "own-files"
effect = "deny"
@at-paths@
paths = [".cc-orchestrator", ".cc-orchestrator/**", "disk*/.cc-orchestrator", "disk*/.cc-orchestrator/**"]
risk = "critical"
reason = "The client keeps its token and its journal there."

[[rules]]
id = "command-computers"
effect = "deny"
@at-work@
families = ["command"]
risk = "critical"
reason = "A command computer can change the whole world."

# The file is refused when one of these comes out otherwise: write one for what must never change.
[[examples]]
call = { tool = "cc_read", args = { path = "farm.lua" } }
expect = "allow"

[[examples]]
call = { tool = "cc_peripheral_call", args = { name = "left", method = "list" }, family = "turtle", plan = true }
expect = "allow"

[[examples]]
call = { tool = "cc_peripheral_call", args = { name = "left", method = "pushItems" }, family = "turtle" }
expect = "ask"

[[examples]]
call = { tool = "cc_write", args = { path = "/x/../STARTUP.lua" } }
expect = "ask"

[[examples]]
call = { tool = "cc_read", args = { path = ".cc-orchestrator/token" } }
expect = "deny"

[[examples]]
call = { tool = "cc_shell", args = { command = "exec say hello" }, computer = "3", family = "command" }
expect = "deny"
"""


def _tools(wanted: Callable[[ToolSpec], bool]) -> str:
    """The line of a rule that names these tools of models; those that speak to people and mixed ones come last."""
    found = [spec for spec in BUILT_IN_CATALOG.values() if not spec.planned and wanted(spec)]
    names = [f'"{spec.name}"' for spec in sorted(found, key=lambda one: (one.mixed, one.plugin == "people"))]
    line = f"tools = [{', '.join(names)}]"
    if len(line) <= _LINE_CHARS:
        return line
    rows = wrap(f"{', '.join(names)},", _LINE_CHARS, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(("tools = [", *rows, "]"))


def _filled() -> str:
    own = [spec.rule for spec in sorted(BUILT_IN_CATALOG.values(), key=lambda one: one.mixed) if spec.rule]
    parts = {
        "@own@": "\n".join(own).rstrip("\n"),
        "@looking@": _tools(lambda one: one.recovery == "pure"),
        "@changing@": _tools(lambda one: one.changes_files),
        "@running@": _tools(lambda one: one.runs),
        "@changing-there@": _tools(lambda one: one.changes_files and one.plugin == "cc"),
        "@at-paths@": _tools(lambda one: one.path_args != () and one.plugin == "cc"),
        "@at-work@": _tools(lambda one: one.governance.mutates and one.plugin == "cc"),
    }
    text = _TEMPLATE
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text


DEFAULT_POLICY_TOML: Final = _filled()


# -- A policy from its text. A file that cannot be used is refused whole, and the refusal says where and why

_MEND: Final = "Fix the rule."
_NUMBERED: Final = {"rules": "rule", "examples": "example", "checks": "check", "approvals": "approval"}


def load_policy(text: str, *, source: str = "policy.toml", custom: Sequence[CustomPolicy] = ()) -> Policy:
    """A policy from TOML, its examples checked; ``custom``: the plugins that it names.

    Raises PolicyInvalid naming the file, the rule or the example, and the reason.
    """
    policy = parse_policy(text, source=source)
    for number, example in enumerate(policy.examples, start=1):
        wrong = _wrong(example, policy, custom)
        if wrong:
            where = f"{source}: example {number} ({example.call.tool})"
            raise PolicyInvalid(f"{where}: {wrong}", remedy="Fix the rules or the example.")
    return policy


def parse_policy(text: str, *, source: str = "policy.toml") -> Policy:
    """A policy from TOML whose examples nobody has checked yet. Raises PolicyInvalid as :func:`load_policy`."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # TOML's own error is a ValueError, as is that of a number with thousands of digits.
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise PolicyInvalid(f"{source} is not TOML: {why}.", remedy="Fix the file.") from None
    try:
        policy = Policy.model_validate(data)
    except ValidationError as error:
        raise PolicyInvalid(f"{source}: {_where(error, data)}.", remedy=_MEND) from None
    for number, rule in enumerate(policy.rules, start=1):
        never = _never_matches(rule)
        if never:
            raise PolicyInvalid(f"{source}: rule {number} ({rule.id}): {never}.", remedy=_MEND)
    for number, one in enumerate(policy.approvals, start=1):
        never = _never_matches(one.as_rule)
        if never:
            raise PolicyInvalid(f"{source}: approval {number}: {never}.", remedy="Fix its when.")
    ids = [rule.id for rule in policy.rules]
    twice = next((number for number, one in enumerate(ids, start=1) if one in ids[: number - 1]), None)
    if twice is not None:
        first = ids.index(ids[twice - 1]) + 1
        raise PolicyInvalid(
            f"{source}: rule {twice}: two rules have the id {ids[twice - 1]!r}; the other one is rule {first}.",
            remedy="Give each rule its own id.",
        )
    return policy


# -- examples ----------------------------------------------------------------------------


def _wrong(example: Example, policy: Policy, custom: Sequence[CustomPolicy]) -> str:
    """The faults of an example, as a sentence; empty: nothing."""
    call = example.call
    model = ALL_TOOL_ARGS.get(call.tool)
    odd = [name for name in call.args if model is not None and name not in model.model_fields]
    if odd:
        return f"{call.tool} has no argument {odd[0]!r}."
    judged = judge(
        FunctionCall(tool=call.tool, args=call.args),
        policy=policy,
        context=call.context,
        catalog=BUILT_IN_CATALOG,
        custom=custom,
    )
    if judged.effect is example.expect:
        return ""
    by = f" by {', '.join(judged.matched_rules)}" if judged.matched_rules else ""
    return f"it expects {example.expect.value!r}, but the verdict is {judged.effect.value!r}{by}: {judged.reason}"


# -- rules that look like protection and do not protect (promise P9) ----------------------------


def _never_matches(rule: PolicyRule) -> str:
    """Why a rule could never match a tool that it names, or says of it what cannot be, or nothing."""
    if rule.reads and not MIXED.issuperset(rule.tools):
        only = ", ".join(sorted(MIXED))
        return f"reads is only for {only}: of any other tool all calls read, or all change something"
    if rule.tools == ("*",):
        return next(filter(None, (_fits_no_tool(test) for test in rule.args or ())), "")
    return next(filter(None, (_never_matches_tool(rule, tool) for tool in rule.tools)), "")


def _never_matches_tool(rule: PolicyRule, tool: str) -> str:
    spec = BUILT_IN_CATALOG.get(tool)
    if spec is None:
        return f"no such tool: {tool!r}; the tools are: {', '.join(sorted(BUILT_IN_CATALOG))}"
    if rule.paths is not None and not spec.path_args:
        return f"{tool} has no path, so a rule on paths never matches it"
    if rule.programs is not None and tool not in RUNNERS:
        return f"{tool} runs no program, so a rule on programs never matches it"
    on_computer = (rule.computers, rule.families, rule.labels)
    if any(one is not None for one in on_computer) and spec.plugin != "cc":
        return f"{tool} touches no computer, so a rule on computers never matches it"
    return next(filter(None, (_misfit(test, tool) for test in rule.args or ())), "")


def _fits_no_tool(test: ArgRule) -> str:
    misfits = [_misfit(test, tool) for tool in sorted(BUILT_IN_CATALOG)]
    if not all(misfits):
        return ""
    name = test.tokens[0]
    taken = [why for tool, why in zip(sorted(BUILT_IN_CATALOG), misfits, strict=True) if _takes(tool, name)]
    return taken[0] if taken else f"no tool has an argument {name!r}"


def _misfit(test: ArgRule, tool: str) -> str:
    """Why a test can never hold for an argument of a tool, or nothing."""
    name, *deeper = test.tokens
    if name == "computer":
        return "the computer is not an argument once a call is judged; use computers, families or labels"
    if not _takes(tool, name):
        return f"{tool} has no argument {name!r}; it has: {', '.join(ALL_TOOL_ARGS[tool].model_fields)}"
    types = _types(ALL_TOOL_ARGS[tool].model_fields[name].annotation)
    if deeper and (list not in types or len(deeper) > 1 or not deeper[0].isdigit()):
        return f"there is nothing at {test.pointer} in the arguments of {tool}"
    values = test.one_of if test.one_of is not None else () if test.eq is None else (test.eq,)
    wanted = {type(one) for one in values} or {int if test.test.endswith("number") else str}
    odd = next((one for one in wanted if (int if one is float else one) not in types), None)
    if odd is not None:
        return f"{test.pointer} of {tool} is never {_KINDS[odd]}, so its test {test.test} never holds"
    if name in BUILT_IN_CATALOG[tool].path_args:
        return next((f"no canonical path is {one!r}" for one in values if not _is_canonical(one)), "")
    return ""


_KINDS: Final = {str: "a text", int: "a number", float: "a number", bool: "true or false"}


def _takes(tool: str, name: str) -> bool:
    return name in ALL_TOOL_ARGS[tool].model_fields


def _types(annotation: Any) -> set[Any]:
    """Every plain type in an annotation, ``list`` included."""
    inner = [one for part in get_args(annotation) for one in _types(part)]
    outer = getattr(annotation, "__origin__", annotation)
    return {*inner, *([] if isinstance(annotation, UnionType) else [outer])}


def _is_canonical(path: str) -> bool:
    try:
        return canonical_path(path) == path
    except UnsafePath:
        return False


# -- words -------------------------------------------------------------------------------


def _where(error: ValidationError, data: Mapping[str, Any]) -> str:
    first = error.errors(include_url=False)[0]
    loc = first["loc"]
    if len(loc) < 2 or loc[0] not in _NUMBERED or not isinstance(loc[1], int):
        return said_of(first, _place(loc) or "the file")
    entries = data.get(str(loc[0]))
    entry = entries[loc[1]] if isinstance(entries, list) else {}
    name = entry.get("id") if isinstance(entry, dict) else None
    return f"{_NUMBERED[loc[0]]} {loc[1] + 1}{f' ({name})' if name else ''}: {said_of(first, _place(loc[2:]))}"


def _place(loc: tuple[int | str, ...]) -> str:
    """A place in the file, entries counted from one."""
    out = ""
    for part in loc:
        out += f" {part + 1}" if isinstance(part, int) else f".{part}"
    return out.strip(" .")
