"""The processes of an evaluation: a server of its own, and the simulated computers of one task after the other."""

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from orchestrator.client import Client
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import bare_environment
from orchestrator.terminal.evaluation.cases import Machine, Tried
from orchestrator.terminal.evaluation.checks import OWN

START_WITHIN_S: Final = 60.0
"""A server or a computer on a busy host; alone it takes one or two."""
ANSWER_WITHIN_S: Final = 15.0
RUN_WITHIN_S: Final = 30.0
"""A program that a check runs: the computer boots, and the program ends or is ended after about 10 s."""
_STOP_WITHIN_S: Final = 10.0
_POLL_S: Final = 0.05
_OURS: Final = ("DATA_DIR", "STORE", "BUS", "POLICY", "HOST", "PORT", "PUBLIC_URL", "APPROVERS", "URL", "TOKEN")
"""Settings of somebody's own server, which this one must not use."""


class PartFailed(OrchestratorError):
    """A process of the evaluation did not start, or ended too early."""

    code = "part_failed"


class Process:
    """A process whose lines on standard output are read as they come; its standard error goes to a file.

    It is in a group of its own: Ctrl-C reaches only the evaluation, which ends it then.
    """

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._name = command[2]
        self._log = log
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """None at the end."""
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=environment,
                start_new_session=True,
            )
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def _read(self, out: IO[str]) -> None:
        with contextlib.suppress(ValueError, OSError):
            for line in out:
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def say(self, line: str) -> None:
        """Give it a line. Raises PartFailed."""
        try:
            if self._process.stdin is not None:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
        except (OSError, ValueError):
            raise self.failed("has ended") from None

    def hear(self, start: str, within_s: float) -> str:
        """The rest of the next line that begins so. Raises PartFailed."""
        until = time.monotonic() + within_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise self.failed(f"said nothing within {within_s:g} s") from None
            if line is None:
                raise self.failed("has ended")
            if line.startswith(start):
                return line.removeprefix(start).strip()

    def ended_within(self, seconds: float) -> bool:
        """Whether the process ends by itself."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """End it, and wait until it has."""
        process = self._process
        process.terminate()
        if not self.ended_within(_STOP_WITHIN_S):
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError, ValueError):
                if stream is not None:
                    stream.close()

    def failed(self, what: str) -> PartFailed:
        """The command went wrong; with its last words."""
        tail = self._log.read_text("utf-8", "replace").strip().splitlines()[-3:] if self._log.exists() else []
        said = one_line(" ".join(line.removeprefix("cc-orchestrator: ") for line in tail), limit=600)
        return PartFailed(f"{self._name} {what}: {said or 'it said nothing'}", remedy=f"Look at {self._log}.")


@dataclass
class Computer:
    """A simulated computer of one task."""

    machine: Machine
    home: Path
    process: Process
    _copies: int = 0

    @property
    def disk(self) -> Path:
        """Its disk as a directory of this host."""
        return self.home / "disk"

    def read(self, path: str) -> bytes | None:
        """The bytes of a file on it; None: there is none."""
        file = self.disk / path
        return file.read_bytes() if file.is_file() else None

    def do(self, command: str) -> Any:
        """What its world answers to a command. Raises PartFailed, ValueError."""
        self.process.say(command)
        told = self.process.hear("= ", ANSWER_WITHIN_S)
        if told.startswith("error: "):
            raise ValueError(told)
        return None if told == "ok" else json.loads(told)

    def run(self, program: str, args: Sequence[str] = (), typed: Sequence[str] = ()) -> str:
        """What a program prints, as ``tried`` has it."""
        return self.tried(program, args, typed).printed

    def tried(self, program: str, args: Sequence[str] = (), typed: Sequence[str] = ()) -> Tried:
        """The result of a program on a computer of its own, with a copy of the disk and the same surroundings.

        Nobody waits there: ``sleep`` takes no time, ``read`` gets the lines of ``typed``, and each redstone output
        is printed as ``[redstone SIDE VALUE]``. Without a name it boots: all startup files run. A program that does
        not end is ended after 1000 sleeps or ten seconds, and what it printed counts.
        """
        self._copies += 1
        copy = self.home / f"copy{self._copies}"
        shutil.copytree(self.disk, copy, ignore=shutil.ignore_patterns(OWN))
        # A program that boots there would run before the check.
        (copy / ".settings").write_text('{ ["shell.allow_startup"] = false }', "utf-8")
        (copy / ".check.lua").write_text(_HARNESS, "utf-8")
        words = {"program": program, "args": list(args), "typed": list(typed)}
        (copy / ".asked").write_text(json.dumps(words), "utf-8")
        options = ["--bare", "--disk", str(copy), "--family", self.machine.family, "--type", "/.check"]
        options += surroundings(self.machine, self.home)
        process = Process([sys.executable, "-m", "cc_client.simulator", *options], self.home / "copies.log")
        try:
            process.ended_within(RUN_WITHIN_S)
        finally:
            process.stop()
        printed, ended = copy / ".printed", copy / ".ended"
        said = printed.read_text("latin-1") if printed.exists() else ""
        # Without a word the computer was lost, as by a program that never yields.
        return Tried(said, ended.exists() and ended.read_text("latin-1") == "well")


def surroundings(machine: Machine, home: Path) -> list[str]:
    """The options for the world around a computer."""
    return ["--world", str(home / "world.json")] if machine.world else []


_HARNESS: Final = """\
local asked = fs.open("/.asked", "r")
local words = textutils.unserializeJSON(asked.readAll())
asked.close()
local out = fs.open("/.printed", "w")
local function put(text)
  out.write(text)
  out.flush()
