"""Undos and other restorations on the server: the preview of one, and the task that performs it."""

from orchestrator.engine.undo.plans import Plans, Wish
from orchestrator.engine.undo.submission import Preview, Undoing, told_of

__all__ = ["Plans", "Preview", "Undoing", "Wish", "told_of"]
