"""What waits for this person, as the reviewers' socket tells it, and what is decided over it.

Theory. One connection after another: each begins with a snapshot. A decision waits for the server's answer to it;
where the connection ends before that, it is sent once more over the next one, since the same decision of the same
person is carried out once. An answer to a question is sent again only while the question is open.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.client import Attempts, ServerRefused, ServerUnreachable
from orchestrator.client.live import Live
from orchestrator.core.approval.approval import HitlResponse, RequestedCallView, ResumeRequest
from orchestrator.core.errors import FrameRefused, OrchestratorError
from orchestrator.core.task.facts import RequestId
from orchestrator.core.wire import review
from orchestrator.terminal.console.channel import (
    AGAIN,
    OddRequest,
    OddRequests,
    Sent,
    carried_out,
    messages_of,
    needs_no_answer,
    refused,
    request_of,
    said_of,
)

if TYPE_CHECKING:
    from datetime import datetime

    from websockets.asyncio.client import ClientConnection

_REFUSED_PAUSE_S = 5.0
"""After a refusal: somebody has to change something first."""
_OVER = (401, 403)
"""The refusals of a token that was revoked, or is no reviewer's: it stays so."""
_AGAIN_PAUSE_S = 0.5
"""Before something is sent again: the connection may be going, and nobody has said so yet."""
Result = review.Done | review.Failed


class Outcome(NamedTuple):
    """What became of what was sent."""

    taken: bool
    said: str
    """As a sentence to who sent it."""


