"""The doctor: it looks at each condition of a working server, and names the fix of each fault."""

from orchestrator.terminal.doctor.local import Finding
from orchestrator.terminal.doctor.reach import examine

__all__ = ["Finding", "examine"]
