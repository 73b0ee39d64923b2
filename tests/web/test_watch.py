"""``/v1/watch``: who watches hears of every change within a moment, as one hint however often it changed."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.ports.bus import Hear
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.rehearsal import copy_name
from orchestrator.core.wire.wire import ComputerId
from orchestrator.web import watch
from orchestrator.web.watch import APART_S, MOST_WAITING
from tests.harness.browsing import plain, signed_in
from tests.harness.endpoints import Writing, blocks_of
from tests.harness.support import Disk, dialed
from tests.harness.whole_server import Server, connected, running
from tests.waiting import HANG_S, within
from tests.web.test_web import refused

Events = AsyncIterator[tuple[str, dict[str, Any]]]


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream says nothing by itself, so that what ends it is not the next comment."""
    monkeypatch.setattr(watch, "KEEP_ALIVE_S", 10 * HANG_S)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server whose model writes a file."""
    async with running(tmp_path, model=Writing()) as server:
        yield server


@asynccontextmanager
async def watching(server: Server, **headers: str) -> AsyncIterator[Events]:
    """The events of an open stream after its hello; the admin's token unless headers say otherwise."""
    sent = headers or {"Authorization": f"Bearer {server.admin}"}
    async with asyncio.timeout(HANG_S), server.http.stream("GET", "/v1/watch", headers=sent) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        events = events_in(blocks_of(answer))
        kind, data = await anext(events)
        assert (kind, set(data)) == ("hello", {"version", "name", "roles", "model"})
        yield events


async def events_in(blocks: AsyncIterator[str]) -> Events:
    """Kind and data of each; a comment is none."""
    async for block in blocks:
        if not block.startswith(":"):
            kind, _, data = block.partition("\n")
            yield kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def until(events: Events, kind: str, **wanted: object) -> list[dict[str, Any]]:
    """The data of a kind up to the first in which all this stands."""
    found = []
    async for one, data in events:
        if one == kind:
            found.append(data)
            if wanted.items() <= data.items():
                return found
    raise AssertionError(f"the stream ended before {kind} {wanted}: {found}")


def publish(server: Server, subject: str, **payload: object) -> None:
    """A hint from within."""
    server.orchestrator.service.bus.publish(subject, payload)


# -- what is told ------------------------------------------------------------------------


async def test_a_page_hears_of_tasks_and_computers(server: Server) -> None:
    """Steps lead to the task's last version; a computer that comes, goes, is renamed, made or revoked is named."""
    tab = await signed_in(server, await server.person("bob", "viewer"))
    async with watching(server, Cookie=tab.cookie) as events:
        token = await server.computer("3")
        assert await until(events, "computers") == [{"computer": "3"}]
        async with connected(server, "3", Disk({"a.lua": b"old\n"}), token):
            await until(events, "computers", computer="3")
            task_id = await server.submit()
            request = await server.paused(task_id)
            version = (await server.orchestrator.service.load(TaskId(task_id))).version
            told = await until(events, "tasks", task_id=task_id, version=version)
            assert [set(one) for one in told] == [{"task_id", "version"}] * len(told)
            assert [one["version"] for one in told] == sorted({one["version"] for one in told})
            await server.ask("POST", f"/v1/reject/{request['request_id']}")
            await until(events, "tasks", task_id=task_id)
        await until(events, "computers", computer="3")
        async with dialed(server.url, token) as client:
            await client.greet(label="mine")
            await until(events, "computers", computer="3")
            (shown,) = (await tab.ask("GET", "/v1/computers")).json()["computers"]
            assert shown["label"] == "mine"
        await until(events, "computers", computer="3")
        await server.ask("DELETE", "/v1/tokens/computer/3")
        await until(events, "computers", computer="3")


async def test_a_page_hears_of_a_computer_that_was_paired_and_released(server: Server) -> None:
    """Also of one that has never been here."""
    async with watching(server) as events:
        code = (await server.ask("POST", "/v1/pairings", {"computer": "5"})).json()["code"]
        await server.http.post("/v1/pair", json={"code": code, "computer_id": 5})
        assert await until(events, "computers") == [{"computer": "5"}]
        assert (await server.ask("POST", "/v1/computers/5/release")).status_code == 200
        assert await until(events, "computers") == [{"computer": "5"}]


async def test_the_copy_name_a_rehearsal_is_nobodys_to_see(server: Server) -> None:
    """It is in no list of computers."""
    async with watching(server) as events:
        publish(server, "computers", computer=copy_name(ComputerId("3"), "0a1b2c3d"))
        publish(server, "computers", computer="4")
        assert await anext(events) == ("computers", {"computer": "4"})


async def test_only_people_watch(server: Server) -> None:
    """A program follows its own tasks; a page of another site sees nothing."""
    bot = (await server.ask("POST", "/v1/tokens", {"kind": "agent", "name": "bot", "roles": ["submitter"]})).json()
    refused(await server.ask("GET", "/v1/watch", token=bot["token"]), 403, "forbidden")
    refused(await plain(server, "GET", "/v1/watch"), 401, "unauthenticated")
    tab = await signed_in(server)
    refused(await tab.ask("GET", "/v1/watch", Sec_Fetch_Site="cross-site"), 403, "forbidden")


# -- how much ----------------------------------------------------------------------------


