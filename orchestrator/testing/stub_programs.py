"""The programs and peripherals of a stub computer: Python callables, and Lua files of a few simple calls.

``read`` answers the next line that the program is typed, and waits for ever where there is none.
Anything else ends with ``program_error`` and says that a stub runs no Lua.
"""

import asyncio
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from orchestrator.core.wire import wire
from orchestrator.core.wire.picture import Row, bodies_of
from orchestrator.core.wire.wire import MAX_OUTPUT_BYTES, RunId, sha256_hex
from orchestrator.testing.stub_disk import Answer, StubDisk
from orchestrator.testing.stub_parameters import ABSENT, Params, StubFailure, checked

# -- What is beside a stub computer: peripherals whose methods are Python callables, and monitors to look at

MAX_VALUE_BYTES: Final = 32 * 1024
"""The most bytes that a computer answers of a peripheral's result."""


@dataclass
class StubPeripheral:
    """One peripheral, by the name under which it is on the computer."""

    types: Sequence[str]
    methods: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """A method answers with its return value (a tuple: several values); an exception is its error."""
    screen: Sequence[str] | None = None
    """For a monitor: the rows that a program drew on it."""


class StubPeripherals:
    """All peripherals of one stub computer."""

    def __init__(self, devices: Mapping[str, StubPeripheral]) -> None:
        self._devices = devices

    def entries(self) -> list[dict[str, Any]]:
        """What ``info`` says of them, sorted by name."""
        return [
            {"name": name, "types": list(one.types), "methods": sorted(one.methods)}
            for name, one in sorted(self._devices.items())
        ]

    def call(self, params: Params, body: bytes | None) -> Answer:
        """``peripheral_call``. Raises StubFailure."""
        name, method, _ = checked(params, "name", "method", "timeout_s")
        values = _values(body)
        device = self._devices.get(name)
        if device is None:
            raise StubFailure("no_such_peripheral", "There is no peripheral of this name.")
        if method not in device.methods:
            raise StubFailure("no_such_method", "The peripheral has no method of this name.")
        try:
            returned = device.methods[method](*values)
        except Exception as error:  # noqa: BLE001 - whatever a method raises is the peripheral's error
            raise StubFailure("peripheral_error", str(error) or type(error).__name__) from None
        several = list(returned) if isinstance(returned, tuple) else [] if returned is None else [returned]
        told = json.dumps(several, separators=(",", ":")).encode("ascii")
        if len(told) > MAX_VALUE_BYTES:
            told = json.dumps([f"[{len(told)} bytes]"]).encode("ascii")
            return Answer({"count": len(several), "cut": True}, told)
        return Answer({"count": len(several), "cut": False}, told)

    def screen(self, name: str) -> Answer:
        """``screen`` of a monitor. Raises StubFailure."""
        device = self._devices.get(name)
        if device is None or device.screen is None:
            sentence = "A monitor cannot be read, and no program that was run from here has drawn on this one."
            raise StubFailure("not_running", sentence)
        width = max(map(len, device.screen), default=0)
        return rows_of(device.screen, width, len(device.screen))


def rows_of(lines: Sequence[str], width: int, height: int) -> Answer:
    """A screen of white text on black."""
    rows = [{"text": line[:width].ljust(width), "fg": "0" * width, "bg": "f" * width} for line in lines]
    data = {"width": width, "height": height, "x": 1, "y": len(rows) + 1, "blink": False}
    return Answer(data, json.dumps(rows, separators=(",", ":")).encode("ascii"))


def _values(body: bytes | None) -> list[Any]:
    try:
        values: Any = json.loads(body or b"[]")
    except ValueError:
        values = None
    if not isinstance(values, list):
        raise StubFailure("bad_params", "The body must be a JSON list.")
    return values


# -- The terminal of a stub computer: what a test draws there is sent to the watchers, and what they type is
# kept

WHITE_ON_BLACK: Final = ("0", "f")
_NO_MONITOR: Final = "A stub computer has no monitor that can be watched."


class Line(Protocol):
    """The way to the server."""

    def send(self, message: Any, body: bytes = b"") -> None:
        """Send a message; without a connection it is lost."""


