"""What an approval is bound to, and the states of one tool call.

Theory. A call is born ``allowed``, ``proposed`` (a person must see it) or ``denied_by_policy``.
A proposed call is observed and becomes ``pending`` in a request; a decision is bound to the
request's ``action_digest`` and consumed by the one run that it allows. A run ends ``executed``
or ``failed``; a run that never happened (void) gives the approval back; a run that nobody can
vouch for is ``outcome_unknown`` until a person says. States without a row are final.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from orchestrator.core.errors import InvalidDecision
from orchestrator.core.facts import CallId, DecisionAction, Observed, OnReject, RequestId, TaskId
from orchestrator.core.items import canonical_json
from orchestrator.core.policy import PolicyDecision, RiskLevel
from orchestrator.core.wire import sha256_hex


class CallState(StrEnum):
    """Where one tool call stands."""

    PROPOSED = "proposed"
    ALLOWED = "allowed"
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELED = "canceled"
    SUPERSEDED = "superseded"
    STALE = "stale"
    EXECUTING = "executing"
    EXECUTED = "executed"
    FAILED = "failed"
    OUTCOME_UNKNOWN = "outcome_unknown"
    DENIED = "denied_by_policy"
    ASKING = "asking"
    ANSWERED = "answered"


CallEvent = Literal[
    "review",
    "approve",
    "reject",
    "stale",
    "expired",
    "superseded",
    "canceled",
    "start",
    "succeed",
    "fail",
    "void",
    "interrupted",
    "unknown",
    "check",
    "mark_done",
    "mark_failed",
    "retry",
    "ask",
    "answer",
]

CALL_TABLE: Final[Mapping[CallState, Mapping[CallEvent, CallState]]] = {
    CallState.PROPOSED: {
        "review": CallState.PENDING,
        "superseded": CallState.SUPERSEDED,
        "canceled": CallState.CANCELED,
    },
    CallState.ALLOWED: {
        "start": CallState.EXECUTING,
        "succeed": CallState.EXECUTED,
        "ask": CallState.ASKING,
        "stale": CallState.STALE,
        "superseded": CallState.SUPERSEDED,
        "canceled": CallState.CANCELED,
    },
    CallState.PENDING: {
        "approve": CallState.APPROVED,
        "reject": CallState.REJECTED,
        "stale": CallState.STALE,
        "expired": CallState.EXPIRED,
        "superseded": CallState.SUPERSEDED,
        "canceled": CallState.CANCELED,
    },
    CallState.APPROVED: {
        "start": CallState.EXECUTING,
        "succeed": CallState.EXECUTED,
        "ask": CallState.ASKING,
        "stale": CallState.STALE,
        "superseded": CallState.SUPERSEDED,
        "canceled": CallState.CANCELED,
    },
    CallState.STALE: {
        "review": CallState.PENDING,
        "superseded": CallState.SUPERSEDED,
        "canceled": CallState.CANCELED,
    },
    CallState.EXECUTING: {
        "succeed": CallState.EXECUTED,
        "fail": CallState.FAILED,
        "stale": CallState.STALE,
        "void": CallState.APPROVED,
        "interrupted": CallState.APPROVED,
        "unknown": CallState.OUTCOME_UNKNOWN,
    },
    CallState.OUTCOME_UNKNOWN: {
        "review": CallState.OUTCOME_UNKNOWN,
        "check": CallState.OUTCOME_UNKNOWN,
        "mark_done": CallState.EXECUTED,
        "mark_failed": CallState.FAILED,
        "retry": CallState.SUPERSEDED,
        "canceled": CallState.OUTCOME_UNKNOWN,
    },
    CallState.ASKING: {"answer": CallState.ANSWERED, "canceled": CallState.CANCELED},
}
"""``void`` and ``interrupted`` (a pure call) give the allowance back: the same digest may run under a new id."""

OPEN_STATES: Final = frozenset(CALL_TABLE)
"""States from which a call can still move."""

DECISIONS: Final[Mapping[str, tuple[DecisionAction, ...]]] = {
    "approval": ("approve", "reject"),
    "outcome_unknown": ("check", "mark_done", "mark_failed", "retry"),
}
"""Which verbs a request takes, by the reason it was raised for."""


def call_digest(*, tool: str, tool_version: int, args: Mapping[str, Any], computer: str | None) -> str:
    """Identifies a call: the same call has the same digest, whoever makes it and whenever (hitl.md B1)."""
    content = {"tool": tool, "version": tool_version, "args": dict(args), "computer": computer}
    return sha256_hex(canonical_json(content))


def action_digest(*, call: str, user_id: str, observed: Observed, evaluation: PolicyDecision) -> str:
    """What a decision is bound to: the call, for whom, what was found, and the verdict with its rules.

    The policy's version is recorded but not part of it: a neutral edit costs no review (hitl.md B1, P15).
    Nor is what follows from the call and the hashes, such as a file's encoding or that a place is a directory.
    """
    content = {
        "call": call,
        "user": user_id,
        "observed": observed.state,
        "effect": evaluation.effect.value,
        "risk": evaluation.risk.value,
        "rules": evaluation.rules_digest,
    }
    return sha256_hex(canonical_json(content))


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CallDecision(_Form):
    """What a person says of one call. ``expected_digest`` is what they saw; None binds to what was stored."""

    call_id: CallId
    action: DecisionAction | Literal["respond"]
    """``respond`` answers a call of ``ask_user``, in the library form."""
    answer: str | None = Field(default=None, max_length=20_000)
    """With ``respond``: what the person says."""
    reason: str = Field(default="", max_length=2000)
    on_reject: OnReject | None = None
    """None: what the task says."""
    expected_digest: str | None = None


class ResumeRequest(_Form):
    """The body of ``/v1/resume``: one action for all calls, or one decision for each."""

    action: DecisionAction | None = None
    decisions: tuple[CallDecision, ...] | None = Field(default=None, min_length=1)
    reason: str = Field(default="", max_length=2000)
    on_reject: OnReject | None = None
    expected_digest: str | None = None
    """With ``action``: the digest of the request as shown (see HitlResponse.action_digest)."""
    idempotency_key: str = Field(default="", max_length=200)

    @model_validator(mode="after")
    def _one_form(self) -> "ResumeRequest":
        if (self.action is None) == (self.decisions is None):
            raise ValueError("give either action or decisions")
        return self


class RequestedCallView(_Form):
    """One call of a request as reviewers see it: exactly what will run."""

    call_id: CallId
    index: int
    plugin_name: str
    tool: str
    args: dict[str, Any]
    computer: str | None
    state: CallState
    observed: Observed
    evaluation: PolicyDecision
    action_digest: str


class HitlResponse(_Form):
    """An approval request as the doors give it out."""

    task_id: TaskId
    session_id: str
    request_id: RequestId
    message: str = "Human intervention required."
    approval_url: str
    rejection_url: str
    tool_calls: tuple[RequestedCallView, ...]
    reason: Literal["approval", "outcome_unknown"] = "approval"
    allowed_decisions: tuple[DecisionAction, ...] = DECISIONS["approval"]
    risk: RiskLevel
    policy_version: str
    action_digest: str
    """Over all calls of the request: what a decision on the whole may echo."""
    requester: str
    goal: str
    """The task as its user wrote it: data, not instructions."""
    explanation: str
    """Written by the model."""
    created_at: AwareDatetime
    expires_at: AwareDatetime | None = None


def request_digest(digests: tuple[str, ...]) -> str:
    """One digest over those of a request's calls, in their order."""
    return digests[0] if len(digests) == 1 else sha256_hex(canonical_json(list(digests)))


def move(state: CallState, event: CallEvent) -> CallState:
    """The next state by the table. Raises InvalidDecision when the event does not fit the state."""
    target = CALL_TABLE.get(state, {}).get(event)
    if target is None:
        raise InvalidDecision(f"A call that is {state.value} cannot take {event!r}.")
    return target
