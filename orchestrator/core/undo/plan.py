"""The plan of a restoration: one action for each path, by the present content.

Theory. A place goes back to the state before the task's first change of it. If somebody else changed it between two
changes of the task, it goes back to that person's state. This is done where the place is as the task left it. Where it
is not, somebody changed it since, and it stays unless a person chose otherwise. A restoration goes on in rounds: after
each, its own changes are the expected state, and the rest is planned again, so that it may be killed anywhere.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, pairwise, takewhile
from types import MappingProxyType
from typing import Final, Literal

from orchestrator.core.undo.touches import (
    ABSENT,
    DIRECTORY,
    NO_HASH,
    Changes,
    Place,
    Touch,
    differing,
    shown,
    states_of,
)
from orchestrator.core.undo.wanted import Restoration, Verdict
from orchestrator.core.values import sha256_hex
from orchestrator.core.wire.wire import MAX_WHOLE_BYTES

# -- What a restoration does at each place, by what is there now -------------------------

ANYTHING: Final = "anything"
"""The expected state of a place where anything may be: whatever is there is replaced."""
MAX_CALLS: Final = 500
"""Calls of one round: as many as a person may be shown at once; the next round does the rest."""
MAX_TREE_FILES: Final = 500
"""Different files in a directory that is taken as a whole: each needs a command of its own, some 25 s of looking."""
MAX_TREE_BYTES: Final = MAX_WHOLE_BYTES
"""Bytes of a directory that is taken as a whole, with all that is in it."""
_NAMED: Final = 3


@dataclass(frozen=True)
class Goal:
    """One place and the state that it is to have again."""

    place: Place
    target: str
    expected: str | None
    """What was left there, or ``anything``; None: nobody knows whether the change was done."""
    step: int
    """The last step that is taken back here; 0: it is put back as a listing has it."""
    note: str = ""
    """A note about it, as a sentence."""


@dataclass(frozen=True)
class Found:
    """What is in a place now."""

    state: str
    inside: tuple[str, ...] = ()
    """For a directory: the paths of all that is in it."""
    tree: str = ""
    """For a directory: the hash over all that is in it."""
    size: int = 0
    """For a file: its bytes."""
    under: str = ""
    """Where nothing is: the path of the file above it, under which nothing can be; empty: there is none."""
    fault: str = ""
    """Why nobody can say what is there; empty: it was looked at."""

    @property
    def sha256(self) -> str:
        """The hash that a call is bound to: of the file or of all that is in the directory, or ``absent``."""
        return self.tree if self.state == DIRECTORY else self.state


@dataclass(frozen=True)
class Entry:
    """The deed of a restoration at a place."""

    goal: Goal
    found: Found | None
    verdict: Verdict
    why: str = ""

    @property
    def place(self) -> Place:
        """Where."""
        return self.goal.place


@dataclass(frozen=True)
class Op:
    """One call of a restoration: bring a place into a state."""

    place: Place
    to: str
    found: str
    """The hash of what was there when it was planned, or ``absent``: anything else is not touched."""
    replaces: Literal["", "file", "directory"] = ""
    """What is there, where it is of another kind and goes in the same step; empty: it is not."""


def goals_of(changed: Changes, wanted: Restoration) -> tuple[Goal, ...]:
    """The places to put back, in order."""
    places: dict[Place, list[Touch]] = {}
    later: dict[Place, int] = {}
    # A file that was written over with the very same bytes was not changed.
    for touch in (touch for touch in changed.touches if touch.before != touch.after):
        if any(wanted.covers(touch.step, path) for path in {touch.place.path, shown(touch.place.path)}):
            places.setdefault(touch.place, []).append(touch)
        elif touch.place in places:
            later[touch.place] = touch.step
    return tuple(_goal(touches, later.get(place)) for place, touches in sorted(places.items(), key=_by_place))


def _by_place(one: tuple[Place, object]) -> tuple[str, str]:
    return one[0].computer or "", one[0].path


def _goal(touches: Sequence[Touch], later: int | None) -> Goal:
    target, expected, note = touches[0].before, touches[0].after, ""
    for earlier, touch in pairwise(touches):
        if expected is not None and touch.before != expected:
            target = touch.before
            note = f"Somebody changed it between steps {earlier.step} and {touch.step}: it goes back to what they made."
        expected = touch.after
    if later is not None:
        note = f"Step {later} of the task changed it again."
    return Goal(touches[-1].place, target, expected, touches[-1].step, note)


def progressed(goals: Iterable[Goal], own: Changes) -> tuple[Goal, ...]:
    """The goals once the restoration itself has done something: its own changes are expected."""
    left = {touch.place: touch.after for touch in own.touches}
    return tuple(replace(goal, expected=left.get(goal.place, goal.expected)) for goal in goals)


def plan(goals: Sequence[Goal], found: Mapping[Place, Found | None], wanted: Restoration) -> tuple[Entry, ...]:
    """The deed at each place, by the state that was found there; None: nobody could look."""
    entries = [_entry(goal, found[goal.place], wanted) for goal in goals]
    # The deepest first: a directory is removed where all that is in it is.
    going = {entry.place for entry in entries if entry.verdict == "remove" and not _is_directory(entry)}
    for at in sorted(range(len(entries)), key=lambda at: -_depth(entries[at].place)):
        entries[at] = _emptied(entries[at], going)
        if entries[at].verdict == "remove":
            going.add(entries[at].place)
    leaving = {entry.place for entry in entries if entry.verdict in ("remove", "restore")}
    return tuple(_reached(entry, leaving) for entry in entries)


def _entry(goal: Goal, found: Found | None, wanted: Restoration) -> Entry:
    if found is None:
        return Entry(goal, None, "away", "The computer is away.")
    if found.fault:
        return Entry(goal, found, "conflict", found.fault)
    if found.state == goal.target:
        return Entry(goal, found, "nothing", "It is as it was.")
    if wanted.choices.get(str(goal.place)) in ("keep", "beside"):
        return Entry(goal, found, "conflict", "It was chosen to stay.")
    done: Verdict = "remove" if goal.target == ABSENT else "restore"
    if goal.expected in (found.state, ANYTHING) or _is_half_way(goal, found):
        return Entry(goal, found, done, goal.note)
    why = _why(goal, found)
    # A directory that somebody made or removed since stays as it is; where nobody knows, a person may say whose it is.
    a_matter_of_choice = goal.expected is None or DIRECTORY not in (found.state, goal.target)
    if wanted.choice(str(goal.place)) == "restore" and a_matter_of_choice:
        return Entry(goal, found, done, why)
    return Entry(goal, found, "conflict", why)


def _is_half_way(goal: Goal, found: Found) -> bool:
    """Whether what was left there, of another kind than what is to come, is gone: an earlier undo may have been cut."""
    gone = found.state == ABSENT and goal.target != ABSENT and goal.expected not in (None, ABSENT)
    return gone and (goal.target == DIRECTORY) != (goal.expected == DIRECTORY)


def _why(goal: Goal, found: Found) -> str:
    if goal.expected is None:
        return "Nobody knows whether the task changed it."
    if goal.note.startswith("Step "):
        return goal.note
    if found.state == ABSENT:
        return "Somebody removed it since."
    if goal.expected == ABSENT:
        return "Somebody put something there since."
    return "Somebody changed it since."


def _emptied(entry: Entry, going: set[Place]) -> Entry:
    """The deeds for a directory that is to go, if nothing stays in it."""
    if entry.verdict not in ("remove", "restore") or entry.found is None or not _is_directory(entry):
        return entry
    place = entry.place
    left = [one for one in entry.found.inside if Place(place.computer, f"{place.path}/{one}") not in going]
    if not left:
        return entry
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    why = f"It is not empty: {', '.join(map(shown, left[:_NAMED]))}{more} would stay in it."
    return replace(entry, verdict="conflict", why=why)


def _reached(entry: Entry, leaving: set[Place]) -> Entry:
    """The new content of a place, unless a file that stays is above it."""
    under = entry.found.under if entry.found is not None else ""
    if entry.verdict != "restore" or not under or Place(entry.place.computer, under) in leaving:
        return entry
    return replace(entry, verdict="conflict", why=f"{shown(under)} is a file now, and nothing can be in it.")


def beside(entry: Entry, wanted: Restoration) -> Place | None:
    """Where the old file of a conflict is put beside what is there now; None: nowhere, or it was not a file."""
    chosen = entry.verdict == "conflict" and wanted.choice(str(entry.place)) == "beside"
    if not chosen or entry.goal.target in (ABSENT, DIRECTORY):
        return None
    return Place(entry.place.computer, f"{entry.place.path}.before-{wanted.task_id}")


def ops_of(entries: Sequence[Entry], *, in_vain: Callable[[Op], bool] = lambda _: False) -> tuple[Op, ...]:
    """All calls that can be made now, in their order.

    Directories are made and files written first, so that nothing is gone before its replacement is there. Then the rest
    is removed, the deepest first; a directory goes with all that is in it, unless that is too much for one call, or is
    on this host. An entry that replaces one of another kind takes its place in one step. Where that cannot be, it waits
    for the next round, until the old entry is gone.

    ``in_vain``: whether a call was made already and came to nothing; a directory then goes piece by piece, and what
    is of another kind before what takes its place comes.
    """
    others = [entry for entry in entries if entry.verdict == "restore" and _other_kind(entry)]
    going = [*(entry for entry in entries if entry.verdict == "remove"), *others]
    trees = {entry.place: entry for entry in going if _is_directory(entry) and entry.place.computer is not None}
    large = _large(trees, going)
    swapped = {
        entry.place
        for entry in others
        if entry.place.computer is not None and entry.place not in large and not in_vain(_op(entry))
    }
    large |= {place for place, tree in trees.items() if place not in swapped and in_vain(_removal(tree))}
    leaving = [entry for entry in going if entry.place not in swapped]
    in_the_way = {entry.place for entry in leaving if entry.verdict == "restore" or not _is_directory(entry)}
    making = [entry for entry in entries if entry.verdict == "restore" and not _waits(entry, in_the_way)]
    # With a directory of a computer goes all that is in it; a large one, and one of this host, goes when it is empty.
    whole = trees.keys() - large
    removing = [one for one in leaving if one.place not in large and whole.isdisjoint(above(one.place))]
    return (
        *(_op(entry) for entry in sorted(making, key=_directories_first)),
        *(_removal(entry) for entry in sorted(removing, key=_deepest_first)),
    )


def without_place(ops: Sequence[Op], stays: Set[Place]) -> Set[Place]:
    """The places for which there is no place, since what would have to be above them was refused and is not made."""
    return {op.place for op in ops if op.to != ABSENT and not stays.isdisjoint(above(op.place))}


def _large(trees: Collection[Place], going: Sequence[Entry]) -> set[Place]:
    """The directories that cannot be removed as a whole with all their content kept for an undo."""
    sizes: dict[Place, dict[str, int]] = {place: {} for place in trees}
    for entry in going:
        for place in above(entry.place):
            if place in sizes and entry.found is not None and entry.found.state != DIRECTORY:
                sizes[place][entry.found.state] = entry.found.size
    return {one for one, each in sizes.items() if len(each) > MAX_TREE_FILES or sum(each.values()) > MAX_TREE_BYTES}


def _op(entry: Entry) -> Op:
    """The call that makes of what is there what is to be there."""
    replaces: Literal["", "file", "directory"] = ""
    if _other_kind(entry):
        replaces = "directory" if _is_directory(entry) else "file"
    return Op(entry.place, entry.goal.target, _hash_of(entry), replaces)


def _removal(entry: Entry) -> Op:
    return Op(entry.place, ABSENT, _hash_of(entry))


def _hash_of(entry: Entry) -> str:
    return entry.found.sha256 if entry.found is not None else ABSENT


def _is_directory(entry: Entry) -> bool:
    return entry.found is not None and entry.found.state == DIRECTORY


def _other_kind(entry: Entry) -> bool:
    """Whether a directory is where a file is to be, or the other way about."""
    there = entry.found is not None and entry.found.state != ABSENT
    return there and _is_directory(entry) != (entry.goal.target == DIRECTORY)


def _waits(entry: Entry, in_the_way: Set[Place]) -> bool:
    """Whether a place cannot be filled while something of another kind is there, or above it."""
    return entry.place in in_the_way or not in_the_way.isdisjoint(above(entry.place))


def above(place: Place) -> Iterator[Place]:
    """The directories above a place."""
    path = place.path.rpartition("/")[0]
    while path:
        yield Place(place.computer, path)
        path = path.rpartition("/")[0]


def _depth(place: Place) -> int:
    return place.path.count("/")


def _directories_first(entry: Entry) -> tuple[bool, int, str]:
    return entry.goal.target != DIRECTORY, _depth(entry.place), entry.place.path


def _deepest_first(entry: Entry) -> tuple[int, str]:
    return -_depth(entry.place), entry.place.path


# -- All that is on a computer at one moment: each path, and the hash of each file -------
#
# Kept as the lines that a computer takes the hash of a directory over, so that a listing has the hash that the
# computer itself would say.


@dataclass(frozen=True)
class Listing:
    """Paths from the root, each with the sha256 of a file or ``directory``; the root itself is not among them."""

    states: Mapping[str, str]

    @cached_property
    def lines(self) -> bytes:
        """The listing as it is kept."""
        return _lines(self.states)

    def state(self, path: str) -> str:
        """The state of a path: the sha256 of a file, ``directory`` or ``absent``."""
        return self.states.get(path, ABSENT)

    def found(self, path: str) -> Found:
        """The state of a path, as a look finds it."""
        state = self.state(path)
        if state != DIRECTORY:
            return Found(state)
        below = f"{path}/"
        start = bisect_left(self._sorted, below)
        paths = takewhile(lambda one: one.startswith(below), islice(self._sorted, start, None))
        within = {one.removeprefix(below): self.states[one] for one in paths}
        return Found(DIRECTORY, tuple(within), tree=sha256_hex(_lines(within)))

    @cached_property
    def _sorted(self) -> Sequence[str]:
        return sorted(self.states)

    def only(self, wanted: Callable[[str], bool]) -> "Listing":
        """The places that are wanted."""
        return Listing({path: state for path, state in self.states.items() if wanted(path)})

    @property
    def files(self) -> Mapping[str, str]:
        """Its files, each with its sha256."""
        return {path: state for path, state in self.states.items() if state != DIRECTORY}


@dataclass(frozen=True)
class Listed:
    """The files of a computer, as far as they are known."""

    listing: Listing
    skipped: Mapping[str, str] = field(default_factory=dict)
    """The entries that are there and not in the listing, each with the reason as a sentence."""
    pieces: frozenset[str] = frozenset()
    """The pieces of the computer's own token in the names."""

    def tells_of(self, path: str) -> bool:
        """Whether what the listing has of a path is so: what is on another disk, or was skipped, it does not have."""
        top = path.partition("/")[0]
        return top in self.listing.states and not any(f"{path}/".startswith(f"{one}/") for one in self.skipped)


