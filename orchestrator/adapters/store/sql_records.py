"""The browsers that are signed in, in SQL (see ``sql``)."""

from collections.abc import Collection, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, Final, NamedTuple

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql, sql_system
from orchestrator.adapters.store.objects import seconds_to_us
from orchestrator.adapters.store.script import Script, text, whole
from orchestrator.core.audit.shared import IN_FORCE
from orchestrator.core.ports import SYSTEM_STREAM, Coming, EntryRow, PolicyRow, SeatRow, SignInRow
from orchestrator.core.ports.store_parts import MOST_DUTY_S
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.task.system_facts import ComputerFrozen, ComputerSide, ComputerWelcomed, DirectoryChanged
from orchestrator.core.values import ComputerId, from_us, sha256_hex, to_us
from orchestrator.core.wire.identity import ComputerRecord, Heard

# -- What is kept of each computer, in SQL (see ``sql``): what was heard, who came last, and whether it is frozen

_COLUMNS: Final = "computer, number, heard, doubtful_below, known, token, frozen, frozen_at, released"
_ONE: Final = f"SELECT {_COLUMNS} FROM computers WHERE computer = ?"
_LOCKED: Final = f"{_ONE} /* FOR UPDATE */"
_ALL: Final = f"SELECT {_COLUMNS} FROM computers"
_WELCOME: Final = """UPDATE computers SET number = ?, heard = ?, doubtful_below = ?, known = ?, token = ?, released = 0
    WHERE computer = ?"""
_HEAR: Final = """UPDATE computers SET heard = ? WHERE computer = ? AND heard < ? AND frozen IS NULL AND released = 0
    AND (known IS NULL OR known LIKE ? ESCAPE '!')"""
_FREEZE: Final = "UPDATE computers SET frozen = ?, frozen_at = ? WHERE computer = ?"
_LABEL: Final = "UPDATE computers SET known = ? WHERE computer = ?"
_MOST_NAMES: Final = 500
_SIT: Final = """INSERT INTO seats (computer, node, number, said, left_at) VALUES (?, ?, ?, ?, NULL)
    ON CONFLICT (computer) DO UPDATE SET node = excluded.node, number = excluded.number, said = excluded.said,
    left_at = NULL"""
_KEEP_SEAT: Final = "UPDATE seats SET said = ?, left_at = ? WHERE computer = ? AND node = ? AND number = ?"
_SEATS: Final = """SELECT seats.computer, seats.node, seats.number, seats.said, seats.left_at, computers.known
    FROM seats LEFT JOIN computers ON computers.computer = seats.computer"""
_SEATS_AT: Final = f"""{_SEATS} WHERE seats.node = ? AND seats.left_at IS NULL AND seats.computer > ?
    ORDER BY seats.computer LIMIT ?"""
_RELEASE: Final = """UPDATE computers SET number = ?, doubtful_below = ?, frozen = NULL, frozen_at = NULL, released = 1
    WHERE computer = ?"""


def computer(name: ComputerId) -> Script[ComputerRecord]:
    """The port's ``computer``."""
    rows = yield _ONE, (name,)
    return _record(*rows[0]) if rows else ComputerRecord(name)


def list_computers() -> Script[list[ComputerRecord]]:
    """The port's ``list_computers``."""
    rows = yield _ALL, ()
    return sorted((_record(*row) for row in rows), key=lambda one: one.computer)


class Welcome(NamedTuple):
    """What ``welcome_computer`` is asked."""

    name: ComputerId
    coming: Coming
    note: Draft | None


