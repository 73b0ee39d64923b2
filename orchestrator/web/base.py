"""The common part of all endpoints: the service, the person who asks, and the end of the server."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response

from orchestrator.core.approval.people import Unseen
from orchestrator.core.errors import Forbidden, NotFound, Unauthenticated
from orchestrator.core.ports import Identity
from orchestrator.core.task.facts import TaskId
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.tasks import TaskService
from orchestrator.web.auth import TokenAuthorizer
from orchestrator.web.bodies import read_body
from orchestrator.web.browsers import Browser, Browsers
from orchestrator.web.events import EventStream, Way
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
    handler: Callable[[Request], Awaitable[BaseModel | Response]],
    status: int,
    within_reach: Callable[[HTTPConnection], Awaitable[None]],
    body: type[BaseModel] | None = None,
) -> Callable[[Request], Awaitable[Response]]:
    """A handler as a route takes it: the model that it returns becomes JSON with the ``status`` of the table.

    ``within_reach`` raises NotFound where the path names a thing that the asker may not see. The ``body`` is looked at
    before that is told, as it is where there is no such thing: neither answer says which of the two it is.
    """

    async def answer(request: Request) -> Response:
        try:
            await within_reach(request)
        except NotFound:
            if body is not None:
                await read_body(request, body)
            raise
        made = await handler(request)
        return made if isinstance(made, Response) else as_json(made, status)

    return answer


def as_json(answer: BaseModel, status: int) -> Response:
    """An answer with one of several statuses."""
    return JSONResponse(answer.model_dump(mode="json", by_alias=True), status_code=status)


_MOST_USERS: Final = 10_000


class Room:
    """The endpoints of one subject; ``Endpoints`` is all of them."""

    service: TaskService
    authorizer: TokenAuthorizer
    browsers: Browsers
    sockets: OpenSockets
    users: dict[str, str]
    """The users of tasks that were asked about lately, by task."""
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

    async def within_reach(self, connection: HTTPConnection) -> None:
        """Raises NotFound where the path names a task, a request or a computer that the asker may not see.

        It is the same answer as for a thing that there is not. This is the one place for all endpoints that name one
        thing; those that list things leave out what :meth:`TokenAuthorizer.visible_users` and ``reaches`` leave out.
        """
        named = connection.path_params
        if "task_id" in named:
            user = await self.user_of(named["task_id"])
            if user is not None and not self.authorizer.sees_user(await self.who(connection, agents=True), user):
                raise _unseen(await self.service.no_task(TaskId(named["task_id"])))
        elif "request_id" in named:
            raised = await self.service.store.raised_by([named["request_id"]])
            user = await self.user_of(raised.get(named["request_id"], ""))
            if user is not None and not self.authorizer.sees_user(await self.who(connection, agents=True), user):
                raise _unseen(self.service.no_request(named["request_id"]))
        elif "name" in named and "kind" not in named:
            name = ComputerId(named["name"])
            if not self.authorizer.reaches(await self.who(connection, agents=True), name):
                raise _unseen(no_computer(name))

    async def user_of(self, task_id: str) -> str | None:
        """The user of a task, which never changes, by its row; None: there is no such task."""
        user = self.users.get(task_id)
        row = await self.service.store.kept_task(task_id) if task_id and user is None else None
        if row is not None:
            user = str(row["user_id"])
            self.know_user(task_id, user)
        return user

    def know_user(self, task_id: str, user: str) -> None:
        """Remember the user of a task, who is asked for whenever somebody looks at it."""
        self.users[task_id] = user
        if len(self.users) > _MOST_USERS:
            del self.users[next(iter(self.users))]

    async def identified(self, connection: HTTPConnection) -> Identity:
        """The identity behind a token or a browser's cookie. Raises Unauthenticated, Forbidden."""
        known: Identity | None = getattr(connection.state, "identity", None)
        if known is not None:
            return known
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

    def stream(
        self,
        identity: Identity,
        events: Callable[[asyncio.Event], AsyncGenerator[bytes, None]],
        way: Way | None = None,
    ) -> EventStream:
        """Events for somebody who may see them; ``events`` is given what is set when they have to end.

        That is when the token was revoked, the browser was signed out, or the orchestrator stops. From then on nothing
        may go by the short ``way`` either. Raises TooManyStreams.
        """
        self.sockets.check_room(identity)
        return EventStream(_held(self.sockets, identity, events), way or Way())

    async def computer_names(self) -> list[str]:
        """The computers that have a token, by name."""
        return sorted(await self.computer_owners())

    async def has_computer(self, name: str) -> bool:
        """Whether a computer of this name has a token; it reads no other computer's."""
        return any(not row.revoked for row in await self.service.store.tokens_of("computer", name))

    async def computer_owners(self) -> dict[ComputerId, str]:
        """The computers that have a token, each with the person who paired it; empty: nobody that is known."""
        rows = await self.service.store.list_tokens()
        return {ComputerId(row.name): row.owner for row in rows if row.kind == "computer" and not row.revoked}


def _unseen(absent: NotFound) -> Unseen:
    """The same answer as for a thing that there is not."""
    return Unseen(absent.message, remedy=absent.remedy, details=absent.details)


def no_person(name: str) -> NotFound:
    return NotFound(f"There is no person {name[:64]!r}.", remedy=f"`cc-orchestrator people add {name[:64]}` adds one.")


def no_computer(name: str) -> NotFound:
    """The refusal of a computer that there is not, or that the asker may not see."""
    return NotFound(
        f"There is no computer {name[:64]!r}.",
        remedy="`cc-orchestrator computers` lists them, `cc-orchestrator pair` connects one.",
    )


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
