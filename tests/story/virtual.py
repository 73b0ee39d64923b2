"""A loop whose clock jumps: when nothing can run and nothing outside is under way, it is the next timer's time.

A day of timers passes in the time that the work in it takes. What is outside, such as a store's thread or
an executor, is counted while it is under way, and time stands still until it has answered.
"""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

_LOOK_S = 5.0
"""How long is waited at a time, in the host's time, for what is outside; it wakes the loop itself."""


class _Selector(selectors.DefaultSelector):
    """Asks the host as ever, but lets the loop's clock jump instead of waiting."""

    jump: Callable[[float], bool]
    patience_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0 if timeout == 0 else self.patience_s)
        if found or timeout == 0:
            return found
        if timeout is not None and self.jump(timeout):
            return []
        return super().select(_LOOK_S)


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop on virtual time, which begins at 0.

    ``patience_s``: what a byte on a real socket may take, in the host's time, before the clock jumps.
    """

    def __init__(self, patience_s: float = 0.0) -> None:
        self._now = 0.0
        self._outside = 0
        selector = _Selector()
        selector.patience_s = patience_s
        selector.jump = self._jump
        super().__init__(selector)

    def time(self) -> float:
        return self._now

    def _jump(self, seconds: float) -> bool:
        if self._outside:
            return False
        self._now += seconds
        return True

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        self._outside += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._came)
        return future

    def _came(self, future: object) -> None:
        del future
        self._outside -= 1

    async def outside(self, work: Awaitable[Any]) -> Any:
        """Wait for something whose answer comes from another thread."""
        self._outside += 1
        try:
            return await work
        finally:
            self._outside -= 1


class OutsideStore:
    """A store whose every answer comes from its threads: time stands still meanwhile."""

    def __init__(self, store: Any, loop: VirtualLoop) -> None:
        self._store = store
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._store, name)

        def counted(*args: Any, **named: Any) -> Awaitable[Any]:
            return self._loop.outside(operation(*args, **named))

        return counted
