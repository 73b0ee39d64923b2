"""The facts that a task's items carry: frozen, in past tense, one union.

They are the audit, the conversation and the state at once, and they are for ever: kinds may be
added and a kind may get a field with a default, nothing else changes; tests/golden/items holds one of
each form since version 0.6.0. Such a field is left out while it has its default (``exclude_if``), so that nodes of
the version before go on with what does not use it.
"""

from typing import Annotated, Any, Final, Literal, NewType

from pydantic import AwareDatetime, Field

from orchestrator.core import policy
from orchestrator.core.approval.grants import Grant
from orchestrator.core.approval.workflow import Workflow
from orchestrator.core.policy import PolicyDecision, RiskLevel, Undo
from orchestrator.core.task.rehearsal import Rehearsal
from orchestrator.core.task.system_facts import GrantId, SystemFact
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.values import ComputerId, RunId, Value, is_empty, is_false, is_none, is_zero

TaskId = NewType("TaskId", str)
CallId = NewType("CallId", str)
RequestId = NewType("RequestId", str)
QuestionId = NewType("QuestionId", str)

EndStatus = Literal["Completed", "Failed", "Canceled"]
RequestEnd = Literal["expired", "superseded", "stale", "canceled"]
DecisionAction = Literal["approve", "reject", "edit", "respond", "check", "mark_done", "mark_failed", "retry"]
OnReject = Literal["cancel", "continue"]
OnTimeout = Literal["continue", "cancel", "stay_paused"]
Siblings = Literal["reads", "hold", "run_safe"]
"""Which allowed calls run while others of their step wait for a person: the reads, none, or all."""
FailedBecause = Literal["failed", "unanswered"]
"""``unanswered``: a connected computer was busy or did not answer; ``failed``: anything else."""
Partial = Literal["at_end", "at_once"]
"""When an approved change runs: once its whole step is decided, or at once."""
Limit = Literal[
    "max_steps", "max_wall_s", "max_tokens", "model_output", "model_failed", "rejections", "repeats", "window", "quota"
]


CANNOT_BE_KNOWN: Final = (
    "It cannot be known whether this was done: the computer was asked again twice and cannot say. Look in the game, "
    "then mark it done, mark it failed, or retry it."
)
"""The note of a call in a request whose computer was asked often enough."""
AT_ONCE: Final = 3
"""Answers that a connected computer may miss before each next try is given a pause."""
_TOLD_EACH: Final = 10


class BlobRef(Value):
    """Large text or bytes, kept by hash in the store's blobs."""

    sha256: str
    size: int


class ToolCall(Value):
    """One call as the model asked for it, arguments validated and canonical.

    A tool outside the catalog has its name made safe to look at, and its arguments as they were written.
    """

    call_id: CallId
    index: int
    """Its place in the reply, from 0: results go back to the model in this order."""
    tool: str
    args: dict[str, Any]
    computer: ComputerId | None = None
    """None: the call touches no computer."""
    call_digest: str
    """sha256 of tool, tool version, canonical arguments and computer: identifies the call."""
    stated_risk: RiskLevel | None = None
    """What the model said of its own call, which can only raise its risk (promise P13); None: nothing."""

    @property
    def plugin_name(self) -> str:
        """The tool's plugin; ``unknown`` for a tool outside the catalog."""
        spec = policy.BUILT_IN_CATALOG.get(self.tool)
        return spec.plugin if spec else "unknown"

    @property
    def function_name(self) -> str:
        """The tool's full name."""
        return self.tool


class Observed(Value):
    """What a call would touch, as it was found just before a person was asked."""

    state: dict[str, str]
    """Canonical path (or resolved program) to sha256 or ``absent``."""
    diff: str | None = None
    """Unified diff of a write; None when the call changes no text."""
    program: str | None = None
    """The resolved program of a run; None for other calls."""
    source: str | None = None
    """The text of that program, as its hash in ``state`` binds it; None: it is the game's own, or too long to show."""
    encoding: Literal["utf-8", "latin-1"] = "utf-8"
    """How a write encodes its text: as the old bytes, whose hash is in ``state``, are encoded."""
    directories: tuple[str, ...] = ()
    """The paths of ``state`` that are directories."""
    made: tuple[str, ...] = ()
    """Directories above its paths that are not there yet and that it would make."""
    note: str = ""
    """What else a reviewer should know, such as that a file is not text."""
    identity: str = ""
    """Which computer it was: a hash over its token and its id in the game; empty for this host (promise B6)."""


