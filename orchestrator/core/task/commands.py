"""Commands of people to a task: each is decided into facts, or refused with the reason.

``decide`` is pure: the caller appends the facts at the version it folded, and after a conflict
folds and decides again. Nobody but a person's command, an expiry, a cancel or a staleness
changes a pending request (promise D25).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, assert_never

from orchestrator.core.approval.approval import CallState, action_digest
from orchestrator.core.approval.command import ActivePolicy, Decide, closed_request, expired
from orchestrator.core.approval.decision import decide_request
from orchestrator.core.approval.teamwork import (
    Claim,
    Escalate,
    Remark,
    TeamCommand,
    Unclaim,
    open_request,
    teamwork,
)
from orchestrator.core.errors import InvalidDecision, InvalidRequest, NotFound, NotPending, TaskEnded
from orchestrator.core.policy import Effect, PolicyDecision, stricter
from orchestrator.core.task import facts
from orchestrator.core.task.choices import chosen, options_of
from orchestrator.core.task.facts import Fact, QuestionId, RequestEnd, RequestId
from orchestrator.core.task.states import Phase
from orchestrator.core.task.task import AgentTask, CallRecord


@dataclass(frozen=True)
class Answer:
    """Answer a question."""

    question_id: QuestionId
    answer: str


@dataclass(frozen=True)
class Cancel:
    """Stop the task."""

    reason: str = ""


@dataclass(frozen=True)
class Fail:
    """End the task as failed, since it cannot go on."""

    status_reason: str
    message: str


@dataclass(frozen=True)
class Extend:
    """Give people until ``expires_at`` for a request."""

    request_id: RequestId
    expires_at: datetime
    now: datetime


@dataclass(frozen=True)
class Thaw:
    """Move the deadlines of what waits by the time of a freeze, in which nobody could decide it."""

    since: datetime
    now: datetime


@dataclass(frozen=True)
class Withdraw:
    """Take a request back: its calls do not run, and the model is told so."""

    request_id: RequestId
    by: str


@dataclass(frozen=True)
class Renew:
    """Ask again for what nobody answered in time."""

    request_id: RequestId


@dataclass(frozen=True)
class Rejudge:
    """Judge what waits for a decision by a policy that has changed (promise P15)."""

    active_policy: ActivePolicy
    now: datetime


@dataclass(frozen=True)
class Pin:
    """Keep the task whatever the retention says, or no longer."""

    pinned: bool


Command = Decide | Answer | Cancel | Fail | Extend | Thaw | Withdraw | Renew | Rejudge | Pin | TeamCommand


def decide(task: AgentTask, command: Command) -> tuple[Fact, ...]:
    """The facts that a command amounts to; empty when it was carried out before by the same person.

    Raises NotFound, NotPending, InvalidDecision or TaskEnded, each with what to do.
    """
    match command:
        case Decide():
            return decide_request(task, command)
        case Answer():
            return _answer(task, command)
        case Fail():
            return _fail(task, command)
        case Cancel():
            return _cancel(task, command.reason, "canceled")
        case Extend() | Thaw() | Withdraw() | Renew():
            return _about_a_request(task, command)
        case Rejudge():
            return _rejudge(task, command)
        case Pin():
            return _pin(task, command)
        case Claim() | Unclaim() | Remark() | Escalate():
            return teamwork(task, command)
    assert_never(command)


def _about_a_request(task: AgentTask, command: Extend | Thaw | Withdraw | Renew) -> tuple[Fact, ...]:
    match command:
        case Extend():
            return _extend(task, command)
        case Thaw():
            return _thaw(task, command)
        case Withdraw():
            return _withdraw(task, command)
        case Renew():
            return _renew(task, command)
    assert_never(command)


def _answer(task: AgentTask, command: Answer) -> tuple[Fact, ...]:
    asked = next((one for one in task.calls if one.question_id == command.question_id), None)
    if asked is None:
        raise NotFound("The task has no such open question.", remedy="Look at the task for its present question.")
    if asked.state is not CallState.ASKING:
        raise NotPending("The question was answered already.", remedy="The first answer counts.")
    if task.phase is Phase.ENDED:
        raise NotPending("The question is no longer open: the task is over.", remedy="Look at the task for why.")
    said = chosen(command.answer, options_of(asked.call.args))
    return (facts.QuestionAnswered(question_id=command.question_id, answer=said),)


def _cancel(task: AgentTask, reason: str, status_reason: str) -> tuple[Fact, ...]:
    if task.phase is Phase.ENDED:
        raise _over(task)
    requested = facts.CancelRequested(reason=reason)
    return (requested, *_ending(task, list(task.calls), reason or "Canceled.", status_reason))


def _over(task: AgentTask) -> TaskEnded:
    return TaskEnded(
        f"The task is over: {task.status.value}.",
        remedy=f"`cc-orchestrator tasks show {task.task_id}` shows its result.",
    )


def _fail(task: AgentTask, command: Fail) -> tuple[Fact, ...]:
    """Nothing where it is over already."""
    if task.phase is Phase.ENDED:
        return ()
    return _ending(task, list(task.calls), command.message, command.status_reason, "Failed")


def _ending(
    task: AgentTask,
    left: list[CallRecord],
    message: str,
    status_reason: str,
    status: Literal["Canceled", "Failed"] = "Canceled",
) -> tuple[Fact, ...]:
    """Ends the task, and in the same transaction the request that nobody decides any more."""
    ended = facts.TaskEnded(status=status, status_reason=status_reason, message=message)
    request = task.request
    waiting = tuple(record.call_id for record in left if request and record.call_id in request.call_ids)
    if request is None or not waiting:
        return (ended,)
    closed = facts.RequestEnded(request_id=request.request_id, end="canceled", call_ids=waiting, reason=message)
    return (closed, ended)


def _extend(task: AgentTask, command: Extend) -> tuple[Fact, ...]:
    request = open_request(task, command.request_id)
    if request.expires_at is None:
        raise NotPending("The request does not expire.", remedy="Nothing has to be done.")
    if command.now >= request.expires_at:
        raise expired(request)
    if command.expires_at <= request.expires_at:
        raise InvalidRequest("The request expires later than that already.", remedy="Name a later time.")
    return (facts.ReviewNoted(what="extended", request_id=command.request_id, expires_at=command.expires_at),)


def _thaw(task: AgentTask, command: Thaw) -> tuple[Fact, ...]:
    request = task.request
    if request is None or request.expires_at is None:
        return ()
    later = request.expires_at + (command.now - max(command.since, request.created_at))
    return (facts.ReviewNoted(what="extended", request_id=request.request_id, expires_at=later),)


def _withdraw(task: AgentTask, command: Withdraw) -> tuple[Fact, ...]:
    request = open_request(task, command.request_id)
    if request.reason == "outcome_unknown":
        raise InvalidDecision(
            "Whether these calls were done is not known; that is not taken back.",
            remedy="Check, mark done, mark failed or retry.",
        )
    return (
        facts.RequestEnded(
            request_id=command.request_id,
            end="canceled",
            call_ids=request.call_ids,
            reason=f"{command.by} took the request back before anybody decided.",
            code="withdrawn",
        ),
    )


def _pin(task: AgentTask, command: Pin) -> tuple[Fact, ...]:
    if task.pinned == command.pinned:
        return ()
    return (facts.TaskPinned() if command.pinned else facts.TaskUnpinned(),)


def _renew(task: AgentTask, command: Renew) -> tuple[Fact, ...]:
    if task.phase is Phase.ENDED:
        raise _over(task)
    if task.lapsed != command.request_id:
        raise closed_request(task, command.request_id)
    return (facts.ReviewNoted(what="renewed", request_id=command.request_id),)


def _rejudge(task: AgentTask, command: Rejudge) -> tuple[Fact, ...]:
    """The effect of a changed policy on an open request: none where its verdicts on the calls are the same."""
    request = task.request
    if request is None or request.reason != "approval":
        return ()
    denied, changed, allowed = [], [], []
    for record in task.pending_tool_calls:
        program = record.observed.program if record.observed is not None else None
        verdict = command.active_policy.judge(task, record.call, program)
        if verdict.effect is Effect.DENY:
            denied.append((record, verdict.reason))
        elif verdict.effect is Effect.ALLOW:
            allowed.append(record)
        elif _digest(task, record, stricter(record.evaluation, verdict)) != record.action_digest:
            changed.append(record)
    release = command.active_policy.rules.release_on_relax
    return (
        *(
            _policy_ended(request.request_id, "superseded", (one,), f"The policy denies it now: {why}")
            for one, why in denied
        ),
        *((_policy_ended(request.request_id, "stale", tuple(changed), _JUDGED_ANEW),) if changed else ()),
        *((_released(task, command, tuple(allowed)),) if allowed and release else ()),
    )


_JUDGED_ANEW = "The policy judges it otherwise now; it is shown again."


def _digest(task: AgentTask, record: CallRecord, verdict: PolicyDecision) -> str:
    observed = record.observed or facts.Observed(state={})
    return action_digest(call=record.call.call_digest, user_id=task.user_id, observed=observed, evaluation=verdict)


def _policy_ended(request_id: RequestId, end: RequestEnd, records: tuple[CallRecord, ...], reason: str) -> Fact:
    ids = tuple(record.call_id for record in records)
    return facts.RequestEnded(request_id=request_id, end=end, call_ids=ids, reason=reason, code="policy")


def _released(task: AgentTask, command: Rejudge, records: tuple[CallRecord, ...]) -> Fact:
    """Calls that wait for a person although the policy allows them by now, and says that this is enough."""
    valid_s = command.active_policy.rules.approval_valid_s
    return facts.ReviewNoted(
        what="released",
        request_id=task.request.request_id if task.request else None,
        calls=tuple(
            facts.RequestedCall(
                call_id=record.call_id,
                observed=record.observed or facts.Observed(state={}),
                evaluation=record.evaluation,
                action_digest=record.action_digest or "",
            )
            for record in records
        ),
        valid_until=command.now + timedelta(seconds=valid_s) if valid_s else None,
    )
