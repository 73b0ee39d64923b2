"""kill -9 of the computer, or of its line, at every frame and every change of its disk."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, cycle, islice, product
from pathlib import Path
from typing import Any, Literal

import pytest

from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from tests.story.harness import (
    Api,
    Computer,
    Decider,
    Server,
    check_laws,
    computer,
    each,
    ended,
    facts_of,
    final,
    last_words,
    play,
    tool,
)
from tests.story.proxy import Direction, Frame, LineCut, Proxy, proxy
from tests.waiting import HANG_S

pytestmark = pytest.mark.filterwarnings(
    # asyncio forgets a connection that the kernel hands to a server which is closing: the proxy of this
    # process, while a computer dials for the last time. What is under test runs in processes of its own.
    "ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning"
)

OLD, NEW = b"print('the old one')\n", b"print('the new one')\n"
PROGRAM = b"local log = fs.open('ran.log', 'a') log.write('ran\\n') log.close() print('it ran')\n"

How = Literal["kill", "cut"]
HOWS: tuple[How, ...] = ("kill", "cut")
Side = Literal["lost", "delivered"]
SIDES: tuple[Side, ...] = ("lost", "delivered")
DIRECTIONS: tuple[Direction, ...] = ("up", "down")
LAST_FRAME = 5
"""In each direction: up hello, ack, result, ack, result; down welcome, call, result_ack, call, result_ack."""
FIRST_WATCHED, FIRST_RUN, LAST_RUN = 6, 10, 13
"""Of a program: the look at the files that are watched, its start, and the end of the look after it."""
LAST_SURE = 18
"""The changes of the disk before this one come before the task is over."""
FIRST_OF_CALL = 8
"""The changes of the disk before this one are of the boot, the same for every story."""
AT_A_TIME = 4
"""The changes of a disk that a sweep tries before it looks whether it is past the last of them."""


@dataclass(frozen=True)
class Story:
    """One change, and what its file may hold at any moment and must hold in the end."""

    call: dict[str, Any]
    path: str
    before: bytes | None
    after: bytes | None
    moved_to: str = ""
    """Where the bytes of before are in the end; empty: they are not moved."""

    @property
    def once(self) -> bool:
        """Whether the call may end in ``outcome_unknown``: a program cannot be undone or looked up."""
        return self.call["tool_call"]["tool"] in ("cc_run_program", "cc_shell")

    @property
    def frames(self) -> range:
        """The frames of each direction that are its own; those of a program before are looks like any other's."""
        return range(FIRST_WATCHED, LAST_RUN + 1) if self.once else range(1, LAST_FRAME + 1)

    @property
    def effect(self) -> range:
        """The frames from its call to its last acknowledgement."""
        return range(FIRST_RUN if self.once else LAST_FRAME - 1, self.frames.stop)

    def found(self, pc: Computer) -> bytes | None:
        """What is at the path now."""
        return DIRECTORY if (pc.disk / self.path).is_dir() else pc.read(self.path)


DIRECTORY = b"(a directory)"
STORIES = {
    "write-existing": Story(tool("cc_write", path="d/f.lua", content=NEW.decode()), "d/f.lua", OLD, NEW),
    "write-new": Story(tool("cc_write", path="d/f.lua", content=NEW.decode()), "d/f.lua", None, NEW),
    "delete": Story(tool("cc_delete", path="d/f.lua"), "d/f.lua", OLD, None),
    "move": Story(tool("cc_move", path="d/f.lua", to="e/g.lua"), "d/f.lua", OLD, None, moved_to="e/g.lua"),
    "run": Story(tool("cc_run_program", path="p.lua"), "ran.log", None, b"ran\n"),
}
OTHERS = {
    "edit": Story(tool("cc_edit", path="d/f.lua", old="old", new="new"), "d/f.lua", OLD, NEW),
    "mkdir": Story(tool("cc_mkdir", path="d/e"), "d/e", None, DIRECTORY),
    "shell": Story(tool("cc_shell", command="p"), "ran.log", None, b"ran\n"),
}
"""The other methods with an effect: in short at the frames of the effect itself, in depth at every one."""
EVERY = STORIES | OTHERS
WHOLE = ("write-existing", "run")
ALIKE = ("edit", "shell")
"""On the computer they write a file, and run a program, as these two do: cut in depth only."""
"""Cut at frames of the whole session by every run of the checks: a change that is looked up, and one that cannot be.

The other stories differ from these in their effect only, so of them only this is swept each time, and the rest in
depth. What their methods do to a disk is cut at each change, and at each again while that is mended, by swap_spec.lua.
"""
CHANGES = {
    "write-existing": (1, 9),
    "run": (2, 9),
    "move": (FIRST_OF_CALL + 4, 9),
}
"""The first change of its disk at which a story's computer is killed, and the step to the next; in depth at each.

In depth for every other story, too.
"""


