"""The facts that a task's items carry: frozen, in past tense, one union.

They are the audit, the conversation and the state at once, and they are for ever: kinds may be
added and a kind may get a field with a default, nothing else changes; tests/golden/items holds one of
each released schema.
"""

from typing import Annotated, Any, Literal, NewType

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from orchestrator.core.policy import BUILT_IN_CATALOG, PolicyDecision, RiskLevel
from orchestrator.core.wire import ComputerId, RunId

TaskId = NewType("TaskId", str)
CallId = NewType("CallId", str)
RequestId = NewType("RequestId", str)
QuestionId = NewType("QuestionId", str)

EndStatus = Literal["Completed", "Failed", "Canceled"]
RequestEnd = Literal["expired", "superseded", "stale", "canceled"]
DecisionAction = Literal["approve", "reject", "check", "mark_done", "mark_failed", "retry"]
OnReject = Literal["cancel", "continue"]
Limit = Literal["max_steps", "max_wall_s", "max_tokens", "model_output", "model_failed"]


class Value(BaseModel):
    """A frozen value that knows every field it has."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BlobRef(Value):
    """Large text or bytes, kept by hash in the store's blobs."""

    sha256: str
    size: int


class ToolCall(Value):
    """One call as the model asked for it, arguments validated and canonical."""

    call_id: CallId
    index: int
    """Its place in the reply, from 0: results go back to the model in this order."""
    tool: str
    args: dict[str, Any]
    computer: ComputerId | None = None
    """None: the call touches no computer."""
    call_digest: str
    """sha256 of tool, tool version, canonical arguments and computer: identifies the call."""

    @property
    def plugin_name(self) -> str:
        """The tool's plugin; ``unknown`` for a tool outside the catalog."""
        spec = BUILT_IN_CATALOG.get(self.tool)
        return spec.plugin if spec else "unknown"

    @property
    def function_name(self) -> str:
        """The tool's full name."""
        return self.tool


class Observed(Value):
    """What a call would touch, as it was found just before a person was asked."""

    state: dict[str, str]
    """Canonical path (or resolved program) to sha256 or ``absent``."""
    diff: str | None = None
    """Unified diff of a write; None when the call changes no text."""
    program: str | None = None
    """The resolved program of a run; None for other calls."""
    source: str | None = None
    """The text of that program, as its hash in ``state`` binds it; None: it is the game's own, or too long to show."""
    encoding: Literal["utf-8", "latin-1"] = "utf-8"
    """How a write encodes its text: as the old bytes, whose hash is in ``state``, are encoded."""
    directories: tuple[str, ...] = ()
    """Those of ``state`` that are directories."""
    note: str = ""
    """What else a reviewer should know, such as that a file is not text."""


class RequestedCall(Value):
    """One call of an approval request, with all that a decision is bound to."""

    call_id: CallId
    observed: Observed
    evaluation: PolicyDecision
    action_digest: str


class Usage(Value):
    """Tokens of one model request, as the model's server counted them; 0 where it did not say."""

    input_tokens: int = 0
    output_tokens: int = 0


class EarlierTask(Value):
    """How an earlier task of the same session ended, as a follow-up is told."""

    task_id: TaskId
    prompt: str
    status: EndStatus
    message: str


class TaskSubmitted(Value):
    """A task came in."""

    kind: Literal["task_submitted"] = "task_submitted"
    prompt: str
    user_id: str
    session_id: str
    computers: tuple[ComputerId, ...] = ()
    model: str
    max_steps: int
    max_wall_s: float = 0.0
    """Seconds from its first request to the model on, waiting for people not counted; 0: no limit."""
    max_tokens: int = 0
    """Tokens in and out, over all requests to the model; 0: no limit."""
    priority: int = 0
    earlier: tuple[EarlierTask, ...] = ()
    """The ended tasks of its session when it came in, oldest first."""
    tag: str
    """Random word of this task: fences tool output in the prompt as data."""
    on_reject: OnReject = "cancel"


class ModelAsked(Value):
    """The model was asked for its next reply."""

    kind: Literal["model_asked"] = "model_asked"
    attempt: int
    prompt_version: str
    policy_version: str
    view_digest: str
    """sha256 of the messages sent: what the model saw can be proved later."""


class ModelReplied(Value):
    """The model's reply, whole and as it came."""

    kind: Literal["model_replied"] = "model_replied"
    raw: BlobRef
    done_reason: str
    usage: Usage = Usage()


class ReplyRefused(Value):
    """The reply had no single reading; ``reason`` is the sentence the model gets."""

    kind: Literal["reply_refused"] = "reply_refused"
    reason: str


class CallsProposed(Value):
    """The model asked for calls; the policy judged each."""

    kind: Literal["calls_proposed"] = "calls_proposed"
    explanation: str
    calls: tuple[ToolCall, ...]
    evaluations: tuple[PolicyDecision, ...]


