"""The runner of the tests: every test has one verdict, whatever it does to its process, and nothing stays behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.parallel.load import cpu_quota, usable_cores
from tests.parallel.order import UNKNOWN, Needs, units
from tests.parallel.progress import Progress
from tests.servers import is_running
from tests.waiting import HANG_S

ROOT: Final = Path(__file__).resolve().parent.parent
PLAIN: Final = "def test_one(): pass\ndef test_two(): pass\n"
ODD: Final = r"""
import os, pathlib, subprocess, sys, threading
import pytest

@pytest.fixture
def no_setup(): raise ValueError("set-up fails")

@pytest.fixture
def no_teardown():
    yield
    raise ValueError("tear-down fails")

def test_red(): assert 1 == 2, "one is not two\nsecond line"
def test_setup(no_setup): pass
def test_teardown(no_teardown): pass
def test_skipped(): pytest.skip("no such thing here")
def test_large(): raise ValueError("x" * 5_000_000)
def test_bytes():
    os.write(1, b"\xff\xfe\x00"); print("\ud800".encode("utf-8", "surrogatepass"))
    raise ValueError("odd \udcff \x1b[31m")
@pytest.mark.parametrize("text", ["a b]", "\u00e9 [", "'"])
def test_named(text): assert text == "'"
def test_elsewhere(tmp_path): os.chdir(tmp_path)
def test_closed(): os.close(0); os.close(1); os.close(2)
def test_left():
    left = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    pathlib.Path(os.environ["LEFT"]).write_text(str(left.pid))
    threading.Thread(target=threading.Event().wait, daemon=True).start()
def test_last(): pass
"""
GONE: Final = """
import os, signal
def test_before(): pass
def test_exits(): os._exit(0)
def test_between(): pass
def test_killed(): os.kill(os.getpid(), signal.SIGKILL)
def test_after(): pass
"""
HANGS: Final = """
import threading
def test_waits_for_ever(): threading.Event().wait()
def test_after(): pass
"""
BLOCKS: Final = """
import os, pathlib, subprocess, sys, threading
def test_blocks():
    left = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    home = pathlib.Path(os.environ["LEFT"])
    home.with_suffix(".part").write_text(f"{os.getpid()} {left.pid}")
    home.with_suffix(".part").rename(home)
    threading.Event().wait()
