"""The simulated computer against a real WebSocket server, both ends of the wire for real."""

import asyncio
import contextlib
import json
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from orchestrator.core.wire import wire
from tests import ROOT, forked
from tests.waiting import within

TOKEN = "a token"
OLD, NEW = b"old bytes\n", b"the new bytes \x00\xff"
PART = wire.MAX_BODY_BYTES
LAST_CHANGE = 24
"""More changes than one boot and one call make."""


@dataclass
class Session:
    """One connection of a computer, spoken to by hand."""

    socket: ServerConnection
    hello: wire.Hello
    number: int = 0
    ids: "count[int]" = field(default_factory=lambda: count(1))

    async def send(self, message: Any, body: bytes = b"") -> None:
        await self.socket.send(wire.encode(message, body))

    async def receive(self) -> tuple[Any, bytes]:
        data = await self.socket.recv()
        assert isinstance(data, bytes)
        return wire.decode(data)

    async def until(self, kind: str) -> tuple[Any, bytes]:
        """The next message of a kind; an error of the client fails the test."""
        while True:
            message, body = await self.receive()
            if message.type == kind:
                return message, body
            assert message.type in {"ack", "result", "pong", "chunk_ack", "output"}, message

    async def welcome(self) -> None:
        self.number = self.hello.highest + 1
        await self.send(wire.Welcome(number=self.number, computer="alpha"))

    async def call(
        self, method: str, params: dict[str, Any], body: bytes | None = None, call_id: str | None = None
    ) -> tuple[Any, bytes]:
        """The result of a call; it is acknowledged unless it has an id of its own."""
        self.number += 1
        name = call_id or f"run-{next(self.ids)}"
        await self.begin(name, method, params, body)
        result, result_body = await self.until("result")
        if result.body is not None and result.body.total > wire.MAX_BODY_BYTES:
            result_body = await self.rest(result, result_body)
        if call_id is None:
            self.number += 1
            await self.send(wire.ResultAck(call_id=name, number=self.number))
        return result, result_body

    async def begin(self, name: str, method: str, params: dict[str, Any], body: bytes | None = None) -> None:
        """Send a call; a body over one frame goes in parts, eight of them ahead of their acknowledgements."""
        described = None if body is None else wire.whole(body)
        call = wire.Call(call_id=name, task="t", number=self.number, method=method, params=params, body=described)
        await self.send(call, (body or b"")[:PART])
        if described is None or body is None or len(body) <= PART:
            return
        for index, offset in enumerate(range(PART, len(body) + 7 * PART, PART), start=1):
            if offset < len(body):
                chunk = wire.Chunk(call_id=name, body=described.model_copy(update={"offset": offset}))
                await self.send(chunk, body[offset : offset + PART])
            if index >= 7:
                acknowledged, _ = await self.until("chunk_ack")
                assert acknowledged.call_id == name
                assert acknowledged.offset == min((index - 6) * PART, len(body))

    async def rest(self, result: Any, first: bytes) -> bytes:
        """The whole body of a result in parts, each frame acknowledged."""
        parts, size = [first], len(first)
        await self.send(wire.ChunkAck(call_id=result.call_id, offset=size))
        while size < result.body.total:
            chunk, part = await self.until("chunk")
            assert (chunk.call_id, chunk.body.offset) == (result.call_id, size)
            parts.append(part)
            size += len(part)
            await self.send(wire.ChunkAck(call_id=result.call_id, offset=size))
        whole = b"".join(parts)
        assert wire.sha256_hex(whole) == result.body.sha256
        return whole

    async def settle(self, call_id: str) -> wire.SettledCall:
        self.number += 1
        await self.send(wire.Settle(number=self.number, call_ids=(call_id,)))
        _, body = await self.until("settled")
        return wire.decode_settled(body)[0]


