"""A whole decision: the facts that record it, and whether the task ends with it.

Theory. All of a decision holds or nothing of it (promise D3). It is bound to the digests that were
shown, is made by somebody who may, while the request is open and in time.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from orchestrator.core.approval.approval import (
    DECISIONS,
    MAX_ASKED_AGAIN,
    CallDecision,
    ResumeRequest,
    action_digest,
    call_digest,
    request_digest,
)
from orchestrator.core.approval.command import Decide, closed_request, expired, repeated, said_digest
from orchestrator.core.approval.grants import SESSION_S, Grant, GrantSpec, covers, fixed_args, in_paths, own_paths
from orchestrator.core.approval.quorum import must_fit_team, must_not_be_claimed, parted, present_step
from orchestrator.core.errors import Forbidden, InvalidDecision, InvalidRequest, OrchestratorError, ReplyRefused
from orchestrator.core.policy import BUILT_IN_CATALOG, RUNNERS, Effect, RiskLevel, severity
from orchestrator.core.policy.command_line import runs_of, runs_one_program
from orchestrator.core.reply.response import canonical_args
from orchestrator.core.task import facts
from orchestrator.core.task.choices import chosen, options_of
from orchestrator.core.task.facts import CANNOT_BE_KNOWN, CallId, Fact, ToolCall
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.task.task import AgentTask, CallRecord, OpenRequest
from orchestrator.core.text.redact import restore
from orchestrator.core.values import changed

# -- Grants as decisions give them and as calls find them: see :mod:`orchestrator.core.approval.grants`


def granted(
    task: AgentTask,
    decision: facts.Decision,
    spec: GrantSpec,
    *,
    by: str,
    now: datetime,
    new_id: Callable[[], GrantId],
) -> Grant:
    """The grant that a person gives with a decision. Raises InvalidDecision."""
    record = task.call(decision.call_id)
    assert record is not None, "only a call of the request was decided"
    verdict = decision.evaluation or record.evaluation
    if verdict.risk is RiskLevel.CRITICAL:
        raise InvalidDecision("A critical call is decided each time.", remedy="Approve it this once.")
    if decision.action == "edit" and not decision.runs_digest:
        raise InvalidDecision(
            "The target of the edited call was not shown yet.", remedy="Approve it this once; remember it at the next."
        )
    call = record.call
    args = decision.args if decision.args is not None else call.args
    paths = own_paths(call.tool, args)
    if spec.paths is not None and not paths:
        raise InvalidDecision(f"{call.tool} has no path to widen.", remedy="Leave paths out.")
    if spec.paths is not None and not in_paths(spec.paths, paths):
        raise InvalidDecision(
            f"{', '.join(spec.paths)} does not cover {', '.join(paths)}, which this call touches.",
            remedy="Give a pattern that covers this call, or leave paths out.",
        )
    state = record.observed.state if record.observed is not None else {}
    lasts_s = spec.expires_s or (SESSION_S if spec.scope == "session" else None)
    return Grant(
        grant_id=new_id(),
        scope=spec.scope,
        task_id=task.task_id,
        session_id=task.session_id,
        user_id=task.user_id,
        granted_by=by,
        tool=call.tool,
        computer=call.computer,
        identity=record.observed.identity if record.observed is not None else "",
        call_digest=decision.call_digest or call.call_digest,
        paths=spec.paths or paths,
        any_content=spec.any_content,
        args=fixed_args(call.tool, args, any_content=spec.any_content),
        files=dict(state) if call.tool in RUNNERS else {},
        created_at=now,
        expires_at=None if lasts_s is None else now + timedelta(seconds=lasts_s),
        max_uses=spec.max_uses,
        risk=verdict.risk,
        guards=verdict.guards,
    )


def released(
    task: AgentTask, decisions: Sequence[facts.Decision], grants: Sequence[Grant]
) -> tuple[facts.Decision, ...]:
    """Siblings that wait in the same request and that a new grant covers, each with the grant's id (promise G4)."""
    decided = {one.call_id for one in decisions}
    found: list[facts.Decision] = []
    for record in task.pending_tool_calls:
        grant = next((one for one in grants if record.call_id not in decided and grant_covers(one, record)), None)
        if grant is not None:
            found.append(
                facts.Decision(
                    call_id=record.call_id,
                    action="approve",
                    action_digest=record.action_digest or "",
                    grant_id=grant.grant_id,
                )
            )
    return tuple(found)


