"""How a task becomes what it is: ``evolve`` by one item, ``fold`` over many; pure, by the tables."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, assert_never

from orchestrator.core.errors import InvalidDecision
from orchestrator.core.evidence import evidence_fold
from orchestrator.core.evidence.checks import Checking, calls_of_failing
from orchestrator.core.evidence.report import finding
from orchestrator.core.model_view.rows import step_call
from orchestrator.core.policy import BUILT_IN_CATALOG, Effect
from orchestrator.core.task import facts, repeats, rounds
from orchestrator.core.task.facts import BlobRef
from orchestrator.core.task.fold_review import (
    call_record,
    decided,
    move_call,
    noted,
    request_ended,
    reviewing,
    told,
    update_call,
)
from orchestrator.core.task.items import Actor, AgentTaskItem, Draft
from orchestrator.core.task.states import OPEN_STATES, PHASE_TABLE, CallEvent, CallState, Phase
from orchestrator.core.task.task import AgentTask, CallRecord, Turn
from orchestrator.core.values import changed


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
        task = _evolved(task, draft.fact, draft.at, draft.actor)
    return task


_BEGINNINGS: Final = frozenset(
    {
        *("work_failed", "model_asked", "model_awaited", "tool_started", "review_noted", "limit_reached"),
        *("cancel_requested", "task_pinned", "task_unpinned", "work_frozen"),
    }
)
"""The items after which a task has got no further: its failures in a row are counted on."""
_STILL_FROZEN: Final = frozenset({"task_pinned", "task_unpinned"})
"""The items that come to a frozen task from outside: any other is made by an actor that goes on."""
_UNKNOWN: Final = frozenset({CallState.EXECUTING, CallState.OUTCOME_UNKNOWN})
"""Calls that had begun, and of which nobody knows yet what they did."""
_BYTES_A_TOKEN: Final = 2
"""A token of JSON and Lua has three or four, so this estimates too many tokens."""


def with_findings(task: AgentTask, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts, each end of the task with what the journal shows of it by then."""
    found = []
    for draft in drafts:
        if isinstance(draft.fact, facts.TaskEnded) and draft.fact.finding is None:
            over = [record for record in task.calls if record.state not in OPEN_STATES]
            with_calls = evidence_fold.checked if task.checking.step else evidence_fold.after
            shown = finding(
                with_calls(task.evidence, over),
                task.checks,
                unknown=[one.call for one in task.calls if one.mutates and one.state in _UNKNOWN],
                several=len(task.computers) > 1,
            )
            found.append(draft._replace(fact=draft.fact.model_copy(update={"finding": shown})))
        else:
            found.append(draft)
        task = preview(task, found[-1:])
    return found


def sealed(task: AgentTask, items: Sequence[AgentTaskItem]) -> AgentTask:
    """A preview whose drafts are ``items`` now: with the hash, and with the numbers of the runs that were started."""
    numbers = {item.fact.run_id: item.fact.number for item in items if isinstance(item.fact, facts.ToolStarted)}
    calls = task.calls
    if numbers:
        calls = tuple(changed(one, number=numbers[one.run_id]) if one.run_id in numbers else one for one in calls)
    return changed(task, head_hash=items[-1].hash, calls=calls)


def can_follow(task: AgentTask, fact: facts.Fact) -> bool:
    """Whether a fact of this kind may happen in the task's present phase."""
    return _leads_to(task, fact) is not None


def evolve(task: AgentTask, item: AgentTaskItem) -> AgentTask:
    """The task after one more item. Raises InvalidDecision when it cannot follow."""
    if item.version != task.version + 1:
        raise _impossible(task, item.fact, item.version)
    return changed(_evolved(task, item.fact, item.at, item.actor), head_hash=item.hash)


