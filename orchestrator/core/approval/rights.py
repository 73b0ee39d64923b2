"""Who decides for a task: one rule, which every endpoint and every text about it asks.

Theory. Only people decide (promise R3). The setting ``approvers`` names them: ``requester``,
``not_requester`` or ``role:NAME``. With ``requester`` reviewers and admins decide their own tasks, and
all of them decide the tasks of those who only submit: submitters and programs. Whoever submitted a task
may always reject what it asks (promise R2). A task of a program counts as a task of the program's owner.
"""

from collections.abc import Collection
from typing import Final, Literal

from orchestrator.core.task.facts import DecisionAction
from orchestrator.core.task.task import AgentTask

Saying = DecisionAction | Literal["answer"]
"""What somebody says to a task: a decision on a request, or the answer to a question of the model."""

WHO_DECIDES: Final = (
    "By default reviewers and admins decide their own tasks and those of submitters and programs; the setting is "
    "`serve --approvers`."
)
"""For those for whom somebody else decides."""


def reviews(roles: Collection[str]) -> bool:
    """Whether somebody with these roles decides for others, and sees what waits for others."""
    return "reviewer" in roles or "admin" in roles


def may_say(approvers: str, task: AgentTask, action: Saying, *, kind: str, name: str, roles: Collection[str]) -> bool:
    """Whether somebody may say this to a task. A setting that is none of the three forms lets nobody."""
    if kind != "person":
        return False
    own = task.counts_for(name)
    if own and action == "reject":
        return True
    match approvers.partition(":"):
        case ("requester", _, _):
            # An answer is told to the model and runs nothing: who asked knows what they meant.
            return (own and action == "answer") or (reviews(roles) and (own or not _decides_own(task)))
        case ("not_requester", _, _):
            return reviews(roles) and not own
        case ("role", _, role):
            return role in roles
        case _:
            return False


def _decides_own(task: AgentTask) -> bool:
    """Whether the person who submitted the task may decide it, by the roles that they had then."""
    return reviews(task.roles) and not task.by_program


def who_decides(approvers: str, task: AgentTask) -> str:
    """Who may approve what a task asks, in words that end a sentence."""
    match approvers.partition(":"):
        case ("requester", _, _) if _decides_own(task):
            return task.user_id
        case ("not_requester", _, _) if requester := task.owner if task.by_program else task.user_id:
            return f"a reviewer or an admin, but not {requester}"
        case _:
            return _deciders(approvers)


def _deciders(approvers: str) -> str:
    """Who decides what somebody asks who may not decide it."""
    role = approvers.partition(":")[2]
    return f"somebody with the role {role}" if role else "a reviewer or an admin"


def what_may(approvers: str, *, kind: str, name: str, roles: Collection[str], owner: str = "") -> str:
    """What the holder of a token may do, in one sentence; empty for a computer. ``owner``: of a program."""
    submits = bool({"submitter", "admin"} & set(roles))
    if kind == "computer":
        return ""
    if kind == "agent":
        whose = f", which count as tasks of {owner}" if owner else ""
        return f"{name} may submit tasks{whose}; people decide what they ask." if submits else f"{name} may only look."
    match approvers.partition(":"):
        case ("role", _, role):
            decides, scope = role in roles, "decide what every task asks"
        case ("requester", _, _):
            own = "decide what these and the tasks of submitters and programs ask"
            decides, scope = reviews(roles), own if submits else "decide what tasks of submitters and programs ask"
        case _:
            decides, scope = reviews(roles), "decide what tasks of others ask"
    may = ["submit tasks"] if submits else []
    may += [scope] if decides else []
    may += ["pair computers and manage tokens"] if "admin" in roles else []
    may += ["read the whole audit"] if reviews(roles) else []
    listed = f"{', '.join(may[:-1])} and {may[-1]}" if len(may) > 1 else "".join(may)
    return f"{name} may {listed}" + (
        "." if decides else f"; {_deciders(approvers)} decides what {'they' if submits else 'tasks'} ask."
    )
