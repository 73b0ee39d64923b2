"""The connections of this server by who is behind them: how many each may have, and who makes room.

Theory. A process has a limited number of files. Here the soft limit is raised to the hard one, a part of it is kept
for the store, the checkpoints and models, and connections get the rest. A connection on which nobody showed a token
counts for its address; of one address and of one token there are only so many, and more of those that ask. One more
is taken in all the same, and the connection that was silent for longest makes room: a person at an address from which
a flood comes is still answered. When nothing may make room, a new connection is closed. A configured proxy speaks for
many addresses, so only the total counts for it.

Requests of nobody who is known begin a few in each turn of the loop, one address after the other. So turns stay short
however many come at once, and an address from which many come waits for itself.
"""

import asyncio
import ipaddress
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from starlette.requests import HTTPConnection

KNOWN: Final = "cc-orchestrator.known"
"""The key under which a scope's extensions have the function to call when somebody showed who they are."""
EACH: Final = 128
"""Connections of one address that sent no request yet, and connections of one token; a browser opens six."""
ACTIVE: Final = 4
"""So many times more of one address may have sent a request without a token: they end soon after it."""
BEGIN: Final = 16
"""Requests of nobody who is known that begin in one turn of the loop; one takes a fraction of a millisecond."""
MOST_FILES: Final = 65_536
"""More than one process serves."""
RESERVE: Final = 512
"""Files that are not for connections; a quarter of the limit where that is less."""
_AGAIN_S: Final = 60.0

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Key = tuple[str, str]

logger = logging.getLogger(__name__)


def raise_file_limit() -> int:
    """Raise the soft limit of open files as far as it goes; what it is now."""
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return MOST_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Some systems have a lower limit than the one that they tell.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MOST_FILES if soft == resource.RLIM_INFINITY else soft


def room_for(files: int) -> int:
    """How many connections a process may have that may open so many files."""
    return files - min(RESERVE, files // 4)


def networks_of(proxies: str) -> tuple[Network, ...]:
    """Addresses and networks with commas between. Raises ValueError for what is neither."""
    return tuple(ipaddress.ip_network(one.strip()) for one in proxies.split(",") if one.strip())


def counted_as(address: str) -> str:
    """What an address counts as: of IPv6 the network of 64 bits, all of which one peer usually has."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
    return str(found)


def is_known(connection: HTTPConnection, token: str) -> None:
    """Somebody showed a token of this hash on a connection."""
    extensions: Mapping[str, Any] = connection.scope.get("extensions") or {}
    if (tell := extensions.get(KNOWN)) is not None:
        tell(token)


class Peers:
    """All connections of a server. ``most``: in total; ``each``: of an address or a token."""

    def __init__(self, most: int = 1024, each: int = EACH, proxies: Iterable[Network] = ()) -> None:
        self._most, self._each = most, min(each, max(most // 8, 1))
        self._proxies = tuple(proxies)
        self._key: dict[asyncio.BaseTransport, _Key] = {}
        self._of: dict[_Key, dict[asyncio.BaseTransport, None]] = {}
        """The connections of each, the one that was silent for longest first."""
        self._waiting: dict[_Key, deque[Callable[[], None]]] = {}
        """What begins the requests that wait, by who sent them; the next one first."""
        self._begun = 0
        """How many began in this turn of the loop."""
        self._let_go = 0
        self._said_at = -math.inf

    def arrives(self, transport: asyncio.BaseTransport) -> bool:
        """Take in a new connection; False: there is no room, and it has to be closed."""
        if len(self._key) >= self._most and not self._make_room():
            self._say("there is no room")
            return False
        peer = transport.get_extra_info("peername")
        self._put(transport, self._key_of(str(peer[0]) if peer else ""))
        return True

    def goes_on(self, transport: asyncio.BaseTransport) -> None:
        """A request of a connection is whole: it was not silent."""
        key = self._key.get(transport)
        if key is not None and key[0] == "address":
            self.leaves(transport)
            self._put(transport, ("active", key[1]))
        elif key is not None:
            self._of[key][transport] = self._of[key].pop(transport)

    def known(self, transport: asyncio.BaseTransport, token: str) -> None:
        """Somebody with a token of this hash is behind a connection."""
        key = self._key.get(transport)
        if key is not None and key != ("token", token):
            self.leaves(transport)
            # A proxy's connection serves one person after the other.
            self._put(transport, ("proxied", "") if key[0] in ("proxy", "proxied") else ("token", token))

    def begin(self, transport: asyncio.BaseTransport, request: Callable[[], None]) -> None:
        """Call what begins a request: now, or when its turn comes."""
        key = self._key.get(transport, ("", ""))
        if key[0] in ("token", "proxied"):
            request()
            return
        if not self._waiting and self._begun < BEGIN:
            if not self._begun:
                asyncio.get_running_loop().call_soon(self._next_turn)
            self._begun += 1
            request()
            return
        self._waiting.setdefault(key, deque()).append(request)

    def _next_turn(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < BEGIN:
            key = next(iter(self._waiting))
            ones = self._waiting.pop(key)
            request = ones.popleft()
            if ones:
                self._waiting[key] = ones
            self._begun += 1
            request()
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)

    def leaves(self, transport: asyncio.BaseTransport) -> None:
        """A connection is over."""
        key = self._key.pop(transport, None)
        if key is not None:
            del self._of[key][transport]
            if not self._of[key]:
                del self._of[key]

    def _key_of(self, address: str) -> _Key:
        with suppress(ValueError):
            if any(ipaddress.ip_address(address) in network for network in self._proxies):
                return ("proxy", "")
        return ("address", counted_as(address))

    def _put(self, transport: asyncio.BaseTransport, key: _Key) -> None:
        ones = self._of.setdefault(key, {})
        ones[transport] = None
        self._key[transport] = key
        most = {"address": self._each, "active": self._each * ACTIVE, "token": self._each}.get(key[0], self._most)
        if len(ones) > most:
            self._say(f"{'one token' if key[0] == 'token' else key[1]} has more than {most}")
            self._end(next(iter(ones)))

    def _make_room(self) -> bool:
        """End the longest silent connection of the address that has most; False: somebody is known on each."""
        unknown = [key for key in self._of if key[0] in ("address", "active", "proxy")]
        if not unknown:
            return False
        self._say("all are taken")
        most = max(unknown, key=lambda key: len(self._of[key]))
        self._end(next(iter(self._of[most])))
        return True

    def _end(self, transport: asyncio.BaseTransport) -> None:
        self.leaves(transport)
        # At once: a peer that takes nothing would keep it open.
        abort: Callable[[], None] = transport.abort  # type: ignore[attr-defined]
        abort()

    def _say(self, why: str) -> None:
        self._let_go += 1
        now = asyncio.get_running_loop().time()
        if now - self._said_at >= _AGAIN_S:
            logger.warning("connections are closed: %s (%d since the last time)", why, self._let_go)
            self._said_at, self._let_go = now, 0
