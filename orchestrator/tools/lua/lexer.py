"""The tokens of a Lua text: one compiled regular expression per dialect, and a slow path for rare forms.

A token is an entry at the same index of three lists, which a parser in Python reads fastest. Whatever cannot be a token
becomes the last one, of kind ``bad``, with its complaint: a mistake of the grammar before it is told first.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

# -- What is wrong with a Lua text, and the exception that carries it out of the parser

MAX_SENTENCE: Final = 300
"""Characters; a model reads the sentence in a small window."""


@dataclass(frozen=True)
class Finding:
    """A syntax error: the place, the words of the compiler, and what to write instead."""

    line: int
    """Counted from 1."""
    column: int
    """In characters, counted from 1."""
    message: str
    """In the words of Lua's compilers: ``'end' expected (to close 'if' at line 3) near <eof>``."""
    advice: str = ""
    """What Lua wants here; empty: the message says all that is known."""
    name: str = "file.lua"

    @property
    def sentence(self) -> str:
        """One text for a model or a person, at most 300 characters: ``file.lua:3: … . …``."""
        head = f"{self.name}:{self.line}: {self.message}."
        whole = f"{head} {self.advice}" if self.advice else head
        return whole if len(whole) <= MAX_SENTENCE else f"{whole[: MAX_SENTENCE - 1]}…"

    def __str__(self) -> str:
        return self.sentence


