"""What the reviewers' socket tells of undos: what one would do, and which tasks left something to take back."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from orchestrator.core.ports import Identity
from orchestrator.core.task.task import AgentTask
from orchestrator.core.task.task_states import TaskStatus
from orchestrator.core.text.redact import redact_text
from orchestrator.core.undo.messages import told_limits, told_places
from orchestrator.core.wire import review
from orchestrator.engine.undo import Undoing

MAX_PLACES: Final = 1000
"""Of one preview: about a quarter of the megabyte that a usual client of WebSockets takes."""
MAX_CHANGES: Final = 20
"""Named of a task that is over: the first screen of them."""
MAX_TOLD: Final = 10
"""Tasks that were over before somebody connected, of which they are told: half of a screen of lines."""
TOLD_FOR: Final = timedelta(days=3)
"""They are told of those of this time: a weekend."""
_LEFT: Final = (TaskStatus.FAILED, TaskStatus.CANCELED)
_LOOKED_AT: Final = 50
"""Tasks of each status that are looked through for them, since each journal has to be read."""


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


async def left_lately(undoing: Undoing, concerns: Callable[[AgentTask], bool]) -> list[dict[str, Any]]:
    """The fields of a ``task_over`` for each task that was over lately and that no undo takes back, newest first."""
    service, lately = undoing.service, []
    since = service.clock.now() - TOLD_FOR
    rows = [row for status in _LEFT for row in await service.list_tasks(status=status, limit=_LOOKED_AT)]
    for row in sorted(rows, key=lambda one: one.updated_at, reverse=True):
        task = await service.if_known(row.task_id) if row.updated_at > since else None
        # It may have been pruned since it was listed.
        if task is None or task.undone_by or not concerns(task):
            continue
        over = await left_behind(undoing, task)
        lately += [over] if over is not None else []
        if len(lately) == MAX_TOLD:
            break
    return lately


async def left_behind(undoing: Undoing, task: AgentTask) -> dict[str, Any] | None:
    """The fields of a ``task_over``; None: the task goes on, ended well, or changed nothing."""
    if task.ended is None or task.status not in _LEFT:
        return None
    left = await undoing.left_behind(task)
    if not left:
        return None
    return {
        "task_id": task.task_id,
        "status": task.ended.status,
        "goal": redact_text(task.prompt, salt=task.tag),
        "message": redact_text(task.ended.message, salt=task.tag),
        "changes": left.changes[:MAX_CHANGES],
        "left_out": max(0, len(left.changes) - MAX_CHANGES),
        "undo": await undoing.offer(task, left),
    }
