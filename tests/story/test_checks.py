"""What a user wants to hold at the end: approved with the first request, made by the server, told to the model."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from tests.harness.commands import cli
from tests.harness.processes import Kill
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
    play,
    tool,
)
from tests.waiting import HANG_S

GOOD = "print('42 wheat')\n"
BAD = "error('no seeds')\n"
LOGS = "local log = fs.open('ran.log', 'a') log.write('ran\\n') log.close()\n"


def held(items: list[AgentTaskItem]) -> list[dict[str, bool | None]]:
    """What came of the checks, each time they were judged."""
    return [{one.check: one.holds for one in fact.results} for fact in facts_of(items, facts.ChecksJudged)]


async def told(api: Api, task_id: str) -> list[dict[str, Any]]:
    """The checks as the endpoint shows them."""
    checks: list[dict[str, Any]] = (await api.task(task_id))["checks"]
    return checks


async def in_order(api: Api, items: list[AgentTaskItem]) -> None:
    """The laws hold, and the audit finds nothing that ran without an approval."""
    check_laws(items)
    found = await api.ok("GET", "/v1/audit/check", task=items[0].task_id)
    assert [one for one in found["findings"] if one["level"] == "violation"] == []


async def test_a_check_is_approved_with_the_first_request_and_run_until_it_holds(
    server: Server, tmp_path: Path
) -> None:
    """The model claims success too early, is told what failed with its output, and mends it: one question a change."""
    asked: list[dict[str, Any]] = []

    async def yes(request: dict[str, Any]) -> str:
        asked.append(request)
        return "approve"

    async with computer(server, tmp_path) as pc:
        pc.write("belt.cfg", b"speed = 4\n")
        pc.boot()
        api = server.api()
        checks = ["runs farm.lua", "prints 42 wheat", "file farm.lua contains wheat", "unchanged belt.cfg"]
        task_id = await api.submit(
            tool("cc_write", path="farm.lua", content=BAD),
            final(),
            tool("cc_write", path="farm.lua", content=GOOD),
            final(),
            computers=(pc.name,),
            checks=checks,
        )
        items = await play(api, task_id, yes)
    await in_order(api, items)
    assert (ended(items).status, ended(items).verified) == ("Completed", True)
    first, last = held(items)
    assert first == dict(zip(checks, (False, False, False, True), strict=True))
    assert last == dict.fromkeys(checks, True)
    # Two writes were asked about, and no run: the first question named the check.
    assert [[call["tool"] for call in one["tool_calls"]] for one in asked] == [["cc_write"], ["cc_write"]]
    assert asked[0]["tool_calls"][0]["checks"] == ["runs farm.lua"]
    assert "runs farm.lua" in asked[0]["tool_calls"][0]["observed"]["note"]
    assert "runs what this writes" in asked[1]["tool_calls"][0]["observed"]["note"]
    (refused,) = facts_of(items, facts.ReplyRefused)
    assert "- runs farm.lua: It ended with an error." in refused.reason
    shown = await told(api, task_id)
    assert all(one["items"] or one["check"].startswith("unchanged") for one in shown)


async def test_bytes_that_nobody_saw_are_shown_before_a_check_runs_them(server: Server, tmp_path: Path) -> None:
    """A program that was run changed the file: the check's approval does not cover that, and a no is no success."""
    swaps = "local f = fs.open('farm.lua', 'w') f.write('print(66)') f.close()\n"
    asked: list[dict[str, Any]] = []

    async def decide(request: dict[str, Any]) -> str:
        asked.append(request)
        return "approve" if len(asked) < 4 else "reject"

    async with computer(server, tmp_path) as pc:
        pc.boot()
        api = server.api()
        task_id = await api.submit(
            tool("cc_write", path="farm.lua", content=GOOD),
            tool("cc_write", path="swap.lua", content=swaps),
            tool("cc_run_program", path="swap.lua"),
            final(),
            computers=(pc.name,),
            checks=["runs farm.lua", "prints 42 wheat"],
        )
        items = await play(api, task_id, decide)
    await in_order(api, items)
    shown = asked[3]["tool_calls"][0]
    assert (shown["args"]["path"], shown["observed"]["source"]) == ("farm.lua", "print(66)")
    assert "explanation" not in asked[3]["informational"]
    # The person's no is not the end of the task, and never a success of it.
    assert (ended(items).status, ended(items).verified) == ("Completed", False)
    rejected = "It was not run: a person rejected it."
    whys = [(one["holds"], one["why"]) for one in await told(api, task_id)]
    assert whys == [(None, rejected), (None, f"Nobody knows what farm.lua prints. {rejected}")]
    assert len(facts_of(items, facts.ToolStarted)) == 3


