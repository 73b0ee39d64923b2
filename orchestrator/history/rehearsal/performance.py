"""One rehearsal from wherever it is to the task that asks for all of it.

Theory. What a rehearsal is stands in its task; how far it is can be read off the task and off a directory of its
own. The task is not over: the copy is written, unless it was written whole, and runs until the task is over. It is
over: the process is ended, its disk is read, and what differs becomes one task, submitted with a key, so that it is
submitted once however often this is begun again. Then ``rehearsal_ended`` is recorded, and last the directory goes.
"""

import asyncio
import logging
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from orchestrator.core.errors import NotFound
from orchestrator.core.ports import Identity
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.failures import failed, why_it_ends
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.task.rehearsal import Rehearsal
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.listings import read_listing
from orchestrator.core.wire.wire import ComputerId, sha256_hex
from orchestrator.engine.undo import Undoing
from orchestrator.history.rehearsal.conclusion import AUTH, Concluding, must_be_untouched
from orchestrator.history.rehearsal.disk import RehearsalFailed, remove, write_disk
from orchestrator.history.rehearsal.process import Home, copy_running

logger = logging.getLogger(__name__)

LIFE_S: Final = 86_400.0
"""A rehearsal that waits for a person keeps a process; after a day it has failed."""
SETTLE_S: Final = 20.0
"""Once the task is over: how long the copy may take to say what became of its last call."""
CONNECT_WITHIN_S: Final = 60.0
MAX_STARTS: Final = 5
"""Of one copy by one server: programs may shut it down, as they may any computer."""


@dataclass
class Performing:
    """Performs the rehearsals of one node, each by itself."""

    undoing: Undoing
    ends: Concluding
    homes: Path
    """Where their directories are."""
    url: str = ""
    """Where this server's door for computers is, once it listens."""
    guests: dict[str, Identity] = field(default_factory=dict)
    """By the hash of its token, which is kept nowhere else: the copy that may come in with it."""

    async def see_through(self, task_id: TaskId) -> None:
        """Go on with one from wherever it is, to its very end. Raises what the store and the disk raise."""
        home = Home(self.homes / task_id)
        task = await self.undoing.service.store.load(task_id)
        if task is None or task.rehearses is None or task.rehearsed is not None:
            # What a kill left, or what is no rehearsal's.
            await _remove(home)
            return
        self.homes.mkdir(parents=True, exist_ok=True, mode=0o700)
        home.root.mkdir(exist_ok=True, mode=0o700)
        lock = await home.lock()
        try:
            if task.ended is None:
                await self._play(home, task, task.rehearses, lock)
            await self.ends.conclude(home, task_id, task.rehearses)
            await _remove(home)
        finally:
            os.close(lock)

    async def failed(self, task_id: TaskId, error: Exception) -> bool:
        """Record on the task that it could not be seen through; whether that was once too often, and it has ended."""
        service = self.undoing.service
        task = await service.load(task_id)
        rehearsal = task.rehearses
        if rehearsal is None or task.rehearsed is not None:
            return True
        said = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        failure = failed(task, f"The copy cannot be worked on: {said}", "failed", "Rehearse")
        await service.append(task, [service.draft(failure, SYSTEM)])
        if failure.count < failure.most:
            return False
        why = why_it_ends(failure)
        await service.fail(task_id, RehearsalFailed.code, f"{why} Nothing was applied.")
        home = Home(self.homes / task_id)
        await self.ends.conclude(home, task_id, rehearsal, why)
        await _remove(home)
        return True

    async def _play(self, home: Home, task: AgentTask, rehearsal: Rehearsal, lock: int) -> None:
        """Let the task work on its copy until it is over, by itself or because the copy cannot go on."""
        service = self.undoing.service
        try:
            await self._filled(home, task, rehearsal)
            await self._run(home, task, rehearsal, lock)
        except (RehearsalFailed, NotFound) as failed:
            logger.warning("the rehearsal %s failed: %s", task.task_id, failed)
            await service.fail(task.task_id, RehearsalFailed.code, f"{failed} Nothing was applied.")

    async def _filled(self, home: Home, task: AgentTask, rehearsal: Rehearsal) -> None:
        """The disk of the copy, written whole; one that was, is as the task left it."""
        if home.whole.exists():
            return
        store = self.undoing.service.store
        await must_be_untouched(store, task.task_id)
        if home.disk.exists():
            await asyncio.to_thread(remove, home.disk)
        listing = read_listing(await store.get_blob(rehearsal.base))
        contents = {sha256: await store.get_blob(sha256) for sha256 in set(listing.files.values())}
        await asyncio.to_thread(write_disk, home.disk, listing, contents)
        home.whole.touch()

    async def _run(self, home: Home, task: AgentTask, rehearsal: Rehearsal, lock: int) -> None:
        over = asyncio.create_task(self._over(task))
        try:
            for _ in range(MAX_STARTS):
                if await self._once(home, task.computers[0], rehearsal, lock, over):
                    return
        finally:
            over.cancel()
            await asyncio.gather(over, return_exceptions=True)
        raise RehearsalFailed(f"The copy stopped {MAX_STARTS} times: {home.last_words()}")

    async def _once(
        self, home: Home, name: ComputerId, rehearsal: Rehearsal, lock: int, over: "asyncio.Task[None]"
    ) -> bool:
        """The copy from its start to its end, or to that of the task, which is the answer."""
        token = secrets.token_urlsafe(32)
        # The same for each start: it is the same computer, whose approvals hold.
        identity = Identity(kind="computer", name=name, auth=AUTH, token_hash=sha256_hex(name.encode()))
        self.guests[sha256_hex(token.encode())] = identity
        try:
            async with copy_running(home, rehearsal, url=self.url, token=token, lock=lock) as process:
                gone = asyncio.create_task(process.wait())
                there = asyncio.create_task(self._connected(name))
                try:
                    await asyncio.wait((gone, there, over), return_when=asyncio.FIRST_COMPLETED)
                    if there.done():
                        there.result()
                    await asyncio.wait((gone, over), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    gone.cancel()
                    there.cancel()
                    await asyncio.gather(gone, there, return_exceptions=True)
        finally:
            del self.guests[sha256_hex(token.encode())]
        if over.done():
            over.result()
        return over.done()

    async def _connected(self, name: ComputerId) -> None:
        """Wait for the copy. Raises RehearsalFailed when it does not come."""
        until = asyncio.get_running_loop().time() + CONNECT_WITHIN_S
        while not self.undoing.world.online(name):
            if asyncio.get_running_loop().time() > until:
                raise RehearsalFailed("The copy did not connect.", remedy="The server's log may say why.")
            await asyncio.sleep(0.1)

    async def _over(self, task: AgentTask) -> None:
        """Wait until the task is over and nothing of it is under way. Raises RehearsalFailed after a day."""
        service, loop = self.undoing.service, asyncio.get_running_loop()
        began = task.created_at or service.clock.now()
        left_s = LIFE_S - (service.clock.now() - began).total_seconds()
        ended = False
        try:
            async with asyncio.timeout(left_s) as limit:
                async for item in service.watch(task.task_id):
                    if isinstance(item.fact, facts.TaskEnded):
                        ended = True
                        limit.reschedule(loop.time() + SETTLE_S)
        except TimeoutError:
            if not ended:
                raise RehearsalFailed(f"It was not over after {LIFE_S / 3600:.0f} hours.") from None


async def _remove(home: Home) -> None:
    if home.root.exists():
        try:
            await asyncio.to_thread(remove, home.root)
        except OSError as error:
            # The next start of the server tries again.
            logger.warning("%s could not be removed: %s", home.root, error)
