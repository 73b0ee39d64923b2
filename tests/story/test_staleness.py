"""What changes between the approval and the run: nothing is overwritten, and the person is asked anew."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task import facts
from orchestrator.core.wire.wire import sha256_hex
from tests.story.harness import Computer, Server, check_laws, computer, facts_of, final, play, tool
from tests.story.proxy import Frame, LineCut, Proxy, proxy

pytestmark = pytest.mark.filterwarnings(
    # asyncio forgets a connection that the kernel hands to a server which is closing: the proxy of this
    # process, while a computer dials for the last time. What is under test runs in processes of its own.
    "ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning"
)

MINE, THEIRS, WANTED = b"print('mine')\n", b"print('a person was here')\n", b"print('wanted')\n"


@dataclass
class Meddler:
    """A person who edits the computer's disk while an approved call is on its way to it."""

    method: str
    path: str
    edit: bytes | None
    """None: they delete the file."""
    pc: Computer | None = None
    held: list[str] = field(default_factory=list)

    async def before(self, frame: Frame) -> None:
        """Hold the first call of the method, edit, release."""
        if getattr(frame.message, "method", "") != self.method or self.held or self.pc is None:
            return
        self.held.append(frame.message.call_id)
        if self.edit is None:
            (self.pc.disk / self.path).unlink()
        else:
            self.pc.write(self.path, self.edit)


@asynccontextmanager
async def _meddled(server: Server, tmp: Path, meddler: Meddler) -> AsyncIterator[tuple[Proxy, Computer]]:
    async with proxy(server.port) as line, computer(server, tmp, line.url) as pc:
        meddler.pc = pc
        line.before = meddler.before
        yield line, pc


@dataclass
class Reader:
    """Approves everything, and keeps what was shown and what the file was at that moment."""

    pc: Computer
    path: str
    shown: list[dict[str, Any]] = field(default_factory=list)
    found: list[bytes | None] = field(default_factory=list)

    async def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        assert request["reason"] == "approval"
        self.shown.append(request["tool_calls"][0])
        self.found.append(self.pc.read(self.path))
        return {"action": "approve", "expected_digest": request["action_digest"]}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("edit", [THEIRS, None], ids=["edited", "deleted"])
async def test_a_file_changed_after_the_approval_is_not_overwritten(
    server: Server, tmp_path: Path, edit: bytes | None
) -> None:
    """The write is refused by the computer, the new diff is shown in a new request, and that approval writes."""
    meddler = Meddler("fs_write", "f.lua", edit)
    async with _meddled(server, tmp_path, meddler) as (_, pc):
        pc.write("f.lua", MINE)
        pc.boot()
        reader = Reader(pc, "f.lua")
        api = server.api()
        write = tool("cc_write", path="f.lua", content=WANTED.decode())
        items = await play(api, await api.submit(write, final(), computers=(pc.name,)), reader.decide)
        check_laws(items)
        assert reader.found == [MINE, edit], "the person's edit must stand when the second request is shown"
        assert [one["observed"]["state"]["f.lua"] for one in reader.shown] == [
            sha256_hex(MINE),
            sha256_hex(edit) if edit is not None else "absent",
        ]
        removed = [line for line in reader.shown[1]["observed"]["diff"].splitlines() if line.startswith("-print")]
        assert removed == (["-" + THEIRS.decode().strip()] if edit is not None else [])
        assert len({one["action_digest"] for one in reader.shown}) == 2
        assert pc.read("f.lua") == WANTED
        stale, done = facts_of(items, facts.ToolFinished)
        assert (stale.ok, stale.code, done.ok) == (False, "stale", True)


