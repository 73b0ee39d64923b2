"""How late the event loop is."""

import asyncio
from collections.abc import Callable
from typing import Final

EVERY_S: Final = 1.0
"""Between two looks: often enough to see what holds the loop up, and no work."""


async def watch_lag(observe: Callable[[float], None]) -> None:
    """Tell, until canceled, by how many seconds each timer came late."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + EVERY_S
        await asyncio.sleep(EVERY_S)
        observe(max(0.0, loop.time() - due))
