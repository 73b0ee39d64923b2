"""A computer in the game as a person sees it: what is known of it, its screen, and the column with both."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from orchestrator.client import Back, Lost, ServerRefused
from orchestrator.client.live import Live, as_object
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line, visible
from orchestrator.terminal.output import age, wrapped
from orchestrator.terminal.review.request_view import Line
from orchestrator.terminal.tui.lines_view import LinesView, begin, moment, name_of, segment
from orchestrator.terminal.tui.states import computer_state, family_of, word_of

TERMINAL: Final = "terminal"
"""The screen that each computer has."""


# -- One computer as lines for a person: who it is, and both sides of what froze it ------


def computer_lines(found: Mapping[str, Any], client: str = "", task: Mapping[str, Any] | None = None) -> Iterator[Line]:
    """A computer as its endpoint tells it; ``client``: the version of its client, ``task``: what is under way there."""
    yield Line(f"── Computer {one_line(found['computer'])}", "title")
    if found["frozen"]:
        yield from _frozen_lines(found["frozen"])
    released = ", released and not back yet: the next computer that connects is it" if found["released"] else ""
    yield Line(f"  state    {computer_state(found['state'])[0]}{released}", prose=True)
    named = (
        ("kind", found.get("family") and family_of(found["family"])),
        ("label", found.get("label")),
        ("runs", found.get("host")),
    )
    for name, value in (*named, ("client", client), ("paired", found.get("owner") and f"by {found['owner']}")):
        if value:
            yield Line(f"  {name:8} {one_line(value)}")
    if found["last"]:
        came = found["last"]
        peer = f" from {one_line(came['peer'])}" if came["peer"] else ""
        yield Line(f"  came     {age(came['at'])} ago{peer}, as id {came['computer_id']}")
    if task is not None:
        yield Line(f"  task     {task['task_id']} {word_of(task['status'])}: {one_line(task['prompt'])}", prose=True)


def _frozen_lines(frozen: Mapping[str, Any]) -> Iterator[Line]:
    """Why it is frozen, what to do, and which computer came."""
    since = f" since {moment(frozen['since'])}" if frozen["since"] else ""
    yield Line(f"  FROZEN{since}: {one_line(frozen['message'], limit=1000)}", "alarm", prose=True)
    yield Line(f"  to do    {one_line(frozen['remedy'], limit=1000)}", prose=True)
    sides = frozen["sides"]
    for at, side in enumerate(sides):
        yield Line("  who was welcome last" if at < len(sides) - 1 else "  who came then", "call")
        yield from side_lines(side)


def side_lines(side: Mapping[str, Any]) -> Iterator[Line]:
    """One of the computers that came under a name, as lines."""
    label = f", label {name_of(side['label'])}" if side["label"] else ""
    peer = f", from {one_line(side['peer'])}" if side["peer"] else ""
    yield Line(
        f"    id {side['computer_id']}{label}{peer}, {age(side['at'])} ago, boot {one_line(side['boot'])}", prose=True
    )
    if side["host"]:
        yield Line(f"    {one_line(side['host'])}")


# -- The screen of a computer in the game, cell by cell in its own colours ---------------

_HEX: Final = "0123456789abcdef"
_MOST_CELLS: Final = 1000
"""The most of a row or a column: a wall of monitors has fewer."""


class Picture(ScrollView, can_focus=True):
    """One screen, as ``GET /v1/computers/{name}/screen`` tells it."""

    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[list[tuple[str, str, str]]] = []
        """Each cell: its character, and its colours as digits."""
        self._palette: Sequence[str] = ()
        self._cursor: tuple[int, int] | None = None
        self._note = ""

    def begin(self) -> None:
        """Nothing is known yet."""
        self._rows, self._cursor = [], None
        self.virtual_size = Size(0, 0)
        self.note("Waiting for a picture.")

    def note(self, text: str) -> None:
        """Say something above the picture; empty: nothing."""
        self._note = one_line(text, limit=1000)
        self.refresh()

    def take(self, kind: str, data: Mapping[str, Any]) -> None:
        """One event of the stream."""
        match kind:
            case "picture":
                self._take_picture(data)
            case "away":
                self.note("The computer is away; this is the last that was seen.")
            case "unreadable":
                self.note(f"It cannot be read: {data.get('message', '')}")

    def _take_picture(self, data: Mapping[str, Any]) -> None:
        width, height = (max(0, min(_MOST_CELLS, int(data.get(side) or 0))) for side in ("width", "height"))
        if data.get("whole") or len(self._rows) != height:
            self._rows = [[(" ", "0", "f")] * width for _ in range(height)]
        palette = data.get("palette")
        self._palette = [str(one) for one in palette] if isinstance(palette, list) else self._palette
        for row in data.get("rows") or ():
            y = int(row["y"]) - 1
            if 0 <= y < height:
                cells = zip(row["text"], row["fg"], row["bg"], strict=False)
                self._rows[y] = [(_cell(str(char)), fg, bg) for char, fg, bg in cells][:width]
        x, y = int(data.get("x") or 0) - 1, int(data.get("y") or 0) - 1
        self._cursor = (x, y) if data.get("blink") and 0 <= x < width and 0 <= y < height else None
        self.virtual_size = Size(width, height)
        self.note("")

    def render_line(self, y: int) -> Strip:
        """A row of it, below a line that says what it is not."""
        base, columns = self.rich_style, self.size.width
        note = wrapped(self._note, columns) if self._note else []
        if y < len(note):
            return Strip([Segment(note[y], base)]).adjust_cell_length(columns, base)
        left, top = self.scroll_offset
        at = top + y
        if at >= len(self._rows):
            return Strip.blank(columns, base)
        segments = [
            Segment(char, self._style(fg, bg, cursor=self._cursor == (x, at)))
            for x, (char, fg, bg) in enumerate(self._rows[at])
        ]
        return Strip(segments).crop(left, left + columns).adjust_cell_length(columns, base)

    def _style(self, fg: str, bg: str, *, cursor: bool) -> RichStyle:
        front, back = self._color(fg), self._color(bg)
        return RichStyle(color=front, bgcolor=back, reverse=cursor or None)

    def _color(self, digit: str) -> str | None:
        at = _HEX.find(digit)
        found = self._palette[at] if 0 <= at < len(self._palette) else ""
        return found if len(found) == 7 and found[0] == "#" and all(one in _HEX for one in found[1:].lower()) else None


def _cell(char: str) -> str:
    """A character that takes one cell and moves nothing; a blank for tab and the like, ``?`` for others."""
    if len(char) == 1 and visible(char) == char and char not in "\n\t" and cell_len(char) == 1:
        return char
    return " " if char.isspace() else "?"


async def watch_into(picture: "Picture", live: Live, name: str, of: str) -> None:
    """Draw a screen as it changes, until this is cancelled. Raises ServerRefused where nobody tells it."""
    told = live.hear(f"/v1/computers/{segment(name)}/screen", of=of)
    async with aclosing(told):
        async for one in told:
            if isinstance(one, Lost | Back):
                picture.note("" if isinstance(one, Back) else "The server went away; it is looked for.")
                continue
            picture.take(one[0], as_object(one[1]))


# -- The column beside a list and its page, on a large terminal -------------------------

_CALM_S: Final = 0.3
"""Before a screen is asked for: its row may only be passed by."""
_NOT_YOURS: Final = 403


class Beside(Vertical):
    """The screen of the computer that the chosen row is about. Nobody watches while it is not on the screen."""

    def __init__(self, live: Live) -> None:
        super().__init__(id="beside")
        self._live = live
        self._name: str | None = None
        self._refused = ""
        """Why the server tells this person no screen: each refusal is written down, so it is asked once."""

    def compose(self) -> ComposeResult:
        yield Static("", markup=False, classes="bar")
        yield Picture()
        yield LinesView()

    @property
    def watches(self) -> str | None:
        """The computer whose screen is watched; None: no one's."""
        return self._name

    def show(self, name: str | None, *, facts: bool = True) -> None:
        """Show the screen of a computer, and below it the known ``facts``; None: of none."""
        if name is None:
            self.stop()
            return
        if facts:
            begin(self, self._look, name, in_place_of="look")
        else:
            self.query_one(LinesView).show(())
        if name != self._name:
            self.stop()
            self._name = name
            self.query_one(Picture).begin()
            self.query_one(".bar", Static).update(f"Computer {one_line(name, limit=30)}: its screen, live")
            self.query_one(LinesView).show(())
            begin(self, self._watch, name, in_place_of="screen")

    def stop(self) -> None:
        """Watch no more."""
        self._name = None
        self.workers.cancel_group(self, "screen")

    async def _watch(self, name: str) -> None:
        picture = self.query_one(Picture)
        await asyncio.sleep(_CALM_S)
        if self._refused:
            picture.note(self._refused)
            return
        try:
            await watch_into(picture, self._live, name, TERMINAL)
        except OrchestratorError as refused:
            said = visible(str(refused))
            if isinstance(refused, ServerRefused) and refused.status == _NOT_YOURS:
                self._refused = said
            picture.note(said)

    async def _look(self, name: str) -> None:
        await asyncio.sleep(_CALM_S)
        try:
            found = await self._live.ask("GET", f"/v1/computers/{segment(name)}")
        except OrchestratorError:
            # The line of the connection says so, or the list will.
            return
        if name == self._name:
            self.query_one(LinesView).show(computer_lines(found), stay=True)
