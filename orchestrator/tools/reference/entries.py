"""The content of the data files: modules and their entries, as plain values.

The files are trusted once tests have validated them; reading them again at run time would only
cost the start.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

Version = tuple[int, int, int]
"""A version of CC: Tweaked, as (1, 109, 2)."""

NEWEST: Final[Version] = (1, 120, 2)
"""The newest version that the data knows; additions of later versions are not known here."""
FAMILIES: Final = ("computer", "advanced", "turtle", "pocket", "command")
"""The words of a computer's hello (core/messages.py); turtles and pocket computers do not say if they are advanced."""
DATA: Final = Path(__file__).parent / "data"
_VERSION: Final = re.compile(r"(?<![\w.])(\d+)\.(\d+)(?:\.(\d+))?")
_OUR_HOST: Final = "ComputerCraft"
_LONGEST_HOST: Final = 256


def version_of(host: str | None) -> Version | None:
    """The version in a host text as ``ComputerCraft 1.109.2 (Minecraft 1.20.1)``; None: it does not say.

    ``1.80pr1.13`` counts as 1.80.0: a pre-release distinguishes nothing later.
    """
    _, found, after = (host or "")[:_LONGEST_HOST].partition(_OUR_HOST)
    number = _VERSION.match(after.lstrip()) if found else None
    if number is None:
        return None
    return int(number[1]), int(number[2]), int(number[3] or 0)


def spoken(version: Version) -> str:
    """A version as people write it."""
    return ".".join(map(str, version))


@dataclass(frozen=True, slots=True)
class Place:
    """Where something exists."""

    since: Version | None = None
    """The first version that has it; None: all that matter (websockets came with 1.80, no client is older)."""
    until: Version | None = None
    """The first version without it; None: it is still there."""
    families: tuple[str, ...] = ()
    """The families that have it; empty: all."""
    advanced: bool = False
    """Whether only advanced (golden) computers have it."""

    def missing(self, version: Version | None, family: str | None) -> str:
        """Why it is not on such a computer, as the end of a sentence; empty: it is there, or that is not known."""
        if self.families and family is not None and family not in self.families:
            return f"only on {_kinds(self.families)}; this is {KINDS.get(family, 'another computer')}"
        if self.advanced and family == "computer":
            return "only on advanced computers; this is a basic computer"
        if version is not None and self.since is not None and version < self.since:
            return f"only from version {spoken(self.since)} on; this computer has {spoken(version)}"
        if version is not None and self.until is not None and version >= self.until:
            return f"only before version {spoken(self.until)}; this computer has {spoken(version)}"
        return ""

    def told(self, version: Version | None, family: str | None) -> str:
        """The condition for a computer of which not all is known: ``only on turtles, since 1.116.0``."""
        parts = []
        if self.families and family is None:
            parts.append(f"only on {_kinds(self.families)}")
        if self.advanced and family not in _GOLDEN:
            parts.append("only on advanced ones")
        if self.since is not None and version is None:
            parts.append(f"since {spoken(self.since)}")
        if self.until is not None and version is None:
            parts.append(f"before {spoken(self.until)}")
        return ", ".join(parts)


KINDS: Final[Mapping[str, str]] = {
    "computer": "a basic computer",
    "advanced": "an advanced computer",
    "turtle": "a turtle",
    "pocket": "a pocket computer",
    "command": "a command computer",
}
_GOLDEN: Final = ("advanced", "command")
_PLURALS: Final[Mapping[str, str]] = {
    "computer": "basic computers",
    "advanced": "advanced computers",
    "turtle": "turtles",
    "pocket": "pocket computers",
    "command": "command computers",
}


def _kinds(families: tuple[str, ...]) -> str:
    return " and ".join(_PLURALS[family] for family in families)


@dataclass(frozen=True, slots=True)
class Entry:
    """One function, event, setting, program or guide."""

    name: str
    """Its whole name, as a program writes it: ``turtle.dig``, ``monitor.setTextScale``; of a guide the title."""
    kind: str
    """function, method, event, value, constants, setting, program, guide or absent (a name that does not exist)."""
    module: str
    signature: str
    returns: str
    text: str
    words: str
    """Further words under which people look for it."""
    place: Place
    others: tuple[str, ...]
    """Other whole names of the same thing: British spellings, the other constants of a group."""
    example: tuple[str, ...]
    """Lines of Lua."""
    see: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """A table of Lua, the methods of a handle or a peripheral, or a group such as the events."""

    name: str
    kind: str
    """global, env (programs of the shell only), require, handle, peripheral, event, setting, program, guide, absent."""
    text: str
    words: str
    prefix: str
    """The text before a field in the names of its entries; empty for globals, events and groups."""
    alias: str
    """A second global for the same table (rs); empty: none."""
    open: bool
    """Whether it has fields that no list can name."""
    weight: float
    """Below 1: its entries are behind others that fit as well."""
    place: Place
    entries: tuple[Entry, ...]


@lru_cache(maxsize=1)
def modules() -> tuple[Module, ...]:
    """All modules, in the order of the files' names."""
    files = (json.loads(path.read_text("utf-8")) for path in sorted(DATA.glob("*.json")))
    return tuple(_module(raw) for file in files for raw in file["modules"])


def _module(raw: Mapping[str, Any]) -> Module:
    place = _place(raw, Place())
    return Module(
        name=raw["name"],
        kind=raw["kind"],
        text=raw["text"],
        words=raw.get("words", ""),
        prefix=raw["prefix"],
        alias=raw.get("alias", ""),
        open=raw.get("open", False),
        weight=raw.get("weight", 1.0),
        place=place,
        entries=tuple(_entry(one, raw, place) for one in raw["entries"]),
    )


def _entry(raw: Mapping[str, Any], module: Mapping[str, Any], place: Place) -> Entry:
    return Entry(
        name=raw["name"],
        kind=raw["kind"],
        module=module["name"],
        signature=raw["signature"],
        returns=raw.get("returns", ""),
        text=raw["text"],
        words=raw.get("words", ""),
        place=_place(raw, place),
        others=tuple(module["prefix"] + other for other in raw.get("aliases", ())),
        example=tuple(raw.get("example", ())),
        see=tuple(raw.get("see", ())),
    )


def _place(raw: Mapping[str, Any], around: Place) -> Place:
    """Where an entry exists: what it says, else what its module says."""
    if not raw.keys() & {"since", "until", "families", "advanced"}:
        return around
    return Place(
        since=_number(raw["since"]) if "since" in raw else around.since,
        until=_number(raw["until"]) if "until" in raw else around.until,
        families=tuple(raw.get("families", around.families)),
        advanced=raw.get("advanced", around.advanced),
    )


def _number(text: str) -> Version:
    major, minor, patch = text.split(".")
    return int(major), int(minor), int(patch)
