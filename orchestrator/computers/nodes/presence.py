"""This node among the others: it says each second that it is there, and hears who else is."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from orchestrator.computers.nodes.messages import (
    BEAT,
    COMPUTERS,
    GOODBYE,
    Beat,
    Delta,
    Goodbye,
    Seat,
    TableAnswer,
    requests_to,
    whole_table,
)
from orchestrator.computers.nodes.table import Event, Missed, NodeCame, NodeTable, NodeWent
from orchestrator.core.errors import InvalidRequest, NobodyServes, RequestLost
from orchestrator.core.ports import Bus
from orchestrator.core.ports.bus import End
from orchestrator.core.wire.wire import ComputerId

logger = logging.getLogger(__name__)

BEAT_EVERY_S: Final = 1.0
_TABLE_WITHIN_S: Final = 3.0
"""What a node gets to send its table; what is not answered is asked for again with its next beat."""


@dataclass
class Presence:
    """The table of the other nodes, kept true over the bus, and what this node tells of itself."""

    bus: Bus
    node: str
    """The id of this node: unique for each start."""
    name: str = ""
    version: str = ""
    url: str = ""
    """Where it listens; empty: it does not say."""
    draining: bool = False
    tasks: Callable[[], int] = lambda: 0
    """How many tasks this node acts for now."""
    clock_ahead_s: Callable[[], float] = lambda: 0.0
    """By how much this machine's clock is ahead of the store's."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What else its beat says: plain JSON."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    rev: int = 0
    seats: dict[ComputerId, Seat] = field(default_factory=dict)
    """The computers of this node."""

    def __post_init__(self) -> None:
        self.table = NodeTable(self.node)
        self._handlers: list[Callable[[Event], None]] = []
        self._ends: list[End] = []
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._beating: asyncio.Task[None] | None = None

    def on_event(self, handler: Callable[[Event], None]) -> None:
        """Tell ``handler`` of each node and computer that comes or goes elsewhere; it must not wait."""
        self._handlers.append(handler)

    def open(self) -> None:
        """Listen, say that this node is there, and go on saying so. The bus is open."""
        heard = ((BEAT, self._beat), (COMPUTERS, self._delta), (GOODBYE, self._goodbye))
        self._ends = [self.bus.subscribe(subject, handler) for subject, handler in heard]
        self.say()
        self._beating = asyncio.get_running_loop().create_task(self._keep())

    async def close(self) -> None:
        """Say goodbye, and listen no more. Safe to call twice."""
        if self._beating is None:
            return
        going, self._beating = [self._beating, *self._asking.values()], None
        for one in going:
            one.cancel()
        await asyncio.gather(*going, return_exceptions=True)
        for end in self._ends:
            end()
        self.bus.publish(GOODBYE, Goodbye(node=self.node).told())

    def drain(self) -> None:
        """Say from now on that this node takes no new work."""
        self.draining = True
        self.say()

    def say(self) -> None:
        """Say now that this node is there, and how it stands."""
        self.bus.publish(BEAT, self.beat().told())

    def beat(self) -> Beat:
        """What this node says of itself."""
        return Beat(
            node=self.node,
            name=self.name,
            version=self.version,
            at=datetime.now(UTC),
            started_at=self.started_at,
            url=self.url,
            draining=self.draining,
            tasks=self.tasks(),
            rev=self.rev,
            clock_ahead_s=round(self.clock_ahead_s(), 1) or 0.0,
            facts=self.facts,
        )

    def changed(self, seat: Seat) -> None:
        """A computer came to this node, or left it."""
        self.seats[seat.computer] = seat
        self.rev += 1
        self.bus.publish(COMPUTERS, Delta(node=self.node, rev=self.rev, seat=seat).told())

    def whole(self) -> TableAnswer:
        """This node's table."""
        return TableAnswer(beat=self.beat(), seats=tuple(self.seats.values()))

    def first(self) -> str:
        """The id of the node that started first of those that hear each other: all of them name the same."""
        return min((one.started_at, one.node) for one in (self.beat(), *self.table.beats()))[1]

    def absent(self, node: str, computer: ComputerId, number: int) -> None:
        """A computer was not found at the node that welcomed it with this number, or the node was not reached."""
        self._tell(self.table.absent(node, computer, number))

    # -- inside --------------------------------------------------------------------------

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(BEAT_EVERY_S)
            try:
                self.say()
                self._tell(self.table.sweep(self._now()))
            except Exception:
                # A node that is not heard any more counts as dead.
                logger.exception("a beat of this node failed")

    def _beat(self, payload: Mapping[str, Any]) -> None:
        self._tell(self.table.beat(Beat.read(payload), self._now()))

    def _delta(self, payload: Mapping[str, Any]) -> None:
        told = Delta.read(payload)
        self._tell(self.table.delta(told.node, told.rev, told.seat))

    def _goodbye(self, payload: Mapping[str, Any]) -> None:
        self._tell(self.table.goodbye(Goodbye.read(payload).node))

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Missed):
                self._ask(event.node)
                continue
            if isinstance(event, NodeCame):
                logger.info("node %s is there", event.node)
                # Who is new need not wait for the next beat.
                self.say()
            elif isinstance(event, NodeWent):
                logger.info("node %s is gone", event.node)
            for handler in self._handlers:
                try:
                    handler(event)
                except Exception:
                    logger.exception("what was to follow %r failed", event)

    def _ask(self, node: str) -> None:
        if node not in self._asking and self._beating is not None:
            self._asking[node] = asking = asyncio.get_running_loop().create_task(self._asked(node))
            asking.add_done_callback(lambda _: self._asking.pop(node, None))

    async def _asked(self, node: str) -> None:
        # Not answered: the next beat asks again.
        with suppress(NobodyServes, RequestLost, InvalidRequest):
            answer = await self.bus.request(requests_to(node), {"op": "table"}, within_s=_TABLE_WITHIN_S)
            told = whole_table(answer.body)
            # Whatever follows may ask again.
            self._asking.pop(node, None)
            self._tell(self.table.whole(told.beat, told.seats, self._now()))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
