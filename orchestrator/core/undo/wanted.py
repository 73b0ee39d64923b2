"""The target of a restoration."""

from typing import Final, Literal

from pydantic import Field

from orchestrator.core.text.paths import unspelled
from orchestrator.core.values import ComputerId, Value

OnConflict = Literal["keep", "restore", "beside"]
"""What happens to a place that somebody else changed: it stays, it is replaced, or the old file is put beside it."""
Verdict = Literal["restore", "remove", "conflict", "nothing", "away"]
"""``nothing``: it is as it is to be; ``away``: nobody can look there now."""

MODEL: Final = "undo"
"""Stands where a task names its model: no model has a hand in a restoration."""


def planned(told: str, user_id: str) -> str:
    """What a restoration proposes, with whose words those are: no model's; ``user_id``: for whom it was begun."""
    return f"Planned by the orchestrator for {user_id}: {told}"


class Restoration(Value):
    """What is to be put back: what a task changed, or a computer's files as a listing has them."""

    task_id: str = ""
    """The task whose changes are taken back; with a listing: the task that the listing is of, or nothing."""
    step: int | None = None
    """Only what this step of it changed; None: all of them."""
    paths: tuple[str, ...] = ()
    """Canonical paths, as :func:`~orchestrator.core.text.paths.spelled` writes them: only these and what is below them;
    empty: everywhere."""
    on_conflict: OnConflict = "keep"
    choices: dict[str, OnConflict] = Field(default_factory=dict)
    """The choices for single places, by their text as :class:`~orchestrator.core.undo.touches.Place` writes it."""
    listing: str = ""
    """The sha256 of a listing's lines: the computer's files become as it has them. Empty: a task is undone."""
    computer: ComputerId | None = None
    """With a listing: whose files they are."""
    base: str = ""
    """The sha256 of the lines of the listing that is expected there: only what differs between the two is changed,
    and what differs from it now was made by somebody else. Empty: whatever is there is replaced."""
    exact: bool = False
    """Without a base: files that the listing does not have are removed."""
    leaves: tuple[str, ...] = ()
    """With ``exact``: paths that stay with what is below them, since the listing cannot tell of them; an empty one: all
    that it does not have."""

    @property
    def applies(self) -> bool:
        """Whether it carries out what a rehearsal changed in a copy."""
        return bool(self.listing and self.base and self.task_id)

    def covers(self, step: int, path: str) -> bool:
        """Whether a change of this step at this path is to be taken back."""
        return self.step in (None, step) and self.wants(path)

    def wants(self, path: str) -> bool:
        """Whether a path is among those that are to be put back."""
        wanted = map(unspelled, self.paths)
        return not self.paths or any(path == one or path.startswith(f"{one}/") or not one for one in wanted)

    def removes(self, path: str) -> bool:
        """Whether something that the listing does not have goes."""
        return self.exact and not any(not one or f"{path}/".startswith(f"{one}/") for one in self.leaves)

    def choice(self, place: str) -> OnConflict:
        """What happens to a conflict at a place."""
        return self.choices.get(place, self.on_conflict)
