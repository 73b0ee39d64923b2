"""Which names of a Lua text do not exist on the computer that will run it.

A false alarm costs a model more than a miss: whatever the text assigns, tests for being there, or may have got from
code that is not seen (``load``, ``dofile``, ``os.loadAPI``, a changed environment) is not flagged, and what is in
``pcall(function() … end)`` only if a name spelt alike exists. What is written as ``_G.name`` may have been put there by
another program.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from orchestrator.tools.lua.lexer import Tokens, dialect_of
from orchestrator.tools.lua.parse import parse
from orchestrator.tools.lua.scopes import Chain, How
from orchestrator.tools.lua.statements import Parser

# -- Which names a Lua text takes from outside of itself ---------------------------------
#
# A local that is made from a name and never assigned again stands for that name: after ``local t = turtle``,
# ``t.dig`` is a use of ``turtle.dig``. ``_G.x`` and ``_ENV.x`` are uses of ``x``.

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
    """It is in ``pcall(function() … end)``: it may be there only to see whether it works."""
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


# -- Which known name was probably meant -------------------------------------------------


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that differs in upper case only, or by the fewest typing errors; None: none is near.

    Near is one error in a word of three or four letters, two in a longer one; an exchange of two neighbours is one
    error. Of several equally near the first in the alphabet.
    """
    allowed = min((len(word) - 1) // 2, 2)
    best: tuple[int, str] | None = None
    for other in sorted(known):
        if abs(len(other) - len(word)) > allowed or other == word:
            continue
        errors = 0 if other.lower() == word.lower() else distance(word, other)
        if errors <= allowed and (best is None or errors < best[0]):
            best = (errors, other)
    return best[1] if best else None


def distance(one: str, other: str) -> int:
    """How many letters to add, drop, replace or exchange with the next one lead from one word to the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, its in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != its))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == its:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


# -- Which names of a Lua text do not exist on the computer that will run it -------------

Fields = Mapping[str, "Fields | None"]
"""The fields of a table, each with its own; None: it is not a table, or one whose fields are not known."""

MAX_FLAGS: Final = 20
_SHOWN: Final = 60
_MAX_WORD: Final = 40
_LOADERS: Final = frozenset(
    {("load",), ("loadstring",), ("loadfile",), ("dofile",), ("setfenv",), ("getfenv",), ("os", "loadAPI")}
)
_FOREIGN: Final = {
    **dict.fromkeys(("null", "None", "undefined", "NULL", "nullptr", "Nil"), "Lua's word is nil"),
    "True": "Lua's word is true",
    "TRUE": "Lua's word is true",
    "False": "Lua's word is false",
    "FALSE": "Lua's word is false",
    "len": "the length of x is #x",
    "str": "Lua's word is tostring",
    "int": "use math.floor or tonumber",
    "float": "use tonumber",
    "range": "write for i = 1, 10 do",
    "console": "use print",
    "printf": "use print(string.format(…))",
    "this": "Lua's word is self",
    "exit": "use return, or error()",
    "quit": "use return, or error()",
    "try": "use pcall",
    "input": "use read",
    "wait": "use sleep",
    "JSON": "use textutils.serialiseJSON and textutils.unserialiseJSON",
    "json": "use textutils.serialiseJSON and textutils.unserialiseJSON",
}


class Known(Protocol):
    """The names that exist on one computer, by its version and family."""

    @property
    def globals(self) -> Fields:
        """Every global name with its fields: ``{"print": None, "turtle": {"dig": None, …}}``."""

    @property
    def elsewhere(self) -> Mapping[str, str]:
        """For names that do not exist here the words that say why: ``{"turtle": "only turtles have it"}``.

        Keys are whole names (``fs.find``); what is said of a table holds for its fields.
        """


@dataclass(frozen=True)
class Names:
    """:class:`Known` as plain data."""

    globals: Fields
    elsewhere: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Flag:
    """A name that does not exist."""

    line: int
    """The line of its first use, counted from 1."""
    name: str
    """As far as it does not exist: ``turtle.digg``, or ``turtle`` where there is none."""
    hint: str = ""
    """Why, or what was meant; empty: nothing is known."""

    @property
    def sentence(self) -> str:
        """One text for a model or a person: ``line 12: turtle.digg does not exist (did you mean turtle.dig?).``."""
        name = self.name if len(self.name) <= _SHOWN else f"{self.name[:_SHOWN]}…"
        return f"line {self.line}: {name} does not exist{f' ({self.hint})' if self.hint else ''}."

    def __str__(self) -> str:
        return self.sentence


def unknown_names(source: str | bytes, known: Known, *, version: tuple[int, ...] | None = None) -> list[Flag]:
    """The names that a text uses and that do not exist, each once, by line; at most 20.

    Empty for a text that is not Lua (:func:`check_lua` says why), and for one that runs code from elsewhere in its own
    environment. ``version`` is that of CC: Tweaked and decides the dialect only. Never raises.
    """
    tokens, parser, refused = parse(source, dialect_of(version))
    if refused is not None:
        return []
    found = list(uses_of(tokens, parser))
    assigned = {use.path for _, use in found if use.how == "assign"}
    if any(_opens_environment(use, chain.start, assigned, tokens, parser) for chain, use in found):
        return []
    if "_ENV" in parser.scopes.declared:
        return []
    return list(_flags([use for _, use in found], assigned, known, tokens, parser))


def _opens_environment(use: Use, start: int, assigned: set[tuple[str, ...]], tokens: Tokens, parser: Parser) -> bool:
    """Whether after this use any name may exist."""
    if use.path in _LOADERS:
        return use.how != "test" and use.path not in assigned
    if use.path == ("require",) and start in parser.call_statements:
        return True
    if use.path[0] not in ENVIRONMENTS:
        return False
    if use.how == "index" or use.path[0] == "_ENV":
        return True
    return start > 1 and tokens.texts[start - 2] in ("setmetatable", "rawset")


def _flags(
    uses: list[Use], assigned: set[tuple[str, ...]], known: Known, tokens: Tokens, parser: Parser
) -> Iterator[Flag]:
    tested = {use.path for use in uses if use.how == "test"} | {use.path[:1] for use in uses if use.of_environment}
    seen: set[tuple[str, ...]] = set()
    for use in uses:
        path = _missing(use.path, known.globals, assigned)
        if path is None or path in tested or path in seen or (use.guarded and not _is_misspelt(path, known)):
            continue
        seen.add(path)
        yield Flag(use.line, ".".join(path), _hint(path, known, tokens, parser))
        if len(seen) == MAX_FLAGS:
            return


def _missing(path: tuple[str, ...], known: Fields, assigned: set[tuple[str, ...]]) -> tuple[str, ...] | None:
    """As much of a path as it takes to leave what exists; None: it exists, or may exist."""
    fields = known
    for depth, name in enumerate(path, 1):
        here = path[:depth]
        if here in assigned or (depth == 1 and name in ENVIRONMENTS):
            return None
        if name not in fields:
            return here
        inner = fields[name]
        if inner is None:
            return None
        fields = inner
    return None


def _is_misspelt(path: tuple[str, ...], known: Known) -> bool:
    """Whether a name exists nowhere, but one spelt alike does."""
    return ".".join(path) not in known.elsewhere and nearest(path[-1], _siblings(path, known.globals)) is not None


def _siblings(path: tuple[str, ...], known: Fields) -> Fields:
    for parent in path[:-1]:
        known = known[parent] or {}
    return known


def _hint(path: tuple[str, ...], known: Known, tokens: Tokens, parser: Parser) -> str:
    said = next((words for end in range(len(path), 0, -1) if (words := known.elsewhere.get(".".join(path[:end])))), "")
    if said:
        return said
    name = path[-1]
    if len(path) == 1 and (token := parser.scopes.declared.get(name)) is not None:
        return f"the local of this name on line {tokens.line(token)} is not visible here"
    if len(path) == 1 and name in _FOREIGN:
        return _FOREIGN[name]
    meant = _meant(path, known.globals)
    return f"did you mean {meant}?" if meant else ""


def _meant(path: tuple[str, ...], known: Fields) -> str:
    """The name that was probably meant: spelt alike in the same table, or the same in another one."""
    *parents, name = path
    if len(name) > _MAX_WORD:
        return ""
    if near := nearest(name, _siblings(path, known)):
        return ".".join((*parents, near))
    if parents and name in known:
        return name
    owners = [table for table, inner in sorted(known.items()) if inner is not None and name in inner]
    return f"{owners[0]}.{name}" if len(owners) == 1 else ""
