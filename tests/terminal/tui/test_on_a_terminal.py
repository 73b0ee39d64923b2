"""`cc-orchestrator tui` as a process on real pseudo terminals: what stands on the screen, and what it leaves behind."""

import fcntl
import os
import re
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyte
import pytest

from orchestrator.terminal.tui.typing import SETTLE_S
from tests.harness.commands import Served, Terminal, cli, environment, on_a_terminal, paused, talking
from tests.terminal.tui.driving import NARROW, WIDE
from tests.waiting import HANG_S

AS_IT_WAS = ("\x1b[?1049l", "\x1b[?25h")
"""The other screen is left, and the cursor is shown."""


@dataclass
class Sight:
    """What a person sees on a terminal."""

    terminal: Terminal
    size: tuple[int, int]
    screen: Any = field(init=False)
    _fed: int = field(default=0, init=False)
    _seen_at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.screen = pyte.Screen(*self.size)
        self._stream = pyte.Stream(self.screen)

    @property
    def text(self) -> str:
        """The screen, row by row."""
        return "\n".join(row.rstrip() for row in self.screen.display)

    def sees(self, *wanted: str) -> str:
        """The screen once all of that stands on it."""
        return self.until(lambda: all(one in self.text for one in wanted), repr(wanted))

    def until(self, holds: Callable[[], bool], what: str) -> str:
        """Read on until something is so."""
        deadline = time.monotonic() + HANG_S
        while not holds():
            assert time.monotonic() < deadline, f"never {what}:\n{self.text}"
            assert self.terminal._read(), f"it ended without {what}:\n{self.text}\n{self.terminal.text[-2000:]}"
            new, self._fed = self.terminal.raw[self._fed :], len(self.terminal.raw)
            # Asks the terminal about its modes, in a form that pyte would print.
            self._stream.feed(new.replace("\x1b[?2026$p", "").replace("\x1b[?2048$p", "").replace("\x1b[>25u", ""))
        self._seen_at = time.monotonic()
        return self.text

    def type(self, text: str) -> None:
        """Read for as long as a person has to, then type at the keyboard."""
        time.sleep(max(0.0, self._seen_at + SETTLE_S - time.monotonic()))
        self.terminal.type(text)

    def resize(self, columns: int, rows: int) -> None:
        """Make the window larger or smaller."""
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.terminal.process.send_signal(signal.SIGWINCH)


@contextmanager
def looking(server: Served, home: Path, size: tuple[int, int], **more: str) -> Iterator[Sight]:
    """The terminal UI on a terminal of this size."""
    wanted = {"TERM": "xterm-256color", "COLUMNS": "", "LINES": "", **more}
    with on_a_terminal(home, "tui", *server.where, size=f"{size[0]}x{size[1]}", **wanted) as terminal:
        before = termios.tcgetattr(terminal.master)
        sight = Sight(terminal, size)
        sight.sees("connected to")
        yield sight
        code = terminal.end()
        assert code in (0, 143), terminal.text[-2000:]
        tail = terminal.raw[terminal.raw.rindex(AS_IT_WAS[0]) :]
        assert AS_IT_WAS[1] in tail
        assert "Traceback" not in terminal.raw
        assert "\x1b[?1000h" not in terminal.raw, "it takes the mouse"
        assert termios.tcgetattr(terminal.master) == before


@pytest.mark.deep
@pytest.mark.parametrize("size", [NARROW, pytest.param(WIDE, marks=pytest.mark.deep)])
def test_a_request_is_edited_in_an_editor_and_approved(tmp_path: Path, size: tuple[int, int]) -> None:
    """At both sizes, in black and white: what waits is shown, the editor gets the terminal, the file is written."""
    data = tmp_path / "data"
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "the editor has it: "; tty\nsed -i s/new/newer/ "$1"\n')
    editor.chmod(0o700)
    with talking(tmp_path, data) as server:
        task_id = paused(server)
        with looking(server, tmp_path, size, EDITOR=str(editor)) as sight:
            sight.sees("[1 Tasks] 2 Approvals(1)", "Paused, for approval", "[REVIEW] local_write waits for approval")
            sight.type("2")
            sight.sees("[2 Approvals(1)]", "local_write on this host", "+new", "digest", "? keys")
            sight.type("e")
            sight.sees("Approve it like this?", "-new", "+newer")
            assert "the editor has it: /dev/" in sight.terminal.raw
            sight.type("y")
            sight.sees("Why? The model is told")
            sight.type("\r")
            sight.sees("Carried out: edited and approved by you")
            sight.type("1")
            sight.sees("[FINAL] Success=True", task_id)
            sight.type("q")
        assert not re.search(r"\x1b\[[\d;]*\b(38|48);[25];", sight.terminal.raw), "NO_COLOR is set"
        assert (data / "workspace" / "plan.txt").read_text("utf-8") == "newer\n"


