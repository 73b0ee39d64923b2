"""Looks at everything that has to be right, with or without a running server, and says what fixes what is not."""

from orchestrator.terminal.doctor.local import Finding
from orchestrator.terminal.doctor.reach import examine

__all__ = ["Finding", "examine"]
