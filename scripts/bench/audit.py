"""What an audit costs where there is much: verifications, checkpoints and pages, in milliseconds.

Nothing stands beside them and no bar is held: what is to be seen is that the second of each costs what changed, and not
what there is.
"""

from collections.abc import Iterator
from typing import Any, Final

from bench.measure import Asked, Line, Worker

_ASKED: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("the first checkpoint", {"do": "checkpoint", "everything": True}),
    ("the first verification", {"do": "verify", "full": False}),
    ("a checkpoint of one change", {"do": "checkpoint", "everything": False}),
    ("a verification after one change", {"do": "verify", "full": False}),
    ("a full verification", {"do": "verify", "full": True}),
    ("the newest page", {"do": "page", "order": "newest", "last": False}),
    ("the oldest page of the newest first", {"do": "page", "order": "newest", "last": True}),
    ("the first page by task", {"do": "page", "order": "", "last": False}),
    ("the last page by task", {"do": "page", "order": "", "last": True}),
)


def lines(asked: Asked) -> Iterator[Line]:
    """A line for each."""
    tasks = asked.scale.tasks
    with Worker("audit_worker", directory=asked.directory / "audit") as worker:
        worker.ask(do="fill", tasks=tasks)
        for what, request in _ASKED:
            if "one change" in what:
                worker.ask(do="change")
            told = worker.ask(**request)
            cpu, wall = told["cpu"] / 1e3, told["wall"] / 1e3
            note = f"{told['read']:.0f} streams were read." if "read" in told else ""
            yield Line("audit", f"{what}, {tasks} tasks", "ms", cpu, wall=wall, note=note)
