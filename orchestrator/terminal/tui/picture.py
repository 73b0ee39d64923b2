"""The screen of a computer in the game, cell by cell in its own colours."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from orchestrator.core.text.visible import one_line, visible

_HEX: Final = "0123456789abcdef"
_MOST_CELLS: Final = 1000
"""Of a row or a column: a wall of monitors has fewer."""


class Picture(ScrollView, can_focus=True):
    """One screen, as ``GET /v1/computers/{name}/screen`` tells it."""

    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[list[tuple[str, str, str]]] = []
        """Of each cell: its character, and its colours as digits."""
        self._palette: Sequence[str] = ()
        self._cursor: tuple[int, int] | None = None
        self._note = ""

    def begin(self) -> None:
        """Nothing is known yet."""
        self._rows, self._cursor = [], None
        self.note("Waiting for a picture.")

    def note(self, text: str) -> None:
        """Say something in place of the picture; empty: nothing."""
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
        if y == 0 and self._note:
            return Strip([Segment(self._note, base)]).adjust_cell_length(columns, base)
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
