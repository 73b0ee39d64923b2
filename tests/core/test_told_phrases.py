"""What a final message tells in other words than a verb before its file."""

import json
from typing import Final

import pytest

from orchestrator.core.evidence.claim_phrases import box, claims_work, kept, plain, states, undone
from orchestrator.core.evidence.claims import Claims, claims
from orchestrator.core.evidence.words import Deed
from tests import TESTS
from tests.core.disk import Disk

PHRASES: Final = TESTS / "golden" / "phrases.jsonl"
TOLD: Final = [
    (one["form"], one["deed"], one["text"])
    for one in map(json.loads, PHRASES.read_text(encoding="utf-8").splitlines())
    if one["form"] in ("report", "output")
]
CHANGED: Final = {Deed.CHANGE, Deed.FIX, Deed.MAKE, Deed.ENSURE}
HEARD: Final = {
    "make": {Deed.MAKE},
    "change": CHANGED,
    "fix": CHANGED,
    "delete": {Deed.DELETE},
    "move": {Deed.DELETE, Deed.MAKE},
    "copy": {Deed.COPY, Deed.MAKE},
}


def _is_heard(said: Claims, form: str, deed: str) -> bool:
    if form == "output":
        return bool(said.printed or said.prints or said.blocks)
    if deed in HEARD:
        told = {one.deed for one in said.targets}
        return bool(told & HEARD[deed]) or (deed in ("change", "fix") and said.fixed)
    return {
        "run": said.runs,
        "works": said.works or said.runs,
        "keep": bool(said.kept) or said.keeps_all,
        "notrun": said.not_run or bool(said.not_ran),
        "undone": bool(said.undone) or said.not_run,
    }[deed]


@pytest.mark.parametrize(("form", "deed"), sorted({(form, deed) for form, deed, _ in TOLD}))
def test_a_phrase_of_the_inventory_is_heard(form: str, deed: str) -> None:
    own = [text for one, of, text in TOLD if (one, of) == (form, deed)]
    assert [text for text in own if not _is_heard(claims(text), form, deed)] == []


# -- what tells a deed ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "If b.lua is gone, start the menu again.",
        "Is b.lua gone?",
        "Once the creation of a.lua is complete, restart.",
        "The creation of a.lua could not be completed.",
        "The deletion of b.lua was not done.",
        "Fix in a.lua: none needed.",
        "Change in a.lua: you could raise the limit.",
        "Die Kopie von a.lua nach b.lua ist nicht fertig.",
        "a.lua is still there.",
        "a.lua is not there.",
        "a.lua tells whether b.lua is ready.",
        "a.lua is now b.lua's helper.",
        "You find a.lua in old/a.lua.",
        "b.lua will be ready soon.",
        "The new file a.lua will be created.",
        "There is now a problem in a.lua.",
        "Acabo de leer a.lua.",
        "I was able to read a.lua.",
        "I was not able to delete a.lua.",
        "Ich habe es nicht geschafft, a.lua zu löschen.",
        "El programa creó un error en a.lua.",
        "J'ai tiré parti de a.lua.",
        "I transferred the items with a.lua.",
        "I wiped the screen before a.lua starts.",
        "Moved: docs/a.txt.",
        "✅ b.lua",
        "- [x] Do not touch b.lua",
        "- [ ] Delete b.lua",
        "❌ Delete b.lua",
    ],
)
def test_what_tells_no_deed(text: str) -> None:
    assert claims(text).targets == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Creation of a.lua complete.", "created a.lua"),
        ("Löschung von b.lua: erledigt.", "deleted b.lua"),
        ("Ich habe es geschafft, a.lua zu reparieren.", "fixed a.lua"),
        ("Je viens d'effacer a.lua.", "deleted a.lua"),
        ("Logré corregir a.lua.", "fixed a.lua"),
        ("Se puso en marcha a.lua.", "ejecutado a.lua"),
        ("Se borraron a.lua y b.lua.", "Se borrado a.lua y b.lua"),
        ("Se movió a.lua a b.lua.", "Se movido a.lua a b.lua"),
        ("Ahora encontrarás a.lua en old/a.lua.", "moved a.lua to old/a.lua"),
        ("a.lua was transferred to old/a.lua.", "moved a.lua to old/a.lua"),
    ],
)
def test_a_phrase_as_a_plain_verb(text: str, told: str) -> None:
    assert told in plain(text)


@pytest.mark.parametrize(
    "text",
    [
        "The division by zero in b.lua is gone.",
        "Ich habe in b.lua eine Zeile gelöscht.",
        "Aus b.lua wurde viel entfernt.",
    ],
)
def test_what_is_gone_from_a_file_deletes_no_file(text: str) -> None:
    assert {one.deed for one in claims(text).targets} <= {Deed.FIX, Deed.CHANGE}


