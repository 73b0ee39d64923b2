# ruff: noqa: RUF001 - letters that look like others are its subject
"""Names that people take for one another."""

import pytest

from orchestrator.core.text.lookalikes import is_mark, why_not, why_not_beside

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


@pytest.mark.parametrize(
    ("name", "beside"), [("ѕҽѕҽ", "sese"), ("ჿჿჿ", "ooo"), ("ყოყო", "yoyo"), ("Ηυϳ", "huj"), ("max_mad", "max-mad")]
)
def test_a_whole_name_of_look_alike_letters_is_refused(name: str, beside: str) -> None:
    """Letters of Cyrillic, Georgian and Greek that look like Latin ones, and signs between words."""
    assert f"looks like {beside!r}" in why_not(name, [beside])


@pytest.mark.parametrize("pair", ["ー一", "ニ二", "エ工", "カ力", "ロ口", "lו", "lן", "lا"])
def test_letters_of_two_scripts_that_are_one_stroke_are_taken_for_one_another(pair: str) -> None:
    """Alone they are a name of one script, so only their looks tell."""
    assert "looks like" in why_not(pair[1], [pair[0]])


@pytest.mark.parametrize("name", ["admin.", "-admin", "admin_"])
def test_signs_at_the_ends_of_a_name_make_no_other_one(name: str) -> None:
    """Nobody hears or remembers them."""
    assert "looks like 'admin'" in why_not(name, ["admin"])


@pytest.mark.parametrize("name", ["rita๐", "bob০", "ada۷", "x৪", "〇", "rꛯ"])
def test_digits_of_other_scripts_are_refused(name: str) -> None:
    """They look like letters, or like other digits."""
    assert "digits" in why_not(name, ())


@pytest.mark.parametrize("name", ["ſuse", "ͺanna", "ﬁona"])
def test_letters_that_are_forms_of_others_are_refused(name: str) -> None:
    """Also where nobody has the name that they look like."""
    assert why_not(name, ())


@pytest.mark.parametrize(
    "name", ["system", "Model", "p0licy", "orchestrator", "reviewer", "not_requester", "-", "_", "."]
)
def test_words_of_the_program_itself_are_nobodys_name(name: str) -> None:
    """An item or a message would be taken for one of the program."""
    assert "is not free" in why_not(name, ())


def test_signs_that_a_script_needs_are_parts_of_a_name() -> None:
    """Not a sign that nobody sees, nor an accent that fits every letter."""
    assert all(map(is_mark, "\u093f\u094d\u0e31"))
    assert not any(map(is_mark, "\ufe0f\u034f\u0301\u200da"))


def test_a_name_of_another_kind_is_taken() -> None:
    """A person and a program with one name would be one in each list."""
    assert why_not_beside("Crossy", ["crossy"], "program").endswith("it looks like 'crossy', the name of a program.")
    assert why_not_beside("bob", ["crossy"], "program") == ""


@pytest.mark.parametrize("name", ["ritа", "аlice", "Ωrita", "日本a"])
def test_letters_of_two_scripts_in_one_name_are_refused(name: str) -> None:
    """Nobody needs them, and they hide."""
    assert "mixes letters of two scripts" in why_not(name, ())


@pytest.mark.parametrize("name", ["ʀita", "ɑnna", "Ꭺ", "ritᴀ"])
def test_letters_that_are_taken_for_others_are_refused(name: str) -> None:
    """Small capitals, phonetic letters, and scripts whose letters look like Latin ones."""
    assert "taken for others" in why_not(name, ())


@pytest.mark.parametrize(
    "name",
    [
        "rita",
        "modern",
        "Ωmega2",
        "bob",
        "søren",
        "łukasz",
        "Jürgen",
        "オレ様",
        "민수",
        "x_1",
        "42",
        "अमित",
        "สมชาย",
        "一郎",
    ],
)
def test_other_names_are_taken(name: str) -> None:
    """One that is there is given again, whatever its letters; ordinary names of many languages are new ones."""
    assert why_not(name, PRESENT) == ""
