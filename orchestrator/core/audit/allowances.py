"""What a call may run under, as an audit keeps account of it: see :mod:`orchestrator.core.audit.check`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from orchestrator.core.policy import BUILT_IN_CATALOG, severity
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import GrantId


@dataclass
class Allowance:
    """What lets a call run, once."""

    item: AgentTaskItem
    """The item that gave it."""
    how: str
    """Such as ``approved by alice``; empty: the policy's own."""
    digest: str = ""
    """What it is bound to; of the policy's own: empty."""
    until: datetime | None = None
    """When it ends unused; None: never."""
    grant_id: GrantId | None = None
    by_person: bool = False
    """Whether a person decided this very call."""
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
class ApprovedChecks:
    """The checks that people approved together with calls, and the bytes of programs that these approvals cover."""

    shown: dict[CallId, tuple[facts.ShownCheck, ...]] = field(default_factory=dict)
    """By the call with which they were shown last."""
    approved: dict[tuple[facts.RequestId, str], facts.ShownCheck] = field(default_factory=dict)
    """By the request and the digest of the check's call."""
    seen: set[tuple[str, str, str]] = field(default_factory=set)
    """(computer, path, sha256)."""

    def approve(self, request_id: facts.RequestId, call_id: CallId) -> None:
        """A person approved a call, and the checks that were shown with it."""
        for one in self.shown.get(call_id, ()):
            self.approved[request_id, one.call_digest] = one
            if one.sha256:
                self.seen.add((one.computer, one.program, one.sha256))

    def written(self, call: facts.ToolCall, start: facts.ToolStarted, after: Mapping[str, str]) -> None:
        """A change that a person approved left these bytes."""
        for path, sha256 in after.items():
            base = (str(call.computer), path, start.before.get(path, ""))
            if call.tool == "cc_write" or (call.tool == "cc_edit" and base in self.seen):
                self.seen.add((str(call.computer), path, sha256))

    def why_not(self, request_id: facts.RequestId | None, call: facts.ToolCall, shown: facts.RequestedCall) -> str:
        """Why the approval of a check does not cover a run; empty: it does."""
        one = None if request_id is None else self.approved.get((request_id, call.call_digest))
        if one is None:
            return "nobody approved it as a check"
        if one.identity != shown.observed.identity or severity(shown.evaluation.risk) > severity(one.risk):
            return "it was approved as a check of another computer or of a lower risk"
        bound = {(str(call.computer), *entry) for entry in shown.observed.state.items()}
        return "" if len(bound) == 1 and bound <= self.seen else "nobody has seen the program that it runs"


@dataclass
class Run:
    """One run; None for the call and the allowance that nobody had given."""

    call: Call | None
    allowance: Allowance | None
    item: AgentTaskItem
    """Its start."""
    ended: bool = False
