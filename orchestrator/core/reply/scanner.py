r"""One JSON value at a place in a text, in one pass without recursion, with the repairs that lose nothing.

What is taken beyond JSON has exactly one reading: a comma before a closing bracket; comments; strings
and keys in single quotes; keys without quotes; True, False and None; line breaks, tabs and other control
characters inside a string, which stay as they are; ``\'``. What is refused: everything incomplete,
a quote that ends a string too early, a missing comma, an escape that JSON does not know (is the backslash
meant or not?), a key twice.

A comment that holds a quote is refused, unless it is right behind ``{``, ``[`` or ``:``, where no string
has just ended. Behind a quote that ends a string too early, a ``#`` or ``//`` of the program that was meant
would else begin a comment and hide the rest of the line.
"""

import json
import math
import re
from typing import Any, Final, NoReturn, cast

from orchestrator.core.errors import ReplyRefused

# -- What the modules of the reader share: limits, the strict decoder, and how a place is told

MAX_DEPTH: Final = 40
"""The depth to which brackets may nest: a deeper reply is a bomb, none needs ten."""
MAX_DIGITS: Final = 18
"""No tool and no program of the game can hold an integer of more digits."""
MAX_CALLS: Final = 4
"""The most calls of one request."""
SHOWN_CHARS: Final = 60
"""Characters of a text that the model made up, such as a key, in the sentence that refuses it."""
LONG_CHARS: Final = 2_000
"""A reply of fewer characters is short: nobody is asked to shorten it."""

_STRUCTURE: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*+"?|\\.|[\[\]{}]', re.DOTALL)
_PLAIN: Final = re.compile(rf"[A-Za-z0-9_$-]{{1,{SHOWN_CHARS}}}")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def refuse(sentence: str) -> NoReturn:
    """Refuse the reply with the sentence for the model."""
    raise ReplyRefused(sentence)


def shown(made_up: Any) -> str:
    """What the model made up, short and on one line, in quotes if it is a text: no sentence of its own."""
    if not isinstance(made_up, str):
        return repr(made_up)[:SHOWN_CHARS]
    return json.dumps(made_up[:SHOWN_CHARS])[: 2 * SHOWN_CHARS]


def quoted(made_up: str) -> str:
    """The beginning of a text that the model made up, as Python writes it: invisible characters are spelled out."""
    return repr(made_up[:SHOWN_CHARS])[: 2 * SHOWN_CHARS]


def name(made_up: object) -> str:
    """A key or the number of an entry as it is, where it is a plain word; else as ``shown``."""
    text = str(made_up)
    return text if _PLAIN.fullmatch(text) else shown(text)


def place(text: str, at: int) -> str:
    """A place in the text as the model counts it: lines and columns from 1."""
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


def again(text: str) -> str:
    """The remedy for a reply that is incomplete."""
    return "Send the whole reply again" + (", in smaller steps." if len(text) >= LONG_CHARS else ".")


def depth(text: str) -> int:
    """How deep brackets nest outside strings, in one pass: ``json.loads`` would recurse into a bomb."""
    level = deepest = 0
    for mark in _STRUCTURE.findall(text):
        if mark in ("{", "["):
            level += 1
            deepest = max(deepest, level)
        elif mark in ("}", "]"):
            level -= 1
    return deepest


def too_deep() -> NoReturn:
    """Refuse a bomb."""
    refuse(f"Your reply nests deeper than {MAX_DEPTH} levels. Send a flat JSON object.")


def key_twice(key: str) -> NoReturn:
    """Refuse an object that says one key twice: two readers would take two different values."""
    refuse(f"Your reply has the key {quoted(key)} twice. Send it once.")


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and its kin."""
    refuse(f"Your reply has the value {name}, which is not JSON. Send a number or leave it out.")


def bounded_int(digits: str) -> int:
    """An integer of at most 18 digits; more take their time to become a number."""
    if len(digits.removeprefix("-")) > MAX_DIGITS:
        refuse(f"Your reply has a number with more than {MAX_DIGITS} digits. Send a smaller one.")
    return int(digits)


def finite_float(digits: str) -> float:
    """A number with a point or an exponent that a float can hold."""
    value = float(digits)
    if math.isinf(value):
        refuse(f"Your reply has the number {digits[:SHOWN_CHARS]}, which is too large. Send a smaller one.")
    return value


def half_character() -> NoReturn:
    """Refuse a lone surrogate: nobody knows which character was meant there."""
    refuse("Your reply has half of a surrogate pair in a string. Send the character itself.")


def has_surrogates(text: str) -> bool:
    """Whether a text has half of a pair, which no file and no socket can take."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            key_twice(key)
        found[key] = value
    return found


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=no_constant, parse_int=bounded_int, parse_float=finite_float
)
"""Made once: ``json.loads`` with hooks makes a decoder for each text, which takes as long as reading a reply."""


