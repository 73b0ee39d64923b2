"""A computer's own token is found in what it says in every form that is looked for, and in nothing else."""

import base64
import hashlib
import random
import re

import pytest

from orchestrator.core.wire.own_token import SHOWN, Sight, Watched, forms_of, hidden
from tests import ROOT

TOKEN = "ccc_x0wyhSGuFe7tDxWXn3OrOHQv5JmQZ2aBk9LpE4rT8uY"


def starred(text: str) -> str:
    return Watched(TOKEN).starred(text)


@pytest.mark.parametrize("form", forms_of(TOKEN))
def test_each_form_is_starred_and_all_else_stays(form: str) -> None:
    """Character for character, so that places in the text stay."""
    text = f"before {form} after"
    assert starred(text) == f"before {'*' * len(form)} after"


@pytest.mark.parametrize("between", [" ", "-", "\n", '", "', "\\", ", ", " .. "])
def test_what_stands_between_the_letters_hides_nothing(between: str) -> None:
    """Separators go with what they separate."""
    assert starred(f"x = {between.join(TOKEN)} end").count("*") > len(TOKEN) * len(between)


@pytest.mark.parametrize("case", [str.upper, str.lower, str.swapcase])
def test_the_case_of_letters_hides_nothing(case) -> None:  # type: ignore[no-untyped-def]
    """All are read alike."""
    assert starred(case(TOKEN)).endswith("*" * 43)


def test_a_piece_of_eight_is_found_and_one_of_seven_is_not() -> None:
    """In the middle, at the beginning and at the end."""
    for at in (4, 5, 20, 39):
        assert starred(f"< {TOKEN[at : at + 8]} >") == "< ******** >"
        assert starred(f"< {TOKEN[at : at + 7]} >") == f"< {TOKEN[at : at + 7]} >"


@pytest.mark.parametrize("searched", [0, 1000])
def test_a_piece_of_eight_is_found_at_each_place(searched: int) -> None:
    """Whatever is before it, in a first text and after many: they are looked up in two ways."""
    sight = Sight(forms_of(TOKEN))
    sight.spans("." + "q" * searched)
    for at in range(4, len(TOKEN) - 8):
        for before in range(8):
            ((start, end),) = sight.spans("q" * before + "." + TOKEN[at : at + 8])
            # A letter before it may be of the token, too.
            assert start <= before + 1
            assert end == before + 9


@pytest.mark.parametrize("text", ["nothing of it", "nothing\n" * 9])
def test_a_text_without_a_piece_has_none(text: str) -> None:
    """Of one line and of many."""
    assert Watched(TOKEN).pieces(text) == ()


SIGNED = "ccc_Px3Q-aB_cDeFgHi-JkLm_NoPqRsTuVwXyZ0k1p2t3z-"
"""A token with signs in many of its pieces."""


@pytest.mark.parametrize("made", [SIGNED, SIGNED[::-1]])
def test_signs_of_the_token_count_where_they_are_written(made: str) -> None:
    """Each piece of eight is starred and taken out of other texts; what is no piece of it stays."""
    for at in range(len(made) - 8):
        piece = made[at : at + 8]
        if "_P" in piece or "P_" in piece:
            continue  # The beginning that all tokens have.
        watched = Watched(SIGNED)
        assert watched.starred(f"<{piece}>\n") == "<********>\n", piece
        assert hidden(f"tc/{piece}.txt", watched.pieces(f"<{piece}>\n")) == f"tc/{SHOWN}.txt", piece
    for seven in ("a-b_c px3q-a", "3Q-aB_c"):
        assert Watched(SIGNED).starred(f"<{seven}>\n") == f"<{seven}>\n"


