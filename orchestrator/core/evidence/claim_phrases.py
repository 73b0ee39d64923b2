"""Phrases of a final message that report a change without a verb before its file.

Three forms are heard. A phrase for a deed is said again with a plain verb ("Creation of a.lua complete" is "created
a.lua"), so that the reading of sentences, with its negations and conditions, works for it too. A phrase for a state
("b.lua is gone") asks for less than a deed: it may have been so before. And a final tells which files stayed as they
were, which deeds were not done, which programs did not run and which work.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from orchestrator.core.evidence.patterns import FILE, Rows, Worded, with_file
from orchestrator.core.evidence.quotations import MAYBE, NOT
from orchestrator.core.evidence.words import CHANGES, Deed, files, order, report, tokens

_HAS_FILE: Final = re.compile(FILE, re.IGNORECASE)
_A: Final = rf"(?P<a>{FILE})"
_B: Final = rf"(?P<b>{FILE})"
_NOW: Final = r"(?:now|jetzt|nun|maintenant|désormais|à\s+présent|ahora|ya)"
_THE: Final = (
    r"(?:(?:a|an|the|its|your|my|new|file|ein\w*|de[mnrs]|d[iu]e|das|datei|deine?\w*|neue\w*|une?|le|la|les|l'|fichier|ton|ta"
    r"|nouve\w+|una?|el|archivo|fichero|nuev[oa]|tu|small|kleine\w*|petit|pequeño|called|named|namens|nommé|llamado)\s+){0,3}"
)
"""Small words before the name of a file."""
_PAST: Final = {
    Deed.MAKE: "created",
    Deed.CHANGE: "changed",
    Deed.FIX: "fixed",
    Deed.DELETE: "deleted",
    Deed.MOVE: "moved",
    Deed.COPY: "copied",
    Deed.RUN: "ran",
}


def _any(text: str) -> re.Pattern[str]:
    return re.compile("|".join(text.split()), re.IGNORECASE)


_NOUNS: Final = {
    Deed.MAKE: _any(
        "creat(?:ion|ing) generation writing anlage anlegen erstell(?:ung|en) création creación generación"
    ),
    Deed.FIX: _any(
        "(?:bug)?fix fixing repair(?:ing)? correction korrektur reparatur behebung correctif réparation"
        " corrección arreglo reparación"
    ),
    Deed.CHANGE: _any(
        "change changes changing update updating modification modifications edit adjustment änderung(?:en)? anpassung"
        " aktualisierung überarbeitung changement ajustement cambio modificación actualización ajuste"
    ),
    Deed.DELETE: _any(
        "delet(?:ion|ing) remov(?:al|ing) löschung löschen entfern(?:ung|en) suppression eliminación borrado"
    ),
    Deed.MOVE: _any(
        "mov(?:e|ing) renam(?:e|ing) relocation umbenenn(?:ung|en) verschieb(?:ung|en) déplacement renommage traslado"
        " renombrado cambio\\s+de\\s+nombre"
    ),
    Deed.COPY: _any("copy(?:ing)? backup kopie kopieren sicherung(?:skopie)? copie sauvegarde copia respaldo"),
    Deed.RUN: _any(
        "(?:test\\s?)?run execution launch (?:test|probe)?lauf ausführung exécution lancement essai"
        " ejecución lanzamiento prueba"
    ),
}
"""Each deed as a noun."""
_NOUN: Final = "|".join(pattern.pattern for pattern in _NOUNS.values())
_OF: Final = (
    r"(?:\s+(?:de\s+(?:seguridad|sauvegarde|respaldo|prueba)|test))?"
    r"(?:\s+(?:que\s+querías|you\s+wanted|voulue?|deseada?))?\s+(?:of|to|in|von|an|de|del|dans|en|a)\s+"
)
_DONE: Final = (
    r"(?:done|complete[d]?|finished|successful|is\s+in|erledigt|fertig|abgeschlossen|beendet|erfolgt|vorgenommen|drin"
    r"|faite?s?|terminée?s?|efectuad[oa]s?|effectuée?s?|réalisée?s?|réussie?s?|hech[oa]s?|terminad[oa]s?|completad[oa]s?|realizad[oa]s?)\b"
)


_DENIED: Final = re.compile(rf"\W*\b(?:{NOT}|none|nothing|failed|nichts|rien|nada)\b|n't\b", re.IGNORECASE)


def _deed_of(noun: str) -> Deed:
    return next(deed for deed, pattern in _NOUNS.items() if pattern.fullmatch(noun))


def _nominal(found: re.Match[str]) -> str:
    """The noun as a verb before its file, where nothing is denied or supposed."""
    behind = found.string[found.end() : found.end() + 20]
    if _DENIED.search(found[0]) or MAYBE.search(found.string) or (found[0].endswith(":") and _DENIED.match(behind)):
        return found[0]
    return f"{_PAST[_deed_of(found['noun'])]} {found['rest']} "


_PRETERITES: Final = (
    (re.compile(r"(?:ió|ieron|í)\Z"), "ido"),
    (re.compile(r"qu(?:é|ó)\Z"), "cado"),
    (re.compile(r"(?:ó|aron|é)\Z"), "ado"),
)
_IRREGULAR: Final = {"corrigió": "corregido", "sustituyó": "sustituido", "puso": "puesto", "sustituí": "sustituido"}


def _preterite(found: re.Match[str]) -> str:
    """A Spanish preterite as the participle, where that tells a deed."""
    word = found["word"].lower()
    done = _IRREGULAR.get(word, "")
    for ending, participle in () if done else _PRETERITES:
        done = done or (ending.sub(participle, word) if ending.search(word) else "")
    return found[0] if report(done) is None else f"{found['se']} {done}"


def _just(found: re.Match[str]) -> str:
    """The infinitive behind "have just" or "managed to" as done."""
    word = next(iter(tokens(found["word"])), None)
    deed = order(word.text) if word is not None and not word.is_file else None
    return _PAST[deed] if deed in _PAST else found[0]


def _found_now(found: re.Match[str]) -> str:
    """A place where a file is now found, as a move."""
    now = re.search(rf"\b{_NOW}\b", found[0], re.IGNORECASE)
    return f"moved {found['a']} to {found['b']}" if now else found[0]


_Plain = str | Callable[[re.Match[str]], str]
_PHRASES: Final = Rows[_Plain](
    (re.compile(pattern, re.IGNORECASE), plain)
    for pattern, plain in (
        (
            r"\b(?:ohne|sans|without|sin)\s+(?:any\s+)?(?:arguments?|argumente?|parameters?|parameter|argumentos?)\b",
            " ",
        ),
        (r"\bno\s+hubo\s+(?:ningún\s+)?(?:error(?:es)?|problemas?|fallos?)\b", " well "),
        # Infinitives that are done.
        (
            r"\b(?:acab(?:o|amos)\s+de|(?:je\s+viens|nous\s+venons)\s+(?:de\s+|d')(?=\w)|(?:managed|was\s+able)\s+to"
            r"|réussi\s+à|(?:logré|conseguí|he\s+(?:logrado|conseguido)))\s*(?P<word>\w+)",
            _just,
        ),
        (rf"\bgeschafft,?\s+(?P<a>{_THE}{FILE})\s+zu\s+(?P<word>\w+)", lambda found: f"{_just(found)} {found['a']}"),
        (r"\b(?P<se>se|me|)\s*\b(?P<word>\w+(?:é|í|qué))(?=\s)", _preterite),
        (r"\b(?P<se>se)\s+(?P<word>\w+(?:ó|aron|ieron)|puso)\b", _preterite),
        (r"\b(?:se\s+ha\s+)?puest[oa]s?\s+en\s+marcha\b|\b(?:se\s+)?pus[eo]\s+en\s+marcha\b", "ejecutado"),
    )
)
"""Phrases that need no file."""

_OF_FILES: Final = Rows[_Plain](
    (re.compile(pattern, re.IGNORECASE), plain)
    for pattern, plain in (
        # "Moved: docs/a.txt" leaves open whether that is the old place or the new one.
        (
            rf"\A\W*(?P<word>\w+)\s*:\s*{_A}\W*\Z",
            lambda found: "" if report(found["word"].lower()) is Deed.MOVE else found[0],
        ),
        # Names.
        (
            r"(?:\b(?:das|le|el)\s+[^\W\d]+,?\s+(?:das\s+(?:bisher|vorher)|qui\s+s'appelait|que\s+se\s+llamaba)\s+)?"
            rf"{_A}(?:\s+hieß,?)?\s+(?:is\s+now\s+(?:(?:called|named)\s+)?|now\s+goes\s+by\s+the\s+name\s+|(?:heißt|ist)\s+(?:jetzt|nun)\s+"
            r"|trägt\s+(?:jetzt|nun)\s+den\s+namen\s+|(?:s'appelle|est|porte)\s+(?:maintenant|désormais)\s+(?:le\s+nom\s+)?"
            rf"|(?:se\s+llama|es|lleva)\s+ahora\s+(?:el\s+nombre\s+)?|(?:ahora|ya)\s+se\s+llama\s+){_B}(?!'s)",
            r"moved \g<a> to \g<b>",
        ),
        (
            rf"{_A}\W{{1,4}}(?:now\s+(?:lives|is|sits)|is\s+now|(?:liegt|steht|ist)\s+(?:jetzt|nun)|se\s+trouve\s+(?:maintenant|désormais)"
            rf"|ahora\s+está|está\s+ahora)\s+(?:at|in|under|unter|dans|sous|en)\s+{_B}",
            r"moved \g<a> to \g<b>",
        ),
        (
            rf"(?:{_NOW}\s+)?\b(?:find|findest|finden|trouver\w+|encontrar\w+|encuentras)\s+(?:(?:du|sie|{_NOW})\s+)?{_A}\s+"
            rf"(?:{_NOW}\s+)?(?:under|at|in|unter|sous|dans|en)\s+{_B}",
            _found_now,
        ),
        (
            rf"{_A}\s+(?:is\s+no\s+longer|(?:liegt|ist|steht)\s+nicht\s+mehr|n'est\s+plus|ya\s+no\s+está)\b[^.;,\n]{{0,40}},"
            rf"\s+(?:but|sondern|mais|sino)\s+(?:in|at|unter|dans|en)\s+{_B}",
            r"moved \g<a> to \g<b>",
        ),
        (
            rf"\b(?:gave|donné\s+à|d[ií]\s+a)\s+{_A}\s+(?:its|the|son|su)\s+(?:new|nouveau|nuevo)\s+(?:name|nom|nombre),?\s+{_B}",
            r"moved \g<a> to \g<b>",
        ),
        (rf"{_A}\s+den\s+(?:neuen\s+)?namen\s+{_B}\s+gegeben\b", r"moved \g<a> to \g<b>"),
        (
            rf"\b(?:name|dateinamen?|namen|nom|nombre)\s+(?:(?:du\s+fichier|de\s+archivo|del\s+archivo)\s+)?"
            rf"(?:(?:changed|changé|cambiado)\s+)?(?:from|of|von|de)\s+{_A}\s+(?:to|in|zu|en|a|por|à)\s+{_B}",
            r"moved \g<a> to \g<b>",
        ),
        (rf"\b(?:renamed|renommé|rebaptisé)\s+{_A}\s+{_B}", r"moved \g<a> to \g<b>"),
        (
            rf"\b(?:shifted|transferred|transférée?|rangée?|transferid[oa])\s+{_A}\s+(?:over\s+)?(?:to|vers|dans|a)\s+{_B}"
            rf"|(?P<a2>{FILE})\s+(?:has|have|was|were|been|a|été|fue|ha|sido|\s){{1,4}}?"
            rf"(?:shifted|transferred|transférée?|rangée?|transferid[oa])\s+(?:over\s+)?(?:to|vers|dans|a)\s+(?P<b2>{FILE})",
            lambda found: f"moved {found['a'] or found['a2']} to {found['b'] or found['b2']}",
        ),
        (rf"\bput\s+{_A}\s+away\s+as\s+", r"moved \g<a> to "),
        # Copies.
        (
            rf"\b(?:backed\s+up|saved|sauvegardé|respaldado)\s+{_A}\s+(?:dans|sous|to|as|en|como)\s+{_B}",
            r"copied \g<a> to \g<b>",
        ),
        (rf"{_A}\s+nach\s+{_B}\s+gesichert\b", r"copied \g<a> to \g<b>"),
        # What was wrong in a file.
        (
            rf"(?<![\w.])(?:in|of|von|de|dans|en)\s+{_A}\s+(?:(?:has|have|been|is|ist|now|nun|jetzt|a|été|est|maintenant|ha|ya)\s+){{0,3}}"
            r"(?:put\s+right|gone|resolved|solved|weg|gelöst|behoben|beseitigt|richtiggestellt|disparu|résolue?|juste|desaparecido|resuelt[oa]"
            r"|sale\s+bien)\b",
            r" fixed \g<a>",
        ),
        (
            rf"\b(?:error|bug|issue|problem|culprit|cause|fault|fehler|ursache|erreur|fallo|problema)\b[^.;,\n]{{0,20}}"
            rf"\b(?:in|of|von|de|dans|en)\s+{_A}(?=[^.;\n]{{0,40}}"
            r"(?:put\s+(?:it\s+)?right|resolved|solved|beseitigt|berichtigt|ausgemerzt|rectifiée?|éliminée?|eliminé|eliminado))",
            r" fixed \g<a>",
        ),
        (rf"\b(?:solucioné|solucionado)\s+(?:[^\W\d]+\s+){{1,3}}?(?:de|en)\s+{_A}", r"fixed \g<a>"),
        (
            rf"{_A}\s+(?:no\s+longer\s+(?:crashes|fails)|stürzt\b[^.;,\n]{{0,30}}\bnicht\s+mehr\s+ab|ne\s+plante\s+plus|ya\s+no\s+falla"
            r"|works\s+(?:correctly\s+)?again|läuft\s+wieder|refonctionne|fonctionne\s+à\s+nouveau|vuelve\s+a\s+funcionar)\b",
            r" fixed \g<a> ",
        ),
        # A part of a file.
        (
            rf"(?<![\w.])(?:in|aus|from|out\s+of|dans|de|en)\s+{_A}\s+(?:(?:has|have|been|was|were|wurden?|a|ont|été|ha|sido|fue)\s+)"
            r"{1,3}(?:[^\W\d]+\s+){0,3}?(?:renamed|umbenannt|renommée?s?|renombrad[oa]s?|pasado\s+a\s+llamarse)\b",
            r" changed \g<a> ",
        ),
        (
            rf"\b(?:a\s+comment|einen\s+kommentar|un\s+commentaire|un\s+comentario|took|retiré|herausgenommen)\b[^.;,\n]{{0,40}}?"
            rf"\b(?:of|from|aus|de|del|von|in|en|to)\s+{_A}",
            r" changed \g<a> ",
        ),
        (rf"\bin\s+{_A}\s+habe\s+ich\s+[^.;,\n]{{0,40}}\b(?:ergänzt|hinzugefügt|entfernt)\b", r"changed \g<a>"),
        (
            rf"\b(?:aus|in)\s+{_A}\s+[^.;,\n]{{0,40}}?(?:heraus)?(?:genommen|entfernt|gelöscht|beseitigt|geworfen)\b",
            r"changed \g<a>",
        ),
        (
            rf"\b(?:in|of|von|de|dans|en)\s+{_A}\s+(?:is\s+now|lautet\s+(?:jetzt|nun)|ist\s+(?:jetzt|nun)|est\s+(?:maintenant|désormais)"
            r"|es\s+ahora|está\s+ahora)\b",
            r"changed \g<a>: ",
        ),
        (
            rf"\A\W*{_A}\W{{1,4}}[^.;:,\n]{{0,40}}?\b(?:set\s+to|portée?\s+à|puest[oa]\s+a|auf\s+\S+\s+gesetzt)\b",
            r"changed \g<a>: ",
        ),
        # Deletions.
        (
            r"\bgot\s+rid\s+of\b|\bthrew\s+away\b|\bdébarrassée?\s+d[eu]\b|\bme\s+deshice\s+de\b|\bj'ai\s+jeté\b|\btiré\s+(?=\S+\.\w)",
            "deleted ",
        ),
        (
            rf"{_A}\s+(?:has\s+been|was|is|ist|wurde)\s+(?:taken\s+out\s+of\s+[^.;,\n]{{1,30}}|wiped|aus\s+[^.;,\n]{{1,30}}\s+genommen)",
            r"deleted \g<a>",
        ),
        # New files.
        (
            rf"\b(?:hice|ai\s+fait|put\s+together|set\s+up|verfasst|rédigé|préparé|preparé)\s+(?P<file>{_THE}{FILE})",
            r"created \g<file>",
        ),
        (
            rf"{_A}\s+(?:was|wurde|a\s+été|(?:se|fue))\s+(?:written|drafted|geschrieben|verfasst|rédigée?|écrite?|redactad[oa]|escrit[oa])"
            r"\s+(?=with|mit|avec|con\b)",
            r"created \g<a> ",
        ),
        (rf"\blegten?\s+(?P<file>{_THE}{FILE})(?=[^.;\n]{{0,60}}\ban\b)", r"created \g<file>"),
        # Runs.
        (
            rf"{_A}\s+(?:a\s+tourné|vient\s+de\s+tourner|ist\s+(?:[^\W\d]+\s+)?(?:durch)?gelaufen|corrió|acaba\s+de\s+ejecutarse"
            r"|a\s+été\s+appelée?(?!\s+\S+\.\w)|was\s+called(?!\s+\S+\.\w)|se\s+llamó(?!\s+\S+\.\w))",
            r"ran \g<a> ",
        ),
        (rf"{_A}\W{{1,4}}run\s+(?:once|twice|successfully|again)\b", r"ran \g<a> "),
        (rf"\b(?:let|ließ)\s+{_A}\s+(?:[^\W\d]+\s+)?(?:run|(?:durch)?laufen)\b", r"ran \g<a> "),
        (r"\b(?:hecho|vuelto\s+a|fait)\s+(?:correr|tourner)\s+(?=\S+\.\w)", "ran "),
        (rf"\b(?:called|typed|entered|tapé|escribí|escrito|eingegeben)\s+lua\s+{_A}", r"ran \g<a> "),
        (r"\bhice\s+una\s+(?:prueba|ejecución)\s+de\s+", "ran "),
        (rf"\bführten?\s+{_A}(?=[^.;\n]{{0,30}}\baus\b)", r"ran \g<a> "),
        # "Creation of a.lua complete", "Update of belt.cfg: width 40".
        (
            rf"\b(?P<noun>{_NOUN}){_OF}(?P<rest>{_THE}{FILE}[^.;!?\n]{{0,40}}?(?:{FILE}[^.;!?\n]{{0,30}}?)?)\b{_DONE}",
            _nominal,
        ),
        (rf"\A\W*(?P<noun>{_NOUN}){_OF}(?P<rest>{_THE}{FILE})\s*:", _nominal),
    )
)
"""Phrases that tell of a deed done to a file, with plain verbs for them."""

_EXACT: Final = r"(?:(?:exact|exakte|second|zweite|backup|safety|genaue)\s+)?"
_COPY: Final = (
    rf"\b{_EXACT}(?:copy|backup(?:\s+copy)?|duplicate|kopie|sicherungskopie|sicherung|duplikat|copie|sauvegarde|copia"
    r"|respaldo|(?:deuxième|second)\s+exemplaire|zweite\s+fassung)(?:\s+(?:exacte|exacta|de\s+(?:sauvegarde|secours|seguridad|respaldo)))?"
)
_AT: Final = (
    r"(?:at|in|under|to|as|unter|nach|als|dans|sous|vers|en|a|como|bajo)\s+"
    r"(?:(?:the\s+name|dem\s+namen|le\s+nom|el\s+nombre)\s+)?"
)
_GONE: Final = (
    r"(?:(?:is\s+)?gone|weg|verschwunden|no\s+longer\s+(?:there|exists?|in\s+the\s+[^.;,\n]{1,20})|nicht\s+mehr\s+(?:da|vorhanden)"
    r"|existiert\s+nicht\s+mehr|n'est\s+plus\s+là|n'existe\s+plus|ya\s+no\s+(?:está|existe)|a\s+disparu|ha\s+desaparecido)\b"
)
_IS: Final = r"(?:(?:is|are|ist|sind|est|está|[:\u2013\u2014-])\s+)?"
_STATES: Final = Rows(
    (re.compile(pattern, re.IGNORECASE), deed)
    for deed, pattern in (
        (
            Deed.DELETE,
            rf"(?<!\bin\s)(?<!\bof\s)(?<!\bde\s)(?<!\ben\s)(?<!\bvon\s)(?<!\bdans\s){_A}\s*{_IS}(?:{_NOW}\s+)?{_GONE}",
        ),
        (
            Deed.DELETE,
            rf"\b(?:there\s+is\s+no|gibt\s+es\s+keine?n?|il\s+n'y\s+a\s+plus\s+d[e'u]|ya\s+no\s+hay(?:\s+ningún)?)\s+{_A}"
            r"(?<=.)(?=[^.;\n]{0,40}\b(?:any\s?more|mehr|longer|dans|en)\b)",
        ),
        (
            Deed.MAKE,
            rf"\b(?:there\s+is\s+now|there's\s+now|gibt\s+(?:es\s+)?(?:jetzt|nun)|es\s+gibt\s+(?:jetzt|nun)|il\s+y\s+a\s+(?:maintenant|désormais)"
            rf"|contient\s+(?:maintenant|désormais)|hay\s+ahora|ya\s+hay|liegt\s+(?:jetzt|nun)|now\s+find|existiert\s+(?:jetzt|nun))\s+{_THE}{_A}",
        ),
        (
            Deed.MAKE,
            rf"\A\W*(?:new\s+(?:file|program|script)|neue[sr]?\s+(?:datei|programm|skript)|nouve(?:au|l)\s+(?:fichier|programme|script)"
            rf"|(?:archivo|fichero|programa)\s+nuevo|nuevo\s+(?:archivo|programa))\s*:\s*{_A}",
        ),
        (
            Deed.MAKE,
            rf"\A\W*{_A}\W{{1,4}}(?:new\s+(?:file|program|script)|neue[sr]?\s+(?:datei|programm|skript)|nouve(?:au|l)\s+(?:fichier|programme)"
            r"|(?:archivo|fichero|programa)\s+nuevo|nuevo\s+(?:archivo|programa))\b",
        ),
        (
            Deed.MAKE,
            r"\b(?:new|neue[nrs]?|nouve(?:au|lle)|nuev[oa])\s+(?:file|program|script|datei|programm|skript|programme|fichier|programa|archivo)\s+"
            rf"(?:(?:lives|is|steht|liegt|ist|se\s+trouve|est|está)\s+(?:{_NOW}\s+)?(?:in|at|unter|dans|en)\s+)?{_A}",
        ),
        (
            Deed.MAKE,
            r"\b(?:your|dein\w*|ton|ta|tu)\s+(?:[^\W\d]+\s+){0,2}?(?:is\s+ready|is\s+done|ist\s+fertig|ist\s+bereit|est\s+prête?|está\s+list[oa])"
            rf"\s*:\s*{_A}",
        ),
        (
            Deed.MAKE,
            rf"\b(?:here's|here\s+is|hier\s+ist|voici|aquí\s+tienes|aquí\s+está)\s+(?:your|the|deine?|die|ton|ta|votre|le|tu|su|el)\s+{_A}",
        ),
        (
            Deed.MAKE,
            rf"{_A}\s+(?:is|ist|est|liegt|steht|está)\s+(?:{_NOW}\s+)?(?:there|ready|in\s+place|da|bereit|fertig|am\s+platz|là|prête?|en\s+place"
            r"|list[oa]|en\s+su\s+sitio)\b",
        ),
        (
            Deed.MAKE,
            rf"{_A}\s+(?:now\s+exists|existiert\s+(?:jetzt|nun)|existe\s+(?:désormais|maintenant|ahora)|ya\s+(?:existe|está))\b",
        ),
        # Copies.
        (Deed.MAKE, rf"{_COPY}(?:\s+(?:of|von|de)\s+{FILE})?\s+(?:[^.;,\s]+\s+){{0,6}}?{_AT}{_A}"),
        (Deed.MAKE, rf"{_COPY}\s+(?:of|von|de)\s+{FILE}\s*:\s*{_A}"),
        (Deed.MAKE, rf"{_COPY}\s+{_A}"),
        (
            Deed.MAKE,
            rf"{_A}\s*(?:is|ist|est|es|[:\u2013\u2014-])\s+(?:{_NOW}\s+)?(?:an?\s+|eine\s+|une\s+|una\s+)?{_COPY}\s+(?:of|von|de)\s",
        ),
        (
            Deed.MAKE,
            rf"{_A}\s+(?:{_NOW}\s+)?(?:has|hat|a|tiene)\s+(?:{_NOW}\s+)?(?:the\s+same\s+content|denselben\s+inhalt|le\s+même\s+contenu|el\s+mismo\s+contenido)",
        ),
        (Deed.MAKE, rf"\b(?:jetzt|nun)\s+auch\s+als\s+{_A}"),
        (
            Deed.MAKE,
            rf"\b(?:zweite\s+datei|second\s+file|deuxième\s+fichier|segundo\s+archivo)\s+(?:\w+\s+){{1,2}}{_A}",
        ),
        # Behaviour: something was changed for it.
        (
            Deed.CHANGE,
            rf"{_A}\s+(?:now\s+(?:prints|shows|writes|counts|uses|reads)|(?:gibt|zeigt|zählt|schreibt)\s+(?:jetzt|nun)"
            r"|(?:affiche|compte|écrit)\s+(?:maintenant|désormais)|(?:imprime|muestra|cuenta|escribe)\s+ahora)\b",
        ),
        (Deed.CHANGE, rf"\A(?:done|fertig|listo)?\W*in\s+{_A}\b(?=[^.;\n]{{0,60}}\b(?:now|nun|jetzt)\b)"),
        (Deed.CHANGE, rf"\A\W*(?:dans|en)\s+{_A}\b(?=[^.;\n]{{0,60}}\b(?:maintenant|désormais|ahora)\b)"),
    )
)
"""Phrases that tell how things are."""

_UNCHANGED: Final = (
    r"(?:unchanged|untouched|not\s+(?:changed|touched)|intact|as\s+(?:it|they)\s+(?:is|are|was|were)|alone|unverändert|unangetastet|in\s+ruhe|nicht\s+(?:geändert|angefasst)"
    r"|so,?\s+wie\s+(?:sie|es|er|vorher)|wie\s+(?:sie|es|er|vorher)|keine\s+änderung(?:en)?|no\s+(?:changes?|modifications?)|inchangée?s?|(?:non|pas)\s+modifiée?s?|intacte?s?"
    r"|tel(?:le)?\s+quel(?:le)?|comme\s+avant|aucune\s+modification|aucun\s+changement|sin\s+(?:cambios|tocar)|intact[oa]s?|como\s+(?:está|estaba)"
    r"|ning(?:ún\s+cambio|una\s+modificación))(?!\w)"
)
_SMALL: Final = (
    r"(?:\s*[:,\u2013\u2014-])?(?:\s+(?:is|was|are|left|kept|still|exactly|ist|war|habe|ich|wurde|noch|genau|bleibt|blieb|bewusst|gelassen|lassen|so|est|reste|demeure|toujours|exactement"
    r"|laissée?|se|queda|quedó|permanece|sigue|dejé|exactamente|[:\u2013\u2014-]))*"
)
_KEPT: Final = Rows(
    (re.compile(pattern, re.IGNORECASE), None)
    for pattern in (
        rf"(?<!\bin\s)(?<!\bof\s)(?<!\bvon\s)(?<!\bde\s)(?<!\ben\s)(?<!\bdans\s){_A}{_SMALL},?\s+{_UNCHANGED}",
        rf"\A\W*{_UNCHANGED}\s*:\s*{_A}",
        r"\b(?:no\s+(?:changes?|modifications?)|keine\s+änderung(?:en)?|aucune?\s+(?:modification|changement)|ningún\s+cambio|ninguna\s+modificación)"
        rf"\s+(?:were\s+made\s+)?(?:to|in|an|dans|à|en|a)\s+{_A}(?=\s*(?:[.,;!]|\Z))",
        rf"\bhands\s+off\s+{_A}|\bfinger\s+von\s+(?P<a2>{FILE})\s+gelassen",
        rf"\b(?:contents?|inhalt|contenu|contenido)\s+(?:of|von|de)\s+{_A}\s+(?:(?:is|are|was|were|ist|war|est|sont|se|ha|está|still|noch|fully)\s+){{1,3}}(?:intact|the\s+same|erhalten|préservée?|conservad[oa])\b",
        rf"\b(?:only|just|nur|seulement|s[oó]lo)\s+(?:read|looked\s+at|lu|leí|leído)\s+{_A}|(?P<a2>{FILE})\s+habe\s+ich\s+nur\s+(?:gelesen|angesehen)\b",
        rf"\b(?:ließ|dejé|dejado)\s+{_A}\s+(?:[^\W\d]+\s+)?{_UNCHANGED}",
    )
)
_BESIDES: Final = re.compile(
    r"\b(?:other|else|further|besides|except|apart|but|beyond|more|not\s+only|until|before|weiter\w*|sonst|außer|bis\s+auf|aber|sauf|autres?|mais"
    r"|otr[oa]s?|más|salvo|excepto|menos|pero|necessary|needed|nötig|required)\b",
    re.IGNORECASE,
)
"""Words by which something was changed after all, or needs no change."""

_OPEN: Final = Worded(
    r"\b(?:not\s+(?:done|finished)|still\s+(?:to\s+do|open|missing|pending|outstanding)|get\s+done"
    r"|nicht\s+(?:erledigt|gemacht|geschafft|vorgenommen|abschließen)|noch\s+(?:zu\s+tun|offen)|fehlt\s+noch|steht\s+noch\s+aus"
    r"|(?:non|pas(?:\s+été)?)\s+faite?s?|reste\s+à\s+faire|à\s+faire\s+encore|manque\s+encore"
    r"|no\s+(?:se\s+ha\s+)?hech[oa]|(?:queda|falta)\s+por\s+hacer|todavía\s+falta|sigue\s+pendiente)(?!\w)"
    r"|\A\W*(?:open|offen|pendiente|à\s+faire|to-?do|pending)\s*:",
    re.IGNORECASE,
)
"""Words that say that something was not done."""
_YET: Final = Worded(
    r"(?<!not\s)(?<!n't\s)\b(?:skipped|left\s+(?:out|undone)|omitted)\b"
    r"|\b(?:unable\s+to|not\s+able\s+to|not\s+yet\s+made|(?:still\s+(?:has|have|needs?)|remains?)\s+to\s+be|everything\s+(?:except|but)|all\s+(?:except|but)"
    rf"|(?:{_NOUN})\b[^.;,\n]{{1,40}}(?:\.\w+)?\s+(?:failed|falló)"
    r"|nicht\s+möglich|gelang\s+(?:es\s+)?mir\s+nicht|muss\s+noch|bleibt\s+noch|alles\s+\w*\s*außer|fehlgeschlagen|ausgelassen|weggelassen|übersprungen"
    r"|impossible|reste\s+à|tout\s+fait\s+sauf|échoué|pas\s+(?:pu|réussi)|sauté|laissée?\s+de\s+côté"
    r"|imposible|(?:está\s+)?aún\s+por|todo\s+menos|no\s+(?:fui\s+capaz|llegué\s+a|pude|se\s+\w+ó)|(?<!hace\s)falta|no\s+se\s+ha|me\s+salté|dejé\s+fuera)(?!\w)",
    re.IGNORECASE,
)
"""Words that say so of a deed that is beside them."""
_BUT: Final = re.compile(r",?\s+(?:but|aber|mais|pero)\s+|;\s")
_NOTHING: Final = re.compile(r"\b(?:nothing|nichts|rien|nada|no\s+longer|nicht\s+mehr|none)\b", re.IGNORECASE)

NOT_RUN: Final = Worded(
    rf"\b{NOT}\b[^.?!\n,;]{{0,40}}\b(?:arran(?:qué|cad[oa])|puse\s+en\s+marcha|ausprobiert)(?!\w)"
    r"|\.lua\s+(?:wurde\s+nicht\s+aufgerufen|was\s+not\s+called|n'a\s+pas\s+été\s+appelée?|no\s+fue\s+llamad[oa])(?!\w)"
    r"|\b(?:ich\s+konnte|konnte\s+ich)\b(?:[^.?!\n;]|\.\w){0,40}\bnicht\s+(?:ausführen|starten|testen)\b"
    r"|\bn'ai\s+(?:pas|jamais)\s+fait\s+tourner\b|\bn'a\s+pas\s+encore\s+tourné(?!\w)|\bne\s+l'ai\s+pas\s+(?:démarr|lanc|test|exécut)ée?(?!\w)"
    r"|\b(?:refrained|abstained|abstuve|abstenue?)\s+(?:from|de)\s+(?:running|executing|testing|starting|lancer|exécuter|tester|ejecutar|probar)\b"
    rf"|\b(?:ausführen|starten|testen|testlauf|lauf|ausführung)(?:\s+(?:von|de[rs])\s+{FILE})?\s+(?:habe\s+ich\s+)?verzichtet\b"
    rf"|\b(?:run|lauf|testlauf|exécution|ejecución|prueba|essai)(?:\s+(?:of|von|de)\s+{FILE})?\s+(?:did\s+not\s+take\s+place|fand\s+nicht\s+statt"
    r"|gab\s+es\s+nicht|n'a\s+pas\s+eu\s+lieu|no\s+tuvo\s+lugar)\b"
    r"|\A\W*(?:without\s+a\s+run|ohne\s+lauf|sans\s+exécution|sin\s+ejecución)\b|\blief\s+noch\s+nicht\b|\bnoch\s+nicht\s+gelaufen\b"
    r"|\bstill\s+(?:has|needs)\s+to\s+be\s+(?:run|tested|executed|started)\b|\bmuss\s+noch\s+(?:ausgeführt|getestet|gestartet)\b"
    r"|\breste\s+à\s+(?:lancer|exécuter|tester)\b|\b(?:se\s+tiene\s+que|falta|aún\s+por)\s+(?:ejecutar|probar)\b|\bnon\s+(?:exécutée?|lancée?|testée?)(?!\w)",
    re.IGNORECASE,
)
"""A run that was not."""
_TESTS: Final = (
    r"\b(?:tests?|checks?|pruebas?|prüfung(?:en)?|überprüfung|essais?|vérifications?|comprobaci(?:ón|ones))(?:\s*:)?"
    rf"(?:\s+(?:of|von|de|{FILE}|\d+/\d+|is|was|were|are|war|waren|ist|sind|all|have|has|ont|fue|fueron|est|sont|a)){{0,4}}\s+"
)
_WORKS: Final = Worded(
    rf"{_TESTS}(?:green|grün|en\s+verde|au\s+vert|successful|erfolgreich|un\s+éxito|réussis?|bestanden|passed|superad[oa]s?|concluante?s?"
    r"|salió\s+bien|passée?s?\s+du|pasó|pasaron)(?!\w)"
    r"|\b(?:does|macht|fait|hace)\s+(?:exactly|genau|exactement|exactamente)\s+(?:what|das|ce\s+que|lo\s+que)\b|\bruns\s+(?:cleanly|smoothly)\b"
    r"|\b(?:fully\s+functional|voll\s+funktionsfähig|pleinement\s+(?:opérationnel|fonctionnel)|totalmente\s+funcional)"
    r"|\b(?:runs?|works?|läuft|arbeitet|tourne|marche|corre|funciona|s'exécute|se\s+ejecuta)\s+(?:well|correctly|fehlerfrei|correctement|correctamente)\b"
    r"|\bwell\s+al\s+ejecutar\b|\b(?:va|marcha)\s+(?:perfectamente|bien)\b|\b(?:passes|supera)\s+(?:its|sus|their)\s+(?:tests|pruebas)\b"
    r"|\b(?:correct|right|richtige|bon|resultado)\s+(?:result|ergebnis|résultat|correcto)\b[^.;\n]{0,20}\b(?:my|mon|mi)\s+(?:test|prueba)\b"
    r"|\bmein\w*\s+test\b[^.;\n]{0,20}\brichtige\s+ergebnis\b"
    r"|\b(?:behaves\s+correctly|verhält\s+sich\s+(?:richtig|korrekt)|se\s+comporte\s+(?:bien|comme\s+il\s+faut)|se\s+comporta\s+(?:bien|como\s+debe))\b"
    r"|\b(?:program|script|programm|skript|programme|programa)\s+(?:runs|läuft|tourne|marche|marcha|corre)\s*\W*\Z"
    r"|:\s*(?:works|funktioniert|fonctionne|funciona)\b",
    re.IGNORECASE,
)
_BOX: Final = re.compile(
    r"\A\s*(?:[-*\u2022]\s*)?(?:\[(?P<mark>[ xX\u2713])\]"
    r"|(?P<yes>[\u2705\u2611\u2714])\ufe0f?|(?P<no>[\u274c\u2610\u2b1c]))\s*"
)
"""The box of a list of things to do."""


def _has_file(sentence: str) -> bool:
    return next(with_file(_HAS_FILE, sentence), None) is not None


def plain(sentence: str) -> str:
    """A sentence with plain verbs for the deeds that it tells in other words."""
    sentence = sentence.replace("`", "")
    has_file = _has_file(sentence)
    sentence = _PHRASES.put(sentence, _put)
    return _OF_FILES.put(sentence, _put) if has_file else sentence


def _put(pattern: re.Pattern[str], plain: _Plain, sentence: str) -> str:
    return pattern.sub(plain, sentence)


def box(sentence: str) -> tuple[bool, str] | None:
    """Whether the box before an order is checked, and the order; None: there is no box, or no order behind it."""
    found = _BOX.match(sentence)
    if found is None:
        return None
    rest = sentence[found.end() :].replace("`", "")
    is_order = found["mark"] is not None or all(report(one.text) is None for one in tokens(rest) if not one.is_file)
    return (found["yes"] is not None or (found["mark"] or " ") != " ", rest) if is_order else None


def states(sentence: str) -> Iterator[tuple[Deed, str]]:
    """The deeds after which things are as a sentence says they are, each with its file."""
    sentence = sentence.replace("`", "")
    if not _has_file(sentence) or MAYBE.search(sentence) or sentence.rstrip().endswith("?"):
        return
    denied = re.search(rf"\b(?:{NOT}|whether|ob)\b|n't\b", sentence, re.IGNORECASE) is not None
    for pattern, deed in _STATES.of(sentence):
        if not denied or deed is Deed.DELETE:
            yield from ((deed, one["a"].lstrip("/")) for one in pattern.finditer(sentence))


def kept(sentence: str) -> Iterator[str]:
    """The files that a sentence says were left as they were."""
    sentence = sentence.replace("`", "")
    if _has_file(sentence) and not (_BESIDES.search(sentence) or MAYBE.search(sentence)):
        for pattern, _ in _KEPT.of(sentence):
            for one in pattern.finditer(sentence):
                yield (one["a"] or one["a2"] if "a2" in pattern.groupindex else one["a"]).lstrip("/")


def undone(sentence: str) -> list[tuple[Deed, str]]:
    """The deeds that a sentence says were not done: each deed that it names, or any, with each of its files."""
    if not _has_file(sentence):
        return []
    return [one for part in _BUT.split(sentence) for one in _undone(part)]


def done(sentence: str) -> str:
    """A sentence without the parts about things that were not done."""
    return ", ".join(part for part in _BUT.split(sentence) if not _undone(part))


def _undone(part: str) -> list[tuple[Deed, str]]:
    is_open = _OPEN.search(part) is not None
    if not (is_open or _YET.search(part)) or _NOTHING.search(part):
        return []
    words = [one.text for one in tokens(part) if not (one.is_file or one.is_mark)]
    raw = re.findall(r"[^\W\d_]+", part)
    nouns = {deed for deed, pattern in _NOUNS.items() if any(map(pattern.fullmatch, raw))}
    told = nouns.union(deed for word in words for deed in (order(word), report(word)) if deed is not None)
    deeds = (CHANGES & told) or (CHANGES if is_open else frozenset())
    if Deed.MOVE in deeds:
        deeds |= {Deed.DELETE, Deed.MAKE}
    return [(deed, name) for deed in CHANGES if deed in deeds for name in files(part)]


def claims_work(sentence: str) -> bool:
    """Whether a sentence says in one of these ways that something works."""
    found = _WORKS.search(sentence)
    return found is not None and not MAYBE.search(sentence) and not re.search(rf"\b{NOT}\b", found[0], re.IGNORECASE)
