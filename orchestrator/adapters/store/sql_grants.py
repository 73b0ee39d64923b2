"""Grants in SQL, as transaction scripts (see ``sql``).

A grant is written with the decision that gives it, and a use of it with the start of the call that
runs under it: there is never one without the other.
"""

from collections.abc import Sequence
from typing import Final

from orchestrator.adapters.store import grant_rules as granting
from orchestrator.adapters.store.grant_rules import Standing
from orchestrator.adapters.store.script import Script
from orchestrator.core.approval.grants import GrantState
from orchestrator.core.task.items import Draft
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.values import to_us

_STANDING: Final = "SELECT expires_at, max_uses, uses, revoked FROM grants WHERE grant_id = ? /* FOR UPDATE */"
_ADD: Final = """INSERT INTO grants (grant_id, task_id, session_id, user_id, data, expires_at, max_uses)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
_USE: Final = "UPDATE grants SET uses = uses + 1 WHERE grant_id = ?"
_REVOKE: Final = "UPDATE grants SET revoked = 1 WHERE grant_id = ?"
_LIST: Final = "SELECT data, uses, revoked FROM grants"


def give_and_use(drafts: Sequence[Draft], *, now: int) -> Script[None]:
    """Keep the grants that the drafts give, then use those that they use. Raises InvalidRequest, GrantVoid."""
    for grant in granting.given_in(drafts):
        if (yield from _standing(grant.grant_id)) is not None:
            raise granting.given_before(grant.grant_id)
        expires_at = None if grant.expires_at is None else to_us(grant.expires_at)
        whose = (grant.grant_id, grant.task_id, grant.session_id, grant.user_id)
        yield _ADD, (*whose, granting.encode_grant(grant), expires_at, grant.max_uses)
    for grant_id in granting.used_in(drafts):
        standing = yield from _standing(grant_id)
        if standing is None:
            raise granting.void(grant_id, "does not exist")
        granting.check_usable(grant_id, standing, now)
        yield _USE, (grant_id,)


def list_grants(session_id: str | None) -> Script[list[GrantState]]:
    """The port's ``list_grants``."""
    rows = yield (_LIST, ()) if session_id is None else (f"{_LIST} WHERE session_id = ?", (session_id,))
    return granting.oldest_first(granting.decode_known(rows))


def revoke(grant_id: GrantId) -> Script[bool]:
    """Revoke a grant; False: it was revoked before. Raises NotFound."""
    row = yield from _standing(grant_id)
    if row is None:
        raise granting.no_grant(grant_id)
    if granting.is_revoked(row.revoked):
        return False
    yield _REVOKE, (grant_id,)
    return True


def _standing(grant_id: GrantId) -> Script[Standing | None]:
    """The grant's row, locked until the transaction ends; None: there is none."""
    rows = yield _STANDING, (grant_id,)
    return Standing(*rows[0]) if rows else None
