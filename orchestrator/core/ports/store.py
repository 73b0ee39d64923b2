"""The ports of the journal, the queue and the tables beside them: tasks, computers, tokens."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Final, Literal, NewType, Protocol

from orchestrator.core.approval.grants import GrantState
from orchestrator.core.audit import chain as audit
from orchestrator.core.ports.bus import Clock
from orchestrator.core.task.facts import BlobRef, RequestId, TaskId
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import LABELLED, OWNER, PAIRED, ComputerSide, GrantId
from orchestrator.core.task.task import AgentTask
from orchestrator.core.values import ComputerId, immutable
from orchestrator.core.wire.identity import NOTHING_HEARD, ComputerRecord, Heard

SYSTEM_STREAM: Final = audit.SYSTEM_STREAM
"""The stream of what belongs to no task; no task may have its name for an id."""

Token = NewType("Token", int)
"""The fencing token of a lease: rises each time a task changes hands."""


@immutable
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
    pinned: bool = False
    """Whether no retention removes it."""


@immutable
class StreamHead:
    """The last item of a task or of a stream that is not a task, as its row knows it."""

    stream: str
    """A task's id, or a stream's name such as SYSTEM_STREAM."""
    version: int
    hash: str


@immutable
class Receipt:
    """A number with which a computer may forget an outcome, allotted as the outcome is written."""

    computer: ComputerId
    heard: Heard
    told: Callable[[int], object]
    """Called with the number, in any thread, before the outcome is durable; where it is tried again, once more."""


@immutable
class Lease:
    """The right to act for one task until it is not renewed in time."""

    task_id: TaskId
    token: Token


@immutable
class Turns:
    """The rule by which a queue takes turns over users, as it is at one moment."""

    frozen: Collection[str] = ()
    """The users whose tasks nobody takes on now."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """The turns of a user for each turn of another, above 0; others have 1."""
    at_once: Mapping[str, int] = field(default_factory=dict)
    """The tasks of a user that may be held at once; 0, and others: no limit."""


ANYBODY: Final = Turns()

Here = Callable[[ComputerId], bool] | None
"""Whether a computer is connected to a holder's node; None: that makes no difference."""
FAR_S: Final = 0.1
"""Seconds for which a due task is left to the nodes that have a computer of it: longer than a notification takes."""
OVERTAKEN_S: Final = 10.0
"""Bounds the tasks that may overtake one: those that fell due within so many seconds after it."""


Schedule = Literal["keep", "wake", "sleep"]
"""The effect of an append on the queue entry: none, due at once, or due never (and lease given back)."""


