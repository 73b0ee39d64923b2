"""Undos and other restorations, from the side of the server: what one would do, and the task that does it."""

from orchestrator.engine.undo.plans import Plans, Wish
from orchestrator.engine.undo.submission import Preview, Undoing, told_of

__all__ = ["Plans", "Preview", "Undoing", "Wish", "told_of"]
