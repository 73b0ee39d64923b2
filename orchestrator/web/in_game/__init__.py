"""The in-game commands: ``cc ask``, ``tasks``, ``watch``, ``answer``, ``stop`` and ``undo``, typed at a computer."""

from orchestrator.web.in_game.commands import InGameCommands

__all__ = ["InGameCommands"]
