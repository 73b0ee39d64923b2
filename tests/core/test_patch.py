"""Unified diffs: what is made can be applied, and what does not fit is refused with the reason."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.core.errors import ToolFailed
from orchestrator.core.text.patch import MAX_COMPARED_LINES, apply_patch, parse_patch, taken_off, unified_diff

LINE = st.sampled_from(
    ["", "a", "b", "end", "\r", "a\r", "-- x", "++ y", "-", "\\ No newline", "@@ -1 +1 @@", "\x0b\u2028"]
)
TEXT = st.lists(LINE, max_size=30).map("\n".join) | st.text(max_size=40)
FILE = st.none() | TEXT


@given(FILE, FILE)
@example("", "a")
@example(None, "")
@example("", None)
@example("a\r\nb\r\n", "a\nb\n")
@example("\n" * 9 + "x", "\n" * 9 + "x\n" + "y")
@example("a\n" * 7 + "z\n", "b\n" + "a\n" * 7 + "z\n" + "c\n")
def test_what_is_made_can_be_applied(before: str | None, after: str | None) -> None:
    patch = unified_diff(before, after, "farm/main.lua")
    if before == after:
        assert patch == ""
    else:
        assert apply_patch(before, patch) == after
        assert after is None or taken_off(after, patch) == before


PATCH_LINE = st.sampled_from(
    [
        "@@ -1 +1 @@",
        "@@ -1,2 +1,3 @@",
        "@@ -0,0 +1 @@",
        "@@ -" + "9" * 5000 + " +1 @@",
        "--- a/f",
        "+++ b/f",
        "--- /dev/null",
        "+++ /dev/null",
        "-a",
        "+b",
        " a",
        "",
        "\\ No newline at end of file",
        "diff --git a b",
        "a\r",
    ]
)


@given(FILE, st.lists(PATCH_LINE, max_size=8).map("\n".join) | st.text(max_size=40))
def test_whatever_a_model_sends_it_is_applied_or_refused(before: str | None, patch: str) -> None:
    try:
        after = apply_patch(before, patch)
    except ToolFailed:
        return
    assert before == after or apply_patch(before, unified_diff(before, after, "f")) == after


@given(TEXT, TEXT, TEXT)
def test_a_patch_that_fits_elsewhere_changes_its_own_lines_only(before: str, after: str, other: str) -> None:
    try:
        result = apply_patch(other, unified_diff(before, after, "f") or "none")
    except ToolFailed:
        return
    hunks = parse_patch(unified_diff(before, after, "f")).hunks
    assert result is not None
    assert result.count("\n") - other.count("\n") == sum(
        "".join(hunk.new).count("\n") - "".join(hunk.old).count("\n") for hunk in hunks
    )
    first = hunks[0].at
    assert result.split("\n")[:first] == other.split("\n")[:first]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb\nc", "a\nb\nc\n"),
        ("a\nb\nc\n", "a\nb\nc"),
        ("".join(f"{n}\n" for n in range(40)), "".join(f"{n}\n" for n in range(40) if n not in (3, 30))),
        ("x\r\ny\r\n", "x\r\nz\r\ny\r\n"),
        ("", "new\n"),
    ],
)
def test_git_applies_it_to_the_same_bytes(tmp_path: Path, before: str, after: str) -> None:
    (tmp_path / "f").write_bytes(before.encode())
    (tmp_path / "p").write_bytes(unified_diff(before, after, "f").encode())
    try:
        subprocess.run(["git", "apply", "--unsafe-paths", "p"], cwd=tmp_path, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("git is not here")
    assert (tmp_path / "f").read_bytes() == after.encode()


def test_what_a_reviewer_sees() -> None:
    before = "".join(f"line {n}\n" for n in range(1, 21)) + "last"
    after = before.replace("line 2\n", "line two\n").replace("last", "last\nand more")
    assert unified_diff(before, after, "startup.lua") == (
        "--- a/startup.lua\n"
        "+++ b/startup.lua\n"
        "@@ -1,5 +1,5 @@\n"
        " line 1\n"
        "-line 2\n"
        "+line two\n"
        " line 3\n"
        " line 4\n"
        " line 5\n"
        "@@ -18,4 +18,5 @@\n"
        " line 18\n"
        " line 19\n"
        " line 20\n"
        "-last\n"
        "\\ No newline at end of file\n"
        "+last\n"
        "+and more\n"
        "\\ No newline at end of file\n"
    )


def test_what_is_the_same_has_no_patch() -> None:
    assert unified_diff("a\n", "a\n", "f") == unified_diff(None, None, "f") == ""


def test_a_new_file_and_one_that_goes_away() -> None:
    assert unified_diff(None, "print(1)\n", "a") == "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+print(1)\n"
    assert unified_diff("print(1)\n", None, "a") == "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-print(1)\n"
    assert unified_diff(None, "", "a") == "--- /dev/null\n+++ b/a\n"
    assert apply_patch("print(1)\n", unified_diff("print(1)\n", None, "a")) is None


def test_a_name_cannot_forge_a_line_of_the_diff() -> None:
    patch = unified_diff("a\n", "b\n", "x\n@@ -9 +9 @@")
    assert patch.splitlines()[0] == '--- "a/x\\n@@ -9 +9 @@"'
    assert apply_patch("a\n", patch) == "b\n"


def test_far_too_many_changes_are_shown_as_one() -> None:
    before = "".join(f"{n}\n" for n in range(2 * MAX_COMPARED_LINES))
    after = "".join(f"{n}\n" if n % 2 else f"-{n}\n" for n in range(2 * MAX_COMPARED_LINES))
    patch = unified_diff(before, after, "f")
    assert len(parse_patch(patch).hunks) == 1
    assert apply_patch(before, patch) == after


FARM = "local n = 1\nwhile true do\n  turn()\nend\n"


@pytest.mark.parametrize(
    ("patch", "after"),
    [
        pytest.param("@@ -3 +3 @@\n-  turn()\n+  dig()\n", FARM.replace("turn", "dig"), id="no file header"),
        pytest.param(
            "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\t2026-01-01\n+++ b/f\n@@ -1 +1 @@ function x\n"
            "-local n = 1\n+local n = 2",
            FARM.replace("1", "2"),
            id="git's preamble, a section, no last newline",
        ),
        pytest.param("@@ -4,0 +5 @@\n+print(n)\n", FARM + "print(n)\n", id="insert after line 4"),
        pytest.param("@@ -0,0 +1 @@\n+-- farm\n", "-- farm\n" + FARM, id="insert at the top"),
        pytest.param("@@ -1,2 +0,0 @@\n-local n = 1\n-while true do\n", "  turn()\nend\n", id="delete lines"),
        pytest.param("\n@@ -1 +1,2 @@\n local n = 1\n+\n\n\n", FARM.replace("1\n", "1\n\n"), id="blank lines around"),
        pytest.param("@@ -3 +3 @@\r\n-  turn()\r\n+  dig()\r\n", FARM.replace("turn", "dig"), id="sent in CRLF"),
        pytest.param(
            "@@ -1 +1 @@\n-local n = 1\n+local n = 2\n@@ -4 +4 @@\n-end\n+end\n\\ No newline at end of file\n",
            FARM.replace("1", "2").removesuffix("\n"),
            id="two hunks, the last newline goes",
        ),
    ],
)
def test_patches_that_others_make(patch: str, after: str) -> None:
    assert apply_patch(FARM, patch) == after


def test_a_blank_context_line_may_have_lost_its_blank() -> None:
    assert apply_patch("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n") == "a\n\nc\n"


def test_a_file_in_crlf_keeps_its_line_ends() -> None:
    assert apply_patch("a\r\nb\r\nc", "@@ -1,3 +1,4 @@\n a\n-b\n+x\n+y\n c\n\\ No newline at end of file\n") == (
        "a\r\nx\r\ny\r\nc"
    )


@pytest.mark.parametrize(
    ("before", "patch", "says"),
    [
        (FARM, "", "The patch has no hunk"),
        (FARM, "--- a/f\n+++ b/f\n", "The patch has no hunk"),
        (FARM, "```diff\n@@ -1 +1 @@\n", "Line 1 of the patch belongs to no hunk: '```diff'"),
        (FARM, "@@ nonsense @@\n", "Line 1 of the patch belongs to no hunk"),
        (FARM, "x" * 200, r"belongs to no hunk: 'x{117}\.\.\.'"),
        (FARM, "@@ -1 +1 @@\n-local n = 1\n+local n = 2\nThat was it.", "Line 4 of the patch belongs to no hunk"),
        (
            FARM,
            "@@ -1,3 +1,2 @@\n-local n = 1\n+x\n\n",
            r"another number of lines than it has: they are 1 old and 1 new",
        ),
        (FARM, "@@ -1 +1 @@\n-local n = 1\n+x\n+y\n\\ No\n@@ -4 +4 @@\n", "they are 1 old and 2 new"),
        (FARM, "@@ -1 +1 @@\n-local n = 1\n-while\n+x\n--- a/g\n+++ b/g\n", "they are 2 old and 1 new"),
        (FARM, "@@ -1 +1 @@\n-local n = 1\n+x\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", "more than one file"),
        (FARM, "@@ -1 +1 @@\n-local n = 1\n+x\ndiff --git a/g b/g\n", "more than one file"),
        (FARM, "@@ -1 +1 @@\n-local n = 9\n+x\n", "line 1 should be 'local n = 9' and is 'local n = 1'.*nowhere"),
        (FARM, "@@ -1 +1 @@\n-end\n+x\n", "line 1 should be 'end'.*Its old lines are at line 4:"),
        ("a\n" * 9, "@@ -9,2 +9,1 @@\n a\n-a\n", r"but the file has 9 lines\..*at line 1, 2, 3, 4, 5 and more:"),
        ("a\n", "@@ -9 +9 @@\n-a\n+b\n", "starts after line 8, but the file has 1 line"),
        ("a", "@@ -1 +1 @@\n-a\n+b\n", "line 1 is as expected, but it does not end with a newline"),
        ("a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n", "as expected, but it ends with a newline"),
        ("a", "@@ -1,0 +2 @@\n+b\n", "Line 1 would have no newline"),
        ("a\nb\n", "@@ -1 +1 @@\n-a\n+x\n\\ No newline at end of file\n", "Line 1 would have no newline"),
        ("a\nb\n", "@@ -2 +2 @@\n-b\n+x\n@@ -1 +1 @@\n-a\n+y\n", "Hunk 2 .* starts before the end of the hunk above"),
        (None, "@@ -0,0 +1 @@\n+a\n", "There is no such file to patch"),
        ("a\n", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", "creates the file, which is already there"),
        ("a\nb\nc\n", "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "deletes the file, but leaves 2 lines"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(before: str | None, patch: str, says: str) -> None:
    with pytest.raises(ToolFailed) as refused:
        apply_patch(before, patch)
    assert re.search(says, str(refused.value)), str(refused.value)
    assert refused.value.remedy


def test_changes_with_few_lines_between_them_stand_in_one_hunk() -> None:
    """Lines whose surroundings would touch are joined: one hunk, and it applies exactly."""
    before, after = "a\nsame 1\nsame 2\nb\n", "A\nsame 1\nsame 2\nB\n"
    diff = unified_diff(before, after, "f")
    assert diff.count("@@ -") == 1
    assert apply_patch(before, diff) == after
