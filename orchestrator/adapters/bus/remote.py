"""The core of every bus over a network: notifications, requests and answers, long letters, and connecting again.

A network's own module is a transport. It makes a connection, carries letters, and says when the connection is lost.
"""

import asyncio
import logging
import random
import re
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from itertools import count
from secrets import token_hex
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from orchestrator.adapters.bus.letters import LENGTH_BYTES, Clocks, Letter, Mail, Parts, packed, unpacked
from orchestrator.adapters.bus.local import LocalBus
from orchestrator.adapters.bus.requests import Answering, Asking
from orchestrator.core.errors import BusAway, OrchestratorError, RequestLost
from orchestrator.core.ports.bus import Answer, End, Hear, Serve

logger = logging.getLogger(__name__)

LETTER_BYTES: Final = 1024 * 1024
"""The longest letter, however much longer ones the network takes."""
MOST_NODES: Final = 1_000
"""The most nodes of which the last message heard is remembered; those heard longest ago are forgotten."""
HINTS_APART_S: Final = 0.05
"""Seconds between two sends of notifications alone; others go at once and take them along. Each send is work here, for
the network and at each node that hears it, and a node at work tells several notifications for each step."""
FLUSH_S: Final = 10.0
CLOSE_S: Final = 2.0
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
"""The pause before connecting again doubles from the first to the longest; half of it is drawn by lot."""

LOST: Final = Letter({"op": "lost", "why": "the connection was lost"})
CLOSED: Final = Letter({"op": "lost", "why": "the bus was closed"})


class Hint(NamedTuple):
    """A notification of another node, which came just now."""

    node: str
    number: int
    subject: str
    payload: Mapping[str, Any]


class Line(Protocol):
    """One connection: once it is lost it is lost for ever, and the next is another object."""

    lost: asyncio.Event

    async def close(self) -> None:
        """Send what waits, unless it is lost, and let go."""


L = TypeVar("L", bound=Line)


