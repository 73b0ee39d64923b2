"""Checks that every store makes on drafts before it writes them, and the sentences of its refusals."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from orchestrator.adapters.store.objects import Entry
from orchestrator.core.approval.notices import notable
from orchestrator.core.audit.chain import Written, read_written
from orchestrator.core.audit.shared import told_of
from orchestrator.core.audit.tables import token_fingerprint
from orchestrator.core.errors import Conflict, InvalidRequest, LeaseLost, NotFound, OrchestratorError, Unreadable
from orchestrator.core.ports import SYSTEM_STREAM, Coming, SignInRow, StreamHead
from orchestrator.core.task.facts import RequestId, TaskId, TaskSubmitted
from orchestrator.core.task.items import SYSTEM, AgentTaskItem, Draft, ItemId, seal_encoded
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import (
    Agreed,
    BackupRemoved,
    ComputerBackedUp,
    ComputerFrozen,
    ComputerLabelled,
    ComputerReleased,
    ComputerSide,
    ComputerWelcomed,
    DirectoryChanged,
    NotifyValue,
    PolicyLoaded,
    TaskPruned,
)
from orchestrator.core.values import from_us, sha256_hex
from orchestrator.core.wire.identity import ComputerRecord
from orchestrator.core.wire.identity import labelled as labelled_side

Sealed = tuple[AgentTaskItem, bytes]
"""An item, and its bytes as they are kept."""


def check_drafts(drafts: Sequence[Draft], *, numbered: bool = False) -> None:
    """Refuse drafts that no store may seal.

    ``numbered``: a computer's number is to be allotted for them. Raises InvalidRequest.
    """
    if not drafts:
        raise InvalidRequest("An append needs at least one draft.")
    if len(drafts) > 1 and len({draft.item_id for draft in drafts}) != len(drafts):
        raise InvalidRequest("Two drafts of one append have the same item id.")
    if numbered and sum(draft.fact.kind == "tool_started" for draft in drafts) != 1:
        raise InvalidRequest("A number is allotted for exactly one tool_started; append each call's start alone.")


def submitted(drafts: Sequence[Draft]) -> TaskSubmitted:
    """The fact that starts a task. Raises InvalidRequest when the first draft is another."""
    check_drafts(drafts)
    fact = drafts[0].fact
    if not isinstance(fact, TaskSubmitted):
        raise InvalidRequest(f"A task starts with task_submitted, not with {fact.kind}.")
    return fact


def check_task_id(task_id: TaskId, *, is_stream: bool = False) -> None:
    """Refuse a new task by the name of a stream. Raises InvalidRequest."""
    if is_stream or task_id == SYSTEM_STREAM:
        raise InvalidRequest(f"{task_id} is the name of a stream, not of a task.", remedy="Take a random task id.")


def seal_drafts(
    drafts: Sequence[Draft], *, task_id: TaskId, version: int, head_hash: str, number: int | None = None
) -> list[Sealed]:
    """The drafts as the items after ``version``, each chained to the one before, and their bytes."""
    sealed: list[Sealed] = []
    for draft in drafts:
        version += 1
        own = number if draft.fact.kind == "tool_started" else None
        item, data = seal_encoded(draft, task_id=task_id, version=version, prev_hash=head_hash, number=own)
        head_hash = item.hash
        sealed.append((item, data))
    return sealed


def requests_of(drafts: Sequence[Draft]) -> list[RequestId]:
    """The requests that the drafts raise."""
    return [draft.fact.request_id for draft in drafts if draft.fact.kind == "review_requested"]


def only_items(drafts: Sequence[Draft]) -> bool:
    """Whether the drafts write nothing but themselves: no request, no grant given or used, no pin, no notification."""
    for draft in drafts:
        fact = draft.fact
        if notable(fact) is not None:
            return False
        if fact.kind in ("task_pinned", "task_unpinned"):
            return False
        if fact.kind == "review_requested" or (fact.kind == "decision_recorded" and fact.grants):
            return False
        if fact.kind == "tool_started" and fact.grant_id is not None:
            return False
    return True


def pinned_by(drafts: Sequence[Draft]) -> bool | None:
    """Whether the task is pinned after the drafts; None: they say nothing of it."""
    said = [draft.fact.kind == "task_pinned" for draft in drafts if draft.fact.kind in ("task_pinned", "task_unpinned")]
    return said[-1] if said else None


def counted(note: Draft | None, count: int) -> Draft | None:
    """The note of a revocation with the number that only the store knows; any other note as it is."""
    if note is None or note.fact.kind != "token_revoked":
        return note
    return note._replace(fact=note.fact.model_copy(update={"count": count}))


def fingerprinted(note: Draft | None, token_hash: str) -> Draft | None:
    """The note of a new token with what ties it to the token's row; any other note as it is."""
    if note is None or note.fact.kind != "token_issued":
        return note
    return note._replace(fact=note.fact.model_copy(update={"fingerprint": token_fingerprint(token_hash)}))


