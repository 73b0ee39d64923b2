"""The table of all other nodes: beats and deltas in, events out. No clock, no bus: time is an argument.

Theory. Where a computer is stands in the store (see ``seats``); a node keeps in memory only its own computers and those
that something here needs now: they are pinned. A notification may be lost, so nothing depends on one. Each beat says
how often the computers of its node have changed (``rev``): where that is more than was heard, what is pinned is read
from the store again. A node that is not heard for ``GONE_AFTER_S`` is gone, and its computers are away, whatever the
store has of them. Of two words on one computer the one on the later welcome counts: its number, which the store allots,
is the higher one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
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
)
from orchestrator.core.ports import Bus, ComputerInfo
from orchestrator.core.ports.bus import End
from orchestrator.core.wire.wire import ComputerId

# -- What one node knows of all others: beats and deltas in, events out. No clock, no bus: time is an argument

GONE_AFTER_S: Final = 5.0
"""Five beats: a node that is busy for a second or two is not taken for dead, and one that is dead is missed soon."""
_MOST_WENT: Final = 100
"""Nodes that are gone of which it is remembered when they were heard last."""


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
class Pinned:
    """A computer is needed here now, or no more."""

    computer: ComputerId


@dataclass(frozen=True)
class Missed:
    """More of a node's computers has changed than was heard: what is needed here is read again."""

    node: str


Event = NodeCame | NodeWent | ComputerCame | ComputerWent | Pinned | Missed


@dataclass
class _Node:
    beat: Beat
    heard_at: float
    rev: int
    """The changes that were heard of."""


@dataclass(frozen=True)
class Place:
    """The node that welcomed a computer last, and what it says of it."""

    node: str
    seat: Seat


@dataclass
class NodeTable:
    """The other nodes, and where the pinned computers are."""

    me: str
    """The id of this node, whose own words are passed over."""
    _nodes: dict[str, _Node] = field(default_factory=dict)
    _pins: dict[ComputerId, int] = field(default_factory=dict)
    """How many need to know where each of these is."""
    _places: dict[ComputerId, Place] = field(default_factory=dict)
    """Where those are, or were last."""
    _missing: dict[ComputerId, tuple[str, int]] = field(default_factory=dict)
    """Welcomes of computers that were not found there; until the next beat of the node they count as away."""
    _went: dict[str, datetime] = field(default_factory=dict)
    """The time of the last beat of nodes that are gone."""

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

    def pinned(self) -> list[ComputerId]:
        """The computers that something here needs."""
        return list(self._pins)

    def is_pinned(self, computer: ComputerId) -> bool:
        """Whether something here needs a computer."""
        return computer in self._pins

    def place(self, computer: ComputerId) -> Place | None:
        """Where a pinned computer is or was last; None: no node has welcomed it, or it is not pinned."""
        return self._places.get(computer)

    def connected(self, computer: ComputerId) -> Place | None:
        """Where a pinned computer is now; None: at no other node, or it is not pinned."""
        place = self._places.get(computer)
        return place if place is not None and self.has(place) else None

    def has(self, place: Place) -> bool:
        """Whether a computer is at that place now, as far as is known."""
        missing = self._missing.get(place.seat.computer) == (place.node, place.seat.number)
        return place.seat.online and place.node in self._nodes and not missing

    def info(self, place: Place) -> ComputerInfo:
        """What people are told of a computer at that place."""
        if self.has(place):
            return place.seat.info
        return replace(place.seat.info, online=False, left_at=place.seat.left_at or self._went.get(place.node))

    # -- what is needed ------------------------------------------------------------------

    def pin(self, computer: ComputerId) -> None:
        """Somebody here needs to know where a computer is."""
        self._pins[computer] = self._pins.get(computer, 0) + 1

    def unpin(self, computer: ComputerId) -> list[Event]:
        """Somebody needs that no more; with the last one it is forgotten."""
        self._pins[computer] -= 1
        if self._pins[computer]:
            return []
        del self._pins[computer]
        return [Pinned(computer)] if self._places.pop(computer, None) is not None else []

    def came_here(self, computer: ComputerId, number: int) -> list[Event]:
        """This node welcomed a computer: what others said of it before is over."""
        place, before = self._places.get(computer), self.connected(computer)
        if place is None or place.seat.number > number:
            return []
        del self._places[computer]
        return self._judged(computer, before)

    # -- what is told --------------------------------------------------------------------

    def beat(self, beat: Beat, now: float) -> list[Event]:
        """A node says that it is there."""
        if beat.node == self.me:
            return []
        events: list[Event] = []
        known = self._nodes.get(beat.node)
        is_sure = known is not None and known.rev >= beat.rev
        came = known is None
        missing = [one for one, (node, _) in self._missing.items() if node == beat.node]
        before = {one: self.connected(one) for one in (self._at(beat.node) if came or missing else ())}
        if known is None:
            known = self._nodes[beat.node] = _Node(beat, now, beat.rev)
            self._went.pop(beat.node, None)
            events.append(NodeCame(beat.node))
        for one in missing:
            del self._missing[one]
        known.beat, known.heard_at, known.rev = beat, now, max(known.rev, beat.rev)
        for one, place in before.items():
            events += self._judged(one, place)
        return events if is_sure and not missing else [*events, Missed(beat.node)]

    def delta(self, told: Delta) -> list[Event]:
        """One change of a node's computers."""
        known = self._nodes.get(told.node)
        if told.node == self.me or known is None:
            # Of a node that comes, all is read that is needed here.
            return []
        missed = told.rev > known.rev + 1
        known.rev = max(known.rev, told.rev)
        known.beat = known.beat.model_copy(update={"computers": told.computers})
        events = self._said(Place(told.node, told.seat), came=told.came)
        return [*events, Missed(told.node)] if missed else events

    def read(self, places: Iterable[Place]) -> list[Event]:
        """Where computers are, as the store has it."""
        return [event for one in places if one.node != self.me for event in self._said(one, came=True)]

    def goodbye(self, node: str) -> list[Event]:
        """A node stops."""
        if node not in self._nodes:
            return []
        before = {one: self.connected(one) for one in self._at(node)}
        self._went[node] = self._nodes.pop(node).beat.at
        if len(self._went) > _MOST_WENT:
            del self._went[next(iter(self._went))]
        self._missing = {one: at for one, at in self._missing.items() if at[0] != node}
        return [NodeWent(node), *(event for one, place in before.items() for event in self._judged(one, place))]

    def absent(self, node: str, computer: ComputerId, number: int) -> list[Event]:
        """A computer was not found at the node that welcomed it with this number, or the node was not reached.

        It counts as away, so that nobody tries without end, until that node is heard the next time.
        """
        if node not in self._nodes:
            return []
        before = self.connected(computer)
        self._missing[computer] = node, number
        return self._judged(computer, before)

    def sweep(self, now: float) -> list[Event]:
        """A node that was not heard for too long is gone."""
        silent = [node for node, one in self._nodes.items() if now - one.heard_at > GONE_AFTER_S]
        return [event for node in silent for event in self.goodbye(node)]

    # -- inside --------------------------------------------------------------------------

    def _at(self, node: str) -> list[ComputerId]:
        return [one for one, place in self._places.items() if place.node == node]

    def _said(self, place: Place, *, came: bool) -> list[Event]:
        computer = place.seat.computer
        if computer not in self._pins:
            return [ComputerCame(computer, place.node, place.seat.number)] if came and self.has(place) else []
        known, before = self._places.get(computer), self.connected(computer)
        if known is not None and known.seat.order > place.seat.order:
            return []
        self._places[computer] = place
        return self._judged(computer, before)

    def _judged(self, computer: ComputerId, before: Place | None) -> list[Event]:
        """What it means for a computer that something else is known of it."""
        after = self.connected(computer)
        if after is None:
            return [ComputerWent(computer)] if before is not None else []
        was = (before.node, before.seat.number) if before is not None else None
        is_new = was != (after.node, after.seat.number)
        return [ComputerCame(computer, after.node, after.seat.number)] if is_new else []


