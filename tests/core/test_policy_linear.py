"""Our own regular expressions: the same answers as Python's, in linear time, and refusals in words."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.policy.linear import MAX_PATTERN_CHARS, LinearPattern

PATTERNS = [
    "", "a", "ab", "a|b", "a|", "|", "a*", "a+b", "a?b", "(ab)*c", "(?:a|b)+", "a{2}", "a{2,}", "a{1,3}", "a{0}",
    "a*?b",
    ".", ".*b", "[ab]c", "[^ab]", "[a-c]+", "[]a]", "[^]a]", r"[\d-]", r"[a\]b]", "[-a]", "[a-]", "[a&b]",
    r"\d+", r"\w\W", r"\s\S", r"\ba", r"b\b", r"\Ba", "^a", "a$", "^$", "^a|b$", r"\.", r"\x61", r"\u0061", r"\n",
    r"\t|\\",
    "(a*)*b", "(a|a)*b", "((a+)+)+$", r"a\-b", "(?:)", "()a", "(?:a?){3}b", "é", r"\–",
]  # fmt: skip
TEXT = st.text(alphabet="abcABC \n\t.-]é1&", max_size=12)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_pattern_says_what_re_says(pattern: str) -> None:
    """On texts that nobody draws."""
    for text in ("", "a", "b", "ab", "aab", "b a", "a\nb", "ABC", "1-]", "c\t&"):
        said = [LinearPattern(pattern, loose=loose).matches(text) for loose in (False, True)]
        found = re.search(pattern, text, re.IGNORECASE | re.DOTALL | re.MULTILINE) is not None
        assert said == [re.fullmatch(pattern, text) is not None, found], text


@given(st.sampled_from(PATTERNS), TEXT)
def test_it_says_what_re_says(pattern: str, text: str) -> None:
    """Strict: the whole text. Loose: anywhere, in any letter case, lines and all."""
    assert LinearPattern(pattern, loose=False).matches(text) == (re.fullmatch(pattern, text) is not None)
    found = re.search(pattern, text, re.IGNORECASE | re.DOTALL | re.MULTILINE) is not None
    assert LinearPattern(pattern, loose=True).matches(text) == found


@pytest.mark.uncounted
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a*)*b", "(a|aa)+$", ".*.*.*.*x", "a*b", "(x+x+)+y", "[ab]*a[ab]{20}c"])
def test_no_text_makes_it_run_for_ever(pattern: str) -> None:
    """What takes a backtracking engine years is read once, character by character."""
    text = "a" * 50_000 + "x" * 50_000
    begun = time.process_time()
    for loose in (True, False):
        LinearPattern(pattern, loose=loose).matches(text)
    assert time.process_time() - begun < 10


def test_it_remembers_only_so_much() -> None:
    """A text with more characters than it remembers is still read to the end."""
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 10_000)))
    assert LinearPattern("a", loose=True).matches(text + "A")
    assert not LinearPattern("a", loose=True).matches(text)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("*a", "nothing to repeat"),
        ("a|+", "nothing to repeat"),
        ("(?:*)", "nothing to repeat"),
        ("{2}", "nothing to repeat"),
        ("a{b", "nothing to repeat"),
        ("a{,3}", "does not say how often"),
        ("a{3,2}", "from more to less"),
        ("a**", "repeats a repeat"),
        ("a++", "repeats a repeat"),
        ("a{2}{3}", "repeats a repeat"),
        ("a{501}", "too large"),
        ("(a{100}){100}", "too large"),
        ("a)", ") too many"),
        ("(a", ") missing"),
        ("[a", "] missing"),
        ("[z-a]", "bad character range"),
        ("[a[b]", "write \\["),
        ("[a--b]", "write \\-"),
        ("a\\", "ends in the middle"),
        ("(?=a)", "only (?:"),
        ("(?P<a>b)", "only (?:"),
        ("(a)\\1", "\\1 cannot be used"),
        ("\\Z", "\\Z cannot be used"),
        ("\\x1", "2 hexadecimal digits"),
        ("\\u12", "4 hexadecimal digits"),
        ("(" * 40 + ")" * 40, "groups are inside of each other"),
        ("a" * (MAX_PATTERN_CHARS + 1), "more than 500 characters"),
    ],
)
def test_what_cannot_be_used_is_refused(pattern: str, why: str) -> None:
    """The reason says what is wrong with it."""
    with pytest.raises(ValueError, match=re.escape(why)):
        LinearPattern(pattern, loose=True)
