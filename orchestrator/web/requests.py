"""Reading requests: bodies within their limit, numbers within their range, ids from the path."""

import re
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import HTTPConnection, Request
from starlette.websockets import WebSocket

from orchestrator.core.approval.approval import ResumeRequest
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.model_view.messages import plain
from orchestrator.core.reply.strict_json import doubled_key
from orchestrator.core.task.facts import RequestId, TaskId

MAX_REQUEST_BYTES = 1024 * 1024
"""A task's prompt or a decision is far smaller; what is larger is refused unread."""

MAX_OPEN_BYTES: Final = 8 * 1024
"""The same at a door that is open to anybody: nobody without a token keeps more of this host's memory."""

MAX_KEY_CHARS: Final = 200
"""Of an idempotency key, as in a body."""

_WHOLE: Final = re.compile("[0-9]{1,15}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?")

_T = TypeVar("_T", bound=BaseModel)


async def read_body(request: Request, model: type[_T], most: int = MAX_REQUEST_BYTES) -> _T:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > most:
            raise InvalidRequest(f"The body has more than {most} bytes.")
    sent = bytes(raw) or b"{}"
    try:
        body = model.model_validate_json(sent)
    except ValidationError as error:
        raise InvalidRequest(
            f"The request does not fit: {plain(error, 'the body')}.", remedy="docs/protocol.md lists the fields."
        ) from None
    if (key := doubled_key(sent)) is not None:
        raise InvalidRequest(f"The body has the key {key[:100]!r} twice.", remedy="Send each key once.")
    return body


def read_number(request: Request, name: str, default: float, low: float, high: float) -> float:
    """A number of the query, as JSON has them; a whole one where the default is an ``int``. Raises InvalidRequest."""
    text = request.query_params.get(name)
    if text is None:
        return default
    whole = isinstance(default, int)
    readable = (_WHOLE if whole else _NUMBER).fullmatch(text)
    if not readable or not low <= float(text) <= high:
        kind = "whole number" if whole else "number"
        raise InvalidRequest(f"{name} is a {kind} from {low:g} to {high:g}, not {text[:40]!r}.")
    return float(text)


def actions(resume: ResumeRequest) -> list[str]:
    if resume.decisions is not None:
        return [one.action for one in resume.decisions]
    return [resume.action or ""]


def key_of(request: Request, said: str) -> str:
    """The idempotency key of a request: what its body ``said``, else the header's. Raises InvalidRequest."""
    key = request.headers.get("idempotency-key", "")
    if len(key) > MAX_KEY_CHARS:
        raise InvalidRequest(
            f"The header Idempotency-Key has {len(key)} characters, over {MAX_KEY_CHARS}.",
            remedy="Take a shorter key, such as a UUID.",
        )
    return said or key


def task_id_of(request: HTTPConnection) -> TaskId:
    return TaskId(request.path_params["task_id"])


def request_id_of(request: Request) -> RequestId:
    return RequestId(request.path_params["request_id"])


def offered(websocket: WebSocket, subprotocol: str) -> str | None:
    return subprotocol if subprotocol in websocket.scope.get("subprotocols", []) else None
