"""Every error of the doors in one form: what happened, and what to do next."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from orchestrator.core.errors import OrchestratorError
from orchestrator.web.shutdown import AGAIN_S, NodeDraining

logger = logging.getLogger(__name__)

_NEXT: Final[Mapping[int, str]] = {
    401: "Send a token that is good here: Authorization: Bearer TOKEN.",
    403: "Ask a person who may, or an admin for the role.",
    404: "Look at the id: `cc-orchestrator tasks` and GET /v1/tasks list the tasks.",
    409: "Look at the task as it stands now, then decide anew: `cc-orchestrator tasks show TASK`.",
    422: "Mend the request and send it again; docs/protocol.md lists the fields.",
    429: "Wait a minute, then try again.",
    502: "Look at the orchestrator's log, then try again.",
    503: "Try again in a moment.",
}
"""What to do next where an error itself does not say, by its HTTP status."""
_REPORT: Final = "Look at the orchestrator's log, and report it with what stands there."


def error_form(error: OrchestratorError) -> dict[str, Any]:
    remedy = error.remedy or _NEXT.get(error.http_status, _REPORT)
    details = {"details": error.details} if error.details else {}
    return {"error": {"code": error.code, "message": error.message, "remedy": remedy, **details}}


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
            "remedy": "docs/protocol.md lists the doors.",
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
