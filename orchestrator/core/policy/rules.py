"""One rule of a policy: its effect, and the calls that it is about. All its predicates have to match."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from orchestrator.core.policy.linear import LinearPattern
from orchestrator.core.policy.verdicts import Effect, OneOrMore, RiskLevel
from orchestrator.core.text.paths import can_match
from orchestrator.core.values import Value

Family = Literal["computer", "advanced", "turtle", "pocket", "command"]
CUSTOM_PREFIX: Final = "custom:"
"""Begins the id of a verdict that a plugin gave."""


def _scalar(value: Any) -> Any:
    if not isinstance(value, str | int | float) or value != value:  # noqa: PLR0124 - only what is not a number is not itself
        raise ValueError("a value must be text, a number, true or false")
    return value


Scalar = Annotated[Any, BeforeValidator(_scalar)]
Length = Annotated[int, Field(strict=True, ge=0)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class ArgRule(Value):
    """A test of one argument; exactly one test in each, several of them for several tests."""

    pointer: str
    """A JSON pointer into the arguments, such as ``/content`` or ``/args/0``."""
    eq: Scalar | None = None
    one_of: Annotated[tuple[Scalar, ...], Field(min_length=1)] | None = Field(default=None, alias="in")
    regex: str | None = None
    max_length: Length | None = None
    """The most characters; only in a rule that allows."""
    max_number: Number | None = None
    """The largest number; only in a rule that allows."""
    over_length: Length | None = None
    """More characters than this; only in a rule that asks or denies, as the next."""
    over_number: Number | None = None

    @property
    def test(self) -> str:
        """The name of its one test, as the file writes it."""
        return next(name for name, value in self.tests.items() if value is not None)

    @property
    def tests(self) -> Mapping[str, Any]:
        """Every test by its name in the file; None: not this one."""
        return {
            "eq": self.eq,
            "in": self.one_of,
            "regex": self.regex,
            "max_length": self.max_length,
            "max_number": self.max_number,
            "over_length": self.over_length,
            "over_number": self.over_number,
        }

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The steps of the pointer."""
        return tuple(step.replace("~1", "/").replace("~0", "~") for step in self.pointer.split("/")[1:])

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        if not self.pointer.startswith("/") or self.pointer == "/":
            raise ValueError(f"the pointer {self.pointer!r} names no argument; it begins with '/', such as '/content'")
        given = [name for name, value in self.tests.items() if value is not None]
        if len(given) != 1:
            what = f"has {' and '.join(given)}" if given else "has no test"
            raise ValueError(f"the test of {self.pointer} {what}; write exactly one of {', '.join(self.tests)}")
        return self


class PolicyRule(Value):
    """One rule: matches when each given predicate matches; an absent predicate matches all."""

    id: str = Field(min_length=1)
    effect: Effect
    tools: tuple[str, ...] = Field(min_length=1)
    """Exact tool names, or ``*`` alone."""
    paths: OneOrMore | None = None
    """Globs on the canonical path. To ask or deny, any path argument has to match any glob; to allow, all of them."""
    programs: OneOrMore | None = None
    """Globs on the resolved path of the program that would run (promises P7, P8)."""
    computers: OneOrMore | None = None
    """Globs on the computer's name."""
    families: Annotated[tuple[Family, ...], Field(min_length=1)] | None = None
    labels: OneOrMore | None = None
    """Globs on the computer's label."""
    args: Annotated[tuple[ArgRule, ...], Field(min_length=1)] | None = None
    """Tests of arguments; every one has to hold."""
    roles: OneOrMore | None = None
    """The requester has one of these roles."""
    users: OneOrMore | None = None
    """The requester is one of these people, or a program of theirs."""
    groups: OneOrMore | None = None
    """The requester is in one of these groups."""
    owners: OneOrMore | None = None
    """The computer belongs to one of these people, or to a group as ``group:NAME``."""
    risks: Annotated[tuple[RiskLevel, ...], Field(min_length=1)] | None = None
    """The call's risk before any rule raises it. A risk that the model or an analyser raised counts at each
    level from the catalog's on: to ask or deny, one of them has to be listed; to allow, all of them."""
    risk: RiskLevel | None = None
    """Raises the risk of the calls it matches; never lowers it."""
    reads: Literal[True] | None = None
    """What it allows changes nothing, so that it is allowed in plan mode, too; only for tools that may do either."""
    reason: str = ""

    def names(self, tool: str) -> bool:
        """Whether the rule speaks of a tool."""
        return self.tools == ("*",) or tool in self.tools

    @model_validator(mode="after")
    def _can_match(self) -> Self:
        if self.id.startswith(CUSTOM_PREFIX):
            raise ValueError(f"ids that begin with {CUSTOM_PREFIX!r} are those of plugins")
        if "*" in self.tools and self.tools != ("*",):
            raise ValueError("'*' must be alone in tools; name the tools or write only '*'")
        odd = [name for name in self.tools if name != "*" and not name.replace("_", "").isalnum()]
        if odd:
            raise ValueError(f"tools are exact names, not patterns: {', '.join(odd)}")
        dead = [glob for glob in (*(self.paths or ()), *(self.programs or ())) if not can_match(glob)]
        if dead:
            raise ValueError(f"no canonical path can match: {', '.join(map(repr, dead))}")
        if self.effect is Effect.ALLOW and self.risks is not None and self.risk is not None:
            raise ValueError("a rule that allows by risks cannot raise the risk; put the risk into a rule of its own")
        if self.reads and (self.effect is not Effect.ALLOW or not self.args):
            raise ValueError("reads belongs to a rule that allows and says by args which calls change nothing")
        for test in self.args or ():
            self._check(test)
        return self

    def _check(self, test: ArgRule) -> None:
        loose = self.effect is not Effect.ALLOW
        wrong, right = ("max", "over") if loose else ("over", "max")
        if test.test.startswith(wrong):
            meant = test.test.replace(wrong, right)
            raise ValueError(f"a rule that {_VERBS[self.effect]} has no {test.test}; write {meant} instead")
        if test.regex is not None:
            try:
                LinearPattern(test.regex, loose=loose)
            except ValueError as error:
                raise ValueError(f"the regex {test.regex!r} cannot be used: {error}") from None


_VERBS: Final = {Effect.ALLOW: "allows", Effect.ASK: "asks", Effect.HINT: "hints", Effect.DENY: "denies"}
_LATER: Final = ("labels", "args", "roles", "users", "groups", "owners", "risks", "reads")
"""Predicates that the first release did not have: where a rule has none, its digest is what it was."""


def content_of(rule: PolicyRule) -> dict[str, Any]:
    """A rule as it is hashed: a decision is bound to it."""
    content = rule.model_dump(mode="json", by_alias=True)
    for name in _LATER:
        if content[name] is None:
            del content[name]
    return content
