"""The environment of a task's calls: its computers and the workspace, in one place for the actor."""

from orchestrator.tools.environment.environment import OUTCOME_UNKNOWN, Environment, Outcome, ran_by, settled

__all__ = ["OUTCOME_UNKNOWN", "Environment", "Outcome", "ran_by", "settled"]
