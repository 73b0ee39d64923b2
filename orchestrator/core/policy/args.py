"""Tests of a call's arguments: a JSON pointer to the value, and what it has to be.

A path argument is tested as the canonical path, an argument that is left out as its default, a
list by its entries. Letter case does not count for rules that ask or deny. A value of a type that
the test cannot judge, or a text that is too long to be read, is a match for such a rule and none
for a rule that allows; a value that is not there is no match for either.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic_core import PydanticUndefined

from orchestrator.core.policy.catalog import ALL_TOOL_ARGS
from orchestrator.core.policy.linear import LinearPattern
from orchestrator.core.policy.rules import ArgRule
from orchestrator.core.policy.tool_spec import ToolSpec
from orchestrator.core.text.paths import canonical_path

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
    """What a pointer leads to; nothing there, and null, are one value that is no other."""
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
