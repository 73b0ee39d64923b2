"""What a person is asked over the reviewers' channel, and what they send."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from orchestrator.core.approval.approval import HitlResponse, ResumeRequest
from orchestrator.core.errors import FrameRefused
from orchestrator.core.text.visible import one_line
from orchestrator.core.wire import review
from orchestrator.terminal.console.lines import Line, as_json, block
from orchestrator.terminal.console.request_view import time_left

# -- What a person is asked over the reviewers' channel, and what they send --------------

Sent = review.DecideRequest | review.AnswerQuestion
Asked = HitlResponse | review.OpenQuestion


def in_part(asked: HitlResponse, sent: Sent) -> bool:
    """Whether a decision left calls of its request undecided."""
    decisions = sent.resume.decisions if isinstance(sent, review.DecideRequest) else None
    return decisions is not None and len(decisions) < len(asked.tool_calls)


def id_of(asked: Asked) -> str:
    """The request's id, or the question's."""
    return asked.request_id if isinstance(asked, HitlResponse) else asked.question_id


def same(one: Asked | None, other: Asked | None) -> bool:
    """Whether they are one request with the same calls; its deadline may differ."""
    if not isinstance(one, HitlResponse) or not isinstance(other, HitlResponse):
        return False
    return one.request_id == other.request_id and one.tool_calls == other.tool_calls


# -- What the reviewers' channel tells, also where the server is of another version than this program
#
# Theory. What a newer server says more is left out, but not of a request: one that cannot be read to its last
# field is handed on as it came, so that a person sees that it waits and all of it, and nothing can be decided
# about it by a program that does not know what that means (promises V3, V5).

_ELSEWHERE: Final = "Decide it on the server's page, or with a cc-orchestrator of the server's version."
UNREADABLE: Final = "A request came in a form that this program does not know, so nothing is decided about it here."
_KINDS: Final[Mapping[str, type[BaseModel]]] = {
    str(model.model_fields["type"].default): model
    for model in (
        *(review.Snapshot, review.RequestOpened, review.RequestClosed, review.RequestReminded),
        *(review.QuestionOpened, review.QuestionClosed, review.TaskOver, review.Done, review.Failed),
    )
}
"""What a reviewer acts on, by its type."""


@dataclass(frozen=True)
class OddRequest:
    """A request in a form that this program does not know."""

    request_id: str
    raw: Any
    """As it came."""


@dataclass(frozen=True)
class OddRequests:
    """Requests that cannot be read; it comes before every snapshot, and in place of such a request."""

    requests: tuple[OddRequest, ...]
    anew: bool
    """Whether these are all there are."""


def messages_of(frame: str) -> list[Any]:
    """What a frame tells: messages of the channel, and its requests that cannot be read.

    What this program has no use for, such as a kind of message that is newer than it, is none. Raises FrameRefused for
    what is no message at all.
    """
    try:
        message = review.decode_to_reviewer(frame)
    except FrameRefused:
        return _as_far_as_known(_object(frame))
    return [OddRequests((), anew=True), message] if isinstance(message, review.Snapshot) else [message]


def parted(values: Iterable[Any]) -> tuple[list[HitlResponse], tuple[OddRequest, ...]]:
    """The requests that can be read, and the others."""
    good, odd = list[HitlResponse](), list[OddRequest]()
    for one in values:
        try:
            good.append(HitlResponse.model_validate(one))
        except ValidationError:
            named = one.get("request_id") if isinstance(one, dict) else None
            odd.append(OddRequest(str(named or "without an id"), one))
    return good, tuple(odd)


def request_of(value: Any) -> HitlResponse:
    """A request as an endpoint answered it. Raises FrameRefused where it cannot be read."""
    try:
        return HitlResponse.model_validate(value)
    except ValidationError:
        raise FrameRefused(UNREADABLE, remedy=_ELSEWHERE) from None


def odd_lines(odd: OddRequest) -> list[Line]:
    """All of a request that cannot be read, as it came."""
    return [
        Line(f"── A request that this program cannot read ─ {one_line(odd.request_id)}", "alarm"),
        Line("  The server is of another version. This is all of it, as it came.", prose=True),
        Line(f"  Nothing is decided about it here. {_ELSEWHERE}", prose=True),
        *block(as_json(odd.raw, indent=2)),
    ]


def _object(frame: str) -> Mapping[str, Any]:
    try:
        value = json.loads(frame)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise FrameRefused("The server sent what is no message.", remedy="Look whether that is an orchestrator.")
    return value


def _as_far_as_known(value: Mapping[str, Any]) -> list[Any]:
    kind = _KINDS.get(str(value.get("type")))
    if kind is None:
        return []
    known = {name: value[name] for name in kind.model_fields if name in value}
    if kind is review.RequestOpened:
        good, odd = parted([known.get("request")])
        return [_validated(kind, known)] if good else [OddRequests(odd, anew=False)]
    if kind is review.Snapshot:
        known["requests"], odd = parted(known.get("requests") or ())
        return [OddRequests(odd, anew=True), _validated(kind, known)]
    return [_validated(kind, known)]


def _validated(kind: type[BaseModel], known: Mapping[str, Any]) -> BaseModel:
    try:
        return kind.model_validate(known)
    except ValidationError:
        raise FrameRefused(
            f"The server sent a {one_line(str(known['type']))} that this program cannot read.",
            remedy="Use a cc-orchestrator of the server's version.",
        ) from None


# -- What became of a decision, as a sentence to who made it -----------------------------

_DONE: Final = {
    "approve": "approved by you",
    "edit": "edited and approved by you",
    "reject": "rejected by you",
    "respond": "answered by you in its place",
    "check": "checked again",
    "mark_done": "marked as done by you",
    "mark_failed": "marked as failed by you",
    "retry": "asked for anew by you",
}
_NAMED: Final = 3
"""Of the places that a task changed: as many as fit a line."""
OVER: Final = frozenset({"not_pending", "expired", "not_found", "task_ended"})
"""The refusals after which there is nothing left to decide."""

AGAIN: Final = "What you decided last is sent again, since nobody heard what became of it; it counts once."
OPEN_ENDED: Final = "Whether what you decided last was taken is not known; `cc-orchestrator review` shows what waits."


def needs_no_answer(task_id: str) -> str:
    """A question is closed whose answer was on its way when the connection ended."""
    shows = f"`cc-orchestrator tasks watch {one_line(task_id)}` shows which"
    return f"The question needs no answer any more: yours was taken, or another; {shows}."


def said_of(resume: ResumeRequest) -> str:
    """A decision in the past tense."""
    actions = {one.action for one in resume.decisions or ()} or ({resume.action} if resume.action else set())
    return _DONE.get(next(iter(actions)), "decided by you") if len(actions) == 1 else "decided by you"


def carried_out(said: str, task_id: str, status: str) -> str:
    """It was taken."""
    return f"Carried out: {said}; task {one_line(task_id)} is {one_line(status)}."


def left_behind(over: review.TaskOver) -> str:
    """A task failed or was canceled after it had changed something, and what becomes of that."""
    if not over.undo.unseen:
        return _changed(over)
    unknown = "what a program of it changed is not known, and no undo puts that back"
    if not over.changes:
        return f"Task {one_line(over.task_id)} is {over.status}; {unknown}."
    return f"{_changed(over).removesuffix('.')}. And {unknown}."


def _changed(over: review.TaskOver) -> str:
    task_id = one_line(over.task_id)
    named = ", ".join(one_line(one.place) for one in over.changes[:_NAMED])
    more = over.undo.changes - min(_NAMED, len(over.changes))
    said = f"Task {task_id} is {over.status} and had changed {named}{f' and {more} more' if more else ''}"
    if over.undo.outcome is not None:
        return f"{said}; {one_line(over.undo.outcome.told, limit=1000)}."
    if over.undo.tasks:
        return f"{said}; task {one_line(over.undo.tasks[-1])} was begun to put it back."
    if over.undo.automatic:
        return f"{said}; it is put back, as the policy says."
    if over.undo.unknown:
        said = f"{said}; of {over.undo.unknown} nobody knows whether it did: an undo keeps those without --on-conflict"
        return f"{said} restore. It is put back with: cc-orchestrator undo {task_id}"
    return f"{said}. It is put back with: cc-orchestrator undo {task_id}"


def closed_meanwhile(how: str) -> str:
    """A request was closed while a person looked at it; ``how`` is such as ``rejected by bob``."""
    if how == "expired":
        return "Nobody answered it in time: it has expired."
    return f"{'Decided elsewhere' if ' by ' in how else 'It was closed'}: {one_line(how)}."


def refused(code: str, message: str, remedy: str, details: Mapping[str, Any], *, now: datetime | None = None) -> str:
    """It was not taken, and why: in time or too late, and who was first."""
    what_to_do = f" {one_line(remedy, limit=2000)}".rstrip()
    if code == "expired":
        return f"Too late: nobody answered it in time, and it has expired.{what_to_do}"
    by, how = str(details.get("decided_by") or ""), str(details.get("how") or "")
    if code == "not_pending" and how:
        verb = how.removesuffix(f" by {by}")
        first = f"{one_line(by)} {one_line(verb)} it" if by and verb != how else f"it was {one_line(how)}"
        return f"Too late: {first}{_ago(details, now)}."
    return f"Not carried out: {one_line(message, limit=4000)}{what_to_do}"


def _ago(details: Mapping[str, Any], now: datetime | None) -> str:
    try:
        then = datetime.fromisoformat(str(details["at"]))
        ago = time_left(now, then) if now is not None else "no time"
    except (KeyError, ValueError, TypeError):
        return ""
    return "" if ago == "no time" else f" {ago} ago"
