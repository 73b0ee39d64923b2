"""The actor of one task: what it knows, what it judges, what it does."""

from orchestrator.actor.actor import TaskActor
from orchestrator.actor.giving_up import note_failure
from orchestrator.actor.journal import TaskJournal
from orchestrator.actor.leaving import Leaving

__all__ = ["Leaving", "TaskActor", "TaskJournal", "note_failure"]
