"""A list with one selected row, by key: the selection stays when the rows change. Rows are plain text."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from orchestrator.core.text.visible import one_line
from orchestrator.terminal.output import width
from orchestrator.terminal.tui.lines_view import Desk, LinesView, fitted
from orchestrator.terminal.tui.states import Tone, style_of

# -- A list of which one row is chosen; it stays chosen by its key when the rows change. It knows no markup

_CHOSEN: Final = RichStyle(reverse=True)
_HEAD: Final = RichStyle(bold=True)
_WIDEST: Final = 28
"""Columns of a cell that is not the last; a longer one is cut."""


class Entry(NamedTuple):
    """One row: the key of its item, and its cells, which are safe text."""

    key: str
    cells: tuple[str, ...]
    tone: Tone = ""
    toned: int = 0
    """The cell that has the tone; never the last one."""


class RowList(ScrollView, can_focus=True):
    """Rows under a head, the chosen one marked with ``>``."""

    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "turn(-1)", show=False),
        Binding("pagedown", "turn(1)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
        Binding("enter", "open", show=False),
    ]
    ALLOW_SELECT = False

    class Chosen(Message):
        """Another row is chosen, or none."""

        def __init__(self, rows: "RowList", key: str | None) -> None:
            super().__init__()
            self.rows, self.key = rows, key

    class Opened(Message):
        """Enter was pressed on a row."""

        def __init__(self, rows: "RowList", key: str) -> None:
            super().__init__()
            self.rows, self.key = rows, key

    def __init__(self, head: Sequence[str], *, empty: str = "", known: bool = True, id: str | None = None) -> None:
        super().__init__(id=id)
        self._head = tuple(head)
        self.empty = empty
        self._entries: list[Entry] = []
        self._known = known
        """Whether anybody has told yet which rows there are."""
        self._widths: list[int] = []
        self._at = 0
        self._told: str | None = None

    @property
    def chosen(self) -> str | None:
        """The key of the row that is chosen; None: there is none."""
        return self._entries[self._at].key if self._entries else None

    @property
    def at(self) -> int:
        """The place of the row that is chosen, from 0."""
        return self._at

    @property
    def entries(self) -> list[Entry]:
        """The rows."""
        return self._entries

    def show(self, entries: Sequence[Entry]) -> None:
        """Show these rows; the chosen one stays so where it is among them, else the next one there takes its place."""
        self._known = True
        key = self.chosen
        found = next((at for at, one in enumerate(entries) if one.key == key), None)
        self._at = found if found is not None else max(0, min(self._at, len(entries) - 1))
        self._entries = list(entries)
        cells = [self._head, *(one.cells for one in entries)]
        self._widths = [min(_WIDEST, max(width(row[at]) for row in cells)) for at in range(len(self._head) - 1)]
        self.virtual_size = Size(self.size.width, len(entries) + 1)
        self._settle()

    def choose(self, key: str) -> bool:
        """Choose the row with this key; whether there is one."""
        at = next((at for at, one in enumerate(self._entries) if one.key == key), None)
        if at is not None:
            self._at = at
            self._settle()
        return at is not None

    def action_move(self, by: int) -> None:
        """Choose a row further down, or up."""
        self._at = max(0, min(self._at + by, len(self._entries) - 1))
        self._settle()

    def action_turn(self, pages: int) -> None:
        """Choose a row on the next page, or the one before."""
        self.action_move(pages * max(1, self.size.height - 2))

    def action_open(self) -> None:
        """Open what is chosen."""
        if self.chosen is not None:
            self.post_message(self.Opened(self, self.chosen))

    def render_line(self, y: int) -> Strip:
        """The head stays where it is; the rows scroll below it."""
        base, columns = self.rich_style, self.size.width
        if y == 0:
            return Strip([Segment(fitted(self._row("  ", self._head), columns), base + _HEAD)])
        at = self.scroll_offset.y + y - 1
        if not self._entries and y == 1:
            return Strip([Segment(fitted(f"  {self.empty if self._known else 'Nobody has told yet.'}", columns), base)])
        if at >= len(self._entries):
            return Strip.blank(columns, base)
        chosen, entry = at == self._at, self._entries[at]
        text = fitted(self._row("> " if chosen else "  ", entry.cells), columns)
        if chosen and self.has_focus:
            return Strip([Segment(text, base + _CHOSEN)])
        style = base + _HEAD if chosen else base
        strip = Strip([Segment(text, style)])
        if not entry.tone or entry.toned >= len(self._widths):
            return strip
        start = 2 + sum(one + 2 for one in self._widths[: entry.toned])
        if start >= columns:
            return strip
        before, state, after = strip.divide([start, min(columns, start + self._widths[entry.toned]), columns])
        toned = style + style_of(entry.tone, dark=self.app.current_theme.dark)
        return Strip([*before, *(Segment(one.text, toned) for one in state), *after])

    def _row(self, mark: str, cells: Sequence[str]) -> str:
        return mark + "  ".join(
            [*(fitted(one, wide) for one, wide in zip(cells, self._widths, strict=False)), cells[-1]]
        )

    def _settle(self) -> None:
        self.refresh()
        # One row more than there are entries: the head covers the first one that is in sight.
        self.scroll_to_region(Region(0, self._at, 1, 2), animate=False, force=True)
        if self.chosen != self._told:
            self._told = self.chosen
            self.post_message(self.Chosen(self, self._told))


# -- One part of the screen: a list, and a page about what is chosen in it ---------------

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
    """The keys for the last line, where it is not the first of ``keys``."""

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

    @property
    def computer(self) -> str | None:
        """The computer that the chosen row is about; None: it is about none."""
        return None

    def offered(self) -> Sequence[tuple[str, str]]:
        """The keys of ``keys`` that are for the person here."""
        return self.keys

    def label(self, text: str) -> None:
        """Say something on the line above the page."""
        self.query_one(".bar", Static).update(one_line(text, limit=_BAR_CHARS))

    def entered(self) -> None:
        """It is on the screen now."""
        self.changed()

    @abstractmethod
    def changed(self) -> None:
        """Something may be different: read it again."""

    @abstractmethod
    def chosen(self, key: str | None) -> None:
        """Show the page of what is chosen."""

    def fill(self, entries: Sequence[Entry]) -> None:
        """Show these rows."""
        self.rows.show(entries)

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        # It goes on to the app, which shows the computer of the row.
        self.chosen(event.key)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        event.stop()
        self.add_class("-open")
        self.take_focus()

    def action_back(self) -> None:
        """The list and its page again."""
        self.remove_class("-open")
        self.take_focus()

    def take_focus(self) -> None:
        """Its list, or its page where that is alone, gets the keys."""
        # At once, not after what else is to be done: the next key is for this part.
        self.screen.set_focus(self.page if self.has_class("-open") else self.rows)

    def on_descendant_focus(self) -> None:
        self.set_class(self.page.has_focus, "-reads")
