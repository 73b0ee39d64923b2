"""What the Minecraft server permits of the network, and the sentences in which the mod refuses."""

import asyncio
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

PRIVATE: Final = tuple(
    ipaddress.ip_network(each)
    for each in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.168.0.0/16", "224.0.0.0/4", "::/128", "::1/128", "fc00::/7", "fe80::/10", "ff00::/8"),
    )
)
"""What the mod calls ``$private``."""
COULD_NOT_CONNECT: Final = "Could not connect"
TIMED_OUT: Final = "Timed out"
NOT_SECURE: Final = "Could not create a secure connection"


class NetError(Exception):
    """The network refuses; the text is the sentence that Lua sees."""


@dataclass(frozen=True)
class Rules:
    """The Minecraft server's settings of HTTP.

    Attributes:
        http: Whether there is an ``http`` at all.
        websockets: Whether WebSockets may be opened.
        deny_private: Refuse loopback and the local network, as the mod does until somebody allows them.
        only: Refuse everything but WebSockets to this URL, whatever its query; None: there is no such rule.
    """

    http: bool = True
    websockets: bool = True
    deny_private: bool = False
    only: SplitResult | None = None

    async def address(self, parts: SplitResult, default_port: int) -> tuple[str, int]:
        """The address to dial. Raises NetError for a host that is unknown or not permitted."""
        if self.only is not None and _door(parts) != _door(self.only):
            raise NetError("Domain not permitted")
        port = parts.port or default_port
        host = await _resolve(parts.hostname or "", port)
        address = ipaddress.ip_address(host.partition("%")[0])
        if self.deny_private and any(address in network for network in PRIVATE):
            raise NetError("Domain not permitted")
        return host, port


def _door(parts: SplitResult) -> tuple[str, str | None, int | None, str]:
    return parts.scheme, parts.hostname, parts.port, parts.path


async def _resolve(host: str, port: int) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NetError("Unknown host") from None
    # Java takes the first address, and prefers those of version 4.
    found.sort(key=lambda each: each[0] != socket.AF_INET)
    return str(found[0][4][0])


def split(url: bytes) -> SplitResult:
    """The parts of a URL. Raises NetError for what Java's ``URI`` does not read."""
    text = url.decode("latin-1")
    if any(not "!" <= char <= "~" or char in '"<>\\^`{|}' for char in text):
        raise NetError("URL malformed")
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise NetError("URL malformed") from None
    return parts


def read_http_url(url: bytes) -> SplitResult:
    """The parts of a URL of a request. Raises NetError in the mod's words."""
    parts = split(url)
    if not parts.scheme:
        raise NetError("Must specify http or https")
    if not parts.hostname:
        raise NetError("URL malformed")
    if parts.scheme not in {"http", "https"}:
        raise NetError(f"Invalid protocol '{parts.scheme}'")
    return parts


def read_socket_url(url: bytes) -> SplitResult:
    """The parts of a URL of a WebSocket. Raises NetError in the mod's words."""
    parts = split(url)
    if not parts.scheme or not parts.hostname:
        raise NetError("URL malformed")
    if parts.scheme not in {"ws", "wss"}:
        raise NetError(f"Invalid scheme '{parts.scheme}'")
    return parts


def friendly(error: BaseException) -> str:
    """The sentence of the mod for what went wrong on the wire."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NetError):
            return str(cause)
        if isinstance(cause, TimeoutError):
            return TIMED_OUT
        if isinstance(cause, ssl.SSLError):
            # Whoever speaks no TLS at all is not taken for one who has the wrong certificate.
            return COULD_NOT_CONNECT if cause.reason == "WRONG_VERSION_NUMBER" else NOT_SECURE
        cause = cause.__cause__ or cause.__context__
    return COULD_NOT_CONNECT
