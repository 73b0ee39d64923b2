"""Moves of computers between cells, in SQL (see ``sql``): all that is theirs leaves one store and comes into another.

Theory. No transaction spans two stores, so a move has two, and a bundle of bytes between them. The first takes away all
that is the computers' and keeps it as one blob in the same store: from then on nobody there can act for their tasks,
and a computer that comes is sent on. The second puts the bundle into the other store, once, however often it is tried.
Only then the first store lets the blob go. A move that is interrupted anywhere is finished by the same command.

A task may be in the middle of a call. Its lease is lost like that of a node that was killed: the next holder, in the
other cell, asks the computer what became of the call. The bundle's blob has no mark, so no sweep takes it.
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql, sql_grants, sql_queue, sql_records, sql_system
from orchestrator.adapters.store.schema import SCHEMA, tables_of
from orchestrator.adapters.store.script import Rows, Script
from orchestrator.core.audit.retention import listed_in, named_in, pruned, referred
from orchestrator.core.audit.tables import token_fingerprint
from orchestrator.core.errors import Conflict, InvalidRequest, NotFound
from orchestrator.core.ports import SYSTEM_STREAM, Departure
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import SYSTEM, Actor, AgentTaskItem, Draft, ItemId, decode_item
from orchestrator.core.task.system_facts import (
    OWNER,
    ComputerBackedUp,
    ComputerFrozen,
    ComputersArrived,
    ComputerSide,
    ComputerWelcomed,
    DirectoryChanged,
    GrantId,
    GrantRevoked,
    GroupValue,
    SystemFact,
    TokenIssued,
    TokenRevoked,
)
from orchestrator.core.values import ComputerId, from_us
from orchestrator.core.wire.cells import MOVED
from orchestrator.core.wire.identity import ComputerRecord

FORMAT: Final = 1
MAX_BUNDLE_BYTES: Final = 256 * 1024 * 1024
"""All files and items of one move; it is in memory at once."""
_OPEN: Final = frozenset({"Queued", "Running", "Paused"})
_ROWS_AT_ONCE: Final = 50
_MARGIN: Final = 10_000
"""Numbers that nodes of the cell that a computer left may still allot until they notice; its numbers go on above."""
_TASKS: Final = "SELECT task_id, status, computers FROM tasks WHERE computers LIKE ? ORDER BY task_id /* FOR UPDATE */"
_CLAIMED: Final = "SELECT task FROM computers WHERE computer = ?"
_ITEMS: Final = "SELECT version, item_id, data FROM items WHERE task_id = ? ORDER BY version"
_BACKUPS: Final = "SELECT data, made_by, made_at FROM backups WHERE computer = ? ORDER BY backup_id"
_TOKENS: Final = """SELECT token_hash, roles FROM tokens WHERE kind = 'computer' AND name = ? AND revoked = 0
    ORDER BY token_hash /* FOR UPDATE */"""
_ADD_TOKEN: Final = """INSERT INTO tokens (token_hash, kind, name, roles, created_at, revoked)
    VALUES (?, 'computer', ?, ?, ?, 0)
    ON CONFLICT (token_hash) DO UPDATE SET roles = excluded.roles, created_at = excluded.created_at, revoked = 0"""
_KEEP: Final = "INSERT INTO blobs (sha256, content) VALUES (?, ?) ON CONFLICT DO NOTHING"
_FORGET: Final = """DELETE FROM blobs WHERE sha256 = ?
    AND NOT EXISTS (SELECT 1 FROM blob_marks WHERE blob_marks.sha256 = blobs.sha256)"""
_UNBURY: Final = "DELETE FROM pruned WHERE task_id = ?"
_BLOB: Final = "SELECT content FROM blobs WHERE sha256 = ?"
_IS_TASK: Final = "SELECT version FROM tasks WHERE task_id = ?"
_SET_COMPUTER: Final = """UPDATE computers SET number = ?, task = ?, heard = ?, doubtful_below = ?, known = ?,
    token = ?, frozen = NULL, frozen_at = NULL, released = 0 WHERE computer = ?"""
_ENTRY: Final = "SELECT number, data FROM directory WHERE entry = ?"
_ENTRIES: Final = "SELECT data FROM directory WHERE entry LIKE ? ORDER BY entry"
_MOVES: Final = ("tasks", "requests", "grants")
"""The tables whose rows of a task move as they are; its items and blobs besides."""


class Owned(NamedTuple):
    """A task that moves."""

    task_id: TaskId
    is_open: bool
    items: list[AgentTaskItem]
    parts: dict[str, Any]
    """As the bundle has it."""


class Noting(NamedTuple):
    """Makes the notes of one move: the same ones each time that it is tried."""

    bundle: str
    now: int

    def __call__(self, fact: SystemFact, of: str = "") -> Draft:
        """The note of a fact; ``of`` distinguishes those of one kind."""
        named = f"moved {self.bundle} {fact.kind} {of}".rstrip()
        return Draft(item_id=ItemId(named), at=from_us(self.now), actor=SYSTEM, fact=fact)


# -- out ---------------------------------------------------------------------------------


def depart(names: Sequence[ComputerId], cell: str, url: str, *, now: int) -> Script[Departure]:
    """The port's ``depart_computers``; done again, it answers what it did."""
    names = sorted(set(names))
    rows = yield from _of_computers(names)
    records: list[ComputerRecord] = []
    for name in names:
        records.append((yield from sql_records.locked(name)))
    frozen = [one.frozen for one in records if one.frozen is not None]
    bundles = {one.bundle for one in frozen if (one.reason, one.cell) == (MOVED, cell)}
    if len(bundles) == 1 and len(frozen) == len(records):
        return Departure(bundles.pop(), tuple(names))
    if frozen:
        raise _cannot_leave(frozen[0])
    for name in names:
        if not (yield _TOKENS, (name,)):
            raise NotFound(
                f"There is no computer {name} in this cell.", remedy="`cc-orchestrator computers` lists them."
            )
    moving, staying = yield from _chosen(rows, names)
    bundle = yield from _bundle(records, moving, now)
    sha256 = hashlib.sha256(bundle).hexdigest()
    yield _KEEP, (sha256, bundle)
    note = Noting(sha256, now)
    for one in moving:
        yield from sql_queue.lock_giving(one.task_id)
        yield from sql_queue.give_back_all(one.task_id, now=now)
        gone = pruned(one.items, f"it moved to the cell {cell}")
        yield from sql_system.take_out(note(gone, one.task_id), now=now)
    for record in records:
        name = record.computer
        revoked = TokenRevoked(holder_kind="computer", name=name, count=0)
        yield from sql_system.revoke_tokens("computer", name, note(revoked, name), now=now)
        sides = () if record.known is None else (record.known,)
        fact = ComputerFrozen(computer=name, reason=MOVED, sides=sides, cell=cell, url=url, bundle=sha256)
        yield from sql_records.freeze(note(fact, name), now=now)
    return Departure(sha256, tuple(names), tuple(one.task_id for one in moving), staying)


