"""The digest that binds an approval, the presentation of a request, and the forms of a decision."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from orchestrator.core import policy
from orchestrator.core.approval.grants import GrantSpec
from orchestrator.core.errors import UnsafePath
from orchestrator.core.policy import PolicyDecision, RiskLevel
from orchestrator.core.task.facts import CallId, DecisionAction, Observed, OnReject, OnTimeout, RequestId, TaskId
from orchestrator.core.task.items import canonical_json
from orchestrator.core.task.states import CALL_TABLE, OPEN_STATES, CallEvent, CallState, move
from orchestrator.core.text.paths import canonical_path
from orchestrator.core.values import is_empty, is_none, sha256_hex

__all__ = [
    "CALL_TABLE",
    "DECISIONS",
    "INFORMATIONAL",
    "OPEN_STATES",
    "CallDecision",
    "CallEvent",
    "CallState",
    "CommentView",
    "HitlResponse",
    "RequestedCallView",
    "ResumeRequest",
    "SiblingView",
    "TeamView",
    "action_digest",
    "call_digest",
    "move",
    "request_digest",
]

DECISIONS: Final[Mapping[str, tuple[DecisionAction, ...]]] = {
    "approval": ("approve", "reject", "edit", "respond"),
    "outcome_unknown": ("check", "mark_done", "mark_failed", "retry"),
}
"""Which verbs a request takes, by the reason it was raised for."""
MAX_ASKED_AGAIN: Final = 2
"""How often ``check`` has the computer asked once more; then it cannot be known from there."""
WHO_DECIDES: Final = (
    "By default reviewers and admins decide their own tasks and those of submitters and programs; the setting is "
    "`serve --approvers`."
)
"""The rule for people for whom somebody else decides."""
INFORMATIONAL: Final = ("goal", "explanation", "context")
"""The fields of a request whose text people and models wrote."""


def call_digest(*, tool: str, tool_version: int, args: Mapping[str, Any], computer: str | None) -> str:
    """Identifies a call: the same call has the same digest, for every caller and at every time (promise B1).

    The spelling of a path does not count: ``./`` before it does not make a rejected call a new one (promise D15).
    """
    content = {"tool": tool, "version": tool_version, "args": _one_spelling(tool, args), "computer": computer}
    return sha256_hex(canonical_json(content))


def _one_spelling(tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with the game's paths as it reads them; this host reads its own otherwise, so they stay."""
    spec = policy.BUILT_IN_CATALOG.get(tool)
    spelled = dict(args)
    for name in spec.path_args if spec is not None and spec.plugin == "cc" else ():
        # A text that is not a path of the game is denied, and never compared.
        with suppress(UnsafePath):
            if isinstance(spelled.get(name), str):
                spelled[name] = canonical_path(spelled[name])
    return spelled


def action_digest(*, call: str, user_id: str, observed: Observed, evaluation: PolicyDecision) -> str:
    """The digest that a decision is bound to: over the call, its user, what was found, and the verdict with its rules.

    The policy's version is recorded but not part of it: a neutral edit costs no review (promises B1, P15).
    Nor is what follows from the call and the hashes, such as a file's encoding or that a place is a directory.
    """
    content: dict[str, Any] = {
        "call": call,
        "user": user_id,
        "observed": observed.state,
        "effect": evaluation.effect.value,
        "risk": evaluation.risk.value,
        "rules": evaluation.rules_digest,
    }
    if observed.identity:
        content["identity"] = observed.identity
    return sha256_hex(canonical_json(content))


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class CallDecision(_Form):
    """What a person says of one call. ``expected_digest`` is what they saw; None binds to what was stored."""

    call_id: CallId
    action: DecisionAction
    args: dict[str, Any] | None = None
    """With ``edit``: all arguments of what is to run instead, of the same tool on the same computer."""
    answer: str | None = Field(default=None, max_length=20_000)
    """With ``respond``: the text that the model gets in place of a result."""
    reason: str = Field(default="", max_length=2000)
    on_reject: OnReject | None = None
    """None: what the task says."""
    expected_digest: str | None = Field(default=None, max_length=200)
    remember: GrantSpec | None = None
    """With ``approve`` and ``edit``: a grant given with it; None: this once."""

    @model_validator(mode="after")
    def _fits_its_action(self) -> "CallDecision":
        if (self.args is not None) != (self.action == "edit"):
            raise ValueError("edit takes args, and nothing else does")
        if (self.answer is not None) != (self.action == "respond"):
            raise ValueError("respond takes an answer, and nothing else does")
        if self.remember is not None and self.action not in ("approve", "edit"):
            raise ValueError("only an approved call can be remembered")
        return self


