"""Retention with a real server: tasks and their bytes go, what is kept for somebody stays, and the audit is whole."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.commands import cli, on_a_terminal
from tests.harness.processes import Kill
from tests.story.harness import Api, Server, check_laws, computer, ended, final, play, tool, tree
from tests.waiting import HANG_S

pytestmark = pytest.mark.deep

BIG = b"x" * 100_000


async def settled(api: Api, *task_ids: str) -> None:
    """Wait until nobody acts for these tasks any more, so that they could be pruned."""
    async with asyncio.timeout(HANG_S):
        while True:
            seen = await api.ok("POST", "/v1/prune", {"older_than_days": 0, "dry_run": True})
            if set(task_ids) <= {one["task_id"] for one in seen["tasks"]}:
                return
            await asyncio.sleep(0.02)


async def pruned(api: Api, *task_ids: str, **rule: Any) -> list[str]:
    """Prune until these tasks are gone: somebody may still be letting go of them."""
    gone: list[str] = []
    async with asyncio.timeout(HANG_S):
        while not set(task_ids) <= set(gone):
            gone += [one["task_id"] for one in (await api.ok("POST", "/v1/prune", rule))["tasks"]]
    return gone


async def test_what_is_pruned_and_what_is_kept(fresh_server: Server, tmp_path: Path) -> None:
    """A paused task, a pinned one and what they refer to stay; the audit is whole; an undo says what became of it."""
    server = fresh_server
    server.start()
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("a.lua", b"one\n")
        pc.boot()
        tasks = []
        for content in ("print('two')\n", "print('three')\n", "print('four')\n"):
            write = tool("cc_write", path="a.lua", content=content)
            tasks.append(await api.submit(write, final(), computers=(pc.name,)))
            check_laws(await play(api, tasks[-1]))
        first, second, third = tasks
        assert (await api.ok("POST", f"/v1/tasks/{second}/pin"))["pinned"]
        waiting = await api.submit(tool("cc_write", path="b.lua", content="return 1\n"), final(), computers=(pc.name,))
        await api.first(waiting, "review_requested")
        undo = (await api.ok("POST", f"/v1/tasks/{third}/undo", {}))["task_id"]
        await api.first(undo, "review_requested")
        assert await pruned(api, first, older_than_days=0) == [first]
        listed = {one["task_id"]: one["pinned"] for one in (await api.ok("GET", "/v1/tasks"))["tasks"]}
        assert listed == {second: True, third: False, waiting: False, undo: False}
        error = await api.refused(404, "POST", f"/v1/tasks/{first}/undo", {})
        assert f"Task {first} was pruned on" in error["message"]
        for path in (f"/v1/tasks/{first}", f"/v1/tasks/{first}/changes", f"/v1/audit?task={first}"):
            assert "was pruned" in (await api.refused(404, "GET", path))["message"]
        notes = (await api.ok("GET", "/v1/audit", system="1", kind="task_pruned"))["items"]
        assert [one["fact"]["task_id"] for one in notes] == [first]
        assert notes[0]["actor"]["id"] == "admin"
        assert (await api.ok("GET", "/v1/audit/verify"))["faults"] == []
        server.kill()
        server.start()
        api = server.api()
        assert (await api.ok("GET", "/v1/audit/verify"))["faults"] == []
        items = await play(api, undo)
        assert ended(items).status == "Completed"
        assert pc.read("a.lua") == b"print('three')\n"
        check_laws(await play(api, waiting))
        assert pc.read("b.lua") == b"return 1\n"
        assert not (await api.ok("POST", f"/v1/tasks/{second}/unpin"))["pinned"]
        await pruned(api, second, third, waiting, undo, older_than_days=0)
        assert (await api.ok("GET", "/v1/tasks"))["tasks"] == []
        assert (await api.ok("GET", "/v1/audit/verify"))["faults"] == []


async def test_a_backup_outlives_the_tasks_and_can_be_put_back(fresh_server: Server, tmp_path: Path) -> None:
    """Its bytes are no task's; with the backup removed they wait for the next prune."""
    server = fresh_server
    server.start()
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("lib/a.lua", b"mine\n")
        before = tree(pc.disk)
        pc.boot()
        task_id = await api.submit(tool("cc_delete", path="lib"), final(), computers=(pc.name,))
        await api.first(task_id, "review_requested")
        made = await api.ok("POST", f"/v1/computers/{pc.name}/backups", {})
        check_laws(await play(api, task_id))
        await pruned(api, task_id, older_than_days=0)
        answer = await api.ok("POST", f"/v1/computers/{pc.name}/restore", {})
        check_laws(await play(api, answer["task_id"]))
        assert tree(pc.disk) == before
        path = f"/v1/computers/{pc.name}/backups/{made['backup_id']}"
        assert (await api.ok("DELETE", path))["removed"]
        assert (await api.ok("GET", "/v1/audit/verify"))["faults"] == []


