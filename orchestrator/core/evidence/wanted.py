"""The wishes of a task, as far as its words say: files to change, and programs to run."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from orchestrator.core.evidence.orders import as_orders, deletes_nothing, keeps_all, keeps_rest, kept, tells
from orchestrator.core.evidence.patterns import FILE, Worded, with_file
from orchestrator.core.evidence.questions import asks_something
from orchestrator.core.evidence.quotations import given, quoted, to_print, to_write
from orchestrator.core.evidence.sentences import Said, said_in
from orchestrator.core.evidence.words import CHANGES, MAX_CHARS, Deed, files, order, sentences

_SURE: Final = Worded(
    r"\b(?:make sure|ensure|verify|check|confirm|see to it)\b[^.?!\n]{0,80}\b(?:works?|runs?|working)\b"
    r"|\bstell\w*\b[^.?!\n]{0,40}\bsicher\b[^.?!\n]{0,80}\b(?:läuft|funktioniert)\b"
    r"|\bassure\w*[^.?!\n]{0,80}\b(?:marche|fonctionne|tourne)\b"
    r"|\baseg[uú]r\w*[^.?!\n]{0,80}\bfunciona\b"
    r"|\bby\s+running\s+(?:it|them)\b|\bdurch\s+einen\s+(?:test)?lauf\b|\ben\s+l['\u2019]exécutant\b|\bejecutándol[oa]\b"
    r"|\bmit\s+einem\s+(?:test)?lauf\b|\bwith\s+a\s+(?:test\s+)?run\b|\bcon\s+una\s+ejecución\b|\ben\s+le\s+lançant\b"
    r"|\b(?:see|test)\b[^.?!\n]{0,40}\b(?:works|runs)\b|\bgive\s+it\s+a\s+(?:go|try|run|spin|test)\b|\btry\s+(?:it|them)\b"
    r"|\b(?:regarde[rz]?|mira(?:r)?|watch)\b[^.?!\n]{0,40}\b(?:tourne|marche|fonctionne|funciona|runs?|works)\b"
    r"|\b(?:prüf\w*|schau\w*|guck\w*|sieh|vergewissere?|teste?)\b[^.?!\n]{0,60}\b(?:läuft|funktioniert|geht|klappt)\b|\blaufen\s+lassen\b|\blass\w*\b[^.?!\n]{0,40}\blaufen\b"
    r"|\bv[ée]rifie[rz]?\b[^.?!\n]{0,60}\b(?:marche|fonctionne|tourne)\b|\bv[ée]rifie[rz]?-l[ea]s?\b|\bfais-l[ea]s?\s+tourner\b"
    r"|\bcompru[eé]b[ae](?:l[oa]s?\b|[^.?!\n]{0,60}\bfunciona\b)|\bverif[ií]ca(?:l[oa]s?\b|[^.?!\n]{0,60}\bfunciona\b)",
    re.IGNORECASE,
)
_TRY_TO: Final = re.compile(
    r"\b(?:try|attempt)\s+to\b|\bversuch\w*\b|\bessa(?:ie|ye[rz]?)\s+(?:de|d')|\b(?:intenta|trata)\b", re.IGNORECASE
)
_FOLDER: Final = re.compile(
    r"\b(?:make|create|add|erstelle?|mache?|lege?|crée[rz]?|fais|crea|haz)\s+(?:\w+\s+){0,3}?(?:folder|directory|ordner|verzeichnis|dossier"
    r"|répertoire|carpeta|directorio)\s+(?:(?:called|named|namens|nommé|appelé|llamad[oa])\s+)?[\"'`]?"
    r"(?!(?:for|in|on|with|of|and|to|that|which|für|auf|mit|und|pour|dans|avec|et|qui|para|en|con|y|que|an|called|named)\b)(?P<name>[\w/-]+)",
    re.IGNORECASE,
)
_GONE_FOLDER: Final = re.compile(
    r"\b(?:delete|remove|lösche?|entferne?|supprime[rz]?|efface[rz]?|borra|elimina|quita)\s+(?:\w+\s+){0,2}?"
    r"(?:folder|directory|ordner|verzeichnis|dossier|répertoire|carpeta|directorio)\s+[\"'`]?(?P<name>[\w/-]+)",
    re.IGNORECASE,
)
_EXISTS: Final = re.compile(
    rf"(?P<name>{FILE})\s+(?:must|should|has\s+to|needs\s+to|muss|soll|doit|debe|tiene\s+que)\s+"
    r"(?:(?!not\b|no\b|nicht\b|pas\b|plus\b)\w+\s+){0,2}?"
    r"(?:exist\w*|be\s+there|da\s+sein|vorhanden\s+sein)",
    re.IGNORECASE,
)
_ALL_COMPUTERS: Final = re.compile(
    r"\b(?:both|each|every|all|beiden?|alle[nr]?|jede[mnrs]?|deux|chaque|tous|toutes|ambos|ambas|dos|cada|todos|todas)\s+"
    r"(?:(?:the|of\s+the|den|les|los|las)\s+)?(?:computers?|turtles?|machines?|rechnern?|computern?|maschinen?|ordis?|ordinateurs?"
    r"|tortues?|ordenador(?:es)?|computadoras?|tortugas?|máquinas?)\b",
    re.IGNORECASE,
)
_LISTED: Final = re.compile(rf"{FILE}(?:(?:\s*,\s*|,?\s+(?:and|und|et|y)\s+){FILE})+", re.IGNORECASE)
_EVERY: Final = Worded(
    r"\b(?:both|beiden?|(?:tous\s+)?les\s+(?:deux|trois)|ambos|ambas|l[oa]s\s+(?:dos|tres)|all\s+(?:of\s+them|three|four)|alle\s+(?:drei|vier))\b",
    re.IGNORECASE,
)
_NO_LONGER: Final = re.compile(
    r"\b(?:no\s+longer|any\s?more|ya\s+no|nicht\s+mehr|n[e'\u2019]\s?\w+\s+(?:doit\s+)?plus)\b", re.IGNORECASE
)
_HERE: Final = re.compile(
    r"\b(?:top\s+level|root|main\s+(?:folder|directory)|lying\s+around|hauptordner|hauptverzeichnis|herumliegen|racine|traîne\w*"
    r"|ra[ií]z|carpeta\s+principal)\b",
    re.IGNORECASE,
)
_GONE: Final = re.compile(
    rf"(?P<name>{FILE})\s+(?:(?:must|should|may)\s+(?:no\s+longer|not)\s+(?:be\s+there|exist)|(?:soll|darf|muss)\s+(?:nicht\s+mehr|weg)\s*(?:da|sein|existieren)"
    r"|ne\s+doit\s+plus\s+(?:être|exister)|(?:ya\s+)?no\s+debe\s+(?:estar|existir))",
    re.IGNORECASE,
)
_WISH: Final = re.compile(
    r"\b(?:gern|möchte|brauche|bitte|soll\w*|muss|must|should|want|need|please|voudrais|doit|faut|quiero|necesito|debe|tiene\s+que|por\s+favor)\b",
    re.IGNORECASE,
)
_CHECK: Final = re.compile(
    r"\b(?:check|verify|make\s+sure|confirm)\s+(?:that|if|whether|it)\b|\b(?:prüfe?|überprüfe?|vergewissere)\b[^.?!\n]{0,20}\b(?:dass|ob|es)\b"
    r"|\b(?:vérifie[rz]?|assure-toi)\s+(?:bien\s+)?(?:que|qu'|si)|\b(?:comprueba|verifica|asegúrate\s+de)\s+(?:que|q|si)\b",
    re.IGNORECASE,
)
_ON_ALL: Final = re.compile(
    r"\b(?:on|from|in|auf|von|aus|sur|de|des|dans|en)\s+(?:both|all\s+of\s+them|each\s+of\s+them|beiden|allen|les\s+(?:deux|trois)|tous|ambos|ambas"
    r"|l[oa]s\s+(?:dos|tres)|tod[oa]s)(?=\s*(?:[.,;!?]|\Z|\s(?:an|a|eine?|aus|und|and|et|y)\b)|\s+(?:computers?|turtles?|rechner\w*|ordis?|ordinateurs"
    r"|ordenador\w*|tortugas))",
    re.IGNORECASE,
)
_ENUMERATED: Final = re.compile(
    rf"(?P<name>{FILE})\s+(?:that|which|qui|que|die|der|das)\b"
    rf"|(?:[:,]|\b(?:and|und|et|y)\b)\s*(?P<other>{FILE})\s+(?:to|with|avec|mit|con|pour|para|für|for)\b",
    re.IGNORECASE,
)
"""A file of a list in which each has a clause of its own."""
_MUST_IN: Final = re.compile(
    rf"\b(?:in|im|dans|en)\s+(?P<name>{FILE})\s+(?:must|should|has\s+to|needs\s+to|soll|muss|doit|debe|tiene\s+que)\s+"
    r"(?!not\b|stay|remain|keep|nicht\b|bleiben|pas\b|rester|no\b|quedar|seguir)",
    re.IGNORECASE,
)
"""Where something has to become other than it is."""
_NOT_ON: Final = (
    r"(?<!ya\s)\b(?:not|never|except|nicht(?!\s+mehr)|außer|pas|sauf|no(?!\s+longer)|excepto|salvo)"
    r"\s+(?:[^\W\d]+['\s]\s?){0,4}"
)
"""Words that exclude the computer behind them."""
_EACH: Final = re.compile(
    r"\b(?:both|each|every|all|beiden?|alle[nr]?|jede[mnrs]?|deux|chaque|tous|toutes|ambos|ambas|dos|cada|todos)\b",
    re.I,
)
_NEW_PLACE: Final = frozenset({Deed.MOVE, Deed.COPY, Deed.MAKE})


@dataclass(frozen=True)
class Target:
    """Files of which one has to end in a certain state."""

    deed: Deed
    """``MAKE``: it is there and is new or other than before. ``CHANGE``: it is other than before. ``DELETE``: it is
    gone. ``FIX``: it is other than before, or runs well after another file was changed. ``COPY``: a file whose name has
    its name in it is there and is new or other than before. ``ENSURE``: it is other than before, or ran well."""
    names: tuple[str, ...]
    computers: tuple[str, ...] = ()
    """The computers; empty: any."""
    is_state: bool = False
    """It only has to be so now, and may have been so before."""


@dataclass(frozen=True)
class Program:
    """A program that has to run, or is said to have run."""

    name: str
    computers: tuple[str, ...] = ()
    """The computers, each of which is meant; empty: any."""


@dataclass(frozen=True)
class Wanted:
    """What the words of a task ask for."""

    targets: tuple[Target, ...] = ()
    runs: bool = False
    """Whether something has to be run or tested."""
    programs: tuple[Program, ...] = ()
    """The programs that the words name for that; empty: what was changed."""
    run_on: tuple[str, ...] = ()
    """Computers on each of which something has to run."""
    given: tuple[str, ...] = ()
    """Arguments and lines that a run has to get, each of them."""
    prints: tuple[str, ...] = ()
    """Texts that have to be printed, where something runs."""
    values: tuple[tuple[tuple[str, ...], str], ...] = ()
    """(files, text): texts that have to be written into one of these files."""
    kept: tuple[str, ...] = ()
    """Files that have to stay as they are."""
    there: tuple[str, ...] = ()
    """Files that may not be gone."""
    not_run: tuple[str, ...] = ()
    """Programs that must not run."""
    quoted: tuple[str, ...] = ()
    """Quotations that have to be found in what is written, given or printed."""
    together: tuple[tuple[str, ...], ...] = ()
    """Lists of files: where one is changed, each is at least looked at."""
    checks: bool = False
    """Something has to be checked: by a run, where a program was changed."""
    keeps_all: bool = False
    """Nothing may be changed."""
    keeps_rest: bool = False
    """Nothing else may be changed than what the words name."""
    deletes_nothing: bool = False
    each_of: tuple[str, ...] = ()
    """Computers on each of which something has to be done, where anything is done."""
    named: tuple[str, ...] = ()
    """Files that the words name where they leave open what has to become of them: one of them was changed or run."""


def wanted(prompt: str, computers: Sequence[str] = (), got: frozenset[str] = frozenset()) -> Wanted:
    """The requirements of a task. Points that its words leave open are left out.

    ``computers``: those of the task; ``got``: the arguments and lines that its runs got.
    """
    asked = _Asked(computers, got)
    asked.runs = _SURE.search(prompt[:MAX_CHARS]) is not None
    for sentence in sentences(prompt, as_orders):
        asked.take(sentence)
    named = files(prompt) if not (asked.targets or asked.programs) else ()
    return Wanted(
        targets=tuple(dict.fromkeys(asked.targets)),
        runs=asked.runs,
        programs=tuple(dict.fromkeys(asked.programs)),
        run_on=tuple(dict.fromkeys(asked.run_on)),
        given=tuple(dict.fromkeys(asked.given)),
        prints=tuple(dict.fromkeys(asked.prints)),
        values=tuple(dict.fromkeys(asked.values)),
        kept=tuple(dict.fromkeys(asked.kept)),
        there=tuple(dict.fromkeys(asked.there)),
        not_run=tuple(dict.fromkeys(name for names in asked.not_run for name in names)),
        quoted=tuple(dict.fromkeys(asked.quoted)),
        together=tuple(dict.fromkeys(asked.together)),
        checks=_CHECK.search(prompt[:MAX_CHARS]) is not None,
        keeps_all=keeps_all(prompt[:MAX_CHARS]),
        keeps_rest=keeps_rest(prompt[:MAX_CHARS]),
        deletes_nothing=deletes_nothing(prompt[:MAX_CHARS]),
        each_of=tuple(dict.fromkeys(asked.each_of)),
        named=named,
    )


@dataclass
class _Asked:
    """What the sentences of a task ask for, one after the other."""

    computers: Sequence[str]
    got: frozenset[str]
    targets: list[Target] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)
    runs: bool = False
    run_on: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    prints: list[str] = field(default_factory=list)
    values: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    there: list[str] = field(default_factory=list)
    not_run: list[tuple[str, ...]] = field(default_factory=list)
    quoted: list[str] = field(default_factory=list)
    together: list[tuple[str, ...]] = field(default_factory=list)
    each_of: list[str] = field(default_factory=list)
    last: tuple[str, ...] = ()
    """The files of the sentences before, which "it" may mean."""

    def take(self, sentence: str) -> None:
        """One more sentence."""
        there = named_in(sentence, self.computers)
        self.targets += [Target(Deed.MAKE, (one["name"],), there[-1:]) for one in _FOLDER.finditer(sentence)]
        self.targets += [Target(Deed.DELETE, (one["name"],), there) for one in _GONE_FOLDER.finditer(sentence)]
        self.targets += [Target(Deed.MAKE, (one["name"],), there) for one in with_file(_EXISTS, sentence)]
        every = len(there) > 1 and (_EACH.search(sentence) or _is_list(sentence, there))
        self.each_of += there if every and files(sentence) and not asks_something(sentence) else ()
        self.targets += [
            Target(Deed.CHANGE, (one["name"],), on)
            for one in with_file(_MUST_IN, sentence)
            for on in ([(name,) for name in there] if every else [there])
        ]
        said = said_in(_TRY_TO.sub(" ", sentence), order)
        ordered = [one for one in said if not (one.negated or (one.modal and not one.is_open and one.before))]
        for one in ordered:
            if one.deed is Deed.RUN and one.is_open:
                self.runs = True
                self.given += given(sentence, self.got)
                on = ran_on(sentence, said, self.computers)
                self.run_on += on
                self.programs += [Program(name, on) for name, joined in one.files if joined in ("", "of")]
            elif one.deed in CHANGES:
                self._change(one, sentence, there)
        named = files(sentence)
        listed = [one["name"] or one["other"] for one in with_file(_ENUMERATED, sentence)]
        if len(listed) > 1 and any(one.deed is Deed.MAKE for one in ordered):
            self.targets += [Target(Deed.MAKE, (name,), there) for name in listed]
        self.prints += to_print(sentence)
        self.kept += kept(sentence, said, order=True)
        if any(one.deed in (Deed.MAKE, Deed.CHANGE) for one in ordered) or not asks_something(sentence):
            self.values += [(named or self.last, text) for text in to_write(sentence)]
        self.not_run += [
            (named or self.last)[-1:] for one in said if one.negated and one.deed is Deed.RUN and not tells(sentence)
        ]
        self.targets += [Target(Deed.DELETE, (one["name"],)) for one in with_file(_GONE, sentence)]
        if len(named) == 1 and _NO_LONGER.search(sentence) and _HERE.search(sentence):
            self.targets += [Target(Deed.DELETE, named, there)]
        if len(there) == 2 and _NO_LONGER.search(sentence):
            self.targets += [Target(Deed.DELETE, (name,), there[:1]) for name in named]
        self.quoted += quoted(sentence) if (ordered or _WISH.search(sentence)) and not asks_something(sentence) else ()
        self.together += lists(sentence, named or self.last)
        self.last = named or self.last

    def _change(self, said: Said, sentence: str, there: tuple[str, ...]) -> None:
        of_copy = said.deed in (Deed.COPY, Deed.MOVE)
        if said.deed is Deed.COPY:
            self.there += [name for name, joined in said.files if joined in ("", "of")]
        found = targets_of(said, self.last)
        if not of_copy and (_EACH.search(sentence) or _ON_ALL.search(sentence) or _is_list(sentence, there)):
            self.targets += [replace(one, computers=(name,)) for name in there for one in found]
        self.targets += [
            replace(one, computers=there[-1:] if of_copy and one.deed is not Deed.DELETE else there) for one in found
        ]


def lists(sentence: str, named: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The lists of files in a sentence, and ``named`` where it says "both" of them."""
    found = [files(one[0]) for one in with_file(_LISTED, sentence)]
    return [one for one in [*found, *([named] if _EVERY.search(sentence) else [])] if len(one) > 1]


