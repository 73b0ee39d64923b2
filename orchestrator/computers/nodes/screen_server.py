"""This node shows its computers' screens to other nodes, and types there for them.

Theory. Another node that watches a screen is one watcher of this node's mirror, so all nodes share the one watch of the
computer with whoever looks here. It is told what changed, as rows, counted; never faster than a mirror takes from a
computer, so that a whole picture that is asked for again and again costs no more than that. Its watch ends when it says
so, when it has not been renewed, when it is gone, and when the computer is not here any more. What says that a picture
was lost at the very end, after which nothing came, is a renewal that has not heard what was sent before the last one.
"""

import asyncio
import base64
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from orchestrator.computers.hub import CannotType, Gone, Hidden, Hub, Seen, TooManyWatch, Typed, Watcher
from orchestrator.computers.hub.mirror import AROUND_BYTES, RATE_BYTES
from orchestrator.computers.nodes.presence import Presence
from orchestrator.computers.nodes.screen_messages import (
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
from orchestrator.computers.nodes.table import Event, NodeWent
from orchestrator.core.errors import ComputerAway, InvalidRequest
from orchestrator.core.ports import Answer
from orchestrator.core.ports.bus import End
from orchestrator.core.wire.picture import bodies_of, palette_digits
from orchestrator.core.wire.wire import ComputerId

logger = logging.getLogger(__name__)

_Key = tuple[str, ComputerId, str]
"""Who watches, and which screen of whom."""


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
        self.ops: dict[str, Callable[[Mapping[str, Any], bytes], Awaitable[Answer]]] = {
            "screens": self._screens,
            "keys": self._keys,
        }
        """What other nodes can ask about screens."""
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
        """Raises ComputerAway: what is asked of this node is passed on to no other, or two could ask each other."""
        if not self.has(computer):
            raise ComputerAway(f"Computer {computer} is not connected here.", remedy="Try again when it is back.")

    def _happened(self, event: Event) -> None:
        if isinstance(event, NodeWent):
            for key, shown in self._shown.items():
                if key[0] == event.node:
                    shown.task.cancel()


def _strokes(body: bytes) -> list[dict[str, str | bool]]:
    """The strokes of a request. Raises InvalidRequest."""
    try:
        strokes: list[dict[str, str | bool]] = json.loads(body)
    except ValueError:
        raise InvalidRequest("Another node's keys cannot be read.") from None
    return strokes