def test_pieces_are_put_together_over_texts_that_follow() -> None:
    """Where one text goes on with the next; beside them nothing is remembered."""
    watched = Watched(TOKEN)
    parts = [watched.starred(TOKEN[at : at + 3] + "\n", follows=True) for at in range(4, 31, 3)]
    assert parts[:2] == [f"{TOKEN[at : at + 3]}\n" for at in (4, 7)]
    assert parts[3:] == ["***\n"] * 6
    assert watched.starred("all else\n", follows=True) == "all else\n"
    assert watched.starred(TOKEN[4:9]) == TOKEN[4:9]


@pytest.mark.parametrize("made", [TOKEN, TOKEN[::-1]])
def test_it_is_found_down_the_columns_of_a_screen(made: str) -> None:
    """Beside other text, also where the rows come in two parts; the other text stays."""
    rows = [f"|{number:02d} abc {letter} |\n" for number, letter in enumerate(made)]
    said = starred("".join(rows))
    assert "".join(re.findall(r"abc (.) ", said)).strip("c_*") == ""
    assert said.count("abc") == len(made)
    watched = Watched(TOKEN)
    first, second = "".join(rows[:20]), "".join(rows[20:])
    watched.starred(first, follows=True)
    assert "".join(re.findall(r"abc (.) ", watched.starred(second, follows=True))).strip("c_*") == ""
    pieces = Watched(TOKEN).pieces("".join(rows))
    assert hidden("".join(rows), pieces) == SHOWN
    assert hidden("".join(f"{number:4d}| {row}" for number, row in enumerate(rows, 1)), pieces) == SHOWN


def test_columns_beyond_a_screen_hide_no_others() -> None:
    """A row of any length costs no more than the columns of a screen; those are searched as ever."""
    long, within, beyond = [["x" * 5_000, *(f"{'q' * at} {one} q" for one in TOKEN)] for at in (0, 200, 300)]
    assert starred("\n".join(long)).count("*") == starred("\n".join(within)).count("*") == len(TOKEN) - 4
    assert starred("\n".join(beyond)) == "\n".join(beyond)


def test_the_pieces_are_left_out_of_a_text_that_was_made_of_them() -> None:
    """As they stand there, also broken over numbered lines; what has none of them stays."""
    pieces = Watched(TOKEN).pieces(f"a {TOKEN} b {TOKEN[::-1]}")
    assert hidden(f"1| a {TOKEN} b\n2| c", pieces) == f"1| a ccc_{SHOWN} b\n2| c"
    assert hidden("nothing of it", pieces) == "nothing of it"
    down = "".join(f"{number}| {letter}\n" for number, letter in enumerate(TOKEN, 1))
    assert hidden(down, Watched(TOKEN).pieces("\n".join(TOKEN))) == SHOWN


def test_of_no_token_nothing_is_looked_for() -> None:
    """An endpoint that does not know the token, and one that is too short to be told from text."""
    for token in ("", "secret"):
        assert Watched(token).starred("secret secret", follows=True) == "secret secret"
        assert Watched(token).pieces("secret") == ()


def test_short_hexadecimal_and_decimal_pieces_are_chance() -> None:
    """Hashes and tables of numbers have them; long ones are found."""
    data = TOKEN[4:].encode()
    at = next(at for at in range(40) if not data.hex()[at : at + 13].isdecimal())
    assert starred(data.hex()[at : at + 13]) == data.hex()[at : at + 13]
    assert starred(data.hex()[at : at + 14]) == "*" * 14
    digits = "".join(map(str, data))
    assert starred(digits[:17]) == digits[:17]
    assert starred(digits[:18]) == "*" * 18


def test_hashes_numbers_and_programs_are_no_token() -> None:
    """A megabyte of what looks like one, and all Lua of the repository."""
    dice = random.Random(21)
    noise = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(4000)]
    noise += [base64.b64encode(dice.randbytes(300)).decode() for _ in range(500)]
    noise += [str(dice.randrange(10**15)) for _ in range(10_000)]
    noise += [path.read_text("latin-1") for path in sorted((ROOT / "cc_client").rglob("*.lua"))]
    assert Sight(forms_of(TOKEN)).spans("\n".join(noise)) == []
