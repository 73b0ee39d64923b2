"""What an undo of a task would do: its changes read off the journal, and a look at each place."""

import asyncio
from collections import Counter
from collections.abc import Sequence
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
    ToolFailed,
)
from orchestrator.core.facts import TaskId
from orchestrator.core.items import SYSTEM, Actor
from orchestrator.core.restoring.planning import Entry, Found, Goal, Verdict, beside, goals_of, plan, progressed
from orchestrator.core.restoring.telling import TaskChange, UndoOffer, told_changes
from orchestrator.core.restoring.touches import ABSENT, Changes, Place, Untold, changes, trees_of
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
_BY_POLICY: Final = "policy"
"""How the system proves whom it submits an undo for: nobody who asks at a door has this."""


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
        """A task that undoes another one; ``key``: the same one of the same person begins no second one.

        Raises as :meth:`preview`, and InvalidDecision where the key came with another undo.
        """
        task = await self._may(wanted, by)
        places = await self._places(wanted)
        if not places:
            raise InvalidRequest(f"There is nothing of {task.task_id} to undo.", remedy="Look at what it changed.")
        undo = await self._submit(f"Undo {task.task_id}", task, places, wanted, user=by, key=_key_of(key))
        if undo.restores != wanted:
            raise InvalidDecision(
                "This idempotency key was used for another undo.",
                remedy="Take a new key for this one.",
                details={"used_for": undo.task_id},
            )
        await self.note(undo)
        return undo

    async def begun(self, by: Identity, key: str) -> AgentTask | None:
        """The undo that this person submitted with this key; None: none, or the key is empty."""
        return await self.service.of_key(by, _key_of(key))

    async def begin(self, task: AgentTask) -> bool:
        """Submit the undo of a task for whoever it was of, as the policy wants it; once, however often it is asked for.

        False: the task changed nothing.
        """
        wanted = Restoration(task_id=task.task_id)
        places = await self._places(wanted)
        if not places:
            return False
        kind: Literal["agent", "person"] = "agent" if task.by_program else "person"
        owner = Identity(kind=kind, name=task.user_id, roles=task.roles, auth=_BY_POLICY)
        what = f"Undo {task.task_id}, which is {task.status.value}, as the policy says"
        undo = await self._submit(what, task, places, wanted, user=owner, key=task.task_id, begun_by=SYSTEM)
        await self.note(undo)
        return True

    async def note(self, undo: AgentTask) -> None:
        """Write down on the task that is taken back which one does it, as said by whoever began that; once."""
        if undo.restores is None:
            return
        submitted = (await self.service.store.read(undo.task_id))[0]
        while True:
            task = await self.service.load(TaskId(undo.restores.task_id))
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
        what: str,
        task: AgentTask,
        places: Sequence[Place],
        wanted: Restoration,
        *,
        user: Identity,
        key: str,
        begun_by: Actor | None = None,
    ) -> AgentTask:
        title = task.prompt.partition("\n")[0][:_TITLE_CHARS]
        return await self.service.submit(
            f"{what}: {title}",
            user=user,
            computers=sorted({place.computer for place in places if place.computer is not None}),
            model=MODEL,
            max_steps=0,
            restores=wanted,
            key=key,
            begun_by=begun_by,
        )

    async def _places(self, wanted: Restoration) -> list[Place]:
        return [goal.place for goal in goals_of(await self.changes(wanted.task_id), wanted)]

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

    async def offer(self, task: AgentTask) -> UndoOffer | None:
        """What a task left changed, and what became of it; None: it is not over."""
        if task.ended is None:
            return None
        left = await self.left_behind(task)
        return UndoOffer(changes=len(left), automatic=task.undoes_itself, tasks=task.undone_by)

    async def left_behind(self, task: AgentTask) -> tuple[TaskChange, ...]:
        """What a task left changed, place by place; nothing where what it takes to tell was not kept."""
        try:
            return told_changes(await self.changes(task.task_id))
        except NotFound:
            return ()

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
        return dict(zip(places, looked, strict=True))

    async def _beside(self, entries: Sequence[Entry], wanted: Restoration, own: Changes) -> tuple[Entry, ...]:
        """The old files that a person wants beside the new ones, where nothing is in their place."""
        wishes = {place: entry for entry in entries if (place := beside(entry, wanted)) is not None}
        goals = [Goal(place, entry.goal.target, ABSENT, entry.goal.step) for place, entry in wishes.items()]
        goals = [replace(goal, note="The old file, beside the one that is kept.") for goal in goals]
        found = await self._found([goal.place for goal in goals])
        return plan(progressed(goals, own), found, wanted)


def _key_of(key: str) -> str:
    """The key of an undo as that of a task; empty: none."""
    return f"undo {key}" if key else ""


def told_of(entries: Sequence[Entry]) -> str:
    """A plan in one sentence."""
    counts = Counter(entry.verdict for entry in entries)
    told = [f"{counts[verdict]} {words}" for verdict, words in _VERBS if counts[verdict]]
    return f"Files go back to how they were: {', '.join(told)}." if told else "Everything is as it was."