async def test_a_task_whose_checks_do_not_hold_is_never_a_success(server: Server, tmp_path: Path) -> None:
    """The model only claims again, or its steps are used up: the end names the check either way."""
    async with computer(server, tmp_path) as pc:
        pc.write("farm.lua", BAD.encode())
        pc.boot()
        api = server.api()
        again = await api.submit(final(), final(), computers=(pc.name,), checks=["runs farm.lua"])
        ends = [ended(await play(api, again))]
        script = (final(), tool("cc_write", path="b.lua", content=GOOD), final())
        spent = await api.submit(*script, computers=(pc.name,), checks=["file a.lua exists"], max_steps=2)
        ends.append(ended(await play(api, spent)))
    assert [(one.status, one.status_reason) for one in ends] == [("Failed", "checks_failed"), ("Failed", "max_steps")]
    assert ends[0].message == "This check does not hold: runs farm.lua (It ended with an error)."
    assert "This check does not hold: file a.lua exists (There is no such file)." in ends[1].message


@pytest.mark.deep
async def test_a_check_that_cannot_be_made_is_refused_with_what_to_type(server: Server, tmp_path: Path) -> None:
    """Nothing begins: the form, the computer, and a task that may only look."""
    async with computer(server, tmp_path) as pc:
        pc.boot()
        api = server.api()
        for checks, more, remedy in (
            (["run farm.lua"], {}, "Type one of: runs PROGRAM"),
            (["@other runs farm.lua"], {}, f"@{pc.name}"),
            (["runs farm.lua"], {"read_only": True}, "let the task do more than look"),
        ):
            body = {"prompt": "x", "computers": (pc.name,), "checks": checks, **more}
            assert remedy in (await api.refused(422, "POST", "/v1/tasks", body))["remedy"]


async def test_a_task_file_brings_its_checks_and_they_are_told_at_the_end(server: Server, tmp_path: Path) -> None:
    """The command submits what the file says; a check that is typed comes behind its own."""
    async with computer(server, tmp_path) as pc:
        pc.write("farm.lua", GOOD.encode())
        pc.boot()
        task = {"prompt": json.dumps([final()]), "computer": pc.name, "checks": ["file farm.lua contains wheat"]}
        file = tmp_path / "task.json"
        file.write_text(json.dumps(task), "utf-8")
        where = ("--url", server.url, "--data-dir", str(server.home))
        typed = ("run", "--file", str(file), "--check", "file farm.lua exists", "--detach", *where)
        done = await asyncio.to_thread(cli, tmp_path, *typed)
        task_id = done.stdout.split()[1]
        items = await play(server.api(), task_id)
    (submitted,) = facts_of(items, facts.TaskSubmitted)
    assert submitted.checks == ("file farm.lua contains wheat", "file farm.lua exists")
    assert held(items)[0] == dict.fromkeys(submitted.checks, True)


