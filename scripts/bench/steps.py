"""A durable step with an instant model, beside the floor and beside what others need for it.

A step writes down what it is about to do and then what came of it, each in a commit that the disk
has before the step goes on; "by hand" does the same with ``sqlite3`` and nothing else. The kernel's
part of flushing a commit is in the figures, and on some disks it is most of them: the line "a commit"
says how much of it there is in one, each judged line how many there are in a step, and "in memory" is
the same step on a file system that has nothing to flush. The peers keep less: pydantic-ai's loop
nothing, LangGraph nothing without its saver and the whole state again at each step with it.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench import peers
from bench.measure import Asked, Line, Worker, in_turns, middle

BAR_US: Final = 150.0
FLAT_BAR: Final = 1.2
"""A step of the longest task that has to be flat, by a step of a short one."""
FLAT_AT: Final = 400
LEAST_STEPS: Final = 400
"""Steps of one turn: short tasks are repeated until there are so many."""
BY_HAND: Final = "by hand, two commits"
SHARED_MEMORY: Final = Path("/dev/shm")
OWN: Final = ("pydantic-ai's loop", "step_pydantic_ai", "bare")
"""The peer that is installed with this project."""
PEERS: Final = (
    ("LangGraph", "step_langgraph", "bare"),
    ("LangGraph, SQLite saver", "step_langgraph", "saving"),
)


def lines(asked: Asked) -> Iterator[Line]:
    """This project at each length, the peers, and what the disk takes."""
    ours, floor, flush = _ours(asked)
    note = _commits(asked, middle(flush, "cpu"))
    for steps, turns in ours.items():
        yield Line(
            "steps",
            f"a step of {steps}",
            "µs",
            middle(turns, "cpu"),
            wall=middle(turns, "wall"),
            beside=middle(floor, "cpu"),
            what_beside=BY_HAND,
            judged="value",
            bar=BAR_US,
            note=note,
        )
    short, longest = min(ours), FLAT_AT if FLAT_AT in ours else max(ours)
    yield Line(
        "steps",
        f"a step of {longest}",
        "µs",
        middle(ours[longest], "cpu"),
        beside=middle(ours[short], "cpu"),
        what_beside=f"a step of {short}",
        judged="ratio",
        bar=FLAT_BAR,
    )
    yield Line("steps", "a commit, nothing else", "µs", middle(flush, "cpu"), wall=middle(flush, "wall"))
    yield from _in_memory(asked)
    yield from _peers(asked, {steps: middle(turns, "cpu") for steps, turns in ours.items()})


def _commits(asked: Asked, flush_us: float) -> str:
    with Worker("step_worker", kind="commits", directory=asked.directory / "steps") as worker:
        count = worker.ask(steps=4, tasks=1)["commits"]
    return f"({count:g} commits, {count * flush_us:.0f} µs)"


def _tasks(asked: Asked, steps: int) -> int:
    return 1 if asked.scale.name == "tiny" else max(1, LEAST_STEPS // steps)


Turns = list[dict[str, float]]


def _ours(asked: Asked) -> tuple[dict[int, Turns], Turns, Turns]:
    """The turns of this project at each length, of the floor, and of a bare commit."""
    scale = asked.scale
    ours: dict[int, Turns] = {steps: [] for steps in scale.steps}
    floor: Turns = []
    flush: Turns = []
    middling = scale.steps[1]
    with ExitStack() as stack:
        worker, hand, disk = (
            stack.enter_context(Worker("step_worker", kind=kind, directory=asked.directory / "steps"))
            for kind in ("ours", "floor", "flush")
        )
        for _ in range(scale.step_turns):
            for steps, turns in ours.items():
                turns.append(worker.ask(steps=steps, tasks=_tasks(asked, steps)))
            floor.append(hand.ask(steps=middling, tasks=_tasks(asked, middling)))
            flush.append(disk.ask(steps=middling, tasks=_tasks(asked, middling)))
    return ours, floor, flush


def _in_memory(asked: Asked) -> Iterator[Line]:
    with _shared_memory() as directory:
        if directory is None:
            return
        steps = asked.scale.steps[1]
        with (
            Worker("step_worker", kind="ours", directory=directory) as ours,
            Worker("step_worker", kind="floor", directory=directory) as hand,
        ):
            size = {"steps": steps, "tasks": _tasks(asked, steps)}
            mine, by_hand = in_turns(asked.scale.step_turns, partial(ours.ask, **size), partial(hand.ask, **size))
    yield Line(
        "steps",
        f"a step of {steps}, in memory",
        "µs",
        middle(mine, "cpu"),
        wall=middle(mine, "wall"),
        beside=middle(by_hand, "cpu"),
        what_beside=BY_HAND,
    )


@contextmanager
def _shared_memory() -> Iterator[Path | None]:
    if not SHARED_MEMORY.is_dir():
        yield None
        return
    directory = Path(tempfile.mkdtemp(prefix="cc-orchestrator-bench-", dir=SHARED_MEMORY))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _peers(asked: Asked, ours: dict[int, float]) -> Iterator[Line]:
    apart = peers.python()
    for (name, module, kind), python in [(OWN, None), *((one, apart) for one in PEERS if apart)]:
        with Worker(module, python=python, kind=kind, directory=asked.directory / "peers") as worker:
            for steps in asked.scale.peer_steps:
                # Once: it is an order of magnitude, and stands in no bar.
                theirs = worker.ask(steps=steps, tasks=max(1, 100 // steps))
                what = f"a step of {steps}, {name}"
                yield Line(
                    "steps",
                    what,
                    "µs",
                    theirs["cpu"],
                    wall=theirs["wall"],
                    beside=ours.get(steps),
                    what_beside="ours",
                )
