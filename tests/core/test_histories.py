"""Histories nobody would think of: whatever order of facts the tables allow, the promises of the core hold.

Each step draws one fact that may follow, from the phase table and the state of the calls:
decisions, rejections, staleness, orphans, voids, unknown outcomes, retries, cancels, questions,
and outcomes that come late, twice or after the end. A ledger of its own, which knows only the
facts, keeps who was allowed to run.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from orchestrator.core import facts
from orchestrator.core.approval import DECISIONS, OPEN_STATES, CallState
from orchestrator.core.effects import (
    AskModel,
    AwaitAnswer,
    AwaitReview,
    AwaitRuns,
    Effect,
    EvaluatePolicy,
    Observe,
    Rest,
    RunTool,
    Settle,
    next_effects,
)
from orchestrator.core.errors import InvalidDecision
from orchestrator.core.facts import CallId, Fact, QuestionId, RequestId
from orchestrator.core.fold import can_follow, evolve, fold, preview
from orchestrator.core.items import SYSTEM, Draft, ItemId, decode_item, encode_item, verify_chain
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.task import PHASE_TABLE, AgentTask, CallRecord, Phase
from orchestrator.core.view import view
from orchestrator.core.wire import RunId
from tests.core.golden_items import EXAMPLES
from tests.core.journal import NOW, Journal, call, digest_of, person, start_of, verdict

TOOLS = ["cc_write", "cc_read", "ask_user", *BUILT_IN_CATALOG, "tool_of_tomorrow"]
PAUSED = {Phase.REVIEWING, Phase.ANSWERING}
OUTCOMES = {"tool_finished", "tool_settled"}
Draw = Callable[[st.SearchStrategy[Any]], Any]
Candidate = Callable[[Draw], Fact]


class Ledger:
    """Who was allowed to run, from the facts alone: an allowance is given, spent by a run, given back by a void one."""

    def __init__(self) -> None:
        self.tools: dict[str, str] = {}
        self.allowed: dict[str, str | None] = {}
        """Call id to the digest that was approved; None: the policy allows."""
        self.shown: dict[str, str] = {}
        self.running: dict[str, tuple[str, str | None]] = {}
        """Run id to its call and the allowance that it spends."""
        self.run_ids: set[str] = set()
        self.open_request: tuple[str, set[str]] | None = None

    def note(self, fact: Fact) -> None:  # noqa: C901, PLR0912 - one case per kind
        """One more fact. Fails when a call starts that nobody allowed."""
        match fact:
            case facts.CallsProposed():
                for one, judged in zip(fact.calls, fact.evaluations, strict=True):
                    self.tools[one.call_id] = one.tool
                    if judged.effect == "allow":
                        self.allowed[one.call_id] = None
            case facts.ReviewRequested():
                assert self.open_request is None, "a second request was opened"
                self.open_request = (fact.request_id, {one.call_id for one in fact.calls})
                self.shown.update({one.call_id: one.action_digest for one in fact.calls})
            case facts.DecisionRecorded():
                self._decided(fact)
            case facts.RequestEnded():
                for call_id in fact.call_ids:
                    self.allowed.pop(call_id, None)
                if fact.request_id is not None:
                    self._close(fact.request_id, set(fact.call_ids))
            case facts.QuestionAsked() | facts.StatusSent():
                self.allowed.pop(fact.call_id)
            case facts.ToolStarted():
                assert fact.run_id not in self.run_ids, "a run id was used twice"
                assert fact.call_id in self.allowed, "a call started without an allowance"
                spent = self.allowed.pop(fact.call_id)
                assert spent in (None, fact.action_digest), "a call started under another digest than was approved"
                self.run_ids.add(fact.run_id)
                self.running[fact.run_id] = (fact.call_id, spent)
            case facts.ToolFinished():
                self.running.pop(fact.run_id, None)
            case facts.ToolSettled():
                owner, spent = self.running.pop(fact.run_id, ("", None))
                spec = BUILT_IN_CATALOG.get(self.tools.get(owner, ""))
                again = fact.state == "interrupted" and spec is not None and spec.recovery == "pure"
                if owner and (fact.state == "void" or again):
                    self.allowed[owner] = spent
            case facts.TaskEnded():
                self.open_request = None
            case _:
                pass

    def _decided(self, fact: facts.DecisionRecorded) -> None:
        for one in fact.decisions:
            if one.action == "approve":
                assert one.action_digest == self.shown[one.call_id]
                self.allowed[one.call_id] = one.action_digest
            if one.retry_as is not None:
                self.tools[one.retry_as] = self.tools[one.call_id]
        self._close(fact.request_id, {one.call_id for one in fact.decisions})

    def _close(self, request_id: str, call_ids: set[str]) -> None:
        if self.open_request is not None and self.open_request[0] == request_id:
            left = self.open_request[1] - call_ids
            self.open_request = (request_id, left) if left else None


class Histories(RuleBasedStateMachine):
    """One task, one fact after another."""

    def __init__(self) -> None:
        super().__init__()
        self.story = Journal()
        self.ledger = Ledger()
        self.before = self.story.task
        self.numbers = count(1)

    @initialize()
    def submitted(self) -> None:
        """A task comes in."""
        self.before = self.story.task
        self.story.submitted()
        self.ledger.note(self.story.items[-1].fact)

    @rule(data=st.data())
    def happens(self, data: st.DataObject) -> None:
        """Any fact that may follow."""
        task = self.story.task
        candidates = dict(self.candidates(task))
        assert all(kind in PHASE_TABLE[task.phase] for kind in candidates)
        own = data.draw(some_of([one.run_id for one in task.open_runs], least=0))
        self.sensible(next_effects(task, frozenset(own)), frozenset(own))
        if not candidates:
            return
        weights = {**WEIGHTS, **(OPEN_RUNS if task.open_runs else {})}
        likely = sorted(candidates, key=lambda kind: (-weights.get(kind, 12), kind))
        kind = data.draw(st.sampled_from([kind for kind in likely for _ in range(weights.get(kind, 12))]))
        fact = candidates[kind](data.draw)
        assert fact.kind == kind
        self.before = task
        assert can_follow(task, fact)
        draft = Draft(item_id=ItemId("x"), at=NOW, actor=SYSTEM, fact=fact)
        future = preview(task, [draft])
        self.story.add(fact, by=person("alice"))
        self.ledger.note(fact)
        assert (future.phase, future.status, future.version) == (
            self.story.task.phase,
            self.story.task.status,
            self.story.task.version,
        )

    # -- what may follow -----------------------------------------------------------------

    def candidates(self, task: AgentTask) -> Iterator[tuple[str, Candidate]]:
        """Each kind of fact that may happen now, with how to draw one."""
        if task.phase is not Phase.ENDED:
            if task.cancel_reason is None:
                yield "cancel_requested", lambda _: facts.CancelRequested(reason="enough")
            yield (
                "task_ended",
                lambda draw: facts.TaskEnded(
                    status=draw(st.sampled_from(["Completed", "Failed", "Canceled"])), status_reason="r"
                ),
            )
        match task.phase:
            case Phase.QUEUED | Phase.THINKING | Phase.ASKED:
                yield "limit_reached", lambda _: facts.LimitReached(limit="max_steps")
                if task.phase is Phase.ASKED:
                    yield "model_replied", self.reply
                if task.phase is not Phase.ASKED or task.attempt < 2:
                    yield (
                        "model_asked",
                        lambda _: facts.ModelAsked(
                            attempt=task.attempt + 1, prompt_version="1", policy_version="v", view_digest="d"
                        ),
                    )
            case Phase.REPLIED:
                yield "reply_refused", lambda _: facts.ReplyRefused(reason="no")
                yield "calls_proposed", self.proposal
            case _:
                yield from self.work(task)

    def reply(self, draw: Draw) -> Fact:
        """The model says something."""
        sha256 = f"{next(self.numbers):064x}"
        return facts.ModelReplied(raw=facts.BlobRef(sha256=sha256, size=1), done_reason=draw(st.just("stop")))

    def proposal(self, draw: Draw) -> Fact:
        """One to four calls of any tools, judged in any way."""
        effects = draw(
            st.lists(st.sampled_from(["allow", "allow", "ask", "ask", "ask", "deny"]), min_size=1, max_size=4)
        )
        calls = tuple(
            call(
                f"c{next(self.numbers)}",
                draw(st.sampled_from(TOOLS)),
                index=index,
                computer=draw(st.sampled_from(["3", "8", None])),
            )
            for index in range(len(effects))
        )
        return facts.CallsProposed(explanation="", calls=calls, evaluations=tuple(verdict(one) for one in effects))

    def work(self, task: AgentTask) -> Iterator[tuple[str, Candidate]]:
        """What may happen to the calls of a step, and, once the task is over, only what became of its runs."""
        ran = [one for one in task.calls if one.run_id is not None]
        if ran:
            yield "tool_finished", lambda draw: self.finished(draw, draw(st.sampled_from(ran)))
            yield "tool_settled", lambda draw: self.settled(draw, draw(st.sampled_from(ran)))
        if task.phase is Phase.ENDED:
            return
        ready = of_states(task, CallState.ALLOWED, CallState.APPROVED)
        doing = [one for one in ready if one.call.tool not in ("ask_user", "send_status")]
        asking = [one for one in ready if one.call.tool == "ask_user"]
        telling = [one for one in ready if one.call.tool == "send_status"]
        open_questions = of_states(task, CallState.ASKING)
        unseen = of_states(task, CallState.PROPOSED, CallState.STALE)
        unknown = of_states(task, CallState.OUTCOME_UNKNOWN)
        if doing:
            yield "tool_started", lambda draw: start_of(draw(st.sampled_from(doing)), next(self.numbers))
        if asking:
            yield (
                "question_asked",
                lambda draw: facts.QuestionAsked(
                    question_id=QuestionId(f"u{next(self.numbers)}"),
                    call_id=draw(st.sampled_from(asking)).call_id,
                    question="?",
                ),
            )
        if telling:
            yield "status_sent", lambda draw: facts.StatusSent(call_id=telling[0].call_id, message="hm")
        if open_questions:
            yield (
                "question_answered",
                lambda draw: facts.QuestionAnswered(
                    question_id=draw(st.sampled_from(open_questions)).question_id, answer="a"
                ),
            )
        if task.request is not None:
            yield "decision_recorded", lambda draw: self.decision(draw, task)
        elif unseen or unknown:
            yield "review_requested", lambda draw: self.review(draw, unseen, unknown)
        endable = of_states(
            task, CallState.PROPOSED, CallState.STALE, CallState.ALLOWED, CallState.APPROVED, CallState.PENDING
        )
        if endable:
            yield "request_ended", lambda draw: self.request_ended(draw, task, endable)

    def review(self, draw: Draw, unseen: list[CallRecord], unknown: list[CallRecord]) -> Fact:
        """A person is asked about some calls that nobody has seen, or about unknown outcomes."""
        reason = draw(st.sampled_from([*["approval"] * bool(unseen), *["outcome_unknown"] * bool(unknown)]))
        shown = draw(some_of(unseen if reason == "approval" else unknown))
        number = next(self.numbers)
        return facts.ReviewRequested(
            request_id=RequestId(f"q{number}"),
            reason=reason,
            calls=tuple(
                facts.RequestedCall(
                    call_id=one.call_id,
                    observed=facts.Observed(state={"farm": str(number)}),
                    evaluation=one.evaluation,
                    action_digest=f"{digest_of(one.call_id)}-{number}",
                )
                for one in shown
            ),
            risk=verdict().risk,
            policy_version="v1",
        )

    def decision(self, draw: Draw, task: AgentTask) -> Fact:
        """A person decides some calls of the open request."""
        assert task.request is not None
        return facts.DecisionRecorded(
            request_id=task.request.request_id,
            decisions=tuple(
                self.decided(record, draw(st.sampled_from(DECISIONS[task.request.reason])))
                for record in draw(some_of(task.pending_tool_calls))
            ),
        )

    def decided(self, record: CallRecord, verb: Any) -> facts.Decision:
        """One decision, bound to what was shown."""
        return facts.Decision(
            call_id=record.call_id,
            action=verb,
            action_digest=record.action_digest or "",
            on_reject="continue",
            retry_as=CallId(f"c{next(self.numbers)}") if verb == "retry" else None,
        )

    def request_ended(self, draw: Draw, task: AgentTask, endable: list[CallRecord]) -> Fact:
        """Expiry of the whole request, or the end of one call's request or allowance, as the gate writes it."""
        record = draw(st.sampled_from(endable))
        pending = tuple(one.call_id for one in task.pending_tool_calls if one.state is CallState.PENDING)
        if task.request is not None and pending and draw(st.booleans()):
            end = draw(st.sampled_from(["expired", "superseded", "stale", "canceled"]))
            return facts.RequestEnded(request_id=task.request.request_id, end=end, call_ids=pending, reason="r")
        ends = ["superseded", "canceled"]
        if record.state in (CallState.ALLOWED, CallState.APPROVED, CallState.PENDING):
            ends.append("stale")
        return facts.RequestEnded(
            request_id=record.request_id, end=draw(st.sampled_from(ends)), call_ids=(record.call_id,), reason="r"
        )

    def finished(self, draw: Draw, record: CallRecord) -> Fact:
        """An outcome of the present run or of an earlier one, first or again."""
        code = draw(st.sampled_from([None, "stale", "program_error"]))
        run_id = draw(self.run_of(record))
        return facts.ToolFinished(
            call_id=record.call_id, run_id=run_id, ok=code is None, code=code, text=f"{run_id} of {record.call.tool}"
        )

    def settled(self, draw: Draw, record: CallRecord) -> Fact:
        """What somebody says of a run, present or earlier, first or again."""
        state = draw(st.sampled_from(["finished", "interrupted", "unknown", "void", "void"]))
        return facts.ToolSettled(
            call_id=record.call_id,
            run_id=draw(self.run_of(record)),
            state=state,
            ok=draw(st.booleans()) if state == "finished" else None,
            text="as the journal has it",
            reason=draw(st.sampled_from(["", "stale"])),
        )

    def run_of(self, record: CallRecord) -> st.SearchStrategy[RunId]:
        """Mostly the present run; sometimes one before it."""
        present = RunId(f"{record.call_id}.{record.runs}")
        return st.sampled_from([present, present, present, RunId(f"{record.call_id}.1")])

    # -- what always holds ---------------------------------------------------------------

    @invariant()
    def a_fold_is_a_fold(self) -> None:
        """From scratch and one by one, the task is the same."""
        if self.story.items:
            assert fold(self.story.items) == self.story.task

    @invariant()
    def status_and_phase_agree(self) -> None:
        """Paused exactly while a person is waited for; ended exactly once there is an end."""
        task = self.story.task
        assert (task.status == "Paused") == (task.phase in PAUSED)
        assert (task.status == "Queued") == (task.phase in (Phase.NEW, Phase.QUEUED))
        assert (task.phase is Phase.ENDED) == (task.ended is not None)
        assert (task.phase is Phase.REVIEWING) == (task.request is not None)
        asking = bool(of_states(task, CallState.ASKING))
        assert task.phase is Phase.ENDED or (task.phase is Phase.ANSWERING) == (asking and task.request is None)
        assert bool(task.calls) == (task.phase in (Phase.ACTING, Phase.REVIEWING, Phase.ANSWERING)) or (
            task.phase is Phase.ENDED
        )

    @invariant()
    def one_request_is_open_and_its_calls_wait(self) -> None:
        """The open request is the one that the facts opened last; nobody waits for a decision outside it."""
        task, ledger = self.story.task, self.ledger
        have = (task.request.request_id, set(task.request.call_ids)) if task.request is not None else None
        assert have == ledger.open_request
        waiting = {one.call_id for one in of_states(task, CallState.PENDING)}
        if task.phase is not Phase.ENDED:
            assert waiting <= set(task.request.call_ids if task.request else ())
        assert all(one.state in (CallState.PENDING, CallState.OUTCOME_UNKNOWN) for one in task.pending_tool_calls)

    @invariant()
    def only_an_allowance_runs(self) -> None:
        """What is executing spends an allowance of the ledger, and what may start has one there, and no more."""
        task, ledger = self.story.task, self.ledger
        assert {one.run_id for one in task.open_runs} == set(ledger.running)
        ready = {one.call_id for one in of_states(task, CallState.ALLOWED, CallState.APPROVED)}
        present = {one.call_id for one in task.calls}
        assert ready == {call_id for call_id in ledger.allowed if call_id in present}
        for record in of_states(task, CallState.APPROVED):
            assert ledger.allowed[record.call_id] == record.action_digest

    @invariant()
    def final_states_are_final(self) -> None:
        """A call that is done, rejected or denied stays so, with its result."""
        for record in self.before.calls:
            if record.state not in OPEN_STATES and (now := self.story.task.call(record.call_id)) is not None:
                assert now == record

    @invariant()
    def results_are_in_the_order_of_the_calls(self) -> None:
        """A step that is over gives the model one result for each call, in the order in which it made them."""
        before, task = self.before, self.story.task
        if len(task.turns) == len(before.turns) or task.turns[-1].refused is not None:
            return
        turn = task.turns[-1]
        fact = self.story.items[-1].fact
        calls = fact.calls if isinstance(fact, facts.CallsProposed) else [one.call for one in before.calls]
        assert [tool for tool, _ in turn.results] == [one.tool for one in calls]
        assert [one.index for one in calls] == sorted(one.index for one in calls)
        for record, (_, text) in zip(before.calls, turn.results, strict=False):
            assert record.result in (None, text)

    @invariant()
    def an_ended_task_takes_nothing_but_outcomes(self) -> None:
        """Every other kind of fact is refused, and the end stays the end."""
        task = self.story.task
        if task.phase is not Phase.ENDED:
            return
        assert {fact.kind for _, fact in EXAMPLES if can_follow(task, fact)} == OUTCOMES
        if self.before.ended is not None:
            assert task.ended == self.before.ended
            return
        for _, fact in EXAMPLES:
            if fact.kind not in OUTCOMES:
                with pytest.raises(InvalidDecision):
                    evolve(task, self.story.sealed(fact))

    @invariant()
    def what_to_do_next_makes_sense(self) -> None:
        """For an actor that owns every open run and for one that owns none; `happens` draws those between."""
        task = self.story.task
        everything = frozenset(one.run_id for one in task.open_runs if one.run_id is not None)
        for own in (frozenset[RunId](), everything):
            self.sensible(next_effects(task, own), own)

    def sensible(self, effects: tuple[Effect, ...], own: frozenset[RunId]) -> None:
        """The rules that every answer of `next_effects` keeps."""
        task = self.story.task
        assert effects
        assert len({type(one) for one in effects}) == 1
        orphans = {one.call_id for one in task.open_runs if one.run_id not in own}
        settled = [call_id for one in effects if isinstance(one, Settle) for call_id in one.call_ids]
        assert sorted(settled) == sorted(orphans)
        working = task.phase in (Phase.ACTING, Phase.REVIEWING, Phase.ANSWERING)
        for one in effects:
            match one:
                case Settle():
                    assert {record(task, call_id).call.computer for call_id in one.call_ids} == {one.computer}
                case RunTool():
                    self.may_run(record(task, one.call_id), effects)
                case Observe():
                    wanted = {CallState.OUTCOME_UNKNOWN} if one.reason == "outcome_unknown" else UNSEEN
                    assert one.call_ids
                    assert {record(task, call_id).state for call_id in one.call_ids} <= wanted
                    assert task.request is None
                case AwaitReview():
                    assert task.request is not None
                    assert task.request.request_id == one.request_id
                    assert not orphans
                case AwaitAnswer():
                    assert one.question_id in {call.question_id for call in of_states(task, CallState.ASKING)}
                case AwaitRuns():
                    assert one.run_ids
                    assert set(one.run_ids) == {call.run_id for call in task.open_runs} <= own
                case AskModel():
                    assert one.attempt == task.attempt + 1
                    assert task.phase in (Phase.QUEUED, Phase.THINKING, Phase.ASKED)
                case EvaluatePolicy():
                    assert task.phase is Phase.REPLIED
                    assert one.reply == task.reply
                case Rest():
                    assert task.phase in (Phase.NEW, Phase.ENDED)
                    assert not task.open_runs
            assert isinstance(one, Settle | RunTool | Observe | AwaitReview | AwaitAnswer | AwaitRuns) or not working

    def may_run(self, one: CallRecord, effects: tuple[Effect, ...]) -> None:
        """Allowed or approved; and what changes something runs alone, after everybody decided everything."""
        task = self.story.task
        assert one.state in (CallState.ALLOWED, CallState.APPROVED)
        assert one.call_id in self.ledger.allowed
        assert one.next_run_id not in self.ledger.run_ids
        if one.mutates:
            assert len(effects) == 1
            assert task.request is None
            assert not task.open_runs
            undecided = (CallState.ASKING, CallState.OUTCOME_UNKNOWN, CallState.PENDING, *UNSEEN)
            assert not of_states(task, *undecided)

    def teardown(self) -> None:
        """The whole history is a chain, comes back from bytes as it was, and the model can be shown all of it."""
        items = self.story.items
        assert verify_chain(items) is None
        again = [decode_item(encode_item(item)) for item in items]
        assert again == items
        if items:
            assert fold(again) == self.story.task
            texts = {turn.raw.sha256: "reply" for turn in self.story.task.turns}
            messages = view(self.story.task, texts).messages
            assert len(messages) == 2 + 2 * len(self.story.task.turns)
            assert all(text for _, text in messages)


WEIGHTS = {
    "limit_reached": 1,
    "reply_refused": 1,
    "cancel_requested": 1,
    "task_ended": 1,
    "request_ended": 4,
    "tool_finished": 2,
    "tool_settled": 2,
    "tool_started": 16,
}
"""How often a kind is drawn beside the others (12): histories should get to the calls, and not end at once."""
OPEN_RUNS = {"tool_finished": 8, "tool_settled": 10}
"""Outcomes are drawn more often while a run has none yet; else they are late ones."""
UNSEEN = {CallState.PROPOSED, CallState.STALE}


def of_states(task: AgentTask, *states: CallState) -> list[CallRecord]:
    """The calls in any of the states."""
    return [one for one in task.calls if one.state in states]


def record(task: AgentTask, call_id: CallId) -> CallRecord:
    """The record of a call that the step has."""
    found = task.call(call_id)
    assert found is not None
    return found


def some_of(values: Any, least: int = 1) -> st.SearchStrategy[Any]:
    """A few of the values, each once, in any order."""
    return st.lists(st.sampled_from(values), min_size=least, unique_by=str) if values else st.just([])


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