def _prepare(story: Story, pc: Computer) -> None:
    if story.before is not None:
        pc.write(story.path, story.before)
    if story.once:
        # Bytes that no other story has: what is kept already is not read again, and that would be frames less.
        pc.write("p.lua", PROGRAM + f"-- {pc.name}\n".encode())


@dataclass
class Witness:
    """Decides what is asked, as a person who goes and looks would, and remembers what was asked."""

    story: Story
    pc: Computer
    asked: Counter[str]

    async def decide(self, request: dict[str, Any]) -> str:
        self.asked[request["reason"]] += 1
        if request["reason"] == "approval":
            assert request["allowed_decisions"] == ["approve", "reject", "edit", "respond"]
            return "approve"
        assert self.story.once, "a change by state is never unknown when nobody interferes"
        assert request["allowed_decisions"] == ["check", "mark_done", "mark_failed", "retry"]
        assert request["tool_calls"][0]["state"] == "outcome_unknown"
        return "mark_done" if self.story.found(self.pc) == self.story.after else "retry"


async def _play(server: Server, pc: Computer, story: Story, start: Callable[[], None]) -> list[AgentTaskItem]:
    """Submit the story's task, start the computer, and see the task to its end by the laws."""
    _prepare(story, pc)
    witness = Witness(story, pc, Counter())
    api = server.api()
    task_id = await api.submit(story.call, final(), computers=(pc.name,))
    start()
    items = await play(api, task_id, witness.decide)
    check_laws(items)
    assert ended(items).status == "Completed"
    assert story.found(pc) == story.after
    assert not story.moved_to or pc.read(story.moved_to) == story.before
    told = await api.ok("GET", f"/v1/tasks/{task_id}/changes")
    assert story.path in {one["path"] for one in told["changes"]}, "a change that nobody would know of"
    retried = sum(one.action == "retry" for fact in facts_of(items, facts.DecisionRecorded) for one in fact.decisions)
    assert witness.asked["approval"] == 1 + retried, "asked again without a reason"
    swap = pc.disk / ".cc-orchestrator" / "swap"
    assert not swap.exists() or not list(swap.iterdir()), "swap files stayed behind"
    return items


@dataclass(frozen=True)
class Fault:
    """Where the computer is killed, or its line cut: at one frame of one connection."""

    how: How
    direction: Direction
    place: int
    side: Side
    connection: int = 1

    @property
    def name(self) -> str:
        """Such as ``cut-up-5-lost``."""
        return f"{self.how}-{self.direction}-{self.place}-{self.side}"


@dataclass
class Saboteur:
    """Carries out faults, each once, the next one only after the one before."""

    story: Story
    pc: Computer
    line: Proxy
    left: list[Fault]
    struck: asyncio.Event = field(default_factory=asyncio.Event)
    """All faults have happened."""
    _seen: Counter[tuple[int, Direction]] = field(default_factory=Counter)

    async def before(self, frame: Frame) -> None:
        """Count a frame, and strike before it is passed on."""
        self._seen[frame.connection, frame.direction] += 1
        if frame.message.type == "hello" and frame.connection > 1:
            _old_or_new(self.story, self.pc)
        self._strike(frame, "lost")

    async def after(self, frame: Frame) -> None:
        """Strike after a frame was passed on."""
        self._strike(frame, "delivered")

    def _strike(self, frame: Frame, side: Side) -> None:
        if not self.left:
            return
        fault, place = self.left[0], self._seen[frame.connection, frame.direction]
        if (fault.connection, fault.direction, fault.place) != (frame.connection, frame.direction, place):
            return
        if fault.side != side:
            return
        del self.left[0]
        if not self.left:
            self.struck.set()
        if fault.how == "kill":
            self.pc.kill()
            self.pc.boot()
        raise LineCut


