"""Follows the reviewers' socket and takes one decision after the other at the console.

Theory. One task reads the messages of the server; a thread asks the person about one thing at a time, so that a prompt
ends by itself when somebody else was first. Messages that come while a prompt is open are printed before the next one.
A request whose decision was refused and that is still open is asked for again. A connection that ended is opened again
and begins with a new snapshot. A decision whose result nobody heard is sent once more, since the same decision of the
same person is carried out once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.client import Attempts, Client, ServerRefused, ServerUnreachable
from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.text.visible import one_line
from orchestrator.core.wire import review
from orchestrator.terminal.console.person import Overtaken
from orchestrator.terminal.console.prompt import ClientDesk, Console
from orchestrator.terminal.review.channel import (
    AGAIN,
    OPEN_ENDED,
    OVER,
    Asked,
    Inbox,
    OddRequest,
    OddRequests,
    Outbox,
    Sent,
    answer_prompt,
    answering,
    closed_meanwhile,
    deciding,
    left_behind,
    messages_of,
    needs_no_answer,
    odd_lines,
    others_wait,
    reminded,
    same,
    told_of,
    whole,
)
from orchestrator.terminal.review.request_view import Line
from orchestrator.terminal.review.request_view import field as text_field

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

# -- The connections of one reviewer, one after another: what is lost is opened again, for as long as they are
# patient

_FAULT = 500
"""An HTTP status from here on is the server's own trouble, or that of something before it, and may pass."""


@dataclass(eq=False, repr=False)
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

_NOTHING = "Nothing waits for you."
_NEW_COME = " New requests appear here; Ctrl-C leaves."


