"""Every phase with every kind of fact, and what each fact makes of a task and its calls."""

from datetime import timedelta
from typing import Any

import pytest

from orchestrator.core.approval.approval import CallState
from orchestrator.core.errors import InvalidDecision
from orchestrator.core.task import facts
from orchestrator.core.task.effects import AskModel, PlanRestoration, next_effects
from orchestrator.core.task.facts import BlobRef, CallId, Fact, QuestionId, RequestId, TaskId
from orchestrator.core.task.fold import can_follow, evolve, fold, preview, sealed
from orchestrator.core.task.fold_review import rejection_text
from orchestrator.core.task.items import Actor, AgentTaskItem, Draft, ItemId, seal
from orchestrator.core.task.states import PHASE_TABLE, Phase, TaskStatus
from orchestrator.core.task.task import AgentTask, CallRecord, Turn
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import RunId
from tests.core.golden_items import EXAMPLES, KINDS
from tests.core.journal import (
    NOW,
    REQUEST,
    TASK,
    Journal,
    call,
    decision,
    digest_of,
    person,
    requested,
    start_of,
    verdict,
)

# -- every phase with every kind ----------------------------------------------------------

STEP = [
    call("read", "cc_read", index=0, path="a"),
    call("write", index=1, path="farm", content="x"),
    call("ask", "ask_user", index=2, computer=None, question="Which?"),
    call("status", "send_status", index=3, computer=None, message="hm"),
    call("again", "ask_user", index=4, computer=None, question="Sure?"),
    call("other", index=5, path="barn", content="y"),
    call("third", index=6, path="shed", content="z"),
]


def in_phase(phase: Phase) -> Journal:
    """A task that is in the phase, with calls that any working fact of this file fits."""
    story = Journal()
    if phase is Phase.NEW:
        return story
    story.submitted()
    if phase is Phase.QUEUED:
        return story
    story.asked()
    if phase is Phase.ASKED:
        return story
    if phase is Phase.WAITING:
        story.awaited()
        return story
    story.replied()
    if phase is Phase.REPLIED:
        return story
    if phase is Phase.THINKING:
        story.add(facts.ReplyRefused(reason="empty"))
        return story
    verdicts = tuple(verdict(effect) for effect in ("allow", "ask", "allow", "allow", "allow", "allow", "ask"))
    story.add(facts.CallsProposed(explanation="e", calls=tuple(STEP), evaluations=verdicts))
    story.started("read")
    if phase is Phase.REVIEWING:
        story.reviewed("write")
        story.question("ask")
    elif phase is Phase.ANSWERING:
        story.question("ask")
    elif phase is Phase.ENDED:
        story.ended()
    return story


def fact_of(kind: str, story: Journal) -> Fact:
    """A fact of the kind that fits the calls of `in_phase`."""
    read, other = CallId("read"), story.task.call(CallId("other"))
    run_id = RunId("read.1")
    made: dict[str, Fact] = {
        "task_submitted": facts.TaskSubmitted(prompt="p", user_id="u", session_id="s", model="m", max_steps=1, tag="t"),
        "model_asked": facts.ModelAsked(attempt=1, prompt_version="1", policy_version="v", view_digest="d"),
        "model_replied": facts.ModelReplied(raw=BlobRef(sha256="b" * 64, size=1), done_reason="stop"),
        "reply_refused": facts.ReplyRefused(reason="empty"),
        "calls_proposed": facts.CallsProposed(explanation="", calls=(STEP[0],), evaluations=(verdict("allow"),)),
        "review_requested": facts.ReviewRequested(
            request_id=RequestId("q9"),
            reason="approval",
            calls=(requested("third"),),
            risk=verdict().risk,
            policy_version="v",
        ),
        "decision_recorded": facts.DecisionRecorded(request_id=REQUEST_ID, decisions=(decision("write"),)),
        "request_ended": facts.RequestEnded(request_id=None, end="superseded", call_ids=(CallId("other"),)),
        "tool_started": start_of(other) if other else facts.ToolStarted(call_id=read, run_id=run_id, action_digest="d"),
        "tool_finished": facts.ToolFinished(call_id=read, run_id=run_id, ok=True, text="t"),
        "tool_settled": facts.ToolSettled(call_id=read, run_id=run_id, state="finished", ok=True),
        "question_asked": facts.QuestionAsked(question_id=QuestionId("u9"), call_id=CallId("again"), question="?"),
        "question_answered": facts.QuestionAnswered(question_id=QuestionId("u1"), answer="a"),
        "status_sent": facts.StatusSent(call_id=CallId("status"), message="hm"),
        "cancel_requested": facts.CancelRequested(reason="enough"),
        "limit_reached": facts.LimitReached(limit="max_steps"),
        "task_ended": facts.TaskEnded(status="Failed", status_reason="r"),
        "review_noted": facts.ReviewNoted(what="viewed", request_id=REQUEST_ID),
        "undo_submitted": facts.UndoSubmitted(undo_task_id=TaskId("t-undo")),
    }
    return made.get(kind) or next(fact for _, fact in EXAMPLES if fact.kind == kind)


