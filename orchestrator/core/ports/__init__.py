"""The ports: the server's needs from outside, each with a contract that every adapter passes.

The conformance suites are in ``orchestrator.testing``; a port's numbered contracts are there.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from orchestrator.core.ports.bus import Answer, Bus, Clock
from orchestrator.core.ports.computers import CallResult, ComputerInfo, ComputerLine, Computers, PlayersDesk, Settlement
from orchestrator.core.ports.messenger import Message, Messenger
from orchestrator.core.ports.model import ChatMessage, ChatModel, ModelReply, Window, is_local, server_answers
from orchestrator.core.ports.store import (
    ANYBODY,
    SYSTEM_STREAM,
    Coming,
    Lease,
    Receipt,
    Schedule,
    SeatRow,
    StreamHead,
    TaskPersistenceManager,
    TaskQueue,
    TaskRow,
    Token,
    TokenKind,
    TokenRow,
    Turns,
)
from orchestrator.core.ports.store_parts import (
    BackupRow,
    BlobMark,
    Common,
    Departure,
    EntryRow,
    KeptBlob,
    KeptItem,
    KeptJournal,
    KeptRecords,
    KeptRow,
    KeptTable,
    Moves,
    NoticeRow,
    Outbox,
    PolicyRow,
    Retention,
    SignInRow,
    SignIns,
)
from orchestrator.core.values import ComputerId

if TYPE_CHECKING:
    # An adapter needs none of this to run, and it is half of a command's start.
    from orchestrator.core.approval.deciders import Saying
    from orchestrator.core.task.facts import CallId
    from orchestrator.core.task.task import AgentTask

__all__ = [
    "ANYBODY",
    "SYSTEM_STREAM",
    "Answer",
    "BackupRow",
    "BlobMark",
    "Bus",
    "CallResult",
    "ChatMessage",
    "ChatModel",
    "Clock",
    "Coming",
    "Common",
    "ComputerInfo",
    "ComputerLine",
    "Computers",
    "Departure",
    "EntryRow",
    "Identity",
    "KeptBlob",
    "KeptItem",
    "KeptJournal",
    "KeptRecords",
    "KeptRow",
    "KeptTable",
    "Lease",
    "Message",
    "Messenger",
    "ModelReply",
    "Moves",
    "NoticeRow",
    "Outbox",
    "PlayersDesk",
    "PolicyRow",
    "Receipt",
    "RequestAuthorizer",
    "Retention",
    "Schedule",
    "SeatRow",
    "Settlement",
    "SignInRow",
    "SignIns",
    "Store",
    "StreamHead",
    "TaskPersistenceManager",
    "TaskQueue",
    "TaskRow",
    "Token",
    "TokenKind",
    "TokenRow",
    "Turns",
    "Window",
    "Workspace",
    "is_local",
    "server_answers",
]  # fmt: skip


class Store(TaskPersistenceManager, TaskQueue, KeptRecords, Retention, Moves, SignIns, Common, Outbox, Protocol):
    """All in one: every adapter keeps task and queue entry in one row."""


@dataclass(frozen=True)
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


class Workspace(Protocol):
    """The one directory on this host in which ``local_*`` may work."""

    @property
    def root(self) -> Path:
        """The directory itself."""

    def read_bytes(self, path: str) -> bytes | None:
        """The bytes of a file inside; None: there is none. Raises UnsafePath, ToolFailed (not a file, too large)."""

    def inside(self, path: str) -> tuple[str, ...] | None:
        """The paths of all that is in a directory, below it, sorted; None: there is no directory.

        Raises UnsafePath, ToolFailed (there is too much).
        """

    def missing_above(self, path: str) -> tuple[str, ...]:
        """The directories above a path that are not there, the highest first: ``commit`` makes them.

        Raises UnsafePath.
        """

    def stage(self, name: str, data: bytes | None) -> None:
        """Keep bytes under a name, on disk, apart from the files; staging again replaces. None: an empty directory.

        Raises ToolFailed.
        """

    def commit(self, name: str, path: str, found: str | None = None) -> None:
        """Make the staged bytes the file at ``path``, in one atomic step; the mode of an old file stays.

        A staged directory takes a place where nothing is. ``found``: the sha256 of what is there, or ``absent``, and
        where it is something else that stays; None: whatever is there.

        Raises UnsafePath when ``path`` leaves the workspace by any way, ToolFailed when nothing is staged,
        ComputerFailed ``stale`` where something else than ``found`` is there, with nothing left staged.
        """

    def remove(self, name: str, path: str, found: str | None = None) -> None:
        """Take the file, or the empty directory, at ``path`` away, for which something is staged under ``name``.

        In one atomic step; a directory with something in it stays, and is ToolFailed. ``found`` as in ``commit``, of
        a directory ``directory``.

        Raises UnsafePath and ToolFailed as ``commit`` does.
        """

    def discard(self, name: str) -> bool:
        """Take staged bytes away; False: they were not there any more, or what they stood for was done."""
