"""What a task asks for, as far as its words say: files that have to change, and programs that have to run."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from orchestrator.core.finding.reading import Said, said_in
from orchestrator.core.finding.words import CHANGES, MAX_CHARS, Deed, files, order, report, sentences

_SURE: Final = re.compile(
    r"\b(?:make sure|ensure|verify|check|confirm|see to it)\b[^.?!\n]{0,80}\b(?:works?|runs?|working)\b"
    r"|\bstell\w*\b[^.?!\n]{0,40}\bsicher\b[^.?!\n]{0,80}\b(?:läuft|funktioniert)\b"
    r"|\bassure\w*[^.?!\n]{0,80}\b(?:marche|fonctionne|tourne)\b"
    r"|\baseg[uú]r\w*[^.?!\n]{0,80}\bfunciona\b"
    r"|\bby\s+running\s+(?:it|them)\b|\bdurch\s+einen\s+(?:test)?lauf\b|\ben\s+l['\u2019]exécutant\b|\bejecutándol[oa]\b"
    r"|\bmit\s+einem\s+(?:test)?lauf\b|\bwith\s+a\s+(?:test\s+)?run\b|\bcon\s+una\s+ejecución\b|\ben\s+le\s+lançant\b"
    r"|\b(?:see|test)\b[^.?!\n]{0,40}\b(?:works|runs)\b|\bgive\s+it\s+a\s+(?:go|try|run|spin|test)\b|\btry\s+(?:it|them)\b"
    r"|\b(?:prüf\w*|schau\w*|sieh)\b[^.?!\n]{0,60}\b(?:läuft|funktioniert)\b|\blaufen\s+lassen\b|\blass\w*\b[^.?!\n]{0,40}\blaufen\b"
    r"|\bv[ée]rifie[rz]?\b[^.?!\n]{0,60}\b(?:marche|fonctionne|tourne)\b|\bv[ée]rifie[rz]?-l[ea]s?\b|\bfais-l[ea]s?\s+tourner\b"
    r"|\bcompru[eé]b[ae](?:l[oa]s?\b|[^.?!\n]{0,60}\bfunciona\b)|\bverif[ií]ca(?:l[oa]s?\b|[^.?!\n]{0,60}\bfunciona\b)",
    re.IGNORECASE,
)
_TRY_TO: Final = re.compile(
    r"\b(?:try|attempt)\s+to\b|\bversuch\w*\b|\bessa(?:ie|ye[rz]?)\s+(?:de|d')|\b(?:intenta|trata)\b", re.IGNORECASE
)
_PASSIVE: Final = re.compile(
    r"(?P<name>[\w./-]+\.\w+)\s+(?:should|must|needs?\s+to|has\s+to|have\s+to)\s+be\s+(?P<verb>\w+)", re.IGNORECASE
)
_FOLDER: Final = re.compile(
    r"\b(?:make|create|add|erstelle?|mache?|lege?|crée[rz]?|fais|crea|haz)\s+(?:\w+\s+){0,3}?(?:folder|directory|ordner|verzeichnis|dossier"
    r"|répertoire|carpeta|directorio)\s+(?:(?:called|named|namens|nommé|appelé|llamad[oa])\s+)?[\"'`]?"
    r"(?!(?:for|in|on|with|of|and|to|that|which|für|auf|mit|und|pour|dans|avec|et|qui|para|en|con|y|que|an|called|named)\b)(?P<name>[\w/-]+)",
    re.IGNORECASE,
)
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
    its name in it is there and is new or other than before."""
    names: tuple[str, ...]
    computers: tuple[str, ...] = ()
    """On which computers; empty: on any."""


@dataclass(frozen=True)
class Wanted:
    """What the words of a task ask for."""

    targets: tuple[Target, ...] = ()
    runs: bool = False
    """Whether something has to be run or tested."""
    programs: tuple[str, ...] = ()
    """The programs that the words name for that; empty: what was changed."""
    named: tuple[str, ...] = ()
    """Files that the words name where they leave open what has to become of them: one of them was changed or run."""


def wanted(prompt: str, computers: Sequence[str] = ()) -> Wanted:
    """What a task asks for. What its words leave open is left out; ``computers``: those of the task."""
    targets: list[Target] = []
    programs: list[str] = []
    runs = _SURE.search(prompt[:MAX_CHARS]) is not None
    last: tuple[str, ...] = ()
    for sentence in sentences(prompt):
        there = _named_in(sentence, computers)
        targets += [Target(Deed.MAKE, (one["name"],), there[-1:]) for one in _FOLDER.finditer(sentence)]
        targets += [replace(one, computers=there) for one in _passive(sentence)]
        for said in said_in(_TRY_TO.sub(" ", sentence), order):
            if said.negated or (said.modal and not said.is_open and said.before):
                continue
            if said.deed is Deed.RUN and said.is_open:
                runs = True
                programs += [name for name, joined in said.files if joined in ("", "of")]
            elif said.deed in CHANGES:
                of_copy = said.deed in (Deed.COPY, Deed.MOVE)
                if not of_copy and _EACH.search(sentence):
                    targets += [replace(one, computers=(name,)) for name in there for one in targets_of(said, last)]
                targets += [
                    replace(one, computers=there[-1:] if of_copy and one.deed is not Deed.DELETE else there)
                    for one in targets_of(said, last)
                ]
        last = files(sentence) or last
    named = files(prompt) if not (targets or programs) else ()
    return Wanted(tuple(dict.fromkeys(targets)), runs, tuple(dict.fromkeys(programs)), named)


def _named_in(sentence: str, computers: Sequence[str]) -> tuple[str, ...]:
    """The computers that a sentence names, in its order; empty where the task has only one."""
    if len(computers) < 2:
        return ()
    found = ((re.search(rf"(?<![\w.]){re.escape(name)}(?!\w|\.\w)", sentence), name) for name in computers)
    return tuple(name for _, name in sorted((one.start(), name) for one, name in found if one is not None))


def _passive(sentence: str) -> list[Target]:
    """The targets of sentences such as: belt.cfg must be deleted."""
    found = ((one["name"], report(one["verb"].lower())) for one in _PASSIVE.finditer(sentence))
    return [_target(deed, name) for name, deed in found if deed in CHANGES]


def targets_of(said: Said, last: tuple[str, ...]) -> list[Target]:
    """What one verb asks for; ``last``: the files of the sentences before it, which "it" may mean."""
    if said.deed is Deed.COPY and all(joined != "goal" for _, joined in said.files):
        return [Target(Deed.COPY, (name,)) for name, _ in said.files]
    if said.files:
        return [one for name, joined in said.files if (one := _joined(said.deed, name, joined)) is not None]
    named = said.before or (() if said.deed is Deed.MAKE else _earlier(said, last))
    if said.deed is Deed.MAKE:
        return [Target(Deed.MAKE, (name,)) for name in named] if said.is_last else []
    if said.deed is Deed.MOVE and said.is_last and len(named) == 2:
        return [Target(Deed.DELETE, named[:1]), Target(Deed.MAKE, named[1:])]
    if said.deed in (Deed.FIX, Deed.CHANGE) and named:
        return [Target(Deed.FIX, named)]
    if said.deed in (Deed.DELETE, Deed.MOVE) and len(named) == 1:
        return [_target(said.deed, *named)]
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
    return None if deed is Deed.COPY else _target(deed, name)


def _target(deed: Deed, name: str) -> Target:
    return Target(Deed.DELETE if deed is Deed.MOVE else deed, (name,))
