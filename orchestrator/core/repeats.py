"""A model that asks for the same call again and again: told of it at the third time, ended at the sixth.

A call is the same when its digest is (tool, arguments, computer). What was asked for before another
change or run succeeded does not count: after an edit the same program is run anew for a reason.
The numbers are those of models.md, section 4.
"""

from collections.abc import Iterable
from typing import Final

from orchestrator.core.evidence import Over

NUDGE_AT: Final = 3
STOP_AT: Final = 6

_KEPT: Final = 64
"""Calls that are remembered: a step must not cost more the longer its task is."""

Repeats = tuple[tuple[str, int], ...]
"""(call digest, how often it was made), the one made last at the end."""


def after(repeats: Repeats, calls: Iterable[Over]) -> Repeats:
    """The counts once these calls of one step are over."""
    calls = tuple(calls)
    changes = {one.call.call_digest for one in calls if one.mutates and one.ok}
    counts = dict(repeats)
    for one in calls:
        digest = one.call.call_digest
        counts[digest] = counts.pop(digest, 0) + 1
    # A change makes every other call a new one, but not itself.
    kept = [(digest, count) for digest, count in counts.items() if not changes or digest in changes]
    return tuple(kept[-_KEPT:])


def times(repeats: Repeats, digests: Iterable[str]) -> int:
    """How often the call of these that was made most often has been made; 0: none has."""
    counts = dict(repeats)
    return max((counts.get(digest, 0) for digest in digests), default=0)


def nudge(count: int) -> str:
    """What the model is told beside the result of a call that it made ``count`` times; empty: nothing yet."""
    if count < NUDGE_AT:
        return ""
    return (
        f"You have made this very call {count} times and nothing has changed in between, so it tells nothing new. "
        f"Do something else, or send a final. At {STOP_AT} times the task ends."
    )