REQUEST_ID = RequestId(REQUEST)
PINS = {"task_pinned": "same", "task_unpinned": "same", "work_failed": "same"}
ANYTIME = {**PINS, "work_frozen": "same", "cancel_requested": "same", "task_ended": "ended"}
WORK = {
    "request_ended": "same",
    "review_noted": "same",
    "tool_started": "same",
    "tool_finished": "same",
    "tool_settled": "same",
    "status_sent": "same",
}
LEADS_TO: dict[str, dict[str, str]] = {
    "new": {"task_submitted": "queued"},
    "queued": {**ANYTIME, "checks_begun": "same", "model_asked": "asked", "limit_reached": "same"},
    "thinking": {**ANYTIME, "model_asked": "asked", "limit_reached": "same"},
    "asked": {
        **ANYTIME,
        "model_asked": "same",
        "model_awaited": "waiting",
        "model_replied": "replied",
        "limit_reached": "same",
    },
    "waiting": {**ANYTIME, "model_asked": "asked", "limit_reached": "same"},
    "replied": {
        **ANYTIME,
        "checks_judged": "same",
        "reply_refused": "thinking",
        "calls_proposed": "acting",
        "limit_reached": "same",
    },
    "acting": {
        **ANYTIME,
        **WORK,
        "limit_reached": "same",
        "review_requested": "reviewing",
        "question_asked": "answering",
    },
    "reviewing": {
        **ANYTIME,
        **WORK,
        "question_asked": "same",
        "question_answered": "same",
        "decision_recorded": "answering",
    },
    "answering": {
        **ANYTIME,
        **WORK,
        "review_requested": "reviewing",
        "question_asked": "same",
        "question_answered": "acting",
        "limit_reached": "same",
    },
    "ended": {
        **PINS,
        **dict.fromkeys(("tool_finished", "tool_settled", "undo_submitted", "rehearsal_ended"), "same"),
    },
}
"""Written out once more, so that the table in the code cannot drift unseen. In `reviewing` a question is open too."""


def test_a_wait_for_the_model_server_is_counted_apart_from_the_work() -> None:
    """Its seconds are no time of the task; all waits since the last reply count together, and a reply ends them."""
    story = Journal()
    story.submitted()
    story.asked(1)
    story.asked(2)
    story.awaited("http://a")
    worked = story.task.active_s
    assert (story.task.status, story.task.status_reason) == (
        TaskStatus.RUNNING,
        "waiting for the model server at http://a",
    )
    assert story.task.updated_at is not None
    assert story.task.waited_until(story.task.updated_at + timedelta(seconds=60)) == 60
    assert story.task.active_until(story.task.updated_at + timedelta(seconds=60)) == worked
    assert next_effects(story.task) == (AskModel(3),)
    story.asked(3)
    assert story.task.status_reason == ""
    assert story.task.waited_s > 0
    assert story.task.active_s == worked
    first = story.task.waited_s
    story.awaited("http://b")
    assert (story.task.waits, story.task.excused, story.task.attempt) == (2, 3, 3)
    story.asked(4)
    assert story.task.waited_s > first
    assert story.task.active_s > worked
    story.replied()
    assert (story.task.waits, story.task.excused, story.task.attempt, story.task.waited_s) == (0, 0, 0, 0.0)
    assert (story.task.awaited, story.task.awaited_at) == (None, None)


def test_only_what_puts_files_back_proposes_calls_without_a_reply() -> None:
    """Round after round, and each plan is a step."""
    story = Journal()
    story.submitted(restores=Restoration(task_id="t0"))
    for step in (1, 2):
        assert next_effects(story.task) == (PlanRestoration(),)
        name = f"r{step}"
        proposed = call(name, "cc_restore", path="a", to="absent")
        story.add(facts.CallsProposed(explanation="", calls=(proposed,), evaluations=(verdict("allow"),)))
        story.started(name)
        story.finished(name)
        assert (story.task.phase, story.task.steps) == (Phase.THINKING, step)


def test_what_the_system_submits_for_a_program_is_no_person_s() -> None:
    """A person of the program's name is somebody else: the task is not theirs."""
    of_program, of_person = Journal(), Journal()
    of_program.submitted(user_id="ci", for_program=True)
    of_person.submitted(user_id="ci")
    assert (of_program.task.by_program, of_program.task.is_of("ci")) == (True, False)
    assert (of_person.task.by_program, of_person.task.is_of("ci")) == (False, True)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("kind", [model.model_fields["kind"].default for model in KINDS])
