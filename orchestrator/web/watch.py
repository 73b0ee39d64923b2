"""``GET /v1/watch``: that something changed, for a page that then reads it again.

Theory. A notification says what to read and never what it says, so a lost one costs latency and no truth. Those of
one thing are one notification: a slow reader is told the latest and misses nothing. How many things may wait is
bounded all the same: a reader for whom more do is hung up on, comes back and reads its lists again, which is
what somebody has to do anyway who was away. They are collected and encoded once for all readers; of each reader it is
asked what they may see.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel
from starlette.requests import HTTPConnection

from orchestrator.core.ports import Bus, Identity
from orchestrator.core.task.rehearsal import is_copy
from orchestrator.core.wire.wire import ComputerId
from orchestrator.web.answers.base import ComputerHint, TaskHint, WatchHello
from orchestrator.web.base import Room
from orchestrator.web.doctor import About
from orchestrator.web.events import KEEP_ALIVE_S, EventStream, apart_s

APART_S: Final = 0.2
"""Between two notifications of one thing: five a second are more than an eye takes in."""
MOST_WAITING: Final = 1000
"""Things of which a reader does not know yet that they changed; beyond it, reading all lists again is less work."""

Key = tuple[str, str]
"""A kind and which of it."""


class Told(NamedTuple):
    """A notification, and the same as an event."""

    hint: TaskHint | ComputerHint
    event: bytes


class Reader:
    """The notifications that one reader was not told yet."""

    def __init__(self) -> None:
        self._waiting: dict[Key, Told] = {}
        self._changed = asyncio.Event()
        self._over = False

    def put(self, told: Mapping[Key, Told]) -> None:
        """Take some; each is in the place of the one before of the same thing."""
        if self._over:
            return
        self._waiting.update(told)
        if len(self._waiting) > MOST_WAITING:
            self.end()
        self._changed.set()

    def end(self) -> None:
        """Nothing more may be told."""
        self._over = True
        self._waiting.clear()
        self._changed.set()

    async def next(self, wait_s: float) -> list[Told] | None:
        """All that may be told by now; empty: nothing in ``wait_s`` seconds, None: it is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        self._changed.clear()
        told = list(self._waiting.values())
        self._waiting.clear()
        return None if self._over else told


class Readers:
    """All who watch at this node; notifications are collected and encoded once for all of them."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._readers: dict[Reader, None] = {}
        self._ends: list[Callable[[], object]] = []
        self._waiting: dict[Key, TaskHint | ComputerHint] = {}
        self._told: dict[Key, float] = {}
        """When each was told that was told just now, oldest first; by the event loop's clock."""
        self._changed = asyncio.Event()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Reader]:
        """A reader, who is told while this is open."""
        if not self._readers:
            self._ends = [
                self._bus.subscribe("tasks", self._task),
                self._bus.subscribe("computers", self._computer),
                asyncio.ensure_future(self._tell()).cancel,
            ]
        reader = Reader()
        self._readers[reader] = None
        try:
            yield reader
        finally:
            del self._readers[reader]
            if not self._readers:
                self._waiting.clear()
                for end in self._ends:
                    end()

    def _task(self, payload: Mapping[str, Any]) -> None:
        """A task has new items."""
        key = ("tasks", str(payload["task_id"]))
        # Notifications may overtake each other.
        before = self._waiting.get(key)
        version = max(int(payload["version"]), before.version if isinstance(before, TaskHint) else 0)
        self._put(key, TaskHint(task_id=key[1], version=version))

    def _computer(self, payload: Mapping[str, Any]) -> None:
        """Something about a computer is not as it was; a rehearsal's copy is nobody's to see."""
        name = str(payload["computer"])
        if not is_copy(name):
            self._put(("computers", name), ComputerHint(computer=name))

    def _put(self, key: Key, hint: TaskHint | ComputerHint) -> None:
        self._waiting[key] = hint
        self._changed.set()

    async def _tell(self) -> None:
        """Tell everybody what may be told, until it is canceled."""
        loop = asyncio.get_running_loop()
        while True:
            if told := self._take(loop.time()):
                for reader in self._readers:
                    reader.put(told)
                await asyncio.sleep(apart_s(len(self._readers)))
                continue
            ready = min((self._told[key] + APART_S for key in self._waiting), default=None)
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(ready):
                    await self._changed.wait()

    def _take(self, now: float) -> dict[Key, Told]:
        while self._told and (oldest := next(iter(self._told.items())))[1] + APART_S <= now:
            del self._told[oldest[0]]
        ready = [key for key in self._waiting if key not in self._told]
        self._told.update(dict.fromkeys(ready, now))
        return {key: Told(hint := self._waiting.pop(key), event(key[0], hint)) for key in ready}


class WatchEndpoints(Room):
    """``/v1/watch``."""

    about: About
    readers: Readers

    async def watch(self, request: HTTPConnection) -> EventStream:
        """``GET /v1/watch``: notifications of what changed, as server-sent events."""
        identity = await self.who(request)
        about = self.about
        hello = WatchHello(version=about.version, name=identity.name, roles=sorted(identity.roles), model=about.model)
        return self.stream(
            identity, lambda over: watched(self.readers, hello, over, lambda hint: self._sees(identity, hint))
        )

    async def _sees(self, identity: Identity, hint: TaskHint | ComputerHint) -> bool:
        if isinstance(hint, ComputerHint):
            return self.authorizer.reaches(identity, ComputerId(hint.computer))
        if self.authorizer.visible_users(identity) is None:
            return True
        user = await self.user_of(hint.task_id)
        return user is not None and self.authorizer.sees_user(identity, user)


async def watched(
    readers: Readers, hello: WatchHello, over: asyncio.Event, sees: Callable[[TaskHint | ComputerHint], Awaitable[bool]]
) -> AsyncGenerator[bytes, None]:
    """Hello, and then each notification of what the reader ``sees``, until it is over."""
    with readers.reading() as reader:
        ending = asyncio.create_task(_end(reader, over))
        try:
            yield event("hello", hello)
            while (told := await reader.next(KEEP_ALIVE_S)) is not None:
                events = [one.event for one in told if await sees(one.hint)]
                if events or not told:
                    yield b"".join(events) or b": still here\n\n"
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)


async def _end(reader: Reader, over: asyncio.Event) -> None:
    await over.wait()
    reader.end()


def event(kind: str, data: BaseModel) -> bytes:
    """One server-sent event without an id."""
    return f"event: {kind}\ndata: {json.dumps(data.model_dump(mode='json'))}\n\n".encode()
