"""Standing approvals in SQL, as transaction scripts (see ``sql``), and when a grant or its use is refused.

A grant is written with the decision that gives it, and a use of it with the start of the call that
runs under it: there is never one without the other.
"""

import contextlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pydantic import ValidationError

from orchestrator.adapters.store.script import Script
from orchestrator.core.approval.grants import Grant, GrantState
from orchestrator.core.errors import GrantVoid, InvalidRequest, NewerSchema, NotFound
from orchestrator.core.task.items import Draft
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.values import from_us, to_us

_STANDING: Final = "SELECT expires_at, max_uses, uses, revoked FROM grants WHERE grant_id = ? /* FOR UPDATE */"
_ADD: Final = """INSERT INTO grants (grant_id, task_id, session_id, user_id, data, expires_at, max_uses)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
_USE: Final = "UPDATE grants SET uses = uses + 1 WHERE grant_id = ?"
_REVOKE: Final = "UPDATE grants SET revoked = 1 WHERE grant_id = ?"
_LIST: Final = "SELECT data, uses, revoked FROM grants"


class Standing(NamedTuple):
    """Whether a grant still holds, as its row says."""

    expires_at: int | None
    """Microseconds since 1970 in UTC; None: with its task."""
    max_uses: int | None
    """None: as often as it matches."""
    uses: int = 0
    revoked: int = 0


def given_in(drafts: Sequence[Draft]) -> list[Grant]:
    """The grants that the drafts give."""
    return [grant for draft in drafts if draft.fact.kind == "decision_recorded" for grant in draft.fact.grants]


def used_in(drafts: Sequence[Draft]) -> list[GrantId]:
    """The grants that the drafts use, each as often as it is used; in order, so that they are locked in one."""
    starts = [draft.fact for draft in drafts if draft.fact.kind == "tool_started"]
    return sorted(start.grant_id for start in starts if start.grant_id is not None)


def is_revoked(value: object) -> bool:
    """Whether a column says that something was revoked: everything but the number 0 does."""
    return not (type(value) is int and value == 0)


def check_usable(grant_id: GrantId, row: Standing, now: int) -> None:
    """Refuse a use of a grant that no longer holds, as :meth:`GrantState.usable` says. Raises GrantVoid."""
    if is_revoked(row.revoked):
        raise void(grant_id, "was revoked")
    if row.expires_at is not None and row.expires_at <= now:
        raise void(grant_id, "is over")
    if row.max_uses is not None and row.uses >= row.max_uses:
        raise void(grant_id, "is used up")


def outlives_its_task(state: GrantState, now: int) -> bool:
    """Whether a grant can still be used once the task in which it was given is over."""
    return state.grant.scope == "session" and state.usable(from_us(now))


def void(grant_id: GrantId, what: str) -> GrantVoid:
    """The refusal of a use, which says what became of the grant."""
    return GrantVoid(f"The standing approval {grant_id} {what}.", remedy="Ask a person to decide on this call.")


def encode_grant(grant: Grant) -> str:
    """The grant as it is kept."""
    return grant.model_dump_json()


def decode_grant(data: str, uses: int, revoked: int) -> GrantState:
    """A kept grant and what became of it. Raises NewerSchema for one that this version cannot read."""
    try:
        grant = Grant.model_validate_json(data)
    except ValidationError:
        raise NewerSchema(
            "A grant has a field that this version does not know.",
            remedy="Start a newer version of cc-orchestrator on this store.",
        ) from None
    return GrantState(grant=grant, uses=uses, revoked=is_revoked(revoked))


def decode_known(rows: Iterable[tuple[str, int, int]]) -> list[GrantState]:
    """Kept grants that this version can read: a grant that it does not know allows nothing here."""
    known = []
    for row in rows:
        with contextlib.suppress(NewerSchema):
            known.append(decode_grant(*row))
    return known


def oldest_first(grants: list[GrantState]) -> list[GrantState]:
    """The grants in the order in which they were given."""
    return sorted(grants, key=lambda one: (one.grant.created_at, one.grant.grant_id))


def given_before(grant_id: GrantId) -> InvalidRequest:
    """The refusal of a grant's id that is already taken."""
    return InvalidRequest(f"Grant {grant_id} was given before.", remedy="Every grant needs a new random id.")


def no_grant(grant_id: GrantId) -> NotFound:
    """The refusal of a grant that was never given."""
    return NotFound(f"There is no grant {grant_id}.", remedy="Look it up in the list of grants.")


def give_and_use(drafts: Sequence[Draft], *, now: int) -> Script[None]:
    """Keep the grants that the drafts give, then use those that they use. Raises InvalidRequest, GrantVoid."""
    for grant in given_in(drafts):
        if (yield from _standing(grant.grant_id)) is not None:
            raise given_before(grant.grant_id)
        expires_at = None if grant.expires_at is None else to_us(grant.expires_at)
        whose = (grant.grant_id, grant.task_id, grant.session_id, grant.user_id)
        yield _ADD, (*whose, encode_grant(grant), expires_at, grant.max_uses)
    for grant_id in used_in(drafts):
        standing = yield from _standing(grant_id)
        if standing is None:
            raise void(grant_id, "does not exist")
        check_usable(grant_id, standing, now)
        yield _USE, (grant_id,)


def list_grants(session_id: str | None) -> Script[list[GrantState]]:
    """The port's ``list_grants``."""
    rows = yield (_LIST, ()) if session_id is None else (f"{_LIST} WHERE session_id = ?", (session_id,))
    return oldest_first(decode_known(rows))


def revoke(grant_id: GrantId) -> Script[bool]:
    """Revoke a grant; False: it was revoked before. Raises NotFound."""
    row = yield from _standing(grant_id)
    if row is None:
        raise no_grant(grant_id)
    if is_revoked(row.revoked):
        return False
    yield _REVOKE, (grant_id,)
    return True


def _standing(grant_id: GrantId) -> Script[Standing | None]:
    """The grant's row, locked until the transaction ends; None: there is none."""
    rows = yield _STANDING, (grant_id,)
    return Standing(*rows[0]) if rows else None
