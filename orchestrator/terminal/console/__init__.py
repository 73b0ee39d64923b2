"""The console reviewer: shows exactly what would run, and takes a decision at a prompt."""

from orchestrator.terminal.console.console import ClientDesk, Console
from orchestrator.terminal.console.decision import decision
from orchestrator.terminal.console.loop import ReviewLoop
from orchestrator.terminal.console.person import Desk
from orchestrator.terminal.console.request_view import describe
from orchestrator.terminal.console.terminal import InputEnded, Overtaken, read_line

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