def test_every_phase_with_every_kind_of_fact(phase: Phase, kind: str) -> None:
    """A fact that may happen leads where the table says; any other is refused and names fact, version and phase."""
    story = in_phase(phase)
    assert story.task.phase is phase
    fact = fact_of(kind, story)
    target = LEADS_TO[phase.value].get(kind)
    assert can_follow(story.task, fact) is (target is not None)
    planned = kind == "calls_proposed" and phase in (Phase.QUEUED, Phase.THINKING)
    assert (kind in PHASE_TABLE[phase]) is (target is not None or planned)
    before = story.task
    if target is None:
        with pytest.raises(InvalidDecision, match=f"A {kind} of version .* cannot follow in phase {phase.value}"):
            evolve(story.task, story.sealed(fact))
        assert story.task is before
    else:
        after = evolve(before, story.sealed(fact))
        assert after.phase.value == (phase.value if target == "same" else target)
        assert after.version == before.version + 1


@pytest.mark.parametrize(
    ("phase", "status"),
    [
        ("new", "Queued"),
        ("queued", "Queued"),
        ("thinking", "Running"),
        ("asked", "Running"),
        ("replied", "Running"),
        ("acting", "Running"),
        ("reviewing", "Paused"),
        ("answering", "Paused"),
        ("ended", "Canceled"),
    ],
)
def test_the_status_of_each_phase(phase: str, status: str) -> None:
    """The five public statuses and Queued; an ended task has the one that it ended with."""
    assert in_phase(Phase(phase)).task.status == status
    for end in ("Completed", "Failed", "Canceled"):
        story = in_phase(Phase.QUEUED)
        story.ended(end, "why")
        assert (story.task.status, story.task.status_reason) == (end, "why")


def test_S1_the_status_reason_says_what_is_waited_for() -> None:
    """Waiting for approval, for an answer, for somebody to look at an unknown outcome, or for nothing."""
    story = in_phase(Phase.ACTING)
    assert story.task.status_reason == ""
    assert in_phase(Phase.ANSWERING).task.status_reason == "waiting for an answer"
    assert in_phase(Phase.REVIEWING).task.status_reason == "waiting for approval"
    story.settled("read", "unknown")
    story.reviewed("read", reason="outcome_unknown")
    assert (story.task.status, story.task.status_reason) == (TaskStatus.PAUSED, "outcome_unknown")


@pytest.mark.parametrize("version", [0, 1, 3])
def test_an_item_follows_only_at_the_next_version(version: int) -> None:
    """A gap or a repeat in the versions is refused, even where the kind of fact would fit."""
    story = in_phase(Phase.QUEUED)
    item = story.sealed(fact_of("cancel_requested", story)).model_copy(update={"version": version})
    with pytest.raises(InvalidDecision, match=f"of version {version} cannot follow"):
        evolve(story.task, item)


def test_fold_is_evolve_over_items() -> None:
    """From scratch or onward from a task, the same; of nothing there is no task."""
    story = in_phase(Phase.REVIEWING)
    assert fold(story.items) == story.task
    assert fold(story.items[3:], fold(story.items[:3])) == story.task
    assert fold([], story.task) is story.task
    with pytest.raises(InvalidDecision, match="at least one item"):
        fold([])


def test_preview_tells_what_drafts_would_make_of_the_task() -> None:
    """All of the future task but its hash, without sealing anything."""
    story = in_phase(Phase.QUEUED)
    asked, ended = fact_of("model_asked", story), fact_of("task_ended", story)
    drafts = [Draft(item_id=ItemId(f"x{n}"), at=NOW, actor=person("a"), fact=f) for n, f in enumerate((asked, ended))]
    assert preview(story.task, []) is story.task
    assert preview(story.task, drafts[:1]).phase is Phase.ASKED
    future = preview(story.task, drafts)
    assert (future.version, future.status, story.task.version) == (3, TaskStatus.FAILED, 1)
    with pytest.raises(InvalidDecision):
        preview(story.task, [drafts[1], drafts[0]])


def test_a_preview_that_was_sealed_is_the_fold() -> None:
    """What only the store knows comes in with the items: the hash, and the number of a run that was started."""
    story = in_phase(Phase.REPLIED)
    calls = (call("look", "cc_read", path="a"), call("write", index=1, path="b", content="x"))
    proposed = facts.CallsProposed(explanation="e", calls=calls, evaluations=(verdict("allow"), verdict("ask")))
    after = preview(story.task, [_draft(0, proposed)])
    drafts = [_draft(0, proposed), _draft(1, start_of(after.calls[0], number=0)), _draft(2, facts.CancelRequested())]
    items: list[AgentTaskItem] = []
    for number, draft in enumerate(drafts):
        head, own = (items or [story.items[-1]])[-1].hash, 9 if number == 1 else None
        items.append(seal(draft, task_id=TASK, version=story.task.version + number + 1, prev_hash=head, number=own))
        assert sealed(preview(story.task, drafts[: number + 1]), items) == fold(items, story.task)
    assert fold(items, story.task).calls[0].number == 9


