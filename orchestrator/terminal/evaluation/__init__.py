"""The evaluation of a model: tasks on simulated computers, judged by the files that are left, not by claims."""

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
