"""The hub's questions, answered from the journal: may this computer connect, which calls are over, which task wakes."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from orchestrator.computers.hub import Met, Visitor
from orchestrator.core.errors import JournalBroken, NewerSchema
from orchestrator.core.ports import Coming
from orchestrator.core.task.items import Actor
from orchestrator.core.task.system_facts import (
    AttemptRefused,
    ComputerFrozen,
    ComputerLabelled,
    ComputerSide,
    ComputerWelcomed,
)
from orchestrator.core.wire import wire
from orchestrator.core.wire.identity import (
    NOTHING_HEARD,
    ComputerRecord,
    Heard,
    Verdict,
    copied_sentence,
    former_labels,
    former_of,
    frozen,
    frozen_sentence,
    judge,
    labels_of,
)
from orchestrator.core.wire.wire import ComputerId, RunId
from orchestrator.engine.tasks import TaskService
from orchestrator.runtime.gathering import Gathered

logger = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 128
"""Computers whose tasks are woken in one transaction."""
MOST_COPIES: Final = 200
"""Copies that are written down by one node until it starts again: a computer with a token can say any id."""


class JournalGreeter:
    """The hub's ``Greeter`` over the store of a service."""

    def __init__(self, service: TaskService) -> None:
        self._service = service
        self._store = service.store
        self._copies: set[tuple[ComputerId, int]] = set()
        """The copies that were written down since the start."""
        self._waking = Gathered(self._wake, MOST_AT_ONCE)

    async def meet(self, visitor: Visitor, *, heard: Heard) -> Met:
        """Welcome a visitor, or freeze the computer."""
        record = await self._record(visitor, heard)
        if record.frozen is not None:
            return Met(frozen=record.frozen)
        anew = await self._paired_anew(record, visitor)
        side = self._side(visitor)
        former = former_labels(record.known, side.label, paired_anew=anew)
        if record.known is None or anew:
            former = former_of(side.label, await self._paired_labels(visitor))
        side = side.model_copy(update={"former_labels": former})
        verdict = await self._judged(record, visitor, side, anew=anew)
        if verdict.copy_of is not None:
            return Met(copy_of=verdict.copy_of)
        if record.known is not None and record.known.label != side.label:
            said = "computer %s has the label %r now, and had %r; rules of the policy look at both"
            logger.warning(said, visitor.computer, side.label, record.known.label, extra={"computer": visitor.computer})
        if verdict.freeze is not None:
            return Met(frozen=await self._freeze(verdict.freeze))
        coming = Coming(
            side=side,
            token=visitor.token,
            at_least=visitor.hello.highest + 1,
            heard=heard,
            fresh=verdict.fresh,
            doubt=verdict.doubt,
            node=visitor.node,
            said=visitor.said,
        )
        welcomed = ComputerWelcomed(computer=visitor.computer, side=side)
        note = self._service.draft(welcomed, Actor(kind="computer", id=visitor.computer))
        number = await self._store.welcome_computer(visitor.computer, coming, note=note)
        if number is None:
            # Somebody froze it between the look and the welcome, which only another node can.
            return Met(frozen=(await self._store.computer(visitor.computer)).frozen)
        renamed = record.known is not None and not anew and side.label not in labels_of(record.known)
        return Met(number=number, fresh=verdict.fresh, former_labels=former, renamed=renamed)

    async def copy_of(self, visitor: Visitor) -> int | None:
        """The id of the computer of which this visitor has a copy of the folder; None: that cannot be told."""
        record = await self._record(visitor, NOTHING_HEARD)
        if record.frozen is not None:
            return None
        anew = await self._paired_anew(record, visitor)
        return (await self._judged(record, visitor, self._side(visitor), anew=anew)).copy_of

    async def copied(self, visitor: Visitor) -> ComputerFrozen:
        """Freeze the computer: the one that was welcomed last still lives while this visitor comes."""
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

        Only that task can have open brackets there: a claim is not released while one is open. Of a computer that
        moves to another cell in this moment none is closed here: its tasks are there.
        """
        if not run_ids:
            return []
        claimant = await self._store.claimant(computer)
        try:
            task = await self._store.load(claimant) if claimant is not None else None
        except (NewerSchema, JournalBroken):
            # Which of them are open nobody can tell here, and none may be forgotten before that.
            return []
        still_open = {record.run_id for record in task.open_runs} if task is not None else set()
        # Looked at last: what was read before a move is as it was, and after it nothing here counts.
        if run_ids and (await self._store.computer(computer)).frozen is not None:
            return []
        return [run_id for run_id in run_ids if run_id not in still_open]

    async def labelled(self, computer: ComputerId, label: str, former_labels: tuple[str, ...]) -> None:
        """Keep a label, with an item; requests that wait for a person are judged by it."""
        fact = ComputerLabelled(computer=computer, label=label, former_labels=former_labels)
        if await self._store.label_computer(self._service.draft(fact, Actor(kind="computer", id=computer))):
            said = "computer %s has the label %r now; rules of the policy look at it and at the former ones"
            logger.warning(said, computer, label, extra={"computer": computer})
            self._changed(computer)
            await self.rejudge()

    async def rejudge(self) -> None:
        """End or renew the requests on which the active policy decides otherwise now."""
        await self._service.rejudge()

    async def arrived(self, computer: ComputerId) -> None:
        """Wake what waited for the computer, and the task whose brackets may be open there."""
        await self._waking.ask(computer)
        self._changed(computer)

    def left(self, computer: ComputerId) -> None:
        """Tell the watchers."""
        self._changed(computer)

    async def _wake(self, computers: Sequence[ComputerId]) -> Sequence[None]:
        """Wake what waited for any of these computers: thousands may come at once, after the server was away."""
        if await self._store.wake_waiting(computers, claimants=True):
            self._service.bus.publish("tasks.due", {})
        return [None] * len(computers)

    async def _judged(self, record: ComputerRecord, visitor: Visitor, side: ComputerSide, *, anew: bool) -> Verdict:
        """The verdict on a visitor; a copy is written down."""
        # Only of a token that nobody was welcome with yet it counts who got it.
        new = (record.known is None or anew) and visitor.token
        row = await self._store.find_token(visitor.token) if new else None
        paired_id = None if row is None else row.paired_id
        verdict = judge(record, visitor.hello, side, token=visitor.token, paired_anew=anew, paired_id=paired_id)
        if verdict.copy_of is not None:
            await self._note_copy(visitor, verdict.copy_of)
        return verdict

    async def _note_copy(self, visitor: Visitor, genuine: int) -> None:
        """Write down that a copy came, once for each: it dials five times a minute."""
        computer, came = visitor.computer, visitor.hello.computer_id
        if (computer, came) in self._copies or len(self._copies) >= MOST_COPIES:
            return
        self._copies.add((computer, came))
        sentence = copied_sentence(computer, genuine, came)
        logger.warning("computer %s was copied: %s", computer, sentence, extra={"computer": computer})
        refused = AttemptRefused(door="WEBSOCKET /computer", code="copied", status=403, detail=sentence)
        await self._service.record(refused, Actor(kind="computer", id=computer))

    async def _paired_labels(self, visitor: Visitor) -> tuple[str, ...]:
        """The label that the installer told when the visitor's token was made; none where it told none."""
        row = await self._store.find_token(visitor.token) if visitor.token else None
        return (row.paired_label,) if row is not None and row.paired_label else ()

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
