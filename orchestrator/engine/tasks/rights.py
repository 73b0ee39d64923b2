"""Who may say what of a task, and by whom an item is caused."""

from orchestrator.core.approval.approval import ResumeRequest
from orchestrator.core.approval.rights import Saying
from orchestrator.core.errors import Forbidden
from orchestrator.core.ports import Identity, RequestAuthorizer
from orchestrator.core.task.items import Actor
from orchestrator.core.task.task import AgentTask


def person(identity: Identity) -> Actor:
    """An identity as the cause of an item."""
    return Actor(kind="agent" if identity.kind == "agent" else "person", id=identity.name, auth=identity.auth)


def must_decide(authorizer: RequestAuthorizer, by: Identity, task: AgentTask, action: Saying = "approve") -> None:
    """Raises Forbidden unless this identity may say this for the task."""
    if not authorizer.may_decide(by, task, action):
        raise Forbidden(f"{by.name} may not decide for this task.", remedy=_who(authorizer, task))


def must_decide_all(authorizer: RequestAuthorizer, by: Identity, task: AgentTask, resume: ResumeRequest) -> None:
    """Raises Forbidden naming the calls of which this identity may not say what it says."""
    if resume.decisions is None:
        must_decide(authorizer, by, task, resume.action or "approve")
        return
    refused = [one for one in resume.decisions if not authorizer.may_decide(by, task, one.action)]
    offenders, said = [one.call_id for one in refused], sorted({one.action.replace("_", " ") for one in refused})
    if offenders:
        raise Forbidden(
            f"{by.name} may not {' or '.join(said)} what this task asks; nothing was decided.",
            remedy=_who(authorizer, task),
            details={"offenders": offenders},
        )


def _who(authorizer: RequestAuthorizer, task: AgentTask) -> str:
    return f"This is decided by {authorizer.who_decides(task)}."


def must_own(by: Identity, task: AgentTask, does: str) -> None:
    """Raises Forbidden unless this is the person who submitted the task, or an admin; ``does``: what they want."""
    own = by.name == task.user_id or task.counts_for(by.name)
    if by.kind != "person" or (not own and "admin" not in by.roles):
        raise Forbidden(f"Only the one who submitted a task, or an admin, {does}.", remedy="Ask one of them.")
