"""kill -9 of the computer, or of its line, at every frame and every change of its disk."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from orchestrator.core import facts
from orchestrator.core.items import AgentTaskItem
from tests.story.harness import Computer, Server, check_laws, computer, each, facts_of, final, last_words, play, tool
from tests.story.proxy import Frame, LineCut, Proxy, proxy

OLD, NEW = b"print('the old one')\n", b"print('the new one')\n"
PROGRAM = b"local log = fs.open('ran.log', 'a') log.write('ran\\n') log.close() print('it ran')\n"

Fault = Literal["kill", "cut"]
Side = Literal["lost", "delivered"]
LAST_FRAME = 5
"""In each direction: up hello, ack, result, ack, result; down welcome, call, result_ack, call, result_ack."""
LAST_CHANGE = 30
"""More changes of the disk than one boot and one task make: the last of them is never reached."""


@dataclass(frozen=True)
class Story:
    """One change, and what its file may hold at any moment and must hold in the end."""

    call: dict[str, Any]
    path: str
    before: bytes | None
    after: bytes | None

    @property
    def once(self) -> bool:
        """Whether the call may end in ``outcome_unknown``: a program cannot be undone or looked up."""
        return bool(self.call["tool_call"]["tool"] == "cc_run_program")


STORIES = {
    "write-existing": Story(tool("cc_write", path="d/f.lua", content=NEW.decode()), "d/f.lua", OLD, NEW),
    "write-new": Story(tool("cc_write", path="d/f.lua", content=NEW.decode()), "d/f.lua", None, NEW),
    "delete": Story(tool("cc_delete", path="d/f.lua"), "d/f.lua", OLD, None),
    "run": Story(tool("cc_run_program", path="p.lua"), "ran.log", None, b"ran\n"),
}


def _prepare(story: Story, pc: Computer) -> None:
    if story.before is not None:
        pc.write(story.path, story.before)
    if story.once:
        pc.write("p.lua", PROGRAM)


@dataclass
class Witness:
    """Decides what is asked, as a person who goes and looks would, and remembers what was asked."""

    story: Story
    pc: Computer
    asked: Counter[str]

    async def decide(self, request: dict[str, Any]) -> str:
        self.asked[request["reason"]] += 1
        if request["reason"] == "approval":
            assert request["allowed_decisions"] == ["approve", "reject"]
            return "approve"
        assert self.story.once, "a change by state is never unknown when nobody interferes"
        assert request["allowed_decisions"] == ["check", "mark_done", "mark_failed", "retry"]
        assert request["tool_calls"][0]["state"] == "outcome_unknown"
        return "mark_done" if self.pc.read(self.story.path) == self.story.after else "retry"


async def _play(server: Server, pc: Computer, story: Story, start: Callable[[], None]) -> list[AgentTaskItem]:
    """Submit the story's task, start the computer, and see the task to its end by the laws."""
    _prepare(story, pc)
    witness = Witness(story, pc, Counter())
    api = server.api()
    task_id = await api.submit(story.call, final(), computers=(pc.name,))
    start()
    items = await play(api, task_id, witness.decide)
    check_laws(items)
    ended = items[-1].fact
    assert isinstance(ended, facts.TaskEnded)
    assert ended.status == "Completed"
    assert pc.read(story.path) == story.after
    retried = sum(one.action == "retry" for fact in facts_of(items, facts.DecisionRecorded) for one in fact.decisions)
    assert witness.asked["approval"] == 1 + retried, "asked again without a reason"
    swap = pc.disk / ".cc-orchestrator" / "swap"
    assert not swap.exists() or not list(swap.iterdir()), "swap files stayed behind"
    return items


