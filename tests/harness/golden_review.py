"""Writes tests/golden/reviewer: one message of each type of the reviewer channel. A file that exists is never touched.

Run ``python -m tests.harness.golden_review`` after adding a type. What version 0.6.0 and each one since said must
still be read. The directory 0.6 holds the messages of version 0.6.0 that are written in another form now.
"""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

from orchestrator.core.approval.approval import (
    DECISIONS,
    CallDecision,
    CallState,
    CommentView,
    HitlResponse,
    RequestedCallView,
    ResumeRequest,
    SiblingView,
    TeamView,
)
from orchestrator.core.approval.grants import GrantSpec
from orchestrator.core.policy import Effect, PolicyDecision, RiskLevel
from orchestrator.core.task.facts import CallId, Observed, QuestionId, RequestId, TaskId
from orchestrator.core.undo.messages import TaskChange, UndoLimit, UndoOffer, UndoPlace, UndoRequest
from orchestrator.core.wire import review
from tests import TESTS

GOLDEN = TESTS / "golden" / "reviewer"
TO_REVIEWER: tuple[type[Any], ...] = get_args(get_args(review.ToReviewer)[0])
FROM_REVIEWER: tuple[type[Any], ...] = get_args(get_args(review.FromReviewer)[0])

_TASK = TaskId("t-0a1b2c3d4e5f")
_REQUEST = RequestId("Zx3_golden-request-id0123")
_AT = datetime(2026, 11, 20, 18, 56, 29, 120300, tzinfo=UTC)
_UNTIL = datetime(2026, 11, 20, 21, 0, tzinfo=timezone(timedelta(hours=2)))
_VERDICT = PolicyDecision(
    effect=Effect.ASK,
    risk=RiskLevel.HIGH,
    matched_rules=("changing", "boot-files"),
    reason="It runs at every boot of the computer.",
    policy_version="0123456789abcdef",
    rules_digest="c" * 64,
)
_WRITE = RequestedCallView(
    call_id=CallId("c0a1b2c3d4e5f6071"),
    index=0,
    plugin_name="cc",
    tool="cc_write",
    args={"path": "startup.lua", "content": "print('caf\u00e9 \U0001f33e [redacted 1a2b3c4d]')\n"},
    computer="3",
    state=CallState.PENDING,
    observed=Observed(
        state={"startup.lua": "e" * 64},
        diff="--- startup.lua\n+++ startup.lua\n@@ -1 +1 @@\n-prnt()\n+print()\n",
        encoding="latin-1",
        directories=("disk",),
        made=("lib",),
        note="The file is latin-1 and stays so.",
        identity="9" * 64,
    ),
    evaluation=_VERDICT,
    action_digest="f" * 64,
    original_args={"path": "startup.lua", "content": "prnt()\n"},
    edited_by="ann for bob",
    grant_paths=("startup.lua",),
    checks=("runs startup.lua",),
)
_RUN = RequestedCallView(
    call_id=CallId("c1f2e3d4c5b6a7980"),
    index=1,
    plugin_name="cc",
    tool="cc_run_program",
    args={"program": "hello.lua", "args": ["\u2026"]},
    computer="3",
    state=CallState.PENDING,
    observed=Observed(state={"hello.lua": "a" * 64}, program="/hello.lua", source="print('hi')\n"),
    evaluation=_VERDICT,
    action_digest="",
    truncated=True,
)
_OPEN = HitlResponse(
    task_id=_TASK,
    session_id="s-1",
    request_id=_REQUEST,
    approval_url=f"/v1/approve/{_REQUEST}",
    rejection_url=f"/v1/reject/{_REQUEST}",
    tool_calls=(_WRITE, _RUN),
    risk=RiskLevel.HIGH,
    policy_version="0123456789abcdef",
    action_digest="",
    requester="alice",
    requester_roles=("submitter", "reviewer"),
    asked_at="3",
    on_reject="continue",
    goal="fix my farm program, it crashes at startup \u2013 \u201cnow\u201d",
    explanation="I mend it.",
    created_at=_AT,
    expires_at=_UNTIL,
    on_timeout="continue",
    context=(
        SiblingView(tool="cc_read", args={"path": "farm"}, computer="3", state=CallState.EXECUTED, result="print()\n"),
        SiblingView(tool="local_write", args={"path": "a"}, computer=None, state=CallState.ALLOWED, result=None),
    ),
    redacted=True,
    team=TeamView(
        need=2,
        approved_by=("ann for bob",),
        waits_for="a reviewer",
        progress="1 of 2: ann for bob",
        claimed_by="tom",
        claimed_until=_UNTIL,
        escalate_at=_UNTIL,
        escalated_to="role:admin",
        comments=(CommentView(by="ann", at=_AT, text="It is the \u201cnight\u201d farm."),),
    ),
)
_UNKNOWN = HitlResponse(
    task_id=_TASK,
    session_id="s-1",
    request_id=_REQUEST,
    approval_url=f"/v1/approve/{_REQUEST}",
    rejection_url=f"/v1/reject/{_REQUEST}",
    tool_calls=(_WRITE.model_copy(update={"state": CallState.OUTCOME_UNKNOWN}),),
    reason="outcome_unknown",
    allowed_decisions=DECISIONS["outcome_unknown"],
    risk=RiskLevel.HIGH,
    policy_version="0123456789abcdef",
    action_digest="f" * 64,
    requester="alice",
    goal="fix my farm",
    explanation="I mend it.",
    created_at=_AT,
)
_QUESTION = review.OpenQuestion(
    task_id=_TASK, question_id=QuestionId("u-1"), question="Which farm?", goal="fix my farm"
)

