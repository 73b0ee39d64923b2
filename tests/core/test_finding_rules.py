"""What has to stay, to be written, to be given and to be printed: by the words of a task and of a final."""

import pytest

from orchestrator.core.evidence.orders import deletes_nothing, keeps_all
from orchestrator.core.evidence.quotations import Output, given, printed, prints, to_print, to_write
from orchestrator.core.evidence.wanted import wanted
from orchestrator.core.evidence.words import MAX_SENTENCE, readable, remembered
from orchestrator.core.text.patch import only_comments
from tests.core.disk import Disk

BOTH = ("north", "south")


# -- what stays -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "order",
    [
        "do not touch startup.lua",
        "don't change startup.lua",
        "but not startup.lua",
        "leave startup.lua alone",
        "keep startup.lua as it is",
        "startup.lua must stay as it is",
        "fass startup.lua nicht an",
        "rühr startup.lua nicht an",
        "startup.lua bitte nicht ändern",
        "ohne startup.lua zu ändern",
        "aba nich startup.lua",
        "lass startup.lua in Ruhe",
        "ne touche pas à startup.lua",
        "sans modifier startup.lua",
        "laisse startup.lua tel quel",
        "no toques startup.lua",
        "sin tocar startup.lua",
        "deja startup.lua como está",
    ],
)
def test_a_file_that_the_task_leaves_alone(order: str) -> None:
    disk = Disk(f"Change menu.lua, {order}.", menu_lua="x", startup_lua="x")
    disk.edit("menu.lua", "y")
    assert disk.lacks("menu.lua is changed.") == ""
    disk.edit("startup.lua", "y")
    assert "startup.lua was changed, and the task says to leave it" in disk.lacks("menu.lua is changed.")


def test_what_a_program_does_not_do_is_no_order() -> None:
    disk = Disk("farm.lua does not change out.txt. Fix it.", farm_lua="x", out_txt="x")
    disk.edit("farm.lua", "y")
    disk.edit("out.txt", "y")
    assert disk.lacks("farm.lua is fixed.") == ""


@pytest.mark.parametrize(
    "claim",
    [
        "I did not touch startup.lua.",
        "startup.lua is the same as before.",
        "startup.lua is unchanged.",
        "startup.lua ist unverändert.",
        "startup.lua habe ich nicht geändert.",
        "startup.lua n'a pas été touché.",
        "No he cambiado startup.lua.",
        "startup.lua sigue igual.",
    ],
)
def test_a_file_that_the_final_says_was_left(claim: str) -> None:
    disk = Disk("Make the menu nicer.", menu_lua="x", startup_lua="x")
    disk.edit("menu.lua", "y")
    assert disk.lacks(claim) == ""
    disk.edit("startup.lua", "y")
    assert "startup.lua was left as it was, but it was changed" in disk.lacks(claim)


def test_what_is_gone_is_not_still_there() -> None:
    disk = Disk("Tidy up.", a_lua="x", b_lua="x")
    disk.delete("a.lua")
    assert disk.lacks("I tidied up, b.lua is still there.") == ""
    assert "a.lua is still there, but it is gone" in disk.lacks("I tidied up, a.lua is still there.")


def test_a_copy_leaves_what_it_is_of() -> None:
    disk = Disk("Copy a.lua to b.lua.", a_lua="x")
    disk.move("a.lua", "b.lua")
    assert "a.lua is gone, and the task wants a copy" in disk.lacks("Both are there.")


@pytest.mark.parametrize(
    "words",
    [
        "don't change anything",
        "change nothing",
        "nichts ändern",
        "ohne etwas zu ändern",
        "ne change rien",
        "sans rien modifier",
        "no cambies nada",
    ],
)
def test_nothing_is_to_change(words: str) -> None:
    assert keeps_all(words)
    disk = Disk(f"Explain pump.lua, {words}.", pump_lua="x")
    disk.read("pump.lua")
    assert disk.lacks("It pumps water from the left.") == ""
    disk.edit("pump.lua", "y")
    assert "the task says to change nothing" in disk.lacks("It pumps water from the left.")


def test_nothing_is_said_to_have_changed() -> None:
    assert not keeps_all("I changed nothing else.")
    disk = Disk("Make it quicker.", a_lua="x")
    disk.edit("a.lua", "y")
    assert "You say that nothing was changed, but a.lua was" in disk.lacks("I changed nothing.")


def test_nothing_is_to_be_deleted() -> None:
    assert deletes_nothing("lösche dabei nichts")
    assert not deletes_nothing("delete a.lua")
    disk = Disk("Set field in farm.cfg to 9, delete nothing.", farm_cfg="4", old_cfg="1")
    disk.edit("farm.cfg", "9")
    assert disk.lacks("field is 9.") == ""
    disk.delete("old.cfg")
    assert "old.cfg was changed" in disk.lacks("field is 9.")
    told = Disk("Set field in farm.cfg to 9.", farm_cfg="4", old_cfg="1")
    told.edit("farm.cfg", "9")
    told.delete("old.cfg")
    assert "You say that nothing was changed" in told.lacks("field is 9. I deleted nothing.")


