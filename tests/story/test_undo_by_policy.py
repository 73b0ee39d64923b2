"""A policy that wants what failed tasks changed back: begun once, by nobody, wherever the server dies."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.exceptions import WebSocketException

from orchestrator.core.policy.load import DEFAULT_POLICY_TOML
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.wire.review import REVIEWER_SUBPROTOCOL_1_1
from tests.harness.commands import cli
from tests.harness.processes import ALL_WRITES, Kill
from tests.story.harness import (
    Api,
    Computer,
    Server,
    approve,
    check_laws,
    computer,
    decoded,
    each,
    ended,
    final,
    last_words,
    play,
    tool,
    tree,
)
from tests.waiting import HANG_S

pytestmark = pytest.mark.deep

AUTO = DEFAULT_POLICY_TOML.replace('unknown_tool = "deny"\n', 'unknown_tool = "deny"\nundo = "auto"\n')
UNASKED = """
[[rules]]
id = "undoing"
effect = "allow"
tools = ["cc_restore", "local_restore"]
"""
UNASKED_AT_ALL = """
undo = "auto"
[[rules]]
id = "all"
effect = "allow"
tools = ["*"]
"""
WRITE = tool("cc_write", path="farm.lua", content="print('theirs')\n")
MORE = tool("cc_write", path="more.lua", content="return 2\n")
FAILS = (WRITE, final(success=False))
CANCELED = (WRITE, MORE, final())
SECOND_STARTS = 12
"""The transaction of the journal with which the second write of CANCELED starts."""
ENDS = {False: 9, True: 11}
"""The one that ends FAILS, and CANCELED by a cancel that comes while the second write waits."""


def under(policy: str, home: Path) -> Server:
    """A server under a policy, not yet started."""
    home.mkdir(parents=True)
    (home / "policy.toml").write_text(policy, "utf-8")
    return Server(home)


@contextlib.asynccontextmanager
async def served(home: Path, policy: str = AUTO) -> AsyncIterator[Server]:
    """The same, gone at the end."""
    server = under(policy, home)
    try:
        yield server
    finally:
        await server.close()
        server.kill()


async def the_undo(api: Api, task_id: str) -> str:
    """The one undo of a task, as soon as a reviewer is told of it."""
    async with asyncio.timeout(HANG_S), api.reviewer(REVIEWER_SUBPROTOCOL_1_1) as socket:
        assert decoded(await socket.recv())["type"] == "snapshot", "from here on each change is told"
        found = (await api.task(task_id))["undo"]["tasks"]
        while not found:
            told = decoded(await socket.recv())
            if told["type"] == "task_over" and told["task_id"] == task_id:
                found = told["undo"]["tasks"]
    assert len(found) == 1
    return str(found[0])


def left(task: dict[str, Any]) -> dict[str, Any]:
    """What a task left, and which tasks take it back."""
    return {name: task["undo"][name] for name in ("changes", "automatic", "tasks")}


def begun(items: list[AgentTaskItem]) -> list[tuple[str, str]]:
    """Who began the undos of a task, and which they are."""
    return [(item.actor.kind, item.fact.undo_task_id) for item in items if isinstance(item.fact, facts.UndoSubmitted)]


async def check(api: Api, pc: Computer, task_id: str, before: dict[str, Any]) -> None:
    """The task was undone once, by the system, and says so."""
    undo = await the_undo(api, task_id)
    items = await play(api, undo)
    check_laws(items)
    assert (ended(items).status, items[0].actor.kind) == ("Completed", "system")
    assert tree(pc.disk) == before
    assert begun(await api.journal(task_id)) == [("system", undo)]
    tasks = (await api.ok("GET", "/v1/tasks"))["tasks"]
    assert {one["task_id"] for one in tasks} == {task_id, undo}
    shown = await api.task(undo)
    assert (shown["user_id"], shown["undoes"]) == ("admin", task_id)


async def lived(server: Server, pc: Computer, *, cancels: bool) -> str:
    """The task, as far as the server lives to play it; its id."""
    task_id = ""
    with contextlib.suppress(httpx2.TransportError, OSError, WebSocketException):
        api = server.api()
        task_id = await api.submit(*(CANCELED if cancels else FAILS), computers=(pc.name,))
        await _worked(api, task_id, cancels=cancels)
        await api.first(await the_undo(api, task_id), "review_requested")
    return task_id


async def _worked(api: Api, task_id: str, *, cancels: bool) -> None:
    if not cancels:
        await play(api, task_id)
        return
    request = (await api.first(task_id, "review_requested")).request_id
    await api.resume(request, "approve")
    await api.first(task_id, "review_requested", 2)
    await api.ok("POST", f"/v1/tasks/{task_id}/cancel", {})


async def _killed(tmp: Path, kill: Kill, *, cancels: bool) -> None:
    async with served(tmp / "home") as server:
        await asyncio.to_thread(server.start)
        async with computer(server, tmp) as pc:
            pc.write("farm.lua", b"print('mine')\n")
            before = tree(pc.disk)
            await server.close()
            server.kill()
            await asyncio.to_thread(server.start, kill)
            pc.boot()
            task_id = await lived(server, pc, cancels=cancels)
            # Where the operation at which it dies was refused as a conflict, it lives until here.
            server.kill()
            await server.close()
            await asyncio.to_thread(server.start)
            await check(server.api(), pc, task_id, before)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("cancels", [False, True], ids=["failed", "canceled"])
async def test_a_server_killed_around_the_end_begins_the_undo_once(tmp_path: Path, *, cancels: bool) -> None:
    """At the end, the submission, the note of it, and the first steps of the undo: neither lost nor begun twice.

    Before or after each of them, for the one end the one and for the other the other; in depth at every write.
    """
    at = ENDS[cancels]
    sides = ("before", "after")
    kills = [Kill(at, "after"), *(Kill(at + more, sides[(more + cancels) % 2]) for more in (1, 2, 3))]
    names = {f"{kill.at}-{kill.side}": kill for kill in kills}
    cases = {name: _killed(tmp_path / name, kill, cancels=cancels) for name, kill in names.items()}
    await each(cases, lambda name: last_words(tmp_path / name / "home" / "server.log"))


async def _killed_anywhere(tmp: Path, kill: Kill) -> None:
    """Nobody is asked here, so that two lives of the server play it all."""
    async with served(tmp / "home", UNASKED_AT_ALL) as server:
        await asyncio.to_thread(server.start)
        async with computer(server, tmp) as pc:
            pc.write("farm.lua", b"print('mine')\n")
            before = tree(pc.disk)
            await server.close()
            server.kill()
            await asyncio.to_thread(server.start, kill)
            pc.boot()
            with contextlib.suppress(httpx2.TransportError, OSError, WebSocketException):
                api = server.api()
                task_id = await api.submit(*FAILS, computers=(pc.name,))
                await api.journal(task_id)
                await api.journal(await the_undo(api, task_id))
            server.kill()
            await server.close()
            await asyncio.to_thread(server.start)
            tasks = (await server.api().ok("GET", "/v1/tasks"))["tasks"]
            if tasks:
                task_id = tasks[-1]["task_id"]
                check_laws(await server.api().journal(task_id))
                await check(server.api(), pc, task_id, before)


@pytest.mark.parametrize("side", ["before", "after"])
async def test_a_server_killed_at_any_write_begins_the_undo_once(tmp_path: Path, side: str) -> None:
    """The same at every write to the store, from the submission of the task to the end of its undo."""
    cases = {f"{at:02}": _killed_anywhere(tmp_path / f"{at:02}", Kill(at, side, ALL_WRITES)) for at in range(1, 41)}
    await each(cases, lambda name: last_words(tmp_path / name / "home" / "server.log"))


async def test_a_call_that_is_open_at_the_end_is_settled_first(tmp_path: Path) -> None:
    """The server and the computer die in a write and the task is canceled: the undo waits for the computer."""
    async with served(tmp_path / "home") as server:
        server.start()
        async with computer(server, tmp_path) as pc:
            pc.write("farm.lua", b"print('mine')\n")
            before = tree(pc.disk)
            await server.close()
            server.kill()
            # The second write.
            server.start(Kill(SECOND_STARTS, "after"))
            pc.boot()
            task_id = ""
            with contextlib.suppress(httpx2.TransportError):
                task_id = await server.api().submit(*CANCELED, computers=(pc.name,))
                await play(server.api(), task_id)
            pc.kill()
            await server.close()
            server.start()
            api = server.api()
            await api.ok("POST", f"/v1/tasks/{task_id}/cancel", {})
            waiting = left(await api.task(task_id))
            assert waiting == {"changes": 1, "automatic": True, "tasks": []}
            pc.boot()
            await check(api, pc, task_id, before)


async def test_nothing_changed_and_what_ended_well_are_not_undone(tmp_path: Path) -> None:
    """Nor is an undo that failed, nor what an earlier policy left; each has its own word on it."""
    async with served(tmp_path / "home", AUTO + UNASKED) as server:
        server.start()
        api = server.api()
        async with computer(server, tmp_path) as pc:
            pc.write("farm.lua", b"print('mine')\n")
            before = tree(pc.disk)
            pc.boot()
            looked = await api.submit(tool("cc_read", path="farm.lua"), final(success=False), computers=(pc.name,))
            await play(api, looked)
            well = await api.submit(MORE, final(), computers=(pc.name,))
            await play(api, well)
            failed = await api.submit(*FAILS, computers=(pc.name,))
            await play(api, failed)
            undo = await the_undo(api, failed)
            items = await play(api, undo, _nobody)
            assert ended(items).status == "Completed", "a rule that allows it asks nobody"
            assert pc.read("farm.lua") == before["farm.lua"]
            nothing = {"changes": 0, "automatic": True, "tasks": []}
            assert left(await api.task(looked)) == nothing
            assert left(await api.task(well)) == {"changes": 1, "automatic": False, "tasks": []}
            assert left(await api.task(undo)) == {"changes": 1, "automatic": False, "tasks": []}
            assert len((await api.ok("GET", "/v1/tasks"))["tasks"]) == 4


async def _nobody(request: dict[str, Any]) -> str:
    raise AssertionError(f"somebody was asked: {request}")


async def test_an_undo_that_fails_stays_as_it_is(tmp_path: Path) -> None:
    """Rejected by a person, it is not taken back by itself, and another one can be begun by hand."""
    async with served(tmp_path / "home") as server:
        server.start()
        api = server.api()
        async with computer(server, tmp_path) as pc:
            pc.boot()
            task_id = await api.submit(*FAILS, computers=(pc.name,))
            await play(api, task_id)
            undo = await the_undo(api, task_id)
            items = await play(api, undo, _reject)
            assert (ended(items).status, ended(items).undo) == ("Canceled", "auto")
            assert pc.read("farm.lua") == b"print('theirs')\n"
            by_hand = (await api.ok("POST", f"/v1/tasks/{task_id}/undo", {}))["task_id"]
            check_laws(await play(api, by_hand, approve))
            assert pc.read("farm.lua") is None
            assert left(await api.task(task_id)) == {"changes": 1, "automatic": True, "tasks": [undo, by_hand]}
            assert (await api.task(undo))["undo"]["tasks"] == []
            assert begun(await api.journal(task_id)) == [("system", undo), ("person", by_hand)]


async def _reject(request: dict[str, Any]) -> dict[str, Any]:
    assert request["requester"] == "admin"
    return {"action": "reject", "on_reject": "cancel"}


async def test_the_undo_of_a_program_s_task_is_the_program_s(tmp_path: Path) -> None:
    """Those decide who decide for programs, and no submitter."""
    async with served(tmp_path / "home") as server:
        server.start()
        api = server.api()
        token = (await api.ok("POST", "/v1/tokens", {"kind": "agent", "name": "ci", "roles": ["submitter"]}))["token"]
        submitter = await server.person("sue", "submitter")
        async with computer(server, tmp_path) as pc:
            pc.boot()
            task_id = await server.api(token).submit(*FAILS, computers=(pc.name,))
            await play(api, task_id)
            undo = await the_undo(api, task_id)
            request = (await api.first(undo, "review_requested")).request_id
            await submitter.refused(404, "POST", f"/v1/approve/{request}", {})
            items = await play(api, undo)
            assert (items[0].fact.kind, (await api.task(undo))["user_id"]) == ("task_submitted", "ci")
            assert ended(items).status == "Completed"


async def test_the_command_line_names_the_undo_that_begins_by_itself(tmp_path: Path) -> None:
    """As soon as it is begun; before, that it will be."""
    async with served(tmp_path / "home") as server:
        server.start()
        api = server.api()
        where = ["--url", server.url, "--data-dir", str(server.home)]
        async with computer(server, tmp_path) as pc:
            pc.boot()
            task_id = await api.submit(*FAILS, computers=(pc.name,))
            await play(api, task_id)
            watched = await asyncio.to_thread(cli, tmp_path, "tasks", "watch", task_id, *where)
            first, second = watched.stderr.splitlines()
            undo = await the_undo(api, task_id)
            assert first == f"It had changed {pc.name}:farm.lua."
            assert second.startswith(f"  being taken back by {undo} (")
            policy = str(server.home / "policy.toml")
            checked = await asyncio.to_thread(cli, tmp_path, "policy", "check", policy)
            assert "changes of failed tasks are put back by themselves" in checked.stdout
            shown = await asyncio.to_thread(cli, tmp_path, "policy", "show", *where)
            assert "undo     auto" in shown.stdout.splitlines()


def test_the_policies_of_these_stories() -> None:
    """The line is where TOML has it count for the whole file."""
    assert 'undo = "auto"' in AUTO.partition("[[rules]]")[0]
