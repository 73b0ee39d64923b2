"""A computer that dies in the middle of a change, and then an undo of the task: the tree from before, byte for byte."""

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from tests.story.harness import (
    Api,
    Computer,
    Server,
    check_laws,
    computer,
    each,
    ended,
    final,
    last_words,
    play,
    tool,
    tree,
)

pytestmark = pytest.mark.deep

FILES = {"a.lua": b"return 1\n", "d/x": b"\0\xff", "d/deep/y": b"", "lib/gr\xfcn.txt": b"gr\xfcn\r\n"}
KINDS = {
    "write": tool("cc_write", path="a.lua", content="return 2\n"),
    "write-new": tool("cc_write", path="new/deep/b.lua", content="return 2\n"),
    "edit": tool("cc_edit", path="a.lua", old="1", new="2"),
    "delete": tool("cc_delete", path="a.lua"),
    "delete-tree": tool("cc_delete", path="d"),
    "move": tool("cc_move", path="a.lua", to="e/f/a.lua"),
    "move-tree": tool("cc_move", path="d", to="e/f/d"),
    "mkdir": tool("cc_mkdir", path="e/f/g"),
}
FIRST_CHANGE, LAST_CHANGE = 8, 52
"""Of the disk, from the start of the computer: before the call comes, and after it is done."""


@dataclass
class Death:
    """A computer that dies right before one change of its disk, and is booted again."""

    pc: Computer
    change: int
    died: bool = False

    async def carry_out(self, cancel: Any) -> None:
        """Boot it, wait for its end, say so, and boot it again."""
        self.pc.boot(f"--die-at-change={self.change}")
        assert self.pc.process is not None
        if await self.pc.process.gone() == -signal.SIGKILL:
            self.died = True
            await cancel()
            self.pc.boot()


async def _cut(server: Server, tmp: Path, kind: str, change: int, *, canceled: bool) -> None:
    async with computer(server, tmp) as pc:
        for path, data in FILES.items():
            pc.write(path, data)
        before, api = tree(pc.disk), server.api()
        task_id = await api.submit(KINDS[kind], final(), computers=(pc.name,))

        async def cancel() -> None:
            if canceled:
                await api.call("POST", f"/v1/tasks/{task_id}/cancel", {})

        death = Death(pc, change)
        dying = asyncio.create_task(death.carry_out(cancel))
        try:
            check_laws(await _seen(api, task_id))
            await _must_be_taken_back(server, pc, task_id, before, dying)
        finally:
            dying.cancel()
            await asyncio.gather(dying, return_exceptions=True)


async def _seen(api: Api, task_id: str) -> list[AgentTaskItem]:
    """A task to its end; what is canceled while somebody says yes to it is over."""
    items: list[AgentTaskItem] = []
    async with contextlib.aclosing(api.items(task_id)) as stream:
        async for item in stream:
            items.append(item)
            if isinstance(item.fact, facts.ReviewRequested):
                await api.call("POST", f"/v1/resume/{item.fact.request_id}", {"action": "approve"})
    return items


async def _must_be_taken_back(
    server: Server, pc: Computer, task_id: str, before: dict[str, bytes | None], dying: asyncio.Task[None]
) -> None:
    api = server.api()
    told = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {"dry_run": True})
    if told["places"]:
        answer = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {})
        items = await play(api, answer["task_id"])
        check_laws(items)
        assert ended(items).status == "Completed", ended(items)
    elif not dying.done():
        # Nothing was done; it may still lie there dead, half way, until it is booted again.
        pc.kill()
    await _booted_again(server, pc, dying)
    assert tree(pc.disk) == before


async def _booted_again(server: Server, pc: Computer, dying: asyncio.Task[None]) -> None:
    """What a computer finds half done when it starts it decides before it says hello."""
    await asyncio.gather(dying, return_exceptions=True)
    if pc.process is None or not pc.process.alive:
        pc.boot()
    items = await play(server.api(), await server.api().submit(_LOOK, final(), computers=(pc.name,)))
    assert [item for item in items if isinstance(item.fact, facts.ToolFinished)]


_LOOK = tool("cc_list", path="/")


def _cases(
    server: Server, tmp: Path, kind: str, changes: range, canceled: Sequence[bool] = (False, True)
) -> dict[str, Any]:
    return {
        f"{kind}-{change}{'-canceled' * off}": _cut(server, tmp / f"{kind}-{change}-{off}", kind, change, canceled=off)
        for change in changes
        for off in canceled
    }


async def test_a_change_that_was_cut_is_taken_back(server: Server, tmp_path: Path) -> None:
    """A change of the disk for each kind of call; the task goes on, or is canceled while the computer is off."""
    cases: dict[str, Any] = {}
    for number, kind in enumerate(KINDS):
        first = FIRST_CHANGE + 12 + number
        cases |= _cases(server, tmp_path, kind, range(first, first + 1), [number % 2 == 1])
    await each(cases, lambda _: last_words(server.home / "server.log"))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_change_that_was_cut_anywhere_is_taken_back(server: Server, tmp_path: Path, kind: str) -> None:
    """Every change of the disk."""
    cases = _cases(server, tmp_path, kind, range(FIRST_CHANGE, LAST_CHANGE))
    await each(cases, lambda _: last_words(server.home / "server.log"))
