"""This node as one of several: all parts of this room, opened and closed in order."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any, Final

from orchestrator.computers.hub import Hub, Visitor, Yielded
from orchestrator.computers.hub.hub import ALIVE_WITHIN_S
from orchestrator.computers.nodes.fleet import Fleet
from orchestrator.computers.nodes.messages import Beat, FrozenTold, Ops, Said, Seat, YieldAnswer, YieldAsked
from orchestrator.computers.nodes.screens import Showing
from orchestrator.computers.nodes.seats import Seats
from orchestrator.computers.nodes.server import Serving
from orchestrator.computers.nodes.table import ComputerCame, Event, NodeWent, Place, Presence
from orchestrator.core.errors import InvalidRequest, NobodyServes, OrchestratorError, RequestLost
from orchestrator.core.ports import Answer, Common, ComputerInfo, Store, TaskQueue
from orchestrator.core.task.system_facts import ComputerFrozen
from orchestrator.core.text.visible import one_line
from orchestrator.core.wire import wire
from orchestrator.core.wire.identity import Heard
from orchestrator.core.wire.wire import ComputerId

# -- What is being read from computers now, at all nodes: a backup that one was asked for is looked at through any

_WITHIN_S: Final = 1.0
"""A reader asks again soon, and a node that hangs must not hide what the others do."""


class TransfersTold(Said):
    """What goes on at one node."""

    transfers: tuple[dict[str, Any], ...] = ()


class Readings:
    """The transfers of this node and of the others, as people see them."""

    def __init__(self, presence: Presence, fleet: Fleet, here: Callable[[], list[dict[str, Any]]]) -> None:
        self._presence = presence
        self._fleet = fleet
        self._here = here
        """The transfers of this node."""
        self.ops: Ops = {"transfers": self._answer}
        """The requests of other nodes about them."""

    async def everywhere(self) -> list[dict[str, Any]]:
        """The transfers of all nodes that answer, the oldest first."""
        others = await asyncio.gather(*(self._of(beat.node) for beat in self._presence.table.beats()))
        found = [*self._here(), *(one for rows in others for one in rows)]
        return sorted(found, key=lambda one: str(one.get("began_at", "")))

    async def _of(self, node: str) -> tuple[dict[str, Any], ...]:
        try:
            answer = await self._fleet.request(node, {"op": "transfers"}, within_s=_WITHIN_S)
            return TransfersTold.read(answer.payload).transfers
        except (NobodyServes, RequestLost, InvalidRequest):
            # The work there goes on; it is only not shown.
            return ()

    async def _answer(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        del payload, body
        return Answer(TransfersTold(transfers=tuple(self._here())).told())


# -- Settings that the nodes of one store have to share: each node tells its own with its beat
#
# A difference is shown and refuses nothing: while nodes restart one by one with a new value, both values are there.

SETTINGS: Final = "settings"
"""Under this the facts of a beat have them, each as people read it; a node of an older version tells none."""
_MOST_CHARS: Final = 80


def differences(beats: Sequence[Beat]) -> list[str]:
    """For each setting that differs between nodes, a sentence that says which node has which value.

    A node that does not tell a setting, as older ones do not, is left out, and so is one that drains: it takes
    nothing any more.
    """
    told: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for beat in beats:
        settings = beat.facts.get(SETTINGS)
        if isinstance(settings, dict) and not beat.draining:
            for name, value in settings.items():
                told[_shown(name)][_shown(value)].append(_shown(beat.name or beat.node))
    return [_sentence(name, values) for name, values in sorted(told.items()) if len(values) > 1]


def _sentence(name: str, values: dict[str, list[str]]) -> str:
    has = "; ".join(f"{value} at {', '.join(sorted(nodes))}" for value, nodes in sorted(values.items()))
    return f"{name} differs between nodes: {has}. Start all nodes of one store with the same."


def _shown(told: object) -> str:
    return one_line(str(told), limit=_MOST_CHARS)


# -- Notices that another node works with the same store, and that this one does not hear it
#
# Theory. Nodes that hear each other name the same one of them: the node that started first. In its name all of
# them take one lease and renew it. A node that cannot take the lease, for longer than a dead node would keep it, is
# on another bus than the nodes that have it: each has its own bus, or there are two servers, or the node is cut off
# from the server that they share.

logger = logging.getLogger(__name__)

DUTY: Final = "bus"
LOOK_EVERY_S: Final = 4.0
FOR_S: Final = 15.0
"""How long it is taken for: three looks may fail."""
SURE_AFTER_S: Final = 20.0
"""Longer than a lease lasts of nodes that are dead, or that named another node as the first."""

UNHEARD: Final = (
    "Another node works with this store, and this one does not hear it: its computers cannot be reached from here, and "
    "what is decided there is noticed late. Give all nodes of one store the same --bus, which all of them reach."
)


class Unheard:
    """Looks again and again whether all nodes of the store are on this bus."""

    def __init__(self, store: Common, presence: Presence) -> None:
        self._store = store
        self._presence = presence
        self._since: float | None = None
        """The first time at which the lease could not be taken."""
        self.alert = ""
        """The faults, as sentences; empty: nothing is known to be."""

    async def keep(self) -> None:
        """Look until canceled; of a store that only this process has open there is nothing to see."""
        while self._store.shared:
            try:
                await self.look(asyncio.get_running_loop().time())
            except OrchestratorError as error:
                logger.debug("whether all nodes are heard is looked at again: %s", error)
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, now: float) -> None:
        """Look once; ``now`` in seconds of a clock that only goes on. Raises StoreAway."""
        if await self._store.take_duty(DUTY, self._presence.first(), FOR_S):
            self._since = None
            self._say("")
            return
        self._since = now if self._since is None else self._since
        if now - self._since >= SURE_AFTER_S:
            self._say(UNHEARD)

    def _say(self, alert: str) -> None:
        if alert and not self.alert:
            logger.warning("%s", alert)
        elif self.alert and not alert:
            logger.info("all nodes of this store are heard again")
        self.alert = alert


# -- Tasks that wait for a computer are woken by the node that welcomes it. This wakes those that it cannot know
# of
#
# Theory. Node A lets a task sleep for a computer that node B has just welcomed, and does not know it yet. Where
# A's task slept before B woke who waits, B woke it. Where it slept after, the store says by then that the computer is
# there, and A wakes the task itself: the actor looks there once more when it has slept. But A may take B for dead then,
# or may not have reached it just before. So A keeps in mind for which computers it let tasks sleep, and wakes who waits
# for one of them when it can be reached again. Where A died in between, nobody keeps it in mind: so a node that hears
# that another is gone asks once which computers are waited for, and wakes those tasks whose computer is connected here.
# That is one look, however many computers it has.


_AGAIN_S: Final = 1.0
"""Seconds until a store that failed is asked again."""
_MOST_AT_ONCE: Final = 128
"""Computers whose tasks are woken in one transaction."""


class Waking:
    """Wakes tasks that wait for a computer which came to another node, or whose node died."""

    def __init__(self, queue: TaskQueue, hub: Hub, presence: Presence, awaited: set[ComputerId]) -> None:
        self._queue = queue
        self._hub = hub
        self._presence = presence
        self._awaited = awaited
        self._wanted: set[ComputerId] = set()
        self._missed = False
        """Whether a node is gone, and nobody has looked yet for what it let sleep."""
        self._waking: asyncio.Task[None] | None = None
        presence.on_event(self._happened)

    async def close(self) -> None:
        """Wake nobody any more."""
        if self._waking is not None:
            self._waking.cancel()
            await asyncio.gather(self._waking, return_exceptions=True)

    def _happened(self, event: Event) -> None:
        match event:
            case ComputerCame() if event.computer in self._awaited:
                self._awaited.discard(event.computer)
                self._wanted.add(event.computer)
            case NodeWent():
                self._missed = True
            case _:
                return
        if (self._wanted or self._missed) and (self._waking is None or self._waking.done()):
            self._waking = asyncio.get_running_loop().create_task(self._wake())

    async def _wake(self) -> None:
        woken = 0
        while self._wanted or self._missed:
            missed, self._missed = self._missed, False
            wanted, self._wanted = self._wanted, set()
            try:
                if missed:
                    wanted.update(filter(self._hub.here, await self._queue.waited_for()))
                while some := sorted(wanted)[:_MOST_AT_ONCE]:
                    woken += await self._queue.wake_waiting(some)
                    wanted.difference_update(some)
            except OrchestratorError as error:
                logger.warning("tasks that wait for computers are woken in a moment: %s", error)
                self._wanted |= wanted
                self._missed |= missed
                await asyncio.sleep(_AGAIN_S)
        if woken:
            self._presence.bus.publish("tasks.due", {})


# -- A computer says hello here while another node has a session of it: that node is asked to let it go

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

    def seat(self, visitor: Visitor, info: ComputerInfo) -> Visitor:
        """A visitor with the seat that its welcome here keeps."""
        said = self._seat(info, visitor.hello, 0).model_dump_json()
        return replace(visitor, node=self._presence.node, said=said)

    def join(self, fleet: Fleet) -> None:
        """Begin: these are the computers of this node and the way to others."""
        self._fleet = fleet

    async def yields(self, visitor: Visitor, age_s: float) -> Yielded:
        """Ask the node that has a session of a visitor's computer to let it go."""
        place = await self._there(visitor.computer)
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
            # It is dead or stopped: when it comes back, it hears of the welcome here and drops its session.
            return Yielded()
        heard = Heard(told.heard, told.boot)
        return Yielded(newer=told.outcome == "newer", lives=told.outcome == "lives", heard=heard)

    async def turn_away(self, fact: ComputerFrozen) -> None:
        """Tell the node that has a session of a computer that it is frozen."""
        place = await self._there(fact.computer)
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
        before = self._presence.seats.get(computer)
        seat = self._presence.changed(self._seat(info, hello, hub.known.number(computer)))
        came = seat.online and (before is None or before.number != seat.number)
        self._fleet.seats.changed(seat, came=came)
        self._fleet.screens.settle(computer)

    def _seat(self, info: ComputerInfo, hello: wire.Hello, number: int) -> Seat:
        shows = [one for one in (wire.MIRROR, wire.KEYS) if one in hello.capabilities]
        return Seat.of(info, number=number, boot=wire.from_wire(hello.boot), shows=shows)

    async def _there(self, computer: ComputerId) -> Place | None:
        """The other node that has a computer now, by the store; None: none has. Raises StoreAway."""
        table = self._presence.table
        if self._fleet is None or not table.beats():
            return None
        place = (await self._fleet.seats.places([computer])).get(computer)
        # Also where it was not found a moment ago: it is asked, not believed.
        return place if place is not None and place.seat.online and table.knows(place.node) else None

    def _happened(self, event: Event) -> None:
        if isinstance(event, ComputerCame) and self._fleet is not None:
            self._fleet.hub.drop(event.computer, event.number)


