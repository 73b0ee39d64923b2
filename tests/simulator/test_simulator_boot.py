"""The simulated computer boots as in the game: startup files, the shell, tabs, and a player who types."""

import asyncio
import json
from pathlib import Path

import pytest

from tests import forked
from tests.harness.simulating import playing, printed
from tests.waiting import HANG_S


async def test_startup_files_run_in_order_and_then_the_shell(tmp_path: Path) -> None:
    """/startup.lua first, then the files of /startup/ by name; a directory among them is passed over."""
    (tmp_path / "startup.lua").write_text("print('farm')")
    (tmp_path / "startup" / "30_dir").mkdir(parents=True)
    (tmp_path / "startup" / "20_door.lua").write_text("print('door ' .. shell.getRunningProgram())")
    (tmp_path / "startup" / "10_lamp.lua").write_text("print('lamp')")
    async with playing(tmp_path, "--type=id") as player:
        screen = await player.see("This is computer #0")
    assert screen.splitlines()[:5] == ["CraftOS 1.9", "farm", "lamp", "door startup/20_door.lua", "> id"]


async def test_a_startup_file_comes_before_startup_lua(tmp_path: Path) -> None:
    (tmp_path / "startup").write_text("print('the file')")
    (tmp_path / "startup.lua").write_text("print('never')")
    async with playing(tmp_path, "--type=id") as player:
        assert "never" not in await player.see("This is computer #0")


async def test_startup_that_does_not_return_keeps_the_shell_away(tmp_path: Path) -> None:
    (tmp_path / "startup").mkdir()
    (tmp_path / "startup" / "a.lua").write_text("print('first') while true do sleep(0.05) end")
    (tmp_path / "startup" / "b.lua").write_text("print('second')")
    async with playing(tmp_path) as player:
        assert (await player.see("first")) == "CraftOS 1.9\nfirst"
        await player.do("terminate")
        assert (await player.see("second")).splitlines()[1:] == ["first", "Terminated", "second", ">"]


async def test_settings_last_and_can_keep_startup_from_running(tmp_path: Path) -> None:
    (tmp_path / "startup.lua").write_text("print('farm')")
    async with playing(tmp_path, "--type=set shell.allow_startup false") as player:
        await player.see("set to false")
        await player.do("reboot")
        await player.do("type id")
        assert "farm" not in await player.see("This is computer #0")
    assert (tmp_path / ".settings").exists()
    source = """
    settings.define("my.number", { default = 3, type = "number", description = "mine" })
    print(settings.get("my.number"), settings.get("none", 4), pcall(settings.set, "my.number", "x"))
    settings.set("my.number", 5)
    settings.save()
    settings.clear()
    print(settings.get("my.number"), settings.load(), settings.get("my.number"), settings.getDetails("my.number").value)
    """
    said = await printed(tmp_path, source)
    assert said[0].startswith("3 4 false")
    assert said[-1] == "3 true 5 5"


async def test_tabs_have_their_own_events_and_the_one_in_front_has_the_keyboard(tmp_path: Path) -> None:
    (tmp_path / "tab.lua").write_text(
        "print('in the tab') print(select(2, os.pullEvent('char'))) print('done') os.pullEvent('char')"
    )
    source = """
    local tab = shell.openTab("tab")
    print(multishell.getCurrent(), tab, multishell.getFocus(), multishell.getCount(), multishell.getTitle(tab))
    shell.switchTab(tab)
    sleep(1000)
    """
    (tmp_path / "p.lua").write_text(source)
    async with playing(tmp_path, "--type=p") as player:
        await player.see("in the tab")
        await player.do("key k")
        screen = (await player.see("done")).splitlines()
        assert screen[0].split() == ["p", "tab"]
        assert screen[1:4] == ["in the tab", "k", "done"]
        await player.do("key z")
        assert "1?2?1?2?tab" in await player.see("1?2")


