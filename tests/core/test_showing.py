"""A request as people see it: whole or said to be cut, without secrets, with its siblings; nothing stored changes."""

from typing import Any

import pytest

from orchestrator.core.approval.approval import CallState, HitlResponse, ResumeRequest, request_digest
from orchestrator.core.approval.presentation import LIST_CHARS, hitl_response, must_have_seen, texts_of
from orchestrator.core.errors import InvalidDecision, NotFound
from orchestrator.core.policy import RiskLevel
from orchestrator.core.task import facts
from orchestrator.core.task.facts import Observed, RequestId
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.wanted import MODEL, Restoration
from tests.core.journal import NOW, REQUEST, TASK, Journal, call, decision, person, requested, verdict
from tests.core.persons import bound, done, each, paused, real, said, shown, unknown

SECRET = "correct horse battery staple"
LINE = f"password = '{SECRET}'\n"
LONG = "x" * 300


def looked_at(observed: Observed, *calls: facts.ToolCall) -> Journal:
    """A request whose first call, the only one unless said, was found so."""
    story = Journal()
    calls = calls or (real("c1", path="farm", content="print()"),)
    story.proposed(calls, *("ask",) * len(calls))
    first, *others = (requested(one.call_id) for one in calls)
    asked = (first.model_copy(update={"observed": observed}), *others)
    story.add(
        facts.ReviewRequested(
            request_id=RequestId(REQUEST),
            reason="approval",
            calls=asked,
            risk=RiskLevel.MEDIUM,
            policy_version="v7",
            expires_at=NOW,
            on_timeout="continue",
        )
    )
    return story


# -- what is shown ------------------------------------------------------------------------


def test_V1_the_view_shows_the_very_action() -> None:
    """All arguments, the computer, what was found, the verdict, who asked and why, and until when."""
    found = Observed(state={"farm": "0" * 64}, diff="--- a\n+++ b\n", program="farm", source="print()", note="A note.")
    story = looked_at(found)
    view = hitl_response(story.task)
    (one,) = view.tool_calls
    assert (one.call_id, one.index, one.plugin_name, one.tool) == ("c1", 0, "cc", "cc_write")
    assert (one.args, one.computer, one.state) == ({"path": "farm", "content": "print()"}, "3", CallState.PENDING)
    assert (one.observed, one.evaluation, one.original_args) == (found, verdict(), None)
    assert (one.action_digest, one.truncated, one.grant_paths) == ("action-c1", False, ("farm",))
    assert (view.task_id, view.session_id, view.request_id) == (TASK, "s1", REQUEST)
    assert (view.approval_url, view.rejection_url) == ("/v1/approve/q1", "/v1/reject/q1")
    assert (view.requester, view.goal, view.explanation) == ("alice", "fix my farm", "I look first.")
    assert (view.expires_at, view.on_timeout, view.policy_version) == (NOW, "continue", "v7")
    assert view.created_at == story.task.updated_at
    assert (view.reason, view.allowed_decisions) == ("approval", ("approve", "reject", "edit", "respond"))
    assert not view.redacted
    assert HitlResponse.model_validate_json(view.model_dump_json()) == view


def test_V1_the_risk_of_a_request_is_that_of_its_worst_call() -> None:
    """Unknown stands above high; the digest is over all calls in their order."""
    calls = [real("c1", path="a", content=""), real("c2", index=1, path="b", content="")]
    two = shown(*calls, risk=RiskLevel.UNKNOWN)
    view = hitl_response(two.task)
    assert view.risk is RiskLevel.UNKNOWN
    assert view.action_digest == request_digest(
        tuple(bound(one, risk=RiskLevel.UNKNOWN).action_digest for one in calls)
    )
    assert said(two, action="approve", expected_digest=view.action_digest)


def test_V1_the_view_says_who_asks_and_what_a_rejection_does() -> None:
    """The requester's roles when the task came in, and what the task says of a rejection."""
    story = Journal()
    story.submitted(roles=("submitter",), on_reject="continue")
    story.proposed([real("c1", path="farm", content="x")], "ask")
    story.reviewed("c1")
    view = hitl_response(story.task)
    assert (view.requester, view.requester_roles, view.on_reject) == ("alice", ("submitter",), "continue")


def test_E3_an_unknown_outcome_is_shown_with_its_verbs() -> None:
    """It is not approved; somebody says what became of it."""
    view = hitl_response(unknown().task)
    assert (view.reason, view.allowed_decisions) == ("outcome_unknown", ("check", "mark_done", "mark_failed", "retry"))
    assert view.tool_calls[0].state is CallState.OUTCOME_UNKNOWN


def test_a_task_that_waits_for_no_decision_has_no_view() -> None:
    """Nothing is open, or nothing is there at all."""
    for task in (AgentTask(task_id=TASK), Journal().submitted()):
        with pytest.raises(NotFound, match="waits for no decision"):
            hitl_response(task)


