"""Other ways to put an order: wishes, passives, nouns and idioms, each as the plain imperative that it stands for.

Only a task is read so. A phrase that may also be a question or a condition is left as it is.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from orchestrator.core.evidence.idioms import CHANGE, COPY, DELETE, FIX, KEEP, MAKE, MOVE, POLITE, RUN, filled
from orchestrator.core.evidence.patterns import FILE, Rows, Worded, folded, with_file
from orchestrator.core.evidence.sentences import Said
from orchestrator.core.evidence.words import CHANGES, Deed, bare, files, order, remembered, report

# -- What a text says stays as it is: the order not to touch it, and the claim that it was not touched

_STAYS: Final = (
    r"(?:alone|as\s+(?:it|they)\s+(?:is|are|was|were)|unchanged|untouched|intact|in\s+(?:ruhe|frieden)|wie\s+(?:sie|es|er)\s+(?:ist|sind|war)|unverändert"
    r"|unangetastet|tel(?:le)?s?\s+quel(?:le)?s?|tranquille|inchangée?s?|intacte?s?|como\s+est[aá]n?|igual|tal\s+cual|intact[oa]s?|en\s+paz)\b"
)
_LEFT: Final = re.compile(
    r"\b(?:leave|leaves|keep|lass\w*|behalt\w*|laisse[rz]?|garde[rz]?|deja(?:r)?|conserva(?:r)?|mant[eé]n)\s+(?:\w+\s+){0,2}?"
    rf"(?P<file>{FILE})(?=\s*(?:[.,;!]|\Z)|\s+(?:{_STAYS}|so\s*(?:[.;!]|\Z|wie\b)))",
    re.IGNORECASE,
)
_STAYING: Final = re.compile(
    rf"(?P<file>{FILE})\s+(?:(?:must|should|has\s+to|needs?\s+to|muss|soll|doit|debe|tiene\s+que|is|was|ist|est|est[aá]|sigue|steht)\s+)?"
    rf"(?:(?:also|now|exactly|still|auch|noch|immer|aussi|también)\s+)?(?:stays?|remain(?:s|ed)?|bleib\w*|geblieben|rest(?:e[rz]?|é)|qued[aó]\w*|seguir|sigue|permanecer|"
    rf"the\s+same\s+as\s+before|{_STAYS})",
    re.IGNORECASE,
)
_NO_CHANGE: Final = (
    r"(?:chang\w*|touch\w*|modif\w*|edit\w*|alter\w*|änder\w*|veränder\w*|geändert|verändert|anfassen|angefasst|bearbeite\w*|tocar|toques|tocado"
    r"|cambi\w*|corri[jg]\w*)"
)
_NOTHING: Final = Worded(
    rf"\b(?:do\s+not|don't|dont|without|didn't|did\s+not|haven't)\s+{_NO_CHANGE}\s+anything\b"
    rf"|\b{_NO_CHANGE}\s+nothing\b"
    rf"|\bni(?:chts|x)\s+(?:zu\s+)?{_NO_CHANGE}\b|\b{_NO_CHANGE}\s+(?:habe\s+ich\s+|bitte\s+|dabei\s+)?nichts\b"
    rf"|\bohne\s+etwas\s+zu\s+{_NO_CHANGE}\b|\bne\s+{_NO_CHANGE}\s+rien\b|\brien\s+{_NO_CHANGE}\b|\bsans\s+rien\s+{_NO_CHANGE}\b"
    rf"|\b(?:no|sin)\s+(?:he\s+)?{_NO_CHANGE}\s+nada\b",
    re.IGNORECASE,
)
_ELSE: Final = re.compile(r"\b(?:else|otherwise|besides|sonst|weiter|d'autre|demás|más|resto|reste)\b", re.IGNORECASE)
_REST: Final = re.compile(
    r"\b(?:the\s+rest|everything\s+else|all\s+the\s+others?|der\s+rest|alles\s+andere|le\s+reste|lo\s+demás|el\s+resto)\b[^.!?\n]{0,40}"
    r"\b(?:stays?|remains?|same|alone|unchanged|bleib\w*|unverändert|reste[rz]?|inchangée?|tel|queda\w*|igual|como\s+está)\b"
    r"|\b(?:leave|keep|lass\w*|laisse[rz]?|deja)\s+(?:the\s+rest|everything\s+else|den\s+rest|alles\s+andere|le\s+reste|lo\s+demás|el\s+resto)\b",
    re.IGNORECASE,
)
_NOT_GONE: Final = Worded(
    r"\b(?:delete|remove|lösche?|entferne?)\s+(?:dabei\s+|bitte\s+|aber\s+)?(?:nothing|nichts)\b|\b(?:do\s+not|don't|dont|without)\s+"
    r"(?:delet|remov)\w+\s+anything\b|\b(?:gelöscht|entfernt)\s+habe\s+ich\s+nichts\b|\bnichts\s+(?:gelöscht|entfernt|löschen|entfernen)\b"
    r"|\b(?:supprim|effac)\w+\s+rien\b|\brien\s+(?:supprim|effac)\w+|\b(?:borr|elimin)\w+\s+nada\b|\bdeleted\s+nothing\b",
    re.IGNORECASE,
)
_STILL: Final = re.compile(
    rf"(?P<file>{FILE})\s+(?:is|ist|est|sigue|steht)?\s*(?:still|noch|immer\s+noch|toujours|encore|todavía|aún)?\s*"
    r"(?:there|da|dort|là|ahí|allí)\b",
    re.IGNORECASE,
)
_NOT_THERE: Final = re.compile(
    rf"\bn['\u2019]y\s+{_NO_CHANGE}\s+(?:\w+\s+){{0,2}}?pas\b|\b(?:do\s+not|don't|dont)\s+{_NO_CHANGE}\s+(?:that|this)(?:\s+one)?\b"
    rf"|\b(?:den|die|das)\s+(?:bitte\s+|aber\s+)?nicht\s+{_NO_CHANGE}\b|\b(?:ese|esa|eso)\s+no\s+(?:l[oa]\s+)?{_NO_CHANGE}",
    re.IGNORECASE,
)
"""An order not to touch what was named last."""
_STATED: Final = re.compile(
    r"\b(?:does\s+not|doesn't|did\s+not|didn't|(?:il|elle|ça|qui)\s+ne|es|er)\b"
    rf"|{FILE}\s+(?:no|ne)\b",
    re.IGNORECASE,
)
"""How a sentence begins that tells what a program does not do."""


def kept(sentence: str, said: Sequence[Said], *, order: bool) -> Iterator[str]:
    """The files that a sentence says stay as they are; ``order``: it is one, and else it tells what was done."""
    yield from (one["file"].lstrip("/") for pattern in (_LEFT, _STAYING) for one in with_file(pattern, sentence))
    if order and tells(sentence):
        return
    denied = [one for one in said if one.negated and one.deed in CHANGES - {Deed.MAKE}]
    for one in denied:
        yield from (name for name, joined in one.files if joined in ("", "of", "goal"))
    if order and (there := _NOT_THERE.search(sentence)) is not None:
        yield from files(sentence[: there.start()])[-1:]
    if denied and not any(one.files for one in denied) and (denied[-1].is_last or not order):
        yield from denied[-1].before[-1:]


def tells(sentence: str) -> bool:
    """Whether a sentence tells what a program does not do, and orders nothing by that."""
    return _STATED.search(sentence) is not None


def keeps_all(text: str) -> bool:
    """Whether a text says that nothing changes: the order to change nothing, and the claim that nothing was."""
    return any(_NOTHING.search(one) and not _ELSE.search(one) for one in re.split(r"[!?;\n]|\.(?!\w)", text))


def keeps_rest(text: str) -> bool:
    """Whether a text says that nothing else changes."""
    parts = re.split(r"[!?;\n]|\.(?!\w)", text)
    return any((_NOTHING.search(one) and _ELSE.search(one)) or _REST.search(one) for one in parts)


def deletes_nothing(text: str) -> bool:
    """Whether a text says that nothing is deleted."""
    return _NOT_GONE.search(text) is not None


def still_there(text: str) -> tuple[str, ...]:
    """The files that a text says are still there."""
    return tuple(one["file"].lstrip("/") for one in with_file(_STILL, text))


# -- Other ways to put an order: wishes, passives, nouns and idioms, each as the plain imperative that it stands
# for


def _base(gerund: str) -> str | None:
    """The verb of "copying" and "moving"; None: it orders nothing that is known."""
    stem = gerund.lower().removesuffix("ing")
    every = (stem, f"{stem}e", stem[:-1] if stem[-1:] == stem[-2:-1] else stem)
    return next((one for one in every if order(one) not in (None, Deed.OTHER)), None)


def _gerund(found: re.Match[str]) -> str:
    verb = _base(found["verb"])
    return found[0] if verb is None or _NEGATED.search(_sentence_before(found)) else f"please {verb}"


def _french_gerund(found: re.Match[str]) -> str:
    verb = next((one for one in (f"{found['verb']}er", f"{found['verb']}e") if order(bare(one)) in CHANGES), None)
    return found[0] if verb is None else f", please {verb} {found['it'] or ''}"


def _thou(found: re.Match[str]) -> str:
    """The order in "that you move it", where German, French and Spanish have other forms."""
    stem = found["verb"].lower()
    every = (stem + end for end in ("e", "", "er", "ar", "ir"))
    verb = next((one for one in every if order(bare(one)) not in (None, Deed.OTHER)), None)
    return found[0] if verb is None else f"please {verb} {found.groupdict().get('mid') or ''}"


def _german_last(found: re.Match[str]) -> str:
    """The order whose verb ends it: "a.lua bitte nach b.lua kopieren"."""
    deed = order(bare(found["verb"].lower()))
    return f"please {deed.value} {found['x']} to {found['y']}" if deed in (Deed.COPY, Deed.MOVE) else found[0]


_VERBS: Final = {Deed.MAKE: "create"}
"""Plain verbs of the deeds that have another name."""


def _active(found: re.Match[str]) -> str:
    """The order that a passive stands for: "a.lua must be deleted"."""
    verb = bare(found["verb"].lower())
    deed = next((one for one in (report(verb), order(verb)) if one not in (None, Deed.OTHER)), None)
    groups = found.groupdict()
    return (
        found[0]
        if deed is None
        else f"please {_VERBS.get(deed, deed.value)} {groups.get('x') or 'it'} {groups.get('mid') or ''}"
    )


_NOUNS: Final = {
    "create": "création|creación|creation|erstellung",
    "change": "modification|modificación|änderung",
    "fix": "correction|réparation|corrección|reparación|reparatur",
    "delete": "suppression|effacement|deletion|removal|löschung|eliminación|borrado",
    "copy": "copie|kopie|copia",
    "run": "exécution|lancement|ejecución|execution|ausführung",
}


def _noun(found: re.Match[str]) -> str:
    deed = next(one for one, nouns in _NOUNS.items() if folded(found["noun"]) in nouns.split("|"))
    return f" please {deed} {found['x']}"


_NOT_SO: Final = (
    r"(?!\s+(?:by|at|on|when|whenever|if|every|before|after|only|par|quand|au|à\s+chaque|por|cuando|al|en\s+cada)\b)"
)
"""Words that tell that somebody else does it, or when."""
_GERMAN: Final = (
    r"(?P<mid>(?:(?!(?:nicht|nie|niemals|von|vom|durch|bei|beim|jede[mnrs]?|immer|wenn|automatisch)\b)"
    r"(?:[^.,;!?\n]|\.\w)){0,50}?)\s*\b(?P<verb>[^\W\d_]+)"
)
_FORMS: Final = tuple(
    (filled(pattern), form)
    for form, patterns in (
        (_gerund, (r"\b(?:(?:would|do)\s+you\s+mind|by)\s+(?P<verb>[a-z]{2,12}ing)\b",)),
        (_french_gerund, (r"\ben\s+(?P<it>l[ea]s?\s+)?(?P<verb>[^\W\d_]{3,12})ant\b",)),
        (
            _thou,
            (
                r"\b(?:ich\s+(?:möchte|will|hätte\s+gern|wünsche)\s*,\s*dass|indem)\s+du\s+(?P<mid><MID>)\s+(?P<verb>[^\W\d_]{3,14})st\b",
                r"\b(?:j'aimerais|je\s+(?:voudrais|veux|souhaite)|j'ai\s+besoin|il\s+(?:faut|faudrait))\s+que\s+tu\s+(?P<verb>[^\W\d_]{3,12})es\b",
                r"\b(?:quisiera|quiero|necesito|me\s+gustaría)\s+que\s+(?P<verb>[^\W\d_]{3,12})(?:es|aras|ases)\b",
            ),
        ),
        (
            _active,
            (
                rf"\b(?:i|we)\s+(?:need|want|would\s+like)\s+<X>\s+to\s+be\s+(?P<verb>[^\W\d_]+)\b{_NOT_SO}",
                rf"<X>\s+<MUST>\s+(?:(?:now|please|also|then)\s+)?be\s+(?P<verb>[^\W\d_]+)\b{_NOT_SO}",
                rf"\b(?:let|can|could)\s+<X>\s+(?:please\s+)?be\s+(?P<verb>[^\W\d_]+)\b(?=\s+(?:to\s+)?[\w/]+\.\w|[^.?!\n]{{0,30}}\bplease\b){_NOT_SO}",
                r"\b(?:that|this|it)\s+(?:must|has\s+to|needs\s+to)\s+be\s+(?P<verb>[^\W\d_]+)(?=\s*(?:[.,;!]|\Z))",
                rf"<X>\s+<MUSS>\s+{_GERMAN}\s+werden\b",
                rf"\b(?:kann|könnte)\s+<X>\s+bitte\s+{_GERMAN}\s+werden\b",
                r"\b(?:das|es|dies)\s+(?:muss|sollte?)\s+(?:bitte\s+|noch\s+)?(?P<verb>[^\W\d_]+)\s+werden\b",
                rf"<X>\s+<DOIT>\s+(?:bien\s+|maintenant\s+)?être\s+(?P<verb>[^\W\d_]+)\b{_NOT_SO}",
                rf"\b(?:j'ai\s+besoin\s+que|je\s+voudrais\s+que|il\s+faut\s+que|que)\s+<X>\s+soit\s+(?P<verb>[^\W\d_]+)\b{_NOT_SO}",
                r"\best-ce\s+que\s+<X>\s+(?:peut|pourrait)\s+être\s+(?P<verb>[^\W\d_]+)(?=\s+(?:en\s+|vers\s+|dans\s+)[\w/]+\.\w)",
                rf"<X>\s+<DEBE>\s+ser\s+(?P<verb>[^\W\d_]+)\b{_NOT_SO}",
                rf"<X>\s+<DEBE>\s+(?P<verb>[^\W\d_]+r)se\b{_NOT_SO}",
            ),
        ),
        (
            _german_last,
            (r"<X>\s+(?:bitte\s+|mal\s+|noch\s+){0,2}(?:nach|als|in|zu|unter)\s+<Y>\s+(?P<verb>[^\W\d_]{4,14}n)\b",),
        ),
        (
            _noun,
            (
                rf"(?:\A|(?<=[.!?]\s)|(?<=\n))(?P<noun>{'|'.join(_NOUNS.values())})\s+(?:(?:of|von|de|du|del|einer?|eines)\s+|d'){{1,2}}"
                r"(?:une?\s+|un[oa]?\s+|an?\s+)?<X>(?=\s*(?:[.,!]|\Z)|\s+(?:with|to|mit|nach|avec|vers|en|con|a)\b)",
            ),
        ),
    )
    for pattern in patterns
)
"""Orders whose verb has another form than the imperative."""

_SUPPOSED: Final = re.compile(
    r"\b(?:if|whether|when(?:ever)?|why|how|unless|because|caused|broken?\s*\Z|happened|nothing|nichts|rien|nada|said|says|thinks?|claims?|sagt|meint|glaubt?e?|dit|pense|dice|creo|cree|wenn|falls|ob|warum|wieso|weil|si|quand|pourquoi|parce|cuando|porque|por\s+qué)\b",
    re.IGNORECASE,
)
_NEGATED: Final = re.compile(r"\b(?:not|never|without)\b|n't\b", re.IGNORECASE)
_EXCEPT: Final = re.compile(
    r"\b(?:except|besides|other\s+than|apart\s+from|au(?:ß|ss)er|bis\s+auf|sauf|à\s+part|excepto|salvo|aparte|menos)\b",
    re.IGNORECASE,
)
_END_OF_SENTENCE: Final = re.compile(r"[.!?;]\s|\n")
_NEAR_CHARS: Final = 200
_FILE: Final = re.compile(FILE)
_Plain = str | Callable[[re.Match[str]], str]


def _sentence_before(found: re.Match[str]) -> str:
    return _END_OF_SENTENCE.split(found.string[max(0, found.start() - _NEAR_CHARS) : found.start()])[-1]


def _put(pattern: re.Pattern[str], row: tuple[_Plain, bool], text: str) -> str:
    """The text in the plainer form, but where a condition or a reason is before it in its sentence."""
    plain, keeps = row

    def form(found: re.Match[str]) -> str:
        if keeps and _EXCEPT.search(_END_OF_SENTENCE.split(found.string[found.end() : found.end() + _NEAR_CHARS])[0]):
            return found[0]
        if _SUPPOSED.search(_sentence_before(found)):
            return found[0]
        return found.expand(plain) if isinstance(plain, str) else plain(found)

    return pattern.sub(form, text)


@remembered
def as_orders(text: str) -> str:
    """The text with each order in its plain form, as far as its words leave nothing open."""
    return _ORDERS.put(text, _put) if _FILE.search(text) else text


_PLAINER: Final[tuple[tuple[re.Pattern[str], _Plain], ...]] = (
    *_FORMS, *POLITE, *COPY, *MOVE, *DELETE, *RUN, *FIX, *CHANGE, *MAKE,
)  # fmt: skip
_ORDERS: Final = Rows[tuple[_Plain, bool]](
    (
        *((pattern, (plain, True)) for pattern, plain in KEEP),
        *((pattern, (plain, False)) for pattern, plain in _PLAINER),
    )
)
"""Each form with its plainer one, and whether it orders to change nothing, from which a sentence may except a part."""
