"""Backups of computers: a real server, a real client, and every byte of a disk as it was."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest

from orchestrator.core.task import facts
from tests.harness.commands import cli
from tests.harness.processes import Kill
from tests.story.harness import (
    Api,
    Computer,
    Server,
    check_laws,
    computer,
    ended,
    facts_of,
    play,
    tree,
)
from tests.waiting import HANG_S

FILES = {
    "startup.lua": b"print('mine')\n",
    "lib/a.lua": b"return 1\n",
    "lib/deep/latin.txt": b"gr\xfcn\r\n",
    "lib/empty": b"",
    "lib/twin.lua": b"print('mine')\n",
    "big.txt": b"a line of a file that fits no single frame\n" * 2000,
}

GONE = (httpx2.TransportError, ExceptionGroup)
"""What somebody sees whose server was killed."""


def filled(pc: Computer) -> dict[str, bytes | None]:
    """The computer with its files, and a directory with nothing in it."""
    for path, content in FILES.items():
        pc.write(path, content)
    (pc.disk / "empty").mkdir()
    return tree(pc.disk)


def spoiled(pc: Computer) -> None:
    """Somebody's bad day: a file changed, a tree gone, a file where a directory was, and things that are new."""
    pc.write("startup.lua", b"print('theirs')\n")
    for path in ("lib/deep/latin.txt", "lib/a.lua", "lib/empty", "lib/twin.lua"):
        (pc.disk / path).unlink()
    (pc.disk / "lib/deep").rmdir()
    (pc.disk / "lib").rmdir()
    (pc.disk / "empty").rmdir()
    pc.write("empty", b"a file now\n")
    pc.write("new/mine.txt", b"mine\n")


async def online(api: Api, name: str, state: str = "online") -> None:
    """Wait until a computer is there, or away."""
    async with asyncio.timeout(HANG_S):
        while (await api.ok("GET", f"/v1/computers/{name}"))["state"] != state:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.02)


async def booted(api: Api, pc: Computer, *options: str) -> None:
    pc.boot(*options)
    await online(api, pc.name)


async def back_up(api: Api, name: str, note: str = "") -> dict[str, Any]:
    made: dict[str, Any] = await api.ok("POST", f"/v1/computers/{name}/backups", {"note": note})
    return made


async def turned_away(api: Api) -> list[dict[str, Any]]:
    """Whom the server turned away or lost at once, as soon as there is somebody."""
    async with asyncio.timeout(HANG_S):
        while not (refused := (await api.ok("GET", "/v1/doctor"))["refused"]):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.02)
    return list(refused)


async def backed_up_again(api: Api, name: str) -> None:
    """A backup of a computer that comes and goes for a while yet."""
    async with asyncio.timeout(HANG_S):
        while not (await api.call("POST", f"/v1/computers/{name}/backups", {})).is_success:
            await online(api, name)


async def put_back(api: Api, name: str, **body: Any) -> str:
    """A restoration that a person approved all of; its task."""
    answer = await api.ok("POST", f"/v1/computers/{name}/restore", body)
    items = await play(api, answer["task_id"])
    check_laws(items)
    assert ended(items).status == "Completed", ended(items)
    return str(answer["task_id"])


async def test_a_backup_is_put_back_byte_for_byte_and_that_is_undone(fresh_server: Server, tmp_path: Path) -> None:
    """What came since stays and is counted, or goes with ``exact``; the undo brings the bad day back."""
    fresh_server.start()
    api = fresh_server.api()
    async with computer(fresh_server, tmp_path) as pc:
        before = filled(pc)
        await booted(api, pc)
        made = await back_up(api, pc.name, "before the harvest")
        contents = set(FILES.values())
        assert made["files"] == len(FILES)
        assert made["bytes"] == sum(map(len, FILES.values()))
        assert made["new_bytes"] == sum(map(len, contents))
        assert (made["by"], made["note"], made["skipped"]) == ("admin", "before the harvest", [])
        again = await back_up(api, pc.name)
        assert (again["new_bytes"], again["listing"]) == (0, made["listing"])
        long = await api.ok("GET", f"/v1/computers/{pc.name}/backups/{made['backup_id']}")
        assert {one["path"]: one["size"] for one in long["paths"] if one["state"] != "directory"} == {
            path: len(content) for path, content in FILES.items()
        }
        spoiled(pc)
        bad_day = tree(pc.disk)
        preview = await api.ok("POST", f"/v1/computers/{pc.name}/restore", {"dry_run": True})
        assert (preview["came_since"], preview["online"]) == (2, True)
        assert {one["verdict"] for one in preview["places"]} <= {"restore", "nothing"}
        task_id = await put_back(api, pc.name, backup=made["backup_id"][:9])
        assert tree(pc.disk) == {**before, "new": None, "new/mine.txt": b"mine\n"}
        undone = await api.ok("POST", f"/v1/tasks/{task_id}/undo", {})
        check_laws(await play(api, undone["task_id"]))
        assert tree(pc.disk) == bad_day
        await put_back(api, pc.name, exact=True)
        assert tree(pc.disk) == before


