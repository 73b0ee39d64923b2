"""Undo of a whole task: a real server, a real computer, and every byte as it was."""

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from tests.harness.commands import cli, on_a_terminal
from tests.story.harness import (
    Api,
    Computer,
    Decider,
    Server,
    check_laws,
    computer,
    ended,
    facts_of,
    final,
    play,
    tool,
    tools,
    tree,
)

UMLAUTS = os.fsdecode(b"gr\xfcn")
FILES = {
    "startup.lua": b"print('mine')\n",
    "lib/a.lua": b"return 1\n",
    "lib/deep/latin.txt": b"gr\xfcn\r\n",
    "lib/empty": b"",
    "big.txt": b"a line of a file that fits no single frame\n" * 2000,
}
WORK = (
    tool("cc_write", path="startup.lua", content="print('theirs')\n"),
    tool("cc_write", path="new/deep/file.lua", content="return 2\n"),
    tool("cc_edit", path="lib/deep/latin.txt", old="gr\xfcn", new="rot"),
    tool("cc_move", path="lib", to="moved/lib"),
    tool("cc_write", path="moved/lib/a.lua", content="return 3\n"),
    tool("cc_delete", path="moved"),
    tool("cc_mkdir", path="empty/dirs"),
    tool("cc_delete", path="big.txt"),
    final(),
)


def filled(pc: Computer) -> dict[str, bytes | None]:
    """The computer with the files from before the task."""
    for path, content in FILES.items():
        pc.write(path, content)
    return tree(pc.disk)


async def worked(api: Api, pc: Computer, *script: Any) -> str:
    """A task that a person approved all of."""
    task_id = await api.submit(*script, computers=(pc.name,))
    check_laws(await play(api, task_id))
    return task_id


async def undone(api: Api, task_id: str, **body: Any) -> list[AgentTaskItem]:
    """An undo that a person approved all of; its items."""
    answer = await api.ok("POST", f"/v1/tasks/{task_id}/undo", body)
    items = await play(api, answer["task_id"])
    check_laws(items)
    return items


async def preview(api: Api, task_id: str, **body: Any) -> dict[str, str]:
    """What an undo would do, by path."""
    answer = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {**body, "dry_run": True})
    return {one["path"]: one["verdict"] for one in answer["places"]}


async def test_a_whole_task_is_taken_back_and_that_too(server: Server, tmp_path: Path) -> None:
    """Writes, edits, moves, trees that were deleted: byte for byte; the undo of the undo brings the work again."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        before = filled(pc)
        pc.boot()
        task_id = await worked(api, pc, *WORK)
        after = tree(pc.disk)
        assert after != before
        assert set((await preview(api, task_id)).values()) <= {"restore", "remove", "nothing"}
        items = await undone(api, task_id)
        assert tree(pc.disk) == before
        assert (ended(items).status, ended(items).verified) == ("Completed", True)
        assert len(facts_of(items, facts.ReviewRequested)) == 1, "one question for all of it"
        assert set((await preview(api, task_id)).values()) == {"nothing"}
        await undone(api, items[0].task_id)
        assert tree(pc.disk) == after


@pytest.mark.deep
async def test_a_file_where_a_directory_was_and_the_other_way_about_ask_once_too(
    server: Server, tmp_path: Path
) -> None:
    """Each takes the place of the other in one step, so that nothing is between the two, and so back again."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        before = filled(pc)
        pc.boot()
        script = (
            tool("cc_delete", path="startup.lua"),
            tool("cc_write", path="startup.lua/inside/a.txt", content="a\n"),
            tool("cc_delete", path="lib"),
            tool("cc_write", path="lib", content="one file\n"),
            final(),
        )
        task_id = await worked(api, pc, *script)
        after = tree(pc.disk)
        for left in (before, after):
            items = await undone(api, task_id)
            task_id = items[0].task_id
            assert tree(pc.disk) == left
            assert ended(items).status == "Completed"
            (request,) = facts_of(items, facts.ReviewRequested)
            notes = [one.observed.note for one in request.calls]
            assert any("takes its place" in note for note in notes), notes


