"""Histories nobody would think of: whatever order of facts the tables allow, the promises of the core hold.

Each step draws one fact that may follow, from the phase table and the state of the calls (decisions,
edits, approvals by several people, claims, escalations, staleness, expiry, grants, orphans, voids, unknown outcomes,
retries, cancels, questions, and outcomes that come late, twice or after the end), or a command of a person, or lets
time pass. A ledger of its own, which knows only the facts, keeps who was allowed to run.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from orchestrator.core.approval.approval import DECISIONS, OPEN_STATES, CallState, ResumeRequest, action_digest
from orchestrator.core.approval.command import Decide
from orchestrator.core.approval.teamwork import Claim, Escalate, Remark, Unclaim
from orchestrator.core.approval.workflow import Step, Workflow
from orchestrator.core.errors import InvalidDecision, OrchestratorError
from orchestrator.core.model_view.view import view
from orchestrator.core.policy import BUILT_IN_CATALOG, PolicyDecision, RequestRules, RiskLevel
from orchestrator.core.task import facts
from orchestrator.core.task.commands import Answer, Cancel, Command, Extend, Rejudge, Renew, Withdraw, decide
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
from orchestrator.core.task.facts import CallId, Fact, QuestionId, RequestId, TaskId, ToolCall
from orchestrator.core.task.fold import can_follow, evolve, fold, preview
from orchestrator.core.task.items import SYSTEM, Actor, Draft, ItemId, decode_item, encode_item, verify_chain
from orchestrator.core.task.limits import failed, next_deadline, overdue
from orchestrator.core.task.states import PHASE_TABLE, Phase
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.task.task import AgentTask, CallRecord, may_change
from orchestrator.core.wire.wire import RunId
from orchestrator.runtime.prompts import shipped
from tests.core.golden_items import EXAMPLES
from tests.core.journal import NOW, Journal, StubLaw, call, person, start_of, verdict
from tests.core.ledger import Ledger

TOOLS = ["cc_write", "cc_read", "ask_user", *BUILT_IN_CATALOG, "tool_of_tomorrow"]
PAUSED = {Phase.REVIEWING, Phase.ANSWERING}
AFTER_THE_END = {
    "tool_finished", "tool_settled", "task_pinned", "task_unpinned", "work_failed", "undo_submitted", "rehearsal_ended"
}  # fmt: skip
"""Outcomes, whether the task is kept, which one takes it back, and what a rehearsal came to."""
Draw = Callable[[st.SearchStrategy[Any]], Any]
Candidate = Callable[[Draw], Fact]


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
        """Any fact that may follow, what somebody says, or time alone."""
        task = self.story.task
        candidates = dict(self.candidates(task))
        assert all(kind in PHASE_TABLE[task.phase] for kind in candidates)
        own = data.draw(some_of([one.run_id for one in task.open_runs], least=0))
        self.sensible(next_effects(task, frozenset(own)), frozenset(own))
        waited_for = task.request is not None or task.lapsed is not None
        if data.draw(st.integers(0, 1 if waited_for else 19)) == 0:
            self.somebody_says(data)
            return
        if data.draw(st.integers(0, 5 if next_deadline(task) else 19)) == 0:
            self.time_passes(data)
            return
        if not candidates:
            return
        weights = {**WEIGHTS, **(OPEN_RUNS if task.open_runs else {})}
        likely = sorted(candidates, key=lambda kind: (-weights.get(kind, 12), kind))
        kind = data.draw(st.sampled_from([kind for kind in likely for _ in range(weights.get(kind, 12))]))
        fact = candidates[kind](data.draw)
        assert fact.kind == kind
        self.append(fact, by=person("alice"))

    def append(self, *made: Fact, by: Actor) -> None:
        """What happened; each fact may follow on the one before, and a preview had told so."""
        start = self.story.task
        for fact in made:
            self.before = self.story.task
            assert can_follow(self.before, fact)
            self.story.add(fact, by=by)
            self.ledger.note(fact)
        items = self.story.items[len(self.story.items) - len(made) :]
        drafts = [Draft(item_id=ItemId("x"), at=item.at, actor=item.actor, fact=item.fact) for item in items]
        after = self.story.task
        assert preview(start, drafts).__dict__ | {"head_hash": after.head_hash} == after.__dict__

    # -- people and time -----------------------------------------------------------------

    def somebody_says(self, data: st.DataObject) -> None:
        """A command is refused and changes nothing, or its facts follow; the same decision is made once (D6)."""
        name = data.draw(st.sampled_from(["alice", "alice", "bob", "carol"]))
        command = data.draw(st.sampled_from(self.commands(data.draw, name)))
        before = self.story.task
        try:
            made = decide(before, command)
        except OrchestratorError:
            return
        self.append(*made, by=person(name))
        if isinstance(command, Decide):
            assert decide(self.story.task, command) == ()

    def commands(self, draw: Draw, name: str) -> list[Command]:
        """One command of each kind, most of them about the open request, some about one that is over."""
        task = self.story.task
        known = [task.request.request_id] * 4 if task.request is not None else []
        known += [closed.request_id for closed in task.closed[-2:]]
        request_id = draw(st.sampled_from(known)) if known else RequestId("q0")
        now = NOW + timedelta(seconds=task.version + draw(st.integers(0, 9)))
        active_policy = StubLaw(
            rules=RequestRules(
                max_rejections=draw(st.sampled_from([0, 2])),
                approval_valid_s=draw(st.sampled_from([0, 9])),
                release_on_relax=draw(st.booleans()),
            ),
            says=Moods(draw(st.sampled_from([("ask",), ("deny", "ask"), ("allow",), ("ask", "allow", "deny")]))),
        )
        decision = Decide(
            request_id=request_id,
            resume=self.resume(draw, task),
            by=name,
            now=now,
            active_policy=active_policy,
            new_call_id=lambda: CallId(f"c{next(self.numbers)}"),
            new_grant_id=lambda: GrantId(f"g{next(self.numbers)}"),
        )
        others: list[Command] = [
            Extend(request_id=request_id, expires_at=now + timedelta(seconds=9), now=now),
            Withdraw(request_id=request_id, by=name),
            Renew(request_id=request_id),
            *[Rejudge(active_policy=active_policy, now=now)] * 3,
            Claim(request_id=request_id, by=name, now=now),
            Unclaim(request_id=request_id, by=name),
            Remark(request_id=request_id, text="hm", now=now),
            Escalate(request_id=request_id, by=name, now=now),
            Answer(question_id=QuestionId(f"u{draw(st.integers(1, 30))}"), answer="approve"),
            *([Cancel()] if draw(st.integers(0, 29)) == 0 else []),
        ]
        return [decision] * 8 + others

    def resume(self, draw: Draw, task: AgentTask) -> ResumeRequest:
        """A decision on the whole, or on some of the calls, with or without a grant; now and then of a wrong verb."""
        verbs = DECISIONS[task.request.reason] if task.request is not None else ("approve",)
        on_reject = draw(st.sampled_from(["continue", "continue", "continue", "cancel"]))
        plain = [verb for verb in verbs if verb not in ("edit", "respond")]
        if not task.pending_tool_calls or draw(st.booleans()):
            return ResumeRequest(action=draw(st.sampled_from(plain)), on_reject=on_reject)
        each = [
            {"call_id": one.call_id, "on_reject": on_reject, **self.form(draw, one, draw(st.sampled_from(verbs)))}
            for one in draw(some_of(task.pending_tool_calls))
        ]
        return ResumeRequest.model_validate({"decisions": each})

    def form(self, draw: Draw, one: CallRecord, verb: str) -> dict[str, Any]:
        """What a verb needs beside it."""
        if verb == "edit":
            path = {"path": draw(st.sampled_from(["farm", "barn", "barn", "../x"]))}
            return {"action": verb, "args": ARGS.get(one.call.tool, {}) or path}
        if verb == "respond":
            return {"action": verb, "answer": draw(st.sampled_from(["", "approve"]))}
        known = one.call.tool in BUILT_IN_CATALOG
        remember = {"scope": draw(st.sampled_from(["call", "task"]))} if known and draw(st.booleans()) else None
        return {"action": verb, **({"remember": remember} if verb == "approve" else {})}

    def time_passes(self, data: st.DataObject) -> None:
        """What is due is due at its moment and not before; when all of it is recorded, time comes to rest."""
        task = self.story.task
        due = next_deadline(task)
        if due is None:
            assert overdue(task, NOW + timedelta(days=999)) == ()
            return
        assert overdue(task, due - timedelta(microseconds=1)) == ()
        now = due + timedelta(seconds=data.draw(st.integers(0, 9)))
        for _ in range(2 * len(task.calls) + 3):
            made = overdue(self.story.task, now)
            if not made:
                break
            self.append(*made, by=SYSTEM)
        after = next_deadline(self.story.task)
        assert after is None or after > now

    # -- what may follow -----------------------------------------------------------------

    def candidates(self, task: AgentTask) -> Iterator[tuple[str, Candidate]]:
        """Each kind of fact that may happen now, with how to draw one."""
        if task.phase is not Phase.ENDED:
            if task.cancel_reason is None:
                yield "cancel_requested", lambda _: facts.CancelRequested(reason="enough")
            yield "work_frozen", lambda _: facts.WorkFrozen(by="rita", of="*")
            yield (
                "task_ended",
                lambda draw: facts.TaskEnded(
                    status=draw(st.sampled_from(["Completed", "Failed", "Canceled"])),
                    status_reason="r",
                    undo=draw(st.sampled_from(["offer", "auto"])),
                ),
            )
        yield "work_failed", lambda draw: failed(task, "why", draw(st.sampled_from(["failed", "unanswered"])))
        match task.phase:
            case Phase.QUEUED | Phase.THINKING | Phase.ASKED | Phase.WAITING:
                yield "limit_reached", lambda _: facts.LimitReached(limit="max_steps")
                if task.phase is Phase.ASKED:
                    yield "model_replied", self.reply
                    yield "model_awaited", lambda _: facts.ModelAwaited(server="s", why="w")
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
        return facts.CallsProposed(
            explanation="",
            calls=calls,
            evaluations=tuple(verdict(one) for one in effects),
            siblings=draw(st.sampled_from(["reads", "hold", "run_safe"])),
            partial=draw(st.sampled_from(["at_end", "at_once"])),
        )

    def work(self, task: AgentTask) -> Iterator[tuple[str, Candidate]]:
        """What may happen to the calls of a step, and, once the task is over, only what became of its runs."""
        ran = [one for one in task.calls if one.run_id is not None]
        if ran:
            yield "tool_finished", lambda draw: self.finished(draw, draw(st.sampled_from(ran)))
            yield "tool_settled", lambda draw: self.settled(draw, draw(st.sampled_from(ran)))
        if task.phase is Phase.ENDED:
            yield "undo_submitted", lambda _: facts.UndoSubmitted(undo_task_id=TaskId(f"t-{next(self.numbers)}"))
            yield "rehearsal_ended", lambda _: facts.RehearsalEnded(after="9" * 64, changed=0, message="Nothing.")
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
            # One of several people decides by a command, which knows whether the others did.
            if task.request.team.workflow.need == 1:
                yield "decision_recorded", lambda draw: self.decision(draw, task)
        elif task.lapsed is None and (unseen or unknown):
            yield "review_requested", lambda draw: self.review(draw, unseen, unknown)
        if task.request is not None or task.lapsed is not None or unseen:
            yield "review_noted", lambda draw: self.noted(draw, task, unseen)
        endable = of_states(
            task, CallState.PROPOSED, CallState.STALE, CallState.ALLOWED, CallState.APPROVED, CallState.PENDING
        )
        if endable:
            yield "request_ended", lambda draw: self.request_ended(draw, task, endable)

    def review(self, draw: Draw, unseen: list[CallRecord], unknown: list[CallRecord]) -> Fact:
        """A person is asked about some calls that nobody has seen, or about unknown outcomes."""
        reason = draw(st.sampled_from([*["approval"] * bool(unseen), *["outcome_unknown"] * bool(unknown)]))
        shown = draw(some_of(unseen if reason == "approval" else unknown))
        soon = NOW + timedelta(seconds=task_seconds(self.story.task) + 9)
        expires_at = draw(st.sampled_from([None, soon])) if reason == "approval" else None
        two = Workflow(steps=(Step(count=2),), escalate_after_s=5)
        workflow = draw(st.sampled_from([None, None, two, Workflow(steps=(Step(by="role:tutor"), Step()))]))
        return facts.ReviewRequested(
            request_id=RequestId(f"q{next(self.numbers)}"),
            reason=reason,
            calls=tuple(self.looked_at(one) for one in shown),
            risk=verdict().risk,
            policy_version="v1",
            expires_at=expires_at,
            remind_at=draw(st.sampled_from([None, soon - timedelta(seconds=2)])) if expires_at else None,
            on_timeout=draw(st.sampled_from(["stay_paused", "continue", "cancel"])),
            workflow=workflow if reason == "approval" else None,
            escalate_at=soon - timedelta(seconds=4) if workflow is not None and reason == "approval" else None,
        )

    def looked_at(self, one: CallRecord) -> facts.RequestedCall:
        """A call as it was found just now, bound as the gate binds it."""
        observed = facts.Observed(state={"farm": str(next(self.numbers))})
        digest = action_digest(call=one.call.call_digest, user_id="alice", observed=observed, evaluation=one.evaluation)
        return facts.RequestedCall(
            call_id=one.call_id, observed=observed, evaluation=one.evaluation, action_digest=digest
        )

    def noted(self, draw: Draw, task: AgentTask, unseen: list[CallRecord]) -> Fact:
        """Something around the request; a grant that stands in for calls that nobody has seen yet; asked anew."""
        if task.request is not None:
            what = draw(st.sampled_from(["notified", "viewed", "reminded", "extended"]))
            later = NOW + timedelta(seconds=task_seconds(task) + 20) if what == "extended" else None
            return facts.ReviewNoted(what=what, request_id=task.request.request_id, expires_at=later)
        if task.lapsed is not None:
            return facts.ReviewNoted(what="renewed", request_id=task.lapsed)
        covered = tuple(self.looked_at(one) for one in draw(some_of(unseen)))
        return facts.ReviewNoted(what="grant_used", calls=covered, grant_id=GrantId("g"))

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
            **(self.edit(record) if verb == "edit" else {}),
        )

    def edit(self, record: CallRecord) -> dict[str, Any]:
        """What an edit brings along; every other one is bound to what was shown."""
        number = next(self.numbers)
        runs = f"runs-{number}" if number % 2 else ""
        return {
            "args": {"path": f"e{number}"},
            "call_digest": f"edit-{number}",
            "evaluation": verdict(),
            "runs_digest": runs,
        }

    def request_ended(self, draw: Draw, task: AgentTask, endable: list[CallRecord]) -> Fact:
        """Expiry of the whole request, or the end of one call's request or allowance, as the gate writes it."""
        record = draw(st.sampled_from(endable))
        pending = tuple(one.call_id for one in task.pending_tool_calls if one.state is CallState.PENDING)
        if task.request is not None and pending and draw(st.booleans()):
            end = draw(st.sampled_from(["expired", "superseded", "stale", "canceled"]))
            return facts.RequestEnded(
                request_id=task.request.request_id, end=end, call_ids=pending, reason="r", then=draw(THEN)
            )
        ends = ["superseded", "canceled"]
        if record.state in (CallState.APPROVED, CallState.PENDING):
            ends.append("expired")
        if record.state in (CallState.ALLOWED, CallState.APPROVED, CallState.PENDING):
            ends.append("stale")
        return facts.RequestEnded(
            request_id=record.request_id,
            end=draw(st.sampled_from(ends)),
            call_ids=(record.call_id,),
            reason="r",
            then=draw(THEN),
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
        waited_for = task.request is not None or task.lapsed is not None
        assert (task.phase is Phase.REVIEWING) == waited_for
        asking = bool(of_states(task, CallState.ASKING))
        assert task.phase is Phase.ENDED or (task.phase is Phase.ANSWERING) == (asking and not waited_for)
        assert bool(task.calls) == (task.phase in (Phase.ACTING, Phase.REVIEWING, Phase.ANSWERING)) or (
            task.phase is Phase.ENDED
        )

    @invariant()
    def a_step_goes_on_when_its_calls_are_over(self) -> None:
        """As long as a step lasts, something of it is left to do."""
        if self.story.task.phase in (Phase.ACTING, Phase.REVIEWING, Phase.ANSWERING):
            assert of_states(self.story.task, *OPEN_STATES)

    @invariant()
    def no_request_is_lost(self) -> None:
        """Every request that was ever raised is open, or it is said how it ended, or the task has."""
        task = self.story.task
        raised = {item.fact.request_id for item in self.story.items if isinstance(item.fact, facts.ReviewRequested)}
        still = {task.request.request_id} if task.request is not None else set()
        assert task.phase is Phase.ENDED or raised == still | {closed.request_id for closed in task.closed}
        step_is_over = task.phase in (Phase.THINKING, Phase.ASKED, Phase.WAITING, Phase.REPLIED)
        assert task.lapsed == (None if step_is_over else self.ledger.lapsed)
        if task.lapsed is not None:
            assert task.request is None
            assert task.lapsed in {closed.request_id for closed in task.closed if closed.how == "expired"}

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
    def a_task_that_only_looked_started_nothing_else(self) -> None:
        """Also where calls were edited, made again or cut off: nobody reads its items for what it changed."""
        started = {item.fact.call_id for item in self.story.items if isinstance(item.fact, facts.ToolStarted)}
        assert not self.story.task.only_looked or not any(may_change(self.ledger.tools[one]) for one in started)

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
    def an_ended_task_takes_nothing_but_outcomes_and_what_it_came_to(self) -> None:
        """Every other kind of fact is refused, and the end stays the end."""
        task = self.story.task
        if task.phase is not Phase.ENDED:
            return
        assert {fact.kind for _, fact in EXAMPLES if can_follow(task, fact)} == AFTER_THE_END
        if self.before.ended is not None:
            assert task.ended == self.before.ended
            return
        for _, fact in EXAMPLES:
            if fact.kind not in AFTER_THE_END:
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
                    assert task.lapsed is None
                case AwaitReview():
                    assert one.request_id == (task.request.request_id if task.request is not None else task.lapsed)
                    assert not orphans
                case AwaitAnswer():
                    assert one.question_id in {call.question_id for call in of_states(task, CallState.ASKING)}
                case AwaitRuns():
                    assert one.run_ids
                    assert set(one.run_ids) == {call.run_id for call in task.open_runs} <= own
                case AskModel():
                    assert one.attempt == task.attempt + 1
                    assert task.phase in (Phase.QUEUED, Phase.THINKING, Phase.ASKED, Phase.WAITING)
                case EvaluatePolicy():
                    assert task.phase is Phase.REPLIED
                    assert one.reply == task.reply
                case BeginUndo():
                    assert task.ended is not None
                    assert task.ended.undo == "auto"
                    assert not task.open_runs
                    assert not task.undo_begun
                case Rest():
                    assert task.phase in (Phase.NEW, Phase.ENDED)
                    assert not task.open_runs
            assert isinstance(one, Settle | RunTool | Observe | AwaitReview | AwaitAnswer | AwaitRuns) or not working

    def may_run(self, one: CallRecord, effects: tuple[Effect, ...]) -> None:
        """Allowed or approved; what changes something runs alone; while somebody decides, only what the step says."""
        task = self.story.task
        assert one.state in (CallState.ALLOWED, CallState.APPROVED)
        assert one.call_id in self.ledger.allowed
        assert one.next_run_id not in self.ledger.run_ids
        undecided = task.request is not None or task.lapsed is not None or bool(of_states(task, *UNSEEN))
        approved = one.state is CallState.APPROVED
        if one.mutates:
            assert len(effects) == 1
            assert not task.open_runs
            assert not of_states(task, CallState.OUTCOME_UNKNOWN)
            assert undecided or not of_states(task, CallState.ASKING)
            ahead = task.partial == "at_once" if approved else task.siblings == "run_safe"
        else:
            ahead = task.siblings != "hold" or (approved and task.partial == "at_once")
        assert ahead or not undecided

    def teardown(self) -> None:
        """The whole history is a chain, comes back from bytes as it was, and the model can be shown all of it."""
        items = self.story.items
        assert verify_chain(items) is None
        again = [decode_item(encode_item(item)) for item in items]
        assert again == items
        if items:
            assert fold(again) == self.story.task
            texts = {turn.raw.sha256: "reply" for turn in self.story.task.turns}
            messages = view(self.story.task, texts, prompt=shipped()).messages
            assert len(messages) == 2 + 2 * len(self.story.task.turns)
            assert all(text for _, text in messages)


class Moods:
    """A policy that says one thing after another, and never the same of the risk."""

    def __init__(self, effects: tuple[str, ...]) -> None:
        self.effects = effects

    def __call__(self, task: AgentTask, call: ToolCall) -> PolicyDecision:
        number = sum(map(ord, call.call_id))
        risk = RiskLevel.HIGH if number % 5 == 0 else verdict().risk
        return verdict(self.effects[number % len(self.effects)], risk)


def task_seconds(task: AgentTask) -> int:
    """How many seconds after NOW the task's last item was."""
    return task.version


ARGS = {
    "ask_user": {"question": "?"},
    "send_status": {"message": "hm"},
    "cc_shell": {"command": "dig"},
    "cc_find": {"pattern": "*"},
    "cc_write": {"path": "farm", "content": "x"},
    "cc_move": {"path": "farm", "to": "barn"},
}
"""What an edit says of the tools that take more than a path."""
THEN = st.sampled_from(["continue", "cancel", "stay_paused"])
WEIGHTS = {
    "review_noted": 4,
    "decision_recorded": 6,
    "limit_reached": 1,
    "model_awaited": 1,
    "work_failed": 1,
    "work_frozen": 1,
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
TestHistories.settings = settings(stateful_step_count=60)
