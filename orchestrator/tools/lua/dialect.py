r"""Which Lua a ComputerCraft computer compiles, as a function of the version of CC: Tweaked.

CC: Tweaked runs Cobalt, its own Lua in Java. Read in Cobalt's compiler (``Lex``, ``Parser``, ``FuncState``, ``LuaC``,
``NumberParser``) at the releases named below, in the ``libs.versions.toml`` or ``build.gradle`` of each tag of
CC: Tweaked (which Cobalt it ships), in its changelog and in its page ``feature_compat``; every line but the
last was run against the real compilers of Cobalt 0.5.7, 0.7.0, 0.7.1, 0.7.3, 0.8.0 and 0.9.8.

| CC: Tweaked | Cobalt | grammar |
| --- | --- | --- |
| 1.95 to 1.106 | 0.5.1 to 0.7.0 | Lua 5.1 with ``\x`` ``\u{}`` ``\z``; numbers as Java reads them |
| 1.107 | 0.7.1 | the same; decimal numbers as in C, hexadecimal ones without fraction |
| 1.108 | 0.7.2, 0.7.3 | the same; hexadecimal fractions and exponents |
| 1.109 and newer | 0.8.0 and newer | Lua 5.2: ``goto``, labels, empty statements, ``break`` anywhere |
| 1.114 and newer | 0.9.5 and newer | a hexadecimal number has at most 30 significant digits |

What no version has: integers, ``//``, ``& | ~ << >>`` (all 5.3), ``<const>`` and ``<close>`` (5.4).

What all have, unlike PUC Lua: ``[[`` inside of a ``[[`` string or comment is an error; every byte up to 0x20 is white
space; an unknown escape such as ``\q`` is the character itself; the character after a line end that ``\z`` skips is
swallowed too; a first line that begins with ``#`` is skipped. At most 200 local variables (from 1.109 on counted over
*all* functions that are open, a trait of Cobalt's), 200 nested syntax levels, 250 registers, 60 upvalues (61 from
Cobalt 0.6 on, CC 1.101.2; ``_ENV`` is one of them from 1.109 on).

5.1's grammar: a call whose ``(`` stands on the next line is refused as ambiguous; ``break`` is a block's last
statement; ``;`` only follows a statement; each block, not each statement, is a level. In 5.2's, ``goto`` is a word of
the language only before a name, so that old programs may use it as a name. (1.109.0 to 1.109.2 fail on a branch of
``if`` that begins with such a name, a fault of Cobalt 0.8.0 and 0.8.1 that is not told here.)
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final


@dataclass(frozen=True)
class Dialect:
    """What differs between the compilers; regular expressions as text, so that a dialect is a value."""

    lua52: bool = True
    """5.2's statements; False: 5.1's."""
    goto_is_reserved: bool = False
    """``goto`` cannot be a name (PUC Lua 5.2)."""
    unique_labels: bool = True
    """A label hides no label of an enclosing block of its function."""
    spaces: str = r"\x00-\x20"
    """What white space is, as the inside of a character class."""
    numeral: str = r"\.?0[xX](?:[pP][+-]?|[0-9A-Fa-f.])*|\.?[0-9](?:[eE][+-]?|[0-9A-Fa-f.])*"
    """What the lexer takes for one number before it looks whether it is one."""
    number: str = (
        r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
        r"|0[xX](?:[0-9A-Fa-f]+\.?[0-9A-Fa-f]*|\.[0-9A-Fa-f]+)(?:[pP][+-]?[0-9]+)?"
    )
    """What a number is."""
    max_hex_digits: int | None = 30
    """How many significant digits a hexadecimal number has at most; None: any."""
    escapes: str = "xuz"
    """Which letters begin a longer escape."""
    strict_escapes: bool = False
    """An escape that means nothing is an error (PUC Lua 5.2)."""
    zap_swallows: bool = True
    r"""``\z`` swallows the character after each line end."""
    nested_brackets: bool = False
    """``[[`` may stand inside of ``[[ ]]``."""
    shared_locals: bool = True
    """The limit of local variables counts those of all open functions."""
    max_upvalues: int = 61
    env_is_upvalue: bool = True
    """A function that uses a global has ``_ENV`` among its upvalues."""


NEWEST: Final = Dialect()
"""What a computer of unknown version is taken to be: 1.114 or newer."""

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
