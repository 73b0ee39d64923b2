"""What several nodes have in common, in SQL (see ``sql``): the policy, duties, and what they agreed on.

The policy's row is locked before the row of the system stream, as every row is.
"""

from typing import Final

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import sql, sql_system
from orchestrator.adapters.store.entry import seconds_to_us
from orchestrator.adapters.store.script import Script, text
from orchestrator.core.audit.shared import IN_FORCE
from orchestrator.core.ports import SYSTEM_STREAM, PolicyRow
from orchestrator.core.ports.shared import MOST_DUTY_S
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.timestamps import from_us, to_us

_COLUMNS: Final = "version, sha256, source, loaded_at, loaded_by, judged"
_POLICY: Final = f"SELECT {_COLUMNS} FROM policies WHERE name = ?"
_KNOW_POLICY: Final = f"""INSERT INTO policies (name, {_COLUMNS}) VALUES (?, 0, '', '', 0, '', 0)
    ON CONFLICT DO NOTHING"""
_LOCKED_POLICY: Final = f"{_POLICY} /* FOR UPDATE */"
_SET_POLICY: Final = """UPDATE policies SET version = ?, sha256 = ?, source = ?, loaded_at = ?, loaded_by = ?
    WHERE name = ?"""
# As canonical JSON writes it; within a text its quotes would be escaped.
_LOADED: Final = """SELECT version FROM items WHERE task_id = ? AND data LIKE '%"fact":{%"kind":"policy_loaded"%'
    ORDER BY version DESC LIMIT 1"""
_AROUND: Final = "SELECT version, data FROM items WHERE task_id = ? AND version >= ? AND version <= ? ORDER BY version"
_JUDGED: Final = "UPDATE policies SET judged = ? WHERE name = ? AND judged < ?"
# One statement, so that of two who take a free duty at once the second sees what the first did.
_TAKE: Final = """INSERT INTO duties (name, holder, until) VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE duties.holder = excluded.holder OR duties.until <= ? OR duties.until > ?"""
_HOLDER: Final = "SELECT holder FROM duties WHERE name = ?"
_LEAVE: Final = "DELETE FROM duties WHERE name = ? AND holder = ?"
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
        # Of two that say it at once the second waits here until the first is there.
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