class RemoteBus(ABC, Generic[L]):
    """A bus whose own handlers are those of a `LocalBus`, and which reaches other nodes by what its adapter sends.

    The adapter is a `Post`. It is told what is wanted from the network by ``_listen``, ``_offer`` and their contraries,
    once for each subject however many handlers it has; ``_tell`` and these neither wait nor raise, open or not. What
    comes it hands to ``_hear``, to ``_answering.asked`` and to ``_mail.came``. ``network``: its name in the log.
    """

    def __init__(self, *, node: str, network: str) -> None:
        # Unique for each start, so that what is left over from another of the same name is not taken for its own.
        self.id: Final = f"{re.sub(r'[^a-zA-Z0-9_-]', '-', node)[:40]}-{token_hex(6)}"
        """The name of this bus among those of all nodes."""
        self._network = network
        self._local = LocalBus()
        self._heard_subjects: Counter[str] = Counter()
        self._served_subjects: Counter[str] = Counter()
        self._numbers = count(1)
        self._own = f'{{"from":"{self.id}",'.encode()
        """How a notification of this node begins, which a network may bring back."""
        self._came: list[Hint] = []
        self._heard_up_to: OrderedDict[str, int] = OrderedDict()
        self._line: L | None = None
        self._up = False
        """Whether all that is wanted was said on the connection."""
        self._keeper: asyncio.Task[None] | None = None
        self._mail = Mail(self)
        parts = Parts(self._mail)
        self._clocks = Clocks(self._mail)
        self._asking = Asking(self._mail, parts)
        self._answering = Answering(self._mail, parts, self._clocks, self._local)

    # -- its life ----------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect. Raises BusAway or InvalidRequest, with what to do about it."""
        self._answering.open()
        await self._connect()
        self._keeper = asyncio.ensure_future(self._keep())

    async def close(self) -> None:
        """Take nothing new, give up the requests that wait, tell those who asked, send what was published, let go."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None
        for subject in self._served_subjects:
            self._withdraw(subject)
        self._mail.away(CLOSED)
        await self._answering.close()
        with suppress(RequestLost, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self.flush()
        await self._let_go(CLOSED)
        self._clocks.close()
        await self._mail.close()

    @property
    def connected(self) -> bool:
        """Whether there is a connection on which everything that is wanted was said."""
        return self._up and self._line is not None and not self._line.lost.is_set()

    @property
    def limit(self) -> int:
        """Bytes of the longest letter."""
        return LETTER_BYTES

    async def flush(self) -> None:
        """Wait until a letter to this node itself, sent after everything else, has come back."""
        if not self.connected:
            raise RequestLost("The bus is not connected.")
        await self._marked()

    async def _marked(self) -> None:
        """Wait for a mark, sent after everything else. Raises RequestLost where it does not come back."""
        tag, back = self._mail.tag(), asyncio.get_running_loop().create_future()

        def take(letter: Letter) -> None:
            if not back.done():
                back.set_result(letter)

        with self._mail.waiting(tag, take):
            try:
                self.send(self.id, tag, packed({"op": "mark"}))
            except BusAway:
                raise RequestLost("The connection was lost.") from None
            await asyncio.wait((back,), timeout=FLUSH_S)
        if not back.done() or back.result().says.get("op") != "mark":
            raise RequestLost("The connection was lost.")

    async def _keep(self) -> None:
        """Connect again, for ever."""
        while self._line is not None:
            await self._line.lost.wait()
            logger.warning("the connection to %s is lost; it is tried again", self._network)
            await self._let_go(LOST)
            await self._connect_again()
            logger.warning("the connection to %s is there again", self._network)

    async def _connect_again(self) -> None:
        pause_s, told = FIRST_PAUSE_S, ""
        while True:
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            try:
                await self._connect()
            except OrchestratorError as why:
                if str(why) != told:
                    told = str(why)
                    logger.warning("the bus has no connection to %s: %s", self._network, why)
            except Exception:
                logger.exception("connecting to %s failed", self._network)  # and is tried again, for ever
            else:
                return

    async def _let_go(self, why: Letter) -> None:
        line, self._line, self._up = self._line, None, False
        self._clocks.forget()
        self._left(line)
        self._mail.away(why)
        if line is not None:
            await line.close()

    @abstractmethod
    async def _connect(self) -> None:
        """Make a ``_line`` on which all that is wanted was said, then set ``_up``. Raises BusAway, InvalidRequest."""

    @abstractmethod
    def _left(self, line: L | None) -> None:
        """The line was lost, or is about to be closed."""

    # -- the port ----------------------------------------------------------------------------

    def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        """Tell the handlers of this bus, then the other nodes."""
        self._local.publish(subject, payload)
        if self.connected:
            says = {"from": self.id, "number": next(self._numbers), "payload": payload}
            self._tell(subject, packed(says))

    def subscribe(self, subject: str, handler: Hear) -> End:
        """Hear this bus and the other nodes."""
        return self._counted(self._heard_subjects, subject, self._local.subscribe(subject, handler))

    def serve(self, subject: str, handler: Serve) -> End:
        """Answer requests of this bus and of the other nodes."""
        return self._counted(self._served_subjects, subject, self._local.serve(subject, handler))

    def request(
        self, subject: str, payload: Mapping[str, Any], body: bytes = b"", *, within_s: float
    ) -> Coroutine[Any, Any, Answer]:
        """Ask this node, if it serves the subject, and else another."""
        # Each coroutine on the way of a call to another node is felt: this one would only pass on.
        if subject in self._served_subjects:
            return self._local.request(subject, payload, body, within_s=within_s)
        return self._asking.ask(subject, payload, body, within_s)

    # -- what the adapter does ---------------------------------------------------------------

    @abstractmethod
    def send(self, node: str, tag: str, letter: bytes, *, answer_to: str = "") -> None:
        """As `Post.send`."""

    @abstractmethod
    def offer(self, subject: str, tag: str, letter: bytes) -> None:
        """As `Post.offer`."""

    @abstractmethod
    def _tell(self, subject: str, data: bytes) -> None:
        """Send a notification to every node that listens, or drop it."""

    @abstractmethod
    def _listen(self, subject: str) -> None:
        """Notifications of this subject are to be heard from now on, also after connecting again."""

    @abstractmethod
    def _unlisten(self, subject: str) -> None:
        """The subscriptions are no longer wanted."""

    @abstractmethod
    def _offer(self, subject: str) -> None:
        """Requests of this subject are to be taken from now on, also after connecting again."""

    @abstractmethod
    def _withdraw(self, subject: str) -> None:
        """The handlers are no longer served; requests that were taken are finished."""

    # -- what comes --------------------------------------------------------------------------

    def _hear(self, subject: str, data: bytes) -> None:
        """Take what came for a subject that is listened to.

        Messages of one turn of the loop are heard in the next, each node's notifications in their order. An adapter may
        mix up the order of different subjects.
        """
        if data.startswith(self._own, LENGTH_BYTES):
            return
        try:
            says = unpacked(data).says
            hint = Hint(str(says["from"]), int(says["number"]), subject, dict(says["payload"]))
        except (ValueError, KeyError, TypeError):
            logger.debug("a hint of %s could not be read", subject)
            return
        if not self._came:
            asyncio.get_running_loop().call_soon(self._deliver)
        self._came.append(hint)

    def _deliver(self) -> None:
        came, self._came = self._came, []
        for hint in sorted(came, key=lambda each: (each.node, each.number)):
            # A message that a lost connection brings after the next one began is too late: order is kept.
            if hint.number <= self._heard_up_to.get(hint.node, 0):
                continue
            self._heard_up_to[hint.node] = hint.number
            self._heard_up_to.move_to_end(hint.node)
            self._local.publish(hint.subject, hint.payload)
        while len(self._heard_up_to) > MOST_NODES:
            self._heard_up_to.popitem(last=False)

    def _counted(self, counter: Counter[str], subject: str, end_here: End) -> End:
        begin, stop = self._switches(counter)
        counter[subject] += 1
        if counter[subject] == 1:
            begin(subject)
        ended = False

        def end() -> None:
            nonlocal ended
            if ended:
                return
            ended = True
            end_here()
            counter[subject] -= 1
            if not counter[subject]:
                del counter[subject]
                stop(subject)

        return end

    def _switches(self, counter: Counter[str]) -> tuple[Callable[[str], None], Callable[[str], None]]:
        if counter is self._heard_subjects:
            return self._listen, self._unlisten
        return self._offer, self._withdraw