class TaskPersistenceManager(Protocol):
    """The journal of tasks: append-only, fenced by version and token; the truth of the server.

    Every method may raise ``OrchestratorError``; none blocks the event loop.
    """

    @property
    def clock(self) -> Clock:
        """What leases, due times and all else go by on which nodes have to agree; one clock for all of one store."""

    async def create(self, task_id: TaskId, drafts: Sequence[Draft]) -> list[AgentTaskItem]:
        """A new task from its first drafts (``task_submitted`` first), due at once.

        Creating it again with the same item ids answers the stored items; with others: Conflict.
        Grants are given and used as in ``append``. Raises InvalidRequest for the name of a stream.
        """

    async def append(  # noqa: PLR0913 - all that one transaction may do
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
        woke: Callable[[], object] | None = None,
        receipt: Receipt | None = None,
    ) -> list[AgentTaskItem]:
        """The drafts sealed after ``version``, with row, queue, numbers and blobs in one transaction.

        ``version`` is the task's version the caller folded. ``token`` fences: None for a command of
        somebody who holds no lease. ``number_for``: allot this computer's next number and put it
        into the (single) ``tool_started`` draft. ``claim``: claim these computers with it, and
        ``release``: give back all that the task has claimed; both for the holder of ``token`` only.
        ``woke`` is called, in any thread, where a task that waited for one of them falls due by that, or this one by
        its "sleep", since it was woken while it was held.
        ``receipt``: allot one more number, below that of the draft, as ``allot_number`` does. It is not told of
        drafts that are already there.
        The grants of a ``decision_recorded`` are kept with it, and the grant of a ``tool_started`` is
        used once with it. Durable when it returns.

        Raises NotFound; Conflict (version moved on, nothing written) unless the drafts' item ids
        are already there, which answers the stored items and uses no grant again; LeaseLost (the
        token is not the lease's, unless just these drafts gave it back), which is checked before the
        version; ComputerClaimed (another task has one) and GrantVoid (a grant that is to be used does
        not exist, was revoked, is over or used up), with nothing written.
        """

    async def record(self, drafts: Sequence[Draft], *, stream: str = SYSTEM_STREAM) -> list[AgentTaskItem]:
        """The drafts sealed after whatever is in a stream that is not a task; the first begins it.

        Drafts whose item ids are all there already answer the stored items. Raises Conflict when
        only some are, InvalidRequest for the id of a task.
        """

    async def read(self, task_id: TaskId, after_version: int = 0) -> list[AgentTaskItem]:
        """The items of a task or a stream after ``after_version``, oldest first; empty for an unknown one."""

    async def heads(self) -> list[StreamHead]:
        """The heads of all tasks and streams as they were at one moment, sorted by name."""

    async def heads_since(self, at: datetime) -> list[StreamHead]:
        """The heads of tasks whose last item is of ``at`` or later, and of all streams that are not tasks.

        It costs only what changed. A clock that is late hides a task: a caller that must have all of them asks for
        ``heads``.
        """

    async def heads_from(
        self, name: str, limit: int = 500, *, users: Collection[str] | None = None
    ) -> list[StreamHead]:
        """The first heads, sorted by name, from ``name`` on; ``users``: only of tasks of these."""

    async def last_changed(
        self,
        limit: int = 100,
        *,
        before: tuple[datetime, TaskId] | None = None,
        begun: datetime | None = None,
        users: Collection[str] | None = None,
    ) -> list[TaskRow]:
        """Tasks by the time of their last item, the latest first; of equal times the greater id first.

        ``before``: only what comes after a row of this time and id. ``begun``: only tasks that came in by then.
        ``users``: only tasks of these.
        """

    async def load(self, task_id: TaskId, known: AgentTask | None = None) -> AgentTask | None:
        """The folded task, or None. Changing what it returns changes nothing.

        ``known``: the task as it was folded up to an earlier item. Where the stored items begin with those of it, it is
        folded on, and may be what is returned.
        """

    async def load_by_request_id(self, request_id: RequestId) -> AgentTask | None:
        """The task that raised a request, whatever became of it since; None: never raised."""

    async def list_tasks(
        self,
        *,
        status: TaskStatus | None = None,
        session_id: str | None = None,
        users: Collection[str] | None = None,
        before: tuple[datetime, TaskId] | None = None,
        limit: int = 100,
    ) -> list[TaskRow]:
        """The newest tasks first; None: of any status, of any session, of any user.

        ``before``: only what comes after a row of this time of creation and id. A page costs what it shows.
        """

    async def put_blob(self, content: bytes) -> BlobRef:
        """Keep ``content`` by its sha256; keeping it twice is one blob."""

    async def get_blob(self, sha256: str) -> bytes:
        """The content. Raises NotFound, Unreadable where it is not what was kept any more."""

    async def allot_number(
        self,
        computer: ComputerId,
        *,
        at_least: int = 0,
        count: int = 1,
        lease: Lease | None = None,
        heard: Heard = NOTHING_HEARD,
    ) -> int:
        """The computer's next number: above every one before it, and not below ``at_least``.

        ``count``: so many numbers, one after the other; the answer is the first of them.
        With ``lease`` the transaction first checks that it still holds (raises LeaseLost). ``heard``: the
        highest ``journal_seq`` that a boot of the computer has named, kept in the same transaction unless another
        boot was welcome since.
        """

    async def computer(self, computer: ComputerId) -> ComputerRecord:
        """The stored facts of a computer; of one that nobody met, a record of nothing."""

    async def list_computers(self) -> list[ComputerRecord]:
        """The stored facts of all computers, by name."""

    async def welcome_computer(
        self, computer: ComputerId, coming: "Coming", *, note: Draft | None = None
    ) -> int | None:
        """Keep who has come, and allot the number of its welcome; None: it is frozen, and nothing was kept.

        A release that waited for it is over with it. ``note``, a ``computer_welcomed``, goes into the system stream
        with what only the store knows. Raises InvalidRequest for another note.
        """

    async def seats(self, computers: Collection[ComputerId]) -> "list[SeatRow]":
        """The seats of these computers, by name; of one that no node has welcomed there is none."""

    async def seats_at(self, node: str, *, after: str = "", limit: int = 500) -> "list[SeatRow]":
        """The first seats at a node of computers that have not left it, by name, behind the name ``after``."""

    async def keep_seats(self, rows: "Sequence[SeatRow]") -> None:
        """Keep the text and ``left_at`` of seats. A computer that was welcomed again since stays as it is."""

    async def hear_computer(self, computer: ComputerId, heard: Heard) -> None:
        """Keep the highest ``journal_seq`` that a boot of a computer has named.

        Nothing of a computer that is frozen or just released, or where another boot was welcome since: word of an
        earlier one may come late, from another node.
        """

    async def freeze_computer(self, note: Draft) -> bool:
        """Freeze the computer that a ``computer_frozen`` names, with the note in the system stream.

        False: it was frozen before, which stays as it is, and nothing is noted. Raises InvalidRequest.
        """

    async def label_computer(self, note: Draft) -> bool:
        """Keep the label that a ``computer_labelled`` names beside those that the computer had; False: all were known.

        The note goes into the system stream with all former labels. One ``by`` an admin confirms the label: the
        former ones are forgotten. Raises InvalidRequest for another note.
        """

    async def release_computer(self, note: Draft) -> bool:
        """Release the computer that a ``computer_released`` names; False: it is not frozen, nothing is noted.

        A number above all that the computer was heard to have seen is allotted: it is the note's, and calls
        below it are in doubt from now on. Raises InvalidRequest.
        """

    async def add_token(self, token: "TokenRow", *, note: Draft | None = None) -> None:
        """Keep a token's hash, with ``note`` in the system stream. Raises Conflict when the hash is already there."""

    async def find_token(self, token_hash: str) -> "TokenRow | None":
        """The token with this hash, revoked or not; None: there is none."""

    async def revoke_tokens(
        self, kind: str, name: str, *, note: Draft | None = None, then: "tuple[TokenRow, Draft] | None" = None
    ) -> int:
        """Revoke all tokens of a holder from now on; how many there were.

        With any, ``note`` goes into the system stream; the ``count`` of a ``token_revoked`` is filled in. ``then``: a
        token that is added in the same transaction, as by ``add_token``.
        """

    async def list_tokens(self) -> "list[TokenRow]":
        """All tokens, oldest first."""

    async def tokens_of(self, kind: str, name: str) -> "list[TokenRow]":
        """All tokens of one holder, oldest first: it costs the same however many others have one."""

    async def count_revoked(self) -> int:
        """How many tokens were revoked, on all nodes: it rises with each."""

    async def list_grants(self, *, session_id: str | None = None) -> list[GrantState]:
        """The grants of a session (None: of all), oldest first, with those that no longer hold.

        Those of a newer version, which this one cannot read, are left out.
        """

    async def revoke_grant(self, grant_id: GrantId, *, note: Draft | None = None) -> bool:
        """Revoke a grant from now on, with ``note`` in the system stream; False: it was revoked before.

        Raises NotFound.
        """

    async def close(self) -> None:
        """Finish what was accepted, then let go of the store. Safe to call twice."""


