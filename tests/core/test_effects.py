"""What to do next: hold and run_safe, orders of the reply, orphans, unknown outcomes; never nothing."""

from typing import Any

import pytest

from orchestrator.core.task import facts
from orchestrator.core.task.effects import (
    AskModel,
    AwaitAnswer,
    AwaitReview,
    AwaitRuns,
    BeginUndo,
    Effect,
    EvaluatePolicy,
    Observe,
    Rest,
    RunTool,
    Settle,
    next_effects,
)
from orchestrator.core.task.facts import BlobRef, CallId, QuestionId, RequestId, TaskId
from orchestrator.core.task.rehearsal import Rehearsal
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId, RunId
from tests.core.journal import REQUEST, Journal, call, decision, person

READS = [call("r1", "cc_read", index=0, path="a"), call("r2", "cc_list", index=1, path="b")]
WRITES = [call("w1", index=2, path="a"), call("w2", "cc_delete", index=3, path="b")]


def run(*call_ids: str) -> tuple[Effect, ...]:
    """The effects that run these calls."""
    return tuple(RunTool(CallId(one)) for one in call_ids)


def mine(*run_ids: str) -> frozenset[RunId]:
    """Runs whose send or wait this actor owns."""
    return frozenset(RunId(one) for one in run_ids)


def ids(*call_ids: str) -> tuple[CallId, ...]:
    """Call ids."""
    return tuple(CallId(one) for one in call_ids)


def test_before_and_between_steps_the_model_is_asked() -> None:
    """Queued, thinking, or asked without an answer: ask, each time as the next attempt of the step."""
    story = Journal()
    assert next_effects(story.task) == (Rest(),)
    story.submitted()
    assert next_effects(story.task) == (AskModel(1),)
    story.asked(1)
    assert next_effects(story.task) == (AskModel(2),)
    story.replied()
    assert next_effects(story.task) == (EvaluatePolicy(BlobRef(sha256="b" * 64, size=2)),)


def test_after_a_step_the_model_is_asked_anew() -> None:
    """The attempts of the next step begin at 1."""
    story = Journal()
    story.proposed(READS[:1], "deny")
    assert next_effects(story.task) == (AskModel(1),)


def test_S3_allowed_reads_run_at_once_and_together() -> None:
    """Reads are done first (run_safe), all of them, whatever their siblings wait for."""
    story = Journal()
    story.proposed([*READS, *WRITES], "allow", "allow", "allow", "ask")
    assert next_effects(story.task) == run("r1", "r2")
    story.started("r1")
    assert next_effects(story.task, mine("r1.1")) == run("r2")


def test_S3_changes_are_held_until_every_sibling_is_decided() -> None:
    """An allowed write waits while another is looked at and decided; then they run one by one, in order."""
    story = Journal()
    story.proposed(WRITES, "allow", "ask")
    assert next_effects(story.task) == (Observe(ids("w2"), "approval"),)
    story.reviewed("w2")
    assert next_effects(story.task) == (AwaitReview(RequestId(REQUEST)),)
    story.decided(decision("w2"))
    assert next_effects(story.task) == run("w1")
    story.started("w1")
    assert next_effects(story.task, mine("w1.1")) == (AwaitRuns((RunId("w1.1"),)),)
    story.finished("w1")
    assert next_effects(story.task) == run("w2")
    story.started("w2")
    story.finished("w2")
    assert next_effects(story.task) == (AskModel(1),)


def test_D5_approved_changes_wait_for_the_last_decision_and_reads_do_not() -> None:
    """After a partial decision an approved read runs, an approved write does not."""
    story = Journal()
    story.proposed([READS[0], *WRITES], "ask", "ask", "ask")
    assert next_effects(story.task) == (Observe(ids("r1", "w1", "w2"), "approval"),)
    story.reviewed("r1", "w1", "w2")
    story.decided(decision("w1"))
    assert next_effects(story.task) == (AwaitReview(RequestId(REQUEST)),)
    story.decided(decision("r1"))
    assert next_effects(story.task) == run("r1")


