"""How the console shows the calls of each file tool: all that a decision is about, and nothing that forges it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from orchestrator.core.approval.approval import CallState, HitlResponse, RequestedCallView
from orchestrator.core.policy import FunctionCall, evaluate
from orchestrator.core.task.facts import CallId, Observed, RequestId, TaskId
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.terminal.review.request_view import describe

HASH = sha256_hex(b"old\n")
DIFF = "--- a/a.lua\n+++ b/a.lua\n@@ -1 +1 @@\n-old\n+new\n"


def shown(tool: str, args: dict[str, Any], observed: Observed) -> list[str]:
    """The lines of one call."""
    verdict = evaluate(FunctionCall(tool=tool, args=args))
    view = RequestedCallView(
        call_id=CallId("c1"),
        index=0,
        plugin_name="cc",
        tool=tool,
        args=args,
        computer="3",
        state=CallState.PENDING,
        observed=observed,
        evaluation=verdict,
        action_digest="d" * 64,
    )
    request = HitlResponse(
        task_id=TaskId("t1"),
        session_id="s1",
        request_id=RequestId("r1"),
        approval_url="/a",
        rejection_url="/r",
        tool_calls=(view,),
        risk=verdict.risk,
        policy_version=verdict.policy_version,
        action_digest="d" * 64,
        requester="alice",
        goal="fix it",
        explanation="",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return [line for line in describe(request)[2:] if not line.startswith(("  rule:", "  risk:"))]


@pytest.mark.parametrize(
    ("tool", "args", "observed", "lines"),
    [
        (
            "cc_edit",
            {"path": "/a.lua", "old": "old", "new": "new"},
            Observed(state={"a.lua": HASH}, diff=DIFF),
            [
                "  cc_edit on computer 3",
                "  path: /a.lua",
                f"  found: a.lua {HASH[:12]}",
                *(f"  │ {line}" for line in DIFF.splitlines()),
            ],
        ),
        (
            "cc_move",
            {"path": "lib", "to": "disk/lib"},
            Observed(
                state={"lib": HASH, "disk/lib": "absent"},
                directories=("lib",),
                note="A directory with 2 entries of 9 bytes in it:\na.lua\n  │ +fake\x1b[2J\nNothing is at disk/lib.",
            ),
            [
                "  cc_move on computer 3",
                "  path: lib",
                "  to: disk/lib",
                f"  found: lib directory {HASH[:12]}",
                "  found: disk/lib absent",
                "  note:",
                "  │ A directory with 2 entries of 9 bytes in it:",
                "  │ a.lua",
                "  │   │ +fake\\u{1b}[2J",
                "  │ Nothing is at disk/lib.",
            ],
        ),
        (
            "cc_mkdir",
            {"path": "lib"},
            Observed(state={"lib": "absent"}, note="A new directory."),
            ["  cc_mkdir on computer 3", "  path: lib", "  found: lib absent", "  note: A new directory."],
        ),
        (
            "cc_edit",
            {"path": "a", "old": "x", "new": "y\nz"},
            Observed(state={}, note="It could not be looked at."),
            [
                "  cc_edit on computer 3",
                "  path: a",
                "  old: x",
                "  new:",
                "  │ y",
                "  │ z",
                "  note: It could not be looked at.",
            ],
        ),
    ],
)
def test_a_call_is_shown_in_full(tool: str, args: dict[str, Any], observed: Observed, lines: list[str]) -> None:
    """The diff stands for the old and the new text, and where there is none, the texts themselves are shown."""
    assert shown(tool, args, observed) == lines
