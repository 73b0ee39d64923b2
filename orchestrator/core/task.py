"""A task is a fold over its items: the phase table, the state and ``evolve``.

Theory. The phase says what the task waits for; :data:`PHASE_TABLE` says which facts may happen
in which phase and where they lead. ``ACTING`` as a target means "as its calls say": a task with
an open request is reviewing, with an open question answering, with nothing left to do thinking,
else acting. An outcome closes an open bracket in every phase, ended included: facts are never
refused because the task moved on. Waiting is a phase, not a coroutine: nothing of a paused
task is in memory but this value.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, assert_never

from orchestrator.core import items as facts
from orchestrator.core.approval import OPEN_STATES, CallEvent, CallState, move
from orchestrator.core.errors import InvalidDecision
from orchestrator.core.items import (
    GENESIS_HASH,
    AgentTaskItem,
    BlobRef,
    CallId,
    Observed,
    OnReject,
    QuestionId,
    RequestId,
    TaskId,
)
from orchestrator.core.policy import BUILT_IN_CATALOG, Effect, PolicyDecision
from orchestrator.core.wire import ComputerId, RunId


class TaskStatus(StrEnum):
    """The public status of a task."""

    QUEUED = "Queued"
    RUNNING = "Running"
    PAUSED = "Paused"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"


class Phase(StrEnum):
    """What the task waits for."""

    NEW = "new"
    QUEUED = "queued"
    THINKING = "thinking"
    ASKED = "asked"
    REPLIED = "replied"
    ACTING = "acting"
    REVIEWING = "reviewing"
    ANSWERING = "answering"
    ENDED = "ended"




def _row(phase: Phase, **facts_of_phase: Phase) -> dict[str, Phase]:
    return {**facts_of_phase, "cancel_requested": phase, "task_ended": Phase.ENDED}


_WORK: Final[Mapping[str, Phase]] = dict.fromkeys(
    ("review_requested", "request_ended", "tool_started", "tool_finished", "tool_settled", "question_asked", "status_sent"),
    Phase.ACTING,
)

PHASE_TABLE: Final[Mapping[Phase, Mapping[str, Phase]]] = {
    Phase.NEW: {"task_submitted": Phase.QUEUED},
    Phase.QUEUED: _row(Phase.QUEUED, model_asked=Phase.ASKED, limit_reached=Phase.QUEUED),
    Phase.THINKING: _row(Phase.THINKING, model_asked=Phase.ASKED, limit_reached=Phase.THINKING),
    Phase.ASKED: _row(Phase.ASKED, model_asked=Phase.ASKED, model_replied=Phase.REPLIED, limit_reached=Phase.ASKED),
    Phase.REPLIED: _row(Phase.REPLIED, reply_refused=Phase.THINKING, calls_proposed=Phase.ACTING),
    Phase.ACTING: _row(Phase.ACTING, **_WORK),
    Phase.REVIEWING: _row(Phase.REVIEWING, **_WORK, decision_recorded=Phase.ACTING),
    Phase.ANSWERING: _row(Phase.ANSWERING, **_WORK, question_answered=Phase.ACTING),
    Phase.ENDED: {"tool_finished": Phase.ENDED, "tool_settled": Phase.ENDED},
}
"""Phase to fact kind to phase; a missing key is a fact that cannot happen then."""

_STATUS: Final[Mapping[Phase, TaskStatus]] = {
    Phase.NEW: TaskStatus.QUEUED,
    Phase.QUEUED: TaskStatus.QUEUED,
    Phase.REVIEWING: TaskStatus.PAUSED,
    Phase.ANSWERING: TaskStatus.PAUSED,
}


@dataclass(frozen=True)
class CallRecord:
    """One tool call of the present step and where it stands."""

    call: facts.ToolCall
    evaluation: PolicyDecision
    state: CallState
    request_id: RequestId | None = None
    """The last request it was shown in; None: it never needed a person."""
    observed: Observed | None = None
    action_digest: str | None = None
    """What the present approval is bound to."""
    runs: int = 0
    """How often it was started: the next run's id ends with one more."""
    run_id: RunId | None = None
    number: int = 0
    before: Mapping[str, str] | None = None
    question_id: QuestionId | None = None
    ok: bool | None = None
    """None while there is no outcome."""
    result: str | None = None
    """What the model is told; None while there is nothing to tell."""
    note: str = ""
    """Why the outcome is unknown, for the reviewer."""

    @property
    def call_id(self) -> CallId:
        """The call's id."""
        return self.call.call_id

    @property
    def mutates(self) -> bool:
        """Whether it changes something; a tool outside the catalog counts as if."""
        spec = BUILT_IN_CATALOG.get(self.call.tool)
        return spec is None or spec.governance.mutates

    @property
    def next_run_id(self) -> RunId:
        """The id of its next run: never used before."""
        return RunId(f"{self.call_id}.{self.runs + 1}")


