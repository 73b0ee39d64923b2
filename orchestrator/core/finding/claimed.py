"""What a final message claims, as far as its words say."""

import re
from dataclasses import dataclass
from typing import Final

from orchestrator.core.finding.asking import claims_change
from orchestrator.core.finding.reading import said_in
from orchestrator.core.finding.wanted import Target, targets_of
from orchestrator.core.finding.words import CHANGES, MAX_CHARS, Deed, report, sentences

_NOT_AFTER: Final = r"(?:getestet|ausgeführt|gestartet|probiert)\b[^.?!\n,;]{0,20}\bnicht"
_CLAUSES: Final = re.compile(
    r"[,:]\s+|\s+[-\u2013\u2014]+\s+|\b(?:but|aber|mais|pero|sondern|although|obwohl)\b", re.IGNORECASE
)
_NOT: Final = r"(?:not|never|n't|n\u2019t|without|nicht|nie|ohne|kein\w*|pas|jamais|sans|no|nunca|sin)"
_RUN_WORDS: Final = (
    r"(?:ran|run|running|execut\w+|test\w*|tried|try|launch\w*|start(?:ed)?|verif\w+|ausgeführt|auszuführen|gestartet"
    r"|getestet|zu\s+testen|probiert|exécut\w+|lanc\w+|essay\w+|ejecut\w+|prob\w+|corr(?:er|ido|í)|laufen)"
)
_NOT_RUN: Final = re.compile(
    rf"\b{_NOT}\b[^.?!\n,;]{{0,40}}\b{_RUN_WORDS}\b|\b(?:haven|didn|couldn|wasn|hasn|weren)['\u2019]t\b[^.?!\n,;]{{0,40}}\b{_RUN_WORDS}\b"
    rf"|\bn['\u2019](?:ai|a|est|ont)\b[^.?!\n,;]{{0,20}}\bpas\b[^.?!\n,;]{{0,20}}\b{_RUN_WORDS}\b"
    r"|\b(?:no|aucune?|kein\w*|ningun[oa]?)\s+(?:test|run|prueba|essai|ejecución|lauf|exécution)\b|\btest\b[^?!\n]{0,40}\bnicht\s+statt\b"
    r"|\bi\s+did(?:n't|\s+not)\s*(?:[.!]|\Z)|\bnicht\s+getan\b|\bpas\s+fait\b|\bno\s+lo\s+he\s+hecho\b|\brun\s+it\s+yourself\b"
    r"|\bselbst\s+(?:ausführen|starten|testen)\b|\b(?:lance|teste|exécute)-l[ea]\s+toi\b|\bejecútal[oa]\s+tú\b"
    rf"|\b{_NOT_AFTER}\b|\b(?:untested|ungetestet|nicht\s+getestet|non\s+test\w+|sin\s+probar)\b",
    re.IGNORECASE,
)
_WORKS: Final = re.compile(
    r"\b(?:it|they|everything|all|program|script|code|that|this|file|now|\w+\.lua)\s+(?:now\s+|all\s+|also\s+|both\s+)?works?\b(?!\s+(?:by|like|as\s+follows|with|in|on|for|from|through))"
    r"|\bworks?\s+(?:now|fine|well|correctly|properly|perfectly|again|as\s+(?:expected|intended|wanted|it\s+should))\b"
    r"|\b(?:is|are)\s+(?:now\s+)?working\b"
    r"|\bruns?\s+(?:now|fine|well|correctly|properly|successfully|again|as\s+expected|without)\b"
    r"|\b(?:tests?|checks?)\s+(?:have\s+|has\s+)?(?:all\s+)?pass(?:ed|es)?\b|\ball\s+(?:tests\s+)?pass(?:ed)?\b"
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
_MAYBE: Final = re.compile(
    r"\b(?:should|would|could|can|will|may|might|must|if|then|when|once|unless|until|to\s+(?:run|test|try|start|execute)|soll\w*|würden?"
    r"|kann(?:st)?|können|wird|dann|wenn|falls|sobald|devrait|peut|peux|pouvez|pourra|alors|fonctionnera|marchera|pour\s+(?:tester|lancer|exécuter)|si|quand"
    r"|debería|puedes?|podrás?|cuando|entonces|funcionará|para\s+(?:probar|ejecutar))\b",
    re.IGNORECASE,
)
_QUOTED: Final = (
    r"(?:[\"'`\u201c\u201e\u00ab]\s*(?P<quoted{n}>[^\"'`\u201c\u201d\u00ab\u00bb\n]{{1,200}}?)\s*[\"'`\u201d\u201c\u00bb]"
    r"|(?P<number{n}>-?\d+(?:[.,]\d+)?)\b|```\w*\n(?P<fenced{n}>[^`]{{1,2000}}?)\n?```)"
)
_PAST: Final = (
    r"printed|output(?:\s+of\s+\S+)?(?:\s+was|\s+is)?|got|gave|results?(?:\s+was|\s+is)?|outputted|displayed|showed|returned|said|gab|ergab|druckte|zeigte|schrieb|ergebnis(?:\s+war|\s+ist)?|ausgabe"
    r"(?:\s+(?:von|war|ist)(?:\s+\S+\s+war)?)?|affiché|imprimé|montré|donné|écrit|résultat(?:\s+était|\s+est)?|sortie(?:\s+de\s+\S+)?(?:\s+était|\s+est)?|impreso|imprimió|mostrado"
    r"|mostró|dio|dado|escribió|gives|wrote|resultado(?:\s+fue|\s+es)?|salida(?:\s+de\s+\S+)?(?:\s+fue|\s+era|\s+es)?"
)
_PRINTED: Final = re.compile(
    rf"\b(?:{_PAST})\b(?:\s+\S+\.lua)?(?:\s+(?:die\s+zahl|the\s+number|le\s+nombre|el\s+número))?\s*:?\s*{_QUOTED.format(n=1)}"
    rf"(?!\s*(?:s|seconds?|sekunden|secondes|segundos|times|mal|fois|veces|lines?|zeilen|lignes|líneas|errors?|bytes?|files?|dateien|fichiers|archivos|blocks?|blöcke|blocs|bloques|characters)\b)|\bhat\s+{_QUOTED.format(n=2)}\s+(?:ausgegeben|gedruckt|angezeigt)\b",
    re.IGNORECASE,
)
"""What a program is said to have printed: a quotation, a number or a block."""
_PRINTS: Final = re.compile(
    rf"\b(?:prints|outputs|displays|shows|affiche|imprime|muestra)\b\s*:?\s*{_QUOTED.format(n=1)}"
    rf"|\bgibt\s+{_QUOTED.format(n=2)}\s+aus\b",
    re.IGNORECASE,
)
"""What a program is said to print: a claim where it ran, else a description."""
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
_RUN_NOUN: Final = re.compile(
    r"\b(?:the\s+run\s+of|der\s+lauf|l['\u2019]exécution\s+de|la\s+ejecución\s+de|après\s+le\s+lancement|tras\s+(?:iniciar|ejecutar)\w*"
    r"|when\s+started|nach\s+dem\s+start|test\s+runs?|tests?\s+(?:was|were)|after\s+running|testlauf|probelauf|beim\s+(?:ausführen|test|lauf)|nach\s+dem\s+(?:ausführen|start)"
    r"|à\s+l['\u2019]exécution|lors\s+de\s+l['\u2019]exécution|essai\s+(?:de|réussi)|le\s+test\s+(?:de\s+\S+\s+)?(?:a|est)\s+réussi|la\s+prueba|al\s+ejecutar\w*|en\s+la\s+ejecución)\b",
    re.IGNORECASE,
)
"""A run as a noun."""
_NOT_THERE: Final = re.compile(
    r"\b(?:there\s+(?:is|are)\s+no|(?:does|do)(?:\s+not|n['\u2019]t)\s+exist|not\s+found|(?:could|did)(?:\s+not|n['\u2019]t)\s+find|is\s+missing|pas\s+trouvé|nicht\s+finden|nicht\s+da|no\s+(?:he\s+)?encontr\w+"
    r"|gibt\s+es\s+(?:hier\s+)?kein\w*|existiert\b[^.?!\n]{0,40}\bnicht|nicht\s+gefunden|n['\u2019]y\s+a\s+pas|n['\u2019]existe\s+pas|introuvable"
    r"|no\s+hay|no\s+existe|no\s+se\s+encontró)\b",
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
    ran: tuple[str, ...] = ()
    """Programs that it says it ran."""
    runs: bool = False
    """It says that something was run or tested."""
    works: bool = False
    """It says that something works."""
    printed: tuple[str, ...] = ()
    """Texts that it says a program printed."""
    prints: tuple[str, ...] = ()
    """Texts that it says a program prints."""
    not_run: bool = False
    """It says itself that something was not run."""
    failed: bool = False
    """It tells of an error."""
    no_need: bool = False
    """It says that something was so already."""
    not_there: bool = False
    """It says that something does not exist."""


def claims(text: str) -> Claims:
    """What a final message claims."""
    text = text[:MAX_CHARS]
    targets: list[Target] = []
    ran: list[str] = []
    runs = works = not_run = fixed = False
    for sentence in sentences(text):
        for said in said_in(sentence, report):
            if said.negated or said.modal:
                continue
            if said.deed is Deed.RUN:
                runs = True
                ran += [name for name, joined in said.files if joined in ("", "of")] or said.before
            elif said.deed in CHANGES:
                fixed = fixed or said.deed is Deed.FIX
                targets += targets_of(said, ())
        runs = runs or (_RUN_NOUN.search(sentence) is not None and not _NOT_RUN.search(sentence))
        not_run = not_run or _NOT_RUN.search(sentence) is not None
        works = works or any(_claims_work(clause) for clause in _CLAUSES.split(sentence))
    printed = _texts(_PRINTED, text)
    return Claims(
        targets=tuple(dict.fromkeys(targets)),
        changed=bool(targets) or claims_change(text),
        fixed=fixed,
        ran=tuple(dict.fromkeys(ran)),
        runs=runs or bool(printed),
        works=works,
        printed=printed,
        prints=_texts(_PRINTS, text),
        not_run=not_run,
        failed=_FAILED.search(text) is not None,
        no_need=_NO_NEED.search(text) is not None,
        not_there=_NOT_THERE.search(text) is not None,
    )


def _claims_work(clause: str) -> bool:
    return _WORKS.search(clause) is not None and not _MAYBE.search(clause) and not _NOT_RUN.search(clause)


def _texts(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    """What the pattern says was printed, but where its sentence denies it or only supposes it."""
    found = []
    for one in pattern.finditer(text):
        sentence = re.split(r"[.!?;\n]", text[: one.start()])[-1]
        said = next(group for name, group in one.groupdict().items() if group is not None)
        if not (_MAYBE.search(sentence) or re.search(rf"\b{_NOT}\b", sentence, re.IGNORECASE)):
            found.append(said.strip())
    return tuple(dict.fromkeys(found))
