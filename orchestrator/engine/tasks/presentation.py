"""How a task is shown to people: its open request, and how it ended."""

import asyncio

from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.approval.presentation import hitl_response, texts_of
from orchestrator.core.evidence.report import UNVERIFIED, report
from orchestrator.core.reply.response import TaskResult
from orchestrator.core.task.task import AgentTask

_SHOWN_AT_ONCE = 20_000
"""Characters that are looked through for secrets on the event loop: a few milliseconds at the worst."""


async def show(task: AgentTask, *, max_chars: int | None = None) -> HitlResponse:
    """The open request of a paused task as people see it. Raises NotFound.

    Away from the event loop where it is long: looking for secrets takes about a second for a hostile megabyte.
    """
    if sum(len(text) for record in task.pending_tool_calls for text in texts_of(record)) < _SHOWN_AT_ONCE:
        return hitl_response(task, max_chars=max_chars)
    return await asyncio.to_thread(hitl_response, task, max_chars=max_chars)


def final_result(task: AgentTask) -> TaskResult | None:
    """How the task ended, or None while it has not; a success that the journal does not support is none."""
    ended = task.ended
    if ended is None:
        return None
    success = ended.status == "Completed" and ended.verified is not False
    doubt = UNVERIFIED if ended.verified is False else ""
    return TaskResult(
        explanation=ended.explanation,
        success=success,
        message=doubt + ended.message,
        details=ended.details,
        report=tuple(report(ended)),
        verified=ended.verified,
    )
