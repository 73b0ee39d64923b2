"""The way between the computer and its servers: how long frames take, and whether any come through."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field


def _open() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass
class Wire:
    """Delays of the frames of WebSockets, in both directions; their order stays.

    Attributes:
        latency_s: What each frame takes.
        jitter_s: What it takes more, at random.
    """

    latency_s: float = 0.0
    jitter_s: float = 0.0
    _flows: asyncio.Event = field(default_factory=_open)
    _dice: random.Random = field(default_factory=lambda: random.Random(0))

    def mute(self, *, muted: bool) -> None:
        """Let nothing through, while no side is told; or let it through again."""
        if muted:
            self._flows.clear()
        else:
            self._flows.set()

    @property
    def is_instant(self) -> bool:
        """Whether frames need not wait at all."""
        return self.latency_s == 0 and self.jitter_s == 0 and self._flows.is_set()

    def arrives_s(self) -> float:
        """When a frame that begins now is over, on the loop's clock."""
        delay_s = self.latency_s + self._dice.random() * self.jitter_s
        return asyncio.get_running_loop().time() + delay_s

    async def until(self, due_s: float) -> None:
        """Wait until a frame is over."""
        delay_s = due_s - asyncio.get_running_loop().time()
        if delay_s > 0:
            await asyncio.sleep(delay_s)
        await self._flows.wait()


@dataclass
class Lane:
    """One direction of one socket: what goes in comes out in order, late."""

    wire: Wire
    deliver: Callable[..., None]
    _queue: asyncio.Queue[tuple[float, tuple[object, ...]]] = field(default_factory=asyncio.Queue)
    _task: asyncio.Task[None] | None = None
    _under_way: int = 0

    def put(self, *what: object) -> None:
        """Send something on its way."""
        if self._under_way == 0 and self.wire.is_instant:
            self.deliver(*what)
            return
        self._under_way += 1
        self._queue.put_nowait((self.wire.arrives_s(), what))
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def close(self) -> None:
        """What is still on its way is lost."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            due_s, what = await self._queue.get()
            await self.wire.until(due_s)
            self._under_way -= 1
            self.deliver(*what)
