"""One connection to one NATS server: once it is lost it is lost for ever, and the next is another object.

A client of our own, as nats-py loses three promises. It keeps a request that is made while the server is away, and
sends it after it has connected again, when the asker has given up. It tells the password of a tls:// URL in the clear
to a server that offers no TLS. And a message with its answer takes it more than twice the time and the processor time:
here a letter is written in the turn in which it is published, and handed on in the turn in which it comes.
"""

import asyncio
import logging
import re
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final, cast

from orchestrator.adapters.bus import nats_protocol as protocol
from orchestrator.adapters.bus.nats_protocol import (
    Event,
    Info,
    Message,
    NatsAddress,
    NatsServer,
    NotNats,
    Parser,
    Trouble,
    context,
    signed,
)
from orchestrator.adapters.bus.remote import HINTS_APART_S
from orchestrator.core.errors import BusAway, OrchestratorError

# -- Why there is no connection to a NATS server, in words for people, and never with a secret

CONNECT_S: Final = 3.0
"""The time a server has to connect, and to answer the first message."""

_START: Final = (
    "Start it, or correct the URL of the bus (--bus): tls:// or nats://, user and password or token, host and port."
)
_FIRST: Final = "Where it has handshake_first, write ?tlsfirst=true at the end of the URL."
_LET_IN: Final = (
    "Check what the URL of the bus (--bus) says of the client: user and password, a token, creds=FILE, nkey=FILE or, "
    "where the server knows its users by their certificates, tlscert=FILE; a JWT may also have run out."
)


class Failed(Exception):
    """The connection does not come about; it says why."""


class Refused(Failed):
    """The server said so itself."""


def away(server: NatsServer, why: Exception, *, heard: bool) -> BusAway:
    """The sentence for a server to which there is no connection; ``heard``: whether it has said anything."""
    name = f"The NATS server {server.shown}"
    said = without_secrets(server, str(why))
    start = _START if heard or not server.tls else f"{_START} {_FIRST}"
    match why:
        case OrchestratorError():
            return BusAway(why.message, remedy=why.remedy)
        case ssl.SSLCertVerificationError():
            return BusAway(
                f"{name} shows a certificate that is not to be trusted: {why.verify_message}.",
                remedy="Name its authority by ?tlsca=FILE in the URL of the bus (--bus), write the host as its "
                "certificate has it, or fix the certificate.",
            )
        case ssl.SSLError() if "CERTIFICATE_REQUIRED" in said.upper().replace(" ", "_"):
            return BusAway(
                f"{name} wants to see a certificate of this node.",
                remedy="Add ?tlscert=FILE&tlskey=FILE to the URL of the bus (--bus): one of an authority that the "
                "server trusts.",
            )
        case ssl.SSLError():
            return BusAway(
                f"{name} and this node could not agree on TLS ({(why.reason or 'no reason given').lower()}).",
                remedy="See the server's log. Where it refuses this node's certificate, name another by tlscert=FILE "
                "and tlskey=FILE; where it speaks no TLS, write nats://; only where it has handshake_first, write "
                "tlsfirst=true.",
            )
        case Refused():
            return BusAway(f"{name} does not let this node in: {said}.", remedy=_LET_IN)
        case TimeoutError() if not why.args:
            return BusAway(f"{name} did not answer within {CONNECT_S:g} s.", remedy=start)
        case Failed():
            return BusAway(f"{name} {said}.", remedy=start)
        case _:
            return BusAway(f"{name} could not be reached: {said}.", remedy=_START)


def without_secrets(server: NatsServer, said: str) -> str:
    """What was said, without what opens the server."""
    said = said.strip("'. ") or "no reason given"
    for secret in (server.password, server.token, server.user):
        said = said.replace(secret, "…") if secret else said
    return said[:200]


# -- One connection to one NATS server: once it is lost it is lost for ever, and the next is another object

logger = logging.getLogger(__name__)

Came = Callable[[Message], None]
"""Takes a message; it does not raise."""

OLDEST: Final = (2, 10)
"""The oldest server that is spoken to; Debian 12 has 2.9.10, which ignores in silence what it does not know."""
CLOSE_S: Final = 2.0
ABANDON_S: Final = 0.2
PING_S: Final = 1.0
PINGS: Final = 3
"""A server that says nothing to so many pings, one each PING_S, is gone, whatever its socket says: with what it takes
to connect to another it is left within five seconds."""
MOST_PLACES: Final = 100
"""The most servers of a cluster that are known."""
QUIET_S: Final = 60.0
"""The same trouble is logged once in this time."""
PAYLOAD_BYTES: Final = 1024 * 1024
"""The longest message that a server takes which does not say."""

