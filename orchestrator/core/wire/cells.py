"""The cell of a computer: one store, one bus and their nodes. The name of the cell is in the computer's token.

Theory. A router that keeps nothing has to find the cell of a computer before anybody is authenticated. So the name is
written into the token, between its first letters and its secret: ``ccc_east.SECRET``. It only shows the way. The
stored hash is of the token without it: a computer that moved changes the name by itself, and its token stays the same
secret. A wrong name leads to a cell that does not know the token.
"""

import re
from typing import Final, NamedTuple

NAME: Final = r"[a-z0-9][a-z0-9-]{0,31}"
"""The characters of a cell's name."""
_NAMED: Final = re.compile(rf"(cc[a-z]_)(?:({NAME})\.)?(.+)", re.DOTALL)
_PLAIN: Final = re.compile(NAME)
MOVED: Final = "moved"
"""The code with which a computer is turned away whose cell is elsewhere."""


class Route(NamedTuple):
    """The parts of a token."""

    cell: str
    """The name of the cell; empty: the token names none."""
    bare: str
    """The token without it, as the store hashes it."""


def route_of(token: str) -> Route:
    """The cell that a token names, and the token without it."""
    found = _NAMED.fullmatch(token)
    return Route("", token) if found is None else Route(found[2] or "", found[1] + found[3])


def named(token: str, cell: str) -> str:
    """The token with the name of a cell, in place of the one that it had; empty: without one."""
    found = _NAMED.fullmatch(token)
    if found is None:
        return token
    return f"{found[1]}{cell}.{found[3]}" if cell else found[1] + found[3]


def is_name(text: str) -> bool:
    """Whether a cell may have this name."""
    return _PLAIN.fullmatch(text) is not None


def channel(url: str) -> str:
    """The computers' channel of the server at an address of http or https."""
    return f"ws{url.removeprefix('http')}/computer"
