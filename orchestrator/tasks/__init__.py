"""Everything that may happen to a task from outside its actor: load, decide, append, publish."""

from orchestrator.tasks.ids import new_call_id, new_item_id, new_request_id
from orchestrator.tasks.patience import AWAY, patiently
from orchestrator.tasks.rights import must_own, person
from orchestrator.tasks.service import Decided, TaskService
from orchestrator.tasks.showing import final_result, show

__all__ = [
    "AWAY", "Decided", "TaskService", "final_result", "must_own", "new_call_id", "new_item_id", "new_request_id",
    "patiently", "person", "show",
]  # fmt: skip
