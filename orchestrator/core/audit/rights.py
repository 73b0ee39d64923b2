"""Checks that the author of an item had the right to it, by the tokens that the items record.

Theory. A right is read from the row of a token. A person who can write the database can change that row, use it, and
put it back, so that no row tells of it. The items do: they say which roles somebody was given, and when the token was
revoked. A holder may have several tokens, and an item does not say which one was used, so the roles of all of them
count.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from orchestrator.core.approval.grants import own_paths
from orchestrator.core.approval.workflow import PLAIN, Vote, Workflow, told_people
from orchestrator.core.policy import BUILT_IN_CATALOG, RiskLevel, RoleRights, severity
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import (
    AwayValue,
    ComputerReleased,
    ComputersArrived,
    DirectoryChanged,
    GrantId,
    GroupValue,
    NodeStarted,
    PolicyLoaded,
    TaskPruned,
    TokenIssued,
    TokenRevoked,
)

# -- Whether somebody had the right to do what an item says, by the tokens that the items tell of

GRACE: Final = timedelta(seconds=1)
"""Between the look at the clock that a rule is checked by and the time of the item lie milliseconds."""
_BY_TOKEN: Final = frozenset({"token", "session", "oidc"})
"""How somebody proved who they are, if a token was read for it; so does who types at a computer."""
_ADMIN: Final = frozenset({"admin"})
_NO_LIMIT: Final = RoleRights(may=("decide",))


@dataclass
class _Held:
    """A token as the item that issued it has it."""

    roles: frozenset[str]
    since: datetime
    until: datetime | None = None
    """When it was revoked; None: it was not."""

    def at(self, moment: datetime) -> bool:
        """Whether the right counted then."""
        return self.since - GRACE <= moment and (self.until is None or moment <= self.until + GRACE)


class RightsBook:
    """Which person had which roles, and when, as the items tell it."""

    def __init__(self) -> None:
        self._held: defaultdict[tuple[str, str], list[_Held]] = defaultdict(list)
        self._deciding = {"reviewer", "admin"}
        self._submitting = {"submitter", "admin"}
        self._pairing = {"admin"}
        self._freezing = {"admin"}
        self._limits: defaultdict[str, list[RoleRights]] = defaultdict(list)
        """What any policy ever let a role decide; a role that decided everything once has no limit."""
        self.self_approval = False
        """Whether any policy ever let people who only submit decide their own tasks."""
        self._groups: defaultdict[str, list[tuple[datetime, frozenset[str]]]] = defaultdict(list)
        """The people of each group, from a time on."""
        self._away: defaultdict[str, list[tuple[datetime, AwayValue | None]]] = defaultdict(list)
        """Who decided for whom, from a time on."""
        self._arrived: dict[str, int] = {}
        """Tasks that came from another cell, and the version of their last item from there."""

    def is_of_another_cell(self, item: AgentTaskItem) -> bool:
        """Whether the item was written in the cell that its task came from: who had which right is known there."""
        return item.version <= self._arrived.get(item.task_id, 0)

    def take(self, item: AgentTaskItem) -> None:
        """One more item of any stream; those of one stream come in their order."""
        match item.fact:
            case NodeStarted() as fact:
                # What the setting ever was: the role that it names decides too.
                kind, _, role = fact.settings.get("approvers", "").partition(":")
                if kind == "role":
                    self._deciding.add(role)
                    self._limits[role].append(_NO_LIMIT)
            case PolicyLoaded() as fact:
                # What any policy ever said: which one counted at a time is not kept account of.
                self._deciding.update(name for name, may in fact.roles.items() if "decide" in may)
                for name in (one for one, may in fact.roles.items() if "decide" in may):
                    self._limits[name].append(fact.limits.get(name, _NO_LIMIT))
                self._submitting.update(name for name, may in fact.roles.items() if "submit" in may)
                self._pairing.update(name for name, may in fact.roles.items() if "pair" in may)
                self._freezing.update(name for name, may in fact.roles.items() if "freeze" in may)
                self.self_approval = self.self_approval or fact.self_approval
            case ComputersArrived() as fact:
                self._arrived.update(fact.tasks)
            case TokenIssued() as fact:
                self._held[fact.holder_kind, fact.name].append(_Held(frozenset(fact.roles), item.at))
            case DirectoryChanged(about="group") as fact:
                people = fact.value.people if isinstance(fact.value, GroupValue) else ()
                self._groups[fact.name].append((item.at, frozenset(people)))
            case DirectoryChanged(about="away") as fact:
                away = fact.value if isinstance(fact.value, AwayValue) else None
                self._away[fact.name].append((item.at, away))
            case TokenRevoked() as fact:
                for one in self._held.get((fact.holder_kind, fact.name), ()):
                    one.until = one.until or item.at
            case _:
                pass

    def why_not(self, item: AgentTaskItem, own: Collection[str]) -> str:
        """Why the author of the item had no right to it, as a sentence; empty: no fault is known.

        ``own``: the people whose task it is.
        """
        by = item.actor
        needed = self._needed(item, own)
        if not needed or not (by.auth in _BY_TOKEN or by.at_computer or by.reviews_at):
            return ""
        behalf = item.fact.behalf if isinstance(item.fact, facts.DecisionRecorded | facts.ReviewNoted) else ""
        if behalf and not self._stood_in(by.id, behalf, item.at):
            return f"{by.id} decided for {behalf}, and no item says that {behalf} was away and had asked them to."
        # Where no token has an item, no server ever was.
        if not self._held or _one_had(self._held.get((by.kind, behalf or by.id), ()), needed, item.at):
            return ""
        roles = " or ".join(sorted(needed))
        return f"{by.id} caused {item.fact.kind}, and no item says that {by.id} had the role {roles} at that time."

    def decided_no_more(self, name: str, at: datetime) -> bool:
        """Whether a person who had tokens had none then with a role that decides; a grant of theirs did not count."""
        tokens = self._held.get(("person", name), ())
        return bool(tokens) and not _one_had(tokens, self._deciding, at)

    def is_beyond(self, name: str, at: datetime, call: facts.ToolCall, risk: RiskLevel, others: Iterable[str]) -> bool:
        """Whether no role that somebody had then decides a call of this risk, with its paths and ``others``."""
        roles = {role for one in self._held.get(("person", name), ()) if one.at(at) for role in one.roles}
        limits = [limit for role in roles & self._deciding for limit in self._limits.get(role, [_NO_LIMIT])]
        own = own_paths(call.tool, call.args) if call.tool in BUILT_IN_CATALOG else ()
        return bool(limits) and not any(one.covers(risk, call.computer, (*own, *others)) for one in limits)

    def _stood_in(self, name: str, behalf: str, at: datetime) -> bool:
        """Whether somebody decided for a person who was away then."""
        known = [one for one in self._away.get(behalf, ()) if one[0] <= at + GRACE]
        just_now = sum(since > at - GRACE for since, _ in known)
        said = (value for _, value in known[-1 - just_now :])
        return any(one is not None and one.to == name and at < one.until + GRACE for one in said)

    def is_not(self, name: str, by: str, at: datetime) -> bool:
        """Whether no item says that somebody was then one of the people whom a workflow names."""
        kind, _, named = by.partition(":")
        match kind:
            case "role":
                return bool(self._held) and not _one_had(self._held.get(("person", name), ()), {named}, at)
            case "group":
                until = [(since, people) for since, people in self._groups.get(named, ()) if since <= at + GRACE]
                # What changed within the grace counts as it was, too.
                just_now = sum(since > at - GRACE for since, _ in until)
                return not any(name in people for _, people in until[-1 - just_now :])
            case "person":
                return name != named
            case _:
                return False

    def _needed(self, item: AgentTaskItem, own: Collection[str]) -> Set[str]:  # noqa: PLR0911 - a table
        """The roles of which one is needed; empty: none is, or it depends on more than roles."""
        match item.fact:
            case facts.DecisionRecorded() as fact:
                # A requester may always reject what their own task asks.
                rejects = all(one.action == "reject" for one in fact.decisions)
                own_word = rejects or self.self_approval
                return frozenset() if own_word and item.actor.id in own else self._deciding
            case facts.ReviewNoted(what="approved"):
                return frozenset() if self.self_approval and item.actor.id in own else self._deciding
            case facts.ReviewNoted(what="extended" | "claimed" | "escalated"):
                return self._deciding
            case DirectoryChanged(about="away") as fact:
                return frozenset() if item.actor.id == fact.name else _ADMIN
            case DirectoryChanged(about="notify") as fact:
                return frozenset() if item.actor.id == fact.name.partition("/")[0] else _ADMIN
            case TokenIssued(holder_kind="pairing") | DirectoryChanged(about="owner"):
                return self._pairing
            case TokenIssued(holder_kind="pin") | TokenRevoked(holder_kind="pin") as fact if item.actor.id == fact.name:
                # Everybody sets and removes a PIN of their own.
                return frozenset()
            case DirectoryChanged(about="freeze"):
                return self._freezing
            case (
                DirectoryChanged() | PolicyLoaded() | TokenIssued() | TokenRevoked() | ComputerReleased() | TaskPruned()
            ):
                return _ADMIN
            case facts.TaskSubmitted(restores=None):
                return self._submitting
            case _:
                return frozenset()


def _one_had(tokens: Iterable[_Held], needed: Set[str], at: datetime) -> bool:
    """Whether one of the tokens counted then and had one of these roles."""
    return any(one.roles & needed and one.at(at) for one in tokens)


# -- What a call may run under, as an audit keeps account of it: see :mod:`orchestrator.core.audit.check`


@dataclass
class Allowance:
    """What lets a call run, once."""

    item: AgentTaskItem
    """The item that gave it."""
    how: str
    """The kind of permission, such as ``approved by alice``; empty: the policy's own."""
    digest: str = ""
    """The digest that it is bound to; for the policy's own: empty."""
    until: datetime | None = None
    """When the grant ends unused; None: never."""
    grant_id: GrantId | None = None
    by_person: bool = False
    """Whether a person decided this very call."""
    started: bool = False
    spent: int = 0
    """Runs under it that may have touched the world."""
    ended: str = ""
    """The reason why the grant no longer holds; empty: it does."""
    expired: bool = False
    """Whether it ended because nobody used it in time."""