def _draft(number: int, fact: Fact) -> Draft:
    return Draft(item_id=ItemId(f"x{number}"), at=NOW, actor=person("a"), fact=fact)


# -- what facts make of a task ------------------------------------------------------------


def test_a_submission_is_the_task() -> None:
    """Everything that was asked for, by whom and when."""
    story = Journal()
    story.submitted(prompt="p", user_id="bob", session_id="s", max_steps=3, priority=2, tag="oak", on_reject="continue")
    task = story.task
    assert (task.prompt, task.user_id, task.session_id, task.max_steps) == ("p", "bob", "s", 3)
    assert (task.priority, task.tag, task.on_reject, task.computers, task.model) == (
        2,
        "oak",
        "continue",
        ("3",),
        "scripted",
    )
    assert task.created_at == task.updated_at == NOW + timedelta(seconds=1)
    assert task.head_hash == story.items[-1].hash
    story.asked()
    assert (task.created_at, story.task.updated_at) == (NOW + timedelta(seconds=1), NOW + timedelta(seconds=2))


def test_steps_count_replies_and_attempts_count_requests() -> None:
    """A reply is a step and starts the attempts anew; unreadable ones in a row are counted until one is taken."""
    story = in_phase(Phase.QUEUED)
    story.asked(1)
    story.asked(2)
    assert (story.task.attempt, story.task.steps) == (2, 0)
    story.replied("c" * 64, "length")
    assert (story.task.attempt, story.task.steps, story.task.done_reason) == (0, 1, "length")
    assert story.task.reply == BlobRef(sha256="c" * 64, size=2)
    story.add(facts.ReplyRefused(reason="one"))
    after = story.task
    assert (after.refusals, after.reply is None) == (1, True)
    assert after.turns == (Turn(raw=BlobRef(sha256="c" * 64, size=2), refused="one"),)
    story.asked()
    story.replied()
    story.add(facts.ReplyRefused(reason="two"))
    assert (story.task.refusals, story.task.steps) == (2, 2)
    story.proposed(STEP[:1], "allow")
    assert story.task.refusals == 0


def test_a_proposal_judges_each_call() -> None:
    """Allowed, to be shown, or denied with the reason as its result; a step of nothing but denials is over at once."""
    story = Journal()
    story.proposed(STEP[:3], "allow", "ask", "deny", explanation="why")
    states = [(one.state, one.ok, one.result) for one in story.task.calls]
    assert states == [
        (CallState.ALLOWED, None, None),
        (CallState.PROPOSED, None, None),
        (CallState.DENIED, False, "Denied by policy: a rule says so"),
    ]
    assert (story.task.explanation, story.task.phase) == ("why", Phase.ACTING)
    denied = Journal()
    denied.proposed(STEP[:1], "deny")
    assert denied.task.phase is Phase.THINKING
    assert denied.task.turns[-1].results == (("cc_read", "Denied by policy: a rule says so"),)


def test_S1_a_request_shows_its_calls_and_pauses_the_task() -> None:
    """What was observed, the verdict and the digest are kept with the call that waits."""
    story = Journal()
    story.proposed(STEP[:3], "allow", "ask", "ask")
    story.reviewed("write", "ask", expires_at=NOW + timedelta(hours=1))
    request = story.task.request
    assert request is not None
    assert (request.request_id, request.call_ids, request.reason) == (REQUEST, ("write", "ask"), "approval")
    assert (request.created_at, request.expires_at) == (story.task.updated_at, NOW + timedelta(hours=1))
    assert [one.call_id for one in story.task.pending_tool_calls] == ["write", "ask"]
    record = story.record("write")
    assert (record.state, record.request_id, record.action_digest) == (CallState.PENDING, REQUEST, digest_of("write"))
    assert record.observed == requested("write").observed
    assert story.task.status is TaskStatus.PAUSED


def test_D5_a_partial_decision_leaves_the_rest_open() -> None:
    """The decided call moves, the request stays open for the others, and closes with the last."""
    story = Journal()
    story.proposed(STEP[:3], "allow", "ask", "ask")
    story.reviewed("write", "ask")
    story.decided(decision("write"), key="k1")
    assert story.task.request is not None
    assert (story.task.request.call_ids, story.task.phase) == (("ask",), Phase.REVIEWING)
    assert story.record("write").state is CallState.APPROVED
    after = story.decided(decision("ask", "reject", reason="no", on_reject="continue"), by="bob")
    assert (after.request, after.phase) == (None, Phase.ACTING)
    first, second = after.closed
    assert (first.how, first.actor_id, first.key) == ("approved by alice", "alice", "k1")
    assert (second.how, second.actor_id, second.decisions[0].reason) == ("rejected by bob", "bob", "no")


