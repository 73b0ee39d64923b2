"""Whether a rule matches a call: predicates made ready once for each rule, asked for each call.

Theory. A predicate says yes, no or maybe. It says maybe of facts that are not known yet: which computer it
is, its family and its label, which program a word means, whether the thing that is moved or deleted is a
directory with a certain file in it. A rule matches as its least certain predicate does. A
rule that allows counts only with yes; one that asks or denies counts with maybe, too, and then
asks (see ``judging``). A question that can never be decided, such as the length of an argument that is not
text, is a yes for rules that ask or deny: they fail closed. A predicate on an absent argument does not apply.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, Final, Protocol

from pydantic import Field
from pydantic_core import PydanticUndefined

from orchestrator.core.policy.catalog import BUILT_IN_CATALOG, ToolSpec
from orchestrator.core.policy.command_line import Runs, is_allowed, is_hit, resolved_program, runs_of, spellings
from orchestrator.core.policy.linear import LinearPattern
from orchestrator.core.policy.rules import ArgRule, PolicyRule
from orchestrator.core.policy.verdicts import RISKS, Effect, PolicyContext, RiskLevel, severity
from orchestrator.core.text.paths import canonical_path, path_matches
from orchestrator.core.text.visible import without_hidden
from orchestrator.core.values import Value, immutable

# -- What is judged: a call -------------------------------------------------------------


class AnyCall(Protocol):
    """Whatever names a tool and its arguments."""

    @property
    def tool(self) -> str:
        """The tool's full name."""

    @property
    def args(self) -> Mapping[str, Any]:
        """Its arguments."""


class FunctionCall(Value):
    """A call as :func:`check_for_intervention` takes it: a name and arguments."""

    tool: str
    args: dict[str, Any] = Field(default_factory=dict)

    @property
    def plugin_name(self) -> str:
        """The tool's plugin; ``unknown`` for a tool outside the catalog."""
        spec = BUILT_IN_CATALOG.get(self.tool)
        return spec.plugin if spec else "unknown"

    @property
    def function_name(self) -> str:
        """The tool's full name."""
        return self.tool


# -- Tests of a call's arguments: a JSON pointer to the value, and what it has to be -----
#
# A path argument is tested as the canonical path, an argument that is left out as its default, a list by its
# entries. Letter case does not count for rules that ask or deny. A value of a type that the test cannot judge, or
# a text that is too long to be read, is a match for such a rule and none for a rule that allows; a value that is
# not there is no match for either.

MAX_TEXT_CHARS: Final = 100_000
"""A longer text is not searched."""
_ABSENT: Final = object()

_Test = Callable[[Any], bool | None]
"""Whether a value passes; None: it is of a type that the test knows nothing of."""


class ArgTest:
    """One test of a rule, made ready."""

    def __init__(self, rule: ArgRule, *, loose: bool) -> None:
        self._tokens = rule.tokens
        self._loose = loose
        self._test = _test_of(rule, loose=loose)

    def matches(self, args: Mapping[str, Any], spec: ToolSpec) -> bool:
        """Whether the argument of a call passes; its paths are known to be safe."""
        value = find(args, self._tokens, spec)
        leaves = list(value) if isinstance(value, list | tuple) else [value]
        if value is _ABSENT or not leaves:
            return False
        passed = [self._test(leaf) for leaf in leaves]
        return any(one is not False for one in passed) if self._loose else all(passed)


def find(args: Mapping[str, Any], tokens: Sequence[str], spec: ToolSpec) -> Any:
    """What a pointer leads to; nothing there, and null, are one value, which equals no other."""
    name, *rest = tokens
    value = args.get(name)
    if value is None:
        value = _default(spec.name, name)
    if name in spec.path_args and isinstance(value, str):
        value = canonical_path(value)
    for token in rest:
        if isinstance(value, Mapping):
            value = value.get(token)
        elif isinstance(value, list | tuple) and token.isascii() and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
        else:
            return _ABSENT
    return _ABSENT if value is None else value


def _default(tool: str, name: str) -> Any:
    from orchestrator.core.policy.tool_args import ALL_TOOL_ARGS

    model = ALL_TOOL_ARGS.get(tool)
    field = model.model_fields.get(name) if model else None
    return None if field is None or field.default is PydanticUndefined else field.default


def _test_of(rule: ArgRule, *, loose: bool) -> _Test:
    if rule.regex is not None:
        pattern = LinearPattern(rule.regex, loose=loose)
        return lambda value: pattern.matches(value) if _is_readable(value) else None
    name, limit = rule.test, rule.tests[rule.test]
    over = name.startswith("over")
    if name.endswith("length"):
        return lambda value: (len(value) > limit) is over if isinstance(value, str) else None
    if name.endswith("number"):
        return lambda value: (value > limit) is over if _is_number(value) else None
    wanted = limit if name == "in" else (limit,)
    return lambda value: _is_one_of(value, wanted, loose=loose)


