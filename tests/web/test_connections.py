"""Connections of peers that mean harm, or that are gone: what they cost is bounded, and others are served meanwhile."""

import asyncio
import json
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import ComputerId
from orchestrator.web import connections, peers, sockets
from orchestrator.web.auth import issue_token
from orchestrator.web.bodies import MAX_OPEN_BYTES
from orchestrator.web.peers import MOST_A_MINUTE, RESERVE, WRONG_TRIES, counted_as, room_for
from tests.harness.browsing import signed_in
from tests.harness.commands import SCRIPTED
from tests.harness.endpoints import blocks_of
from tests.harness.screening import stub
from tests.harness.whole_server import Server, running
from tests.waiting import HANG_S, within

HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\n"
UPGRADE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
PIECE = 16 * 1024


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server of this test's own."""
    async with running(tmp_path) as one:
        yield one


@asynccontextmanager
async def line(server: Server) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    async with asyncio.timeout(HANG_S):
        reader, writer = await asyncio.open_connection(host, int(port))
        with closing(writer):
            yield reader, writer


async def served(server: Server) -> None:
    """Others are."""
    assert (await server.ask("GET", "/healthz")).status_code == 200


async def poured(writer: asyncio.StreamWriter, piece: bytes, most: int) -> int:
    """Bytes that were taken until the connection was closed, or ``most``."""
    taken = 0
    with suppress(OSError):
        while taken < most and not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            taken += len(piece)
    return taken