def welcome(asked: Sequence[Welcome], *, now: int) -> Script[list[int | None]]:
    """The port's ``welcome_computer`` for each of these; done again, it answers what it did.

    Rows are locked in the order of the names, and the notes of all are one append to the system stream.
    """
    numbers: list[int | None] = [None] * len(asked)
    notes: list[Draft] = []
    drafts = [one.note for one in asked if one.note is not None]
    there = ((yield from sql.already_there(TaskId(SYSTEM_STREAM), drafts)) or ()) if drafts else ()
    done = {item.item_id: item.fact.number for item in there if isinstance(item.fact, ComputerWelcomed)}
    for at in sorted(range(len(asked)), key=lambda at: asked[at].name):
        name, coming, note = asked[at]
        record = yield from locked(name)
        if note is not None and note.item_id in done:
            numbers[at] = done[note.item_id]
        elif record.frozen is None:
            after = sealing.welcomed(record, coming)
            known = coming.side.model_dump_json()
            yield _WELCOME, (after.number, after.heard, after.doubtful_below, known, after.token, name)
            if coming.node:
                yield _SIT, (name, coming.node, after.number, coming.said)
            notes += [one for one in (sealing.welcoming(note, after),) if one is not None]
            numbers[at] = after.number
    if notes:
        yield from sql_system.record(notes, SYSTEM_STREAM, now=now)
    return numbers


def seats(computers: Collection[ComputerId]) -> Script[list[SeatRow]]:
    """The port's ``seats``."""
    names, found = sorted(set(computers)), []
    for at in range(0, len(names), _MOST_NAMES):
        some = names[at : at + _MOST_NAMES]
        found += yield f"{_SEATS} WHERE seats.computer IN ({', '.join('?' * len(some))})", tuple(some)
    return sorted((_seat(*row) for row in found), key=lambda one: one.computer)


def seats_at(node: str, after: str, limit: int) -> Script[list[SeatRow]]:
    """The port's ``seats_at``."""
    rows = yield _SEATS_AT, (node, after, limit)
    return [_seat(*row) for row in rows]


def keep_seats(rows: Sequence[SeatRow]) -> Script[None]:
    """The port's ``keep_seats``."""
    for one in sorted(rows, key=lambda one: one.computer):
        left_at = None if one.left_at is None else to_us(one.left_at)
        yield _KEEP_SEAT, (one.said, left_at, one.computer, one.node, one.number)


def _seat(name: str, node: str, number: int, said: str, left_at: int | None, known: str | None) -> SeatRow:
    return SeatRow(
        computer=ComputerId(text(name)),
        node=text(node),
        number=whole(number),
        said=text(said),
        left_at=None if left_at is None else from_us(left_at),
        known=None if known is None else ComputerSide.model_validate_json(known, extra="ignore"),
    )


def hear(asked: Sequence[tuple[ComputerId, Heard]]) -> Script[None]:
    """The port's ``hear_computer`` for each of these."""
    for name, heard in sorted(asked, key=itemgetter(0)):
        yield _HEAR, (heard.journal_seq, name, heard.journal_seq, sql.of_boot(heard))


def freeze(note: Draft, *, now: int) -> Script[bool]:
    """The port's ``freeze_computer``."""
    fact = sealing.freezing(note)
    record = yield from locked(fact.computer)
    if record.frozen is not None:
        return False
    yield _FREEZE, (fact.model_dump_json(), to_us(note.at), fact.computer)
    yield from sql_system.noted(note, now)
    return True


def label(note: Draft, *, now: int) -> Script[bool]:
    """The port's ``label_computer``."""
    record = yield from locked(sealing.labelling(note).computer)
    done = sealing.labelled(note, record)
    if done is None:
        return False
    whole, side = done
    yield _LABEL, (side.model_dump_json(), record.computer)
    yield from sql_system.noted(whole, now)
    return True


def release(note: Draft, *, now: int) -> Script[bool]:
    """The port's ``release_computer``."""
    fact = sealing.releasing(note)
    record = yield from locked(fact.computer)
    if record.frozen is None:
        return False
    number = sealing.number_of_release(record)
    yield _RELEASE, (number, number, fact.computer)
    yield from sql_system.noted(sealing.numbered(note, number), now)
    return True


