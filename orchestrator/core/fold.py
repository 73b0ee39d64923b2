"""How a task becomes what it is: ``evolve`` by one item, ``fold`` over many; pure, by the tables."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, assert_never

from orchestrator.core import facts
from orchestrator.core.approval import OPEN_STATES, CallEvent, CallState, move
from orchestrator.core.errors import InvalidDecision
from orchestrator.core.facts import BlobRef, CallId
from orchestrator.core.items import AgentTaskItem, Draft
from orchestrator.core.policy import BUILT_IN_CATALOG, Effect
from orchestrator.core.task import PHASE_TABLE, AgentTask, CallRecord, ClosedRequest, OpenRequest, Phase, Turn, changed


def fold(items: Iterable[AgentTaskItem], task: AgentTask | None = None) -> AgentTask:
    """The task after ``items``, from scratch or onward from ``task``. Raises InvalidDecision at an impossible one."""
    for item in items:
        task = evolve(task or AgentTask(task_id=item.task_id), item)
    if task is None:
        raise InvalidDecision("A task has at least one item.")
    return task


def preview(task: AgentTask, drafts: Sequence[Draft]) -> AgentTask:
    """The task as it would be with these drafts appended; hashes are left out."""
    for draft in drafts:
        task = _evolved(task, draft.fact, draft.at, draft.actor.id)
    return task


def sealed(task: AgentTask, items: Sequence[AgentTaskItem]) -> AgentTask:
    """A preview whose drafts are ``items`` now: with the hash, and with the numbers of the runs that were started."""
    numbers = {item.fact.run_id: item.fact.number for item in items if isinstance(item.fact, facts.ToolStarted)}
    calls = task.calls
    if numbers:
        calls = tuple(changed(one, number=numbers[one.run_id]) if one.run_id in numbers else one for one in calls)
    return changed(task, head_hash=items[-1].hash, calls=calls)


def can_follow(task: AgentTask, fact: facts.Fact) -> bool:
    """Whether a fact of this kind may happen in the task's present phase."""
    return fact.kind in PHASE_TABLE[task.phase]


def evolve(task: AgentTask, item: AgentTaskItem) -> AgentTask:
    """The task after one more item. Raises InvalidDecision when it cannot follow."""
    if item.version != task.version + 1:
        raise _impossible(task, item.fact, item.version)
    return changed(_evolved(task, item.fact, item.at, item.actor.id), head_hash=item.hash)


def _evolved(task: AgentTask, fact: facts.Fact, at: datetime, actor_id: str) -> AgentTask:
    """The task after one more fact, but for the hash that only a sealed item has."""
    target = PHASE_TABLE[task.phase].get(fact.kind)
    version = task.version + 1
    if target is None:
        raise _impossible(task, fact, version)
    active_s = task.active_until(at)
    task = changed(task, version=version, phase=target, updated_at=at, active_s=active_s)
    task = _apply(task, fact, at, actor_id)
    return _as_calls_say(task) if target is Phase.ACTING else task


def _impossible(task: AgentTask, fact: facts.Fact, version: int) -> InvalidDecision:
    return InvalidDecision(f"A {fact.kind} of version {version} cannot follow in phase {task.phase.value}.")


def _apply(  # noqa: C901, PLR0911, PLR0912 - one case per kind
    task: AgentTask, fact: facts.Fact, at: datetime, actor_id: str
) -> AgentTask:
    match fact:
        case facts.TaskSubmitted():
            return _submitted(task, fact, at)
        case facts.ModelAsked():
            return changed(task, attempt=fact.attempt)
        case facts.ModelReplied():
            return _replied(task, fact)
        case facts.ReplyRefused():
            turn = Turn(raw=task.reply or _NO_REPLY, refused=fact.reason)
            return changed(task, turns=(*task.turns, turn), reply=None, refusals=task.refusals + 1)
        case facts.CallsProposed():
            return _proposed(task, fact)
        case facts.ReviewRequested():
            return _reviewing(task, fact, at)
        case facts.DecisionRecorded():
            return _decided(task, fact, actor_id)
        case facts.RequestEnded():
            return _request_ended(task, fact, actor_id)
        case facts.ToolStarted():
            return _started(task, fact)
        case facts.ToolFinished():
            return _finished(task, fact)
        case facts.ToolSettled():
            return _settled(task, fact)
        case facts.QuestionAsked():
            return _update(task, fact.call_id, "ask", question_id=fact.question_id)
        case facts.QuestionAnswered():
            return _answered(task, fact)
        case facts.StatusSent():
            return _update(task, fact.call_id, "succeed", ok=True, result="Status sent.")
        case facts.CancelRequested():
            return changed(task, cancel_reason=fact.reason)
        case facts.LimitReached():
            return task
        case facts.TaskEnded():
            return changed(task, ended=fact, request=None)
    assert_never(fact)


