"""The canonical ComputerCraft path and globs on it: every spelling of a file is one path, or it is refused."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.core.errors import UnsafePath
from orchestrator.core.text.paths import (
    MAX_PART_BYTES,
    MAX_PATH_BYTES,
    can_match,
    canonical_path,
    path_matches,
    spelled,
    unspelled,
)

STARTUP = [
    "/startup.lua",
    "startup.lua/",
    "./startup.lua",
    "a/../startup.lua",
    "start:up.lua",
    'start"up.lua',
    "startup.lua?",
    "startup.lu*a",
    " startup.lua ",
    ".../startup.lua",
    "\\startup.lua",
    "start\x01up.lua",
    "//startup.lua",
    "a\\..\\.\\/....../ startup.lua<>|",
    "\tstartup.lua\n",
]
SPELLING = st.lists(
    st.sampled_from(
        ["a", "B", ".", "..", "...", "/", "\\", " ", "\t", "\x00", ":", "*", "?", '"', "é", "\ud800", "x" * 254]
    ),
    max_size=14,
).map("".join) | st.text(max_size=30)


@pytest.mark.parametrize("spelling", STARTUP)
def test_P5_every_spelling_of_startup_is_one_path(spelling: str) -> None:
    """Each spelling that the game reads as /startup.lua is the one path that rules see."""
    assert canonical_path(spelling) == "startup.lua"


@pytest.mark.parametrize("path", ["a", "a/b.lua", "..a", "a..", "a b/c", "\xff\x80", ".settings", "A", ""])
def test_a_canonical_path_stays_as_it_is(path: str) -> None:
    """What is canonical already is not altered, letter case included."""
    assert canonical_path(path) == path


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("a//b", "a/b"),
        ("a/ b", "a/b"),
        ("a/./b", "a/b"),
        ("a/b/../c", "a/c"),
        ("a/..", ""),
        ("/", ""),
        ("a/..../b", "a/b"),
    ],
)
def test_the_steps_of_the_game(spelling: str, canonical: str) -> None:
    """Empty parts, dots, blanks and climbing inside the root go as the game's sanitizePath makes them go."""
    assert canonical_path(spelling) == canonical


@pytest.mark.parametrize("path", ["..", "../a", "a/../../b", "...//..", "a\\..\\..", " .. /x", "?../x"])
def test_no_path_climbs_above_the_root(path: str) -> None:
    """A path that leaves the computer is refused with a remedy."""
    with pytest.raises(UnsafePath, match="climbs above the root") as refused:
        canonical_path(path)
    assert refused.value.remedy


def test_a_path_has_a_limit_in_bytes() -> None:
    """500 bytes pass and 501 do not, and a letter of two bytes counts as two."""
    parts = "/".join(["x" * 99] * 5)
    assert len(parts) == MAX_PATH_BYTES - 1
    assert canonical_path(parts + "y") == parts + "y"
    for too_long in (parts + "yy", parts[:-1] + "éy"):
        with pytest.raises(UnsafePath, match=str(MAX_PATH_BYTES)):
            canonical_path(too_long)


def test_a_name_has_a_limit_in_bytes() -> None:
    """A name that the game would cut is refused: the file that it would reach is not the one that was judged."""
    assert canonical_path("x" * MAX_PART_BYTES) == "x" * MAX_PART_BYTES
    for too_long in ("x" * 256, "é" * 128, "a/.." + " " * 260 + "x"):
        with pytest.raises(UnsafePath, match=str(MAX_PART_BYTES)):
            canonical_path(too_long)


@pytest.mark.parametrize(
    ("name", "becomes"),
    [
        ("x" * 300, "x" * 255),
        ("x" * 254 + "é", "x" * 254),
        ("x" + " " * 260 + "y", "x"),
        (".." + " " * 260 + "y", ".."),
    ],
)
def test_a_name_that_is_too_long_is_told_with_what_it_would_become(name: str, becomes: str) -> None:
    """As any other name that the game would silently change: what it would be cut to is in the sentence."""
    with pytest.raises(UnsafePath) as refused:
        canonical_path(f"d/{name}/f")
    assert f"ComputerCraft would silently cut it to {becomes!r}." in str(refused.value)