def locked(name: ComputerId) -> Script[ComputerRecord]:
    """The computer's record, whose row is made if there is none."""
    rows = yield _LOCKED, (name,)
    if not rows:
        yield from sql.know_computer(name)
        return ComputerRecord(name)
    return _record(*rows[0])


def _record(
    name: str,
    number: int,
    heard: int,
    doubtful_below: int,
    known: str | None,
    token: str,
    frozen: str | None,
    frozen_at: int | None,
    released: Any,
) -> ComputerRecord:
    return ComputerRecord(
        computer=ComputerId(text(name)),
        number=whole(number),
        heard=whole(heard),
        doubtful_below=whole(doubtful_below),
        known=None if known is None else ComputerSide.model_validate_json(known, extra="ignore"),
        token=text(token),
        frozen=None if frozen is None else ComputerFrozen.model_validate_json(frozen, extra="ignore"),
        frozen_at=None if frozen_at is None else from_us(frozen_at),
        released=bool(released),
    )


# -- What several nodes have in common, in SQL (see ``sql``): the policy, singleton jobs, and values that they agreed on
#
# The policy's row is locked before the row of the system stream, as every row is.

_SQL_SHARED_COLUMNS: Final = "version, sha256, source, loaded_at, loaded_by, judged"
_POLICY: Final = f"SELECT {_SQL_SHARED_COLUMNS} FROM policies WHERE name = ?"
_KNOW_POLICY: Final = f"""INSERT INTO policies (name, {_SQL_SHARED_COLUMNS}) VALUES (?, 0, '', '', 0, '', 0)
    ON CONFLICT DO NOTHING"""
_LOCKED_POLICY: Final = f"{_POLICY} /* FOR UPDATE */"
_SET_POLICY: Final = """UPDATE policies SET version = ?, sha256 = ?, source = ?, loaded_at = ?, loaded_by = ?
    WHERE name = ?"""
# As canonical JSON writes it; within a text its quotes would be escaped.
_LOADED: Final = """SELECT version FROM items WHERE task_id = ? AND data LIKE '%"fact":{%"kind":"policy_loaded"%'
    ORDER BY version DESC LIMIT 1"""
_AROUND: Final = "SELECT version, data FROM items WHERE task_id = ? AND version >= ? AND version <= ? ORDER BY version"
_JUDGED: Final = "UPDATE policies SET judged = ? WHERE name = ? AND judged < ?"
# One statement: of two nodes that take a free job at once, the second one sees the first.
_TAKE: Final = """INSERT INTO duties (name, holder, until) VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE duties.holder = excluded.holder OR duties.until <= ? OR duties.until > ?"""
_HOLDER: Final = "SELECT holder FROM duties WHERE name = ?"
_LEAVE: Final = "DELETE FROM duties WHERE name = ? AND holder = ?"
_ENTRIES: Final = "SELECT number, data FROM directory ORDER BY entry"
_ENTRY: Final = "SELECT number, data FROM directory WHERE entry = ?"
_SET_ENTRY: Final = """INSERT INTO directory (entry, number, data) VALUES (?, ?, ?)
    ON CONFLICT (entry) DO UPDATE SET number = excluded.number, data = excluded.data"""
_REMOVE_ENTRY: Final = "DELETE FROM directory WHERE entry = ?"
_KEEP_SECRET: Final = "INSERT INTO secrets (sha256, value) VALUES (?, ?)"
_FORGET_SECRET: Final = "DELETE FROM secrets WHERE sha256 = ?"
_SECRET: Final = "SELECT value FROM secrets WHERE sha256 = ?"
_AGREE: Final = "INSERT INTO agreed (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING"
_AGREED: Final = "SELECT value FROM agreed WHERE name = ?"


def policy_in_force() -> Script[PolicyRow | None]:
    """The port's ``policy_in_force``."""
    rows = yield _POLICY, (IN_FORCE,)
    # A row of version 0 is one that nobody has filled yet.
    return _row(*rows[0]) if rows and rows[0][0] else None


