"""The bus over core NATS: notifications are messages, requests go to queue groups, answers to an inbox of each node.

Subjects: ``PREFIX.h.SUBJECT`` of notifications, ``PREFIX.r.SUBJECT`` of requests, ``PREFIX.i.NODE.TAG`` of letters
to a node.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from orchestrator.adapters.bus.letters import RETURNED, unpacked
from orchestrator.adapters.bus.nats_link import Link, Message
from orchestrator.adapters.bus.nats_protocol import NatsServer, check, discovered, nats_address
from orchestrator.adapters.bus.remote import LETTER_BYTES, LOST, RemoteBus
from orchestrator.core.errors import BusAway, RequestLost

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
        """That server was lost: it is tried last."""
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

WAITING_BYTES: Final = 16 * 1024 * 1024
"""Bytes of notifications that wait for a slow network; more are dropped."""
QUIET_S: Final = 60.0
"""Seconds between two notes in the log that notifications are dropped."""
QUEUE: Final = "one"
"""The queue group of those who serve."""


class NatsBus(RemoteBus[Link]):
    """Notifications and requests over a NATS server. ``node``: what this node is called there."""

    def __init__(self, url: str, *, node: str) -> None:
        super().__init__(node=node, network="NATS")
        self._address = nats_address(url)
        check(self._address.files, tls=self._address.servers[0].tls)
        self._servers, self._prefix = NatsServers(self._address.servers), self._address.prefix
        self._subscriptions: dict[str, int] = {}
        self._dropped_at = -QUIET_S

    # -- what goes out -----------------------------------------------------------------------

    @property
    def limit(self) -> int:
        """Bytes of the longest letter."""
        return min(self._line.max_payload, LETTER_BYTES) if self._line is not None else LETTER_BYTES

    def send(self, node: str, tag: str, letter: bytes, *, answer_to: str = "") -> None:
        """Send to the inbox of a node."""
        self._publish(self._inbox(node, tag), letter, self._inbox(self.id, answer_to) if answer_to else "")

    def offer(self, subject: str, tag: str, letter: bytes) -> None:
        """Send to one of the queue group."""
        if not self._up:
            raise BusAway("The bus is not connected.")
        self._publish(f"{self._prefix}.r.{subject}", letter, self._inbox(self.id, tag))

    def _publish(self, subject: str, letter: bytes, reply: str) -> None:
        # However slow the network is, nobody waits here: requests go out and are answered one by one.
        link = self._line
        if link is None:
            raise BusAway("The bus is not connected.")
        link.publish(subject, letter, reply)

    def _inbox(self, node: str, tag: str) -> str:
        return f"{self._prefix}.i.{node}.{tag}"

    def _tell(self, subject: str, data: bytes) -> None:
        link = self._line
        if link is None:
            return
        waiting = link.waiting_bytes
        if waiting + len(data) > WAITING_BYTES or len(data) > self.limit:
            moment = time.monotonic()
            if moment - self._dropped_at >= QUIET_S:
                self._dropped_at = moment
                logger.warning("hints are dropped: one of %s has %d bytes, %d wait", subject, len(data), waiting)
            return
        link.tell(f"{self._prefix}.h.{subject}", data)

    def _listen(self, subject: str) -> None:
        self._subscribe(f"{self._prefix}.h.{subject}")

    def _unlisten(self, subject: str) -> None:
        self._unsubscribe(f"{self._prefix}.h.{subject}")

    def _offer(self, subject: str) -> None:
        self._subscribe(f"{self._prefix}.r.{subject}", QUEUE)

    def _withdraw(self, subject: str) -> None:
        # A request that is on its way still comes, and goes back to the asker.
        self._unsubscribe(f"{self._prefix}.r.{subject}")

    def _subscribe(self, subject: str, queue: str = "") -> None:
        """Without a connection nothing is said: the next one begins with all wanted subjects."""
        if self._line is not None and subject not in self._subscriptions:
            with suppress(BusAway):
                self._subscriptions[subject] = self._line.subscribe(subject, queue)

    def _unsubscribe(self, subject: str) -> None:
        number = self._subscriptions.pop(subject, None)
        if self._line is not None and number is not None:
            with suppress(BusAway):
                self._line.unsubscribe(number)

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
        self._line, self._subscriptions = link, {}
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

    def _left(self, line: Link | None) -> None:
        self._subscriptions = {}
        if line is not None:
            self._servers.leave(line.server)
            self._servers.names(line.places, line.server, tls=line.secured)
