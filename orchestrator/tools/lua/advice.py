"""Advice for a Lua text with a habit of another language, or with its end missing.

Each rule looks at the tokens around a syntax error; the first that knows the mistake speaks. They only word a refusal
that stands already, so a wrong guess costs one sentence, never a program.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.tools.lua.lexer import EOF, KEYWORDS, NAME, NUMBER, STRING, Dialect, Refused, Tokens

# -- The place of a syntax error, as the rules of advice look at it ----------------------

SHOWN: Final = 40
"""Characters of the code that a sentence repeats."""
_INDENTATION: Final = re.compile(r"[ \t]{0,200}")
_TARGET: Final = re.compile(r"(?<![A-Za-z0-9_.\]])[A-Za-z_][A-Za-z0-9_.]*(?:\[[^\[\]]*\])?$")


@dataclass(frozen=True)
class Place:
    """Where the error stands."""

    tokens: Tokens
    at: int
    message: str
    dialect: Dialect
    closed: Sequence[tuple[int, int]]
    """The tokens that opened and closed each block, as far as they are read."""

    def indentation(self, index: int) -> int:
        """How far the line of a token is indented, in characters, at most 200."""
        begin = self.tokens.line_start(index)
        blank = _INDENTATION.match(self.tokens.text, begin)
        return blank.end() - begin if blank else 0

    def kind(self, offset: int = 0) -> str:
        index = self.at + offset
        return self.tokens.kinds[index] if 0 <= index < len(self.tokens.kinds) else EOF

    def text(self, offset: int = 0) -> str:
        index = self.at + offset
        return self.tokens.texts[index] if 0 <= index < len(self.tokens.texts) else ""

    def joined(self, offset: int) -> bool:
        """Whether no space is between the token at the offset and the next."""
        index = self.at + offset
        starts = self.tokens.starts
        return 0 <= index < len(starts) - 1 and starts[index] + len(self.tokens.texts[index]) == starts[index + 1]

    def starts_line(self, offset: int = 0) -> bool:
        """Whether the token at the offset is the first of its line."""
        index = self.at + offset
        return index <= 0 or self.tokens.line(index) != self.tokens.line(index - 1)

    def is_colon(self, index: int) -> bool:
        """Whether a token is a colon that is the error, or that ends its line."""
        if self.tokens.kinds[index] != ":":
            return False
        return index == self.at or self.tokens.newline_before(index + 1)

    def left_of(self, offset: int) -> str:
        """The name that ends before the token at the offset, with its fields, if it is short; else ``x``."""
        end = self.tokens.starts[self.at + offset]
        begin = max(self.tokens.line_start(self.at + offset), end - SHOWN)
        named = _TARGET.search(self.tokens.text[begin:end].rstrip())
        return named[0] if named else "x"


# -- Mistakes that come from other languages: their signs, words, blocks, tables and comments

_SEEN: Final = 400
"""How many tokens before an error a rule looks at."""
_OPERATORS: Final = {
    "!=": "Lua has no !=: write ~=.",
    "!==": "Lua has no !==: write ~=.",
    "!": "Lua has no !: write not.",
    "<>": "Lua has no <>: write ~=.",
    "===": "Lua has no ===: write ==.",
    "&&": "Lua has no &&: write and.",
    "||": "Lua has no ||: write or.",
    "=>": "Lua has no =>: write function(x) … end.",
    "<<": "This Lua has no <<: write bit32.lshift(a, n).",
    ">>": "This Lua has no >>: write bit32.rshift(a, n).",
    "&": "This Lua has no &: write bit32.band(a, b), or and for conditions.",
    "|": "This Lua has no |: write bit32.bor(a, b), or or for conditions.",
    "~": "This Lua has no operator ~: write ~= for unequal, not for conditions, bit32.bxor for bits.",
    "/*": "Lua comments begin with --, or stand between --[[ and ]].",
    "?": "Lua has no ? operator: write condition and a or b.",
    "@": "Lua has no @: remove it.",
    "$": "Lua has no $: write the bare name.",
    "\\": "A backslash only stands inside of a string: write the code with real line ends and quotes.",
    "`": "Lua has no backquotes: write strings in quotes and join them with ..",
}
_FOREIGN_STARTS: Final = {
    "def": "Lua writes function name(…) … end.",
    "func": "Lua writes function name(…) … end.",
    "fn": "Lua writes function name(…) … end.",
    "fun": "Lua writes function name(…) … end.",
    "void": "Lua writes function name(…) … end.",
    "async": "Lua has no async: write function name(…) … end; see parallel.waitForAll.",
    "await": "Lua has no await: call the function; it waits.",
    "elif": "Lua writes elseif.",
    "elsif": "Lua writes elseif.",
    "var": "Lua writes local name = value.",
    "let": "Lua writes local name = value.",
    "const": "Lua writes local name = value.",
    "int": "Lua has no types before names: write local name = value.",
    "string": "Lua has no types before names: write local name = value.",
    "import": "Lua writes local name = require('name').",
    "from": "Lua writes local name = require('name').",
    "class": "Lua has no classes: use a table with functions.",
    "new": "Lua has no new: call the function that makes the table.",
    "try": "Lua has no try: write local ok, err = pcall(function() … end).",
    "except": "Lua has no except: write local ok, err = pcall(function() … end).",
    "catch": "Lua has no catch: write local ok, err = pcall(function() … end).",
    "throw": "Lua writes error('message').",
    "raise": "Lua writes error('message').",
    "switch": "Lua has no switch: write if … then … elseif … then … end.",
    "global": "A Lua name without local is global: remove this word.",
    "pass": "Lua needs no pass: leave the block empty.",
    "del": "Lua writes name = nil.",
    "delete": "Lua writes name = nil.",
}
_ENDINGS: Final = frozenset({"endif", "endfor", "endwhile", "endfunction", "fi", "done"})
_ENTITIES: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_NO_COLON: Final = {
    "then": "Lua writes if … then … end, without a colon.",
    "do": "Lua writes while … do … end and for … do … end, without a colon.",
}
_FIELDS: Final = (
    "Lua tables are { name = 1, ['other name'] = 2 } and lists { 1, 2 }: no colons, no brackets around them."
)
_CURLY: Final = frozenset("\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb\uff02\uff07")


def augmented(place: Place) -> str:
    """``+=``, ``..=``, ``++``, and ``--``, which is a comment."""
    for offset in (0, -1):
        sign = place.kind(offset)
        if sign in ("+", "-", "*", "/", "%", "^", "..") and place.joined(offset):
            target = place.left_of(offset)
            after = place.kind(offset + 1)
            if after == "=":
                value = place.text(offset + 2) if place.kind(offset + 2) in (NAME, NUMBER, STRING) else "…"
                value = value if len(value) <= SHOWN else "…"
                return f"Lua has no {sign}=: write {target} = {target} {sign} {value}."
            if after == sign == "+":
                return f"Lua has no ++: write {target} = {target} + 1."
    index = place.at - 1
    if place.message == "syntax error" and index >= 0:
        end = place.tokens.starts[index] + len(place.tokens.texts[index])
        if place.tokens.text.startswith("--", end):
            target = place.text(-1)
            return f"-- begins a comment: for one less write {target} = {target} - 1."
    return ""


def comment(place: Place) -> str:
    """``//`` and ``#`` comments; ``//`` as an operator."""
    if place.kind() == place.kind(-1) == "/" and place.joined(-1):
        return "Lua has no //: a comment begins with --; for whole numbers write math.floor(a / b)."
    if place.kind() == "/" and place.joined(0):
        return {
            "/": "Lua comments begin with --, not with //.",
            "*": _OPERATORS["/*"],
        }.get(place.kind(1), "")
    if place.kind() == "#":
        return "Lua comments begin with --, not with #."
    return ""


