"""Follows the reviewers' socket and takes one decision after the other at the console.

Theory. One task reads what the server tells; a thread asks the person about one thing at a time, so
that a prompt ends by itself when somebody else was first. What is told while a prompt stands open is
said before the next one. What was refused and is still open is asked for again. A connection that ended
is opened again and begins with a new snapshot; a decision of which nobody heard what became of it is sent
once more, since the same decision of the same person is carried out once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.client import Attempts, Client, ServerRefused, ServerUnreachable
from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.approval.rights import WHO_DECIDES
from orchestrator.core.task.facts import RequestId
from orchestrator.core.text.visible import one_line
from orchestrator.core.wire import review
from orchestrator.terminal.console.channel import (
    AGAIN,
    OPEN_ENDED,
    OVER,
    Asked,
    OddRequest,
    OddRequests,
    Sent,
    carried_out,
    closed_meanwhile,
    id_of,
    in_part,
    left_behind,
    messages_of,
    needs_no_answer,
    odd_lines,
    refused,
    said_of,
    same,
)
from orchestrator.terminal.console.console import ClientDesk, Console
from orchestrator.terminal.console.lines import Line
from orchestrator.terminal.console.lines import field as text_field
from orchestrator.terminal.console.request_view import time_left
from orchestrator.terminal.console.terminal import Overtaken

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

# -- The connections of one reviewer, one after another: what is lost is opened again, for as long as they are
# patient

_FAULT = 500
"""An HTTP status from here on is the server's own trouble, or that of something before it, and may pass."""


@dataclass
class Connections:
    """Opens the reviewers' socket, and opens it again where a server was there and went away."""

    client: Client
    tell: Callable[[str], None]
    patience_s: float
    """Seconds in which the server is looked for; 0: it is not."""
    _stood: bool = False
    _attempts: Attempts = field(init=False)

    def __post_init__(self) -> None:
        self._attempts = Attempts(self.patience_s)

    def stands(self) -> bool:
        """The server has told what waits; whether it had been away."""
        self._stood = True
        return self._attempts.back()

    async def serve(self, over: "Callable[[ClientConnection], Awaitable[None]]") -> None:
        """Do something over a connection until it is done. Raises ServerRefused, ServerUnreachable."""
        while True:
            self._attempts.begin()
            try:
                async with self.client.reviewer() as socket:
                    return await over(socket)
            except (ServerUnreachable, ServerRefused) as lost:
                refused = isinstance(lost, ServerRefused) and lost.status < _FAULT
                if refused or not self._stood or not self.patience_s:
                    raise
                if self._attempts.lost():
                    self.tell(f"The server went away. Trying again for {self.patience_s:.0f} s; Ctrl-C leaves.")
                await asyncio.sleep(self._attempts.delay(lost))


# -- Follows the reviewers' socket and takes one decision after the other at the console

_NOTHING = "Nothing waits for you. New requests appear here; Ctrl-C leaves."
_OTHERS = f"Waiting for other people: {{}}. {WHO_DECIDES}"


