"""Rehearsal: a real server, a real computer, and a copy of it in a process of the server's own."""

import asyncio
from pathlib import Path
from typing import Any

from orchestrator.core import facts
from orchestrator.core.items import AgentTaskItem
from tests.story.harness import (
    WITHIN_S,
    Api,
    Computer,
    Server,
    check_laws,
    computer,
    ended,
    facts_of,
    final,
    play,
    tool,
    tree,
)

FILES = {
    "startup.lua": b"print('mine')\n",
    "lib/a.lua": b"return 1\n",
    "lib/latin.txt": b"gr\xfcn\r\n",
    "old/gone.txt": b"away with it\n",
    "make.lua": b"local f = fs.open('made/by/program.txt', 'w') f.write('made') f.close() print(os.getComputerID())\n",
}
WORK = (
    tool("cc_write", path="startup.lua", content="print('theirs')\n"),
    tool("cc_edit", path="lib/latin.txt", old="gr\xfcn", new="rot"),
    tool("cc_move", path="lib/a.lua", to="lib/b.lua"),
    tool("cc_delete", path="old"),
    tool("cc_run_program", path="make.lua"),
    tool("cc_read", path="made/by/program.txt"),
    final(),
)


def filled(pc: Computer, files: dict[str, bytes] | None = None) -> dict[str, bytes | None]:
    """The computer with its files."""
    for path, content in (FILES if files is None else files).items():
        pc.write(path, content)
    return tree(pc.disk)


async def there(api: Api, pc: Computer) -> None:
    """Wait until the computer is connected: what is away cannot be copied."""
    async with asyncio.timeout(WITHIN_S):
        while not (await api.ok("GET", f"/v1/computers/{pc.name}"))["online"]:
            await asyncio.sleep(0.02)


async def rehearsed(api: Api, pc: Computer, *script: Any, **more: Any) -> tuple[list[AgentTaskItem], dict[str, Any]]:
    """A rehearsal seen to its end, nobody being asked anything; its items, and what it came to."""
    task_id = await api.submit(*script, computers=(pc.name,), rehearse=True, **more)
    items = await play(api, task_id, _nobody)
    return items, await came_to(api, task_id)


async def _nobody(request: dict[str, Any]) -> str:
    raise AssertionError(f"a rehearsal asks nothing: {request}")


async def came_to(api: Api, task_id: str) -> dict[str, Any]:
    """What a rehearsal came to, once its copy was looked at."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            shown: dict[str, Any] = await api.ok("GET", f"/v1/tasks/{task_id}/rehearsal")
            if shown["state"] not in ("going_on", "ending"):
                return shown
            await asyncio.sleep(0.02)


async def test_all_of_it_is_asked_for_once_and_then_done(server: Server, tmp_path: Path) -> None:
    """Writes, edits, moves, deletes and what a program wrote: nothing on the real computer before the one yes."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        before = filled(pc)
        pc.boot("--id=7", "--label=digger")
        await there(api, pc)
        items, shown = await rehearsed(api, pc, *WORK)
        check_laws(items)
        assert ended(items).status == "Completed"
        assert tree(pc.disk) == before
        results = [one.text for one in facts_of(items, facts.ToolFinished)]
        assert "7" in results[4], "the copy has the computer's id"
        assert "made" in results[5], "the copy goes on from what it did"
        verdicts = [one for proposed in facts_of(items, facts.CallsProposed) for one in proposed.evaluations]
        assert [one.effect for one in verdicts] == ["allow"] * 6
        assert ["rehearsal" in one.matched_rules for one in verdicts] == [True] * 5 + [False]
        assert shown["state"] == "asked"
        places = {one["path"]: one["diff"] for one in shown["changes"]}
        assert set(places) == {
            *("startup.lua", "lib/a.lua", "lib/b.lua", "lib/latin.txt", "old", "old/gone.txt"),
            *("made", "made/by", "made/by/program.txt"),
        }
        assert "+print('theirs')" in places["startup.lua"]
        seen: list[dict[str, Any]] = []

        async def approve_it(request: dict[str, Any]) -> str:
            assert tree(pc.disk) == before
            seen.append(request)
            return "approve"

        applied = await play(api, shown["applied_by"], approve_it)
        check_laws(applied)
        assert (len(seen), ended(applied).status) == (1, "Completed")
        assert tree(pc.disk) == {
            **{path: content for path, content in before.items() if path not in ("lib/a.lua", "old", "old/gone.txt")},
            **{"startup.lua": b"print('theirs')\n", "lib/latin.txt": b"rot\r\n", "lib/b.lua": b"return 1\n"},
            **{"made": None, "made/by": None, "made/by/program.txt": b"made"},
        }
        undo = await api.ok("POST", f"/v1/tasks/{shown['applied_by']}/undo", {})
        await play(api, undo["task_id"])
        assert tree(pc.disk) == before
        assert not list((server.home / "rehearsals").iterdir())
