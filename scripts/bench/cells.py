"""A simulation of many cells: discrete events, with the costs that the bench measured.

``python3 scripts/bench/cells.py --from report.json`` prints a table for 100 cells and 1,000,000 computers. The same
seed gives the same table. Cells share nothing, so each is simulated by itself: a queue of events, the earliest first.

What is modelled: the client's dialling (after 1 s, doubled up to 12 s, with full jitter; every other dial to the router
while its cell does not answer), admission at a rate with a told delay, the CPU of a welcome on each of a cell's nodes,
and commits in groups. What is not: the network, the model servers, and people.
"""

import argparse
import heapq
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

FIRST_DELAY_S: Final = 1.0
LAST_DELAY_S: Final = 12.0
PATIENCE: Final = 3
"""Failures at a cell after which every other dial goes to the router, as in ``route.lua``."""
TABLE: Final = f"{'':<42}{'computers':>12}{'half':>9}{'99 %':>9}{'all':>9}{'most/s':>9}{'router/s':>10}"


@dataclass(frozen=True)
class Costs:
    """The costs of one cell; seconds."""

    welcome_s: float = 0.004
    """CPU of a node for one welcome, with its commits."""
    step_s: float = 0.008
    """CPU of a node for one step of a task."""
    commit_s: float = 0.002
    """One commit of a group to the disk."""
    commits_of_step: int = 4
    nodes: int = 3
    admitted_s: float = 300.0
    """Welcomes that a cell takes in each second."""


def measured(report: Path | None) -> Costs:
    """The costs as a JSON report of the bench has them; the defaults of what it does not have."""
    lines = [] if report is None else json.loads(report.read_text("utf-8"))["lines"]
    found = {(line["bench"], line["what"]): line for line in lines}
    step = found.get(("whole", "a step of 20"))
    costs = Costs()
    if step is not None:
        # Half of what a step costs is the model's reply and its folding; a welcome has neither.
        costs = replace(costs, step_s=step["value"] / 1000, welcome_s=step["value"] / 2000)
        costs = replace(costs, commit_s=max(step["beside"] / 2000, 0.0001))
    return costs


@dataclass
class Seen:
    """What one cell went through."""

    connected: list[float]
    """When each computer was welcome."""
    admitted: Counter[int]
    """Welcomes in each second."""
    at_router: Counter[int]
    """Dials of the router in each second."""
    dials: int = 0


def reconnecting(computers: int, costs: Costs, seed: int, *, back_s: float = 0.0, found_s: float = 0.0) -> Seen:
    """The computers of one cell that lost it at 0.

    ``back_s``: when its nodes answer again, ``found_s``: when the router leads to where they are; 0: at once.
    """
    dice = random.Random(seed)
    seen = Seen([], Counter(), Counter())
    nodes = [0.0] * costs.nodes
    """When each node has done the welcomes that it has."""
    promised = back_s
    """Until when places are given out: computers over the rate are told to come then."""
    moved = found_s > 0
    # Of each: when it dials, which one, its failures in a row, whether it has a place.
    events = [(dice.uniform(0, FIRST_DELAY_S), number, 0, False) for number in range(computers)]
    heapq.heapify(events)
    while events:
        now, number, failures, has_place = heapq.heappop(events)
        seen.dials += 1
        asks_router = failures >= PATIENCE and failures % 2 == 1
        if asks_router:
            seen.at_router[int(now)] += 1
        # A cell that came back elsewhere is found only by the router.
        if now < back_s or (moved and not has_place and (not asks_router or now < found_s)):
            ceiling = min(LAST_DELAY_S, FIRST_DELAY_S * 2**failures)
            heapq.heappush(events, (now + dice.uniform(0, ceiling) + 0.01, number, failures + 1, False))
            continue
        if not has_place:
            promised = max(promised + 1 / costs.admitted_s, now)
            if promised > now + 1 / costs.admitted_s:
                # Told when to come: its place in the line, so that nobody comes in vain.
                heapq.heappush(events, (promised, number, failures, True))
                continue
        seen.admitted[int(now)] += 1
        node = min(range(costs.nodes), key=nodes.__getitem__)
        nodes[node] = max(nodes[node], now) + costs.welcome_s
        seen.connected.append(nodes[node])
    seen.connected.sort()
    return seen


