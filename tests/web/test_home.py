"""The endpoints of the first view: what tasks did when, and figures over time, on a real server."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.core.wire import wire
from orchestrator.web import analytics, home
from tests.harness.endpoints import Writing
from tests.harness.support import Disk, dialed
from tests.harness.whole_server import Server, connected, running
from tests.web.test_web import refused


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server whose model writes a file on computer 3, which is connected."""
    async with running(tmp_path, model=Writing()) as server, connected(server, "3", Disk({"a.lua": b"old\n"})):
        yield server


async def approved(server: Server) -> str:
    """A task that a person approved, and that is over."""
    task_id = await server.submit()
    request = await server.paused(task_id)
    answer = await server.ask("POST", f"/v1/approve/{request['request_id']}", {})
    assert answer.status_code in (200, 202)
    await server.until(task_id, "task_ended")
    return task_id


async def test_a_timeline_says_what_a_task_does_and_did(server: Server) -> None:
    """While it waits for a person it says so; then each segment begins where the one before ends."""
    waiting = await server.submit()
    await server.paused(waiting)
    told = (await server.ask("GET", "/v1/timeline")).json()
    (row,) = told["tasks"]
    assert (row["task_id"], row["status"], row["doing"], row["ended_at"]) == (waiting, "Paused", "waiting", None)
    assert row["segments"][-1]["until"] is None
    await server.ask("POST", f"/v1/tasks/{waiting}/cancel", {})
    over = await approved(server)
    rows = {one["task_id"]: one for one in (await server.ask("GET", "/v1/timeline?limit=5&hours=1")).json()["tasks"]}
    assert rows[waiting]["doing"] is rows[over]["doing"] is None
    assert rows[over]["ended_at"] is not None
    segments = rows[over]["segments"]
    assert {"thinking", "waiting", "running"} <= {one["doing"] for one in segments}
    assert [one["until"] for one in segments[:-1]] == [one["since"] for one in segments[1:]]
    assert (await server.ask("GET", f"/v1/tasks/{over}/timeline")).json() == rows[over]
    (last,) = (await server.ask("GET", "/v1/timeline?limit=1")).json()["tasks"]
    assert last["task_id"] == over


async def test_a_journal_is_read_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look at what did not change reads no item; one that is too long is left out, and counted."""
    task_id = await approved(server)
    await server.ask("GET", "/v1/timeline")
    read: list[str] = []
    store = server.orchestrator.store
    reads = store.read

    async def noted(task: str, after_version: int = 0) -> object:
        read.append(task)
        return await reads(task, after_version)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "read", noted)
    assert (await server.ask("GET", "/v1/timeline")).json()["left_out"] == 0
    assert (await server.ask("GET", "/v1/trends")).json()["tasks"] == 1
    assert task_id not in read
    monkeypatch.setattr(home, "MOST_ITEMS", 3)
    long = await approved(server)
    told = (await server.ask("GET", "/v1/timeline")).json()
    assert (told["left_out"], [one["task_id"] for one in told["tasks"]]) == (1, [task_id])
    refused(await server.ask("GET", f"/v1/tasks/{long}/timeline"), 422, "invalid_request")


@pytest.mark.parametrize(("by", "count", "hours"), [("hour", 24, 1), ("day", 30, 24)])
async def test_figures_are_counted_in_the_hour_in_which_they_came(
    server: Server, by: str, count: int, hours: int
) -> None:
    """Every bucket is there, the last one is now; what ended is in it by its outcome."""
    await approved(server)
    canceled = await server.submit()
    await server.paused(canceled)
    await server.ask("POST", f"/v1/tasks/{canceled}/cancel", {})
    told = (await server.ask("GET", f"/v1/trends?by={by}")).json()
    begins = [datetime.fromisoformat(one["at"]) for one in told["buckets"]]
    assert len(begins) == count
    assert {later - sooner for sooner, later in pairwise(begins)} == {timedelta(hours=hours)}
    # An hour may have ended while the test ran.
    ended = sum(one["completed"] + one["unverified"] for one in told["buckets"][-2:])
    assert (ended, sum(one["canceled"] for one in told["buckets"][-2:])) == (1, 1)
    assert sum(one["decisions"] for one in told["buckets"]) == 1
    assert all((one["reply_s"] is None) == (one["replies"] == 0) for one in told["buckets"])
    assert (told["tasks"], told["by"]) == (2, by)


async def test_only_the_last_tasks_are_looked_at(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more than that, the answer says since when none is missing."""
    monkeypatch.setattr(home, "MOST_TASKS", 2)
    for _ in range(3):
        await approved(server)
    told = (await server.ask("GET", "/v1/trends")).json()
    assert (told["tasks"], told["most"]) == (2, 2)
    assert datetime.fromisoformat(told["since"]) > datetime.fromisoformat(told["buckets"][0]["at"])


@pytest.mark.parametrize("path", ["/v1/trends?by=week", "/v1/timeline?limit=51", "/v1/timeline?hours=0"])
async def test_what_cannot_be_asked_is_refused(server: Server, path: str) -> None:
    refused(await server.ask("GET", path), 422, "invalid_request")


async def test_a_computer_is_told_with_its_fuel_and_place(server: Server) -> None:
    """As it told them last, with the time at which it knew its place."""
    async with dialed(server.url, await server.computer("digger")) as client:
        await client.greet(capabilities=(wire.WHERE,))
        pong = wire.Pong(journal_seq=3, n=1, fuel=740, fuel_limit=20_000, at=(12, 64, -30), at_age_s=60)
        await client.send(pong)
        await client.socket.send(b"no frame")
        await client.hear("error")
        told = (await server.ask("GET", "/v1/computers/digger")).json()
    assert (told["fuel"], told["fuel_limit"]) == (740, 20_000)
    at = datetime.fromisoformat(told["position"].pop("at"))
    assert told["position"] == {"x": 12, "y": 64, "z": -30}
    assert at < datetime.now(UTC) - timedelta(seconds=59)


async def test_figures_about_decisions(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """By rule, tool and person, for those who read the audit; a journal that did not grow is read once."""
    await approved(server)
    canceled = await server.submit()
    await server.paused(canceled)
    await server.ask("POST", f"/v1/tasks/{canceled}/cancel", {})
    told = (await server.ask("GET", "/v1/analytics")).json()
    assert (told["tasks"], told["left_out"]) == (2, 0)
    assert {name: told["all"][name] for name in ("calls", "approved", "dropped")} == {
        "calls": 2,
        "approved": 1,
        "dropped": 1,
    }
    assert told["all"]["p95_s"] >= told["all"]["median_s"] > 0
    assert [(one["name"], one["calls"]) for one in told["by_tool"]] == [("cc_write", 2)]
    assert [(one["name"], one["calls"]) for one in told["by_rule"]] == [("changing", 2)]
    assert [(one["name"], one["approved"]) for one in told["by_person"]] == [("admin", 1)]
    refused(await server.ask("GET", "/v1/analytics", token=await server.person("sam")), 403, "forbidden")
    refused(await server.ask("GET", "/v1/analytics?days=0"), 422, "invalid_request")
    rob = await server.person("rob", "reviewer")
    assert (await server.ask("GET", "/v1/analytics?days=1", token=rob)).json()["all"] == told["all"]
    monkeypatch.setattr(analytics, "MOST_ITEMS", 3)
    assert (await server.ask("GET", "/v1/analytics")).json()["all"] == told["all"]
    await approved(server)
    assert (await server.ask("GET", "/v1/analytics")).json()["left_out"] == 1