async def _at_frame(server: Server, tmp: Path, story: Story, fault: Fault, at: tuple[str, int, Side]) -> None:
    """The story with its computer killed, or its line cut, at one frame."""
    direction, place, side = at
    async with proxy(server.port) as line, computer(server, tmp, line.url) as pc:
        rebooted = asyncio.Event()

        def strike(frame: Frame) -> None:
            if (frame.direction, frame.place) != (direction, place):
                return
            rebooted.set()
            if fault == "kill":
                pc.kill()
                pc.boot()
            raise LineCut

        async def before(frame: Frame) -> None:
            if frame.message.type == "hello" and rebooted.is_set():
                _old_or_new(story, pc)
            if side == "lost":
                strike(frame)

        async def after(frame: Frame) -> None:
            if side == "delivered":
                strike(frame)

        line.before, line.after = before, after
        items = await _play(server, pc, story, pc.boot)
        await _until(line, rebooted)
        if fault == "cut":
            assert not any(one.state in ("interrupted", "unknown") for one in facts_of(items, facts.ToolSettled))
            assert not story.once or "it ran" in _result(items)


async def _until(line: Proxy, struck: asyncio.Event) -> None:
    """The fault must have happened: the last frame goes to the computer after the task has ended."""
    async with asyncio.timeout(10):
        await struck.wait()
    assert line.connections >= 1


def _old_or_new(story: Story, pc: Computer) -> None:
    """At a hello the file is one or the other: nothing half, no third content."""
    # A program that opened its log and wrote no line yet was cut in the middle of its own work.
    half = (b"",) if story.once else ()
    assert pc.read(story.path) in (story.before, story.after, *half)


def _result(items: list[AgentTaskItem]) -> str:
    ends = [item.fact for item in items if item.fact.kind in ("tool_finished", "tool_settled")]
    return "\n".join(one.text for one in ends)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("fault", ["kill", "cut"])
@pytest.mark.parametrize("name", STORIES)
async def test_a_fault_at_any_frame_is_done_once_not_done_or_said_to_be_unknown(
    server: Server, tmp_path: Path, name: str, fault: Fault
) -> None:
    """At each frame of each direction, lost or delivered: once, or not at all and run again, or a person is asked."""
    places = [
        (f"{direction}-{place}-{side}", (direction, place, side))
        for direction in ("up", "down")
        for place in range(1, LAST_FRAME + 1)
        for side in ("lost", "delivered")
    ]
    cases = {
        f"{name}-{fault}-{where}": _at_frame(server, tmp_path / where, STORIES[name], fault, at)
        for where, at in places
    }
    await each(cases, lambda _: last_words(server.home / "server.log"))


async def _at_change(server: Server, tmp: Path, story: Story, change: int, died: set[int]) -> None:
    """The story with its computer killed right before one change of its disk, and booted again."""
    async with proxy(server.port) as line, computer(server, tmp, line.url) as pc:

        async def before(frame: Frame) -> None:
            if frame.message.type == "hello" and change in died:
                _old_or_new(story, pc)

        async def boot_again() -> None:
            assert pc.process is not None
            if await pc.process.gone() == -signal.SIGKILL:
                died.add(change)
                pc.boot()

        line.before = before
        booting: list[asyncio.Task[None]] = []

        def start() -> None:
            pc.boot(f"--die-at-change={change}")
            booting.append(asyncio.create_task(boot_again()))

        try:
            await _play(server, pc, story, start)
        finally:
            if change not in died:
                pc.kill()
                died.discard(change)
            for one in booting:
                one.cancel()
            await asyncio.gather(*booting, return_exceptions=True)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", STORIES)
async def test_a_computer_killed_at_any_change_of_its_disk_is_done_once_or_not_at_all(
    server: Server, tmp_path: Path, name: str
) -> None:
    """At each change of its disk, from boot to the last acknowledgement: the same promise."""
    died: set[int] = set()
    cases = {
        f"{name}-change-{change:02}": _at_change(server, tmp_path / str(change), STORIES[name], change, died)
        for change in range(1, LAST_CHANGE + 1)
    }
    await each(cases, lambda _: last_words(server.home / "server.log"))
    assert died == set(range(1, len(died) + 1))
    assert 10 < len(died) < LAST_CHANGE, "the sweep must reach past the last change"