def set_policy(expected_version: int, content: bytes, note: Draft, *, now: int) -> Script[PolicyRow]:
    """The port's ``set_policy``."""
    fact = sealing.loading(note, content)
    yield _KNOW_POLICY, (IN_FORCE,)
    rows = yield _LOCKED_POLICY, (IN_FORCE,)
    before = _row(*rows[0])
    if before.version != expected_version:
        raise sealing.another_policy(before.version, expected_version)
    yield from sql.put_blob(content, now=now)
    changed = (before.version + 1, fact.sha256, fact.source, to_us(note.at), note.actor.id)
    yield _SET_POLICY, (*changed, IN_FORCE)
    yield from sql_system.noted(sealing.in_force(note, before.version + 1), now)
    return _row(*changed, before.judged)


def policy_item() -> Script[AgentTaskItem | None]:
    """The port's ``policy_item``; read from the end, which is near: policies change seldom and nodes start often."""
    found = yield _LOADED, (SYSTEM_STREAM,)
    if not found:
        return None
    version = int(found[0][0])
    rows = yield _AROUND, (SYSTEM_STREAM, version - 1, version + 1)
    return sealing.chained([(number, str(data).encode()) for number, data in rows], version, SYSTEM_STREAM)


def judged_policy(version: int) -> Script[None]:
    """The port's ``judged_policy``."""
    yield _JUDGED, (version, IN_FORCE, version)


def directory() -> Script[list[EntryRow]]:
    """The port's ``directory``."""
    rows = yield _ENTRIES, ()
    return [
        EntryRow(whole(number), DirectoryChanged.model_validate_json(text(data), extra="ignore"))
        for number, data in rows
    ]


def set_entry(note: Draft, expected: int, secret: str, *, now: int) -> Script[int]:
    """The port's ``set_entry``; done again, it answers what it did."""
    fact = sealing.listing(note, expected, secret)
    done = yield from sql.already_there(TaskId(SYSTEM_STREAM), [note])
    if done:
        return done[0].version
    # The row of the stream is locked first: of two that make one entry at once, the second finds it made.
    (item,) = yield from sql_system.record([note], SYSTEM_STREAM, now=now)
    rows = yield _ENTRY, (fact.entry,)
    present = int(rows[0][0]) if rows else 0
    if present != expected:
        raise sealing.another_entry(fact.entry, present, expected)
    if rows and (target := sealing.target_of(DirectoryChanged.model_validate_json(text(rows[0][1]), extra="ignore"))):
        yield _FORGET_SECRET, (target,)
    if secret:
        yield _KEEP_SECRET, (sealing.target_of(fact), secret)
    if fact.value is None:
        yield _REMOVE_ENTRY, (fact.entry,)
    else:
        yield _SET_ENTRY, (fact.entry, item.version, fact.model_dump_json())
    return item.version


def secret_of(sha256: str) -> Script[str | None]:
    """The port's ``secret_of``."""
    rows = yield _SECRET, (sha256,)
    found = text(rows[0][0]) if rows else ""
    return found if sha256_hex(found.encode()) == sha256 else None


def take_duty(name: str, holder: str, for_s: float, *, now: int) -> Script[bool]:
    """The port's ``take_duty``."""
    yield _TAKE, (name, holder, now + seconds_to_us(for_s), now, now + seconds_to_us(MOST_DUTY_S))
    rows = yield _HOLDER, (name,)
    return bool(rows) and rows[0][0] == holder


def leave_duty(name: str, holder: str) -> Script[None]:
    """The port's ``leave_duty``."""
    yield _LEAVE, (name, holder)


def agree(name: str, value: str, *, now: int) -> Script[str]:
    """The port's ``agree``."""
    rows = yield _AGREED, (name,)
    if not rows:
        # When two say it at once, the second waits here until the first is there.
        yield _AGREE, (name, value)
        rows = yield _AGREED, (name,)
        if rows[0][0] == value:
            yield from sql_system.noted(sealing.agreeing(name, value, now), now)
    return str(rows[0][0])