# -- what is written ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "found"),
    [
        ("set speed in belt.cfg to 8", ["8"]),
        ("Setze speed in belt.cfg auf 8.", ["8"]),
        ("mets vitesse à 8 dans belt.cfg", ["8"]),
        ("cambia el número de belt.cfg a 12 y prueba", ["12"]),
        ("set score=100 in score.txt and leave name.txt alone", ["100"]),
        ('write "hello world" into note.txt', ["hello world"]),
        ('note.txt must contain the line "hello"', ["hello"]),
        ("Replace Zürich by Genève in sign.txt.", ["Genève"]),
        ("Change open=false to open=true in doors.cfg.", ["open=true"]),
        ("greet.lua writes Helo instead of Hello.", ["Hello"]),
        ("set the delay to 5 minutes in a.lua", []),
        ("set the title to 'Hello <name>' in a.lua", []),
    ],
)
def test_what_an_order_wants_written(order: str, found: list[str]) -> None:
    assert to_write(order) == found


def test_a_value_that_was_not_written() -> None:
    """Only where all that was written is known: not after a copy, and not where it was so before."""
    disk = Disk("Set speed in belt.cfg to 8.", belt_cfg="speed=3")
    disk.edit("belt.cfg", "speed=80")
    assert "8 was not written into belt.cfg" in disk.lacks("speed is 8.")
    disk.edit("belt.cfg", "speed=8")
    assert disk.lacks("speed is 8.") == ""
    moved = Disk("Set speed in belt.cfg to 8.", new_cfg="speed=8")
    moved.move("new.cfg", "belt.cfg")
    moved.edit("belt.cfg", "speed=1")
    assert moved.lacks("speed is 8.") == ""


# -- what is run ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("run it with 3", ("3",)),
        ("teste es mit 5, 6 und 7", ("5", "6", "7")),
        ("test it with the name Bob", ("Bob",)),
        ('run it with "wheat"', ()),
        ("run it with Bob", ()),
        ("run it with 3 turtles", ()),
    ],
)
def test_what_a_run_is_given(sentence: str, found: tuple[str, ...]) -> None:
    assert given(sentence) == found


def test_a_run_with_other_arguments() -> None:
    disk = Disk("Run square.lua with 7.", square_lua="x")
    disk.run("square.lua", out="36", args=["6"])
    assert "No run got 7" in disk.lacks("I ran it.")
    disk.run("square.lua", out="49", args=["7"])
    assert disk.lacks("I ran it with 7.") == ""
    assert disk.lacks("With 6 it printed 36, with 7 it printed 49.") == ""
    assert "No run got 8" in disk.lacks("I ran it with 8.")


def test_a_program_that_tests_another_may_give_it_arguments() -> None:
    disk = Disk("Test square.lua with 7.", square_lua="x")
    disk.write("test.lua", "shell.run('square', 7)")
    disk.run("test.lua", args=["square"])
    assert disk.lacks("Tested.") == ""


@pytest.mark.parametrize(
    "prompt", ["Run s.lua on north and south.", "Run s.lua on every computer.", "Teste s.lua auf south."]
)
def test_a_run_on_each_computer(prompt: str) -> None:
    disk = Disk(prompt, s_lua="x")
    disk.run("s.lua", on="north")
    assert "s.lua was not run on south" in disk.lacks("Done.", computers=BOTH)
    disk.run("s.lua", on="south")
    assert disk.lacks("Done.", computers=BOTH) == ""


def test_a_run_is_claimed_on_a_computer() -> None:
    disk = Disk("Run s.lua.", s_lua="x")
    disk.run("s.lua", on="north")
    assert "s.lua was not run on south" in disk.lacks("I tested s.lua on south.", computers=BOTH)


def test_a_change_is_claimed_on_a_computer() -> None:
    disk = Disk("Write down where we are.")
    disk.write("map.txt", "x=1", on="north")
    assert "map.txt was not made" in disk.lacks("I wrote map.txt on south.", computers=BOTH)
    assert disk.lacks("I wrote map.txt on north.", computers=BOTH) == ""


def test_a_question_about_a_computer_is_answered_there() -> None:
    disk = Disk("What does pin.txt on south say?", pin_txt="1")
    disk.step("cc_read", on="north", path="pin.txt")
    assert "you have not read pin.txt on south" in disk.lacks("It says 1.", computers=BOTH)
    disk.step("cc_read", on="south", path="pin.txt")
    assert disk.lacks("It says 2.", computers=BOTH) == ""


def test_a_question_about_what_stands_in_files_needs_their_contents() -> None:
    disk = Disk("Which of my programs mentions diamond?")
    disk.step("cc_list", path="/")
    assert "you have not read the files that the answer is about" in disk.lacks("Only c.lua does.")
    disk.step("cc_find", contains="diamond", text="b.lua:1: diamond")
    assert disk.lacks("Only b.lua does.") == ""


@pytest.mark.parametrize("claim", ["It ended by itself.", "Es endete von selbst.", "Terminó sola."])
def test_what_was_stopped_did_not_end_by_itself(claim: str) -> None:
    disk = Disk("Run loop.lua.", loop_lua="x")
    disk.run("loop.lua", "observed")
    assert "loop.lua was stopped" in disk.lacks(claim)
    disk.run("loop.lua")
    assert disk.lacks(claim) == ""


@pytest.mark.parametrize(
    "claim", ["It gives no error.", "Il ne plante pas.", "Es läuft ohne Fehler.", "No da ningún error."]
)
def test_an_error_is_not_denied(claim: str) -> None:
    disk = Disk("Does mine.lua give an error when it runs?", mine_lua="x")
    disk.run("mine.lua", "error")
    assert "mine.lua ended with an error" in disk.lacks(claim)
    disk.run("mine.lua")
    assert disk.lacks(claim) == ""


