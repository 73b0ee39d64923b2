"""Moves a whole store: to a file and back, to another engine, with an inspection before and after."""

from orchestrator.history.store_move.copy import Moved, bring_forward, copy_store, export_store, import_store
from orchestrator.history.store_move.inspection import Checked, check_store_at, verify_store_at
from orchestrator.history.store_move.sides import shown

__all__ = [
    "Checked",
    "Moved",
    "bring_forward",
    "check_store_at",
    "copy_store",
    "export_store",
    "import_store",
    "shown",
    "verify_store_at",
]
