"""What the tests start as a process is one, whether it is forked or started anew."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.harness.commands import CLI, environment, on_a_terminal, serving, until
from tests.waiting import HANG_S, within

PROBE = """\
import atexit, os, random, signal, sys, threading
atexit.register(lambda: print("ended", file=sys.stderr))
print(sys.argv[1:], os.environ["HOME"], os.environ.get("LEFT"), os.getcwd(), repr(sys.stdin.read()))
print(os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), sys.path[0], __name__)
print(sys.stdin.encoding, sys.stdin.errors, sys.stdin.line_buffering)
for one in (sys.stdout, sys.stderr):
    print(one.encoding, one.errors, one.line_buffering, one.write_through)
print([signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)])
print(sorted(os.listdir("/dev/fd"))[:3], len(os.listdir("/dev/fd")), threading.active_count())
sys.exit(int(sys.argv[1]))
"""
"""A module that tells of the process in which it runs."""


@pytest.fixture
def probe(tmp_path: Path) -> list[str]:
    """The command of a module in the place where it is started."""
    (tmp_path / "probe_of_a_process.py").write_text(PROBE)
    return [sys.executable, "-m", "probe_of_a_process", "7", "gr\u00fcn \udcff"]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("session", [False, True])
def test_a_forked_process_is_as_one_that_is_started_anew(
    probe: list[str], tmp_path: Path, session: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments, environment, place, streams, signals, session and descriptors are those of a fresh interpreter."""
    monkeypatch.setenv("LEFT", "out")
    env = {name: value for name, value in environment(tmp_path).items() if name != "LEFT"}
    options: dict[str, Any] = {
        "cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": session
    }  # fmt: skip
    anew = subprocess.run(probe, env=env, input="typed", text=True, check=False, **options)
    found = forked.run(probe, env, typed="typed", timeout=HANG_S, **options)
    assert (found.returncode, found.stdout, found.stderr) == (7, anew.stdout, "ended\n")
    assert anew.returncode == 7


def test_chance_is_not_the_same_in_each(tmp_path: Path) -> None:
    """What a process draws is its own."""
    (tmp_path / "drawing.py").write_text("import random, uuid\nprint(random.random(), uuid.uuid4())\n")
    drawn = {
        forked.run(
            [sys.executable, "-m", "drawing"], environment(tmp_path), timeout=HANG_S, cwd=tmp_path,
            stdout=subprocess.PIPE,
        ).stdout
        for _ in range(3)
    }  # fmt: skip
    assert len(drawn) == 3


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 0), (signal.SIGINT, 0)])
def test_a_signal_ends_a_server_as_ever(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """It reaches the process itself, and the exit code tells of it."""
    with serving(tmp_path, tmp_path / "data") as served:
        assert isinstance(served.process, forked.Forked)
        assert served.process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            served.process.wait(0.01)
        served.process.send_signal(number)
        assert served.process.wait(HANG_S) == code
        assert served.process.poll() == code
        served.process.kill()


def test_another_interpreter_is_started_anew(tmp_path: Path) -> None:
    """What an interpreter reads when it starts is not read by a fork: such a command is none."""
    process = forked.start(
        [*CLI, "--help"], environment(tmp_path, PYTHONIOENCODING="ascii"), stdout=subprocess.DEVNULL
    )  # fmt: skip
    assert not isinstance(process, forked.Forked)
    assert process.wait(HANG_S) == 0


def test_on_a_terminal_it_has_a_session_and_sees_the_terminal(tmp_path: Path) -> None:
    """Its streams are the terminal, and it is the first of its session."""
    where = ("--url", "http://127.0.0.1:1", "--data-dir", str(tmp_path))
    with on_a_terminal(tmp_path, "run", *where) as terminal:
        assert isinstance(terminal.process, forked.Forked)
        assert os.getsid(terminal.process.pid) == terminal.process.pid
        assert terminal.end() == 3
    assert "No orchestrator answers" in terminal.text


@pytest.mark.deep
def test_what_was_forked_ends_with_the_tests(tmp_path: Path) -> None:
    """A run of the tests that is killed leaves nothing behind."""
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom tests.harness.commands import serving\n"
        "home = Path(sys.argv[1])\n"
        "with serving(home, home / 'data') as served:\n    print('serves', served.process.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    own = {name: value for name, value in environment(tmp_path).items() if not name.startswith("CC_TEST_")}
    tests = subprocess.Popen(command, env=own, cwd=forked.ROOT, stdout=subprocess.PIPE, text=True)
    pid = int(until(tests, "serves").split()[1])
    tests.kill()
    # The server of the forks has the same standard output, and ends after them.
    tests.communicate(timeout=HANG_S)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_simulated_computer_is_a_process_of_a_loop(tmp_path: Path) -> None:
    """It is talked to, ended and waited for as any other, also where it ended before anybody looked."""
    wrong = await forked.start_simulator(f"--disk={tmp_path}", "--no-such-option", stderr=subprocess.PIPE)
    _, errors = await within(wrong.communicate())
    assert (wrong.returncode, b"--no-such-option" in errors) == (2, True)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = await forked.start_simulator("--bare", "--control", f"--disk={tmp_path}", **pipes)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"screen\n")
    assert (await within(process.stdout.readline())).startswith(b"= ")
    assert process.returncode is None
    process.kill()
    assert await within(process.wait()) == -9
    gone = await forked.start_simulator("--no-such-option", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    told: Any = gone
    # Who waits so hears of the end before the loop does.
    assert told._transport.get_extra_info("subprocess").wait(HANG_S) == 2
    gone.kill()
    assert await within(gone.wait()) == 2
