"""A model that asks for the same call again and again: told of it at the third time, ended at the sixth.

A call is the same when its digest is (tool, arguments, computer). Calls before another change or run that succeeded do
not count: after an edit the same program is run again for a reason. A call whose result has changed begins a new count
as well: so a model looks how far a turtle is. One that failed because the computer was busy counts as nothing. The
numbers are those of models.md, section 4; other ways of going round are in ``rounds``.
"""

from collections.abc import Iterable
from typing import Final

from orchestrator.core.task.rounds import Call, is_passing, result_digest

NUDGE_AT: Final = 3
STOP_AT: Final = 6

_KEPT: Final = 64
"""Calls that are remembered: a step must not cost more the longer its task is."""

Repeats = tuple[tuple[str, int, str], ...]
"""(call digest, how often it was made, digest of its last result), the one made last at the end."""


def after(repeats: Repeats, calls: Iterable[Call]) -> Repeats:
    """The counts once these calls of one step are over."""
    calls = tuple(one for one in calls if not is_passing(one))
    changes = {one.call.call_digest for one in calls if one.mutates and one.ok}
    made = {digest: (count, result) for digest, count, result in repeats}
    for one in calls:
        digest, result = one.call.call_digest, result_digest(one)
        count, last = made.pop(digest, (0, result))
        made[digest] = (count + 1 if last == result else 1, result)
    # A change makes every other call a new one, but not itself.
    kept = [(digest, *counted) for digest, counted in made.items() if not changes or digest in changes]
    return tuple(kept[-_KEPT:])


def times(repeats: Repeats, digests: Iterable[str]) -> int:
    """How often the call of these that was made most often has been made; 0: none has."""
    counts = {digest: count for digest, count, _ in repeats}
    return max((counts.get(digest, 0) for digest in digests), default=0)


def nudge(count: int) -> str:
    """The note for the model beside the result of a call that it made ``count`` times; empty: nothing yet."""
    if count < NUDGE_AT:
        return ""
    return (
        f"You have made this very call {count} times and nothing has changed in between, so it tells nothing new. "
        f"Do something else, or send a final. At {STOP_AT} times the task ends."
    )
