"""Commands as people start them: real processes, on pipes and on pseudo terminals.

For all that a person types and sees, `serve` with its signals included. A test that kills a server or changes its store
uses `tests.harness.processes`.
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import ROOT, forked
from tests.harness.support import call, final, says
from tests.servers import free_port
from tests.waiting import HANG_S

CLI = [sys.executable, "-m", "orchestrator"]
SCRIPTED = ("--model", "scripted:hello")
"""A named model: `serve` then looks for none on this machine."""


def environment(home: Path, **more: str) -> dict[str, str]:
    """A newcomer's environment: a fresh home, and nothing of ours set."""
    ours = ("CC_ORCHESTRATOR_", "XDG_", "NO_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    # No test answers a program that asks its terminal where the cursor is.
    plain = {"TERM": "dumb", "COLUMNS": "200", "PROMPT_TOOLKIT_NO_CPR": "1"}
    return {**kept, "HOME": str(home), "PYTHONPATH": str(ROOT), **plain, **more}


def cli(home: Path, *arguments: str, typed: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
    """One command to its end, without a terminal; a traceback is never an answer."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = forked.run([*CLI, *arguments], environment(home, **more), cwd=home, typed=typed, timeout=HANG_S, **pipes)
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    return done


def refused(done: "subprocess.CompletedProcess[str]", *words: str, code: int = 2) -> None:
    """One sentence on stderr with these words, an exit code, and no `listening`."""
    assert done.returncode == code, done.stderr
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("cc-orchestrator: ")]
    for word in words:
        assert word in line
    assert "listening" not in done.stdout


@dataclass
class Served:
    """A server that listens."""

    process: "subprocess.Popen[str]"
    url: str
    data: Path
    home: Path

    @property
    def where(self) -> list[str]:
        """The options that reach it."""
        return ["--url", self.url, "--data-dir", str(self.data)]

    @property
    def port(self) -> str:
        """Where it listens."""
        return self.url.rpartition(":")[2]

    def cli(self, *arguments: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
        """A client's command to this server."""
        return cli(self.home, *arguments, *self.where, typed=typed)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """A client's command on pipes, while it runs."""
        return forked.start(
            [*CLI, *arguments, *self.where],
            environment(self.home),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@contextmanager
def process_of(command: list[str], home: Path, data: Path, **more: str) -> Iterator[Served]:
    """A server in a process of its own; killed when the block ends and it still runs."""
    with (home / "serve.log").open("a") as log:
        process = forked.start(
            command, environment(home, **more), cwd=home, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on http://127.0.0.1:"), (home / "serve.log").read_text()
            yield Served(process, line.removeprefix("listening on ").strip(), data, home)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@contextmanager
def serving(home: Path, data: Path, *options: str) -> Iterator[Served]:
    """`serve`, on any free port unless the options name one, with a script as its model unless they name another."""
    with process_of([*CLI, "serve", *SCRIPTED, "--port", "0", "--data-dir", str(data), *options], home, data) as served:
        yield served


@contextmanager
def talking(home: Path, data: Path, port: str = "") -> Iterator[Served]:
    """A server whose model plays the script in the prompt, and tells its replies in parts.

    ``port`` empty: one that stays free while it is down.
    """
    port = port or str(free_port())
    with process_of([sys.executable, "-m", "tests.harness.talking", str(data), port], home, data) as served:
        yield served


def script(*replies: dict[str, Any]) -> str:
    """A prompt that the talking model plays."""
    return json.dumps(replies)


def paused(server: Served) -> str:
    """A new task of a talking server that waits for a person."""
    write = call("local_write", path="plan.txt", content="new\n")
    follower = server.start("run", script(says(write), final()))
    task_id = until(follower, "[REVIEW]").split()[1]
    follower.kill()
    follower.communicate()
    return task_id


def until(process: "subprocess.Popen[str]", start: str) -> str:
    """Read a process's output up to the line that begins so, and return it all."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if line.startswith(start):
            return seen
    raise AssertionError(f"it ended before {start!r}:\n{seen}\n{process.stderr.read() if process.stderr else ''}")


# -- pseudo terminals --------------------------------------------------------------------


@dataclass
class Terminal:
    """A command on a pseudo terminal of its own."""

    master: int
    process: "subprocess.Popen[bytes]"
    raw: str = ""
    """All that was written so far."""
    _at: int = field(default=0, init=False)

    @property
    def text(self) -> str:
        """All that was written, with plain line ends."""
        return self.raw.replace("\r\n", "\n")

    def expect(self, wanted: str) -> None:
        """Read until this was written after what was expected before."""
        deadline = time.monotonic() + HANG_S
        while (found := self.raw.find(wanted, self._at)) < 0:
            assert time.monotonic() < deadline, f"no {wanted!r} in:\n{self.text[-3000:]}"
            assert self._read(), f"it ended without {wanted!r}:\n{self.text[-3000:]}"
        self._at = found + len(wanted)

    def type(self, text: str) -> None:
        """Type at the keyboard."""
        os.write(self.master, text.encode())

    def interrupt(self) -> None:
        """What Ctrl-C does where no program reads the keys themselves, once the command waits for them.

        Python handles a signal between two of its instructions. One that comes after the question was written and
        before the read began does not end the read; a person is slower than that.
        """
        deadline = time.monotonic() + HANG_S
        while self._runs():
            assert time.monotonic() < deadline, f"it never waited for input:\n{self.text[-3000:]}"
            time.sleep(0.001)
        self.process.send_signal(signal.SIGINT)

    def _runs(self) -> bool:
        """Whether it neither waits nor has ended; the state follows the name of the program (proc(5))."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("S", "Z")

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._read():
            pass
        return self.process.wait(HANG_S)

    def _read(self) -> bool:
        if not select.select([self.master], [], [], HANG_S)[0]:
            raise AssertionError(f"nothing came for {HANG_S} s:\n{self.text[-3000:]}")
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)


@contextmanager
def on_a_terminal(home: Path, *arguments: str, python: str = "", size: str = "", **more: str) -> Iterator[Terminal]:
    """A command, or a Python program, on a pseudo terminal; killed when the block ends and it still runs.

    ``size``: columns and rows such as 80x24; empty: the terminal does not know.
    """
    master, slave = pty.openpty()
    if size:
        columns, rows = map(int, size.split("x"))
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = forked.start(
        [sys.executable, "-c", python] if python else [*CLI, *arguments],
        environment(home, **{"NO_COLOR": "1", **more}),
        cwd=home,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        process.kill()
        process.wait()
        os.close(master)
