"""The facts that belong to no task: tokens and sign-ins, active policies, refused attempts.

They are items of a node's ``system`` stream, chained as a task's items are (promise A1).
"""

from typing import Annotated, Final, Literal, NewType

from pydantic import AwareDatetime, Field

from orchestrator.core.policy import RoleRights
from orchestrator.core.values import ComputerId, Value, is_empty, is_false, is_zero

GrantId = NewType("GrantId", str)


RECORDS: Final = 1
"""What a node of this release says of itself in ``node_started``."""


class NodeStarted(Value):
    """A node opened the store."""

    kind: Literal["node_started"] = "node_started"
    version: str
    """The version of the program."""
    policy_version: str
    settings: dict[str, str] = Field(default_factory=dict)
    """What differs from the defaults, as text; never a secret."""
    node: str = ""
    """Its name, another at each start: several nodes of one store start and stop as they like."""
    records: int = Field(default=0, ge=0, exclude_if=is_zero)
    """1: from here on codes, welcomes and what nodes agree on have items too; 0: version 0.6 started."""


class NodeStopped(Value):
    """A node closed the store in order; one that started and has none was killed, or still runs."""

    kind: Literal["node_stopped"] = "node_stopped"
    node: str = ""
    """As ``node_started`` has it."""


class PolicyLoaded(Value):
    """A policy came into force."""

    kind: Literal["policy_loaded"] = "policy_loaded"
    source: str
    policy_version: str
    sha256: str
    """The sha256 of the file's bytes, which are kept as a blob."""
    previous: str = ""
    """The policy's version before it; empty at a start."""
    number: int = Field(default=0, ge=0, exclude_if=is_zero)
    """The version of the row that the store has of it, filled in by the store; 0 in items of version 0.6."""
    roles: dict[str, tuple[str, ...]] = Field(default_factory=dict, exclude_if=is_empty)
    """The rights of its own roles."""
    limits: dict[str, RoleRights] = Field(default_factory=dict, exclude_if=is_empty)
    """Those of its own roles that decide only some calls."""
    self_approval: bool = Field(default=False, exclude_if=is_false)
    """Whether people who only submit decide their own tasks."""


class PolicyRefused(Value):
    """A policy file changed and could not be loaded: the one before stays in force."""

    kind: Literal["policy_refused"] = "policy_refused"
    source: str
    reason: str


OWNER: Final = "owner:"
"""The text before the name of a computer's owner in the ``roles`` of its token."""
LABELLED: Final = "label:"
PAIRED: Final = "id:"
"""The text before the id of the computer that got the token for a code, in the same place."""


class TokenIssued(Value):
    """Somebody was given a token."""

    kind: Literal["token_issued"] = "token_issued"
    holder_kind: str
    name: str
    roles: tuple[str, ...] = ()
    owner: str = ""
    """For a computer: the person for whom players ask there.

    For an agent: the person whose tasks its tasks count as. Empty: nobody.
    """
    fingerprint: str = ""
    """sha256 over the hash that the store keeps of it, filled in by the store."""


class TokenRevoked(Value):
    """The tokens of a holder are worth nothing from now on."""

    kind: Literal["token_revoked"] = "token_revoked"
    holder_kind: str
    name: str
    count: int


class SignedIn(Value):
    """A person signed in with a browser: it got a secret of its own for their token."""

    kind: Literal["signed_in"] = "signed_in"
    name: str
    peer: str = ""
    """The address that it came from; empty: it is not known."""
    fingerprint: str = ""
    """sha256 over the hash that the store keeps of the secret, as those below are; filled in by the store."""
    bound_to: str = ""
    """The fingerprint of the token, as ``token_issued`` has it."""
    replaced: tuple[str, ...] = ()
    """The fingerprints of the person's oldest ones, which made room for it."""


class SignedOut(Value):
    """A browser is signed out for good; one that was away for too long is so without an item."""

    kind: Literal["signed_out"] = "signed_out"
    name: str
    fingerprint: str = ""
    """As ``signed_in`` has it, filled in by the store."""


class GrantRevoked(Value):
    """A standing approval was taken back."""

    kind: Literal["grant_revoked"] = "grant_revoked"
    grant_id: GrantId


class AttemptRefused(Value):
    """Somebody tried what they may not, or came too late."""

    kind: Literal["attempt_refused"] = "attempt_refused"
    door: str
    """Such as ``POST /v1/approve``."""
    code: str
    status: int
    detail: str
    task_id: str = ""
    request_id: str = ""
    action: str = ""
    more: int = Field(default=0, ge=0)
    """How many alike were refused since, and are not written down one by one."""


class CheckpointMade(Value):
    """The heads of all streams were signed and written outside of the store."""

    kind: Literal["checkpoint_made"] = "checkpoint_made"
    streams: int
    sha256: str
    """The sha256 of the checkpoint's content."""
    key: str = ""
    """Which key signed it, as a fingerprint: each node has its own."""
    heard: dict[ComputerId, tuple[str, int]] = Field(default_factory=dict, exclude_if=is_empty)
    """Computers of which more was heard since the last one: the boot that named it, and the ``journal_seq``."""


