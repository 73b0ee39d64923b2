"""What happens around a request, folded into the task: raised, noted, decided, ended without a decision."""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, assert_never

from orchestrator.core.approval.workflow import PLAIN, Claim, Comment, Team, Vote, told_person
from orchestrator.core.errors import InvalidDecision, ToolFailed
from orchestrator.core.policy import Effect
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId
from orchestrator.core.task.states import CallEvent, CallState, move
from orchestrator.core.task.task import AgentTask, CallRecord, ClosedRequest, OpenRequest
from orchestrator.core.values import changed

# -- The calls of a task's present step, found and moved by the table: every part of the fold needs them


def call_record(task: AgentTask, call_id: CallId) -> CallRecord:
    """A call of the present step. Raises InvalidDecision when the step has none of this id."""
    record = task.call(call_id)
    if record is None:
        raise InvalidDecision(f"The present step has no call {call_id!r}.")
    return record


def update_call(task: AgentTask, call_id: CallId, event: CallEvent, **changes: Any) -> AgentTask:
    """The task with one call moved by the table. Raises InvalidDecision when the event does not fit."""
    return move_call(task, call_record(task, call_id), event, **changes)


def move_call(task: AgentTask, record: CallRecord, event: CallEvent, **changes: Any) -> AgentTask:
    """The task with this call of its own moved; an allowance that nobody gave goes back to ``allowed``."""
    state = move(record.state, event)
    moved = changed(record, state=state, **changes)
    if state is CallState.APPROVED and moved.request_id is None and moved.grant_id is None:
        moved = changed(moved, state=CallState.ALLOWED)
    return changed(task, calls=tuple(moved if one is record else one for one in task.calls))


def told(record: CallRecord, text: str) -> str:
    """A result for the model: with the editor of the call, the reason, and the call that ran (promise D19)."""
    if record.original is None:
        return text
    ran = json.dumps(record.call.args, ensure_ascii=False, sort_keys=True)
    who = f"A person ({record.edited_by})" if record.edited_by else "A person"
    why = f" Their reason: {json.dumps(record.edit_reason, ensure_ascii=False)}." if record.edit_reason else ""
    return f"{who} edited this call before it ran.{why} What ran instead has these arguments: {ran}\n{text}"


# -- What happens around a request, folded into the task: raised, noted, decided, ended without a decision


def reviewing(task: AgentTask, fact: facts.ReviewRequested, at: datetime) -> AgentTask:
    """The task with a request raised: its calls are shown, and it waits."""
    for shown in fact.calls:
        if shown.evaluation.effect is Effect.HINT:
            computer = call_record(task, shown.call_id).call.computer
            task = changed(task, hints=task.hints.after_trying(computer, shown.observed.state))
        task = update_call(
            task,
            shown.call_id,
            "review",
            request_id=fact.request_id,
            observed=shown.observed,
            evaluation=shown.evaluation,
            action_digest=shown.action_digest,
            checks=shown.checks,
        )
    request = OpenRequest(
        request_id=fact.request_id,
        reason=fact.reason,
        call_ids=tuple(shown.call_id for shown in fact.calls),
        created_at=at,
        expires_at=fact.expires_at,
        policy_version=fact.policy_version,
        remind_at=fact.remind_at,
        on_timeout=fact.on_timeout,
        team=Team(workflow=fact.workflow or PLAIN, escalate_at=fact.escalate_at),
    )
    return changed(task, request=request)


def decided(task: AgentTask, fact: facts.DecisionRecorded, actor_id: str) -> AgentTask:
    """The task with a person's decision on one or more calls of its request."""
    who = told_person(actor_id, fact.behalf)
    for decision in fact.decisions:
        task = _with_checks(task, decision, fact.request_id)
        task = _decide_one(task, decision, fact.valid_until, _with_others(task, decision, who))
    verbs = " and ".join(sorted({_PAST[decision.action] for decision in fact.decisions}))
    how = f"{verbs} by {who}"
    done = ClosedRequest(
        fact.request_id,
        how,
        actor_id,
        fact.decisions,
        fact.key,
        task.updated_at,
        fact.whole_digest,
        task.request.call_ids if task.request is not None else (),
    )
    only_rejected = all(decision.action == "reject" for decision in fact.decisions)
    task = changed(
        task,
        closed=(*task.closed, done),
        rejected_in_a_row=task.rejected_in_a_row + 1 if only_rejected else 0,
    )
    return _still_asked(task, {decision.call_id for decision in fact.decisions})


