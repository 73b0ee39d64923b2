"""Server-sent events: all items of one task with notifications between them, and changes for a page.

Theory. What happens in a task is read, cleaned of secrets and encoded once for all who follow it, and kept in a log of
limited size. A reader is a place in that log, so a slow one costs no memory. An item has an id (its version) and is
never left out: items that have left the log are read for a reader who has not had them. A notification has no id, and
is lost with the log's oldest part. Of many readers each is told several events at once, a moment later. Those at the
same place are told the same bytes, written to each connection at once; only a reader whose connection has no room, or
who has to catch up, is told by a task of its own.
"""

import asyncio
import contextlib
import json
import logging
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
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
from orchestrator.web.connections import CHUNKS
from orchestrator.web.errors import error_form, part_without_secrets, without_secrets
from orchestrator.web.sockets import StarletteSocket, accepted, text_frames

# -- Server-sent events of one task: every item of its journal, and between them notifications of what is being written

logger = logging.getLogger(__name__)

HINTS: Final = frozenset({"model_text", "explanation", "message", "output"})
"""The kinds of notifications that are passed on."""
KEEP_ALIVE_S: Final = 15.0
"""A comment this often keeps proxies from hanging up; the usual limit is 60 s."""
MAX_LOG_BYTES: Final = 1024 * 1024
"""The newest events of a task that are kept while somebody follows it."""
MAX_READ_BYTES: Final = 256 * 1024
"""Events that are encoded at a time for a reader who needs older ones."""
_TURN: Final = 32
"""Items that are encoded before others have their turn."""
EACH_S: Final = 0.005
"""A reader more, and each of them waits so much longer for what comes: telling takes a small part of the time."""
AT_ONCE_S: Final = 10 * EACH_S
"""Ten readers are told at once."""
APART_S: Final = 1.0
"""No reader waits longer."""


def apart_s(readers: int) -> float:
    """Seconds that so many readers wait for what comes, so that several events are told together; few: none."""
    return max(0.0, min(APART_S, readers * EACH_S - AT_ONCE_S))


class Told:
    """Events as they are sent, encoded once for all who are told them; ``at``, ``version``: where a reader is then."""

    def __init__(self, events: Sequence[bytes], at: int, version: int) -> None:
        self.events, self.at, self.version = events, at, version

    @cached_property
    def text(self) -> bytes:
        """One after the other."""
        return b"".join(self.events)

    @cached_property
    def chunk(self) -> bytes:
        """As a part of an answer."""
        return b"%x\r\n%b\r\n" % (len(self.text), self.text)

    @cached_property
    def frames(self) -> bytes:
        """Each in a frame of a WebSocket."""
        return text_frames(self.events)


class Way:
    """The short way to the connection of one reader, past all layers that answer; nothing goes by it until it opens."""

    def __init__(self) -> None:
        self._write: Callable[[Told], bool] | None = None

    def open(self, write: Callable[[Told], bool]) -> None:
        """``write`` writes at once; False: the connection has no room. It raises OSError when that is over."""
        self._write = write

    def wrote(self, told: Told) -> bool:
        """Write at once, if that can be."""
        with contextlib.suppress(OSError):
            return self._write is not None and self._write(told)
        return False


class Reader:
    """Somebody who follows a task; ``after``: the version of the last item that they know."""

    def __init__(self, after: int, *, hints: bool, way: Way, closing: asyncio.Event) -> None:
        self.after = after
        self.hints = hints
        """Whether notifications are told."""
        self.way, self.closing = way, closing
        self.at = self.since = 0
        """The place in the log of the next event, and that of the first notification that is told."""
        self.waits = False
        """Whether all is told, so that the next events may go by the short way."""
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """There is something that cannot go by the short way, or it is over."""
        self._woken.set()

    async def wait(self, wait_s: float) -> bool:
        """Wait to be woken; False: nobody did in ``wait_s`` seconds."""
        self._woken.clear()
        self.waits = True
        try:
            async with asyncio.timeout(wait_s):
                await self._woken.wait()
        except TimeoutError:
            return False
        finally:
            self.waits = False
        return True


class Log:
    """The newest events of one task: each item with its version, a notification with 0."""

    def __init__(self, version: int) -> None:
        self.lost = version
        """The items up to this version have to be read."""
        self._events: deque[tuple[int, bytes]] = deque()
        self._begin = 0
        self._bytes = 0

    @property
    def end(self) -> int:
        """The place of the next event."""
        return self._begin + len(self._events)

    def put(self, event: bytes, version: int = 0) -> None:
        """Add an event; the oldest make room for it."""
        self._events.append((version, event))
        self._bytes += len(event)
        while self._bytes > MAX_LOG_BYTES:
            version, oldest = self._events.popleft()
            self._begin += 1
            self._bytes -= len(oldest)
            self.lost = version or self.lost

    def after(self, reader: Reader) -> Told:
        """All that a reader was not told and that is here."""
        told, version, at = list[bytes](), reader.after, max(reader.at, self._begin)
        for place, (item, event) in enumerate(islice(self._events, at - self._begin, None), start=at):
            if item > version or (item == 0 and reader.hints and place >= reader.since):
                told.append(event)
                version = item or version
        return Told(told, self.end, version)


