"""kill -9 of the server at the boundaries of an undo, and of the task that is undone afterwards."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from tests.harness.processes import ALL_WRITES, Kill
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
    tools,
    tree,
)
from tests.story.test_server_kills import Reviewer

pytestmark = pytest.mark.deep

FILES = {
    "a.lua": b"return 1\n",
    "b.txt": b"gr\xfcn\r\n",
    "lib/c": b"\0\xff",
    "lib/empty": b"",
    "kind": b"a file where the task makes a directory\n",
    "gone/deep/d": b"4\n",
}
NOTES = b"from before\n"
WORK = (
    tools(
        tool("cc_write", path="a.lua", content="return 2\n"),
        tool("cc_edit", path="b.txt", old="gr\xfcn", new="rot"),
        tool("cc_write", path="new/dir/e.lua", content="return 3\n"),
        tool("cc_move", path="lib", to="moved/lib"),
    ),
    tools(
        tool("cc_delete", path="gone"),
        tool("cc_delete", path="kind"),
        tool("cc_mkdir", path="kind/of"),
        tool("local_write", path="notes.txt", content="by the task\n"),
    ),
    tool("local_write", path="new.txt", content="by the task\n"),
    tool("local_patch", path="new.txt", patch="--- a/new.txt\n+++ b/new.txt\n@@ -1 +1 @@\n-by the task\n+twice\n"),
    final(success=False),
)
MINE = {"a.lua": b"my own\n", "b.txt": b"mine too\n", "moved/mine": b"and this\n"}
APPENDS = 36
"""Transactions of the undo's journal: submitted, and twice proposed, asked and decided; two for each of its calls."""
TASK_APPENDS = 3 + 3 * 4 + 2 * 10
"""Transactions of the task's journal."""


@dataclass
class Stage:
    """A server that can be killed at a moment, its computer and its workspace."""

    server: Server
    pc: Computer
    kill: Path

    @property
    def workspace(self) -> dict[str, bytes | None]:
        """Its files."""
        return {name: data for name, data in tree(self.server.home / "workspace").items() if data is not None}

    def all(self) -> tuple[dict[str, bytes | None], dict[str, bytes | None]]:
        """Every byte of the computer and of the workspace."""
        return tree(self.pc.disk), self.workspace

    def must_be_old_or_new(self, *states: tuple[dict[str, bytes | None], dict[str, bytes | None]]) -> None:
        """Each file holds what it holds in one of the states: never a third thing."""
        for at, found in enumerate(self.all()):
            for path, data in found.items():
                known = [state[at][path] for state in states if path in state[at]]
                assert data in known, f"{path} holds {data!r}, and not one of {known}"


@contextlib.asynccontextmanager
async def staged(tmp: Path, at: int, side: str, operations: tuple[str, ...]) -> AsyncIterator[Stage]:
    """A server that dies at the so-manyth of these operations from when it is armed, with a computer that is filled."""
    armed = tmp / "armed"
    server = Server(tmp / "home")
    await asyncio.to_thread(server.start, Kill(at, side, operations, armed))
    try:
        async with computer(server, tmp) as pc:
            for path, data in FILES.items():
                pc.write(path, data)
            (server.home / "workspace" / "notes.txt").write_bytes(NOTES)
            pc.boot()
            yield Stage(server, pc, armed)
    finally:
        await server.close()
        server.kill()


async def _through_the_kill(server: Server, begin: Any, called: str = "") -> tuple[str, list[AgentTaskItem]]:
    """Begin a task on a server that dies somewhere in it, start the next one, and see it to its end there.

    ``called``: how its prompt begins, where there are others.
    """
    assert server.process is not None
    reviewer = Reviewer()
    reviewing = asyncio.create_task(reviewer.work(server.api()))
    task_id, api = "", server.api()
    with contextlib.suppress(httpx2.TransportError):
        task_id = await begin(api)
    watching = asyncio.create_task(_to_its_end(api, task_id))
    dying = asyncio.create_task(server.process.gone())
    await asyncio.wait((watching, dying), return_when=asyncio.FIRST_COMPLETED)
    server.kill()
    await asyncio.gather(watching, dying, reviewing, return_exceptions=True)
    await server.close()
    await asyncio.to_thread(server.start)
    reviewing = asyncio.create_task(reviewer.work(server.api()))
    try:
        # It may have been taken on without anybody being told so.
        task_id = task_id or await _newest(server.api(), called) or await begin(server.api())
        return task_id, await server.api().journal(task_id)
    finally:
        reviewing.cancel()
        await asyncio.gather(reviewing, return_exceptions=True)


async def _to_its_end(api: Api, task_id: str) -> None:
    with contextlib.suppress(httpx2.TransportError):
        if task_id:
            await api.journal(task_id)


async def _newest(api: Api, called: str) -> str:
    """A task that goes on, or that has ended, and that nobody knows of; empty: there is none."""
    rows = (await api.ok("GET", "/v1/tasks"))["tasks"]
    return next((str(row["task_id"]) for row in rows if row["prompt"].startswith(called)), "")


# -- the undo ------------------------------------------------------------------------------


