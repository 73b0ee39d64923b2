"""The facts that belong to no task: who may come in, what is in force, who was refused.

They are items of a node's ``system`` stream, chained as a task's items are (hitl.md A1).
"""

from typing import Literal, NewType

from pydantic import Field

from orchestrator.core.values import Value

GrantId = NewType("GrantId", str)


class NodeStarted(Value):
    """A node opened the store."""

    kind: Literal["node_started"] = "node_started"
    version: str
    """Of the program."""
    policy_version: str
    settings: dict[str, str] = Field(default_factory=dict)
    """What differs from the defaults, as text; never a secret."""


class NodeStopped(Value):
    """A node closed the store in order; without it the next start follows a crash."""

    kind: Literal["node_stopped"] = "node_stopped"


class PolicyLoaded(Value):
    """A policy came into force."""

    kind: Literal["policy_loaded"] = "policy_loaded"
    source: str
    policy_version: str
    sha256: str
    """Of the file's bytes, which are kept as a blob."""
    previous: str = ""
    """The policy's version before it; empty at a start."""


class PolicyRefused(Value):
    """A policy file changed and could not be loaded: the one before stays in force."""

    kind: Literal["policy_refused"] = "policy_refused"
    source: str
    reason: str


class TokenIssued(Value):
    """Somebody was given a token."""

    kind: Literal["token_issued"] = "token_issued"
    holder_kind: str
    name: str
    roles: tuple[str, ...] = ()
    fingerprint: str = ""
    """sha256 over the hash that the store keeps of it, filled in by the store; empty in items of an early release."""


class TokenRevoked(Value):
    """The tokens of a holder are worth nothing from now on."""

    kind: Literal["token_revoked"] = "token_revoked"
    holder_kind: str
    name: str
    count: int


class GrantRevoked(Value):
    """A standing approval was taken back."""

    kind: Literal["grant_revoked"] = "grant_revoked"
    grant_id: GrantId


class AttemptRefused(Value):
    """Somebody tried what they may not, or came too late."""

    kind: Literal["attempt_refused"] = "attempt_refused"
    door: str
    """Such as ``POST /v1/approve``."""
    code: str
    status: int
    detail: str
    task_id: str = ""
    request_id: str = ""
    action: str = ""
    more: int = Field(default=0, ge=0)
    """How many alike were refused since, and are not written down one by one."""


class CheckpointMade(Value):
    """The heads of all streams were signed and written outside of the store."""

    kind: Literal["checkpoint_made"] = "checkpoint_made"
    streams: int
    sha256: str
    """Of the checkpoint's content."""


SystemFact = (
    NodeStarted
    | NodeStopped
    | PolicyLoaded
    | PolicyRefused
    | TokenIssued
    | TokenRevoked
    | GrantRevoked
    | AttemptRefused
    | CheckpointMade
)
