"""Lines as rows of a screen: nothing is cut, and no row of a broken line looks like a line of ours."""

from typing import Final, NamedTuple

from rich.cells import cell_len

from orchestrator.terminal.console.lines import BAR, Line, Style, on_screen

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
