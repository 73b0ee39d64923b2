"""A page of lines that scrolls: requests, a task's log, details. It draws text, and knows no markup."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.binding import Binding
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.worker import Worker

from orchestrator.client import ServerUnreachable
from orchestrator.client.live import Live
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.review.request_view import BAR, Line, Style, on_screen
from orchestrator.terminal.tui.reviews import Reviews
from orchestrator.terminal.tui.states import Tone, style_of

# -- Work that goes on beside the keys: asking the server, following a stream, a dialog that waits


def begin(node: DOMNode, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any, in_place_of: str = "") -> None:
    """Begin it; ``in_place_of``: the work that this node had begun under the same name ends.

    It is given as a function: a coroutine that ends before it began would be complained about.
    """

    async def wanted() -> None:
        try:
            await work(*args)
        except NoMatches:
            if not _is_left(node):
                raise

    worker: Worker[Any] = node.run_worker(wanted, group=in_place_of or "default", exclusive=bool(in_place_of))
    del worker


def _is_left(node: DOMNode) -> bool:
    """Whether its screen was left: the parts of it go first, and its work is ended after that."""
    app = node.app
    return not app.is_running or node.screen not in app.screen_stack


# -- What every part of the screen has at hand: the server, what waits, and a place to say things


def now() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


@dataclass
class Desk:
    """One person at one server."""

    live: Live
    reviews: Reviews
    tell: Callable[[str], None]
    """Says a sentence below everything."""
    go: Callable[[str, str | None], None]
    """Shows another part, and there what has this key."""
    computer_of: Callable[[str | None], str | None]
    """The first computer of a task of the list; None: there is none."""
    too_early: Callable[[float], bool]
    """Whether the key of now was typed before a person could read what is shown since a time of time.monotonic."""
    me: Mapping[str, Any] = field(default_factory=dict)
    """The person here, as `whoami` tells; empty: the server has not told yet."""

    async def learn_me(self) -> None:
        """Ask who is here and what they may do now; without an answer it stays as it was."""
        with suppress(OrchestratorError):
            self.me = await self.live.ask("GET", "/v1/whoami")

    def may(self, right: str) -> bool:
        """Whether the person here has a right."""
        return not {right, "everything"}.isdisjoint(self.me.get("rights", ()))

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """One call; the answer's JSON, or None, and said why: there is none."""
        return await self._said(method, self.live.ask(method, path, body, **query))

    async def ask_long(self, method: str, path: str, body: Any = None) -> Any:
        """As :meth:`ask`, of what may take minutes."""
        return await self._said(method, self.live.ask_long(method, path, body))

    async def _said(self, method: str, asking: Awaitable[Any]) -> Any:
        try:
            return await asking
        except OrchestratorError as error:
            if method == "GET" and isinstance(error, ServerUnreachable):
                # The line of the connection says so, and all is read again when it is back.
                return None
            self.tell(why_not(method, error))
            return None


def why_not(method: str, error: OrchestratorError) -> str:
    """Why a call brought nothing, as a sentence that does not say more than is known."""
    if method == "GET":
        return str(error)
    lost = isinstance(error, ServerUnreachable) and error.may_have_arrived
    return f"{'Not heard whether it was carried out' if lost else 'Not carried out'}: {error}"


# -- Lines as rows of a screen: nothing is cut, and no row of a broken line looks like a line of ours

_BROKEN_BAR: Final = "  ┊ "
"""Begins what a row of a text of the world goes on with."""
_BROKEN: Final = "      "
_TAB: Final = 4
_LEAST: Final = 8
"""Columns below which nothing sensible can be shown; rows are then longer than the screen."""


class Row(NamedTuple):
    """One row, at most as wide as the screen."""

    text: str
    style: Style


def rows_of(line: Line, columns: int) -> list[Row]:
    """A line as rows of so many columns."""
    columns = max(columns, _LEAST)
    lead = _BROKEN_BAR if line.text.startswith(BAR) else _BROKEN
    rows: list[Row] = []
    for part in on_screen(line, color=False, columns=columns):
        rows.extend(Row(text, line.style) for text in _broken(part.expandtabs(_TAB), columns, lead))
    return rows


def _broken(text: str, columns: int, lead: str) -> list[str]:
    """A text broken where it is too wide; every further row begins with ``lead``."""
    if cell_len(text) <= columns:
        return [text]
    rows, row, taken = [], "", 0
    for char in text:
        width = cell_len(char)
        if taken + width > columns:
            rows.append(row)
            row, taken = lead, len(lead)
        row += char
        taken += width
    return [*rows, row]


def fitted(text: str, columns: int) -> str:
    """The text in so many columns: cut with an ellipsis where it is wider, else followed by blanks."""
    width = cell_len(text)
    if width <= columns:
        return text + " " * (columns - width)
    kept, taken = "", 1
    for char in text:
        taken += cell_len(char)
        if taken > columns:
            break
        kept += char
    kept += "…"
    return kept + " " * (columns - cell_len(kept))


# -- How times, names and paths of the server are written, in the terminal UI ------------


def moment(text: str | None) -> str:
    """A time of the server as a clock on the wall here shows it, to the minute; empty where there is none."""
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M}" if text else ""


def name_of(text: str) -> str:
    """A name on one line, short enough for a title."""
    return one_line(text, limit=64)


def segment(text: str) -> str:
    """A name as one part of a path: a slash in it is not a slash of the address."""
    return quote(text, safe="")


# -- A page of lines that scrolls: requests, a task's log, details. It draws text, and knows no markup

_MOST_LINES: Final = 20_000
"""Lines of a log that grows; older ones are left out, and the log says so."""
_STYLES: Final[dict[Style, tuple[RichStyle, Tone]]] = {
    "title": (RichStyle(bold=True), ""),
    "alarm": (RichStyle(bold=True), "bad"),
    "call": (RichStyle(bold=True), ""),
    "file": (RichStyle(bold=True), ""),
    "hunk": (RichStyle(), "busy"),
    "added": (RichStyle(), "good"),
    "removed": (RichStyle(), "bad"),
    "warning": (RichStyle(), "waits"),
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
        """The lines in sight now were read, where nothing above them was passed over."""
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
        painted = base
        if style:
            shape, tone = _STYLES[style]
            painted = base + shape + style_of(tone, dark=self.app.current_theme.dark)
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