_VERSION: Final = re.compile(r"(\d{1,9})\.(\d{1,9})")


class Link(asyncio.Protocol):
    """A connection. ``lost`` is set when it is: nothing comes any more, and nothing can be sent."""

    def __init__(self, server: NatsServer, came: Came, address: NatsAddress) -> None:
        self.server = server
        self._address = address
        self._came = came
        self._parser = Parser()
        self._transport: asyncio.Transport | None = None
        self._info: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._heard = False
        """Whether the server has said what it is."""
        self._told = False
        """Whether the server was told the name of this client."""
        self._hears = False
        """Whether frames are handed on: before the server has answered, nothing was asked for. Such frames come from
        somebody between."""
        self._numbers = count(1)
        self._pings = 0
        self._pinging: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self._said: dict[str, float] = {}
        self._waited = 0
        """How much had not gone out at the last ping."""
        self._hints = bytearray()
        """Notifications that wait to be sent together."""
        self._sending: asyncio.TimerHandle | None = None
        """Since they were sent last: then they are sent again."""
        self.lost = asyncio.Event()
        self.secured = False
        """Whether TLS is spoken."""
        self.places: tuple[str, ...] = ()
        """The servers of its cluster, as the server names them.

        What was said before TLS began is not the word of this server.
        """
        self.max_payload = PAYLOAD_BYTES
        """Bytes of the longest message that the server takes."""

    async def connect(self, name: str) -> None:
        """Connect under a name that the server's operator sees. Raises BusAway, which shows no secret."""
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._connect(name)
        except BaseException as why:
            self._lose()
            await self.close()
            if isinstance(why, BusAway) or not isinstance(why, Exception):
                raise
            raise away(self.server, why, heard=self._heard) from None
        self._pinging = asyncio.get_running_loop().call_later(PING_S, self._ping)

    @property
    def shown(self) -> str:
        """The server's host and port."""
        return self.server.shown

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait to be sent, or for a slow network."""
        unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return unsent + len(self._hints)

    def publish(self, subject: str, data: bytes, reply: str = "") -> None:
        """Send. Raises BusAway where it is lost, and nothing was sent."""
        self._write(protocol.publish(subject, reply, data))

    def tell(self, subject: str, data: bytes) -> None:
        """Send a notification at once where none was sent lately, else a little later or with what else goes out.

        Where the connection is lost, it is dropped.
        """
        self._hints += protocol.publish(subject, "", data)
        if self._sending is None:
            self._send_hints()

    def subscribe(self, subject: str, queue: str = "") -> int:
        """Ask for what comes; the answer is its number. Raises BusAway."""
        number = next(self._numbers)
        self._write(protocol.subscribe(subject, queue, number))
        return number

    def unsubscribe(self, number: int) -> None:
        """Ask for nothing more; what is on its way still comes. Raises BusAway."""
        self._write(protocol.unsubscribe(number))

    async def close(self) -> None:
        """Send what waits and let go, in CLOSE_S at most, or ABANDON_S where it is lost."""
        patience_s = ABANDON_S if self.lost.is_set() else CLOSE_S
        if self._hints:
            with suppress(BusAway):
                self._write(b"")
        self._lose()
        if self._transport is None:
            return
        self._transport.close()
        try:
            async with asyncio.timeout(patience_s):
                await self._ended.wait()
        except TimeoutError:
            self._transport.abort()

    # -- how it begins -----------------------------------------------------------------------

    async def _connect(self, name: str) -> None:
        server, first = self.server, self._address.tls_first
        made, certified = (await self._context(), self._certified) if first else (None, None)
        await asyncio.get_running_loop().create_connection(
            lambda: self, server.host, server.port, ssl=made, server_hostname=certified
        )
        self.secured = first
        info = await self._info
        self._check_version(str(info.get("version", "")))
        if not first:
            await self._secure(required=bool(info.get("tls_required")), offered=bool(info.get("tls_available")))
        told = await self._who(str(info.get("nonce", "")))
        self._told = True
        self._write(protocol.connect({"name": name, **told}) + protocol.PING)
        await self._ready

    async def _who(self, nonce: str) -> Mapping[str, Any]:
        """The credentials of the client, as the server is told."""
        server, files = self.server, self._address.files
        if files.creds or files.nkey:
            if not nonce:
                raise Failed("asks for no key, and the URL has creds or nkey")
            return await asyncio.to_thread(signed, files, nonce)
        secrets = {"user": server.user, "pass": server.password, "auth_token": server.token}
        return {what: secret for what, secret in secrets.items() if secret is not None}

    async def _secure(self, *, required: bool, offered: bool) -> None:
        """Go on over TLS where the server or the URL wants it: before any secret is told."""
        if self.server.tls and not (required or offered):
            raise Failed("does not speak TLS, which tls:// asks for")
        if not (self.server.tls or required):
            return
        assert self._transport is not None
        made = await self._context()
        # What came in the clear, beside what has just been looked at, is nobody's.
        self._parser, self.places = Parser(), ()
        secured = await asyncio.get_running_loop().start_tls(
            self._transport, self, made, server_hostname=self._certified
        )
        if secured is None:
            raise Failed("closed the connection")
        self._transport, self.secured = secured, True

    async def _context(self) -> ssl.SSLContext:
        # It reads files.
        return await asyncio.to_thread(context, self._address.files)

    @property
    def _certified(self) -> str:
        return self.server.certified or self.server.host

    def _check_version(self, version: str) -> None:
        found = _VERSION.match(version)
        if found is None or (int(found[1]), int(found[2])) < OLDEST:
            raise BusAway(
                f"The NATS server {self.server.shown} is of version {version[:40]!r}, which is too old.",
                remedy=f"Install a nats-server of {'.'.join(map(str, OLDEST))} or newer; Debian's package is older.",
            )

    # -- what the loop calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """There is a connection."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        if self.lost.is_set():
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Hand on what came."""
        self._pings = 0
        try:
            message = self._parser.alone(data)
            for event in self._parser.receive(data) if message is None else (message,):
                if not isinstance(event, Message):
                    self._word(event)
                elif self._hears:
                    self._came(event)
        except NotNats as why:
            self._give_up(str(why))

    def connection_lost(self, why: Exception | None) -> None:
        """It is over."""
        self._fail(why or Failed("closed the connection"))
        self._lose()
        self._ended.set()

    # -- inside ------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing() or self.lost.is_set():
            raise BusAway("The connection to NATS is lost.")
        if self._hints:
            data, self._hints = bytes(self._hints) + data, bytearray()
        transport.write(data)

    def _send_hints(self) -> None:
        self._sending = None
        if self._hints:
            with suppress(BusAway):
                self._write(b"")
                self._sending = asyncio.get_running_loop().call_later(HINTS_APART_S, self._send_hints)

    def _word(self, event: Event) -> None:
        match event:
            case "PING":
                with suppress(BusAway):
                    self._write(protocol.PONG)
            case "PONG":
                if self._told and not self._ready.done():
                    self._ready.set_result(None)
                    self._hears = not self.lost.is_set()
            case Info(says):
                size = says.get("max_payload")
                self.max_payload = size if isinstance(size, int) else self.max_payload
                if isinstance(places := says.get("connect_urls"), list):
                    self.places = tuple(map(str, places[:MOST_PLACES]))
                self._heard = True
                if not self._info.done():
                    self._info.set_result(says)
            case Trouble(why):
                self._trouble(why)

    def _trouble(self, why: str) -> None:
        """The server complains; where that is the end, it closes the connection."""
        if not self._ready.done():
            self._fail(Refused(why))
            return
        shown = without_secrets(self.server, why)
        moment = time.monotonic()
        if moment - self._said.get(shown, -QUIET_S) >= QUIET_S:
            self._said[shown] = moment
            logger.warning("NATS: %s", shown)

    def _fail(self, why: Exception) -> None:
        """Tell all that wait for the connection."""
        for step in (self._info, self._ready):
            if not step.done():
                step.set_exception(why)
                step.exception()  # at most one of them is waited for

    def _ping(self) -> None:
        # A ping waits behind all that goes out before it: where that still goes, somebody takes it.
        went, self._waited = self.waiting_bytes < self._waited, self.waiting_bytes
        if went:
            self._pings = 0
        if self._pings >= PINGS:
            self._give_up("it does not answer")
            return
        self._pings += 1
        with suppress(BusAway):
            self._write(protocol.PING)
        self._pinging = asyncio.get_running_loop().call_later(PING_S, self._ping)

    def _give_up(self, why: str) -> None:
        logger.warning("a connection to NATS is given up: %s", why)
        self._fail(Failed(f"could not be understood: {why}"))
        self._lose()
        if self._transport is not None:
            self._transport.abort()

    def _lose(self) -> None:
        self._hears = False
        self.lost.set()
        for timer in (self._pinging, self._sending):
            if timer is not None:
                timer.cancel()


__all__ = ["CONNECT_S", "Failed", "Link", "Message", "Refused", "away", "without_secrets"]