async def test_hints_of_one_thing_are_one_hint(server: Server) -> None:
    """The newest version, also when they come in another order; another task is told as well."""
    async with watching(server) as events:
        for version in (1, 2, 9, 8):
            publish(server, "tasks", task_id="t-1", version=version)
        publish(server, "tasks", task_id="t-2", version=1)
        assert await anext(events) == ("tasks", {"task_id": "t-1", "version": 9})
        assert await anext(events) == ("tasks", {"task_id": "t-2", "version": 1})
        publish(server, "tasks", task_id="t-1", version=10)
        publish(server, "tasks", task_id="t-3", version=1)
        assert await anext(events) == ("tasks", {"task_id": "t-3", "version": 1})
        assert await anext(events) == ("tasks", {"task_id": "t-1", "version": 10})


async def test_one_thing_is_told_at_most_five_times_a_second(server: Server) -> None:
    """However fast it changes; the last version comes all the same."""
    loop = asyncio.get_running_loop()
    async with watching(server) as events:
        begun, version = loop.time(), 0
        while loop.time() - begun < 0.7:
            version += 1
            publish(server, "tasks", task_id="t-1", version=version)
            await asyncio.sleep(0.001)
        told = await until(events, "tasks", version=version)
        assert len(told) <= (loop.time() - begun) / APART_S + 1


async def test_a_reader_who_is_far_behind_is_let_go(server: Server) -> None:
    """They come back and read everything anew, which is less than what waits."""
    async with watching(server) as events:
        for number in range(MOST_WAITING + 1):
            publish(server, "tasks", task_id=f"t-{number}", version=1)
        assert [one async for one in events] == []
    async with watching(server) as events:
        for number in range(MOST_WAITING):
            publish(server, "tasks", task_id=f"t-{number}", version=1)
        assert len([await anext(events) for _ in range(MOST_WAITING)]) == MOST_WAITING


async def test_a_quiet_stream_says_that_it_is_there(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment, which no page takes for an event."""
    monkeypatch.setattr(watch, "KEEP_ALIVE_S", 0.05)
    headers = {"Authorization": f"Bearer {server.admin}"}
    async with asyncio.timeout(HANG_S), server.http.stream("GET", "/v1/watch", headers=headers) as answer:
        blocks = blocks_of(answer)
        assert (await anext(blocks)).startswith("event: hello\n")
        assert [await anext(blocks) for _ in range(3)] == [": still here"] * 3
        publish(server, "tasks", task_id="t-1", version=1)
        async for block in blocks:
            if block != ": still here":
                assert block == 'event: tasks\ndata: {"task_id": "t-1", "version": 1}'
                break


# -- how it ends -------------------------------------------------------------------------


@pytest.mark.usefixtures("silent")
async def test_it_ends_with_the_token_and_with_the_sign_in(server: Server) -> None:
    """At once, and so does the stream of a task; another browser's goes on."""
    token = await server.person("bob")
    await server.computer("3")
    # It waits for a computer that never comes.
    task_id = await server.submit(["3"], token=token)
    for ends in ("sign-out", "revoke"):
        tab, admin = await signed_in(server, token), await signed_in(server)
        follow = server.http.stream("GET", f"/v1/tasks/{task_id}/events", headers={"Cookie": tab.cookie})
        async with watching(server, Cookie=tab.cookie) as events, watching(server, Cookie=admin.cookie) as others:
            async with follow as answer:
                assert answer.status_code == 200
                if ends == "revoke":
                    await server.ask("DELETE", "/v1/tokens/person/bob")
                else:
                    await tab.ask("DELETE", "/v1/session")
                publish(server, "tasks", task_id="t-late", version=1)
                assert ("tasks", {"task_id": "t-late", "version": 1}) not in [one async for one in events]
                async for _ in blocks_of(answer):
                    """Until its end."""
            await until(others, "tasks", task_id="t-late")


@pytest.mark.usefixtures("silent")
async def test_it_ends_where_the_sign_in_ended_elsewhere(server: Server) -> None:
    """Such as at another node: what the store says counts, within a second."""
    tab = await signed_in(server)
    async with watching(server, Cookie=tab.cookie) as events:
        (row,) = await server.orchestrator.store.list_sign_ins()
        await server.orchestrator.store.end_sign_in(row.session_hash)
        assert [one async for one in events] == []
    token = await server.person("bob")
    async with watching(server, Authorization=f"Bearer {token}") as events:
        await server.orchestrator.store.revoke_tokens("person", "bob")
        assert [one async for one in events] == []


@pytest.mark.usefixtures("silent")
async def test_it_ends_when_the_server_stops(server: Server) -> None:
    """And nobody begins to watch a server that does."""
    async with watching(server) as events:
        await server.orchestrator.endpoints.close()
        assert [one async for one in events] == []
    headers = {"Authorization": f"Bearer {server.admin}"}
    async with asyncio.timeout(HANG_S), server.http.stream("GET", "/v1/watch", headers=headers) as answer:
        assert [one async for one in blocks_of(answer)] == []


async def test_who_went_away_is_told_nothing_more(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept for a reader who hung up."""
    bus, listening, gone = server.orchestrator.service.bus, list[str](), asyncio.Event()
    subscribe = bus.subscribe

    def subscribing(subject: str, handler: Hear) -> Callable[[], None]:
        end = subscribe(subject, handler)
        listening.append(subject)

        def ending() -> None:
            end()
            listening.remove(subject)
            if not listening:
                gone.set()

        return ending

    monkeypatch.setattr(bus, "subscribe", subscribing)
    async with watching(server):
        assert sorted(listening) == ["computers", "tasks"]
    await within(gone.wait())
