"""The ports: what the house needs from outside, each with a contract that every adapter passes.

The conformance suites are in ``orchestrator.testing``; a port's numbered contracts stand there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, NewType, Protocol

from orchestrator.core import audit
from orchestrator.core.facts import BlobRef, DecisionAction, RequestId, TaskId, Usage
from orchestrator.core.grants import GrantState
from orchestrator.core.items import AgentTaskItem, Draft
from orchestrator.core.system_facts import GrantId
from orchestrator.core.task import AgentTask, TaskStatus
from orchestrator.core.wire import ComputerId, RunId, SettledCall

SYSTEM_STREAM: Final = audit.SYSTEM_STREAM
"""The stream of what belongs to no task; no task may have its name for an id."""

Token = NewType("Token", int)
"""The fencing token of a lease: rises each time a task changes hands."""


class Clock(Protocol):
    """Where time comes from: the system, or a test."""

    def now(self) -> datetime:
        """The present time, aware, in UTC."""


# -- store and queue ---------------------------------------------------------------------


@dataclass(frozen=True)
class TaskRow:
    """One task in lists and in the queue: the projection that each append keeps true."""

    task_id: TaskId
    status: TaskStatus
    version: int
    user_id: str
    session_id: str
    prompt: str
    """The first 200 characters."""
    created_at: datetime
    updated_at: datetime
    computers: tuple[ComputerId, ...] = ()


@dataclass(frozen=True)
class StreamHead:
    """The last item of a task or of a stream that is no task, as its row knows it."""

    stream: str
    """A task's id, or a stream's name such as SYSTEM_STREAM."""
    version: int
    hash: str


@dataclass(frozen=True)
class Lease:
    """The right to act for one task until it is not renewed in time."""

    task_id: TaskId
    token: Token


Schedule = Literal["keep", "wake", "sleep"]
"""What an append does to the queue entry: nothing, due at once, or due never (and lease given back)."""


class TaskPersistenceManager(Protocol):
    """The journal of tasks: append-only, fenced by version and token; the truth of the house.

    Every method may raise ``OrchestratorError``; none blocks the event loop.
    """

    async def create(self, task_id: TaskId, drafts: Sequence[Draft]) -> list[AgentTaskItem]:
        """A new task from its first drafts (``task_submitted`` first), due at once.

        Creating it again with the same item ids answers the stored items; with others: Conflict.
        Grants are given and used as in ``append``. Raises InvalidRequest for the name of a stream.
        """

    async def append(
        self,
        task_id: TaskId,
        version: int,
        drafts: Sequence[Draft],
        *,
        status: TaskStatus,
        schedule: Schedule = "keep",
        token: Token | None = None,
        number_for: ComputerId | None = None,
        blobs: Sequence[bytes] = (),
        claim: Sequence[ComputerId] = (),
        release: bool = False,
    ) -> list[AgentTaskItem]:
        """The drafts sealed after ``version``, with row, queue, numbers and blobs in one transaction.

        ``version`` is the task's version the caller folded. ``token`` fences: None for a command of
        somebody who holds no lease. ``number_for``: allot this computer's next number and put it
        into the (single) ``tool_started`` draft. ``claim``: claim these computers with it, and
        ``release``: give back all that the task has claimed; both for the holder of ``token`` only.
        The grants of a ``decision_recorded`` are kept with it, and the grant of a ``tool_started`` is
        used once with it. Durable when it returns.

        Raises NotFound; Conflict (version moved on, nothing written) unless the drafts' item ids
        are already there, which answers the stored items and uses no grant again; LeaseLost (the
        token is not the lease's), which is checked before the version; ComputerClaimed (another task
        has one) and GrantVoid (a grant that is to be used does not exist, was revoked, is over or
        used up), with nothing written.
        """

    async def record(self, drafts: Sequence[Draft], *, stream: str = SYSTEM_STREAM) -> list[AgentTaskItem]:
        """The drafts sealed after whatever is in a stream that is no task; the first begins it.

        Drafts whose item ids are all there already answer the stored items. Raises Conflict when
        only some are, InvalidRequest for the id of a task.
        """

    async def read(self, task_id: TaskId, after_version: int = 0) -> list[AgentTaskItem]:
        """The items of a task or a stream after ``after_version``, oldest first; empty for an unknown one."""

    async def heads(self) -> list[StreamHead]:
        """The heads of all tasks and streams as they were at one moment, sorted by name."""

    async def load(self, task_id: TaskId) -> AgentTask | None:
        """The folded task, or None. Changing what it returns changes nothing."""

    async def load_by_request_id(self, request_id: RequestId) -> AgentTask | None:
        """The task that raised a request, whatever became of it since; None: never raised."""

    async def list_tasks(
        self, *, status: TaskStatus | None = None, session_id: str | None = None, limit: int = 100
    ) -> list[TaskRow]:
        """The newest tasks first; ``status`` None: of any status, ``session_id`` None: of any session."""

    async def put_blob(self, content: bytes) -> BlobRef:
        """Keep ``content`` by its sha256; keeping it twice is one blob."""

    async def get_blob(self, sha256: str) -> bytes:
        """The content. Raises NotFound."""

    async def allot_number(self, computer: ComputerId, *, at_least: int = 0, lease: Lease | None = None) -> int:
        """The computer's next number: above every one before it, and not below ``at_least``.

        With ``lease`` the transaction first checks that it still holds (raises LeaseLost).
        """

    async def add_token(self, token: "TokenRow", *, note: Draft | None = None) -> None:
        """Keep a token's hash, with ``note`` in the system stream. Raises Conflict when the hash is already there."""

    async def find_token(self, token_hash: str) -> "TokenRow | None":
        """The token with this hash, revoked or not; None: there is none."""

    async def revoke_tokens(self, kind: str, name: str, *, note: Draft | None = None) -> int:
        """Revoke all tokens of a holder from now on; how many there were.

        With any, ``note`` goes into the system stream; the ``count`` of a ``token_revoked`` is filled in.
        """

    async def list_tokens(self) -> "list[TokenRow]":
        """All tokens, oldest first."""

    async def list_grants(self, *, session_id: str | None = None) -> list[GrantState]:
        """The grants of a session (None: of all), oldest first, with those that no longer stand."""

    async def revoke_grant(self, grant_id: GrantId, *, note: Draft | None = None) -> bool:
        """Revoke a grant from now on, with ``note`` in the system stream; False: it was revoked before.

        Raises NotFound.
        """

    async def close(self) -> None:
        """Finish what was accepted, then let go of the store. Safe to call twice."""


