"""Which globals a computer has and which fields their tables have: to flag names that do not exist."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from orchestrator.tools.reference.entries import NEWEST, Entry, Module, Version, modules

_TABLES: Final = ("global", "env")
_BASE: Final = "_G"
EMULATED: Final = ("ccemux", "config", "mounter", "periphemu")
"""Globals that emulators add: a program may ask for them, so that they are never called unknown."""
EMULATED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "disk": ("insertDisk",),
    "http": ("addListener", "listen", "removeListener", "websocketServer"),
    "term": (
        *("drawPixels", "getFrozen", "getGraphicsMode", "getPixel", "getPixels", "relativeMouse", "screenshot"),
        *("setFrozen", "setGraphicsMode", "setPixel", "showMouse"),
    ),
}
"""What CraftOS-PC adds to the tables of the mod."""


@dataclass(frozen=True, slots=True)
class NamesHere:
    """The names that a Lua program may use on one kind of computer."""

    globals: Mapping[str, Mapping[str, None] | None]
    """Every global with the fields of its table; None: it is no table, or one whose fields are not all known."""
    elsewhere: Mapping[str, str]
    """Names that are not there, and a clause that fits behind them: where they are (``turtle``: only on turtles; this
    is a basic computer), or for names that no computer has, what to use (``os.exit``: a program ends with return)."""


@lru_cache(maxsize=64)
def names_for(version: Version | None, family: str | None) -> NamesHere:
    """The names on a computer of a version and family. None: not known; then what any of them has is there.

    For a version that is newer than the data the fields of all tables are unknown.
    """
    names: dict[str, Mapping[str, None] | None] = dict.fromkeys(EMULATED)
    elsewhere = {
        name: _clause(entry.text)
        for module in modules()
        if module.kind == "absent"
        for entry in module.entries
        for name in _all_names(entry)
    }
    newer = version is not None and version > NEWEST
    for module in modules():
        if module.kind not in _TABLES:
            continue
        there, missing = _split(module, version, family)
        elsewhere |= missing
        if module.name == _BASE:
            names |= there
            continue
        for name in filter(None, (module.name, module.alias)):
            if why := module.place.missing(version, family):
                elsewhere[name] = why
            else:
                names[name] = None if module.open or newer else there | _emulated(name)
    return NamesHere(names, elsewhere)


def _split(module: Module, version: Version | None, family: str | None) -> tuple[dict[str, None], dict[str, str]]:
    """The fields that are there, and the whole names of those that are not, with the reason."""
    there: dict[str, None] = {}
    missing: dict[str, str] = {}
    for entry in module.entries:
        why = entry.place.missing(version, family)
        for name in _all_names(entry):
            if why:
                missing[name] = why
            else:
                there[name.removeprefix(module.prefix)] = None
    return there, missing


def _emulated(name: str) -> dict[str, None]:
    return dict.fromkeys(EMULATED_FIELDS.get(name, ()))


def _all_names(entry: Entry) -> tuple[str, ...]:
    return (entry.name, *entry.others)


def _clause(sentence: str) -> str:
    """A sentence without its capital and its full stop, to stand in brackets."""
    return sentence[0].lower() + sentence[1:].rstrip(".")
