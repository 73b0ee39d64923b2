"""Plans of restorations: goals from a task's journal or from a listing, and a look at each path."""

import asyncio
import contextlib
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
    Unreadable,
)
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.rehearsal import is_copy
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.plan import (
    Entry,
    Found,
    Goal,
    Listed,
    Listing,
    beside,
    extras,
    goals_of,
    goals_to,
    plan,
    progressed,
    read_listing,
)
from orchestrator.core.undo.touches import ABSENT, DIRECTORY, Changes, Place, Untold, changes, trees_of
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.tasks import TaskService
from orchestrator.tools.environment import Environment

_AT_ONCE: Final = 4
"""Looks at one time: half of the calls that a computer takes."""
_EACH: Final = 20
"""Places of a computer that are looked at one by one; of more, all that is on it is listed at once."""


@dataclass(frozen=True)
class Wish:
    """The goal of a restoration, as far as it is known now."""

    goals: tuple[Goal, ...]
    untold: tuple[Untold, ...] = ()
    """What it cannot."""
    unseen: ComputerId | None = None
    """The computer on which all has to be looked at first, and nobody can now: the files to remove are not known."""
    open: tuple[Untold, ...] = ()
    """Calls of the task that is taken back of which nobody has heard yet how they ended."""
    present: Listing | None = None
    """For an exact restoration: what is there now."""
    came: tuple[str, ...] = ()
    """The paths of what came since its first look: it stays."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to put back, nor anything that is not known yet."""
        return not self.goals and not self.open and self.unseen is None


@dataclass(frozen=True)
class Plans:
    """Plans restorations: what is to be put back, and what that means by what is there now."""

    service: TaskService
    world: Environment

    async def changes(self, task_id: str) -> Changes:
        """The changes of a task. Raises NotFound, Unreadable where what it takes to tell was not kept whole."""
        items = await self.service.store.read(TaskId(task_id))
        if not items:
            raise await self.service.no_task(TaskId(task_id))
        try:
            return changes(items, {tree: await self.service.store.get_blob(tree) for tree in trees_of(items)})
        except NotFound as gone:
            raise Unreadable(
                f"What {task_id} changed cannot be told, and so it cannot be undone: {gone.message}",
                remedy="`cc-orchestrator audit verify` tells which other data is not whole; a backup of the computer "
                "may have the files: `cc-orchestrator restore`.",
            ) from gone

    async def wish(self, wanted: Restoration, first: Listing | None = None) -> Wish:
        """The places to put back; ``first``: what was there at the first look, None: this is the first.

        Raises NotFound, ToolFailed where the computer cannot be listed and that is needed.
        """
        if not wanted.listing:
            undone = of_real_places(await self.changes(wanted.task_id))
            untold = tuple(one for one in undone.untold if wanted.step in (None, one.step))
            return Wish(goals_of(undone, wanted), untold, open=undone.open)
        target, base = await self._listing(wanted.listing), None
        if wanted.base:
            base = await self._listing(wanted.base)
        looks = wanted.exact and base is None
        there = await self._present(wanted.computer) if looks else None
        present = there.listing if there is not None else None
        goals = goals_to(target, wanted, base=base, present=present, first=first)
        came = [path for path in extras(target, wanted, present) if first is not None and path not in first.states]
        unseen = wanted.computer if looks and there is None else None
        return Wish(goals, unseen=unseen, present=present, came=tuple(sorted(came)))

    async def first_look(self, task: AgentTask) -> Listing | None:
        """The state when an exact restoration looked first; None: it has not, or is another. Raises NotFound."""
        if task.restores is None or not task.restores.exact:
            return None
        proposed = (item.fact for item in await self.service.store.read(task.task_id))
        looked = (fact.present for fact in proposed if isinstance(fact, facts.CallsProposed) and fact.present)
        sha256 = next(looked, None)
        return await self._listing(sha256) if sha256 is not None else None

    async def plan(self, wish: Wish, wanted: Restoration, *, own: Changes | None = None) -> tuple[Entry, ...]:
        """The work at each place, by its present state; ``own``: the restoration's own changes so far."""
        own = own or Changes()
        goals = progressed(wish.goals, own)
        async with self.world.pinned({*(goal.place.computer for goal in goals), wanted.computer}):
            found = await self._found([goal.place for goal in goals])
            entries = plan(goals, found, wanted)
            return (*entries, *await self._beside(entries, wanted, own))

    # -- inside --------------------------------------------------------------------------

    async def _listing(self, sha256: str) -> Listing:
        return read_listing(await self.service.store.get_blob(sha256))

    async def _present(self, computer: ComputerId | None) -> Listed | None:
        """All that is on a computer now; None: nobody can look now. Raises ToolFailed where it cannot be read."""
        if computer is None:
            return None
        async with self.world.pinned([computer]):
            if not self.world.online(computer):
                return None
            try:
                return await self.world.listed(computer)
            except (ComputerAway, CallLost, CallVoid):
                return None

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
                except (ToolFailed, ComputerFailed, InvalidRequest) as error:
                    return Found("", fault=str(error))

        looked = await asyncio.gather(*(look(place) for place in places))
        found = dict(zip(places, looked, strict=True))
        above = {one for place, there in found.items() if _is_absent(there) for one in _above(place)} - set(found)
        higher = dict(zip(above, await asyncio.gather(*(look(place) for place in above)), strict=True))
        return {place: _placed(place, there, found | higher) for place, there in found.items()}

    async def _listed(self, places: Sequence[Place]) -> dict[ComputerId | None, Listed | None]:
        """The listings of those computers of which many places are asked for."""
        counts = Counter(place.computer for place in places)
        listed: dict[ComputerId | None, Listed | None] = {}
        for computer in (one for one, count in counts.items() if count > _EACH):
            # Where that cannot be told, each place is looked at by itself and says why.
            with contextlib.suppress(ToolFailed):
                listed[computer] = await self._present(computer)
        return listed

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
    """The state that was found, and the file above it."""
    if there is None or there.state != ABSENT:
        return there
    higher = ((one, found[one]) for one in _above(place))
    files = (one.path for one, above in higher if above and not above.fault and above.state not in (ABSENT, DIRECTORY))
    return replace(there, under=next(files, ""))


def of_real_places(changed: Changes) -> Changes:
    """The changes of a task except for the copies of rehearsals, which are gone with it."""
    return replace(
        changed,
        touches=tuple(one for one in changed.touches if not is_copy(one.place.computer or "")),
        untold=tuple(one for one in changed.untold if not is_copy(one.computer or "")),
    )
