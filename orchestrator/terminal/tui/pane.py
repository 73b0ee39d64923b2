"""One part of the screen: a list, and a page about what is chosen in it."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.widgets import Static

from orchestrator.core.text.visible import one_line
from orchestrator.terminal.tui.lines_view import LinesView
from orchestrator.terminal.tui.row_list import Entry, RowList
from orchestrator.terminal.tui.shared import Desk

_BAR_CHARS = 1000


class Pane(Container):
    """A list above its page, or beside it where there is room. Enter shows the page alone, Escape both again."""

    BINDINGS = [Binding("escape", "back", show=False)]  # noqa: RUF012 - as the library has it
    name_of: ClassVar[str]
    """The pane's id."""
    title: ClassVar[str]
    head: ClassVar[Sequence[str]]
    empty: ClassVar[str] = "Nothing."
    reads: ClassVar[bool] = False
    """Whether nobody knows its rows before the server has told them."""
    follows: ClassVar[bool] = False
    """Whether the page is a log, whose end is looked at."""
    keys: ClassVar[Sequence[tuple[str, str]]] = ()
    """Each key and what it does, for the last line and the help."""

    hinted: ClassVar[Sequence[tuple[str, str]]] = ()
    """Those for the last line, where it is not the first of ``keys``."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(id=self.name_of, classes="pane")
        self.desk = desk

    def compose(self) -> ComposeResult:
        yield RowList(self.head, empty=self.empty, known=not self.reads)
        yield Static("", markup=False, classes="bar")
        yield LinesView(follows=self.follows)

    @property
    def rows(self) -> RowList:
        """The list."""
        return self.query_one(RowList)

    @property
    def page(self) -> LinesView:
        """The page."""
        return self.query_one(LinesView)

    @property
    def count(self) -> int | None:
        """How many things wait here; None: nobody counts them."""
        return None

    def label(self, text: str) -> None:
        """Say something on the line above the page."""
        self.query_one(".bar", Static).update(one_line(text, limit=_BAR_CHARS))

    def entered(self) -> None:
        """It is on the screen now."""
        self.changed()

    @abstractmethod
    def changed(self) -> None:
        """Something may be different: read it anew."""

    @abstractmethod
    def chosen(self, key: str | None) -> None:
        """Show the page of what is chosen."""

    def fill(self, entries: Sequence[Entry]) -> None:
        """Show these rows."""
        self.rows.show(entries)

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self.chosen(event.key)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        event.stop()
        self.add_class("-open")
        self.page.focus()

    def action_back(self) -> None:
        """The list and its page again."""
        self.remove_class("-open")
        self.rows.focus()

    def take_focus(self) -> None:
        """Its list, or its page where that stands alone, gets the keys."""
        (self.page if self.has_class("-open") else self.rows).focus()
