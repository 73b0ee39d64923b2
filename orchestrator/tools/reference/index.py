"""The search: BM25 over names, added words, signatures and texts; an entry that is called by its name comes first.

The weights are starting values, tuned on the table of questions in tests/tools/reference.
"""

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from orchestrator.tools.reference.entries import Entry, Module, Version, modules
from orchestrator.tools.reference.words import also, asked, letters, name_words, nearest, words_of

# -- The search: BM25 over names, added words, signatures and texts; what is called by its name comes first

K1: Final = 1.6
"""How soon further hits of one word stop to count, as usual in BM25 (1.2 to 2)."""
B: Final = 0.15
"""How much long entries are held back: little, since all are short."""
OTHER_WORD: Final = 0.5
"""The weight of a synonym or a fixed word, where the word itself has 1."""
NOT_HERE: Final = 0.7
"""The share of its score for an entry that this computer lacks: it is still the answer when nothing else fits."""
UNASKED: Final = 0.15
"""The loss of a name when none of its words were asked for: ``dig`` comes before ``digUp`` for "dig"."""
ENOUGH: Final = 0.45
"""The part of a question's weight that an answer must have; below it nothing fits."""
ODD: Final = 6.0
"""The rarity of a word that nothing has, as that of the rarest: it holds the answer's share down."""
EXACT: Final = 1000.0
"""The bonus of a whole name: above every score."""
SAME_WORDS: Final = 60.0
"""The bonus of a name or title with the question's words and no others; some three times a good score."""
WRONG_MODULE: Final = 15.0
"""The bonus of the last part of a name that is in another module."""
MOST_WORDS: Final = 24
MOST_MENDED: Final = 3
MOST_NAMES: Final = 3
"""Misspelt words and names of a question that are looked at; each costs up to a millisecond."""
MOST_QUERY: Final = 400
"""Characters of a question that are looked at."""
FURTHEST: Final = 5
ABSENT: Final = "absent"
"""The kind of names that do not exist: found by their whole name only."""
PROGRAM: Final = "program"
"""The kind of what is typed in the shell: its name alone (``move``, ``label``) asks for functions as well."""
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)+")
_ALONE: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(\s*\))?[?.!\s]*")


