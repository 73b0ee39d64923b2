"""What is told of an undo: made of the task that takes changes back, of its plan, and of what was touched."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.text.paths import unspelled
from orchestrator.core.undo.messages import Outcome, TaskChange, UndoLimit, UndoPlace
from orchestrator.core.undo.plan import Entry
from orchestrator.core.undo.touches import Changes, Place, Touch, Untold, as_argument, shown
from orchestrator.core.undo.wanted import Restoration

# -- What was probably meant by a path that names nothing --------------------------------

_SHOWN: Final = 3
_COMPARED: Final = 2000
"""Each takes some microseconds."""


def near(wanted: str, there: Sequence[str]) -> str:
    """The names of what is there that are nearest to a name that is not, as a sentence; empty: nothing is there.

    What only looks the same; else what has the same name elsewhere, then what is written almost so; else any.
    """
    alike = [one for one in there if _looks(one) == _looks(wanted)]
    same = [one for one in there if _name(one) == _name(wanted)]
    close = get_close_matches(wanted, there[:_COMPARED], n=_SHOWN, cutoff=0.6)
    found = (alike or list(dict.fromkeys([*same, *close])))[:_SHOWN]
    if found:
        return f"Near it: {', '.join(found)}."
    more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
    return f"There is: {', '.join(there[:_SHOWN])}{more}." if there else ""


def _looks(text: str) -> str:
    """A name as it looks where nobody tells bytes from letters, upper from lower case, or slashes at its ends."""
    return as_argument(unspelled(text)).strip("/").casefold()


def _name(text: str) -> str:
    return text.rpartition("/")[2].rpartition(":")[2].casefold()


# -- What became of a task that takes another's changes back, or carries out what it rehearsed: in words

_WORDS: Final = {False: ("taken back", "take it back"), True: ("applied", "apply it")}
"""What is done to a task's changes, by whether they are those of a rehearsal."""
_PATHS: Final = 3
"""Named of those that an undo was bound to."""


def outcome_of(task: AgentTask, *, waits: str = "", undone_by: TaskId | None = None) -> Outcome:
    """The outcome of a task that restores; ``waits``: what it waits for, ``undone_by``: what took it back in turn."""
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
    """The record that counts, of several from old to new; None: there is none.

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


# -- What an undo changes, place by place


def told_changes(changed: Changes) -> tuple[TaskChange, ...]:
    """Each place once, with its first and its last state; a place that came back to its first state is left out."""
    first: dict[Place, Touch] = {}
    last: dict[Place, Touch] = {}
    for touch in changed.touches:
        first.setdefault(touch.place, touch)
        last[touch.place] = touch
    return tuple(
        TaskChange(
            place=str(place),
            computer=place.computer,
            path=shown(place.path),
            step=last[place].step,
            before=first[place].before,
            after=last[place].after,
        )
        for place in first
        if first[place].before != last[place].after
    )


def told_places(entries: Sequence[Entry]) -> tuple[UndoPlace, ...]:
    """What an undo does, place by place."""
    return tuple(
        UndoPlace(
            place=str(one.place),
            computer=one.place.computer,
            path=shown(one.place.path),
            verdict=one.verdict,
            why=one.why,
            step=one.goal.step,
            target=one.goal.target,
            found=None if one.found is None else one.found.state,
        )
        for one in entries
    )


def told_limits(untold: Sequence[Untold]) -> tuple[UndoLimit, ...]:
    """The changes of a task that no undo takes back, or that nobody knows yet."""
    return tuple(UndoLimit(step=one.step, tool=one.tool, computer=one.computer, what=one.what) for one in untold)
