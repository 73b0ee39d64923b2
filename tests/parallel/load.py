"""How many cores there are, and how busy they are: a slow test must not reach the limit for hangs."""

import os
import sys
import time
from math import ceil
from pathlib import Path
from typing import Final

SMOOTH: Final = 0.2
"""How much the newest look at the machine counts."""


class Load:
    """Seconds of a machine that nothing else uses: a clock that goes slower while processes wait for a core."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._at = time.monotonic()
        self.busy_s = 0.0
        """The time on this clock."""
        self.slowness = max(1.0, self._calibrated())
        """How many times longer things take than on an idle machine; 1.0 at least."""
        self.idle = 0.0
        """Cores that had nothing to do since the look before; 0 where this process may not use all cores."""
        self._waited = _idle_ticks()

    def look(self) -> None:
        """Move the clock on; called about once a second."""
        now = time.monotonic()
        slowness = max(1.0, _running() / self._cores)
        self.slowness += SMOOTH * (slowness - self.slowness)
        self.busy_s += (now - self._at) / self.slowness
        waited = _idle_ticks()
        ticks = (now - self._at) * os.sysconf("SC_CLK_TCK")
        self.idle = (waited - self._waited) / ticks if ticks and self._cores == os.cpu_count() else 0.0
        self._waited = waited
        self._at = now

    def _calibrated(self) -> float:
        """How much longer a short piece of work takes than the CPU time that it needs."""
        began, used = time.perf_counter(), time.process_time()
        while time.process_time() - used < 0.1:
            pass
        return (time.perf_counter() - began) / 0.1


def _running() -> int:
    """Processes that run or wait for a core now; 0 where the system does not tell."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("procs_running ")), 0)


def _idle_ticks() -> int:
    """Ticks of the clock that all cores together were idle since the machine began; 0 where the system does not tell.

    Source: ``proc(5)``; the time that waits for a disk counts as idle.
    """
    try:
        times = Path("/proc/stat").read_text().split(maxsplit=6)
    except OSError:
        return 0
    return int(times[4]) + int(times[5])


def usable_cores() -> int:
    """The cores that this process may use: its affinity, and the CPU quota of its control group."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    quota = cpu_quota(Path("/sys/fs/cgroup"))
    return max(1, cores if quota is None else min(cores, ceil(quota)))


def cpu_quota(group: Path) -> float | None:
    """Cores that the control group of this directory allows; None: as many as there are.

    Source: the kernel's documentation of ``cpu.max`` (version 2) and of ``cpu.cfs_quota_us`` (version 1).
    """
    try:
        quota, period = (group / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota, period = ((group / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        except OSError:
            return None
    try:
        return int(quota) / int(period) if int(quota) > 0 else None
    except (ValueError, ZeroDivisionError):
        # "max", or nothing that this knows.
        return None
