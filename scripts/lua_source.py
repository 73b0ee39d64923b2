"""Lua source as tokens: what a module requires, and the same program in fewer bytes.

No name is changed, and every line keeps its number: compiled, the short text is the long one to the
byte, and a traceback names lines that somebody wrote.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

Kind = Literal["space", "comment", "string", "word", "number", "sign"]

_OPENS_LONG: Final = re.compile(r"\[(=*)\[")
_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<number>0[xX][0-9a-fA-F.]+(?:[pP][+-]?\d+)? | (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<string>"(?:\\(?:.|\n)|[^"\\\n])*" | '(?:\\(?:.|\n)|[^'\\\n])*')
    | (?P<sign>\.\.\.|\.\.|==|~=|<=|>=|::|[-+*/%^\#<>=(){}\[\];:,.])
    """,
    re.VERBOSE | re.ASCII,
)


class LuaError(ValueError):
    """The source is not Lua as this reader knows it."""


class Token(NamedTuple):
    """A piece of the source, with everything that belongs to it."""

    kind: Kind
    text: str


def tokens(source: str) -> Iterator[Token]:
    """Every piece of a source, so that their texts together are the source. Raises LuaError."""
    place = 0
    while place < len(source):
        kind, end = _token_at(source, place)
        yield Token(kind, source[place:end])
        place = end


def _token_at(source: str, place: int) -> tuple[Kind, int]:
    if source.startswith("--", place):
        long = _OPENS_LONG.match(source, place + 2)
        if long:
            return "comment", _end_of_long(source, long)
        end = source.find("\n", place)
        return "comment", len(source) if end < 0 else end
    long = _OPENS_LONG.match(source, place)
    if long:
        return "string", _end_of_long(source, long)
    found = _TOKEN.match(source, place)
    if found is None:
        line = source.count("\n", 0, place) + 1
        raise LuaError(f"Line {line} has something that is no Lua: {source[place : place + 20]!r}")
    kind: Kind = found.lastgroup  # type: ignore[assignment]  # the groups are named as the kinds
    return kind, found.end()


def _end_of_long(source: str, opening: re.Match[str]) -> int:
    closing = f"]{opening[1]}]"
    end = source.find(closing, opening.end())
    if end < 0:
        raise LuaError(f"A long bracket opens with {opening[0]} and never closes.")
    return end + len(closing)


def shorten(source: str) -> str:
    """The same program, line by line, without comments and without blanks that nothing needs. Raises LuaError."""
    out: list[str] = []
    gap = ""
    for kind, text in tokens(source):
        if kind in ("space", "comment"):
            # A comment parts words as a blank does; the lines keep their numbers.
            gap += "\n" * text.count("\n") or " "
            continue
        lines = gap.count("\n")
        if lines or (out and gap and _would_merge(out[-1], text)):
            out.append("\n" * lines or " ")
        out.append(text)
        gap = ""
    return "".join(out) + "\n"


def _would_merge(left: str, right: str) -> bool:
    """Whether two tokens would be read as others if nothing stood between them."""
    wordy = (left[-1].isalnum() or left[-1] == "_") and (right[0].isalnum() or right[0] == "_")
    pair = left[-1] + right[0]
    dotted = "." in pair and (pair == ".." or any(char.isdigit() for char in pair))
    return wordy or dotted or pair in ("--", "[[", "[=", "==", "~=", "<=", ">=", "::")


def required(source: str) -> list[str]:
    """The names of the modules that a source requires by a plain string, in order. Raises LuaError."""
    words = [token.text for token in tokens(source) if token.kind not in ("space", "comment")]
    names = []
    for first, second, third in zip(words, words[1:], words[2:], strict=False):
        if (first, second) == ("require", "(") and third[:1] in "\"'":
            names.append(third[1:-1])
    return names
