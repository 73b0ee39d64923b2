"""What Minecraft does to a simulated computer while it runs, told to it by the line protocol."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from tests.harness.simulating import Player, playing
from tests.waiting import HANG_S


@dataclass
class Sockets:
    """A server of WebSockets that hands each to the test."""

    port: int = 0
    opened: asyncio.Queue[ServerConnection] = field(default_factory=asyncio.Queue)

    async def handle(self, socket: ServerConnection) -> None:
        await self.opened.put(socket)
        await socket.wait_closed()

    async def next(self) -> ServerConnection:
        """The next connection."""
        async with asyncio.timeout(HANG_S):
            return await self.opened.get()

    def source(self, text: str, dial: str = "http.websocket(URL)") -> str:
        """A program that has dialled this server and says so on the screen."""
        return f"local URL = 'ws://127.0.0.1:{self.port}/' local ws = {dial} print('OPEN')\n{text}"


def chosen(_: ServerConnection, named: Sequence[Subprotocol]) -> Subprotocol | None:
    """The protocol of this server, for those who name it."""
    return Subprotocol("mine") if "mine" in named else None


@pytest.fixture
async def sockets() -> AsyncIterator[Sockets]:
    """The server, listening; it knows one protocol, and nobody has to name it."""
    server = Sockets()
    async with serve(server.handle, "127.0.0.1", 0, compression=None, select_subprotocol=chosen) as listening:
        server.port = next(iter(listening.sockets)).getsockname()[1]
        yield server


@asynccontextmanager
async def running(disk: Path, source: str, *options: str) -> AsyncIterator[Player]:
    """A computer whose startup file is the source."""
    (disk / "startup.lua").write_text(source, "latin-1")
    async with playing(disk, *options) as player:
        yield player


async def closed(socket: ServerConnection) -> int | None:
    """The code with which a connection has ended."""
    async with asyncio.timeout(HANG_S):
        await socket.wait_closed()
    return socket.close_code


async def test_an_unloaded_chunk_takes_everything_but_the_disk(tmp_path: Path, sockets: Sockets) -> None:
    """The socket dies without a close frame, Lua's state is lost, and the computer boots when the chunk is back."""
    source = sockets.source(
        "local f = fs.open('boots', 'a') f.write('x') f.close() print('WAITS') os.pullEvent('never')"
    )
    async with running(tmp_path, source) as player:
        first = await sockets.next()
        await player.see("WAITS")
        await player.do("unload")
        assert await closed(first) == 1006
        assert await player.do("state") == "unloaded"
        assert await player.ask("terminate") == "error: the computer is unloaded"
        await player.do("load")
        await sockets.next()
        assert (tmp_path / "boots").read_text() in {"x", "xx"}
        await player.see("WAITS")
        assert await player.do("state") == "on"


async def test_a_reboot_and_the_power_button_start_anew(tmp_path: Path, sockets: Sockets) -> None:
    async with running(tmp_path, sockets.source("os.pullEvent('never')")) as player:
        first = await sockets.next()
        await player.do("reboot")
        assert await closed(first) == 1006
        second = await sockets.next()
        await player.do("off")
        assert await closed(second) == 1006
        assert await player.ask("load") == "error: the computer is off"
        await player.do("on")
        await sockets.next()


async def test_a_computer_that_shuts_down_stays_off_until_somebody_turns_it_on(tmp_path: Path) -> None:
    async with playing(tmp_path, "--type=shutdown") as player:
        while await player.do("state") == "on":
            pass
        await player.do("on")
        await player.do("type id")
        await player.see("This is computer #0")


async def test_a_cut_is_noticed_by_both_sides_and_a_silence_by_none(tmp_path: Path, sockets: Sockets) -> None:
    text = """
    repeat
      local name, _, a, b = os.pullEvent()
      print(name, a, b)
    until name == "websocket_closed"
    """
    async with running(tmp_path, sockets.source(text)) as player:
        socket = await sockets.next()
        await player.see("OPEN")
        await player.do("mute")
        await socket.send("unheard")
        await player.do("event knock")
        assert "unheard" not in await player.see("knock")
        await player.do("unmute")
        await player.see("websocket_message?unheard?false")
        await player.do("cut")
        assert await closed(socket) == 1006
        await player.see("websocket_closed?Connection closed?nil")


async def test_frames_are_late_but_in_order(tmp_path: Path, sockets: Sockets) -> None:
    text = """
    for n = 1, 20 do ws.send(tostring(n), true) end
    local seen = {}
    for n = 1, 20 do seen[n] = ws.receive() end
    print(table.concat(seen, "") == "abcdefghijklmnopqrst" and "IN ORDER")
    """
    async with running(tmp_path, sockets.source(text), "--latency=120", "--jitter=60") as player:
        socket = await sockets.next()
        began = asyncio.get_running_loop().time()
        for char in "abcdefghijklmnopqrst":
            await socket.send(char)
        assert [await socket.recv() for _ in range(20)] == [str(n).encode() for n in range(1, 21)]
        await player.see("IN ORDER")
        assert asyncio.get_running_loop().time() - began > 0.1


async def test_a_reason_a_code_and_a_message_that_is_too_large(tmp_path: Path, sockets: Sockets) -> None:
    text = """
    print(select(3, os.pullEvent("websocket_closed")))
    print(pcall(ws.send, "x"))
    ws = http.websocket(URL)
    print(pcall(ws.send, ("x"):rep(131073)))
    print(select(3, os.pullEvent("websocket_closed")))
    """
    async with running(tmp_path, sockets.source(text)) as player:
        await (await sockets.next()).close(1008, "no")
        await player.see("no?1008")
        second = await sockets.next()
        await player.see("Message is too large")
        await second.send(b"x" * 131073)
        assert await closed(second) == 1009
        screen = await player.see("Could not connect?nil")
        assert "attempt to use a closed file" in " ".join(screen.splitlines())


