"""What a stub computer runs: Python callables, and Lua files of nothing but ``print('...')`` and ``sleep(N)``.

Anything else ends with ``program_error`` and says that a stub runs no Lua.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.core.wire import MAX_OUTPUT_BYTES, RunId, sha256_hex
from orchestrator.testing.stub_disk import ABSENT, Answer, Params, StubDisk, StubFailure, checked

Program = Callable[[list[str]], str]
"""Takes the arguments; what it answers is its output, what it raises its error."""
HINT_EVERY_S: Final = 0.5
WIDTH: Final = 51
HEIGHT: Final = 19

_PRINT = re.compile(r"""print\s*\(\s*(?:'([^'\\]*)'|"([^"\\]*)")\s*\)\s*;?""")
_SLEEP = re.compile(r"(?:os\.)?sleep\s*\(\s*([0-9]{1,5}(?:\.[0-9]+)?)\s*\)\s*;?")
_CODES: Final = {"error": "program_error", "timed_out": "timed_out", "terminated": "terminated"}


@dataclass
class Run:
    """One program that runs."""

    tell: Callable[[int, bytes], None]
    """Told what was written, in parts that may be missing."""
    output: bytearray = field(default_factory=bytearray)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    _told: int = 0
    _told_at: float = float("-inf")

    def write(self, text: str) -> None:
        """The program prints a line."""
        self.output += text.encode("latin-1", "replace") + b"\n"
        self.hint()

    def hint(self) -> None:
        """Tell what is new, unless it was told a moment ago."""
        now = asyncio.get_running_loop().time()
        if self._told < len(self.output) and now - self._told_at >= HINT_EVERY_S:
            begin = max(self._told, len(self.output) - MAX_OUTPUT_BYTES)
            self._told, self._told_at = len(self.output), now
            self.tell(begin, bytes(self.output[begin:]))

    async def pause(self, until: float) -> bool:
        """Wait until a time; True: the program was told to stop before."""
        loop = asyncio.get_running_loop()
        while (left := until - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(left, HINT_EVERY_S)):
                    await self.stop.wait()
            except TimeoutError:
                self.hint()
            else:
                return True
        return self.stop.is_set()


class StubPrograms:
    """The programs of one stub computer, and those that run."""

    def __init__(self, disk: StubDisk, programs: Mapping[str, Program]) -> None:
        self._disk = disk
        self._programs = programs
        self._running: dict[RunId, Run] = {}
        for path in programs:
            if disk.kind(path) == ABSENT:
                disk.put(path, b"-- A Python callable of the stub runs in place of this file.\n")

    async def execute(
        self, run_id: RunId, method: str, params: Params, body: bytes | None, tell: Callable[[int, bytes], None]
    ) -> Answer:
        """``run_program`` or ``shell``. Raises StubFailure."""
        path, if_hash, timeout_s = checked(params, "path", "if_hash", "timeout_s")
        if if_hash == ABSENT:
            raise StubFailure("bad_params", "A program that is absent cannot run.")
        words = _words(body)
        if method == "shell":
            words = self._arguments(path, words)
        data = self._disk.file(path)
        sha256 = sha256_hex(data)
        if sha256 != if_hash:
            raise StubFailure("stale", "What is there is not what the call expects.", {"actual": sha256})
        run = self._running[run_id] = Run(tell)
        try:
            ended, message = await self._run(run, path, data, words, timeout_s)
        finally:
            del self._running[run_id]
        facts = {"ended": ended, "path": path, "sha256": sha256, "output": len(run.output), "cut": 0}
        if ended != "returned":
            trace = message.encode("latin-1", "replace") if ended == "error" else b""
            raise StubFailure(_CODES[ended], message, facts, bytes(run.output) + trace)
        return Answer(facts, bytes(run.output))

    def terminate(self, params: Params) -> Answer:
        """``terminate``."""
        (run_id,) = checked(params, "run")
        run = self._running.get(RunId(run_id))
        if run is None:
            return Answer({"state": "not_running"})
        run.stop.set()
        return Answer({"state": "stopping"})

    def screen(self, params: Params) -> Answer:
        """``screen``: the last lines that a program wrote; the stub's own terminal is empty."""
        (run_id,) = checked(params, optional=("run",))
        run = self._running.get(RunId(run_id)) if run_id is not None else None
        if run is None and run_id is not None:
            raise StubFailure("not_running", "No such program runs here.")
        lines = bytes(run.output).decode("latin-1").splitlines() if run is not None else []
        shown = [line[:WIDTH].ljust(WIDTH) for line in lines[1 - HEIGHT :]]
        rows = [{"text": line, "fg": "0" * WIDTH, "bg": "f" * WIDTH} for line in shown]
        data = {"width": WIDTH, "height": HEIGHT, "x": 1, "y": len(rows) + 1, "blink": False}
        return Answer(data, json.dumps(rows, separators=(",", ":")).encode("ascii"))

    # -- inside --------------------------------------------------------------------------

    def _arguments(self, path: str, words: list[str]) -> list[str]:
        if not words:
            raise StubFailure("bad_params", "The body must name a program first.")
        meant = self._disk.resolve(words[0])
        if meant != path:
            actual = {"actual": self._disk.sha256(meant), "path": meant}
            raise StubFailure("stale", "The word means another program now.", actual)
        return words[1:]

    async def _run(self, run: Run, path: str, data: bytes, words: list[str], timeout_s: float) -> tuple[str, str]:
        """How it ended, and a sentence about it."""
        program = self._programs.get(path)
        if program is not None:
            return self._call(run, program, words)
        steps = _understood(data)
        if isinstance(steps, str):
            return "error", steps
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        for step in steps:
            if isinstance(step, str):
                run.write(step)
                continue
            until = loop.time() + step
            if await run.pause(min(until, deadline)):
                return "terminated", "The program was terminated."
            if until > deadline:
                return "timed_out", f"The program did not end within {timeout_s} s."
        return "returned", ""

    def _call(self, run: Run, program: Program, words: list[str]) -> tuple[str, str]:
        try:
            said = program(words)
        except Exception as error:  # noqa: BLE001 - whatever a program raises is the program's error
            return "error", f"{type(error).__name__}: {error}"
        run.output += said.encode("latin-1", "replace")
        run.hint()
        return "returned", ""


def _words(body: bytes | None) -> list[str]:
    try:
        words: Any = json.loads(body or b"[]")
    except ValueError:
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise StubFailure("bad_params", "The body must be a JSON list of strings.")
    return words


def _understood(data: bytes) -> list[str | float] | str:
    """What each line does: a text to print or seconds to sleep; or the sentence why this cannot run."""
    steps: list[str | float] = []
    for number, line in enumerate(data.decode("latin-1").splitlines(), 1):
        code = line.strip()
        printed, slept = _PRINT.fullmatch(code), _SLEEP.fullmatch(code)
        if printed:
            steps.append(printed[1] if printed[1] is not None else printed[2])
        elif slept:
            steps.append(float(slept[1]))
        elif code and not code.startswith("--"):
            return f"This is a stub computer: it runs no Lua but print('...') and sleep(N), and not line {number}."
    return steps
