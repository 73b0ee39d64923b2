"""One connection to one NATS server: once it is lost it is lost for ever, and the next is another object.

nats-py could connect again by itself. But then it keeps what was published while it was away, and sends it when
those who asked have long given up; and a server's refusal closes it for good. So it is not allowed to.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from orchestrator.bus.nats_url import NatsServer
from orchestrator.core.errors import BusAway, InvalidRequest

try:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription
    from nats.errors import Error, SlowConsumerError, UnexpectedEOF
except ImportError as _missing:
    raise InvalidRequest(
        "The NATS bus needs nats-py, which is not installed.", remedy="pip install 'cc-orchestrator[nats]'"
    ) from _missing

__all__ = ["Link", "Msg", "Subscription"]

logger = logging.getLogger(__name__)

Came = Callable[[Msg], Awaitable[None]]

OLDEST: Final = (2, 10)
"""The oldest server that is spoken to; Debian 12 has 2.9.10, which ignores in silence what it does not know."""
CONNECT_S: Final = 3.0
"""What a server has to connect, and to answer what opens the connection."""
CLOSE_S: Final = 2.0
ABANDON_S: Final = 0.2
PING_S: Final = 10
PINGS: Final = 2
"""A server that leaves so many pings without an answer, one each PING_S, is gone, whatever its socket says."""
LOOK_S: Final = 0.5
"""How often it is looked whether nats-py gave up without saying so."""
QUIET_S: Final = 60.0
"""The same trouble is logged once in this time."""


class _Failed(Exception):
    """The connection does not come about; it says why."""


class Link:
    """A connection. ``lost`` is set when it is: nothing comes any more, and nothing can be sent."""

    def __init__(self, server: NatsServer) -> None:
        self._server = server
        self._client = Client()
        self._connecting = True
        self._said: dict[str, float] = {}
        self._watch: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()

    async def connect(self, name: str) -> None:
        """Connect under a name that the server's operator sees. Raises BusAway, which shows no secret."""
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._connect(name)
            self._check_version()
        except BaseException as why:
            self._connecting = False
            self.lost.set()
            await self.close()
            if isinstance(why, BusAway) or not isinstance(why, Exception):
                raise
            raise BusAway(f"The NATS server {self._server.shown} {self._why(why)}.") from None
        self._connecting = False
        self._watch = asyncio.ensure_future(self._look())

    @property
    def max_payload(self) -> int:
        """Bytes of the longest message that the server takes."""
        return self._client.max_payload

    async def publish(self, subject: str, data: bytes, reply: str = "") -> None:
        """Send, which may wait while much is on its way. Raises BusAway where it is lost, and nothing was sent."""
        if self.lost.is_set() or not self._client.is_connected:
            raise BusAway("The connection to NATS is lost.")
        try:
            await self._client.publish(subject, data, reply)
        except (Error, OSError) as why:
            raise BusAway("The connection to NATS is lost.") from why

    async def subscribe(self, subject: str, came: Came, queue: str = "") -> Subscription:
        """Call ``came`` with what comes. Raises BusAway."""
        try:
            return await self._client.subscribe(subject, queue, came)
        except (Error, OSError) as why:
            raise BusAway("The connection to NATS is lost.") from why

    async def close(self) -> None:
        """Send what waits and let go, in CLOSE_S at most, or ABANDON_S where it is lost."""
        patience_s = ABANDON_S if self.lost.is_set() else CLOSE_S
        self.lost.set()
        if self._watch is not None:
            self._watch.cancel()
        try:
            async with asyncio.timeout(patience_s):
                await self._client.close()
        except (Error, OSError, TimeoutError) as why:
            logger.debug("a connection to NATS was not closed in order: %s", type(why).__name__)

    async def _connect(self, name: str) -> None:
        server = self._server
        await self._client.connect(
            server.url,
            name=name,
            error_cb=self._trouble,
            closed_cb=self._closed,
            allow_reconnect=False,
            connect_timeout=int(CONNECT_S),
            ping_interval=PING_S,
            max_outstanding_pings=PINGS,
            # Given when they are sent, which is after TLS began.
            user=self._secret(server.user),
            password=self._secret(server.password),
            token=self._secret(server.token),
        )
        self._check_tls()

    def _secret(self, secret: str | None) -> Callable[[], str] | None:
        if secret is None:
            return None

        def give() -> str:
            self._check_tls()
            return secret

        return give

    def _check_tls(self) -> None:
        """nats-py takes TLS where the server wants it, and tells the password in the clear where it does not."""
        info: dict[str, Any] = getattr(self._client, "_server_info", {})
        if self._server.tls and not info.get("tls_required"):
            raise _Failed("does not speak TLS, which tls:// asks for")

    def _check_version(self) -> None:
        version = self._client.connected_server_version
        try:
            enough = (version.major, version.minor) >= OLDEST
        except ValueError:
            enough = False
        if not enough:
            shown = repr(version).removeprefix("<nats server v").removesuffix(">")
            raise BusAway(
                f"The NATS server {self._server.shown} is of version {shown[:40]!r}, which is too old.",
                remedy=f"Install a nats-server of {'.'.join(map(str, OLDEST))} or newer; Debian's package is older.",
            )

    def _why(self, why: Exception) -> str:
        if isinstance(why, TimeoutError):
            return f"did not answer within {CONNECT_S:g} s"
        said = str(why).removeprefix("nats: ").strip("'. ") or type(why).__name__
        for secret in (self._server.password, self._server.token, self._server.user):
            said = said.replace(secret, "…") if secret else said
        return said[:200] if isinstance(why, _Failed) else f"could not be reached: {said[:200]}"

    async def _trouble(self, why: Exception) -> None:
        """Called by nats-py where something went wrong beside what was asked of it."""
        if self._connecting:
            raise _Failed(self._why(why))  # it would try the same server again and again
        if isinstance(why, UnexpectedEOF | OSError) or not self._client.is_connected:
            self.lost.set()
            return
        kind = "a NATS subscription is too slow: messages were dropped" if isinstance(why, SlowConsumerError) else ""
        self._warn(kind or f"NATS: {self._why(why)}")

    async def _closed(self) -> None:
        self.lost.set()

    async def _look(self) -> None:
        while self._client.is_connected:  # noqa: ASYNC110 - nothing tells: that is what it is looked at for
            await asyncio.sleep(LOOK_S)
        self.lost.set()

    def _warn(self, what: str) -> None:
        moment = time.monotonic()
        if moment - self._said.get(what, -QUIET_S) >= QUIET_S:
            self._said[what] = moment
            logger.warning("%s", what)
