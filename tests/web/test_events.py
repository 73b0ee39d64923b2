"""A task's events on a real uvicorn server: every item once, hints beside them, and slow readers."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from copy import copy
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.core.errors import StoreAway
from orchestrator.core.ports.bus import Hear
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.task import AgentTask
from orchestrator.web import events as web_events
from orchestrator.web.events import MAX_LOG_BYTES, Followers, Log, Reader, Told, Way
from tests.harness.endpoints import Writing, stream
from tests.harness.support import Disk
from tests.harness.whole_server import Server, connected, running
from tests.waiting import HANG_S, within


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server without computers, whose model writes a file."""
    async with running(tmp_path, model=Writing()) as server:
        yield server


@pytest.fixture
async def disk(server: Server) -> AsyncIterator[Disk]:
    """The disk of computer 3, which is connected."""
    disk = Disk({"a.lua": b"old\n"})
    async with connected(server, "3", disk):
        yield disk


async def events(server: Server, task_id: str, last: str | None = None) -> list[tuple[int, str, dict[str, Any]]]:
    """All events until the stream ends by itself, as (id, kind, item)."""
    headers = {"Authorization": f"Bearer {server.admin}", **({} if last is None else {"Last-Event-ID": last})}
    found: list[tuple[int, str, dict[str, Any]]] = []
    async with asyncio.timeout(HANG_S):
        async with server.http.stream("GET", f"/v1/tasks/{task_id}/events", headers=headers) as stream:
            assert stream.status_code == 200
            assert stream.headers["content-type"].startswith("text/event-stream")
            text = "".join([part async for part in stream.aiter_text()])
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "id" in fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found


async def test_events_tell_every_item_and_end_with_the_task(server: Server, disk: Disk) -> None:
    """The stream has every item once, its version as the id and its kind as the event, and ends with the task."""
    del disk
    task_id = await server.submit()
    following = asyncio.create_task(events(server, task_id))
    request = await server.paused(task_id)
    await server.ask("POST", f"/v1/approve/{request['request_id']}")
    told = await following
    assert [number for number, _, _ in told] == list(range(1, len(told) + 1))
    assert (told[0][1], told[-1][1]) == ("task_submitted", "task_ended")
    assert all(item["fact"]["kind"] == kind and item["version"] == number for number, kind, item in told)


class AwayStore(InMemoryPersistenceManager):
    """A store that is away."""

    async def load(self, task_id: TaskId, known: AgentTask | None = None) -> AgentTask | None:
        raise StoreAway(f"The store of {task_id} is away.", remedy="Wait.")