def operator(place: Place) -> str:
    """Signs that Lua does not have."""
    if place.kind() == "&" and place.text(1) in _ENTITIES and place.kind(2) == ";":
        return f"Write the sign {_ENTITIES[place.text(1)]} itself, not &{place.text(1)};."
    for offset in (0, -1):
        pair = place.text(offset) + place.text(offset + 1)
        if place.joined(offset) and pair in _OPERATORS:
            return _OPERATORS[pair]
    return _OPERATORS.get(place.text(), "")


def curly_quotes(place: Place) -> str:
    sign = place.text()[:1]
    if not sign or sign.isascii():
        return ""
    if sign in _CURLY:
        return "Strings stand in plain quotes, ' or \"."
    return f"The character {sign!r} only stands inside of strings and comments." if sign.isprintable() else ""


def braces(place: Place) -> str:
    advice = "Lua has no braces around blocks: write then … end, do … end, function() … end."
    if place.kind() == "{" or (place.kind() == "}" and place.message in ("unexpected symbol", "<eof> expected")):
        return advice
    if place.message in ("'then' expected", "'do' expected", "unexpected symbol"):
        for index in range(place.at - 1, max(place.at - _SEEN, 0), -1):
            kinds = place.tokens.kinds
            if kinds[index] == "{" and kinds[index - 1] == ")" and place.tokens.newline_before(index + 1):
                return advice
    return ""


