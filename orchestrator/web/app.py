"""REST, events and sockets as one Starlette application; every error is explained in one form."""

import asyncio
import contextlib
import logging
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from orchestrator.core.approval import ResumeRequest
from orchestrator.core.errors import InvalidRequest, NotPending, OrchestratorError, Unauthenticated
from orchestrator.core.task import AgentTask, Phase, TaskStatus
from orchestrator.core.wire import COMPUTER_SUBPROTOCOL, REVIEWER_SUBPROTOCOL, ComputerId
from orchestrator.ports import Computers, Identity
from orchestrator.tasks import TaskService, hitl_response
from orchestrator.web.auth import TokenAuthorizer, issue_token, must_have
from orchestrator.web.errors import defect, error_form, explained, http_error, nobody_there
from orchestrator.web.forms import (
    AnswerBody,
    CancelBody,
    QuickDecision,
    SubmitBody,
    TokenBody,
    computer_form,
    long_form,
    outcome_form,
    row_form,
    short_form,
)
from orchestrator.web.reading import actions, offered, read_body, read_number, request_id_of, task_id_of
from orchestrator.web.reviewer import serve_reviewer
from orchestrator.web.sockets import StarletteSocket

logger = logging.getLogger(__name__)


_VERSION = re.compile("[0-9]{1,12}")
"""What a client may have seen last; anything else counts as nothing seen."""


class ComputerDoor(Computers, Protocol):
    """The hub, as the socket route needs it."""

    async def serve(self, computer: ComputerId, socket: StarletteSocket) -> None:
        """Serve one connection until it is over."""