def ran_on(sentence: str, said: Sequence[Said], computers: Sequence[str]) -> tuple[str, ...]:
    """The computers on each of which a sentence has something run; empty: it leaves that open."""
    if len(computers) > 1 and _ALL_COMPUTERS.search(sentence):
        return tuple(computers)
    only_runs = all(one.deed in (Deed.RUN, Deed.OTHER) for one in said)
    return named_in(sentence, computers) if only_runs else ()


def _is_list(sentence: str, there: tuple[str, ...]) -> bool:
    """Whether a sentence lists these computers: "on north, south and west"."""
    between = (
        r"(?:\s*,\s*|,?\s+(?:and|und|et|y)\s+)(?:(?:also|auch|aussi|también|the\s+one|die|celui|el)\s+){0,3}"
        r"(?:(?:on|auf|sur|de|en)\s+)?(?:(?:the|dem|l'|la|el)\s*)?(?:[^\W\d]+\s+)?"
    )
    names = between.join(map(re.escape, there))
    return len(there) > 1 and re.search(names, sentence) is not None


def named_in(sentence: str, computers: Sequence[str]) -> tuple[str, ...]:
    """The computers that a sentence names, in its order; empty where the task has only one."""
    if len(computers) < 2:
        return ()
    if _ON_ALL.search(sentence):
        return tuple(computers)
    found = ((re.search(rf"(?<![\w.]){re.escape(name)}(?!\w|\.\w)", sentence), name) for name in computers)
    named = tuple(name for _, name in sorted((one.start(), name) for one, name in found if one is not None))
    meant = tuple(name for name in named if not re.search(rf"{_NOT_ON}{re.escape(name)}(?!\w)", sentence, re.I))
    return meant or named