def forget(bundle: str) -> Script[None]:
    """The port's ``forget_departure``."""
    yield _FORGET, (bundle,)


def _cannot_leave(fact: ComputerFrozen) -> Conflict:
    if fact.reason == MOVED:
        return Conflict(
            f"Computer {fact.computer} left for the cell {fact.cell}, perhaps with others.",
            remedy="Name the cell where it is as the one to move from, or all that left in one move.",
        )
    return Conflict(
        f"Computer {fact.computer} is frozen.",
        remedy=f"Look at it first: `cc-orchestrator computers show {fact.computer}`.",
    )


def _of_computers(names: Collection[str]) -> Script[Rows]:
    """The rows of all tasks that name one of these computers, locked, in their order."""
    found: dict[str, tuple[Any, ...]] = {}
    for name in names:
        # The pattern may fit other names as well; the row itself decides.
        rows = yield _TASKS, (f"%{json.dumps(name)}%",)
        found.update({row[0]: row for row in rows if name in json.loads(row[2])})
    return [found[task_id] for task_id in sorted(found)]


def _chosen(rows: Rows, names: Collection[str]) -> Script[tuple[list[Owned], tuple[TaskId, ...]]]:
    """The tasks that move, and the ended ones that stay since they are of other computers as well. Raises Conflict."""
    moving: list[Owned] = []
    staying: list[TaskId] = []
    for task_id, status, computers in rows:
        others = sorted(set(json.loads(computers)) - set(names))
        if others and status in _OPEN:
            raise Conflict(
                f"Task {task_id} is not over, and works on {', '.join(others)} too.",
                remedy="Move these computers together, or wait until that task is over.",
            )
        if others:
            staying.append(TaskId(task_id))
        else:
            moving.append((yield from _owned(TaskId(task_id), is_open=status in _OPEN)))
    for one in moving:
        first = one.items[0].fact
        before = referred(first) & set(staying) if isinstance(first, facts.TaskSubmitted) else frozenset()
        if before and one.is_open:
            raise Conflict(
                f"Task {one.task_id} is not over, and goes on from {min(before)}, which has to stay.",
                remedy="Wait until it is over.",
            )
    return moving, tuple(staying)