async def test_a_check_that_is_cut_off_neither_holds_nor_fails(server: Server, tmp_path: Path) -> None:
    """The task was canceled meanwhile, or the computer lost power: then a person says what became of the run."""
    checks = ["runs farm.lua", "prints begun"]
    answers = iter(("approve", "approve", "mark_done"))

    async def decide(request: dict[str, Any]) -> str:
        del request
        return next(answers)

    async with computer(server, tmp_path) as pc:
        pc.write("farm.lua", f"print('begun') {LOGS} while true do sleep(0.1) end".encode())
        pc.boot()
        api = server.api()

        async def begun() -> tuple[str, asyncio.Task[list[AgentTaskItem]]]:
            task_id = await api.submit(final(), computers=(pc.name,), checks=checks)
            playing = asyncio.create_task(play(api, task_id, decide))
            async with asyncio.timeout(HANG_S):
                while pc.read("ran.log") is None:  # noqa: ASYNC110 - a disk has no event
                    await asyncio.sleep(0.02)
            return task_id, playing

        task_id, playing = await begun()
        await api.ok("POST", f"/v1/tasks/{task_id}/cancel", {})
        assert ended(await playing).status == "Canceled"
        assert [one["why"] for one in await told(api, task_id)] == ["It was begun, and not judged."] * 2
        (pc.disk / "ran.log").unlink()
        task_id, playing = await begun()
        assert pc.process is not None
        pc.kill()
        await pc.process.gone()
        pc.boot()
        items = await playing
    await in_order(api, items)
    assert (ended(items).status, ended(items).verified) == ("Completed", False)
    lost = "Nobody knows how it ended."
    whys = [(one["holds"], one["why"]) for one in await told(api, task_id)]
    assert whys == [(None, lost), (None, f"Nobody knows what farm.lua prints. {lost}")]


async def test_a_killed_server_makes_each_check_once(tmp_path: Path) -> None:
    """Kill -9 when the check was proposed, started and ended: nobody is asked again, and it runs once."""
    await each({str(at): _survives(tmp_path, Kill(at, "after")) for at in (9, 10, 11)})


@pytest.mark.deep
async def test_a_killed_server_makes_each_check_once_wherever_it_dies(tmp_path: Path) -> None:
    """Before and after each write from the model's claim to the verdict."""
    kills = [Kill(at, side) for at in range(8, 16) for side in ("before", "after")]
    await each({f"{kill.side} {kill.at}": _survives(tmp_path, kill) for kill in kills})


@pytest.mark.deep
async def test_an_endless_program_holds_on_the_computer_that_the_check_names(server: Server, tmp_path: Path) -> None:
    """Each computer has checks of its own; a program that never ends is watched and stopped."""
    async with computer(server, tmp_path) as one, computer(server, tmp_path) as other:
        one.write("loop.lua", b"while true do print('round') sleep(1) end\n")
        other.write("loop.lua", BAD.encode())
        one.boot()
        other.boot()
        checks = [f"@{one.name} runs loop.lua", "prints round", f"@{other.name} runs loop.lua"]
        task_id = await server.api().submit(final(), final(), computers=(one.name, other.name), checks=checks)
        items = await play(server.api(), task_id)
    await in_order(server.api(), items)
    assert held(items)[0] == dict(zip(checks, (True, True, False), strict=True))
    assert ended(items).status_reason == "checks_failed"


async def _survives(tmp: Path, kill: Kill) -> None:
    """A task with a check that runs a program, through a kill of its server."""
    place = tmp / f"{kill.side}{kill.at}"
    server, armed = Server(place / "home"), place / "armed"
    try:
        await asyncio.to_thread(server.start, replace(kill, armed=armed))
        async with computer(server, place) as pc:
            await _killed(server, pc, armed)
    finally:
        await server.close()
        server.kill()


async def _killed(server: Server, pc: Computer, armed: Path) -> None:
    pc.boot()
    api = server.api()
    await asyncio.to_thread(armed.touch)
    script = (tool("cc_write", path="farm.lua", content=LOGS), final())
    task_id = await api.submit(*script, computers=(pc.name,), checks=["runs farm.lua", "file ran.log exists"])
    decided = asyncio.create_task(play(api, task_id))
    assert server.process is not None
    await server.process.gone()
    await asyncio.gather(decided, return_exceptions=True)
    await server.close()
    await asyncio.to_thread(server.start)
    items = await server.api().journal(task_id)
    check_laws(items)
    assert pc.read("ran.log") == b"ran\n"
    assert (ended(items).verified, len(facts_of(items, facts.DecisionRecorded))) == (True, 1)
    assert held(items) == [{"runs farm.lua": True, "file ran.log exists": True}]
