"""A person's decision on a request, turned into facts or refused with the reason.

Theory. All of a decision holds or nothing of it (hitl.md D3). It is bound to the digests that were
shown, is made by somebody who may, while the request is open and in time. An edit is validated and
judged as the model's own call was, and keeps tool and computer; what it then runs is bound anew.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, Protocol

from orchestrator.core import facts
from orchestrator.core.approval import (
    DECISIONS,
    CallDecision,
    ResumeRequest,
    action_digest,
    call_digest,
    request_digest,
)
from orchestrator.core.errors import (
    Forbidden,
    InvalidDecision,
    InvalidRequest,
    NotPending,
    OrchestratorError,
    ReplyRefused,
    RequestExpired,
)
from orchestrator.core.facts import CallId, Fact, RequestId, ToolCall
from orchestrator.core.granting import granted, released
from orchestrator.core.grants import Grant, own_paths
from orchestrator.core.items import canonical_json
from orchestrator.core.policy import BUILT_IN_CATALOG, RUNNERS, Effect, PolicyDecision, RequestRules, Undo
from orchestrator.core.redact import restore
from orchestrator.core.response import canonical_args
from orchestrator.core.system_facts import GrantId
from orchestrator.core.task import AgentTask, CallRecord, ClosedRequest, OpenRequest
from orchestrator.core.wire import sha256_hex


class Law(Protocol):
    """The policy in force, as those need it who judge by it."""

    @property
    def version(self) -> str:
        """The policy's version."""

    @property
    def rules(self) -> RequestRules:
        """What it says of requests."""

    @property
    def undo(self) -> Undo:
        """What it says of the changes of a task that failed or was canceled."""

    @property
    def watch(self) -> tuple[str, ...]:
        """Where it says that programs are watched, as globs."""

    def summary(self, task: AgentTask) -> str:
        """What the model of a task is told of it."""

    def judge(self, task: AgentTask, call: ToolCall, program: str | None = None) -> PolicyDecision:
        """Its verdict on a call; ``program``: what a run resolves to, once somebody has looked."""


@dataclass(frozen=True)
class Decide:
    """Decide a request, whole or in part; the new ids are those of calls that are retried and of grants."""

    request_id: RequestId
    resume: ResumeRequest
    by: str
    now: datetime
    law: Law
    new_call_id: Callable[[], CallId]
    new_grant_id: Callable[[], GrantId]


def decide_request(task: AgentTask, command: Decide) -> tuple[Fact, ...]:
    """The facts of a decision; empty when the same person made it before.

    Raises Forbidden, NotPending, RequestExpired, InvalidDecision, InvalidRequest.
    """
    if _repeated(task, command):
        return ()
    _must_be_open(task, command)
    wanted = _per_call(task, command.resume)
    decisions, grants = _all_or_nothing(task, wanted, command)
    recorded = _recorded(task, command, decisions, grants)
    stops = [one for one in decisions if one.action == "reject" and one.on_reject == "cancel"]
    if stops:
        reason = stops[0].reason or "rejected without a reason"
        ended = facts.TaskEnded(
            status="Canceled", status_reason="rejected", message=f"A person rejected a call: {reason}"
        )
    elif _struck_out(task, decisions, command):
        limit = command.law.rules.max_rejections
        ended = facts.TaskEnded(
            status="Failed", status_reason="rejection_limit", message=f"People rejected it {limit} times in a row."
        )
        reached = facts.LimitReached(limit="rejections", detail=ended.message)
        return (recorded, *_closing(task, decisions, ended.message), reached, ended)
    else:
        return (recorded,)
    return (recorded, *_closing(task, decisions, ended.message), ended)


def _must_be_open(task: AgentTask, command: Decide) -> None:
    request = task.request
    if request is None or request.request_id != command.request_id:
        raise closed_request(task, command.request_id)
    if request.expires_at is not None and command.now >= request.expires_at:
        raise expired(request)


