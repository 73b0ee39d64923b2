"""What became of a task that takes another's changes back, or carries out what it rehearsed: in words."""

from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict

from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.task import AgentTask
from orchestrator.core.task.task_states import TaskStatus
from orchestrator.core.undo.wanted import Restoration

_WORDS: Final = {False: ("taken back", "take it back"), True: ("applied", "apply it")}
"""What is done to a task's changes, by whether they are those of a rehearsal."""
_PATHS: Final = 3
"""Named of those that an undo was bound to."""


class Outcome(BaseModel):
    """What became of a task that takes another's changes back, or carries out what it rehearsed."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    task_id: str
    status: TaskStatus
    told: str
    """Part of a sentence: ``taken back by t-5f1c (Completed: 3 put back)``."""
    open: bool
    """Whether it goes on."""
    whole: bool
    """Whether all of the changes were meant, and not only a step of them or some paths."""
    did: bool
    """Whether it is over and has changed something."""
    kept: bool
    """Whether it kept what somebody made since, or may have, and another undo could replace that."""
    undone_by: str | None
    """The task that took this one back in turn; null: none did."""


def outcome_of(task: AgentTask, *, waits: str = "", undone_by: TaskId | None = None) -> Outcome:
    """What became of a task that restores; ``waits``: what it waits for, ``undone_by``: what took it back in turn."""
    wanted = task.restores or Restoration()
    details = task.ended.details if task.ended is not None else {}
    return Outcome(
        task_id=task.task_id,
        status=task.status,
        told=_told(task, wanted, waits, undone_by),
        open=task.ended is None,
        whole=wanted.step is None and not wanted.paths,
        did=bool(details.get("put_back")),
        kept=bool(details.get("kept")) and wanted.on_conflict != "restore",
        undone_by=undone_by,
    )


def that_counts(outcomes: Sequence[Outcome]) -> Outcome | None:
    """Of several, oldest first, the one that says how it stands; None: there is none.

    One that goes on; else, of those that changed something, one that did all of it and stands, one that did a part so,
    or the last; else the last of all.
    """
    going = [one for one in outcomes if one.open]
    acting = [one for one in outcomes if one.did]
    done = [one for one in acting if one.status is TaskStatus.COMPLETED and one.undone_by is None]
    whole = [one for one in done if one.whole]
    return next((some[-1] for some in (going, whole, done, acting, outcomes) if some), None)


def _told(task: AgentTask, wanted: Restoration, waits: str, undone_by: TaskId | None) -> str:
    done, do = _WORDS[wanted.applies]
    part = _part(wanted)
    ended, name = task.ended, task.task_id
    if ended is None:
        how = waits or task.status_reason or task.status.value
        return f"being {done}{part} by {name} ({how})"
    message = ended.message.rstrip(".")
    if task.status is TaskStatus.COMPLETED:
        in_turn = f", which {undone_by} took back in turn" if undone_by is not None else ""
        return f"{done}{part} by {name} (Completed{f': {message}' if message else ''}){in_turn}"
    if task.status is TaskStatus.FAILED:
        return f"{name} failed to {do}{part}{f': {message}' if message else ''}"
    return f"{name}, which was to {do}{part}, was canceled{f' ({message})' if message else ''}"


def _part(wanted: Restoration) -> str:
    """Which part of the changes is meant; empty: all of them."""
    steps = [f"step {wanted.step}"] if wanted.step is not None else []
    more = len(wanted.paths) - _PATHS
    paths = [*wanted.paths[:_PATHS], *([f"{more} more"] if more > 0 else [])]
    named = [*steps, *paths]
    return f" in part ({', '.join(named)})" if named else ""