async def test_what_a_person_changed_since_stays_unless_they_say_otherwise(server: Server, tmp_path: Path) -> None:
    api = server.api()
    async with computer(server, tmp_path) as pc:
        filled(pc)
        pc.boot()
        task_id = await worked(api, pc, *WORK[:2], final())
        pc.write("startup.lua", b"my own\n")
        pc.write("new/deep/mine.txt", b"mine\n")
        items = await undone(api, task_id)
        assert pc.read("startup.lua") == b"my own\n"
        assert pc.read("new/deep/mine.txt") == b"mine\n"
        assert pc.read("new/deep/file.lua") is None
        kept = ended(items).details["kept"]
        assert kept[f"{pc.name}:startup.lua"] == "Somebody changed it since."
        assert "mine.txt would stay" in kept[f"{pc.name}:new/deep"]
        await undone(api, task_id, choices={f"{pc.name}:startup.lua": "beside"})
        assert pc.read("startup.lua") == b"my own\n"
        assert pc.read(f"startup.lua.before-{task_id}") == FILES["startup.lua"]
        await undone(api, task_id, paths=["/startup.lua"], on_conflict="restore")
        assert pc.read("startup.lua") == FILES["startup.lua"]


async def test_files_and_directories_of_the_workspace_go_back_too(server: Server) -> None:
    """Byte for byte, also those that were made on the way; one with a file of somebody's in it stays."""
    api = server.api()
    space = server.home / "workspace"
    (space / "old").mkdir(parents=True)
    (space / "old" / "plan.txt").write_bytes(b"gr\xc3\xbcn\r\n")
    before = tree(space)
    script = (
        tool("local_write", path="old/plan.txt", content="new\n"),
        tool("local_write", path="made/here/a.txt", content="a\n"),
        tool("local_write", path="./made//b.txt", content="b\n"),
        final(),
    )
    task_id = await api.submit(*script)
    check_laws(await play(api, task_id))
    after = tree(space)
    items = await undone(api, task_id)
    assert (ended(items).status, tree(space)) == ("Completed", before)
    items = await undone(api, items[0].task_id)
    assert (ended(items).status, tree(space)) == ("Completed", after)
    (space / "made" / "here" / "mine.txt").write_bytes(b"mine\n")
    planned = await preview(api, task_id)
    assert {path for path, verdict in planned.items() if verdict == "conflict"} == {"made", "made/here"}
    await undone(api, task_id)
    assert tree(space) == {**before, "made": None, "made/here": None, "made/here/mine.txt": b"mine\n"}


