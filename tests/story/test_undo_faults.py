"""An undo that is cut short anywhere, and undos of tasks that nobody thought of."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core import facts
from orchestrator.core.items import AgentTaskItem
from tests.story.harness import (
    Api,
    Computer,
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
    tree,
)
from tests.story.proxy import Direction, Frame, LineCut, proxy

pytestmark = pytest.mark.filterwarnings(
    # asyncio forgets a connection that the kernel hands to a server which is closing: the proxy of this
    # process, while a computer dials for the last time. What is under test runs in processes of its own.
    "ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning"
)

FILES = {"a.lua": b"return 1\n", "lib/b.txt": b"gr\xfcn\r\n", "lib/empty": b"", "gone.txt": b"x" * 60_000}
WORK = (
    tool("cc_write", path="a.lua", content="return 2\n"),
    tool("cc_write", path="new/c.lua", content="return 3\n"),
    tool("cc_move", path="lib", to="moved"),
    tool("cc_delete", path="gone.txt"),
    final(),
)
LAST_FRAME = 60
"""More frames in one direction than the undo of this work has: the last of them never come."""


async def _undone(api: Api, task_id: str) -> list[AgentTaskItem]:
    answer = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {})
    items = await play(api, answer["task_id"])
    check_laws(items)
    return items


# -- cut short ---------------------------------------------------------------------------


@dataclass
class Striker:
    """Kills the computer, or cuts its line, once: at one frame counted from the moment it is armed."""

    pc: Computer
    how: str
    direction: Direction
    place: int
    states: tuple[dict[str, bytes | None], dict[str, bytes | None]] = ({}, {})
    """The trees before and after the work: each file is as in one of them, whenever somebody looks."""
    armed: bool = False
    _seen: int = field(default=0)

    async def before(self, frame: Frame) -> None:
        """Count a frame; strike before it is passed on."""
        if frame.message.type == "hello" and self.armed:
            self._look()
        if not self.armed or frame.direction != self.direction:
            return
        self._seen += 1
        if self._seen == self.place:
            self._look()
            if self.how == "kill":
                self.pc.kill()
                self._look()
                self.pc.boot()
            raise LineCut

    def _look(self) -> None:
        """The old or the new bytes, never a third thing."""
        found = {path: data for path, data in tree(self.pc.disk).items() if data is not None}
        for path, data in found.items():
            assert data in [state.get(path) for state in self.states], f"{path} is neither the old nor the new"


async def _struck(server: Server, tmp: Path, how: str, direction: Direction, place: int) -> None:
    async with proxy(server.port) as line, computer(server, tmp, line.url) as pc:
        for path, content in FILES.items():
            pc.write(path, content)
        before = tree(pc.disk)
        striker = Striker(pc, how, direction, place)
        line.before = striker.before
        pc.boot()
        api = server.api()
        task_id = await api.submit(*WORK, computers=(pc.name,))
        check_laws(await play(api, task_id))
        striker.states, striker.armed = (before, tree(pc.disk)), True
        items = await _undone(api, task_id)
        assert ended(items).status == "Completed", ended(items)
        assert tree(pc.disk) == before
        swap = pc.disk / ".cc-orchestrator" / "swap"
        assert not swap.exists() or not list(swap.iterdir()), "swap files stayed behind"


def _cases(server: Server, tmp: Path, how: str, places: range) -> dict[str, Any]:
    directions: tuple[Direction, ...] = ("up", "down")
    return {
        f"{how}-{direction}-{place}": _struck(server, tmp / f"{how}-{direction}-{place}", how, direction, place)
        for direction in directions
        for place in places
    }


@pytest.mark.parametrize("how", ["kill", "cut"])
async def test_an_undo_cut_short_is_taken_up_again(server: Server, tmp_path: Path, how: str) -> None:
    """At some frames of its looks and of its changes; every byte is as it was in the end."""
    await each(
        _cases(server, tmp_path, how, range(5, LAST_FRAME, 12)), lambda _: last_words(server.home / "server.log")
    )


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["kill", "cut"])
async def test_an_undo_cut_short_at_any_frame_is_taken_up_again(server: Server, tmp_path: Path, how: str) -> None:
    """At every frame of it."""
    await each(_cases(server, tmp_path, how, range(1, LAST_FRAME)), lambda _: last_words(server.home / "server.log"))


# -- whatever a task does ------------------------------------------------------------------

NAMES = ("a", "b", "c.lua", "d")
TEXTS = ("", "return 1\n", "-- gr\xfcn\n", "x = 2\r\n", "print('a')\n" * 700)


def _path(dice: random.Random) -> str:
    return "/".join(dice.choices(NAMES, k=dice.choice((1, 1, 2, 3))))


def _work(dice: random.Random) -> Iterator[dict[str, Any]]:
    """Calls of a task; some of them fail, since nothing asks whether they can be done."""
    for _ in range(dice.randint(2, 7)):
        path = _path(dice)
        match dice.choice(("write", "write", "edit", "mkdir", "delete", "move")):
            case "write":
                yield tool("cc_write", path=path, content=dice.choice(TEXTS))
            case "edit":
                yield tool("cc_edit", path=path, old=dice.choice(("return 1", "x")), new=dice.choice(("return 9", "y")))
            case "mkdir":
                yield tool("cc_mkdir", path=path)
            case "delete":
                yield tool("cc_delete", path=path)
            case _:
                yield tool("cc_move", path=path, to=_path(dice))


def _fill(pc: Computer, dice: random.Random) -> None:
    for _ in range(dice.randint(0, 8)):
        path = _path(dice)
        if _can_be_written(pc, path):
            pc.write(path, dice.choice((*TEXTS, "\0\xff")).encode("latin-1"))


def _can_be_written(pc: Computer, path: str) -> bool:
    target = pc.disk / path
    above = [one for one in target.parents if one != pc.disk and pc.disk in one.parents]
    return not target.is_dir() and not any(one.is_file() for one in above)


def _edit(pc: Computer, dice: random.Random) -> dict[str, bytes | None]:
    """What a person does afterwards: path to their bytes, None: they removed it."""
    edits: dict[str, bytes | None] = {}
    for _ in range(dice.choice((0, 0, 1, 2))):
        path = _path(dice)
        if _can_be_written(pc, path):
            mine = None if (pc.disk / path).is_file() and dice.random() < 0.3 else f"mine {path}\n".encode()
            edits[path] = mine
            if mine is None:
                (pc.disk / path).unlink()
            else:
                pc.write(path, mine)
    return edits


def _related(path: str, other: str) -> bool:
    return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")


async def _generated(server: Server, tmp: Path, seed: int) -> None:
    dice = random.Random(f"undo {seed}")
    async with computer(server, tmp) as pc:
        pc.disk.mkdir(parents=True, exist_ok=True)
        _fill(pc, dice)
        before = tree(pc.disk)
        pc.boot()
        api = server.api()
        task_id = await api.submit(*_work(dice), final(success=dice.random() < 0.7), computers=(pc.name,))
        check_laws(await play(api, task_id))
        edits = _edit(pc, dice)
        changed = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {"dry_run": True})
        kept: set[str] = set()
        if changed["places"]:
            items = await _undone(api, task_id)
            assert not facts_of(items, facts.LimitReached)
            kept = {name.partition(":")[2] for name in ended(items).details.get("kept", {})}
        after = tree(pc.disk)
        assert all(after.get(path, b"") == data for path, data in edits.items() if data is not None)
        different = {path for path in {*before, *after} if before.get(path, ...) != after.get(path, ...)}
        excused = kept | set(edits)
        assert all(any(_related(path, one) for one in excused) for path in different), (seed, different, excused)


@pytest.mark.timeout(240)
async def test_generated_tasks_are_taken_back(server: Server, tmp_path: Path) -> None:
    """Byte for byte, but for what a person changed since."""
    cases = {str(seed): _generated(server, tmp_path / str(seed), seed) for seed in range(12)}
    await each(cases, lambda _: last_words(server.home / "server.log"))


@pytest.mark.deep
@pytest.mark.timeout(3600)
async def test_five_hundred_generated_tasks_are_taken_back(server: Server, tmp_path: Path) -> None:
    """The same, five hundred times."""
    for part in range(1000, 1500, 50):
        cases = {str(seed): _generated(server, tmp_path / str(seed), seed) for seed in range(part, part + 50)}
        await each(cases, lambda _: last_words(server.home / "server.log"))
