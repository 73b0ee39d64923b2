"""What a restoration is asked to put back."""

from typing import Final, Literal

from pydantic import Field

from orchestrator.core.values import Value

OnConflict = Literal["keep", "restore", "beside"]
"""What becomes of a place that somebody else changed: it stays, it is replaced, or the old file is put beside it."""

MODEL: Final = "undo"
"""Stands where a task names its model: no model has a hand in a restoration."""


class Restoration(Value):
    """What is to be put back."""

    task_id: str
    """The task whose changes are taken back."""
    step: int | None = None
    """Only what this step of it changed; None: all of them."""
    paths: tuple[str, ...] = ()
    """Canonical paths: only these and what is below them; empty: everywhere."""
    on_conflict: OnConflict = "keep"
    choices: dict[str, OnConflict] = Field(default_factory=dict)
    """Of single places, by their text as :class:`~orchestrator.core.restoring.touches.Place` writes it."""

    def covers(self, step: int, path: str) -> bool:
        """Whether a change of this step at this path is to be taken back."""
        wanted = not self.paths or any(path == one or path.startswith(f"{one}/") or not one for one in self.paths)
        return wanted and self.step in (None, step)

    def choice(self, place: str) -> OnConflict:
        """What becomes of a conflict at a place."""
        return self.choices.get(place, self.on_conflict)
