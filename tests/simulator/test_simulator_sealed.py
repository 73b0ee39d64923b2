"""No program of a simulated computer reaches the host it runs on, whatever it does."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.simulating import playing, printed

_TRY = """
local function try(what, ...) local ok, value = pcall(what, ...) return ok and value or nil end
local function run(system) if system then try(system.execute, [[touch "{mark}"]]) end end
local function open(io) local f = io and try(io.open, [[{mark}]], "w") if f then f:close() end end
"""
"""What each of the programs may use; ``{mark}`` is a file of the host."""

ESCAPES = {
    "the registry": """
        local loaded = debug.getregistry()._LOADED
        run(loaded.os) open(loaded.io)
    """,
    "the library of packages": """
        local load = package.loadlib
        try(load("libc.so.6", "system"), [[touch "{mark}"]])
    """,
    "a library of C": """
        package.cpath = "/?.so;./?.so"
        run(require("os")) open(require("io")) require("posix").exec("/usr/bin/touch", [[{mark}]])
    """,
    "Python's builtins": """
        try(python.builtins.open, [[{mark}]], "w") try(python.eval, [[open("{mark}", "w")]])
    """,
    "what is behind a function of the host": """
        for _, find in ipairs({ debug.getupvalue, debug.getlocal }) do
          for _, each in ipairs({ fs.exists, fs.open, os.clock, os.queueEvent }) do
            for index = 1, 20 do
              local _, value = find(each, index)
              if value and value.__globals__ then value.__globals__.os.system([[touch "{mark}"]]) end
            end
          end
        end
    """,
    "a field of a function of the host": """
        os.clock.__self__.__init__.__globals__.os.system([[touch "{mark}"]])
    """,
    "an error of the host": """
        for _, each in ipairs({ fs.open, fs.combine, os.clock, os.startTimer, os.setComputerLabel, fs.getName }) do
          for _, bad in ipairs({ {}, print, coroutine.create(print), 1 / 0, "\\0" }) do
            local _, why = pcall(each, bad, bad, bad)
            local _, again = xpcall(each, function(found) return found end, bad, bad)
            try(function() why.__traceback__.tb_frame.f_globals.os.system([[touch "{mark}"]]) end)
            try(function() again.__traceback__.tb_frame.f_globals.os.system([[touch "{mark}"]]) end)
          end
        end
    """,
    "the function of a level": """
        for level = 0, 20 do
          local found = debug.getinfo(level, "f")
          if found and found.func then found.func.__globals__.os.system([[touch "{mark}"]]) end
        end
    """,
}


@pytest.mark.parametrize("escape", ESCAPES)
async def test_a_program_does_not_reach_the_host_by(escape: str, tmp_path: Path) -> None:
    mark, disk = tmp_path / "mark", tmp_path / "disk"
    disk.mkdir()
    program = (_TRY + "pcall(function()" + ESCAPES[escape] + "end)").replace("{mark}", str(mark))
    (disk / "startup.lua").write_text(program + "\nterm.write('THE END')\n")
    async with playing(disk) as player:
        await player.see("THE END")
    assert not mark.exists()


async def test_a_program_that_takes_the_place_of_the_client_does_not_reach_the_host(tmp_path: Path) -> None:
    mark, disk = tmp_path / "mark", tmp_path / "disk"
    disk.mkdir()
    client = _TRY + "run(try(function() return debug.getregistry()._LOADED.os end)) "
    client += "local out = fs.open('/ran', 'w') out.write(type(debug.getregistry)) out.close() term.write('THE END')"
    (disk / "startup.lua").write_text(
        "if fs.exists('/.cc-orchestrator/boot.lua') then dofile('/.cc-orchestrator/boot.lua') return end\n"
        "local out = fs.open('/.cc-orchestrator/boot.lua', 'w')\n"
        f"out.write([==[{client.replace('{mark}', str(mark))}]==]) out.close() os.reboot()\n"
    )
    async with playing(disk) as player:
        await player.see("THE END")
    assert (disk / "ran").read_text() == "nil"
    assert not mark.exists()


async def test_only_text_is_loaded(tmp_path: Path) -> None:
    source = """
    local binary = string.char(27) .. "Lua" .. string.char(0x52, 0, 1, 4, 8, 4, 8, 0, 0x19, 0x93, 13, 10, 0x1a, 10)
    print(load(binary)) print(load(binary, "=x", "b")) print(load(binary, "=x", "bt", {}))
    local sent = false
    print(load(function() if not sent then sent = true return binary end end, "=x", "bt"))
    print(loadstring(binary)) print(pcall(string.dump, function() end)) print(pcall(("").dump, print))
    local file = fs.open("/b", "wb") file.write(binary) file.close()
    print(loadfile("/b", "b")) print(pcall(dofile, "/b"))
    print(load("return ...", "=x", "t")(7), load("return x", "=x", nil, { x = 8 })(), load("return 1", "=x", "b"))
    print(load("return print", "=x", "t", nil) ~= nil, pcall(load, "", "", {}))
    """
    said = await printed(tmp_path, source)
    assert all("attempt to load a binary chunk" in line for line in said[:5] + said[7:9]), said
    assert all(line.endswith("Unable to dump given function") for line in said[5:7]), said
    assert said[9].startswith("7 8 nil ")
    assert said[10].startswith("true false ")


async def test_a_program_may_ask_where_it_is_but_for_no_function(tmp_path: Path) -> None:
    source = """
    local function here() return debug.getinfo(1, "nSl"), debug.getinfo(2, "l") end
    local own, above = here()
    print(own.short_src, own.currentline, above.currentline, own.func)
    print(debug.getinfo(here).what, debug.getinfo(here, "f").func, debug.getinfo(99))
    print(debug.getinfo(coroutine.create(here), 0), pcall(debug.getinfo, 1, ">f"))
    print(type(debug.traceback()), pcall(debug.getinfo))
    local names = {} for name in pairs(debug) do names[#names + 1] = name end table.sort(names)
    print(table.concat(names, " "))
    """
    said = await printed(tmp_path, source)
    assert said[0].endswith(" 8 9 nil"), said
    assert said[1] == "Lua nil nil"
    assert said[2].startswith("nil false ")
    assert said[3].startswith("string false ")
    assert said[4] == "gethook getinfo sethook traceback"


WALK = """
local FORBIDDEN = { "getregistry", "getupvalue", "setupvalue", "upvalueid", "upvaluejoin", "getlocal", "setlocal",
  "getuservalue", "setuservalue", "tmpname", "loadlib", "cpath", "searchpath", "builtins", "as_attrgetter",
  "popen", "tmpfile", "collectgarbage", "python" }
local no = {}
for _, name in ipairs(FORBIDDEN) do no[name] = true end
local BAD = { {}, print, 1 / 0, -1, "", "\\0", "..", true, coroutine.create(print) }
-- What ends the computer or waits.
local SKIPPED = { shutdown = true, reboot = true, rep = true, sethook = true }
local seen, queue, found, called = {}, {}, {}, 0
local function note(value, where)
  local kind = type(value)
  if kind == "userdata" then found[#found + 1] = where end
  if (kind == "table" or kind == "function") and not seen[value] then
    seen[value] = true
    queue[#queue + 1] = { value, where }
  end
  if kind ~= "table" and kind ~= "nil" then
    local meta = getmetatable(value)
    if meta ~= nil then note(meta, where .. " meta") end
  end
end
local function call(body, where, ...)
  -- In a coroutine: one that waits for an event is left there.
  local co = coroutine.create(function(...) return pcall(body, ...) end)
  local results = table.pack(coroutine.resume(co, ...))
  called = called + 1
  for index = 1, results.n do
    if type(results[index]) == "userdata" then found[#found + 1] = where .. "()" end
  end
end
note(_G, "_G") note(_ENV, "_ENV") note("", "text") note(shell, "shell") note(1, "number") note(print, "function")
local reached = {}
while #queue > 0 do
  local value, where = table.unpack(table.remove(queue))
  if type(value) == "table" then
    local meta = getmetatable(value)
    if meta ~= nil then note(meta, where .. " meta") end
    for key, item in next, value do
      local name = where .. "." .. tostring(key)
      if no[key] and type(item) ~= "string" then found[#found + 1] = name end
      note(key, name) note(item, name)
    end
  else
    reached[#reached + 1] = { value, where }
  end
end
for _, api in pairs({ fs, os, http, peripheral, redstone, settings, debug, string, table, turtle }) do
  for name, body in pairs(api) do
    if type(body) == "function" and not SKIPPED[name] then
      local where = "api." .. tostring(name)
      call(body, where)
      for _, bad in ipairs(BAD) do
        call(body, where, bad) call(body, where, bad, bad) call(body, where, "left", bad, bad)
      end
    end
  end
end
print(#reached > 150, called > 1000, #found, table.concat(found, ", "))
"""


@pytest.mark.parametrize("family", ["advanced", "advanced-turtle"])
async def test_nothing_that_a_program_finds_is_an_object_of_the_host(family: str, tmp_path: Path) -> None:
    told = await printed(tmp_path, WALK, f"--family={family}", "--peripheral=left=minecraft:chest")
    assert told == ["true true 0 "]


async def test_a_failure_of_the_host_is_a_text_without_its_paths(tmp_path: Path) -> None:
    source = """
    local _, open = pcall(fs.open, {}, "w")
    local _, label = pcall(os.setComputerLabel, {}, {})
    local _, timer = pcall(os.startTimer, 0 / 0)
    local _, why = pcall(fs.exists, ("x"):rep(300) .. "\\0")
    print(type(open), type(why), type(label), type(timer)) print(open, why, label, timer)
    """
    said = await printed(tmp_path, source)
    assert said[0] == "string boolean string string"
    assert str(tmp_path) not in said[1]


async def test_tables_in_events_outlive_the_coroutine_that_queued_them(tmp_path: Path) -> None:
    source = """
    for round = 1, 200 do
      coroutine.wrap(function() os.queueEvent("mine", { round, { "deep" } }, nil, "last") end)()
      local garbage = {} for index = 1, 200 do garbage[index] = coroutine.create(function() end) end
    end
    local sum, name, value, none, last = 0
    for round = 1, 200 do
      name, value, none, last = os.pullEvent("mine")
      sum = sum + value[1]
    end
    print(sum, name, value[2][1], none, last)
    """
    assert await printed(tmp_path, source) == ["20100 mine deep nil last"]


_CONFINED = """
import os, subprocess, sys
from pathlib import Path
from cc_client.simulator.confinement import confine
disk, outside = Path(sys.argv[1]), Path(sys.argv[2])
confine(1000, [disk])
tries = {
    "system": lambda: os.system("true"),
    "run": lambda: subprocess.run(["true"]),
    "fork": os.fork,
    "write": lambda: (outside / "new").write_bytes(b"x"),
    "append": lambda: open(outside / "mine", "ab"),
    "remove": (outside / "mine").unlink,
    "rename": lambda: (disk / "kept").rename(outside / "kept"),
    "take": lambda: (outside / "mine").rename(disk / "mine"),
    "mkdir": (outside / "d").mkdir,
    "through": lambda: (disk / "link" / "new").write_bytes(b"x"),
    "up": lambda: (disk / ".." / "outside" / "new").write_bytes(b"x"),
    "beside": lambda: Path(str(disk) + "2").write_bytes(b"x"),
    "relative": lambda: os.unlink("mine", dir_fd=os.open(outside, os.O_RDONLY)),
    "inside": lambda: (disk / "new").write_bytes(b"x"),
    "look": (outside / "mine").read_bytes,
}
for name, do in tries.items():
    try:
        do()
        print(name, "done")
    except PermissionError:
        print(name, "refused")
"""


def test_a_confined_process_starts_no_other_and_changes_nothing_outside_of_its_disk(tmp_path: Path) -> None:
    disk, outside = tmp_path / "disk", tmp_path / "outside"
    for directory in (disk, outside):
        directory.mkdir()
    (outside / "mine").write_bytes(b"mine")
    (disk / "kept").write_bytes(b"kept")
    (disk / "link").symlink_to(outside)
    command = [sys.executable, "-c", _CONFINED, str(disk), str(outside)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = dict(line.split() for line in done.stdout.splitlines())
    assert {name for name, became in said.items() if became == "done"} == {"inside", "look"}
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"mine": b"mine"}


async def test_a_confined_computer_does_all_that_a_computer_does_with_its_disk(tmp_path: Path) -> None:
    """Directories that are not empty among them, and links, which go and not what they lead to."""
    disk, outside = tmp_path / "disk", tmp_path / "outside"
    for path in (disk / "lib" / "deep" / "a", disk / "lib" / "b", outside / "mine"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    (disk / "lib" / "link").symlink_to(outside)
    source = """
    fs.copy("lib/deep", "copy/deep") fs.move("copy", "moved") fs.delete("lib")
    local file = fs.open("moved/deep/a", "a") file.write("y") file.close()
    file = fs.open("new/dir/c", "w") file.write("c") file.close()
    print(fs.exists("lib"), fs.getSize("moved/deep/a"), fs.exists("new/dir/c"))
    """
    assert await printed(disk, source, "--confined") == ["false 2 true"]
    assert (outside / "mine").read_bytes() == b"x"
