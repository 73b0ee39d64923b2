"""Who is signed in, in SQL (see ``sql``)."""

from datetime import datetime
from typing import Final

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql_system
from orchestrator.adapters.store.script import Script, text
from orchestrator.core.ports import SignInRow
from orchestrator.core.task.items import Draft
from orchestrator.core.timestamps import from_us, to_us

_COLUMNS: Final = "session_hash, token_hash, name, begun_at, used_at"
_ADD: Final = f"INSERT INTO sign_ins ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)"
_FIND: Final = f"SELECT {_COLUMNS} FROM sign_ins WHERE session_hash = ?"
_LOCKED: Final = f"{_FIND} /* FOR UPDATE */"
_OF: Final = f"SELECT {_COLUMNS} FROM sign_ins WHERE name = ? ORDER BY begun_at, session_hash /* FOR UPDATE */"
_LIST: Final = f"SELECT {_COLUMNS} FROM sign_ins ORDER BY begun_at, session_hash"
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
    gone = [_row(*one) for one in theirs[: max(0, len(theirs) - most + 1)]]
    for one in gone:
        yield _END, (one.session_hash,)
    yield _ADD, (row.session_hash, row.token_hash, row.name, to_us(row.begun_at), to_us(row.used_at))
    yield from sql_system.noted(sealing.signed_in(note, row, gone), now)
    return gone


def find(session_hash: str) -> Script[SignInRow | None]:
    """The port's ``find_sign_in``."""
    rows = yield _FIND, (session_hash,)
    return _row(*rows[0]) if rows else None


def use(session_hash: str, at: datetime) -> Script[None]:
    """The port's ``use_sign_in``."""
    yield _USE, (to_us(at), session_hash, to_us(at))


def end(session_hash: str, note: Draft | None, *, now: int) -> Script[bool]:
    """The port's ``end_sign_in``."""
    if not (yield _LOCKED, (session_hash,)):
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
    return [_row(*row) for row in rows]


def _row(session_hash: str, token_hash: str, name: str, begun_at: int, used_at: int) -> SignInRow:
    return SignInRow(text(session_hash), text(token_hash), text(name), from_us(begun_at), from_us(used_at))