def read_listing(lines: bytes) -> Listing:
    """A listing from its lines. Raises Unreadable."""
    return Listing(MappingProxyType(states_of(lines)))


def differences(before: Listing, after: Listing) -> dict[str, tuple[str, str]]:
    """The paths whose states differ, sorted, each with what it was and what it is."""
    return differing(before.states, after.states)


def goals_to(
    target: Listing,
    wanted: Restoration,
    *,
    base: Listing | None = None,
    present: Listing | None = None,
    first: Listing | None = None,
) -> tuple[Goal, ...]:
    """The places to put back so that a computer is as a listing has it, in the order of the paths.

    ``base``: what is expected there. ``present``: what is there now, which an exact restoration removes where the
    target does not have it; None: nobody could look. ``first``: what was there at its first look; it removes nothing
    that came or changed since. None: this is the first.
    """
    if base is not None:
        states = differences(base, target)
    else:
        was = (first or present or Listing({})).states
        extra = {path: (was[path], ABSENT) for path in extras(target, wanted, present) if path in was}
        states = dict(sorted((extra | {path: (ANYTHING, state) for path, state in target.states.items()}).items()))
    return tuple(
        Goal(Place(wanted.computer, path), becomes, expected, 0)
        for path, (expected, becomes) in states.items()
        if wanted.wants(path)
    )


def extras(target: Listing, wanted: Restoration, present: Listing | None) -> tuple[str, ...]:
    """The paths of what is there now and what an exact restoration would remove."""
    there = present.states if present is not None else {}
    return tuple(path for path in there if path not in target.states and wanted.removes(path) and wanted.wants(path))


def _lines(states: Mapping[str, str]) -> bytes:
    lines = sorted((path.encode("utf-8", "surrogateescape"), state) for path, state in states.items())
    return b"".join(path + _line(state) for path, state in lines)


def _line(state: str) -> bytes:
    kind, sha256 = ("directory", NO_HASH) if state == DIRECTORY else ("file", state)
    return f"\0{kind}\0{sha256}\n".encode()
