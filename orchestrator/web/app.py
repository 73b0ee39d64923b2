"""REST, events and sockets as one Starlette application; every error is explained in one form."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from orchestrator.core.approval import HitlResponse, ResumeRequest
from orchestrator.core.errors import InvalidRequest, NotPending, OrchestratorError, Unauthenticated
from orchestrator.core.facts import OnReject, QuestionId, RequestId, TaskId
from orchestrator.core.response import FinalResult
from orchestrator.core.task import AgentTask, Phase, TaskStatus
from orchestrator.core.wire import COMPUTER_SUBPROTOCOL, REVIEWER_SUBPROTOCOL, ComputerId
from orchestrator.ports import Computers, Identity, TaskRow
from orchestrator.tasks import TaskService, hitl_response
from orchestrator.web.auth import TokenAuthorizer, issue_token, must_have
from orchestrator.web.reviewer import serve_reviewer

logger = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 1024 * 1024
"""A task's prompt or a decision is far smaller; what is larger is refused unread."""
_KEEP_ALIVE_S = 15.0
"""Proxies cut streams that are silent for a minute."""


class ComputerDoor(Computers, Protocol):
    """The hub, as the socket route needs it."""

    async def serve(self, computer: ComputerId, socket: "StarletteSocket") -> None:
        """Serve one connection until it is over."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SubmitBody(_Body):
    """A new task."""

    prompt: str = Field(min_length=1, max_length=100_000)
    computers: tuple[str, ...] = ()
    session_id: str = Field(default="", max_length=100)
    model: str = Field(default="", max_length=200)
    max_steps: int = Field(default=20, ge=1, le=1000)
    priority: int = Field(default=0, ge=-100, le=100)
    on_reject: OnReject = "cancel"


class CancelBody(_Body):
    """Why a task is canceled."""

    reason: str = Field(default="", max_length=2000)


class AnswerBody(_Body):
    """An answer to a question."""

    question_id: QuestionId
    answer: str = Field(max_length=20_000)


class QuickDecision(_Body):
    """What may come with ``/v1/approve`` and ``/v1/reject``; all of it may be left out."""

    reason: str = Field(default="", max_length=2000)
    on_reject: OnReject | None = None
    expected_digest: str | None = None
    idempotency_key: str = Field(default="", max_length=200)


class TokenBody(_Body):
    """A token for a person or a computer."""

    kind: str = Field(pattern="^(person|computer)$")
    name: str
    roles: tuple[str, ...] = ()


_T = TypeVar("_T", bound=BaseModel)


class Doors:
    """The handlers of one orchestrator."""

    def __init__(
        self,
        *,
        service: TaskService,
        authorizer: TokenAuthorizer,
        computers: ComputerDoor,
        default_model: str,
    ) -> None:
        self.service = service
        self.authorizer = authorizer
        self.computers = computers
        self.default_model = default_model

    def app(self) -> Starlette:
        """The application."""
        errors: Mapping[Any, Any] = {
            OrchestratorError: _explained,
            HTTPException: _http_error,
            ClientDisconnect: _nobody_there,
            Exception: _defect,
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
        body = await _body(request, SubmitBody)
        unknown = [one for one in body.computers if not await self._known_computer(one)]
        if unknown:
            raise InvalidRequest(
                f"There is no computer {unknown[0]!r}.",
                remedy="List them with GET /v1/computers, or add a token for it.",
            )
        task = await self.service.submit(
            body.prompt,
            user=identity,
            computers=[ComputerId(one) for one in body.computers],
            model=body.model or self.default_model,
            max_steps=body.max_steps,
            priority=body.priority,
            session_id=body.session_id,
            on_reject=body.on_reject,
        )
        return JSONResponse(_short(task), status_code=201)

    async def tasks(self, request: Request) -> Response:
        """``GET /v1/tasks?status=&limit=``."""
        await self._who(request)
        status = request.query_params.get("status")
        if status is not None and status not in set(TaskStatus):
            raise InvalidRequest(f"There is no status {status!r}.", remedy=f"One of {', '.join(TaskStatus)}.")
        limit = _number(request, "limit", 100, 1, 1000)
        rows = await self.service.list_tasks(status=TaskStatus(status) if status else None, limit=int(limit))
        return JSONResponse({"tasks": [_row(row) for row in rows]})

    async def task(self, request: Request) -> Response:
        """``GET /v1/tasks/{id}``."""
        await self._who(request)
        return JSONResponse(_long(await self.service.load(_task_id(request))))

    async def events(self, request: Request) -> Response:
        """``GET /v1/tasks/{id}/events``: SSE, one item an event, its version the id."""
        await self._who(request)
        task = await self.service.load(_task_id(request))
        last = request.headers.get("last-event-id", request.query_params.get("after", "0"))
        after = int(last) if last.isdigit() else 0
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
        body = await _body(request, CancelBody)
        return JSONResponse(_short(await self.service.cancel(_task_id(request), identity, body.reason)))

    async def answer(self, request: Request) -> Response:
        """``POST /v1/tasks/{id}/answer``."""
        identity = await self._who(request)
        body = await _body(request, AnswerBody)
        task = await self.service.answer(_task_id(request), body.question_id, body.answer, identity)
        return JSONResponse(_short(task))

    # -- decisions -----------------------------------------------------------------------

    async def requests(self, request: Request) -> Response:
        """``GET /v1/requests``: what waits for a person."""
        await self._who(request)
        pending = await self.service.pending()
        return JSONResponse({"requests": [one.model_dump(mode="json") for one in pending]})

    async def request(self, request: Request) -> Response:
        """``GET /v1/requests/{id}``; 409 once it is closed."""
        await self._who(request)
        request_id = _request_id(request)
        task = await self.service.for_request(request_id)
        if task.request is None or task.request.request_id != request_id:
            raise NotPending("The request is no longer open.", remedy=f"Look at task {task.task_id}.")
        return JSONResponse(hitl_response(task).model_dump(mode="json"))

    async def resume(self, request: Request) -> Response:
        """``POST /v1/resume/{request_id}``."""
        identity = await self._who(request)
        return await self._decide(request, identity, await _body(request, ResumeRequest))

    async def approve(self, request: Request) -> Response:
        """``POST /v1/approve/{request_id}``."""
        return await self._quick(request, "approve")

    async def reject(self, request: Request) -> Response:
        """``POST /v1/reject/{request_id}``."""
        return await self._quick(request, "reject")

    async def _quick(self, request: Request, action: str) -> Response:
        identity = await self._who(request)
        quick = await _body(request, QuickDecision)
        resume = ResumeRequest.model_validate({"action": action, **quick.model_dump()})
        return await self._decide(request, identity, resume)

    async def _decide(self, request: Request, identity: Identity, resume: ResumeRequest) -> Response:
        request_id = _request_id(request)
        wait_s = _number(request, "wait_s", 0.0, 0.0, 60.0)
        key = request.headers.get("idempotency-key", "")[:200]
        if key and not resume.idempotency_key:
            resume = resume.model_copy(update={"idempotency_key": key})
        decided = await self.service.decide(request_id, resume, identity)
        if not any(one == "approve" for one in _actions(resume)) or (decided.repeated and not wait_s):
            return JSONResponse(_short(decided.task))
        if not wait_s:
            return JSONResponse(_short(decided.task), status_code=202)
        task = await self.service.until_settled(decided.task.task_id, wait_s, past=request_id)
        return JSONResponse(_outcome(task), status_code=200 if task.phase is Phase.ENDED or task.request else 202)

    # -- computers and tokens ------------------------------------------------------------

    async def list_computers(self, request: Request) -> Response:
        """``GET /v1/computers``: all that have a token, connected or not."""
        await self._who(request)
        rows = await self.service.store.list_tokens()
        names = sorted({row.name for row in rows if row.kind == "computer" and not row.revoked})
        return JSONResponse({"computers": [_computer(self.computers, name) for name in names]})

    async def add_token(self, request: Request) -> Response:
        """``POST /v1/tokens``: shown once, kept as a hash."""
        must_have(await self._who(request), "admin")
        body = await _body(request, TokenBody)
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
        return JSONResponse({"revoked": count})

    # -- sockets -------------------------------------------------------------------------

    async def computer_socket(self, websocket: WebSocket) -> None:
        """``/computer``: 401 at the handshake without a computer's token."""
        identity = await self._socket_identity(websocket, "computer")
        if identity is not None:
            await websocket.accept(_offered(websocket, COMPUTER_SUBPROTOCOL))
            await self.computers.serve(ComputerId(identity.name), StarletteSocket(websocket))

    async def reviewer_socket(self, websocket: WebSocket) -> None:
        """``/reviewer``: 401 at the handshake without a person's token."""
        identity = await self._socket_identity(websocket, "person")
        if identity is not None:
            await websocket.accept(_offered(websocket, REVIEWER_SUBPROTOCOL))
            await serve_reviewer(self.service, identity, StarletteSocket(websocket))

    async def _socket_identity(self, websocket: WebSocket, kind: str) -> Identity | None:
        try:
            identity = await self.authorizer.authenticate(websocket.headers.get("authorization"))
            if identity.kind != kind:
                raise Unauthenticated(f"This door is for a {kind}; the token is a {identity.kind}'s.")
        except OrchestratorError as error:
            await websocket.send_denial_response(JSONResponse(_error(error), status_code=error.http_status))
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