async def test_a_new_file_that_somebody_else_made_meanwhile_is_not_overwritten(server: Server, tmp_path: Path) -> None:
    """A write approved as a new file does not replace one that appeared after the approval."""
    async with _meddled(server, tmp_path, Meddler("fs_write", "f.lua", THEIRS)) as (_, pc):
        pc.boot()
        reader = Reader(pc, "f.lua")
        api = server.api()
        write = tool("cc_write", path="f.lua", content=WANTED.decode())
        items = await play(api, await api.submit(write, final(), computers=(pc.name,)), reader.decide)
        check_laws(items)
        assert reader.found == [None, THEIRS]
        assert reader.shown[0]["observed"]["state"] == {"f.lua": "absent"}
        assert pc.read("f.lua") == WANTED


async def test_a_program_changed_after_the_approval_does_not_run(server: Server, tmp_path: Path) -> None:
    """What runs is the very bytes that were approved: other bytes are shown first."""
    first = b"local log = fs.open('ran.log', 'a') log.write('first\\n') log.close()"
    second = first.replace(b"first", b"second")
    async with _meddled(server, tmp_path, Meddler("run_program", "p.lua", second)) as (_, pc):
        pc.write("p.lua", first)
        pc.boot()
        reader = Reader(pc, "ran.log")
        api = server.api()
        items = await play(
            api, await api.submit(tool("cc_run_program", path="p.lua"), final(), computers=(pc.name,)), reader.decide
        )
        check_laws(items)
        assert reader.found == [None, None], "nothing may have run when the second request is shown"
        hashes = [one["observed"]["state"]["p.lua"] for one in reader.shown]
        assert hashes == [sha256_hex(first), sha256_hex(second)]
        assert pc.read("ran.log") == b"second\n"


@pytest.mark.deep
async def test_a_program_deleted_after_the_approval_is_not_run_and_the_task_goes_on(
    server: Server, tmp_path: Path
) -> None:
    """Where there is nothing left to run, the model is told, and nothing is asked for ever."""
    async with _meddled(server, tmp_path, Meddler("run_program", "p.lua", None)) as (_, pc):
        pc.write("p.lua", MINE)
        pc.boot()
        api = server.api()
        reader = Reader(pc, "p.lua")
        task_id = await api.submit(tool("cc_run_program", path="p.lua"), final(), computers=(pc.name,))
        items = await play(api, task_id, reader.decide)
        check_laws(items)
        assert len(reader.shown) <= 2
        assert not any(end.ok for end in facts_of(items, facts.ToolFinished))


@pytest.mark.deep
async def test_a_file_to_delete_that_was_changed_stays(server: Server, tmp_path: Path) -> None:
    """A deletion is of the bytes that were approved, not of whatever stands at the path."""
    async with _meddled(server, tmp_path, Meddler("fs_delete", "f.lua", THEIRS)) as (_, pc):
        pc.write("f.lua", MINE)
        pc.boot()
        reader = Reader(pc, "f.lua")
        api = server.api()
        items = await play(
            api, await api.submit(tool("cc_delete", path="f.lua"), final(), computers=(pc.name,)), reader.decide
        )
        check_laws(items)
        assert reader.found == [MINE, THEIRS]
        assert pc.read("f.lua") is None


@pytest.mark.deep
async def test_a_stale_answer_that_was_lost_on_the_way_still_asks_anew(server: Server, tmp_path: Path) -> None:
    """The refusal of a stale write is settled as what it is, also when the line was cut before it was heard."""
    meddler = Meddler("fs_write", "f.lua", THEIRS)
    async with _meddled(server, tmp_path, meddler) as (line, pc):
        cut: list[Frame] = []

        async def before(frame: Frame) -> None:
            await meddler.before(frame)
            if frame.message.type == "result" and frame.message.call_id in meddler.held and not cut:
                cut.append(frame)
                raise LineCut

        line.before = before
        pc.write("f.lua", MINE)
        pc.boot()
        reader = Reader(pc, "f.lua")
        api = server.api()
        write = tool("cc_write", path="f.lua", content=WANTED.decode())
        items = await play(api, await api.submit(write, final(), computers=(pc.name,)), reader.decide)
        check_laws(items)
        assert cut
        assert reader.found == [MINE, THEIRS]
        assert pc.read("f.lua") == WANTED
