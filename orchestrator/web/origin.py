"""Under which name a browser asks for this server, and whose page makes it ask.

Theory. A browser sends what any page tells it to, and adds the cookie of the server that it goes to. So
a cookie proves whose browser it is, never who made it ask. ``Host`` says under which name the browser
reached us: a page of another site can let its own name lead here (DNS rebinding), but cannot change what
is said. ``Origin`` says whose page asks: a scheme, a host and a port that all have to be ours, since
another port of this host is another program. Who shows a token is no browser that was led here, and is
not asked for either.
"""

import ipaddress
import re
from typing import Final, NamedTuple

from starlette.requests import HTTPConnection

from orchestrator.core.errors import Forbidden

_AUTHORITY: Final = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"(https?)://(.+)")
_PORTS: Final = {"http": 80, "https": 443}
_HTTP: Final = {"ws": "http", "wss": "https"}
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Origin(NamedTuple):
    """Whose page it is."""

    scheme: str
    host: str
    """In small letters, an address without its brackets."""
    port: int


class Place:
    """This server as browsers may name it; ``bound``: the address that it listens on, ``public_url`` may be empty."""

    def __init__(self, bound: str, public_url: str) -> None:
        self._bound = _normal(bound)
        self._public = _origin(public_url)

    def secure(self, connection: HTTPConnection) -> bool:
        """Whether browsers reach this server by https."""
        return _scheme(connection) == "https" or (self._public is not None and self._public.scheme == "https")

    def check_host(self, connection: HTTPConnection) -> None:
        """Raises Forbidden for a name that is not known to be ours."""
        asked = self._asked(connection)
        if asked is None or not self._is_ours(asked.host):
            raise Forbidden(
                "The address that you asked for is not one of this orchestrator's.",
                remedy="Open it by the address that it printed, or name this one in the setting public_url.",
            )

    def check_origin(self, connection: HTTPConnection) -> None:
        """Raises Forbidden unless a page of ours asks, as far as the browser has to say it.

        Of a GET within one page's server browsers need not say it; of everything else, and of a WebSocket, they do.
        """
        origins = connection.headers.getlist("origin")
        sites = connection.headers.getlist("sec-fetch-site")
        safe = connection.scope.get("method") in _SAFE
        if origins or connection.scope["type"] == "websocket":
            found = _origin(origins[0]) if len(origins) == 1 else None
            fine = found is not None and found in (self._asked(connection), self._public)
        elif sites:
            fine = sites == ["same-origin"] or (safe and sites == ["none"])
        else:
            fine = safe
        if not fine:
            raise Forbidden(
                "A page of another site asked for this, or your browser does not say whose page it was.",
                remedy="Use the console's own page. Behind a proxy, the setting public_url has to be its address. "
                "A program sends a token: Authorization: Bearer TOKEN.",
            )

    def _asked(self, connection: HTTPConnection) -> Origin | None:
        hosts = connection.headers.getlist("host")
        return _origin(f"{_scheme(connection)}://{hosts[0]}") if len(hosts) == 1 else None

    def _is_ours(self, host: str) -> bool:
        if host in ("localhost", self._bound) or (self._public is not None and host == self._public.host):
            return True
        address = _address(host)
        # Nobody can let a number lead elsewhere. Who listens on all addresses may not know them: a container does not.
        everywhere = self._bound in ("0.0.0.0", "::")
        return address is not None and (address.is_loopback or everywhere)


def _scheme(connection: HTTPConnection) -> str:
    scheme: str = connection.scope["scheme"]
    return _HTTP.get(scheme, scheme)


def _origin(text: str) -> Origin | None:
    """What a URL without a path names; None: it is none."""
    parts = _ORIGIN.fullmatch(text)
    named = _AUTHORITY.fullmatch(parts[2]) if parts else None
    if parts is None or named is None:
        return None
    return Origin(parts[1], _normal(named[1]), int(named[2] or _PORTS[parts[1]]))


def _normal(host: str) -> str:
    host = host.lower().removeprefix("[").removesuffix("]")
    address = _address(host)
    return host if address is None else str(address)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
