"""A task as the fold over its items holds it: the state, its calls, its requests and what the model saw.

Waiting is a phase, not a coroutine: nothing of a paused task is in memory but this value.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from orchestrator.core.approval.workflow import ONE_PERSON, Team
from orchestrator.core.evidence.checks import NO_CHECKS, Checking, so_far
from orchestrator.core.evidence.evidence import NOTHING, Evidence
from orchestrator.core.model_view.cuts import NO_REST, Rest
from orchestrator.core.policy import BUILT_IN_CATALOG, PolicyDecision
from orchestrator.core.task import facts
from orchestrator.core.task.facts import (
    BlobRef,
    CallId,
    Observed,
    OnReject,
    OnTimeout,
    Partial,
    QuestionId,
    RequestId,
    Siblings,
    TaskId,
)
from orchestrator.core.task.hints import NO_HINTS, Hints
from orchestrator.core.task.items import GENESIS_HASH
from orchestrator.core.task.rehearsal import Rehearsal
from orchestrator.core.task.repeats import Repeats
from orchestrator.core.task.rounds import AT_FIRST, Rounds
from orchestrator.core.task.states import ACTIVE_PHASES, STATUS_OF, CallState, Phase, TaskStatus
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.values import ComputerId, RunId, immutable

if TYPE_CHECKING:
    # The forms of requests and decisions are for those who decide: a task is folded without them.
    from orchestrator.core.approval.approval import CallDecision

_REASONS: Final = {
    "approval": "waiting for approval",
    "question": "waiting for an answer",
    "expired": "nobody answered in time",
}


def may_change(tool: str) -> bool:
    """Whether a tool changes or runs something; one outside the catalog counts as if."""
    spec = BUILT_IN_CATALOG.get(tool)
    return spec is None or spec.governance.mutates


@immutable
class CallRecord:
    """One tool call of the present step and where it stands."""

    call: facts.ToolCall
    evaluation: PolicyDecision
    state: CallState
    request_id: RequestId | None = None
    """The last request it was shown in; None: it never needed a person."""
    observed: Observed | None = None
    action_digest: str | None = None
    """The digest of the present approval; None with an edit whose target is looked at before it runs."""
    original: facts.ToolCall | None = None
    """The call as the model made it, where a person edited it."""
    grant_id: GrantId | None = None
    """The grant that stands in for a decision."""
    valid_until: datetime | None = None
    """The time until which the present approval may be used; None: without end."""
    runs: int = 0
    """How often it was started: the next run's id ends with one more."""
    run_id: RunId | None = None
    number: int = 0
    before: Mapping[str, str] | None = None
    watched: facts.Watched | None = None
    """What was in the watched places before its last run."""
    changed: tuple[str, ...] = ()
    """Paths that changed while it ran, where it was watched."""
    after: Mapping[str, str] = field(default_factory=dict)
    """Each changed path with its state afterwards, where it is known."""
    code: str | None = None
    """The code of its last failure; None: it has not failed, or nobody gave one."""
    lines: tuple[int, int] | None = None
    """Lines that it adds and removes; None: not known."""
    directories: tuple[str, ...] = ()
    """The paths of ``before`` that are directories."""
    only_comments: bool = False
    """Whether it changes only comments and blank space of a program."""
    ran: facts.Ran | None = None
    """The program that its last run executed, and how that ended; None: none ended, or nobody knows."""
    item: int = 0
    """The number of the item with its outcome; 0: there is none."""
    approved_by: str = ""
    """The person who decided that it may run; empty: the policy or a grant lets it, or nothing yet."""
    edit_reason: str = ""
    """Why that person edited it, in their words; empty: they gave no reason, or did not edit it."""
    edited_by: str = ""
    """The person who edited it last; empty: nobody did."""
    asked_again: int = 0
    """How often a person had the computer asked once more what became of it."""
    checks: tuple[facts.ShownCheck, ...] = ()
    """The checks that its approval approves as well, as they were shown with it."""
    question_id: QuestionId | None = None
    ok: bool | None = None
    """None while there is no outcome."""
    result: str | None = None
    """The result that the model is told; None while there is nothing to tell."""
    note: str = ""
    """Why the outcome is unknown, for the reviewer."""

    @property
    def call_id(self) -> CallId:
        """The call's id."""
        return self.call.call_id

    @property
    def mutates(self) -> bool:
        """Whether it changes something; a tool outside the catalog counts as if."""
        return may_change(self.call.tool)

    @property
    def next_run_id(self) -> RunId:
        """The id of its next run: never used before."""
        return RunId(f"{self.call_id}.{self.runs + 1}")