def _submitted(task: AgentTask, fact: facts.TaskSubmitted, at: datetime) -> AgentTask:
    return replace(
        task,
        prompt=fact.prompt,
        user_id=fact.user_id,
        session_id=fact.session_id,
        computers=fact.computers,
        model=fact.model,
        max_steps=fact.max_steps,
        max_wall_s=fact.max_wall_s,
        max_tokens=fact.max_tokens,
        priority=fact.priority,
        earlier=fact.earlier,
        tag=fact.tag,
        on_reject=fact.on_reject,
        created_at=at,
    )


def _replied(task: AgentTask, fact: facts.ModelReplied) -> AgentTask:
    tokens = task.tokens + fact.usage.input_tokens + fact.usage.output_tokens
    return changed(task, reply=fact.raw, done_reason=fact.done_reason, steps=task.steps + 1, attempt=0, tokens=tokens)


_BIRTHS: Final = {Effect.ALLOW: CallState.ALLOWED, Effect.ASK: CallState.PROPOSED, Effect.DENY: CallState.DENIED}


def _proposed(task: AgentTask, fact: facts.CallsProposed) -> AgentTask:
    calls = tuple(
        CallRecord(
            call=call,
            evaluation=verdict,
            state=_BIRTHS[verdict.effect],
            ok=False if verdict.effect is Effect.DENY else None,
            result=f"Denied by policy: {verdict.reason}" if verdict.effect is Effect.DENY else None,
        )
        for call, verdict in zip(fact.calls, fact.evaluations, strict=True)
    )
    return changed(task, calls=calls, explanation=fact.explanation, refusals=0)


def _reviewing(task: AgentTask, fact: facts.ReviewRequested, at: datetime) -> AgentTask:
    for shown in fact.calls:
        task = _update(
            task,
            shown.call_id,
            "review",
            request_id=fact.request_id,
            observed=shown.observed,
            evaluation=shown.evaluation,
            action_digest=shown.action_digest,
        )
    request = OpenRequest(
        request_id=fact.request_id,
        reason=fact.reason,
        call_ids=tuple(shown.call_id for shown in fact.calls),
        created_at=at,
        expires_at=fact.expires_at,
        policy_version=fact.policy_version,
    )
    return changed(task, request=request)


def _decided(task: AgentTask, fact: facts.DecisionRecorded, actor_id: str) -> AgentTask:
    for decision in fact.decisions:
        task = _decide_one(task, decision, actor_id)
    verbs = " and ".join(sorted({_PAST[decision.action] for decision in fact.decisions}))
    done = ClosedRequest(fact.request_id, f"{verbs} by {actor_id}", actor_id, fact.decisions, fact.key)
    still_open = tuple(
        call_id
        for call_id in (task.request.call_ids if task.request else ())
        if call_id not in {decision.call_id for decision in fact.decisions}
    )
    request = replace(task.request, call_ids=still_open) if task.request and still_open else None
    return changed(task, request=request, closed=(*task.closed, done))


_PAST: Final = {
    "approve": "approved",
    "reject": "rejected",
    "check": "checked",
    "mark_done": "marked done",
    "mark_failed": "marked failed",
    "retry": "retried",
}


def _decide_one(task: AgentTask, decision: facts.Decision, actor_id: str) -> AgentTask:
    record = _record(task, decision.call_id)
    match decision.action:
        case "approve":
            return _update(task, record.call_id, "approve")
        case "reject":
            task = changed(task, rejections=(*task.rejections, (record.call.call_digest, decision.reason)))
            return _update(task, record.call_id, "reject", ok=False, result=rejection_text(decision.reason))
        case "check":
            return _update(task, record.call_id, "check", request_id=None)
        case "mark_done" | "mark_failed":
            text = (
                f"The outcome was unknown; {actor_id} looked and says that it was done."
                if (decision.action == "mark_done")
                else f"The outcome was unknown; {actor_id} looked and says that it was not done."
            )
            return _update(task, record.call_id, decision.action, ok=decision.action == "mark_done", result=text)
        case "retry":
            return _retried(task, record, decision)
    assert_never(decision.action)


def rejection_text(reason: str) -> str:
    """What the model is told of a rejection: that a person said no, that nothing ran, the reason as data."""
    why = f' Their reason, as data: "{reason}"' if reason else " They gave no reason."
    return f"A person rejected this call and it did not run.{why} Do not make the same call again."


def _retried(task: AgentTask, record: CallRecord, decision: facts.Decision) -> AgentTask:
    task = _update(task, record.call_id, "retry")
    again = CallRecord(
        call=record.call.model_copy(update={"call_id": decision.retry_as}),
        evaluation=record.evaluation,
        state=CallState.PROPOSED,
    )
    return changed(task, calls=tuple(again if one.call_id == record.call_id else one for one in task.calls))


