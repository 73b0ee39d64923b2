"""Work that many ask for at once and that costs little more for many: such as a transaction."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from orchestrator.core.errors import StoreAway

Asked = TypeVar("Asked")
Told = TypeVar("Told")


class Gathered(Generic[Asked, Told]):
    """Calls ``work`` with all that was asked since it was called last; one call at a time.

    ``work`` answers each of them, in order. ``most``: of one call. Where a call for several fails, each is asked for
    alone, so that nobody gets the refusal of another one; but not where the store is away.
    """

    def __init__(self, work: Callable[[Sequence[Asked]], Awaitable[Sequence[Told]]], most: int) -> None:
        self._work = work
        self._most = most
        self._waiting: deque[tuple[Asked, asyncio.Future[Told]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def ask(self, asked: Asked) -> Told:
        """The answer to this one; what was begun for it is done, also when nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Told] = loop.create_future()
        self._waiting.append((asked, future))
        if self._running is None or self._running.done():
            self._running = loop.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
            if not await self._done(batch, alone=len(batch) == 1):
                for one in batch:
                    await self._done([one], alone=True)

    async def _done(self, batch: Sequence[tuple[Asked, asyncio.Future[Told]]], *, alone: bool) -> bool:
        """Whether all of these were answered, or refused."""
        try:
            answers = await self._work([asked for asked, _ in batch])
        except Exception as error:  # noqa: BLE001 - the callers get it
            if not alone and not isinstance(error, StoreAway):
                return False
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
        return True
