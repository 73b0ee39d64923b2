"""Several requests decided together: each is shown whole, and the outcome of each is told. Questions of the model."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Resize
from textual.widgets import Static

from orchestrator.core.approval.approval import HitlResponse, ResumeRequest
from orchestrator.core.text.visible import one_line, visible
from orchestrator.core.wire import review
from orchestrator.core.wire.review import OpenQuestion
from orchestrator.terminal.output import counted
from orchestrator.terminal.review.channel import closed_meanwhile, same, these, whole
from orchestrator.terminal.review.edit import decision
from orchestrator.terminal.review.request_view import Line, page
from orchestrator.terminal.review.request_view import field as text_field
from orchestrator.terminal.tui.decision import Deciding, ask_rejection, in_short
from orchestrator.terminal.tui.dialogs import Choose, Dialog, Write
from orchestrator.terminal.tui.lines_view import LinesView, begin, now
from orchestrator.terminal.tui.row_list import Entry, Pane
from orchestrator.terminal.tui.typing import JUST_COME

if TYPE_CHECKING:
    from orchestrator.terminal.tui.row_list import Pane

# -- Several requests decided together: each is shown whole, one below the other, and what became of each is said

_UNREAD: Final = "Not all of it was on the screen yet: Space goes on."


class Together(Dialog[None]):
    """Requests as they stood when it was opened, and one decision on those that are still open so."""

    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("a", "decide('approve')", show=False),
        Binding("r", "decide('reject')", show=False),
    ]

    def __init__(self, pane: "Pane", deciding: Deciding, requests: Sequence[HitlResponse]) -> None:
        super().__init__(f"{counted(len(requests), 'request')}, one decision")
        self._pane, self._deciding, self._requests = pane, deciding, requests
        self.became: dict[str, str] = {}
        """The outcome of each, as a sentence."""
        self._over: set[str] = set()
        """The requests about which nothing more is sent; an undelivered decision waits as it did."""
        self._was_read = False
        """Whether every row was on the screen once."""
        self._since = 0.0
        """The time.monotonic at which they came on the screen."""

    def inside(self) -> ComposeResult:
        yield LinesView(id="dialog-lines")

    def on_mount(self) -> None:
        self._view.show(self._lines())
        self._since = time.monotonic()
        self._view.focus()
        self.watch(self._view, "scroll_y", self._scrolled, init=False)
        self.call_after_refresh(self._scrolled)

    @property
    def _view(self) -> LinesView:
        return self.query_one(LinesView)

    def _open(self) -> list[HitlResponse]:
        """The requests that wait as they were shown."""
        present = self._pane.desk.reviews.requests
        undecided = [one for one in self._requests if one.request_id not in self._over]
        return [one for one in undecided if one.request_id in present and same(one, present[one.request_id])]

    def heard(self, message: Any) -> None:
        """The reviewers' socket told something: a request that somebody else decided is not in the batch any more."""
        for one in self._requests:
            present = self._pane.desk.reviews.requests.get(one.request_id)
            closed = isinstance(message, review.RequestClosed) and message.request_id == one.request_id
            if one.request_id in self._over or one.request_id in self._deciding.mine:
                continue
            if closed:
                self._note(one, closed_meanwhile(message.how))
            elif present is not None and not same(one, present):
                self._note(one, "It has changed: look at it as it is now.")
            elif present is None and isinstance(message, review.Snapshot):
                self._note(one, closed_meanwhile("while there was no connection"))

    # -- what is shown -------------------------------------------------------------------

    def _lines(self) -> Iterator[Line]:
        count = len(self._requests)
        if self.became:
            yield Line("── What became of them", "title")
            for at, one in enumerate(self._requests, start=1):
                said = self.became.get(one.request_id)
                if said is not None:
                    yield Line(f"  {at}/{count}  {in_short(one)}", "call")
                    yield Line(f"        {said}", prose=True)
            yield Line("")
        for at, one in enumerate(self._requests, start=1):
            yield Line(f"══ {at} of {count}", "title")
            yield from page(one, now=now())

    def _note(self, request: HitlResponse, said: str, *, over: bool = True) -> None:
        self.became[request.request_id] = said
        (self._over.add if over else self._over.discard)(request.request_id)
        if self.is_attached:
            self._view.show(self._lines())
            self._hint()

    def _scrolled(self) -> None:
        self._view.note_read()
        self._was_read = self._was_read or self._view.was_read
        self._hint()

    def on_resize(self, event: Resize) -> None:
        """Another height may show all of it."""
        del event
        self.call_after_refresh(self._scrolled)

    def _hint(self) -> None:
        count = len(self._open())
        if not count:
            said = "None of these waits any more.   Esc closes"
        elif not self._was_read:
            said = (
                f"{counted(self._view.unseen, 'row')} below: Space goes on   r reject these {count}   Esc leaves them"
            )
        else:
            said = f"a approve these {count}   r reject these {count}   Esc leaves them"
        self.query_one(".dialog-keys", Static).update(said)

    # -- what is decided -----------------------------------------------------------------

    def action_decide(self, word: Literal["approve", "reject"]) -> None:
        """Decide those that are open, once that is confirmed."""
        if self._pane.desk.too_early(self._since):
            # The line of keys is drawn anew in a moment; this stays among what was said.
            self.query_one(".dialog-keys", Static).update(JUST_COME)
            self._pane.desk.tell(JUST_COME)
        elif word == "approve" and not self._was_read:
            self.query_one(".dialog-keys", Static).update(_UNREAD)
        elif self._open():
            # Not of this screen: a person who leaves it still hears the result of the decision that was sent.
            begin(self._pane, self._decide, word)

    async def _decide(self, word: Literal["approve", "reject"]) -> None:
        asked = self._open()
        which = these(len(asked))
        more: dict[str, Any] = {}
        if word == "reject":
            said = await ask_rejection(self._pane.app, f"Reject {which}. Why? (may be empty)", asked[0], about="")
            if said is None:
                return
            more = {"reason": said[0], "on_reject": said[1]}
        else:
            lines = [Line(f"  {in_short(one)}  (risk: {one.risk.value})", "call") for one in asked]
            title = f"Let {which} run, exactly as shown?"
            if not await self._pane.app.push_screen_wait(Choose(title, lines, [("y", "yes")], enter="y")):
                return
        await asyncio.gather(*(self._send(one, decision(one, word, **more)) for one in asked))

    async def _send(self, request: HitlResponse, resume: ResumeRequest) -> None:
        self._note(request, "Sent, and not confirmed yet.")
        outcome = await self._deciding.settle(request, resume)
        self._pane.desk.tell(outcome.said)
        present = self._pane.desk.reviews.requests.get(request.request_id)
        waits = not outcome.taken and present is not None and same(request, present)
        self._note(request, outcome.said, over=not waits)


