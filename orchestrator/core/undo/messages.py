"""Requests for an undo and the messages about one: the same at every endpoint.

The console's reviewer reads them, who has neither a task nor a plan: ``telling`` makes them of those.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.text.paths import canonical_path, spelled, unspelled
from orchestrator.core.undo.wanted import OnConflict, Restoration, Verdict
from orchestrator.core.values import Value


class Outcome(BaseModel):
    """What became of a task that takes another's changes back, or carries out what it rehearsed."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

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


# -- What people ask of an undo, and what they are told of it: the same at every endpoint


class UndoRequest(Value):
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


class _Somewhere(Value):
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


class UndoLimit(Value):
    """What no undo takes back."""

    step: int
    tool: str
    computer: str | None
    what: str


class UndoOffer(Value):
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
