"""The console reviewer: shows exactly what would run, and takes a decision at a prompt."""

from orchestrator.console.console import ClientDesk, Console
from orchestrator.console.deciding import decision
from orchestrator.console.loop import ReviewLoop
from orchestrator.console.person import Desk
from orchestrator.console.rendering import describe
from orchestrator.console.terminal import InputEnded, Overtaken, read_line

__all__ = [
    "ClientDesk",
    "Console",
    "Desk",
    "InputEnded",
    "Overtaken",
    "ReviewLoop",
    "decision",
    "describe",
    "read_line",
]