class StubScreen:
    """A terminal of so many columns and rows."""

    def __init__(self, width: int = 51, height: int = 19) -> None:
        self.width, self.height = width, height
        self.rows = {number: Row(b" " * width, "0" * width, "f" * width) for number in range(1, height + 1)}
        self.typed: list[dict[str, Any]] = []
        """The key events that were typed, in order."""
        self.refuses = ""
        """Why nothing can be typed; empty: it can."""
        self._watches: dict[int, int] = {}
        """Each watch and the ``n`` of its last picture."""
        self._line: Line | None = None
        self._seq = 0

    @property
    def is_watched(self) -> bool:
        """Whether anybody looks."""
        return bool(self._watches)

    def draw(self, number: int, text: bytes, fg: str = WHITE_ON_BLACK[0], bg: str = WHITE_ON_BLACK[1]) -> None:
        """Put a text into a row, in one colour; the watchers see it."""
        text = text[: self.width].ljust(self.width)
        self.rows[number] = Row(text, fg * self.width, bg * self.width)
        for watch in self._watches:
            self._show(watch, {number: self.rows[number]}, whole=False)

    def disconnected(self) -> None:
        """The session is over, and every watch with it."""
        self._watches.clear()

    def take(self, line: Line, message: wire.Watch | wire.Look | wire.Keys, body: bytes, journal_seq: int) -> None:
        """The server's request about the screen."""
        self._line, self._seq = line, journal_seq
        match message:
            case wire.Watch():
                self._watch(message)
            case wire.Look():
                found = json.dumps([{"width": self.width, "height": self.height}]).encode()
                line.send(wire.Screens(journal_seq=journal_seq, look=message.look, body=wire.whole(found)), found)
            case wire.Keys():
                self._type(message, body)

    def _watch(self, message: wire.Watch) -> None:
        if message.lease_s == 0:
            self._watches.pop(message.watch, None)
        elif message.of is not None:
            self._send(wire.Unseen(journal_seq=self._seq, watch=message.watch, message=_NO_MONITOR))
        elif message.watch not in self._watches:
            self._watches[message.watch] = 0
            self._show(message.watch, self.rows, whole=True)

    def _type(self, message: wire.Keys, body: bytes) -> None:
        if self.refuses:
            code, why = "unseen", self.refuses
            self._send(wire.Keyed(journal_seq=self._seq, keys=message.keys, ok=False, code=code, message=why))
            return
        self.typed += json.loads(body)
        self._send(wire.Keyed(journal_seq=self._seq, keys=message.keys, ok=True))

    def _show(self, watch: int, rows: dict[int, Row], *, whole: bool) -> None:
        """Send rows, in as many frames as they take."""
        for place, body in enumerate(bodies_of(rows)):
            self._watches[watch] += 1
            picture = wire.Picture(
                journal_seq=self._seq,
                watch=watch,
                n=self._watches[watch],
                whole=whole and place == 0,
                width=self.width,
                height=self.height,
                x=1,
                y=1,
                blink=False,
                body=wire.whole(body),
            )
            self._send(picture, body)

    def _send(self, message: Any, body: bytes = b"") -> None:
        if self._line is not None:
            self._line.send(message, body)


# -- What a stub computer runs: Python callables, and Lua files of ``print('...')``, ``print(read())`` and
# ``sleep(N)``

Program = Callable[[list[str]], str]
"""Takes the arguments; its return value is its output, an exception is its error."""
HINT_EVERY_S: Final = 0.5
WIDTH: Final = 51
HEIGHT: Final = 19

_PRINT = re.compile(r"""print\s*\(\s*(?:'([^'\\]*)'|"([^"\\]*)")\s*\)\s*;?""")
_READ = re.compile(r"print\s*\(\s*read\s*\(\s*\)\s*\)\s*;?")
_SLEEP = re.compile(r"(?:os\.)?sleep\s*\(\s*([0-9]{1,5}(?:\.[0-9]+)?)\s*\)\s*;?")
_CODES: Final = {"error": "program_error", "timed_out": "timed_out", "terminated": "terminated"}


