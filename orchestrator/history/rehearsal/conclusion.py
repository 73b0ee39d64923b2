"""The end of a rehearsal: its result, recorded once, and the task that asks for all its changes."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Final, Literal

from orchestrator.core.errors import Conflict, InvalidRequest, NotFound
from orchestrator.core.ports import Identity, Store
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.task.rehearsal import Rehearsal
from orchestrator.core.task.states import Phase, TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.text.paths import spelled
from orchestrator.core.undo.messages import Outcome
from orchestrator.core.undo.plan import Listing, differences, read_listing
from orchestrator.core.undo.touches import ABSENT, DIRECTORY
from orchestrator.core.undo.wanted import Restoration
from orchestrator.engine.task_status import outcomes
from orchestrator.engine.tasks import must_own, person
from orchestrator.engine.undo import Undoing
from orchestrator.history.rehearsal.copy import Home, RehearsalFailed, read_disk
from orchestrator.tools.deps import Change, change_of

# -- What a rehearsal came to, for people: each place that it changed in the copy, with its diff

State = Literal["going_on", "ending", "nothing", "asked", "not_applied"]
"""``ending``: the task is over, and its copy is looked at; ``asked``: a task asks for all of it."""
MAX_SHOWN: Final = 500
"""Places; the task that asks for them names all."""
_DIFF_CHARS: Final = 20_000
"""Bytes of one diff."""


@dataclass(frozen=True)
class ShownChange:
    """One place that is another in the copy."""

    path: str
    before: str
    """The sha256 of a file, ``absent`` or ``directory``, as the one below."""
    after: str
    diff: str | None
    """None: no text changed."""
    cut: bool = False
    """Whether the diff goes on."""
    binary: str = ""
    """What was and what will be in one line, where one of them is binary; of that the diff shows nothing."""


@dataclass(frozen=True)
class Shown:
    """What a rehearsal came to so far."""

    rehearsal: Rehearsal
    state: State
    message: str
    applied_by: TaskId | None
    changed: int
    changes: tuple[ShownChange, ...]
    """The first of them."""
    outcome: Outcome | None = None
    """The outcome of the task that asks for all of it."""


async def shown(task: AgentTask, rehearsal: Rehearsal, store: Store, outcome: Outcome | None = None) -> Shown:
    """The result of a rehearsal so far, and what became of that (``outcome``); its changes once it is over."""
    over = task.rehearsed
    if over is None:
        state: State = "going_on" if task.ended is None else "ending"
        return Shown(rehearsal, state, "", None, 0, ())
    base, after = [read_listing(await store.get_blob(one)) for one in (rehearsal.base, over.after)]
    changed = differences(base, after)
    first = list(changed.items())[:MAX_SHOWN]
    changes = [await _change(path, was, now, store) for path, (was, now) in first]
    state = "asked" if over.applied_by is not None else "not_applied" if changed else "nothing"
    message = over.message if outcome is None or outcome.open else _told(task, outcome, len(changed))
    return Shown(rehearsal, state, message, over.applied_by, len(changed), tuple(changes), outcome)


def _told(task: AgentTask, outcome: Outcome, changed: int) -> str:
    """The outcome of a rehearsal, once the task that asked for all of it is over."""
    told = f"It changed {changed} place{'s' if changed != 1 else ''} in the copy: {outcome.told}."
    if outcome.status is TaskStatus.COMPLETED and outcome.undone_by is None:
        return told
    return f"{told} `cc-orchestrator rehearsal {task.task_id} --apply` asks for all of it again."


async def _change(path: str, was: str, now: str, store: Store) -> ShownChange:
    data = [None if one in (ABSENT, DIRECTORY) else await store.get_blob(one) for one in (was, now)]
    name = spelled(path)
    # Away from the event loop: files of a hostile computer may take long to compare.
    change = await asyncio.to_thread(change_of, name, *data) if data != [None, None] else Change(None, "")
    cut = change.diff is not None and len(change.diff) > _DIFF_CHARS
    diff = change.diff[:_DIFF_CHARS] if change.diff is not None else None
    return ShownChange(name, was, now, diff, cut, change.binary)


# -- The end of a rehearsal: what it came to, recorded once, and the task that asks for all of it

_TITLE_CHARS: Final = 80
AUTH: Final = "rehearsal"
"""How a copy proves who it is, and by what the task that applies a rehearsal was submitted."""


@dataclass(frozen=True)
class Concluding:
    """Looks at what rehearsals left in their copies."""

    undoing: Undoing

    async def conclude(self, home: Home, task_id: TaskId, rehearsal: Rehearsal, why_not: str = "") -> None:
        """Record what the rehearsal came to, once, and submit what it changed; ``why_not``: nobody can look at it."""
        service = self.undoing.service
        task = await self._closed(task_id)
        try:
            fact = _nothing(rehearsal, why_not) if why_not else await self._came_to(home, task, rehearsal)
        except (RehearsalFailed, NotFound) as failed:
            fact = _nothing(rehearsal, str(failed))
        while task.rehearsed is None:
            with contextlib.suppress(Conflict):
                await service.append(task, [service.draft(fact, SYSTEM)])
            task = await service.load(task_id)

    async def apply(self, task_id: TaskId, by: Identity) -> TaskId:
        """The task that asks for what a rehearsal changed, also where that failed; anew after a no, or once taken back.

        Raises NotFound, Forbidden unless it is their own or they are an admin, InvalidRequest, as where it is applied.
        """
        service = self.undoing.service
        while True:
            task = await service.load(task_id)
            must_own(by, task, "applies it")
            over, rehearsal = task.rehearsed, rehearsal_of(task)
            if over is None or not over.changed:
                why = "is not over yet" if over is None else "changed nothing"
                raise InvalidRequest(f"{task_id} {why}.", remedy="Look at what it came to.")
            if over.applied_by is not None and await self._goes_on(task_id, over.applied_by):
                return over.applied_by
            # One that was begun and never noted, since a kill came between, may be over by now: then again.
            begun = await self.undoing.begun(_requester(task), _key_of(task))
            applied_by = await self._submitted(task, rehearsal, over.after, by)
            message = f"{by.name} wants it applied: {applied_by} asks for all of it."
            fact = over.model_copy(update={"applied_by": applied_by, "message": message})
            with contextlib.suppress(Conflict):
                await service.append(task, [service.draft(fact, person(by))])
                if begun is None:
                    return applied_by

    async def _goes_on(self, task_id: TaskId, applied_by: TaskId) -> bool:
        """Whether the task that applies a rehearsal goes on; else it is to be applied again.

        Raises InvalidRequest where it did it and that was not taken back, NotFound where it was pruned.
        """
        service = self.undoing.service
        found = await outcomes((applied_by,), service.store, self.undoing.world)
        if not found:
            raise await service.no_task(applied_by)
        (outcome,) = found
        if outcome.status is TaskStatus.COMPLETED and outcome.did and outcome.undone_by is None:
            raise InvalidRequest(
                f"{task_id} is already {outcome.told}, and that was not taken back.",
                remedy=f"Take that back first: `cc-orchestrator undo {applied_by}`; then it can be applied again.",
            )
        return outcome.open

    async def _closed(self, task_id: TaskId) -> AgentTask:
        """The ended task with nothing open: nobody will ever hear the rest from the copy."""
        service = self.undoing.service
        while (task := await service.load(task_id)).open_runs:
            settled = [
                facts.ToolSettled(
                    call_id=one.call_id, run_id=one.run_id, state="unknown", reason="The copy of the rehearsal is gone."
                )
                for one in task.open_runs
                if one.run_id is not None
            ]
            with contextlib.suppress(Conflict):
                await service.append(task, [service.draft(fact, SYSTEM) for fact in settled])
        assert task.phase is Phase.ENDED, "it was waited for"
        return task

    async def _came_to(self, home: Home, task: AgentTask, rehearsal: Rehearsal) -> facts.RehearsalEnded:
        """The result of the rehearsal, with its changes submitted. Raises RehearsalFailed when nobody can tell."""
        store = self.undoing.service.store
        base = read_listing(await store.get_blob(rehearsal.base))
        after = await self._left(home, task.task_id, base)
        changed = len(differences(base, after))
        kept = await store.put_blob(after.lines)
        applied_by = None
        if changed and task.status is TaskStatus.COMPLETED:
            applied_by = await self._submitted(task, rehearsal, kept.sha256, _requester(task))
        told = _conclusion_told(task, rehearsal, changed, applied_by)
        return facts.RehearsalEnded(after=kept.sha256, changed=changed, applied_by=applied_by, message=told)

    async def _left(self, home: Home, task_id: TaskId, base: Listing) -> Listing:
        """The copy's last listing, its files in the store. Raises RehearsalFailed."""
        store = self.undoing.service.store
        if not home.whole.exists():
            await must_be_untouched(store, task_id)
            return base
        listing, new = await asyncio.to_thread(read_disk, home.disk, known=set(base.files.values()))
        for content in new.values():
            await store.put_blob(content)
        return listing

    async def _submitted(self, task: AgentTask, rehearsal: Rehearsal, after: str, by: Identity) -> TaskId:
        """The task that asks for all of it; the same however often it is asked for, by whomever."""
        wanted = Restoration(task_id=task.task_id, listing=after, base=rehearsal.base, computer=rehearsal.computer)
        first = task.prompt.partition("\n")[0][:_TITLE_CHARS]
        title = f"Apply the rehearsal {task.task_id}: {first}"
        keyed_by = _requester(task)
        return (await self.undoing.submit(wanted, by, title=title, key=_key_of(task), keyed_by=keyed_by)).task_id