class TaskQueue(Protocol):
    """The queue entries in the same rows: leases are on tasks, never on messages."""

    async def lease(
        self, holder: str, lease_s: float, *, but: Collection[TaskId] = (), turns: Turns = ANYBODY, here: Here = None
    ) -> Lease | None:
        """A due task that nobody holds, of the user whose turn it is; None: there is none.

        Users take turns, one lease each, by their weights: no number of tasks of one user holds up another. Of one
        user, the task of highest priority goes first, and of equals the one that is due longest. Between users that
        were idle it is the one whose task is due longest. ``but``: those that this holder leaves to others.

        A task whose computers are all elsewhere than ``here`` is left to the other nodes for FAR_S, or until a task of
        the user with a lower priority has been due for so long. After that, tasks with a computer here, and those
        without computers, go before it where they have its priority and fell due within OVERTAKEN_S after it.
        """

    async def renew(self, lease: Lease, lease_s: float) -> None:
        """Hold on. Raises LeaseLost."""

    async def park(
        self,
        lease: Lease,
        version: int,
        *,
        due: datetime | None,
        waiting_for: ComputerId | None = None,
        keep: Collection[ComputerId] | None = None,
    ) -> bool:
        """Give the lease back and sleep until ``due`` (None: until woken) or until a wake.

        ``keep``: give back the task's claims except these, and wake the tasks that wait for those computers; None: keep
        all. The answer is whether one falls due by that: another that had parked, or this one, which was woken while it
        was held.
        Raises Conflict when the task has moved past ``version`` (nothing is lost: fold again), and LeaseLost: a former
        holder does not know of its successor's open brackets. Then nothing is given back.
        """

    async def pass_by(self, lease: Lease) -> None:
        """Give the lease back to be taken by somebody else: the task is due as it was. Raises LeaseLost."""

    async def wake(self, task_id: TaskId) -> None:
        """Make a task due at once; a task somebody holds stays theirs and becomes due when they let go."""

    async def wake_waiting(self, computers: Collection[ComputerId], *, claimants: bool = False) -> int:
        """Wake every task that parked for one of these computers, in one transaction; how many there were.

        ``claimants``: also the tasks that have claimed them, of which calls may be open there.
        """

    async def waited_for(self) -> list[ComputerId]:
        """The computers for which tasks have parked, by name; of one that a task claimed, only that task counts."""

    async def claim(self, lease: Lease, computers: Sequence[ComputerId]) -> ComputerId | None:
        """Claim all of them for the task or none; the answer is one that another task has, None: claimed.

        Raises LeaseLost.
        """

    async def claimant(self, computer: ComputerId) -> TaskId | None:
        """The task that has claimed a computer, ended ones included; None: it is free."""

    async def next_due(self, *, but: Collection[TaskId] = (), frozen: Collection[str] = ()) -> datetime | None:
        """When the next entry falls due that nobody holds, ``but`` these; None: nothing is scheduled.

        ``frozen``: users whose entries do not count.
        """