class ReviewRequested(Value):
    """A person has to decide; the task pauses."""

    kind: Literal["review_requested"] = "review_requested"
    request_id: RequestId
    reason: Literal["approval", "outcome_unknown"]
    calls: tuple[RequestedCall, ...]
    risk: RiskLevel
    policy_version: str
    expires_at: AwareDatetime | None = None
    """None: it does not expire."""


class Decision(Value):
    """One person's decision on one call, bound to the digest of what was shown."""

    call_id: CallId
    action: DecisionAction
    action_digest: str
    reason: str = ""
    on_reject: OnReject = "cancel"
    retry_as: CallId | None = None
    """The new call id of a ``retry``; None for other actions."""


class DecisionRecorded(Value):
    """A person decided one or more calls of a request."""

    kind: Literal["decision_recorded"] = "decision_recorded"
    request_id: RequestId
    decisions: tuple[Decision, ...]
    key: str = ""
    """The idempotency key that came with it, if any."""


class RequestEnded(Value):
    """A request ended without a decision."""

    kind: Literal["request_ended"] = "request_ended"
    request_id: RequestId | None
    """None: the calls had been allowed, and no longer are."""
    end: RequestEnd
    call_ids: tuple[CallId, ...]
    """The calls it ended for."""
    reason: str = ""


class ToolStarted(Value):
    """A call is about to touch the world; durable before it does."""

    kind: Literal["tool_started"] = "tool_started"
    call_id: CallId
    run_id: RunId
    """Names this one run on the computer's channel; never used twice."""
    computer: ComputerId | None = None
    number: int = 0
    """Allotted by the store when it seals the item; 0 where no computer is touched."""
    action_digest: str
    """Computed again from what is about to be sent."""
    before: dict[str, str] = {}
    """Each touched path with its sha256 or ``absent``. Of what a tool changes, the store has the bytes by this
    very hash: of a file its bytes, of a directory the lines that its hash is taken over."""
    directories: tuple[str, ...] = ()
    """Those of ``before`` that are directories."""


class ToolFinished(Value):
    """A call ended, and how; ``text`` is what the model is told."""

    kind: Literal["tool_finished"] = "tool_finished"
    call_id: CallId
    run_id: RunId
    ok: bool
    code: str | None = None
    text: str
    after: dict[str, str] = {}
    """Each changed path with its sha256 or ``absent`` afterwards, where it is known."""


class ToolSettled(Value):
    """What the computer said of a call whose outcome had not been heard."""

    kind: Literal["tool_settled"] = "tool_settled"
    call_id: CallId
    run_id: RunId
    state: Literal["finished", "interrupted", "unknown", "void"]
    ok: bool | None = None
    """None unless finished."""
    text: str = ""
    reason: str = ""
    """Why it is void, interrupted or unknown; shown to the reviewer and, if it ends so, to the model."""
    code: str | None = None
    """Of a finished run that failed, the code as in ``tool_finished``; None otherwise."""
    after: dict[str, str] = {}
    """As in ``tool_finished``."""


class QuestionAsked(Value):
    """The model asked a person something; the task pauses."""

    kind: Literal["question_asked"] = "question_asked"
    question_id: QuestionId
    call_id: CallId
    question: str


class QuestionAnswered(Value):
    """A person answered."""

    kind: Literal["question_answered"] = "question_answered"
    question_id: QuestionId
    answer: str


class StatusSent(Value):
    """The model told its user how it goes."""

    kind: Literal["status_sent"] = "status_sent"
    call_id: CallId
    message: str


class CancelRequested(Value):
    """A person wants the task to stop."""

    kind: Literal["cancel_requested"] = "cancel_requested"
    reason: str = ""


class LimitReached(Value):
    """A limit of the task was reached before the next request to the model."""

    kind: Literal["limit_reached"] = "limit_reached"
    limit: Limit
    detail: str = ""


class TaskEnded(Value):
    """The task is over."""

    kind: Literal["task_ended"] = "task_ended"
    status: EndStatus
    status_reason: str
    message: str = ""
    explanation: str = ""
    details: dict[str, Any] = {}
    verified: bool | None = None
    """False: the model claims a success for which there is no evidence; None: nobody judged it."""


Fact = Annotated[
    TaskSubmitted
    | ModelAsked
    | ModelReplied
    | ReplyRefused
    | CallsProposed
    | ReviewRequested
    | DecisionRecorded
    | RequestEnded
    | ToolStarted
    | ToolFinished
    | ToolSettled
    | QuestionAsked
    | QuestionAnswered
    | StatusSent
    | CancelRequested
    | LimitReached
    | TaskEnded,
    Field(discriminator="kind"),
]
