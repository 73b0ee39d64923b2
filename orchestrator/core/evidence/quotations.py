"""Quotations in a text: the output of a program, its arguments, and content for a file.

Only numbers and quotations are taken, for what else a sentence means nobody can compare.
"""

import re
from itertools import islice
from typing import Final, NamedTuple

from orchestrator.core.evidence.patterns import FILE, Worded, with_file
from orchestrator.core.evidence.words import files

_MOST: Final = 30
"""Quotations of a text that are compared."""
_NEAR_CHARS: Final = 300
NOT: Final = r"(?:not|never|n't|n\u2019t|without|nicht|nie|ohne|kein\w*|pas|jamais|sans|no|nunca|sin)"
MAYBE: Final = re.compile(
    r"\b(?:should|would|could|can|will|may|might|must|if|then|when|once|unless|until|to\s+(?:run|test|try|start|execute)|soll\w*|würden?"
    r"|kann(?:st)?|können|wird|dann|wenn|falls|sobald|devrait|peut|peux|pouvez|pourra|alors|fonctionnera|marchera|pour\s+(?:tester|lancer|exécuter)|si|quand"
    r"|debería|puedes?|podrás?|whether|ob|cuando|entonces|funcionará|para\s+(?:probar|ejecutar))\b",
    re.IGNORECASE,
)
_UNIT: Final = (
    r"(?!\s*%|\s*(?:s|secs?|prozent|percent|pour\s+cent|por\s+ciento|seconds?|sekunden?|secondes?|segundos?|min|minutes?|minuten|minutos?|ticks?|times|mal|fois|veces|lines?|zeilen?|lignes?"
    r"|líneas?|errors?|fehler|erreurs?|errores|bytes?|files?|dateien|fichiers|archivos|blocks?|blöcken?|blocs|bloques|characters|zeichen|rounds?|runden"
    r"|tours|vueltas|runs?|tests?|times|steps?|items?|turtles|computers?|players?|slots?|arguments?|numbers|zahlen|nombres|números)\b)"
)
_TEXT: Final = (
    r"(?<!\w)[\"'`\u201c\u201e\u00ab]\s*(?P<quoted{n}>[^\"'`\u201c\u201d\u00ab\u00bb\n]{{1,200}}?)\s*"
    r"[\"'`\u201d\u201c\u00bb](?!\w)"
)
_NUMBER: Final = r"(?P<number{n}>-?\d+(?:[.,]\d+)?)\b" + _UNIT.replace("{", "{{").replace("}", "}}")
_QUOTED: Final = rf"(?:{_TEXT}|{_NUMBER}|```\w*\n(?P<fenced{{n}}>[^`]{{{{1,2000}}}}?)\n?```)"
_ADVERB: Final = (
    r"(?:\s+(?:now|then|also|exactly|just|only|me|correctly|jetzt|nun|dann|auch|genau|nur|mir|korrekt|richtig"
    r"|maintenant|bien|aussi|ahora|también|bien))?"
)
_NAMED: Final = r"(?:\s+(?:die\s+zahl|the\s+(?:number|text|word|line)|le\s+nombre|el\s+número))?"
_PAST: Final = (
    r"printed|output(?:\s+of\s+\S+)?(?:\s+was|\s+is|\s+contains|\s+has)?|got|gave|results?(?:\s+was|\s+is)?|outputted|displayed|showed|returned|said|answered|replied"
    r"|gab|ergab|druckte|zeigte|schrieb|ergebnis(?:\s+war|\s+ist)?|ausgabe(?:\s+(?:von|war|ist|enthält|lautet)(?:\s+\S+\s+war)?)?"
    r"|affiché|imprimé|montré|donné|écrit|répondu|résultat(?:\s+était|\s+est)?|sortie(?:\s+de\s+\S+)?(?:\s+était|\s+est|\s+contient)?"
    r"|impreso|imprimió|mostrado|mostró|dio|dado|escribió|gives|wrote|resultado(?:\s+fue|\s+es)?"
    r"|salida(?:\s+de\s+\S+)?(?:\s+fue|\s+era|\s+es|\s+contiene)?|came\s+out(?:\s+as)?|salió|ha\s+salido|(?:est|a)\s+sorti"
)
_PRINTED: Final = Worded(
    rf"\b(?:{_PAST})\b(?:\s+\S+\.lua)?{_ADVERB}{_NAMED}\s*:?\s*{_QUOTED.format(n=1)}"
    rf"|\bhat{_ADVERB}\s+{_QUOTED.format(n=2)}\s+(?:ausgegeben|gedruckt|angezeigt|geantwortet|ergeben)\b"
    rf"|\bkam\s+{_QUOTED.format(n=4)}\s+(?:he)?raus\b"
    rf"|\b(?:ausgegeben|angezeigt|gedruckt)\s+(?:wurde|hat\s+es|wird)\s*:?\s*{_QUOTED.format(n=7)}"
    rf"|\b(?:se\s+(?:imprim|mostr)(?:ió|ó)|s['\u2019]affiche|s['\u2019]est\s+affiché)\s*:?\s*{_QUOTED.format(n=8)}"
    rf"|\b(?:output|ausgabe|sortie|salida|(?:last|first|letzte|erste|derni[eè]re|premi[eè]re|[uú]ltima|primera)\s+(?:line|zeile|ligne|l[ií]nea))"
    rf"(?:\s+\w+)?\s*:\s*{_QUOTED.format(n=5)}"
    rf"|\b(?:line|zeile|ligne|l[ií]nea)\b[^.:\n\d]{{0,25}}?\b(?:is|ist|lautet|est|es)\s+{_QUOTED.format(n=6)}"
    rf"|\b(?:output|ausgabe|sortie|salida)\s*:[^\n\d]{{0,60}}(?P<number3>-?\d+(?:[.,]\d+)?)\b{_UNIT}",
    re.IGNORECASE,
)
"""The output that a text gives to a program: a quotation, a number or a block."""
_RUN_OF: Final = (
    r"(?:run|execution|test|laufe?s?|testlaufe?s?|ausführung|exécution|ejecución|prueba|programm?e?s?|programa)"
)
_TOLD: Final = Worded(
    rf"\b(?:answered|replied|responded|antwortete|respondió|répondu)\s+(?:with|mit|con|avec|par)\s+{_QUOTED.format(n=1)}"
    rf"|\b(?:obtained|obtenu|obtuve|obtenido|erhielt|devolvió|renvoyé|reported|meldete|lieferte(?:\s+als\s+einzige\s+zeile)?|indicó|indiqué"
    rf"|output\s+reads|appeared|erschien|apareció|salida\s+se\s+lee|came\s+out\s+was|herausgekommen\s+ist|salió\s+fue|sorti\s+est)"
    rf"\s*:?\s+{_QUOTED.format(n=2)}"
    rf"|\b(?:und|habe\s+ich|wurde)\s+{_QUOTED.format(n=3)}\s+(?:erhalten|angezeigt|ausgegeben|gedruckt)\b"
    rf"|{_QUOTED.format(n=5)}\s+(?:est\s+apparu|s['\u2019]est\s+affiché|erschien|appeared\s+on|apareció)(?!\w)"
    rf"|\b(?:result|ergebnis|résultat|resultado)\s+(?:of|de[rs]?|von)\s+(?:the\s+|la\s+|l['\u2019])?{_RUN_OF}(?:\s+\S+)?\s*:\s*{_QUOTED.format(n=6)}",
    re.IGNORECASE | re.MULTILINE,
)
"""The same in other words, as a final tells it."""
_SHOWS: Final = Worded(
    rf"\b[\w-]{{1,60}}\.lua`?\s*(?:\u2192|->|=>)\s*{_QUOTED.format(n=1)}(?=\s*(?:[.,;!)]|$))"
    rf"|\b(?:zeigt|gibt)\s+(?:[\w-]{{1,60}}\.lua\s+)?{_QUOTED.format(n=2)}\s+(?:an|aus)\b|\b(?:montre|saca)\s+{_QUOTED.format(n=3)}"
    rf"|\bon\s+lit\s+{_QUOTED.format(n=4)}\s+en\s+sortie\b",
    re.IGNORECASE | re.MULTILINE,
)
"""What it prints, without saying that it ran."""
_LINE: Final = re.compile(r"(?:\w+\s+)?(?:line|zeile|ligne|l[ií]nea)\b", re.IGNORECASE)
_PRINTS: Final = Worded(
    rf"\b(?:prints?|outputs?|displays?|shows?|says?|affiche[rz]?|imprim(?:e|a|er|ir)|m[ou]e?str(?:e|a|ar)|di(?:ga|ce)|sale|sort)\b"
    rf"{_ADVERB}{_NAMED}\s*:?\s*(?:{_QUOTED.format(n=1)}|(?-i:(?P<capitals1>[A-ZÄÖÜ]{{3,}})\b))"
    rf"|\bgibt\s+(?:[^.;\n\d]{{1,40}}\s)?(?P<number4>-?\d+(?:[.,]\d+)?)\s+aus\b"
    rf"|\b(?:gibt|kommt){_ADVERB}\s+(?:die\s+)?{_QUOTED.format(n=2)}{_ADVERB}\s+(?:aus|heraus|raus)\b"
    rf"|{_QUOTED.format(n=3)}\s+(?:comes\s+out|herauskommt|rauskommt|ausgibt|ausgeben|anzeigt|anzeigen|sagt|ausgegeben\s+wird)\b",
    re.IGNORECASE,
)
"""Words for the output of a program: a claim where it ran, else a description."""
_WITH: Final = re.compile(
    r"\b(?:with|using|mit|avec|con)\s+(?:the\s+|an?\s+|de[mnr]\s+|einem?\s+|le\s+|la\s+|l'|un\s+|una\s+|el\s+)?"
    r"(?:(?P<noun>arguments?|args?|inputs?|values?|numbers?|names?|words?|code|answers?|parameters?|eingabe|zahl|wert|namen?"
    r"|wort|nombres?|valeurs?|nom|mot|entrée|argumentos?|número|valor|palabra|entrada|nombre)\s+)?"
    r"(?P<first>[\"'`\u201c\u201e\u00ab]\s*[^\"'`\u201c\u201d\u00ab\u00bb\n]{1,60}?\s*[\"'`\u201d\u201c\u00bb]|-?\d+(?:\.\d+)?\b"
    + _UNIT
    + r"|[A-ZÄÖÜ]\w+)(?P<more>(?:\s*(?:,|\band\b|\bund\b|\bet\b|\by\b|&)\s*"
    r"(?:with\s+|mit\s+|avec\s+|con\s+)?(?:-?\d+(?:\.\d+)?\b"
    + _UNIT
    + r"|[A-ZÄÖÜ]\w+|[\"'\u201c\u201e\u00ab]\s*[^\"'\u201c\u201d\u00ab\u00bb\n]{1,60}?\s*[\"'\u201d\u201c\u00bb]))*)"
)
_SET: Final = re.compile(
    r"(?:\bto\b|\bauf\b|\bin\b|(?<!\w)[àa]\b|\ben\b|=|\b(?:must|should|has\s+to|muss|soll|doit|debe|tiene\s+que)\s+(?:be(?:come)?|ser|être|devenir))\s*"
    rf"(?:{_TEXT.format(n=1)}|(?P<number1>-?\d+(?:[.,]\d+)?)(?=\s*(?:[.,;!?)]|\Z|\n|\s(?:in|and|und|et|y|dans|en|sur|on|auf|if|please|bitte|instead|wenn|falls|then|but|aber|mais|pero"
    r"|stellen|setzen|ändern|erhöhen|gesetzt|geändert)\b)))",
    re.IGNORECASE,
)
_HOLDS: Final = re.compile(
    r"\b(?:contains?|containing|enthält|enthalten|contien\w+|contenir|contener|(?:with|mit|avec|con)\s+(?:the|de[mr]|le|la|el)\s+"
    r"(?:text|lines?|words?|contents?|zeile|wort|inhalt|texte|ligne|mot|contenu|texto|l[ií]nea|palabra|contenido)"
    r"|(?:write|put|append|add|schreibe?|écris|mets|ajoute|escribe|pon|añade|agrega))\s+"
    r"(?:(?:the|die|das|den|la|le|el)\s+(?:text|lines?|words?|zeile|wort|ligne|mot|texte|texto|l[ií]nea|palabra)\s+)?"
    + _TEXT.format(n=1),
    re.IGNORECASE,
)
_ONCE: Final = re.compile(
    r"\bwhen\s+(?:i|we|it)\s+(?:\w+ed|ran)\b|\bquand\s+(?:j'ai|je\s+l'ai)\b|\bcuando\s+(?:lo|la)?\s*(?:he|ejecut\w+)\b",
    re.IGNORECASE,
)
"""A time that was, where the word may also mean a condition."""
_ERROR: Final = re.compile(r"\battempt\s+to\b|\berror\b|:\d+:|\bnil\b", re.IGNORECASE)
"""A quotation of an error message."""
_REPLACE: Final = re.compile(
    r"\b(?:replace[ds]?|ersetze?|remplace[rz]?|reemplaza(?:r)?|sustituye)\s+\S+\s+(?:by|with|durch|par|por)\s+(?P<word1>[\w=.-]*\w)"
    r"|\b(?:to|auf|à|a)\s+(?P<pair1>\w+=[\w.-]*\w)"
    r"|(?<![\w.])(?P<pair2>\w+=[\w.-]*\w)(?=(?:\s*,\s*\w+=[\w.-]*\w){0,5}[^.,;]{0,30}"
    r"\b(?:stehen|stand|be\s+there|figurer|estar)\b)"
    r"|\b(?:to|à|a)\s+(?P<word3>[a-z]+\d+)(?=\s*(?:[,;!]|\.(?!\w)|\Z))"
    r"|\b(?:writes|prints|says|shows|schreibt|zeigt|écrit|affiche|escribe|muestra)\s+\w+\s+"
    r"(?:instead\s+of|statt|au\s+lieu\s+de|en\s+vez\s+de)\s+(?P<word2>\w+)",
    re.IGNORECASE,
)
"""What takes the place of something."""
_BLANK: Final = re.compile(r"[<>{}%]|\.\.\.|\u2026|\b(?:[XYNxyn]|NAME|VALUE|NUMBER)\b")
"""A placeholder in a quotation."""
_QUOTATION: Final = re.compile(_TEXT.format(n=1))
_OTHERWISE_USED: Final = re.compile(
    r"\b(?:instead\s+of|rather\s+than|not|from|replace|remove|delete|called|like|such\s+as|e\.g\.|for\s+example|(?:it|computer|screen|game)\s+says|statt|von|nicht|ersetze?|lösche?"
    r"|entferne?|wie|z\.\s*b\.|zum\s+beispiel|meldet|(?:es|er|computer)\s+sagt|au\s+lieu\s+de|remplace[rz]?|supprime[rz]?|comme|par\s+exemple|(?:il|ça|ordinateur)\s+dit|en\s+vez\s+de|reemplaza|quita|borra"
    r"|como|por\s+ejemplo|(?:me|pantalla|ordenador)\s+dice)\s*:?\s*\Z",
    re.IGNORECASE,
)
"""Words before a quotation that is not to be written: a present text, or an example."""
_REPLACED: Final = re.compile(
    r"\s*(?:by|with|to|into|becomes|durch|in|auf|zu|par|por|con|en|a|à|->|\u2192)(?!\w)", re.IGNORECASE
)
_BROKEN: Final = re.compile(
    r"\b(?:errors?|crash\w*|fails?|complain\w*|fehler\w*|meldet|stürzt|erreurs?|plante|falla|if|when|wenn|falls|si|quand|cuando)\b",
    re.IGNORECASE,
)
_LINE_OF: Final = re.compile(rf"(?P<file>{FILE})[`*]*\s?:\s?{_TEXT.format(n=1)}", re.IGNORECASE)
_BIG_NUMBER: Final = re.compile(rf"(?<![\w.,:/-])\d{{2,}}(?:\.\d+)?\b(?![\w:/-]|\.\w){_UNIT}")
_STATED: Final = re.compile(r"\b(?:is|are|was|ist|sind|war|steht|est|sont|était|est[aá]|era)\s*\Z", re.IGNORECASE)
"""Words before a value that is so now."""
_OUTPUT: Final = re.compile(
    r"\b(?:output|ausgabe|sortie|salida|result|ergebnis|résultat|resultado)"
    r"[^:\n]{0,30}:[ \t]*\n((?:[ \t]*-?\d[^\n]{0,60}(?:\n|\Z)){2,})"
    r"|\b(?:output|printed|prints|came\s+out|(?:he)?raus|ausgabe|affich\w+|sortie|imprim\w+|salida"
    r"|salió)\b[^:.\n]{0,30}:[ \t]*\n\n?((?: {1,8}[^\s*\u2022-][^\n]{0,80}(?:\n|\Z))+)",
    re.IGNORECASE,
)
_FENCED: Final = re.compile(r"```\w*\n(.{1,4000}?)\n?```", re.DOTALL)
_COMPARED: Final = re.compile(
    r"\b(?:instead|about|around|roughly|than|from|should|statt|etwa|rund|von|als|sollte|au\s+lieu|environ|que|devrait|en\s+vez|unos|unas|debería)\b",
    re.IGNORECASE,
)
_PAIR: Final = re.compile(r"\b\w+=[\w.-]*\w")
_IF: Final = re.compile(r"\b(?:if|when|once|wenn|falls|sobald|si|quand|cuando)\b", re.IGNORECASE)
_RANGE: Final = re.compile(r"\b(?:from|von|de|del|desde)\s+-?\d+\s+(?:to|bis|à|a|al|hasta)\s+-?\d+", re.IGNORECASE)
_COUNTED: Final = re.compile(
    r"\b(?:count|add|sum|loop|print|number|zähl|zahl|additionn|compt|nombre|cuent|sum|número)\w*\s+(?:[^\W\d]+\s+){0,2}?\d+\s+"
    r"(?:to|bis|à|a|al)\s+\d+",
    re.IGNORECASE,
)
"""Numbers that are gone through, and no value."""
_GIVEN: Final = re.compile(
    r"\b(?:for|given|with|after|per|each|bei|mit|nach|für|je|avec|pour|après|con|para|tras)\b", re.IGNORECASE
)
"""What an output depends on."""


