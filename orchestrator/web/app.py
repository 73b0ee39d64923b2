"""REST, events and sockets as one Starlette application; every error is explained in one form."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from orchestrator.core.errors import OrchestratorError, Unauthenticated
from orchestrator.core.policy import PolicyContext
from orchestrator.core.ports import Identity
from orchestrator.core.wire.review import REVIEWER_SUBPROTOCOL, REVIEWER_SUBPROTOCOL_1_1
from orchestrator.core.wire.wire import COMPUTER_SUBPROTOCOL, ComputerId
from orchestrator.engine.directory import DirectoryKeeper
from orchestrator.engine.notifications import Notifier
from orchestrator.engine.task_status import Proofs
from orchestrator.engine.tasks import TaskService
from orchestrator.engine.undo import Undoing
from orchestrator.history.audit import VerifyJob
from orchestrator.history.audit.background import Background
from orchestrator.history.backups import Backups
from orchestrator.history.policy_store import PolicyKeeper
from orchestrator.history.rehearsal import Rehearsals
from orchestrator.history.retention import Pruner
from orchestrator.web.analytics import AnalyticsEndpoints, Settlements
from orchestrator.web.answers.base import Health, ModelServerRow
from orchestrator.web.auth import TokenAuthorizer, bearer_of
from orchestrator.web.backups import AuditEndpoints, BackupEndpoints, RetentionEndpoints, TransferEndpoints
from orchestrator.web.base import Defaults, answering
from orchestrator.web.bodies import offered
from orchestrator.web.browsers import Browsers, Place
from orchestrator.web.computers import MirroringComputers, ScreenEndpoints, peer_of
from orchestrator.web.doctor import NOWHERE, About, DoctorEndpoints, ModelEndpoints, no_servers
from orchestrator.web.endpoint_table import ENDPOINTS
from orchestrator.web.errors import (
    Forbidding,
    defect,
    draining,
    error_form,
    explained,
    http_error,
    nobody_there,
    refused,
)
from orchestrator.web.events import EventStream, Followers, over_socket
from orchestrator.web.home import HomeEndpoints, Times
from orchestrator.web.install import InstallEndpoints, PageEndpoints, Visits
from orchestrator.web.notifications import NotificationEndpoints
from orchestrator.web.oidc import AT_ONCE, ClaimRules, Provider, ProviderEndpoints
from orchestrator.web.openapi import OpenapiEndpoints
from orchestrator.web.peers import Attempts, Tries, is_known
from orchestrator.web.people import Pairings
from orchestrator.web.pins import PinEndpoints
from orchestrator.web.policies import DecisionEndpoints, PolicyEndpoints
from orchestrator.web.reviewer import serve_reviewer
from orchestrator.web.reviews import Reviews
from orchestrator.web.sockets import OpenSockets, StarletteSocket, serve_on
from orchestrator.web.tasks import RehearsalEndpoints, TaskEndpoints, UndoEndpoints
from orchestrator.web.watch import Readers, WatchEndpoints


class ComputerEndpoint(MirroringComputers, Protocol):
    """The hub, as the socket route needs it."""

    async def serve(
        self,
        computer: ComputerId,
        socket: StarletteSocket,
        *,
        fingerprint: str = "",
        peer: str = "",
        token: str = "",
    ) -> None:
        """Serve one connection until it is over; ``fingerprint`` distinguishes who may have this name.

        ``token`` is left out of all that the computer says.
        """


class Endpoints(
    TaskEndpoints,
    UndoEndpoints,
    RehearsalEndpoints,
    HomeEndpoints,
    AnalyticsEndpoints,
    DecisionEndpoints,
    PolicyEndpoints,
    AuditEndpoints,
    PinEndpoints,
    ScreenEndpoints,
    BackupEndpoints,
    RetentionEndpoints,
    InstallEndpoints,
    DoctorEndpoints,
    ModelEndpoints,
    ProviderEndpoints,
    WatchEndpoints,
    TransferEndpoints,
    NotificationEndpoints,
    PageEndpoints,
    OpenapiEndpoints,
):
    """The handlers of one orchestrator."""

    def __init__(  # noqa: PLR0913 - the parts of a server
        self,
        *,
        service: TaskService,
        authorizer: TokenAuthorizer,
        computers: ComputerEndpoint,
        nodes: Callable[[], dict[str, Any]],
        transfers: Callable[[], Awaitable[list[dict[str, Any]]]],
        defaults: Defaults,
        check_model: Callable[[str], Awaitable[object]],
        list_models: Callable[[], Awaitable[Sequence[ModelServerRow]]] = no_servers,
        undoing: Undoing,
        pruner: Pruner,
        rehearsals: Rehearsals,
        metrics: Callable[[], Awaitable[bytes]],
        policy: PolicyKeeper,
        directory: DirectoryKeeper,
        notifier: Notifier,
        verifying: VerifyJob,
        background: Background,
        unsent: Callable[[], Sequence[str]] = tuple,
        about: About = NOWHERE,
        remote_keys: str = "owner",
        update_secret: str = "",
        provider: Provider | None,
        claim_rules: ClaimRules,
        by_provider: timedelta,
    ) -> None:
        self.service = service
        self.authorizer = authorizer
        self.computers: ComputerEndpoint = computers
        self.nodes = nodes
        self.defaults = defaults
        self.check_model = check_model
        self.list_models = list_models
        self.undoing = undoing
        self.reviews = Reviews(undoing)
        self.followers = Followers(service)
        self.readers = Readers(service.bus)
        self.transfers = transfers
        self.backups = Backups(service, undoing, rehearsals.copying.transfers)
        self.pruner = pruner
        self.rehearsals = rehearsals
        self.render_metrics = metrics
        self.public_url, self.cell, self.router = about.public_url, about.cell, about.router
        self.policy = policy
        self.directory = directory
        self.notifier = notifier
        self.trying = asyncio.Lock()
        self.context_of: Callable[[ComputerId], Awaitable[PolicyContext]] = self.undoing.world.known
        self.verifying, self.background = verifying, background
        self.unsent = unsent
        self.attempts = Attempts(service.record, service.clock)
        self.pairings = Pairings(service)
        self.browsers = Browsers(service, authorizer, Place(about.host, about.public_url), by_provider)
        self.provider, self.claim_rules = provider, claim_rules
        self.provider_name = "" if provider is None else provider.name
        self.exchanging, self.naming = asyncio.Semaphore(AT_ONCE), asyncio.Lock()
        self.token_tries = Tries("tokens", "sign in again")
        self.users = {}
        self.closing = asyncio.Event()
        self.draining = False
        """Whether the node is about to stop: it still answers requests, but nobody should come to stay."""
        self.sockets = OpenSockets()
        self.visits = Visits()
        self.about = about
        self.remote_keys = remote_keys
        self.update_secret = update_secret
        self.budgets = {}
        self.proofs = Proofs(service.store)
        self.times = Times(service.store)
        self.settlements = Settlements(service.store)

    def app(self) -> ASGIApp:
        """The application."""
        errors: Mapping[Any, Any] = {
            OrchestratorError: self.explained,
            HTTPException: http_error,
            ClientDisconnect: nobody_there,
            Exception: defect,
        }
        app = Starlette(routes=self._routes(), exception_handlers=errors)
        # A redirect would name the host that the request claims, and no endpoint has two spellings.
        app.router.redirect_slashes = False
        elsewhere = app.router.default

        async def default(scope: Scope, receive: Receive, send: Send) -> None:
            await (self.nowhere if scope["type"] == "websocket" else elsewhere)(scope, receive, send)

        app.router.default = default
        # Around all of it: Starlette's outermost part answers for a defect.
        return Forbidding(app, lambda: self.draining)

    def drain(self) -> None:
        """Say from now on that the node is about to stop."""
        self.draining = True

    async def close(self) -> None:
        """End every socket with 1001 and every stream, for a clean stop."""
        self.closing.set()
        await self.sockets.close_all()

    async def explained(self, request: Request, error: OrchestratorError) -> Response:
        """An error as an answer; a refusal is written down as well."""
        await self._noted(request, error)
        return await explained(request, error)

    async def _noted(self, connection: HTTPConnection, error: OrchestratorError) -> None:
        await self.attempts.refused(connection, getattr(connection.state, "identity", None), error)

    async def present(self, identity: Identity) -> Identity:
        """The same identity as it is now. Raises Unauthenticated once its token was revoked."""
        return await self.browsers.present(identity)

    def _routes(self) -> list[BaseRoute]:
        """A route for each endpoint of the table: its name is that of its handler."""
        routes: list[BaseRoute] = [Route("/computer", self.no_socket, methods=["GET"])]
        for endpoint in ENDPOINTS:
            handler = getattr(self, endpoint.name)
            if endpoint.tag == "sockets":
                routes.append(WebSocketRoute(endpoint.path, handler))
                continue
            # The one parameter that may have slashes.
            path = endpoint.path.replace("{path}", "{path:path}")
            answer = answering(handler, endpoint.status, self.within_reach, endpoint.body)
            routes.append(Route(path, answer, methods=[endpoint.method]))
            if endpoint.streams:
                routes.append(WebSocketRoute(endpoint.path, over_socket(self._reached(handler), self._noted)))
        return routes

    def _reached(
        self, handler: Callable[[HTTPConnection], Awaitable[EventStream]]
    ) -> Callable[[HTTPConnection], Awaitable[EventStream]]:
        """The handler of a stream, for those who may see the thing that its path names."""

        async def answer(connection: HTTPConnection) -> EventStream:
            await self.within_reach(connection)
            return await handler(connection)

        return answer

    async def healthz(self, request: Request) -> Health:
        """Whether the orchestrator is up, is to stay so, its store answers, and it can judge by the active policy."""
        del request
        if self.draining:
            raise draining()
        self.policy.usable()
        await self.service.list_tasks(limit=1)
        return Health(status="ok")

    async def metrics(self, request: Request) -> Response:
        """``GET /metrics``: figures for Prometheus."""
        self.authorizer.must(await self.who(request), "view")
        return Response(await self.render_metrics(), media_type="text/plain; version=0.0.4")

    async def computer_socket(self, websocket: WebSocket) -> None:
        """``/computer``: 401 at the handshake without a computer's token."""
        looked_at = self.sockets.looked_at
        identity = await self._socket_identity(websocket, "computer")
        if identity is None or not await self.speaks(websocket, identity):
            return
        self.computers.admission.came(asyncio.get_running_loop().time())
        await websocket.accept(offered(websocket, COMPUTER_SUBPROTOCOL))
        await serve_on(websocket, self._serve_computer(websocket, identity, looked_at))

    async def _serve_computer(self, websocket: WebSocket, identity: Identity, looked_at: int) -> None:
        with self.sockets.holding(identity, websocket, looked_at) as socket:
            await self.computers.serve(
                ComputerId(identity.name),
                socket,
                fingerprint=identity.token_hash,
                peer=peer_of(websocket),
                token=bearer_of(websocket.headers.get("authorization")),
            )

    async def reviewer_socket(self, websocket: WebSocket) -> None:
        """``/reviewer``: 401 at the handshake without a person's token, or a browser that is signed in."""
        identity = await self._socket_identity(websocket, "person")
        if identity is not None:
            newer = offered(websocket, REVIEWER_SUBPROTOCOL_1_1)
            await websocket.accept(newer or offered(websocket, REVIEWER_SUBPROTOCOL))
            with self.sockets.holding(identity, websocket) as socket:
                await serve_reviewer(
                    self.reviews,
                    identity,
                    socket,
                    attempts=self.attempts,
                    present=self.present,
                    ends=newer is not None,
                )

    async def _socket_identity(self, websocket: WebSocket, kind: str) -> Identity | None:
        if self.draining:
            # Anybody may ask, so the audit does not need to know of it.
            await websocket.send_denial_response(refused(draining()))
            return None
        try:
            if kind == "person":
                identity = await self.identified(websocket)
            else:
                # No page has anything to say here, signed in or not.
                identity = await self.authorizer.authenticate(websocket.headers.get("authorization"))
            if identity.kind != kind:
                raise Unauthenticated(f"This endpoint is for a {kind}; the token is of the kind {identity.kind}.")
            is_known(websocket, identity.token_hash)
            self.sockets.check_room(identity)
        except OrchestratorError as error:
            if kind == "computer" and isinstance(error, Unauthenticated) and await self.shown_the_way(websocket):
                return None
            await self._noted(websocket, error)
            if kind == "computer":
                await self.turned_away(websocket, error)
            await websocket.send_denial_response(JSONResponse(error_form(error), status_code=error.http_status))
            return None
        return identity
