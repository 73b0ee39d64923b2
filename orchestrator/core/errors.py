"""The one tree of errors, and the sentences for the faults that pydantic finds.

Every class carries its wire ``code`` and its HTTP status. Every instance says what happened and, where somebody can do
something about it, what to do next (``remedy``).

    OrchestratorError
    ├── InvalidRequest        what was sent cannot be understood
    │   ├── FrameRefused      a frame on a socket breaks the protocol
    │   ├── ReplyRefused      the model's reply has no single reading
    │   ├── PolicyInvalid     a policy file cannot be used
    │   └── UnsafePath        a path leaves the place it must stay in
    ├── Unauthenticated       nobody proved who is asking
    ├── Forbidden             the one who asks may not
    ├── NotFound              there is no such thing
    │   └── Unreadable        something is kept in its place, and it cannot be read
    ├── NotPending            the request is no longer open for decisions
    │   └── RequestExpired    it was, and nobody answered in time
    ├── InvalidDecision       a decision does not fit what it decides
    ├── TaskEnded             the task is over and takes no more commands
    ├── PersonFrozen          nothing of this person starts or is decided until somebody unfreezes them
    ├── BeingUndone           another undo that wants exactly the same goes on
    ├── QuotaReached          a person has used up what they may use in a day
    ├── Conflict              somebody appended first: fold again
    ├── LeaseLost             another actor owns the task: stop at once
    ├── ComputerClaimed       another task works on the computer
    ├── GrantVoid             a grant no longer holds
    ├── PolicyUnusable        this node cannot load the active policy
    ├── StoreBusy             another process holds the store
    ├── JournalBroken         the items of a task are not as they were written
    ├── StoreDamaged          a row of the store holds a value that the program does not write
    ├── NewerSchema           the record was written by a newer version
    ├── StoreAway             the store's server cannot be reached now
    ├── BusAway               the bus cannot be opened
    ├── NobodyServes          a request on the bus reached nobody: nothing was done
    ├── RequestLost           a request on the bus was not answered: nobody knows what came of it
    ├── ComputerAway          the computer is not connected
    ├── CallVoid              the computer refused the call: it never ran and never will
    ├── CallLost              the session ended before the outcome was heard
    ├── ComputerFailed        the computer answered with an error
    ├── ToolFailed            a tool cannot do what was asked; the model is told
    ├── ModelFailed           the model could not be asked
    ├── WindowTooSmall        the least that a model has to be told does not fit its window
    └── HitlInterventionRequired   a person has to decide (library form)
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from pydantic import ValidationError


class OrchestratorError(Exception):
    """Something the orchestrator can explain: ``message`` says what, ``remedy`` what to do.

    ``details`` is for programs, such as the person who decided before: plain JSON, empty where there is nothing.
    """

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, remedy: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.details: dict[str, Any] = dict(details or {})

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class InvalidRequest(OrchestratorError):
    """The input cannot be understood."""

    code = "invalid_request"
    http_status = 422


class FrameRefused(InvalidRequest):
    """A frame on a socket breaks the protocol; the connection goes on."""

    code = "bad_frame"


class ReplyRefused(InvalidRequest):
    """The model's reply has no single reading; ``message`` is the sentence for the model."""

    code = "reply_refused"


class PolicyInvalid(InvalidRequest):
    """A policy file cannot be used; says which file, which rule and why."""

    code = "policy_invalid"


class UnsafePath(InvalidRequest):
    """A path leaves the place it must stay in."""

    code = "unsafe_path"


class Unauthenticated(OrchestratorError):
    """Nobody proved who is asking."""

    code = "unauthenticated"
    http_status = 401


class Forbidden(OrchestratorError):
    """The one who asks may not do this."""

    code = "forbidden"
    http_status = 403


class NotFound(OrchestratorError):
    """There is no such thing."""

    code = "not_found"
    http_status = 404


class Unreadable(NotFound):
    """Something is kept in its place, but it cannot be read; its reader goes on as if it were not there."""

    code = "unreadable"


