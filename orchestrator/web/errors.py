"""Every error of the doors in one form: what happened, and what to do next."""

import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from orchestrator.core.errors import OrchestratorError

logger = logging.getLogger(__name__)


def error_form(error: OrchestratorError) -> dict[str, Any]:
    return {"error": {"code": error.code, "message": error.message, "remedy": error.remedy}}


async def explained(request: Request, error: OrchestratorError) -> Response:
    del request
    headers = {"WWW-Authenticate": "Bearer"} if error.http_status == 401 else None
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
    logger.error("a defect at %s %s", request.method, request.url.path, exc_info=error)
    content = {"code": "internal", "message": "The orchestrator met a defect; its log has the trace.", "remedy": ""}
    return JSONResponse({"error": content}, status_code=500)
