"""A computer in memory that runs real Lua, for hundreds of tasks in a few seconds.

Files are those of the stub computer. A program runs in a Lua state of its own, and its time is game time: ``sleep``
only moves the clock, so an endless program reaches its limit at once.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from lupa.lua52 import LuaError, LuaRuntime

from orchestrator.core.errors import ComputerFailed
from orchestrator.core.ports import CallResult
from orchestrator.terminal.evaluation.cases import Machine
from orchestrator.testing.stub_disk import METHODS, StubDisk
from orchestrator.testing.stub_parameters import Params, StubFailure

_LIMIT_S: Final = 60.0
_CODES: Final = {"error": "program_error", "timed_out": "timed_out"}

_FIRMWARE: Final = """
local host = ...
local clock, timers = 0, 0
local function wait(seconds, what)
  coroutine.yield(seconds, what)
  clock = clock + seconds
end
sleep = function(seconds) wait(seconds or 0, 'timer') end
os.sleep, os.clock, os.time = sleep, function() return clock end, function() return 12 end
os.startTimer = function(seconds) timers = timers + 1; sleep(seconds); return timers end
os.pullEvent = function(name)
  if name == 'timer' then sleep(1) return 'timer', timers end
  wait(math.huge, name or '')
end
os.pullEventRaw = os.pullEvent
write = function(text) host.put(tostring(text)) return 0 end
print = function(...)
  local parts = table.pack(...)
  for index = 1, parts.n do parts[index] = tostring(parts[index]) end
  host.put(table.concat(parts, '\\t') .. '\\n')
  return 1
end
printError, term = print, { write = write, clear = function() end, setCursorPos = function() end }
read = function()
  local line = host.line()
  if not line then wait(math.huge, 'key') end
  return line
end
local function stream(path, mode)
  local text = mode ~= 'w' and host.read(path) or ''
  if mode == 'r' and not host.read(path) then return nil, 'No such file' end
  local place = 1
  return {
    readAll = function() return text end,
    readLine = function()
      local from, to, line = text:find('([^\\n]*)\\n?', place)
      if place > #text then return nil end
      place = to + 1
      return line
    end,
    write = function(more) text = text .. tostring(more) end,
    writeLine = function(more) text = text .. tostring(more) .. '\\n' end,
    flush = function() end,
    close = function() if mode ~= 'r' then host.write(path, text) end end,
  }
end
fs = {
  open = stream, exists = host.exists, delete = host.delete,
  makeDir = host.make, isDir = host.folder,
}
local function loaded(path)
  local source = host.read(path)
  if not source then error('Could not load ' .. path, 0) end
  return assert(load(source, '@' .. path))