def targets_of(said: Said, last: tuple[str, ...]) -> list[Target]:
    """What one verb asks for; ``last``: the files of the sentences before it, which "it" may mean."""
    if said.deed is Deed.COPY and said.files and all(joined != "goal" for _, joined in said.files):
        return [Target(Deed.COPY, (name,)) for name, _ in said.files]
    if said.files:
        return [one for name, joined in said.files if (one := _joined(said.deed, name, joined)) is not None]
    named = said.before or (() if said.deed is Deed.MAKE else _earlier(said, last))
    if said.deed is Deed.MAKE:
        return [Target(Deed.MAKE, (name,)) for name in named] if said.is_last else []
    if said.deed is Deed.MOVE and said.is_last and len(named) == 2:
        return [Target(Deed.DELETE, named[:1]), Target(Deed.MAKE, named[1:])]
    if said.deed is Deed.COPY and said.is_last and len(named) == 2:
        # "a.lua nach b.lua kopiert"
        return [Target(Deed.MAKE, said.goals if len(said.goals) == 1 else named)]
    if said.deed in (Deed.FIX, Deed.CHANGE) and named:
        return [Target(Deed.FIX, named)]
    if said.deed in (Deed.DELETE, Deed.MOVE) and len(named) == 1 and (said.bare or not said.is_open):
        # "die leere Zeile in a.lua entfernen"
        inside = said.deed is Deed.DELETE and said.before and named[0] in said.goals
        return [Target(Deed.CHANGE, named) if inside else _target(said.deed, *named)]
    return []


def _earlier(said: Said, last: tuple[str, ...]) -> tuple[str, ...]:
    """The files of earlier sentences that a verb without one means."""
    return last[-1:] if said.deed is Deed.CHANGE and said.there else last


def _joined(deed: Deed, name: str, joined: str) -> Target | None:
    """The target that a file is by the word before it; None: it is only used."""
    if joined == "goal":
        made = deed in _NEW_PLACE
        return Target(Deed.MAKE if made else Deed.FIX if deed is Deed.FIX else Deed.CHANGE, (name,))
    if joined == "source":
        # "Remove line 3 from a.lua", "Move the function from a.lua to b.lua".
        return Target(Deed.CHANGE, (name,)) if deed in (Deed.DELETE, Deed.MOVE) else None
    if joined == "of":
        return Target(Deed.FIX if deed is Deed.FIX else Deed.CHANGE, (name,)) if deed not in _NEW_PLACE else None
    return None if deed is Deed.COPY or joined == "without" else _target(deed, name)


def _target(deed: Deed, name: str) -> Target:
    return Target(Deed.DELETE if deed is Deed.MOVE else deed, (name,))
