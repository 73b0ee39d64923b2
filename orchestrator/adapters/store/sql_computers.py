"""What is kept of each computer, in SQL (see ``sql``): what was heard, who came last, and whether it is frozen."""

from typing import Any, Final

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql, sql_system
from orchestrator.adapters.store.script import Script, text, whole
from orchestrator.core.ports import SYSTEM_STREAM, Coming
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import Draft
from orchestrator.core.task.system_facts import ComputerFrozen, ComputerSide, ComputerWelcomed
from orchestrator.core.timestamps import from_us, to_us
from orchestrator.core.wire.identity import ComputerRecord, Heard
from orchestrator.core.wire.wire import ComputerId

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


def welcome(name: ComputerId, coming: Coming, note: Draft | None, *, now: int) -> Script[int | None]:
    """The port's ``welcome_computer``; done again, it answers what it did."""
    record = yield from _locked(name)
    if note is not None and (done := (yield from sql.already_there(TaskId(SYSTEM_STREAM), [note]))):
        return done[0].fact.number if isinstance(done[0].fact, ComputerWelcomed) else record.number
    if record.frozen is not None:
        return None
    after = sealing.welcomed(record, coming)
    known = coming.side.model_dump_json()
    yield _WELCOME, (after.number, after.heard, after.doubtful_below, known, after.token, name)
    yield from sql_system.noted(sealing.welcoming(note, after), now)
    return after.number


def hear(name: ComputerId, heard: Heard) -> Script[None]:
    """The port's ``hear_computer``."""
    yield _HEAR, (heard.journal_seq, name, heard.journal_seq, sql.of_boot(heard))


def freeze(note: Draft, *, now: int) -> Script[bool]:
    """The port's ``freeze_computer``."""
    fact = sealing.freezing(note)
    record = yield from _locked(fact.computer)
    if record.frozen is not None:
        return False
    yield _FREEZE, (fact.model_dump_json(), to_us(note.at), fact.computer)
    yield from sql_system.noted(note, now)
    return True


def label(note: Draft, *, now: int) -> Script[bool]:
    """The port's ``label_computer``."""
    record = yield from _locked(sealing.labelling(note).computer)
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
    record = yield from _locked(fact.computer)
    if record.frozen is None:
        return False
    number = sealing.number_of_release(record)
    yield _RELEASE, (number, number, fact.computer)
    yield from sql_system.noted(sealing.numbered(note, number), now)
    return True


def _locked(name: ComputerId) -> Script[ComputerRecord]:
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