# -- This node among the others: it says each second that it is there, and hears who else is

logger = logging.getLogger(__name__)

BEAT_EVERY_S: Final = 1.0


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
        beating, self._beating = self._beating, None
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
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
            computers=len(self.seats),
            clock_ahead_s=round(self.clock_ahead_s(), 1) or 0.0,
            facts=self.facts,
        )

    def changed(self, seat: Seat) -> Seat:
        """A computer came to this node, is not as it was, or left it; as it is told."""
        self.rev += 1
        seat = seat.model_copy(update={"rev": self.rev})
        before = self.seats.pop(seat.computer, None)
        if seat.online:
            self.seats[seat.computer] = seat
        came = seat.online and (before is None or before.number != seat.number)
        if came:
            self.tell(self.table.came_here(seat.computer, seat.number))
        delta = Delta(node=self.node, rev=self.rev, seat=seat, came=came, computers=len(self.seats))
        self.bus.publish(COMPUTERS, delta.told())
        return seat

    def whole(self) -> TableAnswer:
        """The table of this node."""
        return TableAnswer(beat=self.beat(), seats=tuple(self.seats.values()))

    def first(self) -> str:
        """The id of the node that started first of those that hear each other: all of them name the same."""
        return min((one.started_at, one.node) for one in (self.beat(), *self.table.beats()))[1]

    def absent(self, node: str, computer: ComputerId, number: int) -> None:
        """A computer was not found at the node that welcomed it with this number, or the node was not reached."""
        self.tell(self.table.absent(node, computer, number))

    def tell(self, events: list[Event]) -> None:
        """Tell all who want to hear of them."""
        for event in events:
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

    # -- inside --------------------------------------------------------------------------

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(BEAT_EVERY_S)
            try:
                self.say()
                self.tell(self.table.sweep(self._now()))
            except Exception:
                # A node that is not heard any more counts as dead.
                logger.exception("a beat of this node failed")

    def _beat(self, payload: Mapping[str, Any]) -> None:
        self.tell(self.table.beat(Beat.read(payload), self._now()))

    def _delta(self, payload: Mapping[str, Any]) -> None:
        self.tell(self.table.delta(Delta.read(payload)))

    def _goodbye(self, payload: Mapping[str, Any]) -> None:
        self.tell(self.table.goodbye(Goodbye.read(payload).node))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
