"""How this node's mirror sees the computers of other nodes: each is a line to it, as a session of its own is.

Theory. The mirror keeps one watch for all who look at a screen, counts its pictures, begins again where one is missing,
renews it while somebody looks and ends it with the last. Here its messages go over the bus to the node that has the
computer (see ``screen_server``), and what comes from there is taken as if the computer had sent it, with
the same bounds. A computer that moves is closed and opened again, so that watchers see it go and then the whole.
Watches and pictures are notifications. A look and keys are requests, sent once, to a node that asks nobody else.
"""

import asyncio
import base64
import json
import logging
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from orchestrator.computers.hub import CannotType, Gone, Hidden, Hub, Seen, TooManyWatch, Typed, Watcher
from orchestrator.computers.hub.mirror import AROUND_BYTES, RATE_BYTES
from orchestrator.computers.nodes.messages import (
    ANSWER_WITHIN_S,
    Failure,
    KeysAsked,
    KeysTold,
    Ops,
    PictureTold,
    Said,
    ScreensAsked,
    ScreensTold,
    UnseenTold,
    WatchTold,
    pictures_to,
    watches_to,
)
from orchestrator.computers.nodes.table import ComputerCame, ComputerWent, Event, NodeWent, Pinned, Place, Presence
from orchestrator.core.errors import ComputerAway, InvalidRequest, NobodyServes, RequestLost
from orchestrator.core.ports import Answer
from orchestrator.core.ports.bus import End
from orchestrator.core.wire import wire
from orchestrator.core.wire.picture import bodies_of, palette_digits
from orchestrator.core.wire.wire import ComputerId

# -- This node shows its computers' screens to other nodes, and types there for them -----
#
# Theory. Another node that watches a screen is one watcher of this node's mirror. So the people here and all other
# nodes share one watch of the computer. The other node gets the changed rows, with a count, and never faster than
# the mirror reads the computer: to ask for whole pictures again and again costs no more than that. Its watch ends
# when it says so, when it was not renewed, when the node is gone, and when the computer leaves this node. A renewal
# that has not heard the changes before the last ones shows that a picture was lost, also at the very end.

logger = logging.getLogger(__name__)

_Key = tuple[str, ComputerId, str]
"""The watchers, and the screen that each of them watches."""


class _Shown:
    """One screen that one other node watches."""

    def __init__(self, showing: "Showing", told: WatchTold) -> None:
        self._showing = showing
        self.told = told
        self.until = 0.0
        """When the watch ends that is not renewed, by the loop's clock."""
        self._n = 0
        self._n_renewed = 0
        """What ``n`` was when the watch was renewed last."""
        self._palette: tuple[str, ...] | None = None
        self._watcher: Watcher | None = None
        self.renew(told)
        self.task = asyncio.get_running_loop().create_task(self._show())

    def renew(self, told: WatchTold) -> None:
        """The watch goes on, or another begins in its place."""
        self.until = asyncio.get_running_loop().time() + told.lease_s
        is_other, self.told = told.watch != self.told.watch, told
        if is_other or told.heard < self._n_renewed:
            self._n = 0
            if self._watcher is not None:
                self._watcher.again()
        self._n_renewed = self._n

    async def _show(self) -> None:
        try:
            with self._showing.watching(self.told) as self._watcher:
                await self._tell(self._watcher)
        except TooManyWatch as error:
            self._showing.tell(self.told.node, self._unseen(f"{error.message} {error.remedy}"))

    async def _tell(self, watcher: Watcher) -> None:
        loop = asyncio.get_running_loop()
        while not watcher.is_over and self._showing.has(self.told.computer):
            left_s = self.until - loop.time()
            if left_s <= 0:
                return
            match await watcher.next(left_s):
                case Seen() as seen if self._showing.has(self.told.computer):
                    await asyncio.sleep(self._picture(seen) / RATE_BYTES)
                case Hidden(message):
                    self._showing.tell(self.told.node, self._unseen(message))
                case Gone():
                    return

    def _picture(self, seen: Seen) -> int:
        """Tell what changed, or everything where nothing was told; how many bytes that took."""
        shown, rows, size = seen.shown, seen.rows, 0
        is_whole = rows is None or self._n == 0
        named = {
            at: row for at, row in enumerate(shown.rows, 1) if row is not None and (is_whole or at in (rows or ()))
        }
        has_palette = is_whole or shown.palette != self._palette
        self._palette = shown.palette
        for place, body in enumerate(bodies_of(named)):
            self._n += 1
            told = PictureTold(
                node=self._showing.node,
                computer=self.told.computer,
                watch=self.told.watch,
                n=self._n,
                whole=is_whole and place == 0,
                width=shown.width,
                height=shown.height,
                x=shown.x,
                y=shown.y,
                blink=shown.blink,
                palette=palette_digits(shown.palette) if has_palette and place == 0 else None,
                rows=base64.b64encode(body).decode("ascii"),
            )
            size += len(body) + AROUND_BYTES
            self._showing.tell(self.told.node, told)
        return size

    def _unseen(self, message: str) -> UnseenTold:
        return UnseenTold(
            node=self._showing.node, computer=self.told.computer, watch=self.told.watch, unseen=message[:300]
        )