@dataclass(eq=False, repr=False)
class ReviewLoop:
    """Follows the reviewers' socket and decides one request after the other at the console, which it takes over."""

    client: Client
    console: Console
    _inbox: Inbox = field(default_factory=Inbox)
    """All that was open when the server last told, including what was left."""
    _due: list[str] = field(default_factory=list)
    """The ids of what is asked for next."""
    _notices: list[str | OddRequest] = field(default_factory=list)
    _outbox: Outbox = field(init=False)
    _unheard: tuple[Asked, Sent] | None = None
    """The decision that has no answer yet; None: all have one."""
    _connections: Connections = field(init=False)
    _at_prompt: Asked | None = None
    _how: str = ""
    """The result of the request at the prompt, once it was closed."""
    _rest: set[str] = field(default_factory=set)
    """Requests that were decided in part, until the server tells what is left of them."""
    _left: bool = False
    """Whether something was left since it was last shown again."""
    _known: bool = False
    """Whether the snapshot came."""
    _gone: bool = False
    """Whether the connection is over."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._outbox = Outbox(self._post)

    @property
    def undecided(self) -> int:
        """How many requests and questions were open when the server last told, those that were left included."""
        return self._inbox.count

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
        # The snapshot tells again what waits.
        self._due, self._rest = [], set()
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
            self._outbox.lost()
            self._news.set()

    def _take(self, message: Any) -> None:
        self._inbox.take(message)
        match message:
            case review.Snapshot():
                self._begin_with(message)
            case OddRequests():
                self._notices.extend(message.requests)
            case review.RequestOpened(request=request):
                self._rest.discard(request.request_id)
                if not (isinstance(self._at_prompt, HitlResponse) and same(self._at_prompt, request)):
                    self._is_due(request.request_id)
            case review.RequestClosed():
                self._closed(message)
            case review.RequestReminded():
                self._notices.append(reminded(message, self.console.now()))
            case review.QuestionOpened():
                self._is_due(message.question.question_id)
            case review.TaskOver():
                self._notices.append(left_behind(message))
            case review.Done() | review.Failed():
                self._outbox.answered(message)

    def _begin_with(self, message: review.Snapshot) -> None:
        self._known = True
        if self._connections.stands():
            self._notices.append("The connection is back; these requests wait now.")
        self._due = [*self._inbox.requests, *self._inbox.questions]
        if not self.undecided:
            # Without a terminal it ends at once.
            self._notices.append(_NOTHING if self.console.ask is None else _NOTHING + _NEW_COME)
            if message.others:
                self._notices.append(others_wait(message.others))

    def _closed(self, message: review.RequestClosed) -> None:
        self._rest.discard(message.request_id)
        if message.request_id in self._due:
            self._due.remove(message.request_id)
            self._notices.append(f"A request was closed: {one_line(message.how)}.")
        elif isinstance(self._at_prompt, HitlResponse) and self._at_prompt.request_id == message.request_id:
            self._how = message.how

    def _is_due(self, key: str) -> None:
        if key not in self._due:
            self._due.append(key)

    def _is_overtaken(self) -> bool:
        """Whether what is at the prompt is no longer open as it is shown there."""
        asked = self._at_prompt
        if asked is None or self._gone:
            return self._gone or bool(self._open_of_due())
        now = self._inbox.find(asked)
        return now is None or (isinstance(now, HitlResponse) and not _alike(asked, now))

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

    def _open_of_due(self) -> list[Asked]:
        """The next open request, questions first."""
        every: list[Asked] = [*self._inbox.questions.values(), *self._inbox.requests.values()]
        open_ = {_id_of(one): one for one in every}
        found = [open_[key] for key in self._due if key in open_]
        return sorted(found, key=lambda one: isinstance(one, HitlResponse))

    def _next(self) -> Asked | None:
        """The oldest thing that waits, taken out of what does."""
        found = next(iter(self._open_of_due()), None)
        if found is not None:
            self._due.remove(_id_of(found))
        return found

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
        if self._inbox.find(asked) is not None:
            return "It has changed; this is how it is now."
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
        return deciding(request, resume)

    def _answer(self, question: review.OpenQuestion) -> Sent | None:
        lines = text_field("the model asks", whole(question))
        self.console.write([Line(f"── A question ─ task {one_line(question.task_id)}", "title"), *lines])
        if self.console.ask is None:
            return None
        answer = self.console.typed(answer_prompt(question.options))
        if not answer:
            self._left = True
            return None
        return answering(question, answer)

    def _show_again(self) -> bool:
        """Whether the request that was left is shown again."""
        count = len(self._inbox.requests) + len(self._inbox.questions)
        if count:
            left = "1 is left open" if count == 1 else f"{count} are left open"
            self.console.typed(f"{left}: Enter shows what was left again, Ctrl-C leaves > ")
            for key in (*self._inbox.questions, *self._inbox.requests):
                self._is_due(key)
        return True

    # -- what is sent --------------------------------------------------------------------

    async def _send_again(self, socket: "ClientConnection", asked: Asked, sent: Sent) -> None:
        """Send what was on its way when the connection ended; an answer only where the question is still open."""
        present = self._inbox.find(asked)
        if present is None and isinstance(sent, review.AnswerQuestion):
            self._unheard = None
            self.console.tell(needs_no_answer(sent.task_id))
            return
        if present is not None and _alike(asked, present) and _id_of(asked) in self._due:
            self._due.remove(_id_of(asked))
        self.console.tell(AGAIN)
        await self._carry_out(socket, asked, sent)

    async def _carry_out(self, socket: "ClientConnection", asked: Asked, sent: Sent) -> None:
        self._unheard = asked, sent
        # Once nothing is read any more, no answer would ever come.
        outcome = None if self._gone else await self._outbox.send(socket, sent)
        if outcome is None:
            return
        self._unheard = None
        self.console.tell(told_of(sent, outcome, self.console.now()))
        if isinstance(outcome, review.Done):
            self._was_taken(asked, sent)
        elif isinstance(asked, HitlResponse) and outcome.code not in OVER and asked.request_id not in self._due:
            self._due.insert(0, asked.request_id)

    def _was_taken(self, asked: Asked, sent: Sent) -> None:
        present = self._inbox.find(asked)
        self.console.kept.forget(_id_of(asked))
        if isinstance(asked, review.OpenQuestion):
            self._inbox.questions.pop(asked.question_id, None)
        elif present is not None and _alike(asked, present):
            # Else what is left of it was opened again already.
            del self._inbox.requests[asked.request_id]
            decisions = sent.resume.decisions if isinstance(sent, review.DecideRequest) else None
            if decisions is not None and len(decisions) < len(asked.tool_calls):
                self._rest.add(asked.request_id)

    async def _post(self, path: str, body: Any) -> Any:
        import anyio

        return await anyio.to_thread.run_sync(self.client.request, "POST", path, body)


def _id_of(asked: Asked) -> str:
    return asked.request_id if isinstance(asked, HitlResponse) else asked.question_id


def _alike(asked: Asked, present: Asked) -> bool:
    """Whether a question, or a request with its calls, is still as it was shown."""
    return not (isinstance(asked, HitlResponse) and isinstance(present, HitlResponse)) or same(asked, present)
