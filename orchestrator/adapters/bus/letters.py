"""Messages between nodes: requests and their answers by tag, clocks for deadlines, and long messages in parts."""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

from pydantic_core import from_json, to_json

from orchestrator.core.errors import BusAway, RequestLost
from orchestrator.runtime.clock import steady_s

# -- A letter of the bus as bytes: what it says as JSON, and the bytes beside it ---------

LENGTH_BYTES: Final = 4
"""Before the JSON of a letter: how long it is."""


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
    return len(told).to_bytes(LENGTH_BYTES, "big") + told + body


def unpacked(data: bytes) -> Letter:
    """The letter; raises ValueError where the bytes are not a letter."""
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
    if end > len(data):
        raise ValueError("A letter is cut off.")
    try:
        # Most strings come once: pydantic's cache of them would only be one more thing to be fetched from memory.
        says = from_json(data[LENGTH_BYTES:end], cache_strings="none")
    except ValueError:
        says = json.loads(data[LENGTH_BYTES:end])
    if not isinstance(says, dict):
        raise ValueError("A letter is empty.")  # noqa: TRY004 - what the peer wrote, no type of ours
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
        """The id of this node."""

    @property
    def connected(self) -> bool:
        """Whether other nodes can be reached now."""

    @property
    def limit(self) -> int:
        """Bytes of the largest letter."""

    def send(self, node: str, tag: str, letter: bytes, *, answer_to: str = "") -> None:
        """Send to a node; where it is not there, the tag ``answer_to`` of this one gets RETURNED."""

    def offer(self, subject: str, tag: str, letter: bytes) -> None:
        """Send to one of the nodes that serve the subject; where there is none, ``tag`` gets RETURNED."""


class Mail:
    """Hands each letter to the code that waits for it; requests of other nodes go to the handler of their ``op``."""

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
        """From now on ``take`` gets the letters for the tag."""
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
            # The waiting node has given up; its kept parts may go.
            with suppress(BusAway):
                drop = packed({"op": "drop", "key": letter.says["key"]})
                self.post.send(str(letter.says.get("from")), tag, drop)

    def away(self, letter: Letter) -> None:
        """Every one who waits gets this letter: the connection is lost, or about to be closed."""
        for take in tuple(self._waiting.values()):
            take(letter)

    def errand(self, work: Awaitable[None]) -> None:
        """Do something on the side; a message that cannot be sent or read is dropped."""
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


# -- Whether another node's moment is over, by a clock that cannot be seen ---------------
#
# The clocks of nodes differ, and a letter may lie for long on its way: in a socket of a node that was stopped, or
# of a network that was cut. So a moment is named by the own clock of the node that means it, and the others ask
# that node now and then how late it is there. The time of that round trip is counted as passed, so that an
# estimate is never early.

ANSWER_S: Final = 2.0
"""A node that does not say how late it is in this time is taken for one that is gone."""
KNOWN_S: Final = 600.0
"""Seconds for which a learned difference holds: clocks that are off by 500 millionths differ by 0.3 s then."""
MOST_NODES: Final = 1_000

now: Final = steady_s
"""The present time by this node's clock."""


class Clocks:
    """How far the clocks of the other nodes are ahead of this one's, at the most."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail
        self._ahead: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._learning: dict[str, asyncio.Task[None]] = {}
        mail.answering("time", self._tell)

    async def is_before(self, node: str, moment: float) -> bool:
        """Whether ``moment`` of that node's clock is surely still to come, after asking that node if need be."""
        if self.knows_before(node, moment):
            return True
        # Not known yet, or it is over; or what was learned is no longer true.
        learning = self._learning.get(node)
        if learning is None:
            learning = self._learning[node] = asyncio.ensure_future(self._learn(node))
            learning.add_done_callback(lambda _: self._learning.pop(node, None))
        await asyncio.wait((learning,))
        return self.knows_before(node, moment)

    def forget(self) -> None:
        """Nothing that was learned holds any longer."""
        self._ahead.clear()

    def close(self) -> None:
        """Ask no longer."""
        for learning in self._learning.values():
            learning.cancel()

    def knows_before(self, node: str, moment: float) -> bool:
        """Whether ``moment`` is surely still to come by what is known, without asking anybody."""
        ahead, learned_at = self._ahead.get(node, (0.0, -KNOWN_S))
        here = now()
        return here - learned_at < KNOWN_S and here + ahead < moment

    async def _learn(self, node: str) -> None:
        tag, answer = self._mail.tag(), asyncio.get_running_loop().create_future()

        def take(letter: Letter) -> None:
            if not answer.done():
                answer.set_result(letter)

        with self._mail.waiting(tag, take):
            asked = now()
            question = packed({"op": "time", "from": self._mail.post.id})
            with suppress(BusAway):
                self._mail.post.send(node, tag, question, answer_to=tag)
                await asyncio.wait((answer,), timeout=ANSWER_S)
        if not answer.done() or not isinstance(answer.result().says.get("now"), float):
            self._ahead.pop(node, None)
            return
        self._ahead[node] = answer.result().says["now"] - asked, asked
        self._ahead.move_to_end(node)
        while len(self._ahead) > MOST_NODES:
            self._ahead.popitem(last=False)

    async def _tell(self, tag: str, says: Mapping[str, Any]) -> None:
        self._mail.post.send(str(says["from"]), tag, packed({"op": "now", "now": now()}))


# -- What is too long for one letter: it is kept by who has it, and fetched in parts by who wants it
#
# Fetching, not sending: nobody gets what it did not ask for, and no more of it at once than it has room for.

MOST_BYTES: Final = 64 * 1024 * 1024
"""The longest body that goes over a network at all."""
ROOM_BYTES: Final = MOST_BYTES + 16 * 1024 * 1024
"""The same with the JSON beside it, and what a node fetches at once: the others wait until there is room."""
PART_BYTES: Final = 256 * 1024
"""Bytes of a part: so few that other letters get through between two parts."""
AHEAD_BYTES: Final = 4 * PART_BYTES
"""Bytes that are asked for before the first of them has come."""
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
