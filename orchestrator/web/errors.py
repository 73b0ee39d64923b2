"""Every error of the endpoints in one form: the fault, and the next step."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.redact import redact
from orchestrator.runtime.logs import SALT
from orchestrator.web.answers.base import Error, Problem

# -- What the endpoints of a node say that is about to stop ------------------------------


class NodeDraining(OrchestratorError):
    """This node is about to stop, and takes nobody in any more."""

    code = "draining"
    http_status = 503


AGAIN_S: Final = 1
"""When to come again: a load balancer has looked by then, or the next start is not far."""


def draining() -> NodeDraining:
    """The answer for health checks and new sockets."""
    return NodeDraining(
        "This node is about to stop.", remedy=f"Connect again in {AGAIN_S} s: another node, or the next start, answers."
    )


# -- Every error of the endpoints in one form: what happened, and what to do next ------------

logger = logging.getLogger(__name__)

_NEXT: Final[Mapping[int, str]] = {
    401: "Send a token that is good here: Authorization: Bearer TOKEN.",
    403: "Ask a person who has the right, or ask an admin for the role.",
    404: "Look at the id: `cc-orchestrator tasks` and GET /v1/tasks list the tasks.",
    409: "Look at it as it is now, then decide again: `cc-orchestrator tasks` lists the tasks.",
    422: "Fix the request and send it again; docs/protocol.md lists the fields.",
    429: "Wait a minute, then try again.",
    502: "Look at the orchestrator's log, then try again.",
    503: "Try again in a moment.",
}
"""The remedy where an error itself has none, by its HTTP status."""
_REPORT: Final = "Look at the orchestrator's log, and report it with the lines of the log."


def problem(error: OrchestratorError) -> Problem:
    remedy = error.remedy or _NEXT.get(error.http_status, _REPORT)
    # Not validated: an error is told whatever its message is.
    return Problem.model_construct(code=error.code, message=error.message, remedy=remedy, details=error.details)


def error_form(error: OrchestratorError) -> dict[str, Any]:
    return Error(error=problem(error)).model_dump(mode="json")


async def explained(request: Request, error: OrchestratorError) -> Response:
    del request
    return refused(error)


def refused(error: OrchestratorError) -> JSONResponse:
    """An error as an answer to a request, or to a handshake."""
    headers = {"WWW-Authenticate": "Bearer"} if error.http_status == 401 else None
    if isinstance(error, NodeDraining):
        headers = {"Retry-After": str(AGAIN_S)}
    return JSONResponse(error_form(error), status_code=error.http_status, headers=headers)


async def http_error(request: Request, error: HTTPException) -> Response:
    codes = {404: "not_found", 405: "method_not_allowed"}
    content = {
        "error": {
            "code": codes.get(error.status_code, "http"),
            "message": f"{request.method} {request.url.path}: {error.detail}.",
            "remedy": "docs/protocol.md lists the endpoints.",
        }
    }
    return JSONResponse(content, status_code=error.status_code, headers=error.headers)


async def nobody_there(request: Request, error: ClientDisconnect) -> Response:
    del request, error
    return Response(status_code=400)


async def defect(request: Request, error: Exception) -> Response:
    extra = {"task_id": request.path_params.get("task_id")}
    logger.error("a defect at %s %s", request.method, request.url.path, exc_info=error, extra=extra)
    message = "The orchestrator met a defect; its log has the trace."
    content = {"code": "internal", "message": message, "remedy": _REPORT}
    return JSONResponse({"error": content}, status_code=500)


# -- What every answer forbids of itself, whichever endpoint gave it, errors and what no endpoint answers too
#
# Theory. An answer of the endpoints is data. A browser that is led to one, or made to take it for a page, a script, a
# picture or a frame, finds that it may be none of these, and keeps nothing of it. An endpoint that says one of these
# headers itself is right: the page is a page.

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # A person who goes back after signing out, or who has the cache of another person, sees nothing.
    "Cache-Control": "no-store",
}
_STARTS: Final = frozenset({"http.response.start", "websocket.http.response.start"})


class Forbidding:
    """An application whose answers have these headers.

    ``leaving``: whether each answer is to be the last of its connection, so that a load balancer takes the next
    request elsewhere.
    """

    def __init__(self, app: ASGIApp, leaving: Callable[[], bool]) -> None:
        self._app = app
        self._leaving = leaving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""

        async def sending(message: Message) -> None:
            if message["type"] in _STARTS:
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if message["type"] == "http.response.start" and self._leaving():
                    headers["Connection"] = "close"
            await send(message)

        await self._app(scope, receive, sending)


# -- What leaves the endpoints leaves without secrets: the journal keeps them, since what runs needs them (promise
# V4)

_AT_ONCE: Final = 20_000
"""Characters that are looked through on the event loop: a few milliseconds at the worst."""
_Answer = TypeVar("_Answer", bound=BaseModel)


def part_without_secrets(value: Any) -> Any:
    """A small part of what is being written, as JSON; a secret that is cut by its end is not seen."""
    return redact(value, salt=SALT)


async def without_secrets(value: Any) -> Any:
    """JSON without its secrets; a long one is looked through away from the event loop."""
    if len(json.dumps(value)) < _AT_ONCE:
        return redact(value, salt=SALT)
    return await asyncio.to_thread(redact, value, salt=SALT)


async def redacted(answer: _Answer) -> _Answer:
    """An answer without its secrets."""
    told = answer.model_dump(mode="json", by_alias=True)
    shown = await without_secrets(told)
    return answer if shown == told else type(answer).model_validate(shown)
