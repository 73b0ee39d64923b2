"""Letters between nodes: who waits for an answer under which tag, and what another node wants to know."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

from pydantic_core import from_json, to_json

from orchestrator.core.errors import BusAway

# -- A letter of the bus as bytes: what it says as JSON, and the bytes beside it ---------

_LENGTH_BYTES: Final = 4


class Letter(NamedTuple):
    """What goes from one node to another."""

    says: Mapping[str, Any]
    body: bytes = b""


def packed(says: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A letter as bytes: the length of its JSON in four bytes, the JSON, the body. Raises ValueError, TypeError."""
    try:
        told = to_json(says)
    except ValueError:
        # Half a pair of surrogates has no form in UTF-8; in ASCII it is escaped.
        told = json.dumps(says, separators=(",", ":")).encode("ascii")
    return len(told).to_bytes(_LENGTH_BYTES, "big") + told + body


def unpacked(data: bytes) -> Letter:
    """The letter; raises ValueError where it is none."""
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
    if end > len(data):
        raise ValueError("A letter is cut off.")
    try:
        # Most strings come once: pydantic's cache of them would only be one more thing to be fetched from memory.
        says = from_json(data[_LENGTH_BYTES:end], cache_strings="none")
    except ValueError:
        says = json.loads(data[_LENGTH_BYTES:end])
    if not isinstance(says, dict):
        raise ValueError("A letter says nothing.")  # noqa: TRY004 - what the peer wrote, no type of ours
    return Letter(says, data[end:])


# -- Letters between nodes: who waits for an answer under which tag, and what another node wants to know

logger = logging.getLogger(__name__)

RETURNED: Final = Letter({"op": "returned"})
"""Comes instead of an answer where nobody was there to take the letter."""

Take = Callable[[Letter], None]


class Post(Protocol):
    """How letters travel, packed, without waiting. Both raise BusAway, and have then sent nothing."""

    @property
    def id(self) -> str:
        """This node."""

    @property
    def connected(self) -> bool:
        """Whether other nodes can be reached now."""

    @property
    def limit(self) -> int:
        """Bytes of the largest letter."""

    def send(self, node: str, tag: str, letter: bytes, *, answer_to: str = "") -> None:
        """To a node; where it is not there, the tag ``answer_to`` of this one gets RETURNED."""

    def offer(self, subject: str, tag: str, letter: bytes) -> None:
        """To one of those who serve the subject; where there is none, ``tag`` gets RETURNED."""


class Mail:
    """Hands each letter that comes to who waits for it; the other nodes' questions go to who answers their ``op``."""

    def __init__(self, post: Post) -> None:
        self.post: Final = post
        self._waiting: dict[str, Take] = {}
        self._answering: dict[str, Callable[[str, Mapping[str, Any]], Awaitable[None]]] = {}
        self._tags = count(1)
        self._errands: set[asyncio.Task[None]] = set()

    def answering(self, op: str, answer: Callable[[str, Mapping[str, Any]], Awaitable[None]]) -> None:
        """Letters that ask for ``op`` are answered by ``answer``, which gets the tag for its answer."""
        self._answering[op] = answer

    def tag(self) -> str:
        """A tag that this node never had."""
        return str(next(self._tags))

    @contextmanager
    def waiting(self, tag: str, take: Take) -> Iterator[None]:
        """In the block ``take`` gets what comes for the tag."""
        self.wait(tag, take)
        try:
            yield
        finally:
            self.wait_no_more(tag)

    def wait(self, tag: str, take: Take) -> None:
        """From now on ``take`` gets what comes for the tag."""
        self._waiting[tag] = take

    def wait_no_more(self, tag: str) -> None:
        """Nobody gets it any longer."""
        del self._waiting[tag]

    def came(self, tag: str, letter: Letter) -> None:
        """A letter came for this node."""
        answer = self._answering.get(str(letter.says.get("op")))
        if answer is not None:
            self.errand(answer(tag, letter.says))
            return
        take = self._waiting.get(tag)
        if take is not None:
            take(letter)
        elif "key" in letter.says:
            # Whoever waited has given up; what is kept for it may go.
            with suppress(BusAway):
                drop = packed({"op": "drop", "key": letter.says["key"]})
                self.post.send(str(letter.says.get("from")), tag, drop)

    def away(self, letter: Letter) -> None:
        """Every one who waits gets this letter: the connection is lost, or about to be closed."""
        for take in tuple(self._waiting.values()):
            take(letter)

    def errand(self, work: Awaitable[None]) -> None:
        """Do something beside; what cannot be sent or read is dropped."""
        task = asyncio.ensure_future(self._run(work))
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _run(self, work: Awaitable[None]) -> None:
        try:
            await work
        except BusAway:
            logger.debug("a letter was not sent: the bus is away")
        except (KeyError, TypeError, ValueError):
            logger.warning("a letter of another node could not be read", exc_info=True)

    async def close(self) -> None:
        """Give up the errands."""
        errands = tuple(self._errands)
        for errand in errands:
            errand.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*errands, return_exceptions=True)
