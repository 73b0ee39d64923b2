"""How the tests wait: for an event, with a limit that only a hang reaches."""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

_T = TypeVar("_T")
HANG_S: Final = 300.0
"""No wait of a test takes a tenth of it, also where eight processes share two cores. What takes longer hangs."""


async def within(waited: Awaitable[_T]) -> _T:
    """What is waited for, or TimeoutError after HANG_S.

    ``asyncio.wait_for`` of Python 3.11 swallows a cancellation that comes in the moment in which what it waits for is
    done (CPython issue 86296, fixed in 3.12). A test that cancels a listener would then wait for it for ever.
    """
    async with asyncio.timeout(HANG_S):
        return await waited
