"""Requests for an undo and the messages about one: the same at every endpoint."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.text.paths import canonical_path, spelled, unspelled
from orchestrator.core.undo.plan import Entry, Verdict
from orchestrator.core.undo.touches import Changes, Place, Touch, Untold, as_argument, shown
from orchestrator.core.undo.wanted import OnConflict, Restoration
from orchestrator.core.values import Value

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


# -- What people ask of an undo, and what they are told of it: the same at every endpoint


class _Told(Value):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class UndoRequest(_Told):
    """Which changes of a task are taken back, and what becomes of places that somebody changed since."""

    model_config = ConfigDict(strict=True)

    step: int | None = Field(default=None, ge=1)
    """Only what this step changed; None: all of them."""
    paths: tuple[str, ...] = Field(default=(), max_length=500)
    """Only these paths and what is below them, as the preview has them; empty: everywhere."""
    on_conflict: OnConflict = "keep"
    choices: dict[str, OnConflict] = Field(default_factory=dict, max_length=500)
    """Of single places, as the preview names them: ``farm:startup.lua``."""
    dry_run: bool = False
    """Only tell what would be done."""
    idempotency_key: str = Field(default="", max_length=200)
    """The same one of the same person begins no second undo; empty: each request begins one."""

    def of_task(self, task_id: str) -> Restoration:
        """The restoration that it asks for.

        Raises UnsafePath for a path that leaves the computer, InvalidRequest for one that is not text, or a place.
        """
        if any("\ud800" <= character <= "\udfff" for path in (*self.paths, *self.choices) for character in path):
            raise InvalidRequest("A path has half of a character, a lone surrogate.", remedy="Send the character.")
        if not all(self.paths):
            raise InvalidRequest("A path is empty.", remedy="Name one, or none for everything.")
        return Restoration(
            task_id=task_id,
            step=self.step,
            paths=wanted_paths(self.paths),
            on_conflict=self.on_conflict,
            choices={spelled(unspelled(place)): choice for place, choice in self.choices.items()},
        )


def wanted_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """Paths as somebody asks for them as a restoration has them. Raises UnsafePath, InvalidRequest for places."""
    for path in paths:
        if ":" in path:
            raise InvalidRequest(
                f"'{path}' is a place, and no path: a path names no computer.",
                remedy=f"Write only what is behind the colon: {path.rpartition(':')[2]}",
            )
    return tuple(spelled(canonical_path(unspelled(path))) for path in paths)


class _Somewhere(_Told):
    place: str
    """Such as ``farm:startup.lua``; of this host ``workspace:notes.txt``."""
    computer: str | None
    path: str
    """As ``place`` has it: a byte of it that is no UTF-8 is written ``\\xfc``, so that no two are written alike."""


class TaskChange(_Somewhere):
    """A place that a task changed."""

    step: int
    """The last step that changed it."""
    before: str
    """The sha256 of a file, ``absent`` or ``directory``."""
    after: str | None
    """null: nobody knows whether it was changed."""


class UndoPlace(_Somewhere):
    """What an undo does at one place."""

    verdict: Verdict
    """``nothing``: it is as it was; ``conflict``: somebody else changed it, and it stays; ``away``: nobody can look."""
    why: str
    step: int
    target: str
    """What it is to be again: the sha256 of a file, ``absent`` or ``directory``."""
    found: str | None
    """What it is now; null: nobody could look."""


class UndoLimit(_Told):
    """What no undo takes back."""

    step: int
    tool: str
    computer: str | None
    what: str


class UndoOffer(_Told):
    """What a task that is over left changed, and what became of it."""

    changes: int
    """Places that it changed, as far as what was kept still tells."""
    automatic: bool
    """They are taken back without anybody asking, as the policy said when the task failed or was canceled."""
    tasks: tuple[str, ...]
    """The tasks that were begun to take them back, oldest first."""
    unknown: int = 0
    """Of the places: those of which nobody knows whether it changed them. An undo keeps them unless told otherwise."""
    unseen: int = 0
    """Programs that were to be watched and of which nobody knows what they changed: no undo puts that back."""
    outcome: Outcome | None = None
    """How it stands by now; null: no task takes them back, or none is kept any more."""
    outcomes: tuple[Outcome, ...] = ()
    """What became of each of the last of ``tasks``."""


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
