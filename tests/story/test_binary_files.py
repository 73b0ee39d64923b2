"""Files that are no text, from the disk of a computer to the eyes of who approves, and programs dressed up as such."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.wire.wire import sha256_hex
from orchestrator.terminal.cli.tasks import lines_of
from tests.harness.commands import on_a_terminal
from tests.story.harness import Api, Server, check_laws, computer, ended, final, play, tool
from tests.story.test_backups import back_up, booted
from tests.story.test_rehearsal import rehearsed

BIG, SMALL = random.Random(7).randbytes(300_000), b"\xff\0\1\2\3\4\5\6\7\x0e\x0f\x10"
BIG_TOLD = f"binary, 300,000 bytes, sha256 {sha256_hex(BIG)}"
SMALL_TOLD = f"binary, 12 bytes, sha256 {sha256_hex(SMALL)}"
MOST_CHARS = 20_000
"""Of a journal and of a terminal: what is left when nothing of the file stands there."""


@pytest.mark.deep
async def test_a_large_binary_file_is_put_back_and_undone_with_little_said(server: Server, tmp_path: Path) -> None:
    """The person at the terminal reads one line of it, may approve it at once, and the journal stays small."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("data/big.bin", BIG)
        await booted(api, pc)
        await back_up(api, pc.name)
        pc.write("data/big.bin", SMALL)

        def restore() -> str:
            where = ("--url", server.url, "--data-dir", str(server.home))
            with on_a_terminal(tmp_path, "restore", pc.name, *where) as terminal:
                terminal.expect(f"note: {SMALL_TOLD} -> {BIG_TOLD}.")
                terminal.expect("[h]elp > ")
                terminal.type("a\n")
                assert terminal.end() == 0, terminal.text
            return terminal.text

        text = await asyncio.to_thread(restore)
        assert len(text) < MOST_CHARS
        assert "CUT" not in text
        assert "Planned by the orchestrator for admin: Files go back to how they were: 1 put back." in text
        assert "written by the model" not in text
        assert pc.read("data/big.bin") == BIG
        tasks = (await api.ok("GET", "/v1/tasks"))["tasks"]
        (restored,) = (one for one in tasks if one["computers"] == [pc.name])
        assert len(await _journal(api, restored["task_id"])) < MOST_CHARS

        async def approve_as_listed(request: dict[str, Any]) -> dict[str, Any]:
            """The reviewer who has seen no more than the list shows."""
            listed = (await api.ok("GET", "/v1/requests"))["requests"]
            (mine,) = [one for one in listed if one["request_id"] == request["request_id"]]
            (call,) = mine["tool_calls"]
            assert (call["truncated"], call["observed"]["diff"]) == (False, None)
            assert mine["explanation"].startswith("Planned by the orchestrator for admin: ")
            assert call["observed"]["note"] == f"{BIG_TOLD} -> {SMALL_TOLD}."
            return {"action": "approve", "expected_digest": mine["action_digest"]}

        undo = (await api.ok("POST", f"/v1/tasks/{restored['task_id']}/undo", {}))["task_id"]
        items = await play(api, undo, approve_as_listed)
        check_laws(items)
        assert ended(items).status == "Completed"
        assert pc.read("data/big.bin") == SMALL
        assert len(await _journal(api, undo)) < MOST_CHARS


async def _journal(api: Api, task_id: str) -> str:
    """All items of a task that is over, as they are kept."""
    return "".join([item.model_dump_json() for item in await api.journal(task_id)])


@pytest.mark.deep
async def test_a_rehearsal_tells_what_is_binary_in_one_line(server: Server, tmp_path: Path) -> None:
    """What a program wrote in the copy: its size and its whole hash, and not a byte of it."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("noise.bin", SMALL)
        pc.write(
            "make.lua", b"local f = fs.open('noise.bin', 'wb') for i = 1, 5000 do f.write(i * 7 % 256) end f.close()\n"
        )
        await booted(api, pc)
        _, shown = await rehearsed(api, pc, tool("cc_run_program", path="make.lua"), final())
        noise = bytes(number * 7 % 256 for number in range(1, 5001))
        told = f"{SMALL_TOLD} -> binary, 5,000 bytes, sha256 {sha256_hex(noise)}"
        (one,) = shown["changes"]
        assert (one["diff"], one["binary"]) == (None, told)
        assert f"  {told}" in lines_of(shown, diffs=True)
        await play(api, shown["applied_by"])
        assert pc.read("noise.bin") == noise


@pytest.mark.deep
async def test_no_bytes_hide_a_program_that_a_rehearsal_made(server: Server, tmp_path: Path) -> None:
    """What the model wrote in the copy unseen is asked for as text: under a program's name, and as data that is Lua."""
    api = server.api()
    evil = "shell.run('delete', '*')"
    content = f"-- {chr(0) * 300}\n{evil}\n{chr(1) * 300}"
    async with computer(server, tmp_path) as pc:
        await booted(api, pc)
        script = (
            tool("cc_write", path="startup.lua", content=content),
            tool("cc_write", path="data/farm.bin", content=content),
            final(),
        )
        _, shown = await rehearsed(api, pc, *script)
        files = {one["path"]: one for one in shown["changes"] if one["path"] != "data"}
        assert set(files) == {"startup.lua", "data/farm.bin"}
        for one in files.values():
            assert evil in one["diff"]
            assert one["binary"] == ""
        asked: list[str] = []

        async def look(request: dict[str, Any]) -> str:
            for call in request["tool_calls"]:
                if call["args"]["to"] != "directory":
                    asked.append(call["args"]["path"])
                    assert evil in call["observed"]["diff"]
            return "reject"

        await play(api, shown["applied_by"], look)
        assert sorted(asked) == ["data/farm.bin", "startup.lua"]