def test_D19_an_edited_call_is_shown_with_what_the_model_had_asked_for() -> None:
    """Where it turned stale and is shown again."""
    story = shown(real("c1", path="farm", content="old"))
    done(story, decisions=each(("c1", "edit"), args={"path": "farm", "content": "new"}))
    story.request_ended("stale", "c1")
    story.reviewed("c1", request_id="q2")
    (one,) = hitl_response(story.task).tool_calls
    assert one.args == {"path": "farm", "content": "new"}
    assert one.original_args == {"path": "farm", "content": "old"}


# -- its siblings -------------------------------------------------------------------------


def test_S4_what_its_siblings_did_is_shown_as_context() -> None:
    """Each call of the step that nobody is asked about, with its state and, where it ran, what came of it."""
    story = Journal()
    calls = [
        call("r", "cc_read", path="a"),
        call("w", index=1, path="b"),
        call("d", "cc_delete", index=2, path="c"),
        call("x", "cc_write", index=3, path="d"),
    ]
    story.proposed(calls, "allow", "ask", "deny", "ask")
    story.started("r")
    story.finished("r", text=LINE + "y" * 10_000)
    story.reviewed("w", "x")
    story.decided(decision("x"))
    view = hitl_response(story.task)
    assert [one.call_id for one in view.tool_calls] == ["w"]
    read, denied, approved = view.context
    assert [(one.tool, one.args, one.state.value) for one in view.context] == [
        ("cc_read", {"path": "a"}, "executed"),
        ("cc_delete", {"path": "c"}, "denied_by_policy"),
        ("cc_write", {"path": "d"}, "approved"),
    ]
    assert read.result is not None
    assert SECRET not in read.result
    assert "characters are not shown here" in read.result
    assert len(read.result) < 4_200
    assert (denied.result, approved.result) == ("Denied by policy: a rule says so", None)
    assert view.action_digest == "action-w", "context is no part of what is decided"


def test_V6_text_that_people_and_programs_wrote_is_marked_as_data() -> None:
    """The goal, the model's explanation and what siblings gave."""
    view = hitl_response(paused().task)
    assert view.informational == ("goal", "explanation", "context")
    assert set(view.informational) <= set(HitlResponse.model_fields)


def test_V1_a_request_that_no_model_made_says_who_did_and_for_whom() -> None:
    """The plan of an undo is the orchestrator's own word, and no data of a model's."""
    story = Journal()
    story.submitted(restores=Restoration(task_id="t0"), model=MODEL)
    restore = real("c1", "cc_restore", path="a", to="absent", found="f" * 64)
    story.add(facts.CallsProposed(explanation="1 put back.", calls=(restore,), evaluations=(verdict("ask"),)))
    story.reviewed("c1")
    view = hitl_response(story.task)
    assert view.explanation == "Planned by the orchestrator for alice: 1 put back."
    assert view.informational == ("goal", "context")


def test_V1_a_large_binary_file_is_shown_whole_in_one_line_and_can_be_approved_as_listed() -> None:
    """Both hashes stand there, they are what the decision is bound to, and nothing of it is cut."""
    before, after = "b" * 64, "a" * 64
    note = f"binary, 2,000,000 bytes, sha256 {before} -> binary, 1,999,999 bytes, sha256 {after}."
    restore = real("c1", "cc_restore", path="big.bin", to=after, found=before)
    story = looked_at(Observed(state={"big.bin": before}, note=note), restore)
    view = hitl_response(story.task, max_chars=LIST_CHARS)
    (one,) = view.tool_calls
    assert (one.truncated, one.observed.note, one.action_digest) == (False, note, "action-c1")
    must_have_seen("alice", story.task, ResumeRequest(action="approve"))


# -- without secrets ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        {"path": "farm", "content": LINE},
        {"path": "farm", "args": ["run", f"--password={SECRET.replace(' ', '')}", LINE]},
        {"path": "farm", "deep": {"er": [{"password": SECRET}]}},
        {"path": "ghp_A1b2C3d4E5A1b2C3d4E5A1b2C3d4E5A1b2C3d4E5.txt", "content": ""},
    ],
)
def test_V4_secrets_are_taken_out_at_every_depth_and_the_call_keeps_them(args: dict[str, Any]) -> None:
    """The view says that it is redacted; the stored call, and so what runs, is untouched and can be approved."""
    story = shown(real("c1", **args))
    before = story.task
    view = hitl_response(before)
    text = view.model_dump_json()
    assert view.redacted
    assert SECRET not in text
    assert SECRET.replace(" ", "") not in text
    assert "ghp_" not in text
    assert "[redacted " in text
    assert story.task is before
    assert story.record("c1").call.args == args
    assert (view.tool_calls[0].truncated, view.action_digest) == (False, story.record("c1").action_digest)


