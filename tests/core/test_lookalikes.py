# ruff: noqa: RUF001 - letters that look like others are its subject
"""Names that people take for one another."""

import pytest

from orchestrator.core.lookalikes import why_not

PRESENT = ("rita", "modern", "José", "игорь", "Ωmega2")


@pytest.mark.parametrize(
    "name", ["Rita", "r1ta", "rlta", "ríta", "rıta", "ｒｉｔａ", "rítá", "rnodem", "modem", "jose", "J0se"]
)
def test_a_name_that_looks_like_another_is_refused(name: str) -> None:
    """Other case, digits for letters, marks, two letters for one, wide letters."""
    assert "looks like" in why_not(name, PRESENT)


def test_a_whole_name_of_another_script_may_look_like_one() -> None:
    """Every letter of it is Cyrillic, or Greek, and it reads as the Latin name."""
    assert "looks like 'cop'" in why_not("сор", ["cop"])
    assert "looks like 'KATO'" in why_not("ΚΑΤΟ", ["KATO"])
    assert "looks like 'сор'" in why_not("cop", ["сор"])


@pytest.mark.parametrize("name", ["ritа", "аlice", "Ωrita", "日本a"])
def test_letters_of_two_scripts_in_one_name_are_refused(name: str) -> None:
    """Nobody needs them, and they hide."""
    assert "mixes letters of two scripts" in why_not(name, ())


@pytest.mark.parametrize("name", ["ʀita", "ɑnna", "Ꭺ", "ritᴀ"])
def test_letters_that_are_taken_for_others_are_refused(name: str) -> None:
    """Small capitals, phonetic letters, and scripts whose letters look like Latin ones."""
    assert "taken for others" in why_not(name, ())


@pytest.mark.parametrize(
    "name", ["rita", "modern", "Ωmega2", "bob", "søren", "łukasz", "Jürgen", "オレ様", "민수", "x_1", "42"]
)
def test_other_names_are_taken(name: str) -> None:
    """One that is there is given again, whatever its letters; ordinary names of many languages are new ones."""
    assert why_not(name, PRESENT) == ""
