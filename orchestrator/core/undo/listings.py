"""All that is on a computer at one moment: each path, and the hash of each file.

Kept as the lines that a computer takes the hash of a directory over, so that a listing has the hash that the computer
itself would say.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, takewhile
from types import MappingProxyType

from orchestrator.core.undo.plan import ANYTHING, Found, Goal
from orchestrator.core.undo.touches import ABSENT, DIRECTORY, NO_HASH, Place, differing, states_of
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import sha256_hex


@dataclass(frozen=True)
class Listing:
    """Paths from the root, each with the sha256 of a file or ``directory``; the root itself is none of them."""

    states: Mapping[str, str]

    @cached_property
    def lines(self) -> bytes:
        """As it is kept."""
        return _lines(self.states)

    def state(self, path: str) -> str:
        """What is at a path: the sha256 of a file, ``directory`` or ``absent``."""
        return self.states.get(path, ABSENT)

    def found(self, path: str) -> Found:
        """What is at a path, as somebody who looks there finds it."""
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
        """What of it is wanted."""
        return Listing({path: state for path, state in self.states.items() if wanted(path)})

    @property
    def files(self) -> Mapping[str, str]:
        """Its files, each with its sha256."""
        return {path: state for path, state in self.states.items() if state != DIRECTORY}


@dataclass(frozen=True)
class Listed:
    """What is on a computer, as far as it can be told."""

    listing: Listing
    skipped: Mapping[str, str] = field(default_factory=dict)
    """What is there and not in the listing, each with why as a sentence."""
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
    """What is to be put back so that a computer is as a listing has it, in the order of the paths.

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
