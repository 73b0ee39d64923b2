"""What programs changed is put back: a real server, real Lua programs, and a computer that may be killed among them."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.policy.load import DEFAULT_POLICY_TOML
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from tests.harness.commands import cli
from tests.story.harness import (
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
from tests.waiting import HANG_S

pytestmark = pytest.mark.deep

FILES = {
    "notes.txt": b"gr\xfcn\r\n\0\xff",
    "lib/old.lua": b"return 1\n",
    "lib/deep/kept": b"",
    "gone/a": b"a",
    "gone/b/c": b"c",
    "log": b"one\n",
}
PROGRAM = b"""\
local function write(path, text, how) local file = fs.open(path, how or "w") file.write(text) file.close() end
write("notes.txt", "theirs")
write("log", "two\\n", "a")
fs.makeDir("made/deep")
write("made/deep/new.lua", "return 2")
fs.move("lib/old.lua", "moved.lua")
fs.delete("gone")
write("gone", "a file now")
"""
OUTSIDE = b'local file = fs.open("elsewhere", "w") file.write("x") file.close() print("done")\n'
RUN = tool("cc_run_program", path="work.lua")


def filled(pc: Computer, program: bytes = PROGRAM) -> dict[str, bytes | None]:
    """The computer before its program ran."""
    for path, content in {**FILES, "work.lua": program}.items():
        pc.write(path, content)
    return tree(pc.disk)


async def worked(api: Api, pc: Computer, *script: Any) -> tuple[str, list[AgentTaskItem]]:
    """A task that a person approved all of."""
    task_id = await api.submit(*script, final(), computers=(pc.name,))
    items = await play(api, task_id)
    check_laws(items)
    return task_id, items


async def undone(api: Api, task_id: str, **body: Any) -> list[AgentTaskItem]:
    """An undo that a person approved all of; its items."""
    answer = await api.ok("POST", f"/v1/tasks/{task_id}/undo", body)
    items = await play(api, answer["task_id"])
    check_laws(items)
    return items


async def test_what_a_program_wrote_moved_made_and_deleted_is_put_back(server: Server, tmp_path: Path) -> None:
    """Byte for byte, and the undo of the undo brings the program's work again."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        before = filled(pc)
        pc.boot()
        task_id, items = await worked(api, pc, RUN)
        after = tree(pc.disk)
        assert after["gone"] == b"a file now"
        (request,) = facts_of(items, facts.ReviewRequested)
        assert "on the computer's own disk is watched" in request.calls[0].observed.note
        (finished,) = facts_of(items, facts.ToolFinished)
        assert "While it ran, these files changed: gone, gone/a (gone), gone/b/c (gone)," in finished.text
        told = await api.ok("GET", f"/v1/tasks/{task_id}/changes")
        assert {one["path"] for one in told["changes"]} == {
            path for path in {*before, *after} if before.get(path, 1) != after.get(path, 1)
        }
        assert "only on the computer's own disk" in told["cannot_be_undone"][0]["what"]
        undo = await undone(api, task_id)
        assert tree(pc.disk) == before
        assert ended(undo).status == "Completed"
        await undone(api, undo[0].task_id)
        assert tree(pc.disk) == after


async def test_what_a_person_made_of_it_since_stays(server: Server, tmp_path: Path) -> None:
    api = server.api()
    async with computer(server, tmp_path) as pc:
        before = filled(pc)
        pc.boot()
        task_id, _ = await worked(api, pc, RUN)
        pc.write("notes.txt", b"my own")
        pc.write("made/mine", b"mine")
        undo = await undone(api, task_id)
        kept = ended(undo).details["kept"]
        assert set(kept) == {f"{pc.name}:{path}" for path in ("notes.txt", "made")}
        assert tree(pc.disk) == {**before, "notes.txt": b"my own", "made": None, "made/mine": b"mine"}


async def test_programs_and_calls_of_one_task_are_taken_back_together(server: Server, tmp_path: Path) -> None:
    """And one step of them alone."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        before = filled(pc, PROGRAM.replace(b'fs.delete("gone")', b'fs.delete("gone") fs.delete("work.lua")'))
        pc.write("again.lua", b'fs.move("made", "made2") fs.delete("notes.txt")')
        before = tree(pc.disk)
        pc.boot()
        write = tool("cc_write", path="made/deep/new.lua", content="return 3\n")
        task_id, items = await worked(api, pc, RUN, write, tool("cc_shell", command="again"))
        after = tree(pc.disk)
        starts = [one.watched for one in facts_of(items, facts.ToolStarted)]
        assert [one is not None for one in starts] == [True, False, True]
        undo = await undone(api, task_id)
        assert tree(pc.disk) == before
        await undone(api, undo[0].task_id)
        assert tree(pc.disk) == after
        await undone(api, task_id, step=3)
        assert (pc.read("notes.txt"), pc.read("made/deep/new.lua")) == (b"theirs", b"return 3\n")


SLOW = b"""\
local file = fs.open("notes.txt", "w") file.write("half") file.close()
local file = fs.open("new", "w") file.write("new") file.close()
os.pullEvent("never")
"""


async def cut_short(api: Api, pc: Computer) -> str:
    """A task whose program, the slow one, was approved and runs when its computer is killed."""
    task_id = await api.submit(RUN, final(), computers=(pc.name,))
    requested = await api.first(task_id, "review_requested")
    await api.resume(requested.request_id, "approve")
    async with asyncio.timeout(HANG_S):
        while pc.read("new") != b"new":  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.01)
    pc.kill()
    return task_id


async def test_what_differs_after_a_computer_was_cut_short_is_left_to_people(server: Server, tmp_path: Path) -> None:
    """The program was killed in its middle: what differs is shown, kept by the undo, and put back if a person says."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        before = filled(pc, SLOW)
        pc.boot()
        task_id = await cut_short(api, pc)
        pc.write("log", b"a player's\n")
        pc.boot()
        unknown = await api.first(task_id, "review_requested", place=2)
        shown = await api.ok("GET", f"/v1/requests/{unknown.request_id}")
        assert "Since it was started, these files changed: log, new (new), notes.txt." in str(shown)
        await api.resume(unknown.request_id, "mark_done")
        check_laws(await api.journal(task_id))
        after = tree(pc.disk)
        where = ["--url", server.url, "--data-dir", str(server.home)]
        told = (await asyncio.to_thread(cli, tmp_path, "tasks", "show", task_id, *where)).stdout
        assert "changed   3 places; put it back, though nobody knows whether it changed that:  " in told
        assert f" undo {task_id} --on-conflict restore --url" in told
        undo = await undone(api, task_id, choices={f"{pc.name}:notes.txt": "restore"})
        assert set(ended(undo).details["kept"].values()) == {"Nobody knows whether the task changed it."}
        assert tree(pc.disk) == {**after, "notes.txt": FILES["notes.txt"]}
        told = (await asyncio.to_thread(cli, tmp_path, "tasks", "show", task_id, *where)).stdout
        assert re.search(rf"; what it kept too:  \S.* undo {task_id} --on-conflict restore --url", told)
        await undone(api, task_id, on_conflict="restore")
        assert tree(pc.disk) == before