class Doors:
    """The handlers of one orchestrator."""

    def __init__(
        self,
        *,
        service: TaskService,
        authorizer: TokenAuthorizer,
        computers: ComputerDoor,
        default_model: str,
        check_model: Callable[[str], object],
    ) -> None:
        self.service = service
        self.authorizer = authorizer
        self.computers = computers
        self.default_model = default_model
        self.check_model = check_model
        """Raises InvalidRequest for a model that cannot be used."""
        self._sockets: defaultdict[tuple[str, str], set[StarletteSocket]] = defaultdict(set)
        """The open sockets by kind and name of whom they belong to."""

    def app(self) -> Starlette:
        """The application."""
        errors: Mapping[Any, Any] = {
            OrchestratorError: explained,
            HTTPException: http_error,
            ClientDisconnect: nobody_there,
            Exception: defect,
        }
        return Starlette(routes=self._routes(), exception_handlers=errors)

    def _routes(self) -> list[BaseRoute]:
        get, post, delete = ["GET"], ["POST"], ["DELETE"]
        return [
            Route("/healthz", self.healthz, methods=get),
            Route("/v1/tasks", self.submit, methods=post),
            Route("/v1/tasks", self.tasks, methods=get),
            Route("/v1/tasks/{task_id}", self.task, methods=get),
            Route("/v1/tasks/{task_id}/events", self.events, methods=get),
            Route("/v1/tasks/{task_id}/cancel", self.cancel, methods=post),
            Route("/v1/tasks/{task_id}/answer", self.answer, methods=post),
            Route("/v1/requests", self.requests, methods=get),
            Route("/v1/requests/{request_id}", self.request, methods=get),
            Route("/v1/resume/{request_id}", self.resume, methods=post),
            Route("/v1/approve/{request_id}", self.approve, methods=post),
            Route("/v1/reject/{request_id}", self.reject, methods=post),
            Route("/v1/computers", self.list_computers, methods=get),
            Route("/v1/tokens", self.add_token, methods=post),
            Route("/v1/tokens", self.tokens, methods=get),
            Route("/v1/tokens/{kind}/{name}", self.revoke, methods=delete),
            WebSocketRoute("/computer", self.computer_socket),
            WebSocketRoute("/reviewer", self.reviewer_socket),
        ]

    # -- tasks ---------------------------------------------------------------------------

    async def healthz(self, request: Request) -> Response:
        """Whether the orchestrator is up and its store answers."""
        del request
        await self.service.list_tasks(limit=1)
        return JSONResponse({"status": "ok"})

    async def submit(self, request: Request) -> Response:
        """``POST /v1/tasks``."""
        identity = await self._who(request)
        must_have(identity, "submitter")
        body = await read_body(request, SubmitBody)
        unknown = [one for one in body.computers if not await self._known_computer(one)]
        if unknown:
            raise InvalidRequest(
                f"There is no computer {unknown[0]!r}.",
                remedy="List them with GET /v1/computers, or add a token for it.",
            )
        model = body.model or self.default_model
        await asyncio.to_thread(self.check_model, model)
        task = await self.service.submit(
            body.prompt,
            user=identity,
            computers=[ComputerId(one) for one in dict.fromkeys(body.computers)],
            model=model,
            max_steps=body.max_steps,
            priority=body.priority,
            session_id=body.session_id,
            on_reject=body.on_reject,
        )
        return JSONResponse(short_form(task), status_code=201)

    async def tasks(self, request: Request) -> Response:
        """``GET /v1/tasks?status=&limit=``."""
        await self._who(request)
        status = request.query_params.get("status")
        if status is not None and status not in set(TaskStatus):
            raise InvalidRequest(f"There is no status {status!r}.", remedy=f"One of {', '.join(TaskStatus)}.")
        limit = read_number(request, "limit", 100, 1, 1000)
        rows = await self.service.list_tasks(status=TaskStatus(status) if status else None, limit=int(limit))
        return JSONResponse({"tasks": [row_form(row) for row in rows]})

    async def task(self, request: Request) -> Response:
        """``GET /v1/tasks/{id}``."""
        await self._who(request)
        return JSONResponse(long_form(await self.service.load(task_id_of(request))))

    async def events(self, request: Request) -> Response:
        """``GET /v1/tasks/{id}/events``: SSE, one item an event, its version the id."""
        await self._who(request)
        task = await self.service.load(task_id_of(request))
        last = request.headers.get("last-event-id", request.query_params.get("after", "0"))
        after = int(last) if _VERSION.fullmatch(last) else 0
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._stream(task, after), media_type="text/event-stream", headers=headers)

    async def _stream(self, task: AgentTask, after: int) -> AsyncIterator[bytes]:
        yield b": watching\n\n"
        async for item in self.service.watch(task.task_id, after):
            data = item.model_dump_json(by_alias=True)
            yield f"id: {item.version}\nevent: {item.fact.kind}\ndata: {data}\n\n".encode()

    async def cancel(self, request: Request) -> Response:
        """``POST /v1/tasks/{id}/cancel``."""
        identity = await self._who(request)
        body = await read_body(request, CancelBody)
        return JSONResponse(short_form(await self.service.cancel(task_id_of(request), identity, body.reason)))

    async def answer(self, request: Request) -> Response:
        """``POST /v1/tasks/{id}/answer``."""
        identity = await self._who(request)
        body = await read_body(request, AnswerBody)
        task = await self.service.answer(task_id_of(request), body.question_id, body.answer, identity)
        return JSONResponse(short_form(task))

    # -- decisions -----------------------------------------------------------------------

    async def requests(self, request: Request) -> Response:
        """``GET /v1/requests``: what waits for a person."""
        await self._who(request)
        pending = await self.service.pending()
        return JSONResponse({"requests": [one.model_dump(mode="json") for one in pending]})

    async def request(self, request: Request) -> Response:
        """``GET /v1/requests/{id}``; 409 once it is closed."""
        await self._who(request)
        request_id = request_id_of(request)
        task = await self.service.for_request(request_id)
        if task.request is None or task.request.request_id != request_id:
            raise NotPending("The request is no longer open.", remedy=f"Look at task {task.task_id}.")
        return JSONResponse(hitl_response(task).model_dump(mode="json"))

    async def resume(self, request: Request) -> Response:
        """``POST /v1/resume/{request_id}``."""
        identity = await self._who(request)
        return await self._decide(request, identity, await read_body(request, ResumeRequest))

    async def approve(self, request: Request) -> Response:
        """``POST /v1/approve/{request_id}``."""
        return await self._quick(request, "approve")

    async def reject(self, request: Request) -> Response:
        """``POST /v1/reject/{request_id}``."""
        return await self._quick(request, "reject")

    async def _quick(self, request: Request, action: str) -> Response:
        identity = await self._who(request)
        quick = await read_body(request, QuickDecision)
        resume = ResumeRequest.model_validate({"action": action, **quick.model_dump()})
        return await self._decide(request, identity, resume)

    async def _decide(self, request: Request, identity: Identity, resume: ResumeRequest) -> Response:
        request_id = request_id_of(request)
        wait_s = read_number(request, "wait_s", 0.0, 0.0, 60.0)
        key = request.headers.get("idempotency-key", "")[:200]
        if key and not resume.idempotency_key:
            resume = resume.model_copy(update={"idempotency_key": key})
        decided = await self.service.decide(request_id, resume, identity)
        if not any(one == "approve" for one in actions(resume)) or (decided.repeated and not wait_s):
            return JSONResponse(short_form(decided.task))
        if not wait_s:
            return JSONResponse(short_form(decided.task), status_code=202)
        task = await self.service.until_settled(decided.task.task_id, wait_s, past=request_id)
        return JSONResponse(outcome_form(task), status_code=200 if task.phase is Phase.ENDED or task.request else 202)

    # -- computers and tokens ------------------------------------------------------------

    async def list_computers(self, request: Request) -> Response:
        """``GET /v1/computers``: all that have a token, connected or not."""
        await self._who(request)
        rows = await self.service.store.list_tokens()
        names = sorted({row.name for row in rows if row.kind == "computer" and not row.revoked})
        return JSONResponse({"computers": [computer_form(self.computers, name) for name in names]})

    async def add_token(self, request: Request) -> Response:
        """``POST /v1/tokens``: shown once, kept as a hash."""
        must_have(await self._who(request), "admin")
        body = await read_body(request, TokenBody)
        token = await issue_token(
            self.service.store,
            kind="computer" if body.kind == "computer" else "person",
            name=body.name,
            roles=body.roles,
            at=self.service.clock.now(),
        )
        return JSONResponse({"kind": body.kind, "name": body.name, "token": token}, status_code=201)

    async def tokens(self, request: Request) -> Response:
        """``GET /v1/tokens``: whom there are tokens for, never the tokens."""
        must_have(await self._who(request), "admin")
        rows = await self.service.store.list_tokens()
        shown = [{"kind": r.kind, "name": r.name, "roles": list(r.roles), "revoked": r.revoked} for r in rows]
        return JSONResponse({"tokens": shown})

    async def revoke(self, request: Request) -> Response:
        """``DELETE /v1/tokens/{kind}/{name}``: from now on."""
        must_have(await self._who(request), "admin")
        kind, name = request.path_params["kind"], request.path_params["name"]
        count = await self.service.store.revoke_tokens(kind, name)
        for socket in tuple(self._sockets[kind, name]):
            await socket.close(1008, "the token was revoked")
        return JSONResponse({"revoked": count})

    # -- sockets -------------------------------------------------------------------------

    async def computer_socket(self, websocket: WebSocket) -> None:
        """``/computer``: 401 at the handshake without a computer's token."""
        identity = await self._socket_identity(websocket, "computer")
        if identity is not None:
            await websocket.accept(offered(websocket, COMPUTER_SUBPROTOCOL))
            with self._open(identity, websocket) as socket:
                await self.computers.serve(ComputerId(identity.name), socket)

    async def reviewer_socket(self, websocket: WebSocket) -> None:
        """``/reviewer``: 401 at the handshake without a person's token."""
        identity = await self._socket_identity(websocket, "person")
        if identity is not None:
            await websocket.accept(offered(websocket, REVIEWER_SUBPROTOCOL))
            with self._open(identity, websocket) as socket:
                await serve_reviewer(self.service, identity, socket)

    @contextlib.contextmanager
    def _open(self, identity: Identity, websocket: WebSocket) -> Iterator[StarletteSocket]:
        """An accepted socket, known by its holder while it is open: a revoked token ends it too."""
        socket, holder = StarletteSocket(websocket), (identity.kind, identity.name)
        self._sockets[holder].add(socket)
        try:
            yield socket
        finally:
            self._sockets[holder].discard(socket)

    async def _socket_identity(self, websocket: WebSocket, kind: str) -> Identity | None:
        try:
            identity = await self.authorizer.authenticate(websocket.headers.get("authorization"))
            if identity.kind != kind:
                raise Unauthenticated(f"This door is for a {kind}; the token is a {identity.kind}'s.")
        except OrchestratorError as error:
            await websocket.send_denial_response(JSONResponse(error_form(error), status_code=error.http_status))
            return None
        return identity

    async def _who(self, request: Request) -> Identity:
        identity = await self.authorizer.authenticate(request.headers.get("authorization"))
        if identity.kind != "person":
            raise Unauthenticated("This door is for people; the token is a computer's.")
        return identity

    async def _known_computer(self, name: str) -> bool:
        rows = await self.service.store.list_tokens()
        return any(row.kind == "computer" and row.name == name and not row.revoked for row in rows)
