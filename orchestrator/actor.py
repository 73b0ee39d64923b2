"""The actor of one task: fold, ask what to do, do it, append what happened; until it waits or is over.

Intents are appended only at the version they were decided on; outcomes are facts and are
appended again after a conflict, with the same item id. A wait is never held in memory: the
actor gives its lease back and the next wake, here or after a restart, carries on.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from orchestrator.core import effects as todo
from orchestrator.core import facts
from orchestrator.core.approval import CallState, action_digest, call_digest
from orchestrator.core.effects import next_effects
from orchestrator.core.errors import (
    CallLost,
    CallVoid,
    ComputerAway,
    ComputerFailed,
    Conflict,
    ModelFailed,
    OrchestratorError,
    ReplyRefused,
    ToolFailed,
)
from orchestrator.core.facts import CallId, Fact, Observed, QuestionId
from orchestrator.core.fold import can_follow, fold, preview
from orchestrator.core.items import SYSTEM, Actor, Draft
from orchestrator.core.policy import BUILT_IN_CATALOG, Effect, FunctionCall, Policy, PolicyDecision, evaluate, severity
from orchestrator.core.response import FinalResult, RequestedTool, ToolRequest, read_reply
from orchestrator.core.task import AgentTask, CallRecord
from orchestrator.core.view import PROMPT_VERSION, view, view_digest
from orchestrator.core.wire import ComputerId, RunId, sha256_hex
from orchestrator.ports import ChatMessage, ChatModel, Lease, Schedule
from orchestrator.tasks import TaskService, new_call_id, new_request_id
from orchestrator.world import World

logger = logging.getLogger(__name__)

MAX_REFUSALS = 3
"""Unreadable replies in a row that end a task: the third says the model cannot, not that it slipped."""
MAX_MODEL_ATTEMPTS = 3
"""Requests to the model for one step before the task fails."""
MAX_VOIDS = 5
"""Runs of one call that the computer refused before its result is told as a failure."""

AGENT = Actor(kind="agent", id="model")


@dataclass(frozen=True)
class Wait:
    """The actor cannot go on now: sleep until woken, or until ``seconds`` have passed."""

    computer: ComputerId | None = None
    seconds: float | None = None


@dataclass
class TaskActor:
    """Acts for one leased task."""

    lease: Lease
    service: TaskService
    world: World
    model: ChatModel
    policy: Callable[[], Policy]
    """The policy in force at the moment it is asked."""
    task: AgentTask
    texts: dict[str, str] = field(default_factory=dict)
    """Replies by sha256, for the model's view."""
    mine: set[RunId] = field(default_factory=set)
    _appending: asyncio.Lock = field(default_factory=asyncio.Lock)
    _claimed: bool = False

    async def run(self) -> AgentTask:
        """Act until the task waits or is over; the lease is given back. Raises LeaseLost."""
        while True:
            try:
                waits = await self._once()
                if waits is None:
                    continue
                await self._sleep(waits)
            except Conflict:
                await self._refold()
            else:
                return self.task

    async def _once(self) -> Wait | None:
        """Perform what is to do now; None: there is more to do."""
        effects = next_effects(self.task, self.mine)
        first = effects[0]
        if isinstance(first, todo.Rest | todo.AwaitReview | todo.AwaitAnswer | todo.AwaitRuns):
            return Wait()
        blocked = await self._claim()
        if blocked is not None:
            return Wait(computer=blocked)
        outcomes = await asyncio.gather(*(self._perform(effect) for effect in effects), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        if not self.task.calls:
            await self._unclaim()
        waits = [outcome for outcome in outcomes if isinstance(outcome, Wait)]
        return waits[0] if len(waits) == len(outcomes) else None

    async def _perform(self, effect: todo.Effect) -> Wait | None:
        try:
            match effect:
                case todo.AskModel():
                    return await self._ask_model(effect)
                case todo.RunTool():
                    return await self._run_tool(effect)
                case todo.EvaluatePolicy():
                    await self._evaluate(effect)
                case todo.Observe():
                    await self._observe(effect)
                case todo.Settle():
                    await self._settle(effect)
            return None
        except (ComputerAway, CallLost) as away:
            logger.info("task %s waits: %s", self.task.task_id, away)
            touched = self._record(effect.call_id).call.computer if isinstance(effect, todo.RunTool) else None
            if isinstance(effect, todo.Settle):
                touched = effect.computer
            elif isinstance(effect, todo.Observe):
                touched = next((self._record(one).call.computer for one in effect.call_ids), None)
            return Wait(computer=touched)

    # -- the model -----------------------------------------------------------------------

    async def _ask_model(self, effect: todo.AskModel) -> Wait | None:
        task = self.task
        if task.max_steps and task.steps >= task.max_steps:
            await self._fail("max_steps", f"The limit of {task.max_steps} steps was reached.")
            return None
        if task.refusals >= MAX_REFUSALS:
            await self._fail("model_output", f"{task.refusals} replies in a row could not be read.")
            return None
        messages = view(task, await self._texts(task))
        asked = facts.ModelAsked(
            attempt=effect.attempt,
            prompt_version=PROMPT_VERSION,
            policy_version=self.policy().version,
            view_digest=view_digest(messages),
        )
        await self._intend(asked)
        try:
            reply = await self.model.reply([ChatMessage(role, content) for role, content in messages])
        except ModelFailed as error:
            if effect.attempt >= MAX_MODEL_ATTEMPTS:
                await self._fail("model_failed", str(error))
                return None
            logger.warning("task %s: %s", task.task_id, error)
            return Wait(seconds=2.0**effect.attempt)
        content = reply.text.encode("utf-8", "replace")
        raw = facts.BlobRef(sha256=sha256_hex(content), size=len(content))
        replied = facts.ModelReplied(raw=raw, done_reason=reply.done_reason, usage=reply.usage)
        await self._record_fact(replied, AGENT, blobs=(content,))
        return None

    async def _texts(self, task: AgentTask) -> Mapping[str, str]:
        for turn in task.turns:
            if turn.raw.sha256 not in self.texts:
                blob = await self.service.store.get_blob(turn.raw.sha256)
                self.texts[turn.raw.sha256] = blob.decode()
        return self.texts

    async def _fail(self, limit: facts.Limit, detail: str) -> None:
        ended = facts.TaskEnded(status="Failed", status_reason=limit, message=detail)
        await self._intend(facts.LimitReached(limit=limit, detail=detail), ended)

    # -- the reply -----------------------------------------------------------------------

    async def _evaluate(self, effect: todo.EvaluatePolicy) -> None:
        text = (await self.service.store.get_blob(effect.reply.sha256)).decode()
        self.texts[effect.reply.sha256] = text
        try:
            reply = read_reply(text, finish_reason=self.task.done_reason)
            if isinstance(reply, FinalResult):
                await self._intend(_ended(reply))
                return
            calls = tuple(self._call(index, wanted) for index, wanted in enumerate(reply.calls))
        except ReplyRefused as refused:
            await self._intend(facts.ReplyRefused(reason=refused.message))
            return
        await self._propose(reply, calls)

    async def _propose(self, reply: ToolRequest, calls: tuple[facts.ToolCall, ...]) -> None:
        seen: set[str] = set()
        evaluations: list[PolicyDecision] = []
        for call in calls:
            evaluations.append(self._judge(call, repeated=call.call_digest in seen))
            seen.add(call.call_digest)
        proposed = facts.CallsProposed(explanation=reply.explanation, calls=calls, evaluations=tuple(evaluations))
        await self._intend(proposed, actor=AGENT)

    def _call(self, index: int, wanted: RequestedTool) -> facts.ToolCall:
        spec = BUILT_IN_CATALOG[wanted.tool]
        args = dict(wanted.args)
        named = args.pop("computer", None)
        computer = self._target(wanted.tool, named) if spec.plugin == "cc" else None
        digest = call_digest(tool=wanted.tool, tool_version=spec.version, args=args, computer=computer)
        return facts.ToolCall(
            call_id=new_call_id(), index=index, tool=wanted.tool, args=args, computer=computer, call_digest=digest
        )

    def _target(self, tool: str, named: str | None) -> ComputerId:
        computers = self.task.computers
        if not computers:
            raise ReplyRefused(f"This task has no computer, so {tool} cannot be used.")
        if named is None and len(computers) == 1:
            return computers[0]
        if named in computers:
            return ComputerId(named)
        raise ReplyRefused(f"Name the computer of {tool}: one of {', '.join(computers)}.")

    def _judge(self, call: facts.ToolCall, *, repeated: bool = False, program: str | None = None) -> PolicyDecision:
        context = self.world.context(call.computer).model_copy(update={"program": program})
        verdict = evaluate(FunctionCall(tool=call.tool, args=call.args), policy=self.policy(), context=context)
        rejected = next((why for digest, why in self.task.rejections if digest == call.call_digest), None)
        if rejected is not None:
            reason = "A person rejected this very call before; it is not asked again."
        elif repeated:
            reason = "The same call stands twice in one reply; the first one counts."
        else:
            return verdict
        return verdict.model_copy(update={"effect": Effect.DENY, "reason": reason})

    # -- looking and asking --------------------------------------------------------------

    async def _observe(self, effect: todo.Observe) -> None:
        shown: list[facts.RequestedCall] = []
        for call_id in effect.call_ids:
            record = self._record(call_id)
            observed = await self._look(record, effect.reason)
            verdict = _stricter(record.evaluation, self._judge(record.call, program=observed.program))
            if verdict.effect is Effect.DENY and effect.reason == "approval":
                await self._supersede(record, verdict)
                return
            shown.append(
                facts.RequestedCall(
                    call_id=call_id,
                    observed=observed,
                    evaluation=verdict,
                    action_digest=self._digest(record, observed, verdict),
                )
            )
        risk = max((one.evaluation.risk for one in shown), key=severity)
        await self._intend(
            facts.ReviewRequested(
                request_id=new_request_id(),
                reason="outcome_unknown" if effect.reason == "outcome_unknown" else "approval",
                calls=tuple(shown),
                risk=risk,
                policy_version=self.policy().version,
            )
        )

    async def _look(self, record: CallRecord, reason: str) -> Observed:
        try:
            observed = await self.world.observe(record)
        except (ToolFailed, ComputerFailed) as error:
            observed = Observed(state={}, note=f"It could not be looked at: {error}")
        if reason == "outcome_unknown":
            note = f"{record.note} Whether it was done is not known. {observed.note}".strip()
            observed = observed.model_copy(update={"note": note})
        return observed

    def _digest(self, record: CallRecord, observed: Observed, verdict: PolicyDecision) -> str:
        spec = BUILT_IN_CATALOG[record.call.tool]
        call = call_digest(
            tool=record.call.tool, tool_version=spec.version, args=record.call.args, computer=record.call.computer
        )
        return action_digest(call=call, user_id=self.task.user_id, observed=observed, evaluation=verdict)

    async def _supersede(self, record: CallRecord, verdict: PolicyDecision) -> None:
        request_id = self.task.request.request_id if self.task.request else record.request_id
        ended = facts.RequestEnded(
            request_id=request_id, end="superseded", call_ids=(record.call_id,), reason=verdict.reason
        )
        await self._intend(ended)

    # -- doing ---------------------------------------------------------------------------

    async def _run_tool(self, effect: todo.RunTool) -> Wait | None:
        record = self._record(effect.call_id)
        computer = record.call.computer
        if record.call.tool == "send_status":
            await self._intend(facts.StatusSent(call_id=record.call_id, message=record.call.args["message"]))
            return None
        if record.call.tool == "ask_user":
            question_id = QuestionId(new_request_id())
            question = record.call.args["question"]
            await self._intend(facts.QuestionAsked(question_id=question_id, call_id=record.call_id, question=question))
            return None
        if computer is not None and not self.world.online(computer):
            raise ComputerAway(f"Computer {computer} is not connected.")
        observed = await self._expected(record)
        if observed is None or not await self._still_allowed(record, observed):
            return None
        return await self._start(record, observed)

    async def _expected(self, record: CallRecord) -> Observed | None:
        """What the run must find: as approved, or as it is now; None: it failed and that is recorded."""
        if record.observed is not None:
            return record.observed
        if not record.mutates:
            return Observed(state={})
        try:
            return await self.world.observe(record)
        except (ToolFailed, ComputerFailed) as error:
            return Observed(state={}, note=str(error))

    async def _still_allowed(self, record: CallRecord, observed: Observed) -> bool:
        """The gate once more, on what is about to be sent (hitl.md P16, B2)."""
        verdict = self._judge(record.call, program=observed.program)
        if verdict.effect is Effect.DENY:
            await self._supersede(record, verdict)
            return False
        approved = record.state is CallState.APPROVED
        if approved:
            bound = _stricter(record.evaluation, verdict)
            holds = self._digest(record, observed, bound) == record.action_digest
        else:
            holds = verdict.effect is Effect.ALLOW
        if not holds:
            reason = "What would run is no longer what was decided; it is shown again."
            request_id = record.request_id if approved else None
            await self._intend(
                facts.RequestEnded(request_id=request_id, end="stale", call_ids=(record.call_id,), reason=reason)
            )
        return holds

    async def _start(self, record: CallRecord, observed: Observed) -> Wait | None:
        run_id = record.next_run_id
        computer = record.call.computer
        try:
            await self.world.prepare(record, run_id)
        except ToolFailed as error:
            prepared: ToolFailed | None = error
        else:
            prepared = None
        verdict = record.evaluation
        started = facts.ToolStarted(
            call_id=record.call_id,
            run_id=run_id,
            computer=computer,
            action_digest=record.action_digest or self._digest(record, observed, verdict),
            before=observed.state,
        )
        self.mine.add(run_id)
        try:
            await self._intend(started, number_for=computer)
            record = self._record(record.call_id)
            if record.observed is None:
                record = _with_observed(record, observed)
            return await self._finish(record, prepared)
        finally:
            self.mine.discard(run_id)

    async def _finish(self, record: CallRecord, prepared: ToolFailed | None) -> Wait | None:
        run_id = record.run_id or RunId("")
        try:
            if prepared is not None:
                raise prepared
            text = await self.world.run(self.task, record)
        except (CallVoid, ComputerAway) as void:
            return await self._void(record, void)
        except ComputerFailed as error:
            await self._finished(record, ok=False, text=str(error), code=error.reason)
        except ToolFailed as error:
            await self._finished(record, ok=False, text=str(error), code="tool_failed")
        else:
            await self._finished(record, ok=True, text=text)
        await self.world.acknowledge(record.call.computer, run_id)
        return None

    async def _finished(self, record: CallRecord, *, ok: bool, text: str, code: str | None = None) -> None:
        finished = facts.ToolFinished(
            call_id=record.call_id, run_id=record.run_id or RunId(""), ok=ok, code=code, text=text
        )
        await self._record_fact(finished, Actor(kind="computer", id=record.call.computer or "host"))

    async def _void(self, record: CallRecord, void: OrchestratorError) -> Wait | None:
        if record.runs >= MAX_VOIDS:
            await self._finished(record, ok=False, text=f"The computer refused it {record.runs} times: {void}")
            return None
        settled = facts.ToolSettled(
            call_id=record.call_id, run_id=record.run_id or RunId(""), state="void", reason=str(void)
        )
        await self._record_fact(settled, SYSTEM)
        return Wait(seconds=1.0) if isinstance(void, CallVoid) and void.reason != "below_fence" else None

    async def _settle(self, effect: todo.Settle) -> None:
        records = [self._record(call_id) for call_id in effect.call_ids]
        for settled in await self.world.settle(effect.computer, records, self.lease):
            await self._record_fact(settled, Actor(kind="computer", id=effect.computer or "host"))
            await self.world.acknowledge(effect.computer, settled.run_id)

    # -- appending -----------------------------------------------------------------------

    async def _intend(self, *intents: Fact, actor: Actor = SYSTEM, number_for: ComputerId | None = None) -> None:
        """Append at the folded version or not at all. Raises Conflict: fold and ask anew."""
        async with self._appending:
            drafts = [self.service.draft(fact, actor) for fact in intents]
            await self._append(drafts, number_for=number_for)

    async def _record_fact(self, fact: Fact, actor: Actor, *, blobs: tuple[bytes, ...] = ()) -> None:
        """Append an outcome: again at the new version after a conflict, never the effect again."""
        draft = self.service.draft(fact, actor)
        async with self._appending:
            while can_follow(self.task, fact):
                try:
                    await self._append([draft], blobs=blobs)
                except Conflict:
                    await self._refold()
                else:
                    return

    async def _append(
        self,
        drafts: list[Draft],
        *,
        number_for: ComputerId | None = None,
        blobs: tuple[bytes, ...] = (),
        schedule: Schedule = "keep",
    ) -> None:
        task = self.task
        items = await self.service.store.append(
            task.task_id,
            task.version,
            drafts,
            status=preview(task, drafts).status,
            schedule=schedule,
            token=self.lease.token,
            number_for=number_for,
            blobs=blobs,
        )
        self.task = fold(items, task)
        self.service.published(task.task_id, items)

    async def _refold(self) -> None:
        newer = await self.service.store.read(self.task.task_id, self.task.version)
        self.task = fold(newer, self.task)

    # -- claims and sleep ----------------------------------------------------------------

    async def _claim(self) -> ComputerId | None:
        """Claim the computers of the present step; the answer is one that another task has."""
        computers = sorted({record.call.computer for record in self.task.calls if record.call.computer is not None})
        if not computers or self._claimed:
            return None
        blocked = await self.service.store.claim(self.lease, computers)
        self._claimed = blocked is None
        return blocked

    async def _unclaim(self) -> None:
        if self._claimed:
            keep = [record.call.computer for record in self.task.open_runs if record.call.computer is not None]
            await self.service.store.release_claims(self.task.task_id, keep)
            self._claimed = False

    async def _sleep(self, wait: Wait) -> None:
        """Give the lease back. Raises Conflict when something came in: nothing is lost."""
        await self._unclaim()
        due = self.service.clock.now() + timedelta(seconds=wait.seconds) if wait.seconds is not None else None
        await self.service.store.park(self.lease, self.task.version, due=due, waiting_for=wait.computer)
        if wait.computer is not None and await self._may_go_on(wait.computer):
            await self.service.store.wake(self.task.task_id)

    async def _may_go_on(self, computer: ComputerId) -> bool:
        """Whether what was waited for came between the last look and the sleep."""
        holder = await self.service.store.claimant(computer)
        return self.world.online(computer) and holder in (None, self.task.task_id)

    def _record(self, call_id: CallId) -> CallRecord:
        record = self.task.call(call_id)
        if record is None:
            raise Conflict(f"Call {call_id!r} is no longer of the present step.")
        return record


def _with_observed(record: CallRecord, observed: Observed) -> CallRecord:
    return replace(record, observed=observed)


def _stricter(one: PolicyDecision, other: PolicyDecision) -> PolicyDecision:
    order = {Effect.ALLOW: 0, Effect.ASK: 1, Effect.DENY: 2}
    return other if order[other.effect] >= order[one.effect] else one


def _ended(final: FinalResult) -> facts.TaskEnded:
    return facts.TaskEnded(
        status="Completed" if final.success else "Failed",
        status_reason="final",
        message=final.message,
        explanation=final.explanation,
        details=final.details,
    )