def check_sign_in(note: Draft) -> None:
    """Raises InvalidRequest for a note that is not of a sign-in."""
    if note.fact.kind != "signed_in":
        raise InvalidRequest(f"A sign-in cannot be noted as {note.fact.kind}.", remedy="Note it as signed_in.")


def signed_in(note: Draft, row: SignInRow, replaced: Iterable[SignInRow]) -> Draft:
    """The note of a sign-in with what ties it to its row, and to the rows that made room."""
    found = {
        "fingerprint": token_fingerprint(row.session_hash),
        "bound_to": token_fingerprint(row.token_hash),
        "replaced": tuple(token_fingerprint(one.session_hash) for one in replaced),
    }
    return note._replace(fact=note.fact.model_copy(update=found))


def signed_out(note: Draft | None, session_hash: str) -> Draft | None:
    """The note of the end of a sign-in with what ties it to the row that was; any other note as it is."""
    if note is None or note.fact.kind != "signed_out":
        return note
    return note._replace(fact=note.fact.model_copy(update={"fingerprint": token_fingerprint(session_hash)}))


def sign_in_exists() -> Conflict:
    """The refusal of a hash that is kept already."""
    return Conflict("This sign-in is kept already.", remedy="Every browser needs a new random secret.")


def by_stream(heads: Iterable[StreamHead]) -> list[StreamHead]:
    """Sorted by name, as every store answers them: databases collate each in their own way."""
    return sorted(heads, key=lambda head: head.stream)


def a_task(stream: str) -> InvalidRequest:
    """The refusal of a stream by the name of a task."""
    return InvalidRequest(f"{stream} is a task, not a stream.", remedy="Append to it as to a task.")


def no_task(task_id: TaskId) -> NotFound:
    """The refusal of a task that was never created."""
    return NotFound(f"There is no task {task_id}.", remedy="Look it up in the list of tasks.")


def no_blob(sha256: str) -> NotFound:
    """The refusal of a hash that the store has no content for."""
    return NotFound(f"There is no blob {sha256}.")


def whole_blob(sha256: str, content: bytes) -> bytes:
    """Kept content, which is what its hash says. Raises Unreadable."""
    if sha256_hex(content) != sha256:
        raise Unreadable(
            f"What the store keeps as {sha256} is damaged and cannot be read.",
            remedy="`cc-orchestrator audit verify` tells what else is; the other tasks go on.",
        )
    return content


def already_created(task_id: TaskId) -> Conflict:
    """The refusal of a second creation from other drafts."""
    return Conflict(f"Task {task_id} was created from other items.", remedy="Take a new task id.")


def moved_on(task_id: TaskId, present: int, expected: int) -> Conflict:
    """The refusal of a version that is not the task's."""
    return Conflict(
        f"Task {task_id} is at version {present}, not {expected}.", remedy="Read the newer items, fold, decide again."
    )


def partly_there(task_id: TaskId) -> Conflict:
    """The refusal of drafts of which the journal has some but not all."""
    return Conflict(
        f"Some of these items are already in {task_id}, others are not.",
        remedy="Append again what was appended together, or take new item ids.",
    )


def raised_before(request_id: RequestId) -> InvalidRequest:
    """The refusal of a request id that is already taken."""
    return InvalidRequest(f"Request {request_id} was raised before.", remedy="Every request needs a new random id.")


def lease_lost(task_id: TaskId) -> LeaseLost:
    """The refusal of a token that is not the lease's."""
    return LeaseLost(
        f"The lease on task {task_id} was given back or taken over.",
        remedy="Stop acting for the task; the next holder of its lease settles open calls.",
    )


def token_exists() -> Conflict:
    """The refusal of a token's hash that is already kept."""
    return Conflict("This token is already in the store.", remedy="Make a new random token.")


def store_closed() -> OrchestratorError:
    """The refusal of everything after ``close``."""
    return OrchestratorError("The store is closed.", remedy="Open it again with open_store().")


def not_a_store() -> InvalidRequest:
    """The refusal of a database that something else made."""
    return InvalidRequest(
        "This database was made by another program.",
        remedy="Name a file that does not exist yet, or an empty database.",
    )


