"""Doing the calls of a step: a bracket around each, and a settle for what nobody heard of."""

from dataclasses import dataclass, field, replace

from orchestrator.actor.gate import Gate
from orchestrator.actor.journal import TaskJournal, of_computer
from orchestrator.core import effects as todo
from orchestrator.core import facts
from orchestrator.core.errors import (
    CallVoid,
    ComputerAway,
    ComputerFailed,
    InvalidRequest,
    OrchestratorError,
    ToolFailed,
)
from orchestrator.core.facts import CallId, Observed, QuestionId
from orchestrator.core.items import SYSTEM
from orchestrator.core.task import CallRecord
from orchestrator.core.wire import RunId
from orchestrator.tasks import new_request_id
from orchestrator.world import OUTCOME_UNKNOWN, World

MAX_VOIDS = 5
"""Runs of one call that the computer refused before that is told to the model as its result."""
BUSY_S = 1.0
"""A busy computer, or one whose journal cannot be written, is asked again after this."""


@dataclass
class Calls:
    """Performs RunTool and Settle for one task."""

    journal: TaskJournal
    gate: Gate
    world: World
    mine: set[RunId] = field(default_factory=set)
    """Runs whose send or wait this actor owns: any other open bracket is an orphan."""

    async def run(self, call_id: CallId) -> float | None:
        """Do one call; seconds to wait before it is tried again, or None. Raises ComputerAway, CallLost."""
        record = self.journal.record(call_id)
        if record.call.plugin_name == "people":
            await self._speak(record)
            return None
        computer = record.call.computer
        if computer is not None and not self.world.online(computer):
            raise ComputerAway(f"Computer {computer} is not connected.")
        passed = await self.gate.pass_through(record)
        return None if passed is None else await self._bracket(record, *passed)

    async def settle(self, effect: todo.Settle) -> None:
        """Ask what became of orphans and record it. Raises ComputerAway, CallLost."""
        records = [self.journal.record(call_id) for call_id in effect.call_ids]
        for answer in await self.world.settle(effect.computer, records, self.journal.lease):
            settled = self._given_up(answer)
            await self.journal.happened(settled, of_computer(effect.computer))
            await self.world.acknowledge(effect.computer, settled.run_id)

    def _given_up(self, settled: facts.ToolSettled) -> facts.ToolSettled:
        """A look that was interrupted too often is told as a failure instead of being taken once more."""
        record = self.journal.record(settled.call_id)
        if settled.state != "interrupted" or record.mutates or record.runs < MAX_VOIDS:
            return settled
        text = f"It was interrupted {record.runs} times: {settled.reason}"
        return settled.model_copy(update={"state": "finished", "ok": False, "text": text, "code": "interrupted"})

    async def _speak(self, record: CallRecord) -> None:
        """The tools that speak to people are items themselves: nothing else is touched."""
        args = record.call.args
        if record.call.tool == "send_status":
            await self.journal.intend(facts.StatusSent(call_id=record.call_id, message=args["message"]))
            return
        asked = facts.QuestionAsked(
            question_id=QuestionId(new_request_id()), call_id=record.call_id, question=args["question"]
        )
        await self.journal.intend(asked)

    async def _bracket(self, record: CallRecord, observed: Observed, digest: str) -> float | None:
        run_id, computer = record.next_run_id, record.call.computer
        unprepared = await self._prepare(record, run_id)
        started = facts.ToolStarted(
            call_id=record.call_id, run_id=run_id, computer=computer, action_digest=digest, before=observed.state
        )
        self.mine.add(run_id)
        try:
            await self.journal.intend(started, number_for=computer)
            record = replace(self.journal.record(record.call_id), observed=observed)
            return await self._inside(record, run_id, unprepared)
        finally:
            self.mine.discard(run_id)

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
            text = await self.world.run(self.journal.task, record)
        except (CallVoid, ComputerAway) as void:
            return await self._void(record, run_id, void)
        except ComputerFailed as error:
            await self._failed(record, run_id, error)
        except (ToolFailed, InvalidRequest) as error:
            await self._finished(record, run_id, ok=False, text=str(error), code=error.code)
        else:
            await self._finished(record, run_id, ok=True, text=text)
        await self.world.acknowledge(record.call.computer, run_id)
        return None

    async def _void(self, record: CallRecord, run_id: RunId, void: OrchestratorError) -> float | None:
        """It never ran and never will; its allowance stands for a run under a new id."""
        if record.runs >= MAX_VOIDS:
            text = f"The computer refused it {record.runs} times: {void}"
            await self._finished(record, run_id, ok=False, text=text, code="refused")
            return None
        settled = facts.ToolSettled(call_id=record.call_id, run_id=run_id, state="void", reason=str(void))
        await self.journal.happened(settled, SYSTEM)
        return BUSY_S if isinstance(void, CallVoid) and void.reason != "below_fence" else None

    async def _failed(self, record: CallRecord, run_id: RunId, error: ComputerFailed) -> None:
        if error.reason != OUTCOME_UNKNOWN:
            await self._finished(record, run_id, ok=False, text=str(error), code=error.reason)
            return
        unknown = facts.ToolSettled(call_id=record.call_id, run_id=run_id, state="unknown", reason=error.message)
        await self.journal.happened(unknown, of_computer(record.call.computer))

    async def _finished(
        self, record: CallRecord, run_id: RunId, *, ok: bool, text: str, code: str | None = None
    ) -> None:
        finished = facts.ToolFinished(call_id=record.call_id, run_id=run_id, ok=ok, code=code, text=text)
        await self.journal.happened(finished, of_computer(record.call.computer))