class ComputerSide(Value):
    """One of those that came with a computer's token, as it introduced itself."""

    computer_id: int
    """``os.getComputerID()``."""
    boot: str
    """The nonce of its boot."""
    at: AwareDatetime
    """When the computer said hello."""
    label: str = ""
    host: str = ""
    peer: str = ""
    """The address it came from; empty: not known."""
    former_labels: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Other labels that it had since it was paired; an empty one: it had none for a time."""


FreezeReason = Literal["disk_restored", "journal_lost", "store_restored", "other_computer", "two_computers", "moved"]
"""What does not fit: the computer's journal is older than one that was heard of, or gone; the store is
older than what the computer has seen; the token came from a computer of another id; two live at once; it is in
another cell now."""


class ComputerFrozen(Value):
    """Nothing more is sent to a computer until a person decides."""

    kind: Literal["computer_frozen"] = "computer_frozen"
    computer: ComputerId
    reason: FreezeReason
    facts: dict[str, int] = Field(default_factory=dict)
    """What was compared: ``heard`` and ``number`` of the store, ``found_seq`` and ``highest`` of the computer."""
    sides: tuple[ComputerSide, ...] = ()
    """Who was welcome last, if anybody was, then who came."""
    cell: str = Field(default="", exclude_if=is_empty)
    """Of one that moved: the cell where it is now."""
    url: str = Field(default="", exclude_if=is_empty)
    """The computers' channel of that cell."""
    bundle: str = Field(default="", exclude_if=is_empty)
    """The sha256 of all that went with it, which is kept until the cell has it."""


class ComputerWelcomed(Value):
    """A computer connected and was let in: from here on it is the one that has this name."""

    kind: Literal["computer_welcomed"] = "computer_welcomed"
    computer: ComputerId
    side: ComputerSide
    fingerprint: str = ""
    """The fingerprint of the token that it came with, as ``token_issued`` has it; empty: not known.

    The store fills in the rest.
    """
    number: int = 0
    """Allotted for the welcome."""
    heard: int = 0
    """The highest ``journal_seq`` that counts from here on."""
    doubtful_below: int = 0
    """The outcome of calls below this number is unknown."""


class ComputersArrived(Value):
    """Computers came from another cell, with the tasks that are theirs; the chains of these tasks go on here."""

    kind: Literal["computers_arrived"] = "computers_arrived"
    cell: str
    """The cell that they left."""
    bundle: str
    """The sha256 of all that came, as ``computer_frozen`` there has it."""
    computers: tuple[ComputerId, ...]
    welcomed: tuple[ComputerWelcomed, ...] = ()
    """Those of them that were ever welcome there: who has the name, as the tables here have it now."""
    tasks: dict[str, int] = Field(default_factory=dict)
    """Each task with the version of its last item from there: the rights of people to these items are that cell's."""
    grants: tuple[GrantId, ...] = ()
    """The grants that these tasks used and another task gave, which stayed there."""


class Agreed(Value):
    """The nodes of a store took what one of them said first for all of them."""

    kind: Literal["agreed"] = "agreed"
    name: str
    value: str


class ComputerLabelled(Value):
    """A computer got a label that it had not had before, or an admin confirmed the one that it has."""

    kind: Literal["computer_labelled"] = "computer_labelled"
    computer: ComputerId
    label: str
    """Its label from here on; empty: it has none."""
    former_labels: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """As ``ComputerSide`` has them, from here on; none once the label is confirmed."""
    by: str = ""
    """The admin who confirmed the label; empty: the computer told it."""


class ComputerReleased(Value):
    """A person let a frozen computer come back: the one that dials next is it."""

    kind: Literal["computer_released"] = "computer_released"
    computer: ComputerId
    by: str
    number: int = 0
    """The outcome of calls below this number is unknown; the store fills it in."""


class ComputerBackedUp(Value):
    """All that was on a computer was kept."""

    kind: Literal["computer_backed_up"] = "computer_backed_up"
    backup_id: str
    computer: ComputerId
    listing: str
    """The sha256 of the listing's lines, which are kept as a blob; so are the bytes of each file that they name."""
    files: int
    bytes: int
    """The bytes of all its files."""
    new_bytes: int
    """What of it was not kept before."""
    skipped: dict[str, str] = Field(default_factory=dict)
    """Paths that are not in the listing, each with why, as a sentence."""
    skipped_more: int = 0
    """How many more were skipped than are named."""
    note: str = ""
    """The note of its maker."""


class BackupRemoved(Value):
    """A backup is no longer kept."""

    kind: Literal["backup_removed"] = "backup_removed"
    backup_id: str
    computer: ComputerId