async def test_a_stream_that_a_store_ends_is_told_in_a_sentence(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """It may go away between the first check and the first item: then the stream ends, and who follows comes again."""
    service = copy(server.orchestrator.service)
    service.store = AwayStore()
    following = Followers(service).follow(TaskId("t-1"), 0, 0, hints=True, closing=asyncio.Event(), way=Way())
    assert [event async for event in following] == [b": watching\n\n"]
    (said,) = [record for record in caplog.records if "ended too early" in record.message]
    assert "is away. Wait." in said.message
    assert said.exc_info is None


@pytest.mark.parametrize(
    ("last", "first"), [("3", 4), ("0", 1), ("", 1), ("junk", 1), ("-1", 1), ("²", 1), ("9" * 30, 1), ("99", None)]
)
async def test_events_resume_after_the_last_that_was_seen(server: Server, last: str, first: int | None) -> None:
    """`Last-Event-ID` goes on after that version; what is no number counts as nothing seen."""
    task_id = await server.submit([])
    await server.until(task_id, "task_ended")
    headers = {b"Authorization": f"Bearer {server.admin}".encode(), b"Last-Event-ID": last.encode("latin-1")}
    async with asyncio.timeout(HANG_S):
        answer = await server.http.get(f"/v1/tasks/{task_id}/events", headers=headers)
    assert answer.status_code == 200
    ids = [int(line.removeprefix("id: ")) for line in answer.text.splitlines() if line.startswith("id: ")]
    assert (ids[0] if ids else None) == first


async def waiting_task(server: Server) -> str:
    """A task that waits for its computer, and whose events so far are known: nothing comes by itself."""
    await server.computer("3")
    task_id = await server.submit()
    await server.until(task_id, "calls_proposed")
    return task_id


MANY: Final = 40
"""Notifications that are together far more than a connection and the log hold."""
HINTS: list[dict[str, Any]] = [
    {"kind": "model_text", "step": 2, "text": '{"kind": "to'},
    {"kind": "explanation", "step": 2, "text": "I look\n\nat it\r: \x00"},
    {"kind": "message", "step": 2, "text": "é"},
    {"kind": "output", "call_id": "c1", "offset": 12, "text": "id: 7\n\n"},
]


async def test_hints_are_events_without_an_id(server: Server) -> None:
    """What is published of a task's stream comes at once, in order, as an event of its kind and without an id."""
    task_id = await waiting_task(server)
    bus = server.orchestrator.service.bus
    async with stream(server, task_id, "?after=99") as blocks:
        assert await anext(blocks) == ": watching"
        bus.publish(f"stream.{task_id}", {"kind": "nonsense", "text": "x"})
        bus.publish("stream.t-other", HINTS[0])
        for hint in HINTS:
            bus.publish(f"stream.{task_id}", hint)
        for hint in HINTS:
            event, data = (await anext(blocks)).split("\n")
            assert event == f"event: {hint['kind']}"
            assert json.loads(data.removeprefix("data: ")) == {k: v for k, v in hint.items() if k != "kind"}


async def test_secrets_in_hints_are_markers(server: Server) -> None:
    """In what a program prints and in what the model writes, as in the items that follow."""
    task_id = await waiting_task(server)
    async with stream(server, task_id, "?after=99") as blocks:
        assert await anext(blocks) == ": watching"
        for kind in ("output", "explanation", "message", "model_text"):
            hint = {"kind": kind, "text": "password = 'hunter2hunter2'\n"}
            server.orchestrator.service.bus.publish(f"stream.{task_id}", hint)
            told = await anext(blocks)
            assert told.startswith(f"event: {kind}\n")
            assert "[redacted " in told
            assert "hunter2" not in told


async def test_hints_can_be_left_out(server: Server) -> None:
    """With `hints=0` the stream has the items and nothing else."""
    task_id = await waiting_task(server)
    async with stream(server, task_id, "?hints=0") as blocks:
        assert await anext(blocks) == ": watching"
        for hint in HINTS:
            server.orchestrator.service.bus.publish(f"stream.{task_id}", hint)
        await server.ask("POST", f"/v1/tasks/{task_id}/cancel")
        assert all(block.startswith("id: ") for block in [block async for block in blocks])


async def journal(server: Server) -> list[AgentTaskItem]:
    """The items of a task that ended."""
    task_id = await server.submit([])
    await server.until(task_id, "task_ended")
    return await server.orchestrator.store.read(TaskId(task_id))


def reader(after: int = 0) -> Reader:
    return Reader(after, hints=True, way=Way(), closing=asyncio.Event())


def item(version: int, size: int = 0) -> bytes:
    return f"id: {version}\n{'x' * size}\n\n".encode()


async def test_a_slow_reader_loses_old_hints_and_no_item() -> None:
    """The log is bounded: its oldest part goes, and of it the items are those that have to be read again."""
    log, slow = Log(0), reader()
    log.put(item(1), 1)
    for number in range(3):
        log.put(f"hint {number}{'x' * (MAX_LOG_BYTES // 3)}".encode())
        log.put(item(number + 2), number + 2)
    assert log.lost == 1
    told = log.after(slow)
    assert [event[:6].decode() for event in told.events] == ["id: 2\n", "hint 1", "id: 3\n", "hint 2", "id: 4\n"]
    assert (told.version, told.at) == (4, log.end)


async def test_a_reader_who_comes_later_hears_the_items_before_and_no_old_hint() -> None:
    """Notifications are told to the listeners of their moment, items to everybody who does not know them."""
    log, late = Log(0), reader(1)
    for version in (1, 2):
        log.put(item(version), version)
        log.put(b"hint")
    late.since = log.end
    assert log.after(late).events == [item(2)]
    log.put(b"hint")
    late.at, late.after = (told := log.after(late)).at, told.version
    assert told.events == [item(2), b"hint"]
    assert log.after(late).events == []


async def test_nothing_goes_by_the_short_way_once_it_is_over(server: Server) -> None:
    """Such as when the token was revoked: what came since is not told."""
    task_id = TaskId(await waiting_task(server))
    service, way, over, wrote = server.orchestrator.service, Way(), asyncio.Event(), asyncio.Event()
    told: list[bytes] = []

    def write(part: Told) -> bool:
        told.append(part.text)
        wrote.set()
        return True

    async def follow() -> None:
        version = (await service.load(task_id)).version
        async for part in Followers(service).follow(task_id, version, 99, hints=True, closing=over, way=way):
            told.append(part)
            wrote.set()

    way.open(write)
    following = asyncio.create_task(follow())
    await within(wrote.wait())
    wrote.clear()
    service.bus.publish(f"stream.{task_id}", {"kind": "output", "text": "early"})
    await within(wrote.wait())
    over.set()
    service.bus.publish(f"stream.{task_id}", {"kind": "output", "text": "late"})
    await within(following)
    assert told == [b": watching\n\n", b'event: output\ndata: {"text": "early"}\n\n']


async def test_a_reader_who_takes_nothing_holds_up_nobody_and_misses_no_item(server: Server, disk: Disk) -> None:
    """Another one hears everything meanwhile; of the slow one's notifications only the newest are kept."""
    del disk
    task_id = await server.submit()
    request, bus = await server.paused(task_id), server.orchestrator.service.bus
    address, large = urlsplit(server.url), "x" * (MAX_LOG_BYTES // 4)
    coming, going = await asyncio.open_connection(address.hostname, address.port, limit=4096)
    head = f"GET /v1/tasks/{task_id}/events HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {server.admin}"
    going.write(f"{head}\r\nConnection: close\r\n\r\n".encode())
    assert b" 200 " in await within(coming.readline())
    async with stream(server, task_id) as other:
        for number in range(MANY):
            bus.publish(f"stream.{task_id}", {"kind": "output", "text": f"{number} {large}"})
            while f'"text": "{number} ' not in await anext(other):
                pass
            await server.ask("POST", f"/v1/requests/{request['request_id']}/comment", {"text": f"look at {number}"})
            while f"look at {number}" not in await anext(other):
                pass
        await server.ask("POST", f"/v1/reject/{request['request_id']}")
        last = [block async for block in other][-1]
    all_of_it = await within(coming.read())
    going.close()
    ids = [int(found) for found in re.findall(rb"\nid: (\d+)\nevent", all_of_it)]
    assert ids == list(range(1, len(ids) + 1))
    assert last.startswith(f"id: {ids[-1]}\n")
    assert 0 < all_of_it.count(b"event: output") < MANY


async def test_a_quiet_stream_says_that_it_is_there(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing happens a comment comes from time to time, and the task's events after it as ever."""
    monkeypatch.setattr(web_events, "KEEP_ALIVE_S", 0.01)
    task_id = await waiting_task(server)
    async with stream(server, task_id, "?after=99") as blocks:
        assert [await anext(blocks) for _ in range(3)] == [": watching", ": still here", ": still here"]


async def test_a_reader_that_goes_away_leaves_nothing_behind(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a reader hung up nobody listens to the task any more, neither for items nor for hints."""
    task_id = await waiting_task(server)
    service = server.orchestrator.service
    listening: list[str] = []
    gone = asyncio.Event()

    def noting(listen: Callable[[Any, Hear], Callable[[], None]]) -> Callable[[Any, Hear], Callable[[], None]]:
        def listens(subject: str, handler: Hear) -> Callable[[], None]:
            end = listen(subject, handler)
            listening.append(subject)

            def ending() -> None:
                end()
                listening.remove(subject)
                if not listening:
                    gone.set()

            return ending

        return listens

    monkeypatch.setattr(service.bus, "subscribe", noting(service.bus.subscribe))
    monkeypatch.setattr(service.news, "hear", noting(service.news.hear))
    async with stream(server, task_id) as blocks:
        while not (await anext(blocks)).startswith("id: "):
            pass
        assert {task_id, f"stream.{task_id}"} <= set(listening) <= {task_id, f"stream.{task_id}", "tasks"}
    async with asyncio.timeout(HANG_S):
        await gone.wait()
