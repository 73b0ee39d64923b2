"""The terminal UI: tasks, approvals, questions and computers on one screen, by keyboard alone.

Theory. The reviewers' socket says what waits, ``GET /v1/watch`` says what else changed, and everything else is
read when it is looked at. All text of the world comes through ``core/text/visible.py`` and is drawn as it is, never as
markup. A decision is about the request that was on the screen: it carries its digests, and what became of it is said.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.client import Client


def run_tui(client: "Client") -> int:
    """Run the terminal UI until the person leaves; the exit code. Raises ImportError without textual."""
    from orchestrator.terminal.tui.app import ConsoleApp

    return ConsoleApp(client).run_whole()
