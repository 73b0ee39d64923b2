"""What a rehearsal came to, for people: each place that it changed in the copy, with its diff."""

import asyncio
from dataclasses import dataclass
from typing import Final, Literal

from orchestrator.core.ports import Store
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.rehearsal import Rehearsal
from orchestrator.core.task.task import AgentTask
from orchestrator.core.task.task_states import TaskStatus
from orchestrator.core.text.paths import spelled
from orchestrator.core.undo.listings import differences, read_listing
from orchestrator.core.undo.outcomes import Outcome
from orchestrator.core.undo.touches import ABSENT, DIRECTORY
from orchestrator.tools.changes import Change, change_of

State = Literal["going_on", "ending", "nothing", "asked", "not_applied"]
"""``ending``: the task is over, and its copy is looked at; ``asked``: a task asks for all of it."""
MAX_SHOWN: Final = 500
"""Places; the task that asks for them names all."""
_DIFF_CHARS: Final = 20_000
"""Of one diff."""


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
    """What became of the task that asks for all of it."""


async def shown(task: AgentTask, rehearsal: Rehearsal, store: Store, outcome: Outcome | None = None) -> Shown:
    """What a rehearsal came to so far, and what became of that (``outcome``); its changes once it is over."""
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
    """What became of a rehearsal, once the task that asked for all of it is over."""
    told = f"It changed {changed} place{'s' if changed != 1 else ''} in the copy: {outcome.told}."
    if outcome.status is TaskStatus.COMPLETED and outcome.undone_by is None:
        return told
    return f"{told} `cc-orchestrator rehearsal {task.task_id} --apply` asks for all of it anew."


async def _change(path: str, was: str, now: str, store: Store) -> ShownChange:
    data = [None if one in (ABSENT, DIRECTORY) else await store.get_blob(one) for one in (was, now)]
    name = spelled(path)
    # Away from the event loop: files of a hostile computer may take long to compare.
    change = await asyncio.to_thread(change_of, name, *data) if data != [None, None] else Change(None, "")
    cut = change.diff is not None and len(change.diff) > _DIFF_CHARS
    diff = change.diff[:_DIFF_CHARS] if change.diff is not None else None
    return ShownChange(name, was, now, diff, cut, change.binary)