end
_G.write = function(text)
  put(tostring(text))
  return 0
end
_G.print = function(...)
  local parts = table.pack(...)
  for index = 1, parts.n do parts[index] = tostring(parts[index]) end
  put(table.concat(parts, "\\t", 1, parts.n) .. "\\n")
  return 1
end
_G.printError = _G.print
term.write = _G.write
function io.write(...)
  for _, part in ipairs({ ... }) do put(tostring(part)) end
end
local slept = 0
_G.sleep = function()
  slept = slept + 1
  if slept > 1000 then
    os.queueEvent("slept_enough")
    while true do coroutine.yield() end
  end
end
os.sleep = _G.sleep
local place = 0
_G.read = function()
  place = place + 1
  return words.typed[place] or ""
end
for _, name in ipairs({ "setOutput", "setAnalogOutput", "setAnalogueOutput" }) do
  local set = redstone[name]
  local function told(side, value)
    put(("[redstone %s %s]\\n"):format(tostring(side), tostring(value)))
    return set(side, value)
  end
  redstone[name], rs[name] = told, told
end
local well = true
local function play()
  if words.program ~= "" then
    well = shell.run("/" .. words.program, table.unpack(words.args))
    return
  end
  local first = shell.resolveProgram("/startup")
  if first then well = shell.run("/" .. first) end
  if fs.isDir("/startup") then
    for _, name in ipairs(fs.list("/startup")) do well = shell.run("/startup/" .. name) and well end
  end
end
local function watch()
  local timer = os.startTimer(10)
  repeat
    local event, id = os.pullEvent()
  until event == "slept_enough" or event == "timer" and id == timer
end
parallel.waitForAny(play, watch)
local told = fs.open("/.ended", "w")
told.write(well and "well" or "error")
told.close()
out.close()
os.shutdown()
"""


@dataclass
class OwnServer:
    """The server of one evaluation, its data directory and a client of it."""

    home: Path
    client: Client
    _numbers: int = 1000

    @contextlib.contextmanager
    def computers(self, machines: Sequence[Machine]) -> Iterator["Computers"]:
        """The computers of one task, paired through the public endpoint and started; they connect meanwhile."""
        with contextlib.ExitStack() as stack:
            yield Computers(self.client, {machine.name: self._start(stack, machine) for machine in machines})

    def _start(self, stack: contextlib.ExitStack, machine: Machine) -> Computer:
        self._numbers += 1
        home = self.home / "computers" / machine.name
        disk = home / "disk"
        disk.mkdir(parents=True, exist_ok=True)
        for path, content in machine.files.items():
            (disk / path).parent.mkdir(parents=True, exist_ok=True)
            (disk / path).write_bytes(content)
        if machine.world:
            (home / "world.json").write_text(json.dumps(machine.world), "utf-8")
        code = self.client.request("POST", "/v1/pairings", {"computer": machine.name})["code"]
        paired = self.client.request("POST", "/v1/pair", {"code": code, "computer_id": self._numbers, "label": ""})
        command = [sys.executable, "-m", "cc_client.simulator", "--control", "--url", paired["url"]]
        command += ["--token=-", "--disk", str(disk), "--id", str(self._numbers)]
        command += ["--family", machine.family, *surroundings(machine, home)]
        computer = Computer(machine, home, Process(command, home / "computer.log", bare_environment()))
        stack.callback(computer.process.stop)
        computer.process.say(paired["token"])
        return computer


@dataclass
class Computers:
    """The computers of one task by their names."""

    client: Client
    named: Mapping[str, Computer]

    def wait(self) -> None:
        """Wait until all are connected. Raises PartFailed."""
        until = time.monotonic() + START_WITHIN_S
        while True:
            rows = self.client.request("GET", "/v1/computers")["computers"]
            online = {row["computer"] for row in rows if row["online"]}
            missing = [one for name, one in self.named.items() if name not in online]
            if not missing:
                return
            for one in missing:
                if not one.process.running:
                    raise one.process.failed("has ended")
            if time.monotonic() > until:
                raise missing[0].process.failed(f"did not connect within {START_WITHIN_S:g} s")
            time.sleep(_POLL_S)


@contextlib.contextmanager
def own_server(directory: Path | None, options: Mapping[str, str]) -> Iterator[OwnServer]:
    """A server of its own; ``directory`` None: a temporary one. ``options``: flags of ``serve`` and their values.

    Raises PartFailed.
    """
    try:
        with contextlib.ExitStack() as stack:
            home = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cc-orchestrator-eval-")))
            home.mkdir(parents=True, exist_ok=True)
            yield _served(stack, home, options)
    except PartFailed as error:
        if directory is not None:
            raise
        raise PartFailed(error.message, remedy="With --dir its whole log is kept.") from None


def _served(stack: contextlib.ExitStack, home: Path, options: Mapping[str, str]) -> OwnServer:
    command = [sys.executable, "-m", "orchestrator", "serve", "--port", "0", "--data-dir", str(home)]
    command += [word for name, value in options.items() for word in (f"--{name}", value)]
    unset = {f"CC_ORCHESTRATOR_{name}" for name in _OURS}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    server = Process(command, home / "server.log", environment)
    stack.callback(server.stop)
    url = server.hear("listening on ", START_WITHIN_S)
    client = Client(url, (home / "admin.token").read_text("utf-8").strip())
    stack.callback(client.close)
    return OwnServer(home, client)
