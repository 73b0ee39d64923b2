"""What an undo of a task would do: its changes read off the journal, and a look at each place."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from orchestrator.core.errors import (
    CallLost,
    CallVoid,
    ComputerAway,
    ComputerFailed,
    InvalidRequest,
    NotFound,
    ToolFailed,
)
from orchestrator.core.facts import TaskId
from orchestrator.core.restoring.planning import Entry, Found, Goal, Verdict, beside, goals_of, plan, progressed
from orchestrator.core.restoring.touches import ABSENT, DIRECTORY, Changes, Place, Untold, changes, trees_of
from orchestrator.core.restoring.wanted import MODEL, Restoration
from orchestrator.core.task import AgentTask
from orchestrator.ports import Identity
from orchestrator.tasks import TaskService
from orchestrator.world import World

_AT_ONCE: Final = 4
"""Looks at one time: half of the calls that a computer takes."""
_VERBS: Final[tuple[tuple[Verdict, str], ...]] = (
    ("restore", "put back"),
    ("remove", "removed"),
    ("conflict", "kept"),
    ("away", "waiting for their computer"),
)
_TITLE_CHARS: Final = 80


@dataclass(frozen=True)
class Preview:
    """What an undo would do, and what it cannot."""

    entries: tuple[Entry, ...]
    untold: tuple[Untold, ...]


@dataclass(frozen=True)
class Undoing:
    """Plans of restorations, and their tasks."""

    service: TaskService
    world: World

    async def preview(self, wanted: Restoration, by: Identity) -> Preview:
        """What an undo would do now. Raises NotFound, Forbidden, InvalidRequest while the task goes on."""
        await self._may(wanted, by)
        undone = await self.changes(wanted.task_id)
        return Preview(await self.plan(undone, wanted), undone.untold)

    async def submit(self, wanted: Restoration, by: Identity, *, key: str = "") -> AgentTask:
        """A task that undoes another one. Raises as :meth:`preview`; ``key`` as of ``TaskService.submit``."""
        task = await self._may(wanted, by)
        undone = await self.changes(wanted.task_id)
        places = [goal.place for goal in goals_of(undone, wanted)]
        if not places:
            raise InvalidRequest(f"There is nothing of {task.task_id} to undo.", remedy="Look at what it changed.")
        title = task.prompt.partition("\n")[0][:_TITLE_CHARS]
        return await self.service.submit(
            f"Undo {task.task_id}: {title}",
            user=by,
            computers=sorted({place.computer for place in places if place.computer is not None}),
            model=MODEL,
            max_steps=0,
            restores=wanted,
            key=key,
        )

    async def _may(self, wanted: Restoration, by: Identity) -> AgentTask:
        task = await self.service.load(TaskId(wanted.task_id))
        self.service.must_own(by, task, "undoes it")
        if task.ended is None:
            raise InvalidRequest(f"{task.task_id} is not over yet.", remedy=f"Cancel it first: stop {task.task_id}.")
        return task

    async def changes(self, task_id: str) -> Changes:
        """What a task changed. Raises NotFound."""
        items = await self.service.store.read(TaskId(task_id))
        if not items:
            raise NotFound(f"There is no task {task_id!r}.", remedy="List the tasks for their ids.")
        return changes(items, {tree: await self.service.store.get_blob(tree) for tree in trees_of(items)})

    async def plan(self, undone: Changes, wanted: Restoration, *, own: Changes | None = None) -> tuple[Entry, ...]:
        """What is to be done at each place, by what is there now; ``own``: what the restoration did so far."""
        own = own or Changes()
        goals = progressed(goals_of(undone, wanted), own)
        found = await self._found([goal.place for goal in goals])
        entries = plan(goals, found, wanted)
        return (*entries, *await self._beside(entries, wanted, own))

    async def _found(self, places: Sequence[Place]) -> dict[Place, Found | None]:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def look(place: Place) -> Found | None:
            if place.computer is not None and not self.world.online(place.computer):
                return None
            async with slots:
                try:
                    return await self.world.found(place.computer, place.path)
                except (ComputerAway, CallLost, CallVoid):
                    return None
                except (ToolFailed, ComputerFailed) as error:
                    return Found("", fault=str(error))

        looked = await asyncio.gather(*(look(place) for place in places))
        found = dict(zip(places, looked, strict=True))
        above = {one for place, there in found.items() if _is_absent(there) for one in _above(place)} - set(found)
        higher = dict(zip(above, await asyncio.gather(*(look(place) for place in above)), strict=True))
        return {place: _placed(place, there, found | higher) for place, there in found.items()}

    async def _beside(self, entries: Sequence[Entry], wanted: Restoration, own: Changes) -> tuple[Entry, ...]:
        """The old files that a person wants beside the new ones, where nothing is in their place."""
        wishes = {place: entry for entry in entries if (place := beside(entry, wanted)) is not None}
        goals = [Goal(place, entry.goal.target, ABSENT, entry.goal.step) for place, entry in wishes.items()]
        goals = [replace(goal, note="The old file, beside the one that is kept.") for goal in goals]
        found = await self._found([goal.place for goal in goals])
        return plan(progressed(goals, own), found, wanted)


def _is_absent(found: Found | None) -> bool:
    return found is not None and found.state == ABSENT


def _above(place: Place) -> Iterator[Place]:
    """The directories above a place of a computer, the highest first."""
    parts = place.path.split("/") if place.computer is not None else []
    return (Place(place.computer, "/".join(parts[:count])) for count in range(1, len(parts)))


def _placed(place: Place, there: Found | None, found: Mapping[Place, Found | None]) -> Found | None:
    """What was found, and which file is above it."""
    if there is None or there.state != ABSENT:
        return there
    higher = ((one, found[one]) for one in _above(place))
    files = (one.path for one, above in higher if above and not above.fault and above.state not in (ABSENT, DIRECTORY))
    return replace(there, under=next(files, ""))


def told_of(entries: Sequence[Entry]) -> str:
    """A plan in one sentence."""
    counts = Counter(entry.verdict for entry in entries)
    told = [f"{counts[verdict]} {words}" for verdict, words in _VERBS if counts[verdict]]
    return f"Files go back to how they were: {', '.join(told)}." if told else "Everything is as it was."
