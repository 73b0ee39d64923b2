"""What became of a decision, and of what waits, as sentences to the person who decides."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from orchestrator.core.approval.approval import ResumeRequest
from orchestrator.core.approval.rights import WHO_DECIDES
from orchestrator.core.text.visible import one_line
from orchestrator.core.wire import review
from orchestrator.terminal.review.channel import Result, Sent
from orchestrator.terminal.review.request_view import time_left

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


def told_of(sent: Sent, result: Result, now: datetime) -> str:
    """The server's answer to a decision or to an answer, as a sentence."""
    if isinstance(result, review.Done):
        said = said_of(sent.resume) if isinstance(sent, review.DecideRequest) else "answered by you"
        return carried_out(said, result.task_id, result.status)
    return refused(result.code, result.message, result.remedy, result.details, now=now)


def carried_out(said: str, task_id: str, status: str) -> str:
    """It was taken."""
    return f"Carried out: {said}; task {one_line(task_id)} is {one_line(status)}."


def these(count: int) -> str:
    """So many requests, as a decision on all of them names them."""
    return "this request" if count == 1 else f"these {count} requests"


def others_wait(count: int) -> str:
    """Requests wait, and none of them for this person."""
    return f"Waiting for other people: {count}. {WHO_DECIDES}"


def reminded(message: review.RequestReminded, now: datetime) -> str:
    """Nobody has decided a request, and its time is nearly over."""
    return f"A request expires in {time_left(message.expires_at, now)}, and nobody has decided it."


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
