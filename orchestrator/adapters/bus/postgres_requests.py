"""Requests between the nodes of the PostgreSQL bus: those that this node waits for, and those that it works on.

Who works on a request longer than a second says so each second; from whom nothing is heard for longer, the asker
expects nothing more. Both times are of each node's own monotonic clock. Whether a request's time is over is a matter of
the database's clock, of which the asker takes the earliest reading and the one who serves the latest.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.adapters.bus.postgres_frames import Frame
from orchestrator.core.errors import NobodyServes, RequestLost
from orchestrator.core.ports.bus import Answer

NO_SIGN_S: Final = 5.0
"""A request of which nothing was heard for so long is lost: five signs of life were missed."""
QUIET_S: Final = 1.0
"""Work that takes less than this gives no sign of life, so that quick requests cost nothing more."""
_SIGNS: Final = 100
"""Requests named in one sign of life, which has to be short enough to be said."""


class GivenBack(Exception):
    """Raised when the node that got a request serves it no longer, and has not begun it."""


Serves = Callable[[str, Mapping[str, Any], bytes], Awaitable[Answer]]
"""Answers a request of another node. Raises NobodyServes and RequestLost."""


@dataclass
class _Waiting:
    answer: "asyncio.Future[Answer]"
    heard_at: float
    sent: bool = False


class Waiting:
    """The requests of this node that were not answered yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}

    def begin(self, request: str) -> "asyncio.Future[Answer]":
        """Wait for the answer to this request."""
        loop = asyncio.get_running_loop()
        one = self._waiting[request] = _Waiting(loop.create_future(), loop.time())
        return one.answer

    def end(self, request: str) -> None:
        """Nobody waits for it any longer."""
        answer = self._waiting.pop(request).answer
        if not answer.cancel() and not answer.cancelled():
            answer.exception()  # or asyncio complains that nobody looked

    def sent(self, request: str) -> None:
        """It is with another node, or on its way there."""
        one = self._waiting[request]
        one.sent, one.heard_at = True, asyncio.get_running_loop().time()

    def answered(self, frame: Frame) -> None:
        """The answer came, or that there is none; the first of several counts."""
        one = self._waiting.get(frame.id)
        if one is None or one.answer.done():
            return
        match frame.head.get("not"):
            case None:
                one.answer.set_result(Answer(frame.head["payload"], frame.body))
            case "served":
                one.answer.set_exception(GivenBack)
            case _:
                one.answer.set_exception(RequestLost("Who serves it failed at the request."))

    def worked_on(self, requests: list[str]) -> None:
        """Signs of life of these requests."""
        now = asyncio.get_running_loop().time()
        for request in requests:
            if (one := self._waiting.get(request)) is not None:
                one.heard_at = now

    def give_up_silent(self) -> None:
        """Lose the requests of which nothing was heard for too long."""
        now = asyncio.get_running_loop().time()
        for one in self._waiting.values():
            if one.sent and now - one.heard_at > NO_SIGN_S and not one.answer.done():
                one.answer.set_exception(RequestLost(f"Nothing was heard of it for {NO_SIGN_S:g} s."))

    def lose_all(self, why: str) -> None:
        """Answers to what was sent may have been missed."""
        for one in self._waiting.values():
            if one.sent and not one.answer.done():
                one.answer.set_exception(RequestLost(why))


class Working:
    """The requests of other nodes that this node works on, side by side."""

    def __init__(self, serves: Serves) -> None:
        self._serves = serves
        self._working: dict[asyncio.Task[None], tuple[Frame, float]] = {}

    def begin(self, frame: Frame, work: Awaitable[None]) -> None:
        """Work on a request, or on fetching it."""
        task = asyncio.ensure_future(work)
        self._working[task] = (frame, asyncio.get_running_loop().time())
        task.add_done_callback(lambda done: self._working.pop(done, None))

    async def answer(self, frame: Frame, by: str) -> Frame:
        """What is answered to a whole request; what the one who serves raised stays here."""
        try:
            answer = await self._serves(frame.head["subject"], frame.head["payload"], frame.body)
        except NobodyServes:
            return Frame("answer", by, frame.id, {"not": "served"})
        except RequestLost:
            return Frame("answer", by, frame.id, {"not": "done"})
        return Frame("answer", by, frame.id, {"payload": answer.payload}, answer.body)

    def signs(self) -> Iterator[tuple[str, list[str]]]:
        """Who asked what is worked on for so long that they are to be told."""
        now = asyncio.get_running_loop().time()
        asked: defaultdict[str, list[str]] = defaultdict(list)
        for frame, began in self._working.values():
            if now - began > QUIET_S:
                asked[frame.sender].append(frame.id)
        for node, requests in asked.items():
            for start in range(0, len(requests), _SIGNS):
                yield node, requests[start : start + _SIGNS]

    async def ended(self) -> None:
        """All that is worked on has ended."""
        await asyncio.gather(*self._working, return_exceptions=True)

    async def give_up(self) -> None:
        """End what is worked on."""
        tasks = tuple(self._working)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
