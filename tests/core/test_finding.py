"""A claimed success is judged by what the journal shows: net changes, runs, looks, and the claims of the final."""

import pytest

from orchestrator.core.evidence.checks import said_unknown
from orchestrator.core.evidence.claims import claims
from orchestrator.core.evidence.evidence import NOTHING, stem
from orchestrator.core.evidence.report import finding, report, says_the_model
from orchestrator.core.evidence.wanted import Wanted, wanted
from orchestrator.core.task import facts
from orchestrator.core.task.fold import with_findings
from orchestrator.core.task.transcript import Transcript
from orchestrator.core.text.patch import line_counts
from orchestrator.testing.drafts import Author, ManualClock
from tests.core.disk import Disk, sha
from tests.core.journal import call, decision

QUESTION = "Why does the quarry crash at startup?"


# -- what a task asks for -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "targets"),
    [
        ("Fix farm.lua", "fix farm.lua"),
        ("please write a file `lib/a.txt`, then edit b.lua", "make lib/a.txt, change b.lua"),
        ("Create north.lua, south.lua and east.lua.", "make north.lua, make south.lua, make east.lua"),
        ("Write best.lua, which reads scores.json, and run it.", "make best.lua"),
        ("Change open=false to open=true in doors.cfg.", "change doors.cfg"),
        ("Rename old.lua to miner.lua.", "delete old.lua, make miner.lua"),
        ("Give old.lua the name miner.lua.", "delete old.lua, make miner.lua"),
        ("Change the name of old.lua to miner.lua", "delete old.lua, make miner.lua"),
        ("Move dig.lua and fell.lua into tools.", "delete dig.lua, delete fell.lua"),
        ("Copy radio.cfg to the computer farm.", "copy radio.cfg"),
        ("Copy a.lua to b.lua.", "make b.lua"),
        ("Remove line 3 from a.lua.", "change a.lua"),
        ("Delete the first line of a.txt", "change a.txt"),
        ("Make a copy of a.lua.", "copy a.lua"),
        ("farm.lua crashes. Fix it.", "fix farm.lua"),
        ("a.lua is old. Delete it.", "delete a.lua"),
        ("belt.cfg must be deleted.", "delete belt.cfg"),
        ("count.lua reads its speed from belt.cfg. Set it to 8 there.", "fix belt.cfg"),
        ("Fix farm.lua but do not change startup.lua.", "fix farm.lua"),
        ("Delete all files except a.lua", ""),
        ("Try to fix farm.lua", "fix farm.lua"),
        ("farm.lua should write to log.txt", ""),
        ("Which line of lamp.lua is wrong?", ""),
        ("Write it down.", ""),
        ("Mend it", ""),
        ("Schreib zaehler.lua, das 57 ausgibt.", "make zaehler.lua"),
        ("Lege die Datei nord.lua an.", "make nord.lua"),
        ("Nenne alt.lua um in bohrer.lua.", "delete alt.lua, make bohrer.lua"),
        ("zaehler.lua reparieren", "fix zaehler.lua"),
        ("Bitte die Datei alt.lua in bohrer.lua umbenennen.", "delete alt.lua, make bohrer.lua"),
        ("Kannst du mir nord.lua und ost.lua anlegen?", "make nord.lua, make ost.lua"),
        ("Repariere zaehler.lua, hallo.lua bleibt, wie es ist.", "fix zaehler.lua"),
        ("Delete it or move it.", ""),
        ("a.lua and b.lua are old. Delete it.", ""),
        ("Ändere zaehler.lua so, dass es ernte.log nicht löscht.", "change zaehler.lua"),
        ("Repariere zaehler.lua, aber ändere hallo.lua nicht.", "fix zaehler.lua"),
        ("Ändere hallo.lua und zaehler.lua nicht.", "change hallo.lua"),
        ("Lösche alt.lua nicht.", ""),
        ("Crée compteur.lua, puis supprime ancien.lua.", "make compteur.lua, delete ancien.lua"),
        ("compteur.lua plante. Répare-le.", "fix compteur.lua"),
        ("Ne supprime pas ancien.lua.", ""),
        ("Arregla contador.lua sin cambiar hola.lua.", "fix contador.lua"),
        ("Borra viejo.lua.", "delete viejo.lua"),
    ],
)
def test_the_files_that_have_to_change(prompt: str, targets: str) -> None:
    assert ", ".join(f"{one.deed.value} {' or '.join(one.names)}" for one in wanted(prompt).targets) == targets


@pytest.mark.parametrize(
    ("prompt", "programs"),
    [
        ("Write hello.lua and run it.", ""),
        ("Run main.lua.", "main.lua"),
        ("Try it once with a wrong one.", ""),
        ("Fix it and make sure that it works.", ""),
        ("Schreibe zaehler.lua und führe es aus.", ""),
        ("Stelle sicher, dass es funktioniert.", ""),
        ("Écris compteur.lua et exécute-le.", ""),
        ("Corrige-le et assure-toi que tout fonctionne.", ""),
        ("Crea contador.lua y pruébalo.", ""),
        ("Asegúrate de que funciona.", ""),
    ],
)
def test_a_run_that_is_asked_for(prompt: str, programs: str) -> None:
    found = wanted(prompt)
    assert (found.runs, ", ".join(one.name for one in found.programs)) == (True, programs)


@pytest.mark.parametrize(
    "prompt",
    [
        "Make this computer run clock.lua too when it boots.",
        "Write a program that runs at startup.",
        "Try to fix farm.lua.",
        "Schreibe zaehler.lua. Führe es nicht aus.",
        "Write a.lua. Do not run it.",
        "Write a program which tests the door",
    ],
)
def test_a_run_that_is_not_asked_for(prompt: str) -> None:
    assert not wanted(prompt).runs


