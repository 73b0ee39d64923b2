"""Signs the heads of all streams now and then, while the orchestrator runs and when it stops."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from orchestrator.audit import Checkpoints, heads_of, make_checkpoint
from orchestrator.core.audit import Anchor
from orchestrator.core.errors import NewerSchema, OrchestratorError
from orchestrator.core.system_facts import NodeStopped
from orchestrator.core.wire import ComputerId
from orchestrator.heads_away import HeadsAway
from orchestrator.tasks import TaskService

logger = logging.getLogger(__name__)

EVERY_S: Final = 60.0
"""What is cut off a journal within this time after it was written leaves no trace in a checkpoint."""

DUTY: Final = "checkpoints"
_TURNS: Final = 3
"""Turns that the node with the duty may miss before another takes it over."""


@dataclass
class CheckpointKeeper:
    """Makes a checkpoint of a store whenever a task has changed since the last."""

    service: TaskService
    checkpoints: Checkpoints
    every_s: float = EVERY_S
    away: HeadsAway = field(default_factory=HeadsAway)
    _left: dict[str, Anchor] = field(default_factory=dict)
    """The heads as the last checkpoint left them; empty: something came in beside it."""
    _heard: dict[ComputerId, tuple[str, int]] = field(default_factory=dict)
    """What the last checkpoints noted of computers."""

    async def keep(self) -> None:
        """Make checkpoints until canceled."""
        while True:
            await asyncio.sleep(self.every_s)
            await self.make()

    async def stopped(self) -> None:
        """Record the end of the node and sign what it leaves behind."""
        try:
            await self.service.record(NodeStopped(node=self.service.duties.node))
        except OrchestratorError as error:
            logger.error("the stop is not recorded: %s", error)  # noqa: TRY400 - it explains itself
        await self.make()
        await self.service.duties.leave(DUTY)

    async def make(self) -> None:
        """Make one if there is something new; one that may not be made is an error of the log, not the end.

        Of several nodes one does, as long as it lives: each has a file and a key of its own, and the note of a
        checkpoint would be something new for the others.
        """
        try:
            if not await self.service.duties.take(DUTY, _TURNS * self.every_s):
                self._left = {}
                return
            before = await heads_of(self.service.store)
            if before == self._left:
                await self._sent_away(before)
                return
            heard = await self._news_of_computers()
            made = await make_checkpoint(self.service.store, self.checkpoints, self.service.clock.now())
            await self.service.record(made.model_copy(update={"heard": heard}))
            self._heard |= heard
            after = await heads_of(self.service.store)
            # The note of the checkpoint is an item too, and alone is nothing new.
            self._left = after if _items(after) == _items(before) + 1 else {}
            await self._sent_away(after)
        except NewerSchema as error:
            logger.info("a node of a newer version is to make the checkpoints: %s", error)
            await self.service.duties.leave(DUTY)
        except OrchestratorError as error:
            logger.error("no checkpoint of the audit: %s", error)  # noqa: TRY400 - it explains itself

    async def _sent_away(self, heads: Mapping[str, Anchor]) -> None:
        """Only after a checkpoint was made of them: what it refuses to sign is no head of ours."""
        if self.away.places:
            key = await asyncio.to_thread(self.checkpoints.key_fingerprint)
            await self.away.send(heads, self.service.clock.now(), key)

    async def _news_of_computers(self) -> dict[ComputerId, tuple[str, int]]:
        """What was heard of computers since the last note: it rises without an item, and must not fall."""
        records = await self.service.store.list_computers()
        heard = {one.computer: (one.known.boot if one.known else "", one.heard) for one in records if one.heard}
        return {name: said for name, said in heard.items() if self._heard.get(name) != said}


def _items(heads: Mapping[str, Anchor]) -> int:
    return sum(version for version, _ in heads.values())