def expired(request: OpenRequest) -> RequestExpired:
    """The refusal of a request whose time is over, whether or not that is recorded yet (hitl.md D9)."""
    return RequestExpired(
        f"The request expired at {request.expires_at:%Y-%m-%d %H:%M:%S} UTC, and nobody had answered.", remedy=_RENEW
    )


_RENEW = "Look at the task: a new request can be raised from it, or it goes on without the call."


def closed_request(task: AgentTask, request_id: RequestId) -> NotPending:
    """The refusal of a request that takes no more decisions: says how it was closed, and by whom."""
    for closed in reversed(task.closed):
        if closed.request_id == request_id:
            kind = RequestExpired if closed.how == "expired" else NotPending
            became = "it expired" if kind is RequestExpired else f"it was {closed.how}"
            message = f"The request is no longer open: {became}."
            return kind(
                message,
                remedy=_RENEW if kind is RequestExpired else "Look at the task for its present request.",
                details={
                    "decided_by": closed.actor_id,
                    "how": closed.how,
                    "at": closed.at.isoformat() if closed.at is not None else None,
                    "status": task.status.value,
                },
            )
    return NotPending(
        f"The request is no longer open: the task is {task.status.value}.",
        remedy="Look at the task for its present request.",
        details={"status": task.status.value},
    )


def _per_call(task: AgentTask, resume: ResumeRequest) -> tuple[CallDecision, ...]:
    pending = task.pending_tool_calls
    if resume.expected_digest is not None and resume.expected_digest != _whole_digest(task):
        raise InvalidDecision(
            "The request is not the one you saw: its digest differs.", remedy="Look at it again and decide anew."
        )
    if resume.action is None:
        decisions = resume.decisions or ()
        twice = [call_id for call_id, times in Counter(one.call_id for one in decisions).items() if times > 1]
        if twice:
            raise InvalidDecision(
                "A call is decided twice in one request.",
                remedy="Decide each call once.",
                details={"offenders": twice},
            )
        return decisions
    return tuple(
        CallDecision(call_id=record.call_id, action=resume.action, reason=resume.reason, on_reject=resume.on_reject)
        for record in pending
    )


def _whole_digest(task: AgentTask) -> str:
    """The digest of the request as it stands: over the calls that still wait."""
    return request_digest(tuple(record.action_digest or "" for record in task.pending_tool_calls))


def _all_or_nothing(
    task: AgentTask, wanted: Sequence[CallDecision], command: Decide
) -> tuple[tuple[facts.Decision, ...], tuple[Grant, ...]]:
    """The decisions and the grants given with them. Raises what is wrong with the only one, or names all offenders."""
    decisions: list[facts.Decision] = []
    grants: list[Grant] = []
    refused: dict[CallId, OrchestratorError] = {}
    for one in wanted:
        try:
            decision = _bound(task, one, command)
            if one.remember is not None:
                grants.append(
                    granted(task, decision, one.remember, by=command.by, now=command.now, new_id=command.new_grant_id)
                )
        except OrchestratorError as error:
            refused[one.call_id] = error
        else:
            decisions.append(decision)
    if refused:
        raise _offenders(refused, len(wanted))
    return (*decisions, *released(task, decisions, grants)), tuple(grants)


_NAMED: Final = 10
"""Offenders that a sentence names; ``details`` has all of them."""
_ID_CHARS: Final = 100
"""What was sent as an id may be a megabyte."""


def _offenders(refused: dict[CallId, OrchestratorError], count: int) -> OrchestratorError:
    first = next((one for one in refused.values() if isinstance(one, Forbidden)), next(iter(refused.values())))
    if count > 1:
        said = " ".join(f"{call_id[:_ID_CHARS]}: {error.message}" for call_id, error in islice(refused.items(), _NAMED))
        if len(refused) > _NAMED:
            said += f" And {len(refused) - _NAMED} more."
        first = type(first)(
            f"Nothing was decided: {said}", remedy=first.remedy or "Decide again without them, or mend them."
        )
    first.details = {**first.details, "offenders": [str(call_id) for call_id in refused]}
    return first


