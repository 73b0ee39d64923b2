"""The tools over the real hub and the real Lua client, on a simulated computer that stands in a world."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.computers.hub import socket
from orchestrator.core.errors import ComputerFailed, ToolFailed
from orchestrator.core.wire import wire
from orchestrator.tools.deps import CCAgentDeps
from tests import ROOT, forked
from tests.harness.hub_server import HubServer, ToolClient, hub_server, observed, use
from tests.harness.simulating import playing
from tests.waiting import HANG_S, within

WORLD = {
    "peripherals": {
        "left": {"type": "minecraft:chest", "size": 27, "items": {"1": "minecraft:coal*5", "9": "minecraft:stick"}},
        "top": {"type": "monitor", "width": 14, "height": 4},
    },
    "redstone": {"back": 7},
    "turtle": {"fuel": 120, "items": {"2": "minecraft:dirt*3"}},
}


@pytest.fixture
async def server() -> AsyncIterator[HubServer]:
    async with hub_server() as opened:
        yield opened


@asynccontextmanager
async def computer(server: HubServer, disk: Path, **more: Any) -> AsyncIterator[CCAgentDeps]:
    """A computer with the real client that is welcome, as tools reach it."""
    world = disk.parent / "world.json"
    world.write_text(json.dumps(WORLD))
    options = {
        "url": f"{server.url.replace('http', 'ws')}/computer",
        "token": "t",
        "disk": disk,
        "world": world,
        **more,
    }
    process = await forked.start_simulator(
        *[f"--{name}={value}" for name, value in options.items()],
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await within(server.journal.arrivals.get())
        yield CCAgentDeps(mode="live", ws_client=ToolClient(server), computer="3")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    path.mkdir()
    return path


def written(disk: Path, **programs: str) -> None:
    for name, source in programs.items():
        (disk / f"{name}.lua").write_text(source)


async def refused(tool: str, deps: CCAgentDeps, **args: Any) -> str:
    """The sentence with which a tool fails."""
    with pytest.raises(ToolFailed) as failed:
        await use(tool, deps, **args)
    return str(failed.value)


async def test_the_model_discovers_what_it_works_with(server: HubServer, disk: Path) -> None:
    """A turtle: its fuel and slots, its neighbours with their methods, and what is in the chest."""
    async with computer(server, disk, family="turtle", label="digger", id=5) as deps:
        lines = (await use("cc_info", deps)).splitlines()
        assert lines[0].startswith("Computer 5 'digger', turtle, ComputerCraft 1.")
        assert "Fuel: 120 of 20000. Selected slot: 1." in lines
        assert "Slots: 2: 3 minecraft:dirt. The other 15 are empty." in lines
        assert "Redstone: back in 7, out 0." in lines
        assert "- left: minecraft:chest, inventory" in lines
        assert lines[lines.index("- left: minecraft:chest, inventory") + 1].startswith("  methods: getItemDetail, ")
        assert "- top: monitor" in lines
        found = await use("cc_peripheral_call", deps, name="left", method="list")
        assert json.loads(found.splitlines()[1])["9"]["name"] == "minecraft:stick"
        # This one waits for a tick of the world.
        detail = await use("cc_peripheral_call", deps, name="left", method="getItemDetail", args=[1])
        assert json.loads(detail.splitlines()[1])["count"] == 5
        wrong = await refused("cc_peripheral_call", deps, name="left", method="getItemDetail", args=[99])
        assert wrong.startswith("left.getItemDetail failed: ")
        seen = await observed("cc_peripheral_call", deps, name="left", method="pushItems", args=["top", 1])
        assert seen.note.startswith("left is: minecraft:chest, inventory.")
        assert "There is no peripheral right.list" in await refused(
            "cc_peripheral_call", deps, name="right", method="list"
        )


async def test_a_program_gets_what_it_asks_for(server: HubServer, disk: Path) -> None:
    """`read` of the game, a key and a mask; what it echoes is one line, and what nobody read is said."""
    written(
        disk,
        quiz="""
            write('Name? ') local name = read()
            write('Code? ') local code = read('*')
            local _, key = os.pullEvent('key')
            sleep(0.1)
            print(name .. '/' .. code .. '/' .. tostring(key == keys.enter))
        """,
    )
    async with computer(server, disk) as deps:
        told = await use("cc_run_program", deps, path="quiz.lua", input="Eve X\n42\n\nmore")
        output = told.removeprefix("Program quiz.lua executed successfully.\nOutput:\n")
        assert output == "Name? Eve X\nCode? **\nEve X/42/true\n\n[4 bytes of the input were not read]"
        shell = await use("cc_shell", deps, command="quiz", input="a\nb\n\n")
        assert shell.endswith("a/b/true\n")
        deps.timeout_s = 1
        asks = await use("cc_run_program", deps, path="quiz.lua")
        assert asks.startswith("Program quiz.lua ran for its limit of 1 s without an error, then stopped.")
        assert "It waits for a line to be typed: give that as input." in asks
        assert "Name? " in asks
        # Enter is pressed after the last line, and then a key is waited for.
        asks = await use("cc_run_program", deps, path="quiz.lua", input="a\nb")
        assert "It waits for a key: give it as input." in asks
        assert asks.endswith("Name? a\nCode? *\n")


async def test_the_last_line_is_answered_at_once(server: HubServer, disk: Path) -> None:
    """Enter is pressed after it, also beside something else; and a menu of keys gets no Enter that nobody typed."""
    written(
        disk,
        sure="write('Sure? ') print(read() == 'y' and 'yes' or 'no')",
        both="""
            parallel.waitForAny(
                function() print('got ' .. read()) end,
                function() while true do sleep(0.05) end end
            )
        """,
        menu="""
            local _, key = os.pullEvent('char')
            print('chose ' .. key)
            local timer = os.startTimer(0.1)
            repeat
                local event = table.pack(os.pullEvent())
                if event[1] ~= 'timer' then print(event[1]) end
            until event[1] == 'timer' and event[2] == timer
        """,
        chat="print(rednet and 1) parallel.waitForAll(function() os.pullEvent('rednet_message') end, sleep)",
    )
    async with computer(server, disk) as deps:
        for typed in ("y", "y\n"):
            assert (await use("cc_run_program", deps, path="sure.lua", input=typed)).endswith("Sure? y\nyes\n")
        assert (await use("cc_run_program", deps, path="both.lua", input="ö k")).endswith("ö k\ngot ö k\n")
        assert (await use("cc_run_program", deps, path="menu.lua", input="2")).endswith("chose 2\nkey_up\n")
        deps.timeout_s = 1
        assert "It waits for the event rednet_message." in await use("cc_run_program", deps, path="chat.lua")


ENDS = {
    "return 1": None,
    "error('boom')": "program_error",
    "error({})": "program_error",
    "local x = nil; x.y = 1": "program_error",
    "this is no Lua": "program_error",
    "while true do sleep(0.1) end": None,
    "while true do pcall(sleep, 0.1) end": None,
    "while true do os.pullEventRaw() end": None,
    "while true do end": "program_error",
    "while true do pcall(function() while true do end end) end": "program_error",
    "local function f() return f() end f()": "program_error",
}


LONG = ("while true do pcall(function() while true do end end) end", "local function f() return f() end f()")
"""Those that keep the computer busy for seconds, as ``while true do end`` does."""


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("source", "code"),
    [pytest.param(*end, marks=pytest.mark.deep if end[0] in LONG else ()) for end in ENDS.items()],
)
async def test_ends_are_told_apart_and_nothing_keeps_the_computer(
    server: HubServer, disk: Path, source: str, code: str | None
) -> None:
    """However a program ends, or does not, its output is told and the computer answers right after."""
    written(disk, p=f"print('begun')\n{source}")
    async with computer(server, disk) as deps:
        # Less than what stops a program that never yields, so that what yields is stopped by its time.
        deps.timeout_s = 2 if "sleep" in source or "pullEventRaw" in source else 30
        if code is None:
            told = await use("cc_run_program", deps, path="p.lua")
            assert "begun\n" in told
            assert ("[It ignored terminate" in told) is ("pcall" in source or "Raw" in source)
            assert deps.ran is not None
            assert deps.ran.ended == ("finished" if source == "return 1" else "timed_out")
        else:
            told = await refused("cc_run_program", deps, path="p.lua")
            assert told.startswith(f"Program p.lua failed ({code}): ")
            assert ("was busy for too long without a pause" in told) == (
                "do end" in source or "f()" in source or "error)" in source
            )
            assert "begun" in told or "no Lua" in source
        assert "p.lua" in await use("cc_list", deps, path="/")


async def test_an_endless_program_is_watched_and_stopped(server: HubServer, disk: Path) -> None:
    """It ends well after its time, with its output and the screen as it was; an error before is an error."""
    game = "while true do term.clear() term.setCursorPos(2, 2) write('score 7') term.setCursorPos(1, 1) sleep(0.1) end"
    written(disk, p=f"print('begun') {game}", q="print('begun') sleep(0.1) error('boom')")
    async with computer(server, disk) as deps:
        told = await use("cc_run_program", deps, path="p.lua", observe_s=1)
        assert told.startswith("Program p.lua ran 1 s without an error, then stopped. It sleeps (timer).\n")
        assert "\nOutput:\nbegun\n" in told
        assert told.endswith("[on the screen when it was stopped:]\n\n score 7")
        assert deps.ran is not None
        assert (deps.ran.ended, round(deps.ran.seconds)) == ("observed", 1)
        assert "boom" in await refused("cc_shell", deps, command="q", observe_s=5)
        assert "p.lua" in await use("cc_list", deps, path="/")


async def test_a_paused_game_changes_nothing(server: HubServer, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """75 s of pause in the middle of sleep(1): the program ends as ever, and its limit of 5 s is not used up."""
    monkeypatch.setattr(wire, "RUN_PING_EVERY_S", 0.2)
    monkeypatch.setattr(socket, "PAUSED_AFTER_S", 0.1)
    written(disk, nap="print('begun') sleep(1) print('over')")
    url = f"--url={server.url.replace('http', 'ws')}/computer"
    async with playing(disk, url, "--token=t", bare=False) as player:
        await within(server.journal.arrivals.get())
        client = ToolClient(server)
        deps = CCAgentDeps(mode="live", ws_client=client, computer="3")
        run = asyncio.create_task(use("cc_run_program", deps, path="nap.lua", timeout_s=5))
        await within(client.wrote.wait())
        await player.do("pause")
        await player.do("skip 75")
        # The game stands still, and the client answers all the same.
        assert "nap.lua" in await use("cc_list", CCAgentDeps(mode="live", ws_client=ToolClient(server)), path="/")
        assert not run.done()
        # Two answers name the same time of the game: who follows the program is told so.
        await within(client.paused.wait())
        await player.do("go-on")
        told = await within(run)
        assert told.startswith("Program nap.lua executed successfully.\nOutput:\nbegun\nover\n")
        assert "[The game was paused or slow: 1 s in the game took " in told
        assert deps.ran is not None
        assert (deps.ran.ended, round(deps.ran.seconds)) == ("finished", 1)


async def test_what_bg_starts_is_followed(server: HubServer, disk: Path) -> None:
    """It is listed, its later output is seen, it is stopped, and one that fails says so."""
    written(
        disk,
        worker="local n = ... while true do print('tick ' .. n) sleep(0.05) end",
        bad="error('boom')",
        two="shell.run('bg worker 8') error('no')",
    )
    (disk / ".cc-orchestrator").mkdir()
    (disk / ".cc-orchestrator" / "connection").write_text(f"-- c\n{server.url.replace('http', 'ws')}/computer\nt\n")
    (disk / "startup.lua").write_bytes((ROOT / "cc_client" / "client.lua").read_bytes())
    async with playing(disk):
        await within(server.journal.arrivals.get())
        deps = CCAgentDeps(mode="live", ws_client=ToolClient(server), computer="3")
        told = await use("cc_shell", deps, command="bg worker 7")
        assert "[Runs on in the background: tab-1. cc_info lists it" in told
        assert deps.ran is not None
        assert deps.ran.tabs == ("tab-1",)
        await use("cc_shell", deps, command="fg bad")
        assert "[Runs on in the background: tab-3. cc_info" in await refused("cc_run_program", deps, path="two.lua")
        listed = await use("cc_info", deps)
        assert "- tab-1: worker 7, runs for" in listed
        assert "- tab-2: bad, ended with an error after 0 s: /bad.lua:1: boom" in listed
        async with asyncio.timeout(HANG_S):
            while "tick 7\ntick 7" not in await use("cc_screen", deps, of="tab-1"):
                pass
        assert "In tab-1 runs: worker 7, for" in (await observed("cc_stop", deps, tab="tab-1")).note
        await use("cc_stop", deps, tab="tab-3")
        assert await use("cc_stop", deps, tab="tab-1") == "tab-1 was stopped. The program was told to end."
        assert "- tab-1: worker 7, was stopped after" in await use("cc_info", deps)
        assert "tick 7" in await use("cc_screen", deps, of="tab-1")
        assert "No program runs in tab-1." in await refused("cc_stop", deps, tab="tab-1")
        assert "There is nothing to see of the screen of tab-9" in await refused("cc_screen", deps, of="tab-9")
        with pytest.raises(ToolFailed, match=r"No program runs in tab-2\."):
            await observed("cc_stop", deps, tab="tab-2")


async def test_a_computer_without_tabs_says_that_it_has_no_bg(server: HubServer, disk: Path) -> None:
    """The programs of the game are only on advanced computers."""
    async with computer(server, disk, family="computer") as deps:
        assert "bg exists only on advanced computers" in (await observed("cc_shell", deps, command="bg x")).note
        assert "finds no program bg" in await refused("cc_shell", deps, command="bg x")


@pytest.mark.deep
async def test_a_program_may_be_busy_for_as_long_as_in_the_game(server: HubServer, disk: Path) -> None:
    """A loop of 5 s completes, also twice at a time; one without an end is told its own line, in our words."""
    busy = "local at = os.epoch('utc') + 5000 while os.epoch('utc') < at do end print('done')"
    written(disk, busy=busy, hang="while true do\n  pcall(print, 'x')\nend")
    async with computer(server, disk) as deps:
        both = [use("cc_run_program", deps, path="busy.lua") for _ in range(2)]
        assert all(told.endswith("done\n") for told in await asyncio.gather(*both))
        told = await refused("cc_run_program", deps, path="hang.lua")
        assert "/hang.lua:2: The program was busy for too long without a pause: it was stopped after 6.5 s" in told
        assert "Too long without yielding" not in told
        assert not re.search(r"(guard|capture|programs|client)[.\w]*\.lua", told)


async def test_everything_that_is_written_is_captured(server: HubServer, disk: Path) -> None:
    """print, write, printError, term.write and blit; the last screen with its colours; and what went to a monitor."""
    written(
        disk,
        p="""
            print('print') write('write ') printError('printError')
            term.write('term') term.blit('blit', '1234', 'ffff') print()
            local top = peripheral.wrap('top')
            top.setTextScale(1) top.clear() top.setCursorPos(2, 1) top.setTextColour(colours.red) top.write('WELCOME')
            term.redirect(top) term.setCursorPos(1, 3) print('home')
        """,
    )
    async with computer(server, disk) as deps:
        told = await use("cc_run_program", deps, path="p.lua")
        assert told.splitlines()[2:] == [
            "print",
            "write printError",
            "termblit",
            "",
            "[on the monitor top:]",
            " WELCOME",
            "",
            "home",
        ]
        screen = await use("cc_screen", deps, of="program")
        assert "row 3, columns 5-5: orange on black" in screen
        monitor = (await use("cc_screen", deps, of="top")).splitlines()
        assert monitor[0] == "The monitor top: 14 columns, 4 rows, cursor at column 1, row 4."
        assert monitor[1:4] == [" WELCOME", "", "home"]
        assert "row 1, columns 2-8: red on black" in monitor
        own = await use("cc_screen", deps)
        assert own.startswith("The computer's own screen: 51 columns, 19 rows")
        assert "nothing to see of the monitor left" in await refused("cc_screen", deps, of="left")


async def test_bytes_are_kept_end_to_end(server: HubServer, disk: Path) -> None:
    """A latin-1 file stays latin-1, NUL and CRLF stay, and UTF-8 stays UTF-8, on the real disk."""
    (disk / "latin").write_bytes(b"gr\xfcn\r\n\0end\r\n")
    (disk / "utf8").write_bytes("grün\n".encode())
    async with computer(server, disk) as deps:
        await use("cc_edit", deps, path="latin", old="grün", new="blä")
        assert (disk / "latin").read_bytes() == b"bl\xe4\r\n\0end\r\n"
        await use("cc_write", deps, path="latin", content="ö\0\r\n")
        assert (disk / "latin").read_bytes() == b"\xf6\0\r\n"
        await use("cc_edit", deps, path="utf8", old="grün", new="blä")
        assert (disk / "utf8").read_bytes() == "blä\n".encode()


async def test_a_full_disk_keeps_the_old_bytes_and_says_what_is_biggest(server: HubServer, disk: Path) -> None:
    """How much is missing, and which files of this disk are the biggest: those of the client are not among them."""
    (disk / "logs").mkdir()
    (disk / "logs" / "old.txt").write_bytes(b"x" * 100_000)
    (disk / "small").write_bytes(b"small")
    async with computer(server, disk, capacity=400_000) as deps:
        told = await refused("cc_write", deps, path="small", content="y" * 399_000)
        assert (disk / "small").read_bytes() == b"small"
        assert "no room to change small safely: " in told
        assert "Nothing was changed. The biggest files there: logs/old.txt (100000 bytes), small (5 bytes)." in told
        # The way of every other change to a full disk.
        (disk / "rest").write_bytes(b"z" * 150_000)
        assert "are missing" in await refused("cc_write", deps, path="new", content="y" * 200_000)
        assert not (disk / "new").exists()


NAMED: list[tuple[str, dict[str, Any], bytes | None]] = [
    ("fs_list", {"path": "a:b"}, None),
    ("fs_read", {"path": "a:b"}, None),
    ("fs_stat", {"path": "a:b"}, None),
    ("fs_find", {"path": "a:b", "pattern": "**", "max": 9}, None),
    ("fs_write", {"path": "a:b", "if_hash": "absent"}, b"x"),
    ("fs_edit", {"path": "a:b", "if_hash": "0" * 64, "old_size": 1}, b"xy"),
    ("fs_delete", {"path": "a:b", "if_hash": "0" * 64}, None),
    ("fs_move", {"path": "a:b", "if_hash": "0" * 64, "to": "c", "if_to": "absent"}, None),
    ("fs_move", {"path": "c", "if_hash": "0" * 64, "to": "a:b", "if_to": "absent"}, None),
    ("fs_mkdir", {"path": "a:b", "if_hash": "absent"}, None),
    ("run_program", {"path": "a:b", "if_hash": "0" * 64, "timeout_s": 9}, b"[]"),
    ("shell", {"path": "a:b", "if_hash": "0" * 64, "timeout_s": 9}, b'["a"]'),
]


async def test_no_method_takes_a_name_that_the_game_would_change(server: HubServer, disk: Path) -> None:
    """The client itself refuses it, whoever asks, and says what it would become."""
    async with computer(server, disk) as deps:
        assert deps.ws_client is not None
        for method, params, body in NAMED:
            with pytest.raises(ComputerFailed) as failed:
                await deps.ws_client.call(method, params, body)
            assert (method, failed.value.reason, failed.value.data) == (method, "bad_path", {"becomes": "ab"})


async def test_a_program_that_is_told_to_end_says_so(server: HubServer, disk: Path) -> None:
    """`terminate` ends it at once; its output is told, and that it was a person who ended it."""
    written(disk, p="print('begun') while true do sleep(1) end")
    async with computer(server, disk) as deps:
        client = deps.ws_client
        assert isinstance(client, ToolClient)
        running = asyncio.create_task(refused("cc_run_program", deps, path="p.lua"))
        await within(client.wrote.wait())
        assert (await client.call("terminate", {"run": client.latest})).data == {"state": "stopping"}
        told = await within(running)
    assert told.startswith("Program p.lua failed (terminated): The program was told to end.")
