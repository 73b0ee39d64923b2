"""What a text says stays as it is: the order not to touch it, and the claim that it was not touched."""

import re
from collections.abc import Iterator
from typing import Final

from orchestrator.core.evidence.sentences import Said
from orchestrator.core.evidence.words import CHANGES, FILE, Deed, files

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
_NOTHING: Final = re.compile(
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
_NOT_GONE: Final = re.compile(
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


def kept(sentence: str, said: list[Said], *, order: bool) -> Iterator[str]:
    """The files that a sentence says stay as they are; ``order``: it is one, and else it tells what was done."""
    yield from (one["file"].lstrip("/") for pattern in (_LEFT, _STAYING) for one in pattern.finditer(sentence))
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
    return tuple(one["file"].lstrip("/") for one in _STILL.finditer(text))
