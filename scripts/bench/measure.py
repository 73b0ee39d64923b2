"""What every bench measures with: the two clocks, medians, and processes that answer in JSON lines."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Timer
from types import TracebackType
from typing import Any, Final, Literal, Self

SCRIPTS: Final = Path(__file__).resolve().parent.parent
PYTHON_PATH: Final = os.pathsep.join((str(SCRIPTS), str(SCRIPTS.parent)))
"""Where workers find this package and the orchestrator: this checkout, whatever else is installed."""
WORKER_LIMIT_S: Final = 600.0
"""For one answer of a worker: the longest (eight tasks of 1,000 whole steps) takes a fifth of it."""


@dataclass(frozen=True)
class Line:
    """One line of the table; ``value``, ``wall`` and ``beside`` are in ``unit``."""

    bench: str
    what: str
    unit: str
    value: float
    wall: float | None = None
    """Wall time where ``value`` is CPU time; None: it is neither."""
    beside: float | None = None
    """The same of the peer or floor that ``what_beside`` names."""
    what_beside: str = ""
    judged: Literal["ratio", "value", "nothing"] = "nothing"
    """What the bar is held against: ``value`` itself, or ``value`` by ``beside``."""
    bar: float | None = None
    at_least: bool = False
    """The bar is a least and not a most."""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """``value`` by ``beside``; None: there is nothing beside."""
        return None if not self.beside else self.value / self.beside

    @property
    def holds(self) -> bool | None:
        """Whether the bar holds; None: there is none."""
        measured = self.ratio if self.judged == "ratio" else self.value
        if self.judged == "nothing" or self.bar is None or measured is None:
            return None
        return measured >= self.bar if self.at_least else measured <= self.bar

    def as_json(self) -> dict[str, Any]:
        """The line for ``--json``."""
        return {
            "bench": self.bench,
            "what": self.what,
            "unit": self.unit,
            "value": self.value,
            "wall": self.wall,
            "beside": self.beside,
            "what_beside": self.what_beside,
            "ratio": self.ratio,
            "judged": self.judged,
            "bar": self.bar,
            "at_least": self.at_least,
            "holds": self.holds,
            "note": self.note,
        }


@dataclass(frozen=True)
class WholeScale:
    """How much a run of the whole step does."""

    turns: int
    tasks: int
    """Tasks at once, each at a computer of its own."""
    steps: tuple[int, ...]
    peer_steps: tuple[int, ...]
    watchers: tuple[int, ...]
    """The first is 1: the others are held against it."""
    watched_steps: int


@dataclass(frozen=True)
class Scale:
    """How much a run does; ``turns`` is how often the compared processes take turns."""

    name: Literal["full", "quick", "tiny"]
    turns: int
    step_turns: int
    """Turns of the step bench, which is the longest."""
    clients: tuple[int, ...]
    calls: int
    """Calls of one turn, over all clients."""
    computers: int
    steps: tuple[int, ...]
    peer_steps: tuple[int, ...]
    appends: int
    """Appends of one turn, over all tasks."""
    tasks: int
    """Tasks of the store that is audited."""
    whole: WholeScale


SCALES: Final[Mapping[str, Scale]] = {
    "full": Scale(
        "full",
        5,
        3,
        (1, 100, 1000),
        4000,
        2000,
        (20, 100, 400, 1000),
        (20, 100, 400),
        2000,
        100_000,
        WholeScale(3, 8, (20, 100, 1000), (20, 100), (1, 30, 200), 100),
    ),
    "quick": Scale(
        "quick",
        3,
        3,
        (1, 100),
        2000,
        500,
        (20, 100, 400),
        (20, 100),
        600,
        10_000,
        WholeScale(1, 8, (20, 100), (20, 100), (1, 30), 20),
    ),
    # The tests': every path is walked, no figure means anything.
    "tiny": Scale("tiny", 1, 1, (1, 3), 30, 20, (4, 8), (4,), 20, 60, WholeScale(1, 2, (2, 4), (4,), (1, 3), 2)),
}


@dataclass(frozen=True)
class Asked:
    """What the command line asked of a bench."""

    scale: Scale
    directory: Path
    """Where databases are made."""
    store: str = ""
    """The URL of a PostgreSQL database for the benches of a store; empty: SQLite."""


class Spent:
    """CPU and wall seconds of this process between ``with`` and its end."""

    def __init__(self) -> None:
        self.cpu_s = self.wall_s = 0.0

    def __enter__(self) -> Self:
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.cpu_s = time.process_time() - self._cpu
        self.wall_s = time.perf_counter() - self._wall

    def per(self, count: int) -> dict[str, float]:
        """Microseconds for each of ``count``."""
        return {"cpu": self.cpu_s / count * 1e6, "wall": self.wall_s / count * 1e6}


def middle(turns: Iterable[Mapping[str, Any]], name: str) -> float:
    """The median of one figure over the turns."""
    return float(median(turn[name] for turn in turns))


def in_turns(turns: int, *asks: Callable[[], dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """What each answered, over all turns; they take turns so that noise is shared."""
    answers: list[list[dict[str, Any]]] = [[] for _ in asks]
    for _ in range(turns):
        for mine, ask in zip(answers, asks, strict=True):
            mine.append(ask())
    return answers


class WorkerFailed(Exception):
    """A worker ended or did not answer; the message has its last words."""


class Worker:
    """A process of one module of this package that answers each line of JSON with a line of JSON.

    ``python``: the Python that runs it; None: this one.
    """

    def __init__(self, module: str, *, python: Path | None = None, **options: Any) -> None:
        command = [str(python or sys.executable), "-P", "-m", f"bench.{module}", json.dumps(options, default=str)]
        self._what = f"bench.{module} {options.get('kind', '')}".rstrip()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Its answer. Raises WorkerFailed."""
        assert self._process.stdin
        assert self._process.stdout
        guard = Timer(WORKER_LIMIT_S, self._process.kill)
        guard.start()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError as error:
            raise WorkerFailed(f"{self._what} ended: {error}") from None
        finally:
            guard.cancel()
        if not line:
            raise WorkerFailed(f"{self._what} ended or took more than {WORKER_LIMIT_S:.0f} s; its stderr is above.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End it: closing its stdin asks, killing insists."""
        process = self._process
        if process.stdin:
            process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def _environment() -> dict[str, str]:
    told = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false", "PYTHONPATH": PYTHON_PATH}
    return {**os.environ, **told}


def raise_file_limit() -> int:
    """As many open files as this process may have; where that can be told, how many they are."""
    try:
        import resource
    except ImportError:
        return 512
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard
