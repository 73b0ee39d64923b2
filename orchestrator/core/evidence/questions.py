"""Whether a task only asks, and whether a final message says that something was changed.

Words of English, and the commonest of German, French and Spanish. A text that they leave open counts as work, and not
as a claim: a doubt costs the user one look at the result, a false success costs the result.
"""

import re
from typing import Final, Literal

from orchestrator.core.evidence.orders import as_orders
from orchestrator.core.evidence.patterns import Worded
from orchestrator.core.evidence.words import Deed, bare, files, order, tokens

# -- what a task asks for ------------------------------------------------------------------

_POLITE: Final = (
    r"(?:please|kindly|can you|could you|would you|will you|bitte|kannst du|k[oö]nntest du|puedes|podr[ií]as|peux-tu"
    r"|pourrais-tu|pouvez-vous|(?:tu|vous)\s+(?:peux|pourrais|pouvez|pourriez)|k[oö]nnt?en sie|puede usted"
    r"|pourriez-vous|(?:me|nos)\s+(?:puedes?|podr[ií]as?)"
    r"|podr[ií]a)\b[\s,]*"
)
_CONNECTIVE: Final = (
    r"(?:and|then|also|so|but|or|else|otherwise|if (?:so|not|needed|necessary)|und|dann|sonst|aber|oder"
    r"|et|mais|ou|y|e|o|pero"
    r"|now|just|only|hey|nur|bloß|bitte|mal|seulement|juste|simplement|solo|sólo|solamente|please"
    r"|hi|hello|ok|okay|well|quick (?:one|question)|salut|bonjour|hola|buenas|hallo|moin|(?:kurze |eine )?frage"
    r"|(?:petite )?question"
    r"|(?:una )?pregunta|i was wondering,?|ich (?:frage|wollte) (?:mich|fragen),?|je me demand(?:e|ais)"
    r"|me pregunt(?:o|aba)|i want to (?:know|understand)|i(?:'d| would) like to (?:know|see|understand))\b[\s,:]*"
)
_OPENING: Final = re.compile(rf"\A\W*(?:{_CONNECTIVE})*", re.IGNORECASE)
_ASKED_FOR: Final = re.compile(rf"\A(?:{_POLITE})+", re.IGNORECASE)
_INTERROGATIVE: Final = re.compile(
    r"(?:(?:(?:in|on|at|for|with|by|from|to|of|under|a|à|de|en|para|con|por|desde|hasta|sobre|pour|sur|dans|sous|avec|par|für|von|mit|aus|auf|an|am|bei|unter|über|um|ab|bis|durch|nach|zu)\s+|d['\u2019])?(?:why|wh?ats?|what's|w[h]?ich|who(?:se)?|when|where(?:'?s)?|how(?:'?s)?|warum|wieso|weshalb|was|welche[mrsn]?|wer|wann|wo(?:r?(?:in|an|auf|aus|über|um)|mit|für|von|durch|her|hin|nach|bei|gegen)?|inwiefern|wieviele?|wie"
    r"|pourquoi|quoi|wozu|(?:le|la|les)?quel(?:le)?s?|qui|quand|o[uù]|comment(?=\s+(?:est|fait|faire|on|je|[cç]a|le|la|les|puis|se|fonctionne|marche|dois|peut|peux)\b|\s+(?:(?!(?:where|here|there|her|over|after|entire|before|their|other|your|every)\b)[^\W\d_]+(?:er|ir|re)\b|s['\u2019]y\b|[^\W\d_]+-(?:t-)?(?:on|ils?|elles?)\b))|combien|wie\s?viele?"
    r"|c['\u2019]est\s+(?:quoi|qui|o[uù])|qu['\u2019]est-ce|por qu[eé]|para qu[eé]|qu[eé]|q|cu[aá]l(?:es)?"
    r"|cu[aá]nt[oa]s?|qui[eé]n|cu[aá]ndo|d[oó]nde|c[oó]mo)\b"
    r"|(?:is|are|was|were|does|did|has|have|had|should|can i|can it|may|ist|sind|hat|est-ce"
    r"|kann ich|darf ich|soll ich|muss ich|gibt es|puis-je|dois-je|y a-t-il|puedo|debo|hay)\b"
    r"|(?:steht|läuft|lädt|macht|braucht|kommt|liegt|enthält|funktioniert|stimmt|passt|nutzt|verwendet|ruft|fehlt|gehört)\b(?=[^!\n]*\?)"
    r"|(?:usa|tiene|hace|está|funciona(?:r[ií]a)?|sirve|puede|contiene|abre|enciende)\b(?=[^!\n]*\?)"
    r"|(?:am i|are we|would(?!\s+(?:you|u)\b)|kann man|darf man"
    r"|w[uü]rde(?!n?\s+(?:du|sie|ihr|ich)\b)(?=[^!\n]*\?)|stimmt es"
    r"|peut-on|doit-on|se puede|se debe"
    r"|c['\u2019]est vrai|es (?:verdad|cierto)|[cç]a veut dire|c (?:koi|quoi)|qu['\u2019][^\W\d_]+ait"
    r"|[^\W\d_]+(?:\.\w+)?\s+[^\W\d_]+-(?:t-)?(?:ils?|elles?|on))\b"
    r"|do\s+(?:i|we|you|they|the|my|any|these|those)\b)",
    re.IGNORECASE,
)
"""Words that begin a question, with its question mark or without."""
_FRENCH_HOW: Final = re.compile(
    r"comment(?=\s+(?:est|fait|faire|on|je|[cç]a|puis|se|fonctionne|marche|dois|peut|peux)\b|\s+(?:(?!(?:where|here|there|her|over|after|entire|before|their|other|your|every)\b)[^\W\d_]+(?:er|ir|re)\b|s['\u2019]y\b|[^\W\d_]+-(?:t-)?(?:on|ils?|elles?)\b))",
    re.IGNORECASE,
)
"""Phrases that do not order to comment something out."""
_LOOKING: Final = re.compile(
    r"(?:tell\s+(?:me|us|what|why|how|whether|if|where|which)|give me|name|say (?:what|why|how|whether|if)"
    r"|help me understand|explain|describe|list|show|read|find|look|see|check|count|compare|summari[sz]e|analy[sz]e"
    r"|inspect|review|report|identify|determine|search|examine|verify|vergleich\w*|guck\w*|nachsehen|nachschauen|lesen"
    r"|compare[rz]?|compara\w*"
    r"|erkl[aä]r\w*|zeig\w*|lies|such\w*|pr[uü]f\w*|(?:mir|uns)\s+(?:sagen|zeigen|erkl[aä]ren)"
    r"|sag\w*|nenn\w*\s+mir|schau\w*|finde"
    r"|explique\w*|montre\w*"
    r"|beschreib\w*|fasse|schau\w*|r[ée]sume[rz]?|gib mir|donne(?:-moi)?|d[ée]cris|dis(?:-moi)?|dites(?:-moi)?"
    r"|(?:me\s+|m['\u2019])(?:dire|montrer|expliquer?s?|r[ée]sumer|dis|montres|explicas?|dices|muestras|cuentas)"
    r"|(?:take|have)\s+a\s+(?:\w+\s+)?look|jet(?:te[rz]?|er)\s+un\s+œil|echar?(?:le)?\s+un\s+vistazo"
    r"|(?:walk|talk|take) (?:me|us) through|go through|parcourir|recorrer|resumir\w*"
    r"|(?:mir|uns|mit (?:mir|uns))\s+(?:[^.,;!?\n]|\.\w){1,60}?\s"
    r"(?:sagen|zeigen|erkl[aä]ren|zusammenfassen|durchgehen|vorlesen|beschreiben)"
    r"|v[ée]rifie\w*|regarde\w*|cherche\w*|compte[rz]?"
    r"|expl[ií]ca\w*|mu[eé]stra\w*|ens[eé][ñn]a\w*|describe|resume|dame|dime|d[ií]game|decirme|mostrarme|explicarme"
    r"|comprueba|verifica|mira|busca|cuenta|liste)\b",
    re.IGNORECASE,
)
_RELATIVE: Final = re.compile(r"\s*(?:which|who|whose|qui|que|dont|quien)\b", re.IGNORECASE)
"""How a clause begins that only tells more of the text before it."""
_NOT_TO_DO: Final = re.compile(
    r"(?:do not|don't|dont|never|without|nothing|nicht|nichts|ohne|ne|n['\u2019]|sans|sin|pas|no|rien|nada)\b"
    r"|[^\W\d]+\s+(?:(?:es|sie|ihn|daran|dabei|bitte|aber)\s+){0,2}(?:nichts?|pas|rien|nada)\b",
    re.IGNORECASE,
)
_TOLD: Final = re.compile(
    r"(?:i|je|j['\u2019]ai|yo|it|we|the|this|that|these|those|there|my|our|they|he|she|you|your|its|a|an"
    r"|thanks?|thank you|yes|no"
    r"|because|since|when|after|before|yesterday|today|sometimes|always|es|er|sie|ich|der|die|das|danke|merci|gracias"
    r"|[\w/-]+\.\w+)\b",
    re.IGNORECASE,
)
"""What begins so tells something, as long as nothing is wanted in it."""
_WANTED: Final = re.compile(
    r"\b(?:should|must|needs? to|has to|have to|ought|want|need|would like|'d like|make sure|soll\w*|muss|doit"
    r"|debe|faut|voudrais|quiero|necesito|möchte|brauche)\b",
    re.IGNORECASE,
)
_WORK: Final = re.compile(
    r"(?<![.\w])(?:fix|repair|mend|correct|debug|write|rewrite|create|make|build|add|append|change|edit|modify|update|improve"
    r"|optimi[sz]e|refactor|delete|remove|clean|rename|move|copy|save|store|put|set up|install|uninstall|run|execute"
    r"|launch|restart|implement|convert|translate|replace|insert|generate|print|draw|dig|mine|craft|place"
    r"|turn (?:on|off|it)|set the|increase|decrease|refuel|enable|disable|merge|swap|harvest"
    r"|on (?:the|a|my) (?:monitor|screen)|to (?:computer|turtle)"
    r"|schreib\w*|erstell\w*|mach\w*|baue?|reparier\w*|korrigier\w*|verbesser\w*|behebe?|[aä]nder\w*|l[oö]sch\w*|starte?"
    r"|f[uü]hr\w*|[eé]cris|cr[eé]e\w*|fais|r[eé]par\w*|corrig\w*|modifi\w*|supprim\w*|lance"
    r"|escrib\w*|cre[ae]|haz|arregl\w*|cambi\w*|borr\w*|ejecut\w*)(?![\w.(])",
    re.IGNORECASE,
)
_ORDERED: Final = re.compile(
    r"(?:how about|what about|what if you|why don'?t you|switch|reduce|raise|lower|open|close|sort|empty|kill"
    r"|double|halve|log|comment|download|upload|zip|collect|stop|reset|clear|shorten|extend|send|refill|transfer|upgrade|tidy|format"
    r"|simplify|solve|undo|revert|test|try|rerun|sync|connect|label|equip|drop|unload|load|get)\b",
    re.IGNORECASE,
)
"""Words that ask for work where a clause begins with them, and elsewhere may be anything."""
_TO_DO: Final = re.compile(
    r"(?!(?:in|of|for|with|on|at|by|to|from|into|as|than|like|near|over|under|if|when|whether|wenn|falls|ob|dass|weil|si|quand|que|cuando|porque)\b)"
    r"[^\W\d]+\s+"
    r"(?:it|its|them|the|a|an|one|all|this|that|these|those|my|our|lines?|es|sie|ihn|das|die|den|le|la|les|lo|los)\b",
    re.IGNORECASE,
)
"""A word and what it is done to, where a clause begins."""
_ASIDE: Final = re.compile(
    r"\b(?:that|which|who)\s+(?:\w+\s+)?\w+|\bhow (?:do|can|could|would|should|to)\b[^.?!\n]*"
    r"|\b(?:wie man|comment|c[oó]mo)\b[^.?!\n]*|\b(?:do not|don't|dont|never|without)\s+\w+[^.?!,;\n]*",
    re.IGNORECASE,
)
"""Parts in which a word of work does not ask for work: how something is done, and what must not be done."""
_SENTENCES: Final = re.compile(r"(?<=[.?!;])\s+|\n+")
_PARTS: Final = re.compile(r"\s+[-\u2013\u2014]+\s+|[,;:]\s+|\bthen\b")
_JOINED: Final = re.compile(r"\s+(?:and|und|et|y)\s+", re.IGNORECASE)