def _owned(task_id: TaskId, *, is_open: bool) -> Script[Owned]:
    parts: dict[str, Any] = {}
    for table in _MOVES:
        columns = tables_of(SCHEMA)[table].names
        rows = yield f"SELECT {', '.join(columns)} FROM {table} WHERE task_id = ?", (task_id,)
        parts[table] = [dict(zip(columns, row, strict=True)) for row in rows]
    kept = yield _ITEMS, (task_id,)
    parts["items"] = [list(row) for row in kept]
    return Owned(task_id, is_open, sql.linked(task_id, [data for _, _, data in kept]), parts)


def _bundle(records: Sequence[ComputerRecord], moving: Sequence[Owned], now: int) -> Script[bytes]:
    """All that moves, as bytes: other ones each time. Raises InvalidRequest where that is too much."""
    told: dict[str, Any] = {"format": FORMAT, "schema": SCHEMA, "at": now, "tasks": [one.parts for one in moving]}
    told |= {"computers": [], "tokens": [], "owners": [], "groups": [], "backups": []}
    names = [one.computer for one in records]
    for record in records:
        rows = yield _CLAIMED, (record.computer,)
        told["computers"].append({**_as_row(record), "task": rows[0][0]})
        rows = yield _TOKENS, (record.computer,)
        told["tokens"] += [{"name": record.computer, "hash": sha, "roles": json.loads(roles)} for sha, roles in rows]
        rows = yield _ENTRY, (f"owner {record.computer}",)
        told["owners"] += [data for _, data in rows]
        rows = yield _BACKUPS, (record.computer,)
        told["backups"] += [{"data": data, "by": by, "at": at} for data, by, at in rows]
    rows = yield _ENTRIES, ("group %",)
    for group in (DirectoryChanged.model_validate_json(data, extra="ignore") for (data,) in rows):
        inside = sorted(set(group.value.computers) & set(names)) if isinstance(group.value, GroupValue) else []
        told["groups"] += [{"group": group.name, "computers": inside}] if inside else []
    blobs = yield from _blobs(named_in(json.dumps([told["tasks"], told["backups"]]).encode()))
    told["blobs"] = [base64.b64encode(one).decode() for one in blobs]
    return gzip.compress(json.dumps(told, separators=(",", ":")).encode(), compresslevel=1, mtime=0)


def _as_row(record: ComputerRecord) -> dict[str, Any]:
    known = None if record.known is None else record.known.model_dump(mode="json")
    numbers = {"number": record.number, "heard": record.heard, "doubtful_below": record.doubtful_below}
    return {"computer": record.computer, "known": known, "token": record.token, **numbers}


