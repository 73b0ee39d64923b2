"""Where computers are, as the store has it: this node keeps the rows of its own, and reads those of others.

Theory. A welcome writes the computer's seat in its own transaction: which node has it, and with which number. Whatever
follows (it left, has another label, another place) is written soon after, under that node and number: a late farewell
changes nothing of a later welcome. So a row may say too long that a computer is here, but never after another node
welcomed it. Who asks for such a computer is told that it is not here, and the row is put right. All computers of this
node are compared now and then, and where a notification may have been lost. A session here is dropped where the store
has a later welcome elsewhere.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

from orchestrator.computers.hub import Hub
from orchestrator.computers.nodes.messages import Seat
from orchestrator.computers.nodes.table import Event, Missed, NodeWent, Pinned, Place, Presence
from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.core.ports import ComputerInfo, SeatRow, TaskPersistenceManager
from orchestrator.core.wire.wire import ComputerId

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 60.0
"""How often the rows of this node's computers are compared with its sessions, besides when there is a reason."""
_AGAIN_S: Final = 1.0
"""Until a store that failed is asked again."""
_APART_S: Final = 0.2
"""Between two writings: a turtle may tell its place with each step."""
_PAGE: Final = 500


class Found(NamedTuple):
    """A computer that was looked up."""

    info: ComputerInfo
    node: str
    """The name of the other node that has it now; empty: none has, or this one."""