_SHORT: Final = 4
"""Words of a question without a verb, such as "Coal left?"."""

_Kind = Literal["asks", "work", "told"]


def asks_only(prompt: str) -> bool:
    """Whether a task asks for knowledge and for nothing to be done, as far as its words say.

    Something of it asks, and each of its other clauses asks or only tells something: "Why does it crash? Fix it." is
    work, and so is whatever has no known form.
    """
    prompt = as_orders(prompt)
    every = [one.strip() for one in _SENTENCES.split(prompt.replace("¿", "\n")) if one.strip()]
    beside = any(_opening(one, marked=True, beside=False) == "asks" for one in every if one.endswith("?"))
    kinds = [kind for one in every for kind in _kinds(one, beside=beside)]
    return "asks" in kinds and "work" not in kinds


def _kinds(sentence: str, *, beside: bool) -> list[_Kind]:
    first, *parts = _PARTS.split(sentence)
    opening, *joined = _JOINED.split(first)
    kinds = [_opening(opening, marked=sentence.endswith("?"), beside=beside)]
    # "Why does it stop when I open the door and close it?" asks once.
    asks = kinds == ["asks"] and sentence.endswith("?") and _INTERROGATIVE.match(_begun(opening)) is not None
    kinds += [_further(one, only_polite=asks) for one in joined]
    return kinds + [_further(clause, only_polite=False) for one in parts for clause in _JOINED.split(one)]