@pytest.mark.deep
async def test_only_some_paths_are_put_back(server: Server, tmp_path: Path) -> None:
    api = server.api()
    async with computer(server, tmp_path) as pc:
        filled(pc)
        odd = os.fsdecode(b"gr\xfcn.txt")
        pc.write(odd, b"old\n")
        await booted(api, pc)
        await back_up(api, pc.name)
        spoiled(pc)
        pc.write(odd, b"new\n")
        pc.write("gr\xfcn.txt", b"another\n")
        path = f"/v1/computers/{pc.name}/restore"
        for paths, told in (
            (["lib/latin.txt"], "Near it: lib/deep/latin.txt"),
            (["startup.lua", "gr\xfcn.txt"], r"Near it: gr\xfcn.txt."),
            ([f"{pc.name}:startup.lua"], "behind the colon: startup.lua"),
        ):
            for dry_run in (True, False):
                refused = await api.refused(422, "POST", path, {"paths": paths, "dry_run": dry_run})
                assert told in refused["remedy"]
        await put_back(api, pc.name, paths=[r"gr\xfcn.txt"])
        assert (pc.read(odd), pc.read("gr\xfcn.txt")) == (b"old\n", b"another\n")
        await put_back(api, pc.name, paths=["/lib/deep", "startup.lua"])
        assert pc.read("lib/deep/latin.txt") == FILES["lib/deep/latin.txt"]
        assert pc.read("startup.lua") == FILES["startup.lua"]
        assert pc.read("lib/a.lua") is None
        assert pc.read("empty") == b"a file now\n"


@pytest.mark.deep  # The client hashes megabytes, or thousands of files, in Lua.
async def test_more_entries_than_one_look_takes(server: Server, tmp_path: Path) -> None:
    """A disk with many files is listed in parts, with names that are no text; what differs is put back."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        for number in range(4100):
            pc.write(f"many/{number % 50}/{number}", b"%d" % (number % 7))
        (pc.disk / os.fsdecode(b"no\xfftext")).mkdir()
        (pc.disk / os.fsdecode(b"no\xfftext/f\xe9")).write_bytes(b"here\n")
        before = tree(pc.disk)
        await booted(api, pc, "--capacity", "50000000")
        made = await back_up(api, pc.name)
        assert (made["files"], made["skipped"]) == (4100 + 1, [])
        shown = await api.ok("GET", f"/v1/computers/{pc.name}/backups/{made['backup_id']}")
        assert {r"no\xfftext", r"no\xfftext/f\xe9"} <= {one["path"] for one in shown["paths"]}
        (pc.disk / "many/7/7").unlink()
        pc.write("many/8/8", b"changed")
        await put_back(api, pc.name, paths=["many/7/7", "many/8/8"])
        assert tree(pc.disk) == before


@pytest.mark.deep  # The client hashes megabytes, or thousands of files, in Lua.
async def test_more_bytes_than_one_look_takes(server: Server, tmp_path: Path) -> None:
    """Files above a megabyte, two of which one look does not reach, are kept and put back."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("large/a.bin", bytes(range(256)) * 4200)
        pc.write("large/b.bin", b"\xff\xfe" * 520_000)
        before = tree(pc.disk)
        await booted(api, pc, "--capacity", "50000000")
        made = await back_up(api, pc.name)
        assert (made["files"], made["bytes"], made["skipped"]) == (2, 256 * 4200 + 1_040_000, [])
        pc.write("large/b.bin", b"short")
        await put_back(api, pc.name, paths=["large/b.bin"])
        assert tree(pc.disk) == before