def strict(text: str) -> Any:
    """The one value of a text that is JSON from end to end, with no key twice.

    Raises ValueError when it is not JSON, ReplyRefused when it is JSON that cannot be taken.
    """
    # Most replies have too few brackets to nest too deep, so that nobody needs to look where they stand.
    if text.count("{") + text.count("[") > MAX_DEPTH and depth(text) > MAX_DEPTH:
        too_deep()
    value = _STRICT.decode(text)
    if "\\u" in text.lower() or not text.isascii():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            half_character()
    return value


def kind_of(value: Any) -> str:
    """The JSON name of a value that is not an object."""
    return {list: "list", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")


# -- Keys that are twice in one object of a JSON text, which two readers would read differently


def doubled_key(text: str | bytes) -> str | None:
    """The first key that one object of the text names twice, at any depth; None: there is none.

    ``text`` has been read as JSON before, so that it is JSON and not too deep; bytes are UTF-8.
    """
    doubled: list[str] = []

    def look(pairs: list[tuple[str, object]]) -> None:
        names = set[str]()
        for name, _ in pairs:
            if name in names and not doubled:
                doubled.append(name)
            names.add(name)

    # Numbers stay text: one of a million digits takes its time to become a number.
    json.loads(_text(text), object_pairs_hook=look, parse_int=str, parse_float=str, parse_constant=str)
    return doubled[0] if doubled else None


def _text(text: str | bytes) -> str:
    return text.decode("utf-8") if isinstance(text, bytes) else text


# -- One JSON value at a place in a text, in one pass without recursion, with the repairs that lose nothing

_GAP: Final = re.compile(r"(?:[\s\ufeff\u200b]+|//[^\r\n]*|/\*.*?\*/|#[^\r\n]*)*", re.DOTALL)
_NO_GAP: Final = frozenset("{}[],:\"'-0123456789")
"""Marks that begin no gap: most stand without one."""
_COMMENT: Final = re.compile(r"//[^\r\n]*|/\*.*?\*/|#[^\r\n]*", re.DOTALL)
_SCANNER_PLAIN: Final = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![\w.+-])")
_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_WORD: Final = re.compile(r"[-+]?[A-Za-z_$][A-Za-z0-9_$]*")
_HEX: Final = re.compile(r"[0-9a-fA-F]{4}")
_WORDS: Final = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_CONSTANTS: Final = frozenset({"NaN", "Infinity", "-Infinity", "+Infinity", "inf", "-inf", "nan"})
_ESCAPES: Final = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_CLOSER: Final = {"{": "}", "[": "]"}
_FENCES: Final = ("```", "~~~")
_ENDS: Final = frozenset(":}]")
"""A mark behind a string that tells of brackets or keys astray, not of a quote inside the string."""