class Watched(Value):
    """What was in the watched places of a computer just before a program ran there, or just after."""

    globs: tuple[str, ...] = ()
    """The places, as the policy named them; said before it ran."""
    listing: str = ""
    """The sha256 of the listing's lines, which are kept; empty: nobody could look."""
    gaps: str = ""
    """The sha256 of the lines of what the listing lacks, kept as well: a file whose bytes are not kept with its
    hash, what could not be looked at as ``absent``. Empty: it lacks nothing."""
    changed: tuple[str, ...] = ()
    """After it ran: the first of the paths at which the listings differ, as they are shown to people."""
    why: str = ""
    """Why nobody could look, or not all bytes are kept, as a sentence."""


ProgramEnd = Literal["finished", "error", "observed", "timed_out", "stopped", "abandoned"]
"""``observed``: it was watched for as long as was asked, without an error, and then stopped. ``timed_out``: it reached
its limit without an error. ``stopped``: a person, or the end of the task, stopped it. ``abandoned``: it ignored the
request to stop."""


class Ran(Value):
    """The program that a call ran, and how it ended, as its computer told it."""

    path: str
    """Canonical path of the program."""
    sha256: str
    """The sha256 of the bytes that ran."""
    ended: ProgramEnd
    seconds: float = 0.0
    """Game time that it ran; 0: the computer did not say."""
    waits_for: str = ""
    """The events that it waited for when it was stopped, such as ``key``, with ``, `` between, the most telling first;
    ``read()``: a line that is typed; empty: any event, or not known."""
    tabs: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Names of the tabs, such as ``tab-1``, in which it started programs that run on in the background."""


class ShownCheck(Value):
    """A check that runs a program, as an approval request shows it beside the call with which it is approved."""

    check: str
    """The line of the check."""
    computer: ComputerId
    call_digest: str
    """The digest of the call by which the check is made; a check run under this approval has the same."""
    path: str
    """The canonical path by which the check names its program."""
    risk: RiskLevel
    """The policy's, of running it; a run of a higher risk is not covered."""
    program: str = ""
    """Canonical path of the program that was there when it was shown; empty: none was, or nobody could look."""
    sha256: str = ""
    """The sha256 of the program that the approval covers; empty: it covers only what approved calls write."""
    identity: str = ""
    """Which computer it was, as ``Observed`` has it."""


class CheckResult(Value):
    """What came of one check when the model last claimed success."""

    check: str
    """The line of the check."""
    holds: bool | None
    """None: the check was not made, or nobody knows what came of it."""
    why: str = ""
    """What was found, or why nothing was, as a sentence."""
    items: tuple[int, ...] = ()
    """The numbers of the items with the evidence; empty: there is none but this item."""
    by_policy: str = Field(default="", exclude_if=is_empty)
    """The glob of the policy that asks for the check; empty: the user asks for it."""


class RequestedCall(Value):
    """One call of an approval request, with all that a decision is bound to."""

    call_id: CallId
    observed: Observed
    evaluation: PolicyDecision
    action_digest: str
    checks: tuple[ShownCheck, ...] = Field(default=(), exclude_if=is_empty)
    """The checks that a person approves together with this call; its note names them."""


class Usage(Value):
    """Tokens of one model request, as the model's server counted them; 0 where it did not say."""

    input_tokens: int = 0
    output_tokens: int = 0


class EarlierTask(Value):
    """How an earlier task of the same session ended, as a follow-up is told."""

    task_id: TaskId
    prompt: str
    status: EndStatus
    message: str
    since: str = ""
    """The outcome of what it did, where its end does not say that: it only rehearsed, or was taken back."""


class TaskSubmitted(Value):
    """A task came in."""

    kind: Literal["task_submitted"] = "task_submitted"
    prompt: str
    user_id: str
    session_id: str
    computers: tuple[ComputerId, ...] = ()
    model: str
    max_steps: int
    max_wall_s: float = 0.0
    """Seconds from its first request to the model on, waiting for people not counted; 0: no limit."""
    max_tokens: int = 0
    """Tokens in and out, over all requests to the model; 0: no limit."""
    priority: int = 0
    earlier: tuple[EarlierTask, ...] = ()
    """The ended tasks of its session when it came in, oldest first."""
    tag: str
    """Random word of this task: fences tool output in the prompt as data."""
    on_reject: OnReject = "cancel"
    roles: tuple[str, ...] = ()
    """The requester's roles when it came in: rules of the policy may ask for one."""
    read_only: bool = False
    """Every tool that changes something is denied (promise P18)."""
    restores: Restoration | None = None
    """The restoration that it makes, by a plan and without a model; None: a model works on it."""
    for_program: bool = False
    """For a task that the system submits: it is for a program, and not for the person of the same name."""
    rehearses: Rehearsal | None = None
    """Its computer is a copy of this one; None: it works on the real ones."""
    wait_for_model: bool = Field(default=False, exclude_if=is_false)
    """Whether it waits for its model server without an end; else as long as the settings say."""
    checks: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """The checks of a claim of success, each as its line (see ``core.evidence.user_checks``)."""
    owner: str = Field(default="", exclude_if=is_empty)
    """For a program's task: the person to whom its token belonged; empty: a person's task, or nobody wrote it down."""


