"""Verbs, files and clauses of a text in English, German, French and Spanish.

A text is read sentence by sentence and word by word. The verb before a file says what is done with the file. A phrase
without a known form is left open: a requirement that the words do not state is not invented.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from enum import Enum
from functools import lru_cache, wraps
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeVar, cast

from orchestrator.core.evidence.patterns import FILE, POINT
from orchestrator.core.evidence.phrases import PHRASES

MAX_CHARS: Final = 20_000
"""Characters of a text that are read."""
MAX_SENTENCE: Final = 2_000
"""Characters of a sentence that are read."""
MAX_WORD: Final = 100
"""Characters of a word that are read: no path of a computer is longer."""
_REMEMBERED: Final = 64
"""The last short texts of which a function remembers what it read: about as many as one verdict looks at."""
_VOCABULARY: Final = 2_000
"""The last words whose deeds are remembered."""
_More = ParamSpec("_More")
_Read = TypeVar("_Read")


def remembered(read: Callable[Concatenate[str, _More], _Read]) -> Callable[Concatenate[str, _More], _Read]:
    """The pure function, but a short text is read once: several rules look at the same sentence."""
    known = cast("Callable[Concatenate[str, _More], _Read]", lru_cache(_REMEMBERED)(read))

    @wraps(read)
    def reading(text: str, /, *args: _More.args, **kwargs: _More.kwargs) -> _Read:
        return (known if len(text) <= MAX_SENTENCE else read)(text, *args, **kwargs)

    return reading


class Deed(Enum):
    """What is done with a file or a program."""

    MAKE = "make"
    CHANGE = "change"
    FIX = "fix"
    DELETE = "delete"
    MOVE = "move"
    COPY = "copy"
    ENSURE = "ensure"
    """Changing a file, or showing by a run that it is as it should be."""
    RUN = "run"
    OTHER = "other"
    """Reading, using, keeping: nothing that leaves a change."""


CHANGES: Final = frozenset({Deed.MAKE, Deed.CHANGE, Deed.FIX, Deed.DELETE, Deed.MOVE, Deed.COPY, Deed.ENSURE})
"""The deeds that leave a change behind."""

_TOKEN: Final = re.compile(
    rf"(?P<file>{FILE})|(?P<word>[^\W\d_]+(?:[-'\u2019][^\W\d_]+)*)|(?P<mark>[,:()])|(?P<number>\d)"
)
_CODE: Final = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*(?:local\b|function\b|return\b|end\b|(?:if|for|while)\b[^\n]*\b(?:then|do)[ \t]*$"
    r"|[\w.:]+[ \t]*=[^\n]*$"
    r"|[\w.:]+\([^\n]*\)[ \t]*$)[^\n]*",
    re.DOTALL | re.MULTILINE,
)
"""Fenced blocks, and lines of Lua."""
_SENTENCES: Final = re.compile(r"(?<=[.?!;])\s+|\n+")


_BLANKS: Final = re.compile(r"[^\S\n]+")
_EMPTY_LINES: Final = re.compile(r"\n(?: ?\n)+")
_LONG: Final = re.compile(rf"\S{{{MAX_WORD},}}")


def readable(text: str) -> str:
    """The first MAX_CHARS characters, with single blanks, at most one empty line in a row and no endless word.

    What reads a text looks around each place of it, so that floods of one character would take long.
    """
    text = _BLANKS.sub(" ", text[:MAX_CHARS])
    return _LONG.sub(lambda found: found[0][:MAX_WORD], _EMPTY_LINES.sub("\n\n", text))


def sentences(text: str, plainer: Callable[[str], str] | None = None) -> tuple[str, ...]:
    """The sentences of the first MAX_CHARS characters, in plain words; what is code or JSON says nothing of a task.

    ``plainer``: what puts the text into plainer words first.
    """
    text = _BLANKS.sub(" ", _CODE.sub(" ", text[:MAX_CHARS].replace("\u2019", "'")))
    if text.lstrip()[:1] in ("[", "{"):
        return ()
    return _sentences(plainer(text) if plainer else text)


@remembered
def _sentences(text: str) -> tuple[str, ...]:
    text = PHRASES.put(text, lambda pattern, plain, text: pattern.sub(plain, text))
    return tuple(one[:MAX_SENTENCE] for one in _SENTENCES.split(text) if one.strip())


class Token(NamedTuple):
    """A file, a word, a mark, or ``#`` for a digit; ``text`` in lower case except for files."""

    text: str
    is_file: bool = False
    is_mark: bool = False