async def test_pruning_is_cut_by_a_kill_and_taken_up(fresh_server: Server, tmp_path: Path) -> None:
    """Whole tasks are gone or whole tasks are there, each with its note."""
    server = fresh_server
    server.start()
    api = server.api()
    tasks = [await api.submit(final()) for _ in range(4)]
    for task_id in tasks:
        await api.journal(task_id)
    await settled(api, *tasks)
    server.kill()
    server.start(Kill(2, "after", ("prune_task",)))
    with pytest.raises(httpx2.TransportError):
        await server.api().call("POST", "/v1/prune", {"older_than_days": 0})
    server.kill()
    server.start()
    api = server.api()
    left = {one["task_id"] for one in (await api.ok("GET", "/v1/tasks"))["tasks"]}
    notes = (await api.ok("GET", "/v1/audit", system="1", kind="task_pruned"))["items"]
    assert len(left) == 2
    assert {one["fact"]["task_id"] for one in notes} == set(tasks) - left
    assert (await api.ok("GET", "/v1/audit/verify"))["faults"] == []
    assert set(await pruned(api, *left, older_than_days=0)) == left


async def test_the_disk_gets_its_space_back(fresh_server: Server, tmp_path: Path) -> None:
    """What was swept leaves the file of the store, and the commands say how much that was."""
    server = fresh_server
    server.start()
    api = server.api()
    where = ("--url", server.url, "--data-dir", str(server.home))
    async with computer(server, tmp_path) as pc:
        for number in range(4):
            pc.write(f"f{number}", BIG + b"%d" % number)
        pc.boot("--capacity", "50000000")
        task_id = await api.submit(*(tool("cc_delete", path=f"f{n}") for n in range(4)), final(), computers=(pc.name,))
        check_laws(await play(api, task_id))
    done = await asyncio.to_thread(cli, tmp_path, "tasks", "pin", task_id, *where)
    assert (done.returncode, done.stdout) == (0, f"task {task_id} is pinned\n")
    shown = await asyncio.to_thread(cli, tmp_path, "tasks", "show", task_id, *where)
    assert "it is pinned" in shown.stdout
    assert "pinned" in (await asyncio.to_thread(cli, tmp_path, "tasks", *where)).stdout
    done = await asyncio.to_thread(cli, tmp_path, "tasks", "unpin", task_id, "--json", *where)
    assert json.loads(done.stdout)["pinned"] is False
    await settled(api, task_id)
    seen = await asyncio.to_thread(cli, tmp_path, "prune", "--down-to", "100K", "--dry-run", *where)
    assert f"{task_id} would go: down to 102400 bytes" in seen.stdout
    assert "1 tasks and 0 blobs would be removed" in seen.stdout, "the bytes were put a moment ago"
    server.kill()
    database = server.home / "orchestrator.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE blob_marks SET touched = touched - 7200000000")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = database.stat().st_size
    assert size > 4 * len(BIG)
    server.start()
    await _is_asked_for(tmp_path, task_id, where)
    assert (await api.task(task_id))["status"] == "Completed"
    done = await asyncio.to_thread(cli, tmp_path, "prune", "--down-to", "100K", "--json", "--yes", *where)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["bytes"] >= 4 * len(BIG)
    assert told["left"] < 100_000
    shown = await asyncio.to_thread(cli, tmp_path, "audit", "show", "--system", "--kind", "task_pruned", *where)
    assert task_id in shown.stdout
    assert "down to 102400 bytes" in shown.stdout
    server.kill()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert database.stat().st_size < size - 3 * len(BIG)
    for wrong in ("many", "-1", "5T"):
        assert (await asyncio.to_thread(cli, tmp_path, "prune", "--down-to", wrong, *where)).returncode == 2


async def _is_asked_for(tmp_path: Path, task_id: str, where: tuple[str, ...]) -> None:
    """A prune says what would go, and takes a yes; where nobody can be asked it takes the flag."""
    alone = await asyncio.to_thread(cli, tmp_path, "prune", "--down-to", "100K", "--json", *where)
    assert (alone.returncode, alone.stdout) == (2, "")
    assert "1 task would go for good" in alone.stderr
    assert "Say --yes to remove them, or --dry-run to see which." in alone.stderr
    with on_a_terminal(tmp_path, "prune", "--down-to", "100K", *where) as terminal:
        await asyncio.to_thread(terminal.expect, f"{task_id} would go: down to 102400 bytes")
        await asyncio.to_thread(terminal.expect, "Remove them? [y/N] ")
        terminal.type("\n")
        assert await asyncio.to_thread(terminal.end) == 0
        assert "Nothing was removed." in terminal.text