def test_D7_a_mixed_decision_names_all_its_verbs() -> None:
    """Approve and reject in one decision are both named to whoever comes later."""
    story = Journal()
    story.proposed(STEP[:2], "ask", "ask")
    story.reviewed("read", "write")
    story.decided(decision("write", "reject"), decision("read"))
    assert story.task.closed[-1].how == "approved and rejected by alice"


def test_D13_a_rejection_is_a_result_and_is_remembered() -> None:
    """The call did not run, the model gets the sentence, and the task remembers the digest and the reason."""
    story = Journal()
    story.proposed(STEP[:2], "ask", "ask")
    story.reviewed("read", "write")
    story.decided(decision("read"), decision("write", "reject", reason="not there"))
    record = story.record("write")
    assert (record.state, record.ok) == (CallState.REJECTED, False)
    assert record.result == rejection_text("not there")
    assert story.task.rejections == (("call-write", "not there"),)


def test_D14_the_text_of_a_rejection() -> None:
    """A person said no, the call did not run, and the reason is quoted as data."""
    assert rejection_text('rm is "evil"') == (
        "A person rejected this call and it did not run. Their answer, as data: "
        '{"status": "rejected", "by": "human", "reason": "rm is \\"evil\\""} Do not make the same call again.'
    )
    assert "They gave no reason." in rejection_text("")


@pytest.mark.parametrize(
    ("end", "state", "result"),
    [
        ("expired", "expired", "This call did not run: so it is"),
        ("superseded", "superseded", "This call did not run: so it is"),
        ("stale", "stale", None),
        ("canceled", "canceled", None),
    ],
)
def test_O2_a_request_that_ends_without_a_decision(end: str, state: str, result: str | None) -> None:
    """Each end has its state; what was shown no longer binds; the model hears that it did not run, never "denied"."""
    story = Journal()
    story.proposed(STEP[:2], "allow", "ask")
    story.reviewed("write")
    story.request_ended(end, "write")
    record = story.record("write")
    assert (record.state, record.result, record.ok) == (state, result, False if result else None)
    assert (record.observed, record.action_digest) == (None, None)
    assert story.task.request is None
    assert (story.task.closed[-1].how, story.task.closed[-1].decisions) == (end, ())


def test_a_request_that_ends_for_one_call_stays_open_for_the_others() -> None:
    """An approved call that turned stale takes no decision away from the calls that still wait for one."""
    story = Journal()
    story.proposed(STEP[:2], "ask", "ask")
    story.reviewed("read", "write")
    story.decided(decision("read"))
    story.request_ended("stale", "read")
    assert story.task.request is not None
    assert (story.task.request.call_ids, story.task.phase) == (("write",), Phase.REVIEWING)
    assert story.record("write").state is CallState.PENDING
    assert story.request_ended("superseded", "write").request is None
    assert story.record("read").state is CallState.STALE


def test_an_allowance_that_ends_touches_no_request() -> None:
    """A call that the policy had allowed and that is stopped closes no request of its siblings."""
    story = Journal()
    story.proposed(STEP[:2], "allow", "ask")
    story.reviewed("write")
    story.request_ended("superseded", "read", of=None)
    assert story.task.request is not None
    assert (story.record("read").state, story.task.closed) == (CallState.SUPERSEDED, ())


def running(tool: str = "cc_write", effect: str = "ask", **args: Any) -> Journal:
    """A task with a started call `c1`, approved if the policy asks, and a sibling that is not done."""
    story = Journal()
    story.proposed([call("c1", tool, **args), call("c2", index=1, path="barn")], effect, "ask")
    if effect == "ask":
        story.reviewed("c1")
        story.decided(decision("c1"))
    story.started("c1")
    return story


def test_a_start_opens_the_bracket() -> None:
    """Run id, number and what was found before are kept; the next run would have another id."""
    story = running()
    record = story.record("c1")
    assert (record.state, record.run_id, record.runs, record.number) == (CallState.EXECUTING, "c1.1", 1, 7)
    assert (record.before, record.next_run_id) == ({"farm": "absent"}, "c1.2")
    assert story.task.open_runs == (record,)


