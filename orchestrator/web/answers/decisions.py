"""What the doors of requests and decisions answer."""

from typing import Any, Literal

from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.task.task_states import TaskStatus
from orchestrator.web.answers.base import AnswerModel, Problem
from orchestrator.web.answers.tasks import TaskShort


class Requests(AnswerModel):
    """What waits for a person, oldest first, long texts cut."""

    requests: list[HitlResponse]


class TaskOverAnswer(TaskShort):
    """A task that has ended after the decision."""

    kind: Literal["final"]
    explanation: str
    success: bool
    message: str
    details: dict[str, Any]


class NextRequest(HitlResponse):
    """The request that the task waits for next, after the decision."""

    status: TaskStatus


class DecisionTaken(TaskShort):
    """A decision that was carried out."""

    request_id: str
    http_status: Literal[200]


class DecisionRefused(AnswerModel):
    """A decision that was refused; nothing of it holds."""

    request_id: str
    http_status: int
    """What it would have been answered with alone."""
    error: Problem


class DecidedList(AnswerModel):
    """The answers in the order of the requests."""

    decisions: list[DecisionTaken | DecisionRefused]
