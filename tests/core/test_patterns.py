"""Patterns that are tried only where a text has their words: what is found is the same."""

import json
import re
import sys
from typing import Final

import pytest

from orchestrator.core.evidence import claim_phrases, claims, orders, questions, quotations, wanted
from orchestrator.core.evidence.patterns import FILE, Rows, Worded, folded, needed
from orchestrator.core.evidence.phrases import PHRASES
from tests import TESTS

_KNOWN: Final = [
    one for of in (orders, claim_phrases, claims, questions, quotations, wanted) for one in vars(of).values()
]
_TABLES: Final = [PHRASES, *(one for one in _KNOWN if isinstance(one, Rows))]
_PATTERNS: Final = [
    *(pattern for table in _TABLES for pattern, _ in table._rows),
    *(one._pattern for one in _KNOWN if isinstance(one, Worded)),
]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("Run", {"run"}),
        (r"\b(?:run|start)\s+it\b", {"run", "start"}),
        (r"it\s+(?:run|start)s?\b", {"run", "start"}),
        (r"runs?", {"run"}),
        (r"run{0,2}fast", {"fast"}),
        (r"ru{2}ns+", {"ns"}),
        (r"(?:may|can)?\s+go", {"go"}),
        (r"(?:may|can){1,2}\s+go", {"may", "can"}),
        (r"(?:may|)\s+g\w*", {"g"}),
        (r"may|\d+", set()),
        (r"(?:may|can\s*(?:it|\d)go)", {"may", "can"}),
        (r"(?P<verb>put)(?!never)(?<!always)", {"put"}),
        (r"\w+(?=\s+behind)", {"behind"}),
        (r"(?P<x>\w)[really]+(?P=x)", set()),
        (r"n['\u2019]y", {"n"}),
        (r"(?:may){0,2}\s+g", {"g"}),
        (r"(?:may){,2}\s+g", {"g"}),
        (r"(?:may){0}\s+g", {"g"}),
        (r"(?:m(?:ay|ust)*)+\s*(?:g)", {"m"}),
        (r"\u2019y", {"y"}),
        (r"(?-i:NO)\.", {"no"}),
        (rf"of\s+{FILE}", {"of"}),
        (r".^$[^\]abc]\(", set()),
        (r"", set()),
    ],
)
def test_the_words_of_which_each_match_has_one(pattern: str, words: set[str]) -> None:
    assert needed(pattern) == words


def test_what_matches_has_one_of_the_needed_words() -> None:
    lines = (TESTS / "golden" / "phrases.jsonl").read_text(encoding="utf-8").splitlines()[::20]
    texts = [json.loads(line)["text"] for line in lines]
    texts += [text.upper() for text in texts]
    missed = [
        (pattern.pattern, text)
        for pattern in _PATTERNS
        for words in [needed(pattern.pattern)]
        for text in texts
        if words and not any(word in folded(text) for word in words) and pattern.search(text)
    ]
    assert missed == []


def test_most_patterns_need_a_word() -> None:
    assert len([one for one in _PATTERNS if not needed(one.pattern)]) <= 2


def test_letters_that_a_pattern_takes_for_the_same_are_folded_alike() -> None:
    letters = {letter for one in _PATTERNS for word in needed(one.pattern) for letter in word}
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    for letter in letters:
        same = re.findall(re.escape(letter), every, re.IGNORECASE)
        assert {folded(one) for one in same} == {letter}


def test_each_row_is_tried_on_what_the_rows_before_it_made() -> None:
    rows = Rows([(re.compile("one"), "two"), (re.compile("three"), "four"), (re.compile("TWO", re.I), "three")])
    assert rows.put("one three", lambda pattern, plain, text: pattern.sub(plain, text)) == "three four"
    assert [plain for _, plain in rows.of("Two, one")] == ["two", "three"]


@pytest.mark.parametrize("text", ["Go now", "GO NOW", "\u017fo it goe\u017f", "stop", ""])
def test_a_pattern_is_tried_where_a_text_has_its_words(text: str) -> None:
    plain, worded = re.compile(r"\b(?:go|so)\w*", re.I), Worded(r"\b(?:go|so)\w*", re.I)
    assert [one[0] for one in worded.finditer(text)] == [one[0] for one in plain.finditer(text)]
    assert (worded.search(text) is None) is (plain.search(text) is None)


def test_a_pattern_without_words_is_tried_everywhere() -> None:
    assert Worded(r"\d+", re.I).search("at 12") is not None