def _row(version: int, sha256: str, source: str, loaded_at: int, loaded_by: str, judged: int) -> PolicyRow:
    try:
        return PolicyRow(int(version), text(sha256), text(source), from_us(loaded_at), text(loaded_by), int(judged))
    except (TypeError, ValueError, OverflowError):
        raise sealing.no_policy() from None


# -- Who is signed in, in SQL (see ``sql``) ----------------------------------------------

_SQL_SIGN_IN_COLUMNS: Final = "session_hash, token_hash, name, begun_at, used_at"
_ADD: Final = f"INSERT INTO sign_ins ({_SQL_SIGN_IN_COLUMNS}) VALUES (?, ?, ?, ?, ?)"
_FIND: Final = f"SELECT {_SQL_SIGN_IN_COLUMNS} FROM sign_ins WHERE session_hash = ?"
_SQL_SIGN_IN_LOCKED: Final = f"{_FIND} /* FOR UPDATE */"
_OF: Final = (
    f"SELECT {_SQL_SIGN_IN_COLUMNS} FROM sign_ins WHERE name = ? ORDER BY begun_at, session_hash /* FOR UPDATE */"
)
_LIST: Final = f"SELECT {_SQL_SIGN_IN_COLUMNS} FROM sign_ins ORDER BY begun_at, session_hash"
_USE: Final = "UPDATE sign_ins SET used_at = ? WHERE session_hash = ? AND used_at < ?"
_END: Final = "DELETE FROM sign_ins WHERE session_hash = ?"
_COUNT_OVER: Final = "SELECT COUNT(*) FROM sign_ins WHERE begun_at <= ? OR used_at <= ?"
_FORGET: Final = "DELETE FROM sign_ins WHERE begun_at <= ? OR used_at <= ?"


def add(row: SignInRow, most: int, note: Draft, *, now: int) -> Script[list[SignInRow]]:
    """The port's ``add_sign_in``."""
    sealing.check_sign_in(note)
    if (yield _FIND, (row.session_hash,)):
        raise sealing.sign_in_exists()
    theirs = yield _OF, (row.name,)
    gone = [_sql_sign_in_row(*one) for one in theirs[: max(0, len(theirs) - most + 1)]]
    for one in gone:
        yield _END, (one.session_hash,)
    yield _ADD, (row.session_hash, row.token_hash, row.name, to_us(row.begun_at), to_us(row.used_at))
    yield from sql_system.noted(sealing.signed_in(note, row, gone), now)
    return gone


def find(session_hash: str) -> Script[SignInRow | None]:
    """The port's ``find_sign_in``."""
    rows = yield _FIND, (session_hash,)
    return _sql_sign_in_row(*rows[0]) if rows else None


def use(session_hash: str, at: datetime) -> Script[None]:
    """The port's ``use_sign_in``."""
    yield _USE, (to_us(at), session_hash, to_us(at))


def end(session_hash: str, note: Draft | None, *, now: int) -> Script[bool]:
    """The port's ``end_sign_in``."""
    if not (yield _SQL_SIGN_IN_LOCKED, (session_hash,)):
        return False
    yield _END, (session_hash,)
    yield from sql_system.noted(sealing.signed_out(note, session_hash), now)
    return True


def forget(begun: datetime, used: datetime) -> Script[int]:
    """The port's ``forget_sign_ins``."""
    before = to_us(begun), to_us(used)
    rows = yield _COUNT_OVER, before
    if rows[0][0]:
        yield _FORGET, before
    return int(rows[0][0])


def list_all() -> Script[list[SignInRow]]:
    """The port's ``list_sign_ins``."""
    rows = yield _LIST, ()
    return [_sql_sign_in_row(*row) for row in rows]


def _sql_sign_in_row(session_hash: str, token_hash: str, name: str, begun_at: int, used_at: int) -> SignInRow:
    return SignInRow(text(session_hash), text(token_hash), text(name), from_us(begun_at), from_us(used_at))
