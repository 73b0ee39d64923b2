"""Mistakes that come from other languages: their signs, words, blocks, tables and comments."""

from typing import Final

from orchestrator.tools.lua.lexer import NAME, NUMBER, STRING
from orchestrator.tools.lua.place import SHOWN, Place

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
