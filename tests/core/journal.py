"""Histories for the tests of the core: a journal in memory that seals and folds as a store does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.core.approval.workflow import Workflow, with_quorum
from orchestrator.core.policy import (
    Effect,
    PathCheck,
    PolicyDecision,
    Quotas,
    RequestRules,
    RiskLevel,
    SecretsToModel,
    Undo,
)
from orchestrator.core.task import facts
from orchestrator.core.task.facts import BlobRef, CallId, Fact, Observed, QuestionId, RequestId, TaskId, ToolCall
from orchestrator.core.task.fold import fold
from orchestrator.core.task.items import GENESIS_HASH, SYSTEM, Actor, AgentTaskItem, Draft, ItemId, seal
from orchestrator.core.task.task import AgentTask, CallRecord
from orchestrator.core.wire.wire import ComputerId, RunId

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TASK = TaskId("t1")
REQUEST = RequestId("q1")


def verdict(effect: str = "ask", risk: RiskLevel = RiskLevel.MEDIUM, reason: str = "a rule says so") -> PolicyDecision:
    """What the policy said of a call."""
    return PolicyDecision(
        effect=Effect(effect),
        risk=risk,
        matched_rules=("rule",),
        reason=reason,
        policy_version="v1",
        rules_digest="f" * 64,
    )


def call(call_id: str, tool: str = "cc_write", *, index: int = 0, computer: str | None = "3", **args: Any) -> ToolCall:
    """A call as the model made it."""
    return ToolCall(
        call_id=CallId(call_id),
        index=index,
        tool=tool,
        args=args,
        computer=None if computer is None else ComputerId(computer),
        call_digest=f"call-{call_id}",
    )


def digest_of(call_id: str) -> str:
    """The action digest that this file's requests show for a call."""
    return f"action-{call_id}"


def person(name: str) -> Actor:
    """Somebody with a token."""
    return Actor(kind="person", id=name, auth="token")


def decision(call_id: str, action: facts.DecisionAction = "approve", **rest: Any) -> facts.Decision:
    """One decision, bound to what the request showed."""
    return facts.Decision(call_id=CallId(call_id), action=action, action_digest=digest_of(call_id), **rest)


def requested(call_id: str, effect: str = "ask") -> facts.RequestedCall:
    """One call as a request shows it."""
    return facts.RequestedCall(
        call_id=CallId(call_id),
        observed=Observed(state={"farm": "absent"}),
        evaluation=verdict(effect),
        action_digest=digest_of(call_id),
    )


def _as_it_was(task: AgentTask, call: ToolCall) -> PolicyDecision:
    return verdict()


@dataclass(frozen=True)
class StubLaw:
    """A policy in force that says what a test wants it to; without that it asks, as the requests of this file do."""

    rules: RequestRules = field(default_factory=RequestRules)
    says: Callable[[AgentTask, ToolCall], PolicyDecision] = _as_it_was
    version: str = "v1"
    undo: Undo = "offer"
    asked: list[tuple[ToolCall, str | None]] = field(default_factory=list)
    """The calls that it judged, each with the program that it was told of."""

    @property
    def quotas(self) -> Quotas:
        return Quotas()

    @property
    def watch(self) -> tuple[str, ...]:
        return ()

    @property
    def checks(self) -> tuple[PathCheck, ...]:
        return ()

    @property
    def secrets_to_model(self) -> SecretsToModel | None:
        return None

    def run_timeout_s(self, computer: ComputerId) -> int | None:
        """No limit of its own."""
        del computer
        return None

    def summary(self, task: AgentTask) -> str:
        """Its words for the model."""
        return f"Policy {self.version} of {task.task_id}."

    def workflow(self, task: AgentTask, calls: Sequence[tuple[ToolCall, facts.RequestedCall]]) -> Workflow:
        """As its rules say."""
        del task, calls
        return with_quorum((), self.rules.approvals)

    def judge(self, task: AgentTask, call: ToolCall, program: str | None = None) -> PolicyDecision:
        """Its verdict on a call."""
        self.asked.append((call, program))
        return self.says(task, call)