# -- This node as one of several: all parts of this room, opened and closed in order -----

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
    apart: Callable[[], list[str]]
    """The names of nodes on the same bus that work with another store."""

    def open(self) -> None:
        """Be there for the others; the bus is open."""
        self.serving.open()
        self.showing.open()
        self.fleet.screens.open()
        self.presence.open()
        self.fleet.seats.open()

    async def close(self) -> None:
        """Say goodbye; earlier requests of others are still answered. The hub is closed, the bus not yet."""
        await self.fleet.seats.close()
        await self.presence.close()
        self.serving.close()
        await self.showing.close()
        await self.fleet.screens.close()
        await self.waking.close()

    def drain(self) -> None:
        """Say from now on that this node takes no new work."""
        self.presence.drain()

    def others(self) -> bool:
        """Whether other nodes are there."""
        return bool(self.presence.table.beats())

    def seen(self) -> dict[str, Any]:
        """The nodes that are there, as people see them, with the faults of each."""
        # Without the bus nobody is heard: the cause is told, and not what follows from it.
        alert = self.unheard.alert if self.presence.bus.connected else LOST
        alerts = [alert] if alert else []
        alerts += differences([self.presence.beat(), *self.presence.table.beats()])
        return {"nodes": self.nodes(), "alerts": alerts, "apart": self.apart()}

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes that are there, this one first, as people see them."""
        table = self.presence.table
        beats = [self.presence.beat(), *table.beats()]
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
                "computers": beat.computers,
                "here": beat.node == self.presence.node,
            }
            for beat in beats
        ]


def join(
    hub: Hub,
    elsewhere: MeetingElsewhere,
    presence: Presence,
    store: Store,
    awaited: set[ComputerId],
    *,
    transfers: Callable[[], list[dict[str, Any]]] = list,
    apart: Callable[[], list[str]] = list,
) -> Node:
    """A node of a hub that was made with this ``elsewhere``.

    ``awaited``: as the environment of its tasks has it. ``transfers``: those of this node. ``apart``: the names of
    nodes on the same bus that work with another store.
    """
    fleet = Fleet(hub, presence, Seats(hub, presence, store, awaited))
    elsewhere.join(fleet)
    showing, readings = Showing(hub, presence), Readings(presence, fleet, transfers)
    serving = Serving(hub, presence, fleet.seats, {**showing.ops, **readings.ops})
    waking = Waking(store, hub, presence, awaited)
    return Node(presence, fleet, serving, waking, showing, Unheard(store, presence), readings, apart)
