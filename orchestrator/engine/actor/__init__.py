"""The actor of one task: its journal, its judgement, its calls."""

from orchestrator.engine.actor.actor import TaskActor
from orchestrator.engine.actor.interrupts import Leaving, note_failure
from orchestrator.engine.actor.journal import TaskJournal

__all__ = ["Leaving", "TaskActor", "TaskJournal", "note_failure"]
