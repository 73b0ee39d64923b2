"""The hub's questions, answered from the journal: who may come, what is over, whom to wake."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from orchestrator.core import wire
from orchestrator.core.errors import NewerSchema
from orchestrator.core.items import Actor
from orchestrator.core.meeting import (
    NOTHING_HEARD,
    ComputerRecord,
    Heard,
    former_labels,
    frozen,
    frozen_sentence,
    judge,
)
from orchestrator.core.system_facts import ComputerFrozen, ComputerSide, ComputerWelcomed
from orchestrator.core.wire import ComputerId, RunId
from orchestrator.hub import Met, Visitor
from orchestrator.ports import Coming
from orchestrator.tasks import TaskService

logger = logging.getLogger(__name__)


class JournalGreeter:
    """The hub's ``Greeter`` over the store of a service."""

    def __init__(self, service: TaskService) -> None:
        self._service = service
        self._store = service.store

    async def meet(self, visitor: Visitor, *, heard: Heard) -> Met:
        """Welcome a visitor, or freeze the computer."""
        record = await self._record(visitor, heard)
        if record.frozen is not None:
            return Met(frozen=record.frozen)
        anew = await self._paired_anew(record, visitor)
        former = former_labels(record.known, self._side(visitor).label, paired_anew=anew)
        side = self._side(visitor).model_copy(update={"former_labels": former})
        if record.known is not None and record.known.label != side.label:
            said = "computer %s has the label %r now, and had %r; rules of the policy look at both"
            logger.warning(said, visitor.computer, side.label, record.known.label, extra={"computer": visitor.computer})
        verdict = judge(record, visitor.hello, side, paired_anew=anew)
        if verdict.freeze is not None:
            return Met(frozen=await self._freeze(verdict.freeze))
        coming = Coming(
            side=side,
            token=visitor.token,
            at_least=visitor.hello.highest + 1,
            heard=heard,
            fresh=verdict.fresh,
            doubt=verdict.doubt,
        )
        welcomed = ComputerWelcomed(computer=visitor.computer, side=side)
        note = self._service.draft(welcomed, Actor(kind="computer", id=visitor.computer))
        number = await self._store.welcome_computer(visitor.computer, coming, note=note)
        if number is None:
            # Somebody froze it between the look and the welcome, which only another node can.
            return Met(frozen=(await self._store.computer(visitor.computer)).frozen)
        return Met(number=number, fresh=verdict.fresh, former_labels=former)

    async def copied(self, visitor: Visitor) -> ComputerFrozen:
        """Freeze the computer: who was welcome last still lives while this visitor comes."""
        record = await self._record(visitor, NOTHING_HEARD)
        return record.frozen or await self._freeze(frozen("two_computers", record, visitor.hello, self._side(visitor)))

    async def heard(self, computer: ComputerId, heard: Heard) -> None:
        """Keep what was heard from a computer that has gone."""
        await self._store.hear_computer(computer, heard)

    async def number(self, computer: ComputerId) -> int:
        """A newly allotted number of the computer."""
        return await self._store.allot_number(computer)

    async def closed_runs(self, computer: ComputerId, run_ids: Sequence[RunId]) -> list[RunId]:
        """Runs that are not open brackets of the task that holds the computer's claim.

        Only that task can have open brackets there: a claim is not released while one is open.
        """
        claimant = await self._store.claimant(computer)
        try:
            task = await self._store.load(claimant) if claimant is not None else None
        except NewerSchema:
            # Which of them are open only a newer version can tell, and none may be forgotten before that.
            return []
        still_open = {record.run_id for record in task.open_runs} if task is not None else set()
        return [run_id for run_id in run_ids if run_id not in still_open]

    async def arrived(self, computer: ComputerId) -> None:
        """Wake what waited for the computer, and the task whose brackets may be open there."""
        claimant = await self._store.claimant(computer)
        if claimant is not None:
            await self._store.wake(claimant)
        await self._store.wake_waiting(computer)
        self._service.bus.publish("tasks.due", {"computer": computer})
        self._changed(computer)

    def left(self, computer: ComputerId) -> None:
        """Tell whoever watches."""
        self._changed(computer)

    async def _paired_anew(self, record: ComputerRecord, visitor: Visitor) -> bool:
        """Whether the token is another than the last one, which was revoked meanwhile."""
        if not record.token or record.token == visitor.token:
            return False
        former = await self._store.find_token(record.token)
        return former is None or former.revoked

    async def _record(self, visitor: Visitor, heard: Heard) -> ComputerRecord:
        record = await self._store.computer(visitor.computer)
        return record if record.released else replace(record, heard=record.heard_with(heard))

    async def _freeze(self, fact: ComputerFrozen) -> ComputerFrozen:
        logger.warning("%s", frozen_sentence(fact), extra={"computer": fact.computer})
        actor = Actor(kind="computer", id=fact.computer)
        if not await self._store.freeze_computer(self._service.draft(fact, actor)):
            return (await self._store.computer(fact.computer)).frozen or fact
        self._changed(fact.computer)
        return fact

    def _changed(self, computer: ComputerId) -> None:
        self._service.bus.publish("computers", {"computer": computer})

    def _side(self, visitor: Visitor) -> ComputerSide:
        hello = visitor.hello
        return ComputerSide(
            computer_id=hello.computer_id,
            boot=wire.from_wire(hello.boot),
            at=self._service.clock.now(),
            label=wire.from_wire(hello.label) if hello.label is not None else "",
            host=wire.from_wire(hello.host),
            peer=visitor.peer,
        )
