"""A pool of model servers of one kind: each with its limit, and a queue of requests that wait.

    A request waits in the line of its user. Whenever a server has room, the users are looked at in turn,
    and the first request of a line that a server with room can take is given to it. So nobody waits
    longer because another has asked more often, and a request for a server that is full holds up none
    that another server could take.

    It goes to the server that answered its conversation last, if that has room (its prefix cache is
    warm); else to the one with the smallest share of its limit in use; of equals to the one that has
    been idle longest.

    A server that failed rests, for 1 s, then 2, 4 … up to a minute. It gets nothing while another server that could
    take the request does not rest. Where all rest, they are tried: a server that was down may be up.

Nothing here speaks to a server. Each process counts for itself.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from orchestrator.adapters.models.options import Endpoint

FIRST_REST_S: Final = 1.0
LONGEST_REST_S: Final = 60.0
_REMEMBERED: Final = 1024
"""Conversations whose last server is known; one that is forgotten is read again, and no more."""


@dataclass
class _Server:
    """One server as it stands now."""

    limit: int
    busy: int = 0
    used: int = 0
    """When it was given its last request, counted in requests."""
    failures: int = 0
    """In a row."""
    rests_until: float = 0.0
    """On the loop's clock."""

    @property
    def load(self) -> tuple[float, int]:
        return self.busy / self.limit, self.used


@dataclass(eq=False)
class _Waiting:
    """One request that waits for a server."""

    among: Sequence[str]
    affinity: str
    given: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Pool:
    """The servers and those who wait for them; for one event loop at a time."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._servers = {one.url: _Server(one.limit) for one in endpoints}
        self._lines: OrderedDict[str, deque[_Waiting]] = OrderedDict()
        """The requests that wait, by user, in the order in which the users come to their turn; no line is empty."""
        self._last: OrderedDict[str, str] = OrderedDict()
        """The server that took a conversation's last request."""
        self._given = 0
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def urls(self) -> tuple[str, ...]:
        """The servers, in the order in which they were named."""
        return tuple(self._servers)

    @property
    def waiting(self) -> int:
        """Requests that have no server yet."""
        return sum(map(len, self._lines.values()))

    def busy(self, url: str) -> int:
        """Requests that a server has now."""
        return self._servers[url].busy

    @asynccontextmanager
    async def place(self, among: Sequence[str], *, user: str = "", affinity: str = "") -> AsyncGenerator[str]:
        """A place at one of these servers, once there is one; canceling the wait leaves the line."""
        waiting = _Waiting(tuple(among), affinity)
        self._lines.setdefault(user, deque()).append(waiting)
        self._serve()
        try:
            url = await waiting.given
        except asyncio.CancelledError:
            if waiting.given.done() and not waiting.given.cancelled():
                # Both in one moment: it had its place already.
                self._leave(waiting.given.result())
            else:
                self._drop(user, waiting)
                self._serve()
            raise
        try:
            yield url
        finally:
            self._leave(url)

    def rest(self, url: str) -> None:
        """Leave a server out for a while, longer each time in a row."""
        server = self._servers[url]
        rest_s = min(LONGEST_REST_S, FIRST_REST_S * 2.0 ** min(server.failures, 10))
        server.failures += 1
        server.rests_until = asyncio.get_running_loop().time() + rest_s

    def well(self, url: str) -> None:
        """A server has answered."""
        server = self._servers[url]
        server.failures, server.rests_until = 0, 0.0
        self._serve()

    def rests_s(self, url: str) -> float:
        """Seconds for which a server is still left out; 0: it is not."""
        return max(0.0, self._servers[url].rests_until - asyncio.get_running_loop().time())

    def _leave(self, url: str) -> None:
        self._servers[url].busy -= 1
        self._serve()

    def _drop(self, user: str, waiting: _Waiting) -> None:
        line = self._lines[user]
        line.remove(waiting)
        if not line:
            del self._lines[user]

    def _serve(self) -> None:
        """Give places for as long as somebody waits for one that is free."""
        while self._lines and self._serve_one():
            pass
        self._wake_later()

    def _serve_one(self) -> bool:
        if all(one.busy >= one.limit for one in self._servers.values()):
            return False
        for user, line in self._lines.items():
            for waiting in line:
                url = None if waiting.given.done() else self._choice(waiting)
                if url is not None:
                    self._give(user, waiting, url)
                    return True
        return False

    def _choice(self, waiting: _Waiting) -> str | None:
        """Where a request goes now; None: it waits."""
        awake = [url for url in waiting.among if not self.rests_s(url)] or waiting.among
        free = {url: one for url in awake if (one := self._servers[url]).busy < one.limit}
        if not free:
            return None
        last = self._last.get(waiting.affinity) if waiting.affinity else None
        return last if last in free else min(free, key=lambda url: free[url].load)

    def _give(self, user: str, waiting: _Waiting, url: str) -> None:
        self._drop(user, waiting)
        if user in self._lines:
            self._lines.move_to_end(user)
        self._given += 1
        server = self._servers[url]
        server.busy += 1
        server.used = self._given
        if waiting.affinity:
            self._last[waiting.affinity] = url
            self._last.move_to_end(waiting.affinity)
            if len(self._last) > _REMEMBERED:
                self._last.popitem(last=False)
        waiting.given.set_result(url)

    def _wake_later(self) -> None:
        """Look again when the next server has rested, where somebody waits who could go there."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if not self._lines:
            return
        rests = [one.rests_until for url, one in self._servers.items() if self.rests_s(url) and one.busy < one.limit]
        if rests:
            self._alarm = asyncio.get_running_loop().call_at(min(rests), self._serve)
