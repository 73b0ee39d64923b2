"""Backups and copies with the real client: a disk put back, a store put back, a world copied."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task import facts
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
)
from tests.waiting import HANG_S

OLD, NEW = b"print('the old one')\n", b"print('the new one')\n"
WRITE = tool("cc_write", path="f.lua", content=NEW.decode())


async def _until(api: Api, name: str, state: str) -> dict[str, Any]:
    """The computer, once it is in this state."""
    async with asyncio.timeout(HANG_S):
        while True:
            listed = (await api.ok("GET", "/v1/computers"))["computers"]
            shown: dict[str, Any] = next(one for one in listed if one["computer"] == name)
            if shown["state"] == state:
                return shown
            await asyncio.sleep(0.05)


async def _released(api: Api, pc: Computer) -> None:
    """A person lets it come back; it is booted, since it dials only each 12 s when it was refused."""
    assert (await api.ok("POST", f"/v1/computers/{pc.name}/release"))["released"]
    pc.kill()
    pc.boot()
    await _until(api, pc.name, "online")


async def _works(api: Api, pc: Computer) -> None:
    """A task goes through, and the file is as it says."""
    items = await play(api, await api.submit(WRITE, final(), computers=(pc.name,)))
    check_laws(items)
    assert ended(items).status == "Completed"
    assert pc.read("f.lua") == NEW


async def test_a_disk_that_is_put_back_is_frozen_until_a_person_releases_it(server: Server, tmp_path: Path) -> None:
    """The write is gone with the disk; nothing more is sent until the release; then the computer works as before."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("f.lua", OLD)
        pc.boot()
        # The client has written its first welcome before it works. A disk that is copied earlier has no journal yet:
        # the server calls it lost, and not put back.
        await _works(api, pc)
        pc.write("f.lua", OLD)
        backup = tmp_path / "backup"
        shutil.copytree(pc.disk, backup)
        await _works(api, pc)
        pc.kill()
        shutil.rmtree(pc.disk)
        shutil.copytree(backup, pc.disk)
        pc.boot()
        frozen = (await _until(api, pc.name, "frozen"))["frozen"]
        assert frozen["reason"] == "disk_restored"
        waiting = await api.submit(WRITE, final(), computers=(pc.name,))
        await api.first(waiting, "calls_proposed")
        assert "frozen until a person releases it" in (await api.task(waiting))["status_reason"]
        await _released(api, pc)
        items = await play(api, waiting)
        assert ended(items).status == "Completed"
        assert pc.read("f.lua") == NEW


@pytest.mark.deep
async def test_a_change_under_way_when_the_disk_was_put_back_is_unknown(server: Server, tmp_path: Path) -> None:
    """The program ran and went with the disk: nobody says that it never ran; a person is asked."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        program = b"local f = fs.open('ran.log', 'a') f.write('ran') f.close() os.pullEvent('never')\n"
        pc.write("p.lua", program)
        pc.write("f.lua", OLD)
        pc.boot()
        await _works(api, pc)
        backup = tmp_path / "backup"
        shutil.copytree(pc.disk, backup)
        await _works(api, pc)
        task_id = await api.submit(tool("cc_run_program", path="p.lua"), final(), computers=(pc.name,))
        asked = await api.first(task_id, "review_requested")
        await api.resume(asked.request_id, "approve")
        async with asyncio.timeout(HANG_S):
            while not pc.read("ran.log"):  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.01)
        pc.kill()
        shutil.rmtree(pc.disk)
        shutil.copytree(backup, pc.disk)
        pc.boot()
        await _until(api, pc.name, "frozen")
        await _released(api, pc)
        unknown = await api.first(task_id, "review_requested", place=2)
        assert (await api.task(task_id))["status_reason"] == "outcome_unknown"
        await api.resume(unknown.request_id, "mark_failed")
        items = await api.journal(task_id)
        check_laws(items)
        assert [one.state for one in facts_of(items, facts.ToolSettled)] == ["unknown"]
        assert pc.read("ran.log") is None


@pytest.mark.deep
async def test_a_store_that_is_put_back_freezes_its_computers(fresh_server: Server, tmp_path: Path) -> None:
    """The computer has seen numbers that the store never allotted; released, it works on, above them all."""
    server = fresh_server
    server.start()
    async with computer(server, tmp_path) as pc:
        api = server.api()
        pc.write("f.lua", OLD)
        pc.boot()
        await _until(api, pc.name, "online")
        pc.kill()
        server.kill()
        backup = tmp_path / "backup"
        shutil.copytree(server.home, backup)
        server.start()
        pc.boot()
        api = server.api()
        await _until(api, pc.name, "online")
        await _works(api, pc)
        server.kill()
        shutil.rmtree(server.home)
        shutil.copytree(backup, server.home)
        server.start()
        api = server.api()
        frozen = (await _until(api, pc.name, "frozen"))["frozen"]
        assert frozen["reason"] == "store_restored"
        assert frozen["facts"]["highest"] > frozen["facts"]["number"]
        await _released(api, pc)
        pc.write("f.lua", OLD)
        await _works(api, pc)


async def test_a_copied_world_freezes_both_and_one_of_them_stays(server: Server, tmp_path: Path) -> None:
    """Two clients on two copies of one disk answer at once; with the other switched off, one is released and works."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("f.lua", OLD)
        pc.boot()
        await _until(api, pc.name, "online")
        copy = Computer(pc.name, tmp_path / "copy", pc.token, pc.url)
        shutil.copytree(pc.disk, copy.disk)
        try:
            copy.boot()
            frozen = (await _until(api, pc.name, "frozen"))["frozen"]
            assert frozen["reason"] == "two_computers"
            assert len({one["boot"] for one in frozen["sides"]}) == 2
        finally:
            copy.kill()
        await _released(api, pc)
        await _works(api, pc)


async def test_a_reboot_freezes_nothing(server: Server, tmp_path: Path) -> None:
    """A killed computer that is back before its connection was missed is the same one."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("f.lua", OLD)
        pc.boot()
        await _until(api, pc.name, "online")
        for _ in range(3):
            pc.kill()
            pc.boot()
        await _until(api, pc.name, "online")
        await _works(api, pc)


@pytest.mark.deep
async def test_a_second_client_on_one_computer_takes_over_and_freezes_nothing(server: Server, tmp_path: Path) -> None:
    """The first sees that another has its journal, does not answer for it any more, and ends."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("f.lua", OLD)
        pc.boot()
        await _until(api, pc.name, "online")
        second = Computer(pc.name, pc.disk, pc.token, pc.url)
        try:
            first = (await api.ok("GET", f"/v1/computers/{pc.name}"))["last"]["boot"]
            second.boot()
            async with asyncio.timeout(HANG_S):
                while (shown := await api.ok("GET", f"/v1/computers/{pc.name}"))["last"]["boot"] == first:
                    assert shown["state"] != "frozen"
                    await asyncio.sleep(0.05)
            await _works(api, pc)
        finally:
            second.kill()