# -- how much ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "piece"),
    [(b"GET /", b"a" * PIECE), (HEAD + b"X: ", b"a" * PIECE), (HEAD, b"X-A: b\r\n" * (PIECE // 8))],
    ids=["url", "header", "headers"],
)
async def test_a_head_without_an_end_is_not_kept(server: Server, begin: bytes, piece: bytes) -> None:
    """Nobody has to show a token for it, so nothing of it may pile up."""
    async with line(server) as (reader, writer):
        writer.write(begin)
        # What the two kernels hold between them is no concern of ours.
        assert await poured(writer, piece, 64 * 1024 * 1024) < 32 * 1024 * 1024
        told = b""
        with suppress(OSError):
            told = await reader.read()
        assert told == b"" or told.startswith(b"HTTP/1.1 431 ")
    await served(server)


async def test_a_head_that_is_a_little_too_large_is_refused_with_a_status(server: Server) -> None:
    """Also where it came whole, and one that is large and within the bound is served."""
    async with line(server) as (reader, writer):
        writer.write(HEAD + b"X: " + b"a" * 60_000 + b"\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    async with line(server) as (reader, writer):
        writer.write(HEAD + b"X: " + b"a" * connections.MAX_HEAD_BYTES)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert b"nosniff" in answer
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert (error["code"], bool(error["message"]), bool(error["remedy"])) == ("head_too_large", True, True)
    async with line(server) as (reader, writer):
        writer.write(HEAD + b"X: " + b"a" * connections.MAX_HEAD_BYTES + b"\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"2\r\n{}\r\n0\r\n", b"X-A: b\r\n" * (PIECE // 8)),
        (b"2\r\n{}\r\n0\r\nX: ", b"a" * PIECE),
        (b"2;", b"a" * PIECE),
        (b"", b"4000\r\n" + b"a" * PIECE + b"\r\n"),
    ],
    ids=["trailers", "trailer", "extension", "chunks"],
)
async def test_a_body_without_an_end_is_not_kept(server: Server, begin: bytes, piece: bytes) -> None:
    """Nor is what may follow it."""
    async with line(server) as (_, writer):
        writer.write(POST + b"Transfer-Encoding: chunked\r\n\r\n" + begin)
        assert await poured(writer, piece, 64 * 1024 * 1024) < 32 * 1024 * 1024
    await served(server)


async def test_headers_after_the_body_are_none(server: Server) -> None:
    """Else a proxy in front would have looked at others than those that count."""
    async with line(server) as (reader, writer):
        origin = f"Origin: {server.url}\r\n".encode()
        writer.write(POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + origin + b"\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("piece", [b"1\r\na\r\n", b"4\r\n\r\n\r\n\r\n"], ids=["single signs", "ends of heads"])
async def test_a_body_in_crumbs_is_not_read(server: Server, monkeypatch: pytest.MonkeyPatch, piece: bytes) -> None:
    """Each of them costs a turn of the parser."""
    monkeypatch.setattr(connections, "UNKNOWN_PIECES", 50)
    for number, answer in ((10, b"HTTP/1.1 422 "), (60, b"HTTP/1.1 400 ")):
        async with line(server) as (reader, writer):
            writer.write(b"POST /v1/pair HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + piece * number)
            with suppress(OSError):
                await writer.drain()
                writer.write(b"0\r\n\r\n")
            told = b""
            with suppress(OSError):
                told = await reader.readline()
            assert told[: len(answer) or None] == answer


# -- how often ---------------------------------------------------------------------------


async def test_a_few_requests_at_once_are_answered_in_order(server: Server) -> None:
    """Bodies with what looks like the end of a head among them."""
    wrong = POST + b"Content-Length: 8\r\n\r\n{\r\n\r\n\r\n}"
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n6\r\n{\r\n\r\n}\r\n0\r\n\r\n"
    for cut in (1, 7, 65_536):
        async with line(server) as (reader, writer):
            sent = (HEAD + b"\r\n" + wrong + chunked) * 5
            for at in range(0, len(sent), cut):
                writer.write(sent[at : at + cut])
                await writer.drain()
            for _ in range(5):
                for status in (b"200", b"403", b"403"):
                    assert (await reader.readline()).split()[1] == status
                    head = await reader.readuntil(b"\r\n\r\n")
                    await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))


@pytest.mark.parametrize("more", [b"", b"X: " + b"x" * 5000 + b"\r\n"], ids=["small", "large"])
async def test_who_waits_for_no_answer_is_let_go(server: Server, monkeypatch: pytest.MonkeyPatch, more: bytes) -> None:
    """However many requests come at once, a few are answered, and the rest is not even looked at."""
    asked = counted(server, monkeypatch)
    async with line(server) as (reader, writer):
        reading = asyncio.create_task(reader.read())
        await poured(writer, (HEAD + more + b"\r\n") * 50, 64 * 1024 * 1024)
        with suppress(OSError):
            told = await reading
            assert told.count(b"HTTP/1.1 ") <= connections.MAX_PIPELINED + 3
    await served(server)
    assert len(asked) <= connections.MAX_PIPELINED + 3


async def test_what_waits_goes_with_its_peer(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is there to be answered."""
    may_go_on, came, asked = asyncio.Event(), asyncio.Event(), counted(server, monkeypatch)
    counting = server.orchestrator.service.list_tasks

    async def waiting(**how: Any) -> Any:
        found = await counting(**how)
        came.set()
        await may_go_on.wait()
        return found

    monkeypatch.setattr(server.orchestrator.service, "list_tasks", waiting)
    async with line(server) as (_, writer):
        writer.write((HEAD + b"\r\n") * 50)
        await within(came.wait())
        writer.transport.abort()
    await line_to(server, b"GET /client.lua HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    may_go_on.set()
    await served(server)
    assert len(asked) == 2
    assert [one.message for one in caplog.records if one.exc_info or one.levelname == "ERROR"] == []


async def test_a_connection_asks_so_often_and_no_more(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest waits; others are served meanwhile."""
    monkeypatch.setattr(connections, "BURST", 3.0)
    monkeypatch.setattr(connections, "RATE", 0.01)
    async with line(server) as (reader, writer):
        for _ in range(3):
            writer.write(HEAD + b"\r\n")
            await reader.readuntil(b"}")
        writer.write(HEAD + b"\r\n")
        late = asyncio.create_task(reader.readuntil(b"}"))
        async with line(server) as (other, asking):
            asking.write(HEAD + b"\r\n")
            await other.readuntil(b"}")
        assert not late.done()
        late.cancel()


def counted(server: Server, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One for each time that ``/healthz`` was asked for."""
    asked: list[None] = []
    list_tasks = server.orchestrator.service.list_tasks

    async def counting(**how: Any) -> Any:
        asked.append(None)
        return await list_tasks(**how)

    monkeypatch.setattr(server.orchestrator.service, "list_tasks", counting)
    return asked


async def line_to(server: Server, request: bytes) -> bytes:
    """What one request on a connection of its own is answered."""
    async with line(server) as (reader, writer):
        writer.write(request)
        return await reader.read()


# -- how many ----------------------------------------------------------------------------


async def test_of_one_address_the_one_that_is_silent_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes is served, also from the address that the silent ones come from; who is known stays."""
    monkeypatch.setattr(peers, "SILENT_S", 0.0)
    async with running(tmp_path, most=16) as server, AsyncExitStack() as lines:
        watching, asking = await lines.enter_async_context(line(server))
        asking.write(b"GET /v1/watch HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + server.admin.encode())
        asking.write(b"\r\n\r\n")
        await watching.readuntil(b"event: hello")
        silent = [await lines.enter_async_context(line(server)) for _ in range(4)]
        for _ in range(10):
            async with line(server) as (reader, writer):
                writer.write(HEAD + b"\r\n")
                assert b" 200 " in await reader.readuntil(b"\r\n")
        for reader, _ in silent:
            with suppress(OSError):
                assert await reader.read() == b""
        server.orchestrator.service.bus.publish("tasks", {"task_id": "t-x", "version": 1})
        await watching.readuntil(b"event: tasks")


async def test_connections_that_come_in_one_turn_are_not_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server reads their requests a turn later; none of them is cut off for that."""
    monkeypatch.setattr(peers, "SILENT_S", HANG_S)
    async with running(tmp_path, most=32) as server, AsyncExitStack() as lines:
        new = await asyncio.gather(*(lines.enter_async_context(line(server)) for _ in range(16)))
        for reader, writer in new:
            writer.write(HEAD + b"\r\n")
            assert b" 200 " in await reader.readuntil(b"\r\n")


async def test_of_the_computers_of_one_game_server_that_dial_at_once_each_is_told_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than one address may have otherwise: each comes in, or is told when to dial again."""
    monkeypatch.setattr(peers, "EACH", 4)
    monkeypatch.setattr(peers, "SILENT_S", HANG_S)
    async with running(tmp_path, most=256) as server, AsyncExitStack() as lines:
        bearer = b"Host: a\r\nAuthorization: Bearer " + (await server.computer("3")).encode() + b"\r\n"
        new = [await lines.enter_async_context(line(server)) for _ in range(100)]
        for _, writer in new:
            writer.write(b"GET /computer?n=1 HTTP/1.1\r\n" + bearer + UPGRADE)
        told = Counter([(await reader.readline())[:13] for reader, _ in new])
    assert set(told) == {b"HTTP/1.1 101 ", b"HTTP/1.1 503 "}, told
    assert told[b"HTTP/1.1 101 "] >= 8


async def test_of_one_token_those_that_wait_for_an_answer_stay(tmp_path: Path) -> None:
    """A program that asks many things at once loses no answer, however long it has waited for it."""
    async with running(tmp_path, most=32) as server, AsyncExitStack() as lines:
        bearer = b"Host: a\r\nAuthorization: Bearer " + server.admin.encode() + b"\r\n\r\n"
        watching, asking = await lines.enter_async_context(line(server))
        asking.write(b"GET /v1/watch HTTP/1.1\r\n" + bearer)
        await watching.readuntil(b"event: hello")
        answered = list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]()
        for _ in range(6):
            reader, writer = await lines.enter_async_context(line(server))
            answered.append((reader, writer))
            writer.write(b"GET /v1/tasks HTTP/1.1\r\n" + bearer)
            assert b" 200 " in await reader.readuntil(b"\r\n")
        for reader, _ in answered[:3]:
            with suppress(OSError):
                await reader.read()
        server.orchestrator.service.bus.publish("tasks", {"task_id": "t-x", "version": 1})
        await watching.readuntil(b"event: tasks")
        for _, writer in answered[3:]:
            assert not writer.is_closing()


async def test_the_total_has_an_end_and_who_is_known_stays(tmp_path: Path) -> None:
    """Also behind a proxy, whose connections are not counted by address."""
    async with running(tmp_path, most=6, proxies="127.0.0.1") as server, AsyncExitStack() as lines:
        store, now = server.orchestrator.store, server.orchestrator.service.clock.now()
        silent = [await lines.enter_async_context(line(server)) for _ in range(6)]
        for number in range(6):
            # Not by the server's endpoint: the client of this test would have a connection of its own.
            token = await issue_token(store, kind="person", name=f"p{number}", roles=("submitter",), at=now)
            reader, writer = await lines.enter_async_context(line(server))
            writer.write(b"GET /v1/watch HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token.encode() + b"\r\n\r\n")
            await reader.readuntil(b"event: hello")
        for reader, _ in silent:
            with suppress(OSError):
                assert await reader.read() == b""
        with suppress(OSError):
            assert await line_to(server, HEAD + b"\r\n") == b""
        assert not writer.is_closing()


async def test_one_token_has_so_many_streams_and_sockets(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is told so; another token has its own."""
    monkeypatch.setattr(sockets, "MOST_OPEN", 2)
    bob = {"Authorization": f"Bearer {await server.person('bob')}"}
    tab, open_ones = await signed_in(server), list[Any]()
    async with tab.reviewing() as reviewing, AsyncExitStack() as streams:
        assert "snapshot" in str(await within(reviewing.recv()))
        for headers in ({"Authorization": f"Bearer {server.admin}"}, bob):
            stream = await streams.enter_async_context(server.http.stream("GET", "/v1/watch", headers=headers))
            assert stream.status_code == 200
            told = blocks_of(stream)
            await anext(told)
            open_ones.append(told)
        refused = await within(server.ask("GET", "/v1/watch"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_streams")
        with pytest.raises(InvalidStatus) as denied:
            async with tab.reviewing():
                pass
        assert denied.value.response.status_code == 429
    await until(server, lambda: not server.orchestrator.endpoints.sockets._count)
    async with tab.reviewing() as reviewing:
        assert "snapshot" in str(await within(reviewing.recv()))


def test_the_limit_of_files_is_raised_and_some_are_kept_back() -> None:
    """In a process of its own: what is raised stays so."""
    script = (
        "import resource; from orchestrator.web.peers import raise_file_limit, room_for\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 400))\n"
        "print(raise_file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE), room_for(400))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert told.stdout.split() == ["400", "400", "400", "300"]
    assert room_for(20_000) == 20_000 - RESERVE


async def test_a_server_with_few_files_serves_on(tmp_path: Path) -> None:
    """More connections than it may open files: the store still opens its own, and who asks is answered."""
    script = (
        "import resource, sys; from orchestrator.terminal.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 160)); main()"
    )
    command = ("serve", *SCRIPTED, "--data-dir", str(tmp_path), "--port", "0")
    serving = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert serving.stdout is not None
    assert serving.stderr is not None
    said = asyncio.create_task(serving.stderr.read())
    try:
        async with asyncio.timeout(HANG_S):
            await serving.stdout.readuntil(b"http://127.0.0.1:")
            port = int((await serving.stdout.readline()).split()[0].strip(b"/.,"))
            rest = asyncio.create_task(serving.stdout.read())
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(400)]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            token = (tmp_path / "admin.token").read_bytes().strip()
            writer.write(
                b"POST /v1/tasks HTTP/1.1\r\nHost: a\r\nContent-Length: 32\r\nAuthorization: Bearer %s\r\n\r\n"
                b'{"prompt": "x", "computers": []}' % token
            )
            assert (await reader.readline()).startswith(b"HTTP/1.1 201 ")
            for _, one in (*silent, (reader, writer)):
                one.transport.abort()
    finally:
        serving.terminate()
        await within(serving.wait())
    await within(rest)
    log = await within(said)
    assert b"no connection can be accepted" not in log
    assert b"Traceback" not in log


def test_an_address_of_the_newer_kind_counts_with_its_network() -> None:
    """Whoever has one has 2^64 of them."""
    assert counted_as("2001:db8::1") == counted_as("2001:db8::ffff:1%eth0") != counted_as("2001:db8:0:1::1")
    assert counted_as("::ffff:10.0.0.1") == counted_as("10.0.0.1") == "10.0.0.1"
    assert counted_as("") == ""


# -- how long ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", [b"", b"\r\n", HEAD, POST + b"Content-Length: 9\r\n\r\n{"], ids=["idle", "blank", "head", "body"]
)
async def test_who_does_not_go_on_is_let_go(server: Server, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """A thousand connections that say nothing would else be a thousand files for good."""
    monkeypatch.setattr(connections, "UNKNOWN_HEAD_S", 0.1)
    monkeypatch.setattr(connections, "UNKNOWN_BODY_S", 0.1)
    async with line(server) as (reader, writer):
        writer.write(sent)
        with suppress(OSError):
            await reader.read()
    await served(server)


async def test_who_drips_is_let_go(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte within the time, and all of them beyond it."""
    monkeypatch.setattr(connections, "UNKNOWN_HEAD_S", 0.2)
    async with line(server) as (reader, writer):
        over = asyncio.create_task(reader.read())
        writer.write(HEAD)
        while not over.done():
            writer.write(b"X")
            await asyncio.wait({over}, timeout=0.02)
        with suppress(OSError):
            await over


async def test_who_is_known_has_time_for_a_body(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head has the token: from there on a slow line is one."""
    monkeypatch.setattr(connections, "UNKNOWN_HEAD_S", 0.1)
    monkeypatch.setattr(connections, "UNKNOWN_BODY_S", 0.1)
    body = b'{"prompt": "x", "computers": []}'
    async with line(server) as (reader, writer):
        writer.write(b"POST /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + server.admin.encode())
        writer.write(b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:9])
        await line_ends(server)
        await line_ends(server)
        writer.write(body[9:])
        assert (await reader.readline()).startswith(b"HTTP/1.1 201 ")


async def test_a_request_that_is_whole_has_all_the_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream goes on, also with stray bytes behind it; so does a socket, and the next request on one connection."""
    for name in ("HEAD_S", "BODY_S", "UNKNOWN_HEAD_S", "UNKNOWN_BODY_S"):
        monkeypatch.setattr(connections, name, 0.1)
    tab = await signed_in(server)
    async with line(server) as (reader, writer), tab.reviewing() as reviewing:
        writer.write(b"GET /v1/watch HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + server.admin.encode())
        writer.write(b"\r\n\r\n")
        await reader.readuntil(b"event: hello")
        writer.write(b"\r\n")
        gone = asyncio.create_task(line_ends(server))
        await gone
        for version in range(1, 4):
            server.orchestrator.service.bus.publish("tasks", {"task_id": "t-x", "version": version})
        await reader.readuntil(b"event: tasks")
        assert "snapshot" in str(await within(reviewing.recv()))
        pong = await reviewing.ping()
        await within(pong)
    async with line(server) as (reader, writer):
        for _ in range(3):
            writer.write(HEAD + b"\r\n")
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            await reader.readuntil(b"}")


@pytest.mark.parametrize("path", ["/v1/watch", "/v1/computers/farm/screen", "/v1/tasks/{}/events"])
async def test_the_head_of_a_stream_has_an_end(server: Server, path: str) -> None:
    """Nobody watches by it, and the connection is free for the next request."""
    await server.computer("farm")
    path = path.format(await server.submit(["farm"]))
    async with line(server) as (reader, writer):
        for request in (f"HEAD {path}", "GET /healthz"):
            lines = (f"{request} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {server.admin}", "", "")
            writer.write("\r\n".join(lines).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"text/event-stream" in head
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert await reader.readuntil(b"}") == b'{"status":"ok"}'
    assert not server.orchestrator.hub.mirror._views


async def line_ends(server: Server) -> None:
    """A connection that says nothing is over: so long all others had by then, too."""
    async with line(server) as (reader, _):
        await reader.read()


# -- who takes nothing -------------------------------------------------------------------


def stuck(server: Server, request: str, token: str, **headers: str) -> socket.socket:
    """A peer that asks and then reads nothing: its kernel has room for a few kB."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    own.connect((host, int(port)))
    lines = [request, f"Host: {host}:{port}", f"Authorization: Bearer {token}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    own.sendall("\r\n".join((*lines, "", "")).encode())
    return own


async def until(server: Server, holds: Callable[[], bool]) -> None:
    """Wait until something holds; others are served meanwhile."""
    async with asyncio.timeout(HANG_S):
        while not holds():
            await served(server)


async def test_who_watches_a_screen_and_takes_nothing_watches_no_more(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped, or gone without a word: the computer sends nothing any longer for nobody."""
    monkeypatch.setattr(connections, "TAKES_S", 0.3)
    monkeypatch.setattr("orchestrator.computers.hub.view.APART_S", 0.0)
    mirror = server.orchestrator.hub.mirror
    async with stub(server, await server.computer("farm")) as computer:
        with closing(stuck(server, "GET /v1/computers/farm/screen HTTP/1.1", server.admin)):
            await until(server, lambda: "farm" in mirror._views)
            # The kernel's own buffers for a peer on this host are large: they are filled from within.
            (view,) = mirror._views[ComputerId("farm")].values()
            await until(server, lambda: view.shown is not None)

            async def draws() -> None:
                while "farm" in mirror._views:
                    view.touch(None)
                    await asyncio.sleep(0)

            await within(draws())
        assert computer.welcomed.is_set()
    await served(server)


SOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec_WebSocket_Version": "13",
    "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


async def test_a_stuck_socket_holds_up_no_revocation(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint answers, the socket is cut off, and whoever was revoked elsewhere is still looked for."""
    monkeypatch.setattr(sockets, "CLOSE_S", 0.2)
    bob, eve = await server.person("bob", "reviewer"), await server.person("eve", "reviewer")
    known = server.orchestrator.endpoints.sockets
    with closing(stuck(server, "GET /reviewer HTTP/1.1", bob, **SOCKET)):
        await until(server, lambda: ("person", "bob") in known._open)
        (held,) = known._open["person", "bob"]
        talking = asyncio.create_task(talk(held))
        assert not (await asyncio.wait({talking}, timeout=0.5))[0], "its reader is not stuck"
        headers = {"Authorization": f"Bearer {eve}"}
        async with server.http.stream("GET", "/v1/watch", headers=headers) as watching:
            assert (await within(server.ask("DELETE", "/v1/tokens/person/bob"))).status_code == 200
            await until(server, lambda: ("person", "bob") not in known._open)
            with pytest.raises(ConnectionError):
                await within(talking)
            await server.orchestrator.store.revoke_tokens("person", "eve")
            async with asyncio.timeout(HANG_S):
                async for _ in blocks_of(watching):
                    """Until its end."""


async def test_a_socket_whose_reader_takes_nothing_is_let_go(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to revoke anything for it."""
    monkeypatch.setattr(connections, "TAKES_S", 0.3)
    known = server.orchestrator.endpoints.sockets
    with closing(stuck(server, "GET /reviewer HTTP/1.1", server.admin, **SOCKET)):
        await until(server, lambda: ("person", "admin") in known._open)
        (held,) = known._open["person", "admin"]
        with pytest.raises(ConnectionError):
            await within(talk(held))
        await until(server, lambda: ("person", "admin") not in known._open)


async def talk(held: object) -> None:
    """Send to somebody who reads nothing, until the connection is over."""
    assert isinstance(held, sockets.StarletteSocket)
    while True:
        await held.send("x" * 65_536)


async def test_a_task_waits_once_for_a_slow_reviewer(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it changes meanwhile: what waits is bounded by how many tasks there are."""
    tab, task_id = await signed_in(server), await server.submit([])
    await server.until(task_id, "task_ended")
    service, loaded, again = server.orchestrator.service, list[str](), asyncio.Event()
    load = service.load

    async def loading(one: TaskId) -> AgentTask:
        loaded.append(one)
        again.set()
        return await load(one)

    async with tab.reviewing() as reviewing:
        assert "snapshot" in str(await within(reviewing.recv()))
        monkeypatch.setattr(service, "load", loading)
        for version in range(1000):
            service.bus.publish("tasks", {"task_id": task_id, "version": version})
        service.bus.publish("tasks", {"task_id": "t-last", "version": 1})
        while "t-last" not in loaded:
            again.clear()
            await within(again.wait())
        assert loaded == [task_id, "t-last"]


# -- what nobody may make this host keep -------------------------------------------------


async def refusals(server: Server) -> list[tuple[str, str]]:
    """Who was refused where, as it was written down."""
    found = (await server.ask("GET", "/v1/audit?system=1&kind=attempt_refused&limit=1000")).json()["items"]
    return [(one["actor"]["id"], one["fact"]["door"]) for one in found]


async def test_refusals_of_nobody_are_bounded_and_hide_nobodys_else(server: Server) -> None:
    """So many a minute and none of them long; what a person is refused meanwhile is written down all the same."""
    eve = await server.person("eve")
    for number in range(MOST_A_MINUTE + 30):
        assert (await server.http.get(f"/v1/tasks/{number}-{'a' * 5000}")).status_code == 401
    assert (await server.ask("GET", "/v1/tokens", token=eve)).status_code == 403
    told = await refusals(server)
    assert [who for who, _ in told] == [""] * MOST_A_MINUTE + ["eve"]
    assert max(len(endpoint) for _, endpoint in told) == 200
    kept = server.orchestrator.endpoints.attempts._counts
    assert sum(map(len, kept.values())) == MOST_A_MINUTE + 1
    assert all(len(endpoint) <= 200 for counts in kept.values() for _, endpoint, *_ in counts)


async def test_every_refusal_is_in_an_item(tmp_path: Path) -> None:
    """Some one by one, the others as a number in one item, which the stop does not lose."""
    tries, endpoints = 57, MOST_A_MINUTE + 30
    async with running(tmp_path, store="") as server:
        for _ in range(tries):
            assert (await server.http.get("/v1/tokens")).status_code == 401
        for number in range(endpoints):
            assert (await server.http.get(f"/v1/tasks/{number}")).status_code == 401
        for number in range(WRONG_TRIES + 7):
            await server.http.post("/v1/pair", json={"code": f"AAAA-{number:04}", "computer_id": 1})
        before = await refusal_items(server)
    async with running(tmp_path, store="") as server:
        (told,) = (await refusal_items(server))[len(before) :]
    # 1 and 10 of 57 have an item, 119 of the endpoints, and no code; 7 of the codes were too many.
    assert told["fact"]["more"] == (tries - 10) + (endpoints - MOST_A_MINUTE + 1) + WRONG_TRIES + 7
    assert told["fact"]["detail"].endswith(
        f"not written down one by one: {tries - 10 + endpoints - MOST_A_MINUTE + 1} unauthenticated, "
        f"{WRONG_TRIES} code_unknown, 7 too_many_tries."
    )
    assert (told["actor"]["kind"], told["fact"]["door"]) == ("system", "all doors")


async def test_the_number_is_written_down_each_minute(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when nobody comes any more."""
    monkeypatch.setattr("orchestrator.web.peers.WITHIN", timedelta(seconds=0.05))
    for _ in range(3):
        assert (await server.http.get("/v1/tokens")).status_code == 401
    async with asyncio.timeout(HANG_S):
        while (await refusal_items(server))[-1]["fact"]["door"] != "all doors":
            await served(server)


async def refusal_items(server: Server) -> list[dict[str, Any]]:
    """Each refusal as it was written down."""
    answer = await server.ask("GET", "/v1/audit?system=1&kind=attempt_refused&limit=1000")
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


@pytest.mark.parametrize("path", ["/v1/session", "/v1/pair"])
async def test_an_endpoint_that_is_open_to_anybody_reads_little(server: Server, path: str) -> None:
    """Where a token is asked for first, a body may be large."""
    large = {"token": "x" * MAX_OPEN_BYTES}
    answer = await server.http.post(path, json=large, headers={"Origin": server.url})
    assert answer.status_code == 422
    assert f"more than {MAX_OPEN_BYTES} bytes" in answer.json()["error"]["message"]
    assert (await server.ask("POST", "/v1/tasks", {"prompt": "x" * 20_000, "computers": []})).status_code == 201