EXAMPLES: tuple[Any, ...] = (
    review.Snapshot(seq=1, requests=(_OPEN, _UNKNOWN), questions=(_QUESTION,)),
    review.RequestOpened(seq=2, request=_OPEN),
    review.RequestClosed(seq=3, request_id=_REQUEST, how="approved by alice"),
    review.RequestReminded(seq=4, request_id=_REQUEST, expires_at=_UNTIL),
    review.QuestionOpened(seq=5, question=_QUESTION),
    review.QuestionClosed(seq=6, question_id=QuestionId("u-1")),
    review.TaskOver(
        seq=9,
        task_id=_TASK,
        status="Failed",
        goal="fix my farm",
        message="It does not run.",
        changes=(
            TaskChange(
                place="3:startup.lua", computer="3", path="startup.lua", step=2, before="e" * 64, after="absent"
            ),
            TaskChange(
                place="workspace:notes.txt", computer=None, path="notes.txt", step=3, before="directory", after=None
            ),
        ),
        left_out=5,
        undo=UndoOffer(changes=7, automatic=True, tasks=("t-1b2c3d4e5f60",)),
    ),
    review.UndoPreviewed(
        seq=10,
        ref="r-3",
        task_id=_TASK,
        places=(
            UndoPlace(
                place="3:startup.lua",
                computer="3",
                path="startup.lua",
                verdict="conflict",
                why="Somebody changed it since.",
                step=2,
                target="e" * 64,
                found="absent",
            ),
        ),
        left_out=2,
        cannot_be_undone=(
            UndoLimit(
                step=4,
                tool="cc_run_program",
                computer="3",
                what="A program ran: what it changed, moved or sent is not known.",
            ),
        ),
    ),
    review.Done(seq=7, ref="r-1", task_id=_TASK, status="Paused", progress="1 of 2: ann for bob"),
    review.Failed(
        seq=8,
        ref="r-2",
        code="not_pending",
        message="The request is no longer open: it was approved by bob.",
        remedy="Look at the task for its present request.",
        details={"decided_by": "bob", "how": "approved by bob", "status": "Running"},
    ),
    review.DecideRequest(
        ref="r-1",
        request_id=_REQUEST,
        resume=ResumeRequest(
            decisions=(
                CallDecision(
                    call_id=_WRITE.call_id,
                    action="edit",
                    args={"path": "startup.lua", "content": "print('[redacted 1a2b3c4d]')\n"},
                    reason="Without the accent.",
                    expected_digest="f" * 64,
                    remember=GrantSpec(
                        scope="session", paths=("startup.lua", "farm/*"), any_content=True, expires_s=3600, max_uses=5
                    ),
                ),
                CallDecision(call_id=_RUN.call_id, action="reject", reason="Not there.", on_reject="continue"),
                CallDecision(call_id=CallId("c2"), action="respond", answer="It says hi."),
            ),
            reason="Half of it.",
            on_reject="cancel",
            idempotency_key="key-1",
        ),
    ),
    review.UndoTask(
        ref="r-3",
        task_id=_TASK,
        undo=UndoRequest(
            step=2,
            paths=("lib", "startup.lua"),
            on_conflict="beside",
            choices={"3:startup.lua": "restore"},
            dry_run=True,
            idempotency_key="key-2",
        ),
    ),
    review.AnswerQuestion(ref="r-2", task_id=_TASK, question_id=QuestionId("u-1"), answer="The one with wheat."),
)


def write_missing() -> list[str]:
    """Write the golden file of each type that has none; the names of those written."""
    written = []
    for message in EXAMPLES:
        path = GOLDEN / f"{message.type}.json"
        if not path.exists():
            path.write_text(message.model_dump_json(), "utf-8")
            written.append(path.name)
    return written


if __name__ == "__main__":
    write_missing()
