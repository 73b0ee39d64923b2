"""The whole set, from the easiest on."""

from collections.abc import Sequence
from typing import Final

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.evaluation.cases import EvalTask
from orchestrator.terminal.evaluation.tasks_files import FILES
from orchestrator.terminal.evaluation.tasks_programs import PROGRAMS
from orchestrator.terminal.evaluation.tasks_reads import LOOKING

TASKS: Final[tuple[EvalTask, ...]] = (*PROGRAMS, *FILES, *LOOKING)


def tasks_named(names: Sequence[str], tasks: Sequence[EvalTask] = TASKS) -> tuple[EvalTask, ...]:
    """Those of these names, in the order of the set; all for no name. Raises InvalidRequest."""
    known = {task.name for task in tasks}
    for name in names:
        if name not in known:
            raise InvalidRequest(
                f"There is no task '{one_line(name)}' in the evaluation.",
                remedy=f"There are {', '.join(sorted(known))}.",
            )
    return tuple(task for task in tasks if not names or task.name in names)
