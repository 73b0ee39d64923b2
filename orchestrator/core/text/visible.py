"""Text from outside made safe to look at: characters that hide or move on a screen are shown as an escape.

Letters that look alike (a Cyrillic a, a Greek question mark) are out of reach: they are shown as they are.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

# -- The characters of the game: what each of its 256 bytes looks like, as one character of Unicode
#
# The letters are Latin-1. The signs below 32, the teletext blocks from 128 to 159 and the shade at 127 are those
# by which the mod itself reads Unicode (its ``StringUtil.unicodeToTerminal``). What has no sign of its own there
# (0, tab, line feed, carriage return, the empty block) is a blank, and so is the blank that does not break; the
# hyphen that only shows at the end of a line (173) is drawn as a hyphen. So every cell is one character that has
# a width.

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


# -- Text from the world made safe to look at: what would hide or move on a screen is shown as an escape

_KEPT: Final = frozenset("\n\t")
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_HIDDEN_LETTERS: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\U00016fe4\ufffc")
"""Letters and marks that print as nothing: fillers, the Braille blank, the grapheme joiner, inherent vowels."""
_VARIATIONS: Final = (("\u180b", "\u180f"), ("\ufe00", "\ufe0f"), ("\U000e0100", "\U000e01ef"))
_MARKS: Final = frozenset({"Mn", "Me"})
_MARKS_ON_ONE: Final = 4
"""Marks on one letter: no script needs more, and more of them cover the lines above and below."""
_ODD: Final = re.compile(r"[^\n\t -~]+")
_ATOM: Final = re.compile(r"\\u\{[0-9a-f]{1,6}\}|\[redacted [0-9a-f]{8}\]")
"""What :func:`cut` does not divide: an escape, and the marker of a secret."""
_ATOM_CHARS: Final = 19


def visible(text: str, *, limit: int | None = None) -> str:
    r"""``text`` with control, bidi and invisible characters as ``\u{…}`` escapes; newline and tab stay.

    Odd blanks, marks without a letter and more than four marks on one are escapes too.
    ``limit``: at most that many characters of it, with the cut said; None: all.
    """
    kept = text if limit is None or len(text) <= limit else text[:limit]
    shown = _ODD.sub(_shown, kept)
    return shown if kept is text else f"{shown} [… {len(text) - len(kept)} characters more]"


def one_line(text: str, *, limit: int = 200) -> str:
    """As :func:`visible`, on one line: newlines and tabs are escapes too."""
    if len(text) <= limit and text.isascii() and text.isprintable():
        # Most are plain, and a search costs ten times as much.
        return text
    return visible(text, limit=limit).replace("\n", "\\n").replace("\t", "\\t")


def block(text: str) -> str:
    """As :func:`visible`, every line after the first set in: output can forge no line of ours."""
    return visible(text).replace("\n", "\n    ")


def cut(shown: str, max_chars: int) -> tuple[str, bool]:
    """Head and tail of a text that :func:`visible` made, and whether something was left out between.

    At most ``max_chars`` characters of it stay; a line of its own says how many do not. Escapes and
    markers of secrets stay whole. A text can forge that line: trust the second value.
    """
    if len(shown) <= max_chars:
        return shown, False
    head = _edge(shown, max_chars - max_chars // 2, after=False)
    tail = _edge(shown, len(shown) - max_chars // 2, after=True)
    while tail < len(shown) and unicodedata.category(shown[tail]) in _MARKS:
        tail += 1
    missing = f"[… {tail - head} of {len(shown)} characters are not shown here …]"
    return f"{shown[:head]}\n{missing}\n{shown[tail:]}", True


def _edge(shown: str, position: int, *, after: bool) -> int:
    """The place to cut, moved before or after the escape or marker that it would divide."""
    for atom in _ATOM.finditer(shown, max(0, position - _ATOM_CHARS), position + _ATOM_CHARS):
        if atom.start() < position < atom.end():
            return atom.end() if after else atom.start()
    return position


def _shown(run: re.Match[str]) -> str:
    """A run of characters that are not plain ASCII."""
    before = run.string[run.start() - 1 : run.start()]
    # A mark at the beginning of a line would be on a sign of ours.
    marks = 0 if before and before not in _KEPT else _MARKS_ON_ONE
    pieces = []
    for char in run.group():
        is_mark = unicodedata.category(char) in _MARKS
        marks = marks + 1 if is_mark else 0
        if _hides(char) or marks > _MARKS_ON_ONE:
            pieces.append(f"\\u{{{ord(char):x}}}")
            marks = _MARKS_ON_ONE
        else:
            pieces.append(char)
    return "".join(pieces)


def without_hidden(text: str) -> str:
    """``text`` as a reader sees it: without characters that print as nothing, and without blanks at its ends."""
    return "".join(char for char in text if char == " " or not _hides(char)).strip()


def _hides(char: str) -> bool:
    return (
        unicodedata.category(char) in _HIDDEN_CATEGORIES
        or char in _HIDDEN_LETTERS
        or char.isspace()
        or any(first <= char <= last for first, last in _VARIATIONS)
    )
