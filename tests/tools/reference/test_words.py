"""How words are cut and compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tools.reference.words import asked, edits, letters, name_words, nearest, stem, words_of


@pytest.mark.parametrize(
    ("word", "same"),
    [
        ("digging", "dig"), ("moving", "move"), ("writing", "write"), ("sending", "send"), ("opening", "open"),
        ("files", "file"), ("inventories", "inventory"), ("boxes", "box"), ("pressed", "press"), ("string", "string"),
        ("colours", "color"), ("grey", "gray"), ("serialise", "serialize"), ("is", "is"), ("redstone", "redstone"),
        ("speed", "speed"), ("bus", "bus"), ("running", "run"), ("dropping", "drop"),
    ],
)  # fmt: skip
def test_a_word_is_brought_to_its_stem(word: str, same: str) -> None:
    assert stem(word) == stem(same) == same


def test_names_are_cut_at_dots_and_capitals() -> None:
    assert name_words("turtle.getItemDetail") == ["turtle", "get", "item", "detail", "getitemdetail"]
    assert name_words("mouse_click") == ["mouse", "click", "mouse_click"]
    assert name_words("textutils.unserialiseJSON")[1:] == ["unserialize", "json", "unserialisejson"]


def test_a_question_keeps_the_words_that_say_something() -> None:
    assert asked("How do I make the turtle dig down?") == ["turtle", "dig", "down"]
    assert asked("what is it") == ["what", "is", "it"]
    assert asked("slot 3") == ["slot"]
    assert asked("") == []


def test_a_sentence_leaves_out_what_says_nothing() -> None:
    assert words_of("Moves one block up. Costs 1 fuel.") == ["move", "block", "cost", "1", "fuel"]


SHORT = st.text("abcd", max_size=8)


def slowly(one: str, other: str) -> int:
    """The same distance, by the definition: optimal string alignment."""
    table = {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            best = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (one[i - 1] != other[j - 1]))
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                best = min(best, table[i - 2, j - 2] + 1)
            table[i, j] = best
    return table[len(one), len(other)]


@given(SHORT, SHORT, st.integers(0, 4))
def test_edits_are_counted_up_to_a_limit(one: str, other: str, most: int) -> None:
    assert edits(one, other, most) == min(slowly(one, other), most + 1)


@given(SHORT, st.lists(SHORT, max_size=12, unique=True), st.integers(0, 3))
def test_the_nearest_are_all_that_are_near(word: str, known: list[str], most: int) -> None:
    found = nearest(word, [(other, letters(other)) for other in known], most)
    assert found == sorted((slowly(word, other), other) for other in known if slowly(word, other) <= most)