def not_of_schema(where: str, error: Exception) -> InvalidRequest:
    """The refusal of tables that are not those of the schema that the store names."""
    return InvalidRequest(
        f"The tables of {where} are not those of the schema that it names ({error}): "
        "the store was changed from outside, or it is damaged.",
        remedy="Keep it aside and put a backup in its place; `cc-orchestrator store check` says more.",
    )


def welcomed(record: ComputerRecord, coming: Coming) -> ComputerRecord:
    """A computer's record after its welcome, with its new number."""
    number = max(record.number + 1, coming.at_least)
    return replace(
        record,
        number=number,
        heard=0 if coming.fresh else record.heard_with(coming.heard),
        doubtful_below=number if coming.doubt else record.doubtful_below,
        known=coming.side,
        token=coming.token,
        released=False,
    )


def number_of_release(record: ComputerRecord) -> int:
    """The number of a release: above all that the computer has seen and the store has allotted."""
    seen = record.frozen.facts.get("highest", 0) if record.frozen is not None else 0
    return max(record.number, seen) + 1


def freezing(note: Draft) -> ComputerFrozen:
    """The fact that freezes a computer. Raises InvalidRequest when the note is of another."""
    if not isinstance(note.fact, ComputerFrozen):
        raise InvalidRequest(f"A computer is frozen with computer_frozen, not with {note.fact.kind}.")
    return note.fact


def releasing(note: Draft) -> ComputerReleased:
    """The fact that releases a computer. Raises InvalidRequest when the note is of another."""
    if not isinstance(note.fact, ComputerReleased):
        raise InvalidRequest(f"A computer is released with computer_released, not with {note.fact.kind}.")
    return note.fact


def labelling(note: Draft) -> ComputerLabelled:
    """The fact that labels a computer. Raises InvalidRequest when the note is of another."""
    if not isinstance(note.fact, ComputerLabelled):
        raise InvalidRequest(f"A computer is labelled with computer_labelled, not with {note.fact.kind}.")
    return note.fact


def labelled(note: Draft, record: ComputerRecord) -> tuple[Draft, ComputerSide] | None:
    """The note of a new or confirmed label with what only the store knows, and the computer with it.

    None: nothing of it is new, or nobody was ever welcome as this computer.
    """
    fact, known = labelling(note), record.known
    side = None if known is None else labelled_side(known, fact.label, fact.former_labels, confirmed=bool(fact.by))
    if side is None:
        return None
    return note._replace(fact=fact.model_copy(update={"former_labels": side.former_labels})), side


def welcoming(note: Draft | None, record: ComputerRecord) -> Draft | None:
    """The note of a welcome with what only the store knows. Raises InvalidRequest when the note is of another."""
    if note is None:
        return None
    if not isinstance(note.fact, ComputerWelcomed):
        raise InvalidRequest(f"A computer is welcome with computer_welcomed, not with {note.fact.kind}.")
    known = {
        "fingerprint": token_fingerprint(record.token) if record.token else "",
        "number": record.number,
        "heard": record.heard,
        "doubtful_below": record.doubtful_below,
    }
    return note._replace(fact=note.fact.model_copy(update=known))


def numbered(note: Draft, number: int) -> Draft:
    """The note of a release with the number that only the store knows."""
    return note._replace(fact=note.fact.model_copy(update={"number": number}))


# -- retention ---------------------------------------------------------------------------

_OVER = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELED})


def is_at_rest(status: str, entry: Entry, *, pinned: bool) -> bool:
    """Whether a task is over, nobody keeps it, and nothing of it is still to be done."""
    queued = entry.due is not None or entry.holder is not None or entry.waiting_for is not None
    return status in _OVER and not queued and not pinned


def pruning(note: Draft) -> TaskPruned:
    """The fact that removes a task. Raises InvalidRequest when the note is of another."""
    if not isinstance(note.fact, TaskPruned):
        raise InvalidRequest(f"A task is pruned with task_pruned, not with {note.fact.kind}.")
    return note.fact


def backing_up(note: Draft) -> ComputerBackedUp:
    """The fact that makes a backup. Raises InvalidRequest when the note is of another."""
    if not isinstance(note.fact, ComputerBackedUp):
        raise InvalidRequest(f"A backup is kept with computer_backed_up, not with {note.fact.kind}.")
    return note.fact


def removing_backup(note: Draft) -> BackupRemoved:
    """The fact that removes a backup. Raises InvalidRequest when the note is of another."""
    if not isinstance(note.fact, BackupRemoved):
        raise InvalidRequest(f"A backup is removed with backup_removed, not with {note.fact.kind}.")
    return note.fact


