"""Hands out the files of a run, one at a time, so that as many cores are busy as there are workers."""

import ctypes
import os
import pickle
import selectors
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from tests import ROOT, fork_server, forked
from tests.parallel import child
from tests.parallel.counting import Counting
from tests.parallel.load import Load, usable_cores
from tests.parallel.order import Needs, Unit
from tests.parallel.progress import Progress

LIMIT_S: Final = 600
"""For one test, in seconds of a machine that nothing else uses. The slowest test needs a twentieth of it."""
LOOK_S: Final = 1.0
"""How often the machine and the limits are looked at."""
END_S: Final = 5.0
"""How long servers may take to notice that their test is gone, before they are killed."""
SPARE: Final = 0.25
"""One more file begins where so much of a core is idle, as the record tells of those that run."""
IDLE: Final = 0.25
"""One more begins, too, where so much of a core was idle for a second: the record tells of another machine."""
MOST: Final = 3
"""Files that run at once for each worker, at most: each needs memory."""
PR_SET_CHILD_SUBREAPER: Final = 36
"""``prctl(2)``: processes whose parent is gone become children of this one."""


@dataclass
class Running:
    """A file that is being tested."""

    unit: Unit
    pid: int
    pipe: int
    home: Path
    began_s: float
    """On the clock of the system."""
    heard_s: float
    """When its process was last heard of, on the clock of the load."""
    received: bytearray = field(default_factory=bytearray)
    current: str = ""
    """The test that runs."""
    finished: set[str] = field(default_factory=set)
    forked_s: float = 0.0
    """CPU seconds of the commands that the fork server ran for it."""
    broke: str = ""
    """Why the process could not go on."""
    ended: bool = False


