"""Rehearsal: a real server, a real computer, and a copy of it in a process of the server's own."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from orchestrator.core.policy.load import DEFAULT_POLICY_TOML
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.history.rehearsal.rehearsals import MAX_STARTS
from tests.harness.commands import cli, on_a_terminal
from tests.harness.processes import Kill, prompt
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
    tree,
)
from tests.waiting import HANG_S

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
    async with asyncio.timeout(HANG_S):
        while not (await api.ok("GET", f"/v1/computers/{pc.name}"))["online"]:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def connected(
    server: Server, tmp: Path, *options: str, files: dict[str, bytes] | None = None
) -> AsyncIterator[tuple[Computer, dict[str, bytes | None]]]:
    """A computer that is connected, with its files, and what is on its disk then."""
    async with computer(server, tmp) as pc:
        before = filled(pc, files)
        pc.boot(*options)
        await there(server.api(), pc)
        yield pc, before


async def rehearsed(api: Api, pc: Computer, *script: Any, **more: Any) -> tuple[list[AgentTaskItem], dict[str, Any]]:
    """A rehearsal seen to its end, nobody being asked anything; its items, and what it came to."""
    task_id = await api.submit(*script, computers=(pc.name,), rehearse=True, **more)
    items = await play(api, task_id, _nobody)
    return items, await came_to(api, task_id)


async def _nobody(request: dict[str, Any]) -> str:
    raise AssertionError(f"a rehearsal asks nothing: {request}")


async def came_to(api: Api, task_id: str) -> dict[str, Any]:
    """What a rehearsal came to, once its copy was looked at."""
    async with asyncio.timeout(HANG_S):
        while True:
            shown: dict[str, Any] = await api.ok("GET", f"/v1/tasks/{task_id}/rehearsal")
            if shown["state"] not in ("going_on", "ending"):
                return shown
            await asyncio.sleep(0.02)


async def test_all_of_it_is_asked_for_once_and_then_done(server: Server, tmp_path: Path) -> None:
    """Writes, edits, moves, deletes and what a program wrote: nothing on the real computer before the one yes."""
    api = server.api()
    async with connected(server, tmp_path, "--id=7", "--label=digger") as (pc, before):
        checks = ("runs make.lua", "prints 7", "file lib/b.lua exists", "unchanged make.lua")
        items, shown = await rehearsed(api, pc, *WORK, checks=checks)
        check_laws(items)
        assert ended(items).status == "Completed"
        # They are made in the copy, and nobody is asked for that either.
        (judged,) = facts_of(items, facts.ChecksJudged)
        assert {one.check: one.holds for one in judged.results} == dict.fromkeys(checks, True)
        assert tree(pc.disk) == before
        results = [one.text for one in facts_of(items, facts.ToolFinished)]
        assert "7" in results[4], "the copy has the computer's id"
        assert "made" in results[5], "the copy goes on from what it did"
        verdicts = [one for proposed in facts_of(items, facts.CallsProposed) for one in proposed.evaluations]
        assert [one.effect for one in verdicts] == ["allow"] * 8
        assert ["rehearsal" in one.matched_rules for one in verdicts] == [True] * 5 + [False, True, False]
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
        task_id = items[0].task_id
        told = f"applied by {shown['applied_by']} (Completed: {ended(applied).message.rstrip('.')})"
        assert (await came_to(api, task_id))["message"] == f"It changed 9 places in the copy: {told}."
        where = ["--url", server.url, "--data-dir", str(server.home)]
        task = await asyncio.to_thread(cli, tmp_path, "tasks", "show", task_id, *where)
        assert f"rehearsed on a copy of {pc.name}; {told}" in task.stdout.splitlines()
        assert f"as it was; by now {told}." in task.stdout
        for body in ({}, {"dry_run": True}):
            refused = await api.refused(422, "POST", f"/v1/tasks/{task_id}/undo", body)
            assert refused["message"] == f"{task_id} only rehearsed: it changed nothing on {pc.name}; {told}."
            assert f"`cc-orchestrator undo {shown['applied_by']}`" in refused["remedy"]
        undo = await api.ok("POST", f"/v1/tasks/{shown['applied_by']}/undo", {})
        await play(api, undo["task_id"])
        assert tree(pc.disk) == before
        assert not list((server.home / "rehearsals").iterdir())


@pytest.mark.deep
async def test_what_was_taken_back_is_applied_anew(server: Server, tmp_path: Path) -> None:
    """While it stands it is refused, with the task that did it; once that is undone a new task does it."""
    api = server.api()
    async with connected(server, tmp_path) as (pc, before):
        _, shown = await rehearsed(api, pc, WORK[0], final())
        task_id, applied_by = shown["task_id"], shown["applied_by"]
        path = f"/v1/tasks/{task_id}/rehearsal"
        await play(api, applied_by)
        refused = await api.refused(422, "POST", path, {})
        told = f"{task_id} is already applied by {applied_by} (Completed: 1 applied), and that was not taken back."
        assert (refused["message"], f"`cc-orchestrator undo {applied_by}`" in refused["remedy"]) == (told, True)
        await play(api, (await api.ok("POST", f"/v1/tasks/{applied_by}/undo", {}))["task_id"])
        assert tree(pc.disk) == before
        assert f"`cc-orchestrator rehearsal {task_id} --apply`" in (await came_to(api, task_id))["message"]
        anew = (await api.ok("POST", path, {}))["task_id"]
        assert (anew != applied_by, (await came_to(api, task_id))["applied_by"]) == (True, anew)
        await play(api, anew)
        assert pc.read("startup.lua") == b"print('theirs')\n"


async def refuse(request: dict[str, Any]) -> str:
    """The reviewer who says no."""
    assert request["reason"] == "approval"
    return "reject"


@pytest.mark.deep
async def test_a_no_leaves_everything_as_it_was(server: Server, tmp_path: Path) -> None:
    api = server.api()
    async with connected(server, tmp_path) as (pc, before):
        _, shown = await rehearsed(api, pc, *WORK)
        assert shown["outcome"]["open"]
        waiting = await api.refused(422, "POST", f"/v1/tasks/{shown['task_id']}/undo", {"dry_run": True})
        assert "Cancel or reject that one" in waiting["remedy"]
        items = await play(api, shown["applied_by"], refuse)
        assert ended(items).status == "Canceled"
        assert tree(pc.disk) == before
        told = await api.ok("GET", f"/v1/tasks/{shown['task_id']}/rehearsal")
        assert f"{shown['applied_by']}, which was to apply it, was canceled" in told["message"]
        assert f"`cc-orchestrator rehearsal {shown['task_id']} --apply` asks for all of it again." in told["message"]
        refused = await api.refused(422, "POST", f"/v1/tasks/{shown['task_id']}/undo", {"dry_run": True})
        assert f"it changed nothing on {pc.name}; {shown['applied_by']}, which was to" in refused["message"]
        assert refused["remedy"] == "There is nothing to undo."


@pytest.mark.deep
async def test_a_follow_up_is_told_that_it_was_only_rehearsed(server: Server, tmp_path: Path) -> None:
    """Its model would take it for done: it is told whether it was applied, and that it was taken back since."""
    api = server.api()

    async def heard() -> str:
        """What a follow-up of the session is told of its first task."""
        follow_up = await api.submit(final(), session_id=session)
        await play(api, follow_up)
        return str((await api.task(follow_up))["earlier"][0]["since"])

    async with connected(server, tmp_path) as (pc, _):
        session = f"s-{pc.name}"
        _, shown = await rehearsed(api, pc, WORK[0], final(), session_id=session)
        applies = shown["applied_by"]
        await api.first(applies, "review_requested")
        only = f"only rehearsed, on a copy of {pc.name}; "
        assert await heard() == f"{only}being applied by {applies} (waiting for approval)"
        await play(api, applies)
        assert await heard() == f"{only}applied by {applies} (Completed: 1 applied)"
        _, shown = await rehearsed(api, pc, final(), session_id=session)
        follow_up = await api.task(await api.submit(final(), session_id=session))
        assert [one["since"] for one in follow_up["earlier"] if one["task_id"] == shown["task_id"]] == [
            f"{only}not applied"
        ]
    assert all(one["since"] == "" for one in follow_up["earlier"][1:3]), "what its end says holds"


@pytest.mark.deep
async def test_what_somebody_changed_meanwhile_stays(server: Server, tmp_path: Path) -> None:
    """Edited, removed, or put where the rehearsal made something: theirs, and the rest is applied."""
    api = server.api()
    async with connected(server, tmp_path) as (pc, _):
        _, shown = await rehearsed(api, pc, *WORK)
        pc.write("startup.lua", b"my own\n")
        pc.write("lib/b.lua", b"mine too\n")
        pc.write("old/new.txt", b"put in there\n")
        items = await play(api, shown["applied_by"])
        assert set(ended(items).details["kept"]) == {f"{pc.name}:{one}" for one in ("startup.lua", "lib/b.lua", "old")}
        assert [
            pc.read(one) for one in ("startup.lua", "lib/b.lua", "old/new.txt", "old/gone.txt", "lib/latin.txt")
        ] == [*(b"my own\n", b"mine too\n", b"put in there\n", None, b"rot\r\n")]


@pytest.mark.deep
async def test_a_computer_that_is_away_is_applied_to_when_it_is_back(server: Server, tmp_path: Path) -> None:
    api = server.api()
    async with connected(server, tmp_path) as (pc, _):
        task_id = await api.submit(tool("ask_user", question="Now?"), *WORK, computers=(pc.name,), rehearse=True)
        asked = await api.first(task_id, "question_asked")
        pc.kill()
        await api.ok("POST", f"/v1/tasks/{task_id}/answer", {"question_id": asked.question_id, "answer": "yes"})
        shown = await came_to(api, task_id)
        assert shown["state"] == "asked", "the copy needs nothing of the real one"
        assert pc.read("startup.lua") == FILES["startup.lua"]
        pc.boot()
        assert ended(await play(api, shown["applied_by"])).status == "Completed"
        assert pc.read("startup.lua") == b"print('theirs')\n"


@pytest.mark.deep
async def test_what_came_to_nothing_is_not_asked_for(server: Server, tmp_path: Path) -> None:
    """Nothing changed, failed, canceled: said, with what had been changed in the copy; the real one is as it was."""
    api = server.api()
    async with connected(server, tmp_path) as (pc, before):
        undone = (tool("cc_write", path="t.txt", content="x"), tool("cc_delete", path="t.txt"))
        _, nothing = await rehearsed(api, pc, *undone, final())
        assert (nothing["state"], nothing["applied_by"], nothing["changes"]) == ("nothing", None, [])
        items, failed = await rehearsed(api, pc, WORK[0], final(success=False))
        assert (failed["state"], failed["applied_by"]) == ("not_applied", None)
        assert [one["path"] for one in failed["changes"]] == ["startup.lua"]
        assert "failed, so nothing is applied" in failed["message"]
        path = f"/v1/tasks/{items[0].task_id}/rehearsal"
        eve = await server.person("eva", "submitter", "reviewer")
        await eve.refused(403, "POST", path, {})
        twice = [(await api.ok("POST", path, {}))["task_id"] for _ in range(2)]
        assert len(set(twice)) == 1, "asked for once, however often it is wanted"
        assert (await api.ok("GET", path))["applied_by"] == twice[0]
        assert len((await api.first(twice[0], "review_requested")).calls) == 1
        await api.ok("POST", f"/v1/tasks/{twice[0]}/cancel", {})
        again = (await api.ok("POST", path, {}))["task_id"]
        assert again != twice[0], "a no is not for ever"
        await api.ok("POST", f"/v1/tasks/{again}/cancel", {})
        refused = await api.refused(422, "POST", f"/v1/tasks/{items[0].task_id}/undo", {})
        assert "nothing" in refused["message"]
        await api.refused(422, "POST", f"/v1/tasks/{nothing['task_id']}/rehearsal", {})
        task_id = await api.submit(WORK[0], tool("ask_user", question="?"), computers=(pc.name,), rehearse=True)
        await api.first(task_id, "question_asked")
        assert (await api.ok("GET", f"/v1/tasks/{task_id}/rehearsal"))["state"] == "going_on"
        await api.ok("POST", f"/v1/tasks/{task_id}/cancel", {})
        canceled = await came_to(api, task_id)
        assert "was canceled, so nothing is applied" in canceled["message"]
        assert tree(pc.disk) == before
        tasks = (await api.ok("GET", "/v1/tasks"))["tasks"]
        assert [one["task_id"] for one in tasks if pc.name in one["computers"]] == [again, twice[0]]


async def test_a_program_is_stopped_with_its_task(server: Server, tmp_path: Path) -> None:
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("run.lua", b"local f = fs.open('ran', 'w') f.close() while true do sleep(0.05) end\n")
        pc.boot()
        await there(api, pc)
        task_id = await api.submit(tool("cc_run_program", path="run.lua"), computers=(pc.name,), rehearse=True)
        await api.first(task_id, "tool_started")
        await api.ok("POST", f"/v1/tasks/{task_id}/cancel", {})
        items = await api.journal(task_id)
        check_laws(items)
        assert (await came_to(api, task_id))["applied_by"] is None
        assert pc.read("ran") is None


@pytest.mark.deep
async def test_what_cannot_be_rehearsed_is_said_before_anything_starts(server: Server, tmp_path: Path) -> None:
    api = server.api()
    async with computer(server, tmp_path) as pc:
        body = {"prompt": "x", "computers": [pc.name], "rehearse": True}
        away = await api.refused(409, "POST", "/v1/tasks", body)
        assert "is away" in away["message"]
        pc.boot()
        await there(api, pc)
        wrongs: tuple[dict[str, Any], ...] = (
            *({"computers": []}, {"computers": [pc.name, await _another(server)]}),
            {"read_only": True},
        )
        for wrong in wrongs:
            await api.refused(422, "POST", "/v1/tasks", body | wrong)
        nobody = await server.person("norbert", "reviewer")
        await nobody.refused(403, "POST", "/v1/tasks", body)
        task_id = await api.submit(final(), computers=(pc.name,))
        await api.refused(404, "GET", f"/v1/tasks/{task_id}/rehearsal")
        going = [await api.submit(tool("ask_user", question="?"), **_on(pc)) for _ in range(2)]
        full = await api.refused(409, "POST", "/v1/tasks", body)
        assert "2 rehearsals are going on" in full["message"]
        names = {(await api.task(one))["computers"][0] for one in going}
        assert len(names) == 2
        for name in names:
            await api.refused(422, "POST", "/v1/tasks", {"prompt": "x", "computers": [name]})
            await api.refused(422, "POST", "/v1/tokens", {"kind": "computer", "name": name})
            await api.refused(422, "POST", "/v1/pairings", {"computer": name})
        listed = {one["computer"] for one in (await api.ok("GET", "/v1/computers"))["computers"]}
        assert not names & listed
        for one in going:
            assert (await api.task(one))["rehearses"] == pc.name
            await api.ok("POST", f"/v1/tasks/{one}/cancel", {})
            await came_to(api, one)


def _on(pc: Computer) -> dict[str, Any]:
    return {"computers": (pc.name,), "rehearse": True}


async def _another(server: Server) -> str:
    name = server.new_name()
    await server.computer_token(name)
    return name


RULES = """
[[rules]]
id = "hands-off"
effect = "deny"
tools = ["cc_write", "cc_edit"]
paths = ["kept/**"]
computers = ["c0"]

[[rules]]
id = "no-turtles"
effect = "deny"
tools = ["cc_mkdir"]
families = ["turtle"]

[[rules]]
id = "secret"
effect = "deny"
tools = ["cc_read"]
paths = ["secret.txt"]

[[rules]]
id = "free"
effect = "allow"
tools = ["cc_restore"]
paths = ["free.txt"]

[[rules]]
id = "asked"
effect = "ask"
tools = ["cc_restore"]
paths = ["startup.lua"]
"""


@pytest.mark.deep
async def test_the_rules_of_the_real_computer_hold(fresh_server: Server, tmp_path: Path) -> None:
    """Denied stays denied, by name and by family; what may not be read is not there; what is asked outside is asked."""
    server = fresh_server
    server.home.mkdir()
    (server.home / "policy.toml").write_text(DEFAULT_POLICY_TOML + RULES, "utf-8")
    server.start()
    api = server.api()
    async with computer(server, tmp_path) as pc:
        assert pc.name == "c0"
        peek = b"print(fs.exists('secret.txt'), fs.exists('kept/a.txt'))\n"
        before = filled(pc, {"secret.txt": b"1234", "kept/a.txt": b"a", "peek.lua": peek, "free.txt": b""})
        pc.boot("--family=turtle")
        await there(api, pc)
        script = (
            tool("cc_write", path="kept/a.txt", content="b"),
            tool("cc_mkdir", path="dir"),
            tool("cc_run_program", path="peek.lua"),
            tool("cc_peripheral_call", name="left", method="push", args=[]),
            tool("cc_write", path="free.txt", content="free"),
            tool("cc_write", path="startup.lua", content="print(1)"),
            tool("local_write", path="notes.txt", content="note"),
            final(),
        )
        task_id = await api.submit(*script, **_on(pc))
        asked: list[str] = []

        async def only_here(request: dict[str, Any]) -> str:
            asked.extend(call["tool"] for call in request["tool_calls"])
            return "approve"

        items = await play(api, task_id, only_here)
        assert asked == ["local_write"]
        verdicts = [one.evaluations[0].effect for one in facts_of(items, facts.CallsProposed)]
        assert verdicts[:3] == ["deny", "deny", "allow"]
        ran = facts_of(items, facts.ToolFinished)
        assert "false\ttrue" in ran[0].text
        assert len(ran) == 4, "there are no peripherals"
        shown = await came_to(api, task_id)
        assert shown["left_out"] == {"secret.txt": "The policy does not let this task read it."}
        assert {one["path"] for one in shown["changes"]} == {"free.txt", "startup.lua"}
        assert tree(pc.disk) == before
        sizes: list[int] = []

        async def all_of_it(request: dict[str, Any]) -> str:
            sizes.append(len(request["tool_calls"]))
            return "reject"

        await play(api, shown["applied_by"], all_of_it)
        assert sizes == [2], "what a rule allows is in the one request too"
        assert tree(pc.disk) == before


NET = """
local function said(ok, why) return tostring(why) end
print(said(http.get("@URL@/healthz")))
print(said(http.get("http://192.0.2.1/")))
print(said(http.websocket("@WS@/reviewer")))
print(http.checkURL("@URL@/v1/pair"))
"""


async def test_no_effect_of_a_program_leaves_the_copy(server: Server, tmp_path: Path) -> None:
    """No HTTP, no other socket: what happens before the yes happens in the copy alone."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        source = NET.replace("@URL@", server.url).replace("@WS@", "ws" + server.url.removeprefix("http"))
        pc.write("net.lua", source.encode())
        pc.boot()
        await there(api, pc)
        items, _ = await rehearsed(api, pc, tool("cc_run_program", path="net.lua"), final())
        (ran,) = facts_of(items, facts.ToolFinished)
        assert ran.text.count("Domain not permitted") == 4, ran.text


@pytest.mark.deep
async def test_a_full_computer_can_be_rehearsed(server: Server, tmp_path: Path) -> None:
    """300 files and all that a computer holds; one file more than fits is refused in the copy as it would be there."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        files = {f"dir{n % 7}/file{n}.txt": bytes([65 + n % 26]) * 2800 + str(n).encode() for n in range(300)}
        before = filled(pc, files)
        pc.boot()
        await there(api, pc)
        items, shown = await rehearsed(
            api,
            pc,
            tool("cc_write", path="large.txt", content="x" * 90_000),
            *(tool("cc_delete", path=f"dir{n}") for n in range(6)),
            tool("cc_write", path="dir6/file6.txt", content="six"),
            final(),
        )
        assert not facts_of(items, facts.ToolFinished)[0].ok, "it does not fit"
        assert ended(items).status == "Completed"
        assert shown["changed"] == 258 + 6 + 1
        assert tree(pc.disk) == before
        applied = await play(api, shown["applied_by"])
        assert len(facts_of(applied, facts.ReviewRequested)) == 1
        kept = {path: content for path, content in files.items() if path.startswith("dir6/")}
        assert tree(pc.disk) == {"dir6": None, **kept, "dir6/file6.txt": b"six"}


# -- the command line --------------------------------------------------------------------


def _where(server: Server) -> tuple[str, ...]:
    return ("--url", server.url, "--data-dir", str(server.home))


@pytest.mark.deep
async def test_a_person_rehearses_and_decides_at_one_prompt(server: Server, tmp_path: Path) -> None:
    """The rehearsal is followed, what it came to is told, and the one request is decided where it was asked for."""
    async with connected(server, tmp_path) as (pc, _):

        def rehearse() -> str:
            run = ("run", prompt(*WORK), "--computer", pc.name, "--rehearse", *_where(server))
            with on_a_terminal(tmp_path, *run) as terminal:
                terminal.expect("[REHEARSAL] It changed 9 places in the copy.")
                terminal.expect(f"changed  {pc.name}:startup.lua")
                terminal.expect("  │ +print('theirs')")
                terminal.expect("[h]elp > ")
                assert pc.read("startup.lua") == FILES["startup.lua"]
                terminal.type("a\n")
                assert terminal.end() == 0, terminal.text
            return terminal.text

        text = await asyncio.to_thread(rehearse)
        assert text.count("A person has to decide") == 1
        assert "Apply the rehearsal t-" in text
        assert pc.read("startup.lua") == b"print('theirs')\n"


@pytest.mark.deep
async def test_a_script_rehearses(server: Server, tmp_path: Path) -> None:
    """Nobody is there to be asked: the diff of the whole is printed, and the exit code says how it ended."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        filled(pc)
        run = ("run", prompt(WORK[0], final(success=False)), "--computer", pc.name, "--rehearse", *_where(server))
        away = await asyncio.to_thread(cli, tmp_path, *run)
        assert (away.returncode, "is away, so it cannot be copied" in away.stderr) == (3, True), away.stderr
        pc.boot()
        await there(api, pc)
        failed = await asyncio.to_thread(cli, tmp_path, *run)
        assert failed.returncode == 1
        assert "so nothing is applied" in failed.stdout
        assert "+print('theirs')" in failed.stdout
        assert "undo" not in failed.stderr
        task_id = failed.stdout.partition("task ")[2].split()[0]
        shown = await asyncio.to_thread(cli, tmp_path, "rehearsal", task_id, *_where(server))
        assert "+print('theirs')" in shown.stdout
        odd = await asyncio.to_thread(cli, tmp_path, "rehearsal", task_id, "--detach", *_where(server))
        assert (odd.returncode, "Say --apply too" in odd.stderr) == (2, True)
        left = await asyncio.to_thread(cli, tmp_path, "rehearsal", task_id, "--apply", "--detach", *_where(server))
        applies = left.stdout.strip().removeprefix("task ")
        assert (left.returncode, f" tasks watch {applies} --url" in left.stderr) == (0, True)
        shown = await asyncio.to_thread(cli, tmp_path, "rehearsal", task_id, *_where(server))
        assert f"being applied by {applies} (" in shown.stdout.splitlines()[-1]
        await api.first(applies, "review_requested")
        going_on = f"{task_id} is already being applied by {applies} (waiting for approval)."
        apply = ("rehearsal", task_id, "--apply", *_where(server))
        left = await asyncio.to_thread(cli, tmp_path, *apply, "--detach")
        assert (left.returncode, left.stdout) == (0, f"task {applies}\n")
        assert left.stderr.splitlines()[0] == going_on
        with on_a_terminal(tmp_path, *apply) as terminal:
            await asyncio.to_thread(terminal.expect, going_on)
            await play(api, applies)
            assert await asyncio.to_thread(terminal.end) == 0, terminal.text
        assert pc.read("startup.lua") == b"print('theirs')\n"
        for more in ((), ("--detach",)):
            done = await asyncio.to_thread(cli, tmp_path, *apply, *more)
            assert (done.returncode, done.stdout) == (2, "")
            assert f"{task_id} is already applied by {applies} (Completed: 1 applied)" in done.stderr
            assert f"`cc-orchestrator undo {applies}`" in done.stderr
        nothing = ("run", prompt(final()), "--computer", pc.name, "--rehearse", "--json", *_where(server))
        lines = (await asyncio.to_thread(cli, tmp_path, *nothing)).stdout.splitlines()
        told = [json.loads(line) for line in lines][-1]["rehearsal"]
        assert (told["state"], told["changes"]) == ("nothing", [])
        alone = await asyncio.to_thread(cli, tmp_path, "run", "--rehearse", *_where(server))
        assert (alone.returncode, "none is named" in alone.stderr) == (2, True)


# -- kills -------------------------------------------------------------------------------


def processes_in(home: Path, task_id: str = "") -> list[int]:
    """The processes of copies below a directory; ``task_id``: of this rehearsal."""
    found: list[int] = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(home / "rehearsals" / task_id).encode() in one.read_bytes():
                found.append(int(one.parent.name))
    return found


async def test_a_copy_that_dies_is_started_again(server: Server, tmp_path: Path) -> None:
    api = server.api()
    async with connected(server, tmp_path) as (pc, _):
        task_id = await api.submit(WORK[0], tool("ask_user", question="Now?"), WORK[1], final(), **_on(pc))
        asked = await api.first(task_id, "question_asked")
        (process,) = processes_in(server.home, task_id)
        os.kill(process, signal.SIGKILL)
        await api.ok("POST", f"/v1/tasks/{task_id}/answer", {"question_id": asked.question_id, "answer": "yes"})
        shown = await came_to(api, task_id)
        assert {one["path"] for one in shown["changes"]} == {"startup.lua", "lib/latin.txt"}
        await api.ok("POST", f"/v1/tasks/{shown['applied_by']}/cancel", {})


async def test_a_copy_that_dies_again_and_again_ends_the_task(server: Server, tmp_path: Path) -> None:
    api = server.api()
    async with connected(server, tmp_path) as (pc, before):
        task_id = await api.submit(WORK[0], tool("ask_user", question="Now?"), final(), **_on(pc))
        await api.first(task_id, "question_asked")
        killed: set[int] = set()
        async with asyncio.timeout(HANG_S):
            while len(killed) < MAX_STARTS:
                for process in set(processes_in(server.home, task_id)) - killed:
                    os.kill(process, signal.SIGKILL)
                    killed.add(process)
                await asyncio.sleep(0.02)
        shown = await came_to(api, task_id)
        task = await api.task(task_id)
        assert (task["status"], task["status_reason"]) == ("Failed", "rehearsal_failed")
        assert "The copy stopped 5 times" in task["result"]["message"]
        assert (shown["state"], [one["path"] for one in shown["changes"]]) == ("not_applied", ["startup.lua"])
        assert tree(pc.disk) == before


@pytest.mark.deep
async def test_a_clean_stop_costs_a_rehearsal_nothing(fresh_server: Server, tmp_path: Path) -> None:
    server = fresh_server
    server.start()
    api = server.api()
    async with connected(server, tmp_path) as (pc, _):
        task_id = await api.submit(WORK[0], tool("ask_user", question="Now?"), WORK[1], final(), **_on(pc))
        asked = await api.first(task_id, "question_asked")
        await server.close()
        assert server.process is not None
        assert await asyncio.to_thread(server.process.stop) == 0
        assert processes_in(server.home) == []
        server.start()
        api = server.api()
        await api.ok("POST", f"/v1/tasks/{task_id}/answer", {"question_id": asked.question_id, "answer": "yes"})
        shown = await came_to(api, task_id)
        assert {one["path"] for one in shown["changes"]} == {"startup.lua", "lib/latin.txt"}
        await there(api, pc)
        await play(api, shown["applied_by"])
        assert (pc.read("startup.lua"), pc.read("lib/latin.txt")) == (b"print('theirs')\n", b"rot\r\n")


async def test_a_copy_that_is_gone_ends_the_task_and_touches_nothing(fresh_server: Server, tmp_path: Path) -> None:
    """Its directory was taken away while the server was down: that is said, and is no success."""
    server = fresh_server
    server.start()
    api = server.api()
    async with connected(server, tmp_path) as (pc, before):
        task_id = await api.submit(WORK[0], tool("ask_user", question="Now?"), final(), **_on(pc))
        await api.first(task_id, "question_asked")
        await server.close()
        server.kill()
        home = server.home / "rehearsals" / task_id
        home.rename(tmp_path / "elsewhere")
        server.start()
        api = server.api()
        shown = await came_to(api, task_id)
        result = (await api.task(task_id))["result"]
        assert "files are gone" in result["message"]
        assert (shown["applied_by"], tree(pc.disk)) == (None, before)


async def _survive(tmp: Path, kill: Kill) -> None:
    """A rehearsal through a kill of the server: one task asks for all of it, and nothing is left behind."""
    server = Server(tmp / "home")
    await asyncio.to_thread(server.start)
    try:
        async with computer(server, tmp) as pc:
            before = filled(pc)
            await server.close()
            server.kill()
            await asyncio.to_thread(server.start, kill)
            pc.boot()
            task_id = await _until_killed(server, pc)
            assert tree(pc.disk) == before
            await asyncio.to_thread(server.start)
            api = server.api()
            await there(api, pc)
            listed = (await api.ok("GET", "/v1/tasks"))["tasks"]
            task_id = task_id or next((one["task_id"] for one in listed if "~" in one["computers"][0]), "")
            task_id = task_id or await api.submit(*WORK, **_on(pc))
            shown = await came_to(api, task_id)
            assert (shown["state"], shown["changed"]) == ("asked", 9), shown
            assert tree(pc.disk) == before
            applied = await play(api, shown["applied_by"])
            check_laws(applied)
            check_laws(await api.journal(task_id))
            assert len(facts_of(applied, facts.ReviewRequested)) == 1
            assert (pc.read("startup.lua"), pc.read("made/by/program.txt")) == (b"print('theirs')\n", b"made")
            listed = (await api.ok("GET", "/v1/tasks"))["tasks"]
            assert len(listed) == 2, "it was rehearsed once, and applied once"
            assert (await api.ok("GET", "/v1/audit/verify"))["faults"] == []
            found = (await api.ok("GET", "/v1/audit/check"))["findings"]
            assert not [one for one in found if one["level"] == "violation"], found
            async with asyncio.timeout(HANG_S):
                while processes_in(server.home) or any((server.home / "rehearsals").iterdir()):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
    finally:
        await server.close()
        server.kill()


async def _until_killed(server: Server, pc: Computer) -> str:
    """Rehearse until the server kills itself, or is killed once all was asked for; the task's id, if it was told."""
    api, task_id = server.api(), ""
    assert server.process is not None
    died = asyncio.create_task(server.process.gone())
    with contextlib.suppress(httpx2.TransportError):
        await there(api, pc)
        task_id = await api.submit(*WORK, **_on(pc))
        await came_to(api, task_id)
        server.kill()
    await died
    await server.close()
    return task_id


@pytest.mark.deep
async def test_a_program_that_ran_when_the_server_was_killed_is_unknown(fresh_server: Server, tmp_path: Path) -> None:
    """The copy went down with the server in the midst of it: a person is asked, and the rehearsal goes on."""
    server = fresh_server
    server.start()
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("run.lua", b"local f = fs.open('ran', 'a') f.write('x') f.close() os.pullEvent('never')\n")
        pc.boot()
        await there(api, pc)
        task_id = await api.submit(tool("cc_run_program", path="run.lua"), final(), **_on(pc))
        ran = server.home / "rehearsals" / task_id / "disk" / "ran"
        async with asyncio.timeout(HANG_S):
            while not ran.exists() or not ran.stat().st_size:  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.02)
        await server.close()
        server.kill()
        server.start()
        api = server.api()
        unknown = await api.first(task_id, "review_requested")
        assert unknown.reason == "outcome_unknown"
        await api.resume(unknown.request_id, "mark_done")
        shown = await came_to(api, task_id)
        assert [one["path"] for one in shown["changes"]] == ["ran"]
        assert "+x\n" in shown["changes"][0]["diff"], "it ran once"
        assert pc.read("ran") is None


BOUNDARIES = {f"{side} {at}": Kill(at, side) for at in range(1, 24) for side in ("before", "after")}
SOME = ("after 6", "before 15")


@pytest.mark.deep
async def test_a_kill_of_the_server_costs_nothing(tmp_path: Path) -> None:
    """At some of its boundaries: in the midst, and around the task that asks for all of it; in depth at each."""
    await each({name: _survive(tmp_path / name, BOUNDARIES[name]) for name in SOME})


@pytest.mark.deep
async def test_a_copy_that_is_gone_when_its_task_is_over_is_said_to_be(fresh_server: Server, tmp_path: Path) -> None:
    """The server was killed around the task's end, and somebody took the copy away: no change is made up."""
    server = fresh_server
    server.start()
    async with computer(server, tmp_path) as pc:
        before = filled(pc)
        await server.close()
        server.kill()
        # With the last reply, or right before it where the copy came later than the first.
        server.start(Kill(6, "after"))
        pc.boot()
        api = server.api()
        await there(api, pc)
        task_id = await api.submit(WORK[0], final(), **_on(pc))
        assert server.process is not None
        await server.process.gone()
        await server.close()
        (server.home / "rehearsals" / task_id).rename(tmp_path / "elsewhere")
        server.start()
        api = server.api()
        shown = await came_to(api, task_id)
        assert (await api.task(task_id))["status"] in ("Completed", "Failed")
        assert (shown["state"], shown["applied_by"], tree(pc.disk)) == ("nothing", None, before)
        assert "files are gone" in shown["message"]


@pytest.mark.deep
async def test_a_kill_of_the_server_at_every_boundary_costs_nothing(tmp_path: Path) -> None:
    await each({name: _survive(tmp_path / name, kill) for name, kill in BOUNDARIES.items()})
