"""The URL of a NATS bus: its servers, what opens them, and the name under which an installation goes there."""

import re
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from orchestrator.core.errors import InvalidRequest

PORT: Final = 4222
REMEDY: Final = "Write nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT][,HOST[:PORT]…][/NAME], or tls://… alike."
NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")


class NatsServer(NamedTuple):
    """One server, and what it is told of who comes; never shown, but for ``shown``."""

    host: str
    port: int
    tls: bool
    user: str | None = None
    password: str | None = None
    token: str | None = None

    @property
    def shown(self) -> str:
        """The server without any secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The server's URL without any secret."""
        return f"{'tls' if self.tls else 'nats'}://{self.shown}"


class NatsAddress(NamedTuple):
    """Where a bus is, and what its subjects begin with."""

    servers: tuple[NatsServer, ...]
    prefix: str


def nats_address(url: str) -> NatsAddress:
    """The address that the URL means; raises InvalidRequest, which shows nothing of it."""
    scheme, _, rest = url.partition("://")
    whole, _, name = rest.replace(f",{scheme}://", ",").partition("/")
    if name and not NAME.fullmatch(name):
        raise _refused("its name after the slash has other characters than letters, digits, _ and -")
    first: SplitResult | None = None
    servers = []
    for one in whole.split(","):
        try:
            parts = urlsplit(f"{scheme}://{one}")
            port = parts.port or PORT
        except ValueError:
            raise _refused("a port or an address in it is none") from None
        if not parts.hostname or parts.query or parts.fragment:
            raise _refused("a server in it has no host")
        first = first or parts
        servers.append(_server(parts, port, first))
    return NatsAddress(tuple(servers), f"cco.{name}" if name else "cco")


def _server(parts: SplitResult, port: int, first: SplitResult) -> NatsServer:
    """A server; one that says nothing of who comes is told what the first is told."""
    who = parts if parts.username is not None else first
    host, tls = parts.hostname or "", parts.scheme == "tls"
    if who.username is None:
        return NatsServer(host, port, tls)
    if who.password is None:
        return NatsServer(host, port, tls, token=unquote(who.username))
    return NatsServer(host, port, tls, user=unquote(who.username), password=unquote(who.password))


def _refused(why: str) -> InvalidRequest:
    return InvalidRequest(f"The NATS bus cannot be opened by this URL: {why}.", remedy=REMEDY)
