"""How this node's mirror sees the computers of other nodes: each is a line to it, as a session of its own is.

Theory. The mirror keeps one watch for all who look at a screen, counts its pictures, begins anew where one is missing,
renews it while somebody looks and ends it with the last. Here its messages go over the bus to the node that has the
computer (see ``screen_server``), and what comes from there is taken as if the computer had sent it, with
the same bounds. A computer that moves is closed and opened again, so that watchers see it go and then the whole.
Watches and pictures are hints. A look and keys are requests, sent once, to a node that asks nobody else.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from orchestrator.computers.hub import Hub
from orchestrator.computers.nodes.messages import Failure, Said
from orchestrator.computers.nodes.presence import Presence
from orchestrator.computers.nodes.screen_messages import (
    ANSWER_WITHIN_S,
    KeysAsked,
    KeysTold,
    PictureTold,
    ScreensAsked,
    ScreensTold,
    UnseenTold,
    WatchTold,
    pictures_to,
    watches_to,
)
from orchestrator.computers.nodes.table import ComputerCame, ComputerWent, Event, Place
from orchestrator.core.errors import InvalidRequest, NobodyServes, RequestLost
from orchestrator.core.ports import Answer
from orchestrator.core.ports.bus import End
from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import ComputerId

logger = logging.getLogger(__name__)

_LOST = "The other node did not answer: whether it was typed is not known."
_NOT_THERE = "The computer is not connected any more; nothing was typed."


class Ask(Protocol):
    """Asks a node for as long as it is there. Raises NobodyServes, RequestLost."""

    def __call__(
        self, node: str, payload: Mapping[str, Any], body: bytes = b"", *, within_s: float
    ) -> Awaitable[Answer]:
        """Ask it once."""


class FarLine:
    """A computer that another node has, as the mirror takes it."""

    def __init__(self, screens: "Screens", place: Place) -> None:
        self._screens = screens
        self.place = place
        self.computer: ComputerId = place.seat.computer
        self.capabilities: Sequence[str] = place.seat.shows

    @property
    def welcome(self) -> tuple[str, int]:
        """The node, and the number by which the computer was welcome there."""
        return self.place.node, self.place.seat.number

    def tell(self, message: wire.Watch | wire.Look | wire.Keys, body: bytes = b"") -> None:
        """Send a message soon."""
        match message:
            case wire.Watch():
                self._screens.watch(self, message)
            case wire.Look():
                self._screens.spawn(self._look(message.look))
            case wire.Keys():
                self._screens.spawn(self._type(message.keys, body))

    def keeps_up(self) -> bool:
        """Whether the other nodes can be reached."""
        return self._screens.connected

    async def _look(self, number: int) -> None:
        try:
            answer = await self._screens.ask(self, "screens", ScreensAsked(computer=self.computer))
            found = ScreensTold.read(answer.payload).screens
        except NobodyServes:
            self._screens.absent(self)
        except (RequestLost, InvalidRequest) as error:
            # Who asked is told in a few seconds that nothing came.
            logger.info("the screens of computer %s are not known: %s", self.computer, error)
        else:
            body = b"[" + b",".join(one.model_dump_json(exclude_none=True).encode() for one in found) + b"]"
            self._screens.take(self, wire.Screens(journal_seq=0, look=number, body=wire.whole(body)), body)

    async def _type(self, number: int, strokes: bytes) -> None:
        try:
            answer = await self._screens.ask(self, "keys", KeysAsked(computer=self.computer), strokes)
            told = KeysTold.read(answer.payload)
        except NobodyServes:
            told = KeysTold(delivered=False, message=_NOT_THERE)
        except (RequestLost, InvalidRequest):
            told = KeysTold(delivered=None, message=_LOST)
        code = None if told.delivered else "unknown" if told.delivered is None else "not_typed"
        message = wire.to_wire(told.message[:500])[:512] if code is not None else None
        keyed = wire.Keyed(journal_seq=0, keys=number, ok=code is None, code=code, message=message)
        self._screens.take(self, keyed)


class Screens:
    """The lines of this node's mirror to the computers of other nodes."""

    def __init__(self, hub: Hub, presence: Presence, ask: Ask) -> None:
        self._hub = hub
        self._presence = presence
        self._bus = presence.bus
        self._ask = ask
        self._lines: dict[ComputerId, FarLine] = {}
        self._going: set[asyncio.Task[None]] = set()
        self._ends: list[End] = []
        presence.on_event(self._happened)

    def open(self) -> None:
        """Hear of pictures from now on."""
        self._ends = [self._bus.subscribe(pictures_to(self._presence.node), self._heard)]

    async def close(self) -> None:
        """Hear of nothing any more."""
        for end in self._ends:
            end()
        going = tuple(self._going)
        for one in going:
            one.cancel()
        await asyncio.gather(*going, return_exceptions=True)

    def settle(self, computer: ComputerId) -> None:
        """Have the mirror see a computer where it is now: here, at another node, or nowhere."""
        place = None if self._hub.here(computer) else self._presence.table.connected(computer)
        line = self._lines.get(computer)
        if line is not None and (place is None or line.welcome != (place.node, place.seat.number)):
            del self._lines[computer]
            self._hub.mirror.closed(line)
            line = None
        if line is None and place is not None:
            self._lines[computer] = line = FarLine(self, place)
            self._hub.mirror.opened(line)

    # -- for the lines -------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether the other nodes can be reached."""
        return self._bus.connected

    def watch(self, line: FarLine, message: wire.Watch) -> None:
        """Tell the node that has the computer what is watched."""
        told = WatchTold(
            node=self._presence.node,
            computer=line.computer,
            watch=message.watch,
            of=wire.from_wire(message.of or ""),
            lease_s=message.lease_s,
            heard=message.heard or 0,
        )
        self._bus.publish(watches_to(line.place.node), told.told())

    async def ask(self, line: FarLine, op: str, asked: Said, body: bytes = b"") -> Answer:
        """Ask the node that has the computer. Raises NobodyServes, RequestLost, InvalidRequest."""
        answer = await self._ask(line.place.node, {"op": op, **asked.told()}, body, within_s=ANSWER_WITHIN_S)
        failure = answer.payload.get("failure")
        if failure is not None:
            if Failure.read(failure).kind == "away":
                self.absent(line)
            raise InvalidRequest(f"The node that has computer {line.computer} could not answer.")
        return answer

    def absent(self, line: FarLine) -> None:
        """The node that was said to have the computer is not there."""
        self._presence.absent(line.place.node, line.computer, line.place.seat.number)

    def take(
        self, line: FarLine, message: wire.Picture | wire.Unseen | wire.Screens | wire.Keyed, body: bytes = b""
    ) -> None:
        """What comes of a computer; the mirror drops it where that is not its line any more."""
        self._hub.mirror.told(line, message, body)

    def spawn(self, work: Any) -> None:
        """Run something beside, until this closes."""
        task = asyncio.get_running_loop().create_task(work)
        self._going.add(task)
        task.add_done_callback(self._going.discard)

    # -- inside --------------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        if isinstance(event, ComputerCame | ComputerWent):
            self.settle(event.computer)

    def _heard(self, payload: Mapping[str, Any]) -> None:
        told: PictureTold | UnseenTold = (UnseenTold if "unseen" in payload else PictureTold).read(payload)
        line = self._lines.get(told.computer)
        if line is None or line.place.node != told.node:
            return
        if isinstance(told, UnseenTold):
            message = wire.Unseen(journal_seq=0, watch=told.watch, message=wire.to_wire(told.unseen)[:512])
            self.take(line, message)
        else:
            self.take(line, told.message, told.body)