@dataclass
class ReviewLoop:
    """Follows the reviewers' socket and decides one request after the other at the console, which it takes over."""

    client: Client
    console: Console
    waiting: dict[RequestId, HitlResponse] = field(default_factory=dict)
    questions: dict[str, review.OpenQuestion] = field(default_factory=dict)
    _open: dict[str, Asked] = field(default_factory=dict)
    """All that was open when the server last told, what was left included."""
    _odd: dict[str, OddRequest] = field(default_factory=dict)
    """Those that are open and that this program cannot read."""
    _notices: list[str | OddRequest] = field(default_factory=list)
    _outcomes: dict[str, review.Done | review.Failed] = field(default_factory=dict)
    _on_its_way: str = ""
    """What was sent last."""
    _unheard: tuple[Asked, Sent] | None = None
    """What was decided and has not been answered yet; None: all was."""
    _connections: Connections = field(init=False)
    _at_prompt: Asked | None = None
    _how: str = ""
    """What became of what stands at the prompt, once it was closed."""
    _rest: set[RequestId] = field(default_factory=set)
    """Requests that were decided in part, until the server tells what is left of them."""
    _left: bool = False
    """Whether something was left since it was last shown again."""
    _known: bool = False
    """Whether the snapshot came."""
    _gone: bool = False
    """Whether the connection is over."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def undecided(self) -> int:
        """How many requests and questions were open when the server last told, those that were left included."""
        return len(self._open) + len(self._odd)

    async def run(self, *, until_empty: bool = False, patience_s: float = 0.0) -> None:
        """Review until the person leaves or the server is gone; ``until_empty``: until nothing waits any more.

        ``patience_s``: seconds in which a server is looked for that was there and went away.
        Raises ServerRefused, ServerUnreachable.
        """
        self.console.desk = self.console.desk or ClientDesk(self.client)
        self.console.leave = "[n]ext"
        self.console.overtaken = self._is_overtaken
        connections = self._connections = Connections(self.client, self.console.tell, patience_s)
        try:
            await connections.serve(lambda socket: self._served(socket, until_empty))
        finally:
            if self._unheard is not None:
                self.console.tell(OPEN_ENDED)

    async def _served(self, socket: "ClientConnection", until_empty: bool) -> None:
        """Review over this connection until nothing is left to do. Raises what ended it before that."""
        self._gone = self._known = self._left = False
        # The snapshot tells anew what waits.
        self.waiting, self.questions, self._rest = {}, {}, set()
        self._outcomes.clear()
        reading = asyncio.create_task(self._read(socket))
        try:
            if not await self._work(socket, until_empty):
                await reading
                raise self.client.hung_up()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    # -- what is heard -------------------------------------------------------------------

    async def _read(self, socket: "ClientConnection") -> None:
        try:
            async for frame in socket:
                for message in messages_of(str(frame)):
                    self._take(message)
                self._news.set()
        finally:
            self._gone = True
            self._news.set()

    def _take(self, message: Any) -> None:
        match message:
            case review.Snapshot():
                self._begin_with(message)
            case OddRequests():
                told = {one.request_id: one for one in message.requests}
                self._odd = told if message.anew else self._odd | told
                self._notices.extend(message.requests)
            case review.RequestOpened():
                self._rest.discard(message.request.request_id)
                self._open[message.request.request_id] = message.request
                if not same(self._at_prompt, message.request):
                    self.waiting[message.request.request_id] = message.request
            case review.RequestClosed():
                self._closed(message)
            case review.RequestReminded():
                left = time_left(message.expires_at, self.console.now())
                self._notices.append(f"A request expires in {left}, and nobody has decided it.")
            case review.QuestionOpened():
                self._open[message.question.question_id] = message.question
                self.questions[message.question.question_id] = message.question
            case review.QuestionClosed():
                self._open.pop(message.question_id, None)
                self.questions.pop(message.question_id, None)
            case review.TaskOver():
                self._notices.append(left_behind(message))
            case review.Done() | review.Failed():
                # A frame that could not be read has no name; only one is on its way at a time.
                self._outcomes[message.ref or self._on_its_way] = message

    def _begin_with(self, message: review.Snapshot) -> None:
        self._known = True
        if self._connections.stands():
            self._notices.append("The connection stands again; this is what waits now.")
        self.waiting = {one.request_id: one for one in message.requests}
        self.questions = {one.question_id: one for one in message.questions}
        self._open = dict(self.questions)
        for one in message.requests:
            self._open[one.request_id] = one
        if not self.undecided:
            self._notices.append(_NOTHING)
            if message.others:
                self._notices.append(_OTHERS.format(message.others))

    def _closed(self, message: review.RequestClosed) -> None:
        self._open.pop(message.request_id, None)
        self._rest.discard(message.request_id)
        self._odd.pop(message.request_id, None)
        if self.waiting.pop(message.request_id, None) is not None:
            self._notices.append(f"A request was closed: {one_line(message.how)}.")
        elif self._at_prompt is not None and id_of(self._at_prompt) == message.request_id:
            self._how = message.how

    def _is_overtaken(self) -> bool:
        """Whether what stands at the prompt is no longer open as it is shown there."""
        asked = self._at_prompt
        if asked is None or self._gone:
            return self._gone or bool(self.waiting or self.questions)
        now = self._open.get(id_of(asked))
        return now is None or (isinstance(asked, HitlResponse) and not same(asked, now))

    # -- what is asked -------------------------------------------------------------------

    async def _work(self, socket: "ClientConnection", until_empty: bool) -> bool:
        """Take one decision after the other; whether nothing is left to do, else the connection is over."""
        while not self._gone:
            self._tell_notices()
            if self._known and self._unheard is not None:
                await self._send_again(socket, *self._unheard)
                continue
            asked = self._next()
            if asked is not None:
                sent = await self._in_thread(asked)
                if sent is not None:
                    await self._carry_out(socket, asked, sent)
            elif self._known and until_empty and not self._rest:
                return True
            elif self._left and self.console.ask is not None:
                self._left = not await self._in_thread(None)
            else:
                self._news.clear()
                await self._news.wait()
        return False

    def _tell_notices(self) -> None:
        notices, self._notices = self._notices, []
        for notice in notices:
            if isinstance(notice, str):
                self.console.tell(notice)
            else:
                self.console.write(odd_lines(notice))

    def _next(self) -> Asked | None:
        """The oldest thing that waits, taken out of what does."""
        if self.questions:
            return self.questions.pop(next(iter(self.questions)))
        return self.waiting.pop(next(iter(self.waiting))) if self.waiting else None

    async def _in_thread(self, asked: Asked | None) -> Any:
        """Ask in a thread, which ends by itself when the answer is not needed; None: there is none."""
        import anyio

        self._at_prompt, self._how = asked, ""
        try:
            return await anyio.to_thread.run_sync(self._ask, asked, abandon_on_cancel=True)
        except Overtaken:
            if asked is not None and not self._gone:
                self._notices.append(self._overtaken_by(asked))
            return None
        finally:
            self._at_prompt = None

    def _overtaken_by(self, asked: Asked) -> str:
        if self._how:
            return closed_meanwhile(self._how)
        if id_of(asked) in self._open:
            return "It has changed meanwhile; this is how it is now."
        return "It needs no answer any more."

    def _ask(self, asked: Asked | None) -> Sent | bool | None:
        if asked is None:
            return self._show_again()
        return self._decide(asked) if isinstance(asked, HitlResponse) else self._answer(asked)

    def _decide(self, request: HitlResponse) -> Sent | None:
        self.console.show(request)
        resume = self.console.decide(request)
        if resume is None:
            self._left = True
            return None
        return review.DecideRequest(ref=request.request_id[:100], request_id=request.request_id, resume=resume)

    def _answer(self, question: review.OpenQuestion) -> Sent | None:
        lines = text_field("the model asks", question.question)
        self.console.write([Line(f"── A question ─ task {one_line(question.task_id)}", "title"), *lines])
        if self.console.ask is None:
            return None
        answer = self.console.typed("Your answer (empty: leave it): ")
        if not answer:
            self._left = True
            return None
        return review.AnswerQuestion(
            ref=question.question_id[:100],
            task_id=question.task_id,
            question_id=question.question_id,
            answer=answer[:20_000],
        )

    def _show_again(self) -> bool:
        """Whether what was left is shown again."""
        count = len(self._open)
        if count:
            left = "1 is left open" if count == 1 else f"{count} are left open"
            self.console.typed(f"{left}: Enter shows what was left again, Ctrl-C leaves > ")
            for key, one in self._open.items():
                if isinstance(one, HitlResponse):
                    self.waiting.setdefault(RequestId(key), one)
                else:
                    self.questions.setdefault(key, one)
        return True

    # -- what is sent --------------------------------------------------------------------

    async def _send_again(self, socket: "ClientConnection", asked: Asked, sent: Sent) -> None:
        """Send what was on its way when the connection ended; an answer only where the question is still open."""
        present = self._open.get(id_of(asked))
        if isinstance(sent, review.AnswerQuestion):
            if present is None:
                self._unheard = None
                self.console.tell(needs_no_answer(sent.task_id))
                return
            self.questions.pop(sent.question_id, None)
        elif same(asked, present):
            self.waiting.pop(sent.request_id, None)
        self.console.tell(AGAIN)
        await self._carry_out(socket, asked, sent)

    async def _carry_out(self, socket: "ClientConnection", asked: Asked, sent: Sent) -> None:
        self._unheard = asked, sent
        outcome = await self._sent(socket, sent)
        if outcome is None:
            return
        self._unheard = None
        if isinstance(outcome, review.Done):
            if not isinstance(asked, HitlResponse) or same(self._open.get(asked.request_id), asked):
                # Else what is left of it was opened anew already.
                self._open.pop(id_of(asked), None)
                if isinstance(asked, HitlResponse) and in_part(asked, sent):
                    self._rest.add(asked.request_id)
            said = said_of(sent.resume) if isinstance(sent, review.DecideRequest) else "answered by you"
            self.console.tell(carried_out(said, outcome.task_id, outcome.status))
            for key in [one for one in self.console.kept if one[0] == id_of(asked)]:
                del self.console.kept[key]
            return
        now = self.console.now()
        self.console.tell(refused(outcome.code, outcome.message, outcome.remedy, outcome.details, now=now))
        if isinstance(asked, HitlResponse) and outcome.code not in OVER:
            present = self._open.get(asked.request_id)
            again = present if isinstance(present, HitlResponse) else asked
            self.waiting = {asked.request_id: again, **self.waiting}

    async def _sent(self, socket: "ClientConnection", sent: Sent) -> review.Done | review.Failed | None:
        """What the server made of it; None: the connection ended before it said so."""
        frame = sent.model_dump_json()
        if len(frame) > review.MAX_REVIEW_FRAME_CHARS and isinstance(sent, review.DecideRequest):
            import anyio

            return await anyio.to_thread.run_sync(self._posted, sent)
        self._on_its_way = sent.ref
        await socket.send(frame)
        while sent.ref not in self._outcomes:
            if self._gone:
                return None
            self._news.clear()
            await self._news.wait()
        return self._outcomes.pop(sent.ref)

    def _posted(self, sent: review.DecideRequest) -> review.Done | review.Failed:
        """A decision too large for the socket, such as an edited file, over the other endpoint."""
        body = sent.resume.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        try:
            answer = self.client.request("POST", f"/v1/resume/{sent.request_id}", body)
        except ServerRefused as error:
            return review.Failed(seq=0, code=error.reason, message=error.message, remedy=error.remedy)
        return review.Done(seq=0, ref=sent.ref, task_id=answer["task_id"], status=answer["status"])