# -- what is printed ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It now prints 7.", [Output("7")]),
        ("a.lua gibt jetzt 7 aus.", [Output("7", "a.lua")]),
        ("Es kommt 7 heraus.", [Output("7")]),
        ("It prints 3 lines.", []),
        ("Sale 24.", [Output("24")]),
        ("It prints 7 if a.lua is there.", [Output("7")]),
        ("When it runs, it prints 7.", []),
        ("It no longer prints 7.", []),
    ],
)
def test_what_is_said_to_be_printed(text: str, found: list[Output]) -> None:
    assert prints(text) == tuple(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Output: rows: 50", [Output("50")]),
        ('Die Ausgabe enthält "13".', [Output("13")]),
        ("When I executed a.lua it showed 17.", [Output("17", "a.lua")]),
        ('a.lua and b.lua printed "ok".', [Output("ok")]),
    ],
)
def test_what_is_said_to_have_been_printed(text: str, found: list[Output]) -> None:
    assert printed(text) == tuple(found)


def test_each_program_printed_its_own() -> None:
    disk = Disk("Fix gate.lua.", gate_lua="x")
    disk.edit("gate.lua", "y")
    disk.run("gate.lua", out="closed")
    disk.run("x.lua", out="open")
    assert "printed open, but no run" in disk.lacks('gate.lua is fixed, gate.lua printed "open".')
    assert disk.lacks('gate.lua is fixed, x.lua printed "open".') == ""


def test_what_the_task_wants_printed() -> None:
    assert to_print("print 7 when the door is open") == ()
    assert to_print('prints "Fuel: N"') == ()
    assert to_print("change it so that 7 comes out") == ("7",)
    disk = Disk("Change sum.lua until it prints 7.", sum_lua="x")
    disk.edit("sum.lua", "y")
    disk.run("sum.lua", out="17")
    assert "asks that 7 is printed" in disk.lacks("Done.")
    disk.run("sum.lua", out="7")
    assert disk.lacks("Done.") == ""


# -- other ends of a change -----------------------------------------------------------------


def test_comments_alone_repair_nothing() -> None:
    disk = Disk("Fix farm.lua.", farm_lua="x")
    disk.edit("farm.lua", "-- fixed", only_comments=True)
    disk.run("farm.lua")
    assert "farm.lua was not changed" in disk.lacks("Fixed farm.lua.")
    disk.edit("farm.lua", "y")
    disk.run("farm.lua")
    assert disk.lacks("Fixed farm.lua.") == ""
    comments = Disk("Change farm.lua: add a comment at the top.", farm_lua="x")
    comments.edit("farm.lua", "-- it farms", only_comments=True)
    assert comments.lacks("There is a comment now.") == ""


@pytest.mark.parametrize(
    ("diff", "only"),
    [
        (None, False),
        ("", False),
        ("--- a\n+++ b\n@@ -1 +1,2 @@\n+-- fast\n print(1)\n", True),
        ("--- a\n+++ b\n@@ -1 +1 @@\n-print(1)\n+  print(1) -- one\n", True),
        ("--- a\n+++ b\n@@ -1 +1 @@\n-print('a--b')\n+print('a--c')\n", False),
        ("--- a\n+++ b\n@@ -1 +1 @@\n-print(1)\n+print(2)\n", False),
        ("--- a\n+++ b\n@@ -1 +1,2 @@\n+-- fast\n x = [[\n", False),
    ],
)
def test_only_comments(diff: str | None, only: bool) -> None:
    assert only_comments(diff) is only


def test_folders_and_files_that_have_to_be_there_or_gone() -> None:
    assert "delete old" in told("delete the folder old")
    assert "make notes.txt" in told("Write init.lua, at the end notes.txt must exist too.")


def test_what_is_only_made_sure_of_may_be_shown_by_a_run() -> None:
    disk = Disk("Make sure greet.lua prints hi.", greet_lua="x")
    disk.read("greet.lua")
    assert "nothing was changed or run" in disk.lacks("It does.")
    disk.write("other.lua")
    assert "greet.lua was not changed" in disk.lacks("It does.")
    disk.run("greet.lua", out="hi")
    assert disk.lacks("It does.") == ""


@pytest.mark.parametrize(
    ("prompt", "targets"),
    [
        ("Leg startup.lua an, die menu.lua startet.", "make startup.lua"),
        ("leg eine startup.lua an die beim hochfahren menu.lua startet", "make startup.lua"),
        ("create list.txt with a.lua and b.lua", "make list.txt"),
        ("test it without data.txt", ""),
    ],
)
def test_files_that_are_only_named(prompt: str, targets: str) -> None:
    assert told(prompt) == targets


def told(prompt: str) -> str:
    """The targets of a task as words."""
    return ", ".join(f"{one.deed.value} {' or '.join(one.names)}" for one in wanted(prompt).targets)


# -- lists, quotations and numbers ----------------------------------------------------------


def test_a_list_of_files_is_done_as_a_whole() -> None:
    prompt = "Tidy up please: holz.lua, stein.lua and erz.lua belong into the folder abbau."
    disk = Disk(prompt, holz_lua="x", stein_lua="x", erz_lua="x")
    for name in ("holz.lua", "stein.lua"):
        disk.move(name, f"abbau/{name}")
    assert "erz.lua was neither changed nor run" in disk.lacks("All of them are there.")
    disk.move("erz.lua", "abbau/erz.lua")
    assert disk.lacks("All of them are there.") == ""


