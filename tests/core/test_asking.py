"""What a task asks for and what a message claims, by their words."""

import pytest

from orchestrator.core.evidence.questions import asks_only, claims_change, says_nothing


@pytest.mark.parametrize(
    "prompt",
    [
        "Why does the quarry crash at startup?",
        "What is in startup.lua?",
        "which program runs at startup",
        "List the files on this computer.",
        "Can you tell me how to craft a turtle?",
        "Explain what farm.lua does. Do not change anything.",
        "Show me the first lines of a.lua",
        "How much fuel is left?",
        "Is the door program all right? Tell me what you think.",
        "Please check whether farm.lua has errors",
        "How do I write a file?",
        "Warum st\xfcrzt mein Programm ab?",
        "Pourquoi la ferme s'arr\xeate-t-elle ?",
        "Ist alles gut?",
        "Coal left?",
        "Why did the build fail",
        "List the programs that run at startup",
        "Show me what is in the files which write to the monitor",
        "Why does farm.lua crash? It worked yesterday.",
        "Which files are there? Thanks!",
        "farm.lua crashes. Why?",
        "Explain what turtle.dig does and give me an example",
        "Give me a list of the files",
        "Is the door open or closed? I opened it yesterday.",
        "Is there coal, iron or gold in the chest?",
        "List the files, newest first",
        "Tell me which program runs at startup and what it prints",
        "hey, what does this computer do",
        "Why does it stop when I open the door and close it?",
        "In which files is the function openGate called?",
        "Check whether it runs, but do not change it",
        "Find out what it does and show the first line",
        "Only tell me whether it runs, please",
        "What is in farm.lua, which runs at startup?",
        "Kannst du mir sagen, was mit farm.lua nicht stimmt?",
        "Sag mir, wie man farm.lua repariert, aber \xe4ndere nichts daran.",
        "Peux-tu me dire ce qui ne va pas dans ferme.lua ?",
        "Comment fonctionne l'API parallel ?",
        "\xbfPuedo borrar viejo.lua, o lo necesita contador.lua?",
        "Mu\xe9strame qu\xe9 hay en cinta.cfg.",
        "Quick one: how do I wait for a key? No need to write anything.",
        "Hi! I'd like to understand how the loop in miner.lua ends, could you take a look? I never wrote it myself",
        "Salut ! Tu peux m'expliquer ce que fait tri.lua ? Je l'ai trouvé sur le pc d'un pote",
        "c'est quoi le port dans serveur.cfg ?",
        "¿Me explicas qué hace puerta.lua? No entiendo nada de programación",
        "q version pone en version.txt ?",
        "Worin besteht der Fehler in schleife.lua? Meine Schüler kommen nicht dahinter.",
    ],
)
def test_a_question_asks_only(prompt: str) -> None:
    assert asks_only(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "Mend quarry.lua.",
        "Why does it crash? Fix it.",
        "Can you fix my farm program?",
        "Write hello.lua and run it",
        "Read farm.lua and mend it, then run it",
        "Make a door that opens with a password",
        "Is there a file a.lua? If not, create it.",
        "farm",
        "Schreib mir ein Programm, das gr\xfc\xdft.",
        "hello",
        "",
        "List all files and write them to out.txt",
        "Show the time on the monitor",
        "look at farm.lua\nthen repair it",
        "Find the bug in farm.lua and correct it.",
        "Why does farm.lua crash and can you fix it?",
        "What's wrong with farm.lua - please fix it",
        "What is wrong in farm.lua, can you repair it",
        "Look at farm.lua and increase the delay to 5.",
        "Check the fuel and refuel if needed.",
        "Can you refuel the turtle?",
        "Could you turn the lamp on?",
        "Can you comment out line 3 of farm.lua?",
        "Check whether the door is open and close it",
        "Tell computer 5 to open the door",
        "Send 'hello' over rednet to 5, can you?",
        "How about renaming a.lua to b.lua?",
        "Is farm.lua broken? If so, repair it.",
        "Please check farm.lua; the delay should be 5",
        "Look whether farm.lua is there; if not, download it with wget",
        "Read config.txt and switch debug to false",
        "Check that hello.lua exists, otherwise make one",
        "Find it and show it on the monitor",
        "Warum st\xfcrzt farm.lua ab und kannst du es beheben?",
        "Peux-tu ouvrir la porte ?",
        "Kannst du farm.lua umbenennen?",
        "\xbfPuedes arreglar farm.lua?",
        "Thanks!",
    ],
)
def test_everything_else_is_work(prompt: str) -> None:
    assert not asks_only(prompt)


@pytest.mark.parametrize(
    "message",
    [
        "Fixed.",
        "Successfully updated farm.lua!",
        "I fixed the quarry program.",
        "The loop never ended. I\u2019ve now replaced it.",
        "We have also added a check",
        "The program has been fixed",
        "Both files have been successfully written.",
        "The door is now repaired.",
        "Der Fehler ist behoben.",
        "Ich habe die Datei ge\xe4ndert.",
        "J'ai corrig\xe9 le programme.",
        "He corregido el programa.",
        "The bug is fixed.",
        "Bug fixed!",
        "farm.lua was fixed.",
        "File updated.",
        "I've gone ahead and fixed it.",
        "I increased the delay to 5.",
        "I turned the lamp on.",
    ],
)
def test_a_claim_of_a_change(message: str) -> None:
    assert claims_change(message)


@pytest.mark.parametrize(
    "message",
    [
        "Line 3 calls a function that was deleted.",
        "The file has been moved to disk, so dofile does not find it.",
        "It crashes since config.lua was never created.",
        "I changed nothing.",
        "I have not fixed it.",
        "It has to be fixed in line 3.",
        "I have read farm.lua: it opens the door.",
        "startup.lua, farm.lua and notes.txt",
        "The updated program is older than the mod.",
        "",
    ],
)
def test_an_answer_claims_no_change(message: str) -> None:
    assert not claims_change(message)


@pytest.mark.parametrize(
    "message", ["", "Done.", "Task completed successfully!", "It's done", "OK", "Fertig!", "\u2705"]
)
def test_a_message_that_says_nothing(message: str) -> None:
    assert says_nothing(message)


@pytest.mark.parametrize("message", ["3", "Yes.", "Everything works, since line 3 was never reached.", "Done: 3 files"])
def test_a_message_that_says_something(message: str) -> None:
    assert not says_nothing(message)
