"""The console reviewer: shows exactly what would run, and takes a decision at a prompt."""

from orchestrator.terminal.console.person import Desk, InputEnded, Overtaken, read_line
from orchestrator.terminal.console.prompt import ClientDesk, Console

__all__ = ["ClientDesk", "Console", "Desk", "InputEnded", "Overtaken", "read_line"]