async def must_be_untouched(store: Store, task_id: TaskId) -> None:
    """Raises RehearsalFailed when a task has worked on a copy already, which is not there any more."""
    if any(isinstance(item.fact, facts.ToolStarted) for item in await store.read(task_id)):
        raise RehearsalFailed("The copy's files are gone.", remedy="Rehearse it again.")


def rehearsal_of(task: AgentTask) -> Rehearsal:
    """What a task rehearses. Raises NotFound for another task."""
    if task.rehearses is None:
        raise NotFound(
            f"{task.task_id} is not a rehearsal.",
            remedy=f"`cc-orchestrator tasks show {task.task_id}` shows what it did; `run --rehearse` rehearses.",
        )
    return task.rehearses


def _nothing(rehearsal: Rehearsal, why: str) -> facts.RehearsalEnded:
    """A rehearsal of which nobody can tell what it changed."""
    told = f"{why} Nothing is applied: {rehearsal.computer} is as it was."
    return facts.RehearsalEnded(after=rehearsal.base, changed=0, message=told)


def _key_of(task: AgentTask) -> str:
    """The key of the task that applies a rehearsal: another once one was noted."""
    before = task.rehearsed.applied_by if task.rehearsed is not None else None
    return f"rehearsal {task.task_id} {before or ''}".rstrip()


def _requester(task: AgentTask) -> Identity:
    """The person who asked for a rehearsal, in whose name the rest of it is done."""
    kind: Literal["agent", "person"] = "agent" if task.by_program else "person"
    return Identity(kind=kind, name=task.user_id, roles=task.roles, auth=AUTH, owner=task.owner)


def _conclusion_told(task: AgentTask, rehearsal: Rehearsal, changed: int, applied_by: TaskId | None) -> str:
    places = f"{changed} place{'s' if changed != 1 else ''}"
    if applied_by is not None:
        real = f"until then {rehearsal.computer} is as it was"
        return f"It changed {places} in the copy. {applied_by} asks for all of it; {real}."
    if not changed:
        return f"It changed nothing in the copy, so there is nothing to apply to {rehearsal.computer}."
    how = "failed" if task.status is TaskStatus.FAILED else "was canceled"
    return (
        f"It {how}, so nothing is applied: {rehearsal.computer} is as it was. It had changed {places} in the copy. "
        f"`cc-orchestrator rehearsal {task.task_id} --apply` asks for them all the same."
    )
