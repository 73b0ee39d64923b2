"""Server-sent events: all items of one task with notifications between them, and changes for a page.

Theory. What happens in a task is read, cleaned of secrets and encoded once for all who follow it; a reader costs the
write to their connection. An item has an id (its version) and is never left out: of a reader who is slow, or comes
later, only the version is kept that they know, and what they missed is read for them alone when they want it. A
notification has no id, is told to the listeners of that moment, and is dropped, oldest first, when the reader is slow.
Both leave in the order in which they came. Of many readers each is told several events at once, a moment later.
"""

import asyncio
import contextlib
import json
import logging
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.engine.tasks import TaskService, patiently
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
MAX_ITEMS: Final = 256
MAX_ITEM_BYTES: Final = 1024 * 1024
"""The most that waits for one slow reader: the items after it are read once they are wanted."""
_READ_AT_ONCE: Final = 64
"""Items that were missed and are told together."""
EACH_S: Final = 0.005
"""A reader more, and each of them waits so much longer for what comes: telling takes a small part of the time."""
AT_ONCE_S: Final = 10 * EACH_S
"""Ten readers are told at once."""
APART_S: Final = 1.0
"""No reader waits longer."""


def apart_s(readers: int) -> float:
    """Seconds that so many readers wait for what comes, so that several events are told together; few: none."""
    return max(0.0, min(APART_S, readers * EACH_S - AT_ONCE_S))


@dataclass(frozen=True)
class _Event:
    data: bytes
    hint: bool


class Feed:
    """The events that one reader has not yet taken; ``after``: the version of the last item that they know."""

    def __init__(self, after: int, *, hints: bool) -> None:
        self.after = after
        """The version of the newest item that was put in."""
        self.hints = hints
        """Whether notifications are told."""
        self.missed = False
        """Whether an item came for which there was no room: it and those after it have to be read."""
        self._events: deque[_Event] = deque()
        self._hints = 0
        self._hint_bytes = 0
        self._item_bytes = 0
        self._changed = asyncio.Event()
        self._over = False

    def hint(self, event: bytes) -> None:
        """Take a notification; the oldest make room for it."""
        self._put(_Event(event, hint=True))
        while self._hints > MAX_HINTS or self._hint_bytes > MAX_HINT_BYTES:
            self._drop_oldest()

    def item(self, version: int, event: bytes) -> None:
        """Take an item, unless the reader knows it or has no room for it."""
        if version <= self.after or self.missed:
            return
        is_full = len(self._events) - self._hints >= MAX_ITEMS or self._item_bytes >= MAX_ITEM_BYTES
        if version > self.after + 1 or is_full:
            self.missed = True
            self._changed.set()
        else:
            self.after = version
            self._put(_Event(event, hint=False))

    def end(self, *, at_once: bool = False) -> None:
        """Nothing more comes; the events that are here are still given out, ``at_once``: what was missed is not."""
        self._over = True
        self.missed = self.missed and not at_once
        self._changed.set()

    async def wait(self, wait_s: float) -> bool:
        """Wait until there is something; False: nothing came in ``wait_s`` seconds."""
        if not self._events and not self.missed and not self._over:
            self._changed.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                return False
        return True

    def take(self) -> bytes | None:
        """All that waits; empty: something was missed, None: it is over."""
        events = b"".join([event.data for event in self._events])
        self._events.clear()
        self._hints = self._hint_bytes = self._item_bytes = 0
        return None if self._over and not events and not self.missed else events

    def _put(self, event: _Event) -> None:
        self._events.append(event)
        self._count(event, 1)
        self._changed.set()

    def _count(self, event: _Event, change: int) -> None:
        if event.hint:
            self._hints += change
            self._hint_bytes += change * len(event.data)
        else:
            self._item_bytes += change * len(event.data)

    def _drop_oldest(self) -> None:
        oldest = next(one for one in self._events if one.hint)
        self._events.remove(oldest)
        self._count(oldest, -1)


