"""What Lua wants where a text has a mistake from another language, or was cut.

Each rule looks at the tokens around a syntax error; the first that knows the mistake speaks. They only word a refusal
that stands already, so a wrong guess costs one sentence, never a program.
"""

from collections.abc import Callable, Sequence
from typing import Final

from orchestrator.tools.lua import foreign
from orchestrator.tools.lua.dialect import Dialect
from orchestrator.tools.lua.fault import Refused
from orchestrator.tools.lua.lexer import EOF, KEYWORDS, NAME, Tokens
from orchestrator.tools.lua.place import Place

_CUT: Final = "It was probably cut at a double quote: in Lua code write strings with single quotes or [[ ]]."


def advice_for(tokens: Tokens, refused: Refused, dialect: Dialect, closed: Sequence[tuple[int, int]] = ()) -> str:
    """What to write instead, in one or two sentences; empty: nothing is known."""
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
        return "= assigns; == compares and is no statement."
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
    foreign.augmented,
    foreign.comment,
    _newer,
    foreign.foreign_start,
    foreign.operator,
    foreign.curly_quotes,
    foreign.colon,
    foreign.braces,
    _else_if,
    foreign.table,
    _keyword_as_name,
    _condition,
    _loop,
    _ends,
    _jump,
    _statement,
)