def check_same_backup(stored: str, data: str) -> None:
    """Refuse a backup under the id of another. Raises Conflict."""
    if stored != data:
        raise Conflict("There is another backup of this id.", remedy="Take a new random id.")


def no_longer_kept() -> Conflict:
    """The refusal of a backup of which some bytes are not in the store."""
    return Conflict(
        "Some of the bytes of this backup are not in the store: it was swept while the backup was made.",
        remedy="Back the computer up again.",
    )


def was_pruned(task_id: TaskId) -> Conflict:
    """The refusal of a new task by the id of one that was pruned."""
    return Conflict(f"Task {task_id} was here before and was pruned.", remedy="Take a new task id or key.")


# -- what nodes share --------------------------------------------------------------------


def loading(note: Draft, content: bytes) -> PolicyLoaded:
    """The fact that puts a policy into force. Raises InvalidRequest when the note is of another."""
    if not isinstance(note.fact, PolicyLoaded):
        raise InvalidRequest(f"A policy comes into force with policy_loaded, not with {note.fact.kind}.")
    if note.fact.sha256 != sha256_hex(content):
        raise InvalidRequest("The note of a policy names the sha256 of other bytes.")
    return note.fact


def in_force(note: Draft, number: int) -> Draft:
    """The note of a policy with the version of its row, which only the store knows."""
    return note._replace(fact=note.fact.model_copy(update={"number": number}))


def agreeing(name: str, value: str, now: int) -> Draft:
    """The note of what nodes agree on; one that is written again is the same."""
    said = told_of(name, value)
    agreed = Agreed(name=name, value=said)
    return Draft(item_id=ItemId(f"agreed {name} {said}"), at=from_us(now), actor=SYSTEM, fact=agreed)


def chained(rows: Sequence[tuple[int, bytes]], version: int, stream: str) -> AgentTaskItem:
    """The item of a version among its neighbours, which it follows and which follow it. Raises Unreadable."""
    found = {number: read_written(data) for number, data in rows}
    links = [_links(one) for _, one in sorted(found.items())]
    item = found[version].item
    holds = all(links) and all(before[0] == after[1] for before, after in pairwise(filter(None, links)))
    if item is None or (item.version, item.task_id) != (version, stream) or not holds:
        raise Unreadable(
            f"Version {version} of {stream} is not what was sealed there: somebody changed the database.",
            remedy="`cc-orchestrator audit verify` names all other changes.",
        )
    return item


def listing(note: Draft, expected: int, secret: str) -> DirectoryChanged:
    """The fact that sets an entry. Raises InvalidRequest for another, or one that removes what is not there."""
    if not isinstance(note.fact, DirectoryChanged):
        raise InvalidRequest(f"An entry of the directory is set with directory_changed, not with {note.fact.kind}.")
    if note.fact.value is None and not expected:
        raise InvalidRequest(f"There is no entry {note.fact.entry!r} to remove.")
    if target_of(note.fact) != (sha256_hex(secret.encode()) if secret else ""):
        raise InvalidRequest(f"The secret of {note.fact.entry!r} is not the one that its note names.")
    return note.fact


def target_of(fact: DirectoryChanged) -> str:
    """The sha256 of the secret that an entry needs; empty: it needs none."""
    return fact.value.target if isinstance(fact.value, NotifyValue) else ""


def another_entry(entry: str, present: int, expected: int) -> Conflict:
    """The refusal of an entry that was to come after one that is not there any more."""
    return Conflict(
        f"Somebody changed {entry} in the meantime: it is number {present}, not {expected}.",
        remedy="Look at it as it is now, and change it again if that is still to be.",
    )


def no_policy() -> Unreadable:
    """The refusal of a row of ``policies`` that nobody of us wrote."""
    return Unreadable(
        "The row of the active policy is not one that was written here: somebody changed the database.",
        remedy="`cc-orchestrator audit verify` names all other changes.",
    )


def _links(written: Written) -> tuple[str, str] | None:
    """An item's hash and the one before it, also of one that only a newer version can read; None: it does not hold."""
    if written.item is None:
        return written.newer
    return (written.item.hash, written.item.prev_hash) if written.sound else None


def another_policy(present: int, expected: int) -> Conflict:
    """The refusal of a policy that was to come after one that is not in force."""
    return Conflict(
        f"Another policy became active in the meantime: version {present}, not {expected}.",
        remedy="Look at it, and put yours into force again if it is still to be.",
    )
