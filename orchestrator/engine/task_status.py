"""The status of a task for people: what it waits for, and the state of its undo or its rehearsal."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from orchestrator.core.approval.people import Freeze
from orchestrator.core.errors import JournalBroken, NewerSchema
from orchestrator.core.ports import Store, TaskRow
from orchestrator.core.task.facts import TaskEnded, TaskId
from orchestrator.core.task.states import Phase, TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.messages import Outcome
from orchestrator.core.undo.telling import outcome_of, that_counts
from orchestrator.tools.environment import Environment

_LAST: Final = 10
"""Undos of one task that are looked at, the last of them: each is a task to load."""
_TAIL: Final = 3
"""The last items of a task, among which its end mostly is: a whole journal is read where it is not."""
_PROOFS: Final = 5000
"""Tasks of which it is remembered whether their journal supports their success."""
_DEEP: Final = 20
"""Undos of undos that are followed: with each the answer is the other one."""


async def waits_for(task: AgentTask, store: Store, world: Environment, freeze: Freeze | None = None) -> str:
    """Why a task stands where it does: a parked one waits for a computer that is away, or is another task's.

    ``freeze``: the one that holds for its person.
    """
    if freeze is not None and task.ended is None:
        return str(freeze)
    if task.ended is not None or task.status is TaskStatus.PAUSED or task.phase is Phase.WAITING:
        return task.status_reason
    # A restoration looks at all of its computers before it proposes anything.
    looks = task.restores is not None and task.phase in (Phase.QUEUED, Phase.THINKING)
    needed = {one.call.computer for one in task.calls if one.call.computer is not None}
    for computer in sorted(task.computers if looks else needed):
        if not await world.reaches(computer):
            if (await store.computer(computer)).frozen is not None:
                return f"waiting for computer {computer}, which is frozen until a person releases it"
            return f"waiting for computer {computer}, which is away"
        claimant = await store.claimant(computer)
        if not looks and claimant not in (None, task.task_id):
            return f"waiting for computer {computer}, on which {claimant} works"
    return task.failures[-1].told if task.failures else ""


@dataclass
class Proofs:
    """Which successes the journal does not support; of a task that is over this is read once: it does not change."""

    store: Store
    _known: dict[TaskId, bool] = field(default_factory=dict)

    async def missing(self, row: TaskRow) -> bool:
        """Whether a task that is over claims a success that its journal does not support."""
        if row.task_id not in self._known:
            try:
                self._known[row.task_id] = await self._read(row)
            except NewerSchema:
                return False
            except JournalBroken:
                return True
            if len(self._known) > _PROOFS:
                del self._known[next(iter(self._known))]
        return self._known[row.task_id]

    async def _read(self, row: TaskRow) -> bool:
        for after in (max(0, row.version - _TAIL), 0):
            facts = [item.fact for item in await self.store.read(row.task_id, after)]
            ended = next((fact for fact in facts if isinstance(fact, TaskEnded)), None)
            if ended is not None:
                return ended.verified is False
        return False


async def since(task: AgentTask, store: Store) -> str:
    """The later news of a task that is over; empty: the words of its end hold."""
    if task.rehearses is None:
        outcome = that_counts(await outcomes(task.undone_by, store))
        return outcome.told if outcome is not None else ""
    applied = task.rehearsed.applied_by if task.rehearsed is not None else None
    asked = await outcomes((applied,), store) if applied is not None else ()
    told = asked[0].told if asked else "not applied"
    return f"only rehearsed, on a copy of {task.rehearses.computer}; {told}"


async def outcomes(task_ids: Sequence[TaskId], store: Store, world: Environment | None = None) -> tuple[Outcome, ...]:
    """The results of some tasks that restore, the last of them; pruned tasks are left out.

    ``world``: by which is told what they wait for; None: that is left out.
    """
    loaded = [await store.load(one) for one in task_ids[-_LAST:]]
    return tuple([await _outcome(task, store, world) for task in loaded if task is not None])


async def _outcome(task: AgentTask, store: Store, world: Environment | None) -> Outcome:
    waits = await waits_for(task, store, world) if world is not None else ""
    return outcome_of(task, waits=waits, undone_by=await _undone_by(task, store, _DEEP))


async def _undone_by(task: AgentTask, store: Store, deep: int) -> TaskId | None:
    """The task that took all of this one back, and was not taken back itself."""
    for task_id in reversed(task.undone_by[-_LAST:] if deep else ()):
        undo = await store.load(task_id)
        one = outcome_of(undo) if undo is not None else None
        # One that found everything as it was has taken back nothing: an earlier one had, which may be undone by now.
        if undo is None or one is None or not (one.status is TaskStatus.COMPLETED and one.did and one.whole):
            continue
        if await _undone_by(undo, store, deep - 1) is None:
            return task_id
    return None