async def _at_frames(server: Server, tmp: Path, story: Story, *faults: Fault, must: bool = True) -> None:
    """The story with its computer killed, or its line cut, at these frames; ``must``: all of them come."""
    async with proxy(server.port) as line, computer(server, tmp, line.url) as pc:
        saboteur = Saboteur(story, pc, line, list(faults))
        line.before, line.after = saboteur.before, saboteur.after
        items = await _play(server, pc, story, pc.boot)
        if must:
            # The last frame goes to the computer after the task has ended.
            await saboteur.struck.wait()
        if all(fault.how == "cut" for fault in faults):
            assert not any(one.state in ("interrupted", "unknown") for one in facts_of(items, facts.ToolSettled))
            assert not story.once or "it ran" in _result(items)


def _old_or_new(story: Story, pc: Computer) -> None:
    """At a hello the file is one or the other: nothing half, no third content."""
    # A program that opened its log and wrote no line yet was cut in the middle of its own work.
    half = (b"",) if story.once else ()
    assert story.found(pc) in (story.before, story.after, *half)


def _result(items: list[AgentTaskItem]) -> str:
    ends = [item.fact for item in items if item.fact.kind in ("tool_finished", "tool_settled")]
    return "\n".join(one.text for one in ends)


def _every(how: How, places: range, connection: int = 1) -> list[Fault]:
    return [
        Fault(how, direction, place, side, connection) for direction in DIRECTIONS for place in places for side in SIDES
    ]


def _in_turn(name: str, places: range) -> list[Fault]:
    """One fault for each third frame, of every kind in turn; each story begins with another frame and kind."""
    first = list(EVERY).index(name)
    frames = [(direction, place) for direction in DIRECTIONS for place in places][first % 3 :: 3]
    kinds = islice(cycle(product(HOWS, SIDES)), first, None)
    return [Fault(how, direction, place, side) for (direction, place), (how, side) in zip(frames, kinds, strict=False)]


async def _sweep(server: Server, tmp_path: Path, name: str, faults: Sequence[Fault]) -> None:
    cases = {f"{name}-{fault.name}": _at_frames(server, tmp_path / fault.name, EVERY[name], fault) for fault in faults}
    await each(cases, lambda _: last_words(server.home / "server.log"))


@pytest.mark.parametrize("name", WHOLE)
async def test_a_fault_at_any_frame_is_done_once_not_done_or_said_to_be_unknown(
    server: Server, tmp_path: Path, name: str
) -> None:
    """At frames of each direction, lost or delivered: once, or not at all and run again, or a person is asked.

    Each third frame, by a kill or a cut, in turn; in depth every frame has every kind of fault.
    """
    await _sweep(server, tmp_path, name, _in_turn(name, EVERY[name].frames))


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.deep] * (one in ALIKE)) for one in EVERY if one not in WHOLE],
)
async def test_a_fault_at_the_frames_of_the_effect_is_done_once_not_done_or_said_to_be_unknown(
    server: Server, tmp_path: Path, name: str
) -> None:
    """The same for every other method that changes something, from its call to its last acknowledgement.

    The frames before are the hello and a look, the same as those that the test above sweeps; in depth they are
    swept for these, too.
    """
    await _sweep(server, tmp_path, name, _in_turn(name, EVERY[name].effect))


@pytest.mark.deep
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", EVERY)
async def test_any_fault_at_any_frame(server: Server, tmp_path: Path, name: str, how: How) -> None:
    """Every kind at every frame; the looks before a program's start are those of any other story."""
    places = EVERY[name].frames if name in WHOLE else range(1, EVERY[name].frames.stop)
    await _sweep(server, tmp_path, name, _every(how, places))


