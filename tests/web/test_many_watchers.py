"""Many people look at one task of a real server: what a change costs is counted, and a slow one holds up nobody."""

import json
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from orchestrator.core.approval.deciders import Deciders
from orchestrator.core.approval.presentation import hitl_response
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.fold import fold
from orchestrator.core.text.redact import redact
from orchestrator.web import reviews as web_reviews
from orchestrator.web.events import Told, _TaskEvents
from orchestrator.web.reviews import Frame, Reviews
from orchestrator.web.sockets import DirectSocket, text_frames
from tests.harness.endpoints import ByPrompt, stream
from tests.harness.support import Disk, call
from tests.harness.whole_server import Reviewer, Server, connected, running
from tests.waiting import HANG_S
from tests.web.test_watch import watching

MODEL: Final = ByPrompt({"write": (call("cc_write", path="a.lua", content="print('new')\n"),)})
COUNTED: Final[Mapping[CodeType, str]] = {
    hitl_response.__code__: "rendered",
    redact.__code__: "redacted",
    fold.__code__: "folded",
    Frame.__init__.__code__: "framed",
    Frame.numbered.__code__: "numbered",
    Deciders.concerns.__code__: "looked up",
    json.JSONEncoder.encode.__code__: "encoded",
    _TaskEvents.next.__code__: "woken",
    vars(Told)["chunk"].func.__code__: "joined",
    vars(Told)["frames"].func.__code__: "joined",
    DirectSocket.write_framed.__code__: "written",
    text_frames.__code__: "wrapped",
}
CHANGES: Final = 3
MANY: Final = 60
"""Comments that are far more than a connection holds: each frame has all of them."""
NUMBERS: Final = count()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with computer 3."""
    async with running(tmp_path, model=MODEL) as server, connected(server, "3", Disk({"a.lua": b"old\n"})):
        yield server


async def asked(server: Server, prompt: str = "write") -> dict[str, Any]:
    """The request of a task of a submitter's: every reviewer is asked."""
    kid = await server.person(f"kid{next(NUMBERS)}")
    return await server.paused(await server.submit(prompt=prompt, token=kid))


async def comment(server: Server, request: Mapping[str, Any], text: str) -> None:
    answer = await server.ask("POST", f"/v1/requests/{request['request_id']}/comment", {"text": text})
    assert answer.status_code == 200, answer.text


