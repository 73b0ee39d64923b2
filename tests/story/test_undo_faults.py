"""An undo during which its computer dies, or the line to it is cut."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

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
from tests.story.proxy import Direction, Frame, LineCut, proxy
from tests.thinning import thinned

pytestmark = [
    pytest.mark.filterwarnings(
        # asyncio forgets a connection that the kernel hands to a server which is closing: the proxy of this
        # process, while a computer dials for the last time. What is under test runs in processes of its own.
        "ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning"
    ),
    pytest.mark.deep,
]

FILES = {"a.lua": b"return 1\n", "lib/b.txt": b"gr\xfcn\r\n", "lib/empty": b"", "gone.txt": b"x" * 40_000}
FILES |= {"kind": b"a file\n", "tree/x": b"in a directory\n", "tree/sub/y": b"y\n"}
WORK = (
    tool("cc_write", path="a.lua", content="return 2\n"),
    tool("cc_write", path="new/c.lua", content="return 3\n"),
    tool("cc_move", path="lib", to="moved"),
    tool("cc_delete", path="gone.txt"),
    tool("cc_delete", path="kind"),
    tool("cc_write", path="kind/inside", content="a directory\n"),
    tool("cc_delete", path="tree"),
    tool("cc_write", path="tree", content="a file now\n"),
    final(),
)
HOWS = ("kill", "cut")
DIRECTIONS: tuple[Direction, ...] = ("up", "down")
LAST_FRAME = 90
"""More frames in one direction than the undo of this work has: the last of them never come."""


async def _undone(api: Api, task_id: str) -> list[AgentTaskItem]:
    answer = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {})
    items = await play(api, answer["task_id"])
    check_laws(items)
    return items


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


def _cases(server: Server, tmp: Path, how: str, frames: Iterable[tuple[Direction, int]]) -> dict[str, Any]:
    return {
        f"{how}-{direction}-{place}": _struck(server, tmp / f"{how}-{direction}-{place}", how, direction, place)
        for direction, place in frames
    }


@pytest.mark.parametrize("how", thinned(HOWS, 2))
async def test_an_undo_cut_short_is_taken_up_again(server: Server, tmp_path: Path, how: str) -> None:
    """At some frames of its looks and of its changes; every byte is as it was in the end.

    Some frames of each direction are struck, in turn by a kill and by a cut; in depth each by both.
    """
    places = enumerate(range(5, LAST_FRAME, 153))
    frames = [(DIRECTIONS[(number + HOWS.index(how)) % 2], place) for number, place in places]
    await each(_cases(server, tmp_path, how, frames), lambda _: last_words(server.home / "server.log"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", HOWS)
async def test_an_undo_cut_short_at_any_frame_is_taken_up_again(server: Server, tmp_path: Path, how: str) -> None:
    """At every frame of it."""
    frames = [(direction, place) for direction in DIRECTIONS for place in range(1, LAST_FRAME)]
    await each(_cases(server, tmp_path, how, frames), lambda _: last_words(server.home / "server.log"))