def test_a_list_of_the_final() -> None:
    disk = Disk("I need a lamp program.")
    disk.write("lamp.lua")
    assert "readme.txt was neither changed" in disk.lacks("Files:\n1. lamp.lua\n2. readme.txt (what to do)")
    assert disk.lacks("Files:\n1. lamp.lua") == ""


def test_both_files() -> None:
    disk = Disk("debug.log in the root and old/cache.txt annoy me. Get rid of both.", debug_log="x")
    disk.delete("debug.log")
    assert "old/cache.txt was neither changed" in disk.lacks("Both are gone.")


def test_a_quotation_has_to_be_written_or_printed() -> None:
    disk = Disk('Write gate.lua that says "Welcome home, Steve".')
    disk.write("gate.lua", 'print("Go away")')
    assert "Welcome home, Steve was neither written nor printed" in disk.lacks("gate.lua is written.")
    disk.write("gate.lua", 'print("Welcome home, Steve")')
    assert disk.lacks("gate.lua is written.") == ""


@pytest.mark.parametrize(
    "prompt",
    [
        "Fix gate.lua, it says 'attempt to index nil'.",
        "Replace 'Kiste' by 'gate' in gate.lua.",
        "Why does gate.lua stop with 'attempt to call nil'? Fix gate.lua.",
    ],
)
def test_a_quotation_of_what_is_now_is_no_order(prompt: str) -> None:
    disk = Disk(prompt, gate_lua="x")
    disk.edit("gate.lua", 'print("gate")')
    assert disk.lacks("gate.lua is changed.") == ""


def test_figures_and_blocks_of_the_final_stand_somewhere() -> None:
    disk = Disk("Write square.lua and try it.")
    disk.write("square.lua", "print(n + n)")
    disk.run("square.lua", out="18")
    assert disk.lacks("I ran it and got 18.") == ""
    assert "You say 81" in disk.lacks("I ran square.lua, it came to 81.")
    assert disk.lacks("I ran square.lua, it takes about 81 of them.") == ""
    assert "You show the line 81" in disk.lacks("Done:\n```\n18\n81\n```")
    assert disk.lacks("Done:\n```\n18\n18\n```") == ""


def test_what_is_said_to_be_so_already_was_seen() -> None:
    disk = Disk("Set mode=auto in well.cfg if it is not so already.", well_cfg="mode=manual")
    disk.read("well.cfg")
    assert "You say mode=auto" in disk.lacks("It was mode=auto already.")
    disk.files["well.cfg"] = "mode=auto"
    disk.read("well.cfg")
    assert disk.lacks("It was mode=auto already.") == ""


def test_where_a_part_is_not_known_nothing_is_compared() -> None:
    disk = Disk('Write gate.lua that says "Welcome".')
    disk.write("gate.lua", 'print("Go")')
    disk.run("gate.lua", out="[... 5 lines left out]")
    assert disk.lacks("gate.lua is written.") == ""
    moved = Disk('Write gate.lua that says "Welcome".', a_lua="x")
    moved.move("a.lua", "gate.lua")
    assert moved.lacks("gate.lua is there.") == ""


# -- what is not to run, and where ----------------------------------------------------------


def test_a_program_that_is_not_to_run() -> None:
    disk = Disk("Change the text of bomb.lua, but do not run it.", bomb_lua="x")
    disk.edit("bomb.lua", "y")
    assert disk.lacks("Changed.") == ""
    disk.run("bomb.lua")
    assert "the task says not to" in disk.lacks("Changed.")


def test_a_run_is_not_denied() -> None:
    disk = Disk("Change the text of bomb.lua.", bomb_lua="x")
    disk.edit("bomb.lua", "y")
    disk.run("bomb.lua")
    assert "did not run bomb.lua, but you did" in disk.lacks("Changed. I did not run bomb.lua.")
    disk.edit("bomb.lua", "z")
    assert disk.lacks("Changed. I did not run bomb.lua again.") == ""


def test_something_has_to_run_on_each_computer_that_is_named() -> None:
    disk = Disk("Run quarry 3 on south.")
    disk.run("quarry.lua", on="north", args=["3"])
    assert "Nothing was run on south" in disk.lacks("Done.", computers=BOTH)
    open_task = Disk("Get the quarry going.")
    open_task.run("quarry.lua", on="north")
    assert "ran on south, but nothing was run there" in open_task.lacks("I started it on south.", computers=BOTH)


def test_a_change_is_claimed_on_a_computer_without_a_file() -> None:
    disk = Disk("Set channel=12 in net.cfg on north.", net_cfg="channel=3")
    disk.edit("net.cfg", "channel=12", on="north")
    assert disk.lacks("It is set.", computers=BOTH) == ""
    assert "nothing was changed there" in disk.lacks("It is set. I also changed it on south.", computers=BOTH)


def test_what_was_moved_between_computers_is_gone_there() -> None:
    disk = Disk("Bring oven.lua from north to south, it should no longer be on north.", oven_lua="x")
    disk.write("oven.lua", on="south")
    assert "oven.lua is not gone" in disk.lacks("It is there.", computers=BOTH)


