"""The port of who is signed in: browsers, each with a secret of its own that it got for a person's token."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple, Protocol

from orchestrator.core.ports.store import TaskPersistenceManager, TaskQueue
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.task.system_facts import (
    ComputerBackedUp,
    ComputersArrived,
    DirectoryChanged,
    Notable,
    NoticeState,
)
from orchestrator.core.values import ComputerId, immutable

# -- The port of an audit: what is kept, as it is kept -----------------------------------

KeptTable = Literal[
    "tasks",
    "grants",
    "tokens",
    "computers",
    "requests",
    "items",
    "streams",
    "backups",
    "pruned",
    "sign_ins",
    "policies",
    "agreed",
    "duties",
    "blob_marks",
    "directory",
    "secrets",
    "outbox",
]
"""What ``kept_rows`` tells of; of ``items`` only the streams that have any."""
KeptRow = Mapping[str, str | int | None]
"""A row by its columns."""


class KeptItem(NamedTuple):
    """An item as it is kept: its bytes, and the columns beside them."""

    version: int
    item_id: str
    data: bytes


class KeptJournal(NamedTuple):
    """A task's row and its items, as they are kept."""

    row: KeptRow
    items: list[KeptItem]


class KeptBlob(NamedTuple):
    """What is kept under a blob's name, which should be its sha256."""

    name: str
    sha256: str
    size: int
    lists: bool
    """Whether it may be the lines of a directory, which name further blobs."""


class KeptRecords(Protocol):
    """What is kept, as it is kept: for an audit, which trusts neither a decoder nor a column.

    Everything comes in pages of at most ``limit``, ordered by key: after ``after``, None: from the first.
    """

    async def kept_items(self, stream: str, after_version: int = 0, limit: int = 500) -> list[KeptItem]:
        """The items of a task or a stream by their rows' versions, undecoded."""

    async def kept_rows(self, table: KeptTable, after: str | None = None, limit: int = 500) -> list[KeptRow]:
        """The rows of a table; the first column is the key.

        Of ``items`` one for each stream, with how many it has and the version of the last.
        """

    async def kept_blobs(self, after: str | None = None, limit: int = 64) -> list[KeptBlob]:
        """The blobs by their names, each read and hashed, one at a time."""

    async def kept_task(self, task_id: str) -> KeptRow | None:
        """A task's row; None: there is none."""

    async def kept_journals(self, names: Sequence[str], most: int = 500) -> list[KeptJournal]:
        """The rows of these tasks and their first items, ``most`` of each, at one moment; without the unknown ones."""

    async def strange(self) -> list[str]:
        """Objects of the database that are not of the store's schema, such as a trigger, in a sentence each."""

    async def odd(self) -> list[str]:
        """Which columns hold a value that no version writes, in a sentence each; where :meth:`strange` is empty."""

    async def blob_sizes(self, names: Sequence[str]) -> dict[str, int]:
        """The sizes in bytes of those blobs of these that are there."""

    async def raised_by(self, request_ids: Sequence[str]) -> dict[str, str]:
        """The tasks that raised those requests of these that are known."""


# -- The port of what is kept for long and what goes: backups of computers, pruned tasks, blobs that nobody needs
#
# Blobs are put before the item that names them, and a node that finds one there counts on it without putting it again.
# So a blob is *touched* whenever it is put or counted on, and a sweep takes only blobs that were not touched for a
# while, checked in the transaction that takes them (see ``orchestrator.history.retention``).


@immutable
class BackupRow:
    """A backup that is kept."""

    fact: ComputerBackedUp
    by: str
    """The person or program that made it."""
    at: datetime


class BlobMark(NamedTuple):
    """The known facts of a blob without reading it."""

    sha256: str
    size: int
    lists: bool
    """Whether it may be the lines of a directory, which name further blobs."""
    touched: datetime
    """The time when it was put or counted on last."""


