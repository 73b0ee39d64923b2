"""In-game commands: ``cc ask``, ``tasks``, ``watch``, ``answer``, ``stop`` and ``undo`` at a computer in the game."""

from orchestrator.web.in_game.commands import Desk, NewTask

__all__ = ["Desk", "NewTask"]