def test_E2_an_orphan_is_settled_and_never_run_again() -> None:
    """A started call that nobody owns comes before everything else, one settle for each computer."""
    story = Journal()
    elsewhere = call("r3", "cc_read", index=4, computer="8", path="a")
    here = call("l1", "local_write", index=5, computer=None, path="a")
    story.proposed([*READS, elsewhere, here, WRITES[0]], "allow", "allow", "allow", "allow", "ask")
    for one in ("r1", "r3", "l1"):
        story.started(one)
    assert next_effects(story.task) == (
        Settle(None, ids("l1")),
        Settle(ComputerId("3"), ids("r1")),
        Settle(ComputerId("8"), ids("r3")),
    )
    assert next_effects(story.task, mine("r1.1", "l1.1")) == (Settle(ComputerId("8"), ids("r3")),)
    assert next_effects(story.task, mine("r1.1", "l1.1", "r3.1")) == run("r2")


def test_E2_calls_of_one_computer_are_settled_together() -> None:
    """All open brackets on a computer are settled with one number, though others stand between them."""
    story = Journal()
    other = call("x", "cc_read", index=2, computer="8", path="a")
    story.proposed([READS[0], other, READS[1]], "allow", "allow", "allow")
    for one in ("r1", "x", "r2"):
        story.started(one)
    assert next_effects(story.task) == (
        Settle(ComputerId("3"), ids("r1", "r2")),
        Settle(ComputerId("8"), ids("x")),
    )


def test_a_run_of_an_earlier_life_is_an_orphan() -> None:
    """Owning the first run of a call says nothing of its second."""
    story = Journal()
    story.proposed(READS[:1], "allow")
    story.started("r1")
    story.settled("r1", "void")
    assert next_effects(story.task) == run("r1")
    story.started("r1")
    assert next_effects(story.task, mine("r1.1")) == (Settle(ComputerId("3"), ids("r1")),)
    assert next_effects(story.task, mine("r1.2")) == (AwaitRuns((RunId("r1.2"),)),)


def test_E3_an_unknown_outcome_is_shown_before_anything_changes_further() -> None:
    """A person looks at the unknown first; what waits for approval comes after, what is approved runs last."""
    story = Journal()
    third = call("w3", index=4, path="c")
    story.proposed([*WRITES, third], "allow", "allow", "ask")
    story.started("w1")
    story.settled("w1", "unknown", reason="rebooted")
    assert next_effects(story.task) == (Observe(ids("w1"), "outcome_unknown"),)
    story.reviewed("w1", reason="outcome_unknown")
    assert next_effects(story.task) == (AwaitReview(RequestId(REQUEST)),)
    story.decided(decision("w1", "check"))
    assert next_effects(story.task) == (Observe(ids("w1"), "outcome_unknown"),)
    story.reviewed("w1", request_id="q2", reason="outcome_unknown")
    story.decided(decision("w1", "mark_done"), of="q2")
    assert next_effects(story.task) == (Observe(ids("w3"), "approval"),)


def test_B3_what_turned_stale_is_looked_at_again() -> None:
    """A stale call is observed and shown anew, together with what was never shown."""
    story = Journal()
    story.proposed(WRITES, "ask", "ask")
    story.reviewed("w1")
    story.request_ended("stale", "w1")
    assert next_effects(story.task) == (Observe(ids("w1", "w2"), "approval"),)


def test_a_question_holds_changes_and_is_waited_for() -> None:
    """Reads go on beside an open question, changes wait for its answer."""
    story = Journal()
    asking = call("a", "ask_user", index=0, computer=None, question="?")
    story.proposed([asking, WRITES[0], READS[0]], "allow", "allow", "allow")
    assert next_effects(story.task) == run("a", "r1")
    story.question("a")
    assert next_effects(story.task) == run("r1")
    story.started("r1")
    story.finished("r1")
    assert next_effects(story.task) == (AwaitAnswer(QuestionId("u1")),)
    story.answered()
    assert next_effects(story.task) == run("w1")


def test_a_partly_ended_request_is_still_waited_for() -> None:
    """One call of an open request turned stale: the others are still decided, then it is shown again."""
    story = Journal()
    story.proposed([READS[0], WRITES[0]], "ask", "ask")
    story.reviewed("r1", "w1")
    story.decided(decision("r1"))
    story.request_ended("stale", "r1")
    assert next_effects(story.task) == (AwaitReview(RequestId(REQUEST)),)
    story.decided(decision("w1"))
    assert next_effects(story.task) == (Observe(ids("r1"), "approval"),)


