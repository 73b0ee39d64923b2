"""What the gate can say of a call: an effect, a risk, and the verdict that is stored with the request."""

import hashlib
import json
from enum import StrEnum
from typing import Any, Final

from pydantic import Field

from orchestrator.core.values import Value, is_empty


class Effect(StrEnum):
    """What the gate does with a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class RiskLevel(StrEnum):
    """How much harm a call may do; ``unknown`` counts as at least high."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


_STRICTNESS: Final = {Effect.ALLOW: 0, Effect.ASK: 1, Effect.DENY: 2}
RISKS: Final = (RiskLevel.LOW, RiskLevel.MEDIUM, RiskLevel.HIGH, RiskLevel.UNKNOWN, RiskLevel.CRITICAL)
"""From the least to the greatest."""
_SEVERITY: Final = {risk: place for place, risk in enumerate(RISKS)}


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
    """An order on effects: allow, ask, deny."""
    return _STRICTNESS[effect]


def severity(risk: RiskLevel) -> int:
    """An order on risks: unknown stands above high."""
    return _SEVERITY[risk]


def stricter(one: PolicyDecision, other: PolicyDecision) -> PolicyDecision:
    """The stricter of an earlier verdict and a later one; of two alike the later."""
    return other if _STRICTNESS[other.effect] >= _STRICTNESS[one.effect] else one


def digest_of(value: Any) -> str:
    """sha256 over a value of JSON, in one spelling."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