class Scanner:
    """Reads values out of one text. ``steps`` counts what it did, for the proof that time is linear."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.quote = ""
        """The quote of the last string: a comment with such a quote in it is doubtful."""
        self.steps = 0
        self.in_string = False
        """Whether the fault is inside a string or right behind one: a quote may have ended it too early."""
        self.reached = 0
        """The place that it has read to."""
        self._begun = 0

    def value(self, at: int) -> tuple[Any, int]:
        """The value that begins at ``at``, or behind the gap there, and the place behind it.

        Raises ReplyRefused with what is wrong and where.
        """
        self._begun = at
        open_ones: list[_Open] = []
        while True:
            at = self._gap(at)
            mark = self._text[at : at + 1]
            if mark in _CLOSER:
                if len(open_ones) == MAX_DEPTH:
                    too_deep()
                one = _Open(mark)
                open_ones.append(one)
                at = self._gap(at + 1, certain=True)
                if self._text[at : at + 1] != one.closer:
                    at = self._key(one, at)
                    continue
                value: Any = one.close()
                open_ones.pop()
                at += 1
            else:
                value, at = self._scalar(mark, at)
            goes_on, value, at = self._close(open_ones, value, at)
            if not goes_on:
                return value, at

    def gap(self, at: int) -> int:
        """The place behind blanks and comments."""
        return self._gap(at)

    def _close(self, open_ones: list["_Open"], value: Any, at: int) -> tuple[bool, Any, int]:
        """Put the value where it belongs, and close what ends behind it; whether another value is due."""
        while open_ones:
            one = open_ones[-1]
            one.add(value)
            at = self._gap(at)
            comma = self._text[at : at + 1] == ","
            if comma:
                at = self._gap(at + 1)
            if self._text[at : at + 1] != one.closer:
                if not comma:
                    self._no_end(at)
                return True, None, self._key(one, at)
            value = one.close()
            open_ones.pop()
            at += 1
        return False, value, at

    def _key(self, one: "_Open", at: int) -> int:
        if one.closer == "]":
            return at
        mark = self._text[at : at + 1]
        if mark in _SCANNER_PLAIN:
            name, at = self._string(mark, at)
        else:
            found = _NAME.match(self._text, at)
            if found is None:
                self._unexpected(at, "a key in quotes")
            name, at = found.group(), found.end()
        one.name(name)
        at = self._gap(at)
        if self._text[at : at + 1] != ":":
            self._unexpected(at, f"a colon after the key {quoted(name)}")
        return self._gap(at + 1, certain=True)

    def _scalar(self, mark: str, at: int) -> tuple[Any, int]:
        self.steps += 1
        if mark in _SCANNER_PLAIN:
            return self._string(mark, at)
        number = _NUMBER.match(self._text, at)
        if number is not None:
            digits = number.group()
            return bounded_int(digits) if number.lastindex is None else finite_float(digits), number.end()
        word = _WORD.match(self._text, at)
        if word is not None and word.group() in _WORDS:
            return _WORDS[word.group()], word.end()
        if word is not None and word.group() in _CONSTANTS:
            no_constant(word.group())
        if word is not None and word.end() == len(self._text):
            at = word.end()
        self._unexpected(at, "a value")

    def _string(self, quote: str, at: int) -> tuple[str, int]:
        self.quote = quote
        self.in_string = True
        plain = _SCANNER_PLAIN[quote]
        parts: list[str] = []
        halves = False
        begun, at = at, at + 1
        while True:
            self.steps += 1
            piece = cast("re.Match[str]", plain.match(self._text, at))
            parts.append(piece.group())
            at = piece.end()
            mark = self._text[at : at + 1]
            if mark == quote:
                break
            if not mark:
                refuse(
                    f"Your reply is incomplete: the string that begins at {place(self._text, begun)} never ends. "
                    f"{again(self._text[self._begun :])}"
                )
            character, at = self._escape(at)
            halves = halves or "\ud800" <= character <= "\udfff"
            parts.append(character)
        self.in_string = False
        self.reached = at + 1
        text = "".join(parts)
        return _joined(text) if halves else text, at + 1

    def _escape(self, at: int) -> tuple[str, int]:
        mark = self._text[at + 1 : at + 2]
        if mark in _ESCAPES:
            return _ESCAPES[mark], at + 2
        if mark == "u":
            digits = _HEX.match(self._text, at + 2)
            if digits is not None:
                return chr(int(digits.group(), 16)), at + 6
        if not mark:
            self._unexpected(len(self._text), "the rest of a string")
        refuse(
            f"A string in your reply has a backslash that JSON does not know, at {place(self._text, at)}. "
            r"Write \\ for a backslash of the program, \n for a line break."
        )

    def _gap(self, at: int, *, certain: bool = False) -> int:
        """The place behind blanks and comments; ``certain``: no string has just ended, whatever a comment says."""
        self.steps += 1
        if self._text[at : at + 1] in _NO_GAP:
            return at
        gap = cast("re.Match[str]", _GAP.match(self._text, at))
        if not (certain or gap.group().isspace()):
            for comment in _COMMENT.finditer(self._text, at, gap.end()):
                if '"' in comment.group() or (self.quote == "'" and "'" in comment.group()):
                    refuse(
                        f"Your reply has a comment with a quote in it, at {place(self._text, comment.start())}. Send "
                        r"JSON without comments, with every quote inside a string escaped as \"."
                    )
            if gap.end() > at and self._text[at] in "/#" and self._text[at - 1] == self.quote:
                self._no_end(at)
        return gap.end()

    def _no_end(self, at: int) -> NoReturn:
        """The text after a value is neither a comma nor the bracket that closes."""
        before = self._text[:at].rstrip()[-1:] if at < len(self._text) else ""
        self.in_string = bool(before) and before == self.quote
        if self.in_string and self._text[at] not in _ENDS:
            refuse(
                f"A string in your reply ends at an unescaped quote before {place(self._text, at)}. Inside a string "
                r"""write \" for ", or use single quotes or [[ ]] in Lua; put a comma between two values."""
            )
        self._unexpected(at, "a comma or a closing bracket")

    def _unexpected(self, at: int, wanted: str) -> NoReturn:
        found = self._text[at : at + 1]
        if not found or self._text.startswith(_FENCES, at):
            refuse(f"Your reply is incomplete: it ends where {wanted} belongs. {again(self._text[self._begun :])}")
        if self._text.startswith("...", at) or found == "\u2026":
            refuse(f"Your reply has ... in place of {wanted}. Write out the whole JSON object, without placeholders.")
        refuse(
            f"Your reply is not valid JSON: {found!r} at {place(self._text, at)} stands where {wanted} belongs. "
            r"Send one JSON object; inside a string write \" for a quote and \n for a line break."
        )


class _Open:
    """A list or an object that is not closed yet."""

    __slots__ = ("_list", "_named", "_object", "closer")

    def __init__(self, mark: str) -> None:
        self.closer = _CLOSER[mark]
        self._named = ""
        self._object: dict[str, Any] = {}
        self._list: list[Any] = []

    def name(self, key: str) -> None:
        if key in self._object:
            key_twice(key)
        self._named = key

    def add(self, value: Any) -> None:
        if self.closer == "}":
            self._object[self._named] = value
        else:
            self._list.append(value)

    def close(self) -> dict[str, Any] | list[Any]:
        return self._object if self.closer == "}" else self._list


def _joined(text: str) -> str:
    """Two halves that stand side by side are one character; a lone half is not a character."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        half_character()
