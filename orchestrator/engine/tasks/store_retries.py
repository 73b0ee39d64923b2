"""Asking a store again that is away for a moment, such as a database that restarts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from orchestrator.core.errors import StoreAway, StoreBusy

logger = logging.getLogger(__name__)

AWAY: Final = (StoreAway, StoreBusy)
"""What a store raises that will answer in a while; nothing else goes away by waiting."""
_FIRST_S: Final = 0.1
"""Until the second try; then twice as long each time."""
_AT_MOST_S: Final = 2.0


T = TypeVar("T")


async def patiently(ask: Callable[[], Awaitable[T]], *, for_s: float) -> T:
    """What ``ask`` answers, asked again while the store is away, for about ``for_s`` seconds; infinite: until canceled.

    It must be harmless to ask twice: that nothing was heard does not say that nothing was done. Raises what the last
    try raised.
    """
    loop = asyncio.get_running_loop()
    until, pause_s = loop.time() + for_s, _FIRST_S
    while True:
        try:
            return await ask()
        except AWAY as away:
            if loop.time() + pause_s > until:
                raise
            if pause_s == _FIRST_S:
                logger.warning("the store is asked again until it answers: %s", away)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _AT_MOST_S)