@pytest.mark.parametrize(
    "prompt",
    [
        '[{"tool": "cc_write", "path": "a.lua"}]',
        "```lua\nwrite a.lua\n```",
        'local h = fs.open("a.txt", "w")',
        "delete('a.lua')",
    ],
)
def test_code_says_nothing_of_a_task(prompt: str) -> None:
    assert wanted(prompt) == Wanted()


def test_a_computer_that_the_words_name_counts() -> None:
    """Of several computers; a copy goes to the last one."""
    both = ("base", "farm")
    assert wanted("On the computer farm, set speed in belt.cfg to 8.", both).targets[0].computers == ("farm",)
    assert wanted("Setze auf dem Computer farm in band.cfg speed auf 8.", both).targets[0].computers == ("farm",)
    assert wanted("Copy radio.cfg of base to farm.", both).targets[0].computers == ("farm",)
    assert wanted("Move a.lua of base to farm.", both).targets[0].computers == ("base", "farm")
    assert wanted("Set speed in farm.cfg to 8.", both).targets[0].computers == ()
    assert wanted("On the computer farm, edit a.lua", ("farm",)).targets[0].computers == ()


# -- what a final claims --------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "I ran it.",
        "It was run twice.",
        "I've tested the program.",
        "Ich habe es ohne Fehler ausgeführt.",
        "Je l'ai testé.",
        "Lo he ejecutado sin errores.",
        "Its output was: 42",
    ],
)
def test_a_claim_of_a_run(text: str) -> None:
    found = claims(text)
    assert (found.runs, found.not_run) == (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "I did not run it.",
        "I haven't tested it.",
        "It is untested.",
        "Ich habe es nicht ausgeführt.",
        "Getestet ist es nicht.",
        "Je ne l'ai pas lancé.",
        "No lo he probado.",
    ],
)
def test_an_honest_word_that_it_was_not_run(text: str) -> None:
    found = claims(text)
    assert (found.runs, found.not_run) == (False, True)


@pytest.mark.parametrize(
    "text", ["You can run it now.", "Run it with 3.", "Then it works.", "Es sollte funktionieren."]
)
def test_advice_is_no_claim(text: str) -> None:
    found = claims(text)
    assert (found.runs, found.works, found.not_run) == (False, False, False)


@pytest.mark.parametrize(
    "text", ["Everything works.", "farm.lua works now.", "Es funktioniert jetzt.", "Tout fonctionne."]
)
def test_a_claim_that_it_works(text: str) -> None:
    assert claims(text).works


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("It printed 42.", "42"),
        ('It printed "Hello, you".', "Hello, you"),
        ("Es hat 57 ausgegeben.", "57"),
        ("I ran it. It printed:\n\n```\n17\n```", "17"),
        ("La salida fue: «63»", "63"),
        ("It should have printed 42.", ""),
        ("It never printed 42.", ""),
    ],
)
def test_what_is_said_to_have_been_printed(text: str, printed: str) -> None:
    assert ", ".join(one.text for one in claims(text).printed) == printed


# -- the rules ------------------------------------------------------------------------------


def test_nothing_done_is_no_success_of_anything() -> None:
    """Neither of work nor of a question; each says what is missing and what else may be said."""
    assert (
        Disk().lacks().startswith("You say success, but nothing was changed or run. Do what the task asks for first.")
    )
    assert "you have looked at nothing" in Disk(QUESTION).lacks()
    assert "you have looked at nothing" in Disk().lacks(read_only=True)
    for disk in (Disk(), Disk(QUESTION)):
        assert disk.lacks().endswith("send a final with success false that says why.")


def test_the_same_bytes_are_no_change() -> None:
    """Nor is a file that was made and removed again; a file that was repaired and is gone is not repaired."""
    disk = Disk("Fix farm.lua", farm_lua="old")
    disk.write("farm.lua", "old")
    assert "farm.lua was not changed" in disk.lacks()
    disk.edit("farm.lua", "new")
    assert disk.lacks() == ""
    disk.delete("farm.lua")
    assert "farm.lua was not changed" in disk.lacks()
    made = Disk("Create a.lua and b.lua")
    made.write("a.lua")
    made.write("b.lua")
    made.delete("b.lua")
    assert "b.lua was not made or changed" in made.lacks()


def test_each_named_file_has_to_end_as_the_task_says() -> None:
    disk = Disk("Rename old.lua to miner.lua.", old_lua="x")
    disk.write("miner.lua", "x")
    assert "old.lua is not gone" in disk.lacks()
    disk.delete("old.lua")
    assert disk.lacks() == ""
    copied = Disk("Copy radio.cfg to the computer farm.")
    copied.write("other.cfg")
    assert "radio.cfg was not copied" in copied.lacks()
    copied.write("radio.cfg")
    assert copied.lacks() == ""


def test_one_of_the_files_has_to_be_touched_where_the_words_leave_open_how() -> None:
    """Whatever the verb says that is not known here."""
    disk = Disk("farm.lua is too slow, do something about it or about quarry.lua.")
    disk.write("hello.lua")
    assert "farm.lua or quarry.lua was neither changed nor run" in disk.lacks()
    disk.run("quarry.lua")
    assert disk.lacks() == ""


def test_a_computer_that_the_task_names_has_to_have_it() -> None:
    disk = Disk("On the computer farm, set speed in belt.cfg to 8.")
    both = ("base", "farm")
    disk.write("belt.cfg", "8", on="base")
    assert "belt.cfg was not changed" in disk.lacks(computers=both)
    disk.write("belt.cfg", "9", on="farm")
    assert disk.lacks(computers=both) == ""


