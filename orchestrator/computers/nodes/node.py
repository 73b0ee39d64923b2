"""This node as one of several: all parts of this room, opened and closed in order."""

from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

from orchestrator.computers.hub import Hub
from orchestrator.computers.nodes.agreement import differences
from orchestrator.computers.nodes.departures import Parting
from orchestrator.computers.nodes.fleet import Fleet
from orchestrator.computers.nodes.handover import MeetingElsewhere
from orchestrator.computers.nodes.presence import Presence
from orchestrator.computers.nodes.screen_server import Showing
from orchestrator.computers.nodes.server import Serving
from orchestrator.computers.nodes.transfers import Readings
from orchestrator.computers.nodes.unheard import Unheard
from orchestrator.computers.nodes.wakeups import Waking
from orchestrator.core.ports import Store
from orchestrator.core.wire.wire import ComputerId

LOST: Final = (
    "This node has lost the bus, and connects again by itself: others may be there, and cannot be reached from here "
    "until then. See that the bus runs, and that this machine reaches it."
)


def new_node_id(name: str) -> str:
    """An id of a node for one start: its name, as a word that a bus takes, and a bit of chance."""
    word = "".join(char if char.isascii() and (char.isalnum() or char == "_") else "-" for char in name)[:40]
    return f"{word.strip('-') or 'node'}-{token_hex(3)}"


@dataclass
class Node:
    """One node."""

    presence: Presence
    fleet: Fleet
    serving: Serving
    waking: Waking
    showing: Showing
    unheard: Unheard
    readings: Readings
    apart: Callable[[], list[str]] = list
    """The names of nodes on the same bus that work with another store."""

    def open(self) -> None:
        """Be there for the others; the bus is open."""
        self.serving.open()
        self.showing.open()
        self.fleet.screens.open()
        self.presence.open()

    async def close(self) -> None:
        """Say goodbye; what others asked before is still answered. The hub is closed, the bus not yet."""
        await self.presence.close()
        self.serving.close()
        await self.showing.close()
        await self.fleet.screens.close()
        await self.waking.close()

    def others(self) -> bool:
        """Whether other nodes are there."""
        return bool(self.presence.table.beats())

    def seen(self) -> dict[str, Any]:
        """Who is there, as people see it, and what is wrong with that."""
        # Without the bus nobody is heard: the cause is told, and not what follows from it.
        alert = self.unheard.alert if self.presence.bus.connected else LOST
        alerts = [alert] if alert else []
        alerts += differences([self.presence.beat(), *self.presence.table.beats()])
        return {"nodes": self.nodes(), "alerts": alerts, "apart": self.apart()}

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes that are there, this one first, as people see them."""
        table = self.presence.table
        beats = [self.presence.beat(), *table.beats()]
        held = {beat.node: 0 for beat in beats}
        held[self.presence.node] = sum(one.online for one in self.fleet.hub.list_computers())
        for place in table.places():
            if place.seat.online and place.node in held:
                held[place.node] += 1
        return [
            {
                "node": beat.node,
                "name": beat.name,
                "version": beat.version,
                "started_at": beat.started_at.isoformat(),
                "url": beat.url,
                "draining": beat.draining,
                "tasks": beat.tasks,
                "clock_ahead_s": beat.clock_ahead_s,
                "computers": held[beat.node],
                "here": beat.node == self.presence.node,
            }
            for beat in beats
        ]


def join(hub: Hub, elsewhere: MeetingElsewhere, presence: Presence, store: Store, awaited: set[ComputerId]) -> Node:
    """A node of a hub that was made with this ``elsewhere``; ``awaited``: ``World.awaited``."""
    fleet = Fleet(hub, presence)
    elsewhere.join(fleet)
    serving, showing = Serving(hub, presence), Showing(hub, presence)
    readings = Readings(presence, fleet)
    serving.ops |= showing.ops | readings.ops
    waking = Waking(store, hub, presence, awaited)
    Parting(presence)
    return Node(presence, fleet, serving, waking, showing, Unheard(store, presence), readings)