def _begun(clause: str) -> str:
    """A clause without what only joins it to the one before."""
    opened = _OPENING.match(clause)
    return clause[opened.end() :] if opened else clause


def _opening(clause: str, *, marked: bool, beside: bool) -> _Kind:
    """What the first clause of a sentence is.

    ``marked``: the sentence ends with a question mark; ``beside``: the task has a plain question elsewhere.
    """
    ordered = _is_polite_order(clause)
    clause = _begun(clause)
    rest = _ASKED_FOR.sub("", clause)
    polite = rest != clause
    if _NOT_TO_DO.match(rest):
        return "told"
    if ordered or (_ORDERED.match(rest) and not _FRENCH_HOW.match(rest)):
        return "work"
    if _INTERROGATIVE.match(rest):
        return "asks"
    if _LOOKING.match(rest):
        return "work" if _WORK.search(_ASIDE.sub("", rest)) else "asks"
    if polite and rest:
        return "work"
    if _TOLD.match(rest) and not _WANTED.search(rest):
        return "asks" if marked else "told"
    if marked and len(rest.split()) <= _SHORT and not _TO_DO.match(rest) and not _WORK.search(rest):
        return "asks"
    return "work" if rest.strip(" .!?") and (not beside or orders(rest)) else "told"


_PLEASE: Final = re.compile(r"\b(?:please|bitte|por favor)\s+(?:es\s+|l[eao]s?\s+)?(?P<verb>[^\W\d_]+)", re.IGNORECASE)