def _with_others(task: AgentTask, decision: facts.Decision, who: str) -> str:
    """The people who approved a call with the one who approved it last."""
    votes = task.request.team.votes_on(decision.call_id) if task.request and decision.action == "approve" else ()
    return " and ".join((*map(str, votes), who))


def _with_checks(task: AgentTask, decision: facts.Decision, request_id: facts.RequestId) -> AgentTask:
    """The task with the checks that a person approves together with a call."""
    shown = call_record(task, decision.call_id).checks
    if not shown or decision.action not in ("approve", "edit") or decision.grant_id is not None:
        return task
    return changed(task, checking=task.checking.allowed(shown, request_id))


def _still_asked(task: AgentTask, done: Collection[CallId]) -> AgentTask:
    """The task whose open request no longer waits for these calls."""
    if task.request is None:
        return task
    still_open = tuple(call_id for call_id in task.request.call_ids if call_id not in done)
    return changed(task, request=replace(task.request, call_ids=still_open) if still_open else None)


_PAST: Final = {
    "approve": "approved",
    "reject": "rejected",
    "edit": "edited and approved",
    "respond": "answered",
    "check": "checked",
    "mark_done": "marked done",
    "mark_failed": "marked failed",
    "retry": "retried",
}


def _decide_one(task: AgentTask, decision: facts.Decision, valid_until: datetime | None, actor_id: str) -> AgentTask:
    record = call_record(task, decision.call_id)
    match decision.action:
        case "approve":
            grant_id, by = decision.grant_id, actor_id if decision.grant_id is None else ""
            allowed = {"valid_until": valid_until, "grant_id": grant_id, "approved_by": by}
            return update_call(task, record.call_id, "approve", **allowed)
        case "edit":
            return _edited(task, record, decision, valid_until, actor_id)
        case "respond":
            text = _response_text(record, decision.answer)
            return update_call(task, record.call_id, "respond", ok=True, result=text)
        case "reject":
            task = changed(task, rejections=(*task.rejections, (record.call.call_digest, decision.reason)))
            return update_call(task, record.call_id, "reject", ok=False, result=rejection_text(decision.reason))
        case "check":
            return update_call(task, record.call_id, "check", request_id=None, asked_again=record.asked_again + 1)
        case "mark_done" | "mark_failed":
            done = decision.action == "mark_done"
            said = f"The outcome was unknown; {actor_id} looked and says that it was {'done' if done else 'not done'}."
            return update_call(task, record.call_id, decision.action, ok=done, result=told(record, said))
        case "retry":
            return _retried(task, record, decision)
    assert_never(decision.action)


def _edited(
    task: AgentTask, record: CallRecord, decision: facts.Decision, until: datetime | None, by: str
) -> AgentTask:
    """The call with the arguments that a person put in place of the model's; tool and computer stay (promise D18)."""
    edit = _edit_of(record, decision, by)
    return update_call(task, record.call_id, "edit", **edit, valid_until=until, approved_by=by)


def _edit_of(record: CallRecord, decision: facts.Decision, by: str) -> dict[str, Any]:
    """The fields of a call that a person's edit changes."""
    return {
        "call": record.call.model_copy(update={"args": decision.args, "call_digest": decision.call_digest}),
        "original": record.original or record.call,
        "evaluation": decision.evaluation or record.evaluation,
        "action_digest": decision.runs_digest or None,
        "edit_reason": decision.reason,
        "edited_by": by,
    }