async def test_what_nobody_has_heard_of_yet_is_said_and_waited_for(server: Server, tmp_path: Path) -> None:
    """The computer is gone in the middle of a program, and its task is canceled: an undo begins once it is back."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        before = filled(pc, SLOW)
        pc.boot()
        task_id = await cut_short(api, pc)
        await api.ok("POST", f"/v1/tasks/{task_id}/cancel", {})
        preview = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {"dry_run": True})
        (waited,) = preview["not_heard"]
        assert (preview["places"], waited["tool"], waited["computer"]) == ([], "cc_run_program", pc.name)
        where = ["--url", server.url, "--data-dir", str(server.home)]
        shown = await asyncio.to_thread(cli, tmp_path, "undo", task_id, "--dry-run", *where)
        assert shown.stdout.startswith(f"wait for  step 1, cc_run_program on {pc.name}: Nobody has heard yet")
        undo = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {"on_conflict": "restore"})
        pc.boot()
        check_laws(await play(api, undo["task_id"]))
        assert tree(pc.disk) == before


@pytest.fixture
def narrow(fresh_server: Server) -> Server:
    """A server whose policy watches two places only."""
    fresh_server.home.mkdir(parents=True)
    text = DEFAULT_POLICY_TOML.replace('watch = ["**"]', 'watch = ["lib/**", "*.txt"]')
    (fresh_server.home / "policy.toml").write_text(text, "utf-8")
    fresh_server.start()
    return fresh_server


async def test_only_what_the_policy_names_is_known_and_that_is_said(narrow: Server, tmp_path: Path) -> None:
    """The rest stays as the program left it; the reviewer and the preview say where it is known."""
    api = narrow.api()
    async with computer(narrow, tmp_path) as pc:
        before = filled(pc)
        pc.boot()
        task_id, items = await worked(api, pc, RUN)
        after = tree(pc.disk)
        (request,) = facts_of(items, facts.ReviewRequested)
        assert "What it changes in lib/**, *.txt is watched" in request.calls[0].observed.note
        told = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {"dry_run": True})
        assert {one["path"]: one["verdict"] for one in told["places"]} == {
            "lib/old.lua": "restore",
            "notes.txt": "restore",
        }
        assert "is known only in lib/**, *.txt;" in told["cannot_be_undone"][0]["what"]
        await undone(api, task_id)
        assert tree(pc.disk) == {**after, **{path: before[path] for path in ("lib/old.lua", "notes.txt")}}
        assert (await api.ok("GET", "/v1/audit/verify"))["faults"] == []


async def test_the_clients_own_files_the_games_and_other_disks_are_left_out(server: Server, tmp_path: Path) -> None:
    """A program that writes on a disk in a drive: that is not known, and not undone."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        program = b'fs.makeDir("here") local f = fs.open("disk/mine", "w") f.write("x") f.close()'
        filled(pc, program)
        floppy = tmp_path / "floppy"
        floppy.mkdir()
        (floppy / "old").write_bytes(b"old")
        pc.boot(f"--peripheral=left=drive,path={floppy}")
        task_id, items = await worked(api, pc, RUN)
        assert (floppy / "mine").read_bytes() == b"x"
        (finished,) = facts_of(items, facts.ToolFinished)
        assert finished.watched.changed == ("here",)
        told = await api.ok("GET", f"/v1/tasks/{task_id}/changes")
        assert [one["path"] for one in told["changes"]] == ["here"]


async def test_all_that_was_watched_can_be_proved(server: Server, tmp_path: Path) -> None:
    """The listings and the old bytes are in the store; taken out, the verification says so."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        filled(pc)
        pc.boot()
        task_id, items = await worked(api, pc, RUN)
        (started,) = facts_of(items, facts.ToolStarted)
        audited = await api.ok("GET", "/v1/audit/verify")
        assert audited["faults"] == []
        assert started.watched.globs == ("**",)
        assert started.watched.gaps == ""
        assert (await api.ok("GET", "/v1/audit", task=task_id))["items"]