@pytest.mark.parametrize(("ok", "state"), [(True, "executed"), (False, "failed")])
def test_E2_an_outcome_closes_the_bracket(ok: bool, state: str) -> None:
    """Finished, by the call itself or by settling: the outcome and its text."""
    for story, how in ((running(), "finished"), (running(), "settled")):
        if how == "finished":
            story.finished("c1", ok=ok, text="so it went")
        else:
            story.settled("c1", "finished", ok=ok, text="so it went")
        record = story.record("c1")
        assert (record.state, record.ok, record.result) == (state, ok, "so it went")
        assert story.task.open_runs == ()


def test_B3_a_stale_outcome_asks_the_person_again() -> None:
    """The file had changed under an approved write: not run, no longer approved, to be shown again."""
    heard, settled = running(), running()
    heard.finished("c1", ok=False, code="stale", text="it changed")
    settled.settled("c1", "finished", ok=False, text="it changed", code="stale")
    for story in (heard, settled):
        record = story.record("c1")
        assert (record.state, record.observed, record.action_digest) == (CallState.STALE, None, None)
        assert record.result is None


def test_a_stale_outcome_of_an_allowed_call_is_a_failure() -> None:
    """Nobody had approved it, so nobody is asked: the model hears that the file changed."""
    heard, settled = running("cc_write", "allow"), running("cc_write", "allow")
    heard.finished("c1", ok=False, code="stale", text="it changed")
    settled.settled("c1", "finished", ok=False, text="it changed", code="stale")
    for story in (heard, settled):
        assert (story.record("c1").state, story.record("c1").result) == (CallState.FAILED, "it changed")


@pytest.mark.parametrize(("effect", "state"), [("ask", "approved"), ("allow", "allowed")])
def test_a_void_run_gives_the_allowance_back(effect: str, state: str) -> None:
    """It never ran: the approval is not consumed, what was shown still binds, the next run has a new id."""
    story = running(effect=effect)
    story.settled("c1", "void", reason="busy")
    record = story.record("c1")
    assert (record.state, record.runs, record.next_run_id) == (state, 1, "c1.2")
    assert record.action_digest == digest_of("c1")
    for expected in ("c1.2", "c1.3", "c1.4"):
        story.started("c1")
        assert story.record("c1").run_id == expected
        story.settled("c1", "void")


@pytest.mark.parametrize(
    ("tool", "state"),
    [
        ("cc_read", "approved"),
        ("local_read", "approved"),
        ("cc_write", "outcome_unknown"),
        ("cc_run_program", "outcome_unknown"),
        ("tool_of_tomorrow", "outcome_unknown"),
    ],
)
def test_E2_an_interrupted_call(tool: str, state: str) -> None:
    """A pure call runs again under a new id; any other, and one nobody knows, is unknown, with the reason kept."""
    story = running(tool)
    story.settled("c1", "interrupted", reason="it rebooted")
    assert (story.record("c1").state, story.record("c1").note) == (state, "it rebooted")


def test_E3_unknown_is_a_state_and_never_failed() -> None:
    """An outcome that nobody can vouch for has no result and no verdict until a person says."""
    story = running("cc_read")
    story.settled("c1", "unknown", reason="somebody took the place")
    record = story.record("c1")
    assert (record.state, record.ok, record.result) == (CallState.OUTCOME_UNKNOWN, None, None)


def unknown() -> Journal:
    """A call with an unknown outcome, shown to a person."""
    story = running()
    story.settled("c1", "unknown", reason="rebooted")
    story.reviewed("c1", request_id="q2", reason="outcome_unknown")
    return story


@pytest.mark.parametrize(("verb", "state", "ok"), [("mark_done", "executed", True), ("mark_failed", "failed", False)])
def test_E3_a_person_says_what_became_of_it(verb: Any, state: str, ok: bool) -> None:
    """Marked done or failed: the model hears who looked and that the outcome had been unknown."""
    story = unknown()
    story.decided(decision("c1", verb), by="bob", of="q2")
    record = story.record("c1")
    said = "was done" if ok else "was not done"
    assert (record.state, record.ok) == (state, ok)
    assert record.result == f"The outcome was unknown; bob looked and says that it {said}."
    assert story.task.closed[-1].how == ("marked done by bob" if ok else "marked failed by bob")


def test_E3_a_check_asks_again() -> None:
    """Checked: still unknown and no request open, so that the next look is shown in a new one."""
    story = unknown()
    story.decided(decision("c1", "check"), of="q2")
    record = story.record("c1")
    assert (record.state, record.request_id, story.task.request) == (CallState.OUTCOME_UNKNOWN, None, None)
    assert story.task.closed[-1].how == "checked by alice"


