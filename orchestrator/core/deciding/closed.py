"""The refusals of a request that takes no more decisions."""

from orchestrator.core.errors import NotPending, RequestExpired
from orchestrator.core.facts import RequestId
from orchestrator.core.task import AgentTask, OpenRequest

_RENEW = "Look at the task: a new request can be raised from it, or it goes on without the call."


def expired(request: OpenRequest) -> RequestExpired:
    """The refusal of a request whose time is over, whether or not that is recorded yet (hitl.md D9)."""
    return RequestExpired(
        f"The request expired at {request.expires_at:%Y-%m-%d %H:%M:%S} UTC, and nobody had answered.", remedy=_RENEW
    )


def closed_request(task: AgentTask, request_id: RequestId) -> NotPending:
    """The refusal of a request that takes no more decisions: says how it was closed, and by whom."""
    for closed in reversed(task.closed):
        if closed.request_id == request_id:
            kind = RequestExpired if closed.how == "expired" else NotPending
            became = "it expired" if kind is RequestExpired else f"it was {closed.how}"
            message = f"The request is no longer open: {became}."
            return kind(
                message,
                remedy=_RENEW if kind is RequestExpired else "Look at the task for its present request.",
                details={
                    "decided_by": closed.actor_id,
                    "how": closed.how,
                    "at": closed.at.isoformat() if closed.at is not None else None,
                    "status": task.status.value,
                },
            )
    return NotPending(
        f"The request is no longer open: the task is {task.status.value}.",
        remedy="Look at the task for its present request.",
        details={"status": task.status.value},
    )