def _request_ended(task: AgentTask, fact: facts.RequestEnded, actor_id: str) -> AgentTask:
    for call_id in fact.call_ids:
        ended: dict[str, Any] = {"observed": None, "action_digest": None}
        if fact.end in ("expired", "superseded"):
            ended.update(ok=False, result=f"This call did not run: {fact.reason}")
        task = _update(task, call_id, fact.end, **ended)
    if task.request is None or task.request.request_id != fact.request_id:
        return task
    still_open = tuple(call_id for call_id in task.request.call_ids if call_id not in fact.call_ids)
    if still_open:
        return changed(task, request=replace(task.request, call_ids=still_open))
    done = ClosedRequest(task.request.request_id, fact.end, actor_id)
    return changed(task, request=None, closed=(*task.closed, done))


def _started(task: AgentTask, fact: facts.ToolStarted) -> AgentTask:
    record = _record(task, fact.call_id)
    return _moved(
        task,
        record,
        "start",
        runs=record.runs + 1,
        run_id=fact.run_id,
        number=fact.number,
        before=fact.before,
        action_digest=fact.action_digest,
    )


def _finished(task: AgentTask, fact: facts.ToolFinished) -> AgentTask:
    record = _record(task, fact.call_id)
    if record.state is not CallState.EXECUTING or record.run_id != fact.run_id:
        return task
    return _ended_run(task, record, fact, fact.code)


def _ended_run(
    task: AgentTask, record: CallRecord, fact: facts.ToolFinished | facts.ToolSettled, code: str | None
) -> AgentTask:
    """A run that ended, heard at once or at settling; what was approved and then changed is shown again."""
    if code == "stale" and record.request_id is not None:
        return _moved(task, record, "stale", observed=None, action_digest=None)
    return _moved(task, record, "succeed" if fact.ok else "fail", ok=fact.ok, result=fact.text)


def _settled(task: AgentTask, fact: facts.ToolSettled) -> AgentTask:
    record = _record(task, fact.call_id)
    if record.state is not CallState.EXECUTING or record.run_id != fact.run_id:
        return task
    match fact.state:
        case "finished":
            return _ended_run(task, record, fact, fact.code)
        case "void":
            return _update(task, fact.call_id, "void")
        case "interrupted":
            pure = record.call.tool in BUILT_IN_CATALOG and BUILT_IN_CATALOG[record.call.tool].recovery == "pure"
            return _update(task, fact.call_id, "interrupted" if pure else "unknown", note=fact.reason)
        case "unknown":
            return _update(task, fact.call_id, "unknown", note=fact.reason)
    assert_never(fact.state)


def _answered(task: AgentTask, fact: facts.QuestionAnswered) -> AgentTask:
    asked = next((record for record in task.calls if record.question_id == fact.question_id), None)
    if asked is None:
        raise InvalidDecision(f"The present step has no question {fact.question_id!r}.")
    return _update(task, asked.call_id, "answer", ok=True, result=fact.answer)


def _update(task: AgentTask, call_id: CallId, event: CallEvent, **changes: Any) -> AgentTask:
    """The task with one call moved by the table."""
    return _moved(task, _record(task, call_id), event, **changes)


def _moved(task: AgentTask, record: CallRecord, event: CallEvent, **changes: Any) -> AgentTask:
    """The task with this call of its own moved; an allowance that nobody gave goes back to ``allowed``."""
    state = move(record.state, event)
    if state is CallState.APPROVED and record.request_id is None:
        state = CallState.ALLOWED
    moved = changed(record, state=state, **changes)
    return changed(task, calls=tuple(moved if one is record else one for one in task.calls))


def _record(task: AgentTask, call_id: CallId) -> CallRecord:
    record = task.call(call_id)
    if record is None:
        raise InvalidDecision(f"The present step has no call {call_id!r}.")
    return record


def _as_calls_say(task: AgentTask) -> AgentTask:
    if task.request is not None:
        return changed(task, phase=Phase.REVIEWING)
    states = {record.state for record in task.calls}
    if CallState.ASKING in states:
        return changed(task, phase=Phase.ANSWERING)
    if not states.isdisjoint(OPEN_STATES):
        return task
    results = tuple((record.call.tool, record.result or "") for record in task.calls)
    effects = [bool(record.ok) for record in task.calls if record.mutates]
    evidence = effects[-1] if effects else task.evidence
    turn = Turn(raw=task.reply or _NO_REPLY, results=results)
    return changed(task, phase=Phase.THINKING, turns=(*task.turns, turn), calls=(), reply=None, evidence=evidence)


_NO_REPLY: Final = BlobRef(sha256="", size=0)
"""Stands in a fold that began without its reply, which the phase table rules out."""
