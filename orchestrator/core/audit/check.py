"""Checks the items of a task: each call that ran was allowed, and each allowed call ran (promise A6).

Theory. Every call has at most one *allowance* at a time: the policy's own, a person's decision, a
grant, or a release by a new policy. It is bound to a digest, except for the policy's
own, ends with what ends it, and pays for one run that may have touched the world. This reads the
items by themselves and not by the fold that the task was acted by: it is there to find what that
fold let pass. A *violation* is against a promise; a *notice* is what somebody may want to know.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal

from orchestrator.core.approval.grants import Grant, covers
from orchestrator.core.approval.workflow import PLAIN, Vote, told_people
from orchestrator.core.audit.rights import GRACE, Allowance, ApprovedChecks, Call, Request, RightsBook, Run
from orchestrator.core.policy import Effect, severity
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, RequestId
from orchestrator.core.task.items import Actor, AgentTaskItem
from orchestrator.core.task.system_facts import ComputersArrived, GrantId, GrantRevoked, TaskPruned
from orchestrator.core.values import RunId, Value

FindingKind = Literal[
    "approved_not_executed",
    "executed_unapproved",
    "executed_late",
    "ran_twice",
    "decided_by_program",
    "decided_late",
    "decided_other",
    "self_approved",
    "result_without_start",
    "no_outcome",
    "grant_misused",
    "without_right",
    "without_quorum",
    "despite_claim",
]


class Finding(Value):
    """One thing in a task's items that is against a promise, or that somebody may want to know."""

    stream: str
    version: int
    """The item in which it shows."""
    level: Literal["violation", "notice"]
    what: FindingKind
    detail: str
    """A sentence."""
    call_id: str = ""


@dataclass(frozen=True)
class Standing:
    """The grants that were given anywhere, and when they were taken back."""

    grants: Mapping[GrantId, Grant] = field(default_factory=dict)
    revoked: Mapping[GrantId, datetime] = field(default_factory=dict)
    pruned: frozenset[GrantId] = frozenset()
    """The grants that went with a pruned task: what they covered cannot be looked up any more."""


def standing_of(items: Iterable[AgentTaskItem], known: Standing | None = None) -> Standing:
    """The grants given and taken back in these items, and those ``known`` from other streams."""
    known = known or Standing()
    grants, revoked, pruned = dict(known.grants), dict(known.revoked), set(known.pruned)
    for item in items:
        if isinstance(item.fact, facts.DecisionRecorded):
            grants.update((one.grant_id, one) for one in item.fact.grants)
        elif isinstance(item.fact, GrantRevoked):
            revoked.setdefault(item.fact.grant_id, item.at)
        elif isinstance(item.fact, TaskPruned | ComputersArrived):
            pruned.update(item.fact.grants)
    return Standing(grants, revoked, frozenset(pruned))


def check(
    items: Iterable[AgentTaskItem], *, standing: Standing | None = None, rights: RightsBook | None = None
) -> list[Finding]:
    """The findings about the items of one stream, oldest first.

    ``standing``: the approvals of all streams; None: a session's approval that another task gave is not looked up.
    ``rights``: what all streams say of people; None: nobody's right is looked up.
    """
    items = list(items)
    auditor = _Auditor(standing_of(items, standing), whole=standing is not None, rights=rights)
    for item in items:
        auditor.take(item)
    return sorted([*auditor.found, *auditor.left_over()], key=lambda one: one.version)


class _Auditor:
    """Goes once through a task's items."""

    def __init__(self, standing: Standing, *, whole: bool, rights: RightsBook | None) -> None:
        self.found: list[Finding] = []
        self._standing = standing
        self._whole = whole
        self._book = rights
        self._rights: RightsBook | None = None
        """The book, for an item of this cell; None: nobody's right is looked up."""
        self._user = self._owner = ""
        self._calls: dict[CallId, Call] = {}
        self._requests: dict[RequestId, Request] = {}
        self._runs: dict[RunId, Run] = {}
        self._ended: AgentTaskItem | None = None
        self._checks = ApprovedChecks()

    def take(self, item: AgentTaskItem) -> None:
        """One more item."""
        here = self._book is not None and not self._book.is_of_another_cell(item)
        self._rights = self._book if here else None
        if self._rights is not None and (why := self._rights.why_not(item, {self._user, self._owner})):
            self._find(item, "without_right", why)
        match item.fact:
            case facts.TaskSubmitted() as fact:
                self._user, self._owner = fact.user_id, fact.owner
            case facts.CallsProposed() as fact:
                self._proposed(item, fact)
            case facts.ReviewRequested() as fact:
                self._requested(fact)
            case facts.DecisionRecorded() as fact:
                self._decided(item, fact)
            case facts.ReviewNoted() as fact:
                self._noted(item, fact)
            case facts.RequestEnded() as fact:
                self._request_ended(fact)
            case facts.ToolStarted() as fact:
                self._started(item, fact)
            case facts.ToolFinished() | facts.ToolSettled() as fact:
                self._outcome(item, fact)
            case facts.QuestionAsked() | facts.StatusSent() as fact:
                self._acts(item, fact.call_id, None)
            case facts.TaskEnded():
                self._ended = item
            case _:
                pass

    def left_over(self) -> Iterable[Finding]:
        """What shows only at the end: approvals that nothing came of, and runs of which nobody heard."""
        for call in self._calls.values():
            ran = any(one.started for one in call.all)
            for one in call.all:
                why = one.ended or ("the task ended first" if self._ended is not None else "")
                if one.how and why and not one.started and (one.expired or not ran):
                    said = f"Call {call.call.call_id} ({call.call.tool}) was {one.how} and never ran: {why}."
                    yield _finding(one.item, "approved_not_executed", said, call.call.call_id, notice=True)
        for run_id, run in self._runs.items():
            if self._ended is not None and not run.ended:
                said = f"Run {run_id} was started, and no item says how it ended."
                yield _finding(run.item, "no_outcome", said, notice=True)

    # -- what is asked and decided -------------------------------------------------------

    def _proposed(self, item: AgentTaskItem, fact: facts.CallsProposed) -> None:
        for call, verdict in zip(fact.calls, fact.evaluations, strict=False):
            known = Call(call)
            if verdict.effect is Effect.ALLOW:
                known.allow(Allowance(item, ""))
            self._calls[call.call_id] = known

    def _requested(self, fact: facts.ReviewRequested) -> None:
        waiting = {shown.call_id: shown.action_digest for shown in fact.calls}
        self._requests[fact.request_id] = Request(fact.expires_at, waiting, fact.workflow or PLAIN)
        for shown in fact.calls:
            if (call := self._calls.get(shown.call_id)) is not None:
                call.end("it was shown anew")
                call.shown = shown
            self._checks.shown[shown.call_id] = shown.checks

    def _decided(self, item: AgentTaskItem, fact: facts.DecisionRecorded) -> None:
        by = item.actor
        if by.kind != "person":
            said = f"Request {fact.request_id} was decided by {_who(by)}, and only people decide."
            self._find(item, "decided_by_program", said)
        request = self._requests.get(fact.request_id)
        self._despite_claim(item, request)
        until = request.expires_at if request is not None else None
        if until is not None and item.at > until + GRACE:
            said = f"Request {fact.request_id} was decided {_span(item.at - until)} after it had expired."
            self._find(item, "decided_late", said)
        for decision in fact.decisions:
            shown = request.waiting.pop(decision.call_id, None) if request is not None else None
            if shown is None or shown != decision.action_digest:
                why = "the request did not wait for it" if shown is None else "with another digest than was shown"
                said = f"Call {decision.call_id} was decided, and {why}."
                self._find(item, "decided_other", said, decision.call_id)
            self._by_enough(item, request, decision, fact.behalf)
            self._one_decision(item, fact, decision)
            if decision.grant_id is None:
                self._within_limits(item, decision, fact.behalf)
        allowed = [str(one.call_id) for one in fact.decisions if one.action in ("approve", "edit")]
        if allowed and by.id == self._user:
            said = f"{by.id} approved what their own task wanted: {', '.join(allowed)}."
            self._find(item, "self_approved", said, notice=True)

    def _by_enough(self, item: AgentTaskItem, request: Request | None, decision: facts.Decision, behalf: str) -> None:
        """Whether as many people approved a call as its request asks for (promise D22)."""
        runs = decision.action == "approve" or (decision.action == "edit" and bool(decision.runs_digest))
        if request is None or not runs or decision.grant_id is not None:
            return
        last = Vote(decision.call_id, item.actor.id, decision.action_digest, decision.step, behalf)
        self._among(item, request, last)
        if why := request.lacks(last):
            said = f"Call {decision.call_id} was approved, and {why}."
            self._find(item, "without_quorum", said, decision.call_id)

    def _among(self, item: AgentTaskItem, request: Request, vote: Vote) -> None:
        """Whether somebody was one of the people for whom their approval counts."""
        people = request.people_of(vote.step)
        if self._rights is not None and self._rights.is_not(vote.behalf or vote.by, people, item.at):
            said = f"{vote} approved call {vote.call_id} as {told_people(people)}, and no item says that they were."
            self._find(item, "without_right", said, vote.call_id)

    def _despite_claim(self, item: AgentTaskItem, request: Request | None) -> None:
        """Whether somebody else had said that they look at the request (promise R6); admins need not wait for them."""
        holder, until = (request and request.claim) or ("", item.at)
        name = item.actor.id
        if self._rights is None or holder in ("", name) or item.at > until - GRACE:
            return
        if self._rights.is_not(name, "role:admin", item.at):
            said = f"{name} decided, and {holder} had claimed the request until {until:%H:%M:%S} UTC."
            self._find(item, "despite_claim", said, notice=True)

    def _within_limits(self, item: AgentTaskItem, decision: facts.Decision, behalf: str) -> None:
        """Whether a role of somebody who approved a call decides such calls (promise R4)."""
        call = self._calls.get(decision.call_id)
        if self._rights is None or call is None or call.shown is None or decision.action not in ("approve", "edit"):
            return
        name, checks = behalf or item.actor.id, call.shown.checks
        if self._rights.self_approval and name in (self._user, self._owner):
            return
        risks = ((decision.evaluation or call.shown.evaluation).risk, *(one.risk for one in checks))
        risk = max(risks, key=severity)
        if self._rights.is_beyond(name, item.at, call.call, risk, [one.path for one in checks]):
            said = f"{name} approved call {decision.call_id}, and none of their roles decides it (risk: {risk.value})."
            self._find(item, "without_right", said, decision.call_id)

    def _one_decision(self, item: AgentTaskItem, fact: facts.DecisionRecorded, decision: facts.Decision) -> None:
        call = self._calls.get(decision.call_id)
        if call is None:
            return
        how = f"approved by {_who(item.actor)}"
        by_person = item.actor.kind == "person" and decision.grant_id is None
        if by_person and decision.action in ("approve", "edit"):
            self._checks.approve(fact.request_id, decision.call_id)
        match decision.action:
            case "approve":
                digest = decision.action_digest
                if decision.grant_id is not None:
                    how = f"{how} under {decision.grant_id}"
                    self._under_grant(item, call, decision.grant_id)
                given = Allowance(item, how, digest, until=fact.valid_until, grant_id=decision.grant_id)
                given.by_person = by_person
                call.allow(given)
            case "edit":
                changed = {"args": decision.args or {}, "call_digest": decision.call_digest}
                call.call = call.call.model_copy(update=changed)
                if decision.runs_digest:
                    given = Allowance(item, f"edited and {how}", decision.runs_digest, until=fact.valid_until)
                    given.by_person = by_person
                    call.allow(given)
                else:
                    call.end("it was edited, and its new effect was not shown yet")
            case "retry" if decision.retry_as is not None:
                again = call.call.model_copy(update={"call_id": decision.retry_as})
                self._calls[decision.retry_as] = Call(again)
                call.end("it is tried again under another id")
            case _:
                call.end(f"it was decided otherwise ({decision.action})")

    def _noted(self, item: AgentTaskItem, fact: facts.ReviewNoted) -> None:
        request = None if fact.request_id is None else self._requests.get(fact.request_id)
        if request is not None and fact.what in ("extended", "escalated"):
            request.expires_at = fact.expires_at or request.expires_at
            request.escalated_to = fact.to or request.escalated_to
        if request is not None and fact.what in ("claimed", "unclaimed", "escalated"):
            until = fact.valid_until if fact.what == "claimed" else None
            request.claim = None if until is None else (item.actor.id, until)
        if request is not None and fact.what == "approved":
            self._added(item, request, fact)
        if fact.calls and item.actor.kind in ("agent", "computer"):
            said = f"{_who(item.actor)} let calls run, and only people, the policy and their approvals do."
            self._find(item, "decided_by_program", said)
        how = _STOOD_IN.get(fact.what, "released by the policy").format(fact.grant_id or fact.request_id)
        for shown in fact.calls:
            if request is not None:
                request.waiting.pop(shown.call_id, None)
            if (call := self._calls.get(shown.call_id)) is None:
                continue
            call.shown = shown
            if fact.what == "grant_used":
                self._under_grant(item, call, fact.grant_id)
            if fact.what == "check_approved" and (why := self._checks.why_not(fact.request_id, call.call, shown)):
                self._misused(item, call, why)
            call.allow(Allowance(item, how, shown.action_digest, until=fact.valid_until, grant_id=fact.grant_id))

    def _added(self, item: AgentTaskItem, request: Request, fact: facts.ReviewNoted) -> None:
        """Approvals that were not enough by themselves."""
        if item.actor.kind != "person":
            said = f"Request {fact.request_id} was approved by {_who(item.actor)}, and only people decide."
            self._find(item, "decided_by_program", said)
        self._despite_claim(item, request)
        edited = set()
        votes = []
        for one in fact.decisions:
            if request.waiting.get(one.call_id) != one.action_digest:
                said = f"Call {one.call_id} was approved with another digest than was shown."
                self._find(item, "decided_other", said, one.call_id)
            digest = one.runs_digest or one.action_digest
            votes.append(Vote(one.call_id, item.actor.id, digest, one.step, fact.behalf))
            if one.action == "edit" and (call := self._calls.get(one.call_id)) is not None:
                edited.add(one.call_id)
                request.waiting[one.call_id] = digest
                changed = {"args": one.args or {}, "call_digest": one.call_digest}
                call.call = call.call.model_copy(update=changed)
            self._within_limits(item, one, fact.behalf)
        for vote in votes:
            self._among(item, request, vote)
        request.add(votes, edited=edited)

    def _under_grant(self, item: AgentTaskItem, call: Call, grant_id: GrantId | None) -> None:
        """Whether a grant existed, still held and was for this call."""
        grant = None if grant_id is None else self._standing.grants.get(grant_id)
        if grant is None:
            if grant_id is None or (self._whole and grant_id not in self._standing.pruned):
                self._misused(item, call, f"there is no grant {grant_id}")
            return
        if grant.expires_at is not None and item.at > grant.expires_at + GRACE:
            self._misused(item, call, f"{grant_id} had expired")
        if self._rights is not None and self._rights.decided_no_more(grant.granted_by, item.at):
            self._misused(item, call, f"{grant.granted_by}, who gave {grant_id}, had no role that decides at that time")
        made, shown = call.call, call.shown
        if shown is None or not covers(
            grant,
            tool=made.tool,
            computer=made.computer,
            args=made.args,
            call_digest=made.call_digest,
            state=shown.observed.state,
            identity=shown.observed.identity,
            verdict=shown.evaluation,
        ):
            self._misused(item, call, f"{grant_id} does not cover it")

    def _request_ended(self, fact: facts.RequestEnded) -> None:
        request = None if fact.request_id is None else self._requests.get(fact.request_id)
        for call_id in fact.call_ids:
            if request is not None:
                request.waiting.pop(call_id, None)
            if (call := self._calls.get(call_id)) is not None:
                expired = fact.end == "expired"
                why = "its approval expired unused" if expired else f"it was {fact.end} ({fact.reason.rstrip('.')})"
                call.end(why, expired=expired)

    # -- what ran ------------------------------------------------------------------------

    def _started(self, item: AgentTaskItem, fact: facts.ToolStarted) -> None:
        if fact.run_id in self._runs:
            self._find(item, "ran_twice", f"Run {fact.run_id} was started before.", fact.call_id)
        allowance = self._acts(item, fact.call_id, fact)
        self._runs[fact.run_id] = Run(self._calls.get(fact.call_id), allowance, item)

    def _acts(self, item: AgentTaskItem, call_id: CallId, start: facts.ToolStarted | None) -> Allowance | None:
        """Something is done for a call; the allowance that it is done under, if there is one."""
        call = self._calls.get(call_id)
        allowance = call.allowance if call is not None else None
        if call is None or allowance is None:
            why = "nobody had proposed it" if call is None else self._why_not(call)
            self._find(item, "executed_unapproved", f"Call {call_id} was done, and {why}.", call_id)
            return None
        if start is not None and not self._fits(call, allowance, start):
            said = f"Call {call_id} was done as {start.action_digest}; it was {allowance.how} as something else."
            self._find(item, "executed_unapproved", said, call_id)
        if allowance.until is not None and item.at > allowance.until + GRACE:
            late = _span(item.at - allowance.until)
            said = f"Call {call_id} was started {late} after its approval had ended."
            self._find(item, "executed_late", said, call_id)
        revoked = None if allowance.grant_id is None else self._standing.revoked.get(allowance.grant_id)
        if revoked is not None and item.at > revoked + GRACE:
            self._misused(item, call, f"{allowance.grant_id} had been taken back")
        allowance.started = True
        return allowance

    def _why_not(self, call: Call) -> str:
        return f"its permission had ended: {call.all[-1].ended}" if call.all else "nothing had allowed it"

    def _fits(self, call: Call, allowance: Allowance, start: facts.ToolStarted) -> bool:
        """Whether a run's digest is the one that was allowed; the policy's own allowance names none."""
        return not allowance.how or start.action_digest == allowance.digest

    def _outcome(self, item: AgentTaskItem, fact: facts.ToolFinished | facts.ToolSettled) -> None:
        run = self._runs.get(fact.run_id)
        if run is None:
            said = f"Run {fact.run_id} has a result and was never started."
            self._find(item, "result_without_start", said, fact.call_id)
            return
        if run.ended:
            return  # The first outcome counts; a second account of the same run is not a second run.
        run.ended = True
        if run.allowance is None or run.call is None:
            return
        state = fact.state if isinstance(fact, facts.ToolSettled) else "finished"
        if state == "void" or (state == "interrupted" and run.call.pure):
            run.allowance.started = run.allowance.spent > 0
            return
        run.allowance.spent += 1
        if run.allowance.by_person and fact.ok and isinstance(run.item.fact, facts.ToolStarted):
            self._checks.written(run.call.call, run.item.fact, fact.after)
        if run.allowance.spent > 1:
            said = f"Call {fact.call_id} ran {run.allowance.spent} times under one allowance."
            self._find(item, "ran_twice", said, fact.call_id)

    # ------------------------------------------------------------------------------------

    def _misused(self, item: AgentTaskItem, call: Call, why: str) -> None:
        said = f"Call {call.call.call_id} ({call.call.tool}) stood under a grant, and {why}."
        self._find(item, "grant_misused", said, call.call.call_id)

    def _find(
        self, item: AgentTaskItem, what: FindingKind, detail: str, call_id: str = "", *, notice: bool = False
    ) -> None:
        self.found.append(_finding(item, what, detail, call_id, notice=notice))


_STOOD_IN: Final = {"grant_used": "approved under {}", "check_approved": "approved as a check with {}"}


def _finding(item: AgentTaskItem, what: FindingKind, detail: str, call_id: str = "", *, notice: bool) -> Finding:
    return Finding(
        stream=item.task_id,
        version=item.version,
        level="notice" if notice else "violation",
        what=what,
        detail=detail,
        call_id=call_id,
    )


def _who(actor: Actor) -> str:
    return actor.id if actor.kind == "person" else f"{actor.kind} {actor.id}"


def _span(span: timedelta) -> str:
    return f"{span.total_seconds():.0f} s"