def _blobs(names: Collection[str]) -> Script[list[bytes]]:
    """Those of these blobs that are there, and the files that the lines of directories among them name."""
    found: dict[str, bytes] = {}
    left, size = sorted(names), 0
    while left:
        name = left.pop()
        if name in found or not (rows := (yield _BLOB, (name,))):
            continue
        found[name] = bytes(rows[0][0])
        size += len(found[name])
        left += sorted(listed_in(found[name]))
        if size > MAX_BUNDLE_BYTES:
            raise InvalidRequest(
                f"More than {MAX_BUNDLE_BYTES >> 20} MiB of files and old bytes would move at once.",
                remedy="Move fewer computers at once, or prune ended tasks and remove backups of them first.",
            )
    return [found[name] for name in sorted(found)]


# -- in ----------------------------------------------------------------------------------


def arrive(bundle: bytes, cell: str, *, now: int) -> Script[ComputersArrived]:
    """The port's ``arrive_computers``; done again, it answers what it did."""
    sha256, told = hashlib.sha256(bundle).hexdigest(), _read(bundle)
    note = Noting(sha256, now)
    names = tuple(row["computer"] for row in told["computers"])
    came = ComputersArrived(cell=cell, bundle=sha256, computers=names)
    done = yield from sql.already_there(TaskId(SYSTEM_STREAM), [note(came)])
    if done is not None and isinstance(done[0].fact, ComputersArrived):
        return done[0].fact
    yield from _must_be_new(told)
    for content in told["blobs"]:
        yield from sql.put_blob(base64.b64decode(content), now=now)
    for parts in told["tasks"]:
        yield from _put_task(parts, now)
    welcomed = []
    for row in told["computers"]:
        welcomed += yield from _put_computer(row)
    tasks = {parts["tasks"][0]["task_id"]: parts["tasks"][0]["version"] for parts in told["tasks"]}
    came = came.model_copy(update={"welcomed": tuple(welcomed), "tasks": tasks, "grants": _given_elsewhere(told)})
    # First: what follows is of computers and tasks that this names.
    yield from sql_system.noted(note(came), now)
    for row in told["tokens"]:
        yield from _put_token(row, note, now)
    for grant in (grant for parts in told["tasks"] for grant in parts["grants"]):
        if json.loads(grant["data"])["scope"] == "session" and not sql_grants.is_revoked(grant["revoked"]):
            yield from sql_system.revoke_grant(
                GrantId(grant["grant_id"]),
                note(GrantRevoked(grant_id=GrantId(grant["grant_id"])), grant["grant_id"]),
                now=now,
            )
    for backup in told["backups"]:
        fact = ComputerBackedUp.model_validate_json(backup["data"])
        made = note(fact, fact.backup_id)._replace(
            at=from_us(backup["at"]), actor=Actor(kind="person", id=backup["by"])
        )
        yield from sql_system.add_backup(made, now=now)
    yield from _put_directory(told, note, now)
    return came


def _read(bundle: bytes) -> dict[str, Any]:
    """What a bundle says. Raises InvalidRequest for one of another version."""
    told: dict[str, Any] = json.loads(gzip.decompress(bundle))
    if (told["format"], told["schema"]) != (FORMAT, SCHEMA):
        raise InvalidRequest(
            f"The move was begun by a version with schema {told['schema']}; this one has {SCHEMA}.",
            remedy="Bring both cells to one version, then give the same command again.",
        )
    return told


def _must_be_new(told: Mapping[str, Any]) -> Script[None]:
    """Raises Conflict where one of these names or tasks is here already."""
    for row in told["computers"]:
        if (yield _TOKENS, (row["computer"],)):
            raise Conflict(
                f"There is a computer {row['computer']} in this cell already.",
                remedy="Revoke that one here, or pair it under another name; then give the same command again.",
            )
    for parts in told["tasks"]:
        task_id = parts["tasks"][0]["task_id"]
        if (yield _IS_TASK, (task_id,)):
            raise Conflict(f"Task {task_id} is in this cell already.", remedy="`audit verify` says what is wrong.")


