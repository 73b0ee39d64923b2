"""An asyncio loop that runs one callback when it is told to, on time that somebody else moves."""

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any


class SteppedLoop:
    """As much of a loop as tasks, futures, timeouts and queues need; whoever drops it kills what runs on it."""

    def __init__(self, time: Callable[[], float], complain: Callable[[str], None]) -> None:
        self._time = time
        self._complain = complain
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0
        self._loop: Any = self
        """As asyncio takes it, which asks for no more than stands here."""
        self.tasks: list[asyncio.Task[Any]] = []

    # -- what the explorer does ----------------------------------------------------------

    def step(self) -> bool:
        """Run the next callback; False: there is none now."""
        self._fall_due()
        if not self._ready:
            return False
        handle = self._ready.popleft()
        if not handle.cancelled():
            events._set_running_loop(self._loop)
            try:
                handle._run()
            finally:
                events._set_running_loop(None)
        return True

    def idle(self) -> bool:
        """Whether nothing can run before time moves on or something comes in."""
        self._fall_due()
        return not self._ready

    def bury(self) -> None:
        """Cancel everything and run it out, so that nothing of it is left to the garbage collector."""
        self._complain = lambda _: None
        for task in self.tasks:
            task.cancel()
        while self.step():
            pass

    def _fall_due(self) -> None:
        while self._timers and self._timers[0][0] <= self._time():
            *_, timer = heapq.heappop(self._timers)
            self._ready.append(timer)

    # -- what asyncio asks for -----------------------------------------------------------

    def time(self) -> float:
        return self._time()

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self._loop)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self._loop, name=name, context=context)
        self.tasks.append(task)
        return task

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self._loop, context)
        self._ready.append(handle)
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        timer = asyncio.TimerHandle(when, callback, args, self._loop, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer stays in the heap and does nothing when its time comes."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._complain(f"{context.get('message')}: {context.get('exception')!r}")


Spawned = Coroutine[Any, Any, Any]
"""Work for a loop."""