class NotPending(OrchestratorError):
    """The request is no longer open for decisions; the message says who decided, or why."""

    code = "not_pending"
    http_status = 409


class RequestExpired(NotPending):
    """Nobody answered the request in time; nothing was decided, and nothing runs."""

    code = "expired"


class InvalidDecision(OrchestratorError):
    """A decision does not fit what it decides (wrong call, wrong verb, another digest)."""

    code = "invalid_decision"
    http_status = 409


class TaskEnded(OrchestratorError):
    """The task is over and takes no more commands."""

    code = "task_ended"
    http_status = 409


class BeingUndone(OrchestratorError):
    """Another undo of the task that wants exactly the same goes on.

    ``details`` has its ``task_id``.
    """

    code = "being_undone"
    http_status = 409


class PersonFrozen(OrchestratorError):
    """A person is frozen: nothing of theirs starts, and nobody decides what their tasks ask."""

    code = "frozen"
    http_status = 409


class QuotaReached(OrchestratorError):
    """A person has used up what the policy lets them use in a day."""

    code = "quota_reached"
    http_status = 429


class Conflict(OrchestratorError):
    """Somebody appended to the task first; fold again, then decide whether it still holds."""

    code = "conflict"
    http_status = 409


class LeaseLost(OrchestratorError):
    """Another actor owns the task now; this one stops and settles nothing."""

    code = "lease_lost"
    http_status = 409


class ComputerClaimed(OrchestratorError):
    """Another task works on the computer; ``computer`` is its name. Wait until it is given back."""

    code = "computer_claimed"
    http_status = 409

    def __init__(self, computer: str) -> None:
        super().__init__(f"Another task works on computer {computer} now.")
        self.computer = computer


class GrantVoid(OrchestratorError):
    """A grant was revoked, is spent or over: a person decides instead."""

    code = "grant_void"
    http_status = 409


class PolicyUnusable(OrchestratorError):
    """This node cannot load the active policy: it acts for nothing until it can."""

    code = "policy_unusable"
    http_status = 503


class StoreBusy(OrchestratorError):
    """Another process holds the store; the message names its pid."""

    code = "store_busy"
    http_status = 503


class JournalBroken(OrchestratorError):
    """The items of a task are not as they were written: nothing of it is shown, decided or run."""

    code = "journal_broken"
    http_status = 500


class StoreDamaged(OrchestratorError):
    """A row of the store holds a value that the program does not write."""

    code = "store_damaged"
    http_status = 500


class NewerSchema(OrchestratorError):
    """A record was written by a newer version of the program."""

    code = "newer_schema"
    http_status = 503


class StoreAway(OrchestratorError):
    """The store's server cannot be reached now, or went away before it said that it was done."""

    code = "store_away"
    http_status = 503


class BusAway(OrchestratorError):
    """The bus cannot be opened."""

    code = "bus_away"
    http_status = 503


class NobodyServes(OrchestratorError):
    """A request on the bus reached nobody: nothing was done."""

    code = "nobody_serves"
    http_status = 503


class RequestLost(OrchestratorError):
    """A request on the bus was not answered: whether it was carried out is not known."""

    code = "request_lost"
    http_status = 503


class ComputerAway(OrchestratorError):
    """The computer is not connected; what needs it waits."""

    code = "computer_away"
    http_status = 409


class CallVoid(OrchestratorError):
    """The computer refused the call before anything was touched: it never ran and never will."""

    code = "call_void"
    http_status = 503

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        """``below_fence``, ``busy`` or ``journal_failed``; ``unseen``: a look that led nowhere; ``frozen``: its person
        was frozen before it was sent."""


class CallLost(OrchestratorError):
    """The session ended before the outcome of a call was heard; only the computer knows it."""

    code = "call_lost"
    http_status = 503


