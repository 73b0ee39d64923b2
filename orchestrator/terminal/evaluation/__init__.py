"""The evaluation of a model: tasks on simulated computers, checked by what is left and not by what is claimed."""

from orchestrator.terminal.evaluation.cases import EvalTask
from orchestrator.terminal.evaluation.comparison import Result, compared, read_result, spread_lines
from orchestrator.terminal.evaluation.plots import page
from orchestrator.terminal.evaluation.processes import PartFailed
from orchestrator.terminal.evaluation.runs import MOST_S, Evaluation, Reviewer
from orchestrator.terminal.evaluation.scores import Row
from orchestrator.terminal.evaluation.table import lines_of, totals
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