class TaskQueue(Protocol):
    """The queue entries in the same rows: leases are on tasks, never on messages."""

    async def lease(self, holder: str, lease_s: float) -> Lease | None:
        """The due task of highest priority, longest due first, that nobody holds; None: there is none."""

    async def renew(self, lease: Lease, lease_s: float) -> None:
        """Hold on. Raises LeaseLost."""

    async def park(
        self, lease: Lease, version: int, *, due: datetime | None, waiting_for: ComputerId | None = None
    ) -> None:
        """Give the lease back and sleep until ``due`` (None: until woken) or until a wake.

        Raises Conflict when the task has moved past ``version`` (nothing is lost: fold again), LeaseLost.
        """

    async def wake(self, task_id: TaskId) -> None:
        """Make a task due at once; a task somebody holds stays theirs and becomes due when they let go."""

    async def wake_waiting(self, computer: ComputerId) -> int:
        """Wake every task that parked for this computer; how many there were."""

    async def claim(self, lease: Lease, computers: Sequence[ComputerId]) -> ComputerId | None:
        """Claim all of them for the task or none; the answer is one that another task has, None: claimed.

        Raises LeaseLost.
        """

    async def claimant(self, computer: ComputerId) -> TaskId | None:
        """The task that has claimed a computer, ended ones included; None: it is free."""

    async def release_claims(self, lease: Lease, keep: Sequence[ComputerId] = ()) -> None:
        """Give back the task's claims except ``keep``, and wake the tasks that wait for those computers.

        Raises LeaseLost: a former holder does not know of its successor's open brackets.
        """

    async def next_due(self) -> datetime | None:
        """When the next entry falls due that nobody holds; None: nothing is scheduled."""