@pytest.mark.deep
async def test_what_no_look_can_take_is_left_out_and_left_alone(server: Server, tmp_path: Path) -> None:
    """A file that is too large is said to be left out, and an exact restoration does not remove it for that."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("too/large.bin", b"x" * (2 * 1024 * 1024 + 1))
        pc.write("too/small.lua", b"return 1\n")
        (pc.disk / os.fsdecode(b"no\xfftext")).write_bytes(b"here\n")
        before = tree(pc.disk)
        await booted(api, pc, "--capacity", "50000000")
        made = await back_up(api, pc.name)
        assert made["files"] == 2
        shown = await api.ok("GET", f"/v1/computers/{pc.name}/backups/{made['backup_id']}")
        assert r"no\xfftext" in {one["path"] for one in shown["paths"]}
        assert [one["path"] for one in made["skipped"]] == ["too/large.bin"]
        assert "larger than" in made["skipped"][0]["why"]
        pc.write("too/small.lua", b"return 2\n")
        pc.write("too/new.txt", b"new\n")
        pc.write("new/dir/file", b"new\n")
        await put_back(api, pc.name, exact=True)
        assert tree(pc.disk) == before
        # By now it is small enough to be seen, and still is nothing that the backup can tell of.
        pc.write("too/large.bin", b"cut\n")
        await put_back(api, pc.name, exact=True)
        assert pc.read("too/large.bin") == b"cut\n"


@pytest.mark.deep
async def test_other_disks_are_left_out_and_said(server: Server, tmp_path: Path) -> None:
    """A floppy disk in a drive is not the computer's, however its own disk is looked at."""
    api = server.api()
    (tmp_path / "floppy").mkdir()
    (tmp_path / "floppy" / "theirs.lua").write_bytes(b"return 'floppy'\n")
    drive = f"--peripheral=left=drive,path={tmp_path / 'floppy'}"
    for size in (10, 2_098_000):
        async with computer(server, tmp_path) as pc:
            pc.write("mine.lua", b"return 'mine'\n")
            pc.write("large", b"a" * size)
            await booted(api, pc, "--capacity", "50000000", drive)
            made = await back_up(api, pc.name)
            assert {"path": "disk", "why": "It is another disk."} in made["skipped"]
            assert made["files"] == (2 if size == 10 else 1)
            assert (tmp_path / "floppy" / "theirs.lua").read_bytes() == b"return 'floppy'\n"


@pytest.mark.deep
async def test_an_empty_computer_and_nothing_to_put_back(server: Server, tmp_path: Path) -> None:
    """An empty backup is one; put back exactly, also while nobody can look, it empties the computer."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        await booted(api, pc)
        await api.refused(404, "POST", f"/v1/computers/{pc.name}/restore", {})
        made = await back_up(api, pc.name)
        assert (made["files"], made["bytes"], made["new_bytes"]) == (0, 0, 0)
        await api.refused(422, "POST", f"/v1/computers/{pc.name}/restore", {})
        pc.kill()
        await online(api, pc.name, "away")
        pc.write("a/b", b"1")
        answer = await api.ok("POST", f"/v1/computers/{pc.name}/restore", {"exact": True})
        assert not answer["online"]
        pc.boot()
        check_laws(await play(api, answer["task_id"]))
        assert tree(pc.disk) == {}


@pytest.mark.deep
async def test_a_computer_that_is_away_cannot_be_read_and_is_waited_for(server: Server, tmp_path: Path) -> None:
    """A backup is refused with a sentence; a restoration is taken on, says what it waits for, and is done."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        before = filled(pc)
        await booted(api, pc)
        await back_up(api, pc.name)
        pc.kill()
        await online(api, pc.name, "away")
        spoiled(pc)
        error = await api.refused(409, "POST", f"/v1/computers/{pc.name}/backups", {})
        assert "is away, so nothing on it can be read" in error["message"]
        preview = await api.ok("POST", f"/v1/computers/{pc.name}/restore", {"dry_run": True})
        assert (preview["online"], preview["came_since"]) == (False, None)
        assert {one["verdict"] for one in preview["places"]} == {"away"}
        answer = await api.ok("POST", f"/v1/computers/{pc.name}/restore", {"exact": True})
        pc.boot()
        check_laws(await play(api, answer["task_id"]))
        assert tree(pc.disk) == before


