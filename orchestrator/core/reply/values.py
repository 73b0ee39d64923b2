"""What the modules of the reader share: limits, the strict decoder, and how a place is told."""

import json
import math
import re
from typing import Any, Final, NoReturn

from orchestrator.core.errors import ReplyRefused

MAX_DEPTH: Final = 40
"""So deep may brackets nest: deeper is a bomb, no reply needs ten."""
MAX_DIGITS: Final = 18
"""An integer of more digits is none that a tool or a program of the game can hold."""
MAX_CALLS: Final = 4
"""So many calls may be one request."""
SHOWN_CHARS: Final = 60
"""Of what the model made up, such as a key, this much comes back in the sentence that refuses it."""
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
    """The beginning of what the model made up, as Python writes it: what cannot be seen is spelled out."""
    return repr(made_up[:SHOWN_CHARS])[: 2 * SHOWN_CHARS]


def name(made_up: object) -> str:
    """A key or the number of an entry as it is, where it is a plain word; else as ``shown``."""
    text = str(made_up)
    return text if _PLAIN.fullmatch(text) else shown(text)


def place(text: str, at: int) -> str:
    """A place in the text as the model counts it: lines and columns from 1."""
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


def again(text: str) -> str:
    """What to do after a reply that is incomplete."""
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
    """Refuse a lone surrogate: what was meant there nobody knows."""
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
    """What JSON calls a value that is no object."""
    return {list: "list", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")
