"""``GET /v1/watch``: that something changed, for a page that then reads it again.

Theory. A notification says what to read and never what it says, so a lost one costs latency and no truth. Those of
one thing are one notification: a slow reader is told the latest and misses nothing. How many things may wait is
bounded all the same: a reader for whom more do is hung up on, comes back and reads its lists again, which is
what somebody has to do anyway who was away.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel
from starlette.requests import HTTPConnection

from orchestrator.core.ports import Bus, Identity
from orchestrator.core.task.rehearsal import is_copy
from orchestrator.core.wire.wire import ComputerId
from orchestrator.web.answers.base import ComputerHint, TaskHint, WatchHello
from orchestrator.web.base import Room
from orchestrator.web.doctor import About
from orchestrator.web.events import KEEP_ALIVE_S, EventStream

APART_S: Final = 0.2
"""Between two notifications of one thing: five a second are more than an eye takes in."""
MOST_WAITING: Final = 1000
"""Things of which a reader does not know yet that they changed; beyond it, reading all lists again is less work."""

Key = tuple[str, str]
"""A kind and which of it."""


@dataclass
class Hints:
    """The notifications that one reader was not told yet; times are those of the event loop."""

    _waiting: dict[Key, TaskHint | ComputerHint] = field(default_factory=dict)
    _told: dict[Key, float] = field(default_factory=dict)
    """When each was told that was told just now, oldest first."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _over: bool = False

    def task(self, payload: Mapping[str, Any]) -> None:
        """A task has new items."""
        key = ("tasks", str(payload["task_id"]))
        # Notifications may overtake each other.
        before = self._waiting.get(key)
        version = max(int(payload["version"]), before.version if isinstance(before, TaskHint) else 0)
        self._put(key, TaskHint(task_id=key[1], version=version))

    def computer(self, payload: Mapping[str, Any]) -> None:
        """Something about a computer is not as it was; a rehearsal's copy is nobody's to see."""
        name = str(payload["computer"])
        if not is_copy(name):
            self._put(("computers", name), ComputerHint(computer=name))

    def end(self) -> None:
        """Nothing more may be told."""
        self._over = True
        self._waiting.clear()
        self._changed.set()

    async def next(self, wait_s: float) -> list[tuple[str, TaskHint | ComputerHint]] | None:
        """All that may be told by now, each with its kind; empty: nothing in ``wait_s`` seconds, None: it is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while not self._over:
            now = loop.time()
            events = self._take(now)
            if events:
                return events
            if now >= until:
                return []
            ready = min((self._told[key] + APART_S for key in self._waiting), default=until)
            self._changed.clear()
            try:
                async with asyncio.timeout_at(min(ready, until)):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return None

    def _put(self, key: Key, data: TaskHint | ComputerHint) -> None:
        if self._over:
            return
        self._waiting[key] = data
        if len(self._waiting) > MOST_WAITING:
            self.end()
        self._changed.set()

    def _take(self, now: float) -> list[tuple[str, TaskHint | ComputerHint]]:
        while self._told and (oldest := next(iter(self._told.items())))[1] + APART_S <= now:
            del self._told[oldest[0]]
        ready = [key for key in self._waiting if key not in self._told]
        self._told.update(dict.fromkeys(ready, now))
        return [(key[0], self._waiting.pop(key)) for key in ready]


class WatchEndpoints(Room):
    """``/v1/watch``."""

    about: About

    async def watch(self, request: HTTPConnection) -> EventStream:
        """``GET /v1/watch``: notifications of what changed, as server-sent events."""
        identity = await self.who(request)
        about = self.about
        hello = WatchHello(version=about.version, name=identity.name, roles=sorted(identity.roles), model=about.model)
        return self.stream(
            identity, lambda over: watched(self.service.bus, hello, over, lambda hint: self._sees(identity, hint))
        )

    async def _sees(self, identity: Identity, hint: TaskHint | ComputerHint) -> bool:
        if isinstance(hint, ComputerHint):
            return self.authorizer.reaches(identity, ComputerId(hint.computer))
        if self.authorizer.visible_users(identity) is None:
            return True
        user = await self.user_of(hint.task_id)
        return user is not None and self.authorizer.sees_user(identity, user)


async def watched(
    bus: Bus, hello: WatchHello, over: asyncio.Event, sees: Callable[[TaskHint | ComputerHint], Awaitable[bool]]
) -> AsyncGenerator[bytes, None]:
    """Hello, and then each notification of what the reader ``sees``, until it is over."""
    hints = Hints()
    ends: list[Callable[[], None]] = [bus.subscribe("tasks", hints.task), bus.subscribe("computers", hints.computer)]
    ending = asyncio.create_task(_end(hints, over))
    try:
        yield event("hello", hello)
        while (told := await hints.next(KEEP_ALIVE_S)) is not None:
            events = [event(kind, one) for kind, one in told if await sees(one)]
            if events or not told:
                yield b"".join(events) or b": still here\n\n"
    finally:
        for unsubscribe in ends:
            unsubscribe()
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)


async def _end(hints: Hints, over: asyncio.Event) -> None:
    await over.wait()
    hints.end()


def event(kind: str, data: BaseModel) -> bytes:
    """One server-sent event without an id."""
    return f"event: {kind}\ndata: {json.dumps(data.model_dump(mode='json'))}\n\n".encode()
