"""Undo where there is little room and where there is very much to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.undo.plan import MAX_CALLS, MAX_TREE_FILES
from orchestrator.core.wire.wire import MAX_WHOLE_BYTES
from tests.story.harness import Api, Computer, Server, check_laws, computer, ended, facts_of, final, play, tool, tree
from tests.story.undo_drawn import BALLAST, CAPACITY, Home

pytestmark = pytest.mark.deep

BIG = bytes(range(256)) * 1_200
ROOM = f"--capacity={CAPACITY}"


async def _worked(api: Api, pc: Computer, *script: Any) -> str:
    task_id = await api.submit(*script, final(), computers=(pc.name,))
    items = await play(api, task_id)
    check_laws(items)
    assert [one.text for one in facts_of(items, facts.ToolFinished) if not one.ok] == []
    return task_id


async def _undone(
    api: Api, task_id: str, *, before_yes: Callable[[], None] = lambda: None, **body: Any
) -> list[AgentTaskItem]:
    """An undo of which somebody approves all, each time after doing something."""

    async def decide(request: dict[str, Any]) -> str:
        assert request["reason"] == "approval"
        before_yes()
        return "approve"

    answer = await api.ok("POST", f"/v1/tasks/{task_id}/undo", body)
    items = await play(api, answer["task_id"], decide)
    check_laws(items)
    return items


# -- little room ---------------------------------------------------------------------------


async def test_what_goes_makes_room_for_what_comes(server: Server, tmp_path: Path) -> None:
    """A tree that was moved does not fit twice: the old place is filled once the new one is free."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("d/big", BIG)
        pc.write("d/small", b"1\n")
        before = tree(pc.disk)
        pc.boot(ROOM)
        task_id = await _worked(api, pc, tool("cc_move", path="d", to="e/d"))
        home = Home(pc, server.home / "workspace")
        home.fill(len(BIG) // 2)
        items = await _undone(api, task_id)
        assert ended(items).status == "Completed", ended(items)
        home.make_room()
        assert tree(pc.disk) == before


async def test_an_undo_without_room_says_what_is_left_and_is_taken_up_by_another(
    server: Server, tmp_path: Path
) -> None:
    """The disk was filled while somebody looked at the request; nothing is half done, and nothing is lost."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("big", BIG)
        pc.write("gone", b"1\n")
        before = tree(pc.disk)
        pc.boot(ROOM)
        calls = (tool("cc_write", path="big", content="small\n"), tool("cc_write", path="new/file", content="2\n"))
        task_id = await _worked(api, pc, *calls, tool("cc_delete", path="gone"))
        home = Home(pc, server.home / "workspace")
        items = await _undone(api, task_id, before_yes=lambda: home.fill(len(BIG) // 2))
        end = ended(items)
        assert (end.status, end.status_reason) == ("Failed", "not_restored")
        assert list(end.details["left"]) == [f"{pc.name}:big"]
        assert "no room" in end.details["left"][f"{pc.name}:big"]
        assert BALLAST in end.message, "the person is told what takes the room"
        assert pc.read("big") == b"small\n"
        assert (pc.read("gone"), pc.read("new/file")) == (b"1\n", None)
        home.make_room()
        assert ended(await _undone(api, task_id)).status == "Completed"
        assert tree(pc.disk) == before


# -- very much -----------------------------------------------------------------------------


async def test_a_file_as_large_as_can_be_comes_back_and_a_larger_one_is_not_taken(
    server: Server, tmp_path: Path
) -> None:
    """To the byte."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("largest", b"\xfe" * MAX_WHOLE_BYTES)
        pc.write("larger", b"\xfe" * (MAX_WHOLE_BYTES + 1))
        before = tree(pc.disk)
        pc.boot("--capacity=20000000")
        task_id = await _worked(api, pc, tool("cc_delete", path="largest"))
        refused = await api.submit(tool("cc_delete", path="larger"), final(), computers=(pc.name,))
        assert not facts_of(await play(api, refused), facts.ToolStarted), "what cannot be kept is not deleted"
        await _undone(api, task_id)
        assert tree(pc.disk) == before


@pytest.mark.timeout(900)
async def test_as_many_files_as_can_be_come_back_in_rounds_and_more_are_not_taken(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the task made has more in it than one call may take away: it goes file by file."""
    monkeypatch.setattr("tests.story.harness.HANG_S", 850.0)
    api = server.api()
    async with computer(server, tmp_path) as pc:
        for number in range(MAX_TREE_FILES):
            pc.write(f"d/{number % 7}/{number}", f"{number}\n".encode())
        for number in range(MAX_TREE_FILES + 1):
            pc.write(f"many/{number}", f"{number}\n".encode())
        before = tree(pc.disk)
        pc.boot("--capacity=8000000")
        refused = await api.submit(tool("cc_delete", path="many"), final(), computers=(pc.name,))
        assert not facts_of(await play(api, refused), facts.ToolStarted), "what cannot be kept is not deleted"
        move, write = tool("cc_move", path="d", to="e/d"), tool("cc_write", path="e/d/more", content="one more\n")
        task_id = await _worked(api, pc, move, write)
        items = await _undone(api, task_id)
        assert ended(items).status == "Completed", ended(items)
        rounds = [len(one.calls) for one in facts_of(items, facts.CallsProposed)]
        assert (len(rounds) > 1, max(rounds)) == (True, MAX_CALLS)
        assert tree(pc.disk) == before
