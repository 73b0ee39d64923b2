"""Live output: what a program prints on a computer is seen while it runs, by people and by scripts."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.harness.commands import CLI, environment
from tests.story.harness import Server, computer, ended, final, play, tool
from tests.story.test_backups import booted
from tests.waiting import HANG_S

SLOW = b"for i = 1, 4 do print('line ' .. i) sleep(0.6) end\n"
"""Hints of output come each 0.5 s at most."""


def follower(server: Server, home: Path, *arguments: str) -> "subprocess.Popen[str]":
    """A command on pipes that follows."""
    token = (server.home / "admin.token").read_text("utf-8").strip()
    where = {"CC_ORCHESTRATOR_URL": server.url, "CC_ORCHESTRATOR_TOKEN": token}
    pipe = subprocess.PIPE
    return forked.start(
        [*CLI, *arguments],
        environment(home, **where),
        cwd=home,
        stdout=pipe,
        stderr=pipe,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def kind_of(line: dict[str, Any]) -> str:
    """What a line of JSON is."""
    return str(line.get("hint") or line["fact"]["kind"])


@pytest.mark.deep
async def test_what_a_program_prints_is_seen_while_it_runs(server: Server, tmp_path: Path) -> None:
    """The first lines come before the program has ended, as lines for people and as hints for scripts, and once."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("slow.lua", SLOW)
        await booted(api, pc)
        task_id = await api.submit(tool("cc_run_program", path="slow.lua"), final(), computers=(pc.name,))
        followers = [follower(server, tmp_path, "tasks", "watch", task_id, *more) for more in ([], ["--json"])]
        request = await api.first(task_id, "review_requested")
        # Both stand: they have shown the request before it is decided.
        waits = ("[REVIEW]", '"review_requested"')
        shown = await asyncio.gather(*(asyncio.to_thread(_until, *one) for one in zip(followers, waits, strict=True)))
        assert request.reason == "approval"
        items = await play(api, task_id)
        ends = await asyncio.gather(*(asyncio.to_thread(one.communicate, None, HANG_S) for one in followers))
    assert ended(items).status == "Completed"
    for_people, for_scripts = (begun + end[0] for begun, end in zip(shown, ends, strict=True))
    text = for_people.splitlines()
    printed = [text.index(f"    line {number}") for number in range(1, 5)]
    assert printed == sorted(printed)
    assert text.index(f"[OUTPUT] cc_run_program on {pc.name}") < printed[0]
    (result,) = [at for at, line in enumerate(text) if line.startswith("[TOOL_RESULT]")]
    assert printed[-1] < result
    assert text[result].endswith("Its output is above.")
    assert for_people.count("line 1\n") == 1
    lines = [json.loads(line) for line in for_scripts.splitlines()]
    kinds = [kind_of(line) for line in lines]
    hints = [line for line in lines if line.get("hint") == "output"]
    assert len(hints) >= 2, "all of it came at once"
    assert kinds.index("decision_recorded") < kinds.index("output") < kinds.index("tool_finished")
    assert "".join(line["text"] for line in hints).startswith("line 1\n")
    assert [line["version"] for line in lines if "fact" in line] == list(range(1, len(items) + 1))


def _until(process: "subprocess.Popen[str]", wanted: str) -> str:
    """The output up to the line that has this."""
    assert process.stdout is not None
    seen = ""
    while wanted not in seen:
        line = process.stdout.readline()
        assert line, f"it ended without {wanted!r}:\n{seen}"
        seen += line
    return seen