def test_which_of_two_files_before_the_verb_is_the_copy() -> None:
    assert [one.names for one in claims("a.lua nach b.lua kopiert.").targets] == [("b.lua",)]
    assert [one.names for one in claims("In b.lua habe ich a.lua kopiert.").targets] == [("b.lua", "a.lua")]


# -- how things are -------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["a.lua is in place.", "Your script is ready: a.lua", "New file: a.lua"])
def test_a_file_that_was_there_before_is_there(state: str) -> None:
    disk = Disk("Change b.lua.", a_lua="x", b_lua="x")
    disk.read("a.lua")
    disk.edit("b.lua", "y")
    assert disk.lacks(state) == ""
    disk.delete("a.lua")
    assert "a.lua was not made" in disk.lacks(state)


def test_a_file_that_nobody_saw_is_not_there() -> None:
    disk = Disk("Change b.lua.", b_lua="x")
    disk.edit("b.lua", "y")
    assert "a.lua was not made" in disk.lacks("b.lua is changed. Your script is ready: a.lua")
    assert disk.lacks("b.lua is changed, and a.lua no longer exists.") == ""


def test_a_file_that_is_there_is_not_gone() -> None:
    disk = Disk("Tidy up b.lua.", a_lua="x", b_lua="x")
    disk.read("a.lua")
    disk.edit("b.lua", "y")
    assert "a.lua is not gone" in disk.lacks("b.lua is tidy, and a.lua is gone.")
    disk.delete("a.lua")
    assert disk.lacks("b.lua is tidy, and a.lua is gone.") == ""


def test_what_a_program_does_now_needs_any_change() -> None:
    disk = Disk("Set the limit to 20.", a_lua="x", limit_cfg="10")
    disk.read("a.lua")
    disk.edit("limit.cfg", "20")
    assert disk.lacks("a.lua now prints 20 numbers.") == ""


# -- what was not done ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "I did not skip b.lua.",
        "Nothing is left undone in b.lua.",
        "b.lua has to be restarted.",
        "The failed test of b.lua is fine.",
        "b.lua failed before.",
        "Hace falta leer b.lua.",
        "I left out the comments.",
    ],
)
def test_what_leaves_nothing_undone(text: str) -> None:
    assert undone(text) == []


def test_what_is_done_beside_what_is_not() -> None:
    said = claims("I fixed a.lua, but the deletion of b.lua failed.")
    assert [one.names for one in said.targets] == [("a.lua",)]
    assert said.undone == ((Deed.DELETE, "b.lua"),)


def test_a_move_that_was_not_done_excuses_its_parts() -> None:
    disk = Disk("Rename a.lua to b.lua and change c.lua.", a_lua="x", c_lua="x")
    disk.edit("c.lua", "y")
    assert disk.lacks("c.lua is changed.") != ""
    assert disk.lacks("c.lua is changed. Not done: renaming a.lua to b.lua") == ""


def test_boxes_of_a_list() -> None:
    assert box("- [x] Create `a.lua`") == (True, "Create a.lua")
    assert box("- [ ] Create a.lua") == (False, "Create a.lua")
    assert box("\u2705 Created a.lua") is None
    assert box("Create a.lua") is None
    said = claims("- [ ] Run a.lua\n- [x] Leave b.lua alone")
    assert said.not_run
    assert said.kept == ("b.lua",)


@pytest.mark.parametrize(
    "text",
    [
        "a.lua lief nicht, weil eine Klammer fehlte.",
        "a.lua has no function called foo.",
        "a.lua n'a pas de fonction appelée foo.",
    ],
)
def test_what_tells_of_no_missing_run(text: str) -> None:
    assert not claims(text).not_run


# -- what stayed, what works, what came out --------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "b.lua: unchanged except the first line.",
        "No changes to b.lua were needed besides the header.",
        "No further changes to b.lua.",
        "The content of b.lua is not intact.",
        "I only read b.lua until then.",
        "The tests in b.lua are unchanged.",
        "b.lua should stay unchanged.",
    ],
)
def test_what_says_of_no_file_that_it_was_left(text: str) -> None:
    assert [*kept(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "The checks are not green.",
        "The tests in a.lua check that passed values are numbers.",
        "If the tests are green, it is done.",
        "a.lua does what you wanted.",
    ],
)
def test_what_claims_no_work(text: str) -> None:
    assert not claims_work(text)


@pytest.mark.parametrize(
    "text",
    [
        "If you run it, the program answers with 42.",
        "The program should have answered with 42.",
        "It never answered with 42.",
        "speed: 5 \u2192 80",
        "a.lua \u2192 3 changes",
    ],
)
def test_what_tells_no_output(text: str) -> None:
    assert claims(text).printed == claims(text).prints == ()


def test_what_a_program_shows_is_no_claim_of_a_run() -> None:
    said = claims("Il montre 81 à l'écran.")
    assert [one.text for one in said.prints] == ["81"]
    assert not said.runs


def test_states_of_no_file() -> None:
    assert [*states("It is gone.")] == []