TokenKind = Literal["person", "computer", "agent", "pairing", "pin"]
"""Whom a token is for.

A pairing's is a code that becomes a computer's token, once. A pin's is the PIN that a person types in the game: in
place of a hash there are its salt and its slow hash, which no item has.
"""


@immutable
class TokenRow:
    """A token at rest: only its hash."""

    token_hash: str
    kind: TokenKind
    name: str
    roles: tuple[str, ...] = ()
    """``submitter``, ``reviewer``, ``admin``. Of a pairing: the computer's name, its label, and who made the code. Of
    a computer: ``owner:NAME``, who that was, or who issued its token, and, where it was paired, ``id:NUMBER``, its own
    in the game, and ``label:TEXT``, the label that it had; rows of version 0.6 have only the owner. Of an agent
    ``owner:NAME`` as well, besides its roles."""
    created_at: datetime | None = None
    revoked: bool = False

    @property
    def owner(self) -> str:
        """The person for whom a player at this computer asks, or to whom the agent belongs; empty: nobody knows."""
        if self.kind == "pairing":
            return "".join(self.roles[2:3])
        owners = (role.removeprefix(OWNER) for role in self.roles if role.startswith(OWNER))
        return next(owners, "") if self.kind in ("computer", "agent") else ""

    @property
    def paired_label(self) -> str:
        """The label of the computer that got it for a code, as its installer told; empty: none, or nobody knows."""
        found = (
            one.removeprefix(LABELLED) for one in self.roles if self.kind == "computer" and one.startswith(LABELLED)
        )
        return next(found, "")

    @property
    def paired_id(self) -> int | None:
        """The id in the game of the computer that got it for a code; None: nobody knows."""
        found = (
            role.removeprefix(PAIRED) for role in self.roles if self.kind == "computer" and role.startswith(PAIRED)
        )
        return next((int(one) for one in found if one.isdecimal()), None)

    @property
    def rights(self) -> tuple[str, ...]:
        """Its roles without its owner and its id."""
        return tuple(role for role in self.roles if not role.startswith((LABELLED, OWNER, PAIRED)))


@immutable
class Coming:
    """A computer that is about to be welcome."""

    side: ComputerSide
    token: str = ""
    """The hash of its token; empty: not known."""
    at_least: int = 0
    """The least number that it may have."""
    heard: Heard = NOTHING_HEARD
    """The ``journal_seq`` that it has named before; it counts only for the boot that was welcomed last."""
    fresh: bool = False
    """Earlier words of the computer count no more."""
    doubt: bool = False
    """Calls that are open on it now are in doubt."""
    node: str = ""
    """The node that welcomes it; empty: its seat stays as it was."""
    said: str = ""
    """The text of its seat."""


@immutable
class SeatRow:
    """The node that welcomed a computer last. Whether it is there now follows from that node's being alive, too."""

    computer: ComputerId
    node: str
    number: int
    """The number of that welcome."""
    said: str
    """What the node says of the computer: a text of its own."""
    left_at: datetime | None = None
    """When the computer left that node; None: it has not."""
    known: ComputerSide | None = None
    """As the computer's record has it; it is not kept with the seat."""