class Retention(Protocol):
    """Backups, and the removal of what is no longer needed."""

    async def touch_blobs(self, names: Sequence[str]) -> dict[str, int]:
        """The sizes in bytes of those blobs of these that are there; they count as put again now."""

    async def list_blobs(self, after: str | None = None, limit: int = 5000) -> list[BlobMark]:
        """The blobs by their names, unread, in pages as those of ``KeptRecords``."""

    async def sweep_blobs(self, names: Sequence[str], before: datetime) -> dict[str, int]:
        """Remove those blobs of these that nobody put or touched since ``before``; their sizes in bytes."""

    async def prune_task(self, note: Draft) -> bool:
        """Remove the task that a ``task_pruned`` names: items, row, requests, grants, claims; with the note.

        False, and nothing is done: it is not as the note has it, it is not over or somebody still works on it (such
        as on a call whose outcome nobody heard), it is pinned, a grant that was given in it can still be
        used, or a task that is not over or is pinned refers to it. Numbers of computers stay.
        Raises InvalidRequest.
        """

    async def pruned_at(self, task_id: TaskId) -> datetime | None:
        """When a task was pruned; None: it was not."""

    async def add_backup(self, note: Draft) -> None:
        """Keep the backup that a ``computer_backed_up`` tells of, with the note in the system stream.

        Added again with the same note, nothing changes. Raises InvalidRequest; Conflict when a blob that it needs is
        not there, or another backup has its id.
        """

    async def remove_backup(self, note: Draft) -> bool:
        """Remove the backup that a ``backup_removed`` names, with the note; False: it is not there.

        Its blobs stay until they are swept. Raises InvalidRequest.
        """

    async def list_backups(self, computer: ComputerId | None = None) -> list[BackupRow]:
        """The backups of a computer (None: of all), the newest first."""


# -- The port of moves between cells, each of which has a store of its own


class Departure(NamedTuple):
    """Computers that left for another cell."""

    bundle: str
    """The sha256 of all that is theirs, which is kept as a blob until the other cell has it."""
    computers: tuple[ComputerId, ...]
    tasks: tuple[TaskId, ...] = ()
    """The tasks that went with them; none where they had left before."""
    staying: tuple[TaskId, ...] = ()
    """Ended tasks that stay, because they are of other computers as well."""


class Moves(Protocol):
    """The two transactions of a move, and the bundle between them."""

    async def depart_computers(self, names: Sequence[ComputerId], cell: str, url: str) -> Departure:
        """Take away all that is of these computers, and keep it as a blob; done again, it answers the same bundle.

        Their tokens are revoked. Each is frozen as ``moved``, with the cell and ``url``, its computers' channel. Each
        of their tasks is taken out with a ``task_pruned``, in whatever state it is: its holder loses the lease.
        Raises NotFound; Conflict for a computer that is frozen, and for a task that is not over and works on others
        too; InvalidRequest where it is too much for one move.
        """

    async def forget_departure(self, bundle: str) -> None:
        """Let a bundle go that the other cell has; one that is not there is no fault."""

    async def arrive_computers(self, bundle: bytes, cell: str) -> ComputersArrived:
        """Put in what a bundle from ``cell`` has, with its ``computers_arrived``; done again, it answers what it did.

        A task that was held is due at once. Grants of a session are revoked: other tasks there may use them too.
        Raises Conflict for a computer or a task that is here already; InvalidRequest for a bundle of another version.
        """


# -- The port of what the nodes of one store have in common: the policy, singleton jobs, and agreed values

MOST_DUTY_S: Final = 7200.0
"""No singleton job is taken for longer at once."""


@immutable
class PolicyRow:
    """The active policy, as the store has it."""

    version: int
    """Rises by one with each policy that comes into force."""
    sha256: str
    """The sha256 of its bytes, which are kept as a blob."""
    source: str
    """Where it came from, such as a file's path."""
    loaded_at: datetime
    by: str
    """The person who activated it."""
    judged: int = 0
    """The newest version by which everything that waited was judged again."""


class EntryRow(NamedTuple):
    """An entry of the directory: a group, the owner of a computer, or a notification rule."""

    number: int
    """The version of the item of the system stream that set it."""
    fact: DirectoryChanged


class Common(Protocol):
    """What several nodes of one store share beside the tasks."""

    async def directory(self) -> list[EntryRow]:
        """All groups, owners and notification rules, by the key of their rows."""

    async def set_entry(self, note: Draft, *, expected: int, secret: str = "") -> int:
        """Set or remove the entry that a ``directory_changed`` names, with the note; its new number.

        ``expected``: the number of the entry as it is; 0: there is none. ``secret``: the text whose sha256 a
        notification rule names; it is kept for as long as the rule. Raises Conflict when the number is another, with
        nothing written; InvalidRequest for another note or secret, or one that removes an entry that is not there.
        """

    async def secret_of(self, sha256: str) -> str | None:
        """The secret of an entry; None: it is not there, or is not what was kept."""

    @property
    def shared(self) -> bool:
        """Whether several nodes may have this store open at once."""

    async def policy_in_force(self) -> PolicyRow | None:
        """The row of the active policy; None: there is none."""

    async def policy_item(self) -> AgentTaskItem | None:
        """The newest ``policy_loaded`` of the system stream, which says what is in force; None: there is none.

        Raises Unreadable where it is not in its chain: somebody put it there.
        """

    async def set_policy(self, expected_version: int, content: bytes, *, note: Draft) -> PolicyRow:
        """Put a policy into force: its bytes, its row and ``note``, a ``policy_loaded``, in one transaction.

        ``expected_version``: of the active policy; 0: none ever was. Raises Conflict when it is another, with nothing
        written; InvalidRequest for a note that is not a ``policy_loaded`` of these bytes.
        """

    async def judged_policy(self, version: int) -> None:
        """Keep that everything that waited was judged by this version; a newer one that is kept stays."""

    async def take_duty(self, name: str, holder: str, for_s: float) -> bool:
        """Take or renew a singleton job for so many seconds of the store's clock; False: another holder has it.

        A singleton job that would last longer than MOST_DUTY_S from now is nobody's: no node here took it.
        """

    async def leave_duty(self, name: str, holder: str) -> None:
        """Give a singleton job back at once; the job of another holder stays theirs."""

    async def agree(self, name: str, value: str) -> str:
        """What was said first under a name: ``value``, where nothing was, with an item of it. It stays for ever."""