NOWHERE = Story(
    tool("cc_peripheral_call", name="left", method="pushItems", args=["right", 1, 1]), "nowhere", None, None
)
COUNTED = tool("cc_peripheral_call", name="right", method="list")
CHESTS = ("--peripheral=left=minecraft:chest,size=2,1=minecraft:coal*9", "--peripheral=right=minecraft:chest,size=2")


async def _push_at(server: Server, tmp: Path, fault: Fault) -> None:
    """One lump of coal is pushed from a chest to another, and then what is there is listed."""
    async with proxy(server.port) as line, computer(server, tmp, line.url) as pc:
        saboteur = Saboteur(NOWHERE, pc, line, [fault])
        line.before, line.after = saboteur.before, saboteur.after
        api = server.api()
        task_id = await api.submit(NOWHERE.call, COUNTED, final(), computers=(pc.name,))
        pc.boot(*CHESTS)

        async def decide(request: dict[str, Any]) -> str:
            assert request["reason"] == "approval", "a computer that stayed on knows what it did"
            return "approve"

        items = await play(api, task_id, decide)
        check_laws(items)
        await saboteur.struck.wait()
        assert [one["count"] for one in _listed(items)] == [1]


def _listed(items: list[AgentTaskItem]) -> list[dict[str, Any]]:
    """The stacks in the chest, as the last result has them."""
    text = [item.fact for item in items if item.fact.kind in ("tool_finished", "tool_settled")][-1].text
    stacks = json.loads(text[text.index("\n") + 1 :])
    return list(stacks.values() if isinstance(stacks, dict) else stacks)


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.deep)])
async def test_a_peripheral_is_called_once_wherever_the_line_is_cut(server: Server, tmp_path: Path, step: int) -> None:
    """At each frame of the call and of the look before it; the world outlives the line.

    Each frame is cut in one of four ways, in turn: up or down, lost or delivered. In depth it is cut in all four.
    """
    each_frame = [_every("cut", range(place, place + 1)) for place in range(1, LAST_FRAME + 1)]
    faults = [fault for place, both in enumerate(each_frame) for fault in both[place % step :: step]]
    cases = {fault.name: _push_at(server, tmp_path / fault.name, fault) for fault in faults}
    await each(cases, lambda _: last_words(server.home / "server.log"))


def _result_lost(story: Story) -> Fault:
    return Fault("cut", "up", story.effect.start + 1, "lost")


@pytest.mark.deep
@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", WHOLE)
async def test_a_second_fault_while_the_first_is_settled_changes_nothing(
    server: Server, tmp_path: Path, name: str
) -> None:
    """The result is lost, and then the computer or its line goes again at any frame of the settling.

    By a fault of every kind in turn; in depth each pair of faults comes.
    """
    seconds = [replace(fault, connection=2) for fault in _in_turn(name, range(1, 4))]
    cases = {
        f"{name}-{fault.name}": _at_frames(
            server, tmp_path / fault.name, STORIES[name], _result_lost(STORIES[name]), fault, must=False
        )
        for fault in seconds
    }
    await each(cases, lambda _: last_words(server.home / "server.log"))