class Journal:
    """One task's items and what they fold to; each step has a method, ``add`` takes any fact."""

    def __init__(self) -> None:
        self.items: list[AgentTaskItem] = []
        self.task = AgentTask(task_id=TASK)

    def add(self, *new: Fact, by: Actor = SYSTEM) -> AgentTask:
        """Seal and fold each fact."""
        for fact in new:
            item = self.sealed(fact, by)
            self.task = fold([item], self.task)
            self.items.append(item)
        return self.task

    def sealed(self, fact: Fact, by: Actor = SYSTEM) -> AgentTaskItem:
        """The fact as the next item, not appended."""
        version = len(self.items) + 1
        draft = Draft(item_id=ItemId(f"i{version}"), at=NOW + timedelta(seconds=version), actor=by, fact=fact)
        head = self.items[-1].hash if self.items else GENESIS_HASH
        return seal(draft, task_id=TASK, version=version, prev_hash=head)

    def submitted(self, **changes: Any) -> AgentTask:
        """The task comes in; ``by``: whom from."""
        by = changes.pop("by", SYSTEM)
        fields: dict[str, Any] = {
            "prompt": "fix my farm",
            "user_id": "alice",
            "session_id": "s1",
            "computers": (ComputerId("3"),),
            "model": "scripted",
            "max_steps": 20,
            "tag": "maple",
        }
        return self.add(facts.TaskSubmitted(**{**fields, **changes}), by=by)

    def asked(self, attempt: int = 1) -> AgentTask:
        """The model is asked."""
        return self.add(
            facts.ModelAsked(attempt=attempt, prompt_version="p1", policy_version="v1", view_digest="a" * 64)
        )

    def awaited(self, server: str = "http://127.0.0.1:11434") -> AgentTask:
        """The model server cannot be reached."""
        return self.add(facts.ModelAwaited(server=server, why="It is not running.", until=None))

    def replied(self, sha256: str = "b" * 64, done_reason: str = "stop") -> AgentTask:
        """The model replies."""
        return self.add(facts.ModelReplied(raw=BlobRef(sha256=sha256, size=2), done_reason=done_reason))

    def proposed(
        self, calls: Sequence[ToolCall], *effects: str, explanation: str = "I look first.", **rest: Any
    ) -> AgentTask:
        """From asking to a proposal; ``effects`` is what the policy says of each call."""
        if self.task.version == 0:
            self.submitted()
        self.asked()
        self.replied()
        judged = tuple(verdict(effect) for effect in effects)
        return self.add(facts.CallsProposed(explanation=explanation, calls=tuple(calls), evaluations=judged, **rest))

    def reviewed(self, *call_ids: str, request_id: str = REQUEST, reason: Any = "approval", **rest: Any) -> AgentTask:
        """A person is asked."""
        return self.add(
            facts.ReviewRequested(
                request_id=RequestId(request_id),
                reason=reason,
                calls=tuple(requested(call_id) for call_id in call_ids),
                risk=RiskLevel.MEDIUM,
                policy_version="v1",
                **rest,
            )
        )

    def decided(
        self, *decisions: facts.Decision, by: str = "alice", key: str = "", of: str = REQUEST, **rest: Any
    ) -> AgentTask:
        """A person decides."""
        fact = facts.DecisionRecorded(request_id=RequestId(of), decisions=decisions, key=key, **rest)
        return self.add(fact, by=person(by))

    def request_ended(
        self, end: Any, *call_ids: str, of: str | None = REQUEST, reason: str = "so it is", **rest: Any
    ) -> AgentTask:
        """A request, or an allowance, ends without a decision."""
        ids = tuple(CallId(one) for one in call_ids)
        request_id = None if of is None else RequestId(of)
        return self.add(facts.RequestEnded(request_id=request_id, end=end, call_ids=ids, reason=reason, **rest))

    def noted(self, what: Any, *call_ids: str, of: str | None = REQUEST, by: Actor = SYSTEM, **rest: Any) -> AgentTask:
        """Something happens around a request."""
        request_id = None if of is None else RequestId(of)
        calls = tuple(requested(one) for one in call_ids)
        return self.add(facts.ReviewNoted(what=what, request_id=request_id, calls=calls, **rest), by=by)

    def started(self, call_id: str, **changes: Any) -> AgentTask:
        """The call's next run opens."""
        return self.add(start_of(self.record(call_id)).model_copy(update=changes))

    def finished(
        self, call_id: str, *, ok: bool = True, text: str = "done", code: str | None = None, **more: Any
    ) -> AgentTask:
        """The call's present run ends."""
        run_id = self.record(call_id).run_id or RunId("none")
        return self.add(facts.ToolFinished(call_id=CallId(call_id), run_id=run_id, ok=ok, code=code, text=text, **more))

    def settled(self, call_id: str, state: Any, **rest: Any) -> AgentTask:
        """Somebody says what became of the call's present run."""
        run_id = self.record(call_id).run_id or RunId("none")
        return self.add(facts.ToolSettled(call_id=CallId(call_id), run_id=run_id, state=state, **rest))

    def question(self, call_id: str, question_id: str = "u1") -> AgentTask:
        """The model's question is put to a person."""
        return self.add(
            facts.QuestionAsked(question_id=QuestionId(question_id), call_id=CallId(call_id), question="Which farm?")
        )

    def answered(self, question_id: str = "u1", answer: str = "the wheat") -> AgentTask:
        """A person answers."""
        return self.add(facts.QuestionAnswered(question_id=QuestionId(question_id), answer=answer))

    def ended(self, status: Any = "Canceled", status_reason: str = "canceled", **rest: Any) -> AgentTask:
        """The task is over."""
        return self.add(facts.TaskEnded(status=status, status_reason=status_reason, **rest))

    def record(self, call_id: str) -> CallRecord:
        """A call of the present step."""
        record = self.task.call(CallId(call_id))
        assert record is not None, f"no call {call_id} in this step"
        return record


def start_of(record: CallRecord, number: int = 7) -> facts.ToolStarted:
    """The opening bracket of a call's next run."""
    return facts.ToolStarted(
        call_id=record.call_id,
        run_id=record.next_run_id,
        computer=record.call.computer,
        number=number,
        action_digest=record.action_digest or digest_of(record.call_id),
        before={"farm": "absent"},
    )
