"""The common part of all endpoints: the service, the person who asks, and the end of the server."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from pydantic import BaseModel
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response

from orchestrator.core.errors import Forbidden, Unauthenticated
from orchestrator.core.ports import Identity
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.tasks import TaskService
from orchestrator.web.auth import TokenAuthorizer
from orchestrator.web.browsers import Browser, Browsers
from orchestrator.web.events import EventStream
from orchestrator.web.peers import is_known
from orchestrator.web.sockets import OpenSockets


@dataclass(frozen=True)
class Defaults:
    """The limits of a task that names none; 0: no limit."""

    model: str
    max_steps: int = 20
    max_wall_s: float = 0.0
    max_tokens: int = 0


def answering(
    handler: Callable[[Request], Awaitable[BaseModel | Response]], status: int
) -> Callable[[Request], Awaitable[Response]]:
    """A handler as a route takes it: the model that it returns becomes JSON with the ``status`` of the table."""

    async def answer(request: Request) -> Response:
        made = await handler(request)
        return made if isinstance(made, Response) else as_json(made, status)

    return answer


def as_json(answer: BaseModel, status: int) -> Response:
    """An answer with one of several statuses."""
    return JSONResponse(answer.model_dump(mode="json", by_alias=True), status_code=status)


class Room:
    """The endpoints of one subject; ``Endpoints`` is all of them."""

    service: TaskService
    authorizer: TokenAuthorizer
    browsers: Browsers
    sockets: OpenSockets
    closing: asyncio.Event
    """Set when the orchestrator stops: what would go on for ever ends."""

    async def who(self, request: HTTPConnection, *, agents: bool = False) -> Identity:
        """The person who is asking, or with ``agents`` the program. Raises Unauthenticated, Forbidden."""
        identity = await self.identified(request)
        if identity.kind == "agent" and not agents:
            raise Forbidden("A program's token opens no endpoint that decides.", remedy="A person has to do this.")
        if identity.kind not in ("person", "agent"):
            raise Unauthenticated("This endpoint is for people; the token is a computer's.", remedy="Send a person's.")
        return identity

    async def identified(self, connection: HTTPConnection) -> Identity:
        """The identity behind a token or a browser's cookie. Raises Unauthenticated, Forbidden."""
        browser = await self.browser(connection)
        if browser is not None:
            is_known(connection, browser.identity.token_hash)
            return browser.identity
        identity = await self.authorizer.authenticate(connection.headers.get("authorization"))
        is_known(connection, identity.token_hash)
        # For the error's handler: it records a refused attempt with this name.
        connection.state.identity = identity
        return identity

    async def browser(self, connection: HTTPConnection) -> Browser | None:
        """The browser that is signed in and whose page asks; None: it sends no cookie, or a token, which goes before.

        Raises Unauthenticated, Forbidden.
        """
        secret = None if "authorization" in connection.headers else self.browsers.secret_of(connection)
        if secret is None:
            return None
        self.browsers.place.check_host(connection)
        browser = await self.browsers.known(secret)
        connection.state.identity = browser.identity
        self.browsers.check_asked(connection, browser)
        return browser

    def stream(self, identity: Identity, events: Callable[[asyncio.Event], AsyncGenerator[bytes, None]]) -> EventStream:
        """Events for somebody who may see them; ``events`` is given what is set when they have to end.

        That is when the token was revoked, the browser was signed out, or the orchestrator stops. Raises
        TooManyStreams.
        """
        self.sockets.check_room(identity)
        return EventStream(_held(self.sockets, identity, events))

    async def computer_names(self) -> list[str]:
        """The computers that have a token, by name."""
        return sorted(await self.computer_owners())

    async def computer_owners(self) -> dict[ComputerId, str]:
        """The computers that have a token, each with the person who paired it; empty: nobody that is known."""
        rows = await self.service.store.list_tokens()
        return {ComputerId(row.name): row.owner for row in rows if row.kind == "computer" and not row.revoked}


async def _held(
    sockets: OpenSockets, identity: Identity, events: Callable[[asyncio.Event], AsyncGenerator[bytes, None]]
) -> AsyncGenerator[bytes, None]:
    with sockets.streaming(identity) as over:
        async with contextlib.aclosing(events(over)) as told:
            async for event in told:
                if over.is_set():
                    # A reader who may see no more does not get what was read ahead.
                    return
                yield event