@pytest.mark.deep
@pytest.mark.parametrize("name", EVERY)
async def test_any_two_faults_change_nothing(server: Server, tmp_path: Path, name: str) -> None:
    """Every pair: a fault at any frame of the change on the first connection, another at any frame of the second."""
    pairs = [
        (first, second)
        for how in HOWS
        for first in _every(how, EVERY[name].effect)
        for other in HOWS
        for second in _every(other, range(1, LAST_FRAME), connection=2)
    ]
    cases = {
        f"{name}-{first.name}-then-{second.name}": _at_frames(
            server, tmp_path / f"{first.name}-{second.name}", EVERY[name], first, second, must=False
        )
        for first, second in pairs
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


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", CHANGES)
async def test_a_computer_killed_at_some_changes_of_its_disk_is_done_once_or_not_at_all(
    server: Server, tmp_path: Path, name: str
) -> None:
    """At changes of its disk from boot to the last acknowledgement, others for each story: the same promise."""
    await _at_changes(server, tmp_path, name, count(*CHANGES[name]))


@pytest.mark.deep
@pytest.mark.parametrize("name", EVERY)
async def test_a_computer_killed_at_any_change_of_its_disk_is_done_once_or_not_at_all(
    server: Server, tmp_path: Path, name: str
) -> None:
    """At each change of its disk, for every method that changes something."""
    await _at_changes(server, tmp_path, name, count(1))


async def _at_changes(server: Server, tmp_path: Path, name: str, changes: Iterator[int]) -> None:
    died: set[int] = set()
    tried: list[int] = []
    # Who is to die at a change that never comes lives: the sweep goes on until it is past the last one.
    while not tried or tried[-1] in died:
        tried += islice(changes, AT_A_TIME)
        cases = {
            f"{name}-change-{change:02}": _at_change(server, tmp_path / str(change), EVERY[name], change, died)
            for change in tried[-AT_A_TIME:]
        }
        await each(cases, lambda _: last_words(server.home / "server.log"))
    # The last changes are of acknowledgements: the task may be over before the computer comes to them.
    assert died >= {change for change in tried if change < LAST_SURE}


SLOW = b"local log = fs.open('ran.log', 'a') log.write('ran\\n') log.close() os.pullEvent('never')\n"


@pytest.mark.thinned(2)
@pytest.mark.parametrize("action", ["mark_done", "mark_failed", "retry", "check"])
async def test_a_program_cut_in_its_middle_is_unknown_until_a_person_says(
    server: Server, tmp_path: Path, action: str
) -> None:
    """The task pauses with outcome_unknown; each word of the person does what it says, and nothing runs without it."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("p.lua", SLOW)
        pc.boot()
        task_id = await api.submit(tool("cc_run_program", path="p.lua"), final(), computers=(pc.name,))
        requested = await api.first(task_id, "review_requested")
        await api.resume(requested.request_id, "approve")
        await api.first(task_id, "tool_started")
        await _until_there(pc, "ran.log")
        pc.kill()
        pc.boot()
        unknown = await api.first(task_id, "review_requested", place=2)
        shown = await api.task(task_id)
        assert (shown["status"], shown["status_reason"]) == ("Paused", "outcome_unknown")
        request = shown["request"]
        assert request["allowed_decisions"] == ["check", "mark_done", "mark_failed", "retry"]
        await api.refused(409, "POST", f"/v1/approve/{unknown.request_id}", {})
        # What would run again must end this time.
        pc.write("p.lua", PROGRAM)
        asked: list[str] = []

        async def decide(open_request: dict[str, Any]) -> str:
            asked.append(open_request["reason"])
            if open_request["reason"] == "approval":
                return "approve"
            return action if asked.count("outcome_unknown") == 1 else "mark_done"

        await api.resume(unknown.request_id, await decide(request))
        items = await _played_on(api, task_id, decide, past=unknown.request_id)
        check_laws(items)
        assert ended(items).status == "Completed"
        again = {"retry": ["outcome_unknown", "approval"], "check": ["outcome_unknown", "outcome_unknown"]}
        assert asked == again.get(action, ["outcome_unknown"])
        assert pc.read("ran.log") == (b"ran\nran\n" if action == "retry" else b"ran\n")


async def _until_there(pc: Computer, path: str) -> None:
    """Until a program wrote a file: nothing else of it can be seen from outside."""
    async with asyncio.timeout(HANG_S):
        while not pc.read(path):  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.01)


async def _played_on(api: Api, task_id: str, decide: Decider, past: str) -> list[AgentTaskItem]:
    """See a task to its end; the requests up to ``past`` are decided already."""
    items: list[AgentTaskItem] = []
    mine = False
    async for item in api.items(task_id):
        items.append(item)
        if isinstance(item.fact, facts.ReviewRequested):
            if mine:
                request = await api.ok("GET", f"/v1/requests/{item.fact.request_id}")
                await api.resume(item.fact.request_id, str(await decide(request)))
            mine = mine or item.fact.request_id == past
    return items
