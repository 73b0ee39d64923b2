"""What a task's calls touch: its computers and the workspace, in one place for the actor."""

from orchestrator.world.settling import settled
from orchestrator.world.world import OUTCOME_UNKNOWN, Outcome, World, ran_by

__all__ = ["OUTCOME_UNKNOWN", "Outcome", "World", "ran_by", "settled"]