def _evolved(task: AgentTask, fact: facts.Fact, at: datetime, actor: Actor) -> AgentTask:
    """The task after one more fact, except for the hash that only a sealed item has."""
    target = _leads_to(task, fact)
    version = task.version + 1
    if target is None:
        raise _impossible(task, fact, version)
    active_s, waited_s = task.active_until(at), task.waited_until(at)
    frozen = task.frozen and fact.kind in _STILL_FROZEN
    task = changed(
        task, version=version, phase=target, updated_at=at, active_s=active_s, waited_s=waited_s, frozen=frozen
    )
    # The table has no facts of the system, and a look at each of their classes would cost more than the rest here.
    task = _apply(task, fact, at, actor)  # type: ignore[arg-type]
    if task.failures and fact.kind not in _BEGINNINGS:
        task = changed(task, failures=())
    return _as_calls_say(task) if target is Phase.ACTING else task


def _leads_to(task: AgentTask, fact: facts.Fact) -> Phase | None:
    """The phase after a fact; None: it cannot happen now."""
    if fact.kind == "calls_proposed" and task.reply is None and task.restores is None:
        # Only what puts files back proposes calls without a reply.
        return None
    return PHASE_TABLE[task.phase].get(fact.kind)


def _impossible(task: AgentTask, fact: facts.Fact, version: int) -> InvalidDecision:
    return InvalidDecision(f"A {fact.kind} of version {version} cannot follow in phase {task.phase.value}.")


def _apply(  # noqa: C901, PLR0911, PLR0912 - one case per kind, those of each step first
    task: AgentTask, fact: facts.TaskFact, at: datetime, actor: Actor
) -> AgentTask:
    match fact:
        case facts.ModelAsked():
            return changed(task, attempt=fact.attempt, prompt_tokens=fact.prompt_tokens)
        case facts.ModelReplied():
            return _replied(task, fact)
        case facts.CallsProposed():
            return _proposed(task, fact)
        case facts.ToolStarted():
            return _started(task, fact)
        case facts.ToolFinished():
            return _finished(task, fact)
        case facts.TaskSubmitted():
            return _submitted(task, fact, at, actor)
        case facts.ChecksBegun():
            return changed(task, checking=changed(task.checking, found=fact.found))
        case facts.ChecksJudged():
            return changed(task, checking=changed(task.checking, results=fact.results, judged=True, moved=False))
        case facts.ModelAwaited():
            return changed(task, awaited=fact, awaited_at=at, waits=task.waits + 1, excused=task.attempt)
        case facts.ReplyRefused():
            return _refused(task, fact)
        case facts.ReviewRequested():
            return reviewing(task, fact, at)
        case facts.DecisionRecorded():
            return decided(task, fact, actor.id)
        case facts.RequestEnded():
            return request_ended(task, fact, actor.id)
        case facts.ReviewNoted():
            return noted(task, fact, actor.id)
        case facts.ToolSettled():
            return _settled(task, fact)
        case facts.QuestionAsked():
            return update_call(task, fact.call_id, "ask", question_id=fact.question_id)
        case facts.QuestionAnswered():
            return _answered(task, fact)
        case facts.StatusSent():
            text = told(call_record(task, fact.call_id), "Status sent.")
            return update_call(task, fact.call_id, "succeed", ok=True, result=text)
        case facts.CancelRequested():
            return changed(task, cancel_reason=fact.reason)
        case facts.LimitReached():
            return task
        case facts.WorkFailed():
            return changed(task, failures=(*(one for one in task.failures if one.because != fact.because), fact))
        case facts.WorkFrozen():
            # A request to the model that the freeze cut off is not a failed one.
            return changed(task, frozen=True, excused=task.attempt)
        case facts.TaskEnded():
            return changed(task, ended=fact, request=None, lapsed=None)
        case facts.UndoSubmitted():
            begun = task.undo_begun or actor.kind == "system"
            return changed(task, undone_by=(*task.undone_by, fact.undo_task_id), undo_begun=begun)
        case facts.TaskPinned() | facts.TaskUnpinned():
            return changed(task, pinned=isinstance(fact, facts.TaskPinned))
        case facts.RehearsalEnded():
            return changed(task, rehearsed=fact)
    assert_never(fact)


