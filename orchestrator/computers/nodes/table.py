"""What one node knows of all others: beats and deltas in, events out. No clock, no bus: time is an argument.

Theory. A notification may be lost, so nothing depends on one: each beat says how often the table of its node
has changed (``rev``), and whoever has another count asks for the whole. A node that is not heard for ``GONE_AFTER_S``
is gone, and so are its computers; what it told of them is kept, offline, for who asks. Where several nodes say that
they have a computer, the one that welcomed it last has it: its welcome has the higher number, which the store allots.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from orchestrator.computers.nodes.messages import Beat, Seat
from orchestrator.core.wire.wire import ComputerId

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
    """Of the table as it is known here; -1: it is not known."""
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
        """What people call a node."""
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

        It counts as away, so that nobody tries without end, until the node has told its whole table anew: where it was
        only not reached, its table has not changed, and it would never say by itself that the computer is there.
        """
        seat = self._seats.get(computer, {}).get(node)
        known = self._nodes.get(node)
        if known is None or seat is None or not seat.online or seat.number != number:
            return []
        known.rev = -1
        return self._said(node, seat.model_copy(update={"online": False, "left_at": known.beat.at}))

    def sweep(self, now: float) -> list[Event]:
        """Who was not heard for too long is gone."""
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
        # Of a node that is gone only the last word on each computer is kept, or every start of one would leave its own.
        for other in [one for one in said if one != node and one not in self._nodes]:
            del said[other]
        was = (before.node, before.seat.number) if before is not None and before.seat.online else None
        if not after.seat.online:
            return [ComputerWent(computer)] if was is not None else []
        return [ComputerCame(computer, node, after.seat.number)] if was != (node, after.seat.number) else []