@pytest.mark.deep
async def test_a_computer_whose_disk_is_full_is_not_said_to_have_gone(fresh_server: Server, tmp_path: Path) -> None:
    """It is there and can write down no call: the refusal says why, and once there is room it is backed up.

    When it dials anew, it cannot write down its welcome either and hangs up: the doctor is told why.
    """
    server = fresh_server
    server.start()
    api = server.api()
    async with computer(server, tmp_path) as pc:
        await booted(api, pc)
        # It is online when its welcome goes out, and has read that when a call came back.
        await back_up(api, pc.name)
        pc.write("full", bytes(2_000_000))
        error = await api.refused(422, "POST", f"/v1/computers/{pc.name}/backups", {})
        assert "cannot be read now" in error["message"]
        assert "went away" not in error["message"]
        assert "Make room on its disk" in error["remedy"]
        server.kill()
        server.start()
        api = server.api()
        (why,) = {(one["computer"], one["code"], one["message"], one["remedy"]) for one in await turned_away(api)}
        assert why[:2] == (pc.name, "journal_failed")
        assert why[2].startswith("The journal cannot be written: ")
        assert "Make room on its disk" in why[3]
        (pc.disk / "full").unlink()
        await backed_up_again(api, pc.name)


@pytest.mark.deep
async def test_a_computer_that_goes_away_in_the_middle_leaves_no_half_of_a_backup(
    server: Server, tmp_path: Path
) -> None:
    """What was read is not read again; two backups at once are two."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        for number in range(60):
            pc.write(f"f{number}", b"%d\n" % number)
        # It dies at the start of the frame that comes then.
        await booted(api, pc, "--die-after-frame", "20")
        error = await api.refused(409, "POST", f"/v1/computers/{pc.name}/backups", {})
        assert "went away" in error["message"]
        assert (await api.ok("GET", f"/v1/computers/{pc.name}/backups"))["backups"] == []
        pc.kill()
        await booted(api, pc)
        one, two = await asyncio.gather(back_up(api, pc.name), back_up(api, pc.name))
        assert one["listing"] == two["listing"]
        assert one["backup_id"] != two["backup_id"]
        listed = (await api.ok("GET", f"/v1/computers/{pc.name}/backups"))["backups"]
        assert {each["backup_id"] for each in listed} == {one["backup_id"], two["backup_id"]}


@pytest.mark.deep
@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("kill", "kept"),
    [
        (Kill(3, "after", ("put_blob",)), 0),
        pytest.param(Kill(1, "before", ("add_backup",)), 0, marks=pytest.mark.deep),
        (Kill(1, "after", ("add_backup",)), 1),
    ],
    ids=["reading", "before the record", "after it"],
)
async def test_a_server_that_is_killed_in_the_middle(
    fresh_server: Server, tmp_path: Path, kill: Kill, kept: int
) -> None:
    """There is a whole backup or none, the audit finds nothing, and the next one is whole."""
    server = fresh_server
    server.start()
    async with computer(server, tmp_path) as pc:
        filled(pc)
        await booted(server.api(), pc)
        server.kill()
        server.start(kill)
        api = server.api()
        await online(api, pc.name)
        with pytest.raises(GONE):
            await back_up(api, pc.name)
        server.kill()
        server.start()
        api = server.api()
        await online(api, pc.name)
        listed = (await api.ok("GET", f"/v1/computers/{pc.name}/backups"))["backups"]
        assert len(listed) == kept
        assert (await api.ok("GET", "/v1/audit/verify"))["faults"] == []
        assert (await back_up(api, pc.name))["files"] == len(FILES)


async def test_a_restoration_goes_on_after_both_ends_were_killed(fresh_server: Server, tmp_path: Path) -> None:
    """The server dies in the middle of it, and the computer with it; then it is taken up and done."""
    server = fresh_server
    server.start()
    async with computer(server, tmp_path) as pc:
        before = filled(pc)
        await booted(server.api(), pc)
        await back_up(server.api(), pc.name)
        spoiled(pc)
        server.kill()
        server.start(Kill(8, "after"))
        api = server.api()
        await online(api, pc.name)
        answer = await api.ok("POST", f"/v1/computers/{pc.name}/restore", {"exact": True})
        with pytest.raises(GONE):
            await play(api, answer["task_id"])
        pc.kill()
        server.kill()
        server.start()
        pc.boot()
        api = server.api()
        decided: set[str] = set()
        async with asyncio.timeout(HANG_S):
            while (task := await api.task(answer["task_id"]))["result"] is None:
                request = task["request"]
                if request is not None and request["request_id"] not in decided:
                    decided.add(request["request_id"])
                    await api.resume(request["request_id"], "approve")
                await asyncio.sleep(0.02)
        items = await api.journal(answer["task_id"])
        check_laws(items)
        assert ended(items).status == "Completed"
        assert len(facts_of(items, facts.ToolStarted)) >= 6
        assert tree(pc.disk) == before


async def test_who_may(server: Server, tmp_path: Path) -> None:
    """A submitter backs up and puts back; a backup is removed by whoever made it or by an admin."""
    api, sam, rita = server.api(), await server.person("sam", "submitter"), await server.person("rita", "reviewer")
    async with computer(server, tmp_path) as pc:
        filled(pc)
        await booted(api, pc)
        path = f"/v1/computers/{pc.name}"
        await rita.refused(403, "POST", f"{path}/backups", {})
        await rita.refused(403, "POST", f"{path}/restore", {})
        mine, theirs = await back_up(sam, pc.name), await back_up(api, pc.name)
        assert (await sam.ok("POST", f"{path}/restore", {"dry_run": True}))["backup_id"] == theirs["backup_id"]
        await sam.refused(403, "DELETE", f"{path}/backups/{theirs['backup_id']}")
        assert (await sam.ok("DELETE", f"{path}/backups/{mine['backup_id']}"))["removed"]
        await sam.refused(404, "DELETE", f"{path}/backups/{mine['backup_id']}")
        await sam.refused(404, "GET", f"{path}/backups/b-nothing")
        await sam.refused(404, "POST", "/v1/computers/nowhere/backups", {})
        await sam.refused(422, "POST", f"{path}/backups", {"note": "two\nlines"})
        await sam.refused(403, "POST", "/v1/prune", {})
        assert [one["backup_id"] for one in (await rita.ok("GET", f"{path}/backups"))["backups"]] == [
            theirs["backup_id"]
        ]


@pytest.mark.deep
async def test_the_commands(server: Server, tmp_path: Path) -> None:
    """As somebody types them, in words and as JSON."""
    api = server.api()
    where = ("--url", server.url, "--data-dir", str(server.home))

    async def command(*arguments: str) -> str:
        done = await asyncio.to_thread(cli, tmp_path, *arguments, *where)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async with computer(server, tmp_path) as pc:
        before = filled(pc)
        await booted(api, pc)
        said = await command("backup", pc.name, "--note", "mine")
        assert f"files     {len(FILES)} with" in said
        assert "note      mine" in said
        made = json.loads(await command("backup", pc.name, "--json"))
        assert made["new_bytes"] == 0
        assert made["backup_id"] in await command("backups", "list", pc.name)
        assert made["backup_id"] in await command("backups", "list")
        shown = await command("backups", "show", made["backup_id"])
        assert "lib/deep/latin.txt" in shown
        spoiled(pc)
        said = await command("restore", pc.name, "--dry-run")
        assert f"put back  {pc.name}:startup.lua" in said
        assert "2 came since and stay." in said
        *_, left = (await command("restore", pc.name, "--detach")).splitlines()
        await api.ok("POST", f"/v1/tasks/{left.removeprefix('task ')}/cancel", {})
        following = asyncio.create_task(command("restore", pc.name, "--exact", "--json"))
        async with asyncio.timeout(HANG_S):
            while not following.done():
                for request_id in await _asked(api, pc.name):
                    await api.call("POST", f"/v1/approve/{request_id}")
                await asyncio.sleep(0.05)
        await following
        assert tree(pc.disk) == before
        assert "removed" in await command("backups", "remove", made["backup_id"])
        away = await asyncio.to_thread(cli, tmp_path, "backups", "show", "b-nothing", *where)
        assert (away.returncode, "There is no backup" in away.stderr) == (4, True)


async def _asked(api: Api, name: str) -> list[str]:
    """The open requests about a computer."""
    found = (await api.ok("GET", "/v1/requests"))["requests"]
    return [one["request_id"] for one in found if any(call["computer"] == name for call in one["tool_calls"])]