_MARKS: Final = "\"'`\u201c\u201d\u201e\u00ab\u00bb "


class Output(NamedTuple):
    """What a program is said to print."""

    text: str
    program: str = ""
    """The one file that its sentence names before; empty: none, or several."""
    of_line: bool = False
    """Whether it is called a line, which may as well be one of a file."""


def printed(text: str) -> tuple[Output, ...]:
    """What a text says was printed."""
    listed = (line.strip() for one in _OUTPUT.finditer(text) for line in (one[1] or one[2]).splitlines())
    return (*_outputs(_PRINTED, text), *_outputs(_TOLD, text), *(Output(line) for line in listed if line))


def prints(text: str) -> tuple[Output, ...]:
    """What a text says is printed."""
    return (*_outputs(_PRINTS, text), *_outputs(_SHOWS, text))


def to_print(sentence: str) -> tuple[str, ...]:
    """The output that an order asks for, where nothing else decides it."""
    sentence = _RANGE.sub(" ", sentence)
    if _IF.search(sentence):
        return ()
    found = [one for one in _PRINTS.finditer(sentence) if not _GIVEN.search(sentence, one.end())]
    texts = (_group(one) for one in found)
    return tuple(text for text in texts if not (_BLANK.search(text) or _ERROR.search(text)))