class Refused(Exception):
    """The text is not Lua; ``at`` is the index of a token, None: the present one."""

    def __init__(self, message: str, at: int | None = None, *, near: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.near = near


# -- Which Lua a ComputerCraft computer compiles, as a function of the version of CC: Tweaked
#
# CC: Tweaked runs Cobalt, its own Lua in Java. Read in Cobalt's compiler (``Lex``, ``Parser``, ``FuncState``,
# ``LuaC``, ``NumberParser``) at the releases named below, in the ``libs.versions.toml`` or ``build.gradle`` of
# each tag of CC: Tweaked (which Cobalt it ships), in its changelog and in its page ``feature_compat``; every line
# but the last was run against the real compilers of Cobalt 0.5.7, 0.7.0, 0.7.1, 0.7.3, 0.8.0 and 0.9.8.
#
# | CC: Tweaked | Cobalt | grammar |
# | --- | --- | --- |
# | 1.95 to 1.106 | 0.5.1 to 0.7.0 | Lua 5.1 with ``\x`` ``\u{}`` ``\z``; numbers as Java reads them |
# | 1.107 | 0.7.1 | the same; decimal numbers as in C, hexadecimal ones without fraction |
# | 1.108 | 0.7.2, 0.7.3 | the same; hexadecimal fractions and exponents |
# | 1.109 and newer | 0.8.0 and newer | Lua 5.2: ``goto``, labels, empty statements, ``break`` anywhere |
# | 1.114 and newer | 0.9.5 and newer | a hexadecimal number has at most 30 significant digits |
#
# What no version has: integers, ``//``, ``& | ~ << >>`` (all 5.3), ``<const>`` and ``<close>`` (5.4).
#
# What all have, unlike PUC Lua: ``[[`` inside of a ``[[`` string or comment is an error; every byte up to 0x20 is
# white space; an unknown escape such as ``\q`` is the character itself; the character after a line end that
# ``\z`` skips is swallowed too; a first line that begins with ``#`` is skipped. At most 200 local variables (from
# 1.109 on counted over
# *all* functions that are open, a trait of Cobalt's), 200 nested syntax levels, 250 registers, 60 upvalues (61 from
# Cobalt 0.6 on, CC 1.101.2; ``_ENV`` is one of them from 1.109 on).
#
# 5.1's grammar: a call whose ``(`` is on the next line is refused as ambiguous; ``break`` is a block's last
# statement; ``;`` only follows a statement; each block, not each statement, is a level. In 5.2's, ``goto`` is a
# word of the language only before a name, so that old programs may use it as a name. (1.109.0 to 1.109.2 fail on
# a branch of ``if`` that begins with such a name, a fault of Cobalt 0.8.0 and 0.8.1 that is not told here.)


@dataclass(frozen=True)
class Dialect:
    """The differences between the compilers; regular expressions as text, so that a dialect is a value."""

    lua52: bool = True
    """5.2's statements; False: 5.1's."""
    goto_is_reserved: bool = False
    """``goto`` cannot be a name (PUC Lua 5.2)."""
    unique_labels: bool = True
    """A label hides no label of an enclosing block of its function."""
    spaces: str = r"\x00-\x20"
    """The characters of white space, as the inside of a character class."""
    numeral: str = r"\.?0[xX](?:[pP][+-]?|[0-9A-Fa-f.])*|\.?[0-9](?:[eE][+-]?|[0-9A-Fa-f.])*"
    """The text that the lexer takes for one number before it looks whether it is one."""
    number: str = (
        r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
        r"|0[xX](?:[0-9A-Fa-f]+\.?[0-9A-Fa-f]*|\.[0-9A-Fa-f]+)(?:[pP][+-]?[0-9]+)?"
    )
    """The form of a number."""
    max_hex_digits: int | None = 30
    """How many significant digits a hexadecimal number has at most; None: any."""
    escapes: str = "xuz"
    """Which letters begin a longer escape."""
    strict_escapes: bool = False
    """An escape that means nothing is an error (PUC Lua 5.2)."""
    zap_swallows: bool = True
    r"""``\z`` swallows the character after each line end."""
    nested_brackets: bool = False
    """``[[`` may be inside of ``[[ ]]``."""
    shared_locals: bool = True
    """The limit of local variables counts those of all open functions."""
    max_upvalues: int = 61
    env_is_upvalue: bool = True
    """A function that uses a global has ``_ENV`` among its upvalues."""


NEWEST: Final = Dialect()
"""The version that a computer of unknown version counts as: 1.114 or newer."""

_FROM_109: Final = replace(NEWEST, max_hex_digits=None)
_FROM_108: Final = replace(_FROM_109, lua52=False, unique_labels=False, shared_locals=False, env_is_upvalue=False)
_FROM_107: Final = replace(_FROM_108, number=r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|0[xX][0-9A-Fa-f]+")
_FROM_101_2: Final = replace(
    _FROM_107,
    number=(
        r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?"
        r"|0[xX](?:0*[0-7]?[0-9A-Fa-f]{1,15}|(?:[0-9A-Fa-f]+\.?[0-9A-Fa-f]*|\.[0-9A-Fa-f]+)[pP][+-]?[0-9]+[fFdD]?)"
    ),
)
_OLDEST: Final = replace(_FROM_101_2, max_upvalues=60)

_SINCE: Final = (
    ((1, 114), NEWEST),
    ((1, 109), _FROM_109),
    ((1, 108), _FROM_108),
    ((1, 107), _FROM_107),
    ((1, 101, 2), _FROM_101_2),
)


@lru_cache(maxsize=64)
def dialect_of(version: tuple[int, ...] | None) -> Dialect:
    """The dialect of a computer; ``version`` is CC: Tweaked's, such as ``(1, 108, 4)``; None: not known, the newest."""
    if version is None:
        return NEWEST
    return next((dialect for since, dialect in _SINCE if version >= since), _OLDEST)


# -- The tokens of a Lua text: one compiled regular expression per dialect, and a slow path for what is rare

KEYWORDS: Final = frozenset(
    {
        "and",
        "break",
        "do",
        "else",
        "elseif",
        "end",
        "false",
        "for",
        "function",
        "if",
        "in",
        "local",
        "nil",
        "not",
        "or",
        "repeat",
        "return",
        "then",
        "true",
        "until",
        "while",
    }
)
NAME: Final = "name"
NUMBER: Final = "number"
STRING: Final = "string"
EOF: Final = "eof"
BAD: Final = "bad"

_LINE_END: Final = re.compile(r"\r\n?|\n\r?")
_LONG: Final = re.compile(r"\[(=*)\[")
_REST_OF_LINE: Final = re.compile(r"[^\r\n]*")
_PLAIN: Final = re.compile(r"""[^"'\\\r\n]*""")
_HEX_ESCAPE: Final = re.compile(r"x[0-9A-Fa-f]{2}")
_UNICODE_ESCAPE: Final = re.compile(r"u\{([0-9A-Fa-f]+)\}")
_DECIMAL_ESCAPE: Final = re.compile(r"[0-9]{1,3}")
_LAST_CODE_POINT: Final = 0x10FFFF
_SHOWN: Final = 40


@dataclass
class Tokens:
    """A Lua text in tokens; two ``eof`` close it, so that one may always look one ahead."""

    text: str
    kinds: list[str] = field(default_factory=list)
    """The word of a keyword, the sign of an operator, or one of the kinds above."""
    texts: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """Offsets into the text."""
    complaint: str = ""
    """Why a token of kind ``bad`` is not a token of Lua."""
    _lines: list[int] = field(default_factory=list)

    def add(self, kind: str, text: str, start: int) -> None:
        self.kinds.append(kind)
        self.texts.append(text)
        self.starts.append(start)

    def line(self, index: int) -> int:
        """The line on which a token begins, counted from 1."""
        return bisect_right(self._line_starts(), self.starts[index])

    def column(self, index: int) -> int:
        """The column in characters at which a token begins, counted from 1."""
        return self.starts[index] - self.line_start(index) + 1

    def line_start(self, index: int) -> int:
        """The offset at which the line of a token begins."""
        return self._line_starts()[self.line(index) - 1]

    def near(self, index: int) -> str:
        """A token as a message quotes it."""
        if self.kinds[index] == EOF:
            return "<eof>"
        shown = "".join(char if char.isprintable() else "?" for char in self.texts[index][:_SHOWN])
        return f"'{shown}{'…' if len(self.texts[index]) > _SHOWN else ''}'"

    def newline_before(self, index: int) -> bool:
        """Whether a line ends between a token and the one before it."""
        gap = self.text[self.starts[index - 1] + len(self.texts[index - 1]) : self.starts[index]]
        return "\n" in gap or "\r" in gap

    def _line_starts(self) -> list[int]:
        if not self._lines:
            self._lines = [0, *(found.end() for found in _LINE_END.finditer(self.text))]
        return self._lines


class _Unreadable(Exception):
    """The text here does not begin a token; ``end`` is where it stops being shown."""

    def __init__(self, complaint: str, end: int) -> None:
        super().__init__(complaint)
        self.complaint = complaint
        self.end = end


def _after(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Where a match ends that begins at a position; the position, if there is none."""
    found = pattern.match(text, position)
    return found.end() if found else position


def _quoted(quote: str) -> str:
    """A string whose escapes are one character each; any other is read slowly."""
    plain = rf"[^{quote}\\\r\n]*+"
    return rf"{quote}{plain}(?:\\[abfnrtv\\\"']{plain})*{quote}"


@lru_cache(maxsize=16)
def _pattern(dialect: Dialect) -> re.Pattern[str]:
    blank = f"[{dialect.spaces}]*+"
    double, single = _quoted('"'), _quoted("'")
    return re.compile(
        rf"{blank}(?:--(?!\[)[^\r\n]*+{blank})*"
        r"(?:([A-Za-z_][A-Za-z0-9_]*+)"
        rf"|({dialect.numeral})"
        rf"|({double}|{single})"
        r"|(--\[|\[(?=[\[=])|[\"'])"
        r"|(==|~=|<=|>=|::|\.\.\.?|[\s\S])|\Z)"
    )


def _is_number(word: str, number: re.Pattern[str], dialect: Dialect) -> bool:
    if not number.fullmatch(word):
        return False
    hexadecimal = word[:2] in ("0x", "0X") and dialect.max_hex_digits is not None
    digits = re.split("[pP]", word[2:])[0].replace(".", "").lstrip("0") if hexadecimal else ""
    return len(digits) <= (dialect.max_hex_digits or 0)


@lru_cache(maxsize=16)
def _number(dialect: Dialect) -> re.Pattern[str]:
    return re.compile(dialect.number)


def lex(text: str, dialect: Dialect) -> Tokens:
    """The tokens of a text; never raises, and its work is linear."""
    tokens = Tokens(text)
    try:
        _read(tokens, dialect)
    except _Unreadable as unreadable:
        start = tokens.starts[-1]
        tokens.texts[-1] = text[start : max(unreadable.end, start + 1)]
        tokens.kinds[-1] = BAD
        tokens.complaint = unreadable.complaint
    for _ in range(2):
        tokens.add(EOF, "", len(text))
    return tokens


def _read(tokens: Tokens, dialect: Dialect) -> None:
    text, kinds, texts, starts = tokens.text, tokens.kinds, tokens.texts, tokens.starts
    words = {word: word for word in KEYWORDS}
    if dialect.goto_is_reserved:
        words["goto"] = "goto"
    number = _number(dialect)
    pattern = _pattern(dialect)
    position: int | None = _after(_REST_OF_LINE, text, 0) if text.startswith("#") else 0
    while position is not None:
        begin, position = position, None
        for found in pattern.finditer(text, begin):
            group = found.lastindex
            if group is None:
                break
            word = found[group]
            starts.append(found.start(group))
            texts.append(word)
            if group == 1:
                kinds.append(words.get(word, NAME))
            elif group == 5:
                kinds.append(word)
            elif group == 3:
                kinds.append(STRING)
            elif group == 2:
                kinds.append(NUMBER)
                if not word.isdecimal() and not _is_number(word, number, dialect):
                    raise _Unreadable("malformed number", found.end())
            else:
                kinds.append(STRING)
                position = _read_slowly(tokens, word, dialect)
                break


def _read_slowly(tokens: Tokens, opening: str, dialect: Dialect) -> int:
    """Read the string or comment whose opening was just added; answer where to go on."""
    start = tokens.starts[-1]
    if opening == "--[":
        end = _comment_end(tokens.text, start + 2, dialect)
        del tokens.kinds[-1], tokens.texts[-1], tokens.starts[-1]
        return end
    if opening == "[":
        end = _long_end(tokens.text, start, "string", dialect)
    else:
        end = _string_end(tokens.text, start, opening, dialect)
    tokens.texts[-1] = tokens.text[start:end]
    return end


def _comment_end(text: str, start: int, dialect: Dialect) -> int:
    if _LONG.match(text, start):
        return _long_end(text, start, "comment", dialect)
    return _after(_REST_OF_LINE, text, start)


def _long_end(text: str, start: int, what: str, dialect: Dialect) -> int:
    """Where a long string or comment ends; ``start`` is its first bracket."""
    opened = _LONG.match(text, start)
    if not opened:
        raise _Unreadable("invalid long string delimiter", start + 2)
    closing = f"]{opened[1]}]"
    end = text.find(closing, opened.end())
    inner = text.find("[[", opened.end(), end if end >= 0 else len(text))
    if inner >= 0 and not opened[1] and not dialect.nested_brackets:
        raise _Unreadable("nesting of [[...]] is deprecated", start + 2)
    if end < 0:
        raise _Unreadable(f"unfinished long {what} ('{closing}' is missing)", opened.end())
    return end + len(closing)


def _string_end(text: str, start: int, quote: str, dialect: Dialect) -> int:
    """Where a string with escapes ends; ``start`` is its quote."""
    position = start + 1
    while True:
        position = _after(_PLAIN, text, position)
        char = text[position : position + 1]
        if char == quote:
            return position + 1
        if char == "\\":
            position = _escape_end(text, position + 1, dialect)
        elif char in ("", "\r", "\n"):
            raise _Unreadable("unfinished string", position)
        else:
            position += 1


def _escape_end(text: str, start: int, dialect: Dialect) -> int:
    """Where an escape ends; ``start`` is the character after the backslash."""
    char = text[start : start + 1]
    if char in dialect.escapes and char:
        return _long_escape_end(text, start, char, dialect)
    if char in ("\r", "\n"):
        return _after(_LINE_END, text, start)
    if decimal := _DECIMAL_ESCAPE.match(text, start):
        if int(decimal[0]) > 255:
            raise _Unreadable("escape sequence too large (a byte is at most 255)", decimal.end())
        return decimal.end()
    if dialect.strict_escapes and char and char not in "abfnrtv\\\"'":
        raise _Unreadable(f"invalid escape sequence '\\{char}'", start + 1)
    return min(start + 1, len(text))


def _long_escape_end(text: str, start: int, char: str, dialect: Dialect) -> int:
    if char == "z":
        return _zap_end(text, start + 1, dialect)
    if char == "x":
        if not (found := _HEX_ESCAPE.match(text, start)):
            raise _Unreadable("hexadecimal digit expected (\\x takes two)", start + 3)
        return found.end()
    if not (found := _UNICODE_ESCAPE.match(text, start)):
        raise _Unreadable("malformed \\u escape (write \\u{ and hexadecimal digits and })", start + 2)
    if len(found[1].lstrip("0")) > 6 or int(found[1], 16) > _LAST_CODE_POINT:
        raise _Unreadable("UTF-8 value too large", found.end())
    return found.end()


def _zap_end(text: str, position: int, dialect: Dialect) -> int:
    blank = re.compile(f"[{dialect.spaces}]")
    while blank.match(text, position):
        if line_end := _LINE_END.match(text, position):
            position = line_end.end()
            if dialect.zap_swallows:
                position = min(position + 1, len(text))
        else:
            position += 1
    return position