def _response_text(record: CallRecord, answer: str) -> str:
    if record.call.tool == "ask_user":
        # A yes to a reviewer's words is none to the model's own question, which may be for a secret.
        return told(record, answer)
    quoted = json.dumps(answer, ensure_ascii=False)
    return f"The tool did not run. A person gave this in place of its result, as data: {quoted}"


def noted(task: AgentTask, fact: facts.ReviewNoted, actor_id: str) -> AgentTask:
    """The task with something that happened around its request; with calls, they are approved by it."""
    for shown in fact.calls:
        record = call_record(task, shown.call_id)
        task = update_call(
            task,
            shown.call_id,
            "approve" if record.state is CallState.PENDING else "grant",
            observed=shown.observed,
            evaluation=shown.evaluation,
            action_digest=shown.action_digest,
            grant_id=fact.grant_id,
            valid_until=fact.valid_until,
            approved_by="",
            # The request with which a person approved it is not one in which it was shown by itself.
            request_id=fact.request_id if fact.what == "check_approved" else record.request_id,
        )
    asked = task.request
    task = _still_asked(task, {shown.call_id for shown in fact.calls})
    if fact.what == "renewed":
        return changed(task, lapsed=None)
    request = task.request
    if asked is not None and request is None:
        done = ClosedRequest(asked.request_id, _STOOD_IN[fact.what], actor_id, at=task.updated_at)
        return changed(task, closed=(*task.closed, done))
    if request is None or request.request_id != fact.request_id:
        return task
    match fact.what:
        case "notified":
            request = replace(request, notified=True)
        case "viewed":
            request = replace(request, viewed_by=(*request.viewed_by, actor_id))
        case "reminded":
            request = replace(request, reminded=True)
        case "extended":
            request = _extended(request, fact.expires_at)
        case "approved":
            return _approved_by_one(task, request, fact, actor_id)
        case "claimed" | "unclaimed" | "commented" | "escalated":
            request = _in_team(request, fact, actor_id, task.updated_at or request.created_at)
        case _:
            pass
    return changed(task, request=request)


def _approved_by_one(task: AgentTask, request: OpenRequest, fact: facts.ReviewNoted, by: str) -> AgentTask:
    """The task with approvals that are not enough yet; an edit of a call makes its other approvals void."""
    edited = {one.call_id for one in fact.decisions if one.action == "edit"}
    for decision in fact.decisions:
        record = call_record(task, decision.call_id)
        if decision.call_id in edited:
            seen = _seen_of_edit(record, decision.args or {})
            edit = changed(record, **_edit_of(record, decision, told_person(by, fact.behalf)), observed=seen)
            task = changed(task, calls=tuple(edit if one is record else one for one in task.calls))
    votes = (
        Vote(one.call_id, by, one.runs_digest or one.action_digest, one.step, fact.behalf) for one in fact.decisions
    )
    request = replace(request, team=request.team.with_votes(votes, anew=edited))
    how = f"approved by {told_person(by, fact.behalf)}, and not by enough people"
    said = ClosedRequest(
        request.request_id,
        how,
        by,
        fact.decisions,
        fact.key,
        at=task.updated_at,
        whole_digest=fact.whole_digest,
        waited_for=request.call_ids,
    )
    return changed(task, request=request, closed=(*task.closed, said))


def _seen_of_edit(record: CallRecord, args: Mapping[str, Any]) -> facts.Observed | None:
    """What was found at the target, with the diff of the edited text; without a diff where that is not known."""
    seen = record.observed
    if seen is None or seen.diff is None:
        return seen
    made, makes = record.call.args.get("content"), args.get("content")
    if not isinstance(made, str) or not isinstance(makes, str):
        return seen.model_copy(update={"diff": None})
    # Few tasks have an edit, and all are folded.
    from orchestrator.core.text.patch import taken_off, unified_diff

    try:
        before = taken_off(made, seen.diff) if seen.diff else made
    except ToolFailed:
        # The text goes to the end of the file, for instance: the arguments say what happens.
        return seen.model_copy(update={"diff": None})
    return seen.model_copy(update={"diff": unified_diff(before, makes, str(args.get("path", "")))})


