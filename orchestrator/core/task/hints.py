"""Which files a person has tried to change by themselves, for rules with the effect ``hint``.

Theory. A call under ``hint`` does not run at first: the model is told to explain it. The states of its targets are kept
as they were then. Once one of them is another, and no call of the task may have changed it, somebody else has: from
then on calls on it go to a person as with ``ask``. A call of the task that changes something forgets the states of its
computer, so that the next explanation counts anew: what a model did itself is never taken for an attempt of its user.
"""

from collections.abc import Mapping
from dataclasses import field, replace

from orchestrator.core.values import ComputerId, immutable

Place = tuple[ComputerId | None, str]
"""A computer (None: the workspace on this host) and a path there."""


@immutable
class Hints:
    """The explained files of one task."""

    explained: Mapping[Place, str] = field(default_factory=dict)
    """Their states when they were explained first: a sha256, ``absent`` or ``directory``."""
    tried: frozenset[Place] = frozenset()
    """The files that somebody else has changed since."""

    def releases(self, computer: ComputerId | None, found: Mapping[str, str]) -> bool:
        """Whether a call whose targets are in these states goes to a person now, and is not only explained."""
        places = {(computer, path): state for path, state in found.items()}
        return any(place in self.tried or self.explained.get(place, state) != state for place, state in places.items())

    def after_explaining(self, computer: ComputerId | None, seen: Mapping[str, str]) -> "Hints":
        """A call on these targets was not run: the model explains it. The first explanation counts."""
        places = {(computer, path): state for path, state in seen.items()}
        return replace(self, explained={**places, **self.explained})

    def after_trying(self, computer: ComputerId | None, found: Mapping[str, str]) -> "Hints":
        """A call on these targets was put before a person: they stay released for this task."""
        return replace(self, tried=self.tried.union((computer, path) for path in found))

    def after_changing(self, computer: ComputerId | None) -> "Hints":
        """A call of the task has changed something there, or may have."""
        kept = {place: state for place, state in self.explained.items() if place[0] != computer}
        return self if len(kept) == len(self.explained) else replace(self, explained=kept)


NO_HINTS = Hints()