def test_each_of_the_computers_that_the_task_names_has_to_have_it() -> None:
    disk = Disk("Write notes.txt on both computers, base and farm.")
    both = ("base", "farm")
    disk.write("notes.txt", "1", on="base")
    assert "notes.txt was not made or changed" in disk.lacks(computers=both)
    disk.write("notes.txt", "2", on="farm")
    assert disk.lacks(computers=both) == ""


def test_a_folder_that_the_task_names_has_to_be_there() -> None:
    disk = Disk("Create a folder tools.")
    disk.mkdir("other")
    assert "tools was not made or changed" in disk.lacks("Done.")
    disk.mkdir("tools")
    assert disk.lacks("Done.") == ""


def test_each_participle_has_its_own_file() -> None:
    disk = Disk("Fix count.lua and delete old.lua.", count_lua="x", old_lua="x")
    disk.edit("count.lua", "y")
    assert "old.lua is not gone" in disk.lacks("count.lua is fixed and old.lua is deleted.")
    disk.delete("old.lua")
    assert disk.lacks("count.lua is fixed and old.lua is deleted.") == ""


def test_what_was_so_already_needs_no_change() -> None:
    """Where it was looked at."""
    disk = Disk("Set speed in belt.cfg to 8.", belt_cfg="8")
    assert disk.lacks("The speed is 8 already.") != ""
    disk.read("belt.cfg")
    assert disk.lacks("The speed was 8 already, so I changed nothing.") == ""


def test_a_fault_may_be_in_another_file() -> None:
    """A program that runs well after another file was changed is repaired."""
    disk = Disk("Fix quarry.lua", quarry_lua="require('util')", util_lua="x")
    disk.edit("util.lua", "y")
    assert "quarry.lua was not changed" in disk.lacks()
    disk.read("quarry.lua")
    disk.run("quarry.lua")
    assert disk.lacks() == ""


def test_a_run_that_is_wanted_is_of_the_bytes_that_are_there() -> None:
    disk = Disk("Write hello.lua and run it.")
    disk.write("hello.lua", "a")
    assert "hello.lua was not run since it was changed: run it, or say in your final that you did not" in disk.lacks()
    assert disk.lacks("I wrote it, but I did not run it.") == ""
    disk.run("hello.lua")
    assert disk.lacks() == ""
    disk.edit("hello.lua", "b")
    assert "hello.lua was changed after its last run" in disk.lacks()
    disk.edit("hello.lua", "a")
    assert disk.lacks() == ""
    disk.write("other.lua")
    disk.run("other.lua")
    disk.edit("hello.lua", "c")
    assert "hello.lua was changed after its last run" in disk.lacks()


@pytest.mark.parametrize("ended", ["observed", "timed_out"])
def test_an_endless_program_is_tested_by_watching_it(ended: facts.ProgramEnd) -> None:
    disk = Disk("Write lamp.lua and test it.")
    disk.write("lamp.lua")
    disk.run("lamp.lua", ended)
    assert disk.lacks("I wrote lamp.lua and tested it. It works.") == ""


def test_a_run_that_a_person_stopped_shows_nothing() -> None:
    disk = Disk("Write lamp.lua and test it.")
    disk.write("lamp.lua")
    disk.run("lamp.lua", "stopped")
    assert "the last change or run failed" in disk.lacks()


def test_a_program_is_tested_by_one_that_loads_it() -> None:
    """As far as its text was seen; of a program that the task names, any run after the change counts."""
    disk = Disk("Write lib/shapes.lua and main.lua, and test them.")
    disk.write("lib/shapes.lua")
    disk.write("main.lua", "local s = require('lib.shapes')")
    disk.run("main.lua")
    assert disk.lacks() == ""
    named = Disk("Fix lib/shapes.lua and run main.lua.", main_lua="x")
    named.run("main.lua")
    named.write("lib/shapes.lua")
    assert "lib/shapes.lua was not run since" in named.lacks()
    named.run("main.lua")
    assert named.lacks() == ""
    started = Disk("Write a.lua and test it.")
    started.write("a.lua", 'dofile("b.lua")')
    started.write("b.lua", "shell.run('c')")
    started.write("c.lua", "x")
    started.write("c.lua", "os.run({}, 'a')")
    started.run("rom/programs/monitor.lua", command="monitor left a")
    assert "b.lua" in started.lacks()
    started.run("a.lua")
    assert started.lacks() == ""


def test_the_program_that_the_task_names_has_to_run_well() -> None:
    disk = Disk("Run farm.lua and tell me what it prints.", farm_lua="x")
    disk.run("other.lua")
    assert "farm.lua was not run" in disk.lacks()
    disk.run("farm.lua", "error")
    disk.run("other.lua")
    assert "farm.lua did not run to a good end" in disk.lacks()
    assert disk.lacks("It fails with an error in line 3.") == ""
    told = Disk("Run farm.lua and tell me what it prints.", farm_lua="x")
    told.run("farm.lua", "error")
    assert "the last change or run failed" in told.lacks()
    assert told.lacks("It crashes with attempt to index nil.") == ""
    changed = Disk("Fix farm.lua, then run farm.lua.", farm_lua="x")
    changed.edit("farm.lua", "y")
    changed.run("farm.lua")
    changed.edit("farm.lua", "z")
    assert "farm.lua was changed after its last run" in changed.lacks()
    by_name = Disk("Run main.lua", main_lua="x")
    by_name.run("rom/programs/shell.lua", command="shell main.lua")
    assert by_name.lacks() == ""