@dataclass(frozen=True)
class OpenRequest:
    """The request a paused task waits for."""

    request_id: RequestId
    reason: str
    call_ids: tuple[CallId, ...]
    created_at: datetime
    expires_at: datetime | None
    policy_version: str


@dataclass(frozen=True)
class ClosedRequest:
    """A request that takes no more decisions, and why."""

    request_id: RequestId
    how: str
    """Such as ``approved by alice``."""
    actor_id: str
    decisions: tuple[facts.Decision, ...] = ()
    key: str = ""


@dataclass(frozen=True)
class Turn:
    """One finished step as the model sees it: its reply, and what came back."""

    raw: BlobRef
    results: tuple[tuple[str, str], ...] = ()
    """(tool, text) in the order of the calls."""
    refused: str | None = None
    """The reader's sentence where the reply could not be taken."""


@dataclass(frozen=True)
class AgentTask:
    """A task as its items tell it. ``version`` 0: no item yet."""

    task_id: TaskId
    version: int = 0
    head_hash: str = GENESIS_HASH
    phase: Phase = Phase.NEW
    prompt: str = ""
    user_id: str = ""
    session_id: str = ""
    computers: tuple[ComputerId, ...] = ()
    model: str = ""
    max_steps: int = 0
    """0: no limit."""
    priority: int = 0
    tag: str = ""
    on_reject: OnReject = "cancel"
    created_at: datetime | None = None
    updated_at: datetime | None = None
    steps: int = 0
    """Replies that the model gave."""
    attempt: int = 0
    """Requests to the model for the present step."""
    refusals: int = 0
    """Unreadable replies in a row."""
    reply: BlobRef | None = None
    done_reason: str = "stop"
    explanation: str = ""
    calls: tuple[CallRecord, ...] = ()
    request: OpenRequest | None = None
    closed: tuple[ClosedRequest, ...] = ()
    turns: tuple[Turn, ...] = ()
    rejections: tuple[tuple[str, str], ...] = ()
    """(call digest, reason) of what people rejected in this task."""
    cancel_reason: str | None = None
    ended: facts.TaskEnded | None = None

    @property
    def status(self) -> TaskStatus:
        """The public status."""
        if self.ended is not None:
            return TaskStatus(self.ended.status)
        return _STATUS.get(self.phase, TaskStatus.RUNNING)

    @property
    def status_reason(self) -> str:
        """Why it has this status, in a word or two; empty where that says nothing."""
        if self.ended is not None:
            return self.ended.status_reason
        reason = self.request.reason if self.request else "question" if self.phase is Phase.ANSWERING else ""
        return {"approval": "waiting for approval", "question": "waiting for an answer"}.get(reason, reason)

    @property
    def pending_tool_calls(self) -> tuple[CallRecord, ...]:
        """The calls that wait for a person's decision."""
        wanted = self.request.call_ids if self.request else ()
        return tuple(record for record in self.calls if record.call_id in wanted)

    @property
    def open_runs(self) -> tuple[CallRecord, ...]:
        """The calls that were started and have no outcome."""
        return tuple(record for record in self.calls if record.state is CallState.EXECUTING)

    def call(self, call_id: CallId) -> CallRecord | None:
        """The record of a call of the present step; None: it is not of this step."""
        return next((record for record in self.calls if record.call_id == call_id), None)