class ChecksBegun(Value):
    """What was found, before the model was asked first, in the places that must stay unchanged."""

    kind: Literal["checks_begun"] = "checks_begun"
    found: dict[str, str]
    """Check to what is at its path: a sha256, of a directory over all that is in it, or ``absent``. A check that is
    missing here could not be looked at."""


class ChecksJudged(Value):
    """The model claimed success, and the checks were made."""

    kind: Literal["checks_judged"] = "checks_judged"
    results: tuple[CheckResult, ...]


class ModelAsked(Value):
    """The model was asked for its next reply."""

    kind: Literal["model_asked"] = "model_asked"
    attempt: int
    prompt_version: str
    policy_version: str
    view_digest: str
    """sha256 of the messages sent: it can prove later what the model saw."""
    num_ctx: int = 0
    """Tokens of the model's window, by which the messages were chosen; 0: it does not say, and all were sent."""
    num_predict: int = 0
    """Tokens of them that were kept free for the reply."""
    prompt_tokens: int = Field(default=0, exclude_if=is_zero)
    """Tokens of the messages of a task with a limit of tokens.

    They are counted where known and else estimated, rather too many than too few; 0: it has no limit, or version 0.6
    recorded this.
    """


class ModelAwaited(Value):
    """The model server could not be reached: the task waits for it, holds nothing meanwhile, and then asks again."""

    kind: Literal["model_awaited"] = "model_awaited"
    server: str
    """Its address; of several that cannot be reached, all of them with commas between."""
    why: str
    """Why it could not be reached and what to do, in sentences."""
    until: AwareDatetime | None = None
    """When the task stops waiting and ends; None: never."""


class ModelReplied(Value):
    """The model's reply, whole and as it came."""

    kind: Literal["model_replied"] = "model_replied"
    raw: BlobRef
    done_reason: str
    usage: Usage = Usage.of_defaults()


class ReplyRefused(Value):
    """The reply was not taken; ``reason`` is the sentence the model gets."""

    kind: Literal["reply_refused"] = "reply_refused"
    reason: str
    because: Literal["unreadable", "unproven"] = "unreadable"
    """The reason: it had no single reading, or it claims a success that the journal does not support."""


class CallsProposed(Value):
    """The model asked for calls; the policy judged each."""

    kind: Literal["calls_proposed"] = "calls_proposed"
    explanation: str
    calls: tuple[ToolCall, ...]
    evaluations: tuple[PolicyDecision, ...]
    siblings: Siblings = "reads"
    """The policy's setting at that time, as is the one below."""
    partial: Partial = "at_end"
    present: str = ""
    """The sha256 of the lines of what was on the computer at the first look of an exact restoration, which removes
    nothing that came later; empty: none, or it is a later step."""
    checks: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """The orchestrator proposes the calls to check a claimed success: for each call the line of its check."""


class ReviewRequested(Value):
    """A person has to decide; the task pauses."""

    kind: Literal["review_requested"] = "review_requested"
    request_id: RequestId
    reason: Literal["approval", "outcome_unknown"]
    calls: tuple[RequestedCall, ...]
    risk: RiskLevel
    policy_version: str
    expires_at: AwareDatetime | None = None
    """None: it does not expire."""
    remind_at: AwareDatetime | None = None
    """When people are reminded of it; None: never."""
    on_timeout: OnTimeout = "stay_paused"
    """The effect on the task when nobody answers in time."""
    workflow: Workflow | None = Field(default=None, exclude_if=is_none)
    """The people who have to approve; None: one of those who may decide."""
    escalate_at: AwareDatetime | None = Field(default=None, exclude_if=is_none)
    """When it goes to the group of the workflow that comes next; None: never by itself."""