@pytest.mark.deep
async def test_a_name_that_is_no_utf_8_comes_back(server: Server, tmp_path: Path) -> None:
    """As a keyboard with umlauts in the game writes it: a byte for each letter; and the undo of that is undone too."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write(f"farm/{UMLAUTS}/{UMLAUTS}.lua", b"return 1\n")
        before = tree(pc.disk)
        pc.boot()
        task_id = await worked(api, pc, tool("cc_delete", path="farm"), final())
        shown = await preview(api, task_id)
        assert set(shown) == {"farm", r"farm/gr\xfcn", r"farm/gr\xfcn/gr\xfcn.lua"}
        items = await undone(api, task_id)
        assert tree(pc.disk) == before
        assert rf"{pc.name}:farm/gr\xfcn/gr\xfcn.lua" in ended(items).details["put_back"]
        again = await undone(api, items[0].task_id)
        assert tree(pc.disk) == {}
        await undone(api, again[0].task_id)
        assert tree(pc.disk) == before


@pytest.mark.deep
async def test_two_names_that_look_alike_are_told_apart(server: Server, tmp_path: Path) -> None:
    """One is UTF-8 and one is not: each is written as no other is, and no choice about one touches the other."""
    api = server.api()
    where = ["--url", server.url, "--data-dir", str(server.home)]
    text, odd = "farm/gr\xfcn.lua", f"farm/{UMLAUTS}.lua"
    async with computer(server, tmp_path) as pc:
        pc.write(text, b"return 'utf-8'\n")
        pc.write(odd, b"return 'latin-1'\n")
        before = tree(pc.disk)
        pc.boot()
        task_id = await worked(api, pc, tool("cc_delete", path="farm"), final())
        changes = (await api.ok("GET", f"/v1/tasks/{task_id}/changes"))["changes"]
        assert {one["place"] for one in changes} == {f"{pc.name}:{one}" for one in ("farm", text, r"farm/gr\xfcn.lua")}
        await undone(api, task_id, paths=[r"/farm/gr\xFCn.lua"])
        assert tree(pc.disk) == {"farm": None, odd: before[odd]}
        await undone(api, task_id, paths=[text])
        assert tree(pc.disk) == before
        for path in (text, odd):
            pc.write(path, b"mine\n")
        shown = await asyncio.to_thread(cli, tmp_path, "undo", task_id, "--dry-run", *where)
        kept = [line.split()[1] for line in shown.stdout.splitlines() if line.startswith("KEEP")]
        assert kept == [f"{pc.name}:{text}", rf"{pc.name}:farm/gr\xfcn.lua"]
        chosen = ["--detach", "--choose", f"{pc.name}:{text}=restore"]
        begun = await asyncio.to_thread(cli, tmp_path, "undo", task_id, *chosen, *where)
        await play(api, begun.stdout.splitlines()[-1].removeprefix("task "))
        assert (pc.read(text), pc.read(odd)) == (before[text], b"mine\n")
        pc.write(text, b"mine\n")
        begun = await asyncio.to_thread(cli, tmp_path, "undo", task_id, *chosen[:2], f"{kept[1]}=restore", *where)
        await play(api, begun.stdout.splitlines()[-1].removeprefix("task "))
        assert (pc.read(text), pc.read(odd)) == (b"mine\n", before[odd])


@pytest.mark.deep
async def test_directories_that_calls_of_one_reply_made_go_again(server: Server, tmp_path: Path) -> None:
    """What a call makes on its way is known when it starts, and not when somebody was shown it."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        before = filled(pc)
        pc.boot()
        move, write = tool("cc_move", path="startup.lua", to="a/b"), tool("cc_write", path="a/c", content="")
        task_id = await worked(api, pc, tools(move, tool("cc_mkdir", path="startup.lua/new"), write), final())
        told = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {"dry_run": True})
        assert [one["why"] for one in told["places"] if one["why"]] == [], "nobody else changed anything"
        items = await undone(api, task_id)
        assert tree(pc.disk) == before
        assert ended(items).status == "Completed"


@pytest.mark.deep
async def test_a_computer_that_is_away_is_waited_for(server: Server, tmp_path: Path) -> None:
    """The undo is taken on, says what it waits for, and is done when the computer is back."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        before = filled(pc)
        pc.boot()
        task_id = await worked(api, pc, *WORK)
        pc.kill()
        answer = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {})
        places = await preview(api, task_id)
        assert set(places.values()) == {"away"}
        waits = f"waiting for computer {pc.name}, which is away"
        rows = (await api.ok("GET", "/v1/tasks"))["tasks"]
        assert [one["status_reason"] for one in rows if one["task_id"] == answer["task_id"]] == [waits]
        assert (await api.task(answer["task_id"]))["status_reason"] == waits
        assert (await api.task(task_id))["undo"]["outcome"][
            "told"
        ] == f"being taken back by {answer['task_id']} ({waits})"
        where = ["--url", server.url, "--data-dir", str(server.home)]
        with on_a_terminal(tmp_path, "tasks", "watch", answer["task_id"], *where) as terminal:
            await asyncio.to_thread(terminal.expect, f"[WAITING] Away: computer {pc.name}.")
            terminal.interrupt()
            assert await asyncio.to_thread(terminal.end) == 130
        pc.boot()
        check_laws(await play(api, answer["task_id"]))
        assert tree(pc.disk) == before


@pytest.mark.deep
async def test_an_undo_that_comes_too_late_says_who_was_first(server: Server, tmp_path: Path) -> None:
    """Two undos of one task wait for approval; both get it, and the second finds all as it is to be."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        filled(pc)
        pc.boot()
        task_id = await worked(api, pc, *WORK[:2], final())
        bodies: tuple[dict[str, Any], ...] = ({}, {"on_conflict": "restore"})
        undos = [(await api.ok("POST", f"/v1/tasks/{task_id}/undo", body))["task_id"] for body in bodies]
        for undo in undos:
            await api.first(undo, "review_requested")
        first, second = [ended(await play(api, undo)) for undo in undos]
        session = (await api.task(task_id))["session_id"]
        (earlier,) = (await api.task(await api.submit(final(), session_id=session)))["earlier"]
        assert earlier["since"] == f"taken back by {undos[0]} (Completed: {first.message.rstrip('.')})"
        assert (first.status, second.status) == ("Completed", "Completed")
        assert second.message == f"Everything was already as it was before the task: {undos[0]} put it back."
        outcome = (await api.task(task_id))["undo"]["outcome"]
        assert outcome["told"] == f"taken back by {undos[0]} (Completed: {first.message.rstrip('.')})"
        assert pc.read("startup.lua") == FILES["startup.lua"]
        await undone(api, undos[0])
        outcome = (await api.task(task_id))["undo"]["outcome"]
        assert (outcome["task_id"], outcome["undone_by"] is not None) == (undos[0], True)