@remembered
def tokens(sentence: str) -> tuple[Token, ...]:
    """The files, words and marks of a sentence, in order."""
    return tuple(_tokens(sentence))


def _tokens(sentence: str) -> Iterator[Token]:
    for found in _TOKEN.finditer(sentence):
        if found["file"]:
            yield Token(found["file"].lstrip("/"), is_file=True)
        elif found["word"]:
            word = _CLITIC.sub("", found["word"].lower())
            yield Token(bare(word[2:] if word[:2] in ("l'", "j'", "d'", "s'", "m'", "t'") else word))
        elif found["mark"]:
            yield Token(found["mark"], is_mark=True)
        else:
            yield Token("#")


_CLITIC: Final = re.compile(r"-(?:le|la|les|moi|toi|nous|vous|lui|leur|y|en|tu|je|il|elle|on|ce)\Z")
"""What French joins to a verb."""


_LAST: Final = re.compile(r"é(?=(?:e\??)?(?:s\??)?\Z)")
"""What tells a participle: "lancé" is done, and "lance" is an order."""


def bare(word: str) -> str:
    """The word without accents, except for umlauts, which tell German verbs from others, and the é of a participle."""
    if word.isascii():
        return word
    kept = _LAST.sub("\x01", word).replace("ä", "\x02").replace("ö", "\x03").replace("ü", "\x04").replace("ß", "ss")
    plain = "".join(one for one in unicodedata.normalize("NFD", kept) if not unicodedata.combining(one))
    return plain.translate(_KEPT)


_KEPT: Final = {1: "é", 2: "ä", 3: "ö", 4: "ü"}


@remembered
def files(text: str) -> tuple[str, ...]:
    """The files that a text names, each once."""
    if not POINT.search(text):
        return ()
    found = (one.text for sentence in sentences(text) for one in tokens(sentence) if one.is_file)
    return tuple(dict.fromkeys(found))


def _words(text: str) -> re.Pattern[str]:
    return re.compile("|".join(bare(word) for word in text.split()))


