"""The bus over core NATS: hints are messages, requests go to queue groups, answers to an inbox of each node.

Subjects: ``PREFIX.h.SUBJECT`` of hints, ``PREFIX.r.SUBJECT`` of requests, ``PREFIX.i.NODE.TAG`` of letters to a node.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

from orchestrator.bus.answering import Answering
from orchestrator.bus.asking import Asking
from orchestrator.bus.clocks import Clocks
from orchestrator.bus.frames import Letter, packed, unpacked
from orchestrator.bus.mail import RETURNED, Mail
from orchestrator.bus.nats_link import Link, Msg, Subscription
from orchestrator.bus.nats_url import nats_address
from orchestrator.bus.parts import Parts
from orchestrator.bus.remote import RemoteBus
from orchestrator.core.errors import BusAway, RequestLost
from orchestrator.ports.bus import Answer

logger = logging.getLogger(__name__)

LETTER_BYTES: Final = 1024 * 1024
"""The longest message, however much longer ones the server takes."""
WAITING_HINTS: Final = 100_000
"""So many hints wait for a network that is slow; more are dropped."""
FLUSH_S: Final = 10.0
CLOSE_S: Final = 2.0
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
"""The pause before connecting again doubles from the first to the longest; half of it is drawn by lot."""
QUIET_S: Final = 60.0
"""That hints are dropped is logged once in this time."""
QUEUE: Final = "one"
"""The queue group of those who serve."""

LOST: Final = Letter({"op": "lost", "why": "the connection was lost"})
CLOSED: Final = Letter({"op": "lost", "why": "the bus was closed"})


_What = Literal["listen", "unlisten", "offer", "withdraw", "tell", "mark"]


class _Errand(NamedTuple):
    """What is to be sent to the server, in its turn."""

    what: _What
    subject: str
    data: bytes = b""


class NatsBus(RemoteBus):
    """Hints and requests over a NATS server. ``node``: what this node is called there."""

    def __init__(self, url: str, *, node: str) -> None:
        super().__init__(node=node)
        self._servers, self._prefix = nats_address(url)
        self._link: Link | None = None
        self._up = False
        self._out: deque[_Errand] = deque()
        self._news = asyncio.Event()
        self._subscriptions: dict[str, Subscription] = {}
        self._sender: asyncio.Task[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._dropped_at = -QUIET_S
        self._mail = Mail(self)
        parts = Parts(self._mail)
        self._clocks = Clocks(self._mail)
        self._asking = Asking(self._mail, parts)
        self._answering = Answering(self._mail, parts, self._clocks, self._local)

    async def open(self) -> None:
        """Connect to one of the servers. Raises BusAway."""
        self._answering.open()
        await self._connect()
        self._keeper = asyncio.ensure_future(self._keep())

    async def close(self) -> None:
        """Give up the requests that wait, tell those who asked, send what was published, let go."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None
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
        """Whether there is a connection on which everything that is wanted was subscribed."""
        return self._up and self._link is not None and not self._link.lost.is_set()

    async def flush(self) -> None:
        """Wait until a letter to this node itself, sent after everything else, has come back."""
        if not self.connected:
            raise RequestLost("The bus is not connected.")
        await self._marked()

    # -- what goes out -----------------------------------------------------------------------

    @property
    def limit(self) -> int:
        """Bytes of the longest letter."""
        return min(self._link.max_payload, LETTER_BYTES) if self._link is not None else LETTER_BYTES

    async def send(self, node: str, tag: str, letter: Letter, *, answer_to: str = "") -> None:
        """To the inbox of a node."""
        await self._publish(self._inbox(node, tag), letter, self._inbox(self.id, answer_to) if answer_to else "")

    async def offer(self, subject: str, tag: str, letter: Letter) -> None:
        """To one of the queue group."""
        await self._publish(f"{self._prefix}.r.{subject}", letter, self._inbox(self.id, tag))

    async def _publish(self, subject: str, letter: Letter, reply: str) -> None:
        if self._link is None or not self.connected:
            raise BusAway("The bus is not connected.")
        await self._link.publish(subject, packed(letter), reply)

    def _inbox(self, node: str, tag: str) -> str:
        return f"{self._prefix}.i.{node}.{tag}"

    def _tell(self, subject: str, data: bytes) -> None:
        if len(self._out) >= WAITING_HINTS or len(data) > self.limit:
            moment = time.monotonic()
            if moment - self._dropped_at >= QUIET_S:
                self._dropped_at = moment
                logger.warning("hints are dropped: one of %s has %d bytes, %d wait", subject, len(data), len(self._out))
            return
        self._errand("tell", subject, data)

    async def _ask(self, subject: str, payload: Mapping[str, Any], body: bytes, within_s: float) -> Answer:
        return await self._asking.ask(subject, payload, body, within_s)

    def _listen(self, subject: str) -> None:
        self._errand("listen", subject)

    def _unlisten(self, subject: str) -> None:
        self._errand("unlisten", subject)

    def _offer(self, subject: str) -> None:
        self._errand("offer", subject)

    def _withdraw(self, subject: str) -> None:
        self._errand("withdraw", subject)

    def _errand(self, what: _What, subject: str, data: bytes = b"") -> None:
        """Put it in the queue; without a connection there is none, and the next begins with all that is wanted."""
        if self._link is not None:
            self._out.append(_Errand(what, subject, data))
            self._news.set()

    async def _send_all(self, link: Link) -> None:
        """Run the errands in their order, until the connection is lost."""
        try:
            while True:
                while self._out:
                    with suppress(BusAway):
                        await self._run(link, self._out.popleft())
                self._news.clear()
                await self._news.wait()
        finally:
            link.lost.set()  # whatever ends this ends the connection

    async def _run(self, link: Link, errand: _Errand) -> None:
        subject = errand.subject
        match errand.what:
            case "tell":
                await link.publish(f"{self._prefix}.h.{subject}", errand.data)
            case "mark":
                await link.publish(self._inbox(self.id, subject), packed(Letter({"op": "mark"})))
            case "listen":
                await self._subscribe(link, f"{self._prefix}.h.{subject}")
            case "offer":
                await self._subscribe(link, f"{self._prefix}.r.{subject}", QUEUE)
            case "unlisten":
                self._unsubscribe(f"{self._prefix}.h.{subject}")
            case "withdraw":
                self._unsubscribe(f"{self._prefix}.r.{subject}")

    async def _subscribe(self, link: Link, subject: str, queue: str = "") -> None:
        if subject not in self._subscriptions:
            self._subscriptions[subject] = await link.subscribe(subject, self._message, queue)

    def _unsubscribe(self, subject: str) -> None:
        subscription = self._subscriptions.pop(subject, None)
        if subscription is not None:
            # What is on its way is still taken: a request is given back to who asked.
            self._mail.errand(_drained(subscription))

    # -- what comes in -----------------------------------------------------------------------

    async def _message(self, message: Msg) -> None:
        kind, _, rest = message.subject[len(self._prefix) + 1 :].partition(".")
        try:
            if kind == "h":
                self._hear(rest, message.data)
            elif kind == "r":
                self._answering.asked(rest, message.reply.rpartition(".")[2], unpacked(message.data))
            elif message.headers:  # the server's own word: nobody was there
                self._mail.came(rest.rpartition(".")[2], RETURNED)
            else:
                self._mail.came(rest.rpartition(".")[2], unpacked(message.data))
        except ValueError:
            logger.warning("a message on %s could not be read", message.subject[:100])

    # -- the connection ----------------------------------------------------------------------

    async def _connect(self) -> None:
        """Connect to a server, in an order drawn by lot. Raises BusAway: what the last one said."""
        servers = random.sample(self._servers, len(self._servers))
        for server in servers:
            link = Link(server)
            try:
                await link.connect(self.id)
                await self._begin(link)
            except (BusAway, RequestLost):
                if server is servers[-1]:
                    raise
            else:
                return

    async def _begin(self, link: Link) -> None:
        """Subscribe all that is wanted; it holds when the mark after it has come back."""
        self._link, self._subscriptions = link, {}
        self._out.clear()
        try:
            await self._subscribe(link, f"{self._prefix}.i.{self.id}.*")
            for subject in self._heard_subjects:
                self._errand("listen", subject)
            for subject in self._served_subjects:
                self._errand("offer", subject)
            self._sender = asyncio.ensure_future(self._send_all(link))
            await self._marked()
        except BaseException:
            await self._let_go(LOST)
            raise
        self._up = True

    async def _marked(self) -> None:
        """Raises RequestLost where the mark does not come back."""
        tag, back = self._mail.tag(), asyncio.get_running_loop().create_future()

        def take(letter: Letter) -> None:
            if not back.done():
                back.set_result(letter)

        with self._mail.waiting(tag, take):
            self._errand("mark", tag)
            await asyncio.wait((back,), timeout=FLUSH_S)
        if not back.done() or back.result().says.get("op") != "mark":
            raise RequestLost("The connection was lost.")

    async def _keep(self) -> None:
        """Connect again, for ever."""
        while self._link is not None:
            await self._link.lost.wait()
            logger.warning("the connection to NATS is lost; it is tried again")
            await self._let_go(LOST)
            await self._connect_again()
            logger.warning("the connection to NATS is there again")

    async def _connect_again(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            try:
                await self._connect()
            except (BusAway, RequestLost) as why:
                logger.info("%s", why)
            except Exception:
                logger.exception("connecting to NATS failed")  # and is tried again, for ever
            else:
                return

    async def _let_go(self, why: Letter) -> None:
        link, self._link, self._up = self._link, None, False
        if self._sender is not None:
            self._sender.cancel()
            self._sender = None
        self._out.clear()
        self._subscriptions = {}
        self._clocks.forget()
        self._mail.away(why)
        if link is not None:
            await link.close()


async def _drained(subscription: Subscription) -> None:
    try:
        await subscription.drain()  # type: ignore[no-untyped-call]
    except Exception as why:  # noqa: BLE001 - of a connection that is lost nothing more is wanted
        logger.debug("a subscription was not ended in order: %s", type(why).__name__)
