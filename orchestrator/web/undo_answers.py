"""What the doors of the undo answer, as models for the OpenAPI document."""

from orchestrator.core.restoring.planning import Verdict
from orchestrator.web.answers import AnswerModel


class TaskChange(AnswerModel):
    """A place that a task changed."""

    place: str
    """Such as ``farm:startup.lua``; of this host ``workspace:notes.txt``."""
    computer: str | None
    path: str
    step: int
    """The last step that changed it."""
    before: str
    """The sha256 of a file, ``absent`` or ``directory``."""
    after: str | None
    """null: nobody knows whether it was changed."""


class UndoPlace(AnswerModel):
    """What an undo does at one place."""

    place: str
    """Such as ``farm:startup.lua``; of this host ``workspace:notes.txt``."""
    computer: str | None
    path: str
    verdict: Verdict
    """``nothing``: it is as it was; ``conflict``: somebody else changed it, and it stays; ``away``: nobody can look."""
    why: str
    step: int
    target: str
    """What it is to be again: the sha256 of a file, ``absent`` or ``directory``."""
    found: str | None
    """What it is now; null: nobody could look."""


class UndoLimit(AnswerModel):
    """What no undo takes back."""

    step: int
    tool: str
    computer: str | None
    what: str


class TaskChanges(AnswerModel):
    """What a task changed, as its journal tells it."""

    task_id: str
    changes: list[TaskChange]
    cannot_be_undone: list[UndoLimit]


class UndoPreview(AnswerModel):
    """What an undo would do now."""

    task_id: str
    places: list[UndoPlace]
    cannot_be_undone: list[UndoLimit]
