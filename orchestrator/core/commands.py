"""What people may ask of a task: each command is decided into facts, or refused with the reason.

``decide`` is pure: the caller appends the facts at the version it folded, and after a conflict
folds and decides again. Nobody but a person's command, an expiry, a cancel or a staleness
changes a pending request (hitl.md D25).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from orchestrator.core import facts
from orchestrator.core.approval import DECISIONS, CallDecision, CallState, ResumeRequest, request_digest
from orchestrator.core.errors import InvalidDecision, NotFound, NotPending, TaskEnded
from orchestrator.core.facts import CallId, Fact, OnReject, QuestionId, RequestId
from orchestrator.core.task import AgentTask, CallRecord, ClosedRequest, Phase


@dataclass(frozen=True)
class Decide:
    """Decide a request, whole or in part; ``new_call_id`` names the calls that are retried."""

    request_id: RequestId
    resume: ResumeRequest
    by: str
    new_call_id: Callable[[], CallId]


@dataclass(frozen=True)
class Answer:
    """Answer a question."""

    question_id: QuestionId
    answer: str


@dataclass(frozen=True)
class Cancel:
    """Stop the task."""

    reason: str = ""


Command = Decide | Answer | Cancel


def decide(task: AgentTask, command: Command) -> tuple[Fact, ...]:
    """The facts that a command amounts to; empty when it was carried out before by the same person.

    Raises NotFound, NotPending, InvalidDecision or TaskEnded, each with what to do.
    """
    match command:
        case Decide():
            return _decide(task, command)
        case Answer():
            return _answer(task, command)
        case Cancel():
            return _cancel(task, command.reason, "canceled")
    assert_never(command)


def _decide(task: AgentTask, command: Decide) -> tuple[Fact, ...]:
    if _repeated(task, command):
        return ()
    request = task.request
    if request is None or request.request_id != command.request_id:
        raise NotPending(_why_closed(task, command.request_id), remedy="Look at the task for its present request.")
    wanted = _per_call(task, command.resume)
    decisions = tuple(_bound(task, one, command) for one in wanted)
    recorded = facts.DecisionRecorded(
        request_id=request.request_id, decisions=decisions, key=command.resume.idempotency_key
    )
    stops = [one for one in decisions if one.action == "reject" and one.on_reject == "cancel"]
    if not stops:
        return (recorded,)
    decided = {one.call_id for one in decisions}
    left = [record for record in task.calls if record.call_id not in decided]
    reason = stops[0].reason or "rejected without a reason"
    return (recorded, *_ending(task, left, f"A person rejected a call: {reason}", "rejected"))


def _answer(task: AgentTask, command: Answer) -> tuple[Fact, ...]:
    asked = next((one for one in task.calls if one.question_id == command.question_id), None)
    if asked is None:
        raise NotFound("The task has no such open question.", remedy="Look at the task for its present question.")
    if asked.state is not CallState.ASKING:
        raise NotPending("The question was answered already.", remedy="The first answer counts.")
    return (facts.QuestionAnswered(question_id=command.question_id, answer=command.answer),)


def _cancel(task: AgentTask, reason: str, status_reason: str) -> tuple[Fact, ...]:
    if task.phase is Phase.ENDED:
        raise TaskEnded(f"The task is over: {task.status.value}.")
    requested = facts.CancelRequested(reason=reason)
    return (requested, *_ending(task, list(task.calls), reason or "Canceled.", status_reason))


def _ending(task: AgentTask, left: list[CallRecord], message: str, status_reason: str) -> tuple[Fact, ...]:
    """Ends the task as canceled, and in the same transaction the request that nobody decides any more."""
    ended = facts.TaskEnded(status="Canceled", status_reason=status_reason, message=message)
    request = task.request
    waiting = tuple(record.call_id for record in left if request and record.call_id in request.call_ids)
    if request is None or not waiting:
        return (ended,)
    closed = facts.RequestEnded(request_id=request.request_id, end="canceled", call_ids=waiting, reason=message)
    return (closed, ended)


def _per_call(task: AgentTask, resume: ResumeRequest) -> tuple[CallDecision, ...]:
    if resume.action is None:
        decisions = resume.decisions or ()
        if len({one.call_id for one in decisions}) != len(decisions):
            raise InvalidDecision("A call is decided twice in one request.", remedy="Decide each call once.")
        return decisions
    pending = task.pending_tool_calls
    whole = request_digest(tuple(record.action_digest or "" for record in pending))
    if resume.expected_digest is not None and resume.expected_digest != whole:
        raise InvalidDecision(
            "The request is not the one you saw: its digest differs.", remedy="Look at it again and decide anew."
        )
    return tuple(
        CallDecision(call_id=record.call_id, action=resume.action, reason=resume.reason, on_reject=resume.on_reject)
        for record in pending
    )


def _bound(task: AgentTask, wanted: CallDecision, command: Decide) -> facts.Decision:
    request = task.request
    record = task.call(wanted.call_id)
    if request is None or record is None or wanted.call_id not in request.call_ids:
        raise InvalidDecision(f"The request does not wait for call {wanted.call_id!r}.")
    verbs = DECISIONS[request.reason]
    action = next((verb for verb in verbs if verb == wanted.action), None)
    if action is None:
        raise InvalidDecision(f"This request takes {', '.join(verbs)}, not {wanted.action}.")
    if wanted.expected_digest is not None and wanted.expected_digest != record.action_digest:
        raise InvalidDecision(
            f"Call {wanted.call_id!r} is not the one you saw: its digest differs.",
            remedy="Look at it again and decide anew.",
        )
    return facts.Decision(
        call_id=wanted.call_id,
        action=action,
        action_digest=record.action_digest or "",
        reason=wanted.reason,
        on_reject=wanted.on_reject or task.on_reject,
        retry_as=command.new_call_id() if action == "retry" else None,
    )


def _repeated(task: AgentTask, command: Decide) -> bool:
    """Whether this person made this very decision before, so that it is carried out already: hitl.md D6.

    A decision on the whole is the same as the one that closed the request. Raises InvalidDecision
    where the idempotency key came with another decision.
    """
    resume = command.resume
    earlier = [closed for closed in task.closed if closed.request_id == command.request_id]
    still_open = task.request is not None and task.request.request_id == command.request_id
    whole = [] if still_open else earlier[-1:]
    comparable = earlier if resume.decisions is not None else whole
    if any(closed.actor_id == command.by and _same(task, resume, closed) for closed in comparable):
        return True
    key = resume.idempotency_key
    if key and any(closed.actor_id == command.by and closed.key == key for closed in earlier):
        raise InvalidDecision("This idempotency key came with another decision.", remedy="Take a new key for this one.")
    return False


def _same(task: AgentTask, resume: ResumeRequest, closed: ClosedRequest) -> bool:
    def meant(action: str | None, on_reject: OnReject | None) -> tuple[str | None, str | None]:
        return action, (on_reject or task.on_reject) if action == "reject" else None

    made = {one.call_id: meant(one.action, one.on_reject) for one in closed.decisions}
    if resume.decisions is None:
        return set(made.values()) == {meant(resume.action, resume.on_reject)}
    return made == {one.call_id: meant(one.action, one.on_reject) for one in resume.decisions}


def _why_closed(task: AgentTask, request_id: RequestId) -> str:
    for closed in reversed(task.closed):
        if closed.request_id == request_id:
            return f"The request is no longer open: it was {closed.how}."
    return f"The request is no longer open: the task is {task.status.value}."