class _TaskEvents:
    """The events of one task for all who follow it: each is read, cleaned and encoded once."""

    def __init__(self, service: TaskService, task_id: TaskId, version: int, pause_s: Callable[[], float]) -> None:
        self.readers: dict[Reader, None] = {}
        self._log = Log(version)
        self._service, self._task_id, self._pause_s = service, task_id, pause_s
        self._subject = f"stream.{task_id}"
        self._end_hints: Callable[[], None] | None = None
        self._telling: asyncio.TimerHandle | None = None
        self.version = version
        """That of the newest item that was read."""
        self.failed = False
        """Whether no more is read though the task goes on."""
        self._reading = asyncio.create_task(self._read())

    def add(self, reader: Reader) -> None:
        """Somebody follows, from the oldest item that is here and that they do not know."""
        self.readers[reader] = None
        reader.since = self._log.end
        if reader.hints and self._end_hints is None:
            self._end_hints = self._service.bus.subscribe(self._subject, self._hint)

    def remove(self, reader: Reader) -> None:
        """They do no longer; without anybody nothing is read."""
        del self.readers[reader]
        if self._end_hints is not None and not any(one.hints for one in self.readers):
            self._end_hints()
            self._end_hints = None
        if not self.readers:
            self._reading.cancel()
            if self._telling is not None:
                self._telling.cancel()

    async def next(self, reader: Reader) -> bytes | None:
        """What a reader is told next; a comment when there was nothing for a while, None when it is over."""
        while not reader.closing.is_set():
            if reader.after < self._log.lost:
                return await self._missed(reader)
            told = self._log.after(reader)
            reader.at, reader.after = told.at, told.version
            if told.events:
                return told.text
            if self._reading.done():
                return None
            if not await reader.wait(KEEP_ALIVE_S):
                return b": still here\n\n"
        return None

    async def _missed(self, reader: Reader) -> bytes | None:
        """The next items for a reader who does not know them and that are not here; None: there is no such task."""
        ask = partial(self._service.store.read, self._task_id, reader.after)
        told, size = list[bytes](), 0
        for item in await patiently(ask, for_s=math.inf):
            told.append(await _item_event(item))
            reader.after, size = item.version, size + len(told[-1])
            if size > MAX_READ_BYTES or item.version >= self._log.lost:
                break
            if len(told) % _TURN == 0:
                await asyncio.sleep(0)
        return b"".join(told) or None

    async def _read(self) -> None:
        watching = cast("AsyncGenerator[AgentTaskItem, None]", self._service.watch(self._task_id, self._log.lost))
        try:
            async with contextlib.aclosing(watching):
                async for item in watching:
                    self._put(await _item_event(item), item.version)
                    self.version = item.version
                    if item.version % _TURN == 0:
                        await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001 - it is logged
            self.failed = True
            _log_early_end(self._task_id, error)
        finally:
            if self._telling is not None:
                self._telling.cancel()
                self._tell()
            for reader in self.readers:
                reader.wake()

    def _hint(self, payload: Mapping[str, Any]) -> None:
        kind = payload.get("kind")
        if kind not in HINTS:
            return
        data = json.dumps(part_without_secrets({key: value for key, value in payload.items() if key != "kind"}))
        self._put(f"event: {kind}\ndata: {data}\n\n".encode())

    def _put(self, event: bytes, version: int = 0) -> None:
        self._log.put(event, version)
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(self._pause_s(), self._tell)

    def _tell(self) -> None:
        """Tell all who wait; those at the same place are told the same bytes."""
        self._telling = None
        made: dict[tuple[int, int, bool], Told] = {}
        for reader in self.readers:
            if not reader.waits or reader.closing.is_set():
                continue
            key = (reader.at, reader.after, reader.hints)
            told = made.get(key) or made.setdefault(key, self._log.after(reader))
            if reader.after >= self._log.lost and (not told.events or reader.way.wrote(told)):
                reader.at, reader.after = told.at, told.version
            else:
                reader.wake()


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

    def version(self, task_id: TaskId) -> int | None:
        """The newest item of a task that somebody follows; None: nobody does."""
        events = self._tasks.get(task_id)
        return None if events is None or events.failed else events.version

    async def follow(
        self, task_id: TaskId, version: int, after: int, *, hints: bool, closing: asyncio.Event, way: Way
    ) -> AsyncGenerator[bytes, None]:
        """The task's events after a version until it has ended, or the orchestrator closes; ``version``: its own now.

        Those that go by the short ``way`` are left out. Raises nothing: where the store is away they end.
        """
        events = self._tasks.get(task_id)
        if events is None or events.failed:
            events = self._tasks[task_id] = _TaskEvents(self._service, task_id, min(version, after), self._pause_s)
        reader = Reader(after, hints=hints, way=way, closing=closing)
        events.add(reader)
        self._count += 1
        ending = asyncio.create_task(_close(reader))
        try:
            yield b": watching\n\n"
            while (told := await events.next(reader)) is not None:
                yield told
        except OrchestratorError as error:
            _log_early_end(task_id, error)
        finally:
            ending.cancel()
            self._count -= 1
            events.remove(reader)
            if not events.readers and self._tasks.get(task_id) is events:
                del self._tasks[task_id]

    def _pause_s(self) -> float:
        return apart_s(self._count)


async def _close(reader: Reader) -> None:
    await reader.closing.wait()
    reader.wake()


class EventStream(StreamingResponse):
    """A stream whose source is closed with it, also when the reader goes away in the middle."""

    def __init__(self, events: AsyncGenerator[bytes, None], way: Way) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self.events, self.way = events, way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it all; a client that asks for its head alone is not watched."""
        async with contextlib.aclosing(self.events):
            if scope["method"] == "HEAD":
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await send({"type": "http.response.body"})
            else:
                write = scope.get("extensions", {}).get(CHUNKS)
                if write is not None:
                    self.way.open(lambda told: bool(write(told.chunk)))
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
            socket = accepted(websocket)
            stream.way.open(lambda told: socket.write_framed(told.frames))
            await _tell(events, socket)

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
