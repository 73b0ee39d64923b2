"""The reviewer channel: every message comes back as it was, and what a reviewer sends is read strictly."""

import json
from typing import Any, get_args

import pytest

from orchestrator.core.approval.approval import HitlResponse, RequestedCallView, ResumeRequest
from orchestrator.core.errors import FrameRefused
from orchestrator.core.policy import RiskLevel
from orchestrator.core.task.facts import CallId, Observed, QuestionId, RequestId
from orchestrator.core.undo.messages import TaskChange, UndoLimit, UndoOffer, UndoPlace, UndoRequest
from orchestrator.core.wire import review
from tests.core.journal import NOW, TASK, digest_of, verdict

REQUEST = HitlResponse(
    task_id=TASK,
    session_id="s1",
    request_id=RequestId("q1"),
    approval_url="/v1/approve/q1",
    rejection_url="/v1/reject/q1",
    tool_calls=(
        RequestedCallView(
            call_id=CallId("c1"),
            index=0,
            plugin_name="cc",
            tool="cc_write",
            args={"path": "farm", "content": "é\u202e"},
            computer="3",
            state="pending",  # type: ignore[arg-type] # as JSON has it
            observed=Observed(state={"farm": "absent"}, diff="+x", note="A new file."),
            evaluation=verdict(),
            action_digest=digest_of("c1"),
        ),
    ),
    risk=RiskLevel.MEDIUM,
    policy_version="v1",
    action_digest="d",
    requester="alice",
    goal="fix my farm",
    explanation="I mend it.",
    created_at=NOW,
    expires_at=NOW,
)
QUESTION = review.OpenQuestion(task_id=TASK, question_id=QuestionId("u1"), question="Which?", goal="fix my farm")
TO_REVIEWER: list[Any] = [
    review.Snapshot(seq=1, requests=(REQUEST,), questions=(QUESTION,)),
    review.RequestOpened(seq=2, request=REQUEST),
    review.RequestClosed(seq=3, request_id=RequestId("q1"), how="approved by alice"),
    review.RequestReminded(seq=3, request_id=RequestId("q1"), expires_at=NOW),
    review.QuestionOpened(seq=4, question=QUESTION),
    review.QuestionClosed(seq=5, question_id=QuestionId("u1")),
    review.TaskOver(
        seq=6,
        task_id=TASK,
        status="Canceled",
        goal="fix my farm",
        message="enough",
        changes=(TaskChange(place="3:a", computer="3", path="a", step=1, before="absent", after=None),),
        undo=UndoOffer(changes=1, automatic=False, tasks=()),
    ),
    review.UndoPreviewed(
        seq=7,
        ref="3",
        task_id=TASK,
        places=(
            UndoPlace(place="3:a", computer="3", path="a", verdict="away", why="", step=1, target="absent", found=None),
        ),
        cannot_be_undone=(UndoLimit(step=2, tool="cc_shell", computer="3", what="A program ran."),),
    ),
    review.Done(seq=6, ref="1", task_id=TASK, status="Running"),
    review.Failed(seq=7, code="not_pending", message="no", remedy="look", details={"decided_by": "bob"}),
]
FROM_REVIEWER: list[Any] = [
    review.DecideRequest(ref="1", request_id=RequestId("q1"), resume=ResumeRequest(action="approve")),
    review.AnswerQuestion(ref="2", task_id=TASK, question_id=QuestionId("u1"), answer="the wheat"),
    review.UndoTask(ref="3", task_id=TASK, undo=UndoRequest(paths=("a",), choices={"3:a": "beside"}, dry_run=True)),
]


@pytest.mark.parametrize("message", TO_REVIEWER, ids=lambda message: message.type)
def test_every_message_to_a_reviewer_comes_back_as_it_was(message: Any) -> None:
    """As JSON and back, with every byte of what is to be approved."""
    assert review.decode_to_reviewer(message.model_dump_json()) == message


@pytest.mark.parametrize("message", FROM_REVIEWER, ids=lambda message: message.type)
def test_every_message_of_a_reviewer_comes_back_as_it_was(message: Any) -> None:
    """As JSON and back; a reviewer's message is none to a reviewer."""
    assert review.decode_from_reviewer(message.model_dump_json()) == message
    with pytest.raises(FrameRefused):
        review.decode_to_reviewer(message.model_dump_json())


def test_no_message_is_left_out() -> None:
    """Every type of both directions is tried above."""
    for union, examples in ((review.ToReviewer, TO_REVIEWER), (review.FromReviewer, FROM_REVIEWER)):
        types = {model.model_fields["type"].default for model in get_args(get_args(union)[0])}
        assert {message.type for message in examples} == types


DECIDE: dict[str, Any] = {"type": "decide", "ref": "1", "request_id": "q1", "resume": {"action": "approve"}}
ANSWER: dict[str, Any] = {"type": "answer", "ref": "1", "task_id": "t1", "question_id": "u1", "answer": "a"}


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "the frame must have the field 'type'"),
        ('{"type":"dream"}', "the frame has 'dream' as 'type', which must be one of 'decide', 'answer', 'undo'"),
        (json.dumps({"type": "x" * 60_000}), "xxx as 'type', which"),
        ("[" * 1000, "cannot be read"),
        (json.dumps({**DECIDE, "by": "bob"}), "decide.by"),
        (json.dumps({**DECIDE, "ref": "x" * 101}), "decide.ref"),
        (json.dumps({**DECIDE, "resume": {}}), "either action or decisions"),
        (json.dumps({**DECIDE, "resume": {"action": "yes"}}), "decide.resume.action"),
        (
            json.dumps({**DECIDE, "resume": 0}).replace(": 0}", ': {"action": "approve", "action": "reject"}}'),
            "'action' twice",
        ),
        (json.dumps(DECIDE).replace('"ref":', '"\\u0072ef": "2", "ref":'), "'ref' twice"),
        (json.dumps({**ANSWER, "answer": "x" * 20_001}), "answer.answer"),
        (json.dumps({**ANSWER, "answer": None}), "answer.answer"),
        (json.dumps({**ANSWER, "answer": "x" * review.MAX_REVIEW_FRAME_CHARS}), "over 65536"),
    ],
)
def test_what_a_reviewer_may_not_send_is_refused_with_the_reason(frame: str, words: str) -> None:
    """Garbage, unknown fields and verbs, and texts over their limits (R1: nobody names themself in a body)."""
    with pytest.raises(FrameRefused, match=r"over|cannot be read|twice") as refused:
        review.decode_from_reviewer(frame)
    assert words in refused.value.message


def test_the_limit_is_for_reviewers_only() -> None:
    """A snapshot may be large; a frame of exactly the limit is read."""
    long = review.Failed(seq=1, code="c", message="x" * (review.MAX_REVIEW_FRAME_CHARS + 1))
    assert review.decode_to_reviewer(long.model_dump_json()) == long
    padded = json.dumps(DECIDE) + " " * (review.MAX_REVIEW_FRAME_CHARS - len(json.dumps(DECIDE)))
    assert review.decode_from_reviewer(padded) == FROM_REVIEWER[0]
    with pytest.raises(FrameRefused):
        review.decode_from_reviewer(padded + " ")
