"""The connections of this server by peer: the most that each may have, and which one is closed for a new one.

Theory. A process has a limited number of files. Here the soft limit is raised to the hard one, a part of it is kept
for the store, the checkpoints and models, and connections get the rest. A connection on which nobody showed a token
counts for its address; of one address and of one token there are only so many, and more of those that ask. One more
is taken in all the same, and the connection that was silent for longest makes room: a person at an address from which
a flood comes is still answered. A new connection is not silent at once, since many may come in one turn of the loop,
before their requests are read. Of one token it is one without a request under way, while there is any: a program that
asks a thousand things at once loses no answer. When nothing may make room, a new connection is closed. A configured
proxy speaks for many addresses, so only the total counts for it.

Requests of nobody who is known begin a few in each turn of the loop, one address after the other. So turns stay short
however many come at once, and an address from which many come waits for itself.
"""

import asyncio
import ipaddress
import logging
import math
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from starlette.requests import HTTPConnection

from orchestrator.core.approval.people import Unseen
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Clock, Identity
from orchestrator.core.task.items import SYSTEM, Actor
from orchestrator.core.task.system_facts import AttemptRefused
from orchestrator.engine.tasks import person

# -- The connections of this server by who is behind them: how many each may have, and who makes room

KNOWN: Final = "cc-orchestrator.known"
"""The key under which a scope's extensions have the function to call when somebody showed who they are."""
EACH: Final = 128
"""Connections of one address that sent no request for ``SILENT_S``; a browser opens six."""
SILENT_S: Final = 1.0
"""A loop with much to do reads the first request of a connection within this time."""
OF_TOKEN: Final = 1024
"""Connections of one token: a program of its owner may ask many things at once."""
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
    """Raise the soft limit of open files as far as it goes; its present value."""
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
    """The group that an address counts for: of IPv6 the network of 64 bits, all of which one peer usually has."""
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
    """All connections of a server. ``most``: in total, of which a token has an eighth at most."""

    def __init__(self, most: int = 1024, proxies: Iterable[Network] = ()) -> None:
        self._most, share = most, max(most // 8, 1)
        self._each = {
            "address": min(EACH, share),
            "active": min(EACH, share) * ACTIVE,
            "token": min(OF_TOKEN, share),
        }
        self._proxies = tuple(proxies)
        self._key: dict[asyncio.BaseTransport, _Key] = {}
        self._of: dict[_Key, dict[asyncio.BaseTransport, float]] = {}
        """The connections of each with the time of their last sign, the one that was silent for longest first."""
        self._asking: set[asyncio.BaseTransport] = set()
        """Those on which a request is under way, or that became a socket."""
        self._waiting: dict[_Key, deque[Callable[[], None]]] = {}
        """The first bytes of the waiting requests, by sender; the next one first."""
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

    def asks(self, transport: asyncio.BaseTransport) -> None:
        """The head of a request came on a connection."""
        self._asking.add(transport)

    def rests(self, transport: asyncio.BaseTransport) -> None:
        """The request of a connection is answered."""
        self._asking.discard(transport)

    def goes_on(self, transport: asyncio.BaseTransport) -> None:
        """A request of a connection is whole: it was not silent."""
        key = self._key.get(transport)
        if key is not None and key[0] == "address":
            self._forget(transport)
            self._put(transport, ("active", key[1]))
        elif key is not None:
            del self._of[key][transport]
            self._of[key][transport] = asyncio.get_running_loop().time()

    def known(self, transport: asyncio.BaseTransport, token: str) -> None:
        """Somebody with a token of this hash is behind a connection."""
        key = self._key.get(transport)
        if key is not None and key != ("token", token):
            self._forget(transport)
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

    def is_crowded(self, transport: asyncio.BaseTransport) -> bool:
        """Whether so many of its address wait to be known that some would soon make room without an answer."""
        key = self._key.get(transport, ("", ""))
        return key[0] == "active" and len(self._of[key]) > self._each["active"] // 2

    def leaves(self, transport: asyncio.BaseTransport) -> None:
        """A connection is over."""
        self._asking.discard(transport)
        self._forget(transport)

    def _forget(self, transport: asyncio.BaseTransport) -> None:
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
        now = ones[transport] = asyncio.get_running_loop().time()
        self._key[transport] = key
        kind, most = key[0], self._each.get(key[0], self._most)
        if len(ones) <= most:
            return
        silent, since = next(iter(ones.items()))
        # All computers of a game server dial at once, from one address: each is heard, and told when to dial again.
        if kind == "address" and now - since < SILENT_S and len(ones) <= self._most // 2:
            return
        self._say(f"{'one token' if kind == 'token' else key[1]} has more than {most}")
        if kind == "token":
            silent = next((one for one in ones if one not in self._asking), silent)
        self._end(silent)

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


# -- Wrong secrets by who sends them, in a sliding minute: guessing is bounded, and a typing error locks out
# nobody
#
# Theory. Many people may share an address: all computers of a game server do. So only wrong secrets are answered with
# 429. A right one is always taken, or one player could stop all others. The limit on guesses is then the size of the
# secret, and where it is short, a pause before each further look.

WRONG_WITHIN_S: Final = 60.0
WRONG_TRIES: Final = 10
"""Wrong ones that one may send in ``WRONG_WITHIN_S``."""
_KEYS: Final = 10_000
"""Those who are remembered; the one that was wrong longest ago makes room."""


class TooManyTries(OrchestratorError):
    """Too many wrong codes or tokens came from an address or a computer."""

    code = "too_many_tries"
    http_status = 429


@dataclass
class Tries:
    """The wrong ones of a kind; ``what`` came from ``whence`` (such as "this address"), and what to do ``again``."""

    what: str
    again: str
    whence: str = "this address"
    most: int = WRONG_TRIES
    times: dict[str, deque[float]] = field(default_factory=dict)

    def full(self, who: str, now: float) -> bool:
        """Whether one more wrong secret is too many."""
        return len(self._of(who, now)) >= self.most

    def count(self, who: str, now: float) -> None:
        """Count a wrong one. Raises TooManyTries when it is too many."""
        times = self._of(who, now)
        self.times.pop(who, None)
        self.times[who] = times
        if len(self.times) > _KEYS:
            del self.times[next(iter(self.times))]
        if len(times) >= self.most:
            raise TooManyTries(
                f"{self.most} wrong {self.what} came from {self.whence} within a minute.",
                remedy=f"Wait a minute, then {self.again}.",
            )
        times.append(now)

    def _of(self, who: str, now: float) -> deque[float]:
        times = self.times.get(who, deque())
        while times and now - times[0] >= WRONG_WITHIN_S:
            times.popleft()
        return times


# -- Refused attempts are recorded: an audit of admitted requests alone shows half (promises A1, D7)
#
# A token that is tried a thousand times a second must not fill a disk, nor memory: attempts that are alike are
# written down once a minute, with how many more there were, and all together only so many a minute. Those of
# nobody are counted for themselves: a stranger at the port could else hide what somebody in the server tries.
# What is not written down one by one, and what came too often to be looked at (429), is counted, and one item a
# minute says so.

RECORDED: Final = frozenset({401, 403, 409})
COUNTED: Final = 429
"""Refusals with this status are counted, and none is written down for itself."""
WITHIN: Final = timedelta(minutes=1)
MOST_A_MINUTE: Final = 120
"""Different refusals that are written down within a minute; more than a class of people makes by mistake."""
_ENDPOINT_CHARS: Final = 200
_ID_CHARS: Final = 100
ALL_ENDPOINTS: Final = "all doors"
NOT_WRITTEN: Final = "not_one_by_one"
"""The endpoint and the code of the item that says how many there were."""
NOBODY: Final = Actor(kind="person", id="", auth="none")


@dataclass
class Attempts:
    """The refusals of one node. ``record`` appends to the node's own stream."""

    record: Callable[[AttemptRefused, Actor], Awaitable[object]]
    clock: Clock
    _begun: datetime | None = None
    _counts: dict[bool, dict[tuple[str, ...], int]] = field(default_factory=dict)
    """Counts of those whom a token names, and of nobody."""
    _more: Counter[str] = field(default_factory=Counter)
    """By code, how many no item says anything of yet."""
    _since: datetime | None = None
    _some: asyncio.Event = field(default_factory=asyncio.Event)

    async def refused(
        self, connection: HTTPConnection, identity: Identity | None, error: OrchestratorError, *, request_id: str = ""
    ) -> None:
        """Write a refusal down, if it is one that counts."""
        endpoint = f"{connection.scope.get('method', 'WEBSOCKET')} {connection.url.path}"
        await self.refused_at(endpoint, identity, error, request_id=request_id)

    async def refused_at(
        self, endpoint: str, identity: Identity | None, error: OrchestratorError, *, request_id: str = ""
    ) -> None:
        """The same for a frame on a socket, whose endpoint is said."""
        if error.http_status == COUNTED:
            self._count(error.code)
        if error.http_status not in RECORDED and not isinstance(error, Unseen):
            return
        actor = NOBODY if identity is None else person(identity)
        endpoint, request_id = endpoint[:_ENDPOINT_CHARS], request_id[:_ID_CHARS]
        key = (actor.id, endpoint, error.code, request_id)
        now = self.clock.now()
        if self._begun is None or now - self._begun >= WITHIN:
            self._begun, self._counts = now, {}
        counts = self._counts.setdefault(identity is not None, {})
        if key not in counts and len(counts) >= MOST_A_MINUTE:
            self._count(error.code)
            return
        count = counts[key] = counts.get(key, 0) + 1
        # The first at once, then at 10, 100, 1,000: a series of them is seen, and is not written a thousand times.
        if not _is_power_of_ten(count):
            self._count(error.code)
            return
        # The item says how many there were: those since the last one are counted no more.
        self._more[error.code] = max(self._more[error.code] - (count - count // 10 - 1), 0)
        fact = AttemptRefused(
            door=endpoint,
            code=error.code,
            status=error.http_status,
            detail=error.message[:500],
            request_id=request_id or _request_of(endpoint),
            more=count - 1,
        )
        await self.record(fact, actor)

    async def keep(self) -> None:
        """Write down each minute how many there were; goes on until it is canceled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(WITHIN.total_seconds())
            try:
                await self.tell()
            except OrchestratorError as error:
                logger.warning("refusals are counted and not written down yet: %s", error.message)

    async def tell(self) -> None:
        """Write one item that says how many refusals no item says anything of, if there are any.

        Raises what recording raises; they are counted on then.
        """
        more, since, self._more = +self._more, self._since, Counter()
        self._some.clear()
        if not more or since is None:
            return
        codes = ", ".join(f"{number} {code}" for code, number in more.most_common())
        detail = f"Refused since {since:%Y-%m-%d %H:%M:%S} UTC and not written down one by one: {codes}."
        fact = AttemptRefused(
            door=ALL_ENDPOINTS, code=NOT_WRITTEN, status=COUNTED, detail=detail[:500], more=more.total()
        )
        try:
            await self.record(fact, SYSTEM)
        except BaseException:
            self._more.update(more)
            self._since = since
            self._some.set()
            raise

    def _count(self, code: str) -> None:
        if not self._some.is_set():
            self._since = self.clock.now()
            self._some.set()
        self._more[code] += 1


def _is_power_of_ten(count: int) -> bool:
    return str(count).strip("0") == "1"


def _request_of(endpoint: str) -> str:
    """The request that a path names, if it names one."""
    parts = endpoint.split("/")
    named = ("resume", "approve", "reject", "requests")
    return parts[3][:_ID_CHARS] if len(parts) > 3 and parts[2] in named else ""