def test_E3_a_retry_is_a_new_call_in_the_same_place() -> None:
    """It has a new id, no approval and no history of runs, and stands where the old one stood."""
    story = unknown()
    story.decided(decision("c1", "retry", retry_as=CallId("c9")), of="q2")
    assert [one.call_id for one in story.task.calls] == ["c9", "c2"]
    again = story.record("c9")
    assert again == CallRecord(call=again.call, evaluation=again.evaluation, state=CallState.PROPOSED)
    assert (again.call.tool, again.call.index, again.next_run_id) == ("cc_write", 0, "c9.1")
    assert story.task.call(CallId("c1")) is None
    assert story.task.closed[-1].how == "retried by alice"


def test_the_first_outcome_wins() -> None:
    """A second outcome, or one of an earlier run, changes nothing but the version."""
    story = running()
    story.settled("c1", "void")
    story.started("c1")
    before = story.task.calls
    for late in (
        facts.ToolFinished(call_id=CallId("c1"), run_id=RunId("c1.1"), ok=True, text="late"),
        facts.ToolSettled(call_id=CallId("c1"), run_id=RunId("c1.1"), state="unknown"),
    ):
        story.add(late)
        assert story.task.calls == before
    story.finished("c1", text="first")
    before = story.task.calls
    story.finished("c1", ok=False, text="second")
    story.settled("c1", "unknown")
    assert story.task.calls == before
    assert story.record("c1").result == "first"


@pytest.mark.parametrize("settled", [False, True])
def test_the_program_that_ran_is_kept_with_its_call(settled: bool) -> None:
    """Heard at once or at settling: the call's record says what ran and how it ended."""
    story = running()
    ran = facts.Ran(path="a.lua", sha256="e" * 64, ended="error", seconds=1.5)
    assert story.record("c1").ran is None
    ended: dict[str, Any] = {"call_id": CallId("c1"), "run_id": RunId("c1.1"), "ok": False, "text": "no", "ran": ran}
    story.add(facts.ToolSettled(state="finished", **ended) if settled else facts.ToolFinished(**ended))
    assert story.record("c1").ran == ran


def test_D11_an_outcome_after_the_end_is_recorded() -> None:
    """A call that was running when the task was canceled gets its outcome, and the task stays ended."""
    story = running()
    story.ended()
    assert len(story.task.open_runs) == 1
    after = story.finished("c1", text="done after all")
    assert (after.phase, len(after.open_runs), story.record("c1").result) == (Phase.ENDED, 0, "done after all")


def test_questions_and_status() -> None:
    """A question waits and its answer is the call's result; a status is sent and done."""
    story = Journal()
    story.proposed(STEP[1:4], "ask", "allow", "allow")
    story.question("ask")
    assert (story.record("ask").state, story.record("ask").question_id) == (CallState.ASKING, "u1")
    story.add(facts.StatusSent(call_id=CallId("status"), message="hm"))
    assert (story.record("status").state, story.record("status").result) == (CallState.EXECUTED, "Status sent.")
    story.answered()
    record = story.record("ask")
    assert (record.state, record.ok, record.result) == (CallState.ANSWERED, True, "the wheat")


def test_a_question_can_be_answered_while_a_request_is_open() -> None:
    """An approved ask_user asks beside a request that still waits: its answer is taken, the request stays."""
    story = Journal()
    story.proposed(STEP[1:3], "ask", "ask")
    story.reviewed("write", "ask")
    story.decided(decision("ask"))
    story.question("ask")
    assert story.task.phase is Phase.REVIEWING
    story.answered()
    assert (story.record("ask").state, story.task.phase) == (CallState.ANSWERED, Phase.REVIEWING)


def test_a_second_request_is_refused_while_one_is_open() -> None:
    """At most one request is open: a second would leave the calls of the first without anybody to decide."""
    story = Journal()
    story.proposed(STEP[:2], "ask", "ask")
    story.reviewed("read")
    with pytest.raises(InvalidDecision, match=r"review_requested .* cannot follow"):
        story.reviewed("write", request_id="q2")


def test_facts_about_strangers_are_refused() -> None:
    """A fact about a call or a question that the step does not have is refused, not ignored."""
    story = in_phase(Phase.ANSWERING)
    for fact in (
        facts.StatusSent(call_id=CallId("nobody"), message="hm"),
        facts.ToolFinished(call_id=CallId("nobody"), run_id=RunId("r"), ok=True, text=""),
        facts.QuestionAnswered(question_id=QuestionId("nobody"), answer=""),
    ):
        with pytest.raises(InvalidDecision, match=r"has no (call|question) 'nobody'"):
            evolve(story.task, story.sealed(fact))
    with pytest.raises(InvalidDecision, match="proposed cannot take 'start'"):
        evolve(story.task, story.sealed(start_of(story.record("write"))))


