"""Keys one after the other: each is for what stands on the screen once the key before it is done.

Theory. The library hands a key to what has the focus, and the key climbs from there to what knows it. The next key is
handed out meanwhile, to what is about to go. So a text that is typed fast would be taken as commands.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from textual.app import App
from textual.events import Event, Key, Paste
from textual.message_pump import MessagePump

_MOST_S: Final = 0.5
"""How long a key waits for the work of the key before it, such as a question that the server has to be asked for."""
_STEP_S: Final = 0.005
SETTLE_S: Final = 0.5
"""How long something is on the screen before a key can decide about it: nobody reads faster."""
JUST_COME: Final = "It has just come: read it, then press the key again."


class Typing:
    """The keys of one app that were typed and not handed out yet."""

    def __init__(self, app: App[Any], hand_out: Callable[[Event], Awaitable[None]]) -> None:
        self._app, self._hand_out = app, hand_out
        self._typed: asyncio.Queue[Event] = asyncio.Queue()
        self._busy = False
        self._typed_at = 0.0
        """When the key was typed that is handed out now, as time.monotonic counts."""

    def too_early(self, shown_at: float) -> bool:
        """Whether the key of now was typed before a person could read what is shown since then.

        The time is that of typing: a key that waited for its turn was meant for what stood there before.
        """
        return self._typed_at < shown_at + SETTLE_S

    @property
    def idle(self) -> bool:
        """Whether all that was typed is done."""
        return not self._busy and self._typed.empty()

    def take(self, event: Event) -> bool:
        """Keep a key or a pasted text until it is its turn; whether it was one."""
        if not isinstance(event, Key | Paste) or event.is_forwarded:
            return False
        self._typed.put_nowait(event)
        return True

    async def run(self) -> None:
        """Hand them out, until cancelled."""
        while True:
            event = await self._typed.get()
            self._busy = True
            try:
                await self._one(event)
            finally:
                self._busy = False

    async def _one(self, event: Event) -> None:
        app = self._app
        self._typed_at = event.time
        screen, before = app.screen, self._asking()
        target: MessagePump = app.focused or screen
        climbed = list(_way_up(target))
        await self._hand_out(event)
        with suppress(TimeoutError):
            async with asyncio.timeout(_MOST_S):
                for node in climbed:
                    await _done_with(node)
                # What a key begins may open a question: the next key is for that one.
                while app.screen is screen and self._asking() - before:  # noqa: ASYNC110 - nobody tells it
                    await asyncio.sleep(_STEP_S)
                while app.screen is not screen and app.screen.focused is None:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(_STEP_S)

    def _asking(self) -> set[Any]:
        return {one for one in self._app.workers if one.group == "default" and not one.is_finished}


def _way_up(node: MessagePump) -> Iterator[MessagePump]:
    """A widget and all that it is in."""
    at: MessagePump | None = node
    while at is not None:
        yield at
        at = at._parent


async def _done_with(node: MessagePump) -> None:
    """Wait until this has handled what it was given before."""
    handled = asyncio.Event()
    if node.is_running and node.call_later(handled.set):
        await handled.wait()
