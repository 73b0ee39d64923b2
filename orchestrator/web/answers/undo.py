"""What the doors of the undo answer, as models for the OpenAPI document."""

from orchestrator.core.undo.messages import TaskChange, UndoLimit, UndoPlace
from orchestrator.web.answers.base import AnswerModel


class TaskChanges(AnswerModel):
    """What a task changed, as its journal tells it."""

    task_id: str
    changes: list[TaskChange]
    cannot_be_undone: list[UndoLimit]
    not_heard: list[UndoLimit]
    """Calls of which nobody has heard yet how they ended: an undo waits for that."""
    unseen: list[UndoLimit]
    """Of ``cannot_be_undone``: programs before or after which nobody could look, though they were to be watched."""


class UndoPreview(AnswerModel):
    """What an undo would do now."""

    task_id: str
    places: list[UndoPlace]
    cannot_be_undone: list[UndoLimit]
    not_heard: list[UndoLimit]
    """Calls of which nobody has heard yet how they ended: an undo waits for that."""