@pytest.mark.deep
def test_an_editor_that_fails_gives_the_screen_back(tmp_path: Path) -> None:
    """One that cannot be started and one that ends badly are told on the screen, which takes keys again."""
    editor = tmp_path / "editor"
    with talking(tmp_path, tmp_path / "data") as server:
        paused(server)
        with looking(server, tmp_path, NARROW, EDITOR=str(editor)) as sight:
            sight.type("2")
            sight.sees("[2 Approvals(1)]", "+new")
            sight.type("e")
            sight.sees("No such file or directory. Set EDITOR to another.")
            editor.write_text("#!/bin/sh\nexit 3\n")
            editor.chmod(0o700)
            sight.type("e")
            sight.until(lambda: "code 3" in sight.text and "No such file" not in sight.text, "the code")
            sight.type("a")
            sight.sees("Let it run")
            sight.type("\x1b")
            sight.until(lambda: "Let it run" not in sight.text, "closed")
            sight.type("q")


def test_it_copes_with_another_size_and_with_sigterm(tmp_path: Path) -> None:
    """It is drawn anew at another size, and on SIGTERM leaves the terminal as it was, also without a server."""
    with talking(tmp_path, tmp_path / "data") as server:
        paused(server)
        with looking(server, tmp_path, NARROW) as sight:
            sight.sees("[1 Tasks]", "+new")
            sight.resize(*WIDE)
            sight.until(
                lambda: any(line.startswith("  STATUS") and "t-" in line for line in sight.screen.display), "wide"
            )
            sight.resize(60, 15)
            sight.sees("[1 Tasks]", "? keys")
            sight.resize(*NARROW)
            sight.sees("7 People")
            server.process.kill()
            sight.sees("NOT CONNECTED to")
            sight.terminal.process.send_signal(signal.SIGTERM)


def test_it_ends_with_its_terminal(tmp_path: Path) -> None:
    """A terminal that was closed, also where no signal says so, ends it: it neither waits nor spins."""
    with talking(tmp_path, tmp_path / "data") as server:
        paused(server)
        with silently_looking(server, tmp_path, NARROW) as terminal:
            Sight(terminal, NARROW).sees("connected to", "+new")
            with Path(os.devnull).open("rb") as nothing:
                os.dup2(nothing.fileno(), terminal.master)
            assert terminal.process.wait(HANG_S) == 129


@pytest.mark.deep
def test_sigterm_ends_it_where_the_terminal_takes_no_more(tmp_path: Path) -> None:
    """As of a connection that hangs: nobody reads, all buffers are full, and it ends all the same."""
    with talking(tmp_path, tmp_path / "data") as server:
        paused(server)
        with silently_looking(server, tmp_path, WIDE) as terminal:
            Sight(terminal, WIDE).sees("connected to", "+new")
            deadline, held = time.monotonic() + HANG_S, [-1]
            while len(held) < 20 or held[-20] != held[-1]:
                assert time.monotonic() < deadline, f"its terminal never had enough: {held[-5:]}"
                terminal.type("1234567")
                held.append(struct.unpack("i", fcntl.ioctl(terminal.master, termios.FIONREAD, b"\0" * 4))[0])
                time.sleep(0.1)
            terminal.process.send_signal(signal.SIGTERM)
            assert terminal.process.wait(HANG_S) == 143