def colon(place: Place) -> str:
    """Blocks as Python has them: a colon ends the line."""
    index = next((at for at in range(place.at, max(place.at - _SEEN, -1), -1) if place.is_colon(at)), None)
    if index is None or (index != place.at and place.message not in ("'then' expected", "'do' expected")):
        return ""
    if place.tokens.kinds[index - 1] == STRING or place.kind(-2) in ("{", ","):
        return _FIELDS
    line = place.tokens.line(index)
    while index > 0 and place.tokens.line(index - 1) == line:
        index -= 1
    first = place.tokens.texts[index]
    if first in ("if", "elseif", "else"):
        return "Lua writes if … then … elseif … then … else … end, without a colon."
    if first in ("while", "for"):
        return _NO_COLON["do"]
    return _FOREIGN_STARTS.get(first, "") or (
        "Lua names have no types: remove the colon and the type." if first in ("local", "function") else ""
    )


def foreign_start(place: Place) -> str:
    """A statement that begins with a word of another language."""
    word = place.text(-1)
    if place.kind(-1) != NAME or place.kind(-2) in (".", ":"):
        return ""
    if place.message == "syntax error" and word == "continue":
        return _continue(place)
    if place.message == "syntax error" and word in _ENDINGS:
        return "Lua closes every block with end."
    said = place.message == "syntax error" or place.kind() in (NAME, STRING, NUMBER, "{", ":", "function")
    return _FOREIGN_STARTS.get(word, "") if said else ""


def _continue(place: Place) -> str:
    if place.dialect.lua52:
        return "Lua has no continue: write goto continue and, as the loop's last statement, ::continue::."
    return "Lua has no continue: put the rest of the loop into if … then … end."


def table(place: Place) -> str:
    """Tables and arguments without commas, and tables of JSON."""
    if place.kind(-1) == ":" and place.kind(-3) in ("{", ","):
        return _FIELDS
    if place.kind() == "[" and place.message == "unexpected symbol":
        return _FIELDS
    if place.kind(-1) == STRING and place.joined(-1) and place.kind() in (NAME, NUMBER):
        return "The string before it ended at its own quote: write the other kind of quotes around it, or [[ ]]."
    if place.kind() == NUMBER and place.text().startswith(".") and place.kind(-1) == NAME:
        return f"A number as a key stands in brackets: {place.text(-1)}[{place.text()[1:]}]."
    if place.kind() == ".." and place.message == "unexpected symbol" and place.kind(-1) == STRING:
        return "An argument that is more than one string stands in parentheses: print('a' .. b)."
    if place.message.startswith(("'}' expected", "')' expected")) and place.kind() in (NAME, STRING, NUMBER, "["):
        return f"A comma or a {place.message[1]} is missing here."
    return ""


# -- What Lua wants where a text has a mistake from another language, or was cut ---------

_CUT: Final = "It was probably cut at a double quote: in Lua code write strings with single quotes or [[ ]]."


def advice_for(tokens: Tokens, refused: Refused, dialect: Dialect, closed: Sequence[tuple[int, int]] = ()) -> str:
    """The text to write instead, in one or two sentences; empty: nothing is known."""
    place = Place(tokens, refused.at or 0, refused.message, dialect, closed)
    return next((advice for rule in _RULES if (advice := rule(place))), "")


def _fence(place: Place) -> str:
    text = place.tokens.text
    if text.lstrip().startswith("```") or (place.text().startswith("`") and text.startswith("```", _start(place))):
        return "The text has a Markdown fence: write only the Lua code, without the ``` lines."
    return ""


def _start(place: Place) -> int:
    return place.tokens.starts[place.at]


def _cut(place: Place) -> str:
    """The text ends too early: a string, a call or a statement is open."""
    rest_is_blank = not place.tokens.text[_start(place) + len(place.text()) :].strip()
    if place.message == "unfinished string":
        ends = "The text ends inside of this string. " + _CUT if rest_is_blank else ""
        return ends or "A string in quotes ends on its line: close the quote, write \\n for a line end, or use [[ ]]."
    if place.kind() != EOF:
        return ""
    if "unexpected symbol" in place.message or "'('" in place.message or place.kind(-1) in ("(", ",", "{", ".."):
        return "The text ends in the middle of a statement. " + _CUT
    return ""