def _bound(task: AgentTask, wanted: CallDecision, command: Decide) -> facts.Decision:
    request = task.request
    record = task.call(wanted.call_id)
    if request is None or record is None or wanted.call_id not in request.call_ids:
        raise InvalidDecision(
            f"The request does not wait for call {wanted.call_id[:_ID_CHARS]!r}.",
            remedy="Decide the calls that it shows.",
        )
    verbs = DECISIONS[request.reason]
    if wanted.action not in verbs:
        raise InvalidDecision(
            f"This request takes {', '.join(verbs)}, not {wanted.action}.", remedy="Use one of these."
        )
    if wanted.expected_digest is not None and wanted.expected_digest != record.action_digest:
        raise InvalidDecision(
            f"Call {wanted.call_id!r} is not the one you saw: its digest differs.",
            remedy="Look at it again and decide anew.",
        )
    decision = facts.Decision(
        call_id=wanted.call_id,
        action=wanted.action,
        action_digest=record.action_digest or "",
        reason=wanted.reason,
        on_reject=wanted.on_reject or task.on_reject,
        retry_as=command.new_call_id() if wanted.action == "retry" else None,
        answer=wanted.answer or "",
        said_digest=_said(task, wanted),
    )
    return _edited(task, record, decision, wanted, command) if wanted.action == "edit" else decision


def _edited(
    task: AgentTask, record: CallRecord, decision: facts.Decision, wanted: CallDecision, command: Decide
) -> facts.Decision:
    """The decision with what is to run instead. Raises InvalidRequest (the schema), Forbidden (the policy)."""
    call = record.call
    args = dict(wanted.args or {})
    named = args.pop("computer", call.computer)
    if named != call.computer:
        where = f"which is {call.computer}" if call.computer else "and this call has none"
        raise InvalidRequest(f"An edit keeps the computer, {where}.", remedy="Reject it, and say where instead.")
    # What the reviewer was shown had its secrets taken out: where their marks still stand, they come back.
    restored = restore(args, call.args, salt=task.tag)
    try:
        args = canonical_args(call.tool, restored if isinstance(restored, dict) else {})
    except ReplyRefused as refused:
        raise InvalidRequest(refused.message, remedy="Mend the edited arguments.") from None
    version = BUILT_IN_CATALOG[call.tool].version
    digest = call_digest(tool=call.tool, tool_version=version, args=args, computer=call.computer)
    edited = call.model_copy(update={"args": args, "call_digest": digest})
    seen = _touches_the_same(call, edited)
    program = record.observed.program if record.observed and seen else None
    verdict = command.law.judge(task, edited, program)
    if verdict.effect is Effect.DENY:
        raise Forbidden(f"The policy denies the edited call: {verdict.reason}", remedy="Edit it otherwise, or reject.")
    if verdict.effect is Effect.ALLOW:
        # A person was asked: where this approval becomes void, they are asked again, as they are without an edit.
        verdict = verdict.model_copy(update={"effect": Effect.ASK})
    runs = ""
    if seen and record.observed is not None:
        runs = action_digest(call=digest, user_id=task.user_id, observed=record.observed, evaluation=verdict)
    return decision.model_copy(update={"args": args, "call_digest": digest, "evaluation": verdict, "runs_digest": runs})


def _touches_the_same(call: ToolCall, edited: ToolCall) -> bool:
    """Whether an edit leaves untouched what a person has to see first: the paths, and which program runs."""
    if own_paths(call.tool, call.args) != own_paths(call.tool, edited.args):
        return False
    return call.tool not in RUNNERS or call.args.get("command") == edited.args.get("command")


# -- what is recorded --------------------------------------------------------------------