def test_an_error_of_a_changed_program_is_cleared_only_by_that_program() -> None:
    """By a later good run, its removal or its restoration; nothing else."""
    disk = Disk(farm_lua="old")
    disk.edit("farm.lua", "new")
    disk.run("farm.lua", "error")
    disk.mkdir("x")
    assert "farm.lua ended with an error when it ran last. Fix it" in disk.lacks()
    assert disk.lacks("Fixed, but not run.") != ""
    disk.edit("farm.lua", "newer")
    assert "It was changed after that: run it again" in disk.lacks()
    assert disk.lacks("I changed farm.lua, but did not run it.") == ""
    disk.run("farm.lua")
    assert disk.lacks() == ""
    disk.run("farm.lua", "error")
    disk.edit("farm.lua", "old")
    disk.write("note.txt")
    assert disk.lacks() == ""
    gone = Disk()
    gone.write("a.lua")
    gone.run("a.lua", "abandoned")
    gone.delete("a.lua")
    gone.write("b.txt")
    assert gone.lacks() == ""


def test_the_claims_of_the_final_need_their_facts() -> None:
    disk = Disk(a_lua="x")
    disk.edit("a.lua", "y")
    assert "b.lua was not made or changed. Do it, or say in your final that you did not" in disk.lacks(
        "I created b.lua."
    )
    assert "old.lua is not gone" in disk.lacks("I deleted old.lua.")
    assert disk.lacks("I changed a.lua.") == ""
    assert "You say that it ran, but a.lua was not run since" in disk.lacks("I ran it.")
    assert "a.lua was not run: run it" in disk.lacks("I changed a.lua and ran a.lua.")
    assert "You say that it works, but a.lua was not run since" in disk.lacks("It works now.")
    disk.run("a.lua", out="17")
    assert disk.lacks("I ran it, and it works now.") == ""
    assert "You say that it printed 42, but no run printed that" in disk.lacks("It printed 42.")
    assert "You say that it printed 18" in disk.lacks("It prints 18.")
    assert disk.lacks("It printed 17.") == ""
    disk.run("a.lua", out="[3 lines left out]")
    assert disk.lacks("It printed 42.") == ""


def test_a_claim_of_a_repair_needs_a_change() -> None:
    """A run alone repairs nothing; what a peripheral did is no repair of a file."""
    disk = Disk(quarry_lua="x")
    disk.run("quarry.lua")
    assert "You say that you repaired something, but no file was changed" in disk.lacks("Fixed the quarry.")
    assert disk.lacks("I refueled the turtle.") == ""
    disk.edit("quarry.lua", "y")
    assert disk.lacks("Fixed the quarry.") == ""


def test_what_is_denied_is_not_claimed() -> None:
    disk = Disk(a_lua="x", b_lua="x")
    disk.edit("a.lua", "y")
    for message in (
        "I only changed a.lua and did not touch b.lua.",
        "Ich habe nur a.lua geändert und b.lua nicht angefasst.",
        "Ich habe a.lua geändert, und sonst nichts.",
    ):
        assert disk.lacks(message) == "", message


def test_a_claim_of_a_run_without_a_program_needs_a_good_run() -> None:
    disk = Disk()
    disk.write("a.cfg")
    assert "nothing was run to a good end" in disk.lacks("I tested it.")
    disk.run("other.lua", "error")
    disk.write("b.cfg")
    assert "nothing was run to a good end" in disk.lacks("I tested it.")
    assert disk.lacks("I tested it: it fails with an error.") == ""
    undone = Disk(a_lua="x")
    undone.edit("a.lua", "y")
    undone.edit("a.lua", "x")
    assert disk.lacks("I changed nothing.") != ""


def test_what_was_written_with_the_same_bytes_and_ran_was_written() -> None:
    """A demo that is played again."""
    disk = Disk("Write a hello world program and run it", hello_lua="hi")
    disk.write("hello.lua", "hi")
    assert "nothing was run to a good end" in disk.lacks("Wrote hello.lua.")
    disk.run("hello.lua", out="Hello, world!")
    assert disk.lacks("Wrote hello.lua and ran it: it prints Hello, world!") == ""


def test_a_change_that_failed_leaves_nothing() -> None:
    disk = Disk()
    disk.step("cc_write", ok=False, text="It does not parse.", path="a.lua")
    assert "the last change or run failed: cc_write: It does not parse." in disk.lacks()
    disk.step("cc_peripheral_call", name="left", method="list")
    assert disk.lacks() == ""
    assert "nothing was changed. Do it" not in disk.lacks("I changed the chest.")
    assert "the last change or run failed: cc_delete: Denied by policy" in _denied(disk)


def _denied(disk: Disk) -> str:
    disk.denied("cc_delete")
    return disk.lacks()


# -- questions ------------------------------------------------------------------------------


def test_a_question_needs_a_look() -> None:
    for tool, enough in (("cc_list", True), ("send_status", False), ("ask_user", True), ("cc_info", True)):
        disk = Disk(QUESTION)
        disk.step(tool, path="/")
        assert (disk.lacks("Line 3 opens nil.") == "") is enough, tool


def test_a_file_that_a_question_names_has_to_be_read() -> None:
    """Read, found by a search, or run; a list says only that it is there."""
    asked = "Why does farm.lua crash?"
    disk = Disk(asked)
    disk.step("cc_list", path="/", text="farm.lua")
    assert "you have not read farm.lua" in disk.lacks("Line 3 opens nil.")
    read, ran = Disk(asked), Disk(asked)
    read.read("farm.lua")
    ran.run("farm.lua", "error")
    assert (read.lacks("Line 3 opens nil."), ran.lacks("Line 3 opens nil.")) == ("", "")
    found = Disk(asked)
    found.step("cc_find", contains="x", text="farm.lua:3: x")
    assert found.lacks("Line 3 opens nil.") == ""
    listed = Disk("Is there a file farm.lua?")
    listed.step("cc_list", path="/", text="farm.lua")
    assert listed.lacks("Yes, there is one.") == ""


