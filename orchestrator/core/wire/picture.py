"""The picture of a computer's screen, built from its frames. Frames are data, within limits.

A body of rows is, for each row: its number from 1 (one byte), how many characters follow (one byte), the characters;
then how many runs of colours (one byte) and for each how many cells (one byte) and their colours (one byte: the
letters' in the upper half, the one behind them in the lower). Cells without a character are blank; the runs cover
the row exactly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from orchestrator.core.errors import FrameRefused
from orchestrator.core.wire import wire

DEFAULT_PALETTE: Final = (
    *("#f0f0f0", "#f2b233", "#e57fd8", "#99b2f2", "#dede6c", "#7fcc19", "#f2b2cc", "#4c4c4c"),
    *("#999999", "#4c99b2", "#b266e5", "#3366cc", "#7f664c", "#57a64e", "#cc4c4c", "#111111"),
)
"""The 16 colours as the game begins with them, white first."""


@dataclass(frozen=True)
class Row:
    """One row of a screen, each part as long as the screen is wide."""

    text: bytes
    """The text in the game's characters."""
    fg: str
    """A digit for the colour of each character, as ``blit`` takes them."""
    bg: str
    """And of what is behind it."""


@dataclass(frozen=True)
class Shown:
    """What a screen shows, as far as it has come."""

    width: int
    height: int
    x: int
    """The cursor's column from 1; 0, or more than the width: it is beside the screen."""
    y: int
    blink: bool
    palette: tuple[str, ...]
    """The 16 colours as ``#rrggbb``."""
    rows: tuple[Row | None, ...]
    """The rows from the top; None: not come yet."""

    @property
    def is_complete(self) -> bool:
        """Whether every row has come."""
        return None not in self.rows


class _Reader:
    """The bytes of a body, one after the other. Raises FrameRefused at its end."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        taken = self._body[self._at : self._at + count]
        self._at += count
        if len(taken) < count:
            raise FrameRefused("The rows of the picture end too early.")
        return taken

    def number(self) -> int:
        """The next byte."""
        return self.take(1)[0]

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._body)


def read_rows(body: bytes, width: int, height: int) -> dict[int, Row]:
    """The rows in a body, by their numbers from 1. Raises FrameRefused for what does not fit the screen."""
    rows, reader = {}, _Reader(body)
    while not reader.is_over:
        number = reader.number()
        if not 1 <= number <= height:
            raise FrameRefused(f"The picture has no row {number}.")
        rows[number] = _row(reader, width)
    return rows


def _row(reader: _Reader, width: int) -> Row:
    text = reader.take(reader.number())
    fg, bg = [], []
    covered = 0
    for _ in range(reader.number()):
        cells, colours = reader.number(), reader.number()
        covered += cells
        fg.append(f"{colours >> 4:x}" * cells)
        bg.append(f"{colours & 15:x}" * cells)
    if len(text) > width or covered != width:
        raise FrameRefused("A row of the picture is not as wide as the screen.")
    return Row(text.ljust(width), "".join(fg), "".join(bg))


def row_bytes(number: int, row: Row) -> bytes:
    """A row as a body has it."""
    runs: list[list[int]] = []
    for fg, bg in zip(row.fg, row.bg, strict=True):
        colours = int(fg, 16) << 4 | int(bg, 16)
        if runs and runs[-1][1] == colours:
            runs[-1][0] += 1
        else:
            runs.append([1, colours])
    text = row.text.rstrip(b" ")
    return bytes([number, len(text), *text, len(runs), *(part for run in runs for part in run)])


def bodies_of(rows: Mapping[int, Row]) -> list[bytes]:
    """The bodies, one at least, in which rows go: each as large as a frame may be."""
    bodies = [b""]
    for number, row in rows.items():
        encoded = row_bytes(number, row)
        if len(bodies[-1]) + len(encoded) > wire.MAX_PICTURE_BYTES:
            bodies.append(b"")
        bodies[-1] += encoded
    return bodies


def drawn(before: Shown | None, message: wire.Picture, body: bytes) -> tuple[Shown, frozenset[int]]:
    """What a screen shows after a frame, and the numbers of the rows in it.

    Raises FrameRefused where the frame does not follow what came before.
    """
    size = (message.width, message.height)
    if message.whole:
        before = Shown(*size, 0, 0, blink=False, palette=DEFAULT_PALETTE, rows=(None,) * message.height)
    if before is None or (before.width, before.height) != size:
        raise FrameRefused("A part of a picture came without the whole.")
    fresh = read_rows(body, *size)
    rows = tuple(fresh.get(number, row) for number, row in enumerate(before.rows, 1))
    palette = before.palette if message.palette is None else read_palette(message.palette)
    now = replace(before, x=message.x, y=message.y, blink=message.blink, palette=palette, rows=rows)
    return now, frozenset(fresh)


def read_palette(digits: str) -> tuple[str, ...]:
    """The 16 colours of 96 hexadecimal digits."""
    return tuple(f"#{digits[at : at + 6]}" for at in range(0, len(digits), 6))


def palette_digits(palette: Sequence[str]) -> str:
    """16 colours as 96 hexadecimal digits."""
    return "".join(colour.removeprefix("#") for colour in palette)