# -- The port of the outbox: what people are still to be told, or were told lately


@immutable
class NoticeRow:
    """An item that people can be told of, or its delivery by one rule."""

    stream: str
    """The task, or SYSTEM_STREAM."""
    version: int
    """Of the item."""
    kind: Notable
    made_at: datetime
    rule: str = ""
    """The name of the rule's entry; empty: nobody looked yet which rules the item concerns."""
    state: NoticeState = "new"
    due: datetime | None = None
    """When it is to be looked at or tried next; None: never."""
    attempts: int = 0
    """The attempts that were begun."""
    batch: str = ""
    """Deliveries of one rule with the same text go as one message."""
    why: str = ""
    """Why the last attempt failed, as a sentence; empty: none did."""

    @property
    def event(self) -> str:
        """The id of what happened, the same for all rules."""
        return f"{self.stream}.{self.version}"

    @property
    def notice(self) -> str:
        """The key of the row."""
        return f"{self.event} {self.rule}" if self.rule else self.event


class Outbox(Protocol):
    """What people are to be told.

    A row is written with each item that is notable, in the same transaction, where the directory has a rule.
    """

    async def due_notices(self, limit: int = 200) -> list[NoticeRow]:
        """The rows that are due, longest due first. A row that no version writes is left out."""

    async def list_notices(self, limit: int = 200) -> list[NoticeRow]:
        """All rows, the newest first; without rows that no version writes."""

    async def replace_notices(self, before: Sequence[NoticeRow], after: Sequence[NoticeRow]) -> bool:
        """Put rows in the place of others; False, and nothing is done: one is gone, or has another state or attempt."""

    async def forget_notices(self, *, sent: datetime, dead: datetime) -> int:
        """Remove what was sent and was made before ``sent``, or is dead and was made before ``dead``; how many."""


# -- The port of who is signed in: browsers, each with a secret of its own that it got for a person's token


@immutable
class SignInRow:
    """A browser that is signed in, at rest: of its secret only a hash."""

    session_hash: str
    token_hash: str
    """The hash of the token that it came with: when the token ends, this ends."""
    name: str
    """The person's."""
    begun_at: datetime
    used_at: datetime
    """When it was used last, as far as that was kept."""


class SignIns(Protocol):
    """The browsers that are signed in.

    The store does not decide how long that lasts: it forgets what it is told to forget.
    """

    async def add_sign_in(self, row: SignInRow, *, most: int, note: Draft) -> list[SignInRow]:
        """Keep one, with a ``signed_in`` in the system stream, whose fingerprints are filled in.

        At most ``most`` are kept of one person: the oldest of the others are forgotten, and are the answer. Raises
        Conflict when the hash is already there, InvalidRequest for another note.
        """

    async def find_sign_in(self, session_hash: str) -> SignInRow | None:
        """The sign-in with this hash, whatever became of its token; None: there is none, or no longer."""

    async def use_sign_in(self, session_hash: str, at: datetime) -> None:
        """Keep that one was used at ``at``; a later use that is kept stays, and one that is not there stays away."""

    async def end_sign_in(self, session_hash: str, *, note: Draft | None = None) -> bool:
        """Forget one for good, with ``note`` in the system stream; False: it is not there, and nothing is noted.

        The ``fingerprint`` of a ``signed_out`` is filled in.
        """

    async def forget_sign_ins(self, *, begun: datetime, used: datetime) -> int:
        """Forget those that began at ``begun`` or before, or were last used at ``used`` or before; how many."""

    async def list_sign_ins(self) -> list[SignInRow]:
        """All that are kept, oldest first."""


# -- All of them -------------------------------------------------------------------------


class Store(TaskPersistenceManager, TaskQueue, KeptRecords, Retention, Moves, SignIns, Common, Outbox, Protocol):
    """All in one: every adapter keeps task and queue entry in one row."""
