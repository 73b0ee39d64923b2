"""What several nodes have in common, in SQL (see ``sql``): the policy, duties, and what they agreed on.

The policy's row is locked before the row of the system stream, as every row is.
"""

from typing import Final

from orchestrator.core.items import Draft
from orchestrator.core.moments import from_us
from orchestrator.ports import PolicyRow
from orchestrator.store import sealing, sql, sql_system
from orchestrator.store.entry import seconds_to_us
from orchestrator.store.script import Script

_COLUMNS: Final = "version, sha256, source, loaded_at, loaded_by, judged"
_POLICY: Final = f"SELECT {_COLUMNS} FROM policies WHERE name = ?"
_KNOW_POLICY: Final = f"""INSERT INTO policies (name, {_COLUMNS}) VALUES (?, 0, '', '', 0, '', 0)
    ON CONFLICT DO NOTHING"""
_LOCKED_POLICY: Final = f"{_POLICY} /* FOR UPDATE */"
_SET_POLICY: Final = """UPDATE policies SET version = ?, sha256 = ?, source = ?, loaded_at = ?, loaded_by = ?
    WHERE name = ?"""
_JUDGED: Final = "UPDATE policies SET judged = ? WHERE name = ? AND judged < ?"
# One statement, so that of two who take a free duty at once the second sees what the first did.
_TAKE: Final = """INSERT INTO duties (name, holder, until) VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE duties.holder = excluded.holder OR duties.until <= ?"""
_HOLDER: Final = "SELECT holder FROM duties WHERE name = ?"
_LEAVE: Final = "DELETE FROM duties WHERE name = ? AND holder = ?"
_AGREE: Final = "INSERT INTO agreed (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING"
_AGREED: Final = "SELECT value FROM agreed WHERE name = ?"


def policy_in_force() -> Script[PolicyRow | None]:
    """The port's ``policy_in_force``."""
    rows = yield _POLICY, (sealing.IN_FORCE,)
    # A row of version 0 is one that nobody has filled yet.
    return _row(*rows[0]) if rows and rows[0][0] else None


def set_policy(expected_version: int, content: bytes, note: Draft, *, now: int) -> Script[PolicyRow]:
    """The port's ``set_policy``."""
    fact = sealing.loading(note, content)
    yield _KNOW_POLICY, (sealing.IN_FORCE,)
    rows = yield _LOCKED_POLICY, (sealing.IN_FORCE,)
    before = _row(*rows[0])
    if before.version != expected_version:
        raise sealing.another_policy(before.version, expected_version)
    yield from sql.put_blob(content, now=now)
    changed = (before.version + 1, fact.sha256, fact.source, now, note.actor.id)
    yield _SET_POLICY, (*changed, sealing.IN_FORCE)
    yield from sql_system.noted(note, now)
    return _row(*changed, before.judged)


def judged_policy(version: int) -> Script[None]:
    """The port's ``judged_policy``."""
    yield _JUDGED, (version, sealing.IN_FORCE, version)


def take_duty(name: str, holder: str, for_s: float, *, now: int) -> Script[bool]:
    """The port's ``take_duty``."""
    yield _TAKE, (name, holder, now + seconds_to_us(for_s), now)
    rows = yield _HOLDER, (name,)
    return bool(rows) and rows[0][0] == holder


def leave_duty(name: str, holder: str) -> Script[None]:
    """The port's ``leave_duty``."""
    yield _LEAVE, (name, holder)


def agree(name: str, value: str) -> Script[str]:
    """The port's ``agree``."""
    yield _AGREE, (name, value)
    rows = yield _AGREED, (name,)
    return str(rows[0][0])


def _row(version: int, sha256: str, source: str, loaded_at: int, loaded_by: str, judged: int) -> PolicyRow:
    return PolicyRow(version, sha256, source, from_us(loaded_at), loaded_by, judged)
