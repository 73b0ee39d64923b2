"""Authentication: bearer tokens, hashed at rest, and the right to decide."""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from orchestrator.core.approval.presentation import Saying, may_say, who_decides
from orchestrator.core.errors import Forbidden, InvalidRequest, Unauthenticated
from orchestrator.core.policy import ROLES
from orchestrator.core.ports import Identity, Store, TokenRow
from orchestrator.core.task.items import Draft
from orchestrator.core.task.rehearsal import is_copy
from orchestrator.core.task.system_facts import LABELLED, OWNER, PAIRED
from orchestrator.core.task.task import AgentTask
from orchestrator.core.text.lookalikes import is_mark, why_not, why_not_beside

_NO_TOKEN = "Send a token: Authorization: Bearer TOKEN. The first start wrote one to admin.token in the data directory."


def new_token(kind: str) -> str:
    """A token of 256 bits; its first letters say what it is for."""
    return f"cc{kind[0]}_{secrets.token_urlsafe(32)}"


def token_hash(token: str) -> str:
    """The part of a token that is kept."""
    return hashlib.sha256(token.encode()).hexdigest()


def bearer_of(authorization: str | None) -> str:
    """The token of a header; empty: there is none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


@dataclass
class TokenAuthorizer:
    """Authenticates tokens of the store. ``approvers``: requester, not_requester, or ``role:NAME``."""

    store: Store
    approvers: str = "requester"
    guests: Mapping[str, Identity] = field(default_factory=dict)
    """By the hash of a token that no store keeps: the copy of a rehearsal that comes with it."""

    async def authenticate(self, authorization: str | None) -> Identity:
        """The holder of a bearer token. Raises Unauthenticated."""
        token = bearer_of(authorization)
        if not token:
            raise Unauthenticated("Nobody said who is asking.", remedy=_NO_TOKEN)
        guest = self.guests.get(token_hash(token))
        if guest is not None:
            return guest
        row = await self.store.find_token(token_hash(token))
        if row is None or row.revoked or row.kind == "pairing" or (row.kind == "computer" and is_copy(row.name)):
            raise Unauthenticated("This token is not known or was revoked.", remedy="Ask an admin for a new one.")
        owner = row.owner if row.kind == "agent" else ""
        return Identity(kind=row.kind, name=row.name, roles=row.rights, token_hash=row.token_hash, owner=owner)

    async def present(self, identity: Identity) -> Identity:
        """The present identity of a person that came in by a token.

        Raises Unauthenticated when the token was revoked.
        """
        row = await self.store.find_token(identity.token_hash)
        if row is None or row.revoked:
            raise Unauthenticated("Your token was revoked.", remedy="Ask an admin for a new one.")
        return replace(identity, name=row.name, roles=row.rights)

    def may_decide(self, identity: Identity, task: AgentTask, action: Saying = "approve") -> bool:
        """Whether somebody may say this to a task, by the setting ``approvers``."""
        return may_say(self.approvers, task, action, kind=identity.kind, name=identity.name, roles=identity.roles)

    async def still_decides(self, name: str, task: AgentTask, since: datetime) -> bool:
        """Whether a person may now approve what a task asks, by a token of that time that was not revoked."""
        rows = [one for one in await self.store.list_tokens() if (one.kind, one.name) == ("person", name)]
        held = [one for one in rows if not one.revoked and one.created_at is not None and one.created_at <= since]
        roles = {role for one in held for role in one.rights}
        return may_say(self.approvers, task, "approve", kind="person", name=name, roles=roles)

    def who_decides(self, task: AgentTask) -> str:
        """The people who may approve what a task asks, in words."""
        return who_decides(self.approvers, task)


def check_approvers(approvers: str) -> str:
    """The setting as it is. Raises InvalidRequest when it has none of the three forms."""
    if approvers in ("requester", "not_requester", *(f"role:{role}" for role in ROLES)):
        return approvers
    raise InvalidRequest(
        f"approvers cannot be {approvers!r}.", remedy=f"Use requester, not_requester, or role: with {', '.join(ROLES)}."
    )


async def issue_token(
    store: Store,
    *,
    kind: Literal["person", "computer", "agent"],
    name: str,
    roles: tuple[str, ...],
    at: datetime,
    note: Draft | None = None,
    owner: str = "",
    paired_id: int | None = None,
    paired_label: str = "",
) -> str:
    """A new token for a person, a computer or an agent; only its hash is kept. Raises InvalidRequest.

    ``owner``: of a computer, the person for whom players ask there; empty: they cannot. Of an agent, the person whose
    tasks its tasks count as. ``paired_id``: of a computer, its own id in the game, ``paired_label``: its label then;
    ``note`` says both among the roles (:func:`paired_roles`). ``note`` is recorded in the same transaction; None:
    nobody is accountable, as in a test.
    """
    check_name(name)
    if kind != "computer":
        await _check_unlike(store, kind, name)
    odd = sorted(set(roles) - set(ROLES))
    fits = {"person": bool(roles), "computer": not roles, "agent": set(roles) <= {"submitter"}}
    if odd or not fits[kind]:
        people = f"People have some of {', '.join(ROLES)}; computers none; an agent submitter or none."
        raise InvalidRequest("The roles do not fit.", remedy=people)
    token = new_token(kind)
    roles = (*roles, *paired_roles(paired_id, paired_label))
    if owner:
        roles = (*roles, OWNER + owner)
    await store.add_token(
        TokenRow(token_hash=token_hash(token), kind=kind, name=name, roles=roles, created_at=at), note=note
    )
    return token


def paired_roles(paired_id: int | None, label: str = "") -> tuple[str, ...]:
    """The part in the roles of a computer's token about its id and about the label that it had when it was paired."""
    known = () if paired_id is None else (f"{PAIRED}{paired_id}",)
    return (*known, f"{LABELLED}{label}") if label else known


async def _check_unlike(store: Store, kind: Literal["person", "agent"], name: str) -> None:
    """Raises InvalidRequest where people would take the name for another one that was ever given, or that is reserved.

    A program and a person never have the same name: names tell who decided, and whose task it is.
    """
    other: Literal["person", "agent"] = "agent" if kind == "person" else "person"
    rows = await store.list_tokens()
    why = why_not(name, {row.name for row in rows if row.kind == kind})
    if why := why or why_not_beside(
        name, {row.name for row in rows if row.kind == other}, "program" if other == "agent" else other
    ):
        raise InvalidRequest(why, remedy="Choose a name that nobody takes for another one.")


def check_name(name: str) -> None:
    """Raises InvalidRequest unless a person or a computer may have this name.

    ``.`` and ``..`` are steps of a path in an address, and clients remove them before they ask.
    """
    if name in (".", ".."):
        raise InvalidRequest(
            f"Nobody can be named {name!r}, which is a way in an address.", remedy="Use a letter or a digit as well."
        )
    if not name or len(name) > 64 or not all(map(_fits_a_name, name)):
        raise InvalidRequest(f"The name {name[:64]!r} does not fit.", remedy="Use up to 64 letters, digits, - _ and .")


def _fits_a_name(char: str) -> bool:
    return char.isalnum() or char in "-_." or is_mark(char)


def must_have(identity: Identity, *roles: str) -> None:
    """Raises Forbidden unless the person, or the program, has one of the roles; an admin has all."""
    if identity.kind not in ("person", "agent") or not {*roles, "admin"} & set(identity.roles):
        raise Forbidden(
            f"{identity.name} may not do this.", remedy=f"This needs the role {' or '.join(roles) or 'admin'}."
        )
