"""The server's half of a request between nodes: not begun too late, and with signs of life while it is worked on."""

import asyncio
import logging
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from orchestrator.adapters.bus.letters import (
    MOST_BYTES,
    Clocks,
    Letter,
    Mail,
    Parts,
    is_too_long,
    now,
    packed,
    unpacked,
)
from orchestrator.adapters.bus.local import LocalBus, nobody
from orchestrator.core.errors import BusAway, InvalidRequest, RequestLost
from orchestrator.core.ports.bus import Answer

# -- The asker's half of a request between nodes: it waits while there are signs of life from who got it

SILENCE_S: Final = 5.0
"""A node that got a request counts as gone after this time without a sign of life; it gives one each second."""
TRIES: Final = 3
"""A node that no longer serves gives a request back; it is offered again so often in all."""


class _Waiting:
    """One who waits for the answer to one request."""

    __slots__ = ("_loop", "_subject", "_until", "_within_s", "due", "outcome")

    def __init__(self, subject: str, within_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[Letter] = self._loop.create_future()
        self._subject, self._within_s = subject, within_s
        heard = self._loop.time()
        self._until = heard + within_s
        self.due = min(self._until, heard + SILENCE_S)
        """When it is to be looked after, by the loop's clock."""

    def take(self, letter: Letter) -> None:
        """A letter came for it: an answer, or a sign of life."""
        if letter.says.get("op") == "alive":
            self.due = min(self._until, self._loop.time() + SILENCE_S)
        elif not self.outcome.done():
            self.outcome.set_result(letter)

    def overdue(self) -> None:
        """A sign of life was due, and nothing came."""
        if self.outcome.done():
            return
        if self.due == self._until:
            lost = RequestLost(f"{self._subject} did not answer within {self._within_s:g} s.")
        else:
            lost = RequestLost(f"The node that serves {self._subject} went away.")
        self.outcome.set_exception(lost)

    def end(self) -> None:
        """Nobody waits any longer."""
        if not self.outcome.cancel() and not self.outcome.cancelled():
            self.outcome.exception()  # it may have been lost in the moment in which its asker went


class Asking:
    """Asks a node that serves a subject, over the network.

    Every call to another node comes by here, in a process that slept until now, where each function and object on the
    way costs several times what it does in a loop: so there are few.
    """

    def __init__(self, mail: Mail, parts: Parts) -> None:
        self._mail = mail
        self._parts = parts
        self._waiting: dict[str, _Waiting] = {}
        """All who wait, by their tags."""
        self._timer: asyncio.TimerHandle | None = None
        """Looks after all of them: most are answered long before it comes."""
        self._looks_at = math.inf

    async def ask(self, subject: str, payload: Mapping[str, Any], body: bytes, within_s: float) -> Answer:
        """The answer of one of them; raises as `Bus.request` does."""
        post, moment = self._mail.post, now()
        until = moment + within_s
        for _ in range(TRIES):
            left_s = until - moment
            if left_s <= 0:
                break
            tag = self._mail.tag()
            # A node that gets it may begin it only while the asker waits: without a sign of life that is not for long.
            until_there, limit = moment + min(left_s, SILENCE_S), post.limit
            says = {"from": post.id, "until": until_there, "left_s": left_s, "payload": payload}
            letter = packed(says, body) if len(body) < limit else None
            if letter is not None and len(letter) <= limit:
                said = await self._answered(subject, tag, letter, left_s)
            else:
                del says["payload"]
                content = _content(payload, body)
                letter = packed({**says, "key": tag, "size": len(content)})
                with self._parts.keeping(tag, content, until):
                    said = await self._answered(subject, tag, letter, left_s)
            if said.says.get("op") != "back":  # with that, who got it says that it was not begun
                return _opened(subject, said) if "size" not in said.says else await self._fetched(subject, said, until)
            moment = now()
        raise nobody(subject)

    async def _answered(self, subject: str, tag: str, letter: bytes, within_s: float) -> Letter:
        """What is said to the request. Raises NobodyServes, RequestLost."""
        try:
            self._mail.post.offer(subject, tag, letter)
        except BusAway:
            raise nobody(subject) from None
        # Whatever is said to it comes in a later turn of the loop: all this is done while it is on its way.
        waiting = self._waiting[tag] = _Waiting(subject, within_s)
        self._mail.wait(tag, waiting.take)
        if waiting.due < self._looks_at:
            self._look_at(waiting.due)
        try:
            return await waiting.outcome
        finally:
            self._mail.wait_no_more(tag)
            self._waiting.pop(tag, None)
            waiting.end()

    async def _fetched(self, subject: str, letter: Letter, until: float) -> Answer:
        """An answer that is too long for one letter."""
        says = letter.says
        try:
            async with asyncio.timeout(until - now()):
                return Answer(*unpacked((await self._parts.fetch(says["from"], says["key"], says["size"]))[0]))
        except (TimeoutError, BusAway, RequestLost) as why:
            raise RequestLost(f"The answer of {subject} did not come whole.") from why

    def _look_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        """See whose time is over."""
        moment = asyncio.get_running_loop().time()
        self._timer, self._looks_at = None, math.inf
        for tag, waiting in tuple(self._waiting.items()):
            if waiting.due <= moment:
                del self._waiting[tag]
                waiting.overdue()
        if self._waiting:
            self._look_at(min(one.due for one in self._waiting.values()))


def _opened(subject: str, letter: Letter) -> Answer:
    """The answer in a letter. Raises NobodyServes, RequestLost."""
    says = letter.says
    match says.get("op"):
        case "answer" if isinstance(says.get("payload"), dict):
            return Answer(says["payload"], letter.body)
        case "returned":
            raise nobody(subject)
        case _:
            raise RequestLost(f"{subject}: {says.get('why', 'the answer could not be read')}.")


def _content(payload: Mapping[str, Any], body: bytes) -> bytes:
    """What goes in parts. Raises InvalidRequest where that is too long."""
    content = packed(payload, body)
    if is_too_long(content, body):
        raise InvalidRequest(
            f"{len(content)} bytes are more than a request takes over the network ({MOST_BYTES >> 20} MiB).",
            remedy="Send it in parts.",
        )
    return content


# -- The server's half of a request between nodes: not begun too late, and with signs of life while it is worked
# on

logger = logging.getLogger(__name__)

SIGN_S: Final = 1.0
"""Seconds between two signs of life. The first comes after one to two of these times, so a quick answer needs none."""
CLOSE_S: Final = 1.0
"""Within this time the askers get their answer from a bus that is closed."""

BACK: Final = packed({"op": "back"})
ALIVE: Final = packed({"op": "alive"})


class Answering:
    """Answers what other nodes ask by the handlers of this one."""

    def __init__(self, mail: Mail, parts: Parts, clocks: Clocks, local: LocalBus) -> None:
        self._mail = mail
        self._parts = parts
        self._clocks = clocks
        self._local = local
        self._working: dict[asyncio.Task[None], tuple[Mapping[str, Any], str, float]] = {}
        """What is worked on: what the request says, the tag of its answer, since when."""
        self._begun: set[asyncio.Task[None]] = set()
        """Those of the requests whose handlers were begun and have not ended."""
        self._timer: asyncio.TimerHandle | None = None
        """One timer for all signs of life: most requests are answered before it comes, and cost no timer."""
        self._closing = False

    def open(self) -> None:
        """From now on requests are taken."""
        self._closing = False

    def asked(self, subject: str, tag: str, request: Letter) -> None:
        """A request came."""
        loop = asyncio.get_running_loop()
        work = loop.create_task(self._answer(subject, tag, request))
        self._working[work] = (request.says, tag, now())
        work.add_done_callback(self._working.pop)
        if self._timer is None:
            self._timer = loop.call_later(SIGN_S, self._say_alive)

    async def close(self) -> None:
        """Give up what is worked on, tell those who asked, and take nothing new."""
        self._closing = True
        await self._local.close()
        for work in self._begun:
            work.cancel()
        if self._working:
            _, late = await asyncio.wait(tuple(self._working), timeout=CLOSE_S)
            for work in late:
                work.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _answer(self, subject: str, tag: str, request: Letter) -> None:
        try:
            outcome, asker = await self._outcome(subject, request), str(request.says["from"])
            if isinstance(outcome, bytes):
                self._mail.post.send(asker, tag, outcome)
                return
            content = self._send(asker, tag, outcome)
            if content is not None:
                await self._let_fetch(asker, tag, content)
        except BusAway:
            logger.debug("an answer of %s was not sent: the bus is away", subject)
        except (KeyError, TypeError, ValueError):
            logger.warning("a request of %s could not be read", subject, exc_info=True)

    async def _outcome(self, subject: str, request: Letter) -> bytes | Answer:
        """The answer, or the letter that says why there is none."""
        asker, until = request.says["from"], request.says["until"]
        if self._closing:
            return BACK
        if not (self._clocks.knows_before(asker, until) or await self._clocks.is_before(asker, until)):
            return BACK
        if "size" in request.says:
            try:
                content, until = await self._parts.fetch(asker, request.says["key"], request.says["size"])
                payload, body = unpacked(content)
            except RequestLost:
                return BACK
            if not await self._clocks.is_before(asker, until):
                return BACK
        else:
            payload, body = request.says["payload"], request.body
        server = self._local.server(subject)
        if server is None:
            return BACK
        work = asyncio.current_task()
        assert work is not None
        self._begun.add(work)
        try:
            # In this very task: the asker looks after its time, and nobody takes what comes after it.
            answer = await server(payload, body)
        except asyncio.CancelledError:
            return _failed(f"{subject} was closed")
        except Exception:
            logger.exception("%s failed at a request", subject)
            return _failed(f"{subject} failed at the request")
        finally:
            self._begun.discard(work)
        return answer

    def _send(self, asker: str, tag: str, answer: Answer) -> bytes | None:
        """Send an answer; where it is too long for one letter, what is to be fetched instead."""
        (payload, body), limit = answer, self._mail.post.limit
        try:
            if len(body) < limit:
                letter = packed({"op": "answer", "payload": payload}, body)
                if len(letter) <= limit:
                    self._mail.post.send(asker, tag, letter)
                    return None
            content = packed(payload, body)
        except (TypeError, ValueError):
            logger.exception("an answer is not JSON")
            self._mail.post.send(asker, tag, _failed("the answer is not JSON"))
            return None
        if is_too_long(content, body):
            self._mail.post.send(asker, tag, _failed(f"{len(content)} bytes are more than an answer takes"))
            return None
        return content

    async def _let_fetch(self, asker: str, tag: str, content: bytes) -> None:
        key = self._mail.tag()
        with self._parts.keeping(key, content) as kept:
            says = {"op": "answer", "from": self._mail.post.id, "key": key, "size": len(content)}
            self._mail.post.send(asker, tag, packed(says))
            await kept.fetched()

    def _say_alive(self) -> None:
        """Tell the nodes that still wait that their requests are worked on."""
        self._timer = None
        moment = now()
        # Nobody who waits now has waited since before an outage: signs of life do not pile up in one.
        working = self._working.values() if self._mail.post.connected else ()
        for says, tag, begun in working:
            asker, wait_s = says.get("from"), says.get("left_s")
            if isinstance(asker, str) and isinstance(wait_s, int | float) and SIGN_S <= moment - begun < wait_s:
                with suppress(BusAway):
                    self._mail.post.send(asker, tag, ALIVE)
        if self._working:
            self._timer = asyncio.get_running_loop().call_later(SIGN_S, self._say_alive)


def _failed(why: str) -> bytes:
    return packed({"op": "failed", "why": why.rstrip(".")})
