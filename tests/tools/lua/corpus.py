"""Real programs and what a careless hand makes of them, the same each time."""

import random
from collections.abc import Iterator
from functools import cache
from typing import Final

from orchestrator.tools.lua.lexer import NEWEST, lex
from tests import ROOT

_FILES: Final = sorted([*(ROOT / "cc_client" / "lua").glob("*.lua"), *(ROOT / "tests" / "lua").glob("*.lua")])
_LINES: Final = 25
"""Of a program that is mutated: parts are quicker to read, and break at their edges too."""
_PIECES: Final = (
    *("and", "do", "else", "elseif", "end", "for", "function", "if", "in", "local", "nil", "not", "repeat", "return"),
    *("then", "until", "while", "break", "x", "1", "'s'", "[[s]]", "{", "}", "(", ")", "[", "]", ",", ";", ":", "::"),
    *(".", "..", "...", "=", "==", "~=", "<", "+", "-", "*", "^", "#", "0x1p", "0x1p4", "1e", "3..2", "--[[ ]]", "--"),
    *("--[=[ ]=]", "\\", '"', "'", "\n", "!", "&", "~", "//", "_ENV", "::c::", "goto c", "goto", "'\\x4'", "'\\q'"),
)


@cache
def programs() -> tuple[str, ...]:
    """Every Lua file of this project, whole."""
    return tuple(path.read_text("utf-8") for path in _FILES)


def parts() -> tuple[str, ...]:
    """The programs in parts of some lines."""
    lines = [program.split("\n") for program in programs()]
    return tuple("\n".join(one[at : at + _LINES]) for one in lines for at in range(0, len(one), _LINES))


def cuts(text: str, step: int) -> Iterator[str]:
    """A text cut at one place in ``step``."""
    return (text[:at] for at in range(0, len(text), step))


def mutants(seed: int, count: int) -> Iterator[str]:
    """Parts of programs with up to three tokens deleted, doubled, swapped, replaced or put in."""
    chance = random.Random(seed)
    pool = parts()
    for _ in range(count):
        text = chance.choice(pool)
        for _ in range(chance.randint(1, 3)):
            text = _mutated(text, chance)
        yield text


def _mutated(text: str, chance: random.Random) -> str:
    tokens = lex(text, NEWEST)
    spans = [(start, start + len(word)) for start, word in zip(tokens.starts, tokens.texts, strict=True)][:-2]
    if not spans:
        return text + chance.choice(_PIECES)
    (begin, end), (later, last) = sorted((chance.choice(spans), chance.choice(spans)))
    match chance.randrange(6):
        case 0:
            return text[:begin] + text[end:]
        case 1:
            return f"{text[:end]} {text[begin:end]}{text[end:]}"
        case 2 if begin != later:
            return text[:begin] + text[later:last] + text[end:later] + text[begin:end] + text[last:]
        case 3:
            return text[:begin] + chance.choice(_PIECES) + text[end:]
        case 4:
            return f"{text[:begin]}{chance.choice(_PIECES)} {text[begin:]}"
        case _:
            return text[: chance.randrange(len(text) + 1)]