@contextmanager
def counting(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts renderings, encodings and reads of the store while it is open."""
    found: Counter[str] = Counter()

    def heard(frame: FrameType, kind: str, _: object) -> None:
        if kind == "call" and frame.f_code in COUNTED:
            found[COUNTED[frame.f_code]] += 1

    def counted(name: str, read: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        def reading(*args: Any, **more: Any) -> Awaitable[Any]:
            found[name] += 1
            return read(*args, **more)

        return reading

    store = server.orchestrator.service.store
    with monkeypatch.context() as patched:
        for name in ("load", "read", "kept_task", "list_tasks"):
            patched.setattr(store, name, counted(name, getattr(store, name)))
        sys.setprofile(heard)
        try:
            yield found
        finally:
            sys.setprofile(None)


@asynccontextmanager
async def reviewers(server: Server, many: int, sam: str) -> AsyncIterator[list[Reviewer]]:
    """So many, every second one another person, all past their snapshots."""
    async with AsyncExitStack() as stack:
        tokens = [server.admin if number % 2 else sam for number in range(many)]
        found = [await stack.enter_async_context(server.reviewing(token)) for token in tokens]
        for one in found:
            await one.hear("snapshot")
        yield found


async def test_a_change_is_rendered_once_for_all_reviewers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded, redacted and encoded as often for twenty connections of two people as for one."""
    sam = await server.person("sam", "reviewer")
    costs = []
    for many in (1, 20):
        request = await asked(server)
        async with reviewers(server, many, sam) as looking:

            async def say(text: str, request: Mapping[str, Any] = request, all_: list[Reviewer] = looking) -> None:
                await comment(server, request, text)
                told = [await one.hear("request_opened") for one in all_]
                assert {one["request"]["team"]["comments"][-1]["text"] for one in told} == {text}

            # Whoever hears of this is past all that belongs to the beginning.
            await say("begin")
            with counting(server, monkeypatch) as cost:
                for number in range(CHANGES):
                    await say(f"look at line {number}")
            assert cost.pop("written") == CHANGES * many
            # The rights of the second person, who has another role.
            assert cost.pop("looked up") - CHANGES == CHANGES * min(many, 2)
            costs.append(cost)
    assert costs[0] == costs[1]
    assert costs[0]["framed"] == costs[0]["rendered"] == CHANGES


@asynccontextmanager
async def by_socket(server: Server, task_id: str) -> AsyncIterator[AsyncIterator[str]]:
    """The events of a task as a page has them."""
    url = f"{server.url.replace('http', 'ws')}/v1/tasks/{task_id}/events"
    headers = {"Authorization": f"Bearer {server.admin}"}
    async with connect(url, additional_headers=headers, compression=None) as connection:
        yield (str(frame) async for frame in connection)


@pytest.mark.parametrize("way", [stream, by_socket])
async def test_an_item_is_encoded_once_for_all_who_follow_the_task(
    server: Server, monkeypatch: pytest.MonkeyPatch, way: Callable[..., Any]
) -> None:
    """It is cleaned and encoded as often for twenty followers as for one, whom no task has to tell, and not read."""
    costs = []
    for many in (1, 20):
        request = await asked(server)
        async with AsyncExitStack() as stack:
            following = [await stack.enter_async_context(way(server, request["task_id"])) for _ in range(many)]
            await said(server, request, "begin", following)
            with counting(server, monkeypatch) as cost:
                for number in range(CHANGES):
                    await said(server, request, f"look at line {number}", following)
            del cost["written"]
            costs.append(cost)
    assert costs[0] == costs[1]
    assert (costs[0]["joined"], costs[0]["read"], costs[0]["woken"]) == (CHANGES, 0, 0)


async def test_the_end_of_a_task_is_the_same_bytes_for_all(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the last events, after which the connections end."""
    request = await asked(server)
    async with AsyncExitStack() as stack:
        following = [await stack.enter_async_context(by_socket(server, request["task_id"])) for _ in range(20)]
        await said(server, request, "begin", following)
        with counting(server, monkeypatch) as cost:
            await server.ask("POST", request["rejection_url"])
            for blocks in following:
                assert [block async for block in blocks][-1].startswith("id: ")
    assert cost["wrapped"] < len(following)


async def test_who_joins_others_reads_nothing(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The events so far are here as long as somebody follows the task."""
    request = await asked(server)
    async with stream(server, request["task_id"]) as first:
        version = (await server.orchestrator.service.load(TaskId(request["task_id"]))).version
        begun = [await anext(first) for _ in range(version + 1)]
        with counting(server, monkeypatch) as cost:
            async with stream(server, request["task_id"]) as second:
                assert [await anext(second) for _ in begun] == begun
    assert (cost["load"], cost["read"], cost["folded"]) == (0, 0, 0)


@contextmanager
def held_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Reviewers who come now hear of nothing until the function is called, and then of all in one turn of the loop."""
    held: list[Callable[[], None]] = []
    hear = Reviews._hear

    def let_go() -> None:
        for one in held:
            one()

    with monkeypatch.context() as patched:
        patched.setattr(Reviews, "_hear", lambda self, payload: held.append(lambda: hear(self, payload)))
        yield let_go


async def test_what_changes_together_is_one_write(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a request and the next one, of two tasks, come in this order to each reviewer, and at once."""
    sam = await server.person("sam", "reviewer")
    for many in (1, 20):
        request = await asked(server)
        with held_back(monkeypatch) as let_go:
            async with reviewers(server, many, sam) as looking:
                await server.ask("POST", request["rejection_url"])
                later = await asked(server)
                with counting(server, monkeypatch) as cost:
                    let_go()
                    for one in looking:
                        closed, opened = await one.hear(), await one.hear()
                        assert (closed["type"], closed["request_id"]) == ("request_closed", request["request_id"])
                        assert opened["request"]["request_id"] == later["request_id"]
        assert cost["written"] == many


async def test_who_looks_alone_hears_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long many would wait for what changes together."""
    monkeypatch.setattr(web_reviews, "TOGETHER_S", 10 * HANG_S)
    async with reviewers(server, 1, server.admin) as (reviewer,):
        request = await asked(server)
        assert (await reviewer.hear("request_opened"))["request"]["request_id"] == request["request_id"]


async def test_another_reviewer_costs_a_write_and_nothing_else(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a request that opens, is noted and is decided: one rendering, and one look at the rights of all reviewers."""
    for many in (1, 20):
        people = [await server.person(f"eve{next(NUMBERS)}", "reviewer") for _ in range(many)]
        async with AsyncExitStack() as stack:
            looking = [await stack.enter_async_context(server.reviewing(person)) for person in people]
            for one in looking:
                await one.hear("snapshot")
            with counting(server, monkeypatch) as cost:
                request = await asked(server)
                await server.until(request["task_id"], "review_noted")
                await server.ask("POST", request["rejection_url"])
                for one in looking:
                    await one.hear("request_opened")
                    await one.hear("request_closed")
        assert [cost[what] for what in ("rendered", "looked up", "framed", "numbered")] == [1, 1, 2, 2], many


async def test_the_end_of_a_request_is_told_though_none_follows(server: Server) -> None:
    """A moment later at most."""
    request = await asked(server)
    async with reviewers(server, 20, server.admin) as looking:
        await server.ask("POST", request["rejection_url"])
        for one in looking:
            assert (await one.hear())["type"] == "request_closed"


async def test_a_defect_in_one_write_ends_that_connection_alone(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others hear of this change, and of the next one."""
    async with reviewers(server, 2, await server.person("sam", "reviewer")) as (first, other):
        write, defects = DirectSocket.write_framed, [ValueError("a defect")]

        def written(self: DirectSocket, frames: bytes) -> bool:
            if defects:
                raise defects.pop()
            return write(self, frames)

        monkeypatch.setattr(DirectSocket, "write_framed", written)
        await asked(server)
        with pytest.raises(ConnectionClosed):
            await first.hear()
        await other.hear("request_opened")
        await asked(server)
        await other.hear("request_opened")


async def said(server: Server, request: Mapping[str, Any], text: str, following: list[AsyncIterator[str]]) -> None:
    """Comment, until all who follow have heard it."""
    await comment(server, request, text)
    for blocks in following:
        while text not in await anext(blocks):
            pass


async def test_a_page_costs_no_encoding_of_its_own(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty pages hear of a change by the same bytes."""
    costs = []
    for many in (1, 20):
        async with AsyncExitStack() as stack:
            pages = [await stack.enter_async_context(watching(server)) for _ in range(many)]
            with counting(server, monkeypatch) as cost:
                server.orchestrator.service.bus.publish("tasks", {"task_id": f"t-{many}", "version": 1})
                for page in pages:
                    assert await anext(page) == ("tasks", {"task_id": f"t-{many}", "version": 1})
            costs.append(cost)
    assert costs == [{"encoded": 1}, {"encoded": 1}]


async def test_nothing_is_made_while_nobody_looks(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """For one who looks a change is rendered, and not read again: this node wrote it itself."""
    request = await asked(server)
    with counting(server, monkeypatch) as alone:
        await comment(server, request, "nobody hears")
    assert (alone["rendered"], alone["framed"]) == (0, 0)
    async with reviewers(server, 1, server.admin) as (reviewer,):
        await comment(server, request, "begin")
        await reviewer.hear("request_opened")
        with counting(server, monkeypatch) as looked_at:
            await comment(server, request, "somebody hears")
            await reviewer.hear("request_opened")
    assert all(looked_at[what] == alone[what] for what in ("load", "read"))


async def test_a_reviewer_who_reads_nothing_holds_up_nobody_and_misses_nothing(server: Server) -> None:
    """The others hear each change at once. Who reads again hears how it is by then, and no number is left out."""
    request = await asked(server)
    async with slow_reviewer(server) as slow, server.reviewing() as other:
        assert len((await other.hear("snapshot"))["requests"]) == 1
        for number in range(MANY):
            await comment(server, request, f"{number} " + "x" * 1900)
            told = await other.hear("request_opened")
            assert len(told["request"]["team"]["comments"]) == number + 1
        await server.ask("POST", request["rejection_url"])
        await other.hear("request_closed")
        later = await asked(server)
        await other.hear("request_opened")
        assert len((await slow.hear("snapshot"))["requests"]) == 1
        heard: list[dict[str, Any]] = []
        while not heard or heard[-1].get("request", {}).get("request_id") != later["request_id"]:
            heard.append(await slow.hear())
        kinds = [one["type"] for one in heard]
        assert kinds[-2:] == ["request_closed", "request_opened"]
        assert kinds.count("request_opened") < MANY


@asynccontextmanager
async def slow_reviewer(server: Server) -> AsyncIterator[Reviewer]:
    """A reviewer whose side takes little that it is not asked for."""
    address = urlsplit(server.url)
    with socket.socket() as small:
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        small.connect((address.hostname, address.port))
        small.setblocking(False)
        async with connect(
            f"ws://{address.netloc}/reviewer",
            sock=small,
            additional_headers={"Authorization": f"Bearer {server.admin}"},
            compression=None,
            max_queue=1,
            max_size=None,
        ) as connection:
            yield Reviewer(connection)