@immutable
class OpenRequest:
    """The request a paused task waits for."""

    request_id: RequestId
    reason: str
    call_ids: tuple[CallId, ...]
    created_at: datetime
    expires_at: datetime | None
    policy_version: str
    remind_at: datetime | None = None
    on_timeout: OnTimeout = "stay_paused"
    reminded: bool = False
    notified: bool = False
    """Whether the request was put before anybody."""
    viewed_by: tuple[str, ...] = ()
    """The people who looked at it whole."""
    team: Team = ONE_PERSON
    """Who has to approve it, who did, and who looks at it now."""


@immutable
class ClosedRequest:
    """A request that takes no more decisions, and why."""

    request_id: RequestId
    how: str
    """The kind of permission, such as ``approved by alice``."""
    actor_id: str
    decisions: tuple[facts.Decision, ...] = ()
    key: str = ""
    at: datetime | None = None
    whole_digest: str = ""
    """The digest of the request as it stood when a person decided; empty: nobody did."""
    waited_for: tuple[CallId, ...] = ()
    """The calls that waited when a person decided."""


@immutable
class StepCall:
    """One call of a finished step, as the model is told of it."""

    tool: str
    text: str
    """Its result."""
    asked: str = ""
    """The tool with its arguments on one line, such as ``cc_read farm.lua lines 131-330``."""
    came: str = ""
    """Its result on one line, such as ``200 lines``."""
    rest: Rest = NO_REST
    """How what a cut leaves out of its result can be asked for."""
    changed: tuple[tuple[str, str], ...] = ()
    """(path, what was done to it) of what it changed."""
    runs: bool = False
    """Whether a program ran."""


@immutable
class Turn:
    """One finished step as the model sees it: its reply, and what came back."""

    raw: BlobRef
    calls: tuple[StepCall, ...] = ()
    """The calls in the order of the reply."""
    refused: str | None = None
    """The sentence with which the reply was refused."""
    unproven: bool = False
    """Whether it was refused for a success without evidence; else it could not be read. Of a success whose checks do
    not hold, the results are those of the checks."""
    digests: tuple[str, ...] = ()
    """The digests of its calls, in their order."""
    repeats: int = 0
    """How often its most repeated call was made by then."""
    warning: str = ""
    """The warning that the model is told beside its results when the task goes round; empty: none."""
    input_tokens: int = 0
    """Tokens of the messages that it answers, as the model's server counted them; 0: it did not say."""

    @property
    def results(self) -> tuple[tuple[str, str], ...]:
        """(tool, text) in the order of the calls."""
        return tuple((call.tool, call.text) for call in self.calls)