async def test_a_computer_without_colours_has_no_tabs(tmp_path: Path) -> None:
    source = "print(multishell, shell.openTab, term.isColour(), term.getSize())"
    assert await printed(tmp_path, source, "--family=computer") == ["nil nil false 51 19"]
    assert await printed(tmp_path, "print(term.getSize(), pocket ~= nil)", "--family=pocket") == ["26 true"]


async def test_the_shell_finds_completes_and_renames_programs(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "mine.lua").write_text("return { n = ... }")
    source = """
    shell.setAlias("me", "/d/mine") print(shell.aliases().me, shell.resolveProgram("me"), shell.resolveProgram("none"))
    shell.clearAlias("me") shell.setDir("d") print(shell.dir(), shell.resolveProgram("mine"), shell.resolve("../x"))
    print(pcall(shell.setDir, "none"))
    print(table.concat(shell.complete("wge"), "+"))
    shell.setCompletionFunction("d/mine.lua", function(_, index, text) return { index .. text } end)
    print(shell.complete("mine a b")[1], shell.getCompletionInfo()["d/mine.lua"].fnComplete ~= nil)
    local expect = require("cc.expect")
    print(select(2, pcall(expect.expect, 1, "x", "number", "nil")):match("bad.*"))
    print(select(2, pcall(expect.field, { a = 1 }, "a", "string")):match("bad.*"))
    shell.setDir("")
    """
    assert await printed(tmp_path, source) == [
        "/d/mine d/mine.lua nil",
        "d d/mine.lua x",
        "false Not a directory",
        "t",
        "2b true",
        "bad argument #1 (number or nil expected, got string)",
        "bad field 'a' (string expected, got number)",
    ]


async def test_a_line_is_edited_as_a_player_does(tmp_path: Path) -> None:
    source = """
    write("1? ") local line = read(nil, { "old" }, function(text) return text == "ab" and { "cd" } or {} end, "a")
    print(line == "abcdX", line) write("2? ") print(read("*") == "secret") write("3? ") print(read(nil, { "before" }))
    """
    (tmp_path / "p.lua").write_text(source + "print('THE END')")
    async with playing(tmp_path, "--type=p") as player:
        await player.see("1? a")
        for key in ("b", "tab", "z", "backspace", "home", "end", "X", "enter"):
            await player.do(f"key {key}")
        await player.do("type secret")
        await player.see("3?")
        await player.do("key up")
        await player.do("key enter")
        screen = (await player.see("THE END")).splitlines()
    assert screen[2:] == ["1? abcdX", "true?abcdX", "2? ******", "true", "3? before", "before", "THE END", ">"]


async def test_json_is_as_lopsided_as_in_the_mod(tmp_path: Path) -> None:
    source = r"""
    print(textutils.serializeJSON({ 1, true, textutils.json_null, textutils.empty_json_array, { a = "b" } }))
    print(textutils.serializeJSON("\200\n"), #textutils.unserializeJSON('"\\u00c8"'), textutils.serializeJSON({}))
    local parsed = textutils.unserializeJSON('{"a": [1, {"b": null}, "x"], "e": []}')
    print(parsed.a[3], parsed.a[2].b, parsed.e == textutils.empty_json_array)
    print(textutils.unserializeJSON("[1,"))
    print(textutils.unserializeJSON("1 2"))
    local twice = {} print(pcall(textutils.serializeJSON, { twice, twice }))
    print(textutils.serializeJSON({ twice, twice }, { allow_repetitions = true }))
    """
    assert await printed(tmp_path, source) == [
        '[1,true,null,[],{"a":"b"}]',
        '"\\u00C8\\n" 2 {}',
        "x nil true",
        "nil Malformed JSON at position 4: Unexpected end of input.",
        "nil Malformed JSON at position 3: Unexpected trailing character.",
        "false Cannot serialize table with repeated entries",
        "[{},{}]",
    ]


