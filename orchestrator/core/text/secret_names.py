"""Secrets that are known by the name they are given to: ``password = "hunter2"``, ``API_KEY=…``, ``"token": "…"``.

Theory. A text is read as Lua reads it (strings, long brackets, words, signs), which fits JSON, INI and shell lines well
enough. A value is a secret if its name ends in a word such as password or token. The inside of a string is read again
by itself, so that JSON in Lua is found too. Each character is looked at a fixed number of times.

Text that could be code stays visible even behind such a name: code that a reviewer does not see must not run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from orchestrator.core.text.secret_words import (
    NAME_CHARS,
    WORD,
    is_key_name,
    is_made_up,
    is_number,
    is_perhaps_secret,
    is_pin,
    is_secret_name,
    looks_random,
    may_have,
    may_hide,
    words_of,
)

Span = tuple[int, int]

_MENTIONED: Final = re.compile(
    r"pass|pwd|pw\b|secret|token|cookie|auth|credential|key|psk|pin(?:\b|_)|pin_?code|kennwort|contrase|session|sid\b"
    r"|otp|pepper|(?:door|lock|safe|vault|unlock|security|entry|access|keypad)_?code",
    re.I,
)
"""Without one of these there is no name to find, which is so in nearly every program."""
_STEMS: Final = (
    "pass", "pwd", "pw", "secret", "token", "cookie", "auth", "credential", "key", "psk", "pin", "kennwort", "contrase",
    "session", "sid", "otp", "pepper", "code",
)  # fmt: skip
"""The beginnings of these."""
_NAMES: Final = 15
"""Names on the left of one assignment, less one; nobody writes more."""
_DEPTH: Final = 4
"""Strings in strings: JSON in a Lua string in a shell line is three."""

_LEX: Final = re.compile(
    r"""(?P<quote>(?<!\\)\\{0,7}["'`]) | (?P<escape>\\{1,7}[nrt](?=[^\W\d]))
      | \[(?P<level>={0,3})\[ | (?P<word>[^\W\d]\w*+(?:[.-]\w++)*)
      | (?P<sign>==|~=|!=|=>|:=|\?=|\+=|\.\.|[=:,;(){}\n])""",
    re.X,
)
_BARE: Final = re.compile(r"""(?P<gap>[ \t]*+)(?P<value>[^\s"'`,;&|<>()\[\]{}\\]{1,300}+)(?P<after>[ \t]*+\S{0,3})""")
_BARE_REST: Final = re.compile(r"""[^\s"'`,;&|<>()\[\]{}\\]*+""")
_SET_LINE: Final = re.compile(r"^[-+ \t]*set[ \t]++(?P<name>[\w.-]++)[ \t]++(?P<value>[^\n]*\S)", re.M)
_TAG: Final = re.compile(r"<(?P<name>[\w.:-]{1,60})(?:\s[^<>]{0,200})?>(?P<value>[^<>\n]{1,300})</")
_PAIR_TAG: Final = re.compile(
    r"""\b(?:key|name)(?P<is>=|[ ]=[ ])(?P<q>\\{0,7}["'])(?P<name>[\w.:-]{1,60})(?P=q)(?:\s{1,9}|[,;]\s{0,9})
        value(?P=is)(?P=q)(?P<value>[^"'<>\n\\]{1,300})(?P=q)""",
    re.I | re.X,
)
_LISTED: Final = re.compile(
    r"""(?<![\w.-])(?:(?<=\\)[nrt])?(?P<name>[\w.-]{1,80})\\{0,7}["']?\]?[ \t]{0,9}[:=][ \t]{0,9}[({\[]\s{0,40}
        (?P<values>(?:\\{0,7}["'][^"'\n\\]{1,300}\\{0,7}["'][,;]?\s{0,40}){1,50})[)}\]]""",
    re.X,
)
_LISTED_ONE: Final = re.compile(r"""["'](?P<value>[^"'\n\\]+)\\{0,7}["']""")
_SIGNS_LINE: Final = re.compile(
    r"""^[-+\# \t]{0,40}(?:export[ ])?(?P<name>[\w.-]{1,80})(?:[ \t]?=[ \t]?|:[ \t]?)
        (?P<value>[^\s"'`()\[\]{}\\]{8,200})[ \t\r]*$""",
    re.X | re.M,
)
"""All of a line of settings is a name and a value with signs, such as ``secret=*Rk&8rA+``."""
_NETRC: Final = re.compile(
    r"""(?:(?P<machine>(?:\b|(?<=\\n))(?:machine[ \t\r\n]{1,9}[\w.-]{1,99}
             |default(?=\s{1,9}(?:login|account)))[ \t\r\n]{1,9}
            (?:(?:login|account)[ \t\r\n]{1,9}[^\s"'`]{1,99}[ \t\r\n]{1,9}){0,2})
        |(?:^|(?<=\\n))[-+ \t]{0,40}(?:login[ \t]{1,9}[^\s"'`]{1,99}[ \t]{1,9})?)
        (?:passw(?:or)?d|requirepass|masterauth)(?:[ \t]{1,9}|(?(machine)\s{1,40}|(?!)))(?P<q>(?:\\{0,7}["'])?)
        (?P<value>[^\s"'`()\\]{1,200})(?P=q)(?=;?[ \t]*$|[ \t\r]|\\)""",
    re.X | re.M | re.I,
)
_COOKIES: Final = re.compile(
    r"""\bcookie\\{0,7}["']?\]?[ \t]{0,9}[:=][ \t]{0,9}\\{0,7}["']?(?P<pairs>[\w.%+-]{1,99}=[^\n"'`\\]++)""", re.I
)
_COOKIE: Final = re.compile(r"(?<![\w.%+-])[\w.%+-]{1,99}=(?P<value>[^\s;,()=]++)")
_YAML_BLOCK: Final = re.compile(
    r"""^(?P<indent>[ ]{0,40})(?:-[ ])?["']?(?P<name>[\w.-]{1,80})["']?:[ ]{1,9}[|>][+-]?[0-9]?[ \t\r]{0,9}\n
        (?P<block>(?:(?P=indent)[ \t]+\S[^\n]*+(?:\n|\Z))+)""",
    re.X | re.M,
)
_TOML_BLOCK: Final = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{1,80})["']?[ \t]{0,9}[:=][ \t]{0,9}(?P<q>\"{3}|'{3})
        (?P<block>(?:(?!(?P=q))[\s\S]){1,2000})(?P=q)""",
    re.X,
)
_NUMBERS: Final = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{1,80})\\{0,7}["']?\]?[ \t]{0,9}[:=][ \t]{0,9}[{\[]\s{0,9}
        (?P<value>(?:(?:0x[0-9A-Fa-f]{1,2}|[0-9]{1,3})[ \t]{0,9},\s{0,40}){15,}(?:0x[0-9A-Fa-f]{1,2}|[0-9]{1,3}))""",
    re.X,
)
_LINE: Final = re.compile(r"\S(?:[^\n]*\S)?")
_CODE_WORDS: Final = re.compile(r"\b(?:local|function|then|return|end|elseif|def|class|import|const|let|var)\b")
_SETTERS: Final = frozenset({
    "set", "setenv", "put", "define", "store", "save", "setHeader", "addHeader", "set_header", "add_header",
})  # fmt: skip
_SENDERS: Final = frozenset({"rednet.send", "rednet.broadcast", "rednet.host"})
_ASSIGNS: Final = frozenset({"=", ":", "=>", ":=", "?=", "+="})
_LINE_END: Final = re.compile(r"[ \t]*\r?\n")
_COMPARES: Final = frozenset({"==", "~=", "!="})

_SCHEME: Final = re.compile(r"(?:bearer|basic|token|digest) ", re.I)
"""The text before the secret in a header stays."""
_COMMON: Final = frozenset({
    "required", "optional", "string", "number", "text", "unknown", "wrong", "incorrect", "invalid", "changed",
    "empty", "missing", "hidden", "input", "value", "line", "msg", "message", "args", "self", "false", "true",
    "str", "int", "bool", "bytes", "float", "object", "any",
})  # fmt: skip
_CHAIN: Final = re.compile(r"[^\W\d]\w*(?:[.:][^\W\d]\w*)+")
_GOES_ON: Final = re.compile(r"[ \t]*(?:\.\.|[+*/%^<>~=(\[{]|and\b|or\b|-(?![\w-]))")
"""What makes of a word a part of an expression; flags and comments do not."""
_ALONE: Final = re.compile(r"[0-9]{4,} | [A-Za-z]{8,}", re.X)
"""A text after ``--password`` in a command that does not look like a word of a comment."""
_NAME: Final = re.compile(r"[\w.-]{1,80}")


def named_secrets(text: str) -> Iterator[Span]:
    """Where in a text values stand that are secret by their name, in no order; they may overlap."""
    yield from _read(text, 0, _DEPTH)


def _read(text: str, base: int, depth: int) -> Iterator[Span]:
    if not may_have(text, _STEMS) or not _MENTIONED.search(text):
        return
    for line in _SET_LINE.finditer(text):
        if is_secret_name(line["name"]) and may_hide(line["value"]):
            yield base + line.start("value"), base + line.end("value")
    yield from ((base + start, base + end) for start, end in (*_of_forms(text), *_of_lists(text)))
    reader = _Reader(text)
    inside = list(reader.read())
    yield from ((base + start, base + end) for start, end in reader.found)
    if depth:
        for start, end in inside:
            yield from _read(text[start:end], base + start, depth - 1)


def _of_forms(text: str) -> Iterator[Span]:
    """Values whose place beside their name is a form of its own: headers, XML, ``.netrc``, blocks of lines."""
    for match in (*_TAG.finditer(text), *_PAIR_TAG.finditer(text)):
        if _fits(match["name"], "=", match["value"]) and may_hide(match["value"]):
            yield match.span("value")
    for match in _NETRC.finditer(text):
        if may_hide(match["value"]) and (match["machine"] or looks_random(match["value"])):
            yield match.span("value")
    for match in _COOKIES.finditer(text):
        for pair in _COOKIE.finditer(text, match.start("pairs"), match.end("pairs")):
            if may_hide(pair["value"]) and is_made_up(pair["value"]):
                yield pair.span("value")
    yield from (match.span("value") for match in _NUMBERS.finditer(text) if _is_key_of_bytes(**match.groupdict()))
    for block in (*_YAML_BLOCK.finditer(text), *_TOML_BLOCK.finditer(text)):
        if is_secret_name(block["name"]):
            for line in _LINE.finditer(text, block.start("block"), block.end("block")):
                if may_hide(line.group()):
                    yield line.span()


def _of_lists(text: str) -> Iterator[Span]:
    """Values in brackets behind their name, and values with signs that are the rest of a line of settings."""
    for listed in _LISTED.finditer(text):
        for match in _LISTED_ONE.finditer(text, *listed.span("values")):
            if _fits(listed["name"], "=", match["value"]) and may_hide(match["value"]):
                yield match.span("value")
    for match in _SIGNS_LINE.finditer(text):
        value, name = match["value"], match["name"]
        if is_secret_name(name) and is_made_up(value) and name not in value and may_hide(value):
            yield match.span("value")


def _is_key_of_bytes(name: str, value: str) -> bool:
    """Whether a list of numbers is a key by its name; one of small numbers is of places or of a keyboard."""
    is_key = is_secret_name(name) or is_key_name(name)
    numbers = [int(one[2:], 16) if "x" in one else int(one) for one in re.findall(r"\w+", value)]
    return is_key and 128 <= max(numbers) < 256


@dataclass
class _Reader:
    """Reads one text from left to right and notes in ``found`` which values are secret."""

    text: str
    found: list[Span] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """The names read last: candidates for the text left of an assignment."""
    comma: bool = False
    """Whether the last sign was a comma."""
    waiting: list[str] = field(default_factory=list)
    """The names whose values come now, and which of them is next."""
    sign: str = ""
    place: int = 0
    origin: list[str] = field(default_factory=list)
    """The name that this line gave a value to, where it is one alone."""
    assigned: bool = False
    """Whether the line has an ``=`` already: the next is one of a list, ``user=bob, password=…``, or a statement."""
    listed: str = ""
    """The name right before such a later ``=``: the first value may be its own, not that of the first name."""
    opened: int = 0
    """Brackets that are open on this line: inside of them ``a, b = 1`` is not an assignment to two."""
    joined: bool = False
    """Whether the last sign was ``..``, or ``=`` at the end of the line: the value goes on, on the next line too."""
    read_to: int = 0
    """The text up to here was taken as a value without quotes."""
    setter: bool = False
    sender: bool = False
    last: Span | None = None
    """The string read last on this line; with ``compared``: a comparison follows it."""
    compared: bool = False
    signs: bool = False
    """Whether a sign of a program is left of here on the line."""
    begun: bool = False
    """Whether something is left of here on the line."""

    def __post_init__(self) -> None:
        self.code = _CODE_WORDS.search(self.text) is not None
        self.unclosed: set[str] = set()

    def read(self) -> Iterator[Span]:
        """Reads it all; yields what is inside of each string."""
        position = 0
        while match := _LEX.search(self.text, position):
            position, sign = match.end(), ""
            if match["word"] == "b" and self.text[position : position + 1] in ("'", '"'):
                continue  # A string of bytes in Python.
            if match["word"]:
                self._word(match["word"], match.start())
            elif match["sign"] or match["escape"]:
                sign = match["sign"] or "\n"  # What an escape in a text begins is a line or a column of its own.
                self._sign(sign, match.start(), match.end())
            elif span := self._string(match):
                position = span[1] + len(match.group())
                self._value(*span)
                yield span
            self.begun = sign != "\n"
            self.signs = self.begun and (self.signs or sign != "")
            ends = sign in _ASSIGNS and _LINE_END.match(self.text, position) is not None
            self.joined = sign == ".." or ends or (self.joined and not self.begun)
            position = max(position, self.read_to)

    def _string(self, match: re.Match[str]) -> Span | None:
        """What is between the quotes, to the end of the line where they are not closed; None: no string."""
        start = match.end()
        if match["quote"]:
            inside = _inside(match["quote"]).match(self.text, start)
            return (start, inside.end()) if inside else None
        closing = f"]{match['level']}]"
        end = -1 if closing in self.unclosed else self.text.find(closing, start)
        if end < 0:
            self.unclosed.add(closing)
            return None
        return start, end

    def _word(self, word: str, start: int) -> None:
        if self.compared and self.last and is_secret_name(word):
            self._note(word, "==", *self.last)
        is_flag = self.begun and start >= 3 and self.text.startswith(" --", start - 3) and is_secret_name(word)
        if is_flag:
            self._flag(start + len(word))
        many = self.comma and not self.opened
        self.names = [*self.names[-_NAMES:], word] if many else [word]
        # A value behind ``or`` belongs to the name as well, and the text behind a flag is its value.
        self.waiting = self.origin if word == "or" else [word] if is_flag else []
        self.place = 0
        self.comma, self.compared = False, False

    def _value(self, start: int, end: int) -> None:
        content = self.text[start:end] if end - start <= NAME_CHARS else ""
        if self.place < len(self.waiting):
            self._note(self.waiting[self.place], self.sign, start, end)
            if self.listed and not self.place:
                self._note(self.listed, self.sign, start, end)
        elif self.setter and self.comma and self.names and is_secret_name(self.names[-1]):
            self._note(self.names[-1], "=", start, end)
        elif self.sender and self.comma and self.last and is_secret_name(content):
            self._note(content, "=", *self.last)
        self.setter = self.setter or content == "set"
        self.names = [content] if _NAME.fullmatch(content) else []
        self.last, self.comma = (start, end), False

    def _sign(self, sign: str, start: int, end: int) -> None:
        if sign in _ASSIGNS or sign in _COMPARES:
            self.compared = sign in _COMPARES and not self.names[:-1] and self.last is not None
            self.waiting = self.names if sign == "=" else self.names[-1:]
            self.listed = self.waiting[-1] if sign == "=" and self.assigned and self.waiting[1:] else ""
            self.assigned = self.assigned or sign == "="
            self.origin = self.waiting if sign == "=" and not self.waiting[1:] else self.origin
            self.sign, self.place, self.names = sign, 0, []
            named = (*self.waiting[:1], self.listed)
            secret = [name for name in named if is_secret_name(name) or is_perhaps_secret(name) or is_pin(name)]
            if secret and (sign in _ASSIGNS or is_pin(secret[0])):
                self._bare(secret[0], start, end)
        elif sign == ",":
            self.comma = True
            self.place += 1
        elif sign != ".." and not (sign == "\n" and self.joined):
            self._bracket(sign)

    def _bracket(self, sign: str) -> None:
        if sign == "(" and self.names:
            self.setter = self.names[-1].rpartition(".")[2] in _SETTERS
            self.sender = self.names[-1] in _SENDERS
        elif sign in ")\n":
            self.setter = self.sender = False
        self.origin = [] if sign == "\n" else self.origin
        self.opened = 0 if sign == "\n" else max(0, self.opened + (sign in "({") - (sign in ")}"))
        self.names, self.waiting, self.comma, self.last, self.assigned = [], [], False, None, False

    def _note(self, name: str, sign: str, start: int, end: int) -> None:
        if scheme := _SCHEME.match(self.text, start, end):
            start = scheme.end()
        value = self.text[start:end]
        if _fits(name, sign, value) and may_hide(value):
            self.found.append((start, end))

    def _bare(self, name: str, start: int, end: int) -> None:
        """A value without quotes, as in INI files, shells and addresses; a number also in Lua."""
        match = _BARE.match(self.text, end)
        if match is None or _is_code(match):
            return
        value, close = match["value"], not match["gap"]
        if is_secret_name(value) or _CHAIN.fullmatch(value) or not may_hide(value):
            return
        if not is_secret_name(name) and not _fits(name, self.sign, value):
            return
        tight = close and not self.text[start - 1 : start].isspace()
        if is_number(value):
            secret = not name.lower().endswith("token")
        elif looks_random(value):
            secret = True
        elif self.sign != ":" and name.isupper():
            secret = tight and len(value) >= 3
        else:
            secret = (tight or not close) and self._is_word_alone(value, match["after"])
        if secret:
            self._take(match.start("value"))

    def _is_word_alone(self, value: str, after: str) -> bool:
        """Whether a word is all that a line of settings gives to a name; in a program it is a variable."""
        if self.code or not value.isalpha() or len(value) < 4 or value.lower() in _COMMON:
            return False
        return (self.sign == ":" or not after.startswith(" ")) and after.lstrip(" \t")[:1] in ("", *",;}#&\"'`")

    def _flag(self, end: int) -> None:
        """What follows ``--password`` in a command; in Lua that would be a comment."""
        match = _BARE.match(self.text, end)
        if match and match["gap"] and may_hide(match["value"]):
            alone = not self.signs and not self.code and match["after"].lstrip(" \t")[:1] in ("", *"\n-;&|#\"'`")
            if looks_random(match["value"]) or (alone and _ALONE.fullmatch(match["value"])):
                self._take(match.start("value"))

    def _take(self, start: int) -> None:
        rest = _BARE_REST.match(self.text, start)
        self.read_to = rest.end() if rest else start
        self.found.append((start, self.read_to))


def _is_code(bare: re.Match[str]) -> bool:
    """Whether a value without quotes is a part of an expression; one that is made up may end in a sentence."""
    value, goes_on = bare["value"], _GOES_ON.match(bare["after"])
    if goes_on is None:
        return False
    sign = goes_on.group()
    in_words = sign.strip().isalpha() or (sign[0].isspace() and sign[-1] in "([")
    return not (in_words and (is_made_up(value) or is_number(value)))


def _fits(name: str, sign: str, value: str) -> bool:
    """Whether a quoted value is a secret under its name, where ``sign`` is between them."""
    last = (WORD.findall(name[-NAME_CHARS:]) or [""])[-1].lower()
    if not is_secret_name(name):
        return is_number(value) if is_pin(name) else is_perhaps_secret(name) and is_made_up(value)
    if value.lower() == last or (words_of(name) == ("pass",) and value.islower() and value.isalpha()):
        # A pass of a bus or of a loop: ``pass = "weekly"``.
        return False
    if last == "token":
        # In a parser a token is a word or a sign; only what looks made up is one to compare with.
        return looks_random(value) or (sign in _ASSIGNS and len(value) >= 3 and not value.isupper())
    return True


# A group is never possessive here: before 3.11.5 Python's engine then loses its place. Nothing follows these groups,
# so there is nothing to go back for either.
@cache
def _inside(opening: str) -> re.Pattern[str]:
    """The text between quotes: a quote with more backslashes than the first does not close, nor a line end."""
    quote, slashes = opening[-1], len(opening) - 1
    if not slashes:
        return re.compile(rf"(?:[^{quote}\\\n]|\\(?:z\s*|[\s\S]))*")
    return re.compile(rf"(?:[^{quote}\\\n]|\\{{{slashes + 1},}}+{quote}|\\++(?!{quote}))*")
