"""Performs the calls of a step: a bracket around each, and a settle where no answer was heard."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from orchestrator.core.errors import (
    CallVoid,
    ComputerAway,
    ComputerFailed,
    GrantVoid,
    InvalidRequest,
    OrchestratorError,
    ToolFailed,
)
from orchestrator.core.policy import RUNNERS
from orchestrator.core.task import effects as todo
from orchestrator.core.task import facts
from orchestrator.core.task.choices import options_of
from orchestrator.core.task.effects import next_effects
from orchestrator.core.task.facts import CallId, Observed, QuestionId
from orchestrator.core.task.items import SYSTEM, Actor
from orchestrator.core.task.states import Phase
from orchestrator.core.task.task import AgentTask, CallRecord
from orchestrator.core.text.patch import line_counts, only_comments
from orchestrator.core.undo.touches import NEVER_RAN
from orchestrator.core.values import changed
from orchestrator.core.wire.wire import ComputerId, RunId
from orchestrator.engine.actor.gate import MAX_VOIDS, NOTHING, Gate
from orchestrator.engine.actor.interrupts import Leaving, Watch
from orchestrator.engine.actor.journal import Follow, Hints, TaskJournal, of_computer
from orchestrator.engine.actor.programs import UNSEEN, Programs, with_told
from orchestrator.engine.tasks import new_request_id
from orchestrator.tools.environment import OUTCOME_UNKNOWN, Environment, ran_by

_WHILE = "While it ran"
_SINCE = "Since it was started"
BUSY_S = 1.0
"""A busy computer, or one whose journal cannot be written, is asked again after this."""


@dataclass
class Calls:
    """Performs RunTool and Settle for one task."""

    journal: TaskJournal
    gate: Gate
    world: Environment
    watch: Watch
    hints: Hints
    programs: Programs
    leaving: Leaving
    next_step: Follow
    """The facts that are recorded together with the outcome that ends a step."""
    mine: set[RunId] = field(default_factory=set)
    """Runs whose send or wait this actor owns: any other open bracket is an orphan."""
    _begun: RunId | None = None
    """A run whose start was recorded together with what led to it, and which nobody has carried out yet."""
    _frozen: dict[RunId, str] = field(default_factory=dict)
    """The runs of programs that were stopped because of a freeze, with its words."""
    _stopping: set[asyncio.Task[None]] = field(default_factory=set)
    """Keeps what stops programs alive until it is done; asyncio holds tasks only weakly."""

    async def run(self, call_id: CallId) -> float | None:
        """Do one call; seconds to wait before it is tried again, or None. Raises ComputerAway, CallLost."""
        record = self.journal.record(call_id)
        if record.call.plugin_name == "people":
            await self._speak(record)
            return None
        computer = record.call.computer
        if self._away(computer):
            raise ComputerAway(f"Computer {computer} is away.")
        if record.run_id is not None and record.run_id == self._begun:
            return await self._carried_out(record, NOTHING, None)
        passed = await self.gate.pass_through(record)
        return None if passed is None else await self._bracket(record, *passed)

    def begin(self, task: AgentTask) -> tuple[tuple[facts.Fact, Actor], ...]:
        """The start of a look that is all there is to do now, to be recorded together with the call itself.

        Nothing where somebody or something has to be asked first, where the computer is away, where the person is
        frozen, and where the node is about to stop.
        """
        if self.leaving.begun or self.watch.freeze is not None:
            return ()
        effects = next_effects(task, self.mine)
        wanted = {effect.call_id for effect in effects if isinstance(effect, todo.RunTool)}
        records = [record for record in task.calls if record.call_id in wanted and record.call.plugin_name != "people"]
        if len(effects) > 1 or not records or self._away(records[0].call.computer):
            return ()
        (record,) = records
        digest = self.gate.at_once(record)
        if digest is None:
            return ()
        self._begun = record.next_run_id
        return ((_started(record, NOTHING, digest), SYSTEM),)

    def begun(self) -> tuple[todo.Effect, ...]:
        """What :meth:`begin` began and nobody has carried out yet; nothing of a task that is over."""
        task = self.journal.task
        if self._begun is None or task.phase is Phase.ENDED:
            return ()
        return tuple(todo.RunTool(record.call_id) for record in task.open_runs if record.run_id == self._begun)

    async def settle(self, effect: todo.Settle) -> None:
        """Ask what became of orphans and record it. Raises ComputerAway, CallLost."""
        records = [self.journal.record(call_id) for call_id in effect.call_ids]
        told = {
            one.run_id: partial(self.hints.output, one.call_id)
            for one in records
            if one.run_id is not None and one.call.tool in RUNNERS
        }
        with self.watch.stopping(lambda: self._terminate(records)):
            answers = await self.world.settle(effect.computer, records, self.journal.lease, told)
        for answer in answers:
            settled = await self._looked(self._given_up(answer))
            await self.journal.happened(settled, of_computer(effect.computer))
            await self.world.acknowledge(effect.computer, settled.run_id)

    def _given_up(self, settled: facts.ToolSettled) -> facts.ToolSettled:
        """A call that would run once more, but was begun too often, is told as a failure."""
        record = self.journal.record(settled.call_id)
        if settled.code == "stale":
            text, code = _kept_changing(record, settled.text, settled.code)
            return settled.model_copy(update={"text": text, "code": code})
        looked = settled.state == "interrupted" and not record.mutates
        if record.runs < MAX_VOIDS or not (looked or settled.state == "void"):
            return settled
        text = f"It was interrupted {record.runs} times: {settled.reason}"
        return settled.model_copy(update={"state": "finished", "ok": False, "text": text, "code": "interrupted"})

    async def _looked(self, settled: facts.ToolSettled) -> facts.ToolSettled:
        """The outcome of a program, with what changed since it was started. Raises ComputerAway, CallLost."""
        if settled.state == "void" or settled.code in NEVER_RAN:
            return settled
        seen = await self.programs.after(self.journal.record(settled.call_id), _SINCE)
        if settled.state == "finished":
            told = {"text": with_told(settled.text, seen.told)}
        else:
            told = {"reason": " ".join(filter(None, (settled.reason, seen.told)))}
        return settled.model_copy(update={"watched": seen.watched, **told})

    async def _speak(self, record: CallRecord) -> None:
        """The tools that speak to people are items themselves: nothing else is touched."""
        args = record.call.args
        if record.call.tool == "send_status":
            await self.journal.intend(facts.StatusSent(call_id=record.call_id, message=args["message"]))
            return
        asked = facts.QuestionAsked(
            question_id=QuestionId(new_request_id()),
            call_id=record.call_id,
            question=args["question"],
            options=options_of(args),
        )
        await self.journal.intend(asked)

    async def _bracket(self, record: CallRecord, observed: Observed, digest: str) -> float | None:
        watched = await self.programs.before(record.call)
        if watched is not None and self.gate.is_over(record):
            # That look took the time that was left of the approval.
            return None
        run_id = record.next_run_id
        unprepared = await self._prepare(record, run_id)
        if self.watch.freeze is not None:
            return None
        self.mine.add(run_id)
        try:
            await self.journal.intend(_started(record, observed, digest, watched))
        except GrantVoid:
            await self.gate.grant_is_over(record)
            return None
        else:
            return await self._carried_out(self.journal.record(record.call_id), observed, unprepared)
        finally:
            self.mine.discard(run_id)

    async def _carried_out(
        self, record: CallRecord, observed: Observed, unprepared: OrchestratorError | None
    ) -> float | None:
        """Do what a bracket that is recorded names."""
        assert record.run_id is not None, "only what was started is carried out"
        self._begun = None
        self.mine.add(record.run_id)
        try:
            return await self._inside(changed(record, observed=observed), record.run_id, unprepared)
        finally:
            self.mine.discard(record.run_id)

    async def _prepare(self, record: CallRecord, run_id: RunId) -> OrchestratorError | None:
        try:
            await self.world.prepare(record, run_id)
        except (ToolFailed, InvalidRequest) as error:
            return error
        return None

    async def _inside(self, record: CallRecord, run_id: RunId, unprepared: OrchestratorError | None) -> float | None:
        try:
            if unprepared is not None:
                raise unprepared
            if (freeze := self.watch.freeze) is not None:
                raise CallVoid("frozen", f"{freeze}, before it was sent.")
            told = partial(self.hints.output, record.call_id)
            with self.watch.stopping(lambda: self._terminate([record])):
                limit = self.programs.limit_s(record.call)
                outcome = await self.world.run(self.journal.task, record, timeout_s=limit, on_output=told)
        except (CallVoid, ComputerAway) as void:
            return await self._void(record, run_id, void)
        except ComputerFailed as error:
            number = await self._failed(record, run_id, error)
        except (ToolFailed, InvalidRequest) as error:
            number = await self._finished(record, run_id, ok=False, text=str(error), code=error.code, ran=ran_by(error))
        else:
            number = await self._finished(
                record, run_id, ok=True, text=outcome.text, after=outcome.after, ran=outcome.ran
            )
        await self.world.acknowledge(record.call.computer, run_id, number)
        return None

    async def _void(self, record: CallRecord, run_id: RunId, void: OrchestratorError) -> float | None:
        """The call never ran and never will; its permission holds for a run under a new id."""
        if record.runs >= MAX_VOIDS and not _is_of_a_freeze(void):
            text = f"The computer refused it {record.runs} times: {void}"
            await self._finished(record, run_id, ok=False, text=text, code="refused")
            return None
        settled = facts.ToolSettled(call_id=record.call_id, run_id=run_id, state="void", reason=str(void))
        await self.journal.happened(settled, SYSTEM)
        waits = isinstance(void, CallVoid) and void.reason != "below_fence" and not _is_of_a_freeze(void)
        return BUSY_S if waits else None

    async def _failed(self, record: CallRecord, run_id: RunId, error: ComputerFailed) -> int | None:
        if error.reason != OUTCOME_UNKNOWN:
            text, code = _kept_changing(record, str(error), error.reason)
            return await self._finished(record, run_id, ok=False, text=text, code=code)
        unknown = await self._looked(
            facts.ToolSettled(call_id=record.call_id, run_id=run_id, state="unknown", reason=error.message)
        )
        await self.journal.happened(unknown, of_computer(record.call.computer))
        return None

    async def _finished(
        self,
        record: CallRecord,
        run_id: RunId,
        *,
        ok: bool,
        text: str,
        code: str | None = None,
        after: Mapping[str, str] | None = None,
        ran: facts.Ran | None = None,
    ) -> int | None:
        """Record the outcome; the number that was allotted with it for the acknowledgement, None: there is none."""
        if run_id in self._frozen:
            text = f"{text} It was stopped because of a person, not because of a fault: {self._frozen.pop(run_id)}."
        seen = UNSEEN if code in NEVER_RAN else await self.programs.after(record, _WHILE)
        finished = facts.ToolFinished(
            call_id=record.call_id,
            run_id=run_id,
            ok=ok,
            code=code,
            text=with_told(text, seen.told),
            after=dict(after or {}),
            watched=seen.watched,
            ran=ran,
        )
        computer, numbers = record.call.computer, list[int]()
        receipt = self.world.receipt(computer, numbers.append)
        await self.journal.happened(finished, of_computer(computer), follow=self.next_step, receipt=receipt)
        return numbers[-1] if numbers else None

    def _away(self, computer: ComputerId | None) -> bool:
        return computer is not None and not self.world.online(computer)

    def _terminate(self, records: Sequence[CallRecord]) -> None:
        """Stop the programs of a task that is halted; how each ended is still waited for."""
        for record in records:
            if record.call.tool in RUNNERS and record.call.computer is not None and record.run_id is not None:
                if (freeze := self.watch.freeze) is not None:
                    self._frozen[record.run_id] = str(freeze)
                stopping = asyncio.create_task(self.world.terminate(record.call.computer, record.run_id))
                self._stopping.add(stopping)
                stopping.add_done_callback(self._stopping.discard)


def _is_of_a_freeze(void: OrchestratorError) -> bool:
    """Whether the orchestrator itself kept a call back: the computer refused nothing."""
    return isinstance(void, CallVoid) and void.reason == "frozen"


def _kept_changing(record: CallRecord, text: str, code: str) -> tuple[str, str]:
    """The words and the code of a failure: a call that was ``stale`` too often is not shown and tried again."""
    if code != "stale" or record.runs < MAX_VOIDS:
        return text, code
    return f"What it would change kept changing, {record.runs} times: {text}", "kept_changing"


def _started(
    record: CallRecord, observed: Observed, digest: str, watched: facts.Watched | None = None
) -> facts.ToolStarted:
    return facts.ToolStarted(
        call_id=record.call_id,
        run_id=record.next_run_id,
        computer=record.call.computer,
        action_digest=digest,
        before=observed.state,
        directories=observed.directories,
        made=observed.made,
        grant_id=record.grant_id,
        watched=watched,
        lines=line_counts(observed.diff),
        only_comments=str(record.call.args.get("path", "")).endswith(".lua") and only_comments(observed.diff),
    )