@pytest.mark.parametrize(("version", "table_form", "second_type"), [("1.95", False, False), ("1.105", True, True)])
async def test_old_versions_lack_what_came_later(
    tmp_path: Path, version: str, table_form: bool, second_type: bool
) -> None:
    source = """
    print(_HOST:match("ComputerCraft %S+"), peripheral.hasType ~= nil, select("#", peripheral.getType("left")))
    print((pcall(http.websocketAsync, { url = "ws://127.0.0.1:1/" })), pcall(fs.open, "f", "r+"))
    local f = fs.open("text", "w") f.write("\\228") f.close() print(fs.getSize("text"))
    f = fs.open("text", "r") print(#f.readAll()) f.close()
    """
    said = await printed(tmp_path, source, f"--cc-version={version}", "--peripheral=left=minecraft:chest")
    full = version if version.count(".") == 2 else version + ".0"
    assert said[0] == f"ComputerCraft {full} {str(second_type).lower()} {2 if second_type else 1}"
    assert said[1].startswith(f"{str(table_form).lower()} false")
    assert said[-2:] == ["2", "1"]


async def test_the_screen_is_kept_in_a_file_and_shutdown_ends_the_process(tmp_path: Path) -> None:
    disk, screen = tmp_path / "disk", tmp_path / "screen"
    async with playing(disk, f"--screen={screen}", "--label=farm", "--type=label") as player:
        await player.see('is "farm"')
        assert 'is "farm"' in screen.read_text("utf-8")
    command = ["--bare", f"--disk={disk}", "--screen=-", "--type=id", "--type=shutdown"]
    process = await _started(*command)
    async with asyncio.timeout(HANG_S):
        said, _ = await process.communicate()
    assert process.returncode == 0
    assert said.decode().splitlines()[1:3] == ["screen 2: > id", "screen 3: This is computer #0"]


async def test_what_is_wrong_with_the_command_line_is_said(tmp_path: Path) -> None:
    world = tmp_path / "world.json"
    for options, code, said in (
        ((), 2, "--url and --token are needed, unless --bare"),
        (("--bare", "--cc-version=1.80"), 2, "versions from 1.95 to 1.116.1 are"),
        (("--bare", f"--world={world}"), 1, "cannot be read"),
        (("--bare", "--peripheral=left"), 1, "say it like left=minecraft:chest"),
    ):
        process = await _started(f"--disk={tmp_path}", *options)
        async with asyncio.timeout(HANG_S):
            _, errors = await process.communicate()
        assert process.returncode == code
        assert said in errors.decode()
    world.write_text(json.dumps({"turtle": {"facing": "inward"}}))
    process = await _started(f"--disk={tmp_path}", "--bare", f"--world={world}", "--family=turtle")
    _, errors = await process.communicate()
    assert "'inward' is no heading" in errors.decode()


async def _started(*options: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await forked.start_simulator(
        *options,
        stdout=pipe,
        stderr=pipe,
        stdin=asyncio.subprocess.DEVNULL,
    )


async def test_a_disk_with_a_startup_file_takes_the_place_of_the_computers_own(tmp_path: Path) -> None:
    disk, floppy = tmp_path / "disk", tmp_path / "floppy"
    disk.mkdir()
    floppy.mkdir()
    (disk / "startup.lua").write_text("print('farm')")
    (floppy / "startup.lua").write_text("print('intruder', fs.getDrive('disk'), fs.getCapacity('/disk/x'))")
    drive = f"--peripheral=left=drive,path={floppy},label=game"
    async with playing(disk, drive, "--type=id") as player:
        screen = await player.see("This is computer #0")
        assert "intruder?disk?125000" in screen
        assert "farm" not in screen
        await player.do("type set shell.allow_disk_startup false")
        await player.see("set to false")
        await player.do("reboot")
        await player.see("farm")
    source = """
    print(fs.list("/")[1], disk.getMountPath("left"), disk.getLabel("left"), disk.isPresent("top"))
    fs.makeDir("disk/d") local f = fs.open("disk/d/f", "w")
    print(pcall(f.write, ("x"):rep(124001)), fs.exists("/disk/d/f"))
    disk.eject("left") print(fs.exists("/disk"), disk.isPresent("left"))
    """
    said = await printed(disk, source, drive)
    assert said[0] == ".settings disk game false"
    assert said[1] == "false true"
    assert said[2].endswith("false false")
