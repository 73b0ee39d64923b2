"""What a policy says of requests for review: who waits for whom, and what time does to them."""

from typing import Annotated, Literal

from pydantic import Field

from orchestrator.core.policy.verdicts import RiskLevel
from orchestrator.core.values import Value

_YEAR_S = 365 * 24 * 3600
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
    """Which allowed calls run while others of their step wait for a person: the reads, none, or all (hitl.md S3)."""
    partial: Literal["at_end", "at_once"] = "at_end"
    """When an approved change runs: once its whole step is decided, or at once (D5)."""
    on_reject: Literal["cancel", "continue"] | None = None
    """What a rejection does to the task where the person did not say; None: as the task says (D13)."""
    max_rejections: Annotated[int, Field(strict=True, ge=0, le=1000)] = 3
    """Rejections in a row after which the task ends; 0: no limit (D15)."""
    release_on_relax: Annotated[bool, Field(strict=True)] = False
    """Whether a pending call runs when a new policy allows it; otherwise it stays pending (P15)."""
    expiry: Expiry = Field(default=Expiry(), alias="expires_s")
    on_timeout: Literal["continue", "cancel", "stay_paused"] = "stay_paused"
    """What an expired request does to the task: tell the model, end it, or wait for people (O3)."""
    remind_before_s: Seconds = 600
    """Seconds before the deadline at which people are reminded; 0: never (O4)."""
    approval_valid_s: Seconds = 900
    """Seconds in which an approved call has to start; 0: no limit (B7)."""

    def expires_s(self, risk: RiskLevel) -> int:
        """Seconds until a request of this risk expires; 0: never."""
        if risk is RiskLevel.UNKNOWN and self.expiry.unknown is None:
            return self.expiry.high
        return int(getattr(self.expiry, risk.value))
