"""A decision whole: what is recorded of it, and whether the task ends with it.

Theory. All of a decision holds or nothing of it (promise D3). It is bound to the digests that were
shown, is made by somebody who may, while the request is open and in time.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from itertools import islice
from typing import Final

from orchestrator.core.approval.approval import CallDecision, ResumeRequest, request_digest
from orchestrator.core.approval.decisions.binding import ID_CHARS, bound
from orchestrator.core.approval.decisions.closed import closed_request, expired
from orchestrator.core.approval.decisions.command import Decide
from orchestrator.core.approval.decisions.repeats import repeated
from orchestrator.core.approval.grant_decisions import granted, released
from orchestrator.core.approval.grants import Grant
from orchestrator.core.errors import Forbidden, InvalidDecision, OrchestratorError
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, Fact
from orchestrator.core.task.task import AgentTask


def decide_request(task: AgentTask, command: Decide) -> tuple[Fact, ...]:
    """The facts of a decision; empty when the same person made it before.

    Raises Forbidden, NotPending, RequestExpired, InvalidDecision, InvalidRequest.
    """
    if repeated(task, command):
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
        limit = command.active_policy.rules.max_rejections
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
            decision = bound(task, one, command)
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


def _offenders(refused: dict[CallId, OrchestratorError], count: int) -> OrchestratorError:
    first = next((one for one in refused.values() if isinstance(one, Forbidden)), next(iter(refused.values())))
    if count > 1:
        said = " ".join(f"{call_id[:ID_CHARS]}: {error.message}" for call_id, error in islice(refused.items(), _NAMED))
        if len(refused) > _NAMED:
            said += f" And {len(refused) - _NAMED} more."
        first = type(first)(
            f"Nothing was decided: {said}", remedy=first.remedy or "Decide again without them, or fix them."
        )
    first.details = {**first.details, "offenders": [str(call_id) for call_id in refused]}
    return first


def _recorded(
    task: AgentTask, command: Decide, decisions: tuple[facts.Decision, ...], grants: tuple[Grant, ...]
) -> facts.DecisionRecorded:
    approves = any(one.action in ("approve", "edit") for one in decisions)
    valid_s = command.active_policy.rules.approval_valid_s
    return facts.DecisionRecorded(
        request_id=command.request_id,
        decisions=decisions,
        key=command.resume.idempotency_key,
        grants=grants,
        self_approved=approves and task.counts_for(command.by),
        valid_until=command.now + timedelta(seconds=valid_s) if approves and valid_s else None,
        policy_version=command.active_policy.version,
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
    """Whether people have now said no so often in a row that the model is not asked again (promise D15)."""
    limit = command.active_policy.rules.max_rejections
    return bool(limit) and all(one.action == "reject" for one in decisions) and task.rejected_in_a_row + 1 >= limit