def test_a_file_that_is_not_there_answers_a_question_about_it() -> None:
    disk = Disk("Why does farm.lua crash?")
    disk.step("cc_read", ok=False, path="farm.lua", text="There is no farm.lua.")
    assert "this failed and nothing made up for it: cc_read: There is no farm.lua." in disk.lacks("Line 3 is wrong.")
    disk.step("cc_list", path="/")
    assert disk.lacks("There is no farm.lua on this computer.") == ""


def test_a_look_that_failed_is_made_up_for_by_contents() -> None:
    disk = Disk("Fix nope.lua")
    disk.step("cc_read", ok=False, path="nope.lua", text="There is no nope.lua.")
    disk.step("cc_list", path="/")
    assert "There is no nope.lua" in disk.lacks()
    disk.step("cc_find", text="[0 matches]")
    assert "There is no nope.lua" in disk.lacks()
    disk.read("yes.lua")
    assert "nope.lua could not be read" in disk.lacks()
    disk.write("nope.lua")
    assert disk.lacks() == ""
    disk.step("cc_read", ok=False, text="No.")
    assert "cc_read: No." in disk.lacks()


def test_the_answer_to_a_question_claims_nothing_that_never_was() -> None:
    looked = Disk(QUESTION)
    looked.step("cc_list", path="/")
    for claim in (looked.lacks("Fixed."), looked.lacks("x", explanation="I have rewritten it.")):
        assert "you changed something, but nothing was changed" in claim
    assert "You say that something ran, but nothing was run" in looked.lacks("I ran it: it stops in line 3.")
    looked.run("quarry.lua", "error")
    assert looked.lacks("I ran it: it stops in line 3.") == ""
    assert looked.lacks("Change line 3, and run it again: then it works.") == ""


def test_the_answer_to_a_question_says_something() -> None:
    looked = Disk(QUESTION)
    looked.step("cc_list", path="/")
    assert "your message has no answer in it" in looked.lacks("Done.")
    assert looked.lacks("Done.", explanation="It opens nil.") == ""
    assert looked.lacks("Done.", details={"line": 3}) == ""


def test_a_program_of_its_own_answers_by_what_it_printed() -> None:
    """A model that writes and runs something else has looked at nothing."""
    disk = Disk("How many pieces of coal are in the chest on the left?")
    disk.write("count.lua")
    disk.run("count.lua", out="93")
    assert disk.lacks("There are 93 pieces of coal.") == ""
    assert "you have not looked at what the task asks about" in disk.lacks("I wrote count.lua and ran it. It works.")
    disk.run("rom/programs/list.lua")
    assert disk.lacks("I wrote count.lua and ran it.") == ""


def test_a_plain_question_needs_no_computer() -> None:
    general = "How does the parallel API work?"
    assert Disk(general).answers("parallel.waitForAny runs functions side by side until one ends.")
    assert not Disk(general).answers("Done.")
    assert not Disk(general).answers("I ran it.")
    assert not Disk(general).answers("Fixed.")
    assert not Disk("Why does my farm program crash?").answers("It opens nil.")
    looked = Disk(general)
    looked.step("cc_docs", query="parallel")
    assert not looked.answers("It runs functions side by side.")
    assert looked.lacks("It runs functions side by side.") == ""
    done = Disk(general)
    done.write("a.lua")
    assert not done.answers("It runs functions side by side.")


def test_work_that_may_only_look_does_not_succeed_by_what_was_denied() -> None:
    disk = Disk()
    disk.denied("cc_delete")
    disk.step("cc_list", path="/")
    assert "you may only look, and a change was denied" in disk.lacks(read_only=True)


# -- the evidence ---------------------------------------------------------------------------


def test_what_failed_in_a_reply_is_not_made_up_for_beside_it() -> None:
    """Another change of the same reply does not, the same file written after all does."""
    disk = Disk()
    calls = [call("w", "cc_write", path="q.lua"), call("d", "cc_delete", index=1, path="hello.lua")]
    disk.proposed(calls, "allow", "allow")
    for name, ok in (("w", False), ("d", True)):
        disk.started(name)
        disk.finished(name, ok=ok, text="It does not parse.")
    assert "the last change or run failed: cc_write: It does not parse." in disk.lacks()
    again = [call("w2", "cc_write", path="q.lua"), call("w3", "cc_write", index=1, path="q.lua")]
    disk.proposed(again, "allow", "allow")
    for name, ok in (("w2", False), ("w3", True)):
        disk.started(name)
        disk.finished(name, ok=ok)
    assert disk.lacks() == ""


def test_a_tool_that_does_not_exist_is_neither() -> None:
    """It would have changed nothing: what was done before it stays what was done."""
    disk = Disk()
    assert disk.denied("cc_format") == NOTHING
    done = disk.write("a")
    assert disk.denied("cc_format") == done


@pytest.mark.parametrize("ok", [True, False])
def test_the_same_call_twice_in_a_reply_is_no_failure_where_the_first_worked(ok: bool) -> None:
    disk = Disk()
    first, twin = call("w"), call("v", index=1).model_copy(update={"call_digest": "call-w"})
    disk.proposed([first, twin], "allow", "deny")
    disk.started("w")
    disk.finished("w", ok=ok, text="so")
    assert (disk.lacks() == "") is ok


def test_what_a_person_gave_instead_of_a_result_changed_nothing() -> None:
    disk = Disk()
    disk.proposed([call("w")], "ask")
    disk.reviewed("w")
    disk.decided(decision("w", "respond", answer="I did it myself."))
    assert disk.task.evidence == NOTHING


