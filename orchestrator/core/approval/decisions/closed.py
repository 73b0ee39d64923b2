"""The refusals of a request that takes no more decisions, and of a question that takes no more answers."""

from collections.abc import Iterable

from orchestrator.core.errors import NotPending, RequestExpired
from orchestrator.core.task import facts
from orchestrator.core.task.facts import QuestionId, RequestId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.task import AgentTask, OpenRequest

_RENEW = "Look at the task: a new request can be raised from it, or it goes on without the call."


def expired(request: OpenRequest) -> RequestExpired:
    """The refusal of a request whose time is over, whether or not that is recorded yet (promise D9)."""
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


def closed_question(items: Iterable[AgentTaskItem], question_id: QuestionId) -> NotPending | None:
    """The refusal of a question of this journal that is not open: says who answered it; None: there never was one."""
    asked = False
    for item in items:
        match item.fact:
            case facts.QuestionAnswered(question_id=known) if known == question_id:
                return NotPending(
                    f"The question was answered already, by {item.actor.id} at {item.at:%Y-%m-%d %H:%M:%S} UTC.",
                    remedy="The first answer counts.",
                    details={"decided_by": item.actor.id, "how": "answered", "at": item.at.isoformat()},
                )
            case facts.QuestionAsked(question_id=known) if known == question_id:
                asked = True
            case _:
                pass
    if not asked:
        return None
    return NotPending(
        "The question is no longer open: the task is over, and nobody had answered.", remedy="Look at the task for why."
    )
