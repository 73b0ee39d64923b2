"""Looks at everything that has to be right, with or without a running server, and says what mends what is not."""

from orchestrator.doctor.examining import examine
from orchestrator.doctor.finding import Finding

__all__ = ["Finding", "examine"]
