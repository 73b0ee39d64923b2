"""Moving a whole store: to a file and back, to another engine, and what an operator looks at before and after."""

from orchestrator.moving.checking import Checked, check_store_at, verify_store_at
from orchestrator.moving.copying import Moved, bring_forward, copy_store, export_store, import_store
from orchestrator.moving.sides import shown

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
