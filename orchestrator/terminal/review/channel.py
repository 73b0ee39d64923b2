"""The reviewers' channel: its messages, the requests and questions that wait, and the decisions that are sent."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import BaseModel, ValidationError

from orchestrator.client import ServerRefused
from orchestrator.core.approval.approval import WHO_DECIDES, HitlResponse, RequestedCallView, ResumeRequest
from orchestrator.core.errors import FrameRefused
from orchestrator.core.task.choices import how_to_answer, numbered
from orchestrator.core.text.visible import one_line
from orchestrator.core.values import immutable
from orchestrator.core.wire import review
from orchestrator.terminal.review.request_view import Line, as_json, block, time_left

if TYPE_CHECKING:
    import asyncio

    from websockets.asyncio.client import ClientConnection

# -- The reviewers' channel: its messages, the requests and questions that wait, and the decisions that are sent

MAX_ANSWER_CHARS: Final = 20_000
"""Characters of an answer to a question, or of a text in place of a result."""
Asked: TypeAlias = HitlResponse | review.OpenQuestion
Sent: TypeAlias = review.DecideRequest | review.AnswerQuestion
Result: TypeAlias = review.Done | review.Failed

# -- What the reviewers' channel tells, also where the server is of another version than this program
#
# Theory. New fields of a newer server are left out, but not those of a request. A request that cannot be read to its
# last field is handed on as it came, so that a person sees all of it and that it waits. A program that does not know
# its fields can decide nothing about it (promises V3, V5).

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


@immutable
class OddRequest:
    """A request in a form that this program does not know."""

    request_id: str
    raw: Any
    """The message as it came."""


@immutable
class OddRequests:
    """Requests that cannot be read; it comes before every snapshot, and in place of such a request."""

    requests: tuple[OddRequest, ...]
    anew: bool
    """Whether these are all there are."""


def messages_of(frame: str) -> list[Any]:
    """What a frame tells: messages of the channel, and its requests that cannot be read.

    A message that this program does not use, such as one of a newer kind, is left out. Raises FrameRefused for a frame
    that is not a message.
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
        raise FrameRefused(
            "The server sent something that is not a message.", remedy="Look whether that is an orchestrator."
        )
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


# -- The requests and questions that wait ------------------------------------------------


@dataclass(kw_only=True)
class Inbox:
    """All that waits for this person, the oldest first."""

    requests: dict[str, HitlResponse] = field(default_factory=dict)
    odd: dict[str, OddRequest] = field(default_factory=dict)
    """Requests that wait and that this program cannot read."""
    questions: dict[str, review.OpenQuestion] = field(default_factory=dict)
    others: int = 0
    """Requests that wait for other people, when the connection began."""

    @property
    def count(self) -> int:
        """How many requests and questions wait."""
        return len(self.requests) + len(self.odd) + len(self.questions)

    def find(self, asked: Asked) -> Asked | None:
        """The same request or question as it is now; None: it is closed."""
        if isinstance(asked, HitlResponse):
            return self.requests.get(asked.request_id)
        return self.questions.get(asked.question_id)

    def take(self, message: Any) -> None:
        """Apply a message of the channel; other messages change nothing."""
        match message:
            case review.Snapshot():
                self.requests = {one.request_id: one for one in message.requests}
                self.questions = {one.question_id: one for one in message.questions}
                self.others = message.others
            case OddRequests():
                told = {one.request_id: one for one in message.requests}
                self.odd = told if message.anew else self.odd | told
                self.requests = {key: one for key, one in self.requests.items() if key not in told}
            case review.RequestOpened():
                self.odd.pop(message.request.request_id, None)
                self.requests[message.request.request_id] = message.request
            case review.RequestClosed():
                self.requests.pop(message.request_id, None)
                self.odd.pop(message.request_id, None)
            case review.RequestReminded(request_id=request_id) if request_id in self.requests:
                update = {"expires_at": message.expires_at}
                self.requests[request_id] = self.requests[request_id].model_copy(update=update)
            case review.QuestionOpened():
                self.questions[message.question.question_id] = message.question
            case review.QuestionClosed():
                self.questions.pop(message.question_id, None)


def same(one: HitlResponse, other: HitlResponse) -> bool:
    """Whether they are one request with the same calls, however much of them is shown; its deadline may differ."""
    if one.request_id != other.request_id or len(one.tool_calls) != len(other.tool_calls):
        return False
    pairs = zip(one.tool_calls, other.tool_calls, strict=True)
    return all(mine.call_id == theirs.call_id and _same_digest(mine, theirs) for mine, theirs in pairs)


def _same_digest(mine: RequestedCallView, theirs: RequestedCallView) -> bool:
    """A call that was cut has no digest; the server compares the digest of a call that is decided."""
    return not (mine.action_digest and theirs.action_digest) or mine.action_digest == theirs.action_digest


