"""What is too long for one letter: it is kept by who has it, and fetched in parts by who wants it.

Fetching, not sending: nobody gets what it did not ask for, and no more of it at once than it has room for.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

from orchestrator.adapters.bus.clocks import now
from orchestrator.adapters.bus.letters import Letter, Mail, packed
from orchestrator.core.errors import RequestLost

MOST_BYTES: Final = 64 * 1024 * 1024
"""The longest body that goes over a network at all."""
ROOM_BYTES: Final = MOST_BYTES + 16 * 1024 * 1024
"""The same with the JSON beside it, and what a node fetches at once: the others wait until there is room."""
PART_BYTES: Final = 256 * 1024
"""So short that other letters get through between two parts."""
AHEAD_BYTES: Final = 4 * PART_BYTES
"""So much is asked for before the first of it has come."""
PART_S: Final = 5.0
"""A part that does not come in this time does not come."""
IDLE_S: Final = 2 * PART_S
"""What nobody asked for in this time nobody wants any longer."""
SAYS_BYTES: Final = 1024
"""More than what a letter says about a part."""


class Kept:
    """What is kept for another node, while it is fetched."""

    def __init__(self, data: bytes, until: float | None) -> None:
        self.data = data
        self.until = until
        self.asked_at = now()
        self.done = asyncio.Event()

    async def fetched(self) -> None:
        """Wait until the last part was given, or nobody wants it any longer."""
        while not self.done.is_set() and now() < self.asked_at + IDLE_S:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.asked_at + IDLE_S - now()):
                    await self.done.wait()


class Parts:
    """What this node keeps for others, and how it fetches from them."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail
        self._kept: dict[str, Kept] = {}
        self._room = asyncio.Condition()
        self._fetching = 0
        mail.answering("get", self._give)
        mail.answering("drop", self._drop)

    @contextmanager
    def keeping(self, key: str, data: bytes, until: float | None = None) -> Iterator[Kept]:
        """In the block others may fetch ``data``.

        ``until``: the end of the time in which it makes sense to do what it says; None: it says nothing to do.
        """
        kept = self._kept[key] = Kept(data, until)
        try:
            yield kept
        finally:
            del self._kept[key]

    async def fetch(self, node: str, key: str, size: int) -> tuple[bytes, float]:
        """What that node keeps under the key, and until when, by its clock, it makes sense; infinite if for ever.

        Raises RequestLost where it does not come whole, BusAway where the bus is away.
        """
        if not 0 <= size <= ROOM_BYTES:
            raise RequestLost(f"{size} bytes are more than goes over the network ({ROOM_BYTES}).")
        tag, came = self._mail.tag(), asyncio.Queue[Letter]()
        async with self._space(size):
            with self._mail.waiting(tag, came.put_nowait):
                return await self._fetched(node, key, size, tag, came)

    async def _fetched(
        self, node: str, key: str, size: int, tag: str, came: asyncio.Queue[Letter]
    ) -> tuple[bytes, float]:
        data, asked, until = bytearray(), 0, float("inf")
        length = min(PART_BYTES, self._mail.post.limit - SAYS_BYTES)
        while len(data) < size:
            while asked < size and asked < len(data) + AHEAD_BYTES:
                says = {"op": "get", "from": self._mail.post.id, "key": key, "at": asked, "length": length}
                self._mail.post.send(node, tag, packed(says), answer_to=tag)
                asked += length
            part = await _soon(came)
            if part.says.get("op") != "part" or part.says["at"] != len(data) or not part.body:
                raise RequestLost("A part of it did not come.")
            data += part.body
            until = part.says.get("until") or float("inf")
        return bytes(data), until

    async def _give(self, tag: str, says: Mapping[str, Any]) -> None:
        kept, at = self._kept.get(says["key"]), says["at"]
        if kept is None:
            self._mail.post.send(says["from"], tag, packed({"op": "gone"}))
            return
        kept.asked_at = now()
        until = None if kept.until is None else min(kept.until, now() + PART_S)
        part = kept.data[at : at + says["length"]]
        self._mail.post.send(says["from"], tag, packed({"op": "part", "at": at, "until": until}, part))
        if at + len(part) >= len(kept.data):
            kept.done.set()

    async def _drop(self, _tag: str, says: Mapping[str, Any]) -> None:
        kept = self._kept.get(says["key"])
        if kept is not None:
            kept.done.set()

    @asynccontextmanager
    async def _space(self, size: int) -> AsyncIterator[None]:
        async with self._room:
            await self._room.wait_for(lambda: self._fetching + size <= ROOM_BYTES)
            self._fetching += size
        try:
            yield
        finally:
            self._fetching -= size
            async with self._room:
                self._room.notify_all()


def is_too_long(content: bytes, body: bytes) -> bool:
    """Whether a letter does not go over a network, for its body or for its JSON."""
    return len(body) > MOST_BYTES or len(content) > ROOM_BYTES


async def _soon(came: asyncio.Queue[Letter]) -> Letter:
    try:
        async with asyncio.timeout(PART_S):
            return await came.get()
    except TimeoutError:
        raise RequestLost("A part of it did not come.") from None
