"""The evaluation of a model: tasks on simulated computers, judged by the files that are left, not by claims."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.terminal.evaluation.cases import EvalTask
    from orchestrator.terminal.evaluation.comparison import (
        Result,
        compared,
        lines_of,
        page,
        read_result,
        spread_lines,
        totals,
    )
    from orchestrator.terminal.evaluation.processes import PartFailed
    from orchestrator.terminal.evaluation.runs import MOST_S, Evaluation, Reviewer, Row
    from orchestrator.terminal.evaluation.task_files import tasks_in
    from orchestrator.terminal.evaluation.tasks import TASKS, tasks_named

_HOMES = {
    "cases": ("EvalTask",),
    "comparison": ("Result", "compared", "lines_of", "page", "read_result", "spread_lines", "totals"),
    "processes": ("PartFailed",),
    "runs": ("MOST_S", "Evaluation", "Reviewer", "Row"),
    "task_files": ("tasks_in",),
    "tasks": ("TASKS", "tasks_named"),
}

__all__ = [
    "MOST_S",
    "TASKS",
    "EvalTask",
    "Evaluation",
    "PartFailed",
    "Result",
    "Reviewer",
    "Row",
    "compared",
    "lines_of",
    "page",
    "read_result",
    "spread_lines",
    "tasks_in",
    "tasks_named",
    "totals",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used (PEP 562): the list of tasks needs nothing that plays them."""
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value
