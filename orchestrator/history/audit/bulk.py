"""Tasks that are verified many at a time, in processes beside this one.

Theory. Nearly all tasks are as they were written, and small. So many are read at one moment, and whether they are clean
is worked out elsewhere, without the store: reading and hashing an item holds up nobody here, and takes all cores. This
way only says which tasks are clean. Every other one is left to :class:`orchestrator.history.audit.stream.Stream`, which
reads it again by itself and says what is wrong, so that there is one account of each fault.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from orchestrator.core.audit.chain import Anchor, Named, StreamCheck
from orchestrator.core.audit.tables import request_faults
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import KeptJournal
from orchestrator.history.audit.stream import PAGE, Books, Reading, Records, Stream, anchor_of
from orchestrator.history.audit.verified import Line, Says

AT_ONCE: Final = 100
"""Tasks that are read at one moment: a megabyte or two."""
_WORTH_IT: Final = 2_000
"""Tasks from which on other processes are begun: that takes a second or two."""
_MOST: Final = 8
_NICE: Final = 10


class Clean(NamedTuple):
    """A task in which nothing is wrong, but for what it names elsewhere."""

    name: str
    line: Line
    says: Says
    named: dict[str, tuple[Named, int]]
    """The blobs that have to be there."""
    requests: list[str]
    """The requests that have to lead to it."""


def clean_of(journals: Sequence[KeptJournal], anchors: Mapping[str, Anchor], run: int, now: int) -> list[Clean]:
    """The clean ones of these tasks; ``anchors``: their heads in the checkpoint. ``now`` as of ``Books``."""
    return [one for journal in journals if (one := _clean(journal, anchors, run, now)) is not None]


def _clean(journal: KeptJournal, anchors: Mapping[str, Anchor], run: int, now: int) -> Clean | None:
    name, head = str(journal.row["task_id"]), anchor_of(journal.row)
    if len(journal.items) != head[0]:
        return None
    reading, check = Reading(name, Books()), StreamCheck(name, anchors.get(name))
    reading.take(journal.items, check)
    if check.end(head) or reading.task is None or reading.row_faults(journal.row, reading.task, now):
        return None
    line = reading.line_of(journal.row, run)
    return None if line is None else Clean(name, line, reading.says, reading.named, reading.requests)


@dataclass(eq=False, repr=False)
class Bulk:
    """Reads many tasks of a store at a time. Close it."""

    store: Records
    run: int
    processes: int = 0
    """Processes that work on it, at the least priority; 0: this one."""
    _pool: Executor | None = None
    _listed: dict[tuple[str, str], bool] = field(default_factory=dict)
    """Directories, by their lines and what was left out: whether their files are there."""

    def begin(self, tasks: int) -> int:
        """How many tasks to ask for at a time, where there are so many."""
        if self.processes and tasks >= _WORTH_IT:
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            self._pool = ProcessPoolExecutor(self.processes, mp_context=get_context("spawn"), initializer=_begun)
        return AT_ONCE * (2 * self.processes if self._pool is not None else 1)

    def close(self) -> None:
        """End the processes; what they have in hand is let go."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def clean(self, names: Sequence[str], anchors: Mapping[str, Anchor], now: int) -> dict[str, Clean]:
        """The clean ones of these tasks, with all that they name; ``anchors``: their heads in the checkpoint."""
        parts = [names[start : start + AT_ONCE] for start in range(0, len(names), AT_ONCE)]
        found = await asyncio.gather(*(self._clean_part(part, anchors, now) for part in parts))
        return {one.name: one for part in found for one in part}

    async def _clean_part(self, names: Sequence[str], anchors: Mapping[str, Anchor], now: int) -> list[Clean]:
        try:
            journals = await self.store.kept_journals(names, PAGE)
            anchors = {name: anchors[name] for name in names if name in anchors}
            found = await self._worked_out(journals, anchors, now)
            sizes = await self.store.blob_sizes(sorted({sha256 for one in found for sha256 in one.named}))
            raised = await self.store.raised_by([request for one in found for request in one.requests])
            return [one for one in found if not await self._lacks(one, sizes, raised)]
        except OrchestratorError:
            return []  # It is said of the very task which cannot be read.

    async def _worked_out(self, journals: list[KeptJournal], anchors: Mapping[str, Anchor], now: int) -> list[Clean]:
        if self._pool is not None:
            with suppress(BrokenExecutor):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._pool, clean_of, journals, anchors, self.run, now)
            self._pool = None
        return await asyncio.to_thread(clean_of, journals, anchors, self.run, now)

    async def _lacks(self, one: Clean, sizes: Mapping[str, int], raised: Mapping[str, str]) -> bool:
        """Whether something that a task names is not there, or is another."""
        if request_faults(one.requests, one.name, raised):
            return True
        for sha256, (named, _) in one.named.items():
            if sizes.get(sha256) is None or named.size not in (None, sizes[sha256]):
                return True
            if named.is_directory and not await self._has_files(sha256, named):
                return True
        return False

    async def _has_files(self, sha256: str, directory: Named) -> bool:
        place = sha256, directory.but
        if place not in self._listed:
            check = StreamCheck("")
            await Stream("", Books(), store=self.store, head=(0, "")).look_into(sha256, directory, 0, check)
            self._listed[place] = not check.faults
        return self._listed[place]


def processes_here() -> int:
    """As many as this machine has cores for, up to some."""
    return min(_MOST, os.cpu_count() or 1)


def _begun() -> None:
    """What goes on here is never to hold up a server's tasks; an interrupt is the business of who began it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(AttributeError, OSError):
        os.nice(_NICE)