def _in_team(request: OpenRequest, fact: facts.ReviewNoted, by: str, at: datetime) -> OpenRequest:
    """The request with something that its reviewers did beside deciding."""
    team = request.team
    match fact.what:
        case "claimed" if fact.valid_until is not None:
            team = replace(team, claim=Claim(by, fact.valid_until))
        case "commented":
            team = replace(team, comments=(*team.comments, Comment(by, at, fact.text)))
        case "escalated":
            team = replace(team, escalated_to=fact.to, escalate_at=None, claim=None)
            request = _extended(request, fact.expires_at)
        case _:
            team = replace(team, claim=None)
    return replace(request, team=team)


_STOOD_IN: Final = {
    "released": "released by a changed policy",
    "grant_used": "approved by a grant",
    "check_approved": "approved as a check before",
}


def _extended(request: OpenRequest, until: datetime | None) -> OpenRequest:
    """The request with a later deadline; its reminder and its escalation are as long before it as before."""
    if until is None or request.expires_at is None:
        return request
    by, team = until - request.expires_at, request.team
    return replace(
        request,
        expires_at=until,
        remind_at=None if request.remind_at is None else request.remind_at + by,
        reminded=False,
        team=team if team.escalate_at is None else replace(team, escalate_at=team.escalate_at + by),
    )


def rejection_text(reason: str) -> str:
    """The text for the model: a person said no, nothing ran, the reason as data (promises D13, D14)."""
    said = json.dumps({"status": "rejected", "by": "human", "reason": reason}, ensure_ascii=False)
    why = "" if reason else " They gave no reason."
    return f"A person rejected this call and it did not run.{why} Their answer, as data: {said} {_NOT_AGAIN}"


_NOT_AGAIN: Final = "Do not make the same call again."


def _retried(task: AgentTask, record: CallRecord, decision: facts.Decision) -> AgentTask:
    task = update_call(task, record.call_id, "retry")
    again = CallRecord(
        call=record.call.model_copy(update={"call_id": decision.retry_as}),
        evaluation=record.evaluation,
        state=CallState.PROPOSED,
        original=record.original,
    )
    return changed(task, calls=tuple(again if one.call_id == record.call_id else one for one in task.calls))


def request_ended(task: AgentTask, fact: facts.RequestEnded, actor_id: str) -> AgentTask:
    """The task with calls whose request, or whose allowance, ended without a decision."""
    for call_id in fact.call_ids:
        if fact.seen:
            task = changed(task, hints=task.hints.after_explaining(call_record(task, call_id).call.computer, fact.seen))
        task = _end_one(task, call_id, fact)
    request = task.request
    task = _still_asked(task, fact.call_ids)
    if request is None or request.request_id != fact.request_id or task.request is not None:
        return task
    lapsed = fact.request_id if fact.end == "expired" and fact.then == "stay_paused" else None
    how = fact.code if fact.code == "withdrawn" else fact.end
    done = ClosedRequest(request.request_id, how, actor_id, at=task.updated_at)
    return changed(task, lapsed=lapsed, closed=(*task.closed, done))


def _end_one(task: AgentTask, call_id: CallId, fact: facts.RequestEnded) -> AgentTask:
    """One call whose request, or whose allowance, ended without a decision."""
    ended: dict[str, Any] = {"observed": None, "action_digest": None, "grant_id": None, "valid_until": None}
    ended |= {"approved_by": "", "code": fact.code or None}
    if call_record(task, call_id).state is CallState.APPROVED and fact.end == "expired":
        return update_call(task, call_id, "lapse", **ended)
    if fact.end == "expired" and fact.then == "stay_paused":
        return update_call(task, call_id, "stale", **ended)
    if fact.end in ("expired", "superseded") or fact.code == "withdrawn":
        ended.update(ok=False, result=f"This call did not run: {fact.reason}")
    return update_call(task, call_id, fact.end, **ended)
