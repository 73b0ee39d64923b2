"""The bus over core NATS: notifications are messages, requests go to queue groups, answers to an inbox of each node.

Subjects: ``PREFIX.h.SUBJECT`` of notifications, ``PREFIX.r.SUBJECT`` of requests, ``PREFIX.i.NODE.TAG`` of letters
to a node.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from orchestrator.adapters.bus.clocks import Clocks
from orchestrator.adapters.bus.letters import RETURNED, Letter, Mail, packed, unpacked
from orchestrator.adapters.bus.long_letters import Parts
from orchestrator.adapters.bus.nats_link import Link, Message
from orchestrator.adapters.bus.nats_url import NatsServer, check, discovered, nats_address
from orchestrator.adapters.bus.remote import RemoteBus
from orchestrator.adapters.bus.requests import Answering, Asking
from orchestrator.core.errors import BusAway, RequestLost
from orchestrator.core.ports.bus import Answer

# -- The servers of a NATS bus: those of its URL, those that a cluster names, and who is tried when

BESIDE_S: Final = 0.5
"""A server that has said nothing for so long is tried no longer alone: the next is, beside it."""


class NatsServers:
    """The servers that are known; those of the URL for ever, the others as the last server named them."""

    def __init__(self, configured: Iterable[NatsServer]) -> None:
        self._configured = tuple(configured)
        self._named: tuple[NatsServer, ...] = ()
        self._left = ""

    def names(self, places: Sequence[str], by: NatsServer, *, tls: bool) -> None:
        """A server names all of its cluster; one without a cluster says nothing, and what another said holds."""
        if not places:
            return
        known = {(server.host, server.port) for server in self._configured}
        found = discovered(places, by, tls=tls)
        self._named = tuple(server for server in found if (server.host, server.port) not in known)

    def leave(self, server: NatsServer) -> None:
        """That one was lost: it is tried last."""
        self._left = server.shown

    def in_turn(self) -> list[NatsServer]:
        """All of them, as they are to be tried: by lot, those of the URL first, and the one that was lost last."""
        order = [*random.sample(self._configured, len(self._configured)), *random.sample(self._named, len(self._named))]
        return sorted(order, key=lambda server: server.shown == self._left)


async def first_that_answers(
    servers: list[NatsServer], connect: Callable[[NatsServer], Coroutine[Any, Any, Link]]
) -> Link:
    """A link to the first server that answers; those that were tried are taken from the list.

    Raises BusAway: what the last one said.
    """
    trying: set[asyncio.Task[Link]] = set()
    said: BaseException | None = None
    try:
        while servers or trying:
            if servers:
                trying.add(asyncio.ensure_future(connect(servers.pop(0))))
            patience_s = BESIDE_S if servers else None
            done, _ = await asyncio.wait(trying, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                trying.discard(task)
                if (said := task.exception()) is None:
                    return task.result()
        assert said is not None
        raise said
    finally:
        for task in trying:
            task.cancel()
        for late in await asyncio.gather(*trying, return_exceptions=True):
            if isinstance(late, Link):
                await late.close()


# -- The bus over core NATS: notifications are messages, requests go to queue groups, answers to an inbox of each node

logger = logging.getLogger(__name__)

LETTER_BYTES: Final = 1024 * 1024
"""The longest message, however much longer ones the server takes."""
WAITING_BYTES: Final = 16 * 1024 * 1024
"""So much of notifications waits for a network that is slow; more is dropped."""
FLUSH_S: Final = 10.0
CLOSE_S: Final = 2.0
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
"""The pause before connecting again doubles from the first to the longest; half of it is drawn by lot."""
QUIET_S: Final = 60.0
"""That notifications are dropped is logged once in this time."""
QUEUE: Final = "one"
"""The queue group of those who serve."""

LOST: Final = Letter({"op": "lost", "why": "the connection was lost"})
CLOSED: Final = Letter({"op": "lost", "why": "the bus was closed"})


class NatsBus(RemoteBus):
    """Notifications and requests over a NATS server. ``node``: what this node is called there."""

    def __init__(self, url: str, *, node: str) -> None:
        super().__init__(node=node)
        self._address = nats_address(url)
        check(self._address.files, tls=self._address.servers[0].tls)
        self._servers, self._prefix = NatsServers(self._address.servers), self._address.prefix
        self._link: Link | None = None
        self._up = False
        self._subscriptions: dict[str, int] = {}
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
        if not self._up:
            raise RequestLost("The bus is not connected.")
        await self._marked()

    # -- what goes out -----------------------------------------------------------------------

    @property
    def limit(self) -> int:
        """Bytes of the longest letter."""
        return min(self._link.max_payload, LETTER_BYTES) if self._link is not None else LETTER_BYTES

    def send(self, node: str, tag: str, letter: bytes, *, answer_to: str = "") -> None:
        """To the inbox of a node."""
        self._publish(self._inbox(node, tag), letter, self._inbox(self.id, answer_to) if answer_to else "")

    def offer(self, subject: str, tag: str, letter: bytes) -> None:
        """To one of the queue group."""
        self._publish(f"{self._prefix}.r.{subject}", letter, self._inbox(self.id, tag))

    def _publish(self, subject: str, letter: bytes, reply: str) -> None:
        # However slow the network is, nobody waits here: what goes out is asked for, and answered, one by one.
        link = self._link
        if link is None or not self._up:
            raise BusAway("The bus is not connected.")
        link.publish(subject, letter, reply)

    def _inbox(self, node: str, tag: str) -> str:
        return f"{self._prefix}.i.{node}.{tag}"

    def _tell(self, subject: str, data: bytes) -> None:
        link = self._link
        if link is None:
            return
        waiting = link.waiting_bytes
        if waiting + len(data) > WAITING_BYTES or len(data) > self.limit:
            moment = time.monotonic()
            if moment - self._dropped_at >= QUIET_S:
                self._dropped_at = moment
                logger.warning("hints are dropped: one of %s has %d bytes, %d wait", subject, len(data), waiting)
            return
        with suppress(BusAway):
            link.publish(f"{self._prefix}.h.{subject}", data)

    def _ask(
        self, subject: str, payload: Mapping[str, Any], body: bytes, within_s: float
    ) -> Coroutine[Any, Any, Answer]:
        return self._asking.ask(subject, payload, body, within_s)

    def _listen(self, subject: str) -> None:
        self._subscribe(f"{self._prefix}.h.{subject}")

    def _unlisten(self, subject: str) -> None:
        self._unsubscribe(f"{self._prefix}.h.{subject}")

    def _offer(self, subject: str) -> None:
        self._subscribe(f"{self._prefix}.r.{subject}", QUEUE)

    def _withdraw(self, subject: str) -> None:
        # A request that is on its way still comes, and is given back to who asked.
        self._unsubscribe(f"{self._prefix}.r.{subject}")

    def _subscribe(self, subject: str, queue: str = "") -> None:
        """Without a connection nothing is said: the next begins with all that is wanted."""
        if self._link is not None and subject not in self._subscriptions:
            with suppress(BusAway):
                self._subscriptions[subject] = self._link.subscribe(subject, queue)

    def _unsubscribe(self, subject: str) -> None:
        number = self._subscriptions.pop(subject, None)
        if self._link is not None and number is not None:
            with suppress(BusAway):
                self._link.unsubscribe(number)

    # -- what comes in -----------------------------------------------------------------------

    def _message(self, message: Message) -> None:
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
        """Connect to the first server that answers and serves. Raises BusAway: what the last one said."""
        servers = self._servers.in_turn()
        while True:
            link = await first_that_answers(servers, self._linked)
            try:
                await self._begin(link)
            except BusAway:
                if not servers:
                    raise
            except RequestLost as lost:
                if not servers:
                    raise BusAway(f"The NATS server {link.shown} was there, and then: {lost.message}") from None
            else:
                return

    async def _linked(self, server: NatsServer) -> Link:
        link = Link(server, self._message, self._address)
        await link.connect(self.id)
        return link

    async def _begin(self, link: Link) -> None:
        """Subscribe all that is wanted; it holds when the mark after it has come back."""
        self._link, self._subscriptions = link, {}
        try:
            self._subscribe(f"{self._prefix}.i.{self.id}.*")
            for subject in self._heard_subjects:
                self._listen(subject)
            for subject in self._served_subjects:
                self._offer(subject)
            await self._marked()
        except BaseException as why:
            is_over = link.lost.is_set()
            await self._let_go(LOST)
            if isinstance(why, RequestLost) and not is_over:
                raise BusAway(
                    f"The NATS server {link.shown} takes this node in, and passes nothing on to it.",
                    remedy=f"Give the user of --bus the right to publish and to subscribe on {self._prefix}.>; the log "
                    "has what the server refused.",
                ) from None
            raise
        self._up = True

    async def _marked(self) -> None:
        """Wait for a mark, sent after everything else. Raises RequestLost where it does not come back."""
        link = self._link
        if link is None:
            raise RequestLost("The bus is not connected.")
        tag, back = self._mail.tag(), asyncio.get_running_loop().create_future()

        def take(letter: Letter) -> None:
            if not back.done():
                back.set_result(letter)

        with self._mail.waiting(tag, take):
            try:
                link.publish(self._inbox(self.id, tag), packed({"op": "mark"}))
            except BusAway:
                raise RequestLost("The connection was lost.") from None
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
            except BusAway as why:
                logger.info("%s", why)
            except Exception:
                logger.exception("connecting to NATS failed")  # and is tried again, for ever
            else:
                return

    async def _let_go(self, why: Letter) -> None:
        link, self._link, self._up = self._link, None, False
        self._subscriptions = {}
        self._clocks.forget()
        self._mail.away(why)
        if link is not None:
            self._servers.leave(link.server)
            self._servers.names(link.places, link.server, tls=link.secured)
            await link.close()