def stepping(tasks: int, costs: Costs, seed: int, *, think_s: float = 5.0, for_s: float = 120.0) -> tuple[float, float]:
    """Steps a second, and the wait of the 99th of 100, of tasks whose model thinks for so long before each step."""
    dice = random.Random(seed)
    nodes, disk = [0.0] * costs.nodes, Disk(costs.commit_s)
    waits: list[float] = []
    # Of each: when, which task, the commits that its step still needs (-1: the step begins), and when it began.
    events = [(dice.expovariate(1 / think_s), number, -1, 0.0) for number in range(tasks)]
    heapq.heapify(events)
    while events and events[0][0] <= for_s:
        now, number, commits, began = heapq.heappop(events)
        if commits < 0:
            node = min(range(costs.nodes), key=nodes.__getitem__)
            nodes[node] = max(nodes[node], now) + costs.step_s
            heapq.heappush(events, (nodes[node], number, costs.commits_of_step, now))
        elif commits:
            heapq.heappush(events, (disk.commit(now), number, commits - 1, began))
        else:
            waits.append(now - began)
            heapq.heappush(events, (now + dice.expovariate(1 / think_s), number, -1, 0.0))
    waits.sort()
    return len(waits) / for_s, waits[int(len(waits) * 0.99)] if waits else 0.0


class Disk:
    """Commits in groups: one that comes while a group is written goes with the next."""

    def __init__(self, commit_s: float) -> None:
        self._commit_s, self._busy_until, self._next = commit_s, 0.0, False

    def commit(self, now: float) -> float:
        """When a commit that is asked for now is durable; asked in the order of time."""
        if self._next and now >= self._busy_until:
            self._busy_until, self._next = self._busy_until + self._commit_s, False
        if now >= self._busy_until:
            self._busy_until = now + self._commit_s
            return self._busy_until
        self._next = True
        return self._busy_until + self._commit_s


def rows(cells: int, computers: int, costs: Costs, seed: int) -> Iterator[str]:
    """The table, row by row."""
    each = computers // cells
    storm = [reconnecting(each, costs, seed + number) for number in range(cells)]
    yield _row(f"reconnect storm in all {cells} cells", storm)
    restart = [reconnecting(each, costs, seed + number, back_s=30) for number in range(cells)]
    yield _row(f"all {cells} cells away for 30 s", restart)
    yield _row("a lost cell, back elsewhere after 120 s", [reconnecting(each, costs, seed, back_s=100, found_s=120)])
    slow = replace(costs, commit_s=0.2)
    # One computer in twenty has a task, as in a class that works.
    tasks = max(each // 20, 1)
    for name, one in (("a cell with its own disk", costs), ("a cell with a disk of 200 ms a commit", slow)):
        rate, wait = stepping(tasks, one, seed)
        yield f"{name:<42}{each:>12,}  {tasks} tasks: {rate:.0f} steps/s, 99 % within {wait:.2f} s"


def _row(name: str, seen: Sequence[Seen]) -> str:
    when = sorted(moment for one in seen for moment in one.connected)
    most = max(max(one.admitted.values()) for one in seen)
    router: Counter[int] = sum((one.at_router for one in seen), Counter())
    half, nearly, last = when[len(when) // 2], when[int(len(when) * 0.99)], when[-1]
    at_router = max(router.values(), default=0)
    return f"{name:<42}{len(when):>12,}{half:>7.1f} s{nearly:>7.1f} s{last:>7.1f} s{most:>9,}{at_router:>10,}"


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="scripts/bench/cells.py", description="Simulate many cells.")
    parser.add_argument("--from", dest="report", type=Path, help="the JSON that `scripts/bench --json` printed")
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--computers", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    asked: Any = parser.parse_args(arguments)
    costs = measured(asked.report)
    print(f"{costs}\n{TABLE}")
    for row in rows(asked.cells, asked.computers, costs, asked.seed):
        print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
