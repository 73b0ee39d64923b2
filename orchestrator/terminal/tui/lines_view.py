"""A page of lines that scrolls: requests, a task's log, details. It draws text, and knows no markup."""

from collections.abc import Iterable
from typing import Final

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.binding import Binding
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from orchestrator.terminal.console.lines import Line, Style
from orchestrator.terminal.tui.wrap import Row, rows_of

_MOST_LINES: Final = 20_000
"""Of a log that grows; what is older is left out, and that is said."""
_STYLES: Final[dict[Style, RichStyle]] = {
    "title": RichStyle(bold=True),
    "alarm": RichStyle(bold=True, color="bright_red"),
    "call": RichStyle(bold=True),
    "file": RichStyle(bold=True),
    "hunk": RichStyle(color="cyan"),
    "added": RichStyle(color="green"),
    "removed": RichStyle(color="red"),
    "warning": RichStyle(color="yellow"),
}


class LinesView(ScrollView, can_focus=True):
    """Lines, wrapped to its width."""

    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("space", "page_down", show=False),
        Binding("b", "page_up", show=False),
    ]
    ALLOW_SELECT = False

    def __init__(self, *, follows: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._follows = follows
        """Whether what is added is scrolled to, where the end was in sight."""
        self._lines: list[Line] = []
        self._rows: list[Row] = []
        self._counts: list[int] = []
        """How many rows each line takes."""
        self._columns = 0
        self._read = 0
        """Rows from the first one that were in sight."""

    @property
    def lines(self) -> list[Line]:
        """What it shows."""
        return self._lines

    @property
    def unseen(self) -> int:
        """Rows below what is in sight."""
        return max(0, len(self._rows) - self.scroll_offset.y - self.size.height)

    def note_read(self) -> None:
        """What is in sight now was read, where nothing above it was passed over."""
        top = self.scroll_offset.y
        if top <= self._read:
            self._read = max(self._read, top + self.size.height)

    @property
    def was_read(self) -> bool:
        """Whether every row was in sight once."""
        return self._read >= len(self._rows)

    def show(self, lines: Iterable[Line], *, stay: bool = False) -> None:
        """Show these lines from the first; ``stay``: from where one was."""
        self._lines = list(lines)
        self._wrap()
        if not stay:
            self.scroll_to(y=self.max_scroll_y if self._follows else 0, animate=False)

    def add(self, lines: Iterable[Line]) -> None:
        """Show more lines below."""
        added = list(lines)
        at_end = self.unseen == 0
        self._lines.extend(added)
        for line in added:
            self._take(line)
        if len(self._lines) > _MOST_LINES:
            self._lines = [Line("[… older lines are left out here …]"), *self._lines[-_MOST_LINES // 2 :]]
            self._wrap()
        self._resized(at_end)

    def replace_last(self, line: Line) -> None:
        """Show another line in place of the last."""
        at_end = self.unseen == 0
        self._lines[-1] = line
        del self._rows[len(self._rows) - self._counts.pop() :]
        self._take(line)
        self._resized(at_end)

    def show_line(self, number: int) -> None:
        """Scroll so that this line, from 0, is the first."""
        self.scroll_to(y=sum(self._counts[:number]), animate=False)

    def on_resize(self, event: Resize) -> None:
        """Another width breaks the lines elsewhere."""
        del event
        if self._width() != self._columns:
            at_end = self._follows and self.unseen == 0
            self._wrap()
            if at_end:
                self.scroll_end(animate=False, immediate=True)

    def render_line(self, y: int) -> Strip:
        """One row of what is in sight."""
        at = self.scroll_offset.y + y
        base = self.rich_style
        if at >= len(self._rows):
            return Strip.blank(self.size.width, base)
        text, style = self._rows[at]
        painted = base + _STYLES[style] if style else base
        return Strip([Segment(text, painted)]).adjust_cell_length(self.size.width, base)

    def _width(self) -> int:
        return self.scrollable_content_region.width

    def _take(self, line: Line) -> None:
        rows = rows_of(line, self._columns or 80)
        self._rows.extend(rows)
        self._counts.append(len(rows))

    def _wrap(self) -> None:
        self._columns = self._width()
        self._rows, self._counts, self._read = [], [], 0
        for line in self._lines:
            self._take(line)
        self.virtual_size = Size(self._columns, len(self._rows))
        self.refresh()

    def _resized(self, at_end: bool) -> None:
        self.virtual_size = Size(self._columns, len(self._rows))
        self.refresh()
        if at_end and self._follows:
            self.scroll_end(animate=False)
