"""Two versions side by side: what a newer node writes, an older one leaves alone, and says so."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness.processes import prompt
from tests.servers import PostgresServer
from tests.story.harness import Api, final, last_words, tool
from tests.story.newer import newer as newer_store
from tests.story.school import POLICY, Node, Stub, running, stub_at
from tests.waiting import HANG_S

pytestmark = pytest.mark.deep

LEASE_S: Final = 2.0
AGAIN_AFTER: Final = timedelta(seconds=58)
"""A task that is left to others is looked at again after a minute."""


@asynccontextmanager
async def _nodes(tmp: Path, url: str) -> AsyncIterator[tuple[Node, Node]]:
    """An older node that runs, and a newer one that is not started yet."""
    options = {"store": url, "bus": url, "lease_s": LEASE_S, "grace_s": 0.5, "drain_s": 3.0}
    older = Node(tmp / "older", {**options, "node": "older"})
    newer = Node(tmp / "newer", {**options, "node": "newer"}, wrap_store=newer_store)
    try:
        older.home.mkdir()
        (older.home / "policy.toml").write_text(POLICY, "utf-8")
        await older.start()
        yield older, newer
    except BaseException as error:
        error.add_note(last_words(*(one.home / "server.log" for one in (older, newer))))
        raise
    finally:
        for node in (older, newer):
            node.kill()


async def _completed(api: Api, *task_ids: str) -> None:
    """Until these tasks have, as lists say."""
    async with asyncio.timeout(HANG_S):
        while True:
            rows = (await api.ok("GET", "/v1/tasks"))["tasks"]
            status = {row["task_id"]: row["status"] for row in rows}
            if all(status[task_id] == "Completed" for task_id in task_ids):
                return
            await asyncio.sleep(0.05)


async def _submitted(api: Api, *words: str) -> str:
    script = (*(tool("cc_run_program", path="append.lua", args=[word]) for word in words), final())
    body = {"prompt": prompt(*script), "computers": ("c1",)}
    return str((await api.ok("POST", "/v1/tasks", body))["task_id"])


def _left(node: Node) -> set[str]:
    """The tasks that it left to others: each by two workers a minute at most, and nothing worse is in its log."""
    lines = (node.home / "server.log").read_text("utf-8").splitlines()
    assert not [line for line in lines if "Traceback" in line or "defect" in line or "stops for now" in line]
    times: dict[str, list[datetime]] = {}
    for line in lines:
        if "is left to others" in line:
            at = datetime.strptime(line[: len("2026-01-01 00:00:00")], "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 - one machine
            times.setdefault(line.split(" task ")[1].split()[0], []).append(at)
    for one in times.values():
        # One worker may have taken it while another one was leaving it; who spins does so hundreds of times.
        assert len(one) <= 2 * (1 + (one[-1] - one[0]) // AGAIN_AFTER), times
    return set(times)


async def _check_endpoints(api: Api, task_id: str) -> None:
    """What an older node says of a task of the newer one, and that all else answers."""
    for method, path in (("GET", ""), ("POST", "/cancel"), ("GET", "/events"), ("GET", "/changes")):
        answer = await api.call(method, f"/v1/tasks/{task_id}{path}", {} if method == "POST" else None)
        assert answer.status_code == 503, f"{path}: {answer.text}"
        error = answer.json()["error"]
        assert (error["code"], "newer version" in error["message"]) == ("newer_schema", True)
    for path in ("/healthz", "/v1/tasks", "/v1/requests", "/v1/computers", "/v1/nodes", "/metrics", "/v1/grants"):
        assert (await api.call("GET", path)).is_success, path
    assert (await api.call("POST", "/v1/stop", {})).is_success
    found = (await api.ok("GET", "/v1/audit/verify"))["faults"]
    assert found
    assert {fault["what"] for fault in found} == {"newer"}


async def test_an_older_node_leaves_alone_what_a_newer_one_writes(tmp_path: Path) -> None:
    """Neither it nor its computers get in the way; without a newer node the task waits for one."""
    with PostgresServer() as postgres:
        url = postgres.url(await postgres.new_database())
        async with _nodes(tmp_path, url) as (older, newer):
            token = (older.home / "admin.token").read_text("utf-8").strip()
            old = Api(older.url, token)
            made = await old.ok("POST", "/v1/tokens", {"kind": "computer", "name": "c1"})
            stub = stub_at(older.url, "c1", made["token"], 1)
            async with running([stub]):
                until = tmp_path / "think"
                begun = await _waiting(old, "mid", until)
                await newer.start()
                new = Api(newer.url, token)
                await _taken_over(old, new, begun, until)
                assert begun in _left(older)
                await _side_by_side(old, new, older, newer, stub)
            await old.http.aclose()
            await new.http.aclose()


async def _taken_over(old: Api, new: Api, begun: str, until: Path) -> None:
    """An older node acts for a task when a newer one adds what it does not know: it stops there, the newer goes on."""
    assert (await new.call("POST", f"/v1/tasks/{begun}/pin", {})).is_success
    await asyncio.to_thread(until.touch)
    await _completed(old, begun)


async def _side_by_side(old: Api, new: Api, older: Node, newer: Node, stub: Stub) -> None:
    at_new = [await _submitted(new, f"new-{number}", f"again-{number}") for number in range(3)]
    at_old = [await _submitted(old, f"old-{number}") for number in range(3)]
    await _completed(old, *at_new, *at_old)
    wanted = Counter([*(f"{word}-{number}" for word in ("new", "again", "old") for number in range(3)), "mid"])
    assert Counter(stub.lines()) == wanted
    await _check_endpoints(old, at_new[0])
    shown: dict[str, Any] = await new.ok("GET", f"/v1/tasks/{at_new[0]}")
    assert shown["status"] == "Completed"
    _left(older)

    # One that waits for its computer while every newer node is gone: it is nobody's, and nobody spins.
    until = older.home / "go"
    waiting = await _waiting(new, "last", until)
    assert await newer.stop() == 0
    await asyncio.to_thread(until.touch)
    async with asyncio.timeout(HANG_S):
        while waiting not in _left(older):  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.05)
    await newer.start()
    await _completed(old, waiting)
    assert Counter(stub.lines()) == wanted + Counter(["last"])
    _left(older)


async def _waiting(api: Api, word: str, until: Path) -> str:
    """A task whose model says its second word only once a file is there."""
    first = tool("cc_run_program", path="append.lua", args=[word])
    body = {"prompt": prompt(first, {**final(), "until": str(until)}), "computers": ("c1",)}
    task_id = str((await api.ok("POST", "/v1/tasks", body))["task_id"])
    async with asyncio.timeout(HANG_S):
        while (await api.task(task_id))["steps"] < 1:  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.05)
    return task_id
