"""The streams of events over a WebSocket, for pages.

Theory. A browser opens only six connections to a server for all of its windows together, and a stream holds one of
them for as long as somebody looks; sockets are not counted among them. So each door that tells events takes a
WebSocket, too: what it sends is what it would send as ``text/event-stream``, whole events and comments, one in each
frame. A page is told nothing of a handshake that was refused; what is refused to somebody who may come in is
therefore told in a frame.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.websockets import WebSocket

from orchestrator.core.errors import OrchestratorError
from orchestrator.web.errors import error_form
from orchestrator.web.events import EventStream
from orchestrator.web.requests import offered
from orchestrator.web.sockets import StarletteSocket, accepted

EVENTS_SUBPROTOCOL: Final = "cc-orchestrator.events.v1"
_NOT_IN: Final = frozenset({401, 403})

logger = logging.getLogger(__name__)

Door = Callable[[HTTPConnection], Awaitable[EventStream]]
"""What answers with events. Raises OrchestratorError."""
Note = Callable[[WebSocket, OrchestratorError], Awaitable[None]]
"""Writes a refusal down."""


def over_socket(door: Door, note: Note) -> Callable[[WebSocket], Awaitable[None]]:
    """The same door for a WebSocket."""

    async def serve(websocket: WebSocket) -> None:
        try:
            stream = await door(websocket)
        except OrchestratorError as error:
            await note(websocket, error)
            await _refuse(websocket, error)
            return
        async with contextlib.aclosing(stream.events) as events:
            await websocket.accept(offered(websocket, EVENTS_SUBPROTOCOL))
            await _tell(events, accepted(websocket))

    return serve


async def _refuse(websocket: WebSocket, error: OrchestratorError) -> None:
    if error.http_status in _NOT_IN:
        await websocket.send_denial_response(JSONResponse(error_form(error), status_code=error.http_status))
        return
    await websocket.accept(offered(websocket, EVENTS_SUBPROTOCOL))
    socket = accepted(websocket)
    with contextlib.suppress(OSError):
        await socket.send(f"event: refused\ndata: {json.dumps({'status': error.http_status, **error_form(error)})}\n\n")
    await socket.close(1008, error.code)


async def _tell(events: AsyncGenerator[bytes, None], socket: StarletteSocket) -> None:
    """All events, until they end or the reader goes."""
    parts = (asyncio.create_task(_send(events, socket)), asyncio.create_task(_gone(socket)))
    try:
        await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for part in parts:
            part.cancel()
        for result in await asyncio.gather(*parts, return_exceptions=True):
            if isinstance(result, Exception) and not isinstance(result, OSError):
                logger.error("a stream of events met a defect", exc_info=result)
        await socket.close(1000, "")


async def _send(events: AsyncGenerator[bytes, None], socket: StarletteSocket) -> None:
    async for event in events:
        await socket.send(event.decode())


async def _gone(socket: StarletteSocket) -> None:
    """Whatever a reader says is nothing to a stream but that they are gone."""
    while await socket.receive() is not None:
        pass
