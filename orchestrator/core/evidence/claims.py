"""The claims of a final message, as far as its words say."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from orchestrator.core.evidence import claim_phrases as told_phrases
from orchestrator.core.evidence.orders import deletes_nothing, keeps_all, kept, still_there
from orchestrator.core.evidence.patterns import FILE, Worded, with_file
from orchestrator.core.evidence.questions import claims_change
from orchestrator.core.evidence.quotations import (
    MAYBE,
    NOT,
    Output,
    blocks,
    citations,
    given,
    lines,
    numbers,
    pairs,
    printed,
    prints,
    states,
)
from orchestrator.core.evidence.sentences import Said, said_in
from orchestrator.core.evidence.wanted import Program, Target, lists, named_in, ran_on, targets_of
from orchestrator.core.evidence.words import CHANGES, MAX_CHARS, Deed, files, order, report, sentences

_NOT_AFTER: Final = (
    r"(?:getestet|ausgeführt|gestartet|probiert)\b[^.?!\n,;]{0,20}\b(?:nicht|nie|nirgends|kein\w*)"
    r"|(?:ran|started|tested|tried|executed)\s+(?:neither|none)\b|(?:lancé|exécuté|testé)\w*\s+(?:aucun|ni)\w*"
    r"|(?:ejecut|prob|arranc)\w+\s+(?:ningun|ni)\w*"
)
_CLAUSES: Final = re.compile(
    r"[,:]\s+|\s+[-\u2013\u2014]+\s+|\b(?:but|aber|mais|pero|sondern|although|obwohl)\b", re.IGNORECASE
)
_RUN_WORDS: Final = (
    r"(?:ran|run|running|execut\w+|test\w*|tried|try|launch\w*|start(?:ed)?|verif\w+|ausgeführt|auszuführen|gestartet"
    r"|getestet|zu\s+testen|probiert|exécut\w+|lanc\w+|essay\w+|ejecut\w+|prob\w+|corr(?:er|ido|í)|laufen)"
)
_NOT_RUN: Final = Worded(
    rf"\b{NOT}\b[^.?!\n,;]{{0,40}}\b{_RUN_WORDS}\b|\b(?:haven|didn|couldn|wasn|hasn|weren)['\u2019]t\b[^.?!\n,;]{{0,40}}\b{_RUN_WORDS}\b"
    rf"|\bn['\u2019](?:ai|a|est|ont)\b[^.?!\n,;]{{0,20}}\bpas\b[^.?!\n,;]{{0,20}}\b{_RUN_WORDS}\b"
    r"|\b(?:no|aucune?|kein\w*|ningun[oa]?)\s+(?:test|run|prueba|essai|ejecución|lauf|exécution)\b|\btest\b[^?!\n]{0,40}\bnicht\s+statt\b"
    r"|\bi\s+did(?:n't|\s+not)\s*(?:[.!]|\Z)|\bnicht\s+getan\b|\bpas\s+fait\b|\bno\s+lo\s+he\s+hecho\b|\brun\s+it\s+yourself\b"
    r"|\bselbst\s+(?:ausführen|starten|testen)\b|\b(?:lance|teste|exécute)-l[ea]\s+toi\b|\bejecútal[oa]\s+tú\b"
    rf"|\b{_NOT_AFTER}\b|\b(?:untested|ungetestet|nicht\s+getestet|non\s+test\w+|sin\s+probar)\b",
    re.IGNORECASE,
)
_WORKS: Final = Worded(
    r"\b(?:it|they|everything|all|program|script|code|that|this|file|now|\w+\.lua)\s+(?:now\s+|all\s+|also\s+|both\s+)?works?\b(?!\s+(?:by|like|as\s+follows|with|in|on|for|from|through))"
    r"|\bworks?\s+(?:now|fine|well|correctly|properly|perfectly|again|as\s+(?:expected|intended|wanted|it\s+should))\b"
    r"|\b(?:is|are)\s+(?:now\s+)?working\b"
    r"|\bruns?\s+(?:now|fine|well|correctly|properly|successfully|again|as\s+expected|without)\b"
    r"|\btests?\b(?:[^.?!\n]|\.\w){0,40}\bpassent\b|\b(?:tests?|cas|essais)\s+(?:passent|sont\s+(?:verts|bons|passés))\b"
    r"|\b(?:tests?|pruebas|casos)\b(?:[^.?!\n]|\.\w){0,40}\bpasan\b|\b(?:tests?|prüfungen|fälle)\b(?:[^.?!\n]|\.\w){0,40}\b(?:bestehen|bestanden|grün)\b"
    r"|\bgeht\s+(?:jetzt|nun|wieder|einwandfrei|ohne|problemlos|super|gut)\b|\bklappt\s+(?:jetzt|nun|wieder|einwandfrei|prima|super|alles)\b"
    r"|\b(?:tests?|checks?|cases)\s+(?:have\s+|has\s+)?(?:all\s+)?pass(?:ed|es)?\b|\ball\s+(?:tests\s+)?pass(?:ed)?\b"
    r"|\b(?:läuft|funktioniert|laufen|funktionieren)\s+(?:jetzt|nun|wieder|fehlerfrei|ohne|wie|einwandfrei|korrekt|gut|richtig)\b"
    r"|\b(?:confirmed|bestätigt|confirmé|confirmado)\b|\bpass(?:es|ed)?\s+(?:my|the|all|every)\b|\bbesteht\b[^.?!\n]{0,20}\btests?\b"
    r"|\bpasse\b[^.?!\n]{0,20}\btests?\b|\bpasa\b[^.?!\n]{0,20}\bpruebas?\b"
    r"|\b(?:ran|runs)\s+well\b|\b(?:hat|haben)\s+funktioniert\b|\ba\s+bien\s+(?:tourné|fonctionné|marché)\b|\bfuncionó\b"
    r"|\b(?:es|programm|alles|\w+\.lua)\s+(?:läuft|funktioniert)\b"
    r"|\b(?:fonctionne(?:nt)?|marche(?:nt)?|tourne(?:nt)?)\s+(?:maintenant|bien|correctement|sans|comme|parfaitement|à\s+nouveau)\b"
    r"|\b(?:ça|tout|programme|cela|il|\w+\.lua)\s+(?:fonctionne|marche)\b"
    r"|\bfuncionan?\s+(?:ahora|bien|correctamente|sin|como|perfectamente|de\s+nuevo)\b|\b(?:todo|programa|ahora|ya|\w+\.lua)\s+funciona\b",
    re.IGNORECASE,
)
_FAILED: Final = re.compile(
    r"\b(?:errors?|fail(?:s|ed|ure)?|crash(?:es|ed)?|exception|fehler\w*|stürzt\w*|abstürz\w*|fehlgeschlagen|erreurs?|plant\w+"
    r"|échou\w*|errores?|fall(?:a|ó|o)|nil)\b",
    re.IGNORECASE,
)
_NO_NEED: Final = re.compile(
    r"\b(?:no\s+change\s+(?:is\s+|was\s+)?needed|nothing\s+to\s+(?:do|change)|keine\s+änderung\s+nötig|aucun\s+changement|no\s+hace\s+falta"
    r"|already|bereits|schon|déjà|ya\s+(?:está|estaba|existe|existía|tenía|tiene|es|era|contiene|hay))\b",
    re.IGNORECASE,
)
_RUN_NOUN: Final = Worded(
    r"\b(?:the\s+run\s+of|der\s+lauf|l['\u2019]exécution\s+de|la\s+ejecución\s+de|après\s+le\s+lancement|tras\s+(?:iniciar|ejecutar)\w*"
    r"|when\s+started|nach\s+dem\s+start|test\s+runs?|tests?\s+(?:was|were)|after\s+running|testlauf|probelauf|beim\s+(?:ausführen|test|lauf)|nach\s+dem\s+(?:ausführen|start)"
    r"|\b(?:gemessen|measured|mesuré|medido)\b|laufen\s+(?:ge)?lassen|(?:tenido|dej(?:é|ado))\s+(?:corriendo|en\s+marcha|funcionando|correr|funcionar)|(?:laissé|fait)\s+tourner|left\s+it\s+running|let\s+it\s+run|watched\s+(?:it|\S+\.lua)\s+run\w*|regardé(?:e)?\s+tourner|laufen\s+sehen|beim\s+laufen|lo\s+he\s+visto\s+(?:correr|funcionar)"
    r"|à\s+l['\u2019]exécution|lors\s+de\s+l['\u2019]exécution|essai\s+(?:de|réussi)|le\s+test\s+(?:de\s+\S+\s+)?(?:a|est)\s+réussi|la\s+prueba|al\s+ejecutar\w*|en\s+la\s+ejecución)\b",
    re.IGNORECASE,
)
"""A run as a noun."""
_SOME_S: Final = (
    r"(?:\d+|a\s+few|some|several|unos|unas|varios|quelques|ein\s+paar|einige)\s+"
    r"(?:s|secs?|seconds?|sekunden|secondes?|segundos|minutes?|minuten|minutos)\b"
)
_WATCHED: Final = Worded(
    r"\b(?:kept\s+an\s+eye|watched|monitored|observed|left|let|beobacht\w+|zugeschaut|zugesehen|surveill\w+|observ\w+|laiss\w+"
    rf"|regard\w+|dej[éa]\w*|tuve|vigil\w+)\b[^.?!\n]{{0,40}}?\b{_SOME_S}"
    r"|\b(?:gave|given)\s+\S+\s+a\s+(?:whirl|go|spin|try|run)\b|\bfired\s+(?:\S+\s+)?up\b",
    re.IGNORECASE,
)
"""Somebody watched a program for some time, or tried it, in other words."""
_NOT_THERE: Final = Worded(
    r"\b(?:there\s+(?:is|are)\s+no|(?:does|do)(?:\s+not|n['\u2019]t)\s+exist|not\s+found|(?:could|did)(?:\s+not|n['\u2019]t)\s+find|is\s+missing|pas\s+trouvé|nicht\s+finden|nicht\s+da|no\s+(?:he\s+)?encontr\w+"
    r"|gibt\s+es\s+(?:hier\s+)?kein\w*|existiert\b[^.?!\n]{0,40}\bnicht|nicht\s+gefunden|n['\u2019]y\s+a\s+pas|n['\u2019]existe\s+pas|introuvable"
    r"|no\s+hay|no\s+existe|no\s+se\s+encontró)\b",
    re.IGNORECASE,
)

_UNCHANGED: Final = re.compile(
    r"\b(?:unchanged|untouched|as\s+it\s+was|unverändert|so\s+gelassen|inchangée?|tel(?:le)?\s+quel(?:le)?|sin\s+(?:cambios|cambiar|tocar)"
    r"|como\s+estaba)\b",
    re.IGNORECASE,
)
_STILL: Final = re.compile(rf"{_UNCHANGED.pattern}|\b(?:still|noch|toujours|encore|todavía|aún|sigue)\b", re.IGNORECASE)
"""What a sentence says that tells of something as it was."""
_NEXT: Final = re.compile(
    r"\b(?:possible|next|suggest\w*|möglich|nächste[rs]?|prochaine?|suivante?|posible|próxim[oa]|siguiente)\b",
    re.IGNORECASE,
)
"""The words that may come after."""
_GONE: Final = Worded(
    r"\b(?:deleted|removed|gone|cleaned|weg|gelöscht|entfernt|aufgeräumt|supprimée?s?|effacée?s?|enlevée?s?|nettoyée?s?|borrad\w+"
    r"|eliminad\w+|quitad\w+|limpi\w+)\b",
    re.IGNORECASE,
)
_NEVER: Final = re.compile(rf"\b{NOT}\b|n['\u2019]t\b", re.IGNORECASE)
_NOW: Final = re.compile(
    r"\b(?:now|again|jetzt|nun|wieder|maintenant|à\s+nouveau|ahora|ya|de\s+nuevo)\b", re.IGNORECASE
)
_EMPHASIS: Final = re.compile(r"\*\*|__(?=\w)|(?<=\w)__")
_BULLETS: Final = re.compile(rf"(?:^[ \t]*(?:[-*\u2022]|\d+[.)])[ \t]+`?{FILE}[^\n]*(?:\n|\Z)){{2,}}", re.MULTILINE)
"""Lines of a list that begin with a file."""
_BY_ITSELF: Final = Worded(
    r"\b(?:end(?:ed|s)|finish(?:ed|es)|stop(?:ped|s)|terminate[ds]|exit(?:ed|s))\s+(?:by\s+itself|on\s+its\s+own)\b"
    r"|\bvon\s+(?:selbst|allein\w*)\s+(?:be)?ende\w*|\b(?:be)?ende\w*\s+(?:sich\s+)?von\s+(?:selbst|allein\w*)"
    r"|\bs['\u2019](?:est|arrête|termine)\s*(?:terminé\w*|arrêté\w*)?\s+(?:tout\s+seul|de\s+lui-même)"
    r"|\b(?:terminó|acabó|paró|termina|acaba|para)\s+(?:por\s+sí\s+)?sol[oa]\b",
    re.IGNORECASE,
)
_NO_ERROR: Final = re.compile(
    r"\bningún\s+(?:fallo|error)\b|\baucun(?:e)?\s+(?:erreur|problème|plantage)\b|\b(?:no|any|without)\s+errors?\b(?!\s+(?:message|handling))|\b(?:does\s+not|doesn't|did\s+not|didn't|dont|don't)\s+(?:crash|fail)\b"
    r"|\b(?:kein\w*|ohne)\s+fehler\b|\bstürzt\s+nicht\s+ab\b|\bne\s+plante\s+p(?:as|lus)\b|\b(?:aucune|sans)\s+erreurs?\b"
    r"|\bno\s+(?:da|dio|hay|hubo|falla|tiene)\b[^.?!\n]{0,12}(?:error\w*|\bfalla\b|$)|\bsin\s+errores\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Claims:
    """What a final message says that it did."""

    targets: tuple[Target, ...] = ()
    """Files that it says it made, changed, deleted or moved."""
    changed: bool = False
    """It says that something was changed."""
    fixed: bool = False
    """It says that something was repaired."""
    ran: tuple[Program, ...] = ()
    """Programs that it says it ran."""
    run_on: tuple[str, ...] = ()
    """Computers on each of which it says something ran."""
    given: tuple[str, ...] = ()
    """What it says a program got."""
    runs: bool = False
    """It says that something was run or tested."""
    works: bool = False
    """It says that something works."""
    works_now: bool = False
    """It says that something works now, as if it had not before."""
    printed: tuple[Output, ...] = ()
    """Texts that it says a program printed."""
    prints: tuple[Output, ...] = ()
    """Texts that it says a program prints."""
    kept: tuple[str, ...] = ()
    """Files that it says it left as they were."""
    there: tuple[str, ...] = ()
    """Files that it says are still there."""
    not_ran: tuple[str, ...] = ()
    """Programs that it says it did not run."""
    together: tuple[tuple[str, ...], ...] = ()
    """Lists of files that it names."""
    undone: tuple[tuple[Deed, str], ...] = ()
    """What it says was not done, and with which files."""
    deleted: bool = False
    """It says that something is gone."""
    told_of: tuple[str, ...] = ()
    """Files that it tells of, where it denies nothing, supposes nothing and orders nothing."""
    changed_on: tuple[str, ...] = ()
    """Computers on which it says it changed something."""
    numbers: tuple[str, ...] = ()
    """Numbers that it names where it tells of a run."""
    run_text: str = ""
    """Its sentences that tell of a run."""
    blocks: tuple[str, ...] = ()
    """The lines of its fenced blocks."""
    pairs: tuple[str, ...] = ()
    """Pairs such as ``mode=auto`` that it names."""
    lines: tuple[tuple[str, str], ...] = ()
    """(file, quotation): what it says a file has, as in ``- a.lua: "hello"``."""
    citations: tuple[str, ...] = ()
    """What it quotes."""
    states: tuple[str, ...] = ()
    """The texts that it says are in some file."""
    keeps_all: bool = False
    """It says that it changed nothing."""
    deletes_nothing: bool = False
    by_itself: bool = False
    """It says that a program ended by itself."""
    no_error: bool = False
    """It says that there was no error."""
    not_run: bool = False
    """It says itself that something was not run."""
    failed: bool = False
    """It tells of an error."""
    no_need: bool = False
    """It says that something was so already."""
    not_there: bool = False
    """It says that something does not exist."""


def claims(text: str, computers: Sequence[str] = (), got: frozenset[str] = frozenset()) -> Claims:
    """What a final message claims; ``computers``: those of the task; ``got``: what its runs got."""
    text = _EMPHASIS.sub("", text[:MAX_CHARS])
    told = _Told(computers, got)
    told.together += [files(one[0]) for one in with_file(_BULLETS, text)]
    every = sentences(text)
    for sentence in dict.fromkeys(every):
        told.take(sentence)
    outputs = printed(text)
    return Claims(
        targets=tuple(dict.fromkeys(told.targets)),
        changed=any(not one.is_state for one in told.targets) or claims_change(text),
        fixed=told.fixed,
        ran=tuple(dict.fromkeys(told.ran)),
        run_on=tuple(dict.fromkeys(told.run_on)),
        given=tuple(dict.fromkeys(told.gave)),
        runs=told.runs or not all(one.of_line for one in outputs),
        works=told.works,
        works_now=told.works and _NOW.search(text) is not None,
        printed=outputs,
        prints=prints(text),
        kept=tuple(dict.fromkeys(told.left)),
        there=still_there(text),
        not_ran=tuple(dict.fromkeys(told.denied)),
        together=tuple(dict.fromkeys(one for one in told.together if len(one) > 1)),
        undone=tuple(dict.fromkeys(told.undone)),
        deleted=_GONE.search(text) is not None,
        told_of=tuple(dict.fromkeys(told.told_of)),
        changed_on=tuple(dict.fromkeys(told.changed_on)),
        numbers=tuple(dict.fromkeys(told.figures)),
        run_text="\n".join(told.of_runs),
        blocks=blocks(text),
        states=states(text),
        pairs=pairs(text),
        lines=lines(text),
        citations=citations(text),
        keeps_all=any(keeps_all(one) and not named_in(one, computers) for one in every),
        deletes_nothing=deletes_nothing(text),
        by_itself=any(_BY_ITSELF.search(one) and not _NEVER.search(one) for one in every),
        no_error=_NO_ERROR.search(text) is not None,
        not_run=told.not_run,
        failed=_FAILED.search(text) is not None,
        no_need=_NO_NEED.search(text) is not None,
        not_there=_NOT_THERE.search(text) is not None,
    )


@dataclass
class _Told:
    """What the sentences of a final message claim, one after the other."""

    computers: Sequence[str]
    got: frozenset[str]
    targets: list[Target] = field(default_factory=list)
    ran: list[Program] = field(default_factory=list)
    run_on: list[str] = field(default_factory=list)
    gave: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    together: list[tuple[str, ...]] = field(default_factory=list)
    undone: list[tuple[Deed, str]] = field(default_factory=list)
    told_of: list[str] = field(default_factory=list)
    changed_on: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    of_runs: list[str] = field(default_factory=list)
    """The sentences that tell of a run."""
    runs: bool = False
    works: bool = False
    not_run: bool = False
    fixed: bool = False

    def take(self, sentence: str) -> None:
        """One more sentence."""
        left = told_phrases.undone(sentence)
        plain = told_phrases.plain((told_phrases.done(sentence) if left else "") or sentence)
        every = [*said_in(plain, report)]
        # "I did not touch a.lua" has the verb as an order has it.
        either = [*every, *said_in(plain, order)]
        every += self._box(sentence)
        self.left += [*kept(plain, either, order=False), *told_phrases.kept(sentence)]
        self.undone += left
        if not left:
            self.targets += [Target(deed, (name,), is_state=True) for deed, name in told_phrases.states(plain)]
        named = files(sentence)
        if len(named) == 1 and _UNCHANGED.search(sentence):
            self.undone += [(Deed.CHANGE, named[0])]
        for one in (one for one in either if one.negated and one.deed in CHANGES):
            objects = [name for name, joined in one.files if joined == ""] or one.before[-1:]
            self.undone += [(one.deed, name) for name in objects]
            self.undone += [(part.deed, name) for part in targets_of(one, ()) for name in part.names]
        self.told_of += named if named and _tells(sentence) else ()
        self.denied += [name for one in either if one.deed is Deed.RUN and one.negated for name, _ in one.files]
        self.together += lists(sentence, ())
        for said in (one for one in every if not (one.negated or one.modal)):
            # "I started neither of them."
            if said.deed is Deed.RUN and (said.files or said.before or not _NOT_RUN.search(sentence)):
                self._run(said, sentence, every)
            elif said.deed in CHANGES:
                self._change(said, named_in(sentence, self.computers))
        not_run = (_NOT_RUN.search(plain) or told_phrases.NOT_RUN.search(sentence)) is not None
        self.runs = self.runs or (not not_run and any(one.search(sentence) for one in (_RUN_NOUN, _WATCHED)))
        self.not_run |= not_run
        self.works = (
            self.works
            or any(_claims_work(clause) for clause in _CLAUSES.split(sentence))
            or (not not_run and told_phrases.claims_work(plain))
        )

    def _box(self, sentence: str) -> list[Said]:
        """The deeds that a checked line of a to-do list says were done; of an open line, those that were not."""
        if (line := told_phrases.box(sentence)) is None:
            return []
        is_checked, wish = line
        said = said_in(wish, order)
        if is_checked:
            self.left += kept(wish, said, order=True)
            return [one for one in said if not one.negated]
        self.not_run |= any(one.deed is Deed.RUN for one in said)
        self.undone += [(part.deed, name) for one in said for part in targets_of(one, ()) for name in part.names]
        return []

    def _run(self, said: Said, sentence: str, every: Sequence[Said]) -> None:
        on = ran_on(sentence, every, self.computers)
        names = [name for name, joined in said.files if joined in ("", "of")] or [*said.before]
        self.runs = True
        self.ran += [Program(name, on) for name in names]
        self.run_on += on
        self.figures += numbers(sentence)
        self.gave += given(sentence, self.got)
        self.of_runs.append(sentence)

    def _change(self, said: Said, there: tuple[str, ...]) -> None:
        is_one = len(there) == 1
        self.fixed |= said.deed is Deed.FIX
        self.changed_on += there if is_one and said.deed not in (Deed.COPY, Deed.MOVE) else ()
        self.targets += [replace(one, computers=there) if is_one else one for one in targets_of(said, ())]


def _tells(sentence: str) -> bool:
    """Whether a sentence denies nothing, supposes nothing and orders nothing."""
    advises = any(one.is_open and one.deed is not Deed.OTHER for one in said_in(sentence, order))
    return not advises and not any(one.search(sentence) for one in (_NEVER, _STILL, MAYBE, _NEXT))


def _claims_work(clause: str) -> bool:
    return _WORKS.search(clause) is not None and not MAYBE.search(clause) and not _NOT_RUN.search(clause)
