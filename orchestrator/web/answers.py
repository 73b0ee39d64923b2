"""What the doors answer, as models of the OpenAPI document; what a core model says already stands there.

Nothing is built from these: the doors answer plain JSON, and the tests hold that against the document.
"""

from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from orchestrator.core.approval import HitlResponse
from orchestrator.core.audit_check import Finding
from orchestrator.core.audit_story import Story
from orchestrator.core.facts import EarlierTask
from orchestrator.core.grants import Grant
from orchestrator.core.items import AgentTaskItem
from orchestrator.core.policy import CustomReport, Policy, PolicyDecision, RuleReport
from orchestrator.core.restoring.outcomes import Outcome
from orchestrator.core.restoring.telling import UndoOffer
from orchestrator.core.system_facts import ComputerSide, FreezeReason, GrantId
from orchestrator.core.task import Phase, TaskStatus


class AnswerModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Problem(AnswerModel):
    """What was wrong, and what to do next."""

    code: str
    """For programs: the table of docs/protocol.md lists them."""
    message: str = Field(min_length=1)
    """What happened, as a sentence."""
    remedy: str = Field(min_length=1)
    """What to do next."""
    details: dict[str, Any] = {}
    """For programs, such as who decided before; left out where there is nothing."""


class Error(AnswerModel):
    """The one form of every error."""

    error: Problem


class Health(AnswerModel):
    """The orchestrator is up, and its store answers."""

    status: Literal["ok"]


class TaskShort(AnswerModel):
    """A task and where it stands now."""

    task_id: str
    status: TaskStatus


class TaskRowAnswer(TaskShort):
    """A task in a list."""

    status_reason: str
    """What it waits for; empty where the status says enough."""
    user_id: str
    session_id: str
    prompt: str
    """The first 200 characters."""
    computers: list[str]
    created_at: AwareDatetime
    updated_at: AwareDatetime
    pinned: bool
    """Whether no retention removes it."""


class TaskList(AnswerModel):
    """Tasks, the newest first."""

    tasks: list[TaskRowAnswer]


class CallAnswer(AnswerModel):
    """A call of the present step and where it stands."""

    call_id: str
    tool: str
    computer: str | None
    """null: it touches no computer."""
    state: str
    """A state of the table in docs/design.md, or ``approved_waiting_target``: its computer is away."""
    valid_until: AwareDatetime | None
    """When the approval lapses; null: never, or there is none."""


class QuestionAnswer(AnswerModel):
    """A question that the task waits on."""

    question_id: str
    question: str | None
    """Written by the model."""


class Result(AnswerModel):
    """How a task ended."""

    kind: Literal["final"]
    explanation: str
    success: bool
    """False too where the task ended well by the model's word and the journal does not bear it out."""
    message: str
    details: dict[str, Any]
    verified: bool | None
    """False: there is no evidence of the success that the model claims; null: nobody judged it."""


class TaskLong(TaskShort):
    """A task whole."""

    status_reason: str
    phase: Phase
    version: int
    """Of its last item."""
    prompt: str
    user_id: str
    asked_at: str | None
    """The computer in the game at which it was asked in this person's name; null: at none."""
    session_id: str
    computers: list[str]
    model: str
    steps: int
    max_steps: int
    """0: no limit, as for the other two."""
    tokens: int
    max_tokens: int
    active_s: float
    """Seconds that count against ``max_wall_s``."""
    max_wall_s: float
    priority: int
    read_only: bool
    pinned: bool
    """Whether no retention removes it."""
    rehearses: str | None
    """The computer of whose files it works on a copy; null: it works on the real ones."""
    earlier: list[EarlierTask]
    """How the earlier tasks of its session ended, oldest first."""
    created_at: AwareDatetime | None
    updated_at: AwareDatetime | None
    request: HitlResponse | None
    """What waits for a person, long texts cut."""
    lapsed_request: str | None
    """The request that nobody answered in time and that ``renew`` raises again."""
    calls: list[CallAnswer]
    question: QuestionAnswer | None
    result: Result | None
    """null: it has not ended."""
    undoes: str | None
    """The task that it takes back; null: none."""
    undo: UndoOffer | None
    """null: it has not ended."""
    applied: Outcome | None
    """Of a rehearsal: what became of the task that asks for all of it; null: none asks."""


