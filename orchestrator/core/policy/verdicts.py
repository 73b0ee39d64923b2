"""A verdict of the gate on a call: an effect, a risk, and the reasons, stored with the request; and its facts."""

import hashlib
import json
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from orchestrator.core.approval.workflow import MAX_PEOPLE
from orchestrator.core.text.paths import path_matches
from orchestrator.core.values import Value, is_empty

# -- What the gate can say of a call: an effect, a risk, and the verdict that is stored with the request


class Effect(StrEnum):
    """What the gate does with a call."""

    ALLOW = "allow"
    ASK = "ask"
    HINT = "hint"
    """The model explains it; once the user has tried by themselves, a person is asked."""
    DENY = "deny"


class RiskLevel(StrEnum):
    """How much harm a call may do; ``unknown`` counts as at least high."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


_STRICTNESS: Final = {Effect.ALLOW: 0, Effect.ASK: 1, Effect.HINT: 2, Effect.DENY: 3}
RISKS: Final = (RiskLevel.LOW, RiskLevel.MEDIUM, RiskLevel.HIGH, RiskLevel.UNKNOWN, RiskLevel.CRITICAL)
"""The risks from the least to the greatest."""
MAX_FORMER_LABELS: Final = 32
"""The most former labels of one computer.

With so many, each rule by label that asks or denies matches, and none that allows.
"""
_SEVERITY: Final = {risk: place for place, risk in enumerate(RISKS)}


class PolicyContext(Value):
    """The facts that a call is judged by, beside the call itself.

    What is not known fails closed: no rule that allows matches on it. A rule that asks or denies
    matches on roles that nobody knows; where it will yet be known (the computer, its family and
    label, which program a word means), such a rule asks until then.
    """

    computer: str | None = None
    """None: no computer is touched, or nobody said which."""
    family: str | None = None
    """None: the computer has not said hello yet, so its label is not known either."""
    label: str | None = None
    """None beside a family: the computer has no label."""
    former_labels: tuple[str, ...] = ()
    """Other labels that the computer had since it was paired: no rule is escaped, or reached, by renaming it."""
    program: str | None = None
    """The program that a run resolves to; None while nobody has looked."""
    roles: tuple[str, ...] | None = None
    """The requester's roles; None: nobody knows them."""
    user: str | None = None
    """The person for whom the task is; None: nobody knows."""
    groups: tuple[str, ...] | None = None
    """The groups that this person is in; None: nobody knows them."""
    owners: tuple[str, ...] | None = None
    """Whom the computer belongs to: a person, and each group as ``group:NAME``. None: nobody knows."""
    plan: bool = False
    """The task may only look: every tool that changes something is denied (promise P18)."""
    stated_risk: RiskLevel | None = None
    """What the model said of its own call: it can raise the risk, never lower it (promise P13)."""
    analysed_risk: RiskLevel | None = None
    """What an analyser outside of the policy said; as ``stated_risk``."""

    @property
    def had_too_many_labels(self) -> bool:
        """Whether the computer may have had labels that are not kept."""
        return len(self.former_labels) >= MAX_FORMER_LABELS


class PolicyDecision(Value):
    """The verdict on one call, as it is stored with the request."""

    effect: Effect
    risk: RiskLevel
    matched_rules: tuple[str, ...]
    reason: str
    policy_version: str
    rules_digest: str
    """sha256 over the content of the matched rules: a decision is bound to it, not to the version."""
    guards: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Digests of the rules that ask or deny for some calls of a tool only, by a path, a computer, a label or another
    condition, and that may match, and ids of the plugins that ask: a grant that was given without one of them does
    not stand in for a person here."""


def strictness(effect: Effect) -> int:
    """An order on effects: allow, ask, hint, deny."""
    return _STRICTNESS[effect]


def severity(risk: RiskLevel) -> int:
    """An order on risks: unknown is above high."""
    return _SEVERITY[risk]


def stricter(one: PolicyDecision, other: PolicyDecision) -> PolicyDecision:
    """The stricter of an earlier verdict and a later one; of two alike the later."""
    return other if _STRICTNESS[other.effect] >= _STRICTNESS[one.effect] else one


def digest_of(value: Any) -> str:
    """sha256 over a value of JSON, in one spelling."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