def test_a_change_on_each_computer_of_a_list() -> None:
    disk = Disk("Set channel=5 in net.cfg on north and south.", net_cfg="channel=1")
    disk.edit("net.cfg", "channel=5", on="north")
    assert "net.cfg was not changed" in disk.lacks("Done.", computers=BOTH)
    disk.edit("net.cfg", "channel=5 ", on="south")
    assert disk.lacks("Done.", computers=BOTH) == ""


def test_arguments_behind_the_name_of_a_program() -> None:
    disk = Disk("Add the mode off to light.lua and try it.", light_lua="x")
    disk.edit("light.lua", "y")
    disk.step(
        "cc_shell", command="light on", text="Program light.lua executed successfully.\nOutput:\non",
        ran=disk.ran("light.lua"), before={"light.lua": "a" * 64},
    )  # fmt: skip
    assert "No run got off" in disk.lacks("I also tested `light off`, it is fine.")
    assert disk.lacks("I tested `light on`, it is fine.") == ""


def test_a_check_needs_a_run_where_a_program_was_changed() -> None:
    disk = Disk("Set speed in belt.cfg to 8 and check that it is there.", belt_cfg="3")
    disk.edit("belt.cfg", "8")
    assert disk.lacks("It is there.") == ""
    program = Disk("Change belt.lua and check that it says 8.", belt_lua="3")
    program.edit("belt.lua", "8")
    assert "The task asks for a check" in program.lacks("It is changed.")


# -- nothing else ---------------------------------------------------------------------------


def test_nothing_else_is_changed() -> None:
    disk = Disk("Add a comment with my name to snake.lua. Otherwise change nothing.", snake_lua="x", a_lua="x")
    disk.edit("snake.lua", "-- Jonas", only_comments=True)
    assert disk.lacks("There is a comment.") == ""
    disk.write("new.lua")
    assert disk.lacks("There is a comment.") == ""
    disk.edit("snake.lua", "y")
    assert "snake.lua was changed in more than the task wants" in disk.lacks("There is a comment.")
    other = Disk("Set speed in belt.cfg to 8, change nothing else.", belt_cfg="3", a_cfg="x")
    other.edit("belt.cfg", "8")
    assert other.lacks("It is 8.") == ""
    other.edit("a.cfg", "8")
    assert "a.cfg was changed in more" in other.lacks("It is 8.")


def test_a_question_beside_a_story_is_a_question() -> None:
    disk = Disk("I found it on a disk. What is secret.lua for? My friend would not tell.", secret_lua="x")
    disk.read("secret.lua")
    assert disk.lacks("It opens the door.") == ""


def test_questions_of_knowledge_beside_a_story() -> None:
    disk = Disk("Comment on arrête un programme qui tourne sans fin ? Mes élèves demandent ça.")
    assert disk.answers("En maintenant Ctrl+T.")
    assert not disk.answers("En maintenant Ctrl+T. J'ai aussi ajouté une touche q.")


def test_what_is_said_of_the_next_file_is_left_open() -> None:
    disk = Disk("Tidy up.", c_txt="x")
    disk.delete("c.txt")
    disk.write("d.txt")
    assert disk.lacks("c.txt is deleted, d.txt says hi.") == ""


def test_an_article_behind_a_comma_begins_no_relative_clause() -> None:
    disk = Disk("Ändere den Gruß in hallo.lua.", hallo_lua="x")
    disk.edit("hallo.lua", "y")
    claim = "Der Gruß ist geändert, die jetzige Fassung von hallo.lua ist getestet."
    assert "hallo.lua was not run" in disk.lacks(claim)


def test_a_question_about_a_file_is_no_knowledge() -> None:
    assert not Disk("How does the parallel API work in a.lua?").answers("It runs functions.")


@pytest.mark.parametrize("starter", ["rom/programs/bg.lua", "rom/programs/shell.lua", "start.lua"])
def test_another_program_that_ran_it_into_an_error_is_no_good_run(starter: str) -> None:
    disk = Disk("Write lamp.lua and run it.")
    disk.write("lamp.lua")
    disk.run(starter, out="lamp.lua:2: no", command="x lamp.lua")
    assert "lamp.lua ended with an error when another program ran it" in disk.lacks("I ran lamp.lua, it works.")


def test_what_was_only_started_did_not_run_to_its_end() -> None:
    disk = Disk("Write lamp.lua and run it.")
    disk.write("lamp.lua")
    disk.run("rom/programs/bg.lua", command="bg lamp.lua")
    assert "lamp.lua was not run" in disk.lacks("I ran lamp.lua, it works.")
    disk.run("rom/programs/shell.lua", command="shell lamp.lua")
    assert disk.lacks("I ran lamp.lua, it works.") == ""


def test_a_copy_is_no_change_of_what_it_is_of() -> None:
    disk = Disk("Copy radio.cfg from north to south.", radio_cfg="x")
    disk.edit("radio.cfg", "y", on="north")
    assert "radio.cfg was not copied" in disk.lacks("It is copied.", computers=BOTH)


def test_a_question_after_which_something_works_now() -> None:
    disk = Disk("Why does pump.lua stop?", pump_lua="x")
    disk.write("pump.lua", "error()")
    disk.delete("pump.lua")
    disk.read("pump.lua")
    assert "You say that it works" in disk.lacks("pump.lua works now.")
    asked = Disk("Why does pump.lua stop?", pump_lua="x")
    asked.read("pump.lua")
    assert "You say that it works" in asked.lacks("pump.lua works now.")