def _is_polite_order(clause: str) -> bool:
    """Whether a clause has a word of politeness right before a verb that orders a change or a run."""
    return any(order(bare(one["verb"].lower())) not in (None, Deed.OTHER) for one in _PLEASE.finditer(clause))


def asks_something(sentence: str) -> bool:
    """Whether a sentence is a question by its form."""
    return sentence.rstrip().endswith("?") and _INTERROGATIVE.match(_begun(sentence)) is not None


_VALUE: Final = re.compile(
    r"\A\W*(?:tell\s+me\s+)?(?:what|which|quel(?:le)?s?|qué|cuál(?:es)?|was|welche[mrsn]?)\b(?![^?]*\b(?:why|how|does|do|happens|macht|tut|passiert|fait|hace|should|could|can|do\s+i|warum|soll|kann|pourquoi|comment|dois|puis"
    r"|por\s+qué|cómo|debo|puedo)\b)",
    re.IGNORECASE,
)


def asks_value(prompt: str) -> bool:
    """Whether a task asks for something that is in a file: "what is the password in a.lua?"."""
    return len(files(prompt)) == 1 and _VALUE.match(prompt) is not None


def orders(clause: str) -> bool:
    """Whether a clause has a word of work, or a verb that orders a change or a run."""
    deeds = (order(token.text) for token in tokens(clause) if not (token.is_file or token.is_mark))
    return _WORK.search(clause) is not None or any(deed is not None and deed is not Deed.OTHER for deed in deeds)