class Showing:
    """All screens of this node's computers that other nodes watch."""

    def __init__(self, hub: Hub, presence: Presence) -> None:
        self._hub = hub
        self._bus = presence.bus
        self.node = presence.node
        self._shown: dict[_Key, _Shown] = {}
        self._ends: list[End] = []
        self.ops: Ops = {
            "screens": self._screens,
            "keys": self._keys,
        }
        """The requests of other nodes about screens."""
        presence.on_event(self._happened)

    def open(self) -> None:
        """Show from now on."""
        self._ends = [self._bus.subscribe(watches_to(self.node), self._watch)]

    async def close(self) -> None:
        """Show nothing any more."""
        for end in self._ends:
            end()
        going = [one.task for one in self._shown.values()]
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)

    @property
    def watched(self) -> int:
        """How many screens are watched from other nodes, each node counted for itself."""
        return len(self._shown)

    # -- for what is shown ---------------------------------------------------------------

    def has(self, computer: ComputerId) -> bool:
        """Whether a computer is here."""
        return self._hub.here(computer)

    def watching(self, told: WatchTold) -> Any:
        """Watch a screen. Raises TooManyWatch."""
        return self._hub.mirror.watching(told.computer, told.of)

    def tell(self, node: str, told: PictureTold | UnseenTold) -> None:
        """Tell who watches."""
        self._bus.publish(pictures_to(node), told.told())

    # -- what is asked -------------------------------------------------------------------

    def _watch(self, payload: Mapping[str, Any]) -> None:
        told = WatchTold.read(payload)
        key = (told.node, told.computer, told.of)
        shown = self._shown.get(key)
        if told.lease_s <= 0:
            if shown is not None and shown.told.watch == told.watch:
                shown.task.cancel()
        elif shown is not None and not shown.task.done() and not shown.task.cancelling():
            shown.renew(told)
        elif self.has(told.computer):
            shown = self._shown[key] = _Shown(self, told)
            shown.task.add_done_callback(lambda _: self._ended(key, shown))

    def _ended(self, key: _Key, shown: _Shown) -> None:
        if self._shown.get(key) is shown:
            del self._shown[key]
        with suppress(asyncio.CancelledError):
            error = shown.task.exception()
            if error is not None:
                logger.error("a screen of computer %s is not shown any more", key[1], exc_info=error)

    async def _screens(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        del body
        asked = ScreensAsked.read(payload)
        self._must_have(asked.computer)
        found = await self._hub.mirror.screens(asked.computer)
        return Answer(ScreensTold(screens=found).told())

    async def _keys(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        asked = KeysAsked.read(payload)
        try:
            self._must_have(asked.computer)
            typed = await self._hub.mirror.type(asked.computer, _strokes(body))
        except (ComputerAway, CannotType, InvalidRequest) as error:
            # None of these comes after anything was sent.
            typed = Typed(delivered=False, message=f"{error.message} Nothing was typed.")
        return Answer(KeysTold(delivered=typed.delivered, message=typed.message).told())

    def _must_have(self, computer: ComputerId) -> None:
        """Raises ComputerAway: a request to this node is not passed on to another, or two could ask each other."""
        if not self.has(computer):
            raise ComputerAway(f"Computer {computer} is away.", remedy="Try again when it is back.")

    def _happened(self, event: Event) -> None:
        if isinstance(event, NodeWent):
            for key, shown in self._shown.items():
                if key[0] == event.node:
                    shown.task.cancel()


def _strokes(body: bytes) -> list[dict[str, str | bool]]:
    """The key events of a request. Raises InvalidRequest."""
    try:
        strokes: list[dict[str, str | bool]] = json.loads(body)
    except ValueError:
        raise InvalidRequest("Another node's keys cannot be read.") from None
    return strokes


# -- How this node's mirror sees the computers of other nodes: each is a line to it, as a session of its own is


_LOST = "The other node did not answer: whether it was typed is not known."
_NOT_THERE = "The computer is away by now; nothing was typed."


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
            # The asker is told in a few seconds that nothing came.
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
        """Take a message of a computer; the mirror drops it where that is not its line any more."""
        self._hub.mirror.told(line, message, body)

    def spawn(self, work: Any) -> None:
        """Run something beside, until this closes."""
        task = asyncio.get_running_loop().create_task(work)
        self._going.add(task)
        task.add_done_callback(self._going.discard)

    # -- inside --------------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        if isinstance(event, ComputerCame | ComputerWent | Pinned):
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