class KeysSent(Value):
    """A person types at a computer from outside; written before the keys go out, once, on the way they may be lost."""

    kind: Literal["keys_sent"] = "keys_sent"
    computer: ComputerId
    text: str = ""
    """The typed or pasted text, without secrets; empty: only keys."""
    keys: tuple[str, ...] = ()
    """The keys, by name or character."""


class GroupValue(Value):
    """A group as somebody set it."""

    kind: Literal["group"] = "group"
    people: tuple[str, ...] = ()
    computers: tuple[str, ...] = ()
    """The computers that all of its people may use."""


class OwnerValue(Value):
    """The owner of a computer as somebody set it: exactly one of the two is named."""

    kind: Literal["owner"] = "owner"
    person: str = ""
    group: str = ""


class AwayValue(Value):
    """Somebody is away, and another person decides for them."""

    kind: Literal["away"] = "away"
    to: str
    """The person who decides for them."""
    until: AwareDatetime


class FreezeValue(Value):
    """A freeze as somebody set it."""

    kind: Literal["freeze"] = "freeze"
    by: str
    reason: str = ""
    at: AwareDatetime


Notable = Literal["waits_for_you", "question", "failed", "frozen", "finished"]
"""What people can be told of outside of the page: a request or a question that waits, the end of a task, a computer."""
NoticeState = Literal["new", "waiting", "sent", "dead"]
"""``new``: nobody looked yet which rules it concerns; ``dead``: it was tried for the last time."""


class NotifyValue(Value):
    """A notification rule as somebody set it. The address is a secret: the item has only a fingerprint of it."""

    kind: Literal["notify"] = "notify"
    person: str = ""
    """The person whose rule it is; empty: the installation's."""
    kinds: tuple[Notable, ...]
    target: str
    """sha256 over the address and the key that signs; the store keeps both apart, under this name."""
    shown: str
    """The part of the address that is no secret, such as ``https://hooks.example.org/…``."""
    private: bool = False
    """Whether it may lead to loopback and private addresses, because an admin set it."""
    quiet_from: str = ""
    """When quiet hours begin, as ``HH:MM``; empty: there are none."""
    quiet_to: str = ""
    zone: str = ""
    """The time zone of the quiet hours, such as ``Europe/Berlin``."""
    details: bool = False
    """Whether a message has the texts of the task, with their secrets masked, and not only names."""


class Found(Value):
    """One thing that the audit found and that is not as written, as an audit's ``Fault`` has it."""

    stream: str
    version: int
    what: str
    detail: str


class FindingValue(Value):
    """What the verification in the background found wrong with a stream when it read that last."""

    kind: Literal["finding"] = "finding"
    found: tuple[Found, ...]
    more: int = Field(default=0, ge=0)
    """How much more was found there than is told."""


DirectoryValue = Annotated[
    GroupValue | OwnerValue | AwayValue | FreezeValue | NotifyValue | FindingValue, Field(discriminator="kind")
]


class DirectoryChanged(Value):
    """An entry of the directory was set or removed.

    It is a group, an owner, an absence, a freeze, a notification rule, or what the audit found.
    """

    kind: Literal["directory_changed"] = "directory_changed"
    about: Literal["group", "owner", "away", "freeze", "notify", "finding"]
    name: str
    """The name of the group, of the computer, or of the person; of a freeze also ``group:NAME``, or ``*`` for all; of
    a rule its person, ``/`` and its name; of a finding its stream, or ``*`` for the checkpoint."""
    value: DirectoryValue | None = None
    """The whole entry as it is from here on; None: there is none any more."""

    @property
    def entry(self) -> str:
        """The key of its row. No name has a blank."""
        return f"{self.about} {self.name}"


class TaskPruned(Value):
    """An ended task was removed from the store, in the same transaction; this is what is left of it.

    All but ``why`` follows from its items.
    """

    kind: Literal["task_pruned"] = "task_pruned"
    task_id: str
    version: int
    """The version of its last item."""
    head_hash: str
    """Of its last item."""
    user_id: str
    created_at: AwareDatetime
    updated_at: AwareDatetime
    requests: int = 0
    """How many requests it had raised."""
    grants: tuple[GrantId, ...] = ()
    """The grants that were given in it; their rows went with it."""
    uses: dict[GrantId, int] = Field(default_factory=dict)
    """How often it had used grants."""
    why: str = ""
    """The rule, such as ``older than 30 days``."""


SystemFact = (
    NodeStarted
    | NodeStopped
    | PolicyLoaded
    | PolicyRefused
    | TokenIssued
    | TokenRevoked
    | SignedIn
    | SignedOut
    | GrantRevoked
    | AttemptRefused
    | CheckpointMade
    | ComputerFrozen
    | ComputerLabelled
    | ComputerReleased
    | ComputerWelcomed
    | ComputersArrived
    | Agreed
    | ComputerBackedUp
    | BackupRemoved
    | KeysSent
    | DirectoryChanged
    | TaskPruned
)
