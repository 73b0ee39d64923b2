"""The states of one tool call, as a table.

Theory. A call is born ``allowed``, ``proposed`` (a person must see it) or ``denied_by_policy``.
A proposed call is observed and becomes ``pending`` in a request, or ``approved`` by a standing
approval; a decision is bound to the request's ``action_digest`` and consumed by the one run that it
allows. A run ends ``executed`` or ``failed``; a run that never happened (void) gives the approval
back; a run that nobody can vouch for is ``outcome_unknown`` until a person says. States without a
row are final.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal

from orchestrator.core.errors import InvalidDecision


class CallState(StrEnum):
    """Where one tool call stands."""

    PROPOSED = "proposed"
    ALLOWED = "allowed"
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELED = "canceled"
    SUPERSEDED = "superseded"
    STALE = "stale"
    EXECUTING = "executing"
    EXECUTED = "executed"
    FAILED = "failed"
    OUTCOME_UNKNOWN = "outcome_unknown"
    DENIED = "denied_by_policy"
    ASKING = "asking"
    ANSWERED = "answered"


CallEvent = Literal[
    "review",
    "approve",
    "grant",
    "edit",
    "respond",
    "reject",
    "lapse",
    "stale",
    "expired",
    "superseded",
    "canceled",
    "start",
    "succeed",
    "fail",
    "void",
    "interrupted",
    "unknown",
    "check",
    "mark_done",
    "mark_failed",
    "retry",
    "ask",
    "answer",
]

CALL_TABLE: Final[Mapping[CallState, Mapping[CallEvent, CallState]]] = {
    CallState.PROPOSED: {
        "review": CallState.PENDING,
        "grant": CallState.APPROVED,
        "superseded": CallState.SUPERSEDED,
        "canceled": CallState.CANCELED,
    },
    CallState.ALLOWED: {
        "start": CallState.EXECUTING,
        "succeed": CallState.EXECUTED,
        "ask": CallState.ASKING,
        "stale": CallState.STALE,
        "superseded": CallState.SUPERSEDED,
        "canceled": CallState.CANCELED,
    },
    CallState.PENDING: {
        "approve": CallState.APPROVED,
        "edit": CallState.APPROVED,
        "respond": CallState.ANSWERED,
        "reject": CallState.REJECTED,
        "stale": CallState.STALE,
        "expired": CallState.EXPIRED,
        "superseded": CallState.SUPERSEDED,
        "canceled": CallState.CANCELED,
    },
    CallState.APPROVED: {
        "start": CallState.EXECUTING,
        "succeed": CallState.EXECUTED,
        "ask": CallState.ASKING,
        "stale": CallState.STALE,
        "lapse": CallState.STALE,
        "superseded": CallState.SUPERSEDED,
        "canceled": CallState.CANCELED,
    },
    CallState.STALE: {
        "review": CallState.PENDING,
        "grant": CallState.APPROVED,
        "superseded": CallState.SUPERSEDED,
        "canceled": CallState.CANCELED,
    },
    CallState.EXECUTING: {
        "succeed": CallState.EXECUTED,
        "fail": CallState.FAILED,
        "stale": CallState.STALE,
        "void": CallState.APPROVED,
        "interrupted": CallState.APPROVED,
        "unknown": CallState.OUTCOME_UNKNOWN,
    },
    CallState.OUTCOME_UNKNOWN: {
        "review": CallState.OUTCOME_UNKNOWN,
        "check": CallState.OUTCOME_UNKNOWN,
        "mark_done": CallState.EXECUTED,
        "mark_failed": CallState.FAILED,
        "retry": CallState.SUPERSEDED,
        "canceled": CallState.OUTCOME_UNKNOWN,
    },
    CallState.ASKING: {"answer": CallState.ANSWERED, "canceled": CallState.CANCELED},
}
"""``void`` and ``interrupted`` (a pure call) give the allowance back: the same digest may run under a new id.

``edit`` approves other arguments of the same tool; ``lapse`` is an approval that nobody used in time."""

OPEN_STATES: Final = frozenset(CALL_TABLE)
"""States from which a call can still move."""


def move(state: CallState, event: CallEvent) -> CallState:
    """The next state by the table. Raises InvalidDecision when the event does not fit the state."""
    target = CALL_TABLE.get(state, {}).get(event)
    if target is None:
        raise InvalidDecision(f"A call that is {state.value} cannot take {event!r}.")
    return target
