"""The index, built from the entries when it is first asked and then kept."""

import math
import re
from collections import defaultdict
from functools import lru_cache
from typing import Final

from orchestrator.tools.reference.entries import Entry, Module, modules
from orchestrator.tools.reference.index import ABSENT, PROGRAM, Index, plain
from orchestrator.tools.reference.words import asked, letters, name_words, words_of

IN_NAME: Final = 5.0
IN_WORDS: Final = 3.0
IN_TEXT: Final = 1.0
IN_MODULE: Final = 0.8
EVENT: Final = "event"
GROUPS: Final = (EVENT, "setting", PROGRAM, "guide", ABSENT)
"""Kinds of modules that are no table of Lua."""
ELSEWHERE: Final = {
    "term": ("monitor", "window"),
    "handle": ("file",),
    "inventory": ("chest",),
    "websocket": ("ws",),
}
"""Under which names people also ask for the entries of a module."""
OTHER_MODULES: Final = {"inventory": ("chest", "barrel"), "fluid_storage": ("tank",), "drive": ("disk_drive",)}
"""Under which names people also ask for all of a module."""
TERM_ONLY: Final = ("redirect", "current", "native", "nativePaletteColor")
"""What monitors and windows do not share with term."""
_SEPARATOR: Final = re.compile("[.:]")


@lru_cache(maxsize=1)
def index() -> Index:
    """The index of all entries."""
    both = [(entry, module) for module in modules() for entry in module.entries]
    counts = [_counts(entry, module) for entry, module in both]
    total = len(both)
    lengths = [sum(count.values()) for count in counts]
    average = sum(lengths) / sum(length > 0 for length in lengths)
    postings: dict[str, dict[int, float]] = defaultdict(dict)
    for number, count in enumerate(counts):
        for word, weight in count.items():
            postings[word][number] = weight
    by_name: dict[str, list[int]] = defaultdict(list)
    by_part: dict[str, list[int]] = defaultdict(list)
    by_words: dict[frozenset[str], list[int]] = defaultdict(list)
    for number, (entry, module) in enumerate(both):
        names = _names(entry, module)
        for name in (*names, *_elsewhere(entry, module)):
            by_name[plain(name)].append(number)
        for name in names if module.kind not in (ABSENT, PROGRAM) else ():
            by_part[_last(name).lower()].append(number)
            by_words[frozenset(asked(name))].append(number)
        if module.kind == EVENT:
            by_words[frozenset(asked(f"{entry.name} {EVENT}"))].append(number)
    exist = [(name, letters(name)) for name, own in by_name.items() if both[own[0]][0].kind != ABSENT]
    return Index(
        entries=[entry for entry, _ in both],
        weights=[module.weight for _, module in both],
        pieces=[frozenset(name_words(_last(entry.name))) for entry, _ in both],
        lengths=[length / average for length in lengths],
        postings=dict(postings),
        rarity={word: math.log(1 + (total - len(own) + 0.5) / (len(own) + 0.5)) for word, own in postings.items()},
        vocabulary=[(word, letters(word)) for word in postings if len(word) > 2],
        modules=_modules_by_name(),
        by_name=dict(by_name),
        by_part=dict(by_part),
        by_words=dict(by_words),
        names=exist,
        siblings=_by_module(exist),
    )


def _counts(entry: Entry, module: Module) -> dict[str, float]:
    """The words of an entry, each with the weight of the places where it stands; none of what does not exist."""
    counts: dict[str, float] = defaultdict(float)
    if module.kind == ABSENT:
        return counts
    for word in set(name_words(entry.name)):
        counts[word] += IN_NAME
    for other in entry.others:
        for word in set(name_words(other)):
            counts[word] = max(counts[word], IN_NAME)
    for words, weight in (
        (set(asked(entry.words)) if entry.words else (), IN_WORDS),
        (words_of(entry.text), IN_TEXT),
        (set(words_of(module.words)), IN_MODULE),
    ):
        for word in words:
            counts[word] += weight
    return counts


def _names(entry: Entry, module: Module) -> list[str]:
    names = [entry.name, *entry.others]
    if module.alias:
        names += [module.alias + name.removeprefix(module.name) for name in names]
    return names


def _elsewhere(entry: Entry, module: Module) -> list[str]:
    field = entry.name.removeprefix(module.prefix)
    if module.name == "term" and field in TERM_ONLY:
        return []
    fields = (field, *(other.removeprefix(module.prefix) for other in entry.others))
    return [f"{name}.{one}" for name in ELSEWHERE.get(module.name, ()) for one in fields]


def _last(name: str) -> str:
    return _SEPARATOR.split(name)[-1]


def _modules_by_name() -> dict[str, Module]:
    """Modules under their names and aliases in lower case; a table before a peripheral of the same name."""
    found: dict[str, Module] = {}
    for module in modules():
        if module.kind not in GROUPS:
            others = OTHER_MODULES.get(module.name, ())
            for name in filter(None, (module.name, module.alias, *others)):
                found.setdefault(name.lower(), module)
    return found


def _by_module(names: list[tuple[str, int]]) -> dict[str, list[tuple[str, int]]]:
    siblings: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, bits in names:
        before = name.rpartition(".")[0]
        if before:
            siblings[before].append((name, bits))
    return dict(siblings)
