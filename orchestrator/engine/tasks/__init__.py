"""Everything that may happen to a task from outside its actor: load, decide, append, publish."""

from orchestrator.engine.tasks.ids import new_call_id, new_item_id, new_request_id
from orchestrator.engine.tasks.presentation import final_result, show
from orchestrator.engine.tasks.rights import must_own, person
from orchestrator.engine.tasks.service import Decided, TaskService
from orchestrator.engine.tasks.store_retries import AWAY, patiently

__all__ = [
    "AWAY", "Decided", "TaskService", "final_result", "must_own", "new_call_id", "new_item_id", "new_request_id",
    "patiently", "person", "show",
]  # fmt: skip
