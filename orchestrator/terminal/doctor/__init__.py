"""Looks at everything that has to be right, with or without a running server, and says what fixes what is not."""

from orchestrator.terminal.doctor.examination import examine
from orchestrator.terminal.doctor.local import Finding

__all__ = ["Finding", "examine"]
