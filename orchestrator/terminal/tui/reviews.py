"""The requests that wait for this person, from the reviewers' socket, and the decisions over it.

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
from orchestrator.core.approval.approval import HitlResponse, ResumeRequest
from orchestrator.core.errors import FrameRefused, OrchestratorError
from orchestrator.core.task.facts import RequestId
from orchestrator.core.wire import review
from orchestrator.terminal.review.channel import (
    AGAIN,
    Inbox,
    Outbox,
    Result,
    Sent,
    answering,
    deciding,
    messages_of,
    needs_no_answer,
    request_of,
    same,
    told_of,
)

if TYPE_CHECKING:
    from datetime import datetime

    from websockets.asyncio.client import ClientConnection

_REFUSED_PAUSE_S = 5.0
"""Seconds after a refusal: somebody has to change something first."""
_OVER = (401, 403)
"""The refusals of a token that was revoked, or is not a reviewer's: it stays so."""
_AGAIN_PAUSE_S = 0.5
"""Seconds before something is sent again: the connection may be going, and nobody has said so yet."""


class Outcome(NamedTuple):
    """The result of the decision that was sent."""

    taken: bool
    said: str
    """A sentence for the person who sent it."""


@dataclass
class Reviews(Inbox):
    """The open requests, and the way to decide them. ``heard`` gets each message, and None when the connection went."""

    live: Live
    tell: Callable[[str], None]
    heard: Callable[[Any], None]
    now: "Callable[[], datetime]"
    why_away: str = "connecting"
    """Why there is no connection; empty: it stands."""
    shut_out: str = ""
    """Why no dialing helps any more; empty: it may."""
    was_there: bool = False
    """Whether there was a connection, or an attempt at one has failed."""
    unheard: int = 0
    """The decision that was sent and has no answer yet."""
    _socket: "ClientConnection | None" = None
    _outbox: Outbox = field(init=False)
    _stands: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._outbox = Outbox(lambda path, body: self.live.ask("POST", path, body))

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
                        self.tell("The connection is back.")
                    attempts.heard()
                self.take(message)
                if isinstance(message, review.Done | review.Failed):
                    self._outbox.answered(message)
                self.heard(message)
                if isinstance(message, review.Snapshot):
                    self._stands.set()

    def _gone(self, why: str) -> None:
        self._socket, self.why_away, self.was_there = None, why, True
        self._stands.clear()
        self._outbox.lost()
        self.heard(None)

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
            return Outcome(False, "It has changed, so nothing was sent. Look at it as it is now.")
        return await self._carry_out(deciding(request, resume))

    async def answer(self, question: review.OpenQuestion, answer: str) -> bool:
        """Send an answer, and say what became of it; whether it was taken."""
        outcome = await self._carry_out(answering(question, answer))
        self.tell(outcome.said)
        return outcome.taken

    async def _carry_out(self, sent: Sent) -> Outcome:
        if self._socket is None:
            return Outcome(False, "Not delivered: there is no connection. Nothing was decided; it is as it was.")
        self.unheard += 1
        self.tell("Sent, and not confirmed yet.")
        outcome = await self._until_heard(sent)
        # A person who leaves before that is told so: then it stays counted.
        self.unheard -= 1
        return outcome

    async def _until_heard(self, sent: Sent) -> Outcome:
        """Send it, over one connection after another, until the server says what became of it."""
        while True:
            outcome = await self._sent(sent)
            if outcome is not None:
                return Outcome(isinstance(outcome, review.Done), told_of(sent, outcome, self.now()))
            self.tell("Nobody heard yet whether it was taken: it is sent again when the connection is back.")
            await asyncio.sleep(_AGAIN_PAUSE_S)
            await self._stands.wait()
            if isinstance(sent, review.AnswerQuestion) and sent.question_id not in self.questions:
                return Outcome(False, needs_no_answer(sent.task_id))
            self.tell(AGAIN)

    async def _sent(self, sent: Sent) -> Result | None:
        """The server's answer; None: the connection ended before it came."""
        from websockets.exceptions import ConnectionClosed

        socket = self._socket
        if socket is None:
            return None
        try:
            return await self._outbox.send(socket, sent)
        except ConnectionClosed:
            if self._socket is socket:
                # The reader says so in a moment, and when the next connection stands.
                self._stands.clear()
        except ServerUnreachable:
            pass
        return None

    async def whole(self, request_id: RequestId) -> HitlResponse | None:
        """A request with nothing of it cut; None, and said why: it cannot be had."""
        try:
            return request_of(await self.live.ask("GET", f"/v1/requests/{request_id}"))
        except OrchestratorError as error:
            self.tell(str(error))
            return None