@pytest.mark.deep
async def test_an_undo_that_goes_on_is_not_begun_twice(server: Server, tmp_path: Path) -> None:
    """Refused, with the one that goes on; two terminals see that one through, and both end as it does."""
    api = server.api()
    where = ["--url", server.url, "--data-dir", str(server.home)]
    async with computer(server, tmp_path) as pc:
        filled(pc)
        pc.boot()
        task_id = await worked(api, pc, *WORK[:2], final())
        path = f"/v1/tasks/{task_id}/undo"
        undo = (await api.ok("POST", path, {"idempotency_key": "one"}))["task_id"]
        await api.first(undo, "review_requested")
        refused = await api.refused(409, "POST", path, {})
        told = f"{task_id} is already being taken back by {undo} (waiting for approval); no second undo of the same"
        assert refused["message"].startswith(told)
        assert (refused["code"], refused["details"]) == ("being_undone", {"task_id": undo})
        assert (await api.refused(409, "POST", path, {"idempotency_key": "two"}))["code"] == "being_undone"
        assert (await api.ok("POST", path, {"idempotency_key": "one"}))["task_id"] == undo
        assert (await api.ok("POST", path, {"dry_run": True}))["places"]
        part = (await api.ok("POST", path, {"step": 1}))["task_id"]
        await api.ok("POST", f"/v1/tasks/{part}/cancel", {})
        left = await asyncio.to_thread(cli, tmp_path, "undo", task_id, "--detach", *where)
        assert (left.returncode, left.stdout.splitlines()[-1]) == (0, f"task {undo}")
        assert left.stderr.startswith(told)
        assert " review --url" in left.stderr.splitlines()[-1]
        with contextlib.ExitStack() as stack:
            terminals = [stack.enter_context(on_a_terminal(tmp_path, "undo", task_id, *where)) for _ in range(2)]
            for one in terminals:
                await asyncio.to_thread(one.expect, told)
                await asyncio.to_thread(one.expect, f"task {undo}")
            await play(api, undo)
            assert [await asyncio.to_thread(one.end) for one in terminals] == [0, 0], terminals[0].text
        assert pc.read("startup.lua") == FILES["startup.lua"]
        assert (await api.task(task_id))["undo"]["tasks"] == [undo, part]
        again = (await api.ok("POST", path, {}))["task_id"]
        assert ended(await play(api, again)).message.startswith("Everything was already as it was"), "once it is over"


