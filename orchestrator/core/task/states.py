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

# -- The phases of a task, as a table ----------------------------------------------------
#
# Theory. The phase says what the task waits for; :data:`PHASE_TABLE` says which facts may happen in which phase
# and where they lead. ``ACTING`` as a target means "as its calls say": a task with an open request is reviewing,
# with an open question answering, with nothing left to do thinking (or replied, where its calls were checks of
# that reply), else acting. An outcome closes an open bracket in every phase, ended included: facts are never
# refused because the task moved on.


class TaskStatus(StrEnum):
    """The public status of a task."""

    QUEUED = "Queued"
    RUNNING = "Running"
    PAUSED = "Paused"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"


class Phase(StrEnum):
    """What the task waits for."""

    NEW = "new"
    QUEUED = "queued"
    THINKING = "thinking"
    ASKED = "asked"
    WAITING = "waiting"
    REPLIED = "replied"
    ACTING = "acting"
    REVIEWING = "reviewing"
    ANSWERING = "answering"
    ENDED = "ended"


def _row(phase: Phase, **facts_of_phase: Phase) -> dict[str, Phase]:
    stays = {"work_frozen": phase, "cancel_requested": phase}
    return {**facts_of_phase, **_always(phase), **stays, "task_ended": Phase.ENDED}


def _always(phase: Phase) -> dict[str, Phase]:
    """Whether it is kept, and that something failed and is tried again, changes no phase."""
    return {"task_pinned": phase, "task_unpinned": phase, "work_failed": phase}


_WORK: Final[Mapping[str, Phase]] = dict.fromkeys(
    (
        "review_requested",
        "review_noted",
        "request_ended",
        "tool_started",
        "tool_finished",
        "tool_settled",
        "question_asked",
        "status_sent",
    ),
    Phase.ACTING,
)

PHASE_TABLE: Final[Mapping[Phase, Mapping[str, Phase]]] = {
    Phase.NEW: {"task_submitted": Phase.QUEUED},
    Phase.QUEUED: _row(
        Phase.QUEUED,
        checks_begun=Phase.QUEUED,
        model_asked=Phase.ASKED,
        calls_proposed=Phase.ACTING,
        limit_reached=Phase.QUEUED,
    ),
    Phase.THINKING: _row(
        Phase.THINKING, model_asked=Phase.ASKED, calls_proposed=Phase.ACTING, limit_reached=Phase.THINKING
    ),
    Phase.ASKED: _row(
        Phase.ASKED,
        model_asked=Phase.ASKED,
        model_awaited=Phase.WAITING,
        model_replied=Phase.REPLIED,
        limit_reached=Phase.ASKED,
    ),
    Phase.WAITING: _row(Phase.WAITING, model_asked=Phase.ASKED, limit_reached=Phase.WAITING),
    Phase.REPLIED: _row(
        Phase.REPLIED,
        checks_judged=Phase.REPLIED,
        reply_refused=Phase.THINKING,
        calls_proposed=Phase.ACTING,
        limit_reached=Phase.REPLIED,
    ),
    Phase.ACTING: _row(Phase.ACTING, **_WORK, limit_reached=Phase.ACTING),
    Phase.REVIEWING: _row(
        Phase.REVIEWING,
        **{kind: target for kind, target in _WORK.items() if kind != "review_requested"},
        decision_recorded=Phase.ACTING,
        question_answered=Phase.ACTING,
    ),
    Phase.ANSWERING: _row(Phase.ANSWERING, **_WORK, question_answered=Phase.ACTING, limit_reached=Phase.ANSWERING),
    Phase.ENDED: {
        **dict.fromkeys(("tool_finished", "tool_settled", "undo_submitted", "rehearsal_ended"), Phase.ENDED),
        **_always(Phase.ENDED),
    },
}
"""Phase to fact kind to phase; a missing key is a fact that cannot happen then.

What puts files back proposes its calls without asking a model. One request is open at a time. A question may
be open beside it, since an approved ``ask_user`` runs while its siblings still wait for a decision. A task is waiting
while its model server cannot be reached.
"""

ACTIVE_PHASES: Final = frozenset({Phase.THINKING, Phase.ASKED, Phase.REPLIED, Phase.ACTING})
"""The phases whose time counts against ``max_wall_s``: not the queue, nor a wait for a person or a model server."""

STATUS_OF: Final[Mapping[Phase, TaskStatus]] = {
    Phase.NEW: TaskStatus.QUEUED,
    Phase.QUEUED: TaskStatus.QUEUED,
    Phase.REVIEWING: TaskStatus.PAUSED,
    Phase.ANSWERING: TaskStatus.PAUSED,
}
"""The public status of each phase that is neither running nor over."""


# -- The states of one tool call, as a table ---------------------------------------------


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