@given(SPELLING)
@example("a/.." + " " * 260 + "x")
def test_canonical_is_a_fixed_point(spelling: str) -> None:
    """Whatever is taken is clean: a second look changes nothing, and no part of it moves about or is dropped."""
    try:
        canonical = canonical_path(spelling)
    except UnsafePath:
        return
    assert canonical_path(canonical) == canonical
    assert not re.search('[\\x00-\\x1f"*:<>?|\\\\]', canonical)
    assert all(part and part == part.strip(" \t") and set(part) != {"."} for part in canonical.split("/") if canonical)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("startup", "startup", True),
        ("/startup", "startup", True),
        ("startup", "startup.lua", False),
        ("startup.lua", "startupxlua", False),
        ("*.lua", "a.lua", True),
        ("*.lua", "a/b.lua", False),
        ("disk*/startup", "disk2/startup", True),
        ("disk*/startup", "disk/x/startup", False),
        ("?.lua", "a.lua", True),
        ("?.lua", "ab.lua", False),
        ("a?b", "a/b", False),
        ("rom/**", "rom", True),
        ("rom/**", "rom/a/b", True),
        ("rom/**", "romulus", False),
        ("**", "", True),
        ("**", "a/b", True),
        ("**/x", "x", True),
        ("**/x", "a/b/x", True),
        ("**/x", "ax", False),
        ("a/**/x", "a/x", True),
        ("a/**/x", "a/b/c/x", True),
        ("a/**/x", "ab/x", False),
        ("a**", "ab/c", True),
        ("[a]", "a", False),
        ("[a]", "[a]", True),
        ("a.", "ab", False),
        ("", "", True),
        ("", "a", False),
        ("a\nb*", "a\nbc", True),
    ],
)
def test_globs(pattern: str, path: str, matches: bool) -> None:
    """A star stays within a name, two stars cross folders, a question mark is one character, the rest is itself."""
    assert path_matches(pattern, path, ignore_case=False) is matches


def test_P6_letter_case_counts_only_where_it_is_asked_for() -> None:
    """The same glob with and without letter case: deny and ask use the one, allow the other."""
    assert path_matches("Startup", "sTARTUP", ignore_case=True)
    assert not path_matches("Startup", "sTARTUP", ignore_case=False)
    assert path_matches("Startup", "Startup", ignore_case=False)


@pytest.mark.parametrize("pattern", ["", "/", "a", "/a/b", "*", "**", "a/**", "disk*/x?.lua", ".settings", "**/*.lua"])
def test_a_glob_that_can_match(pattern: str) -> None:
    """Globs in canonical form can match something."""
    assert can_match(pattern)


@pytest.mark.parametrize(
    "pattern", ["rom/", "./rom", "a//b", "a\\b", "a/../b", "../a", " a", "a:b", ".../a", "x" * 300]
)
def test_P9_a_glob_that_cannot_match_is_known(pattern: str) -> None:
    """A glob in a spelling that no canonical path has would make a rule silent, so it can be recognized."""
    assert not can_match(pattern)


@given(SPELLING)
def test_every_canonical_path_matches_itself_as_a_glob(spelling: str) -> None:
    """A path without wildcards is a glob for exactly itself, with and without letter case."""
    try:
        canonical = canonical_path(spelling)
    except UnsafePath:
        return
    assert path_matches(canonical, canonical, ignore_case=False)
    assert path_matches(canonical.upper(), canonical.upper(), ignore_case=True)
    assert not path_matches(canonical, canonical + "x", ignore_case=True)


@given(st.binary(max_size=12))
@example(b"gr\xfcn")
@example("grün".encode())
@example(b"\xc3\xfc\xbc")
def test_no_two_names_are_spelled_alike(name: bytes) -> None:
    """What is spelled is a text, and comes back to the very bytes; a backslash is in no name of the game."""
    path = name.replace(b"\\", b"/").decode("utf-8", "surrogateescape")
    text = spelled(path)
    assert text.encode().decode() == text
    assert unspelled(text) == path


def test_what_is_no_utf_8_is_spelled_by_its_bytes() -> None:
    assert (spelled("gr\udcfcn"), spelled("grün")) == (r"gr\xfcn", "grün")
    assert [unspelled(text) for text in (r"gr\xFCn", r"gr\xc3\xbcn", r"a\x41\xg0\xf")] == [
        "gr\udcfcn",
        "grün",
        r"a\x41\xg0\xf",
    ]