# -- Decisions and answers that are sent, and the server's answers -----------------------


def deciding(request: HitlResponse, resume: ResumeRequest) -> review.DecideRequest:
    """The frame of a decision on a request."""
    return review.DecideRequest(ref=request.request_id[:100], request_id=request.request_id, resume=resume)


def answering(question: review.OpenQuestion, answer: str) -> review.AnswerQuestion:
    """The frame of an answer to a question; an answer that is too long is cut."""
    return review.AnswerQuestion(
        ref=question.question_id[:100],
        task_id=question.task_id,
        question_id=question.question_id,
        answer=answer[:MAX_ANSWER_CHARS],
    )


def answer_prompt(options: Sequence[str]) -> str:
    """The prompt below a question."""
    return f"Your answer ({'; '.join(filter(None, (how_to_answer(options), 'empty: leave it')))}): "


def whole(question: review.OpenQuestion) -> str:
    """A question as it is shown, with its choices numbered below it."""
    return numbered(question.question, question.options)


def body_of(resume: ResumeRequest) -> dict[str, Any]:
    """A decision as the endpoints take it."""
    return resume.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


@dataclass(eq=False, repr=False)
class Outbox:
    """Decisions and answers that the server has not answered yet; ``post`` takes those too large for the socket."""

    post: Callable[[str, Any], Awaitable[Any]]
    _outcomes: "dict[str, asyncio.Future[Result | None]]" = field(default_factory=dict)

    async def send(self, socket: "ClientConnection", sent: Sent) -> Result | None:
        """The server's answer; None: the connection ended before it came.

        Raises ConnectionClosed, ServerUnreachable.
        """
        frame = sent.model_dump_json()
        if len(frame) > review.MAX_REVIEW_FRAME_CHARS and isinstance(sent, review.DecideRequest):
            # Such as an edited file.
            return await self._posted(sent)
        from asyncio import get_running_loop  # only the reviewers' socket needs it

        outcome: asyncio.Future[Result | None] = get_running_loop().create_future()
        self._outcomes[sent.ref] = outcome
        await socket.send(frame)
        return await outcome

    def answered(self, message: Result) -> None:
        """The server answered; a frame that it could not read has no name, and is the oldest."""
        ref = message.ref if message.ref is not None else next(iter(self._outcomes), "")
        outcome = self._outcomes.pop(ref, None)
        if outcome is not None and not outcome.done():
            outcome.set_result(message)

    def lost(self) -> None:
        """The connection ended: no answer comes for what was sent."""
        outcomes, self._outcomes = self._outcomes, {}
        for outcome in outcomes.values():
            if not outcome.done():
                outcome.set_result(None)

    async def _posted(self, sent: review.DecideRequest) -> Result:
        try:
            answer = await self.post(f"/v1/resume/{sent.request_id}", body_of(sent.resume))
        except ServerRefused as error:
            return review.Failed(seq=0, code=error.reason, message=error.message, remedy=error.remedy)
        return done_of(sent.ref, answer)


def done_of(ref: str, answer: Mapping[str, Any]) -> review.Done:
    """What an endpoint answered to a decision; one of an older server tells no progress."""
    far = str(answer.get("progress", ""))
    return review.Done(seq=0, ref=ref, task_id=answer["task_id"], status=answer["status"], progress=far)


# -- What became of a decision, and of what waits, as sentences to the person who decides

_DONE: Final = {
    "approve": "approved by you",
    "edit": "edited and approved by you",
    "reject": "rejected by you",
    "respond": "answered by you in its place",
    "check": "checked again",
    "mark_done": "marked as done by you",
    "mark_failed": "marked as failed by you",
    "retry": "asked for again by you",
}
_NAMED: Final = 3
"""Places that a task changed: as many as fit a line."""
OVER: Final = frozenset({"not_pending", "expired", "not_found", "task_ended"})
"""The refusals after which there is nothing left to decide."""

AGAIN: Final = "Your last decision is sent again, since nobody heard its result; it counts once."
OPEN_ENDED: Final = (
    "It is not known whether your last decision was taken; `cc-orchestrator review` shows open requests."
)


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
        return taken(said, result)
    return refused(result.code, result.message, result.remedy, result.details, now=now)


def taken(said: str, done: review.Done) -> str:
    """The decision was taken: it is carried out, or it counts and more people have to approve."""
    if done.progress:
        return f"Counted: {said}. Approved so far: {one_line(done.progress, limit=1000)}."
    return f"Carried out: {said}; task {one_line(done.task_id)} is {one_line(done.status)}."


def these(count: int) -> str:
    """A number of requests, as a decision on all of them names them."""
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
    unknown = "changes by its programs are not known, and no undo puts them back"
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
    """The reason why it was not taken: in time or too late, and the person who was first."""
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