def grant_covers(grant: Grant, record: CallRecord) -> bool:
    """Whether a grant stands for a call as it was observed and judged."""
    return covers(
        grant,
        tool=record.call.tool,
        computer=record.call.computer,
        args=record.call.args,
        call_digest=record.call.call_digest,
        state=record.observed.state if record.observed is not None else {},
        identity=record.observed.identity if record.observed is not None else "",
        verdict=record.evaluation,
    )


# -- One decision on one call, bound to the digests that were shown ----------------------
#
# An edit is validated and judged as the model's own call was, and keeps tool and computer; the edited call is bound
# anew.

_HOW_IT_RUNS: Final = frozenset({"input", "observe_s", "timeout_s"})
_AT_ONCE: Final[Mapping[str, frozenset[str]]] = {
    "cc_run_program": _HOW_IT_RUNS | {"args"},
    "cc_shell": _HOW_IT_RUNS,
    "send_status": frozenset({"message"}),
    "ask_user": frozenset({"question", "options"}),
}
"""Arguments that an edit may change without a new request, beside the text of a change."""
ID_CHARS: Final = 100
"""Characters of an id: a client could send a megabyte."""


def bound(task: AgentTask, wanted: CallDecision, command: Decide) -> facts.Decision:
    """What is recorded of it. Raises InvalidDecision, InvalidRequest, Forbidden."""
    request = task.request
    record = task.call(wanted.call_id)
    if request is None or record is None or wanted.call_id not in request.call_ids:
        raise InvalidDecision(
            f"The request does not wait for call {wanted.call_id[:ID_CHARS]!r}.",
            remedy="Decide the calls that it shows.",
        )
    verbs = DECISIONS[request.reason]
    if wanted.action not in verbs:
        raise InvalidDecision(
            f"This request takes {', '.join(verbs)}, not {wanted.action}.", remedy="Use one of these."
        )
    must_fit_team(request, wanted)
    if wanted.action == "check" and record.asked_again >= MAX_ASKED_AGAIN:
        raise InvalidDecision(CANNOT_BE_KNOWN, remedy="Use mark_done, mark_failed or retry.")
    if wanted.expected_digest is not None and wanted.expected_digest != record.action_digest:
        raise InvalidDecision(
            f"Call {wanted.call_id!r} is not the one you saw: its digest differs.",
            remedy="Look at it again and decide again.",
        )
    decision = facts.Decision(
        call_id=wanted.call_id,
        action=wanted.action,
        action_digest=record.action_digest or "",
        reason=wanted.reason,
        on_reject=wanted.on_reject or task.rejecting,
        retry_as=command.new_call_id() if wanted.action == "retry" else None,
        answer=_answer(record.call, wanted.answer),
        said_digest=said_digest(task, wanted),
        step=present_step(request, wanted),
    )
    return _edited(task, record, decision, wanted, command) if wanted.action == "edit" else decision


def _answer(call: ToolCall, answer: str | None) -> str:
    """The text in place of a result; of a question, that of the choice that was meant. Raises InvalidRequest."""
    if call.tool == "ask_user" and answer is not None:
        return chosen(answer, options_of(call.args))
    return answer or ""


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
    # The reviewer was shown markers in place of secrets; where the markers are still there, the secrets come back.
    # Not in words for people: beside other words nobody would know them for secrets, and they would be shown.
    restored = args if call.plugin_name == "people" else restore(args, call.args, salt=task.tag)
    try:
        args = canonical_args(call.tool, restored if isinstance(restored, dict) else {})
    except ReplyRefused as refused:
        raise InvalidRequest(refused.message, remedy="Fix the edited arguments.") from None
    version = BUILT_IN_CATALOG[call.tool].version
    digest = call_digest(tool=call.tool, tool_version=version, args=args, computer=call.computer)
    edited = call.model_copy(update={"args": args, "call_digest": digest})
    _must_work(edited)
    seen = _touches_the_same(call, edited)
    program = record.observed.program if record.observed and seen else None
    verdict = command.active_policy.judge(task, edited, program)
    if verdict.effect is Effect.DENY:
        raise Forbidden(f"The policy denies the edited call: {verdict.reason}", remedy="Edit it otherwise, or reject.")
    if verdict.effect is Effect.ALLOW:
        # A person was asked: where this approval becomes void, they are asked again, as they are without an edit.
        verdict = verdict.model_copy(update={"effect": Effect.ASK})
    runs = ""
    shown = record.observed if seen and severity(verdict.risk) <= severity(record.evaluation.risk) else None
    if shown is not None and runs_one_program(call.tool, args, shown.program):
        runs = action_digest(call=digest, user_id=task.user_id, observed=shown, evaluation=verdict)
    return decision.model_copy(update={"args": args, "call_digest": digest, "evaluation": verdict, "runs_digest": runs})


