"""What a call may run under, as an audit keeps account of it: see :mod:`orchestrator.core.audit_check`."""

from dataclasses import dataclass, field
from datetime import datetime

from orchestrator.core import facts
from orchestrator.core.facts import CallId
from orchestrator.core.items import AgentTaskItem
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.system_facts import GrantId


@dataclass
class Allowance:
    """What lets a call run, once."""

    item: AgentTaskItem
    """The item that gave it."""
    how: str
    """Such as ``approved by alice``; empty: the policy's own."""
    digest: str = ""
    """What it is bound to; of the policy's own and of an edit whose target was still to be looked at: empty."""
    edited: facts.Decision | None = None
    """That edit: what the digest follows from."""
    until: datetime | None = None
    """When it ends unused; None: never."""
    grant_id: GrantId | None = None
    started: bool = False
    spent: int = 0
    """Runs under it that may have touched the world."""
    ended: str = ""
    """Why it no longer stands; empty: it does."""
    expired: bool = False
    """Whether it ended because nobody used it in time."""


@dataclass
class Call:
    """A call and the allowances that it had, oldest first."""

    call: facts.ToolCall
    shown: facts.RequestedCall | None = None
    """As people saw it last; None: nobody did."""
    allowance: Allowance | None = None
    """The one that stands."""
    all: list[Allowance] = field(default_factory=list)

    def allow(self, allowance: Allowance) -> None:
        """It may run from now on; what let it run before no longer does."""
        self.end("it was allowed anew")
        self.allowance = allowance
        self.all.append(allowance)

    def end(self, why: str, *, expired: bool = False) -> None:
        """It may not run any more."""
        if self.allowance is not None:
            self.allowance.ended, self.allowance.expired = why, expired
        self.allowance = None

    @property
    def pure(self) -> bool:
        """Whether a run that was interrupted left no trace, so that it may be made again."""
        spec = BUILT_IN_CATALOG.get(self.call.tool)
        return spec is not None and spec.recovery == "pure"


@dataclass
class Request:
    """A request and the calls that it still waits for."""

    expires_at: datetime | None
    waiting: dict[CallId, str]
    """With the digest that was shown of each."""


@dataclass
class Run:
    """One run; None for the call and the allowance that nobody had given."""

    call: Call | None
    allowance: Allowance | None
    item: AgentTaskItem
    """Its start."""
    ended: bool = False
