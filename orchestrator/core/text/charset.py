"""The characters of the game: what each of its 256 bytes looks like, as one character of Unicode.

The letters are Latin-1. The signs below 32, the teletext blocks from 128 to 159 and the shade at 127 are those by
which the mod itself reads Unicode (its ``StringUtil.unicodeToTerminal``). What has no sign of its own there (0, tab,
line feed, carriage return, the empty block) is a blank, and so is the blank that does not break; the hyphen
that only shows at the end of a line (173) is drawn as a hyphen. So every cell is one character that has a width.
"""

from collections.abc import Mapping
from typing import Final

_SIGNS: Final = " \u263a\u263b\u2665\u2666\u2663\u2660\u2022\u25d8  \u2642\u2640 \u266a\u266b" + (
    "\u25ba\u25c4\u2195\u203c\u00b6\u00a7\u25ac\u21a8\u2191\u2193\u2192\u2190\u221f\u2194\u25b2\u25bc"
)
"""0 to 31."""
_BLOCKS: Final = " " + "".join(map(chr, [*range(0x1FB00, 0x1FB14), 0x258C, *range(0x1FB14, 0x1FB1E)]))
"""128 to 159: the two by three parts of a cell as bits, from the upper left; the last is told by the colours."""
_LETTERS: Final = " " + "".join(map(chr, range(161, 173))) + "-" + "".join(map(chr, range(174, 256)))

CHARSET: Final = _SIGNS + "".join(map(chr, range(32, 127))) + "\U0001fb99" + _BLOCKS + _LETTERS
"""Byte to character."""
_BYTES: Final[Mapping[str, int]] = {
    **{char: byte for byte, char in reversed(list(enumerate(CHARSET)))},
    **{chr(byte): byte for byte in (*range(32, 127), *range(160, 256))},
}


def as_cells(data: bytes) -> str:
    """What the game shows for these bytes, one character for each."""
    return "".join([CHARSET[byte] for byte in data])


def as_byte(char: str) -> int | None:
    """The byte of a character in the game; None: it has none."""
    return _BYTES.get(char)


def is_typed(byte: int) -> bool:
    """Whether a key of a keyboard in the game makes this byte."""
    return 32 <= byte <= 126 or 160 <= byte <= 255
