"""Words of questions and of entries: how they are cut, which are the same, and which are nearly so."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from orchestrator.tools.reference.entries import NEWEST, Entry, Module, Version, modules

# -- Which globals a computer has and which fields their tables have: to flag names that do not exist

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
    """Every global with the fields of its table; None: it is not a table, or one whose fields are not all known."""
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
    """A sentence without its capital and its full stop, to be in brackets."""
    return sentence[0].lower() + sentence[1:].rstrip(".")


# -- Words of questions and of entries: how they are cut, which are the same, and which are nearly so

_WORD: Final = re.compile(r"[A-Za-z0-9_]+")
_PIECE: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_VOWELS: Final = "aeiouy"
_SILENT: Final = (
    "a about an and any api are as at be by can cc code computercraft could do does doing for from get give have help "
    "how i if in into is it its let lua make me my need not of one only or over please program programs script should "
    "some something that the their them then there this to tweaked two use using want way we what when where which who "
    "why will with would you your"
)
SILENT: Final = frozenset(_SILENT.split())
"""Words of a question that say nothing about the answer; they count only in names and in added words."""
FAINT: Final = frozenset(("all", "down", "off", "on", "out", "up"))
"""Words that say something in a name (``turtle.up``) and little in a sentence."""
_SAME: Final[dict[str, tuple[str, ...]]] = {
    "barrel": ("inventory", "chest"),
    "button": ("click",),
    "delay": ("sleep", "wait"),
    "destroy": ("dig", "break"),
    "directory": ("folder",),
    "display": ("screen", "monitor", "show"),
    "erase": ("delete", "clear"),
    "exception": ("error",),
    "fetch": ("get", "download"),
    "goto": ("move",),
    "gui": ("window", "button"),
    "input": ("read",),
    "keyboard": ("key",),
    "load": ("read",),
    "mine": ("dig",),
    "network": ("rednet", "modem"),
    "output": ("print", "write"),
    "pause": ("sleep", "wait"),
    "picture": ("image",),
    "position": ("gps", "location"),
    "quit": ("exit",),
    "remove": ("delete",),
    "robot": ("turtle",),
    "rotate": ("turn",),
    "save": ("write",),
    "screen": ("terminal", "term"),
    "second": ("sleep", "timer"),
    "show": ("print", "write"),
    "signal": ("redstone",),
    "song": ("audio", "music"),
    "storage": ("inventory", "chest"),
    "store": ("save",),
    "thread": ("parallel", "coroutine"),
    "wait": ("sleep",),
    "wireless": ("rednet", "modem"),
}
"""Other words for a word of a question; they count half. The entries have words of their own, too."""
_BRITISH: Final = (("colour", "color"), ("grey", "gray"), ("armour", "armor"))


def words_of(text: str) -> list[str]:
    """The words of a sentence, stemmed, without those that say nothing."""
    return [stem(word) for word in map(str.lower, _WORD.findall(text)) if word not in SILENT and word not in FAINT]


def asked(text: str) -> list[str]:
    """The words of a question, each once, names cut at their capitals; all of them if none says anything."""
    found: dict[str, None] = {}
    for word in _WORD.findall(text):
        for part in _parts(word):
            if part not in SILENT and not part.isdigit():
                found[stem(part)] = None
    return list(found) or list({stem(word.lower()): None for word in _WORD.findall(text)})


def name_words(name: str) -> list[str]:
    """The pieces of a name: ``turtle.getItemDetail`` has turtle, get, item, detail and getitemdetail."""
    return [stem(part) for word in _WORD.findall(name) for part in _parts(word)]


def _parts(word: str) -> list[str]:
    pieces = [piece.lower() for piece in _PIECE.findall(word)]
    return pieces if len(pieces) <= 1 else [*pieces, word.lower()]


def also(word: str) -> tuple[str, ...]:
    """Other words for a stemmed one."""
    return _SAME.get(word, ())


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """A lower-case word without its plural, -ing, -ed and British spelling: ``digging`` is ``dig``."""
    for british, american in _BRITISH:
        word = word.replace(british, american)
    if len(word) > 5 and word.endswith("ise"):
        word = word[:-3] + "ize"
    word = _singular(word)
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base != word and len(base) > 2 and any(letter in _VOWELS for letter in base) and not base.endswith("e"):
            return _infinitive(base)
    return word


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "os")):
        return word[:-1]
    return word


def _infinitive(base: str) -> str:
    """``dig`` of ``digg``, ``move`` of ``mov``, ``send`` of ``send``."""
    if base[-1] == base[-2] and base[-1] not in "lsz":
        return base[:-1]
    one_vowel = sum(letter in _VOWELS for letter in base) == 1
    if one_vowel and base[-1] not in _VOWELS + "wx" and base[-2] in _VOWELS:
        return base + "e"
    return base


def letters(word: str) -> int:
    """Which letters a word has, as bits: two words that differ in many are not worth comparing."""
    bits = 0
    for letter in word:
        bits |= 1 << (ord(letter) & 31)
    return bits


def nearest(word: str, known: Iterable[tuple[str, int]], most: int) -> list[tuple[int, str]]:
    """The known words within ``most`` edits of a word, nearest first; ``known`` brings each with its letters."""
    mask = letters(word)
    found = []
    for other, bits in known:
        if abs(len(other) - len(word)) <= most and (bits ^ mask).bit_count() <= 2 * most:
            distance = edits(word, other, most)
            if distance <= most:
                found.append((distance, other))
    return sorted(found)


def edits(one: str, other: str, most: int) -> int:
    """How many letters must be changed, added, dropped or swapped with the next one; at most ``most`` + 1."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, match in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != match))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == match:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)
