"""The table of all other nodes: beats and deltas in, events out. No clock, no bus: time is an argument.

Theory. A notification may be lost, so nothing depends on one. Each beat says how often the table of its node has
changed (``rev``), and a node with another count asks for the whole table. A node that is not heard for ``GONE_AFTER_S``
is gone, and so are its computers; its facts about them are kept, as offline, for later questions. Where several nodes
say that they have a computer, the one that welcomed it last has it: its welcome has the higher number, which the store
allots.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from orchestrator.core.errors import InvalidRequest, NobodyServes, RequestLost
from orchestrator.core.ports import Bus
from orchestrator.core.ports.bus import End
from orchestrator.core.wire.wire import ComputerId

# -- What one node knows of all others: beats and deltas in, events out. No clock, no bus: time is an argument

GONE_AFTER_S: Final = 5.0
"""Five beats: a node that is busy for a second or two is not taken for dead, and one that is dead is missed soon."""


@dataclass(frozen=True)
class NodeCame:
    """A node is there that was not."""

    node: str


@dataclass(frozen=True)
class NodeWent:
    """A node said goodbye, or is not heard any more."""

    node: str


@dataclass(frozen=True)
class ComputerCame:
    """A computer is connected to another node than before, or again."""

    computer: ComputerId
    node: str
    number: int


@dataclass(frozen=True)
class ComputerWent:
    """A computer is connected to no other node any more."""

    computer: ComputerId


@dataclass(frozen=True)
class Missed:
    """The node has to be asked for its whole table."""

    node: str


Event = NodeCame | NodeWent | ComputerCame | ComputerWent | Missed


@dataclass
class _Node:
    beat: Beat
    heard_at: float
    rev: int = -1
    """The revision of the table as it is known here; -1: it is not known."""
    told: int = -1
    """The highest ``rev`` that was heard of."""


@dataclass(frozen=True)
class Place:
    """Where a computer is, or was last."""

    node: str
    seat: Seat


@dataclass
class NodeTable:
    """The other nodes and their computers, as they were told."""

    me: str
    """The id of this node, whose own words are passed over."""
    _nodes: dict[str, _Node] = field(default_factory=dict)
    _seats: dict[ComputerId, dict[str, Seat]] = field(default_factory=dict)
    """What each node said of each computer."""
    _best: dict[ComputerId, Place] = field(default_factory=dict)

    # -- what is known -------------------------------------------------------------------

    def beats(self) -> list[Beat]:
        """The last beat of each node that is there, by name and id."""
        return sorted((one.beat for one in self._nodes.values()), key=lambda beat: (beat.name, beat.node))

    def knows(self, node: str) -> bool:
        """Whether a node is there."""
        return node in self._nodes

    def name_of(self, node: str) -> str:
        """The name that people use for a node."""
        known = self._nodes.get(node)
        return known.beat.name or node if known is not None else node

    def place(self, computer: ComputerId) -> Place | None:
        """Where a computer is or was last among the other nodes; None: none of them has met it."""
        return self._best.get(computer)

    def connected(self, computer: ComputerId) -> Place | None:
        """The other node that has a computer now; None: none has."""
        place = self._best.get(computer)
        return place if place is not None and place.seat.online else None

    def places(self) -> Iterable[Place]:
        """Where all computers are that another node has met."""
        return self._best.values()

    # -- what is told --------------------------------------------------------------------

    def beat(self, beat: Beat, now: float) -> list[Event]:
        """A node says that it is there."""
        if beat.node == self.me:
            return []
        known = self._nodes.get(beat.node)
        events: list[Event] = []
        if known is None:
            known = self._nodes[beat.node] = _Node(beat, now)
            events.append(NodeCame(beat.node))
        known.beat, known.heard_at = beat, now
        known.told = max(known.told, beat.rev)
        return [*events, *self._missed(beat.node, known)]

    def delta(self, node: str, rev: int, seat: Seat) -> list[Event]:
        """One change of a node's computers."""
        if node == self.me:
            return []
        known = self._nodes.get(node)
        if known is None:
            return [Missed(node)]
        if rev <= known.rev:
            return []
        known.told = max(known.told, rev)
        if rev == known.rev + 1:
            known.rev = rev
            return [*self._said(node, seat), *self._missed(node, known)]
        return self._missed(node, known)

    def whole(self, beat: Beat, seats: Sequence[Seat], now: float) -> list[Event]:
        """A node's whole table."""
        if beat.node == self.me:
            return []
        known = self._nodes.get(beat.node)
        events: list[Event] = []
        if known is None:
            known = self._nodes[beat.node] = _Node(beat, now)
            events.append(NodeCame(beat.node))
        known.heard_at = now
        if beat.rev < known.rev:
            return events
        known.beat, known.rev, known.told = beat, beat.rev, max(known.told, beat.rev)
        named = {one.computer for one in seats}
        for computer in [one for one, said in self._seats.items() if beat.node in said and one not in named]:
            events += self._unsaid(beat.node, computer)
        for seat in seats:
            events += self._said(beat.node, seat)
        return [*events, *self._missed(beat.node, known)]

    def goodbye(self, node: str) -> list[Event]:
        """A node stops."""
        known = self._nodes.pop(node, None)
        if known is None:
            return []
        events: list[Event] = [NodeWent(node)]
        for said in self._seats.values():
            seat = said.get(node)
            if seat is not None and seat.online:
                events += self._said(node, seat.model_copy(update={"online": False, "left_at": known.beat.at}))
        return events

    def absent(self, node: str, computer: ComputerId, number: int) -> list[Event]:
        """A computer was not found at the node that welcomed it with this number, or the node was not reached.

        It counts as away, so that nobody tries without end, until the node has told its whole table again: where it was
        only not reached, its table has not changed, and it would never say by itself that the computer is there.
        """
        seat = self._seats.get(computer, {}).get(node)
        known = self._nodes.get(node)
        if known is None or seat is None or not seat.online or seat.number != number:
            return []
        known.rev = -1
        return self._said(node, seat.model_copy(update={"online": False, "left_at": known.beat.at}))

    def sweep(self, now: float) -> list[Event]:
        """A node that was not heard for too long is gone."""
        silent = [node for node, one in self._nodes.items() if now - one.heard_at > GONE_AFTER_S]
        return [event for node in silent for event in self.goodbye(node)]

    # -- inside --------------------------------------------------------------------------

    def _missed(self, node: str, known: _Node) -> list[Event]:
        return [Missed(node)] if known.told > known.rev else []

    def _said(self, node: str, seat: Seat) -> list[Event]:
        self._seats.setdefault(seat.computer, {})[node] = seat
        return self._judged(seat.computer)

    def _unsaid(self, node: str, computer: ComputerId) -> list[Event]:
        del self._seats[computer][node]
        return self._judged(computer)

    def _judged(self, computer: ComputerId) -> list[Event]:
        """What it means for a computer that a node said something else of it."""
        before = self._best.get(computer)
        said = self._seats[computer]
        if not said:
            del self._seats[computer], self._best[computer]
            return [ComputerWent(computer)] if before is not None and before.seat.online else []
        node = max(said, key=lambda one: said[one].rank)
        after = self._best[computer] = Place(node, said[node])
        # Only the last word on each computer is kept of a node that is gone, or every start of one would leave its own.
        for other in [one for one in said if one != node and one not in self._nodes]:
            del said[other]
        was = (before.node, before.seat.number) if before is not None and before.seat.online else None
        if not after.seat.online:
            return [ComputerWent(computer)] if was is not None else []
        return [ComputerCame(computer, node, after.seat.number)] if was != (node, after.seat.number) else []


# -- This node among the others: it says each second that it is there, and hears who else is

logger = logging.getLogger(__name__)

BEAT_EVERY_S: Final = 1.0
_TABLE_WITHIN_S: Final = 3.0
"""Seconds that a node gets to send its table; without an answer it is asked again with its next beat."""


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
    """Seconds by which this machine's clock is ahead of the store's."""
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
        """The table of this node."""
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
                # A new node need not wait for the next beat.
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