@pytest.mark.deep
async def test_an_undo_is_begun_and_left(server: Server, tmp_path: Path) -> None:
    """Its id alone goes to a script, the lines that watch and approve it to a person."""
    api = server.api()
    where = ["--url", server.url, "--data-dir", str(server.home)]
    async with computer(server, tmp_path) as pc:
        pc.boot()
        task_id = await worked(api, pc, WORK[0], final())
        left = await asyncio.to_thread(cli, tmp_path, "undo", task_id, "--detach", *where)
        *_, last = left.stdout.splitlines()
        undo = last.removeprefix("task ")
        assert (left.returncode, (await api.task(undo))["undoes"]) == (0, task_id)
        watch, approve = left.stderr.splitlines()
        assert f" tasks watch {undo} --url" in watch
        assert "cc-orchestrator review --url" in approve
        await api.ok("POST", f"/v1/tasks/{undo}/cancel", {})
        told = await asyncio.to_thread(cli, tmp_path, "undo", task_id, "--detach", "--json", *where)
        assert await play(api, json.loads(told.stdout)["task_id"])
        assert pc.read("startup.lua") is None


async def test_one_step_and_what_cannot_be_undone(server: Server, tmp_path: Path) -> None:
    api = server.api()
    async with computer(server, tmp_path) as pc:
        filled(pc)
        pc.write("run.lua", b"print(1)\n")
        pc.boot()
        run = tool("cc_run_program", path="run.lua")
        task_id = await worked(api, pc, WORK[0], run, tool("cc_write", path="b.lua", content="return 2\n"), final())
        told = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {"dry_run": True})
        assert [(one["step"], one["tool"]) for one in told["cannot_be_undone"]] == [(2, "cc_run_program")]
        await undone(api, task_id, step=3)
        assert (pc.read("b.lua"), pc.read("startup.lua")) == (None, b"print('theirs')\n")
        refused = await api.refused(422, "POST", f"/v1/tasks/{task_id}/undo", {"step": 9})
        assert "nothing" in refused["message"]


async def test_who_may_not_and_what_is_not_over(server: Server, tmp_path: Path) -> None:
    api = server.api()
    async with computer(server, tmp_path) as pc:
        filled(pc)
        pc.boot()
        task_id = await api.submit(WORK[0], final(), computers=(pc.name,))
        await api.first(task_id, "review_requested")
        going = await api.refused(422, "POST", f"/v1/tasks/{task_id}/undo", {})
        assert "not over" in going["message"]
        eve = await server.person("eve", "submitter", "reviewer")
        await eve.refused(403, "POST", f"/v1/tasks/{task_id}/undo", {"dry_run": True})
        await api.refused(404, "POST", "/v1/tasks/t-none/undo", {})
        await api.ok("POST", f"/v1/tasks/{task_id}/cancel", {})


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["cc_restore", "local_restore"])
async def test_no_model_calls_what_only_plans_call(server: Server, name: str) -> None:
    """It is told that there is no such tool."""
    api = server.api()
    task_id = await api.submit(tool(name, path="a", to="absent"), final(success=False))
    items = await play(api, task_id)
    (refused,) = facts_of(items, facts.ReplyRefused)
    assert f"No such tool: '{name}'" in refused.reason


