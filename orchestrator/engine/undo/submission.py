"""The tasks that put something back: previewed, submitted once, noted on the task that they take back, and told of."""

import contextlib
import logging
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Final, Literal

from orchestrator.core.errors import (
    BeingUndone,
    Conflict,
    InvalidDecision,
    InvalidRequest,
    NotFound,
    OrchestratorError,
)
from orchestrator.core.ports import Identity
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import SYSTEM, Actor
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.messages import Outcome, TaskChange, UndoOffer
from orchestrator.core.undo.plan import Entry, above
from orchestrator.core.undo.telling import near, that_counts, told_changes
from orchestrator.core.undo.touches import Place, Untold, shown
from orchestrator.core.undo.wanted import MODEL, Restoration, Verdict
from orchestrator.engine.task_status import outcomes
from orchestrator.engine.tasks import must_own
from orchestrator.engine.undo.plans import Plans, Wish, of_real_places

logger = logging.getLogger(__name__)

_VERBS: Final[tuple[tuple[Verdict, str], ...]] = (
    ("restore", "put back"),
    ("remove", "removed"),
    ("conflict", "kept"),
    ("away", "waiting for their computer"),
)
_TITLE_CHARS: Final = 80
_BY_POLICY: Final = "policy"
"""How the system proves whom it submits an undo for: nobody who asks at an endpoint has this."""
_LINE_END: Final = "\n"


@dataclass(frozen=True)
class Left:
    """The changes that a task left."""

    changes: tuple[TaskChange, ...] = ()
    unseen: int = 0
    """As ``UndoOffer.unseen``."""

    def __bool__(self) -> bool:
        """Whether it left anything, as far as anybody can say."""
        return bool(self.changes or self.unseen)


@dataclass(frozen=True)
class Preview:
    """The changes that a restoration would make, and those that it cannot make."""

    entries: tuple[Entry, ...]
    untold: tuple[Untold, ...]
    open: tuple[Untold, ...] = ()
    """The calls to wait for first: those of the task of which nobody has heard yet how they ended."""


