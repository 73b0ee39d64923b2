"""What the doors of tasks answer."""

from typing import Any, Literal

from pydantic import AwareDatetime

from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.task.facts import CheckResult, EarlierTask
from orchestrator.core.task.task_states import Phase, TaskStatus
from orchestrator.core.undo.messages import UndoOffer
from orchestrator.core.undo.outcomes import Outcome
from orchestrator.web.answers.base import AnswerModel


class TaskShort(AnswerModel):
    """A task and where it stands now."""

    task_id: str
    status: TaskStatus


class TaskRowAnswer(TaskShort):
    """A task in a list."""

    status_reason: str
    """What it waits for, or ``unverified``; empty where the status says enough."""
    user_id: str
    session_id: str
    prompt: str
    """The first 200 characters."""
    computers: list[str]
    created_at: AwareDatetime
    updated_at: AwareDatetime
    pinned: bool
    """Whether no retention removes it."""


class TaskList(AnswerModel):
    """Tasks, the newest first."""

    tasks: list[TaskRowAnswer]


class CallAnswer(AnswerModel):
    """A call of the present step and where it stands."""

    call_id: str
    tool: str
    computer: str | None
    """null: it touches no computer."""
    state: str
    """A state of the table in docs/design.md, or ``approved_waiting_target``: its computer is away."""
    valid_until: AwareDatetime | None
    """When the approval lapses; null: never, or there is none."""


class QuestionAnswer(AnswerModel):
    """A question that the task waits on."""

    question_id: str
    question: str | None
    """Written by the model."""


class Result(AnswerModel):
    """How a task ended."""

    kind: Literal["final"]
    explanation: str
    success: bool
    """False too where the task ended well by the model's word and the journal does not support it."""
    message: str
    details: dict[str, Any]
    verified: bool | None
    """False: the journal does not support the success that the model claims; null: nobody judged it."""
    report: list[str]
    """What the journal shows, whatever the model says: changed files, programs with how they ended, and what was
    not run since it was changed; a line each."""


class TaskLong(TaskShort):
    """A task whole."""

    status_reason: str
    phase: Phase
    version: int
    """Of its last item."""
    prompt: str
    user_id: str
    asked_at: str | None
    """The computer in the game at which it was asked in this person's name; null: at none."""
    session_id: str
    computers: list[str]
    model: str
    steps: int
    max_steps: int
    """0: no limit, as for the other two."""
    tokens: int
    max_tokens: int
    active_s: float
    """Seconds that count against ``max_wall_s``."""
    max_wall_s: float
    priority: int
    read_only: bool
    wait_for_model: bool
    """Whether it waits without an end for a model server that cannot be reached."""
    pinned: bool
    """Whether no retention removes it."""
    rehearses: str | None
    """The computer of whose files it works on a copy; null: it works on the real ones."""
    earlier: list[EarlierTask]
    """How the earlier tasks of its session ended, oldest first."""
    created_at: AwareDatetime | None
    updated_at: AwareDatetime | None
    request: HitlResponse | None
    """What waits for a person, long texts cut."""
    lapsed_request: str | None
    """The request that nobody answered in time and that ``renew`` raises again."""
    calls: list[CallAnswer]
    question: QuestionAnswer | None
    checks: list[CheckResult]
    """What came of its checks at the last claim of success."""
    result: Result | None
    """null: it has not ended."""
    undoes: str | None
    """The task that it takes back; null: none."""
    undo: UndoOffer | None
    """null: it has not ended."""
    applied: Outcome | None
    """Of a rehearsal: what became of the task that asks for all of it; null: none asks."""


class Stopped(AnswerModel):
    """The tasks that were stopped."""

    stopped: list[str]