@pytest.mark.deep
async def test_a_task_that_failed_says_what_it_changed_and_how_to_put_it_back(server: Server, tmp_path: Path) -> None:
    """At the end of `run` and `tasks watch`; `undo --dry-run` shows each place."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        filled(pc)
        pc.boot()
        task_id = await worked(api, pc, *WORK[:2], final(success=False))
        where = ["--url", server.url, "--data-dir", str(server.home)]
        watched = await asyncio.to_thread(cli, tmp_path, "tasks", "watch", task_id, *where)
        assert watched.returncode == 1
        assert f"It had changed {pc.name}:startup.lua, {pc.name}:new," in watched.stderr
        assert f" undo {task_id} --url" in watched.stderr
        pc.write("startup.lua", b"my own\n")
        shown = await asyncio.to_thread(cli, tmp_path, "undo", task_id, "--dry-run", *where)
        assert shown.returncode == 0
        assert shown.stdout.splitlines() == [
            f"remove    {pc.name}:new",
            f"remove    {pc.name}:new/deep",
            f"remove    {pc.name}:new/deep/file.lua",
            f"KEEP      {pc.name}:startup.lua  (Somebody changed it since.)",
        ]
        odd = await asyncio.to_thread(cli, tmp_path, "undo", task_id, "--choose", "startup.lua", *where)
        assert (odd.returncode, "chooses nothing" in odd.stderr) == (2, True)
        missed = await asyncio.to_thread(cli, tmp_path, "undo", task_id, "--choose", "startup.lua=restore", *where)
        assert (missed.returncode, "touches no 'startup.lua'" in missed.stderr) == (2, True)
        assert f"Near it: {pc.name}:startup.lua." in missed.stderr
        later = await asyncio.to_thread(cli, tmp_path, "undo", task_id, "--step", "99", "--dry-run", *where)
        what = f"`cc-orchestrator tasks show {task_id}` shows what it did."
        assert later.stdout == f"{task_id} changed no files in that step. {what}\n"
        for options, words in (
            (["--path", "startup.luu"], f"{task_id} changed nothing at 'startup.luu'. Near it: startup.lua."),
            (
                ["--path", "startup.lua", "--step", "2"],
                "at 'startup.lua' in step 2. There is: new, new/deep, new/deep/",
            ),
            (["--path", f"{pc.name}:startup.lua"], "a path names no computer. Write only what is behind the colon"),
        ):
            for more in ([], ["--dry-run"]):
                odd = await asyncio.to_thread(cli, tmp_path, "undo", task_id, *options, *more, *where)
                assert (odd.returncode, words in odd.stderr, odd.stdout) == (2, True, ""), odd.stderr
        for name in ("\xf6/../x", "..", ""):
            none = await asyncio.to_thread(cli, tmp_path, "undo", name, *where)
            assert (none.returncode, f"There is no task '{name}'." in none.stderr) == (4, True)


@pytest.mark.deep
async def test_a_task_that_is_canceled_says_so_where_it_is_canceled(server: Server, tmp_path: Path) -> None:
    """`cancel` and `stop` name what it changed; `tasks show` counts it, and names the task that puts it back."""
    api = server.api()
    where = ["--url", server.url, "--data-dir", str(server.home)]
    async with computer(server, tmp_path) as pc:
        pc.boot()
        task_id = await api.submit(*WORK[:2], final(), computers=(pc.name,))
        await api.resume((await api.first(task_id, "review_requested")).request_id, "approve")
        await api.first(task_id, "review_requested", 2)
        canceled = await asyncio.to_thread(cli, tmp_path, "cancel", task_id, *where)
        assert canceled.stdout == f"task {task_id} is Canceled\n"
        first, second = canceled.stderr.splitlines()
        assert first == f"It had changed {pc.name}:startup.lua."
        assert second.startswith("  put it back:  ")
        assert f" undo {task_id} --url {server.url}" in second
        shown = await asyncio.to_thread(cli, tmp_path, "tasks", "show", task_id, *where)
        (line,) = [one for one in shown.stdout.splitlines() if one.startswith("changed ")]
        assert line.startswith("changed   1 place; put it back:  ")
        undo = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {})
        shown = await asyncio.to_thread(cli, tmp_path, "tasks", "show", task_id, *where)
        (line,) = [one for one in shown.stdout.splitlines() if one.startswith("changed ")]
        assert line.startswith(f"changed   1 place; being taken back by {undo['task_id']} (")
        assert f" tasks watch {undo['task_id']} --url" in line
        begun = f"[UNDO] Task {undo['task_id']} was begun to put back what it changed"
        assert f"{begun}; by now being taken back by {undo['task_id']} (" in shown.stdout
        stopped = await asyncio.to_thread(cli, tmp_path, "stop", undo["task_id"], *where)
        assert (stopped.stdout, stopped.stderr) == (f"task {undo['task_id']} is Canceled\n", "")
        shown = await asyncio.to_thread(cli, tmp_path, "tasks", "show", task_id, *where)
        (line,) = [one for one in shown.stdout.splitlines() if one.startswith("changed ")]
        canceled_undo = f"{undo['task_id']}, which was to take it back, was canceled (canceled by admin)"
        assert line.startswith(f"changed   1 place; {canceled_undo}; try again:  ")
        (done,) = [ended(await undone(api, task_id)).message]
        outcome = (await api.task(task_id))["undo"]["outcome"]
        assert outcome["told"] == f"taken back by {outcome['task_id']} (Completed: {done.rstrip('.')})"
        shown = await asyncio.to_thread(cli, tmp_path, "tasks", "show", task_id, *where)
        assert f"changed   1 place; {outcome['told']}" in shown.stdout.splitlines()
        assert f"{begun}; by now {canceled_undo}." in shown.stdout
        await undone(api, outcome["task_id"])
        again = (await api.task(task_id))["undo"]["outcome"]
        assert again["told"].endswith(f", which {again['undone_by']} took back in turn")
        shown = await asyncio.to_thread(cli, tmp_path, "tasks", "show", task_id, *where)
        assert "took back in turn; put it back again:  " in shown.stdout


@pytest.mark.deep
async def test_what_a_person_rejected_is_said_in_their_words(server: Server, tmp_path: Path) -> None:
    """An undo of which everything was rejected, and that went on, says who it was: no text that is for a model."""
    api = server.api()

    async def rejecting(request: dict[str, Any]) -> dict[str, Any]:
        del request
        return {"action": "reject", "on_reject": "continue", "reason": "not today"}

    async with computer(server, tmp_path) as pc:
        filled(pc)
        pc.boot()
        task_id = await worked(api, pc, WORK[0], final())
        after = tree(pc.disk)
        answer = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {})
        items = await play(api, answer["task_id"], rejecting)
        assert tree(pc.disk) == after
        assert ended(items).message == "0 put back, 1 not put back: A person rejected it."


def _deciding(**words: str) -> Decider:
    """A person who says that of the calls of these paths, and approves the others."""

    async def decide(request: dict[str, Any]) -> dict[str, Any]:
        decisions = [
            {"call_id": call["call_id"], "on_reject": "continue", "action": words.get(call["args"]["path"], "approve")}
            for call in request["tool_calls"]
        ]
        return {"decisions": decisions}

    return decide


@pytest.mark.deep
async def test_what_would_be_in_a_place_that_was_rejected_is_not_asked_for_again(
    server: Server, tmp_path: Path
) -> None:
    """A file stands where a directory was and stays: what was in that has no place, and that is said."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        filled(pc)
        pc.boot()
        work = (tool("cc_delete", path="lib"), tool("cc_write", path="lib", content="a file now\n"))
        task_id = await worked(api, pc, *work, final())
        after = tree(pc.disk)
        answer = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {})
        items = await play(api, answer["task_id"], _deciding(lib="reject"))
        assert len(facts_of(items, facts.ReviewRequested)) == 1
        assert tree(pc.disk) == after
        left = ended(items).details["left"]
        assert left[f"{pc.name}:lib"] == "A person rejected it."
        assert left[f"{pc.name}:lib/a.lua"] == "The directory for it was rejected."
        assert ended(items).message == "0 put back, 5 not put back, each for a reason of its own."


@pytest.mark.deep
async def test_a_directory_that_was_rejected_and_made_all_the_same_is_said(server: Server, tmp_path: Path) -> None:
    """Whoever approves a file approves the directory that it is in, which its call says it makes."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        before = filled(pc)
        pc.boot()
        task_id = await worked(api, pc, tool("cc_delete", path="lib"), final())
        answer = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {})
        items = await play(api, answer["task_id"], _deciding(lib="reject"))
        assert tree(pc.disk) == before
        assert ended(items).details["rejected"] == [f"{pc.name}:lib"]
        assert "1 though a person rejected that, for what is in it" in ended(items).message


async def test_a_path_that_is_empty_is_not_everything(server: Server) -> None:
    """As where a script's variable is empty."""
    refused = await server.api().refused(422, "POST", "/v1/tasks/t-none/undo", {"paths": [""]})
    assert refused["message"] == "A path is empty."
