"""The output of the command line: tables, ages, and lines above a status that is always last.

Callers clean the text (``core/text/visible.py``); nothing here looks at what it says. On a pipe or a file
only whole lines are written and no escape at all; on a terminal text may also grow piece by piece,
and where the cursor can move (not ``TERM=dumb``) one status line follows it.
"""

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TextIO

_ERASE: Final = "\r\x1b[K"
_ERASE_BELOW: Final = "\x1b[J"
_BELOW: Final = "\x1bD\x1b[A\x1b7\x1b[B\r\x1b[K{}\x1b8"
"""Below the cursor's line, which is scrolled up for it at the bottom; the cursor is then where it was."""
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_UNIT: Final = re.compile(r"\s*(?:[^\s`]|`[^`]*`|`)+")
"""The units in which a line is never broken: a word, or a command in backticks; with the blanks before it."""
_LEAST_WRAPPED: Final = 16
"""Columns that a cell needs to be wrapped; a narrower one is cut."""
_STYLES: Final[Mapping[str, str]] = {
    "[STEP": "\x1b[1m",
    "[TOOL]": "\x1b[36m",
    "[REVIEW]": "\x1b[33m",
    "[QUESTION]": "\x1b[33m",
    "[REPORT]": "\x1b[36m",
    "[FINAL]": "\x1b[1m",
}


def width(text: str) -> int:
    """Columns that a line takes on a terminal."""
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def fitted(text: str, columns: int) -> str:
    """The line, cut with an ellipsis where it would take more columns."""
    if width(text) <= columns:
        return text
    kept, taken = [], 1
    for char in text:
        taken += _columns(char)
        if taken > columns:
            break
        kept.append(char)
    return "".join(kept) + "…"


def wrapped(text: str, columns: int, indent: int = 0) -> list[str]:
    """One line of text as lines of so many columns, broken at blanks; a longer word or command stays whole.

    ``indent``: the columns by which each line after the first is set in.
    """
    lines = [""]
    for unit in _UNIT.findall(text):
        longer = lines[-1] + unit
        if lines[-1] and width(longer) > columns:
            lines.append(" " * indent + unit.lstrip())
        else:
            lines[-1] = longer
    return lines


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, columns: int | None = None) -> list[str]:
    """The rows under their heads, two blanks between columns; None for ``columns``: lines of any length.

    Else the last cell goes on below itself, broken at blanks, and what is still too wide is cut.
    """
    widths = [max(width(row[at]) for row in (head, *rows)) for at in range(len(head))]
    lines = []
    indent = sum(widths[:-1]) + 2 * len(widths[:-1])
    for row in (head, *rows):
        before = "".join(
            f"{cell}{' ' * (wanted - width(cell))}  " for cell, wanted in zip(row[:-1], widths[:-1], strict=True)
        )
        if columns is None:
            lines.append(f"{before}{row[-1]}".rstrip())
            continue
        room = columns - indent
        first, *more = wrapped(row[-1], room) if room >= _LEAST_WRAPPED else [row[-1]]
        lines.append(fitted(f"{before}{first}".rstrip(), columns))
        lines.extend(fitted(" " * indent + one, columns) for one in more)
    return lines


def sized(size: int) -> str:
    """Bytes as a person says them."""
    for unit, limit in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= limit:
            return f"{size / limit:.1f} {unit}"
    return f"{size} B"


def age(then: str, now: datetime | None = None) -> str:
    """How long ago a time of the server was: ``5 s``, ``3 min``, ``2 h`` or ``4 d``; empty when it is not a time."""
    try:
        seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(then)).total_seconds()
    except (ValueError, TypeError):
        return ""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def counted(number: int, one: str) -> str:
    """A number of something, such as ``1 step`` or ``2 steps``."""
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def elapsed(seconds: float) -> str:
    """A span as ``m:ss`` or ``h:mm:ss``."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@dataclass(eq=False, repr=False)
class Screen:
    """Lines, text that grows, and a status below them."""

    out: TextIO
    grows: bool = False
    """Whether text may be shown before its line is whole: a person watches."""
    moves: bool = False
    """Whether the cursor can be moved, so that a status can be taken back."""
    color: bool = False
    _open: bool = field(default=False, init=False)
    _column: int = field(default=0, init=False)
    """Columns that the line takes that grows."""
    _status: str = field(default="", init=False)

    @classmethod
    def of(cls, out: TextIO | None = None) -> "Screen":
        """The screen of a stream, None: of standard output, as far as its terminal goes."""
        out = out or sys.stdout
        terminal = out.isatty()
        moves = terminal and os.environ.get("TERM", "dumb") not in ("dumb", "")
        return cls(out, grows=terminal, moves=moves, color=moves and not os.environ.get("NO_COLOR"))

    @property
    def columns(self) -> int | None:
        """The width of the terminal; None: this is not a terminal, and nothing is cut."""
        return shutil.get_terminal_size().columns if self.grows else None

    def line(self, text: str) -> None:
        """One line, or several."""
        self.end_part()
        self._write(self._taken_back() + self._styled(text) + "\n")

    def say(self, text: str, indent: int = 0) -> None:
        """Prose: on a terminal its lines are broken at blanks, and never within a command in backticks."""
        columns = self.columns
        lines = text.split("\n")
        self.line(
            text if columns is None else "\n".join(one for line in lines for one in wrapped(line, columns, indent))
        )

    def part(self, text: str) -> None:
        """More of a line that is not whole yet; only where text may grow."""
        if text:
            self._write(self._taken_back() + text)
            self._open = not text.endswith("\n")
            _, newline, last = text.rpartition("\n")
            self._column = width(last) + (0 if newline else self._column)

    def end_part(self) -> None:
        """The growing line is whole."""
        if self._open:
            self._write(self._taken_back() + "\n")
            self._open, self._column = False, 0

    def at_start(self) -> None:
        """Something else, a person at a prompt, has ended the line."""
        self._open, self._column = False, 0

    def status(self, text: str) -> None:
        """The text below everything, a line that grows too; empty: nothing."""
        if not self.moves:
            return
        columns = shutil.get_terminal_size().columns
        # At the end of a full row terminals differ in where the cursor is; the next part comes soon.
        full = self._open and self._column % columns == 0
        shown = "" if full else fitted(text, columns - 1)
        if shown == self._status:
            return
        styled = f"{_DIM}{shown}{_PLAIN}" if self.color and shown else shown
        if self._open:
            self._write(_BELOW.format(styled) if shown else _ERASE_BELOW)
        else:
            self._write(_ERASE + styled)
        self._status = shown

    def close(self) -> None:
        """Leave the cursor at the start of an empty line."""
        self.status("")
        self.end_part()

    def _taken_back(self) -> str:
        shown, self._status = self._status, ""
        erased = _ERASE_BELOW if self._open else _ERASE
        return erased if shown else ""

    def _styled(self, text: str) -> str:
        if not self.color:
            return text
        style = next((style for start, style in _STYLES.items() if text.startswith(start)), None)
        if style is None:
            return text
        first, newline, rest = text.partition("\n")
        return f"{style}{first}{_PLAIN}{newline}{rest}"

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()