@pytest.mark.parametrize("order", ["the rest stays as it is", "lo demás tiene que quedar igual", "leave the rest"])
def test_no_line_of_the_rest_is_lost(order: str) -> None:
    disk = Disk(f"Change the price of bread to 5 in prices.txt, {order}.", prices_txt="bread=3\nwood=1\n")
    disk.edit("prices.txt", "bread=5\nwood=1\n", lines=(1, 1))
    assert disk.lacks("Bread is 5.") == ""
    disk.edit("prices.txt", "bread=5\n", lines=(0, 1))
    assert "prices.txt was changed in more" in disk.lacks("Bread is 5.")
    shorter = Disk(f"Remove wood from prices.txt, {order}.", prices_txt="bread=3\nwood=1\n")
    shorter.edit("prices.txt", "bread=3\n", lines=(0, 1))
    assert shorter.lacks("Wood is gone.") == ""


def test_a_value_that_a_question_asks_for_was_seen() -> None:
    disk = Disk("What is the password in vault.lua?", vault_lua='local word = "anvil"')
    disk.read("vault.lua")
    assert "You quote dragon" in disk.lacks('The password in vault.lua is "dragon".')
    assert disk.lacks('The password in vault.lua is "anvil".') == ""


def test_pairs_of_the_final_stand_somewhere() -> None:
    disk = Disk("Set the heat in oven.cfg to 900 and the fuel to coal.", oven_cfg="heat=600\nfuel=wood")
    disk.read("oven.cfg")
    disk.edit("oven.cfg", "heat=900")
    assert "You say fuel=coal" in disk.lacks("oven.cfg has heat=900 and fuel=coal.")
    assert disk.lacks("oven.cfg has heat=900.") == ""


def test_a_file_that_must_no_longer_be_there() -> None:
    assert told("startup.lua must exist with what is in new.lua, and new.lua must not be there.") == (
        "make startup.lua, delete new.lua"
    )


def test_numbers_behind_output() -> None:
    assert {one.text for one in printed("I ran it. Output:\n2\n4\n10\n")} == {"2", "4", "10"}
    assert to_print("print the sum from 1 to 10") == ()


def test_floods_are_cut_before_they_are_read() -> None:
    assert readable("x" * 20_000) == "x" * 100
    assert readable("a" + " \n" * 5000 + "b \t c") == "a \n\nb c"
    assert len(prints('prints "a" ' * 1000)) == 1
    disk = Disk("Run it.", a_lua="x")
    disk.run("a.lua", out="1")
    assert disk.lacks("x" * 20_000) == ""


# -- what is left undone, and what nobody looked at ------------------------------------------


@pytest.mark.parametrize(
    "order",
    [
        "Careful, there is old.cfg too, don't touch that one.",
        "Da ist noch old.cfg, den bitte nicht anfassen.",
        "Il y a aussi old.cfg, n'y touche surtout pas.",
        "También está old.cfg, ese no lo toques.",
    ],
)
def test_what_was_named_last_stays(order: str) -> None:
    disk = Disk(f"The delay in belt.cfg must become 5. {order}", belt_cfg="delay=30", old_cfg="delay=30")
    disk.edit("belt.cfg", "delay=5")
    assert disk.lacks("The delay is 5 now.") == ""
    disk.edit("old.cfg", "delay=5")
    assert "the task says to leave it" in disk.lacks("The delay is 5 now.")


@pytest.mark.parametrize(
    "order",
    [
        "On both computers the channel in net.cfg must become 42.",
        "Auf north und south: der Kanal in net.cfg muss 42 werden.",
        "Le canal dans net.cfg doit devenir 42 sur les deux.",
        "El canal en net.cfg debe ser 42 en ambos ordenadores.",
    ],
)
def test_a_value_of_each_computer(order: str) -> None:
    disk = Disk(order, net_cfg="channel=10")
    disk.edit("net.cfg", "channel=42", on="north")
    assert "net.cfg was not changed" in disk.lacks("It is 42.", computers=BOTH)
    disk.files["net.cfg"] = "channel=10"
    disk.edit("net.cfg", "channel=42", on="south")
    assert disk.lacks("It is 42.", computers=BOTH) == ""


@pytest.mark.parametrize(
    "order",
    [
        "Delete old.lua on south (not on north!).",
        "Lösche old.lua auf south, nicht auf dem north.",
        "Supprime old.lua sur south (surtout pas sur le north).",
        "Borra old.lua en south, no en el north.",
    ],
)
def test_a_computer_that_is_not_meant(order: str) -> None:
    disk = Disk(order, old_lua="x")
    disk.step("cc_delete", before={"old.lua": "1"}, after={"old.lua": "absent"}, on="north", path="old.lua")
    assert "old.lua is not gone" in disk.lacks("It is deleted.", computers=BOTH)


def test_each_file_of_a_list_with_clauses_is_made() -> None:
    disk = Disk("Make three programs: hi.lua that prints hi, bye.lua that prints bye, and menu.lua which runs both.")
    disk.write("hi.lua")
    disk.write("menu.lua", 'shell.run("hi.lua") shell.run("bye.lua")')
    assert "bye.lua was not made" in disk.lacks("All three are there.")


