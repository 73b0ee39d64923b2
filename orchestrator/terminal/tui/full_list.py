"""A list and its page over the whole screen, for what is looked at from a part and left again with Escape."""

from collections.abc import Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.widgets import Static

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.tui.dialogs import Dialog
from orchestrator.terminal.tui.lines_view import Desk, LinesView, why_not
from orchestrator.terminal.tui.row_list import RowList

_BAR_CHARS = 1000


class Listing(Dialog[str]):
    """Rows, and below them a page about the one that is chosen; the answer is a task to look at, or None."""

    head: ClassVar[Sequence[str]]
    empty: ClassVar[str] = "Nothing."

    def __init__(self, title: str, desk: Desk) -> None:
        super().__init__(title)
        self.desk = desk

    def inside(self) -> ComposeResult:
        yield RowList(self.head, empty=self.empty, known=False, id="rows")
        yield Static("", markup=False, classes="bar")
        yield from self.below()
        yield Static("", markup=False, classes="told")

    def below(self) -> ComposeResult:
        """What stands below the list."""
        yield LinesView()

    @property
    def rows(self) -> RowList:
        """The list."""
        return self.query_one("#rows", RowList)

    @property
    def page(self) -> LinesView:
        """The page."""
        return self.query_one(LinesView)

    def label(self, text: str) -> None:
        """Say something on the line above the page."""
        self.query_one(".bar", Static).update(one_line(text, limit=_BAR_CHARS))

    async def ask(self, method: str, path: str, body: Any = None, *, long: bool = False) -> Any:
        """One call; None, and said here: there is no answer. ``long``: it may take minutes."""
        if method != "GET" and not long:
            self.show_news("Sent, and not confirmed yet.")
        try:
            return await (self.desk.live.ask_long if long else self.desk.live.ask)(method, path, body)
        except OrchestratorError as error:
            self.say(why_not(method, error))
            return None

    def say(self, sentence: str) -> None:
        """Say what became of something, here if this is still looked at."""
        self.desk.tell(sentence)
        self.show_news(sentence)

    def show_news(self, sentence: str) -> None:
        """Say how it goes, here if this is still looked at."""
        if self.is_attached:
            self.query_one(".told", Static).update(one_line(sentence, limit=_BAR_CHARS))

    def on_mount(self) -> None:
        self.rows.focus()
        self.read()

    def read(self) -> None:
        """Read the list anew."""
        raise NotImplementedError

    def read_again(self) -> None:
        """Read it anew if this is still looked at."""
        if self.is_attached:
            self.read()

    def chosen(self, key: str | None) -> None:
        """Show the page of what is chosen."""
        raise NotImplementedError

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        if event.rows is self.rows:
            self.chosen(event.key)
