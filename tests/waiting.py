"""How the tests wait: for something that has to happen, and not for ever."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

_T = TypeVar("_T")


async def within(seconds: float, waited: Awaitable[_T]) -> _T:
    """What is waited for, or TimeoutError.

    ``asyncio.wait_for`` of Python 3.11 swallows a cancellation that comes in the moment in which what it waits for is
    done (CPython issue 86296, mended in 3.12); a test that ends a listener so would wait for it for ever.
    """
    async with asyncio.timeout(seconds):
        return await waited