@pytest.mark.parametrize("owned", [True, False])
def test_D11_an_ended_task_rests_once_its_runs_are_known(owned: bool) -> None:
    """A run that is still under way is waited for, an orphan is settled, then there is nothing to do for ever."""
    story = Journal()
    story.proposed([*WRITES], "allow", "ask")
    story.started("w1")
    story.ended()
    if owned:
        assert next_effects(story.task, mine("w1.1")) == (AwaitRuns((RunId("w1.1"),)),)
    else:
        assert next_effects(story.task) == (Settle(ComputerId("3"), ids("w1")),)
    story.finished("w1")
    assert next_effects(story.task, mine("w1.1")) == (Rest(),)


@pytest.mark.parametrize("owned", [True, False])
def test_what_an_ended_task_changed_is_taken_back_where_the_policy_said_so(owned: bool) -> None:
    """Once all is known that it did, and once: a person's own undo is another one."""
    story = Journal()
    story.proposed([*WRITES], "allow", "ask")
    story.started("w1")
    story.ended(undo="auto")
    first = (AwaitRuns((RunId("w1.1"),)),) if owned else (Settle(ComputerId("3"), ids("w1")),)
    assert next_effects(story.task, mine("w1.1") if owned else mine()) == first
    story.settled("w1", "unknown")
    assert next_effects(story.task) == (BeginUndo(),)
    story.add(facts.UndoSubmitted(undo_task_id=TaskId("t-own")), by=person("alice"))
    assert next_effects(story.task) == (BeginUndo(),)
    story.add(facts.UndoSubmitted(undo_task_id=TaskId("t-auto")))
    assert story.task.undone_by == ("t-own", "t-auto")
    assert next_effects(story.task) == (Rest(),)


@pytest.mark.parametrize(
    "kind",
    [
        {"restores": Restoration(task_id="t0")},
        {"rehearses": Rehearsal(computer=ComputerId("3"), base="8" * 64, family="turtle", computer_id=3, host="")},
    ],
)
def test_what_takes_something_back_or_rehearses_is_not_taken_back_by_itself(kind: dict[str, Any]) -> None:
    """Where it failed a person has to look; the policy's word on tasks is not for it. A copy is gone."""
    story = Journal()
    story.submitted(**kind)
    story.ended("Failed", undo="auto")
    assert next_effects(story.task) == (Rest(),)


# -- how a step waits (promises S3, D5) ----------------------------------------------------


def step(siblings: str, partial: str = "at_end") -> Journal:
    """A read and a write that the policy allows, beside two of each that wait for a person."""
    story = Journal()
    calls = [
        *READS,
        *WRITES,
        call("r3", "cc_read", index=4, path="c"),
        call("w3", index=5, path="c"),
    ]
    effects = ("allow", "ask", "allow", "ask", "ask", "ask")
    story.proposed(calls, *effects, siblings=siblings, partial=partial)
    return story


@pytest.mark.parametrize(("siblings", "first"), [("reads", run("r1")), ("hold", ()), ("run_safe", run("r1"))])
@pytest.mark.parametrize("partial", ["at_end", "at_once"])
def test_S3_which_siblings_run_while_others_wait(siblings: str, first: tuple[Effect, ...], partial: str) -> None:
    """By default the reads, none under hold, all under run_safe, whose changes come one by one after the reads."""
    story = step(siblings, partial)
    if first:
        assert next_effects(story.task) == first
        story.started("r1")
        story.finished("r1")
    if siblings == "run_safe":
        assert next_effects(story.task) == run("w1")
        story.started("w1")
        assert next_effects(story.task, mine("w1.1")) == (AwaitRuns((RunId("w1.1"),)),)
        story.finished("w1")
    assert next_effects(story.task) == (Observe(ids("r2", "w2", "r3", "w3"), "approval"),)
    story.reviewed("r2", "w2", "r3", "w3")
    assert next_effects(story.task) == (AwaitReview(RequestId(REQUEST)),)