def test_a_refused_success_is_remembered_and_counts_as_no_unreadable_reply() -> None:
    disk = Disk()
    for because in ("unreadable", "unproven"):
        disk.asked()
        disk.replied()
        disk.add(facts.ReplyRefused(reason="No.", because=because))
    assert (disk.task.refusals, disk.task.doubted) == (0, True)
    assert [turn.unproven for turn in disk.task.turns] == [False, True]


def test_a_program_that_only_lists_is_a_look() -> None:
    disk = Disk()
    disk.step("cc_shell", command="ls lib")
    assert "nothing was changed or run" in disk.lacks()
    assert disk.step("cc_shell", command="/rom/programs/list.lua").sight


def test_a_directory_takes_its_files_along() -> None:
    disk = Disk("Delete a.lua")
    disk.write("lib/b.lua")
    disk.write("lib/c.lua", on="4")
    disk.delete("lib", before=sha("tree"))
    assert {f"{spot.computer}:{spot.path}" for spot in disk.task.evidence.net} == {"3:lib", "4:lib/c.lua"}
    moved = Disk()
    moved.write("src/b.lua")
    moved.write("src/c.lua")
    moved.move("src", "lib", before=sha("tree"))
    assert {spot.path: one.is_there for spot, one in moved.task.evidence.net.items()} == {
        "src": False,
        "lib": True,
        "lib/b.lua": True,
        "lib/c.lua": True,
    }


def test_programs_of_the_game_change_files_by_their_arguments() -> None:
    disk = Disk("Rename farm.lua to old.lua")
    disk.run("rom/programs/rename.lua", command="rename farm.lua old.lua")
    assert disk.lacks() == ""
    gone = Disk("Delete a.txt")
    gone.run("rom/programs/delete.lua", command="rm a.txt")
    assert gone.lacks() == ""
    own = Disk("Delete a.txt")
    own.run("rm.lua", command="rm a.txt")
    assert "a.txt is not gone" in own.lacks()
    watched = Disk("Write a.txt")
    watched.run("make.lua", changed=("a.txt",))
    assert watched.lacks() == ""


def test_what_a_failed_program_changed_is_found_too() -> None:
    """It is no success, and it is a change all the same."""
    disk = Disk("Run install.lua", install_lua="x")
    disk.run("install.lua", "error", changed=("b.lua",))
    assert [(one.path, one.change) for one in finding(disk.task.evidence).files] == [("b.lua", "changed")]
    assert "the last change or run failed" in disk.lacks("I ran it.")


def test_what_a_person_says_was_done_is_done() -> None:
    """Nobody heard how it ended, so nobody knows the bytes; what is gone is known."""
    for tool, before, found in (
        ("cc_write", {"a.lua": sha("y")}, [("a.lua", "changed")]),
        ("cc_delete", {"a.lua": sha("y")}, [("a.lua", "deleted")]),
        ("cc_move", {"a.lua": sha("y"), "b.lua": "absent"}, [("a.lua", "deleted"), ("b.lua", "new")]),
    ):
        disk = Disk("Do it")
        disk.proposed([call("w", tool, path="a.lua")], "allow")
        disk.started("w", before=before)
        disk.settled("w", "unknown", reason="Nobody heard.")
        disk.reviewed("w", reason="outcome_unknown")
        disk.decided(decision("w", "mark_done"))
        assert [(one.path, one.change) for one in finding(disk.task.evidence).files] == found


def test_a_run_of_an_early_release_names_no_program() -> None:
    """The bytes that it was bound to say which one; one that was stale or denied never ran."""
    disk = Disk("Run p.lua", p_lua="x")
    disk.step("cc_run_program", before={"p.lua": sha("x")}, path="p.lua")
    assert disk.lacks() == ""
    failed = Disk("Run p.lua", p_lua="x")
    failed.step("cc_run_program", ok=False, before={"p.lua": sha("x")}, path="p.lua")
    assert [run.failed for run in failed.task.evidence.runs.values()] == [True]
    absent = Disk("Run p.lua")
    absent.step("cc_run_program", before={"p.lua": "absent"}, path="p.lua", ok=False)
    absent.denied("cc_run_program")
    assert absent.task.evidence.runs == {}


def test_what_a_person_was_shown_tells_what_a_program_loads() -> None:
    """Each name once, and of the same computer only."""
    disk = Disk("Fix util.lua and test it.", util_lua="x", main_lua="x")
    disk.write("far.lua", "require('util')", on="4")
    disk.edit("util.lua", "require('main') require('util')")
    disk.proposed([call("r", "cc_run_program", path="main.lua")], "ask")
    observed = facts.Observed(state={"main.lua": sha("x")}, program="main.lua", source="require('util')")
    request = disk.preview_of("r", observed)
    disk.add(request)
    disk.decided(decision("r"))
    disk.started("r", before={"main.lua": sha("x")})
    disk.finished("r", ran=facts.Ran(path="main.lua", sha256=sha("x"), ended="finished"))
    (run,) = disk.task.evidence.runs.values()
    assert run.about == {"util", "main"}
    assert "far.lua" in disk.lacks()


def test_lines_are_counted_over_all_calls() -> None:
    disk = Disk(a_lua="x")
    disk.edit("a.lua", "y", lines=(3, 1))
    disk.edit("a.lua", "z", lines=(1, 2))
    disk.write("b.lua", lines=(5, 0))
    disk.edit("b.lua", "w", lines=(1, 2))
    disk.edit("c.bin", "y")
    disk.edit("a.lua", "q", lines=None)
    shown = {one.path: (one.change, one.plus, one.minus) for one in finding(disk.task.evidence).files}
    assert shown == {"a.lua": ("changed", None, None), "b.lua": ("new", 4, 0), "c.bin": ("new", None, None)}