async def test_a_refused_handshake_and_the_protocols_of_versions(tmp_path: Path, sockets: Sockets) -> None:
    """Before 1.97 no protocol was named; one that the server does not know is a failure."""
    headers = '{ ["Sec-WebSocket-Protocol"] = "mine" }'
    for version, named in (("1.96", None), ("1.97", "mine")):
        disk = tmp_path / version
        disk.mkdir()
        source = sockets.source("os.pullEvent('never')", f"http.websocket(URL, {headers})")
        async with running(disk, source, f"--cc-version={version}") as player:
            assert (await sockets.next()).subprotocol == named
            await player.see("OPEN")
    text = "print(http.websocket(URL, { ['Sec-WebSocket-Protocol'] = 'other' }))"
    async with running(tmp_path, sockets.source(text)) as player:
        await player.see("false?Invalid")


async def test_text_before_1_109_is_latin_1_in_lua(tmp_path: Path, sockets: Sockets) -> None:
    text = "local got = ws.receive() print(#got, got:byte(1, -1)) ws.send('\\228') ws.send('\\228', true)"
    said: dict[str, list[Any]] = {}
    for version in ("1.108", "1.109"):
        disk = tmp_path / version
        disk.mkdir()
        async with running(disk, sockets.source(text), f"--cc-version={version}") as player:
            socket = await sockets.next()
            await socket.send("\u00e4\u20ac")
            said[version] = [await socket.recv(), await socket.recv()]
            await player.see("2?228?63" if version == "1.108" else "5?195?164?226?130?172")
    assert said == {"1.108": ["\u00e4", b"\xe4"], "1.109": ["\ufffd", b"\xe4"]}


async def test_a_full_disk_refuses_and_takes_again(tmp_path: Path) -> None:
    source = """
    while true do
      os.pullEvent("try")
      local f, why = fs.open("f", "w")
      print(f and pcall(f.write, ("x"):rep(2000)) and "WRITTEN" or why or "FULL", fs.getFreeSpace("/") < 1000)
      if f then pcall(f.close) end
    end
    """
    async with running(tmp_path, source) as player:
        assert await player.do("fill 998200") == 998_200
        await player.do("event try")
        await player.see("FULL?true")
        (tmp_path / "f").unlink()
        # More than is free cannot be taken: what the files take stays theirs.
        startup = max(500, (tmp_path / "startup.lua").stat().st_size)
        assert await player.do("fill 5000000") == 1_000_000 - startup
        await player.do("event try")
        await player.see("Out of space?true")
        assert await player.ask("fill -1") == "error: a disk cannot be filled with -1 bytes"
        assert await player.do("fill 0") == 0
        await player.do("event try")
        await player.see("WRITTEN?false")


async def test_the_257th_event_is_lost(tmp_path: Path) -> None:
    source = """
    for n = 1, 300 do os.queueEvent("full", n, { deep = { n }, f = print }) end
    local last
    for _ = 1, 256 do local _, n, t = os.pullEvent("full") last = n .. " " .. t.deep[1] .. " " .. tostring(t.f) end
    print(last)
    """
    async with running(tmp_path, source) as player:
        assert "256 256 nil" in await player.see("256 256")


@pytest.mark.deep
async def test_a_loop_that_catches_the_watchdog_turns_the_computer_off_for_good(tmp_path: Path) -> None:
    async with running(tmp_path, "while true do pcall(function() while true do end end) end") as player:
        async with asyncio.timeout(HANG_S):
            assert await player.process.wait() == 3


async def test_a_wrong_command_is_a_sentence(tmp_path: Path) -> None:
    async with playing(tmp_path) as player:
        assert await player.ask("dance") == "error: there is no command dance; say help"
        assert (await player.ask("key Meta")).startswith("error: there is no key Meta; say a character or one of")
        assert await player.ask("set redstone") == "error: not enough values to unpack (expected 3, got 1)"
        assert "unload" in (await player.do("help"))[0]
        await player.do("latency 5 1")


async def test_who_controls_it_takes_it_along(tmp_path: Path) -> None:
    async with playing(tmp_path) as player:
        await player.see("CraftOS")
        assert player.process.stdin is not None
        player.process.stdin.close()
        async with asyncio.timeout(HANG_S):
            assert await player.process.wait() == 0


async def test_the_client_comes_back_after_its_chunk_was_gone(tmp_path: Path) -> None:
    """With the client installed the same commands work: it dials again by itself."""
    server = Sockets()
    protocol = [Subprotocol("cc-orchestrator.v1")]
    async with serve(server.handle, "127.0.0.1", 0, compression=None, subprotocols=protocol) as listening:
        port = next(iter(listening.sockets)).getsockname()[1]
        options = (f"--url=ws://127.0.0.1:{port}/computer", "--token=t")
        async with playing(tmp_path, *options, bare=False) as player:
            first = await server.next()
            assert b'"hello"' in bytes(await first.recv(decode=False))
            await player.do("unload")
            with pytest.raises(ConnectionClosed):
                await first.recv()
            await player.do("load")
            assert b'"hello"' in bytes(await (await server.next()).recv(decode=False))
            await player.do("state")
        assert player.lines == [f"computer 0 connected to ws://127.0.0.1:{port}/computer"] * 2
