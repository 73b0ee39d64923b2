"""Grants: the calls that one decision allows beyond the call it was made on.

Theory. A grant comes from a person's decision on one call. It is never wider than that call unless the person widened
it before their eyes (promise G2). It covers the exact call for the task, or a pattern of the same tool on the same
computer for the task or, for a time, for the session; there is no grant for ever (promise G1). It replaces a person's
answer where the policy asks, never where it denies and never at critical risk (promise G5). It never covers a risk
above that of the call that it came from, nor a path for which a rule asks that did not ask for that call. A call under
a grant is bound and checked as after a decision.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import AwareDatetime, Field, field_validator, model_validator

from orchestrator.core import policy
from orchestrator.core.policy import Effect, PolicyDecision, RiskLevel, severity
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.text.paths import can_match, canonical_path, path_matches
from orchestrator.core.values import ComputerId, Value, is_empty, is_none

MAX_SESSION_S: Final = 7 * 86_400
"""A session's grant ends within a week: permission for longer is a rule of the policy, and is reviewed as one."""
SESSION_S: Final = 8 * 3_600
"""How long a session's grant lasts where nobody says: an evening of play."""

GrantScope = Literal["call", "task", "session"]


class GrantSpec(Value):
    """What a person adds to an approval: how far it reaches."""

    scope: GrantScope
    """``call``: this very call again; ``task``, ``session``: the pattern."""
    paths: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Globs: as many as the call has paths are one for each, else every path must match one of them.
    None: exactly the paths of this call."""
    any_content: bool = Field(default=False, strict=True)
    """Whether the text that is written is left open; else a call must write the very same."""
    expires_s: float | None = Field(default=None, strict=True, gt=0, le=MAX_SESSION_S, allow_inf_nan=False)
    """Seconds from now; None: with the task, for a session SESSION_S."""
    max_uses: int | None = Field(default=None, strict=True, ge=1, le=10_000)
    """None: as often as it matches."""

    @model_validator(mode="after")
    def _one_call_has_no_pattern(self) -> "GrantSpec":
        if self.scope == "call" and (self.paths is not None or self.any_content):
            raise ValueError("this very call has no pattern to widen; choose the scope task or session")
        return self

    @field_validator("paths")
    @classmethod
    def _can_match(cls, paths: tuple[str, ...] | None) -> tuple[str, ...] | None:
        dead = [glob for glob in paths or () if not can_match(glob)]
        if dead:
            raise ValueError(f"no canonical path can match: {', '.join(map(repr, dead))}")
        return paths


class Grant(Value):
    """A standing approval as it was given."""

    grant_id: GrantId
    scope: GrantScope
    task_id: str
    session_id: str
    user_id: str
    """Whose tasks it covers."""
    granted_by: str
    tool: str
    computer: ComputerId | None = None
    identity: str = ""
    """Which computer went by that name, as ``Observed`` has it: another one is not covered (promise B6)."""
    call_digest: str
    """The digest of the call that it came from; with scope ``call`` the only call that it covers."""
    paths: tuple[str, ...] = ()
    """Globs: as many as a call has paths are one for each, in their order; else every path must match one of them."""
    any_content: bool = False
    args: dict[str, Any] = Field(default_factory=dict)
    """Arguments that must be equal: all but the paths and, where the person left it open, the text of a change."""
    files: dict[str, str] = Field(default_factory=dict)
    """For a run: the program and the hash of its text; another text voids the grant (promise G7)."""
    created_at: AwareDatetime
    expires_at: AwareDatetime | None = None
    max_uses: int | None = None
    risk: RiskLevel | None = Field(default=None, exclude_if=is_none)
    """The risk of the call that it came from: a higher one is not covered. None: version 0.6 did not record it."""
    guards: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """``PolicyDecision.guards`` of that call: where another such rule matches, a person decides."""

    @property
    def bounded(self) -> "Grant":
        """The grant as it may be used: one without a risk covers no more than the least that its tool can have."""
        if self.risk is not None:
            return self
        spec = policy.BUILT_IN_CATALOG.get(self.tool)
        return self.model_copy(update={"risk": RiskLevel.LOW if spec is None else spec.governance.risk})


class GrantState(Value):
    """A standing approval and what became of it."""

    grant: Grant
    uses: int = 0
    revoked: bool = False

    def usable(self, now: datetime) -> bool:
        """Whether the grant still holds."""
        grant = self.grant
        in_time = grant.expires_at is None or now < grant.expires_at
        return not self.revoked and in_time and (grant.max_uses is None or self.uses < grant.max_uses)


def own_paths(tool: str, args: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths of a call, which are also the globs of a grant that nobody widened: none of them has a ``*``."""
    return tuple(canonical_path(str(args[name])) for name in policy.BUILT_IN_CATALOG[tool].path_args if name in args)


def fixed_args(tool: str, args: Mapping[str, Any], *, any_content: bool) -> dict[str, Any]:
    """The arguments that a pattern keeps fixed: always a command line and the arguments of a program (promise G3)."""
    spec = policy.BUILT_IN_CATALOG[tool]
    loose = {*spec.path_args, *(spec.text_args if any_content else ())}
    return {name: value for name, value in args.items() if name not in loose}


def covers(
    grant: Grant,
    *,
    tool: str,
    computer: ComputerId | None,
    args: Mapping[str, Any],
    call_digest: str,
    state: Mapping[str, str],
    identity: str,
    verdict: PolicyDecision,
) -> bool:
    """Whether a call that the policy asks about is one that the grant stands for.

    ``state``: what was found, path to sha256; ``identity``: on which computer. Whether the
    grant still holds is :meth:`GrantState.usable`.
    """
    if verdict.effect is not Effect.ASK or verdict.risk is RiskLevel.CRITICAL:
        return False
    # Uses of a grant without a risk are in old journals, and were in order then: `bounded` is for new ones.
    if grant.risk is not None and (
        severity(verdict.risk) > severity(grant.risk) or not set(verdict.guards) <= set(grant.guards)
    ):
        return False
    if (tool, computer, identity) != (grant.tool, grant.computer, grant.identity):
        return False
    if tool in policy.RUNNERS and dict(state) != grant.files:
        return False
    if grant.scope == "call":
        return call_digest == grant.call_digest
    if fixed_args(tool, args, any_content=grant.any_content) != grant.args:
        return False
    return in_paths(grant.paths, own_paths(tool, args))


def in_paths(globs: Sequence[str], paths: Sequence[str]) -> bool:
    """Whether the globs of a grant cover the paths of a call: a move from a to b is not the move back."""
    each = [(glob,) for glob in globs] if len(paths) == len(globs) else [globs] * len(paths)
    return all(
        any(path_matches(glob, path, ignore_case=False) for glob in some)
        for some, path in zip(each, paths, strict=True)
    )


def first_covering(grants: Iterable[GrantState], now: datetime, **call: Any) -> Grant | None:
    """The first grant that stands and covers a call as :func:`covers` takes it; None: a person decides."""
    return next((one.grant for one in grants if one.usable(now) and covers(one.grant.bounded, **call)), None)