def silently_looking(server: Served, home: Path, size: tuple[int, int]) -> AbstractContextManager[Terminal]:
    """The terminal UI on a terminal of this size, however it ends."""
    wanted = {"TERM": "xterm-256color", "COLUMNS": "", "LINES": ""}
    return on_a_terminal(home, "tui", *server.where, size=f"{size[0]}x{size[1]}", **wanted)


@pytest.mark.deep
def test_it_is_set_aside_and_taken_up_again(tmp_path: Path) -> None:
    """Ctrl-Z stops it with the terminal as it was; when it goes on, all of the screen is drawn anew."""
    with talking(tmp_path, tmp_path / "data") as server:
        paused(server)
        with looking(server, tmp_path, NARROW) as sight:
            sight.sees("[1 Tasks]", "+new")
            sight.type("\x1a")
            sight.until(lambda: AS_IT_WAS[0] in sight.terminal.raw, "the terminal as it was")
            deadline = time.monotonic() + HANG_S
            while state_of(sight.terminal.process.pid) != "T":
                assert time.monotonic() < deadline, "it never stopped"
                time.sleep(0.01)
            sight.screen.reset()
            sight.terminal.process.send_signal(signal.SIGCONT)
            sight.sees("[1 Tasks]", "> ◆ Paused, for approval", "+new", "? keys")
            sight.type("q")


def state_of(pid: int) -> str:
    """What a process does, as the kernel has it: ``T`` where it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]


@pytest.mark.deep
def test_it_is_left_while_the_server_is_gone(tmp_path: Path) -> None:
    """`q` ends it at once, and so does Ctrl-C, whatever the server does."""
    with talking(tmp_path, tmp_path / "data") as server:
        with looking(server, tmp_path, NARROW) as sight:
            sight.type("\x03")
        with looking(server, tmp_path, NARROW) as sight:
            server.process.send_signal(signal.SIGSTOP)
            sight.type("4")
            sight.sees("[4 Computers]")
            sight.type("q")
            sight.terminal.end()


@pytest.mark.deep
def test_a_decision_of_which_nobody_heard_is_told_when_it_is_left(tmp_path: Path) -> None:
    """The server says nothing any more, so nobody knows whether it was taken: the last line says so."""
    with talking(tmp_path, tmp_path / "data") as server:
        paused(server)
        with looking(server, tmp_path, NARROW) as sight:
            sight.type("2")
            sight.sees("[2 Approvals(1)]", "+new")
            sight.type("a")
            sight.sees("Let it run")
            server.process.send_signal(signal.SIGSTOP)
            sight.type("y")
            sight.until(lambda: "Let it run" not in sight.text, "it is sent")
            sight.type("q")
            sight.terminal.expect("It is not known whether your last decision was taken")


def test_without_a_terminal_or_a_server_it_says_so(tmp_path: Path) -> None:
    """On a pipe it names what works there; without a server it is a sentence before anything is drawn."""
    data = tmp_path / "data"
    refused = cli(tmp_path, "tui", "--data-dir", str(data))
    assert refused.returncode == 2
    assert "There is no terminal to draw on" in refused.stderr
    data.mkdir()
    (data / "admin.token").write_text("abc", "utf-8")
    with on_a_terminal(tmp_path, "tui", "--url", "http://127.0.0.1:1", "--data-dir", str(data)) as terminal:
        terminal.expect("No orchestrator answers at http://127.0.0.1:1")
        assert terminal.end() == 3
        assert "\x1b[?1049h" not in terminal.raw


def test_without_textual_it_says_what_to_install(tmp_path: Path) -> None:
    """The extra is named, and what works without it."""
    (tmp_path / "hidden" / "textual").mkdir(parents=True)
    (tmp_path / "hidden" / "textual" / "__init__.py").write_text("raise ImportError('hidden')\n", "utf-8")
    path = os.pathsep.join([str(tmp_path / "hidden"), *filter(None, [environment(tmp_path).get("PYTHONPATH", "")])])
    with on_a_terminal(tmp_path, "tui", PYTHONPATH=path) as terminal:
        terminal.expect("The terminal UI needs textual, which is not installed.")
        terminal.expect("pip install 'cc-orchestrator[tui]'")
        assert terminal.end() == 2
