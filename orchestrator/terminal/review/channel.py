"""The reviewers' channel: its messages, the requests and questions that wait, and the decisions that are sent."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import BaseModel, ValidationError

from orchestrator.client import ServerRefused
from orchestrator.core.approval.approval import HitlResponse, RequestedCallView, ResumeRequest
from orchestrator.core.errors import FrameRefused
from orchestrator.core.text.visible import one_line
from orchestrator.core.wire import review
from orchestrator.terminal.review.lines import Line, as_json, block

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

MAX_ANSWER_CHARS: Final = 20_000
"""Of an answer to a question, or of a text in place of a result."""
Asked: TypeAlias = HitlResponse | review.OpenQuestion
Sent: TypeAlias = review.DecideRequest | review.AnswerQuestion
Result: TypeAlias = review.Done | review.Failed

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
    """What was cut has no digest; the server compares that of what is decided."""
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


def body_of(resume: ResumeRequest) -> dict[str, Any]:
    """A decision as the endpoints take it."""
    return resume.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


@dataclass
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
        outcome: asyncio.Future[Result | None] = asyncio.get_running_loop().create_future()
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
        return review.Done(seq=0, ref=sent.ref, task_id=answer["task_id"], status=answer["status"])