@pytest.mark.parametrize("where", ["diff", "source", "note", "goal", "explanation", "original"])
def test_V4_secrets_are_taken_out_wherever_they_stand(where: str) -> None:
    """In what was found, in the task, in what the model wrote and in what it had asked for."""
    texts = {where: LINE} if where in ("diff", "source", "note") else {}
    observed = Observed.model_validate({"state": {"farm": "absent"}, **texts})
    story = Journal()
    story.submitted(**({"prompt": LINE} if where == "goal" else {}))
    one = real("c1", path="farm", content=LINE if where == "original" else "x")
    story.proposed([one], "ask", **({"explanation": LINE} if where == "explanation" else {}))
    asked = requested("c1").model_copy(update={"observed": observed})
    request = facts.ReviewRequested(
        request_id=RequestId(REQUEST), reason="approval", calls=(asked,), risk=RiskLevel.LOW, policy_version="v1"
    )
    story.add(request)
    if where == "original":
        done(story, decisions=each(("c1", "edit"), args={"path": "farm", "content": "mine"}))
        story.request_ended("stale", "c1")
        story.add(request.model_copy(update={"request_id": RequestId("q2")}))
    view = hitl_response(story.task)
    assert view.redacted
    assert SECRET not in view.model_dump_json()


def test_V4_a_secret_has_another_mark_in_another_task() -> None:
    """The salt is the task's own word: the same mark says the same secret within one view only."""
    marks = set()
    for tag in ("maple", "birch"):
        story = Journal()
        story.submitted(tag=tag)
        story.proposed([real("c1", path="farm", content=LINE)], "ask")
        story.reviewed("c1")
        marks.add(hitl_response(story.task).tool_calls[0].args["content"])
    assert len(marks) == 2


# -- cut ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("observed", "args"),
    [
        (Observed(state={}), {"path": "farm", "content": LONG}),
        (Observed(state={}), {"path": "farm", "args": ["a", LONG]}),
        (Observed(state={}), {"path": "farm", "deep": {"er": LONG}}),
        (Observed(state={}, diff=LONG), {"path": "farm", "content": ""}),
        (Observed(state={}, source=LONG), {"path": "farm", "content": ""}),
        (Observed(state={}, note=LONG), {"path": "farm", "content": ""}),
    ],
)
def test_V3_what_was_cut_cannot_be_approved_from_the_view(observed: Observed, args: dict[str, Any]) -> None:
    """It says that it is cut and has no digest, nor has the whole; whole, the same call has both."""
    other = real("c2", index=1, path="b", content="short")
    story = looked_at(observed, real("c1", **args), other)
    view = hitl_response(story.task, max_chars=100)
    assert [(one.truncated, bool(one.action_digest)) for one in view.tool_calls] == [(True, False), (False, True)]
    assert view.action_digest == ""
    assert LONG not in view.model_dump_json()
    assert "characters are not shown here" in view.model_dump_json()
    whole = hitl_response(story.task)
    assert [(one.truncated, bool(one.action_digest)) for one in whole.tool_calls] == [(False, True)] * 2
    assert whole.action_digest
    assert story.record("c1").call.args == args


def test_V3_the_goal_may_be_cut_without_that() -> None:
    """It is context: what runs is shown whole."""
    story = Journal()
    story.submitted(prompt=LONG)
    story.proposed([real("c1", path="farm", content="x")], "ask", explanation=LONG)
    story.reviewed("c1")
    view = hitl_response(story.task, max_chars=100)
    assert LONG not in view.goal + view.explanation
    assert view.action_digest == "action-c1"
    exact = hitl_response(story.task, max_chars=len(LONG))
    assert (exact.goal, exact.explanation) == (LONG, LONG)


def test_the_texts_of_a_call_that_may_be_long() -> None:
    """Its own, and what was found; numbers and lists are none."""
    story = looked_at(
        Observed(state={}, diff="d", source="s"), real("c1", "cc_read", path="p", start_line=3, names=["n"])
    )
    assert list(texts_of(story.record("c1"))) == ["p", "d", "s"]
    proposed = Journal()
    proposed.proposed([real("c1", path="p", content="c")], "ask")
    assert list(texts_of(proposed.record("c1"))) == ["p", "c"]


def test_V3_what_is_cut_in_lists_is_approved_only_by_who_has_it_whole() -> None:
    """A digest or having fetched it shows that; what lets nothing run needs neither, nor does what is short."""
    story = shown(real("c1", path="a", content="x" * (LIST_CHARS + 1)), real("c2", index=1, path="b", content="y"))
    approves = ResumeRequest(action="approve")
    with pytest.raises(InvalidDecision, match="cannot be approved unseen"):
        must_have_seen("alice", story.task, approves)
    must_have_seen("alice", story.task, ResumeRequest(action="reject"))
    must_have_seen("alice", story.task, ResumeRequest(action="approve", expected_digest="d"))
    for one in ({"call_id": "c2", "action": "approve"}, {"call_id": "c1", "action": "approve", "expected_digest": "d"}):
        must_have_seen("alice", story.task, ResumeRequest.model_validate({"decisions": [one]}))
    viewed = facts.ReviewNoted(what="viewed", request_id=RequestId(REQUEST))
    story.add(viewed, by=person("alice"))
    must_have_seen("alice", story.task, approves)
    must_have_seen("bob", Journal().task, approves)
