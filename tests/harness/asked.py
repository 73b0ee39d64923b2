"""Requests as the endpoints give them out, and a console whose person types what a test says."""

from collections import deque
from datetime import UTC, datetime
from typing import Any

from orchestrator.core.approval.approval import CallState, HitlResponse, RequestedCallView, request_digest
from orchestrator.core.approval.grants import own_paths
from orchestrator.core.policy import BUILT_IN_CATALOG, Effect, PolicyDecision, RiskLevel
from orchestrator.core.task.facts import CallId, Observed, RequestId, TaskId
from orchestrator.core.text.patch import unified_diff
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.terminal.console import Console

OLD = sha256_hex(b"old\n")
NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
"""When a console of these tests looks at its clock."""


def shown(
    tool: str = "cc_write",
    args: dict[str, Any] | None = None,
    observed: Observed | None = None,
    *,
    call_id: str = "c1",
    reason: str = "A change of files is shown to a person first.",
    risk: RiskLevel = RiskLevel.HIGH,
    **changes: Any,
) -> RequestedCallView:
    """One call of a request."""
    args = {"path": "/farm.lua", "content": "new\n"} if args is None else args
    observed = observed or Observed(
        state={"farm.lua": OLD}, diff=unified_diff("old\n", "new\n", "farm.lua"), note="A note."
    )
    verdict = PolicyDecision(
        effect=Effect.ASK,
        risk=risk,
        matched_rules=("changing", "boot-files"),
        reason=reason,
        policy_version="v1",
        rules_digest="f" * 64,
    )
    values: dict[str, Any] = {
        "call_id": CallId(call_id),
        "index": 0,
        "plugin_name": tool.split("_", maxsplit=1)[0],
        "tool": tool,
        "args": args,
        "computer": "3" if tool.startswith("cc_") else None,
        "state": CallState.PENDING,
        "observed": observed,
        "evaluation": verdict,
        "action_digest": sha256_hex(call_id.encode()),
        "grant_paths": own_paths(tool, args) if tool in BUILT_IN_CATALOG else (),
    }
    return RequestedCallView.model_validate({**values, **changes})


def request(*calls: RequestedCallView, **changes: Any) -> HitlResponse:
    """A request as the endpoints give it out."""
    calls = calls or (shown(),)
    values: dict[str, Any] = {
        "task_id": TaskId("t-1"),
        "session_id": "s-1",
        "request_id": RequestId("r" * 24),
        "approval_url": "/v1/approve/r",
        "rejection_url": "/v1/reject/r",
        "tool_calls": calls,
        "risk": RiskLevel.HIGH,
        "policy_version": "v1",
        "action_digest": request_digest(tuple(one.action_digest for one in calls)),
        "requester": "alice",
        "goal": "fix my farm",
        "explanation": "I mend the loop.",
        "created_at": datetime(2030, 1, 1, tzinfo=UTC),
    }
    return HitlResponse.model_validate({**values, **changes})


def console(*answers: str, **more: Any) -> tuple[Console, list[str], list[str]]:
    """A console whose person types these; what it said; what it asked."""
    said: list[str] = []
    asked: list[str] = []
    typed = deque(answers)

    def ask(prompt: str) -> str:
        asked.append(prompt)
        assert typed, f"nobody said what is typed at {prompt!r}, after {said!r}"
        return typed.popleft()

    return Console(say=said.append, ask=ask, now=lambda: NOW, **more), said, asked