def _further(clause: str, *, only_polite: bool) -> _Kind:
    """What a clause behind another one is: work where it has the form of it, else a part of the one before."""
    whole, clause = clause, _begun(clause)
    rest = _ASKED_FOR.sub("", clause)
    if _RELATIVE.match(whole) or _NOT_TO_DO.match(rest):
        return "told"
    if _is_polite_order(whole):
        return "work"
    if _INTERROGATIVE.match(rest):
        return "asks"
    if _LOOKING.match(rest):
        return "work" if _WORK.search(_ASIDE.sub("", rest)) else "asks"
    if rest != clause:
        return "work" if rest.strip(" .!?") else "told"
    if only_polite:
        return "told"
    if _TOLD.match(rest):
        return "work" if _WANTED.search(rest) else "told"
    return "work" if _ORDERED.match(rest) or _WORK.match(rest) or _TO_DO.match(rest) else "told"


_HERE: Final = re.compile(
    r"\b(?:my|our|mine|this|these|here|left|there|it|its|mein\w*|unser\w*|dies\w*|hier|mon|ma|mes|notre|cet?|cette|ces|ici"
    r"|mis?|nuestr\w+|este|esta|estos|aqu[ií]|the\s+(?:computer|turtle|program|script|file|chest|monitor|farm|door|disk"
    r"|quarry|lamp|screen|directory|folder|fuel|signal|inventory|modem|server)s?)\b",
    re.IGNORECASE,
)
"""Words that mean a computer of the task, or what is on it."""
_GENERAL: Final = re.compile(
    r"\b(?:api|apis|lua|computercraft|cc:?\s?tweaked|minecraft|coroutines?|metatables?|closures?|syntax|craftos)\b"
    r"|\b(?:fs|os|term|turtle|parallel|peripheral|rednet|redstone|rs|textutils|http|gps|colou?rs|window|settings|shell"
    r"|multishell|vector|paintutils|keys|disk|pocket|commands|string|table|math|coroutine|io|bit32)\.\w+"
    r"|\b(?:how|wie|comment|c[oó]mo)\s+(?:do|does|can|could|should|to|kann|funktioniert|macht|man|est-ce|on|fait|faire|je|se|puedo"
    r"|funciona)\b[^.?!\n]{0,120}\b(?:an?|ein\w*|une?|un[oa]?|parallel|rednet|turtles|programs|modems|monitors|functions?)\b",
    re.IGNORECASE,
)
"""Words of a question that needs no computer."""
_LISTS: Final = re.compile(
    r"\b(?:is there|are there|gibt es|y a-t-il|hay|existiert|existe|does)\s+"
    r"(?:(?!in\b|en\b|dans\b|inside\b|on\b)[\w'\u2019]+\s+){0,4}?"
    r"[\w/-]+\.\w+(?:\s+exists?\b|\s*(?:\?|\Z))"
    r"|\b(?:newer|newest|older|oldest|size of|größe von)\b"
    r"|\b(?:how (?:big|large|old)|where(?:'s| is)?|wie (?:groß|alt)|wo|où|d[oó]nde)"
    r"\s+(?:is|are|ist|liegt|est|se trouve|est[aá])?\s*"
    r"(?:(?:the|die|le|la|el)\s+)?(?:\w+\s+)?[\w/-]+\.\w+",
    re.IGNORECASE,
)
"""Questions about a file that a list answers."""


