"""What a restoration would do: its goals, read off a task's journal or off a listing, and a look at each place."""

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
from orchestrator.core.facts import CallId, TaskId
from orchestrator.core.restoring.listings import Listed, Listing, goals_to, read_listing
from orchestrator.core.restoring.planning import Entry, Found, Goal, Verdict, beside, goals_of, plan, progressed
from orchestrator.core.restoring.touches import ABSENT, DIRECTORY, Changes, Place, Untold, changes, trees_of
from orchestrator.core.restoring.wanted import MODEL, Restoration
from orchestrator.core.task import AgentTask
from orchestrator.core.wire import ComputerId
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
_LINE_END: Final = "\n"


_EACH: Final = 20
"""Places of a computer that are looked at one by one; of more, all that is on it is listed at once."""


@dataclass(frozen=True)
class Wish:
    """What a restoration is to bring about, as far as it is known now."""

    goals: tuple[Goal, ...]
    untold: tuple[Untold, ...] = ()
    """What it cannot."""
    open: tuple[CallId, ...] = ()
    """Calls of the task that is taken back of which nobody has heard yet how they ended."""


@dataclass(frozen=True)
class Preview:
    """What a restoration would do, and what it cannot."""

    entries: tuple[Entry, ...]
    untold: tuple[Untold, ...]


@dataclass(frozen=True)
class Undoing:
    """Plans of restorations, and their tasks."""

    service: TaskService
    world: World

    async def preview(self, wanted: Restoration, by: Identity) -> Preview:
        """What a restoration would do now. Raises NotFound, Forbidden, InvalidRequest while the task goes on."""
        await self._title(wanted, by)
        wish = await self.wish(wanted)
        return Preview(await self.plan(wish, wanted), wish.untold)

    async def submit(self, wanted: Restoration, by: Identity, *, title: str = "", key: str = "") -> AgentTask:
        """A task that restores; ``title`` empty: by the task that it undoes.

        Raises as :meth:`preview`; ``key`` as of ``TaskService.submit``.
        """
        title = title or await self._title(wanted, by)
        wish = await self.wish(wanted)
        places = [goal.place for goal in wish.goals]
        if not places:
            of = wanted.task_id or wanted.computer
            raise InvalidRequest(f"There is nothing of {of} to put back.", remedy="Look at what changed.")
        return await self.service.submit(
            title,
            user=by,
            computers=sorted({place.computer for place in places if place.computer is not None}),
            model=MODEL,
            max_steps=0,
            restores=wanted,
            key=key,
        )

    async def _title(self, wanted: Restoration, by: Identity) -> str:
        if wanted.listing:
            return f"Restore {wanted.computer}"
        task = await self.service.load(TaskId(wanted.task_id))
        self.service.must_own(by, task, "undoes it")
        if task.ended is None:
            raise InvalidRequest(f"{task.task_id} is not over yet.", remedy=f"Cancel it first: stop {task.task_id}.")
        return f"Undo {task.task_id}: {task.prompt.partition(_LINE_END)[0][:_TITLE_CHARS]}"

    async def changes(self, task_id: str) -> Changes:
        """What a task changed. Raises NotFound."""
        items = await self.service.store.read(TaskId(task_id))
        if not items:
            raise NotFound(f"There is no task {task_id!r}.", remedy="List the tasks for their ids.")
        return changes(items, {tree: await self.service.store.get_blob(tree) for tree in trees_of(items)})

    async def wish(self, wanted: Restoration) -> Wish:
        """What is to be put back. Raises NotFound."""
        if not wanted.listing:
            undone = await self.changes(wanted.task_id)
            return Wish(goals_of(undone, wanted), undone.untold, undone.open)
        target, base = await self._listing(wanted.listing), None
        if wanted.base:
            base = await self._listing(wanted.base)
        there = await self._present(wanted.computer) if wanted.exact and base is None else None
        return Wish(goals_to(target, wanted, base=base, present=there.listing if there is not None else None))

    async def _listing(self, sha256: str) -> Listing:
        return read_listing(await self.service.store.get_blob(sha256))

    async def _present(self, computer: ComputerId | None) -> Listed | None:
        """All that is on a computer now; None: nobody can look."""
        if computer is None or not self.world.online(computer):
            return None
        try:
            return await self.world.listed(computer)
        except (ComputerAway, CallLost, CallVoid, ToolFailed):
            return None

    async def plan(self, wish: Wish, wanted: Restoration, *, own: Changes | None = None) -> tuple[Entry, ...]:
        """What is to be done at each place, by what is there now; ``own``: what the restoration did so far."""
        own = own or Changes()
        goals = progressed(wish.goals, own)
        found = await self._found([goal.place for goal in goals])
        entries = plan(goals, found, wanted)
        return (*entries, *await self._beside(entries, wanted, own))

    async def _found(self, places: Sequence[Place]) -> dict[Place, Found | None]:
        listed = await self._listed(places)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def look(place: Place) -> Found | None:
            if place.computer is not None and not self.world.online(place.computer):
                return None
            there = listed.get(place.computer)
            if there is not None and there.tells_of(place.path):
                return there.listing.found(place.path)
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

    async def _listed(self, places: Sequence[Place]) -> dict[ComputerId | None, Listed | None]:
        """All that is on those computers of which many places are asked for."""
        counts = Counter(place.computer for place in places)
        return {one: await self._present(one) for one, count in counts.items() if count > _EACH}

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