def _put_task(parts: Mapping[str, Any], now: int) -> Script[None]:
    """A task as it was, which nobody holds; one that was held is due at once."""
    (row,) = parts["tasks"]
    held = row["holder"] is not None
    row |= {"holder": None, "lease_until": 0, "lease_for": 0, "woken": 0}
    row |= {"due": now, "waiting_for": None} if held else {}
    yield _UNBURY, (row["task_id"],)
    items = [{"task_id": row["task_id"], "version": v, "item_id": i, "data": d} for v, i, d in parts["items"]]
    for table, rows in (
        ("tasks", [row]),
        ("items", items),
        ("requests", parts["requests"]),
        ("grants", parts["grants"]),
    ):
        yield from _inserted(table, rows)


def _inserted(table: str, rows: Sequence[Mapping[str, Any]]) -> Script[None]:
    columns = tables_of(SCHEMA)[table].names
    places = f"({', '.join('?' * len(columns))})"
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows[start : start + _ROWS_AT_ONCE]
        values = tuple(row[name] for row in part for name in columns)
        yield f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([places] * len(part))}", values


def _put_computer(row: Mapping[str, Any]) -> Script[list[ComputerWelcomed]]:
    """A computer as it was; its numbers go on above all that this store has ever allotted to it."""
    name = ComputerId(row["computer"])
    record = yield from sql_records.locked(name)
    number = max(row["number"], record.number) + _MARGIN
    side = None if row["known"] is None else ComputerSide.model_validate(row["known"])
    kept = None if side is None else side.model_dump_json()
    heard, doubtful_below = row["heard"], row["doubtful_below"]
    yield _SET_COMPUTER, (number, row["task"], heard, doubtful_below, kept, row["token"], name)
    if side is None:
        return []
    fingerprint = token_fingerprint(row["token"]) if row["token"] else ""
    told = {"number": number, "heard": heard, "doubtful_below": doubtful_below}
    return [ComputerWelcomed(computer=name, side=side, fingerprint=fingerprint, **told)]


def _put_token(row: Mapping[str, Any], note: Noting, now: int) -> Script[None]:
    owner = next((one.removeprefix(OWNER) for one in row["roles"] if one.startswith(OWNER)), "")
    roles = tuple(one for one in row["roles"] if not one.startswith(OWNER))
    fact = TokenIssued(holder_kind="computer", name=row["name"], roles=roles, owner=owner)
    yield _ADD_TOKEN, (row["hash"], row["name"], json.dumps(row["roles"]), now)
    yield from sql_system.noted(sealing.fingerprinted(note(fact, token_fingerprint(row["hash"])), row["hash"]), now)


def _put_directory(told: Mapping[str, Any], note: Noting, now: int) -> Script[None]:
    """The owners of the computers, and the computers in the groups of the same names; people are not moved."""
    wanted = [DirectoryChanged.model_validate_json(data, extra="ignore") for data in told["owners"]]
    for row in told["groups"]:
        rows = yield _ENTRY, (f"group {row['group']}",)
        here = DirectoryChanged.model_validate_json(rows[0][1], extra="ignore").value if rows else None
        group = here if isinstance(here, GroupValue) else GroupValue()
        inside = tuple(sorted({*group.computers, *row["computers"]}))
        value = group.model_copy(update={"computers": inside})
        wanted.append(DirectoryChanged(about="group", name=row["group"], value=value))
    for fact in wanted:
        rows = yield _ENTRY, (fact.entry,)
        yield from sql_records.set_entry(note(fact, fact.entry), int(rows[0][0]) if rows else 0, "", now=now)


def _given_elsewhere(told: Mapping[str, Any]) -> tuple[GrantId, ...]:
    """The grants that the tasks used, and that none of them gave."""
    given = {grant["grant_id"] for parts in told["tasks"] for grant in parts["grants"]}
    return tuple(sorted({one for parts in told["tasks"] for one in _used(parts)} - given))


def _used(parts: Mapping[str, Any]) -> Iterator[GrantId]:
    for _, _, data in parts["items"]:
        fact = decode_item(data).fact
        if isinstance(fact, facts.ToolStarted) and fact.grant_id is not None:
            yield fact.grant_id
