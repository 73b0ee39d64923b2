"""What a restoration would do: its goals, read off a task's journal or off a listing, and a look at each place."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from orchestrator.core import facts
from orchestrator.core.errors import (
    CallLost,
    CallVoid,
    ComputerAway,
    ComputerFailed,
    Conflict,
    InvalidDecision,
    InvalidRequest,
    NotFound,
    OrchestratorError,
    ToolFailed,
    Unreadable,
)
from orchestrator.core.facts import TaskId
from orchestrator.core.items import SYSTEM, Actor
from orchestrator.core.rehearsing import is_copy
from orchestrator.core.restoring.listings import Listed, Listing, extras, goals_to, read_listing
from orchestrator.core.restoring.planning import Entry, Found, Goal, Verdict, beside, goals_of, plan, progressed
from orchestrator.core.restoring.telling import TaskChange, UndoOffer, told_changes
from orchestrator.core.restoring.touches import ABSENT, DIRECTORY, Changes, Place, Untold, changes, trees_of
from orchestrator.core.restoring.wanted import MODEL, Restoration
from orchestrator.core.task import AgentTask
from orchestrator.core.wire import ComputerId
from orchestrator.ports import Identity
from orchestrator.tasks import TaskService
from orchestrator.world import World

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 4
"""Looks at one time: half of the calls that a computer takes."""
_VERBS: Final[tuple[tuple[Verdict, str], ...]] = (
    ("restore", "put back"),
    ("remove", "removed"),
    ("conflict", "kept"),
    ("away", "waiting for their computer"),
)
_TITLE_CHARS: Final = 80
_BY_POLICY: Final = "policy"
"""How the system proves whom it submits an undo for: nobody who asks at a door has this."""
_LINE_END: Final = "\n"


_EACH: Final = 20
"""Places of a computer that are looked at one by one; of more, all that is on it is listed at once."""


@dataclass(frozen=True)
class Wish:
    """What a restoration is to bring about, as far as it is known now."""

    goals: tuple[Goal, ...]
    untold: tuple[Untold, ...] = ()
    """What it cannot."""
    unseen: ComputerId | None = None
    """The computer on which all has to be looked at first, and nobody can now: what is to be removed is not known."""
    open: tuple[Untold, ...] = ()
    """Calls of the task that is taken back of which nobody has heard yet how they ended."""
    present: Listing | None = None
    """Of an exact restoration: what is there now."""
    came: tuple[str, ...] = ()
    """The paths of what came since its first look: it stays."""


@dataclass(frozen=True)
class Preview:
    """What a restoration would do, and what it cannot."""

    entries: tuple[Entry, ...]
    untold: tuple[Untold, ...]
    open: tuple[Untold, ...] = ()
    """What is waited for first: calls of the task of which nobody has heard yet how they ended."""


@dataclass(frozen=True)
class Undoing:
    """Plans of restorations, and their tasks."""

    service: TaskService
    world: World

    async def preview(self, wanted: Restoration, by: Identity) -> Preview:
        """What a restoration would do now.

        Raises NotFound, Forbidden, InvalidRequest while the task goes on, ToolFailed where what is to be removed cannot
        be told.
        """
        await self._title(wanted, by)
        wish = await self.wish(wanted)
        return Preview(await self.plan(wish, wanted), wish.untold, wish.open)

    async def submit(
        self, wanted: Restoration, by: Identity, *, title: str = "", key: str = "", keyed_by: Identity | None = None
    ) -> AgentTask:
        """A task that restores; ``title`` empty: by the task that it undoes.

        ``key``: the same one of the same person begins no second one; ``keyed_by``: of this one, whoever asks. Raises
        as :meth:`preview`, and InvalidDecision where the key came with another restoration.
        """
        title = title or await self._title(wanted, by)
        wish = await self.wish(wanted)
        if not wish.goals and not wish.open and wish.unseen is None:
            of = wanted.task_id or wanted.computer
            raise InvalidRequest(f"There is nothing of {of} to put back.", remedy=await self._instead(wanted))
        task = await self._submit(title, wish, wanted, user=by, key=_key_of(key), keyed_by=keyed_by)
        if task.restores != wanted:
            raise InvalidDecision(
                "This idempotency key was used for another undo.",
                remedy="Take a new key for this one.",
                details={"used_for": task.task_id},
            )
        await self.note(task)
        return task

    async def begun(self, by: Identity, key: str) -> AgentTask | None:
        """The undo that was submitted with this key of this person; None: none, or the key is empty."""
        return await self.service.of_key(by, _key_of(key))

    async def begin(self, task: AgentTask) -> bool:
        """Submit the undo of a task for whoever it was of, as the policy wants it; once, however often it is asked for.

        False: the task changed nothing.
        """
        wanted = Restoration(task_id=task.task_id)
        wish = await self.wish(wanted)
        if not wish.goals:
            return False
        kind: Literal["agent", "person"] = "agent" if task.by_program else "person"
        owner = Identity(kind=kind, name=task.user_id, roles=task.roles, auth=_BY_POLICY)
        title = _title_of(task, f"Undo {task.task_id}, which is {task.status.value}, as the policy says")
        undo = await self._submit(title, wish, wanted, user=owner, key=task.task_id, begun_by=SYSTEM)
        await self.note(undo)
        return True

    async def note(self, undo: AgentTask) -> None:
        """Write down on the task that is taken back which one does it, as said by whoever began that; once."""
        if undo.undoes is None:
            return
        submitted = (await self.service.store.read(undo.task_id))[0]
        while True:
            task = await self.service.load(undo.undoes)
            if undo.task_id in task.undone_by:
                return
            fact = facts.UndoSubmitted(undo_task_id=undo.task_id)
            try:
                await self.service.append(task, [self.service.draft(fact, submitted.actor)])
            except Conflict:
                continue
            return

    async def _submit(
        self,
        title: str,
        wish: Wish,
        wanted: Restoration,
        *,
        user: Identity,
        key: str,
        keyed_by: Identity | None = None,
        begun_by: Actor | None = None,
    ) -> AgentTask:
        computers = {goal.place.computer for goal in wish.goals} | {one.computer for one in wish.open} | {wish.unseen}
        return await self.service.submit(
            title,
            user=user,
            computers=sorted(computer for computer in computers if computer is not None),
            model=MODEL,
            max_steps=0,
            restores=wanted,
            key=key,
            keyed_by=keyed_by,
            begun_by=begun_by,
        )

    async def _title(self, wanted: Restoration, by: Identity) -> str:
        if wanted.listing:
            return f"Restore {wanted.computer}"
        task = await self.service.load(TaskId(wanted.task_id))
        self.service.must_own(by, task, "undoes it")
        if task.ended is None:
            raise InvalidRequest(
                f"{task.task_id} is not over yet.", remedy=f"Cancel it first: `cc-orchestrator cancel {task.task_id}`."
            )
        return _title_of(task, f"Undo {task.task_id}")

    async def _instead(self, wanted: Restoration) -> str:
        """What to do where there is nothing to put back."""
        task = None if wanted.listing else await self.service.load(TaskId(wanted.task_id))
        applied = task.rehearsed.applied_by if task is not None and task.rehearsed is not None else None
        return f"It only rehearsed: undo {applied}, which asked for all of it." if applied else "Look at what changed."

    async def changes(self, task_id: str) -> Changes:
        """What a task changed. Raises NotFound, Unreadable where what it takes to tell was not kept whole."""
        items = await self.service.store.read(TaskId(task_id))
        if not items:
            raise await self.service.no_task(TaskId(task_id))
        try:
            return changes(items, {tree: await self.service.store.get_blob(tree) for tree in trees_of(items)})
        except NotFound as gone:
            raise Unreadable(
                f"What {task_id} changed cannot be told, and so it cannot be undone: {gone.message}",
                remedy="`cc-orchestrator audit verify` tells what else is not kept whole; a backup of the computer may "
                "have the files: `cc-orchestrator restore`.",
            ) from gone

    async def offer(self, task: AgentTask) -> UndoOffer | None:
        """What a task left changed, and what became of it; None: it is not over."""
        if task.ended is None:
            return None
        left = await self.left_behind(task)
        return UndoOffer(changes=len(left), automatic=task.undoes_itself, tasks=task.undone_by)

    async def left_behind(self, task: AgentTask) -> tuple[TaskChange, ...]:
        """What a task left changed, place by place; nothing where what it takes to tell was not kept."""
        try:
            return told_changes(_of_real_places(await self.changes(task.task_id)))
        except OrchestratorError as error:
            # Whoever asks for the undo is told the same; that a task is shown hangs on nothing that it changed.
            logger.warning("nobody can say now what task %s changed: %s", task.task_id, error)
            return ()

    async def wish(self, wanted: Restoration, first: Listing | None = None) -> Wish:
        """What is to be put back; ``first``: what was there at the first look, None: this is the first.

        Raises NotFound, ToolFailed where the computer cannot be listed and that is needed.
        """
        if not wanted.listing:
            undone = _of_real_places(await self.changes(wanted.task_id))
            return Wish(goals_of(undone, wanted), undone.untold, open=undone.open)
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
        """What was there when an exact restoration looked first; None: it has not, or is another. Raises NotFound."""
        if task.restores is None or not task.restores.exact:
            return None
        proposed = (item.fact for item in await self.service.store.read(task.task_id))
        looked = (fact.present for fact in proposed if isinstance(fact, facts.CallsProposed) and fact.present)
        sha256 = next(looked, None)
        return await self._listing(sha256) if sha256 is not None else None

    async def _listing(self, sha256: str) -> Listing:
        return read_listing(await self.service.store.get_blob(sha256))

    async def _present(self, computer: ComputerId | None) -> Listed | None:
        """All that is on a computer now; None: nobody can look now. Raises ToolFailed where it cannot be told."""
        if computer is None or not self.world.online(computer):
            return None
        try:
            return await self.world.listed(computer)
        except (ComputerAway, CallLost, CallVoid):
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


def _title_of(task: AgentTask, what: str) -> str:
    return f"{what}: {task.prompt.partition(_LINE_END)[0][:_TITLE_CHARS]}"


def _key_of(key: str) -> str:
    """The key of an undo as that of a task; empty: none."""
    return f"undo {key}" if key else ""


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


def _of_real_places(changed: Changes) -> Changes:
    """What a task changed but for the copies of rehearsals, which are gone with it."""
    return replace(
        changed,
        touches=tuple(one for one in changed.touches if not is_copy(one.place.computer or "")),
        untold=tuple(one for one in changed.untold if not is_copy(one.computer or "")),
    )


def told_of(entries: Sequence[Entry], wanted: Restoration) -> str:
    """A plan in one sentence."""
    begins = "What was rehearsed is carried out" if wanted.applies else "Files go back to how they were"
    words = dict(_VERBS)
    if wanted.applies:
        words["restore"] = "written"
    counts = Counter(entry.verdict for entry in entries)
    told = [f"{counts[verdict]} {words[verdict]}" for verdict, _ in _VERBS if counts[verdict]]
    return f"{begins}: {', '.join(told)}." if told else "Everything is as it was."
