"""The simulated computer against a real WebSocket server, both ends of the wire for real."""

import asyncio
import contextlib
import json
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from orchestrator.core import wire

ROOT = Path(__file__).resolve().parent.parent.parent
TOKEN = "a token"
OLD, NEW = b"old bytes\n", b"the new bytes \x00\xff"
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
            assert message.type in {"ack", "result", "pong"}, message

    async def welcome(self) -> None:
        self.number = self.hello.highest + 1
        await self.send(wire.Welcome(number=self.number, computer="alpha"))

    async def call(
        self, method: str, params: dict[str, Any], body: bytes | None = None, call_id: str | None = None
    ) -> tuple[Any, bytes]:
        """The result of a call; it is acknowledged unless it has an id of its own."""
        self.number += 1
        name = call_id or f"run-{next(self.ids)}"
        described = None if body is None else wire.whole(body)
        call = wire.Call(call_id=name, task="t", number=self.number, method=method, params=params, body=described)
        await self.send(call, body or b"")
        result, result_body = await self.until("result")
        if call_id is None:
            self.number += 1
            await self.send(wire.ResultAck(call_id=name, number=self.number))
        return result, result_body

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
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "cc_client.simulator",
        f"--url=ws://127.0.0.1:{to.port}/computer",
        f"--token={TOKEN}",
        f"--disk={disk}",
        *options,
        cwd=ROOT,
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
    [(b"while true do pcall(error) end", "timed_out"), (b"sleep(100)", "timed_out")],
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


async def test_a_full_disk_refuses_a_write_before_anything_is_touched(tmp_path: Path) -> None:
    async with welcomed(tmp_path, "--capacity=110000") as session:
        result, _ = await session.call("fs_write", {"path": "f", "if_hash": "absent"}, b"x" * 40_000)
        assert result.code == "no_space_for_safe_write"
        assert result.data["missing"] > 0
        assert not (tmp_path / "f").exists()


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
            assert await asyncio.wait_for(process.wait(), 10) == 0


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
print(textutils.unserialize(textutils.serialize({ a = { 1, "x" } })).a[2], colors.red, colours.grey)
print(shell.run("none"), shell.resolveProgram("ls"), shell.execute("mkdir", "made"), fs.isDir("made"))
local module = fs.open("module.lua", "w") module.write("return { n = ... }") module.close()
print(require("module").n, select("#", unpack({ 1, 2 })), _HOST)
"""
SCREEN_OUTPUT = b"""\
words wrap|here      |
first
second
x\t16384\t128
No such program
false\trom/programs/list.lua\ttrue\ttrue
module\t2\tComputerCraft 1.116.1 (CC-Simulator)
"""


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
        assert await asyncio.wait_for(process.wait(), 10) == 0
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


@pytest.mark.parametrize("method", ["fs_write", "fs_delete"])
async def test_a_change_is_done_or_not_wherever_the_process_is_killed(tmp_path: Path, method: str) -> None:
    """Old or new bytes, and the outcome says which; no swap files stay behind."""
    first = tmp_path / "first"
    (first / "d").mkdir(parents=True)
    (first / "d" / "f").write_bytes(OLD)
    async with welcomed(first) as session:
        await session.call("fs_list", {"path": ""})
    params = {"path": "d/f", "if_hash": wire.sha256_hex(OLD)}
    body = NEW if method == "fs_write" else None
    slots = asyncio.Semaphore(4)

    async def one(at_change: int) -> str:
        disk = tmp_path / str(at_change)
        shutil.copytree(first, disk)
        async with slots:
            became = await _cut(disk, at_change, method, params, body)
        path = disk / "d" / "f"
        expected = OLD if became != "done" else body
        assert (path.read_bytes() if path.exists() else None) == expected
        swap = disk / ".cc-orchestrator" / "swap"
        assert not swap.exists() or not list(swap.iterdir())
        return became

    outcomes = await asyncio.gather(*(one(at_change) for at_change in range(1, LAST_CHANGE + 1)))
    assert set(outcomes) == {"void", "not_done", "done"}
