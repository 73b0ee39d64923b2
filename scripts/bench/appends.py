"""Appends in a second through the port against bare ``sqlite3`` with the same durability."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from bench.measure import Asked, Line, Worker, in_turns, middle

BAR: Final = 0.5
TASKS: Final = (1, 100)
OFTEN: Final = 3
"""More and shorter turns than elsewhere: a disk is busy for seconds at a time, and for one side only."""


def lines(asked: Asked) -> Iterator[Line]:
    """Three lines for each number of tasks: how many a second, and the CPU of each, beside two floors."""
    where = asked.directory / "appends"
    with (
        Worker("append_worker", kind="house", directory=where) as ours,
        Worker("append_worker", kind="bare", directory=where) as bare,
        Worker("append_worker", kind="sealed", directory=where) as sealed,
    ):
        for tasks in TASKS:
            each = max(2, asked.scale.appends // OFTEN // (4 if tasks == 1 else tasks))
            asks = (partial(worker.ask, tasks=tasks, each=each) for worker in (ours, bare, sealed))
            mine, theirs, by_hand = in_turns(asked.scale.turns * OFTEN, *asks)
            who = f"{tasks} task{'s' if tasks > 1 else ''}"
            yield Line(
                "appends",
                f"appends, {who}",
                "/s",
                1e6 / middle(mine, "wall"),
                beside=1e6 / middle(theirs, "wall"),
                what_beside="bare sqlite3",
                judged="ratio",
                bar=BAR,
                at_least=True,
            )
            for name, beside in (("bare sqlite3", theirs), ("JSON and hash by hand", by_hand)):
                yield Line(
                    "appends",
                    f"an append, {who}",
                    "µs",
                    middle(mine, "cpu"),
                    wall=middle(mine, "wall"),
                    beside=middle(beside, "cpu"),
                    what_beside=name,
                )