_ORDERS: Final = {
    Deed.ENSURE: _words("ensure"),
    Deed.MAKE: _words(
        r"""
        write create make add richte?n? generiere?n? prepare prépare[rz]? prepara(?:r)? construis construye
        generate note notiere?n? anota(?:r)? apunta(?:r)?
        programmiere?n? escribas? crees hagas build save put append insert store schreib(?:e|en)? erstell(?:e|en)?
        mache?n? leg(?:e|en)? anlegen erzeuge?n? füge?n? einfügen hinzufügen speicher(?:e|n)? bau(?:e|en)?
        écri(?:s|re|vez) crée créez créer ajoute[rz]? génère génére[rz] fais enregistre[rz]? mets escrib(?:e|ir|a)
        crea(?:r)? cree haz añad(?:e|ir|a) agregar? genera(?:r)? guardar? pon
        produce compose bastle?n? basteln verfasse?n? rédige[rz]? bricole[rz]? produis produire redacta(?:r)?
        genere hacer
        """
    ),
    Deed.FIX: _words(
        r"""
        fix repair correct debug mend patch arrange[rz]? arregles repares corrijas repariere?n? repariert behebe?n?
        korrigiere?n? répare[rz]? corrige[rz]? débogue[rz]? arregla(?:r)?(?:lo|la)? arregle repara(?:r)?(?:lo|la)?
        repare corrige(?:lo|la)? corrija corregir(?:lo|la)? depurar?
        soluciona(?:r)? solucione rectifie[rz]? rectify dépanne[rz]? debugue[rz]? fixen
        """
    ),
    Deed.CHANGE: _words(
        r"""
        edit change modify update improve optimi[sz]e refactor rewrite set replace increase decrease reduce raise
        touch alter overwrite anfassen fass anrühren rühre?n? verändere?n? touche[rz]? toca toques tocar alteres
        lower adjust extend translate convert comment rework adapt ändere?n? ändre verbessere?n? bearbeite?n?
        ersetze?n? setze?n? stelle?n? aktualisiere?n? überarbeite?n? erhöhe?n? verringere?n? optimiere?n?
        erweitere?n? passe modifie[rz]? change[rz]? améliore[rz]? remplace[rz]? règle régle[rz] édite[rz]?
        réécri(?:s|re|vez) optimise[rz]? augmente[rz]? adapte[rz]? actualise[rz]? modifica(?:r)? modifique
        cambia(?:r)?(?:lo|la)? cambie cambies modifiques mejorar? reemplazar? sustituy(?:e|a) sustituir actualizar?
        editar? reescrib(?:e|ir|a) optimizar? ajustar? aumentar?
        tweak bump ergänze?n? anpassen umschreiben transforme[rz]? réorganise[rz]? insère insérer amplía(?:r)?
        inserta(?:r)? adapta(?:r)? convierte convertir refactoriza(?:r)? sube subir monte[rz]? écrase[rz]? altère
        altérer altera(?:r)? altere
        überschreib(?:e|en)? sobrescrib(?:e|as|ir|a) cambiéis cambeis modifiquéis
        """
    ),
    Deed.DELETE: _words(
        r"""
        delete remove erase trash ditch wipe beseitige?n? jette[rz]? retire[rz]? vire[rz]? dégage[rz]?
        tira(?:r)? bota(?:r)? borres elimines quites lösche?n?
        entferne?n? supprime[rz]? efface[rz]? enlève enlever borra(?:r)?(?:lo|la)? borre elimina(?:r)? elimine
        quita(?:r)? quite suprim(?:e|ir)
        streiche?n? tilge?n? loesche?n?
        """
    ),
    Deed.MOVE: _words(
        r"""
        move rename renombres muevas verschiebe?n? benenne?n? umbenennen bewege?n? déplace[rz]? renomme[rz]? mueve
        mueva mover renombra(?:r)? renombre
        umzubenennen archiviere?n?
        """
    ),
    Deed.COPY: _words(
        r"""
        copy duplicate clone dupliziere?n? klone?n? kopiere?n? copie[rz]? duplique[rz]? copia(?:r)? duplicar?
        """
    ),
    Deed.RUN: _words(
        r"""
        run execute launch start test try rerun retest ejecutes pruebes lances führe?n? ausführen starte?n? teste?n?
        probiere?n?s? ausprobieren probier's teste?'s starte?'s startes führ's
        lance[rz]? exécute[rz]? teste[rz]? essaie essaye[rz]? démarre[rz]?
        ejecuta(?:r|lo|la|los)? ejecútal(?:o|a) ejecute prueba(?:lo|la)? pruébal(?:o|a) probar(?:lo|la)?
        corre(?:r)?(?:lo|la)? córrel(?:o|a) lanza(?:r)? arranca(?:r)? lánzal(?:o|a) inicia(?:r)?
        """
    ),
}
"""Each deed as it is ordered: the imperative and the infinitive."""