async def _undo_is_killed(tmp: Path, at: int, side: str, operations: tuple[str, ...]) -> None:
    async with staged(tmp, at, side, operations) as stage:
        server, pc = stage.server, stage.pc
        before = stage.all()
        task_id = await server.api().submit(*WORK, computers=(pc.name,))
        await play(server.api(), task_id)
        for path, data in MINE.items():
            pc.write(path, data)
        after = stage.all()
        body = {"choices": {f"{pc.name}:a.lua": "restore", f"{pc.name}:b.txt": "beside"}}
        aside: dict[str, bytes | None] = {f"b.txt.before-{task_id}": FILES["b.txt"]}

        async def begin(api: Api) -> str:
            return str((await api.ok("POST", f"/v1/tasks/{task_id}/undo", body))["task_id"])

        stage.kill.touch()
        undo_id, items = await _through_the_kill(server, begin, "Undo ")
        stage.must_be_old_or_new(before, after, (aside, {}))
        check_laws(items)
        assert ended(items).status == "Completed", ended(items)
        kept = {path: data for path, data in MINE.items() if path != "a.lua"}
        assert tree(pc.disk) == before[0] | kept | aside | {"moved": None}
        assert stage.workspace == before[1]
        # What is on the host is not held up by a computer that is still dialing, and is then asked for alone.
        assert len(facts_of(items, facts.ReviewRequested)) <= 3, "asked again without a reason"
        await _undone(server.api(), undo_id)
        assert stage.all() == after, "the undo of the undo brings back what was there before it"


async def _undone(api: Api, task_id: str) -> None:
    answer = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {})
    items = await play(api, answer["task_id"])
    check_laws(items)
    assert ended(items).status == "Completed", ended(items)


async def _each_kill(tmp: Path, kills: list[tuple[int, str]], operations: tuple[str, ...]) -> None:
    def log(name: str) -> str:
        return last_words(tmp / name / "home" / "server.log")

    cases = {f"{side}-{at:02}": _undo_is_killed(tmp / f"{side}-{at:02}", at, side, operations) for at, side in kills}
    await each(cases, log)


async def test_an_undo_goes_on_after_its_server_was_killed(tmp_path: Path) -> None:
    """At some boundaries of it, conflicts that are restored and put beside among them."""
    kills = [(at, ("before", "after")[at % 2]) for at in range(2, APPENDS + 1, 43)]
    await _each_kill(tmp_path, kills, ("create", "append"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("side", ["before", "after"])
async def test_an_undo_goes_on_after_its_server_was_killed_anywhere(tmp_path: Path, side: str) -> None:
    """At every write to the store: leases, claims, numbers and parking are boundaries too."""
    await _each_kill(tmp_path, [(at, side) for at in range(1, 81)], ALL_WRITES)


# -- the task ------------------------------------------------------------------------------


async def _task_is_killed(tmp: Path, at: int, side: str, *, canceled: bool) -> None:
    """The server dies while the task changes things; then it ends, or is canceled at once, and is undone."""
    async with staged(tmp, at, side, ("create", "append")) as stage:
        server, pc = stage.server, stage.pc
        before = stage.all()
        stage.kill.touch()

        async def begin(api: Api) -> str:
            return await api.submit(*WORK, computers=(pc.name,))

        if canceled:
            task_id = await _canceled_after_the_kill(server, begin)
        else:
            task_id, items = await _through_the_kill(server, begin)
            check_laws(items)
        if task_id and (await server.api().ok("POST", f"/v1/tasks/{task_id}/undo", {"dry_run": True}))["places"]:
            await _undone(server.api(), task_id)
        assert stage.all() == before


async def _canceled_after_the_kill(server: Server, begin: Any) -> str:
    assert server.process is not None
    reviewing = asyncio.create_task(Reviewer().work(server.api()))
    task_id = ""
    with contextlib.suppress(httpx2.TransportError):
        task_id = await begin(server.api())
    await server.process.gone()
    await asyncio.gather(reviewing, return_exceptions=True)
    await server.close()
    await asyncio.to_thread(server.start)
    if task_id:
        await server.api().call("POST", f"/v1/tasks/{task_id}/cancel", {})
        check_laws(await server.api().journal(task_id))
    return task_id


async def _each_task(tmp: Path, cases: list[tuple[int, str, bool]]) -> None:
    def log(name: str) -> str:
        return last_words(tmp / name / "home" / "server.log")

    names = {f"{side}-{at:02}{'-canceled' * canceled}": (at, side, canceled) for at, side, canceled in cases}
    await each(
        {name: _task_is_killed(tmp / name, at, side, canceled=off) for name, (at, side, off) in names.items()}, log
    )


async def test_a_task_whose_server_was_killed_is_taken_back(tmp_path: Path) -> None:
    """In the middle of a change, among others; it went on or was canceled."""
    await _each_task(tmp_path, [(at, ("before", "after")[at % 2], at % 3 == 0) for at in range(6, TASK_APPENDS, 25)])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("canceled", [False, True], ids=["goes-on", "canceled"])
async def test_a_task_whose_server_was_killed_anywhere_is_taken_back(tmp_path: Path, *, canceled: bool) -> None:
    """At every boundary of it."""
    sides = ("before", "after")
    await _each_task(tmp_path, [(at, side, canceled) for at in range(1, TASK_APPENDS) for side in sides])
