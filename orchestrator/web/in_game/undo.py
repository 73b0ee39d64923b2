"""What a player may take back at a computer: one task of its owner's, whose changes are all on this very computer."""

from typing import Final

from orchestrator.core.errors import Forbidden, InvalidRequest, NotFound
from orchestrator.core.ports import ComputerLine, Identity, TaskRow
from orchestrator.core.task.task import AgentTask
from orchestrator.core.task.task_states import TaskStatus
from orchestrator.core.undo.messages import TaskChange, UndoOffer
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import UNDO, ComputerId
from orchestrator.engine.undo import Undoing
from orchestrator.web.in_game.lines import Line, note

_OVER: Final = (TaskStatus.FAILED, TaskStatus.CANCELED, TaskStatus.COMPLETED)
_LOOKED_AT: Final = 1000
"""Tasks of one status that are looked through, the newest first."""
_LOADED: Final = 10
"""Of those of the computer: what a player means without a name is one of the last."""
_UNSEEN: Final = "What a program of it changed is not known: no undo puts that back."
_NAMED: Final = 3
"""Changed places that are named on the screen."""


async def submitted(undoing: Undoing, person: Identity, line: ComputerLine, wanted: str, key: str) -> AgentTask:
    """The undo of a task, named by the beginning of its id or, empty, the last one that changed something.

    Raises NotFound, Forbidden where it changed something elsewhere, and as ``Undoing.submit``.
    """
    begun = await undoing.begun(person, key)
    if begun is not None:
        # Asked again: by now another task would be the last one that is not taken back.
        return begun
    task = await _meant(undoing, person, line, wanted)
    changed = await undoing.changes(task.task_id)
    if any(one.place.computer != line.computer for one in changed.touches):
        raise Forbidden(
            f"{task.task_id} changed something elsewhere too.",
            remedy=f"Outside the game: cc-orchestrator undo {task.task_id}.",
        )
    return await undoing.submit(Restoration(task_id=task.task_id), person, key=key)


async def left_behind(undoing: Undoing, line: ComputerLine, task: AgentTask) -> list[Line]:
    """What a task that did not end well had changed, and how that is put back; nothing of any other."""
    if task.ended is None or (task.status is TaskStatus.COMPLETED and task.ended.verified is not False):
        return []
    left = await undoing.left_behind(task)
    offer = await undoing.offer(task, left) if left else None
    if offer is None:
        return []
    lines = [await note(_UNSEEN)] if left.unseen else []
    if left.changes:
        said = f"It had changed {_named(left.changes, line.computer)}{_how(line, task, left.changes, offer)}"
        lines.insert(0, await note(said))
    return lines


def _named(changes: tuple[TaskChange, ...], here: ComputerId) -> str:
    names = ", ".join(one.path if one.computer == here else one.place for one in changes[:_NAMED])
    more = len(changes) - _NAMED
    return f"{names} and {more} more" if more > 0 else names


def _how(line: ComputerLine, task: AgentTask, changes: tuple[TaskChange, ...], offer: UndoOffer) -> str:
    """What becomes of it, behind what it had changed."""
    if offer.outcome is not None:
        return f"; {offer.outcome.told}."
    if offer.automatic:
        return ". It is put back, as the policy says."
    here = UNDO in line.capabilities and all(one.computer == line.computer for one in changes)
    if offer.unknown:
        word = "it" if offer.unknown == len(changes) else f"{offer.unknown} of it"
        return f". Nobody knows whether it did {word}: `cc-orchestrator undo {task.task_id} --on-conflict restore`."
    if here:
        return f". `cc undo {task.task_id}` puts it back."
    return f". Outside the game `cc-orchestrator undo {task.task_id}` puts it back."


async def _meant(undoing: Undoing, person: Identity, line: ComputerLine, wanted: str) -> AgentTask:
    rows = [one for one in await _rows(undoing, person, line) if one.task_id.startswith(wanted)]
    if wanted:
        return await undoing.service.load(_only(rows, person, wanted).task_id)
    for row in rows[:_LOADED]:
        task = await undoing.service.load(row.task_id)
        taken_back = task.restores is not None or task.undone_by
        if not taken_back and (await undoing.left_behind(task)).changes:
            return task
    raise NotFound("None of the last tasks here left something to put back.", remedy="Name one: cc undo TASK.")


def _only(rows: list[TaskRow], person: Identity, wanted: str) -> TaskRow:
    """The row that is meant. Raises NotFound, InvalidRequest when it could be several."""
    if not rows:
        raise NotFound(
            f"{person.name} has no task {wanted[:40]} on this computer that is over.",
            remedy="`cc tasks` lists those that are open, `cc stop` stops one.",
        )
    if len(rows) > 1:
        named = ", ".join(one.task_id for one in rows[:_LOADED])
        raise InvalidRequest(f"More than one task begins with {wanted[:40]}: {named}.", remedy="Name one of them.")
    return rows[0]


async def _rows(undoing: Undoing, person: Identity, line: ComputerLine) -> list[TaskRow]:
    """The tasks of this person on this computer that are over, the newest first."""
    rows = [
        row
        for status in _OVER
        for row in await undoing.service.list_tasks(status=status, limit=_LOOKED_AT)
        if row.user_id == person.name and line.computer in row.computers
    ]
    return sorted(rows, key=lambda one: one.created_at, reverse=True)