_REPORTS: Final = {
    Deed.MAKE: _words(
        r"""
        wrote written created made added generated built saved stored appended inserted geschrieben erstellt
        noted logged recorded
        notiert vermerkt eingetragen notée?s? consignée?s? anotad[oa]s? anoté apuntad[oa]s? apunté
        registrad[oa]s? registré angelegt erzeugt hinzugefügt eingefügt gespeichert schrieb gebaut écrite?s?
        créée?s? ajoutée?s? générée?s?
        enregistrée?s? escrit[oa]s? escribí cread[oa]s? creé añadid[oa]s? añadí agregad[oa]s? agregué guardad[oa]s?
        guardé generad[oa]s?
        drafted programmed legte erstellte erzeugte speicherte generierte baute verfasst rédigée?s? redactad[oa]s?
        préparée?s? preparad[oa]s? programmée?s?
        """
    ),
    Deed.FIX: _words(
        r"""
        fixed repaired corrected debugged mended patched behoben repariert korrigiert réparée?s? corrigée?s?
        arreglad[oa]s? arreglé reparad[oa]s? reparé corregid[oa]s? corregí
        resolved solved rectified gefixt berichtigt behob reparierte korrigierte rectifiée?s? déboguée?s? résolue?s?
        rectificad[oa]s? depurad[oa]s? solucionad[oa]s?
        """
    ),
    Deed.CHANGE: _words(
        r"""
        edited changed modified updated improved optimi[sz]ed refactored rewrote rewritten replaced increased
        decreased reduced raised lowered adjusted extended translated converted reworked adapted geändert verändert
        touched altered overwritten angefasst angerührt touchée?s? tocad[oa]s? toqué
        réglée?s? eingestellt gestellt configurad[oa]s? configured konfiguriert configurée?s? réduite?s? reducid[oa]s?
        subid[oa]s? bajad[oa]s? verringert passée?s?
        verbessert bearbeitet ersetzt aktualisiert überarbeitet erhöht optimiert angepasst erweitert gesetzt
        modifiée?s? changée?s? améliorée?s? remplacée?s? réécrite?s? optimisée?s? augmentée?s? adaptée?s?
        modificad[oa]s? modifiqué cambiad[oa]s? cambié mejorad[oa]s? mejoré reemplazad[oa]s? reemplacé
        sustituid[oa]s? actualizad[oa]s? actualicé editad[oa]s? edité reescrit[oa]s? reescribí ajustad[oa]s? ajusté
        änderte ersetzte aktualisierte überarbeitete verbesserte bearbeitete erhöhte modifiziert angetastet umgebaut
        umgeschrieben remaniée?s? altérée?s? alterad[oa]s? refactorizad[oa]s? refactorisée?s?
        """
    ),
    Deed.DELETE: _words(
        r"""
        deleted removed erased gelöscht entfernt supprimée?s? effacée?s? enlevée?s? borrad[oa]s? borré
        eliminad[oa]s? eliminé quitad[oa]s? quité suprimid[oa]s?
        löschte entfernte beseitigt weggeworfen getilgt trashed retirée?s? jetée?s? retirad[oa]s?
        """
    ),
    Deed.MOVE: _words(
        r"""
        moved renamed verschoben umbenannt déplacée?s? renommée?s? movid[oa]s? moví renombrad[oa]s? renombré
        relocated archived migrated verlegt umgezogen weggeräumt archiviert verschob archivée?s? migré
        rebaptisée?s? trasladad[oa]s? archivad[oa]s?
        """
    ),
    Deed.COPY: _words(
        r"""
        copied duplicated kopiert copiée?s? dupliquée?s? copiad[oa]s? copié
        cloned replicated geklont dupliziert kopierte clonée?s? reproduite?s? clonad[oa]s? duplicad[oa]s?
        respaldad[oa]s? reproducid[oa]s?
        """
    ),
    Deed.RUN: _words(
        r"""
        ran reran executed launched started tested tried verified aufgerufen
        ausgeführt gestartet getestet probiert ausprobiert lief
        exécutée?s? lancée?s? testée?s? essayée?s? démarrée?s? ejecutad[oa]s? ejecuté probad[oa]s? iniciad[oa]s?
        inicié arrancad[oa]s? probé corrid[oa]s? corrí lanzad[oa]s? lancé testead[oa]s?
        startete testete
        """
    ),
}
"""Each deed as it is reported: the past tense and the participle."""

_OTHER: Final = _words(
    r"""
        left stays? remains? bleibt bleiben reste restent queda sigue unchanged untouched unverändert keep leave
        reads? loads? uses? using requires? imports? calls? shows? prints? see startet öffnet führt lädt
        look looks check checks compare opens? writes keeps? leaves? deletes removes moves copies changes creates
        sets runs adds lies liest lade lädt nutzt? nutze verwende[nt]? zeige?n? zeigt schreibt behalte?n? lasse?n?
        prüfe?n? ruft löscht lis lit lisez utilise[sz]? charge affiche garde[rz]? laisse[rz]? vérifie[rz]? appelle
        lee lea usa usando carga muestra conserva deja mantén comprueba verifica llama
        """
)
"""Verbs that leave no change, and verbs of the third person: they tell what a program does."""

