"""A terminal on record: plays a command on a pseudo-terminal, and draws what stood on its screen as an animated SVG.

The SVG needs no script: its frames stand below one another, and CSS moves them past a window. A person who wants no
motion sees the last one. Pauses are shortened, so that what somebody reads stays longer than what scrolls by.
"""

import fcntl
import html
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import pyte

COLUMNS: Final = 100
ROWS: Final = 30
CELL: Final = (8.4, 18.0)
"""Width and height of a character, in pixels."""
MARGIN: Final = 14.0
BETWEEN_FRAMES_S: Final = 0.12
LONGEST_S: Final = 1.4
"""How long a frame stays at most, but where the recording was told to let it stand."""
COLORS: Final = {
    "default": "#d6deeb", "black": "#5c6773", "red": "#ff7b72", "green": "#7ee787", "brown": "#f2cc60",
    "blue": "#79c0ff", "magenta": "#d2a8ff", "cyan": "#76e3ea", "white": "#f0f6fc",
}  # fmt: skip
GROUND: Final = "#0d1420"

Row = tuple[tuple[int, str, str], ...]
"""The pieces of a row: where each begins, its text, and its classes."""


@dataclass
class Recording:
    """A command on a pseudo-terminal, and each screen that it showed, with its seconds."""

    process: "subprocess.Popen[bytes]"
    master: int
    screen: pyte.Screen
    stream: pyte.ByteStream
    frames: list[tuple[list[Row], float]] = field(default_factory=list)
    _since: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, command: list[str], environment: Mapping[str, str], **options: Any) -> "Recording":
        """Start the command."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True, **options
        )
        os.close(slave)
        screen = pyte.Screen(COLUMNS, ROWS)
        return cls(process, master, screen, pyte.ByteStream(screen))

    @property
    def text(self) -> str:
        """What stands on the screen."""
        return "\n".join(self.screen.display)

    def until(self, pattern: str, seconds: float) -> None:
        """Play on until the screen shows the pattern. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            if time.monotonic() > end:
                raise TimeoutError(f"{pattern!r} did not come; the screen shows:\n{self.text}")
            self._read(BETWEEN_FRAMES_S)

    def type(self, text: str, *, each_s: float = 0.045) -> None:
        """Type as a person does; the echo is the terminal's."""
        for sign in text:
            os.write(self.master, sign.encode())
            self._read(each_s)
            self._keep(each_s)

    def stand(self, seconds: float) -> None:
        """Let the frame of now stay this long."""
        self._read(BETWEEN_FRAMES_S)
        self._keep(seconds)

    def end(self, seconds: float) -> int:
        """Close the terminal; the exit code of the command."""
        os.close(self.master)
        return self.process.wait(seconds)

    def _read(self, seconds: float) -> None:
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            self.stream.feed(os.read(self.master, 65536))
            self._keep(BETWEEN_FRAMES_S)

    def _keep(self, seconds: float) -> None:
        """Note the frame; the one before it stayed until now, but not longer than anybody looks."""
        rows = [pieces(self.screen.buffer[y]) for y in range(ROWS)]
        now = time.monotonic()
        if self.frames:
            before, stood = self.frames[-1]
            self.frames[-1] = (before, max(stood, min(now - self._since, LONGEST_S)))
            if before == rows:
                self.frames[-1] = (before, max(self.frames[-1][1], seconds))
                return
        self._since = now
        self.frames.append((rows, seconds))


def pieces(row: Mapping[int, Any]) -> Row:
    """A row of the screen as pieces of one style each, without the blanks at its end."""
    found = []
    for style, cells in groupby(range(COLUMNS), lambda x: _style(row[x])):
        columns = list(cells)
        text = "".join(row[x].data for x in columns)
        if text.strip() or "r" in style.split():
            found.append((columns[0], text if "r" in style.split() else text.rstrip(), style))
    return tuple(found)


def _style(cell: Any) -> str:
    name = cell.fg.removeprefix("bright")
    color = name if name in COLORS else "default"
    marks = (("b", cell.bold or cell.fg.startswith("bright")), ("i", cell.italics), ("r", cell.reverse))
    return " ".join([*([] if color == "default" else [color]), *(mark for mark, is_set in marks if is_set)])


def svg(frames: list[tuple[list[Row], float]], title: str) -> str:
    """The frames as one picture that moves; each row that comes again is drawn once."""
    width, height = COLUMNS * CELL[0] + 2 * MARGIN, ROWS * CELL[1] + 2 * MARGIN
    whole = sum(seconds for _, seconds in frames)
    names: dict[Row, str] = {}
    film, moves, at = [], [], 0.0
    for place, (rows, seconds) in enumerate(frames):
        moves.append(f"{100 * at / whole:.3f}%{{transform:translateY({-place * height:.0f}px)}}")
        at += seconds
        used = [
            f'<use href="#{names.setdefault(row, f"r{len(names)}")}" y="{y * CELL[1]:.0f}"/>'
            for y, row in enumerate(rows)
            if row
        ]
        film.append(f'<g transform="translate({MARGIN} {place * height + MARGIN:.0f})">{"".join(used)}</g>')
    drawn = "".join(f'<g id="{name}">{"".join(_piece(one) for one in row)}</g>' for row, name in names.items())
    colors = "".join(f".{name}{{fill:{color}}}" for name, color in COLORS.items() if name != "default")
    last = f"transform:translateY({-(len(frames) - 1) * height:.0f}px)"
    style = (
        f"text{{fill:{COLORS['default']};font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}}"
        f"text{{white-space:pre}}"
        f".b{{font-weight:600}}.i{{font-style:italic}}{colors}"
        f".film{{animation:film {whole:.1f}s step-end infinite}}@keyframes film{{{''.join(moves)}}}"
        f"@media(prefers-reduced-motion:reduce){{.film{{animation:none;{last}}}}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{html.escape(title)}"><title>{html.escape(title)}</title>'
        f'<style>{style}</style><defs>{drawn}</defs><rect width="100%" height="100%" rx="8" fill="{GROUND}"/>'
        f'<g class="film">{"".join(film)}</g></svg>\n'
    )


def _piece(piece: tuple[int, str, str]) -> str:
    column, text, style = piece
    x, wide = column * CELL[0], len(text) * CELL[0]
    ground = (
        f'<rect x="{x:.1f}" width="{wide:.1f}" height="{CELL[1]:.0f}" fill="#30405a"/>' if "r" in style.split() else ""
    )
    named = f' class="{style}"' if style else ""
    return (
        f'{ground}<text x="{x:.1f}" y="13" textLength="{wide:.1f}" lengthAdjust="spacingAndGlyphs"{named}>'
        f"{html.escape(text, quote=False)}</text>"
    )
