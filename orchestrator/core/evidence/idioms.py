"""Idioms that order something, each with the plain imperative that it stands for."""

import re
from typing import Final

from orchestrator.core.evidence.patterns import FILE

_PARTS: Final = {
    # A file, with its article and noun.
    "X": r"(?:(?:the|our|my|die|das|den|dem|der|unsere?n?|le|la|el|al)\s+)?(?:(?:new|old|alte[ns]?|vieux|viejo)\s+)?"
    r"(?:l['’])?(?:(?:file|script|program|datei|skript|programm|fichier|programme|archivo|fichero|programa|name|nom|nombre)\s+)?"
    rf"[\"'`„«]?(?P<x>{FILE})[\"'`“»]?",
    "Y": rf"[\"'`„«]?(?P<y>{FILE})[\"'`“»]?",
    # Some words of the same clause; a point may be in a name.
    "MID": r"(?:[^.,;:!?\n]|\.\w){1,80}?",
    "AN": r"(?:an?|eine?n?|ne|nen|une?|un[oa]?|some)",
    # Words that may be between "a" and the name: "a new config file called".
    "ADJ": r"(?:"
    r"(?!(?:of|in|for|from|about|to|on|at|by|out|with|that|which|than|how|why|what|where|whether|if|copy|backup|look"
    r"|von|aus|für|über|zu|mit|wie|warum|was|wo|ob|kopie"
    r"|du|des|sur|dans|pour|avec|comment|pourquoi|copie"
    r"|del|para|por|con|sobre|en|que|qui|cómo|copia)\b)"
    r"(?!d[eu]\b(?!\s+(?:config|text)))[^\W\d_]+,?\s+){0,5}?",
    # The end of what is wished for.
    "END": r"(?=\s*(?:[.,;:!?)]|\Z|\n)|\s+(?:that|which|who|with|for|so|and|in|on"
    r"|die|das|der|mit|für|und|zum|bekommen|haben|geben|auf"
    r"|qui|avec|pour|et|dans|sur|que|con|para|y|en|genre|please|bitte|stp|svp)\b)",
    # Where a command of a shell may begin.
    "DO": r"(?P<do>\A|(?<=[.!?]\s)|(?<=\n)"
    r"|(?:^|(?<=\s))(?:and|then|please|pls|und|bitte|dann|et|puis|y|luego|not|don't|:|,)\s)\s*",
    # The same name in a folder.
    "INTO": r"[\"'`„«]?(?P<y>[\w/-]{1,60}/(?P=x))(?!\w)",
    "BEGIN": r"(?:\A|(?<=[.!?¿]\s)|(?<=[¿\n,]))\s*(?:(?:so|also|donc|alors|please|bitte|pls|plz|porfa)\s+)?",
    # Not now, but each time that something happens.
    "LATER": r"(?!\s*,?\s*(?:when\w*|if|every|each|at|on|wenn|sobald|falls|beim|bei|jede\w*|jedes)\b)",
    "MUST": r"(?:should|must|needs?\s+to|has\s+to|have\s+to|ought\s+to|is\s+to)",
    "MUSS": r"(?:soll(?:te)?n?|muss|müsste|müssen)",
    "DOIT": r"(?:doit|devrait|doivent)",
    "DEBE": r"(?:debe(?:ría|n)?|tiene\s+que|tendría\s+que)",
    "WISH": r"(?:i(?:'d|\s+would)\s+(?:like|love)|(?:i|we)\s+(?:want|need)"
    r"|ich\s+(?:möchte|will|hätte\s+gerne?|brauche)|(?:j'aimerais|je\s+(?:voudrais|veux))|j'ai\s+besoin"
    r"|quisiera|quiero|necesito|me\s+gustaría)",
}


def filled(pattern: str) -> re.Pattern[str]:
    """The pattern with its parts in their places."""
    # A pattern that begins with a file is tried at each place of a text: it begins with the bare name.
    pattern = re.sub(r"\A<([XY])>", lambda one: rf"(?P<{one[1].lower()}>{FILE})[\"'`“»]?", pattern)
    return re.compile(re.sub(r"<([A-Z]+)>", lambda one: _PARTS[one[1]], pattern), re.IGNORECASE)


