"""Every change of a task from outside its actor: load, decide, append, publish."""

from orchestrator.engine.tasks.service import Decided, TaskService, must_decide, must_own, person
from orchestrator.engine.tasks.stored import (
    AWAY,
    final_result,
    new_call_id,
    new_item_id,
    new_request_id,
    patiently,
    show,
)

__all__ = [
    "AWAY", "Decided", "TaskService", "final_result", "must_decide", "must_own", "new_call_id", "new_item_id",
    "new_request_id", "patiently", "person", "show",
]  # fmt: skip