class ComputerFailed(OrchestratorError):
    """The computer answered a call with an error of its own."""

    code = "computer_failed"
    http_status = 502

    def __init__(self, reason: str, message: str, data: dict[str, Any] | None = None, body: bytes = b"") -> None:
        super().__init__(message)
        self.reason = reason
        """The client's own code, such as ``stale`` or ``no_space_for_safe_write``."""
        self.data = data or {}
        self.body = body
        """What came with it, such as the output of a program that failed."""


class ToolFailed(OrchestratorError):
    """A tool cannot do what was asked; the message goes back to the model."""

    code = "tool_failed"
    http_status = 422


class ModelFailed(OrchestratorError):
    """The model could not be asked; the message says why and what to do.

    ``lasting``: asking again in a moment will not help, such as where the model is not installed. ``server``: the
    address of the model server that cannot be reached now, so that the task waits for it; empty: another failure.
    """

    code = "model_failed"
    http_status = 502

    def __init__(self, message: str, *, remedy: str = "", lasting: bool = False, server: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.lasting = lasting
        self.server = server


class WindowTooSmall(OrchestratorError):
    """The least that a model has to be told does not fit its window."""

    code = "window_too_small"
    http_status = 422


class HitlInterventionRequired(OrchestratorError):
    """A person has to decide before the task goes on (raised by the library form).

    ``function_calls`` holds all calls of the step, also those that run without a person; ``pending`` those that wait
    for a decision. ``task`` is the paused task to go on with.
    """

    code = "hitl_required"
    http_status = 409

    def __init__(self, function_calls: Sequence[Any] = (), *, task: Any = None) -> None:
        self.function_calls = list(function_calls)
        self.task = task
        first = self.function_calls[0] if self.function_calls else None
        self.plugin_name: str | None = getattr(first, "plugin_name", None)
        self.function_name: str | None = getattr(first, "function_name", None)
        what = f" for {self.plugin_name}.{self.function_name}" if first is not None else ""
        super().__init__(f"HITL intervention required{what}")

    @property
    def pending(self) -> list[Any]:
        """The calls that wait for a person's decision; a question of the model is not such a call, it is answered."""
        return [] if self.task is None else [record.call for record in self.task.undecided]

    def approve_all(self) -> dict[Any, Any]:
        """The ``decisions`` that approve every pending call. Raises NotPending where there is none to approve."""
        approvals: dict[Any, Any] = {} if self.task is None else self.task.approvals
        if not approvals:
            raise NotPending(
                "This waits for no approval: the model asked a question, or an outcome is unknown.",
                remedy="Answer with CallDecision(action='respond', answer=…), or say mark_done, mark_failed or retry.",
            )
        return approvals


# -- The faults that pydantic finds, in our words ------------------------------------------

_WORDS: Final = {
    "missing": "is missing",
    "extra_forbidden": "is not known",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "path_type": "must be a path",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "json_invalid": "is not JSON",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "union_tag_not_found": "must have the field {discriminator}",
    "union_tag_invalid": "has {tag!r:.100} as {discriminator}, which must be one of {expected_tags}",
}
"""By the type of the error; a type that is not here keeps the words of pydantic."""
_EMPTY: Final = "must not be empty"
"""A text or a list that needs one character or one entry."""


def plain(error: "ValidationError", whole: str) -> str:
    """The first fault, without the full stop: the place, and the value that it must have.

    ``whole`` names the value when the fault is not in one of its fields.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    return said_of(first, ".".join(str(part) for part in first["loc"]) or whole)


def said_of(fault: Mapping[str, Any], where: str) -> str:
    """One fault of pydantic's list, without the full stop; ``where`` names the value, empty: the sentence does."""
    least = fault.get("ctx", {}).get("min_length")
    words = _EMPTY if least == 1 and fault["type"] in ("string_too_short", "too_short") else _WORDS.get(fault["type"])
    if words is None:
        sentence = str(fault["msg"]).removeprefix("Value error, ").rstrip(".")
        return f"{where}: {sentence}" if where else sentence
    return f"{where or 'It'} {words.format_map(fault.get('ctx', {}))}"