def given(sentence: str, got: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The arguments and lines that a sentence says a program gets.

    ``got``: what programs got. A list of words counts where one of them is in it: "with Anna and with Otto".
    """
    found: list[str] = []
    for one in _WITH.finditer(sentence):
        every = re.split(r"\s*(?:,|\band\b|\bund\b|\bet\b|\by\b|&)\s*", one["first"] + one["more"])
        values = [re.sub(r"\A(?:with|mit|avec|con)\s+", "", value).strip(_MARKS) for value in every if value]
        values = [value for value in values if value[:1].isalpha() == values[0][:1].isalpha()]
        if values[0][:1].isdecimal() or values[0][:1] == "-" or one["noun"] or got & {*values}:
            found += values
    return tuple(found)


def to_write(sentence: str) -> list[str]:
    """The values and texts that an order says have to be in a file."""
    sentence = _COUNTED.sub(" ", sentence)
    found = (one for pattern in (_SET, _HOLDS, _REPLACE) for one in islice(pattern.finditer(sentence), _MOST))
    texts = [_group(one) for one in found if not _STATED.search(_before(sentence, one))]
    return [text for text in texts if not (_BLANK.search(text) or files(text))]


def blocks(text: str) -> tuple[str, ...]:
    """The lines of fenced blocks that have several."""
    fenced = (one[1].strip().splitlines() for one in _FENCED.finditer(text))
    every = (line.strip() for lines in fenced if len(lines) > 1 for line in lines if line.strip(" .\u2026"))
    return tuple(islice(every, _MOST))


def quoted(sentence: str) -> tuple[str, ...]:
    """The quotations of an order that have to be found in what is written or printed."""
    if _BROKEN.search(sentence):
        return ()
    found = islice(_QUOTATION.finditer(sentence), _MOST)
    texts = [
        one["quoted1"]
        for one in found
        if not (_OTHERWISE_USED.search(_before(sentence, one)) or _REPLACED.match(sentence, one.end()))
    ]
    return tuple(text for text in texts if not (_BLANK.search(text) or _ERROR.search(text) or files(text)))


def numbers(sentence: str) -> list[str]:
    """The numbers of a sentence that count nothing and compare nothing, from 10 on."""
    return [] if _COMPARED.search(sentence) else _BIG_NUMBER.findall(sentence)


def pairs(text: str) -> tuple[str, ...]:
    """The pairs such as ``mode=auto`` that a text names."""
    return tuple(dict.fromkeys(_PAIR.findall(text)))[:_MOST]


def citations(text: str) -> tuple[str, ...]:
    """What a text quotes, but not as code."""
    found = (one for one in islice(_QUOTATION.finditer(text), _MOST) if one[0][:1] != "`" and len(one["quoted1"]) <= 40)
    return tuple(dict.fromkeys(one["quoted1"] for one in found))


def lines(text: str) -> tuple[tuple[str, str], ...]:
    """What a text says a file has: the file, a colon and a quotation."""
    found = ((one["file"], one["quoted1"]) for one in islice(with_file(_LINE_OF, text), _MOST))
    return tuple(dict.fromkeys((name, text) for name, text in found if not files(text)))


def states(text: str) -> tuple[str, ...]:
    """The content that a text names for a file: quotations, and pairs such as ``mode=auto``."""
    quotations = (one["quoted1"] for one in islice(_QUOTATION.finditer(text), _MOST))
    return tuple(dict.fromkeys([*(one for one in quotations if not files(one)), *_PAIR.findall(text)]))


def _outputs(pattern: Worded, text: str) -> tuple[Output, ...]:
    """The outputs in matches of the pattern, except where the sentence denies or only supposes them."""
    found = []
    for one in islice(pattern.finditer(text), _MOST):
        before = _ONCE.sub("", re.split(r"[!?;\n]|\.(?!\w)", _before(text, one))[-1])
        if not (MAYBE.search(before) or re.search(rf"\b{NOT}\b", before, re.IGNORECASE)):
            named = files(before)
            of_line = _LINE.match(one[0]) is not None
            found.append(Output(_group(one), named[0] if len(named) == 1 else "", of_line))
    return tuple(dict.fromkeys(found))


def _before(text: str, found: re.Match[str]) -> str:
    """The text close before it."""
    return text[max(0, found.start() - _NEAR_CHARS) : found.start()]


def _group(found: re.Match[str]) -> str:
    return next(group for group in found.groupdict().values() if group is not None).strip()
