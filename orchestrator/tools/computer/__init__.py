"""The ``cc_*`` tools: what they do on a computer, and what a reviewer is shown before."""

from orchestrator.tools.computer.changes import cc_delete, cc_edit, cc_mkdir, cc_move, cc_write
from orchestrator.tools.computer.discovery import (
    cc_docs,
    cc_info,
    cc_peripheral_call,
    cc_screen,
    observe_peripheral_call,
)
from orchestrator.tools.computer.observation import (
    observe_delete,
    observe_edit,
    observe_mkdir,
    observe_move,
    observe_write,
)
from orchestrator.tools.computer.programs import (
    cc_run_program,
    cc_shell,
    cc_stop,
    observe_run,
    observe_shell,
    observe_stop,
)
from orchestrator.tools.computer.reads import cc_find, cc_list, cc_read
from orchestrator.tools.computer.restore import cc_restore, observe_restore

__all__ = [
    "cc_delete",
    "cc_docs",
    "cc_edit",
    "cc_find",
    "cc_info",
    "cc_list",
    "cc_mkdir",
    "cc_move",
    "cc_peripheral_call",
    "cc_read",
    "cc_restore",
    "cc_run_program",
    "cc_screen",
    "cc_shell",
    "cc_stop",
    "cc_write",
    "observe_delete",
    "observe_edit",
    "observe_mkdir",
    "observe_move",
    "observe_peripheral_call",
    "observe_restore",
    "observe_run",
    "observe_shell",
    "observe_stop",
    "observe_write",
]
