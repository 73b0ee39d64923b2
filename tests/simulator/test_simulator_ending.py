"""A simulated computer ends, whatever its programs do: a long call, a broken table, a signal, an input that is over."""

import asyncio
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests import forked
from tests.harness.simulating import playing, printed
from tests.waiting import HANG_S, within

LONG_CALL = "string.find(('x'):rep(1e5), ('x*'):rep(20) .. 'y')"
"""One call of C that takes longer than anybody lives."""
LOOP = "while true do end"


@asynccontextmanager
async def busy(disk: Path, source: str, *options: str) -> AsyncIterator[Process]:
    """A computer that is inside of what its startup file does; killed at the end."""
    (disk / "startup.lua").write_text(f"fs.open('busy', 'w').close()\n{source}\n")
    process = await forked.start_simulator("--bare", f"--disk={disk}", *options, stdin=PIPE, stderr=PIPE)
    try:
        async with asyncio.timeout(HANG_S):
            while not (disk / "busy").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(process: Process) -> list[str]:
    """What a process that ends by itself has said on stderr."""
    _, errors = await process.communicate()
    return errors.decode().splitlines()


@pytest.mark.deep
async def test_one_call_that_never_yields_costs_the_computer(tmp_path: Path) -> None:
    async with busy(tmp_path, f"pcall(function() {LONG_CALL} end)") as process:
        assert await within(process.wait()) == 3
        assert await said(process) == ["computer 0 was shut down: too long without yielding"]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("source", [LONG_CALL, LOOP])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_computer_that_is_busy(tmp_path: Path, source: str, number: signal.Signals) -> None:
    async with busy(tmp_path, source) as process:
        process.send_signal(number)
        assert await within(process.wait()) == 0
        assert await said(process) == ["computer 0 was ended while a program was busy"]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("option", ["--control", "--until-eof"])
async def test_a_busy_computer_ends_with_its_input(tmp_path: Path, option: str) -> None:
    async with busy(tmp_path, LONG_CALL, option) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert await within(process.wait()) == 0
        assert await said(process) == ["computer 0 was ended while a program was busy"]


async def test_lua_takes_no_more_memory_than_it_may(tmp_path: Path) -> None:
    """A program that wants more fails, and the computer goes on."""
    source = """
    local parts = {}
    print(pcall(function() for n = 1, 1000 do parts[n] = ("x"):rep(1e6) .. n end end))
    parts = nil
    print("still here")
    """
    assert await printed(tmp_path, source, "--memory=100000000") == ["false not enough memory", "still here"]


async def test_a_token_comes_with_the_first_line_of_the_input(tmp_path: Path) -> None:
    """So that no list of processes shows it; what follows ends the computer as ever."""
    options = ("--until-eof", "--url=ws://127.0.0.1:1/computer", "--token=-", f"--disk={tmp_path}")
    process = await forked.start_simulator(*options, stdin=PIPE)
    assert process.stdin is not None
    process.stdin.write("sécret\nmore\n".encode())
    process.stdin.close()
    assert await within(process.wait()) == 0
    connection = (tmp_path / ".cc-orchestrator" / "connection").read_text("utf-8")
    assert connection.splitlines()[1:] == ["ws://127.0.0.1:1/computer", "sécret"]


async def test_a_pattern_of_many_stars_finds_its_files_in_time(tmp_path: Path) -> None:
    """The matching is the host's, so no watchdog of Lua could end it."""
    (tmp_path / ("a" * 200)).write_text("")
    lines = await printed(
        tmp_path, "print(#fs.find(('a*'):rep(40) .. 'b'), #fs.find(('a*'):rep(40)), fs.find('?*.lua')[1])"
    )
    assert lines == ["0 1 p.lua"]


async def test_a_program_that_breaks_shared_tables_breaks_only_itself(tmp_path: Path) -> None:
    """The prompt, the shell and the tabs go on, as they have taken what they need before."""
    names = "table.concat table.pack table.unpack table.remove table.sort math.floor math.max coroutine.resume"
    async with playing(tmp_path, "--type=lua") as player:
        for name in names.split():
            await player.do(f"type {name} = nil")
        await player.do("type print(table.concat, 6 * 7)")
        await player.see("nil?42")
        await player.do("type exit()")
        await player.do("type id")
        await player.see("This is computer #0")
        assert await player.do("state") == "on"


BREAKS_THE_SYSTEM = """
os.queueEvent("\\0http_success", "an answer without its parts")
os.pullEvent("never")
"""
"""An error in the firmware itself, where no program can catch it."""


async def test_what_breaks_the_system_costs_the_computer_and_is_no_traceback(tmp_path: Path) -> None:
    async with busy(tmp_path, BREAKS_THE_SYSTEM) as process:
        assert await within(process.wait()) == 3
        lines = await said(process)
        assert "Traceback" not in "\n".join(lines)
        (line,) = (each for each in lines if each.startswith("computer 0 stopped: "))
        assert "bad argument #1 to 'gmatch'" in line


async def test_a_computer_whose_system_broke_can_be_turned_on_again(tmp_path: Path) -> None:
    (tmp_path / "startup.lua").write_text(BREAKS_THE_SYSTEM)
    async with playing(tmp_path, "--type=id") as player:
        while await player.do("state") == "on":
            pass
        (tmp_path / "startup.lua").unlink()
        await player.do("on")
        await player.see("This is computer #0")