def fold(items: Iterable[AgentTaskItem], task: AgentTask | None = None) -> AgentTask:
    """The task after ``items``, from scratch or onward from ``task``. Raises InvalidDecision at an impossible one."""
    for item in items:
        task = evolve(task or AgentTask(task_id=item.task_id), item)
    if task is None:
        raise InvalidDecision("A task has at least one item.")
    return task


def preview(task: AgentTask, drafts: Sequence[facts.Draft]) -> AgentTask:
    """The task as it would be with these drafts appended; hashes are left out."""
    for draft in drafts:
        item = AgentTaskItem.model_construct(
            item_id=draft.item_id,
            task_id=task.task_id,
            version=task.version + 1,
            at=draft.at,
            actor=draft.actor,
            role="system",
            prev_hash="",
            hash="",
            fact=draft.fact,
        )
        task = evolve(task, item)
    return task


def can_follow(task: AgentTask, fact: facts.Fact) -> bool:
    """Whether a fact of this kind may happen in the task's present phase."""
    return fact.kind in PHASE_TABLE[task.phase]


def evolve(task: AgentTask, item: AgentTaskItem) -> AgentTask:
    """The task after one more item. Raises InvalidDecision when it cannot follow."""
    target = PHASE_TABLE[task.phase].get(item.fact.kind)
    if target is None or item.version != task.version + 1:
        raise InvalidDecision(f"A {item.fact.kind} of version {item.version} cannot follow in phase {task.phase.value}.")
    task = replace(task, version=item.version, head_hash=item.hash, phase=target, updated_at=item.at)
    task = _apply(task, item)
    return _as_calls_say(task) if target is Phase.ACTING else task


def _apply(task: AgentTask, item: AgentTaskItem) -> AgentTask:  # noqa: C901, PLR0911, PLR0912 - one case per kind
    fact = item.fact
    match fact:
        case facts.TaskSubmitted():
            return _submitted(task, fact, item.at)
        case facts.ModelAsked():
            return replace(task, attempt=fact.attempt)
        case facts.ModelReplied():
            return replace(task, reply=fact.raw, done_reason=fact.done_reason, steps=task.steps + 1, attempt=0)
        case facts.ReplyRefused():
            turn = Turn(raw=task.reply or _NO_REPLY, refused=fact.reason)
            return replace(task, turns=(*task.turns, turn), reply=None, refusals=task.refusals + 1)
        case facts.CallsProposed():
            return _proposed(task, fact)
        case facts.ReviewRequested():
            return _reviewing(task, fact, item.at)
        case facts.DecisionRecorded():
            return _decided(task, fact, item.actor.id)
        case facts.RequestEnded():
            return _request_ended(task, fact, item.actor.id)
        case facts.ToolStarted():
            return _started(task, fact)
        case facts.ToolFinished():
            return _finished(task, fact)
        case facts.ToolSettled():
            return _settled(task, fact)
        case facts.QuestionAsked():
            return _update(task, fact.call_id, "ask", question_id=fact.question_id)
        case facts.QuestionAnswered():
            asked = next(record for record in task.calls if record.question_id == fact.question_id)
            return _update(task, asked.call_id, "answer", ok=True, result=fact.answer)
        case facts.StatusSent():
            return _update(task, fact.call_id, "succeed", ok=True, result="Status sent.")
        case facts.CancelRequested():
            return replace(task, cancel_reason=fact.reason)
        case facts.LimitReached():
            return task
        case facts.TaskEnded():
            return replace(task, ended=fact, request=None)
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
        priority=fact.priority,
        tag=fact.tag,
        on_reject=fact.on_reject,
        created_at=at,
    )


