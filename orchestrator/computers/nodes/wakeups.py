"""Tasks that wait for a computer are woken by the node that welcomes it. This wakes those that it cannot know of.

Theory. Node A lets a task sleep for a computer that node B has just welcomed, and does not know it yet. Where A's task
slept before B woke who waits, B woke it. Where it slept after, A either knows by then that the computer is there and
wakes the task itself (the actor looks once more when it has slept), or hears it later: A keeps in mind for which
computers it let tasks sleep, from before they do, and when it hears that one came it wakes who waits for it. Only
that one statement then, and only for computers that were waited for here. Where A died in between, nobody keeps it in
mind: so a node that hears that another is gone wakes whoever waits for a computer that is connected here.
"""

import asyncio
import logging
from typing import Final

from orchestrator.computers.hub import Hub
from orchestrator.computers.nodes.presence import Presence
from orchestrator.computers.nodes.table import ComputerCame, Event, NodeWent
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import TaskQueue
from orchestrator.core.wire.wire import ComputerId

logger = logging.getLogger(__name__)

_AGAIN_S: Final = 1.0
"""Until a store that failed is asked again."""


class Waking:
    """Wakes tasks that wait for a computer which came to another node, or whose node died."""

    def __init__(self, queue: TaskQueue, hub: Hub, presence: Presence, awaited: set[ComputerId]) -> None:
        self._queue = queue
        self._hub = hub
        self._presence = presence
        self._awaited = awaited
        self._wanted: dict[ComputerId, None] = {}
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
                self._want([event.computer])
            case NodeWent():
                self._want([one for one in self._hub.known.computers() if self._hub.here(one)])
            case _:
                pass

    def _want(self, computers: list[ComputerId]) -> None:
        self._wanted.update(dict.fromkeys(computers))
        if self._wanted and (self._waking is None or self._waking.done()):
            self._waking = asyncio.get_running_loop().create_task(self._wake())

    async def _wake(self) -> None:
        woken = 0
        while self._wanted:
            computer = next(iter(self._wanted))
            del self._wanted[computer]
            try:
                woken += await self._queue.wake_waiting(computer)
            except OrchestratorError as error:
                logger.warning("who waits for computer %s is woken in a moment: %s", computer, error)
                self._wanted[computer] = None
                await asyncio.sleep(_AGAIN_S)
        if woken:
            self._presence.bus.publish("tasks.due", {})