class Decision(Value):
    """One person's decision on one call, bound to the digest of what was shown."""

    call_id: CallId
    action: DecisionAction
    action_digest: str
    reason: str = ""
    on_reject: OnReject = "cancel"
    retry_as: CallId | None = None
    """The new call id of a ``retry``; None for other actions."""
    args: dict[str, Any] | None = None
    """With ``edit``, as the three below: what is to run instead; None for other actions."""
    call_digest: str = ""
    evaluation: PolicyDecision | None = None
    """The policy's verdict on it."""
    runs_digest: str = ""
    """The digest under which it may run; empty: its target was not shown yet, so it is shown first."""
    answer: str = ""
    """With ``respond``: what the model is told instead of a result."""
    grant_id: GrantId | None = None
    """The grant by which a sibling of the call was approved with it; None: this very call was decided."""
    said_digest: str = ""
    """sha256 over the decision that was sent: the same decision again by the same person decides nothing new."""
    step: int = Field(default=0, exclude_if=is_zero)
    """The step of the request's workflow for which an approval counts, from 0 on."""


class DecisionRecorded(Value):
    """A person decided one or more calls of a request."""

    kind: Literal["decision_recorded"] = "decision_recorded"
    request_id: RequestId
    decisions: tuple[Decision, ...]
    key: str = ""
    """The idempotency key that came with it, if any."""
    grants: tuple[Grant, ...] = ()
    """The grants that were given with it."""
    self_approved: bool = False
    """Whether the requester approved their own task's calls (promise R2)."""
    valid_until: AwareDatetime | None = None
    """The time until which the approved call may start; None: for as long as the task is open."""
    policy_version: str = ""
    """The active policy then."""
    whole_digest: str = ""
    """The digest of the request as it stood, over all calls that waited then."""
    behalf: str = Field(default="", exclude_if=is_empty)
    """The person who is away and for whom this one decided; empty: nobody."""


class RequestEnded(Value):
    """A request ended without a decision."""

    kind: Literal["request_ended"] = "request_ended"
    request_id: RequestId | None
    """None: the calls had been allowed, and no longer are."""
    end: RequestEnd
    call_ids: tuple[CallId, ...]
    """The calls it ended for."""
    reason: str = ""
    code: str = ""
    """In a word, such as ``digest_mismatch``, ``policy`` or ``approval_expired``."""
    then: OnTimeout = "continue"
    """For ``expired``: what becomes of the task."""
    seen: dict[str, str] = Field(default_factory=dict, exclude_if=is_empty)
    """For the code ``hint``: the targets, with their states when the model was told to explain the call."""


class ReviewNoted(Value):
    """Something that happened around a request and decides nothing, or was decided before."""

    kind: Literal["review_noted"] = "review_noted"
    what: Literal[
        "notified",
        "viewed",
        "reminded",
        "extended",
        "renewed",
        "released",
        "grant_used",
        "check_approved",
        "approved",
        "claimed",
        "unclaimed",
        "commented",
        "escalated",
    ]
    """``released``: the policy allows it by now and says that this is enough; ``renewed``: ask again;
    ``check_approved``: a person approved this run of a check with an earlier request of the task; ``approved``: a
    person approved, and more people have to; ``claimed``: a person looks at it and the others wait."""
    request_id: RequestId | None = None
    """None: a grant stood in before anybody was asked. Of ``check_approved``: that earlier request."""
    calls: tuple[RequestedCall, ...] = ()
    """What is approved by it, bound as in a request; empty: it approves nothing."""
    grant_id: GrantId | None = None
    expires_at: AwareDatetime | None = None
    """The new deadline of an extended or escalated request."""
    valid_until: AwareDatetime | None = None
    """As in ``decision_recorded``; of ``claimed``: its end."""
    decisions: tuple[Decision, ...] = Field(default=(), exclude_if=is_empty)
    """Of ``approved``, as the three below: approvals and edits that wait for more approvals."""
    key: str = Field(default="", exclude_if=is_empty)
    whole_digest: str = Field(default="", exclude_if=is_empty)
    behalf: str = Field(default="", exclude_if=is_empty)
    text: str = Field(default="", exclude_if=is_empty)
    """Of ``commented``."""
    to: str = Field(default="", exclude_if=is_empty)
    """Of ``escalated``: who decides from here on, such as ``role:admin``."""


