"""Wrong secrets by who sends them, in a sliding minute: guessing is bounded, and a typing error locks out nobody.

Theory. Many people may share an address: all computers of a game server do. So only wrong secrets are answered
with 429. A right one is always taken, or one player could stop all others. What bounds guesses then is the size of
the secret, and where it is short, a pause before each further look.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from starlette.requests import HTTPConnection

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Clock, Identity
from orchestrator.core.task.items import SYSTEM, Actor
from orchestrator.core.task.system_facts import AttemptRefused
from orchestrator.engine.tasks import person

# -- Wrong secrets by who sends them, in a sliding minute: guessing is bounded, and a typing error locks out
# nobody

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
        """Whether the next wrong one is too many."""
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
# nobody are counted for themselves: whoever reaches the port could else hide what somebody in the server tries.
# What is not written down one by one, and what came too often to be looked at (429), is counted, and one item a
# minute says so.

RECORDED: Final = frozenset({401, 403, 409})
COUNTED: Final = 429
"""Refusals with this status are counted, and none is written down for itself."""
WITHIN: Final = timedelta(minutes=1)
MOST_A_MINUTE: Final = 120
"""Different refusals that are written down within a minute; more than a class of people makes by mistake."""
_DOOR_CHARS: Final = 200
_ID_CHARS: Final = 100
ALL_ENDPOINTS: Final = "all doors"
NOT_WRITTEN: Final = "not_one_by_one"
"""The endpoint and the code of the item that says how many there were."""
NOBODY: Final = Actor(kind="person", id="", auth="none")


logger = logging.getLogger(__name__)


@dataclass
class Attempts:
    """The refusals of one node. ``record`` appends to the node's own stream."""

    record: Callable[[AttemptRefused, Actor], Awaitable[object]]
    clock: Clock
    _begun: datetime | None = None
    _counts: dict[bool, dict[tuple[str, ...], int]] = field(default_factory=dict)
    """Of those whom a token names, and of nobody."""
    _more: Counter[str] = field(default_factory=Counter)
    """By code, how many no item says anything of yet."""
    _since: datetime | None = None
    _some: asyncio.Event = field(default_factory=asyncio.Event)

    async def refused(
        self, connection: HTTPConnection, identity: Identity | None, error: OrchestratorError, *, request_id: str = ""
    ) -> None:
        """Write a refusal down, if it is one that counts."""
        door = f"{connection.scope.get('method', 'WEBSOCKET')} {connection.url.path}"
        await self.refused_at(door, identity, error, request_id=request_id)

    async def refused_at(
        self, door: str, identity: Identity | None, error: OrchestratorError, *, request_id: str = ""
    ) -> None:
        """The same for a frame on a socket, whose endpoint is said."""
        if error.http_status == COUNTED:
            self._count(error.code)
        if error.http_status not in RECORDED:
            return
        actor = NOBODY if identity is None else person(identity)
        door, request_id = door[:_DOOR_CHARS], request_id[:_ID_CHARS]
        key = (actor.id, door, error.code, request_id)
        now = self.clock.now()
        if self._begun is None or now - self._begun >= WITHIN:
            self._begun, self._counts = now, {}
        counts = self._counts.setdefault(identity is not None, {})
        if key not in counts and len(counts) >= MOST_A_MINUTE:
            self._count(error.code)
            return
        count = counts[key] = counts.get(key, 0) + 1
        # The first at once, then at 10, 100, 1,000: what goes on is seen, and is not written a thousand times.
        if not _is_power_of_ten(count):
            self._count(error.code)
            return
        # The item says how many there were: those since the last one are counted no more.
        self._more[error.code] = max(self._more[error.code] - (count - count // 10 - 1), 0)
        fact = AttemptRefused(
            door=door,
            code=error.code,
            status=error.http_status,
            detail=error.message[:500],
            request_id=request_id or _request_of(door),
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


def _request_of(door: str) -> str:
    """The request that a path names, if it names one."""
    parts = door.split("/")
    named = ("resume", "approve", "reject", "requests")
    return parts[3][:_ID_CHARS] if len(parts) > 3 and parts[2] in named else ""