def _submitted(task: AgentTask, fact: facts.TaskSubmitted, at: datetime, actor: Actor) -> AgentTask:
    return changed(
        task,
        prompt=fact.prompt,
        user_id=fact.user_id,
        by_program=fact.for_program or actor.kind == "agent",
        owner=fact.owner,
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
        roles=fact.roles,
        asked_at=actor.at_computer,
        read_only=fact.read_only,
        wait_for_model=fact.wait_for_model,
        restores=fact.restores,
        rehearses=fact.rehearses,
        checking=Checking(wanted=fact.checks),
        created_at=at,
    )


def uncounted(prompt: int, reply_bytes: int, *, counted_in: int, counted_out: int) -> int:
    """The tokens of a request that its server did not count, estimated; ``prompt`` 0: nobody asked for that."""
    if not prompt:
        return 0
    unheard = reply_bytes // _BYTES_A_TOKEN + 1 if not counted_out and reply_bytes else 0
    return unheard + (0 if counted_in else prompt)


def _replied(task: AgentTask, fact: facts.ModelReplied) -> AgentTask:
    counted_in, counted_out = fact.usage.input_tokens, fact.usage.output_tokens
    unheard = uncounted(task.prompt_tokens, fact.raw.size, counted_in=counted_in, counted_out=counted_out)
    return changed(
        task,
        reply=fact.raw,
        done_reason=fact.done_reason,
        steps=task.steps + 1,
        attempt=0,
        awaited=None,
        awaited_at=None,
        waits=0,
        waited_s=0.0,
        excused=0,
        tokens=task.tokens + counted_in + counted_out,
        uncounted=task.uncounted + unheard,
        input_tokens=counted_in,
        checking=changed(task.checking, made=(), judged=False),
    )


def _refused(task: AgentTask, fact: facts.ReplyRefused) -> AgentTask:
    unproven = fact.because == "unproven"
    # A claim that was refused for its checks was not doubted.
    failing, several = calls_of_failing(task.checking) if task.checking.fails else (), len(task.computers) > 1
    turn = Turn(
        raw=task.reply or _NO_REPLY,
        calls=tuple(step_call(one, several=several) for one in failing if isinstance(one, CallRecord)),
        refused=fact.reason,
        unproven=unproven,
        input_tokens=task.input_tokens,
    )
    return changed(
        task,
        turns=(*task.turns, turn),
        reply=None,
        # It could be read, so the next one that cannot is the first again.
        refusals=0 if unproven else task.refusals + 1,
        doubted=task.doubted or (unproven and not task.checking.fails),
    )


_BIRTHS: Final = {
    Effect.ALLOW: CallState.ALLOWED,
    Effect.ASK: CallState.PROPOSED,
    Effect.HINT: CallState.PROPOSED,
    Effect.DENY: CallState.DENIED,
}


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
    return changed(
        task,
        calls=calls,
        explanation=fact.explanation,
        # Without a reply to count, a plan is a step.
        steps=task.steps + (task.reply is None),
        refusals=0,
        siblings=fact.siblings,
        partial=fact.partial,
        checking=changed(task.checking, step=fact.checks),
    )


def _started(task: AgentTask, fact: facts.ToolStarted) -> AgentTask:
    record = call_record(task, fact.call_id)
    hints = task.hints.after_changing(record.call.computer) if record.mutates else task.hints
    task = changed(task, checking=task.checking.begun(record), hints=hints)
    return move_call(
        task,
        record,
        "start",
        runs=record.runs + 1,
        run_id=fact.run_id,
        number=fact.number,
        before=fact.before,
        watched=fact.watched,
        lines=fact.lines,
        directories=fact.directories,
        only_comments=fact.only_comments,
        action_digest=fact.action_digest,
        grant_id=fact.grant_id or record.grant_id,
    )