class Stopped(AnswerModel):
    """The tasks that were stopped."""

    stopped: list[str]


class Requests(AnswerModel):
    """What waits for a person, oldest first, long texts cut."""

    requests: list[HitlResponse]


class TaskOver(TaskShort):
    """A task that has ended after the decision."""

    kind: Literal["final"]
    explanation: str
    success: bool
    message: str
    details: dict[str, Any]


class NextRequest(HitlResponse):
    """The request that the task waits for next, after the decision."""

    status: TaskStatus


class DecisionTaken(TaskShort):
    """A decision that was carried out."""

    request_id: str
    http_status: Literal[200]


class DecisionRefused(AnswerModel):
    """A decision that was refused; nothing of it holds."""

    request_id: str
    http_status: int
    """What it would have been answered with alone."""
    error: Problem


class DecidedList(AnswerModel):
    """The answers in the order of the requests."""

    decisions: list[DecisionTaken | DecisionRefused]


class PolicyInForceAnswer(AnswerModel):
    """The policy in force."""

    policy_version: str
    source: str
    """The file that it came from."""
    alert: str
    """Why the file as it is now could not be loaded; empty: it is what is in force."""
    mode: Literal["normal", "plan"]
    policy: Policy


class Reloaded(AnswerModel):
    """The policy in force after the file was looked at."""

    policy_version: str
    alert: str


class DryRun(PolicyDecision):
    """The verdict on a call, and what each rule had to do with it."""

    plan: bool
    rules: tuple[RuleReport, ...]
    custom: tuple[CustomReport, ...]


class GrantAnswer(Grant):
    """A standing approval and what became of it."""

    uses: int
    revoked: bool
    usable: bool


class Grants(AnswerModel):
    """Standing approvals."""

    grants: list[GrantAnswer]


class GrantTakenBack(AnswerModel):
    """Whether this request took the grant back; false: somebody had before."""

    grant_id: GrantId
    revoked: bool


class Item(AgentTaskItem):
    """One item of a journal, with the very fields that it was written with."""

    redacted: bool = False
    """Secrets were taken out of ``fact``, so that ``hash`` does not hold for what is shown."""


class AuditItems(AnswerModel):
    """Items by stream and version."""

    items: list[Item]
    next: str | None
    """Send it as ``after``; null: there is no more."""
    redacted: bool


class AuditStories(AnswerModel):
    """The calls that had to do with some bytes."""

    stories: list[Story]
    redacted: bool


class Findings(AnswerModel):
    """What is not in order; empty: all is."""

    findings: list[Finding]


class FrozenAnswer(AnswerModel):
    """Why a computer is frozen."""

    reason: FreezeReason
    since: AwareDatetime | None
    message: str
    """What happened, as a sentence."""
    remedy: str
    """What a person does about it."""
    facts: dict[str, int]
    """What was compared: ``heard`` and ``number`` of the store, ``found_seq`` and ``highest`` of the computer."""
    sides: list[ComputerSide]
    """Who was welcome last, if anybody was, then who came."""


class ComputerAnswer(AnswerModel):
    """A computer that has a token; only one that said hello since this start has more than the first six."""

    computer: str
    online: bool
    state: Literal["online", "away", "frozen"]
    frozen: FrozenAnswer | None
    """null: it is not frozen."""
    owner: str | None
    """Who paired it; null: nobody that is known."""
    seen_at: AwareDatetime | None
    """When it was connected last; null: it is now, or never was."""
    label: str | None = None
    host: str = ""
    family: str = ""
    computer_id: int | None = None
    client: str = ""
    """The version of its client."""


class ComputerLong(ComputerAnswer):
    """One computer."""

    last: ComputerSide | None
    """Who was welcome last; null: nobody since a release that keeps it."""
    released: bool
    """A person let it come back, and it has not come yet."""