# -- What a policy says of requests for review: who waits for whom, and what time does to them

_YEAR_S = 365 * 24 * 3600
OneOrMore = Annotated[tuple[str, ...], Field(min_length=1)]
"""An empty list would match nothing, and a rule that denies must never do that by mistake (promise P9)."""
Seconds = Annotated[int, Field(strict=True, ge=0, le=_YEAR_S)]
_DAY_S = 24 * 3600
_HOUR_S = 3600


class Expiry(Value):
    """Seconds until a request expires, by its risk; 0: never."""

    low: Seconds = _DAY_S
    medium: Seconds = _DAY_S
    high: Seconds = _HOUR_S
    critical: Seconds = _HOUR_S
    unknown: Seconds | None = None
    """None: as ``high``."""


class RequestRules(Value):
    """The table ``[requests]`` of a policy."""

    siblings: Literal["reads", "hold", "run_safe"] = "reads"
    """Which allowed calls run while others of their step wait for a person: the reads, none, or all (promise S3)."""
    partial: Literal["at_end", "at_once"] = "at_end"
    """When an approved change runs: once its whole step is decided, or at once (promise D5)."""
    on_reject: Literal["cancel", "continue"] | None = None
    """The effect of a rejection on the task where the person did not say; None: as the task says (promise D13)."""
    max_rejections: Annotated[int, Field(strict=True, ge=0, le=1000)] = 3
    """Rejections in a row after which the task ends; 0: no limit (promise D15)."""
    release_on_relax: Annotated[bool, Field(strict=True)] = False
    """Whether a pending call runs when a new policy allows it; otherwise it stays pending (promise P15)."""
    expiry: Expiry = Field(default=Expiry.of_defaults(), alias="expires_s")
    on_timeout: Literal["continue", "cancel", "stay_paused"] = "stay_paused"
    """The effect of an expired request on the task: tell the model, end it, or wait for people (promise O3)."""
    remind_before_s: Seconds = 600
    """Seconds before the deadline at which people are reminded; 0: never (promise O4)."""
    approval_valid_s: Seconds = 900
    """Seconds in which an approved call has to start; 0: no limit (promise B7)."""
    approvals: Annotated[int, Field(strict=True, ge=1, le=MAX_PEOPLE)] = 1
    """How many different people have to approve a request (promise D22)."""

    def expires_s(self, risk: RiskLevel) -> int:
        """Seconds until a request of this risk expires; 0: never."""
        if risk is RiskLevel.UNKNOWN and self.expiry.unknown is None:
            return self.expiry.high
        return int(getattr(self.expiry, risk.value))


# -- Which places of a computer a policy has watched while a program runs there ----------

_ELSEWHERE: Final = re.compile(r"(?:rom|disk[0-9]*|\.cc-orchestrator)")
"""What is at the top of a computer and not its own: the game's files, disks in drives, the client's own."""
_WILD: Final = re.compile(r"[*?]")


def is_never_watched(glob: str) -> bool:
    """Whether a glob names what is not a computer's own, by its first name."""
    return _ELSEWHERE.fullmatch(glob.lstrip("/").partition("/")[0]) is not None


def is_watched(globs: Iterable[str], path: str) -> bool:
    """Whether a canonical path is in one of the places."""
    return any(path_matches(glob, path, ignore_case=False) for glob in globs)


def watched_roots(globs: Iterable[str]) -> tuple[str, ...]:
    """The fewest and smallest directories, or files, in which all that the globs can match is."""
    found: list[str] = []
    for root in sorted({_root(glob) for glob in globs}):
        if not any(not one or f"{root}/".startswith(f"{one}/") for one in found):
            found.append(root)
    return tuple(found)


def _root(glob: str) -> str:
    parts = glob.strip("/").split("/")
    wild = next((at for at, part in enumerate(parts) if _WILD.search(part)), len(parts))
    return "/".join(parts[:wild])
