"""The port of who asks, and what they may do."""

from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from orchestrator.core.values import ComputerId, immutable

if TYPE_CHECKING:
    # An adapter needs none of this to run, and it is half of a command's start.
    from orchestrator.core.approval.deciders import Saying
    from orchestrator.core.task.facts import CallId
    from orchestrator.core.task.task import AgentTask


@immutable
class Identity:
    """The person or program that asks, as the authentication layer found out; never taken from a body."""

    kind: Literal["person", "computer", "agent"]
    """An ``agent`` is a program that submits and watches; it never decides (promise R3)."""
    name: str
    roles: tuple[str, ...] = ()
    auth: str = "token"
    token_hash: str = ""
    """The hash of the token that proved it; empty: no token did."""
    session_hash: str = ""
    """The hash of the browser's secret with which they are signed in; empty: they showed the token itself."""
    owner: str = ""
    """For an agent: the person whose tasks its tasks count as; empty: a person, or nobody wrote it down."""


class RequestAuthorizer(Protocol):
    """Tells who is asking, and whether they may decide for a task."""

    async def authenticate(self, authorization: str | None) -> Identity:
        """The identity behind an ``Authorization`` header. Raises Unauthenticated."""

    def may_decide(self, identity: Identity, task: "AgentTask", action: "Saying" = "approve") -> bool:
        """Whether this identity may say this to requests and questions of this task."""

    def stands_for(self, identity: Identity, task: "AgentTask", said: "Mapping[CallId, Saying]") -> str | None:
        """For whom this identity may say all of this of the calls: empty for itself, else a person who is away.

        None: it may not. By default people who may decide speak for themselves.
        """
        return "" if all(self.may_decide(identity, task, one) for one in said.values()) else None

    def concerns(self, identity: Identity, task: "AgentTask") -> bool:
        """Whether a task's request is one of those that this identity reviews, now or at another step of it."""
        return self.may_decide(identity, task)

    def alike(self, task: "AgentTask") -> Callable[[Identity], Hashable]:
        """A function that holds for this moment. Two people with the same answer may do the same to a task.

        Many people look at one task, and its questions are asked once for all who are alike. By default nobody is.
        """
        return lambda identity: identity

    def is_admin(self, identity: Identity) -> bool:
        """Whether no claim of somebody else holds this identity up."""
        return "admin" in identity.roles

    async def still_decides(self, name: str, task: "AgentTask", since: datetime, call_id: "CallId") -> bool:
        """Whether the person of this name may now approve a call of this task: a grant counts only while its giver may.

        ``since``: when the grant was given. Another person who got the name later did not give it.
        By default nobody's rights end.
        """
        return True

    def sees_user(self, identity: Identity, user: str) -> bool:
        """Whether this identity may look at tasks of a user, a person or a program; by default everybody may."""
        return True

    def reaches(self, identity: Identity, computer: ComputerId) -> bool:
        """Whether this identity may look at a computer, and use it where it may submit; by default everybody may."""
        return True

    def who_decides(self, task: "AgentTask") -> str:
        """The people who may approve what this task asks, in words that end a sentence; a refusal says it."""
        return "those who may decide"

    def sets_apart(self, identity: Identity, task: "AgentTask") -> bool:
        """Whether this identity may not approve because it submitted the task; by default it never is the reason."""
        return False