class Undoing(Plans):
    """Plans of restorations, and their tasks."""

    async def preview(self, wanted: Restoration, by: Identity) -> Preview:
        """The changes that a restoration would make now.

        Raises NotFound, Forbidden, InvalidRequest while the task goes on, ToolFailed where what is to be removed cannot
        be told.
        """
        await self._title(wanted, by)
        wish = await self.wish(wanted)
        await self._must_name(wanted, wish)
        if wish.is_empty and (rehearsed := await self._only_rehearsed(wanted)):
            raise InvalidRequest(rehearsed[0], remedy=rehearsed[1])
        return Preview(await self.plan(wish, wanted), wish.untold, wish.open)

    async def submit(
        self, wanted: Restoration, by: Identity, *, title: str = "", key: str = "", keyed_by: Identity | None = None
    ) -> AgentTask:
        """A task that restores; ``title`` empty: by the task that it undoes.

        ``key``: the same one of the same person begins no second one; ``keyed_by``: of this person instead. Raises
        as :meth:`preview`, InvalidDecision where the key came with another restoration, and BeingUndone where an undo
        that wants the same goes on, unless it was begun with this key.
        """
        title = title or await self._title(wanted, by)
        wish = await self.wish(wanted)
        await self._must_name(wanted, wish)
        if wish.is_empty:
            of = wanted.task_id or wanted.computer
            look = f"tasks show {wanted.task_id}` shows what it did" if wanted.task_id else "backups list` lists others"
            nothing = (f"There is nothing of {of} to put back.", f"`cc-orchestrator {look}.")
            what, remedy = await self._only_rehearsed(wanted) or nothing
            raise InvalidRequest(what, remedy=remedy)
        going = await self._going(wanted)
        # Looked for after the other: a record that is noted by now is found by its key as well.
        if going is not None and await self.begun(keyed_by or by, key) is None:
            raise BeingUndone(
                f"{wanted.task_id} is already {going.told}; no second undo of the same is begun.",
                remedy=f"`cc-orchestrator tasks watch {going.task_id}` watches it, `cc-orchestrator review` decides "
                f"what it asks for, `cc-orchestrator cancel {going.task_id}` stops it.",
                details={"task_id": going.task_id},
            )
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
        """Submit the undo of a task for its requester, as the policy wants it; once, however often it is asked for.

        False: the task changed nothing.
        """
        wanted = Restoration(task_id=task.task_id)
        wish = await self.wish(wanted)
        if not wish.goals:
            return False
        kind: Literal["agent", "person"] = "agent" if task.by_program else "person"
        owner = Identity(kind=kind, name=task.user_id, roles=task.roles, auth=_BY_POLICY, owner=task.owner)
        title = _title_of(task, f"Undo {task.task_id}, which is {task.status.value}, as the policy says")
        undo = await self._submit(title, wish, wanted, user=owner, key=task.task_id, begun_by=SYSTEM)
        await self.note(undo)
        return True

    async def note(self, undo: AgentTask) -> None:
        """Write down on the task that is taken back which one does it, in the name of the person who began it; once."""
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
        await self.service.must_see(by, task)
        must_own(by, task, "undoes it")
        if task.ended is None:
            raise InvalidRequest(
                f"{task.task_id} is not over yet.", remedy=f"Cancel it first: `cc-orchestrator cancel {task.task_id}`."
            )
        return _title_of(task, f"Undo {task.task_id}")

    async def _going(self, wanted: Restoration) -> Outcome | None:
        """The undo that goes on and wants exactly the same; None: there is none.

        Two that are asked for at the very same moment may both miss the other, and so may one whose server was killed
        before it was noted: then both are begun, which is harmless, since the later finds all as it is to be.
        """
        store = self.service.store
        undone = None if wanted.listing else await self.service.load(TaskId(wanted.task_id))
        for task_id in reversed(undone.undone_by if undone is not None else ()):
            undo = await store.load(task_id)
            if undo is not None and undo.ended is None and undo.restores == wanted:
                (going,) = await outcomes((task_id,), store, self.world)
                return going if going.open else None
        return None

    async def _must_name(self, wanted: Restoration, wish: Wish) -> None:
        """Raises InvalidRequest for a path at which there is nothing to put back, unless that may still turn up."""
        if not wanted.paths or wish.open or wish.unseen is not None:
            return
        paths = [goal.place.path for goal in wish.goals]
        odd = next((one for one in wanted.paths if not any(map(Restoration(paths=(one,)).wants, paths))), None)
        everywhere = (await self.wish(wanted.model_copy(update={"paths": ()}))).goals if odd is not None else ()
        if odd is None or not everywhere:
            return
        did = "There is nothing to put back" if wanted.listing else f"{wanted.task_id} changed nothing"
        step = f" in step {wanted.step}" if wanted.step is not None else ""
        there = [shown(goal.place.path) for goal in everywhere]
        raise InvalidRequest(f"{did} at '{odd}'{step}.", remedy=near(odd, there))

    async def _only_rehearsed(self, wanted: Restoration) -> tuple[str, str] | None:
        """The result of a rehearsal that is to be undone, and what to do; None: it is not a rehearsal."""
        task = None if wanted.listing else await self.service.load(TaskId(wanted.task_id))
        if task is None or task.rehearses is None:
            return None
        real, applied = task.rehearses.computer, await self.applied(task)
        if applied is None:
            return f"{task.task_id} only rehearsed: it changed nothing on {real}.", "There is nothing to undo."
        undo = f"cc-orchestrator undo {applied.task_id}"
        if applied.open:
            remedy = f"Cancel or reject that one, or once it is over: `{undo}`."
        elif (await self.changes(applied.task_id)).touches:
            remedy = f"What {applied.task_id} did is undone with `{undo}`."
        else:
            remedy = "There is nothing to undo."
        return f"{task.task_id} only rehearsed: it changed nothing on {real}; {applied.told}.", remedy

    async def offer(self, task: AgentTask, left: Left | None = None) -> UndoOffer | None:
        """The changes that a task left (``left``.

        None: it is looked up), and what became of it; None: it is not over.
        """
        if task.ended is None:
            return None
        left = await self.left_behind(task) if left is None else left
        begun = await outcomes(task.undone_by, self.service.store, self.world)
        return UndoOffer(
            changes=len(left.changes),
            automatic=task.undoes_itself,
            tasks=task.undone_by,
            unknown=sum(one.after is None for one in left.changes),
            unseen=left.unseen,
            outcome=that_counts(begun),
            outcomes=begun,
        )

    async def applied(self, task: AgentTask) -> Outcome | None:
        """The outcome of the task that carries out what this one rehearsed; None: there is none."""
        if task.rehearsed is None or task.rehearsed.applied_by is None:
            return None
        return that_counts(await outcomes((task.rehearsed.applied_by,), self.service.store, self.world))

    async def put_back_by(self, undo: AgentTask, wish: Wish) -> tuple[TaskId, ...]:
        """The other undos of the same task that put something back of what this one wants, oldest first."""
        if undo.undoes is None:
            return ()
        places = {goal.place for goal in wish.goals}
        found = []
        for other in (await self.service.load(undo.undoes)).undone_by:
            # What was pruned since tells nothing of it.
            with contextlib.suppress(NotFound):
                touched = {touch.place for touch in (await self.changes(other)).touches}
                found += [other] if other != undo.task_id and touched & places else []
        return tuple(found)

    async def left_behind(self, task: AgentTask) -> Left:
        """The changes that a task left; nothing where what it takes to tell was not kept."""
        if task.only_looked:
            # All of its items would be read for this, whenever somebody asks what came of it.
            return Left()
        try:
            changed = of_real_places(await self.changes(task.task_id))
            return Left(told_changes(changed), len(changed.unseen))
        except OrchestratorError as error:
            # A person who asks for the undo is told the same; a task is shown whatever it changed.
            logger.warning(
                "nobody can say now what task %s changed: %s", task.task_id, error, extra={"task_id": task.task_id}
            )
            return Left()


def _title_of(task: AgentTask, what: str) -> str:
    return f"{what}: {task.prompt.partition(_LINE_END)[0][:_TITLE_CHARS]}"


def _key_of(key: str) -> str:
    """The key of an undo as that of a task; empty: none."""
    return f"undo {key}" if key else ""


def told_of(entries: Sequence[Entry], wanted: Restoration, asked: Set[Place] | None = None) -> str:
    """A plan in one sentence; ``asked``: of what is done only what is done at these places and below, None: all."""
    begins = "The rehearsed changes are carried out" if wanted.applies else "Files go back to how they were"
    words = dict(_VERBS)
    if wanted.applies:
        words["restore"] = "written"
    counts = Counter(
        entry.verdict
        for entry in entries
        if asked is None
        or entry.verdict not in ("restore", "remove")
        or not asked.isdisjoint((entry.place, *above(entry.place)))
    )
    told = [f"{counts[verdict]} {words[verdict]}" for verdict, _ in _VERBS if counts[verdict]]
    return f"{begins}: {', '.join(told)}." if told else "Everything is as it was."