def test_S5_results_go_back_in_the_order_of_the_calls() -> None:
    """Whatever the order in which calls end, the turn has them as the model made them; what has no text is empty."""
    story = Journal()
    story.proposed(STEP[:3], "allow", "allow", "ask")
    story.started("read")
    story.started("write")
    story.request_ended("canceled", "ask", of=None)
    story.finished("write", text="second")
    story.finished("read", text="first")
    assert story.task.phase is Phase.THINKING
    turn = story.task.turns[-1]
    assert turn.results == (("cc_read", "first"), ("cc_write", "second"), ("ask_user", ""))
    assert (turn.raw.sha256, turn.refused) == ("b" * 64, None)
    assert (story.task.calls, story.task.reply) == ((), None)


def test_a_cancel_is_remembered_and_an_end_closes_the_request() -> None:
    """The reason of a cancel stays with the task; an ended task has no open request."""
    story = in_phase(Phase.REVIEWING)
    story.add(facts.CancelRequested(reason="enough"))
    assert (story.task.cancel_reason, story.task.phase) == ("enough", Phase.REVIEWING)
    story.ended("Canceled", "canceled", message="enough")
    assert story.task.ended is not None
    assert (story.task.request, story.task.ended.message, story.task.phase) == (None, "enough", Phase.ENDED)


def test_a_record_knows_whether_it_changes_something() -> None:
    """By the catalog; a tool outside it counts as if it did."""
    changing = {one.call.tool: one.mutates for one in in_phase(Phase.ACTING).task.calls}
    assert changing == {"cc_read": False, "cc_write": True, "ask_user": False, "send_status": False}
    stranger = CallRecord(call=call("c", "tool_of_tomorrow"), evaluation=verdict(), state=CallState.ALLOWED)
    assert stranger.mutates


def test_a_task_without_items_is_new() -> None:
    """Version 0, queued, with nothing to decide and no runs."""
    task = AgentTask(task_id=TASK)
    assert (task.version, task.status, task.pending_tool_calls, task.open_runs) == (0, TaskStatus.QUEUED, (), ())


def test_time_that_counts_is_not_the_queue_and_not_a_person() -> None:
    """From the first request to the model on; what waits for a decision or an answer stands still."""
    story = Journal()
    story.submitted(max_wall_s=60)
    assert story.task.active_until(NOW + timedelta(hours=1)) == 0
    story.asked()
    story.replied()
    assert story.task.active_s == 1
    story.add(facts.CallsProposed(explanation="", calls=(call("c0"),), evaluations=(verdict("ask"),)))
    story.reviewed("c0")
    assert story.task.active_s == 3
    assert story.task.active_until(NOW + timedelta(hours=1)) == 3
    story.decided(decision("c0"))
    assert story.task.active_s == 3
    assert story.task.updated_at is not None
    assert story.task.active_until(story.task.updated_at + timedelta(seconds=5)) == 8
    assert story.task.active_until(story.task.updated_at - timedelta(seconds=5)) == 3, "a clock that went back"
    assert AgentTask(task_id=story.task.task_id, phase=Phase.THINKING).active_until(NOW) == 0


@pytest.mark.parametrize(("auth", "asked_at"), [("computer:reactor", "reactor"), ("token", ""), ("", "")])
def test_a_task_knows_at_which_computer_it_was_asked(auth: str, asked_at: str) -> None:
    """By how its requester was known; a person with a token asked at none."""
    story = Journal()
    fact = facts.TaskSubmitted(prompt="p", user_id="alice", session_id="s", model="m", max_steps=1, tag="t")
    story.add(fact, by=Actor(kind="person", id="alice", auth=auth))
    assert story.task.asked_at == asked_at
    story.asked()
    assert story.task.asked_at == asked_at


def test_tokens_add_up() -> None:
    """In and out, of every reply, the unreadable ones too."""
    story = Journal()
    story.submitted(max_tokens=100)
    for usage in (facts.Usage(input_tokens=10, output_tokens=5), facts.Usage(output_tokens=2)):
        story.asked()
        story.add(facts.ModelReplied(raw=BlobRef(sha256="b" * 64, size=1), done_reason="stop", usage=usage))
        story.add(facts.ReplyRefused(reason="empty"))
    assert story.task.tokens == 17
    assert story.task.max_tokens == 100


def test_a_task_only_looked_as_long_as_no_call_may_change_anything() -> None:
    """Finished steps count and the present one; checks are in no step, so a task that has some may have run one."""
    looks, writes = (call("c0", "cc_read", path="a"),), (call("c1", path="a", content="x"),)
    story = Journal()
    story.proposed(looks, "allow")
    assert story.task.only_looked
    story.started("c0")
    assert story.finished("c0").only_looked
    assert not story.proposed(writes, "allow").only_looked
    story.started("c1")
    assert not story.finished("c1").only_looked
    assert not Journal().submitted(checks=("a ends without an error",)).only_looked
    assert not Journal().proposed((call("c0", "tool_of_tomorrow"),), "allow").only_looked
