"""What an undo has to leave behind, told from what was seen on the disks and from nothing else.

The oracle knows no journal and no hash: somebody looked at every byte before and after each step. From that it
says, place by place, what an undo puts back, what it keeps since a person changed it, and which tree comes of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from orchestrator.core.undo.wanted import OnConflict

State = bytes | str | None
"""The bytes of a file, None of a directory, or ABSENT."""
ABSENT: Final = "absent"
Tree = dict[str, bytes | None]
"""By place, written as ``COMPUTER:PATH`` or ``workspace:PATH``."""


@dataclass(frozen=True)
class Seen:
    """What was there before and after some calls of one step."""

    step: int
    before: Tree
    after: Tree


@dataclass(frozen=True)
class Asked:
    """What an undo is asked to take back."""

    step: int | None = None
    path: str | None = None
    on_conflict: OnConflict = "keep"

    def body(self) -> dict[str, object]:
        """As the endpoint takes it."""
        paths = [self.path] if self.path is not None else []
        return {"step": self.step, "paths": paths, "on_conflict": self.on_conflict}


@dataclass(frozen=True)
class Wanted:
    """A place, and what an undo does there."""

    target: State
    expected: State


def state(tree: Mapping[str, bytes | None], place: str) -> State:
    """What is in a place."""
    return tree.get(place, ABSENT)


def above(place: str) -> Iterator[str]:
    """The directories above a place, the highest first."""
    where, _, path = place.partition(":")
    parts = path.split("/")
    return (f"{where}:{'/'.join(parts[:count])}" for count in range(1, len(parts)))


def wanted(seen: list[Seen], asked: Asked) -> dict[str, Wanted]:
    """The places that were changed, each with what it was and what it was left as."""
    places: dict[str, Wanted] = {}
    for one in seen:
        if asked.step in (None, one.step):
            for place in sorted({*one.before, *one.after}):
                before, after = state(one.before, place), state(one.after, place)
                if before != after and _covers(asked, place):
                    known = places.get(place)
                    # What a person made of it between two steps is what it goes back to.
                    target = known.target if known is not None and known.expected == before else before
                    places[place] = Wanted(target, after)
    return places


def _covers(asked: Asked, place: str) -> bool:
    path = place.partition(":")[2]
    return asked.path is None or f"{path}/".startswith(f"{asked.path}/")


def comes_of(now: Tree, places: Mapping[str, Wanted], asked: Asked, task_id: str) -> Tree:
    """The tree that an undo leaves."""
    left: dict[str, State] = dict(now)
    for place, one in places.items():
        _decide(left, now, place, one, asked.on_conflict, task_id)
    while _fits_together(left, now):
        pass
    return {place: data for place, data in left.items() if not isinstance(data, str)}


def _decide(left: dict[str, State], now: Tree, place: str, one: Wanted, choice: OnConflict, task_id: str) -> None:
    found, target = state(now, place), one.target
    # What stood in its place, of another kind, is gone: it tramples nothing.
    free = found == ABSENT and isinstance(one.target, bytes) != isinstance(one.expected, bytes)
    free = free and ABSENT not in (one.target, one.expected)
    restored = choice == "restore" and found is not None and one.target is not None
    if found in (one.target, one.expected) or free or restored:
        left[place] = target
    elif choice == "beside" and isinstance(target, bytes):
        left.setdefault(f"{place}.before-{task_id}", target)


def _fits_together(left: dict[str, State], now: Tree) -> bool:
    """Keep what cannot go, and leave out what cannot come; whether anything was changed."""
    for place in sorted(left):
        if left[place] == ABSENT:
            continue
        for one in above(place):
            if left.get(one, ABSENT) is None:
                continue
            if isinstance(left.get(one), bytes) and now.get(one, b"") is not None:
                left[place] = ABSENT  # under a file that stays, or that comes back, there can be nothing
            else:
                left[one] = None
            return True
    return False


def differing(left: Tree, right: Tree) -> list[str]:
    """The places that are not alike, for a failure's message."""
    return sorted(place for place in {*left, *right} if state(left, place) != state(right, place))