@pytest.mark.parametrize(
    ("siblings", "partial", "then"),
    [
        ("reads", "at_end", run("r3")),
        ("reads", "at_once", run("r3")),
        ("hold", "at_end", (AwaitReview(RequestId(REQUEST)),)),
        ("hold", "at_once", run("r3")),
        ("run_safe", "at_end", run("r3")),
        ("run_safe", "at_once", run("r3")),
    ],
)
def test_D5_what_is_approved_runs_at_once_or_at_the_end(siblings: str, partial: str, then: tuple[Effect, ...]) -> None:
    """An approved read first; an approved change at once only where the policy says so; the rest after the last."""
    story = step(siblings, partial)
    story.reviewed("r2", "w2", "r3", "w3")
    for one in ("r1", "w1") if siblings == "run_safe" else ("r1",) if siblings == "reads" else ():
        story.started(one)
        story.finished(one)
    story.decided(decision("r3"), decision("w3"))
    assert next_effects(story.task) == then
    if then == run("r3"):
        story.started("r3")
        story.finished("r3")
    wait = (AwaitReview(RequestId(REQUEST)),)
    assert next_effects(story.task) == (run("w3") if partial == "at_once" else wait)
    story.decided(decision("r2", "reject", on_reject="continue"), decision("w2"))
    left = [one.call_id for one in story.task.calls if one.state in ("allowed", "approved")]
    assert sorted(run_to_the_end(story)) == sorted(left)


def run_to_the_end(story: Journal) -> list[str]:
    """Every call that runs until the model is asked again, in turn."""
    ran: list[str] = []
    while (todo := next_effects(story.task)) != (AskModel(1),):
        for effect in todo:
            assert isinstance(effect, RunTool)
            ran.append(effect.call_id)
            story.started(effect.call_id)
            story.finished(effect.call_id)
    return ran


def test_S4_an_executed_sibling_is_never_executed_again() -> None:
    """After the decision only what has not run runs, and its result stands in the order of the calls (S5)."""
    story = step("run_safe")
    for one in ("r1", "w1"):
        story.started(one)
        story.finished(one, text=f"first {one}")
    story.reviewed("r2", "w2", "r3", "w3")
    everything = ("r2", "w2", "r3", "w3")
    story.decided(*(decision(one) for one in everything))
    assert sorted(run_to_the_end(story)) == sorted(everything)
    texts = [text for _, text in story.task.turns[-1].results]
    assert texts == ["first r1", "done", "first w1", "done", "done", "done"]


def test_E3_an_unknown_outcome_holds_changes_in_every_mode() -> None:
    """While somebody has to say what became of a change, no other is made, whatever may run beside a request."""
    story = Journal()
    third = call("w3", index=4, path="c")
    story.proposed([READS[0], *WRITES, third], "allow", "allow", "allow", "ask", siblings="run_safe", partial="at_once")
    story.started("w1")
    story.settled("w1", "unknown")
    assert next_effects(story.task) == run("r1")
    story.started("r1")
    story.finished("r1")
    assert next_effects(story.task) == (Observe(ids("w1"), "outcome_unknown"),)
    story.reviewed("w1", reason="outcome_unknown")
    assert next_effects(story.task) == (AwaitReview(RequestId(REQUEST)),)
    story.decided(decision("w1", "mark_done"))
    assert next_effects(story.task) == run("w2")


def test_G4_what_a_grant_stands_for_runs_as_what_was_approved() -> None:
    """It was never shown; it waits for its siblings as an approved call does."""
    story = Journal()
    story.proposed(WRITES, "ask", "ask")
    story.noted("grant_used", "w1", of=None, grant_id="g1")
    assert next_effects(story.task) == (Observe(ids("w2"), "approval"),)
    story.reviewed("w2")
    assert next_effects(story.task) == (AwaitReview(RequestId(REQUEST)),)
    story.decided(decision("w2"))
    assert next_effects(story.task) == run("w1")


def test_E6_one_failing_call_does_not_lose_its_siblings() -> None:
    """The next runs, and the model is told of both."""
    story = Journal()
    story.proposed(WRITES, "allow", "allow")
    story.started("w1")
    story.finished("w1", ok=False, text="no space")
    assert next_effects(story.task) == run("w2")
    story.started("w2")
    story.finished("w2", text="done")
    assert [text for _, text in story.task.turns[-1].results] == ["no space", "done"]
