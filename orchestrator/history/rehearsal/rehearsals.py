"""The rehearsals of a node: their number, and the node that runs each, across restarts and among several nodes.

Theory. The state of a rehearsal is in its task and in a directory of its own (see ``copy``). So the next start after a
kill finds the open task or the directory, and goes on from there. Among several nodes one runs a rehearsal, by a
singleton job in the store. If that node is gone, another one takes the job. It does not have the directory: it begins
anew if the task has touched nothing, else the rehearsal has failed.
"""

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from orchestrator.core.errors import NotFound, OrchestratorError
from orchestrator.core.ports import ComputerInfo, Identity
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.task.limits import failed, why_it_ends
from orchestrator.core.task.rehearsal import Rehearsal, is_copy
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.plan import read_listing
from orchestrator.core.wire.wire import ComputerId, sha256_hex
from orchestrator.engine.tasks import AWAY
from orchestrator.engine.undo import Undoing
from orchestrator.history.rehearsal.conclusion import AUTH, Concluding, Shown, must_be_untouched, rehearsal_of, shown
from orchestrator.history.rehearsal.copy import (
    CannotRehearse,
    Copying,
    Home,
    RehearsalFailed,
    copy_running,
    must_be_installed,
    new_copy_name,
    remove,
    write_disk,
)
from orchestrator.runtime.logs import about

# -- One rehearsal from wherever it is to the task that asks for all of it ---------------
#
# Theory. The definition of a rehearsal is in its task; its progress can be read from the task and from a directory of
# its own. While the task is not over, the copy is written, unless it was written whole, and runs. When the task is
# over, the process is ended, its disk is read, and the differences become one task. It is submitted with a key, so that
# it is submitted once however often this is begun again. Then ``rehearsal_ended`` is recorded, and last the directory
# goes.

logger = logging.getLogger(__name__)

LIFE_S: Final = 86_400.0
"""A rehearsal that waits for a person keeps a process; after a day it has failed."""
SETTLE_S: Final = 20.0
"""Once the task is over: how long the copy may take to say what became of its last call."""
CONNECT_WITHIN_S: Final = 60.0
MAX_STARTS: Final = 5
"""Starts of one copy by one server: programs may shut it down, as they may any computer."""


@dataclass
class Performing:
    """Performs the rehearsals of one node, each by itself."""

    undoing: Undoing
    ends: Concluding
    homes: Path
    """Where their directories are."""
    guests: dict[str, Identity]
    """The copy that may come in, by the hash of its token, which is kept nowhere else."""
    url: str = ""
    """Where this server's endpoint for computers is, once it listens."""

    async def see_through(self, task_id: TaskId) -> None:
        """Go on with one from wherever it is, to its very end. Raises what the store and the disk raise."""
        home = Home(self.homes / task_id)
        task = await self.undoing.service.store.load(task_id)
        if task is None or task.rehearses is None or task.rehearsed is not None:
            # Left by a killed process, or not of a rehearsal.
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
        while not await self.undoing.world.reaches(name):
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


# -- The rehearsals of a node: how many there may be, and who sees each through, across restarts and among several
# nodes


WORK_S: Final = 3_600.0
"""Seconds of work for a rehearsal whose task has no limit of its own."""
DUTY_S: Final = 60.0
"""How long a rehearsal of a node that is gone waits for another; renewed four times in it."""
LOOK_S: Final = 30.0
"""How soon a node notices that another left a rehearsal behind."""
_AGAIN_S: Final = 5.0
"""Between two tries where the store does not answer; then twice as long each time."""
_AGAIN_AT_MOST_S: Final = 300.0
_ALL: Final = 100_000