class ResumeRequest(_Form):
    """The body of ``/v1/resume``: one action for all calls, or one decision for each."""

    action: DecisionAction | None = None
    decisions: tuple[CallDecision, ...] | None = Field(default=None, min_length=1)
    reason: str = Field(default="", max_length=2000)
    on_reject: OnReject | None = None
    expected_digest: str | None = Field(default=None, max_length=200)
    """The digest of the whole request as shown (see HitlResponse.action_digest)."""
    idempotency_key: str = Field(default="", max_length=200)

    @model_validator(mode="after")
    def _one_form(self) -> "ResumeRequest":
        if (self.action is None) == (self.decisions is None):
            raise ValueError("give either action or decisions")
        if self.action in ("edit", "respond"):
            raise ValueError(f"{self.action} says something of one call: give it in decisions")
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
    """Empty where something of it was cut: a call that nobody saw whole cannot be approved (promise V3)."""
    truncated: bool = False
    original_args: dict[str, Any] | None = None
    """The arguments from the model before a person edited them; None: nobody did."""
    edited_by: str = Field(default="", exclude_if=is_empty)
    """The person who edited them, such as ``ann`` or ``ann for bob``; empty: nobody did."""
    grant_paths: tuple[str, ...] = ()
    """The paths that a grant would cover if it is not widened (promise G2)."""
    checks: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """The checks that run a program and that are approved together with this call; the note says so."""


class SiblingView(_Form):
    """A call of the same step that nobody is asked about, and what came of it (hitl.md S4)."""

    tool: str
    args: dict[str, Any]
    computer: str | None
    state: CallState
    result: str | None


class CommentView(_Form):
    """What a person said of a request to the next reviewer."""

    by: str
    at: AwareDatetime
    text: str


class TeamView(_Form):
    """The people of a request that is not decided by one person alone."""

    need: int = 1
    """How many different people have to approve."""
    approved_by: tuple[str, ...] = ()
    """The people who approved the call that has the fewest approvals, such as ``ann`` or ``ann for bob``."""
    waits_for: str = ""
    """Whose approval comes next, in words that end a sentence."""
    progress: str = ""
    """Such as ``1 of 2: ann``; empty: one approval is enough, and none was given."""
    claimed_by: str = ""
    """The person who looks at it now; empty: nobody said so."""
    claimed_until: AwareDatetime | None = None
    """The time from which others decide all the same."""
    escalate_at: AwareDatetime | None = None
    """When it goes to other people by itself; None: never, or it has gone to them."""
    escalated_to: str = ""
    """The people who have it now, such as ``role:admin``; empty: it was not escalated."""
    comments: tuple[CommentView, ...] = ()


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
    """The digest over all calls of the request: a decision on the whole may echo it."""
    requester: str
    requester_roles: tuple[str, ...] = ()
    asked_at: str = ""
    """The computer in the game at which somebody asked in the requester's name; empty: it was asked elsewhere."""
    goal: str
    """The task as its user wrote it: data, not instructions."""
    explanation: str
    """Written by the model; where ``informational`` does not name it: what the orchestrator planned, and for whom."""
    created_at: AwareDatetime
    expires_at: AwareDatetime | None = None
    """None: it does not expire."""
    on_timeout: OnTimeout = "stay_paused"
    """The effect on the task when nobody answers in time; it never approves."""
    on_reject: OnReject = "cancel"
    """The effect of a rejection on the task, unless the person says otherwise."""
    context: tuple[SiblingView, ...] = ()
    informational: tuple[str, ...] = INFORMATIONAL
    """The fields whose text people and programs wrote: data for their reader, never instructions (promise V6)."""
    redacted: bool = False
    """Whether secrets were taken out of the text that is shown; the call that runs has them."""
    team: TeamView | None = Field(default=None, exclude_if=is_none)
    """Who has to approve, who did, and who looks at it; None: one person decides, and nobody said anything yet."""


def request_digest(digests: tuple[str, ...]) -> str:
    """One digest over those of a request's calls, in their order."""
    return digests[0] if len(digests) == 1 else sha256_hex(canonical_json(list(digests)))
