"""Server-sent events: all items of one task with notifications between them, and changes for a page.

Theory. An item has an id (its version) and is never left out: the journal is read no faster than the
reader takes it. A notification has no id, is told to the listeners of that moment, and is dropped, oldest
first, when the reader is slow. Both leave in the order in which they came.
"""

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.engine.tasks import TaskService
from orchestrator.web.bodies import offered
from orchestrator.web.errors import error_form, part_without_secrets, without_secrets
from orchestrator.web.sockets import StarletteSocket, accepted

# -- Server-sent events of one task: every item of its journal, and between them notifications of what is being written

logger = logging.getLogger(__name__)

HINTS: Final = frozenset({"model_text", "explanation", "message", "output"})
"""The kinds of notifications that are passed on."""
KEEP_ALIVE_S: Final = 15.0
"""A comment this often keeps proxies from hanging up; the usual limit is 60 s."""
MAX_HINTS: Final = 256
MAX_HINT_BYTES: Final = 1024 * 1024
"""The most bytes that wait for one slow reader."""
_MAX_ITEMS: Final = 16
"""Items read ahead of the reader."""


@dataclass(frozen=True)
class _Event:
    data: bytes
    hint: bool


@dataclass
class Feed:
    """The events that one reader has not yet taken."""

    _events: deque[_Event] = field(default_factory=deque)
    _hints: int = 0
    _hint_bytes: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _room: asyncio.Event = field(default_factory=asyncio.Event)
    _over: bool = False

    def hint(self, payload: Mapping[str, Any]) -> None:
        """Take a notification from the bus; the oldest make room for it."""
        kind = payload.get("kind")
        if kind not in HINTS or self._over:
            return
        data = json.dumps(part_without_secrets({key: value for key, value in payload.items() if key != "kind"}))
        self._put(_Event(f"event: {kind}\ndata: {data}\n\n".encode(), hint=True))
        while self._hints > MAX_HINTS or self._hint_bytes > MAX_HINT_BYTES:
            self._drop_oldest()

    async def item(self, item: AgentTaskItem) -> None:
        """Take an item, once the reader has room for it."""
        while len(self._events) - self._hints >= _MAX_ITEMS:
            self._room.clear()
            await self._room.wait()
        form = item.model_dump(mode="json", by_alias=True)
        form["fact"] = await without_secrets(form["fact"])
        data = json.dumps(form, ensure_ascii=False)
        self._put(_Event(f"id: {item.version}\nevent: {item.fact.kind}\ndata: {data}\n\n".encode(), hint=False))

    def end(self) -> None:
        """Nothing more comes; the events that are here are still given out."""
        self._over = True
        self._changed.set()

    async def next(self, wait_s: float) -> bytes | None:
        """The next event; a comment when none came in ``wait_s`` seconds, None when it is over."""
        if not self._events and not self._over:
            self._changed.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                return b": still here\n\n"
        if not self._events:
            return None
        event = self._events.popleft()
        self._count(event, -1)
        self._room.set()
        return event.data

    def _put(self, event: _Event) -> None:
        self._events.append(event)
        self._count(event, 1)
        self._changed.set()

    def _count(self, event: _Event, change: int) -> None:
        if event.hint:
            self._hints += change
            self._hint_bytes += change * len(event.data)

    def _drop_oldest(self) -> None:
        oldest = next(one for one in self._events if one.hint)
        self._events.remove(oldest)
        self._count(oldest, -1)


async def follow(
    service: TaskService, task_id: TaskId, after: int, *, hints: bool, closing: asyncio.Event
) -> AsyncGenerator[bytes, None]:
    """The task's events after a version until it has ended, or the orchestrator closes."""
    feed = Feed()
    parts = [asyncio.create_task(_read(service, task_id, after, feed)), asyncio.create_task(_close(feed, closing))]
    unsubscribe = service.bus.subscribe(f"stream.{task_id}", feed.hint) if hints else _nothing
    try:
        yield b": watching\n\n"
        while (event := await feed.next(KEEP_ALIVE_S)) is not None:
            yield event
    finally:
        unsubscribe()
        for part in parts:
            part.cancel()
        for result in await asyncio.gather(*parts, return_exceptions=True):
            if isinstance(result, OrchestratorError):
                # Such as a store that is away: the follower asks again, and is told at the endpoint.
                logger.warning("the events of task %s ended too early: %s", task_id, result, extra={"task_id": task_id})
            elif isinstance(result, Exception):
                logger.error(
                    "the events of task %s ended too early", task_id, exc_info=result, extra={"task_id": task_id}
                )


async def _read(service: TaskService, task_id: TaskId, after: int, feed: Feed) -> None:
    watching = cast("AsyncGenerator[AgentTaskItem, None]", service.watch(task_id, after))
    try:
        async with contextlib.aclosing(watching):
            async for item in watching:
                await feed.item(item)
    finally:
        feed.end()


async def _close(feed: Feed, closing: asyncio.Event) -> None:
    await closing.wait()
    feed.end()


def _nothing() -> None:
    """Ends a subscription that was never made."""


class EventStream(StreamingResponse):
    """A stream whose source is closed with it, also when the reader goes away in the middle."""

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self.events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it all; a client that asks for its head alone is not watched."""
        async with contextlib.aclosing(self.events):
            if scope["method"] == "HEAD":
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await send({"type": "http.response.body"})
            else:
                await super().__call__(scope, receive, send)


# -- The streams of events over a WebSocket, for pages -----------------------------------
#
# Theory. A browser opens only six connections to a server for all of its windows together, and a stream holds one of
# them for as long as somebody looks; sockets are not counted among them. So each endpoint that tells events takes a
# WebSocket, too. It sends the same as for ``text/event-stream``, whole events and comments, one in each frame. A page
# is told nothing of a handshake that was refused; a refusal to a person with a token is therefore told in a frame.

EVENTS_SUBPROTOCOL: Final = "cc-orchestrator.events.v1"
_NOT_IN: Final = frozenset({401, 403})


Endpoint = Callable[[HTTPConnection], Awaitable[EventStream]]
"""An endpoint that answers with events. Raises OrchestratorError."""
Note = Callable[[WebSocket, OrchestratorError], Awaitable[None]]
"""Writes a refusal down."""


def over_socket(endpoint: Endpoint, note: Note) -> Callable[[WebSocket], Awaitable[None]]:
    """The same endpoint for a WebSocket."""

    async def serve(websocket: WebSocket) -> None:
        try:
            stream = await endpoint(websocket)
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
    """A stream ignores all that a reader sends, except that the reader is gone."""
    while await socket.receive() is not None:
        pass
