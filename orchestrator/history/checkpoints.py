"""Signs the heads of all streams now and then, while the orchestrator runs and when it stops."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from orchestrator.core.audit.chain import SYSTEM_STREAM, Anchor, heads_digest
from orchestrator.core.errors import NewerSchema, OrchestratorError
from orchestrator.core.task.system_facts import NodeStopped
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.tasks import TaskService
from orchestrator.history.audit import Checkpoints, News, make_checkpoint, news_of
from orchestrator.history.remote_heads import HeadsAway

logger = logging.getLogger(__name__)

EVERY_S: Final = 60.0
"""What is cut off a journal within this time after it was written leaves no trace in a checkpoint."""

DUTY: Final = "checkpoints"
_TURNS: Final = 3
"""Turns that the node with the duty may miss before another takes it over."""
_ALL_EVERY: Final = 60
"""Turns after which the heads of all tasks are looked at: what a clock that was late, or a hand, has hidden."""
_SLACK: Final = timedelta(minutes=5)
"""How far the clocks of nodes may be apart."""


@dataclass
class CheckpointKeeper:
    """Makes a checkpoint of a store whenever a task has changed since the last."""

    service: TaskService
    checkpoints: Checkpoints
    every_s: float = EVERY_S
    away: HeadsAway = field(default_factory=HeadsAway)
    _since: datetime | None = None
    """From when on what changed is looked at; None: everything is."""
    _turn: int = 0
    _own: Anchor | None = None
    """The note of the last checkpoint where nothing came between: it is an item too, and alone is nothing new."""
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
                self._since = None
                return
            await self._make()
        except NewerSchema as error:
            logger.info("a node of a newer version is to make the checkpoints: %s", error)
            await self.service.duties.leave(DUTY)
        except OrchestratorError as error:
            logger.error("no checkpoint of the audit: %s", error)  # noqa: TRY400 - it explains itself

    async def _make(self) -> None:
        now, store = self.service.clock.now(), self.service.store
        since, self._since = (self._since, None) if self._turn % _ALL_EVERY else (None, None)
        news = await news_of(store, self.checkpoints, since)
        self._turn += 1
        if not news.missing and news.changed == ({} if self._own is None else {SYSTEM_STREAM: self._own}):
            await self._sent_away(news.changed)
        else:
            await self._signed(news, everything=since is None)
        self._since = now - _SLACK

    async def _signed(self, news: News, *, everything: bool) -> None:
        heard = await self._news_of_computers()
        made = await make_checkpoint(self.service.store, self.checkpoints, self.service.clock.now(), news=news)
        note = await self.service.record(made.model_copy(update={"heard": heard}))
        self._heard |= heard
        known = await asyncio.to_thread(self.checkpoints.known)
        signed = {} if known is None else known.streams
        own = (note.version, note.hash)
        self._own = own if note.version == signed.get(SYSTEM_STREAM, (0, ""))[0] + 1 else None
        await self._sent_away({**(signed if everything else news.changed), SYSTEM_STREAM: own}, everything=everything)

    async def _sent_away(self, heads: Mapping[str, Anchor], *, everything: bool = False) -> None:
        """Only after a checkpoint was made of them: what it refuses to sign is no head of ours."""
        if self.away.places:
            key = await asyncio.to_thread(self.checkpoints.key_fingerprint)
            digest = await asyncio.to_thread(heads_digest, heads) if everything else ""
            await self.away.send(heads, self.service.clock.now(), key, digest)

    async def _news_of_computers(self) -> dict[ComputerId, tuple[str, int]]:
        """What was heard of computers since the last note: it rises without an item, and must not fall."""
        records = await self.service.store.list_computers()
        heard = {one.computer: (one.known.boot if one.known else "", one.heard) for one in records if one.heard}
        return {name: said for name, said in heard.items() if self._heard.get(name) != said}
