"""The command line of screens: what stands there as text, in colours on a terminal, and typing."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.testing.stub_computer import StubComputer
from tests.harness.commands import Served, on_a_terminal, refused, serving
from tests.harness.support import stubs_connected
from tests.waiting import HANG_S


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, tmp_path / "data") as served:
        yield served


@contextmanager
def connected(served: Served) -> Iterator[tuple[StubComputer, asyncio.AbstractEventLoop]]:
    """A stub computer `farm` in a thread of its own, welcome; its loop is the only one that may touch it."""
    token = served.cli("token", "computer", "farm").stdout.strip()
    loop, ready, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    found: list[StubComputer] = []

    async def run() -> None:
        found.append(StubComputer(served.url, token))
        async with stubs_connected(*found):
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert ready.wait(HANG_S)
    try:
        yield found[0], loop
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(HANG_S)
        loop.close()


def draw(computer: StubComputer, loop: asyncio.AbstractEventLoop, number: int, text: bytes, fg: str, bg: str) -> None:
    """Draw on the computer, and return when it is drawn."""
    done = threading.Event()
    loop.call_soon_threadsafe(computer.screen.draw, number, text, fg, bg)
    loop.call_soon_threadsafe(done.set)
    assert done.wait(HANG_S)


def test_a_screen_is_printed_and_followed(served: Served) -> None:
    """Once as text or JSON; with --follow as it changes, in the game's colours on a terminal."""
    refused(served.cli("screen", "farm"), "There is no computer 'farm'", code=4)
    with connected(served) as (computer, loop):
        draw(computer, loop, 2, b"hello \x03", "e", "1")
        while (shown := served.cli("screen", "farm")).returncode:
            assert "is away" in shown.stderr
        lines = shown.stdout.split("\n")
        assert (lines[0], lines[1], len(lines), shown.stderr) == ("", "hello \u2665", 20, "")
        told = json.loads(served.cli("screen", "farm", "--json").stdout)
        assert (told["event"], told["rows"][1]["text"][:5]) == ("picture", list("hello"))
        hidden = served.cli("screen", "farm", "--of", "left")
        assert (hidden.returncode, hidden.stdout) == (1, "")
        assert "no monitor that can be watched" in hidden.stderr
        where = ["screen", "farm", "--follow", *served.where]
        with on_a_terminal(served.home, *where, TERM="xterm", NO_COLOR="") as terminal:
            terminal.expect("\x1b[38;2;204;76;76;48;2;242;178;51mhello")
            draw(computer, loop, 3, b"again", "0", "f")
            terminal.expect("\x1b[H")
            terminal.expect("\x1b[38;2;240;240;240;48;2;17;17;17magain")
            terminal.interrupt()
            assert terminal.end() == 130


def test_what_is_typed_is_said_to_have_arrived_or_not(served: Served) -> None:
    """Text, then keys, in two requests; a refusal and what cannot be typed are sentences."""
    refused(served.cli("type", "farm", "ls", "--enter"), "There is no computer", code=4)
    refused(served.cli("type", "farm"), "There is nothing to type.")
    with connected(served) as (computer, _):
        while served.cli("screen", "farm").returncode:
            pass
        done = served.cli("type", "farm", "ls", "--enter", "--key", "up")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "Typed at 'farm'.\n")
        assert computer.screen.typed == [{"paste": "ls"}, {"key": "enter"}, {"key": "up"}]
        assert json.loads(served.cli("type", "farm", "x", "--json").stdout) == {"delivered": True, "message": ""}
        refused(served.cli("type", "farm", "--key", "reboot"), "There is no key 'reboot'")
        computer.screen.refuses = "Its window is gone."
        refused(served.cli("type", "farm", "y", "--enter"), "Its window is gone.", code=1)
        assert len(computer.screen.typed) == 4
