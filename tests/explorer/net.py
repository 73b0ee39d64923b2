"""The bus between the nodes of a schedule: all that nodes say is under way until a move brings it, or loses it."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from orchestrator.adapters.bus.local import LocalBus, nobody
from orchestrator.core.errors import RequestLost
from orchestrator.core.ports import Answer
from tests.explorer.loop import SteppedLoop

CHANGING = ("fs_write", "fs_delete", "run_program", "shell")
"""The methods of calls that change something."""
Hint = tuple[str, Mapping[str, Any]]
"""Subject and payload."""


@dataclass(eq=False)
class Letter:
    """A request on its way, or its answer on the way back."""

    number: int
    kind: Literal["request", "answer"]
    to: "NetBus"
    asked: "asyncio.Future[Answer]"
    """What the asker waits for."""
    sender: "NetBus"
    subject: str
    payload: Mapping[str, Any]
    body: bytes
    ask: Mapping[str, Any]
    """What was asked."""

    @property
    def tells(self) -> bool:
        """Whether it has to do with a call that changes something: its loss and its delay tell most."""
        return self.ask.get("op") == "call" and self.ask.get("method") in CHANGING

    @property
    def name(self) -> str:
        """What a move that brings it is called."""
        return f"{self.kind} {self.number} {self.sender.name}>{self.to.name}"


class Net:
    """What lies between the nodes."""

    def __init__(self) -> None:
        self.nodes: list[NetBus] = []
        self.hints: dict[tuple[NetBus, NetBus], deque[Hint]] = {}
        """(from, to) to the hints under way: they come in the order in which they were said."""
        self.letters: list[Letter] = []
        """They come in any order, also when their asker waits no longer."""
        self.numbers = count(1)

    def say(self, sender: "NetBus", hint: Hint) -> None:
        """Send a hint to all others."""
        for to in self.nodes:
            if to is not sender:
                self.hints.setdefault((sender, to), deque()).append(hint)

    def server_of(self, subject: str) -> "NetBus | None":
        """Who answers requests on a subject; None: nobody who lives."""
        return next((one for one in self.nodes if one.serves(subject)), None)

    def ways(self) -> list[tuple["NetBus", "NetBus"]]:
        """The ways on which hints are."""
        return [way for way, hints in self.hints.items() if hints]

    def bring_hints(self, way: tuple["NetBus", "NetBus"]) -> None:
        """What one node said comes to another."""
        while self.hints[way]:
            way[1].hear(*self.hints[way].popleft())

    def lose_hints(self, way: tuple["NetBus", "NetBus"]) -> None:
        """What one node said does not come to another."""
        self.hints[way].clear()

    def bring(self, letter: Letter) -> None:
        """A request or an answer comes."""
        self.letters.remove(letter)
        letter.to.take(letter)

    def lose(self, letter: Letter) -> None:
        """A request or an answer never comes; its asker hears nothing."""
        self.letters.remove(letter)

    def give_back(self, letter: Letter) -> None:
        """A request reaches nobody, and its asker is told so: its bus is away and connects again."""
        self.letters.remove(letter)
        if not letter.asked.done():
            letter.asked.set_exception(nobody(letter.subject))

    def bring_all(self) -> bool:
        """All comes that is under way; False: nothing is."""
        ways, letters = self.ways(), list(self.letters)
        for way in ways:
            self.bring_hints(way)
        for letter in letters:
            self.bring(letter)
        return bool(ways or letters)

    def gone(self, node: "NetBus") -> None:
        """A node is dead: nothing comes to it any more; what it said may still come to others."""
        self.nodes.remove(node)
        self.letters = [one for one in self.letters if one.to is not node]
        self.hints = {way: hints for way, hints in self.hints.items() if way[1] is not node}


class NetBus(LocalBus):
    """The bus as one node has it open."""

    def __init__(self, net: Net, name: str, loop: SteppedLoop) -> None:
        super().__init__()
        self.name = name
        self._net = net
        self._loop = loop
        self._dead = False
        self.waits = 0
        """How many requests of this node nobody has answered or given up."""
        self.requested: Callable[[Mapping[str, Any]], None] = lambda _: None
        """Is told of every request of this node."""
        net.nodes.append(self)

    def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        """Tell this node at once, and the others when a move brings it."""
        super().publish(subject, payload)
        if not self._dead:
            self._net.say(self, (subject, _sent(payload)))

    async def request(self, subject: str, payload: Mapping[str, Any], body: bytes = b"", *, within_s: float) -> Answer:
        """Ask the node that serves a subject."""
        self.requested(payload)
        other = self._net.server_of(subject)
        if other is None:
            raise nobody(subject)
        asked: asyncio.Future[Answer] = self._loop.create_future()
        self._post("request", other, asked, subject, payload, body, payload)
        self.waits += 1
        try:
            async with asyncio.timeout(within_s):
                return await asked
        except TimeoutError:
            raise RequestLost(f"{subject} did not answer within {within_s:g} s.") from None
        finally:
            self.waits -= 1

    def serves(self, subject: str) -> bool:
        """Whether this node answers requests on a subject."""
        return bool(self._servers.get(subject))

    # -- what the explorer does ----------------------------------------------------------

    def hear(self, subject: str, payload: Mapping[str, Any]) -> None:
        """A hint of another node came."""
        self._loop.call_soon(super().publish, subject, payload)

    def take(self, letter: Letter) -> None:
        """A request or an answer came."""
        if letter.kind == "request":
            self._loop.call_soon(lambda: self._loop.create_task(self._answer(letter)))
        elif not letter.asked.done():
            letter.asked.set_result(Answer(letter.payload, letter.body))

    def die(self) -> None:
        """The node is dead."""
        if not self._dead:
            self._dead = True
            self._net.gone(self)

    # -- inside --------------------------------------------------------------------------

    async def _answer(self, letter: Letter) -> None:
        handlers = self._servers.get(letter.subject)
        if handlers:
            answer = await handlers[0](letter.payload, letter.body)
            self._post("answer", letter.sender, letter.asked, letter.subject, answer.payload, answer.body, letter.ask)

    def _post(
        self,
        kind: Literal["request", "answer"],
        to: "NetBus",
        asked: "asyncio.Future[Answer]",
        subject: str,
        payload: Mapping[str, Any],
        body: bytes,
        ask: Mapping[str, Any],
    ) -> None:
        if not self._dead and to in self._net.nodes:
            number = next(self._net.numbers)
            self._net.letters.append(Letter(number, kind, to, asked, self, subject, _sent(payload), body, ask))


def _sent(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """A payload as it comes out at the other end."""
    sent: Mapping[str, Any] = json.loads(json.dumps(payload))
    return sent