def is_knowledge(prompt: str) -> bool:
    """Whether a task only asks, and for what needs no computer: "how does the parallel API work?"."""
    if files(prompt) or not asks_only(prompt):
        return False
    asked = [one for one in _SENTENCES.split(prompt) if asks_something(one)] or [prompt]
    return all(_GENERAL.search(one) and not _HERE.search(one) for one in asked)


def only_lists(prompt: str) -> bool:
    """Whether a question about a file is answered by a list: "is there a file a.lua?"."""
    return _LISTS.search(prompt) is not None


# -- what a final claims -------------------------------------------------------------------

_DONE: Final = (
    r"(?:fixed|repaired|mended|corrected|resolved|wrote|written|rewrote|rewritten|created|added|appended|changed|edited"
    r"|modified|updated|improved|optimi[sz]ed|refactored|deleted|removed|cleaned|renamed|moved|copied|saved|stored"
    r"|installed|executed|restarted|implemented|replaced|inserted|patched|adjusted|increased|decreased|reduced|raised|lowered"
    r"|opened|closed|refuel+ed|enabled|disabled|turned|switched|set|put|sorted|merged|swapped|doubled|started|stopped"
    r"|made sure|applied|solved|reverted)\b(?!\s+(?:no|nothing|none)\b)"
)
_MENDED: Final = (
    r"(?:fixed|repaired|mended|corrected|resolved|patched|refactored|updated|improved|refuel+ed|solved|increased|decreased"
    r"|reduced|applied|implemented)"
)
_CHANGE: Final = Worded(
    rf"\A\W*(?:successfully\s+)?{_DONE}"
    rf"|\b(?:i|we)(?:['\u2019]ve|\s+have)?(?:\s+(?:also|now|just|already|successfully|then|(?:gone|went) ahead and))*"
    rf"\s+{_DONE}"
    rf"|\b(?:has|have)\s+(?:(?:now|also|just|already)\s+)*been\s+(?:{_MENDED}|successfully\s+{_DONE})\b"
    rf"|\b(?:is|are|was|were)\s+(?:(?:now|successfully)\s+)*{_MENDED}\b"
    rf"|\A\W*(?:(?:the|all)\s+)?(?:bug|file|program|script|code|issue|error|problem|typo|[\w/-]+\.\w+)s?:?\s+{_MENDED}\b"
    r"|\b(?:behoben|repariert|korrigiert)\b"
    r"|\bich habe\b[^.!?\n]{0,60}\b(?:geschrieben|erstellt|ge[aä]ndert|gel[oö]scht|ersetzt)\b"
    r"|\bj['\u2019]ai (?:\w+ )?(?:corrig|r[eé]par|[eé]crit|cr[eé][eé]|modifi|supprim|ajout|remplac)"
    r"|\bhe (?:corregido|arreglado|escrito|creado|modificado|cambiado|borrado|a[nñ]adido)\b",
    re.IGNORECASE,
)
_EMPTY: Final = re.compile(
    r"\W*(?:(?:i(?:['\u2019](?:m|ve)| am| have)|it(?:['\u2019]s| is)|that(?:['\u2019]s)?|all|the|your|task|job"
    r"|request|is|was|has|have|been|now|successfully|success|done|completed?|finished|fulfilled|set|good|great|ok|okay|everything"
    r"|works|as you asked|no problem|see above|fertig|erledigt|termin[eé]|listo|hecho)\b\W*)*",
    re.IGNORECASE,
)


_CLAIMS: Final = re.compile(r"(?:[!?;\n]|\.(?!\w))")
_DENIED: Final = re.compile(
    r"\b(?:not|never|nothing|nicht|nichts|nie|keine?n?|rien|jamais|ne|nada|nunca|no)\b|n['\u2019]t\b|\bn['\u2019](?:ai|a|est)\b",
    re.IGNORECASE,
)


def claims_change(message: str) -> bool:
    """Whether a message says that its writer changed something: "Fixed.", "I have updated farm.lua"."""
    return any(_CHANGE.search(part) and not _DENIED.search(part) for part in _CLAIMS.split(message))


def says_nothing(message: str) -> bool:
    """Whether a message says no more than that something is over: "Done.", "Task completed!", or nothing."""
    return _EMPTY.fullmatch(message) is not None