KeptTable = Literal["tasks", "grants", "tokens", "computers", "requests", "items"]
"""What ``kept_rows`` tells of; of ``items`` only the streams that have any."""
KeptRow = Mapping[str, str | int | None]
"""A row by its columns, those that are for ever; what belongs to the queue is left out."""


class KeptItem(NamedTuple):
    """An item as it is kept: its bytes, and the columns beside them."""

    version: int
    item_id: str
    data: bytes


class KeptBlob(NamedTuple):
    """What is kept under a blob's name, which should be its sha256."""

    name: str
    sha256: str
    size: int


class KeptRecords(Protocol):
    """What is kept, as it is kept: for an audit, which trusts neither a decoder nor a column.

    Everything comes in pages of at most ``limit``, ordered by key: after ``after``, None: from the first.
    """

    async def kept_items(self, stream: str, after_version: int = 0, limit: int = 500) -> list[KeptItem]:
        """The items of a task or a stream by their rows' versions, undecoded."""

    async def kept_rows(self, table: KeptTable, after: str | None = None, limit: int = 500) -> list[KeptRow]:
        """The rows of a table; the first column is the key."""

    async def kept_blobs(self, after: str | None = None, limit: int = 64) -> list[KeptBlob]:
        """The blobs by their names, each read and hashed, one at a time."""

    async def kept_task(self, task_id: str) -> KeptRow | None:
        """A task's row; None: there is none."""

    async def blob_sizes(self, names: Sequence[str]) -> dict[str, int]:
        """The sizes in bytes of those blobs of these that are there."""

    async def raised_by(self, request_ids: Sequence[str]) -> dict[str, str]:
        """The tasks that raised those requests of these that are known."""


class Store(TaskPersistenceManager, TaskQueue, KeptRecords, Protocol):
    """All in one: every adapter keeps task and queue entry in one row."""


TokenKind = Literal["person", "computer", "agent", "pairing"]
"""Whom a token is for; a pairing's is a code that becomes a computer's token, once."""


@dataclass(frozen=True)
class TokenRow:
    """A token at rest: only its hash."""

    token_hash: str
    kind: TokenKind
    name: str
    roles: tuple[str, ...] = ()
    """``submitter``, ``reviewer``, ``admin``; empty for a computer; of a pairing, the computer's name and label."""
    created_at: datetime | None = None
    revoked: bool = False


# -- people ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Identity:
    """Who is asking, as the authentication layer found out; never taken from a body."""

    kind: Literal["person", "computer", "agent"]
    """An ``agent`` is a program that submits and watches; it never decides (hitl.md R3)."""
    name: str
    roles: tuple[str, ...] = ()
    auth: str = "token"
    token_hash: str = ""
    """Of the token that proved it; empty: no token did."""


class RequestAuthorizer(Protocol):
    """Tells who is asking, and whether they may decide for a task."""

    async def authenticate(self, authorization: str | None) -> Identity:
        """The identity behind an ``Authorization`` header. Raises Unauthenticated."""

    def may_decide(self, identity: Identity, task: AgentTask, action: DecisionAction = "approve") -> bool:
        """Whether this identity may say this to requests of this task."""


# -- bus ---------------------------------------------------------------------------------


class Bus(Protocol):
    """Hints between parts: a lost one costs latency, never truth."""

    def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        """Tell whoever listens; never blocks, never fails."""

    def subscribe(self, subject: str, handler: Callable[[Mapping[str, Any]], None]) -> Callable[[], None]:
        """Call ``handler`` with each payload; the answer ends the subscription."""


