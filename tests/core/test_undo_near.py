"""What was probably meant by a path that names nothing."""

import pytest

from orchestrator.core.undo.telling import near

THERE = ["farm/startup.lua", r"gr\xfcn.txt", "lib/Notes.txt", "other"]


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("grün.txt", r"Near it: gr\xfcn.txt."),
        ("notes.TXT", "Near it: lib/Notes.txt."),
        ("3:startup.lua", "Near it: farm/startup.lua."),
        ("farm/startap.lua", "Near it: farm/startup.lua."),
        ("zzz", r"There is: farm/startup.lua, gr\xfcn.txt, lib/Notes.txt and 1 more."),
    ],
)
def test_the_nearest_names_are_told(wanted: str, told: str) -> None:
    """What only looks the same, what has the same name elsewhere, what is almost written so; else some of what is."""
    assert near(wanted, THERE) == told


def test_where_little_or_nothing_is_there() -> None:
    assert near("zzz", THERE[:1]) == "There is: farm/startup.lua."
    assert near("zzz", []) == ""