@dataclass
class Reviews:
    """What waits, and the way to decide it. ``heard`` gets each message, and None when the connection went."""

    live: Live
    tell: Callable[[str], None]
    heard: Callable[[Any], None]
    now: "Callable[[], datetime]"
    requests: dict[str, HitlResponse] = field(default_factory=dict)
    """The oldest first."""
    odd: dict[str, OddRequest] = field(default_factory=dict)
    """Requests that wait and that this program cannot read."""
    questions: dict[str, review.OpenQuestion] = field(default_factory=dict)
    others: int = 0
    """Requests that wait for other people."""
    why_away: str = "connecting"
    """Why there is no connection; empty: it stands."""
    shut_out: str = ""
    """Why no dialing helps any more; empty: it may."""
    was_there: bool = False
    """Whether there was a connection, or an attempt at one has failed."""
    unheard: int = 0
    """What was sent and not answered yet."""
    _socket: "ClientConnection | None" = None
    _outcomes: "dict[str, asyncio.Future[Result | None]]" = field(default_factory=dict)
    _stands: asyncio.Event = field(default_factory=asyncio.Event)

    # -- what is heard -------------------------------------------------------------------

    async def run(self) -> None:
        """Listen, over connections that drop, until cancelled."""
        attempts = Attempts(float("inf"))
        while True:
            attempts.begin()
            try:
                async with self.live.client.reviewer() as socket:
                    await self._read(socket, attempts)
                raise self.live.client.hung_up()
            except (ServerUnreachable, ServerRefused, FrameRefused) as lost:
                first = attempts.lost()
                self._gone(lost.message)
                if isinstance(lost, ServerRefused) and lost.status in _OVER:
                    self.shut_out = f"signed out: {lost.message}"
                    self.tell(f"{lost.message} An admin can make a new token; q leaves.")
                    self.heard(None)
                    return
                if first:
                    self.tell(f"The connection is lost: {lost.message} It is looked for until you leave.")
                pause = attempts.delay(lost)
                await asyncio.sleep(pause if isinstance(lost, ServerUnreachable) else _REFUSED_PAUSE_S)

    async def _read(self, socket: "ClientConnection", attempts: Attempts) -> None:
        async for frame in socket:
            for message in messages_of(str(frame)):
                if isinstance(message, review.Snapshot):
                    self._socket, self.why_away, self.was_there = socket, "", True
                    if attempts.back():
                        self.tell("The connection stands again.")
                    attempts.heard()
                self._take(message)
                self.heard(message)
                if isinstance(message, review.Snapshot):
                    self._stands.set()

    def _gone(self, why: str) -> None:
        self._socket, self.why_away, self.was_there = None, why, True
        self._stands.clear()
        outcomes, self._outcomes = self._outcomes, {}
        for outcome in outcomes.values():
            if not outcome.done():
                outcome.set_result(None)
        self.heard(None)

    def _take(self, message: Any) -> None:
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
            case review.Done() | review.Failed():
                self._answered(message)

    def _answered(self, message: Result) -> None:
        ref = message.ref if message.ref is not None else next(iter(self._outcomes), "")
        outcome = self._outcomes.pop(ref, None)
        if outcome is not None and not outcome.done():
            outcome.set_result(message)

    # -- what is sent --------------------------------------------------------------------

    async def decide(self, request: HitlResponse, resume: ResumeRequest) -> bool:
        """Send a decision on a request as it was shown, and say what became of it; whether it was taken."""
        outcome = await self.settle(request, resume)
        self.tell(outcome.said)
        return outcome.taken

    async def settle(self, request: HitlResponse, resume: ResumeRequest) -> Outcome:
        """Send a decision on a request as it was shown; what became of it."""
        present = self.requests.get(request.request_id)
        if present is not None and not same(request, present):
            return Outcome(False, "It has changed meanwhile, so nothing was sent. Look at it as it is now.")
        sent = review.DecideRequest(ref=request.request_id[:100], request_id=request.request_id, resume=resume)
        return await self._carry_out(sent, said_of(resume))

    async def answer(self, question: review.OpenQuestion, answer: str) -> bool:
        """Send an answer, and say what became of it; whether it was taken."""
        sent = review.AnswerQuestion(
            ref=question.question_id[:100],
            task_id=question.task_id,
            question_id=question.question_id,
            answer=answer,
        )
        outcome = await self._carry_out(sent, "answered by you")
        self.tell(outcome.said)
        return outcome.taken

    async def _carry_out(self, sent: Sent, said: str) -> Outcome:
        if self._socket is None:
            return Outcome(False, "Not delivered: there is no connection. Nothing was decided; it is as it was.")
        self.unheard += 1
        self.tell("Sent, and not confirmed yet.")
        outcome = await self._until_heard(sent, said)
        # Whoever leaves before that is told so: then it stays counted.
        self.unheard -= 1
        return outcome

    async def _until_heard(self, sent: Sent, said: str) -> Outcome:
        """Send it, over one connection after another, until the server says what became of it."""
        while True:
            outcome = await self._sent(sent)
            if outcome is not None:
                return self._outcome(outcome, said)
            self.tell("Nobody heard yet whether it was taken: it is sent again when the connection is back.")
            await asyncio.sleep(_AGAIN_PAUSE_S)
            await self._stands.wait()
            if isinstance(sent, review.AnswerQuestion) and sent.question_id not in self.questions:
                return Outcome(False, needs_no_answer(sent.task_id))
            self.tell(AGAIN)

    async def _sent(self, sent: Sent) -> Result | None:
        """What the server made of it; None: the connection ended before it said so."""
        frame = sent.model_dump_json()
        if len(frame) > review.MAX_REVIEW_FRAME_CHARS and isinstance(sent, review.DecideRequest):
            return await self._posted(sent)
        outcome: asyncio.Future[Result | None] = asyncio.get_running_loop().create_future()
        self._outcomes[sent.ref] = outcome
        socket = self._socket
        if socket is None:
            return None
        from websockets.exceptions import ConnectionClosed

        try:
            await socket.send(frame)
        except ConnectionClosed:
            if self._socket is socket:
                # The reader says so in a moment, and when the next connection stands.
                self._stands.clear()
            return None
        return await outcome

    async def _posted(self, sent: review.DecideRequest) -> Result | None:
        """A decision too large for the socket, such as an edited file, over the other endpoint."""
        body = sent.resume.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        try:
            answer = await self.live.ask("POST", f"/v1/resume/{sent.request_id}", body)
        except ServerRefused as error:
            return review.Failed(seq=0, code=error.reason, message=error.message, remedy=error.remedy)
        except ServerUnreachable:
            return None
        return review.Done(seq=0, ref=sent.ref, task_id=answer["task_id"], status=answer["status"])

    def _outcome(self, result: Result, said: str) -> Outcome:
        if isinstance(result, review.Done):
            return Outcome(True, carried_out(said, result.task_id, result.status))
        return Outcome(False, refused(result.code, result.message, result.remedy, result.details, now=self.now()))

    async def whole(self, request_id: RequestId) -> HitlResponse | None:
        """A request with nothing of it cut; None, and said why: it cannot be had."""
        try:
            return request_of(await self.live.ask("GET", f"/v1/requests/{request_id}"))
        except OrchestratorError as error:
            self.tell(str(error))
            return None


def same(one: HitlResponse, other: HitlResponse) -> bool:
    """Whether they are one request with the same calls, however much of them is shown; its deadline may differ."""
    if one.request_id != other.request_id or len(one.tool_calls) != len(other.tool_calls):
        return False
    pairs = zip(one.tool_calls, other.tool_calls, strict=True)
    return all(mine.call_id == theirs.call_id and _same_digest(mine, theirs) for mine, theirs in pairs)


def _same_digest(mine: RequestedCallView, theirs: RequestedCallView) -> bool:
    """What was cut has no digest; the server compares that of what is decided."""
    return not (mine.action_digest and theirs.action_digest) or mine.action_digest == theirs.action_digest