# -- What the model asks of this person --------------------------------------------------

_MOST_CHARS = 20_000


class Questions(Pane):
    """The questions that are open."""

    name_of = "questions"
    title = "Questions"
    head = ("TASK", "QUESTION")
    empty = "No task asks anything."
    BINDINGS = [Binding("a", "answer", show=False), Binding("v", "watch", show=False)]  # noqa: RUF012
    keys: ClassVar[Sequence[tuple[str, str]]] = (("a", "answer"), ("v", "its task"))

    @property
    def count(self) -> int | None:
        return len(self.desk.reviews.questions)

    @property
    def computer(self) -> str | None:
        """See Pane."""
        question = self.desk.reviews.questions.get(self.rows.chosen or "")
        return self.desk.computer_of(question.task_id) if question is not None else None

    def heard(self, message: Any) -> None:
        """The reviewers' socket told something."""
        del message
        self.changed()

    def changed(self) -> None:
        """Draw the list."""
        questions = self.desk.reviews.questions.values()
        self.fill([Entry(one.question_id, (one.task_id[:14], one_line(one.question))) for one in questions])

    def chosen(self, key: str | None) -> None:
        """Show a question."""
        question = self.desk.reviews.questions.get(key or "")
        if question is None:
            # The page may stand alone.
            self.page.show([Line(self.empty)] if self.has_class("-open") else [])
            self.label("")
            return
        self.label("a answer, v its task")
        self.page.show(
            [
                Line(f"── A question ─ task {one_line(question.task_id)}", "title"),
                *text_field("the task", question.goal),
                *text_field("the model asks", whole(question)),
            ]
        )

    def action_answer(self) -> None:
        """Answer the question that is shown."""
        question = self.desk.reviews.questions.get(self.rows.chosen or "")
        if question is None:
            self.desk.tell("No question is chosen.")
        else:
            begin(self, self._answer, question)

    async def _answer(self, question: OpenQuestion) -> None:
        lines = [Line(one, prose=True) for one in visible(whole(question)).splitlines()]
        answer = await self.app.push_screen_wait(Write("Your answer", lines=lines, about=question.question_id))
        if answer and answer.strip():
            await self.desk.reviews.answer(question, answer.strip()[:_MOST_CHARS])

    def action_watch(self) -> None:
        """Show its task."""
        question = self.desk.reviews.questions.get(self.rows.chosen or "")
        if question is not None:
            self.desk.go("tasks", question.task_id)