RELATIVE: Final = _words(
    r"""
        which who whose that dass damit wobei welche[rsn]? qui dont que quien cuyo
        """
)
NEGATION: Final = _words(
    r"""
        not never without don't doesn't didn't haven't hasn't wasn't weren't isn't couldn't cannot can't won't cant
        dont no nicht nichts nich nix nothing nada
        rien nie kein keine[rnms]? ohne ne n'ai n'a n'est n'ont pas jamais sans
        nunca sin ni neither nor niemals keinesfalls nto nciht nihct
        """
)
MODAL: Final = _words(
    r"""
        should would could can will may might must shall if when once unless until soll(?:te[n]?|en)? würde[n]?
        kann(?:st)? könn(?:en|te|ten) wird werden muss wenn falls sobald devrait devraient peut peux pouvez pourra
        pourrez sera si quand debería(?:n)? puede[ns]? podrá[sn]? podría será cuando dann
        """
)
_SOURCE: Final = _words(
    r"""
        from like than with by using via based for about of aus wie als mit von für depuis comme avec de pour desde
        con
        """
)
_GOAL: Final = _words(
    r"""
        to as into named called nach zu als in vers en dans sous como a hacia namens nommé llamado
        """
)


_ENCLITIC: Final = re.compile(r"(?<=[aer])(?:me|te|se|nos)?(?:l[oae]s?)?\Z")


_AGAIN: Final = re.compile(r"\Are-?(?=(?:ran|run|test|start|lanc|essay|exécut|ejecut|prob))")
"""What tells of another time."""


@lru_cache(_VOCABULARY)
def order(word: str) -> Deed | None:
    """What a word orders; None: the list has no such verb."""
    return _deed(word, _ORDERS)


@lru_cache(_VOCABULARY)
def report(word: str) -> Deed | None:
    """What a word reports as done; None: the list has no such verb."""
    return _deed(word, _REPORTS)


def _deed(word: str, table: dict[Deed, re.Pattern[str]]) -> Deed | None:
    # Spanish joins "it" and "me" to the verb.
    words = {
        word,
        *([_SLIPS[word]] if word in _SLIPS and table is _ORDERS else []),
        _ENCLITIC.sub("", word),
        _AGAIN.sub("", word),
    }
    found = next((deed for deed, pattern in table.items() if any(map(pattern.fullmatch, words))), None)
    return found or (Deed.OTHER if _OTHER.fullmatch(word) else None)


def is_source(word: str) -> bool:
    """Whether what follows this word is only used, as in "based on a.lua"."""
    return _SOURCE.fullmatch(word) is not None


def is_goal(word: str) -> bool:
    """Whether what follows this word is where something is moved or copied to."""
    return _GOAL.fullmatch(word) is not None


def _slips() -> dict[str, str]:
    """Each slip of the finger in a common order: two letters swapped, and in a long word one letter left out."""
    found: dict[str, str] = {}
    for verb in map(bare, _COMMON.split()):
        swapped = [verb[:at] + verb[at + 1] + verb[at] + verb[at + 2 :] for at in range(len(verb) - 1)]
        left_out = [verb[:at] + verb[at + 1 :] for at in range(len(verb))] if len(verb) >= _LONG_WORD else []
        found |= {one: verb for one in [*swapped, *left_out] if one not in _WORDS and _deed(one, _ORDERS) is None}
    return {one: verb for one, verb in found.items() if _deed(one, _REPORTS) is None}


_LONG_WORD: Final = 6
_COMMON: Final = """
    append change copy create delete edit execute fix generate modify move remove rename repair replace start update
    write
    ändern ändere ausführen erstelle erstellen kopiere kopieren lösche löschen repariere repariere schreibe starte
    umbenennen verschiebe verschieben
    change changer copie copier corrige corriger déplace déplacer exécute exécuter modifie modifier renomme renommer
    répare supprime supprimer
    añade arregla arreglar borra borrar cambia cambiar copia copiar corrige ejecuta ejecutar elimina eliminar modifica
    renombra renombrar
"""
_WORDS: Final = frozenset({"crate", "scheiben", "copar", "relace", "repar", "strat", "state"})
"""Words of their own that look like a slip."""
_SLIPS: dict[str, str] = {}
"""Empty while it is made, for that asks which words are verbs."""
_SLIPS |= _slips()
