"""Which names exist where."""

import pytest

from orchestrator.tools.reference.entries import NEWEST, Version, version_of
from orchestrator.tools.reference.words import EMULATED, NamesHere, names_for

V109: Version = (1, 109, 2)


def fields(names: NamesHere, table: str) -> set[str]:
    found = names.globals[table]
    assert found is not None
    return set(found)


@pytest.mark.parametrize(
    ("host", "version"),
    [
        ("ComputerCraft 1.109.2 (Minecraft 1.20.1)", (1, 109, 2)),
        ("ComputerCraft 1.116.1 (CraftOS-PC 2.8.4)", (1, 116, 1)),
        ("ComputerCraft 1.80pr1.13 (Minecraft 1.12.2)", (1, 80, 0)),
        ("ComputerCraft 1.100 (Minecraft 1.18)", (1, 100, 0)),
        ("ComputerCraft (Minecraft 1.20.1)", None),
        ("a simulated computer 1.2.3", None),
        ("x" * 300 + "ComputerCraft 1.109.2", None),
        ("", None),
        (None, None),
    ],
)
def test_the_version_is_read_from_the_host(host: str | None, version: Version | None) -> None:
    assert version_of(host) == version


@pytest.mark.parametrize("family", ["computer", "advanced", "pocket", "command"])
def test_only_turtles_have_turtle(family: str) -> None:
    names = names_for(V109, family)
    assert "turtle" not in names.globals
    assert names.elsewhere["turtle"].startswith("only on turtles; this is a")


def test_a_turtle_has_what_it_needs_and_no_more() -> None:
    names = names_for(V109, "turtle")
    assert {"dig", "digUp", "getFuelLevel", "getItemDetail", "craft"} <= fields(names, "turtle")
    assert "digg" not in fields(names, "turtle")
    assert "commands" not in names.globals
    assert "pocket" not in names.globals


def test_what_came_later_is_not_there_before() -> None:
    before, after = names_for((1, 115, 1), "turtle"), names_for((1, 116, 0), "turtle")
    assert "getEquippedLeft" not in fields(before, "turtle")
    assert before.elsewhere["turtle.getEquippedLeft"] == "only from version 1.116.0 on; this computer has 1.115.1"
    assert "getEquippedLeft" in fields(after, "turtle")
    assert "turtle.getEquippedLeft" not in after.elsewhere


def test_what_went_is_not_there_after() -> None:
    assert "dump" in fields(names_for((1, 108, 4), None), "string")
    assert names_for((1, 109, 0), None).elsewhere["string.dump"].startswith("only before version 1.109.0")


def test_a_table_that_came_later_is_not_there_before() -> None:
    assert "utf8" not in names_for((1, 86, 2), "advanced").globals
    assert "utf8" in names_for((1, 87, 0), "advanced").globals


def test_of_an_unknown_computer_nothing_is_denied_that_some_computer_has() -> None:
    names = names_for(None, None)
    assert {"turtle", "pocket", "commands", "multishell", "utf8"} <= set(names.globals)
    assert {"getEquippedLeft", "dig"} <= fields(names, "turtle")
    assert "create" in fields(names, "table")
    assert "dump" in fields(names, "string")


def test_a_version_newer_than_the_data_may_have_any_field() -> None:
    major, minor, patch = NEWEST
    newer = names_for((major, minor, patch + 1), "turtle")
    assert newer.globals["turtle"] is None
    assert newer.globals["fs"] is None
    assert fields(names_for(NEWEST, "turtle"), "turtle")


def test_tabs_are_denied_only_where_there_can_be_none() -> None:
    assert "multishell" not in names_for(V109, "computer").globals
    for family in ("advanced", "command", "turtle", "pocket"):
        assert "multishell" in names_for(V109, family).globals


def test_tables_that_grow_are_open() -> None:
    names = names_for(V109, "command")
    assert names.globals["commands"] is None
    assert names.globals["_G"] is None
    assert names.globals["arg"] is None


def test_both_spellings_and_both_names_of_redstone_exist() -> None:
    names = names_for(V109, "computer")
    assert {"setTextColor", "setTextColour", "isColour"} <= fields(names, "term")
    assert fields(names, "rs") == fields(names, "redstone")
    assert "grey" in fields(names, "colours")
    assert "grey" not in fields(names, "colors")
    assert {"enter", "a", "end", "numPad0"} <= fields(names, "keys")


def test_names_of_emulators_are_never_denied() -> None:
    names = names_for(V109, "advanced")
    assert set(EMULATED) <= set(names.globals)
    assert "setGraphicsMode" in fields(names, "term")


@pytest.mark.parametrize(
    ("name", "instead"),
    [("os.exit", "return"), ("json.decode", "textutils.unserialiseJSON"), ("wait", "sleep"), ("math.round", "floor")],
)
def test_for_names_that_no_computer_has_it_says_what_to_use(name: str, instead: str) -> None:
    for version in (None, V109):
        names = names_for(version, "turtle")
        assert instead in names.elsewhere[name]
        table, _, field = name.rpartition(".")
        inner = names.globals.get(table or name)
        assert name not in names.globals
        assert inner is None or field not in inner


def test_a_hint_is_a_clause() -> None:
    for family in ("computer", "turtle", "pocket", "command", "advanced"):
        for name, hint in names_for((1, 87, 0), family).elsewhere.items():
            assert hint, name
            assert not hint.endswith("."), name
            assert len(hint) < 200, name