@dataclass
class Call:
    """A call and the allowances that it had, oldest first."""

    call: facts.ToolCall
    shown: facts.RequestedCall | None = None
    """The arguments as people saw them last; None: nobody did."""
    allowance: Allowance | None = None
    """The one that stands."""
    all: list[Allowance] = field(default_factory=list)

    def allow(self, allowance: Allowance) -> None:
        """The call may run from now on; an earlier permission no longer counts."""
        self.end("it was allowed anew")
        self.allowance = allowance
        self.all.append(allowance)

    def end(self, why: str, *, expired: bool = False) -> None:
        """The call may not run any more."""
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
    workflow: Workflow = PLAIN
    votes: list[Vote] = field(default_factory=list)
    """The approvals that were not enough by themselves."""
    escalated_to: str = ""
    claim: tuple[str, datetime] | None = None
    """The person who looks at it, and until when; None: nobody said so."""

    def add(self, votes: Iterable[Vote], *, edited: Collection[CallId]) -> None:
        """One person's approvals; an edit made those that the call had before void."""
        self.votes = [*(one for one in self.votes if one.call_id not in edited), *votes]
        if self.claim is not None and self.claim[0] in {one.by for one in self.votes}:
            self.claim = None

    def people_of(self, step: int) -> str:
        """Whose approval a step asks for; empty: that of anybody who may decide."""
        steps = self.workflow.steps
        return self.escalated_to or (steps[step].by if 0 <= step < len(steps) else "")

    def lacks(self, last: Vote) -> str:
        """Why a call that was approved last by this vote had not enough approvals; empty: it had."""
        counted: list[Vote] = []
        used: set[str] = set()
        for one in (*self.votes, last):
            if (one.call_id, one.digest) == (last.call_id, last.digest) and used.isdisjoint(one.people):
                counted.append(one)
                used |= one.people
        named = " and ".join(map(str, counted))
        if len(counted) < self.workflow.need:
            return f"it needs {self.workflow.need} people, and its approval is of {named} only"
        for number, step in enumerate(() if self.escalated_to else self.workflow.steps):
            if sum(one.step == number for one in counted) < step.count:
                return f"it needs {told_people(step.by)}, and its approval is of {named}"
        return ""


@dataclass
class ApprovedChecks:
    """The checks that people approved together with calls, and the bytes of programs that these approvals cover."""

    shown: dict[CallId, tuple[facts.ShownCheck, ...]] = field(default_factory=dict)
    """The checks by the call with which they were shown last."""
    approved: dict[tuple[facts.RequestId, str], facts.ShownCheck] = field(default_factory=dict)
    """The checks by the request and the digest of the check's call."""
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