class ComputerFreed(AnswerModel):
    """Whether this request released the computer; false: it was not frozen."""

    computer: str
    released: bool


class ComputerList(AnswerModel):
    """All computers that have a token."""

    computers: list[ComputerAnswer]


class RefusedRow(AnswerModel):
    """A connection, or a pairing, that was turned away."""

    at: AwareDatetime
    peer: str
    """The address it came from; empty: it is not known."""
    path: str
    code: str
    message: str
    remedy: str
    """What a person can do; may be empty."""
    computer: str | None
    """Whose token it was; null: nobody's that is known."""


class InstallerRow(AnswerModel):
    """A computer in the game fetched the installer."""

    at: AwareDatetime
    peer: str
    paired: bool
    """Whether a computer was paired from that address since."""


class LineRow(AnswerModel):
    """A line that `pair` printed."""

    at: str
    computer: str | None
    """The name that the computer will have; null: its id."""


class SeenComputer(AnswerModel):
    """A computer that has a token."""

    computer: str
    state: Literal["online", "away", "frozen"]
    client: str
    """The version of its client; empty: it was not here since this start."""
    message: str
    """Why it is frozen; empty: it is not."""
    remedy: str


class Checkup(AnswerModel):
    """What the orchestrator sees of who tries to reach it, and what it was started with."""

    version: str
    """Empty: it runs from a checkout that nobody installed."""
    data_dir: str
    host: str
    """The address that it listens on."""
    port: int
    public_url: str
    model: str
    ollama_url: str
    num_ctx: int
    client_version: str
    client_sha256: str
    refused: list[RefusedRow]
    """The last of them, the newest first."""
    installers: list[InstallerRow]
    lines: list[LineRow]
    """The lines of `pair` that nobody has used, lapsed ones too, the newest first."""
    computers: list[SeenComputer]


class SessionAnswer(AnswerModel):
    """Who is signed in with a browser."""

    name: str
    roles: list[str]
    csrf: str
    """What the page shows as `X-CSRF-Token` with everything that changes something; the same in all tabs."""
    expires_at: AwareDatetime
    """When it ends if it is not used again."""
    version: str
    """Of the program; empty: it is run from a checkout that nobody installed."""


class WatchHello(AnswerModel):
    """`hello`: the stream has begun; whatever changed before is read from the lists."""

    version: str
    """Of the program: a page of another one loads itself anew."""


class TaskHint(AnswerModel):
    """`tasks`: a task has new items."""

    task_id: str
    version: int


class ComputerHint(AnswerModel):
    """`computers`: one came, went, has another label, was frozen, released, made or revoked."""

    computer: str


class Elsewhere(AnswerModel):
    """Where things are, for who is no browser."""

    page: str
    doors: str
    health: str
    installer: str


class TokenMade(AnswerModel):
    """A new token: shown once, kept as a hash."""

    kind: Literal["person", "computer", "agent"]
    name: str
    token: str


class TokenAnswer(AnswerModel):
    """Whom there is a token for."""

    kind: str
    name: str
    roles: list[str]
    owner: str | None
    """Of a computer: the person for whom players ask there; null: nobody."""
    created_at: AwareDatetime | None
    """null: a release that did not write it down made it."""
    revoked: bool
    yours: bool
    """Whether it is the token that asks."""


class TokenList(AnswerModel):
    """All tokens, oldest first."""

    tokens: list[TokenAnswer]


class TokensRevoked(AnswerModel):
    """How many tokens were revoked."""

    revoked: int


class PairingMade(AnswerModel):
    """A code for one computer."""

    code: str
    expires_at: AwareDatetime
    computer: str | None
    """null: the computer is named by its id."""
    line: str
    """What to type on the computer."""
    url: str
    """Where the computer reaches this server."""


class PairedAnswer(AnswerModel):
    """The computer's token, once."""

    token: str
    computer: str
    label: str
    """What it is labelled if it has no label; empty: nothing."""
    url: str
    """Of the socket to dial."""