# -- model -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChatMessage:
    """One message of the view that a model is sent."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class ModelReply:
    """One whole reply."""

    text: str
    done_reason: str = "stop"
    """``stop``, ``length`` (cut at the limit) or ``aborted`` (the stream ended without its last line)."""
    usage: Usage = field(default_factory=Usage)


class ChatModel(Protocol):
    """One request, one structured reply; no native tool calls."""

    @property
    def name(self) -> str:
        """The name tasks and logs show."""

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
    ) -> ModelReply:
        """The next reply to these messages, whole; canceling the wait stops the generation.

        ``on_text`` is told the text as it comes, in parts that add up to the reply's (None: nobody
        looks; a model that cannot stream says all at once). ``max_output_tokens`` bounds the reply;
        None: the model's own bound. Raises ModelFailed.
        """


# -- computers and workspace -------------------------------------------------------------


@dataclass(frozen=True)
class CallResult:
    """What a computer answered to a call that it finished without an error."""

    data: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class ComputerInfo:
    """A computer as it introduced itself, and whether it is connected now."""

    computer: ComputerId
    online: bool
    label: str | None = None
    host: str = ""
    family: str = "computer"
    computer_id: int | None = None
    identity: str = ""
    """A hash over its token and its id in the game: another one is another computer (hitl.md B6)."""


class Computers(Protocol):
    """The computers in the game, through whichever socket they hang on."""

    def info(self, computer: ComputerId) -> ComputerInfo | None:
        """What is known of a computer; None: it never said hello since this node started."""

    def list_computers(self) -> list[ComputerInfo]:
        """All that said hello since this node started."""

    def doubtful_below(self, computer: ComputerId) -> int:
        """Calls with a lower number may have run although the computer knows nothing of them; 0: none.

        Its journal was lost or put back, so that its "never ran" says nothing of them.
        """

    async def call(
        self,
        computer: ComputerId,
        *,
        run_id: RunId,
        task_id: str,
        number: int,
        method: str,
        params: Mapping[str, Any],
        body: bytes | None = None,
        wait_s: float = 60.0,
        on_output: Callable[[int, bytes], None] | None = None,
    ) -> CallResult:
        """Write the call's frame, once, and wait up to ``wait_s`` seconds for its outcome.

        ``on_output`` is told what a running program writes, as it comes: where the part begins in the
        whole output, and its bytes. Hints only: parts may be missing.

        Raises ComputerAway (not connected: no frame was written), CallVoid (the computer refused it
        unrun), ComputerFailed (it answered with an error), CallLost (the session ended or the wait
        did: only a settle can tell).
        """

    async def settle(self, computer: ComputerId, *, run_ids: Sequence[RunId], number: int) -> "dict[RunId, Settlement]":
        """Raise the computer's fence to ``number`` and ask what became of these runs.

        Raises ComputerAway, CallLost (ask again later with a new number).
        """

    def acknowledge(self, computer: ComputerId, run_id: RunId, number: int) -> None:
        """Let the computer forget an outcome that is durable here; a hint when it is away."""


@dataclass(frozen=True)
class Settlement:
    """What became of one run: the journal's word, and the result itself where it is still in memory."""

    call: SettledCall
    result: "CallResult | Exception | None" = None
    """None: not finished, or finished and its output lost with a reboot."""


class Workspace(Protocol):
    """The one directory on this host in which ``local_*`` may work."""

    @property
    def root(self) -> Path:
        """The directory itself."""

    def read_bytes(self, path: str) -> bytes | None:
        """The bytes of a file inside; None: there is none. Raises UnsafePath, ToolFailed (not a file, too large)."""

    def stage(self, name: str, data: bytes) -> None:
        """Keep bytes under a name, on disk, apart from the files; staging again replaces. Raises ToolFailed."""

    def commit(self, name: str, path: str) -> None:
        """Make the staged bytes the file at ``path``, in one atomic step; the mode of an old file stays.

        Raises UnsafePath when ``path`` leaves the workspace by any way, ToolFailed when nothing is staged.
        """

    def discard(self, name: str) -> bool:
        """Take staged bytes away; False: they were not there any more."""
