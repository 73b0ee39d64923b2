"""Text from the world made safe to look at: what would hide or move on a screen is shown as an escape."""

import unicodedata
from typing import Final

_KEPT: Final = frozenset("\n\t")
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_HIDDEN_LETTERS: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f")
"""Letters and marks that print as nothing: Hangul fillers, the Braille blank, the grapheme joiner."""


def visible(text: str, *, limit: int | None = None) -> str:
    r"""``text`` with control, bidi and invisible characters as ``\u{…}`` escapes; newline and tab stay.

    ``limit``: at most that many characters of it, with the cut said; None: all.
    """
    cut = text if limit is None or len(text) <= limit else text[:limit]
    shown = "".join(_shown(char) for char in cut)
    return shown if cut is text else f"{shown} [… {len(text) - len(cut)} characters more]"


def one_line(text: str, *, limit: int = 200) -> str:
    """As :func:`visible`, on one line: newlines and tabs are escapes too."""
    return visible(text, limit=limit).replace("\n", "\\n").replace("\t", "\\t")


def block(text: str) -> str:
    """As :func:`visible`, every line after the first set in: output can forge no line of ours."""
    return visible(text).replace("\n", "\n    ")


def _shown(char: str) -> str:
    if char in _KEPT:
        return char
    if unicodedata.category(char) in _HIDDEN_CATEGORIES or char in _HIDDEN_LETTERS or _is_variation(char):
        return f"\\u{{{ord(char):x}}}"
    if char.isspace() and char != " ":
        return f"\\u{{{ord(char):x}}}"
    return char


def _is_variation(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
