"""A task followed at a computer: its lines in few frames, as fast as the computer takes them.

Lines that come within a quarter of a second go together. If they are too many for a screen, the newest go: a player
reads no faster, and a computer keeps no more than 256 events.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, cast

from orchestrator.core.errors import Forbidden, NotFound
from orchestrator.core.ports import ComputerLine, Identity, TaskRow
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.messages import TaskChange, UndoOffer
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import UNDO, ComputerId
from orchestrator.engine.tasks import TaskService
from orchestrator.engine.undo import Undoing
from orchestrator.web.in_game.lines import Line, Narrator, Several, as_body, note

# -- A task followed at a computer: its lines in few frames, as fast as the computer takes them

EVERY_S: Final = 0.25
"""Between two frames of one followed task: what the eye takes for at once on a screen of text."""
MAX_LINES: Final = 20
"""Lines of one frame: a screen has 19 rows."""


@dataclass
class _Feed:
    """The events that were read and not told yet."""

    present: int
    """Up to here the task had come when it was looked at first: told in one frame."""
    lines: list[Line] = field(default_factory=list)
    version: int = 0
    doing: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, over: bool) -> list[Line]:
        """The newest lines, in order, and what goes on now."""
        lines, self.lines = self.lines, []
        left_out = len(lines) - MAX_LINES
        if left_out > 0:
            lines = [Line("note", f"... {left_out} earlier lines are not shown ..."), *lines[-MAX_LINES:]]
        return [*lines, Line("doing", self.doing)] if self.doing and not over else lines


async def follow(
    service: TaskService,
    line: ComputerLine,
    desk: str,
    task: AgentTask,
    *,
    after: int,
    narrator: Narrator,
    may: Callable[[], Awaitable[object]],
    left: Callable[[], Awaitable[list[Line]]],
) -> None:
    """Tell what happens to a task until it has ended; ``after``: the version that was told last.

    ``may`` raises once the follower has lost the right to: it is asked before each frame. ``left``: what is to be
    said last.
    """
    feed = _Feed(present=task.version)
    reading = asyncio.create_task(_read(service, task, after, narrator, feed))
    reading.add_done_callback(lambda _: feed.changed.set())
    try:
        while True:
            await feed.changed.wait()
            if not line.keeps_up():
                await asyncio.sleep(EVERY_S)
                continue
            await may()
            feed.changed.clear()
            done = reading.done()
            if done:
                # The reason why it could not read on is told, not that the task is over.
                reading.result()
            lines = feed.take(done) + (await left() if done else [])
            body = as_body([one.form() for one in lines])
            told = wire.Told(
                desk=desk, ok=True, done=done, task=task.task_id, version=feed.version, body=wire.whole(body)
            )
            line.tell(told, body)
            if done:
                return
            await asyncio.sleep(EVERY_S)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _read(service: TaskService, task: AgentTask, after: int, narrator: Narrator, feed: _Feed) -> None:
    watching = cast("AsyncGenerator[AgentTaskItem, None]", service.watch(task.task_id))
    async with contextlib.aclosing(watching):
        async for item in watching:
            lines = await narrator.lines(item)
            feed.version, feed.doing = item.version, narrator.doing
            feed.lines += lines if item.version > after else ()
            if item.version >= feed.present:
                feed.changed.set()


# -- What a player may take back at a computer: one task of its owner's, whose changes are all on this very
# computer

_OVER: Final = (TaskStatus.FAILED, TaskStatus.CANCELED, TaskStatus.COMPLETED)
_LOOKED_AT: Final = 1000
"""Tasks of one status that are looked through, the newest first."""
_LOADED: Final = 10
"""Tasks of the computer: a task that a player means without a name is one of the last."""
_UNSEEN: Final = "Changes by its programs are not known: no undo puts them back."
_NAMED: Final = 3
"""Changed places that are named on the screen."""


async def submitted(undoing: Undoing, person: Identity, line: ComputerLine, wanted: str, key: str) -> AgentTask:
    """The undo of a task, named by the beginning of its id or, empty, the last one that changed something.

    Raises NotFound, Forbidden where it changed something elsewhere, and as ``Undoing.submit``.
    """
    begun = await undoing.begun(person, key)
    if begun is not None:
        # Asked again: by now another task would be the last one that is not taken back.
        return begun
    task = await _meant(undoing, person, line, wanted)
    changed = await undoing.changes(task.task_id)
    if any(one.place.computer != line.computer for one in changed.touches):
        raise Forbidden(
            f"{task.task_id} changed something elsewhere too.",
            remedy=f"Outside the game: cc-orchestrator undo {task.task_id}.",
        )
    return await undoing.submit(Restoration(task_id=task.task_id), person, key=key)


async def left_behind(undoing: Undoing, line: ComputerLine, task: AgentTask) -> list[Line]:
    """The changes of a task that did not end well, and how they are put back; empty for any other task."""
    if task.ended is None or (task.status is TaskStatus.COMPLETED and task.ended.verified is not False):
        return []
    left = await undoing.left_behind(task)
    offer = await undoing.offer(task, left) if left else None
    if offer is None:
        return []
    lines = [await note(_UNSEEN)] if left.unseen else []
    if left.changes:
        said = f"It had changed {_named(left.changes, line.computer)}{_how(line, task, left.changes, offer)}"
        lines.insert(0, await note(said))
    return lines


def _named(changes: tuple[TaskChange, ...], here: ComputerId) -> str:
    names = ", ".join(one.path if one.computer == here else one.place for one in changes[:_NAMED])
    more = len(changes) - _NAMED
    return f"{names} and {more} more" if more > 0 else names


def _how(line: ComputerLine, task: AgentTask, changes: tuple[TaskChange, ...], offer: UndoOffer) -> str:
    """What happens to it, behind what it had changed."""
    if offer.outcome is not None:
        return f"; {offer.outcome.told}."
    if offer.automatic:
        return ". It is put back, as the policy says."
    here = UNDO in line.capabilities and all(one.computer == line.computer for one in changes)
    if offer.unknown:
        word = "it" if offer.unknown == len(changes) else f"{offer.unknown} of it"
        return f". Nobody knows whether it did {word}: `cc-orchestrator undo {task.task_id} --on-conflict restore`."
    if here:
        return f". `cc undo {task.task_id}` puts it back."
    return f". Outside the game `cc-orchestrator undo {task.task_id}` puts it back."


async def _meant(undoing: Undoing, person: Identity, line: ComputerLine, wanted: str) -> AgentTask:
    rows = [one for one in await _rows(undoing, person, line) if one.task_id.startswith(wanted)]
    if wanted:
        return await undoing.service.load(_only(rows, person, wanted).task_id)
    for row in rows[:_LOADED]:
        task = await undoing.service.load(row.task_id)
        taken_back = task.restores is not None or task.undone_by
        if not taken_back and (await undoing.left_behind(task)).changes:
            return task
    raise NotFound("None of the last tasks here left something to put back.", remedy="Name one: cc undo TASK.")


def _only(rows: list[TaskRow], person: Identity, wanted: str) -> TaskRow:
    """The row that is meant. Raises NotFound, InvalidRequest when it could be several."""
    if not rows:
        raise NotFound(
            f"{person.name} has no task {wanted[:40]} on this computer that is over.",
            remedy="`cc tasks` lists those that are open, `cc stop` stops one.",
        )
    if len(rows) > 1:
        raise Several(f"begins with {wanted[:40]}", "undo", [(one.task_id, one.prompt) for one in rows[:_LOADED]])
    return rows[0]


async def _rows(undoing: Undoing, person: Identity, line: ComputerLine) -> list[TaskRow]:
    """The tasks of this person on this computer that are over, the newest first."""
    rows = [
        row
        for status in _OVER
        for row in await undoing.service.list_tasks(status=status, limit=_LOOKED_AT)
        if row.user_id == person.name and line.computer in row.computers
    ]
    return sorted(rows, key=lambda one: one.created_at, reverse=True)
