"""A task followed at a computer: its lines in few frames, as fast as the computer takes them.

What comes within a quarter of a second goes together, and of what is too much for a screen the newest:
a player reads no faster, and a computer keeps no more than 256 events.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, cast

from orchestrator.core.ports import ComputerLine
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire import wire
from orchestrator.engine.tasks import TaskService
from orchestrator.web.in_game.lines import Line, Narrator, as_body

EVERY_S: Final = 0.25
"""Between two frames of one followed task: what the eye takes for at once on a screen of text."""
MAX_LINES: Final = 20
"""Of one frame: a screen has 19 rows."""


@dataclass
class _Feed:
    """What was read and not told yet."""

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
    waits_for: str,
    may: Callable[[], Awaitable[object]],
    left: Callable[[], Awaitable[list[Line]]],
) -> None:
    """Tell what happens to a task until it has ended; ``after``: the version that was told last.

    ``may`` raises once whoever follows has lost the right to: it is asked before each frame. ``left``: what is to be
    said last.
    """
    feed = _Feed(present=task.version)
    reading = asyncio.create_task(_read(service, task, after, Narrator(waits_for), feed))
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
                # What kept it from reading on is told, not that the task is over.
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
