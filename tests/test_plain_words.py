"""The check of plain words: what it finds in pages and code, and what it leaves out."""

from typing import Any

import pytest

from tests.test_bundle import script

plain_words: Any = script("plain_words")
LONG = "word " * 36


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"# Title\n\n{LONG}", 3),
        (f"- short.\n- {LONG}", 2),
        (f"| a | b |\n| --- | --- |\n| short | {LONG} |", 3),
        ("It is\nmended.", 1),
        ("Whoever asks waits.", 1),
        ("A task is no\nfile.", 1),
        ("## The door", 1),
    ],
)
def test_a_long_sentence_and_a_hard_word_are_found_with_their_line(text: str, line: int) -> None:
    assert [number for number, _ in plain_words.faults(text)] == [line]


@pytest.mark.parametrize(
    "text",
    [
        "word " * 35,
        f"{'word ' * 20}ends. {'Word ' * 20}ends.",
        f"```\n{LONG} door\n```",
        f"<!-- table:x -->\n| {LONG} | door |\n<!-- end -->",
        "The key `doors`, [a page](door.md), and there is no file.",
        "It is no longer there.",
    ],
)
def test_code_generated_tables_and_short_sentences_pass(text: str) -> None:
    assert list(plain_words.faults(text)) == []


def test_only_the_part_of_the_changelog_without_a_number_is_read() -> None:
    assert plain_words.unreleased("## [Unreleased]\nnew\n## [0.1.0]\nold\n") == "## [Unreleased]\nnew\n"


def test_comments_and_messages_of_code_are_read_and_names_are_not() -> None:
    code = 'mend = {"mend": 1}\n# It was\nsaid = "Please mend it."\n# mended\n'
    assert [line for line, _ in plain_words.code_faults(code)] == [3, 4]


def test_in_the_code_of_tests_a_word_is_found_in_names_too() -> None:
    code = 'label = "WORD"\nkept_WORD = 1\n# A WORD.\n'.replace("WORD", "house")
    found = plain_words.code_faults(code, plain_words.IN_TESTS, names=True)
    assert [line for line, _ in found] == [2, 3]