def _finished(task: AgentTask, fact: facts.ToolFinished) -> AgentTask:
    record = call_record(task, fact.call_id)
    if record.state is not CallState.EXECUTING or record.run_id != fact.run_id:
        return task
    return _ended_run(task, record, fact, fact.code)


def _ended_run(
    task: AgentTask, record: CallRecord, fact: facts.ToolFinished | facts.ToolSettled, code: str | None
) -> AgentTask:
    """A run that ended, heard at once or at settling; a target that changed after the approval is shown again."""
    if code == "stale" and (record.request_id is not None or record.grant_id is not None):
        return move_call(task, record, "stale", observed=None, action_digest=None, grant_id=None)
    # A difference at a later look may be anybody's.
    heard = fact.watched if isinstance(fact, facts.ToolFinished) else None
    changed_files = () if heard is None else heard.changed
    event: CallEvent = "succeed" if fact.ok else "fail"
    return move_call(
        task,
        record,
        event,
        ok=fact.ok,
        result=told(record, fact.text),
        changed=changed_files,
        after=fact.after,
        code=None if fact.ok else code,
        ran=fact.ran,
        item=task.version,
    )


def _settled(task: AgentTask, fact: facts.ToolSettled) -> AgentTask:
    record = call_record(task, fact.call_id)
    if record.state is not CallState.EXECUTING or record.run_id != fact.run_id:
        return task
    match fact.state:
        case "finished":
            return _ended_run(task, record, fact, fact.code)
        case "void":
            return update_call(task, fact.call_id, "void")
        case "interrupted":
            pure = record.call.tool in BUILT_IN_CATALOG and BUILT_IN_CATALOG[record.call.tool].recovery == "pure"
            event: CallEvent = "interrupted" if pure else "unknown"
        case "unknown":
            event = "unknown"
        case _:
            assert_never(fact.state)
    task = changed(task, checking=task.checking.in_doubt(record))
    return update_call(task, fact.call_id, event, note=fact.reason)


def _answered(task: AgentTask, fact: facts.QuestionAnswered) -> AgentTask:
    asked = next((record for record in task.calls if record.question_id == fact.question_id), None)
    if asked is None:
        raise InvalidDecision(f"The present step has no question {fact.question_id!r}.")
    return update_call(task, asked.call_id, "answer", ok=True, result=told(asked, fact.answer))


def _as_calls_say(task: AgentTask) -> AgentTask:
    states = {record.state for record in task.calls}
    over = states.isdisjoint(OPEN_STATES)
    if not over and (task.request is not None or task.lapsed is not None):
        return changed(task, phase=Phase.REVIEWING)
    if CallState.ASKING in states:
        return changed(task, phase=Phase.ANSWERING)
    if not over:
        return task
    if task.checking.step:
        # The claim that they check waits for its verdict.
        return changed(
            task,
            phase=Phase.REPLIED,
            calls=(),
            evidence=evidence_fold.checked(task.evidence, task.calls),
            checking=task.checking.after(task.calls),
            lapsed=None,
        )
    several = len(task.computers) > 1
    digests = tuple(record.call.call_digest for record in task.calls)
    repeated = repeats.after(task.repeats, task.calls)
    gone_round = rounds.after(task.rounds, task.calls)
    turn = Turn(
        raw=task.reply or _NO_REPLY,
        calls=tuple(step_call(record, several=several) for record in task.calls),
        digests=digests,
        repeats=repeats.times(repeated, digests),
        warning=rounds.warning(gone_round),
        input_tokens=task.input_tokens,
    )
    return changed(
        task,
        phase=Phase.THINKING,
        turns=(*task.turns, turn),
        calls=(),
        reply=None,
        evidence=evidence_fold.after(task.evidence, task.calls),
        checking=task.checking.after(task.calls),
        repeats=repeated,
        rounds=gone_round,
        lapsed=None,
    )


_NO_REPLY: Final = BlobRef(sha256="", size=0)
"""Stands in a fold that began without its reply, which the phase table rules out."""
