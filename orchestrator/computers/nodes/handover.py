"""A computer says hello here while another node has a session of it: that node is asked to let it go."""

from contextlib import suppress
from typing import Final

from orchestrator.computers.hub import Visitor, Yielded
from orchestrator.computers.hub.hub import ALIVE_WITHIN_S
from orchestrator.computers.nodes.fleet import Fleet
from orchestrator.computers.nodes.messages import FrozenTold, Seat, YieldAnswer, YieldAsked
from orchestrator.computers.nodes.presence import Presence
from orchestrator.computers.nodes.table import ComputerCame, Event
from orchestrator.core.errors import InvalidRequest, NobodyServes, RequestLost
from orchestrator.core.task.system_facts import ComputerFrozen
from orchestrator.core.wire import wire
from orchestrator.core.wire.identity import Heard
from orchestrator.core.wire.wire import ComputerId

YIELD_WITHIN_S: Final = 2.0
"""What another node gets to let a computer go; one that is stopped holds nobody up for longer."""


class MeetingElsewhere:
    """The hub's ``Elsewhere``, over the bus.

    Where two nodes greet one computer at once, neither may know of the other's session. Then the welcome with the
    higher number counts, which the store allots: the node with the lower one hears of it and drops its own session.
    """

    def __init__(self, presence: Presence) -> None:
        self._presence = presence
        self._fleet: Fleet | None = None
        presence.on_event(self._happened)

    def join(self, fleet: Fleet) -> None:
        """Begin: these are the computers of this node and the way to others."""
        self._fleet = fleet

    async def yields(self, visitor: Visitor, age_s: float) -> Yielded:
        """Ask the node that has a session of a visitor's computer to let it go."""
        place = self._presence.table.connected(visitor.computer)
        if place is None or self._fleet is None:
            return Yielded()
        boot = wire.from_wire(visitor.hello.boot)
        asked = YieldAsked(computer=visitor.computer, computer_id=visitor.hello.computer_id, boot=boot, age_s=age_s)
        # Another boot is asked whether it lives, which takes it a few ticks.
        within_s = YIELD_WITHIN_S + (ALIVE_WITHIN_S if place.seat.boot != boot else 0.0)
        try:
            answer = await self._fleet.request(place.node, {"op": "yield", **asked.told()}, within_s=within_s)
            told = YieldAnswer.read(answer.payload)
        except (NobodyServes, RequestLost, InvalidRequest):
            # It is dead, stopped or older: when it comes back, it hears of the welcome here and drops its session.
            return Yielded()
        heard = Heard(told.heard, told.boot)
        return Yielded(newer=told.outcome == "newer", lives=told.outcome == "lives", heard=heard)

    async def turn_away(self, fact: ComputerFrozen) -> None:
        """Tell the node that has a session of a computer that it is frozen."""
        place = self._presence.table.connected(fact.computer)
        if place is not None and self._fleet is not None:
            payload = {"op": "turn_away", **FrozenTold(fact=fact).told()}
            # Not told: the visitor dials again, and then it is told once more.
            with suppress(NobodyServes, RequestLost):
                await self._fleet.request(place.node, payload, within_s=YIELD_WITHIN_S)

    def changed(self, computer: ComputerId) -> None:
        """A computer came to this node, or left it."""
        if self._fleet is None:
            return
        hub = self._fleet.hub
        info, hello = hub.info(computer), hub.known.hello(computer)
        assert info is not None, "only a computer that said hello comes or goes"
        number = hub.known.number(computer)
        shows = [one for one in (wire.MIRROR, wire.KEYS) if one in hello.capabilities]
        self._presence.changed(Seat.of(info, number=number, boot=wire.from_wire(hello.boot), shows=shows))
        place = self._presence.table.connected(computer)
        if info.online and place is not None:
            hub.drop(computer, place.seat.number)
        self._fleet.screens.settle(computer)

    def _happened(self, event: Event) -> None:
        if isinstance(event, ComputerCame) and self._fleet is not None:
            self._fleet.hub.drop(event.computer, event.number)
