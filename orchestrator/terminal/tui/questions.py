"""What the model asks of this person."""

from collections.abc import Sequence
from typing import Any, ClassVar

from textual.binding import Binding

from orchestrator.core.text.visible import one_line, visible
from orchestrator.core.wire.review import OpenQuestion
from orchestrator.terminal.review.request_view import Line
from orchestrator.terminal.review.request_view import field as text_field
from orchestrator.terminal.tui.dialogs import Write
from orchestrator.terminal.tui.lines_view import begin
from orchestrator.terminal.tui.row_list import Entry, Pane

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
                *text_field("the model asks", question.question),
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
        lines = [Line(one, prose=True) for one in visible(question.question).splitlines()]
        answer = await self.app.push_screen_wait(Write("Your answer", lines=lines, about=question.question_id))
        if answer and answer.strip():
            await self.desk.reviews.answer(question, answer.strip()[:_MOST_CHARS])

    def action_watch(self) -> None:
        """Show its task."""
        question = self.desk.reviews.questions.get(self.rows.chosen or "")
        if question is not None:
            self.desk.go("tasks", question.task_id)
