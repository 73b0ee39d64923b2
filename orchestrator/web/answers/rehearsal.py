"""What the door of a rehearsal answers, as models for the OpenAPI document."""

from orchestrator.core.undo.outcomes import Outcome
from orchestrator.history.rehearsal.changes import State
from orchestrator.web.answers.base import AnswerModel


class RehearsalChange(AnswerModel):
    """A place that a rehearsal changed in its copy."""

    place: str
    """Such as ``farm:startup.lua``."""
    path: str
    before: str
    """The sha256 of a file, ``absent`` or ``directory``, as the one below."""
    after: str
    diff: str | None
    """null: no text changed."""
    cut: bool
    """Whether the diff goes on."""
    binary: str
    """What was and what will be in one line, where one of them is binary; of that the diff shows nothing."""


class RehearsalAnswer(AnswerModel):
    """What a rehearsal came to so far."""

    task_id: str
    computer: str
    """The real one."""
    state: State
    """``ending``: it is over, and its copy is looked at; ``asked``: ``applied_by`` asks for all of it."""
    message: str
    """A sentence; empty until it is over."""
    applied_by: str | None
    """The task that asks for all of it; null: nothing is to be applied."""
    outcome: Outcome | None
    """What became of that task."""
    left_out: dict[str, str]
    """What was not in the copy, by path with why; the first of them."""
    changed: int
    """Places that are another in the copy."""
    changes: list[RehearsalChange]
    """The first 500 of them."""
