"""What only one of several nodes does at a time: the store says whose duty it is. A node alone has all of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Store

_AGAIN_S: Final = 0.05
"""Until a duty that another node has for a moment is asked for again."""


@dataclass(frozen=True)
class Duties:
    """The duties of one node on its store."""

    store: Store
    node: str
    """No other node's, nor that of an earlier start."""

    async def take(self, name: str, for_s: float) -> bool:
        """Take or renew one for so many seconds; False: another node has it."""
        return not self.store.shared or await self.store.take_duty(name, self.node, for_s)

    async def leave(self, name: str) -> None:
        """Give one back at once; where the store is away it ends by itself when its time is over."""
        if self.store.shared:
            with contextlib.suppress(OrchestratorError):
                await self.store.leave_duty(name, self.node)

    @contextlib.asynccontextmanager
    async def held(self, name: str, for_s: float) -> AsyncIterator[None]:
        """Wait for one and hold it for the block, which has to take less than ``for_s`` seconds.

        A lock between nodes: within one node the caller needs one of its own.
        """
        while not await self.take(name, for_s):  # noqa: ASYNC110 - what is waited for is in the store
            await asyncio.sleep(_AGAIN_S)
        try:
            yield
        finally:
            await self.leave(name)