class ToolStarted(Value):
    """A call is about to touch the world; durable before it does."""

    kind: Literal["tool_started"] = "tool_started"
    call_id: CallId
    run_id: RunId
    """Names this one run on the computer's channel; never used twice."""
    computer: ComputerId | None = None
    number: int = 0
    """Allotted by the store when it seals the item; 0 where no computer is touched."""
    action_digest: str
    """Computed again from what is about to be sent."""
    before: dict[str, str] = Field(default_factory=dict)
    """Each touched path with its sha256 or ``absent``. Of what a tool changes, the store has the bytes by this
    very hash: of a file its bytes, of a directory the lines that its hash is taken over."""
    directories: tuple[str, ...] = ()
    """The paths of ``before`` that are directories."""
    made: tuple[str, ...] = ()
    """Directories above the paths of ``before`` that were not there and that it makes."""
    grant_id: GrantId | None = None
    """The grant under which it runs; None: a decision, or the policy."""
    watched: Watched | None = None
    """For a program: the listings of the watched places; None: nothing was watched."""
    lines: tuple[int, int] | None = Field(default=None, exclude_if=is_none)
    """Lines of text that it adds and removes, by the diff that was made before; None: not known, or no text."""
    only_comments: bool = Field(default=False, exclude_if=is_false)
    """Whether that diff, of a Lua file, changes only comments and blank space."""


class ToolFinished(Value):
    """A call ended, and how; ``text`` is what the model is told."""

    kind: Literal["tool_finished"] = "tool_finished"
    call_id: CallId
    run_id: RunId
    ok: bool
    code: str | None = None
    text: str
    after: dict[str, str] = Field(default_factory=dict)
    """Each changed path with its sha256 or ``absent`` afterwards, where it is known."""
    watched: Watched | None = None
    """For a program: the listings of the watched places right after it had ended; None: nothing was watched."""
    ran: Ran | None = Field(default=None, exclude_if=is_none)
    """The program that ran; None: the call runs none, it never began, or version 0.6 recorded this."""


class ToolSettled(Value):
    """What the computer said of a call whose outcome had not been heard."""

    kind: Literal["tool_settled"] = "tool_settled"
    call_id: CallId
    run_id: RunId
    state: Literal["finished", "interrupted", "unknown", "void"]
    ok: bool | None = None
    """None unless finished."""
    text: str = ""
    reason: str = ""
    """Why it is void, interrupted or unknown; shown to the reviewer and, if it ends so, to the model."""
    code: str | None = None
    """For a finished run that failed: the code as in ``tool_finished``; None otherwise."""
    after: dict[str, str] = Field(default_factory=dict)
    """As in ``tool_finished``."""
    watched: Watched | None = None
    """For a program: the listings of the watched places when it was asked about.

    Others may have changed something, too.
    """
    ran: Ran | None = Field(default=None, exclude_if=is_none)
    """As in ``tool_finished``."""


class QuestionAsked(Value):
    """The model asked a person something; the task pauses."""

    kind: Literal["question_asked"] = "question_asked"
    question_id: QuestionId
    call_id: CallId
    question: str
    options: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """The choices that it offers, from number 1 on; empty: none."""


class QuestionAnswered(Value):
    """A person answered."""

    kind: Literal["question_answered"] = "question_answered"
    question_id: QuestionId
    answer: str
    """The text of the choice, where its number was typed."""


class StatusSent(Value):
    """The model told its user how it goes."""

    kind: Literal["status_sent"] = "status_sent"
    call_id: CallId
    message: str


class CancelRequested(Value):
    """A person wants the task to stop."""

    kind: Literal["cancel_requested"] = "cancel_requested"
    reason: str = ""


class LimitReached(Value):
    """A limit of the task was reached before the next request to the model."""

    kind: Literal["limit_reached"] = "limit_reached"
    limit: Limit
    detail: str = ""


class FileFound(Value):
    """A path that a task left other than it was."""

    computer: ComputerId | None = None
    """None: the workspace on this host."""
    path: str
    change: Literal["new", "changed", "deleted"]
    plus: int | None = None
    """Lines that were added; None: not known, or no text."""
    minus: int | None = None


class RunFound(Value):
    """The last run of a program."""

    computer: ComputerId | None = None
    path: str
    ended: ProgramEnd
    seconds: float = 0.0
    """Game time that it ran; 0: not known."""
    stale: bool = False
    """Whether the program was changed after it."""
    said: str = ""
    """The line that says why it ended, of a run that ended with an error."""
    times: int = 1
    background: str = Field(default="", exclude_if=is_empty)
    """The tabs in which what it started may still run, with ``, `` between; empty: none is known."""


