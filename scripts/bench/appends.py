"""Appends in a second through the port against the same items made by hand, with the same durability.

What is judged is held against ``by hand`` of ``append_worker``: the bytes of each item made and
chained, one row, one update of a head, commits shared as ours are. Beside it, unjudged, stands
SQLite alone: rows whose bytes are there already, with shared commits, and with a commit each.
With a PostgreSQL database both sides are that of ``postgres_worker``.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Final

from bench.measure import Asked, Line, Worker, in_turns, middle

BAR: Final = 0.5
TASKS: Final = (1, 100)
OFTEN: Final = 3
"""More and shorter turns than elsewhere: a disk is busy for seconds at a time, and for one side only."""
ALONE_PART: Final = 4
"""A commit each takes so long that a part of the appends has to tell."""
SERVER_FLOORS: Final = {"by_hand": "the same by hand", "rows": "bare rows"}
FLOORS: Final = {"by_hand": "the same by hand", "rows": "bare rows", "alone": "bare rows, own commits"}


def lines(asked: Asked) -> Iterator[Line]:
    """For each number of tasks: appends a second against the floor, and the CPU of each beside all floors."""
    module, where = "append_worker", "appends"
    floors: dict[str, str] = FLOORS
    if asked.store:
        module, where, floors = "postgres_worker", "appends on PostgreSQL", SERVER_FLOORS
    with ExitStack() as stack:
        workers = {
            kind: stack.enter_context(Worker(module, kind=kind, directory=asked.directory / "appends", url=asked.store))
            for kind in ("ours", *floors)
        }
        for tasks in TASKS:
            # One task shares its commits with nobody: there both are the same.
            kinds = [kind for kind in workers if kind != "alone" or tasks > 1]
            each = max(2, asked.scale.appends // OFTEN // (4 if tasks == 1 else 20))
            parts = {kind: max(1, each // ALONE_PART) if kind == "alone" else each for kind in kinds}
            asks = (partial(workers[kind].ask, tasks=tasks, each=parts[kind]) for kind in kinds)
            told = dict(zip(kinds, in_turns(asked.scale.turns * OFTEN, *asks), strict=True))
            mine = told.pop("ours")
            who = f"{tasks} task{'s' if tasks > 1 else ''}"
            yield Line(
                "appends",
                f"{where}, {who}",
                "/s",
                1e6 / middle(mine, "wall"),
                beside=1e6 / middle(told["by_hand"], "wall"),
                what_beside=FLOORS["by_hand"],
                judged="ratio",
                bar=BAR,
                at_least=True,
            )
            for kind, beside in told.items():
                yield Line(
                    "appends",
                    f"an append, {who}",
                    "µs",
                    middle(mine, "cpu"),
                    wall=middle(mine, "wall"),
                    beside=middle(beside, "cpu"),
                    what_beside=FLOORS[kind],
                )
