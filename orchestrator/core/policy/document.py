"""A policy as its file says it: rules, the treatment of requests, and examples that prove it."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from orchestrator.core.approval.people import BUILT_IN_ROLES, Right
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.evidence.user_checks import read_check
from orchestrator.core.policy.approvals import ApprovalRule
from orchestrator.core.policy.match import ReadyRule, ready
from orchestrator.core.policy.rights import RoleRights, Undo
from orchestrator.core.policy.rules import Family, PolicyRule, content_of
from orchestrator.core.policy.verdicts import (
    Effect,
    PolicyContext,
    PolicyDecision,
    RequestRules,
    RiskLevel,
    digest_of,
    is_never_watched,
)
from orchestrator.core.text.paths import can_match, path_matches
from orchestrator.core.values import Value


class ExampleCall(Value):
    """A call of an example, and what is known around it."""

    tool: str
    args: dict[str, Any] = Field(default_factory=dict)
    computer: str | None = None
    family: Family | None = None
    label: str | None = None
    program: str | None = None
    roles: tuple[str, ...] | None = None
    user: str = ""
    """This one and the next two: left out, it is somebody whom no rule for people names, and nobody's computer."""
    groups: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    plan: bool = False
    stated_risk: RiskLevel | None = None

    @property
    def context(self) -> PolicyContext:
        """What is known around the call."""
        return PolicyContext(**self.model_dump(exclude={"tool", "args"}))


class Example(Value):
    """A call and the effect that the policy has to have on it, or it is not loaded (hitl.md P10)."""

    call: ExampleCall
    expect: Effect


class PathCheck(Value):
    """A check that is added to every task that changes a matching path of a computer."""

    path: str
    """A glob on canonical paths, whatever their case."""
    check: str
    """Its line (see ``core.evidence.user_checks``) without ``@``: it is made on the computer of the path."""

    @field_validator("path")
    @classmethod
    def _can_match(cls, path: str) -> str:
        if not can_match(path):
            raise ValueError(f"no canonical path can match: {path!r}")
        return path

    @field_validator("check")
    @classmethod
    def _can_be_made(cls, check: str) -> str:
        try:
            read = read_check(check)
        except InvalidRequest as error:
            raise ValueError(str(error)) from None
        if read.computer:
            raise ValueError(f"{read.text!r} names a computer, and the check is made where the path changed")
        if read.kind == "unchanged":
            raise ValueError(f"{read.text!r}: for a file that must not change, write a rule that denies, not a check")
        return read.text


class InGameReview(Value):
    """Where and by whom requests are decided in the game: the table ``[in_game_review]``."""

    computers: Annotated[tuple[str, ...], Field(min_length=1)]
    """Globs on names of computers."""
    people: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    """Besides ``people``, everybody with one of these roles."""
    proof: Literal["pin", "paired"] = "pin"
    """``paired``: the person owns the computer. ``pin``: they type their PIN there."""

    @model_validator(mode="after")
    def _names_somebody(self) -> Self:
        if not self.people and not self.roles:
            raise ValueError("in_game_review names nobody: say people or roles")
        return self

    def at(self, computer: str) -> bool:
        """Whether somebody may review at a computer."""
        return any(path_matches(glob, computer, ignore_case=False) for glob in self.computers)

    def by(self, person: str, roles: Collection[str]) -> bool:
        """Whether a person with these roles may review in the game."""
        return person in self.people or not set(roles).isdisjoint(self.roles)


Amount = Annotated[int, Field(strict=True, ge=1, le=10**12)]


class Quota(Value):
    """What a person may use; None: no limit, or, for a group, what the table ``[quotas]`` says."""

    tasks: Amount | None = None
    """Tasks that they submit in a day of UTC."""
    tokens: Amount | None = None
    """In and out, in a day."""
    minutes: Amount | None = None
    """Minutes of their tasks in a day, as ``max_wall_s`` counts them: without the waits for people."""
    running: Amount | None = None
    """Tasks that work at once; others of the same person wait for their turn."""
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The model of their tasks that name none."""
    weight: Annotated[float, Field(ge=0.1, le=10)] | None = None
    """Turns for each turn of somebody with the weight 1, which is what people have that nothing is said of."""


class Quotas(Quota):
    """The table ``[quotas]`` of a policy."""

    groups: dict[str, Quota] = Field(default_factory=dict)
    """What a group's people may use instead; of several groups of a person the most counts."""

    def of(self, groups: Iterable[str]) -> Quota:
        """The quota of somebody in these groups."""
        own = [self.groups[name] for name in groups if name in self.groups]
        found: dict[str, Any] = {}
        for name in Quota.model_fields:
            said = [value for one in own if (value := getattr(one, name)) is not None]
            # A model is not more than another: of several groups that name one, it is the last by name.
            found[name] = max(said) if said else getattr(self, name)
        return Quota(**found)


