"""What all doors share: the service behind them, who is asking, and that the house may be closing."""

import asyncio
from dataclasses import dataclass

from starlette.requests import Request

from orchestrator.core.errors import Forbidden, Unauthenticated
from orchestrator.ports import Identity
from orchestrator.tasks import TaskService
from orchestrator.web.auth import TokenAuthorizer
from orchestrator.web.sockets import OpenSockets


@dataclass(frozen=True)
class Defaults:
    """What a task has that names none; 0: no limit."""

    model: str
    max_steps: int = 20
    max_wall_s: float = 0.0
    max_tokens: int = 0


class Room:
    """The doors of one subject; ``Doors`` is all of them."""

    service: TaskService
    authorizer: TokenAuthorizer
    sockets: OpenSockets
    closing: asyncio.Event
    """Set when the orchestrator stops: what would go on for ever ends."""

    async def who(self, request: Request, *, agents: bool = False) -> Identity:
        """The person who is asking, or with ``agents`` the program. Raises Unauthenticated, Forbidden."""
        identity = await self.authorizer.authenticate(request.headers.get("authorization"))
        # For whoever answers with an error: a refused attempt is recorded with its name.
        request.state.identity = identity
        if identity.kind == "agent" and not agents:
            raise Forbidden("A program's token opens no door that decides.", remedy="A person has to do this.")
        if identity.kind not in ("person", "agent"):
            raise Unauthenticated("This door is for people; the token is a computer's.", remedy="Send a person's.")
        return identity

    async def present(self, identity: Identity) -> Identity:
        """The same identity as it is now. Raises Unauthenticated once its token was revoked."""
        return await self.authorizer.present(identity)

    async def computer_names(self) -> list[str]:
        """The computers that have a token, by name."""
        rows = await self.service.store.list_tokens()
        return sorted({row.name for row in rows if row.kind == "computer" and not row.revoked})
