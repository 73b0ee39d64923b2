"""The process of one test file: forked, runs its tests, and sends their reports through a pipe."""

import atexit
import ctypes
import faulthandler
import os
import pickle
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from tests import forked
from tests.parallel.counting import Counting
from tests.parallel.order import Unit

PR_SET_PDEATHSIG: Final = 1
"""``prctl(2)``: the signal that a process gets when its parent ends."""


class _Reports:
    """A plugin that sends what happens to the process that collected the tests."""

    def __init__(self, config: pytest.Config, pipe: int) -> None:
        self._config, self._pipe = config, pipe

    def send(self, kind: str, told: object = None) -> None:
        """One message: its length in four bytes, and the pickled pair."""
        body = pickle.dumps((kind, told))
        rest = memoryview(len(body).to_bytes(4) + body)
        while rest:
            rest = rest[os.write(self._pipe, rest) :]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.send("began", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.send("report", self._config.hook.pytest_report_to_serializable(config=self._config, report=report))


def fork(session: pytest.Session, unit: Unit, counting: Counting | None, home: Path) -> tuple[int, int]:
    """Start the tests of a file; the pid of its process, and where its messages can be read.

    ``home`` is for its temporary files.
    """
    ours, its = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(its)
        return pid, ours
    os.close(ours)
    _become(session.config, home)
    _run(session, unit, counting, _Reports(session.config, its))


def _become(config: pytest.Config, home: Path) -> None:
    """A process of its own, in a session of its own, that ends with the run."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    atexit._clear()
    forked.use_shared()
    # The output of the tests goes to a file of this process, not to one that it shares with the others.
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    config.pluginmanager.unregister(name="terminalreporter")
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(home)
    faulthandler.register(signal.SIGUSR1, (home / "stacks").open("w"), all_threads=True)


def _run(session: pytest.Session, unit: Unit, counting: Counting | None, reports: _Reports) -> NoReturn:
    config = session.config
    config.pluginmanager.register(reports)
    try:
        for item, following in zip(unit.items, [*unit.items[1:], None], strict=True):
            counted = counting is not None and counting.wants(item)
            if counting is not None and counted:
                counting.start()
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if counting is not None and counted:
                counting.stop()
        if counting is not None and unit.path.startswith("tests/core/"):
            counting.save()
        # What pytest does at the end of a run, such as to tell of resources that nobody closed.
        config._ensure_unconfigure()
        atexit._run_exitfuncs()
        reports.send("ended", forked.cpu_s())
    except BaseException:  # noqa: BLE001 - whatever it is, it is told
        reports.send("broke", traceback.format_exc())
    os._exit(0)


def new_home() -> Path:
    """A directory for the temporary files of one file of tests."""
    return Path(tempfile.mkdtemp(prefix="cc-tests-"))


def remove(home: Path) -> None:
    """Remove it, whatever the tests left there."""
    shutil.rmtree(home, ignore_errors=True)