class Seats:
    """The seats of this node's computers, and the way to those of others."""

    def __init__(self, hub: Hub, presence: Presence, store: TaskPersistenceManager, awaited: set[ComputerId]) -> None:
        self._hub = hub
        self._presence = presence
        self._table = presence.table
        self._store = store
        self._awaited = awaited
        """Computers for which this node let tasks sleep: it has to hear when one of them can be reached again."""
        self._unkept: dict[ComputerId, Seat] = {}
        """What the store does not have yet of this node's computers."""
        self._again = asyncio.Event()
        """Something may have been missed."""
        self._going: set[asyncio.Task[None]] = set()
        self._keeping: asyncio.Task[None] | None = None
        presence.on_event(self._happened)

    def open(self) -> None:
        """Look from now on whether rows and sessions are of one mind."""
        self._spawn(self._look())

    async def close(self) -> None:
        """Write what is left to write, if the store takes it, and end. The hub is closed."""
        for one in self._going:
            one.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)
        try:
            await self._keep_some()
        except OrchestratorError as error:
            # This node is gone then: nobody believes its rows.
            logger.info("the last seats of this node were not kept: %s", error)

    # -- where computers are -------------------------------------------------------------

    @asynccontextmanager
    async def pinned(self, computers: Collection[ComputerId]) -> AsyncIterator[None]:
        """Know where these computers are while this is open. Raises StoreAway."""
        for one in computers:
            self._table.pin(one)
        try:
            unknown = [one for one in computers if not self._hub.here(one) and self._table.place(one) is None]
            if unknown:
                # Nothing came that was not there before: nobody is woken for it.
                self._table.read((await self.places(unknown)).values())
                self._presence.tell([Pinned(one) for one in unknown])
            yield
        finally:
            for one in computers:
                self._presence.tell(self._table.unpin(one))

    async def find(self, computers: Collection[ComputerId]) -> None:
        """Read anew where these pinned or awaited computers are. Raises StoreAway."""
        self._presence.tell(self._table.read((await self.places(computers)).values()))

    async def places(self, computers: Collection[ComputerId]) -> dict[ComputerId, Place]:
        """Where these computers are, or were last, by the store. Raises StoreAway."""
        found = {}
        for row in await self._store.seats(computers):
            try:
                found[row.computer] = Place(row.node, Seat.kept(row))
            except InvalidRequest as error:
                logger.warning("%s", error)
        return found

    async def look(self, computers: Collection[ComputerId]) -> dict[ComputerId, Found]:
        """What is known of these computers; of one that no node has welcomed nothing. Raises StoreAway."""
        there = await self.places([one for one in computers if not self._hub.here(one)])
        found = {}
        for one in computers:
            mine, place = self._hub.info(one), there.get(one)
            if place is not None and (mine is None or place.seat.number > self._hub.known.number(one)):
                at = self._table.name_of(place.node) if self._table.has(place) else ""
                found[one] = Found(self._table.info(place), at)
            elif mine is not None:
                found[one] = Found(mine, "")
        return found

    async def at(self, node: str) -> AsyncIterator[SeatRow]:
        """The rows of computers that have not left a node. Raises StoreAway."""
        page = await self._store.seats_at(node, limit=_PAGE)
        while page:
            for row in page:
                yield row
            page = await self._store.seats_at(node, after=page[-1].computer, limit=_PAGE) if len(page) == _PAGE else []

    # -- what is kept --------------------------------------------------------------------

    def changed(self, seat: Seat, *, came: bool) -> None:
        """A computer of this node is not as it was; ``came``: it is just welcome, which is kept already."""
        if came:
            self._unkept.pop(seat.computer, None)
            return
        self._unkept[seat.computer] = seat
        if self._keeping is None or self._keeping.done():
            self._keeping = self._spawn(self._keep())

    async def compare(self, computer: ComputerId) -> None:
        """See that the store and this node are of one mind on a computer. Raises StoreAway."""
        async with self._hub.greeting(computer):
            row = next(iter(await self._store.seats([computer])), None)
            if row is None:
                return
            if row.node != self._presence.node:
                if self._hub.here(computer):
                    self._hub.drop(computer, row.number)
                return
            seat = self._presence.seats.get(computer)
            if seat is not None and seat.number == row.number:
                if row.left_at is not None:
                    self.changed(seat, came=False)
            elif row.left_at is None and not self._hub.here(computer) and computer not in self._unkept:
                # Its farewell was lost.
                seat = Seat(computer=computer, online=False, number=row.number)
                with suppress(InvalidRequest):
                    seat = Seat.kept(row)
                gone = {"online": False, "left_at": datetime.now(UTC)}
                self.changed(self._presence.changed(seat.model_copy(update=gone)), came=False)

    def suspect(self, computer: ComputerId) -> None:
        """Somebody took a computer to be here that is not."""
        self._spawn(self._compared(computer))

    # -- inside --------------------------------------------------------------------------

    async def _keep(self) -> None:
        while self._unkept:
            try:
                await self._keep_some()
            except OrchestratorError as error:
                logger.warning("the seats of this node's computers are kept in a moment: %s", error)
                await asyncio.sleep(_AGAIN_S)
            await asyncio.sleep(_APART_S)

    async def _keep_some(self) -> None:
        seats = dict(self._unkept)
        if not seats:
            return
        rows = [
            SeatRow(one.computer, self._presence.node, one.number, one.model_dump_json(), one.left_at)
            for one in seats.values()
        ]
        await self._store.keep_seats(rows)
        for computer, seat in seats.items():
            if self._unkept.get(computer) is seat:
                del self._unkept[computer]
            if not seat.online:
                self._told(computer)

    def _told(self, computer: ComputerId) -> None:
        """Pages that were told before the store knew read it again."""
        self._presence.bus.publish("computers", {"computer": computer})

    async def _look(self) -> None:
        """Compare now and then, and whenever something may have been missed."""
        while True:
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._again.wait()
            except TimeoutError:
                pass
            self._again.clear()
            try:
                away = [one for one in self._table.pinned() if not self._hub.here(one)]
                if wanted := {*away, *self._awaited}:
                    await self.find(wanted)
                await self._compare_all()
            except OrchestratorError as error:
                logger.warning("where computers are is looked at again in a moment: %s", error)
                self._again.set()
                await asyncio.sleep(_AGAIN_S)

    async def _compare_all(self) -> None:
        rows = {row.computer: row.number async for row in self.at(self._presence.node)}
        here = {computer: seat.number for computer, seat in self._presence.seats.items()}
        for computer in [one for one in {*rows, *here} if rows.get(one) != here.get(one)]:
            await self.compare(computer)

    async def _compared(self, computer: ComputerId) -> None:
        try:
            await self.compare(computer)
        except OrchestratorError as error:
            logger.info("the seat of computer %s is looked at later: %s", computer, error)

    async def _tell_of(self, node: str) -> None:
        """Pages that show computers of a node that is gone read them again; of the nodes left the first one tells."""
        try:
            async for row in self.at(node):
                self._told(row.computer)
        except OrchestratorError as error:
            logger.warning("the computers of node %s, which is gone, are not told: %s", node, error)

    def _happened(self, event: Event) -> None:
        if isinstance(event, Missed):
            self._again.set()
        elif isinstance(event, NodeWent) and self._presence.first() == self._presence.node:
            self._spawn(self._tell_of(event.node))

    def _spawn(self, work: "asyncio._CoroutineLike[None]") -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._going.add(task)
        task.add_done_callback(self._going.discard)
        return task
