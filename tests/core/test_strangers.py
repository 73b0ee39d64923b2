"""The name of a tool that does not exist, as it is recorded and said: safe to look at, and never that of another."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.reply.response import stranger_name


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("cc_format", "cc_format"),
        ("functions.cc_read", "functions.cc_read"),
        ("", ""),
        ("a\nb\t\x1b[2J\u202e", "a\\nb\\t\\u{1b}[2J\\u{202e}"),
        ("x" * 70, f"{'x' * 60} [… 10 characters more]"),
    ],
)
def test_p1_a_made_up_name_is_clean_and_capped(tool: str, name: str) -> None:
    assert stranger_name(tool, salt="maple") == name


def test_v4_a_secret_is_not_part_of_a_name() -> None:
    secret = "ghp_" + "aB3" * 12
    assert secret[:12] not in stranger_name(f"push {secret}", salt="maple")
    assert "[redacted" in stranger_name(f"push {secret}", salt="maple")


@given(st.text() | st.sampled_from(sorted(BUILT_IN_CATALOG)).flatmap(lambda name: st.text().map(lambda x: name + x)))
@example("cc_read\u200b")
@example("cc_read\x00")
@example("cc_read\n")
def test_p1_no_cleaning_makes_a_tool_of_it(tool: str) -> None:
    """What is not in the catalog is not in it afterwards, has no line breaks and is short."""
    name = stranger_name(tool, salt="maple")
    assert (name in BUILT_IN_CATALOG) == (tool in BUILT_IN_CATALOG)
    assert name.isprintable()
    assert len(name) <= 60 * 10 + 40
