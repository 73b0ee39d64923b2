"""The evaluation of a model: tasks on simulated computers, checked by what is left and not by what is claimed."""

from orchestrator.evaluation.cases import EvalTask
from orchestrator.evaluation.comparing import Result, compared, read_result, spread_lines
from orchestrator.evaluation.house import PartFailed
from orchestrator.evaluation.plotting import page
from orchestrator.evaluation.running import MOST_S, Evaluation, Reviewer
from orchestrator.evaluation.scoring import Row
from orchestrator.evaluation.showing import lines_of, totals
from orchestrator.evaluation.task_files import tasks_in
from orchestrator.evaluation.tasks import TASKS, tasks_named

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
