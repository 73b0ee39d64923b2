"""The player's desk: ``cc ask``, ``tasks``, ``watch``, ``answer``, ``stop`` and ``undo`` at a computer in the game."""

from orchestrator.desk.desk import Desk, NewTask

__all__ = ["Desk", "NewTask"]