def _must_work(edited: ToolCall) -> None:
    """Refuse what its tool refuses whatever is there, so that the request is not lost. Raises InvalidRequest."""
    cannot = f"{edited.tool} cannot do that"
    paths = own_paths(edited.tool, edited.args) if BUILT_IN_CATALOG[edited.tool].governance.mutates else ()
    if "" in paths:
        raise InvalidRequest(f"{cannot} with the root directory itself.", remedy="Name something in it.")
    if edited.tool == "cc_move" and f"{paths[1]}/".startswith(f"{paths[0]}/"):
        raise InvalidRequest(f"{cannot}: {paths[0]} cannot be moved into itself.", remedy="Name another place.")
    if edited.tool == "cc_shell" and not runs_of(edited.tool, edited.args, None).first:
        raise InvalidRequest(f"{cannot}: the command is empty.", remedy="Name the program that is to run.")


def _touches_the_same(call: ToolCall, edited: ToolCall) -> bool:
    """Whether an edit changes only a text or how a program runs: the paths, the command line and the rest stay."""
    same_paths = own_paths(call.tool, call.args) == own_paths(call.tool, edited.args)
    return same_paths and _target(call) == _target(edited)


def _target(call: ToolCall) -> dict[str, Any]:
    """What a call acts on beside its paths, such as a command line, or a peripheral with a method and its arguments."""
    fixed = fixed_args(call.tool, call.args, any_content=True)
    return {name: value for name, value in fixed.items() if name not in _AT_ONCE.get(call.tool, ())}


# -- A decision whole: what is recorded of it, and whether the task ends with it ---------


def decide_request(task: AgentTask, command: Decide) -> tuple[Fact, ...]:
    """The facts of a decision; empty when the same person made it before.

    Raises Forbidden, NotPending, RequestExpired, InvalidDecision, InvalidRequest.
    """
    if repeated(task, command):
        return ()
    request = _must_be_open(task, command)
    behalf = command.authorize(task)
    must_not_be_claimed(request, command)
    wanted = _per_call(task, command.resume)
    decisions, grants = _all_or_nothing(task, wanted, command)
    if any(one.action == "edit" for one in decisions):
        behalf = command.authorize(_as_edited(task, decisions))
    added, decisions = parted(request.team, decisions, command.by, behalf)
    noted = (_approved(task, command, added, behalf),) if added else ()
    return (*noted, *_held(task, command, decisions, grants, behalf)) if decisions else noted


def _as_edited(task: AgentTask, decisions: Sequence[facts.Decision]) -> AgentTask:
    """The task with the calls as people edited them: who may decide the one may not decide the other (promise D17)."""
    edits = {one.call_id: one for one in decisions if one.evaluation is not None}
    calls = (
        changed(
            record,
            call=record.call.model_copy(update={"args": edit.args, "call_digest": edit.call_digest}),
            evaluation=edit.evaluation,
        )
        if (edit := edits.get(record.call_id)) is not None
        else record
        for record in task.calls
    )
    return changed(task, calls=tuple(calls))


def _held(
    task: AgentTask,
    command: Decide,
    decisions: tuple[facts.Decision, ...],
    grants: tuple[Grant, ...],
    behalf: str,
) -> tuple[Fact, ...]:
    """The facts of decisions that nobody else has to make as well."""
    recorded = _recorded(task, command, decisions, grants, behalf)
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


def _must_be_open(task: AgentTask, command: Decide) -> OpenRequest:
    request = task.request
    if request is None or request.request_id != command.request_id:
        raise closed_request(task, command.request_id)
    if request.expires_at is not None and command.now >= request.expires_at:
        raise expired(request)
    return request


def _per_call(task: AgentTask, resume: ResumeRequest) -> tuple[CallDecision, ...]:
    pending = task.pending_tool_calls
    if resume.expected_digest is not None and resume.expected_digest != _whole_digest(task):
        raise InvalidDecision(
            "The request is not the one you saw: its digest differs.", remedy="Look at it again and decide again."
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
    task: AgentTask,
    command: Decide,
    decisions: tuple[facts.Decision, ...],
    grants: tuple[Grant, ...],
    behalf: str,
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
        behalf=behalf,
    )


def _approved(
    task: AgentTask, command: Decide, decisions: tuple[facts.Decision, ...], behalf: str
) -> facts.ReviewNoted:
    """Approvals that wait for those of other people."""
    return facts.ReviewNoted(
        what="approved",
        request_id=command.request_id,
        decisions=decisions,
        key=command.resume.idempotency_key,
        whole_digest=_whole_digest(task),
        behalf=behalf,
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
