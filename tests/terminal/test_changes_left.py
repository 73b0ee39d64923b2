"""How what a task changed is put back: the line, by what the server says of it."""

from typing import Any

import pytest

from orchestrator.terminal.changes_left import how

LEFT = {"changes": 3, "automatic": False, "tasks": [], "unknown": 0, "outcome": None, "outcomes": []}
DONE = {
    "task_id": "t-u",
    "status": "Completed",
    "told": "TOLD",
    "open": False,
    "whole": True,
    "did": True,
    "kept": False,
    "undone_by": None,
}
UNDO = "undo t-1 --url U"
ALL = "undo t-1 --on-conflict restore --url U"


def by_now(**changes: Any) -> dict[str, Any]:
    """An offer of which an undo was begun."""
    return {**LEFT, "tasks": ["t-u"], "outcome": {**DONE, **changes}}


@pytest.mark.parametrize(
    ("offer", "begins", "ends"),
    [
        (LEFT, "put it back:  ", UNDO),
        ({"changes": 3}, "put it back:  ", UNDO),
        ({**LEFT, "automatic": True}, "it is put back, as the policy says", "tasks show t-1 --url U"),
        ({**LEFT, "unknown": 3}, "put it back, though nobody knows", ALL),
        ({**LEFT, "changes": 0, "unknown": 0}, "put it back:  ", UNDO),
        ({**LEFT, "unknown": 1}, "put it back, but for 1 of which nobody knows", UNDO),
        ({**LEFT, "tasks": ["t-0", "t-u"]}, "task t-u was begun to put it back", "put it back"),
        (by_now(), "TOLD", "TOLD"),
        (by_now(open=True, status="Paused"), "TOLD:  ", "tasks watch t-u --url U"),
        (by_now(status="Failed"), "TOLD; try again:  ", UNDO),
        (by_now(status="Failed", kept=True), "TOLD; what it kept too:  ", ALL),
        (by_now(kept=True), "TOLD; what it kept too:  ", ALL),
        (by_now(whole=False, kept=True), "TOLD; the rest:  ", UNDO),
        (by_now(undone_by="t-v"), "TOLD; put it back again:  ", UNDO),
    ],
)
def test_the_line_says_what_became_of_it_and_what_to_type(offer: dict[str, Any], begins: str, ends: str) -> None:
    """Also where nobody knows what became of it."""
    line = how(offer, "t-1", " --url U")
    assert line.startswith(begins)
    assert line.endswith(ends)
