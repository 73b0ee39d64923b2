"""The streams of events over a WebSocket: the same as over HTTP, for who may, and ended with what lets them in."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from orchestrator.computers.hub import mirror
from orchestrator.core.ports.bus import Hear
from tests.harness.browsing import Tab, signed_in
from tests.harness.endpoints import Writing, blocks_of
from tests.harness.whole_server import Server, running
from tests.waiting import HANG_S, within
from tests.web.test_watch import publish


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server whose model writes a file."""
    async with running(tmp_path, model=Writing()) as server:
        yield server


async def heard(socket: ClientConnection) -> list[str]:
    """Every event until the server ends it, comments left out."""
    async with asyncio.timeout(HANG_S):
        events = [str(frame) async for frame in socket]
    assert socket.close_code == 1000
    return [event for event in events if not event.startswith(":")]


async def ended_task(server: Server) -> str:
    """A task that was rejected and is over."""
    task_id = await server.submit(computers=())
    await server.until(task_id, "task_ended")
    return task_id


async def test_a_task_is_told_as_over_http(server: Server) -> None:
    """Whole events, the same bytes; from where a reader left off; its end ends the socket."""
    task_id = await ended_task(server)
    tab = await signed_in(server)
    path = f"/v1/tasks/{task_id}/events"
    async with server.http.stream("GET", path, headers={"Authorization": f"Bearer {server.admin}"}) as answer:
        blocks = [block async for block in blocks_of(answer) if not block.startswith(":")]
    async with tab.stream(path) as socket:
        assert await heard(socket) == [f"{block}\n\n" for block in blocks]
    async with tab.stream(f"{path}?after=2") as socket:
        assert await heard(socket) == [f"{block}\n\n" for block in blocks[2:]]


async def test_who_may_not_look_is_refused_at_the_handshake(server: Server) -> None:
    """Nobody's browser, a page of another site, a program; with the error as JSON."""
    tab = await signed_in(server)
    stranger = Tab(server, "cc_orchestrator=none", tab.told, tab.origin)
    for who, origin, status in ((stranger, "", 401), (tab, "http://evil.example", 403), (tab, None, 403)):
        with pytest.raises(InvalidStatus) as refusal:
            async with who.stream("/v1/watch", origin):
                pass
        assert refusal.value.response.status_code == status
        assert json.loads(refusal.value.response.body or b"")["error"]["remedy"]


async def test_what_is_refused_to_who_is_in_is_told_in_a_frame(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page learns nothing of a handshake: a task that is not there, a screen that too many watch."""
    tab = await signed_in(server)
    await server.computer("3")
    monkeypatch.setattr(mirror, "MAX_WATCHERS", 0)
    for path, status, code in (
        ("/v1/tasks/t-none/events", 404, "not_found"),
        ("/v1/computers/3/screen", 429, "too_many_watch"),
    ):
        async with tab.stream(path) as socket:
            kind, _, data = str(await within(socket.recv())).partition("\n")
            told = json.loads(data.removeprefix("data: "))
            assert (kind, told["status"], told["error"]["code"]) == ("event: refused", status, code)
            with pytest.raises(ConnectionClosed):
                await within(socket.recv())
            assert (socket.close_code, socket.close_reason) == (1008, code)


async def test_it_ends_with_the_sign_in_and_with_the_server(server: Server) -> None:
    """At once, and with nothing more of what it would have told."""
    tab, other = await signed_in(server), await signed_in(server)
    async with tab.stream("/v1/watch") as socket, other.stream("/v1/watch") as stays:
        assert "hello" in str(await within(socket.recv()))
        assert "hello" in str(await within(stays.recv()))
        await tab.ask("DELETE", "/v1/session")
        publish(server, "tasks", task_id="t-1", version=1)
        assert await heard(socket) == []
        assert "t-1" in str(await within(stays.recv()))
        await server.orchestrator.endpoints.close()
        assert await heard(stays) == []


async def test_who_goes_is_told_nothing_more(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they say is nothing to it; when they go, nothing is kept for them."""
    tab, bus, ended = await signed_in(server), server.orchestrator.service.bus, asyncio.Event()
    subscribe = bus.subscribe

    def subscribing(subject: str, handler: Hear) -> Callable[[], None]:
        end = subscribe(subject, handler)

        def ending() -> None:
            end()
            ended.set()

        return ending

    monkeypatch.setattr(bus, "subscribe", subscribing)
    async with tab.stream("/v1/watch") as socket:
        assert "hello" in str(await within(socket.recv()))
        await socket.send("anything")
        publish(server, "tasks", task_id="t-1", version=1)
        assert "t-1" in str(await within(socket.recv()))
        assert not ended.is_set()
    await within(ended.wait())
