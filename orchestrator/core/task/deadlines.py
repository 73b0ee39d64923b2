"""What time alone does to a task: reminders, requests that expire, approvals that nobody used.

Theory. Times are those of the items, in UTC, so they survive a restart, and what passed while
nothing ran is due at once (hitl.md O5). Silence never approves: a request that nobody answered is
expired, by nobody's decision, and what then becomes of the task was said when it was raised. An
approval that could not be used in time is shown again instead of running late (B5, B7).
"""

from datetime import datetime

from orchestrator.core.approval.approval import CallState
from orchestrator.core.task import facts
from orchestrator.core.task.facts import Fact
from orchestrator.core.task.task import AgentTask, CallRecord, OpenRequest
from orchestrator.core.task.task_states import Phase

_NOBODY = "Nobody answered the request for a person's decision in time. That is no rejection: nobody looked at it."
_UNUSED = "The approval was not used in time; it is shown again."


def next_deadline(task: AgentTask) -> datetime | None:
    """When time will next do something to the task; None: never."""
    if task.phase is Phase.ENDED:
        return None
    times = [record.valid_until for record in _approved(task)]
    if task.request is not None:
        times += [task.request.expires_at, None if task.request.reminded else task.request.remind_at]
    return min((one for one in times if one is not None), default=None)


def overdue(task: AgentTask, now: datetime) -> tuple[Fact, ...]:
    """What time has done to the task by ``now`` and is not recorded yet; to be recorded together."""
    if task.phase is Phase.ENDED:
        return ()
    request = task.request
    if request is not None and request.expires_at is not None and now >= request.expires_at:
        return _expired(request)
    unused = [record for record in _approved(task) if record.valid_until is not None and now >= record.valid_until]
    if unused:
        return (
            facts.RequestEnded(
                request_id=unused[0].request_id,
                end="expired",
                call_ids=tuple(record.call_id for record in unused if record.request_id == unused[0].request_id),
                reason=_UNUSED,
                code="approval_expired",
            ),
        )
    if request is not None and request.remind_at is not None and now >= request.remind_at and not request.reminded:
        return (facts.ReviewNoted(what="reminded", request_id=request.request_id),)
    return ()


def _approved(task: AgentTask) -> list[CallRecord]:
    return [record for record in task.calls if record.state is CallState.APPROVED]


def _expired(request: OpenRequest) -> tuple[Fact, ...]:
    ended = facts.RequestEnded(
        request_id=request.request_id,
        end="expired",
        call_ids=request.call_ids,
        reason=_NOBODY,
        then=request.on_timeout,
    )
    if request.on_timeout != "cancel":
        return (ended,)
    return ended, facts.TaskEnded(status="Canceled", status_reason="expired", message=_NOBODY)