@dataclass
class Server:
    """A server that hands each connection to the test."""

    port: int = 0
    connections: asyncio.Queue[ServerConnection] = field(default_factory=asyncio.Queue)

    async def handle(self, socket: ServerConnection) -> None:
        await self.connections.put(socket)
        await socket.wait_closed()

    async def session(self) -> Session:
        """The next connection, after its hello."""
        socket = await self.connections.get()
        assert socket.request is not None
        assert socket.request.headers["Authorization"] == f"Bearer {TOKEN}"
        data = await socket.recv()
        assert isinstance(data, bytes)
        hello, _ = wire.decode(data)
        return Session(socket, hello)


@asynccontextmanager
async def server() -> AsyncIterator[Server]:
    handle = Server()
    subprotocols = [Subprotocol(wire.COMPUTER_SUBPROTOCOL)]
    async with serve(handle.handle, "127.0.0.1", 0, compression=None, subprotocols=subprotocols) as listening:
        handle.port = next(iter(listening.sockets)).getsockname()[1]
        yield handle


@asynccontextmanager
async def computer(to: Server, disk: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A simulated computer; ended with SIGKILL when the block ends and it still runs."""
    process = await forked.start_simulator(
        f"--url=ws://127.0.0.1:{to.port}/computer",
        f"--token={TOKEN}",
        f"--disk={disk}",
        *options,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def welcomed(disk: Path, *options: str) -> AsyncIterator[Session]:
    async with server() as listening, computer(listening, disk, *options):
        session = await listening.session()
        await session.welcome()
        yield session


async def test_a_computer_says_who_it_is_and_that_it_is_connected(tmp_path: Path) -> None:
    async with server() as listening, computer(listening, tmp_path, "--id=3", "--label=caf\u00e9") as process:
        session = await listening.session()
        assert session.hello.computer_id == 3
        assert wire.from_wire(session.hello.label or "") == "caf\u00e9"
        assert session.hello.family == "advanced"
        assert session.hello.found_seq == 0
        assert process.stdout is not None
        line = await process.stdout.readline()
        assert line == f"computer 3 connected to ws://127.0.0.1:{listening.port}/computer\n".encode()


async def test_files_are_written_read_listed_and_deleted_byte_for_byte(tmp_path: Path) -> None:
    every_byte = bytes(range(256)) * 100
    async with welcomed(tmp_path) as session:
        digest = wire.sha256_hex(every_byte)
        written, _ = await session.call("fs_write", {"path": "a/b.bin", "if_hash": "absent"}, every_byte)
        assert written.data == {"size": len(every_byte), "sha256": digest, "before": "absent"}
        assert (tmp_path / "a" / "b.bin").read_bytes() == every_byte
        _, body = await session.call("fs_read", {"path": "a/b.bin"})
        assert body == every_byte
        listed, body = await session.call("fs_list", {"path": "a"})
        assert listed.data == {"count": 1}
        assert json.loads(body) == [{"name": "b.bin", "dir": False, "size": len(every_byte)}]
        deleted, _ = await session.call("fs_delete", {"path": "a/b.bin", "if_hash": digest})
        assert deleted.data == {"before": digest}
        assert not (tmp_path / "a" / "b.bin").exists()


async def test_the_hash_of_a_directory_is_that_of_the_protocol(tmp_path: Path) -> None:
    (tmp_path / "d" / "sub").mkdir(parents=True)
    (tmp_path / "d" / "x").write_bytes(OLD)
    (tmp_path / "d" / "sub" / "y").write_bytes(NEW)
    lines = [
        b"sub\0directory\0-\n",
        b"sub/y\0file\0" + wire.sha256_hex(NEW).encode() + b"\n",
        b"x\0file\0" + wire.sha256_hex(OLD).encode() + b"\n",
    ]
    async with welcomed(tmp_path) as session:
        stat, _ = await session.call("fs_stat", {"path": "d"})
        assert stat.data["kind"] == "directory"
        assert stat.data["sha256"] == wire.sha256_hex(b"".join(lines))


async def test_a_program_runs_and_tells_how_it_ended(tmp_path: Path) -> None:
    source = b'local name = ... print("hello " .. name) sleep(0.05) error("boo")'
    (tmp_path / "p.lua").write_bytes(source)
    params = {"path": "p.lua", "if_hash": wire.sha256_hex(source), "timeout_s": 10}
    async with welcomed(tmp_path) as session:
        result, body = await session.call("run_program", params, b'["w\\u00f6rld"]')
        assert result.code == "program_error"
        assert result.data["ended"] == "error"
        assert body[: result.data["output"]] == b"hello w\xf6rld\n"
        assert body[result.data["output"] :].startswith(b"/p.lua:1: boo\nstack traceback:")


async def test_a_shell_command_runs_the_program_that_was_resolved(tmp_path: Path) -> None:
    async with welcomed(tmp_path, "--id=5") as session:
        stat, _ = await session.call("fs_stat", {"command": "id"})
        assert stat.data["path"] == "rom/programs/id.lua"
        params = {"path": stat.data["path"], "if_hash": stat.data["sha256"], "timeout_s": 10}
        result, body = await session.call("shell", params, b'["id"]')
        assert result.ok
        assert body == b"This is computer #5\n"
        (tmp_path / "id.lua").write_bytes(b"print('not the one')")
        result, _ = await session.call("shell", params, b'["id"]')
        assert result.code == "stale"


@pytest.mark.parametrize(
    ("source", "ended"),
    [
        pytest.param(b"while true do pcall(error) end", "timed_out", marks=pytest.mark.deep),
        (b"sleep(100)", "timed_out"),
        pytest.param(
            b"while true do xpcall(function() while true do end end, function() while true do end end) end",
            "timed_out",
            marks=pytest.mark.deep,
        ),
        (b"debug.sethook() parallel.waitForAny(function() while true do pcall(error) end end)", "timed_out"),
        pytest.param(
            b"load('debug.sethook() while true do xpcall(error, error) end', 'x', 't', _G)()",
            "timed_out",
            marks=pytest.mark.deep,
        ),
    ],
)
async def test_a_program_that_does_not_end_is_ended_and_the_computer_lives(
    tmp_path: Path, source: bytes, ended: str
) -> None:
    (tmp_path / "p.lua").write_bytes(source)
    params = {"path": "p.lua", "if_hash": wire.sha256_hex(source), "timeout_s": 1}
    async with welcomed(tmp_path) as session:
        result, _ = await session.call("run_program", params, b"[]")
        assert result.data["ended"] == ended
        listed, _ = await session.call("fs_list", {"path": ""})
        assert listed.ok


async def test_heartbeats_are_answered_while_a_large_directory_is_hashed(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"big{number}").write_bytes(b"x" * 100_000)
    async with welcomed(tmp_path) as session:
        session.number += 1
        await session.send(
            wire.Call(call_id="slow", task="t", number=session.number, method="fs_stat", params={"path": ""})
        )
        await session.until("ack")
        await session.send(wire.Ping(n=1))
        kinds: list[str] = []
        while len(kinds) < 2:
            message, _ = await session.receive()
            kinds.append(message.type)
        assert kinds == ["pong", "result"]


CLIENT_SIZE = sum((ROOT / "cc_client" / name).stat().st_size for name in ("client.lua", "boot.lua", "cc.lua"))


async def test_a_full_disk_refuses_a_write_before_anything_is_touched(tmp_path: Path) -> None:
    async with welcomed(tmp_path, f"--capacity={CLIENT_SIZE + 40_000}") as session:
        result, _ = await session.call("fs_write", {"path": "f", "if_hash": "absent"}, b"x" * 40_000)
        assert result.code == "no_space_for_safe_write"
        assert result.data["missing"] > 0
        assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("options", "kib", "missing"),
    [
        ([f"--capacity={CLIENT_SIZE + 250_000}"], 150, 50_000),
        pytest.param([], 600, 200_000, marks=pytest.mark.deep, id="of the default size"),
    ],
)
async def test_a_large_file_goes_and_comes_in_parts(
    tmp_path: Path, options: Sequence[str], kib: int, missing: int
) -> None:
    """It fits as a new file; beside it there is no room for a safe change, and the old bytes stay."""
    big = bytes(range(256)) * 4 * kib
    digest = wire.sha256_hex(big)
    async with welcomed(tmp_path, *options) as session:
        assert "chunks" in session.hello.capabilities
        written, _ = await session.call("fs_write", {"path": "big", "if_hash": "absent"}, big)
        assert written.data == {"size": len(big), "sha256": digest, "before": "absent"}
        assert (tmp_path / "big").read_bytes() == big
        _, body = await session.call("fs_read", {"path": "big"})
        assert body == big
        refused, _ = await session.call("fs_write", {"path": "big", "if_hash": digest}, big[::-1])
        assert refused.code == "no_space_for_safe_write"
        assert refused.data["missing"] > missing
        assert (tmp_path / "big").read_bytes() == big
        swap = tmp_path / ".cc-orchestrator" / "swap"
        assert not list(swap.iterdir())


async def test_what_is_half_here_when_a_connection_ends_was_never_started(tmp_path: Path) -> None:
    body = NEW * 10_000
    described = wire.whole(body)
    async with server() as listening, computer(listening, tmp_path):
        session = await listening.session()
        await session.welcome()
        params = {"path": "f", "if_hash": "absent"}
        call = wire.Call(call_id="half", task="t", number=9, method="fs_write", params=params, body=described)
        await session.send(call, body[:PART])
        await session.until("chunk_ack")
        session.socket.transport.abort()
        again = await listening.session()
        assert again.hello.calls == ()
        await again.welcome()
        again.number = 20
        last = len(body) - len(body) % PART
        await again.send(wire.Chunk(call_id="half", body=described.model_copy(update={"offset": last})), body[last:])
        await again.until("chunk_ack")
        assert (await again.settle("half")).state == "void"
        assert not (tmp_path / "f").exists()


async def test_files_are_edited_moved_found_and_directories_made(tmp_path: Path) -> None:
    (tmp_path / "farm.lua").write_bytes(b"turtle.dig()\nturtle.up()\n")
    digest = wire.sha256_hex(b"turtle.dig()\nturtle.up()\n")
    async with welcomed(tmp_path) as session:
        made, _ = await session.call("fs_mkdir", {"path": "old/farms", "if_hash": "absent"})
        assert made.ok
        edit = {"path": "farm.lua", "if_hash": digest, "old_size": 5}
        edited, _ = await session.call("fs_edit", edit, b"up()\ndown()\n")
        assert (tmp_path / "farm.lua").read_bytes() == b"turtle.dig()\nturtle.down()\n"
        twice = {"path": "farm.lua", "if_hash": edited.data["sha256"], "old_size": 6}
        refused, _ = await session.call("fs_edit", twice, b"turtlex")
        assert (refused.code, refused.data["count"]) == ("several_matches", 2)
        move = {"path": "farm.lua", "if_hash": edited.data["sha256"], "to": "old/farms/1.lua", "if_to": "absent"}
        moved, _ = await session.call("fs_move", move)
        assert moved.data == {"before": edited.data["sha256"]}
        assert (tmp_path / "old" / "farms" / "1.lua").read_bytes() == b"turtle.dig()\nturtle.down()\n"
        assert not (tmp_path / "farm.lua").exists()
        find = {"path": "", "pattern": "**/*.lua", "contains": "down", "max": 10}
        found, body = await session.call("fs_find", find)
        assert found.data == {"count": 1, "cut": False}
        line = {"line": 2, "text": "turtle.down()"}
        assert json.loads(body) == [{"path": "old/farms/1.lua", "dir": False, "size": 27, "lines": [line]}]
        stat, lines = await session.call("fs_stat", {"path": "old"})
        assert stat.data["sha256"] == wire.sha256_hex(lines)
        assert lines.startswith(b"farms\0directory\0-\nfarms/1.lua\0file\0")


TALKS = b"""
for step = 1, 3 do
  print("step " .. step)
  sleep(0.6)
end
term.setCursorPos(5, 3)
term.setTextColour(colors.red)
term.write("waits")
os.pullEvent("never")
"""


async def test_a_program_is_followed_looked_at_and_told_to_end(tmp_path: Path) -> None:
    """Its output comes while it runs, its screen can be seen, and it ends as terminated."""
    (tmp_path / "p.lua").write_bytes(TALKS)
    params = {"path": "p.lua", "if_hash": wire.sha256_hex(TALKS), "timeout_s": 60}
    async with welcomed(tmp_path) as session:
        session.number += 1
        await session.begin("talks", "run_program", params, b"[]")
        heard = b""
        while not heard.endswith(b"waits"):
            output, part = await session.until("output")
            assert (output.call_id, output.body.offset) == ("talks", len(heard))
            heard += part
        assert heard == b"step 1\nstep 2\nstep 3" + b"\n" * (heard.count(b"\n") - 2) + b"    waits"
        seen, body = await session.call("screen", {"run": "talks"})
        assert (seen.data["width"], seen.data["x"], seen.data["y"]) == (200, 10, 3)
        row = json.loads(body)[2]
        assert row["text"].rstrip() == "stepwaits"
        assert row["fg"][4:9] == "eeeee"
        session.number += 1
        await session.begin("stop", "terminate", {"run": "talks"})
        results: dict[str, tuple[Any, bytes]] = {}
        while len(results) < 2:
            result, body = await session.until("result")
            results[result.call_id] = result, body
        assert results["stop"][0].data["state"] == "stopping"
        ended, body = results["talks"]
        assert (ended.code, ended.data["ended"]) == ("terminated", "terminated")
        assert b"waits" in body
        again, _ = await session.call("terminate", {"run": "talks"})
        assert again.data["state"] == "not_running"


async def test_a_program_that_ignores_its_end_is_left(tmp_path: Path) -> None:
    source = b"while true do os.pullEventRaw() end"
    (tmp_path / "p.lua").write_bytes(source)
    params = {"path": "p.lua", "if_hash": wire.sha256_hex(source), "timeout_s": 60}
    async with welcomed(tmp_path) as session:
        session.number += 1
        await session.begin("deaf", "run_program", params, b"[]")
        await session.until("ack")
        session.number += 1
        await session.begin("stop", "terminate", {"run": "deaf"})
        while (result := (await session.until("result"))[0]).call_id != "deaf":
            assert result.data["state"] == "stopping"
        assert result.data["ended"] == "abandoned"


async def test_a_computer_tells_of_itself_and_shows_its_own_screen(tmp_path: Path) -> None:
    async with welcomed(tmp_path, "--label=digger", "--capacity=700000") as session:
        info, body = await session.call("info", {})
        assert (info.data["capacity"], info.data["label"]) == (700_000, "digger")
        assert 0 < info.data["free"] < 700_000
        assert json.loads(body) == []
        seen, body = await session.call("screen", {})
        assert (seen.data["width"], seen.data["height"]) == (51, 19)
        assert json.loads(body)[0]["text"].rstrip() == "welcome as alpha"
        refused, _ = await session.call("screen", {"run": "none"})
        assert refused.code == "not_running"


async def test_a_reboot_interrupts_a_program_and_the_computer_comes_back(tmp_path: Path) -> None:
    source = b"sleep(0.1) os.reboot()"
    (tmp_path / "p.lua").write_bytes(source)
    params = {"path": "p.lua", "if_hash": wire.sha256_hex(source), "timeout_s": 10}
    async with server() as listening, computer(listening, tmp_path):
        session = await listening.session()
        await session.welcome()
        with pytest.raises(ConnectionClosed) as closed:
            await session.call("run_program", params, b"[]", call_id="once")
        assert closed.value.rcvd is None, "ComputerCraft sends no close frame"
        again = await listening.session()
        assert again.hello.boot != session.hello.boot
        assert again.hello.calls == ("once",)
        await again.welcome()
        assert (await again.settle("once")).state == "interrupted"


async def test_a_computer_dials_again_after_its_connection_is_lost(tmp_path: Path) -> None:
    async with server() as listening, computer(listening, tmp_path):
        session = await listening.session()
        await session.welcome()
        result, _ = await session.call("fs_write", {"path": "f", "if_hash": "absent"}, NEW, call_id="kept")
        session.socket.transport.abort()
        again = await listening.session()
        assert again.hello.boot == session.hello.boot
        assert again.hello.found_seq is None
        assert again.hello.calls == ("kept",)
        await again.welcome()
        settled = await again.settle("kept")
        assert (settled.state, settled.ok, settled.sha256) == ("finished", True, result.data["sha256"])


async def test_only_the_first_fragment_of_a_message_arrives(tmp_path: Path) -> None:
    ping = wire.encode(wire.Ping(n=1))
    async with welcomed(tmp_path) as session:
        await session.socket.send([ping[:5], ping[5:]])
        message, _ = await session.receive()
        assert message.code == "bad_frame"
        await session.socket.send(ping.decode())
        message, _ = await session.receive()
        assert message.code == "bad_frame", "a text message is no frame"
        await session.socket.send(ping)
        assert (await session.until("pong"))[0].n == 1


async def test_a_message_over_the_limit_of_the_mod_ends_the_connection_only(tmp_path: Path) -> None:
    async with server() as listening, computer(listening, tmp_path):
        session = await listening.session()
        await session.welcome()
        await session.socket.send(b"x" * 131_073)
        again = await listening.session()
        assert again.hello.boot == session.hello.boot
        assert session.socket.close_code == 1009


async def test_a_second_client_on_one_disk_stops_the_first(tmp_path: Path) -> None:
    async with server() as listening, computer(listening, tmp_path) as process:
        first = await listening.session()
        await first.welcome()
        await first.call("fs_list", {"path": ""})
        async with computer(listening, tmp_path):
            second = await listening.session()
            await second.welcome()
            await second.call("fs_list", {"path": ""})
            call = wire.Call(call_id="late", task="t", number=99, method="fs_list", params={"path": ""})
            await first.send(call)
            refused, _ = await first.receive()
            assert (refused.type, refused.code) == ("call_refused", "journal_failed")
            assert await within(process.wait()) == 0


FILES = b"""
fs.makeDir("a/b")
local file = fs.open("a/b/c", "wb") file.write("12\\n34") file.close()
print(pcall(fs.move, "a", "a/b/d"))
print(pcall(fs.copy, "a/b/c", "a/b"))
print(pcall(fs.list, "none"))
print(fs.open("none", "rb"))
print(fs.open("rom/x", "wb"))
print(pcall(fs.delete, "rom"))
print(pcall(fs.exists, "../x"))
fs.delete("none")
file = fs.open("a:/b*/c", "rb")
print(file.readLine(), file.readAll(), file.readAll() == "", file.read(1))
file.close()
print(pcall(file.readAll))
print(fs.combine("a", "../b", "c*"), fs.getDir("a/b"), fs.getName("a/b"))
print(#fs.find("a/*/?"), fs.getDrive("rom"), fs.isDriveRoot(""), fs.getDrive("none"))
"""
FILES_OUTPUT = b"""\
false\t/a: Can't move a directory inside itself
false\t/a/b: File exists
false\t/none: Not a directory
nil\t/none: No such file
nil\t/rom/x: Access denied
false\t/rom: Access denied
false\t/../x: Invalid Path
12\t34\ttrue\tnil
false\tattempt to use a closed file
b/c*\ta\tb
1\trom\ttrue\tnil
"""

QUEUE = b"""
for index = 1, 300 do os.queueEvent("full", index) end
local last = 0
local timer = os.startTimer(0.2)
repeat
  local name, value = os.pullEvent()
  last = name == "full" and value or last
until name == "timer" and value == timer
print(last, select("#", os.getComputerLabel()))
"""

SCREEN = b"""
local view = window.create(term.current(), 2, 2, 10, 3, false)
local before = term.redirect(view)
print("hidden words wrap here")
term.redirect(before)
print((view.getLine(1)) .. "|" .. (view.getLine(2)) .. "|")
parallel.waitForAll(function() sleep(0.05) print("second") end, function() print("first") end)
print(textutils.unserialize(textutils.serialize({ a = { 1, "x" } })).a[2], colors.red, colours.grey, colours.gray)
print(shell.run("none"), shell.resolveProgram("ls"), shell.execute("mkdir", "made"), fs.isDir("made"))
local module = fs.open("module.lua", "w") module.write("return { n = ... }") module.close()
print(require("module").n, select("#", unpack({ 1, 2 })), _HOST)
"""
SCREEN_OUTPUT = b"""\
words wrap|here      |
first
second
x\t16384\t128\tnil
No such program
false\trom/programs/list.lua\ttrue\ttrue
module\t2\tComputerCraft 1.116.1 (CC-Simulator)
"""


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("source", "output"),
    [(FILES, FILES_OUTPUT), (QUEUE, b"256\t0\n"), (SCREEN, SCREEN_OUTPUT)],
    ids=["files", "queue", "screen"],
)
async def test_programs_find_the_functions_of_the_game(tmp_path: Path, source: bytes, output: bytes) -> None:
    (tmp_path / "p.lua").write_bytes(source)
    params = {"path": "p.lua", "if_hash": wire.sha256_hex(source), "timeout_s": 10}
    async with welcomed(tmp_path) as session:
        _, body = await session.call("run_program", params, b"[]")
        assert body == output


async def test_sigterm_ends_the_process_cleanly(tmp_path: Path) -> None:
    async with server() as listening, computer(listening, tmp_path) as process:
        session = await listening.session()
        await session.welcome()
        process.send_signal(signal.SIGTERM)
        assert await within(process.wait()) == 0
        await session.socket.wait_closed()
        assert session.socket.close_code == 1006


async def test_the_process_dies_after_the_frame_that_it_is_told(tmp_path: Path) -> None:
    async with server() as listening, computer(listening, tmp_path, "--die-after-frame=2") as process:
        session = await listening.session()
        await session.welcome()
        with pytest.raises(ConnectionClosed):
            await session.call("fs_write", {"path": "f", "if_hash": "absent"}, NEW, call_id="cut")
        assert await process.wait() == -signal.SIGKILL


async def _cut(disk: Path, at_change: int, method: str, params: dict[str, Any], body: bytes | None) -> str:
    """Kill a computer at a change of its disk, boot it again, and say what became of the call."""
    result = None
    async with server() as listening, computer(listening, disk, f"--die-at-change={at_change}") as process:
        dialled, died = asyncio.create_task(listening.session()), asyncio.create_task(process.wait())
        await asyncio.wait((dialled, died), return_when=asyncio.FIRST_COMPLETED)
        if dialled.done():
            with contextlib.suppress(ConnectionClosed):
                await dialled.result().welcome()
                result, _ = await dialled.result().call(method, params, body, call_id="cut")
        for part in (dialled, died):
            part.cancel()
        await asyncio.gather(dialled, died, return_exceptions=True)
    async with welcomed(disk) as again:
        settled = await again.settle("cut")
    if result is not None:
        assert (settled.state, settled.ok) == ("finished", True)
    if settled.state == "finished" and settled.ok:
        return "done"
    assert settled.state == "void" or settled.code == "not_done"
    return settled.state if settled.state == "void" else "not_done"


@dataclass(frozen=True)
class Change:
    """A change that is cut short, and the files that it makes of the old one."""

    params: dict[str, Any]
    body: bytes | None
    after: dict[str, bytes]


TREE = wire.sha256_hex(b"f\0file\0%s\n" % wire.sha256_hex(OLD).encode())
CHANGES = {
    "fs_write": Change({}, NEW, {"d/f": NEW}),
    "fs_delete": Change({}, None, {}),
    "fs_edit": Change({"old_size": 3}, b"oldnew", {"d/f": OLD.replace(b"old", b"new")}),
    "fs_move": Change({"to": "e/g", "if_to": "absent"}, None, {"e/g": OLD}),
    "fs_mkdir": Change({"path": "m/n", "if_hash": "absent"}, None, {"d/f": OLD, "m/n/": b""}),
    "fs_write for a directory": Change({"path": "d", "if_hash": TREE, "replaces": "directory"}, NEW, {"d": NEW}),
    "fs_mkdir for a file": Change({"replaces": "file"}, None, {"d/f/": b""}),
}


def _files(disk: Path) -> dict[str, bytes]:
    """The player's files, and directories with nothing in them, whose names end with a slash."""
    found: dict[str, bytes] = {}
    for path in disk.rglob("*"):
        name = path.relative_to(disk).as_posix()
        if name.startswith(".cc-orchestrator"):
            continue
        if path.is_file():
            found[name] = path.read_bytes()
        elif not any(path.iterdir()) and name not in {"d", "e", "m"}:
            found[name + "/"] = b""
    return found


@pytest.mark.thinned(3)
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    "method", [pytest.param(one, marks=[pytest.mark.deep] * (one == "fs_edit")) for one in CHANGES]
)
async def test_a_change_is_done_or_not_wherever_the_process_is_killed(tmp_path: Path, method: str, step: int) -> None:
    """Old or new files, and the outcome says which; no swap files stay behind.

    At each ninth change, others for each method; in depth at each. An edit writes as a write does: in depth only.
    """
    first = 1 + list(CHANGES).index(method) % step
    intact = tmp_path / "intact"
    (intact / "d").mkdir(parents=True)
    (intact / "d" / "f").write_bytes(OLD)
    async with welcomed(intact) as session:
        await session.call("fs_list", {"path": ""})
    change = CHANGES[method]
    params = {"path": "d/f", "if_hash": wire.sha256_hex(OLD)} | change.params
    slots = asyncio.Semaphore(4)

    async def one(at_change: int) -> str:
        disk = tmp_path / str(at_change)
        shutil.copytree(intact, disk)
        async with slots:
            became = await _cut(disk, at_change, method.partition(" ")[0], params, change.body)
        assert _files(disk) == (change.after if became == "done" else {"d/f": OLD})
        swap = disk / ".cc-orchestrator" / "swap"
        assert not swap.exists() or not list(swap.iterdir())
        return became

    outcomes = await asyncio.gather(*(one(at_change) for at_change in range(first, LAST_CHANGE + 1, step)))
    # The changes at which it is started and not done are few.
    assert {"void", "done"} | ({"not_done"} if step == 1 else set()) <= set(outcomes) <= {"void", "not_done", "done"}


async def test_a_program_that_stands_in_for_functions_of_the_game_sees_no_token(tmp_path: Path) -> None:
    """It is there in its own turns; the client dials, reads its settings and guards its directory with its own."""
    source = b"""
        local seen, dial, gsub = {}, http.websocketAsync, string.gsub
        function http.websocketAsync(url, headers) seen[#seen + 1] = headers.Authorization return dial(url, headers) end
        function string.gsub(text, ...) seen[#seen + 1] = text return gsub(text, ...) end
        getmetatable("").__index = function() return function() return "mine" end end
        local file, why = fs.open(".cc-orchestrator/connection", "r")
        while not ready do ready = fs.exists("ready") sleep(0.1) end
        term.write(#seen .. " " .. tostring(http.websocketAsync ~= dial) .. " " .. (file and file.readAll() or why))
    """
    params = {"path": "p.lua", "if_hash": wire.sha256_hex(source), "timeout_s": 60}
    async with server() as listening, computer(listening, tmp_path):
        session = await listening.session()
        await session.welcome()
        await session.call("fs_write", {"path": "p.lua", "if_hash": "absent"}, source)
        session.number += 1
        await session.begin("run", "run_program", params)
        await session.until("ack")
        await session.socket.close()
        again = await listening.session()
        await again.welcome()
        (tmp_path / "ready").touch()
        result, body = await again.until("result")
        assert (result.call_id, result.ok) == ("run", True)
        assert body == b"0 true /.cc-orchestrator/connection: Access denied"
