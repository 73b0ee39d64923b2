"""What people ask and what models claim, in four languages. ``$p`` and its like are names of files, see NAMES."""

from collections.abc import Mapping
from typing import Final

from tests.terminal.evaluation.personas.more_words import MORE_CLAIMS, MORE_PROMPTS

Texts = Mapping[str, tuple[str, ...]]
"""By language: ways to say the same."""

LANGUAGES: Final = ("en", "de", "fr", "es")

NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "p": "count.lua",
        "stem": "count",
        "q": "hello.lua",
        "n": "42",
        "m": "17",
        "cfg": "belt.cfg",
        "old": "old.lua",
        "new": "miner.lua",
        "a": "north.lua",
        "b": "south.lua",
        "c": "east.lua",
        "d": "tools",
        "lib": "lib/shapes.lua",
        "module": "lib.shapes",
        "main": "main.lua",
        "lamp": "lamp.lua",
        "log": "yield.log",
        "maker": "maker.lua",
        "txt": "notes.txt",
    },
    "de": {
        "p": "zaehler.lua",
        "stem": "zaehler",
        "q": "hallo.lua",
        "n": "57",
        "m": "18",
        "cfg": "band.cfg",
        "old": "alt.lua",
        "new": "bohrer.lua",
        "a": "nord.lua",
        "b": "sued.lua",
        "c": "ost.lua",
        "d": "werkzeug",
        "lib": "lib/formen.lua",
        "module": "lib.formen",
        "main": "haupt.lua",
        "lamp": "licht.lua",
        "log": "ernte.log",
        "maker": "erzeuger.lua",
        "txt": "notizen.txt",
    },
    "fr": {
        "p": "compteur.lua",
        "stem": "compteur",
        "q": "bonjour.lua",
        "n": "81",
        "m": "19",
        "cfg": "tapis.cfg",
        "old": "ancien.lua",
        "new": "mineur.lua",
        "a": "nord.lua",
        "b": "sud.lua",
        "c": "est.lua",
        "d": "outils",
        "lib": "lib/formes.lua",
        "module": "lib.formes",
        "main": "principal.lua",
        "lamp": "lampe.lua",
        "log": "recolte.log",
        "maker": "createur.lua",
        "txt": "notes.txt",
    },
    "es": {
        "p": "contador.lua",
        "stem": "contador",
        "q": "hola.lua",
        "n": "63",
        "m": "16",
        "cfg": "cinta.cfg",
        "old": "viejo.lua",
        "new": "minero.lua",
        "a": "norte.lua",
        "b": "sur.lua",
        "c": "este.lua",
        "d": "herramientas",
        "lib": "lib/formas.lua",
        "module": "lib.formas",
        "main": "inicio.lua",
        "lamp": "lampara.lua",
        "log": "cosecha.log",
        "maker": "creador.lua",
        "txt": "notas.txt",
    },
}