def _proposed(task: AgentTask, fact: facts.CallsProposed) -> AgentTask:
    births = {Effect.ALLOW: CallState.ALLOWED, Effect.ASK: CallState.PROPOSED, Effect.DENY: CallState.DENIED}
    calls = tuple(
        CallRecord(
            call=call,
            evaluation=verdict,
            state=births[verdict.effect],
            ok=False if verdict.effect is Effect.DENY else None,
            result=f"Denied by policy: {verdict.reason}" if verdict.effect is Effect.DENY else None,
        )
        for call, verdict in zip(fact.calls, fact.evaluations, strict=True)
    )
    return replace(task, calls=calls, explanation=fact.explanation, refusals=0)


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
    return replace(task, request=request)


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
    return replace(task, request=request, closed=(*task.closed, done))


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
            task = replace(task, rejections=(*task.rejections, (record.call.call_digest, decision.reason)))
            return _update(task, record.call_id, "reject", ok=False, result=rejection_text(decision.reason))
        case "check":
            return _update(task, record.call_id, "check", request_id=None)
        case "mark_done" | "mark_failed":
            text = f"The outcome was unknown; {actor_id} looked and says that it was done." if (
                decision.action == "mark_done"
            ) else f"The outcome was unknown; {actor_id} looked and says that it was not done."
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
    return replace(
        task, calls=tuple(again if one.call_id == record.call_id else one for one in task.calls)
    )


def _request_ended(task: AgentTask, fact: facts.RequestEnded, actor_id: str) -> AgentTask:
    for call_id in fact.call_ids:
        ended: dict[str, Any] = {"observed": None, "action_digest": None}
        if fact.end in ("expired", "superseded"):
            ended.update(ok=False, result=f"This call did not run: {fact.reason}")
        task = _update(task, call_id, fact.end, **ended)
    if task.request is None or task.request.request_id != fact.request_id:
        return task
    done = ClosedRequest(task.request.request_id, fact.end, actor_id)
    return replace(task, request=None, closed=(*task.closed, done))


def _started(task: AgentTask, fact: facts.ToolStarted) -> AgentTask:
    record = _record(task, fact.call_id)
    return _update(
        task,
        fact.call_id,
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
    if fact.code == "stale" and record.request_id is not None:
        return _update(task, fact.call_id, "stale", observed=None, action_digest=None)
    return _update(task, fact.call_id, "succeed" if fact.ok else "fail", ok=fact.ok, result=fact.text)


def _settled(task: AgentTask, fact: facts.ToolSettled) -> AgentTask:
    record = _record(task, fact.call_id)
    if record.state is not CallState.EXECUTING or record.run_id != fact.run_id:
        return task
    match fact.state:
        case "finished":
            return _update(task, fact.call_id, "succeed" if fact.ok else "fail", ok=fact.ok, result=fact.text)
        case "void":
            return _update(task, fact.call_id, "void")
        case "interrupted":
            pure = record.call.tool in BUILT_IN_CATALOG and BUILT_IN_CATALOG[record.call.tool].recovery == "pure"
            return _update(task, fact.call_id, "interrupted" if pure else "unknown", note=fact.reason)
        case "unknown":
            return _update(task, fact.call_id, "unknown", note=fact.reason)
    assert_never(fact.state)


def _update(task: AgentTask, call_id: CallId, event: CallEvent, **changes: Any) -> AgentTask:
    """The task with one call moved by the table; an allowance that nobody gave goes back to ``allowed``."""
    record = _record(task, call_id)
    state = move(record.state, event)
    if state is CallState.APPROVED and record.request_id is None:
        state = CallState.ALLOWED
    moved = replace(record, state=state, **changes)
    return replace(task, calls=tuple(moved if one.call_id == call_id else one for one in task.calls))


def _record(task: AgentTask, call_id: CallId) -> CallRecord:
    record = task.call(call_id)
    if record is None:
        raise InvalidDecision(f"The present step has no call {call_id!r}.")
    return record


def _as_calls_say(task: AgentTask) -> AgentTask:
    if task.request is not None:
        return replace(task, phase=Phase.REVIEWING)
    if any(record.state is CallState.ASKING for record in task.calls):
        return replace(task, phase=Phase.ANSWERING)
    if any(record.state in OPEN_STATES for record in task.calls):
        return task
    results = tuple((record.call.tool, record.result or "") for record in task.calls)
    turn = Turn(raw=task.reply or _NO_REPLY, results=results)
    return replace(task, phase=Phase.THINKING, turns=(*task.turns, turn), calls=(), reply=None)


_NO_REPLY: Final = BlobRef(sha256="", size=0)
"""Stands in a fold that began without its reply, which the phase table rules out."""
