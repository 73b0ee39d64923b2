"""Pairs of verb and file in a sentence, read word by word."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from orchestrator.core.evidence.words import (
    CHANGES,
    MODAL,
    NEGATION,
    RELATIVE,
    Deed,
    Token,
    is_goal,
    is_source,
    remembered,
    tokens,
)

_CONNECTIVE: Final = re.compile(
    r"and|then|so|but|or|und|un|dann|danach|anschliessend|zuerst|aber|aba|oder|sondern"
    r"|et|puis|ensuite|mais|ou|y|e|luego|despues|pero|o"
    r"|because|since|weil|denn|parce|car|puisque|porque"
)
_FILLERS: Final = frozenset({"also", "please", "now", "first", "finally", "bitte", "por", "favor"})
"""Words that may be anywhere, and before the verb that begins a clause."""
_EXCEPT: Final = re.compile(r"except|but|besides|instead|ausser|statt|sauf|excepte|excepto|salvo|menos")
_GERMAN_RELATIVE: Final = frozenset({"der", "die", "das", "den", "dem", "deren", "dessen"})
_AUXILIARIES: Final = frozenset(
    {
        "is",
        "are",
        "was",
        "were",
        "been",
        "ist",
        "sind",
        "wurde",
        "wurden",
        "est",
        "sont",
        "ete",
        "été",
        "esta",
        "estan",
        "sido",
        "fue",
    }
)
_GERMAN_LAST: Final = re.compile(r"(?:startet|lädt|öffnet|nutzt|verwendet|liest|schreibt|löscht|zeigt|ruft|führt)")
"""Verbs that are behind their object at the end of a clause."""
_GERMAN_SECOND: Final = frozenset({"ist", "sind", "wurde", "wurden"})
_THERE: Final = frozenset({"there", "dort", "darin", "dedans", "alli", "ahi"})
_PRONOUNS: Final = frozenset(
    {
        "it",
        "them",
        "es",
        "ihn",
        "from",
        "on",
        "in",
        "of",
        "von",
        "auf",
        "aus",
        "de",
        "du",
        "des",
        "sur",
        "en",
        "dans",
        "del",
    }
)
"""Words behind a verb that has no other object than a pronoun."""
_ARTICLES: Final = frozenset({"sie", "die", "le", "la", "les", "lo", "los", "las"})
"""Words that are pronouns where nothing follows them."""
_SMALL: Final = frozenset(
    {
        "to",
        "it",
        "them",
        "once",
        "le",
        "la",
        "les",
        "lo",
        "los",
        "las",
        "l",
        "d",
        "de",
        "me",
        "moi",
        "mir",
        "uns",
        "es",
        "zu",
        "danach",
    }
)
"""Words that may be before the verb that begins a clause."""
_LATE_NEGATION: Final = frozenset(
    {"nicht", "nich", "nie", "niemals", "nichts", "nothing", "pas", "jamais", "rien", "nada"}
)
"""Negations that are behind their verb."""


class Said(NamedTuple):
    """A verb, and the files that it is said of."""

    deed: Deed
    files: tuple[tuple[str, str], ...] = ()
    """(file, how it is joined): ``""`` the object itself, ``of`` and ``source`` and ``goal`` behind such a word."""
    before: tuple[str, ...] = ()
    """All files that the sentence names before the verb."""
    goals: tuple[str, ...] = ()
    """The files that are behind a word such as "to"."""
    is_open: bool = False
    """Whether the verb begins its clause, as an order does."""
    negated: bool = False
    modal: bool = False
    """The verb says only that it may, should or will be so."""
    there: bool = False
    """Whether it is done "there": in the file that was named last."""
    is_last: bool = False
    """Whether it ends its clause, as in "a.lua anlegen"."""
    bare: bool = False
    """Whether its object is a pronoun, or it has none: "delete it"."""


@remembered
def said_in(sentence: str, verb: Callable[[str], Deed | None]) -> tuple[Said, ...]:
    """What a sentence says of which files; ``verb`` tells which words are verbs."""
    clause = _Clause(verb)
    found = [said for token in tokens(sentence) for said in clause.take(token)]
    spared = (Said(Deed.CHANGE, ((name, ""),), negated=True) for name in clause.spared)
    return (*found, *clause.last(), *spared)


@dataclass
class _Clause:
    verb: Callable[[str], Deed | None]
    deed: Deed | None = None
    """The verb that is read now, with its files in ``found``."""
    found: list[tuple[str, str]] = field(default_factory=list)
    is_open: bool = False
    denied: bool = False
    """Whether that verb was negated, as ``supposed`` tells whether it was modal."""
    supposed: bool = False
    ended: bool = False
    """Whether its clause is over: a negation that comes now denies something else."""
    before: list[str] = field(default_factory=list)
    """All files before it."""
    goals: set[str] = field(default_factory=set)
    """Those of them that are behind a word such as "to"."""
    joined: str = ""
    """How the next file is joined."""
    relative: bool = False
    begins: bool = True
    """Whether the next verb begins a clause."""
    after_mark: bool = False
    negated: bool = False
    modal: bool = False
    there: bool = False
    goes_on: bool = False
    """Whether anything follows the verb in its clause."""
    passive: bool = False
    """Whether an auxiliary stood since the last comma or "and": a participle that comes has its subject before it."""
    words: list[str] = field(default_factory=list)
    """The words behind the verb in its clause."""
    since: int = 0
    """Files of the verb that were named since the last comma or "and"."""
    closed: bool = False
    """Whether a comma closed the clause of a verb that is behind its files."""
    list_of: str = ""
    """How the file before a comma or an "and" was joined, which goes for the next one too."""
    ends_with_file: bool = False
    """Whether the last token was a file."""
    spared: list[str] = field(default_factory=list)
    """Files of which a verb is denied that is not known here: "but not b.lua"."""

    def last(self) -> Iterator[Said]:
        """What the last verb says."""
        if self._is_of_next():
            # "c.txt is deleted, d.txt says hi": the second part says nothing of the first file.
            self.found = []
        yield from self.said()

    def _is_of_next(self) -> bool:
        """Whether all files of the verb came behind a comma or an "and", and its own was before it."""
        return bool(self.since and len(self.found) == self.since and self.before)

    def said(self) -> Iterator[Said]:
        """What the verb so far says, once the next one comes or the sentence ends."""
        if self.deed is not None:
            named = tuple(self.found), tuple(self.before), tuple(one for one in self.before if one in self.goals)
            bare = not self.words or self.words[0] in _PRONOUNS or (len(self.words) == 1 and self.words[0] in _ARTICLES)
            last = not self.goes_on
            yield Said(self.deed, *named, self.is_open, self.denied, self.supposed, self.there, last, bare)
        self.before += [name for name, _ in self.found]
        self.found = []

    def take(self, token: Token) -> Iterator[Said]:
        """One more token."""
        if token.is_file:
            self._file(token.text)
        elif token.is_mark:
            if self.closed and self._is_of_next():
                self.found = []
            # "Move a.lua there, and a program b.lua" in the German order: the next words have another verb.
            self.closed |= self.deed in CHANGES and not self.goes_on and token.text == ","
            self._break()
            self.after_mark = True
            return
        elif RELATIVE.fullmatch(token.text) or (self.after_mark and token.text in _GERMAN_RELATIVE):
            yield from self._now(Deed.OTHER)
            self.relative = True
        elif (deed := self.verb(token.text)) is not None:
            if (
                deed is Deed.OTHER
                and self.ends_with_file
                and len(self.found) > 1
                and _GERMAN_LAST.fullmatch(token.text)
            ):
                # "Leg startup.lua an, die menu.lua startet"
                self.found.pop()
            yield from self._verb(deed)
        elif _EXCEPT.fullmatch(token.text) and self.deed is not None and not self.begins:
            yield from self._now(Deed.OTHER)
            self.begins = True
        elif _CONNECTIVE.fullmatch(token.text):
            self._break()
        elif token.text in _FILLERS:
            self.begins, self.joined = True, ""
        else:
            self._word(token.text)
        self.after_mark = False
        self.ends_with_file = token.is_file

    def _file(self, name: str) -> None:
        if self.begins and self.list_of and not self.joined:
            # "with a.lua and b.lua"
            self.joined = self.list_of
        self.begins = False
        self.ends_with_file = True
        self.goes_on |= not self.ended
        if self.deed is None:
            self.before.append(name)
            self.goals |= {name} if self.joined == "goal" else set()
        elif self.ended and self.negated:
            self.spared.append(name)
        else:
            self.found.append((name, self.joined))
            self.since += self.ended

    def _break(self) -> None:
        """A comma or an "and": the next verb may begin a clause."""
        self.list_of = self.joined if self.ends_with_file and self.joined in ("source", "without", "goal") else ""
        self.joined, self.begins, self.ended, self.since, self.passive = "", True, True, 0, False
        self.negated = self.modal = False

    def _word(self, word: str) -> None:
        if word in _LATE_NEGATION and self.deed is not None:
            if not self.ended:
                self.denied = True
            elif self.since:
                # "Ich habe a.lua geändert und b.lua nicht angefasst."
                self.spared.append(self.found.pop()[0])
                self.since -= 1
        self.passive |= word in _AUXILIARIES
        if word in _GERMAN_SECOND and self.deed is Deed.OTHER and self.relative:
            # "Der Gruß ist geändert, die Fassung ist getestet": the article began no relative clause.
            self.relative = False
        self.there |= word in _THERE
        self.negated |= NEGATION.fullmatch(word) is not None
        self.modal |= MODAL.fullmatch(word) is not None
        self.joined = _join(word, self.joined)
        self.begins = self.begins and word in _SMALL
        self.goes_on |= not self.ended
        if not self.ended:
            self.words.append(word)

    def _verb(self, deed: Deed) -> Iterator[Said]:
        if deed is Deed.OTHER and self.deed in CHANGES and not (self.found or self.relative or self.begins):
            # A word of the object, as in "change open to closed in doors.cfg".
            return
        is_of_next = deed is Deed.OTHER or self.passive or self._is_of_next()
        if self.ended and self.since and not self.begins and is_of_next:
            # "I repaired a.lua, b.lua stays as it was", "a.lua is fixed and b.lua is deleted".
            named = [name for name, _ in self.found[-self.since :]]
            del self.found[-self.since :]
            yield from self.said()
            self.before, self.deed = named, None
        if self.relative and not self.begins:
            deed = Deed.OTHER
        else:
            self.relative = False
        yield from self._now(deed)

    def _now(self, deed: Deed) -> Iterator[Said]:
        """Read on with this verb."""
        yield from self.said()
        self.deed, self.is_open, self.denied, self.supposed = deed, self.begins, self.negated, self.modal
        self.joined, self.begins, self.ended, self.there = "", False, False, False
        self.goes_on, self.since, self.words, self.closed = False, 0, [], False


def _join(word: str, before: str) -> str:
    if word in ("without", "ohne", "sans", "sin"):
        return "without"
    if word in ("of", "von", "de", "du", "des", "del", "d"):
        return "of"
    if is_goal(word):
        return "goal"
    return "source" if is_source(word) else before
