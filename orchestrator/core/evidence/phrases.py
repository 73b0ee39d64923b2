"""Phrases that a text is put into before it is read: of a task and of a final."""

import re
from typing import Final

from orchestrator.core.evidence.patterns import Rows

PHRASES: Final = Rows(
    (re.compile(pattern, re.IGNORECASE), plain)
    for pattern, plain in (
        # "Without errors" denies the errors, and not the run.
        (
            r"\b(?:without|with\s+no)\s+(?:an?\s+|any\s+|further\s+)?(?:errors?|problems?|issues?|crash(?:es|ing)?)\b"
            r"|\bno\s+(?:errors?|problems?|issues?)\b"
            r"|\b(?:ohne|keine?n?)\s+(?:einen?\s+|jeden\s+)?(?:fehler|probleme?|absturz|abstürze)\b"
            r"|\b(?:sans|aucune?)\s+(?:aucune?\s+|la\s+moindre\s+)?(?:erreurs?|problèmes?|soucis?|plantage)\b"
            r"|\b(?:sin|ningún)\s+(?:ningún\s+)?(?:error(?:es)?|problemas?|fallos?)\b",
            " well ",
        ),
        (r"\bd'y\s+", "de "),
        (r"\bquita(?:r)?\s+de\s+en\s+medio\b", "borra"),
        (r"\b(have|has|'ve|was|were|been)((?:\s+\w+)?)\s+run\b", r"\1\2 ran"),
        (r"\((\S+\.\w+)\)", r"\1"),
        (r"\bgive\s+(\S+)\s+the\s+(?:new\s+)?name\s+", r"rename \1 to "),
        (r"\bchange\s+(?:the\s+)?(?:file\s+)?name\s+of\s+", "rename "),
        (r"\bthrow\s+(\S+\.\w+)\s+away\b|\bwirf\s+(\S+\.\w+)\s+weg\b", r"delete \1\2"),
        (r"(\S+\.\w+)\s+should\s+be\s+(?:called|named)\s+", r"rename \1 to "),
        (r"(\S+\.\w+)\s+soll\s+(\S+\.\w+)\s+heißen", r"benenne \1 in \2"),
        (r"\bget\s+rid\s+of\s+", "delete "),
        (r"\s*[;,]\s+(?:its|the)\s+new\s+name\s+(?:is|should\s+be)\s+", " to "),
        (
            r"\s*[;,]\s+der\s+neue\s+name\s+ist\s+|\s*[;,]\s+s(?:on|u)\s+(?:nouveau\s+nom|nuevo\s+nombre)\s+es?t?\s+",
            " en ",
        ),
        (r"\s*:\s*il\s+devient\s+|\s*:\s*pasa\s+a\s+ser\s+", " en "),
        (
            r"\b(?:(?:with|under)\s+the\s+name|mit\s+dem\s+namen|(?:sous|avec)\s+le\s+nom|con\s+el\s+nombre)(?=\s+(?:de\s+)?\S+\.\w)",
            "as",
        ),
        (r"\b(?:quiero|quisiera|necesito)\s+que\s+|\b(?:je\s+voudrais|j'aimerais|je\s+veux)\s+que\s+", " "),
        (r"\by\s+que\s+(?=l[oa]s?\b)", "y "),
        (r"\bainsi\s+que\b", "et"),
        (r"\bquand\s+même\b|\bsí\b", " "),
        (
            r"\b(?:déjà|already|bereits|ya)\s+(?:lancée?s?|running|started|laufende?n?|gestartete?n?|iniciad[oa]s?)\b",
            " ",
        ),
        (r"\bmis(es?|s)?\s+à\s+jour\b", "modifié"),
        # "I took the chance to update b.lua" tells of a change.
        (
            r"\b(?:profité\s+pour|took\s+the\s+(?:chance|opportunity|liberty)\s+to"
            r"|aprovech(?:é|ado)\s+para)\s+(?:[^\W\d]+\s+){0,2}?(?:mettre\s+à\s+jour|[^\W\d]+)(?=\s)",
            "modified",
        ),
        (r"\bgelegenheit\s+genutzt,?\s+um\s+(?:[^\W\d]+\s+){0,2}?(\S+\.\w+)\s+zu\s+\w+", r"modified \1"),
        # "Before you touch anything, copy a.lua" does not order to change nothing.
        (
            r"\b(?:before|bevor|avant|antes)\s+[^.,;\n]{0,20}?(?:touch|chang|modif|änder|anfass|anrühr|toc|cambi)\w*\s+"
            r"(?:anything|something|rien|nada|algo|quoi\s+que\s+ce\s+soit)\b",
            " ",
        ),
        (
            r"\b(?:by\s+(?:running|executing)|en\s+(?:lançant|exécutant)|ejecutando|corriendo|lanzando)\s+(?=\S+\.\w)",
            "and run ",
        ),
        (r"\bmet(?:s|tre|tez)\s+à\s+jour\b", "modifie"),
        (r"(?:\A|(?<=[.!?]\s))program(?:a|me)\s+(?=\S+\.lua)", "create "),
        (r"(\S+\.\w+)\s+debe\s+llamarse\s+", r"renombra \1 a "),
        (r"\bfais(-l[ea]s?)?\s+tourner\b", r"lance\1"),
        (r"\bpon(l[oa]s?)?\s+en\s+marcha\b", r"ejecuta\1"),
        (r"\b(?:bring\w*|get)\s+(\S+)\s+(?:zum\s+laufen|working|to\s+work|to\s+run)\b", r"fix \1 and run \1"),
        # A polite question is an order.
        (
            r"\b(?:kannst|könntest|würdest)\s+du\b|\bkönn(?:t)?en\s+sie\b|\b(?:can|could|would|will)\s+you\b"
            r"|\b(?:peux|pourrais)-tu\b|\b(?:pouvez|pourriez)-vous\b|\b(?:puedes|podrías|puede\s+usted)\b",
            " ",
        ),
        (r"\b(?:ändere?n?|andere)\s+(?:den\s+)?(?:datei)?namen\s+von\s+", "benenne "),
        (r"\bnenne\s+(?=\S+\.\w+\s+um\b|\S+\.\w+\s+in\b)", "benenne "),
        (r"\b(?:change|modifie)[rz]?\s+(?:le\s+)?nom\s+d[eu]\s+(?:fichier\s+)?", "renomme "),
        (r"\b(?:cambia|cambie|modifica)r?\s+(?:el\s+)?nombre\s+de(?:l)?\s+(?:archivo\s+)?", "renombra "),
        (r"\bbring\w*\s+(\S+\.\w+)\s+(?:wieder\s+)?in\s+ordnung\b", r"repariere \1"),
        # "Make startup.lua run count.lua" is a change of startup.lua.
        (
            r"\b(?:make\s+sure\s+(?:that\s+)?|sorge?\s+(?:bitte\s+)?dafür,?\s+dass\s+|fais\s+en\s+sorte\s+que\s+"
            r"|asegúrate\s+de\s+que\s+|assure-toi\s+que\s+)(\S+\.\w+)\s+(?!works?\b|runs?\b|funktioniert|läuft|marche|fonctionne|funciona)",
            r"ensure \1, which ",
        ),
        (
            r"\b(?:make\s+|mache?,?\s+(?:das|dass|daß)\s+|haz\s+que\s+|fais\s+que\s+|il\s+faut\s+que\s+|faudrait\s+que\s+)(\S+\.\w+)\s+(?!that\b|which\b|works?\b|runs?\b|funktioniert|läuft|marche|fonctionne|funciona)",
            r"change \1, which ",
        ),
        (
            r"(?<!what\s)\b(?:i|we)\s+(?:need|want)\b|\bich\s+brauche\b|\bil\s+me\s+faut\b|\bj'ai\s+besoin\b|\bnecesito\b",
            "create",
        ),
    )
)
"""Phrases that say the same as one verb."""