def _condition(place: Place) -> str:
    if place.message == "'then' expected":
        if place.kind() == "=":
            return "A condition compares with ==."
        return "Lua writes if condition then … end."
    if place.message == "'(' expected":
        return "Parameters stand in parentheses, even if there are none: function name() … end."
    if place.message == "'do' expected":
        return "Lua writes while condition do … end and for … do … end."
    return ""


def _loop(place: Place) -> str:
    """The other ways to say ``for``."""
    if place.message == "'=' or 'in' expected" or (place.kind(-1) == "for" and "<name>" in place.message):
        return "Lua writes for i = 1, 10 do … end, or for key, value in pairs(t) do … end."
    if place.message == "',' expected":
        return "Lua writes for i = 1, 10 do … end."
    if place.message == "malformed number" and ".." in place.text():
        return "A loop is for i = 1, 10 do … end; .. joins strings and needs a space after a number."
    return ""


def _jump(place: Place) -> str:
    if place.message.startswith("no visible label 'continue'"):
        return "Write ::continue:: as the last statement of the loop."
    if place.message.startswith("'break'"):
        return "break leaves while, for and repeat; return leaves a function."
    return ""


def _statement(place: Place) -> str:
    if place.message != "syntax error":
        return ""
    if place.kind() == "==":
        return "= assigns; == compares and is not a statement."
    return "A statement assigns (x = value) or calls (f(x))."


def _keyword_as_name(place: Place) -> str:
    word = place.kind()
    if "<name>" in place.message and word in KEYWORDS:
        quoted = f"; as a field write ['{word}']" if place.kind(-1) in (".", ":") else ""
        return f"{word} is a word of Lua itself: choose another name{quoted}."
    return ""


def _else_if(place: Place) -> str:
    """``else if`` opens a second ``if`` that needs an end of its own."""
    if "'end' expected" not in place.message:
        return ""
    kinds = place.tokens.kinds
    for index in range(len(kinds) - 1):
        if kinds[index] == "else" and kinds[index + 1] == "if" and not place.tokens.newline_before(index + 1):
            line = place.tokens.line(index)
            return f"'else if' on line {line} opens another if that needs its own end: write elseif."
    return ""


def _ends(place: Place) -> str:
    """An ``end`` that is missing, or one too many: the indentation may say which."""
    missing = "'end' expected" in place.message and place.kind() == EOF
    if not missing and not (place.message.startswith("<eof> expected") and place.kind() == "end"):
        return ""
    for opening, closing in place.closed:
        deeper = place.indentation(closing) - place.indentation(opening)
        if place.starts_line(closing - place.at) and ((deeper < 0) if missing else (deeper > 0)):
            first, last = place.tokens.line(opening), place.tokens.line(closing)
            word = place.tokens.texts[opening]
            if missing:
                return (
                    f"By its indentation '{word}' on line {first} has no end: that on line {last} belongs further out."
                )
            return f"By its indentation the end on line {last} does not belong to '{word}' on line {first}."
    if missing:
        return "Each function, if, for, while and do needs its own end."
    return "There is one end too many, or a block above it was closed too early."


def _newer(place: Place) -> str:
    """What newer versions of Lua have, or of CC: Tweaked."""
    if place.kind() == "<" and place.kind(-1) == NAME and place.text(1) in ("const", "close"):
        return "This Lua has no <const> and no <close>: write local name = value."
    if not place.dialect.lua52:
        if place.kind() == NAME and place.text(-1) == "goto":
            return "This computer's CC: Tweaked is older than 1.109 and has no goto: use if … then … end."
        if place.kind() in ("::", ";"):
            return f"This computer's CC: Tweaked is older than 1.109 and has no {place.kind()} here: remove it."
        if place.message.startswith("ambiguous"):
            return "Write the ( on the line of the function's name, or a ; before it."
        if place.kind(-1) == "break" or (place.kind(-1) == ";" and place.kind(-2) == "break"):
            return "Before CC: Tweaked 1.109, break is the last statement of its block: write do break end."
    if place.kind(-1) == "return" or "return" in (place.kind(-2), place.kind(-3)):
        return "return is the last statement of its block: write do return end, or put an end after it."
    return ""


_RULES: Final[tuple[Callable[[Place], str], ...]] = (
    _fence,
    _cut,
    augmented,
    comment,
    _newer,
    foreign_start,
    operator,
    curly_quotes,
    colon,
    braces,
    _else_if,
    table,
    _keyword_as_name,
    _condition,
    _loop,
    _ends,
    _jump,
    _statement,
)