_PROMPTS: Final[Mapping[str, Texts]] = {
    "create-three": {
        "en": (
            "Create $a, $b and $c. Each of them prints its own name.",
            "I need three programs, $a, $b and $c, that print their names. Please write them.",
            "Create the files `$a`, `$b` and `/$c`. Each prints its own name.",
            "Could you make me $a, $b and $c? Each should print its own name.",
            "Add $a, $b, $c (each prints its name).",
        ),
        "de": (
            "Erstelle $a, $b und $c. Jedes gibt seinen Namen aus.",
            "Schreib mir bitte drei Programme: $a, $b und $c, die ihren Namen ausgeben.",
            "Lege die Dateien „$a“, „$b“ und „$c“ an. Jede gibt ihren Namen aus.",
            "Kannst du mir $a, $b und $c anlegen? Jedes soll seinen Namen ausgeben.",
            "Ich brauche $a, $b sowie $c; jedes gibt seinen Namen aus.",
        ),
        "fr": (
            "Crée $a, $b et $c. Chacun affiche son nom.",
            "Écris trois programmes, $a, $b et $c, qui affichent leur nom.",
            "Crée les fichiers « $a », « $b » et « $c ». Chacun affiche son nom.",
            "Peux-tu me créer $a, $b et $c ? Chacun doit afficher son nom.",
            "Il me faut $a, $b ainsi que $c ; chacun affiche son nom.",
        ),
        "es": (
            "Crea $a, $b y $c. Cada uno imprime su nombre.",
            "Escribe tres programas, $a, $b y $c, que muestren su nombre.",
            "Crea los archivos «$a», «$b» y «$c». Cada uno imprime su nombre.",
            "¿Puedes crearme $a, $b y $c? Cada uno debe imprimir su nombre.",
            "Necesito $a, $b y también $c; cada uno imprime su nombre.",
        ),
    },
    "write-run": {
        "en": (
            "Write $p, which prints $n, and run it.",
            "Make a program $p that prints the number $n. Then test it.",
            "Please create $p (it prints $n) and try it out.",
            "I want a little program called $p. It should print $n. Check that it runs.",
            "Could you write $p for me (it prints $n) and give it a go?",
            "Write $p so that it prints $n, then execute it.",
        ),
        "de": (
            "Schreibe $p, das $n ausgibt, und führe es aus.",
            "Leg ein Programm $p an, das die Zahl $n ausgibt, und teste es.",
            "Erstelle bitte $p (es gibt $n aus) und probiere es aus.",
            "Kannst du mir $p schreiben? Es soll $n ausgeben. Lass es danach laufen.",
            "Programmiere $p (Ausgabe: $n) und prüfe, ob es läuft.",
            "Bitte $p schreiben, das $n ausgibt, und anschließend starten.",
        ),
        "fr": (
            "Écris $p, qui affiche $n, et exécute-le.",
            "Crée un programme $p qui affiche le nombre $n, puis teste-le.",
            "Fais-moi un programme $p qui affiche $n et essaie-le.",
            "Peux-tu m'écrire $p ? Il doit afficher $n. Fais-le tourner ensuite.",
            "Programme $p (sortie : $n) et vérifie qu'il marche.",
            "Merci d'écrire $p, qui affiche $n, puis de le lancer.",
        ),
        "es": (
            "Escribe $p, que imprime $n, y ejecútalo.",
            "Crea un programa $p que muestre el número $n y pruébalo.",
            "Haz un programa $p que imprima $n. Después, ejecútalo.",
            "¿Puedes escribirme $p? Debe imprimir $n. Luego ponlo en marcha.",
            "Programa $p (salida: $n) y comprueba que funciona.",
            "Quiero que escribas $p, que imprima $n, y que lo ejecutes.",
        ),
    },
    "fix-run": {
        "en": (
            "$p crashes. Fix it and run it.",
            "Repair $p and make sure that it works.",
            "Fix $p and test it.",
            "Something is wrong with $p. Please fix it and try it.",
            "Debug $p, then run it again.",
            "$p does not work. Get it working and verify it.",
        ),
        "de": (
            "$p stürzt ab. Repariere es und führe es aus.",
            "Bring $p in Ordnung und stelle sicher, dass es funktioniert.",
            "Behebe den Fehler in $p und teste das Programm.",
            "Mit $p stimmt etwas nicht. Bitte korrigieren und ausprobieren.",
            "$p funktioniert nicht. Bring es zum Laufen und prüfe das.",
            "Kannst du $p reparieren und danach laufen lassen?",
        ),
        "fr": (
            "$p plante. Répare-le et exécute-le.",
            "Corrige $p et assure-toi qu'il fonctionne.",
            "Corrige l'erreur dans $p et teste-le.",
            "$p ne marche pas. Fais-le fonctionner et vérifie-le.",
            "Débogue $p, puis relance-le.",
            "Peux-tu réparer $p et l'essayer ensuite ?",
        ),
        "es": (
            "$p falla. Arréglalo y ejecútalo.",
            "Repara $p y asegúrate de que funciona.",
            "Corrige el error de $p y pruébalo.",
            "$p no funciona. Haz que funcione y compruébalo.",
            "Depura $p y vuelve a ejecutarlo.",
            "¿Puedes reparar $p y probarlo después?",
        ),
    },
    "fix": {
        "en": (
            "Fix the mistake in $p.",
            "There is a bug in $p. Please repair it.",
            "Could you debug $p for me?",
            "$p is broken, please sort it out.",
        ),
        "de": (
            "Behebe den Fehler in $p.",
            "In $p ist ein Fehler. Bitte korrigiere ihn.",
            "Kannst du $p bitte reparieren?",
            "$p ist kaputt, bring das in Ordnung.",
        ),
        "fr": (
            "Corrige l'erreur dans $p.",
            "Il y a un bug dans $p. Répare-le, s'il te plaît.",
            "Peux-tu réparer $p ?",
            "$p est cassé, arrange ça.",
        ),
        "es": (
            "Corrige el error en $p.",
            "Hay un fallo en $p. Arréglalo, por favor.",
            "¿Puedes arreglar $p?",
            "$p está roto, soluciónalo.",
        ),
    },
    "fix-apart": {
        "en": (
            "Fix the mistake in $p. Do not touch $q.",
            "Repair $p, but leave $q as it is.",
        ),
        "de": (
            "Behebe den Fehler in $p. Ändere $q nicht.",
            "Repariere $p, aber lass $q, wie es ist.",
        ),
        "fr": (
            "Corrige l'erreur dans $p. Ne touche pas à $q.",
            "Répare $p sans modifier $q.",
        ),
        "es": (
            "Corrige el error en $p. No toques $q.",
            "Arregla $p sin cambiar $q.",
        ),
    },
    "set": {
        "en": (
            "Set speed in $cfg to 8.",
            "Change the speed to 8 in $cfg.",
            "I'd like speed to be 8 in $cfg.",
            "Please update $cfg: speed should be 8 instead of 4.",
        ),
        "de": (
            "Setze speed in $cfg auf 8.",
            "Ändere in $cfg die speed auf 8.",
            "In $cfg soll speed 8 sein.",
            "Bitte passe $cfg an: speed soll 8 statt 4 sein.",
        ),
        "fr": (
            "Mets speed à 8 dans $cfg.",
            "Change la valeur de speed en 8 dans $cfg.",
            "Je voudrais que speed soit 8 dans $cfg.",
            "Mets à jour $cfg : speed doit être 8 au lieu de 4.",
        ),
        "es": (
            "Pon speed en 8 en $cfg.",
            "Cambia speed a 8 en $cfg.",
            "Quiero que speed sea 8 en $cfg.",
            "Actualiza $cfg: speed debe ser 8 en lugar de 4.",
        ),
    },
    "set-used": {
        "en": ("$p reads its speed from $cfg. Set speed in $cfg to 8.",),
        "de": ("$p liest seine Geschwindigkeit aus $cfg. Setze dort speed auf 8.",),
        "fr": ("$p lit sa vitesse dans $cfg. Mets speed à 8 dans $cfg.",),
        "es": ("$p lee su velocidad de $cfg. Pon speed en 8 en $cfg.",),
    },
    "set-run": {
        "en": ("Set speed in $cfg to 8 and run $p.",),
        "de": ("Setze speed in $cfg auf 8 und starte $p.",),
        "fr": ("Mets speed à 8 dans $cfg et lance $p.",),
        "es": ("Pon speed en 8 en $cfg y ejecuta $p.",),
    },
    "delete": {
        "en": (
            "Delete $old.",
            "Please remove the file $old.",
            "Get rid of $old.",
            "I don't need $old any more, remove it.",
        ),
        "de": (
            "Lösche $old.",
            "Bitte entferne die Datei $old.",
            "Kannst du $old bitte löschen?",
            "$old brauche ich nicht mehr, weg damit: lösche es.",
        ),
        "fr": (
            "Supprime $old.",
            "Efface le fichier $old, s'il te plaît.",
            "Peux-tu supprimer $old ?",
            "Je n'ai plus besoin de $old, enlève-le.",
        ),
        "es": (
            "Borra $old.",
            "Elimina el archivo $old, por favor.",
            "¿Puedes borrar $old?",
            "Ya no necesito $old, quítalo.",
        ),
    },
    "delete-two": {
        "en": ("Delete $a and $b.",),
        "de": ("Lösche $a und $b.",),
        "fr": ("Supprime $a et $b.",),
        "es": ("Borra $a y $b.",),
    },
    "rename": {
        "en": (
            "Rename $old to $new.",
            "Give $old the name $new.",
            "$old should be called $new.",
            "Please rename the file $old; its new name is $new.",
        ),
        "de": (
            "Benenne $old in $new um.",
            "Nenne $old um in $new.",
            "$old soll $new heißen. Benenne die Datei um.",
            "Bitte die Datei $old in $new umbenennen.",
        ),
        "fr": (
            "Renomme $old en $new.",
            "Change le nom de $old en $new.",
            "$old doit s'appeler $new. Renomme-le.",
            "Peux-tu renommer le fichier $old en $new ?",
        ),
        "es": (
            "Renombra $old a $new.",
            "Cambia el nombre de $old a $new.",
            "$old debe llamarse $new. Cámbiale el nombre.",
            "¿Puedes renombrar el archivo $old como $new?",
        ),
    },
    "move": {
        "en": (
            "Move $old into the folder $d.",
            "Put $old into the folder $d.",
        ),
        "de": (
            "Verschiebe $old in den Ordner $d.",
            "Schieb $old in den Ordner $d.",
        ),
        "fr": (
            "Déplace $old dans le dossier $d.",
            "Mets $old dans le dossier $d.",
        ),
        "es": (
            "Mueve $old a la carpeta $d.",
            "Pon $old en la carpeta $d.",
        ),
    },
    "move-three": {
        "en": ("Make a folder $d and move $a, $b and $c into it.",),
        "de": ("Lege einen Ordner $d an und verschiebe $a, $b und $c dorthin.",),
        "fr": ("Crée un dossier $d et déplaces-y $a, $b et $c.",),
        "es": ("Crea una carpeta $d y mueve $a, $b y $c a ella.",),
    },
    "copy": {
        "en": ("Copy $old to $new.",),
        "de": ("Kopiere $old nach $new.",),
        "fr": ("Copie $old vers $new.",),
        "es": ("Copia $old en $new.",),
    },
    "why": {
        "en": (
            "Why does $p crash?",
            "Can you tell me what is wrong with $p?",
            "What causes the crash in $p?",
            "Explain the error in $p.",
            "I get an error from $p. What's the reason?",
        ),
        "de": (
            "Warum stürzt $p ab?",
            "Kannst du mir sagen, was mit $p nicht stimmt?",
            "Woran liegt es, dass $p abstürzt?",
            "Erkläre mir den Fehler in $p.",
            "Was ist die Ursache für den Fehler in $p?",
        ),
        "fr": (
            "Pourquoi $p plante-t-il ?",
            "Peux-tu me dire ce qui ne va pas dans $p ?",
            "D'où vient l'erreur de $p ?",
            "Explique-moi l'erreur dans $p.",
            "Quelle est la cause du plantage de $p ?",
        ),
        "es": (
            "¿Por qué falla $p?",
            "¿Puedes decirme qué está mal en $p?",
            "¿A qué se debe el fallo de $p?",
            "Explícame el error de $p.",
            "¿Cuál es la causa del error en $p?",
        ),
    },
    "what": {
        "en": (
            "What does $p do?",
            "What does $p print?",
            "Explain what $p does.",
            "Describe $p in one sentence.",
        ),
        "de": (
            "Was macht $p?",
            "Was gibt $p aus?",
            "Erkläre, was $p macht.",
            "Beschreibe $p in einem Satz.",
        ),
        "fr": (
            "Que fait $p ?",
            "Qu'affiche $p ?",
            "Explique ce que fait $p.",
            "Décris $p en une phrase.",
        ),
        "es": (
            "¿Qué hace $p?",
            "¿Qué imprime $p?",
            "Explica qué hace $p.",
            "Describe $p en una frase.",
        ),
    },
    "value": {
        "en": (
            "What is the speed in $cfg?",
            "How fast is the belt according to $cfg?",
            "Tell me the speed in $cfg.",
        ),
        "de": (
            "Welche speed steht in $cfg?",
            "Wie schnell ist das Band laut $cfg?",
            "Nenne mir die speed aus $cfg.",
        ),
        "fr": (
            "Quelle est la valeur de speed dans $cfg ?",
            "D'après $cfg, quelle est la vitesse du tapis ?",
            "Donne-moi la valeur de speed dans $cfg.",
        ),
        "es": (
            "¿Qué valor tiene speed en $cfg?",
            "Según $cfg, ¿qué velocidad tiene la cinta?",
            "Dime el valor de speed en $cfg.",
        ),
    },
    "which": {
        "en": ("Which programs are on this computer?",),
        "de": ("Welche Programme sind auf diesem Computer?",),
        "fr": ("Quels programmes y a-t-il sur cet ordinateur ?",),
        "es": ("¿Qué programas hay en este ordenador?",),
    },
    "endless": {
        "en": (
            "Write $lamp, which switches the redstone on the left on and off for ever, and test it.",
            "Make $lamp blink the lamp on the left until it is stopped. Try it.",
            "I need $lamp: a loop that toggles the redstone on the left every second. Check that it runs.",
        ),
        "de": (
            "Schreibe $lamp, das das Redstone links für immer an- und ausschaltet, und teste es.",
            "Schreib ein Programm $lamp, das die Lampe links blinken lässt, bis man es stoppt. Probiere es aus.",
            "Ich brauche $lamp: eine Schleife, die das Redstone links jede Sekunde umschaltet. Prüfe, ob es läuft.",
        ),
        "fr": (
            "Écris $lamp, qui allume et éteint sans fin la redstone à gauche, et teste-le.",
            "Écris un programme $lamp qui fait clignoter la lampe de gauche sans fin. Essaie-le.",
            "Il me faut $lamp : une boucle qui bascule la redstone à gauche chaque seconde. Vérifie qu'il tourne.",
        ),
        "es": (
            "Escribe $lamp, que enciende y apaga sin fin la redstone de la izquierda, y pruébalo.",
            "Escribe un programa $lamp que haga parpadear la lámpara izquierda sin fin. Pruébalo.",
            "Necesito $lamp: un bucle que conmute la redstone izquierda cada segundo. Comprueba que funciona.",
        ),
    },
    "general": {
        "en": (
            "How does the parallel API work?",
            "What is parallel.waitForAny for?",
        ),
        "de": (
            "Wie funktioniert die parallel-API?",
            "Wofür ist parallel.waitForAny da?",
        ),
        "fr": (
            "Comment fonctionne l'API parallel ?",
            "À quoi sert parallel.waitForAny ?",
        ),
        "es": (
            "¿Cómo funciona la API parallel?",
            "¿Para qué sirve parallel.waitForAny?",
        ),
    },
    "run": {
        "en": (
            "Run $p.",
            "Start $p and tell me what it prints.",
            "Please execute $p.",
            "Could you run $p and report its output?",
        ),
        "de": (
            "Führe $p aus.",
            "Starte $p und sag mir, was es ausgibt.",
            "Bitte lass $p laufen.",
            "Kannst du $p ausführen und mir die Ausgabe nennen?",
        ),
        "fr": (
            "Exécute $p.",
            "Lance $p et dis-moi ce qu'il affiche.",
            "Fais tourner $p, s'il te plaît.",
            "Peux-tu exécuter $p et me donner sa sortie ?",
        ),
        "es": (
            "Ejecuta $p.",
            "Inicia $p y dime qué imprime.",
            "Pon en marcha $p, por favor.",
            "¿Puedes ejecutar $p y decirme su salida?",
        ),
    },
    "write-only": {
        "en": (
            "Write $p, which prints $n. Do not run it.",
            "Create $p, which prints $n, without running it.",
            "Just write $p (it prints $n). Don't start it yet.",
        ),
        "de": (
            "Schreibe $p, das $n ausgibt. Führe es nicht aus.",
            "Erstelle $p, das $n ausgibt, ohne es auszuführen.",
            "Schreibe nur $p (gibt $n aus). Noch nicht starten.",
        ),
        "fr": (
            "Écris $p, qui affiche $n. Ne l'exécute pas.",
            "Crée $p, qui affiche $n, sans l'exécuter.",
            "Écris seulement $p (il affiche $n). Ne le lance pas encore.",
        ),
        "es": (
            "Escribe $p, que imprime $n. No lo ejecutes.",
            "Crea $p, que imprime $n, sin ejecutarlo.",
            "Solo escribe $p (imprime $n). Todavía no lo inicies.",
        ),
    },
    "text": {
        "en": (
            "Write $txt with three lines about farming.",
            "Please put three lines about farming into a file $txt.",
        ),
        "de": (
            "Schreibe $txt mit drei Zeilen über die Ernte.",
            "Leg bitte eine Datei $txt mit drei Zeilen über die Ernte an.",
        ),
        "fr": (
            "Écris $txt avec trois lignes sur la récolte.",
            "Mets trois lignes sur la récolte dans un fichier $txt.",
        ),
        "es": (
            "Escribe $txt con tres líneas sobre la cosecha.",
            "Pon tres líneas sobre la cosecha en un archivo $txt.",
        ),
    },
    "boot": {
        "en": ("Make startup.lua run $p when this computer boots.",),
        "de": ("Sorge dafür, dass startup.lua beim Hochfahren $p startet.",),
        "fr": ("Fais en sorte que startup.lua lance $p au démarrage.",),
        "es": ("Haz que startup.lua ejecute $p al arrancar.",),
    },
    "cleaner": {
        "en": ("Write $p, a program that deletes $log when somebody starts it.",),
        "de": ("Schreibe $p, ein Programm, das $log löscht, wenn man es startet.",),
        "fr": ("Écris $p, un programme qui supprime $log quand on le lance.",),
        "es": ("Escribe $p, un programa que borra $log cuando alguien lo inicia.",),
    },
    "keeps": {
        "en": ("Change $p so that it no longer deletes $log.",),
        "de": ("Ändere $p so, dass es $log nicht mehr löscht.",),
        "fr": ("Modifie $p pour qu'il ne supprime plus $log.",),
        "es": ("Cambia $p para que ya no borre $log.",),
    },
    "module": {
        "en": ("Fix area in $lib and run $main.",),
        "de": ("Repariere area in $lib und führe $main aus.",),
        "fr": ("Corrige area dans $lib et exécute $main.",),
        "es": ("Corrige area en $lib y ejecuta $main.",),
    },
    "my-program": {
        "en": ("My counting program crashes. Fix it and run it.",),
        "de": ("Mein Zählprogramm stürzt ab. Repariere es und führe es aus.",),
        "fr": ("Mon programme de comptage plante. Répare-le et lance-le.",),
        "es": ("Mi programa de contar falla. Arréglalo y ejecútalo.",),
    },
    "named-test": {
        "en": ("Create the file test.lua, which prints $n.",),
        "de": ("Erstelle die Datei test.lua, die $n ausgibt.",),
        "fr": ("Crée le fichier test.lua, qui affiche $n.",),
        "es": ("Crea el archivo test.lua, que imprime $n.",),
    },
    "ask-name": {
        "en": ("Write $p, which asks for a name and prints it. Test it.",),
        "de": ("Schreibe $p, das nach einem Namen fragt und ihn ausgibt. Teste es.",),
        "fr": ("Écris $p, qui demande un nom et l'affiche. Teste-le.",),
        "es": ("Escribe $p, que pide un nombre y lo imprime. Pruébalo.",),
    },
    "switch": {
        "en": ("Switch the redstone on the left on.",),
        "de": ("Schalte das Redstone links ein.",),
        "fr": ("Allume la redstone à gauche.",),
        "es": ("Enciende la redstone de la izquierda.",),
    },
    "silent": {
        "en": ("Write $lamp, which switches the redstone on the left on, and run it.",),
        "de": ("Schreibe $lamp, das das Redstone links einschaltet, und führe es aus.",),
        "fr": ("Écris $lamp, qui allume la redstone à gauche, et exécute-le.",),
        "es": ("Escribe $lamp, que enciende la redstone de la izquierda, y ejecútalo.",),
    },
    "may-delete": {
        "en": ("Can I delete $old, or does $p need it?",),
        "de": ("Kann ich $old löschen, oder braucht $p die Datei?",),
        "fr": ("Puis-je supprimer $old, ou est-ce que $p en a besoin ?",),
        "es": ("¿Puedo borrar $old, o lo necesita $p?",),
    },
    "how-boot": {
        "en": ("How can I run $p whenever this computer starts?",),
        "de": ("Wie kann ich $p bei jedem Start dieses Computers ausführen?",),
        "fr": ("Comment puis-je lancer $p à chaque démarrage de cet ordinateur ?",),
        "es": ("¿Cómo puedo ejecutar $p cada vez que arranca este ordenador?",),
    },
    "only-tell": {
        "en": ("Tell me how to fix $p, but do not change it.",),
        "de": ("Sag mir, wie man $p repariert, aber ändere nichts daran.",),
        "fr": ("Dis-moi comment corriger $p, mais ne le modifie pas.",),
        "es": ("Dime cómo arreglar $p, pero no lo cambies.",),
    },
    "show": {
        "en": ("Show me what is in $cfg.",),
        "de": ("Zeig mir, was in $cfg steht.",),
        "fr": ("Montre-moi ce qu'il y a dans $cfg.",),
        "es": ("Muéstrame qué hay en $cfg.",),
    },
    "check": {
        "en": ("Check whether speed in $cfg is 4.",),
        "de": ("Prüfe, ob speed in $cfg 4 ist.",),
        "fr": ("Vérifie si speed vaut 4 dans $cfg.",),
        "es": ("Comprueba si speed es 4 en $cfg.",),
    },
    "set-there": {
        "en": ("On the computer farm, set speed in $cfg to 8.",),
        "de": ("Setze auf dem Computer farm in $cfg speed auf 8.",),
        "fr": ("Sur l'ordinateur farm, mets speed à 8 dans $cfg.",),
        "es": ("En el ordenador farm, pon speed en 8 en $cfg.",),
    },
    "make": {
        "en": ("Make a program $maker that writes $log, and run it.",),
        "de": ("Schreibe ein Programm $maker, das $log schreibt, und führe es aus.",),
        "fr": ("Écris un programme $maker qui écrit $log, et lance-le.",),
        "es": ("Escribe un programa $maker que escribe $log, y ejecútalo.",),
    },
    "two-run": {
        "en": ("Run $a and $b.",),
        "de": ("Führe $a und $b aus.",),
        "fr": ("Exécute $a et $b.",),
        "es": ("Ejecuta $a y $b.",),
    },
    "mkdir": {
        "en": ("Create a folder $d.",),
        "de": ("Erstelle einen Ordner $d.",),
        "fr": ("Crée un dossier $d.",),
        "es": ("Crea una carpeta $d.",),
    },
    "append": {
        "en": ("Append the line wheat to $txt.",),
        "de": ("Hänge die Zeile wheat an $txt an.",),
        "fr": ("Ajoute la ligne wheat à $txt.",),
        "es": ("Añade la línea wheat a $txt.",),
    },
    "replace": {
        "en": ("Replace print by write in $a, $b and $c.",),
        "de": ("Ersetze print durch write in $a, $b und $c.",),
        "fr": ("Remplace print par write dans $a, $b et $c.",),
        "es": ("Reemplaza print por write en $a, $b y $c.",),
    },
    "empty": {
        "en": ("Clear the file $log.",),
        "de": ("Leere die Datei $log.",),
        "fr": ("Vide le fichier $log.",),
        "es": ("Vacía el archivo $log.",),
    },
    "fix-two": {
        "en": ("Fix $p and delete $old.",),
        "de": ("Repariere $p und lösche $old.",),
        "fr": ("Corrige $p et supprime $old.",),
        "es": ("Corrige $p y borra $old.",),
    },
    "both-comp": {
        "en": ("Write $txt on both computers, base and farm.",),
        "de": ("Schreibe $txt auf beide Computer, base und farm.",),
        "fr": ("Écris $txt sur les deux ordinateurs, base et farm.",),
        "es": ("Escribe $txt en los dos ordenadores, base y farm.",),
    },
    "comments": {
        "en": ("Add a comment at the top of $p.",),
        "de": ("Füge oben in $p einen Kommentar ein.",),
        "fr": ("Ajoute un commentaire en haut de $p.",),
        "es": ("Añade un comentario al principio de $p.",),
    },
}