def test_what_the_final_says_was_not_done() -> None:
    disk = Disk("Create bread.txt and cake.txt.")
    disk.write("bread.txt", "3 wheat")
    assert "cake.txt" in disk.lacks("Both are there.")
    assert disk.lacks("bread.txt is there. I did not create cake.txt, for the book has no cake.") == ""
    change = Disk("Replace iron by copper in a.txt, b.txt and c.txt.", a_txt="iron", b_txt="iron", c_txt="coal")
    change.read("c.txt")
    change.edit("a.txt", "copper")
    change.edit("b.txt", "copper")
    assert "c.txt was not changed" in change.lacks("All is copper.")
    assert change.lacks("a.txt and b.txt are changed. c.txt has no iron and is unchanged.") == ""


def test_a_file_that_was_made_for_a_time() -> None:
    disk = Disk("Add a line to lift.lua and test it.", lift_lua="x")
    disk.write("probe.lua")
    disk.delete("probe.lua")
    disk.edit("lift.lua", "y")
    disk.run("lift.lua")
    assert disk.lacks("I created probe.lua for the test; probe.lua has been deleted again.") == ""
    assert "probe.lua was not made" in disk.lacks("I created probe.lua.")


def test_a_write_that_was_refused_is_no_success() -> None:
    disk = Disk("Let lamp.lua blink and check it.", lamp_lua="x")
    disk.refused("cc_edit", path="lamp.lua", old="x", new="for")
    disk.run("lamp.lua")
    assert "lamp.lua was not written" in disk.lacks("It blinks. Tried, fine!")
    assert disk.lacks("The edit failed, lamp.lua is not changed.") == ""
    disk.edit("lamp.lua", "y")
    disk.run("lamp.lua")
    assert disk.lacks("It blinks. Tried, fine!") == ""


@pytest.mark.parametrize(
    ("final", "is_told"),
    [
        ("The limit is 64, and the change stands in notes.txt.", True),
        ("The limit is 64. You can note it in notes.txt.", False),
        ("The limit is 64. notes.txt still says 32.", False),
        ("The limit is 64. Next step: notes.txt.", False),
        ("The limit is 64. notes.txt is unchanged.", False),
        ("The limit is 64, chest.cfg has it.", False),
    ],
)
def test_a_file_that_no_step_touched(final: str, is_told: bool) -> None:
    disk = Disk("Raise the limit in chest.cfg to 64.", chest_cfg="limit=32")
    disk.edit("chest.cfg", "limit=64")
    assert ("no step looked at it" in disk.lacks(final)) is is_told


@pytest.mark.parametrize(
    "final",
    [
        "I took the chance to update notes.txt.",
        "Ich habe die Gelegenheit genutzt, um notes.txt zu ändern.",
        "J'en ai profité pour mettre à jour notes.txt.",
        "He aprovechado para actualizar notes.txt.",
    ],
)
def test_a_change_that_was_a_chance(final: str) -> None:
    disk = Disk("Set the width in tunnel.lua to 9.", tunnel_lua="w = 3", notes_txt="3")
    disk.edit("tunnel.lua", "w = 9")
    assert "notes.txt was not changed" in disk.lacks(final)


def test_to_touch_nothing_before_a_copy_is_no_order_to_touch_nothing() -> None:
    disk = Disk("Before touching anything copy pay.lua to pay.bak, then set the pay to 1500.", pay_lua="1200")
    disk.write("pay.bak", "1200")
    disk.edit("pay.lua", "1500")
    assert disk.lacks("Copied and set to 1500.") == ""


def test_tests_that_read_a_program_run_it() -> None:
    disk = Disk("Run the tests (tests.lua) and mend sum.lua. Don't change the tests.", sum_lua="x")
    disk.files["tests.lua"] = 'load(fs.open("sum.lua", "r").readAll())()'
    disk.read("tests.lua")
    disk.run("tests.lua", "error")
    disk.edit("sum.lua", "y")
    assert "tests.lua did not run to a good end" in disk.lacks("sum.lua is corrected, all tests pass.")
    disk.run("tests.lua")
    assert disk.lacks("sum.lua is corrected, all tests pass.") == ""


def test_a_line_of_a_file_is_no_run() -> None:
    disk = Disk("Which channel does net.lua use?", net_lua="local channel = 42")
    disk.read("net.lua")
    assert disk.lacks("Channel 42. First line: `local channel = 42`.") == ""


@pytest.mark.parametrize(
    "order",
    [
        "Make a.lua that tells a joke and b.lua that asks a riddle.",
        "Fais a.lua qui dit une blague et aussi b.lua qui pose une devinette.",
    ],
)
def test_each_file_with_a_clause_is_made(order: str) -> None:
    disk = Disk(order)
    disk.write("a.lua")
    disk.write("b.lua")
    disk.delete("b.lua")
    assert "b.lua was not made" in disk.lacks("Both wait for you.")


def test_computers_with_their_noun_are_a_list() -> None:
    disk = Disk("On computer north and computer south change the channel in net.cfg to 15.", net_cfg="3")
    disk.edit("net.cfg", "15", on="north")
    assert "net.cfg was not changed" in disk.lacks("It is 15.", computers=BOTH)


def test_a_comma_ends_a_verb_at_the_end() -> None:
    assert told("alt.txt dort hin verschieben, und ein Programm zeige.lua, dann testen") == "delete alt.txt"


def test_an_output_as_an_indented_block() -> None:
    assert [one.text for one in printed(readable("Beim Starten kam heraus:\n\n    12 Euro\n"))] == ["12 Euro"]
    assert printed("Output:\n - hello.lua\n - bye.lua") == ()


