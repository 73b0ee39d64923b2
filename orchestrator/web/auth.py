"""Who is asking: bearer tokens, hashed at rest, and who may decide."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from orchestrator.core.errors import Forbidden, InvalidRequest, Unauthenticated
from orchestrator.core.task import AgentTask
from orchestrator.ports import Identity, Store, TokenRow

ROLES: Final = ("submitter", "reviewer", "admin")
_NO_TOKEN = "Send a token: Authorization: Bearer TOKEN. The first start wrote one to admin.token in the data directory."


def new_token(kind: str) -> str:
    """A token of 256 bits; its first letters say what it is for."""
    return f"cc{kind[0]}_{secrets.token_urlsafe(32)}"


def token_hash(token: str) -> str:
    """What of a token is kept."""
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass
class TokenAuthorizer:
    """Authenticates tokens of the store. ``approvers``: requester, not_requester, or ``role:NAME``."""

    store: Store
    approvers: str = "requester"

    async def authenticate(self, authorization: str | None) -> Identity:
        """The holder of a bearer token. Raises Unauthenticated."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated("Nobody said who is asking.", remedy=_NO_TOKEN)
        row = await self.store.find_token(token_hash(token.strip()))
        if row is None or row.revoked or row.kind == "pairing":
            raise Unauthenticated("This token is not known or was revoked.", remedy="Ask an admin for a new one.")
        return Identity(kind=row.kind, name=row.name, roles=row.roles)

    def may_decide(self, identity: Identity, task: AgentTask) -> bool:
        """Whether a person may decide requests of a task, by the setting ``approvers``."""
        if identity.kind != "person":
            return False
        match self.approvers.partition(":"):
            case ("requester", _, _):
                return identity.name == task.user_id
            case ("not_requester", _, _):
                return identity.name != task.user_id and bool({"reviewer", "admin"} & set(identity.roles))
            case ("role", _, role):
                return role in identity.roles
            case _:
                return False


def check_approvers(approvers: str) -> str:
    """The setting as it is. Raises InvalidRequest when it is none of the three forms."""
    if approvers in ("requester", "not_requester", *(f"role:{role}" for role in ROLES)):
        return approvers
    raise InvalidRequest(
        f"approvers cannot be {approvers!r}.", remedy=f"Use requester, not_requester, or role: with {', '.join(ROLES)}."
    )


async def issue_token(
    store: Store, *, kind: Literal["person", "computer"], name: str, roles: tuple[str, ...], at: datetime
) -> str:
    """A new token for a person or a computer; only its hash is kept. Raises InvalidRequest."""
    check_name(name)
    odd = sorted(set(roles) - set(ROLES))
    if odd or (kind == "computer") == bool(roles):
        raise InvalidRequest("The roles do not fit.", remedy=f"People have some of {', '.join(ROLES)}; computers none.")
    token = new_token(kind)
    await store.add_token(TokenRow(token_hash=token_hash(token), kind=kind, name=name, roles=roles, created_at=at))
    return token


def check_name(name: str) -> None:
    """Raises InvalidRequest unless a person or a computer may have this name."""
    if not name or len(name) > 64 or not all(char.isalnum() or char in "-_." for char in name):
        raise InvalidRequest(f"The name {name[:64]!r} does not fit.", remedy="Use up to 64 letters, digits, - _ and .")


def must_have(identity: Identity, *roles: str) -> None:
    """Raises Forbidden unless the person has one of the roles; an admin has all."""
    if identity.kind != "person" or not {*roles, "admin"} & set(identity.roles):
        raise Forbidden(
            f"{identity.name} may not do this.", remedy=f"It takes the role {' or '.join(roles) or 'admin'}."
        )