@immutable
class AgentTask:
    """A task as its items tell it. ``version`` 0: no item yet."""

    task_id: TaskId
    version: int = 0
    head_hash: str = GENESIS_HASH
    phase: Phase = Phase.NEW
    prompt: str = ""
    user_id: str = ""
    by_program: bool = False
    """Whether a program submitted it: a person of the same name is somebody else, and it decides nothing."""
    owner: str = ""
    """For a program's task: the person whose task it counts as; empty: a person's task, or one of version 0.6."""
    session_id: str = ""
    computers: tuple[ComputerId, ...] = ()
    model: str = ""
    max_steps: int = 0
    """0: no limit, as for the two below."""
    max_wall_s: float = 0.0
    max_tokens: int = 0
    priority: int = 0
    earlier: tuple[facts.EarlierTask, ...] = ()
    """The ended tasks of its session when it came in."""
    tag: str = ""
    on_reject: OnReject = "cancel"
    roles: tuple[str, ...] = ()
    asked_at: str = ""
    """The computer in the game at which it was asked; empty: at none."""
    read_only: bool = False
    wait_for_model: bool = False
    """Whether it waits for its model server without an end."""
    restores: Restoration | None = None
    """The restoration that it makes, by a plan and without a model; None: a model works on it."""
    rehearses: Rehearsal | None = None
    """The computer of which it works on a copy; None: it works on the real ones."""
    rehearsed: facts.RehearsalEnded | None = None
    """The outcome of a rehearsal; None: nobody has looked yet."""
    siblings: Siblings = "reads"
    """How the present step waits, as the policy said when its calls were proposed; so the one below."""
    partial: Partial = "at_end"
    created_at: datetime | None = None
    updated_at: datetime | None = None
    steps: int = 0
    """Replies that the model gave."""
    attempt: int = 0
    """Requests to the model for the present step."""
    awaited: facts.ModelAwaited | None = None
    """The last wait for the model server since the last reply; None: there was none."""
    awaited_at: datetime | None = None
    """When the wait for the model server began."""
    waits: int = 0
    """How many waits for the model server there were since the last reply."""
    waited_s: float = 0.0
    """Seconds of them, up to ``updated_at``."""
    excused: int = 0
    """How many of ``attempt``: the requests up to the last one that did not reach the model server."""
    tokens: int = 0
    """In and out, of all replies, as far as the model's server counted them."""
    prompt_tokens: int = 0
    """Tokens of the present request, as it was recorded; 0: there is no limit of tokens."""
    uncounted: int = 0
    """In and out, of the replies that the server did not count: an estimate, where there is a limit of tokens."""
    active_s: float = 0.0
    """Seconds that count against ``max_wall_s``, up to ``updated_at``."""
    frozen: bool = False
    """Whether its last item says that its person is frozen."""
    refusals: int = 0
    """Unreadable replies in a row."""
    reply: BlobRef | None = None
    done_reason: str = "stop"
    explanation: str = ""
    calls: tuple[CallRecord, ...] = ()
    request: OpenRequest | None = None
    lapsed: RequestId | None = None
    """The request that nobody answered in time and that keeps the task waiting until somebody asks again."""
    closed: tuple[ClosedRequest, ...] = ()
    turns: tuple[Turn, ...] = ()
    rejections: tuple[tuple[str, str], ...] = ()
    """(call digest, reason) of what people rejected in this task."""
    rejected_in_a_row: int = 0
    """Decisions since the last approval that were rejections and nothing else."""
    evidence: Evidence = NOTHING
    """What the finished steps show of a success."""
    doubted: bool = False
    """Whether a success was refused already for want of evidence."""
    repeats: Repeats = ()
    """How often each call was made since something else was changed."""
    rounds: Rounds = AT_FIRST
    """What the finished steps show of a task that goes round."""
    input_tokens: int = 0
    """Tokens of the messages that the present reply answers; 0: nobody said."""
    checking: Checking = NO_CHECKS
    """How far its checks are."""
    hints: Hints = NO_HINTS
    """The files that the model explains before it changes them."""
    failures: tuple[facts.WorkFailed, ...] = ()
    """The last failure of each sort since the task got on, the latest last."""
    cancel_reason: str | None = None
    pinned: bool = False
    """Whether no retention removes it."""
    ended: facts.TaskEnded | None = None
    undone_by: tuple[TaskId, ...] = ()
    """The tasks that were begun to take back what it changed, oldest first."""
    undo_begun: bool = False
    """Whether one of them is the one that the policy wanted."""

    @property
    def status(self) -> TaskStatus:
        """The public status."""
        if self.ended is not None:
            return TaskStatus(self.ended.status)
        return STATUS_OF.get(self.phase, TaskStatus.RUNNING)

    @property
    def status_reason(self) -> str:
        """Why it has this status, in a word or two; empty where that says nothing."""
        if self.ended is not None:
            return self.ended.status_reason
        if self.phase is Phase.WAITING and self.awaited is not None:
            return f"waiting for the model server at {self.awaited.server}"
        reason = self.request.reason if self.request else "question" if self.phase is Phase.ANSWERING else ""
        if self.lapsed is not None:
            reason = "expired"
        return _REASONS.get(reason, reason)

    @property
    def rejecting(self) -> OnReject:
        """The effect of a rejection where nobody says otherwise: a check that is not made cancels nothing."""
        return "continue" if self.checking.step else self.on_reject

    @property
    def checks(self) -> tuple[facts.CheckResult, ...]:
        """The result of its checks at the last claim of success; before the first, that they were not made."""
        return so_far(self.checking)

    @property
    def named_computers(self) -> tuple[ComputerId, ...]:
        """Its computers as its model knows them: a copy by the name of the real one."""
        return self.computers if self.rehearses is None else (self.rehearses.computer,)

    @property
    def pending_tool_calls(self) -> tuple[CallRecord, ...]:
        """The calls that wait for a person's decision."""
        wanted = self.request.call_ids if self.request else ()
        return tuple(record for record in self.calls if record.call_id in wanted)

    @property
    def undecided(self) -> tuple[CallRecord, ...]:
        """The checks that nobody decided yet."""
        open_states = (CallState.PENDING, CallState.OUTCOME_UNKNOWN)
        return tuple(record for record in self.pending_tool_calls if record.state in open_states)

    @property
    def approvals(self) -> "dict[CallId, CallDecision]":
        """The decisions that approve all of them that can be approved; an unknown outcome cannot."""
        from orchestrator.core.approval.approval import CallDecision

        waiting = [record.call_id for record in self.undecided if record.state is CallState.PENDING]
        return {call_id: CallDecision(call_id=call_id, action="approve") for call_id in waiting}

    @property
    def open_runs(self) -> tuple[CallRecord, ...]:
        """The calls that were started and have no outcome."""
        return tuple(record for record in self.calls if record.state is CallState.EXECUTING)

    @property
    def only_looked(self) -> bool:
        """Whether none of its calls can have changed anything; not where it has checks, which are in no turn."""
        tools = {call.tool for turn in self.turns for call in turn.calls} | {one.call.tool for one in self.calls}
        return not self.checking.wanted and not any(map(may_change, tools))

    @property
    def undoes(self) -> TaskId | None:
        """The task whose changes it takes back; None: it is not an undo."""
        if self.restores is None or self.restores.listing:
            return None
        return TaskId(self.restores.task_id)

    @property
    def undoes_itself(self) -> bool:
        """Whether what it changed is to be taken back without anybody asking, as the policy said when it ended.

        An undo is never taken back by itself: where it failed, a person has to look. A rehearsal changed a copy, which
        is gone. Where the undo could not be begun, a person has to look, too.
        """
        changes_files = self.restores is None and self.rehearses is None and not self.gave_up
        return self.ended is not None and self.ended.undo == "auto" and changes_files

    @property
    def gave_up(self) -> bool:
        """Whether what it was to do next failed too often and is not tried any more."""
        return any(one.count >= one.most for one in self.failures)

    def is_of(self, name: str) -> bool:
        """Whether the person of this name submitted it."""
        return name == self.user_id and not self.by_program

    def counts_for(self, name: str) -> bool:
        """Whether it is of the person of this name, or of a program of theirs."""
        return self.is_of(name) or (self.by_program and self.owner == name)

    def active_until(self, now: datetime) -> float:
        """Seconds that count against ``max_wall_s`` up to ``now``."""
        if self.phase not in ACTIVE_PHASES or self.updated_at is None or self.frozen:
            return self.active_s
        return self.active_s + max(0.0, (now - self.updated_at).total_seconds())

    def waited_until(self, now: datetime) -> float:
        """Seconds up to ``now`` that the task has waited for its model server since the last reply."""
        if self.phase is not Phase.WAITING or self.updated_at is None:
            return self.waited_s
        return self.waited_s + max(0.0, (now - self.updated_at).total_seconds())

    def call(self, call_id: CallId) -> CallRecord | None:
        """The record of a call of the present step; None: it is not of this step."""
        for record in self.calls:
            if record.call.call_id == call_id:
                return record
        return None
