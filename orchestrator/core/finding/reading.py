"""Which verb a sentence says of which file, read word by word."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from orchestrator.core.finding.words import (
    CHANGES,
    MODAL,
    NEGATION,
    RELATIVE,
    Deed,
    Token,
    is_goal,
    is_source,
    tokens,
)

_CONNECTIVE: Final = re.compile(
    r"and|then|also|so|please|now|first|finally|but|or|und|dann|bitte|danach|anschliessend|zuerst|aber|oder|sondern"
    r"|et|puis|ensuite|mais|ou|y|e|luego|despues|pero|o|por|favor"
)
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
_THERE: Final = frozenset({"there", "dort", "darin", "dedans", "alli", "ahi"})
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
"""Words that may stand before the verb that begins a clause."""
_LATE_NEGATION: Final = frozenset({"nicht", "nie", "nichts", "nothing", "pas", "jamais", "rien", "nada"})
"""Negations that stand behind their verb."""


@dataclass(frozen=True)
class Said:
    """A verb, and the files that it is said of."""

    deed: Deed
    files: tuple[tuple[str, str], ...] = ()
    """(file, how it is joined): ``""`` the object itself, ``of`` and ``source`` and ``goal`` behind such a word."""
    before: tuple[str, ...] = ()
    """All files that the sentence names before the verb."""
    is_open: bool = False
    """Whether the verb begins its clause, as an order does."""
    negated: bool = False
    modal: bool = False
    """It only may, should or will be so."""
    there: bool = False
    """Whether it is done "there": in the file that was named last."""
    is_last: bool = False
    """Whether it ends its clause, as in "a.lua anlegen"."""


def said_in(sentence: str, verb: Callable[[str], Deed | None]) -> list[Said]:
    """What a sentence says of which files; ``verb`` tells which words are verbs."""
    clause = _Clause(verb)
    found = [said for token in tokens(sentence) for said in clause.take(token)]
    return [*found, *clause.said()]


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
    since: int = 0
    """Files of the verb that were named since the last comma or "and"."""

    def said(self) -> Iterator[Said]:
        """What the verb so far says, once the next one comes or the sentence ends."""
        if self.deed is not None:
            named = tuple(self.found), tuple(self.before)
            yield Said(self.deed, *named, self.is_open, self.denied, self.supposed, self.there, not self.goes_on)
        self.before += [name for name, _ in self.found]
        self.found = []

    def take(self, token: Token) -> Iterator[Said]:
        """One more token."""
        if token.is_file:
            self._file(token.text)
        elif token.is_mark:
            self._break()
            self.after_mark = True
            return
        elif RELATIVE.fullmatch(token.text) or (self.after_mark and token.text in _GERMAN_RELATIVE):
            yield from self._now(Deed.OTHER)
            self.relative = True
        elif (deed := self.verb(token.text)) is not None:
            yield from self._verb(deed)
        elif _EXCEPT.fullmatch(token.text) and self.deed is not None and not self.begins:
            yield from self._now(Deed.OTHER)
            self.begins = True
        elif _CONNECTIVE.fullmatch(token.text):
            self._break()
        else:
            self._word(token.text)
        self.after_mark = False

    def _file(self, name: str) -> None:
        self.begins = False
        self.goes_on |= not self.ended
        if self.deed is None:
            self.before.append(name)
        elif not (self.ended and self.negated):
            # "I changed a.lua and did not touch b.lua": what is denied is said by a verb that is not known here.
            self.found.append((name, self.joined))
            self.since += 1

    def _break(self) -> None:
        """A comma or an "and": the next verb may begin a clause."""
        self.joined, self.begins, self.ended, self.since, self.passive = "", True, True, 0, False
        self.negated = self.modal = False

    def _word(self, word: str) -> None:
        if word in _LATE_NEGATION and self.deed is not None:
            if not self.ended:
                self.denied = True
            elif self.since:
                # "Ich habe a.lua geändert und b.lua nicht angefasst."
                self.found.pop()
                self.since -= 1
        self.passive |= word in _AUXILIARIES
        self.there |= word in _THERE
        self.negated |= NEGATION.fullmatch(word) is not None
        self.modal |= MODAL.fullmatch(word) is not None
        self.joined = _join(word, self.joined)
        self.begins = self.begins and word in _SMALL
        self.goes_on |= not self.ended

    def _verb(self, deed: Deed) -> Iterator[Said]:
        if deed is Deed.OTHER and self.deed in CHANGES and not (self.found or self.relative or self.begins):
            # A word of the object, as in "change open to closed in doors.cfg".
            return
        if self.ended and self.since and not self.begins and (deed is Deed.OTHER or self.passive):
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
        self.goes_on, self.since = False, 0


def _join(word: str, before: str) -> str:
    if word in ("of", "von", "de", "du", "des", "del", "d"):
        return "of"
    if is_goal(word):
        return "goal"
    return "source" if is_source(word) else before
