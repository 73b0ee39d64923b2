"""What each column of the store decides, and how a change of it behind our back ends.

Rights do not limit a person who can write the database. So each column is one of three kinds. ``audit verify`` *finds*
a change, because the column follows from items; the store *refuses* to open with it; or the change is worth *nothing*,
since the value holds for moments or is never believed. docs/audit.md shows the table, and a test makes each edit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Fate = Literal["found", "refused", "nothing"]

HIGH: Final = "4611686018427387904"
"""A number or a time that nobody reaches."""


@dataclass(frozen=True)
class Cover:
    """One column, or a whole row."""

    decides: str
    by: str
    """What covers it, or why it is worth nothing."""
    fate: Fate = "found"
    edits: tuple[str, ...] = ()
    """Values that somebody would write there, in SQL; empty: those that the column's type suggests."""


_SHOWN: Final = "what lists show"
_CHAIN: Final = "the chain, the stream's row and the signed heads"
_ITEMS: Final = "the items of the task"
_GRANT: Final = "the decision that gave it, the calls that used it"
_TOKEN: Final = "`token_issued`, `token_revoked`"
_SIGNED: Final = "`signed_in`, `signed_out`"
_WELCOME: Final = "`computer_welcomed`"
_KNOWN: Final = "`computer_welcomed`, `computer_labelled`"
_FREEZE: Final = "`computer_frozen`, `computer_released`"
_POLICY: Final = "`policy_loaded`: the row is not believed where the item says otherwise"
_BACKUP: Final = "`computer_backed_up`, `backup_removed`"
_DIRECTORY: Final = "`directory_changed`"
_NOTICE: Final = "its other columns, and the limits of each"
_SEAT: Final = "the node that is asked has its socket, or says that it has not"
_MOMENT: Final = "never longer than somebody can mean it"

ROW: Final = "a row put in"
GONE: Final = "all rows taken out"

