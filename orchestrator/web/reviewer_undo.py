"""What the reviewers' socket tells of undos: what one would do, and which tasks left something to take back."""

from typing import Any, Final

from orchestrator.core import review
from orchestrator.core.redact import redact_text
from orchestrator.core.restoring.telling import told_limits, told_places
from orchestrator.core.task import AgentTask, TaskStatus
from orchestrator.ports import Identity
from orchestrator.undoing import Undoing

MAX_PLACES: Final = 1000
"""Of one preview: about a quarter of the megabyte that a usual client of WebSockets takes."""
MAX_CHANGES: Final = 20
"""Named of a task that is over: the first screen of them."""
_LEFT: Final = (TaskStatus.FAILED, TaskStatus.CANCELED)


async def previewed(undoing: Undoing, message: review.UndoTask, by: Identity) -> dict[str, Any]:
    """The fields of an ``undo_preview``. Raises as ``Undoing.preview``."""
    preview = await undoing.preview(message.undo.of_task(message.task_id), by)
    places = told_places(preview.entries)
    return {
        "ref": message.ref,
        "task_id": message.task_id,
        "places": places[:MAX_PLACES],
        "left_out": max(0, len(places) - MAX_PLACES),
        "cannot_be_undone": told_limits(preview.untold),
        "not_heard": told_limits(preview.open),
    }


async def left_behind(undoing: Undoing, task: AgentTask) -> dict[str, Any] | None:
    """The fields of a ``task_over``; None: the task goes on, ended well, or changed nothing."""
    if task.ended is None or task.status not in _LEFT:
        return None
    changes = await undoing.left_behind(task)
    if not changes:
        return None
    return {
        "task_id": task.task_id,
        "status": task.ended.status,
        "goal": redact_text(task.prompt, salt=task.tag),
        "message": redact_text(task.ended.message, salt=task.tag),
        "changes": changes[:MAX_CHANGES],
        "left_out": max(0, len(changes) - MAX_CHANGES),
        "undo": await undoing.offer(task, changes),
    }