@pytest.mark.parametrize(
    ("path", "name"),
    [("lib/shapes.lua", "shapes"), ("lib.shapes", "shapes"), ("farm", "farm"), (".x", "x"), ("a.cfg", "a")],
)
def test_programs_are_called_by_their_names(path: str, name: str) -> None:
    assert stem(path) == name


def test_a_program_that_is_made_once_more_as_it_was_is_made() -> None:
    """Somebody gives the same task twice; without a run, or where a change is asked for, the same bytes are none."""
    disk = Disk("Write a.lua and run it.", a_lua="print(1)")
    disk.write("a.lua", "print(1)")
    assert "a.lua was not made or changed" in disk.lacks("I wrote a.lua.")
    disk.run("a.lua", out="1")
    assert not disk.lacks("I wrote a.lua and ran it: it printed 1.")
    disk = Disk("Fix a.lua and run it.", a_lua="print(1)")
    disk.write("a.lua", "print(1)")
    disk.run("a.lua", out="1")
    assert "a.lua was not changed" in disk.lacks("I fixed a.lua.")


# -- the report -----------------------------------------------------------------------------


def ended(disk: Disk, **more: object) -> facts.TaskEnded:
    fact = facts.TaskEnded(
        status="Completed", status_reason="final", message="Done.", finding=finding(disk.task.evidence)
    )
    return fact.model_copy(update=more)


def test_the_report_tells_files_runs_and_what_was_not_run() -> None:
    disk = Disk(a_lua="x", old_lua="x")
    disk.edit("a.lua", "y", lines=(3, 1))
    disk.delete("old.lua")
    disk.run("a.lua", seconds=10.0)
    disk.run("w.lua", "observed", seconds=10.0)
    disk.run("t.lua", "timed_out")
    disk.run("s.lua", "stopped")
    disk.run("e.lua", "error", out="Program e.lua failed (program_error): e.lua:3: nil\nstack")
    disk.run("b.lua", out="[Runs on in the background: tab-7. cc_info lists it]", tabs=("tab-1", "tab-2"))
    disk.run("n.lua", "error", out=" ")
    disk.run("z.lua", "abandoned")
    disk.edit("a.lua", "z", lines=(1, 0))
    assert report(ended(disk, doubt="a.lua was not run: run it, or say in your final that you did not.")) == [
        "changed a.lua  +4 -1",
        "deleted old.lua",
        "ran a.lua: ended without an error (changed since)",
        "ran w.lua: ran 10 s without an error, then was stopped",
        "ran t.lua: ran without an error, then was stopped at its time limit",
        "ran s.lua: was stopped by a person",
        "ran e.lua: ended with an error: e.lua:3: nil",
        "ran b.lua: ended without an error; what it started may still run in the background: tab-1, tab-2",
        "ran n.lua: ended with an error",
        "ran z.lua: could not be stopped",
        "not run since it was changed: a.lua",
        "unverified: a.lua was not run",
    ]


@pytest.mark.parametrize(
    ("doubt", "told"),
    [
        ("You say success, but a.lua ended with an error. Fix it and run it again.", "a.lua ended with an error"),
        (
            "The task asks for a run, but a.lua was not run: run it, or say it.",
            "the task asks for a run, but a.lua was not run",
        ),
        (
            "You say that it printed 4: 2, but no run did. Say it.",
            "the model says that it printed 4: 2, but no run did",
        ),
        (
            "You say that you did, but a.lua is not gone. Do it, or say it.",
            "the model says that it did, but a.lua is not gone",
        ),
        ("You say success, but you have looked at nothing. Look.", "the model has looked at nothing"),
        ("You say success, but your message is empty. Say it.", "the model's message is empty"),
        ("You say success, but this failed: cc_read: No. If it cannot be done, say so.", "this failed: cc_read: No"),
    ],
)
def test_a_doubt_is_told_to_people_without_the_step_for_the_model(doubt: str, told: str) -> None:
    assert report(ended(Disk(), doubt=doubt))[-1] == f"unverified: {told}"


def test_places_of_several_computers_are_told_with_their_computer() -> None:
    disk = Disk()
    disk.write("a.lua", on="3")
    disk.write("b.lua", on="4")
    disk.run("b.lua", on="4")
    assert report(ended(disk, finding=finding(disk.task.evidence, several=True))) == [
        "new 3:a.lua",
        "new 4:b.lua",
        "ran 4:b.lua: ended without an error",
        "not run since it was changed: 3:a.lua",
    ]


def test_the_run_of_a_check_counts_for_what_the_task_changed() -> None:
    """By itself, or because it loads that; of other programs it shows nothing, and it is no work of the model."""
    disk = Disk("Mend farm.lua.", farm_lua="x", other_lua="x")
    disk.run("other.lua", checks=("runs other.lua",))
    assert "nothing was changed or run" in disk.lacks()
    disk.write("farm.lua", "print(42)")
    disk.step("cc_find", checks=("file a exists",), pattern="a")
    disk.run("other.lua", checks=("runs other.lua",))
    assert finding(disk.task.evidence).not_run == ("farm.lua",)
    assert finding(disk.task.evidence).runs == ()
    assert disk.lacks("It printed 42.")
    disk.run("farm.lua", out="42", checks=("runs farm.lua",))
    assert report(ended(disk)) == ["changed farm.lua", "ran farm.lua: ended without an error"]
    assert not disk.lacks("It printed 42.")
    disk.write("lib.lua")
    disk.write("main.lua", "require('lib')")
    disk.run("main.lua", checks=("runs main.lua",))
    assert finding(disk.task.evidence).not_run == ()


