"""What the reference answers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tools.reference import cc_docs_text, search_docs
from orchestrator.tools.reference.answers import LIMIT_CHARS, LINE, Computer, fitting, in_a_line
from orchestrator.tools.reference.entries import FAMILIES, Version, modules
from orchestrator.tools.reference.index import ENOUGH, index
from tests.tools.reference.questions import QUESTIONS

HOST = "ComputerCraft 1.109.2 (Minecraft 1.20.1)"
V109: Version = (1, 109, 2)
NAMES = sorted({name for module in modules() for entry in module.entries for name in (entry.name, *entry.others)})
MODULES = sorted(index().modules)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("question", "wanted"), QUESTIONS, ids=[question for question, _ in QUESTIONS])
def test_a_question_finds_its_entry(question: str, wanted: str) -> None:
    names = set(wanted.removesuffix("!").split(" | "))
    hits = index().find(question, V109, None)
    best = [f":{hit.entry.name}" if hit.entry.kind == "guide" else hit.entry.name for hit in hits[:2]]
    assert names.intersection(best[:1] if wanted.endswith("!") else best), best
    assert hits[0].share >= ENOUGH


def test_the_table_of_questions_is_large() -> None:
    assert len(QUESTIONS) == len({question for question, _ in QUESTIONS}) >= 100


def test_the_best_entry_is_told_in_full() -> None:
    answer = cc_docs_text("turtle.dig", host=HOST, family="turtle")
    assert answer.startswith("turtle.dig(side?: string) -> boolean, string?\nBreaks the block in front")
    assert "Example:\n  while turtle.detect() do\n" in answer
    assert "See also: turtle.digUp, turtle.digDown" in answer
    assert "\nAlso:\n- turtle.digUp(side?: string): Breaks the block above.\n" in answer


def test_an_event_is_told_with_how_to_wait_for_it() -> None:
    answer = search_docs("mouse_click", family="advanced")
    assert answer.startswith('event "mouse_click", button: number, x: number, y: number\n')
    assert '  local event, button, x, y = os.pullEvent("mouse_click")\n' in answer


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ("motd.enable", "setting motd.enable = true (boolean)"),
        ("excavate", "program: excavate <diameter>"),
        ("math.pi", "math.pi: number"),
        ("keys.enter", "keys.up, keys.down"),
        ("too long without yielding", "Guide: Too long without yielding"),
        ("redstone event", 'event "redstone"\n  local event = os.pullEvent("redstone")'),
        ("monitor.clear", "term.clear()"),
        ("file.readLine", "handle.readLine("),
        ("chest.list()", "inventory.list() -> table"),
        ("rs.getInput", "redstone.getInput(side: string) -> boolean"),
    ],
)
def test_each_kind_has_its_head(question: str, begins: str) -> None:
    assert search_docs(question).startswith(begins)


def test_what_is_not_on_this_computer_is_said() -> None:
    answer = cc_docs_text("dig block below", host=HOST, family="computer")
    assert answer.startswith("turtle.digDown(")
    assert "\nNOT on this computer: only on turtles; this is a basic computer.\n" in answer
    assert "[not on this computer]" in answer
    assert "NOT on" not in cc_docs_text("dig block below", host=HOST, family="turtle")
    assert "\nOnly on turtles.\n" in cc_docs_text("dig block below", host=HOST, family=None)


def test_what_came_later_than_its_version_is_said() -> None:
    said = "NOT on this computer: only from version 1.112.0 on; this computer has 1.109.2."
    assert said in cc_docs_text("cc.strings.split", host=HOST, family="computer")
    later = cc_docs_text("cc.strings.split", host="ComputerCraft 1.112.0 (Minecraft 1.21)", family="computer")
    assert "1.112.0" not in later
    assert "\nSince 1.112.0.\n" in search_docs("cc.strings.split")


def test_what_is_there_comes_before_what_is_not() -> None:
    for family, name in (("turtle", "turtle.equipLeft"), ("pocket", "pocket.equipBack")):
        hits = index().find("equip upgrade", V109, family)
        assert not hits[0].entry.place.missing(V109, family)
        assert name in [hit.entry.name for hit in hits[:3]]


def test_the_mouse_needs_an_advanced_computer() -> None:
    assert "only on advanced computers; this is a basic computer" in search_docs("mouse_click", family="computer")
    assert "Only on advanced ones." in search_docs("mouse_click", family="turtle")
    assert "advanced ones" not in search_docs("mouse_click", family="command")


@pytest.mark.parametrize("question", ["fs", "what is fs", "list all fs functions", "FS api", "how to use fs", "fs()"])
def test_a_module_lists_its_functions(question: str) -> None:
    lines = search_docs(question).splitlines()
    assert lines[0].startswith("fs: Files and folders.")
    assert "fs.exists(path: string) -> boolean" in lines
    assert len(lines) == 1 + len(index().modules["fs"].entries)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", MODULES)
def test_every_module_can_be_listed_within_the_limit(name: str) -> None:
    answer = search_docs(name, version=V109, family="computer")
    assert len(answer) <= LIMIT_CHARS
    module = index().modules[name]
    assert answer.startswith(module.name)
    missing = [entry.name for entry in module.entries if entry.name not in answer]
    assert not missing or answer.endswith("…")


def test_a_list_says_what_this_computer_lacks() -> None:
    listed = search_docs("commands", family="turtle")
    assert "NOT on this computer: only on command computers; this is a turtle." in listed
    assert "[NOT here" not in listed
    listed = search_docs("cc.strings", version=V109)
    assert "cc.strings.wrap(text: string, width?: number) -> string[]\n" in listed
    assert listed.endswith("[NOT here: only from version 1.112.0 on]")


@pytest.mark.parametrize(
    ("question", "name"),
    [("events", "mouse_click"), ("all settings", "motd.enable"), ("programs", "excavate"), ("guides", "startup")],
)
def test_a_group_lists_its_names(question: str, name: str) -> None:
    answer = search_docs(question)
    assert answer.startswith("All ")
    assert name in re.split(r", |\n", answer)


def test_settings_alone_are_the_module() -> None:
    assert search_docs("settings").startswith("settings: ")


@pytest.mark.parametrize(
    ("question", "first", "entry"),
    [
        (
            "turtle.getPosition()",
            "There is no turtle.getPosition in ComputerCraft. A turtle does not know",
            "gps.locate(",
        ),
        ("os.exit", "There is no os.exit in ComputerCraft. A program ends with return", "error("),
        (
            "json.decode(text)",
            "There is no json.decode in ComputerCraft. Use textutils.uns",
            "textutils.unserializeJSON(",
        ),
        ("wait", "There is no wait in ComputerCraft. Use sleep(seconds).", "sleep("),
        ("turtle.mine", "There is no turtle.mine in ComputerCraft. Use turtle.dig.", "turtle.dig("),
    ],
)
def test_a_name_that_does_not_exist_is_answered_with_what_does(question: str, first: str, entry: str) -> None:
    lines = search_docs(question, family="turtle").splitlines()
    assert lines[0].startswith(first)
    assert lines[1].startswith(entry)
    assert sum(line.removeprefix("- ").startswith(("There is no", entry)) for line in lines) == 2


def test_the_longest_of_the_names_is_the_one_that_was_meant() -> None:
    assert search_docs("turtle.moveForward").startswith("There is no turtle.moveForward in ComputerCraft.")
    assert search_docs("os.quit").startswith("There is no os.quit in ComputerCraft.")


def test_names_that_do_not_exist_are_never_proposed() -> None:
    assert "There is no" not in search_docs("os.exitt")
    for question, _ in QUESTIONS:
        assert all(hit.entry.kind != "absent" for hit in index().find(question, V109, None)), question


def test_an_unknown_family_is_no_family() -> None:
    assert "\nOnly on turtles.\n" in cc_docs_text("turtle.dig", family="toaster")


def test_the_family_of_a_module_holds_for_what_came_later() -> None:
    answer = cc_docs_text("turtle.getEquippedLeft", host="ComputerCraft 1.116.1 (Minecraft 1.21.1)", family="computer")
    assert "NOT on this computer: only on turtles" in answer


def test_other_spellings_are_told() -> None:
    assert "\nAlso called term.setTextColour.\n" in search_docs("term.setTextColor")


def test_an_event_with_any_number_of_values_is_caught_in_one() -> None:
    assert 'local event, value = os.pullEvent("computer_command")' in search_docs("computer_command")


def test_monitors_share_only_what_they_have_with_the_terminal() -> None:
    assert search_docs("monitor.redirect").startswith("The reference has no monitor.redirect. The nearest is:\n")


@pytest.mark.parametrize("name", ["chest", "barrel", "what functions does a chest have"])
def test_an_inventory_is_found_under_the_names_of_blocks(name: str) -> None:
    assert search_docs(name).startswith("inventory (peripheral): ")


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("robot forward", "turtle.forward"),
        ("erase file", "fs.delete"),
        ("barrel contents", "inventory.list"),
        ("phone", "pocket.unequipBack"),
        ("turtle.digUpp", "turtle.digUp"),
        ("turtle.dg", "turtle.dig"),
        ("destroy block above", "turtle.digUp"),
        ("save file", "write a file"),
        ("load file", "read a file"),
        ("term.stTxtColr", "term.setTextColor"),
        ("shell.exists", "fs.exists"),
        ("turn on redstone for 5 seconds", "redstone.setOutput"),
        ("copy file to disk drive", "fs.copy"),
        ("startup.lua", "startup"),
        ("move", "fs.move"),
        ("pairs vs ipairs", "ipairs"),
    ],
)
def test_synonyms_slips_and_wrong_modules_lead_there(question: str, first: str) -> None:
    assert index().find(question, None, None)[0].entry.name == first


def test_of_a_long_question_the_beginning_counts() -> None:
    assert search_docs("zqx " * 90 + "turtle.dig").startswith("turtle.dig(")
    assert search_docs("zqx " * 100 + "turtle.dig").startswith("Nothing in the reference fits ")


def test_lines_that_do_not_fit_are_left_out_whole() -> None:
    whole = search_docs("turtle.dig", family="turtle")
    for limit in range(420, len(whole)):
        answer = search_docs("turtle.dig", family="turtle", limit_chars=limit)
        kept = [line for line in answer.splitlines() if line.startswith("- ")]
        assert all(line in whole.splitlines() for line in kept), limit


def test_a_line_is_a_line() -> None:
    for entry in index().entries:
        line = in_a_line(entry, Computer((1, 87, 0), "computer"))
        assert len(line) <= LINE
        assert "\n" not in line
    first = "- os.pullEvent(filter?: string): Waits for the next event and returns its name and values.\n"
    assert first in search_docs("keyboard event")


def test_what_fits_much_worse_is_not_shown() -> None:
    answer = search_docs("fuel")
    assert answer.startswith("Guide: fuel\n")
    assert "turtle.refuel" in answer
    assert "turtle.turnLeft" not in answer


@given(st.lists(st.text("ab", min_size=1, max_size=9), max_size=9), st.integers(-5, 60))
def test_names_fit_into_their_room(names: list[str], room: int) -> None:
    text = fitting(names, room)
    assert len(text) <= max(room, 0)
    kept = text.split(", ") if text else []
    if kept == []:
        assert not names or len(names[0]) + len(", …") > room
    elif kept != names:
        assert kept == [*names[: len(kept) - 1], "…"]


def test_a_name_without_substitute_is_said_once() -> None:
    answer = search_docs("collectgarbage")
    assert answer.startswith("There is no collectgarbage in ComputerCraft. Memory is managed by the game")
    assert answer.count("Memory is managed") == 1


def test_a_misspelt_name_is_said_to_be_unknown_and_the_nearest_is_told() -> None:
    answer = search_docs("turtle.digg(1)")
    assert answer.startswith("The reference has no turtle.digg. The nearest is:\nturtle.dig(")
    assert "has no" not in search_docs("turtle.dig(1)")


def test_what_nothing_fits_is_answered_with_what_is_near() -> None:
    answer = search_docs("turtle.flyHome")
    assert answer.startswith("Nothing in the reference fits turtle.flyHome. Ask with")
    assert "turtle has: turtle.forward, turtle.back" in answer
    other = search_docs("quantum blockchain")
    assert other.startswith("Nothing in the reference fits 'quantum blockchain'.")
    assert "Modules: " in other
    assert ", turtle, " in other
    assert "cc.strings" in other


ODD = ["", "   ", "?", "...", "()", "\x00", "…", "колодец", "🐢", "a" * 5000, "." * 5000, "zqx." * 1500 + "!"]


@pytest.mark.parametrize("question", ODD, ids=range(len(ODD)))
def test_empty_and_odd_questions_are_answered(question: str) -> None:
    assert search_docs(question).startswith("Nothing in the reference fits ")


@pytest.mark.thinned(3)
@pytest.mark.parametrize("limit", [0, 1, 7, 60, 200, 600, LIMIT_CHARS])
def test_the_limit_holds_for_every_name_and_question(limit: int) -> None:
    for query in (*NAMES, *MODULES, *(question for question, _ in QUESTIONS), "nothing of the kind", "turtle.flyHome"):
        assert len(search_docs(query, version=(1, 87, 0), family="computer", limit_chars=limit)) <= limit, query


def test_every_name_finds_itself() -> None:
    lost = []
    for module in modules():
        for entry in module.entries:
            if "." in entry.name and module.kind in ("global", "env", "require", "handle", "peripheral", "setting"):
                hits = index().find(entry.name, None, None)
                if hits[0].entry.name.lower() != entry.name.lower():
                    lost.append((entry.name, hits[0].entry.name))
    assert lost == []


VERSIONS = st.none() | st.tuples(st.just(1), st.integers(80, 130), st.integers(0, 9))
PIECES = st.sampled_from([*NAMES, *MODULES, "turtle", "how do I", "(", ")", ".", ":", "digg", "the", "1", "\n", "é"])


@given(
    st.text(max_size=300) | st.lists(PIECES, max_size=8).map(" ".join) | st.lists(PIECES, max_size=5).map("".join),
    VERSIONS,
    st.none() | st.sampled_from(FAMILIES),
    st.integers(0, 2000),
)
def test_any_question_is_answered_within_its_limit(
    query: str, version: Version | None, family: str | None, limit: int
) -> None:
    answer = search_docs(query, version=version, family=family, limit_chars=limit)
    assert len(answer) <= limit
    assert answer == search_docs(query, version=version, family=family, limit_chars=limit)


@given(st.text(max_size=100), st.none() | st.text(max_size=60), st.none() | st.text(max_size=20))
def test_the_tool_answers_any_host_and_family(query: str, host: str | None, family: str | None) -> None:
    assert 0 < len(cc_docs_text(query, host=host, family=family)) <= LIMIT_CHARS
