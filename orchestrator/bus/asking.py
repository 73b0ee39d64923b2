"""The asker's half of a request between nodes: it waits while there are signs of life from who got it."""

import asyncio
import math
from collections.abc import Mapping
from typing import Any, Final

from orchestrator.bus.clocks import now
from orchestrator.bus.frames import Letter, packed, unpacked
from orchestrator.bus.local import nobody
from orchestrator.bus.mail import Mail
from orchestrator.bus.parts import MOST_BYTES, Parts
from orchestrator.core.errors import BusAway, InvalidRequest, RequestLost
from orchestrator.ports.bus import Answer

SILENCE_S: Final = 5.0
"""Who got a request is taken for gone after this time without a sign of life; it gives one each second."""
TRIES: Final = 3
"""A node that no longer serves gives a request back; it is offered again so often in all."""


class _Waiting:
    """One who waits for the answer to one request."""

    def __init__(self, subject: str, within_s: float) -> None:
        loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[Letter] = loop.create_future()
        self._subject, self._within_s = subject, within_s
        self._heard = loop.time()
        self._until = self._heard + within_s

    @property
    def due(self) -> float:
        """When it is to be looked after, by the loop's clock."""
        return min(self._until, self._heard + SILENCE_S)

    def take(self, letter: Letter) -> None:
        """A letter came for it: an answer, or a sign of life."""
        if letter.says.get("op") == "alive":
            self._heard = asyncio.get_running_loop().time()
        elif not self.outcome.done():
            self.outcome.set_result(letter)

    def overdue(self) -> None:
        """It was due, and nothing came."""
        if self.outcome.done():
            return
        if self._until <= self._heard + SILENCE_S:
            lost = RequestLost(f"{self._subject} did not answer within {self._within_s:g} s.")
        else:
            lost = RequestLost(f"The node that serves {self._subject} went away.")
        self.outcome.set_exception(lost)

    def end(self) -> None:
        """Nobody waits any longer."""
        if not self.outcome.cancel() and not self.outcome.cancelled():
            self.outcome.exception()  # it may have been lost in the moment in which its asker went


class _Watch:
    """Looks after all who wait, with one timer: most are answered long before it comes."""

    def __init__(self) -> None:
        self._waiting: dict[_Waiting, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def add(self, waiting: _Waiting) -> None:
        """Look after one."""
        self._waiting[waiting] = None
        if waiting.due < self._at:
            self._schedule(waiting.due)

    def discard(self, waiting: _Waiting) -> None:
        """Look after it no more."""
        self._waiting.pop(waiting, None)

    def _schedule(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        moment = asyncio.get_running_loop().time()
        self._timer, self._at = None, math.inf
        for waiting in [one for one in self._waiting if one.due <= moment]:
            self.discard(waiting)
            waiting.overdue()
        if self._waiting:
            self._schedule(min(one.due for one in self._waiting))


class Asking:
    """Asks whoever serves a subject, over the network."""

    def __init__(self, mail: Mail, parts: Parts) -> None:
        self._mail = mail
        self._parts = parts
        self._watch = _Watch()

    async def ask(self, subject: str, payload: Mapping[str, Any], body: bytes, within_s: float) -> Answer:
        """The answer of one of them; raises as `Bus.request` does."""
        until = now() + within_s
        for _ in range(TRIES):
            left_s = until - now()
            if left_s <= 0:
                break
            answer = await self._once(subject, payload, body, left_s)
            if answer is not None:
                return answer
        raise nobody(subject)

    async def _once(self, subject: str, payload: Mapping[str, Any], body: bytes, within_s: float) -> Answer | None:
        """Its answer, or None where who got it gave it back: it was not begun."""
        mail, moment = self._mail, now()
        tag = mail.tag()
        # Who gets it may begin it only while it is waited for: without a sign of life that is not for long.
        says = {"from": mail.post.id, "until": moment + min(within_s, SILENCE_S), "left_s": within_s}
        letter = packed(Letter({**says, "payload": payload}, body)) if len(body) < mail.post.limit else None
        if letter is None or len(letter) > mail.post.limit:
            content = _content(payload, body)
            letter = packed(Letter({**says, "key": tag, "size": len(content)}))
            with self._parts.keeping(tag, content, moment + within_s):
                return await self._answered(subject, tag, letter, moment, within_s)
        return await self._answered(subject, tag, letter, moment, within_s)

    async def _answered(self, subject: str, tag: str, letter: bytes, moment: float, within_s: float) -> Answer | None:
        waiting = _Waiting(subject, within_s)
        self._mail.wait(tag, waiting.take)
        self._watch.add(waiting)
        try:
            try:
                await self._mail.post.offer(subject, tag, letter)
            except BusAway:
                raise nobody(subject) from None
            return await self._opened(subject, await waiting.outcome, moment + within_s)
        finally:
            self._mail.wait_no_more(tag)
            self._watch.discard(waiting)
            waiting.end()

    async def _opened(self, subject: str, letter: Letter, until: float) -> Answer | None:
        says = letter.says
        match says.get("op"):
            case "answer" if "size" in says:
                return Answer(*unpacked(await self._fetched(subject, says, until)))
            case "answer" if isinstance(says.get("payload"), dict):
                return Answer(says["payload"], letter.body)
            case "back":
                return None
            case "returned":
                raise nobody(subject)
            case _:
                raise RequestLost(f"{subject}: {says.get('why', 'the answer could not be read')}.")

    async def _fetched(self, subject: str, says: Mapping[str, Any], until: float) -> bytes:
        try:
            async with asyncio.timeout(until - now()):
                return (await self._parts.fetch(says["from"], says["key"], says["size"]))[0]
        except (TimeoutError, BusAway, RequestLost) as why:
            raise RequestLost(f"The answer of {subject} did not come whole.") from why


def _content(payload: Mapping[str, Any], body: bytes) -> bytes:
    """What goes in parts. Raises InvalidRequest where that is too long."""
    content = packed(Letter(payload, body))
    if len(content) > MOST_BYTES:
        raise InvalidRequest(f"{len(content)} bytes are more than a request takes over the network ({MOST_BYTES}).")
    return content