def test_each_file_of_words_that_leave_open_what_becomes_of_it() -> None:
    disk = Disk("I'm after a door.lua that greets, and beside it a docs/door.md on what it is for.")
    disk.write("door.lua")
    assert "no step touched or looked at docs/door.md" in disk.lacks("Both are in place.")
    assert disk.lacks("door.lua greets. I did not write docs/door.md.") == ""
    disk.write("docs/door.md", "a door")
    assert disk.lacks("Both are in place.") == ""


def test_each_computer_of_a_list_has_something_done() -> None:
    disk = Disk("version.txt on computer north and also the one on computer south ought to read 2.1.", version_txt="2")
    disk.edit("version.txt", "2.1", on="north")
    assert "nothing was changed or run on south" in disk.lacks("Both carry 2.1.", computers=BOTH)
    disk.files["version.txt"] = "2"
    disk.edit("version.txt", "2.1", on="south")
    assert disk.lacks("Both carry 2.1.", computers=BOTH) == ""


def test_a_file_that_no_longer_lies_around() -> None:
    disk = Disk("Tuck old.lua away under archive/, it shouldn't clutter the root any more.", old_lua="x")
    disk.write("archive/old.lua", "x")
    assert "old.lua is not gone" in disk.lacks("Tidied up.")
    disk.delete("old.lua")
    assert disk.lacks("Tidied up.") == ""


def test_no_error_is_the_claim_of_a_run() -> None:
    disk = Disk("Swap the text of guard.lua for calm.", guard_lua="nada")
    disk.edit("guard.lua", "calm")
    assert "guard.lua was not run" in disk.lacks("It repeated the text without errors.")
    disk.run("guard.lua", "observed")
    assert disk.lacks("It repeated the text without errors.") == ""


@pytest.mark.parametrize(
    ("final", "claims_run"),
    [
        ("I kept an eye on it for 5 seconds.", True),
        ("I gave it a whirl.", True),
        ("Fired up guard.lua once.", True),
        ("Lo dejé andar unos segundos.", True),
        ("I added a pause of 5 seconds.", False),
        ("I started neither of them.", False),
        ("Gestartet habe ich keine davon.", False),
        ("I did not start it, so whether it works is open.", False),
    ],
)
def test_other_words_for_a_run(final: str, claims_run: bool) -> None:
    disk = Disk("Swap the text of guard.lua for calm.", guard_lua="nada")
    disk.edit("guard.lua", "calm")
    assert ("was not run" in disk.lacks(final)) is claims_run


def test_a_line_of_a_file_stands_somewhere() -> None:
    disk = Disk("The texts of in.lua and out.lua shall be French.", in_lua="welcome", out_lua="goodbye")
    disk.read("in.lua")
    disk.read("out.lua")
    disk.edit("in.lua", "bienvenue")
    assert "au revoir of out.lua" in disk.lacks('Done:\n- in.lua: "bienvenue"\n- out.lua: "au revoir"')
    disk.edit("out.lua", "au revoir")
    assert disk.lacks('Done:\n- in.lua: "bienvenue"\n- out.lua: "au revoir"') == ""


def test_what_is_said_to_be_so_already_was_looked_at() -> None:
    disk = Disk("Set the language in game.cfg to es.", game_cfg="en", menu_cfg="en")
    disk.read("menu.cfg")
    disk.edit("menu.cfg", "es")
    assert "game.cfg was not changed" in disk.lacks("It is so already in game.cfg.")
    disk.read("game.cfg")
    assert disk.lacks("It is so already in game.cfg.") == ""


@pytest.mark.parametrize("final", ["I also deleted trace.lua because nothing used it.", "I made main.lua.bak too."])
def test_a_reason_or_a_second_ending_denies_nothing(final: str) -> None:
    disk = Disk("Take the debug print out of main.lua.", main_lua="x", trace_lua="y")
    disk.edit("main.lua", "y")
    assert "You say that you did" in disk.lacks(final)


def test_a_line_that_goes_is_no_file_that_goes() -> None:
    disk = Disk("Bitte die doppelte Leerzeile in zaun.lua entfernen.", zaun_lua="x")
    disk.edit("zaun.lua", "y", only_comments=True)
    assert disk.lacks("Die Leerzeilen sind raus.") == ""


def test_what_was_made_for_a_question() -> None:
    disk = Disk("I would love a sum.lua that adds 1 to 10. What comes out?")
    disk.write("sum.lua")
    disk.run("sum.lua", out="Sum = 55")
    assert disk.lacks('It ran and printed "Sum = 55".') == ""


def test_a_list_in_the_final_may_name_what_was_only_listed() -> None:
    disk = Disk("Move draft.txt into old.", draft_txt="x")
    disk.move("draft.txt", "old/draft.txt")
    disk.step("cc_list", text="a.txt draft.txt", path="old")
    assert disk.lacks("old has a.txt and draft.txt now.") == ""


def test_what_was_read_in_a_short_text_is_remembered_and_no_long_text_is_kept() -> None:
    read: list[str] = []

    @remembered
    def length(text: str) -> int:
        read.append(text)
        return len(text)

    short, long = "a" * MAX_SENTENCE, "a" * (MAX_SENTENCE + 1)
    assert [length(text) for text in (short, short, long, long)] == [2000, 2000, 2001, 2001]
    assert read == [short, long, long]