def test_an_undo_is_not_told_to_run_what_it_put_back() -> None:
    disk = Disk(a_lua="x")
    disk.edit("a.lua", "y")
    assert report(ended(disk, status_reason="restored")) == ["changed a.lua"]


def test_a_program_that_another_one_loads_was_run() -> None:
    disk = Disk()
    disk.write("lib.lua")
    disk.write("main.lua", "require('lib')")
    disk.write("data.lua")
    disk.run("main.lua")
    assert finding(disk.task.evidence).not_run == ("data.lua",)


def test_the_report_tells_of_the_background_until_that_is_shown_to_be_over() -> None:
    """It was stopped, or a look showed that it ended; also what an earlier run of the same program started."""
    disk = Disk(bg_lua="x", many_lua="x")

    def left(story: Disk = disk) -> list[tuple[str, str, str]]:
        return [(one.computer or "", one.path, one.background) for one in finding(story.task.evidence).runs]

    disk.run("bg.lua", tabs=("tab-1", "tab-2"))
    disk.run("bg.lua", tabs=("tab-3",))
    disk.run("bg.lua", tabs=("tab-1",), on="4")
    disk.step("cc_stop", tab="tab-1", text="tab-1 was told to stop and has not ended yet. cc_info tells when it has.")
    disk.step("cc_stop", tab="tab-2", text="tab-2 was stopped.", ok=False)
    disk.read("bg.lua")
    assert left() == [("3", "bg.lua", "tab-1, tab-2, tab-3"), ("4", "bg.lua", "tab-1")]
    disk.step("cc_stop", tab="tab-1", text="tab-1 was stopped. The program was told to end.")
    disk.step("cc_info", text="- tab-2: bg, ended, runs for 3 s\n- tab-3: bg 7, ended with an error after 0 s: no")
    assert left() == [("3", "bg.lua", "tab-2"), ("4", "bg.lua", "tab-1")]
    disk.proposed((call("k", "cc_run_program", path="bg.lua"),), "allow", checks=("runs bg.lua",))
    disk.started("k")
    disk.finished("k", ran=facts.Ran(path="bg.lua", sha256=sha("x"), ended="finished", tabs=("tab-9",)))
    assert left()[0] == ("3", "bg.lua", "tab-2, tab-9")


def test_a_report_of_nothing_says_so() -> None:
    assert report(ended(Disk())) == ["nothing was changed or run"]
    assert report(ended(Disk(), status="Failed")) == ["nothing was changed or run"]
    assert report(ended(Disk(), status_reason="answered")) == [
        "nothing was looked at: the model answered from what it knows"
    ]
    assert report(ended(Disk(), finding=None)) == []
    assert says_the_model(ended(Disk()))
    assert not says_the_model(ended(Disk(), message=""))
    assert not says_the_model(ended(Disk(), status_reason="max_steps"))


def test_the_report_tells_what_came_of_the_checks() -> None:
    checks = (
        facts.CheckResult(check="runs a.lua", holds=True, why="It ended."),
        facts.CheckResult(check="prints 42", holds=False, why="It printed 17."),
        facts.CheckResult(check="file a exists", holds=None),
    )
    shown = finding(Disk().task.evidence, checks)
    assert report(ended(Disk(), finding=shown)) == [
        "check runs a.lua: holds",
        "check prints 42: does not hold: It printed 17.",
        "check file a exists: not known",
    ]


def test_a_report_of_many_files_is_short() -> None:
    disk = Disk()
    for number in range(53):
        disk.write(f"f{number}.txt")
    lines = report(ended(disk))
    assert len(lines) == 51
    assert lines[-1] == "and 3 more files"


def test_the_end_of_a_task_carries_what_was_found_by_then() -> None:
    """Also of calls of a step that did not come to its end; a finding that is there already stays."""
    disk = Disk()
    disk.write("a.lua")
    calls = [call("r", "cc_read", path="b"), call("w", "cc_write", index=1, path="b"), call("s", "cc_shell", index=2)]
    disk.proposed(calls, "allow", "allow", "allow")
    disk.started("r")
    disk.finished("r")
    disk.started("w")
    author = Author(ManualClock())
    note = author.draft(facts.TaskPinned())
    end = author.draft(facts.TaskEnded(status="Canceled", status_reason="canceled"))
    pinned, found = with_findings(disk.task, [note, end])
    assert pinned == note
    assert isinstance(found.fact, facts.TaskEnded)
    assert found.fact.finding is not None
    assert [one.path for one in found.fact.finding.files] == ["a.lua"]
    assert "without a result when the task ended: cc_write b" in report(found.fact)
    assert with_findings(disk.task, [found]) == [found]


def test_the_log_of_an_end_has_the_report() -> None:
    disk = Disk()
    disk.write("a.lua")
    disk.add(ended(disk))
    assert Transcript().lines(disk.items[-1]) == [
        "[REPORT] new a.lua",
        "[REPORT] not run since it was changed: a.lua",
        "[REPORT] the message below is the model's own",
        "[FINAL] Success=True, Message=Done.",
    ]


def test_checks_of_which_nobody_knows_are_named() -> None:
    results = (
        facts.CheckResult(check="runs a.lua", holds=None, why="It was rejected."),
        facts.CheckResult(check="prints 42", holds=True),
    )
    assert said_unknown(results) == "Nobody knows whether these checks hold: runs a.lua (It was rejected)."


@pytest.mark.parametrize(
    ("diff", "lines"), [(None, None), ("--- a\n+++ b\n@@ -1,2 +1,2 @@\n-x\n+y\n+z\n a\n", (2, 1)), ("", (0, 0))]
)
def test_the_lines_of_a_diff_are_counted(diff: str | None, lines: tuple[int, int] | None) -> None:
    assert line_counts(diff) == lines