class Finding(Value):
    """What the journal shows of a task, whatever its model says."""

    files: tuple[FileFound, ...] = ()
    more_files: int = 0
    """Paths that are not in ``files``, because there are too many."""
    runs: tuple[RunFound, ...] = ()
    not_run: tuple[str, ...] = ()
    """Programs that were changed and not run since."""
    unknown: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Calls that change or run something, that had begun, and whose outcome was not known at the end."""
    checks: tuple[CheckResult, ...] = ()
    looked: bool = True
    """Whether anything was looked at, changed or run."""
    several: bool = Field(default=False, exclude_if=is_false)
    """Whether the task has several computers: each place is told with its own."""


class WorkFailed(Value):
    """What the task was to do next failed, and is tried again until ``count`` reaches ``most``."""

    kind: Literal["work_failed"] = "work_failed"
    effect: str
    """The effect that was next, such as ``RunTool``."""
    reason: str
    """Why it failed, as a sentence for people."""
    because: FailedBecause
    count: int
    """The failures of this sort, with this one, since the task last got on."""
    most: int
    """With so many the task ends."""

    @property
    def told(self) -> str:
        """Why a task does not go on now, for people."""
        tried = f"tried {self.count} of {self.most} times: {self.reason}"
        return tried if self.because == "failed" else f"waiting for a computer that does not answer, {tried}"

    @property
    def is_worth_a_line(self) -> bool:
        """Whether the log of a task tells it: an answer that was missed once or twice is not news."""
        return self.because == "failed" or self.count == AT_ONCE + 1 or self.count % _TOLD_EACH == 0


class WorkFrozen(Value):
    """The task's person is frozen: it goes on where it was once somebody unfreezes them, and its time stands still."""

    kind: Literal["work_frozen"] = "work_frozen"
    by: str
    """The person who froze them."""
    of: str
    """The name of the freeze: a person, ``group:NAME``, or ``*`` for everybody."""
    reason: str = ""


class TaskEnded(Value):
    """The task is over."""

    kind: Literal["task_ended"] = "task_ended"
    status: EndStatus
    status_reason: str
    message: str = ""
    explanation: str = ""
    details: dict[str, Any] = Field(default_factory=dict)
    verified: bool | None = None
    """False: the model claims a success that the journal does not support; None: nobody judged it."""
    doubt: str = Field(default="", exclude_if=is_empty)
    """Why ``verified`` is False, as the sentence that the model was told; empty: it is not False."""
    finding: Finding | None = Field(default=None, exclude_if=is_none)
    """What the journal shows of the task; None: version 0.6 recorded this."""
    undo: Undo = "offer"
    """What the policy said then of the changes of a task that failed or was canceled."""


class UndoSubmitted(Value):
    """Another task was begun that takes back what this one changed."""

    kind: Literal["undo_submitted"] = "undo_submitted"
    undo_task_id: TaskId


class TaskPinned(Value):
    """Somebody wants the task kept: no retention removes it."""

    kind: Literal["task_pinned"] = "task_pinned"


class TaskUnpinned(Value):
    """The task is no longer kept for somebody."""

    kind: Literal["task_unpinned"] = "task_unpinned"


class RehearsalEnded(Value):
    """What a rehearsal that is over had changed in its copy, which is gone now, and what becomes of it."""

    kind: Literal["rehearsal_ended"] = "rehearsal_ended"
    after: str
    """The sha256 of the lines of the copy's last listing."""
    changed: int
    """Places that differ from the real computer as it was copied."""
    applied_by: TaskId | None = None
    """The task that asks for all of it; None: nothing is to be applied."""
    message: str
    """All of this as a sentence."""


TaskFact = (
    TaskSubmitted
    | ChecksBegun
    | ChecksJudged
    | ModelAsked
    | ModelAwaited
    | ModelReplied
    | ReplyRefused
    | CallsProposed
    | ReviewRequested
    | DecisionRecorded
    | RequestEnded
    | ReviewNoted
    | ToolStarted
    | ToolFinished
    | ToolSettled
    | QuestionAsked
    | QuestionAnswered
    | StatusSent
    | CancelRequested
    | LimitReached
    | WorkFailed
    | WorkFrozen
    | TaskEnded
    | UndoSubmitted
    | TaskPinned
    | TaskUnpinned
    | RehearsalEnded
)
"""The facts that an item of a task may carry; the others are in items of a node's own stream."""

Fact = Annotated[TaskFact | SystemFact, Field(discriminator="kind")]