@dataclass
class Rehearsals:
    """The rehearsals of one node."""

    undoing: Undoing
    copying: Copying
    homes: Path
    """Where their directories are."""
    at_once: int
    """How many there may be; 0: none."""
    guests: dict[str, Identity] = field(default_factory=dict)
    """The copies that may come in; the authorizer looks here, too."""
    ends: Concluding = field(init=False)
    performing: Performing = field(init=False)
    _running: dict[TaskId, asyncio.Task[None]] = field(default_factory=dict)
    _asking: set[TaskId] = field(default_factory=set)
    """The rehearsals of which it is not known yet whether another node does them: they take no place here."""
    _looking: asyncio.Task[None] | None = None
    _seats: int = 0
    """Rehearsals whose computer is being copied."""

    def __post_init__(self) -> None:
        self.ends = Concluding(self.undoing)
        self.performing = Performing(self.undoing, self.ends, self.homes, self.guests)

    # -- what the endpoints ask --------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def copied(self, computer: ComputerId, roles: tuple[str, ...]) -> AsyncIterator[tuple[Rehearsal, ComputerId]]:
        """A real computer as it is to be rehearsed, and the name of its copy; the task is submitted in the block.

        Raises InvalidRequest, CannotRehearse.
        """
        must_be_installed()
        async with self.undoing.world.pinned([computer]), self._copied(computer, roles) as copied:
            yield copied

    @contextlib.asynccontextmanager
    async def _copied(
        self, computer: ComputerId, roles: tuple[str, ...]
    ) -> AsyncIterator[tuple[Rehearsal, ComputerId]]:
        info = self._online(computer)
        if len(self._running.keys() - self._asking) + self._seats >= self.at_once:
            raise CannotRehearse(
                f"{self.at_once} rehearsals are going on, and there may be no more."
                if self.at_once
                else "Rehearsals are switched off here.",
                remedy="Wait for one to end or stop it, or raise the setting rehearsals.",
            )
        self._seats += 1
        try:
            yield await self.copying.copied(info, roles), new_copy_name(computer)
        finally:
            self._seats -= 1

    def _online(self, computer: ComputerId) -> ComputerInfo:
        computers = self.undoing.world.computers
        info = computers.info(computer) if computers is not None else None
        if info is None or not info.online:
            raise CannotRehearse(
                f"Computer {computer} is away, so it cannot be copied.",
                remedy="Rehearse when it is back, or run the task without --rehearse: then it waits for it.",
            )
        return info

    async def shown(self, task: AgentTask) -> Shown:
        """The result of a rehearsal. Raises NotFound for another task."""
        rehearsal = rehearsal_of(task)
        if task.ended is not None and task.rehearsed is None:
            # One whose directory a kill came before: nothing else tells a start of the server of it.
            self.begin(task.task_id, asks=True)
        return await shown(task, rehearsal, self.undoing.service.store, await self.undoing.applied(task))

    def begin(self, task_id: TaskId, *, asks: bool = False) -> None:
        """See a rehearsal through from now on; ``asks``: it may be another node's."""
        if self.performing.url and task_id not in self._running:
            running = self._running[task_id] = asyncio.create_task(self._until_done(task_id))
            running.add_done_callback(lambda _: self._ended(task_id))
            if asks:
                self._asking.add(task_id)

    def _ended(self, task_id: TaskId) -> None:
        del self._running[task_id]
        self._asking.discard(task_id)

    # -- the life of the node ------------------------------------------------------------

    async def open(self, url: str) -> None:
        """Go on with what was going on when the node stopped, now that copies can connect to it."""
        self.performing.url = url
        await self.take_up()
        if self.undoing.service.store.shared:
            self._looking = asyncio.create_task(self._look_again())

    async def _look_again(self) -> None:
        """Take up what other nodes left, until canceled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.take_up()
            except OrchestratorError as error:
                logger.warning("rehearsals are looked for again soon: %s", error)
            except Exception:
                logger.exception("a look for rehearsals met a defect")

    async def take_up(self) -> None:
        """Begin each rehearsal that is not over and that no other node sees through."""
        service = self.undoing.service
        left = {TaskId(one.name) for one in self.homes.iterdir() if one.is_dir()} if self.homes.is_dir() else set()
        for status in (TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.PAUSED):
            rows = await service.store.list_tasks(status=status, limit=_ALL)
            left |= {row.task_id for row in rows if any(is_copy(one) for one in row.computers)}
        for task_id in sorted(left):
            self.begin(task_id, asks=True)

    def going_on(self) -> list[asyncio.Task[None]]:
        """The rehearsals that this node sees through, or looks whether it has to."""
        return list(self._running.values())

    async def close(self) -> None:
        """End every copy, for a clean stop; the next start goes on."""
        running = [*self.going_on(), *([self._looking] if self._looking is not None else [])]
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # -- one rehearsal -------------------------------------------------------------------

    async def _until_done(self, task_id: TaskId) -> None:
        """See one through, whatever the store is at, unless another node does."""
        duties, name = self.undoing.service.duties, f"rehearsal.{task_id}"
        with about(task_id=task_id):
            try:
                if not await duties.take(name, DUTY_S):
                    return
                self._asking.discard(task_id)
            except OrchestratorError as error:
                logger.warning("the rehearsal %s is taken up later: %s", task_id, error)
                return
            trying = asyncio.create_task(self._tried(task_id))
            holding = asyncio.create_task(self._hold(name))
            try:
                await asyncio.wait((trying, holding), return_when=asyncio.FIRST_COMPLETED)
                if not trying.done():
                    logger.warning("the rehearsal %s is another node's now", task_id)
            finally:
                for one in (trying, holding):
                    one.cancel()
                await asyncio.gather(trying, holding, return_exceptions=True)
                await duties.leave(name)

    async def _hold(self, name: str) -> None:
        """Renew a singleton job until another node has it, or until nobody knows whether it is ours."""
        loop = asyncio.get_running_loop()
        until = loop.time() + DUTY_S
        while loop.time() < until:
            await asyncio.sleep(DUTY_S / 4)
            asked = loop.time()
            try:
                if not await self.undoing.service.duties.take(name, DUTY_S):
                    return
                until = asked + DUTY_S
            except OrchestratorError as error:
                logger.warning("the singleton job %s was not renewed: %s", name, error)

    async def _tried(self, task_id: TaskId) -> None:
        """See it through; what fails, except for a store that is away, is recorded and tried a few times."""
        for tries in count():
            try:
                try:
                    await self.performing.see_through(task_id)
                except AWAY:
                    raise
                except Exception as error:
                    logger.exception("the rehearsal %s failed", task_id)
                    if await self.performing.failed(task_id, error):
                        return
                else:
                    return
            except OrchestratorError as error:
                logger.warning("the rehearsal %s is taken up again soon: %s", task_id, error)
            await asyncio.sleep(min(_AGAIN_S * 2**tries, _AGAIN_AT_MOST_S))