class _TaskEvents:
    """The events of one task for all who follow it: each is read, cleaned and encoded once."""

    def __init__(self, service: TaskService, task_id: TaskId, version: int) -> None:
        self.feeds: dict[Feed, None] = {}
        self.version = version
        """The newest item that was told."""
        self._service, self._task_id = service, task_id
        self._subject = f"stream.{task_id}"
        self._end_hints: Callable[[], None] | None = None
        self._recent: dict[int, bytes] = {}
        """The events of some items, for those who come later, by version."""
        self._recent_bytes = 0
        self._reading = asyncio.create_task(self._read())

    def add(self, feed: Feed) -> None:
        """Somebody follows."""
        self.feeds[feed] = None
        feed.missed = feed.after < self.version
        if feed.hints and self._end_hints is None:
            self._end_hints = self._service.bus.subscribe(self._subject, self._hint)
        if self._reading.done():
            feed.end()

    def remove(self, feed: Feed) -> None:
        """They do no longer; without anybody nothing is read."""
        del self.feeds[feed]
        if self._end_hints is not None and not any(one.hints for one in self.feeds):
            self._end_hints()
            self._end_hints = None
        if not self.feeds:
            self._reading.cancel()

    @property
    def is_over(self) -> bool:
        """Whether no item comes any more."""
        return self._reading.done()

    async def missed(self, feed: Feed) -> bytes:
        """The next items that a reader missed: those that are still here, else read for them."""
        here = self._recent
        if feed.after + 1 not in here:
            ask = partial(self._service.store.read, self._task_id, feed.after)
            items = (await patiently(ask, for_s=math.inf))[:_READ_AT_ONCE]
            here = {item.version: await self._event(item) for item in items}
        told = []
        while (event := here.get(feed.after + 1)) is not None:
            told.append(event)
            feed.after += 1
        feed.missed = bool(told) and feed.after < self.version
        return b"".join(told)

    async def _event(self, item: AgentTaskItem) -> bytes:
        event = self._recent.get(item.version)
        if event is None:
            event = await _item_event(item)
            # Somebody else may have made it meanwhile.
            self._recent_bytes += len(event) - len(self._recent.get(item.version, b""))
            self._recent[item.version] = event
            while self._recent_bytes > MAX_ITEM_BYTES:
                self._recent_bytes -= len(self._recent.pop(next(iter(self._recent))))
        return event

    async def _read(self) -> None:
        watching = cast("AsyncGenerator[AgentTaskItem, None]", self._service.watch(self._task_id, self.version))
        try:
            async with contextlib.aclosing(watching):
                async for item in watching:
                    event = await self._event(item)
                    self.version = item.version
                    for feed in self.feeds:
                        feed.item(item.version, event)
        except Exception as error:  # noqa: BLE001 - it is logged
            _log_early_end(self._task_id, error)
        finally:
            for feed in self.feeds:
                feed.end()

    def _hint(self, payload: Mapping[str, Any]) -> None:
        kind = payload.get("kind")
        if kind not in HINTS:
            return
        data = json.dumps(part_without_secrets({key: value for key, value in payload.items() if key != "kind"}))
        event = f"event: {kind}\ndata: {data}\n\n".encode()
        for feed in self.feeds:
            if feed.hints:
                feed.hint(event)


async def _item_event(item: AgentTaskItem) -> bytes:
    form = item.model_dump(mode="json", by_alias=True)
    form["fact"] = await without_secrets(form["fact"])
    data = json.dumps(form, ensure_ascii=False)
    return f"id: {item.version}\nevent: {item.fact.kind}\ndata: {data}\n\n".encode()


def _log_early_end(task_id: TaskId, error: Exception) -> None:
    if isinstance(error, OrchestratorError):
        # Such as a store that is away: the follower asks again, and is told at the endpoint.
        logger.warning("the events of task %s ended too early: %s", task_id, error, extra={"task_id": task_id})
    else:
        logger.error("the events of task %s ended too early", task_id, exc_info=error, extra={"task_id": task_id})


class Followers:
    """All who follow tasks at this node."""

    def __init__(self, service: TaskService) -> None:
        self._service = service
        self._tasks: dict[TaskId, _TaskEvents] = {}
        self._count = 0

    async def follow(
        self, task_id: TaskId, version: int, after: int, *, hints: bool, closing: asyncio.Event
    ) -> AsyncGenerator[bytes, None]:
        """The task's events after a version until it has ended, or the orchestrator closes; ``version``: its own now.

        Raises nothing: where the store is away they end.
        """
        events = self._tasks.get(task_id)
        if events is None or events.is_over:
            events = self._tasks[task_id] = _TaskEvents(self._service, task_id, version)
        feed = Feed(after, hints=hints)
        events.add(feed)
        self._count += 1
        ending = asyncio.create_task(_close(feed, closing))
        try:
            yield b": watching\n\n"
            while (told := await self._next(events, feed)) is not None:
                if told:
                    yield told
        except OrchestratorError as error:
            _log_early_end(task_id, error)
        finally:
            ending.cancel()
            self._count -= 1
            events.remove(feed)
            if not events.feeds and self._tasks.get(task_id) is events:
                del self._tasks[task_id]

    async def _next(self, events: _TaskEvents, feed: Feed) -> bytes | None:
        """What is told next, perhaps nothing; a comment when there was nothing for a while, None when it is over."""
        if not await feed.wait(KEEP_ALIVE_S):
            return b": still here\n\n"
        if (pause_s := apart_s(self._count)) > 0:
            await asyncio.sleep(pause_s)
        told = feed.take()
        return await events.missed(feed) if told == b"" and feed.missed else told


async def _close(feed: Feed, closing: asyncio.Event) -> None:
    await closing.wait()
    feed.end(at_once=True)


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
    async for told in events:
        frames = [event + b"\n\n" for event in told.removesuffix(b"\n\n").split(b"\n\n")]
        if not socket.write_at_once(*frames):
            for frame in frames:
                await socket.send(frame.decode())


async def _gone(socket: StarletteSocket) -> None:
    """A stream ignores all that a reader sends, except that the reader is gone."""
    while await socket.receive() is not None:
        pass