@dataclass
class Run:
    """One program that runs."""

    tell: Callable[[int, bytes], None]
    """Told what was written, in parts that may be missing."""
    typed: list[str] = field(default_factory=list)
    """The lines that nobody has read yet, each with its end, which the last may lack."""
    output: bytearray = field(default_factory=bytearray)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    waits_for: str = ""
    """The event that it waits for, as a client says it."""
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

    def line(self) -> str | None:
        """The next line that was typed, as Enter is pressed after the last one too; None: there is none."""
        return self.typed.pop(0).removesuffix("\n") if self.typed else None

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
        self._latest: Run | None = None
        for path in programs:
            if disk.kind(path) == ABSENT:
                disk.put(path, b"-- A Python callable of the stub runs in place of this file.\n")

    async def execute(
        self, run_id: RunId, method: str, params: Params, body: bytes | None, tell: Callable[[int, bytes], None]
    ) -> Answer:
        """``run_program`` or ``shell``. Raises StubFailure."""
        optional = ("input_size", "observe_s")
        path, if_hash, timeout_s, size, observe_s = checked(params, "path", "if_hash", "timeout_s", optional=optional)
        body, typed = (body, b"") if size is None else _parted(body or b"", size)
        if if_hash == ABSENT:
            raise StubFailure("bad_params", "A program that is absent cannot run.")
        words = _words(body)
        if method == "shell":
            words = self._arguments(path, words)
        data = self._disk.file(path)
        sha256 = sha256_hex(data)
        if sha256 != if_hash:
            raise StubFailure("stale", "What is there is not what the call expects.", {"actual": sha256})
        run = self._running[run_id] = self._latest = Run(tell, typed.decode("latin-1").splitlines(keepends=True))
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            ended, message = await self._run(run, path, data, words, min(timeout_s, observe_s or timeout_s))
        finally:
            del self._running[run_id]
        facts = {"ended": ended, "path": path, "sha256": sha256, "output": len(run.output), "cut": 0}
        facts["ran_ms"] = int((clock() - began) * 1000)
        if ended == "timed_out" and observe_s is not None and observe_s <= timeout_s:
            return Answer({**facts, "ended": "observed"}, bytes(run.output))
        if size is not None:
            facts["input_left"] = sum(map(len, run.typed))
        if ended != "returned":
            facts |= {"waits_for": run.waits_for} if ended != "error" else {}
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
        run_id, of = checked(params, optional=("run", "of"))
        run = self._latest if of is not None else self._running.get(RunId(run_id)) if run_id is not None else None
        if run is None and (run_id is not None or of is not None):
            raise StubFailure("not_running", "No such program runs here.")
        lines = bytes(run.output).decode("latin-1").splitlines() if run is not None else []
        return rows_of(lines[1 - HEIGHT :], WIDTH, HEIGHT)

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
            text = run.line() if step is None else step
            if isinstance(text, str):
                run.write(text)
                continue
            until = loop.time() + step if isinstance(step, float) else math.inf
            run.waits_for = "read()" if step is None else "timer"
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


def _parted(body: bytes, size: int) -> tuple[bytes, bytes]:
    """The words, and the typed text at the end."""
    if size > len(body):
        raise StubFailure("bad_params", "The body must end with the input, of which there are input_size bytes.")
    return body[:-size], body[-size:]


def _understood(data: bytes) -> list[str | float | None] | str:
    """What each line does: a text to print, seconds to sleep, or None to print what is typed.

    A text in place of the list is the sentence why this cannot run.
    """
    steps: list[str | float | None] = []
    for number, line in enumerate(data.decode("latin-1").splitlines(), 1):
        code = line.strip()
        printed, slept = _PRINT.fullmatch(code), _SLEEP.fullmatch(code)
        if printed:
            steps.append(printed[1] if printed[1] is not None else printed[2])
        elif slept:
            steps.append(float(slept[1]))
        elif _READ.fullmatch(code):
            steps.append(None)
        elif code and not code.startswith("--"):
            return f"This is a stub computer: it runs no Lua but print('...') and sleep(N), and not line {number}."
    return steps
