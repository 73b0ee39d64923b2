"""Which names a Lua text takes from outside of itself.

A local that is made from a name and never assigned again stands for that name: after ``local t = turtle``, ``t.dig``
is a use of ``turtle.dig``. ``_G.x`` and ``_ENV.x`` are uses of ``x``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from orchestrator.tools.lua.chains import Chain, How
from orchestrator.tools.lua.lexer import Tokens, dialect_of
from orchestrator.tools.lua.parse import parse
from orchestrator.tools.lua.statements import Parser

ENVIRONMENTS: Final = ("_G", "_ENV")
_MAX_ALIASES: Final = 8
"""A local that stands for a local that stands for …: how far this is followed."""


@dataclass(frozen=True)
class Use:
    """One use of a global name in a text."""

    path: tuple[str, ...]
    """The name and the constant fields behind it: ``("peripheral", "wrap")``."""
    line: int
    """Where the name begins, counted from 1."""
    how: How
    """What is done with the last of the path: it is called (``method``: with a colon), assigned, read, only tested for
    being there (``if http then``), or indexed by a key that is not constant."""
    guarded: bool = False
    """It stands in ``pcall(function() … end)``: it may be there only to see whether it works."""
    of_environment: bool = False
    """It is written as a field of ``_G`` or ``_ENV``, where other programs may have put it."""

    @property
    def name(self) -> str:
        """The path as one writes it."""
        return ".".join(self.path)


def globals_of(source: str | bytes, *, version: tuple[int, ...] | None = None) -> list[Use]:
    """Every use of a global name, in the order of the text; of a text that is not Lua those before its error.

    ``version`` is that of CC: Tweaked; None: the newest. Never raises; the work is linear.
    """
    tokens, parser, _ = parse(source, dialect_of(version))
    return [use for _, use in uses_of(tokens, parser)]


def uses_of(tokens: Tokens, parser: Parser) -> Iterator[tuple[Chain, Use]]:
    """The uses that a parser has met, each with the chain that it was read from."""
    for chain in parser.uses:
        path = path_of(chain)
        if path is not None:
            bare = path
            while len(bare) > 1 and bare[0] in ENVIRONMENTS:
                bare = bare[1:]
            yield chain, Use(bare, tokens.line(chain.start), chain.how, chain.guarded, len(bare) < len(path))


def path_of(chain: Chain) -> tuple[str, ...] | None:
    """The global name and all fields that a chain means; None: it is rooted in a local that stands for no name."""
    fields: list[str] = []
    link = chain
    for _ in range(_MAX_ALIASES):
        fields[:0] = link.fields
        if link.root is None:
            return (link.name, *fields)
        if link.root.alias is None or not link.root.kept:
            return None
        link = link.root.alias
    return None
