"""The server's half of a request between nodes: not begun too late, and with signs of life while it is worked on."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from orchestrator.adapters.bus.clocks import Clocks, now
from orchestrator.adapters.bus.frames import Letter, packed, unpacked
from orchestrator.adapters.bus.letters import Mail
from orchestrator.adapters.bus.local import LocalBus
from orchestrator.adapters.bus.long_letters import MOST_BYTES, Parts
from orchestrator.core.errors import BusAway, RequestLost
from orchestrator.core.ports.bus import Answer

logger = logging.getLogger(__name__)

SIGN_S: Final = 1.0
"""From one sign of life to the next; the first comes after one to two of it: what is answered quickly has none."""
CLOSE_S: Final = 1.0
"""What is said to those who asked a bus that is closed, is said in this time."""

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
        """Of these, whose handlers were begun and have not ended."""
        self._timer: asyncio.TimerHandle | None = None
        """For all signs of life: most requests are answered before it comes, and cost no timer."""
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
            logger.exception("an answer is no JSON")
            self._mail.post.send(asker, tag, _failed("the answer is no JSON"))
            return None
        size = len(content)
        if size > MOST_BYTES:
            why = f"{size} bytes are more than an answer takes"
            self._mail.post.send(asker, tag, _failed(why))
            return None
        return content

    async def _let_fetch(self, asker: str, tag: str, content: bytes) -> None:
        key = self._mail.tag()
        with self._parts.keeping(key, content) as kept:
            says = {"op": "answer", "from": self._mail.post.id, "key": key, "size": len(content)}
            self._mail.post.send(asker, tag, packed(says))
            await kept.fetched()

    def _say_alive(self) -> None:
        """Say that what takes longer is worked on, to whoever waits for it still."""
        self._timer = None
        moment = now()
        for says, tag, begun in self._working.values():
            asker, wait_s = says.get("from"), says.get("left_s")
            if isinstance(asker, str) and isinstance(wait_s, int | float) and SIGN_S <= moment - begun < wait_s:
                with suppress(BusAway):
                    self._mail.post.send(asker, tag, ALIVE)
        if self._working:
            self._timer = asyncio.get_running_loop().call_later(SIGN_S, self._say_alive)


def _failed(why: str) -> bytes:
    return packed({"op": "failed", "why": why.rstrip(".")})