"""


class Suite:
    """Some files of tests, and how the runner is started on them."""

    def __init__(self, tmp: Path, files: Mapping[str, str]) -> None:
        self.tmp, self.temporary, self.left, self._red = tmp, tmp / "temporary", tmp / "left", tmp / "red.json"
        self.temporary.mkdir()
        (tmp / "suite").mkdir()
        (tmp / "suite" / "pytest.ini").write_text("[pytest]\n")
        for name, text in files.items():
            (tmp / "suite" / name).parent.mkdir(exist_ok=True)
            (tmp / "suite" / name).write_text(text)

    def start(self, *options: str) -> "subprocess.Popen[str]":
        """Start the runner in a session of its own, as a terminal does."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.parallel.plugin"]
        own = {"TMPDIR": str(self.temporary), "LEFT": str(self.left), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.Popen(
            [*command, "--color=no", f"--red={self._red}", *options],
            cwd=self.tmp / "suite",
            env={**os.environ, "PYTHONPATH": str(ROOT), **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def run(self, *options: str) -> tuple[int, str, dict[str, str]]:
        """Exit code, output and red tests; nothing is left in the directory for temporary files."""
        process = self.start(*options)
        output, _ = process.communicate(timeout=HANG_S)
        assert list(self.temporary.iterdir()) == []
        return process.returncode, output, json.loads(self._red.read_text()) if self._red.exists() else {}

    def pids(self) -> list[int]:
        """The process of the test that blocks, and the one that it started, once both are there."""
        until = time.monotonic() + HANG_S
        while not self.left.exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        return [int(pid) for pid in self.left.read_text().split()]


@pytest.mark.deep
def test_whatever_a_test_does_it_and_all_others_have_their_verdict(tmp_path: Path) -> None:
    """Red, skipped, killed and hanging ones are named with their reason; what comes after them in their file runs."""
    same = {"a/__init__.py": "", "b/__init__.py": "", "a/test_same.py": PLAIN, "b/test_same.py": PLAIN}
    suite = Suite(tmp_path, {"test_odd.py": ODD, "test_gone.py": GONE, "test_hangs.py": HANGS, **same})
    code, output, red = suite.run("--workers=2", "--no-skips", "--hang=3")
    assert code == 1
    assert "14 passed" in output, output
    ended = "The process of this file ended with exit code"
    waits = red.pop("test_hangs.py::test_waits_for_ever")
    assert red.pop("test_odd.py::test_large") == f"ValueError: {'x' * 188}"
    assert red == {
        "test_odd.py::test_red": "AssertionError: one is not two",
        "test_odd.py::test_setup": "ValueError: set-up fails",
        "test_odd.py::test_teardown": "ValueError: tear-down fails",
        "test_odd.py::test_skipped": "Skipped: no such thing here",
        "test_odd.py::test_bytes": "ValueError: odd \udcff \x1b[31m",
        "test_odd.py::test_named[a b]]": "assert 'a b]' == \"'\"",
        "test_odd.py::test_named[\\xe9 []": "assert 'é [' == \"'\"",
        "test_gone.py::test_exits": f"{ended} 0.",
        "test_gone.py::test_killed": f"{ended} -9.",
    }
    assert waits.startswith("Nothing happened for 3 s of this machine's time: it hangs.")
    assert "in test_waits_for_ever" in output, "where it waits is told"
    assert not is_running(int(suite.left.read_text())), "a process that a test left is still there"


def test_a_file_that_cannot_be_read_is_red(tmp_path: Path) -> None:
    """Nothing runs then, as pytest has it."""
    suite = Suite(tmp_path, {"test_plain.py": PLAIN, "test_broken.py": "import there_is_no_such_module\n"})
    code, _, red = suite.run("--workers=2")
    assert (code, red) == (2, {"test_broken.py": "E   ModuleNotFoundError: No module named 'there_is_no_such_module'"})


def test_the_first_red_test_may_end_the_run(tmp_path: Path) -> None:
    """With one worker the files come one after the other; a skipped test is none of the red ones by itself."""
    skips = "import pytest\npytest.skip('not here', allow_module_level=True)\n"
    files = {"test_1.py": PLAIN, "test_2.py": "def test_red(): assert False\n", "test_3.py": PLAIN, "test_0.py": skips}
    code, output, red = Suite(tmp_path, files).run("--workers=1", "-x")
    assert (code, red) == (1, {"test_2.py::test_red": "assert False"})
    assert "1 failed, 2 passed, 1 skipped" in output


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_process(tmp_path: Path, ended_by: signal.Signals) -> None:
    """Ctrl-C ends also what a test started in a session of its own; whatever ends the runner, its tests end with it."""
    suite = Suite(tmp_path, {"test_blocks.py": BLOCKS})
    with suite.start("--workers=1") as process:
        pids = suite.pids()
        process.send_signal(ended_by)
        process.communicate(timeout=HANG_S)
    if ended_by is signal.SIGINT:
        assert process.returncode == pytest.ExitCode.INTERRUPTED
        assert [pid for pid in pids if is_running(pid)] == []
        assert list(suite.temporary.iterdir()) == []
        return
    assert process.returncode == -ended_by
    until = time.monotonic() + HANG_S
    while is_running(pids[0]):
        assert time.monotonic() < until
        time.sleep(0.02)


# -- which goes first, and how much at once ----------------------------------------------------


class _Item:
    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


def test_the_file_that_needs_most_goes_first() -> None:
    """One that is not in the record has a place among the others, and each keeps the order of its tests."""
    items: Any = [_Item(nodeid) for nodeid in ("a.py::1", "a.py::2", "b.py::1", "c.py::1", "d.py::1")]
    needs = {"a.py": Needs(0.1, 0.1), "b.py": Needs(9.0, 10.0), "d.py": Needs(UNKNOWN.cpu_s + 1, 30.0)}
    found = units(items, needs)
    assert [unit.path for unit in found] == ["b.py", "d.py", "c.py", "a.py"]
    assert [item.nodeid for item in found[-1].items] == ["a.py::1", "a.py::2"]


@pytest.mark.parametrize(
    ("needs", "cores"),
    [(Needs(9, 10), 0.9), (Needs(0, 10), 0.25), (Needs(0, 0), 1), (Needs(3, 1), 1), (UNKNOWN, 1)],
)
def test_a_file_that_waits_keeps_a_part_of_a_core_busy(needs: Needs, cores: float) -> None:
    assert needs.cores == cores


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": ""}, None),
        ({"cpu.max": "odd 0\n"}, None),
        ({"cpu.max": "5 0\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "50000\n"}, None),
    ],
)
def test_what_a_control_group_allows(tmp_path: Path, files: Mapping[str, str], quota: float | None) -> None:
    """Both versions, and what neither of them writes."""
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert cpu_quota(tmp_path) == quota


def test_a_core_that_may_not_be_used_does_not_count() -> None:
    told = "import os, sys; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1]);"
    told += "from tests.parallel.load import usable_cores; print(usable_cores())"
    done = subprocess.run([sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, usable_cores() >= 1) == ("1\n", True)


def test_one_line_says_how_far_it_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal it is written over itself; what is red is said at once."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = Progress(1200, 100.0)
    progress.tell()
    progress.done, progress.done_s = 600, 50.0
    progress.tell_red("test_a.py::test_b")
    progress.tell()
    progress.end()
    clear = "\r\x1b[2K"
    assert capsys.readouterr().err == (
        f"{clear}tests: 0 of 1,200 done, some minutes left{clear}red: test_a.py::test_b\n"
        f"{clear}tests: 600 of 1,200 done, about a minute left, 1 red{clear}"
    )