def _recorded(
    task: AgentTask, command: Decide, decisions: tuple[facts.Decision, ...], grants: tuple[Grant, ...]
) -> facts.DecisionRecorded:
    approves = any(one.action in ("approve", "edit") for one in decisions)
    valid_s = command.law.rules.approval_valid_s
    return facts.DecisionRecorded(
        request_id=command.request_id,
        decisions=decisions,
        key=command.resume.idempotency_key,
        grants=grants,
        self_approved=approves and task.is_of(command.by),
        valid_until=command.now + timedelta(seconds=valid_s) if approves and valid_s else None,
        policy_version=command.law.version,
        whole_digest=_whole_digest(task),
    )


def _closing(task: AgentTask, decisions: Sequence[facts.Decision], message: str) -> tuple[Fact, ...]:
    """The end of the request for the calls that were not decided, when the task ends with the decision."""
    decided = {one.call_id for one in decisions}
    left = tuple(record.call_id for record in task.pending_tool_calls if record.call_id not in decided)
    if not left or task.request is None:
        return ()
    return (facts.RequestEnded(request_id=task.request.request_id, end="canceled", call_ids=left, reason=message),)


def _struck_out(task: AgentTask, decisions: Sequence[facts.Decision], command: Decide) -> bool:
    """Whether people have now said no so often in a row that the model is not asked again (hitl.md D15)."""
    limit = command.law.rules.max_rejections
    return bool(limit) and all(one.action == "reject" for one in decisions) and task.rejected_in_a_row + 1 >= limit


# -- repeats -----------------------------------------------------------------------------


def _repeated(task: AgentTask, command: Decide) -> bool:
    """Whether this person made this very decision before, so that it is carried out already: hitl.md D6.

    A decision on the whole is the same as the one that closed the request. Raises InvalidDecision
    where the idempotency key came with another decision, or for another request of the task.
    """
    resume = command.resume
    own = [closed for closed in task.closed if closed.actor_id == command.by]
    keyed = [closed for closed in own if resume.idempotency_key and closed.key == resume.idempotency_key]
    same = [closed for closed in _comparable(task, command) if _same(task, resume, closed)]
    if keyed and not any(closed in same for closed in keyed):
        raise InvalidDecision(
            "This idempotency key was used for another decision.",
            remedy="Take a new key for this one.",
            details={"used_for": keyed[-1].request_id, "how": keyed[-1].how},
        )
    return any(closed in same for closed in own)


def _comparable(task: AgentTask, command: Decide) -> list[ClosedRequest]:
    """The decisions on this request which the command could repeat: on the whole of it, the one that closed it."""
    earlier = [closed for closed in task.closed if closed.request_id == command.request_id]
    if command.resume.decisions is not None:
        return earlier
    still_open = task.request is not None and task.request.request_id == command.request_id
    return [] if still_open else earlier[-1:]


def _same(task: AgentTask, resume: ResumeRequest, closed: ClosedRequest) -> bool:
    """Whether a decision says what was said then, of what was seen then; the reason may be another."""
    made = {one.call_id: one for one in closed.decisions if one.grant_id is None}
    said = {call_id: one.said_digest or _said(task, one) for call_id, one in made.items()}
    if closed.whole_digest and resume.expected_digest not in (None, closed.whole_digest):
        return False
    if resume.decisions is None:
        whole = CallDecision.model_construct(action=resume.action, on_reject=resume.on_reject)
        return set(said.values()) == {_said(task, whole)}
    return said == {one.call_id: _said(task, one) for one in resume.decisions} and all(
        one.expected_digest in (None, made[one.call_id].action_digest) for one in resume.decisions
    )


def _said(task: AgentTask, one: facts.Decision | CallDecision) -> str:
    """What a person said of a call, but for the reason and what they had seen, as one digest.

    A decision of an early release, which has none of its own, knew the verb and what a rejection does.
    """
    on_reject = (one.on_reject or task.on_reject) if one.action == "reject" else None
    said: dict[str, Any] = {"action": one.action, "on_reject": on_reject}
    if isinstance(one, CallDecision):
        rest = one.model_dump(mode="json", include={"args", "answer", "remember"}, exclude_none=True)
        said.update(rest)
    return sha256_hex(canonical_json(said))