class Queue:
    """The files of a session, those that run, and what was heard of them."""

    def __init__(
        self, session: pytest.Session, units: Sequence[Unit], counting: Counting | None, limit_s: float = LIMIT_S
    ) -> None:
        self._session, self._config, self._counting = session, session.config, counting
        self._limit_s = limit_s
        # Another suite, as one that proves this runner, starts no command of this project.
        self._is_ours = session.config.rootpath == ROOT
        self._waiting = list(units)
        self._running: dict[int, Running] = {}
        self._selector = selectors.DefaultSelector()
        self._load = Load(usable_cores())
        self._progress = Progress(len(session.items), sum(unit.needs.cpu_s for unit in units))
        self._ended: dict[int, tuple[int, float]] = {}
        """Exit status and CPU seconds of processes that ended."""
        self.needed: dict[str, Needs] = {}
        """What each file needed."""

    def run(self, workers: float) -> None:
        """Run all files, and keep so many cores busy. Raises what pytest raises where ``-x`` or Ctrl-C ends a run."""
        assert threading.active_count() == 1, "only a process of one thread can be forked"
        if self._is_ours:
            forked.share()
            if any("postgres_of_run" in getattr(item, "fixturenames", ()) for item in self._session.items):
                _servers().share()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        fork_server.settle_garbage()
        looked = 0.0
        self._watch_for_ends()
        while self._waiting or self._running:
            while self._waiting and self._busy() <= workers - SPARE:
                self._start(self._waiting.pop(0))
            for key, _ in self._selector.select(LOOK_S):
                if key.data:
                    os.read(key.fd, 4096)
                    self._ended.update(_reaped())
                else:
                    self._hear(self._running[key.fd])
            if time.monotonic() - looked >= LOOK_S:
                looked = time.monotonic()
                self._load.look()
                if self._waiting and self._load.idle > IDLE and len(self._running) < MOST * workers:
                    self._start(self._waiting.pop(0))
                self._progress.tell()
                self._end_what_hangs()
            if self._session.shouldfail:
                raise self._session.Failed(self._session.shouldfail)
            if self._session.shouldstop:
                raise self._session.Interrupted(self._session.shouldstop)

    def end(self) -> None:
        """End every process that is left, and those that these started."""
        self._progress.end()
        for one in self._running.values():
            _kill(one.pid)
            os.close(one.pipe)
        if self._is_ours:
            _servers().unshare()
            forked.unshare()
        until = time.monotonic() + END_S
        while _children() and time.monotonic() < until:
            _reaped()
            time.sleep(0.05)
        while left := _children():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            _reaped()
        for one in self._running.values():
            child.remove(one.home)
        self._running.clear()

    def _busy(self) -> float:
        """How many cores are busy with the files that run, as the record tells."""
        return sum(one.unit.needs.cores for one in self._running.values())

    def _watch_for_ends(self) -> None:
        """Take notice of each process that ends, also of one that a test left: until then it would still be there."""
        woken, wake = os.pipe()
        for one in (woken, wake):
            os.set_blocking(one, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._selector.register(woken, selectors.EVENT_READ, "ends")

    # -- one file -------------------------------------------------------------------------

    def _start(self, unit: Unit) -> None:
        home = child.new_home()
        pid, pipe = child.fork(self._session, unit, self._counting, home)
        self._running[pipe] = Running(unit, pid, pipe, home, time.monotonic(), self._load.busy_s)
        self._selector.register(pipe, selectors.EVENT_READ)

    def _hear(self, one: Running) -> None:
        data = os.read(one.pipe, 1 << 20)
        if not data:
            self._is_over(one)
            return
        one.heard_s = self._load.busy_s
        one.received += data
        while len(one.received) >= 4 and len(one.received) >= (whole := 4 + int.from_bytes(one.received[:4])):
            kind, told = pickle.loads(bytes(one.received[4:whole]))
            del one.received[:whole]
            self._take(one, kind, told)

    def _take(self, one: Running, kind: str, told: Any) -> None:
        if kind == "began":
            one.current = told
        elif kind == "report":
            report = self._config.hook.pytest_report_from_serializable(config=self._config, data=told)
            if report.when == "teardown":
                one.finished.add(report.nodeid)
                one.current = ""
            self._report(report)
        elif kind == "ended":
            one.ended, one.forked_s = True, told
        else:
            one.broke = told

    def _report(self, report: pytest.TestReport) -> None:
        self._progress.done += report.when == "teardown"
        if report.failed:
            self._progress.tell_red(report.nodeid)
        self._config.hook.pytest_runtest_logreport(report=report)

    def _is_over(self, one: Running) -> None:
        self._selector.unregister(one.pipe)
        os.close(one.pipe)
        del self._running[one.pipe]
        while one.pid not in self._ended:
            self._ended.update(_reaped(wait=True))
        status, cpu_s = self._ended.pop(one.pid)
        self.needed[one.unit.path] = Needs(round(cpu_s + one.forked_s, 1), round(time.monotonic() - one.began_s, 1))
        self._progress.done_s += one.unit.needs.cpu_s
        if not one.ended:
            self._did_not_end(one, os.waitstatus_to_exitcode(status))
        child.remove(one.home)

    def _did_not_end(self, one: Running, code: int) -> None:
        """Blame the test that ran, and run the tests after it."""
        why = one.broke or f"The process of this file ended with exit code {code}."
        item = next((item for item in one.unit.items if item.nodeid == one.current), one.unit.items[-1])
        report = pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={},
            outcome="failed",
            longrepr=f"{why}\n{_stacks(one.home)}".strip(),
            when="call",
        )
        self._report(report)
        if one.current:
            one.finished.add(one.current)
            self._progress.done += 1
            rest = [item for item in one.unit.items if item.nodeid not in one.finished]
            if rest:
                self._waiting.insert(0, Unit(one.unit.path, rest, Needs(0.0, 0.0)))

    def _end_what_hangs(self) -> None:
        for one in self._running.values():
            item = next((item for item in one.unit.items if item.nodeid == one.current), None)
            mark = item.get_closest_marker("timeout") if item else None
            limit = max(self._limit_s, mark.args[0]) if mark else self._limit_s
            if self._load.busy_s - one.heard_s > limit and not one.broke:
                one.broke = f"Nothing happened for {limit:g} s of this machine's time: it hangs."
                os.kill(one.pid, signal.SIGUSR1)
                time.sleep(0.5)
                _kill(one.pid)


def _stacks(home: Path) -> str:
    """Where its threads were when it was ended; empty where it was not asked."""
    try:
        return (home / "stacks").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _servers() -> ModuleType:
    """The plugin of the servers, which pytest has to import first: otherwise its assertions say little."""
    return import_module("tests.servers")


def _kill(pid: int) -> None:
    """Kill the process of a file and what shares its session."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _reaped(*, wait: bool = False) -> dict[int, tuple[int, float]]:
    """The children that ended, by pid; with ``wait`` at least one, where there is any."""
    found: dict[int, tuple[int, float]] = {}
    with suppress(ChildProcessError):
        while (one := os.wait4(-1, 0 if wait and not found else os.WNOHANG))[0]:
            pid, status, usage = one
            found[pid] = (status, usage.ru_utime + usage.ru_stime)
    return found


def _children() -> list[int]:
    """The processes whose parent this one is, also by adoption; empty where the system does not tell."""
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []
