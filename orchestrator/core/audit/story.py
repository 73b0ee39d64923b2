"""The story of a call from the items alone: the approver, the bytes, the time, the policy, the outcome (promise A5).

Each call becomes one :class:`Story`. Bytes are found by their sha256: the text that a call writes, in its encoding; the
bytes that were there before; the bytes that a run left behind; the program that it ran. The result of an edit of a part
is known only after it ran.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import AwareDatetime, Field

from orchestrator.core.policy import RUNNERS, Effect, PolicyDecision
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, RequestId
from orchestrator.core.task.items import Actor, AgentTaskItem
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.values import ComputerId, RunId, Value, sha256_hex

Role = Literal["written", "proposed", "left", "before", "program"]
"""What the bytes are to a call: it writes them, it would have before a person edited it, its run left
them, they were there before it, they are the program that it runs."""


class Match(Value):
    """Bytes of a call that were looked for."""

    path: str
    role: Role


class Approval(Value):
    """Something that let a call run."""

    version: int
    at: AwareDatetime
    by: Actor
    how: Literal["approve", "edit", "approved", "edited", "grant_used", "check_approved", "released", "policy"]
    """``approved`` and ``edited``: they wait for the approvals of other people."""
    action_digest: str = ""
    """The digest that it is bound to; empty: the policy allowed it, or its target was still to be looked at."""
    policy_version: str = ""
    request_id: RequestId | None = None
    grant_id: GrantId | None = None
    self_approved: bool = False
    void: bool = False
    """Whether somebody edited the call after it: it was for another text, and counts no more."""
    behalf: str = ""
    """The person who is away, and in whose place it was given; empty: nobody."""
    reason: str = ""


class Refusal(Value):
    """Something that kept a call from running, or ended what let it run."""

    version: int
    at: AwareDatetime
    by: Actor
    how: str
    """``reject``, ``expired``, ``stale``, ``superseded``, ``canceled``, ``deny``, or another verb of a decision."""
    reason: str = ""


class CallRun(Value):
    """One run of a call and what became of it."""

    run_id: RunId
    version: int
    at: AwareDatetime
    action_digest: str
    before: dict[str, str] = Field(default_factory=dict)
    after: dict[str, str] = Field(default_factory=dict)
    outcome: str = "open"
    """``done``, ``failed``, ``void``, ``interrupted``, ``unknown``; ``open``: nobody heard."""
    code: str = ""
    ended_at: AwareDatetime | None = None


class Story(Value):
    """One call from its proposal to its end."""

    stream: str
    version: int
    """The version of the item in which the call was proposed."""
    at: AwareDatetime
    call_id: CallId
    tool: str
    computer: ComputerId | None
    args: dict[str, Any]
    """The arguments that may run: a person's, where somebody edited them."""
    original_args: dict[str, Any] | None = None
    """The model's, where a person edited them."""
    call_digest: str
    requester: str
    verdict: PolicyDecision
    """The verdict of the policy, when the call was proposed or last shown."""
    requests: tuple[RequestId, ...] = ()
    approvals: tuple[Approval, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    runs: tuple[CallRun, ...] = ()
    matches: tuple[Match, ...] = ()
    """The bytes that were looked for; empty: nobody looked for bytes."""


def who_approved(
    items: Iterable[AgentTaskItem], *, sha256: str = "", call_digest: str = "", request_id: str = ""
) -> list[Story]:
    """The calls that fit all that is given, oldest first; empty is not given, and with nothing given all fit."""
    found: list[Story] = []
    for told in _Teller().tell(items):
        matches = tuple(dict.fromkeys(told.matches(sha256.lower()))) if sha256 else ()
        fits = (not sha256 or matches, not call_digest or call_digest in told.digests)
        if all(fits) and (not request_id or request_id in told.requests):
            found.append(told.story(matches))
    return found


_OUTCOMES: Final[Mapping[bool | None, str]] = {True: "done", False: "failed", None: "unknown"}


@dataclass
class _Told:
    """A story as far as it is told."""

    item: AgentTaskItem
    call: facts.ToolCall
    requester: str
    verdict: PolicyDecision
    original: facts.ToolCall | None = None
    observed: list[facts.Observed] = field(default_factory=list)
    requests: list[RequestId] = field(default_factory=list)
    approvals: list[Approval] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    runs: dict[RunId, CallRun] = field(default_factory=dict)

    @property
    def digests(self) -> set[str]:
        """The digests that it goes by: of the call as it was made, as it was edited, and as it was decided and ran."""
        calls = {self.call.call_digest, self.original.call_digest if self.original is not None else ""}
        decided = {one.action_digest for one in self.approvals}
        ran = {one.action_digest for one in self.runs.values()}
        return (calls | decided | ran) - {""}

    def matches(self, sha256: str) -> Iterator[Match]:
        """Where these bytes occur in it."""
        if self._writes(self.call, sha256):
            yield Match(path=str(self.call.args.get("path", "")), role="written")
        if self.original is not None and self._writes(self.original, sha256):
            yield Match(path=str(self.original.args.get("path", "")), role="proposed")
        for run in self.runs.values():
            yield from (Match(path=path, role="left") for path, digest in run.after.items() if digest == sha256)
        there = (*(one.state for one in self.observed), *(one.before for one in self.runs.values()))
        found: Role = "program" if self.call.tool in RUNNERS else "before"
        for state in there:
            yield from (Match(path=path, role=found) for path, digest in state.items() if digest == sha256)

    def _writes(self, call: facts.ToolCall, sha256: str) -> bool:
        content = call.args.get("content")
        if not isinstance(content, str):
            return False
        # For a write that the policy allowed nobody noted the encoding: it is one of the two.
        encodings = {one.encoding for one in self.observed} or {"utf-8", "latin-1"}
        # A sign that latin-1 does not have was never written so.
        return any(sha256_hex(content.encode(one)) == sha256 for one in encodings if _fits(content, one))

    def story(self, matches: tuple[Match, ...]) -> Story:
        """The story as it is."""
        return Story(
            stream=self.item.task_id,
            version=self.item.version,
            at=self.item.at,
            call_id=self.call.call_id,
            tool=self.call.tool,
            computer=self.call.computer,
            args=self.call.args,
            original_args=self.original.args if self.original is not None else None,
            call_digest=self.call.call_digest,
            requester=self.requester,
            verdict=self.verdict,
            requests=tuple(self.requests),
            approvals=tuple(self.approvals),
            refusals=tuple(self.refusals),
            runs=tuple(self.runs.values()),
            matches=matches,
        )


def _fits(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


class _Teller:
    """Goes once through a task's items and tells each call's story."""

    def __init__(self) -> None:
        self._requester = ""
        self._told: dict[CallId, _Told] = {}

    def tell(self, items: Iterable[AgentTaskItem]) -> list[_Told]:
        """The stories, in the order in which their calls were proposed."""
        for item in items:
            self._take(item)
        return list(self._told.values())

    def _take(self, item: AgentTaskItem) -> None:
        match item.fact:
            case facts.TaskSubmitted() as fact:
                self._requester = fact.user_id
            case facts.CallsProposed() as fact:
                self._proposed(item, fact)
            case facts.ReviewRequested() as fact:
                self._requested(fact)
            case facts.DecisionRecorded() as fact:
                self._decided(item, fact)
            case facts.ReviewNoted() as fact:
                self._noted(item, fact)
            case facts.RequestEnded() as fact:
                for told in self._of(fact.call_ids):
                    self._refused(told, item, fact.end, fact.reason)
            case facts.ToolStarted() as fact:
                for told in self._of((fact.call_id,)):
                    told.runs[fact.run_id] = CallRun(
                        run_id=fact.run_id,
                        version=item.version,
                        at=item.at,
                        action_digest=fact.action_digest,
                        before=fact.before,
                    )
            case facts.ToolFinished() | facts.ToolSettled() as fact:
                self._outcome(item, fact)
            case _:
                pass

    def _of(self, call_ids: Iterable[CallId]) -> list[_Told]:
        """The outcomes of calls that were proposed: ``audit check`` tells of the others."""
        return [self._told[one] for one in call_ids if one in self._told]

    def _proposed(self, item: AgentTaskItem, fact: facts.CallsProposed) -> None:
        for call, verdict in zip(fact.calls, fact.evaluations, strict=False):
            told = _Told(item, call, self._requester, verdict)
            self._told[call.call_id] = told
            if verdict.effect is Effect.ALLOW:
                self._approved(told, item, "policy", reason=verdict.reason, policy_version=verdict.policy_version)
            elif verdict.effect is Effect.DENY:
                self._refused(told, item, "deny", verdict.reason)

    def _requested(self, fact: facts.ReviewRequested) -> None:
        for shown in fact.calls:
            for told in self._of((shown.call_id,)):
                told.requests.append(fact.request_id)
                told.observed.append(shown.observed)
                told.verdict = shown.evaluation

    def _decided(self, item: AgentTaskItem, fact: facts.DecisionRecorded) -> None:
        common = {"policy_version": fact.policy_version, "request_id": fact.request_id, "behalf": fact.behalf}
        for decision in fact.decisions:
            for told in self._of((decision.call_id,)):
                of_call = {**common, "self_approved": item.actor.id == self._requester, "reason": decision.reason}
                if decision.action == "approve":
                    digest = decision.action_digest
                    self._approved(told, item, "approve", action_digest=digest, grant_id=decision.grant_id, **of_call)
                elif decision.action == "edit":
                    self._edited(told, decision)
                    self._approved(told, item, "edit", action_digest=decision.runs_digest, **of_call)
                else:
                    self._refused(told, item, decision.action, decision.reason)
                if decision.retry_as is not None:
                    again = told.call.model_copy(update={"call_id": decision.retry_as})
                    self._told[decision.retry_as] = _Told(item, again, self._requester, told.verdict)

    def _edited(self, told: _Told, decision: facts.Decision) -> None:
        changed = {"args": decision.args or {}, "call_digest": decision.call_digest}
        told.original = told.original or told.call
        told.call = told.call.model_copy(update=changed)
        told.verdict = decision.evaluation or told.verdict
        told.approvals = [
            one.model_copy(update={"void": True}) if one.how in ("approved", "edited") else one
            for one in told.approvals
        ]

    def _noted(self, item: AgentTaskItem, fact: facts.ReviewNoted) -> None:
        for decision in fact.decisions:
            for told in self._of((decision.call_id,)):
                if decision.action == "edit":
                    self._edited(told, decision)
                self._approved(
                    told,
                    item,
                    "edited" if decision.action == "edit" else "approved",
                    action_digest=decision.runs_digest or decision.action_digest,
                    policy_version=told.verdict.policy_version,
                    request_id=fact.request_id,
                    self_approved=item.actor.id == self._requester,
                    behalf=fact.behalf,
                    reason=decision.reason,
                )
        how = fact.what if fact.what in ("released", "check_approved") else "grant_used"
        for shown in fact.calls:
            for told in self._of((shown.call_id,)):
                told.observed.append(shown.observed)
                told.verdict = shown.evaluation
                self._approved(
                    told,
                    item,
                    how,
                    action_digest=shown.action_digest,
                    policy_version=shown.evaluation.policy_version,
                    request_id=fact.request_id,
                    grant_id=fact.grant_id,
                )

    def _outcome(self, item: AgentTaskItem, fact: facts.ToolFinished | facts.ToolSettled) -> None:
        for told in self._of((fact.call_id,)):
            run = told.runs.get(fact.run_id)
            if run is None or run.ended_at is not None:
                continue
            settled = fact.state if isinstance(fact, facts.ToolSettled) else "finished"
            outcome = _OUTCOMES[fact.ok] if settled == "finished" else settled
            ended = {"outcome": outcome, "code": fact.code or "", "after": fact.after, "ended_at": item.at}
            told.runs[fact.run_id] = run.model_copy(update=ended)

    def _approved(self, told: _Told, item: AgentTaskItem, how: str, **more: Any) -> None:
        told.approvals.append(
            Approval.model_validate({"version": item.version, "at": item.at, "by": item.actor, "how": how, **more})
        )

    def _refused(self, told: _Told, item: AgentTaskItem, how: str, reason: str) -> None:
        told.refusals.append(Refusal(version=item.version, at=item.at, by=item.actor, how=how, reason=reason))