SecretsToModel = Literal["mask", "ask", "allow"]
"""Whether a model is told secrets: as markers, as markers of which it may ask a person to see one, or as they are."""


SummaryKey = tuple[tuple[str, ...], tuple[str, ...], bool, bool]
"""Computers, roles, whether the task only looks, and whether it rehearses."""


class Policy(Value):
    """A policy file, checked: rules and what to do with tools the catalog does not know."""

    schema_version: Literal[1] = 1
    unknown_tool: Literal["deny", "ask"] = "deny"
    mode: Literal["normal", "plan"] = "normal"
    """In ``plan`` every tool that changes something is denied (promise P18)."""
    custom: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """The plugins that judge every call as well, by the names of their entry points."""
    undo: Undo = "offer"
    """``auto``: they are taken back by a task that nobody has to ask for and that passes the gate as any other."""
    requests: RequestRules = RequestRules.of_defaults()
    roles: dict[str, RoleRights] = Field(default_factory=dict)
    """Roles beside those that every installation has, by their names."""
    self_approval: Annotated[bool, Field(strict=True)] = False
    """Whether people who only submit decide what their own tasks ask, too."""
    approvals: tuple[ApprovalRule, ...] = ()
    """The people who have to approve some calls, beside what ``[requests]`` says of all."""
    in_game_review: InGameReview | None = None
    """Where and by whom requests are decided in the game; None: nowhere."""
    quotas: Quotas = Quotas.of_defaults()
    """What people may use in a day, and how they take turns."""
    watch: tuple[str, ...] = ("**",)
    """Globs on paths of a computer: there, what a program changes while it runs is known and can be put back."""
    run_timeout_s: dict[str, Annotated[int, Field(strict=True, ge=1, le=86_400)]] = Field(default_factory=dict)
    """Globs on names of computers, with the seconds of the game that a program may run there; the first counts."""
    checks: tuple[PathCheck, ...] = ()
    """The checks that have to hold, besides what its user says, when a task that changed a path claims success."""
    secrets_to_model: SecretsToModel | None = None
    """Whether models are told secrets; None: models on a local server are, the others get markers in their place."""
    rules: tuple[PolicyRule, ...]
    examples: tuple[Example, ...] = ()

    @field_validator("watch")
    @classmethod
    def _can_be_watched(cls, watch: tuple[str, ...]) -> tuple[str, ...]:
        dead = [glob for glob in watch if not can_match(glob)]
        if dead:
            raise ValueError(f"no canonical path can match: {', '.join(map(repr, dead))}")
        never = [glob for glob in watch if is_never_watched(glob)]
        if never:
            raise ValueError(f"only a computer's own files are watched, no other disk: {', '.join(map(repr, never))}")
        return watch

    @field_validator("roles")
    @classmethod
    def _are_roles(cls, roles: dict[str, RoleRights]) -> dict[str, RoleRights]:
        odd = [name for name in roles if not _ROLE_NAME.fullmatch(name)]
        if odd:
            raise ValueError(f"a role has up to 32 of a-z, 0-9, - and _: {', '.join(map(repr, odd))} has others")
        taken = sorted(roles.keys() & BUILT_IN_ROLES.keys())
        if taken:
            raise ValueError(f"every installation has the role {taken[0]}, and no policy changes it; take another name")
        return roles

    @model_validator(mode="after")
    def _know_their_roles(self) -> Self:
        known = (*BUILT_IN_ROLES, *self.roles)
        named = [by.partition(":") for rule in self.approvals for by in rule.people]
        odd = sorted({name for kind, _, name in named if kind == "role"}.difference(known))
        if odd:
            raise ValueError(f"approvals name the role {odd[0]!r}, and there is none; the roles are {', '.join(known)}")
        return self

    @cached_property
    def role_limits(self) -> Mapping[str, RoleRights]:
        """Its own roles that decide only some calls."""
        return {name: one for name, one in self.roles.items() if not one.is_unlimited}

    @cached_property
    def role_rights(self) -> Mapping[str, frozenset[Right]]:
        """The rights of its own roles."""
        return {name: frozenset(one.may) for name, one in self.roles.items()}

    def run_timeout_of(self, computer: str) -> int | None:
        """Seconds of the game that a program may run on a computer; None: the policy does not say."""
        found = (one for one in self.run_timeout_s if path_matches(one, computer, ignore_case=False))
        glob = next(found, None)
        return None if glob is None else self.run_timeout_s[glob]

    @cached_property
    def version(self) -> str:
        """A short hash of the content: the same rules have the same version everywhere."""
        content = self.model_dump(mode="json", by_alias=True, exclude={"rules"})
        added = Policy(rules=()).model_dump(mode="json", by_alias=True)
        kept = {name: value for name, value in content.items() if name in _FIRST or value != added[name]}
        return digest_of({**kept, "rules": [content_of(rule) for rule in self.rules]})[:16]

    def digest_of(self, matched: tuple[PolicyRule, ...]) -> str:
        """sha256 over the content of some of its rules; the same few match again and again."""
        ids = tuple(rule.id for rule in matched)
        if ids not in self._digests:
            self._digests[ids] = digest_of([content_of(rule) for rule in matched])
        return self._digests[ids]

    def decision(
        self,
        effect: Effect,
        risk: RiskLevel,
        reason: str,
        matched: tuple[PolicyRule, ...],
        guards: tuple[PolicyRule, ...] = (),
    ) -> PolicyDecision:
        """A verdict of this policy; those that rules gave are made once, as they come again and again."""
        key = (tuple([rule.id for rule in matched]), effect, risk, reason, tuple([rule.id for rule in guards]))
        known = self._decisions.get(key)
        if known is None:
            known = PolicyDecision(
                effect=effect,
                risk=risk,
                matched_rules=key[0],
                reason=reason,
                policy_version=self.version,
                rules_digest=self.digest_of(matched),
                guards=tuple([digest_of(content_of(rule)) for rule in guards]),
            )
            if matched and len(self._decisions) < _MAX_DECISIONS:
                self._decisions[key] = known
        return known

    def ready_rules(self, tool: str) -> tuple[ReadyRule, ...]:
        """The rules that name a tool, in the order of the file."""
        if tool not in self._by_tool:
            self._by_tool[tool] = tuple(one for one in self._ready if one.rule.names(tool))
        return self._by_tool[tool]

    def summary(self, key: SummaryKey, make: Callable[[], str]) -> str:
        """What models are told of it; ``key``: the facts of a task that it depends on, as many tasks have the same."""
        told = self._summaries.get(key)
        if told is None:
            told = make()
            if len(self._summaries) < _MAX_SUMMARIES:
                self._summaries[key] = told
        return told

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy that is checked, and that remembers nothing of this one."""
        del deep  # all of it is frozen
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate({**fields, **(update or {})})

    @cached_property
    def _digests(self) -> dict[tuple[str, ...], str]:
        return {}

    @cached_property
    def _decisions(self) -> dict[tuple[tuple[str, ...], Effect, RiskLevel, str, tuple[str, ...]], PolicyDecision]:
        return {}

    @cached_property
    def _summaries(self) -> dict[SummaryKey, str]:
        return {}

    @cached_property
    def _ready(self) -> tuple[ReadyRule, ...]:
        return tuple(ready(rule) for rule in self.rules)

    @cached_property
    def _by_tool(self) -> dict[str, tuple[ReadyRule, ...]]:
        return {}


_ROLE_NAME = re.compile("[a-z][a-z0-9_-]{0,31}")
_MAX_DECISIONS = 1024
"""A plugin's reasons may have no end."""
_MAX_SUMMARIES = 256
"""Of a thousand characters at most; more computers than these have theirs made for each task."""
_FIRST = frozenset({"schema_version", "unknown_tool"})
"""What stood in the first release's version; the rest counts where it is not the default."""