class StarletteSocket:
    """A Starlette WebSocket as the hub and the reviewers' door take it."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._closed = False

    async def receive(self) -> bytes | str | None:
        """The next frame; None when the connection is over."""
        message = await self._websocket.receive()
        if message["type"] != "websocket.receive":
            self._closed = True
            return None
        data: bytes | None = message.get("bytes")
        text: str | None = message.get("text")
        return data if data is not None else text

    async def send(self, frame: bytes | str) -> None:
        """Write one frame. Raises OSError when the connection is over."""
        try:
            if isinstance(frame, bytes):
                await self._websocket.send_bytes(frame)
            else:
                await self._websocket.send_text(frame)
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ConnectionError(str(error) or "the connection is over") from error

    async def close(self, code: int, reason: str) -> None:
        """Close; closing twice is harmless."""
        if not self._closed:
            self._closed = True
            with suppress(RuntimeError, WebSocketDisconnect, OSError):
                await self._websocket.close(code, reason)


# -- forms -------------------------------------------------------------------------------


def _error(error: OrchestratorError) -> dict[str, Any]:
    return {"error": {"code": error.code, "message": error.message, "remedy": error.remedy}}


async def _explained(request: Request, error: OrchestratorError) -> Response:
    del request
    headers = {"WWW-Authenticate": "Bearer"} if error.http_status == 401 else None
    return JSONResponse(_error(error), status_code=error.http_status, headers=headers)


async def _http_error(request: Request, error: HTTPException) -> Response:
    codes = {404: "not_found", 405: "method_not_allowed"}
    content = {
        "error": {
            "code": codes.get(error.status_code, "http"),
            "message": f"{request.method} {request.url.path}: {error.detail}.",
            "remedy": "docs/protocol.md lists the doors.",
        }
    }
    return JSONResponse(content, status_code=error.status_code, headers=error.headers)


async def _nobody_there(request: Request, error: ClientDisconnect) -> Response:
    del request, error
    return Response(status_code=400)


async def _defect(request: Request, error: Exception) -> Response:
    logger.error("a defect at %s %s", request.method, request.url.path, exc_info=error)
    content = {"code": "internal", "message": "The orchestrator met a defect; its log has the trace.", "remedy": ""}
    return JSONResponse({"error": content}, status_code=500)


async def _body(request: Request, model: type[_T]) -> _T:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > MAX_REQUEST_BYTES:
            raise InvalidRequest(f"The body has more than {MAX_REQUEST_BYTES} bytes.")
    try:
        return model.model_validate_json(bytes(raw) or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(f"The body does not fit: {where + ': ' if where else ''}{first['msg']}.") from None


def _number(request: Request, name: str, default: float, low: float, high: float) -> float:
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise InvalidRequest(f"{name} is a number from {low:g} to {high:g}, not {text[:40]!r}.")
    return value


def _actions(resume: ResumeRequest) -> list[str]:
    if resume.decisions is not None:
        return [one.action for one in resume.decisions]
    return [resume.action or ""]


def _task_id(request: Request) -> TaskId:
    return TaskId(request.path_params["task_id"])


def _request_id(request: Request) -> RequestId:
    return RequestId(request.path_params["request_id"])


def _offered(websocket: WebSocket, subprotocol: str) -> str | None:
    return subprotocol if subprotocol in websocket.scope.get("subprotocols", []) else None


def _short(task: AgentTask) -> dict[str, Any]:
    return {"task_id": task.task_id, "status": task.status.value}


def _row(row: TaskRow) -> dict[str, Any]:
    return {
        "task_id": row.task_id,
        "status": row.status.value,
        "user_id": row.user_id,
        "session_id": row.session_id,
        "prompt": row.prompt,
        "computers": list(row.computers),
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }


def _long(task: AgentTask) -> dict[str, Any]:
    question = next((one for one in task.calls if one.question_id and one.state == "asking"), None)
    return {
        **_short(task),
        "status_reason": task.status_reason,
        "phase": task.phase.value,
        "version": task.version,
        "prompt": task.prompt,
        "user_id": task.user_id,
        "session_id": task.session_id,
        "computers": list(task.computers),
        "model": task.model,
        "steps": task.steps,
        "max_steps": task.max_steps,
        "request": hitl_response(task).model_dump(mode="json") if task.request else None,
        "question": {"question_id": question.question_id, "question": question.call.args.get("question")}
        if question
        else None,
        "result": _final(task) if task.ended else None,
    }


def _final(task: AgentTask) -> dict[str, Any]:
    ended = task.ended
    if ended is None:
        return {}
    success = ended.status == "Completed"
    final = FinalResult(explanation=ended.explanation, success=success, message=ended.message, details=ended.details)
    return final.model_dump(mode="json")


def _outcome(task: AgentTask) -> dict[str, Any]:
    if task.ended is not None:
        return {**_short(task), **_final(task)}
    if task.request is not None:
        response: HitlResponse = hitl_response(task)
        return {**response.model_dump(mode="json"), "status": task.status.value}
    return _short(task)


def _computer(computers: Computers, name: str) -> dict[str, Any]:
    info = computers.info(ComputerId(name))
    if info is None:
        return {"computer": name, "online": False}
    return {
        "computer": name,
        "online": info.online,
        "label": info.label,
        "host": info.host,
        "family": info.family,
        "computer_id": info.computer_id,
    }