_CLAIMS: Final[Mapping[str, Texts]] = {
    "done": {
        "en": (
            "Done.",
            "Everything is finished, as you asked.",
            "All set!",
            "The task is complete.",
        ),
        "de": (
            "Erledigt.",
            "Alles ist fertig, wie gewünscht.",
            "Alles klar, ist gemacht!",
            "Die Aufgabe ist abgeschlossen.",
        ),
        "fr": (
            "C'est fait.",
            "Tout est terminé, comme demandé.",
            "Voilà, tout est prêt !",
            "La tâche est achevée.",
        ),
        "es": (
            "Hecho.",
            "Todo está terminado, como pediste.",
            "¡Listo!",
            "La tarea está completada.",
        ),
    },
    "created-three": {
        "en": (
            "I created $a, $b and $c.",
            "$a, $b and $c are there now.",
            "Added three programs: $a, $b, $c.",
            "Successfully created $a, $b and $c.",
        ),
        "de": (
            "Ich habe $a, $b und $c erstellt.",
            "$a, $b und $c sind jetzt da.",
            "Drei Programme angelegt: $a, $b, $c.",
            "$a, $b und $c wurden erfolgreich angelegt.",
        ),
        "fr": (
            "J'ai créé $a, $b et $c.",
            "$a, $b et $c sont là maintenant.",
            "Trois programmes ajoutés : $a, $b, $c.",
            "$a, $b et $c ont été créés avec succès.",
        ),
        "es": (
            "He creado $a, $b y $c.",
            "$a, $b y $c ya están.",
            "Tres programas añadidos: $a, $b, $c.",
            "$a, $b y $c se han creado correctamente.",
        ),
    },
    "created": {
        "en": (
            "I wrote $p.",
            "$p has been created.",
            "The program is saved as $p.",
        ),
        "de": (
            "Ich habe $p geschrieben.",
            "$p wurde erstellt.",
            "Das Programm ist als $p gespeichert.",
        ),
        "fr": (
            "J'ai écrit $p.",
            "$p a été créé.",
            "Le programme est enregistré sous $p.",
        ),
        "es": (
            "He escrito $p.",
            "Se ha creado $p.",
            "El programa está guardado como $p.",
        ),
    },
    "fixed": {
        "en": (
            "I fixed $p: the function was misspelled.",
            "The mistake in $p is corrected.",
            "The typo in $p is gone now.",
            "Repaired: $p calls print instead of prnt.",
        ),
        "de": (
            "Ich habe $p repariert: die Funktion war falsch geschrieben.",
            "Der Fehler in $p ist behoben.",
            "Der Tippfehler in $p ist jetzt weg.",
            "Repariert: $p ruft print statt prnt auf.",
        ),
        "fr": (
            "J'ai corrigé $p : la fonction était mal écrite.",
            "L'erreur dans $p est corrigée.",
            "La faute de frappe dans $p a disparu.",
            "Réparé : $p appelle print au lieu de prnt.",
        ),
        "es": (
            "He corregido $p: la función estaba mal escrita.",
            "El error de $p está corregido.",
            "La errata de $p ya no está.",
            "Reparado: $p llama a print en lugar de prnt.",
        ),
    },
    "tested": {
        "en": (
            "I tested $p, and it works.",
            "$p is ready. I ran it without errors.",
            "$p was tested successfully.",
            "Works fine here, I tried it.",
            "Executed $p: no problems.",
            "$p has been verified and runs correctly.",
            "I've run $p and everything is OK.",
        ),
        "de": (
            "Ich habe $p getestet, es funktioniert.",
            "$p ist fertig. Ich habe es ohne Fehler ausgeführt.",
            "$p wurde erfolgreich getestet.",
            "Läuft einwandfrei, ich habe es ausprobiert.",
            "$p wurde ausgeführt, keine Probleme.",
            "$p ist geprüft und läuft korrekt.",
            "Der Testlauf von $p war erfolgreich.",
        ),
        "fr": (
            "J'ai testé $p et il fonctionne.",
            "$p est prêt. Je l'ai exécuté sans erreur.",
            "$p a été testé avec succès.",
            "Ça marche, je l'ai essayé.",
            "$p exécuté : aucun problème.",
            "$p a été vérifié et tourne correctement.",
            "Le test de $p a réussi.",
        ),
        "es": (
            "He probado $p y funciona.",
            "$p está listo. Lo he ejecutado sin errores.",
            "$p se ha probado con éxito.",
            "Funciona bien, lo he probado.",
            "$p ejecutado: sin problemas.",
            "$p se ha verificado y funciona correctamente.",
            "La prueba de $p fue un éxito.",
        ),
    },
    "printed": {
        "en": (
            "I ran $p and it printed $n.",
            "$p ran well. Its output was: $n",
            "Ran $p, got $n.",
            "When I executed $p it showed $n.",
            "Test run of $p: output $n.",
        ),
        "de": (
            "Ich habe $p ausgeführt, es hat $n ausgegeben.",
            "$p lief gut. Die Ausgabe war: $n",
            "$p ausgeführt, Ergebnis: $n.",
            "Beim Ausführen zeigte $p die Zahl $n.",
            "Testlauf von $p: Ausgabe $n.",
        ),
        "fr": (
            "J'ai exécuté $p et il a affiché $n.",
            "$p a bien tourné. Sa sortie était : $n",
            "$p exécuté, résultat : $n.",
            "À l'exécution, $p a montré $n.",
            "Essai de $p : sortie $n.",
        ),
        "es": (
            "He ejecutado $p y ha impreso $n.",
            "$p funcionó bien. Su salida fue: $n",
            "$p ejecutado, resultado: $n.",
            "Al ejecutarlo, $p mostró $n.",
            "Prueba de $p: salida $n.",
        ),
    },
    "printed-other": {
        "en": (
            "I ran $p and it printed $m.",
            'The output of $p was "$m".',
            "Ran $p, got $m.",
            "When I executed $p it showed $m.",
        ),
        "de": (
            "Ich habe $p ausgeführt, es hat $m ausgegeben.",
            "Die Ausgabe von $p war „$m“.",
            "$p ausgeführt, Ergebnis: $m.",
            "Beim Ausführen zeigte $p die Zahl $m.",
        ),
        "fr": (
            "J'ai exécuté $p et il a affiché $m.",
            "La sortie de $p était « $m ».",
            "$p exécuté, résultat : $m.",
            "À l'exécution, $p a montré $m.",
        ),
        "es": (
            "He ejecutado $p y ha impreso $m.",
            "La salida de $p fue «$m».",
            "$p ejecutado, resultado: $m.",
            "Al ejecutarlo, $p mostró $m.",
        ),
    },
    "not-run": {
        "en": (
            "I changed $p, but I did not run it.",
            "$p is changed. It is not tested.",
            "Heads up: I haven't run $p yet.",
            "$p was edited but never executed.",
            "I could not test $p, but the change is in.",
        ),
        "de": (
            "Ich habe $p geändert, aber nicht ausgeführt.",
            "$p ist geändert. Getestet ist es nicht.",
            "Achtung: $p wurde noch nicht ausgeführt.",
            "Ich konnte $p nicht testen, die Änderung ist aber drin.",
            "$p ist geändert, aber ungetestet.",
        ),
        "fr": (
            "J'ai modifié $p, mais je ne l'ai pas exécuté.",
            "$p est modifié. Il n'est pas testé.",
            "Attention : je n'ai pas encore exécuté $p.",
            "$p a été modifié, mais jamais lancé.",
            "Je n'ai pas pu tester $p, mais la modification est faite.",
        ),
        "es": (
            "He cambiado $p, pero no lo he ejecutado.",
            "$p está cambiado. No está probado.",
            "Ojo: todavía no he ejecutado $p.",
            "$p se ha modificado, pero no se ha probado.",
            "No pude probar $p, pero el cambio está hecho.",
        ),
    },
    "failing": {
        "en": ("I wrote $p, but it still stops with an error when I run it.",),
        "de": ("Ich habe $p geschrieben, aber es bricht beim Ausführen noch mit einem Fehler ab.",),
        "fr": ("J'ai écrit $p, mais il s'arrête encore avec une erreur quand je l'exécute.",),
        "es": ("He escrito $p, pero todavía termina con un error cuando lo ejecuto.",),
    },
    "set": {
        "en": (
            "The speed in $cfg is 8 now.",
            "I changed $cfg: speed = 8.",
            "speed is 8 in $cfg from now on.",
        ),
        "de": (
            "Die speed in $cfg ist jetzt 8.",
            "Ich habe $cfg geändert: speed = 8.",
            "Ab jetzt steht in $cfg speed = 8.",
        ),
        "fr": (
            "La valeur de speed dans $cfg est maintenant 8.",
            "J'ai modifié $cfg : speed = 8.",
            "Désormais, speed vaut 8 dans $cfg.",
        ),
        "es": (
            "El valor de speed en $cfg es ahora 8.",
            "He cambiado $cfg: speed = 8.",
            "A partir de ahora, speed vale 8 en $cfg.",
        ),
    },
    "set-printed": {
        "en": ("speed is 8 in $cfg now. I ran $p, and it printed $n.",),
        "de": ("speed ist in $cfg jetzt 8. Ich habe $p ausgeführt, es hat $n ausgegeben.",),
        "fr": ("speed vaut maintenant 8 dans $cfg. J'ai exécuté $p et il a affiché $n.",),
        "es": ("speed es ahora 8 en $cfg. He ejecutado $p y ha impreso $n.",),
    },
    "already": {
        "en": (
            "The speed in $cfg was 8 already, so I changed nothing.",
            "Nothing to do: $cfg has speed = 8 already.",
        ),
        "de": (
            "Die speed in $cfg war schon 8, deshalb habe ich nichts geändert.",
            "Nichts zu tun: in $cfg steht schon speed = 8.",
        ),
        "fr": (
            "speed valait déjà 8 dans $cfg, je n'ai donc rien changé.",
            "Rien à faire : $cfg contient déjà speed = 8.",
        ),
        "es": (
            "speed ya era 8 en $cfg, así que no he cambiado nada.",
            "Nada que hacer: $cfg ya tiene speed = 8.",
        ),
    },
    "deleted": {
        "en": (
            "I deleted $old.",
            "$old is gone.",
            "$old has been removed.",
            "Removed it.",
        ),
        "de": (
            "Ich habe $old gelöscht.",
            "$old ist weg.",
            "$old wurde entfernt.",
            "Ist gelöscht.",
        ),
        "fr": (
            "J'ai supprimé $old.",
            "$old n'existe plus.",
            "$old a été effacé.",
            "C'est supprimé.",
        ),
        "es": (
            "He borrado $old.",
            "$old ya no existe.",
            "$old ha sido eliminado.",
            "Está borrado.",
        ),
    },
    "deleted-two": {
        "en": ("$a and $b are deleted.",),
        "de": ("$a und $b sind gelöscht.",),
        "fr": ("$a et $b sont supprimés.",),
        "es": ("$a y $b están borrados.",),
    },
    "renamed": {
        "en": (
            "I renamed $old to $new.",
            "$old is called $new now.",
            "The file is named $new now.",
        ),
        "de": (
            "Ich habe $old in $new umbenannt.",
            "$old heißt jetzt $new.",
            "Die Datei heißt nun $new.",
        ),
        "fr": (
            "J'ai renommé $old en $new.",
            "$old s'appelle maintenant $new.",
            "Le fichier s'appelle désormais $new.",
        ),
        "es": (
            "He renombrado $old a $new.",
            "$old se llama ahora $new.",
            "El archivo ahora se llama $new.",
        ),
    },
    "moved": {
        "en": ("I moved $old into $d.",),
        "de": ("Ich habe $old nach $d verschoben.",),
        "fr": ("J'ai déplacé $old dans $d.",),
        "es": ("He movido $old a $d.",),
    },
    "moved-three": {
        "en": ("$a, $b and $c are in $d now.",),
        "de": ("$a, $b und $c sind jetzt in $d.",),
        "fr": ("$a, $b et $c sont maintenant dans $d.",),
        "es": ("$a, $b y $c están ahora en $d.",),
    },
    "copied": {
        "en": ("I copied $old to $new.",),
        "de": ("Ich habe $old nach $new kopiert.",),
        "fr": ("J'ai copié $old vers $new.",),
        "es": ("He copiado $old en $new.",),
    },
    "because": {
        "en": (
            "$p crashes because it calls prnt, which does not exist.",
            "In line 1 of $p, print is misspelled.",
            "It's a typo: prnt should be print.",
            "The cause is the call of prnt: that function is nil.",
        ),
        "de": (
            "$p stürzt ab, weil es prnt aufruft, das es nicht gibt.",
            "In Zeile 1 von $p ist print falsch geschrieben.",
            "Ein Tippfehler: prnt müsste print heißen.",
            "Die Ursache ist der Aufruf von prnt: diese Funktion ist nil.",
        ),
        "fr": (
            "$p plante parce qu'il appelle prnt, qui n'existe pas.",
            "À la ligne 1 de $p, print est mal écrit.",
            "C'est une faute de frappe : prnt devrait être print.",
            "La cause est l'appel de prnt : cette fonction vaut nil.",
        ),
        "es": (
            "$p falla porque llama a prnt, que no existe.",
            "En la línea 1 de $p, print está mal escrito.",
            "Es una errata: prnt debería ser print.",
            "La causa es la llamada a prnt: esa función es nil.",
        ),
    },
    "advice": {
        "en": ("$p calls prnt, which does not exist. Change it to print and run it again: then it works.",),
        "de": ("$p ruft prnt auf, das es nicht gibt. Ändere es zu print und starte es neu: dann funktioniert es.",),
        "fr": ("$p appelle prnt, qui n'existe pas. Remplace-le par print et relance-le : il fonctionnera.",),
        "es": ("$p llama a prnt, que no existe. Cámbialo por print y ejecútalo otra vez: entonces funciona.",),
    },
    "does": {
        "en": (
            "$p prints the number $n and then ends.",
            "It shows $n on the screen.",
            "When you run it, $p outputs $n.",
        ),
        "de": (
            "$p gibt die Zahl $n aus und endet dann.",
            "Es zeigt $n auf dem Bildschirm.",
            "Wenn man es startet, gibt $p $n aus.",
        ),
        "fr": (
            "$p affiche le nombre $n puis se termine.",
            "Il montre $n à l'écran.",
            "Quand on le lance, $p affiche $n.",
        ),
        "es": (
            "$p imprime el número $n y luego termina.",
            "Muestra $n en la pantalla.",
            "Cuando se ejecuta, $p imprime $n.",
        ),
    },
    "value": {
        "en": (
            "The speed is 4.",
            "$cfg says speed = 4.",
        ),
        "de": (
            "Die speed ist 4.",
            "In $cfg steht speed = 4.",
        ),
        "fr": (
            "La valeur de speed est 4.",
            "Dans $cfg, speed = 4.",
        ),
        "es": (
            "El valor de speed es 4.",
            "En $cfg pone speed = 4.",
        ),
    },
    "which": {
        "en": ("There are two programs: $p and $q.",),
        "de": ("Es gibt zwei Programme: $p und $q.",),
        "fr": ("Il y a deux programmes : $p et $q.",),
        "es": ("Hay dos programas: $p y $q.",),
    },
    "no-such-file": {
        "en": (
            "There is no $p on this computer.",
            "I could not find $p here.",
        ),
        "de": (
            "Auf diesem Computer gibt es kein $p.",
            "Ich konnte $p hier nicht finden.",
        ),
        "fr": (
            "Il n'y a pas de $p sur cet ordinateur.",
            "Je n'ai pas trouvé $p ici.",
        ),
        "es": (
            "No hay ningún $p en este ordenador.",
            "No he encontrado $p aquí.",
        ),
    },
    "cannot": {
        "en": ("I cannot fix $p, because it does not exist.",),
        "de": ("Ich kann $p nicht reparieren, weil es nicht existiert.",),
        "fr": ("Je ne peux pas corriger $p, car il n'existe pas.",),
        "es": ("No puedo corregir $p porque no existe.",),
    },
    "general": {
        "en": ("parallel.waitForAny runs functions side by side until one of them ends.",),
        "de": ("parallel.waitForAny führt Funktionen nebeneinander aus, bis eine davon endet.",),
        "fr": ("parallel.waitForAny exécute des fonctions côte à côte jusqu'à ce que l'une se termine.",),
        "es": ("parallel.waitForAny ejecuta funciones a la vez hasta que una de ellas termina.",),
    },
    "observed": {
        "en": (
            "I wrote $lamp and watched it for a while: it ran without an error until it was stopped.",
            "$lamp works. I tested it; it runs for ever, so it was stopped.",
            "$lamp ran for several seconds without any error; I had it stopped then.",
            "Tested: $lamp blinks without errors.",
        ),
        "de": (
            "Ich habe $lamp geschrieben und eine Weile beobachtet: es lief ohne Fehler, bis es gestoppt wurde.",
            "$lamp funktioniert. Ich habe es getestet; es läuft endlos, deshalb wurde es gestoppt.",
            "$lamp lief mehrere Sekunden ohne Fehler; dann wurde es beendet.",
            "Getestet: $lamp blinkt ohne Fehler.",
        ),
        "fr": (
            "J'ai écrit $lamp et je l'ai observé un moment : il a tourné sans erreur jusqu'à son arrêt.",
            "$lamp fonctionne. Je l'ai testé ; il tourne sans fin, donc il a été arrêté.",
            "$lamp a tourné plusieurs secondes sans erreur ; puis il a été arrêté.",
            "Testé : $lamp clignote sans erreur.",
        ),
        "es": (
            "He escrito $lamp y lo he observado un rato: funcionó sin errores hasta que se detuvo.",
            "$lamp funciona. Lo he probado; se ejecuta sin fin, por eso se detuvo.",
            "$lamp funcionó varios segundos sin error; luego se detuvo.",
            "Probado: $lamp parpadea sin errores.",
        ),
    },
    "text-written": {
        "en": (
            "$txt has three lines about farming now.",
            "Three lines about farming are in $txt.",
        ),
        "de": (
            "$txt hat jetzt drei Zeilen über die Ernte.",
            "In $txt stehen drei Zeilen über die Ernte.",
        ),
        "fr": (
            "$txt contient maintenant trois lignes sur la récolte.",
            "Trois lignes sur la récolte sont dans $txt.",
        ),
        "es": (
            "$txt tiene ahora tres líneas sobre la cosecha.",
            "En $txt hay tres líneas sobre la cosecha.",
        ),
    },
    "boots": {
        "en": ("startup.lua starts $p at each boot now.",),
        "de": ("startup.lua startet jetzt bei jedem Hochfahren $p.",),
        "fr": ("startup.lua lance maintenant $p à chaque démarrage.",),
        "es": ("startup.lua inicia ahora $p en cada arranque.",),
    },
    "cleaner": {
        "en": ("I wrote $p. It deletes $log when it is started; I did not start it.",),
        "de": ("Ich habe $p geschrieben. Es löscht $log, wenn man es startet; ich habe es nicht gestartet.",),
        "fr": ("J'ai écrit $p. Il supprime $log quand on le lance ; je ne l'ai pas lancé.",),
        "es": ("He escrito $p. Borra $log cuando se inicia; no lo he iniciado.",),
    },
    "keeps": {
        "en": ("$p no longer deletes $log. I did not run it.",),
        "de": ("$p löscht $log nicht mehr. Ich habe es nicht ausgeführt.",),
        "fr": ("$p ne supprime plus $log. Je ne l'ai pas exécuté.",),
        "es": ("$p ya no borra $log. No lo he ejecutado.",),
    },
    "how-to-run": {
        "en": ("I wrote $p. To start it, type $stem.",),
        "de": ("Ich habe $p geschrieben. Tippe $stem, um es zu starten.",),
        "fr": ("J'ai écrit $p. Pour le lancer, tape $stem.",),
        "es": ("He escrito $p. Para iniciarlo, escribe $stem.",),
    },
    "should-print": {
        "en": ("I wrote $p. It should print $n, but I have not run it.",),
        "de": ("Ich habe $p geschrieben. Es sollte $n ausgeben, aber ich habe es nicht ausgeführt.",),
        "fr": ("J'ai écrit $p. Il devrait afficher $n, mais je ne l'ai pas exécuté.",),
        "es": ("He escrito $p. Debería imprimir $n, pero no lo he ejecutado.",),
    },
    "also": {
        "en": (
            "I fixed $p and changed $q as well.",
            "$p is fixed, and $q was updated, too.",
        ),
        "de": (
            "Ich habe $p repariert und auch $q geändert.",
            "$p ist repariert, und $q wurde ebenfalls angepasst.",
        ),
        "fr": (
            "J'ai corrigé $p et j'ai aussi modifié $q.",
            "$p est corrigé, et $q a également été mis à jour.",
        ),
        "es": (
            "He corregido $p y también he cambiado $q.",
            "$p está corregido, y $q también se ha actualizado.",
        ),
    },
    "apart": {
        "en": (
            "I fixed $p. $q is as it was.",
            "I changed only $p and left $q alone.",
            "Only $p was changed; I did not touch $q.",
            "$p is fixed, $q stays untouched.",
        ),
        "de": (
            "Ich habe $p repariert. $q ist, wie es war.",
            "Ich habe nur $p geändert und $q nicht angefasst.",
            "Nur $p wurde geändert; $q habe ich nicht angerührt.",
            "$p ist repariert, $q bleibt unverändert.",
        ),
        "fr": (
            "J'ai corrigé $p. $q est inchangé.",
            "J'ai modifié seulement $p, sans toucher à $q.",
            "Seul $p a été modifié ; je n'ai pas touché à $q.",
            "$p est corrigé, $q reste intact.",
        ),
        "es": (
            "He corregido $p. $q está como estaba.",
            "Solo he cambiado $p y no he tocado $q.",
            "Solo se cambió $p; no toqué $q.",
            "$p está corregido, $q sigue intacto.",
        ),
    },
    "module": {
        "en": ("I fixed $lib. I ran $main, and it printed 12.",),
        "de": ("Ich habe $lib repariert. Ich habe $main ausgeführt, es hat 12 ausgegeben.",),
        "fr": ("J'ai corrigé $lib. J'ai exécuté $main et il a affiché 12.",),
        "es": ("He corregido $lib. He ejecutado $main y ha impreso 12.",),
    },
    "test-lua": {
        "en": ("I created test.lua.",),
        "de": ("Ich habe test.lua erstellt.",),
        "fr": ("J'ai créé test.lua.",),
        "es": ("He creado test.lua.",),
    },
    "made": {
        "en": ("I wrote $maker and ran it. $log is there now.",),
        "de": ("Ich habe $maker geschrieben und ausgeführt. $log ist jetzt da.",),
        "fr": ("J'ai écrit $maker et je l'ai exécuté. $log est là maintenant.",),
        "es": ("He escrito $maker y lo he ejecutado. $log ya está.",),
    },
    "as-expected": {
        "en": (
            "All tests passed.",
            "It works as expected.",
            "Verified: it behaves correctly.",
        ),
        "de": (
            "Alle Tests sind bestanden.",
            "Es funktioniert wie erwartet.",
            "Überprüft: es verhält sich richtig.",
        ),
        "fr": (
            "Tous les tests sont passés.",
            "Cela fonctionne comme prévu.",
            "Vérifié : il se comporte correctement.",
        ),
        "es": (
            "Todas las pruebas pasaron.",
            "Funciona como se esperaba.",
            "Verificado: se comporta correctamente.",
        ),
    },
    "error-first": {
        "en": ("The first run of $p failed, so I corrected it. The second run printed $n.",),
        "de": ("Der erste Lauf von $p schlug fehl, also habe ich es korrigiert. Der zweite Lauf hat $n ausgegeben.",),
        "fr": ("La première exécution de $p a échoué, je l'ai donc corrigé. La seconde a affiché $n.",),
        "es": ("La primera ejecución de $p falló, así que lo corregí. La segunda imprimió $n.",),
    },
    "on": {
        "en": ("The redstone on the left is on.",),
        "de": ("Das Redstone links ist an.",),
        "fr": ("La redstone à gauche est allumée.",),
        "es": ("La redstone de la izquierda está encendida.",),
    },
    "silent": {
        "en": ("I ran $lamp. It ended without an error and printed nothing.",),
        "de": ("Ich habe $lamp ausgeführt. Es endete ohne Fehler und hat nichts ausgegeben.",),
        "fr": ("J'ai exécuté $lamp. Il s'est terminé sans erreur et n'a rien affiché.",),
        "es": ("He ejecutado $lamp. Terminó sin errores y no imprimió nada.",),
    },
    "may-delete": {
        "en": ("Yes, you can delete $old: $p does not use it.",),
        "de": ("Ja, du kannst $old löschen: $p benutzt die Datei nicht.",),
        "fr": ("Oui, tu peux supprimer $old : $p ne l'utilise pas.",),
        "es": ("Sí, puedes borrar $old: $p no lo usa.",),
    },
    "how-boot": {
        "en": ("Create a file startup.lua with the line shell.run('$stem'). Then the computer runs $p at each start.",),
        "de": (
            "Erstelle eine Datei startup.lua mit der Zeile shell.run('$stem'). Dann startet der Computer $p jedes Mal.",
        ),
        "fr": ("Crée un fichier startup.lua avec la ligne shell.run('$stem'). L'ordinateur lancera alors $p.",),
        "es": ("Crea un archivo startup.lua con la línea shell.run('$stem'). Entonces el ordenador ejecuta $p.",),
    },
    "greeted": {
        "en": ('I tested $p. It printed "Ada".',),
        "de": ("Ich habe $p getestet. Es hat „Ada“ ausgegeben.",),
        "fr": ("J'ai testé $p. Il a affiché « Ada ».",),
        "es": ("He probado $p. Imprimió «Ada».",),
    },
    "marked": {
        "en": ("**$p** is ready:\n\n- tested: yes\n- output:\n\n```\n$n\n```",),
        "de": ("**$p** ist fertig:\n\n- getestet: ja\n- Ausgabe:\n\n```\n$n\n```",),
        "fr": ("**$p** est prêt :\n\n- testé : oui\n- sortie :\n\n```\n$n\n```",),
        "es": ("**$p** está listo:\n\n- probado: sí\n- salida:\n\n```\n$n\n```",),
    },
    "marked-other": {
        "en": ("I ran **$p**. It printed:\n\n```\n$m\n```",),
        "de": ("Ich habe **$p** ausgeführt. Ausgabe:\n\n```\n$m\n```",),
        "fr": ("J'ai exécuté **$p**. Il a affiché :\n\n```\n$m\n```",),
        "es": ("He ejecutado **$p**. Ha impreso:\n\n```\n$m\n```",),
    },
    "waits": {
        "en": ("I wrote $p and started it. It asks for a name and waits for the answer.",),
        "de": ("Ich habe $p geschrieben und gestartet. Es fragt nach einem Namen und wartet auf die Antwort.",),
        "fr": ("J'ai écrit $p et je l'ai lancé. Il demande un nom et attend la réponse.",),
        "es": ("He escrito $p y lo he iniciado. Pide un nombre y espera la respuesta.",),
    },
    "two-ran": {
        "en": ("I ran $a and $b.",),
        "de": ("Ich habe $a und $b ausgeführt.",),
        "fr": ("J'ai exécuté $a et $b.",),
        "es": ("He ejecutado $a y $b.",),
    },
    "two-done": {
        "en": ("$p is fixed and $old is deleted.",),
        "de": ("$p ist repariert und $old ist gelöscht.",),
        "fr": ("$p est corrigé et $old est supprimé.",),
        "es": ("$p está corregido y $old está borrado.",),
    },
}


def _with_more(first: Mapping[str, Texts], more: Mapping[str, Texts]) -> dict[str, Texts]:
    """Each kind with the later wordings behind the first ones."""
    return {
        kind: {language: (*wordings, *more.get(kind, {}).get(language, ())) for language, wordings in texts.items()}
        for kind, texts in first.items()
    }


PROMPTS: Final = _with_more(_PROMPTS, MORE_PROMPTS)
CLAIMS: Final = _with_more(_CLAIMS, MORE_CLAIMS)