def _rows(*rows: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((filled(pattern), plain) for pattern, plain in rows)


KEEP: Final = _rows(
    (r"\b(?:il\s+ne\s+faut\s+)ni\s+(?:[^\W\d_]+\s*,?\s+(?:ni\s+)?){1,4}<X>", r"do not change \g<x>"),
    (r"\bn'(?=[^\W\d_]+\s+(?:pas|jamais|rien)\b)", "ne "),
    (r"\b(?:auf\s+keinen\s+fall|unter\s+keinen\s+umständen)\b", r"nicht"),
    (r"\b(?:en\s+aucun\s+cas|sous\s+aucun\s+prétexte)\b", r"pas"),
    (
        r"\b(?:before\s+anything\s+else(?:\s+happens)?|avant\s+toute\s+chose|antes\s+(?:de|que)\s+nada|bevor\s+irgend\s?was\s+passiert)\b",
        r" ",
    ),
    (
        r"\b(?:no\s+(?:reason|need|point)\s+(?:to|in)\s+keep(?:ing)?|aucune\s+raison\s+de\s+garder|ning[uú]n\s+motivo\s+para\s+(?:conservar|guardar))\s+<X>\s*[;,.]",
        r"about \g<x>,",
    ),
    (r"\bkeinen\s+grund\s*,\s+<X>\s+zu\s+behalten\s*[;,.]", r"von \g<x>,"),
    # Idioms.
    (
        r"\b(?:(?:keep\s+(?:your|the)\s+)?(?:hands|fingers)\s+(?:off|away\s+from)|(?:die\s+)?finger\s+weg\s+von|bas\s+les\s+pattes\s+(?:de|sur)|pas\s+touche\s+à"
        r"|(?:las\s+)?manos\s+fuera\s+de)\s+<X>",
        r"do not change \g<x>",
    ),
    (r"\bdie\s+(?:finger|hände)\s+von\s+<X>\s+(?:zu\s+)?lassen\b", r"do not change \g<x>"),
    (
        r"<X>\s*,?\s+(?:(?:is|are|ist|sind|est|es|son|c'est)\s+)(?:(?:absolut|absolutely|completely|strictly|völlig|totalement|completamente)\s+)?"
        r"(?:off[\s-]+limits|taboo|sacred|untouchable|tabu|heilig|intocables?|intouchables?|sacrés?|sagrad[oa]s?|interdit(?:\s+d'y\s+toucher)?|read-only\b(?=\s*(?:[.!,;]|\Z)))",
        r"do not change \g<x>",
    ),
    (
        r"\b(?:treat|behandle|behandelt|considère|traite|trata|considera)\s+<X>\s+(?:as|als|comme|como)\s+(?:(?:being|étant|si\s+fuera|wäre\s+sie)\s+)?(?:de\s+|en\s+)?"
        r"(?:read-?only|schreibgeschützt|nur\s+lesbar|(?:en\s+)?lecture\s+seule|(?:de\s+)?solo\s+lectura|off[\s-]limits|tabu)",
        r"do not change \g<x>",
    ),
    (
        r"\b(?:no|keine(?:rlei)?|aucune?|ning[uú]na?)\s+(?:changes?|edits?|modifications?|änderung(?:en)?|changements?|cambios?|modificaci(?:ón|ones))\s+"
        r"(?:to|in|of|at|an|von|à|dans|de|en|a)\s+<X>(?!\s+(?:is|are|was|were|sind|ist|war|n'|no)\b)",
        r"do not change \g<x>",
    ),
    (
        r"\b(?:don't|do\s+not|dont|never)\s+(?:mess|fiddle|tinker|play|fool)\s+(?:around\s+)?with\s+<X>",
        r"do not change \g<x>",
    ),
    (
        r"\ban\s+<X>\s+(?:bitte\s+)?(?:nix|nichts|nicht)\s+(?:herum|rum|dran)?(?:fummeln|machen|ändern|drehen|basteln|schrauben)",
        r"do not change \g<x>",
    ),
    # Passives and impersonals.
    (
        r"<X>\s+(?:must|may|should|can)(?:\s+not|n't)\s+(?:ever\s+)?be\s+(?:changed|modified|edited|touched|altered|overwritten|deleted|moved)\b",
        r"do not change \g<x>",
    ),
    (
        r"<X>\s+(?:darf|soll|sollte)\s+(?:bitte\s+|aber\s+|auf\s+keinen\s+fall\s+){0,2}(?:nicht|nie|niemals)\s+"
        r"(?:geändert|verändert|bearbeitet|angefasst|angerührt|überschrieben|gelöscht|verschoben)\s+werden\b",
        r"do not change \g<x>",
    ),
    (
        r"<X>\s+ne\s+(?:doit|peut|devra)\s+(?:surtout\s+)?(?:pas|jamais)\s+être\s+(?:modifié|changé|touché|édité|altéré|écrasé|supprimé|déplacé)e?s?",
        r"do not change \g<x>",
    ),
    (
        r"<X>\s+no\s+(?:se\s+)?(?:debe|puede|ha\s+de)\s+(?:ser\s+)?(?:modific|cambi|toc|edit|alter|sobrescrib|borr)(?:ar|ir|ado|ada|ito)(?:se)?\b",
        r"do not change \g<x>",
    ),
    (
        r"\bnothing\s+in\s+<X>\s+(?:is\s+to|must|should|may)\s+be\s+(?:chang|alter|modif|touch|edit)\w+",
        r"do not change \g<x>",
    ),
    (r"\bin\s+<X>\s+(?:darf|soll)\s+nichts\s+(?:ver|ge)ändert\s+werden", r"do not change \g<x>"),
    (r"\brien\s+ne\s+doit\s+être\s+(?:changé|modifié|touché)\s+(?:dans|à)\s+<X>", r"do not change \g<x>"),
    (
        r"\bno\s+(?:hay\s+que|se\s+(?:debe|puede)|debes?|cambies|modifiques|toques)\s+(?:cambiar\s+|modificar\s+|tocar\s+)?nada\s+(?:en|de)\s+<X>",
        r"do not change \g<x>",
    ),
    # Lists of what is not to be done.
    (
        r"\b(?:do\s+not|don't|dont|never|no|ne|not)\s+(?:[^\W\d_]+(?:\s*,\s*|\s+)){1,4}(?:(?:or|nor|and|oder|ou|ni|o)\s+)(?:ever\s+)?[^\W\d_]+\s+<X>",
        r"do not change \g<x>",
    ),
    (
        r"\b(?:ni|neither)\s+(?:[^\W\d_]+\s*,?\s+){1,3}(?:nor|ni)\s+(?:[^\W\d_]+\s*,?\s+(?:ni|nor)\s+)?[^\W\d_]+\s+<X>",
        r"do not change \g<x>",
    ),
    (r"<X>\s+(?:bitte\s+)?weder\s+\w+\s+noch\s+\w+(?:\s+noch\s+\w+)?", r"do not change \g<x>"),
    # "You may read it, but not write to it."
    (
        r"\b(?:(?:may|can|darfst|kannst|peux|pouvez|puedes?)\s+(?:only\s+|nur\s+|solo\s+)?)(?:read|look\s+at|lire|leer)\s+<X>\s*,?\s+(?:but|mais|pero)\s+(?:you\s+)?"
        r"(?:not\b|n[e']|no\b|nothing|mustn't|must\s+not|don't|do\s+not|may\s+not|can't|cannot)[^.,;!?\n]{0,40}",
        r"do not change \g<x>",
    ),
    (
        r"\b(?:darfst|kannst)\s+(?:du\s+)?<X>\s+(?:zwar\s+|nur\s+|gerne?\s+)?lesen\s*,?\s+aber\s+(?:nicht|nichts|nix)\b[^.,;!?\n]{0,40}",
        r"do not change \g<x>",
    ),
    # "It is fine, so don't rewrite it."
    (
        r"<X>\s+(?:is|ist|est|está)\s+(?:\w+\s+)?(?:fine|good|ok|okay|perfect|gut|perfekt|bien|parfait|perfecto)(?:\s+(?:so|así|as\s+(?:it\s+)?is|comme\s+ça|wie\s+(?:sie|es)\s+ist))?\s*,\s+"
        r"(?:so\s+|also\s+|donc\s+|así\s+que\s+)?(?:(?:don't|do\s+not|please\s+don't)\s+(?:rewrite|change|touch|edit|modify)\s+it|ne\s+(?:l[ea]\s+)?\w+\s+pas|no\s+l[oa]\s+\w+"
        r"|(?:schreib|änder|fass|rühr)e?\s+(?:sie|es|ihn|die\s+datei|das\s+skript)\s+(?:bitte\s+)?nicht(?:\s+(?:um|an))?)",
        r"do not change \g<x>",
    ),
    # What stays as it is.
    (
        r"\b(?:i|we)\s+(?:need|want|would\s+like)\s+<X>\s+to\s+(?:stay|remain|be\s+kept|be\s+left)\b[^.,;!?\n]{0,40}",
        r"do not change \g<x>",
    ),
    (
        r"<X>\s+(?:is|are|be|to\s+be|must\s+be|should\s+be)\s+(?:left|kept)\s+(?:completely\s+|exactly\s+)?(?:unchanged|untouched|intact|alone|as\s+(?:it|they)\b)[^.,;!?\n]{0,20}",
        r"do not change \g<x>",
    ),
    (
        r"\b(?:leave|keep|lass|laisse[rz]?|deja|mantén|conserva)\s+<X>\s+(?:bitte\s+|please\s+)?(?:exactly\s+|genau\s+|exactamente\s+|exactement\s+)?so\s*,\s+wie\s+(?:sie|es|er)\s+(?:ist|sind|war)",
        r"do not change \g<x>",
    ),
    (
        r"<X>\s+(?:<MUSS>\s+)?(?:bitte\s+)?(?:genau\s+)?(?:so\s+bleiben|unberührt(?:\s+bleiben)?|unangetastet|erhalten\s+bleiben|bleiben,?\s+wie)\b",
        r"do not change \g<x>",
    ),
    (
        r"\b(?:contents?|inhalte?|contenu|contenido)\s+(?:of|von|der|de|d')\s*<X>\s+(?:has|have|must|should|muss|soll|doit|debe|tiene)\s+(?:to\s+|que\s+)?"
        r"(?:stay|remain|be\s+kept|erhalten|bleiben|unverändert|rester|être\s+conservé|quedar|permanecer|conservarse|mantenerse)\b",
        r"do not change \g<x>",
    ),
    (
        r"<X>\s+se\s+(?:queda|quede)\s+(?:exactamente\s+)?(?:como\s+est[aá]|igual|así)\b",
        r"do not change \g<x>",
    ),
    (
        r"\basegúrate\s+de\s+que\s+<X>\s+(?:quede|siga|permanezca)\s+(?:sin\s+cambios|igual|intact[oa]|como\s+está)",
        r"do not change \g<x>",
    ),
    (
        r"\b(?:mantén|mantener|deja|dejar|conserva)\s+<X>\s+(?:sin\s+(?:cambios|tocar|modificar)|intact[oa])",
        r"do not change \g<x>",
    ),
)
"""Files that have to stay as they are. These rows come first, so that a "not" is read with its verb."""

MAKE: Final = _rows(
    (r"\bde\s+(?:configuration|configuración|config|texte|texto|données|datos)\b(?=\s+[\w/-]+\.\w)", " "),
    (r"\b(?:kannst|könntest|würdest)\s+du\s+(?:mir\s+|mal\s+|fix\s+|schnell\s+){0,3}(?:ne|nen)\s+", "bitte eine "),
    (
        r"<X>\s+(?:doesn't|does\s+not|isn't)\s+(?:exist|there)(?:\s+yet)?\s*[,;.]\s*(?:so\s+|and\s+)?(?:please\s+)?(?:create|make|write|generate|add)\s+(?:it|one)\b",
        r"please create \g<x>",
    ),
    (
        r"<X>\s+(?:gibt\s+es|existiert)\s+(?:noch\s+)?nicht\s*[,;.]\s*(?:also\s+)?(?:bitte\s+)?(?:erzeuge|erstelle?|schreibe?|mache?|lege?)\s+(?:sie|es|eine?|ihn)\b",
        r"please create \g<x>",
    ),
    (
        r"<X>\s+n'existe\s+pas(?:\s+encore)?\s*[,;.]\s*(?:alors\s+|donc\s+)?(?:(?:merci\s+de\s+l[ea]|please)\s+(?:créer|écrire|générer)|(?:crée|écris|génère)[rz]?-l[ea])\b",
        r"please create \g<x>",
    ),
    (
        r"<X>\s+(?:todavía|aún)\s+no\s+existe\s*[,;.]?\s*(?:así\s+que\s+|please\s+)?(?:créal[oa]|cr[eé]a\s+un[oa]?|escríbel[oa]|genéral[oa])\b",
        r"please create \g<x>",
    ),
    (
        r"\b(?:we're|we\s+are|i'm|i\s+am)\s+missing\s+<X>\s*[,;.]\s*(?:please\s+)?(?:create|make|write|generate|add)\s+(?:it|one)\b",
        r"please create \g<x>",
    ),
    (
        r"\b(?:uns|mir)\s+fehlt\s+<X>\s*[,;.]\s*(?:bitte\s+)?(?:erzeuge|erstelle?|schreibe?|mache?|lege?)\s+(?:sie|es|eine?|ihn)\b",
        r"please create \g<x>",
    ),
    (r"\bil\s+(?:nous|me)\s+manque\s+<X>\s*[,;.]\s*(?:crée|écris|génère)[rz]?-l[ea]\b", r"please create \g<x>"),
    (r"\b(?:nos|me)\s+falta\s+<X>\s*[,;.]\s*(?:cr[eé]a|genera|escribe)\s*(?:l[oa]|un[oa]?)\b", r"please create \g<x>"),
    (r"<BEGIN>draft\s+(?=(?:me\s+)?(?:an?\s+|[\w/-]+\.\w))", r" create "),
    (
        r"\b(?:<WISH>|let's\s+have|give\s+me|gimme|get\s+me|(?:could|can|may)\s+i\s+(?:have|get)|(?:we're|we\s+are|i'm|i\s+am)\s+missing|there\s+(?:should|must|needs\s+to)\s+be"
        r"|what\s+(?:i|we)\s+(?:want|need)\s+is|(?:könnte|kann)\s+ich|es\s+<MUSS>|(?:uns|mir)\s+fehlt|was\s+ich\s+(?:will|brauche|möchte),?\s+ist"
        r"|il\s+(?:me\s+|nous\s+)?(?:faudrait|faut|manque)|je\s+pourrais\s+avoir|puis-je\s+avoir|ce\s+que\s+je\s+(?:veux|voudrais),?\s+c'est"
        r"|<DEBE>\s+haber|hace\s+falta|(?:nos|me)\s+falta|lo\s+que\s+(?:quiero|necesito)\s+es|(?:me\s+puedes|puedes|podrías)\s+dar(?:me)?|dame)"
        r"\s+(?:bitte\s+|please\s+|tener\s+|avoir\s+|gerne?\s+)?<AN>\s+<ADJ><X><END>",
        r"please create \g<x>",
    ),
    (
        r"<BEGIN>(?:new|neue[sr]?|nouveau|nouvelle|nuev[oa])\s+(?:file|script|program|datei|skript|programm|fichier|programme|archivo|fichero|programa)\b[^.:;\n]{0,25}:\s*<X>",
        r" please create \g<x>",
    ),
    (
        r"<BEGIN>(?:archivo|fichero|script|programa|fichier)\s+(?:nuevo|nouveau)\b[^.:;\n]{0,25}:\s*<X>",
        r" please create \g<x>",
    ),
    (
        r"\b(?:start|begin|fange?|beginne|commence[rz]?|empieza|empiece|comienza)\s+(?:bitte\s+|mal\s+|mit\s+|with\s+|par\s+|con\s+|avec\s+){0,2}<AN>\s+"
        r"(?:(?:new|fresh|empty|neue[ns]?|leere[ns]?|nouveau|nouvelle|vide|nuev[oa]|vací[oa]|file|script|program|datei|skript|programm|fichier|programme|archivo|fichero|programa)\s+){1,3}<X>",
        r"please create \g<x>",
    ),
    (r"(?<!n't\s)(?<!not\s)\b(?:set|whip|knock|cook)\s+up\s+(?=(?:(?:me|us)\s+)?(?:an?\s+|[\w/-]+\.\w))", "create "),
    (r"\b(?:throw|put|hack)\s+together\s+(?=(?:an?\s+|[\w/-]+\.\w))", "create "),
    (r"<BEGIN>(?:me|nos)\s+(?:montas|haces|escribes|creas|preparas|generas)\b", " crea"),
    (r"\bhaz(?:me|nos)\b", "haz"),
)

CHANGE: Final = _rows(
    (
        r"<X>\s+(?=(?:<MUST>|<MUSS>|<DOIT>|<DEBE>)\s+(?!not\b|nicht\b|pas\b)(?:[^.;:!?\n]|\.\w){1,80}?\b(?:instead\s+of|rather\s+than|statt|anstatt|anstelle|au\s+lieu\s+d|en\s+lugar\s+de|en\s+vez\s+de))",
        r"change \g<x>, which ",
    ),
    (
        r"\b(?:in|dans|en)\s+<X>\s*,?\s+(?=(?:il\s+faut|hay\s+que|muss|soll)\s+(?:[^.;:!?\n]|\.\w){1,60}?\b(?:à\s+la\s+place\s+d|au\s+lieu\s+d|statt|en\s+lugar\s+de|en\s+vez\s+de))",
        r"change \g<x>, which ",
    ),
    (
        r"\b(?:<WISH>|(?:could|can)\s+we\s+have)\s+(?:que\s+|qu'|d'avoir\s+|,?\s*dass\s+)?<X>\s+(?:to\s+)?(?=(?:say|print|show|use|read|write|call|ask|return|start|soit|utilise|affiche|demande|use|imprima|muestre|tenga|diga|sea|esté)\b)",
        r"please ensure \g<x>, which ",
    ),
    (
        r"\b<WISH>\s*,?\s+(?:dass|que|qu')?\s*(?:the|die|der|das|la|le|el|l')\s*(?!cop|kopie|name|nom|inhalt|content|conten|backup|copia)[^\W\d_]+\s+(?:of|in|von|de|d'|du|dans|en)\s*<X>"
        r"(?=\s+(?:to\s+be\s+\w|soit|soient|sea|sean|esté|estuviera|fuera|[^\W\d_]+\s+[^\W\d_]+\s+ist\b))(?!\s+to\s+be\s+(?:kept|left|shown|saved|the\s+same)\b)",
        r"please ensure \g<x>, which ",
    ),
    (
        r"\bmache?n?(?:\s+(?:bitte|mal)){1,2}\s*,?\s*(?:dass|das)\s+<X>\s+(?!funktioniert|läuft)",
        r"change \g<x>, which ",
    ),
    (r"\bturn\s+(?=(?:[^.,;!?\n]|\.\w){1,80}?\binto\b)", "change "),
    (
        r"\bdrop\s+(?=(?:the|all|any|every|that|this)\s+(?:\w+\s+){0,2}(?:lines?|rows?|entr(?:y|ies)|commas?|functions?|comments?|words?|file|script|program)\b)",
        "remove ",
    ),
    (r"\bhänge?\s+(<MID>)\s+an\b", r"ergänze \1"),
    (r"\bdrehe?\s+(<MID>)\s+(?:hoch|runter|herunter)\b", r"ändere \1"),
    (r"\bsaca(?:r)?\s+(?=(?:el|la|los|las)\s+(?:prints?|líneas?|comentarios?|funci(?:ón|ones)|trazas?)\b)", "quita "),
    (
        r"\b(?P<verb>add|append|insert|put|write|ajoute[rz]?|insère|écris|mets|agrega|agregar|añade|añadir|inserta|pon|escribe)\s+(?P<what>[^.,;:!?\n]{1,60}?)\s+(?:(?:at|to|on)\s+the\s+(?:very\s+)?(?:end|top|bottom|beginning|start)\s+of|à\s+la\s+fin\s+d[eu]|au\s+(?:tout\s+)?début\s+d[eu]|en\s+(?:haut|bas|tête)\s+d[eu]|al\s+(?:final|principio|comienzo|inicio)\s+de)\s+<X>",
        r"\g<verb> \g<what> in \g<x>",
    ),
    (r"\bcomplète[rz]?\s+<X>", r"modifie \g<x>"),
)

FIX: Final = _rows(
    (r"\b(?:sort|straighten|iron)\s+(?:it|this|that|them)\s+out\b", "fix it"),
    (r"\b(?:iron|sort|straighten)\s+out\s+", "fix "),
    (r"\b(?:put|make|set)\s+(?:it|this|that)\s+right\b", "fix it"),
    (r"\bsquash\s+(?=(?:the|that|this|a|all|every)\b)", "fix "),
    (r"\bbring\w*\s+(?:das|es|sie|ihn|alles|die)\s+(?:bitte\s+|mal\s+|wieder\s+){0,2}in\s+ordnung\b", "repariere es"),
    (r"\bmache?\s+(?:das|es|sie)\s+(?:bitte\s+|mal\s+|wieder\s+){0,2}(?:richtig|heil|ganz)\b", "repariere es"),
    (r"\bbiege?\s+(?:das|es|sie)\s+(?:bitte\s+|mal\s+|wieder\s+){0,2}(?:gerade|hin)\b", "repariere es"),
    (
        r"\b(?:kriegst|bekommst)\s+du\s+(?:das|es|sie|ihn)\s+(?:bitte\s+|mal\s+|wieder\s+){0,2}(?:hin|zum\s+laufen)\b",
        "bitte repariere es",
    ),
    (r"\bmerze?\s+(<MID>)\s+aus\b", r"behebe \1"),
    (r"\bremet(?:s|tez)-(?:la|le|les)\s+(?:d'aplomb|en\s+état|en\s+ordre)\b", "répare-le"),
    (r"\bpon(?:le|les)\s+(?:remedio|solución|arreglo)\b", "arréglalo"),
    (
        r"\b<WISH>\s+(?:que\s+|qu')<X>\s+(?:vuelva\s+a\s+(?:funcionar|ir)|remarche|refonctionne|marche\s+à\s+nouveau)\b",
        r"fix \g<x>",
    ),
    (r"\b(?:me|nos)\s+l[oa]s?\s+(?:arreglas|reparas|corriges|solucionas)\b", "por favor arréglalo"),
    (r"(?<=¿)\s*l[oa]s?\s+puedes\s+(?=\w+[aei]r\b)", " por favor "),
)

DELETE: Final = _rows(
    (r"<DO>(?:rm|del)\s+(?:-\w+\s+)?<X>", r"\g<do> delete \g<x>"),
    (r"\bthrow\s+(?:away|out)\s+<X>", r"delete \g<x>"),
    (r"\b(?:do\s+away\s+with|lose)\s+<X>", r"delete \g<x>"),
    (r"<BEGIN>(?:bin|kill|scrap|nuke|zap|dump)\s+<X>", r" delete \g<x>"),
    (r"<X>\s+can\s+go(?=\s*(?:[.,;!]|\Z))", r"please delete \g<x>"),
    (r"\b(?:i|we)\s+want\s+<X>\s+gone\b", r"delete \g<x>"),
    (
        r"\b(?:schmei(?:ß|ss)e?|hau|nimm|kick)\s+<X>\s+(?:bitte\s+|mal\s+){0,2}(?:raus|weg|heraus)(?!\s+und\s+(?:tu|leg|pack|schieb))",
        r"lösche \g<x>",
    ),
    (
        r"\b(?:nimm|wirf|schmei(?:ß|ss)e?|hau)\s+(<MID>)\s+(?:raus|weg|heraus)\b(?!\s+und\s+(?:tu|leg|pack|schieb))",
        r"entferne \1",
    ),
    (
        r"<X>\s+(?:kann|soll|muss|darf)\s+(?:jetzt\s+|bitte\s+|dann\s+|ruhig\s+){0,2}weg\b(?!\s+(?:sein|bleiben))",
        r"bitte lösche \g<x>",
    ),
    (r"<BEGIN>weg\s+mit\s+<X>", r" lösche \g<x>"),
    (
        r"\b(?:ich\s+(?:will|möchte),?\s+dass|je\s+veux\s+que)\s+<X>\s+(?:verschwindet|wegkommt|disparaisse)\b",
        r"lösche \g<x>",
    ),
    (r"\b(?:quiero|quisiera)\s+que\s+(?:desaparezca\s+<X>)", r"borra \g<x>"),
    (
        r"<X>\s+(?:in\s+den\s+(?:papierkorb|müll)|à\s+la\s+(?:poubelle|corbeille)|a\s+la\s+(?:papelera|basura)|in\s+the\s+(?:bin|trash))\b",
        r"please delete \g<x>",
    ),
    (r"<BEGIN>fuera\s+<X>", r" borra \g<x>"),
    (
        r"\b(?:haz\s+desaparecer|cárgate|deshazte\s+de|fais\s+disparaître|débarrasse(?:-nous|-moi|z-nous|-toi)?\s+de)\s+<X>",
        r"delete \g<x>",
    ),
    (r"<X>\s+tiene\s+que\s+(?:irse|desaparecer)\b", r"borra \g<x>"),
    (
        r"\b(?:delete|remove|lösche?|entferne?|supprime[rz]?|efface[rz]?|elimina|borra)\s+(?:the|this|that|die|diese|ce|le|el|este)\s+(?:file|datei|fichier|archivo|fichero)(?=(?:\s+bitte|\s+please)?\s*(?:[.,;!]|\Z))",
        r"delete it",
    ),
)

MOVE: Final = _rows(
    (r"<DO>(?:mv|ren)\s+<X>\s+(?:to\s+)?<Y>", r"\g<do> move \g<x> to \g<y>"),
    (
        r"\b(?:shift|relocate|transfer|stick|put|take|drop)\s+<X>\s+(?:over\s+)?(?:to|into|in|at)\s+(?:\w+/?\s+\((?:so\s+)?)?<INTO>",
        r"move \g<x> to \g<y>",
    ),
    (
        r"\b(?:take|get)\s+<X>\s+out\s+of\s+here\s+and\s+(?:drop|put|move)\s+it\s+(?:at|to|in|into)\s+<Y>",
        r"move \g<x> to \g<y>",
    ),
    (r"\bstick\s+<X>\s+in(?:to)?\s+\w+/?\s+", r"move \g<x> "),
    (
        r"\bi(?:'d|\s+would)\s+(?:like|prefer)\s+<X>\s+to\s+(?:live|be|sit)\s+(?:at|in|under)\s+<Y>",
        r"move \g<x> to \g<y>",
    ),
    (r"\bchange\s+the\s+(?:file\s*)?name\s+(?=[\w/-]+\.\w)", "rename "),
    (
        r"<BEGIN>(?:tidy\s+up|aufräumen|rangement|rangeons|orden|limpieza)\s*:\s*<X>\s+(?:goes|kommt|va|geht)\s+(?:to|into|in|nach|dans|vers|a|en)\s+<Y>",
        r" move \g<x> to \g<y>",
    ),
    (
        r"<X>\s+(?:soll(?:te)?|muss)\s+(?:ab\s+(?:jetzt|sofort)\s+|künftig\s+|jetzt\s+|nun\s+|bitte\s+){0,2}<Y>\s+heißen\b",
        r"rename \g<x> to \g<y>",
    ),
    (
        r"\b(?:schiebe?|verlege?n?|ziehe?|packe?|tu|lege?|nimm)\s+<X>\s+(?:bitte\s+|mal\s+|rüber\s+|hier\s+(?:raus|weg)\s+und\s+(?:tu|leg|pack|schieb)e?\s+(?:sie|es|ihn)\s+){0,2}(?:nach|in|unter)\s+(?:\w+\s+rein\s+\()?<INTO>(?!\s+an\b)",
        r"verschiebe \g<x> nach \g<y>",
    ),
    (r"\bich\s+hätte\s+<X>\s+(?:lieber\s+|gerne?\s+){1,2}(?:unter|in|als)\s+<Y>", r"verschiebe \g<x> nach \g<y>"),
    (r"\b(?:nach|in)\s+<Y>\s+verlegen\b", r"nach \g<y> verschieben"),
    (r"<X>\s+nach\s+<Y>\s+verlegen\b", r"verschiebe \g<x> nach \g<y>"),
    (r"\bgib\s+<X>\s+(?:bitte\s+)?den\s+(?:neuen\s+)?namen\s+<Y>", r"rename \g<x> to \g<y>"),
    (r"\bändere\s+den\s+(?:datei)?namen\s+(?=[\w/-]+\.\w)", "benenne "),
    (r"\b(?:taufe?|nenne?)\s+<X>\s+(?:bitte\s+)?(?:in\s+|zu\s+)?<Y>\s+um\b", r"rename \g<x> to \g<y>"),
    (r"\b(?:taufe?|nenne?)\s+<X>\s+in\s+<Y>", r"rename \g<x> to \g<y>"),
    # "It is a silly name, call the file b.lua."
    (
        r"<X>\s+(?:is|ist|est|es)\s+(?:an?|ein|un)\s+(?:\w+\s+){0,2}(?:name|nom|nombre)(?:\s+\w+)?\s*,\s+(?:so\s+|also\s+)?(?:call|rename|name|nenne?|rebaptise|renomme|appelle|renombra|llama|ponle)\s+"
        r"(?:it\s+|the\s+file\s+|die\s+datei\s+|sie\s+|le\s+fichier\s+|el\s+archivo\s+)?<Y>",
        r"rename \g<x> to \g<y>",
    ),
    (
        r"\bheißt\s+(?:künftig\s+|ab\s+jetzt\s+|jetzt\s+)?nicht\s+mehr\s+<X>\s*,\s+sondern\s+<Y>",
        r"benenne \g<x> in \g<y>",
    ),
    (
        r"\bis\s+to\s+be\s+(?:named|called)\s+<Y>\s+(?:rather\s+than|instead\s+of|and\s+not)\s+<X>",
        r"rename \g<x> to \g<y>",
    ),
    (r"<X>\s+(?:doit|devra)\s+(?:désormais\s+|maintenant\s+)?s'appeler\s+<Y>", r"renomme \g<x> en \g<y>"),
    (
        r"\b(?:range|mets|fous|place|transfère|transfére[rz]?|bouge)\s+<X>\s+(?:dans|vers|en|sous)\s+(?:\w+\s+\()?<INTO>",
        r"déplace \g<x> vers \g<y>",
    ),
    (r"\bje\s+(?:préférerais|voudrais|veux)\s+avoir\s+<X>\s+(?:dans|sous|en)\s+<Y>", r"déplace \g<x> vers \g<y>"),
    (r"\bdonne(?:-lui|z)?\s+à\s+<X>\s+le\s+(?:nouveau\s+)?nom\s+(?:de\s+)?<Y>", r"renomme \g<x> en \g<y>"),
    (r"\brebaptise[rz]?\s+<X>\s+(?:en\s+)?<Y>", r"renomme \g<x> en \g<y>"),
    (r"<X>\s+<DEBE>\s+(?:pasar\s+a\s+)?llamarse\s+<Y>", r"renombra \g<x> a \g<y>"),
    (r"\bque\s+<X>\s+(?:pase\s+a\s+llamarse|se\s+llame)\s+<Y>", r"renombra \g<x> a \g<y>"),
    (
        r"\b(?:pasa|mete|traslada|trasladar|lleva|pon)\s+<X>\s+(?:de\s+aquí\s+)?(?:a|en)\s+(?:\w+\s+\()?<INTO>",
        r"mueve \g<x> a \g<y>",
    ),
    (r"\bsaca\s+<X>\s+de\s+aquí\s+y\s+(?:ponlo|mételo|llévalo|muévelo)\s+(?:en|a)\s+<Y>", r"mueve \g<x> a \g<y>"),
    (r"\bdale\s+a\s+<X>\s+el\s+(?:nuevo\s+)?nombre\s+(?:de\s+)?<Y>", r"renombra \g<x> a \g<y>"),
    (r"\b(?:preferiría|quisiera|quiero)\s+tener\s+<X>\s+en\s+<Y>", r"mueve \g<x> a \g<y>"),
    (r"\bcambiar(?:le)?\s+el\s+nombre\s+(?:a|al|de|del)\s+<X>\s+(?:por|a)\s+<Y>", r"renombra \g<x> a \g<y>"),
    (r"\barchiva\s+<X>\s+moviéndol[oa]\s+(?:a|en)\s+<Y>", r"mueve \g<x> a \g<y>"),
)

COPY: Final = _rows(
    (r"<DO>cp\s+(?:-\w+\s+)?<X>\s+(?:to\s+)?<Y>", r"\g<do> copy \g<x> to \g<y>"),
    (
        r"\b(?:back\s+up|backup|replicate|reproduce|save\s+a\s+copy\s+of)\s+<X>\s+(?:to|at|as|into|in|under)\s+<Y>",
        r"copy \g<x> to \g<y>",
    ),
    (
        r"\b(?:sichere?|klone?|vervielfältige?|dupliziere?|speichere?\s+eine\s+(?:zweite\s+)?(?:fassung|kopie)\s+von)\s+<X>\s+(?:unverändert\s+|bitte\s+){0,2}(?:nach|in|als|unter(?:\s+dem\s+namen)?)\s+<Y>",
        r"copy \g<x> to \g<y>",
    ),
    (
        r"\b(?:sauvegarde[rz]?|reproduis|reproduire|clone[rz]?|duplique[rz]?)\s+<X>\s+(?:à\s+l'identique\s+|tel\s+quel\s+)?(?:dans|vers|en|sous|sur)\s+<Y>",
        r"copy \g<x> to \g<y>",
    ),
    (
        r"\b(?:clona(?:r)?|reproduce|respalda(?:r)?|duplica(?:r)?)\s+<X>\s+(?:tal\s+cual\s+)?(?:en|a|como)\s+<Y>",
        r"copy \g<x> to \g<y>",
    ),
    # A copy as a noun.
    (
        r"\b(?:make|do|mache?|machen|erstelle?|fais|haz(?:me)?|haga)\s+(?:(?:me|mir|bitte|please|moi)\s+)?(?:<AN>\s+)?(?:\w+\s+)?(?:copy|backup|duplicate|kopie|duplikat|sicherung|copie|double|sauvegarde|copia|respaldo|duplicado)"
        r"(?:\s+\w+)?(?:\s+for\s+me)?(?:\s+(?:of|von|de)|\s*:)\s+<X>\s+(?:bitte\s+)?(?:to|at|as|called|named|in|into|under|unter|nach|namens|als|dans|vers|sous|nommée?|en|a|como|llamad[oa]|->|→)\s+<Y>",
        r"please copy \g<x> to \g<y>",
    ),
    (r"\b(?:ne|eine)\s+kopie\s+von\s+<X>\s+machen\s*,?\s+(?:name|namens)\s+<Y>", r"kopiere \g<x> nach \g<y>"),
    (
        r"\b(?:<WISH>|es\s+<MUSS>)\s+(?:gern\s+|tener\s+|avoir\s+)?(?:an?|eine?|une?|un)\s+(?:\w+\s+)?(?:copy|backup|duplicate|kopie|duplikat|copie|double|copia|respaldo|duplicado)\s+"
        r"(?:of|von|de)\s+<X>\s*,?\s+(?:namely|called|named|und\s+zwar|namens|à\s+savoir|nommée?|en\s+concreto|llamad[oa])\s+<Y>",
        r"please copy \g<x> to \g<y>",
    ),
    (
        r"<Y>\s+(?:<MUST>|<MUSS>|<DOIT>|<DEBE>)\s+(?:be|être|ser)?\s*<AN>\s+(?:[\w-]+\s+)?(?:copy|duplicate|kopie|duplikat|copie|double|copia|duplicado)\s+(?:\w+\s+)?(?:of|von|de)\s+<X>",
        r"please copy \g<x> to \g<y>",
    ),
    (r"\bmake\s+<Y>\s+(?:an?)\s+(?:[\w-]+\s+){0,2}(?:copy|duplicate)\s+of\s+<X>", r"copy \g<x> to \g<y>"),
    (
        r"<X>\s+(?:twice|bitte\s+doppelt|doppelt|en\s+double|por\s+duplicado)\s*:\s+(?:the\s+second|die\s+zweite|le\s+deuxième|el\s+segundo)\s+(?:\w+\s+)?(?:is|heißt|ist|s'appelle|se\s+llama|est|es)\s+<Y>",
        r"please copy \g<x> to \g<y>",
    ),
    (r"\b(?:could|can|may)\s+i\s+have\s+<X>\s+copied\s+to\s+<Y>", r"please copy \g<x> to \g<y>"),
)

RUN: Final = _rows(
    (r"\b(?:fire|start)\s+up\s+<X>", r"start \g<x>"),
    (r"\bkick\s+off\s+<X>", r"start \g<x>"),
    (r"\bgive\s+<X>\s+(?:a\s+(?:quick\s+)?)?(?:spin|go|try|run|test|whirl)\b<LATER>", r"start \g<x>"),
    (r"\blet\s+<X>\s+run\b<LATER>", r"start \g<x>"),
    (r"\b(?:test|dry|trial)[\s-]+run\s+<X>", r"start \g<x>"),
    (
        r"\b(?:do|make|haz|fais|mache?)\s+(?:bitte\s+|please\s+|me\s+)?<AN>\s+(?:test\s+|quick\s+|kurzen\s+)?(?:run|test|probelauf|testlauf|lauf|essai|exécution|pasada|ejecución|prueba)(?:\s+test|\s+de\s+prueba|\s+rapide)?\s+(?:of|with|von|mit|de|con)\s+<X>",
        r"start \g<x>",
    ),
    (r"\b(?:einen\s+)?(?:test|probe)?lauf\s+(?:von|mit)\s+<X>\s+machen\b", r"bitte \g<x> ausführen, start \g<x>"),
    (
        r"\b(?:have|let|make)\s+(?:the|my)\s+(?:computer|machine|turtle)\s+(?:run|execute|start)\s+<X>",
        r"start \g<x>",
    ),
    (
        r"\blass\s+(?:den|die)\s+(?:rechner|computer|turtle|maschine)\s+<X>\s+(?:ausführen|starten|laufen)\b",
        r"starte \g<x>",
    ),
    (r"\bque\s+(?:la\s+máquina|el\s+ordenador|la\s+tortuga)\s+ejecute\s+<X>", r"ejecuta \g<x>"),
    (
        r"<BEGIN>lua\s+<X>(?=\s*(?:[.,;!]|\Z)|\s+(?:please|bitte|pls|svp|stp|por|and|und|et|y)\b)",
        r" please start \g<x>",
    ),
    (
        r"\b(?:it's|it\s+is)\s+time\s+to\s+(?=\w+\s+[\w/-]+\.\w)|\bil\s+est\s+temps\s+de\s+(?=\w+\s+[\w/-]+\.\w)|\bes\s+hora\s+de\s+(?=\w+\s+[\w/-]+\.\w)",
        "please ",
    ),
    (
        r"\b(?:call|ruf|appelle|llama\s+a)\s+<X>\s+(?:with|mit|avec|con)\s+(?:the\s+|dem\s+|l'|el\s+)?(?:interpreter|interpréteur|intérprete|lua)\b",
        r"start \g<x>",
    ),
    (
        r"\b(?:the\s+output\s+(?:of|from)\s+running|what\s+comes\s+out\s+(?:of|when)\s+running)\s+<X>",
        r"the output, start \g<x>",
    ),
    (
        r"\bwas\s+beim\s+(?:ausführen|starten|laufen)\s+von\s+<X>\s+(?:he)?rauskommt\b",
        r"die ausgabe, bitte starte \g<x>",
    ),
    (r"\bce\s+que\s+(?:donne|affiche)\s+l'exécution\s+de\s+<X>", r"la sortie, lance \g<x>"),
    (r"\blo\s+que\s+(?:sale|pasa|imprime)\s+al\s+(?:ejecutar|correr|lanzar)\s+<X>", r"la salida, ejecuta \g<x>"),
    (r"\blass\s+<X>\s+(?:bitte\s+|mal\s+|jetzt\s+|einmal\s+){0,2}(?:durch)?laufen\b<LATER>", r"starte \g<x>"),
    (r"\b(?:schmei(?:ß|ss)e?|wirf)\s+<X>\s+(?:bitte\s+|mal\s+|jetzt\s+){0,2}an\b", r"starte \g<x>"),
    (r"\bhaz\s+(?:correr|funcionar)\s+<X>", r"ejecuta \g<x>"),
    (r"\bdale\s+a\s+<X>(?=\s*(?:[.,;!]|\Z)|\s+(?:a\s+ver|ya|porfa)\b)", r"ejecuta \g<x>"),
    (r"<BEGIN>balance\s+<X>", r" lance \g<x>"),
    (r"\b(?:fais|faire)\s+(?:tourner|exécuter|marcher)\s+<X>", r"lance \g<x>"),
    (r"\bmet(?:s|tre|tez)\s+<X>\s+en\s+(?:route|marche)\b", r"lance \g<x>"),
    (r"\bproc[ée]der?\s+à\s+l'exécution\s+de\s+<X>", r"lance \g<x>"),
    (r"\bvuelve\s+a\s+(?=(?:ejecutar|lanzar|probar|correr)\b)", "por favor "),
    (
        r"\b(?:kannst|könntest|würdest|magst)\s+du\s+<X>\s+(?:bitte\s+|mal\s+|kurz\s+|jetzt\s+|einmal\s+|für\s+(?:mich|uns)\s+){0,3}(?:starten|ausführen|testen|ausprobieren|laufen\s+lassen)\b",
        r"starte \g<x>",
    ),
)

POLITE: Final = _rows(
    (
        r"\b(?:it(?:'d|\s+would)\s+be\s+(?:great|nice|good|lovely|cool)\s+if\s+you\s+(?:could|would)|es\s+wäre\s+(?:schön|toll|nett|gut|super|lieb),?\s+wenn\s+(?:du|sie)"
        r"|ce\s+serait\s+(?:bien|sympa|super)\s+de|(?:estaría|sería)\s+(?:bien|genial|posible)(?=\s+\w+[aei]r)|wäre\s+es\s+möglich,?)\b",
        "please",
    ),
    (r"\b(?:can|could|would)\s+u\b|\bwould\s+you\s+please\b", "please"),
    (
        r"\b(?:est-ce\s+que\s+)?(?:tu\s+veux|vous\s+voulez)\s+bien\s+(?:m'|me\s+|nous\s+)?|\b(?:voudrais-tu|voudriez-vous)\s+(?:bien\s+)?(?:m'|me\s+)?|\bveuillez\s+|\bmerci\s+de\s+(?:l[ea]s?\s+)?"
        r"|\b(?:¿\s*)?te\s+(?:importaría|importa)\s+|\bhay\s+que\s+(?!no\b)|\bhazme\s+el\s+favor\s+de\s+|\bfais-moi\s+le\s+plaisir\s+de\s+|\btu\s+peux\s+(?:m'|me\s+)?(?=l[ea]\s)",
        "please ",
    ),
    (
        r"\b(?:i|we)(?:'d|\s+would)?\s+(?:need|want|like)\s+you\s+to\b|\bwould\s+it\s+be\s+possible\s+(?:for\s+you\s+)?to\b(?!\s+(?:run|start|execute|call|use)\b)",
        r"please",
    ),
    (r"(?<=,)\s*(?:así\s+que|por\s+eso|alors|donc|du\s+coup)\s+(?=[^\W\d_]+)", r" please "),
    (
        r"\b(?:kannst|könntest|würdest)\s+du\s+(?:den|die|das)\s+(?:(?:bitte|mal|wieder)\s+){0,2}(?=[^\W\d_]+n\b\s*[?.!])",
        r"bitte es ",
    ),
    (
        r"<BEGIN>tu\s+peux\s+(?:(?:m'|me\s+)|(?=(?:[^.!?\n]|\.\w){1,80}?(?:\?|vite\s+fait|stp|svp|s'il\s+te\s+pla)))",
        r" please ",
    ),
    (r"\b(?P<verb>[^\W\d_]{3,20}en)\s+würde(?:st|n|t)?\b", r"\g<verb>"),
    (r"\bse\s+puede\s+(?=[^?\n]{1,80}\bpor\s+favor)", "por favor "),
)