def plain(name: str) -> str:
    """A name as it is looked up: ``File:Read`` is ``file.read``."""
    return name.lower().replace(":", ".")


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that fits."""

    entry: Entry
    score: float
    share: float
    """The part of the question's weight that it has, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Index:
    """All entries, by word and by name; numbers are places in ``entries``."""

    entries: list[Entry]
    weights: list[float]
    pieces: list[frozenset[str]]
    """The words of each name's last part."""
    lengths: list[float]
    """The length of each entry in weighted words, beside the average one."""
    postings: dict[str, dict[int, float]]
    """For each word its weighted count in each entry."""
    rarity: dict[str, float]
    vocabulary: list[tuple[str, int]]
    """The words, with their letters."""
    modules: dict[str, Module]
    by_name: dict[str, list[int]]
    by_part: dict[str, list[int]]
    by_words: dict[frozenset[str], list[int]]
    names: list[tuple[str, int]]
    """All plain names that exist, with their letters."""
    siblings: dict[str, list[tuple[str, int]]]
    """The same by the text before the last dot."""

    def find(self, query: str, version: Version | None, family: str | None) -> list[Hit]:
        """The entries that fit, best first. The same question always has the same answer."""
        words = asked(query)[:MOST_WORDS]
        scores, shares = self._scores(words)
        for number, bonus in self._named(query, words).items():
            scores[number] = scores.get(number, 0.0) + bonus
            shares[number] = 1.0
        meant = frozenset(words).union(*map(also, words))
        hits = []
        for number, score in scores.items():
            entry = self.entries[number]
            share, pieces = shares[number], self.pieces[number]
            called = 1 - UNASKED + UNASKED * len(pieces & meant) / len(pieces)
            here = NOT_HERE if entry.place.missing(version, family) else 1.0
            worth = self.weights[number] * called * here
            hits.append(Hit(entry, score * worth, share))
        hits.sort(key=lambda hit: (-hit.score, hit.entry.name))
        return hits

    def near(self, query: str) -> list[str]:
        """Names that look like the names in a question, nearest first."""
        names = _names(query) or [word for word in query.lower().split() if len(word) > 3]
        found = dict.fromkeys(near for name in names[:MOST_NAMES] for _, near in self._nearest(name))
        return [self.entries[self.by_name[name][0]].name for name in found]

    def _scores(self, words: list[str]) -> tuple[dict[int, float], dict[int, float]]:
        """For each entry its score, and the part of the words' weight that it has."""
        scores: dict[int, float] = defaultdict(float)
        shares: dict[int, float] = defaultdict(float)
        whole = 0.0
        unknown = [word for word in words if word not in self.postings and len(word) > 3][:MOST_MENDED]
        for word in words:
            ways = {word: 1.0} | dict.fromkeys(also(word), OTHER_WORD)
            if word in unknown:
                ways |= dict.fromkeys(self._mended(word), OTHER_WORD)
            rarity = self.rarity.get(word) or max((self.rarity.get(way, 0.0) for way in ways), default=0.0) or ODD
            whole += rarity
            for number, score in self._best(ways).items():
                scores[number] += score
                shares[number] += rarity
        return scores, {number: share / whole for number, share in shares.items()}

    def _best(self, ways: dict[str, float]) -> dict[int, float]:
        """For each entry the best score of a word and of what else it may be called."""
        best: dict[int, float] = {}
        for way, worth in ways.items():
            rarity = self.rarity.get(way, 0.0)
            for number, count in self.postings.get(way, {}).items():
                held = K1 * (1 - B + B * self.lengths[number])
                score = worth * rarity * count * (K1 + 1) / (count + held)
                best[number] = max(best.get(number, 0.0), score)
        return best

    def _mended(self, word: str) -> list[str]:
        found = nearest(word, self.vocabulary, 1 if len(word) < 6 else 2)
        return [other for distance, other in found if distance == found[0][0]][:FURTHEST]

    def _named(self, query: str, words: list[str]) -> dict[int, float]:
        """The entries called by name: whole names above all, then last parts, then the same words in any order."""
        bonus: dict[int, float] = {}
        alone = _ALONE.fullmatch(query)
        if alone:
            exact = self.by_name.get(plain(alone[1]), ())
            bonus |= {number: EXACT for number in exact if self.entries[number].kind != PROGRAM}
        for name in _names(query)[:MOST_NAMES]:
            for number in self.by_part.get(name.rpartition(".")[2], ()):
                bonus.setdefault(number, WRONG_MODULE)
            if name not in self.by_name:
                for distance, near in self._nearest(name):
                    bonus |= dict.fromkeys(self.by_name[near], SAME_WORDS / (1 + distance))
            bonus |= dict.fromkeys(self.by_name.get(name, ()), EXACT)
        for number in self.by_words.get(frozenset(words), ()):
            bonus[number] = bonus.get(number, 0.0) + SAME_WORDS
        return bonus

    def _nearest(self, name: str) -> list[tuple[int, str]]:
        """Names within a few letters: in its module when there is one of that name, else anywhere."""
        siblings = self.siblings.get(name.rpartition(".")[0])
        return nearest(name, siblings or self.names, 3 if siblings else 2)[:FURTHEST]


def _names(query: str) -> list[str]:
    return [plain(name) for name in _DOTTED.findall(query)]


# -- The index, built from the entries when it is first asked and then kept --------------

IN_NAME: Final = 5.0
IN_WORDS: Final = 3.0
IN_TEXT: Final = 1.0
IN_MODULE: Final = 0.8
EVENT: Final = "event"
GROUPS: Final = (EVENT, "setting", PROGRAM, "guide", ABSENT)
"""Kinds of modules that are not a table of Lua."""
ELSEWHERE: Final = {
    "term": ("monitor", "window"),
    "handle": ("file",),
    "inventory": ("chest",),
    "websocket": ("ws",),
}
"""Other names under which people ask for the entries of a module."""
OTHER_MODULES: Final = {"inventory": ("chest", "barrel"), "fluid_storage": ("tank",), "drive": ("disk_drive",)}
"""Under which names people also ask for all of a module."""
TERM_ONLY: Final = ("redirect", "current", "native", "nativePaletteColor")
"""Names of term that monitors and windows do not have."""
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
        names = _index_build_names(entry, module)
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


def _index_build_names(entry: Entry, module: Module) -> list[str]:
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
