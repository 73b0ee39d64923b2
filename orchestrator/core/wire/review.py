"""The messages of the reviewer channel: text frames, one JSON object each.

After the handshake the server sends a snapshot of everything that waits, then each change.
``seq`` numbers the frames of this one connection; a gap means: connect again for a new
snapshot. A decision carries a ``ref`` of the reviewer's choice, and is answered by it.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from orchestrator.core.approval.approval import HitlResponse, ResumeRequest
from orchestrator.core.errors import FrameRefused, plain
from orchestrator.core.reply.scanner import doubled_key
from orchestrator.core.task.facts import EndStatus, QuestionId, RequestId, TaskId
from orchestrator.core.undo.messages import TaskChange, UndoLimit, UndoOffer, UndoPlace, UndoRequest
from orchestrator.core.values import is_empty

REVIEWER_SUBPROTOCOL: Final = "cc-orchestrator.review.v1"
REVIEWER_SUBPROTOCOL_1_1: Final = "cc-orchestrator.review.v1.1"
"""The subprotocol of reviewers who are told of ended tasks as well."""
MAX_REVIEW_FRAME_CHARS = 64 * 1024
"""A decision is small; a larger frame is a mistake."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class OpenQuestion(_Message):
    """A question that a task waits on."""

    task_id: TaskId
    question_id: QuestionId
    question: str
    """Written by the model."""
    goal: str
    options: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Choices of the model's, from number 1 on: an answer that is just a number in range means that choice."""


class Snapshot(_Message):
    """Everything that waits for this reviewer now."""

    type: Literal["snapshot"] = "snapshot"
    seq: int
    requests: tuple[HitlResponse, ...]
    questions: tuple[OpenQuestion, ...] = ()
    others: int = 0
    """Requests that wait for somebody else, as ``approvers`` has it.

    A person who does not review is told of their own only.
    """


class RequestOpened(_Message):
    """A new request, or one whose calls changed."""

    type: Literal["request_opened"] = "request_opened"
    seq: int
    request: HitlResponse


class RequestClosed(_Message):
    """A request that takes no more decisions."""

    type: Literal["request_closed"] = "request_closed"
    seq: int
    request_id: RequestId
    how: str


class RequestReminded(_Message):
    """A request that expires soon and that nobody has decided."""

    type: Literal["request_reminded"] = "request_reminded"
    seq: int
    request_id: RequestId
    expires_at: AwareDatetime


class QuestionOpened(_Message):
    """A new question."""

    type: Literal["question_opened"] = "question_opened"
    seq: int
    question: OpenQuestion


class QuestionClosed(_Message):
    """A question that was answered, or whose task is over."""

    type: Literal["question_closed"] = "question_closed"
    seq: int
    question_id: QuestionId


class TaskOver(_Message):
    """A task failed or was canceled, and had changed something by then; told again when a task takes it back."""

    type: Literal["task_over"] = "task_over"
    seq: int
    task_id: TaskId
    status: EndStatus
    goal: str
    message: str
    """Why, as the model or the system wrote it."""
    changes: tuple[TaskChange, ...]
    """The first of the places that it changed."""
    left_out: int = 0
    """How many more there are: ``GET /v1/tasks/{task_id}/changes`` lists them all."""
    undo: UndoOffer


class UndoPreviewed(_Message):
    """What an undo would do now."""

    type: Literal["undo_preview"] = "undo_preview"
    seq: int
    ref: str
    task_id: TaskId
    places: tuple[UndoPlace, ...]
    left_out: int = 0
    """Places that are not named here: the same request over REST names all."""
    cannot_be_undone: tuple[UndoLimit, ...]
    not_heard: tuple[UndoLimit, ...] = ()
    """Calls of which nobody has heard yet how they ended: the undo waits for that."""


class Done(_Message):
    """What the reviewer asked for was carried out."""

    type: Literal["done"] = "done"
    seq: int
    ref: str
    task_id: TaskId
    status: str
    progress: str = Field(default="", exclude_if=is_empty)
    """How far the approvals are, such as ``1 of 2: ann``, where more people have to approve; empty: it is decided."""


class Failed(_Message):
    """What the reviewer asked for, or a frame of theirs, was refused."""

    type: Literal["failed"] = "failed"
    seq: int
    ref: str | None = None
    code: str
    message: str
    remedy: str = ""
    details: dict[str, Any] = Field(default_factory=dict)
    """For programs, such as who decided before."""


class DecideRequest(_Message):
    """Decide a request."""

    type: Literal["decide"] = "decide"
    ref: str = Field(max_length=100)
    request_id: RequestId
    resume: ResumeRequest


class AnswerQuestion(_Message):
    """Answer a question."""

    type: Literal["answer"] = "answer"
    ref: str = Field(max_length=100)
    task_id: TaskId
    question_id: QuestionId
    answer: str = Field(max_length=20_000)


class UndoTask(_Message):
    """Take back what a task changed, or tell what that would do."""

    type: Literal["undo"] = "undo"
    ref: str = Field(max_length=100)
    task_id: TaskId
    undo: UndoRequest = UndoRequest.of_defaults()


ToReviewer = Annotated[
    Snapshot
    | RequestOpened
    | RequestClosed
    | RequestReminded
    | QuestionOpened
    | QuestionClosed
    | TaskOver
    | UndoPreviewed
    | Done
    | Failed,
    Field(discriminator="type"),
]
Asked = DecideRequest | AnswerQuestion | UndoTask
"""The messages that a reviewer may send."""
FromReviewer = Annotated[Asked, Field(discriminator="type")]

_LATER: Final = ConfigDict(defer_build=True)
"""They are built when the first frame comes: a command that only lists reads none."""
_FROM: TypeAdapter[Any] = TypeAdapter(FromReviewer, config=_LATER)
_TO: TypeAdapter[Any] = TypeAdapter(ToReviewer, config=_LATER)


def decode_from_reviewer(text: str) -> Asked:
    """A frame of a reviewer. Raises FrameRefused with the reason."""
    message: Asked = _decode(text, _FROM, MAX_REVIEW_FRAME_CHARS)
    if (key := doubled_key(text)) is not None:
        raise FrameRefused(f"The frame has the key {key[:100]!r} twice.", remedy="Send each key once.")
    return message


def decode_to_reviewer(text: str) -> Any:
    """A frame to a reviewer, for clients. Raises FrameRefused with the reason."""
    return _decode(text, _TO, None)


def _decode(text: str, adapter: TypeAdapter[Any], limit: int | None) -> Any:
    if limit is not None and len(text) > limit:
        raise FrameRefused(f"The frame has {len(text)} characters, over {limit}.")
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise FrameRefused(
            f"The frame cannot be read: {plain(error, 'the frame')}.", remedy="docs/protocol.md lists the messages."
        ) from None