DECIDES: Final[Mapping[str, Mapping[str, Cover]]] = {
    "meta": {
        "name": Cover("which steps the tables have seen", "it is not a store of ours then", "refused"),
        "value": Cover(
            "which steps the tables have seen",
            "the tables are compared with those of the schema; one above ours is a newer version's",
            "refused",
            ("'0'", "'9999'", "'x'"),
        ),
        ROW: Cover("nothing", "no other name is read", "nothing"),
        GONE: Cover("whether it is a store", "it is not a store of ours then", "refused"),
    },
    "items": {
        "task_id": Cover("whose item it is", _CHAIN),
        "version": Cover("the order", _CHAIN, edits=("version + 1000",)),
        "item_id": Cover("whether it was written before", "the item itself", edits=("item_id || 'x'",)),
        "data": Cover("everything", _CHAIN),
        ROW: Cover("everything", _CHAIN),
        GONE: Cover("everything", _CHAIN),
    },
    "tasks": {
        "task_id": Cover("which task it is", _CHAIN, edits=("task_id || 'x'",)),
        "status": Cover(_SHOWN, _ITEMS),
        "version": Cover("where the next item goes", _CHAIN),
        "head_hash": Cover("what the next item follows", _CHAIN),
        "user_id": Cover("whose it is in lists", _ITEMS),
        "session_id": Cover("which session lists it", _ITEMS),
        "prompt": Cover(_SHOWN, _ITEMS),
        "computers": Cover(_SHOWN, _ITEMS),
        "priority": Cover("who is next", _ITEMS, edits=(HIGH,)),
        "created_at": Cover("the order of lists", _ITEMS),
        "updated_at": Cover("when retention removes it", _ITEMS),
        "due": Cover("when it is gone on with", "what its items say is to be done", edits=("NULL", HIGH)),
        "holder": Cover("who goes on with it", f"the end of the lease, {_MOMENT}", "nothing", ("'mine'",)),
        "token": Cover("whose lease it is", "an append also needs the version", "nothing", ("token + 5",)),
        "lease_until": Cover("when another goes on", f"of a held task: {_MOMENT}", "nothing", (HIGH,)),
        "lease_for": Cover(
            "for how long a lease is renewed",
            f"the setting's limit: {_MOMENT}; a change within it is not found",
            edits=(HIGH, "-1"),
        ),
        "waiting_for": Cover("which computer wakes it", "the computers of its items"),
        "woken": Cover("whether it is looked at once more", "a look finds nothing", "nothing"),
        "pinned": Cover("whether retention leaves it", _ITEMS),
        ROW: Cover("which tasks there are", _CHAIN),
        GONE: Cover("which tasks there are", _CHAIN),
    },
    "streams": {
        "stream": Cover("which stream it is", _CHAIN),
        "version": Cover("where the next item goes", _CHAIN),
        "head_hash": Cover("what the next item follows", _CHAIN),
        ROW: Cover(
            "which streams there are", _CHAIN, edits=("'mine', 3, 'x'", "(SELECT MIN(task_id) FROM tasks), 9999, '00'")
        ),
        GONE: Cover("which streams there are", _CHAIN),
    },
    "requests": {
        "request_id": Cover("which task a decision is for", "`review_requested`", edits=("request_id || 'x'",)),
        "task_id": Cover("which task a decision is for", "`review_requested`"),
        ROW: Cover("which task a decision is for", "`review_requested`"),
        GONE: Cover("which task a decision is for", "`review_requested`"),
    },
    "computers": {
        "computer": Cover("which computer it is", _WELCOME, edits=("computer || 'x'",)),
        "number": Cover("what the computer refuses as late", "the calls' starts, the welcome"),
        "task": Cover(
            "who may change something there", "the open calls of the tasks, and which tasks are over", edits=("'mine'",)
        ),
        "heard": Cover(
            "whether its disk was put back",
            "the welcome, and each checkpoint's note; a higher number only freezes the computer",
            edits=("0", "-1"),
        ),
        "doubtful_below": Cover("which outcomes are unknown", "the welcome, the release", edits=(HIGH, "-1")),
        "known": Cover("whether a copy came, which labels it had", _KNOWN),
        "token": Cover("whether it was paired anew", _WELCOME),
        "frozen": Cover("whether it is let in", _FREEZE),
        "frozen_at": Cover(_SHOWN, _FREEZE),
        "released": Cover("whether the computer that comes is the same one", _FREEZE),
        ROW: Cover("whether a copy came", f"{_WELCOME}; a row that says nothing of a computer is not found"),
        GONE: Cover("all of that", _WELCOME),
    },
    "blobs": {
        "sha256": Cover("which bytes they are", "the hash of the bytes", edits=("sha256 || 'x'",)),
        "content": Cover("replies, policies, old files", "the hash, also as they are read"),
        ROW: Cover("nothing: no item names it", "the hash of the bytes"),
        GONE: Cover("what can be undone", "the items that name them"),
    },
    "blob_marks": {
        "sha256": Cover("what is swept", "one without a mark stays", "nothing", ("sha256 || 'x'",)),
        "size": Cover("what retention counts", "the bytes"),
        "lists": Cover("whether what it lists is swept", "the bytes", edits=("0",)),
        "touched": Cover("when it is swept", "only what no record names goes; never later than now", edits=(HIGH,)),
        ROW: Cover("nothing", "there is no such blob", "nothing"),
        GONE: Cover("what is swept", "one without a mark stays", "nothing"),
    },
    "pruned": {
        "task_id": Cover("which id no task gets again", "`task_pruned`"),
        "pruned_at": Cover(_SHOWN, "`task_pruned`"),
        ROW: Cover("which id no task gets", "`task_pruned`"),
        GONE: Cover("which id no task gets again", "`task_pruned`"),
    },
    "backups": {
        "backup_id": Cover("which backup it is", _BACKUP),
        "computer": Cover("of which computer", _BACKUP),
        "made_at": Cover(_SHOWN, _BACKUP),
        "made_by": Cover(_SHOWN, _BACKUP),
        "data": Cover("which files are put back", _BACKUP),
        ROW: Cover("what can be put back", _BACKUP),
        GONE: Cover("what can be put back", _BACKUP),
    },
    "grants": {
        "grant_id": Cover("which it is", _GRANT, edits=("grant_id || 'x'",)),
        "task_id": Cover("where it counts", _GRANT),
        "session_id": Cover("where it counts", _GRANT),
        "user_id": Cover("for whom", _GRANT),
        "data": Cover("what runs unasked", _GRANT),
        "expires_at": Cover("until when", _GRANT, edits=(HIGH, "1")),
        "max_uses": Cover("how often", _GRANT, edits=(HIGH, "NULL")),
        "uses": Cover("how often still", _GRANT, edits=("uses + 1", "-1")),
        "revoked": Cover("whether it stands", _GRANT),
        ROW: Cover("what runs unasked", _GRANT),
        GONE: Cover("what runs unasked", _GRANT),
    },
    "tokens": {
        "token_hash": Cover("who comes in", _TOKEN, edits=("token_hash || 'x'",)),
        "kind": Cover("as what", _TOKEN, edits=("'agent'",)),
        "name": Cover("as whom", _TOKEN),
        "roles": Cover("what they may do; of a code, as which computer", _TOKEN),
        "created_at": Cover("until when a code can be used", _TOKEN),
        "revoked": Cover("whether it still counts", _TOKEN),
        ROW: Cover("who comes in", _TOKEN),
        GONE: Cover("who comes in", _TOKEN),
    },
    "sign_ins": {
        "session_hash": Cover("which browser comes in", _SIGNED),
        "token_hash": Cover("as whom", _SIGNED),
        "name": Cover("as whom", _SIGNED),
        "begun_at": Cover("until when", _SIGNED),
        "used_at": Cover("until when, if it is not used", "never later than now", edits=(HIGH,)),
        ROW: Cover("which browser comes in", _SIGNED),
        GONE: Cover("nothing: who has no row signs in again", "fewer come in", "nothing"),
    },
    "policies": {
        "name": Cover("which is in force", _POLICY),
        "version": Cover("what comes after it", _POLICY),
        "sha256": Cover("what is allowed", _POLICY),
        "source": Cover(_SHOWN, _POLICY),
        "loaded_at": Cover(_SHOWN, _POLICY),
        "loaded_by": Cover(_SHOWN, _POLICY),
        "judged": Cover(
            "whether what waits is judged again",
            "what runs is judged again anyway; a lower version is only judged once more, and is not found",
            edits=(HIGH, "-1"),
        ),
        ROW: Cover("what is allowed", _POLICY),
        GONE: Cover("what is allowed", _POLICY),
    },
    "agreed": {
        "name": Cover("what it is about", "`agreed`"),
        "value": Cover("which nodes hear each other, which workspace counts", "`agreed`"),
        ROW: Cover("what nodes take for agreed", "`agreed`"),
        GONE: Cover("what nodes agree on next", "`agreed`"),
    },
    "directory": {
        "entry": Cover("which group or computer it is about", _DIRECTORY),
        "number": Cover("what comes after it", _DIRECTORY),
        "data": Cover("who sees and uses what", _DIRECTORY),
        ROW: Cover("who sees and uses what", _DIRECTORY),
        GONE: Cover("who sees and uses what", _DIRECTORY),
    },
    "turns": {
        "user_id": Cover("whose turn it is", "a turn is lost or won, once", "nothing"),
        "started": Cover("whose turn is next", "people take turns again from there", "nothing"),
        "ends": Cover("whose turn is next", "people take turns again from there", "nothing"),
        ROW: Cover("whose turn is next", "a turn is lost or won, once", "nothing"),
        GONE: Cover("whose turn is next", "people take turns again from there", "nothing"),
    },
    "secrets": {
        "sha256": Cover("which rule has the address", _DIRECTORY),
        "value": Cover("where messages go, and with which signature", _DIRECTORY),
        ROW: Cover("nothing: no rule names it", _DIRECTORY),
        GONE: Cover("where messages go", _DIRECTORY),
    },
    "outbox": {
        "notice": Cover("which message it is", _NOTICE),
        "stream": Cover("about which task", _NOTICE),
        "version": Cover("about which item", _NOTICE),
        "kind": Cover("which rules it concerns", "a message says what its item says; only another kind is found"),
        "rule": Cover("the receivers of it", _NOTICE),
        "state": Cover(
            "whether it is still to go", f"{_NOTICE}; one that is marked as sent does not go", edits=("'x'",)
        ),
        "made_at": Cover("when it is forgotten", "never later than now", edits=(HIGH,)),
        "due": Cover("when it is tried", _NOTICE, edits=(HIGH,)),
        "attempts": Cover("how often it is still tried", _NOTICE, edits=(HIGH, "-1")),
        "batch": Cover("which go as one message", "each is told in some message", "nothing"),
        "why": Cover(_SHOWN, "it decides nothing", "nothing"),
        ROW: Cover("a message", f"{_NOTICE}; it says what an item says, to somebody who may see it"),
        GONE: Cover("which messages are still to go", "nothing is allowed by a message", "nothing"),
    },
    "duties": {
        "name": Cover("which work it is", "it is done by another then", "nothing"),
        "holder": Cover("who does it", "it ends by itself", "nothing"),
        "until": Cover("until when", f"{_MOMENT}; a longer one is nobody's", edits=(HIGH,)),
        ROW: Cover("who does it", "it ends by itself", "nothing"),
        GONE: Cover("who does it", "somebody takes it at once", "nothing"),
    },
    "seats": {
        "computer": Cover("which computer it is", _SEAT, "nothing", ("computer || 'x'",)),
        "node": Cover("which node is asked for it", _SEAT, "nothing"),
        "number": Cover("which of two nodes has it", _SEAT, "nothing", (HIGH,)),
        "said": Cover(_SHOWN, "rules look at the label of the computer's record too", "nothing"),
        "left_at": Cover("whether it is asked for", f"{_SEAT}; a time is only shown", "nothing", ("NULL",)),
        ROW: Cover("which node is asked for it", _SEAT, "nothing"),
        GONE: Cover("which node is asked for it", "it is away until it says hello again", "nothing"),
    },
}
"""Each table's columns, then what its rows are."""
