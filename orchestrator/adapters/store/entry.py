"""The queue entry and the lease of one task: a value, and the few ways it may change.

Every adapter keeps an `Entry` beside the task's version and changes it by these functions
only, inside the transaction that also checks the version.

=========  ===============================  ==================================================
it is      when                             so
=========  ===============================  ==================================================
asleep     no holder, due None or later     only a wake or the clock makes it due
due        no holder, due now or earlier    the next ``lease`` may take it
held       a holder, lease_until later      nobody else may take it; its due stays in the past,
                                            so that it is due at once if its holder dies
expired    a holder, lease_until reached    the next ``lease`` may take it; until then the
                                            holder may go on, and going on renews the lease
=========  ===============================  ==================================================

No wake-up is lost. An append moves the version, so a holder that would sleep on an older
version is refused with Conflict; a bare wake of a held task moves nothing, so it leaves
``woken``, and a woken task falls due as its holder lets go.
"""

from typing import NamedTuple, assert_never

from orchestrator.core.ports import Schedule
from orchestrator.core.wire.wire import ComputerId


class Entry(NamedTuple):
    """Queue entry and lease; times in microseconds since 1970 in UTC."""

    due: int | None
    """None: only a wake makes it due."""
    holder: str | None = None
    """Who leases it; None: nobody, and no token is valid."""
    token: int = 0
    """The token of the newest lease there was; it only rises."""
    lease_until: int = 0
    lease_for: int = 0
    """How long the lease was asked for: what an append renews it by."""
    waiting_for: ComputerId | None = None
    """The computer it parked for, or, while it is held, the one that blocked its claim."""
    woken: int = 0
    """1: somebody woke it while it was held."""


def holds(entry: Entry, token: int) -> bool:
    """Whether this token is the lease's: given back by nobody, taken over by nobody."""
    return entry.holder is not None and entry.token == token


def leased(entry: Entry, holder: str, now: int, lease_for: int) -> Entry:
    """Held by ``holder`` with a new token; what woke it is seen by the fold that follows."""
    return Entry(due=entry.due, holder=holder, token=entry.token + 1, lease_until=now + lease_for, lease_for=lease_for)


def renewed(entry: Entry, now: int) -> Entry:
    """The lease from now on for as long as it was asked for."""
    return entry._replace(lease_until=renewed_until(entry, now))


def renewed_until(entry: Entry, now: int) -> int:
    """How long the lease holds when it is renewed now."""
    return now + entry.lease_for


def given_back(entry: Entry, now: int, due: int | None = None, waiting_for: ComputerId | None = None) -> Entry:
    """Held by nobody and asleep until ``due``, or due at once if it was woken meanwhile."""
    if entry.woken:
        due, waiting_for = now, None
    return Entry(due=due, token=entry.token, waiting_for=waiting_for)


def made_due(entry: Entry, now: int) -> Entry:
    """Due at once, the lease untouched; one that was due longer keeps its place."""
    due = now if entry.due is None else min(entry.due, now)
    return entry._replace(due=due, waiting_for=entry.waiting_for if entry.holder is not None else None)


def awakened(entry: Entry, now: int) -> Entry:
    """Due at once; a held entry stays held and remembers the wake."""
    return made_due(entry, now)._replace(woken=0 if entry.holder is None else 1)


def scheduled(entry: Entry, schedule: Schedule, token: int | None, now: int) -> Entry:
    """The entry after an append of this schedule by the holder of ``token``, or by an outsider (None)."""
    match schedule:
        case "keep":
            return entry
        case "wake":
            return made_due(entry, now)
        case "sleep" if token is not None:
            return given_back(entry, now)
        case "sleep":
            # An outsider puts an idle task to sleep, but takes the lease from nobody.
            return entry if entry.holder is not None else given_back(entry, now)
    assert_never(schedule)


def seconds_to_us(seconds: float) -> int:
    """A duration in microseconds."""
    return round(seconds * 1_000_000)