end
dofile = function(path) return loaded(path)() end
require = function(name) return loaded(name:gsub('%.', '/') .. '.lua')() end
shell = { run = function(name, ...)
  local path = host.exists(name) and name or name .. '.lua'
  loaded(path)(...)
  return true
end }
redstone = { setOutput = function() end, getInput = function() return false end }
rs = redstone
textutils = {
  unserializeJSON = function(text)
    return load('return ' .. text:gsub('%[', '{'):gsub('%]', '}'):gsub('"(%w+)":', '%1='))()
  end,
  unserialize = function(text) return load('return ' .. text)() end,
}
turtle = { forward = function() return true end, dig = function() return true end }
peripheral = { call = function() return { { count = 93 } } end }
local function start(path, arguments)
  local program = coroutine.create(loaded)
  local words = {}
  for word in arguments:gmatch('[^\\n]+') do words[#words + 1] = word end
  program = coroutine.create(function() loaded(path)(table.unpack(words)) end)
  return function()
    debug.sethook(program, function() error('Too long without yielding', 0) end, '', 1000000)
    local fine, seconds, what = coroutine.resume(program)
    if not fine then return 'error', tostring(seconds) end
    if coroutine.status(program) == 'dead' then return 'returned' end
    return 'waits', seconds, what
  end
end
return start
"""


class LuaComputer:
    """The methods of docs/protocol.md on a disk in memory; its programs run in Lua."""

    def __init__(self, files: Mapping[str, bytes], machine: Machine | None = None) -> None:
        self.disk = StubDisk(files)
        self.world: Mapping[str, Any] = {} if machine is None else machine.world
        self.family = "advanced" if machine is None else machine.family

    def perform(self, method: str, params: Params, body: bytes | None) -> CallResult:
        """What the computer answers. Raises ComputerFailed."""
        try:
            return self._perform(method, params, body)
        except StubFailure as failure:
            raise ComputerFailed(failure.code, failure.message, failure.data, failure.body) from None

    def _perform(self, method: str, params: Params, body: bytes | None) -> CallResult:
        if method in METHODS:
            answer = self.disk.perform(method, params, body)
            return CallResult(answer.data, answer.body or b"")
        if method in ("run_program", "shell"):
            return self._run(method, params, body or b"[]")
        if method == "info":
            return self._info()
        if method == "peripheral_call":
            return CallResult({"count": 1, "cut": False}, json.dumps([self._items(str(params["name"]))]).encode())
        raise StubFailure("unknown_method", "This computer does not have this method.")

    # -- programs ------------------------------------------------------------------------

    def _run(self, method: str, params: Params, body: bytes) -> CallResult:
        size = int(params.get("input_size") or 0)
        words: list[str] = json.loads(body[: len(body) - size] or b"[]")
        if method == "shell":
            words = words[1:]
        path = str(params["path"])
        sha256 = self.disk.sha256(path)
        if self.disk.kind(path) != "file" or sha256 != params["if_hash"]:
            raise StubFailure("stale", "What is there is not what the call expects.", {"actual": sha256})
        observe_s = params.get("observe_s")
        limit_s = float(observe_s or params.get("timeout_s") or _LIMIT_S)
        run = _Run(self.disk, body[len(body) - size :].decode("latin-1").splitlines())
        ended, message = run.play(path, words, limit_s)
        if ended == "timed_out" and observe_s:
            ended = "observed"
        told = {"ended": ended, "path": path, "sha256": sha256, "output": len(run.output), "cut": 0}
        told["ran_ms"] = int(run.seconds * 1000)
        if size:
            told["input_left"] = sum(len(line) + 1 for line in run.typed)
        if ended in _CODES:
            raise StubFailure(_CODES[ended], message, told, bytes(run.output))
        return CallResult(told, bytes(run.output))

    # -- what stands around it -----------------------------------------------------------

    def _info(self) -> CallResult:
        data: dict[str, Any] = {"free": self.disk.free(), "capacity": self.disk.capacity, "uptime_s": 10, "id": 1}
        data |= {"family": self.family, "host": "memory", "day": 1, "time": 12}
        turtle = self.world.get("turtle")
        if turtle is not None:
            data |= {"fuel": turtle.get("fuel", 0), "fuel_limit": 20000, "selected": 1}
        known = self.world.get("peripherals", {})
        rows = [{"name": name, "types": [one["type"]], "methods": ["list"]} for name, one in known.items()]
        return CallResult(data, json.dumps(rows).encode())

    def _items(self, name: str) -> dict[str, Any]:
        items = self.world.get("peripherals", {}).get(name, {}).get("items", {})
        parted = ((slot, *words.split("*")) for slot, words in items.items())
        return {slot: {"name": what, "count": int(count)} for slot, what, count in parted}


class _Run:
    """One program, from its start to its end."""

    def __init__(self, disk: StubDisk, typed: list[str]) -> None:
        self._disk = disk
        self.typed = typed
        self.output = bytearray()
        self.seconds = 0.0

    def play(self, path: str, words: list[str], limit_s: float) -> tuple[str, str]:
        """How it ended, and a sentence about that."""
        lua = LuaRuntime(encoding="latin-1", register_eval=False)
        host = {
            "put": self._put,
            "line": lambda: self.typed.pop(0) if self.typed else None,
            "read": self._read,
            "write": lambda name, text: self._disk.put(name.lstrip("/"), text.encode("latin-1")),
            "exists": lambda name: name.lstrip("/") in self._disk.nodes,
            "folder": lambda name: self._disk.kind(name.lstrip("/")) == "directory",
            "delete": lambda name: self._disk.nodes.pop(name.lstrip("/"), None),
            "make": lambda name: self._disk.nodes.setdefault(name.lstrip("/"), None),
        }
        try:
            go_on = lua.execute(_FIRMWARE, lua.table_from(host))(path, "\n".join(words))
            while True:
                answer = go_on()
                ended, *rest = answer if isinstance(answer, tuple) else (answer,)
                if ended != "waits":
                    return str(ended), str(rest[0]) if rest else ""
                if self.seconds + rest[0] > limit_s:
                    self.seconds = limit_s
                    return "timed_out", f"The program did not end within {limit_s:g} s."
                self.seconds += max(rest[0], 0.05)
        except LuaError as error:
            return "error", str(error)

    def _put(self, text: str) -> None:
        self.output += text.encode("latin-1", "replace")

    def _read(self, name: str) -> str | None:
        data = self._disk.nodes.get(name.lstrip("/"))
        return None if data is None else data.decode("latin-1")