def _is_one_of(value: Any, wanted: Sequence[Any], *, loose: bool) -> bool | None:
    alike = [one for one in wanted if _kind(one) == _kind(value)]
    if not alike:
        return None
    if loose and isinstance(value, str):
        return value.casefold() in [one.casefold() for one in alike]
    return value in alike


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number" if _is_number(value) else "other"


def _is_readable(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT_CHARS


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# -- Whether a rule matches a call: predicates made ready once for each rule, asked for each call


class Match(IntEnum):
    """Whether something matches; the least of several is that of all."""

    NO = 0
    MAYBE = 1
    YES = 2


NO, MAYBE, YES = Match.NO, Match.MAYBE, Match.YES


@dataclass
class Subject:
    """A call as the predicates see it."""

    call: AnyCall
    spec: ToolSpec
    paths: tuple[str, ...]
    """Its path arguments, canonical."""
    context: PolicyContext
    base_risk: RiskLevel
    """The risk before any rule raises it: the catalog's, or the stated or analysed one above that."""

    def __post_init__(self) -> None:
        self.run_files = _run_files(self)
        """The files beside its path that a call of ``cc_run_program`` may run."""
        self.reached = tuple([one for path in (*self.paths, *self.run_files) for one in spellings(path)])
        """Every path that it may reach, in every spelling."""

    @cached_property
    def runs(self) -> Runs:
        """The programs that it would run."""
        return runs_of(self.call.tool, self.call.args, self.context.program)

    @cached_property
    def risks(self) -> tuple[RiskLevel, ...]:
        """Every level from the catalog's risk up to the base risk; ``unknown`` is at least high (promise P12)."""
        least = self.spec.governance.risk
        start = RiskLevel.HIGH if least is RiskLevel.UNKNOWN else least
        return RISKS[severity(start) : severity(self.base_risk) + 1]


Predicate = Callable[[Subject], Match]


@immutable
class ReadyRule:
    """A rule with its predicates."""

    rule: PolicyRule
    predicates: tuple[tuple[str, Predicate], ...]
    """Each by its name in the file."""

    def outcome(self, subject: Subject) -> Match:
        """Whether the rule matches a call of a tool that it names."""
        least = YES
        for _, predicate in self.predicates:
            found = predicate(subject)
            if found is NO:
                return NO
            if found is MAYBE:
                least = MAYBE
        return NO if least is MAYBE and self.rule.effect is Effect.ALLOW else least

    def undecided(self, subject: Subject) -> str:
        """The name of the first predicate that says no, else of the first that is not certain; empty: all say yes."""
        said = [(predicate(subject), name) for name, predicate in self.predicates]
        return next((name for least in (NO, MAYBE) for found, name in said if found is least), "")


def ready(rule: PolicyRule) -> ReadyRule:
    """A rule made ready to be asked again and again; cheap questions come first."""
    loose = rule.effect is not Effect.ALLOW
    made: dict[str, Callable[[Any, bool], Predicate]] = {
        "families": _families,
        "computers": _computers,
        "labels": _labels,
        "roles": _named("roles"),
        "users": _named("user"),
        "groups": _named("groups"),
        "owners": _named("owners"),
        "risks": _risks,
        "paths": _paths,
        "args": _args,
        "programs": _programs,
    }
    given = ((name, make, getattr(rule, name)) for name, make in made.items())
    return ReadyRule(rule, tuple((name, make(wanted, loose)) for name, make, wanted in given if wanted is not None))


def _run_files(subject: Subject) -> tuple[str, ...]:
    if subject.call.tool != "cc_run_program":
        return ()
    resolved = resolved_program(subject.context.program)
    return tuple([f"{path}.lua" for path in subject.paths]) if resolved is None else (resolved,)


# -- the predicates ----------------------------------------------------------------------


def _yes(found: bool) -> Match:
    return YES if found else NO


def _families(wanted: tuple[str, ...], _: bool) -> Predicate:
    def family(subject: Subject) -> Match:
        context = subject.context
        if context.family is None:
            return _unknown(subject)
        return _yes(context.family in wanted)

    return family


def _unknown(subject: Subject) -> Match:
    """What is said of something about the computer that nobody knows yet."""
    return MAYBE if subject.spec.plugin == "cc" else NO


def _computers(globs: tuple[str, ...], loose: bool) -> Predicate:
    def computer(subject: Subject) -> Match:
        name = subject.context.computer
        return _unknown(subject) if name is None else _name(globs, name, loose)

    return computer


def _labels(globs: tuple[str, ...], loose: bool) -> Predicate:
    def label(subject: Subject) -> Match:
        context = subject.context
        if context.label is None and context.family is None:
            return _unknown(subject)
        labels = (context.label or "", *context.former_labels)
        if not loose:
            # Of a computer that had more labels than are kept, nobody knows whether all of them match.
            return _yes(not context.had_too_many_labels and all(one and _name(globs, one, loose) for one in labels))
        spelled = {form for one in labels for form in (one, without_hidden(one)) if form}
        if any(_name(globs, one, loose) for one in spelled):
            return YES
        return _yes(context.had_too_many_labels and subject.spec.plugin == "cc")

    return label


def _name(globs: tuple[str, ...], name: str, loose: bool) -> Match:
    return _yes(any(_name_pattern(glob, loose).fullmatch(name) is not None for glob in globs))


@lru_cache(maxsize=1024)
def _name_pattern(glob: str, loose: bool) -> re.Pattern[str]:
    """A glob on a name: to ask or deny ``*`` is any text, in any letter case; to allow it stops at a ``/``."""
    wild = {"*": ".*", "?": "."} if loose else {"*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*+|\*|\?)", glob)
    out = (".*" if part.startswith("**") else wild.get(part) or re.escape(part) for part in parts)
    return re.compile("".join(out), re.DOTALL | (re.IGNORECASE if loose else 0))


def _named(field: str) -> Callable[[tuple[str, ...], bool], Predicate]:
    """A predicate on names around the call that are known or not, such as roles; they are no globs."""

    def make(wanted: tuple[str, ...], loose: bool) -> Predicate:
        names = set(wanted)

        def predicate(subject: Subject) -> Match:
            has: str | tuple[str, ...] | None = getattr(subject.context, field)
            if has is None:
                return _yes(loose)
            found = (has,) if isinstance(has, str) else has
            return _yes(not names.isdisjoint(found))

        return predicate

    return make


def _risks(wanted: tuple[RiskLevel, ...], loose: bool) -> Predicate:
    listed = any if loose else all
    return lambda subject: _yes(listed(risk in wanted for risk in subject.risks))


def _paths(globs: tuple[str, ...], loose: bool) -> Predicate:
    def inside_all(subject: Subject) -> Match:
        paths = (*subject.paths, *_run_instead(subject))
        return _yes(bool(paths) and all(_is_one(globs, path, loose) for path in paths))

    def touched(subject: Subject) -> Match:
        for path in subject.reached:
            if _is_one(globs, path, loose):
                return YES
        if not subject.spec.takes_trees:
            return NO
        return max([_may_hold_one(globs, path) for path in subject.reached], default=NO)

    return touched if loose else inside_all


def _run_instead(subject: Subject) -> tuple[str, ...]:
    """The program that ``cc_run_program`` would run by an alias. A rule that allows must match that, too."""
    own = {one for path in subject.paths for one in (path, f"{path}.lua")}
    return tuple(path for path in subject.run_files if path not in own)


def _is_one(globs: tuple[str, ...], path: str, loose: bool) -> bool:
    for glob in _beginning_as(globs, path.partition("/")[0], loose):
        if path_matches(glob, path, ignore_case=loose):
            return True
    return False


@lru_cache(maxsize=4096)
def _beginning_as(globs: tuple[str, ...], name: str, loose: bool) -> tuple[str, ...]:
    """The globs that a path which begins with this name may match: most paths begin as no glob does."""
    firsts = ((glob, glob.lstrip("/").partition("/")[0]) for glob in globs)
    return tuple(glob for glob, first in firsts if "**" in first or path_matches(first, name, ignore_case=loose))


@lru_cache(maxsize=4096)
def _may_hold_one(globs: tuple[str, ...], directory: str) -> Match:
    return max(_may_hold(glob, directory) for glob in globs)


def _may_hold(glob: str, directory: str) -> Match:
    """Whether a glob means something inside of a directory; maybe, if it names the directory by a pattern."""
    segments = glob.lstrip("/").split("/")
    parts = directory.split("/") if directory else []
    found = YES
    for number, part in enumerate(parts):
        if number >= len(segments):
            return NO
        if "**" in segments[number]:
            return MAYBE
        if not path_matches(segments[number], part, ignore_case=True):
            return NO
        if set("*?") & set(segments[number]):
            found = MAYBE  # many a file is called like that, and most are not directories
    return found if len(segments) > len(parts) else NO


def may_hold(glob: str, directory: str) -> bool:
    """Whether something inside of a directory may match a glob, whatever the letter case."""
    return _may_hold(glob, directory) is not NO


def _args(wanted: tuple[Any, ...], loose: bool) -> Predicate:
    tests = [ArgTest(one, loose=loose) for one in wanted]
    return lambda subject: _yes(all(test.matches(subject.call.args, subject.spec) for test in tests))


def _programs(globs: tuple[str, ...], loose: bool) -> Predicate:
    def hit(subject: Subject) -> Match:
        found = is_hit(subject.runs, globs)
        return MAYBE if found is None else _yes(found)

    return hit if loose else lambda subject: _yes(is_allowed(subject.runs, globs))
