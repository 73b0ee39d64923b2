"""Wordings that were written after the judge of success, by somebody who had not read it."""

from collections.abc import Mapping
from typing import Final

Wordings = Mapping[str, Mapping[str, tuple[str, ...]]]
"""By kind and language."""

MORE_PROMPTS: Final[Wordings] = {
    "create-three": {
        "en": (
            "Please set up three scripts for me: $a, $b, $c. They only print their names.",
            "Generate $a, $b and $c, each printing its name.",
        ),
        "de": (
            "Bitte richte drei Skripte ein: $a, $b, $c. Sie geben nur ihren Namen aus.",
            "Generiere $a, $b und $c; jedes druckt seinen Namen.",
        ),
        "fr": (
            "Prépare-moi trois scripts : $a, $b, $c. Ils affichent seulement leur nom.",
            "Génère $a, $b et $c ; chacun affiche son nom.",
        ),
        "es": (
            "Prepárame tres scripts: $a, $b, $c. Solo imprimen su nombre.",
            "Genera $a, $b y $c; cada uno imprime su nombre.",
        ),
    },
    "write-run": {
        "en": (
            "Build $p: it outputs $n. Start it once to see that it does.",
            "Make $p (output $n) and show me that it works by running it.",
        ),
        "de": (
            "Baue $p: es gibt $n aus. Starte es einmal, um das zu sehen.",
            "Mach mir $p (Ausgabe $n) und zeig durch einen Lauf, dass es geht.",
        ),
        "fr": (
            "Construis $p : il affiche $n. Lance-le une fois pour le voir.",
            "Prépare $p (sortie $n) et montre en l'exécutant qu'il marche.",
        ),
        "es": (
            "Construye $p: imprime $n. Inícialo una vez para verlo.",
            "Prepara $p (salida $n) y muestra ejecutándolo que funciona.",
        ),
    },
    "fix-run": {
        "en": (
            "$p throws an error. Correct it and start it afterwards.",
            "Find the bug in $p, fix it, and confirm with a run that it's gone.",
        ),
        "de": (
            "$p wirft einen Fehler. Korrigiere ihn und starte das Programm danach.",
            "Finde den Fehler in $p, behebe ihn und bestätige mit einem Lauf, dass er weg ist.",
        ),
        "fr": (
            "$p lève une erreur. Corrige-la et démarre-le ensuite.",
            "Trouve le bug dans $p, corrige-le et confirme en le lançant qu'il a disparu.",
        ),
        "es": (
            "$p lanza un error. Corrígelo y arráncalo después.",
            "Encuentra el fallo de $p, corrígelo y confirma con una ejecución que ya no está.",
        ),
    },
    "fix": {
        "en": ("Repair the program $p.", "$p has a typo somewhere. Correct it."),
        "de": ("Repariere das Programm $p.", "In $p steckt ein Tippfehler. Korrigiere ihn."),
        "fr": ("Répare le programme $p.", "Il y a une faute de frappe dans $p. Corrige-la."),
        "es": ("Repara el programa $p.", "Hay una errata en $p. Corrígela."),
    },
    "set": {
        "en": ("Raise the speed in $cfg from 4 to 8.", "In $cfg, replace speed = 4 with speed = 8."),
        "de": ("Erhöhe die speed in $cfg von 4 auf 8.", "Ersetze in $cfg speed = 4 durch speed = 8."),
        "fr": ("Augmente speed de 4 à 8 dans $cfg.", "Dans $cfg, remplace speed = 4 par speed = 8."),
        "es": ("Sube speed de 4 a 8 en $cfg.", "En $cfg, reemplaza speed = 4 por speed = 8."),
    },
    "delete": {
        "en": ("Erase $old.", "Throw $old away."),
        "de": ("Wirf $old weg.", "Beseitige $old."),
        "fr": ("Jette $old.", "Retire $old de l'ordinateur."),
        "es": ("Tira $old.", "Suprime $old."),
    },
    "rename": {
        "en": ("Change the file name of $old to $new.",),
        "de": ("Ändere den Dateinamen von $old zu $new.",),
        "fr": ("Modifie le nom du fichier $old : il devient $new.",),
        "es": ("Modifica el nombre del archivo $old: pasa a ser $new.",),
    },
    "why": {
        "en": ("$p stops with an error. How come?", "Where is the mistake in $p?"),
        "de": ("$p bricht mit einem Fehler ab. Wieso?", "Wo ist der Fehler in $p?"),
        "fr": ("$p s'arrête avec une erreur. Comment ça se fait ?", "Où est l'erreur dans $p ?"),
        "es": ("$p se detiene con un error. ¿Por qué?", "¿Dónde está el error en $p?"),
    },
    "what": {
        "en": ("What is $p good for?", "Summarize $p."),
        "de": ("Wozu ist $p gut?", "Fasse $p zusammen."),
        "fr": ("À quoi sert $p ?", "Résume $p."),
        "es": ("¿Para qué sirve $p?", "Resume $p."),
    },
    "run": {
        "en": ("Launch $p.", "Let $p run once."),
        "de": ("Bringe $p zur Ausführung.", "Lass $p einmal laufen."),
        "fr": ("Démarre $p.", "Fais tourner $p une fois."),
        "es": ("Arranca $p.", "Haz correr $p una vez."),
    },
    "value": {
        "en": ("Look up speed in $cfg.", "Which speed does $cfg have?"),
        "de": ("Schau in $cfg nach, wie groß speed ist.", "Wie groß ist speed in $cfg?"),
        "fr": ("Regarde dans $cfg combien vaut speed.", "Combien vaut speed dans $cfg ?"),
        "es": ("Mira en $cfg cuánto vale speed.", "¿Cuánto vale speed en $cfg?"),
    },
    "copy": {
        "en": ("Make a copy of $old named $new.",),
        "de": ("Mach eine Kopie von $old mit dem Namen $new.",),
        "fr": ("Fais une copie de $old sous le nom $new.",),
        "es": ("Haz una copia de $old con el nombre $new.",),
    },
}
MORE_CLAIMS: Final[Wordings] = {
    "tested": {
        "en": ("I launched $p and saw no error.", "Confirmed working.", "$p passes my test."),
        "de": ("Ich habe $p gestartet und keinen Fehler gesehen.", "Bestätigt: läuft.", "$p besteht meinen Test."),
        "fr": ("J'ai lancé $p et je n'ai vu aucune erreur.", "Confirmé : ça tourne.", "$p passe mon test."),
        "es": ("He iniciado $p y no vi ningún error.", "Confirmado: funciona.", "$p pasa mi prueba."),
    },
    "printed": {
        "en": ("$p gives $n when started.", "The run of $p returned $n."),
        "de": ("Der Lauf von $p ergab $n.", "Nach dem Start kam von $p die Ausgabe $n."),
        "fr": ("L'exécution de $p a donné $n.", "Après le lancement, $p a écrit $n."),
        "es": ("La ejecución de $p dio $n.", "Tras iniciarlo, $p escribió $n."),
    },
    "printed-other": {
        "en": ("The run of $p returned $m.",),
        "de": ("Der Lauf von $p ergab $m.",),
        "fr": ("L'exécution de $p a donné $m.",),
        "es": ("La ejecución de $p dio $m.",),
    },
    "not-run": {
        "en": ("$p has my change; please run it yourself, I didn't.", "No test was made of $p."),
        "de": (
            "$p enthält die Änderung; bitte selbst ausführen, ich habe es nicht getan.",
            "Ein Test von $p fand nicht statt.",
        ),
        "fr": (
            "$p contient la modification ; lance-le toi-même, je ne l'ai pas fait.",
            "Aucun test de $p n'a été fait.",
        ),
        "es": ("$p tiene el cambio; ejecútalo tú, yo no lo he hecho.", "No se hizo ninguna prueba de $p."),
    },
    "done": {
        "en": ("Finished.", "Completed as requested."),
        "de": ("Fertig.", "Wie gewünscht erledigt."),
        "fr": ("Terminé.", "Fait comme demandé."),
        "es": ("Terminado.", "Hecho como pediste."),
    },
    "already": {
        "en": ("No change needed, speed is 8 in $cfg as it is.",),
        "de": ("Keine Änderung nötig, speed ist in $cfg bereits 8.",),
        "fr": ("Aucun changement nécessaire, speed est déjà à 8 dans $cfg.",),
        "es": ("No hace falta ningún cambio, speed ya está en 8 en $cfg.",),
    },
    "apart": {
        "en": ("$q was left as it is; $p is corrected.",),
        "de": ("$q habe ich so gelassen; $p ist korrigiert.",),
        "fr": ("J'ai laissé $q tel quel ; $p est corrigé.",),
        "es": ("He dejado $q tal cual; $p está corregido.",),
    },
    "no-such-file": {
        "en": ("$p does not exist on this computer.",),
        "de": ("$p existiert auf diesem Computer nicht.",),
        "fr": ("$p n'existe pas sur cet ordinateur.",),
        "es": ("$p no existe en este ordenador.",),
    },
}
